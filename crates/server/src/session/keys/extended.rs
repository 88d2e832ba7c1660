//! Numbers with 64 bits of mantissa, as Redis adds them: C's `long double` on x86-64, read and written as Redis does.
//!
//! Called by `floats`. Pure. Whatever has another precision would write `0.1 + 0.2` in other digits than Redis.

use std::cmp::Ordering;

/// A number; no NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extended {
    /// `mantissa * 2^exponent`; the highest bit of the mantissa is set, unless it is zero.
    Finite {
        /// Whether it is below zero.
        negative: bool,
        mantissa: u64,
        exponent: i32,
    },
    Infinite,
}

/// Numbers are below 2 to this.
const EXPONENT_MAX: i32 = 16_384;
/// Numbers below 2 to this are zero.
const EXPONENT_MIN: i32 = -16_445;
/// Redis's longest text of a number.
const TEXT_MAX: usize = 5 * 1024 - 1;
/// Digits behind the point that are written.
const DECIMALS: usize = 17;

/// A natural number of any size: the lowest 32 bits first, no zeros at the end.
#[derive(Clone, Debug, Default)]
struct Natural(Vec<u32>);

impl Natural {
    fn one() -> Self {
        Self(vec![1])
    }

    fn bits(&self) -> i32 {
        match self.0.last() {
            Some(top) => self.0.len() as i32 * 32 - top.leading_zeros() as i32,
            None => 0,
        }
    }

    fn bit(&self, index: i32) -> u32 {
        let word = self.0.get(index as usize / 32).copied().unwrap_or(0);
        word >> (index % 32) & 1
    }

    fn multiply_add(&mut self, factor: u32, mut carry: u32) {
        for word in &mut self.0 {
            let wide = u64::from(*word) * u64::from(factor) + u64::from(carry);
            *word = wide as u32;
            carry = (wide >> 32) as u32;
        }
        if carry > 0 {
            self.0.push(carry);
        }
    }

    fn times_ten_to(&mut self, exponent: u32) {
        (0..exponent).for_each(|_| self.multiply_add(10, 0));
    }

