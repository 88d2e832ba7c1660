//! Tests of rare thread interleavings: the snapshot registry, indexes and their directories, commits, loads, row locks,
//! and the columns that readers borrow, each run hundreds or thousands of times under shuttle's schedules. `./x
//! shuttle` runs these, in a build of their own.
//!
//! Shuttle executes one step of one thread at a time, as if every atomic were sequentially consistent, which those of
//! the registry are. The effects of weaker memory orders are what `./x miri` looks for.

use std::ops::{Bound, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ashlar_base::clock::Wall;
use ashlar_base::{ColumnId, Datum, ErrorCode, IndexDef, IndexKind, PartitionId, TableId, Timestamp, Unique, Value};
use shuttle::future::block_on;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::thread;

use crate::snapshot::{Registry, Snapshot};
use crate::testing::{load, numbers, scan_all};
use crate::{Expiry, LockHolder, Mutation, Probe, ReadView, Region, Store, StoreConfig, Strength, Way, WriteSet};

/// Bytes of a thread's stack.
const STACK: usize = 1 << 20;

/// Runs it under so many schedules of two kinds: any thread goes on at any step; few changes of threads, at places chosen before
/// (Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs", ASPLOS 2010).
fn explore(schedules: usize, work: impl Fn() + Send + Sync + 'static) {
    let config = || {
        let mut config = shuttle::Config::new();
        config.stack_size = STACK;
        config.silence_warnings = true;
        config
    };
    let work = Arc::new(work);
    let again = Arc::clone(&work);
    shuttle::Runner::new(RandomScheduler::new(schedules), config()).run(move || work());
    shuttle::Runner::new(PctScheduler::new(3, schedules), config()).run(move || again());
}

/// A wall that stands: timestamps count from one.
fn wall() -> Wall {
    Wall::Moved(Arc::new(AtomicI64::new(0)))
}

fn store() -> Arc<Store> {
    let config =
        StoreConfig { partition_count: 2, segment_rows_max: 4, compaction_rows_min: 1, ..StoreConfig::default() };
    Store::new(StoreConfig { wall: wall(), ..config })
}

fn put(region: &Region, id: i64, v: i64) {
    let row = [Datum::Int8(id), Datum::Int8(v)];
    region.entry(&row[..1], |entry| entry.apply(Mutation::Upsert { row: &row })).unwrap();
}

/// `v` of a row that a snapshot sees.
fn value_at(region: &Region, snapshot: &Snapshot, id: i64) -> Option<i64> {
    region.get_at(snapshot, &[Datum::Int8(id)], |row| match row?.get(1) {
        Datum::Int8(v) => Some(v),
        other => panic!("{other:?}"),
    })
}

/// One on `v`.
fn ordered(id: u32) -> Arc<IndexDef> {
    Arc::new(IndexDef::plain(TableId(id), format!("i{id}"), IndexKind::Btree, vec![ColumnId(1)]))
}

/// `id` and `v` of the rows of a partition that an index names and a snapshot sees; none where the partition does not have the
/// index.
fn indexed(
    region: &Region,
    snapshot: &Snapshot,
    partition: PartitionId,
    index: &Arc<IndexDef>,
) -> Option<Vec<(i64, i64)>> {
    let range = (Bound::Unbounded, Bound::Unbounded);
    let all = Probe { index: Arc::clone(index), equal: Vec::new(), range };
    let mut rows = Vec::new();
    let is_there = region.probe(snapshot, partition, 1, &all, usize::MAX, &mut |row| match (row.get(0), row.get(1)) {
        (Datum::Int8(id), Datum::Int8(v)) => rows.push((id, v)),
        other => panic!("{other:?}"),
    });
    rows.sort_unstable();
    is_there.then_some(rows)
}

/// The same, by the keys that rows may have.
fn keyed(region: &Region, snapshot: &Snapshot, partition: PartitionId, ids: Range<i64>) -> Vec<(i64, i64)> {
    ids.filter(|id| region.partition_of(&[Datum::Int8(*id)]) == Some(partition))
        .filter_map(|id| Some((id, value_at(region, snapshot, id)?)))
        .collect()
}

/// Makes an index, with a hold of a partition's lock for each row.
fn build(region: &Region, index: &Arc<IndexDef>) {
    region.add_index(index);
    for partition in (0..region.partition_count()).map(PartitionId) {
        while !region.build_index_of(partition, index, 1).unwrap() {}
    }
    region.complete_index(index);
}

/// Every partition has the index, and it names what there is.
fn check_indexed(store: &Store, region: &Region, index: &Arc<IndexDef>, ids: &Range<i64>) {
    let snapshot = store.snapshot();
    for partition in (0..region.partition_count()).map(PartitionId) {
        let found = indexed(region, &snapshot, partition, index);
        assert_eq!(found, Some(keyed(region, &snapshot, partition, ids.clone())));
    }
    region.check();
}

#[test]
fn a_writer_sees_every_snapshot_that_does_not_include_it() {
    explore(4_000, || {
        let registry = Registry::following(wall());
        let writers: Vec<_> = (0..2)
            .map(|_| {
                let registry = Arc::clone(&registry);
                thread::spawn(move || {
                    let writer = registry.tick();
                    (writer, registry.horizon(writer))
                })
            })
            .collect();
        let readers: Vec<_> = (0..3)
            .map(|_| {
                let registry = Arc::clone(&registry);
                thread::spawn(move || {
                    // One that is gone before, so that slots are used again.
                    drop(registry.open());
                    registry.open()
                })
            })
            .collect();
        // Open to the end.
        let snapshots: Vec<Snapshot> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
        for (writer, horizon) in writers.into_iter().map(|writer| writer.join().unwrap()) {
            for older in snapshots.iter().map(Snapshot::timestamp).filter(|timestamp| *timestamp < writer) {
                assert!(horizon.oldest <= older && older <= horizon.newest, "{older} for {writer}: {horizon:?}");
            }
        }
    });
}

#[test]
fn a_writer_keeps_what_a_hold_may_compare() {
    explore(4_000, || {
        let registry = Registry::following(wall());
        let writers: Vec<_> = (0..2)
            .map(|_| {
                let registry = Arc::clone(&registry);
                thread::spawn(move || {
                    let writer = registry.tick();
                    (writer, registry.horizon(writer))
                })
            })
            .collect();
        let holder = {
            let registry = Arc::clone(&registry);
            thread::spawn(move || {
                let snapshot = registry.open();
                let hold = registry.hold();
                // Read, and not registered.
                let compared = registry.last();
                (snapshot, hold, compared)
            })
        };
        let (snapshot, _hold, compared) = holder.join().unwrap();
        for (writer, horizon) in writers.into_iter().map(|writer| writer.join().unwrap()) {
            if compared < writer {
                assert!(horizon.oldest <= snapshot.timestamp(), "{writer}: {horizon:?}");
                assert!(compared <= horizon.newest, "{compared} is not kept for {writer}: {horizon:?}");
            }
        }
    });
}

#[test]
fn what_is_forgotten_no_snapshot_asks_for() {
    explore(4_000, || {
        let registry = Registry::following(wall());
        let ticking = {
            let registry = Arc::clone(&registry);
            thread::spawn(move || (0..3).for_each(|_| _ = registry.tick()))
        };
        let compactor = {
            let registry = Arc::clone(&registry);
            thread::spawn(move || registry.oldest())
        };
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let registry = Arc::clone(&registry);
                thread::spawn(move || registry.open())
            })
            .collect();
        let snapshots: Vec<Snapshot> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
        let oldest: Timestamp = compactor.join().unwrap();
        ticking.join().unwrap();
        for snapshot in &snapshots {
            assert!(snapshot.timestamp() >= oldest, "{snapshot:?} is older than {oldest}");
        }
    });
}

