//! Commits: all or nothing, first writer wins, and every snapshot sees whole transactions.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use ashlar_base::clock::Wall;
use ashlar_base::{ColumnId, ErrorCode, IndexDef, IndexKind, TableId, Value};

use crate::life::Expiry;
use crate::testing::{datums, kv, load, numbers, scan_all, store, wait};
use crate::{Applied, LockHolder, Mutation, ReadView, Region, RowBatch, Snapshot, Store, StoreConfig, WriteSet};

use super::*;

fn put(region: &Region, id: i64, v: i64) -> Applied {
    let row = [Datum::Int8(id), Datum::Int8(v)];
    region.entry(&row[..1], |entry| entry.apply(Mutation::Upsert { row: &row })).unwrap()
}

fn get(region: &Region, id: i64) -> Option<i64> {
    region.get(&[Datum::Int8(id)], |row| {
        row.map(|row| match row.get(1) {
            Datum::Int8(v) => v,
            other => panic!("{other:?}"),
        })
    })
}

fn get_at(region: &Region, snapshot: &Snapshot, id: i64) -> i64 {
    region.get_at(snapshot, &[Datum::Int8(id)], |row| match row.expect("accounts are never deleted").get(1) {
        Datum::Int8(v) => v,
        other => panic!("{other:?}"),
    })
}

fn sum(regions: &[Arc<Region>], snapshot: &Snapshot) -> i64 {
    let view = ReadView::committed(snapshot.clone());
    let rows = regions.iter().flat_map(|region| scan_all(region, &view).unwrap());
    rows.map(|row| match row[1] {
        Value::Int8(v) => v,
        ref other => panic!("{other:?}"),
    })
    .sum()
}

/// Tells the other threads to stop, also when this one panics.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Money moves between rows of different partitions and regions while scans, lookups and compaction run.
#[test]
fn every_snapshot_sees_the_same_total() {
    const ACCOUNTS: i64 = 40;
    const TRANSFERS: u64 = 400;
    let store = store(8, 16);
    let regions = [store.create_region(numbers(1)).unwrap(), store.create_region(numbers(2)).unwrap()];
    for region in &regions {
        (0..ACCOUNTS).for_each(|id| {
            put(region, id, 100);
        });
    }
    let total = 2 * ACCOUNTS * 100;
    let (done, conflicts, looks) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let transfer = |seed: u64| {
            let mut random = seed;
            let mut next = move |bound: i64| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) as i64 % bound
            };
            let mut moved = 0;
            while moved < TRANSFERS {
                let (from, to) = (&regions[next(2) as usize], &regions[next(2) as usize]);
                let (a, b, amount) = (next(ACCOUNTS), next(ACCOUNTS), next(10));
                if Arc::ptr_eq(from, to) && a == b {
                    continue;
                }
                let snapshot = store.snapshot();
                let mut writes = WriteSet::new();
                let change = |writes: &mut WriteSet, region: &Arc<Region>, id, by| {
                    let row = [Datum::Int8(id), Datum::Int8(get_at(region, &snapshot, id) + by)];
                    writes.upsert(region, 1, &snapshot, &row).unwrap();
                };
                change(&mut writes, from, a, -amount);
                change(&mut writes, to, b, amount);
                match store.commit(&mut writes) {
                    Ok(_) => moved += 1,
                    Err(error) => {
                        assert_eq!(error.code(), ErrorCode::SerializationFailure);
                        conflicts.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        };
        let writers: Vec<_> = (1..=3).map(|seed| scope.spawn(move || transfer(seed))).collect();
        let look = || {
            let mut old: Option<(Snapshot, i64)> = None;
            while !done.load(Ordering::Relaxed) {
                let snapshot = store.snapshot();
                assert_eq!(sum(&regions, &snapshot), total);
                let by_key: i64 =
                    regions.iter().flat_map(|region| (0..ACCOUNTS).map(|id| get_at(region, &snapshot, id))).sum();
                assert_eq!(by_key, total);
                // One account, later, is what it was.
                if let Some((old, v)) = old.replace((snapshot.clone(), get_at(&regions[0], &snapshot, 7))) {
                    assert_eq!(get_at(&regions[0], &old, 7), v);
                }
                looks.fetch_add(1, Ordering::Relaxed);
            }
        };
        let readers = [scope.spawn(look), scope.spawn(look)];
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                store.compact();
            }
        });
        // Whoever fails ends the test for all.
        let _stop = Stop(&done);
        for writer in writers {
            writer.join().expect("a writer failed");
        }
        while looks.load(Ordering::Relaxed) < 10 && !readers.iter().any(|reader| reader.is_finished()) {
            std::thread::yield_now();
        }
    });
    assert_eq!(sum(&regions, &store.snapshot()), total);
    regions.iter().for_each(|region| region.check());
    // Nothing of the history is left.
    store.compact();
    let rows: usize =
        regions.iter().map(|region| scan_all(region, &ReadView::committed(store.snapshot())).unwrap().len()).sum();
    assert_eq!(rows as i64, 2 * ACCOUNTS);
}

