//! What a commit still has to do to its partitions once nothing can fail any more: at once, or later by the next thread
//! that locks the partition, a piece at a time.
//!
//! Called by `commit`, and through [`Guard::leave`] by every thread that locks a partition. Whoever reads a key between two
//! pieces asks the writes for it first, so he never sees that only some of them are in.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use ashlar_base::{Datum, Error, PartitionId, Result, Timestamp};

use super::{Advance, Held, Locked, read_key};
use crate::life::Expiry;
use crate::memory::Charge;
use crate::mutation::{Applied, Mutation};
use crate::partition::{Partition, Prepared, Stamp};
use crate::region::{Guard, Rest};
use crate::segment::Need;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::writeset::Staged;

/// Rows of a region up to which a commit applies all of them before it lets go: it takes less time than a query takes to come back.
/// Tests have few rows.
pub(super) const ROWS_AT_ONCE: usize = if cfg!(any(test, shuttle)) { 4 } else { 1024 };

/// Rows that are written in one hold of a partition's lock, where more are left there: at one or two microseconds a row, what a reader
/// of a key waits for is less than it takes to answer some tens of others.
pub(super) const ROWS_IN_PIECE: usize = if cfg!(any(test, shuttle)) { 2 } else { 256 };

/// Bytes of texts and arrays from which on a piece has no further row.
const BYTES_IN_PIECE: usize = 1 << 20;

/// What a commit has for one region.
pub(super) struct Work {
    staged: Arc<Staged>,
    /// Rows by partition, see `Staged::by_partition`.
    rows: Vec<u32>,
    starts: Vec<u32>,
    stamp: Stamp,
    is_blind: bool,
    /// What went wrong where nothing can: said by whoever it happened to, for the commit.
    failed: Mutex<Option<Error>>,
    /// Partitions in whose places it is left.
    undone: AtomicUsize,
    _charge: Charge,
}

/// What it has for one of the region's partitions.
struct Part {
    partition: PartitionId,
    /// What indexes compute of the rows, in the order in which they are applied; empty where they compute nothing.
    prepared: VecDeque<Prepared>,
    /// Rows that arrived in bulk.
    loaded: Vec<Partition>,
    /// The first piece is done.
    has_begun: bool,
    /// How many of the rows that were written one by one are in.
    written: usize,
}

/// What is left in the place of a partition.
struct Remainder {
    work: Arc<Work>,
    part: Part,
    /// What was written one by one says all of the keys that change, and nothing of the lives of their rows.
    is_readable: bool,
}

/// Partitions in which a commit has left its work.
pub(super) struct Left {
    work: Arc<Work>,
    partitions: Vec<PartitionId>,
}

impl Locked<'_> {
    /// Applies the region's rows and lets go of its partitions; many rows are left in the partitions' places, which are let go
    /// at once.
    pub(super) fn apply(self, stamp: Stamp, is_blind: bool) -> Result<Option<Left>> {
        let Self { staged, rows, starts, guards, loads, advance, charge, .. } = self;
        advance.into_iter().for_each(Advance::keep);
        let loaded_rows = loads.iter().map(|load| load.row_count()).sum::<usize>();
        let is_left = staged.truncates() || rows.len() + loaded_rows > ROWS_AT_ONCE;
        let failed = Mutex::new(None);
        let work = Work {
            staged: Arc::clone(staged),
            rows,
            starts,
            stamp,
            is_blind,
            failed,
            undone: AtomicUsize::new(0),
            _charge: charge,
        };
        let parts = guards.into_iter().filter_map(|Held { partition, guard, prepared, .. }| {
            let loaded: Vec<_> =
                loads.iter_mut().filter_map(|load| load.take_part(partition)).map(|part| *part).collect();
            let is_nothing = work.range(partition).is_empty() && loaded.is_empty() && guard.is_none();
            (!is_nothing).then_some((guard, Part { partition, prepared, loaded, has_begun: false, written: 0 }))
        });
        if !is_left {
            parts.into_iter().try_for_each(|(mut guard, part)| work.apply(part, &mut guard))?;
            return Ok(None);
        }
        let parts: Vec<_> = parts.collect();
        let work = Arc::new(Work { undone: AtomicUsize::new(parts.len()), ..work });
        let says_all = !staged.truncates() && staged.altered_at().is_none() && !staged.says_life();
        let leave = |(guard, part): (Guard<'_>, Part)| {
            let (work, partition) = (Arc::clone(&work), part.partition);
            let has_no_life = guard.as_deref().is_some_and(|stored| !stored.has_life());
            let is_readable = says_all && part.loaded.is_empty() && has_no_life;
            guard.leave(Box::new(Remainder { work, part, is_readable }));
            partition
        };
        let partitions = parts.into_iter().map(leave).collect();
        Ok(Some(Left { work, partitions }))
    }
}

