//! The parts of dates, times and intervals: `extract`, `date_part` and `date_trunc`.
//!
//! Called by the query crate's functions. `extract` is numeric with the digits that PostgreSQL gives each unit, `date_part`
//! double precision; a unit that a type does not have is refused, never taken for another.

use crate::{Error, ErrorCode, Interval, Result};

use super::arithmetic::{split, to_local, to_utc};
use super::{DAY_MICROS, SECOND_MICROS, Zone, check_timestamp, civil_from_days, days_from_civil};

/// Julian day of 1970-01-01.
const EPOCH_JULIAN_DAY: i64 = 2_440_588;
/// PostgreSQL compares this many characters of a unit's name.
const UNIT_NAME_LENGTH: usize = 10;

/// A unit of time, or another thing that can be asked of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Seconds and their fraction, in millionths.
    Microsecond,
    /// The same in thousandths.
    Millisecond,
    /// Seconds and their fraction.
    Second,
    /// Minutes
    Minute,
    /// Hours
    Hour,
    /// Days
    Day,
    /// The week of the ISO year
    Week,
    /// Months
    Month,
    /// Quarters
    Quarter,
    /// Years
    Year,
    /// Years by ten
    Decade,
    /// Years by hundred, the first of which began with the year 1
    Century,
    /// Years by thousand
    Millennium,
    /// Day of the week, Sunday is 0.
    Dow,
    /// Day of the week, Sunday is 7.
    Isodow,
    /// Day of the year
    Doy,
    /// The year that the ISO week belongs to
    Isoyear,
    /// Julian day
    Julian,
    /// Seconds since 1970
    Epoch,
    /// Seconds east of UTC
    Timezone,
    /// Hours of that
    TimezoneHour,
    /// Minutes of that
    TimezoneMinute,
}

impl Unit {
    /// The unit of a name, in any of PostgreSQL's spellings.
    pub fn parse(name: &str) -> Option<Self> {
        // Once per row: nothing is allocated.
        let length = name.len().min(UNIT_NAME_LENGTH);
        let mut lower = [0; UNIT_NAME_LENGTH];
        lower[..length].copy_from_slice(&name.as_bytes()[..length]);
        lower.make_ascii_lowercase();
        Some(match std::str::from_utf8(&lower[..length]).ok()? {
            "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecon" => Self::Microsecond,
            "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecon" => Self::Millisecond,
            "s" | "sec" | "secs" | "second" | "seconds" => Self::Second,
            "m" | "min" | "mins" | "minute" | "minutes" => Self::Minute,
            "h" | "hr" | "hrs" | "hour" | "hours" => Self::Hour,
            "d" | "day" | "days" => Self::Day,
            "w" | "week" | "weeks" => Self::Week,
            "mon" | "mons" | "month" | "months" => Self::Month,
            "qtr" | "quarter" => Self::Quarter,
            "y" | "yr" | "yrs" | "year" | "years" => Self::Year,
            "dec" | "decs" | "decade" | "decades" => Self::Decade,
            "c" | "cent" | "century" | "centuries" => Self::Century,
            "mil" | "mils" | "millennia" | "millennium" => Self::Millennium,
            "dow" => Self::Dow,
            "isodow" => Self::Isodow,
            "doy" => Self::Doy,
            "isoyear" => Self::Isoyear,
            "j" | "jd" | "julian" => Self::Julian,
            "epoch" => Self::Epoch,
            "timezone" => Self::Timezone,
            "timezone_h" => Self::TimezoneHour,
            "timezone_m" => Self::TimezoneMinute,
            _ => return None,
        })
    }

    /// Digits behind the point of what `extract` gives; of a date there is none.
    pub fn scale(self, of_date: bool) -> u8 {
        match self {
            Self::Second => 6,
            Self::Millisecond => 3,
            Self::Epoch if !of_date => 6,
            _ => 0,
        }
    }
}

