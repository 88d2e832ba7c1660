//! Rewriting segments with many dead rows, so that deleted rows give their memory back.
//!
//! Called by `compactor`, in three steps: `pick` a run of neighbouring sealed segments under the lock, `build` one
//! new segment from their living rows without it, `swap` it in under the lock again. Only rows that every snapshot
//! sees move; the order of rows stays. Readers of the old segments keep them until they are done.

use std::sync::Arc;

use ashlar_base::Timestamp;
use foldhash::fast::RandomState;

use super::Partition;
use crate::key;
use crate::memory::Account;
use crate::rows::split;
use crate::segment::{Column, Layout, Need, Segment};
use crate::shape::{Place, Shape};

/// Bytes of dead rows that make a run worth rewriting, where large rows are few.
const DEAD_BYTES_MIN: usize = 64 << 10;
/// One dead row of so many makes a run worth rewriting, once the dead are many.
const DEAD_SHARE: usize = 4;
/// Small neighbours that are worth merging though nobody is dead.
const SMALL_SEGMENTS: usize = 8;

/// A run of segments to be rewritten as one.
pub(crate) struct Rewrite {
    shape: Arc<Shape>,
    sequence: u64,
    inputs: Vec<Input>,
    account: Arc<Account>,
}

struct Input {
    slot: u16,
    layout: Arc<Layout>,
    columns: Arc<Vec<Column>>,
    len: u32,
    /// A bit per row that nobody sees.
    removed: Vec<u64>,
}

/// The new segment, not yet in its place.
pub(crate) struct Rewritten {
    rewrite: Rewrite,
    /// `None`: no row was left.
    segment: Option<Segment>,
    /// The old row and the key's hash of each row of the new segment.
    origins: Vec<(u32, u64)>,
}

impl Input {
    fn is_removed(&self, offset: u32) -> bool {
        self.removed.get(offset as usize / 64).is_some_and(|word| word >> (offset % 64) & 1 == 1)
    }

    fn removed_count(&self) -> usize {
        self.removed.iter().map(|word| word.count_ones() as usize).sum()
    }
}

impl Partition {
    /// A run of segments that is worth rewriting, with at least `rows_min` dead rows or many bytes. Seals the active segment when that is the one.
    pub(crate) fn pick(&mut self, rows_min: usize) -> Option<Rewrite> {
        self.seal_mostly_dead(rows_min);
        let least = self.versions.least_prefix();
        let segment_rows = self.rows.segment_rows() as usize;
        let mut run: Vec<Input> = Vec::new();
        let (mut kept, mut removed, mut removed_bytes) = (0, 0, 0);
        let worth = |run: &[Input], kept: usize, removed: usize, bytes: usize| {
            let many = removed >= rows_min.max(1) || bytes >= DEAD_BYTES_MIN;
            (many && removed * DEAD_SHARE >= kept + removed) || run.len() >= SMALL_SEGMENTS
        };
        let mut sequence = 0;
        for (slot, segment) in self.rows.in_order() {
            let whole = least.of_segment(segment.sequence, segment.len()) == segment.len();
            let input = (segment.is_sealed() && whole).then(|| self.input(slot, segment));
            let fits =
                input.as_ref().is_some_and(|input| kept + input.len as usize - input.removed_count() <= segment_rows);
            if !fits {
                if worth(&run, kept, removed, removed_bytes) {
                    break;
                }
                run.clear();
                (kept, removed, removed_bytes) = (0, 0, 0);
            }
            if let Some(input) = input {
                if run.is_empty() {
                    sequence = segment.sequence;
                }
                let dead = input.removed_count();
                kept += input.len as usize - dead;
                removed += dead;
                removed_bytes += segment.bytes() * dead / (segment.len() as usize).max(1);
                run.push(input);
            }
        }
        worth(&run, kept, removed, removed_bytes).then(|| Rewrite {
            shape: Arc::clone(&self.shape),
            sequence,
            inputs: run,
            account: Arc::clone(self.rows.account()),
        })
    }

    /// The active segment cannot be rewritten while it grows.
    fn seal_mostly_dead(&mut self, rows_min: usize) {
        let Some((_, active)) = self.rows.in_order().next_back() else { return };
        let dead = active.dead_count() as usize;
        let bytes = active.bytes() * dead / (active.len() as usize).max(1);
        if !active.is_sealed()
            && (dead >= rows_min.max(1) || bytes >= DEAD_BYTES_MIN)
            && dead * DEAD_SHARE >= active.len() as usize
        {
            self.rows.seal();
        }
    }

