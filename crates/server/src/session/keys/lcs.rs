//! LCS: the longest common subsequence of two strings, and where it lies in each.
//!
//! Called through the command table. Of several that are equally long it finds the one that Redis finds.

use std::sync::Arc;

use ashlar_base::{Datum, Error};
use ashlar_store::{Reservation, RowRef, Snapshot};

use super::access;
use super::arguments::{Args, integer_or_error, is};
use super::error::{KeyError, Outcome};
use super::keyspace::named;
use super::strings::value_of;
use super::{KeySession, Reply};

/// The options behind the keys.
#[derive(Default)]
struct Options {
    length_only: bool,
    places: bool,
    with_lengths: bool,
    /// Parts that are shorter are left out.
    length_min: i64,
}

impl Options {
    fn parse<'a>(mut words: impl Iterator<Item = &'a [u8]>) -> Outcome<Self> {
        let mut options = Self::default();
        while let Some(word) = words.next() {
            if is(word, "len") {
                options.length_only = true;
            } else if is(word, "idx") {
                options.places = true;
            } else if is(word, "withmatchlen") {
                options.with_lengths = true;
            } else if is(word, "minmatchlen") {
                options.length_min = integer_or_error(words.next().ok_or(KeyError::SYNTAX)?)?;
            } else {
                return Err(KeyError::SYNTAX);
            }
        }
        if options.length_only && options.places {
            return Err(KeyError::Redis("ERR If you want both the length and indexes, please just use IDX."));
        }
        Ok(options)
    }
}

/// The string of a key, empty where there is none. `snapshot`: what is seen where no transaction is running.
fn string_of(
    session: &mut KeySession,
    snapshot: Option<&Snapshot>,
    name: &[u8],
    held: &mut Reservation,
) -> Outcome<Vec<u8>> {
    if session.is_row_name(name) {
        if named(session, name).exists(session, name)? {
            return Err(KeyError::Redis("ERR The specified keys must contain string values"));
        }
        return Ok(Vec::new());
    }
    let (kv, key) = (&session.service.kv, [Datum::Bytea(name)]);
    let copied = match snapshot {
        Some(snapshot) => {
            let (is_there, copied) = kv.get_at(snapshot, &key, |row| (row.is_some(), copy_of(row, held)));
            session.running.look(is_there);
            copied
        }
        None => access::read(&mut session.running, kv, &key, |row| copy_of(row, held))?,
    };
    Ok(copied?)
}

/// A copy of a row's value, charged before it is made.
fn copy_of(row: Option<RowRef<'_>>, held: &mut Reservation) -> Result<Vec<u8>, Error> {
    let (mut value, mut charged) = (Vec::new(), Ok(()));
    if let Some(row) = row {
        value_of(&row, |bytes| {
            charged = held.grow(bytes.len());
            if charged.is_ok() {
                value.extend_from_slice(bytes);
            }
        });
    }
    charged.map(|()| value)
}

/// How long the longest common subsequences of all beginnings are: those of `i` bytes of the one and `j` of the other at
/// `i * (other.len() + 1) + j`.
fn lengths(one: &[u8], other: &[u8]) -> Vec<u32> {
    let width = other.len() + 1;
    let mut lengths = vec![0u32; (one.len() + 1) * width];
    for (i, byte) in one.iter().enumerate() {
        let (before, row) = lengths.split_at_mut((i + 1) * width);
        let before = &before[i * width..];
        for (j, other) in other.iter().enumerate() {
            row[j + 1] = if byte == other { before[j] + 1 } else { before[j + 1].max(row[j]) };
        }
    }
    lengths
}

/// Bytes in a row that both strings have: the first and the last place in each.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    one: (usize, usize),
    other: (usize, usize),
}

