//! Writes the normalised text of JSON while it is read. Called by `json`.
//!
//! Everything goes to one buffer in the order it was written. An object whose keys turn out not to be in order is
//! put in order when it closes:
//!
//! ```text
//! [{"a": 1}, {"bb": 1, "a": 2     <- the second object closes: its two entries change places
//!            ^         ^     ^
//!          start       start end
//! ```

use std::borrow::Cow;

use crate::{Error, ErrorCode, Result};

use super::lexer::{TokenKind, hex};
use super::{Event, walk};

/// Digits that an exponent may add to a number.
const EXPONENT_MAX: i64 = 1000;
/// PostgreSQL's `numeric` holds this many digits before the point.
const INTEGER_DIGITS_MAX: i64 = 131_072;
/// And this many after it.
const FRACTION_DIGITS_MAX: i64 = 16_383;

/// A key, and where its entry lies in the buffer.
struct Entry<'a> {
    key: Cow<'a, str>,
    start: usize,
    end: usize,
}

/// An array or an object that is not closed yet.
struct Open<'a> {
    /// Where its first entry begins.
    start: usize,
    /// Values so far, of an array.
    count: usize,
    /// Entries so far, of an object.
    entries: Vec<Entry<'a>>,
}

#[derive(Default)]
struct Writer<'a> {
    out: String,
    open: Vec<Open<'a>>,
    /// A key was just written, so that the value follows its colon.
    after_key: bool,
}

pub(super) fn normalize(text: &str) -> Result<String> {
    let mut writer = Writer { out: String::with_capacity(text.len()), ..Writer::default() };
    walk(text, true, |event| writer.event(event))?;
    Ok(writer.out)
}

impl<'a> Writer<'a> {
    fn event(&mut self, event: Event<'a>) -> Result<()> {
        match event {
            Event::String(raw, true) => self.key(raw),
            Event::String(raw, false) => {
                self.before_value();
                write_string(&decode(raw), &mut self.out);
            }
            Event::Plain(text, TokenKind::Number) => {
                self.before_value();
                write_number(text, &mut self.out)?;
            }
            Event::Plain(text, _) => {
                self.before_value();
                self.out.push_str(text);
            }
            Event::Open(kind) => {
                self.before_value();
                self.out.push(if kind == TokenKind::OpenObject { '{' } else { '[' });
                self.open.push(Open { start: self.out.len(), count: 0, entries: Vec::new() });
            }
            Event::Close(kind) => {
                if let Some(mut open) = self.open.pop() {
                    if let Some(last) = open.entries.last_mut() {
                        last.end = self.out.len();
                    }
                    put_in_order(open, &mut self.out);
                }
                self.out.push(if kind == TokenKind::CloseObject { '}' } else { ']' });
            }
        }
        Ok(())
    }

    fn key(&mut self, raw: &'a str) {
        let Some(open) = self.open.last_mut() else { return };
        if let Some(last) = open.entries.last_mut() {
            last.end = self.out.len();
            self.out.push_str(", ");
        }
        let start = self.out.len();
        let key = decode(raw);
        write_string(&key, &mut self.out);
        self.out.push_str(": ");
        open.entries.push(Entry { key, start, end: start });
        self.after_key = true;
    }

    fn before_value(&mut self) {
        if std::mem::take(&mut self.after_key) {
            return;
        }
        if let Some(open) = self.open.last_mut() {
            if open.count > 0 {
                self.out.push_str(", ");
            }
            open.count += 1;
        }
    }
}

