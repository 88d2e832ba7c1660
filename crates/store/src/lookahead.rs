//! Prefetching for several keys at once, before they are looked up.
//!
//! A key operation is a chain of dependent memory reads: the index, the position in the columns, the bytes. Chains of
//! different keys are independent, so a batch of keys takes each step together and their cache misses overlap ("AMAC",
//! Kocberber et al., "Asynchronous Memory Access Chaining", VLDB 2015, has measurements of such schedules). Called by
//! sessions that have read several commands at once. Only a hint: correctness never depends on it.

use ashlar_base::Datum;

use crate::region::{Guard, KeyPlace, Region};
use crate::segment::Segment;

/// Keys that are looked ahead for at once: more would push each other out of the nearest cache.
pub const LOOKAHEAD_MAX: usize = 32;

/// A key on its way.
struct Ahead<'r> {
    guard: Guard<'r>,
    hash: u64,
}

impl Region {
    /// Brings the rows of keys, each of one column, near: at most [`LOOKAHEAD_MAX`] of them. Never waits: a partition whose
    /// lock somebody holds, if only for a key before, is left alone. Allocates nothing. Returns how many rows were brought near.
    pub fn look_ahead<'k>(&self, keys: impl Iterator<Item = Datum<'k>>) -> usize {
        let mut ahead = [const { None::<Ahead<'_>> }; LOOKAHEAD_MAX];
        let mut count = 0;
        for key in keys.take(LOOKAHEAD_MAX) {
            let Some(KeyPlace { partition, hash }) = self.place_of(&[key]) else { continue };
            let Some(guard) = self.try_lock(partition) else { continue };
            if let Some(partition) = guard.as_deref() {
                partition.prefetch_index(hash);
                ahead[count] = Some(Ahead { guard, hash });
                count += 1;
            }
        }
        let mut found = [const { None::<(&Segment, u32)> }; LOOKAHEAD_MAX];
        for (found, ahead) in found.iter_mut().zip(ahead.iter().map_while(Option::as_ref)) {
            *found = ahead.guard.as_deref().and_then(|partition| partition.guess(ahead.hash));
            if let Some((segment, row)) = found {
                segment.prefetch_places(*row);
            }
        }
        let mut rows = 0;
        for (segment, row) in found.into_iter().take(count).flatten() {
            segment.prefetch_bytes(row);
            rows += 1;
        }
        rows
    }
}

#[cfg(test)]
mod tests;
