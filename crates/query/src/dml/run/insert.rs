//! Inserts rows: each is completed with defaults, checked, and put where nothing, or what ON CONFLICT allows, is.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{Field, Schema};
use ashlar_base::{ColumnDef, ColumnDefault, ColumnId, Datum, Error, ErrorCode, Result, TableId, TableSchema, Value};
use ashlar_functions::error::from_datafusion;
use ashlar_functions::times::StatementTime;
use ashlar_functions::times::clock::with_time;
use ashlar_store::arrow_types::to_arrow_field;
use ashlar_store::{
    ColumnReader, Expiry, Mutation, Passed, Pending, ReadView, RowRef, Snapshot, Store, Way, build_array,
    expires_at_column,
};
use datafusion::datasource::{MemTable, TableProvider};
use datafusion::physical_expr::PhysicalExpr;
use futures::StreamExt;

use super::ahead::Ahead;
use super::outcome::{Outcome, Seen, bytes_of};
use super::{check, expiry_of};
use crate::assign::Assigned;
use crate::dml::returning::{ROWS, rows_schema};
use crate::dml::{Arbiters, Cell, Conflict, End, InsertPlan, Outputs, Source};
use crate::engine::Engine;
use crate::key_plan::{altered, missing_parameter};
use crate::resources::StatementResources;
use crate::select::SelectPlan;
use crate::sequences::Numbers;
use crate::transaction::Transaction;

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
    let numbers = transaction.numbers.clone().unwrap_or_default();
    let mut sink = InsertSink::new(engine, plan, snapshot, parameters, &numbers)?;
    sink.put_values(transaction, rows, parameters, None, &[])?;
    sink.settle(transaction)?;
    Ok(sink.finish_plain())
}

/// Inserts one row of constants and parameters in one trip to its partition, outside of any transaction.
///
/// # Errors
/// As [`insert_inline`]; 55P03 where somebody has locked the key, which `way` knows then.
pub fn insert_one(plan: &InsertPlan, way: &mut Way, parameters: &[Value], numbers: &Numbers) -> Result<Outcome> {
    let Source::Values { rows, .. } = &plan.source else {
        return Err(Error::internal("only a VALUES list is inserted inline"));
    };
    let [cells] = &rows[..] else {
        return Err(Error::internal("one trip inserts one row"));
    };
    let row = row_of(plan, cells, parameters, None, &[], numbers)?;
    let expiry = expiry_of_cells(plan, cells, parameters, None)?;
    let datums: Vec<Datum<'_>> = row.iter().map(Value::as_datum).collect();
    let key: Vec<Datum<'_>> = plan.schema.key.iter().map(|ordinal| datums[*ordinal].clone()).collect();
    let inserted = plan.region.entry_with(way, &key, |entry| {
        if entry.schema().version != plan.schema.version {
            return Err(altered(&plan.schema));
        }
        if matches!(plan.conflict, Conflict::Nothing) && entry.row().is_some() {
            return Ok(false);
        }
        let insert = Mutation::Insert { row: &datums };
        let applied = match expiry {
            None => entry.apply(insert),
            Some(expiry) => entry.apply(Mutation::Living { write: &insert, expiry }),
        };
        applied.map(|_| true)
    })?;
    let mut outcome = Outcome::default();
    if inserted {
        outcome.count = 1;
        if let Some(row) = stored(plan, row) {
            outcome.keep(row)?;
        }
    }
    Ok(outcome)
}

/// What is kept of a row for RETURNING: the columns that come back, or all that the query over the rows may read.
fn stored(plan: &InsertPlan, mut row: Vec<Value>) -> Option<Vec<Value>> {
    match &plan.returning.as_ref()?.outputs {
        Outputs::Plain(ordinals) => Some(ordinals.iter().map(|ordinal| row[*ordinal].clone()).collect()),
        Outputs::Query(_) | Outputs::Found(_) => {
            row.truncate(plan.schema.visible_columns().len());
            Some(row)
        }
    }
}

