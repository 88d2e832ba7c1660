//! PostgreSQL's text form of values, both ways, with its error codes and wording.
//!
//! Called by both doors, COPY, the planner's constants and the key path. Never called with NULL, which has no text.
//! Writing integers, text and bytes allocates nothing beyond the caller's buffer.

use crate::{Datum, Error, ErrorCode, Result, ScalarType, SqlType, Value};

use super::{array, bytea, datetime, float, interval, json, numeric, uuid};

pub use super::key::{canonical_key, parse_canonical_key};
pub use super::zone::Zone;

/// Session settings that change the text of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextStyle {
    /// The session's time zone.
    pub zone: Zone,
}

/// Reads the text of a value of this type.
pub fn parse(sql_type: SqlType, text: &str, style: &TextStyle) -> Result<Value> {
    match sql_type {
        SqlType::Scalar(scalar) => parse_scalar(scalar, text, style),
        SqlType::Array(element) => array::parse(element, text, style),
    }
}

/// Appends the text of a datum of this type. The datum is not NULL.
pub fn write(sql_type: SqlType, datum: &Datum<'_>, style: &TextStyle, out: &mut Vec<u8>) {
    match datum {
        Datum::Null => debug_assert!(false, "NULL has no text"),
        Datum::Text(text) => {
            out.extend_from_slice(text.as_bytes());
            pad(sql_type, text, out);
        }
        Datum::Bytea(bytes) => bytea::write(bytes, out),
        Datum::Int2(number) => write_integer(*number, out),
        Datum::Int4(number) => write_integer(*number, out),
        Datum::Int8(number) => write_integer(*number, out),
        Datum::Bool(truth) => out.push(if *truth { b't' } else { b'f' }),
        Datum::Float4(number) => float::write_float4(*number, out),
        Datum::Float8(number) => float::write_float8(*number, out),
        Datum::Numeric(unscaled) => match sql_type.scalar() {
            ScalarType::Numeric { scale, .. } => numeric::write(*unscaled, scale, out),
            other => panic!("a {other} column holds a numeric"),
        },
        Datum::Date(days) => datetime::write_date(*days, out),
        Datum::Time(micros) => datetime::write_time(*micros, out),
        Datum::Timestamp(micros) if sql_type.scalar() == ScalarType::Timestamptz => {
            datetime::write_timestamptz(*micros, style.zone, out);
        }
        Datum::Timestamp(micros) => datetime::write_timestamp(*micros, out),
        Datum::Interval(value) => interval::write(*value, out),
        Datum::Uuid(value) => uuid::write(value, out),
        Datum::Array(values) => array::write(sql_type.scalar(), values, style, out),
    }
}

/// The bytes as text: valid UTF-8 without NUL, which no text value holds.
pub fn utf8(bytes: &[u8]) -> Result<&str> {
    let invalid = |bad: &[u8]| {
        let bad: Vec<String> = bad.iter().map(|byte| format!("0x{byte:02x}")).collect();
        Error::new(
            ErrorCode::CharacterNotInRepertoire,
            format!("invalid byte sequence for encoding \"UTF8\": {}", bad.join(" ")),
        )
    };
    match std::str::from_utf8(bytes) {
        Ok(text) if !bytes.contains(&0) => Ok(text),
        Ok(_) => Err(invalid(&[0])),
        Err(error) => {
            let (valid, rest) = bytes.split_at(error.valid_up_to());
            if valid.contains(&0) {
                return Err(invalid(&[0]));
            }
            // PostgreSQL names as many bytes as the first byte announces.
            let announced = match rest[0] {
                0xc0..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf7 => 4,
                _ => 1,
            };
            Err(invalid(&rest[..announced.min(rest.len())]))
        }
    }
}

