//! Rows being moved from the segments of a compaction run into the one segment that replaces them.
//!
//! Called by `partition::compact`. A segment has up to 65,536 rows, and updating the index for all of them takes longer
//! than a lock should be held, so the index learns the new ids piece by piece. Until it knows all of them, rows stay
//! where they were, under their old ids. Only the index uses both; `present` translates. Never changes a row.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::{Rows, join, split};
use crate::memory::Charge;
use crate::segment::{Column, Segment};

/// A segment that is to be replaced.
pub(crate) struct Replaced {
    pub(crate) slot: u16,
    /// Its rows that are in the new segment, and those that are not.
    pub(crate) kept: usize,
    pub(crate) removed: u32,
    /// Held, so that nobody writes over what was copied.
    pub(crate) _columns: Arc<Vec<Column>>,
}

/// See the module.
pub(crate) struct Moving {
    /// Where the new segment will be.
    slot: u16,
    segment: Segment,
    replaced: Vec<Replaced>,
    /// The old row and the key's hash of each row of the new segment.
    origins: Vec<(u32, u64)>,
    /// So many of them have their new ids in the index.
    done: usize,
    _charge: Charge,
}

/// The id by which a row of the index goes everywhere else.
#[inline]
pub(super) fn present(moving: Option<&Moving>, row: u32) -> u32 {
    match moving {
        Some(moving) if split(row).0 == moving.slot => moving.origins[split(row).1 as usize].0,
        _ => row,
    }
}

impl Rows {
    /// The id by which a row of an index goes everywhere else.
    #[inline]
    pub(crate) fn present(&self, row: u32) -> u32 {
        present(self.moving.as_deref(), row)
    }

    /// The id by which indexes know a row that is looked up: the other way round.
    pub(crate) fn entry_of(&self, row: u32) -> u32 {
        let Some(moving) = self.moving.as_deref() else { return row };
        let mut start = 0;
        for old in &moving.replaced {
            let end = start + old.kept;
            if old.slot == split(row).0 {
                let found = moving.origins[start..end].binary_search_by_key(&row, |(origin, _)| *origin);
                return match found.map(|index| start + index) {
                    Ok(index) if index < moving.done => join(moving.slot, index as u32),
                    _ => row,
                };
            }
            start = end;
        }
        row
    }

    /// Whether a segment is about to take the place of others.
    pub(crate) fn is_moving(&self) -> bool {
        self.moving.is_some()
    }

    /// A segment will take the place of its neighbours in `replaced`; `charge` is for `origins`. False, and nothing is changed, without a slot.
    pub(crate) fn begin_move(
        &mut self,
        segment: Segment,
        replaced: Vec<Replaced>,
        origins: Vec<(u32, u64)>,
        charge: Charge,
    ) -> bool {
        assert!(!self.is_moving(), "one segment after the other");
        let Some(slot) = self.take_slot() else { return false };
        self.moving = Some(Box::new(Moving { slot, segment, replaced, origins, done: 0, _charge: charge }));
        true
    }

    /// Gives at most so many rows their new ids in the index; true when none is left. `is_remembered` says whether an
    /// ended row is still looked up: others are not in the index. `renamed` gets the old and the new ids.
    pub(crate) fn move_entries(
        &mut self,
        count_max: usize,
        is_remembered: impl Fn(u32) -> bool,
        renamed: &mut Vec<(u32, u32)>,
    ) -> bool {
        let Some(mut moving) = self.moving.take() else { return true };
        let end = moving.origins.len().min(moving.done + count_max);
        for (&(old, hash), offset) in moving.origins[moving.done..end].iter().zip(moving.done as u32..) {
            if !self.is_dead(old) || is_remembered(old) {
                let found = self.index.replace(hash, join(moving.slot, offset), |row| row == old);
                assert!(found, "a row that is looked up is in the index");
                renamed.push((old, join(moving.slot, offset)));
            }
        }
        moving.done = end;
        let is_done = end == moving.origins.len();
        self.moving = Some(moving);
        is_done
    }

    /// Puts the new segment in the place of the old ones, once every row has its new id in the index: the old and the
    /// new ids of ended rows.
    pub(crate) fn finish_move(&mut self) -> HashMap<u32, u32, RandomState> {
        let mut ended = HashMap::default();
        let Some(moving) = self.moving.take() else { return ended };
        let Moving { slot, mut segment, replaced, origins, done, _charge } = *moving;
        assert_eq!(done, origins.len(), "every row has its new id");
        let mut start = 0;
        for old in &replaced {
            let end = start + old.kept;
            // Nearly always nobody has died who was copied.
            if self.segment(old.slot).dead_count() > old.removed {
                for (&(row, _), offset) in origins[start..end].iter().zip(start as u32..) {
                    if self.is_dead(row) {
                        segment.kill(offset);
                        ended.insert(row, join(slot, offset));
                    }
                }
            }
            let from = self.segment(old.slot);
            if from.has_life() {
                for (&(row, _), offset) in origins[start..end].iter().zip(start as u32..) {
                    segment.inherit(offset, from, split(row).1);
                }
            }
            start = end;
        }
        let slots: Vec<u16> = replaced.iter().map(|old| old.slot).collect();
        self.swap(&slots, Some((slot, segment)));
        ended
    }
}