    fn shift(&mut self, bits: u32) {
        if self.0.is_empty() {
            return;
        }
        (0..bits % 32).for_each(|_| self.multiply_add(2, 0));
        self.0.splice(0..0, std::iter::repeat_n(0, bits as usize / 32));
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    /// `other` is not greater.
    fn subtract(&mut self, other: &Self) {
        let mut borrow = 0;
        for (index, word) in self.0.iter_mut().enumerate() {
            let taken = u64::from(other.0.get(index).copied().unwrap_or(0)) + borrow;
            borrow = u64::from(u64::from(*word) < taken);
            *word = (u64::from(*word) + (borrow << 32) - taken) as u32;
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    /// The decimal digits.
    fn digits(mut self) -> String {
        const STEP: u64 = 1_000_000_000;
        let mut groups = Vec::new();
        while !self.0.is_empty() {
            let mut rest = 0;
            for word in self.0.iter_mut().rev() {
                let wide = rest << 32 | u64::from(*word);
                *word = (wide / STEP) as u32;
                rest = wide % STEP;
            }
            groups.push(rest);
            while self.0.last() == Some(&0) {
                self.0.pop();
            }
        }
        let mut text = groups.pop().unwrap_or(0).to_string();
        groups.iter().rev().for_each(|group| text.push_str(&format!("{group:09}")));
        text
    }
}

/// Rounds to 64 bits, half to even: `value * 2^exponent`, of which a little more is left where `has_rest`.
fn rounded(value: u128, exponent: i32, has_rest: bool) -> (u64, i32) {
    let extra = 64 - value.leading_zeros() as i32;
    if extra <= 0 {
        // Whoever rounds gives more bits than that, or all there are.
        return ((value as u64) << -extra, exponent + extra);
    }
    let kept = (value >> extra) as u64;
    let (rest, half) = (value & ((1u128 << extra) - 1), 1u128 << (extra - 1));
    let is_up = rest > half || (rest == half && (has_rest || kept & 1 == 1));
    match kept.checked_add(u64::from(is_up)) {
        Some(kept) => (kept, exponent + extra),
        None => (1 << 63, exponent + extra + 1),
    }
}

/// The number nearest to a quotient.
fn quotient(mut above: Natural, mut below: Natural) -> (u64, i32) {
    // So that the quotient has 66 or 67 bits.
    let shift = 66 - (above.bits() - below.bits());
    if shift >= 0 {
        above.shift(shift as u32)
    } else {
        below.shift(shift.unsigned_abs())
    }
    let (mut value, mut rest) = (0u128, Natural::default());
    for index in (0..above.bits()).rev() {
        rest.multiply_add(2, above.bit(index));
        value <<= 1;
        if rest.compare(&below) != Ordering::Less {
            rest.subtract(&below);
            value |= 1;
        }
    }
    rounded(value, -shift, !rest.0.is_empty())
}

impl Extended {
    const ZERO: Self = Self::Finite { negative: false, mantissa: 0, exponent: 0 };

    fn finite(negative: bool, (mantissa, exponent): (u64, i32)) -> Self {
        match mantissa {
            0 => Self::ZERO,
            _ if exponent + 64 > EXPONENT_MAX => Self::Infinite,
            _ => Self::Finite { negative, mantissa, exponent },
        }
    }

    /// Reads decimal and hexadecimal numbers, with or without an exponent, and infinity. None for what is no number, for one
    /// that is too large, and for one that is too small to be told from zero.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        if text.len() > TEXT_MAX {
            return None;
        }
        let (negative, unsigned) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        if ["inf", "infinity"].into_iter().any(|word| unsigned.eq_ignore_ascii_case(word.as_bytes())) {
            return Some(Self::Infinite);
        }
        if let [b'0', b'x' | b'X', digits @ ..] = unsigned {
            return Self::hexadecimal(negative, digits);
        }
        let (number, exponent) = match unsigned.iter().position(|byte| byte.eq_ignore_ascii_case(&b'e')) {
            Some(at) => (&unsigned[..at], exponent(&unsigned[at + 1..])?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = at_point(number);
        let mut digits = whole.iter().chain(fraction);
        if number.len() == usize::from(number.contains(&b'.')) || !digits.all(u8::is_ascii_digit) {
            return None;
        }
        let mut above = Natural::default();
        whole.iter().chain(fraction).for_each(|digit| above.multiply_add(10, u32::from(digit - b'0')));
        if above.0.is_empty() {
            return Some(Self::ZERO);
        }
        let mut below = Natural::one();
        let exponent = exponent - fraction.len() as i32;
        // Beyond these nothing is left of digits that fit into a text.
        if exponent.abs() > EXPONENT_MAX {
            return None;
        }
        if exponent >= 0 {
            above.times_ten_to(exponent.unsigned_abs());
        } else {
            below.times_ten_to(exponent.unsigned_abs());
        }
        Self::finite(negative, quotient(above, below)).in_range()
    }

    /// Reads what stands behind `0x`: digits, and a power of two.
    fn hexadecimal(negative: bool, text: &[u8]) -> Option<Self> {
        let (number, power) = match text.iter().position(|byte| byte.eq_ignore_ascii_case(&b'p')) {
            Some(at) => (&text[..at], exponent(&text[at + 1..])?),
            None => (text, 0),
        };
        let (whole, fraction) = at_point(number);
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let mut digits = Natural::default();
        for digit in whole.iter().chain(fraction) {
            digits.multiply_add(16, char::from(*digit).to_digit(16)?);
        }
        if digits.0.is_empty() {
            return Some(Self::ZERO);
        }
        let (mantissa, exponent) = quotient(digits, Natural::one());
        Self::finite(negative, (mantissa, exponent + power - 4 * fraction.len() as i32)).in_range()
    }

    /// None for what is too large, or too small to be told from zero.
    fn in_range(self) -> Option<Self> {
        match self {
            Self::Infinite => None,
            Self::Finite { exponent, .. } if exponent + 64 < EXPONENT_MIN => None,
            number => Some(number),
        }
    }

    /// The sum, infinite where it is too large.
    pub(super) fn plus(self, other: Self) -> Self {
        let (Self::Finite { mantissa: left, exponent: high, .. }, Self::Finite { mantissa: right, exponent: low, .. }) =
            (self, other)
        else {
            return Self::Infinite;
        };
        if left == 0 || (right != 0 && (high, left) < (low, right)) {
            // The greater first.
            return if left == 0 { other } else { other.plus(self) };
        }
        let (Self::Finite { negative, .. }, Self::Finite { negative: is_right_negative, .. }) = (self, other) else {
            return Self::Infinite;
        };
        if right == 0 {
            return self;
        }
        // 62 bits more than are kept: what is shifted out of them cannot be half of the last one that is.
        const ROOM: i32 = 62;
        let distance = high - low;
        let great = u128::from(left) << ROOM;
        let small = u128::from(right) << ROOM;
        let (small, has_rest) = match distance {
            0..128 => (small >> distance, small & ((1u128 << distance) - 1) != 0),
            _ => (0, true),
        };
        let (sum, has_rest) = if negative == is_right_negative {
            (great + small, has_rest)
        } else {
            // What was shifted out is taken away too.
            (great - small - u128::from(has_rest), has_rest)
        };
        if sum == 0 {
            return Self::ZERO;
        }
        Self::finite(negative, rounded(sum, high - ROOM, has_rest))
    }

    /// Its digits, as Redis writes them: no exponent, at most 17 behind the point, and no zeros at the end. None where it
    /// is infinite.
    pub(super) fn text(self) -> Option<String> {
        let Self::Finite { negative, mantissa, exponent } = self else { return None };
        let mut text = if exponent >= 0 {
            let mut whole = Natural(vec![mantissa as u32, (mantissa >> 32) as u32]);
            whole.shift(exponent.unsigned_abs());
            whole.digits()
        } else {
            let scaled = u128::from(mantissa) * 10u128.pow(DECIMALS as u32);
            let bits = exponent.unsigned_abs();
            let rounded = if bits > 122 {
                0
            } else {
                let (kept, rest, half) = (scaled >> bits, scaled & ((1 << bits) - 1), 1 << (bits - 1));
                kept + u128::from(rest > half || (rest == half && kept & 1 == 1))
            };
            let digits = format!("{rounded:0width$}", width = DECIMALS + 1);
            let (whole, fraction) = digits.split_at(digits.len() - DECIMALS);
            let fraction = fraction.trim_end_matches('0');
            if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") }
        };
        if negative && text != "0" {
            text.insert(0, '-');
        }
        Some(text)
    }
}

/// What stands before the point, and behind it.
fn at_point(number: &[u8]) -> (&[u8], &[u8]) {
    match number.iter().position(|byte| *byte == b'.') {
        Some(at) => (&number[..at], &number[at + 1..]),
        None => (number, &b""[..]),
    }
}

/// The exponent behind the `e`. Those that are too large for any number are all the same.
fn exponent(text: &[u8]) -> Option<i32> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0i32, |sum, digit| (sum * 10 + i32::from(digit - b'0')).min(1_000_000));
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(left: &str, right: &str) -> String {
        let parse = |text: &str| Extended::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text}"));
        parse(left).plus(parse(right)).text().unwrap_or_else(|| "infinite".to_owned())
    }

