//! Collects the fields of a date and time from tokens: which number is the year, which the day, what a word means.
//!
//! Called by `datetime::parse`, one token at a time. The order of ambiguous dates is month, day, year.

use super::parse::{Clock, Problem, fraction_micros};
use super::tokens::{Kind, Token};
use super::{DAY_MICROS, Zone, days_from_civil};

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const WEEKDAYS: [&str; 18] = [
    "sunday",
    "sun",
    "monday",
    "mon",
    "tuesday",
    "tue",
    "tues",
    "wednesday",
    "wed",
    "weds",
    "thursday",
    "thu",
    "thur",
    "thurs",
    "friday",
    "fri",
    "saturday",
    "sat",
];

/// What a word means; zones aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Month(i64),
    Weekday,
    /// `at`, `on`
    Noise,
    Am,
    Pm,
    BeforeChrist,
    AnnoDomini,
    /// The `T` before an ISO time.
    IsoTime,
    Epoch,
    /// Midnight UTC.
    Allballs,
    Unsupported(&'static str),
}

fn word(text: &str) -> Option<Word> {
    let lower = text.to_ascii_lowercase();
    let month = MONTHS
        .iter()
        .position(|month| *month == lower || month[..3] == lower || (*month == "september" && lower == "sept"));
    if let Some(month) = month {
        return Some(Word::Month(month as i64 + 1));
    }
    if WEEKDAYS.contains(&lower.as_str()) {
        return Some(Word::Weekday);
    }
    Some(match lower.as_str() {
        "at" | "on" => Word::Noise,
        "am" => Word::Am,
        "pm" => Word::Pm,
        "bc" => Word::BeforeChrist,
        "ad" => Word::AnnoDomini,
        "t" => Word::IsoTime,
        "epoch" => Word::Epoch,
        "allballs" => Word::Allballs,
        "now" | "today" | "tomorrow" | "yesterday" => Word::Unsupported(
            "now, today, tomorrow and yesterday are not supported as input; use current_timestamp or current_date",
        ),
        "infinity" => Word::Unsupported("infinite dates and timestamps are not supported"),
        _ => return None,
    })
}

/// Whether letters directly before digits or a plus are a word of their own.
pub(super) fn is_word(text: &str) -> bool {
    word(text).is_some()
}

/// The fields seen so far.
pub(super) struct Fields {
    /// Numbers are times: no date is expected.
    time_only: bool,
    year: Option<i64>,
    /// The year had one or two digits.
    short_year: bool,
    month: Option<i64>,
    /// The month was a name.
    named_month: bool,
    day: Option<i64>,
    day_of_year: Option<i64>,
    weekday: bool,
    clock: Option<Clock>,
    afternoon: Option<bool>,
    before_christ: Option<bool>,
    zone: Option<Zone>,
    /// A `T` stands before the next token.
    iso_time: bool,
}

impl Fields {
    pub(super) fn new(time_only: bool) -> Self {
        Self {
            time_only,
            year: None,
            short_year: false,
            month: None,
            named_month: false,
            day: None,
            day_of_year: None,
            weekday: false,
            clock: None,
            afternoon: None,
            before_christ: None,
            zone: None,
            iso_time: false,
        }
    }

    fn has_date(&self) -> bool {
        self.year.is_some() && (self.day_of_year.is_some() || (self.month.is_some() && self.day.is_some()))
    }

    fn has_no_date(&self) -> bool {
        self.year.is_none() && self.month.is_none() && self.day.is_none()
    }

    /// Takes the next token; `next` is the kind of the one after it.
    pub(super) fn add(&mut self, token: Token<'_>, next: Option<Kind>) -> Result<(), Problem> {
        let after_t = std::mem::take(&mut self.iso_time);
        match token.kind {
            Kind::Date if after_t || self.has_date() || self.time_only => self.late_date(token.text),
            Kind::Date => self.date_token(token.text),
            Kind::Time => set(&mut self.clock, read_clock(token.text)?),
            Kind::Offset => set(&mut self.zone, read_offset(token.text)?),
            Kind::Number if after_t || self.time_only => self.time_number(token.text),
            Kind::Number => self.number(token.text),
            Kind::Word => self.word(token.text, next),
            Kind::Signed if token.text.trim_start_matches(['+', '-']).trim_start().eq_ignore_ascii_case("infinity") => {
                Err(Problem::Unsupported("infinite dates and timestamps are not supported"))
            }
            Kind::Signed => Err(Problem::Format),
        }
    }

