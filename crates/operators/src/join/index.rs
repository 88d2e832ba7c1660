//! The tables of a join behind one interface: finds the rows of keys, and walks through all rows.
//!
//! ```text
//!   Words      keys that are words; the number of a row is beside its key, or where the rows of the key are
//!   Texts      keys that are bytes: half of their hash stands for them, and the chunks are asked whether it is right
//!   Numbers    whole numbers close together, each once: no hash
//! ```
//!
//! Built by `build` from all chunks at once; read by all probes.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow::buffer::NullBuffer;

use super::chunk::{Chunk, place_of, row_number};
use super::texts::BYTES_MAX;
use crate::hash_table::direct::{Direct, NOBODY};
use crate::hash_table::hash::{Secret, Word, of_bytes};
use crate::hash_table::keys::{ByteKeys, Keys, Packed};
use crate::hash_table::unchained::{Run, Unchained};

/// Rows whose places are asked for together.
const TOGETHER: usize = 64;

/// Rows of the build side that have the key of a row of the probe side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// Of the probe side.
    pub(crate) row: u32,
    pub(crate) part: u32,
    /// Places that have its key: one at least. What a place is knows the index.
    pub(crate) run: Run,
}

/// Pairs of rows where each key is there once: of the build side, and of the probe side in its order. The latter are not named where all of
/// them have one.
#[derive(Debug, Default)]
pub(crate) struct Ones {
    pub(crate) rows: Vec<u32>,
    pub(crate) probed: Vec<u32>,
    pub(crate) is_whole: bool,
}

impl Ones {
    /// Makes room for the pairs of so many rows of the probe side.
    fn begin(&mut self, rows: usize) {
        self.rows.clear();
        self.probed.clear();
        self.rows.reserve(rows);
        self.probed.reserve(rows);
    }

    /// They were found for so many rows of the probe side.
    fn end(&mut self, probed: usize) {
        self.is_whole = self.rows.len() == probed;
        if self.is_whole {
            self.probed.clear();
        }
    }

    /// Names the rows of the probe side, where that was left out.
    pub(crate) fn name(&mut self) {
        if self.probed.len() < self.rows.len() {
            self.probed.clear();
            // A batch has fewer than 2^32 rows.
            self.probed.extend(0..self.rows.len() as u32);
        }
    }
}

/// How far somebody has come who puts pairs together: keys, and a place in the run of the next one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reached {
    pub(crate) keys: usize,
    pub(crate) place: u32,
}

/// See the module.
pub(crate) trait Index: Send + Sync {
    /// Finds keys. Rows that are not valid have none.
    fn find(&self, packed: &Packed, valid: Option<&NullBuffer>, found: &mut Vec<Found>);

    /// Finds keys where each is there once, in the place of [`Self::find`]; whether it is so.
    fn find_ones(&self, packed: &Packed, valid: Option<&NullBuffer>, ones: &mut Ones) -> bool;

    /// Puts pairs together, from where somebody has come, until there are so many or no more.
    fn pairs(&self, found: &[Found], reached: &mut Reached, count: usize, rows: &mut Vec<u32>, probed: &mut Vec<u32>);

    /// Whether keys may be there: they are not, where it says so.
    fn may_have(&self, packed: &Packed, answers: &mut Vec<bool>);

    /// The rows of a key, from a place on, at most so many; the place behind the last one, or the end of the run.
    fn rows(&self, found: &Found, from: u32, count: usize, rows: &mut Vec<u32>) -> u32;

    /// Goes on to the rows that are wanted, with their keys, until there are so many or no more, or as many bytes of keys as a batch that
    /// comes out is to have.
    fn walk(
        &self,
        cursor: &mut Cursor,
        count: usize,
        wanted: &dyn Fn(u32) -> bool,
        rows: &mut Vec<u32>,
        keys: &mut Keys,
    );

    /// Numbers rows anew, in the order in which their keys lie here, where each key is there once; the numbers that they had, in this order, and the bytes
    /// that this holds from now on. Asks `may` before, and does nothing where that says no, or where there is no such order: `None`.
    fn renumber(&mut self, may: &mut dyn FnMut() -> bool) -> Option<(Vec<u32>, usize)>;

