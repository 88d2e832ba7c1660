//! Numbers of PostgreSQL's `numeric` of any scale, as far as 38 digits hold them: compared and added without rounding.

use std::cmp::Ordering;

use ashlar_base::{Error, ErrorCode, Result};

const NEGATIVE: u16 = 0x4000;
const POSITIVE: u16 = 0;

/// `unscaled / 10^scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    unscaled: i128,
    scale: u32,
}

fn too_long() -> Error {
    Error::unsupported("a numeric of more than 38 digits cannot be put together from several shards")
        .with_hint("Cast it to a shorter numeric, or to double precision.")
}

pub(super) fn division_by_zero() -> Error {
    Error::new(ErrorCode::DivisionByZero, "division by zero")
}

/// Digits behind the point, which are no more than there are at all.
fn checked_scale(scale: usize) -> Result<u32> {
    u32::try_from(scale).ok().filter(|scale| *scale <= 38).ok_or_else(too_long)
}

fn power(digits: u32) -> Result<i128> {
    10_i128.checked_pow(digits).ok_or_else(too_long)
}

impl From<i64> for Decimal {
    fn from(number: i64) -> Self {
        Self { unscaled: i128::from(number), scale: 0 }
    }
}

impl Decimal {
    /// Reads PostgreSQL's text.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let invalid = || Error::new(ErrorCode::InvalidTextRepresentation, format!("invalid numeric: \"{text}\""));
        let (is_negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        if matches!(digits, "NaN" | "Infinity") {
            return Err(Error::unsupported(format!("{digits} cannot be put together from several shards")));
        }
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let mut unscaled = 0_i128;
        for byte in whole.bytes().chain(fraction.bytes()) {
            if !byte.is_ascii_digit() {
                return Err(invalid());
            }
            let next = unscaled.checked_mul(10).and_then(|value| value.checked_add(i128::from(byte - b'0')));
            unscaled = next.ok_or_else(too_long)?;
        }
        let scale = checked_scale(fraction.len())?;
        Ok(Self { unscaled: if is_negative { -unscaled } else { unscaled }, scale })
    }