/// How many rows a VALUES list has; `None` for a query.
pub fn value_rows(plan: &InsertPlan) -> Option<usize> {
    match &plan.source {
        Source::Values { rows, .. } => Some(rows.len()),
        Source::Query(_) => None,
    }
}

fn key_of<'d>(schema: &TableSchema, row: &[Datum<'d>]) -> Vec<Datum<'d>> {
    schema.key.iter().map(|ordinal| row[*ordinal].clone()).collect()
}

/// The columns of which some row takes a number.
pub(super) fn counted(plan: &InsertPlan) -> Vec<(TableId, ColumnId)> {
    let is_default = |ordinal: usize| {
        let Source::Values { rows, .. } = &plan.source else { return false };
        let place = plan.targets.iter().position(|target| *target == ordinal);
        place.is_some_and(|place| rows.iter().any(|cells| matches!(cells.get(place), Some(Cell::Default))))
    };
    let takes = |(ordinal, column): &(usize, &ColumnDef)| {
        let counts = matches!(column.default, Some(ColumnDefault::Sequence(_)));
        counts && (!plan.targets.contains(ordinal) || is_default(*ordinal))
    };
    let columns = plan.schema.columns.iter().enumerate().filter(takes);
    columns.map(|(_, column)| (plan.region.counts_as(), column.id)).collect()
}

fn row_of(
    plan: &InsertPlan,
    cells: &[Cell],
    parameters: &[Value],
    computed: Option<&(RecordBatch, Arc<Schema>)>,
    defaults: &[(usize, Value)],
    numbers: &Numbers,
) -> Result<Vec<Value>> {
    let row = default_row(plan, defaults, numbers, |ordinal| is_default(plan, cells, ordinal))?;
    let row = filled(plan, row, cells, parameters, computed)?;
    check(&plan.region, &plan.schema, &row, None)?;
    Ok(row)
}

/// Whether a row of a VALUES list takes a column's default.
fn is_default(plan: &InsertPlan, cells: &[Cell], ordinal: usize) -> bool {
    !plan.targets.contains(&ordinal)
        || plan.targets.iter().zip(cells).any(|(target, cell)| *target == ordinal && matches!(cell, Cell::Default))
}

/// A row of defaults with the values of its cells.
fn filled(
    plan: &InsertPlan,
    mut row: Vec<Value>,
    cells: &[Cell],
    parameters: &[Value],
    computed: Option<&(RecordBatch, Arc<Schema>)>,
) -> Result<Vec<Value>> {
    for (ordinal, cell) in plan.targets.iter().zip(cells) {
        if let Some(value) = value_of(plan, cell, &plan.schema.columns[*ordinal], parameters, computed)? {
            row[*ordinal] = value;
        }
    }
    Ok(row)
}

/// The value of a cell for a column; `None`: the default.
fn value_of(
    plan: &InsertPlan,
    cell: &Cell,
    column: &ColumnDef,
    parameters: &[Value],
    computed: Option<&(RecordBatch, Arc<Schema>)>,
) -> Result<Option<Value>> {
    match cell {
        Cell::Operand(operand) => operand.value(parameters).map(Some),
        Cell::Default => Ok(None),
        Cell::Computed(number) => {
            let Some((batch, schema)) = computed else {
                return Err(Error::internal("a computed cell has a plan"));
            };
            let assigned = Assigned::new(batch.column(*number), schema.field(*number), column, plan.zone)?;
            assigned.value(0).map(Some)
        }
    }
}

/// What a row of a VALUES list says about when it ends; `None`: nothing, or DEFAULT.
fn expiry_of_cells(
    plan: &InsertPlan,
    cells: &[Cell],
    parameters: &[Value],
    computed: Option<&(RecordBatch, Arc<Schema>)>,
) -> Result<Option<Expiry>> {
    let Some(cell) = cells.get(plan.targets.len()) else { return Ok(None) };
    let value = value_of(plan, cell, &expires_at_column(), parameters, computed)?;
    Ok(value.as_ref().map(expiry_of))
}

