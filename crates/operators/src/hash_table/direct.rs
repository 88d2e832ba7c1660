//! Key -> row for whole numbers that lie close together, each of them once: no hash, and no key is stored.
//!
//! ```text
//!   key  ->  segment, slot in it  ->  | row | - | row | row | - | ...     4 bytes each; u32::MAX where there is no row
//! ```
//!
//! A key is its place, and comes back from it. Segments have 64 K slots, and are there where a key is: a table grows on both sides
//! without moving what it has.

use super::unchained::Run;

/// The row of no key.
pub(crate) const NOBODY: u32 = u32::MAX;

/// Slots for a row, at most: as many bytes as a table of hashes takes for it.
const SLOTS_PER_ROW: u64 = 3;

/// How the bits of a key are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counting {
    /// The bit that says below zero; 0 of numbers without a sign.
    pub(crate) sign: u64,
    /// All bits of a key.
    pub(crate) mask: u64,
}

impl Counting {
    /// Of so many bits.
    pub(crate) fn of(bits: u32, is_signed: bool) -> Self {
        let sign = if is_signed { 1 << (bits - 1) } else { 0 };
        Self { sign, mask: u64::MAX >> (64 - bits) }
    }

    /// A number that is greater for greater keys.
    #[inline]
    pub(crate) fn place(self, word: u64) -> u64 {
        (word ^ self.sign) & self.mask
    }

    /// The number in a place.
    pub(crate) fn word(self, place: u64) -> u64 {
        place ^ self.sign
    }
}

/// Slots of a segment: those that no key is in are not there.
const SEGMENT_BITS: u32 = if cfg!(test) { 2 } else { 16 };
const SEGMENT: usize = 1 << SEGMENT_BITS;

/// See the module.
#[derive(Debug)]
pub(crate) struct Direct {
    counting: Counting,
    /// The number of the first segment, of all that there might be.
    first: u64,
    /// Without slots where there is no key.
    segments: Vec<Vec<u32>>,
}

/// Segments that will be needed.
pub(crate) struct Touched {
    first: u64,
    is_touched: Vec<bool>,
}

impl Touched {
    /// A key in this place will be there.
    #[inline]
    pub(crate) fn touch(&mut self, place: u64) {
        self.is_touched[((place >> SEGMENT_BITS) - self.first) as usize] = true;
    }

    /// Keys in all of them will.
    pub(crate) fn touch_all(&mut self) {
        self.is_touched.fill(true);
    }
}

impl Direct {
    /// Slots for so many rows with keys in the places from one to another; `None` where they are too far from each other.
    pub(crate) fn slots_for(rows: usize, (least, greatest): (u64, u64)) -> Option<usize> {
        let between = (greatest - least).checked_add(1)?;
        if between > (rows as u64).saturating_mul(SLOTS_PER_ROW) || between > u64::from(u32::MAX) {
            return None;
        }
        usize::try_from(between).ok()
    }

    /// Without slots, for keys that begin somewhere between these.
    pub(crate) fn new(counting: Counting, (least, _): (u64, u64)) -> Self {
        Self { counting, first: least >> SEGMENT_BITS, segments: Vec::new() }
    }

    /// The segments for keys in the places from one to another, none of them touched.
    pub(crate) fn segments_of(&self, (least, greatest): (u64, u64)) -> Touched {
        let first = least >> SEGMENT_BITS;
        let count = (greatest >> SEGMENT_BITS) - first + 1;
        Touched { first, is_touched: vec![false; count as usize] }
    }

    fn segment(&self, number: u64) -> Option<&Vec<u32>> {
        usize::try_from(number.wrapping_sub(self.first)).ok().and_then(|at| self.segments.get(at))
    }

    /// Bytes of those of the segments that are not there yet.
    pub(crate) fn missing_bytes(&self, touched: &Touched) -> usize {
        let is_missing = |at: &u64| self.segment(touched.first + at).is_none_or(Vec::is_empty);
        let numbers = (0..).zip(&touched.is_touched).filter(|(_, is_touched)| **is_touched).map(|(at, _)| at);
        numbers.filter(is_missing).count() * SEGMENT * size_of::<u32>()
    }

