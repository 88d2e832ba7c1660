//! Rows of a partition that are asked for by their keys, by several values of an index, or as the first ones in its
//! order.
//!
//! Called by `region::wanted` under the partition's lock. Each function returns the ids of rows that a snapshot sees,
//! or `None` if reading all rows is no more work.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::ops::Bound;
use std::sync::Arc;

use ashlar_base::{Datum, IndexKind, Timestamp, Value};

use super::Partition;
use super::indexes::Probe;
use crate::ordered::Entry;
use crate::rows::split;
use crate::segment::Need;

/// Rows of a partition that are looked up and copied one by one, under its lock.
const FOUND_MAX: usize = 4096;
/// Looking a row up takes as long as reading so many in their order.
const FOUND_SHARE: u64 = 16;
/// So few are looked up whatever else there is.
const FOUND_FEW: usize = 16;

/// Bytes of a value by which groups of rows are walked.
const VALUE_BYTES_MAX: usize = 1 << 10;

/// The first rows that a probe finds, in the order of its index, or with some columns against it. NULLs are the last in
/// the order.
#[derive(Clone, Debug, PartialEq)]
pub struct Walk {
    /// The index, and the rows of it that are meant: those with these values in its first columns, and in the range.
    pub probe: Probe,
    /// For each of the columns behind those with values, as far as the order is wanted: from the last to the first.
    pub backwards: Vec<bool>,
    /// Passes over rows with NULL in the column behind those with values.
    pub passes_null: bool,
    /// So many of each partition.
    pub count: usize,
}

/// A walk on its way.
struct Walking<'w> {
    partition: &'w Partition,
    walk: &'w Walk,
    at: Timestamp,
    /// Rows that are passed over.
    hidden: &'w HashSet<u32>,
    rows: Vec<u32>,
    /// Values by which groups of rows were walked: all of their rows may be ended, or somebody else's.
    groups: usize,
}

impl Walking<'_> {
    /// Adds the first rows of a probe. Where columns go different ways, the rows of each value of the next column are a
    /// walk of their own. `None`: it is no more work to read all rows.
    fn add(&mut self, mut probe: Probe, backwards: &[bool]) -> Option<()> {
        let (is_backwards, others) = backwards.split_first().map_or((false, backwards), |(first, rest)| (*first, rest));
        if others.iter().all(|other| *other == is_backwards) {
            return self.add_run(&probe, is_backwards);
        }
        while self.rows.len() < self.walk.count {
            self.groups += 1;
            if self.groups > FOUND_MAX {
                return None;
            }
            let Some(value) = self.end(&probe, is_backwards)? else { break };
            let equal = [&probe.equal[..], std::slice::from_ref(&value)].concat();
            let range = (Bound::Unbounded, Bound::Unbounded);
            self.add(Probe { index: Arc::clone(&probe.index), equal, range }, others)?;
            match (is_backwards, value) {
                (true, value) => probe.range.1 = Bound::Excluded(value),
                // They come last.
                (false, Value::Null) => break,
                (false, value) => {
                    if probe.range == (Bound::Unbounded, Bound::Unbounded) {
                        // A range with a lower bound has NULLs only where it says so.
                        probe.range.1 = Bound::Included(Value::Null);
                    }
                    probe.range.0 = Bound::Excluded(value);
                }
            }
        }
        Some(())
    }

    /// The value of the next column at one end of a probe's rows, ended ones included; `None` within: it finds none.
    fn end(&self, probe: &Probe, backwards: bool) -> Option<Option<Value>> {
        let (index, reader) = self.partition.index(probe)?;
        let next = probe.equal.len();
        if !reader.has_position(next) {
            return None;
        }
        let side = index.side(reader, probe);
        let mut entries = index.entries().range(|entry| side(entry).is_lt(), |entry| side(entry).is_le());
        let Some(entry) = (if backwards { entries.next_back() } else { entries.next() }) else { return Some(None) };
        let value = reader.value(entry, next);
        let need = Need::of(&value);
        (need.bytes + need.items * size_of::<Value>() <= VALUE_BYTES_MAX).then(|| Some(value.to_value()))
    }

    /// Adds the first rows of a probe in the order of its index, or the last.
    fn add_run(&mut self, probe: &Probe, backwards: bool) -> Option<()> {
        let Self { partition, walk, at, hidden, .. } = *self;
        let (index, reader) = partition.index(probe)?;
        let side = index.side(reader, probe);
        let next = probe.equal.len();
        let is_null =
            |entry: Entry| walk.passes_null && reader.has_position(next) && reader.value(entry.row, next).is_null();
        let within = |entry: Entry| match side(entry) {
            Ordering::Less => true,
            Ordering::Equal => !is_null(entry),
            Ordering::Greater => false,
        };
        let entries = index.entries().range(|entry| side(entry).is_lt(), within);
        let seen = |entry: u32| {
            let row = partition.rows.present(entry);
            let is_seen = partition.is_visible(partition.rows.segment(split(row).0), row, at);
            (is_seen && !hidden.contains(&row)).then_some(row)
        };
        let left = walk.count - self.rows.len();
        if backwards {
            self.rows.extend(entries.rev().filter_map(seen).take(left));
        } else {
            self.rows.extend(entries.filter_map(seen).take(left));
        }
        Some(())
    }
}

impl Partition {
    /// The rows of a walk, without those that are hidden.
    pub(crate) fn walked(&self, walk: &Walk, at: Timestamp, hidden: &HashSet<u32>) -> Option<Vec<u32>> {
        let (index, _) = self.index(&walk.probe)?;
        if index.kind() != IndexKind::Btree || walk.count > FOUND_MAX {
            return None;
        }
        let mut walking = Walking { partition: self, walk, at, hidden, rows: Vec::new(), groups: 0 };
        walking.add(walk.probe.clone(), &walk.backwards)?;
        Some(walking.rows)
    }

    /// The rows that any of some probes finds.
    pub(crate) fn probed_by_any(&self, probes: &[Probe], at: Timestamp) -> Option<Vec<u32>> {
        let mut count = 0;
        for probe in probes {
            count += self.count_probed(probe)?;
            if !self.are_few(count) {
                return None;
            }
        }
        let mut rows = Vec::with_capacity(count);
        for probe in probes {
            self.for_probed(probe, at, |row| rows.push(row));
        }
        Some(once_each(rows))
    }

    /// The rows of keys.
    pub(crate) fn of_keys(&self, keys: &[Box<[Value]>], at: Timestamp) -> Option<Vec<u32>> {
        if !self.are_few(keys.len()) {
            return None;
        }
        let row = |key: &[Value]| {
            let key: Vec<Datum<'_>> = key.iter().map(Value::as_datum).collect();
            self.find_at(&key, at)
        };
        Some(once_each(keys.iter().filter_map(|key| row(key)).collect()))
    }

    /// Whether so many rows had better be looked up than found by reading all.
    fn are_few(&self, count: usize) -> bool {
        count <= FOUND_FEW || count <= FOUND_MAX && count as u64 * FOUND_SHARE <= self.rows.live()
    }
}

fn once_each(mut rows: Vec<u32>) -> Vec<u32> {
    rows.sort_unstable();
    rows.dedup();
    rows
}