    fn input(&self, slot: u16, segment: &Segment) -> Input {
        let mut removed = segment.dead_words(segment.len()).unwrap_or_default();
        if !removed.is_empty() {
            // Dead, but a snapshot still sees them.
            for row in self.versions.ended_after(Timestamp(0)) {
                let (of, offset) = split(row);
                if of == slot {
                    removed[offset as usize / 64] &= !(1 << (offset % 64));
                }
            }
        }
        Input {
            slot,
            layout: Arc::clone(&segment.layout),
            columns: segment.sealed_columns(),
            len: segment.len(),
            removed,
        }
    }

    /// Puts the new segment in the place of the old ones, if they are still there.
    pub(crate) fn swap(&mut self, rewritten: Rewritten) -> bool {
        let Rewritten { rewrite, segment, origins } = rewritten;
        let slots: Vec<u16> = rewrite.inputs.iter().map(|input| input.slot).collect();
        if !self.is_current(&rewrite) {
            return false;
        }
        let Some(mut segment) = segment else {
            self.rows.swap(&slots, None);
            return true;
        };
        let Some(slot) = self.rows.take_slot() else { return false };
        for (&(old, hash), offset) in origins.iter().zip(0..) {
            let dead = self.rows.is_dead(old);
            if dead {
                segment.kill(offset);
            }
            // A dead row is in the index only as long as its end is remembered.
            if !dead || self.versions.end_of(old).is_some() {
                self.rows.reindex(hash, old, u32::from(slot) << 16 | offset);
            }
        }
        if !self.versions.is_empty() {
            let new = |row: u32| {
                let offset = origins.binary_search_by_key(&rank(&slots, row), |&(old, _)| rank(&slots, old)).ok()?;
                Some(u32::from(slot) << 16 | offset as u32)
            };
            self.versions.rename(|row| slots.contains(&split(row).0).then(|| new(row)).flatten());
        }
        self.rows.swap(&slots, Some((slot, segment)));
        true
    }

    fn is_current(&self, rewrite: &Rewrite) -> bool {
        let mut here = self.rows.in_order().skip_while(|(slot, _)| *slot != rewrite.inputs[0].slot);
        rewrite.inputs.iter().all(|input| {
            here.next().is_some_and(|(slot, segment)| {
                slot == input.slot && segment.is_sealed() && Arc::ptr_eq(&segment.sealed_columns(), &input.columns)
            })
        })
    }

    /// Gives memory of the key index back when it is far too big.
    pub(crate) fn shrink_index(&mut self) {
        self.rows.shrink_index();
    }
}

/// Where a row stands among the rows of the run.
fn rank(slots: &[u16], row: u32) -> (usize, u32) {
    let (slot, offset) = split(row);
    (slots.iter().position(|of| *of == slot).unwrap_or(slots.len()), offset)
}

impl Rewrite {
    /// Rows that the run has, and those of them that nobody sees.
    pub(crate) fn row_counts(&self) -> (usize, usize) {
        let rows = self.inputs.iter().map(|input| input.len as usize).sum();
        (rows, self.inputs.iter().map(Input::removed_count).sum())
    }

    /// Copies the living rows. No lock is held: sealed segments do not change.
    pub(crate) fn build(self, hasher: &RandomState) -> Rewritten {
        let layout = Arc::clone(&self.shape.layout);
        let mut needs = vec![Need::default(); layout.columns.len()];
        let mut origins = Vec::new();
        for input in &self.inputs {
            let places: Vec<_> = (0..needs.len()).map(|ordinal| self.shape.place(&input.layout, ordinal)).collect();
            for offset in (0..input.len).filter(|&offset| !input.is_removed(offset)) {
                for (need, place) in needs.iter_mut().zip(&places) {
                    need.add(match place {
                        Place::At(position) => input.columns[*position].need(offset as usize),
                        Place::Missing(datum) => Need::of(datum),
                    });
                }
                let key = input.layout.key.iter().map(|&position| input.columns[position].datum(offset as usize));
                origins.push((u32::from(input.slot) << 16 | offset, key::hash(hasher, key)));
            }
        }
        if origins.is_empty() {
            return Rewritten { rewrite: self, segment: None, origins };
        }
        let mut segment = Segment::forced(&layout, self.sequence, &self.account);
        segment.reserve_exact(&needs);
        for input in &self.inputs {
            let places: Vec<_> = (0..needs.len()).map(|ordinal| self.shape.place(&input.layout, ordinal)).collect();
            for offset in (0..input.len).filter(|&offset| !input.is_removed(offset)) {
                segment.push(places.iter().map(|place| match place {
                    Place::At(position) => input.columns[*position].datum(offset as usize),
                    Place::Missing(datum) => datum.clone(),
                }));
            }
        }
        segment.seal();
        Rewritten { rewrite: self, segment: Some(segment), origins }
    }
}