/// What is asked for its parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Source {
    /// `date`
    Date(i32),
    /// `time`
    Time(i64),
    /// `timestamp`
    Timestamp(i64),
    /// `timestamptz`, seen in a zone
    Timestamptz(i64, Zone),
    /// `interval`
    Interval(Interval),
}

impl Source {
    fn type_name(self) -> &'static str {
        match self {
            Self::Date(_) => "date",
            Self::Time(_) => "time without time zone",
            Self::Timestamp(_) => "timestamp without time zone",
            Self::Timestamptz(..) => "timestamp with time zone",
            Self::Interval(_) => "interval",
        }
    }

    /// 22023 for a unit that nobody knows.
    fn unit(self, name: &str) -> Result<Unit> {
        Unit::parse(name).ok_or_else(|| self.unrecognized(name))
    }

    /// The unit to cut to: those that only `extract` knows are nothing to cut to.
    fn step(self, name: &str) -> Result<Unit> {
        let unit = self.unit(name)?;
        let is_part = matches!(unit, Unit::Dow | Unit::Isodow | Unit::Doy | Unit::Isoyear | Unit::Julian | Unit::Epoch);
        if is_part { Err(self.unrecognized(name)) } else { Ok(unit) }
    }

    fn unrecognized(self, name: &str) -> Error {
        Error::new(
            ErrorCode::InvalidParameterValue,
            format!("unit \"{}\" not recognized for type {}", name.to_ascii_lowercase(), self.type_name()),
        )
    }

    fn unsupported(self, name: &str) -> Error {
        Error::unsupported(format!(
            "unit \"{}\" not supported for type {}",
            name.to_ascii_lowercase(),
            self.type_name()
        ))
    }
}

/// `extract(unit FROM source)`: the value without its point; [`Unit::scale`] says where that is.
///
/// # Errors
/// 22023 for an unknown unit, 0A000 for one that the type does not have.
pub fn extract(name: &str, source: Source) -> Result<i64> {
    let unit = source.unit(name)?;
    let found = match source {
        Source::Date(days) => date_part_of(unit, i64::from(days)),
        Source::Time(micros) => match unit {
            Unit::Epoch => Some(micros),
            _ => clock_part(unit, micros),
        },
        Source::Timestamp(micros) => match unit {
            Unit::Epoch => Some(micros),
            // Its digits depend on the value, which a column's type cannot say.
            Unit::Julian => None,
            _ => clock_part(unit, micros.rem_euclid(DAY_MICROS))
                .or_else(|| date_part_of(unit, micros.div_euclid(DAY_MICROS))),
        },
        Source::Timestamptz(micros, zone) => match unit {
            Unit::Epoch => Some(micros),
            Unit::Julian => None,
            Unit::Timezone | Unit::TimezoneHour | Unit::TimezoneMinute => {
                let offset = i64::from(zone.offset_at(micros));
                Some(match unit {
                    Unit::Timezone => offset,
                    Unit::TimezoneHour => offset / 3600,
                    _ => offset % 3600 / 60,
                })
            }
            _ => return extract(name, Source::Timestamp(to_local(micros, zone))),
        },
        Source::Interval(interval) => interval_part(unit, interval)?,
    };
    found.ok_or_else(|| source.unsupported(name))
}

