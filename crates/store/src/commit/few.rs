//! Few rows that replace whatever has their keys, committed without a write set, which would keep them in segments and an index of its own
//! first: what an MSET of some keys does takes a third of the time.
//!
//! ```text
//! hash each key ──▶ lock their partitions, in order ──▶ make room in each ──▶ take one timestamp ──▶ write each row, unlock each partition
//! ```
//!
//! For readers it is a commit like any other (`commit`): locks, timestamp and horizon come in the same order.

use std::sync::Arc;

use ashlar_base::{Datum, PartitionId, Result};

use super::LIFE_BYTES_MAX;
use crate::life::Expiry;
use crate::memory::Charge;
use crate::mutation::Mutation;
use crate::partition::Partition;
use crate::region::Region;
use crate::segment::Need;
use crate::shape::Shape;

/// Rows up to which all partitions are locked while they are written.
const ROWS_MAX: usize = 64;

/// Bytes of their texts and arrays likewise.
const BYTES_MAX: usize = 64 << 10;

/// A row to be written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    partition: PartitionId,
    hash: u64,
    /// Which of the rows.
    at: usize,
}

impl Region {
    /// Commits rows that each replace the row of their key, if there is one, and live as the table says: all of them at one timestamp, or
    /// none. `false`: none, for they are too many, or something has to be looked at that only [`Store::commit`](crate::Store::commit) of a
    /// [`WriteSet::blind`](crate::WriteSet::blind) looks at: an index, a lock or a watch of a row, a key that is there twice, a lack of
    /// memory, a value that is not allowed.
    ///
    /// # Errors
    /// None that the rows may be the reason of.
    pub fn put_few<'d, R: AsRef<[Datum<'d>]>>(&self, rows: &[R]) -> Result<bool> {
        let shape = self.shape();
        let needs = |row: &R| row.as_ref().iter().map(Need::of).map(|need| need.bytes).sum::<usize>();
        if rows.len() > ROWS_MAX || rows.iter().map(needs).sum::<usize>() > BYTES_MAX {
            return Ok(false);
        }
        let mut key: Vec<Datum<'d>> = Vec::with_capacity(shape.schema.key.len());
        let mut places: Vec<Place> = Vec::with_capacity(rows.len());
        for (at, row) in rows.iter().enumerate() {
            let row = row.as_ref();
            if shape.check_row(row).is_err() {
                return Ok(false);
            }
            read_key(&shape, row, &mut key);
            let Some(place) = self.place_of(&key) else { return Ok(false) };
            places.push(Place { partition: place.partition, hash: place.hash, at });
        }
        places.sort_unstable();
        // Two keys with one hash are hardly ever two.
        if places.windows(2).any(|two| two[0].hash == two[1].hash) {
            return Ok(false);
        }
        let parts: Vec<&[Place]> = places.chunk_by(|one, next| one.partition == next.partition).collect();
        let partitions: Vec<PartitionId> = parts.iter().map(|part| part[0].partition).collect();
        let mut guards = self.lock_several(&partitions);
        if self.is_dropped() || self.attention().is_wanted() {
            return Ok(false);
        }
        let has_room = guards.iter_mut().zip(&parts).all(|(guard, part)| {
            let needs = part.iter().map(|place| rows[place.at].as_ref().iter().map(Need::of));
            let stored = self.partition_mut(part[0].partition, guard);
            !stored.has_indexes()
                && Arc::ptr_eq(stored.shape(), &shape)
                && stored.reserve_rows(needs, false).is_ok()
                && (!stored.has_life() || Charge::new(self.account(), part.len() * LIFE_BYTES_MAX).is_ok())
        });
        if !has_room {
            guards.iter_mut().filter_map(|guard| guard.as_mut()).for_each(|stored| stored.unreserve());
            return Ok(false);
        }
        let stamp = self.common().stamp();
        for (mut guard, part) in guards.into_iter().zip(parts) {
            let stored: &mut Partition = self.partition_mut(part[0].partition, &mut guard);
            for place in part {
                let row = rows[place.at].as_ref();
                read_key(&shape, row, &mut key);
                let located = stored.locate(place.hash, &key);
                stored.touch(located.row);
                let write = Mutation::Living { write: &Mutation::Upsert { row }, expiry: Expiry::Table };
                stored.apply(&write, located, stamp)?;
            }
            stored.unreserve();
        }
        Ok(true)
    }
}

fn read_key<'d>(shape: &Shape, row: &[Datum<'d>], key: &mut Vec<Datum<'d>>) {
    key.clear();
    key.extend(shape.key_of(row).cloned());
}

#[cfg(test)]
mod tests;
