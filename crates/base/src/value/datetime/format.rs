//! `to_char` of timestamps and intervals: PostgreSQL's template patterns.
//!
//! Called by the query crate's function. Every pattern is written as PostgreSQL writes it, or refused. Source:
//! PostgreSQL's documentation, "Data Type Formatting Functions", and its `formatting.c`.

use crate::{Error, ErrorCode, Interval, Result};

use super::arithmetic::{split, to_local};
use super::parts::{iso_day, iso_week};
use super::{DAY_MICROS, SECOND_MICROS, Zone, days_from_civil};

/// In the order in which they are tried: a longer one before its beginning.
const PATTERNS: [&str; 103] = [
    "A.D.", "A.M.", "AD", "AM", "B.C.", "BC", "CC", "DAY", "DDD", "DD", "DY", "Day", "Dy", "D", "FF1", "FF2", "FF3",
    "FF4", "FF5", "FF6", "FX", "HH24", "HH12", "HH", "IDDD", "ID", "IW", "IYYY", "IYY", "IY", "I", "J", "MI", "MM",
    "MONTH", "MON", "MS", "Month", "Mon", "OF", "P.M.", "PM", "Q", "RM", "SSSSS", "SSSS", "SS", "TZH", "TZM", "TZ",
    "US", "WW", "W", "Y,YYY", "YYYY", "YYY", "YY", "Y", "a.d.", "a.m.", "ad", "am", "b.c.", "bc", "cc", "day", "ddd",
    "dd", "dy", "d", "fx", "hh24", "hh12", "hh", "iddd", "id", "iw", "iyyy", "iyy", "iy", "i", "j", "mi", "mm",
    "month", "mon", "ms", "of", "p.m.", "pm", "q", "rm", "sssss", "ssss", "ss", "tzh", "tzm", "tz", "us", "ww", "w",
    "y,yyy", "yyyy",
];
/// What is left of them.
const PATTERNS_LAST: [&str; 9] = ["yyy", "yy", "y", "ff1", "ff2", "ff3", "ff4", "ff5", "ff6"];

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const ROMAN: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// The fields that patterns show.
struct Fields {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    day_of_year: i64,
    /// Days since 1970; of an interval there are none.
    days: Option<i64>,
    offset: i64,
    abbreviation: String,
}

/// `to_char(timestamp, pattern)`; with a zone, of an instant on its clock.
///
/// # Errors
/// 0A000 for a pattern that is not offered.
pub fn to_char(timestamp: i64, zone: Option<Zone>, pattern: &str) -> Result<String> {
    let local = zone.map_or(timestamp, |zone| to_local(timestamp, zone));
    let [year, month, day, hour, minute, second, micros] = split(local);
    let days = local.div_euclid(DAY_MICROS);
    write(
        &Fields {
            year,
            month,
            day,
            hour,
            minute,
            second,
            micros,
            day_of_year: days - days_from_civil(year, 1, 1) + 1,
            days: Some(days),
            offset: zone.map_or(0, |zone| i64::from(zone.offset_at(timestamp))),
            abbreviation: zone.map_or_else(String::new, |zone| zone.abbreviation_at(timestamp)),
        },
        pattern,
    )
}

/// `to_char(interval, pattern)`.
///
/// # Errors
/// 22007 for a pattern that an interval does not have, 0A000 for one that is not offered.
pub fn interval_to_char(interval: Interval, pattern: &str) -> Result<String> {
    let Interval { months, days, micros } = interval;
    let (year, month, day) = (i64::from(months / 12), i64::from(months % 12), i64::from(days));
    let seconds = micros / SECOND_MICROS;
    write(
        &Fields {
            year,
            month,
            day,
            hour: seconds / 3600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            micros: micros % SECOND_MICROS,
            day_of_year: i64::from(months) * 30 + day,
            days: None,
            offset: 0,
            abbreviation: String::new(),
        },
        pattern,
    )
}

/// The pattern that a text begins with.
pub(super) fn pattern_at(text: &str) -> Option<&'static str> {
    PATTERNS.iter().chain(&PATTERNS_LAST).find(|pattern| text.starts_with(**pattern)).copied()
}

