//! Tables of words beside a map: keys that are there once, in one table and in several, near and far.

use std::collections::HashMap;

use super::*;
use crate::aggregate::tests::scrambled;
use crate::hash_table::unchained::slots_for;

/// Tables of these keys, divided by so many bits of their hashes. A row is the place of its key.
fn words<W: KeyWord>(keys: &[W], bits: u32, secret: Secret) -> Words<W> {
    let mut parts: Vec<(Vec<W>, Vec<u32>)> = vec![(Vec::new(), Vec::new()); 1 << bits];
    for (row, key) in keys.iter().enumerate() {
        let (keys, rows) = &mut parts[part_of(key.hash(secret), bits)];
        keys.push(*key);
        rows.push(row as u32);
    }
    let table = |(keys, rows): (Vec<W>, Vec<u32>)| table_of(slots_for(keys.len()), keys, rows, bits, secret);
    let parts = parts.into_iter().map(table).collect();
    Words { parts, bits, secret }
}

/// Looks up keys of which all are there, and such of which about half are; of all rows, and without some that are not valid.
fn check<W: KeyWord>(packed: impl Fn(Vec<W>) -> Keys) {
    // An odd factor makes no two of them equal, of whatever width they are.
    let key = |number: u64| W::narrow(u128::from(number.wrapping_mul(2_654_435_761)));
    let sizes = [(Secret::random(), &[0_u64, 1, 7, 100, 400, 3000][..]), (Secret::colliding(), &[1, 7, 20][..])];
    for (secret, rows, bits) in sizes
        .iter()
        .flat_map(|(secret, sizes)| sizes.iter().flat_map(move |rows| [(*secret, *rows, 0), (*secret, *rows, 3)]))
    {
        let keys: Vec<W> = (0..rows).map(key).collect();
        let twin: HashMap<u128, u32> = (0..).zip(&keys).map(|(row, key)| (key.widen(), row)).collect();
        let index = words(&keys, bits, secret);
        let mut ordered = words(&keys, bits, secret);
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
            }
        }
    }
}

#[test]
fn keys_that_are_there_once_are_found_as_in_a_map() {
    check::<u32>(Keys::Word32);
    check::<u64>(Keys::Word64);
    check::<u128>(Keys::Word128);
}

#[test]
fn a_key_that_is_there_twice_is_not_there_once() {
    let secret = Secret::random();
    let keys: Vec<u32> = (0..100).chain([57]).collect();
    for bits in [0, 3] {
        let packed = Packed { keys: Keys::Word32(keys.clone()), nulls: None };
        assert!(!words(&keys, bits, secret).find_ones(&packed, None, &mut Ones::default()));
        assert!(words(&keys[..100], bits, secret).find_ones(&packed, None, &mut Ones::default()));
    }
}
