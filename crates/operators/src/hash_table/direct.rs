//! Key -> row for whole numbers that lie close together, each of them once: no hash, and no key is stored.
//!
//! ```text
//!   key - least key  ->  slots   | row | - | row | row | - | ...     4 bytes each; u32::MAX where there is no row
//! ```
//!
//! A key is its place, and comes back from it.

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

    fn word(self, place: u64) -> u64 {
        place ^ self.sign
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Direct {
    counting: Counting,
    least: u64,
    slots: Vec<u32>,
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

    /// With so many slots, and no rows.
    pub(crate) fn new(counting: Counting, least: u64, slots: usize) -> Self {
        Self { counting, least, slots: vec![NOBODY; slots] }
    }

    /// Adds a key between the least and the greatest; whether it is not there yet.
    #[inline]
    pub(crate) fn add(&mut self, key: u64, row: u32) -> bool {
        let slot = &mut self.slots[(self.counting.place(key) - self.least) as usize];
        std::mem::replace(slot, row) == NOBODY
    }

    /// The row of a key, as a run of rows that are their own places.
    #[inline]
    pub(crate) fn run(&self, key: u64) -> Run {
        let place = self.counting.place(key).wrapping_sub(self.least);
        let row = usize::try_from(place).ok().and_then(|place| self.slots.get(place)).copied().unwrap_or(NOBODY);
        Run { start: row, end: if row == NOBODY { row } else { row + 1 } }
    }

    /// Bytes of slots that it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<u32>()
    }

    /// The key of a slot and its row, or [`NOBODY`]; `None` behind the last slot.
    #[inline]
    pub(crate) fn get(&self, slot: usize) -> Option<(u64, u32)> {
        self.slots.get(slot).map(|row| (self.counting.word(self.least + slot as u64), *row))
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
        let mut table = Direct::new(counting, least, slots);
        for (row, key) in keys.iter().enumerate() {
            assert!(table.add(u64::from(*key as u32), row as u32));
        }
        assert!(!table.add(u64::from(-1_i32 as u32), 3));
        for key in -20..20_i32 {
            let run = table.run(u64::from(key as u32));
            let row = keys.iter().position(|known| *known == key);
            assert_eq!((run.start..run.end).next(), row.map(|row| row as u32), "{key}");
        }
        let back = (0..13).filter_map(|slot| table.get(slot)).filter(|(_, row)| *row != NOBODY);
        let back: Vec<(i32, u32)> = back.map(|(key, row)| (key as u32 as i32, row)).collect();
        assert_eq!(back, [(-5, 0), (-1, 3), (0, 2), (3, 4), (7, 1)]);
        assert!(table.get(13).is_none());
        assert_eq!(table.bytes(), 13 * 4);
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
