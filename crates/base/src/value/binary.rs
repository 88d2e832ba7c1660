//! PostgreSQL's binary form of values, both ways: what its send and receive functions exchange.
//!
//! Called by the PostgreSQL door and binary COPY. Never called with NULL, which is a length of -1 outside the value.
//! All numbers are big-endian; dates and timestamps count from 2000-01-01.

use crate::{Datum, Error, ErrorCode, Interval, Items, Result, ScalarType, SqlType, Value};

use super::datetime::{DAY_MICROS, check_date, check_timestamp, days_from_civil};
use super::text::{blank, limit, pad, utf8};
use super::{json, numeric};

/// 2000-01-01, in days since 1970-01-01.
const EPOCH_DAYS: i64 = days_from_civil(2000, 1, 1);
const EPOCH_MICROS: i64 = EPOCH_DAYS * DAY_MICROS;
/// PostgreSQL's number of the type `oid`, whose values are bigints here.
const OID: u32 = 26;
/// That of `oid[]`.
const OIDS: u32 = 1028;
/// `jsonb` is its text after this byte.
const JSONB_VERSION: u8 = 1;
const NUMERIC_NEGATIVE: u16 = 0x4000;
const NUMERIC_NAN: u16 = 0xc000;
const NUMERIC_INFINITY: u16 = 0xd000;
const NUMERIC_NEGATIVE_INFINITY: u16 = 0xf000;

/// Reads a value of this type.
pub fn decode(sql_type: SqlType, bytes: &[u8]) -> Result<Value> {
    match sql_type {
        SqlType::Scalar(scalar) => decode_scalar(scalar, bytes),
        SqlType::Array(element) => decode_array(element, bytes),
    }
}

/// The same without a copy of the bytes, for types whose form they are; `None` for others.
pub fn borrow(sql_type: SqlType, bytes: &[u8]) -> Option<Result<Datum<'_>>> {
    match sql_type {
        SqlType::Scalar(ScalarType::Text) => Some(utf8(bytes).map(Datum::Text)),
        SqlType::Scalar(ScalarType::Bytea) => Some(Ok(Datum::Bytea(bytes))),
        _ => None,
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::InvalidBinaryRepresentation, message)
}

fn incorrect() -> Error {
    invalid("incorrect binary data format")
}

/// All bytes of a value of fixed size.
fn exactly<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| incorrect())
}

/// Takes bytes from the front.
fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk().ok_or_else(incorrect)?;
    *bytes = rest;
    Ok(*first)
}

