//! Unique values: one writer gets each, whatever way it writes and whoever else does.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use ashlar_base::{ColumnId, Datum, ErrorCode, IndexKind, Unique};

use super::*;
use crate::testing::{numbers, scan_all, store};
use crate::{Applied, KeyTransaction, Mutation, ReadView, Store, WriteSet};

mod loads;
mod over;

fn unique_on_v(id: u32) -> Arc<IndexDef> {
    let unique = Some(Unique { nulls_distinct: true, is_constraint: false });
    Arc::new(IndexDef { unique, ..IndexDef::plain(TableId(id), "t_v_key", IndexKind::Btree, vec![ColumnId(1)]) })
}

fn table(store: &Arc<Store>) -> Arc<Region> {
    let region = store.create_region(numbers(1)).unwrap();
    let index = unique_on_v(100);
    region.add_index(&index);
    region.build_index(&index).unwrap();
    region
}

fn insert(region: &Region, id: i64, v: i64) -> ashlar_base::Result<Applied> {
    let row = [Datum::Int8(id), Datum::Int8(v)];
    region.entry(&row[..1], |entry| entry.apply(Mutation::Insert { row: &row }))
}

fn delete(region: &Region, id: i64) {
    let key = [Datum::Int8(id)];
    region.entry(&key, |entry| entry.apply(Mutation::Delete { key: &key })).unwrap();
}

/// Also in partitions that are made later, in those where it is still to be made, and at a commit.
#[test]
fn an_index_goes_by_the_name_that_it_was_given_last() {
    let store = store(8, 8);
    let region = store.create_region(numbers(1)).unwrap();
    for id in 0..20 {
        insert(&region, id, id).unwrap();
    }
    let index = unique_on_v(100);
    region.add_index(&index);
    let mut partitions = (0..region.partition_count()).map(PartitionId);
    let build = |partition| while !region.build_index_step(partition, &index).unwrap() {};
    build(partitions.next().unwrap());
    region.rename_index(TableId(100), "renamed");
    partitions.for_each(build);
    region.complete_index(&index);
    region.rename_index(TableId(101), "nobody's");
    let names: Vec<String> = region.every_index().iter().map(|index| index.name.clone()).collect();
    assert_eq!(names, ["renamed"]);
    for id in 0..20 {
        let error = insert(&region, 100 + id, id).unwrap_err();
        assert_eq!(error.fields().constraint.as_deref(), Some("renamed"), "{id}");
    }
    let mut writes = WriteSet::new();
    writes.insert(&region, 1, &store.snapshot(), &[Datum::Int8(200), Datum::Int8(7)]).unwrap();
    let error = store.commit(&mut writes).unwrap_err();
    assert_eq!(error.message(), "duplicate key value violates unique constraint \"renamed\"");
    region.drop_index(&index);
    insert(&region, 100, 7).unwrap();
}

#[test]
fn rows_that_are_pending_know_the_name_that_an_index_has_got() {
    let store = store(8, 8);
    let region = table(&store);
    let (mut writes, snapshot) = (WriteSet::new(), store.snapshot());
    writes.insert(&region, 1, &snapshot, &[Datum::Int8(1), Datum::Int8(7)]).unwrap();
    writes.check_values(&region).unwrap();
    region.rename_index(TableId(100), "renamed");
    writes.insert(&region, 1, &snapshot, &[Datum::Int8(2), Datum::Int8(7)]).unwrap();
    let error = writes.check_values(&region).unwrap_err();
    assert_eq!(error.fields().constraint.as_deref(), Some("renamed"));
}

#[test]
fn a_taken_value_is_refused_with_postgresqls_words() {
    let store = store(8, 8);
    let region = table(&store);
    insert(&region, 1, 7).unwrap();
    let error = insert(&region, 2, 7).unwrap_err();
    assert_eq!(error.code(), ErrorCode::UniqueViolation);
    assert_eq!(error.message(), "duplicate key value violates unique constraint \"t_v_key\"");
    assert_eq!(error.fields().detail.as_deref(), Some("Key (v)=(7) already exists."));
    assert_eq!(error.fields().constraint.as_deref(), Some("t_v_key"));
    // A row may keep its value, give it back and have it again; NULLs are nobody's.
    let key = [Datum::Int8(1)];
    let update = |v: Datum<'static>| {
        region.entry(&key, |entry| entry.apply(Mutation::Update { key: &key, changes: &[(1, v.clone())] }))
    };
    update(Datum::Int8(7)).unwrap();
    update(Datum::Null).unwrap();
    insert(&region, 2, 7).unwrap();
    assert_eq!(update(Datum::Int8(7)).unwrap_err().code(), ErrorCode::UniqueViolation);
    delete(&region, 2);
    update(Datum::Int8(7)).unwrap();
    for id in 10..20 {
        let row = [Datum::Int8(id), Datum::Null];
        region.entry(&row[..1], |entry| entry.apply(Mutation::Upsert { row: &row })).unwrap();
    }
    region.check();
}

