//! Intervals as text: PostgreSQL's verbose input and ISO 8601 in, the `postgres` style out. Called by `text`.
//!
//! Months, days and microseconds never carry into each other, except that a fraction of a larger unit becomes
//! smaller ones, with 12 months to a year and 30 days to a month.

use crate::{Error, ErrorCode, Interval, Result};

use super::datetime::{SECOND_MICROS, write_clock};

pub mod arithmetic;
mod iso;
mod parse;

/// Reads an interval.
pub fn parse(text: &str) -> Result<Interval> {
    parse::read(text).map_err(|problem| match problem {
        parse::Problem::Format => {
            Error::new(ErrorCode::InvalidDatetimeFormat, format!("invalid input syntax for type interval: \"{text}\""))
        }
        parse::Problem::Range => {
            Error::new(ErrorCode::IntervalFieldOverflow, format!("interval field value out of range: \"{text}\""))
        }
        parse::Problem::Total => Error::new(ErrorCode::DatetimeOverflow, "interval out of range"),
        parse::Problem::Infinite => Error::unsupported("infinite intervals are not supported"),
    })
}

/// Appends an interval, `1 year 2 mons 3 days 04:05:06.789`.
pub fn write(interval: Interval, out: &mut Vec<u8>) {
    let Interval { months, days, micros } = interval;
    let start = out.len();
    // A part after a negative one shows its plus sign.
    let mut after_negative = false;
    for (number, unit) in [(months / 12, "year"), (months % 12, "mon"), (days, "day")] {
        if number == 0 {
            continue;
        }
        if out.len() > start {
            out.push(b' ');
        }
        if after_negative && number > 0 {
            out.push(b'+');
        }
        out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        out.push(b' ');
        out.extend_from_slice(unit.as_bytes());
        if number != 1 {
            out.push(b's');
        }
        after_negative = number < 0;
    }
    if micros != 0 || out.len() == start {
        if out.len() > start {
            out.push(b' ');
        }
        if micros < 0 {
            out.push(b'-');
        } else if after_negative {
            out.push(b'+');
        }
        let micros = micros.unsigned_abs();
        let second = SECOND_MICROS.unsigned_abs();
        let seconds = micros / second;
        // None of these exceeds an i64 once divided.
        write_clock(
            (seconds / 3600) as i64,
            (seconds / 60 % 60) as i64,
            (seconds % 60) as i64,
            (micros % second) as i64,
            out,
        );
    }
}

#[cfg(test)]
mod tests;
