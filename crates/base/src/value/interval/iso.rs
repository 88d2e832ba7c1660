//! Reads ISO 8601 durations: `P1Y2M3DT4H5M6S` and `P0001-02-03T04:05:06`. Called by `interval::parse`.
//!
//! As PostgreSQL, more than the standard: fractions and signs on every number.

use crate::Interval;

use super::parse::{Problem, Sum, Unit};

/// Beyond this a double has no fraction left.
const NUMBER_MAX: f64 = 1e15;

/// Reads a duration, with its `P`.
pub(super) fn read(text: &str) -> Result<Interval, Problem> {
    let rest = text.strip_prefix('P').filter(|rest| !rest.is_empty()).ok_or(Problem::Format)?;
    let (date, time) = match rest.split_once('T') {
        Some((date, time)) => (date, time),
        None => (rest, ""),
    };
    let mut sum = Sum::default();
    read_date(date, &mut sum)?;
    read_time(time, &mut sum)?;
    sum.finish(false)
}

fn read_date(text: &str, sum: &mut Sum) -> Result<(), Problem> {
    let mut rest = text;
    let mut first = true;
    while !rest.is_empty() {
        let number = Number::take(&mut rest)?;
        let unit = match take(&mut rest) {
            Some('Y') => Unit::Year(1),
            Some('M') => Unit::Month,
            Some('W') => Unit::Day(7),
            Some('D') => Unit::Day(1),
            None if first && number.digits == 8 => {
                sum.add(Unit::Year(1), number.whole / 10_000, 0.0)?;
                sum.add(Unit::Month, number.whole / 100 % 100, 0.0)?;
                return sum.add(Unit::Day(1), number.whole % 100, number.fraction);
            }
            end @ (None | Some('-')) if first => {
                sum.add(Unit::Year(1), number.whole, number.fraction)?;
                return if end.is_none() { Ok(()) } else { read_parts(rest, '-', &[Unit::Month, Unit::Day(1)], sum) };
            }
            _ => return Err(Problem::Format),
        };
        sum.add(unit, number.whole, number.fraction)?;
        first = false;
    }
    Ok(())
}

fn read_time(text: &str, sum: &mut Sum) -> Result<(), Problem> {
    let mut rest = text;
    let mut first = true;
    while !rest.is_empty() {
        let number = Number::take(&mut rest)?;
        let unit = match take(&mut rest) {
            Some('H') => Unit::HOUR,
            Some('M') => Unit::MINUTE,
            Some('S') => Unit::SECOND,
            None if first && number.digits == 6 => {
                sum.add(Unit::HOUR, number.whole / 10_000, 0.0)?;
                sum.add(Unit::MINUTE, number.whole / 100 % 100, 0.0)?;
                return sum.add(Unit::SECOND, number.whole % 100, number.fraction);
            }
            end @ (None | Some(':')) if first => {
                sum.add(Unit::HOUR, number.whole, number.fraction)?;
                return if end.is_none() { Ok(()) } else { read_parts(rest, ':', &[Unit::MINUTE, Unit::SECOND], sum) };
            }
            _ => return Err(Problem::Format),
        };
        sum.add(unit, number.whole, number.fraction)?;
        first = false;
    }
    Ok(())
}

/// What follows the first separator of the alternative form; it may end after each part.
fn read_parts(text: &str, separator: char, units: &[Unit], sum: &mut Sum) -> Result<(), Problem> {
    let mut rest = text;
    for (index, unit) in units.iter().enumerate() {
        let number = Number::take(&mut rest)?;
        sum.add(*unit, number.whole, number.fraction)?;
        match take(&mut rest) {
            None => return Ok(()),
            Some(char) if char == separator && index + 1 < units.len() => {}
            Some(_) => return Err(Problem::Format),
        }
    }
    Err(Problem::Format)
}

fn take(rest: &mut &str) -> Option<char> {
    let mut chars = rest.chars();
    let char = chars.next();
    *rest = chars.as_str();
    char
}

struct Number {
    whole: i64,
    /// Of the same sign.
    fraction: f64,
    /// Digits before the point.
    digits: usize,
}

impl Number {
    /// Takes `-n.f` from the front.
    fn take(rest: &mut &str) -> Result<Self, Problem> {
        let (negative, unsigned) = match rest.strip_prefix('-') {
            Some(unsigned) => (true, unsigned),
            None => (false, *rest),
        };
        let count = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let digits = count(unsigned);
        let length = match unsigned[digits..].strip_prefix('.') {
            Some(fraction) => digits + 1 + count(fraction),
            None => digits,
        };
        if length == 0 || &unsigned[..length] == "." {
            return Err(Problem::Format);
        }
        // Cut apart as a double, as PostgreSQL does: the fraction of 14.2 is a little less than 0.2.
        let value: f64 = unsigned[..length].parse().map_err(|_| Problem::Format)?;
        if value > NUMBER_MAX {
            return Err(Problem::Range);
        }
        let (whole, fraction) = (value.trunc() as i64, value.fract());
        *rest = &unsigned[length..];
        Ok(if negative {
            Self { whole: -whole, fraction: -fraction, digits }
        } else {
            Self { whole, fraction, digits }
        })
    }
}
