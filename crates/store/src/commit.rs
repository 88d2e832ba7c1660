//! Committing a transaction: every partition it writes is locked, one timestamp is taken, every key is validated,
//! room is made, and then everything is applied, into the room that was made.
//!
//! Called by `Store::commit`. Partitions are locked in the order of (table, partition), so that two commits cannot
//! wait for each other; values of unique indexes are taken under locks that come after all of them (`commit::checks`). Each
//! partition is let go as soon as its rows are applied. A snapshot that includes the timestamp was
//! opened after every lock was taken, so it waits at a partition whose rows are still to come, and one that does not
//! include it was seen by the horizon, which came later still: nobody sees half a commit.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use ashlar_base::{Datum, Error, PartitionId, Result, TableId, Timestamp};

use crate::life::Expiry;
use crate::locks::{LockRequest, Strength, stopped};
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
    /// Rows that arrived in bulk. They stay here until nothing can fail any more.
    loads: &'a mut [Load],
    /// Their keys were new then.
    loaded_at: Timestamp,
    _charge: Charge,
}

/// Why nothing was committed.
enum Failed {
    /// Somebody else has locked a row.
    Stopped(LockRequest),
    /// A row of a region was to have values that another one has.
    Clash(Arc<Region>, Box<Clash>),
    Error(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

pub(crate) fn commit(common: &Arc<Common>, writes: &mut WriteSet) -> Result<Timestamp> {
    loop {
        match attempt(common, writes) {
            Ok(timestamp) => return Ok(timestamp),
            Err(Failed::Error(error)) => return Err(error),
            Err(Failed::Stopped(request)) => {
                writes.stop(request);
                return Err(stopped());
            }
            // A row whose time has come is in nobody's way. It is ended without the commit's locks: others may have its own.
            Err(Failed::Clash(region, clash)) if region.bury_holder(&clash) => {}
            Err(Failed::Clash(_, clash)) => return Err(clash.error),
        }
    }
}

/// Commits, or leaves everything as it was, what arrived in bulk included.
fn attempt(common: &Arc<Common>, writes: &mut WriteSet) -> Result<Timestamp, Failed> {
    let (is_blind, owner, ignored) = (writes.is_blind(), writes.owner(), writes.ignored_indexes());
    let (staged, first_read) = writes.parts();
    // Beside what is only read. Whoever has to wait, or to make room, tries the same again.
    let mut loads: Vec<Vec<Load>> = staged.iter_mut().map(Staged::take_loads).collect();
    let done = match expect_loads(staged, &loads) {
        Err(error) => Err(Failed::Error(error)),
        Ok(()) => commit_all(common, staged, &mut loads, (is_blind, owner), &ignored).map(|(timestamp, locked)| {
            // The transaction's own snapshot has done its work: without it, what this commit ends need not be kept.
            *first_read = None;
            let stamp = Stamp { timestamp, horizon: common.registry.horizon(timestamp) };
            locked.iter().for_each(Locked::set_shape);
            locked.into_iter().try_for_each(|locked| locked.apply(stamp, is_blind)).map(|()| timestamp)
        }),
    };
    match done {
        Ok(applied) => {
            writes.clear();
            applied.map_err(Failed::Error)
        }
        Err(failed) => {
            writes.parts().0.iter_mut().zip(loads).for_each(|(staged, loads)| staged.put_loads(loads));
            Err(failed)
        }
    }
}

/// Grows key indexes for rows that arrived in bulk, one partition after the other: that takes as long as the rows take that are
/// there, and the commit holds the locks of all partitions. It looks again, as others may take the room meanwhile.
fn expect_loads(staged: &[Staged], loads: &[Vec<Load>]) -> Result<()> {
    let loaded = staged.iter().zip(loads).filter(|(staged, loads)| !loads.is_empty() && !staged.truncates());
    for (staged, loads) in loaded {
        let region = staged.region();
        for partition in (0..region.partition_count()).map(PartitionId) {
            let parts = loads.iter().filter_map(|load| load.part(partition));
            let rows: usize = parts.map(|part| part.live() as usize).sum();
            if rows > 0
                && let Some(stored) = region.lock(partition).as_mut()
            {
                stored.expect_adoption(rows)?;
            }
        }
    }
    Ok(())
}

/// Locks what is written, and does all that can fail.
fn commit_all<'a>(
    common: &Common,
    staged: &'a [Staged],
    loads: &'a mut [Vec<Load>],
    (is_blind, owner): (bool, u64),
    ignored: &[TableId],
) -> Result<(Timestamp, Vec<Locked<'a>>), Failed> {
    let is_written =
        |staged: &Staged, loads: &[Load]| !staged.is_empty() || loads.iter().any(|load| load.row_count() > 0);
    let written = staged.iter().zip(loads).filter(|(staged, loads)| is_written(staged, loads));
    let mut locked = written.map(|(staged, loads)| Locked::new(staged, loads)).collect::<Result<Vec<_>>>()?;
    locked.iter().try_for_each(Locked::check_region)?;
    if let Some(request) = locked.iter().find_map(|locked| locked.lock_of_others(owner)) {
        return Err(Failed::Stopped(request));
    }
    if !is_blind {
        locked.iter().try_for_each(Locked::validate_expected)?;
        locked.iter().try_for_each(Locked::validate)?;
    }
    locked.iter_mut().for_each(|locked| locked.bury(common));
    let reserved = locked.iter_mut().try_for_each(Locked::reserve).map_err(Failed::Error);
    if let Err(failed) = reserved.and_then(|()| checks::take_values(&mut locked, ignored)) {
        locked.iter_mut().for_each(Locked::unreserve);
        return Err(failed);
    }
    // After the values: whoever gave back one that is taken here has an earlier timestamp.
    Ok((common.registry.tick(), locked))
}

impl<'a> Locked<'a> {
    /// Locks what the writes touch.
    fn new(staged: &'a Staged, loads: &'a mut [Load]) -> Result<Self> {
        let charge = Charge::of_statement(staged.account(), staged.list_bytes())?;
        let (rows, starts) = staged.by_partition();
        let expected = staged.expected().iter().map(|expected| expected.place.partition.0);
        let expected: BTreeSet<u16> =
            expected.chain(staged.watched().iter().map(|watched| watched.place.partition.0)).collect();
        let touched = |partition: &u16| {
            let at = usize::from(*partition);
            let whole = staged.truncates() || staged.altered_at().is_some();
            let is_loaded = loads.iter().any(|load| load.part(PartitionId(*partition)).is_some());
            whole || starts[at] < starts[at + 1] || expected.contains(partition) || is_loaded
        };
        let region = staged.region();
        let partitions = (0..region.partition_count()).filter(touched).map(PartitionId);
        let guards = partitions.map(|partition| (partition, region.lock(partition))).collect();
        let loaded_at = loads.iter().map(Load::read_at).min().unwrap_or(Timestamp(0));
        Ok(Self { staged, rows, starts, guards, prepared: VecDeque::new(), loads, loaded_at, _charge: charge })
    }