/// A row of defaults; sequences advance only for the columns that `wants` them.
///
/// # Errors
/// 2200H after the last number of a sequence.
fn default_row(
    plan: &InsertPlan,
    defaults: &[(usize, Value)],
    numbers: &Numbers,
    wants: impl Fn(usize) -> bool,
) -> Result<Vec<Value>> {
    let value = |(ordinal, column): (usize, &ColumnDef)| match &column.default {
        Some(ColumnDefault::Constant(value)) => Ok(value.clone()),
        Some(ColumnDefault::Sequence(_)) if wants(ordinal) => numbers.take(&plan.region, column),
        Some(ColumnDefault::Expression(_)) => {
            let value = defaults.iter().find(|(known, _)| *known == ordinal);
            Ok(value.map_or(Value::Null, |(_, value)| value.clone()))
        }
        _ => Ok(Value::Null),
    };
    plan.schema.columns.iter().enumerate().map(value).collect()
}

/// A row, or why there is none, with numbers for columns that count. They are drawn when it is the row's turn: a statement that fails has
/// drawn none for rows behind.
///
/// # Errors
/// 2200H after the last number of a sequence, and then that of the row.
fn numbered(plan: &InsertPlan, row: Result<Vec<Value>>, drawn: &[usize], numbers: &Numbers) -> Result<Vec<Value>> {
    let number = |ordinal: &usize| numbers.take(&plan.region, &plan.schema.columns[*ordinal]);
    let taken = drawn.iter().map(number).collect::<Result<Vec<Value>>>()?;
    let mut row = row?;
    for (ordinal, number) in drawn.iter().zip(taken) {
        row[*ordinal] = number;
    }
    Ok(row)
}

/// The values of a row that is there.
///
/// # Errors
/// 40001 where the table was altered since the statement was planned: the plan's ordinals mean other columns now.
fn values_of(plan: &InsertPlan, row: &RowRef<'_>) -> Result<Vec<Value>> {
    if row.schema().version == plan.schema.version { Ok(row.to_values()) } else { Err(altered(&plan.schema)) }
}

pub(super) struct InsertSink<'a> {
    plan: &'a InsertPlan,
    snapshot: Snapshot,
    outcome: Outcome,
    /// Keys that this statement has written, where a conflict updates: one row must not be updated twice.
    touched: Seen,
    /// Keys of rows that are over already, and that the statements which follow must not find.
    over: Vec<Vec<Value>>,
    /// The parameters that ON CONFLICT reads, as columns of one row.
    parameters: Vec<(Field, ArrayRef)>,
    /// Those that the session is given.
    numbers: Numbers,
    store: &'a Store,
}

impl<'a> InsertSink<'a> {
    pub(super) fn new(
        engine: &'a Engine,
        plan: &'a InsertPlan,
        snapshot: Snapshot,
        values: &[Value],
        numbers: &Numbers,
    ) -> Result<Self> {
        let mut parameters = Vec::new();
        if let Conflict::Update { parameters: read, .. } = &plan.conflict {
            for (number, sql_type) in read {
                let value = values.get(*number).ok_or_else(|| missing_parameter(*number))?;
                let field =
                    Field::clone(&ashlar_functions::fields::field_of("parameter", *sql_type)).with_nullable(true);
                parameters.push((field, build_array(*sql_type, std::iter::once(value.as_datum()))?));
            }
        }
        let store = engine.store();
        let numbers = numbers.clone();
        let (outcome, touched) = (Outcome::new(store), Seen::new(store));
        Ok(Self { plan, snapshot, outcome, touched, over: Vec::new(), parameters, numbers, store })
    }

    /// Whether more than one row was written.
    pub(super) fn has_several(&self) -> bool {
        self.outcome.count > 1
    }

    pub(super) fn row_of_cells(
        &self,
        cells: &[Cell],
        parameters: &[Value],
        computed: Option<&(RecordBatch, Arc<Schema>)>,
        defaults: &[(usize, Value)],
    ) -> Result<Vec<Value>> {
        row_of(self.plan, cells, parameters, computed, defaults, &self.numbers)
    }

