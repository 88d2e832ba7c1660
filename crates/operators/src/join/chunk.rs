//! Rows of the build side, as they are kept: put together from batches, as many in each chunk, so that a number of 32 bits
//! says where a row is.
//!
//! ```text
//!   row  | number of its chunk, 16 bits | place in it, 16 bits |
//! ```
//!
//! The columns of a chunk hold what is needed of its rows and nothing else: no batch that came stays. Keys are packed; where columns
//! come back from them, they are not kept a second time.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::compute::{concat, filter};
use datafusion_common::Result;

use super::spec::Spec;
use super::texts::longest;
use crate::hash_table::hash::Secret;
use crate::hash_table::keys::{Keys, Packed};
use crate::memory::{Charge, Memory, Wish};

/// Rows of a chunk, at most. Tests have many chunks of few.
pub(crate) const CHUNK_ROWS: usize = if cfg!(test) { 1 << 8 } else { 1 << 16 };
/// Bytes at which a chunk is made of fewer rows: while it is put together its rows are there twice, in each stream. Of as many chunks as there
/// may be, 64 GiB.
const CHUNK_BYTES: usize = 1 << 20;
/// The same of the first chunks of a stream, so many: of few rows those that are there twice are a part that counts.
const FIRST_BYTES: usize = CHUNK_BYTES / 4;
const FIRST_CHUNKS: usize = 128;
/// Chunks that row numbers can tell from each other; the last number of all stands for no row.
pub(crate) const CHUNKS_MAX: usize = (1 << 16) - 1;
/// Bits of the hash by which the rows of a chunk are counted.
pub(crate) const COUNTED_BITS: u32 = 8;

/// The number of a row.
#[inline]
pub(crate) fn row_number(chunk: usize, place: usize) -> u32 {
    ((chunk << 16) | place) as u32
}

/// The chunk of a row, and its place there.
#[inline]
pub(crate) fn place_of(row: u32) -> (usize, usize) {
    ((row >> 16) as usize, (row & 0xFFFF) as usize)
}

/// Some rows of the build side: what is kept of them, and their keys.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    pub(crate) kept: Vec<ArrayRef>,
    pub(crate) keys: Vec<ArrayRef>,
    pub(crate) count: usize,
}

impl Rows {
    /// Of a batch of the input, without those that can come to nothing.
    ///
    /// # Errors
    /// What evaluating finds.
    pub(crate) fn of_batch(spec: &Spec, batch: &RecordBatch) -> Result<Self> {
        let keys = spec.left_keys_of(batch)?;
        let kept = spec.kept.iter().map(|at| Arc::clone(batch.column(*at))).collect();
        let rows = Self { kept, keys, count: batch.num_rows() };
        let Some(findable) = spec.findable(&rows.keys).filter(|_| !spec.wants_unmatched_left()) else {
            return Ok(rows);
        };
        let mask = BooleanArray::new(findable.into_inner(), None);
        let filtered = |array: &ArrayRef| Ok(filter(array, &mask)?);
        Ok(Self {
            kept: rows.kept.iter().map(filtered).collect::<Result<_>>()?,
            keys: rows.keys.iter().map(filtered).collect::<Result<_>>()?,
            count: mask.true_count(),
        })
    }

    /// Of a batch of a file.
    pub(crate) fn of_file(spec: &Spec, batch: &RecordBatch) -> Self {
        let (kept, keys) = batch.columns().split_at(spec.kept.len());
        Self { kept: kept.to_vec(), keys: keys.to_vec(), count: batch.num_rows() }
    }

    /// Some of them, one behind the other.
    pub(crate) fn slice(&self, start: usize, count: usize) -> Self {
        let slice = |array: &ArrayRef| array.slice(start, count);
        Self { kept: self.kept.iter().map(slice).collect(), keys: self.keys.iter().map(slice).collect(), count }
    }

    /// Bytes of these rows, of whatever larger arrays they may be parts.
    pub(crate) fn bytes(&self) -> usize {
        self.kept.iter().chain(&self.keys).map(|array| bytes_of(array.as_ref())).sum()
    }
}

