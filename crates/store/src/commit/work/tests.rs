//! What a commit has left to be done is done by whoever comes first, and nobody sees that it was left.

use std::ops::Bound;

use ashlar_base::{ColumnId, ErrorCode, IndexDef, IndexKind, TableId, Unique, Value};

use crate::commit::commit_leaving;
use crate::testing::{load, numbers, scan_all, store};
use crate::{Applied, Mutation, Probe, ReadView, Region, Store, WriteSet};

use super::*;

mod pieces;

const PARTITIONS: u16 = 8;
const ROWS: i64 = 400;

fn row(id: i64) -> [Datum<'static>; 2] {
    [Datum::Int8(id), Datum::Int8(id % 50)]
}

fn index(id: u32, is_unique: bool) -> Arc<IndexDef> {
    let unique = is_unique.then_some(Unique { nulls_distinct: true, is_constraint: false });
    let plain = IndexDef::plain(TableId(id), format!("i{id}"), IndexKind::Btree, vec![ColumnId(1)]);
    Arc::new(IndexDef { unique, ..plain })
}

fn make(region: &Region, index: &Arc<IndexDef>) {
    region.add_index(index);
    region.build_index(index).unwrap();
    region.complete_index(index);
}

/// A region with a row in every partition, and what a commit has left of so many rows more: of a load, of updates, and of deletes.
fn left(store: &Arc<Store>) -> (Arc<Region>, Arc<IndexDef>, Vec<Left>) {
    let (region, index) = (store.create_region(numbers(1)).unwrap(), index(9, false));
    for id in 0..ROWS / 2 {
        region
            .entry(&row(id)[..1], |entry| entry.apply(Mutation::Insert { row: &[Datum::Int8(id), Datum::Int8(77)] }))
            .unwrap();
    }
    make(&region, &index);
    store.compact();
    let snapshot = store.snapshot();
    let mut writes = load(&region, &snapshot, (ROWS / 2..ROWS).map(row)).unwrap();
    for id in 0..ROWS / 4 {
        writes.upsert(&region, 1, &snapshot, &row(id)).unwrap();
    }
    for id in ROWS / 4..ROWS / 2 {
        writes.delete(&region, 1, &snapshot, &row(id)[..1]).unwrap();
    }
    drop(snapshot);
    let (_, left) = commit_leaving(region.common(), &mut writes).unwrap();
    assert_eq!(left.iter().map(|left| left.partitions.len()).sum::<usize>(), usize::from(PARTITIONS));
    (region, index, left)
}

fn is_there(id: i64) -> bool {
    !(ROWS / 4..ROWS / 2).contains(&id)
}

fn finish(store: &Store, region: &Arc<Region>, left: Vec<Left>) {
    left.into_iter().for_each(|left| left.finish().unwrap());
    region.check();
    let rows = scan_all(region, &ReadView::committed(store.snapshot())).unwrap();
    assert_eq!(rows.len() as u64, region.row_count());
    assert!(
        rows.iter().all(|row| matches!(row[..], [Value::Int8(id), Value::Int8(v)] if v == id % 50 && is_there(id)))
    );
}

#[test]
fn a_key_is_found() {
    let store = store(PARTITIONS, 64);
    let (region, _, left) = left(&store);
    for id in 0..ROWS {
        let v = region.get(&row(id)[..1], |row| row.map(|row| row.get(1).to_value()));
        assert_eq!(v, is_there(id).then_some(Value::Int8(id % 50)), "{id}");
    }
    finish(&store, &region, left);
}

#[test]
fn scans_are_whole() {
    let store = store(PARTITIONS, 64);
    let (region, _, left) = left(&store);
    let rows = scan_all(&region, &ReadView::committed(store.snapshot())).unwrap();
    assert_eq!(rows.len() as i64, ROWS - ROWS / 4);
    finish(&store, &region, left);
}

#[test]
fn rows_are_counted() {
    let store = store(PARTITIONS, 64);
    let (region, _, left) = left(&store);
    assert_eq!(region.row_count() as i64, ROWS - ROWS / 4);
    finish(&store, &region, left);
}

/// No directory knows of the rows yet.
#[test]
fn an_index_passes_over_no_partition() {
    let store = store(PARTITIONS, 64);
    let (region, index, left) = left(&store);
    let snapshot = store.snapshot();
    let range = (Bound::Unbounded, Bound::Unbounded);
    let mut found = 0;
    for v in 0..50 {
        let probe = Probe { index: Arc::clone(&index), equal: vec![Value::Int8(v)], range: range.clone() };
        let candidates = region.candidates(&snapshot, std::slice::from_ref(&probe));
        for partition in (0..PARTITIONS).map(PartitionId) {
            if candidates.as_ref().is_none_or(|candidates| candidates.contains(partition)) {
                assert!(region.probe(&snapshot, partition, 1, &probe, usize::MAX, &mut |_| found += 1));
            }
        }
    }
    assert_eq!(found, ROWS - ROWS / 4);
    finish(&store, &region, left);
}

#[test]
fn writers_meet_what_is_left() {
    let store = store(PARTITIONS, 64);
    let (region, _, left) = left(&store);
    // Of its load, and of what it has deleted.
    let insert = |id: i64| region.entry(&row(id)[..1], |entry| entry.apply(Mutation::Insert { row: &row(id) }));
    assert_eq!(insert(ROWS - 1).unwrap_err().code(), ErrorCode::UniqueViolation);
    assert_eq!(insert(ROWS / 4).unwrap(), Applied::Inserted);
    let delete = Mutation::Delete { key: &row(ROWS / 4)[..1] };
    assert_eq!(region.entry(&row(ROWS / 4)[..1], |entry| entry.apply(delete)).unwrap(), Applied::Deleted);
    // Another commit, which has read before.
    let mut late = WriteSet::new();
    late.upsert(&region, 1, &store.snapshot(), &row(3)).unwrap();
    store.commit(&mut late).unwrap();
    finish(&store, &region, left);
}

