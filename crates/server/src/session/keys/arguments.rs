//! Reading the arguments of a command, with Redis's strictness.
//!
//! Called by the command handlers. Pure.

use ashlar_protocol::resp::Command;

use super::error::KeyError;

/// The arguments of one command line; 0 is the name. A subcommand's arguments count from its container's name.
#[derive(Clone, Copy)]
pub(super) struct Args<'a>(Command<'a>);

impl<'a> Args<'a> {
    pub(super) fn new(command: Command<'a>) -> Self {
        Self(command)
    }

    /// The command itself.
    pub(super) fn command(&self) -> &Command<'a> {
        &self.0
    }

    /// Arguments, the name among them.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// An argument; empty where there is none, which the command's arity excludes.
    #[inline]
    pub(super) fn at(&self, index: usize) -> &'a [u8] {
        self.0.get(index).unwrap_or_default()
    }

    /// The arguments from `start` on.
    pub(super) fn from(&self, start: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let command = self.0;
        (start.min(command.len())..command.len()).map(move |index| command.get(index).unwrap_or_default())
    }
}

/// An integer as Redis takes it from a client: decimal, no sign but `-`, no spaces, no leading zeros.
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > 19 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    if digits[0] == b'0' && (digits.len() > 1 || negative) {
        return None;
    }
    // Nineteen digits fit an i128 with room to spare.
    let magnitude = digits.iter().fold(0i128, |sum, digit| sum * 10 + i128::from(digit - b'0'));
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

/// [`integer`], or Redis's error.
pub(super) fn integer_or_error(text: &[u8]) -> Result<i64, KeyError> {
    integer(text).ok_or(KeyError::NOT_AN_INTEGER)
}

/// A SCAN cursor, read as C's `strtoul` reads it, which is what Redis asks: one with a minus counts from 2^64 down, an empty
/// one is 0, and a NUL ends the text.
pub(super) fn cursor(text: &[u8]) -> Result<u64, KeyError> {
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    let (is_negative, digits) = match text {
        [] => return Ok(0),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let number: Option<u64> = digits.and_then(|digits| digits.parse().ok());
    let number = number.ok_or(KeyError::Redis("ERR invalid cursor"))?;
    Ok(if is_negative { number.wrapping_neg() } else { number })
}

/// Whether an argument is this word, in any case.
pub(super) fn is(argument: &[u8], word: &str) -> bool {
    argument.eq_ignore_ascii_case(word.as_bytes())
}

/// The part of `length` bytes that GETRANGE's `start` and `end` name, both inclusive, negative from the end.
pub(super) fn range(start: i64, end: i64, length: usize) -> std::ops::Range<usize> {
    let size = i64::try_from(length).unwrap_or(i64::MAX);
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let absolute = |at: i64| if at < 0 { size.saturating_add(at).max(0) } else { at };
    let (start, end) = (absolute(start), absolute(end).min(size - 1));
    if size == 0 || start > end {
        return 0..0;
    }
    // Both are within 0..size here.
    start as usize..end as usize + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_canonical_or_refused() {
        let good =
            [("0", 0), ("1", 1), ("-1", -1), ("9223372036854775807", i64::MAX), ("-9223372036854775808", i64::MIN)];
        for (text, value) in good {
            assert_eq!(integer(text.as_bytes()), Some(value), "{text}");
        }
        let bad = [
            "",
            "-",
            "+1",
            " 1",
            "1 ",
            "01",
            "-0",
            "-01",
            "1.0",
            "1e3",
            "0x1",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999",
        ];
        for text in bad {
            assert_eq!(integer(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn cursors_are_read_as_c_reads_them() {
        let good = [
            ("0", 0),
            ("007", 7),
            ("+5", 5),
            ("", 0),
            ("3\0x", 3),
            ("18446744073709551615", u64::MAX),
            ("-1", u64::MAX),
            ("-0", 0),
            ("-18446744073709551615", 1),
        ];
        for (text, number) in good {
            assert_eq!(cursor(text.as_bytes()).ok(), Some(number), "{text}");
        }
        let bad = ["x", "1x", " 1", "1 ", "-", "+", "--1", "-+1", "0x1"];
        for text in bad.into_iter().chain(["18446744073709551616", "-18446744073709551616"]) {
            assert!(cursor(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn ranges_are_cut_to_the_value() {
        let table: &[(i64, i64, usize, &str)] = &[
            (0, -1, 5, "abcde"),
            (0, 0, 5, "a"),
            (1, 2, 5, "bc"),
            (-3, -2, 5, "cd"),
            (3, 100, 5, "de"),
            (-100, 1, 5, "ab"),
            (5, 10, 5, ""),
            (3, 2, 5, ""),
            (-1, -3, 5, ""),
            (-100, -50, 5, "a"),
            (0, -1, 0, ""),
            (i64::MIN, i64::MAX, 5, "abcde"),
        ];
        for (start, end, length, expected) in table {
            let text = &"abcde"[..*length];
            assert_eq!(&text[range(*start, *end, *length)], *expected, "{start} {end}");
        }
    }
}
