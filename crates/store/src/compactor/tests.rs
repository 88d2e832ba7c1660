//! Compaction: memory comes back, order and visibility stay, readers keep what they borrow.

use ashlar_base::{Datum, Value};

use crate::testing::{kv, numbers, scan_all, store};
use crate::{Applied, Mutation, ReadView, Region, StoreConfig};

use super::*;

fn put(region: &Region, id: i64, v: i64) {
    let row = [Datum::Int8(id), Datum::Int8(v)];
    region.entry(&row[..1], |entry| entry.apply(Mutation::Upsert { row: &row })).unwrap();
}

fn delete(region: &Region, id: i64) {
    let key = [Datum::Int8(id)];
    let applied = region.entry(&key, |entry| entry.apply(Mutation::Delete { key: &key })).unwrap();
    assert_eq!(applied, Applied::Deleted);
}

fn ids(region: &Arc<Region>, view: &ReadView) -> Vec<i64> {
    let rows = scan_all(region, view).unwrap();
    rows.iter().map(|row| if let Value::Int8(id) = row[0] { id } else { panic!("{row:?}") }).collect()
}

#[test]
fn deleted_rows_give_their_memory_back_and_the_others_stay_in_order() {
    let store = store(1, 1000);
    let region = store.create_region(numbers(1)).unwrap();
    (0..10_000).for_each(|id| put(&region, id, id));
    let full = region.bytes();
    (0..10_000).filter(|id| id % 10 != 0).for_each(|id| delete(&region, id));
    let report = store.compact();
    assert_eq!(report.rows_removed, 9_000);
    assert!(region.bytes() < full / 5, "{} of {full}", region.bytes());
    region.check();
    let expected: Vec<i64> = (0..10_000).step_by(10).collect();
    assert_eq!(ids(&region, &ReadView::committed(store.snapshot())), expected);
    for id in 0..10_000 {
        assert_eq!(region.get(&[Datum::Int8(id)], |row| row.is_some()), id % 10 == 0);
    }
    assert_eq!(store.compact(), CompactionReport::default(), "nothing is left to do");
    (0..10_000).step_by(10).for_each(|id| delete(&region, id));
    store.compact();
    assert_eq!(region.bytes(), 0);
}

#[test]
fn what_a_snapshot_sees_is_kept_until_it_is_closed() {
    let store = store(1, 100);
    let region = store.create_region(numbers(1)).unwrap();
    (0..1000).for_each(|id| put(&region, id, id));
    let view = ReadView::committed(store.snapshot());
    (0..1000).for_each(|id| put(&region, id, -id));
    (0..500).for_each(|id| delete(&region, id));
    // The new rows that are deleted again are seen by nobody, and go at once.
    assert_eq!(store.compact().rows_removed, 500);
    region.check();
    let all: Vec<i64> = (0..1000).collect();
    assert_eq!(ids(&region, &view), all);
    for id in 0..1000 {
        let seen = region.get_at(&view.snapshot, &[Datum::Int8(id)], |row| row.map(|row| row.get(1).to_value()));
        assert_eq!(seen, Some(Value::Int8(id)));
    }
    drop(view);
    let report = store.compact();
    assert_eq!(report.rows_removed, 1000);
    region.check();
    assert_eq!(ids(&region, &ReadView::committed(store.snapshot())), (500..1000).collect::<Vec<_>>());
}

#[test]
fn a_reader_keeps_the_rows_that_it_borrowed() {
    let store = store(1, 100);
    let region = store.create_region(numbers(1)).unwrap();
    (0..1000).for_each(|id| put(&region, id, id));
    let view = ReadView::committed(store.snapshot());
    let batches = region.scan(&view, PartitionId(0), &[0, 1]).unwrap();
    drop(view);
    (0..1000).for_each(|id| delete(&region, id));
    store.compact();
    assert!(region.bytes() >= 16_000, "lent memory stays charged");
    let mut next = 0;
    for scanned in &batches {
        let reader = crate::ColumnReader::new(scanned.batch.column(1), crate::testing::INT8).unwrap();
        for row in 0..scanned.batch.num_rows() {
            assert_eq!(reader.datum(row), Datum::Int8(next));
            next += 1;
        }
    }
    assert_eq!(next, 1000);
    drop(batches);
    assert_eq!(region.bytes(), 0);
}