/// Commits of all rows are done in pieces beside those who read keys: whoever has read one row of a commit reads no older row of
/// another key afterwards, and who has been told that it is through reads all of it.
#[test]
fn keys_that_are_read_one_after_the_other_never_go_back() {
    const ROWS: i64 = 300;
    const COMMITS: i64 = 60;
    let store = store(8, 64);
    let region = store.create_region(numbers(1)).unwrap();
    (0..ROWS).for_each(|id| {
        put(&region, id, 0);
    });
    let (done, looks) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let by_key = |seed: i64| {
            let (mut id, mut newest) = (seed, 0);
            while !done.load(Ordering::Relaxed) {
                id = (id * 7 + 11) % ROWS;
                let v = get(&region, id).expect("no row is deleted");
                assert!(v >= newest, "{id} has {v}, and another had {newest}");
                newest = v;
                looks.fetch_add(1, Ordering::Relaxed);
            }
        };
        let by_snapshot = || {
            while !done.load(Ordering::Relaxed) {
                let before = get(&region, 5);
                let snapshot = store.snapshot();
                let v = get_at(&region, &snapshot, 0);
                assert!(before <= Some(v), "{v} is older than {before:?}");
                assert!((0..ROWS).all(|id| get_at(&region, &snapshot, id) == v), "half of a commit is seen");
                assert_eq!(sum(std::slice::from_ref(&region), &snapshot), v * ROWS);
            }
        };
        let readers = [1, 2].map(|seed| scope.spawn(move || by_key(seed)));
        scope.spawn(by_snapshot);
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                store.compact();
            }
        });
        // Whoever fails ends the test for all.
        let _stop = Stop(&done);
        for v in 1..=COMMITS {
            let (mut writes, snapshot) = (WriteSet::new(), store.snapshot());
            for id in 0..ROWS {
                writes.upsert(&region, 1, &snapshot, &[Datum::Int8(id), Datum::Int8(v)]).unwrap();
            }
            drop(snapshot);
            store.commit(&mut writes).unwrap();
            assert_eq!(get(&region, v % ROWS), Some(v));
        }
        while looks.load(Ordering::Relaxed) < 100 && !readers.iter().any(|reader| reader.is_finished()) {
            std::thread::yield_now();
        }
    });
    region.check();
}

/// The increments of all threads add up, though each reads before it writes.
#[test]
fn no_update_is_lost_between_entries_and_transactions() {
    let store = store(4, 64);
    let region = store.create_region(numbers(1)).unwrap();
    put(&region, 1, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..500 {
                let key = [Datum::Int8(1)];
                region.entry(&key, |entry| {
                    let Some(Datum::Int8(v)) = entry.row().map(|row| row.get(1)) else { panic!("the row is there") };
                    entry.apply(Mutation::Update { key: &key, changes: &[(1, Datum::Int8(v + 1))] }).unwrap();
                });
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                let mut committed = 0;
                while committed < 300 {
                    let snapshot = store.snapshot();
                    let v = get_at(&region, &snapshot, 1);
                    let mut writes = WriteSet::new();
                    writes.upsert(&region, 1, &snapshot, &[Datum::Int8(1), Datum::Int8(v + 1)]).unwrap();
                    committed += i32::from(store.commit(&mut writes).is_ok());
                }
            });
        }
    });
    assert_eq!(get(&region, 1), Some(500 + 2 * 300));
}

