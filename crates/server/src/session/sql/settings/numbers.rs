//! Settings that are a number without a unit: as clients write them.
//!
//! Called by `settings`.

use ashlar_base::{Error, ErrorCode, Result};

use super::{duration, invalid};

/// The whole number of `8`, `0x10`, `1.6`, from the first to the second.
///
/// # Errors
/// 22023
pub(super) fn integer(name: &str, (least, most): (i64, i64), text: &str) -> Result<i64> {
    let number = number(name, text)?.round_ties_even();
    if number.abs() > f64::from(i32::MAX) {
        return Err(invalid(name, text).with_hint("Value exceeds integer range."));
    }
    let number = number as i64;
    if (least..=most).contains(&number) { Ok(number) } else { Err(outside(name, &number, &least, &most)) }
}

/// The number of `0.5`, `1e3`, from the first to the second.
///
/// # Errors
/// 22023
pub(super) fn real(name: &str, (least, most): (f64, f64), text: &str) -> Result<f64> {
    let number = number(name, text)?;
    if (least..=most).contains(&number) {
        return Ok(number);
    }
    // As C writes it.
    let most: &dyn std::fmt::Display = if most == f64::MAX { &"1.79769e+308" } else { &most };
    Err(outside(name, &number, &least, most))
}

fn number(name: &str, text: &str) -> Result<f64> {
    match duration::number(text.trim_start()) {
        Some((number, rest)) if rest.trim().is_empty() => Ok(number),
        _ => Err(invalid(name, text)),
    }
}

/// 22023
fn outside(
    name: &str,
    number: &dyn std::fmt::Display,
    least: &dyn std::fmt::Display,
    most: &dyn std::fmt::Display,
) -> Error {
    let message = format!("{number} is outside the valid range for parameter \"{name}\" ({least} .. {most})");
    Error::new(ErrorCode::InvalidParameterValue, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As PostgreSQL 15 answers `SET join_collapse_limit = ...` and `SET random_page_cost = ...`.
    #[test]
    fn numbers_are_read_and_refused_as_postgresql_does() {
        for (written, expected) in [("8", 8), (" 0x10 ", 16), ("1.6", 2), ("1e2", 100)] {
            assert_eq!(integer("join_collapse_limit", (1, 2147483647), written), Ok(expected), "{written}");
        }
        for (written, expected) in [("1", 1.0), (" 1.25 ", 1.25), ("1e2", 100.0)] {
            assert_eq!(real("random_page_cost", (0.0, f64::MAX), written), Ok(expected), "{written}");
        }
        let refused = |text: &str| {
            [
                integer("n", (1, 10), text).map(drop).unwrap_err().message().to_owned(),
                real("n", (0.0, f64::MAX), text).map(drop).unwrap_err().message().to_owned(),
            ]
        };
        for text in ["", "x", "5 kB", "5x"] {
            let message = format!(r#"invalid value for parameter "n": "{text}""#);
            assert_eq!(refused(text), [message.clone(), message]);
        }
        assert_eq!(
            refused("-1"),
            [
                r#"-1 is outside the valid range for parameter "n" (1 .. 10)"#,
                r#"-1 is outside the valid range for parameter "n" (0 .. 1.79769e+308)"#,
            ]
        );
        assert!(integer("n", (1, 10), "11").is_err());
        assert!(integer("n", (0, 10), "1e300").is_err());
    }
}
