//! Words -> ids of groups or numbers of rows, beside the words: one cache line per lookup as a rule, and nothing else to look at.
//!
//! ```text
//!   line, 64 bytes    words    | w w w w w w w . |    7 x 4 bytes and as much that is not used, so that eight are compared at once;
//!                              | w w w w w |          or 5 x 8 bytes, or 3 x 16
//!                     ids      | id | id | ...        7, 5 or 3 x 4 bytes
//!                     head     | n |                  how many there are, which of them are marked, and whether an entry found no
//!                                                     place here and went on
//! ```
//!
//! The upper half of a hash chooses the line, whatever their number is; an entry that finds it full goes to the next that is not. Lines are
//! filled to 3/4, since fewer places overflow sooner than the twelve of a directory: 12.2 bytes an entry of 32 bits when full, 17.1 of 64, 28.4 of 128. A table that grows reads its lines in order, and writes the new ones
//! nearly so, since a hash chooses among more lines as it has among fewer. Entries are never removed.

use super::hash::{Secret, Word};
use super::machine::ask_for;

/// In the head: how many there are.
const COUNT: u32 = 0xFF;
/// The mark of the first entry; those of the others are above it.
const MARK: u32 = 1 << 8;
/// An entry went on.
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
const _: () = assert!(size_of::<Line<u128, 3, 3>>() == 64);

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
        (self.head & COUNT) as usize
    }

    #[inline]
    fn is_passed(&self) -> bool {
        self.head & PASSED != 0
    }

    /// A bit for each place of a word that is here: one, or none.
    #[inline]
    fn places_of(&self, word: W) -> u32 {
        word.places_in(&self.words) & ((1 << self.count()) - 1)
    }

    /// The first of these places; a place in any case.
    #[inline]
    fn first(places: u32) -> usize {
        // The last place is behind those where the word is.
        (places | 1 << (PLACES - 1)).trailing_zeros() as usize
    }

    /// The place of a word that is here.
    #[inline]
    fn place_of(&self, word: W) -> Option<usize> {
        let places = self.places_of(word);
        (places != 0).then(|| Self::first(places))
    }

    #[inline]
    fn is_marked(&self, place: usize) -> bool {
        self.head & (MARK << place) != 0
    }

    /// What is at its places.
    fn entries(&self) -> impl Iterator<Item = Entry<W>> {
        let each = self.words.iter().zip(&self.ids).enumerate().take(self.count());
        each.map(|(place, (word, id))| Entry { word: *word, id: *id, is_marked: self.is_marked(place) })
    }
}

