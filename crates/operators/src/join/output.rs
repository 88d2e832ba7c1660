//! The output of a join: assembles the columns of pairs and of single rows into batches with a bounded number of rows and bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, RecordBatch, RecordBatchOptions,
    UInt32Array, new_null_array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::{BatchCoalescer, interleave, take};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, SchemaRef,
    TimeUnit, TimestampMicrosecondType,
};
use datafusion_common::{Result, internal_err};

use super::build::Built;
use super::chunk::place_of;
use super::spec::Source;
use super::texts::{self, BYTES_MAX};
use crate::hash_table::machine::{NEAR, ask_for};
use crate::memory::Charge;

/// Rows of the probe side.
#[derive(Clone, Copy)]
pub(crate) struct Probed<'a> {
    pub(crate) batch: &'a RecordBatch,
    pub(crate) keys: &'a [ArrayRef],
}

/// Which rows of the probe side are meant.
#[derive(Clone, Copy)]
pub(crate) enum Picked<'a> {
    /// As many as there are, from one on.
    From(usize),
    Rows(&'a UInt32Array),
}

impl<'a> Picked<'a> {
    /// These rows of a batch of so many. Where each row has one match, as those of a key that is declared have, they are all of them.
    pub(crate) fn of(rows: &'a UInt32Array, batch_rows: usize) -> Self {
        let is_in_place = |(place, row): (usize, &u32)| *row as usize == place;
        let is_whole = rows.len() == batch_rows && rows.values().iter().enumerate().all(is_in_place);
        if is_whole { Self::From(0) } else { Self::Rows(rows) }
    }
}

/// The two sides of some rows; of one that is not there all columns are NULL.
pub(crate) struct Sides<'a> {
    pub(crate) count: usize,
    pub(crate) left: Option<&'a [u32]>,
    /// The keys of rows that have no other side.
    pub(crate) left_keys: Option<&'a [ArrayRef]>,
    /// With the rows of it that are meant.
    pub(crate) right: Option<(Probed<'a>, Picked<'a>)>,
    pub(crate) marks: Option<BooleanArray>,
}

impl Sides<'_> {
    /// Columns of a schema.
    ///
    /// # Errors
    /// Where rows do not fit one array; where a column has no source, which is a bug.
    pub(crate) fn batch(&self, built: &Built, schema: &SchemaRef, sources: &[Source]) -> Result<RecordBatch> {
        let mut places = Vec::new();
        let mut columns = Vec::with_capacity(sources.len());
        let of_right = |array: &ArrayRef, rows: Picked<'_>| -> Result<ArrayRef> {
            Ok(match rows {
                Picked::From(0) if array.len() == self.count => Arc::clone(array),
                Picked::From(start) => array.slice(start, self.count),
                Picked::Rows(rows) => take(array, rows, None)?,
            })
        };
        for (source, field) in sources.iter().zip(schema.fields()) {
            columns.push(match (source, self.left, self.right) {
                (Source::Kept(column), Some(rows), _) => gather(&built.kept[*column], rows, &mut places)?,
                (Source::Probe(column), _, Some((probed, rows))) => of_right(probed.batch.column(*column), rows)?,
                // Equal keys are the same, where they are not kept.
                (Source::Key(key), Some(_), Some((probed, rows))) => of_right(&probed.keys[*key], rows)?,
                (Source::Key(key), Some(_), None) => match self.left_keys {
                    Some(keys) => Arc::clone(&keys[*key]),
                    None => new_null_array(field.data_type(), self.count),
                },
                (Source::Kept(_) | Source::Key(_), None, _) | (Source::Probe(_), _, None) => {
                    new_null_array(field.data_type(), self.count)
                }
                (Source::Mark, ..) => match &self.marks {
                    Some(marks) => Arc::new(marks.clone()),
                    None => return internal_err!("a join without marks has a column of marks"),
                },
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(self.count));
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
    }
}

