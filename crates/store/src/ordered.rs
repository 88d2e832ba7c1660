//! Row ids in an order: what a secondary index of a partition is made of.
//!
//! ```text
//!   leaf     up to 128 entries in order, prefixes and row ids in arrays of their own
//!   fences   the first entry of each leaf, beside each other as in a leaf
//!   entry    8 bytes of prefix, 4 bytes of row id
//!   order    prefix, then what the caller says about the rows' values, then row id
//! ```
//! Called by `partition::indexes`, which makes prefixes that order as values do (or hashes) and compares the rows
//! whose prefixes are equal. Never reads a row. Memory is charged before it is taken. Leaves but the first have their full
//! size from the beginning.

use std::cmp::Ordering;
use std::sync::Arc;

use ashlar_base::Result;

use crate::memory::{Account, Charge};

/// Entries of a leaf: few, so that a search touches few cache lines beside those of the fences, which are used often.
const LEAF_ENTRIES: usize = 128;

/// Bytes of an entry: its prefix and its row id.
const ENTRY_BYTES: usize = size_of::<u64>() + size_of::<u32>();

/// Bytes of a leaf of full size.
const LEAF_BYTES: usize = LEAF_ENTRIES * ENTRY_BYTES;

/// How full leaves are that many sorted entries leave behind: room for some more before they are split.
const LEAF_FILLED: usize = LEAF_ENTRIES * 7 / 8;

/// A prefix and a row id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) prefix: u64,
    pub(crate) row: u32,
}

/// See the module.
pub(crate) struct OrderedRows {
    /// None of them is empty.
    leaves: Vec<Leaf>,
    /// The first entry of each.
    fences: Leaf,
    len: usize,
    /// Bytes that stay charged until the entries that they are for have come.
    reserved: usize,
    charge: Charge,
}

#[derive(Default)]
struct Leaf {
    prefixes: Vec<u64>,
    rows: Vec<u32>,
}

/// Bytes that a leaf takes in the lists of leaves and of fences.
const LISTED_BYTES: usize = size_of::<Leaf>() + ENTRY_BYTES;

/// How far somebody has come who reads all entries while others come and go: what is before this prefix, and so many of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reached {
    pub(crate) prefix: u64,
    pub(crate) entries: usize,
}

impl Reached {
    /// An entry went, which may have been one of those: rather one twice than one not at all.
    pub(crate) fn forget(&mut self, prefix: u64) {
        if self.prefix == prefix {
            self.entries = self.entries.saturating_sub(1);
        }
    }
}

/// A place between entries: a leaf, and how many of its entries are before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    leaf: usize,
    entry: usize,
}

