//! The tables of a join behind one interface: finds the rows of keys, and walks through all rows.
//!
//! ```text
//!   Words      keys that are words; the number of a row is beside its key, or where the rows of the key are
//!   Texts      keys that are bytes: half of their hash stands for them, and the chunks are asked whether it is right
//!   Numbers    whole numbers close together, each once: no hash
//! ```
//!
//! Built by `build` from all chunks at once; read by all probes.

use std::ops::Range;

use arrow::buffer::NullBuffer;

use super::chunk::{Chunk, row_number};
use crate::hash_table::direct::{Direct, NOBODY};
use crate::hash_table::hash::{Secret, Word};
use crate::hash_table::keys::{Keys, Packed};
use crate::hash_table::unchained::Run;

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
pub(crate) trait KeyWord: Word + Sync {
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

mod texts;
mod words;
pub(crate) use texts::{Texts, scatter_texts, table_of_texts};
pub(crate) use words::{Words, only_table_of, table_of};

#[cfg(test)]
mod tests;
