//! Runs planned DML inside a transaction: rows are read under one snapshot, changes go into the write set.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Field, Schema};
use ashlar_base::{ColumnDefault, Datum, Error, ErrorCode, Result, TableSchema, Value};
use ashlar_store::arrow_types::to_arrow_field;
use ashlar_store::{ColumnReader, Mutation, Pending, Region, Snapshot, build_array};
use datafusion::physical_expr::PhysicalExpr;
use futures::StreamExt;

use super::{Cell, Conflict, DeletePlan, InsertPlan, Returning, Source, UpdatePlan};
use crate::assign::Assigned;
use crate::catalog::CatalogState;
use crate::engine::Engine;
use crate::error::from_datafusion;
use crate::functions::times::StatementTime;
use crate::functions::times::clock::with_time;
use crate::key_plan::{altered, missing_parameter, not_null};
use crate::select::SelectPlan;
use crate::transaction::Transaction;

/// What a DML statement did.
#[derive(Default)]
pub struct Outcome {
    /// Rows inserted, updated or deleted.
    pub count: u64,
    /// RETURNING, row by row.
    pub rows: Vec<Vec<Value>>,
}

/// What running needs beside the plan.
pub struct Run<'a> {
    /// The engine.
    pub engine: &'a Engine,
    /// The picture of the catalog that the plan was made against.
    pub catalog: &'a CatalogState,
    /// Where changes go.
    pub transaction: &'a mut Transaction,
    /// `$1`, `$2`, ...
    pub parameters: &'a [Value],
}

