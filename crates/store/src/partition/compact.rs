//! Rewriting segments with many dead rows, so that deleted rows give their memory back.
//!
//! Called by `compactor`, in four steps: `pick` a run of neighbouring sealed segments under the lock, `build` one
//! new segment from their living rows without it, `swap` begins to put it in their place under the lock again, and
//! `move_rows` goes on with that, in as many holds of the lock as it takes. Rows move only together with those
//! that the same snapshots see, and their order stays. Readers of the old segments keep them until they are done.

use std::collections::HashMap;
use std::sync::Arc;

use ashlar_base::Timestamp;
use foldhash::fast::RandomState;

use super::Partition;
use crate::key;
use crate::memory::{Account, Charge};
use crate::rows::{Replaced, split};
use crate::segment::{Column, Layout, Need, Segment};
use crate::shape::{Place, Shape};

/// Bytes of dead rows that make a run worth rewriting, where large rows are few.
const DEAD_BYTES_MIN: usize = 64 << 10;
/// One dead row of so many makes a run worth rewriting, once the dead are many.
const DEAD_SHARE: usize = 4;
/// Small neighbours that are worth merging though nobody is dead.
const SMALL_SEGMENTS: usize = 8;
/// What moving an entry of a secondary index takes, against one of the key index.
const INDEX_COST: usize = 8;
/// A run is read up to so many times the bytes that it may keep. What is kept is an estimate; what is read bounds it.
const READ_SHARE: usize = 8;

/// What is worth rewriting, and how much of it at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Dead rows from which a run is worth it.
    pub(crate) rows_min: usize,
    /// Bytes of living rows that neighbours are merged to.
    pub(crate) bytes_max: usize,
    /// One dead row of so many makes a run worth rewriting, once the dead are many.
    pub(crate) dead_share: usize,
}

impl Limits {
    /// Those of a round of the compactor.
    pub(crate) fn of_round(rows_min: usize, bytes_max: usize) -> Self {
        Self { rows_min, bytes_max, dead_share: DEAD_SHARE }
    }
}

/// Neighbouring sealed segments, counted before anything is copied.
#[derive(Default)]
struct Run {
    slots: Vec<u16>,
    /// Of the first segment.
    sequence: u64,
    kept: usize,
    kept_bytes: usize,
    removed: usize,
    removed_bytes: usize,
}

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
    charge: Charge,
}

impl Input {
    fn is_removed(&self, offset: u32) -> bool {
        self.removed.get(offset as usize / 64).is_some_and(|word| word >> (offset % 64) & 1 == 1)
    }

    fn removed_count(&self) -> usize {
        self.removed.iter().map(|word| word.count_ones() as usize).sum()
    }
}

impl Run {
    fn is_worth(&self, limits: Limits) -> bool {
        let many = self.removed >= limits.rows_min.max(1) || self.removed_bytes >= DEAD_BYTES_MIN;
        (many && self.removed * limits.dead_share >= self.kept + self.removed) || self.slots.len() >= SMALL_SEGMENTS
    }

    /// Whether the rows of both make one segment. A run of one segment does always: it was one.
    fn takes(&self, more: &Self, segment_rows: usize, bytes_max: usize) -> bool {
        let kept_bytes = self.kept_bytes + more.kept_bytes;
        self.slots.is_empty()
            || (self.kept + more.kept <= segment_rows
                && kept_bytes <= bytes_max
                && kept_bytes + self.removed_bytes + more.removed_bytes <= bytes_max.saturating_mul(READ_SHARE))
    }

    fn add(&mut self, more: &Self) {
        if self.slots.is_empty() {
            self.sequence = more.sequence;
        }
        self.slots.extend_from_slice(&more.slots);
        self.kept += more.kept;
        self.kept_bytes += more.kept_bytes;
        self.removed += more.removed;
        self.removed_bytes += more.removed_bytes;
    }
}

/// Dead rows that no snapshot sees.
fn removed_count(slot: u16, segment: &Segment, seen: &[u32]) -> usize {
    (segment.dead_count() - seen.get(usize::from(slot)).copied().unwrap_or(0)) as usize
}

impl Partition {
    /// A run of segments that is worth rewriting; none while an index gets the rows that are there, which stay where they are.
    /// Seals the active segment when many of its rows can go.
    pub(crate) fn pick(&mut self, limits: Limits) -> Option<Rewrite> {
        if self.rows.is_moving() || self.is_building() {
            return None;
        }
        let seen = self.seen_dead();
        self.seal_mostly_dead(limits, &seen);
        let run = self.choose(limits, &seen)?;
        Some(Rewrite {
            shape: Arc::clone(&self.shape),
            sequence: run.sequence,
            inputs: self.inputs(&run.slots),
            account: Arc::clone(self.rows.account()),
        })
    }

    /// By slot: how many of a segment's dead rows a snapshot still sees.
    fn seen_dead(&self) -> Vec<u32> {
        let mut seen = Vec::new();
        for row in self.versions.ended_after(Timestamp(0)) {
            let slot = usize::from(split(row).0);
            if slot >= seen.len() {
                seen.resize(slot + 1, 0);
            }
            seen[slot] += 1;
        }
        seen
    }

    /// The first neighbours that are worth it. Snapshots tell rows apart by where a mark stands between them, so a
    /// run never has one inside; what is on either side of a mark moves by itself, however old the mark is.
    fn choose(&self, limits: Limits, seen: &[u32]) -> Option<Run> {
        let segment_rows = self.rows.segment_rows() as usize;
        let mut run = Run::default();
        for (slot, segment) in self.rows.in_order() {
            let one = self.run_of(slot, segment, seen, limits.bytes_max);
            let joins = one.as_ref().is_some_and(|one| {
                run.takes(one, segment_rows, limits.bytes_max)
                    && !self.versions.has_mark_inside((run.sequence, 0), (segment.sequence, segment.len()))
            });
            if !joins {
                if run.is_worth(limits) {
                    break;
                }
                run = Run::default();
            }
            if let Some(one) = one {
                run.add(&one);
            }
        }
        run.is_worth(limits).then_some(run)
    }