fn write(fields: &Fields, pattern: &str) -> Result<String> {
    let mut out = String::new();
    let mut rest = pattern;
    while !rest.is_empty() {
        let mut fill = true;
        if let Some(after) = rest.strip_prefix("FM").or_else(|| rest.strip_prefix("fm")) {
            fill = false;
            rest = after;
        } else if rest.starts_with("TM") || rest.starts_with("tm") {
            return Err(Error::unsupported("the pattern TM of to_char is not supported"));
        }
        if let Some(found) = pattern_at(rest) {
            rest = &rest[found.len()..];
            let mut ordinal = None;
            if let Some(after) = rest.strip_prefix("TH") {
                (ordinal, rest) = (Some(true), after);
            } else if let Some(after) = rest.strip_prefix("th") {
                (ordinal, rest) = (Some(false), after);
            } else if rest.starts_with("SP") {
                return Err(Error::unsupported("the pattern SP of to_char is not supported"));
            }
            let pattern = Pattern { written: found, name: found.to_ascii_uppercase(), fill, ordinal };
            field(fields, &pattern, &mut out)?;
        } else if let Some(after) = rest.strip_prefix('"') {
            rest = quoted(after, &mut out);
        } else if let Some(after) = rest.strip_prefix("\\\"") {
            out.push('"');
            rest = after;
        } else if let Some(character) = rest.chars().next() {
            out.push(character);
            rest = &rest[character.len_utf8()..];
        }
    }
    Ok(out)
}

/// Copies up to the closing quote; returns what follows it.
fn quoted<'a>(text: &'a str, out: &mut String) -> &'a str {
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return &text[at + 1..],
            '\\' => {
                if let Some((_, escaped)) = characters.next() {
                    out.push(escaped);
                }
            }
            other => out.push(other),
        }
    }
    ""
}

fn not_of_intervals() -> Error {
    Error::new(ErrorCode::InvalidDatetimeFormat, "invalid format specification for an interval value")
        .with_hint("Intervals are not tied to specific calendar dates.")
}

/// A pattern as it stands in a template, with what modifies it there.
struct Pattern<'a> {
    /// As written: words are shown in its case.
    written: &'a str,
    /// Its name, in upper case.
    name: String,
    /// Whether values are padded to the pattern's width: numbers by zeros in front, words by blanks behind. `FM` says not to.
    fill: bool,
    /// Whether `st`, `nd`, `rd` or `th` follows a number, and in upper case.
    ordinal: Option<bool>,
}

impl Pattern<'_> {
    fn number(&self, fields: &Fields, value: i64, width: usize, out: &mut String) {
        // Of a negative one these have room for its sign; twelve hours go by the hour that they came from.
        let has_sign = match self.name.as_str() {
            "HH" | "HH12" => fields.hour < 0,
            "HH24" | "MI" | "SS" | "MM" | "YYYY" | "YYY" | "YY" | "Y" => value < 0,
            _ => false,
        };
        let width = if !self.fill { 0 } else { width + usize::from(has_sign) };
        self.digits(&format!("{value:0width$}"), out);
    }

    /// A number's digits, and its ordinal ending where one is asked for.
    fn digits(&self, digits: &str, out: &mut String) {
        out.push_str(digits);
        if let Some(upper) = self.ordinal {
            out.push_str(ordinal_of(digits, upper));
        }
    }

    fn word(&self, text: &str, width: usize, out: &mut String) {
        let shown = if self.written == self.name {
            text.to_ascii_uppercase()
        } else if self.written.starts_with(|first: char| first.is_ascii_uppercase()) {
            text.to_owned()
        } else {
            text.to_ascii_lowercase()
        };
        out.push_str(&shown);
        if self.fill {
            out.extend(std::iter::repeat_n(' ', width.saturating_sub(shown.len())));
        }
    }

    /// The first so many decimals of a second, always with their zeros.
    fn fraction(&self, micros: i64, decimals: usize, out: &mut String) {
        let unit = 10i64.pow(6 - decimals as u32);
        self.digits(&format!("{:0decimals$}", micros / unit), out);
    }

    /// An offset from UTC in seconds, as `+02` or `+05:30`.
    fn offset(&self, seconds: i64, out: &mut String) {
        out.push(sign_of(seconds));
        let hours = seconds.abs() / 3600;
        out.push_str(&if self.fill { format!("{hours:02}") } else { hours.to_string() });
        if seconds % 3600 != 0 {
            out.push_str(&format!(":{:02}", seconds.abs() % 3600 / 60));
        }
    }
}

fn sign_of(offset: i64) -> char {
    if offset < 0 { '-' } else { '+' }
}