/// Rows of a commit are in several partitions, which are locked one after the other.
#[test]
fn a_commit_is_seen_whole_or_not_and_a_snapshot_stays_as_it_is() {
    const ROWS: i64 = 4;
    explore(400, || {
        let store = store();
        let region = store.create_region(numbers(1)).unwrap();
        (0..ROWS).for_each(|id| put(&region, id, 0));
        let writer = {
            let (store, region) = (Arc::clone(&store), Arc::clone(&region));
            thread::spawn(move || {
                for v in 1..=2 {
                    let mut writes = WriteSet::new();
                    let snapshot = store.snapshot();
                    for id in 0..ROWS {
                        writes.upsert(&region, 1, &snapshot, &[Datum::Int8(id), Datum::Int8(v)]).unwrap();
                    }
                    drop(snapshot);
                    store.commit(&mut writes).unwrap();
                }
            })
        };
        let compactor = {
            let store = Arc::clone(&store);
            thread::spawn(move || _ = store.compact())
        };
        let reader = {
            let (store, region) = (Arc::clone(&store), Arc::clone(&region));
            thread::spawn(move || {
                let snapshot = store.snapshot();
                let read = || (0..ROWS).map(|id| value_at(&region, &snapshot, id)).collect::<Vec<_>>();
                let first = read();
                assert!(first.iter().all(|v| v.is_some() && *v == first[0]), "half a commit: {first:?}");
                assert_eq!(read(), first);
            })
        };
        reader.join().unwrap();
        writer.join().unwrap();
        compactor.join().unwrap();
        region.check();
    });
}