#[test]
fn the_first_writer_wins() {
    let store = store(4, 64);
    let region = store.create_region(numbers(1)).unwrap();
    put(&region, 1, 10);
    let snapshot = store.snapshot();
    let (mut first, mut second) = (WriteSet::new(), WriteSet::new());
    first.upsert(&region, 1, &snapshot, &[Datum::Int8(1), Datum::Int8(11)]).unwrap();
    second.upsert(&region, 1, &snapshot, &[Datum::Int8(2), Datum::Int8(22)]).unwrap();
    second.delete(&region, 1, &snapshot, &[Datum::Int8(1)]).unwrap();
    drop(snapshot);
    let committed = store.commit(&mut first).unwrap();
    assert!(first.is_empty());
    assert!(store.snapshot().timestamp() >= committed);
    let error = store.commit(&mut second).unwrap_err();
    assert_eq!(error.code(), ErrorCode::SerializationFailure);
    assert_eq!(error.message(), "could not serialize access due to concurrent update");
    assert_eq!((get(&region, 1), get(&region, 2)), (Some(11), None), "nothing of the loser is there");
}

/// A row that somebody else has locked is found among many that are written, and so is one among many that are locked.
#[test]
fn a_commit_is_stopped_by_a_lock_of_one_of_its_rows() {
    const LOCKED: i64 = 7;
    let strengths = [Strength::KeyShare, Strength::Share, Strength::NoKeyUpdate, Strength::Update];
    for (rows, others) in [(40, 0), (40, 20), (9, 200)] {
        for (strength, deletes) in strengths.into_iter().flat_map(|strength| [(strength, false), (strength, true)]) {
            let store = store(4, 64);
            let region = store.create_region(numbers(1)).unwrap();
            (0..400).for_each(|id| {
                put(&region, id, 0);
            });
            let mut holder = LockHolder::new(&region, 1);
            for id in (100..100 + others).chain([LOCKED]) {
                assert!(holder.lock(&region, &[Datum::Int8(id)], strength).unwrap().is_none());
            }
            let (mut writes, snapshot) = (WriteSet::new(), store.snapshot());
            for id in 0..rows {
                let row = [Datum::Int8(id), Datum::Int8(1)];
                if id == LOCKED && deletes {
                    writes.delete(&region, 1, &snapshot, &row[..1]).unwrap();
                } else {
                    writes.upsert(&region, 1, &snapshot, &row).unwrap();
                }
            }
            drop(snapshot);
            let is_stopped = deletes || strength != Strength::KeyShare;
            if is_stopped {
                assert_eq!(store.commit(&mut writes).unwrap_err().code(), ErrorCode::LockNotAvailable);
                let request = writes.take_stopped().map(|request| request.order());
                assert_eq!(request, Some((region.id(), region.hash(&[Datum::Int8(LOCKED)]))));
                assert_eq!((get(&region, 0), get(&region, LOCKED)), (Some(0), Some(0)));
                drop(holder);
            }
            store.commit(&mut writes).unwrap();
            assert_eq!((get(&region, 0), get(&region, LOCKED)), (Some(1), (!deletes).then_some(1)));
            region.check();
        }
    }
}

/// The second statement's snapshot is closed before the other commit, which must be noticed all the same.
#[test]
fn a_conflict_is_seen_though_the_statements_snapshot_is_closed() {
    let store = store(1, 64);
    let region = store.create_region(numbers(1)).unwrap();
    put(&region, 1, 10);
    put(&region, 2, 20);
    let mut writes = WriteSet::new();
    writes.upsert(&region, 1, &store.snapshot(), &[Datum::Int8(1), Datum::Int8(11)]).unwrap();
    put(&region, 2, 21);
    writes.upsert(&region, 1, &store.snapshot(), &[Datum::Int8(2), Datum::Int8(99)]).unwrap();
    put(&region, 2, 22);
    assert_eq!(store.commit(&mut writes).unwrap_err().code(), ErrorCode::SerializationFailure);
    assert_eq!((get(&region, 1), get(&region, 2)), (Some(10), Some(22)));
}