    fn word(&mut self, text: &str, next: Option<Kind>) -> Result<(), Problem> {
        let meaning = if let Some(zone) = Zone::by_abbreviation(text) {
            return set(&mut self.zone, zone);
        } else if let Some(meaning) = word(text) {
            meaning
        } else {
            return set(&mut self.zone, Zone::by_name(text).ok_or(Problem::Format)?);
        };
        match meaning {
            Word::Weekday | Word::Month(_) | Word::Epoch if self.time_only => Err(Problem::Format),
            Word::Noise => Ok(()),
            Word::Weekday => {
                self.weekday = true;
                Ok(())
            }
            Word::Month(month) => self.month_name(month),
            Word::Am => set(&mut self.afternoon, false),
            Word::Pm => set(&mut self.afternoon, true),
            Word::AnnoDomini => set(&mut self.before_christ, false),
            Word::BeforeChrist => set(&mut self.before_christ, true),
            Word::IsoTime => {
                self.iso_time = true;
                let time_follows = matches!(next, Some(Kind::Number | Kind::Time | Kind::Date));
                if (self.has_date() || self.time_only) && time_follows { Ok(()) } else { Err(Problem::Format) }
            }
            Word::Epoch => {
                set(&mut self.year, 1970)?;
                set(&mut self.month, 1)?;
                set(&mut self.day, 1)?;
                set(&mut self.clock, Clock::default())?;
                set(&mut self.zone, Zone::Utc)
            }
            Word::Allballs => {
                set(&mut self.clock, Clock::default())?;
                set(&mut self.zone, Zone::Utc)
            }
            Word::Unsupported(message) => Err(Problem::Unsupported(message)),
        }
    }

    fn month_name(&mut self, month: i64) -> Result<(), Problem> {
        match self.month {
            // What was taken for the month was the day before it.
            Some(day) if !self.named_month && self.day.is_none() && (1..=31).contains(&day) => self.day = Some(day),
            Some(_) => return Err(Problem::Format),
            None => {}
        }
        self.month = Some(month);
        self.named_month = true;
        Ok(())
    }

    /// A token with separators, where no date is expected any more: a time with its zone, or the name of a zone.
    fn late_date(&mut self, text: &str) -> Result<(), Problem> {
        if text.starts_with(|char: char| char.is_ascii_digit()) {
            let at = text.find('-').ok_or(Problem::Format)?;
            set(&mut self.zone, read_offset(&text[at..])?)?;
            return self.time_number(&text[..at]);
        }
        let zone = Zone::by_name(text).ok_or_else(|| Problem::UnknownZone(text.to_ascii_lowercase()))?;
        set(&mut self.zone, zone)
    }

    /// A whole date with separators. Nothing but a zone may come before it.
    fn date_token(&mut self, text: &str) -> Result<(), Problem> {
        let others = self.clock.is_some() || self.afternoon.is_some() || self.before_christ.is_some() || self.weekday;
        if others || !self.has_no_date() {
            return Err(Problem::Format);
        }
        let mut pieces = Vec::new();
        for part in text.split(|char: char| !char.is_ascii_alphanumeric()).filter(|part| !part.is_empty()) {
            // A day may stand directly before its month's name: `8Jan`.
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            pieces.extend([&part[..digits], &part[digits..]].into_iter().filter(|piece| !piece.is_empty()));
        }
        for piece in pieces.iter().filter(|piece| piece.starts_with(|char: char| char.is_ascii_alphabetic())) {
            match word(piece) {
                Some(Word::Month(month)) => self.month_name(month)?,
                Some(Word::Noise | Word::Weekday) => {}
                _ => return Err(Problem::Format),
            }
        }
        for piece in pieces.iter().filter(|piece| piece.starts_with(|char: char| char.is_ascii_digit())) {
            self.date_number(piece)?;
        }
        // A number too many was taken for a time.
        if self.has_date() && self.clock.is_none() { Ok(()) } else { Err(Problem::Format) }
    }

