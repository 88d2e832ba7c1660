//! Reads dates, times and timestamps: tokens in, days and microseconds out. Called by `text`.
//!
//! Accepts what PostgreSQL accepts with `DateStyle = ISO, MDY`, except for what has no fixed meaning or no place in a
//! value: `now` and its like, infinity and years before Christ are refused as unsupported, and Julian days and
//! abbreviations whose offset changed over time are invalid syntax.

use crate::{Error, ErrorCode, Result};

use super::fields::Fields;
use super::plain;
use super::tokens::{Kind, cut};
use super::{DAY_MICROS, SECOND_MICROS, Zone, check_date, check_timestamp, days_from_civil};

/// Why a text is no date or time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// Not of any known form.
    Format,
    /// A field is beyond its range.
    Range,
    /// A month or a day is beyond its range: perhaps the fields are in another order.
    MonthOrDay,
    /// An offset from UTC that no zone has.
    Offset,
    /// A zone that does not exist.
    UnknownZone(String),
    /// A meaning that is not offered.
    Unsupported(&'static str),
}

impl Problem {
    /// The error that PostgreSQL reports.
    fn error(self, type_name: &str, text: &str) -> Error {
        match self {
            Self::Format => Error::new(
                ErrorCode::InvalidDatetimeFormat,
                format!("invalid input syntax for type {type_name}: \"{text}\""),
            ),
            Self::Range => {
                Error::new(ErrorCode::DatetimeOverflow, format!("date/time field value out of range: \"{text}\""))
            }
            Self::MonthOrDay => {
                Self::Range.error(type_name, text).with_hint("Perhaps you need a different \"datestyle\" setting.")
            }
            Self::Offset => Error::new(
                ErrorCode::InvalidTimeZoneDisplacement,
                format!("time zone displacement out of range: \"{text}\""),
            ),
            Self::UnknownZone(name) => {
                Error::new(ErrorCode::InvalidParameterValue, format!("time zone \"{name}\" not recognized"))
            }
            Self::Unsupported(message) => Error::unsupported(message),
        }
    }
}

/// A time of day as it was written: a leap second and 24:00 still stand in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock {
    pub(super) hour: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
    pub(super) micros: i64,
}

impl Clock {
    pub(super) fn micros(self) -> i64 {
        ((self.hour * 60 + self.minute) * 60 + self.second) * SECOND_MICROS + self.micros
    }
}

/// A fraction of a second, with its point, rounded to microseconds as a double is.
pub(in crate::value) fn fraction_micros(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('.')?;
    if digits.is_empty() {
        return Some(0);
    }
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction: f64 = text.parse().ok()?;
    Some((fraction * SECOND_MICROS as f64).round_ties_even() as i64)
}

/// What a text says.
struct Parsed {
    /// Days since 1970-01-01.
    days: Option<i64>,
    clock: Option<Clock>,
    zone: Option<Zone>,
}

fn read(text: &str, time_only: bool) -> Result<Parsed, Problem> {
    let tokens = cut(text, super::fields::is_word).ok_or(Problem::Format)?;
    if tokens.is_empty() {
        return Err(Problem::Format);
    }
    // A time may have a date before it, if that is written with separators.
    let dated = tokens.len() > 1
        && tokens[0].kind == Kind::Date
        && (tokens[1].kind == Kind::Time || tokens[tokens.len() - 1].kind == Kind::Date);
    let mut fields = Fields::new(time_only && !dated);
    for (index, token) in tokens.iter().enumerate() {
        fields.add(*token, tokens.get(index + 1).map(|next| next.kind))?;
    }
    let days = fields.date()?.map(|(year, month, day)| days_from_civil(year, month, day));
    Ok(Parsed { days, clock: fields.clock()?, zone: fields.zone() })
}

/// Reads a `date`: days since 1970. A time and a zone beside it are ignored.
pub fn parse_date(text: &str) -> Result<i32> {
    if let Some(days) = plain::date(text.as_bytes()) {
        return Ok(days);
    }
    let error = |problem: Problem| problem.error("date", text);
    let parsed = read(text, false).map_err(error)?;
    check_date(parsed.days.ok_or_else(|| error(Problem::Format))?, &format!(": \"{text}\""))
}

/// Reads a `time`: microseconds since midnight. A date and a zone beside it are ignored.
pub fn parse_time(text: &str) -> Result<i64> {
    let error = |problem: Problem| problem.error("time", text);
    let parsed = read(text, true).map_err(error)?;
    let clock = parsed.clock.ok_or_else(|| error(Problem::Format))?;
    match parsed.zone {
        // Its offset depends on the date.
        Some(Zone::Named(zone)) if parsed.days.is_none() && !zone.name().starts_with("Etc/") => {
            return Err(error(Problem::Format));
        }
        _ => {}
    }
    Ok(clock.micros())
}

/// Reads a `timestamp`: microseconds since 1970. A zone beside it is ignored.
pub fn parse_timestamp(text: &str) -> Result<i64> {
    if let Some(micros) = plain::timestamp(text.as_bytes()) {
        return Ok(micros);
    }
    let (micros, _) = read_timestamp("timestamp", text)?;
    check_timestamp(micros, &format!(": \"{text}\""))
}

/// Reads a `timestamptz`: microseconds since 1970 UTC. Without a zone of its own it is on the session's clock.
pub fn parse_timestamptz(text: &str, session: Zone) -> Result<i64> {
    let (local, zone) = read_timestamp("timestamp with time zone", text)?;
    let shown = format!(": \"{text}\"");
    let zone = zone.unwrap_or(session);
    let offset = zone.offset_at_local(i64::try_from(local).unwrap_or(i64::MAX));
    check_timestamp(local - i128::from(offset) * i128::from(SECOND_MICROS), &shown)
}

fn read_timestamp(type_name: &str, text: &str) -> Result<(i128, Option<Zone>)> {
    let error = |problem: Problem| problem.error(type_name, text);
    let parsed = read(text, false).map_err(error)?;
    let days = parsed.days.ok_or_else(|| error(Problem::Format))?;
    let clock = parsed.clock.unwrap_or_default();
    Ok((i128::from(days) * i128::from(DAY_MICROS) + i128::from(clock.micros()), parsed.zone))
}
