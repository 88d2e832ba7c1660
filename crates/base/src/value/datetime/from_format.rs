//! `to_date` and `to_timestamp` of a text by a template: where the text follows the template to the letter.
//!
//! PostgreSQL is lenient here in ways that surprise: it skips, guesses and ignores. A text that follows its template means
//! the same in both; every other is refused. Called by the query crate's functions.

use crate::{Error, ErrorCode, Result};

use super::arithmetic::make_date;
use super::format::{MONTHS, pattern_at};
use super::{DAY_MICROS, SECOND_MICROS, days_of_month};

/// What was read so far.
#[derive(Default)]
struct Fields {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    hour: Option<i64>,
    hour_of_twelve: Option<i64>,
    afternoon: Option<bool>,
    minute: Option<i64>,
    second: Option<i64>,
    micros: Option<i64>,
}

fn inexact() -> Error {
    Error::unsupported("a text that does not follow its template exactly is not supported")
}

/// The timestamp that a text says by a template.
///
/// # Errors
/// 0A000 for a template or a text that is not offered, 22008 for a field out of range, 22007 for a wrong hour of twelve.
pub fn timestamp_from(text: &str, template: &str) -> Result<i64> {
    let fields = read(text, template)?;
    let out_of_range =
        || Error::new(ErrorCode::DatetimeOverflow, format!("date/time field value out of range: \"{text}\""));
    // PostgreSQL takes a missing year for the one before the first.
    let year = fields.year.filter(|year| *year > 0).ok_or_else(inexact)?;
    let (month, day) = match fields.day_of_year {
        None => (fields.month.unwrap_or(1), fields.day.unwrap_or(1)),
        // PostgreSQL takes the month from the one and the day from the other, and a day 0 for the first.
        Some(number) if number == 0 || fields.month.is_some() || fields.day.is_some() => return Err(inexact()),
        Some(number) => month_and_day(year, number).ok_or_else(out_of_range)?,
    };
    if !(1..=12).contains(&month) || day < 1 || day > days_of_month(year, month) {
        return Err(out_of_range());
    }
    let hour = match (fields.hour, fields.hour_of_twelve) {
        (Some(_), Some(_)) => return Err(inexact()),
        (Some(hour), None) if fields.afternoon.is_none() => hour,
        (None, None) if fields.afternoon.is_none() => 0,
        (None, Some(hour)) => {
            if !(1..=12).contains(&hour) {
                return Err(Error::new(
                    ErrorCode::InvalidDatetimeFormat,
                    format!("hour \"{hour}\" is invalid for the 12-hour clock"),
                )
                .with_hint("Use the 24-hour clock, or give an hour between 1 and 12."));
            }
            match fields.afternoon {
                Some(true) if hour < 12 => hour + 12,
                Some(false) if hour == 12 => 0,
                _ => hour,
            }
        }
        _ => return Err(inexact()),
    };
    let (minute, second) = (fields.minute.unwrap_or(0), fields.second.unwrap_or(0));
    if hour > 23 || minute > 59 || second > 59 {
        return Err(out_of_range());
    }
    let clock = ((hour * 60 + minute) * 60 + second) * SECOND_MICROS + fields.micros.unwrap_or(0);
    Ok(i64::from(make_date(year, month, day)?) * DAY_MICROS + clock)
}

/// The month and its day of a day of the year.
fn month_and_day(year: i64, day_of_year: i64) -> Option<(i64, i64)> {
    let mut day = day_of_year;
    for month in 1..=12 {
        let length = days_of_month(year, month);
        if day <= length {
            return Some((month, day));
        }
        day -= length;
    }
    None
}

fn read(text: &str, template: &str) -> Result<Fields> {
    let mut fields = Fields::default();
    let (mut text, mut template) = (text, template);
    while !template.is_empty() {
        if let Some(after) = template.strip_prefix("FM").or_else(|| template.strip_prefix("fm")) {
            template = after;
            continue;
        }
        if template.starts_with("TM") || template.starts_with("tm") || template.starts_with(['"', '\\']) {
            return Err(inexact());
        }
        let Some(pattern) = pattern_at(template) else {
            // A separator stands for itself; letters would be skipped whatever they are.
            let separator = template.chars().next().ok_or_else(inexact)?;
            if separator.is_alphanumeric() {
                return Err(inexact());
            }
            text = text.strip_prefix(separator).ok_or_else(inexact)?;
            template = &template[separator.len_utf8()..];
            continue;
        };
        template = &template[pattern.len()..];
        if ["TH", "th", "SP"].iter().any(|suffix| template.starts_with(suffix)) {
            return Err(inexact());
        }
        text = field(&mut fields, pattern, text, template)?;
    }
    if text.is_empty() { Ok(fields) } else { Err(inexact()) }
}

/// Reads one field; returns what follows it.
fn field<'t>(fields: &mut Fields, pattern: &str, text: &'t str, template: &str) -> Result<&'t str> {
    let upper = pattern.to_ascii_uppercase();
    let (place, width): (&mut Option<i64>, usize) = match upper.as_str() {
        "YYYY" => (&mut fields.year, 4),
        "YY" => (&mut fields.year, 2),
        "DDD" => (&mut fields.day_of_year, 3),
        "MM" => (&mut fields.month, 2),
        "DD" => (&mut fields.day, 2),
        "HH24" => (&mut fields.hour, 2),
        "HH12" | "HH" => (&mut fields.hour_of_twelve, 2),
        "MI" => (&mut fields.minute, 2),
        "SS" => (&mut fields.second, 2),
        "MS" => (&mut fields.micros, 3),
        "US" => (&mut fields.micros, 6),
        "AM" | "PM" => {
            let word = text.get(..2).ok_or_else(inexact)?.to_ascii_uppercase();
            let afternoon = match word.as_str() {
                "AM" => false,
                "PM" => true,
                _ => return Err(inexact()),
            };
            return if fields.afternoon.replace(afternoon).is_none() { Ok(&text[2..]) } else { Err(inexact()) };
        }
        "MON" | "MONTH" => {
            let found = MONTHS.iter().enumerate().find_map(|(number, name)| {
                let name = if upper == "MON" { &name[..3] } else { name };
                let word = text.get(..name.len())?;
                word.eq_ignore_ascii_case(name).then(|| (number as i64 + 1, name.len()))
            });
            let (month, length) = found.ok_or_else(inexact)?;
            let rest = &text[length..];
            let ends = !rest.starts_with(|next: char| next.is_alphanumeric()) || upper == "MON" && !template.is_empty();
            return if ends && fields.month.replace(month).is_none() { Ok(rest) } else { Err(inexact()) };
        }
        _ => return Err(Error::unsupported(format!("the pattern {pattern} is not supported here"))),
    };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let before_separator = template.is_empty() || template.starts_with(|next: char| !next.is_alphanumeric());
    // Less than the whole width only where something else ends the number; more would belong to it before a separator.
    let is_fraction = matches!(upper.as_str(), "MS" | "US");
    let taken = if before_separator {
        if digits > width || digits == 0 || (digits < width && (matches!(upper.as_str(), "YYYY" | "YY") || is_fraction))
        {
            return Err(inexact());
        }
        digits
    } else if digits >= width {
        width
    } else {
        return Err(inexact());
    };
    let number: i64 = text[..taken].parse().map_err(|_| inexact())?;
    let number = match upper.as_str() {
        "MS" => number * 1000,
        // From 1970 to 2069.
        "YY" => number + if number < 70 { 2000 } else { 1900 },
        _ => number,
    };
    if place.replace(number).is_none() { Ok(&text[taken..]) } else { Err(inexact()) }
}
