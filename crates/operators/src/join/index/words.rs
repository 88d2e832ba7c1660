//! Keys that are words: a table for each part by some bits of their hashes.

use std::sync::atomic::{AtomicBool, Ordering};

use arrow::buffer::NullBuffer;

use super::{
    Cursor, Found, Index, Key, KeyWord, Ones, Reached, Run, TOGETHER, pairs_of_ones, part_of, push_few, row_of_one,
};
use crate::hash_table::hash::Secret;
use crate::hash_table::keys::{Keys, Packed};
use crate::hash_table::machine::NEAREST;
use crate::hash_table::runs::Runs;

/// The part of what was found of a key that has one row: its place is the number of the row. (The last number of all is that of NULL, of which an index
/// knows nothing: see `probe`.)
const ONE: u32 = u32::MAX - 1;

/// One key of so many is not there: then it is worth while to take the same way for all.
const ONE_OF: usize = 16;

/// See the module.
pub(crate) struct Words<W, const LANES: usize, const PLACES: usize> {
    pub(crate) parts: Vec<Runs<W, LANES, PLACES>>,
    pub(crate) bits: u32,
    pub(crate) secret: Secret,
    /// Whether many keys of the last batch were not there.
    pub(crate) is_rare: AtomicBool,
}

/// What is left of a hash in a table of a part by so many of its bits.
#[inline]
fn rest(hash: u64, bits: u32) -> u64 {
    hash << bits
}

/// A table of a part, of so many keys and their rows.
pub(crate) fn table_of<W: KeyWord, const LANES: usize, const PLACES: usize>(
    count: usize,
    pairs: impl Iterator<Item = (W, u32)> + Clone,
    bits: u32,
    secret: Secret,
) -> Runs<W, LANES, PLACES> {
    Runs::new(count, pairs, |key| rest(key.hash(secret), bits))
}

/// One table of all parts, with room for so many keys, where each is there once.
pub(crate) fn only_table_of<W: KeyWord, const LANES: usize, const PLACES: usize>(
    room: usize,
    pairs: impl Iterator<Item = (W, u32)>,
    secret: Secret,
) -> Option<Runs<W, LANES, PLACES>> {
    Runs::once(room, pairs, |key| key.hash(secret))
}

impl<W: KeyWord, const LANES: usize, const PLACES: usize> Words<W, LANES, PLACES> {
    /// Looks up keys by `look`, and shows of each its number, its part and what was seen of it.
    #[inline]
    fn look_up<const IS_FAR: bool, S>(
        &self,
        keys: &[W],
        look: impl Fn(&Runs<W, LANES, PLACES>, u64, W) -> S,
        show: impl FnMut(usize, u32, S),
    ) {
        match &self.parts[..] {
            // What one table is made of stays in registers.
            [only] => look_up::<W, S, LANES, PLACES, IS_FAR>(|_| 0, |_| only, 0, self.secret, keys, look, show),
            parts => {
                let part_of = |hash| part_of(hash, self.bits) as u32;
                let table_of = |part| &parts[part as usize];
                look_up::<W, S, LANES, PLACES, IS_FAR>(part_of, table_of, self.bits, self.secret, keys, look, show);
            }
        }
    }

    fn is_far(&self) -> bool {
        self.parts.iter().map(Runs::bytes).sum::<usize>() > NEAREST
    }

    fn is_once(&self) -> bool {
        self.parts.iter().all(Runs::is_once)
    }
}

/// See [`Words::look_up`]. `IS_FAR` says whether memory is to be asked for.
#[inline]
fn look_up<'a, W: KeyWord, S, const LANES: usize, const PLACES: usize, const IS_FAR: bool>(
    part_of: impl Fn(u64) -> u32,
    table_of: impl Fn(u32) -> &'a Runs<W, LANES, PLACES>,
    bits: u32,
    secret: Secret,
    keys: &[W],
    look: impl Fn(&Runs<W, LANES, PLACES>, u64, W) -> S,
    mut show: impl FnMut(usize, u32, S),
) {
    let (mut parts, mut rests) = ([0_u32; TOGETHER], [0_u64; TOGETHER]);
    for (number, keys) in keys.chunks(TOGETHER).enumerate() {
        let (parts, rests) = (&mut parts[..keys.len()], &mut rests[..keys.len()]);
        // Each loop asks for what the next one reads, and decides nothing: the processor waits for all of it at once.
        for (key, (part, rest_of)) in keys.iter().zip(parts.iter_mut().zip(rests.iter_mut())) {
            let hash = key.hash(secret);
            (*part, *rest_of) = (part_of(hash), rest(hash, bits));
            if IS_FAR {
                table_of(*part).ask_for(*rest_of);
            }
        }
        for (row, (key, (part, rest))) in (number * TOGETHER..).zip(keys.iter().zip(parts.iter().zip(rests.iter()))) {
            show(row, *part, look(table_of(*part), *rest, *key));
        }
    }
}

