//! Runs planned DML inside a transaction: rows are read under one snapshot, changes go into the write set.
//!
//! Rows are changed as they are found: the query reads a picture of the transaction as it was before the statement. What has
//! to be kept until the end (RETURNING, rows whose keys move, the keys that were seen) is charged to the store.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use ashlar_base::value::text::Zone;
use ashlar_base::{Datum, Error, Result, TableSchema, Value};
use ashlar_functions::error::from_datafusion;
use ashlar_store::{ColumnReader, Expiry, Passed, ReadView, Region, Snapshot};
use datafusion::datasource::TableProvider;
use futures::StreamExt;

use super::{DeletePlan, InsertPlan, Outputs, Returning, Source, UpdatePlan};
use crate::assign::Assigned;
use crate::catalog::CatalogState;
use crate::copy::CopyPlan;
use crate::engine::Engine;
use crate::key_plan::not_null;
use crate::resources::StatementResources;
use crate::select::SelectPlan;
use crate::statement::Kind;
use crate::transaction::Transaction;

mod ahead;
mod change;
mod insert;
mod outcome;
mod with_changes;

pub use insert::{insert_inline, insert_one, value_rows};
pub use outcome::{Outcome, bytes_of};

use change::{Delete, Update};
use insert::InsertSink;

/// Rows that are changed on the thread of a connection: others on it wait meanwhile.
const CHANGED_MAX: usize = 256;

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
    /// What it may take.
    pub resources: &'a StatementResources,
    /// What the parts of the statement have in common, where it has several.
    shared: Shared,
}

/// What the parts of a statement have in common.
#[derive(Clone, Default)]
struct Shared {
    /// The picture of the tables that each of them reads; `None`: the one at its own beginning.
    picture: Option<(Snapshot, Arc<ReadView>)>,
    /// The rows of parts that have run, each as a table by the name by which plans read it.
    given: Vec<(String, Arc<dyn TableProvider>)>,
}

impl<'a> Run<'a> {
    /// Ready to run a statement.
    pub fn new(
        engine: &'a Engine,
        catalog: &'a CatalogState,
        transaction: &'a mut Transaction,
        parameters: &'a [Value],
        resources: &'a StatementResources,
    ) -> Self {
        Self { engine, catalog, transaction, parameters, resources, shared: Shared::default() }
    }
}

