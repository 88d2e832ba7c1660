//! Rows whose time has come and that nobody has ended yet are in nobody's way, wherever they lie and whoever writes.

use std::sync::atomic::AtomicI64;

use ashlar_base::clock::Wall;

use super::*;
use crate::{Expiry, StoreConfig};

/// A time in 2027, in milliseconds.
const START: i64 = 1_800_000_000_000;

/// A store whose time stands until somebody moves it.
fn standing() -> (Arc<AtomicI64>, Arc<Store>, Arc<Region>) {
    let wall = Arc::new(AtomicI64::new(START * 1000));
    let config = StoreConfig { partition_count: 8, wall: Wall::Moved(Arc::clone(&wall)), ..StoreConfig::default() };
    let store = Store::new(config);
    let region = table(&store);
    (wall, store, region)
}

fn put(region: &Region, id: i64, v: i64, expiry: Expiry) -> ashlar_base::Result<Applied> {
    let row = [Datum::Int8(id), Datum::Int8(v)];
    let write = Mutation::Upsert { row: &row };
    region.entry(&row[..1], |entry| entry.apply(Mutation::Living { write: &write, expiry }))
}

fn pass(wall: &AtomicI64, millis: i64) {
    wall.fetch_add(millis * 1000, Ordering::SeqCst);
}

fn is_refused<T: std::fmt::Debug>(done: ashlar_base::Result<T>) {
    assert_eq!(done.unwrap_err().code(), ErrorCode::UniqueViolation);
}

/// Rows 0 to 19 with these values, which end in a second.
fn filled() -> (Arc<AtomicI64>, Arc<Store>, Arc<Region>) {
    let (wall, store, region) = standing();
    for id in 0..20 {
        put(&region, id, id, Expiry::At(START + 1000)).unwrap();
    }
    for id in 0..20 {
        is_refused(insert(&region, 100 + id, id));
    }
    (wall, store, region)
}

#[test]
fn a_write_by_key_gets_the_values_of_rows_that_are_over() {
    let (wall, _store, region) = filled();
    pass(&wall, 1000);
    // In all partitions, so that the row that is over is in this one, before it and behind it.
    for id in 0..20 {
        insert(&region, 100 + id, id).unwrap();
        is_refused(insert(&region, 200 + id, id));
    }
    region.check();
    assert_eq!(region.row_count(), 20);
    // The key of a row that is over, with its own value and with that of another.
    let (wall, _store, region) = filled();
    pass(&wall, 1000);
    for id in 0..20 {
        let v = if id < 10 { id } else { 10 + (id + 1) % 10 };
        put(&region, id, v, Expiry::Keep).unwrap();
    }
    region.check();
    assert_eq!(region.row_count(), 20);
    // An update keeps what its row has and takes what is over.
    let (wall, _store, region) = filled();
    insert(&region, 50, 50).unwrap();
    pass(&wall, 1000);
    let key = [Datum::Int8(50)];
    let update = |v: i64| {
        region.entry(&key, |entry| entry.apply(Mutation::Update { key: &key, changes: &[(1, Datum::Int8(v))] }))
    };
    for v in (0..20).chain([50, 50]) {
        assert_eq!(update(v).unwrap(), Applied::Updated);
    }
    region.check();
    assert_eq!(region.row_count(), 1);
}

#[test]
fn a_transaction_gets_the_values_of_rows_that_are_over() {
    let (wall, store, region) = filled();
    pass(&wall, 1000);
    let mut writes = WriteSet::new();
    let snapshot = store.snapshot();
    for id in 0..20 {
        // Some take the keys too, with the values of others.
        let id = if id % 3 == 0 { id } else { 100 + id };
        writes.insert(&region, 1, &snapshot, &[Datum::Int8(id), Datum::Int8((id + 7) % 20)]).unwrap();
    }
    writes.check_values(&region).unwrap();
    store.commit(&mut writes).unwrap();
    region.check();
    assert_eq!(region.row_count(), 20);
    // They are there: nobody else gets the values.
    writes.insert(&region, 1, &store.snapshot(), &[Datum::Int8(500), Datum::Int8(3)]).unwrap();
    is_refused(writes.check_values(&region));
    is_refused(store.commit(&mut writes));
    region.check();
    let (wall, store, region) = filled();
    pass(&wall, 1000);
    for id in 0..20 {
        let mut keys = KeyTransaction::new(&store);
        let row = [Datum::Int8(300 + id), Datum::Int8(id)];
        keys.entry(&region, &row[..1], |entry| entry.apply(Mutation::Insert { row: &row })).unwrap().unwrap();
        keys.commit(&store).unwrap();
    }
    region.check();
}

