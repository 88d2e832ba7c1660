//! Rows that arrive in bulk, and indexes that are made meanwhile: neither gets past the other.

use ashlar_base::{Eviction, LifeOptions, TableSchema};

use super::*;
use crate::testing::{INT8, TEXT, lengths, load, schema};
use crate::{Expiry, StoreConfig};

/// Sixty characters.
const LONG: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

fn loaded(store: &Arc<Store>, region: &Arc<Region>, rows: impl Iterator<Item = (i64, i64)>) -> WriteSet {
    load(region, &store.snapshot(), rows.map(|(id, v)| [Datum::Int8(id), Datum::Int8(v)])).unwrap()
}

fn make(region: &Region, index: &Arc<IndexDef>) -> ashlar_base::Result<()> {
    region.add_index(index);
    region.build_index(index).inspect_err(|_| region.drop_index(index))
}

#[test]
fn a_load_that_began_before_a_unique_index_obeys_it() {
    let store = store(8, 8);
    let region = store.create_region(numbers(1)).unwrap();
    insert(&region, 1, 1).unwrap();
    let mut fine = loaded(&store, &region, (100..200).map(|id| (id, id)));
    let mut twice = loaded(&store, &region, (300..400).map(|id| (id, id / 2)));
    let mut taken = loaded(&store, &region, (500..600).map(|id| (id, id - 499)));
    make(&region, &unique_on_v(100)).unwrap();
    fine.check_values(&region).unwrap();
    store.commit(&mut fine).unwrap();
    region.check();
    for writes in [&mut twice, &mut taken] {
        for error in [writes.check_values(&region).unwrap_err(), store.commit(writes).unwrap_err()] {
            assert_eq!(error.code(), ErrorCode::UniqueViolation);
            assert!(error.fields().detail.as_deref().unwrap().starts_with("Key (v)="), "{error:?}");
        }
        region.check();
    }
    assert_eq!(region.row_count(), 101);
    assert_eq!(insert(&region, 9_999, 150).unwrap_err().code(), ErrorCode::UniqueViolation);
    // From now on rows are inserted one by one.
    assert!(!WriteSet::new().start_load(&region, 1, &store.snapshot()).unwrap());
    // What is loaded, written again and deleted in one transaction.
    let other = store.create_region(numbers(2)).unwrap();
    let mut writes = loaded(&store, &other, (0..50).map(|id| (id, id % 25)));
    for id in 0..25 {
        writes.upsert(&other, 1, &store.snapshot(), &[Datum::Int8(id), Datum::Int8(1000 + id)]).unwrap();
    }
    make(&other, &unique_on_v(102)).unwrap();
    writes.check_values(&other).unwrap();
    let mark = writes.mark();
    writes.upsert(&other, 1, &store.snapshot(), &[Datum::Int8(70), Datum::Int8(3)]).unwrap();
    assert_eq!(writes.check_values(&other).unwrap_err().code(), ErrorCode::UniqueViolation);
    writes.rollback_to(mark);
    writes.delete(&other, 1, &store.snapshot(), &[Datum::Int8(28)]).unwrap();
    writes.upsert(&other, 1, &store.snapshot(), &[Datum::Int8(70), Datum::Int8(3)]).unwrap();
    writes.check_values(&other).unwrap();
    store.commit(&mut writes).unwrap();
    other.check();
    assert_eq!(other.row_count(), 50);
}

#[test]
fn a_load_that_began_before_an_index_that_computes_is_in_it() {
    let store = store(4, 8);
    let region = store.create_region(schema(1, "t", &[("id", INT8), ("name", TEXT)], &[0])).unwrap();
    let rows = (0..60i64).map(|id| [Datum::Int8(id), Datum::Text(&LONG[..id as usize])]);
    let mut writes = load(&region, &store.snapshot(), rows).unwrap();
    let unique = Some(Unique { nulls_distinct: true, is_constraint: false });
    let index = lengths(TableId(100), ColumnId(1), true, true);
    make(&region, &Arc::new(IndexDef { unique, ..index })).unwrap();
    store.commit(&mut writes).unwrap();
    region.check();
    // Every probe of the index finds what a scan does.
    assert_eq!(scan_all(&region, &ReadView::committed(store.snapshot())).unwrap().len(), 60);
    let row = [Datum::Int8(100), Datum::Text("yyyy")];
    let put = || region.entry(&row[..1], |entry| entry.apply(Mutation::Insert { row: &row }));
    assert_eq!(put().unwrap_err().code(), ErrorCode::UniqueViolation);
}

