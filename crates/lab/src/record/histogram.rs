//! Histograms as text: HdrHistogram's V2 format inside its compressed envelope, in base64, which the tools of
//! HdrHistogram read, for any language.
//!
//! The crate `hdrhistogram` can write this too, but with `flate2`, whose features would then differ between a build of
//! the server alone and one of the workspace. So the zlib stream here holds stored blocks only: valid, not smaller. The
//! counts are short already, for runs of empty buckets are written as their length.
//!
//! ```text
//! base64( cookie 0x1c849314, length, zlib( cookie 0x1c849313, length of counts, 0, digits, low, high, ratio, counts ) )
//! counts: zig-zag LEB128, a positive number is a count, a negative one so many empty buckets
//! ```

use anyhow::{Context, Result, bail, ensure};
use hdrhistogram::Histogram;

/// The latencies of one measurement or of one of its seconds, in nanoseconds.
pub(crate) type Latencies = Histogram<u64>;

/// Latencies beyond an hour count as an hour.
const HIGHEST_NANOS: u64 = 3600 * 1_000_000_000;

/// Decimal digits that are kept of a latency.
const DIGITS: u8 = 3;

/// Buckets of one magnitude: the power of two that keeps three digits apart, 2048, of which the upper half is used from the
/// second magnitude on.
const HALF_BITS: u32 = 10;

const COOKIE: u32 = 0x1c84_9303 | 0x10;
const ENVELOPE_COOKIE: u32 = 0x1c84_9304 | 0x10;
const HEADER_BYTES: usize = 40;

/// An empty histogram.
pub(crate) fn empty() -> Latencies {
    match Histogram::new_with_bounds(1, HIGHEST_NANOS, DIGITS) {
        Ok(histogram) => histogram,
        Err(error) => unreachable!("the bounds are constants: {error}"),
    }
}

/// Adds all of `other`, which has the same bounds.
pub(crate) fn merge(into: &mut Latencies, other: &Latencies) {
    if let Err(error) = into.add(other) {
        unreachable!("all histograms have the same bounds: {error}");
    }
}

/// The histogram as text.
pub(crate) fn encode(histogram: &Latencies) -> String {
    let mut counts = Vec::new();
    let mut next = 0;
    for bucket in histogram.iter_recorded() {
        let index = index_of(bucket.value_iterated_to());
        if index > next {
            leb128(zigzag(-((index - next) as i64)), &mut counts);
        }
        leb128(zigzag(bucket.count_at_value() as i64), &mut counts);
        next = index + 1;
    }
    let mut plain = Vec::with_capacity(HEADER_BYTES + counts.len());
    plain.extend_from_slice(&COOKIE.to_be_bytes());
    plain.extend_from_slice(&(counts.len() as u32).to_be_bytes());
    plain.extend_from_slice(&0u32.to_be_bytes());
    plain.extend_from_slice(&u32::from(DIGITS).to_be_bytes());
    plain.extend_from_slice(&1u64.to_be_bytes());
    plain.extend_from_slice(&HIGHEST_NANOS.to_be_bytes());
    plain.extend_from_slice(&1f64.to_be_bytes());
    plain.extend_from_slice(&counts);

    let stored = zlib_stored(&plain);
    let mut envelope = ENVELOPE_COOKIE.to_be_bytes().to_vec();
    envelope.extend_from_slice(&(stored.len() as u32).to_be_bytes());
    envelope.extend_from_slice(&stored);
    base64(&envelope)
}

/// Reads what [`encode`] wrote.
pub(crate) fn decode(text: &str) -> Result<Latencies> {
    let envelope = from_base64(text)?;
    let (cookie, rest) = u32_of(&envelope)?;
    ensure!(cookie == ENVELOPE_COOKIE, "no HdrHistogram: cookie {cookie:#x}");
    let (_, stored) = u32_of(rest)?;
    of_plain(&from_zlib_stored(stored)?)
}

/// Reads a histogram that is not in the compressed envelope, in base64: as clients in Java write it, whose library would compress it.
pub(crate) fn decode_plain(text: &str) -> Result<Latencies> {
    of_plain(&from_base64(text)?)
}

