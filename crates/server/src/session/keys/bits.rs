//! SETBIT, GETBIT, BITCOUNT, BITPOS and BITOP: strings as bits, of which the first is the highest of the first byte.
//!
//! Called through the command table.

use ashlar_base::{Datum, Error};
use ashlar_store::{Expiry, Reservation};

use super::access::atomically;
use super::arguments::{Args, integer, integer_or_error, is};
use super::error::{KeyError, Outcome};
use super::keyspace::{delete, named};
use super::strings::{edit, put_living, value_of};
use super::{KeySession, Reply};

/// The bit of a string that SETBIT or GETBIT names: one of the longest string that there may be.
fn offset(session: &KeySession, text: &[u8]) -> Outcome<usize> {
    let offset = integer(text).and_then(|offset| usize::try_from(offset).ok());
    let offset = offset.filter(|offset| offset / 8 < session.service.value_bytes_max());
    offset.ok_or(KeyError::Redis("ERR bit offset is not an integer or out of range"))
}

/// The byte and the bit of it, as a mask.
fn place(offset: usize) -> (usize, u8) {
    (offset / 8, 0x80 >> (offset % 8))
}

pub(super) fn setbit(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (byte, mask) = place(offset(session, args.at(2))?);
    let is_set = match args.at(3) {
        b"0" => false,
        b"1" => true,
        _ => return Err(KeyError::Redis("ERR bit is not an integer or out of range")),
    };
    let mut was_set = false;
    let longer = |length: usize| length.max(byte + 1);
    edit(session, args.at(1), longer, |value| {
        value.resize(longer(value.len()), 0);
        was_set = value[byte] & mask != 0;
        value[byte] = if is_set { value[byte] | mask } else { value[byte] & !mask };
    })?;
    reply.integer(i64::from(was_set));
    Ok(())
}

