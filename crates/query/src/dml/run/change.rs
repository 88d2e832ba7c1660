//! UPDATE and DELETE of rows as they are found, batch by batch.

use arrow::array::RecordBatch;
use ashlar_base::{Datum, Result, Value};
use ashlar_store::{Expiry, Pending, Reservation, Snapshot, expires_at_column};

use super::ahead::Ahead;
use super::outcome::{Outcome, Seen, bytes_of};
use super::{Returned, Run, check, expiry_of, readers};
use crate::assign::Assigned;
use crate::dml::{DeletePlan, SetExpiry, UpdatePlan};

/// An UPDATE at work.
pub(super) struct Update<'p> {
    plan: &'p UpdatePlan,
    pub(super) snapshot: Snapshot,
    outcome: Outcome,
    /// A join may find a row several times.
    seen: Option<Seen>,
    /// Keys that move: all old ones leave before the new ones come, so that a shift by one does not collide.
    key_changes: bool,
    moved: Vec<(Vec<Value>, Expiry)>,
    moved_bytes: Reservation,
}

impl<'p> Update<'p> {
    pub(super) fn new(run: &mut Run<'_>, plan: &'p UpdatePlan) -> Self {
        let store = run.engine.store();
        Self {
            plan,
            snapshot: run.snapshot(),
            outcome: Outcome::new(store),
            seen: plan.has_sources.then(|| Seen::new(store)),
            key_changes: plan.assigned.iter().any(|ordinal| plan.schema.key.contains(ordinal)),
            moved: Vec::new(),
            moved_bytes: store.reservation(),
        }
    }

    /// Changes rows that were found.
    ///
    /// # Errors
    /// What evaluating finds, 53200, and where somebody else has a row.
    pub(super) fn take(&mut self, run: &mut Run<'_>, batch: &RecordBatch) -> Result<()> {
        let plan = self.plan;
        let (schema, output) = (&plan.schema, plan.select.schema());
        let columns = readers(batch, schema)?;
        let returned = Returned::new(plan.returning.as_ref(), &plan.select, batch)?;
        let mut assigned = Vec::new();
        for (number, ordinal) in plan.assigned.iter().enumerate() {
            let place = schema.columns.len() + number;
            assigned.push(Assigned::new(
                batch.column(place),
                output.field(place),
                &schema.columns[*ordinal],
                run.engine.zone(),
            )?);
        }
        let column = expires_at_column();
        let ends = match plan.expiry {
            Some(SetExpiry::Output(place)) => {
                Some(Assigned::new(batch.column(place), output.field(place), &column, run.engine.zone())?)
            }
            Some(SetExpiry::OfTable) | None => None,
        };
        let now = run.engine.store().now_millis();
        let made = |row: usize| -> Result<Vec<Value>> {
            let mut new: Vec<Value> = columns.iter().map(|reader| reader.datum(row).to_value()).collect();
            for (ordinal, assigned) in plan.assigned.iter().zip(&assigned) {
                new[*ordinal] = assigned.value(row)?;
            }
            Ok(new)
        };
        let mut ahead = Ahead::new(&plan.region, schema.version, &[], run.engine.store().reservation());
        for row in 0..batch.num_rows() {
            let key: Vec<Datum<'_>> = schema.key.iter().map(|ordinal| columns[*ordinal].datum(row)).collect();
            // PostgreSQL updates it once.
            if let Some(seen) = &mut self.seen
                && !seen.add(schema, &key)?
            {
                continue;
            }
            let expiry = match (&ends, plan.expiry) {
                (Some(ends), _) => expiry_of(&ends.value(row)?),
                (None, Some(_)) => Expiry::Table,
                (None, None) => Expiry::Keep,
            };
            // The statements that follow do not find it. A statement by itself has none: its row ends by its time.
            let is_over = matches!(expiry, Expiry::At(end) if end <= now) && !run.transaction.is_one_statement;
            if !run.transaction.lock_to_write(&plan.region, &key, self.key_changes || is_over, &self.snapshot)? {
                continue;
            }
            let new = ahead.row(row, batch.num_rows(), made)?;
            let passed = ahead.passed();
            check(&plan.region, schema, &new, passed)?;
            self.outcome.count += 1;
            if let Some(row) = returned.row(row, &new) {
                self.outcome.keep(row)?;
            }
            if is_over {
                run.transaction.writes.delete(&plan.region, schema.version, &self.snapshot, &key)?;
            } else if self.key_changes {
                let expiry = if expiry == Expiry::Keep { self.expiry(run, &key) } else { expiry };
                run.transaction.writes.delete(&plan.region, schema.version, &self.snapshot, &key)?;
                self.moved_bytes.grow(bytes_of(&new))?;
                self.moved.push((new, expiry));
            } else {
                let datums: Vec<Datum<'_>> = new.iter().map(Value::as_datum).collect();
                let (writes, version) = (&mut run.transaction.writes, schema.version);
                writes.put_passed(&plan.region, version, &self.snapshot, &datums, expiry, passed)?;
            }
        }
        Ok(())
    }