#[test]
fn few_large_rows_are_given_back_too() {
    let store = Store::new(StoreConfig { partition_count: 1, ..StoreConfig::default() });
    let region = store.create_region(kv()).unwrap();
    let value = vec![1u8; 1 << 20];
    for key in [b"a", b"b", b"c"] {
        let row = [Datum::Bytea(key), Datum::Bytea(&value)];
        region.entry(&row[..1], |entry| entry.apply(Mutation::Insert { row: &row })).unwrap();
    }
    let key = [Datum::Bytea(b"b")];
    region.entry(&key, |entry| entry.apply(Mutation::Delete { key: &key })).unwrap();
    assert!(region.bytes() >= 3 << 20);
    store.compact();
    assert!(region.bytes() < (2 << 20) + 10_000, "{}", region.bytes());
}

#[test]
fn a_counter_does_not_grow() {
    let store = Store::new(StoreConfig { partition_count: 1, ..StoreConfig::default() });
    let region = store.create_region(numbers(1)).unwrap();
    for round in 0..50 {
        (0..200).for_each(|v| put(&region, 1, round * 1000 + v));
        store.compact();
        assert!(region.bytes() < 20_000, "{}", region.bytes());
    }
    region.check();
    assert_eq!(ids(&region, &ReadView::committed(store.snapshot())), [1]);
}

/// Values of other sizes, so that every write appends: what is written after a snapshot is opened is compacted though
/// the snapshot stays open.
#[test]
fn a_long_snapshot_keeps_only_what_it_sees() {
    let store = Store::new(StoreConfig { partition_count: 1, ..StoreConfig::default() });
    let region = store.create_region(kv()).unwrap();
    let put = |key: u32, len: usize| {
        let (key, value) = (key.to_be_bytes(), vec![7u8; len]);
        let row = [Datum::Bytea(&key), Datum::Bytea(&value)];
        region.entry(&row[..1], |entry| entry.apply(Mutation::Upsert { row: &row })).unwrap();
    };
    (0..100).for_each(|key| put(key, 10));
    let mut views = vec![ReadView::committed(store.snapshot())];
    let before = region.bytes();
    for round in 0..60 {
        (0..1000).for_each(|write| put(write % 100, 10 + (write as usize + round) % 50));
        if round == 30 {
            views.push(ReadView::committed(store.snapshot()));
        }
        store.compact();
        assert!(region.bytes() < before + 150_000, "round {round}: {} of {before}", region.bytes());
    }
    region.check();
    for view in &views {
        assert_eq!(scan_all(&region, view).unwrap().len(), 100);
    }
    let lens = |view: &ReadView| -> Vec<usize> {
        let rows = scan_all(&region, view).unwrap();
        rows.iter().map(|row| if let Value::Bytea(value) = &row[1] { value.len() } else { 0 }).collect()
    };
    assert!(lens(&views[0]).iter().all(|&len| len == 10));
    let then = lens(&views[1]);
    views.remove(0);
    store.compact();
    assert_eq!(lens(&views[0]), then);
    drop(views);
    store.compact();
    region.check();
    assert!(region.bytes() < before + 30_000, "{} of {before}", region.bytes());
}

#[test]
fn spare_room_is_given_back_once_rows_stop_coming() {
    let store = Store::new(StoreConfig { partition_count: 1, ..StoreConfig::default() });
    let region = store.create_region(kv()).unwrap();
    for key in 0..700u32 {
        let (key, value) = (key.to_be_bytes(), [7; 100]);
        let row = [Datum::Bytea(&key), Datum::Bytea(&value)];
        region.entry(&row[..1], |entry| entry.apply(Mutation::Upsert { row: &row })).unwrap();
    }
    let index = 1024 * 5;
    store.compact();
    store.compact();
    let rows = 700 * (4 + 100 + 2 * 4);
    assert!(region.bytes() < (rows + rows / 7 + index + 2000) as u64, "{} for {rows}", region.bytes());
    let used = region.bytes();
    store.compact();
    assert_eq!(region.bytes(), used);
}

#[test]
fn the_thread_works_until_its_handle_is_dropped() {
    let config = StoreConfig { partition_count: 4, compaction_interval_ms: 1, ..StoreConfig::default() };
    let store = Store::new(config);
    let region = store.create_region(numbers(1)).unwrap();
    let handle = store.start_compactor();
    (0..2000).for_each(|id| put(&region, id, id));
    (0..2000).for_each(|id| delete(&region, id));
    let start = ashlar_base::clock::monotonic();
    while region.bytes() > 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "the thread frees nothing");
        std::thread::yield_now();
    }
    drop(handle);
    assert_eq!(Arc::strong_count(&store), 1, "the thread is gone");
}