/// `date_part(unit, source)`; of a date, which counts as its midnight, too.
///
/// # Errors
/// As [`extract`].
pub fn date_part(name: &str, source: Source) -> Result<f64> {
    let source = match source {
        Source::Date(days) => Source::Timestamp(i64::from(days) * DAY_MICROS),
        other => other,
    };
    let unit = source.unit(name)?;
    let julian = |micros: i64| {
        let day = micros.div_euclid(DAY_MICROS) + EPOCH_JULIAN_DAY;
        let seconds = micros.rem_euclid(DAY_MICROS) / SECOND_MICROS;
        let fraction = micros.rem_euclid(SECOND_MICROS);
        day as f64 + (seconds as f64 + fraction as f64 / 1e6) / 86_400.0
    };
    match (unit, source) {
        (Unit::Julian, Source::Timestamp(micros)) => return Ok(julian(micros)),
        (Unit::Julian, Source::Timestamptz(micros, zone)) => return Ok(julian(to_local(micros, zone))),
        (Unit::Epoch, Source::Interval(interval)) => {
            let years = f64::from(interval.months / 12);
            let months = f64::from(interval.months % 12);
            return Ok(interval.micros as f64 / 1e6
                + 365.25 * 86_400.0 * years
                + 30.0 * 86_400.0 * months
                + 86_400.0 * f64::from(interval.days));
        }
        _ => {}
    }
    let whole = extract(name, source)?;
    Ok(match unit {
        Unit::Second => (whole / SECOND_MICROS) as f64 + (whole % SECOND_MICROS) as f64 / 1e6,
        Unit::Millisecond => (whole / SECOND_MICROS) as f64 * 1000.0 + (whole % SECOND_MICROS) as f64 / 1000.0,
        Unit::Epoch => whole as f64 / 1e6,
        _ => whole as f64,
    })
}

/// Parts of a time of day.
fn clock_part(unit: Unit, micros: i64) -> Option<i64> {
    Some(match unit {
        Unit::Microsecond | Unit::Millisecond | Unit::Second => micros % (60 * SECOND_MICROS),
        Unit::Minute => micros / (60 * SECOND_MICROS) % 60,
        Unit::Hour => micros / (3600 * SECOND_MICROS),
        _ => return None,
    })
}

/// Parts of a date.
fn date_part_of(unit: Unit, days: i64) -> Option<i64> {
    let (year, month, day) = civil_from_days(days);
    Some(match unit {
        Unit::Day => day,
        Unit::Week => iso_week(days).1,
        Unit::Month => month,
        Unit::Quarter => (month - 1) / 3 + 1,
        Unit::Year => year,
        Unit::Decade => year.div_euclid(10),
        Unit::Century => (year + 99) / 100,
        Unit::Millennium => (year + 999) / 1000,
        Unit::Dow => (days + 4).rem_euclid(7),
        Unit::Isodow => iso_day(days),
        Unit::Doy => days - days_from_civil(year, 1, 1) + 1,
        Unit::Isoyear => iso_week(days).0,
        Unit::Julian => days + EPOCH_JULIAN_DAY,
        Unit::Epoch => days * 86_400,
        _ => return None,
    })
}

/// Monday is 1.
pub(super) fn iso_day(days: i64) -> i64 {
    (days + 3).rem_euclid(7) + 1
}

/// The year and the number of an ISO week: the one that its Thursday is in.
pub(super) fn iso_week(days: i64) -> (i64, i64) {
    let thursday = days + 4 - iso_day(days);
    let year = civil_from_days(thursday).0;
    (year, (thursday - days_from_civil(year, 1, 1)) / 7 + 1)
}

fn interval_part(unit: Unit, interval: Interval) -> Result<Option<i64>> {
    let Interval { months, days, micros } = interval;
    let (months, days) = (i64::from(months), i64::from(days));
    Ok(Some(match unit {
        Unit::Microsecond | Unit::Millisecond | Unit::Second => micros % (60 * SECOND_MICROS),
        Unit::Minute => micros / (60 * SECOND_MICROS) % 60,
        Unit::Hour => micros / (3600 * SECOND_MICROS),
        Unit::Day => days,
        Unit::Month => months % 12,
        Unit::Quarter => months % 12 / 3 + 1,
        Unit::Year => months / 12,
        Unit::Decade => months / 120,
        Unit::Century => months / 1200,
        Unit::Millennium => months / 12_000,
        Unit::Epoch => {
            // A year has 365.25 days and a month 30; in quarters of a day everything is whole.
            let quarters = 1461 * (months / 12) + 120 * (months % 12) + 4 * days;
            let total = i128::from(quarters) * i128::from(DAY_MICROS / 4) + i128::from(micros);
            i64::try_from(total).map_err(|_| {
                Error::unsupported("the epoch of an interval of more than 292,000 years is not supported")
            })?
        }
        _ => return Ok(None),
    }))
}

