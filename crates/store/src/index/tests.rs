//! The index against a map, with its memory charged.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::memory::Total;

/// Few hashes, so that entries collide, in tags and in chunks.
fn hash_of(row: u32) -> u64 {
    u64::from(row % 7).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// One hash for all, so that chunks are passed.
fn same_hash(_: u32) -> u64 {
    0x1234_5678_9abc_def0
}

/// As hashes are.
fn scattered(row: u32) -> u64 {
    (u64::from(row) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

fn charged(index: &KeyIndex) -> usize {
    index.chunks.len() * size_of::<Chunk>()
}

fn follow_a_map(ops: Vec<(u32, u8)>, hash_of: fn(u32) -> u64) -> Result<(), TestCaseError> {
    let total = Total::new(u64::MAX);
    let mut index = KeyIndex::new(&Account::new(&total));
    // Row by key: a row that is replaced keeps its key's hash.
    let mut twin = BTreeMap::new();
    for (key, op) in ops {
        let is_row = |row: u32| row % 1000 == key;
        match op {
            0 | 1 if !twin.contains_key(&key) => {
                index.reserve(1, |row| hash_of(row % 1000)).unwrap();
                index.insert(hash_of(key), key);
                twin.insert(key, key);
            }
            2 => prop_assert_eq!(index.remove(hash_of(key), is_row), twin.remove(&key).is_some()),
            5 => {
                index.reserve(1, |row| hash_of(row % 1000)).unwrap();
                prop_assert_eq!(index.insert_unless(hash_of(key), key, is_row), !twin.contains_key(&key));
                twin.entry(key).or_insert(key);
            }
            3 => {
                let new = twin.get(&key).map(|row| row + 1000);
                prop_assert_eq!(index.replace(hash_of(key), new.unwrap_or(0), is_row), new.is_some());
                if let Some(new) = new {
                    twin.insert(key, new);
                }
            }
            4 => {
                index.shrink(|row| hash_of(row % 1000));
            }
            _ => {}
        }
        prop_assert_eq!(index.len(), twin.len());
        prop_assert_eq!(index.find(hash_of(key), is_row), twin.get(&key).copied());
        prop_assert_eq!(total.used() as usize, charged(&index));
    }
    for (key, row) in &twin {
        prop_assert_eq!(index.find(hash_of(*key), |found| found % 1000 == *key), Some(*row));
    }
    // By hashes: whatever has one of them, and nothing twice.
    for (first, last) in [(0, u64::MAX), (1 << 62, 1 << 63), (u64::MAX >> 1, u64::MAX), (3 << 60, (3 << 60) + 1)] {
        let mut met: Vec<u32> = index.rows_between(first, last).collect();
        let count = met.len();
        met.sort_unstable();
        met.dedup();
        prop_assert_eq!(met.len(), count);
        let meant = twin.iter().filter(|(key, _)| (first..=last).contains(&hash_of(**key)));
        prop_assert!(meant.map(|(_, row)| row).all(|row| met.contains(row)));
    }
    let mut rows: Vec<u32> = index.rows().collect();
    rows.sort_unstable();
    let mut expected: Vec<u32> = twin.into_values().collect();
    expected.sort_unstable();
    prop_assert_eq!(rows, expected);
    Ok(())
}

proptest! {
    #[test]
    fn entries_are_those_of_a_map(ops in proptest::collection::vec((0..60u32, 0..6u8), 0..300)) {
        follow_a_map(ops, hash_of)?;
    }

    #[test]
    fn entries_of_one_hash_are_those_of_a_map(ops in proptest::collection::vec((0..300u32, 0..6u8), 0..900)) {
        follow_a_map(ops, same_hash)?;
    }

    #[test]
    fn bytes_that_are_equal_are_found(word in any::<u64>(), byte in any::<u8>(), places in any::<u8>()) {
        let mut bytes = word.to_le_bytes();
        (0..8).filter(|place| places >> place & 1 == 1).for_each(|place| bytes[place] = byte);
        let mut expected = [0; 8];
        for (place, expected) in expected.iter_mut().enumerate() {
            *expected = if bytes[place] == byte { 0x80 } else { 0 };
        }
        prop_assert_eq!(equal_bytes(u64::from_le_bytes(bytes), byte), u64::from_le_bytes(expected));
    }
}

#[test]
fn a_counter_that_cannot_count_further_loses_nobody() {
    let mut index = KeyIndex::new(&Account::new(&Total::new(u64::MAX)));
    index.reserve(1000, same_hash).unwrap();
    (0..1000).for_each(|row| index.insert(same_hash(row), row));
    for removed in 0..1000 {
        assert!(index.remove(same_hash(removed), |row| row == removed));
        assert_eq!(index.find(same_hash(999), |row| row == 999).is_some(), removed < 999);
    }
    assert_eq!(index.find(same_hash(0), |_| true), None);
    (0..1000).for_each(|row| index.insert(same_hash(row), row));
    assert!((0..1000).all(|wanted| index.find(same_hash(wanted), |row| row == wanted).is_some()));
}

#[test]
fn for_a_part_of_the_hashes_a_part_of_the_chunks_is_read() {
    let mut index = KeyIndex::new(&Account::new(&Total::new(u64::MAX)));
    index.reserve(100_000, scattered).unwrap();
    (0..100_000).for_each(|row| index.insert(scattered(row), row));
    for part in (0..1024u64).step_by(93) {
        let (first, last) = (part << 54, part << 54 | u64::MAX >> 10);
        let read: BTreeMap<u32, u64> = index.rows_between(first, last).map(|row| (row, scattered(row))).collect();
        let meant = (0..100_000).filter(|&row| (first..=last).contains(&scattered(row))).count();
        assert_eq!(read.values().filter(|hash| (first..=last).contains(*hash)).count(), meant, "{part}");
        assert!(meant > 0 && read.len() < 2000, "{part}: {} were read for {meant}", read.len());
    }
}

#[test]
fn growth_is_charged_before_it_happens_and_shrinks_again() {
    let total = Total::new(40_000);
    let mut index = KeyIndex::new(&Account::new(&total));
    let mut count = 0;
    let error = loop {
        match index.reserve(1, scattered) {
            Ok(()) => index.insert(scattered(count), count),
            Err(error) => break error,
        }
        count += 1;
    };
    assert_eq!(error.code(), ashlar_base::ErrorCode::OutOfMemory);
    assert_eq!(index.len(), count as usize);
    assert!(count > 1000 && total.used() <= 40_000);
    for row in 20..count {
        assert!(index.remove(scattered(row), |found| found == row));
    }
    assert!(index.shrink(scattered));
    assert!(total.used() < 400, "{}", total.used());
    assert!((0..20).all(|row| index.find(scattered(row), |found| found == row).is_some()));
}

#[test]
fn many_entries_get_room_at_once_and_no_more_than_they_need() {
    for count in [0, 1, 3, 12, 13, 21, 22, 31, 32, 1000, 7168, 7169, 65_536] {
        let total = Total::new(u64::MAX);
        let mut index = KeyIndex::new(&Account::new(&total));
        index.reserve(count, scattered).unwrap();
        let chunks = index.chunks.len();
        assert_eq!(total.used() as usize, charged(&index), "{count}");
        assert!(capacity_of(chunks) >= count && (chunks == 0 || capacity_of(chunks - 1) < count), "{count}");
        (0..count as u32).for_each(|row| index.insert(scattered(row), row));
        assert_eq!(index.chunks.len(), chunks, "{count}");
    }
}

#[test]
fn an_entry_takes_six_to_nine_bytes_once_there_are_many() {
    let mut index = KeyIndex::new(&Account::new(&Total::new(u64::MAX)));
    for row in 0..100_000 {
        index.reserve(1, scattered).unwrap();
        index.insert(scattered(row), row);
        if row > 1000 {
            let bytes = charged(&index) as f64 / f64::from(row + 1);
            assert!((6.0..9.3).contains(&bytes), "{row}: {bytes}");
        }
    }
}
