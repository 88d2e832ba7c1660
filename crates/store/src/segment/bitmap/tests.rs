//! Bitmaps against a `Vec<bool>` and a set.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 8 } else { 256 }, ..ProptestConfig::default() })]

    #[test]
    fn bits_are_those_of_a_vec(filled in 0..40usize, fill in any::<bool>(), bits in proptest::collection::vec(any::<bool>(), 0..200), cut in any::<usize>(), sets in proptest::collection::vec((any::<usize>(), any::<bool>()), 0..8)) {
        let account = Account::unbounded();
        let mut bitmap = Bitmap::filled(&account, fill, filled);
        let mut twin = vec![fill; filled];
        let early = bitmap.share(filled);
        for &bit in &bits {
            bitmap.push(bit);
            twin.push(bit);
        }
        let cut = cut % (twin.len() + 1);
        for frozen in [false, true] {
            if frozen {
                bitmap.freeze();
            }
            prop_assert!(bitmap.is_unshared(), "copies are not lent");
            for &(index, bit) in &sets[..if twin.is_empty() { 0 } else { sets.len() }] {
                let index = index % twin.len();
                bitmap.set(index, bit != frozen);
                twin[index] = bit != frozen;
            }
            prop_assert_eq!(bitmap.len(), twin.len());
            prop_assert!((0..twin.len()).all(|index| bitmap.get(index) == twin[index]));
            prop_assert!(bitmap.share(cut).iter().eq(twin[..cut].iter().copied()));
        }
        let lent = bitmap.share(twin.len());
        prop_assert!(twin.is_empty() || !bitmap.is_unshared());
        prop_assert!(lent.iter().eq(twin.iter().copied()));
        prop_assert!(early.iter().all(|bit| bit == fill), "a reader's copy stays as it was");
    }

    #[test]
    fn the_dead_are_those_of_a_set(rows in 1..300usize, changes in proptest::collection::vec((any::<usize>(), any::<bool>()), 0..60), cut in any::<usize>()) {
        let account = Account::unbounded();
        let mut dead = Dead::new(&account);
        let mut twin = BTreeSet::new();
        for (row, kill) in changes {
            let row = row % rows;
            if kill {
                prop_assert_eq!(dead.insert(row, rows), twin.insert(row));
            } else {
                dead.remove(row);
                twin.remove(&row);
            }
        }
        prop_assert!((0..rows).all(|row| dead.contains(row) == twin.contains(&row)));
        let cut = cut % (rows + 1);
        let words = dead.copy(cut);
        prop_assert_eq!(words.len(), cut.div_ceil(64));
        let set: u32 = words.iter().map(|word| word.count_ones()).sum();
        prop_assert_eq!(set as usize, twin.range(..cut).count());
    }
}