#[test]
fn values_change_hands_within_one_commit() {
    let store = store(8, 8);
    let region = table(&store);
    for id in 0..10 {
        insert(&region, id, id).unwrap();
    }
    let mut writes = WriteSet::new();
    let snapshot = store.snapshot();
    for id in 0..10 {
        writes.upsert(&region, 1, &snapshot, &[Datum::Int8(id), Datum::Int8((id + 1) % 10)]).unwrap();
    }
    writes.check_values(&region).unwrap();
    store.commit(&mut writes).unwrap();
    region.check();
    // All of it again, and one value too often.
    for id in 0..10 {
        writes.upsert(&region, 1, &store.snapshot(), &[Datum::Int8(id), Datum::Int8(id)]).unwrap();
    }
    writes.upsert(&region, 1, &store.snapshot(), &[Datum::Int8(10), Datum::Int8(3)]).unwrap();
    assert_eq!(writes.check_values(&region).unwrap_err().code(), ErrorCode::UniqueViolation);
    assert_eq!(store.commit(&mut writes).unwrap_err().code(), ErrorCode::UniqueViolation);
    region.check();
    // Rows that are replaced as a whole give everything back.
    let mut writes = WriteSet::new();
    writes.truncate(&region, &store.snapshot()).unwrap();
    for id in 20..30 {
        writes.insert(&region, 1, &store.snapshot(), &[Datum::Int8(id), Datum::Int8(id - 20)]).unwrap();
    }
    writes.check_values(&region).unwrap();
    store.commit(&mut writes).unwrap();
    region.check();
    assert_eq!(region.row_count(), 10);
}

#[test]
fn pending_rows_are_looked_at_in_steps_that_may_be_given_up() {
    let store = store(8, 8);
    let region = table(&store);
    insert(&region, 1000, 1000).unwrap();
    let mut writes = WriteSet::new();
    let put = |writes: &mut WriteSet, id: i64, v: i64| {
        writes.upsert(&region, 1, &store.snapshot(), &[Datum::Int8(id), Datum::Int8(v)]).unwrap();
    };
    let steps = |writes: &mut WriteSet| {
        let mut steps = 1;
        while !writes.check_some_values(&region, steps > 1, 4)? {
            steps += 1;
        }
        Ok::<_, ashlar_base::Error>(steps)
    };
    (0..10).for_each(|id| put(&mut writes, id, id));
    // Given up after one of them, and begun again.
    assert!(!writes.check_some_values(&region, false, 4).unwrap());
    assert_eq!(steps(&mut writes).unwrap(), 3);
    // What was looked at is not looked at again.
    assert_eq!(steps(&mut writes).unwrap(), 1);
    (10..20).for_each(|id| put(&mut writes, id, id));
    assert!(!writes.check_some_values(&region, false, 4).unwrap());
    // What was written behind the first step is looked at by whoever begins.
    put(&mut writes, 20, 3);
    assert_eq!(writes.check_values(&region).unwrap_err().code(), ErrorCode::UniqueViolation);
    assert_eq!(steps(&mut writes).unwrap_err().code(), ErrorCode::UniqueViolation);
    put(&mut writes, 20, 1000);
    assert_eq!(steps(&mut writes).unwrap_err().code(), ErrorCode::UniqueViolation);
    put(&mut writes, 20, 20);
    assert!(steps(&mut writes).unwrap() > 1);
    store.commit(&mut writes).unwrap();
    region.check();
    assert_eq!(region.row_count(), 22);
}