impl Run<'_> {
    /// INSERT
    ///
    /// # Errors
    /// 23505, 23502 and what evaluating finds; the caller rolls the write set back to where it was.
    pub async fn insert(&mut self, plan: &InsertPlan) -> Result<Outcome> {
        let snapshot = self.transaction.snapshot(self.engine.store());
        let mut sink = InsertSink::new(plan, snapshot.clone(), self.parameters)?;
        match &plan.source {
            Source::Values { rows, computed } => {
                let computed = match computed {
                    Some(computed) => Some(self.one_row(computed, snapshot.clone()).await?),
                    None => None,
                };
                let mut defaults = self.defaults(plan, snapshot.clone()).await?;
                for (number, cells) in rows.iter().enumerate() {
                    if number > 0 && plan.has_volatile_default() {
                        defaults = self.defaults(plan, snapshot.clone()).await?;
                    }
                    let row = sink.row_of_cells(cells, self.parameters, computed.as_ref(), &defaults)?;
                    sink.put(self.transaction, row)?;
                }
            }
            Source::Query(select) => {
                let defaults = self.defaults(plan, snapshot.clone()).await?;
                let mut stream = self.start(select, snapshot.clone()).await?;
                while let Some(batch) = stream.next().await {
                    let batch = batch.map_err(from_datafusion)?;
                    if !plan.has_volatile_default() {
                        sink.put_batch(self.transaction, &batch, &select.schema(), &defaults)?;
                        continue;
                    }
                    // `random()` and its like: another value for each row.
                    for row in 0..batch.num_rows() {
                        let defaults = self.defaults(plan, snapshot.clone()).await?;
                        sink.put_batch(self.transaction, &batch.slice(row, 1), &select.schema(), &defaults)?;
                    }
                }
            }
        }
        sink.finish(self.transaction.time)
    }

    /// UPDATE
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub async fn update(&mut self, plan: &UpdatePlan) -> Result<Outcome> {
        let snapshot = self.transaction.snapshot(self.engine.store());
        let schema = &plan.schema;
        let output = plan.select.schema();
        let mut batches = self.collect(&plan.select, snapshot.clone()).await?;
        let mut seen: HashSet<Vec<u8>> = HashSet::new();
        let mut changes: Vec<(Vec<Value>, Vec<Value>)> = Vec::new();
        let mut outcome = Outcome::default();
        let key_changes = plan.assigned.iter().any(|ordinal| schema.key.contains(ordinal));
        for batch in batches.drain(..) {
            let row_columns = readers(&batch, schema)?;
            let mut assigned = Vec::new();
            for (number, ordinal) in plan.assigned.iter().enumerate() {
                let place = schema.columns.len() + number;
                assigned.push(Assigned::new(
                    batch.column(place),
                    output.field(place),
                    &schema.columns[*ordinal],
                    self.engine.zone(),
                )?);
            }
            for row in 0..batch.num_rows() {
                let old: Vec<Value> = row_columns.iter().map(|reader| reader.datum(row).to_value()).collect();
                // A join may find a row several times: PostgreSQL updates it once.
                if !seen.insert(key_bytes(schema, &old)) {
                    continue;
                }
                let mut new = old.clone();
                for (ordinal, assigned) in plan.assigned.iter().zip(&assigned) {
                    new[*ordinal] = assigned.value(row)?;
                }
                check(&plan.region, schema, &new)?;
                if key_changes {
                    changes.push((old, new));
                } else {
                    let datums: Vec<Datum<'_>> = new.iter().map(Value::as_datum).collect();
                    self.transaction.writes.upsert(&plan.region, schema.version, &snapshot, &datums)?;
                    outcome.count += 1;
                    if plan.returning.is_some() {
                        outcome.rows.push(new);
                    }
                }
            }
        }
        // Keys that move: all old ones leave before the new ones come, so that a shift by one does not collide.
        for (old, _) in &changes {
            let key: Vec<Datum<'_>> = schema.key.iter().map(|ordinal| old[*ordinal].as_datum()).collect();
            self.transaction.writes.delete(&plan.region, schema.version, &snapshot, &key)?;
        }
        for (_, new) in changes {
            let datums: Vec<Datum<'_>> = new.iter().map(Value::as_datum).collect();
            self.transaction.writes.insert(&plan.region, schema.version, &snapshot, &datums)?;
            outcome.count += 1;
            if plan.returning.is_some() {
                outcome.rows.push(new);
            }
        }
        finish(plan.returning.as_ref(), schema, outcome, self.transaction.time)
    }

    /// DELETE
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub async fn delete(&mut self, plan: &DeletePlan) -> Result<Outcome> {
        let snapshot = self.transaction.snapshot(self.engine.store());
        let schema = &plan.schema;
        let batches = self.collect(&plan.select, snapshot.clone()).await?;
        let mut seen: HashSet<Vec<u8>> = HashSet::new();
        let mut outcome = Outcome::default();
        for batch in &batches {
            let row_columns = readers(batch, schema)?;
            for row in 0..batch.num_rows() {
                let old: Vec<Value> = row_columns.iter().map(|reader| reader.datum(row).to_value()).collect();
                if !seen.insert(key_bytes(schema, &old)) {
                    continue;
                }
                let key: Vec<Datum<'_>> = schema.key.iter().map(|ordinal| old[*ordinal].as_datum()).collect();
                self.transaction.writes.delete(&plan.region, schema.version, &snapshot, &key)?;
                outcome.count += 1;
                if plan.returning.is_some() {
                    outcome.rows.push(old);
                }
            }
        }
        finish(plan.returning.as_ref(), schema, outcome, self.transaction.time)
    }

    async fn start(
        &mut self,
        select: &SelectPlan,
        snapshot: Snapshot,
    ) -> Result<datafusion::execution::SendableRecordBatchStream> {
        let view = self.transaction.view(snapshot, self.catalog);
        select.stream(self.engine, self.parameters, view, self.transaction.time).await
    }

    async fn collect(&mut self, select: &SelectPlan, snapshot: Snapshot) -> Result<Vec<RecordBatch>> {
        let view = self.transaction.view(snapshot, self.catalog);
        select.collect(self.engine, self.parameters, view, self.transaction.time).await
    }

    async fn one_row(&mut self, select: &SelectPlan, snapshot: Snapshot) -> Result<(RecordBatch, Arc<Schema>)> {
        let batches = self.collect(select, snapshot).await?;
        let schema = select.schema();
        let batch =
            arrow::compute::concat_batches(&batches.first().map_or(Arc::clone(&schema), RecordBatch::schema), &batches)
                .map_err(|error| from_datafusion(error.into()))?;
        if batch.num_rows() != 1 {
            return Err(Error::internal("the values of a row are one row"));
        }
        Ok((batch, schema))
    }

    async fn defaults(&mut self, plan: &InsertPlan, snapshot: Snapshot) -> Result<Vec<(usize, Value)>> {
        let mut defaults = Vec::new();
        for (ordinal, select) in &plan.defaults {
            let (batch, schema) = self.one_row(select, snapshot.clone()).await?;
            let assigned = Assigned::new(batch.column(0), schema.field(0), &plan.schema.columns[*ordinal], plan.zone)?;
            defaults.push((*ordinal, assigned.value(0)?));
        }
        Ok(defaults)
    }
}

