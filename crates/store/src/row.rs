//! A stored row, read where it lies.

use ashlar_base::{Datum, TableSchema, Value};

use crate::life::{Deadline, Expiry, Unit};
use crate::segment::Segment;
use crate::shape::Shape;

/// A borrowed row. Lives as long as the lock, or the write set, that it was reached through.
#[derive(Clone, Copy)]
pub struct RowRef<'a> {
    shape: &'a Shape,
    segment: &'a Segment,
    offset: u32,
}

impl<'a> RowRef<'a> {
    pub(crate) fn new(shape: &'a Shape, segment: &'a Segment, offset: u32) -> Self {
        Self { shape, segment, offset }
    }

    /// The value of the column at this ordinal of [`RowRef::schema`].
    #[inline]
    pub fn get(&self, column: usize) -> Datum<'a> {
        self.shape.datum(self.segment, self.offset, column)
    }

    /// When the row's life ends, as it was said of the row or by its table's `ttl_ms`: milliseconds since 1970. `None`:
    /// never.
    pub fn expires_at(&self) -> Option<i64> {
        self.deadline().millis()
    }

    /// The lifetime for another row that is to live as long as this one: a deadline of its own, or having none, is kept; a deadline by the
    /// table's default is set anew.
    pub fn expiry(&self) -> Expiry {
        let deadline = self.deadline();
        let is_of_table = !deadline.is_own() && (deadline == Deadline::NONE || self.shape.schema.life.ttl_ms > 0);
        if is_of_table { Expiry::Table } else { deadline.expiry() }
    }

    /// Milliseconds, to an eighth of a second or finer, from the row's last use to a time, in milliseconds since 1970. `None`:
    /// its table does not keep that, or the row is not committed yet.
    pub fn idle_millis(&self, now: i64) -> Option<u64> {
        self.use_at(now).0
    }

    /// How often the row is used, as `eviction = 'lfu'` counts it. `None` as for [`RowRef::idle_millis`].
    pub fn frequency(&self, now: i64) -> Option<u8> {
        self.use_at(now).1
    }

    fn use_at(&self, now: i64) -> (Option<u64>, Option<u8>) {
        let now = u64::try_from(now).unwrap_or(0);
        self.segment.use_of(self.offset, Unit::of(&self.shape.schema.life), now)
    }

    pub(crate) fn deadline(&self) -> Deadline {
        self.segment.deadline(self.offset)
    }

    /// Copies all values.
    #[expect(clippy::wrong_self_convention, reason = "a borrowed row is read like any other, and is two pointers wide")]
    pub fn to_values(&self) -> Vec<Value> {
        (0..self.shape.schema.columns.len()).map(|column| self.get(column).to_value()).collect()
    }

    /// The schema whose ordinals [`RowRef::get`] takes.
    pub fn schema(&self) -> &'a TableSchema {
        &self.shape.schema
    }
}
