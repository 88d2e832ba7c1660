//! Rows in segments with their key index: what a partition and a transaction's buffered writes are both made of.
//!
//! ```text
//!   row id  = segment slot (16 bits) << 16 | offset (16 bits)
//!   order   = slots by sequence; the last one is the active segment unless it is sealed
//!   index   = key hash -> row id; a key may have several rows, of which at most one is alive
//! ```
//! Called by `partition` and `writeset`, which say what a row's life means. Knows no timestamps.

use std::borrow::Borrow;
use std::collections::VecDeque;
use std::sync::Arc;

use ashlar_base::{Datum, Error, ErrorCode, Result};
use foldhash::fast::RandomState;

use crate::index::KeyIndex;
use crate::key;
#[cfg(test)]
use crate::life::Expiring;
use crate::memory::Account;
use crate::segment::{Layout, Need, Segment};

mod adopting;
mod appending;
mod life;
mod moving;
mod walking;

use moving::{Moving, present};

pub(crate) use moving::Replaced;
pub(crate) use walking::Spot;

/// The most slots that a partition can have: a row id has 16 bits for the slot.
const SLOTS_MAX: usize = 1 << 16;

/// Empty segments with room for rows that will come, in their order.
pub(crate) type Spares = VecDeque<Box<Segment>>;

/// See the module.
pub(crate) struct Rows {
    segments: Vec<Option<Box<Segment>>>,
    order: Vec<u16>,
    free: Vec<u16>,
    /// Segments that `reserve_rows` has made, to become active one after the other.
    spare: Spares,
    next_sequence: u64,
    index: KeyIndex,
    /// The segment that is being moved into the place of others.
    moving: Option<Box<Moving>>,
    live: u64,
    hasher: RandomState,
    segment_rows: u32,
    account: Arc<Account>,
}

/// A row's slot and offset.
pub(crate) fn split(row: u32) -> (u16, u32) {
    ((row >> 16) as u16, row & 0xffff)
}

/// The row in a slot at an offset.
pub(crate) fn join(slot: u16, offset: u32) -> u32 {
    u32::from(slot) << 16 | offset
}

fn too_many_rows() -> Error {
    Error::new(ErrorCode::ProgramLimitExceeded, "a partition has too many rows")
}

#[inline]
fn segment_in(segments: &[Option<Box<Segment>>], slot: u16) -> &Segment {
    segments[usize::from(slot)].as_ref().expect("row ids name segments that exist")
}

fn hash_of(segments: &[Option<Box<Segment>>], hasher: &RandomState, row: u32) -> u64 {
    let (slot, offset) = split(row);
    let segment = segment_in(segments, slot);
    // An index that grows asks for each of its rows.
    match segment.integer_key(offset) {
        Some(key) => key::hash_integer(hasher, key),
        None => key::hash(hasher, segment.key(offset)),
    }
}

impl Rows {
    /// No rows; segments will have at most `segment_rows`.
    pub(crate) fn new(account: &Arc<Account>, hasher: RandomState, segment_rows: u32) -> Self {
        Self {
            segments: Vec::new(),
            order: Vec::new(),
            free: Vec::new(),
            spare: Spares::new(),
            next_sequence: 1,
            index: KeyIndex::new(account),
            moving: None,
            live: 0,
            hasher,
            segment_rows,
            account: Arc::clone(account),
        }
    }

    /// Rows that are not ended.
    pub(crate) fn live(&self) -> u64 {
        self.live
    }

    /// Rows, ended ones included.
    pub(crate) fn total(&self) -> u64 {
        self.in_order().map(|(_, segment)| u64::from(segment.len())).sum()
    }

    /// The number of slots that were ever in use.
    pub(crate) fn slot_count(&self) -> usize {
        self.segments.len()
    }

    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    pub(crate) fn segment_rows(&self) -> u32 {
        self.segment_rows
    }

    /// Slots and segments, oldest rows first.
    pub(crate) fn in_order(&self) -> impl DoubleEndedIterator<Item = (u16, &Segment)> {
        self.order.iter().map(|&slot| (slot, self.segment(slot)))
    }

    /// The segment in a slot; the slot must be in use.
    #[inline]
    pub(crate) fn segment(&self, slot: u16) -> &Segment {
        segment_in(&self.segments, slot)
    }

    fn segment_mut(&mut self, slot: u16) -> &mut Segment {
        self.segments[usize::from(slot)].as_mut().expect("row ids name segments that exist")
    }