/// One of them says 23505, whoever is first.
#[test]
fn a_load_and_an_index_do_not_miss_each_other() {
    let (mut refused_index, mut refused_load) = (0, 0);
    for round in 0..150u32 {
        let store = store(8, 16);
        let region = store.create_region(numbers(1)).unwrap();
        for id in 0..40 {
            insert(&region, id, id).unwrap();
        }
        // One value is there twice.
        let mut writes = loaded(&store, &region, (100..140).map(|id| (id, if id == 120 { 7 } else { id })));
        let index = unique_on_v(100 + round);
        let (made, committed) = std::thread::scope(|scope| {
            let making = scope.spawn(|| make(&region, &index));
            for _ in 0..round % 7 * 40 {
                std::hint::spin_loop();
            }
            let committed = store.commit(&mut writes);
            (making.join().unwrap(), committed)
        });
        match (made, committed) {
            (Ok(()), Err(error)) => {
                assert_eq!((error.code(), region.row_count()), (ErrorCode::UniqueViolation, 40));
                refused_load += 1;
            }
            (Err(error), Ok(_)) => {
                assert_eq!((error.code(), region.row_count()), (ErrorCode::UniqueViolation, 80));
                refused_index += 1;
            }
            // Each has found the other's beginning.
            (Err(_), Err(_)) => assert_eq!(region.row_count(), 40),
            (Ok(()), Ok(_)) => panic!("value 7 is there twice, and unique"),
        }
        region.check();
    }
    assert!(refused_index + refused_load > 0);
}

/// A commit meets a row that is over, ends it, and tries again: with what arrived in bulk for another table.
#[test]
fn a_load_is_whole_when_its_commit_waits_for_a_value() {
    let store = store(8, 16);
    let (unique, plain) = (table(&store), store.create_region(numbers(2)).unwrap());
    for id in 0..20 {
        let row = [Datum::Int8(id), Datum::Int8(id)];
        let write = Mutation::Insert { row: &row };
        let over = Mutation::Living { write: &write, expiry: Expiry::At(1) };
        unique.entry(&row[..1], |entry| entry.apply(over)).unwrap();
    }
    let mut writes = loaded(&store, &plain, (0..500).map(|id| (id, id)));
    for id in 0..20 {
        writes.insert(&unique, 1, &store.snapshot(), &[Datum::Int8(100 + id), Datum::Int8(id)]).unwrap();
    }
    store.commit(&mut writes).unwrap();
    assert_eq!((unique.row_count(), plain.row_count()), (20, 500));
    unique.check();
    plain.check();
    // Refused, it has them still.
    let mut writes = loaded(&store, &plain, (500..600).map(|id| (id, id)));
    writes.insert(&unique, 1, &store.snapshot(), &[Datum::Int8(200), Datum::Int8(3)]).unwrap();
    assert_eq!(store.commit(&mut writes).unwrap_err().code(), ErrorCode::UniqueViolation);
    assert_eq!((unique.row_count(), plain.row_count()), (20, 500));
    delete(&unique, 103);
    store.commit(&mut writes).unwrap();
    assert_eq!((unique.row_count(), plain.row_count()), (20, 600));
    plain.check();
}

