//! OBJECT and MEMORY USAGE: how Redis would encode a value, how it is used, and how much memory it takes.
//!
//! Called through the command table. Does not count as a use of the key.

use ashlar_base::value::text;
use ashlar_base::{Datum, Eviction};
use ashlar_store::RowRef;

use super::access;
use super::arguments::{Args, integer, integer_or_error, is};
use super::error::{KeyError, Outcome};
use super::hashes::{fields, style};
use super::keyspace::{Named, named};
use super::strings::value_of;
use super::{KeySession, Reply};

/// Bytes of the longest string that Redis keeps beside its head.
const EMBEDDED_BYTES_MAX: usize = 44;

/// Fields of a hash that Redis keeps as a list, and bytes of each name and value (`hash-max-listpack-entries` and `-value`).
const LIST_FIELDS_MAX: usize = 512;
const LIST_BYTES_MAX: usize = 64;

/// Bytes of a row beside its values: its entry in the index by key.
const INDEX_BYTES: usize = 8;

/// How often a row counts as used that is not committed yet: as often as a new one.
const FREQUENCY_NEW: u8 = 5;

/// Looks at what has a name; `f` is told whether it is a plain key.
fn look<R>(session: &mut KeySession, name: &[u8], f: impl FnOnce(&RowRef<'_>, bool) -> R) -> Outcome<Option<R>> {
    match named(session, name) {
        Named::Plain => access::peek(&mut session.running, &session.service.kv, &[Datum::Bytea(name)], |row| {
            row.map(|row| f(&row, true))
        }),
        Named::Row(row) => row.peek(&mut session.running, |found| found.map(|found| f(&found, false))),
        Named::Nothing => Ok(None),
    }
}

/// As which Redis keeps a string that was just set.
fn encoding_of_string(value: &[u8]) -> &'static str {
    if integer(value).is_some() {
        "int"
    } else if value.len() <= EMBEDDED_BYTES_MAX {
        "embstr"
    } else {
        "raw"
    }
}