/// Rows of a column that lies in chunks.
fn gather(chunks: &[ArrayRef], rows: &[u32], places: &mut Vec<(usize, usize)>) -> Result<ArrayRef> {
    if let Some(gathered) = gather_numbers(chunks, rows) {
        return Ok(gathered);
    }
    if let [only] = chunks {
        let rows = UInt32Array::from(rows.to_vec());
        return Ok(take(only, &rows, None)?);
    }
    if places.is_empty() {
        places.extend(rows.iter().map(|row| place_of(*row)));
    }
    let chunks: Vec<&dyn Array> = chunks.iter().map(AsRef::as_ref).collect();
    Ok(interleave(&chunks, places)?)
}

/// Rows that are asked for together: their lines fit the nearest cache, and the fewer pauses there are between, the better.
const TOGETHER: usize = 256;

/// The same of numbers; `None` of others. In one array the number of a row is its place, however many there are: see `build`.
pub(crate) fn gather_numbers(chunks: &[ArrayRef], rows: &[u32]) -> Option<ArrayRef> {
    fn of<T: ArrowPrimitiveType>(chunks: &[ArrayRef], rows: &[u32]) -> Option<ArrayRef> {
        let arrays: Vec<&PrimitiveArray<T>> =
            chunks.iter().map(|chunk| chunk.as_primitive_opt::<T>()).collect::<Option<_>>()?;
        let values: Vec<&[T::Native]> = arrays.iter().map(|array| &array.values()[..]).collect();
        let gathered: Vec<T::Native> = match &values[..] {
            // So few instructions that the processor has many of them under way, and waits for their memory at the same time without being asked.
            [only] => rows.iter().map(|row| only[*row as usize]).collect(),
            values => of_chunks(values, rows),
        };
        let has_nulls = arrays.iter().any(|array| array.null_count() > 0);
        let nulls = has_nulls.then(|| {
            NullBuffer::new(BooleanBuffer::collect_bool(rows.len(), |at| match &arrays[..] {
                [only] => only.is_valid(rows[at] as usize),
                arrays => {
                    let (chunk, place) = place_of(rows[at]);
                    arrays[chunk].is_valid(place)
                }
            }))
        });
        let data_type = chunks.first()?.data_type().clone();
        Some(Arc::new(PrimitiveArray::<T>::new(gathered.into(), nulls).with_data_type(data_type)))
    }
    match chunks.first()?.data_type() {
        DataType::Int16 => of::<Int16Type>(chunks, rows),
        DataType::Int32 => of::<Int32Type>(chunks, rows),
        DataType::Int64 => of::<Int64Type>(chunks, rows),
        DataType::Float32 => of::<Float32Type>(chunks, rows),
        DataType::Float64 => of::<Float64Type>(chunks, rows),
        DataType::Date32 => of::<Date32Type>(chunks, rows),
        DataType::Decimal128(..) => of::<Decimal128Type>(chunks, rows),
        DataType::Timestamp(TimeUnit::Microsecond, _) => of::<TimestampMicrosecondType>(chunks, rows),
        _ => None,
    }
}

/// Values of rows in several chunks.
#[inline]
fn of_chunks<N: Copy>(chunks: &[&[N]], rows: &[u32]) -> Vec<N> {
    let is_far = chunks.iter().map(|chunk| size_of_val(*chunk)).sum::<usize>() > NEAR;
    let mut gathered = Vec::with_capacity(rows.len());
    for together in rows.chunks(TOGETHER) {
        if is_far {
            for row in together {
                let (chunk, place) = place_of(*row);
                ask_for(chunks[chunk], place);
            }
        }
        gathered.extend(together.iter().map(|row| {
            let (chunk, place) = place_of(*row);
            chunks[chunk][place]
        }));
    }
    gathered
}