    /// Shows all keys, those that are there several times once or side by side as far as their hashes are, until `next` says that it is enough.
    fn each_key(&self, next: &mut dyn FnMut(Key<'_>) -> bool);
}

/// A key as it is packed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Key<'k> {
    Word(u128),
    Bytes(&'k [u8]),
}

/// How far somebody has come who walks through an index: a part, a place in it, and a row there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    part: usize,
    place: usize,
    /// Of the rows of the key that is there.
    row: usize,
}

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

/// The tables of all parts, in which keys are looked for.
struct Parts<'a, W> {
    parts: &'a [Unchained<W>],
    bits: u32,
}

impl<W: KeyWord> Parts<'_, W> {
    /// Finds the keys of rows. `word` gives what stands for the key of a row, and its hash; `exact` of the places of a table that
    /// have it those with the key of a row.
    #[inline]
    fn find(
        &self,
        rows: usize,
        word: impl Fn(usize) -> (W, u64),
        exact: impl Fn(&Unchained<W>, Run, usize) -> Run,
        valid: Option<&NullBuffer>,
        found: &mut Vec<Found>,
    ) {
        let mut places = [(0_u32, W::default(), 0_u64, Run::default()); TOGETHER];
        for start in (0..rows).step_by(TOGETHER) {
            let places = &mut places[..TOGETHER.min(rows - start)];
            // Each loop asks for what the next one reads, and decides nothing: the processor waits for all of it at once.
            for (row, (part, word_of, hash_of, _)) in (start..).zip(places.iter_mut()) {
                (*word_of, *hash_of) = word(row);
                *part = part_of(*hash_of, self.bits) as u32;
                let table = &self.parts[*part as usize];
                table.ask_for_slot(*hash_of);
            }
            for (part, _, hash, run) in places.iter_mut() {
                let table = &self.parts[*part as usize];
                *run = table.run(*hash);
                table.ask_for_keys(*run);
                table.ask_for_rows(*run);
            }
            let each = (start..).zip(places.iter()).map(|(row, (part, word, _, run))| {
                let table = &self.parts[*part as usize];
                Found { row: row as u32, part: *part, run: exact(table, table.same(*run, *word), row) }
            });
            keep(each, valid, found);
        }
    }

    /// Whether a key with this hash may be there.
    #[inline]
    fn may_have(&self, hash: u64) -> bool {
        let run = self.parts[part_of(hash, self.bits)].run(hash);
        run.start < run.end
    }
}

/// Keeps of up to [`TOGETHER`] rows those that have a key that is there: written one over the other, since whether a row has is
/// nothing to be guessed.
#[inline]
fn keep(each: impl Iterator<Item = Found>, valid: Option<&NullBuffer>, found: &mut Vec<Found>) {
    let mut kept = [Found { row: 0, part: 0, run: Run::default() }; TOGETHER];
    let mut count = 0;
    for one in each {
        kept[count] = one;
        let is_valid = valid.is_none_or(|valid| valid.is_valid(one.row as usize));
        count += usize::from(one.run.start < one.run.end && is_valid);
    }
    found.extend_from_slice(&kept[..count]);
}

/// The rows of a key, from a place on.
#[inline]
fn rows_of<W: KeyWord>(table: &Unchained<W>, found: &Found, from: u32, count: usize, rows: &mut Vec<u32>) -> u32 {
    let more = (found.run.end - from).min((count - rows.len()) as u32);
    rows.extend_from_slice(table.rows(Run { start: from, end: from + more }));
    from + more
}

