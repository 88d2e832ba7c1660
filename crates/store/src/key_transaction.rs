//! Several key operations as one commit: each sees what those before it wrote, others see all of it or nothing, and
//! between its first read and its commit nobody changes what it has read.
//!
//! Called by key-value sessions for MULTI and EXEC, and for commands on several keys. Reads are at one snapshot, writes
//! are buffered, and the commit checks both: the whole is as if it had happened at the moment of the commit.

use std::sync::Arc;

use ashlar_base::clock::millis_of;
use ashlar_base::{Datum, Error, Result, TableSchema, Timestamp, Value};

use crate::entry::{Entry, check};
use crate::life::Deadline;
use crate::locks::{LockHolder, LockRequest, Watch};
use crate::mutation::{Applied, Mutation};
use crate::partition::Partition;
use crate::region::Region;
use crate::row::RowRef;
use crate::snapshot::Snapshot;
use crate::store::Store;
use crate::writeset::{Mark, Pending, WriteSet};

/// See the module.
#[derive(Debug)]
pub struct KeyTransaction {
    snapshot: Snapshot,
    writes: WriteSet,
    /// Whether keys are watched: the commit fails if one of them has been touched.
    watches: bool,
}

/// A place in the order of a transaction's writes.
#[derive(Clone, Debug)]
pub struct KeyMark(Mark);

impl KeyTransaction {
    /// A transaction that reads what is committed now.
    pub fn new(store: &Store) -> Self {
        Self { snapshot: store.snapshot(), writes: WriteSet::new(), watches: false }
    }

    /// Sets the holder of locks: the commit may write rows that this holder has locked.
    pub fn allow(&mut self, holder: &LockHolder) {
        self.writes.set_owner(holder.id());
    }

    /// Watches a key: the commit fails if anybody touches the key before.
    ///
    /// # Errors
    /// 40001 if the table is gone or has another shape, which counts as a change; 53200 over the memory bound.
    pub fn watch(&mut self, region: &Arc<Region>, watch: &Watch) -> Result<()> {
        self.watches = true;
        self.writes.expect_untouched(region, region.version(), &self.snapshot, watch)
    }

    /// A lock for every key that was read or written, in the order in which to take them. While all are held, nobody else changes any of
    /// these rows.
    pub fn requests(&self) -> Vec<LockRequest> {
        self.writes.requests()
    }

