//! What PostgreSQL computes with dates, times, timestamps and intervals: sums, differences, ages, bins.
//!
//! Called by the query crate's operators and functions, a row at a time. A result out of range is an error, never wrapped;
//! a month added to a day that the other month does not have gives that month's last day.
//! Source of the rules: PostgreSQL's `timestamp.c` and `date.c`.

use crate::value::interval;
use crate::{Error, ErrorCode, Interval, Result};

use super::{
    DAY_MICROS, SECOND_MICROS, Zone, check_date, check_timestamp, civil_from_days, days_from_civil, days_of_month,
};

/// Seconds from 1970 to 2000.
const EPOCH_2000_SECONDS: i64 = 946_684_800;

/// A timestamp on the zone's clock.
pub fn to_local(utc: i64, zone: Zone) -> i64 {
    utc.saturating_add(i64::from(zone.offset_at(utc)) * SECOND_MICROS)
}

/// The instant of a timestamp on the zone's clock.
///
/// # Errors
/// 22008
pub fn to_utc(local: i64, zone: Zone) -> Result<i64> {
    let offset = i64::from(zone.offset_at_local(local)) * SECOND_MICROS;
    check_timestamp(i128::from(local) - i128::from(offset), "")
}

fn timestamp_out_of_range() -> Error {
    Error::new(ErrorCode::DatetimeOverflow, "timestamp out of range")
}

/// `date + integer`, `date - integer`.
///
/// # Errors
/// 22008
pub fn date_plus_days(date: i32, days: i64) -> Result<i32> {
    check_date(i64::from(date).saturating_add(days), "")
}

/// The timestamp of a date's midnight.
pub fn midnight(date: i32) -> i64 {
    i64::from(date) * DAY_MICROS
}

/// `timestamp + interval`: months first, then days, then the rest.
///
/// # Errors
/// 22008
pub fn timestamp_plus(timestamp: i64, interval: Interval) -> Result<i64> {
    let moved = plus_days(plus_months(timestamp, interval.months)?, interval.days)?;
    check_timestamp(i128::from(moved) + i128::from(interval.micros), "")
}

/// `timestamptz + interval`: months and days are counted on the zone's clock, the rest as time passes.
///
/// # Errors
/// 22008
pub fn timestamptz_plus(timestamp: i64, interval: Interval, zone: Zone) -> Result<i64> {
    let mut moved = timestamp;
    if interval.months != 0 {
        moved = to_utc(plus_months(to_local(moved, zone), interval.months)?, zone)?;
    }
    if interval.days != 0 {
        moved = to_utc(plus_days(to_local(moved, zone), interval.days)?, zone)?;
    }
    check_timestamp(i128::from(moved) + i128::from(interval.micros), "")
}

fn plus_months(timestamp: i64, months: i32) -> Result<i64> {
    if months == 0 {
        return Ok(timestamp);
    }
    let (year, month, day) = civil_from_days(timestamp.div_euclid(DAY_MICROS));
    let total = year * 12 + month - 1 + i64::from(months);
    let (year, month) = (total.div_euclid(12), total.rem_euclid(12) + 1);
    let days = days_from_civil(year, month, day.min(days_of_month(year, month)));
    let micros = i128::from(days) * i128::from(DAY_MICROS) + i128::from(timestamp.rem_euclid(DAY_MICROS));
    check_timestamp(micros, "")
}

fn plus_days(timestamp: i64, days: i32) -> Result<i64> {
    check_timestamp(i128::from(timestamp) + i128::from(days) * i128::from(DAY_MICROS), "")
}

/// `timestamp - timestamp`: whole days, and what is left.
pub fn timestamp_minus(left: i64, right: i64) -> Interval {
    let micros = left.saturating_sub(right);
    Interval { months: 0, days: (micros / DAY_MICROS) as i32, micros: micros % DAY_MICROS }
}

/// `time + interval`: the clock goes round.
pub fn time_plus(time: i64, interval: Interval) -> i64 {
    (i128::from(time) + i128::from(interval.micros)).rem_euclid(i128::from(DAY_MICROS)) as i64
}

/// `age(later, earlier)`: years, months and days as people count them.
pub fn age(later: i64, earlier: i64) -> Interval {
    let backwards = later < earlier;
    let (first, second) = (split(later), split(earlier));
    let mut parts = [0i64; 7];
    for (part, (later, earlier)) in parts.iter_mut().zip(first.iter().zip(second)) {
        *part = if backwards { earlier - later } else { later - earlier };
    }
    let [mut year, mut month, mut day, mut hour, mut minute, mut second_, mut micros] = parts;
    while micros < 0 {
        micros += SECOND_MICROS;
        second_ -= 1;
    }
    while second_ < 0 {
        second_ += 60;
        minute -= 1;
    }
    while minute < 0 {
        minute += 60;
        hour -= 1;
    }
    while hour < 0 {
        hour += 24;
        day -= 1;
    }
    // A borrowed month has the length of the earlier one.
    let borrowed = if backwards { first } else { second };
    while day < 0 {
        day += days_of_month(borrowed[0], borrowed[1]);
        month -= 1;
    }
    while month < 0 {
        month += 12;
        year -= 1;
    }
    let sign = if backwards { -1 } else { 1 };
    let clock = ((hour * 60 + minute) * 60 + second_) * SECOND_MICROS + micros;
    Interval { months: (sign * (year * 12 + month)) as i32, days: (sign * day) as i32, micros: sign * clock }
}

