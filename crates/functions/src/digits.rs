//! Number literals with an exponent, as PostgreSQL's numeric reads them.

/// Digits that a numeric holds.
pub const DIGITS_MAX: usize = 38;

/// The digits without an exponent, with precision and scale; `None` where they are too many.
pub fn plain(literal: &str) -> Option<(String, u64, i64)> {
    let (mantissa, exponent) = literal.split_once(['e', 'E'])?;
    let exponent: i64 = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    // Where the point stands among the digits.
    let point = whole.len() as i64 + exponent;
    let scale = (fraction.len() as i64 - exponent).max(0);
    // Beyond these the sum would not be counted.
    if scale > 100 || point > 100 || usize::try_from(point.max(0) + scale).ok()? > DIGITS_MAX {
        return None;
    }
    let padded = |count: i64| "0".repeat(usize::try_from(count).unwrap_or(0));
    let plain = if point <= 0 {
        format!("0.{}{digits}", padded(-point))
    } else if point >= digits.len() as i64 {
        format!("{digits}{}", padded(point - digits.len() as i64))
    } else {
        let (whole, fraction) = digits.split_at(usize::try_from(point).ok()?);
        format!("{whole}.{fraction}")
    };
    let precision = (point.max(0) + scale).max(1);
    Some((plain, u64::try_from(precision).ok()?, scale))
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn exponents_move_the_point() {
        for (literal, expected, precision, scale) in [
            ("1e-5", "0.00001", 5, 5),
            ("1e10", "10000000000", 11, 0),
            ("1.5e3", "1500", 4, 0),
            ("1.2345e2", "123.45", 5, 2),
            ("12.5E-1", "1.25", 3, 2),
        ] {
            assert_eq!(plain(literal), Some((expected.to_owned(), precision, scale)), "{literal}");
        }
        assert_eq!(plain("1e40"), None);
        assert_eq!(plain("1e-40"), None);
    }
}
