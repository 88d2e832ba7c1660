//! Rows that are made before they are written, so that CHECK constraints are computed of many of them at once.
//!
//! Called by INSERT and UPDATE for the rows of a batch or of a VALUES list. Where no constraint has to be computed, each row is made when it is
//! written. What is wrong with a row is always found when it is its turn: errors are those of the first row that has one.

use std::mem;

use ashlar_base::{Result, Value};
use ashlar_store::{Passed, Region, Reservation};

use super::outcome::bytes_of;

/// Rows that are made together, and bytes of them: the row that is beyond is the last one. What computing a constraint takes is
/// a multiple of that, and has a bound of its own.
const ROWS: usize = 1024;
const BYTES: usize = 256 << 10;

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
    /// The row behind them, or behind one that could not be made.
    end: usize,
    passed: Option<Passed>,
    /// The charge for them.
    memory: Reservation,
}

impl<'r> Ahead<'r> {
    /// Of rows for the schema of `version`, in which the values at the ordinals of `open` may be changed before they are written.
    pub(super) fn new(region: &'r Region, version: u32, open: &'r [usize], memory: Reservation) -> Self {
        let computes = region.computes_checks();
        Self { region, version, computes, open, made: Vec::new(), first: 0, end: 0, passed: None, memory }
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
            self.make(at, count, &make);
            // One by itself is checked as it always is.
            let are_many = self.made.len() > 1;
            self.passed = if are_many { self.region.check_together(self.version, &self.made, self.open) } else { None };
        }
        match self.made.get_mut(at - self.first) {
            Some(row) => Ok(mem::take(row)),
            None => make(at),
        }
    }

    /// Makes rows from a place on: as many as there is room for, up to one that cannot be made.
    fn make(&mut self, at: usize, count: usize, make: impl Fn(usize) -> Result<Vec<Value>>) {
        self.made.clear();
        self.memory.clear();
        let mut bytes = 0;
        for row in at..count.min(at + ROWS) {
            let Ok(made) = make(row) else { break };
            let taken = bytes_of(&made);
            // By itself it is made when it is its turn.
            if self.memory.grow(taken).is_err() {
                break;
            }
            self.made.push(made);
            bytes += taken;
            if bytes >= BYTES {
                break;
            }
        }
        (self.first, self.end) = (at, at + self.made.len().max(1));
    }

    /// What the row passed that was given last.
    pub(super) fn passed(&self) -> Option<&Passed> {
        self.passed.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use ashlar_base::{Error, ErrorCode};

    use super::*;
    use crate::testing::{alone, engine_with};

    #[test]
    fn rows_are_made_ahead_as_far_as_there_is_room_for_them() {
        let engine = engine_with(&["CREATE TABLE t (id integer PRIMARY KEY, s text, CHECK (length(s) % 7 < 7))"]);
        let region = engine.catalog().grid_table("t").unwrap();
        let version = region.schema().version;
        assert!(region.computes_checks());
        let memory = || engine.store().reservation();
        let row = |at: usize, length: usize| vec![Value::Int4(at as i32), Value::Text("x".repeat(length).into())];

        // Short ones, as many as are made together.
        let mut ahead = Ahead::new(&region, version, &[], memory());
        for at in 0..3000 {
            assert_eq!(ahead.row(at, 3000, |at| Ok(row(at, 3))).unwrap(), row(at, 3));
            assert_eq!(ahead.end, [1024, 2048, 3000][at / 1024]);
            assert!(ahead.passed().is_some());
        }
        // Long ones, as few as a bound has room for.
        let mut ahead = Ahead::new(&region, version, &[], memory());
        for at in 0..39 {
            assert_eq!(ahead.row(at, 39, |at| Ok(row(at, 100_000))).unwrap(), row(at, 100_000));
            assert!(ahead.made.len() == 3 && ahead.passed().is_some());
        }
        // One that cannot be made ends those before it, and is checked by itself where it can be made after all.
        let failed = || Error::new(ErrorCode::DivisionByZero, "division by zero");
        let mut ahead = Ahead::new(&region, version, &[], memory());
        for at in 0..10 {
            let made = ahead.row(at, 10, |at| if at == 5 { Err(failed()) } else { Ok(row(at, 3)) });
            assert_eq!(made.is_ok(), at != 5);
            assert_eq!(ahead.passed().is_some(), at != 5);
        }
        // One that is wrong: none has passed.
        let mut ahead = Ahead::new(&region, version, &[], memory());
        alone(&engine, "ALTER TABLE t ADD CONSTRAINT never CHECK (id % 9 < 9 AND id <> 3)").unwrap();
        let version = region.schema().version;
        ahead.version = version;
        for at in 0..10 {
            ahead.row(at, 10, |at| Ok(row(at, 3))).unwrap();
            assert!(ahead.passed().is_none());
        }
    }
}