/// A word with what is beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<W> {
    pub(crate) word: W,
    pub(crate) id: u32,
    /// What a mark means is up to whoever has set it.
    pub(crate) is_marked: bool,
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

    /// Entries.
    pub(crate) fn len(&self) -> usize {
        self.lines.iter().map(Line::count).sum()
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.lines.capacity() * size_of::<Line<W, LANES, PLACES>>()
    }

    /// Bytes that one with room for so many entries holds.
    pub(crate) fn bytes_for(entries: usize) -> usize {
        Self::lines_for(entries) * size_of::<Line<W, LANES, PLACES>>()
    }

    /// One with room for so many entries.
    pub(crate) fn with_room(entries: usize) -> Self {
        Self { lines: vec![Line::empty(); Self::lines_for(entries)] }
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
            if let Some(place) = line.place_of(word) {
                return line.ids[place];
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

    /// An id, and whether it is that of a word of this hash, and the word is there.
    #[inline]
    pub(crate) fn look_up(&self, hash: u64, word: W) -> (u32, bool) {
        self.search(hash, word, |line, place| line.ids[place])
    }

    /// The same with whether the word is marked, which would cost those who do not ask.
    #[inline]
    pub(crate) fn look_up_marked(&self, hash: u64, word: W) -> ((u32, bool), bool) {
        self.search(hash, word, |line, place| (line.ids[place], line.is_marked(place)))
    }

    #[inline]
    fn search<T: Default>(&self, hash: u64, word: W, see: impl Fn(&Line<W, LANES, PLACES>, usize) -> T) -> (T, bool) {
        let mut at = self.home(hash);
        while let Some(line) = self.lines.get(at) {
            // In this order: that a word is there is the rule, and whether a line was passed nobody can guess.
            if let Some(place) = line.place_of(word) {
                return (see(line, place), true);
            }
            if !line.is_passed() {
                break;
            }
            at = self.after(at);
        }
        (T::default(), false)
    }

    /// The same as [`Self::look_up`] where many words are not there: it takes the same way for those and for others, since nobody can guess which they are. A
    /// little slower where all are there.
    #[inline]
    pub(crate) fn look_up_rare(&self, hash: u64, word: W) -> (u32, bool) {
        let mut at = self.home(hash);
        while let Some(line) = self.lines.get(at) {
            let places = line.places_of(word);
            // One decision, that is nearly always the same: hidden from the compiler, which would make two of it, neither of which can be guessed.
            let ends_here = !line.head & PASSED;
            if std::hint::black_box(places | ends_here) != 0 {
                return (line.ids[Line::<W, LANES, PLACES>::first(places)], places != 0);
            }
            at = self.after(at);
        }
        (0, false)
    }

    /// Whether a word of this hash is there.
    pub(crate) fn has(&self, hash: u64, word: W) -> bool {
        self.look_up(hash, word).1
    }

    /// The id of a word of this hash, to be changed, and whether it is marked; `None` where the word is not there.
    pub(crate) fn id_of(&mut self, hash: u64, word: W) -> Option<(&mut u32, bool)> {
        let mut at = self.home(hash);
        while let Some(line) = self.lines.get(at) {
            if let Some(place) = line.place_of(word) {
                let is_marked = line.is_marked(place);
                return Some((&mut self.lines[at].ids[place], is_marked));
            }
            if !line.is_passed() {
                break;
            }
            at = self.after(at);
        }
        None
    }

    /// Adds a word of this hash that is not there. There is room for it.
    #[inline]
    pub(crate) fn add(&mut self, hash: u64, entry: Entry<W>) {
        let (line, place) = self.insert_from(self.home(hash), entry.word, entry.id);
        if entry.is_marked {
            self.lines[line].head |= MARK << place;
        }
    }

    /// Adds an entry to this line, or to the next one that is not full; where it is.
    #[inline]
    fn insert_from(&mut self, mut at: usize, word: W, id: u32) -> (usize, usize) {
        loop {
            let line = &mut self.lines[at];
            let place = line.count();
            if place < PLACES {
                line.words[place] = word;
                line.ids[place] = id;
                line.head += 1;
                return (at, place);
            }
            line.head |= PASSED;
            at = self.after(at);
        }
    }

    /// Makes room for so many entries. Both the old and the new ones are held meanwhile.
    pub(crate) fn grow(&mut self, entries: usize, secret: Secret) {
        let mut grown = Self::with_room(entries);
        for entry in self.lines.iter().flat_map(Line::entries) {
            grown.add(entry.word.hash(secret), entry);
        }
        *self = grown;
    }

    /// All entries from a place on, and the place behind each. Places follow each other in the order of this.
    pub(crate) fn entries(&self, place: usize) -> impl Iterator<Item = (usize, Entry<W>)> {
        let (first, before) = (place / PLACES, place % PLACES);
        let lines = self.lines.iter().enumerate().skip(first);
        lines.flat_map(move |(at, line)| {
            let before = if at == first { before } else { 0 };
            (at * PLACES + 1..).zip(line.entries()).skip(before)
        })
    }

    /// Ids of all entries, in their order, to be changed.
    pub(crate) fn ids(&mut self) -> impl Iterator<Item = &mut u32> {
        self.lines.iter_mut().flat_map(|line| {
            let count = line.count();
            &mut line.ids[..count]
        })
    }

    /// The words of ids below `ids`, in their order; where none has an id, any.
    pub(crate) fn in_order(&self, ids: usize) -> Vec<W> {
        let mut words = vec![W::default(); ids];
        for entry in self.lines.iter().flat_map(Line::entries) {
            words[entry.id as usize] = entry.word;
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
            let rare = table.look_up_rare(hash, word);
            assert_eq!(rare.1.then_some(rare.0), twin.get(&word).copied(), "{word:?}");
            let id = table.find_or_insert(hash, word, next);
            assert_eq!(id, *twin.entry(word).or_insert(next), "{word:?}");
        }
        let words = table.in_order(twin.len());
        assert!(twin.iter().all(|(word, id)| words[*id as usize] == *word));
        // Made anew, with marks and other ids, it is found again, from any place on.
        let mut made = Words::<W, LANES, PLACES>::with_room(words.len());
        for (word, id) in words.iter().zip(0..) {
            made.add(Word::hash(*word, secret), Entry { word: *word, id, is_marked: id % 3 == 1 });
        }
        assert_eq!(made.len(), words.len());
        let entries: Vec<(usize, Entry<W>)> = made.entries(0).collect();
        let all =
            entries.iter().all(|(_, entry)| twin[&entry.word] == entry.id && entry.is_marked == (entry.id % 3 == 1));
        assert!(all && entries.len() == words.len());
        for after in [0, 1, entries.len() / 2, entries.len() - 1] {
            assert_eq!(made.entries(entries[after].0).next(), entries.get(after + 1).copied());
        }
        made.ids().for_each(|id| *id += 1);
        for (word, id) in &twin {
            let hash = Word::hash(*word, secret);
            let is_marked = id % 3 == 1;
            assert_eq!(made.look_up(hash, *word), (id + 1, true));
            assert_eq!(made.look_up_marked(hash, *word), ((id + 1, is_marked), true));
            assert_eq!(made.id_of(hash, *word), Some((&mut (id + 1), is_marked)));
        }
        assert!(Words::<W, LANES, PLACES>::default().id_of(0, W::default()).is_none());
    }

    #[test]
    fn ids_are_found_and_made_as_in_a_map() {
        let count: u64 = if cfg!(miri) { 3_000 } else { 50_000 };
        // What is there once and again, zero among them, and all bits.
        let numbers = || (0..count).map(|number| number * number % 30_011);
        as_a_map::<u32, 8, 7>(Secret::random(), numbers().map(|number| number as u32));
        as_a_map::<u32, 8, 7>(Secret::random(), numbers().map(|number| u32::MAX - number as u32));
        as_a_map::<u64, 5, 5>(Secret::random(), numbers());
        as_a_map::<u128, 3, 3>(
            Secret::random(),
            numbers().map(|number| u128::from(number) << 64 | u128::from(number % 3)),
        );
        as_a_map::<u64, 5, 5>(Secret::random(), (0..count).map(|number| u64::MAX - scrambled(number) % 9_999));
    }

    #[test]
    fn what_collides_is_found_all_the_same() {
        let count: u64 = if cfg!(miri) { 60 } else { 700 };
        // One hash for all, and hashes of which the lowest bits are the same.
        for secret in [Secret::colliding(), Secret::same_tag()] {
            as_a_map::<u32, 8, 7>(secret, (0..2 * count).map(|number| (number % count) as u32));
            as_a_map::<u64, 5, 5>(secret, (0..2 * count).map(|number| number % count));
            as_a_map::<u128, 3, 3>(secret, (0..2 * count).map(|number| u128::from(number % count)));
        }
    }

    #[test]
    fn a_full_one_has_few_bytes_an_entry() {
        let entries = 1_000_000;
        let bytes = |bytes: usize| bytes as f64 / entries as f64;
        assert!((12.18..12.20).contains(&bytes(Words32::bytes_for(entries))));
        assert!((17.06..17.07).contains(&bytes(Words64::bytes_for(entries))));
        assert!((28.44..28.45).contains(&bytes(Words::<u128, 3, 3>::bytes_for(entries))));
    }
}