fn decode_scalar(scalar: ScalarType, bytes: &[u8]) -> Result<Value> {
    Ok(match scalar {
        ScalarType::Bool => Value::Bool(exactly(bytes)? != [0]),
        ScalarType::Int2 => Value::Int2(i16::from_be_bytes(exactly(bytes)?)),
        ScalarType::Int4 => Value::Int4(i32::from_be_bytes(exactly(bytes)?)),
        ScalarType::Int8 => Value::Int8(i64::from_be_bytes(exactly(bytes)?)),
        // There is one NaN: the engine would order others elsewhere, and tell them apart.
        ScalarType::Float4 => match f32::from_be_bytes(exactly(bytes)?) {
            value if value.is_nan() => Value::Float4(f32::NAN),
            value => Value::Float4(value),
        },
        ScalarType::Float8 => match f64::from_be_bytes(exactly(bytes)?) {
            value if value.is_nan() => Value::Float8(f64::NAN),
            value => Value::Float8(value),
        },
        ScalarType::Numeric { precision, scale } => Value::Numeric(decode_numeric(bytes, precision, scale)?),
        ScalarType::Text => Value::Text(utf8(bytes)?.into()),
        ScalarType::Varchar { length } => Value::Text(limit(utf8(bytes)?, length)?.into()),
        ScalarType::Char { length } => Value::Text(blank(utf8(bytes)?, length)?.into()),
        ScalarType::Bytea => Value::Bytea(bytes.into()),
        ScalarType::Date => match i32::from_be_bytes(exactly(bytes)?) {
            i32::MIN | i32::MAX => return Err(Error::unsupported("infinite dates are not supported")),
            days => Value::Date(check_date(i64::from(days) + EPOCH_DAYS, "")?),
        },
        ScalarType::Time => match i64::from_be_bytes(exactly(bytes)?) {
            micros @ 0..=DAY_MICROS => Value::Time(micros),
            _ => return Err(Error::new(ErrorCode::DatetimeOverflow, "time out of range")),
        },
        ScalarType::Timestamp | ScalarType::Timestamptz => match i64::from_be_bytes(exactly(bytes)?) {
            i64::MIN | i64::MAX => return Err(Error::unsupported("infinite timestamps are not supported")),
            micros => Value::Timestamp(check_timestamp(i128::from(micros) + i128::from(EPOCH_MICROS), "")?),
        },
        ScalarType::Interval => {
            let mut rest = bytes;
            let micros = i64::from_be_bytes(take(&mut rest)?);
            let days = i32::from_be_bytes(take(&mut rest)?);
            Value::Interval(Interval { months: i32::from_be_bytes(exactly(rest)?), days, micros })
        }
        ScalarType::Uuid => Value::Uuid(exactly(bytes)?),
        ScalarType::Json => {
            let text = utf8(bytes)?;
            json::check(text)?;
            Value::Text(text.into())
        }
        ScalarType::Jsonb => match bytes.split_first().ok_or_else(incorrect)? {
            (&JSONB_VERSION, text) => Value::Text(json::normalize(utf8(text)?)?.into()),
            (version, _) => return Err(invalid(format!("unsupported jsonb version number {version}"))),
        },
    })
}

/// Count of base-10000 digits, power of 10000 of the first, sign, digits shown after the point, the digits.
fn decode_numeric(bytes: &[u8], precision: u8, scale: u8) -> Result<i128> {
    let mut rest = bytes;
    let count = usize::from(u16::from_be_bytes(take(&mut rest)?));
    let weight = i16::from_be_bytes(take(&mut rest)?);
    let sign = u16::from_be_bytes(take(&mut rest)?);
    let shown = u16::from_be_bytes(take(&mut rest)?);
    match sign {
        0 | NUMERIC_NEGATIVE => {}
        NUMERIC_NAN => return Err(Error::unsupported("numeric NaN is not supported")),
        NUMERIC_INFINITY | NUMERIC_NEGATIVE_INFINITY => return Err(numeric::infinite(precision, scale)),
        _ => return Err(invalid("invalid sign in external \"numeric\" value")),
    }
    if shown > 0x3fff {
        return Err(invalid("invalid scale in external \"numeric\" value"));
    }
    if rest.len() != 2 * count {
        return Err(incorrect());
    }
    let groups = || rest.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    if groups().any(|group| group > 9999) {
        return Err(invalid("invalid digit in external \"numeric\" value"));
    }
    let digits = groups().flat_map(|group| [group / 1000, group / 100 % 10, group / 10 % 10, group % 10]);
    let point = (i64::from(weight) + 1) * 4;
    // Digits beyond those shown are no part of the value.
    let kept = usize::try_from(point + i64::from(shown)).unwrap_or(0);
    numeric::from_digits(sign == NUMERIC_NEGATIVE, digits.take(kept).map(|digit| digit as u8), point, precision, scale)
}

