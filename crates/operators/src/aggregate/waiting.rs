//! Rows of a stream that wait until there are enough of them for each table: then what a table has is in the caches, and its
//! pages known, for a thousand rows instead of a hundred.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::concat;
use datafusion_common::{DataFusionError, Result};

use super::spec::Rows;
use crate::memory::{Charge, Wish};

/// Rows that are enough.
const ROWS: usize = if cfg!(test) { 4 << 10 } else { 64 << 10 };
/// Bytes that are too many for a cache.
const BYTES: usize = 1 << 20;

/// See the module.
pub(super) struct Waiting {
    batches: Vec<Rows>,
    rows: usize,
    charge: Charge,
}

impl Waiting {
    pub(super) fn new(charge: Charge) -> Self {
        Self { batches: Vec::new(), rows: 0, charge }
    }

    /// Takes rows of the input; whether there are enough, or there is no memory for more.
    pub(super) fn push(&mut self, rows: Rows) -> bool {
        let is_held = self.charge.grow(bytes_of(&rows), Wish::IfFree).is_ok();
        self.rows += rows.packed.len();
        self.batches.push(rows);
        !is_held || self.rows >= ROWS || self.charge.bytes() >= BYTES
    }

    /// All rows that wait, which are none then: put together, or as they came where there is no memory for that.
    ///
    /// # Errors
    /// Where they do not fit one batch.
    pub(super) fn take(&mut self) -> Result<Vec<Rows>> {
        self.rows = 0;
        let batches = std::mem::take(&mut self.batches);
        if batches.len() < 2 || self.charge.grow(self.charge.bytes(), Wish::IfFree).is_err() {
            return Ok(batches);
        }
        let mut batches = batches.into_iter();
        let Some(mut first) = batches.next() else { return Ok(Vec::new()) };
        let others: Vec<Rows> = batches.collect();
        for (number, own) in first.values.iter_mut().enumerate() {
            for (place, array) in own.iter_mut().enumerate() {
                *array = together(array, others.iter().map(|rows| &rows.values[number][place]))?;
            }
        }
        for (number, own) in first.filters.iter_mut().enumerate() {
            if let Some(filter) = own {
                let all: Vec<&dyn Array> =
                    others.iter().filter_map(|rows| Some(rows.filters[number].as_ref()? as _)).collect();
                let filters: Vec<&dyn Array> = std::iter::once(filter as &dyn Array).chain(all).collect();
                let joined: BooleanArray = concat(&filters)?.as_boolean().clone();
                *filter = joined;
            }
        }
        first.packed.make_room(others.iter().map(|rows| &rows.packed));
        for rows in others {
            first.packed.append(rows.packed)?;
        }
        // What they were put together of is gone.
        self.charge.settle(bytes_of(&first));
        Ok(vec![first])
    }

    /// What was taken is done with.
    pub(super) fn settle(&mut self) {
        self.charge.settle(0);
    }
}

fn together<'a>(first: &'a ArrayRef, others: impl Iterator<Item = &'a ArrayRef>) -> Result<ArrayRef, DataFusionError> {
    let all: Vec<&dyn Array> = std::iter::once(first).chain(others).map(AsRef::as_ref).collect();
    Ok(concat(&all)?)
}

fn bytes_of(rows: &Rows) -> usize {
    let of =
        |array: &dyn Array| array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size());
    let values: usize = rows.values.iter().flatten().map(|array| of(array.as_ref())).sum();
    let filters: usize = rows.filters.iter().flatten().map(|filter| of(filter)).sum();
    rows.packed.bytes() + values + filters
}
