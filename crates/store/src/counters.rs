//! The counters of a table's columns: `serial`, identity, and the hidden key of a table without one.
//!
//! A number is taken once, whatever becomes of the row it was taken for: a transaction that rolls back leaves a gap,
//! as PostgreSQL's sequences do.

use ashlar_base::{ColumnId, Sequence, TableId};

use crate::sync::Mutex;

/// Where each column stands that has counted.
#[derive(Default)]
pub(crate) struct Counters(Mutex<Counted>);

#[derive(Clone, Default)]
struct Counted {
    /// The first of the tables that have had these counters one after the other, where it is another one than the table itself.
    first: Option<TableId>,
    columns: Vec<(ColumnId, Position)>,
}

/// Where a column stands, as PostgreSQL's sequences keep it: not the number to come, which there may be only once the bounds are others.
#[derive(Clone, Copy)]
struct Position {
    number: i64,
    /// Whether the number is the last one that was given; otherwise it is the next one.
    is_given: bool,
}

impl Counters {
    /// Takes the next number of a column; `None` after the last.
    pub(crate) fn take(&self, column: ColumnId, sequence: &Sequence) -> Option<i64> {
        let mut counted = self.0.lock();
        let columns = &mut counted.columns;
        let place = match columns.iter().position(|(id, _)| *id == column) {
            Some(place) => place,
            None => {
                columns.push((column, Position { number: sequence.start, is_given: false }));
                columns.len() - 1
            }
        };
        let position = &mut columns[place].1;
        let is_within = |number: &i64| (sequence.min..=sequence.max).contains(number);
        let next = if position.is_given { sequence.after(position.number) } else { Some(position.number) };
        let number = next.filter(is_within)?;
        *position = Position { number, is_given: true };
        Some(number)
    }

    /// The number that a column has given last, or that it begins with.
    pub(crate) fn position(&self, column: ColumnId, sequence: &Sequence) -> i64 {
        let counted = self.0.lock();
        let found = counted.columns.iter().find(|(id, _)| *id == column);
        found.map_or(sequence.start, |(_, position)| position.number)
    }

    /// Goes on with `number`.
    pub(crate) fn restart(&self, column: ColumnId, number: i64) {
        let mut counted = self.0.lock();
        counted.columns.retain(|(id, _)| *id != column);
        counted.columns.push((column, Position { number, is_given: false }));
    }

    /// Goes on as those of another table do.
    pub(crate) fn take_those_of(&self, table: TableId, others: &Self) {
        let counted = others.0.lock().clone();
        *self.0.lock() = Counted { first: counted.first.or(Some(table)), ..counted };
    }

    /// The first of the tables that have had these counters; `None`: no other one has.
    pub(crate) fn first_table(&self) -> Option<TableId> {
        self.0.lock().first
    }
}

#[cfg(test)]
mod tests;
