//! What happens to a partition between the two locks of a rewrite.

use std::collections::BTreeMap;

use ashlar_base::{ColumnId, IndexDef, IndexKind, PartitionId, TableId, Value};

use super::*;
use crate::mutation::Mutation;
use crate::region::Region;
use crate::testing::{numbers, scan_all, store};
use crate::{ReadView, Store};

const PARTITION: PartitionId = PartitionId(0);
const LIMITS: Limits = Limits { rows_min: 1, bytes_max: 1 << 20, dead_share: 4 };

fn put(region: &Region, id: i64, v: i64) {
    let row = [Datum::Int8(id), Datum::Int8(v)];
    region.entry(&row[..1], |entry| entry.apply(Mutation::Upsert { row: &row })).unwrap();
}

fn delete(region: &Region, id: i64) {
    let key = [Datum::Int8(id)];
    region.entry(&key, |entry| entry.apply(Mutation::Delete { key: &key })).unwrap();
}

fn ids(region: &Arc<Region>, view: &ReadView) -> Vec<i64> {
    let rows = scan_all(region, view).unwrap();
    rows.iter().map(|row| if let Value::Int8(id) = row[0] { id } else { panic!("{row:?}") }).collect()
}

fn index(region: &Region, id: u32, kind: IndexKind) {
    let index = Arc::new(IndexDef::plain(TableId(id), format!("i{id}"), kind, vec![ColumnId(1)]));
    region.add_index(&index);
    region.build_index(&index).unwrap();
}

/// Twelve rows in segments of eight, of which rows 6 to 11 are dead: both segments are one run.
fn half_dead() -> (Arc<Store>, Arc<Region>) {
    let store = store(1, 8);
    let region = store.create_region(numbers(1)).unwrap();
    index(&region, 2, IndexKind::Btree);
    (0..12).for_each(|id| put(&region, id, id));
    index(&region, 3, IndexKind::Hash);
    (6..12).for_each(|id| delete(&region, id));
    (store, region)
}

fn move_rows(region: &Region, count_max: usize) -> bool {
    let done = region.lock(PARTITION).as_mut().is_none_or(|partition| partition.move_rows(count_max));
    region.check();
    done
}

/// Picks and builds, lets `meanwhile` happen, and swaps.
fn rewrite(region: &Region, meanwhile: impl FnOnce()) -> bool {
    let rewrite = region.lock(PARTITION).as_mut().unwrap().pick(LIMITS).expect("there is something to rewrite");
    let rewritten = rewrite.build(&region.common().hasher);
    meanwhile();
    let swapped = region.lock(PARTITION).as_mut().unwrap().swap(rewritten);
    while !move_rows(region, 4) {}
    swapped
}

#[test]
fn a_snapshot_of_that_time_sees_every_row_of_the_run() {
    let (store, region) = half_dead();
    // The rows die in the first segment, so that the run's last segment is shorter than the new one.
    let mut view = None;
    let swapped = rewrite(&region, || {
        view = Some(ReadView::committed(store.snapshot()));
        put(&region, 100, 0);
    });
    assert!(swapped);
    assert_eq!(ids(&region, &view.unwrap()), (0..6).collect::<Vec<_>>());
    assert_eq!(ids(&region, &ReadView::committed(store.snapshot())), [0, 1, 2, 3, 4, 5, 100]);
}

#[test]
fn a_longer_segment_in_the_place_of_a_short_last_one_is_seen_whole() {
    let store = store(1, 8);
    let region = store.create_region(numbers(1)).unwrap();
    (0..10).for_each(|id| put(&region, id, id));
    // Four of eight are left, and one of two: the new segment has more rows than the last one had.
    (0..4).for_each(|id| delete(&region, id));
    delete(&region, 8);
    let mut view = None;
    let swapped = rewrite(&region, || {
        view = Some(ReadView::committed(store.snapshot()));
        put(&region, 100, 0);
    });
    assert!(swapped);
    assert_eq!(ids(&region, &view.unwrap()), [4, 5, 6, 7, 9]);
}

#[test]
fn rows_that_die_meanwhile_stay_dead_for_all_but_older_snapshots() {
    for seen in [false, true] {
        let (store, region) = half_dead();
        let mut view = None;
        let swapped = rewrite(&region, || {
            view = seen.then(|| ReadView::committed(store.snapshot()));
            delete(&region, 0);
            put(&region, 1, -1);
        });
        assert!(swapped);
        if let Some(view) = view {
            assert_eq!(ids(&region, &view), (0..6).collect::<Vec<_>>());
            let old = region.get_at(&view.snapshot, &[Datum::Int8(1)], |row| row.map(|row| row.get(1).to_value()));
            assert_eq!(old, Some(Value::Int8(1)));
        }
        assert_eq!(ids(&region, &ReadView::committed(store.snapshot())), [2, 3, 4, 5, 1]);
        assert!(region.get(&[Datum::Int8(0)], |row| row.is_none()));
        let v = region.get(&[Datum::Int8(1)], |row| row.map(|row| row.get(1).to_value()));
        assert_eq!(v, Some(Value::Int8(-1)));
        // Once the snapshot is closed, the next rounds remove them.
        store.compact();
        region.check();
        assert_eq!(region.lock(PARTITION).as_ref().unwrap().total(), 5);
    }
}