/// `date_trunc(unit, timestamp)`.
///
/// # Errors
/// 22023 for an unknown unit, 0A000 for one that cannot be cut to.
pub fn truncate(name: &str, timestamp: i64) -> Result<i64> {
    let source = Source::Timestamp(timestamp);
    truncate_local(source.step(name)?, timestamp)?.ok_or_else(|| source.unsupported(name))
}

fn truncate_local(unit: Unit, timestamp: i64) -> Result<Option<i64>> {
    let step = match unit {
        Unit::Microsecond => 1,
        Unit::Millisecond => 1000,
        Unit::Second => SECOND_MICROS,
        Unit::Minute => 60 * SECOND_MICROS,
        Unit::Hour => 3600 * SECOND_MICROS,
        Unit::Day => DAY_MICROS,
        _ => 0,
    };
    if step > 0 {
        return Ok(Some(timestamp - timestamp.rem_euclid(step)));
    }
    let days = timestamp.div_euclid(DAY_MICROS);
    let [year, month, ..] = split(timestamp);
    let first = match unit {
        Unit::Week => days - (iso_day(days) - 1),
        Unit::Month => days_from_civil(year, month, 1),
        Unit::Quarter => days_from_civil(year, (month - 1) / 3 * 3 + 1, 1),
        Unit::Year => days_from_civil(year, 1, 1),
        Unit::Decade => days_from_civil(year.div_euclid(10) * 10, 1, 1),
        Unit::Century => days_from_civil((year + 99) / 100 * 100 - 99, 1, 1),
        Unit::Millennium => days_from_civil((year + 999) / 1000 * 1000 - 999, 1, 1),
        _ => return Ok(None),
    };
    check_timestamp(i128::from(first) * i128::from(DAY_MICROS), "").map(Some)
}

/// `date_trunc(unit, timestamptz)` on the clock of a zone.
///
/// # Errors
/// As [`truncate`].
pub fn truncate_in(name: &str, timestamp: i64, zone: Zone) -> Result<i64> {
    let source = Source::Timestamptz(timestamp, zone);
    let unit = source.step(name)?;
    let local = to_local(timestamp, zone);
    let cut = truncate_local(unit, local)?.ok_or_else(|| source.unsupported(name))?;
    if matches!(unit, Unit::Microsecond | Unit::Millisecond | Unit::Second | Unit::Minute | Unit::Hour) {
        // Within a day the offset stays: an hour that occurs twice is not taken for the other one.
        Ok(timestamp - (local - cut))
    } else {
        to_utc(cut, zone)
    }
}

/// `date_trunc(unit, interval)`.
///
/// # Errors
/// As [`truncate`].
pub fn truncate_interval(name: &str, interval: Interval) -> Result<Interval> {
    let source = Source::Interval(interval);
    let unit = source.step(name)?;
    let Interval { months, days, micros } = interval;
    let of_months = |step: i32| Interval { months: months / step * step, days: 0, micros: 0 };
    let of_micros = |step: i64| Interval { micros: micros / step * step, ..interval };
    Ok(match unit {
        Unit::Microsecond => interval,
        Unit::Millisecond => of_micros(1000),
        Unit::Second => of_micros(SECOND_MICROS),
        Unit::Minute => of_micros(60 * SECOND_MICROS),
        Unit::Hour => of_micros(3600 * SECOND_MICROS),
        Unit::Day => Interval { months, days, micros: 0 },
        Unit::Month => of_months(1),
        Unit::Quarter => of_months(3),
        Unit::Year => of_months(12),
        Unit::Decade => of_months(120),
        Unit::Century => of_months(1200),
        Unit::Millennium => of_months(12_000),
        Unit::Week => {
            return Err(source.unsupported(name).with_detail("Months usually have fractional weeks."));
        }
        _ => return Err(source.unsupported(name)),
    })
}

#[cfg(test)]
mod tests;
