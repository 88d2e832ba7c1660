//! What a segment keeps of the life of its rows: when it ends, when they were used last, and how often they are.
//!
//! ```text
//!   deadlines   8 bytes a row, from the first row that has one on
//!   used        4 bytes a row     only in tables with max_idle_ms, or that evict by use
//!   counts      1 byte a row      only in tables that evict by how often rows are used
//! ```
//! Lists may be shorter than the segment: rows behind their end have nothing. Nothing here is lent: it is read and
//! changed under the partition's lock, in sealed segments too. Called by `rows::life`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use super::Segment;
use crate::life::{Deadline, Expiring, Keep, Unit, frequency};
use crate::memory::{Account, Charge};

/// See the module.
pub(super) struct Life {
    deadlines: Vec<Deadline>,
    /// The rows that have one and are not ended.
    expiring: Expiring,
    /// No row that is not ended ends before it.
    soonest: Deadline,
    used: Vec<AtomicU32>,
    counts: Vec<AtomicU8>,
    charge: Charge,
}

/// Rows of a segment that are looked at in a millisecond, at most, in order to find those whose time has come.
const ROWS_PER_MS: u64 = 64;

/// Room for as many more than needed, so that growing costs a constant number of copies.
fn grown(needed: usize) -> usize {
    (needed + needed / 4).max(8)
}

impl Life {
    fn new(account: &Arc<Account>) -> Box<Self> {
        Box::new(Self {
            deadlines: Vec::new(),
            expiring: Expiring::default(),
            soonest: Deadline::NONE,
            used: Vec::new(),
            counts: Vec::new(),
            charge: Charge::forced(account, size_of::<Self>()),
        })
    }

    fn recharge(&mut self, more: usize) {
        let lists = self.deadlines.capacity() * size_of::<Deadline>()
            + self.used.capacity() * size_of::<AtomicU32>()
            + self.counts.capacity();
        self.charge.resize(size_of::<Self>() + lists + more);
    }

    /// Has a deadline for every row up to `rows`, charged over the bound too.
    fn extend_deadlines(&mut self, rows: usize) {
        if rows > self.deadlines.capacity() {
            let room = grown(rows);
            self.recharge(room * size_of::<Deadline>());
            self.deadlines.reserve_exact(room - self.deadlines.len());
            self.recharge(0);
        }
        if rows > self.deadlines.len() {
            self.deadlines.resize(rows, Deadline::NONE);
        }
    }

    /// Has a use for every row up to `rows`, charged over the bound too: `stamp` for those that had none.
    fn extend_uses(&mut self, rows: usize, keep: Keep, stamp: u32) {
        if rows > self.used.capacity() || (keep.counts && rows > self.counts.capacity()) {
            let room = grown(rows);
            self.recharge(room * (size_of::<AtomicU32>() + 1));
            self.used.reserve_exact(room.saturating_sub(self.used.len()));
            if keep.counts {
                self.counts.reserve_exact(room.saturating_sub(self.counts.len()));
            }
            self.recharge(0);
        }
        if rows > self.used.len() {
            self.used.resize_with(rows, || AtomicU32::new(stamp));
        }
        if keep.counts && rows > self.counts.len() {
            self.counts.resize_with(rows, || AtomicU8::new(frequency::NEW));
        }
    }

    fn shrink(&mut self) {
        self.deadlines.shrink_to_fit();
        self.used.shrink_to_fit();
        self.counts.shrink_to_fit();
        self.recharge(0);
    }
}

impl Segment {
    /// Whether anything is kept of the life of rows.
    #[inline]
    pub(crate) fn has_life(&self) -> bool {
        self.life.is_some()
    }

    fn life_mut(&mut self) -> &mut Life {
        let account = &self.account;
        self.life.get_or_insert_with(|| Life::new(account))
    }

    /// When a row's life ends.
    #[inline]
    pub(crate) fn deadline(&self, row: u32) -> Deadline {
        let life = self.life.as_ref();
        life.and_then(|life| life.deadlines.get(row as usize)).copied().unwrap_or(Deadline::NONE)
    }