#[test]
fn a_rewrite_of_what_is_gone_is_thrown_away() {
    let (store, region) = half_dead();
    let swapped = rewrite(&region, || {
        region.truncate().unwrap();
        put(&region, 3, 33);
    });
    assert!(!swapped);
    assert_eq!(ids(&region, &ReadView::committed(store.snapshot())), [3]);
}

#[test]
fn a_rewrite_keeps_rows_of_an_older_shape_readable() {
    let (store, region) = half_dead();
    let swapped = rewrite(&region, || {
        let mut schema = ashlar_base::TableSchema::clone(&region.schema());
        schema.version += 1;
        schema.columns[1].id = ColumnId(9);
        schema.columns[1].default = Some(ashlar_base::ColumnDefault::Constant(Value::Int8(7)));
        region.alter(Arc::new(schema)).unwrap();
        put(&region, 50, 1);
    });
    assert!(swapped);
    let rows = scan_all(&region, &ReadView::committed(store.snapshot())).unwrap();
    let expected: Vec<_> = (0..6).map(|id| [Value::Int8(id), Value::Int8(7)]).collect();
    assert_eq!(rows[..6], expected);
    assert_eq!(rows[6], [Value::Int8(50), Value::Int8(1)]);
}

fn total(region: &Region) -> u64 {
    region.lock(PARTITION).as_ref().unwrap().total()
}

fn value(region: &Region, id: i64) -> Value {
    region.get(&[Datum::Int8(id)], |row| row.unwrap().get(1).to_value())
}

#[test]
fn a_row_that_nobody_else_can_see_is_overwritten_where_it_lies() {
    let store = store(1, 8);
    let region = store.create_region(numbers(1)).unwrap();
    // Two segments, of which one is sealed.
    (0..12).for_each(|id| put(&region, id, id));
    for id in [0, 11] {
        put(&region, id, -id);
        let key = [Datum::Int8(id)];
        let update = Mutation::Update { key: &key, changes: &[(1, Datum::Int8(100 + id))] };
        region.entry(&key, |entry| entry.apply(update)).unwrap();
        assert_eq!((total(&region), value(&region, id)), (12, Value::Int8(100 + id)));
    }
    let rows = scan_all(&region, &ReadView::committed(store.snapshot())).unwrap();
    assert_eq!((&rows[0][1], &rows[11][1]), (&Value::Int8(100), &Value::Int8(111)));
    // NULL is not a size.
    let key = [Datum::Int8(0)];
    for (value, rows) in [(Datum::Null, 13), (Datum::Null, 13), (Datum::Int8(1), 14), (Datum::Int8(2), 14)] {
        let update = Mutation::Update { key: &key, changes: &[(1, value)] };
        region.entry(&key, |entry| entry.apply(update)).unwrap();
        assert_eq!(total(&region), rows);
    }
    region.check();
}

#[test]
fn what_a_snapshot_sees_or_a_reader_keeps_is_not_overwritten() {
    let store = store(1, 8);
    let region = store.create_region(numbers(1)).unwrap();
    (0..12).for_each(|id| put(&region, id, id));
    let all: Vec<i64> = (0..12).collect();
    let mut rows = 12;
    let mut put_appends = |id: i64, appends: bool| {
        put(&region, id, -id - 1);
        rows += u64::from(appends);
        assert_eq!((total(&region), value(&region, id)), (rows, Value::Int8(-id - 1)), "{id}");
    };
    let view = ReadView::committed(store.snapshot());
    put_appends(0, true);
    put_appends(11, true);
    // The new rows are younger than the snapshot, and nobody's.
    put_appends(0, false);
    assert_eq!(ids(&region, &view), all);
    drop(view);
    // A reader that keeps what it read needs no snapshot any more. Two batches: 8 and 4 of the second segment.
    let view = ReadView::committed(store.snapshot());
    let lent = region.scan(&view, PARTITION, &[1]).unwrap();
    let text = format!("{lent:?}");
    drop(view);
    put_appends(1, true);
    put_appends(2, true);
    assert_eq!(format!("{lent:?}"), text);
    drop(lent);
    put_appends(3, false);
    region.check();
}

