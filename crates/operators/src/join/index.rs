//! The tables of a join behind one interface: where the rows of keys are, and which rows there are.
//!
//! ```text
//!   Words      keys that are words; a row is where its key is
//!   Texts      keys that are bytes: half of their hash stands for them, and the chunks are asked whether it is right
//!   Numbers    whole numbers close together, each once: no hash
//! ```
//!
//! Made of all chunks at once, by `build`; read by all probes.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow::buffer::NullBuffer;

use super::chunk::{Chunk, place_of, row_number};
use crate::hash_table::direct::{Direct, NOBODY};
use crate::hash_table::hash::{Secret, Word, of_bytes};
use crate::hash_table::keys::{ByteKeys, Keys, Packed};
use crate::hash_table::unchained::{Run, Unchained};

/// Rows whose places are asked for together.
const TOGETHER: usize = 64;

/// The part of rows whose key is NULL, where that is a key: they are in no index.
pub(crate) const NULLS: u32 = u32::MAX;

/// Rows of the build side that have the key of a row of the probe side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// Of the probe side.
    pub(crate) row: u32,
    pub(crate) part: u32,
    /// Places that may have its key; the first has.
    pub(crate) run: Run,
}

/// See the module.
pub(crate) trait Index: Send + Sync {
    /// Finds keys. Rows that are not valid have none.
    fn find(&self, packed: &Packed, valid: Option<&NullBuffer>, found: &mut Vec<Found>);

    /// Whether keys may be there: they are not, where it says so.
    fn may_have(&self, packed: &Packed, answers: &mut Vec<bool>);

    /// The rows of a key, from a place on, at most so many; the place behind the last one, or the end of the run.
    fn rows(&self, found: &Found, from: u32, count: usize, rows: &mut Vec<u32>) -> u32;

    /// Goes on with pairs of rows, until there are so many or no more, or none but of NULL.
    fn pairs(&self, found: &[Found], next: &mut Next, count: usize, pairs: &mut Pairs);

    /// Goes on to the rows that are wanted, with their keys, until there are so many or no more.
    fn walk(
        &self,
        cursor: &mut Cursor,
        count: usize,
        wanted: &dyn Fn(u32) -> bool,
        rows: &mut Vec<u32>,
        keys: &mut Keys,
    );
}

/// How far somebody has come with the pairs of what was found: the key, and the next place of its run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Next {
    pub(crate) key: usize,
    pub(crate) from: u32,
}

impl Next {
    /// The first pair of a key.
    pub(crate) fn at(found: &[Found], key: usize) -> Self {
        Self { key, from: found.get(key).map_or(0, |found| found.run.start) }
    }
}

/// Rows of the build side, and those of the probe side that they are paired with.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    pub(crate) rows: Vec<u32>,
    pub(crate) probed: Vec<u32>,
}

impl Pairs {
    /// Goes on key by key while `rows_of` gives their rows: from a place on, at most so many in all; and the place behind the last.
    #[inline]
    pub(crate) fn extend(
        &mut self,
        found: &[Found],
        next: &mut Next,
        count: usize,
        mut rows_of: impl FnMut(&Found, u32, &mut Vec<u32>) -> u32,
    ) {
        while self.rows.len() < count
            && let Some(key) = found.get(next.key)
        {
            next.from = rows_of(key, next.from, &mut self.rows);
            self.probed.resize(self.rows.len(), key.row);
            if next.from < key.run.end {
                return;
            }
            *next = Next::at(found, next.key + 1);
        }
    }
}

/// What was found, without the keys that are NULL: those are the last.
fn of_index(found: &[Found]) -> &[Found] {
    let nulls = found.iter().rev().take_while(|found| found.part == NULLS).count();
    &found[..found.len() - nulls]
}

/// How far somebody has come who walks through an index: a part, and a place in it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    part: usize,
    place: usize,
}

/// Bytes of keys at which a walk ends for once.
const KEY_BYTES: usize = 64 << 20;

/// Words that keys are packed into.
pub(crate) trait KeyWord: Word + Ord + Sync {
    fn of(keys: &Keys) -> &[Self];
    fn push(keys: &mut Keys, key: Self);
}

macro_rules! key_word {
    ($word:ty, $keys:ident) => {
        impl KeyWord for $word {
            fn of(keys: &Keys) -> &[Self] {
                match keys {
                    Keys::$keys(words) => words,
                    // A packing packs all rows in one way.
                    _ => &[],
                }
            }

            fn push(keys: &mut Keys, key: Self) {
                if let Keys::$keys(words) = keys {
                    words.push(key);
                }
            }
        }
    };
}

key_word!(u32, Word32);
key_word!(u64, Word64);
key_word!(u128, Word128);