    /// A segment by itself, if it can be rewritten now.
    fn run_of(&self, slot: u16, segment: &Segment, seen: &[u32], bytes_max: usize) -> Option<Run> {
        let (sequence, len) = (segment.sequence, segment.len());
        if !segment.is_sealed() || self.versions.has_mark_inside((sequence, 0), (sequence, len)) {
            return None;
        }
        let removed = removed_count(slot, segment, seen);
        let kept = len as usize - removed;
        let removed_bytes = segment.bytes() * removed / (len as usize).max(1);
        // Columns that are younger than the segment get their default in every row.
        let added = kept * self.added_bytes(segment);
        let kept_bytes = segment.bytes() - removed_bytes + added;
        (added <= bytes_max).then(|| Run { slots: vec![slot], sequence, kept, kept_bytes, removed, removed_bytes })
    }

    /// What a row of a segment takes more in the layout of today.
    fn added_bytes(&self, segment: &Segment) -> usize {
        let columns = 0..self.shape.layout.columns.len();
        let added = columns.map(|ordinal| match self.shape.place(&segment.layout, ordinal) {
            Place::At(_) => 0,
            Place::Missing(datum) => Need::of(&datum).bytes + Need::of(&datum).items,
        });
        added.sum()
    }

    /// The active segment cannot be rewritten while it grows.
    fn seal_mostly_dead(&mut self, limits: Limits, seen: &[u32]) {
        let Some((slot, active)) = self.rows.in_order().next_back() else { return };
        let removed = removed_count(slot, active, seen);
        let bytes = active.bytes() * removed / (active.len() as usize).max(1);
        if !active.is_sealed()
            && (removed >= limits.rows_min.max(1) || bytes >= DEAD_BYTES_MIN)
            && removed * limits.dead_share >= active.len() as usize
        {
            self.rows.seal();
        }
    }

    fn inputs(&self, slots: &[u16]) -> Vec<Input> {
        let input = |&slot: &u16| {
            let segment = self.rows.segment(slot);
            Input {
                slot,
                layout: Arc::clone(&segment.layout),
                columns: segment.sealed_columns(),
                len: segment.len(),
                removed: segment.dead_words(segment.len()).unwrap_or_default(),
            }
        };
        let mut inputs: Vec<Input> = slots.iter().map(input).collect();
        let places: HashMap<u16, usize> = slots.iter().zip(0..).map(|(&slot, place)| (slot, place)).collect();
        // Dead, but a snapshot still sees them.
        for row in self.versions.ended_after(Timestamp(0)) {
            let (slot, offset) = split(row);
            if let Some(&place) = places.get(&slot) {
                inputs[place].removed[offset as usize / 64] &= !(1 << (offset % 64));
            }
        }
        inputs
    }

    /// Begins to put the new segment in the place of the old ones, if they are still there: [`Self::move_rows`] goes
    /// on with it.
    pub(crate) fn swap(&mut self, rewritten: Rewritten) -> bool {
        let Rewritten { rewrite, segment, origins, charge } = rewritten;
        if self.rows.is_moving() || self.is_building() || !self.is_current(&rewrite) {
            return false;
        }
        let Some(segment) = segment else {
            let slots: Vec<u16> = rewrite.inputs.iter().map(|input| input.slot).collect();
            self.rows.swap(&slots, None);
            return true;
        };
        let replaced = rewrite.inputs.into_iter().map(|input| {
            let removed = input.removed_count();
            let Input { slot, len, columns, .. } = input;
            Replaced { slot, kept: len as usize - removed, removed: removed as u32, _columns: columns }
        });
        self.rows.begin_move(segment, replaced.collect(), origins, charge)
    }

    /// Moves rows to the segment that takes the place of others, at most so many; true when none is left to move.
    pub(crate) fn move_rows(&mut self, count_max: usize) -> bool {
        if !self.rows.is_moving() {
            return true;
        }
        // A row's entries in other indexes cost more to move than that in the key index.
        let count_max = count_max.div_ceil(1 + INDEX_COST * self.indexes.len());
        let (versions, mut renamed) = (&self.versions, Vec::new());
        let is_done = self.rows.move_entries(count_max, |row| versions.end_of(row).is_some(), &mut renamed);
        self.rename_in_indexes(&renamed);
        if !is_done {
            return false;
        }
        let ended = self.rows.finish_move();
        if !ended.is_empty() {
            self.versions.rename(|row| ended.get(&row).copied());
        }
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

    /// Gives spare memory back: of the key index when it is far too big, of the active segment when no row came since
    /// the last round.
    pub(crate) fn shrink(&mut self) {
        self.rows.shrink_index();
        self.settle_indexes();
        let end = self.rows.end();
        if self.last_end == end {
            self.rows.trim();
        }
        self.last_end = end;
    }
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
        let (rows, removed) = self.row_counts();
        // Over the bound too: giving memory back takes a little first.
        let charge = Charge::forced(&self.account, (rows - removed) * size_of::<(u32, u64)>());
        let mut origins = Vec::with_capacity(rows - removed);
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
            return Rewritten { rewrite: self, segment: None, origins, charge };
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
        Rewritten { rewrite: self, segment: Some(segment), origins, charge }
    }
}