    /// Puts the rows of a VALUES list, whose defaults are the same for all of them.
    pub(super) fn put_values(
        &mut self,
        transaction: &mut Transaction,
        rows: &[Vec<Cell>],
        parameters: &[Value],
        computed: Option<&(RecordBatch, Arc<Schema>)>,
        defaults: &[(usize, Value)],
    ) -> Result<()> {
        let plan = self.plan;
        if rows.len() < 2 || !plan.region.computes_checks() {
            for cells in rows {
                let row = self.row_of_cells(cells, parameters, computed, defaults)?;
                let expiry = expiry_of_cells(plan, cells, parameters, computed)?;
                self.put(transaction, row, expiry, None)?;
            }
            return Ok(());
        }
        let numbers = self.numbers.clone();
        let counted =
            |ordinal: &usize| matches!(plan.schema.columns[*ordinal].default, Some(ColumnDefault::Sequence(_)));
        let counted: Vec<usize> = (0..plan.schema.columns.len()).filter(counted).collect();
        let made = |at: usize| {
            filled(plan, default_row(plan, defaults, &numbers, |_| false)?, &rows[at], parameters, computed)
        };
        let mut ahead = Ahead::new(&plan.region, plan.schema.version, &counted, self.store.reservation());
        for (at, cells) in rows.iter().enumerate() {
            let drawn: Vec<usize> =
                counted.iter().copied().filter(|&ordinal| is_default(plan, cells, ordinal)).collect();
            let row = ahead.row(at, rows.len(), made);
            let row = numbered(plan, row, &drawn, &numbers)?;
            check(&plan.region, &plan.schema, &row, ahead.passed())?;
            let expiry = expiry_of_cells(plan, cells, parameters, computed)?;
            self.put(transaction, row, expiry, ahead.passed())?;
        }
        Ok(())
    }

    pub(super) fn put_batch(
        &mut self,
        transaction: &mut Transaction,
        batch: &RecordBatch,
        output: &Schema,
        defaults: &[(usize, Value)],
    ) -> Result<()> {
        let (plan, numbers) = (self.plan, self.numbers.clone());
        let schema = Arc::clone(&plan.schema);
        let mut assigned = Vec::with_capacity(batch.num_columns());
        for (place, ordinal) in plan.targets.iter().enumerate().take(batch.num_columns()) {
            let (number, column) = (plan.output(place), &schema.columns[*ordinal]);
            assigned.push((*ordinal, Assigned::new(batch.column(number), output.field(number), column, plan.zone)?));
        }
        let column = expires_at_column();
        let ends = plan
            .expiry
            .map(|number| Assigned::new(batch.column(number), output.field(number), &column, plan.zone))
            .transpose()?;
        let is_drawn = |ordinal: &usize| {
            let is_counted = matches!(schema.columns[*ordinal].default, Some(ColumnDefault::Sequence(_)));
            is_counted && !assigned.iter().any(|(target, _)| target == ordinal)
        };
        let drawn: Vec<usize> = (0..schema.columns.len()).filter(is_drawn).collect();
        let made = |row: usize| -> Result<Vec<Value>> {
            let mut values = default_row(plan, defaults, &numbers, |_| false)?;
            for (ordinal, assigned) in &assigned {
                values[*ordinal] = assigned.value(row)?;
            }
            Ok(values)
        };
        let mut ahead = Ahead::new(&plan.region, schema.version, &drawn, self.store.reservation());
        for row in 0..batch.num_rows() {
            let values = ahead.row(row, batch.num_rows(), made);
            let values = numbered(plan, values, &drawn, &numbers)?;
            check(&plan.region, &schema, &values, ahead.passed())?;
            let end = ends.as_ref().map(|ends| ends.value(row)).transpose()?;
            self.put(transaction, values, end.as_ref().map(expiry_of), ahead.passed())?;
        }
        Ok(())
    }

