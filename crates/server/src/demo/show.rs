//! How the demo prints times, numbers and the replies of Redis commands.
//!
//! Used by the demo only. Pure.

use std::time::Duration;

use crate::client::resp::Reply;

/// A time with three significant digits.
pub(super) fn duration(time: Duration) -> String {
    let micros = time.as_micros();
    match micros {
        0..=999 => format!("{micros} µs"),
        1_000..=9_999 => format!("{:.2} ms", micros as f64 / 1e3),
        10_000..=99_999 => format!("{:.1} ms", micros as f64 / 1e3),
        100_000..=999_999 => format!("{:.0} ms", micros as f64 / 1e3),
        _ => format!("{:.2} s", micros as f64 / 1e6),
    }
}

/// A number with its thousands apart.
pub(super) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Characters on a line of a flat list.
const LINE_CHARS: usize = 100;

/// A reply as text: an even list of strings as `name=value` pairs, the way HGETALL means it.
pub(super) fn reply(reply: &Reply) -> String {
    match reply {
        Reply::Simple(text) => format!(" {text}\n"),
        Reply::Error(text) => format!(" (error) {text}\n"),
        Reply::Integer(number) => format!(" (integer) {number}\n"),
        Reply::Bulk(Some(text)) => format!(" \"{text}\"\n"),
        Reply::Bulk(None) | Reply::Array(None) => " (nil)\n".to_owned(),
        Reply::Array(Some(elements)) => {
            let texts: Option<Vec<&str>> = elements
                .iter()
                .map(|element| match element {
                    Reply::Bulk(Some(text)) => Some(text.as_str()),
                    _ => None,
                })
                .collect();
            match texts {
                Some(texts) if texts.len() % 2 == 0 => {
                    flow(texts.chunks_exact(2).map(|pair| format!("{}={}", pair[0], pair[1])))
                }
                _ => elements.iter().map(self::reply).collect(),
            }
        }
    }
}

/// Words in lines of limited length.
fn flow(words: impl Iterator<Item = String>) -> String {
    let mut text = String::new();
    let mut line = String::new();
    for word in words {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > LINE_CHARS {
            text.push_str(&line);
            text.push('\n');
            line.clear();
        }
        line.push(' ');
        line.push_str(&word);
    }
    text.push_str(&line);
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_a_unit() {
        let check = |micros, expected: &str| assert_eq!(duration(Duration::from_micros(micros)), expected);
        check(0, "0 µs");
        check(842, "842 µs");
        check(1_234, "1.23 ms");
        check(56_780, "56.8 ms");
        check(345_600, "346 ms");
        check(2_500_000, "2.50 s");
    }

    #[test]
    fn thousands_are_apart() {
        let check = |number, expected: &str| assert_eq!(thousands(number), expected);
        check(0, "0");
        check(999, "999");
        check(1_000, "1,000");
        check(336_776, "336,776");
        check(1_234_567, "1,234,567");
    }

    #[test]
    fn a_hash_is_shown_as_pairs() {
        let text = |text: &str| Reply::Bulk(Some(text.to_owned()));
        let hash = Reply::Array(Some(vec![text("dest"), text("IAD"), text("hour"), text("6")]));
        assert_eq!(reply(&hash), " dest=IAD hour=6\n");
        assert_eq!(reply(&Reply::Array(Some(vec![text("only")]))), " \"only\"\n");
        assert_eq!(reply(&Reply::Array(Some(Vec::new()))), "\n");
    }
}
