//! Words -> group ids, with the words beside the ids: one cache line per lookup as a rule, and nothing else to look at.
//!
//! ```text
//!   line, 64 bytes    words    | w w w w w w w . |    7 x 4 bytes and as much that is not used, so that eight are compared at once;
//!                              | w w w w w |          or 5 x 8 bytes
//!                     ids      | id | id | ...        7 or 5 x 4 bytes
//!                     head     | n |                  how many there are, and whether an entry found no place here and went on
//! ```
//!
//! The upper half of a hash chooses the line, whatever their number is; an entry that finds it full goes to the next that is not. Lines are
//! filled to 3/4, since fewer places overflow sooner than the twelve of a directory: 12.2 bytes an entry of 32 bits when full, 17.1 of 64. A table that grows reads its lines in order, and writes the new ones
//! nearly so, since a hash chooses among more lines as it has among fewer. Entries are never removed.

use super::hash::{Secret, Word};
use super::machine::ask_for;

/// In the head: an entry went on.
const PASSED: u32 = 1 << 31;

/// See the module. `LANES` are compared, of which the first `PLACES` have ids.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line<W, const LANES: usize, const PLACES: usize> {
    words: [W; LANES],
    ids: [u32; PLACES],
    head: u32,
}

const _: () = assert!(size_of::<Line<u32, 8, 7>>() == 64 && size_of::<Line<u64, 5, 5>>() == 64);

/// See the module.
pub(crate) struct Words<W, const LANES: usize, const PLACES: usize> {
    lines: Vec<Line<W, LANES, PLACES>>,
}

/// Of 32 bits.
pub(crate) type Words32 = Words<u32, 8, 7>;
/// Of 64 bits.
pub(crate) type Words64 = Words<u64, 5, 5>;

impl<W, const LANES: usize, const PLACES: usize> Default for Words<W, LANES, PLACES> {
    fn default() -> Self {
        Self { lines: Vec::new() }
    }
}

impl<W: Word, const LANES: usize, const PLACES: usize> Line<W, LANES, PLACES> {
    fn empty() -> Self {
        Self { words: [W::default(); LANES], ids: [0; PLACES], head: 0 }
    }

    #[inline]
    fn count(&self) -> usize {
        (self.head & !PASSED) as usize
    }

    #[inline]
    fn is_passed(&self) -> bool {
        self.head & PASSED != 0
    }

    /// The id of a word that is here.
    #[inline]
    fn find(&self, word: W) -> Option<u32> {
        let places = word.places_in(&self.words) & ((1 << self.count()) - 1);
        self.ids.get(places.trailing_zeros() as usize).copied()
    }
}

impl<W: Word, const LANES: usize, const PLACES: usize> Words<W, LANES, PLACES> {
    /// Lines for so many entries.
    fn lines_for(entries: usize) -> usize {
        if entries <= PLACES { usize::from(entries > 0) } else { (entries * 4).div_ceil(PLACES * 3) }
    }

    /// Entries that it has room for.
    pub(crate) fn capacity(&self) -> usize {
        match self.lines.len() {
            lines @ 0..=1 => lines * PLACES,
            lines => lines * PLACES * 3 / 4,
        }
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.lines.capacity() * size_of::<Line<W, LANES, PLACES>>()
    }

    /// Bytes that one with room for so many entries holds.
    pub(crate) fn bytes_for(entries: usize) -> usize {
        Self::lines_for(entries) * size_of::<Line<W, LANES, PLACES>>()
    }

