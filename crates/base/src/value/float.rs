//! `real` and `double precision` as text: the shortest digits that read back as the same number.
//!
//! Called by `text` and by the key path. PostgreSQL's digits differ from Rust's in one respect: a decimal exactly
//! half way between two floats is not accepted as the text of either, whatever the reader's rounding rule.

use std::fmt::{LowerExp, Write as _};

use crate::{Error, ErrorCode, Result};

use super::text::{invalid_syntax, trim};

/// Reads a `double precision`.
pub(super) fn parse_float8(text: &str) -> Result<f64> {
    let trimmed = trim(text);
    let value: f64 = trimmed.parse().map_err(|_| invalid_syntax("double precision", text))?;
    if lost(trimmed, value.is_infinite(), value == 0.0) {
        return Err(out_of_range(trimmed, "double precision"));
    }
    Ok(value)
}

/// Reads a `real`.
pub(super) fn parse_float4(text: &str) -> Result<f32> {
    let trimmed = trim(text);
    let value: f32 = trimmed.parse().map_err(|_| invalid_syntax("real", text))?;
    if lost(trimmed, value.is_infinite(), value == 0.0) {
        return Err(out_of_range(text, "real"));
    }
    Ok(value)
}

/// Whether a number became infinite or zero that was not written so.
fn lost(text: &str, infinite: bool, zero: bool) -> bool {
    let mut mantissa = text.bytes().take_while(|byte| !matches!(byte, b'e' | b'E'));
    (infinite && text.bytes().any(|byte| byte.is_ascii_digit()))
        || (zero && mantissa.any(|byte| matches!(byte, b'1'..=b'9')))
}

fn out_of_range(text: &str, name: &str) -> Error {
    Error::new(ErrorCode::NumericOutOfRange, format!("\"{text}\" is out of range for type {name}"))
}

/// Appends the text of a `double precision`.
pub(super) fn write_float8(value: f64, out: &mut Vec<u8>) {
    if !value.is_finite() || value == 0.0 {
        return write_special(value, out);
    }
    let bits = value.abs().to_bits();
    let float = Float::new(bits & ((1 << 52) - 1), (bits >> 52) as i32, 52, 1075);
    let reads_back = |text: &str| text.parse() == Ok(value.abs());
    write(value < 0.0, float.decimal(&value.abs(), reads_back), 15, out);
}

/// Appends the text of a `real`.
pub(super) fn write_float4(value: f32, out: &mut Vec<u8>) {
    if !value.is_finite() || value == 0.0 {
        return write_special(f64::from(value), out);
    }
    let bits = value.abs().to_bits();
    let float = Float::new(u64::from(bits & ((1 << 23) - 1)), (bits >> 23) as i32, 23, 150);
    let reads_back = |text: &str| text.parse() == Ok(value.abs());
    write(value < 0.0, float.decimal(&value.abs(), reads_back), 6, out);
}

fn write_special(value: f64, out: &mut Vec<u8>) {
    out.extend_from_slice(match (value.is_nan(), value.is_infinite(), value.is_sign_negative()) {
        (true, ..) => b"NaN",
        (_, true, false) => b"Infinity",
        (_, true, true) => b"-Infinity",
        (_, _, false) => b"0",
        (_, _, true) => b"-0",
    });
}

/// `mantissa * 2^exponent`, and whether the float below is nearer than the one above.
struct Float {
    mantissa: u64,
    exponent: i32,
    lowest_of_binade: bool,
}

impl Float {
    fn new(fraction: u64, exponent: i32, fraction_bits: u32, bias: i32) -> Self {
        if exponent == 0 {
            return Self { mantissa: fraction, exponent: 1 - bias, lowest_of_binade: false };
        }
        let mantissa = fraction | 1 << fraction_bits;
        Self { mantissa, exponent: exponent - bias, lowest_of_binade: fraction == 0 && exponent > 1 }
    }

