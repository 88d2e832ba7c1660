//! Rows that are made before they are written, so that CHECK constraints are computed of many of them at once.
//!
//! Called by INSERT and UPDATE for the rows of a batch or of a VALUES list. Where no constraint has to be computed, each row is made when it is
//! written. What is wrong with a row is always found when it is its turn: errors are those of the first row that has one.

use std::mem;

use ashlar_base::{Result, Value};
use ashlar_store::{Passed, Region};

/// Rows that are made together.
const ROWS: usize = 1024;

/// The rows of one batch, in their order.
pub(super) struct Ahead<'r> {
    region: &'r Region,
    version: u32,
    computes: bool,
    /// What may change in rows that have been made.
    open: &'r [usize],
    /// Rows that have been made, from `first` on; those whose turn has come are empty.
    made: Vec<Vec<Value>>,
    first: usize,
    /// The row behind those that were to be made. Making one of them may have failed.
    end: usize,
    passed: Option<Passed>,
}

impl<'r> Ahead<'r> {
    /// Of rows for the schema of `version`, in which the values at the ordinals of `open` may be changed before they are written.
    pub(super) fn new(region: &'r Region, version: u32, open: &'r [usize]) -> Self {
        let computes = region.computes_checks();
        Self { region, version, computes, open, made: Vec::new(), first: 0, end: 0, passed: None }
    }

    /// The row at a place of `count`; `make` gives it. Places come in their order, each at most once.
    ///
    /// # Errors
    /// Those of `make`.
    pub(super) fn row(
        &mut self,
        at: usize,
        count: usize,
        make: impl Fn(usize) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> {
        if !self.computes {
            return make(at);
        }
        if at >= self.end {
            (self.first, self.end) = (at, count.min(at + ROWS));
            self.made = (self.first..self.end).map_while(|row| make(row).ok()).collect();
            // One by itself is checked as it always is.
            let are_many = self.made.len() > 1;
            self.passed = if are_many { self.region.check_together(self.version, &self.made, self.open) } else { None };
        }
        match self.made.get_mut(at - self.first) {
            Some(row) => Ok(mem::take(row)),
            None => make(at),
        }
    }

    /// What the row passed that was given last.
    pub(super) fn passed(&self) -> Option<&Passed> {
        self.passed.as_ref()
    }
}
