//! Rows of a partition that somebody names: by their keys, by several values of an index, or as the first ones in its order.
//!
//! Called by `region::wanted` under the partition's lock. Each gives row ids that a snapshot sees, or `None` where reading all
//! rows is no more work.

use std::cmp::Ordering;
use std::collections::HashSet;

use ashlar_base::{Datum, IndexKind, Timestamp, Value};

use super::Partition;
use super::indexes::Probe;
use crate::ordered::Entry;
use crate::rows::split;

/// Rows of a partition that are looked up and copied one by one, under its lock.
const FOUND_MAX: usize = 4096;
/// Looking a row up takes as long as reading so many in their order.
const FOUND_SHARE: u64 = 16;
/// So few are looked up whatever else there is.
const FOUND_FEW: usize = 16;

/// The first rows that a probe finds, in the order of its index or against it. NULLs are the last in the order.
#[derive(Clone, Debug, PartialEq)]
pub struct Walk {
    /// The index, and the rows of it that are meant: those with these values in its first columns, and in the range.
    pub probe: Probe,
    /// From the last to the first.
    pub backwards: bool,
    /// Passes over rows with NULL in the column behind those with values.
    pub passes_null: bool,
    /// So many of each partition.
    pub count: usize,
}

impl Partition {
    /// The rows of a walk, without those that are hidden.
    pub(crate) fn walked(&self, walk: &Walk, at: Timestamp, hidden: &HashSet<u32>) -> Option<Vec<u32>> {
        let (index, reader) = self.index(&walk.probe)?;
        if index.kind() != IndexKind::Btree || walk.count > FOUND_MAX {
            return None;
        }
        let side = index.side(reader, &walk.probe);
        let next = walk.probe.equal.len();
        let is_null =
            |entry: Entry| walk.passes_null && reader.has_position(next) && reader.value(entry.row, next).is_null();
        let within = |entry: Entry| match side(entry) {
            Ordering::Less => true,
            Ordering::Equal => !is_null(entry),
            Ordering::Greater => false,
        };
        let entries = index.entries().range(|entry| side(entry).is_lt(), within);
        let seen = |entry: u32| {
            let row = self.rows.present(entry);
            (self.is_visible(self.rows.segment(split(row).0), row, at) && !hidden.contains(&row)).then_some(row)
        };
        Some(if walk.backwards {
            entries.rev().filter_map(seen).take(walk.count).collect()
        } else {
            entries.filter_map(seen).take(walk.count).collect()
        })
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
