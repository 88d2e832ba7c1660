//! Assignment casts: what an INSERT or UPDATE does to a value whose type is not the column's.
//!
//! Called by the planner for constants and by the session for parameters. Never does what PostgreSQL demands an explicit cast
//! for: such a pair of types is refused, whatever the value.

use crate::{Error, ErrorCode, Result, ScalarType, SqlType, Value};

use super::datetime::{DAY_MICROS, SECOND_MICROS, check_timestamp};
use super::text::{TextStyle, blank, limit, parse, write};
use super::{float, json, numeric};

/// Converts a value of type `from` to a column's type `to` in a session whose zone is UTC. NULL stays NULL.
pub fn coerce(value: Value, from: SqlType, to: SqlType) -> Result<Value> {
    coerce_with(value, from, to, &TextStyle::default())
}

/// Converts a value of type `from` to a column's type `to`; the session's zone stands between timestamps and instants.
pub fn coerce_with(value: Value, from: SqlType, to: SqlType, style: &TextStyle) -> Result<Value> {
    if value.is_null() || from == to {
        return Ok(value);
    }
    match (value, from, to) {
        (Value::Array(values), SqlType::Array(from), SqlType::Array(to)) => {
            let values: Result<Box<[Value]>> =
                values.into_iter().map(|value| coerce_with(value, from.into(), to.into(), style)).collect();
            values.map(Value::Array)
        }
        (value, SqlType::Scalar(source), SqlType::Scalar(target)) => coerce_scalar(value, source, target, style),
        // Every type has an assignment cast to text.
        (
            value,
            SqlType::Array(_),
            SqlType::Scalar(ScalarType::Text | ScalarType::Varchar { .. } | ScalarType::Char { .. }),
        ) => to_text(&value, from, to, style),
        _ => Err(mismatch(from, to)),
    }
}

fn mismatch(from: SqlType, to: SqlType) -> Error {
    Error::new(ErrorCode::DatatypeMismatch, format!("a value of type {from} cannot be assigned to type {to}"))
        .with_hint("You will need to rewrite or cast the expression.")
}

fn coerce_scalar(value: Value, from: ScalarType, to: ScalarType, style: &TextStyle) -> Result<Value> {
    use ScalarType as T;
    let unknown = || mismatch(from.into(), to.into());
    match (to, value) {
        (T::Varchar { length }, Value::Text(text)) => {
            let limited = limit(&text, length)?;
            Ok(Value::Text(if limited.len() == text.len() { text } else { limited.into() }))
        }
        (T::Char { length }, Value::Text(text)) => {
            let kept = blank(&text, length)?;
            Ok(Value::Text(if kept.len() == text.len() { text } else { kept.into() }))
        }
        (T::Text, Value::Text(text)) => Ok(Value::Text(text)),
        (T::Text | T::Varchar { .. } | T::Char { .. }, value) => to_text(&value, from.into(), to.into(), style),
        (T::Int2 | T::Int4 | T::Int8, value) => {
            let whole = to_integer(&value, from, to)?.ok_or_else(unknown)?;
            let out_of_range = || Error::new(ErrorCode::NumericOutOfRange, format!("{to} out of range"));
            match to {
                T::Int2 => i16::try_from(whole).map(Value::Int2).map_err(|_| out_of_range()),
                T::Int4 => i32::try_from(whole).map(Value::Int4).map_err(|_| out_of_range()),
                _ => i64::try_from(whole).map(Value::Int8).map_err(|_| out_of_range()),
            }
        }
        (T::Numeric { precision, scale }, value) => to_numeric(&value, from, precision, scale)?.ok_or_else(unknown),
        (T::Float4, Value::Float8(number)) => {
            let narrow = number as f32;
            let problem = if narrow.is_infinite() && !number.is_infinite() {
                "overflow"
            } else if narrow == 0.0 && number != 0.0 {
                "underflow"
            } else {
                return Ok(Value::Float4(narrow));
            };
            Err(Error::new(ErrorCode::NumericOutOfRange, format!("value out of range: {problem}")))
        }
        (T::Float4, value) => match value {
            Value::Int2(number) => Ok(Value::Float4(f32::from(number))),
            Value::Int4(number) => Ok(Value::Float4(number as f32)),
            Value::Int8(number) => Ok(Value::Float4(number as f32)),
            Value::Numeric(unscaled) => float::parse_float4(&decimal(unscaled, from)).map(Value::Float4),
            _ => Err(unknown()),
        },
        (T::Float8, value) => match value {
            Value::Int2(number) => Ok(Value::Float8(f64::from(number))),
            Value::Int4(number) => Ok(Value::Float8(f64::from(number))),
            Value::Int8(number) => Ok(Value::Float8(number as f64)),
            Value::Float4(number) => Ok(Value::Float8(f64::from(number))),
            Value::Numeric(unscaled) => float::parse_float8(&decimal(unscaled, from)).map(Value::Float8),
            _ => Err(unknown()),
        },
        (T::Time, Value::Interval(interval)) => Ok(Value::Time(interval.micros.rem_euclid(DAY_MICROS))),
        (T::Date | T::Time | T::Timestamp | T::Timestamptz, value) => {
            to_datetime(&value, from, to, style)?.ok_or_else(unknown)
        }
        // Both are kept as text, and the normalised text is JSON.
        (T::Json, Value::Text(text)) if from == T::Jsonb => Ok(Value::Text(text)),
        (T::Jsonb, Value::Text(text)) if from == T::Json => json::normalize(&text).map(|text| Value::Text(text.into())),
        (T::Interval, Value::Time(micros)) => Ok(Value::Interval(crate::Interval { micros, ..Default::default() })),
        _ => Err(unknown()),
    }
}