/// Inserts rows of constants and parameters, without the engine: the path of most INSERT statements.
///
/// # Errors
/// 23505, 23502 and what the values find.
pub fn insert_inline(
    engine: &Engine,
    transaction: &mut Transaction,
    plan: &InsertPlan,
    parameters: &[Value],
) -> Result<Outcome> {
    let Source::Values { rows, .. } = &plan.source else {
        return Err(Error::internal("only a VALUES list is inserted inline"));
    };
    let snapshot = transaction.snapshot(engine.store());
    let mut sink = InsertSink::new(plan, snapshot, parameters)?;
    for cells in rows {
        let row = sink.row_of_cells(cells, parameters, None, &[])?;
        sink.put(transaction, row)?;
    }
    sink.finish(transaction.time)
}

/// Inserts one row of constants and parameters in one trip to its partition, outside of any transaction.
///
/// # Errors
/// As [`insert_inline`].
pub fn insert_one(plan: &InsertPlan, parameters: &[Value]) -> Result<Outcome> {
    let Source::Values { rows, .. } = &plan.source else {
        return Err(Error::internal("only a VALUES list is inserted inline"));
    };
    let [cells] = &rows[..] else {
        return Err(Error::internal("one trip inserts one row"));
    };
    let row = row_of(plan, cells, parameters, None, &[])?;
    let datums: Vec<Datum<'_>> = row.iter().map(Value::as_datum).collect();
    let key: Vec<Datum<'_>> = plan.schema.key.iter().map(|ordinal| datums[*ordinal].clone()).collect();
    let inserted = plan.region.entry(&key, |entry| {
        if entry.schema().version != plan.schema.version {
            return Err(altered(&plan.schema));
        }
        if matches!(plan.conflict, Conflict::Nothing) && entry.row().is_some() {
            return Ok(false);
        }
        entry.apply(Mutation::Insert { row: &datums }).map(|_| true)
    })?;
    let mut outcome = Outcome::default();
    if inserted {
        outcome.count = 1;
        if plan.returning.is_some() {
            outcome.rows.push(row);
        }
    }
    finish(plan.returning.as_ref(), &plan.schema, outcome, StatementTime::now())
}

/// How many rows a VALUES list has; `None` for a query.
pub fn value_rows(plan: &InsertPlan) -> Option<usize> {
    match &plan.source {
        Source::Values { rows, .. } => Some(rows.len()),
        Source::Query(_) => None,
    }
}

fn row_of(
    plan: &InsertPlan,
    cells: &[Cell],
    parameters: &[Value],
    computed: Option<&(RecordBatch, Arc<Schema>)>,
    defaults: &[(usize, Value)],
) -> Result<Vec<Value>> {
    let mut row = default_row(plan, defaults, |ordinal| {
        !plan.targets.contains(&ordinal)
            || plan.targets.iter().zip(cells).any(|(target, cell)| *target == ordinal && matches!(cell, Cell::Default))
    });
    for (ordinal, cell) in plan.targets.iter().zip(cells) {
        match cell {
            Cell::Operand(operand) => row[*ordinal] = operand.value(parameters)?,
            Cell::Default => {}
            Cell::Computed(number) => {
                let Some((batch, schema)) = computed else {
                    return Err(Error::internal("a computed cell has a plan"));
                };
                let column = &plan.schema.columns[*ordinal];
                row[*ordinal] =
                    Assigned::new(batch.column(*number), schema.field(*number), column, plan.zone)?.value(0)?;
            }
        }
    }
    check(&plan.region, &plan.schema, &row)?;
    Ok(row)
}

