//! Rows of a partition that wait until they are many beside its groups, so that a cache line of its table is fetched for several of them and not for
//! one. Where nearly every row is a group of its own they are also fewer bytes than groups are.
//!
//! ```text
//!   chunk   | k k k k | v v v v | ...        as long as there is room: keys, the values of each aggregate, side by side
//!   chunk   | k k     | v v     |
//! ```
//!
//! Keys that are words and values of fixed width wait here; others, of which nobody knows what they take, in `waiting`. Called by `partition`.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, BooleanArray, BooleanBufferBuilder, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::compute::prep_null_mask_filter;
use arrow::datatypes::{ArrowNativeType, DataType};
use datafusion_common::Result;

use super::spec::Rows;
use crate::hash_table::keys::{Keys, Packed};
use crate::memory::{Charge, Wish};

/// Bytes of a chunk: a share of the groups that it waits for, within these.
const CHUNK_BYTES: std::ops::RangeInclusive<usize> = if cfg!(test) { 256..=1024 } else { 4 << 10..=32 << 10 };
/// Chunks for as many bytes as groups have.
const CHUNKS: usize = 32;
/// Rows of a chunk, where they have many bytes.
const ROWS_MIN: usize = if cfg!(test) { 16 } else { 128 };

/// A batch of which rows may wait, ready to be taken apart.
pub(super) struct Source<'b> {
    pub(super) batch: &'b Rows,
    values: Vec<Vec<ArrayData>>,
    filters: Vec<Option<BooleanBuffer>>,
    /// Bits that a row takes, with one for each column that says whether there is a value.
    row_bits: usize,
}

impl<'b> Source<'b> {
    /// `None` where rows are such as cannot wait: it is the same for all batches of an aggregation.
    pub(super) fn of(batch: &'b Rows) -> Option<Self> {
        let key = match &batch.packed.keys {
            Keys::Word32(_) => size_of::<u32>(),
            Keys::Word64(_) => size_of::<u64>(),
            Keys::Word128(_) => size_of::<u128>(),
            Keys::Bytes(_) => return None,
        };
        let mut row_bits = 8 * key + 1;
        for array in batch.values.iter().flatten() {
            row_bits += 8 * width_of(array.data_type())? + 1;
        }
        let mask = |filter: &Option<BooleanArray>| {
            filter.as_ref().map(|filter| match filter.null_count() {
                0 => filter.values().clone(),
                _ => prep_null_mask_filter(filter).values().clone(),
            })
        };
        let values = batch.values.iter().map(|arrays| arrays.iter().map(Array::to_data).collect()).collect();
        let filters: Vec<_> = batch.filters.iter().map(mask).collect();
        row_bits += filters.iter().flatten().count();
        Some(Self { batch, values, filters, row_bits })
    }

    /// Some of its rows.
    ///
    /// # Errors
    /// None for values that may wait.
    pub(super) fn rows(&self, rows: &[u32]) -> Result<Rows> {
        let mut chunk = Chunk::with_room(self, rows.len());
        chunk.push(self, rows);
        chunk.finish(&self.types(), self.batch.is_partial)
    }

    fn types(&self) -> Arc<[Vec<DataType>]> {
        let of = |arrays: &Vec<ArrayData>| arrays.iter().map(|data| data.data_type().clone()).collect();
        self.values.iter().map(of).collect()
    }

    /// Rows that a chunk has which waits for groups of so many bytes.
    fn chunk_rows(&self, groups: usize) -> usize {
        let bytes = (groups / CHUNKS).clamp(*CHUNK_BYTES.start(), *CHUNK_BYTES.end());
        (bytes * 8 / self.row_bits).max(ROWS_MIN)
    }

    /// Bytes of a chunk of so many rows.
    fn chunk_bytes(&self, rows: usize) -> usize {
        let columns = self.values.iter().map(|columns| size_of::<Vec<Column>>() + size_of_val(&columns[..]));
        let filters = self.filters.len() * size_of::<Option<Bits>>();
        (self.row_bits * rows).div_ceil(8) + size_of::<Chunk>() + columns.sum::<usize>() + filters
    }
}

