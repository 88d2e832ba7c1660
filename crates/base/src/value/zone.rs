//! Time zones: the setting `TimeZone`, the zones that a timestamp's text names, and offsets at an instant.
//!
//! Called by `datetime` and by the session for `SET TIME ZONE`. Never reads the machine's own zone or zone files.

use std::fmt;

use chrono::{LocalResult, NaiveDateTime, Offset, TimeDelta, TimeZone};
use chrono_tz::OffsetName;

use crate::{Error, ErrorCode, Result};

use super::datetime::{DAY_MICROS, civil_from_days, days_from_civil};

/// Abbreviations of a fixed meaning, as PostgreSQL's default set has them, with seconds east of UTC.
const ABBREVIATIONS: &str = "\
    Z 0 ZULU 0 UTC 0 UCT 0 UT 0 GMT 0 WET 0 WETDST 3600 BST 3600 BDST 7200 CET 3600 CETDST 7200 CEST 7200 MET 3600 \
    METDST 7200 MEST 7200 MESZ 7200 MEZ 3600 EET 7200 EETDST 10800 EEST 10800 FET 10800 MSD 14400 \
    EST -18000 EDT -14400 CST -21600 CDT -18000 MST -25200 MDT -21600 PST -28800 PDT -25200 AKST -32400 AKDT -28800 \
    HST -36000 AST -14400 ADT -10800 NST -12600 NDT -9000 NFT -12600 ACT -18000 BOT -14400 BRA -10800 BRT -10800 \
    BRST -7200 CLST -10800 COT -18000 EGT -3600 EGST 0 FNT -7200 FNST -3600 GFT -10800 PET -18000 PMST -10800 \
    PMDT -7200 PYST -10800 UYT -10800 UYST -7200 WGT -10800 WGST -7200 AZOT -3600 AZOST 0 EAT 10800 SAST 7200 \
    WAT 3600 AFT 16200 ALMT 21600 ALMST 25200 AMT -14400 BDT 21600 BNT 28800 BORT 28800 BTT 21600 CCT 28800 \
    DDUT 36000 HKT 28800 ICT 25200 IDT 10800 IRT 12600 IST 7200 JAYT 32400 JST 32400 KDT 36000 KGST 21600 KST 32400 \
    MMT 23400 MYT 28800 NPT 20700 PHT 28800 PKT 18000 PKST 21600 TJT 18000 ULAST 32400 UZT 18000 UZST 21600 \
    XJT 21600 YEKST 21600 ACSST 37800 ACDT 37800 ACST 34200 ACWST 31500 AESST 39600 AEDT 39600 AEST 36000 \
    AWSST 32400 AWST 28800 CADT 37800 CAST 34200 LHST 37800 LIGT 36000 NZT 43200 NZST 43200 NZDT 46800 SADT 37800 \
    WADT 28800 WAST 25200 WDT 32400 CXT 25200 MUT 14400 MUST 18000 MVT 18000 RET 14400 SCT 14400 TFT 18000 \
    CHADT 49500 CHAST 45900 CHUT 36000 FJT 43200 FJST 46800 GALT -21600 GAMT -32400 GILT 43200 MART -34200 \
    MHT 43200 MPT 36000 PGT 36000 PONT 39600 PWT 32400 TAHT -36000 TOT 46800 TRUT 36000 TVT 43200 VUT 39600 \
    WAKT 43200 WFT 43200 YAPT 36000";

/// The last year of the compiled-in transitions; later years repeat an earlier year of the same shape.
const TRANSITIONS_YEAR_MAX: i64 = 2099;

/// A time zone of a session or of a timestamp's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Zone {
    /// UTC.
    #[default]
    Utc,
    /// Seconds east of UTC.
    Fixed(i32),
    /// A zone of the time zone database.
    Named(chrono_tz::Tz),
}

impl Zone {
    /// Reads a value of the setting `TimeZone`: a name of the time zone database, hours east of UTC, or a POSIX zone
    /// without daylight saving (whose sign is the other way round: `UTC+3` is west).
    pub fn parse(text: &str) -> Result<Self> {
        let invalid = || {
            Error::new(
                ErrorCode::InvalidParameterValue,
                format!("invalid value for parameter \"TimeZone\": \"{text}\""),
            )
        };
        if let Ok(hours) = text.parse::<f64>() {
            if hours.is_finite() && hours.abs() <= 167.0 {
                return Ok(Self::fixed((hours * 3600.0) as i32));
            }
            return Err(invalid().with_detail("UTC timezone offset is out of range."));
        }
        Self::by_name(text).ok_or_else(invalid)
    }