    /// Digits that stand alone, perhaps with a point.
    fn number(&mut self, text: &str) -> Result<(), Problem> {
        let whole = text.find('.').unwrap_or(text.len());
        let has_point = whole < text.len();
        if has_point && self.has_no_date() {
            self.date_token(text)
        } else if has_point && whole <= 2 {
            Err(Problem::Format)
        } else if has_point || (text.len() >= 6 && (self.has_no_date() || self.clock.is_none())) {
            self.run_together(text)
        } else {
            self.date_number(text)
        }
    }

    /// `20200131`, `200131`, `040506.789`, `0405`: a date while none is complete, then a time.
    fn run_together(&mut self, text: &str) -> Result<(), Problem> {
        let has_point = text.contains('.');
        if !has_point && !self.has_date() {
            if text.len() < 6 {
                return Err(Problem::Format);
            }
            let (year, rest) = text.split_at(text.len() - 4);
            set(&mut self.year, integer(year)?)?;
            self.short_year = year.len() == 2;
            set(&mut self.month, integer(&rest[..2])?)?;
            return set(&mut self.day, integer(&rest[2..])?);
        }
        self.time_number(text)
    }

    /// `hhmm`, `hhmmss` or `hhmmss.fff`.
    fn time_number(&mut self, text: &str) -> Result<(), Problem> {
        let whole = text.find('.').unwrap_or(text.len());
        let (digits, fraction) = text.split_at(whole);
        let micros = if fraction.is_empty() { 0 } else { fraction_micros(fraction).ok_or(Problem::Format)? };
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Problem::Format);
        }
        let clock = match digits.len() {
            6 => Clock {
                hour: integer(&digits[..2])?,
                minute: integer(&digits[2..4])?,
                second: integer(&digits[4..])?,
                micros,
            },
            4 => Clock { hour: integer(&digits[..2])?, minute: integer(&digits[2..])?, second: 0, micros },
            _ => return Err(Problem::Format),
        };
        set(&mut self.clock, clock)
    }

    /// One number of a date, by what is known already: month, then day, then year, unless it has three digits.
    fn date_number(&mut self, text: &str) -> Result<(), Problem> {
        if self.has_date() {
            return self.run_together(text);
        }
        let value = integer(text)?;
        let long = text.len() >= 3;
        match (self.year.is_some(), self.month.is_some(), self.day.is_some()) {
            (true, false, false) if text.len() == 3 && (1..=366).contains(&value) => {
                return set(&mut self.day_of_year, value);
            }
            (false, false, false) if long => self.set_year(text, value),
            (false, false, false) | (true, false, false) | (false, false, true) => self.month = Some(value),
            (false, true, false) if long && self.named_month => self.set_year(text, value),
            (false, true, false) => self.day = Some(value),
            (true, true, false) if long && self.named_month && self.short_year => {
                // What was taken for the year was the day.
                self.day = self.year;
                self.set_year(text, value);
            }
            (true, true, false) => self.day = Some(value),
            (false, true, true) => self.set_year(text, value),
            (true, true, true) | (true, false, true) => return Err(Problem::Format),
        }
        Ok(())
    }

    fn set_year(&mut self, text: &str, value: i64) {
        self.year = Some(value);
        self.short_year = text.len() <= 2;
    }

    /// The date, checked; `None` where nothing of it was written.
    pub(super) fn date(&self) -> Result<Option<(i64, i64, i64)>, Problem> {
        let year = match (self.year, self.before_christ) {
            (Some(year), Some(true)) if year > 0 => Some(1 - year),
            (Some(_), Some(true)) => return Err(Problem::Range),
            (Some(year @ 0..70), _) if self.short_year => Some(year + 2000),
            (Some(year @ 70..100), _) if self.short_year => Some(year + 1900),
            (Some(year), _) if year <= 0 => return Err(Problem::Range),
            (year, _) => year,
        };
        if let (Some(year), Some(day_of_year)) = (year, self.day_of_year) {
            if self.month.is_some() || self.day.is_some() {
                return Err(Problem::Format);
            }
            let length = days_from_civil(year + 1, 1, 1) - days_from_civil(year, 1, 1);
            if day_of_year > length {
                return Err(Problem::Range);
            }
            let (year, month, day) = super::civil_from_days(days_from_civil(year, 1, 1) + day_of_year - 1);
            return Ok(Some((year, month, day)));
        }
        if self.month.is_some_and(|month| !(1..=12).contains(&month))
            || self.day.is_some_and(|day| !(1..=31).contains(&day))
        {
            return Err(Problem::MonthOrDay);
        }
        match (year, self.month, self.day) {
            (Some(year), Some(month), Some(day)) => {
                let (next_year, next_month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
                if day > days_from_civil(next_year, next_month, 1) - days_from_civil(year, month, 1) {
                    return Err(Problem::Range);
                }
                Ok(Some((year, month, day)))
            }
            (None, None, None) => Ok(None),
            _ => Err(Problem::Format),
        }
    }

    /// The time of day, checked; `None` where none was written.
    pub(super) fn clock(&self) -> Result<Option<Clock>, Problem> {
        let Some(mut clock) = self.clock else {
            return if self.afternoon.is_some() { Err(Problem::Format) } else { Ok(None) };
        };
        match self.afternoon {
            Some(_) if clock.hour > 12 => return Err(Problem::Range),
            Some(true) if clock.hour != 12 => clock.hour += 12,
            Some(false) if clock.hour == 12 => clock.hour = 0,
            _ => {}
        }
        // A leap second and 24:00 are the next midnight, and nothing is beyond it.
        if clock.minute > 59 || clock.second > 60 || clock.micros() > DAY_MICROS {
            return Err(Problem::Range);
        }
        Ok(Some(clock))
    }

    /// The zone that was written.
    pub(super) fn zone(&self) -> Option<Zone> {
        self.zone
    }
}

