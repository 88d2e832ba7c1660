//! Hash -> group id, usually with one cache line per lookup.
//!
//! ```text
//!   chunk, 64 bytes    tags      | t t t t t t t t t t t t |  12 x 1 byte: 8 bits of the hash, 0 where nothing is
//!                      passed    | n |                        whether an entry found no place here and went on
//!                      spare     | . . . |                    with these the tags are 16 bytes, which are compared at once
//!                      ids       | id | id | ...              12 x 4 bytes
//! ```
//!
//! The upper half of a hash chooses the chunk, whatever their number is; an entry that finds it full goes to the next
//! that is not. Chunks are filled to 7/8: 6.1 bytes an entry when full, 7.6 right after growing by a quarter. (The layout
//! is that of Facebook's F14, 2019.) Entries are never removed.

use super::machine::{NEAR, ask_for, equal_bytes};

/// Entries of a chunk.
const PLACES: usize = 12;
/// Where a chunk says whether an entry went on.
const PASSED: usize = PLACES;

/// Beside a directory there is as much again for its keys and states, and others of the same aggregation are searched in turn with it.
const IN_TURN: usize = 16;

/// See the module.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
struct Chunk {
    head: [u8; 16],
    ids: [u32; PLACES],
}

const _: () = assert!(size_of::<Chunk>() == 64 && align_of::<Chunk>() == 64);
// The mark stands behind the tags, within what is compared with them.
const _: () = assert!(PASSED == PLACES && PASSED < 16);

/// See the module.
#[derive(Default)]
pub(crate) struct Directory {
    chunks: Vec<Chunk>,
    len: usize,
}

/// Chunks for so many entries.
fn chunks_for(entries: usize) -> usize {
    if entries <= PLACES { usize::from(entries > 0) } else { (entries * 8).div_ceil(PLACES * 7) }
}

#[inline]
fn tag_of(hash: u64) -> u8 {
    (hash as u8).max(1)
}

impl Chunk {
    /// A bit for each place with this tag.
    #[inline]
    fn places(&self, tag: u8) -> u32 {
        equal_bytes(&self.head, tag) & ((1 << PLACES) - 1)
    }

    #[inline]
    fn is_passed(&self) -> bool {
        self.head[PASSED] != 0
    }
}

impl Directory {
    /// Entries.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Entries that it has room for.
    pub(crate) fn capacity(&self) -> usize {
        match self.chunks.len() {
            chunks @ 0..=1 => chunks * PLACES,
            chunks => chunks * PLACES * 7 / 8,
        }
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Chunk>()
    }