/// A transaction compares the row that its first statement read with the one that is there at the commit.
#[test]
fn a_conflict_is_seen_though_rows_are_overwritten() {
    let store = store(1, 8);
    let region = store.create_region(numbers(1)).unwrap();
    put(&region, 1, 1);
    put(&region, 2, 2);
    let (mut first, mut second) = (crate::WriteSet::new(), crate::WriteSet::new());
    first.upsert(&region, 1, &store.snapshot(), &[Datum::Int8(1), Datum::Int8(10)]).unwrap();
    put(&region, 2, 3);
    second.upsert(&region, 1, &store.snapshot(), &[Datum::Int8(2), Datum::Int8(20)]).unwrap();
    put(&region, 1, 4);
    put(&region, 2, 4);
    put(&region, 1, 5);
    for writes in [&mut first, &mut second] {
        let error = store.commit(writes).unwrap_err();
        assert_eq!(error.code(), ashlar_base::ErrorCode::SerializationFailure);
    }
    assert_eq!((value(&region, 1), value(&region, 2)), (Value::Int8(5), Value::Int8(4)));
}

/// Room that a commit made for rows which are then overwritten is not taken for room that later rows have.
#[test]
fn a_commit_that_overwrites_and_appends_uses_the_room_it_made() {
    let store = Store::new(crate::StoreConfig { partition_count: 1, segment_rows_max: 4, ..Default::default() });
    let region = store.create_region(crate::testing::kv()).unwrap();
    let mut writes = crate::WriteSet::new();
    let upsert = |writes: &mut crate::WriteSet, key: u8, len: usize| {
        let value = vec![key; len];
        writes.upsert(&region, 1, &store.snapshot(), &[Datum::Bytea(&[key]), Datum::Bytea(&value)]).unwrap();
    };
    (0..6).for_each(|key| upsert(&mut writes, key, 10));
    store.commit(&mut writes).unwrap();
    (0..6).for_each(|key| upsert(&mut writes, key, 10));
    (6..20).for_each(|key| upsert(&mut writes, key, 10_000 - usize::from(key)));
    store.commit(&mut writes).unwrap();
    region.check();
    assert_eq!((region.row_count(), total(&region)), (20, 20));
}

#[test]
fn a_run_ends_at_its_bytes() {
    let store = store(1, 4);
    let region = store.create_region(crate::testing::kv()).unwrap();
    for key in 0..40u8 {
        let value = vec![key; 1000];
        let row = [Datum::Bytea(std::slice::from_ref(&key)), Datum::Bytea(&value)];
        region.entry(&row[..1], |entry| entry.apply(Mutation::Insert { row: &row })).unwrap();
    }
    for key in (0..40u8).filter(|key| key % 2 == 0) {
        let key = [Datum::Bytea(std::slice::from_ref(&key))];
        region.entry(&key, |entry| entry.apply(Mutation::Delete { key: &key })).unwrap();
    }
    let pick = |bytes_max| {
        let limits = Limits { rows_min: 1, bytes_max, dead_share: 4 };
        let rewrite = region.lock(PARTITION).as_mut().unwrap().pick(limits).expect("half of the rows are dead");
        rewrite.row_counts()
    };
    // A segment by itself may be larger; two that keep two rows each make one of four.
    assert_eq!(pick(100), (4, 2));
    assert_eq!(pick(1 << 20), (8, 4));
    assert_eq!(pick(3000), (4, 2));
}

/// A default that is added to many rows at once could be more than a segment holds.
#[test]
fn a_segment_is_left_as_it_is_where_new_defaults_are_too_much_for_one() {
    let (_store, region) = half_dead();
    let mut schema = ashlar_base::TableSchema::clone(&region.schema());
    schema.version += 1;
    schema.columns[1].id = ColumnId(9);
    schema.columns[1].sql_type = crate::testing::TEXT;
    let text = Value::Text("x".repeat(1000).into());
    schema.columns[1].default = Some(ashlar_base::ColumnDefault::Constant(text));
    region.alter(Arc::new(schema)).unwrap();
    let pick = |bytes_max| {
        region.lock(PARTITION).as_mut().unwrap().pick(Limits { rows_min: 1, bytes_max, dead_share: 4 }).is_some()
    };
    assert!(pick(10_000));
    let counts = |bytes_max| {
        let limits = Limits { rows_min: 1, bytes_max, dead_share: 4 };
        region.lock(PARTITION).as_mut().unwrap().pick(limits).map(|rewrite| rewrite.row_counts())
    };
    // The first keeps six rows, the second none.
    assert_eq!(counts(5_000), Some((4, 4)));
}

