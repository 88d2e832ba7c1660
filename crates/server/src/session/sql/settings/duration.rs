//! Settings that are a length of time: as clients write them, and as SHOW writes them.
//!
//! Called by `settings`. Reads what PostgreSQL reads: integers of three bases, decimals, exponents, and a unit.

use ashlar_base::{Error, ErrorCode, Result};

use super::invalid;

/// Units and their milliseconds, the longest first.
const UNITS: &[(&str, f64)] =
    &[("d", 86_400_000.0), ("h", 3_600_000.0), ("min", 60_000.0), ("s", 1000.0), ("ms", 1.0), ("us", 0.001)];

/// The milliseconds of `100`, `100ms`, `1.5s`, `0x10`, `1e3 s`.
///
/// # Errors
/// 22023
pub(super) fn milliseconds(name: &str, text: &str) -> Result<u64> {
    let refused = || invalid(name, text);
    let text = text.trim_start();
    let (number, rest) = number(text).ok_or_else(refused)?;
    let unit = rest.trim();
    let factor = match UNITS.iter().find(|(known, _)| *known == unit) {
        Some((_, factor)) => *factor,
        None if unit.is_empty() => 1.0,
        None => {
            let hint = r#"Valid units for this parameter are "us", "ms", "s", "min", "h", and "d"."#;
            return Err(refused().with_hint(hint));
        }
    };
    let milliseconds = (number * factor).round_ties_even();
    if milliseconds > f64::from(i32::MAX) {
        return Err(refused().with_hint("Value exceeds integer range."));
    }
    if milliseconds < 0.0 {
        let message =
            format!("{milliseconds} ms is outside the valid range for parameter \"{name}\" (0 .. {})", i32::MAX);
        return Err(Error::new(ErrorCode::InvalidParameterValue, message));
    }
    Ok(milliseconds as u64)
}

/// The number that a text begins with, as C's `strtol` and `strtod` read it, and what comes behind it.
pub(super) fn number(text: &str) -> Option<(f64, &str)> {
    let (sign, digits) = match text.as_bytes().first() {
        Some(b'-') => (-1.0, &text[1..]),
        Some(b'+') => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        let end = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
        let value = u64::from_str_radix(&hex[..end], 16).ok()?;
        return Some((sign * value as f64, &hex[end..]));
    }
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let is_integer = !digits[end..].starts_with(['.', 'e', 'E']);
    if is_integer && end > 1 && digits.starts_with('0') {
        let value = u64::from_str_radix(&digits[..end], 8).ok()?;
        return Some((sign * value as f64, &digits[end..]));
    }
    let mut end = end;
    if digits[end..].starts_with('.') {
        let fraction = &digits[end + 1..];
        end += 1 + fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len());
    }
    if let Some(exponent) = digits[end..].strip_prefix(['e', 'E']) {
        let signed = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        let length = signed.find(|c: char| !c.is_ascii_digit()).unwrap_or(signed.len());
        if length > 0 {
            end += 1 + (exponent.len() - signed.len()) + length;
        }
    }
    let value: f64 = digits[..end].parse().ok()?;
    Some((sign * value, &digits[end..]))
}

/// As SHOW writes it: in the longest unit that has no fraction.
pub(super) fn shown(milliseconds: u64) -> String {
    if milliseconds == 0 {
        return "0".to_owned();
    }
    let whole = UNITS.iter().find(|(_, factor)| milliseconds.is_multiple_of((*factor).max(1.0) as u64));
    let (unit, factor) = whole.copied().unwrap_or(("ms", 1.0));
    format!("{}{unit}", milliseconds / factor.max(1.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As PostgreSQL 15 answers `SET statement_timeout = ...` and `SHOW statement_timeout`.
    #[test]
    fn lengths_of_time_are_read_and_shown_as_postgresql_does() {
        let cases = [
            ("0", "0"),
            ("100", "100ms"),
            ("1000", "1s"),
            ("1.5s", "1500ms"),
            ("90s", "90s"),
            ("120000", "2min"),
            ("0.4ms", "0"),
            ("0.6ms", "1ms"),
            ("100us", "0"),
            (" 5 s ", "5s"),
            ("1.6", "2ms"),
            ("0x10", "16ms"),
            ("010", "8ms"),
            ("1e3", "1s"),
            ("1e3 s", "1000s"),
            ("1d", "1d"),
            ("2147483647", "2147483647ms"),
        ];
        for (written, expected) in cases {
            assert_eq!(milliseconds("statement_timeout", written).map(shown), Ok(expected.to_owned()), "{written}");
        }
    }

    #[test]
    fn what_is_no_length_of_time_is_refused_in_the_words_of_postgresql() {
        let refused = |text: &str| {
            let error = milliseconds("t", text).expect_err(text);
            (error.message().to_owned(), error.fields().hint.clone().unwrap_or_default())
        };
        let units = r#"Valid units for this parameter are "us", "ms", "s", "min", "h", and "d"."#;
        assert_eq!(refused("abc"), (r#"invalid value for parameter "t": "abc""#.to_owned(), String::new()));
        assert_eq!(refused(""), (r#"invalid value for parameter "t": """#.to_owned(), String::new()));
        assert_eq!(refused("5 foo"), (r#"invalid value for parameter "t": "5 foo""#.to_owned(), units.to_owned()));
        assert_eq!(
            refused("2147483648"),
            (r#"invalid value for parameter "t": "2147483648""#.to_owned(), "Value exceeds integer range.".to_owned())
        );
        let range = r#"-1 ms is outside the valid range for parameter "t" (0 .. 2147483647)"#;
        assert_eq!(refused("-1"), (range.to_owned(), String::new()));
    }
}