/// A later statement of the transaction has seen the other commit; its first one has not.
#[test]
fn the_first_write_of_a_key_says_since_when_it_must_not_change() {
    let store = store(1, 64);
    let region = store.create_region(numbers(1)).unwrap();
    put(&region, 1, 10);
    let mut writes = WriteSet::new();
    writes.upsert(&region, 1, &store.snapshot(), &[Datum::Int8(1), Datum::Int8(11)]).unwrap();
    put(&region, 1, 20);
    writes.upsert(&region, 1, &store.snapshot(), &[Datum::Int8(1), Datum::Int8(12)]).unwrap();
    assert_eq!(store.commit(&mut writes).unwrap_err().code(), ErrorCode::SerializationFailure);
    assert_eq!(get(&region, 1), Some(20));
}

#[test]
fn an_insert_that_was_overtaken_is_a_duplicate() {
    let store = store(4, 64);
    let region = store.create_region(numbers(1)).unwrap();
    let snapshot = store.snapshot();
    let mut writes = WriteSet::new();
    writes.insert(&region, 1, &snapshot, &[Datum::Int8(1), Datum::Int8(1)]).unwrap();
    let again = writes.insert(&region, 1, &snapshot, &[Datum::Int8(1), Datum::Int8(2)]).unwrap_err();
    assert_eq!(again.code(), ErrorCode::UniqueViolation);
    put(&region, 1, 5);
    let error = store.commit(&mut writes).unwrap_err();
    assert_eq!(error.message(), "duplicate key value violates unique constraint \"t_pkey\"");
    assert_eq!(error.fields().detail.as_deref(), Some("Key (id)=(1) already exists."));
    assert_eq!(error.fields().table.as_deref(), Some("t"));
    assert_eq!(get(&region, 1), Some(5));
    let mut late = WriteSet::new();
    let error = late.insert(&region, 1, &store.snapshot(), &[Datum::Int8(1), Datum::Int8(1)]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::UniqueViolation);
    assert!(late.is_empty());
}

#[test]
fn a_commit_over_the_bound_changes_nothing_and_a_delete_still_works() {
    let store = Store::new(StoreConfig { partition_count: 4, memory_max: 4 << 20, ..StoreConfig::default() });
    let region = store.create_region(kv()).unwrap();
    let value = vec![7u8; 100_000];
    let row = |key: u32| vec![Value::Bytea(key.to_be_bytes().into()), Value::Bytea(value.clone().into())];
    let mut count = 0;
    let fill = |writes: &mut WriteSet, from: u32, rows: u32| {
        let snapshot = store.snapshot();
        (from..from + rows).try_for_each(|key| writes.upsert(&region, 1, &snapshot, &datums(&row(key))))
    };
    let error = loop {
        let mut writes = WriteSet::new();
        let result = fill(&mut writes, count, 3).and_then(|()| store.commit(&mut writes));
        assert!(store.memory_used() <= 4 << 20);
        match result {
            Ok(_) => count += 3,
            Err(error) => break error,
        }
    };
    assert_eq!(error.code(), ErrorCode::OutOfMemory);
    assert_eq!(region.row_count(), u64::from(count));
    region.check();
    // Through entries the rest fits, until it does not.
    let error = loop {
        let row = row(count);
        let row = datums(&row);
        match region.entry(&row[..1], |entry| entry.apply(Mutation::Insert { row: &row })) {
            Ok(applied) => assert_eq!(applied, Applied::Inserted),
            Err(error) => break error,
        }
        count += 1;
        assert!(store.memory_used() <= 4 << 20);
    };
    assert_eq!(error.code(), ErrorCode::OutOfMemory);
    assert_eq!(region.row_count(), u64::from(count));
    // A full store deletes, and compaction makes room again.
    for key in 0..count {
        let key = [Value::Bytea(key.to_be_bytes().into())];
        let key = datums(&key);
        let applied = region.entry(&key, |entry| entry.apply(Mutation::Delete { key: &key })).unwrap();
        assert_eq!(applied, Applied::Deleted);
    }
    let report = store.compact();
    assert!(report.rows_removed >= u64::from(count) && report.bytes_freed > 2 << 20, "{report:?}");
    assert_eq!(region.bytes(), 0);
    fill(&mut WriteSet::new(), 0, 3).unwrap();
}