/// Rows of a commit are left in the partitions, and done in pieces: who reads keys in between sees no row of it and then an older one,
/// and is told of those that he watches.
#[test]
fn a_commit_in_pieces_is_seen_whole() {
    const ROWS: i64 = 6;
    explore(400, || {
        let store = store();
        let region = store.create_region(numbers(1)).unwrap();
        (0..ROWS).for_each(|id| put(&region, id, 0));
        let writer = {
            let (store, region) = (Arc::clone(&store), Arc::clone(&region));
            thread::spawn(move || {
                let (mut writes, snapshot) = (WriteSet::new(), store.snapshot());
                for id in 0..ROWS {
                    writes.upsert(&region, 1, &snapshot, &[Datum::Int8(id), Datum::Int8(1)]).unwrap();
                }
                drop(snapshot);
                store.commit(&mut writes).unwrap();
            })
        };
        let other = {
            let region = Arc::clone(&region);
            thread::spawn(move || put(&region, ROWS, 1))
        };
        let reader = {
            let (store, region) = (Arc::clone(&store), Arc::clone(&region));
            thread::spawn(move || {
                let latest = |id: i64| {
                    region.get(&[Datum::Int8(id)], |row| match row.expect("no row is deleted").get(1) {
                        Datum::Int8(v) => v,
                        other => panic!("{other:?}"),
                    })
                };
                let watch = region.watch(&[Datum::Int8(0)]).unwrap();
                let (mut seen, is_told) = (vec![latest(0)], watch.is_touched(&region));
                seen.extend((1..ROWS).chain([0]).map(latest));
                assert!(seen.windows(2).all(|pair| pair[0] <= pair[1]), "half a commit: {seen:?}");
                assert!(seen[0] == seen[ROWS as usize] || watch.is_touched(&region), "{seen:?}, and nobody said so");
                assert!(!is_told || seen[ROWS as usize] == 1, "told of what is not there");
                let snapshot = store.snapshot();
                let at: Vec<_> = (0..ROWS).map(|id| value_at(&region, &snapshot, id)).collect();
                assert!(at.iter().all(|v| *v == at[0] && *v >= seen.last().copied()), "{at:?} after {seen:?}");
            })
        };
        reader.join().unwrap();
        writer.join().unwrap();
        other.join().unwrap();
        region.check();
    });
}