    fn range(&self, partition: PartitionId) -> Range<usize> {
        let partition = usize::from(partition.0);
        self.starts[partition] as usize..self.starts[partition + 1] as usize
    }

    /// The table is what it was when the rows were written.
    fn check_region(&self) -> Result<()> {
        let region = self.staged.region();
        if region.is_dropped() || region.version() != self.staged.base_version() {
            return Err(changed(self.staged.schema()));
        }
        if let Some(indexes) = self.staged.retires()
            && !region.every_index().iter().map(|index| index.id).eq(indexes.iter().map(|index| index.id))
        {
            return Err(changed(self.staged.schema()));
        }
        Ok(())
    }

    /// What has to be waited for, where somebody else has locked what is to be written.
    fn lock_of_others(&self, owner: u64) -> Option<LockRequest> {
        let region = self.staged.region();
        let attention = region.attention();
        if !attention.is_wanted() {
            return None;
        }
        if self.staged.truncates() || self.staged.altered_at().is_some() {
            return attention.request_any(owner);
        }
        let stops = |hash: u64, deletes: bool| {
            let strength = if deletes { Strength::Update } else { Strength::NoKeyUpdate };
            attention.forbidden(hash, owner).covers(deletes).then(|| attention.request(hash, strength))
        };
        let mut key = Vec::new();
        self.guards.iter().find_map(|(partition, _)| {
            let written = self.rows[self.range(*partition)].iter().find_map(|&row| {
                read_key(self.staged, row, &mut key);
                stops(region.hash(&key), self.staged.state(row).is_deleted())
            });
            let mut loaded = self.loads.iter().filter_map(|load| load.part(*partition)).flat_map(Partition::hashes);
            written.or_else(|| loaded.find_map(|hash| stops(hash, false)))
        })
    }