    /// Reads the row of a key. `f` must not touch the store in any other way.
    ///
    /// # Errors
    /// 40001 if the table's shape has changed since the transaction began to use it; 53200 over the memory bound.
    pub fn get<R>(
        &mut self,
        region: &Arc<Region>,
        key: &[Datum<'_>],
        f: impl FnOnce(Option<RowRef<'_>>) -> R,
    ) -> Result<R> {
        self.read(region, key, true, f)
    }

    /// Like [`KeyTransaction::get`], but the row does not count as used.
    ///
    /// # Errors
    /// As there.
    pub fn peek<R>(
        &mut self,
        region: &Arc<Region>,
        key: &[Datum<'_>],
        f: impl FnOnce(Option<RowRef<'_>>) -> R,
    ) -> Result<R> {
        self.read(region, key, false, f)
    }

    /// Reads the row of a key, and counts that as a use if asked to. The commit fails if anybody changes the row before, except this
    /// transaction itself.
    fn read<R>(
        &mut self,
        region: &Arc<Region>,
        key: &[Datum<'_>],
        is_use: bool,
        f: impl FnOnce(Option<RowRef<'_>>) -> R,
    ) -> Result<R> {
        if matches!(self.writes.get(region, key), Pending::Untouched) {
            self.writes.expect(region, region.version(), &self.snapshot, key)?;
        }
        Ok(match pending(&self.writes, region, key, &self.snapshot) {
            Pending::Row(row) => f(Some(row)),
            Pending::Deleted => f(None),
            Pending::Untouched if is_use => region.get_at(&self.snapshot, key, f),
            Pending::Untouched => region.peek_at(&self.snapshot, key, f),
        })
    }

    /// Reads and writes the row of one key. `f` must not touch the store in any other way.
    ///
    /// # Errors
    /// As for [`KeyTransaction::get`].
    pub fn entry<R>(
        &mut self,
        region: &Arc<Region>,
        key: &[Datum<'_>],
        f: impl FnOnce(&mut Entry<'_>) -> R,
    ) -> Result<R> {
        let Some(place) = region.place_of(key) else {
            // There is no such row, and there never will be.
            return Ok(region.entry(key, f));
        };
        let version = region.version();
        self.writes.expect(region, version, &self.snapshot, key)?;
        let before = region.has_checks().then(|| self.writes.mark());
        let guard = region.lock(place.partition);
        let committed = guard.as_deref().and_then(|partition| {
            let row = partition.locate_at(place.hash, key, self.snapshot.timestamp());
            partition.touch(row);
            row.map(|row| (partition, row))
        });
        let Self { snapshot, writes, .. } = self;
        let done = f(&mut Entry::pending(PendingEntry { region, key, version, snapshot, writes, committed }));
        // Without the lock: values are those of other partitions.
        drop(guard);
        if let Some(before) = before
            && let Err(error) = self.writes.check_values(region)
        {
            self.writes.rollback_to(before);
            return Err(error);
        }
        Ok(done)
    }

    /// A mark of the present point.
    pub fn mark(&self) -> KeyMark {
        KeyMark(self.writes.mark())
    }

    /// Undoes every write since a mark.
    pub fn rollback_to(&mut self, mark: KeyMark) {
        self.writes.rollback_to(mark.0);
    }

    /// Makes the writes visible at once.
    ///
    /// # Errors
    /// 40001 if another transaction has changed a key that this one watched, read or wrote; 55P03 if another owner has locked one; 53200
    /// over the memory bound. After an error nothing has changed.
    pub fn commit(self, store: &Store) -> Result<(), Failed> {
        let Self { snapshot, mut writes, watches } = self;
        // The write set holds what its commit must know; for a snapshot that is open old rows would be kept.
        drop(snapshot);
        // What was only read was so at the snapshot: nothing could tell that from now.
        if (writes.changes_anything() || watches)
            && let Err(error) = store.commit(&mut writes)
        {
            return Err(Failed { error, is_stopped: writes.take_stopped().is_some(), requests: writes.requests() });
        }
        Ok(())
    }
}

/// A commit that changed nothing.
#[derive(Debug)]
pub struct Failed {
    /// The error.
    pub error: Error,
    /// Because somebody else has locked a row: whoever can wait does.
    pub is_stopped: bool,
    /// Every key that the transaction has read or written, as a lock, in the order in which to take them.
    pub requests: Vec<LockRequest>,
}

impl Region {
    /// Whether the row of a key is another than the one that a snapshot sees, or is gone, or has come.
    pub fn has_changed(&self, since: &Snapshot, key: &[Datum<'_>]) -> bool {
        let at: Timestamp = since.timestamp();
        let Some(place) = self.place_of(key) else { return false };
        let guard = self.lock(place.partition);
        let Some(stored) = guard.as_deref() else { return false };
        !stored.is_present(at) && !stored.since(stored.locate(place.hash, key), key, at).is_same()
    }
}

/// One key of a transaction, with the lock of its partition held: the committed row lies there.
pub(crate) struct PendingEntry<'a> {
    region: &'a Arc<Region>,
    key: &'a [Datum<'a>],
    version: u32,
    snapshot: &'a Snapshot,
    writes: &'a mut WriteSet,
    committed: Option<(&'a Partition, u32)>,
}

/// What is pending of a key. A row that was written with an end that had come before is gone, as it is once it is committed.
fn pending<'w>(writes: &'w WriteSet, region: &Region, key: &[Datum<'_>], snapshot: &Snapshot) -> Pending<'w> {
    match writes.get(region, key) {
        Pending::Row(row) if row.deadline().has_passed(millis_of(snapshot.timestamp())) => Pending::Deleted,
        found => found,
    }
}

impl PendingEntry<'_> {
    /// Whether a row is pending whose end has come.
    fn is_over(&self) -> bool {
        let is_written = matches!(self.writes.get(self.region, self.key), Pending::Row(_));
        is_written && matches!(pending(self.writes, self.region, self.key, self.snapshot), Pending::Deleted)
    }

    pub(crate) fn row(&self) -> Option<RowRef<'_>> {
        match pending(self.writes, self.region, self.key, self.snapshot) {
            Pending::Row(row) => Some(row),
            Pending::Deleted => None,
            Pending::Untouched => self.committed.map(|(partition, row)| self.region.row(partition, row)),
        }
    }

    pub(crate) fn schema(&self) -> Arc<TableSchema> {
        self.region.schema()
    }

    pub(crate) fn apply(&mut self, mutation: Mutation<'_>) -> Result<Applied> {
        let shape = self.region.shape();
        let write = mutation.write();
        check(&shape, self.key, write)?;
        if matches!(write, Mutation::Insert { .. } | Mutation::Upsert { .. }) && self.is_over() {
            // The new row has nothing of it.
            self.writes.delete(self.region, self.version, self.snapshot, self.key)?;
        }
        let life = (mutation.expiry(), self.row().map_or(Deadline::NONE, |row| row.deadline()));
        let old: Option<Vec<Value>> = self.row().map(|row| {
            let columns = 0..row.schema().columns.len();
            columns.map(|ordinal| row.get(ordinal).to_value()).collect()
        });
        let done = if old.is_some() { Applied::Updated } else { Applied::Inserted };
        match (write, old) {
            (Mutation::Insert { .. }, Some(_)) => return Err(shape.duplicate(self.key)),
            (Mutation::Insert { row } | Mutation::Upsert { row }, _) => {
                self.writes.put_over(self.region, self.version, self.snapshot, row, life)?;
            }
            (Mutation::Update { .. } | Mutation::Delete { .. }, None) => return Ok(Applied::Nothing),
            (Mutation::Update { changes, .. }, Some(old)) => {
                let mut row: Vec<_> = old.iter().map(Value::as_datum).collect();
                for (ordinal, datum) in changes.iter() {
                    let column = row.get_mut(*ordinal);
                    *column.ok_or_else(|| Error::internal("a change of a column that is not there"))? = datum.clone();
                }
                self.writes.put_over(self.region, self.version, self.snapshot, &row, life)?;
            }
            (Mutation::Delete { key }, Some(_)) => {
                self.writes.delete(self.region, self.version, self.snapshot, key)?;
                return Ok(Applied::Deleted);
            }
            (Mutation::Living { .. }, _) => return Err(Error::internal("a write says twice how long its row lives")),
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests;