/// Few rows at once are a commit like any other, for readers, for other commits and for who writes one of them.
#[test]
fn rows_put_at_once_are_seen_whole() {
    const ROWS: i64 = 4;
    explore(400, || {
        let store = store();
        let region = store.create_region(numbers(1)).unwrap();
        (0..ROWS - 1).for_each(|id| put(&region, id, 0));
        let putter = |v: i64| {
            let region = Arc::clone(&region);
            thread::spawn(move || {
                let rows: Vec<_> = (0..ROWS).map(|id| [Datum::Int8(id), Datum::Int8(v)]).collect();
                assert!(region.put_few(&rows).unwrap());
            })
        };
        let writers = [putter(1), putter(2)];
        let reader = {
            let (store, region) = (Arc::clone(&store), Arc::clone(&region));
            thread::spawn(move || {
                for _ in 0..2 {
                    let snapshot = store.snapshot();
                    let at: Vec<_> = (0..ROWS).map(|id| value_at(&region, &snapshot, id)).collect();
                    let is_before = at[0] == Some(0) && at[ROWS as usize - 1].is_none();
                    assert!(is_before || at.iter().all(|v| *v == at[0] && *v > Some(0)), "half of them: {at:?}");
                    let again: Vec<_> = (0..ROWS).map(|id| value_at(&region, &snapshot, id)).collect();
                    assert_eq!(again, at, "a snapshot that changes");
                }
            })
        };
        reader.join().unwrap();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        let now: Vec<_> = (0..ROWS).map(|id| value_at(&region, &store.snapshot(), id)).collect();
        assert!(now.iter().all(|v| *v == now[0] && *v > Some(0)), "{now:?}");
        region.check();
    });
}

/// Columns that a reader was lent hold what they held, while rows are written over, appended, deleted and compacted.
#[test]
fn what_a_reader_was_lent_does_not_change() {
    const ROWS: i64 = 5;
    explore(300, || {
        let store = store();
        let region = store.create_region(numbers(1)).unwrap();
        (0..ROWS).for_each(|id| put(&region, id, id * 10));
        let writer = {
            let region = Arc::clone(&region);
            thread::spawn(move || {
                put(&region, 0, 1);
                put(&region, 0, 2);
                region
                    .entry(&[Datum::Int8(1)], |entry| entry.apply(Mutation::Delete { key: &[Datum::Int8(1)] }))
                    .unwrap();
                put(&region, ROWS, 3);
            })
        };
        let compactor = {
            let store = Arc::clone(&store);
            thread::spawn(move || _ = store.compact())
        };
        let reader = {
            let (store, region) = (Arc::clone(&store), Arc::clone(&region));
            thread::spawn(move || {
                let view = ReadView::committed(store.snapshot());
                let sorted = || {
                    let mut rows = scan_all(&region, &view).unwrap();
                    rows.sort_by_key(|row| format!("{row:?}"));
                    rows
                };
                let rows = sorted();
                for id in 0..=ROWS {
                    let v = value_at(&region, &view.snapshot, id).map(Value::Int8);
                    let scanned = rows.iter().find(|row| row[0] == Value::Int8(id)).map(|row| row[1].clone());
                    assert_eq!(scanned, v, "the row {id} of {view:?}", view = view.snapshot);
                }
                assert_eq!(sorted(), rows);
            })
        };
        reader.join().unwrap();
        writer.join().unwrap();
        compactor.join().unwrap();
        region.check();
    });
}

