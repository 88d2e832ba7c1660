//! CHECK constraints of many rows at once, where they have to be computed: of one row by itself that takes some 20 us, of a thousand
//! together hardly more.
//!
//! Called by statements that write many rows, before they write them. Nothing here says that a row is wrong: rows of which it is not
//! known that all are fine are checked each by itself, so that the first one is told of.

use std::sync::Arc;

use ashlar_base::{Datum, Result, Value};

use crate::region::Region;
use crate::segment::Need;
use crate::shape::Shape;

/// Bytes that computing the rows of one call may take; with more of them each is checked by itself.
const BYTES_MAX: usize = 16 << 20;

/// Some rows were computed, and the CHECK constraints that their table had let all of them be there.
pub struct Passed {
    shape: Arc<Shape>,
}

impl Passed {
    /// Whether these are the constraints of a shape.
    pub(crate) fn is_of(&self, shape: &Arc<Shape>) -> bool {
        Arc::ptr_eq(&self.shape, shape)
    }
}

impl Region {
    /// Whether there are CHECK constraints that have to be computed.
    pub fn computes_checks(&self) -> bool {
        self.shape().conditions.iter().any(|check| check.definition.condition.condition().is_none())
    }

    /// Computes the CHECK constraints of rows that are about to be written, which have a value for every column of the schema of
    /// `version`. The values at the ordinals of `open` may still change.
    ///
    /// `None`: nothing is known of them. One may be forbidden, or is one that cannot be computed; or a constraint reads what is open, or
    /// computing them together would take too much memory.
    pub fn check_together(&self, version: u32, rows: &[Vec<Value>], open: &[usize]) -> Option<Passed> {
        let shape = self.shape();
        let width = shape.schema.columns.len();
        if shape.schema.version != version || rows.iter().any(|row| row.len() != width) {
            return None;
        }
        for check in &shape.conditions {
            if check.inputs.iter().any(|input| open.contains(input)) {
                return None;
            }
            if check.definition.condition.condition().is_some() {
                continue;
            }
            let taken = |row: &Vec<Value>| -> usize {
                let needs = check.inputs.iter().map(|&input| Need::of(&row[input].as_datum()));
                needs.map(|need| size_of::<Value>() * (1 + need.items) + need.bytes).sum()
            };
            let growth = check.definition.condition.growth()?;
            if rows.iter().map(taken).sum::<usize>().saturating_mul(growth) > BYTES_MAX {
                return None;
            }
        }
        let value = |row: usize, ordinal: usize| rows[row][ordinal].as_datum();
        let are_fine = shape.conditions.iter().all(|check| check.is_fine(0..rows.len(), &value));
        are_fine.then_some(Passed { shape })
    }

    /// [`Self::check_row`] of a row that may be one of those that have passed.
    ///
    /// # Errors
    /// As [`Self::check_row`].
    pub fn check_row_of(&self, row: &[Datum<'_>], passed: Option<&Passed>) -> Result<()> {
        let shape = self.shape();
        shape.check_row_of(row, passed.is_some_and(|passed| passed.is_of(&shape)))
    }
}
