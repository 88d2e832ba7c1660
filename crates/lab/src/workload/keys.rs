//! Keys and values of the key-value workloads. A value says which key it belongs to, so a reader knows the right one without
//! keeping a copy, and every byte of it is checked.
//!
//! ```text
//! key     "lab:000000000042"                                    16 bytes
//! value   00 00 00 2a | version, 4 bytes | bytes that follow from the first eight ...
//! ```

use crate::numbers::Numbers;

const PREFIX: &[u8] = b"lab:";
const DIGITS: usize = 12;

/// Bytes of a key.
pub(super) const KEY_BYTES: usize = PREFIX.len() + DIGITS;

/// The name of a key.
pub(super) fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut name = *b"lab:000000000000";
    let mut rest = number;
    for place in (PREFIX.len()..KEY_BYTES).rev() {
        name[place] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    name
}

/// The number of a key's name, if it is one.
pub(crate) fn key_number(name: &[u8]) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX).filter(|digits| digits.len() == DIGITS)?;
    str::from_utf8(digits).ok()?.parse().ok()
}

/// Replaces `out` by the value of a key in this version. `bytes` is at least 8.
pub(crate) fn value(key: u64, version: u32, bytes: usize, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&(key as u32).to_be_bytes());
    out.extend_from_slice(&version.to_be_bytes());
    let mut numbers = Numbers::new(key << 32 | u64::from(version));
    while out.len() < bytes {
        out.extend_from_slice(&numbers.next().to_le_bytes());
    }
    out.truncate(bytes);
}

/// The version that a value has, if it is long enough to have one.
pub(super) fn version_of(value: &[u8]) -> Option<u32> {
    value.get(4..)?.first_chunk().map(|version| u32::from_be_bytes(*version))
}

/// Says what is wrong with a value that was read for a key, whatever its version.
#[inline]
pub(super) fn fault(key: u64, bytes: usize, found: &[u8]) -> Option<String> {
    let Some((head, rest)) = found.split_first_chunk::<8>().filter(|_| found.len() == bytes) else {
        return Some(format!("key {key} has {} bytes instead of {bytes}", found.len()));
    };
    let head = u64::from_be_bytes(*head);
    if head >> 32 != key & 0xffff_ffff {
        return Some(format!("key {key} has the value of key {}", head >> 32));
    }
    let mut numbers = Numbers::new(key << 32 | (head & 0xffff_ffff));
    let right = rest.chunks(8).all(|piece| piece == &numbers.next().to_le_bytes()[..piece.len()]);
    (!right).then(|| format!("key {key} has a damaged value"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_in_its_name() {
        for number in [0, 42, 999_999_999_999] {
            assert_eq!(key_number(&key(number)), Some(number));
        }
        assert_eq!(&key(42), b"lab:000000000042");
        assert_eq!(key_number(b"lab:42"), None);
        assert_eq!(key_number(b"key:000000000042"), None);
    }

    #[test]
    fn a_value_is_right_for_its_key_only_and_to_its_last_byte() {
        let mut bytes = Vec::new();
        for length in [8, 9, 16, 100, 800] {
            value(42, 7, length, &mut bytes);
            assert_eq!(bytes.len(), length);
            assert_eq!((fault(42, length, &bytes), version_of(&bytes)), (None, Some(7)));
            assert!(fault(43, length, &bytes).unwrap().contains("the value of key 42"));
            assert!(fault(42, length + 1, &bytes).is_some());
            *bytes.last_mut().unwrap() ^= 1;
            assert_eq!(fault(42, length, &bytes).is_some(), length > 8);
        }
    }
}
