//! All rows in the order in which they lie, some at a time: how an index is filled while rows come and go.
//!
//! Called by `partition::indexes`. Between two steps segments may be added and removed, but rows must not move from
//! one to another.

use super::{Rows, join, split};

/// A place in the order of rows: a segment's sequence, and how many of its rows are before.
pub(crate) type Spot = (u64, u32);

impl Rows {
    /// Where a row is.
    pub(crate) fn spot(&self, row: u32) -> Spot {
        let (slot, offset) = split(row);
        (self.segment(slot).sequence, offset)
    }

    /// The rows from a place on, at most so many and none from `end` on, ended ones among them; and the place to go on from. `None`: there are
    /// no more.
    pub(crate) fn walk(&self, from: Spot, end: Spot, count_max: usize) -> (Vec<u32>, Option<Spot>) {
        let mut rows = Vec::with_capacity(count_max);
        let first = self.order.partition_point(|&slot| self.segment(slot).sequence < from.0);
        for &slot in &self.order[first..] {
            let segment = self.segment(slot);
            if segment.sequence > end.0 {
                break;
            }
            let start = if segment.sequence == from.0 { from.1 } else { 0 };
            let past = if segment.sequence == end.0 { segment.len().min(end.1) } else { segment.len() };
            for offset in start..past {
                if rows.len() == count_max {
                    return (rows, Some((segment.sequence, offset)));
                }
                rows.push(join(slot, offset));
            }
        }
        (rows, None)
    }
}