impl Leaf {
    fn with_capacity(entries: usize) -> Self {
        Self { prefixes: Vec::with_capacity(entries), rows: Vec::with_capacity(entries) }
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn entry(&self, index: usize) -> Entry {
        Entry { prefix: self.prefixes[index], row: self.rows[index] }
    }

    /// Whether it has to grow before one more entry: the only leaf does, by doubling.
    fn is_full(&self) -> bool {
        self.len() == self.rows.capacity() || self.len() == self.prefixes.capacity()
    }

    fn grow(&mut self) {
        let more = self.len().max(4).min(LEAF_ENTRIES - self.len());
        self.prefixes.reserve_exact(more);
        self.rows.reserve_exact(more);
    }

    fn insert(&mut self, index: usize, entry: Entry) {
        self.prefixes.insert(index, entry.prefix);
        self.rows.insert(index, entry.row);
    }

    fn set(&mut self, index: usize, entry: Entry) {
        self.prefixes[index] = entry.prefix;
        self.rows[index] = entry.row;
    }

    fn capacity(&self) -> usize {
        self.prefixes.capacity().min(self.rows.capacity())
    }

    /// Has these entries and no others, and room for `capacity` where its own is too small.
    fn refill(&mut self, entries: &[Entry], capacity: usize) {
        self.prefixes.clear();
        self.rows.clear();
        if entries.len() > self.capacity() {
            self.prefixes.reserve_exact(capacity);
            self.rows.reserve_exact(capacity);
        }
        self.prefixes.extend(entries.iter().map(|entry| entry.prefix));
        self.rows.extend(entries.iter().map(|entry| entry.row));
    }

    /// Its entries and others that are in order, in order.
    fn merged(&self, others: &[Entry], order: &impl Fn(Entry, Entry) -> Ordering) -> Vec<Entry> {
        let mut merged = Vec::with_capacity(self.len() + others.len());
        let mut done = 0;
        for &new in others {
            let next = self.partition_point_from(done, &|entry: Entry| order(entry, new).is_lt());
            merged.extend((done..next).map(|at| self.entry(at)));
            merged.push(new);
            done = next;
        }
        merged.extend((done..self.len()).map(|at| self.entry(at)));
        merged
    }

    fn remove(&mut self, index: usize) {
        self.prefixes.remove(index);
        self.rows.remove(index);
    }

    fn bytes(&self) -> usize {
        self.prefixes.capacity() * size_of::<u64>() + self.rows.capacity() * size_of::<u32>()
    }

    /// Entries for which `before` holds; those come first.
    fn partition_point(&self, before: &impl Fn(Entry) -> bool) -> usize {
        self.partition_point_from(0, before)
    }

    /// The same where it is known to hold for so many.
    fn partition_point_from(&self, known: usize, before: &impl Fn(Entry) -> bool) -> usize {
        let (mut low, mut high) = (known, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if before(self.entry(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

impl OrderedRows {
    /// Empty and without memory.
    pub(crate) fn new(account: &Arc<Account>) -> Self {
        Self { leaves: Vec::new(), fences: Leaf::default(), len: 0, reserved: 0, charge: Charge::empty(account) }
    }

    /// Entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes charged.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        self.charge.bytes()
    }

    /// Charges what so many more entries need, before they come: until [`Self::settle`] it is this index's. Where more
    /// leaves have to be split than entries fill, an insert charges the rest over the bound.
    ///
    /// # Errors
    /// 53200 over the memory bound; nothing is changed.
    pub(crate) fn reserve(&mut self, additional: usize) -> Result<()> {
        if additional == 0 {
            return Ok(());
        }
        let in_one = self.len + additional <= LEAF_ENTRIES && self.leaves.len() <= 1;
        let more = if in_one {
            // The old and the new memory of the leaf while it grows.
            (self.len + additional).next_power_of_two().max(4) * ENTRY_BYTES
        } else {
            // A split leaves half of a leaf on either side, and makes the only leaf one of full size.
            (additional.div_ceil(LEAF_ENTRIES / 2) + 2) * LEAF_BYTES
        };
        let list = self.list_bytes(additional.div_ceil(LEAF_ENTRIES / 2) + 1);
        let reserved = self.bytes_now() + more + list;
        if reserved as u64 > self.charge.bytes() {
            self.charge.try_resize(reserved)?;
        }
        self.reserved = self.reserved.max(reserved);
        Ok(())
    }

    /// Gives back what was charged for entries that did not come.
    pub(crate) fn settle(&mut self) {
        self.reserved = 0;
        self.recharge();
    }

    /// Bytes that the lists of leaves and fences grow by, for so many more: by doubling, beside the old ones.
    fn list_bytes(&self, more: usize) -> usize {
        let (needed, capacity) = (self.leaves.len() + more, self.leaves.capacity());
        if needed > capacity { needed.max(2 * capacity).max(4) * LISTED_BYTES } else { 0 }
    }

    /// Charges what is about to be allocated, over the bound too.
    fn take(&mut self, bytes: usize) {
        let bytes = (self.bytes_now() + bytes) as u64;
        if bytes > self.charge.bytes() {
            self.charge.resize(bytes as usize);
        }
    }

    /// Adds an entry. `before` says of an entry of the same prefix whether it comes first.
    pub(crate) fn insert(&mut self, new: Entry, before: impl Fn(u32) -> bool) {
        self.len += 1;
        let place = self.place(&|entry: Entry| comes_before(entry, new.prefix, &before));
        let Place { mut leaf, mut entry } = place;
        if self.leaves.is_empty() {
            self.take(self.list_bytes(1) + 4 * ENTRY_BYTES);
            self.leaves.push(Leaf::with_capacity(4));
            self.fences.insert(0, new);
        }
        // Past the end of all: the last leaf takes it.
        if leaf == self.leaves.len() {
            leaf -= 1;
            entry = self.leaves[leaf].len();
        }
        if self.leaves[leaf].len() == LEAF_ENTRIES {
            self.take(self.list_bytes(1) + LEAF_BYTES);
            (leaf, entry) = self.split(leaf, entry, new);
            self.recharge();
        } else if self.leaves[leaf].is_full() {
            self.take(2 * self.leaves[leaf].bytes());
            self.leaves[leaf].grow();
            self.recharge();
        }
        self.leaves[leaf].insert(entry, new);
        if entry == 0 {
            self.fences.set(leaf, new);
        }
    }

    /// Adds entries that are in order, none of which is there, into room that was reserved. Those that go to one leaf are put
    /// into it together. `order` is the order of the index.
    pub(crate) fn insert_sorted(&mut self, new: &[Entry], order: impl Fn(Entry, Entry) -> Ordering) {
        let mut rest = new;
        while let Some(&first) = rest.first() {
            let leaf = self.fences.partition_point(&|fence: Entry| order(fence, first).is_lt()).saturating_sub(1);
            // No more than two leaves hold; what comes behind the first entry of the next leaf goes there.
            let room = 2 * LEAF_FILLED - self.leaves.get(leaf).map_or(0, Leaf::len);
            let mut count = rest.len().min(room);
            if leaf + 1 < self.fences.len() {
                let next = self.fences.entry(leaf + 1);
                count = rest[..count].partition_point(|entry| order(*entry, next).is_lt()).max(1);
            }
            self.merge_in(leaf, &rest[..count], &order);
            rest = &rest[count..];
        }
    }

    /// Puts entries that are in order into a leaf, of which it makes two where they are too many for one.
    fn merge_in(&mut self, leaf: usize, new: &[Entry], order: &impl Fn(Entry, Entry) -> Ordering) {
        let merged = self.leaves.get(leaf).map_or_else(|| new.to_vec(), |old| old.merged(new, order));
        let kept = if merged.len() > LEAF_ENTRIES { merged.len() / 2 } else { merged.len() };
        let (left, right) = merged.split_at(kept);
        let capacity = if right.is_empty() { kept.next_power_of_two().clamp(4, LEAF_ENTRIES) } else { LEAF_ENTRIES };
        let is_short = self.leaves.get(leaf).is_none_or(|old| old.capacity() < kept);
        let grown = if is_short { capacity * ENTRY_BYTES } else { 0 };
        let added = if right.is_empty() { 0 } else { LEAF_BYTES };
        if grown + added > 0 {
            self.take(self.list_bytes(1) + grown + added);
        }
        if self.leaves.is_empty() {
            self.leaves.push(Leaf::default());
            self.fences.insert(0, left[0]);
        }
        self.leaves[leaf].refill(left, capacity);
        self.fences.set(leaf, left[0]);
        if let Some(&fence) = right.first() {
            let mut behind = Leaf::with_capacity(LEAF_ENTRIES);
            behind.refill(right, LEAF_ENTRIES);
            self.fences.insert(leaf + 1, fence);
            self.leaves.insert(leaf + 1, behind);
        }
        self.len += new.len();
        self.recharge();
    }

    /// Puts what is in some leaves, from the first of them on, into fewer that are fuller. The leaf to go on from; `None`: there are no
    /// more.
    pub(crate) fn pack(&mut self, first: usize, count: usize) -> Option<usize> {
        let end = self.leaves.len().min(first + count);
        let packed = self.leaves.get(first..end).unwrap_or_default();
        let entries: usize = packed.iter().map(Leaf::len).sum();
        let (needed, mut next) = (entries.div_ceil(LEAF_FILLED), end);
        if needed < packed.len() {
            let all = packed.iter().flat_map(|leaf| (0..leaf.len()).map(move |at| leaf.entry(at)));
            let all: Vec<Entry> = all.collect();
            next = first + needed;
            // The first of all may have to grow.
            self.take(LEAF_BYTES);
            for (number, leaf) in (first..next).enumerate() {
                let part = &all[number * entries / needed..(number + 1) * entries / needed];
                self.leaves[leaf].refill(part, LEAF_ENTRIES);
                self.fences.set(leaf, part[0]);
            }
            self.leaves.drain(next..end);
            self.fences.prefixes.drain(next..end);
            self.fences.rows.drain(next..end);
            self.recharge();
        }
        if next < self.leaves.len() {
            return Some(next);
        }
        self.take(self.leaves.len() * LISTED_BYTES);
        self.leaves.shrink_to_fit();
        self.fences.prefixes.shrink_to_fit();
        self.fences.rows.shrink_to_fit();
        self.recharge();
        None
    }

    /// Makes two leaves of one that is full; where the place in it is then, for a new entry. Entries that come in order, as
    /// growing numbers do, leave full leaves behind them.
    fn split(&mut self, leaf: usize, entry: usize, new: Entry) -> (usize, usize) {
        let kept = if entry == LEAF_ENTRIES { LEAF_ENTRIES } else { LEAF_ENTRIES / 2 };
        let mut right = Leaf::with_capacity(LEAF_ENTRIES);
        let left = &mut self.leaves[leaf];
        right.prefixes.extend(left.prefixes.drain(kept..));
        right.rows.extend(left.rows.drain(kept..));
        let fence = if right.len() == 0 { new } else { right.entry(0) };
        self.fences.insert(leaf + 1, fence);
        self.leaves.insert(leaf + 1, right);
        if entry > kept || kept == LEAF_ENTRIES { (leaf + 1, entry - kept) } else { (leaf, entry) }
    }

    /// Removes an entry. `before` says of an entry of the same prefix whether it comes before this one. False where
    /// there is none.
    pub(crate) fn remove(&mut self, old: Entry, before: impl Fn(u32) -> bool) -> bool {
        let place = self.place(&|entry: Entry| comes_before(entry, old.prefix, &before));
        let Some(leaf) = self.leaves.get_mut(place.leaf) else { return false };
        if place.entry == leaf.len() || leaf.entry(place.entry) != old {
            return false;
        }
        leaf.remove(place.entry);
        let first = (leaf.len() > 0).then(|| leaf.entry(0));
        self.len -= 1;
        let leaves = self.leaves.len();
        match first {
            Some(first) => {
                self.fences.set(place.leaf, first);
                self.merge(place.leaf);
            }
            None => {
                self.leaves.remove(place.leaf);
                self.fences.remove(place.leaf);
            }
        }
        if self.leaves.len() < leaves {
            self.recharge();
        }
        true
    }

    /// Puts a leaf that is nearly empty together with a neighbour that has room, so that removals give memory back.
    fn merge(&mut self, leaf: usize) {
        if self.leaves[leaf].len() > LEAF_ENTRIES / 8 {
            return;
        }
        for left in leaf.saturating_sub(1)..=leaf {
            let Some(right) = self.leaves.get(left + 1) else { return };
            if self.leaves[left].len() + right.len() <= LEAF_ENTRIES / 2 {
                let right = self.leaves.remove(left + 1);
                self.fences.remove(left + 1);
                let left = &mut self.leaves[left];
                // Only the first leaf may have to grow for it, by no more than the other gives back.
                left.prefixes.extend(right.prefixes);
                left.rows.extend(right.rows);
                return;
            }
        }
    }

    /// Calls `f` with the next entries in order, so many of them: behind those of smaller prefixes and the first of this one. The
    /// place to go on from, if there are more.
    pub(crate) fn visit_from(&self, from: Reached, count: usize, mut f: impl FnMut(u32)) -> Option<Reached> {
        let start = self.place(&|entry: Entry| entry.prefix < from.prefix);
        let (mut passed, mut visited, mut at) = (from.entries, 0, from);
        for (leaf, index) in self.leaves.iter().zip(0..).skip(start.leaf) {
            let first = if index == start.leaf { start.entry } else { 0 };
            if first + passed >= leaf.len() {
                passed -= leaf.len() - first;
                continue;
            }
            for entry in (first + passed..leaf.len()).map(|place| leaf.entry(place)) {
                if entry.prefix != at.prefix {
                    at = Reached { prefix: entry.prefix, entries: 0 };
                }
                if visited == count {
                    return Some(at);
                }
                f(entry.row);
                visited += 1;
                at.entries += 1;
            }
            passed = 0;
        }
        None
    }

    /// Removes all entries, and gives the memory back.
    pub(crate) fn clear(&mut self) {
        self.leaves = Vec::new();
        self.fences = Leaf::default();
        self.len = 0;
        self.recharge();
    }

    /// Row ids from the first entry for which `before` does not hold to the first for which `within` does not, in
    /// order. Both must hold for the first entries of the order and for no later one.
    pub(crate) fn range(
        &self,
        before: impl Fn(Entry) -> bool,
        within: impl Fn(Entry) -> bool,
    ) -> impl DoubleEndedIterator<Item = u32> {
        let (start, end) = self.span(before, within);
        let last = if end.entry == 0 { end.leaf } else { end.leaf + 1 };
        let leaves = self.leaves.get(start.leaf..last.max(start.leaf)).unwrap_or_default();
        leaves.iter().enumerate().flat_map(move |(place, leaf)| {
            let index = start.leaf + place;
            let first = if index == start.leaf { start.entry } else { 0 };
            let past = if index == end.leaf { end.entry } else { leaf.len() };
            leaf.rows[first..past.max(first)].iter().copied()
        })
    }

    /// How many rows [`Self::range`] would give.
    pub(crate) fn count(&self, before: impl Fn(Entry) -> bool, within: impl Fn(Entry) -> bool) -> usize {
        let (start, end) = self.span(before, within);
        let rank = |place: Place| self.leaves[..place.leaf].iter().map(Leaf::len).sum::<usize>() + place.entry;
        if start.leaf == end.leaf {
            return end.entry.saturating_sub(start.entry);
        }
        rank(end).saturating_sub(rank(start))
    }

    /// The places of the first entries for which `before` and `within` do not hold.
    fn span(&self, before: impl Fn(Entry) -> bool, within: impl Fn(Entry) -> bool) -> (Place, Place) {
        let start = self.place(&before);
        // Mostly nothing is within, and one look tells.
        let first = self.leaves.get(start.leaf).map(|leaf| leaf.entry(start.entry));
        (start, if first.is_some_and(&within) { self.place(&within) } else { start })
    }

    /// The place of the first entry for which `before` does not hold.
    fn place(&self, before: &impl Fn(Entry) -> bool) -> Place {
        // Leaves whose first entry comes before; the last of them may have others that do not.
        let Some(leaf) = self.fences.partition_point(before).checked_sub(1) else { return Place { leaf: 0, entry: 0 } };
        let entry = self.leaves[leaf].partition_point(before);
        if entry == self.leaves[leaf].len() { Place { leaf: leaf + 1, entry: 0 } } else { Place { leaf, entry } }
    }

    fn bytes_now(&self) -> usize {
        let leaves = self.leaves.len();
        let full = leaves.saturating_sub(1) * LEAF_BYTES + self.leaves.first().map_or(0, Leaf::bytes);
        full + self.leaves.capacity() * size_of::<Leaf>() + self.fences.bytes()
    }

    /// What there is, or what was reserved where that is more.
    fn recharge(&mut self) {
        let bytes = self.bytes_now().max(self.reserved);
        if bytes as u64 != self.charge.bytes() {
            self.charge.resize(bytes);
        }
    }
}

fn comes_before(entry: Entry, prefix: u64, before: &impl Fn(u32) -> bool) -> bool {
    match entry.prefix.cmp(&prefix) {
        Ordering::Less => true,
        Ordering::Equal => before(entry.row),
        Ordering::Greater => false,
    }
}

#[cfg(test)]
mod tests;
