//! Reads intervals: number-and-unit pairs, `hh:mm:ss`, `years-months`, and ISO 8601. Called by `interval`.

use crate::Interval;
use crate::value::datetime::tokens::{Kind, Token, cut};
use crate::value::datetime::{DAY_MICROS, SECOND_MICROS, fraction_micros};

use super::iso;

/// Why a text is no interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// Not of any known form.
    Format,
    /// A field is too large for its place.
    Range,
    /// The sum of the fields is too large.
    Total,
    /// No place for infinity.
    Infinite,
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Microseconds of one.
    Time(i64),
    /// Days of one.
    Day(i64),
    Month,
    /// Years of one.
    Year(i64),
}

impl Unit {
    pub(super) const SECOND: Self = Self::Time(SECOND_MICROS);
    pub(super) const MINUTE: Self = Self::Time(60 * SECOND_MICROS);
    pub(super) const HOUR: Self = Self::Time(3600 * SECOND_MICROS);

    /// A bit of its own for each unit, so that none is written twice.
    fn bit(self) -> u32 {
        match self {
            Self::Time(1) => 1,
            Self::Time(1000) => 1 << 1,
            Self::Time(SECOND_MICROS) => 1 << 2,
            Self::MINUTE => 1 << 3,
            Self::Time(_) => 1 << 4,
            Self::Day(1) => 1 << 5,
            Self::Day(_) => 1 << 6,
            Self::Month => 1 << 7,
            Self::Year(1) => 1 << 8,
            Self::Year(10) => 1 << 9,
            Self::Year(100) => 1 << 10,
            Self::Year(_) => 1 << 11,
        }
    }
}

const SECOND_BITS: u32 = 0b111;
const CLOCK_BITS: u32 = 0b1_1111;

fn unit(text: &str) -> Option<Unit> {
    Some(match text.to_ascii_lowercase().as_str() {
        "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecon" | "microsecond" | "microseconds" => {
            Unit::Time(1)
        }
        "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecon" | "millisecond" | "milliseconds" => {
            Unit::Time(1000)
        }
        "s" | "sec" | "secs" | "second" | "seconds" => Unit::SECOND,
        "m" | "min" | "mins" | "minute" | "minutes" => Unit::MINUTE,
        "h" | "hr" | "hrs" | "hour" | "hours" => Unit::HOUR,
        "d" | "day" | "days" => Unit::Day(1),
        "w" | "week" | "weeks" => Unit::Day(7),
        "mon" | "mons" | "month" | "months" => Unit::Month,
        "y" | "yr" | "yrs" | "year" | "years" => Unit::Year(1),
        "dec" | "decs" | "decade" | "decades" => Unit::Year(10),
        "c" | "cent" | "century" | "centuries" => Unit::Year(100),
        "mil" | "mils" | "millennia" | "millennium" => Unit::Year(1000),
        _ => return None,
    })
}

/// The parts while they are summed.
#[derive(Default)]
pub(super) struct Sum {
    years: i32,
    months: i32,
    days: i32,
    micros: i64,
}

impl Sum {
    /// Adds so many of a unit; the fraction has the sign of the whole.
    pub(super) fn add(&mut self, unit: Unit, whole: i64, fraction: f64) -> Result<(), Problem> {
        match unit {
            Unit::Time(micros) => {
                self.add_micros(whole.checked_mul(micros).ok_or(Problem::Range)?)?;
                self.add_fraction(fraction * micros as f64)
            }
            Unit::Day(days) => {
                add_to(&mut self.days, whole.checked_mul(days))?;
                self.add_day_fraction(fraction * days as f64)
            }
            Unit::Month => {
                add_to(&mut self.months, Some(whole))?;
                self.add_day_fraction(fraction * 30.0)
            }
            Unit::Year(years) => {
                add_to(&mut self.years, whole.checked_mul(years))?;
                add_to(&mut self.months, Some((fraction * years as f64 * 12.0).round_ties_even() as i64))
            }
        }
    }

    fn add_micros(&mut self, micros: i64) -> Result<(), Problem> {
        self.micros = self.micros.checked_add(micros).ok_or(Problem::Range)?;
        Ok(())
    }

    /// Adds a fractional number of days.
    fn add_day_fraction(&mut self, days: f64) -> Result<(), Problem> {
        add_to(&mut self.days, Some(days.trunc() as i64))?;
        self.add_fraction(days.fract() * DAY_MICROS as f64)
    }

    /// Adds a fractional number of microseconds; half of one is dropped.
    fn add_fraction(&mut self, micros: f64) -> Result<(), Problem> {
        let whole = micros.trunc() as i64;
        let rest = micros.fract();
        self.add_micros(whole + i64::from(rest > 0.5) - i64::from(rest < -0.5))
    }

    /// The interval, or its opposite.
    pub(super) fn finish(self, ago: bool) -> Result<Interval, Problem> {
        // What has no opposite is refused before the years are added to the months, as PostgreSQL does.
        let least = self.years == i32::MIN || self.months == i32::MIN || self.days == i32::MIN;
        if ago && (least || self.micros == i64::MIN) {
            return Err(Problem::Range);
        }
        let months = i64::from(self.years) * 12 + i64::from(self.months);
        let months = i32::try_from(months).map_err(|_| Problem::Total)?;
        if !ago {
            return Ok(Interval { months, days: self.days, micros: self.micros });
        }
        Ok(Interval { months: months.checked_neg().ok_or(Problem::Total)?, days: -self.days, micros: -self.micros })
    }
}

