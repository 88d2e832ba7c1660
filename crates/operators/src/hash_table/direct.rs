//! Key -> row for distinct integers that lie close together: without hashing, and without storing the keys.
//!
//! ```text
//!   key  ->  segment, slot in it  ->  | row | - | row | row | - | ...     4 bytes each; u32::MAX where there is no row
//! ```
//!
//! A key is the position of its slot, and is computed from it again. A segment has 64 K slots, and exists only if it has a key, so a
//! table grows in both directions without moving anything.
//!
//! If rows are in the order of their keys, and no key between the first and the last one is missing, there are no slots: the row of a
//! key is its distance from the first key.

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
pub(crate) const SEGMENT: usize = 1 << SEGMENT_BITS;

/// See the module.
#[derive(Debug)]
pub(crate) struct Direct {
    counting: Counting,
    /// The number of the first segment, of all that there might be.
    first: u64,
    /// Without slots where there is no key.
    segments: Vec<Vec<u32>>,
    /// In the place of all segments.
    series: Option<Series>,
}

/// Keys of which none is missing between the first and the last one, and whose rows are numbered in their order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Series {
    counting: Counting,
    /// The place of the first key.
    least: u64,
    /// How many there are: fewer than 2^32.
    count: u64,
}

impl Series {
    /// The row of a key, or [`NOBODY`].
    #[inline]
    pub(crate) fn row(&self, key: u64) -> u32 {
        let row = self.counting.place(key).wrapping_sub(self.least);
        if row < self.count { row as u32 } else { NOBODY }
    }

    /// The key of a row.
    #[inline]
    fn key(&self, row: usize) -> Option<(u64, u32)> {
        let is_there = (row as u64) < self.count;
        is_there.then(|| (self.counting.word(self.least + row as u64), row as u32))
    }
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
        Self { counting, first: least >> SEGMENT_BITS, segments: Vec::new(), series: None }
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

    /// How many segments lie between the first and the last one when these are there, too.
    fn span_with(&self, touched: &Touched) -> usize {
        let end = (self.first + self.segments.len() as u64).max(touched.first + touched.is_touched.len() as u64);
        (end - self.first.min(touched.first)) as usize
    }

    /// Bytes of those of the segments that are not there yet, and of what is added to their list.
    pub(crate) fn missing_bytes(&self, touched: &Touched) -> usize {
        let listed = self.span_with(touched).saturating_sub(self.segments.capacity()) * size_of::<Vec<u32>>();
        let is_missing = |at: &u64| self.segment(touched.first + at).is_none_or(Vec::is_empty);
        let numbers = (0..).zip(&touched.is_touched).filter(|(_, is_touched)| **is_touched).map(|(at, _)| at);
        listed + numbers.filter(is_missing).count() * SEGMENT * size_of::<u32>()
    }

    /// Adds those that are not there yet.
    pub(crate) fn add_segments(&mut self, touched: &Touched) {
        // As many as were charged.
        self.segments.reserve_exact(self.span_with(touched) - self.segments.len());
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

    /// Numbers rows anew, by their keys; the numbers that they had, in this order. No key is added any more.
    pub(crate) fn renumber(&mut self) -> Vec<u32> {
        let rows = self.segments.iter().flatten().filter(|row| **row != NOBODY).count();
        let mut order = Vec::with_capacity(rows);
        let mut ends: Option<(u64, u64)> = None;
        for (number, segment) in (self.first..).zip(&mut self.segments) {
            for (slot, row) in segment.iter_mut().enumerate().filter(|(_, row)| **row != NOBODY) {
                let place = (number << SEGMENT_BITS) + slot as u64;
                ends = Some((ends.map_or(place, |(least, _)| least), place));
                // Fewer than 2^32.
                let renumbered = order.len() as u32;
                order.push(std::mem::replace(row, renumbered));
            }
        }
        let count = order.len() as u64;
        if let Some((least, greatest)) = ends
            && greatest - least == count - 1
        {
            self.series = Some(Series { counting: self.counting, least, count });
            self.segments = Vec::new();
        }
        order
    }

    /// Keys that say the numbers of their rows by themselves, where they do.
    pub(crate) fn series(&self) -> Option<Series> {
        self.series
    }

    /// The row of a key, or [`NOBODY`].
    #[inline]
    pub(crate) fn row(&self, key: u64) -> u32 {
        if let Some(series) = &self.series {
            return series.row(key);
        }
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
        if let Some(series) = &self.series {
            return series.key(slot);
        }
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
            let before = table.bytes();
            table.add_segments(&touched);
            assert_eq!(table.bytes() - before, bytes);
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

    /// A table of these keys, whose rows are their places among them.
    fn table_of(keys: &[i64]) -> Direct {
        let counting = Counting::of(64, true);
        let places: Vec<u64> = keys.iter().map(|key| counting.place(*key as u64)).collect();
        let bounds = (*places.iter().min().unwrap(), *places.iter().max().unwrap());
        let mut table = Direct::new(counting, bounds);
        let mut touched = table.segments_of(bounds);
        touched.touch_all();
        table.add_segments(&touched);
        for (row, key) in (0..).zip(keys) {
            assert!(table.add(*key as u64, row));
        }
        table
    }

    #[test]
    fn rows_may_be_numbered_by_their_keys() {
        let around = |middle: i64| (-3..=3).map(|off| middle.wrapping_add(off)).collect::<Vec<i64>>();
        let lists: [(Vec<i64>, bool); 7] = [
            (vec![4, -2, 0, 3, -1, 1, 2], true),
            // One is missing, and one is missing at an end, where none is missed.
            (vec![4, -2, 0, -1, 1, 2], false),
            (vec![-2, 0, 3, -1, 1, 2], true),
            (vec![7], true),
            // At the ends of their type.
            (vec![i64::MAX, i64::MAX - 2, i64::MAX - 1], true),
            (vec![i64::MIN + 1, i64::MIN], true),
            (vec![i64::MIN + 2, i64::MIN], false),
        ];
        for (keys, is_series) in lists {
            let mut table = table_of(&keys);
            let order = table.renumber();
            assert_eq!(table.series().is_some(), is_series, "{keys:?}");
            assert_eq!(table.bytes() == 0, is_series, "{keys:?}");
            let mut sorted = keys.clone();
            sorted.sort_unstable();
            let in_order: Vec<i64> = order.iter().map(|row| keys[*row as usize]).collect();
            assert_eq!(in_order, sorted);
            for key in keys.iter().flat_map(|key| around(*key)) {
                let row = sorted.binary_search(&key).map_or(NOBODY, |row| row as u32);
                assert_eq!(table.row(key as u64), row, "{keys:?} {key}");
                let run = table.run(key as u64);
                assert_eq!((run.start..run.end).next(), Some(row).filter(|row| *row != NOBODY), "{keys:?} {key}");
            }
            let back = (0..).map_while(|slot| table.get(slot)).filter(|(_, row)| *row != NOBODY);
            let back: Vec<(i64, u32)> = back.map(|(key, row)| (key as i64, row)).collect();
            assert_eq!(back, sorted.iter().copied().zip(0..).collect::<Vec<(i64, u32)>>());
        }
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