fn of_plain(plain: &[u8]) -> Result<Latencies> {
    ensure!(plain.len() >= HEADER_BYTES, "a histogram that ends too early");
    let (cookie, rest) = u32_of(plain)?;
    ensure!(cookie == COOKIE, "no HdrHistogram of version 2: cookie {cookie:#x}");
    let (length, _) = u32_of(rest)?;
    let digits = plain.get(12..16) == Some(&u32::from(DIGITS).to_be_bytes()[..]);
    ensure!(digits && plain[24..32] == HIGHEST_NANOS.to_be_bytes(), "a histogram with other bounds");
    let mut counts = plain.get(HEADER_BYTES..HEADER_BYTES + length as usize).context("counts that end too early")?;
    let mut histogram = empty();
    let last = index_of(HIGHEST_NANOS);
    let mut index = 0u64;
    while !counts.is_empty() {
        match from_zigzag(from_leb128(&mut counts)?) {
            // Others write a single empty bucket as the count that it is.
            empty @ ..=0 => index = index.saturating_add(empty.unsigned_abs().max(1)),
            count => {
                ensure!(index <= last, "a bucket beyond the bounds");
                histogram.record_n(value_of(index), count.unsigned_abs())?;
                index += 1;
            }
        }
    }
    Ok(histogram)
}

/// The bucket of a value, as HdrHistogram counts them.
fn index_of(value: u64) -> u64 {
    let magnitude = 64 - HALF_BITS - 1 - (value | ((2 << HALF_BITS) - 1)).leading_zeros();
    (u64::from(magnitude) << HALF_BITS) + (value >> magnitude)
}

/// The lowest value of a bucket.
fn value_of(index: u64) -> u64 {
    match (index >> HALF_BITS).checked_sub(1) {
        None => index,
        Some(magnitude) => ((index & ((1 << HALF_BITS) - 1)) + (1 << HALF_BITS)) << magnitude,
    }
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

fn from_zigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

/// LEB128 with a ninth byte that holds eight bits.
fn leb128(mut number: u64, out: &mut Vec<u8>) {
    for _ in 0..8 {
        if number < 0x80 {
            return out.push(number as u8);
        }
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn from_leb128(bytes: &mut &[u8]) -> Result<u64> {
    let mut number = 0;
    for place in 0..9 {
        let Some((byte, rest)) = bytes.split_first() else { bail!("a count that ends too early") };
        *bytes = rest;
        if place == 8 {
            return Ok(number | u64::from(*byte) << 56);
        }
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            break;
        }
    }
    Ok(number)
}

/// A zlib stream of stored blocks (RFC 1950, RFC 1951 section 3.2.4).
fn zlib_stored(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0x78, 0x01];
    let mut blocks = bytes.chunks(usize::from(u16::MAX)).peekable();
    while let Some(block) = blocks.next() {
        let length = block.len() as u16;
        out.push(u8::from(blocks.peek().is_none()));
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(block);
    }
    out.extend_from_slice(&adler32(bytes).to_be_bytes());
    out
}

fn from_zlib_stored(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut rest = bytes.strip_prefix(&[0x78, 0x01]).context("not compressed as the lab does it")?;
    let mut out = Vec::new();
    loop {
        let Some(([last, a, b, c, d], tail)) = rest.split_first_chunk() else { bail!("a block that ends too early") };
        let length = u16::from_le_bytes([*a, *b]);
        ensure!(*last <= 1 && length == !u16::from_le_bytes([*c, *d]), "a block that is not stored as it is");
        let (block, tail) = tail.split_at_checked(length.into()).context("a block that ends too early")?;
        out.extend_from_slice(block);
        rest = tail;
        if *last == 1 {
            break;
        }
    }
    ensure!(u32_of(rest)?.0 == adler32(&out), "a histogram was damaged: its checksum differs");
    Ok(out)
}

fn adler32(bytes: &[u8]) -> u32 {
    let (low, high) = bytes.iter().fold((1u32, 0u32), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65_521;
        (low, (high + low) % 65_521)
    });
    high << 16 | low
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |place: usize| u32::from(three.get(place).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let sign = ALPHABET[(bits >> (18 - 6 * place)) as usize & 63];
            out.push(if place <= three.len() { char::from(sign) } else { '=' });
        }
    }
    out
}