#[test]
fn a_statement_learns_of_a_clash_and_savepoints_take_it_back() {
    let store = store(8, 8);
    let region = table(&store);
    insert(&region, 1, 1).unwrap();
    let mut writes = WriteSet::new();
    let put = |writes: &mut WriteSet, id: i64, v: i64| {
        writes.upsert(&region, 1, &store.snapshot(), &[Datum::Int8(id), Datum::Int8(v)]).unwrap();
        writes.check_values(&region)
    };
    put(&mut writes, 2, 2).unwrap();
    let mark = writes.mark();
    assert_eq!(put(&mut writes, 3, 2).unwrap_err().code(), ErrorCode::UniqueViolation);
    writes.rollback_to(mark.clone());
    assert_eq!(put(&mut writes, 3, 1).unwrap_err().code(), ErrorCode::UniqueViolation);
    writes.rollback_to(mark);
    // What is about to be deleted, or to have another value, is in nobody's way.
    put(&mut writes, 1, 5).unwrap();
    put(&mut writes, 3, 1).unwrap();
    let mark = writes.mark();
    put(&mut writes, 2, 8).unwrap();
    put(&mut writes, 4, 2).unwrap();
    writes.rollback_to(mark);
    assert_eq!(put(&mut writes, 4, 2).unwrap_err().code(), ErrorCode::UniqueViolation);
    writes.delete(&region, 1, &store.snapshot(), &[Datum::Int8(4)]).unwrap();
    store.commit(&mut writes).unwrap();
    region.check();
}

#[test]
fn of_many_writers_of_the_same_values_one_wins_each() {
    const THREADS: i64 = 4;
    const VALUES: i64 = 300;
    let store = store(16, 32);
    let region = table(&store);
    let won = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, region, won) = (&store, &region, &won);
            scope.spawn(move || {
                for v in 0..VALUES {
                    let id = v * THREADS + thread;
                    // By key, by a transaction with a value that nobody else wants, and by a transaction of keys.
                    let done = match (v + thread) % 3 {
                        0 => insert(region, id, v).map(drop),
                        1 => {
                            let mut writes = WriteSet::new();
                            let row = [Datum::Int8(id), Datum::Int8(v)];
                            writes.upsert(region, 1, &store.snapshot(), &row).unwrap();
                            let own = [Datum::Int8(100_000 + id), Datum::Int8(100_000 + id)];
                            writes.upsert(region, 1, &store.snapshot(), &own).unwrap();
                            store.commit(&mut writes).map(drop)
                        }
                        _ => {
                            let mut keys = KeyTransaction::new(store);
                            let row = [Datum::Int8(id), Datum::Int8(v)];
                            let put =
                                keys.entry(region, &row[..1], |entry| entry.apply(Mutation::Insert { row: &row }));
                            put.and_then(|applied| applied)
                                .and_then(|_| keys.commit(store).map_err(|failed| failed.error))
                        }
                    };
                    match done {
                        Ok(()) => drop(won.fetch_add(1, Ordering::Relaxed)),
                        Err(error) => assert_eq!(error.code(), ErrorCode::UniqueViolation, "{error}"),
                    }
                }
            });
        }
    });
    assert_eq!(won.into_inner(), VALUES as u64, "each value was inserted once");
    region.check();
}

/// Commits that want two values each: the loser has taken nothing, so that whoever wants its other value gets it.
#[test]
fn commits_with_several_values_do_not_wait_for_each_other() {
    const THREADS: i64 = 4;
    const ROUNDS: i64 = 400;
    let store = store(16, 32);
    let region = table(&store);
    let won: Vec<AtomicUsize> = (0..ROUNDS).map(|_| AtomicUsize::new(0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, region, won) = (&store, &region, &won);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let mut writes = WriteSet::new();
                    // The same two, in another order.
                    let values = [round * 2 + thread % 2, round * 2 + (thread + 1) % 2];
                    for (number, v) in values.into_iter().enumerate() {
                        let id = (round * THREADS + thread) * 2 + number as i64;
                        writes.insert(region, 1, &store.snapshot(), &[Datum::Int8(id), Datum::Int8(v)]).unwrap();
                    }
                    match store.commit(&mut writes) {
                        Ok(_) => drop(won[round as usize].fetch_add(1, Ordering::Relaxed)),
                        Err(error) => assert_eq!(error.code(), ErrorCode::UniqueViolation, "{error}"),
                    }
                }
            });
        }
    });
    assert!(won.iter().all(|won| won.load(Ordering::Relaxed) == 1), "one of them won each round");
    assert_eq!(region.row_count(), 2 * ROUNDS as u64);
    region.check();
}