/// Year, month, day, hour, minute, second and microsecond.
pub(super) fn split(timestamp: i64) -> [i64; 7] {
    let (year, month, day) = civil_from_days(timestamp.div_euclid(DAY_MICROS));
    let micros = timestamp.rem_euclid(DAY_MICROS);
    let seconds = micros / SECOND_MICROS;
    [year, month, day, seconds / 3600, seconds / 60 % 60, seconds % 60, micros % SECOND_MICROS]
}

/// `date_bin`: the beginning of the bin of this stride, counted from an origin.
///
/// # Errors
/// 0A000 for strides with months, 22008 for one that is not positive.
pub fn bin(stride: Interval, source: i64, origin: i64) -> Result<i64> {
    if stride.months != 0 {
        return Err(Error::unsupported("timestamps cannot be binned into intervals containing months or years"));
    }
    let length = i128::from(stride.days) * i128::from(DAY_MICROS) + i128::from(stride.micros);
    if length <= 0 {
        return Err(Error::new(ErrorCode::DatetimeOverflow, "stride must be greater than zero"));
    }
    let (source, origin) = (i128::from(source), i128::from(origin));
    check_timestamp(origin + (source - origin).div_euclid(length) * length, "")
}

/// `make_date`.
///
/// # Errors
/// 22008
pub fn make_date(year: i64, month: i64, day: i64) -> Result<i32> {
    let invalid = || {
        Error::new(ErrorCode::DatetimeOverflow, format!("date field value out of range: {year}-{month:02}-{day:02}"))
    };
    if year == 0 || !(1..=12).contains(&month) {
        return Err(invalid());
    }
    let astronomical = if year < 0 { year + 1 } else { year };
    if day < 1 || day > days_of_month(astronomical, month) {
        return Err(invalid());
    }
    check_date(days_from_civil(astronomical, month, day), &format!(": {year}-{month:02}-{day:02}"))
}

/// `make_time`: microseconds since midnight; 24:00 is allowed.
///
/// # Errors
/// 22008
pub fn make_time(hour: i64, minute: i64, second: f64) -> Result<i64> {
    let invalid = || {
        Error::new(
            ErrorCode::DatetimeOverflow,
            format!("time field value out of range: {hour}:{minute:02}:{second:02}"),
        )
    };
    if !(0..=24).contains(&hour) || !(0..60).contains(&minute) || !(0.0..=60.0).contains(&second) {
        return Err(invalid());
    }
    let micros = (second * SECOND_MICROS as f64).round_ties_even() as i64;
    let total = (hour * 60 + minute) * 60 * SECOND_MICROS + micros;
    if total > DAY_MICROS { Err(invalid()) } else { Ok(total) }
}

/// `to_timestamp(double precision)`: seconds since 1970.
///
/// # Errors
/// 22008
pub fn from_epoch(seconds: f64) -> Result<i64> {
    if seconds.is_nan() {
        return Err(Error::new(ErrorCode::DatetimeOverflow, "timestamp cannot be NaN"));
    }
    if seconds.is_infinite() {
        return Err(Error::unsupported("infinite dates and timestamps are not supported"));
    }
    // PostgreSQL counts from 2000, and rounds there.
    let micros = ((seconds - EPOCH_2000_SECONDS as f64) * SECOND_MICROS as f64).round_ties_even();
    if micros.abs() >= 1e20 {
        return Err(timestamp_out_of_range());
    }
    check_timestamp(micros as i128 + i128::from(EPOCH_2000_SECONDS * SECOND_MICROS), "")
}

/// The zone that `AT TIME ZONE` names by an interval from UTC.
///
/// # Errors
/// 22023 where it has months or days.
pub fn zone_of_interval(interval: Interval) -> Result<Zone> {
    if interval.months != 0 || interval.days != 0 {
        let mut shown = Vec::new();
        interval::write(interval, &mut shown);
        return Err(Error::new(
            ErrorCode::InvalidParameterValue,
            format!("interval time zone \"{}\" must not include months or days", String::from_utf8_lossy(&shown)),
        ));
    }
    let seconds = interval.micros / SECOND_MICROS;
    Ok(match i32::try_from(seconds) {
        Ok(0) => Zone::Utc,
        Ok(seconds) => Zone::Fixed(seconds),
        Err(_) => return Err(timestamp_out_of_range()),
    })
}

#[cfg(test)]
mod tests;
