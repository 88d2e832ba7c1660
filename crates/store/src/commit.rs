//! Committing a transaction: every partition it writes is locked, one timestamp is taken, every key is validated,
//! room is made, and then everything is applied, into the room that was made.
//!
//! Called by `Store::commit`. Partitions are locked in the order of (table, partition), so that two commits cannot
//! wait for each other; values of unique indexes are taken under locks that come after all of them (`commit::checks`). Each
//! partition is let go as soon as its rows are applied. A snapshot that includes the timestamp was
//! opened after every lock was taken, so it waits at a partition whose rows are still to come, and one that does not
//! include it was seen by the horizon, which came later still: nobody sees half a commit.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use ashlar_base::{Datum, Error, ErrorCode, PartitionId, Result, Timestamp};

use crate::memory::Charge;
use crate::mutation::Mutation;
use crate::partition::{Prepared, Since, Stamp};
use crate::region::{Common, Guard, changed};
use crate::writeset::{Staged, WriteSet};

mod checks;

/// The writes of one region, with its partitions locked.
struct Locked<'a> {
    staged: &'a Staged,
    /// Rows by partition, see `Staged::by_partition`.
    rows: Vec<u32>,
    starts: Vec<u32>,
    guards: Vec<(PartitionId, Guard<'a>)>,
    /// What indexes compute of the rows, in the order in which they are applied; empty where they compute nothing.
    prepared: VecDeque<Prepared>,
    _charge: Charge,
}

pub(crate) fn commit(common: &Arc<Common>, writes: &mut WriteSet) -> Result<Timestamp> {
    let is_blind = writes.is_blind();
    let ignored = writes.ignored_indexes();
    let timestamp = {
        let (staged, first_read) = writes.parts();
        let written = staged.iter().filter(|staged| !staged.is_empty());
        let mut locked = written.map(Locked::new).collect::<Result<Vec<_>>>()?;
        locked.iter().try_for_each(Locked::check_region)?;
        if !is_blind {
            locked.iter().try_for_each(Locked::validate_expected)?;
            locked.iter().try_for_each(Locked::validate)?;
        }
        let reserved = locked.iter_mut().try_for_each(Locked::reserve);
        if let Err(error) = reserved.and_then(|()| checks::take_values(&mut locked, &ignored)) {
            locked.iter_mut().for_each(Locked::unreserve);
            return Err(error);
        }
        // After the values: whoever gave back one that is taken here has an earlier timestamp.
        let timestamp = common.registry.tick();
        // The transaction's own snapshot has done its work: without it, what this commit ends need not be kept.
        *first_read = None;
        let stamp = Stamp { timestamp, horizon: common.registry.horizon(timestamp) };
        locked.iter().for_each(Locked::set_shape);
        locked.into_iter().try_for_each(|locked| locked.apply(stamp))?;
        timestamp
    };
    writes.clear();
    Ok(timestamp)
}

impl<'a> Locked<'a> {
    /// Locks what the writes touch.
    fn new(staged: &'a Staged) -> Result<Self> {
        let charge = Charge::new(staged.account(), staged.list_bytes())?;
        let (rows, starts) = staged.by_partition();
        let expected: BTreeSet<u16> = staged.expected().iter().map(|expected| expected.place.partition.0).collect();
        let touched = |partition: &u16| {
            let at = usize::from(*partition);
            let whole = staged.truncates() || staged.altered_at().is_some();
            whole || starts[at] < starts[at + 1] || expected.contains(partition)
        };
        let region = staged.region();
        let partitions = (0..region.partition_count()).filter(touched).map(PartitionId);
        let guards = partitions.map(|partition| (partition, region.lock(partition))).collect();
        Ok(Self { staged, rows, starts, guards, prepared: VecDeque::new(), _charge: charge })
    }

    fn range(&self, partition: PartitionId) -> std::ops::Range<usize> {
        let partition = usize::from(partition.0);
        self.starts[partition] as usize..self.starts[partition + 1] as usize
    }

    /// The table is what it was when the rows were written.
    fn check_region(&self) -> Result<()> {
        let region = self.staged.region();
        if region.is_dropped() || region.version() != self.staged.base_version() {
            return Err(changed(self.staged.schema()));
        }
        Ok(())
    }

    /// Nobody else has changed a key that was only read.
    fn validate_expected(&self) -> Result<()> {
        let mut key = Vec::new();
        for expected in self.staged.expected() {
            let partition = expected.place.partition;
            let Ok(guard) = self.guards.binary_search_by_key(&partition, |(partition, _)| *partition) else {
                return Err(Error::internal("a partition whose keys were read is not locked"));
            };
            let Some(stored) = self.guards[guard].1.as_deref() else { continue };
            if stored.is_present(expected.read_at) {
                continue;
            }
            expected.read_key(&mut key);
            let located = stored.locate(expected.place.hash, &key);
            if !stored.since(located, &key, expected.read_at).is_same() {
                return Err(self.conflict());
            }
        }
        Ok(())
    }

