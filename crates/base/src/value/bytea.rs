//! `bytea` as text: hex out, hex or escaped in. Called by `text`.

use crate::{Error, ErrorCode, Result};

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Reads `\x` and hex digits, or the escape form.
pub(super) fn parse(text: &str) -> Result<Box<[u8]>> {
    match text.strip_prefix("\\x") {
        Some(hex) => parse_hex(hex),
        None => parse_escaped(text),
    }
}

/// Pairs of digits; white space is allowed between pairs and not within one.
fn parse_hex(text: &str) -> Result<Box<[u8]>> {
    let invalid = |message: String| Error::new(ErrorCode::InvalidParameterValue, message);
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut chars = text.chars();
    while let Some(first) = chars.next() {
        if matches!(first, ' ' | '\n' | '\t' | '\r') {
            continue;
        }
        let digit =
            |char: char| char.to_digit(16).ok_or_else(|| invalid(format!("invalid hexadecimal digit: \"{char}\"")));
        let high = digit(first)?;
        let low = chars.next().ok_or_else(|| invalid("invalid hexadecimal data: odd number of digits".to_owned()))?;
        bytes.push((high << 4 | digit(low)?) as u8);
    }
    Ok(bytes.into())
}

/// Bytes as they are, `\\` for a backslash, `\ooo` for any byte.
fn parse_escaped(text: &str) -> Result<Box<[u8]>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match *rest {
            [b'\\', ref after @ ..] => {
                bytes.push(b'\\');
                rest = after;
            }
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ref after @ ..] => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => {
                return Err(Error::new(ErrorCode::InvalidTextRepresentation, "invalid input syntax for type bytea"));
            }
        }
    }
    Ok(bytes.into())
}

/// Appends `\x` and hex digits.
pub(super) fn write(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(2 + 2 * bytes.len());
    out.extend_from_slice(b"\\x");
    write_hex(bytes, out);
}

/// Appends two hex digits a byte.
pub(super) fn write_hex(bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + 2 * bytes.len(), 0);
    for (digits, byte) in out[start..].chunks_exact_mut(2).zip(bytes) {
        digits.copy_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
}
