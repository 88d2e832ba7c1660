//! The text format: fields between delimiters, special bytes behind backslashes, `\N` for NULL.
//!
//! Called by `decode` with whole lines and by `encode` with whole values. As PostgreSQL's CopyReadAttributesText and
//! CopyAttributeOutText; no line is wrong here, only its number of fields can be.

use super::Options;
use super::decode::{Collector, Place};

/// Splits a line into fields.
pub(super) fn split(line: &[u8], options: &Options, row: &mut Collector) {
    let mut start = 0;
    loop {
        let special = line[start..].iter().position(|byte| *byte == options.delimiter || *byte == b'\\');
        let end = match special {
            Some(at) if line[start + at] == b'\\' => {
                let (place, end) = escaped_field(line, start, start + at, options, row);
                row.push(place);
                end
            }
            _ => {
                let end = special.map_or(line.len(), |at| start + at);
                let null = line[start..end] == options.null;
                row.push(if null { Place::Null } else { Place::Sent { start, length: end - start } });
                end
            }
        };
        if end == line.len() {
            return;
        }
        start = end + 1;
    }
}

/// A field with its first backslash at `backslash`; returns its place and its end, a delimiter or the line's end.
fn escaped_field(
    line: &[u8],
    start: usize,
    backslash: usize,
    options: &Options,
    row: &mut Collector,
) -> (Place, usize) {
    let unescaped_start = row.unescaped.len();
    row.unescaped.extend_from_slice(&line[start..backslash]);
    let mut at = backslash;
    let mut sent_end = None;
    while let Some(&byte) = line.get(at) {
        if byte == options.delimiter {
            break;
        }
        at += 1;
        if byte != b'\\' {
            row.unescaped.push(byte);
        } else if at < line.len() {
            at += unescape(&line[at..], &mut row.unescaped);
        } else {
            // A backslash that ends the data is nothing.
            sent_end = Some(at - 1);
        }
    }
    // NULL is what was sent, not what it means: \N as escaped text would be the letter N.
    if line[start..sent_end.unwrap_or(at)] == options.null {
        row.unescaped.truncate(unescaped_start);
        return (Place::Null, at);
    }
    (Place::Unescaped { start: unescaped_start, length: row.unescaped.len() - unescaped_start }, at)
}

/// What follows a backslash: appends its meaning, returns its length.
fn unescape(rest: &[u8], out: &mut Vec<u8>) -> usize {
    let (byte, used) = match rest[0] {
        b'0'..=b'7' => number(rest, 8, 3),
        b'x' if rest.get(1).is_some_and(u8::is_ascii_hexdigit) => {
            let (byte, used) = number(&rest[1..], 16, 2);
            (byte, used + 1)
        }
        b'b' => (0x08, 1),
        b'f' => (0x0c, 1),
        b'n' => (b'\n', 1),
        b'r' => (b'\r', 1),
        b't' => (b'\t', 1),
        b'v' => (0x0b, 1),
        other => (other, 1),
    };
    out.push(byte);
    used
}

/// At most so many digits of the radix; what exceeds a byte is cut off, as `\777` is in PostgreSQL.
fn number(rest: &[u8], radix: u32, digits_max: usize) -> (u8, usize) {
    let (mut value, mut used) = (0u32, 0);
    for byte in rest.iter().take(digits_max) {
        let Some(digit) = char::from(*byte).to_digit(radix) else { break };
        value = value * radix + digit;
        used += 1;
    }
    ((value & 0xff) as u8, used)
}

/// Escapes the value that begins at `start` and ends `out`.
pub(super) fn escape(out: &mut Vec<u8>, start: usize, delimiter: u8, scratch: &mut Vec<u8>) {
    let Some(first) = out[start..].iter().position(|byte| letter(*byte, delimiter).is_some()) else {
        return;
    };
    scratch.clear();
    scratch.extend_from_slice(&out[start + first..]);
    out.truncate(start + first);
    for &byte in scratch.iter() {
        match letter(byte, delimiter) {
            Some(letter) => out.extend_from_slice(&[b'\\', letter]),
            None => out.push(byte),
        }
    }
}

/// What to write behind a backslash in place of a byte that cannot stand for itself.
fn letter(byte: u8, delimiter: u8) -> Option<u8> {
    match byte {
        0x08 => Some(b'b'),
        0x0c => Some(b'f'),
        b'\n' => Some(b'n'),
        b'\r' => Some(b'r'),
        b'\t' => Some(b't'),
        0x0b => Some(b'v'),
        b'\\' => Some(b'\\'),
        byte if byte == delimiter => Some(byte),
        _ => None,
    }
}
