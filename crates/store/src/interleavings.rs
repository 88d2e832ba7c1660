//! Orders of threads that the machine seldom takes: the registry, the directories, commits and the columns that readers are lent, each run
//! some thousand times under schedules of shuttle's. `./x shuttle` runs these, in a build of their own.
//!
//! Shuttle takes one step of one thread after the other, as if every atomic were sequentially consistent, which those of the registry are.
//! What a weaker order of memory would let happen is looked for by `./x miri`.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use ashlar_base::clock::Wall;
use ashlar_base::{ColumnId, Datum, ErrorCode, IndexDef, IndexKind, TableId, Timestamp, Unique, Value};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::thread;

use crate::snapshot::{Registry, Snapshot};
use crate::testing::{numbers, scan_all};
use crate::{Mutation, Probe, ReadView, Region, Store, StoreConfig, WriteSet};

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
        let index = Arc::new(IndexDef::plain(TableId(9), "i", IndexKind::Btree, vec![ColumnId(1)]));
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
                        let range = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
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
