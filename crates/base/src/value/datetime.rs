//! Dates and times: the calendar, the limits, and the ISO text that PostgreSQL writes.
//!
//! Called by `text`, `binary` and `coerce`; reading text is `datetime::parse`. Never produces a date outside the years
//! 1 to 262142: PostgreSQL's range is wider, but the query engine computes correctly with these only.

use crate::{Error, ErrorCode, Result};

use super::zone::Zone;

pub mod arithmetic;
mod fields;
pub mod format;
pub mod from_format;
mod parse;
pub mod parts;
mod plain;
pub(super) mod tokens;

pub(super) use parse::fraction_micros;
pub use parse::{parse_date, parse_time, parse_timestamp, parse_timestamptz};

/// Microseconds of a second.
pub(super) const SECOND_MICROS: i64 = 1_000_000;
/// Microseconds of a day.
pub(super) const DAY_MICROS: i64 = 86_400 * SECOND_MICROS;

/// 0001-01-01, in days since 1970-01-01.
const DATE_MIN: i64 = days_from_civil(1, 1, 1);
/// 262142-12-31, the last year that `chrono` knows.
const DATE_MAX: i64 = days_from_civil(262_142, 12, 31);
/// 4714-11-24 BC, where PostgreSQL's own range begins.
const POSTGRES_DATE_MIN: i64 = days_from_civil(-4713, 11, 24);
/// 5874897-12-31, where PostgreSQL's dates end.
const POSTGRES_DATE_MAX: i64 = days_from_civil(5_874_897, 12, 31);
/// 294276-12-31, where PostgreSQL's timestamps end.
const POSTGRES_TIMESTAMP_MAX: i64 = days_from_civil(294_276, 12, 31);

/// Days since 1970-01-01 of a date in the proleptic Gregorian calendar; year 0 is 1 BC.
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
pub(super) const fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    // The year begins in March, so that the leap day is its last.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Year, month and day of days since 1970-01-01; the inverse of [`days_from_civil`].
pub(super) const fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let year = year_of_era + era * 400;
    if month < 10 { (year, month + 3, day) } else { (year + 1, month - 9, day) }
}

/// Days of a month.
pub(super) const fn days_of_month(year: i64, month: i64) -> i64 {
    let (next_year, next_month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    days_from_civil(next_year, next_month, 1) - days_from_civil(year, month, 1)
}

/// Checks days since 1970 and narrows them; `shown` is what an error quotes, with its leading `: `.
pub(super) fn check_date(days: i64, shown: &str) -> Result<i32> {
    if !(POSTGRES_DATE_MIN..=POSTGRES_DATE_MAX).contains(&days) {
        return Err(Error::new(ErrorCode::DatetimeOverflow, format!("date out of range{shown}")));
    }
    within_years(days, "dates")?;
    Ok(days as i32)
}

/// Checks microseconds since 1970.
pub(super) fn check_timestamp(micros: i128, shown: &str) -> Result<i64> {
    let days = i64::try_from(micros.div_euclid(i128::from(DAY_MICROS))).unwrap_or(i64::MAX);
    if !(POSTGRES_DATE_MIN..=POSTGRES_TIMESTAMP_MAX).contains(&days) {
        return Err(Error::new(ErrorCode::DatetimeOverflow, format!("timestamp out of range{shown}")));
    }
    within_years(days, "timestamps")?;
    i64::try_from(micros).map_err(|_| Error::internal("timestamp within its limits is too large"))
}

fn within_years(days: i64, what: &str) -> Result<()> {
    if days < DATE_MIN {
        Err(Error::unsupported(format!("{what} before the year 1 are not supported")))
    } else if days > DATE_MAX {
        Err(Error::unsupported(format!("{what} after the year 262142 are not supported")))
    } else {
        Ok(())
    }
}

/// Appends a date, `2020-01-31`.
pub(super) fn write_date(days: i32, out: &mut Vec<u8>) {
    if write_civil(i64::from(days), out) {
        out.extend_from_slice(b" BC");
    }
}

/// Appends a time of day, `04:05:06.789`.
pub(super) fn write_time(micros: i64, out: &mut Vec<u8>) {
    let seconds = micros / SECOND_MICROS;
    write_clock(seconds / 3600, seconds / 60 % 60, seconds % 60, micros % SECOND_MICROS, out);
}

/// Appends a timestamp, `2020-01-31 04:05:06.789`.
pub(super) fn write_timestamp(micros: i64, out: &mut Vec<u8>) {
    if write_date_and_time(micros, out) {
        out.extend_from_slice(b" BC");
    }
}

/// Appends an instant on the zone's clock with its offset, `2020-01-31 04:05:06.789+01`.
pub(super) fn write_timestamptz(micros: i64, zone: Zone, out: &mut Vec<u8>) {
    let offset = zone.offset_at(micros);
    let before_christ = write_date_and_time(micros.saturating_add(i64::from(offset) * SECOND_MICROS), out);
    out.push(if offset < 0 { b'-' } else { b'+' });
    let offset = i64::from(offset).abs();
    write_two(offset / 3600, out);
    if offset % 3600 != 0 {
        out.push(b':');
        write_two(offset / 60 % 60, out);
    }
    if offset % 60 != 0 {
        out.push(b':');
        write_two(offset % 60, out);
    }
    if before_christ {
        out.extend_from_slice(b" BC");
    }
}

/// Whether the date is before Christ, which is written last.
fn write_date_and_time(micros: i64, out: &mut Vec<u8>) -> bool {
    let before_christ = write_civil(micros.div_euclid(DAY_MICROS), out);
    out.push(b' ');
    write_time(micros.rem_euclid(DAY_MICROS), out);
    before_christ
}

fn write_civil(days: i64, out: &mut Vec<u8>) -> bool {
    let (year, month, day) = civil_from_days(days);
    let shown = if year > 0 { year } else { 1 - year };
    if shown < 10_000 {
        write_two(shown / 100, out);
        write_two(shown % 100, out);
    } else {
        out.extend_from_slice(itoa::Buffer::new().format(shown).as_bytes());
    }
    out.push(b'-');
    write_two(month, out);
    out.push(b'-');
    write_two(day, out);
    year <= 0
}

/// Appends `hh:mm:ss` and the fraction without its trailing zeros; nothing is negative.
pub(super) fn write_clock(hours: i64, minutes: i64, seconds: i64, micros: i64, out: &mut Vec<u8>) {
    write_two(hours, out);
    out.push(b':');
    write_two(minutes, out);
    out.push(b':');
    write_two(seconds, out);
    if micros != 0 {
        out.push(b'.');
        let (mut rest, mut unit) = (micros, SECOND_MICROS / 10);
        while rest != 0 {
            out.push(b'0' + (rest / unit) as u8);
            rest %= unit;
            unit /= 10;
        }
    }
}

/// Appends at least two digits.
fn write_two(number: i64, out: &mut Vec<u8>) {
    if number < 100 {
        out.extend_from_slice(&[b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]);
    } else {
        out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }
}

#[cfg(test)]
mod tests;
