//! Random histories against a sorted set, and what memory is charged.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::{Entry, LEAF_BYTES, OrderedRows, Reached};
use crate::memory::{Account, Total};

fn account(max: u64) -> Arc<Account> {
    Account::new(&Total::new(max))
}

/// A row's value is `row % values`; its prefix tells only a part of it, so that rows have to be compared.
#[derive(Clone, Copy)]
struct Values(u32);

impl Values {
    fn of(self, row: u32) -> u32 {
        row % self.0
    }

    fn entry(self, row: u32) -> Entry {
        Entry { prefix: u64::from(self.of(row) / 4), row }
    }

    fn before(self, row: u32) -> impl Fn(u32) -> bool {
        move |other| (self.of(other), other) < (self.of(row), row)
    }

    /// The rows whose values are from `low` to `high`.
    fn range(self, index: &OrderedRows, low: u32, high: u32) -> Vec<u32> {
        let is_low = move |entry: Entry| entry.prefix < u64::from(low / 4) || self.of(entry.row) < low;
        let is_not_high = move |entry: Entry| self.of(entry.row) <= high;
        assert_eq!(index.count(is_low, is_not_high), index.range(is_low, is_not_high).count());
        index.range(is_low, is_not_high).collect()
    }
}

/// The same, without leaves.
#[derive(Default)]
struct Twin(BTreeSet<(u32, u32)>);

impl Twin {
    fn range(&self, low: u32, high: u32) -> Vec<u32> {
        self.0.range((low, 0)..=(high, u32::MAX)).map(|(_, row)| *row).collect()
    }
}

fn insert(index: &mut OrderedRows, values: Values, row: u32) {
    index.reserve(1).unwrap();
    index.insert(values.entry(row), values.before(row));
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u32),
    Remove(u32),
    Settle,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0u32..3000).prop_map(Step::Insert),
        5 => (0u32..3000).prop_map(Step::Remove),
        1 => Just(Step::Settle),
    ];
    prop::collection::vec(step, 0..4000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn every_range_is_that_of_the_twin(values in prop_oneof![Just(1u32), Just(7), Just(1000), Just(100_000)],
                                       steps in steps(), low in 0u32..1200, width in 0u32..1200) {
        let values = Values(values);
        let (mut index, mut twin) = (OrderedRows::new(&account(u64::MAX)), Twin::default());
        for step in steps {
            match step {
                Step::Insert(row) => {
                    if twin.0.insert((values.of(row), row)) {
                        insert(&mut index, values, row);
                    }
                }
                Step::Remove(row) => {
                    let was_there = twin.0.remove(&(values.of(row), row));
                    prop_assert_eq!(index.remove(values.entry(row), values.before(row)), was_there);
                }
                Step::Settle => index.settle(),
            }
            prop_assert_eq!(index.len(), twin.0.len());
        }
        prop_assert_eq!(values.range(&index, 0, u32::MAX), twin.range(0, u32::MAX));
        prop_assert_eq!(values.range(&index, low, low + width), twin.range(low, low + width));
        index.settle();
        check_leaves(&index);
    }
}

fn insert_sorted(index: &mut OrderedRows, values: Values, rows: &BTreeSet<u32>) {
    let mut entries: Vec<Entry> = rows.iter().map(|row| values.entry(*row)).collect();
    let key = |entry: Entry| (values.of(entry.row), entry.row);
    entries.sort_unstable_by_key(|entry| key(*entry));
    index.insert_sorted(&entries, |left, right| key(left).cmp(&key(right)));
}

