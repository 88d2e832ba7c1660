//! The key index of a partition: key hash -> row id, one cache line a lookup as a rule.
//!
//! ```text
//!   chunk, 64 bytes    tags      | t t t t t t t t t t t t |  12 x 1 byte: 8 bits of the hash, 0 where nothing is
//!                      passed    | n |                        entries that found no place here and went on
//!                      spare     | . . . |
//!                      rows      | row id | row id | ...      12 x 4 bytes
//! ```
//!
//! The upper bits of a hash choose the chunk; an entry that finds it full goes to the next one that is not, and those it
//! passes count it, so that a search knows where it may stop. Chunks are filled to 7/8 at most and grow by a half: 6 to
//! 9 bytes an entry. (The shape is that of Facebook's F14, "Open-sourcing F14 for faster, more memory-efficient hash
//! tables", 2019; the number of chunks need not be a power of two here.)
//!
//! Called by `rows`, which knows the keys: the index holds row ids only, and compares keys through the caller's
//! closures. Growth is charged before it happens. Never reads a row itself.

use std::sync::Arc;

use ashlar_base::Result;

use crate::memory::{Account, Charge};
use crate::segment::prefetch;

/// Entries of a chunk.
const PLACES: usize = 12;

/// See the module.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
struct Chunk {
    tags: [u8; PLACES],
    /// Stays where it is once it cannot count further: then searches go on in vain.
    passed: u8,
    spare: [u8; 3],
    rows: [u32; PLACES],
}

const _: () = assert!(size_of::<Chunk>() == 64);

/// See the module.
pub(crate) struct KeyIndex {
    chunks: Vec<Chunk>,
    len: usize,
    charge: Charge,
}

/// Entries that so many chunks hold at most.
fn capacity_of(chunks: usize) -> usize {
    // The only chunk may be full: there is nowhere to go on to.
    if chunks == 1 { PLACES } else { chunks * PLACES * 7 / 8 }
}

/// Chunks for so many entries.
fn chunks_for(entries: usize) -> usize {
    if entries <= PLACES { usize::from(entries > 0) } else { (entries * 8).div_ceil(PLACES * 7) }
}

#[inline]
fn tag_of(hash: u64) -> u8 {
    (hash as u8).max(1)
}

/// A bit at the top of each byte of `word` that is `byte`.
#[inline]
fn equal_bytes(word: u64, byte: u8) -> u64 {
    const LOW: u64 = u64::MAX / 255 * 127;
    let different = word ^ (u64::MAX / 255 * u64::from(byte));
    !(((different & LOW) + LOW) | different | LOW)
}

impl Chunk {
    /// The places that hold a tag, as bits.
    #[inline]
    fn places(&self, tag: u8) -> Places {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = self.tags;
        let first = equal_bytes(u64::from_le_bytes([a, b, c, d, e, f, g, h]), tag);
        let last = equal_bytes(u64::from(u32::from_le_bytes([i, j, k, l])), tag) & 0x8080_8080;
        Places { first, last }
    }

    /// The row ids that it holds.
    fn entries(&self) -> impl Iterator<Item = u32> {
        self.tags.iter().zip(&self.rows).filter(|(tag, _)| **tag != 0).map(|(_, row)| *row)
    }
}

/// Places of a chunk, in order.
struct Places {
    /// The top bit of the byte of each of the first eight.
    first: u64,
    /// And of the other four.
    last: u64,
}

impl Iterator for Places {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.first != 0 {
            let place = self.first.trailing_zeros() as usize / 8;
            self.first &= self.first - 1;
            return Some(place);
        }
        if self.last != 0 {
            let place = 8 + self.last.trailing_zeros() as usize / 8;
            self.last &= self.last - 1;
            return Some(place);
        }
        None
    }
}

impl KeyIndex {
    /// Empty and without memory.
    pub(crate) fn new(account: &Arc<Account>) -> Self {
        Self { chunks: Vec::new(), len: 0, charge: Charge::empty(account) }
    }