/// Sorts the entries of an object by the length of their keys, then by their bytes, and keeps the last of equals.
fn put_in_order(open: Open<'_>, out: &mut String) {
    fn order<'k>(entry: &'k Entry<'_>) -> (usize, &'k str) {
        (entry.key.len(), &entry.key)
    }
    let mut entries = open.entries;
    if entries.is_sorted_by(|a, b| order(a) < order(b)) {
        return;
    }
    // Stable, so that of equal keys the last one written stays last.
    entries.sort_by(|a, b| order(a).cmp(&order(b)));
    let body = out.split_off(open.start);
    let mut first = true;
    for (index, entry) in entries.iter().enumerate() {
        if entries.get(index + 1).is_some_and(|next| next.key == entry.key) {
            continue;
        }
        if !std::mem::take(&mut first) {
            out.push_str(", ");
        }
        out.push_str(&body[entry.start - open.start..entry.end - open.start]);
    }
}

/// The string that a JSON string stands for; its escapes have been checked.
fn decode(raw: &str) -> Cow<'_, str> {
    let inner = &raw[1..raw.len() - 1];
    if !inner.contains('\\') {
        return Cow::Borrowed(inner);
    }
    let mut decoded = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        decoded.push_str(&rest[..at]);
        let escape = rest.as_bytes()[at + 1];
        rest = &rest[at + 2..];
        match escape {
            b'b' => decoded.push('\x08'),
            b'f' => decoded.push('\x0c'),
            b'n' => decoded.push('\n'),
            b'r' => decoded.push('\r'),
            b't' => decoded.push('\t'),
            b'u' => {
                let mut unit = || {
                    let digits = rest.strip_prefix("\\u").unwrap_or(rest);
                    rest = &digits[4..];
                    hex(&digits.as_bytes()[..4]).unwrap_or_default()
                };
                let first = unit();
                let units = [first, if (0xd800..0xdc00).contains(&first) { unit() } else { 0 }];
                decoded.extend(char::decode_utf16(units).next().and_then(Result::ok));
            }
            other => decoded.push(char::from(other)),
        }
    }
    decoded.push_str(rest);
    Cow::Owned(decoded)
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.find(|char| matches!(char, '"' | '\\' | '\0'..='\x1f')) {
        out.push_str(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\x08' => out.push_str("\\b"),
            b'\x0c' => out.push_str("\\f"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            control => out.push_str(&format!("\\u{control:04x}")),
        }
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
}

/// Writes a number as `numeric` does: no exponent, the digits after the point that were written, no negative zero.
fn write_number(raw: &str, out: &mut String) -> Result<()> {
    let unsigned = raw.strip_prefix('-').unwrap_or(raw);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse().unwrap_or(i64::MAX)),
        None => (unsigned, 0),
    };
    if !(-EXPONENT_MAX..=EXPONENT_MAX).contains(&exponent) {
        return Err(Error::unsupported(format!(
            "jsonb numbers with an exponent beyond {EXPONENT_MAX} are not supported"
        )));
    }
    let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let is_zero = mantissa.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    let scale = (fraction.len() as i64 - exponent).max(0);
    // Where the point stands among the digits, which may be before or after all of them.
    let point = integer.len() as i64 + exponent;
    if scale > FRACTION_DIGITS_MAX || (point > INTEGER_DIGITS_MAX && !is_zero) {
        return Err(Error::new(ErrorCode::NumericOutOfRange, "value overflows numeric format"));
    }
    if raw.starts_with('-') && !is_zero {
        out.push('-');
    }
    if mantissa.len() == unsigned.len() {
        // Without an exponent the digits stay as they are.
        out.push_str(mantissa);
        return Ok(());
    }
    let digits = [integer, fraction].concat();
    let digit_at = |place: i64| {
        usize::try_from(place).ok().and_then(|place| digits.as_bytes().get(place)).copied().unwrap_or(b'0')
    };
    let leading_zeros = digits.bytes().take_while(|&digit| digit == b'0').count() as i64;
    if leading_zeros >= point || leading_zeros == digits.len() as i64 {
        out.push('0');
    } else {
        out.extend((leading_zeros..point).map(|place| char::from(digit_at(place))));
    }
    if scale > 0 {
        out.push('.');
        out.extend((point..point + scale).map(|place| char::from(digit_at(place))));
    }
    Ok(())
}