/// A row of defaults; sequences advance only for the columns that `wants` them.
fn default_row(plan: &InsertPlan, defaults: &[(usize, Value)], wants: impl Fn(usize) -> bool) -> Vec<Value> {
    let column = |(ordinal, column): (usize, &ashlar_base::ColumnDef)| match &column.default {
        Some(ColumnDefault::Constant(value)) => value.clone(),
        Some(ColumnDefault::Sequence) if wants(ordinal) => sequence_value(&plan.region, column),
        Some(ColumnDefault::Expression(_)) => {
            defaults.iter().find(|(known, _)| *known == ordinal).map_or(Value::Null, |(_, value)| value.clone())
        }
        _ => Value::Null,
    };
    plan.schema.columns.iter().enumerate().map(column).collect()
}

/// The next number of the table's counter, as the column's integer type.
pub fn sequence_value(region: &Region, column: &ashlar_base::ColumnDef) -> Value {
    use ashlar_base::{ScalarType, SqlType};
    let next = region.next_sequence();
    match column.sql_type {
        SqlType::Scalar(ScalarType::Int2) => i16::try_from(next).map_or(Value::Null, Value::Int2),
        SqlType::Scalar(ScalarType::Int4) => i32::try_from(next).map_or(Value::Null, Value::Int4),
        _ => Value::Int8(next),
    }
}

struct InsertSink<'a> {
    plan: &'a InsertPlan,
    snapshot: Snapshot,
    outcome: Outcome,
    /// Keys that this statement has written, where a conflict updates: one row must not be updated twice.
    touched: HashSet<Vec<u8>>,
    /// The parameters that ON CONFLICT reads, as columns of one row.
    parameters: Vec<(Field, ArrayRef)>,
}

impl<'a> InsertSink<'a> {
    fn new(plan: &'a InsertPlan, snapshot: Snapshot, values: &[Value]) -> Result<Self> {
        let mut parameters = Vec::new();
        if let Conflict::Update { parameters: read, .. } = &plan.conflict {
            for (number, sql_type) in read {
                let value = values.get(*number).ok_or_else(|| missing_parameter(*number))?;
                let field = Field::clone(&crate::expressions::field_of("parameter", *sql_type)).with_nullable(true);
                parameters.push((field, build_array(*sql_type, std::iter::once(value.as_datum()))?));
            }
        }
        Ok(Self { plan, snapshot, outcome: Outcome::default(), touched: HashSet::new(), parameters })
    }

    fn row_of_cells(
        &self,
        cells: &[Cell],
        parameters: &[Value],
        computed: Option<&(RecordBatch, Arc<Schema>)>,
        defaults: &[(usize, Value)],
    ) -> Result<Vec<Value>> {
        row_of(self.plan, cells, parameters, computed, defaults)
    }

    fn put_batch(
        &mut self,
        transaction: &mut Transaction,
        batch: &RecordBatch,
        output: &Schema,
        defaults: &[(usize, Value)],
    ) -> Result<()> {
        let schema = Arc::clone(&self.plan.schema);
        let mut assigned = Vec::with_capacity(batch.num_columns());
        for (number, ordinal) in self.plan.targets.iter().enumerate().take(batch.num_columns()) {
            assigned.push((
                *ordinal,
                Assigned::new(batch.column(number), output.field(number), &schema.columns[*ordinal], self.plan.zone)?,
            ));
        }
        for row in 0..batch.num_rows() {
            let mut values =
                default_row(self.plan, defaults, |ordinal| !assigned.iter().any(|(target, _)| *target == ordinal));
            for (ordinal, assigned) in &assigned {
                values[*ordinal] = assigned.value(row)?;
            }
            check(&self.plan.region, &schema, &values)?;
            self.put(transaction, values)?;
        }
        Ok(())
    }