/// Pairs of the rows of keys, where the rows of a run are known.
#[inline]
pub(crate) fn pairs<'a>(
    found: &[Found],
    reached: &mut Reached,
    count: usize,
    rows: &mut Vec<u32>,
    probed: &mut Vec<u32>,
    rows_of: impl Fn(&Found, Run) -> &'a [u32],
) {
    while let Some(one) = found.get(reached.keys)
        && rows.len() < count
    {
        let from = reached.place.max(one.run.start);
        let more = (one.run.end - from).min((count - rows.len()) as u32);
        match rows_of(one, Run { start: from, end: from + more }) {
            // As a rule; cheaper than copying any number.
            [only] => {
                rows.push(*only);
                probed.push(one.row);
            }
            several => {
                rows.extend_from_slice(several);
                probed.resize(rows.len(), one.row);
            }
        }
        if from + more < one.run.end {
            reached.place = from + more;
            return;
        }
        *reached = Reached { keys: reached.keys + 1, place: 0 };
    }
}

/// The same where each key has one row, which is the place where it was found.
#[inline]
fn pairs_of_ones(found: &[Found], reached: &mut Reached, count: usize, rows: &mut Vec<u32>, probed: &mut Vec<u32>) {
    let more = &found[reached.keys..];
    let more = &more[..more.len().min(count - rows.len())];
    rows.extend(more.iter().map(|one| one.run.start));
    probed.extend(more.iter().map(|one| one.row));
    reached.keys += more.len();
}

/// Rows of a key: few, as a rule, and not worth a call.
#[inline]
fn push_few(rows: &mut Vec<u32>, more: &[u32]) {
    const FEW: usize = 4;
    if more.len() > 8 * FEW {
        rows.extend_from_slice(more);
        return;
    }
    let (fours, rest) = more.as_chunks::<FEW>();
    fours.iter().for_each(|four| rows.extend_from_slice(four));
    rest.iter().for_each(|row| rows.push(*row));
}

/// The row of such a key, unless somebody is behind it or has as many as he wants; the place behind it then.
#[inline]
fn row_of_one(found: &Found, from: u32, count: usize, rows: &mut Vec<u32>) -> u32 {
    if from == found.run.end || rows.len() == count {
        return from;
    }
    rows.push(from);
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
        // Different keys with the same half are rare, and in order.
        let exact = |table: &Unchained<u32>, run: Run, row: usize| {
            let (rows, key) = (table.rows(run), keys.get(row));
            let before = rows.partition_point(|known| bytes_at(&self.keys, *known) < key);
            let count = rows[before..].partition_point(|known| bytes_at(&self.keys, *known) == key);
            let start = run.start + before as u32;
            Run { start, end: start + count as u32 }
        };
        let parts = Parts { parts: &self.parts, bits: self.bits };
        parts.find(packed.len(), |row| self.hash(keys.get(row)), exact, valid, found);
    }

    /// Half a hash that is there once says little of its key.
    fn find_ones(&self, _: &Packed, _: Option<&NullBuffer>, _: &mut Ones) -> bool {
        false
    }

    fn pairs(&self, found: &[Found], reached: &mut Reached, count: usize, rows: &mut Vec<u32>, probed: &mut Vec<u32>) {
        let rows_of = |found: &Found, run: Run| self.parts[found.part as usize].rows(run);
        pairs(found, reached, count, rows, probed, rows_of);
    }

    fn may_have(&self, packed: &Packed, answers: &mut Vec<bool>) {
        let Some(keys) = byte_keys(&packed.keys) else { return };
        let parts = Parts { parts: &self.parts, bits: self.bits };
        answers.extend((0..packed.len()).map(|row| parts.may_have(self.hash(keys.get(row)).1)));
    }

    fn rows(&self, found: &Found, from: u32, count: usize, rows: &mut Vec<u32>) -> u32 {
        rows_of(&self.parts[found.part as usize], found, from, count, rows)
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
            keys.bytes.len() < BYTES_MAX
        });
    }

    /// Keys lie with the numbers that rows have.
    fn renumber(&mut self, _: &mut dyn FnMut() -> bool) -> Option<(Vec<u32>, usize)> {
        None
    }

    fn each_key(&self, next: &mut dyn FnMut(Key<'_>) -> bool) {
        each_row(&self.parts, |_, row| next(Key::Bytes(bytes_at(&self.keys, row))));
    }
}