/// Bytes of the rows of an array, with the room for more that it has; of a small part of another one its own alone.
fn bytes_of(array: &dyn Array) -> usize {
    let held = array.get_array_memory_size();
    let own = array.to_data().get_slice_memory_size().unwrap_or(held);
    if held / 2 > own { own } else { held }
}

/// See the module.
pub(crate) struct Chunk {
    pub(crate) rows: usize,
    pub(crate) kept: Vec<ArrayRef>,
    pub(crate) keys: Packed,
    /// The rows that are valid here are found by their keys; the others have a NULL.
    pub(crate) valid: Option<NullBuffer>,
    /// How many of the former there are for each value of the first bits of their hash.
    pub(crate) counts: Vec<u32>,
    /// The places of the least and of the greatest key, where keys are counted.
    pub(crate) bounds: Option<(u64, u64)>,
    /// Bytes of the longest values of all columns that are kept, where their values are of any length.
    pub(crate) longest: usize,
    /// Of the keys; of the rest.
    pub(crate) charges: (Charge, Charge),
}

impl Chunk {
    /// Its rows, as they came.
    ///
    /// # Errors
    /// Where keys are not what was packed, which is a bug.
    pub(crate) fn rows(self, spec: &Spec) -> Result<(Rows, (Charge, Charge))> {
        let Packed { keys, .. } = self.keys;
        // Of several keys it is of no interest which one is NULL: there is none like it.
        let mut keys = spec.packing.columns(Packed { keys, nulls: None })?;
        if let (Some(valid), Some(first)) = (self.valid, keys.first_mut()) {
            let data = first.to_data().into_builder().nulls(Some(valid));
            *first = arrow::array::make_array(data.build()?);
        }
        Ok((Rows { kept: self.kept, keys, count: self.rows }, self.charges))
    }
}

/// Rows that wait until there are enough for a chunk.
pub(crate) struct Pending {
    rows: VecDeque<Rows>,
    count: usize,
    charge: Charge,
    /// Chunks that were made.
    made: usize,
}

impl Pending {
    pub(crate) fn new(memory: &Arc<Memory>) -> Self {
        Self { rows: VecDeque::new(), count: 0, charge: memory.charge(), made: 0 }
    }

    /// Bytes of the next chunk, at most.
    fn chunk_bytes(&self) -> usize {
        if self.made < FIRST_CHUNKS { FIRST_BYTES } else { CHUNK_BYTES }
    }

    /// Charges rows that will be added.
    ///
    /// # Errors
    /// Where the pool has no memory for them.
    pub(crate) fn reserve(&mut self, rows: &Rows, wish: Wish) -> Result<()> {
        self.charge.grow(rows.bytes(), wish)
    }

    /// Adds rows that are charged.
    pub(crate) fn push(&mut self, rows: Rows) {
        self.count += rows.count;
        self.rows.push_back(rows);
    }

    /// Whether there are rows for a whole chunk.
    pub(crate) fn is_enough(&self) -> bool {
        self.count >= CHUNK_ROWS || self.charge.bytes() >= self.chunk_bytes()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All rows, as they came, with what they are charged.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Rows> + '_ {
        self.count = 0;
        self.rows.drain(..)
    }

    /// Those that were drained are no longer held.
    pub(crate) fn settle(&mut self) {
        self.charge.settle(0);
    }

