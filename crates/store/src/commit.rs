//! Commit of a transaction: lock every partition it writes, take one timestamp, validate every key, make room, and then
//! apply everything into the room that was made.
//!
//! Called by `Store::commit`. Partitions are locked in the order of (table, partition), so two commits cannot deadlock.
//! Values of unique indexes are claimed under locks that come after all partition locks in that order
//! (`commit::checks`). Each partition is unlocked as soon as its rows are applied or, for a commit of many partitions,
//! as soon as the remaining work is left in the partition's place for whichever thread locks it next (`commit::work`).
//!
//! No snapshot sees half a commit. One that includes the timestamp was opened after every lock was taken, so at a
//! partition whose rows are still missing it waits, or applies them itself, or asks the writes for the one key that it
//! reads. One that does not include the timestamp was registered before the commit read the horizon, and so the versions it
//! needs are kept.
//!
//! With all locks held nothing is done that takes as long as there are rows, where that can be avoided: what is known of
//! them, and room for them, is made before (`commit::ahead`).

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use ashlar_base::{Datum, Error, IndexDef, PartitionId, Result, TableId, Timestamp};

use crate::key_parts::Clash;
use crate::locks::{LockRequest, Strength, stopped};
use crate::memory::Charge;
use crate::partition::{Partition, Prepared, Since, Stamp};
use crate::region::{Common, Guard, Region, changed};
use crate::writeset::{Load, Staged, WriteSet, own};

/// The most bytes that a segment keeps about the lifetime of one row.
const LIFE_BYTES_MAX: usize = 13;

mod advance;
mod ahead;
mod checks;
mod few;
mod work;

use advance::Advance;
use ahead::{Ahead, Brief, Room};
use work::Left;

/// The writes of one region, with its partitions locked.
struct Locked<'a> {
    staged: &'a Arc<Staged>,
    /// Rows by partition, see `Staged::by_partition`.
    rows: Vec<u32>,
    starts: Vec<u32>,
    /// The locked partitions, in ascending order.
    guards: Vec<Held<'a>>,
    /// Rows that arrived in bulk. They stay here until nothing can fail any more.
    loads: &'a mut [Load],
    /// The timestamp at which their keys were known to be new.
    loaded_at: Timestamp,
    /// Set if they have claimed their values of unique indexes.
    advance: Option<Advance<'a>>,
    charge: Charge,
}

/// A locked partition.
struct Held<'a> {
    partition: PartitionId,
    guard: Guard<'a>,
    /// The results of indexes' expressions for the rows, in the order in which they are applied; empty if no index has any.
    prepared: VecDeque<Prepared>,
    /// Room for the rows, if it was made before the lock was taken.
    room: Option<Room>,
    /// What is known of the rows, if they are so many that not all are to be looked at.
    brief: Option<Brief>,
}

/// The work done for a region before any lock was held.
type Before<'a> = (Ahead, Option<Advance<'a>>);

/// Why nothing was committed.
enum Failed {
    /// Another owner has locked a row.
    Stopped(LockRequest),
    /// A row of a region was to have unique values that another row has.
    Clash(Arc<Region>, Box<Clash>),
    /// The indexes of the table have changed meanwhile.
    Again,
    Error(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

pub(crate) fn commit(common: &Arc<Common>, writes: &mut WriteSet) -> Result<Timestamp> {
    let (timestamp, left) = commit_leaving(common, writes)?;
    // All of it, whatever is wrong with some.
    let finished: Vec<Result<()>> = left.into_iter().map(Left::finish).collect();
    finished.into_iter().collect::<Result<()>>().map(|()| timestamp)
}

/// Commits, and returns the work that is left. No reader can tell that it has not been done yet.
fn commit_leaving(common: &Arc<Common>, writes: &mut WriteSet) -> Result<(Timestamp, Vec<Left>)> {
    loop {
        match attempt(common, writes) {
            Ok(committed) => return Ok(committed),
            Err(Failed::Again) => {}
            Err(Failed::Error(error)) => return Err(error),
            Err(Failed::Stopped(request)) => {
                writes.stop(request);
                return Err(stopped());
            }
            // A row whose time has come is in nobody's way, and neither is one that a commit has ended. The first is ended
            // without the commit's locks: others may have its own.
            Err(Failed::Clash(region, clash)) if region.bury_holder(&clash) => {}
            Err(Failed::Clash(_, clash)) => return Err(clash.error),
        }
    }
}

/// Commits; or fails and leaves everything as it was, including rows that arrived in bulk.
fn attempt(common: &Arc<Common>, writes: &mut WriteSet) -> Result<(Timestamp, Vec<Left>), Failed> {
    let (is_blind, owner, ignored) = (writes.is_blind(), writes.owner(), writes.ignored_indexes());
    let (staged, first_read) = writes.parts();
    // Beside what is only read. Whoever has to wait, or to make room, tries the same again.
    let mut loads: Vec<Vec<Load>> = staged.iter_mut().map(|staged| own(staged).take_loads()).collect();
    let done = prepare(staged, &loads, is_blind, &ignored).and_then(|prepared| {
        let (timestamp, locked) = commit_all(common, staged, (&mut loads, prepared), (is_blind, owner), &ignored)?;
        // The transaction's own snapshot has done its work: without it, what this commit ends need not be kept.
        *first_read = None;
        let stamp = Stamp { timestamp, horizon: common.registry.horizon(timestamp) };
        locked.iter().for_each(|locked| locked.set_shape(timestamp));
        let left = locked.into_iter().map(|locked| locked.apply(stamp, is_blind)).collect::<Result<Vec<_>>>();
        Ok(left.map(|left| (timestamp, left.into_iter().flatten().collect())))
    });
    match done {
        Ok(applied) => {
            writes.clear();
            applied.map_err(Failed::Error)
        }
        Err(failed) => {
            writes.parts().0.iter_mut().zip(loads).for_each(|(staged, loads)| own(staged).put_loads(loads));
            Err(failed)
        }
    }
}

/// Does the work that needs no lock, for each region.
fn prepare<'a>(
    staged: &'a [Arc<Staged>],
    loads: &[Vec<Load>],
    is_blind: bool,
    ignored: &[TableId],
) -> Result<Vec<Before<'a>>, Failed> {
    let one = |(staged, loads): (&'a Arc<Staged>, &Vec<Load>)| {
        let ahead = Ahead::new(staged, loads, is_blind)?;
        let advance = Advance::take(staged, &ahead, loads, ignored)?;
        Ok((ahead, advance))
    };
    staged.iter().zip(loads).map(one).collect()
}

