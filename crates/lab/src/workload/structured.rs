//! The structured value of the key-value workloads, as large as Geode's benchmarks have theirs: a row of some 0.8 KB with ten columns of
//! eight types, which on RESP is a hash. A server that keeps rows types its columns; one that keeps hashes keeps the same texts.
//!
//! ```text
//! ashlar_lab_values:{42}  id 42 | version 0 | active t | status open | price 1234.56 | weight 78.25 | opened 2026-01-17 09:41:03
//!                         positions {7,...} twenty | holders 200 characters | note 400 characters
//! ```
//!
//! All columns follow from the key and the version, so a reader knows the right ones, and all are checked.

use std::io::Write;

use crate::numbers::Numbers;

/// Their table, where rows have one.
pub(super) const TABLE: &str = "ashlar_lab_values";

/// Its columns.
pub(super) const COLUMNS: &str = "id bigint PRIMARY KEY, version bigint, active boolean, status text, price numeric(12,2), \
    weight double precision, opened timestamp, positions int[], holders text, note text";

/// Fields of a value.
pub(crate) const FIELDS: usize = 10;

/// Their names, in the order of columns.
const NAMES: [&str; FIELDS] =
    ["id", "version", "active", "status", "price", "weight", "opened", "positions", "holders", "note"];

/// Bytes of a value with the names of its fields, at most.
pub(super) const BYTES_MAX: usize = 1000;

const STATUSES: [&str; 4] = ["open", "active", "inactive", "closed"];

/// The name of a row by its key.
pub(super) fn name(key: u64) -> String {
    format!("{TABLE}:{{{key}}}")
}

/// The key in the name of a row, if it is one.
pub(crate) fn key_of(name: &[u8]) -> Option<u64> {
    let digits = name.strip_prefix(TABLE.as_bytes())?.strip_prefix(b":{")?.strip_suffix(b"}")?;
    str::from_utf8(digits).ok()?.parse().ok()
}

/// A value: texts of its fields, as PostgreSQL writes each type.
#[derive(Default)]
pub(crate) struct Structured {
    bytes: Vec<u8>,
    ends: [usize; FIELDS],
}

impl Structured {
    /// Becomes the value of this key in this version.
    pub(crate) fn set(&mut self, key: u64, version: u32) {
        let mut numbers = Numbers::of(key, &[version.into()]);
        self.bytes.clear();
        for (field, end) in self.ends.iter_mut().enumerate() {
            write_field(NAMES[field], key, version, &mut numbers, &mut self.bytes);
            *end = self.bytes.len();
        }
    }

    /// Names and texts of its fields.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&'static str, &[u8])> {
        let starts = std::iter::once(0).chain(self.ends);
        NAMES.into_iter().zip(starts.zip(self.ends)).map(|(name, (start, end))| (name, &self.bytes[start..end]))
    }
}

fn write_field(name: &str, key: u64, version: u32, numbers: &mut Numbers, out: &mut Vec<u8>) {
    // Writing to a vector cannot fail.
    let _ = match name {
        "id" => write!(out, "{key}"),
        "version" => write!(out, "{version}"),
        "active" => write!(out, "{}", if numbers.below(2) == 0 { 'f' } else { 't' }),
        "status" => write!(out, "{}", STATUSES[numbers.below(STATUSES.len() as u64) as usize]),
        // Never a last digit that another way to write the number would leave out.
        "price" => write!(out, "{}.{:02}", numbers.below(1_000_000), numbers.below(100)),
        "weight" => write!(out, "{}.25", numbers.below(10_000)),
        "opened" => write!(
            out,
            "2026-01-{:02} {:02}:{:02}:{:02}",
            numbers.below(28) + 1,
            numbers.below(24),
            numbers.below(60),
            numbers.below(60)
        ),
        "positions" => {
            for place in 0..20 {
                let _ = write!(out, "{}{}", if place == 0 { '{' } else { ',' }, numbers.below(1_000_000));
            }
            write!(out, "}}")
        }
        "holders" => write_text(200, numbers, out),
        _ => write_text(400, numbers, out),
    };
}

/// So many hexadecimal digits, a multiple of 8.
fn write_text(length: usize, numbers: &mut Numbers, out: &mut Vec<u8>) -> std::io::Result<()> {
    (0..length / 8).try_for_each(|_| write!(out, "{:08x}", numbers.next() as u32))
}

/// The version that a value has, whose fields are these.
pub(super) fn version_of(fields: &[(&[u8], &[u8])]) -> Option<u32> {
    let (_, version) = fields.iter().find(|(name, _)| *name == b"version")?;
    str::from_utf8(version).ok()?.parse().ok()
}

/// Says what is wrong with a value that was read for a key, whatever its version. Its fields may come in any order.
pub(super) fn fault(key: u64, found: &[(&[u8], &[u8])]) -> Option<String> {
    if found.is_empty() {
        return Some(format!("key {key} has no value"));
    }
    let Some(version) = version_of(found) else {
        return Some(format!("key {key} has no version"));
    };
    let mut right = Structured::default();
    right.set(key, version);
    for (name, expected) in right.fields() {
        match found.iter().find(|(found, _)| *found == name.as_bytes()) {
            Some((_, found)) if *found == expected => {}
            Some((_, found)) => {
                let (found, expected) = (String::from_utf8_lossy(found), String::from_utf8_lossy(expected));
                return Some(format!("key {key}, version {version}: {name} is {found} instead of {expected}"));
            }
            None => return Some(format!("key {key}, version {version}: there is no {name}")),
        }
    }
    (found.len() != FIELDS).then(|| format!("key {key} has {} fields instead of {FIELDS}", found.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_as_large_as_it_says() {
        let mut value = Structured::default();
        for key in 0..1000 {
            value.set(key * 999_983, 7);
            let names: usize = NAMES.iter().map(|name| name.len()).sum();
            let bytes = value.bytes.len() + names;
            assert!((750..=BYTES_MAX).contains(&bytes), "{bytes}");
        }
        assert_eq!(COLUMNS.split(", ").map(|column| column.split(' ').next().unwrap()).collect::<Vec<_>>(), NAMES);
    }

    #[test]
    fn a_key_is_found_in_its_name() {
        assert_eq!([0, 42, 3_999_999_999].map(|key| key_of(name(key).as_bytes())), [0, 42, 3_999_999_999].map(Some));
        assert_eq!((key_of(b"ashlar_lab_values:{x}"), key_of(b"lab:000000000042")), (None, None));
    }

    #[test]
    fn a_value_is_right_for_its_key_only_and_in_every_field() {
        let mut value = Structured::default();
        value.set(42, 7);
        let mut fields: Vec<(&[u8], &[u8])> = value.fields().map(|(name, text)| (name.as_bytes(), text)).collect();
        assert_eq!((fault(42, &fields), version_of(&fields)), (None, Some(7)));
        fields.reverse();
        assert_eq!(fault(42, &fields), None);
        assert!(fault(43, &fields).unwrap().contains(" is "));
        for place in 0..FIELDS {
            let mut damaged = fields.clone();
            damaged[place].1 = b"1";
            assert!(fault(42, &damaged).is_some(), "{:?}", damaged[place].0);
            let mut lacking = fields.clone();
            lacking.remove(place);
            assert!(fault(42, &lacking).unwrap().contains("no "));
        }
        assert_eq!(fault(42, &[]), Some("key 42 has no value".to_owned()));
        fields.push((b"more", b"1"));
        assert!(fault(42, &fields).unwrap().contains("11 fields"));
    }
}
