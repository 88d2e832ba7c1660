//! Rows of a stream buffered until there are enough of them for each table, so that a table's cache lines and pages are
//! touched once for a thousand rows instead of for a hundred.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::concat;
use datafusion_common::{DataFusionError, Result};

use super::spec::Rows;
use crate::memory::{Charge, Wish};

/// Rows that are enough for any tables, and such as are too few for some: to look at each table costs something too.
const ROWS_MAX: usize = if cfg!(test) { 4 << 10 } else { 64 << 10 };
const ROWS_MIN: usize = if cfg!(test) { 1 << 10 } else { 16 << 10 };
/// Groups for each row that waits. What is kept for such a row is 20 bytes with its key, so it is little beside the groups.
const GROUPS: usize = 4;
/// Bytes that are too many for a cache.
const BYTES: usize = 1 << 20;

/// See the module.
pub(super) struct Waiting {
    batches: Vec<Rows>,
    rows: usize,
    charge: Charge,
}

/// How many rows are enough for tables that have so many groups: of few groups a cache holds all, and rows that wait are only in the way.
fn enough(groups: usize) -> usize {
    (groups / GROUPS).clamp(ROWS_MIN, ROWS_MAX)
}

impl Waiting {
    pub(super) fn new(charge: Charge) -> Self {
        Self { batches: Vec::new(), rows: 0, charge }
    }

    /// Takes rows of the input; whether there are enough for tables that have so many groups, or there is no memory for more.
    pub(super) fn push(&mut self, rows: Rows, groups: usize) -> bool {
        let is_held = self.charge.grow(bytes_of(&rows), Wish::IfFree).is_ok();
        self.rows += rows.packed.len();
        self.batches.push(rows);
        !is_held || self.rows >= enough(groups) || self.charge.bytes() >= BYTES
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_rows_wait_for_more_groups() {
        assert_eq!(enough(0), ROWS_MIN);
        assert_eq!(enough(GROUPS * (ROWS_MIN + 5)), ROWS_MIN + 5);
        assert_eq!(enough(usize::MAX), ROWS_MAX);
    }
}
