//! Tables of words beside a map: keys that are there once, in one table and in several, near and far.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::aggregate::tests::scrambled;

/// Keys of parts by so many bits of their hashes, with their rows: the places of the keys.
fn parts_of<W: KeyWord>(keys: &[W], bits: u32, secret: Secret) -> Vec<(Vec<W>, Vec<u32>)> {
    let mut parts: Vec<(Vec<W>, Vec<u32>)> = vec![(Vec::new(), Vec::new()); 1 << bits];
    for (row, key) in keys.iter().enumerate() {
        let (keys, rows) = &mut parts[part_of(key.hash(secret), bits)];
        keys.push(*key);
        rows.push(row as u32);
    }
    parts
}

/// Tables of these.
fn words<W: KeyWord, const LANES: usize, const PLACES: usize>(
    keys: &[W],
    bits: u32,
    secret: Secret,
) -> Words<W, LANES, PLACES> {
    let table = |(keys, rows): &(Vec<W>, Vec<u32>)| {
        table_of(keys.len(), keys.iter().copied().zip(rows.iter().copied()), bits, secret)
    };
    let parts = parts_of(keys, bits, secret).iter().map(table).collect();
    Words { parts, bits, secret, is_rare: AtomicBool::new(false) }
}

/// Looks up keys of which all are there, and such of which about half are; of all rows, and without some that are not valid.
fn check<W: KeyWord, const LANES: usize, const PLACES: usize>(packed: impl Fn(Vec<W>) -> Keys) {
    // An odd factor makes no two of them equal, of whatever width they are.
    let key = |number: u64| W::narrow(u128::from(number.wrapping_mul(2_654_435_761)));
    let sizes = [(Secret::random(), &[0_u64, 1, 7, 100, 400, 3000][..]), (Secret::colliding(), &[1, 7, 20][..])];
    for (secret, rows, bits) in sizes
        .iter()
        .flat_map(|(secret, sizes)| sizes.iter().flat_map(move |rows| [(*secret, *rows, 0), (*secret, *rows, 3)]))
    {
        let keys: Vec<W> = (0..rows).map(key).collect();
        let twin: HashMap<u128, u32> = (0..).zip(&keys).map(|(row, key)| (key.widen(), row)).collect();
        let made = || words::<W, LANES, PLACES>(&keys, bits, secret);
        let (index, mut ordered) = (made(), made());
        assert!(ordered.renumber(&mut || false).is_none());
        let order = ordered.renumber(&mut || true).map(|(order, _)| order);
        assert_eq!(order.is_some(), bits == 0);
        for numbers in [rows.max(1), 2 * rows + 1] {
            let probed: Vec<W> = (0..517).map(|row| key(scrambled(row) % numbers)).collect();
            let packed = Packed { keys: packed(probed.clone()), nulls: None };
            let valid: NullBuffer = (0..probed.len()).map(|row| row % 7 != 3).collect::<Vec<bool>>().into();
            for valid in [None, Some(&valid)] {
                let is_valid = |row: u32| valid.is_none_or(|valid| valid.is_valid(row as usize));
                let pair =
                    |(row, key): (u32, &W)| twin.get(&key.widen()).filter(|_| is_valid(row)).map(|of| (*of, row));
                let expected: Vec<(u32, u32)> = (0..).zip(&probed).filter_map(pair).collect();
                let mut ones = Ones::default();
                assert!(index.find_ones(&packed, valid, &mut ones));
                assert_eq!(ones.is_whole, expected.len() == probed.len());
                ones.name();
                let found: Vec<(u32, u32)> = ones.rows.iter().copied().zip(ones.probed.iter().copied()).collect();
                assert_eq!(found, expected, "{rows} {bits} {numbers}");
                if let Some(order) = &order {
                    let mut renumbered = Ones::default();
                    assert!(ordered.find_ones(&packed, valid, &mut renumbered));
                    renumbered.name();
                    let rows: Vec<u32> = renumbered.rows.iter().map(|row| order[*row as usize]).collect();
                    assert_eq!((&rows, &renumbered.probed), (&ones.rows, &ones.probed), "{rows:?} {numbers}");
                }
                // The same by the way for keys that are there any number of times.
                let mut runs = Vec::new();
                index.find(&packed, valid, &mut runs);
                let (mut reached, mut of_runs) = (Reached::default(), Ones::default());
                index.pairs(&runs, &mut reached, usize::MAX, &mut of_runs.rows, &mut of_runs.probed);
                assert_eq!((of_runs.rows, of_runs.probed), (ones.rows, ones.probed), "{rows} {bits} {numbers}");
                let mut may = Vec::new();
                index.may_have(&packed, &mut may);
                assert_eq!(may, probed.iter().map(|key| twin.contains_key(&key.widen())).collect::<Vec<bool>>());
            }
        }
    }
}

