//! The short way for the one form that nearly all numbers in the data of a COPY have: digits, with a minus before them or a point
//! among them at most.
//!
//! Called by COPY before `text::parse`. Says nothing about any other text, and never reads one in another way than `parse` does: there
//! is no white space, no plus and no exponent, and there are no more digits than a number of its type holds exactly.

use crate::{Datum, ScalarType, SqlType};

/// Digits of an integer: whatever they are, they are below 2^63.
const DIGITS_MAX: usize = 18;

/// Digits of a double: whatever they are, they are below 2^53, so that the number without its point is exact.
const DOUBLE_DIGITS_MAX: usize = 15;

/// By the digits behind the point. Each is exact (all up to 10^22 are), and the quotient of two exact numbers is the double nearest to
/// what was written. (Clinger, "How to read floating point numbers accurately", PLDI 1990.)
const POWERS: [f64; DOUBLE_DIGITS_MAX + 1] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// The number that a text is, as a column of this type has it. `None`: [`text::parse`](super::text::parse) knows what it is.
pub fn number(sql_type: SqlType, text: &[u8]) -> Option<Datum<'static>> {
    match sql_type {
        SqlType::Scalar(ScalarType::Int8) => integer(text).map(Datum::Int8),
        SqlType::Scalar(ScalarType::Int4) => i32::try_from(integer(text)?).ok().map(Datum::Int4),
        SqlType::Scalar(ScalarType::Int2) => i16::try_from(integer(text)?).ok().map(Datum::Int2),
        SqlType::Scalar(ScalarType::Float8) => double(text).map(Datum::Float8),
        _ => None,
    }
}

/// Whether there is a minus, and what is behind it.
fn sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    }
}

fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = sign(text);
    if digits.is_empty() || digits.len() > DIGITS_MAX {
        return None;
    }
    let mut sum = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        sum = sum * 10 + i64::from(digit);
    }
    Some(if negative { -sum } else { sum })
}

fn double(text: &[u8]) -> Option<f64> {
    let (negative, rest) = sign(text);
    // One more for the point.
    if rest.len() > DOUBLE_DIGITS_MAX + 1 {
        return None;
    }
    let (mut sum, mut digits, mut point) = (0i64, 0, None);
    for (at, byte) in rest.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                sum = sum * 10 + i64::from(byte - b'0');
                digits += 1;
            }
            b'.' if point.is_none() => point = Some(at),
            _ => return None,
        }
    }
    if digits == 0 || digits > DOUBLE_DIGITS_MAX {
        return None;
    }
    let behind = point.map_or(0, |at| rest.len() - at - 1);
    let value = sum as f64 / POWERS[behind];
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests;