/// A commit that finds no memory, makes room and tries again commits what arrived in bulk too.
#[test]
fn a_load_is_whole_when_its_commit_is_tried_again() {
    let (mut committed, mut failed) = (0, 0);
    for rows in (2_000..16_000).step_by(500) {
        let store = Store::new(StoreConfig { partition_count: 8, memory_max: 4 << 20, ..StoreConfig::default() });
        let mut cache = TableSchema::clone(&numbers(1));
        cache.life = LifeOptions { eviction: Eviction::Lru, ..LifeOptions::default() };
        let cache = store.create_region(Arc::new(cache)).unwrap();
        for id in 0..120_000 {
            insert(&cache, id, id).unwrap();
        }
        let kept = store.create_region(numbers(2)).unwrap();
        let all = (0..rows).map(|id| [Datum::Int8(id), Datum::Int8(id)]);
        let Ok(mut writes) = load(&kept, &store.snapshot(), all) else { continue };
        match store.commit(&mut writes) {
            Ok(_) => {
                assert_eq!(kept.row_count(), rows as u64);
                committed += 1;
            }
            Err(error) => {
                assert_eq!((error.code(), kept.row_count()), (ErrorCode::OutOfMemory, 0));
                failed += 1;
            }
        }
        kept.check();
    }
    assert!(committed > 0, "{failed} failed");
}

fn batch(store: &Arc<Store>, region: &Arc<Region>, rows: impl Iterator<Item = (i64, i64)>) -> WriteSet {
    let (mut writes, snapshot) = (WriteSet::new(), store.snapshot());
    for (id, v) in rows {
        writes.insert(region, 1, &snapshot, &[Datum::Int8(id), Datum::Int8(v)]).unwrap();
    }
    writes
}

/// Values that a commit has taken before it had a lock, and that no row will have.
#[test]
fn a_commit_that_fails_gives_back_what_it_has_taken_in_advance() {
    let store = store(8, 8);
    let region = table(&store);
    region.complete_index(&unique_on_v(100));
    insert(&region, 1, 1).unwrap();
    // Somebody else has a value; one is there twice; a key has come meanwhile; a row is locked.
    let mut taken = batch(&store, &region, (100..120).map(|id| (id, if id == 119 { 1 } else { id })));
    let mut twice = batch(&store, &region, (100..120).map(|id| (id, id.min(118))));
    let mut late = batch(&store, &region, (100..120).map(|id| (id, id)));
    let mut stopped = batch(&store, &region, (200..220).map(|id| (id, id)));
    insert(&region, 119, 5_000).unwrap();
    let mut holder = crate::LockHolder::new(&region, 1);
    assert!(holder.lock(&region, &[Datum::Int8(207)], crate::Strength::Update).unwrap().is_none());
    for (writes, code) in [
        (&mut taken, ErrorCode::UniqueViolation),
        (&mut twice, ErrorCode::UniqueViolation),
        (&mut late, ErrorCode::UniqueViolation),
        (&mut stopped, ErrorCode::LockNotAvailable),
    ] {
        assert_eq!(store.commit(writes).unwrap_err().code(), code);
        assert_eq!(region.row_count(), 2);
        region.check();
    }
    drop(holder);
    store.commit(&mut stopped).unwrap();
    assert_eq!(region.row_count(), 22);
    region.check();
    assert_eq!(insert(&region, 9_999, 210).unwrap_err().code(), ErrorCode::UniqueViolation);
}

/// Whoever meets such a value waits for the commit to decide.
#[test]
fn a_value_that_is_given_back_is_refused_to_nobody() {
    for round in 0..100i64 {
        let store = store(8, 16);
        let region = table(&store);
        region.complete_index(&unique_on_v(100));
        let mut writes = batch(&store, &region, (0..200).map(|id| (id, id)));
        // It fails for its last key.
        insert(&region, 199, 100_000).unwrap();
        std::thread::scope(|scope| {
            let committing = scope.spawn(|| store.commit(&mut writes).unwrap_err().code());
            for v in (0..199).rev() {
                if v % 2 == round % 2 {
                    insert(&region, 1_000 + v, v).unwrap();
                } else {
                    let row = [Datum::Int8(1_000 + v), Datum::Int8(v)];
                    let mut one = WriteSet::new();
                    one.insert(&region, 1, &store.snapshot(), &row).unwrap();
                    store.commit(&mut one).unwrap();
                }
            }
            assert_eq!(committing.join().unwrap(), ErrorCode::UniqueViolation);
        });
        assert_eq!(region.row_count(), 200);
        region.check();
    }
}
