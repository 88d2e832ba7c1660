//! Few rows at once, beside the same rows through a write set.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use ashlar_base::clock::Wall;
use ashlar_base::{ColumnId, Datum, IndexDef, IndexKind, TableId};
use proptest::collection::vec;
use proptest::prelude::*;

use super::{BYTES_MAX, ROWS_MAX};
use crate::testing::{kv, numbers, store};
use crate::{Expiry, LockHolder, Mutation, Region, Snapshot, Store, StoreConfig, Strength, WriteSet};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn get(region: &Region, snapshot: &Snapshot, key: &[u8]) -> Option<Vec<u8>> {
    region.get_at(snapshot, &[Datum::Bytea(key)], |row| match row?.get(1) {
        Datum::Bytea(value) => Some(value.to_vec()),
        other => panic!("{other:?}"),
    })
}

fn all(region: &Region, snapshot: &Snapshot) -> Rows {
    (0..KEYS).filter_map(|key| Some((vec![key], get(region, snapshot, &[key])?))).collect()
}

fn apply(region: &Region, key: &[Datum<'_>], mutation: &Mutation<'_>) {
    region.entry(key, |entry| entry.apply(mutation.clone())).unwrap();
}

const KEYS: u8 = 40;

/// What happens to a table.
#[derive(Clone, Debug)]
enum Step {
    /// Rows at once, of different keys.
    Put(BTreeMap<u8, Vec<u8>>),
    Delete(u8),
    /// A row with a life of its own.
    Living(u8),
    /// From here on somebody sees what there is.
    Look,
    /// The longest of these ends.
    Forget,
    Compact,
}

fn step() -> impl Strategy<Value = Step> {
    let value = || vec(any::<u8>(), 0..12);
    prop_oneof![
        6 => proptest::collection::btree_map(0..KEYS, value(), 0..12).prop_map(Step::Put),
        2 => (0..KEYS).prop_map(Step::Delete),
        1 => (0..KEYS).prop_map(Step::Living),
        2 => Just(Step::Look),
        1 => Just(Step::Forget),
        1 => Just(Step::Compact),
    ]
}

proptest! {
    #[test]
    fn rows_at_once_are_those_of_a_write_set(steps in vec(step(), 1..60), lives in any::<bool>()) {
        let (few, twin) = (store(4, 8), store(4, 8));
        let regions = [few.create_region(kv()).unwrap(), twin.create_region(kv()).unwrap()];
        let mut expected = Rows::new();
        let mut seen: Vec<(Snapshot, Rows)> = Vec::new();
        for step in steps {
            match step {
                Step::Put(values) => {
                    let rows: Vec<([u8; 1], Vec<u8>)> = values.into_iter().map(|(key, value)| ([key], value)).collect();
                    let rows: Vec<_> =
                        rows.iter().map(|(key, value)| [Datum::Bytea(key), Datum::Bytea(value)]).collect();
                    prop_assert!(regions[0].put_few(&rows).unwrap());
                    let (snapshot, mut writes) = (twin.snapshot(), WriteSet::blind());
                    for row in &rows {
                        writes.put(&regions[1], 1, &snapshot, row, Expiry::Table).unwrap();
                        let [Datum::Bytea(key), Datum::Bytea(value)] = row else { unreachable!() };
                        expected.insert(key.to_vec(), value.to_vec());
                    }
                    drop(snapshot);
                    twin.commit(&mut writes).unwrap();
                }
                Step::Delete(key) => {
                    let key = [Datum::Bytea(&[key])];
                    regions.iter().for_each(|region| apply(region, &key, &Mutation::Delete { key: &key }));
                    let [Datum::Bytea(key)] = key else { unreachable!() };
                    expected.remove(key);
                }
                Step::Living(key) if lives => {
                    let row = [Datum::Bytea(&[key]), Datum::Bytea(b"lives")];
                    let write = Mutation::Upsert { row: &row };
                    let living = Mutation::Living { write: &write, expiry: Expiry::At(i64::MAX / 4) };
                    regions.iter().for_each(|region| apply(region, &row[..1], &living));
                    expected.insert(vec![key], b"lives".to_vec());
                }
                Step::Living(_) => {}
                Step::Look => seen.push((few.snapshot(), expected.clone())),
                Step::Forget if !seen.is_empty() => drop(seen.remove(0)),
                Step::Forget => {}
                Step::Compact => _ = few.compact(),
            }
            regions.iter().for_each(|region| region.check());
            for (snapshot, rows) in &seen {
                prop_assert_eq!(&all(&regions[0], snapshot), rows);
            }
        }
        for (store, region) in [&few, &twin].into_iter().zip(&regions) {
            prop_assert_eq!(&all(region, &store.snapshot()), &expected);
            prop_assert_eq!(region.row_count(), expected.len() as u64);
        }
        // No row that was put has kept the life of the one before it.
        let ends = |region: &Arc<Region>, key: u8| region.get(&[Datum::Bytea(&[key])], |row| row.and_then(|row| row.expires_at()));
        for key in 0..KEYS {
            prop_assert_eq!(ends(&regions[0], key), ends(&regions[1], key));
        }
    }
}

#[test]
fn a_row_whose_time_has_come_is_put_anew() {
    let wall = Arc::new(AtomicI64::new(1_000_000));
    let store =
        Store::new(StoreConfig { wall: Wall::Moved(Arc::clone(&wall)), partition_count: 2, ..StoreConfig::default() });
    let region = store.create_region(kv()).unwrap();
    let row = |value| [Datum::Bytea(b"key"), Datum::Bytea(value)];
    let old = row(b"old");
    let write = Mutation::Upsert { row: &old };
    let until = store.now_millis() + 5;
    apply(&region, &old[..1], &Mutation::Living { write: &write, expiry: Expiry::At(until) });
    wall.fetch_add(10_000, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(get(&region, &store.snapshot(), b"key"), None);
    assert!(region.put_few(&[row(b"new")]).unwrap());
    assert_eq!(get(&region, &store.snapshot(), b"key").as_deref(), Some(&b"new"[..]));
    assert_eq!(region.row_count(), 1);
    region.check();
}

#[test]
fn what_has_to_be_looked_at_is_left_to_a_write_set() {
    let store = Store::new(StoreConfig { partition_count: 2, memory_max: 4 << 20, ..StoreConfig::default() });
    let region = store.create_region(numbers(1)).unwrap();
    let row = |id: i64, v: i64| [Datum::Int8(id), Datum::Int8(v)];
    let count = || region.row_count();
    assert!(region.put_few(&[row(1, 1), row(2, 2)]).unwrap());
    // A key twice, and a value that is none of the column's.
    assert!(!region.put_few(&[row(3, 1), row(4, 1), row(3, 2)]).unwrap());
    assert!(!region.put_few(&[row(5, 1), [Datum::Int8(6), Datum::Text("no number")]]).unwrap());
    assert!(!region.put_few(&[row(5, 1), [Datum::Null, Datum::Int8(1)]]).unwrap());
    let many: Vec<_> = (10..11 + ROWS_MAX as i64).map(|id| row(id, 0)).collect();
    assert!(!region.put_few(&many).unwrap());
    let before = count();
    // Another one's lock, and a key that somebody watches.
    let mut holder = LockHolder::new(&region, 1);
    assert!(holder.lock(&region, &[Datum::Int8(1)], Strength::Update).unwrap().is_none());
    assert!(!region.put_few(&[row(1, 5), row(8, 5)]).unwrap());
    drop(holder);
    let watch = region.watch(&[Datum::Int8(9)]).unwrap();
    assert!(!region.put_few(&[row(8, 5), row(9, 5)]).unwrap());
    drop(watch);
    // No memory.
    let mut others = store.reservation();
    others.grow(((4 << 20) - store.memory_used()) as usize).unwrap();
    let (mut expected, mut refused) = (before, 0);
    for id in 100..40_000 {
        match region.put_few(&[row(id, 0), row(id + 100_000, 0)]).unwrap() {
            true => expected += 2,
            false => refused += 1,
        }
        assert_eq!(count(), expected, "one of two rows is there");
        region.check();
        if refused > 3 {
            break;
        }
    }
    assert!(refused > 3);
    drop(others);
    let index = Arc::new(IndexDef::plain(TableId(9), "i", IndexKind::Btree, vec![ColumnId(1)]));
    region.add_index(&index);
    region.build_index(&index).unwrap();
    assert!(!region.put_few(&[row(1, 7), row(2, 7)]).unwrap());
    region.drop_index(&index);
    assert!(region.put_few(&[row(1, 7), row(2, 7)]).unwrap());
    store.drop_region(region.id());
    assert!(!region.put_few(&[row(1, 7), row(2, 7)]).unwrap());
}

#[test]
fn large_values_are_left_to_a_write_set() {
    let store = store(2, 8);
    let region = store.create_region(kv()).unwrap();
    let value = vec![0; BYTES_MAX];
    assert!(!region.put_few(&[[Datum::Bytea(b"a"), Datum::Bytea(&value)]]).unwrap());
    assert!(region.put_few(&[[Datum::Bytea(b"a"), Datum::Bytea(&value[1..])]]).unwrap());
    assert_eq!(region.row_count(), 1);
}