/// Which of so many parts by the first bits a hash belongs to.
#[inline]
pub(crate) fn part_of(hash: u64, bits: u32) -> usize {
    // Twice, since a shift by all bits is none.
    ((hash >> 1) >> (63 - bits)) as usize
}

/// Keys that are words.
pub(crate) struct Words<W> {
    pub(crate) parts: Vec<Unchained<W>>,
    pub(crate) bits: u32,
    pub(crate) secret: Secret,
}

impl<W: KeyWord> Words<W> {
    fn hash(&self, key: W) -> (W, u64) {
        (key, key.hash(self.secret))
    }
}

impl<W: KeyWord> Index for Words<W> {
    fn find(&self, packed: &Packed, valid: Option<&NullBuffer>, found: &mut Vec<Found>) {
        let keys = W::of(&packed.keys);
        let parts = Parts { parts: &self.parts, bits: self.bits };
        parts.find(keys.len(), |row| self.hash(keys[row]), |_, _, _| true, valid, found);
    }

    fn may_have(&self, packed: &Packed, answers: &mut Vec<bool>) {
        let parts = Parts { parts: &self.parts, bits: self.bits };
        answers.extend(W::of(&packed.keys).iter().map(|key| parts.may_have(key.hash(self.secret))));
    }

    fn rows(&self, found: &Found, from: u32, count: usize, rows: &mut Vec<u32>) -> u32 {
        rows_of(&self.parts[found.part as usize], found, from, count, rows, |_| true)
    }

    fn pairs(&self, found: &[Found], next: &mut Next, count: usize, pairs: &mut Pairs) {
        pairs.extend(of_index(found), next, count, |found, from, rows| {
            rows_of(&self.parts[found.part as usize], found, from, count, rows, |_| true)
        });
    }

    fn walk(
        &self,
        cursor: &mut Cursor,
        count: usize,
        wanted: &dyn Fn(u32) -> bool,
        rows: &mut Vec<u32>,
        keys: &mut Keys,
    ) {
        walk(&self.parts, cursor, count, wanted, rows, |key, _| {
            W::push(keys, key);
            true
        });
    }
}

/// The tables of all parts, in which keys are looked for.
struct Parts<'a, W> {
    parts: &'a [Unchained<W>],
    bits: u32,
}

impl<W: KeyWord> Parts<'_, W> {
    /// Finds the keys of rows. `word` gives what stands for the key of a row, and its hash; `is_key` whether the key at a place
    /// of a table is that of a row, where what stands for them is the same.
    #[inline]
    fn find(
        &self,
        rows: usize,
        word: impl Fn(usize) -> (W, u64),
        is_key: impl Fn(&Unchained<W>, u32, usize) -> bool,
        valid: Option<&NullBuffer>,
        found: &mut Vec<Found>,
    ) {
        let mut places = [(0_u32, W::default(), Run::default()); TOGETHER];
        let mut firsts = [W::default(); TOGETHER];
        for start in (0..rows).step_by(TOGETHER) {
            let together = TOGETHER.min(rows - start);
            // Each loop reads what it needs of all rows and decides nothing: the processor waits for all of it at once.
            for (at, place) in places.iter_mut().enumerate().take(together) {
                let (word, hash) = word(start + at);
                let part = part_of(hash, self.bits);
                *place = (part as u32, word, self.parts[part].run(hash));
            }
            for (first, (part, _, run)) in firsts.iter_mut().zip(&places).take(together) {
                *first = self.parts[*part as usize].first(*run);
            }
            for at in 0..together {
                let (part, word, mut run) = places[at];
                let row = start + at;
                if run.start == run.end || valid.is_some_and(|valid| valid.is_null(row)) {
                    continue;
                }
                let (mut known, table) = (firsts[at], &self.parts[part as usize]);
                while known != word || !is_key(table, run.start, row) {
                    run.start += 1;
                    if run.start == run.end {
                        break;
                    }
                    known = table.first(run);
                }
                if run.start < run.end {
                    found.push(Found { row: row as u32, part, run });
                }
            }
        }
    }

    /// Whether a key with this hash may be there.
    #[inline]
    fn may_have(&self, hash: u64) -> bool {
        let run = self.parts[part_of(hash, self.bits)].run(hash);
        run.start < run.end
    }
}

/// The rows of a key, from a place on; `is_key` says whether the key of a row is that of the first one, where what stands for them is
/// the same.
#[inline]
fn rows_of<W: KeyWord>(
    table: &Unchained<W>,
    found: &Found,
    from: u32,
    count: usize,
    rows: &mut Vec<u32>,
    is_key: impl Fn(u32) -> bool,
) -> u32 {
    let (word, _) = table.get(found.run.start);
    for at in from..found.run.end {
        let (other, row) = table.get(at);
        if other != word || !is_key(row) {
            return found.run.end;
        }
        if rows.len() == count {
            return at;
        }
        rows.push(row);
    }
    found.run.end
}

