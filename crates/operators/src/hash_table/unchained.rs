//! Key -> rows, without chains: rows lie in the order of their hashes, and those of a key side by side.
//!
//! ```text
//!   hash of a key    | prefix of the table | slot ........ |            the slot by multiplication
//!
//!   entries          | 0   | e1  | e2  | e3  | ...                      8 bytes each, one more than there are slots
//!                              |     |
//!       entry        | end: 32 bits | tags: 32 bits |                   where the rows of its slot end; where those of
//!                              |     |                                  the slot before it end, its own begin
//!                              v     v
//!   keys             | k k k | k k | k | k k k k | ...                  W bytes each, equal ones side by side
//!   rows             | r r r | r r | r | r r r r | ...                  4 bytes each
//! ```
//!
//! Each key sets two of the 32 bits of its slot's tags (a Bloom filter): of a hundred keys that are not there, all but a few are
//! refused by one read. There is a slot for two rows, so that a row takes 4 bytes for its slot, 4 for its number and the
//! bytes of its key: 12 for a key of 32 bits. A row that has the key of another one takes no more. (The shape is the unchained
//! table of Umbra's: Birler, Schmidt, Fent and Neumann, DaMoN 2024.)
//!
//! A table is made once, of all its rows: counted by slot, the counts added up, the rows put in their places.

use std::cmp::Ordering;

use super::hash::Word;
use super::machine::ask_for;

/// Rows for a slot, on average.
const ROWS_PER_SLOT: usize = 2;
/// Runs of so many are sorted by insertion.
const FEW: usize = 16;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Entry {
    end: u32,
    tags: u32,
}

const _: () = assert!(size_of::<Entry>() == 8);

/// Two of 32 bits, of the lower half of a hash.
#[inline]
fn tags_of(hash: u64) -> u32 {
    (1 << (hash & 31)) | (1 << (hash >> 5 & 31))
}

/// Where rows of a slot lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

const _: () = assert!(size_of::<Run>() == 8);

/// See the module.
#[derive(Debug)]
pub(crate) struct Unchained<W> {
    entries: Vec<Entry>,
    keys: Vec<W>,
    rows: Vec<u32>,
    /// Bits at the top of a hash that are the same for all keys, since they chose this table among others.
    prefix: u32,
}

/// Slots for so many rows.
fn slots_for(rows: usize) -> usize {
    (rows / ROWS_PER_SLOT).max(1)
}

impl<W: Word + Ord> Unchained<W> {
    /// Bytes that one of so many rows holds.
    pub(crate) fn bytes_for(rows: usize) -> usize {
        (slots_for(rows) + 1) * size_of::<Entry>() + rows * (size_of::<W>() + size_of::<u32>())
    }

    /// Of keys and their rows, fewer than 2^32. `hash` gives a key's hash, whose first `prefix` bits are the same for all; `order`
    /// compares keys with their rows, where keys alone do not say whether they are equal.
    pub(crate) fn new(
        keys: Vec<W>,
        rows: Vec<u32>,
        prefix: u32,
        hash: impl Fn(W) -> u64,
        order: impl Fn((W, u32), (W, u32)) -> Ordering,
    ) -> Self {
        let entries = vec![Entry::default(); slots_for(keys.len()) + 1];
        let mut table = Self { entries, keys, rows, prefix };
        for key in &table.keys {
            let hash = hash(*key);
            let slot = table.slot(hash);
            let entry = &mut table.entries[slot + 1];
            entry.end += 1;
            entry.tags |= tags_of(hash);
        }
        // An entry says where its slot begins, until its rows are there.
        let mut total = 0;
        for entry in &mut table.entries {
            let count = entry.end;
            entry.end = total;
            total += count;
        }
        let (mut keys, mut rows) = (vec![W::default(); table.keys.len()], vec![0; table.rows.len()]);
        for (key, row) in table.keys.iter().zip(&table.rows) {
            let slot = table.slot(hash(*key));
            let end = &mut table.entries[slot + 1].end;
            keys[*end as usize] = *key;
            rows[*end as usize] = *row;
            *end += 1;
        }
        (table.keys, table.rows) = (keys, rows);
        let mut start = 0;
        for entry in &table.entries {
            let end = entry.end as usize;
            sort(&mut table.keys[start..end], &mut table.rows[start..end], &order);
            start = end;
        }
        table
    }

