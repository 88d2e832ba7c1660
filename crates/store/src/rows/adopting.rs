//! Taking over the rows of another `Rows`, segments and all.
//!
//! Called by `partition::apply` for rows that arrived in bulk. What is copied is index entries, and not even those
//! where nothing was before.

use ashlar_base::Result;

use super::{Rows, join, too_many_rows};

impl Rows {
    /// Makes room for the rows of `from`, which holds only rows that are alive in its index, and for `others` more in
    /// the index.
    pub(crate) fn reserve_adoption(&mut self, from: &mut Self, others: usize) -> Result<()> {
        if from.order.len() > self.free_slots() {
            return Err(too_many_rows());
        }
        from.reserve_index(others)?;
        if self.is_without_segments() { Ok(()) } else { self.reserve_index(from.live as usize + others) }
    }

    fn is_without_segments(&self) -> bool {
        self.order.is_empty() && self.moving.is_none()
    }

    /// Takes over segments, rows and index entries of `from`, into room that was made. Returns the slots.
    pub(crate) fn adopt(&mut self, mut from: Self) -> Result<Vec<u16>> {
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
