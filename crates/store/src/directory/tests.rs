//! Directories: no partition that has a row is passed over, few others are asked, and memory follows the entries.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicI64};

use ashlar_base::{ColumnId, Datum, IndexDef, TableSchema, Value};

use super::*;
use crate::testing::{numbers, store};
use crate::{Mutation, Store};

fn put(region: &Region, id: i64, v: i64) {
    let row = [Datum::Int8(id), Datum::Int8(v)];
    region.entry(&row[..1], |entry| entry.apply(Mutation::Upsert { row: &row })).unwrap();
}

fn index_on_v(region: &Region, kind: IndexKind) -> Arc<IndexDef> {
    let index = Arc::new(IndexDef::plain(TableId(9), "i", kind, vec![ColumnId(1)]));
    region.add_index(&index);
    region.build_index(&index).unwrap();
    index
}

fn probe(index: &Arc<IndexDef>, v: i64) -> Probe {
    let range = (Bound::Unbounded, Bound::Unbounded);
    Probe { index: Arc::clone(index), equal: vec![Value::Int8(v)], range }
}

/// The keys that an index finds in the partitions that are asked, and how many were asked.
fn find(store: &Store, region: &Region, probe: &Probe) -> (Vec<i64>, usize) {
    let snapshot = store.snapshot();
    let candidates = region.candidates(&snapshot, std::slice::from_ref(probe));
    let candidates: Vec<_> = match &candidates {
        Some(candidates) => candidates.iter().collect(),
        None => (0..region.partition_count()).map(PartitionId).collect(),
    };
    let mut keys = Vec::new();
    for partition in &candidates {
        let found = region.probe(&snapshot, *partition, 1, probe, usize::MAX, &mut |row| match row.get(0) {
            Datum::Int8(key) => keys.push(key),
            other => panic!("{other:?}"),
        });
        assert!(found);
    }
    (keys, candidates.len())
}

/// Rows that lie together by the first column of their key.
#[test]
fn a_probe_that_names_a_partition_asks_no_other() {
    let store = store(64, 1024);
    let mut schema = TableSchema::clone(&numbers(1));
    (schema.key, schema.partition_by) = (vec![0, 1], vec![0]);
    schema.columns[1].nullable = false;
    let region = store.create_region(Arc::new(schema)).unwrap();
    let index = Arc::new(IndexDef::plain(TableId(9), "i", IndexKind::Btree, vec![ColumnId(1), ColumnId(0)]));
    region.add_index(&index);
    region.build_index(&index).unwrap();
    for row in 0..2_000 {
        let row = [Datum::Int8(row % 40), Datum::Int8(row)];
        region.entry(&row, |entry| entry.apply(Mutation::Insert { row: &row })).unwrap();
    }
    let snapshot = store.snapshot();
    for row in 0..2_000 {
        let (id, v) = (row % 40, row);
        let equal = vec![Value::Int8(v), Value::Int8(id)];
        let probe = Probe { equal, ..probe(&index, v) };
        let home = region.partition_of(&[Datum::Int8(id), Datum::Int8(v)]).unwrap();
        let asked = region.candidates(&snapshot, std::slice::from_ref(&probe)).unwrap();
        assert_eq!(asked.iter().collect::<Vec<_>>(), [home]);
        assert_eq!(find(&store, &region, &probe), (vec![id], 1));
    }
    // The other column alone says nothing, and neither does a value of another type.
    let asked = |equal: Vec<Value>| region.candidates(&snapshot, &[Probe { equal, ..probe(&index, 7) }]);
    assert!(asked(vec![Value::Int8(7)]).is_none());
    assert!(asked(vec![Value::Int8(7), Value::Text("7".into())]).is_none());
    assert!(asked(vec![Value::Int8(7), Value::Null]).is_none());
}