#[test]
fn a_snapshot_from_before_goes_on_seeing_what_was() {
    let store = store(PARTITIONS, 64);
    let region = store.create_region(numbers(1)).unwrap();
    for id in 0..ROWS / 2 {
        region.entry(&row(id)[..1], |entry| entry.apply(Mutation::Insert { row: &row(id) })).unwrap();
    }
    let before = ReadView::committed(store.snapshot());
    let mut writes = WriteSet::new();
    writes.truncate(&region, &store.snapshot()).unwrap();
    for id in ROWS / 2..ROWS {
        writes.upsert(&region, 1, &store.snapshot(), &row(id)).unwrap();
    }
    let (_, left) = commit_leaving(region.common(), &mut writes).unwrap();
    assert!(!left.is_empty());
    let ids = |view: &ReadView| -> Vec<i64> {
        let rows = scan_all(&region, view).unwrap();
        let mut ids: Vec<i64> = rows.iter().map(|row| if let Value::Int8(id) = row[0] { id } else { -1 }).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(ids(&before), (0..ROWS / 2).collect::<Vec<_>>());
    assert_eq!(ids(&ReadView::committed(store.snapshot())), (ROWS / 2..ROWS).collect::<Vec<_>>());
    left.into_iter().for_each(|left| left.finish().unwrap());
    region.check();
}

/// A value is free once the commit that ends its row is through, whoever has done it.
#[test]
fn a_value_that_a_commit_gives_back_is_free() {
    for is_alone in [true, false] {
        let store = store(PARTITIONS, 64);
        let region = store.create_region(numbers(1)).unwrap();
        make(&region, &index(9, true));
        let row = |id: i64, v: i64| [Datum::Int8(id), Datum::Int8(v)];
        for id in 0..ROWS {
            region.entry(&row(id, 0)[..1], |entry| entry.apply(Mutation::Insert { row: &row(id, id) })).unwrap();
        }
        let mut writes = WriteSet::new();
        for id in 0..ROWS {
            writes.delete(&region, 1, &store.snapshot(), &row(id, 0)[..1]).unwrap();
        }
        let (_, left) = commit_leaving(region.common(), &mut writes).unwrap();
        for id in ROWS..2 * ROWS {
            let new = row(id, id - ROWS);
            if is_alone {
                assert_eq!(
                    region.entry(&new[..1], |entry| entry.apply(Mutation::Insert { row: &new })).unwrap(),
                    Applied::Inserted
                );
            } else {
                let mut writes = WriteSet::new();
                writes.insert(&region, 1, &store.snapshot(), &new).unwrap();
                store.commit(&mut writes).unwrap();
            }
        }
        left.into_iter().for_each(|left| left.finish().unwrap());
        assert_eq!(region.row_count() as i64, ROWS);
        region.check();
    }
}

#[test]
fn a_table_that_is_dropped_takes_what_is_left_along() {
    let store = store(PARTITIONS, 64);
    let (region, _, left) = left(&store);
    store.drop_region(region.id());
    left.into_iter().for_each(|left| left.finish().unwrap());
    assert_eq!(region.row_count(), 0);
}

/// What was committed before a watch began is no change of what is watched, whoever does it; what comes later is.
#[test]
fn a_watch_is_not_told_of_what_was_left_before_it() {
    let store = store(PARTITIONS, 64);
    let (region, _, left) = left(&store);
    // Of the load, of the updates and of the deletes.
    let watches = [ROWS - 1, 3, ROWS / 4].map(|id| (id, region.watch(&row(id)[..1]).unwrap()));
    // Those whose partitions nobody has come to by these are told no more than they.
    left.into_iter().for_each(|left| left.finish().unwrap());
    for (id, watch) in &watches {
        assert!(!watch.is_touched(&region), "{id}");
        let mut transaction = crate::KeyTransaction::new(&store);
        transaction.watch(&region, watch).unwrap();
        assert!(transaction.commit(&store).is_ok(), "{id}");
        region.entry(&row(*id)[..1], |entry| entry.apply(Mutation::Upsert { row: &row(*id) })).unwrap();
        assert!(watch.is_touched(&region), "{id}");
    }
    region.check();
}

/// A truncation that is left tells those whose rows it ends, where it ends them, and nobody who came after it.
#[test]
fn a_truncation_that_is_left_is_told_where_it_is_done() {
    let store = store(PARTITIONS, 64);
    let region = store.create_region(numbers(1)).unwrap();
    for id in 0..ROWS {
        region.entry(&row(id)[..1], |entry| entry.apply(Mutation::Insert { row: &row(id) })).unwrap();
    }
    let watch = |id: i64| region.watch(&row(id)[..1]).unwrap();
    let (before, beside) = (watch(3), watch(ROWS));
    let (mut writes, snapshot) = (WriteSet::new(), store.snapshot());
    writes.truncate(&region, &snapshot).unwrap();
    drop(snapshot);
    let (_, left) = commit_leaving(region.common(), &mut writes).unwrap();
    // Its partition is empty by now, and others are not.
    let after = watch(4);
    left.into_iter().for_each(|left| left.finish().unwrap());
    assert_eq!([&before, &beside, &after].map(|watch| watch.is_touched(&region)), [true, false, false]);
    assert_eq!(region.row_count(), 0);
    region.check();
}
