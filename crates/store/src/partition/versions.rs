//! Which rows of a partition a snapshot sees, without timestamps on the rows.
//!
//! Commits append under the partition's lock in the order of their timestamps. So what was committed up to a
//! timestamp is a prefix of the rows, and a log of (commit, end before it) tells the prefix. Deaths are bits; a
//! log of (end timestamp, row) tells who was alive at a timestamp. Both logs hold only what some open snapshot
//! could tell apart: once no snapshot is open, later writes and the compactor empty them. Called by `apply`,
//! `scan` and `compact` of the partition.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use ashlar_base::Timestamp;
use foldhash::fast::RandomState;

use crate::memory::{Account, Charge};
use crate::snapshot::Horizon;

/// A commit's timestamp and what must be kept because of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) timestamp: Timestamp,
    pub(crate) horizon: Horizon,
}

/// The rows up to a place: all of the segments before `sequence`, and `len` rows of that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    pub(crate) sequence: u64,
    pub(crate) len: u32,
}

impl Prefix {
    /// All rows.
    pub(crate) const ALL: Self = Self { sequence: u64::MAX, len: 0 };

    /// Whether a row of a segment belongs to it.
    pub(crate) fn contains(self, sequence: u64, offset: u32) -> bool {
        sequence < self.sequence || (sequence == self.sequence && offset < self.len)
    }

    /// How many of a segment's rows belong to it.
    pub(crate) fn of_segment(self, sequence: u64, len: u32) -> u32 {
        match sequence.cmp(&self.sequence) {
            std::cmp::Ordering::Less => len,
            std::cmp::Ordering::Equal => len.min(self.len),
            std::cmp::Ordering::Greater => 0,
        }
    }
}

/// See the module.
pub(crate) struct Versions {
    /// Commits in order, each with the rows there were before it.
    marks: VecDeque<(Timestamp, Prefix)>,
    /// Ends in order.
    ended: VecDeque<(Timestamp, u32)>,
    /// The same by row.
    ends: HashMap<u32, Timestamp, RandomState>,
    charge: Charge,
}

impl Versions {
    pub(crate) fn new(account: &Arc<Account>) -> Self {
        Self {
            marks: VecDeque::new(),
            ended: VecDeque::new(),
            ends: HashMap::default(),
            charge: Charge::empty(account),
        }
    }

    /// Rows committed at or before a timestamp that is registered or held.
    pub(crate) fn prefix(&self, at: Timestamp) -> Prefix {
        let later = self.marks.partition_point(|(timestamp, _)| *timestamp <= at);
        self.marks.get(later).map_or(Prefix::ALL, |(_, before)| *before)
    }

    /// Before rows are appended: remembers where they start, if a snapshot must not see them.
    pub(crate) fn mark(&mut self, stamp: Stamp, end: (u64, u32)) {
        if stamp.horizon.oldest >= stamp.timestamp {
            return;
        }
        // Snapshots before the last mark find their prefix there or earlier.
        if self.marks.back().is_some_and(|(last, _)| *last == stamp.timestamp || stamp.horizon.newest < *last) {
            return;
        }
        self.marks.push_back((stamp.timestamp, Prefix { sequence: end.0, len: end.1 }));
        self.recharge();
    }

    /// Whether the end of a row must be remembered: a snapshot before it sees the row.
    pub(crate) fn is_seen(&self, stamp: Stamp, sequence: u64, offset: u32) -> bool {
        stamp.horizon.oldest < stamp.timestamp && self.prefix(stamp.horizon.newest).contains(sequence, offset)
    }

    /// Remembers when a row ended.
    pub(crate) fn end(&mut self, timestamp: Timestamp, row: u32) {
        self.ended.push_back((timestamp, row));
        self.ends.insert(row, timestamp);
        self.recharge();
    }

    /// When a dead row ended; `None`: before every snapshot.
    pub(crate) fn end_of(&self, row: u32) -> Option<Timestamp> {
        self.ends.get(&row).copied()
    }

    /// Rows that ended after a timestamp.
    pub(crate) fn ended_after(&self, at: Timestamp) -> impl Iterator<Item = u32> {
        self.ended.iter().rev().take_while(move |(end, _)| *end > at).map(|(_, row)| *row)
    }

    /// Whether a snapshot at a timestamp can see anything that is not the present.
    pub(crate) fn is_present(&self, at: Timestamp) -> bool {
        self.marks.back().is_none_or(|(timestamp, _)| *timestamp <= at)
            && self.ended.back().is_none_or(|(timestamp, _)| *timestamp <= at)
    }

    /// Forgets commits that every snapshot sees.
    pub(crate) fn trim_marks(&mut self, oldest: Timestamp) {
        while self.marks.front().is_some_and(|(timestamp, _)| *timestamp <= oldest) {
            self.marks.pop_front();
        }
        self.shrink();
    }

    /// Forgets the oldest end, if no snapshot sees the row any more; the row leaves the index.
    pub(crate) fn trim_end(&mut self, oldest: Timestamp) -> Option<u32> {
        let &(timestamp, row) = self.ended.front()?;
        if timestamp > oldest {
            return None;
        }
        self.ended.pop_front();
        self.ends.remove(&row);
        if self.ended.is_empty() {
            self.shrink();
        }
        Some(row)
    }

    /// Whether nothing is remembered.
    pub(crate) fn is_empty(&self) -> bool {
        self.marks.is_empty() && self.ended.is_empty()
    }

    /// Whether a snapshot may see some, and not all, of the rows between two places (sequence, rows of it). Marks
    /// ascend by place, as rows are appended at the end.
    pub(crate) fn has_mark_inside(&self, start: (u64, u32), end: (u64, u32)) -> bool {
        let place = |index: usize| self.marks.get(index).map(|(_, before)| (before.sequence, before.len));
        let after = self.marks.partition_point(|(_, before)| (before.sequence, before.len) <= start);
        place(after).is_some_and(|place| place < end)
    }

    /// Rows have other ids from now on.
    pub(crate) fn rename(&mut self, name_of: impl Fn(u32) -> Option<u32>) {
        for (end, row) in &mut self.ended {
            if let Some(new) = name_of(*row) {
                self.ends.remove(row);
                self.ends.insert(new, *end);
                *row = new;
            }
        }
    }

    /// Forgets everything: no row is left that could be told apart.
    pub(crate) fn clear(&mut self) {
        self.marks = VecDeque::new();
        self.ended = VecDeque::new();
        self.ends = HashMap::default();
        self.recharge();
    }

    /// Gives the logs' memory back once they are empty.
    fn shrink(&mut self) {
        if self.marks.is_empty() && self.marks.capacity() > 64 {
            self.marks = VecDeque::new();
        }
        if self.ended.is_empty() && self.ended.capacity() > 64 {
            self.ended = VecDeque::new();
            self.ends = HashMap::default();
        }
        self.recharge();
    }

    /// The logs are charged over the bound too: a full store must be able to delete.
    fn recharge(&mut self) {
        let marks = self.marks.capacity() * size_of::<(Timestamp, Prefix)>();
        let ended = self.ended.capacity() * size_of::<(Timestamp, u32)>();
        // Buckets of 16 bytes and a control byte, 7/8 full at most.
        let ends = (self.ends.capacity() * 8 / 7) * (size_of::<(u32, Timestamp)>() + 1);
        let bytes = marks + ended + ends;
        if bytes as u64 != self.charge.bytes() {
            self.charge.resize(bytes);
        }
    }
}