/// A writer has its timestamp before its bits are in the directory.
#[test]
fn no_partition_with_a_row_that_is_seen_is_passed_over() {
    const ROWS: i64 = 3;
    explore(400, || {
        let store = store();
        let region = store.create_region(numbers(1)).unwrap();
        put(&region, -1, -1);
        let index = ordered(9);
        region.add_index(&index);
        region.build_index(&index).unwrap();
        store.compact();
        let writer = {
            let region = Arc::clone(&region);
            thread::spawn(move || (0..ROWS).for_each(|id| put(&region, id, id)))
        };
        let maker = {
            let (region, index) = (Arc::clone(&region), index.id);
            thread::spawn(move || {
                region.directories().write().remove(&index);
                region.refresh_directories();
            })
        };
        let reader = {
            let (store, region) = (Arc::clone(&store), Arc::clone(&region));
            thread::spawn(move || {
                for _ in 0..2 {
                    let snapshot = store.snapshot();
                    for id in 0..ROWS {
                        let range = (Bound::Unbounded, Bound::Unbounded);
                        let probe = Probe { index: Arc::clone(&index), equal: vec![Value::Int8(id)], range };
                        let candidates = region.candidates(&snapshot, &[probe]);
                        // Afterwards: this waits for a writer that is still at it.
                        let is_there = value_at(&region, &snapshot, id).is_some();
                        let owner = region.partition_of(&[Datum::Int8(id)]).unwrap();
                        let is_asked = candidates.is_none_or(|candidates| candidates.contains(owner));
                        assert!(is_asked || !is_there, "the partition of {id} is passed over at {snapshot:?}");
                    }
                }
            })
        };
        reader.join().unwrap();
        writer.join().unwrap();
        maker.join().unwrap();
        region.check();
    });
}

/// Whoever watches a key and then reads it is told of every write that comes after the reading.
#[test]
fn a_write_behind_a_watch_is_told() {
    explore(1_000, || {
        let store = store();
        let region = store.create_region(numbers(1)).unwrap();
        put(&region, 0, 0);
        let writer = {
            let region = Arc::clone(&region);
            thread::spawn(move || {
                put(&region, 0, 1);
                put(&region, 1, 1);
            })
        };
        let watcher = {
            let region = Arc::clone(&region);
            thread::spawn(move || {
                let key = [Datum::Int8(0)];
                let read = || region.get(&key, |row| row.map(|row| row.get(1).to_value()));
                let watch = region.watch(&key).unwrap();
                let before = read();
                let after = read();
                assert!(before == after || watch.is_touched(&region), "{before:?}, then {after:?}, and nobody said so");
            })
        };
        watcher.join().unwrap();
        writer.join().unwrap();
    });
}

/// A truncation is told in each partition when it is done there: whoever reads its effect has been told.
#[test]
fn a_truncation_behind_a_watch_is_told() {
    explore(1_000, || {
        let store = store();
        let region = store.create_region(numbers(1)).unwrap();
        (0..3).for_each(|id| put(&region, id, 0));
        let writer = {
            let region = Arc::clone(&region);
            thread::spawn(move || {
                region.truncate().unwrap();
            })
        };
        let watcher = {
            let region = Arc::clone(&region);
            thread::spawn(move || {
                let key = [Datum::Int8(0)];
                let is_there = || region.get(&key, |row| row.is_some());
                let watch = region.watch(&key).unwrap();
                let (before, after) = (is_there(), is_there());
                assert!(before == after || watch.is_touched(&region), "the row went, and nobody said so");
                (before, watch)
            })
        };
        writer.join().unwrap();
        let (before, watch) = watcher.join().unwrap();
        assert!(
            !before || watch.is_touched(&region),
            "a row that was there behind the watch has gone, and nobody said so"
        );
        region.check();
    });
}