    /// Adds those that are not there yet.
    pub(crate) fn add_segments(&mut self, touched: &Touched) {
        if touched.first < self.first {
            let more = (self.first - touched.first) as usize;
            self.segments.splice(0..0, std::iter::repeat_with(Vec::new).take(more));
            self.first = touched.first;
        }
        let start = (touched.first - self.first) as usize;
        if self.segments.len() < start + touched.is_touched.len() {
            self.segments.resize(start + touched.is_touched.len(), Vec::new());
        }
        for (segment, is_touched) in self.segments[start..].iter_mut().zip(&touched.is_touched) {
            if *is_touched && segment.is_empty() {
                *segment = vec![NOBODY; SEGMENT];
            }
        }
    }

    /// Adds a key of a segment that is there; whether it was not there yet, else nothing is changed.
    #[inline]
    pub(crate) fn add(&mut self, key: u64, row: u32) -> bool {
        let place = self.counting.place(key);
        let segment = &mut self.segments[((place >> SEGMENT_BITS) - self.first) as usize];
        let slot = &mut segment[place as usize % SEGMENT];
        let is_free = *slot == NOBODY;
        if is_free {
            *slot = row;
        }
        is_free
    }

    /// The row of a key, or [`NOBODY`].
    #[inline]
    pub(crate) fn row(&self, key: u64) -> u32 {
        let place = self.counting.place(key);
        let segment = self.segment(place >> SEGMENT_BITS);
        segment.and_then(|segment| segment.get(place as usize % SEGMENT)).copied().unwrap_or(NOBODY)
    }

    /// The same as a run of rows that are their own places.
    #[inline]
    pub(crate) fn run(&self, key: u64) -> Run {
        let row = self.row(key);
        Run { start: row, end: if row == NOBODY { row } else { row + 1 } }
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        let slots: usize = self.segments.iter().map(Vec::capacity).sum();
        slots * size_of::<u32>() + self.segments.capacity() * size_of::<Vec<u32>>()
    }

    /// The key of a slot and its row, or [`NOBODY`]; `None` behind the last slot.
    #[inline]
    pub(crate) fn get(&self, slot: usize) -> Option<(u64, u32)> {
        let segment = self.segments.get(slot / SEGMENT)?;
        let row = segment.get(slot % SEGMENT).copied().unwrap_or(NOBODY);
        Some((self.counting.word((self.first << SEGMENT_BITS) + slot as u64), row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_from_their_places() {
        let keys = [-5_i32, 7, 0, -1, 3];
        let counting = Counting::of(32, true);
        let places = keys.map(|key| counting.place(u64::from(key as u32)));
        let (least, greatest) = (*places.iter().min().unwrap(), *places.iter().max().unwrap());
        let slots = Direct::slots_for(keys.len(), (least, greatest)).unwrap();
        assert_eq!(slots, 13);
        let mut table = Direct::new(counting, (counting.place(0), counting.place(0)));
        // As they come, segments are added on both sides.
        for (row, key) in keys.iter().enumerate() {
            let place = counting.place(u64::from(*key as u32));
            let mut touched = table.segments_of((place.min(counting.place(1)), place));
            touched.touch(place);
            let bytes = table.missing_bytes(&touched);
            let before = table.segments.iter().map(Vec::len).sum::<usize>();
            table.add_segments(&touched);
            assert_eq!((table.segments.iter().map(Vec::len).sum::<usize>() - before) * 4, bytes);
            assert!(table.add(u64::from(*key as u32), row as u32));
        }
        assert!(!table.add(u64::from(-1_i32 as u32), 3));
        for key in -20..20_i32 {
            let run = table.run(u64::from(key as u32));
            let row = keys.iter().position(|known| *known == key);
            assert_eq!((run.start..run.end).next(), row.map(|row| row as u32), "{key}");
        }
        let back = (0..).map_while(|slot| table.get(slot)).filter(|(_, row)| *row != NOBODY);
        let back: Vec<(i32, u32)> = back.map(|(key, row)| (key as u32 as i32, row)).collect();
        assert_eq!(back, [(-5, 0), (-1, 3), (0, 2), (3, 4), (7, 1)]);
        // Of -5, of -1, of 0 and 3, and of 7.
        assert_eq!(table.segments.iter().filter(|segment| !segment.is_empty()).count(), 4);
    }

    #[test]
    fn numbers_at_both_ends_of_their_type_are_too_far_apart() {
        let counting = Counting::of(64, true);
        let ends = (counting.place(i64::MIN as u64), counting.place(i64::MAX as u64));
        assert_eq!(ends, (0, u64::MAX));
        assert_eq!(Direct::slots_for(1 << 40, ends), None);
        assert_eq!(Direct::slots_for(10, (5, 34)), Some(30));
        assert_eq!(Direct::slots_for(10, (5, 35)), None);
    }
}