/// Bytes of a value that may wait.
fn width_of(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::Decimal128(..) => Some(size_of::<i128>()),
        // Of some the parts are aligned, and not the whole.
        DataType::Interval(_) => None,
        other => other.primitive_width().filter(|width| *width <= size_of::<u64>()),
    }
}

/// Bits of rows that wait: none as long as all of them are set.
#[derive(Default)]
struct Bits(Option<BooleanBufferBuilder>);

impl Bits {
    /// Those of some rows, behind as many as there are; there will be `room` at most.
    fn push(&mut self, before: usize, room: usize, bits: Option<&BooleanBuffer>, rows: &[u32]) {
        if self.0.is_none() && bits.is_none() {
            return;
        }
        let all = self.0.get_or_insert_with(|| {
            let mut all = BooleanBufferBuilder::new(room);
            all.append_n(before, true);
            all
        });
        match bits {
            Some(bits) => rows.iter().for_each(|&row| all.append(bits.value(row as usize))),
            None => all.append_n(rows.len(), true),
        }
    }

    fn finish(self) -> Option<BooleanBuffer> {
        self.0.map(|mut bits| bits.finish())
    }
}

/// Values of rows that wait.
enum Values {
    Bytes1(Vec<u8>),
    Bytes2(Vec<u16>),
    Bytes4(Vec<u32>),
    Bytes8(Vec<u64>),
    Bytes16(Vec<i128>),
}

struct Column {
    values: Values,
    valid: Bits,
}

impl Column {
    fn with_room(data_type: &DataType, rows: usize) -> Self {
        let values = match width_of(data_type) {
            Some(1) => Values::Bytes1(Vec::with_capacity(rows)),
            Some(2) => Values::Bytes2(Vec::with_capacity(rows)),
            Some(4) => Values::Bytes4(Vec::with_capacity(rows)),
            Some(16) => Values::Bytes16(Vec::with_capacity(rows)),
            _ => Values::Bytes8(Vec::with_capacity(rows)),
        };
        Self { values, valid: Bits::default() }
    }

    fn push(&mut self, before: usize, room: usize, data: &ArrayData, rows: &[u32]) {
        match &mut self.values {
            Values::Bytes1(values) => gather(values, data, rows),
            Values::Bytes2(values) => gather(values, data, rows),
            Values::Bytes4(values) => gather(values, data, rows),
            Values::Bytes8(values) => gather(values, data, rows),
            Values::Bytes16(values) => gather(values, data, rows),
        }
        self.valid.push(before, room, data.nulls().map(NullBuffer::inner), rows);
    }

    fn finish(self, data_type: DataType, rows: usize) -> Result<ArrayRef> {
        let buffer = match self.values {
            Values::Bytes1(values) => Buffer::from_vec(values),
            Values::Bytes2(values) => Buffer::from_vec(values),
            Values::Bytes4(values) => Buffer::from_vec(values),
            Values::Bytes8(values) => Buffer::from_vec(values),
            Values::Bytes16(values) => Buffer::from_vec(values),
        };
        let nulls = self.valid.finish().map(NullBuffer::new);
        Ok(make_array(ArrayData::builder(data_type).len(rows).add_buffer(buffer).nulls(nulls).build()?))
    }
}

fn gather<T: ArrowNativeType>(values: &mut Vec<T>, data: &ArrayData, rows: &[u32]) {
    let all = data.buffer::<T>(0);
    values.extend(rows.iter().map(|&row| all[row as usize]));
}

/// See the module.
struct Chunk {
    /// Rows that it has room for.
    room: usize,
    /// Bytes that are charged.
    bytes: usize,
    keys: Keys,
    valid: Bits,
    values: Vec<Vec<Column>>,
    filters: Vec<Option<Bits>>,
}