    /// Whether there is no entry.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Entries.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The chunk where a search for a hash begins. There are chunks.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        (((hash >> 32) * self.chunks.len() as u64) >> 32) as usize
    }

    #[inline]
    fn after(&self, chunk: usize) -> usize {
        if chunk + 1 == self.chunks.len() { 0 } else { chunk + 1 }
    }

    /// Chunk and place of a row id of this hash that `matches`.
    #[inline]
    fn position(&self, hash: u64, mut matches: impl FnMut(u32) -> bool) -> Option<(usize, usize)> {
        if self.len == 0 {
            return None;
        }
        let tag = tag_of(hash);
        let mut at = self.home(hash);
        // No further than once round, though every chunk was passed.
        for _ in 0..self.chunks.len() {
            let chunk = &self.chunks[at];
            if let Some(place) = chunk.places(tag).find(|&place| matches(chunk.rows[place])) {
                return Some((at, place));
            }
            if chunk.passed == 0 {
                return None;
            }
            at = self.after(at);
        }
        None
    }

    /// A row id of this hash that `matches`.
    #[inline]
    pub(crate) fn find(&self, hash: u64, matches: impl FnMut(u32) -> bool) -> Option<u32> {
        self.position(hash, matches).map(|(at, place)| self.chunks[at].rows[place])
    }

    /// Brings what a search for a hash will look at first nearer.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        if !self.chunks.is_empty() {
            prefetch::line(&self.chunks[self.home(hash)]);
        }
    }

    /// A row id that may be that of this hash: the first with its tag.
    #[inline]
    pub(crate) fn guess(&self, hash: u64) -> Option<u32> {
        let chunk = self.chunks.get(if self.chunks.is_empty() { 0 } else { self.home(hash) })?;
        chunk.places(tag_of(hash)).next().map(|place| chunk.rows[place])
    }

    /// All row ids.
    pub(crate) fn rows(&self) -> impl Iterator<Item = u32> {
        self.chunks.iter().flat_map(Chunk::entries)
    }

    /// The row ids of all hashes from `first` to `last`, each once, and those of some others: only chunks are read in which
    /// one of these hashes may be.
    pub(crate) fn rows_between(&self, first: u64, last: u64) -> impl Iterator<Item = u32> {
        let all = self.chunks.len();
        let (mut start, mut count) = (0, 0);
        if all > 0 {
            let (home, mut end) = (self.home(first), self.home(last));
            (start, count) = (home, end + 1 - home);
            // Behind the last home lie those that found it full.
            while self.chunks[end].passed > 0 && count < all {
                end = self.after(end);
                count += 1;
            }
        }
        let chunks = (start..start + count).map(move |at| &self.chunks[if at < all { at } else { at - all }]);
        chunks.flat_map(Chunk::entries)
    }

    /// Makes room for more entries, or says 53200 and changes nothing.
    pub(crate) fn reserve(&mut self, additional: usize, hash_of: impl Fn(u32) -> u64) -> Result<()> {
        let entries = self.len + additional;
        if entries <= capacity_of(self.chunks.len()) {
            return Ok(());
        }
        let chunks = chunks_for(entries).max(self.chunks.len() + self.chunks.len() / 2);
        // Both exist while the entries move.
        self.charge.try_resize((self.chunks.len() + chunks) * size_of::<Chunk>())?;
        self.rebuild(chunks, hash_of);
        Ok(())
    }

    fn rebuild(&mut self, chunks: usize, hash_of: impl Fn(u32) -> u64) {
        let old = std::mem::replace(&mut self.chunks, vec![Chunk::default(); chunks]);
        self.len = 0;
        for chunk in &old {
            for (_, &row) in chunk.tags.iter().zip(&chunk.rows).filter(|(tag, _)| **tag != 0) {
                self.insert(hash_of(row), row);
            }
        }
        drop(old);
        self.charge.resize(self.chunks.len() * size_of::<Chunk>());
    }

    /// Adds an entry into room that was reserved.
    pub(crate) fn insert(&mut self, hash: u64, row: u32) {
        debug_assert!(self.len < capacity_of(self.chunks.len()), "room is reserved before an entry is added");
        let mut at = self.home(hash);
        loop {
            let chunk = &mut self.chunks[at];
            if let Some(place) = chunk.places(0).next() {
                chunk.tags[place] = tag_of(hash);
                chunk.rows[place] = row;
                self.len += 1;
                return;
            }
            chunk.passed = chunk.passed.saturating_add(1);
            at = self.after(at);
        }
    }

    /// Adds an entry into room that was reserved, unless a row id of this hash `matches`: whether it was added. The chunk that says that
    /// nothing is there has a place for it nearly always.
    #[inline]
    pub(crate) fn insert_unless(&mut self, hash: u64, row: u32, mut matches: impl FnMut(u32) -> bool) -> bool {
        debug_assert!(self.len < capacity_of(self.chunks.len()), "room is reserved before an entry is added");
        let home = self.home(hash);
        let chunk = &mut self.chunks[home];
        if chunk.passed == 0
            && let Some(free) = chunk.places(0).next()
        {
            let tag = tag_of(hash);
            if chunk.places(tag).any(|place| matches(chunk.rows[place])) {
                return false;
            }
            chunk.tags[free] = tag;
            chunk.rows[free] = row;
            self.len += 1;
            return true;
        }
        let is_new = self.find(hash, matches).is_none();
        if is_new {
            self.insert(hash, row);
        }
        is_new
    }

    /// Puts a row id in the place of one of this hash that `matches`.
    pub(crate) fn replace(&mut self, hash: u64, new: u32, matches: impl FnMut(u32) -> bool) -> bool {
        let Some((at, place)) = self.position(hash, matches) else { return false };
        self.chunks[at].rows[place] = new;
        true
    }

    /// Removes all entries, and keeps the room.
    pub(crate) fn clear(&mut self) {
        self.chunks.fill(Chunk::default());
        self.len = 0;
    }

    /// Removes a row id of this hash that `matches`.
    pub(crate) fn remove(&mut self, hash: u64, matches: impl FnMut(u32) -> bool) -> bool {
        let Some((found, place)) = self.position(hash, matches) else { return false };
        self.chunks[found].tags[place] = 0;
        self.len -= 1;
        let mut at = self.home(hash);
        while at != found {
            let chunk = &mut self.chunks[at];
            if chunk.passed < u8::MAX {
                chunk.passed -= 1;
            }
            at = self.after(at);
        }
        true
    }

    /// Gives memory back when the table is far too big for its entries.
    pub(crate) fn shrink(&mut self, hash_of: impl Fn(u32) -> u64) -> bool {
        let chunks = chunks_for(self.len + self.len / 4);
        if self.chunks.len() <= 2 || chunks * 3 > self.chunks.len() {
            return false;
        }
        self.charge.resize((self.chunks.len() + chunks) * size_of::<Chunk>());
        self.rebuild(chunks, hash_of);
        true
    }
}

#[cfg(test)]
mod tests;