#[test]
fn of_two_who_want_a_value_one_gets_it() {
    explore(400, || {
        let store = store();
        let region = store.create_region(numbers(1)).unwrap();
        let unique = Some(Unique { nulls_distinct: true, is_constraint: false });
        let columns = vec![ColumnId(1)];
        let index = Arc::new(IndexDef { unique, ..IndexDef::plain(TableId(9), "u", IndexKind::Btree, columns) });
        region.add_index(&index);
        region.build_index(&index).unwrap();
        let writer = |id: i64| {
            let region = Arc::clone(&region);
            thread::spawn(move || {
                let row = [Datum::Int8(id), Datum::Int8(7)];
                let done = region.entry(&row[..1], |entry| entry.apply(Mutation::Insert { row: &row }));
                if let Err(error) = &done {
                    assert_eq!(error.code(), ErrorCode::UniqueViolation, "{error}");
                }
                done.is_ok()
            })
        };
        let writers: Vec<_> = (0..3).map(writer).collect();
        let reader = {
            let (store, region) = (Arc::clone(&store), Arc::clone(&region));
            thread::spawn(move || {
                let snapshot = store.snapshot();
                (0..3).filter(|id| value_at(&region, &snapshot, *id).is_some()).count()
            })
        };
        assert!(reader.join().unwrap() <= 1, "a snapshot sees the value twice");
        let won = writers.into_iter().map(|writer| writer.join().unwrap()).filter(|won| *won).count();
        assert_eq!(won, 1);
        region.check();
    });
}

/// From its first moment to its last an index names every row of a partition that has it, also of one that is made meanwhile.
#[test]
fn an_index_is_made_and_dropped_beside_writers() {
    const IDS: Range<i64> = 0..4;
    explore(400, || {
        let store = store();
        let region = store.create_region(numbers(1)).unwrap();
        put(&region, 0, 0);
        let indexes = [ordered(9), ordered(10)];
        let maker = {
            let (region, [first, second]) = (Arc::clone(&region), indexes.clone());
            thread::spawn(move || {
                build(&region, &first);
                region.drop_index(&first);
                build(&region, &second);
            })
        };
        let writer = {
            let region = Arc::clone(&region);
            thread::spawn(move || {
                IDS.for_each(|id| put(&region, id, id + 1));
                region
                    .entry(&[Datum::Int8(1)], |entry| entry.apply(Mutation::Delete { key: &[Datum::Int8(1)] }))
                    .unwrap();
                put(&region, 2, 0);
            })
        };
        let reader = {
            let (store, region, indexes) = (Arc::clone(&store), Arc::clone(&region), indexes.clone());
            thread::spawn(move || {
                for index in &indexes {
                    let snapshot = store.snapshot();
                    for partition in (0..region.partition_count()).map(PartitionId) {
                        let Some(found) = indexed(&region, &snapshot, partition, index) else { continue };
                        assert_eq!(found, keyed(&region, &snapshot, partition, IDS), "{partition:?} at {snapshot:?}");
                    }
                }
            })
        };
        reader.join().unwrap();
        writer.join().unwrap();
        maker.join().unwrap();
        check_indexed(&store, &region, &indexes[1], &IDS);
    });
}

