//! `hashtext` and its kin: the hashes by which PostgreSQL itself divides rows, which clients use for numbers of advisory locks.
//!
//! Source: `hash_bytes` and `hash_bytes_extended` of PostgreSQL's hashfn.c, on a little-endian machine; of a text in a collation that is
//! deterministic.

use ashlar_base::{Datum, Result, Value};

use super::catalog::{Body, Function, R, T, function, of};
use super::strings::text_of;

const INT4: R = R::Is(T::Int4);
const INT8: R = R::Is(T::Int8);

/// See the module.
pub const FUNCTIONS: &[Function] = &[
    function("hashtext", &[of(&[T::Text], INT4, Body::Strict(|_, args| short(text_of(&args[0]).as_bytes())))]),
    function("hashint4", &[of(&[T::Int4], INT4, Body::Strict(|_, args| short(&folded(&args[0]))))]),
    function("hashint8", &[of(&[T::Int8], INT4, Body::Strict(|_, args| short(&folded(&args[0]))))]),
    function(
        "hashtextextended",
        &[of(&[T::Text, T::Int8], INT8, Body::Strict(|_, args| long(text_of(&args[0]).as_bytes(), &args[1])))],
    ),
    function(
        "hashint4extended",
        &[of(&[T::Int4, T::Int8], INT8, Body::Strict(|_, args| long(&folded(&args[0]), &args[1])))],
    ),
    function(
        "hashint8extended",
        &[of(&[T::Int8, T::Int8], INT8, Body::Strict(|_, args| long(&folded(&args[0]), &args[1])))],
    ),
];

fn short(bytes: &[u8]) -> Result<Value> {
    Ok(Value::Int4(hash(bytes)))
}

fn long(bytes: &[u8], seed: &Datum<'_>) -> Result<Value> {
    let seed = if let Datum::Int8(seed) = seed { *seed } else { 0 };
    Ok(Value::Int8(hash_extended(bytes, seed)))
}

/// An integer as 32 bits: equal numbers of two widths have one hash.
fn folded(datum: &Datum<'_>) -> [u8; 4] {
    let number = match datum {
        Datum::Int4(number) => i64::from(*number),
        Datum::Int8(number) => *number,
        _ => 0,
    };
    let (low, high) = (number as u32, (number >> 32) as u32);
    (low ^ if number >= 0 { high } else { !high }).to_le_bytes()
}

/// The hash of 32 bits.
pub fn hash(bytes: &[u8]) -> i32 {
    words(bytes, 0).2 as i32
}

/// The hash of 64 bits; without a seed its lower half is the other one.
pub fn hash_extended(bytes: &[u8], seed: i64) -> i64 {
    let (_, high, low) = words(bytes, seed as u64);
    (u64::from(high) << 32 | u64::from(low)) as i64
}

fn words(bytes: &[u8], seed: u64) -> (u32, u32, u32) {
    let start = 0x9e37_79b9_u32.wrapping_add(bytes.len() as u32).wrapping_add(3_923_095);
    let (mut a, mut b, mut c) = (start, start, start);
    if seed != 0 {
        a = a.wrapping_add((seed >> 32) as u32);
        b = b.wrapping_add(seed as u32);
        (a, b, c) = mixed(a, b, c);
    }
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
    let chunks = bytes.chunks_exact(12);
    let rest = chunks.remainder();
    for chunk in chunks {
        a = a.wrapping_add(word(&chunk[..4]));
        b = b.wrapping_add(word(&chunk[4..8]));
        c = c.wrapping_add(word(&chunk[8..]));
        (a, b, c) = mixed(a, b, c);
    }
    let part = |from: usize, to: usize| word(&rest[from.min(rest.len())..to.min(rest.len())]);
    a = a.wrapping_add(part(0, 4));
    b = b.wrapping_add(part(4, 8));
    // The lowest byte is that of the length.
    c = c.wrapping_add(part(8, 11) << 8);
    finished(a, b, c)
}

fn mixed(mut a: u32, mut b: u32, mut c: u32) -> (u32, u32, u32) {
    a = a.wrapping_sub(c) ^ c.rotate_left(4);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(6);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(8);
    b = b.wrapping_add(a);
    a = a.wrapping_sub(c) ^ c.rotate_left(16);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(19);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(4);
    b = b.wrapping_add(a);
    (a, b, c)
}

fn finished(mut a: u32, mut b: u32, mut c: u32) -> (u32, u32, u32) {
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    c = (c ^ b).wrapping_sub(b.rotate_left(24));
    (a, b, c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_postgresql() {
        for (text, expected, seeded) in [
            ("", -1_477_818_771, 2_755_504_096_093_790_112),
            ("a", 1_075_015_857, 6_761_863_715_122_467_050),
            ("hello world!", 1_400_155_871, -8_022_711_853_793_683_377),
            ("abcdefghijk", -1_483_803_693, -4_615_438_900_308_943_748),
            ("a text of more than twelve bytes", 1_139_813_685, 4_374_207_613_120_289_403),
            ("üñí", 1_856_898_435, -2_511_166_234_368_707_108),
        ] {
            assert_eq!(hash(text.as_bytes()), expected, "{text}");
            assert_eq!(hash_extended(text.as_bytes(), 7), seeded, "{text}");
        }
    }
}