    /// Where the next row goes: the sequence of a segment, which may not exist yet, and the number of rows before it. Never goes back,
    /// even if segments are removed.
    pub(crate) fn end(&self) -> (u64, u32) {
        match self.in_order().next_back() {
            Some((_, segment)) if !segment.is_sealed() => (segment.sequence, segment.len()),
            _ => (self.next_sequence, 0),
        }
    }

    /// The hash of a key.
    #[inline]
    pub(crate) fn hash<'d>(&self, key: impl Iterator<Item = Datum<'d>>) -> u64 {
        key::hash(&self.hasher, key)
    }

    /// The hash of a row's key.
    pub(crate) fn hash_of(&self, row: u32) -> u64 {
        hash_of(&self.segments, &self.hasher, row)
    }

    /// A row of this key for which `wanted` holds.
    #[inline]
    pub(crate) fn find_where(
        &self,
        hash: u64,
        key: &[Datum<'_>],
        wanted: impl Fn(u32, &Segment) -> bool,
    ) -> Option<u32> {
        let moving = self.moving.as_deref();
        let found = self.index.find(hash, |row| {
            let row = present(moving, row);
            let (slot, offset) = split(row);
            let segment = self.segment(slot);
            wanted(row, segment) && segment.key(offset).zip(key).all(|(stored, asked)| key::equal(&stored, asked))
        });
        found.map(|row| present(moving, row))
    }

    /// The row of this key that is not ended.
    #[inline]
    pub(crate) fn find(&self, hash: u64, key: &[Datum<'_>]) -> Option<u32> {
        self.find_where(hash, key, |row, segment| !segment.is_dead(row & 0xffff))
    }

    /// Whether a row in the index for which `wanted` holds has a key of this hash.
    pub(crate) fn has_hash(&self, hash: u64, wanted: impl Fn(u32) -> bool) -> bool {
        let moving = self.moving.as_deref();
        let is_one = |row: u32| wanted(row) && self.hash_of(row) == hash;
        self.index.find(hash, |row| is_one(present(moving, row))).is_some()
    }

    /// Prefetches the memory that a search for a hash reads first.
    #[inline]
    pub(crate) fn prefetch_index(&self, hash: u64) {
        self.index.prefetch(hash);
    }

    /// The row that a search for a hash would visit first, and its segment.
    #[inline]
    pub(crate) fn guess(&self, hash: u64) -> Option<(&Segment, u32)> {
        let (slot, offset) = split(present(self.moving.as_deref(), self.index.guess(hash)?));
        Some((self.segment(slot), offset))
    }

    /// Rows in the index, in no order: all that are not ended, and ended ones that are still looked up.
    pub(crate) fn indexed(&self) -> impl Iterator<Item = u32> {
        self.index.rows().map(|row| present(self.moving.as_deref(), row))
    }

    /// The same of all rows whose keys have hashes from `first` to `last`, and of some others: see
    /// [`KeyIndex::rows_between`].
    pub(crate) fn indexed_between(&self, first: u64, last: u64) -> impl Iterator<Item = u32> {
        self.index.rows_between(first, last).map(|row| present(self.moving.as_deref(), row))
    }

    /// Whether the index has any row.
    pub(crate) fn has_indexed(&self) -> bool {
        !self.index.is_empty()
    }

    /// Whether a row is ended.
    pub(crate) fn is_dead(&self, row: u32) -> bool {
        let (slot, offset) = split(row);
        self.segment(slot).is_dead(offset)
    }

    /// The active segment's slot, if it takes one more row of this layout.
    fn active(&self, layout: &Arc<Layout>, needs: impl Iterator<Item = Need>) -> Option<u16> {
        self.active_for(1, layout, needs)
    }

    /// The same for this many rows.
    fn active_for(&self, rows: u32, layout: &Arc<Layout>, needs: impl Iterator<Item = Need>) -> Option<u16> {
        let &slot = self.order.last()?;
        let segment = self.segment(slot);
        let rows_max = (self.segment_rows + 1).saturating_sub(rows);
        (Arc::ptr_eq(&segment.layout, layout) && segment.fits(needs, rows_max)).then_some(slot)
    }

    /// Makes a segment the active one, and seals the one before it.
    fn activate(&mut self, mut segment: Box<Segment>) -> Result<u16> {
        let slot = match self.free.last() {
            Some(&slot) => slot,
            None if self.segments.len() < SLOTS_MAX => self.segments.len() as u16,
            None => return Err(too_many_rows()),
        };
        self.seal();
        self.free.pop();
        segment.sequence = self.next_sequence;
        self.next_sequence += 1;
        self.place(slot, segment);
        self.order.push(slot);
        Ok(slot)
    }

    /// The number of segments that can be added.
    fn free_slots(&self) -> usize {
        SLOTS_MAX - self.segments.len() + self.free.len()
    }

    fn place(&mut self, slot: u16, segment: Box<Segment>) {
        let index = usize::from(slot);
        if index == self.segments.len() {
            self.segments.push(Some(segment));
        } else {
            self.segments[index] = Some(segment);
        }
    }

    /// Seals the active segment: the next row opens another.
    pub(crate) fn seal(&mut self) {
        if let Some(&slot) = self.order.last() {
            self.segment_mut(slot).seal();
        }
    }

    /// Releases spare room of the active segment.
    pub(crate) fn trim(&mut self) {
        if let Some(&slot) = self.order.last() {
            self.segment_mut(slot).trim();
        }
    }

    /// Makes room for one row, including its index entry. 53200 over the memory bound, and no row has changed then.
    pub(crate) fn reserve(&mut self, layout: &Arc<Layout>, needs: impl Iterator<Item = Need> + Clone) -> Result<()> {
        let slot = self.open(layout, needs.clone())?;
        let segment_rows = self.segment_rows;
        self.segment_mut(slot).reserve(needs, segment_rows)?;
        self.reserve_index(1)
    }

    /// The slot of the segment that takes one more row: the active one or, if that is full, the next, which becomes active.
    fn open(&mut self, layout: &Arc<Layout>, needs: impl Iterator<Item = Need> + Clone) -> Result<u16> {
        match self.active(layout, needs.clone()) {
            // A commit's room is where `reserve_rows` made it; rows that were overwritten left some of it unused.
            Some(slot) if self.spare.is_empty() || self.segment(slot).has_room(needs.clone()) => Ok(slot),
            _ => {
                let segment = match self.take_spare(layout, needs.clone()) {
                    Some(spare) => spare,
                    None => Box::new(Segment::new(layout, 0, &self.account)?),
                };
                if !segment.fits(needs, self.segment_rows) {
                    return Err(Error::new(ErrorCode::ProgramLimitExceeded, "a row is too large"));
                }
                self.activate(segment)
            }
        }
    }

    /// The spare segment with room for a row of this layout and size. Spares before it were made for rows that were overwritten in place
    /// or fitted elsewhere.
    fn take_spare(&mut self, layout: &Arc<Layout>, needs: impl Iterator<Item = Need> + Clone) -> Option<Box<Segment>> {
        while let Some(spare) = self.spare.pop_front() {
            if Arc::ptr_eq(&spare.layout, layout) && spare.has_room(needs.clone()) {
                return Some(spare);
            }
        }
        None
    }

    fn reserve_index(&mut self, additional: usize) -> Result<()> {
        let (segments, moving, hasher) = (&self.segments, self.moving.as_deref(), &self.hasher);
        self.index.reserve(additional, |row| hash_of(segments, hasher, present(moving, row)))
    }

    /// Makes room for many rows, given by what each takes in each column, so that appending them cannot fail.
    /// `fresh`: also after `clear` or `seal`.
    pub(crate) fn reserve_rows<N: Iterator<Item = Need> + Clone>(
        &mut self,
        layout: &Arc<Layout>,
        rows: impl Iterator<Item = N>,
        fresh: bool,
    ) -> Result<()> {
        let count = self.reserve_segments(layout, rows, fresh)?;
        self.reserve_index(count)
    }

    /// The same without a look at each row, if all go into the active segment: `sum` is what they take in each column. False, and
    /// nothing has changed, if they do not.
    pub(crate) fn reserve_behind(&mut self, layout: &Arc<Layout>, sum: &[Need]) -> Result<bool> {
        let rows = sum[0].rows;
        let Some(slot) = self.active_for(rows as u32, layout, sum.iter().copied()) else { return Ok(false) };
        self.reserve_target(Some(slot), None, sum)?;
        self.spare = Spares::new();
        self.reserve_index(rows)?;
        Ok(true)
    }

    /// Makes segments for many rows, without using existing room.
    pub(crate) fn make_spares<N: Iterator<Item = Need> + Clone>(
        &mut self,
        layout: &Arc<Layout>,
        rows: impl Iterator<Item = N>,
    ) -> Result<Spares> {
        self.reserve_segments(layout, rows, true)?;
        Ok(std::mem::take(&mut self.spare))
    }

    /// Takes over segments that were made elsewhere for this many rows, and makes room in the index.
    pub(crate) fn reserve_made(&mut self, spares: Spares, rows: usize) -> Result<()> {
        if spares.len() > self.free_slots() {
            return Err(too_many_rows());
        }
        self.reserve_index(rows)?;
        self.spare = spares;
        Ok(())
    }

    /// Makes room for rows in segments, and returns how many rows there are.
    fn reserve_segments<N: Iterator<Item = Need> + Clone>(
        &mut self,
        layout: &Arc<Layout>,
        rows: impl Iterator<Item = N>,
        fresh: bool,
    ) -> Result<usize> {
        let nothing = vec![Need::default(); layout.columns.len()];
        let mut sum = nothing.clone();
        let mut count = 0;
        let mut spare = Spares::new();
        // The segment that the rows go to: the active one, then the last spare.
        let mut target = self.active(layout, nothing.iter().copied()).filter(|_| !fresh);
        for row in rows {
            count += 1;
            if target.is_none() && spare.is_empty() {
                spare.push_back(Box::new(Segment::new(layout, 0, &self.account)?));
            }
            let more = sum.iter().zip(row.clone()).map(|(&sum, need)| {
                let mut more = sum;
                more.add(need);
                more
            });
            let segment = match target {
                Some(slot) => self.segment(slot),
                None => spare.back().expect("there is a spare when the active one is full"),
            };
            let rows_max = self.segment_rows.saturating_sub(sum[0].rows as u32);
            if segment.fits(more, rows_max) {
                sum.iter_mut().zip(row).for_each(|(sum, need)| sum.add(need));
                continue;
            }
            self.reserve_target(target, spare.back_mut(), &sum)?;
            target = None;
            sum = row.collect();
            let segment = Box::new(Segment::new(layout, 0, &self.account)?);
            if !segment.fits(sum.iter().copied(), self.segment_rows) {
                return Err(Error::new(ErrorCode::ProgramLimitExceeded, "a row is too large"));
            }
            spare.push_back(segment);
        }
        self.reserve_target(target, spare.back_mut(), &sum)?;
        if spare.len() > self.free_slots() {
            return Err(too_many_rows());
        }
        self.spare = spare;
        Ok(count)
    }

    /// Releases segments that `reserve_rows` made for rows that did not come.
    pub(crate) fn unreserve(&mut self) {
        self.spare = Spares::new();
    }

    fn reserve_target(&mut self, active: Option<u16>, spare: Option<&mut Box<Segment>>, sum: &[Need]) -> Result<()> {
        if sum[0].rows == 0 {
            return Ok(());
        }
        let segment_rows = self.segment_rows;
        match (active, spare) {
            (Some(slot), _) => self.segment_mut(slot).reserve(sum.iter().copied(), segment_rows),
            (None, Some(segment)) => segment.reserve(sum.iter().copied(), segment_rows),
            (None, None) => Ok(()),
        }
    }

    /// Appends a row into reserved room. It is not in the index yet.
    pub(crate) fn push<'d, D: Borrow<Datum<'d>>>(&mut self, row: impl Iterator<Item = D>) -> u32 {
        let &slot = self.order.last().expect("room is reserved before a row is appended");
        let offset = self.segment_mut(slot).push(row);
        self.live += 1;
        join(slot, offset)
    }

    /// Appends a copy of a row with other values in some columns; room is reserved. `value_of` reads a
    /// column of the old row where that lies in another segment, whose layout may be another.
    pub(crate) fn push_changed<'a>(
        &'a mut self,
        old: u32,
        changes: &'a [(usize, Datum<'a>)],
        value_of: impl Fn(&'a Segment, u32, usize) -> Datum<'a>,
    ) -> u32 {
        let (old_slot, old_offset) = split(old);
        let &slot = self.order.last().expect("room is reserved before a row is appended");
        self.live += 1;
        if slot == old_slot {
            return join(slot, self.segment_mut(slot).push_changed(old_offset, changes));
        }
        let pair = self.segments.get_disjoint_mut([usize::from(old_slot), usize::from(slot)]);
        let Ok([Some(from), Some(to)]) = pair else { panic!("row ids name segments that exist") };
        let from: &'a Segment = from;
        let values = (0..to.layout.columns.len()).map(|ordinal| {
            match changes.iter().rfind(|(changed, _)| *changed == ordinal) {
                Some((_, datum)) => datum.clone(),
                None => value_of(from, old_offset, ordinal),
            }
        });
        join(slot, to.push(values))
    }

    /// Overwrites the values of a row: see `Segment::overwrite`. Returns false, and has changed nothing, if that is not possible.
    pub(crate) fn overwrite<'v, 'd: 'v>(
        &mut self,
        row: u32,
        values: impl Iterator<Item = (usize, &'v Datum<'d>)> + Clone,
    ) -> bool {
        let (slot, offset) = split(row);
        self.segment_mut(slot).overwrite(offset, values)
    }

    /// Adds a row to the index, into room that was reserved.
    pub(crate) fn index(&mut self, hash: u64, row: u32) {
        self.index.insert(hash, row);
    }

    /// Replaces a row in the index by another one of the same key.
    pub(crate) fn reindex(&mut self, hash: u64, old: u32, new: u32) {
        let moving = self.moving.as_deref();
        let found = self.index.replace(hash, new, |row| present(moving, row) == old);
        assert!(found, "a row that is alive is in the index");
    }

    /// Removes a row from the index.
    pub(crate) fn unindex(&mut self, hash: u64, row: u32) {
        let moving = self.moving.as_deref();
        let found = self.index.remove(hash, |entry| present(moving, entry) == row);
        assert!(found, "a row that is looked up is in the index");
    }

    /// Ends a row. Its index entry stays.
    pub(crate) fn kill(&mut self, row: u32) {
        let (slot, offset) = split(row);
        self.segment_mut(slot).kill(offset);
        self.live -= 1;
    }

    /// Undoes the end of a row.
    pub(crate) fn revive(&mut self, row: u32) {
        let (slot, offset) = split(row);
        self.segment_mut(slot).revive(offset);
        self.live += 1;
    }

    /// Removes all rows at once. Sequences continue, and reserved room stays.
    pub(crate) fn clear(&mut self) {
        self.segments.clear();
        self.order.clear();
        self.free.clear();
        self.moving = None;
        self.live = 0;
        if self.spare.is_empty() {
            self.index = KeyIndex::new(&self.account);
        } else {
            self.index.clear();
        }
    }

    /// Releases memory of the index when it is far too large.
    pub(crate) fn shrink_index(&mut self) {
        let (segments, moving, hasher) = (&self.segments, self.moving.as_deref(), &self.hasher);
        self.index.shrink(|row| hash_of(segments, hasher, present(moving, row)));
    }

    /// A slot for a segment that will replace others.
    fn take_slot(&mut self) -> Option<u16> {
        let fresh = || (self.segments.len() < SLOTS_MAX).then_some(self.segments.len() as u16);
        let slot = self.free.last().copied().or_else(fresh)?;
        self.free.pop();
        if usize::from(slot) == self.segments.len() {
            self.segments.push(None);
        }
        Some(slot)
    }

    /// Replaces the segments in `old`, which are neighbours, by `new`. Their index entries have been moved already.
    pub(crate) fn swap(&mut self, old: &[u16], new: Option<(u16, Segment)>) {
        let first = self.order.iter().position(|slot| slot == &old[0]).expect("segments to swap are in order");
        assert_eq!(self.order[first..first + old.len()], *old, "segments to swap are neighbours");
        let slot = new.map(|(slot, segment)| {
            self.place(slot, Box::new(segment));
            slot
        });
        self.order.splice(first..first + old.len(), slot);
        for &slot in old {
            self.segments[usize::from(slot)] = None;
            self.free.push(slot);
        }
    }

    #[cfg(test)]
    pub(crate) fn check(&self) {
        let mut live = 0;
        let mut sequence = 0;
        for (slot, segment) in self.in_order() {
            assert!(segment.sequence > sequence, "sequences ascend");
            sequence = segment.sequence;
            live += u64::from(segment.len() - segment.dead_count());
            let mut expiring = Expiring::default();
            let alive = (0..segment.len()).filter(|&offset| !segment.is_dead(offset));
            alive.for_each(|offset| expiring.add(segment.deadline(offset)));
            assert_eq!(segment.expiring(), expiring);
            for offset in (0..segment.len()).filter(|&offset| !segment.is_dead(offset)) {
                let row = join(slot, offset);
                assert!(
                    self.index.find(self.hash_of(row), |found| present(self.moving.as_deref(), found) == row).is_some(),
                    "the living are indexed"
                );
            }
        }
        assert_eq!(live, self.live);
        for row in self.indexed() {
            let (slot, offset) = split(row);
            assert!(offset < self.segment(slot).len(), "the index names rows that exist");
        }
    }
}
