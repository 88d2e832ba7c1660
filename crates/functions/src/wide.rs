//! Numerics in 256 bits, for what comes out of them in 38 digits: quotients, roots, powers, products.
//!
//! Called by the functions and operators of numerics. Rounds half away from zero, once; a result of more than 38
//! digits is 22003, never wrapped and never cut.

use arrow::datatypes::i256;
use ashlar_base::{Error, ErrorCode, Result, ScalarType, SqlType};

use super::decimals::{QUOTIENT_SCALE, QUOTIENT_SCALE_MIN};

/// 22003: PostgreSQL would show the number; nothing here can hold it.
pub fn too_many_digits() -> Error {
    Error::new(ErrorCode::NumericOutOfRange, "numeric result out of range")
        .with_detail("A numeric has at most 38 digits here, those after the point included.")
        .with_hint("Cast to a smaller scale first, or to double precision.")
}

fn power_of_ten(power: i32) -> Result<i256> {
    let power = u32::try_from(power).map_err(|_| too_many_digits())?;
    i256::from_i128(10).checked_pow(power).ok_or_else(too_many_digits)
}

/// Divides, rounding half away from zero.
fn divided(value: i256, divisor: i256) -> i256 {
    let (quotient, remainder) = (value / divisor, value % divisor);
    let is_half = remainder.wrapping_abs() >= divisor.wrapping_abs() - remainder.wrapping_abs();
    let is_negative = (value < i256::ZERO) != (divisor < i256::ZERO);
    match (is_half, is_negative) {
        (false, _) => quotient,
        (true, false) => quotient + i256::ONE,
        (true, true) => quotient - i256::ONE,
    }
}

fn scaled(value: i256, from: i32, to: i32) -> Result<i256> {
    if to >= from {
        value.checked_mul(power_of_ten(to - from)?).ok_or_else(too_many_digits)
    } else if from - to > 76 {
        Ok(i256::ZERO)
    } else {
        Ok(divided(value, power_of_ten(from - to)?))
    }
}

/// Within the digits of a numeric type.
fn fitted(value: i256, to: SqlType) -> Result<i128> {
    let ScalarType::Numeric { precision, .. } = to.scalar() else { return Err(too_many_digits()) };
    match value.to_i128() {
        Some(value) if value.unsigned_abs() < 10u128.pow(precision.into()) => Ok(value),
        _ => Err(too_many_digits()),
    }
}

fn scale_of(sql_type: SqlType) -> i32 {
    match sql_type.scalar() {
        ScalarType::Numeric { scale, .. } => scale.into(),
        _ => 0,
    }
}

/// An unscaled value with another scale.
pub fn rescaled(value: i128, from: i32, to: SqlType) -> Result<i128> {
    fitted(scaled(i256::from_i128(value), from, scale_of(to))?, to)
}

/// `left / right`; the caller has refused zero.
pub fn quotient(left: (i128, i32), right: (i128, i32), to: SqlType) -> Result<i128> {
    let power = scale_of(to) + right.1 - left.1;
    let (mut value, mut divisor) = (i256::from_i128(left.0), i256::from_i128(right.0));
    if power >= 0 {
        value = value.checked_mul(power_of_ten(power)?).ok_or_else(too_many_digits)?;
    } else {
        divisor = divisor.checked_mul(power_of_ten(-power)?).ok_or_else(too_many_digits)?;
    }
    fitted(divided(value, divisor), to)
}

/// `left * right`, exactly: a product with more digits after the point than fit is refused, unless they are zeros. That of two values that
/// are rounded themselves is rounded to as many digits as a quotient has.
pub fn product(left: (i128, i32), right: (i128, i32), to: SqlType) -> Result<i128> {
    let value = i256::from_i128(left.0).checked_mul(i256::from_i128(right.0)).ok_or_else(too_many_digits)?;
    let dropped = left.1 + right.1 - scale_of(to);
    let is_rounded = scale_of(to) == QUOTIENT_SCALE && left.1.min(right.1) >= QUOTIENT_SCALE_MIN;
    if dropped > 0 && !is_rounded && value % power_of_ten(dropped)? != i256::ZERO {
        return Err(too_many_digits());
    }
    fitted(scaled(value, left.1 + right.1, scale_of(to))?, to)
}

/// `left + right`, or their difference.
pub fn sum(left: (i128, i32), right: (i128, i32), to: SqlType) -> Result<i128> {
    let left = scaled(i256::from_i128(left.0), left.1, scale_of(to))?;
    let right = scaled(i256::from_i128(right.0), right.1, scale_of(to))?;
    fitted(left.checked_add(right).ok_or_else(too_many_digits)?, to)
}

/// `left % right`, with the sign of the left; the caller has refused zero.
pub fn remainder(left: (i128, i32), right: (i128, i32), to: SqlType) -> Result<i128> {
    let left = scaled(i256::from_i128(left.0), left.1, scale_of(to))?;
    fitted(left % scaled(i256::from_i128(right.0), right.1, scale_of(to))?, to)
}

