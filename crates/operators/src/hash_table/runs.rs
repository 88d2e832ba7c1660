//! Words -> rows: the number of a row beside its word, or where the rows of a word lie side by side.
//!
//! ```text
//!   words     | w | row | w | place * | w | row | ...      lines of words, as in `words`; * marks a word that several rows have
//!                              |
//!   rows      ... | 3 | row | row | row | 2 | row | row | ...        4 bytes each: how many, and they
//! ```
//!
//! A word that is there once is found with its row in one line of memory; the rows of others are in the second one as a rule. A row takes no
//! more bytes than an entry of `words`, and 4 and its share of an entry where it has the word of many others. Made of all rows at once: they are
//! put into lines as if no word were there twice, and counted from the first one on that is; then there are as many lines as words ask for.

use super::hash::Word;
use super::machine::ask_for;
use super::words::{Entry, Words};

/// See the module.
pub(crate) struct Runs<W, const LANES: usize, const PLACES: usize> {
    words: Words<W, LANES, PLACES>,
    rows: Vec<u32>,
}

impl<W: Word, const LANES: usize, const PLACES: usize> Runs<W, LANES, PLACES> {
    /// Bytes that a table of so many rows holds, at most.
    pub(crate) fn bytes_for(rows: usize) -> usize {
        // A word that two rows have takes three numbers and an entry, which are less than two entries, but for lines that are not full.
        Words::<W, LANES, PLACES>::bytes_for(rows) + if rows > 1 { 64 } else { 0 }
    }

    /// Bytes that are held beside it while it is made.
    pub(crate) fn bytes_beside(rows: usize) -> usize {
        Words::<W, LANES, PLACES>::bytes_for(rows)
    }

    /// Of words and their rows where each word is there once, with room for so many; `None` where one is there twice.
    pub(crate) fn once(room: usize, pairs: impl Iterator<Item = (W, u32)>, hash: impl Fn(W) -> u64) -> Option<Self> {
        let mut words = Words::with_room(room);
        for (word, row) in pairs {
            if words.find_or_insert(hash(word), word, row) != row {
                return None;
            }
        }
        Some(Self { words, rows: Vec::new() })
    }

    /// Of so many words and their rows. `hash` gives the hash of a word.
    pub(crate) fn new(
        count: usize,
        mut pairs: impl Iterator<Item = (W, u32)> + Clone,
        hash: impl Fn(W) -> u64,
    ) -> Self {
        let all = pairs.clone();
        let mut words = Words::with_room(count);
        let twice = pairs.find(|(word, row)| words.find_or_insert(hash(*word), *word, *row) != *row);
        let Some(twice) = twice else { return Self { words, rows: Vec::new() } };
        // From here on ids are how many rows a word has.
        words.ids().for_each(|id| *id = 1);
        for (word, _) in std::iter::once(twice).chain(pairs) {
            match words.id_of(hash(word), word) {
                Some((count, _)) => *count += 1,
                None => words.add(hash(word), Entry { word, id: 1, is_marked: false }),
            }
        }
        let mut fitting = Words::with_room(words.len());
        let mut room = 0;
        for (_, entry) in words.entries(0) {
            let is_marked = entry.id > 1;
            // Fewer than 2^32: of that many rows in one table, since hashes divide words among tables, nearly all have one word.
            fitting.add(hash(entry.word), Entry { word: entry.word, id: room as u32, is_marked });
            room += if is_marked { entry.id as usize + 1 } else { 0 };
        }
        drop(words);
        let mut rows = vec![0_u32; room];
        for (word, row) in all {
            match fitting.id_of(hash(word), word) {
                Some((place, true)) => {
                    let place = *place as usize;
                    rows[place] += 1;
                    let at = place + rows[place] as usize;
                    rows[at] = row;
                }
                Some((id, false)) => *id = row,
                None => {}
            }
        }
        Self { words: fitting, rows }
    }

    /// Whether each word is there once.
    pub(crate) fn is_once(&self) -> bool {
        self.rows.is_empty()
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.words.bytes() + self.rows.capacity() * size_of::<u32>()
    }

    /// Asks for the memory where a search for a hash begins.
    #[inline]
    pub(crate) fn ask_for(&self, hash: u64) {
        self.words.ask_for(hash);
    }

    /// Asks for the memory of the rows of a marked word.
    #[inline]
    pub(crate) fn ask_for_rows(&self, id: u32) {
        ask_for(&self.rows, id as usize);
    }

    /// A row, and whether it is that of a word of this hash, and the word is there: where each is there once.
    #[inline]
    pub(crate) fn look_up_once(&self, hash: u64, word: W) -> (u32, bool) {
        self.words.look_up(hash, word)
    }

    /// The same where many words are not there.
    #[inline]
    pub(crate) fn look_up_rare(&self, hash: u64, word: W) -> (u32, bool) {
        self.words.look_up_rare(hash, word)
    }

    /// The same of any table: in the place of the row is where its rows are, if the word is marked.
    #[inline]
    pub(crate) fn look_up(&self, hash: u64, word: W) -> ((u32, bool), bool) {
        self.words.look_up_marked(hash, word)
    }

    /// The places of the rows of a marked word.
    #[inline]
    pub(crate) fn places(&self, id: u32) -> std::ops::Range<u32> {
        let count = self.rows.get(id as usize).copied().unwrap_or_default();
        id + 1..id + 1 + count
    }