impl<W: KeyWord, const LANES: usize, const PLACES: usize> Index for Words<W, LANES, PLACES> {
    fn find(&self, packed: &Packed, valid: Option<&NullBuffer>, found: &mut Vec<Found>) {
        for (number, keys) in W::of(&packed.keys).chunks(TOGETHER).enumerate() {
            let before = found.len();
            self.look_up::<true, _>(keys, Runs::look_up, |at, part, ((id, is_marked), is_there)| {
                let row = number * TOGETHER + at;
                if !is_there || valid.is_some_and(|valid| valid.is_null(row)) {
                    return;
                }
                // The last number of all is no row's.
                let (part, end) = if is_marked { (part, id) } else { (ONE, id + 1) };
                found.push(Found { row: row as u32, part, run: Run { start: id, end } });
                if is_marked {
                    self.parts[part as usize].ask_for_rows(id);
                }
            });
            for one in &mut found[before..] {
                if one.part != ONE {
                    let places = self.parts[one.part as usize].places(one.run.start);
                    one.run = Run { start: places.start, end: places.end };
                }
            }
        }
    }

    fn find_ones(&self, packed: &Packed, valid: Option<&NullBuffer>, ones: &mut Ones) -> bool {
        if !self.is_once() {
            return false;
        }
        let keys = W::of(&packed.keys);
        ones.begin(keys.len());
        let (mut rows, mut probed, mut count) = ([0_u32; TOGETHER], [0_u32; TOGETHER], 0);
        let show = |row: usize, _: u32, (found, is_there): (u32, bool)| {
            // Written one over the other, as in `keep`.
            (rows[count], probed[count]) = (found, row as u32);
            count += usize::from(is_there && valid.is_none_or(|valid| valid.is_valid(row)));
            if count == TOGETHER {
                ones.rows.extend_from_slice(&rows);
                ones.probed.extend_from_slice(&probed);
                count = 0;
            }
        };
        // As the last batch was, the next one is, more often than not.
        match (self.is_far(), self.is_rare.load(Ordering::Relaxed)) {
            (true, false) => self.look_up::<true, _>(keys, Runs::look_up_once, show),
            (true, true) => self.look_up::<true, _>(keys, Runs::look_up_rare, show),
            (false, false) => self.look_up::<false, _>(keys, Runs::look_up_once, show),
            (false, true) => self.look_up::<false, _>(keys, Runs::look_up_rare, show),
        }
        ones.rows.extend_from_slice(&rows[..count]);
        ones.probed.extend_from_slice(&probed[..count]);
        let is_rare = keys.len() - ones.rows.len() > keys.len() / ONE_OF;
        if self.is_rare.load(Ordering::Relaxed) != is_rare {
            self.is_rare.store(is_rare, Ordering::Relaxed);
        }
        ones.end(keys.len());
        true
    }

    fn pairs(&self, found: &[Found], reached: &mut Reached, count: usize, rows: &mut Vec<u32>, probed: &mut Vec<u32>) {
        while let Some(one) = found.get(reached.keys)
            && rows.len() < count
        {
            if one.part == ONE {
                // As many as follow each other, and one at least.
                let ones =
                    found[reached.keys..].iter().take(count - rows.len()).take_while(|one| one.part == ONE).count();
                pairs_of_ones(&found[..reached.keys + ones], reached, count, rows, probed);
                continue;
            }
            let from = reached.place.max(one.run.start);
            let more = (one.run.end - from).min((count - rows.len()) as u32);
            push_few(rows, self.parts[one.part as usize].rows(from..from + more));
            probed.resize(rows.len(), one.row);
            if from + more < one.run.end {
                reached.place = from + more;
                return;
            }
            *reached = Reached { keys: reached.keys + 1, place: 0 };
        }
    }

    fn may_have(&self, packed: &Packed, answers: &mut Vec<bool>) {
        self.look_up::<true, _>(W::of(&packed.keys), Runs::look_up_rare, |_, _, (_, is_there)| answers.push(is_there));
    }

    fn rows(&self, found: &Found, from: u32, count: usize, rows: &mut Vec<u32>) -> u32 {
        if found.part == ONE {
            return row_of_one(found, from, count, rows);
        }
        let more = (found.run.end - from).min((count - rows.len()) as u32);
        rows.extend_from_slice(self.parts[found.part as usize].rows(from..from + more));
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
        while let Some(part) = self.parts.get(cursor.part) {
            for (behind, entry) in part.entries(cursor.place) {
                let of_key = if entry.is_marked { part.rows(part.places(entry.id)) } else { &[entry.id] };
                for row in &of_key[cursor.row..] {
                    if rows.len() == count {
                        return;
                    }
                    cursor.row += 1;
                    if wanted(*row) {
                        rows.push(*row);
                        W::push(keys, entry.word);
                    }
                }
                (cursor.place, cursor.row) = (behind, 0);
            }
            *cursor = Cursor { part: cursor.part + 1, ..Cursor::default() };
        }
    }

    fn renumber(&mut self, may: &mut dyn FnMut() -> bool) -> Option<(Vec<u32>, usize)> {
        let [only] = &mut self.parts[..] else { return None };
        (only.is_once() && may()).then(|| (only.renumber(), only.bytes()))
    }

    fn each_key(&self, next: &mut dyn FnMut(Key<'_>) -> bool) {
        for part in &self.parts {
            for (_, entry) in part.entries(0) {
                if !next(Key::Word(entry.word.widen())) {
                    return;
                }
            }
        }
    }
}
