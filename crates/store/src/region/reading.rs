//! Reads of one key: the latest row, or the one that a snapshot sees.
//!
//! Called by key-value sessions and by plans that read by key. A commit of many rows may have left its rows in the key's
//! partition; a read does not wait for all of them. Until they are in, what the commit wrote is asked for the key first:
//! nobody else has written to the partition since.

use ashlar_base::{Datum, Timestamp};

use super::Region;
use crate::row::RowRef;
use crate::snapshot::Snapshot;
use crate::writeset::{Pending, Staged};

impl Region {
    /// Reads the latest committed row of a key. `f` must not use the store in any other way.
    #[inline]
    pub fn get<R>(&self, key: &[Datum<'_>], f: impl FnOnce(Option<RowRef<'_>>) -> R) -> R {
        self.read(key, None, true, f)
    }

    /// Like [`Region::get`], but the row does not count as used.
    pub fn peek<R>(&self, key: &[Datum<'_>], f: impl FnOnce(Option<RowRef<'_>>) -> R) -> R {
        self.read(key, None, false, f)
    }

    /// Reads the row of a key that a snapshot sees.
    pub fn get_at<R>(&self, snapshot: &Snapshot, key: &[Datum<'_>], f: impl FnOnce(Option<RowRef<'_>>) -> R) -> R {
        self.read(key, Some(snapshot.timestamp()), true, f)
    }

    /// Like [`Region::get_at`], but the row does not count as used.
    pub fn peek_at<R>(&self, snapshot: &Snapshot, key: &[Datum<'_>], f: impl FnOnce(Option<RowRef<'_>>) -> R) -> R {
        self.read(key, Some(snapshot.timestamp()), false, f)
    }

    /// Reads the row of a key, the latest one or that of a registered timestamp.
    #[inline]
    fn read<R>(
        &self,
        key: &[Datum<'_>],
        at: Option<Timestamp>,
        is_use: bool,
        f: impl FnOnce(Option<RowRef<'_>>) -> R,
    ) -> R {
        let Some(place) = self.place_of(key) else { return f(None) };
        // What a commit has written has the shape of the table, and not that of a transaction that alters it.
        let reading = self.places[usize::from(place.partition.0)].lock_to_read(self.altered.is_none());
        if let Some((writes, committed_at)) = reading.left()
            && at.is_none_or(|at| at >= committed_at)
        {
            match self.ask(writes, place.hash, key) {
                Pending::Row(row) => return f(Some(row)),
                Pending::Deleted => return f(None),
                Pending::Untouched => {}
            }
        }
        let Some(partition) = reading.partition() else { return f(None) };
        let row = match at {
            None => partition.locate(place.hash, key).row,
            Some(at) => partition.locate_at(place.hash, key, at),
        };
        if is_use {
            partition.touch(row);
        }
        f(row.map(|row| self.row(partition, row)))
    }

    /// What a commit has written of a key, where that is not in its partition yet.
    #[cold]
    fn ask<'w>(&self, writes: &'w Staged, hash: u64, key: &[Datum<'_>]) -> Pending<'w> {
        let pending = writes.get(key);
        if !matches!(pending, Pending::Untouched) && self.attention().is_wanted() {
            // Whoever watches the key and sees what was written has been told.
            self.attention().touch(hash);
        }
        pending
    }
}