/// No field may be written twice.
fn set<T>(field: &mut Option<T>, value: T) -> Result<(), Problem> {
    if field.replace(value).is_some() { Err(Problem::Format) } else { Ok(()) }
}

fn integer(text: &str) -> Result<i64, Problem> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Problem::Format);
    }
    text.parse::<i32>().map(i64::from).map_err(|_| Problem::Range)
}

/// `hh:mm`, `hh:mm:ss` or `hh:mm:ss.fff`.
fn read_clock(text: &str) -> Result<Clock, Problem> {
    let (hour, rest) = text.split_once(':').ok_or(Problem::Format)?;
    let (minute, second) = rest.split_once(':').map_or((rest, None), |(minute, second)| (minute, Some(second)));
    let mut clock = Clock { hour: integer(hour)?, minute: integer(minute)?, ..Clock::default() };
    if let Some(second) = second {
        let whole = second.find('.').unwrap_or(second.len());
        clock.second = integer(&second[..whole])?;
        if whole < second.len() {
            clock.micros = fraction_micros(&second[whole..]).ok_or(Problem::Format)?;
        }
    }
    if clock.minute > 59 || clock.second > 60 { Err(Problem::Range) } else { Ok(clock) }
}

/// A sign and `hh`, `hhmm`, `hh:mm` or `hh:mm:ss`.
fn read_offset(text: &str) -> Result<Zone, Problem> {
    let negative = text.starts_with('-');
    let mut parts = text[1..].trim_start().split(':');
    let first = parts.next().unwrap_or_default();
    let mut hours = integer(first)?;
    let mut minutes = 0;
    let mut seconds = 0;
    if let Some(part) = parts.next() {
        minutes = integer(part)?;
        if let Some(part) = parts.next() {
            seconds = integer(part)?;
        }
    } else if first.len() > 2 {
        minutes = hours % 100;
        hours /= 100;
    }
    if parts.next().is_some() {
        return Err(Problem::Format);
    }
    if hours > 15 || minutes > 59 || seconds > 59 {
        return Err(Problem::Offset);
    }
    let east = (hours * 3600 + minutes * 60 + seconds) as i32;
    Ok(match if negative { -east } else { east } {
        0 => Zone::Utc,
        offset => Zone::Fixed(offset),
    })
}