    /// Puts a row where it belongs, which may be one of those that have passed the CHECK constraints together. `expiry`: what the
    /// statement says about when it ends; `None`: nothing, or DEFAULT.
    pub(super) fn put(
        &mut self,
        transaction: &mut Transaction,
        row: Vec<Value>,
        expiry: Option<Expiry>,
        passed: Option<&Passed>,
    ) -> Result<()> {
        let plan = self.plan;
        let version = plan.schema.version;
        let datums: Vec<Datum<'_>> = row.iter().map(Value::as_datum).collect();
        let key = || plan.schema.key.iter().map(|ordinal| datums[*ordinal].clone()).collect::<Vec<Datum<'_>>>();
        let of_new = expiry.unwrap_or(Expiry::Table);
        if matches!(plan.conflict, Conflict::Fail) {
            let (writes, region) = (&mut transaction.writes, &plan.region);
            return match writes.insert_passed(region, version, &self.snapshot, &datums, of_new, passed) {
                Ok(()) => {
                    if self.is_over(transaction, of_new) {
                        self.note_over(&datums)?;
                    }
                    self.count(row)
                }
                Err(error) => Err(transaction.taken(&plan.region, &key(), error, &self.snapshot)),
            };
        }
        let Some(existing) = self.existing(transaction, &datums)? else {
            if matches!(plan.conflict, Conflict::Update { .. }) {
                self.touched.add(&plan.schema, &key_of(&plan.schema, &datums))?;
            }
            // Whoever is first with the same key: the other's transaction is tried again and finds the row, which is what
            // ON CONFLICT promises. An insert would fail with 23505, as it must where the conflict is not about the key.
            let (writes, region) = (&mut transaction.writes, &plan.region);
            match &plan.arbiters {
                Arbiters::Any | Arbiters::Key => {
                    let expiry = expiry.unwrap_or(Expiry::Keep);
                    writes.put_passed(region, version, &self.snapshot, &datums, expiry, passed)?;
                }
                Arbiters::Indexes(_) => {
                    let done = writes.insert_passed(region, version, &self.snapshot, &datums, of_new, passed);
                    done.map_err(|error| transaction.taken(region, &key(), error, &self.snapshot))?;
                }
            }
            if self.is_over(transaction, of_new) {
                self.note_over(&datums)?;
            }
            return self.count(row);
        };
        let Conflict::Update { assignments, end, filter, .. } = &plan.conflict else {
            return Ok(());
        };
        let owned: Vec<Datum<'_>> = existing.iter().map(Value::as_datum).collect();
        let key = key_of(&plan.schema, &owned);
        if self.touched.contains(&plan.schema, &key) {
            return Err(Error::new(
                ErrorCode::CardinalityViolation,
                "ON CONFLICT DO UPDATE command cannot affect row a second time",
            )
            .with_hint(
                "Ensure that no rows proposed for insertion within the same command have duplicate constrained values.",
            ));
        }
        if !transaction.lock_to_write(&plan.region, &key, false, &self.snapshot)? {
            return Err(transaction.begin_again());
        }
        let both = batch_of(&plan.schema, &[existing.clone(), row.clone()], &self.parameters)?;
        if let Some(filter) = filter {
            let passed = evaluate(filter, &both, transaction.time)?;
            let passed = datafusion::common::cast::as_boolean_array(&passed).map_err(from_datafusion)?.iter().next();
            if passed.flatten() != Some(true) {
                return Ok(());
            }
        }
        self.touched.add(&plan.schema, &key)?;
        let expiry = match end {
            None => Expiry::Keep,
            Some(End::OfTable) => Expiry::Table,
            Some(End::OfExcluded) => of_new,
            Some(End::At(expr, sql_type)) => {
                let value = evaluate(expr, &both, transaction.time)?;
                let field = ashlar_functions::fields::field_of("value", *sql_type);
                let end = Assigned::new(&value, &field, &expires_at_column(), plan.zone)?.value(0)?;
                expiry_of(&end)
            }
        };
        let is_over = self.is_over(transaction, expiry);
        if is_over && !transaction.lock_to_write(&plan.region, &key, true, &self.snapshot)? {
            return Err(transaction.begin_again());
        }
        let mut updated = existing;
        for (ordinal, expr, sql_type) in assignments {
            let value = evaluate(expr, &both, transaction.time)?;
            let field = ashlar_functions::fields::field_of("value", *sql_type);
            updated[*ordinal] = Assigned::new(&value, &field, &plan.schema.columns[*ordinal], plan.zone)?.value(0)?;
        }
        check(&plan.region, &plan.schema, &updated, None)?;
        let datums: Vec<Datum<'_>> = updated.iter().map(Value::as_datum).collect();
        transaction.writes.put(&plan.region, version, &self.snapshot, &datums, expiry)?;
        if is_over {
            self.note_over(&datums)?;
        }
        self.count(updated)
    }