pub(super) fn parse_scalar(scalar: ScalarType, text: &str, style: &TextStyle) -> Result<Value> {
    match scalar {
        ScalarType::Bool => parse_bool(text).map(Value::Bool),
        ScalarType::Int2 => parse_integer(scalar, text).map(Value::Int2),
        ScalarType::Int4 => parse_integer(scalar, text).map(Value::Int4),
        ScalarType::Int8 => parse_integer(scalar, text).map(Value::Int8),
        ScalarType::Float4 => float::parse_float4(text).map(Value::Float4),
        ScalarType::Float8 => float::parse_float8(text).map(Value::Float8),
        ScalarType::Numeric { precision, scale } => numeric::parse(text, precision, scale).map(Value::Numeric),
        ScalarType::Text => utf8(text.as_bytes()).map(|text| Value::Text(text.into())),
        ScalarType::Varchar { length } => limit(utf8(text.as_bytes())?, length).map(|text| Value::Text(text.into())),
        ScalarType::Char { length } => blank(utf8(text.as_bytes())?, length).map(|text| Value::Text(text.into())),
        ScalarType::Bytea => bytea::parse(text).map(Value::Bytea),
        ScalarType::Date => datetime::parse_date(text).map(Value::Date),
        ScalarType::Time => datetime::parse_time(text).map(Value::Time),
        ScalarType::Timestamp => datetime::parse_timestamp(text).map(Value::Timestamp),
        ScalarType::Timestamptz => datetime::parse_timestamptz(text, style.zone).map(Value::Timestamp),
        ScalarType::Interval => interval::parse(text).map(Value::Interval),
        ScalarType::Uuid => uuid::parse(text).map(Value::Uuid),
        ScalarType::Json => json::check(text).map(|()| Value::Text(text.into())),
        ScalarType::Jsonb => json::normalize(text).map(|text| Value::Text(text.into())),
    }
}

/// The text as a `varchar` of at most `length` characters: what exceeds it may only be spaces, and is cut off.
pub(super) fn limit(text: &str, length: Option<u32>) -> Result<&str> {
    let Some(length) = length else { return Ok(text) };
    let Some((end, _)) = text.char_indices().nth(length as usize) else { return Ok(text) };
    if text[end..].bytes().all(|byte| byte == b' ') {
        return Ok(&text[..end]);
    }
    Err(Error::new(ErrorCode::StringTooLong, format!("value too long for type character varying({length})")))
}

/// The text as a `character(n)` is kept: without blanks at its end.
pub(super) fn blank(text: &str, length: Option<u32>) -> Result<&str> {
    let kept = text.trim_end_matches(' ');
    match length {
        Some(length) if kept.len() > length as usize && kept.chars().count() > length as usize => {
            Err(Error::new(ErrorCode::StringTooLong, format!("value too long for type character({length})")))
        }
        _ => Ok(kept),
    }
}

/// Appends the blanks that a `character(n)` ends with after a text.
pub(super) fn pad(sql_type: SqlType, text: &str, out: &mut Vec<u8>) {
    if let ScalarType::Char { length: Some(length) } = sql_type.scalar() {
        let missing = (length as usize).saturating_sub(text.chars().count());
        out.resize(out.len() + missing, b' ');
    }
}

pub(super) fn invalid_syntax(type_name: &str, text: &str) -> Error {
    Error::new(ErrorCode::InvalidTextRepresentation, format!("invalid input syntax for type {type_name}: \"{text}\""))
}

/// Without the white space that C's `isspace` knows.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches(|char: char| char.is_ascii() && is_space(char as u8))
}

pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

pub(super) fn write_integer(number: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn parse_integer<T: TryFrom<i64>>(scalar: ScalarType, text: &str) -> Result<T> {
    let trimmed = trim(text);
    let (negative, digits) = match trimmed.as_bytes() {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let out_of_range =
        || Error::new(ErrorCode::NumericOutOfRange, format!("value \"{text}\" is out of range for type {scalar}"));
    if digits.is_empty() {
        return Err(invalid_syntax(&scalar.to_string(), text));
    }
    // Summed below zero, where there is room for one more.
    let mut sum: i64 = 0;
    for byte in digits {
        let digit = match byte {
            b'0'..=b'9' => i64::from(byte - b'0'),
            // PostgreSQL notices the range before the rubbish.
            _ if T::try_from(sum).is_err() => return Err(out_of_range()),
            _ => return Err(invalid_syntax(&scalar.to_string(), text)),
        };
        sum = sum.checked_mul(10).and_then(|sum| sum.checked_sub(digit)).ok_or_else(out_of_range)?;
    }
    let number = if negative { sum } else { sum.checked_neg().ok_or_else(out_of_range)? };
    T::try_from(number).map_err(|_| out_of_range())
}

/// `true`, `yes`, `on`, `1` and their opposites, or the beginning of one that no other has.
fn parse_bool(text: &str) -> Result<bool> {
    let word = trim(text);
    let begins = |full: &str, least: usize| {
        word.len() >= least
            && word.len() <= full.len()
            && word.as_bytes().eq_ignore_ascii_case(&full.as_bytes()[..word.len()])
    };
    if begins("true", 1) || begins("yes", 1) || begins("on", 2) || word == "1" {
        Ok(true)
    } else if begins("false", 1) || begins("no", 1) || begins("off", 2) || word == "0" {
        Ok(false)
    } else {
        Err(invalid_syntax("boolean", text))
    }
}

#[cfg(test)]
mod tests;
