//! Builds Arrow arrays from datums, through the store's own columns.
//!
//! Called by scans for columns that are younger than a segment, and by the query crate for VALUES, for results and
//! for rows of shards.

use arrow::array::ArrayRef;
use ashlar_base::{Datum, Result, SqlType, Value};

use crate::memory::Account;
use crate::segment::{Column, Need};
use crate::shape::check_type;

/// What an array can be built from.
pub trait AsDatum {
    /// Borrows the value.
    fn as_datum(&self) -> Datum<'_>;
}

impl AsDatum for Datum<'_> {
    fn as_datum(&self) -> Datum<'_> {
        self.clone()
    }
}

impl AsDatum for &Datum<'_> {
    fn as_datum(&self) -> Datum<'_> {
        (*self).clone()
    }
}

impl AsDatum for Value {
    fn as_datum(&self) -> Datum<'_> {
        Value::as_datum(self)
    }
}

impl AsDatum for &Value {
    fn as_datum(&self) -> Datum<'_> {
        Value::as_datum(self)
    }
}

/// An array of the type's Arrow form. A value that is not of the type, or beyond its limits, is an error; nothing
/// is converted.
pub fn build_array(sql_type: SqlType, values: impl IntoIterator<Item = impl AsDatum>) -> Result<ArrayRef> {
    let mut builder = ArrayBuilder::new(sql_type);
    let values = values.into_iter();
    builder.column.reserve(Need { rows: values.size_hint().0, bytes: 0, items: 0 }, usize::MAX)?;
    for value in values {
        builder.push(&value.as_datum())?;
    }
    Ok(builder.finish())
}

/// An array to which values are added as they come.
pub struct ArrayBuilder {
    sql_type: SqlType,
    column: Column,
}

impl ArrayBuilder {
    /// An empty one of the type's Arrow form.
    pub fn new(sql_type: SqlType) -> Self {
        Self { sql_type, column: Column::new(sql_type, &Account::unbounded()) }
    }

    /// Appends a value, or NULL.
    ///
    /// # Errors
    /// As [`build_array`]; the array is what it was then.
    pub fn push(&mut self, datum: &Datum<'_>) -> Result<()> {
        if !datum.is_null() {
            check_type(self.sql_type, datum)?;
        }
        self.column.reserve(Need::of(datum), usize::MAX)?;
        self.column.push(datum);
        Ok(())
    }

    /// The array.
    pub fn finish(mut self) -> ArrayRef {
        self.column.seal();
        self.column.share(self.column.len(), true)
    }
}

/// A column of NULLs, or where there can be none, of values that nobody sees.
pub(crate) fn absent(sql_type: SqlType, nullable: bool, len: usize) -> Result<ArrayRef> {
    let mut column = Column::new(sql_type, &Account::unbounded());
    column.reserve(Need { rows: len, bytes: 0, items: 0 }, usize::MAX)?;
    for _ in 0..len {
        column.push(&Datum::Null);
    }
    Ok(column.share(len, nullable))
}

#[cfg(test)]
mod tests;
