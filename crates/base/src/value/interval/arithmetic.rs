//! What PostgreSQL computes with intervals: sums, products, the order, and moving parts into larger units.
//!
//! Called by the query crate's operators, functions and aggregates. Results out of range are errors. Source of the rules:
//! PostgreSQL's `timestamp.c`.

use crate::{Error, ErrorCode, Interval, Result};

use crate::value::datetime::{DAY_MICROS, SECOND_MICROS};

const MONTH_DAYS: i32 = 30;

fn out_of_range() -> Error {
    Error::new(ErrorCode::DatetimeOverflow, "interval out of range")
}

/// What intervals are compared by: microseconds, a month being thirty days and a day twenty-four hours.
pub fn order(interval: Interval) -> i128 {
    let days = i128::from(interval.months) * i128::from(MONTH_DAYS) + i128::from(interval.days);
    days * i128::from(DAY_MICROS) + i128::from(interval.micros)
}

/// An interval of an [`order`], in whole months, days and microseconds; `None` beyond what months alone can tell.
pub fn of_order(order: i128) -> Option<Interval> {
    let (days, micros) = (order / i128::from(DAY_MICROS), order % i128::from(DAY_MICROS));
    let (months, days) = (days / i128::from(MONTH_DAYS), days % i128::from(MONTH_DAYS));
    Some(Interval {
        months: i32::try_from(months).ok()?,
        days: i32::try_from(days).ok()?,
        micros: i64::try_from(micros).ok()?,
    })
}

/// The sum.
///
/// # Errors
/// 22008
pub fn add(left: Interval, right: Interval) -> Result<Interval> {
    Ok(Interval {
        months: left.months.checked_add(right.months).ok_or_else(out_of_range)?,
        days: left.days.checked_add(right.days).ok_or_else(out_of_range)?,
        micros: left.micros.checked_add(right.micros).ok_or_else(out_of_range)?,
    })
}

/// The difference.
///
/// # Errors
/// 22008
pub fn subtract(left: Interval, right: Interval) -> Result<Interval> {
    Ok(Interval {
        months: left.months.checked_sub(right.months).ok_or_else(out_of_range)?,
        days: left.days.checked_sub(right.days).ok_or_else(out_of_range)?,
        micros: left.micros.checked_sub(right.micros).ok_or_else(out_of_range)?,
    })
}

/// The opposite.
///
/// # Errors
/// 22008
pub fn negate(interval: Interval) -> Result<Interval> {
    subtract(Interval::default(), interval)
}

/// The product.
///
/// # Errors
/// 22008
pub fn multiply(interval: Interval, factor: f64) -> Result<Interval> {
    scale(interval, |part| part * factor)
}

/// The quotient.
///
/// # Errors
/// 22008, 22012
pub fn divide(interval: Interval, divisor: f64) -> Result<Interval> {
    if divisor == 0.0 {
        return Err(Error::new(ErrorCode::DivisionByZero, "division by zero"));
    }
    scale(interval, |part| part / divisor)
}

/// Scales each part; what is left of a month becomes days, and what is left of a day becomes time.
fn scale(interval: Interval, by: impl Fn(f64) -> f64) -> Result<Interval> {
    let whole = |part: f64| {
        if part.is_nan() || part < f64::from(i32::MIN) || part > f64::from(i32::MAX) {
            return Err(out_of_range());
        }
        Ok(part as i32)
    };
    // Rounded to a millionth, so that what is not exact in binary does not show.
    let rounded = |part: f64| (part * 1e6).round_ties_even() / 1e6;
    let (months_scaled, days_scaled) = (by(f64::from(interval.months)), by(f64::from(interval.days)));
    let months = whole(months_scaled)?;
    let mut days = whole(days_scaled)?;
    let month_rest = rounded((months_scaled - f64::from(months)) * f64::from(MONTH_DAYS));
    let mut seconds = rounded((days_scaled - f64::from(days) + month_rest - month_rest.trunc()) * 86_400.0);
    if seconds.abs() >= 86_400.0 {
        let full = (seconds / 86_400.0) as i32;
        days = days.checked_add(full).ok_or_else(out_of_range)?;
        seconds -= f64::from(full) * 86_400.0;
    }
    days = days.checked_add(month_rest as i32).ok_or_else(out_of_range)?;
    let micros = (by(interval.micros as f64) + seconds * SECOND_MICROS as f64).round_ties_even();
    // The greatest i64 is no double: what reaches it is too large.
    if micros.is_nan() || micros < i64::MIN as f64 || micros >= i64::MAX as f64 {
        return Err(out_of_range());
    }
    Ok(Interval { months, days, micros: micros as i64 })
}

