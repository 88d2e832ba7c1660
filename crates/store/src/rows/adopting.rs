//! Takes over the rows of another `Rows`, whole segments at a time.
//!
//! Called by `partition::apply` for rows that arrived in bulk. Only index entries are copied, and not even those if
//! there were no rows before. A few rows are copied, too, instead of getting a segment of their own that every query
//! would have to visit.

use ashlar_base::Result;

use super::{Rows, join, too_many_rows};
use crate::segment::{Need, Segment};

/// Rows up to which they are copied behind those that are there: a part in so many of a segment that copying them takes less than a
/// tenth of a millisecond.
const ROWS_COPIED: u64 = 1024;
/// Only where more than one part in so many of the memory is left: they are there twice until the commit is through.
const PART_LEFT: u64 = 8;

/// Rows that are copied.
struct Few<'f> {
    /// The active segment that they go behind.
    target: u16,
    source: &'f Segment,
    rows: Vec<u32>,
}

impl Few<'_> {
    /// What they take in each column.
    fn needs(&self) -> impl Iterator<Item = Need> {
        self.source.columns().iter().map(move |column| column.need_of(&self.rows))
    }
}

impl Rows {
    /// Makes room for the rows of `from`, which holds only rows that are alive in its index, and for `others` more in
    /// the index. `copies` as for [`Self::adopt`].
    pub(crate) fn reserve_adoption(&mut self, from: &mut Self, others: usize, copies: bool) -> Result<()> {
        if from.order.len() > self.free_slots() {
            return Err(too_many_rows());
        }
        from.reserve_index(others)?;
        if self.is_without_segments() {
            return Ok(());
        }
        self.reserve_index(from.live as usize + others)?;
        if copies
            && !self.account.has_less_than(PART_LEFT)
            && let Some(few) = self.few_of(from)
        {
            let segment_rows = self.segment_rows;
            // Where there is no memory for copies, they stay in the segment that they have.
            self.segment_mut(few.target).reserve(few.needs(), segment_rows).ok();
        }
        Ok(())
    }

    /// Makes the room beforehand that [`Self::reserve_adoption`] will want in the index for so many rows of another: to grow it takes
    /// as long as all the rows take that are there.
    pub(crate) fn expect_adoption(&mut self, rows: usize) -> Result<()> {
        if self.is_without_segments() { Ok(()) } else { self.reserve_index(rows) }
    }

    /// The rows of `from`, if they are few and go behind those that are there.
    fn few_of<'f>(&self, from: &'f Self) -> Option<Few<'f>> {
        let [slot] = from.order[..] else { return None };
        if from.live > ROWS_COPIED {
            return None;
        }
        let source = from.segment(slot);
        let rows: Vec<u32> = (0..source.len()).filter(|&offset| !source.is_dead(offset)).collect();
        let needs = source.columns().iter().map(|column| column.need_of(&rows));
        let target = self.active_for(rows.len() as u32, &source.layout, needs)?;
        // What is kept of the life of rows is kept for all of a segment.
        (!self.segment(target).has_life()).then_some(Few { target, source, rows })
    }

    /// Copies rows behind those that are there; false, and nothing has changed, where no room was made for them.
    fn copy_few(&mut self, few: &Few<'_>) -> bool {
        let has_room = self.segment(few.target).has_room(few.needs());
        if has_room {
            let first = self.segment_mut(few.target).gather(few.source.columns(), &few.rows);
            for offset in first..first + few.rows.len() as u32 {
                let row = join(few.target, offset);
                let hash = self.hash_of(row);
                self.index(hash, row);
            }
        }
        has_room
    }

    fn is_without_segments(&self) -> bool {
        self.order.is_empty() && self.moving.is_none()
    }

    /// Takes over segments, rows and index entries of `from`, into room that was made. Returns the slots. `copies`: rows of it may
    /// be copied instead, and are in none of the slots.
    pub(crate) fn adopt(&mut self, mut from: Self, copies: bool) -> Result<Vec<u16>> {
        self.live += from.live;
        if self.is_without_segments() {
            self.segments = std::mem::take(&mut from.segments);
            self.order = std::mem::take(&mut from.order);
            self.free = std::mem::take(&mut from.free);
            std::mem::swap(&mut self.index, &mut from.index);
            for index in 0..self.order.len() {
                let (slot, sequence) = (self.order[index], self.next_sequence);
                self.segment_mut(slot).sequence = sequence;
                self.next_sequence += 1;
            }
            return Ok(self.order.clone());
        }
        if copies && self.few_of(&from).is_some_and(|few| self.copy_few(&few)) {
            return Ok(Vec::new());
        }
        let mut slots = Vec::with_capacity(from.order.len());
        // By segment, so that keys are read in the order in which they lie.
        for old in std::mem::take(&mut from.order) {
            let Some(segment) = from.segments[usize::from(old)].take() else { continue };
            let rows = segment.len();
            let slot = self.activate(segment)?;
            for offset in 0..rows {
                if !self.segment(slot).is_dead(offset) {
                    let row = join(slot, offset);
                    let hash = self.hash_of(row);
                    self.index(hash, row);
                }
            }
            slots.push(slot);
        }
        Ok(slots)
    }

    /// Rows of a segment that are not ended.
    pub(crate) fn alive_in(&self, slot: u16) -> impl Iterator<Item = u32> + use<> {
        let segment = self.segment(slot);
        let alive: Vec<u32> =
            (0..segment.len()).filter(|&offset| !segment.is_dead(offset)).map(|offset| join(slot, offset)).collect();
        alive.into_iter()
    }
}
