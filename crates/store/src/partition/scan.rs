//! What a scan takes from a partition under its lock: columns, lent or about to be, and who is visible.
//!
//! Called by `region::scan`. The lock is held for picking the pieces up: arrays of sealed segments, visibility
//! masks and batches are made without it.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::{BooleanBuffer, Buffer, ScalarBuffer};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use ashlar_base::{Datum, Error, Result, Timestamp};

use super::Partition;
use crate::build::{absent, build_array};
use crate::life::{Deadline, EXPIRES_AT};
use crate::region::ScanBatch;
use crate::rows::split;
use crate::segment::{Column, Layout};
use crate::shape::{Place, Shape};

/// The rows of a partition that a snapshot sees.
pub(crate) struct Picture {
    shape: Arc<Shape>,
    segments: Vec<SegmentPicture>,
}

struct SegmentPicture {
    slot: u16,
    layout: Arc<Layout>,
    /// Rows, of which `hidden` are not visible.
    len: u32,
    columns: Columns,
    /// A bit per row that is not visible; empty when all are visible.
    hidden: Vec<u64>,
    /// When the life of each row ends, where that is asked for.
    deadlines: Vec<Deadline>,
}

enum Columns {
    Sealed(Arc<Vec<Column>>),
    /// One for each projected column that the segment has.
    Lent(Vec<Option<ArrayRef>>),
}

impl Partition {
    /// What a snapshot at a timestamp sees of some columns of a shape.
    pub(crate) fn picture(&self, shape: &Arc<Shape>, at: Timestamp, projection: &[usize]) -> Picture {
        let prefix = self.versions.prefix(at);
        let mut segments = Vec::new();
        for (slot, segment) in self.rows.in_order() {
            let len = prefix.of_segment(segment.sequence, segment.len());
            if len == 0 {
                continue;
            }
            let columns = if segment.is_sealed() {
                Columns::Sealed(segment.sealed_columns())
            } else {
                let lend = |&ordinal: &usize| match shape.place_asked(&segment.layout, ordinal) {
                    Place::At(position) => {
                        let nullable = shape.schema.columns[ordinal].nullable;
                        Some(segment.column(position).share(len as usize, nullable))
                    }
                    Place::Missing(_) => None,
                };
                Columns::Lent(projection.iter().map(lend).collect())
            };
            let hidden = segment.dead_words(len).unwrap_or_default();
            let asked = projection.contains(&EXPIRES_AT);
            let deadlines = if asked { (0..len).map(|row| segment.deadline(row)).collect() } else { Vec::new() };
            segments.push(SegmentPicture {
                slot,
                layout: Arc::clone(&segment.layout),
                len,
                columns,
                hidden,
                deadlines,
            });
        }
        let mut picture = Picture { shape: Arc::clone(shape), segments };
        for row in self.versions.ended_after(at) {
            if !self.has_passed(self.rows.segment(split(row).0), row, at) {
                picture.set_hidden(row, false);
            }
        }
        if self.has_life() {
            for segment in &mut picture.segments {
                self.add_passed(segment.slot, at, segment.len, &mut segment.hidden);
            }
        }
        picture
    }

    /// All rows, with all columns of a shape in their order: see [`Picture::batches_of`].
    pub(crate) fn everything(&self, shape: &Arc<Shape>) -> Picture {
        let columns: Vec<usize> = (0..shape.schema.columns.len()).collect();
        self.picture(shape, Timestamp(u64::MAX), &columns)
    }

    /// Leaves the row of a key out of a picture that was made under the same lock.
    pub(crate) fn hide(&self, picture: &mut Picture, key: &[Datum<'_>], at: Timestamp) {
        if let Some(row) = self.find_at(key, at) {
            picture.set_hidden(row, true);
        }
    }

    /// The row of a key that a snapshot sees.
    pub(crate) fn find_at(&self, key: &[Datum<'_>], at: Timestamp) -> Option<u32> {
        self.locate_at(self.rows.hash(key.iter().cloned()), key, at)
    }
}

impl Picture {
    fn set_hidden(&mut self, row: u32, hidden: bool) {
        let (slot, offset) = split(row);
        // A partition has few segments, and a row in this list is rare.
        let Some(segment) = self.segments.iter_mut().find(|segment| segment.slot == slot) else { return };
        if offset >= segment.len {
            return;
        }
        if hidden && segment.hidden.is_empty() {
            segment.hidden = vec![0; (segment.len as usize).div_ceil(64)];
        }
        if let Some(word) = segment.hidden.get_mut(offset as usize / 64) {
            let bit = 1 << (offset % 64);
            *word = if hidden { *word | bit } else { *word & !bit };
        }
    }

    /// Batches of the projected columns, oldest rows first.
    pub(crate) fn batches(self, projection: &[usize], schema: &SchemaRef) -> Result<Vec<ScanBatch>> {
        self.batches_as(projection, schema, |index, _| index)
    }

    /// Batches of some columns of a picture that has all columns in their order.
    pub(crate) fn batches_of(&self, projection: &[usize], schema: &SchemaRef) -> Result<Vec<ScanBatch>> {
        self.batches_as(projection, schema, |_, ordinal| ordinal)
    }

    /// `lent` tells which of the lent columns one is, of its place in the projection and its ordinal.
    fn batches_as(
        &self,
        projection: &[usize],
        schema: &SchemaRef,
        lent: impl Fn(usize, usize) -> usize,
    ) -> Result<Vec<ScanBatch>> {
        let mut batches = Vec::with_capacity(self.segments.len());
        for segment in &self.segments {
            let len = segment.len as usize;
            let hidden: u32 = segment.hidden.iter().map(|word| word.count_ones()).sum();
            if hidden == segment.len {
                continue;
            }
            let visible = (hidden > 0).then(|| {
                let words: Vec<u64> = segment.hidden.iter().map(|word| !word).collect();
                BooleanBuffer::new(Buffer::from(ScalarBuffer::from(words)), 0, len)
            });
            let mut arrays = Vec::with_capacity(projection.len());
            for (index, &ordinal) in projection.iter().enumerate() {
                if ordinal == EXPIRES_AT {
                    let deadline = |row: usize| segment.deadlines.get(row).copied().unwrap_or(Deadline::NONE);
                    let values = (0..len).map(|row| deadline(row).datum());
                    arrays.push(build_array(self.shape.type_of(ordinal), values)?);
                    continue;
                }
                let array = match (&segment.columns, self.shape.place(&segment.layout, ordinal)) {
                    (Columns::Sealed(columns), Place::At(position)) => {
                        columns[position].share(len, self.shape.schema.columns[ordinal].nullable)
                    }
                    (Columns::Lent(arrays), Place::At(_)) => {
                        let array = arrays[lent(index, ordinal)].clone();
                        array.ok_or_else(|| Error::internal("a column of the active segment was not lent"))?
                    }
                    (_, Place::Missing(datum)) => {
                        let column = &self.shape.schema.columns[ordinal];
                        match datum {
                            Datum::Null => absent(column.sql_type, column.nullable, len)?,
                            datum => build_array(column.sql_type, std::iter::repeat_n(datum, len))?,
                        }
                    }
                };
                debug_assert_eq!(array.len(), len);
                arrays.push(array);
            }
            batches.push(ScanBatch { batch: record_batch(schema, arrays, len)?, visible });
        }
        Ok(batches)
    }
}

/// A batch that knows its length even without columns.
pub(crate) fn record_batch(schema: &SchemaRef, columns: Vec<ArrayRef>, len: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(len));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|error| Error::internal(format!("stored columns do not match their schema: {error}")))
}
