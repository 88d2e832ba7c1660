//! `ashlar-lab impala-buckets`: Impala's hash table in the two layouts between which its authors measured, IMPALA-7635, filled with the
//! keys of `hash-build`: what a group, or a row of a join's build side, takes there. Our own code, of the layouts as they are described;
//! Impala itself is no package that a lab could start.
//!
//! ```text
//! before   bucket     | filled matched duplicates . | hash u32 | row, or node  u64 |     16 bytes
//!          duplicate  | matched . . . . . . . | next u64 | row u64             |         24 bytes
//! after    bucket     | row, or node  u64: bit 63 matched, bit 62 duplicates   |          8 bytes
//!          hashes     | hash u32 |                                                        4 bytes, an array of its own
//!          duplicate  | row u64 | next u64, tagged |                                     16 bytes
//! ```
//!
//! Both: 16 tables by the upper four bits of the hash; a power of two of buckets, at most three quarters of them filled; an
//! occupied bucket is passed over by triangular numbers; the first duplicate makes a bucket the head of a list, which has both.

use std::mem::size_of;

use anyhow::Result;
use ashlar_base::clock::monotonic;

use crate::numbers::mix;
use crate::say;

/// Tables, by the upper bits of the hash.
const PARTITION_BITS: u32 = 4;

/// How often tables are filled to say how long that takes: of so many times the middle one.
const FILLINGS: usize = 3;

/// Buckets of a new table.
const BUCKETS_MIN: usize = 1024;

/// What a bucket holds: a row, or the first node of the list of those that have its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Row(u64),
    List(u64),
}

/// One of the layouts.
trait Layout {
    /// A row that is not the only one with its key, and the next.
    type Node;
    /// All bytes of a bucket.
    const BUCKET_BYTES: usize;

    fn of(buckets: usize) -> Self;
    fn count(&self) -> usize;
    /// The hash and what is held; None of an empty bucket.
    fn at(&self, place: usize) -> Option<(u32, Held)>;
    fn put(&mut self, place: usize, hash: u32, held: Held);
    fn node(row: u64, next: Option<u64>) -> Self::Node;
    fn row(node: &Self::Node) -> u64;
}

#[derive(Clone, Copy, Default)]
struct Wide {
    filled: bool,
    #[expect(dead_code, reason = "it takes its byte; outer joins set it")]
    matched: bool,
    has_duplicates: bool,
    hash: u32,
    held: u64,
}

struct WideNode {
    #[expect(dead_code, reason = "it takes its bytes; outer joins set it")]
    matched: bool,
    #[expect(dead_code, reason = "it takes its bytes; a probe follows it")]
    next: Option<std::num::NonZeroU64>,
    row: u64,
}

struct Before(Vec<Wide>);

impl Layout for Before {
    type Node = WideNode;
    const BUCKET_BYTES: usize = size_of::<Wide>();

    fn of(buckets: usize) -> Self {
        Self(vec![Wide::default(); buckets])
    }

    fn count(&self) -> usize {
        self.0.len()
    }

    fn at(&self, place: usize) -> Option<(u32, Held)> {
        let Wide { filled, has_duplicates, hash, held, .. } = self.0[place];
        filled.then_some((hash, if has_duplicates { Held::List(held) } else { Held::Row(held) }))
    }

    fn put(&mut self, place: usize, hash: u32, held: Held) {
        let (has_duplicates, held) = match held {
            Held::Row(row) => (false, row),
            Held::List(node) => (true, node),
        };
        self.0[place] = Wide { filled: true, matched: false, has_duplicates, hash, held };
    }

    fn node(row: u64, next: Option<u64>) -> WideNode {
        WideNode { matched: false, next: next.and_then(|next| std::num::NonZeroU64::new(next + 1)), row }
    }

    fn row(node: &WideNode) -> u64 {
        node.row
    }
}

/// In a tagged word: what is held is one more than the number, so that an empty bucket is zero.
const DUPLICATES: u64 = 1 << 62;

struct After {
    words: Vec<u64>,
    hashes: Vec<u32>,
}

struct PackedNode {
    row: u64,
    #[expect(dead_code, reason = "it takes its bytes; a probe follows it")]
    next: u64,
}

impl Layout for After {
    type Node = PackedNode;
    const BUCKET_BYTES: usize = size_of::<u64>() + size_of::<u32>();

    fn of(buckets: usize) -> Self {
        Self { words: vec![0; buckets], hashes: vec![0; buckets] }
    }

    fn count(&self) -> usize {
        self.words.len()
    }

    fn at(&self, place: usize) -> Option<(u32, Held)> {
        let held = match self.words[place] {
            0 => return None,
            word if word & DUPLICATES != 0 => Held::List((word & !DUPLICATES) - 1),
            word => Held::Row(word - 1),
        };
        Some((self.hashes[place], held))
    }

    fn put(&mut self, place: usize, hash: u32, held: Held) {
        self.hashes[place] = hash;
        self.words[place] = match held {
            Held::Row(row) => row + 1,
            Held::List(node) => (node + 1) | DUPLICATES,
        };
    }