    /// Reads PostgreSQL's binary form: digits of base 10000 with a weight.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let invalid = || Error::new(ErrorCode::InvalidBinaryRepresentation, "invalid numeric");
        let (words, rest) = bytes.as_chunks::<2>();
        let word = |at: usize| words.get(at).map(|word| u16::from_be_bytes(*word)).ok_or_else(invalid);
        let (count, weight, sign, scale) = (word(0)?, word(1)? as i16, word(2)?, u32::from(word(3)?));
        checked_scale(scale as usize)?;
        if !rest.is_empty() || words.len() != 4 + usize::from(count) {
            return Err(invalid());
        }
        if sign != NEGATIVE && sign != POSITIVE {
            return Err(Error::unsupported("NaN and infinity cannot be put together from several shards"));
        }
        let mut unscaled = 0_i128;
        for (at, digit) in words[4..].iter().enumerate() {
            // The digit counts 10000^(weight - at), of which so many tenths are kept.
            let exponent = (i32::from(weight) - i32::try_from(at).map_err(|_| invalid())?) * 4;
            let exponent = exponent + i32::try_from(scale).map_err(|_| invalid())?;
            let digit = i128::from(u16::from_be_bytes(*digit));
            let part = match u32::try_from(exponent) {
                Ok(exponent) => digit.checked_mul(power(exponent)?).ok_or_else(too_long)?,
                // Behind the scale stand zeros only.
                Err(_) => digit / power(exponent.unsigned_abs())?,
            };
            unscaled = unscaled.checked_add(part).ok_or_else(too_long)?;
        }
        Ok(Self { unscaled: if sign == NEGATIVE { -unscaled } else { unscaled }, scale })
    }

    /// Both with the larger scale.
    fn aligned(self, other: Self) -> Result<(i128, i128, u32)> {
        let scale = self.scale.max(other.scale);
        let to = |value: Self| value.unscaled.checked_mul(power(scale - value.scale)?).ok_or_else(too_long);
        Ok((to(self)?, to(other)?, scale))
    }

    /// The sum.
    pub(super) fn plus(self, other: Self) -> Result<Self> {
        let (a, b, scale) = self.aligned(other)?;
        Ok(Self { unscaled: a.checked_add(b).ok_or_else(too_long)?, scale })
    }

    /// The difference.
    pub(super) fn minus(self, other: Self) -> Result<Self> {
        self.plus(other.negated()?)
    }

    /// The product, with all of its digits.
    pub(super) fn times(self, other: Self) -> Result<Self> {
        let scale = checked_scale((self.scale + other.scale) as usize)?;
        Ok(Self { unscaled: self.unscaled.checked_mul(other.unscaled).ok_or_else(too_long)?, scale })
    }

    /// The quotient, with as many digits as PostgreSQL gives it: at least sixteen that count, and none less behind the point than either
    /// number has; rounded, a half away from zero. Source: `select_div_scale` in PostgreSQL's numeric.c.
    pub(super) fn divided_by(self, other: Self) -> Result<Self> {
        if other.unscaled == 0 {
            return Err(division_by_zero());
        }
        let ((first, weight), (other_first, other_weight)) = (self.leading()?, other.leading()?);
        let quotient_weight = weight - other_weight - i32::from(first <= other_first);
        let shown = i32::try_from(self.scale.max(other.scale)).map_err(|_| too_long())?;
        let scale = (16 - 4 * quotient_weight).max(shown);
        let scale = checked_scale(usize::try_from(scale).map_err(|_| too_long())?)?;
        let (dividend, divisor) = (self.abs()?.unscaled, other.abs()?.unscaled);
        let (mut quotient, mut rest) = (dividend / divisor, dividend % divisor);
        // By now it has as many digits behind the point as the dividend has more than the divisor.
        for _ in self.scale..scale + other.scale {
            rest = rest.checked_mul(10).ok_or_else(too_long)?;
            let longer = quotient.checked_mul(10).and_then(|longer| longer.checked_add(rest / divisor));
            quotient = longer.ok_or_else(too_long)?;
            rest %= divisor;
        }
        if rest >= divisor - rest {
            quotient = quotient.checked_add(1).ok_or_else(too_long)?;
        }
        let is_negative = (self.unscaled < 0) != (other.unscaled < 0);
        Ok(Self { unscaled: if is_negative { -quotient } else { quotient }, scale })
    }

    /// The square root of a number that is not negative, with as many digits behind the point; rounded, a half up.
    pub(super) fn root(self) -> Result<Self> {
        // One more digit than is shown: the whole root of the number without its point, and two zeros more than it has digits behind that.
        let mut digits = format!("{}{:0>width$}", self.unscaled, 0, width = self.scale as usize + 2);
        if digits.len() % 2 == 1 {
            digits.insert(0, '0');
        }
        let (mut root, mut rest) = (0_i128, 0_i128);
        for pair in digits.as_bytes().chunks(2) {
            let pair = pair.iter().fold(0, |sum, byte| sum * 10 + i128::from(byte - b'0'));
            rest = rest.checked_mul(100).ok_or_else(too_long)? + pair;
            // Tenfold, there is room for the parts of all digits.
            let twice = root.checked_mul(200).ok_or_else(too_long)? / 10;
            // The greatest digit whose part there still is.
            let part = |digit: i128| (twice + digit) * digit;
            let digit = (1..10).take_while(|digit| part(*digit) <= rest).last().unwrap_or(0);
            rest -= part(digit);
            root = root * 10 + digit;
        }
        Ok(Self { unscaled: (root + 5) / 10, ..self })
    }

    /// What is left of it by a division whose quotient is whole; it has the dividend's sign.
    pub(super) fn modulo(self, other: Self) -> Result<Self> {
        let (a, b, scale) = self.aligned(other)?;
        if b == 0 {
            return Err(division_by_zero());
        }
        // What has no remainder in 128 bits is the least number by -1.
        Ok(Self { unscaled: a.wrapping_rem(b), scale })
    }

    pub(super) fn negated(self) -> Result<Self> {
        Ok(Self { unscaled: self.unscaled.checked_neg().ok_or_else(too_long)?, ..self })
    }

    pub(super) fn abs(self) -> Result<Self> {
        Ok(Self { unscaled: self.unscaled.checked_abs().ok_or_else(too_long)?, ..self })
    }

    /// Rounded to so many digits behind the point, or, where that is negative, before it: a half away from zero.
    pub(super) fn rounded(self, digits: i32) -> Result<Self> {
        self.cut(digits, |rest, unit| if rest.abs() >= unit - rest.abs() { rest.signum() } else { 0 })
    }

    /// The same, towards zero.
    pub(super) fn truncated(self, digits: i32) -> Result<Self> {
        self.cut(digits, |_, _| 0)
    }

    /// The greatest whole number that is not above it.
    pub(super) fn floor(self) -> Result<Self> {
        self.cut(0, |rest, _| if rest < 0 { -1 } else { 0 })
    }

    /// The least whole number that is not below it.
    pub(super) fn ceil(self) -> Result<Self> {
        self.cut(0, |rest, _| i128::from(rest > 0))
    }

    /// With so many digits behind the point. What is cut off, as a part of the last unit that stays, says how much is added to that.
    fn cut(self, digits: i32, step: impl Fn(i128, i128) -> i128) -> Result<Self> {
        let scale = i32::try_from(self.scale).map_err(|_| too_long())?;
        let shown = checked_scale(usize::try_from(digits.max(0)).map_err(|_| too_long())?)?;
        if digits >= scale {
            let unscaled = self.unscaled.checked_mul(power(shown - self.scale)?).ok_or_else(too_long)?;
            return Ok(Self { unscaled, scale: shown });
        }
        let unit = power(scale.abs_diff(digits))?;
        let whole = self.unscaled / unit + step(self.unscaled % unit, unit);
        // Digits before the point that are no longer there are zeros.
        let zeros = power(digits.min(0).unsigned_abs())?;
        Ok(Self { unscaled: whole.checked_mul(zeros).ok_or_else(too_long)?, scale: shown })
    }

    /// Where it is whole, and has no digits behind the point.
    pub(super) fn integer(self) -> Option<i64> {
        i64::try_from(self.unscaled).ok().filter(|_| self.scale == 0)
    }

    /// The number without its point.
    pub(super) fn unscaled(self) -> i128 {
        self.unscaled
    }

    /// The first digit that is not zero of those to the base 10000, and its weight; both 0 for zero.
    fn leading(self) -> Result<(i128, i32)> {
        let fraction = self.scale.div_ceil(4);
        let mut rest = self.unscaled.checked_abs().ok_or_else(too_long)?;
        if rest == 0 {
            return Ok((0, 0));
        }
        rest = rest.checked_mul(power(4 * fraction - self.scale)?).ok_or_else(too_long)?;
        let mut weight = -i32::try_from(fraction).map_err(|_| too_long())?;
        while rest >= 10_000 {
            rest /= 10_000;
            weight += 1;
        }
        Ok((rest, weight))
    }

    /// The order of two numbers. Where one cannot be written with the other's scale, its whole part decides.
    pub(super) fn compare(self, other: Self) -> Ordering {
        if let Ok((a, b, _)) = self.aligned(other) {
            return a.cmp(&b);
        }
        let parts = |value: Self| match power(value.scale) {
            Ok(unit) => (value.unscaled.div_euclid(unit), value.unscaled.rem_euclid(unit)),
            Err(_) => (0, value.unscaled),
        };
        let ((a, a_rest), (b, b_rest)) = (parts(self), parts(other));
        // Equal whole parts of up to 38 digits leave fractions that fit each other's scale digit by digit.
        a.cmp(&b).then_with(|| compare_fractions((a_rest, self.scale), (b_rest, other.scale)))
    }

    /// The nearest `double precision`.
    pub(super) fn float(self) -> Result<f64> {
        self.text().parse().map_err(|_| Error::internal("the digits of a number are none"))
    }

    /// PostgreSQL's text.
    pub(super) fn text(self) -> String {
        let digits = format!("{:0>width$}", self.unscaled.unsigned_abs(), width = self.scale as usize + 1);
        let (whole, fraction) = digits.split_at(digits.len() - self.scale as usize);
        let sign = if self.unscaled < 0 { "-" } else { "" };
        if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
    }

    /// PostgreSQL's binary form.
    pub(super) fn encode(self) -> Vec<u8> {
        let text = self.text();
        let (whole, fraction) =
            text.trim_start_matches('-').split_once('.').unwrap_or((text.trim_start_matches('-'), ""));
        let whole = format!("{:0>width$}", whole, width = whole.len().div_ceil(4) * 4);
        let fraction = format!("{:0<width$}", fraction, width = fraction.len().div_ceil(4) * 4);
        let all = format!("{whole}{fraction}");
        let mut digits: Vec<u16> = all
            .as_bytes()
            .chunks(4)
            .map(|four| four.iter().fold(0, |sum, byte| sum * 10 + u16::from(byte - b'0')))
            .collect();
        let mut weight = (whole.len() / 4) as i16 - 1;
        let leading = digits.iter().take_while(|digit| **digit == 0).count();
        digits.drain(..leading);
        weight -= leading as i16;
        while digits.last() == Some(&0) {
            digits.pop();
        }
        if digits.is_empty() {
            weight = 0;
        }
        let sign = if self.unscaled < 0 { NEGATIVE } else { POSITIVE };
        let head = [digits.len() as u16, weight as u16, sign, self.scale as u16];
        head.iter().chain(&digits).flat_map(|word| word.to_be_bytes()).collect()
    }
}

/// The order of two fractions, each `digits / 10^scale`.
fn compare_fractions((a, a_scale): (i128, u32), (b, b_scale): (i128, u32)) -> Ordering {
    let digits = |value: i128, scale: u32| format!("{:0>width$}", value, width = scale as usize);
    let (a, b) = (digits(a, a_scale), digits(b, b_scale));
    a.trim_end_matches('0').cmp(b.trim_end_matches('0'))
}