/// Batches that come out, put together where they are small.
pub(crate) struct Output {
    schema: SchemaRef,
    batch_rows: usize,
    coalescer: Option<BatchCoalescer>,
    /// Bytes of texts and their like in those that are being put together, at most.
    bytes: usize,
    /// Rows without columns.
    rows: usize,
    ready: VecDeque<RecordBatch>,
    /// Bytes of those that are being put together, and of those that are ready.
    together: usize,
    waiting: usize,
    charge: Charge,
}

impl Output {
    pub(crate) fn new(schema: &SchemaRef, batch_rows: usize, charge: Charge) -> Self {
        let coalescer = (!schema.fields().is_empty()).then(|| {
            let coalescer = BatchCoalescer::new(Arc::clone(schema), batch_rows);
            coalescer.with_biggest_coalesce_batch_size(Some(batch_rows / 2))
        });
        let (schema, ready) = (Arc::clone(schema), VecDeque::new());
        Self { schema, batch_rows, coalescer, bytes: 0, rows: 0, ready, together: 0, waiting: 0, charge }
    }

    /// Takes a batch of any size.
    ///
    /// # Errors
    /// Where rows do not fit one array.
    pub(crate) fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let Some(coalescer) = &mut self.coalescer else {
            self.rows += batch.num_rows();
            while self.rows >= self.batch_rows {
                self.rows -= self.batch_rows;
                let batch = rows_alone(&self.schema, self.batch_rows)?;
                self.ready.push_back(batch);
            }
            return Ok(());
        };
        // A copy of it is there before it goes, whether the pool has room for that or not: its rows have been found.
        let of_rows = bytes_of(batch);
        self.charge.settle(self.together + self.waiting + of_rows);
        let bytes = texts::of_batch(batch);
        if self.bytes + bytes > BYTES_MAX {
            coalescer.finish_buffered_batch()?;
        }
        for start in (0..batch.num_rows()).step_by(self.batch_rows) {
            coalescer.push_batch(batch.slice(start, self.batch_rows.min(batch.num_rows() - start)))?;
        }
        self.bytes += bytes;
        self.together += of_rows;
        while let Some(completed) = coalescer.next_completed_batch() {
            self.waiting += bytes_of(&completed);
            self.ready.push_back(completed);
            // What is left is of this batch.
            (self.bytes, self.together) = (bytes, of_rows);
        }
        if coalescer.get_buffered_rows() == 0 {
            (self.bytes, self.together) = (0, 0);
        }
        self.charge.settle(self.together + self.waiting);
        Ok(())
    }

    /// Whether something is ready.
    pub(crate) fn has_next(&self) -> bool {
        !self.ready.is_empty()
    }

    /// What is ready.
    pub(crate) fn next(&mut self) -> Option<RecordBatch> {
        let next = self.ready.pop_front()?;
        self.waiting = self.waiting.saturating_sub(bytes_of(&next));
        self.charge.settle(self.together + self.waiting);
        Some(next)
    }

    /// Nothing more comes: what there is, is ready.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub(crate) fn finish(&mut self) -> Result<()> {
        if let Some(coalescer) = &mut self.coalescer {
            coalescer.finish_buffered_batch()?;
            while let Some(batch) = coalescer.next_completed_batch() {
                self.waiting += bytes_of(&batch);
                self.ready.push_back(batch);
            }
            self.together = 0;
            self.charge.settle(self.waiting);
        } else if self.rows > 0 {
            let batch = rows_alone(&self.schema, std::mem::take(&mut self.rows))?;
            self.ready.push_back(batch);
        }
        Ok(())
    }
}

/// Bytes of the rows of a batch, of whatever larger arrays they may be parts.
fn bytes_of(batch: &RecordBatch) -> usize {
    let of =
        |array: &ArrayRef| array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size());
    batch.columns().iter().map(of).sum()
}

fn rows_alone(schema: &SchemaRef, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), Vec::new(), &options)?)
}

#[cfg(test)]
mod tests;