/// Locks the partitions that are written, and does everything that can fail.
fn commit_all<'a>(
    common: &Common,
    staged: &'a [Arc<Staged>],
    (loads, prepared): (&'a mut [Vec<Load>], Vec<Before<'a>>),
    (is_blind, owner): (bool, u64),
    ignored: &[TableId],
) -> Result<(Timestamp, Vec<Locked<'a>>), Failed> {
    let is_written =
        |staged: &Staged, loads: &[Load]| !staged.is_empty() || loads.iter().any(|load| load.row_count() > 0);
    let written = staged.iter().zip(loads).zip(prepared).filter(|((staged, loads), _)| is_written(staged, loads));
    let mut locked: Vec<_> = written.map(|((staged, loads), prepared)| Locked::new(staged, loads, prepared)).collect();
    locked.iter().try_for_each(Locked::check_region)?;
    let holds = |locked: &Locked<'_>| locked.advance.as_ref().is_none_or(|taken| taken.holds(locked.staged.region()));
    if !locked.iter().all(holds) {
        return Err(Failed::Again);
    }
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
    /// Locks the partitions that the writes touch.
    fn new(staged: &'a Arc<Staged>, loads: &'a mut [Load], (ahead, advance): Before<'a>) -> Self {
        let Ahead { rows, starts, mut rooms, briefs, charge } = ahead;
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
        let partitions: Vec<_> = (0..region.partition_count()).filter(touched).map(PartitionId).collect();
        let guards = region.lock_several(&partitions).into_iter().zip(partitions);
        let hold = |(guard, partition)| {
            let (room, brief) = (rooms.remove(&partition), briefs.get(usize::from(partition.0)).copied());
            Held { partition, guard, prepared: VecDeque::new(), room, brief }
        };
        let guards = guards.map(hold).collect();
        let loaded_at = loads.iter().map(Load::read_at).min().unwrap_or(Timestamp(0));
        Self { staged, rows, starts, guards, loads, loaded_at, advance, charge }
    }

    fn range(&self, partition: PartitionId) -> Range<usize> {
        let partition = usize::from(partition.0);
        self.starts[partition] as usize..self.starts[partition + 1] as usize
    }

    /// Checks that the table is what it was when the rows were written.
    fn check_region(&self) -> Result<()> {
        fn named(index: &Arc<IndexDef>) -> (TableId, &str) {
            (index.id, index.name.as_str())
        }
        let region = self.staged.region();
        if region.is_dropped() || region.version() != self.staged.base_version() {
            return Err(changed(self.staged.schema()));
        }
        if let Some(retirement) = self.staged.retires()
            && !region.every_index().iter().map(named).eq(retirement.indexes.iter().map(named))
        {
            return Err(changed(self.staged.schema()));
        }
        Ok(())
    }

    /// The lock to wait for, if another owner has locked a row that is to be written.
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
        // Each row is asked for, or each lock, whichever are fewer.
        let has_few_rows = self.rows.len() <= attention.locks().entries() as usize;
        if !has_few_rows {
            for hash in attention.hashes() {
                let stopped =
                    |deletes| if self.staged.writes_hash(hash, deletes) { stops(hash, deletes) } else { None };
                if let Some(request) = stopped(false).or_else(|| stopped(true)) {
                    return Some(request);
                }
            }
        }
        let mut key = Vec::new();
        self.guards.iter().find_map(|Held { partition, .. }| {
            let rows = if has_few_rows { &self.rows[self.range(*partition)] } else { &[] };
            let written = rows.iter().find_map(|&row| {
                read_key(self.staged, row, &mut key);
                stops(region.hash(&key), self.staged.state(row).is_deleted())
            });
            let loaded = self.loads.iter().filter_map(|load| load.part(*partition));
            let mut attended = loaded.flat_map(|loaded| loaded.attended(attention));
            written.or_else(|| attended.find_map(|hash| stops(hash, false)))
        })
    }

    /// Checks that no other transaction has changed a key that was only read, or written one that is watched.
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

    /// A partition that was locked; `None` if nothing was ever written to it.
    fn stored(&self, partition: PartitionId) -> Result<Option<&Partition>> {
        match self.guards.binary_search_by_key(&partition, |held| held.partition) {
            Ok(guard) => Ok(self.guards[guard].guard.as_deref()),
            Err(_) => Err(Error::internal("a partition whose keys were read is not locked")),
        }
    }

    /// Checks that no other transaction has changed a key since it was read in order to be written.
    fn validate(&self) -> Result<()> {
        if self.staged.truncates() {
            return Ok(());
        }
        // Rows of others would be there as if the table had always had the shape that they did not know.
        if let Some(altered_at) = self.staged.altered_at()
            && self
                .guards
                .iter()
                .any(|held| held.guard.as_deref().is_some_and(|stored| !stored.is_unwritten(altered_at)))
        {
            return Err(self.conflict());
        }
        let mut key = Vec::new();
        for Held { partition, guard, brief, .. } in &self.guards {
            let Some(stored) = guard.as_deref() else { continue };
            let loaded = self.loads.iter().filter_map(|load| load.part(*partition));
            for loaded in loaded.filter(|_| !stored.is_present(self.loaded_at)) {
                if let Some(key) = stored.first_key_since(self.loaded_at, loaded) {
                    return Err(self.staged.shape().duplicate(&key));
                }
            }
            let rows = &self.rows[self.range(*partition)];
            if brief.is_some_and(|brief| brief.is_same(stored, self.staged, rows.len())) {
                continue;
            }
            for &row in rows {
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

    /// Removes expired rows of the keys that are written, if there are unique indexes, so that their values are free.
    fn bury(&mut self, common: &Common) {
        let mut key = Vec::new();
        for index in 0..self.guards.len() {
            let partition = self.guards[index].partition;
            let range = self.range(partition);
            let Some(stored) =
                self.guards[index].guard.as_mut().filter(|stored| stored.has_checks() && stored.has_life())
            else {
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

    /// Makes room for every row.
    fn reserve(&mut self) -> Result<()> {
        let staged = self.staged;
        let columns = staged.schema().columns.len();
        for index in 0..self.guards.len() {
            let partition = self.guards[index].partition;
            let range = self.range(partition);
            let loaded = || self.loads.iter().filter_map(|load| load.part(partition));
            let is_loaded = loaded().next().is_some();
            if range.is_empty() && !is_loaded && self.guards[index].guard.is_none() {
                continue;
            }
            let written = range.len() + loaded().map(|loaded| loaded.live() as usize).sum::<usize>();
            let rows = self.rows[range].iter().filter(|&&row| !staged.state(row).is_deleted());
            let count = self.guards[index].brief.map_or_else(|| rows.clone().count(), |brief| brief.kept);
            let needs = rows.map(|&row| (0..columns).map(move |ordinal| staged.need(row, ordinal)));
            let Held { guard, room, .. } = &mut self.guards[index];
            let stored = staged.region().partition_mut(partition, guard);
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
            let fresh = staged.truncates() || is_loaded;
            let is_made = match room.take() {
                Some(Room::Made(spares)) => stored.reserve_made(spares, count).map(|()| true)?,
                Some(Room::Behind(sum)) => !fresh && stored.reserve_behind(&sum)?,
                None => count == 0,
            };
            if !is_made {
                stored.reserve_rows(needs, fresh)?;
            }
            if staged.says_life() || stored.has_life() {
                drop(Charge::new(staged.region().account(), count * LIFE_BYTES_MAX)?);
            }
        }
        Ok(())
    }

    /// Releases segments that were made for rows that will not come, and restores the shape.
    fn unreserve(&mut self) {
        let shape = self.staged.region().shape();
        for stored in self.guards.iter_mut().filter_map(|held| held.guard.as_mut()) {
            stored.set_shape(&shape);
            stored.unreserve();
        }
    }

    /// Gives the region the shape that its partitions got when room was made.
    fn set_shape(&self, at: Timestamp) {
        if self.staged.altered_at().is_some() {
            self.staged.region().set_shape(self.staged.shape());
        }
        if let Some(retirement) = self.staged.retires() {
            self.staged.region().retire_for(&retirement.heir, at);
        }
    }
}

fn read_key<'a>(staged: &'a Staged, row: u32, key: &mut Vec<Datum<'a>>) {
    let row = staged.row(row);
    key.clear();
    key.extend(staged.schema().key.iter().map(|&ordinal| row.get(ordinal)));
}

#[cfg(test)]
mod tests;