    /// Nobody else has changed a key since it was read in order to write it.
    fn validate(&self) -> Result<()> {
        if self.staged.truncates() {
            return Ok(());
        }
        // Rows of others would be there as if the table had always had the shape that they did not know.
        if let Some(altered_at) = self.staged.altered_at()
            && self
                .guards
                .iter()
                .any(|(_, guard)| guard.as_deref().is_some_and(|stored| !stored.is_present(altered_at)))
        {
            return Err(self.conflict());
        }
        let mut key = Vec::new();
        for (partition, guard) in &self.guards {
            let Some(stored) = guard.as_deref() else { continue };
            for &row in &self.rows[self.range(*partition)] {
                let state = self.staged.state(row);
                if stored.is_present(state.read_at) {
                    continue;
                }
                read_key(self.staged, row, &mut key);
                let located = stored.locate(self.staged.region().hash(&key), &key);
                match stored.since(located, &key, state.read_at) {
                    Since::Same => {}
                    Since::Appeared if state.is_inserted() => return Err(self.staged.shape().duplicate(&key)),
                    Since::Appeared | Since::Changed => return Err(self.conflict()),
                }
            }
        }
        Ok(())
    }

    fn conflict(&self) -> Error {
        Error::new(ErrorCode::SerializationFailure, "could not serialize access due to concurrent update")
            .with_table(&self.staged.schema().name)
    }

    /// Room for every row.
    fn reserve(&mut self) -> Result<()> {
        let staged = self.staged;
        let columns = staged.schema().columns.len();
        for index in 0..self.guards.len() {
            let range = self.range(self.guards[index].0);
            if range.is_empty() && self.guards[index].1.is_none() {
                continue;
            }
            let rows = self.rows[range].iter().filter(|&&row| !staged.state(row).is_deleted());
            let needs = rows.map(|&row| (0..columns).map(move |ordinal| staged.need(row, ordinal)));
            let (id, guard) = &mut self.guards[index];
            let stored = staged.region().partition_mut(*id, guard);
            if staged.altered_at().is_some() {
                stored.set_shape(staged.shape());
            }
            stored.reserve_rows(needs, staged.truncates())?;
        }
        Ok(())
    }

    /// Gives back segments that were made for rows that will not come, and the shape that they would have.
    fn unreserve(&mut self) {
        let shape = self.staged.region().shape();
        for stored in self.guards.iter_mut().filter_map(|(_, guard)| guard.as_mut()) {
            stored.set_shape(&shape);
            stored.unreserve();
        }
    }

    /// The region has the shape that its partitions got with their room.
    fn set_shape(&self) {
        if self.staged.altered_at().is_some() {
            self.staged.region().set_shape(self.staged.shape());
        }
    }

    fn apply(mut self, stamp: Stamp) -> Result<()> {
        let staged = self.staged;
        let columns = staged.schema().columns.len();
        let (mut key, mut values): (Vec<Datum<'_>>, Vec<Datum<'_>>) = (Vec::new(), Vec::with_capacity(columns));
        for (partition, mut guard) in std::mem::take(&mut self.guards) {
            let range = self.range(partition);
            if range.is_empty() && guard.is_none() {
                continue;
            }
            let stored = staged.region().partition_mut(partition, &mut guard);
            if staged.truncates() {
                stored.truncate(stamp);
            }
            for &row in &self.rows[range] {
                read_key(staged, row, &mut key);
                let located = stored.locate(staged.region().hash(&key), &key);
                let mutation = if staged.state(row).is_deleted() {
                    Mutation::Delete { key: &key }
                } else {
                    let row = staged.row(row);
                    values.clear();
                    values.extend((0..columns).map(|ordinal| row.get(ordinal)));
                    if stored.has_checks() {
                        stored.set_prepared(self.prepared.pop_front());
                    }
                    Mutation::Upsert { row: &values }
                };
                stored.apply(&mutation, located, stamp)?;
            }
            stored.unreserve();
        }
        Ok(())
    }
}

fn read_key<'a>(staged: &'a Staged, row: u32, key: &mut Vec<Datum<'a>>) {
    let row = staged.row(row);
    key.clear();
    key.extend(staged.schema().key.iter().map(|&ordinal| row.get(ordinal)));
}

#[cfg(test)]
mod tests;