    fn node(row: u64, next: Option<u64>) -> PackedNode {
        PackedNode { row, next: next.map_or(0, |next| next + 1) }
    }

    fn row(node: &PackedNode) -> u64 {
        node.row
    }
}

/// One of the tables of a layout.
struct Table<L: Layout> {
    buckets: L,
    filled: usize,
    nodes: Vec<L::Node>,
}

impl<L: Layout> Table<L> {
    fn new() -> Self {
        Self { buckets: L::of(BUCKETS_MIN), filled: 0, nodes: Vec::new() }
    }

    /// Takes a row in; of rows with a key that is there already only those of a join.
    fn insert(&mut self, row: u64, hash: u32, keys: &[u32], keeps_duplicates: bool) {
        if (self.filled + 1) * 4 > self.buckets.count() * 3 {
            self.grow();
        }
        let (mask, mut place, mut step) = (self.buckets.count() - 1, hash as usize, 0);
        loop {
            place &= mask;
            let Some((there, held)) = self.buckets.at(place) else {
                self.buckets.put(place, hash, Held::Row(row));
                self.filled += 1;
                return;
            };
            let first = match held {
                Held::Row(first) => first,
                Held::List(node) => L::row(&self.nodes[node as usize]),
            };
            if there == hash && keys[first as usize] == keys[row as usize] {
                if keeps_duplicates {
                    let next = match held {
                        Held::List(node) => node,
                        Held::Row(first) => self.keep(first, None),
                    };
                    let list = self.keep(row, Some(next));
                    self.buckets.put(place, hash, Held::List(list));
                }
                return;
            }
            step += 1;
            place += step;
        }
    }

    fn keep(&mut self, row: u64, next: Option<u64>) -> u64 {
        self.nodes.push(L::node(row, next));
        self.nodes.len() as u64 - 1
    }

    fn grow(&mut self) {
        let mut larger = L::of(self.buckets.count() * 2);
        let mask = larger.count() - 1;
        for (hash, held) in (0..self.buckets.count()).filter_map(|place| self.buckets.at(place)) {
            let (mut place, mut step) = (hash as usize & mask, 0);
            while larger.at(place).is_some() {
                step += 1;
                place = (place + step) & mask;
            }
            larger.put(place, hash, held);
        }
        self.buckets = larger;
    }
}

/// What the tables of a layout take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    /// Keys that are different.
    pub(crate) keys: u64,
    /// Bytes of all buckets and nodes.
    pub(crate) bytes: u64,
    /// Likewise without empty buckets: what Impala's own benchmark counts.
    pub(crate) filled_bytes: u64,
    /// Bytes at their most: while a table grows it has its old buckets and its new ones.
    pub(crate) most_bytes: u64,
    /// How long one thread was filling them.
    pub(crate) seconds: f64,
}

/// Bytes of all buckets and nodes of tables.
fn held<L: Layout>(tables: &[Table<L>]) -> u64 {
    let each = |table: &Table<L>| table.nodes.len() * size_of::<L::Node>() + table.buckets.count() * L::BUCKET_BYTES;
    tables.iter().map(each).sum::<usize>() as u64
}

