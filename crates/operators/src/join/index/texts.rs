//! Keys that are bytes: half of a hash stands for each, and the chunks are asked whether it is right.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow::buffer::NullBuffer;

use super::{Cursor, Found, Index, Key, Ones, Reached, TOGETHER, keep, pairs, part_of, put};
use crate::hash_table::hash::{Secret, of_bytes};
use crate::hash_table::keys::{ByteKeys, Keys, Packed};
use crate::hash_table::unchained::{Run, Unchained};
use crate::join::chunk::{Chunk, place_of};
use crate::join::texts::BYTES_MAX;

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

    /// Of the places of a table that have half the hash of a key, those that have the key.
    fn exact(&self, table: &Unchained<u32>, run: Run, key: &[u8]) -> Run {
        // Different keys with the same half are rare, and in order.
        let rows = table.rows(run);
        let before = rows.partition_point(|known| bytes_at(&self.keys, *known) < key);
        let count = rows[before..].partition_point(|known| bytes_at(&self.keys, *known) == key);
        let start = run.start + before as u32;
        Run { start, end: start + count as u32 }
    }
}

impl Index for Texts {
    fn find(&self, packed: &Packed, valid: Option<&NullBuffer>, found: &mut Vec<Found>) {
        let Some(keys) = byte_keys(&packed.keys) else { return };
        let mut places = [(0_u32, 0_u32, 0_u64, Run::default()); TOGETHER];
        for start in (0..packed.len()).step_by(TOGETHER) {
            let places = &mut places[..TOGETHER.min(packed.len() - start)];
            // Each loop asks for what the next one reads, and decides nothing: the processor waits for all of it at once.
            for (row, (part, half, hash, _)) in (start..).zip(places.iter_mut()) {
                (*half, *hash) = self.hash(keys.get(row));
                *part = part_of(*hash, self.bits) as u32;
                self.parts[*part as usize].ask_for_slot(*hash);
            }
            for (part, _, hash, run) in places.iter_mut() {
                let table = &self.parts[*part as usize];
                *run = table.run(*hash);
                table.ask_for_keys(*run);
                table.ask_for_rows(*run);
            }
            let each = (start..).zip(places.iter()).map(|(row, (part, half, _, run))| {
                let table = &self.parts[*part as usize];
                let run = self.exact(table, table.same(*run, *half), keys.get(row));
                Found { row: row as u32, part: *part, run }
            });
            keep(each, valid, found);
        }
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
        answers.extend((0..packed.len()).map(|row| {
            let (_, hash) = self.hash(keys.get(row));
            let run = self.parts[part_of(hash, self.bits)].run(hash);
            run.start < run.end
        }));
    }

    fn rows(&self, found: &Found, from: u32, count: usize, rows: &mut Vec<u32>) -> u32 {
        let more = (found.run.end - from).min((count - rows.len()) as u32);
        rows.extend_from_slice(self.parts[found.part as usize].rows(Run { start: from, end: from + more }));
        from + more
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
        while let Some(part) = self.parts.get(cursor.part) {
            while cursor.place < part.len() {
                if rows.len() == count || keys.bytes.len() >= BYTES_MAX {
                    return;
                }
                let row = part.row(cursor.place);
                cursor.place += 1;
                if wanted(row) {
                    rows.push(row);
                    keys.push(bytes_at(&self.keys, row));
                }
            }
            *cursor = Cursor { part: cursor.part + 1, ..Cursor::default() };
        }
    }

    /// Keys lie with the numbers that rows have.
    fn renumber(&mut self, _: &mut dyn FnMut() -> bool) -> Option<(Vec<u32>, usize)> {
        None
    }

    fn each_key(&self, next: &mut dyn FnMut(Key<'_>) -> bool) {
        for part in &self.parts {
            for place in 0..part.len() {
                if !next(Key::Bytes(bytes_at(&self.keys, part.row(place)))) {
                    return;
                }
            }
        }
    }
}

/// Halves of the hashes of keys of some parts, with their rows, each part with as much room as it needs: `rows_of` says how many rows it has.
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

/// A table of a part, of keys that are bytes.
pub(crate) fn table_of_texts(keys: Vec<u32>, rows: Vec<u32>, bits: u32, known: &[Packed]) -> Unchained<u32> {
    let order = |left: (u32, u32), right: (u32, u32)| match left.0.cmp(&right.0) {
        Ordering::Equal => bytes_at(known, left.1).cmp(bytes_at(known, right.1)),
        other => other,
    };
    Unchained::new(keys, rows, bits, whole, order)
}