/// Dimensions, whether there are NULLs, the element's OID, then length and lower bound, then the elements.
fn decode_array(element: ScalarType, bytes: &[u8]) -> Result<Value> {
    let mut rest = bytes;
    let mut next = || take(&mut rest).map(i32::from_be_bytes);
    let (dimensions, flags, oid) = (next()?, next()?, next()?.cast_unsigned());
    if !(0..=6).contains(&dimensions) {
        return Err(invalid(format!("invalid number of dimensions: {dimensions}")));
    }
    if flags != 0 && flags != 1 {
        return Err(invalid("invalid array flags"));
    }
    // Object numbers are bigints here, whatever they are announced as.
    let are_oids = oid == OID && element == ScalarType::Int8;
    if oid != element.oid() && !are_oids {
        return Err(Error::new(
            ErrorCode::DatatypeMismatch,
            format!("binary data has array element type {oid} instead of expected {} ({element})", element.oid()),
        ));
    }
    if dimensions > 1 {
        return Err(Error::unsupported("multi-dimensional arrays are not supported"));
    }
    let mut values = Vec::new();
    if dimensions == 1 {
        let (length, lower_bound) = (next()?, next()?);
        if lower_bound != 1 && length != 0 {
            return Err(Error::unsupported("arrays with a lower bound other than 1 are not supported"));
        }
        if length < 0 {
            return Err(incorrect());
        }
        for _ in 0..length {
            let size = i32::from_be_bytes(take(&mut rest)?);
            if size == -1 {
                values.push(Value::Null);
                continue;
            }
            let size = usize::try_from(size).map_err(|_| incorrect())?;
            let (value, after) = rest.split_at_checked(size).ok_or_else(incorrect)?;
            values.push(match are_oids {
                true => Value::Int8(i64::from(u32::from_be_bytes(exactly(value)?))),
                false => decode_scalar(element, value)?,
            });
            rest = after;
        }
    }
    if rest.is_empty() { Ok(Value::Array(values.into())) } else { Err(incorrect()) }
}

/// As [`encode`], for a column that is announced with this OID: bigints that are announced as `oid` have its form.
pub fn encode_announced(oid: u32, sql_type: SqlType, datum: &Datum<'_>, out: &mut Vec<u8>) {
    match (oid, datum) {
        (OID, Datum::Int8(number)) => out.extend_from_slice(&(*number as u32).to_be_bytes()),
        (OIDS, Datum::Array(items)) if sql_type == SqlType::Array(ScalarType::Int8) => encode_oids(items, out),
        _ => encode(sql_type, datum, out),
    }
}

/// An array of object numbers: four bytes each, with `oid` as their type.
fn encode_oids(items: &Items<'_>, out: &mut Vec<u8>) {
    let has_nulls = items.iter().any(|item| item.is_null());
    out.extend_from_slice(&i32::from(!items.is_empty()).to_be_bytes());
    out.extend_from_slice(&i32::from(has_nulls).to_be_bytes());
    out.extend_from_slice(&OID.to_be_bytes());
    if items.is_empty() {
        return;
    }
    out.extend_from_slice(&(items.len() as i32).to_be_bytes());
    out.extend_from_slice(&1i32.to_be_bytes());
    for item in items.iter() {
        match item {
            Datum::Int8(number) => {
                out.extend_from_slice(&4i32.to_be_bytes());
                out.extend_from_slice(&(number as u32).to_be_bytes());
            }
            _ => out.extend_from_slice(&(-1i32).to_be_bytes()),
        }
    }
}