/// Shows the field that a pattern names.
///
/// # Errors
/// 22007 for a field that an interval does not have, 0A000 for a pattern that is not offered.
fn field(fields: &Fields, pattern: &Pattern<'_>, out: &mut String) -> Result<()> {
    let days = || fields.days.ok_or_else(not_of_intervals);
    let number = |value: i64, width: usize, out: &mut String| pattern.number(fields, value, width, out);
    let word = |text: &str, width: usize, out: &mut String| pattern.word(text, width, out);
    match pattern.name.as_str() {
        "A.M." | "P.M." => word(if fields.hour % 24 >= 12 { "P.M." } else { "A.M." }, 0, out),
        "AM" | "PM" => word(if fields.hour % 24 >= 12 { "PM" } else { "AM" }, 0, out),
        "A.D." | "B.C." => days().map(|_| word("A.D.", 0, out))?,
        "AD" | "BC" => days().map(|_| word("AD", 0, out))?,
        "HH" | "HH12" => number(if fields.hour % 12 == 0 { 12 } else { fields.hour % 12 }, 2, out),
        "HH24" => number(fields.hour, 2, out),
        "MI" => number(fields.minute, 2, out),
        "SS" => number(fields.second, 2, out),
        "FF1" => pattern.fraction(fields.micros, 1, out),
        "FF2" => pattern.fraction(fields.micros, 2, out),
        "FF3" | "MS" => pattern.fraction(fields.micros, 3, out),
        "FF4" => pattern.fraction(fields.micros, 4, out),
        "FF5" => pattern.fraction(fields.micros, 5, out),
        "FF6" | "US" => pattern.fraction(fields.micros, 6, out),
        "SSSS" | "SSSSS" => number((fields.hour * 60 + fields.minute) * 60 + fields.second, 1, out),
        "TZ" => {
            days()?;
            word(&fields.abbreviation, 0, out);
        }
        "TZH" => {
            days()?;
            out.push(sign_of(fields.offset));
            out.push_str(&format!("{:02}", fields.offset.abs() / 3600));
        }
        "TZM" => {
            days()?;
            out.push_str(&format!("{:02}", fields.offset.abs() % 3600 / 60));
        }
        "OF" => {
            days()?;
            pattern.offset(fields.offset, out);
        }
        "MONTH" => days().map(|_| word(MONTHS[(fields.month - 1) as usize], 9, out))?,
        "MON" => days().map(|_| word(&MONTHS[(fields.month - 1) as usize][..3], 0, out))?,
        "MM" => number(fields.month, 2, out),
        "DAY" => word(DAYS[(days()? + 4).rem_euclid(7) as usize], 9, out),
        "DY" => word(&DAYS[(days()? + 4).rem_euclid(7) as usize][..3], 0, out),
        "DDD" => number(fields.day_of_year, 3, out),
        "IDDD" => {
            let (_, week) = iso_week(days()?);
            number((week - 1) * 7 + iso_day(days()?), 3, out);
        }
        "DD" => number(fields.day, 2, out),
        "D" => number((days()? + 4).rem_euclid(7) + 1, 1, out),
        "ID" => number(iso_day(days()?), 1, out),
        "WW" => number((fields.day_of_year - 1) / 7 + 1, 2, out),
        "IW" => number(iso_week(days()?).1, 2, out),
        "W" => number((fields.day - 1) / 7 + 1, 1, out),
        "Q" if fields.month != 0 => number((fields.month - 1) / 3 + 1, 1, out),
        "Q" => {}
        "CC" => number(if fields.days.is_some() { (fields.year - 1) / 100 + 1 } else { fields.year / 100 }, 2, out),
        "Y,YYY" => pattern.digits(&format!("{},{:03}", fields.year / 1000, fields.year % 1000), out),
        "YYYY" => number(fields.year, 4, out),
        "YYY" => number(fields.year % 1000, 3, out),
        "YY" => number(fields.year % 100, 2, out),
        "Y" => number(fields.year % 10, 1, out),
        "IYYY" => number(iso_week(days()?).0, 4, out),
        "IYY" => number(iso_week(days()?).0 % 1000, 3, out),
        "IY" => number(iso_week(days()?).0 % 100, 2, out),
        "I" => number(iso_week(days()?).0 % 10, 1, out),
        "RM" if fields.days.is_some() => word(ROMAN[(fields.month - 1) as usize], 4, out),
        "J" if fields.days.is_some() => number(days()? + 2_440_588, 1, out),
        "FX" => {}
        _ => {
            let written = pattern.written;
            return Err(Error::unsupported(format!("the pattern {written} of to_char is not supported here")));
        }
    }
    Ok(())
}

/// `st`, `nd`, `rd` or `th` of a number.
fn ordinal_of(digits: &str, upper: bool) -> &'static str {
    let bytes = digits.as_bytes();
    let is_teen = bytes.len() > 1 && bytes[bytes.len() - 2] == b'1';
    let ending = match bytes.last() {
        Some(b'1') if !is_teen => ["st", "ST"],
        Some(b'2') if !is_teen => ["nd", "ND"],
        Some(b'3') if !is_teen => ["rd", "RD"],
        _ => ["th", "TH"],
    };
    ending[usize::from(upper)]
}
