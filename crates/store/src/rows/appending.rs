//! Appends many rows at once, copied column by column from the buffer that they waited in.
//!
//! Called by `partition::apply` for rows that arrived in bulk, in partitions that no other thread knows yet.
//! `reserve_rows` has not been called for them.

use std::sync::Arc;

use ashlar_base::Result;

use super::{Rows, join, present, segment_in, split};
use crate::key;
use crate::segment::{Column, Layout, Need};

impl Rows {
    /// Appends copies of some rows of other columns, which are of this layout; not yet in the index, which has room for them.
    /// The first one's id; those of the others follow it. `None`, and nothing has changed: they do not go into one segment
    /// together. A row by itself always goes into one. Over the memory bound it says 53200, and no row changed.
    pub(crate) fn append(&mut self, layout: &Arc<Layout>, source: &[Column], rows: &[u32]) -> Result<Option<u32>> {
        let needs: Vec<Need> = source.iter().map(|column| column.need_of(rows)).collect();
        let needs = || needs.iter().copied();
        let slot = if rows.len() > 1 {
            let Some(slot) = self.active_for(rows.len() as u32, layout, needs()) else { return Ok(None) };
            slot
        } else {
            self.open(layout, needs())?
        };
        let segment_rows = self.segment_rows;
        self.segment_mut(slot).reserve_twice(needs(), segment_rows)?;
        self.reserve_index(rows.len())?;
        let first = self.segment_mut(slot).gather(source, rows);
        self.live += rows.len() as u64;
        Ok(Some(join(slot, first)))
    }

    /// Adds a row that was appended to the index, which has room for it; false, and it is not there, where another row of its
    /// key is that is not ended.
    pub(crate) fn index_new(&mut self, hash: u64, row: u32) -> bool {
        let Self { segments, index, moving, .. } = self;
        let (segments, moving) = (&segments[..], moving.as_deref());
        let (slot, offset) = split(row);
        let segment = segment_in(segments, slot);
        index.insert_unless(hash, row, |other| {
            let (slot, other) = split(present(moving, other));
            let others = segment_in(segments, slot);
            !others.is_dead(other)
                && others.key(other).zip(segment.key(offset)).all(|(other, own)| key::equal(&other, &own))
        })
    }
}