    /// The zone that `AT TIME ZONE` names: an abbreviation first, then as [`Self::parse`] reads names.
    ///
    /// # Errors
    /// 22023
    pub fn named(text: &str) -> Result<Self> {
        Self::by_abbreviation(text)
            .or_else(|| Self::by_name(text))
            .ok_or_else(|| Error::new(ErrorCode::InvalidParameterValue, format!("time zone \"{text}\" not recognized")))
    }

    /// A full name of the time zone database in any case, or a POSIX zone.
    pub(super) fn by_name(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("utc") {
            return Some(Self::Utc);
        }
        let named = chrono_tz::TZ_VARIANTS.iter().find(|zone| zone.name().eq_ignore_ascii_case(name));
        named.map(|&zone| Self::Named(zone)).or_else(|| posix(name).map(Self::fixed))
    }

    /// An abbreviation such as `PST`, in any case.
    pub(super) fn by_abbreviation(name: &str) -> Option<Self> {
        let mut words = ABBREVIATIONS.split_ascii_whitespace();
        while let (Some(word), Some(offset)) = (words.next(), words.next()) {
            if word.eq_ignore_ascii_case(name) {
                return offset.parse().ok().map(Self::fixed);
            }
        }
        None
    }

    fn fixed(seconds_east: i32) -> Self {
        if seconds_east == 0 { Self::Utc } else { Self::Fixed(seconds_east) }
    }

    /// Seconds east of UTC at an instant, in microseconds since 1970 UTC.
    pub fn offset_at(self, utc_micros: i64) -> i32 {
        match self {
            Self::Utc => 0,
            Self::Fixed(offset) => offset,
            Self::Named(zone) => naive(settled(zone, utc_micros)).map_or(0, |utc| utc_offset(zone, &utc)),
        }
    }

    /// What people call the zone at an instant: `CEST`, `+03`.
    pub fn abbreviation_at(self, utc_micros: i64) -> String {
        match self {
            Self::Utc => "UTC".to_owned(),
            Self::Named(zone) => naive(settled(zone, utc_micros)).map_or_else(String::new, |utc| {
                let offset = zone.offset_from_utc_datetime(&utc);
                // Where people use no letters, the database has the offset in the place of a name.
                let digits = || offset_digits(offset.fix().local_minus_utc());
                OffsetName::abbreviation(&offset).map_or_else(digits, str::to_owned)
            }),
            Self::Fixed(_) => {
                let shown = self.to_string();
                shown.trim_start_matches('<').split('>').next().unwrap_or_default().to_owned()
            }
        }
    }

    /// Seconds east of UTC at a local time, in microseconds since 1970 on the local clock. A time that a change of
    /// the clock skipped is read with the offset before it, and a time that occurs twice with the offset after it.
    pub fn offset_at_local(self, local_micros: i64) -> i32 {
        match self {
            Self::Utc => 0,
            Self::Fixed(offset) => offset,
            Self::Named(zone) => {
                let Some(local) = naive(settled(zone, local_micros)) else { return 0 };
                match zone.offset_from_local_datetime(&local) {
                    LocalResult::Single(offset) | LocalResult::Ambiguous(_, offset) => offset.fix().local_minus_utc(),
                    // No zone changes its clock twice in two days, and no offset is as large as one.
                    LocalResult::None => self.offset_at(local_micros - DAY_MICROS),
                }
            }
        }
    }
}

impl fmt::Display for Zone {
    /// The value of `SHOW TimeZone`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Utc => f.write_str("UTC"),
            Self::Named(zone) => f.write_str(zone.name()),
            Self::Fixed(offset) => {
                let (name, posix) = if *offset < 0 { ('-', '+') } else { ('+', '-') };
                let seconds = offset.unsigned_abs();
                let mut clock = format!("{:02}", seconds / 3600);
                if !seconds.is_multiple_of(3600) {
                    clock += &format!(":{:02}", seconds / 60 % 60);
                }
                if !seconds.is_multiple_of(60) {
                    clock += &format!(":{:02}", seconds % 60);
                }
                write!(f, "<{name}{clock}>{posix}{clock}")
            }
        }
    }
}