/// ON CONFLICT has found nothing, and then somebody takes the value: the statement begins again, and does something else. A
/// value that was taken before it began, and that it did not ask for, is an error that no other try mends.
#[test]
fn a_value_taken_since_somebody_asked_is_a_conflict() {
    let store = store(8, 8);
    let region = table(&store);
    insert(&region, 1, 1).unwrap();
    let asks = |v: i64, is_taken: bool| {
        let snapshot = store.snapshot();
        let mut writes = WriteSet::new();
        let row = [Datum::Int8(100 + v), Datum::Int8(v)];
        assert_eq!(writes.conflicting(&region, 1, &snapshot, TableId(100), &row).unwrap(), None);
        writes.insert(&region, 1, &snapshot, &row).unwrap();
        if is_taken {
            insert(&region, v, v).unwrap();
        }
        // The next row of the same statement asks too.
        let next = [Datum::Int8(200 + v), Datum::Int8(200 + v)];
        writes.conflicting(&region, 1, &snapshot, TableId(100), &next).map(drop)
    };
    asks(2, false).unwrap();
    let error = asks(3, true).unwrap_err();
    assert_eq!(error.code(), ErrorCode::SerializationFailure);
    // What an ON CONFLICT DO UPDATE writes is not asked for.
    let mut writes = WriteSet::new();
    let snapshot = store.snapshot();
    let row = [Datum::Int8(9), Datum::Int8(1)];
    assert_eq!(writes.conflicting(&region, 1, &snapshot, TableId(100), &row).unwrap(), Some(vec![Value::Int8(1)]));
    writes.upsert(&region, 1, &snapshot, &[Datum::Int8(1), Datum::Int8(3)]).unwrap();
    assert!(writes.yields(&region));
    assert_eq!(writes.check_values(&region).unwrap_err().code(), ErrorCode::UniqueViolation);
    region.check();
}

/// A value goes from row to row; no snapshot sees it twice.
#[test]
fn no_snapshot_sees_a_value_twice() {
    let store = store(8, 16);
    let region = table(&store);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2i64 {
            let (region, stop) = (&region, &stop);
            scope.spawn(move || {
                let mut id = thread;
                while !stop.load(Ordering::Relaxed) {
                    id += 2;
                    if insert(region, id % 50, 1).is_ok() {
                        delete(region, id % 50);
                    }
                }
            });
        }
        for _ in 0..100 {
            let view = ReadView::committed(store.snapshot());
            let rows = scan_all(&region, &view).unwrap();
            assert!(rows.len() <= 1, "{rows:?}");
        }
        stop.store(true, Ordering::Relaxed);
    });
    region.check();
}

/// An index that is made while others write: it holds, or it finds a value twice and is gone.
#[test]
fn a_unique_index_is_made_while_others_write() {
    let store = store(8, 16);
    let region = store.create_region(numbers(1)).unwrap();
    for id in 0..400 {
        insert(&region, id, id).unwrap();
    }
    let stop = AtomicBool::new(false);
    let mut outcomes = [0, 0];
    std::thread::scope(|scope| {
        for thread in 1..3i64 {
            let (region, stop) = (&region, &stop);
            scope.spawn(move || {
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    number += 1;
                    let id = 1_000 * thread + number % 300;
                    // A value that is there, now and then: refused where the index knows it, else found while it is made.
                    let v = if number % 40 == 0 { number % 400 } else { id };
                    if insert(region, id, v).is_ok() {
                        delete(region, id);
                    }
                }
            });
        }
        for round in 0..60 {
            let index = unique_on_v(200 + round);
            region.add_index(&index);
            match region.build_index(&index) {
                Ok(()) => {
                    outcomes[0] += 1;
                    region.check();
                    assert_eq!(insert(&region, 9_999, 5).unwrap_err().code(), ErrorCode::UniqueViolation);
                }
                Err(error) => {
                    outcomes[1] += 1;
                    assert_eq!(error.code(), ErrorCode::UniqueViolation);
                    assert!(error.message().contains("could not create"), "{error}");
                }
            }
            region.drop_index(&index);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(outcomes[0] > 0, "{outcomes:?}");
    region.check();
}

#[test]
fn an_index_that_the_same_transaction_drops_says_nothing() {
    let store = store(4, 8);
    let region = table(&store);
    insert(&region, 1, 1).unwrap();
    let mut writes = WriteSet::new();
    writes.ignore_indexes([TableId(100)].into_iter());
    writes.insert(&region, 1, &store.snapshot(), &[Datum::Int8(2), Datum::Int8(1)]).unwrap();
    writes.check_values(&region).unwrap();
    store.commit(&mut writes).unwrap();
    region.drop_index(&unique_on_v(100));
    assert_eq!(region.row_count(), 2);
    let again = unique_on_v(101);
    region.add_index(&again);
    let error = region.build_index(&again).unwrap_err();
    assert_eq!(error.fields().detail.as_deref(), Some("Key (v)=(1) is duplicated."));
    region.drop_index(&again);
}
