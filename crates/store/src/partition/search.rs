//! Finds rows by several indexes at once.
//!
//! ```text
//!   asked     all of these must hold          WHERE (a = 1 OR b = 2) AND c > 3
//!     union   one of these finds the row            a = 1, b = 2  |  c > 3
//!       probe one index is asked
//! ```
//! Called by `region` for scans. Each partition decides for itself, by counts that are exact: one union, two of them of which
//! a row must be in both, or a scan of all rows, whichever looks at the least. Conditions are looked at again by whoever asked.

use ashlar_base::Timestamp;

use super::{Partition, Probe};

/// Rows of a partition that are looked up and copied one by one, under its lock.
const ROWS_MAX: usize = 4096;
/// Entries of indexes that are read for that.
const ENTRIES_MAX: usize = 4 * ROWS_MAX;
/// So few are looked up whatever else there is.
const ROWS_FEW: usize = 16;
/// Looking a row up takes as long as reading so many in their order.
const LOOKUP_COST: usize = 16;
/// Reading an entry and sorting it into a set, against reading a row in its order.
const ENTRY_COST: usize = 2;

impl Partition {
    /// The rows that one union, or two, find of those that a snapshot sees; others that are not wanted may be among them, and of
    /// one probe they come in the order of its index. `None`: reading all rows is no more work.
    pub(crate) fn searched(&self, asked: &[Vec<Probe>], at: Timestamp) -> Option<Vec<u32>> {
        let counted = asked.iter().filter_map(|union| Some((self.count_union(union)?, union)));
        let mut counted: Vec<(usize, &Vec<Probe>)> = counted.collect();
        counted.sort_by_key(|(count, _)| *count);
        let &(fewest, first) = counted.first()?;
        let live = self.live() as usize;
        let mut best = (if fewest <= ROWS_FEW { 0 } else { fewest * LOOKUP_COST }, None);
        for &(count, second) in counted.iter().skip(1).filter(|(count, _)| fewest + count <= ENTRIES_MAX) {
            let both = fewest * count / live.max(1);
            let cost = (fewest + count) * ENTRY_COST + both * LOOKUP_COST;
            if cost < best.0 {
                best = (cost, Some(second));
            }
        }
        if best.0 > live || (best.1.is_none() && fewest > ROWS_MAX) {
            return None;
        }
        let mut rows = self.union(first, fewest, at);
        if let Some(second) = best.1 {
            let mut others = self.union(second, rows.len(), at);
            others.sort_unstable();
            rows.retain(|row| others.binary_search(row).is_ok());
            if rows.len() > ROWS_MAX {
                return None;
            }
        }
        Some(rows)
    }

    /// Entries that a union names; `None` where one of its indexes is not here.
    fn count_union(&self, union: &[Probe]) -> Option<usize> {
        union.iter().try_fold(0usize, |sum, probe| Some(sum + self.count_probed(probe)?))
    }

    fn union(&self, union: &[Probe], count: usize, at: Timestamp) -> Vec<u32> {
        let mut rows = Vec::with_capacity(count);
        for probe in union {
            self.for_probed(probe, at, |row| rows.push(row));
        }
        if union.len() > 1 {
            rows.sort_unstable();
            rows.dedup();
        }
        rows
    }
}

#[cfg(test)]
mod tests;