/// Fills the tables of a layout with rows of these keys.
fn fill<L: Layout>(keys: &[u32], keeps_duplicates: bool) -> Taken {
    let begun = monotonic();
    let mut tables: Vec<Table<L>> = (0..1 << PARTITION_BITS).map(|_| Table::new()).collect();
    let mut most_bytes = 0;
    for (row, key) in keys.iter().enumerate() {
        let hash = (mix(u64::from(*key)) >> 32) as u32;
        let place = (hash >> (u32::BITS - PARTITION_BITS)) as usize;
        let old = tables[place].buckets.count();
        tables[place].insert(row as u64, hash, keys, keeps_duplicates);
        if tables[place].buckets.count() > old {
            most_bytes = most_bytes.max(held(&tables) + (old * L::BUCKET_BYTES) as u64);
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let sum = |of: &dyn Fn(&Table<L>) -> usize| tables.iter().map(of).sum::<usize>() as u64;
    let nodes = sum(&|table| table.nodes.len() * size_of::<L::Node>());
    Taken {
        keys: sum(&|table| table.filled),
        bytes: held(&tables),
        filled_bytes: nodes + sum(&|table| table.filled * L::BUCKET_BYTES),
        most_bytes: most_bytes.max(held(&tables)),
        seconds,
    }
}

/// What both layouts take.
pub(crate) struct Line {
    /// Of a join's build side, which keeps each row, and not of GROUP BY, which keeps each key once.
    keeps_duplicates: bool,
    /// Which buckets are counted.
    pub(crate) which: &'static str,
    /// Groups, or rows.
    entries: u64,
    before: u64,
    after: u64,
}

impl Line {
    /// Bytes of an entry before the buckets were packed.
    pub(crate) fn before_each(&self) -> f64 {
        self.before as f64 / self.entries as f64
    }

    /// Likewise after.
    pub(crate) fn after_each(&self) -> f64 {
        self.after as f64 / self.entries as f64
    }
}

/// What the layouts take with these keys: all buckets, and the filled ones.
fn lines(keys: &[u32], keeps_duplicates: bool) -> [Line; 2] {
    let (before, after) = (fill::<Before>(keys, keeps_duplicates), fill::<After>(keys, keeps_duplicates));
    let entries = if keeps_duplicates { keys.len() as u64 } else { before.keys };
    let line = |which, before, after| Line { keeps_duplicates, which, entries, before, after };
    [line("all buckets", before.bytes, after.bytes), line("filled buckets", before.filled_bytes, after.filled_bytes)]
}

/// What they take with the rows of a join's build side: all buckets, and the filled ones, which is what Impala's own benchmark counts.
pub(crate) fn of_join(keys: &[u32]) -> [Line; 2] {
    lines(keys, true)
}

/// What a layout needs to be filled with the rows of a join's build side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filling {
    /// Bytes at their most.
    pub(crate) most_bytes: f64,
    /// The time of one thread.
    pub(crate) micros: f64,
}

/// Both layouts, before and after.
pub(crate) fn fillings(keys: &[u32]) -> [Filling; 2] {
    [filling::<Before>(keys), filling::<After>(keys)]
}

fn filling<L: Layout>(keys: &[u32]) -> Filling {
    let mut all: Vec<Taken> = (0..FILLINGS).map(|_| fill::<L>(keys, true)).collect();
    all.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
    let middle = all[FILLINGS / 2];
    Filling { most_bytes: middle.most_bytes as f64, micros: middle.seconds * 1e6 }
}

/// Says what the layouts take with these keys: of GROUP BY, which keeps each key once, and of a join, which keeps each row.
pub(crate) fn show(keys: &[u32]) -> Result<()> {
    say::result(&format!(
        "{:<34}{:>12}{:>18}{:>18}{:>12}",
        "hash table of Impala", "entries", "before", "after", "difference"
    ))?;
    for line in [false, true].into_iter().flat_map(|keeps_duplicates| lines(keys, keeps_duplicates)) {
        let what = if line.keeps_duplicates { "rows of a join's build side" } else { "groups" };
        let (before, after) = (line.before_each(), line.after_each());
        say::result(&format!(
            "{:<34}{:>12}{before:>11.2} B each{after:>11.2} B each{:>11.1} %",
            format!("{what}, {}", line.which),
            line.entries,
            100.0 * (after / before - 1.0)
        ))?;
    }
    say::result(
        "Without the rows or groups themselves, which lie elsewhere: a group of an integer and a count has some 13 B more.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Sizes, hash_build_keys};

    fn keys(rows: u64, unique_percent: Option<u32>) -> Vec<u32> {
        hash_build_keys(&Sizes { rows: Some(rows), unique_percent, ..Sizes::default() }).unwrap()
    }

    #[test]
    fn the_layouts_have_the_sizes_that_are_described() {
        assert_eq!((Before::BUCKET_BYTES, size_of::<WideNode>()), (16, 24));
        assert_eq!((After::BUCKET_BYTES, size_of::<PackedNode>()), (12, 16));
    }

    /// What Impala's authors published of 1,048,576 rows after their change, and what follows for before it.
    #[test]
    fn filled_buckets_take_what_was_published() {
        for (unique, after, before) in
            [(100, 12_582_912, 16_777_216), (60, 16_777_212, 23_488_096), (20, 20_971_512, 30_198_976)]
        {
            let keys = keys(1 << 20, Some(unique));
            assert_eq!(fill::<After>(&keys, true).filled_bytes, after, "{unique}");
            assert_eq!(fill::<Before>(&keys, true).filled_bytes, before, "{unique}");
        }
    }

    #[test]
    fn a_table_has_every_key_once_and_room_left() {
        let keys = keys(50_000, None);
        let mut different = keys.clone();
        different.sort_unstable();
        different.dedup();
        let taken = fill::<After>(&keys, false);
        assert_eq!(taken.keys, different.len() as u64);
        assert_eq!(taken.filled_bytes, 12 * taken.keys);
        assert!(taken.bytes * 3 >= taken.filled_bytes * 4, "three quarters at most are filled");
    }

    #[test]
    fn a_table_that_grows_has_its_old_buckets_too() {
        // Nothing grows: the most is what there is in the end.
        let few = fill::<After>(&keys(1 << 10, Some(100)), true);
        assert_eq!((few.bytes, few.most_bytes), (16 * 1024 * 12, 16 * 1024 * 12));
        // The last of 16 tables that grows to eight times its first size has four times that beside it.
        let many = fill::<After>(&keys(16 << 12, Some(100)), true);
        assert_eq!((many.bytes, many.most_bytes), (16 * 8 * 1024 * 12, (16 * 8 + 4) * 1024 * 12));
        let [before, after] = fillings(&keys(16 << 12, Some(100)));
        assert!(before.most_bytes * 12.0 == after.most_bytes * 16.0 && before.micros > 0.0 && after.micros > 0.0);
    }
}
