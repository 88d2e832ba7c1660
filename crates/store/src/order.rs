//! The order of values, as PostgreSQL's `<` and ORDER BY have it, with NULLs last; and eight bytes that order as they do.
//!
//! Called by `partition::indexes`. Text and bytes order by their bytes, floats with NaN above all and -0 equal to 0,
//! intervals by their length, a month being thirty days and a day twenty-four hours, and arrays item by item.

use std::cmp::Ordering;

use ashlar_base::value::interval::arithmetic::order as length;
use ashlar_base::{Datum, Items, Value};

/// The order of two values of one column, or of one and what it is compared with.
pub fn compare(left: &Datum<'_>, right: &Datum<'_>) -> Ordering {
    match (left, right) {
        (Datum::Null, Datum::Null) => Ordering::Equal,
        (Datum::Null, _) => Ordering::Greater,
        (_, Datum::Null) => Ordering::Less,
        (Datum::Bool(left), Datum::Bool(right)) => left.cmp(right),
        (Datum::Numeric(left), Datum::Numeric(right)) => left.cmp(right),
        (Datum::Text(left), Datum::Text(right)) => left.as_bytes().cmp(right.as_bytes()),
        (Datum::Bytea(left), Datum::Bytea(right)) => left.cmp(right),
        (Datum::Uuid(left), Datum::Uuid(right)) => left.cmp(right),
        (Datum::Interval(left), Datum::Interval(right)) => length(*left).cmp(&length(*right)),
        (Datum::Array(left), Datum::Array(right)) => compare_items(left, right),
        _ => match (float(left), float(right)) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => integer(left).cmp(&integer(right)),
        },
    }
}

/// NULL among the items is equal to itself and above all others, and of two arrays one of which is the beginning of the
/// other the shorter one comes first.
fn compare_items(left: &Items<'_>, right: &Items<'_>) -> Ordering {
    let mut orders = left.iter().zip(right.iter()).map(|(left, right)| compare(&left, &right));
    orders.find(|order| order.is_ne()).unwrap_or_else(|| left.len().cmp(&right.len()))
}

/// Whether two values of one column are the very same: equal ones may be written otherwise, and what is computed of
/// them may differ.
pub(crate) fn is_identical(left: &Datum<'_>, right: &Datum<'_>) -> bool {
    match (left, right) {
        (Datum::Float4(left), Datum::Float4(right)) => left.to_bits() == right.to_bits(),
        (Datum::Float8(left), Datum::Float8(right)) => left.to_bits() == right.to_bits(),
        (Datum::Array(left), Datum::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right.iter()).all(|(left, right)| is_identical(&left, &right))
        }
        _ => left == right,
    }
}

/// The order of two values as indexes have it; `None` where they are not of one kind, or of one of which statistics
/// keep no values.
pub fn compare_values(left: &Value, right: &Value) -> Option<Ordering> {
    let is_ordered = |value: &Value| !matches!(value, Value::Array(_) | Value::Interval(_));
    let is_same = std::mem::discriminant(left) == std::mem::discriminant(right);
    (is_same && is_ordered(left)).then(|| compare(&left.as_datum(), &right.as_datum()))
}

/// Eight bytes of a value: one that is smaller never has a larger prefix.
pub(crate) fn prefix(datum: &Datum<'_>) -> u64 {
    match datum {
        Datum::Null => u64::MAX,
        Datum::Bool(value) => u64::from(*value),
        Datum::Numeric(value) => clamped(*value),
        Datum::Interval(value) => clamped(length(*value)),
        Datum::Array(items) if items.is_empty() => 0,
        Datum::Array(items) => prefix(&items.get(0)),
        Datum::Text(value) => first_bytes(value.as_bytes()),
        Datum::Bytea(value) => first_bytes(value),
        Datum::Uuid(value) => first_bytes(value),
        other => match (float(other), integer(other)) {
            (Some(bits), _) => above_zero(bits),
            (None, Some(value)) => above_zero(value),
            (None, None) => 0,
        },
    }
}

/// The same for values of which most begin with these bytes: of those it is what comes behind, and of the others their beginning, beneath or
/// above all of those. The first two bits tell which: 00 beneath, 01 behind the common bytes, 10 above; NULL has 11.
pub(crate) fn prefix_behind(common: &[u8], datum: &Datum<'_>) -> u64 {
    let Some(bytes) = bytes_of(datum).filter(|_| !common.is_empty()) else { return prefix(datum) };
    let (head, rest) = bytes.split_at(bytes.len().min(common.len()));
    let (side, first) = match head.cmp(common) {
        Ordering::Less => (0, first_bytes(bytes)),
        Ordering::Equal => (1, first_bytes(rest)),
        Ordering::Greater => (2, first_bytes(bytes)),
    };
    side << 62 | first >> 2
}

/// What values that are ordered by their bytes are made of; None of others.
pub(crate) fn bytes_of<'d>(datum: &'d Datum<'_>) -> Option<&'d [u8]> {
    match datum {
        Datum::Text(value) => Some(value.as_bytes()),
        Datum::Bytea(value) => Some(value),
        _ => None,
    }
}

/// The numbers that need more than eight bytes are all the same.
fn clamped(value: i128) -> u64 {
    above_zero(value.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64)
}

/// Order-preserving: the smallest number becomes 0.
fn above_zero(value: i64) -> u64 {
    value.cast_unsigned() ^ (1 << 63)
}

fn first_bytes(bytes: &[u8]) -> u64 {
    let mut first = [0; 8];
    let len = bytes.len().min(8);
    first[..len].copy_from_slice(&bytes[..len]);
    u64::from_be_bytes(first)
}

fn integer(datum: &Datum<'_>) -> Option<i64> {
    match datum {
        Datum::Int2(value) => Some(i64::from(*value)),
        Datum::Int4(value) | Datum::Date(value) => Some(i64::from(*value)),
        Datum::Int8(value) | Datum::Time(value) | Datum::Timestamp(value) => Some(*value),
        _ => None,
    }
}

/// The bits of a float as a number that orders as it does.
fn float(datum: &Datum<'_>) -> Option<i64> {
    let value = match datum {
        Datum::Float4(value) => f64::from(*value),
        Datum::Float8(value) => *value,
        _ => return None,
    };
    if value.is_nan() {
        return Some(i64::MAX);
    }
    let bits = if value == 0.0 { 0 } else { value.to_bits().cast_signed() };
    // Of negative numbers the larger bits are the smaller number.
    Some(bits ^ (((bits >> 63).cast_unsigned()) >> 1).cast_signed())
}

#[cfg(test)]
mod tests;