/// `+01`, `+0530`: an offset from UTC, in seconds, as the time zone database writes it.
fn offset_digits(east: i32) -> String {
    let (sign, seconds) = (if east < 0 { '-' } else { '+' }, east.unsigned_abs());
    let mut digits = format!("{sign}{:02}", seconds / 3600);
    if !seconds.is_multiple_of(3600) {
        digits += &format!("{:02}", seconds / 60 % 60);
    }
    if !seconds.is_multiple_of(60) {
        digits += &format!("{:02}", seconds % 60);
    }
    digits
}

fn utc_offset(zone: chrono_tz::Tz, utc: &NaiveDateTime) -> i32 {
    zone.offset_from_utc_datetime(utc).fix().local_minus_utc()
}

/// A time beyond the compiled-in transitions of a zone whose clock does not change any more is as good as one in their
/// last year. Morocco changes its clock for each Ramadan up to 2087, which no later year repeats.
fn settled(zone: chrono_tz::Tz, micros: i64) -> i64 {
    let (year, ..) = civil_from_days(micros.div_euclid(DAY_MICROS));
    if year <= TRANSITIONS_YEAR_MAX {
        return micros;
    }
    let start_of = |month| days_from_civil(TRANSITIONS_YEAR_MAX, month, 1) * DAY_MICROS;
    let offset_in = |month| naive(start_of(month)).map(|utc| utc_offset(zone, &utc));
    let changes = [4, 7, 10].into_iter().any(|month| offset_in(month) != offset_in(1));
    if changes { micros } else { start_of(7) }
}

/// The instant, or one of the same month, day and weekday that the transitions cover.
fn naive(micros: i64) -> Option<NaiveDateTime> {
    let days = micros.div_euclid(DAY_MICROS);
    let (year, ..) = civil_from_days(days);
    // The calendar repeats every 28 years while no century year is left out, and every 400 in any case.
    let shift = if year > TRANSITIONS_YEAR_MAX { days_from_civil(year, 1, 1) - same_shape(year) } else { 0 };
    let micros = micros - shift * DAY_MICROS;
    NaiveDateTime::default().checked_add_signed(TimeDelta::microseconds(micros))
}

/// The first day of the last covered year with the length and the weekdays of this one.
fn same_shape(year: i64) -> i64 {
    let length = |year| days_from_civil(year + 1, 1, 1) - days_from_civil(year, 1, 1);
    let first = days_from_civil(year, 1, 1);
    (TRANSITIONS_YEAR_MAX - 27..=TRANSITIONS_YEAR_MAX)
        .rev()
        .find(|&twin| length(twin) == length(year) && (days_from_civil(twin, 1, 1) - first) % 7 == 0)
        .map_or(first, |twin| days_from_civil(twin, 1, 1))
}

/// A POSIX zone without daylight saving: a name of three letters or more, or one in angle brackets, and hours west.
/// PostgreSQL takes no name at all as well.
fn posix(text: &str) -> Option<i32> {
    let offset = match text.strip_prefix('<') {
        Some(rest) => rest.split_once('>')?.1,
        None => {
            let rest = text.trim_start_matches(|char: char| char.is_ascii_alphabetic());
            let name = text.len() - rest.len();
            if name != 0 && name < 3 {
                return None;
            }
            rest
        }
    };
    let (west, clock) = match offset.strip_prefix('-') {
        Some(clock) => (-1, clock),
        None => (1, offset.strip_prefix('+').unwrap_or(offset)),
    };
    let mut seconds = 0;
    let mut parts = clock.split(':');
    for (unit, limit) in [(3600, 167), (60, 59), (1, 59)] {
        let Some(part) = parts.next() else { break };
        if part.is_empty() || part.len() > 3 || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        seconds += part.parse().ok().filter(|&number: &i32| number <= limit)? * unit;
    }
    parts.next().is_none().then_some(-west * seconds)
}

#[cfg(test)]
mod tests;