    /// Rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
            + self.keys.capacity() * size_of::<W>()
            + self.rows.capacity() * size_of::<u32>()
    }

    /// The slots of a table divide what is left of hashes behind its prefix evenly.
    #[inline]
    fn slot(&self, hash: u64) -> usize {
        let rest = hash << self.prefix;
        let slots = self.entries.len() as u64 - 1;
        ((u128::from(rest) * u128::from(slots)) >> 64) as usize
    }

    /// Asks for the memory of the slot of a hash.
    #[inline]
    pub(crate) fn ask_for_slot(&self, hash: u64) {
        ask_for(&self.entries, self.slot(hash));
    }

    /// Asks for the memory of the first keys of a run.
    #[inline]
    pub(crate) fn ask_for_keys(&self, run: Run) {
        ask_for(&self.keys, run.start as usize);
    }

    /// Asks for the memory of the first rows of a run.
    #[inline]
    pub(crate) fn ask_for_rows(&self, run: Run) {
        ask_for(&self.rows, run.start as usize);
    }

    /// Where rows with this hash may lie: nowhere, as a rule, if there are none. Takes the same way for all.
    #[inline]
    pub(crate) fn run(&self, hash: u64) -> Run {
        let slot = self.slot(hash);
        let (before, entry) = (self.entries[slot], self.entries[slot + 1]);
        let tags = tags_of(hash);
        let end = if entry.tags & tags == tags { entry.end } else { before.end };
        Run { start: before.end, end }
    }

    /// A bit for each place of a short run that has a key; `None` of a long one, and of those at the very end. Takes the same way for all short
    /// runs, since nobody can guess at which of a few places a key is; of an empty one it reads what others read too. Of the runs that have a key,
    /// one in seven is longer than four, and one in a thousand than eight.
    #[inline]
    fn places_in_few(&self, run: Run, key: W) -> Option<u32> {
        let length = run.end - run.start;
        let start = if length == 0 { 0 } else { run.start as usize };
        let few = self.keys.get(start..start + W::TOGETHER).filter(|_| length as usize <= W::TOGETHER)?;
        Some(key.places_in(few) & ((1 << length) - 1))
    }

    /// The first place, where it is of so many behind the start of a run; the start itself where there is none.
    #[inline]
    fn first_of(run: Run, places: u32) -> u32 {
        // With a bit behind them there is one in any case: some processors have no instruction for none.
        let first = (places | 1 << W::TOGETHER).trailing_zeros();
        run.start + (first & (W::TOGETHER as u32 - 1))
    }

    /// The places of a run that have a key: they lie side by side.
    #[inline]
    pub(crate) fn same(&self, run: Run, key: W) -> Run {
        match self.places_in_few(run, key) {
            Some(places) => {
                let start = Self::first_of(run, places);
                Run { start, end: start + places.count_ones() }
            }
            None => self.same_of_many(run, key),
        }
    }

    /// The same by halving: keys of a slot are in order.
    fn same_of_many(&self, run: Run, key: W) -> Run {
        let keys = &self.keys[run.start as usize..run.end as usize];
        let start = keys.partition_point(|known| *known < key);
        let count = keys[start..].partition_point(|known| *known == key);
        let start = run.start + start as u32;
        Run { start, end: start + count as u32 }
    }

    /// The rows of a run.
    #[inline]
    pub(crate) fn rows(&self, run: Run) -> &[u32] {
        &self.rows[run.start as usize..run.end as usize]
    }

    /// The row at a place.
    #[inline]
    pub(crate) fn row(&self, at: usize) -> u32 {
        self.rows[at]
    }
}