    /// What a real Redis says is in `tests/wire/resp/floats.resp`.
    #[test]
    fn sums_have_the_digits_of_64_bits() {
        let cases = [
            ("0.1", "0.2", "0.3"),
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("3", "-3", "0"),
            ("-1e-30", "0", "0"),
            ("1", "1e-17", "1.00000000000000001"),
            ("1e20", "1", "100000000000000000000"),
            ("9007199254740993", "1", "9007199254740994"),
            (".5", "5.", "5.5"),
            ("+1", "-2", "-1"),
            ("18446744073709551615", "1", "18446744073709551616"),
            ("1e4932", "1e4932", "infinite"),
            ("0x10", "0X1f", "47"),
            ("-0x1.8p1", "0x.8", "-2.5"),
            ("0x8000000000000000p-63", "0x0", "1"),
            ("0xffffffffffffffff8p-4", "0", "18446744073709551616"),
            ("0x1p16383", "0x1p16383", "infinite"),
        ];
        for (left, right, expected) in cases {
            assert_eq!(sum(left, right), expected, "{left} + {right}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["", "-", ".", "1e", "e1", "1.2.3", " 1", "1 ", "nan", "1e5000", "1e-5000", "--1"] {
            assert_eq!(Extended::parse(text.as_bytes()), None, "{text}");
        }
        for text in ["0x", "0x.", "0xg", "0x1p", "0xp1", "0x1e+1", "x1", "00x1", "0x-1", "0x1p16384", "0x1p-16500"] {
            assert_eq!(Extended::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Extended::parse(b"-Infinity"), Some(Extended::Infinite));
    }

    /// Where a double holds the operands and the sum without loss, it is the same number.
    #[test]
    fn sums_agree_with_doubles_that_are_exact() {
        let mut seed = 1u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (left, right) = ((seed >> 24) as i32, (seed >> 2) as i32);
            let shift = f64::from(1u32 << (seed >> 59 & 15));
            let (left, right) = (f64::from(left) / shift, f64::from(right) / shift);
            // All digits: fifteen are behind the point at most.
            let text = |value: f64| format!("{value:.15}").trim_end_matches('0').trim_end_matches('.').to_owned();
            assert_eq!(sum(&text(left), &text(right)), text(left + right), "{left} + {right}");
        }
    }
}