/// Whole numbers close together.
pub(crate) struct Numbers<W> {
    pub(crate) table: Direct,
    pub(crate) word: std::marker::PhantomData<fn() -> W>,
}

impl<W: KeyWord> Index for Numbers<W> {
    fn find(&self, packed: &Packed, valid: Option<&NullBuffer>, found: &mut Vec<Found>) {
        for (number, together) in W::of(&packed.keys).chunks(TOGETHER).enumerate() {
            let each = together.iter().enumerate().map(|(at, key)| {
                let row = number * TOGETHER + at;
                Found { row: row as u32, part: 0, run: self.table.run(key.widen() as u64) }
            });
            keep(each, valid, found);
        }
    }

    fn find_ones(&self, packed: &Packed, valid: Option<&NullBuffer>, ones: &mut Ones) -> bool {
        let keys = W::of(&packed.keys);
        ones.rows.clear();
        match self.table.series() {
            Some(series) => ones.rows.extend(keys.iter().map(|key| series.row(key.widen() as u64))),
            None => ones.rows.extend(keys.iter().map(|key| self.table.row(key.widen() as u64))),
        }
        // As a rule all are there.
        let missing = ones.rows.iter().filter(|row| **row == NOBODY).count();
        if missing == 0 && valid.is_none() {
            ones.probed.clear();
            ones.is_whole = true;
            return true;
        }
        let mut count = 0;
        ones.probed.resize(keys.len(), 0);
        for row in 0..keys.len() {
            let found = ones.rows[row];
            (ones.rows[count], ones.probed[count]) = (found, row as u32);
            count += usize::from(found != NOBODY && valid.is_none_or(|valid| valid.is_valid(row)));
        }
        ones.rows.truncate(count);
        ones.probed.truncate(count);
        ones.end(keys.len());
        true
    }

    fn pairs(&self, found: &[Found], reached: &mut Reached, count: usize, rows: &mut Vec<u32>, probed: &mut Vec<u32>) {
        pairs_of_ones(found, reached, count, rows, probed);
    }

    fn may_have(&self, packed: &Packed, answers: &mut Vec<bool>) {
        answers.extend(W::of(&packed.keys).iter().map(|key| {
            let run = self.table.run(key.widen() as u64);
            run.start < run.end
        }));
    }

    fn rows(&self, found: &Found, from: u32, count: usize, rows: &mut Vec<u32>) -> u32 {
        row_of_one(found, from, count, rows)
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

    fn renumber(&mut self, may: &mut dyn FnMut() -> bool) -> Option<(Vec<u32>, usize)> {
        may().then(|| (self.table.renumber(), self.table.bytes()))
    }

    fn each_key(&self, next: &mut dyn FnMut(Key<'_>) -> bool) {
        let mut place = 0;
        while let Some((key, row)) = self.table.get(place) {
            place += 1;
            if row != NOBODY && !next(Key::Word(u128::from(key))) {
                return;
            }
        }
    }
}

/// Shows the rows of tables with what stands for their keys, until `next` says that it is enough.
fn each_row<W: KeyWord>(parts: &[Unchained<W>], mut next: impl FnMut(W, u32) -> bool) {
    for part in parts {
        for place in 0..part.len() {
            // Fewer than 2^32.
            let (key, row) = part.get(place as u32);
            if !next(key, row) {
                return;
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
        *cursor = Cursor { part: cursor.part + 1, ..Cursor::default() };
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

/// A table of a part, of keys that are bytes.
pub(crate) fn table_of_texts(keys: Vec<u32>, rows: Vec<u32>, bits: u32, known: &[Packed]) -> Unchained<u32> {
    let order = |left: (u32, u32), right: (u32, u32)| match left.0.cmp(&right.0) {
        Ordering::Equal => bytes_at(known, left.1).cmp(bytes_at(known, right.1)),
        other => other,
    };
    Unchained::new(keys, rows, bits, whole, order)
}

mod words;
pub(crate) use words::{Words, only_table_of, table_of};

#[cfg(test)]
mod tests;