fn to_text(value: &Value, from: SqlType, to: SqlType, style: &TextStyle) -> Result<Value> {
    let mut text = Vec::new();
    match value {
        // A cast says the word, where output says its first letter.
        Value::Bool(truth) => text.extend_from_slice(if *truth { b"true" } else { b"false" }),
        _ => write(from, &value.as_datum(), style, &mut text),
    }
    parse(to, super::text::utf8(&text)?, style)
}

/// The text of a numeric.
fn decimal(unscaled: i128, from: ScalarType) -> String {
    let mut text = Vec::new();
    write(from.into(), &crate::Datum::Numeric(unscaled), &TextStyle::default(), &mut text);
    String::from_utf8(text).unwrap_or_default()
}

/// The nearest whole number; `None` where the type has no such cast.
fn to_integer(value: &Value, from: ScalarType, to: ScalarType) -> Result<Option<i128>> {
    // A float too large for an i128 saturates, and is out of any range.
    let whole = |number: f64| {
        if number.is_nan() {
            Err(Error::new(ErrorCode::NumericOutOfRange, format!("{to} out of range")))
        } else {
            Ok(Some(number.round_ties_even() as i128))
        }
    };
    match (value, from) {
        (Value::Int2(number), _) => Ok(Some(i128::from(*number))),
        (Value::Int4(number), _) => Ok(Some(i128::from(*number))),
        (Value::Int8(number), _) => Ok(Some(i128::from(*number))),
        (Value::Float4(number), _) => whole(f64::from(*number)),
        (Value::Float8(number), _) => whole(*number),
        (Value::Numeric(unscaled), ScalarType::Numeric { scale, .. }) => {
            Ok(Some(numeric::round_to_integer(*unscaled, scale)))
        }
        _ => Ok(None),
    }
}

fn to_numeric(value: &Value, from: ScalarType, precision: u8, scale: u8) -> Result<Option<Value>> {
    let unscaled = match (value, from) {
        (Value::Int2(number), _) => numeric::rescale(i128::from(*number), 0, precision, scale),
        (Value::Int4(number), _) => numeric::rescale(i128::from(*number), 0, precision, scale),
        (Value::Int8(number), _) => numeric::rescale(i128::from(*number), 0, precision, scale),
        (Value::Numeric(unscaled), ScalarType::Numeric { scale: from_scale, .. }) => {
            numeric::rescale(*unscaled, from_scale, precision, scale)
        }
        // PostgreSQL takes the digits that a float surely has: 6 and 15.
        (Value::Float4(number), _) => numeric::parse(&format!("{number:.5e}"), precision, scale),
        (Value::Float8(number), _) => numeric::parse(&format!("{number:.14e}"), precision, scale),
        _ => return Ok(None),
    };
    unscaled.map(|unscaled| Some(Value::Numeric(unscaled)))
}

/// Among date, time, timestamp and timestamptz; zones are the session's.
fn to_datetime(value: &Value, from: ScalarType, to: ScalarType, style: &TextStyle) -> Result<Option<Value>> {
    use ScalarType as T;
    let zone = style.zone;
    let to_utc = |local: i64| {
        let offset = i64::from(zone.offset_at_local(local)) * SECOND_MICROS;
        check_timestamp(i128::from(local) - i128::from(offset), "")
    };
    let to_local = |utc: i64| utc.saturating_add(i64::from(zone.offset_at(utc)) * SECOND_MICROS);
    let midnight = |days: i32| i64::from(days) * DAY_MICROS;
    Ok(Some(match (value, from, to) {
        (Value::Date(days), T::Date, T::Timestamp) => Value::Timestamp(midnight(*days)),
        (Value::Date(days), T::Date, T::Timestamptz) => Value::Timestamp(to_utc(midnight(*days))?),
        (Value::Timestamp(micros), T::Timestamp, T::Timestamptz) => Value::Timestamp(to_utc(*micros)?),
        (Value::Timestamp(micros), T::Timestamptz, T::Timestamp) => Value::Timestamp(to_local(*micros)),
        (Value::Timestamp(micros), T::Timestamp, T::Date) => Value::Date(micros.div_euclid(DAY_MICROS) as i32),
        (Value::Timestamp(micros), T::Timestamptz, T::Date) => {
            Value::Date(to_local(*micros).div_euclid(DAY_MICROS) as i32)
        }
        (Value::Timestamp(micros), T::Timestamp, T::Time) => Value::Time(micros.rem_euclid(DAY_MICROS)),
        (Value::Timestamp(micros), T::Timestamptz, T::Time) => Value::Time(to_local(*micros).rem_euclid(DAY_MICROS)),
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests;