    /// The end of the rows.
    ///
    /// # Errors
    /// 23505, and as [`Self::take`].
    pub(super) fn finish(self, run: &mut Run<'_>) -> Result<Outcome> {
        let plan = self.plan;
        for (new, expiry) in self.moved {
            let datums: Vec<Datum<'_>> = new.iter().map(Value::as_datum).collect();
            let (writes, version) = (&mut run.transaction.writes, plan.schema.version);
            if let Err(error) = writes.insert_living(&plan.region, version, &self.snapshot, &datums, expiry) {
                // As an INSERT, it waits for whoever may be deleting the row of that key.
                let key: Vec<Datum<'_>> = plan.schema.key.iter().map(|ordinal| datums[*ordinal].clone()).collect();
                return Err(run.transaction.taken(&plan.region, &key, error, &self.snapshot));
            }
        }
        run.transaction.check_values(&plan.region)?;
        Ok(self.outcome)
    }

    /// The life of a row whose key moves. What its table gave it, it gets anew.
    fn expiry(&self, run: &Run<'_>, key: &[Datum<'_>]) -> Expiry {
        let region = &self.plan.region;
        match run.transaction.writes.get(region, key) {
            Pending::Row(row) => row.expiry(),
            Pending::Deleted => Expiry::Table,
            Pending::Untouched => {
                region.get_at(&self.snapshot, key, |row| row.map_or(Expiry::Table, |row| row.expiry()))
            }
        }
    }
}

/// A DELETE at work.
pub(super) struct Delete<'p> {
    plan: &'p DeletePlan,
    pub(super) snapshot: Snapshot,
    pub(super) outcome: Outcome,
    seen: Option<Seen>,
}

impl<'p> Delete<'p> {
    pub(super) fn new(run: &mut Run<'_>, plan: &'p DeletePlan) -> Self {
        let store = run.engine.store();
        Self {
            plan,
            snapshot: run.snapshot(),
            outcome: Outcome::new(store),
            seen: plan.has_sources.then(|| Seen::new(store)),
        }
    }

    /// Deletes rows that were found.
    ///
    /// # Errors
    /// As [`Update::take`].
    pub(super) fn take(&mut self, run: &mut Run<'_>, batch: &RecordBatch) -> Result<()> {
        let (plan, schema) = (self.plan, &self.plan.schema);
        let columns = readers(batch, schema)?;
        let returned = Returned::new(plan.returning.as_ref(), &plan.select, batch)?;
        for row in 0..batch.num_rows() {
            let key: Vec<Datum<'_>> = schema.key.iter().map(|ordinal| columns[*ordinal].datum(row)).collect();
            if let Some(seen) = &mut self.seen
                && !seen.add(schema, &key)?
            {
                continue;
            }
            if !run.transaction.lock_to_write(&plan.region, &key, true, &self.snapshot)? {
                continue;
            }
            run.transaction.writes.delete(&plan.region, schema.version, &self.snapshot, &key)?;
            self.outcome.count += 1;
            if plan.returning.is_some() {
                let old: Vec<Value> = columns.iter().map(|reader| reader.datum(row).to_value()).collect();
                if let Some(row) = returned.row(row, &old) {
                    self.outcome.keep(row)?;
                }
            }
        }
        Ok(())
    }
}