    /// The rows at these places.
    #[inline]
    pub(crate) fn rows(&self, places: std::ops::Range<u32>) -> &[u32] {
        &self.rows[places.start as usize..places.end as usize]
    }

    /// All words from a place on, with their ids and the place behind each.
    pub(crate) fn entries(&self, place: usize) -> impl Iterator<Item = (usize, Entry<W>)> {
        self.words.entries(place)
    }

    /// Numbers rows anew, in the order of words of which each is there once; the numbers that they had, in this order.
    pub(crate) fn renumber(&mut self) -> Vec<u32> {
        let mut had = Vec::with_capacity(self.words.len());
        for id in self.words.ids() {
            // Numbers of rows are of 32 bits.
            had.push(std::mem::replace(id, had.len() as u32));
        }
        had
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::hash_table::hash::Secret;

    /// The rows of a word.
    fn found<W: Word, const LANES: usize, const PLACES: usize>(
        table: &Runs<W, LANES, PLACES>,
        hash: u64,
        word: W,
    ) -> Vec<u32> {
        let ((id, is_marked), is_there) = table.look_up(hash, word);
        table.ask_for(hash);
        table.ask_for_rows(id);
        if table.is_once() {
            assert_eq!(table.look_up_once(hash, word).1, is_there);
            assert_eq!(table.look_up_rare(hash, word).1, is_there);
        }
        match (is_there, is_marked) {
            (false, _) => Vec::new(),
            (true, false) => vec![id],
            (true, true) => table.rows(table.places(id)).to_vec(),
        }
    }

    fn as_a_map<W: Word + std::hash::Hash + Ord, const LANES: usize, const PLACES: usize>(secret: Secret, words: &[W]) {
        let hash = |word: W| Word::hash(word, secret);
        let pairs = || words.iter().copied().zip(0..);
        let mut twin: HashMap<W, Vec<u32>> = HashMap::new();
        pairs().for_each(|(word, row)| twin.entry(word).or_default().push(row));
        let mut table = Runs::<W, LANES, PLACES>::new(words.len(), pairs(), hash);
        assert_eq!(table.is_once(), twin.len() == words.len());
        assert_eq!(Runs::<W, LANES, PLACES>::once(words.len(), pairs(), hash).is_some(), table.is_once());
        let most = Runs::<W, LANES, PLACES>::bytes_for(words.len());
        assert!(
            table.bytes() <= most,
            "{} of {most} bytes, {} rows of {} words",
            table.bytes(),
            words.len(),
            twin.len()
        );
        assert!(twin.iter().all(|(word, rows)| found(&table, hash(*word), *word) == *rows));
        let entries: Vec<W> = table.entries(0).map(|(_, entry)| entry.word).collect();
        assert_eq!(entries.len(), twin.len());
        // What is not there is not found.
        let others = (0..500).map(|number| W::narrow(u128::MAX - number)).filter(|word| !twin.contains_key(word));
        others.for_each(|word| assert!(found(&table, hash(word), word).is_empty()));
        if table.is_once() {
            let had = table.renumber();
            assert!(entries.iter().zip(&had).all(|(word, had)| twin[word] == [*had]));
            assert!((0..).zip(&entries).all(|(row, word)| found(&table, hash(*word), *word) == [row]));
        }
    }

    #[test]
    fn rows_are_found_as_in_a_map() {
        let mut sizes: Vec<(u32, u32)> = vec![
            (0, 1),
            (1, 1),
            (2, 1),
            (3, 3),
            (14, 7),
            (15, 7),
            (200, 200),
            (200, 199),
            (200, 100),
            (200, 7),
            (300, 1),
        ];
        if !cfg!(miri) {
            sizes.extend([(1000, 1000), (1000, 999), (5000, 4000), (20_000, 60_000), (20_000, 10_000), (20_000, 3)]);
        }
        for (count, different) in sizes {
            let number = |row: u32| (row.wrapping_mul(2_654_435_761) >> 3) % different;
            let secrets = [Secret::random(), Secret::same_tag(), Secret::colliding()];
            for secret in secrets.into_iter().take(if count > 1000 { 2 } else { 3 }) {
                // In order, so that the last one is the first that is there twice; and mixed.
                for word in [&|row: u32| row % different, &number] as [&dyn Fn(u32) -> u32; 2] {
                    let words = || (0..count).map(word);
                    as_a_map::<u32, 8, 7>(secret, &words().collect::<Vec<u32>>());
                    as_a_map::<u64, 5, 5>(secret, &words().map(|word| u64::from(word) << 40).collect::<Vec<u64>>());
                    let wide = words().map(|word| u128::from(word) << 70);
                    as_a_map::<u128, 3, 3>(secret, &wide.collect::<Vec<u128>>());
                }
            }
        }
    }

    #[test]
    fn a_row_takes_no_more_than_an_entry_and_less_where_others_have_its_word() {
        let (secret, count) = (Secret::random(), if cfg!(miri) { 2_000 } else { 200_000 });
        let bytes = |copies: u32| {
            let pairs = (0..count).map(|row| (row / copies, row));
            Runs::<u32, 8, 7>::new(count as usize, pairs, |word| word.hash(secret)).bytes() as f64 / f64::from(count)
        };
        assert!((12.1..12.3).contains(&bytes(1)), "{}", bytes(1));
        assert!((12.0..12.3).contains(&bytes(2)), "{}", bytes(2));
        assert!((8.0..8.2).contains(&bytes(4)), "{}", bytes(4));
        assert!(bytes(count) < 4.1, "{}", bytes(count));
    }
}
