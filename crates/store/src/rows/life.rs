//! The life of rows, by their ids.
//!
//! Called by `partition::life`, and by a transaction's buffered writes for what these are to have.

use super::{Rows, split};
use crate::life::{Deadline, Keep, Unit};
use crate::segment::Segment;

impl Rows {
    /// When a row's life ends.
    #[inline]
    pub(crate) fn deadline(&self, row: u32) -> Deadline {
        let (slot, offset) = split(row);
        self.segment(slot).deadline(offset)
    }

    /// Says when a row's life ends.
    pub(crate) fn set_deadline(&mut self, row: u32, deadline: Deadline) {
        let (slot, offset) = split(row);
        self.segment_mut(slot).set_deadline(offset, deadline);
    }

    /// A row was written now. `idle` milliseconds without use end its life.
    pub(crate) fn begin_use(&mut self, row: u32, keep: Keep, unit: Unit, idle: u64, now: u64) {
        if keep.used {
            let (slot, offset) = split(row);
            let segment = self.segment_mut(slot);
            segment.begin_use(offset, keep, unit.stamp(now));
            if idle > 0 {
                segment.expect_end(Deadline::of_table(now.saturating_add(idle)));
            }
        }
    }

    /// All rows count as used now, and what was known before is forgotten.
    pub(crate) fn start_uses(&mut self, keep: Keep, unit: Unit, idle: u64, now: u64) {
        for slot in self.order.clone() {
            let segment = self.segment_mut(slot);
            segment.forget_uses();
            let rows = segment.len();
            if keep.used && rows > 0 {
                segment.keep_uses(rows, keep, unit.stamp(now));
                if idle > 0 {
                    segment.expect_end(Deadline::of_table(now.saturating_add(idle)));
                }
            }
        }
    }

    /// Bytes that the life of a row takes at most that is written next: over an old one, or behind the last.
    pub(crate) fn life_growth(&self, old: Option<u32>, has_deadline: bool, keep: Keep) -> usize {
        let of = |segment: &Segment, offset: u32| segment.life_growth(offset, has_deadline, keep);
        let old = old.map_or(0, |row| of(self.segment(split(row).0), split(row).1));
        let last = self.in_order().next_back().map_or(0, |(_, segment)| of(segment, segment.len()));
        old.max(last)
    }

    /// Whether anything is kept of the life of any row.
    pub(crate) fn have_life(&self) -> bool {
        self.in_order().any(|(_, segment)| segment.has_life())
    }

    /// The rows that are not ended.
    pub(crate) fn living(&self) -> impl Iterator<Item = u32> {
        self.in_order().flat_map(|(slot, segment)| {
            let living = (0..segment.len()).filter(|&offset| !segment.is_dead(offset));
            living.map(move |offset| super::join(slot, offset))
        })
    }

    /// The row at a place among all, unless it is ended. `ends` tells of each segment in order how many rows there are up
    /// to its end.
    pub(crate) fn living_at(&self, ends: &[usize], place: usize) -> Option<u32> {
        let index = ends.partition_point(|&end| end <= place);
        let start = if index == 0 { 0 } else { ends[index - 1] };
        let &slot = self.order.get(index)?;
        let offset = u32::try_from(place - start).ok()?;
        (!self.segment(slot).is_dead(offset)).then(|| super::join(slot, offset))
    }

    /// How many segments there are.
    pub(crate) fn segment_count(&self) -> usize {
        self.order.len()
    }

    /// The rows, not ended, of a segment by its place in the order, whose life has ended now: at most so many. True when
    /// there are no more.
    pub(crate) fn passed(
        &mut self,
        place: usize,
        idle: Option<(u64, Unit)>,
        now: u64,
        count_max: usize,
        out: &mut Vec<u32>,
    ) -> bool {
        let Some(&slot) = self.order.get(place) else { return true };
        let mut offsets = Vec::new();
        let is_all = self.segment_mut(slot).passed(idle, now, count_max, &mut offsets);
        out.extend(offsets.into_iter().map(|offset| super::join(slot, offset)));
        is_all
    }
}
