//! Eviction: rows of tables that allow it are removed when memory runs short.
//!
//! A table is short of memory when less than one sixteenth of its `memory_max`, or of the server's bound, is left (more
//! for a table with few partitions). A write to a table that evicts then first removes some rows of one partition and
//! frees their memory; the compactor goes on until there is room again. Only one thread at a time does this for a
//! table, and it passes its turn on after each partition. A single write takes less than that margin, so writes are
//! refused only when nothing more can be removed: when open snapshots still hold what has been evicted, or when a limit
//! was set far below what is there, until enough has been removed. No write waits for all of that; it removes a bounded
//! piece.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ashlar_base::{Eviction, LifeOptions, PartitionId};

use crate::compactor::CompactionReport;
use crate::partition::Limits;
use crate::region::Region;
use crate::segment::BYTES_MAX;
use crate::sync::MutexGuard;

/// One row of so many in a partition goes at once: what is left is copied, so that fewer would cost more copies.
const EVICTED_SHARE: u64 = 8;
/// Rows that go in one hold of a partition's lock.
const EVICTED_PER_LOCK: usize = 512;
/// Bytes of the partitions that a write lets rows go of, at most, or one partition: what is left of them is copied, in some
/// milliseconds.
const BYTES_PER_WRITE: u64 = 4 << 20;
/// No more rows go where one of so many has gone, and its memory has not come back.
const GONE_SHARE: u64 = 4;

impl Region {
    /// Takes over what the table says about its memory.
    pub(crate) fn set_bounds(&self, options: &LifeOptions) {
        let max = if options.memory_max == 0 { u64::MAX } else { options.memory_max };
        self.account().set_max(max);
        self.lives().evicts.store(options.eviction != Eviction::None, Ordering::Release);
    }

    /// Whether rows of the table give way to others.
    #[inline]
    pub(crate) fn evicts(&self) -> bool {
        self.lives().evicts.load(Ordering::Relaxed)
    }

    /// Before a write, with no partition locked: lets rows go where there is little room. Whether it has had to, which takes some
    /// milliseconds.
    #[inline]
    pub(crate) fn make_room(&self) -> bool {
        let has_to = self.evicts() && self.has_little();
        if has_to {
            self.make_room_now();
        }
        has_to
    }

    /// Whether rows have to go. A write may let half of a partition's memory grow, so it is more where partitions are few.
    fn has_little(&self) -> bool {
        self.account().has_less_than(self.part())
    }

    /// Whether the next writes may be refused.
    fn has_hardly_any(&self) -> bool {
        self.account().has_less_than(4 * self.part())
    }

    fn part(&self) -> u64 {
        u64::from(self.partition_count()).clamp(4, 16)
    }

    #[cold]
    fn make_room_now(&self) {
        let lives = Arc::clone(self.lives());
        let one = match lives.relieving.try_lock() {
            Some(one) => one,
            // Somebody is at it, and there is enough until he is done.
            None if !self.has_hardly_any() => return,
            None => lives.relieving.lock(),
        };
        let mut partitions = self.partitions_of_a_piece();
        while partitions > 0 && self.has_little() {
            partitions -= 1;
            let has_freed = self.relieve_next();
            if has_freed && !self.has_hardly_any() {
                break;
            }
        }
        MutexGuard::unlock_fair(one);
    }

    /// Partitions that one write goes through at most.
    fn partitions_of_a_piece(&self) -> u32 {
        let count = u64::from(self.partition_count());
        (BYTES_PER_WRITE * count / self.bytes().max(1)).clamp(1, count) as u32
    }

    /// Lets rows go until there is room, or no more can go.
    pub(crate) fn relieve(&self) {
        // Several times round, an eighth each time.
        self.relieve_by(u32::from(self.partition_count()) * EVICTED_SHARE as u32);
    }

    /// Lets rows go until there is room, but for a commit of so many bytes no more than one write does, and twice as many bytes.
    pub(crate) fn relieve_for(&self, bytes: u64) {
        let count = u64::from(self.partition_count());
        let each = (self.bytes() / count).max(1);
        let more = bytes.saturating_mul(2 * EVICTED_SHARE) / each;
        self.relieve_by(self.partitions_of_a_piece() + more.min(count * EVICTED_SHARE) as u32);
    }

    fn relieve_by(&self, partitions: u32) {
        let lives = Arc::clone(self.lives());
        for _ in 0..partitions {
            if !self.evicts() || !self.has_little() {
                return;
            }
            let one = lives.relieving.lock();
            self.relieve_next();
            // Writers that have hardly any room wait for it.
            MutexGuard::unlock_fair(one);
        }
    }

    /// Lets rows of the next partition go: whether any did.
    fn relieve_next(&self) -> bool {
        let id = self.lives().next_place.fetch_add(1, Ordering::Relaxed) % u64::from(self.partition_count());
        let id = PartitionId(id as u16);
        let mut wanted = None;
        let mut gone = 0;
        loop {
            let mut guard = self.lock(id);
            let Some(partition) = guard.as_mut() else { return false };
            let (live, total) = (partition.live(), partition.total());
            let wanted = *wanted.get_or_insert(live.div_ceil(EVICTED_SHARE));
            if gone >= wanted || (total - live) > total / GONE_SHARE + wanted {
                break;
            }
            let count = usize::try_from(wanted - gone).unwrap_or(usize::MAX).min(EVICTED_PER_LOCK);
            match partition.evict(count, self.common().stamp()) {
                0 => break,
                evicted => gone += evicted as u64,
            }
        }
        let limits = Limits { rows_min: 1, bytes_max: BYTES_MAX, dead_share: EVICTED_SHARE as usize * 2 };
        self.compact_partition(id, limits, &mut CompactionReport::default());
        gone > 0
    }
}

#[cfg(test)]
mod tests;