/// `justify_hours`: twenty-four hours become a day.
///
/// # Errors
/// 22008
pub fn justify_hours(interval: Interval) -> Result<Interval> {
    let mut result = interval;
    carry_days(&mut result)?;
    lend_day(&mut result);
    Ok(result)
}

/// `justify_days`: thirty days become a month.
///
/// # Errors
/// 22008
pub fn justify_days(interval: Interval) -> Result<Interval> {
    let mut result = interval;
    carry_months(&mut result)?;
    if result.months > 0 && result.days < 0 {
        result.days += MONTH_DAYS;
        result.months -= 1;
    } else if result.months < 0 && result.days > 0 {
        result.days -= MONTH_DAYS;
        result.months += 1;
    }
    Ok(result)
}

/// `justify_interval`: both, and all parts of one sign.
///
/// # Errors
/// 22008
pub fn justify_interval(interval: Interval) -> Result<Interval> {
    let mut result = interval;
    if (result.days > 0 && result.micros > 0) || (result.days < 0 && result.micros < 0) {
        carry_months(&mut result)?;
    }
    carry_days(&mut result)?;
    carry_months(&mut result)?;
    if result.months > 0 && (result.days < 0 || (result.days == 0 && result.micros < 0)) {
        result.days += MONTH_DAYS;
        result.months -= 1;
    } else if result.months < 0 && (result.days > 0 || (result.days == 0 && result.micros > 0)) {
        result.days -= MONTH_DAYS;
        result.months += 1;
    }
    lend_day(&mut result);
    Ok(result)
}

/// Gives days and time one sign.
fn lend_day(interval: &mut Interval) {
    if interval.days > 0 && interval.micros < 0 {
        interval.micros += DAY_MICROS;
        interval.days -= 1;
    } else if interval.days < 0 && interval.micros > 0 {
        interval.micros -= DAY_MICROS;
        interval.days += 1;
    }
}

fn carry_days(interval: &mut Interval) -> Result<()> {
    let full = (interval.micros / DAY_MICROS) as i32;
    interval.micros %= DAY_MICROS;
    interval.days = interval.days.checked_add(full).ok_or_else(out_of_range)?;
    Ok(())
}

fn carry_months(interval: &mut Interval) -> Result<()> {
    let full = interval.days / MONTH_DAYS;
    interval.days %= MONTH_DAYS;
    interval.months = interval.months.checked_add(full).ok_or_else(out_of_range)?;
    Ok(())
}

/// `make_interval`.
///
/// # Errors
/// 22008
pub fn make(
    years: i32,
    months: i32,
    weeks: i32,
    days: i32,
    hours: i32,
    minutes: i32,
    seconds: f64,
) -> Result<Interval> {
    let months = i64::from(years) * 12 + i64::from(months);
    let days = i64::from(weeks) * 7 + i64::from(days);
    if !seconds.is_finite() {
        return Err(out_of_range());
    }
    let fraction = (seconds * SECOND_MICROS as f64).round_ties_even();
    let clock = (i64::from(hours) * 60 + i64::from(minutes)) * 60 * SECOND_MICROS;
    if fraction.abs() >= i64::MAX as f64 {
        return Err(out_of_range());
    }
    Ok(Interval {
        months: i32::try_from(months).map_err(|_| out_of_range())?,
        days: i32::try_from(days).map_err(|_| out_of_range())?,
        micros: clock.checked_add(fraction as i64).ok_or_else(out_of_range)?,
    })
}

/// The sum of many intervals and their number, for `sum` and `avg`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Months
    pub months: i64,
    /// Days
    pub days: i64,
    /// Microseconds
    pub micros: i128,
    /// How many intervals
    pub count: i64,
}

impl Total {
    /// Adds one interval so many times; -1 takes it away.
    pub fn add(&mut self, interval: Interval, times: i64) {
        self.months += i64::from(interval.months) * times;
        self.days += i64::from(interval.days) * times;
        self.micros += i128::from(interval.micros) * i128::from(times);
        self.count += times;
    }

    /// The sum; `None` of none.
    ///
    /// # Errors
    /// 22008
    pub fn sum(&self) -> Result<Option<Interval>> {
        if self.count == 0 {
            return Ok(None);
        }
        Ok(Some(Interval {
            months: i32::try_from(self.months).map_err(|_| out_of_range())?,
            days: i32::try_from(self.days).map_err(|_| out_of_range())?,
            micros: i64::try_from(self.micros).map_err(|_| out_of_range())?,
        }))
    }

    /// The average; `None` of none.
    ///
    /// # Errors
    /// 22008
    pub fn average(&self) -> Result<Option<Interval>> {
        self.sum()?.map(|sum| divide(sum, self.count as f64)).transpose()
    }
}

#[cfg(test)]
mod tests;