#[test]
fn a_large_commit_fills_segments_in_order() {
    let store = store(2, 1000);
    let region = store.create_region(numbers(1)).unwrap();
    put(&region, 3, 1);
    let mut writes = WriteSet::new();
    let snapshot = store.snapshot();
    for id in 0..20_000 {
        writes.upsert(&region, 1, &snapshot, &[Datum::Int8(id), Datum::Int8(id * 2)]).unwrap();
    }
    for id in (0..20_000).step_by(2) {
        writes.delete(&region, 1, &snapshot, &[Datum::Int8(id)]).unwrap();
    }
    drop(snapshot);
    store.commit(&mut writes).unwrap();
    assert_eq!(region.row_count(), 10_000);
    region.check();
    let rows = scan_all(&region, &ReadView::committed(store.snapshot())).unwrap();
    assert_eq!(rows.len(), 10_000);
    assert!(rows.iter().all(|row| matches!(row[..], [Value::Int8(id), Value::Int8(v)] if v == id * 2 && id % 2 == 1)));
}

#[test]
fn commits_span_regions_and_an_empty_one_is_a_timestamp() {
    let store = store(4, 64);
    let regions = [store.create_region(numbers(2)).unwrap(), store.create_region(numbers(1)).unwrap()];
    let mut writes = WriteSet::new();
    let first = store.commit(&mut writes).unwrap();
    for region in &regions {
        writes.upsert(region, 1, &store.snapshot(), &[Datum::Int8(1), Datum::Int8(1)]).unwrap();
    }
    store.drop_region(TableId(1));
    assert_eq!(store.commit(&mut writes).unwrap_err().code(), ErrorCode::SerializationFailure);
    assert_eq!(get(&regions[0], 1), None);
    assert!(store.commit(&mut WriteSet::new()).unwrap() > first);
}

#[test]
fn a_commit_of_indexed_rows_is_whole_however_little_memory_there_is() {
    const MAX: u64 = 8 << 20;
    let config = StoreConfig { partition_count: 4, memory_max: MAX, ..StoreConfig::default() };
    let store = Store::new(config);
    let region = store.create_region(numbers(1)).unwrap();
    for (id, kind) in [(100, IndexKind::Btree), (101, IndexKind::Hash)] {
        let index = Arc::new(IndexDef::plain(TableId(id), format!("i{id}"), kind, vec![ColumnId(1)]));
        region.add_index(&index);
        region.build_index(&index).unwrap();
    }
    let (mut next, mut refused) = (0i64, 0);
    for round in 0..160usize {
        let mut writes = WriteSet::new();
        let snapshot = store.snapshot();
        let rows = 40 + round as i64 % 7 * 100;
        for id in next..next + rows {
            // Scattered over the leaves.
            let row = [Datum::Int8(id), Datum::Int8(id.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64.cast_signed()))];
            writes.upsert(&region, 1, &snapshot, &row).unwrap();
        }
        drop(snapshot);
        // From nothing to what is plenty.
        let left = round % 40 * (4 << 10);
        let mut others = store.reservation();
        let free = (MAX - store.memory_used()) as usize;
        others.grow(free.saturating_sub(left)).unwrap();
        let before = region.row_count();
        match store.commit(&mut writes) {
            Ok(_) => next += rows,
            Err(error) => {
                assert_eq!(error.code(), ErrorCode::OutOfMemory);
                assert_eq!(region.row_count(), before, "a commit that fails changes nothing");
                refused += 1;
            }
        }
        region.check();
        assert_eq!(region.row_count(), next as u64);
    }
    assert!(refused > 10 && next > 1_000, "{refused} refused, {next} rows");
}

#[test]
fn a_commit_of_a_load_makes_no_key_index_anew() {
    let store = store(1, 8192);
    let region = store.create_region(numbers(1)).unwrap();
    let snapshot = store.snapshot();
    let rows = (0..5_000).map(|id| [Datum::Int8(id), Datum::Int8(id)]);
    let mut writes = load(&region, &snapshot, rows).unwrap();
    drop(snapshot);
    let before = region.bytes();
    store.commit(&mut writes).unwrap();
    // What the partition itself takes, and no second set of places for 5,000 entries.
    assert!(region.bytes() < before + 1024, "{before} -> {}", region.bytes());
    assert_eq!(region.row_count(), 5_000);
    region.check();
}

