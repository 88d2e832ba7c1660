//! Settings that are an amount of memory: as clients write them, and as SHOW writes them.
//!
//! Called by `settings`. They are kept in kilobytes, or in blocks.

use ashlar_base::{Error, ErrorCode, Result};

use super::{duration, invalid};

/// Units and their kilobytes, the largest first.
const UNITS: &[(&str, f64)] =
    &[("TB", 1_073_741_824.0), ("GB", 1_048_576.0), ("MB", 1024.0), ("kB", 1.0), ("B", 1.0 / 1024.0)];

/// The kilobytes of a block.
const BLOCK: f64 = 8.0;

/// The kilobytes of `4096`, `4MB`, `1.5GB`.
///
/// # Errors
/// 22023
pub(super) fn kilobytes(name: &str, least: i64, text: &str) -> Result<i64> {
    amount(name, (1.0, "kB"), least, text)
}

/// The blocks of 8 kB of `1000`, `4MB`.
///
/// # Errors
/// 22023
pub(super) fn blocks(name: &str, least: i64, text: &str) -> Result<i64> {
    amount(name, (BLOCK, "8kB"), least, text)
}

/// How many pieces of so many kilobytes, with that name, an amount is.
fn amount(name: &str, (piece, called): (f64, &str), least: i64, text: &str) -> Result<i64> {
    let refused = || invalid(name, text);
    let (number, rest) = duration::number(text.trim_start()).ok_or_else(refused)?;
    let unit = rest.trim();
    let factor = match UNITS.iter().find(|(known, _)| *known == unit) {
        Some((_, factor)) => *factor / piece,
        None if unit.is_empty() => 1.0,
        None => {
            let hint = r#"Valid units for this parameter are "B", "kB", "MB", "GB", and "TB"."#;
            return Err(refused().with_hint(hint));
        }
    };
    let pieces = (number * factor).round_ties_even();
    if pieces > f64::from(i32::MAX) {
        return Err(refused().with_hint("Value exceeds integer range."));
    }
    if pieces < least as f64 {
        let range = format!("({least} .. {})", i32::MAX);
        let message = format!("{pieces} {called} is outside the valid range for parameter \"{name}\" {range}");
        return Err(Error::new(ErrorCode::InvalidParameterValue, message));
    }
    Ok(pieces as i64)
}

/// Blocks as SHOW writes them.
pub(super) fn shown_of_blocks(blocks: i64) -> String {
    shown(blocks.saturating_mul(BLOCK as i64))
}

/// As SHOW writes it: in the largest unit that has no fraction. What is no amount, 0 or less, has none.
pub(super) fn shown(kilobytes: i64) -> String {
    let Some(kilobytes) = u64::try_from(kilobytes).ok().filter(|kilobytes| *kilobytes > 0) else {
        return kilobytes.to_string();
    };
    let whole = UNITS.iter().find(|(_, factor)| *factor >= 1.0 && kilobytes.is_multiple_of(*factor as u64));
    let (unit, factor) = whole.copied().unwrap_or(("kB", 1.0));
    format!("{}{unit}", kilobytes / factor as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As PostgreSQL 15 answers `SET work_mem = ...` and `SHOW work_mem`.
    #[test]
    fn amounts_of_memory_are_read_and_shown_as_postgresql_does() {
        let cases = [("64", "64kB"), ("4096", "4MB"), ("1.5GB", "1536MB"), ("65536B", "64kB"), ("1GB", "1GB")];
        for (written, expected) in cases {
            assert_eq!(kilobytes("work_mem", 64, written).map(shown), Ok(expected.to_owned()), "{written}");
        }
        for refused in ["1", "", "MB", "4mb", "4 XB", "3000GB"] {
            assert!(kilobytes("work_mem", 64, refused).is_err(), "{refused}");
        }
        // As `temp_file_limit`, whose least value is -1 too.
        let cases = [("-1", "-1"), ("0", "0"), ("1", "1kB"), ("0.5", "0"), ("64MB", "64MB"), ("1024kB", "1MB")];
        for (written, expected) in cases {
            assert_eq!(kilobytes("temp_file_limit", -1, written).map(shown), Ok(expected.to_owned()), "{written}");
        }
        assert!(kilobytes("temp_file_limit", -1, "-2").is_err());
        assert!(kilobytes("temp_file_limit", -1, "-1MB").is_err());
    }

    /// As PostgreSQL 15 answers `SET effective_cache_size = ...` and `SHOW effective_cache_size`.
    #[test]
    fn amounts_in_blocks_are_read_and_shown_as_postgresql_does() {
        let cases =
            [("1", "8kB"), ("1000", "8000kB"), ("128", "1MB"), ("4GB", "4GB"), ("12kB", "16kB"), ("100kB", "96kB")];
        for (written, expected) in cases {
            let blocks = blocks("effective_cache_size", 1, written);
            assert_eq!(blocks.map(shown_of_blocks), Ok(expected.to_owned()), "{written}");
        }
        let error = blocks("effective_cache_size", 1, "0").unwrap_err();
        let message = r#"0 8kB is outside the valid range for parameter "effective_cache_size" (1 .. 2147483647)"#;
        assert_eq!(error.message(), message);
    }
}