/// A row that a transaction sees as there is over when it commits.
#[test]
fn a_row_that_ends_while_a_transaction_is_open_gives_its_values_back() {
    let (wall, store, region) = filled();
    let mut writes = WriteSet::new();
    let snapshot = store.snapshot();
    writes.insert(&region, 1, &snapshot, &[Datum::Int8(100), Datum::Int8(3)]).unwrap();
    is_refused(writes.check_values(&region));
    writes.clear();
    writes.delete(&region, 1, &snapshot, &[Datum::Int8(4)]).unwrap();
    writes.insert(&region, 1, &snapshot, &[Datum::Int8(100), Datum::Int8(4)]).unwrap();
    writes.insert(&region, 1, &snapshot, &[Datum::Int8(101), Datum::Int8(5)]).unwrap();
    pass(&wall, 1000);
    // What the transaction saw has ended: it is told so.
    assert_eq!(store.commit(&mut writes).unwrap_err().code(), ErrorCode::SerializationFailure);
    writes.clear();
    writes.insert(&region, 1, &snapshot, &[Datum::Int8(101), Datum::Int8(5)]).unwrap();
    store.commit(&mut writes).unwrap();
    region.check();
}

#[test]
fn on_conflict_does_not_meet_a_row_that_is_over() {
    let (wall, store, region) = filled();
    let index = region.every_index()[0].id;
    let mut writes = WriteSet::new();
    let meets = |writes: &mut WriteSet| {
        writes.conflicting(&region, 1, &store.snapshot(), index, &[Datum::Int8(100), Datum::Int8(3)]).unwrap()
    };
    assert_eq!(meets(&mut writes), Some(vec![Value::Int8(3)]));
    pass(&wall, 1000);
    assert_eq!(meets(&mut writes), None);
    writes.upsert(&region, 1, &store.snapshot(), &[Datum::Int8(100), Datum::Int8(3)]).unwrap();
    store.commit(&mut writes).unwrap();
    assert_eq!(meets(&mut writes), Some(vec![Value::Int8(100)]));
    region.check();
}

#[test]
fn rows_that_are_over_do_not_keep_an_index_from_being_made() {
    let (wall, _store, region) = standing();
    region.drop_index(&unique_on_v(100));
    for id in 0..40 {
        let expiry = if id < 30 { Expiry::At(START + 1000) } else { Expiry::Never };
        put(&region, id, id % 10, expiry).unwrap();
    }
    let make = |id: u32| {
        let index = unique_on_v(id);
        region.add_index(&index);
        region.build_index(&index).inspect_err(|_| region.drop_index(&index))
    };
    is_refused(make(101));
    pass(&wall, 1000);
    make(102).unwrap();
    region.check();
    is_refused(insert(&region, 500, 3));
    insert(&region, 500, 11).unwrap();
    region.check();
}

/// Rows end by themselves all the time: writers find their way, and each value has one row.
#[test]
fn writers_of_values_that_end_do_not_wait_for_each_other() {
    const THREADS: i64 = 4;
    const ROUNDS: i64 = 1500;
    let store = store(8, 16);
    let region = table(&store);
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, region, done) = (&store, &region, &done);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let (id, v) = (round * THREADS + thread, round % 5);
                    let ends = Expiry::At(store.now_millis() + i64::from(round % 3 == 0));
                    let result = if (round + thread) % 2 == 0 {
                        put(region, id, v, ends).map(drop)
                    } else {
                        let mut writes = WriteSet::new();
                        let snapshot = store.snapshot();
                        for (id, v) in [(id, v), (id + 1_000_000, (v + 2) % 5)] {
                            let row = [Datum::Int8(id), Datum::Int8(v)];
                            writes.put(region, 1, &snapshot, &row, ends).unwrap();
                        }
                        store.commit(&mut writes).map(drop)
                    };
                    match result {
                        Ok(()) => drop(done.fetch_add(1, Ordering::Relaxed)),
                        Err(error) => assert_eq!(error.code(), ErrorCode::UniqueViolation, "{error}"),
                    }
                }
            });
        }
        for _ in 0..50 {
            store.compact();
        }
    });
    region.check();
    let done = done.into_inner();
    assert!(done > 100, "five values, and only {done} rows had one");
}