    /// The shortest decimal that only this float is nearest to; of those the nearest, and of two the even one.
    fn decimal(&self, value: &impl LowerExp, reads_back: impl Fn(&str) -> bool) -> Decimal {
        let mut text = Text::default();
        text.set(format_args!("{value:e}"));
        let shortest = Decimal::parse(text.as_str());
        if self.is_half_way(shortest) {
            // Take more digits, until the text says which of the neighbours is meant.
            for places in shortest.number.ilog10() as usize..17 {
                text.set(format_args!("{value:.places$e}"));
                let longer = Decimal::parse(text.as_str());
                if reads_back(text.as_str()) && !self.is_half_way(longer) {
                    return longer;
                }
            }
        }
        if shortest.number % 2 == 1 {
            // The even neighbour is as near if the float is half way to it.
            for (number, middle) in
                [(shortest.number - 1, shortest.number * 10 - 5), (shortest.number + 1, shortest.number * 10 + 5)]
            {
                let even = Decimal { number, power: shortest.power };
                text.set(format_args!("{}e{}", even.number, even.power));
                if decimal_equals(middle, shortest.power - 1, self.mantissa, self.exponent)
                    && reads_back(text.as_str())
                    && !self.is_half_way(even)
                {
                    return even;
                }
            }
        }
        shortest
    }

    /// Whether a decimal is exactly half way to a neighbour.
    fn is_half_way(&self, decimal: Decimal) -> bool {
        let Decimal { number, power } = decimal;
        let (below, below_exponent) = if self.lowest_of_binade {
            (4 * self.mantissa - 1, self.exponent - 2)
        } else {
            (2 * self.mantissa - 1, self.exponent - 1)
        };
        decimal_equals(number, power, 2 * self.mantissa + 1, self.exponent - 1)
            || decimal_equals(number, power, below, below_exponent)
    }
}

/// Whether `decimal * 10^power == binary * 2^exponent`, all of them positive.
fn decimal_equals(decimal: u64, power: i32, binary: u64, exponent: i32) -> bool {
    // Numbers of 18 digits and 55 bits have no factor 5^28, the first one too large here.
    let Some(fives) = 5u64.checked_pow(power.unsigned_abs()) else { return false };
    let (mut left, mut right) = (u128::from(decimal), u128::from(binary));
    if power >= 0 {
        left *= u128::from(fives);
    } else {
        right *= u128::from(fives);
    }
    let twos_left = left.trailing_zeros() as i32 + power;
    let twos_right = right.trailing_zeros() as i32 + exponent;
    twos_left == twos_right && left >> left.trailing_zeros() == right >> right.trailing_zeros()
}

/// `number * 10^power`, of at most 17 digits.
#[derive(Clone, Copy)]
struct Decimal {
    number: u64,
    power: i32,
}

impl Decimal {
    /// Reads scientific notation as Rust writes it, `d.ddde-xx`.
    fn parse(text: &str) -> Self {
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let digits = || mantissa.bytes().filter(u8::is_ascii_digit);
        let mut number = digits().fold(0, |number: u64, digit| number * 10 + u64::from(digit - b'0'));
        let mut power = exponent.parse().unwrap_or(0) + 1 - digits().count() as i32;
        while number != 0 && number.is_multiple_of(10) {
            number /= 10;
            power += 1;
        }
        Self { number, power }
    }
}

/// A short text on the stack.
#[derive(Default)]
struct Text {
    bytes: [u8; 32],
    length: usize,
}

impl Text {
    fn set(&mut self, text: std::fmt::Arguments<'_>) {
        self.length = 0;
        // Seventeen digits, a point and `e-324` always fit.
        let written = self.write_fmt(text);
        debug_assert!(written.is_ok());
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

impl std::fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.length + text.len();
        let room = self.bytes.get_mut(self.length..end).ok_or(std::fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// Lays out the digits: plainly from 0.0001 to below 10^`plain_digits`, else with an exponent of two digits or more.
fn write(negative: bool, decimal: Decimal, plain_digits: i32, out: &mut Vec<u8>) {
    if negative {
        out.push(b'-');
    }
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(decimal.number).as_bytes();
    // The power of ten of the first digit.
    let exponent = decimal.power + digits.len() as i32 - 1;
    let split = |out: &mut Vec<u8>, at: usize| {
        let (integer, fraction) = digits.split_at(at.min(digits.len()));
        out.extend_from_slice(integer);
        out.extend(std::iter::repeat_n(b'0', at - integer.len()));
        if !fraction.is_empty() {
            out.push(b'.');
            out.extend_from_slice(fraction);
        }
    };
    if exponent < -4 || exponent >= plain_digits {
        split(out, 1);
        out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
        let exponent = exponent.unsigned_abs();
        if exponent < 10 {
            out.push(b'0');
        }
        out.extend_from_slice(itoa::Buffer::new().format(exponent).as_bytes());
    } else if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', (-exponent - 1) as usize));
        out.extend_from_slice(digits);
    } else {
        split(out, exponent as usize + 1);
    }
}

#[cfg(test)]
mod tests;
