//! Runs a statement with changes in its WITH, step by step, in one picture of the tables.

use std::sync::Arc;

use arrow::array::RecordBatch;
use ashlar_base::{Error, Result, Value};
use ashlar_functions::error::from_datafusion;
use ashlar_store::{ColumnReader, Reservation, build_array};
use datafusion::datasource::{MemTable, TableProvider};
use futures::StreamExt;

use super::Run;
use super::outcome::{Outcome, bytes_of};
use crate::engine::Engine;
use crate::select::SelectPlan;
use crate::statement::with_changes::Given;
use crate::statement::{Kind, WithChanges};

impl Run<'_> {
    /// A statement with changes in its WITH: what the statement behind the WITH did.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub async fn with_changes(&mut self, plan: &WithChanges) -> Result<Outcome> {
        let snapshot = self.snapshot();
        self.shared.picture = Some((snapshot.clone(), self.view(snapshot)));
        // The memory of what steps have given.
        let mut held = Vec::new();
        let mut done = None;
        for (at, step) in plan.steps().iter().enumerate() {
            let outcome = Box::pin(self.step(&step.kind)).await?;
            if at == plan.main() {
                done = Some(outcome);
            } else if let Some(given) = &step.gives {
                let (table, memory) = table_of(self.engine, given, outcome)?;
                held.push(memory);
                self.shared.given.push((given.name.clone(), table));
            }
        }
        done.ok_or_else(|| Error::internal("the statement behind a WITH was left out"))
    }

    async fn step(&mut self, kind: &Kind) -> Result<Outcome> {
        match kind {
            Kind::Select(plan) => self.rows_of(plan).await,
            Kind::Lock(plan) => self.lock(plan).await,
            Kind::Insert(plan) => self.insert(plan).await,
            Kind::Update(plan) => self.update(plan).await,
            Kind::Delete(plan) => self.delete(plan).await,
            _ => Err(Error::internal("a step of a statement is a query or a change")),
        }
    }

    /// The rows of a query.
    async fn rows_of(&mut self, plan: &SelectPlan) -> Result<Outcome> {
        let snapshot = self.snapshot();
        let mut outcome = Outcome::new(self.engine.store());
        let mut stream = self.start(plan, snapshot).await?;
        while let Some(batch) = stream.next().await {
            let batch = batch.map_err(from_datafusion)?;
            let columns = batch.columns().iter().zip(plan.columns.iter());
            let readers =
                columns.map(|(array, column)| ColumnReader::new(array, column.sql_type)).collect::<Result<Vec<_>>>()?;
            for row in 0..batch.num_rows() {
                outcome.keep(readers.iter().map(|reader| reader.datum(row).to_value()).collect())?;
            }
            outcome.count += batch.num_rows() as u64;
        }
        Ok(outcome)
    }
}

/// The rows of a step as a table, and its memory.
fn table_of(engine: &Engine, given: &Given, outcome: Outcome) -> Result<(Arc<dyn TableProvider>, Reservation)> {
    let rows: Vec<Vec<Value>> = outcome.rows;
    let mut held = engine.store().reservation();
    rows.iter().try_for_each(|row| held.grow(bytes_of(row)))?;
    let array = |(at, column): (usize, &crate::columns::Column)| {
        build_array(column.sql_type, rows.iter().map(|row| row[at].as_datum()))
    };
    let arrays = given.columns.iter().enumerate().map(array).collect::<Result<Vec<_>>>()?;
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows.len()));
    let table = RecordBatch::try_new_with_options(given.schema(), arrays, &options)
        .map_err(Into::into)
        .and_then(|batch| MemTable::try_new(given.schema(), vec![vec![batch]]))
        .map_err(from_datafusion)?;
    Ok((Arc::new(table), held))
}
