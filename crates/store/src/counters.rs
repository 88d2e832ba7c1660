//! The counters of a table's columns: `serial`, identity, and the hidden key of a table without one.
//!
//! A number is taken once, whatever becomes of the row it was taken for: a transaction that rolls back leaves a gap,
//! as PostgreSQL's sequences do.

use ashlar_base::{ColumnId, Sequence};

use crate::sync::Mutex;

/// The next number of each column that has counted; `None` after the last.
#[derive(Default)]
pub(crate) struct Counters(Mutex<Vec<(ColumnId, Option<i64>)>>);

impl Counters {
    /// Takes the next number of a column; `None` after the last.
    pub(crate) fn take(&self, column: ColumnId, sequence: &Sequence) -> Option<i64> {
        let mut counters = self.0.lock();
        let place = match counters.iter().position(|(id, _)| *id == column) {
            Some(place) => place,
            None => {
                counters.push((column, Some(sequence.start)));
                counters.len() - 1
            }
        };
        let number = counters[place].1?;
        counters[place].1 = sequence.after(number);
        Some(number)
    }

    /// Goes on with `number`.
    pub(crate) fn restart(&self, column: ColumnId, number: i64) {
        let mut counters = self.0.lock();
        counters.retain(|(id, _)| *id != column);
        counters.push((column, Some(number)));
    }

    /// Goes on as others do.
    pub(crate) fn take_those_of(&self, others: &Self) {
        let numbers = others.0.lock().clone();
        *self.0.lock() = numbers;
    }
}