    /// The line where a search for a hash begins. There are lines.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        (((hash >> 32) * self.lines.len() as u64) >> 32) as usize
    }

    #[inline]
    fn after(&self, line: usize) -> usize {
        if line + 1 == self.lines.len() { 0 } else { line + 1 }
    }

    /// Asks for the memory where a search begins.
    #[inline]
    pub(crate) fn ask_for(&self, hash: u64) {
        ask_for(&self.lines, self.home(hash));
    }

    /// The id of a word of this hash; of one that is not there `id`, which it has from now on. There is room for it.
    #[inline]
    pub(crate) fn find_or_insert(&mut self, hash: u64, word: W, id: u32) -> u32 {
        let mut at = self.home(hash);
        loop {
            let line = &self.lines[at];
            if let Some(found) = line.find(word) {
                return found;
            }
            if !line.is_passed() {
                break;
            }
            at = self.after(at);
        }
        // Lines that were passed are full: its place is here or behind.
        self.insert_from(at, word, id);
        id
    }

    /// Whether a word of this hash is there.
    pub(crate) fn has(&self, hash: u64, word: W) -> bool {
        let mut at = self.home(hash);
        while let Some(line) = self.lines.get(at) {
            if line.find(word).is_some() {
                return true;
            }
            if !line.is_passed() {
                break;
            }
            at = self.after(at);
        }
        false
    }

    /// Adds an entry to this line, or to the next one that is not full.
    #[inline]
    fn insert_from(&mut self, mut at: usize, word: W, id: u32) {
        loop {
            let line = &mut self.lines[at];
            let place = line.count();
            if place < PLACES {
                line.words[place] = word;
                line.ids[place] = id;
                line.head += 1;
                return;
            }
            line.head |= PASSED;
            at = self.after(at);
        }
    }

    /// Makes room for so many entries. Both the old and the new ones are held meanwhile.
    pub(crate) fn grow(&mut self, entries: usize, secret: Secret) {
        let mut grown = Self { lines: vec![Line::empty(); Self::lines_for(entries)] };
        for line in &self.lines {
            for (word, id) in line.words.iter().zip(&line.ids).take(line.count()) {
                grown.insert_from(grown.home(word.hash(secret)), *word, *id);
            }
        }
        *self = grown;
    }

    /// The words of ids below `ids`, in their order; where none has an id, any.
    pub(crate) fn in_order(&self, ids: usize) -> Vec<W> {
        let mut words = vec![W::default(); ids];
        for line in &self.lines {
            for (word, id) in line.words.iter().zip(&line.ids).take(line.count()) {
                words[*id as usize] = *word;
            }
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::hash_table::scrambled;

    /// Words that a table finds and makes ids for, as a map does; by hashes of this secret.
    fn as_a_map<W: Word + std::hash::Hash + std::fmt::Debug, const LANES: usize, const PLACES: usize>(
        secret: Secret,
        words: impl Iterator<Item = W>,
    ) {
        let mut table = Words::<W, LANES, PLACES>::default();
        let mut twin: HashMap<W, u32> = HashMap::new();
        for word in words {
            let next = twin.len() as u32;
            if twin.len() == table.capacity() {
                table.grow(twin.len() + twin.len() / 4 + 1, secret);
                assert_eq!(table.bytes(), Words::<W, LANES, PLACES>::bytes_for(table.capacity()));
            }
            let hash = word.hash(secret);
            assert_eq!(table.has(hash, word), twin.contains_key(&word), "{word:?}");
            let id = table.find_or_insert(hash, word, next);
            assert_eq!(id, *twin.entry(word).or_insert(next), "{word:?}");
        }
        let words = table.in_order(twin.len());
        assert!(twin.iter().all(|(word, id)| words[*id as usize] == *word));
    }

    #[test]
    fn ids_are_found_and_made_as_in_a_map() {
        let count: u64 = if cfg!(miri) { 3_000 } else { 50_000 };
        // What is there once and again, zero among them, and all bits.
        let numbers = || (0..count).map(|number| number * number % 30_011);
        as_a_map::<u32, 8, 7>(Secret::random(), numbers().map(|number| number as u32));
        as_a_map::<u32, 8, 7>(Secret::random(), numbers().map(|number| u32::MAX - number as u32));
        as_a_map::<u64, 5, 5>(Secret::random(), numbers());
        as_a_map::<u64, 5, 5>(Secret::random(), (0..count).map(|number| u64::MAX - scrambled(number) % 9_999));
    }

    #[test]
    fn what_collides_is_found_all_the_same() {
        let count: u64 = if cfg!(miri) { 60 } else { 700 };
        // One hash for all, and hashes of which the lowest bits are the same.
        for secret in [Secret::colliding(), Secret::same_tag()] {
            as_a_map::<u32, 8, 7>(secret, (0..2 * count).map(|number| (number % count) as u32));
            as_a_map::<u64, 5, 5>(secret, (0..2 * count).map(|number| number % count));
        }
    }

    #[test]
    fn a_full_one_has_few_bytes_an_entry() {
        let entries = 1_000_000;
        let bytes = |bytes: usize| bytes as f64 / entries as f64;
        assert!((12.18..12.20).contains(&bytes(Words32::bytes_for(entries))));
        assert!((17.06..17.07).contains(&bytes(Words64::bytes_for(entries))));
    }
}
