//! What a commit still has to do to its partitions once nothing can fail any more: at once, or later by the next thread
//! that locks the partition.
//!
//! Called by `commit`, and through [`crate::region::Guard::leave`] by every thread that locks a partition.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use ashlar_base::{Datum, Error, PartitionId, Result};

use super::{Advance, Held, Locked, read_key};
use crate::life::Expiry;
use crate::memory::Charge;
use crate::mutation::{Applied, Mutation};
use crate::partition::{Partition, Prepared, Stamp};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::writeset::Staged;

/// Rows of a region up to which a commit applies all of them before it lets go: it takes less time than a query takes to come back.
/// Tests have few rows.
const ROWS_AT_ONCE: usize = if cfg!(any(test, shuttle)) { 4 } else { 1024 };

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
            (!is_nothing).then_some((guard, Part { partition, prepared, loaded }))
        });
        if !is_left {
            parts.into_iter().try_for_each(|(mut guard, part)| work.apply(part, &mut guard))?;
            return Ok(None);
        }
        let parts: Vec<_> = parts.collect();
        let work = Arc::new(Work { undone: AtomicUsize::new(parts.len()), ..work });
        let leave = |(guard, part): (crate::region::Guard<'_>, Part)| {
            let (work, partition) = (Arc::clone(&work), part.partition);
            guard.leave(Box::new(move |stored| {
                if let Err(error) = work.apply(part, stored) {
                    work.failed.lock().get_or_insert(error);
                }
                work.undone.fetch_sub(1, Ordering::Relaxed);
            }));
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
        self.partitions.into_iter().for_each(|partition| drop(region.lock(partition)));
        if self.work.undone.load(Ordering::Relaxed) > 0 {
            return Err(Error::internal("rows of a commit were not applied"));
        }
        self.work.failed.lock().take().map_or(Ok(()), Err)
    }
}

impl Work {
    fn range(&self, partition: PartitionId) -> Range<usize> {
        let partition = usize::from(partition.0);
        self.starts[partition] as usize..self.starts[partition + 1] as usize
    }

    /// Applies what there is for a partition, which is locked.
    fn apply(&self, part: Part, stored: &mut Option<Box<Partition>>) -> Result<()> {
        let Part { partition, mut prepared, loaded } = part;
        let stored = self.staged.region().partition_mut(partition, stored);
        if self.staged.truncates() {
            stored.truncate(self.stamp);
        }
        for loaded in loaded {
            stored.adopt(loaded, self.stamp, || prepared.pop_front())?;
        }
        let range = self.range(partition);
        stored.collect_entries(range.len());
        let written = self.write(range, stored, &mut prepared);
        stored.enter_collected();
        written?;
        stored.unreserve();
        Ok(())
    }

    /// Writes the rows of a partition that were written one by one.
    fn write(&self, range: Range<usize>, stored: &mut Partition, prepared: &mut VecDeque<Prepared>) -> Result<()> {
        let staged = &*self.staged;
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
        Ok(())
    }
}

#[cfg(test)]
mod tests;