/// Beside writers who have values change hands, take them and give them back: the index holds when it is made, or whoever made it is told
/// that it does not, and then nothing of it is left.
#[test]
fn a_unique_index_is_made_beside_writers() {
    const IDS: Range<i64> = 0..4;
    explore(400, || {
        let store = store();
        let region = store.create_region(numbers(1)).unwrap();
        (0..3).for_each(|id| put(&region, id, id));
        let unique = Some(Unique { nulls_distinct: true, is_constraint: false });
        let columns = vec![ColumnId(1)];
        let index = Arc::new(IndexDef { unique, ..IndexDef::plain(TableId(9), "u", IndexKind::Btree, columns) });
        let maker = {
            let (region, index) = (Arc::clone(&region), Arc::clone(&index));
            thread::spawn(move || {
                region.add_index(&index);
                for partition in (0..region.partition_count()).map(PartitionId) {
                    loop {
                        match region.build_index_of(partition, &index, 1) {
                            Ok(true) => break,
                            Ok(false) => {}
                            Err(error) => {
                                assert_eq!(error.code(), ErrorCode::UniqueViolation, "{error}");
                                region.drop_index(&index);
                                return false;
                            }
                        }
                    }
                }
                region.complete_index(&index);
                true
            })
        };
        let swapper = {
            let (store, region) = (Arc::clone(&store), Arc::clone(&region));
            thread::spawn(move || {
                let mut writes = WriteSet::new();
                let snapshot = store.snapshot();
                for (id, v) in [(0, 1), (1, 0)] {
                    writes.upsert(&region, 1, &snapshot, &[Datum::Int8(id), Datum::Int8(v)]).unwrap();
                }
                drop(snapshot);
                if let Err(error) = store.commit(&mut writes) {
                    assert_eq!(error.code(), ErrorCode::UniqueViolation, "{error}");
                }
            })
        };
        let writer = {
            let region = Arc::clone(&region);
            thread::spawn(move || {
                // What one row has, until that is deleted.
                let row = [Datum::Int8(3), Datum::Int8(2)];
                let take = || region.entry(&row[..1], |entry| entry.apply(Mutation::Upsert { row: &row }));
                let first = take();
                let key = [Datum::Int8(2)];
                region.entry(&key, |entry| entry.apply(Mutation::Delete { key: &key })).unwrap();
                for error in [first, take()].into_iter().filter_map(Result::err) {
                    assert_eq!(error.code(), ErrorCode::UniqueViolation, "{error}");
                }
            })
        };
        let is_made = maker.join().unwrap();
        swapper.join().unwrap();
        writer.join().unwrap();
        region.check();
        assert_eq!(region.every_index().len(), usize::from(is_made));
        if is_made {
            check_indexed(&store, &region, &index, &IDS);
            let snapshot = store.snapshot();
            let mut values: Vec<i64> = IDS.filter_map(|id| value_at(&region, &snapshot, id)).collect();
            let count = values.len();
            values.sort_unstable();
            values.dedup();
            assert_eq!(values.len(), count, "a value is there twice, and unique");
        }
    });
}

/// The rows of a load are there together, by their keys and by an index that is made while they come.
#[test]
fn a_load_is_adopted_whole() {
    const ROWS: i64 = 6;
    explore(300, || {
        let store = store();
        let region = store.create_region(numbers(1)).unwrap();
        put(&region, -1, 0);
        let snapshot = store.snapshot();
        let rows = (0..ROWS).map(|id| [Datum::Int8(id), Datum::Int8(7)]);
        let mut writes = load(&region, &snapshot, rows).unwrap();
        drop(snapshot);
        let loader = {
            let store = Arc::clone(&store);
            thread::spawn(move || _ = store.commit(&mut writes).unwrap())
        };
        let index = ordered(9);
        let maker = {
            let (region, index) = (Arc::clone(&region), Arc::clone(&index));
            thread::spawn(move || build(&region, &index))
        };
        let writer = {
            let (store, region) = (Arc::clone(&store), Arc::clone(&region));
            thread::spawn(move || {
                put(&region, -1, 1);
                put(&region, -2, 1);
                store.compact();
            })
        };
        let reader = {
            let (store, region, index) = (Arc::clone(&store), Arc::clone(&region), Arc::clone(&index));
            thread::spawn(move || {
                let snapshot = store.snapshot();
                let there = (0..ROWS).filter(|id| value_at(&region, &snapshot, *id).is_some()).count();
                assert!(there == 0 || there == ROWS as usize, "{there} rows of a load");
                for partition in (0..region.partition_count()).map(PartitionId) {
                    let Some(found) = indexed(&region, &snapshot, partition, &index) else { continue };
                    assert_eq!(found, keyed(&region, &snapshot, partition, -2..ROWS), "{partition:?} at {snapshot:?}");
                }
            })
        };
        reader.join().unwrap();
        writer.join().unwrap();
        maker.join().unwrap();
        loader.join().unwrap();
        check_indexed(&store, &region, &index, &(-2..ROWS));
        assert_eq!(region.row_count(), ROWS as u64 + 2);
    });
}