#[test]
fn a_commit_that_finds_no_slot_for_its_segments_changes_nothing() {
    let store = store(1, 1);
    let region = store.create_region(numbers(1)).unwrap();
    let commit = |ids: std::ops::Range<i64>| {
        let (mut writes, snapshot) = (crate::WriteSet::new(), store.snapshot());
        ids.for_each(|id| writes.upsert(&region, 1, &snapshot, &[Datum::Int8(id), Datum::Int8(id)]).unwrap());
        drop(snapshot);
        store.commit(&mut writes).map_err(|error| error.code())
    };
    commit(0..65_000).unwrap();
    assert_eq!(commit(65_000..65_537), Err(ashlar_base::ErrorCode::ProgramLimitExceeded));
    assert_eq!(region.row_count(), 65_000);
    commit(65_000..65_536).unwrap();
    assert_eq!(region.row_count(), 65_536);
}

/// After every number of moved rows: all that can happen to rows that are on their way.
#[test]
fn rows_on_their_way_are_found_changed_and_seen_as_ever() {
    for (moved, seen) in (0..=6).flat_map(|moved| [(moved, false), (moved, true)]) {
        let (store, region) = half_dead();
        let before = seen.then(|| ReadView::committed(store.snapshot()));
        let rewrite = region.lock(PARTITION).as_mut().unwrap().pick(LIMITS).unwrap();
        let rewritten = rewrite.build(&region.common().hasher);
        assert!(region.lock(PARTITION).as_mut().unwrap().swap(rewritten));
        for _ in 0..moved {
            move_rows(&region, 1);
        }
        assert!(region.lock(PARTITION).as_mut().unwrap().pick(LIMITS).is_none() || moved == 6, "one after the other");
        let during = seen.then(|| ReadView::committed(store.snapshot()));
        // First and last of those on their way, deleted, changed, and deleted and inserted again.
        for (id, v) in [(0, None), (5, None), (1, Some(-1)), (4, Some(-4))] {
            match v {
                Some(v) => put(&region, id, v),
                None => delete(&region, id),
            }
            region.check();
        }
        delete(&region, 2);
        put(&region, 2, -2);
        // So many that the index moves to a larger table.
        (100..140).for_each(|id| put(&region, id, id));
        let expected: BTreeMap<i64, i64> =
            [(1, -1), (2, -2), (3, 3), (4, -4)].into_iter().chain((100..140).map(|id| (id, id))).collect();
        for finished in [false, true] {
            while finished && !move_rows(&region, 1) {}
            for view in [&before, &during].into_iter().flatten() {
                assert_eq!(ids(&region, view), (0..6).collect::<Vec<_>>());
                for id in 0..6 {
                    let v =
                        region.get_at(&view.snapshot, &[Datum::Int8(id)], |row| row.map(|row| row.get(1).to_value()));
                    assert_eq!(v, Some(Value::Int8(id)), "moved {moved}, finished {finished}");
                }
            }
            let found: BTreeMap<i64, i64> = (0..150)
                .filter_map(|id| match region.get(&[Datum::Int8(id)], |row| row.map(|row| row.get(1).to_value())) {
                    Some(Value::Int8(v)) => Some((id, v)),
                    _ => None,
                })
                .collect();
            assert_eq!(found, expected, "moved {moved}, finished {finished}");
            let mut now = ids(&region, &ReadView::committed(store.snapshot()));
            now.sort_unstable();
            assert!(now.iter().eq(expected.keys()), "moved {moved}, finished {finished}: {now:?}");
        }
        drop((before, during));
        store.compact();
        region.check();
        assert_eq!(region.lock(PARTITION).as_ref().unwrap().total(), 44);
        (0..150).filter(|id| expected.contains_key(id)).for_each(|id| delete(&region, id));
        store.compact();
        assert_eq!(store.memory_used(), 0);
    }
}

#[test]
fn what_is_on_its_way_goes_with_its_table_or_is_finished_by_the_next_round() {
    for moved in 0..6 {
        let begin = || {
            let (store, region) = half_dead();
            let rewrite = region.lock(PARTITION).as_mut().unwrap().pick(LIMITS).unwrap();
            let rewritten = rewrite.build(&region.common().hasher);
            assert!(region.lock(PARTITION).as_mut().unwrap().swap(rewritten));
            move_rows(&region, moved);
            (store, region)
        };
        let (store, region) = begin();
        assert_eq!(region.truncate(), Ok(6));
        assert!(move_rows(&region, 1));
        put(&region, 3, 33);
        assert_eq!(ids(&region, &ReadView::committed(store.snapshot())), [3]);
        let (store, region) = begin();
        let view = ReadView::committed(store.snapshot());
        assert_eq!(region.truncate(), Ok(6));
        put(&region, 3, 33);
        store.compact();
        assert_eq!(ids(&region, &view), (0..6).collect::<Vec<_>>());
        assert_eq!(ids(&region, &ReadView::committed(store.snapshot())), [3]);
        drop(view);
        store.compact();
        assert_eq!(region.lock(PARTITION).as_ref().unwrap().total(), 1);
    }
}