    /// Bytes that one with room for so many entries holds.
    pub(crate) fn bytes_for(entries: usize) -> usize {
        chunks_for(entries) * size_of::<Chunk>()
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

    /// Asks for the memory where a search begins.
    #[inline]
    pub(crate) fn ask_for(&self, hash: u64) {
        ask_for(&self.chunks, self.home(hash));
    }

    /// The id that a search for a hash looks at first, if it looks at one; else any. The memory where it begins had better be there.
    #[inline]
    pub(crate) fn first_look(&self, hash: u64) -> u32 {
        let Some(chunk) = self.chunks.get(self.home(hash)) else { return 0 };
        let place = chunk.places(tag_of(hash)).trailing_zeros() as usize;
        chunk.ids[place.min(PLACES - 1)]
    }

    /// Whether searches at random wait for memory, unless that is asked for. One of many that are searched in turn is far long before it
    /// is large.
    pub(crate) fn is_far(&self) -> bool {
        self.bytes() > NEAR / IN_TURN
    }

    /// The id of an entry of this hash that `matches`; else `id` becomes that of a new one. There is room for it.
    #[inline]
    pub(crate) fn find_or_insert(&mut self, hash: u64, id: u32, mut matches: impl FnMut(u32) -> bool) -> u32 {
        let tag = tag_of(hash);
        let mut at = self.home(hash);
        loop {
            let chunk = &self.chunks[at];
            let mut places = chunk.places(tag);
            while places != 0 {
                let found = chunk.ids[places.trailing_zeros() as usize];
                if matches(found) {
                    return found;
                }
                places &= places - 1;
            }
            if !chunk.is_passed() {
                break;
            }
            at = self.after(at);
        }
        // Chunks that were passed are full: its place is here or behind.
        self.insert_from(at, tag, id);
        id
    }

    /// Whether there is an entry of this hash that `matches`.
    pub(crate) fn has(&self, hash: u64, mut matches: impl FnMut(u32) -> bool) -> bool {
        let tag = tag_of(hash);
        let mut at = self.home(hash);
        while let Some(chunk) = self.chunks.get(at) {
            let mut places = chunk.places(tag);
            while places != 0 {
                if matches(chunk.ids[places.trailing_zeros() as usize]) {
                    return true;
                }
                places &= places - 1;
            }
            if !chunk.is_passed() {
                break;
            }
            at = self.after(at);
        }
        false
    }

    /// Adds an entry. There is room for it.
    #[inline]
    fn insert(&mut self, hash: u64, id: u32) {
        self.insert_from(self.home(hash), tag_of(hash), id);
    }

    /// Adds an entry to this chunk, or to the next one that is not full.
    #[inline]
    fn insert_from(&mut self, mut at: usize, tag: u8, id: u32) {
        loop {
            let chunk = &mut self.chunks[at];
            let free = chunk.places(0);
            if free != 0 {
                let place = free.trailing_zeros() as usize;
                chunk.head[place] = tag;
                chunk.ids[place] = id;
                self.len += 1;
                return;
            }
            chunk.head[PASSED] = 1;
            at = self.after(at);
        }
    }

    /// Makes room for so many entries; `hash_of` gives the hashes of those there are. Both the old and the new one are
    /// held meanwhile.
    pub(crate) fn grow(&mut self, entries: usize, hash_of: impl Fn(u32) -> u64) {
        let mut grown = Self { chunks: vec![Chunk::default(); chunks_for(entries)], len: 0 };
        for chunk in &self.chunks {
            for place in 0..PLACES {
                if chunk.head[place] != 0 {
                    grown.insert(hash_of(chunk.ids[place]), chunk.ids[place]);
                }
            }
        }
        *self = grown;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::hash_table::hash::{Secret, Word};
    use crate::hash_table::scrambled;

    fn room(directory: &mut Directory, keys: &[u64], secret: Secret) {
        if directory.len() == directory.capacity() {
            directory.grow(directory.len() + directory.len() / 4 + 1, |id| keys[id as usize].hash(secret));
        }
    }

    #[test]
    fn ids_are_found_and_made_as_in_a_map() {
        let secret = Secret::random();
        let (mut directory, mut keys) = (Directory::default(), Vec::new());
        let mut twin = std::collections::HashMap::new();
        let count: u64 = if cfg!(miri) { 3_000 } else { 50_000 };
        for number in 0..count {
            let key = number * number % 30_011;
            room(&mut directory, &keys, secret);
            let next = keys.len() as u32;
            let id = directory.find_or_insert(key.hash(secret), next, |id| keys[id as usize] == key);
            if id == next {
                keys.push(key);
            }
            assert_eq!(id, *twin.entry(key).or_insert(next), "{key}");
        }
        assert_eq!(directory.len(), twin.len());
        assert_eq!(directory.bytes(), Directory::bytes_for(directory.capacity()));
    }

    #[test]
    fn what_collides_is_found_all_the_same() {
        // One home and one tag for all.
        let (mut directory, mut keys) = (Directory::default(), Vec::new());
        let count: u32 = if cfg!(miri) { 100 } else { 500 };
        for round in 0..2 {
            for key in 0..count {
                if directory.len() == directory.capacity() {
                    directory.grow(directory.len() * 5 / 4 + 1, |_| 7);
                }
                let next = keys.len() as u32;
                let id = directory.find_or_insert(7, next, |id| keys[id as usize] == key);
                if id == next {
                    keys.push(key);
                }
                assert_eq!(id, key, "{round}");
            }
        }
        assert_eq!(keys.len(), count as usize);
    }

    #[test]
    fn entries_of_one_tag_are_told_apart_by_few_comparisons() {
        let (secret, key) = (Secret::same_tag(), |number: usize| scrambled(number as u64));
        let mut directory = Directory::default();
        directory.grow(if cfg!(miri) { 2_000 } else { 20_000 }, |_| 0);
        // Full, when most chunks have been passed.
        let count = directory.capacity();
        for round in 0..2 {
            for number in 0..count {
                let hash = key(number).hash(secret);
                let id = directory.find_or_insert(hash, number as u32, |id| key(id as usize) == key(number));
                assert_eq!(id as usize, number, "{round}");
            }
            assert_eq!(directory.len(), count, "{round}");
        }
        let tags = directory.chunks.iter().flat_map(|chunk| &chunk.head[..PLACES]).filter(|tag| **tag != 0);
        assert_eq!(tags.collect::<HashSet<_>>().len(), 1);
        // Each place that is looked at is compared, and no other. What is there is in the first chunk as a rule; what is not there is looked for
        // until a chunk has not been passed, which is behind more than two of them. As keys, hashes and chunks are the same in every run, so are
        // these numbers: 8 and 32 on average, 444 at most.
        for (numbers, is_there, on_average) in [(0..count, true, PLACES), (count..2 * count, false, 4 * PLACES)] {
            let (mut all, mut most) = (0, 0);
            for number in numbers {
                let mut compared = 0;
                let found = directory.has(key(number).hash(secret), |id| {
                    compared += 1;
                    key(id as usize) == key(number)
                });
                assert_eq!(found, is_there, "{number}");
                all += compared;
                most = most.max(compared);
            }
            assert!(all <= on_average * count, "{all} comparisons for {count} keys, there: {is_there}");
            assert!(most <= 64 * PLACES, "{most} comparisons for one key, there: {is_there}");
        }
        directory.grow(count + count / 4, |id| key(id as usize).hash(secret));
        let is_found = |number: usize| directory.has(key(number).hash(secret), |id| id as usize == number);
        assert!((0..count).all(is_found));
    }

    #[test]
    fn an_entry_has_six_bytes_in_a_full_one() {
        let entries = 1_000_000;
        let bytes = Directory::bytes_for(entries) as f64 / entries as f64;
        assert!((6.09..6.1).contains(&bytes), "{bytes}");
    }
}