fn check_leaves(index: &OrderedRows) {
    let entries: usize = index.leaves.iter().map(super::Leaf::len).sum();
    assert_eq!(entries, index.len());
    assert!(index.leaves.iter().all(|leaf| leaf.len() > 0 && leaf.bytes() <= LEAF_BYTES));
    assert!(index.leaves.iter().skip(1).all(|leaf| leaf.bytes() == LEAF_BYTES), "what is charged is there");
    let fences: Vec<Entry> = (0..index.fences.len()).map(|leaf| index.fences.entry(leaf)).collect();
    assert_eq!(fences, index.leaves.iter().map(|leaf| leaf.entry(0)).collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Many at once between those that come and go one by one, in runs of any length.
    #[test]
    fn runs_end_as_entries_one_by_one(values in prop_oneof![Just(1u32), Just(7), Just(1000), Just(100_000)],
                                      runs in prop::collection::vec((0u32..4000, 1u32..9, 0u32..900, 0u32..400), 0..12)) {
        let values = Values(values);
        let account = account(u64::MAX);
        let (mut index, mut twin) = (OrderedRows::new(&account), Twin::default());
        for (first, step, count, removed) in runs {
            let run = (0..count).map(|number| first + number * step);
            let run: BTreeSet<u32> = run.filter(|row| !twin.0.contains(&(values.of(*row), *row))).collect();
            index.reserve(run.len()).unwrap();
            insert_sorted(&mut index, values, &run);
            twin.0.extend(run.iter().map(|row| (values.of(*row), *row)));
            prop_assert_eq!(values.range(&index, 0, u32::MAX), twin.range(0, u32::MAX));
            check_leaves(&index);
            for row in run.into_iter().take(removed as usize) {
                prop_assert!(index.remove(values.entry(row), values.before(row)));
                twin.0.remove(&(values.of(row), row));
            }
            insert(&mut index, values, first + 1_000_000);
            twin.0.insert((values.of(first + 1_000_000), first + 1_000_000));
            prop_assert!(index.remove(values.entry(first + 1_000_000), values.before(first + 1_000_000)));
            twin.0.remove(&(values.of(first + 1_000_000), first + 1_000_000));
            index.settle();
            check_leaves(&index);
            prop_assert_eq!(index.bytes(), index.bytes_now() as u64);
        }
        let mut next = Some(0);
        while let Some(first) = next {
            next = index.pack(first, 4);
            check_leaves(&index);
            prop_assert_eq!(values.range(&index, 0, u32::MAX), twin.range(0, u32::MAX));
        }
        prop_assert_eq!(index.bytes(), index.bytes_now() as u64);
        index.clear();
        prop_assert_eq!(account.used(), 0);
    }
}

#[test]
fn a_run_in_an_empty_index_fills_its_leaves() {
    let values = Values(u32::MAX);
    for count in [0u32, 1, 112, 128, 129, 20_000] {
        let mut index = OrderedRows::new(&account(u64::MAX));
        index.reserve(count as usize).unwrap();
        let charged = index.bytes();
        insert_sorted(&mut index, values, &(0..count).collect());
        assert!(index.bytes_now() as u64 <= charged, "{count}");
        assert_eq!(values.range(&index, 0, u32::MAX), (0..count).collect::<Vec<_>>());
        assert!(index.leaves.len() <= (count as usize).div_ceil(112) + 1, "{} leaves for {count}", index.leaves.len());
    }
}

#[test]
fn packed_leaves_take_little_more_than_their_entries() {
    let values = Values(u32::MAX);
    let mut index = OrderedRows::new(&account(u64::MAX));
    let rows: BTreeSet<u32> = (0..20_000u32).map(|row| row.wrapping_mul(2_654_435_761) % 1_000_003).collect();
    for run in (0..20_000u32).step_by(500) {
        let run = (run..run + 500).map(|row| row.wrapping_mul(2_654_435_761) % 1_000_003);
        let new: BTreeSet<u32> = run.filter(|row| values.range(&index, *row, *row).is_empty()).collect();
        insert_sorted(&mut index, values, &new);
    }
    let before = index.bytes();
    let mut next = Some(0);
    while let Some(first) = next {
        next = index.pack(first, 32);
    }
    check_leaves(&index);
    assert_eq!(values.range(&index, 0, u32::MAX), rows.into_iter().collect::<Vec<_>>());
    assert!(index.bytes() < before && index.bytes() < index.len() as u64 * 31 / 2, "{} of {before}", index.bytes());
}

#[test]
fn what_was_reserved_is_enough_and_is_given_back() {
    let values = Values(u32::MAX);
    for (there, more) in [(0u32, 1u32), (0, 128), (0, 129), (3, 600), (128, 1), (5_000, 3_000)] {
        let account = account(u64::MAX);
        let mut index = OrderedRows::new(&account);
        (0..there).for_each(|row| insert(&mut index, values, row * 7 % 5_003));
        index.reserve(more as usize).unwrap();
        let charged = index.bytes();
        (10_000..10_000 + more).for_each(|row| {
            index.insert(values.entry(row * 13 % 10_007 + 20_000), values.before(row * 13 % 10_007 + 20_000));
            assert!(index.bytes_now() as u64 <= charged, "{there} and {more} more");
        });
        index.settle();
        assert!(index.bytes() <= charged);
        assert_eq!(index.bytes(), index.bytes_now() as u64);
        index.clear();
        assert_eq!(account.used(), 0);
    }
}

#[test]
fn over_the_bound_nothing_changes() {
    let values = Values(u32::MAX);
    let account = account(64 << 10);
    let mut index = OrderedRows::new(&account);
    let mut count = 0u32;
    while index.reserve(1).is_ok() {
        index.insert(values.entry(count), values.before(count));
        count += 1;
    }
    assert!(count > 1_000, "{count} entries in 64 KiB");
    assert_eq!(index.len(), count as usize);
    assert_eq!(values.range(&index, 0, u32::MAX).len(), count as usize);
    assert!(index.reserve(100_000).is_err());
}

#[test]
fn removals_give_memory_back() {
    let values = Values(u32::MAX);
    let mut index = OrderedRows::new(&account(u64::MAX));
    (0..50_000).for_each(|row| insert(&mut index, values, row));
    index.settle();
    let full = index.bytes();
    assert!(full < 50_000 * 16, "growing numbers leave full leaves: {full} bytes");
    (0..50_000).filter(|row| row % 50 != 0).for_each(|row| {
        assert!(index.remove(values.entry(row), values.before(row)));
    });
    index.settle();
    assert!(index.bytes() < full / 4, "{} of {full} bytes", index.bytes());
    let left: Vec<u32> = (0..50_000).step_by(50).collect();
    assert_eq!(values.range(&index, 0, u32::MAX), left);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Whoever reads all entries, so many at a time, while others come and go, has read each that was there all the time. None of the times is for
    /// more, though all may have one prefix.
    #[test]
    fn a_reader_of_all_passes_over_none(values in prop_oneof![Just(1u32), Just(7), Just(1000)],
                                        there in prop::collection::btree_set(0u32..2000, 0..800),
                                        count in 1usize..200, seed in any::<u32>()) {
        let values = Values(values);
        let mut index = OrderedRows::new(&account(u64::MAX));
        there.iter().for_each(|row| insert(&mut index, values, *row));
        let (mut stays, mut read) = (there.clone(), BTreeSet::new());
        let (mut reached, mut step) = (Some(Reached::default()), seed);
        while let Some(from) = reached {
            let mut times = 0;
            reached = index.visit_from(from, count, |row| {
                times += 1;
                read.insert(row);
            });
            prop_assert!(times <= count);
            prop_assert!(reached.is_none() || times == count);
            for _ in 0..count.min(3) {
                step = step.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let row = 10_000 + step % 2000;
                if !index.remove(values.entry(row), values.before(row)) {
                    insert(&mut index, values, row);
                } else if let Some(reached) = &mut reached {
                    reached.forget(values.entry(row).prefix);
                }
            }
            let gone = step % 2000;
            if stays.remove(&gone) {
                prop_assert!(index.remove(values.entry(gone), values.before(gone)));
                if let Some(reached) = &mut reached {
                    reached.forget(values.entry(gone).prefix);
                }
            }
        }
        prop_assert!(stays.is_subset(&read));
    }
}
