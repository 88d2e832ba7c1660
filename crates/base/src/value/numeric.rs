//! `numeric(p,s)` as an unscaled 128-bit integer: text and base-10000 digits in, text out, changes of scale.
//!
//! Called by `text`, `binary` and `coerce`. Rounds half away from zero, as PostgreSQL does, and never keeps a value
//! that its precision cannot hold. NaN has no unscaled form and is refused.

use crate::{Error, ErrorCode, Result};

use super::text::{invalid_syntax, trim};

pub mod format;

/// Decimal digits before the point of PostgreSQL's largest `numeric`.
const INTEGER_DIGITS_MAX: i64 = 131_072;
/// And after it, zeros included.
const FRACTION_DIGITS_MAX: i64 = 16_383;

/// Reads the text of a `numeric` into one of this precision and scale.
pub fn parse(text: &str, precision: u8, scale: u8) -> Result<i128> {
    let invalid = || invalid_syntax("numeric", text);
    let trimmed = trim(text);
    let (negative, unsigned) = match trimmed.as_bytes().first() {
        Some(b'-') => (true, &trimmed[1..]),
        Some(b'+') => (false, &trimmed[1..]),
        _ => (false, trimmed),
    };
    if trimmed.eq_ignore_ascii_case("nan") {
        return Err(Error::unsupported("numeric NaN is not supported"));
    }
    if unsigned.eq_ignore_ascii_case("inf") || unsigned.eq_ignore_ascii_case("infinity") {
        return Err(infinite(precision, scale));
    }
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], parse_exponent(&unsigned[at + 1..]).ok_or_else(invalid)?),
        None => (unsigned, 0),
    };
    let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = || integer.bytes().chain(fraction.bytes());
    if integer.len() + fraction.len() == 0 || !digits().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid());
    }
    if fraction.len() as i64 - exponent > FRACTION_DIGITS_MAX {
        return Err(overflows_format());
    }
    let point = integer.len() as i64 + exponent;
    from_digits(negative, digits().map(|byte| byte - b'0'), point, precision, scale)
}

/// The exponent after the `e`; one too large for anything is cut to a value that is still too large.
fn parse_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let magnitude =
        digits.bytes().fold(0i64, |sum, byte| sum.saturating_mul(10).saturating_add(i64::from(byte - b'0')));
    let magnitude = magnitude.min(i64::from(i32::MAX));
    Some(if text.starts_with('-') { -magnitude } else { magnitude })
}

/// Puts decimal digits together; the first `point` of them stand before the decimal point.
pub(super) fn from_digits(
    negative: bool,
    digits: impl Iterator<Item = u8>,
    point: i64,
    precision: u8,
    scale: u8,
) -> Result<i128> {
    // `place` is the power of ten of the next digit.
    let mut place = point - 1;
    let mut value: u128 = 0;
    let mut round_up = false;
    for digit in digits {
        if value == 0 && digit != 0 && place >= INTEGER_DIGITS_MAX {
            return Err(overflows_format());
        }
        if place < -i64::from(scale) {
            round_up = place == -i64::from(scale) - 1 && digit >= 5;
            break;
        }
        value = append_digit(value, digit).ok_or_else(|| overflow(precision, scale))?;
        place -= 1;
    }
    // Places that the digits did not reach.
    while value != 0 && place >= -i64::from(scale) {
        value = append_digit(value, 0).ok_or_else(|| overflow(precision, scale))?;
        place -= 1;
    }
    let value = (value + u128::from(round_up)) as i128;
    fit(if negative { -value } else { value }, precision, scale)
}

/// `None` for more than 38 digits, which no precision holds.
fn append_digit(value: u128, digit: u8) -> Option<u128> {
    (value < 10u128.pow(37)).then(|| value * 10 + u128::from(digit))
}

/// An unscaled value as it is, or 22003 if it has more than `precision` digits.
pub fn fit(value: i128, precision: u8, scale: u8) -> Result<i128> {
    if value.unsigned_abs() < 10u128.pow(u32::from(precision)) { Ok(value) } else { Err(overflow(precision, scale)) }
}

fn overflow(precision: u8, scale: u8) -> Error {
    let limit = match precision.saturating_sub(scale) {
        0 => "1".to_owned(),
        digits => format!("10^{digits}"),
    };
    Error::new(ErrorCode::NumericOutOfRange, "numeric field overflow").with_detail(format!(
        "A field with precision {precision}, scale {scale} must round to an absolute value less than {limit}."
    ))
}

fn overflows_format() -> Error {
    Error::new(ErrorCode::NumericOutOfRange, "value overflows numeric format")
}

/// Infinity does not fit any precision.
pub(super) fn infinite(precision: u8, scale: u8) -> Error {
    Error::new(ErrorCode::NumericOutOfRange, "numeric field overflow")
        .with_detail(format!("A field with precision {precision}, scale {scale} cannot hold an infinite value."))
}

/// Changes the scale of an unscaled value, rounding half away from zero.
pub fn rescale(value: i128, from_scale: u8, precision: u8, scale: u8) -> Result<i128> {
    let rescaled = if scale >= from_scale {
        value.checked_mul(10i128.pow(u32::from(scale - from_scale))).ok_or_else(|| overflow(precision, scale))?
    } else {
        round_div(value, from_scale - scale)
    };
    fit(rescaled, precision, scale)
}

/// The integer nearest to an unscaled value of this scale.
pub(super) fn round_to_integer(value: i128, scale: u8) -> i128 {
    round_div(value, scale)
}

fn round_div(value: i128, digits: u8) -> i128 {
    let divisor = 10i128.pow(u32::from(digits));
    let (quotient, remainder) = (value / divisor, value % divisor);
    if remainder.unsigned_abs() * 2 >= divisor.unsigned_abs() { quotient + value.signum() } else { quotient }
}

/// Appends the text of an unscaled value.
pub fn write(value: i128, scale: u8, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(value.unsigned_abs()).as_bytes();
    let scale = usize::from(scale);
    if scale == 0 {
        return out.extend_from_slice(digits);
    }
    if digits.len() > scale {
        let (integer, fraction) = digits.split_at(digits.len() - scale);
        out.extend_from_slice(integer);
        out.push(b'.');
        out.extend_from_slice(fraction);
    } else {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', scale - digits.len()));
        out.extend_from_slice(digits);
    }
}

#[cfg(test)]
mod tests;