impl Chunk {
    fn with_room(source: &Source<'_>, room: usize) -> Self {
        let columns =
            |arrays: &Vec<ArrayData>| arrays.iter().map(|data| Column::with_room(data.data_type(), room)).collect();
        Self {
            room,
            bytes: source.chunk_bytes(room),
            keys: source.batch.packed.keys.with_room(room),
            valid: Bits::default(),
            values: source.values.iter().map(columns).collect(),
            filters: source.filters.iter().map(|filter| filter.is_some().then(Bits::default)).collect(),
        }
    }

    fn push(&mut self, source: &Source<'_>, rows: &[u32]) {
        let (before, room) = (self.keys.len(), self.room);
        let Packed { keys, nulls } = &source.batch.packed;
        self.keys.push_rows(keys, rows);
        self.valid.push(before, room, nulls.as_ref().map(NullBuffer::inner), rows);
        let columns = self.values.iter_mut().flatten().zip(source.values.iter().flatten());
        columns.for_each(|(column, data)| column.push(before, room, data, rows));
        for (bits, filter) in self.filters.iter_mut().zip(&source.filters) {
            if let Some(bits) = bits {
                bits.push(before, room, filter.as_ref(), rows);
            }
        }
    }

    fn finish(self, types: &[Vec<DataType>], is_partial: bool) -> Result<Rows> {
        let count = self.keys.len();
        let mut values = Vec::with_capacity(self.values.len());
        for (columns, types) in self.values.into_iter().zip(types) {
            let arrays =
                columns.into_iter().zip(types).map(|(column, data_type)| column.finish(data_type.clone(), count));
            values.push(arrays.collect::<Result<Vec<_>>>()?);
        }
        let filter = |bits: Option<Bits>| {
            let bits = bits?.finish().unwrap_or_else(|| BooleanBuffer::new_set(count));
            Some(BooleanArray::new(bits, None))
        };
        let packed = Packed { keys: self.keys, nulls: self.valid.finish().map(NullBuffer::new) };
        let filters = self.filters.into_iter().map(filter).collect();
        Ok(Rows { packed, values, filters, is_partial })
    }
}

/// See the module.
pub(super) struct Pending {
    chunks: VecDeque<Chunk>,
    rows: usize,
    charge: Charge,
    /// Of the values.
    types: Arc<[Vec<DataType>]>,
    is_partial: bool,
}

impl Pending {
    pub(super) fn new(charge: Charge) -> Self {
        Self { chunks: VecDeque::new(), rows: 0, charge, types: Arc::default(), is_partial: false }
    }

    /// All that wait; then none do.
    pub(super) fn take(&mut self) -> Self {
        let empty = Self::new(self.charge.another());
        std::mem::replace(self, empty)
    }

    /// Rows that wait.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of the chunks that are full.
    pub(super) fn full_bytes(&self) -> usize {
        let last = self.chunks.back().filter(|chunk| chunk.keys.len() < chunk.room);
        self.charge.bytes() - last.map_or(0, |chunk| chunk.bytes)
    }

    fn is_full(&self) -> bool {
        self.chunks.back().is_none_or(|chunk| chunk.keys.len() == chunk.room)
    }

    /// Takes the first of some rows, as long as there is memory: how many. `groups` are the bytes of those that they wait for.
    pub(super) fn push(&mut self, source: &Source<'_>, rows: &[u32], groups: usize) -> usize {
        let mut rest = rows;
        while !rest.is_empty() {
            if self.is_full() {
                let room = source.chunk_rows(groups);
                if self.charge.grow(source.chunk_bytes(room), Wish::IfFree).is_err() {
                    break;
                }
                if self.chunks.is_empty() {
                    (self.types, self.is_partial) = (source.types(), source.batch.is_partial);
                }
                self.chunks.push_back(Chunk::with_room(source, room));
            }
            let Some(chunk) = self.chunks.back_mut() else { break };
            let (now, later) = rest.split_at(rest.len().min(chunk.room - chunk.keys.len()));
            chunk.push(source, now);
            rest = later;
        }
        let taken = rows.len() - rest.len();
        self.rows += taken;
        taken
    }

