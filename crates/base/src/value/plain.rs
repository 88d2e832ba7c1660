//! The short way for the one form that nearly all numbers in the data of a COPY have: digits, with a minus before them or a point
//! among them at most; and for texts of ASCII. Eight bytes are looked at in a step.
//!
//! Called by COPY before `text::parse`, and by the columns that it fills. Says nothing about any other text, and never reads one in another way than `parse` does: there
//! is no white space, no plus and no exponent, and there are no more digits than a number of its type holds exactly.

use crate::{Datum, ScalarType, SqlType};

/// Digits of an integer: whatever they are, they are below 2^63.
const DIGITS_MAX: usize = 18;

/// Digits of a double: whatever they are, they are below 2^53, so that the number without its point is exact.
const DOUBLE_DIGITS_MAX: usize = 15;

/// Powers of ten, by their exponents. As a double each is exact (all up to 10^22 are), and the quotient of two exact numbers is the double
/// nearest to what was written. (Clinger, "How to read floating point numbers accurately", PLDI 1990.)
const POWERS: [i64; DOUBLE_DIGITS_MAX + 1] = powers();

const fn powers() -> [i64; DOUBLE_DIGITS_MAX + 1] {
    let mut powers = [1; DOUBLE_DIGITS_MAX + 1];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
}

/// A one in each byte.
const ONES: u64 = u64::MAX / 255;
/// The top bit of each byte.
const TOPS: u64 = ONES * 0x80;
/// The digit zero in each byte.
const ZEROS: u64 = ONES * b'0' as u64;

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
#[inline]
fn sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    }
}

/// The integer that a text is: digits, and a minus before them or none. `None`: it is another text, or there are too many.
#[inline]
pub fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = sign(text);
    if digits.is_empty() || digits.len() > DIGITS_MAX {
        return None;
    }
    let number = whole(digits)?;
    Some(if negative { -number } else { number })
}

/// The double that a text is: like [`integer`], with a point among the digits or none.
#[inline]
pub fn double(text: &[u8]) -> Option<f64> {
    let (negative, digits) = sign(text);
    let point = digits.iter().position(|byte| *byte == b'.');
    let (before, behind) = match point {
        Some(at) => (&digits[..at], &digits[at + 1..]),
        None => (digits, &[][..]),
    };
    let count = before.len() + behind.len();
    if count == 0 || count > DOUBLE_DIGITS_MAX {
        return None;
    }
    let power = POWERS[behind.len()];
    let value = (whole(before)? * power + whole(behind)?) as f64 / power as f64;
    Some(if negative { -value } else { value })
}

/// Whether bytes are text that needs no closer look: ASCII without NUL.
#[inline]
pub fn is_ascii_text(bytes: &[u8]) -> bool {
    // No byte of the others carries into the next one when it is added to.
    let is_plain = |word: u64| (word | !((word & !TOPS) + (ONES * 0x7f))) & TOPS == 0;
    let (words, rest) = bytes.as_chunks::<8>();
    let Some(last) = bytes.last_chunk::<8>() else {
        return rest.iter().all(|byte| (1..0x80).contains(byte));
    };
    is_plain(u64::from_le_bytes(*last)) && words.iter().all(|word| is_plain(u64::from_le_bytes(*word)))
}

/// The number that at most 18 digits are; of none, 0. `None`: there is something else among them.
#[inline]
fn whole(digits: &[u8]) -> Option<i64> {
    let (steps, rest) = digits.as_chunks::<8>();
    let mut sum = 0;
    for step in steps {
        sum = sum * POWERS[8] + eight(u64::from_le_bytes(*step))?;
    }
    if let (Some(first), Some(last)) = (rest.first_chunk::<4>(), rest.last_chunk::<4>()) {
        // From four to seven, behind as many zeros as make eight of them. What both halves have is the same in both.
        let before = 8 * (8 - rest.len());
        let half = |bytes: &[u8; 4]| u64::from(u32::from_le_bytes(*bytes));
        let word = half(last) << 32 | half(first) << before | (ZEROS & ((1 << before) - 1));
        return Some(sum * POWERS[rest.len()] + eight(word)?);
    }
    for byte in rest {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        sum = sum * 10 + i64::from(digit);
    }
    Some(sum)
}

/// The number that eight digits are, the first of them in the lowest byte: they are put together by twos, by fours, and all.
#[inline]
fn eight(word: u64) -> Option<i64> {
    let digits = word ^ ZEROS;
    // Above nine the sum has the top bit; what has it by itself counts too, and then it does not matter what it carries.
    if digits.wrapping_add(ONES * (0x80 - 10)) & TOPS | digits & TOPS != 0 {
        return None;
    }
    let twos = (digits * 10 + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (twos * 100 + (twos >> 16)) & 0x0000_ffff_0000_ffff;
    let all = (fours * 10_000 + (fours >> 32)) & 0xffff_ffff;
    Some(all.cast_signed())
}

#[cfg(test)]
mod tests;
