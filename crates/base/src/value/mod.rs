//! SQL values: [`Datum`] borrows, [`Value`] owns; `text` and `binary` are PostgreSQL's two forms of both.
//!
//! A value does not know its SQL type: numeric scale, varchar limits, and the difference between text, json and
//! jsonb belong to the column, and travel beside the value as a [`SqlType`](crate::SqlType).

use std::borrow::Cow;

mod array;
pub mod binary;
mod bytea;
mod coerce;
pub mod datetime;
mod float;
pub mod interval;
mod items;
pub mod json;
mod key;
pub mod numeric;
pub mod plain;
pub mod text;
mod uuid;
mod zone;

pub use coerce::{coerce, coerce_with};
pub use items::Items;

/// A PostgreSQL interval: three parts that do not convert into each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Interval {
    /// Whole months, years included.
    pub months: i32,
    /// Whole days.
    pub days: i32,
    /// Microseconds.
    pub micros: i64,
}

/// A borrowed SQL value of a column whose type is known beside it.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum<'a> {
    /// NULL of any type.
    Null,
    /// `boolean`
    Bool(bool),
    /// `smallint`
    Int2(i16),
    /// `integer`
    Int4(i32),
    /// `bigint`
    Int8(i64),
    /// `real`
    Float4(f32),
    /// `double precision`
    Float8(f64),
    /// `numeric(p,s)`: the unscaled value, `1.50` with scale 2 is 150.
    Numeric(i128),
    /// `text`, `varchar`, `json`, `jsonb`
    Text(&'a str),
    /// `bytea`
    Bytea(&'a [u8]),
    /// `date`: days since 1970-01-01.
    Date(i32),
    /// `time`: microseconds since midnight.
    Time(i64),
    /// `timestamp` and `timestamptz`: microseconds since 1970-01-01 00:00 (UTC for `timestamptz`).
    Timestamp(i64),
    /// `interval`
    Interval(Interval),
    /// `uuid`
    Uuid([u8; 16]),
    /// A one-dimensional array of any of these, elements of one type.
    Array(Items<'a>),
}

/// An owned SQL value; see [`Datum`] for units.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// NULL of any type.
    Null,
    /// `boolean`
    Bool(bool),
    /// `smallint`
    Int2(i16),
    /// `integer`
    Int4(i32),
    /// `bigint`
    Int8(i64),
    /// `real`
    Float4(f32),
    /// `double precision`
    Float8(f64),
    /// `numeric(p,s)`, unscaled.
    Numeric(i128),
    /// `text`, `varchar`, `json`, `jsonb`
    Text(Box<str>),
    /// `bytea`
    Bytea(Box<[u8]>),
    /// `date`
    Date(i32),
    /// `time`
    Time(i64),
    /// `timestamp` and `timestamptz`
    Timestamp(i64),
    /// `interval`
    Interval(Interval),
    /// `uuid`
    Uuid([u8; 16]),
    /// A one-dimensional array.
    Array(Box<[Value]>),
}

impl Value {
    /// Borrows the value.
    pub fn as_datum(&self) -> Datum<'_> {
        match self {
            Self::Null => Datum::Null,
            Self::Bool(v) => Datum::Bool(*v),
            Self::Int2(v) => Datum::Int2(*v),
            Self::Int4(v) => Datum::Int4(*v),
            Self::Int8(v) => Datum::Int8(*v),
            Self::Float4(v) => Datum::Float4(*v),
            Self::Float8(v) => Datum::Float8(*v),
            Self::Numeric(v) => Datum::Numeric(*v),
            Self::Text(v) => Datum::Text(v),
            Self::Bytea(v) => Datum::Bytea(v),
            Self::Date(v) => Datum::Date(*v),
            Self::Time(v) => Datum::Time(*v),
            Self::Timestamp(v) => Datum::Timestamp(*v),
            Self::Interval(v) => Datum::Interval(*v),
            Self::Uuid(v) => Datum::Uuid(*v),
            Self::Array(v) => Datum::Array(Items::Values(Cow::Borrowed(v))),
        }
    }

    /// The value as a datum that borrows nothing; texts, bytes and arrays come back as they are.
    pub fn into_datum(self) -> Result<Datum<'static>, Self> {
        Ok(match self {
            Self::Text(_) | Self::Bytea(_) | Self::Array(_) => return Err(self),
            Self::Null => Datum::Null,
            Self::Bool(v) => Datum::Bool(v),
            Self::Int2(v) => Datum::Int2(v),
            Self::Int4(v) => Datum::Int4(v),
            Self::Int8(v) => Datum::Int8(v),
            Self::Float4(v) => Datum::Float4(v),
            Self::Float8(v) => Datum::Float8(v),
            Self::Numeric(v) => Datum::Numeric(v),
            Self::Date(v) => Datum::Date(v),
            Self::Time(v) => Datum::Time(v),
            Self::Timestamp(v) => Datum::Timestamp(v),
            Self::Interval(v) => Datum::Interval(v),
            Self::Uuid(v) => Datum::Uuid(v),
        })
    }

    /// Whether this is NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}

impl Datum<'_> {
    /// Copies the value.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(v) => Value::Bool(*v),
            Self::Int2(v) => Value::Int2(*v),
            Self::Int4(v) => Value::Int4(*v),
            Self::Int8(v) => Value::Int8(*v),
            Self::Float4(v) => Value::Float4(*v),
            Self::Float8(v) => Value::Float8(*v),
            Self::Numeric(v) => Value::Numeric(*v),
            Self::Text(v) => Value::Text((*v).into()),
            Self::Bytea(v) => Value::Bytea((*v).into()),
            Self::Date(v) => Value::Date(*v),
            Self::Time(v) => Value::Time(*v),
            Self::Timestamp(v) => Value::Timestamp(*v),
            Self::Interval(v) => Value::Interval(*v),
            Self::Uuid(v) => Value::Uuid(*v),
            Self::Array(v) => Value::Array(v.to_values().into()),
        }
    }

    /// Whether this is NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}

#[cfg(test)]
mod table;
#[cfg(test)]
mod tests;
