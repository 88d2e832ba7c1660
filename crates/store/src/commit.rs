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

use ashlar_base::{Datum, Error, ErrorCode, PartitionId, Result, TableId, Timestamp};

use crate::memory::Charge;
use crate::mutation::Mutation;
use crate::partition::{Partition, Prepared, Since, Stamp};
use crate::places::Clash;
use crate::region::{Common, Guard, Region, changed};
use crate::writeset::{Load, Staged, WriteSet};

/// What is kept of a row's life at most.
const LIFE_BYTES_MAX: usize = 13;

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
    /// Rows that arrived in bulk, by the place of their partition's guard, and each with the number of its load.
    loaded: Vec<Vec<(usize, Box<Partition>)>>,
    /// Their keys were new then.
    loaded_at: Timestamp,
    _charge: Charge,
}

/// Why nothing was committed.
enum Stopped {
    /// A row of a region was to have values that another one has.
    Clash(Arc<Region>, Box<Clash>),
    Error(Error),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

pub(crate) fn commit(common: &Arc<Common>, writes: &mut WriteSet) -> Result<Timestamp> {
    let timestamp = loop {
        match attempt(common, writes) {
            Ok(timestamp) => break timestamp,
            Err(Stopped::Error(error)) => return Err(error),
            // A row whose time has come is in nobody's way. It is ended without the commit's locks: others may have its own.
            Err(Stopped::Clash(region, clash)) if region.bury_holder(&clash) => {}
            Err(Stopped::Clash(_, clash)) => return Err(clash.error),
        }
    };
    writes.clear();
    Ok(timestamp)
}

/// Commits, or leaves everything as it was, what arrived in bulk included.
fn attempt(common: &Arc<Common>, writes: &mut WriteSet) -> Result<Timestamp, Stopped> {
    let is_blind = writes.is_blind();
    let ignored = writes.ignored_indexes();
    let (staged, first_read) = writes.parts();
    let written: Vec<usize> =
        staged.iter().enumerate().filter(|(_, staged)| !staged.is_empty()).map(|(number, _)| number).collect();
    let charge = |&number: &usize| Charge::new(staged[number].account(), staged[number].list_bytes());
    let charges = written.iter().map(charge).collect::<Result<Vec<_>>>()?;
    let mut loads: Vec<Vec<Load>> = written.iter().map(|&number| staged[number].take_loads()).collect();
    let mut locked: Vec<Locked<'_>> = Vec::with_capacity(written.len());
    for ((&number, loads), charge) in written.iter().zip(&mut loads).zip(charges) {
        locked.push(Locked::new(&staged[number], loads, charge));
    }
    let done = prepare(common, &mut locked, is_blind, &ignored);
    if let Err(stopped) = done {
        let parts: Vec<_> = locked.into_iter().map(Locked::give_back).collect();
        for ((number, mut loads), parts) in written.into_iter().zip(loads).zip(parts) {
            parts.into_iter().for_each(|(load, partition, part)| loads[load].put_part(partition, part));
            staged[number].put_loads(loads);
        }
        return Err(stopped);
    }
    // After the values: whoever gave back one that is taken here has an earlier timestamp.
    let timestamp = common.registry.tick();
    // The transaction's own snapshot has done its work: without it, what this commit ends need not be kept.
    *first_read = None;
    let stamp = Stamp { timestamp, horizon: common.registry.horizon(timestamp) };
    locked.iter().for_each(Locked::set_shape);
    locked.into_iter().try_for_each(|locked| locked.apply(stamp))?;
    Ok(timestamp)
}

/// Looks at everything, makes room, and takes values.
fn prepare(
    common: &Arc<Common>,
    locked: &mut [Locked<'_>],
    is_blind: bool,
    ignored: &[TableId],
) -> Result<(), Stopped> {
    locked.iter().try_for_each(Locked::check_region)?;
    if !is_blind {
        locked.iter().try_for_each(Locked::validate_expected)?;
        locked.iter().try_for_each(Locked::validate)?;
    }
    locked.iter_mut().for_each(|locked| locked.bury(common));
    let reserved = locked.iter_mut().try_for_each(Locked::reserve).map_err(Stopped::Error);
    reserved.and_then(|()| checks::take_values(locked, ignored)).inspect_err(|_| {
        locked.iter_mut().for_each(Locked::unreserve);
    })
}

impl<'a> Locked<'a> {
    /// Locks what the writes touch.
    fn new(staged: &'a Staged, loads: &mut [Load], charge: Charge) -> Self {
        let (rows, starts) = staged.by_partition();
        let expected: BTreeSet<u16> = staged.expected().iter().map(|expected| expected.place.partition.0).collect();
        let touched = |partition: &u16| {
            let at = usize::from(*partition);
            let whole = staged.truncates() || staged.altered_at().is_some();
            let is_loaded = loads.iter().any(|load| load.part(PartitionId(*partition)).is_some());
            whole || starts[at] < starts[at + 1] || expected.contains(partition) || is_loaded
        };
        let region = staged.region();
        let partitions: Vec<_> = (0..region.partition_count()).filter(touched).map(PartitionId).collect();
        let loaded_at = loads.iter().map(Load::read_at).min().unwrap_or(Timestamp(0));
        let parts_of = |&partition: &PartitionId| {
            loads
                .iter_mut()
                .enumerate()
                .filter_map(|(number, load)| Some((number, load.take_part(partition)?)))
                .collect()
        };
        let loaded = partitions.iter().map(parts_of).collect();
        let guards = partitions.into_iter().map(|partition| (partition, region.lock(partition))).collect();
        Self { staged, rows, starts, guards, prepared: VecDeque::new(), loaded, loaded_at, _charge: charge }
    }

    /// What arrived in bulk, with the numbers of its loads and its partitions, for another try.
    fn give_back(self) -> Vec<(usize, PartitionId, Box<Partition>)> {
        let Self { guards, loaded, .. } = self;
        let ids: Vec<PartitionId> = guards.iter().map(|(partition, _)| *partition).collect();
        let parts = ids.into_iter().zip(loaded);
        parts.flat_map(|(id, parts)| parts.into_iter().map(move |(number, part)| (number, id, part))).collect()
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
                .any(|(_, guard)| guard.as_deref().is_some_and(|stored| !stored.is_unwritten(altered_at)))
        {
            return Err(self.conflict());
        }
        let mut key = Vec::new();
        for (index, (partition, guard)) in self.guards.iter().enumerate() {
            let Some(stored) = guard.as_deref() else { continue };
            for (_, loaded) in self.loaded[index].iter().filter(|_| !stored.is_present(self.loaded_at)) {
                if let Some(key) = loaded.first_key_in(stored) {
                    return Err(self.staged.shape().duplicate(&key));
                }
            }
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

    /// Where values are unique, rows of the keys whose time has come end for good: what they have is free.
    fn bury(&mut self, common: &Common) {
        let mut key = Vec::new();
        for index in 0..self.guards.len() {
            let range = self.range(self.guards[index].0);
            let (_, guard) = &mut self.guards[index];
            let Some(stored) = guard.as_mut().filter(|stored| stored.has_checks() && stored.has_life()) else {
                continue;
            };
            let stamp = common.stamp();
            for (_, loaded) in &self.loaded[index] {
                stored.bury_keys_of(loaded, stamp);
            }
            for &row in &self.rows[range] {
                read_key(self.staged, row, &mut key);
                let hash = self.staged.region().hash(&key);
                if stored.locate(hash, &key).row.is_none() {
                    stored.bury_key(&key, hash, stamp);
                }
            }
        }
    }

    /// Room for every row.
    fn reserve(&mut self) -> Result<()> {
        let staged = self.staged;
        let columns = staged.schema().columns.len();
        for index in 0..self.guards.len() {
            let range = self.range(self.guards[index].0);
            let loaded = &mut self.loaded[index];
            if range.is_empty() && loaded.is_empty() && self.guards[index].1.is_none() {
                continue;
            }
            let others = range.len() + loaded.iter().map(|(_, loaded)| loaded.live() as usize).sum::<usize>();
            let count = range.len();
            let rows = self.rows[range].iter().filter(|&&row| !staged.state(row).is_deleted());
            let needs = rows.map(|&row| (0..columns).map(move |ordinal| staged.need(row, ordinal)));
            let (id, guard) = &mut self.guards[index];
            let stored = staged.region().partition_mut(*id, guard);
            if staged.altered_at().is_some() {
                stored.set_shape(staged.shape());
            }
            loaded.iter_mut().try_for_each(|(_, loaded)| stored.reserve_adoption(loaded, others))?;
            // Rows of a load are the last ones then, and what room is after them is not known yet.
            stored.reserve_rows(needs, staged.truncates() || !loaded.is_empty())?;
            if staged.says_life() || stored.has_life() {
                drop(Charge::new(staged.region().account(), count * LIFE_BYTES_MAX)?);
            }
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
        let loaded = std::mem::take(&mut self.loaded);
        for ((partition, mut guard), loaded) in std::mem::take(&mut self.guards).into_iter().zip(loaded) {
            let range = self.range(partition);
            if range.is_empty() && loaded.is_empty() && guard.is_none() {
                continue;
            }
            let stored = staged.region().partition_mut(partition, &mut guard);
            if staged.truncates() {
                stored.truncate(stamp);
            }
            for (_, loaded) in loaded {
                stored.adopt(*loaded, stamp, || self.prepared.pop_front())?;
            }
            let has_checks = stored.has_checks();
            for &row in &self.rows[range] {
                read_key(staged, row, &mut key);
                let hash = staged.region().hash(&key);
                // What is over was ended before its values were looked at. What has come to be over since has them still.
                let located = if has_checks { stored.locate_unended(hash, &key) } else { stored.locate(hash, &key) };
                let mutation = if staged.state(row).is_deleted() {
                    Mutation::Delete { key: &key }
                } else {
                    let row = staged.row(row);
                    values.clear();
                    values.extend((0..columns).map(|ordinal| row.get(ordinal)));
                    if has_checks {
                        stored.set_prepared(self.prepared.pop_front());
                    }
                    Mutation::Upsert { row: &values }
                };
                let mutation = Mutation::Living { write: &mutation, expiry: staged.expiry(row) };
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