/// The subsequence, and its parts from the last to the first.
fn find(one: &[u8], other: &[u8], lengths: &[u32]) -> (Vec<u8>, Vec<Part>) {
    let width = other.len() + 1;
    let (mut i, mut j) = (one.len(), other.len());
    let (mut common, mut parts) = (Vec::new(), Vec::<Part>::new());
    let mut goes_on = false;
    while i > 0 && j > 0 {
        if one[i - 1] == other[j - 1] {
            (i, j) = (i - 1, j - 1);
            common.push(one[i]);
            match parts.last_mut() {
                Some(part) if goes_on => (part.one.0, part.other.0) = (i, j),
                _ => parts.push(Part { one: (i, i), other: (j, j) }),
            }
            goes_on = true;
        } else {
            goes_on = false;
            if lengths[(i - 1) * width + j] > lengths[i * width + j - 1] {
                i -= 1;
            } else {
                j -= 1;
            }
        }
    }
    common.reverse();
    (common, parts)
}

pub(super) fn lcs(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let service = Arc::clone(&session.service);
    let store = service.shared.engine.store();
    let mut held = store.reservation();
    // Both as they are at one moment.
    let snapshot = session.running.transaction.is_none().then(|| store.snapshot());
    let one = string_of(session, snapshot.as_ref(), args.at(1), &mut held)?;
    let other = string_of(session, snapshot.as_ref(), args.at(2), &mut held)?;
    drop(snapshot);
    let options = Options::parse(args.from(3))?;
    let cells = (one.len() + 1).saturating_mul(other.len() + 1);
    let bytes = cells.saturating_mul(size_of::<u32>());
    if bytes > service.value_bytes_max() {
        let text = "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len";
        return Err(KeyError::Redis(text));
    }
    held.grow(bytes)?;
    session.running.charge_work(bytes as u64);
    let lengths = lengths(&one, &other);
    let length = i64::from(lengths.last().copied().unwrap_or(0));
    if options.length_only {
        reply.integer(length);
        return Ok(());
    }
    let (common, mut parts) = find(&one, &other, &lengths);
    if !options.places {
        reply.bulk(&common);
        return Ok(());
    }
    let bytes_in = |part: &Part| (part.one.1 - part.one.0 + 1) as i64;
    parts.retain(|part| bytes_in(part) >= options.length_min);
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(parts.len());
    for part in &parts {
        reply.array(2 + usize::from(options.with_lengths));
        for (first, last) in [part.one, part.other] {
            reply.array(2);
            reply.integer(first as i64);
            reply.integer(last as i64);
        }
        if options.with_lengths {
            reply.integer(bytes_in(part));
        }
    }
    reply.bulk(b"len");
    reply.integer(length);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(one: &str, other: &str) -> (String, Vec<Part>) {
        let (one, other) = (one.as_bytes(), other.as_bytes());
        let lengths = lengths(one, other);
        let (common, parts) = find(one, other, &lengths);
        assert_eq!(lengths.last().copied().unwrap() as usize, common.len());
        (String::from_utf8(common).unwrap(), parts)
    }

    #[test]
    fn what_both_have_is_found_with_its_places() {
        let (common, parts) = of("ohmytext", "mynewtext");
        assert_eq!(common, "mytext");
        let part = |one, other| Part { one, other };
        assert_eq!(parts, [part((4, 7), (5, 8)), part((2, 3), (0, 1))]);
        assert_eq!(of("", "abc"), (String::new(), Vec::new()));
        assert_eq!(of("abc", "xyz"), (String::new(), Vec::new()));
        assert_eq!(of("same", "same"), ("same".to_owned(), vec![part((0, 3), (0, 3))]));
    }

    #[test]
    fn nothing_longer_is_common() {
        /// Every subsequence, of few bytes.
        fn subsequences(text: &[u8]) -> Vec<Vec<u8>> {
            let chosen =
                |mask: u32| (0..text.len()).filter(move |at| mask & (1 << at) != 0).map(|at| text[at]).collect();
            (0..1u32 << text.len()).map(chosen).collect()
        }
        for (one, other) in [("abcabba", "cbabac"), ("aaaa", "aa"), ("abcdef", "fedcba"), ("xaxbxcx", "abc")] {
            let others = subsequences(other.as_bytes());
            let longest =
                subsequences(one.as_bytes()).into_iter().filter(|text| others.contains(text)).map(|text| text.len());
            assert_eq!(of(one, other).0.len(), longest.max().unwrap(), "{one} {other}");
        }
    }
}
