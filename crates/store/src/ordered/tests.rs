//! Random histories against a sorted set, and what memory is charged.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::{Entry, LEAF_BYTES, OrderedRows};
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
        let entries: usize = index.leaves.iter().map(super::Leaf::len).sum();
        prop_assert_eq!(entries, index.len());
        prop_assert!(index.leaves.iter().all(|leaf| leaf.len() > 0 && leaf.bytes() <= LEAF_BYTES));
        let fences: Vec<Entry> = (0..index.fences.len()).map(|leaf| index.fences.entry(leaf)).collect();
        prop_assert_eq!(fences, index.leaves.iter().map(|leaf| leaf.entry(0)).collect::<Vec<_>>());
    }
}

#[test]
fn made_at_once_it_is_what_entries_one_by_one_make() {
    let values = Values(5_000);
    for count in [0u32, 1, 112, 113, 20_000] {
        let rows = (0..count).map(|row| row.wrapping_mul(2_654_435_761) % 1_000_003);
        let entries: Vec<Entry> =
            rows.clone().collect::<BTreeSet<_>>().into_iter().map(|row| values.entry(row)).collect();
        let compare = |left: u32, right: u32| values.of(left).cmp(&values.of(right));
        let made = OrderedRows::of(&account(u64::MAX), entries.clone(), compare).unwrap();
        let mut grown = OrderedRows::new(&account(u64::MAX));
        entries.iter().for_each(|entry| insert(&mut grown, values, entry.row));
        assert_eq!(values.range(&made, 0, u32::MAX), values.range(&grown, 0, u32::MAX));
    }
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
    let entries = (0..100_000).map(|row| values.entry(row)).collect();
    assert!(OrderedRows::of(&account, entries, |left, right| left.cmp(&right)).is_err());
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
