//! Single-key writes that go straight to their partition, and the check whether row locks stand in the way.
//!
//! Called by sessions. As long as no row of a region is locked or watched, the check is one read of a counter.

use std::sync::Arc;

use ashlar_base::Datum;

use super::Region;
use crate::entry::{Entry, Obstacle};
use crate::locks::{Attention, Forbidden, LockInfo, Way};

impl Region {
    /// Reads and writes the row of one key under its partition's lock, as one atomic step. `f` must not touch the
    /// store in any other way. A key that no row can have is an entry without a row that refuses writes.
    /// A write is refused with 55P03 if another owner has locked the row.
    pub fn entry<R>(&self, key: &[Datum<'_>], f: impl FnOnce(&mut Entry<'_>) -> R) -> R {
        self.make_room();
        self.entry_by(0, key, f)
    }

    /// Like [`Region::entry`], for somebody who may have locked the row, and who is told what to wait for where somebody
    /// else has.
    pub fn entry_with<R>(&self, way: &mut Way, key: &[Datum<'_>], f: impl FnOnce(&mut Entry<'_>) -> R) -> R {
        if self.make_room() {
            way.note_room();
        }
        self.entry_by(way.owner(), key, |entry| {
            let done = f(entry);
            if let Some(request) = entry.stopped_by() {
                way.stop(request);
            }
            done
        })
    }

    fn entry_by<R>(&self, owner: u64, key: &[Datum<'_>], f: impl FnOnce(&mut Entry<'_>) -> R) -> R {
        let Some(partition) = self.partition_of(key) else {
            return f(&mut Entry::nowhere(self));
        };
        let hash = self.hash(key);
        f(&mut Entry::new(self, (partition, self.lock(partition)), key, hash, owner))
    }

    /// What stands in the way of a write, with the partition locked.
    #[inline]
    pub(crate) fn obstacle(&self, hash: u64, owner: u64) -> Obstacle {
        if self.attention().is_wanted() { self.attended(hash, owner) } else { Obstacle::None }
    }

    /// The same where rows of the region are locked or watched.
    #[cold]
    fn attended(&self, hash: u64, owner: u64) -> Obstacle {
        match self.attention().forbidden(hash, owner) {
            Forbidden::Nothing => Obstacle::None,
            forbidden => Obstacle::Locked(forbidden),
        }
    }

    #[inline]
    pub(crate) fn attention(&self) -> &Arc<Attention> {
        self.listeners.attention()
    }

    #[cfg(test)]
    pub(crate) fn listeners(&self) -> &crate::partition::Listeners {
        &self.listeners
    }

    /// How many rows are locked or watched.
    pub fn locked_rows(&self) -> u32 {
        self.attention().rows()
    }

    /// The holders of row locks, and the owners that wait.
    pub fn locks(&self) -> Vec<LockInfo> {
        self.attention().list()
    }
}