fn from_base64(text: &str) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let signs = text.trim_end_matches('=').as_bytes();
    for four in signs.chunks(4) {
        let mut bits = 0u32;
        for place in 0..4 {
            let sign = four.get(place).copied().unwrap_or(b'A');
            let value = ALPHABET.iter().position(|known| *known == sign).context("not base64")?;
            bits = bits << 6 | value as u32;
        }
        out.extend_from_slice(&bits.to_be_bytes()[1..four.len().max(1)]);
    }
    Ok(out)
}

fn u32_of(bytes: &[u8]) -> Result<(u32, &[u8])> {
    let (head, rest) = bytes.split_first_chunk().context("a histogram that ends too early")?;
    Ok((u32::from_be_bytes(*head), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::Numbers;

    #[test]
    fn a_histogram_comes_back_as_it_was() {
        let mut numbers = Numbers::new(3);
        let mut histogram = empty();
        assert_eq!(decode(&encode(&histogram)).unwrap(), histogram);
        for _ in 0..20_000 {
            // All magnitudes.
            let bits = numbers.below(42);
            histogram.saturating_record(numbers.below(1 << bits).max(1));
        }
        histogram.record_n(77, 1 << 40).unwrap();
        histogram.saturating_record(u64::MAX);
        assert_eq!(decode(&encode(&histogram)).unwrap(), histogram);
    }

    #[test]
    fn buckets_are_counted_as_the_crate_counts_them() {
        let mut histogram = empty();
        for bits in 0..41 {
            histogram.saturating_record((1 << bits) + (1 << bits) / 3);
        }
        for bucket in histogram.iter_recorded() {
            let value = bucket.value_iterated_to();
            assert_eq!(value_of(index_of(value)), histogram.lowest_equivalent(value));
        }
    }

    #[test]
    fn the_text_is_that_of_the_other_implementations() {
        // The crate's own serialization of the same histogram has the same uncompressed bytes.
        let mut histogram = empty();
        histogram.record_n(1, 2).unwrap();
        histogram.record_n(3, 1).unwrap();
        let envelope = from_base64(&encode(&histogram)).unwrap();
        let plain = from_zlib_stored(&envelope[8..]).unwrap();
        let counts = [1, 4, 1, 2];
        assert_eq!(plain[..8], [0x1c, 0x84, 0x93, 0x13, 0, 0, 0, 4]);
        assert_eq!(plain[HEADER_BYTES..], counts);
    }

    #[test]
    fn an_empty_bucket_may_be_written_as_a_count() {
        let mut histogram = empty();
        histogram.record_n(1, 2).unwrap();
        histogram.record_n(3, 1).unwrap();
        let envelope = from_base64(&encode(&histogram)).unwrap();
        let mut plain = from_zlib_stored(&envelope[8..]).unwrap();
        assert_eq!(decode_plain(&base64(&plain)).unwrap(), histogram);
        // No bucket, two, none, one: as the library of Java writes single ones.
        plain[HEADER_BYTES..].copy_from_slice(&[0, 4, 0, 2]);
        assert_eq!(decode_plain(&base64(&plain)).unwrap(), histogram);
        assert!(decode_plain(&base64(&plain[..HEADER_BYTES - 1])).is_err());
    }

    #[test]
    fn damage_is_noticed() {
        let mut histogram = empty();
        histogram.record_n(1234, 5).unwrap();
        let text = encode(&histogram);
        for place in 0..text.len() {
            let mut damaged = text.clone().into_bytes();
            damaged[place] = if damaged[place] == b'B' { b'C' } else { b'B' };
            let decoded = decode(&String::from_utf8(damaged).unwrap());
            assert!(decoded.is_err() || decoded.unwrap() == histogram, "at {place}");
        }
        assert!(decode(&text[..text.len() / 2]).is_err());
        assert!(decode("").is_err());
        assert!(decode("no base64!").is_err());
    }

    #[test]
    fn base64_is_that_of_rfc_4648() {
        for (plain, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(plain.as_bytes()), text);
            assert_eq!(from_base64(text).unwrap(), plain.as_bytes());
        }
        assert_eq!(adler32(b"Wikipedia"), 0x11E6_0398);
    }
}