    fn put(&mut self, transaction: &mut Transaction, row: Vec<Value>) -> Result<()> {
        let plan = self.plan;
        let version = plan.schema.version;
        let datums: Vec<Datum<'_>> = row.iter().map(Value::as_datum).collect();
        if matches!(plan.conflict, Conflict::Fail) {
            transaction.writes.insert(&plan.region, version, &self.snapshot, &datums)?;
            return self.count(row);
        }
        let key: Vec<Datum<'_>> = plan.schema.key.iter().map(|ordinal| datums[*ordinal].clone()).collect();
        let existing = match transaction.writes.get(&plan.region, &key) {
            Pending::Deleted => None,
            Pending::Row(existing) => Some(existing.to_values()),
            Pending::Untouched => {
                plan.region.get_at(&self.snapshot, &key, |existing| existing.map(|existing| existing.to_values()))
            }
        };
        let Some(existing) = existing else {
            if matches!(plan.conflict, Conflict::Update { .. }) {
                self.touched.insert(key_bytes(&plan.schema, &row));
            }
            transaction.writes.insert(&plan.region, version, &self.snapshot, &datums)?;
            return self.count(row);
        };
        let Conflict::Update { assignments, filter, .. } = &plan.conflict else {
            return Ok(());
        };
        if !self.touched.insert(key_bytes(&plan.schema, &row)) {
            return Err(Error::new(
                ErrorCode::CardinalityViolation,
                "ON CONFLICT DO UPDATE command cannot affect row a second time",
            )
            .with_hint(
                "Ensure that no rows proposed for insertion within the same command have duplicate constrained values.",
            ));
        }
        let both = batch_of(&plan.schema, &[existing.clone(), row.clone()], &self.parameters)?;
        if let Some(filter) = filter {
            let passed = evaluate(filter, &both, transaction.time)?;
            let passed = datafusion::common::cast::as_boolean_array(&passed).map_err(from_datafusion)?.iter().next();
            if passed.flatten() != Some(true) {
                return Ok(());
            }
        }
        let mut updated = existing;
        for (ordinal, expr, sql_type) in assignments {
            let value = evaluate(expr, &both, transaction.time)?;
            let field = crate::expressions::field_of("value", *sql_type);
            updated[*ordinal] = Assigned::new(&value, &field, &plan.schema.columns[*ordinal], plan.zone)?.value(0)?;
        }
        check(&plan.region, &plan.schema, &updated)?;
        let datums: Vec<Datum<'_>> = updated.iter().map(Value::as_datum).collect();
        transaction.writes.upsert(&plan.region, version, &self.snapshot, &datums)?;
        self.count(updated)
    }

    fn count(&mut self, row: Vec<Value>) -> Result<()> {
        self.outcome.count += 1;
        if self.plan.returning.is_some() {
            self.outcome.rows.push(row);
        }
        Ok(())
    }

    fn finish(self, time: StatementTime) -> Result<Outcome> {
        finish(self.plan.returning.as_ref(), &self.plan.schema, self.outcome, time)
    }
}

/// Turns the affected rows into what RETURNING asks for.
fn finish(
    returning: Option<&Returning>,
    schema: &TableSchema,
    mut outcome: Outcome,
    time: StatementTime,
) -> Result<Outcome> {
    let Some(returning) = returning else {
        return Ok(outcome);
    };
    if let Some(plain) = &returning.plain {
        for row in &mut outcome.rows {
            *row = plain.iter().map(|ordinal| row[*ordinal].clone()).collect();
        }
        return Ok(outcome);
    }
    if outcome.rows.is_empty() {
        return Ok(outcome);
    }
    let arrays = columns_of(schema, &outcome.rows)?;
    let fields: Vec<Field> = schema.columns.iter().map(to_arrow_field).map(|field| field.with_nullable(true)).collect();
    let batch =
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(|error| from_datafusion(error.into()))?;
    let mut outputs = Vec::new();
    for (expr, column) in returning.exprs.iter().zip(returning.columns.iter()) {
        outputs.push((evaluate(expr, &batch, time)?, column.sql_type));
    }
    let mut rows = vec![Vec::with_capacity(outputs.len()); batch.num_rows()];
    for (array, sql_type) in &outputs {
        let reader = ColumnReader::new(array, *sql_type)?;
        for (row, values) in rows.iter_mut().enumerate() {
            values.push(reader.datum(row).to_value());
        }
    }
    outcome.rows = rows;
    Ok(outcome)
}