impl Run<'_> {
    /// Whether it runs a part of a statement that has several.
    pub(crate) fn is_part(&self) -> bool {
        self.shared.picture.is_some()
    }

    /// The snapshot that the statement reads.
    pub(crate) fn snapshot(&mut self) -> Snapshot {
        match &self.shared.picture {
            Some((snapshot, _)) => snapshot.clone(),
            None => self.transaction.snapshot(self.engine.store()),
        }
    }

    /// The picture of the tables that it reads: what the transaction has written is in it.
    fn view(&self, snapshot: Snapshot) -> Arc<ReadView> {
        match &self.shared.picture {
            Some((_, view)) => Arc::clone(view),
            None => self.transaction.view(snapshot, self.catalog),
        }
    }

    /// A query that reads what parts before have given.
    fn over_given(&self, select: &SelectPlan) -> Result<Option<SelectPlan>> {
        let mut over = None;
        for (name, table) in &self.shared.given {
            over = Some(over.as_ref().unwrap_or(select).over(name, table)?);
        }
        Ok(over)
    }

    /// INSERT
    ///
    /// # Errors
    /// 23505, 23502, 53200 and what evaluating finds; the caller rolls the write set back to where it was.
    pub async fn insert(&mut self, plan: &InsertPlan) -> Result<Outcome> {
        let snapshot = self.snapshot();
        // A query over the rows reads the tables as they were.
        let outputs = plan.returning.as_ref().map(|returning| &returning.outputs);
        let over = match outputs {
            Some(Outputs::Query(select)) => {
                let select = self.over_given(select)?.map_or(Cow::Borrowed(&**select), Cow::Owned);
                Some((select, self.view(snapshot.clone())))
            }
            _ => None,
        };
        let numbers = self.transaction.numbers.clone().unwrap_or_default();
        let expecting = numbers.expecting(insert::counted(plan));
        let mut sink = InsertSink::new(self.engine, plan, snapshot.clone(), self.parameters, &numbers)?;
        match &plan.source {
            Source::Values { rows, computed } => {
                let computed = match computed {
                    Some(computed) => Some(self.one_row(computed, snapshot.clone()).await?),
                    None => None,
                };
                let mut defaults = self.defaults(plan, snapshot.clone()).await?;
                // Where a default is another one for each row, each is by itself.
                let together = if plan.has_volatile_default() { 1 } else { rows.len().max(1) };
                for (number, rows) in rows.chunks(together).enumerate() {
                    if number > 0 {
                        defaults = self.defaults(plan, snapshot.clone()).await?;
                    }
                    sink.put_values(self.transaction, rows, self.parameters, computed.as_ref(), &defaults)?;
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
        sink.settle(self.transaction)?;
        // Of one row RETURNING tells the same after the row as after the statement.
        let _expecting = sink.has_several().then_some(expecting);
        sink.finish(self.engine, self.parameters, over, self.resources).await
    }

    /// UPDATE
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub async fn update(&mut self, plan: &UpdatePlan) -> Result<Outcome> {
        if plan.locked.is_empty() {
            return self.update_rows(plan).await;
        }
        let values = Box::pin(self.lock_subqueries(&plan.locked, &plan.select)).await?;
        self.with(&values).update_rows(plan).await
    }

    async fn update_rows(&mut self, plan: &UpdatePlan) -> Result<Outcome> {
        let mut update = Update::new(self, plan);
        let mut stream = self.start(&plan.select, update.snapshot.clone()).await?;
        while let Some(batch) = stream.next().await {
            update.take(self, &batch.map_err(from_datafusion)?)?;
        }
        update.finish(self)
    }

    /// UPDATE or DELETE of few rows, found without the engine: on the thread of the connection, which waits for nobody.
    /// `None`, and nothing is changed, where it is not about few.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn change_few(&mut self, kind: &Kind) -> Result<Option<Outcome>> {
        match kind {
            Kind::Update(plan) if plan.locked.is_empty() => {
                let mut update = Update::new(self, plan);
                let Some(rows) = self.few(&plan.select, &update.snapshot)? else { return Ok(None) };
                update.take(self, &rows)?;
                update.finish(self).map(Some)
            }
            Kind::Delete(plan) if plan.locked.is_empty() => {
                let mut delete = Delete::new(self, plan);
                let Some(rows) = self.few(&plan.select, &delete.snapshot)? else { return Ok(None) };
                delete.take(self, &rows)?;
                Ok(Some(delete.outcome))
            }
            _ => Ok(None),
        }
    }

    /// The rows of a query, if it finds few of them by itself.
    fn few(&self, select: &SelectPlan, snapshot: &Snapshot) -> Result<Option<RecordBatch>> {
        let Some(short) = &select.short else { return Ok(None) };
        let view = match short.region() {
            Some(region) => self.transaction.view_of(snapshot.clone(), region),
            None => return Ok(None),
        };
        let rows = short.run(self.engine.store(), &view, self.parameters)?;
        Ok(rows.filter(|rows| rows.num_rows() <= CHANGED_MAX))
    }

    /// DELETE
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub async fn delete(&mut self, plan: &DeletePlan) -> Result<Outcome> {
        if plan.locked.is_empty() {
            return self.delete_rows(plan).await;
        }
        let values = Box::pin(self.lock_subqueries(&plan.locked, &plan.select)).await?;
        self.with(&values).delete_rows(plan).await
    }

    /// The same with other parameters.
    fn with<'p>(&'p mut self, parameters: &'p [Value]) -> Run<'p> {
        Run {
            engine: self.engine,
            catalog: self.catalog,
            transaction: &mut *self.transaction,
            parameters,
            resources: self.resources,
            shared: self.shared.clone(),
        }
    }

    async fn delete_rows(&mut self, plan: &DeletePlan) -> Result<Outcome> {
        let mut delete = Delete::new(self, plan);
        let mut stream = self.start(&plan.select, delete.snapshot.clone()).await?;
        while let Some(batch) = stream.next().await {
            delete.take(self, &batch.map_err(from_datafusion)?)?;
        }
        Ok(delete.outcome)
    }

    /// Starts a query in the picture of this snapshot.
    pub(crate) async fn start(
        &mut self,
        select: &SelectPlan,
        snapshot: Snapshot,
    ) -> Result<datafusion::execution::SendableRecordBatchStream> {
        let (view, over) = (self.view(snapshot), self.over_given(select)?);
        over.as_ref().unwrap_or(select).stream(self.engine, self.parameters, view, self.resources).await
    }

    async fn collect(&mut self, select: &SelectPlan, snapshot: Snapshot) -> Result<Vec<RecordBatch>> {
        let (view, over) = (self.view(snapshot), self.over_given(select)?);
        over.as_ref().unwrap_or(select).collect(self.engine, self.parameters, view, self.resources).await
    }

    async fn one_row(&mut self, select: &SelectPlan, snapshot: Snapshot) -> Result<(RecordBatch, Arc<Schema>)> {
        let batches = self.collect(select, snapshot).await?;
        only_row(select, &batches)
    }

    async fn defaults(&mut self, plan: &InsertPlan, snapshot: Snapshot) -> Result<Vec<(usize, Value)>> {
        self.compute_defaults(&plan.defaults, &plan.schema, plan.zone, snapshot).await
    }

    /// COPY FROM: the values of its defaults, in order, as one row.
    ///
    /// # Errors
    /// What evaluating finds.
    pub async fn copy_defaults(&mut self, plan: &CopyPlan) -> Result<Outcome> {
        let CopyPlan::In { schema, defaults, .. } = plan else {
            return Err(Error::internal("only COPY FROM has defaults"));
        };
        let snapshot = self.snapshot();
        let values = self.compute_defaults(defaults, schema, self.engine.zone(), snapshot).await?;
        let mut outcome = Outcome::new(self.engine.store());
        outcome.keep(values.into_iter().map(|(_, value)| value).collect())?;
        Ok(outcome)
    }

    /// Computes defaults that are expressions: gives ordinals and values.
    async fn compute_defaults(
        &mut self,
        defaults: &[(usize, SelectPlan)],
        schema: &TableSchema,
        zone: Zone,
        snapshot: Snapshot,
    ) -> Result<Vec<(usize, Value)>> {
        let mut values = Vec::new();
        for (ordinal, select) in defaults {
            let (batch, output) = self.one_row(select, snapshot.clone()).await?;
            let assigned = Assigned::new(batch.column(0), output.field(0), &schema.columns[*ordinal], zone)?;
            values.push((*ordinal, assigned.value(0)?));
        }
        Ok(values)
    }
}

/// The one row of a query that has computed the values of a row.
pub(super) fn only_row(select: &SelectPlan, batches: &[RecordBatch]) -> Result<(RecordBatch, Arc<Schema>)> {
    let schema = select.schema();
    let found = batches.first().map_or_else(|| Arc::clone(&schema), RecordBatch::schema);
    let batch = arrow::compute::concat_batches(&found, batches).map_err(|error| from_datafusion(error.into()))?;
    if batch.num_rows() != 1 {
        return Err(Error::internal("the values of a row are one row"));
    }
    Ok((batch, schema))
}

/// RETURNING of the rows of one batch.
enum Returned<'b> {
    Nothing,
    Plain(&'b [usize]),
    Found(Vec<ColumnReader<'b>>),
}

impl<'b> Returned<'b> {
    fn new(returning: Option<&'b Returning>, select: &SelectPlan, batch: &'b RecordBatch) -> Result<Self> {
        match returning.map(|returning| &returning.outputs) {
            None => Ok(Self::Nothing),
            Some(Outputs::Plain(ordinals)) => Ok(Self::Plain(ordinals)),
            Some(Outputs::Found(outputs)) => {
                let reader =
                    |output: &usize| ColumnReader::new(batch.column(*output), select.columns[*output].sql_type);
                Ok(Self::Found(outputs.iter().map(reader).collect::<Result<_>>()?))
            }
            Some(Outputs::Query(_)) => Err(Error::internal("a query over changed rows is for INSERT")),
        }
    }

    /// What comes back of a row that is stored, or was, as `values`.
    fn row(&self, row: usize, values: &[Value]) -> Option<Vec<Value>> {
        match self {
            Self::Nothing => None,
            Self::Plain(ordinals) => Some(ordinals.iter().map(|ordinal| values[*ordinal].clone()).collect()),
            Self::Found(readers) => Some(readers.iter().map(|reader| reader.datum(row).to_value()).collect()),
        }
    }
}

/// What a value of the system column says: a timestamp, or NULL for never.
fn expiry_of(value: &Value) -> Expiry {
    match value {
        Value::Timestamp(micros) => Expiry::At(micros.div_euclid(1000)),
        _ => Expiry::Never,
    }
}

fn readers<'b>(batch: &'b RecordBatch, schema: &TableSchema) -> Result<Vec<ColumnReader<'b>>> {
    schema
        .columns
        .iter()
        .enumerate()
        .map(|(ordinal, column)| ColumnReader::new(batch.column(ordinal), column.sql_type))
        .collect()
}

/// Whether a row may be stored, which may be one of those that have passed the CHECK constraints together.
fn check(region: &Region, schema: &TableSchema, row: &[Value], passed: Option<&Passed>) -> Result<()> {
    for (ordinal, column) in schema.columns.iter().enumerate() {
        if row[ordinal].is_null() && !column.nullable {
            return Err(not_null(schema, ordinal).with_detail(failing_row(schema, row)));
        }
    }
    let datums: Vec<Datum<'_>> = row.iter().map(Value::as_datum).collect();
    region.check_row_of(&datums, passed)
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