    /// When a row's life ends, if `idle` milliseconds without use end it too.
    #[inline]
    pub(crate) fn ends(&self, row: u32, idle: Option<(u64, Unit)>, now: u64) -> Deadline {
        let deadline = self.deadline(row);
        match (idle, &self.life) {
            (Some((idle, unit)), Some(life)) => match life.used.get(row as usize) {
                Some(used) => {
                    let since = unit.since(used.load(Ordering::Relaxed), now);
                    deadline.min(Deadline::of_table(now.saturating_sub(since).saturating_add(idle)))
                }
                None => deadline,
            },
            _ => deadline,
        }
    }

    /// No row that is not ended ends before it.
    pub(crate) fn soonest(&self) -> Deadline {
        self.life.as_ref().map_or(Deadline::NONE, |life| life.soonest)
    }

    /// Says when a row's life ends.
    pub(crate) fn set_deadline(&mut self, row: u32, deadline: Deadline) {
        let old = self.deadline(row);
        if deadline == old {
            return;
        }
        let is_dead = self.is_dead(row);
        let life = self.life_mut();
        life.extend_deadlines(row as usize + 1);
        life.deadlines[row as usize] = deadline;
        life.soonest = life.soonest.min(deadline);
        if !is_dead {
            life.expiring.remove(old);
            life.expiring.add(deadline);
        }
    }

    /// The rows, not ended, whose life ends at a time that is known.
    pub(crate) fn expiring(&self) -> Expiring {
        self.life.as_ref().map_or_else(Expiring::default, |life| life.expiring)
    }

    /// A row is ended: it counts no more among those that have a deadline.
    pub(super) fn forget_deadline(&mut self, row: u32) {
        let deadline = self.deadline(row);
        if let Some(life) = &mut self.life {
            life.expiring.remove(deadline);
        }
    }

    /// A row is not ended after all.
    pub(super) fn recall_deadline(&mut self, row: u32) {
        let deadline = self.deadline(row);
        if let Some(life) = &mut self.life {
            life.expiring.add(deadline);
        }
    }

    /// No row that is not ended ends before this either.
    pub(crate) fn expect_end(&mut self, deadline: Deadline) {
        if deadline < self.soonest() {
            self.life_mut().soonest = deadline;
        }
    }

    /// Keeps when rows are used: all up to `rows` count as used at `stamp` that have no use yet.
    pub(crate) fn keep_uses(&mut self, rows: u32, keep: Keep, stamp: u32) {
        if keep.used {
            self.life_mut().extend_uses(rows as usize, keep, stamp);
        }
    }

    /// Forgets when rows were used, and how often.
    pub(crate) fn forget_uses(&mut self) {
        if let Some(life) = &mut self.life {
            life.used = Vec::new();
            life.counts = Vec::new();
            life.recharge(0);
            if life.deadlines.is_empty() {
                self.life = None;
            }
        }
    }

    /// A row is new: whatever was kept at its place was of another.
    pub(crate) fn begin_use(&mut self, row: u32, keep: Keep, stamp: u32) {
        if keep.used {
            self.keep_uses(row + 1, keep, stamp);
            if let Some(life) = &self.life {
                life.used[row as usize].store(stamp, Ordering::Relaxed);
            }
        }
    }

    /// A row is used.
    pub(crate) fn touch(&self, row: u32, unit: Unit, now: u64, random: impl FnOnce() -> u64) {
        let Some(life) = &self.life else { return };
        let Some(used) = life.used.get(row as usize) else { return };
        if let Some(count) = life.counts.get(row as usize) {
            let idle = unit.since(used.load(Ordering::Relaxed), now);
            let decayed = frequency::decayed(count.load(Ordering::Relaxed), idle);
            count.store(frequency::used(decayed, random()), Ordering::Relaxed);
        }
        used.store(unit.stamp(now), Ordering::Relaxed);
    }

