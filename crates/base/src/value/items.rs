//! The elements of an array: values that somebody put together, or numbers where they lie in a column.

use std::borrow::Cow;

use super::{Datum, Value};

/// See the module.
#[derive(Clone, Debug)]
pub enum Items<'a> {
    /// Of any type.
    Values(Cow<'a, [Value]>),
    /// Of `integer`, none of them NULL.
    Int4(&'a [i32]),
    /// Of `bigint`, none of them NULL.
    Int8(&'a [i64]),
}

impl Items<'_> {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Values(values) => values.len(),
            Self::Int4(numbers) => numbers.len(),
            Self::Int8(numbers) => numbers.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One of them. Panics beyond the last.
    #[inline]
    pub fn get(&self, place: usize) -> Datum<'_> {
        match self {
            Self::Values(values) => values[place].as_datum(),
            Self::Int4(numbers) => Datum::Int4(numbers[place]),
            Self::Int8(numbers) => Datum::Int8(numbers[place]),
        }
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Datum<'_>> {
        (0..self.len()).map(|place| self.get(place))
    }

    /// All of them as values: copied where they lie in a column.
    pub fn to_values(&self) -> Cow<'_, [Value]> {
        match self {
            Self::Values(values) => Cow::Borrowed(values),
            Self::Int4(numbers) => Cow::Owned(numbers.iter().map(|number| Value::Int4(*number)).collect()),
            Self::Int8(numbers) => Cow::Owned(numbers.iter().map(|number| Value::Int8(*number)).collect()),
        }
    }
}

/// Elements are equal wherever they lie.
impl PartialEq for Items<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().zip(other.iter()).all(|(own, other)| own == other)
    }
}

#[cfg(test)]
mod tests;