#[test]
fn loads_and_rows_of_one_commit_have_room_in_one_key_index() {
    let store = store(1, 8192);
    let region = store.create_region(numbers(1)).unwrap();
    let snapshot = store.snapshot();
    let row = |id: i64| [Datum::Int8(id), Datum::Int8(-id)];
    let mut writes = load(&region, &snapshot, (0..1_000).map(row)).unwrap();
    for first in [1_000, 2_000] {
        assert!(writes.start_load(&region, 1, &snapshot).unwrap());
        let mut batch = RowBatch::new(&region, 1);
        (first..first + 1_000 - first / 10).for_each(|id| wait(&mut batch, &row(id)).unwrap());
        while !writes.load_batch(&region, 1, &snapshot, &mut batch, 300).unwrap() {}
    }
    (5_000..5_700).for_each(|id| writes.insert(&region, 1, &snapshot, &row(id)).unwrap());
    drop(snapshot);
    store.commit(&mut writes).unwrap();
    assert_eq!(region.row_count(), 1_000 + 900 + 800 + 700);
    region.check();
    for (id, is_there) in [(999, true), (1_899, true), (1_900, false), (2_799, true), (2_800, false), (5_699, true)] {
        assert_eq!(get(&region, id), is_there.then_some(-id), "{id}");
    }
}

/// Segments that queries read, by partition.
fn segments(store: &Store, region: &Region) -> Vec<usize> {
    let view = ReadView::committed(store.snapshot());
    (0..region.partition_count()).map(|id| region.scan(&view, PartitionId(id), &[0]).unwrap().len()).collect()
}

#[test]
fn loads_of_few_rows_are_put_behind_those_that_are_there() {
    let store = store(2, 1000);
    let region = store.create_region(numbers(1)).unwrap();
    let mut there = 0;
    for (rows, expected) in [(100, 1), (1, 1), (399, 1), (2, 1), (900, 1), (1_000, 2), (50, 2)] {
        let (next, snapshot) = (there + rows, store.snapshot());
        let mut writes = load(&region, &snapshot, (there..next).map(|id| [Datum::Int8(id), Datum::Int8(-id)])).unwrap();
        drop(snapshot);
        // Whoever looks sees what was there, and keeps it.
        let before = ReadView::committed(store.snapshot());
        let lent = region.scan(&before, PartitionId(0), &[0, 1]).unwrap();
        store.commit(&mut writes).unwrap();
        assert_eq!(scan_all(&region, &before).unwrap().len(), there as usize);
        drop((before, lent));
        assert_eq!((region.row_count(), get(&region, next - 1)), (next as u64, Some(1 - next)));
        assert_eq!(segments(&store, &region), [expected; 2], "{rows} rows more");
        region.check();
        there = next;
    }
    // One of them is there: nothing has happened.
    let snapshot = store.snapshot();
    put(&region, there + 5, 0);
    let mut writes = load(&region, &snapshot, (there..there + 9).map(|id| [Datum::Int8(id), Datum::Int8(0)])).unwrap();
    assert_eq!(store.commit(&mut writes).unwrap_err().code(), ErrorCode::UniqueViolation);
    assert_eq!(region.row_count(), there as u64 + 1);
    region.check();
}

/// A commit that is stopped once it has its locks has made the room before.
#[test]
fn room_in_the_key_index_for_a_load_is_made_before_all_partitions_are_locked() {
    let store = store(1, 8192);
    let region = store.create_region(numbers(1)).unwrap();
    put(&region, 0, 0);
    let rows = (1..5_000).map(|id| [Datum::Int8(id), Datum::Int8(id)]);
    let mut writes = load(&region, &store.snapshot(), rows).unwrap();
    let mut holder = LockHolder::new(&region, 1);
    assert!(holder.lock(&region, &[Datum::Int8(7)], Strength::Update).unwrap().is_none());
    let before = region.bytes();
    assert_eq!(store.commit(&mut writes).unwrap_err().code(), ErrorCode::LockNotAvailable);
    // Four bytes of an entry, and one that tells it from others.
    assert!(region.bytes() >= before + 5 * 4_000, "{before} -> {}", region.bytes());
    drop(holder);
    store.commit(&mut writes).unwrap();
    assert_eq!((region.row_count(), get(&region, 4_999)), (5_000, Some(4_999)));
    region.check();
}