#[test]
fn keys_that_are_there_once_are_found_as_in_a_map() {
    check::<u32, 8, 7>(Keys::Word32);
    check::<u64, 5, 5>(Keys::Word64);
    check::<u128, 3, 3>(Keys::Word128);
}

/// Keys of which some are there several times, and one very often.
fn several(count: u32) -> Vec<u32> {
    (0..count).map(|row| if row % 5 == 0 { 7 } else { (row / 3).wrapping_mul(2_654_435_761) }).collect()
}

const DIVIDED: [(u32, u32); 4] = [(0, 1), (0, 400), (3, 1000), (3, 2)];

#[test]
fn keys_that_are_there_several_times_are_found_as_in_a_map() {
    for (bits, count) in DIVIDED {
        let (keys, secret) = (several(count), Secret::random());
        let index = words::<u32, 8, 7>(&keys, bits, secret);
        let probed: Vec<u32> = keys.iter().copied().step_by(3).chain(1..400).collect();
        let packed = Packed { keys: Keys::Word32(probed.clone()), nulls: None };
        let valid: NullBuffer = (0..probed.len()).map(|row| row % 7 != 3).collect::<Vec<bool>>().into();
        let is_once = count < 5;
        assert_eq!(index.find_ones(&packed, None, &mut Ones::default()), is_once, "{count}");
        let mut found = Vec::new();
        index.find(&packed, Some(&valid), &mut found);
        let of_key = |key: u32| (0..).zip(&keys).filter(move |(_, known)| **known == key).map(|(row, _): (u32, _)| row);
        let each = (0..).zip(&probed).filter(|(row, _)| row % 7 != 3);
        let mut expected: Vec<(u32, u32)> = each.flat_map(|(row, key)| of_key(*key).map(move |of| (of, row))).collect();
        expected.sort_unstable();
        // All at once, and as many as a batch has.
        for together in [usize::MAX, 1, 5, 64] {
            let (mut reached, mut pairs) = (Reached::default(), Vec::new());
            while reached.keys < found.len() {
                let (mut rows, mut of_probe) = (Vec::new(), Vec::new());
                index.pairs(&found, &mut reached, together, &mut rows, &mut of_probe);
                assert!(rows.len() <= together && rows.len() == of_probe.len() && !rows.is_empty());
                pairs.extend(rows.into_iter().zip(of_probe));
            }
            pairs.sort_unstable();
            assert_eq!(pairs, expected, "{count} {together}");
        }
        // And key by key.
        let mut by_key = Vec::new();
        for one in &found {
            let mut from = one.run.start;
            while from < one.run.end {
                let mut rows = Vec::new();
                from = index.rows(one, from, 3, &mut rows);
                by_key.extend(rows.into_iter().map(|row| (row, one.row)));
            }
        }
        by_key.sort_unstable();
        assert_eq!(by_key, expected, "{count}");
    }
}

#[test]
fn all_keys_are_walked_through_with_their_rows() {
    for (bits, count) in DIVIDED {
        let keys = several(count);
        let index = words::<u32, 8, 7>(&keys, bits, Secret::random());
        let mut shown = Vec::new();
        index.each_key(&mut |key| {
            shown.extend(match key {
                Key::Word(word) => Some(word as u32),
                Key::Bytes(_) => None,
            });
            true
        });
        shown.sort_unstable();
        let mut all = keys.clone();
        all.sort_unstable();
        all.dedup();
        assert_eq!(shown, all);
        // Some at a time, and without every third row.
        let (mut cursor, mut walked) = (Cursor::default(), Vec::new());
        loop {
            let (mut rows, mut words) = (Vec::new(), Keys::Word32(Vec::new()));
            index.walk(&mut cursor, 7, &|row| row % 3 > 0, &mut rows, &mut words);
            assert!(rows.iter().map(|row| keys[*row as usize]).eq(u32::of(&words).iter().copied()));
            walked.extend_from_slice(&rows);
            if rows.len() < 7 {
                break;
            }
        }
        walked.sort_unstable();
        assert_eq!(walked, (0..count).filter(|row| row % 3 > 0).collect::<Vec<u32>>());
    }
}