/// Appends the binary form of a datum of this type. The datum is not NULL.
pub fn encode(sql_type: SqlType, datum: &Datum<'_>, out: &mut Vec<u8>) {
    match datum {
        Datum::Null => debug_assert!(false, "NULL has no binary form"),
        Datum::Text(text) => {
            if sql_type.scalar() == ScalarType::Jsonb {
                out.push(JSONB_VERSION);
            }
            out.extend_from_slice(text.as_bytes());
            pad(sql_type, text, out);
        }
        Datum::Bytea(bytes) => out.extend_from_slice(bytes),
        Datum::Int2(number) => out.extend_from_slice(&number.to_be_bytes()),
        Datum::Int4(number) => out.extend_from_slice(&number.to_be_bytes()),
        Datum::Int8(number) => out.extend_from_slice(&number.to_be_bytes()),
        Datum::Bool(truth) => out.push(u8::from(*truth)),
        Datum::Float4(number) => out.extend_from_slice(&number.to_be_bytes()),
        Datum::Float8(number) => out.extend_from_slice(&number.to_be_bytes()),
        Datum::Numeric(unscaled) => match sql_type.scalar() {
            ScalarType::Numeric { scale, .. } => encode_numeric(*unscaled, scale, out),
            other => panic!("a {other} column holds a numeric"),
        },
        Datum::Date(days) => out.extend_from_slice(&days.wrapping_sub(EPOCH_DAYS as i32).to_be_bytes()),
        Datum::Time(micros) => out.extend_from_slice(&micros.to_be_bytes()),
        Datum::Timestamp(micros) => out.extend_from_slice(&micros.wrapping_sub(EPOCH_MICROS).to_be_bytes()),
        Datum::Interval(Interval { months, days, micros }) => {
            out.extend_from_slice(&micros.to_be_bytes());
            out.extend_from_slice(&days.to_be_bytes());
            out.extend_from_slice(&months.to_be_bytes());
        }
        Datum::Uuid(uuid) => out.extend_from_slice(uuid),
        Datum::Array(values) => encode_array(sql_type.scalar(), values, out),
    }
}

fn encode_numeric(unscaled: i128, scale: u8, out: &mut Vec<u8>) {
    // Padded so that the point stands between two groups of four digits: at most 38 + 3 digits and a zero group.
    let padding = (4 - scale % 4) % 4;
    let fraction_groups = i32::from(scale.div_ceil(4));
    let mut groups = [0u16; 12];
    let mut count = 0;
    let magnitude = unscaled.unsigned_abs();
    let shift = 10u128.pow(u32::from(padding));
    // The lowest group takes the padding, so that nothing overflows.
    let lowest = 10_000 / shift;
    let mut rest = magnitude / lowest;
    groups[count] = (magnitude % lowest * shift) as u16;
    count += 1;
    while rest > 0 {
        groups[count] = (rest % 10_000) as u16;
        rest /= 10_000;
        count += 1;
    }
    let digits = &groups[..count];
    let trailing = digits.iter().take_while(|&&group| group == 0).count();
    let leading = digits[trailing..].iter().rev().take_while(|&&group| group == 0).count();
    let digits = &digits[trailing..count - leading];
    let weight = if digits.is_empty() { 0 } else { (count - leading) as i32 - 1 - fraction_groups };
    out.extend_from_slice(&(digits.len() as u16).to_be_bytes());
    out.extend_from_slice(&(weight as i16).to_be_bytes());
    out.extend_from_slice(&(if unscaled < 0 { NUMERIC_NEGATIVE } else { 0 }).to_be_bytes());
    out.extend_from_slice(&u16::from(scale).to_be_bytes());
    for group in digits.iter().rev() {
        out.extend_from_slice(&group.to_be_bytes());
    }
}

fn encode_array(element: ScalarType, items: &Items<'_>, out: &mut Vec<u8>) {
    let has_nulls = matches!(items, Items::Values(values) if values.iter().any(Value::is_null));
    out.extend_from_slice(&i32::from(!items.is_empty()).to_be_bytes());
    out.extend_from_slice(&i32::from(has_nulls).to_be_bytes());
    out.extend_from_slice(&element.oid().to_be_bytes());
    if items.is_empty() {
        return;
    }
    out.extend_from_slice(&(items.len() as i32).to_be_bytes());
    out.extend_from_slice(&1i32.to_be_bytes());
    if let Items::Int4(numbers) = items {
        // Each length and its number at once.
        let pairs = numbers.iter().flat_map(|number| (4_u64 << 32 | u64::from(*number as u32)).to_be_bytes());
        out.extend(pairs);
        return;
    }
    for item in items.iter() {
        let start = out.len();
        // The length is written over this once it is known; of a NULL it stays.
        out.extend_from_slice(&(-1i32).to_be_bytes());
        if !item.is_null() {
            encode(SqlType::Scalar(element), &item, out);
            let length = (out.len() - start - 4) as i32;
            out[start..start + 4].copy_from_slice(&length.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests;