    /// The rows of a chunk, those that have waited longest first, and the bytes to be given back when they are done with: by [`Self::give_back`].
    pub(super) fn pop(&mut self) -> Result<Option<(Rows, usize)>> {
        let Some(chunk) = self.chunks.pop_front() else { return Ok(None) };
        self.rows -= chunk.keys.len();
        let bytes = chunk.bytes;
        Ok(Some((chunk.finish(&self.types, self.is_partial)?, bytes)))
    }

    /// See [`Self::pop`].
    pub(super) fn give_back(&mut self, bytes: usize) {
        self.charge.settle(self.charge.bytes().saturating_sub(bytes));
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        AsArray, Date32Array, Decimal128Array, Float32Array, Int16Array, Int64Array, UInt8Array, UInt32Array,
    };
    use arrow::compute::take;
    use datafusion_execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};
    use datafusion_physical_plan::metrics::Gauge;

    use super::*;
    use crate::hash_table::scrambled;
    use crate::memory::Memory;

    /// Some of these, of one column each.
    type Arrays = Vec<ArrayRef>;

    /// So many rows from this one on: their key with NULLs, values of each width, of which some have NULLs, and a filter.
    fn batch(start: u64, rows: u64) -> (Rows, Arrays) {
        let any = |column: u64| (start..start + rows).map(move |row| scrambled(row * 16 + column));
        let some = |column: u64| any(column).map(|any| (!any.is_multiple_of(7)).then_some(any >> 8));
        let keys: Vec<u64> = any(0).collect();
        // Of batches some have no NULL at all.
        let nulls = (start % 3 == 1).then(|| any(1).map(|any| any % 5 > 0).collect::<Vec<bool>>());
        let columns: Arrays = vec![
            Arc::new(some(2).map(|any| any.map(|any| any as u8)).collect::<UInt8Array>()),
            Arc::new(any(3).map(|any| Some(any as i16)).collect::<Int16Array>()),
            Arc::new(some(4).map(|any| any.map(|any| any as i32)).collect::<Date32Array>()),
            Arc::new(some(5).map(|any| any.map(|any| any as f32)).collect::<Float32Array>()),
            Arc::new(any(6).map(|any| Some(any as i64)).collect::<Int64Array>()),
            Arc::new(some(7).map(|any| any.map(i128::from)).collect::<Decimal128Array>()),
        ];
        // A part of longer ones, as those of a batch may be.
        let longer = |array: &ArrayRef| {
            let all = arrow::compute::concat(&[array.as_ref(), array.as_ref()]).unwrap();
            all.slice(rows as usize, rows as usize)
        };
        let values: Arrays = columns.iter().map(longer).collect();
        let filter: BooleanArray = some(8).map(|any| any.map(|any| any % 2 == 0)).collect();
        let packed = Packed { keys: Keys::Word64(keys.clone()), nulls: nulls.map(NullBuffer::from) };
        let key = Int64Array::new(keys.iter().map(|key| key.cast_signed()).collect(), packed.nulls.clone());
        let (none, filters) = (Vec::new(), vec![None, Some(filter.clone()), None]);
        let all: Arrays = std::iter::once(Arc::new(key) as ArrayRef)
            .chain(values.clone())
            .chain([Arc::new(filter) as ArrayRef])
            .collect();
        let values = vec![values[..2].to_vec(), values[2..].to_vec(), none];
        (Rows { packed, values, filters, is_partial: false }, all)
    }

    /// The same columns of rows that come back; a filter has no NULL any more.
    fn columns(rows: &Rows) -> Arrays {
        let Keys::Word64(keys) = &rows.packed.keys else { panic!("keys of another kind") };
        let key = Int64Array::new(keys.iter().map(|key| key.cast_signed()).collect(), rows.packed.nulls.clone());
        assert!(rows.filters[0].is_none() && rows.filters[2].is_none());
        let filter = rows.filters[1].clone().unwrap();
        std::iter::once(Arc::new(key) as ArrayRef)
            .chain(rows.values.iter().flatten().cloned())
            .chain([Arc::new(filter) as ArrayRef])
            .collect()
    }

    fn is_same(found: &ArrayRef, wanted: &ArrayRef) -> bool {
        match wanted.as_boolean_opt() {
            Some(wanted) => *found.as_boolean() == prep_null_mask_filter(wanted),
            None => found == wanted,
        }
    }

    #[test]
    fn rows_come_back_as_they_came() {
        let memory = Memory::unlimited();
        let mut pending = Pending::new(memory.charge());
        let (mut wanted, mut charged): (Vec<Arrays>, usize) = (Vec::new(), 0);
        for start in (0..2000).step_by(100) {
            let (rows, all) = batch(start, 100);
            let source = Source::of(&rows).unwrap();
            // Some of them, in another order than they have.
            let numbers: Vec<u32> =
                (0..100).rev().filter(|row| !scrambled(start + u64::from(*row)).is_multiple_of(3)).collect();
            assert_eq!(pending.push(&source, &numbers, start as usize * 32), numbers.len());
            let indices = UInt32Array::from(numbers);
            wanted.push(all.iter().map(|array| take(array, &indices, None).unwrap()).collect());
            assert!(pending.full_bytes() <= pending.charge.bytes());
            charged = charged.max(pending.charge.bytes());
        }
        assert_eq!(pending.rows(), wanted.iter().map(|arrays| arrays[0].len()).sum::<usize>());
        assert!(pending.charge.bytes() == charged && charged > 0);
        let mut pending = pending.take();
        let mut found: Vec<Arrays> = Vec::new();
        while let Some((rows, bytes)) = pending.pop().unwrap() {
            found.push(columns(&rows));
            pending.give_back(bytes);
        }
        assert_eq!((pending.rows(), pending.charge.bytes()), (0, 0));
        assert!(found.len() > 3, "{} chunks", found.len());
        for column in 0..found[0].len() {
            let together = |all: &[Arrays]| {
                arrow::compute::concat(&all.iter().map(|arrays| arrays[column].as_ref()).collect::<Vec<_>>()).unwrap()
            };
            assert!(is_same(&together(&found), &together(&wanted)), "column {column}");
        }
    }

    #[test]
    fn as_many_wait_as_there_is_memory_for() {
        let (rows, all) = batch(1, 2000);
        let source = Source::of(&rows).unwrap();
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(10_000));
        let memory = Arc::new(Memory::new(MemoryConsumer::new("test").register(&pool), Gauge::new()));
        let mut pending = Pending::new(memory.charge());
        let numbers: Vec<u32> = (0..2000).collect();
        let taken = pending.push(&source, &numbers, 0);
        assert!((50..2000).contains(&taken) && pending.charge.bytes() <= 10_000, "{taken} rows");
        // The others are given as they are.
        let rest = columns(&source.rows(&numbers[taken..]).unwrap());
        let wanted = |array: &ArrayRef| array.slice(taken, 2000 - taken);
        assert!(rest.iter().zip(all.iter().map(wanted)).all(|(found, wanted)| is_same(found, &wanted)));
        drop(pending);
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn what_has_no_width_does_not_wait() {
        let (mut rows, _) = batch(0, 10);
        rows.values[2] = vec![Arc::new(BooleanArray::from(vec![true; 10]))];
        assert!(Source::of(&rows).is_none());
        rows.values[2] = vec![Arc::new(arrow::array::StringArray::from(vec!["text"; 10]))];
        assert!(Source::of(&rows).is_none());
    }
}