    /// Nobody else has changed a key that was only read, or has touched one that is watched.
    fn validate_expected(&self) -> Result<()> {
        for watched in self.staged.watched() {
            if watched.is_touched() || watched.has_ended(self.stored(watched.place.partition)?) {
                return Err(self.conflict());
            }
        }
        let mut key = Vec::new();
        for expected in self.staged.expected() {
            let Some(stored) = self.stored(expected.place.partition)? else { continue };
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

    /// A partition that was locked; `None` where nothing was ever written to it.
    fn stored(&self, partition: PartitionId) -> Result<Option<&Partition>> {
        match self.guards.binary_search_by_key(&partition, |(partition, _)| *partition) {
            Ok(guard) => Ok(self.guards[guard].1.as_deref()),
            Err(_) => Err(Error::internal("a partition whose keys were read is not locked")),
        }
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
        for (partition, guard) in &self.guards {
            let Some(stored) = guard.as_deref() else { continue };
            let loaded = self.loads.iter().filter_map(|load| load.part(*partition));
            for loaded in loaded.filter(|_| !stored.is_present(self.loaded_at)) {
                if let Some(key) = stored.first_key_since(self.loaded_at, loaded) {
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
        self.staged.conflict()
    }

    /// Where values are unique, rows of the keys whose time has come end for good: what they have is free.
    fn bury(&mut self, common: &Common) {
        let mut key = Vec::new();
        for index in 0..self.guards.len() {
            let partition = self.guards[index].0;
            let range = self.range(partition);
            let (_, guard) = &mut self.guards[index];
            let Some(stored) = guard.as_mut().filter(|stored| stored.has_checks() && stored.has_life()) else {
                continue;
            };
            let stamp = common.stamp();
            for loaded in self.loads.iter().filter_map(|load| load.part(partition)) {
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
            let partition = self.guards[index].0;
            let range = self.range(partition);
            let loaded = || self.loads.iter().filter_map(|load| load.part(partition));
            let is_loaded = loaded().next().is_some();
            if range.is_empty() && !is_loaded && self.guards[index].1.is_none() {
                continue;
            }
            let written = range.len() + loaded().map(|loaded| loaded.live() as usize).sum::<usize>();
            let rows = self.rows[range].iter().filter(|&&row| !staged.state(row).is_deleted());
            let count = rows.clone().count();
            let needs = rows.map(|&row| (0..columns).map(move |ordinal| staged.need(row, ordinal)));
            let (id, guard) = &mut self.guards[index];
            let stored = staged.region().partition_mut(*id, guard);
            if staged.altered_at().is_some() {
                stored.set_shape(staged.shape());
            }
            let mut loaded = self.loads.iter_mut().filter_map(|load| load.part_mut(partition));
            // Its own rows have their places in its key index: room for them again would make all of that anew.
            loaded.try_for_each(|loaded| {
                let others = written - loaded.live() as usize;
                stored.reserve_adoption(loaded, others)
            })?;
            // Rows of a load are the last ones then, and what room is after them is not known yet.
            stored.reserve_rows(needs, staged.truncates() || is_loaded)?;
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
        if self.staged.retires().is_some() {
            self.staged.region().retire();
        }
    }

    fn apply(mut self, stamp: Stamp, is_blind: bool) -> Result<()> {
        let staged = self.staged;
        let attention = staged.region().attention();
        if staged.truncates() && attention.is_wanted() {
            attention.touch_all();
        }
        for (partition, mut guard) in std::mem::take(&mut self.guards) {
            let range = self.range(partition);
            let is_loaded = self.loads.iter().any(|load| load.part(partition).is_some());
            if range.is_empty() && !is_loaded && guard.is_none() {
                continue;
            }
            let stored = staged.region().partition_mut(partition, &mut guard);
            if staged.truncates() {
                stored.truncate(stamp);
            }
            // With the partition locked, so that no watch is missed that was there before.
            let is_watched = attention.is_wanted();
            for loaded in self.loads.iter_mut().filter_map(|load| load.take_part(partition)) {
                if is_watched {
                    loaded.hashes().for_each(|hash| attention.touch(hash));
                }
                stored.adopt(*loaded, stamp, || self.prepared.pop_front())?;
            }
            stored.collect_entries(range.len());
            let written = self.write(range, stored, (is_watched, is_blind), stamp);
            stored.enter_collected();
            written?;
            stored.unreserve();
        }
        Ok(())
    }

    /// Writes the rows of a partition that were written one by one.
    fn write(
        &mut self,
        range: Range<usize>,
        stored: &mut Partition,
        (is_watched, is_blind): (bool, bool),
        stamp: Stamp,
    ) -> Result<()> {
        let staged = self.staged;
        let columns = staged.schema().columns.len();
        let (mut key, mut values): (Vec<Datum<'_>>, Vec<Datum<'_>>) = (Vec::new(), Vec::with_capacity(columns));
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
            let expiry = match staged.expiry(row) {
                // The row that was there when the commit looked may have come to be over since.
                Expiry::Keep if located.row.is_none() && !is_blind => staged.kept(row),
                said => said,
            };
            let mutation = Mutation::Living { write: &mutation, expiry };
            stored.apply(&mutation, located, stamp)?;
            if is_watched {
                staged.region().attention().touch(located.hash);
            }
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