    /// The first rows, in a chunk.
    ///
    /// # Errors
    /// Where the pool has no memory to put them together: nothing has changed then. Where they do not fit one array.
    pub(crate) fn take(&mut self, spec: &Spec, secret: Secret, memory: &Arc<Memory>, wish: Wish) -> Result<Chunk> {
        let (mut count, mut bytes, most) = (0, 0, self.chunk_bytes());
        let mut parts: Vec<Rows> = Vec::new();
        for rows in &self.rows {
            let wanted = rows.count.min(CHUNK_ROWS - count);
            let part = if wanted < rows.count { rows.slice(0, wanted) } else { rows.clone() };
            let more = part.bytes();
            if wanted == 0 || (count > 0 && bytes + more > most) {
                break;
            }
            parts.push(part);
            count += wanted;
            bytes += more;
        }
        let (mut charges, mut of_hashes) = ((memory.charge(), memory.charge()), memory.charge());
        charges.0.grow(parts.iter().map(|part| spec.packing.bytes_for(&part.keys)).sum(), wish)?;
        charges.1.grow(bytes + (size_of::<u32>() << COUNTED_BITS), wish)?;
        // For a while.
        of_hashes.grow(count * size_of::<u64>(), wish)?;
        // Those that came are given up one after the other, as soon as nothing else needs them.
        let mut rest = count;
        while rest > 0 {
            let Some(first) = self.rows.pop_front() else { break };
            if first.count > rest {
                self.rows.push_front(first.slice(rest, first.count - rest));
                rest = 0;
            } else {
                rest -= first.count;
            }
        }
        self.count -= count;
        self.made += 1;
        let column = |of: &dyn Fn(&Rows) -> &[ArrayRef], at: usize| {
            let arrays: Vec<&dyn Array> = parts.iter().map(|rows| of(rows)[at].as_ref()).collect();
            together(&arrays)
        };
        let (widths, keys) = parts.first().map_or((0, 0), |first| (first.kept.len(), first.keys.len()));
        let keys = (0..keys).map(|at| column(&|rows| &rows.keys, at)).collect::<Result<Vec<_>>>()?;
        let kept = (0..widths).map(|at| column(&|rows| &rows.kept, at)).collect::<Result<Vec<_>>>()?;
        drop(parts);
        let packed = spec.packing.pack(&keys)?;
        let valid = match spec.findable(&keys) {
            Some(findable) => Some(findable),
            None => packed.nulls.clone(),
        };
        let mut hashes = Vec::with_capacity(count);
        packed.hashes(secret, &mut hashes);
        let mut counts = vec![0; 1 << COUNTED_BITS];
        let is_valid = |row: usize| valid.as_ref().is_none_or(|valid| valid.is_valid(row));
        let found = hashes.iter().enumerate().filter(|(row, _)| is_valid(*row));
        found.for_each(|(_, hash)| counts[(hash >> (64 - COUNTED_BITS)) as usize] += 1);
        drop(hashes);
        drop(of_hashes);
        let bounds = spec.packing.counting().and_then(|counting| {
            let place = |word: u64| counting.place(word);
            let bounds = |(least, most): (u64, u64), place: u64| (least.min(place), most.max(place));
            let none = (u64::MAX, 0);
            let found = match &packed.keys {
                Keys::Word32(words) => {
                    let places = words.iter().enumerate().filter(|(row, _)| is_valid(*row));
                    places.map(|(_, word)| place(u64::from(*word))).fold(none, bounds)
                }
                Keys::Word64(words) => {
                    let places = words.iter().enumerate().filter(|(row, _)| is_valid(*row));
                    places.map(|(_, word)| place(*word)).fold(none, bounds)
                }
                _ => none,
            };
            (found.0 <= found.1).then_some(found)
        });
        charges.0.settle(packed.held());
        let of_kept: usize = kept.iter().map(Array::get_array_memory_size).sum();
        charges.1.settle(of_kept + size_of_val(&counts[..]));
        self.charge.settle(self.rows.iter().map(Rows::bytes).sum());
        let longest = kept.iter().map(|array| longest(array.as_ref())).sum();
        Ok(Chunk { rows: count, kept, keys: packed, valid, counts, bounds, longest, charges })
    }
}

/// Arrays as one that holds nothing else.
fn together(arrays: &[&dyn Array]) -> Result<ArrayRef> {
    if let [only] = arrays {
        // It may be a small part of what it was taken from.
        let rest = only.slice(0, 0);
        return Ok(concat(&[*only, rest.as_ref()])?);
    }
    Ok(concat(arrays)?)
}