/// Of what others write while rows are loaded, only a key of theirs that is there in the end is in the way, whether the others' rows
/// are fewer or more.
#[test]
fn a_load_is_refused_for_a_key_that_has_come_meanwhile_and_is_there() {
    let store = store(2, 16);
    let region = store.create_region(numbers(1)).unwrap();
    for id in 0..40 {
        put(&region, id, 0);
    }
    let rows = |ids: Range<i64>| ids.map(|id| [Datum::Int8(id), Datum::Int8(7)]);
    let remove = |id: i64| {
        let key = [Datum::Int8(id)];
        region.entry(&key, |entry| entry.apply(Mutation::Delete { key: &key })).unwrap();
    };
    for (loaded, others) in [(100..400, 400..410), (500..510, 600..900)] {
        let snapshot = store.snapshot();
        let mut refused = load(&region, &snapshot, rows(loaded.clone())).unwrap();
        let mut taken = load(&region, &snapshot, rows(loaded.clone())).unwrap();
        drop(snapshot);
        for id in others {
            put(&region, id, 1);
        }
        // One of before is another row now.
        remove(5);
        put(&region, 5, 2);
        let key = loaded.start + 3;
        put(&region, key, 1);
        store.compact();
        assert_eq!(store.commit(&mut refused).unwrap_err().code(), ErrorCode::UniqueViolation);
        remove(key);
        store.compact();
        store.commit(&mut taken).unwrap();
        for id in loaded {
            assert_eq!(get(&region, id), Some(7), "{id}");
        }
        region.check();
    }
}

/// A row that has come meanwhile is in a load's way until its time has come.
#[test]
fn a_load_takes_the_keys_of_rows_that_have_come_and_gone() {
    const START: i64 = 1_000_000;
    let wall = Arc::new(AtomicI64::new(START * 1000));
    let config = StoreConfig { partition_count: 1, wall: Wall::Moved(Arc::clone(&wall)), ..StoreConfig::default() };
    let store = Store::new(config);
    let region = store.create_region(numbers(1)).unwrap();
    put(&region, 0, 0);
    let rows = (1..=5).map(|id| [Datum::Int8(id), Datum::Int8(7)]);
    let mut writes = load(&region, &store.snapshot(), rows).unwrap();
    let row = [Datum::Int8(3), Datum::Int8(1)];
    let write = Mutation::Upsert { row: &row };
    let brief = Mutation::Living { write: &write, expiry: Expiry::At(START + 10) };
    region.entry(&row[..1], |entry| entry.apply(brief)).unwrap();
    assert_eq!(store.commit(&mut writes).unwrap_err().code(), ErrorCode::UniqueViolation);
    assert_eq!((get(&region, 3), region.expiring().rows), (Some(1), 1));
    wall.store((START + 10) * 1000, Ordering::SeqCst);
    store.commit(&mut writes).unwrap();
    assert_eq!((get(&region, 3), region.expiring().rows), (Some(7), 0));
    assert_eq!((region.row_count(), region.ended().expired), (6, 1));
    region.check();
}

#[test]
fn loads_of_few_rows_keep_their_segments_where_memory_is_short() {
    const MAX: u64 = 4 << 20;
    let config = StoreConfig { partition_count: 1, memory_max: MAX, ..StoreConfig::default() };
    let store = Store::new(config);
    let region = store.create_region(numbers(1)).unwrap();
    let rows = |first: i64, count: i64| (first..first + count).map(|id| [Datum::Int8(id), Datum::Int8(id)]);
    let mut writes = load(&region, &store.snapshot(), rows(0, 1_000)).unwrap();
    store.commit(&mut writes).unwrap();
    let mut writes = load(&region, &store.snapshot(), rows(1_000, 1_000)).unwrap();
    // Enough for a larger key index, and less than what is plenty.
    let mut others = store.reservation();
    others.grow((MAX - store.memory_used()) as usize - (256 << 10)).unwrap();
    store.commit(&mut writes).unwrap();
    assert_eq!(segments(&store, &region), [2]);
    drop(others);
    let mut writes = load(&region, &store.snapshot(), rows(2_000, 1_000)).unwrap();
    store.commit(&mut writes).unwrap();
    assert_eq!((segments(&store, &region), region.row_count()), (vec![2], 3_000));
    region.check();
}
