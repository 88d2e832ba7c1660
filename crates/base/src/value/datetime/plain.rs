//! The short way for the one form that nearly all dates and timestamps come in: `2020-01-31`, `2020-01-31 04:05:06.789`.
//!
//! Called by `parse` first. Says nothing about any other text, and never reads one in another way than `parse` does:
//! years have four digits, days are on the calendar, and there are no leap seconds, no 24:00 and no zones.

use super::{DAY_MICROS, SECOND_MICROS, days_from_civil};

/// Days since 1970.
pub(super) fn date(text: &[u8]) -> Option<i32> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = *text else { return None };
    let year = number(&[y1, y2, y3, y4])?;
    let month = number(&[m1, m2])?;
    let day = number(&[d1, d2])?;
    // Years before are rare, and short ones are completed.
    if year < 1000 || !(1..=12).contains(&month) || !(1..=days_of(year, month)).contains(&day) {
        return None;
    }
    Some(days_from_civil(year, month, day) as i32)
}

/// Microseconds since 1970.
pub(super) fn timestamp(text: &[u8]) -> Option<i64> {
    let (day, [b' ', h1, h2, b':', m1, m2, b':', s1, s2, rest @ ..]) = text.split_at_checked(10)? else { return None };
    let days = i64::from(date(day)?);
    let (hour, minute, second) = (number(&[*h1, *h2])?, number(&[*m1, *m2])?, number(&[*s1, *s2])?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let micros = match rest {
        [] => 0,
        [b'.', digits @ ..] if (1..=6).contains(&digits.len()) => number(digits)? * 10i64.pow(6 - digits.len() as u32),
        _ => return None,
    };
    Some(days * DAY_MICROS + ((hour * 60 + minute) * 60 + second) * SECOND_MICROS + micros)
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0')))
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests;