fn add_to(field: &mut i32, amount: Option<i64>) -> Result<(), Problem> {
    let amount = amount.and_then(|amount| i32::try_from(amount).ok());
    *field = amount.and_then(|amount| field.checked_add(amount)).ok_or(Problem::Range)?;
    Ok(())
}

/// Reads an interval of any form.
pub(super) fn read(text: &str) -> Result<Interval, Problem> {
    match read_verbose(text) {
        Err(Problem::Format) if text.starts_with('P') => iso::read(text),
        result => result,
    }
}

/// Pairs of a number and its unit, from the end to the beginning, because the unit follows its number.
fn read_verbose(text: &str) -> Result<Interval, Problem> {
    let is_word = |word: &str| matches!(word, "d" | "h" | "m" | "s" | "y" | "D" | "H" | "M" | "S" | "Y");
    let tokens = cut(text, is_word).ok_or(Problem::Format)?;
    let mut sum = Sum::default();
    let mut seen = 0;
    let mut ago = false;
    // The unit of the number before, and whether it was written; after `ago` it must be.
    let mut pending = Some(Unit::SECOND);
    let mut unit_waits = false;
    for (index, Token { kind, text }) in tokens.iter().copied().enumerate().rev() {
        let bits = match kind {
            Kind::Word if text.eq_ignore_ascii_case("ago") && index + 1 == tokens.len() => {
                ago = true;
                pending = None;
                continue;
            }
            Kind::Word if text.eq_ignore_ascii_case("infinity") => return Err(Problem::Infinite),
            Kind::Word => {
                if unit_waits {
                    return Err(Problem::Format);
                }
                pending = Some(unit(text).ok_or(Problem::Format)?);
                unit_waits = true;
                continue;
            }
            Kind::Signed if text.to_ascii_lowercase().ends_with("infinity") => return Err(Problem::Infinite),
            Kind::Signed => return Err(Problem::Format),
            Kind::Time | Kind::Offset if text.contains(':') => {
                if unit_waits {
                    return Err(Problem::Format);
                }
                let clock = clock(text.trim_start_matches(['+', '-']).trim_start());
                let clock = if kind == Kind::Offset { clock.map_err(|_| Problem::Format)? } else { clock? };
                if sum.micros != 0 {
                    // A fraction of a day after the time: PostgreSQL forgets one of them.
                    return Err(Problem::Format);
                }
                sum.add_micros(if text.starts_with('-') { -clock } else { clock })?;
                pending = Some(Unit::Day(1));
                CLOCK_BITS
            }
            _ => add_number(text, &mut pending, &mut sum)?,
        };
        unit_waits = false;
        if seen & bits != 0 {
            return Err(Problem::Format);
        }
        seen |= bits;
    }
    if seen == 0 || unit_waits {
        return Err(Problem::Format);
    }
    sum.finish(ago)
}

/// Adds `n`, `n.f` or `years-months`, and returns the bits of what was set.
fn add_number(text: &str, pending: &mut Option<Unit>, sum: &mut Sum) -> Result<u32, Problem> {
    let negative = text.starts_with('-');
    let unsigned = text.trim_start_matches(['+', '-']).trim_start();
    let sign = |number: i64| if negative { -number } else { number };
    if let Some((years, months)) = unsigned.split_once('-') {
        let (years, months) = (integer(years)?, integer(months)?);
        if months > 11 {
            return Err(Problem::Range);
        }
        let months = years.checked_mul(12).and_then(|years| years.checked_add(months));
        sum.add(Unit::Month, sign(months.ok_or(Problem::Range)?), 0.0)?;
        *pending = Some(Unit::Month);
        return Ok(Unit::Month.bit());
    }
    let point = unsigned.find('.').unwrap_or(unsigned.len());
    let (whole, fraction) = unsigned.split_at(point);
    let whole = if whole.is_empty() { 0 } else { integer(whole)? };
    let fraction = read_fraction(fraction)?;
    let unit = pending.ok_or(Problem::Format)?;
    sum.add(unit, sign(whole), if negative { -fraction } else { fraction })?;
    if unit == Unit::HOUR {
        *pending = Some(Unit::Day(1));
    }
    Ok(if unit == Unit::SECOND && fraction != 0.0 { SECOND_BITS } else { unit.bit() })
}

/// A fraction with its point, or nothing.
fn read_fraction(text: &str) -> Result<f64, Problem> {
    let digits = text.strip_prefix('.').unwrap_or(text);
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Problem::Format);
    }
    if digits.is_empty() { Ok(0.0) } else { text.parse().map_err(|_| Problem::Format) }
}

fn integer(text: &str) -> Result<i64, Problem> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Problem::Format);
    }
    text.parse().map_err(|_| Problem::Range)
}

/// `hh:mm`, `hh:mm:ss.fff` or `mm:ss.fff`, in microseconds.
fn clock(text: &str) -> Result<i64, Problem> {
    let point = text.find('.').unwrap_or(text.len());
    let (digits, fraction) = text.split_at(point);
    let micros = if fraction.is_empty() { 0 } else { fraction_micros(fraction).ok_or(Problem::Format)? };
    let parts = digits.split(':').map(integer).collect::<Result<Vec<_>, _>>()?;
    let (hours, minutes, seconds) = match parts[..] {
        [minutes, seconds] if !fraction.is_empty() => (0, minutes, seconds),
        [hours, minutes] => (hours, minutes, 0),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return Err(Problem::Format),
    };
    if minutes > 59 || seconds > 60 {
        return Err(Problem::Range);
    }
    hours
        .checked_mul(3600)
        .and_then(|hours| hours.checked_add(minutes * 60 + seconds)?.checked_mul(SECOND_MICROS)?.checked_add(micros))
        .ok_or(Problem::Range)
}