#[test]
fn few_partitions_are_asked_in_vain() {
    let store = store(256, 1024);
    let region = store.create_region(numbers(1)).unwrap();
    (0..20_000).for_each(|id| put(&region, id, id * 7));
    let index = index_on_v(&region, IndexKind::Btree);
    assert_eq!(find(&store, &region, &probe(&index, 7)), (vec![1], 256), "before there is a directory");
    store.compact();
    let asked: usize = (0..20_000)
        .map(|id| {
            let (keys, asked) = find(&store, &region, &probe(&index, id * 7));
            assert_eq!(keys, [id]);
            asked - 1
        })
        .sum();
    // (1 - e^(-3/24))^3 of 255, for it is made for half as many more: 0.4.
    assert!(asked < 20_000, "{asked} partitions were asked in vain");
    let (_, nowhere) = find(&store, &region, &probe(&index, 1));
    assert!(nowhere < 10, "{nowhere}");
    let range =
        Probe { equal: Vec::new(), range: (Bound::Included(Value::Int8(0)), Bound::Unbounded), ..probe(&index, 0) };
    assert_eq!(region.candidates(&store.snapshot(), &[range]), None);
}

#[test]
fn a_directory_that_is_too_full_or_too_large_is_made_anew() {
    let store = store(64, 1024);
    let region = store.create_region(numbers(1)).unwrap();
    let index = index_on_v(&region, IndexKind::Hash);
    let values_max = || region.directories().read()[&index.id].current.as_ref().unwrap().values_max();
    put(&region, 0, 0);
    store.compact();
    assert_eq!(values_max(), VALUES_MIN);
    let before = store.memory_used();
    // Every value is another one: entries come and go.
    (0..10_000).for_each(|v| put(&region, v % 8, v));
    store.compact();
    let charged = store.memory_used();
    assert!(charged < before + 100_000, "{charged} instead of {before}");
    assert!((0..8).all(|id| find(&store, &region, &probe(&index, 9992 + id)).0 == [id]));
    let nowhere: usize = (0..1000).map(|v| find(&store, &region, &probe(&index, -1 - v)).1).sum();
    assert!(nowhere < 1000, "stale values are forgotten: {nowhere}");
    (0..50_000).for_each(|id| put(&region, id, id));
    store.compact();
    assert_eq!(values_max(), 75_000);
    assert!(store.memory_used() > charged + 75_000 * 2);
    region.truncate().unwrap();
    put(&region, 1, 1);
    store.compact();
    assert_eq!(values_max(), VALUES_MIN);
    region.drop_index(&index);
    assert!(region.directories().read().is_empty());
    assert_eq!(region.candidates(&store.snapshot(), &[probe(&index, 1)]), None);
}

/// What was committed before a snapshot is found through its candidates, while directories are made again and again.
#[test]
fn nothing_that_is_committed_is_passed_over() {
    const ROWS: i64 = 40_000;
    let store = store(16, 64);
    let region = store.create_region(numbers(1)).unwrap();
    put(&region, -1, -1);
    let index = index_on_v(&region, IndexKind::Btree);
    let (committed, done) = (AtomicI64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for id in 0..ROWS {
                if id % 3 == 0 {
                    let mut writes = crate::WriteSet::new();
                    let row = [Datum::Int8(id), Datum::Int8(id)];
                    writes.upsert(&region, 1, &store.snapshot(), &row).unwrap();
                    store.commit(&mut writes).unwrap();
                } else {
                    put(&region, id, id);
                }
                committed.store(id + 1, Ordering::Release);
            }
            done.store(true, Ordering::Release);
        });
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                // Emptied and made again: partitions come and go, too.
                region.refresh_directories();
                region.directories().write().remove(&index.id);
                region.refresh_directories();
            }
        });
        let mut looked = 0i64;
        while !done.load(Ordering::Acquire) {
            let last = committed.load(Ordering::Acquire) - 1;
            let any = last.max(0) * (looked % 97) / 97;
            for v in [last, any].into_iter().filter(|v| *v >= 0 && *v <= last) {
                assert_eq!(find(&store, &region, &probe(&index, v)).0, [v]);
            }
            looked += 1;
        }
        assert!(looked > 0);
    });
    store.compact();
    assert!((0..ROWS).step_by(101).all(|v| find(&store, &region, &probe(&index, v)).0 == [v]));
    region.check();
}