    /// Milliseconds since a row was used last, and how often it is used: each none where that is not kept.
    pub(crate) fn use_of(&self, row: u32, unit: Unit, now: u64) -> (Option<u64>, Option<u8>) {
        let row = row as usize;
        let Some(life) = &self.life else { return (None, None) };
        let idle = life.used.get(row).map(|used| unit.since(used.load(Ordering::Relaxed), now));
        let decayed = |count: u8| frequency::decayed(count, idle.unwrap_or(0));
        (idle, life.counts.get(row).map(|count| decayed(count.load(Ordering::Relaxed))))
    }

    /// How much a row is wanted, the least first: by how often it was used, else by when.
    pub(crate) fn worth(&self, row: u32, unit: Unit, now: u64) -> (u8, std::cmp::Reverse<u64>) {
        let (idle, count) = self.use_of(row, unit, now);
        (count.unwrap_or(0), std::cmp::Reverse(idle.unwrap_or(0)))
    }

    /// A row that is a copy of another segment's has its life.
    pub(crate) fn inherit(&mut self, row: u32, from: &Self, old: u32) {
        let Some(life) = &from.life else { return };
        self.set_deadline(row, from.deadline(old));
        let old = old as usize;
        if let Some(used) = life.used.get(old) {
            let keep = Keep { used: true, counts: !life.counts.is_empty() };
            let stamp = used.load(Ordering::Relaxed);
            self.begin_use(row, keep, stamp);
            if let (Some(count), Some(mine)) = (life.counts.get(old), &self.life) {
                mine.counts[row as usize].store(count.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        self.expect_end(life.soonest);
    }

    /// Bytes that what is kept of a row's life takes at most, where there is no room for it yet.
    pub(crate) fn life_growth(&self, row: u32, has_deadline: bool, keep: Keep) -> usize {
        let rows = row as usize + 1;
        let life = self.life.as_ref();
        let mut bytes = 0;
        if has_deadline && life.is_none_or(|life| rows > life.deadlines.capacity()) {
            bytes += grown(rows) * size_of::<Deadline>();
        }
        if keep.used && life.is_none_or(|life| rows > life.used.capacity()) {
            bytes += grown(rows) * (size_of::<AtomicU32>() + 1);
        }
        bytes
    }

    /// The rows, not ended, whose life has ended now, at most so many; true when there are no more.
    pub(crate) fn passed(&mut self, idle: Option<(u64, Unit)>, now: u64, count_max: usize, out: &mut Vec<u32>) -> bool {
        // A large segment is not looked through for each row of it: once a second, if it is full.
        let patience = u64::from(self.len) / ROWS_PER_MS;
        if !self.soonest().has_passed(now.saturating_sub(patience)) {
            return true;
        }
        let mut soonest = Deadline::NONE;
        for row in 0..self.len {
            if self.is_dead(row) {
                continue;
            }
            let ends = self.ends(row, idle, now);
            if !ends.has_passed(now) {
                soonest = soonest.min(ends);
            } else if out.len() < count_max {
                out.push(row);
            } else {
                return false;
            }
        }
        if let Some(life) = &mut self.life {
            life.soonest = soonest;
        }
        true
    }

    /// Sets the bits of rows whose life had ended at a time. `words` has one for each of the first `rows` rows, or is
    /// empty, which means the same as no bits.
    pub(crate) fn add_passed(&self, idle: Option<(u64, Unit)>, at: u64, rows: u32, words: &mut Vec<u64>) {
        if !self.soonest().has_passed(at) {
            return;
        }
        for row in (0..rows).filter(|&row| self.ends(row, idle, at).has_passed(at)) {
            if words.is_empty() {
                words.resize((rows as usize).div_ceil(64), 0);
            }
            words[row as usize / 64] |= 1 << (row % 64);
        }
    }

    /// Rows, not ended, whose life had ended at a time.
    pub(crate) fn passed_count(&self, idle: Option<(u64, Unit)>, at: u64) -> u64 {
        if !self.soonest().has_passed(at) {
            return 0;
        }
        (0..self.len).filter(|&row| !self.is_dead(row) && self.ends(row, idle, at).has_passed(at)).count() as u64
    }

    /// Gives spare room of what is kept back.
    pub(super) fn shrink_life(&mut self) {
        if let Some(life) = &mut self.life {
            life.shrink();
        }
    }
}
