//! Rounds of compaction, on a thread of their own.
//!
//! Called by the server once, and by tests directly. Holds one partition's lock at a time, and none while rows are
//! copied.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use ashlar_base::PartitionId;
use ashlar_base::scope::{self, Name};
use parking_lot::{Condvar, Mutex};

use crate::partition::{Limits, Partition};
use crate::region::Region;
use crate::segment::BYTES_MAX;
use crate::store::Store;

/// Old versions forgotten in one hold of a partition's lock.
const TRIM_PER_LOCK: usize = 1024;
/// Rows ended in one hold of a partition's lock because their time has come.
const REAPED_PER_LOCK: usize = 256;
/// Rows that get their new ids in one hold of a partition's lock. So many take 0.07 ms where all 65,536 of a segment took
/// 4.2 (release build, a million rows in the partition, medians; the machine was busy).
const MOVED_PER_LOCK: usize = 1024;
/// Rewrites of one partition in one round, at most: rows may die as fast as they are rewritten.
const REWRITES_MAX: usize = 1024;

static COMPACTION: Name = Name::new("compaction");

/// What a round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionReport {
    /// Runs of segments that were rewritten.
    pub rewrites: u64,
    /// Rows that were removed for good.
    pub rows_removed: u64,
    /// Bytes charged to the regions before, less those after; zero when they grew meanwhile.
    pub bytes_freed: u64,
}

/// One round over all partitions of all regions.
pub(crate) fn round(regions: &[Arc<Region>]) -> CompactionReport {
    let mut report = CompactionReport::default();
    for region in regions {
        let before = region.bytes();
        for partition in 0..region.partition_count() {
            let rows_min = region.common().compaction_rows_min as usize;
            let limits = Limits::of_round(rows_min, BYTES_MAX);
            region.compact_partition(PartitionId(partition), limits, &mut report);
        }
        region.relieve();
        region.refresh_directories();
        report.bytes_freed += before.saturating_sub(region.bytes());
    }
    report
}

impl Region {
    /// Gives memory of one partition back.
    pub(crate) fn compact_partition(&self, id: PartitionId, limits: Limits, report: &mut CompactionReport) {
        let registry = &self.common().registry;
        self.reap(id);
        self.piece_by_piece(id, |partition| partition.trim(registry.oldest(), TRIM_PER_LOCK));
        // Left over by a round that did not end.
        self.piece_by_piece(id, |partition| partition.move_rows(MOVED_PER_LOCK));
        for _ in 0..REWRITES_MAX {
            let Some(rewrite) = self.lock(id).as_mut().and_then(|partition| partition.pick(limits)) else { break };
            let (_, removed) = rewrite.row_counts();
            let rewritten = rewrite.build(&self.common().hasher);
            let swapped = self.lock(id).as_mut().is_some_and(|partition| partition.swap(rewritten));
            if !swapped {
                break;
            }
            self.piece_by_piece(id, |partition| partition.move_rows(MOVED_PER_LOCK));
            report.rewrites += 1;
            report.rows_removed += removed as u64;
        }
        let empty = {
            let mut guard = self.lock(id);
            let empty = guard.as_ref().is_some_and(|partition| partition.can_go());
            if let Some(partition) = guard.as_mut().filter(|_| !empty) {
                partition.shrink();
            }
            let freed = if empty { guard.take() } else { None };
            if let Some(partition) = freed.as_deref() {
                self.keep_turnover(partition);
            }
            freed
        };
        if let Some(partition) = empty {
            report.rows_removed += partition.total();
        }
    }
}

impl Region {
    /// Ends the rows of a partition whose time has come.
    fn reap(&self, id: PartitionId) {
        let mut place = Some(0);
        self.piece_by_piece(id, |partition| {
            if partition.has_life()
                && let Some(at) = place
            {
                place = partition.reap(at, self.common().stamp(), REAPED_PER_LOCK);
                return place.is_none();
            }
            true
        });
    }

    /// Does a piece of work under a partition's lock until it says that nothing is left. Whoever waits for the lock
    /// goes first in between.
    fn piece_by_piece(&self, id: PartitionId, mut work: impl FnMut(&mut Partition) -> bool) {
        loop {
            let mut guard = self.lock(id);
            let done = guard.as_deref_mut().is_none_or(&mut work);
            guard.unlock_fair();
            if done {
                return;
            }
        }
    }
}

/// The background thread; it stops when this is dropped.
pub struct CompactorHandle {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl CompactorHandle {
    pub(crate) fn start(store: &Arc<Store>, interval_ms: u64) -> Self {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let (store, interval) = (Arc::downgrade(store), Duration::from_millis(interval_ms.max(1)));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("compactor".into());
        let thread = thread.spawn(move || run(&store, &stopped, interval));
        if let Err(error) = &thread {
            tracing::error!(%error, "the compactor did not start: deleted rows keep their memory");
        }
        Self { stop, thread: thread.ok() }
    }
}

// A function by itself in every build, so that profiles name it.
#[inline(never)]
fn run(store: &Weak<Store>, stop: &(Mutex<bool>, Condvar), interval: Duration) {
    loop {
        {
            let mut stopped = stop.0.lock();
            if !*stopped {
                stop.1.wait_for(&mut stopped, interval);
            }
            if *stopped {
                return;
            }
        }
        let Some(store) = store.upgrade() else { return };
        // Without this thread no memory is given back any more: one bad round must not end it.
        store.advance_clock();
        match std::panic::catch_unwind(AssertUnwindSafe(scope::work(&COMPACTION, || store.compact()))) {
            Ok(report) if report.rewrites > 0 => {
                tracing::debug!(report.rewrites, report.rows_removed, report.bytes_freed, "compacted");
            }
            Ok(_) => {}
            Err(_) => tracing::error!("a round of the compactor panicked: rows may keep their memory"),
        }
    }
}

impl Drop for CompactorHandle {
    fn drop(&mut self) {
        *self.stop.0.lock() = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the compactor panicked");
        }
    }
}

#[cfg(test)]
mod tests;
