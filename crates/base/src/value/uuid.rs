//! `uuid` as text, in all the forms that PostgreSQL reads. Called by `text`.

use crate::Result;

use super::bytea::write_hex;
use super::text::invalid_syntax;

/// Reads 32 hex digits of either case, with a hyphen allowed after every fourth digit and braces around all.
pub(super) fn parse(text: &str) -> Result<[u8; 16]> {
    read(text.as_bytes()).ok_or_else(|| invalid_syntax("uuid", text))
}

fn read(text: &[u8]) -> Option<[u8; 16]> {
    let mut rest = match text {
        [b'{', inner @ .., b'}'] => inner,
        [b'{', ..] => return None,
        plain => plain,
    };
    let mut uuid = [0; 16];
    for (index, byte) in uuid.iter_mut().enumerate() {
        let [high, low, after @ ..] = rest else { return None };
        *byte = (char::from(*high).to_digit(16)? << 4 | char::from(*low).to_digit(16)?) as u8;
        rest = match after {
            [b'-', after @ ..] if index % 2 == 1 && index < 15 => after,
            after => after,
        };
    }
    rest.is_empty().then_some(uuid)
}

/// Appends the form with four hyphens.
pub(super) fn write(uuid: &[u8; 16], out: &mut Vec<u8>) {
    write_hex(&uuid[..4], out);
    for group in [&uuid[4..6], &uuid[6..8], &uuid[8..10], &uuid[10..]] {
        out.push(b'-');
        write_hex(group, out);
    }
}