/// As which Redis keeps a hash of these fields.
fn encoding_of_hash(row: &RowRef<'_>) -> &'static str {
    let mut written = Vec::new();
    let mut count = 0;
    for (column, datum) in fields(row.schema(), row) {
        count += 1;
        let length = match &datum {
            Datum::Text(text) => text.len(),
            datum => {
                written.clear();
                text::write(column.sql_type, datum, &style(), &mut written);
                written.len()
            }
        };
        if count > LIST_FIELDS_MAX || column.name.len().max(length) > LIST_BYTES_MAX {
            return "hashtable";
        }
    }
    "listpack"
}

pub(super) fn encoding(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let found = look(session, args.at(2), |row, is_plain| {
        if !is_plain {
            return encoding_of_hash(row);
        }
        let mut encoding = "";
        value_of(row, |value| encoding = encoding_of_string(value));
        encoding
    })?;
    match found {
        Some(encoding) => reply.bulk(encoding.as_bytes()),
        None => reply.null(),
    }
    Ok(())
}

pub(super) fn refcount(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    match look(session, args.at(2), |_, _| ())? {
        // No two names share a value.
        Some(()) => reply.integer(1),
        None => reply.null(),
    }
    Ok(())
}

pub(super) fn idletime(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let now = session.now();
    let found = look(session, args.at(2), |row, _| {
        let life = row.schema().life;
        match life.eviction {
            Eviction::Lfu => Err(KeyError::Redis(
                "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between \
                 policies at runtime LRU and LFU data will take some time to adjust.",
            )),
            Eviction::Lru => Ok(row.idle_millis(now).unwrap_or(0)),
            Eviction::None | Eviction::Random if life.max_idle_ms > 0 => Ok(row.idle_millis(now).unwrap_or(0)),
            Eviction::None | Eviction::Random => {
                let table = &row.schema().name;
                Err(KeyError::line(format!(
                    "ERR idle time is not tracked in table \"{table}\": it has neither eviction = 'lru' nor max_idle_ms"
                )))
            }
        }
    })?;
    match found.transpose()? {
        Some(millis) => reply.integer(i64::try_from(millis / 1000).unwrap_or(i64::MAX)),
        None => reply.null(),
    }
    Ok(())
}

pub(super) fn freq(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let now = session.now();
    let found = look(session, args.at(2), |row, _| {
        let counts = row.schema().life.eviction == Eviction::Lfu;
        counts.then(|| row.frequency(now).unwrap_or(FREQUENCY_NEW))
    })?;
    match found {
        Some(Some(count)) => reply.integer(i64::from(count)),
        Some(None) => {
            return Err(KeyError::Redis(
                "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
                 switching between policies at runtime LRU and LFU data will take some time to adjust.",
            ));
        }
        None => reply.null(),
    }
    Ok(())
}

/// Bytes of a value where it lies in its column.
fn bytes_of(datum: &Datum<'_>) -> usize {
    /// Where a text or an array ends.
    const OFFSET_BYTES: usize = 4;
    match datum {
        Datum::Null => 0,
        Datum::Bool(_) => 1,
        Datum::Int2(_) => 2,
        Datum::Int4(_) | Datum::Float4(_) | Datum::Date(_) => 4,
        Datum::Int8(_) | Datum::Float8(_) | Datum::Time(_) | Datum::Timestamp(_) => 8,
        Datum::Numeric(_) | Datum::Interval(_) | Datum::Uuid(_) => 16,
        Datum::Text(text) => OFFSET_BYTES + text.len(),
        Datum::Bytea(bytes) => OFFSET_BYTES + bytes.len(),
        Datum::Array(items) => OFFSET_BYTES + items.iter().map(|item| bytes_of(&item)).sum::<usize>(),
    }
}

/// MEMORY USAGE: what the values of a row take, its key among them, and its entry in the index by key.
pub(super) fn usage(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let mut words = args.from(3);
    while let Some(word) = words.next() {
        let samples = words.next().filter(|_| is(word, "samples")).ok_or(KeyError::SYNTAX)?;
        // All of it is looked at, however much that is.
        if integer_or_error(samples)? < 0 {
            return Err(KeyError::SYNTAX);
        }
    }
    let found = look(session, args.at(2), |row, _| {
        let ordinals = 0..row.schema().columns.len();
        INDEX_BYTES + ordinals.map(|ordinal| bytes_of(&row.get(ordinal))).sum::<usize>()
    })?;
    // As in Redis, what is measured is not read.
    session.running.settle(false);
    match found {
        Some(bytes) => reply.integer(i64::try_from(bytes).unwrap_or(i64::MAX)),
        None => reply.null(),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ashlar_base::{Items, Value};

    use super::*;

    #[test]
    fn values_take_what_they_take_in_columns() {
        let items = [Value::Int4(1), Value::Int4(2)];
        let table = [
            (Datum::Null, 0),
            (Datum::Int8(1), 8),
            (Datum::Text("four"), 8),
            (Datum::Bytea(b""), 4),
            (Datum::Array(Items::Values((&items[..]).into())), 12),
        ];
        for (datum, bytes) in table {
            assert_eq!(bytes_of(&datum), bytes, "{datum:?}");
        }
    }

    #[test]
    fn strings_are_kept_as_redis_keeps_them() {
        let table: &[(&str, &str)] = &[
            ("", "embstr"),
            ("0", "int"),
            ("-9223372036854775808", "int"),
            ("9223372036854775808", "embstr"),
            ("012", "embstr"),
            ("1.5", "embstr"),
            ("a", "embstr"),
        ];
        for (value, encoding) in table {
            assert_eq!(encoding_of_string(value.as_bytes()), *encoding, "{value}");
        }
        assert_eq!(encoding_of_string(&[b'x'; EMBEDDED_BYTES_MAX]), "embstr");
        assert_eq!(encoding_of_string(&[b'x'; EMBEDDED_BYTES_MAX + 1]), "raw");
    }
}