fn evaluate(expr: &Arc<dyn PhysicalExpr>, batch: &RecordBatch, time: StatementTime) -> Result<ArrayRef> {
    with_time(time, || expr.evaluate(batch))
        .and_then(|value| value.into_array(batch.num_rows()))
        .map_err(from_datafusion)
}

fn columns_of(schema: &TableSchema, rows: &[Vec<Value>]) -> Result<Vec<ArrayRef>> {
    let column = |(ordinal, column): (usize, &ashlar_base::ColumnDef)| {
        build_array(column.sql_type, rows.iter().map(|row| row[ordinal].as_datum()))
    };
    schema.columns.iter().enumerate().map(column).collect()
}

/// One row with the columns of several rows of the table side by side.
/// One row: the columns of several, one behind the other, and parameters behind them.
fn batch_of(schema: &TableSchema, rows: &[Vec<Value>], parameters: &[(Field, ArrayRef)]) -> Result<RecordBatch> {
    let mut fields = Vec::new();
    let mut arrays = Vec::new();
    for row in rows {
        arrays.extend(columns_of(schema, std::slice::from_ref(row))?);
        fields.extend(schema.columns.iter().map(to_arrow_field).map(|field| field.with_nullable(true)));
    }
    for (field, array) in parameters {
        fields.push(field.clone());
        arrays.push(Arc::clone(array));
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(|error| from_datafusion(error.into()))
}

fn readers<'b>(batch: &'b RecordBatch, schema: &TableSchema) -> Result<Vec<ColumnReader<'b>>> {
    schema
        .columns
        .iter()
        .enumerate()
        .map(|(ordinal, column)| ColumnReader::new(batch.column(ordinal), column.sql_type))
        .collect()
}

/// The key's bytes, for sets of rows seen.
fn key_bytes(schema: &TableSchema, row: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for ordinal in &schema.key {
        let before = bytes.len();
        bytes.extend_from_slice(&[0; 4]);
        ashlar_base::value::binary::encode(schema.columns[*ordinal].sql_type, &row[*ordinal].as_datum(), &mut bytes);
        let length = u32::try_from(bytes.len() - before - 4).unwrap_or(u32::MAX);
        bytes[before..before + 4].copy_from_slice(&length.to_be_bytes());
    }
    bytes
}

fn check(region: &Region, schema: &TableSchema, row: &[Value]) -> Result<()> {
    for (ordinal, column) in schema.columns.iter().enumerate() {
        if row[ordinal].is_null() && !column.nullable {
            return Err(not_null(schema, ordinal).with_detail(failing_row(schema, row)));
        }
    }
    let datums: Vec<Datum<'_>> = row.iter().map(Value::as_datum).collect();
    region.check_row(&datums)
}

/// `Failing row contains (1, null).`
fn failing_row(schema: &TableSchema, row: &[Value]) -> String {
    let mut text = Vec::from(*b"Failing row contains (");
    for (ordinal, column) in schema.visible_columns().iter().enumerate() {
        if ordinal > 0 {
            text.extend_from_slice(b", ");
        }
        match &row[ordinal] {
            Value::Null => text.extend_from_slice(b"null"),
            value => ashlar_base::value::text::write(
                column.sql_type,
                &value.as_datum(),
                &ashlar_base::value::text::TextStyle::default(),
                &mut text,
            ),
        }
    }
    text.extend_from_slice(b").");
    String::from_utf8_lossy(&text).into_owned()
}