/// Sorts the rows of a slot: in their place, since there may be many.
fn sort<W: Copy + Ord>(keys: &mut [W], rows: &mut [u32], order: &impl Fn((W, u32), (W, u32)) -> Ordering) {
    if keys.len() <= FEW {
        for end in 1..keys.len() {
            let mut at = end;
            while at > 0 && order((keys[at], rows[at]), (keys[at - 1], rows[at - 1])) == Ordering::Less {
                keys.swap(at, at - 1);
                rows.swap(at, at - 1);
                at -= 1;
            }
        }
        return;
    }
    // A heap, the greatest first.
    let len = keys.len();
    let sift = |keys: &mut [W], rows: &mut [u32], mut at: usize, len: usize| {
        loop {
            let mut child = 2 * at + 1;
            if child >= len {
                return;
            }
            if child + 1 < len
                && order((keys[child], rows[child]), (keys[child + 1], rows[child + 1])) == Ordering::Less
            {
                child += 1;
            }
            if order((keys[at], rows[at]), (keys[child], rows[child])) != Ordering::Less {
                return;
            }
            keys.swap(at, child);
            rows.swap(at, child);
            at = child;
        }
    };
    for at in (0..len / 2).rev() {
        sift(keys, rows, at, len);
    }
    for end in (1..len).rev() {
        keys.swap(0, end);
        rows.swap(0, end);
        sift(keys, rows, 0, end);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::HashMap;

    use super::*;
    use crate::hash_table::hash::Secret;
    use crate::hash_table::scrambled;

    thread_local! {
        /// Keys that this thread has compared.
        static COMPARED: Cell<usize> = const { Cell::new(0) };
    }

    /// A key whose comparisons are counted.
    #[derive(Clone, Copy, Debug, Default, Eq)]
    struct Counted(u64);

    impl PartialEq for Counted {
        fn eq(&self, other: &Self) -> bool {
            COMPARED.set(COMPARED.get() + 1);
            self.0 == other.0
        }
    }

    impl Ord for Counted {
        fn cmp(&self, other: &Self) -> Ordering {
            COMPARED.set(COMPARED.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    impl PartialOrd for Counted {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl Word for Counted {
        fn hash(self, secret: Secret) -> u64 {
            self.0.hash(secret)
        }

        fn narrow(wide: u128) -> Self {
            Self(wide as u64)
        }

        fn widen(self) -> u128 {
            u128::from(self.0)
        }
    }

    fn by_key(left: (u32, u32), right: (u32, u32)) -> Ordering {
        left.0.cmp(&right.0)
    }

    fn found(table: &Unchained<u32>, hash: u64, key: u32) -> Vec<u32> {
        let run = table.run(hash);
        let same = (run.start..run.end).filter(|at| table.keys[*at as usize] == key);
        let places: Vec<u32> = same.collect();
        let exact = table.same(run, key);
        assert_eq!(places, (exact.start..exact.end).collect::<Vec<u32>>());
        let mut rows = table.rows(exact).to_vec();
        rows.sort_unstable();
        rows
    }

    #[test]
    fn rows_are_found_as_in_a_map() {
        let mut sizes: Vec<(u32, u32)> = vec![(0, 1), (1, 1), (3, 1), (200, 1), (200, 7), (300, 250), (200, 700)];
        if !cfg!(miri) {
            sizes.extend([(1000, 1), (1000, 7), (5000, 4000), (20_000, 60_000)]);
        }
        for secret in [Secret::random(), Secret::colliding(), Secret::same_tag()] {
            for &(count, keys) in &sizes {
                let key = |row: u32| (row.wrapping_mul(2_654_435_761) >> 7) % keys;
                let all: Vec<u32> = (0..count).map(key).collect();
                let mut twin: HashMap<u32, Vec<u32>> = HashMap::new();
                for (row, key) in all.iter().enumerate() {
                    twin.entry(*key).or_default().push(row as u32);
                }
                let table = Unchained::new(all, (0..count).collect(), 0, |key| key.hash(secret), by_key);
                assert_eq!(table.len(), count as usize);
                assert_eq!(table.bytes(), Unchained::<u32>::bytes_for(count as usize));
                for key in (0..keys + 100).step_by(if cfg!(miri) || count > 5000 { 97 } else { 1 }) {
                    let rows = found(&table, key.hash(secret), key);
                    assert_eq!(rows, twin.get(&key).cloned().unwrap_or_default(), "{count} {keys} {key}");
                }
            }
        }
    }

    #[test]
    fn tables_divide_the_hashes_among_them() {
        let secret = Secret::random();
        let prefix = 3;
        let mut parts = vec![Vec::new(); 1 << prefix];
        let count: u32 = if cfg!(miri) { 16_000 } else { 50_000 };
        for key in 0..count {
            parts[(key.hash(secret) >> (64 - prefix)) as usize].push(key);
        }
        for (number, keys) in parts.into_iter().enumerate() {
            let share = count as usize / 8;
            assert!((share * 4 / 5..share * 6 / 5).contains(&keys.len()), "{number}: {}", keys.len());
            let rows = keys.clone();
            let table = Unchained::new(keys.clone(), rows, prefix, |key| key.hash(secret), by_key);
            assert!(keys.iter().all(|key| found(&table, key.hash(secret), *key) == [*key]));
            // Slots are used evenly: were the prefix not left out, all would be in an eighth of them.
            let used = table.entries.windows(2).filter(|two| two[0].end < two[1].end).count();
            assert!(used * 10 > table.entries.len() * 8, "{used} of {}", table.entries.len());
        }
    }

    #[test]
    fn most_of_what_is_not_there_is_refused_by_its_tags() {
        let secret = Secret::random();
        let count: u32 = if cfg!(miri) { 5_000 } else { 100_000 };
        let keys: Vec<u32> = (0..count).collect();
        let table = Unchained::new(keys.clone(), keys, 0, |key| key.hash(secret), by_key);
        let looked_at = (1_000_000..1_000_000 + count).filter(|key| {
            let run = table.run(key.hash(secret));
            run.start < run.end
        });
        let looked_at = looked_at.count();
        assert!(looked_at < count as usize / 20, "{looked_at} of {count}");
    }

    #[test]
    fn keys_of_one_tag_are_found_by_few_comparisons() {
        let secret = Secret::same_tag();
        let count: u32 = if cfg!(miri) { 1_000 } else { 20_000 };
        let key = |number: u32| Counted(scrambled(u64::from(number)));
        let by_number = |left: (Counted, u32), right: (Counted, u32)| left.0.cmp(&right.0);
        let keys: Vec<Counted> = (0..count).map(key).collect();
        let table = Unchained::new(keys, (0..count).collect(), 0, |key: Counted| key.hash(secret), by_number);
        let mut all = 0;
        for number in 0..2 * count {
            let hash = key(number).hash(secret);
            let run = table.run(hash);
            // No tag refuses what is not there.
            let slot = table.slot(hash);
            assert_eq!((run.start, run.end), (table.entries[slot].end, table.entries[slot + 1].end), "{number}");
            COMPARED.set(0);
            let same = table.same(run, key(number));
            let compared = COMPARED.replace(0);
            let row = (number < count).then_some(number);
            assert_eq!(table.rows(same).first().copied(), row);
            assert!((same.end - same.start) as usize == usize::from(row.is_some()), "{number}: {same:?}");
            // Some at once where there are no more; else, and at the end of all keys, their run is halved twice.
            let halves = 2 * ((run.end - run.start).max(1).ilog2() as usize + 2);
            assert!(compared <= halves.max(Counted::TOGETHER), "{compared} of {run:?}");
            all += compared;
        }
        // A slot has two rows on average, one in seven of those that have a key more than four.
        assert!(all <= 6 * 2 * count as usize, "{all} comparisons for {} keys", 2 * count);
    }

    #[test]
    fn a_row_takes_twelve_bytes() {
        let rows = 1_000_000;
        let bytes = Unchained::<u32>::bytes_for(rows) as f64 / rows as f64;
        assert!((12.0..12.01).contains(&bytes), "{bytes}");
    }

    #[test]
    fn a_row_with_the_key_of_others_takes_no_more() {
        let secret = Secret::random();
        let count: u32 = if cfg!(miri) { 2_000 } else { 100_000 };
        for copies in [1, 4, count] {
            let keys: Vec<u32> = (0..count).map(|row| row % (count / copies)).collect();
            let table = Unchained::new(keys, (0..count).collect(), 0, |key| key.hash(secret), by_key);
            assert_eq!(table.bytes(), Unchained::<u32>::bytes_for(count as usize), "{copies} of each");
            assert_eq!(found(&table, 0_u32.hash(secret), 0).len(), copies as usize);
        }
    }
}
