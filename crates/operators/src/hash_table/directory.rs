//! Hash -> group id, one cache line a lookup as a rule.
//!
//! ```text
//!   chunk, 64 bytes    tags      | t t t t t t t t t t t t |  12 x 1 byte: 8 bits of the hash, 0 where nothing is
//!                      passed    | n |                        whether an entry found no place here and went on
//!                      spare     | . . . |
//!                      ids       | id | id | ...              12 x 4 bytes
//! ```
//!
//! The upper half of a hash chooses the chunk, whatever their number is; an entry that finds it full goes to the next
//! that is not. Chunks are filled to 7/8: 6.1 bytes an entry when full, 7.6 right after growing by a quarter. (The shape
//! is that of Facebook's F14, 2019.) Entries never go.

/// The id of no entry: there are fewer.
pub(crate) const NOBODY: u32 = u32::MAX;

/// Entries of a chunk.
const PLACES: usize = 12;

/// See the module.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
struct Chunk {
    tags: [u8; PLACES],
    passed: bool,
    spare: [u8; 3],
    ids: [u32; PLACES],
}

const _: () = assert!(size_of::<Chunk>() == 64);

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

/// A bit at the top of each byte of `word` that is `byte`.
#[inline]
fn equal_bytes(word: u64, byte: u8) -> u64 {
    const LOW: u64 = u64::MAX / 255 * 127;
    let different = word ^ (u64::MAX / 255 * u64::from(byte));
    !(((different & LOW) + LOW) | different | LOW)
}

impl Chunk {
    /// The tags as two numbers; the second has four.
    #[inline]
    fn words(&self) -> (u64, u64) {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = self.tags;
        (u64::from_le_bytes([a, b, c, d, e, f, g, h]), u64::from(u32::from_le_bytes([i, j, k, l])))
    }

    /// The first place that is free.
    #[inline]
    fn free(&self) -> Option<usize> {
        let (first, last) = self.words();
        let (first, last) = (equal_bytes(first, 0), equal_bytes(last, 0) & 0x8080_8080);
        match (first, last) {
            (0, 0) => None,
            (0, last) => Some(8 + last.trailing_zeros() as usize / 8),
            (first, _) => Some(first.trailing_zeros() as usize / 8),
        }
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

    /// A number made of where a search begins: whoever adds up many of them waits for all of them at the same time.
    #[inline]
    pub(crate) fn touch(&self, hash: u64) -> u32 {
        match self.chunks.get(self.home(hash)) {
            Some(chunk) => u32::from(chunk.passed),
            None => 0,
        }
    }

    /// The id of the first entry with this tag where a search begins, which is likely to be the one that is looked for;
    /// [`NOBODY`] where there is none. Takes the same way whether there is one or not.
    #[inline]
    pub(crate) fn likely(&self, hash: u64) -> u32 {
        let Some(chunk) = self.chunks.get(self.home(hash)) else { return NOBODY };
        let tag = tag_of(hash);
        let (first, last) = chunk.words();
        let (first, last) = (equal_bytes(first, tag), equal_bytes(last, tag) & 0x8080_8080);
        // 0x80 of the first byte is bit 7 of a number with a bit for each byte.
        let found = u128::from(first) | (u128::from(last) << 64);
        let place = (found.trailing_zeros() / 8) as usize;
        chunk.ids.get(place).copied().unwrap_or(NOBODY)
    }

    /// The id of an entry of this hash that `matches`; else `id` becomes that of a new one. There is room for it.
    #[inline]
    pub(crate) fn find_or_insert(&mut self, hash: u64, id: u32, mut matches: impl FnMut(u32) -> bool) -> u32 {
        let tag = tag_of(hash);
        let mut at = self.home(hash);
        loop {
            let chunk = &self.chunks[at];
            let (first, last) = chunk.words();
            let (mut first, mut last) = (equal_bytes(first, tag), equal_bytes(last, tag) & 0x8080_8080);
            while first != 0 {
                let place = first.trailing_zeros() as usize / 8;
                if matches(chunk.ids[place]) {
                    return chunk.ids[place];
                }
                first &= first - 1;
            }
            while last != 0 {
                let place = 8 + last.trailing_zeros() as usize / 8;
                if matches(chunk.ids[place]) {
                    return chunk.ids[place];
                }
                last &= last - 1;
            }
            if !chunk.passed {
                break;
            }
            at = self.after(at);
        }
        self.insert(hash, id);
        id
    }

    /// Adds an entry. There is room for it.
    #[inline]
    fn insert(&mut self, hash: u64, id: u32) {
        let mut at = self.home(hash);
        loop {
            let chunk = &mut self.chunks[at];
            if let Some(place) = chunk.free() {
                chunk.tags[place] = tag_of(hash);
                chunk.ids[place] = id;
                self.len += 1;
                return;
            }
            chunk.passed = true;
            at = self.after(at);
        }
    }

    /// Makes room for so many entries; `hash_of` gives the hashes of those there are. Both the old and the new one are
    /// held meanwhile.
    pub(crate) fn grow(&mut self, entries: usize, hash_of: impl Fn(u32) -> u64) {
        let mut grown = Self { chunks: vec![Chunk::default(); chunks_for(entries)], len: 0 };
        for chunk in &self.chunks {
            for place in 0..PLACES {
                if chunk.tags[place] != 0 {
                    grown.insert(hash_of(chunk.ids[place]), chunk.ids[place]);
                }
            }
        }
        *self = grown;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash_table::hash::{Secret, Word};

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
        for number in 0..50_000_u64 {
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
        for round in 0..2 {
            for key in 0..500_u32 {
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
        assert_eq!(keys.len(), 500);
    }

    #[test]
    fn an_entry_has_six_bytes_in_a_full_one() {
        let entries = 1_000_000;
        let bytes = Directory::bytes_for(entries) as f64 / entries as f64;
        assert!((6.09..6.1).contains(&bytes), "{bytes}");
    }
}