/// The square root of a value that is not negative.
pub fn square_root(value: i128, from: i32, to: i32) -> Result<i128> {
    root(scaled(i256::from_i128(value), from, 2 * to)?, to)
}

/// A quotient of two integers that has `from` digits after the point, with `to` of them.
pub fn wide_quotient(value: i256, divisor: i256, from: i32, to: i32) -> Result<i128> {
    fitted(scaled_quotient(value, divisor, from, to)?, super::catalog::numeric(38, to))
}

/// The square root of such a quotient.
pub fn root_of_quotient(value: i256, divisor: i256, from: i32, to: i32) -> Result<i128> {
    root(scaled_quotient(value, divisor, from, 2 * to)?, to)
}

fn scaled_quotient(value: i256, divisor: i256, from: i32, to: i32) -> Result<i256> {
    if to >= from {
        return Ok(divided(scaled(value, from, to)?, divisor));
    }
    Ok(divided(value, divisor.checked_mul(power_of_ten(from - to)?).ok_or_else(too_many_digits)?))
}

/// The square root of a value that has twice the digits after the point that the root has.
fn root(value: i256, to: i32) -> Result<i128> {
    if value <= i256::ZERO {
        return Ok(0);
    }
    // Newton's steps fall until they have the root's whole part; the start is above it.
    let bits = 256 - value.leading_zeros();
    let mut root = i256::ONE << u8::try_from(bits.div_ceil(2)).unwrap_or(127);
    loop {
        let next = (root + value / root) >> 1;
        if next >= root {
            break;
        }
        root = next;
    }
    let root = if value - root * root > root { root + i256::ONE } else { root };
    fitted(root, super::catalog::numeric(38, to))
}

/// Digits after the point that a power is computed with while it is multiplied.
const POWER_DIGITS: i32 = 34;

/// `value` raised to a whole power.
pub fn power(value: i128, from: i32, power: u32, to: SqlType) -> Result<i128> {
    let mut result = (i256::ONE, 0);
    let mut factor = (i256::from_i128(value), from);
    let mut rest = power;
    let multiplied = |left: (i256, i32), right: (i256, i32)| {
        let mut product = (left.0.checked_mul(right.0).ok_or_else(too_many_digits)?, left.1 + right.1);
        if product.1 > POWER_DIGITS {
            product = (scaled(product.0, product.1, POWER_DIGITS)?, POWER_DIGITS);
        }
        Ok::<_, Error>(product)
    };
    while rest > 0 {
        if rest % 2 == 1 {
            result = multiplied(result, factor)?;
        }
        rest /= 2;
        if rest > 0 {
            factor = multiplied(factor, factor)?;
        }
    }
    fitted(scaled(result.0, result.1, scale_of(to))?, to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::numeric;

    #[test]
    fn quotients_round_half_away_from_zero() {
        for (left, right, scale, expected) in
            [(2, 3, 4, 6667), (-2, 3, 4, -6667), (1, 8, 2, 13), (-1, 8, 2, -13), (1, 3, 2, 33), (7, -2, 0, -4)]
        {
            assert_eq!(quotient((left, 0), (right, 0), numeric(38, scale)).unwrap(), expected, "{left}/{right}");
        }
    }

    #[test]
    fn roots_are_the_nearest() {
        assert_eq!(square_root(2, 0, 16).unwrap(), 14_142_135_623_730_950);
        assert_eq!(square_root(20_000, 4, 16).unwrap(), 14_142_135_623_730_950);
        assert_eq!(square_root(0, 0, 16).unwrap(), 0);
        assert_eq!(square_root(4, 0, 0).unwrap(), 2);
    }

    #[test]
    fn more_than_38_digits_are_refused() {
        let greatest = 10i128.pow(38) - 1;
        assert!(sum((greatest, 0), (1, 0), numeric(38, 0)).is_err());
        assert!(product((greatest, 0), (2, 0), numeric(38, 0)).is_err());
        assert!(product((1, 38), (1, 1), numeric(38, 38)).is_err());
        assert_eq!(product((10, 38), (1, 1), numeric(38, 38)).unwrap(), 1);
        // Two thirds of two thirds, each of sixteen digits.
        let two_thirds = 6_666_666_666_666_667;
        let expected = 44_444_444_444_444_448_889;
        assert_eq!(product((two_thirds, 16), (two_thirds, 16), numeric(38, 20)).unwrap(), expected);
        assert!(product((two_thirds, 16), (two_thirds, 16), numeric(38, 30)).is_err());
        assert!(power(10, 0, 38, numeric(38, 0)).is_err());
        assert_eq!(power(20, 1, 3, numeric(38, 16)).unwrap(), 80_000_000_000_000_000);
    }
}
