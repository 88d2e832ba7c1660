//! The index against a map, with its memory charged.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::memory::Total;

/// Few hashes, so that entries collide.
fn hash_of(row: u32) -> u64 {
    u64::from(row % 7).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

proptest! {
    #[test]
    fn entries_are_those_of_a_map(ops in proptest::collection::vec((0..60u32, 0..3u8), 0..200)) {
        let total = Total::new(u64::MAX);
        let mut index = KeyIndex::new(&Account::new(&total));
        let mut twin = BTreeMap::new();
        for (row, op) in ops {
            match op {
                0 | 1 if !twin.contains_key(&row) => {
                    let (before, expected) = (index.table.allocation_size(), index.grown_bytes(1));
                    index.reserve(1, hash_of).unwrap();
                    let after = index.table.allocation_size();
                    prop_assert!(after == before || after == expected, "{} became {}, not {}", before, after, expected);
                    index.insert(hash_of(row), row, hash_of);
                    twin.insert(row, ());
                }
                2 => prop_assert_eq!(index.remove(hash_of(row), |found| found == row), twin.remove(&row).is_some()),
                _ => {}
            }
            prop_assert_eq!(index.len(), twin.len());
            prop_assert_eq!(index.find(hash_of(row), |found| found == row).is_some(), twin.contains_key(&row));
            prop_assert_eq!(total.used() as usize, index.table.allocation_size());
        }
        let mut rows: Vec<u32> = index.rows().collect();
        rows.sort_unstable();
        prop_assert!(rows.iter().eq(twin.keys()));
    }
}

#[test]
fn growth_is_charged_before_it_happens_and_shrinks_again() {
    let total = Total::new(40_000);
    let mut index = KeyIndex::new(&Account::new(&total));
    let mut count = 0;
    let error = loop {
        match index.reserve(1, u64::from) {
            Ok(()) => index.insert(u64::from(count), count, u64::from),
            Err(error) => break error,
        }
        count += 1;
    };
    assert_eq!(error.code(), ashlar_base::ErrorCode::OutOfMemory);
    assert_eq!(index.len(), count as usize);
    assert!(count > 1000 && total.used() <= 40_000);
    for row in 20..count {
        assert!(index.remove(u64::from(row), |found| found == row));
    }
    assert!(index.shrink(u64::from));
    assert!(total.used() < 400, "{}", total.used());
    assert!((0..20).all(|row| index.find(u64::from(row), |found| found == row).is_some()));
}

#[test]
fn many_entries_get_room_at_once() {
    for count in [1, 3, 4, 7, 14, 15, 28, 29, 1000, 7168, 7169, 65_536] {
        let total = Total::new(u64::MAX);
        let mut index = KeyIndex::new(&Account::new(&total));
        index.reserve(count, |_| 0).unwrap();
        assert_eq!(index.table.allocation_size(), table_bytes(buckets_for(count)), "{count}");
    }
}