impl Left {
    /// Does what nobody else has done meanwhile.
    pub(super) fn finish(self) -> Result<()> {
        let region = self.work.staged.region();
        for partition in self.partitions {
            while region.do_piece(partition) {}
        }
        if self.work.undone.load(Ordering::Relaxed) > 0 {
            return Err(Error::internal("rows of a commit were not applied"));
        }
        self.work.failed.lock().take().map_or(Ok(()), Err)
    }
}

impl Rest for Remainder {
    fn step(&mut self, stored: &mut Option<Box<Partition>>) -> bool {
        match self.work.step(&mut self.part, stored) {
            Ok(false) => return false,
            Ok(true) => {}
            Err(error) => {
                self.work.failed.lock().get_or_insert(error);
            }
        }
        self.work.undone.fetch_sub(1, Ordering::Relaxed);
        true
    }

    fn writes(&self) -> Option<(&Staged, Timestamp)> {
        self.is_readable.then(|| (&*self.work.staged, self.work.stamp.timestamp))
    }
}

impl Work {
    fn range(&self, partition: PartitionId) -> Range<usize> {
        let partition = usize::from(partition.0);
        self.starts[partition] as usize..self.starts[partition + 1] as usize
    }

    /// Applies what there is for a partition, which is locked.
    fn apply(&self, mut part: Part, stored: &mut Option<Box<Partition>>) -> Result<()> {
        while !self.step(&mut part, stored)? {}
        Ok(())
    }

    /// Applies a piece of what there is for a partition, which is locked. Returns whether that was the last. After an error there is
    /// nothing more to do.
    fn step(&self, part: &mut Part, stored: &mut Option<Box<Partition>>) -> Result<bool> {
        let rows = &self.rows[self.range(part.partition)];
        let stored = self.staged.region().partition_mut(part.partition, stored);
        if !part.has_begun {
            part.has_begun = true;
            if self.staged.truncates() {
                stored.truncate(self.stamp);
            }
            for loaded in std::mem::take(&mut part.loaded) {
                stored.adopt(loaded, self.stamp, || part.prepared.pop_front())?;
            }
            stored.collect_entries(rows.len());
        }
        let left = &rows[part.written..];
        let done = self.write(&left[..left.len().min(ROWS_IN_PIECE)], stored, &mut part.prepared);
        part.written += *done.as_ref().unwrap_or(&0);
        if done.is_ok() && part.written < rows.len() {
            return Ok(false);
        }
        stored.enter_collected();
        done?;
        stored.unreserve();
        Ok(true)
    }

    /// Writes the first of these rows, which were written one by one, into a partition: all of them if they are not large. Returns how
    /// many.
    fn write(&self, rows: &[u32], stored: &mut Partition, prepared: &mut VecDeque<Prepared>) -> Result<usize> {
        let staged = &*self.staged;
        let columns = staged.schema().columns.len();
        let (mut key, mut values): (Vec<Datum<'_>>, Vec<Datum<'_>>) = (Vec::new(), Vec::with_capacity(columns));
        let has_checks = stored.has_checks();
        let mut bytes = 0;
        for (written, &row) in rows.iter().enumerate() {
            if bytes >= BYTES_IN_PIECE {
                return Ok(written);
            }
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
                bytes += values.iter().map(|value| Need::of(value).bytes).sum::<usize>();
                if has_checks {
                    stored.set_prepared(prepared.pop_front());
                }
                Mutation::Upsert { row: &values }
            };
            let expiry = match staged.expiry(row) {
                // The row that was there when the commit looked may have come to be over since.
                Expiry::Keep if located.row.is_none() && !self.is_blind => staged.kept(row),
                said => said,
            };
            let mutation = Mutation::Living { write: &mutation, expiry };
            let change = stored.apply(&mutation, located, self.stamp)?;
            // No row has changed, so that the partition tells nobody. But the transaction may have written the row and deleted
            // it again, and for whoever watches the key that is a write, as it is for Redis.
            if change.applied == Applied::Nothing && staged.region().attention().is_wanted() {
                staged.region().attention().touch(hash);
            }
        }
        Ok(rows.len())
    }
}

#[cfg(test)]
mod tests;
