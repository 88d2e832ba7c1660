//! The seam: the one place where a partition tells others what changes in it.
//!
//! Called by `apply` and `life` with the partition's lock held: once for each row that is written or that ends, whatever
//! ends it, and once for all rows of a load or of a truncation. Whoever must hear of every change stands here: today
//! those who watch keys, and in tests a record that is compared with the rows (`changed::record`), so that a second way
//! to change rows is noticed. Whoever does not listen costs nothing: what is told are ids and references, and a row is
//! looked at by those alone who want it. How many rows have come or gone is counted here too, for whoever has gathered
//! statistics of them.
//!
//! What changes no row is not told: versions that are forgotten, rows that compaction moves, the shape of the table, and
//! a table that is dropped, rows and all.

use std::sync::Arc;

use super::Partition;
use crate::locks::Attention;

#[cfg(test)]
mod record;

/// Who is told what changes in the partitions of a region.
#[derive(Clone)]
pub(crate) struct Listeners {
    watches: Arc<Attention>,
    #[cfg(test)]
    record: Arc<record::Record>,
}

impl Listeners {
    /// The rows of the region that are watched are among those that `watches` counts.
    pub(crate) fn new(watches: Arc<Attention>) -> Self {
        Self {
            watches,
            #[cfg(test)]
            record: Arc::default(),
        }
    }

    /// The region's rows that are locked or watched.
    #[inline]
    pub(crate) fn attention(&self) -> &Arc<Attention> {
        &self.watches
    }
}

/// What changes in a partition.
#[derive(Clone, Copy)]
pub(super) enum Changed<'p> {
    /// The key of this hash has this row now, its values and its deadline. The one that it had before, which the row replaces;
    /// the same one, if it was written over.
    Written { hash: u64, row: u32, old: Option<u32> },
    /// This row has ended, and its key has none. It can still be read. The key's hash, where that is known.
    Ended { hash: Option<u64>, row: u32, why: End },
    /// The rows of this partition, whose keys have none here, are about to be taken over, with room made for all of them.
    Adopted(&'p Partition),
    /// Every row is about to end.
    Truncated,
}

/// Why a row has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Somebody has deleted it.
    Deleted,
    /// Its time had come, at some moment before.
    Expired,
    /// Others needed its room.
    Evicted,
}

impl Partition {
    /// Tells whoever listens.
    #[inline]
    pub(super) fn tell(&mut self, changed: Changed<'_>) {
        self.turnover += match changed {
            // Written over, so that it is neither another row nor elsewhere in an index.
            Changed::Written { row, old: Some(old), .. } if row == old => 0,
            Changed::Written { .. } | Changed::Ended { .. } => 1,
            Changed::Adopted(loaded) => loaded.live(),
            Changed::Truncated => self.live(),
        };
        #[cfg(test)]
        self.listeners.record.note(self, changed);
        if self.listeners.watches.is_wanted() {
            self.tell_watches(changed);
        }
    }

    /// How many rows have come or gone since there is this partition. A row that replaces another one counts once, and one
    /// that is overwritten in place does not.
    pub(crate) fn turnover(&self) -> u64 {
        self.turnover
    }

    /// Tells those who watch keys.
    #[cold]
    fn tell_watches(&self, changed: Changed<'_>) {
        let watches = &self.listeners.watches;
        match changed {
            Changed::Written { hash, .. } => watches.touch(hash),
            // Whoever watched the row looks for its end himself, which came when its time did. Whoever watches the key since
            // then watches one without a row, and for him nothing has changed.
            Changed::Ended { why: End::Expired, .. } => {}
            Changed::Ended { hash, row, .. } => watches.touch(hash.unwrap_or_else(|| self.rows.hash_of(row))),
            Changed::Adopted(loaded) => loaded.attended(watches).into_iter().for_each(|hash| watches.touch(hash)),
            // Those alone whose rows are here: a watch of a key of another partition may have begun after the truncation, which
            // is done there already.
            Changed::Truncated => self.attended(watches).into_iter().for_each(|hash| watches.touch(hash)),
        }
    }

    /// The hashes of keys that have a row and are locked or watched, and perhaps of some others that have a row: usually a
    /// few.
    pub(crate) fn attended(&self, attention: &Attention) -> Vec<u64> {
        let is_there = |row: u32| !self.rows.is_dead(row) && !self.is_over(row);
        // All of the server's would be looked through.
        if u64::from(attention.locks().entries()) > self.live() {
            let rows = self.rows.living().filter(|&row| is_there(row));
            return rows.map(|row| self.rows.hash_of(row)).collect();
        }
        let mut hashes = attention.hashes();
        hashes.retain(|&hash| self.rows.has_hash(hash, is_there));
        hashes
    }
}

#[cfg(test)]
mod tests;