    /// Whether a row that was given this life is over, in a block whose next statements must not find it. A statement by itself has
    /// none: its row ends by its time.
    fn is_over(&self, transaction: &Transaction, expiry: Expiry) -> bool {
        let Expiry::At(end) = expiry else { return false };
        !transaction.is_one_statement && end <= self.store.now_millis()
    }

    /// Remembers a row that was written and is over. It goes with the end of the statement, whose other rows may not have its key.
    fn note_over(&mut self, row: &[Datum<'_>]) -> Result<()> {
        let key: Vec<Value> = key_of(&self.plan.schema, row).iter().map(Datum::to_value).collect();
        self.outcome.hold(&key)?;
        self.over.push(key);
        Ok(())
    }

    /// The end of the rows: what they have in unique indexes is checked, and those go that are over.
    ///
    /// # Errors
    /// 23505, 40001, 53200
    pub(super) fn settle(&mut self, transaction: &mut Transaction) -> Result<()> {
        let plan = self.plan;
        transaction.check_values(&plan.region)?;
        for key in std::mem::take(&mut self.over) {
            let key: Vec<Datum<'_>> = key.iter().map(Value::as_datum).collect();
            transaction.writes.delete(&plan.region, plan.schema.version, &self.snapshot, &key)?;
        }
        Ok(())
    }

    /// The row that a proposed one meets, as this transaction sees it.
    fn existing(&self, transaction: &mut Transaction, row: &[Datum<'_>]) -> Result<Option<Vec<Value>>> {
        let plan = self.plan;
        let indexes = match &plan.arbiters {
            Arbiters::Indexes(indexes) => indexes.clone(),
            Arbiters::Key => Vec::new(),
            Arbiters::Any if !plan.region.has_checks() => Vec::new(),
            Arbiters::Any => {
                let mut standing = plan.region.standing_indexes();
                standing.retain(|index| index.unique.is_some() && plan.region.is_complete(index));
                standing
            }
        };
        if !matches!(plan.arbiters, Arbiters::Indexes(_)) {
            let found = self.at_key(transaction, &key_of(&plan.schema, row))?;
            if found.is_some() {
                return Ok(found);
            }
        }
        let version = plan.schema.version;
        for index in indexes {
            let key = transaction.writes.conflicting(&plan.region, version, &self.snapshot, index.id, row)?;
            let Some(key) = key else { continue };
            let key: Vec<Datum<'_>> = key.iter().map(Value::as_datum).collect();
            if let Some(found) = self.at_key(transaction, &key)? {
                return Ok(Some(found));
            }
            // Committed after the statement's snapshot: to change it then is a conflict, to leave it is none.
            let found = plan.region.get(&key, |row| row.map(|row| values_of(plan, &row)).transpose())?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The row of a key, as this transaction sees it.
    fn at_key(&self, transaction: &Transaction, key: &[Datum<'_>]) -> Result<Option<Vec<Value>>> {
        let plan = self.plan;
        match transaction.writes.get(&plan.region, key) {
            Pending::Deleted => Ok(None),
            Pending::Row(existing) => values_of(plan, &existing).map(Some),
            Pending::Untouched => {
                plan.region.check_birth(&self.snapshot)?;
                plan.region.get_at(&self.snapshot, key, |existing| {
                    existing.map(|existing| values_of(plan, &existing)).transpose()
                })
            }
        }
    }

    fn count(&mut self, row: Vec<Value>) -> Result<()> {
        self.outcome.count += 1;
        match stored(self.plan, row) {
            Some(row) => self.outcome.keep(row),
            None => Ok(()),
        }
    }

    /// What was done, where RETURNING has plain columns at most.
    fn finish_plain(self) -> Outcome {
        self.outcome
    }

    /// What was done; `view`, where RETURNING is a query, shows the tables as they were before.
    pub(super) async fn finish(
        self,
        engine: &Engine,
        parameters: &[Value],
        over: Option<(Cow<'_, SelectPlan>, Arc<ReadView>)>,
        resources: &StatementResources,
    ) -> Result<Outcome> {
        let mut outcome = self.outcome;
        let Some((select, view)) = over else { return Ok(outcome) };
        if outcome.rows.is_empty() {
            return Ok(outcome);
        }
        let rows = std::mem::take(&mut outcome.rows);
        // As columns they take as much again.
        let mut copied = engine.store().reservation();
        rows.iter().try_for_each(|row| copied.grow(bytes_of(row)))?;
        let visible = self.plan.schema.visible_columns();
        let mut arrays = Vec::with_capacity(visible.len() + 1);
        for (ordinal, column) in visible.iter().enumerate() {
            arrays.push(build_array(column.sql_type, rows.iter().map(|row| row[ordinal].as_datum()))?);
        }
        arrays.push(Arc::new(Int64Array::from_iter_values((0i64..).take(rows.len()))));
        drop(rows);
        outcome.forget();
        let schema = rows_schema(&self.plan.schema);
        let table = RecordBatch::try_new(Arc::clone(&schema), arrays)
            .map_err(Into::into)
            .and_then(|batch| MemTable::try_new(schema, vec![vec![batch]]))
            .map_err(from_datafusion)?;
        let table: Arc<dyn TableProvider> = Arc::new(table);
        let mut stream = select.over(ROWS, &table)?.stream(engine, parameters, view, resources).await?;
        // In the order of the rows, whichever way they went.
        let mut numbered: Vec<(Option<i64>, Vec<Value>)> = Vec::new();
        while let Some(batch) = stream.next().await {
            let batch = batch.map_err(from_datafusion)?;
            let columns = batch.columns().iter().zip(select.columns.iter());
            let readers =
                columns.map(|(array, column)| ColumnReader::new(array, column.sql_type)).collect::<Result<Vec<_>>>()?;
            for row in 0..batch.num_rows() {
                let mut values: Vec<Value> = readers.iter().map(|reader| reader.datum(row).to_value()).collect();
                let number = match values.pop() {
                    Some(Value::Int8(number)) => Some(number),
                    _ => None,
                };
                outcome.hold(&values)?;
                numbered.push((number, values));
            }
        }
        numbered.sort_by_key(|(number, _)| *number);
        outcome.rows = numbered.into_iter().map(|(_, values)| values).collect();
        Ok(outcome)
    }
}

fn evaluate(expr: &Arc<dyn PhysicalExpr>, batch: &RecordBatch, time: StatementTime) -> Result<ArrayRef> {
    with_time(time, || expr.evaluate(batch))
        .and_then(|value| value.into_array(batch.num_rows()))
        .map_err(from_datafusion)
}

fn columns_of(schema: &TableSchema, rows: &[Vec<Value>]) -> Result<Vec<ArrayRef>> {
    let column = |(ordinal, column): (usize, &ColumnDef)| {
        build_array(column.sql_type, rows.iter().map(|row| row[ordinal].as_datum()))
    };
    schema.columns.iter().enumerate().map(column).collect()
}

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