/// Looks at the value of a key; none where there is none.
fn look<R>(session: &mut KeySession, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> Outcome<Option<R>> {
    session.plain(key)?.get(&[Datum::Bytea(key)], |row| {
        let mut done = None;
        if let Some(row) = row {
            value_of(&row, |value| done = Some(f(value)));
        }
        done
    })
}

/// The same of somebody who goes through all of it.
fn look_through<R>(session: &mut KeySession, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> Outcome<Option<R>> {
    let mut length = 0;
    let done = look(session, key, |value| {
        length = value.len();
        f(value)
    })?;
    session.running.charge_work(length as u64);
    Ok(done)
}

pub(super) fn getbit(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (byte, mask) = place(offset(session, args.at(2))?);
    let is_set = look(session, args.at(1), |value| value.get(byte).is_some_and(|byte| byte & mask != 0))?;
    reply.integer(i64::from(is_set.unwrap_or(false)));
    Ok(())
}

/// Whether indexes count bits, rather than bytes.
fn counts_bits(unit: &[u8]) -> Outcome<bool> {
    match unit {
        unit if is(unit, "bit") => Ok(true),
        unit if is(unit, "byte") => Ok(false),
        _ => Err(KeyError::SYNTAX),
    }
}

/// The first and the last bit of what two indexes name, both inclusive, negative from the end; none where that is nothing.
fn span((start, end): (i64, i64), by_bits: bool, bytes: usize) -> Option<(usize, usize)> {
    let size = i64::try_from(if by_bits { bytes.saturating_mul(8) } else { bytes }).unwrap_or(i64::MAX);
    let absolute = |at: i64| if at < 0 { size.saturating_add(at).max(0) } else { at };
    let (start, end) = (absolute(start), absolute(end).min(size - 1));
    if start > end {
        return None;
    }
    // Both are within 0..size here.
    let (start, end) = (start as usize, end as usize);
    Some(if by_bits { (start, end) } else { (start * 8, end * 8 + 7) })
}

/// How many bits are set from one to another.
fn count_ones(value: &[u8], (from, to): (usize, usize)) -> u64 {
    let (first, last) = (from / 8, to / 8);
    let whole: u64 = value[first..=last].iter().map(|byte| u64::from(byte.count_ones())).sum();
    let before = u16::from(value[first]) >> (8 - from % 8);
    let behind = u16::from(value[last]) & ((1 << (7 - to % 8)) - 1);
    whole - u64::from(before.count_ones()) - u64::from(behind.count_ones())
}

/// The first bit that is set, or is not, from one to another.
fn first_bit(value: &[u8], (from, to): (usize, usize), is_set: bool) -> Option<usize> {
    let (first, last) = (from / 8, to / 8);
    (first..=last).find_map(|at| {
        let mut byte = if is_set { value[at] } else { !value[at] };
        if at == first {
            byte &= 0xff >> (from % 8);
        }
        if at == last {
            byte &= 0xff << (7 - to % 8);
        }
        (byte != 0).then(|| at * 8 + byte.leading_zeros() as usize)
    })
}

pub(super) fn bitcount(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    // As in Redis, of a key that is not there nobody asks whether the rest is right.
    let count = look_through(session, args.at(1), |value| {
        let (start, end) = match args.len() {
            2 => (0, -1),
            4 | 5 => (integer_or_error(args.at(2))?, integer_or_error(args.at(3))?),
            _ => return Err(KeyError::SYNTAX),
        };
        if start < 0 && end < 0 && start > end {
            return Ok(0);
        }
        let by_bits = args.len() == 5 && counts_bits(args.at(4))?;
        Ok(span((start, end), by_bits, value.len()).map_or(0, |span| count_ones(value, span)))
    })?;
    reply.integer(count.transpose()?.unwrap_or(0) as i64);
    Ok(())
}

pub(super) fn bitpos(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let is_set = match integer_or_error(args.at(2))? {
        0 => false,
        1 => true,
        _ => return Err(KeyError::Redis("ERR The bit argument must be 1 or 0.")),
    };
    let place = look_through(session, args.at(1), |value| {
        let has_end = args.len() > 4;
        if args.len() > 6 {
            return Err(KeyError::SYNTAX);
        }
        let start = if args.len() > 3 { integer_or_error(args.at(3))? } else { 0 };
        let by_bits = args.len() == 6 && counts_bits(args.at(5))?;
        let end = if has_end { integer_or_error(args.at(4))? } else { -1 };
        let Some(span) = span((start, end), by_bits, value.len()) else { return Ok(-1) };
        Ok(match first_bit(value, span, is_set) {
            Some(place) => place as i64,
            // Behind the end of a string there are zeros, unless the end was said.
            None if !is_set && !has_end => span.1 as i64 + 1,
            None => -1,
        })
    })?;
    let of_nothing = if is_set { -1 } else { 0 };
    reply.integer(place.transpose()?.unwrap_or(of_nothing));
    Ok(())
}

/// What BITOP does with the bits of several strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combine {
    And,
    Or,
    Xor,
    Not,
}

impl Combine {
    fn of_word(word: &[u8]) -> Outcome<Self> {
        let words = [("and", Self::And), ("or", Self::Or), ("xor", Self::Xor), ("not", Self::Not)];
        let known = words.into_iter().find(|(name, _)| is(word, name));
        known.map(|(_, combine)| combine).ok_or(KeyError::SYNTAX)
    }

    /// Adds a string to what is made of those before it; shorter ones end with zeros. What grows is charged.
    fn add(self, result: &mut Vec<u8>, value: &[u8], is_first: bool, held: &mut Reservation) -> Result<(), Error> {
        if value.len() > result.len() {
            held.grow(value.len() - result.len())?;
            result.resize(value.len(), 0);
        }
        if is_first {
            result.copy_from_slice(value);
        } else if self == Self::And {
            // Behind the end of the value there are zeros.
            result[value.len()..].fill(0);
        }
        for (byte, other) in result.iter_mut().zip(value) {
            match self {
                Self::Not => *byte = !*other,
                Self::And => *byte &= *other,
                Self::Or => *byte |= *other,
                Self::Xor if !is_first => *byte ^= *other,
                Self::Xor => {}
            }
        }
        Ok(())
    }
}

pub(super) fn bitop(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let combine = Combine::of_word(args.at(1))?;
    if combine == Combine::Not && args.len() != 4 {
        return Err(KeyError::Redis("ERR BITOP NOT must be called with a single source key."));
    }
    for name in args.from(3) {
        if session.is_row_name(name) && named(session, name).exists(session, name)? {
            return Err(KeyError::WRONG_TYPE);
        }
    }
    let target = args.at(2);
    if session.is_row_name(target) {
        return Err(KeyError::WRONG_TYPE);
    }
    let service = &session.service;
    let key = [Datum::Bytea(target)];
    let mut work = 0;
    let (length, found) = atomically(service, &mut session.running, |transaction| {
        let mut held = service.shared.engine.store().reservation();
        let (mut result, mut found) = (Vec::new(), Vec::with_capacity(args.len() - 3));
        for (place, name) in args.from(3).enumerate() {
            let added = transaction.get(&service.kv, &[Datum::Bytea(name)], |row| {
                let mut added = Ok(());
                match &row {
                    Some(row) => value_of(row, |value| {
                        work += 2 * value.len() as u64;
                        added = combine.add(&mut result, value, place == 0, &mut held);
                    }),
                    None => added = combine.add(&mut result, b"", place == 0, &mut held),
                }
                found.push(row.is_some());
                added
            })?;
            added?;
        }
        transaction.entry(&service.kv, &key, |entry| match result.is_empty() {
            true => delete(entry, &key).map(drop),
            false => put_living(entry, target, &result, Expiry::Table),
        })??;
        Ok((result.len(), found))
    })?;
    session.running.charge_work(work);
    found.into_iter().for_each(|is_there| session.running.count_lookup(is_there));
    reply.integer(length as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bits of a value, one by one.
    fn bits(value: &[u8]) -> Vec<bool> {
        let bit = |at: usize| {
            let (byte, mask) = place(at);
            value[byte] & mask != 0
        };
        (0..value.len() * 8).map(bit).collect()
    }

    #[test]
    fn bits_are_counted_and_found_as_one_by_one() {
        let value = [0x00, 0xff, 0xa5, 0x01, 0x80];
        let bits = bits(&value);
        for from in 0..bits.len() {
            for to in from..bits.len() {
                let part = &bits[from..=to];
                let set = part.iter().filter(|bit| **bit).count() as u64;
                assert_eq!(count_ones(&value, (from, to)), set, "{from} to {to}");
                for wanted in [false, true] {
                    let first = part.iter().position(|bit| *bit == wanted).map(|at| from + at);
                    assert_eq!(first_bit(&value, (from, to), wanted), first, "{wanted} from {from} to {to}");
                }
            }
        }
    }

    #[test]
    fn spans_are_cut_to_the_value() {
        assert_eq!(span((0, -1), false, 3), Some((0, 23)));
        assert_eq!(span((1, 1), false, 3), Some((8, 15)));
        assert_eq!(span((-2, 100), false, 3), Some((8, 23)));
        assert_eq!(span((5, 9), true, 3), Some((5, 9)));
        assert_eq!(span((-8, -1), true, 3), Some((16, 23)));
        assert_eq!(span((i64::MIN, i64::MAX), true, 3), Some((0, 23)));
        for (start, end) in [(2, 1), (3, 9), (-1, -2)] {
            assert_eq!(span((start, end), false, 3), None, "{start} {end}");
        }
        assert_eq!(span((0, -1), false, 0), None);
    }
}