/// Keys that are bytes, with those of the chunks.
pub(crate) struct Texts {
    pub(crate) parts: Vec<Unchained<u32>>,
    pub(crate) bits: u32,
    pub(crate) secret: Secret,
    pub(crate) keys: Arc<Vec<Packed>>,
}

/// The bytes of a row's key.
fn bytes_at(keys: &[Packed], row: u32) -> &[u8] {
    let (chunk, place) = place_of(row);
    match &keys[chunk].keys {
        Keys::Bytes(keys) => keys.get(place),
        _ => &[],
    }
}

/// What stands for a hash in a table: its upper half.
#[inline]
fn half(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// A hash of a half.
#[inline]
fn whole(half: u32) -> u64 {
    u64::from(half) << 32 | u64::from(half.wrapping_mul(0x9E37_79B1) >> 16)
}

fn byte_keys(keys: &Keys) -> Option<&ByteKeys> {
    match keys {
        Keys::Bytes(keys) => Some(keys),
        _ => None,
    }
}

impl Texts {
    fn hash(&self, key: &[u8]) -> (u32, u64) {
        let half = half(of_bytes(key, self.secret));
        (half, whole(half))
    }
}

impl Index for Texts {
    fn find(&self, packed: &Packed, valid: Option<&NullBuffer>, found: &mut Vec<Found>) {
        let Some(keys) = byte_keys(&packed.keys) else { return };
        let is_key = |table: &Unchained<u32>, at: u32, row: usize| bytes_at(&self.keys, table.row(at)) == keys.get(row);
        let parts = Parts { parts: &self.parts, bits: self.bits };
        parts.find(packed.len(), |row| self.hash(keys.get(row)), is_key, valid, found);
    }

    fn may_have(&self, packed: &Packed, answers: &mut Vec<bool>) {
        let Some(keys) = byte_keys(&packed.keys) else { return };
        let parts = Parts { parts: &self.parts, bits: self.bits };
        answers.extend((0..packed.len()).map(|row| parts.may_have(self.hash(keys.get(row)).1)));
    }

    fn rows(&self, found: &Found, from: u32, count: usize, rows: &mut Vec<u32>) -> u32 {
        let table = &self.parts[found.part as usize];
        let key = bytes_at(&self.keys, table.row(found.run.start));
        rows_of(table, found, from, count, rows, |row| bytes_at(&self.keys, row) == key)
    }

    fn pairs(&self, found: &[Found], next: &mut Next, count: usize, pairs: &mut Pairs) {
        pairs.extend(of_index(found), next, count, |found, from, rows| self.rows(found, from, count, rows));
    }

    fn walk(
        &self,
        cursor: &mut Cursor,
        count: usize,
        wanted: &dyn Fn(u32) -> bool,
        rows: &mut Vec<u32>,
        keys: &mut Keys,
    ) {
        let Keys::Bytes(keys) = keys else { return };
        walk(&self.parts, cursor, count, wanted, rows, |_, row| {
            keys.push(bytes_at(&self.keys, row));
            keys.bytes.len() < KEY_BYTES
        });
    }
}

/// Whole numbers close together.
pub(crate) struct Numbers<W> {
    pub(crate) table: Direct,
    pub(crate) word: std::marker::PhantomData<fn() -> W>,
}

impl<W: KeyWord> Index for Numbers<W> {
    fn find(&self, packed: &Packed, valid: Option<&NullBuffer>, found: &mut Vec<Found>) {
        let keys = W::of(&packed.keys);
        found.reserve(keys.len());
        let mut runs = [Run::default(); TOGETHER];
        for (number, together) in keys.chunks(TOGETHER).enumerate() {
            for (run, key) in runs.iter_mut().zip(together) {
                *run = self.table.run(key.widen() as u64);
            }
            for (at, run) in runs.iter().enumerate().take(together.len()) {
                let row = number * TOGETHER + at;
                if run.start < run.end && valid.is_none_or(|valid| valid.is_valid(row)) {
                    found.push(Found { row: row as u32, part: 0, run: *run });
                }
            }
        }
    }

    fn may_have(&self, packed: &Packed, answers: &mut Vec<bool>) {
        answers.extend(W::of(&packed.keys).iter().map(|key| {
            let run = self.table.run(key.widen() as u64);
            run.start < run.end
        }));
    }

    fn rows(&self, found: &Found, from: u32, count: usize, rows: &mut Vec<u32>) -> u32 {
        if from == found.run.end || rows.len() == count {
            return from;
        }
        rows.push(from);
        found.run.end
    }

    fn pairs(&self, found: &[Found], next: &mut Next, count: usize, pairs: &mut Pairs) {
        // One row each: as many pairs as keys.
        let found = of_index(found);
        let end = found.len().min(next.key + count.saturating_sub(pairs.rows.len()));
        let Some(keys) = found.get(next.key..end) else { return };
        pairs.rows.extend(keys.iter().map(|key| key.run.start));
        pairs.probed.extend(keys.iter().map(|key| key.row));
        *next = Next::at(found, end);
    }

    fn walk(
        &self,
        cursor: &mut Cursor,
        count: usize,
        wanted: &dyn Fn(u32) -> bool,
        rows: &mut Vec<u32>,
        keys: &mut Keys,
    ) {
        while rows.len() < count {
            let Some((key, row)) = self.table.get(cursor.place) else { return };
            cursor.place += 1;
            if row != NOBODY && wanted(row) {
                rows.push(row);
                W::push(keys, W::narrow(u128::from(key)));
            }
        }
    }
}

/// Goes on through tables, until there are so many rows or `put` says that it is enough for once.
fn walk<W: KeyWord>(
    parts: &[Unchained<W>],
    cursor: &mut Cursor,
    count: usize,
    wanted: &dyn Fn(u32) -> bool,
    rows: &mut Vec<u32>,
    mut put: impl FnMut(W, u32) -> bool,
) {
    while let Some(part) = parts.get(cursor.part) {
        while cursor.place < part.len() {
            if rows.len() == count {
                return;
            }
            // Fewer than 2^32.
            let (key, row) = part.get(cursor.place as u32);
            cursor.place += 1;
            if wanted(row) {
                rows.push(row);
                if !put(key, row) {
                    return;
                }
            }
        }
        *cursor = Cursor { part: cursor.part + 1, place: 0 };
    }
}

/// Keys of some parts with their rows, each part with as much room as it needs: `rows_of` says how many rows it has.
pub(crate) fn scatter<W: KeyWord>(
    chunks: &[Chunk],
    parts: Range<usize>,
    bits: u32,
    secret: Secret,
    rows_of: &[usize],
) -> Vec<(Vec<W>, Vec<u32>)> {
    put(chunks, parts, bits, rows_of, |keys, put| {
        for (place, key) in W::of(keys).iter().enumerate() {
            put(place, *key, key.hash(secret));
        }
    })
}

/// The same of keys that are bytes.
pub(crate) fn scatter_texts(
    chunks: &[Chunk],
    parts: Range<usize>,
    bits: u32,
    secret: Secret,
    rows_of: &[usize],
) -> Vec<(Vec<u32>, Vec<u32>)> {
    put(chunks, parts, bits, rows_of, |keys, put| {
        let Some(keys) = byte_keys(keys) else { return };
        for place in 0..keys.ends.len() {
            let half = half(of_bytes(keys.get(place), secret));
            put(place, half, whole(half));
        }
    })
}

fn put<W: Copy>(
    chunks: &[Chunk],
    parts: Range<usize>,
    bits: u32,
    rows_of: &[usize],
    keys_of: impl Fn(&Keys, &mut dyn FnMut(usize, W, u64)),
) -> Vec<(Vec<W>, Vec<u32>)> {
    let of_part = |part: usize| (Vec::with_capacity(rows_of[part]), Vec::with_capacity(rows_of[part]));
    let mut tables: Vec<(Vec<W>, Vec<u32>)> = parts.clone().map(of_part).collect();
    for (number, chunk) in chunks.iter().enumerate() {
        keys_of(&chunk.keys.keys, &mut |place, key, hash| {
            let part = part_of(hash, bits);
            if parts.contains(&part) && chunk.valid.as_ref().is_none_or(|valid| valid.is_valid(place)) {
                let (keys, rows) = &mut tables[part - parts.start];
                keys.push(key);
                rows.push(row_number(number, place));
            }
        });
    }
    tables
}

/// A table of a part.
pub(crate) fn table_of<W: KeyWord>(keys: Vec<W>, rows: Vec<u32>, bits: u32, secret: Secret) -> Unchained<W> {
    Unchained::new(keys, rows, bits, |key| key.hash(secret), |left, right| left.0.cmp(&right.0))
}

/// The same of keys that are bytes.
pub(crate) fn table_of_texts(keys: Vec<u32>, rows: Vec<u32>, bits: u32, known: &[Packed]) -> Unchained<u32> {
    let order = |left: (u32, u32), right: (u32, u32)| match left.0.cmp(&right.0) {
        Ordering::Equal => bytes_at(known, left.1).cmp(bytes_at(known, right.1)),
        other => other,
    };
    Unchained::new(keys, rows, bits, whole, order)
}
