//! A direct table that is built while rows arrive: if the input knows how many rows there will be, and their keys lie
//! close together, keys need not be kept until the last row.
//!
//! ```text
//!   chunk of rows -> its keys are known by their places in the table, and go
//!                 -> a key that is there twice, one that is too far from the others, or many with nothing between them: keys come back, and a
//!                    table is made at the end
//! ```
//!
//! Called by `run` for each chunk, under its lock, and by `build`, which then has nothing left to do.

use std::sync::Arc;

use datafusion_common::Result;

use super::chunk::{CHUNK_ROWS, Chunk, place_of, row_number};
use super::spec::Spec;
use crate::hash_table::direct::{Counting, Direct, NOBODY};
use crate::hash_table::keys::{Keys, Packed};
use crate::memory::{Charge, Memory, Wish};

/// Chunks whose keys come back together, when there is little memory.
pub(crate) const TOGETHER: usize = 8;

/// Bytes of a table that nobody asks whether they pay: a few million keys may come in any order, and the first of them be all over it.
const UNASKED: usize = if cfg!(test) { 40 << 10 } else { 20 << 20 };
/// Bytes for a row that has come, beyond which they do not: four times what a table of hashes takes. How many rows are to come, as of the joins
/// beneath, is often wrong by far, and of keys that are far apart each has a segment to itself.
const ROW_BYTES: usize = if cfg!(test) { 12 } else { 48 };

/// See the module.
pub(crate) struct Early {
    table: Direct,
    bounds: (u64, u64),
    counting: Counting,
    /// Rows that the input says it has.
    expected: usize,
    rows: usize,
    charge: Charge,
}

/// The keys of a chunk as they are counted.
fn each_key(chunk: &Chunk, mut put: impl FnMut(usize, u64) -> bool) -> bool {
    let is_valid = |place: usize| chunk.valid.as_ref().is_none_or(|valid| valid.is_valid(place));
    match &chunk.keys.keys {
        Keys::Word32(words) => {
            words.iter().enumerate().all(|(place, word)| !is_valid(place) || put(place, u64::from(*word)))
        }
        Keys::Word64(words) => words.iter().enumerate().all(|(place, word)| !is_valid(place) || put(place, *word)),
        _ => false,
    }
}

impl Early {
    /// Before the first chunk; `None` where its keys or what is expected do not suit.
    pub(crate) fn begin(spec: &Spec, first: &Chunk, expected: Option<usize>, memory: &Arc<Memory>) -> Option<Self> {
        let (counting, bounds, expected) = (spec.packing.counting()?, first.bounds?, expected?);
        // Of fewer rows nobody notices.
        if expected < 2 * CHUNK_ROWS {
            return None;
        }
        Direct::slots_for(expected, bounds)?;
        let table = Direct::new(counting, bounds);
        Some(Self { table, bounds, counting, expected, rows: 0, charge: memory.charge() })
    }

    /// Takes the keys of a chunk, which has none then; or nothing, and is of no more use but to give keys back.
    ///
    /// # Errors
    /// Where the pool has no memory: nothing has changed then.
    pub(crate) fn add(&mut self, number: usize, chunk: &mut Chunk) -> Result<bool> {
        let Some((least, greatest)) = chunk.bounds else { return Ok(self.forget_keys(chunk)) };
        let bounds = (self.bounds.0.min(least), self.bounds.1.max(greatest));
        if Direct::slots_for(self.expected.max(self.rows + chunk.rows), bounds).is_none() {
            return Ok(false);
        }
        let mut touched = self.table.segments_of(bounds);
        each_key(chunk, |_, key| {
            touched.touch(self.counting.place(key));
            true
        });
        let missing = self.table.missing_bytes(&touched);
        let most = UNASKED.max((self.rows + chunk.rows).saturating_mul(ROW_BYTES));
        if missing > 0 && self.charge.bytes() + missing > most {
            return Ok(false);
        }
        self.charge.grow(missing, Wish::IfFree)?;
        self.table.add_segments(&touched);
        self.bounds = bounds;
        if !each_key(chunk, |place, key| self.table.add(key, row_number(number, place))) {
            return Ok(false);
        }
        self.rows += chunk.rows;
        Ok(self.forget_keys(chunk))
    }

    fn forget_keys(&self, chunk: &mut Chunk) -> bool {
        chunk.keys.keys = match chunk.keys.keys {
            Keys::Word32(_) => Keys::Word32(Vec::new()),
            _ => Keys::Word64(Vec::new()),
        };
        chunk.charges.0.settle(0);
        true
    }

    /// Bytes of the keys that chunks have given.
    pub(crate) fn bytes_of_keys(chunks: &[Chunk], spec: &Spec) -> usize {
        let width = if matches!(spec.packing.none(), Keys::Word32(_)) { size_of::<u32>() } else { size_of::<u64>() };
        chunks.iter().map(|chunk| chunk.rows * width).sum()
    }

    /// Gives keys back to chunks, of which the first has this number. What they take is charged, whether the pool has it or not.
    pub(crate) fn give_back(&self, spec: &Spec, first: usize, chunks: &mut [Chunk]) {
        for chunk in chunks.iter_mut() {
            // One that has its own keys still has not given them.
            if chunk.keys.len() == 0 {
                chunk.keys = match spec.packing.none() {
                    Keys::Word32(_) => {
                        Packed { keys: Keys::Word32(vec![0; chunk.rows]), nulls: chunk.keys.nulls.take() }
                    }
                    _ => Packed { keys: Keys::Word64(vec![0; chunk.rows]), nulls: chunk.keys.nulls.take() },
                };
                chunk.charges.0.take(chunk.keys.held());
            }
        }
        let mut slot = 0;
        while let Some((key, row)) = self.table.get(slot) {
            slot += 1;
            if row == NOBODY {
                continue;
            }
            let (number, place) = place_of(row);
            if let Some(chunk) = number.checked_sub(first).and_then(|at| chunks.get_mut(at)) {
                match &mut chunk.keys.keys {
                    Keys::Word32(words) => words[place] = key as u32,
                    Keys::Word64(words) => words[place] = key,
                    Keys::Word128(_) | Keys::Bytes(_) => {}
                }
            }
        }
    }

    /// The table, when all rows have come, with its charge; `None` where they are fewer than were expected, and too far from each
    /// other therefore.
    pub(crate) fn is_whole(&self) -> bool {
        Direct::slots_for(self.rows, self.bounds).is_some()
    }

    /// The table and its charge.
    pub(crate) fn into_table(self) -> (Direct, Charge) {
        (self.table, self.charge)
    }
}
