//! The key index of a partition: key hash -> row id, a control byte and four bytes a bucket.
//!
//! Called by `rows`, which knows the keys: the index holds row ids only, and compares keys through the caller's
//! closures. Growth is charged before it happens. Never reads a row itself.

use std::sync::Arc;

use ashlar_base::Result;
use hashbrown::HashTable;

use crate::memory::{Account, Charge};

/// See the module.
pub(crate) struct KeyIndex {
    table: HashTable<u32>,
    charge: Charge,
}

/// Bytes of a table of so many buckets: a control byte and a row id each, and one more group of control bytes.
fn table_bytes(buckets: usize) -> usize {
    if buckets <= 1 { 0 } else { buckets * 5 + 16 }
}

/// Buckets for so many entries, as hashbrown has it: a power of two, at most 7/8 full.
fn buckets_for(entries: usize) -> usize {
    match entries {
        0 => 0,
        1..4 => 4,
        4..8 => 8,
        8..15 => 16,
        _ => (entries * 8 / 7).next_power_of_two(),
    }
}

/// Entries that a table of so many buckets holds, the places of removed ones included.
fn capacity_of(buckets: usize) -> usize {
    if buckets <= 8 { buckets.saturating_sub(1) } else { buckets / 8 * 7 }
}

impl KeyIndex {
    /// Empty and without memory.
    pub(crate) fn new(account: &Arc<Account>) -> Self {
        Self { table: HashTable::new(), charge: Charge::empty(account) }
    }

    /// Entries.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// A row id of this hash that `matches`.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut matches: impl FnMut(u32) -> bool) -> Option<u32> {
        self.table.find(hash, |&row| matches(row)).copied()
    }

    /// All row ids.
    pub(crate) fn rows(&self) -> impl Iterator<Item = u32> {
        self.table.iter().copied()
    }

    /// Makes room for more entries, or says 53200 and changes nothing.
    pub(crate) fn reserve(&mut self, additional: usize, hash_of: impl Fn(u32) -> u64) -> Result<()> {
        if self.table.len() + additional <= self.table.capacity() {
            return Ok(());
        }
        // Both tables exist while the entries move.
        self.charge.try_resize(self.table.allocation_size() + self.grown_bytes(additional))?;
        self.table.reserve(additional, |&row| hash_of(row));
        self.charge.resize(self.table.allocation_size());
        Ok(())
    }

    /// Bytes of the table that takes this one's place when room for more entries is made; zero where the places of
    /// removed entries are enough, and only have to be swept together.
    fn grown_bytes(&self, additional: usize) -> usize {
        let entries = self.table.len() + additional;
        let capacity = capacity_of(self.table.num_buckets());
        if entries <= capacity / 2 { 0 } else { table_bytes(buckets_for(entries.max(capacity + 1))) }
    }

    /// Adds an entry into room that was reserved.
    pub(crate) fn insert(&mut self, hash: u64, row: u32, hash_of: impl Fn(u32) -> u64) {
        self.table.insert_unique(hash, row, |&row| hash_of(row));
    }

    /// Puts a row id in the place of one of this hash that `matches`.
    pub(crate) fn replace(&mut self, hash: u64, new: u32, mut matches: impl FnMut(u32) -> bool) -> bool {
        match self.table.find_mut(hash, |&row| matches(row)) {
            Some(row) => {
                *row = new;
                true
            }
            None => false,
        }
    }

    /// Removes all entries, and keeps the room.
    pub(crate) fn clear(&mut self) {
        self.table.clear();
    }

    /// Removes a row id of this hash that `matches`.
    pub(crate) fn remove(&mut self, hash: u64, mut matches: impl FnMut(u32) -> bool) -> bool {
        match self.table.find_entry(hash, |&row| matches(row)) {
            Ok(entry) => {
                entry.remove();
                true
            }
            Err(_) => false,
        }
    }

    /// Gives memory back when the table is far too big for its entries.
    pub(crate) fn shrink(&mut self, hash_of: impl Fn(u32) -> u64) -> bool {
        let buckets = self.table.num_buckets();
        if buckets <= 16 || self.table.len() * 4 > buckets {
            return false;
        }
        let entries = self.table.len() + self.table.len() / 4;
        self.charge.resize(self.table.allocation_size() + table_bytes(buckets_for(entries)));
        self.table.shrink_to(entries, |&row| hash_of(row));
        self.charge.resize(self.table.allocation_size());
        true
    }
}

#[cfg(test)]
mod tests;