/// Whoever waits for a row goes on when it is let go, and between the lock and its end nobody else writes. A wake-up that is lost
/// leaves a thread that never ends, which shuttle calls a deadlock.
#[test]
fn a_lock_that_is_let_go_is_got() {
    explore(1_000, || {
        let store = store();
        let region = store.create_region(numbers(1)).unwrap();
        put(&region, 0, 0);
        let holder = |pid: i32| {
            let (store, region) = (Arc::clone(&store), Arc::clone(&region));
            thread::spawn(move || {
                let key = [Datum::Int8(0)];
                let mut holder = LockHolder::new(&region, pid);
                if let Some(request) = holder.lock(&region, &key, Strength::Update).unwrap() {
                    block_on(holder.wait(&request)).unwrap();
                }
                // Through the partition's lock: a writer that did not see this one has finished then.
                region.get(&key, |_| ());
                let snapshot = store.snapshot();
                let v = value_at(&region, &snapshot, 0).unwrap();
                let mut writes = WriteSet::new();
                writes.set_owner(holder.id());
                writes.upsert(&region, 1, &snapshot, &[Datum::Int8(0), Datum::Int8(v + 1)]).unwrap();
                drop(snapshot);
                store.commit(&mut writes).unwrap();
            })
        };
        let holders = [holder(1), holder(2)];
        let writer = {
            let region = Arc::clone(&region);
            thread::spawn(move || {
                let mut way = Way::new(3);
                loop {
                    let done = region.entry_with(&mut way, &[Datum::Int8(0)], |entry| {
                        let Some(Datum::Int8(v)) = entry.row().map(|row| row.get(1)) else { panic!("the row is gone") };
                        entry.apply(Mutation::Upsert { row: &[Datum::Int8(0), Datum::Int8(v + 1)] })
                    });
                    match done {
                        Ok(_) => break,
                        Err(_) if way.is_stopped() => block_on(way.wait()).unwrap(),
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        };
        holders.into_iter().for_each(|holder| holder.join().unwrap());
        writer.join().unwrap();
        assert_eq!(value_at(&region, &store.snapshot(), 0), Some(3));
        let locks = store.lock_statistics();
        assert_eq!((locks.rows, locks.waiting), (0, 0));
    });
}

/// A row whose time comes while a transaction changes it is gone afterwards, at whichever step of the commit it comes: the new
/// row is not one without an end. Among many it is looked at beforehand too, and is alive then.
#[test]
fn a_row_whose_time_comes_in_a_commit_does_not_live_on() {
    const END_MILLIS: i64 = 1000;
    for others in [0, 6] {
        explore(1_000, move || {
            let wall = Arc::new(AtomicI64::new(0));
            let config = StoreConfig { partition_count: 2, segment_rows_max: 4, ..StoreConfig::default() };
            let store = Store::new(StoreConfig { wall: Wall::Moved(Arc::clone(&wall)), ..config });
            let region = store.create_region(numbers(1)).unwrap();
            let row = [Datum::Int8(0), Datum::Int8(1)];
            let write = Mutation::Upsert { row: &row };
            let brief = Mutation::Living { write: &write, expiry: Expiry::At(END_MILLIS) };
            region.entry(&row[..1], |entry| entry.apply(brief)).unwrap();
            let snapshot = store.snapshot();
            let mut writes = WriteSet::new();
            let row_of = |id| [Datum::Int8(id), Datum::Int8(2)];
            (0..=others).for_each(|id| writes.upsert(&region, 1, &snapshot, &row_of(id)).unwrap());
            drop(snapshot);
            let writer = {
                let store = Arc::clone(&store);
                thread::spawn(move || store.commit(&mut writes).map(|_| ()))
            };
            let clock = {
                let store = Arc::clone(&store);
                thread::spawn(move || {
                    wall.store(END_MILLIS * 1000, Ordering::SeqCst);
                    store.compact();
                })
            };
            clock.join().unwrap();
            let done = writer.join().unwrap().map_err(|error| error.code());
            assert!(done.is_ok() || done == Err(ErrorCode::SerializationFailure), "{done:?}");
            assert!(region.peek(&row[..1], |row| row.is_none()), "the row lives on: {done:?}");
            region.check();
        });
    }
}
