//! Locks and watches beside what else writes and ends rows: loads in bulk, expiry, eviction, commits that are tried again.

use std::sync::atomic::AtomicI64;

use ashlar_base::clock::Wall;
use ashlar_base::{Eviction, LifeOptions, TableSchema};

use super::*;
use crate::{Expiry, StoreConfig};

/// A time in 2027, in milliseconds.
const START: i64 = 1_800_000_000_000;

fn is_there(region: &Region, id: i64) -> bool {
    region.peek(&key(id), |row| row.is_some())
}

fn put(region: &Region, id: i64, expiry: Expiry) -> Result<Applied> {
    let row = [Datum::Int8(id), Datum::Int8(id)];
    let write = Mutation::Upsert { row: &row };
    region.entry(&row[..1], |entry| entry.apply(Mutation::Living { write: &write, expiry }))
}

/// Writes that are a load of these keys.
fn load(store: &Store, region: &Arc<Region>, ids: std::ops::Range<i64>) -> WriteSet {
    let rows = ids.map(|id| [Datum::Int8(id), Datum::Int8(7)]);
    crate::testing::load(region, &store.snapshot(), rows).unwrap()
}

#[test]
fn a_load_waits_for_a_lock_and_is_whole_then() {
    let (store, region) = region();
    let (mut one, mut two) = (LockHolder::new(&region, 1), LockHolder::new(&region, 2));
    // Nobody is there to be locked, and still the key is somebody's: as that of an EXEC, or of a row that has ended.
    assert!(one.lock(&region, &key(120), Strength::Update).unwrap().is_none());
    let mut writes = load(&store, &region, 50..450);
    for _ in 0..2 {
        assert_eq!(store.commit(&mut writes).unwrap_err().code(), ErrorCode::LockNotAvailable);
        assert_eq!(region.row_count(), 9);
        assert!(matches!(writes.get(&region, &key(449)), crate::Pending::Row(_)), "nothing is lost meanwhile");
    }
    let request = writes.take_stopped().unwrap();
    one.release_to(0);
    assert_eq!(poll(&mut two.wait(&request), Waker::noop()), Poll::Ready(Ok(())));
    writes.set_owner(two.id());
    store.commit(&mut writes).unwrap();
    assert_eq!(region.row_count(), 409);
    assert!((50..450).all(|id| is_there(&region, id)));
    // Whoever waits is refused where the key has come meanwhile.
    assert!(one.lock(&region, &key(500), Strength::Update).unwrap().is_none());
    let mut writes = load(&store, &region, 490..510);
    assert_eq!(store.commit(&mut writes).unwrap_err().code(), ErrorCode::LockNotAvailable);
    let mut own = WriteSet::new();
    own.set_owner(one.id());
    own.insert(&region, 1, &store.snapshot(), &[Datum::Int8(500), Datum::Int8(0)]).unwrap();
    store.commit(&mut own).unwrap();
    drop(one);
    assert_eq!(store.commit(&mut writes).unwrap_err().code(), ErrorCode::UniqueViolation);
    assert_eq!(region.row_count(), 410);
    region.check();
}

#[test]
fn a_load_is_a_write_of_keys_that_are_watched() {
    let (store, region) = region();
    let (seen, beside) = (region.watch(&key(60)).unwrap(), region.watch(&key(600)).unwrap());
    let mut writes = load(&store, &region, 50..70);
    assert!(!seen.is_touched(&region));
    store.commit(&mut writes).unwrap();
    assert!(seen.is_touched(&region) && !beside.is_touched(&region));
    let mut transaction = KeyTransaction::new(&store);
    transaction.watch(&region, &seen).unwrap();
    assert_eq!(transaction.commit(&store).unwrap_err().error.code(), ErrorCode::SerializationFailure);
}

/// A try finds too little memory, rows of a cache go, and the next one has all that the first had: as it does when there is
/// enough at last.
#[test]
fn a_load_is_whole_where_others_make_room_for_it() {
    const ROWS: i64 = 12_000;
    let store = Store::new(StoreConfig { memory_max: 6 << 20, partition_count: 4, ..StoreConfig::default() });
    let mut schema = TableSchema::clone(&numbers(1));
    schema.life = LifeOptions { eviction: Eviction::Random, ..LifeOptions::default() };
    let cache = store.create_region(Arc::new(schema)).unwrap();
    let (kept, ballast) = (store.create_region(numbers(2)).unwrap(), store.create_region(numbers(3)).unwrap());
    (0..60_000).for_each(|id| assert!(put(&cache, id, Expiry::Table).is_ok()));
    // So that the load's index has to be copied, which takes memory at the commit.
    (0..64).for_each(|id| assert!(put(&kept, -id, Expiry::Table).is_ok()));
    let mut writes = load(&store, &kept, 1..ROWS + 1);
    let full = (0..).find_map(|id| put(&ballast, id, Expiry::Table).err()).unwrap();
    assert_eq!(full.code(), ErrorCode::OutOfMemory);
    assert_eq!(store.ended().evicted, 0);
    // What has gone is kept for the load's own snapshot.
    assert_eq!(store.commit(&mut writes).unwrap_err().code(), ErrorCode::OutOfMemory);
    assert!(store.ended().evicted > 0, "it was not tried again");
    assert_eq!(kept.row_count(), 64);
    store.drop_region(ballast.id());
    drop(ballast);
    store.commit(&mut writes).unwrap();
    assert_eq!(kept.row_count(), 64 + ROWS as u64);
    assert!((1..=ROWS).all(|id| is_there(&kept, id)));
    kept.check();
}

fn moved() -> (Arc<AtomicI64>, Arc<Store>) {
    let wall = Arc::new(AtomicI64::new(START * 1000));
    let wall_of = Wall::Moved(Arc::clone(&wall));
    (wall, Store::new(StoreConfig { partition_count: 8, wall: wall_of, ..StoreConfig::default() }))
}

#[test]
fn whoever_watches_a_row_that_ends_notices() {
    let (wall, store) = moved();
    let region = store.create_region(numbers(1)).unwrap();
    for (id, expiry) in [(1, Expiry::At(START + 1000)), (2, Expiry::Never), (3, Expiry::At(START + 9000))] {
        put(&region, id, expiry).unwrap();
    }
    let watches: Vec<Watch> = (1..=4).map(|id| region.watch(&key(id)).unwrap()).collect();
    let commits = |watch: &Watch| {
        let mut transaction = KeyTransaction::new(&store);
        transaction.watch(&region, watch).unwrap();
        transaction.commit(&store).is_ok()
    };
    assert!(watches.iter().all(|watch| !watch.is_touched(&region) && commits(watch)));
    wall.fetch_add(1_000_000, Ordering::SeqCst);
    let touched = |watches: &[Watch]| watches.iter().map(|watch| watch.is_touched(&region)).collect::<Vec<_>>();
    for compacted in [false, true] {
        if compacted {
            store.compact();
        }
        assert_eq!(touched(&watches), [true, false, false, false]);
        assert_eq!(watches.iter().map(commits).collect::<Vec<_>>(), [false, true, true, true]);
    }
    // It was gone when it was watched: that is no change.
    let late = region.watch(&key(1)).unwrap();
    assert!(!late.is_touched(&region) && commits(&late));
    // Another time for a row is a change too.
    put(&region, 3, Expiry::At(START + 99_000)).unwrap();
    assert!(watches[2].is_touched(&region));
}

/// Nothing changes for whoever watches a key whose row is over, whatever ends that for good.
#[test]
fn the_end_for_good_of_a_row_that_was_over_is_no_change() {
    let (wall, store) = moved();
    for is_truncated in [false, true] {
        let region = store.create_region(numbers(1 + u32::from(is_truncated))).unwrap();
        let now = wall.load(Ordering::SeqCst) / 1000;
        put(&region, 1, Expiry::At(now + 1000)).unwrap();
        put(&region, 2, Expiry::At(now + 9000)).unwrap();
        wall.fetch_add(1_000_000, Ordering::SeqCst);
        let watches = [region.watch(&key(1)).unwrap(), region.watch(&key(2)).unwrap()];
        if is_truncated {
            region.truncate().unwrap();
        } else {
            store.compact();
        }
        assert_eq!(watches.each_ref().map(|watch| watch.is_touched(&region)), [false, is_truncated]);
        region.check();
    }
}

#[test]
fn whoever_watches_an_idle_row_notices_its_end() {
    let (wall, store) = moved();
    let mut schema = TableSchema::clone(&numbers(1));
    schema.life = LifeOptions { max_idle_ms: 1000, ..LifeOptions::default() };
    let region = store.create_region(Arc::new(schema)).unwrap();
    (1..=2).for_each(|id| assert!(put(&region, id, Expiry::Table).is_ok()));
    let watches = [region.watch(&key(1)).unwrap(), region.watch(&key(2)).unwrap()];
    for _ in 0..4 {
        wall.fetch_add(400_000, Ordering::SeqCst);
        region.get(&key(2), |_| ());
    }
    assert_eq!(watches.each_ref().map(|watch| watch.is_touched(&region)), [true, false]);
}

#[test]
fn the_key_of_a_row_that_has_ended_stays_locked() {
    let (wall, store) = moved();
    let region = store.create_region(numbers(1)).unwrap();
    put(&region, 1, Expiry::At(START + 1000)).unwrap();
    let (mut one, mut two) = (LockHolder::new(&region, 1), LockHolder::new(&region, 2));
    assert!(one.lock(&region, &key(1), Strength::Update).unwrap().is_none());
    wall.fetch_add(2_000_000, Ordering::SeqCst);
    for compacted in [false, true] {
        if compacted {
            store.compact();
        }
        assert!(!is_there(&region, 1));
        let request = two.lock(&region, &key(1), Strength::KeyShare).unwrap();
        assert!(request.is_some(), "one lock at a time");
        assert_eq!(put(&region, 1, Expiry::Table).unwrap_err().code(), ErrorCode::LockNotAvailable);
        let mut writes = WriteSet::new();
        writes.insert(&region, 1, &store.snapshot(), &[Datum::Int8(1), Datum::Int8(5)]).unwrap();
        assert_eq!(store.commit(&mut writes).unwrap_err().code(), ErrorCode::LockNotAvailable);
        let mut writes = load(&store, &region, 1..2);
        assert_eq!(store.commit(&mut writes).unwrap_err().code(), ErrorCode::LockNotAvailable);
    }
    let mut own = Way::new(3);
    region.entry_with(&mut own, &key(1), |entry| entry.apply(Mutation::Insert { row: &row(1) })).unwrap_err();
    one.release_to(0);
    assert_eq!(region.entry(&key(1), |entry| entry.apply(Mutation::Insert { row: &row(1) })), Ok(Applied::Inserted));
    assert_eq!(store.lock_statistics().rows, 0);
}

fn row(id: i64) -> [Datum<'static>; 2] {
    [Datum::Int8(id), Datum::Int8(0)]
}

#[test]
fn rows_that_are_locked_do_not_make_room_and_those_that_are_watched_say_so() {
    const HELD: i64 = 40;
    let (_, store) = moved();
    let mut schema = TableSchema::clone(&numbers(1));
    schema.life = LifeOptions { memory_max: 2 << 20, eviction: Eviction::Lru, ..LifeOptions::default() };
    let region = store.create_region(Arc::new(schema)).unwrap();
    (0..2 * HELD).for_each(|id| assert!(put(&region, id, Expiry::Table).is_ok()));
    let mut holder = LockHolder::new(&region, 1);
    for id in 0..HELD {
        assert!(holder.lock(&region, &key(id), Strength::KeyShare).unwrap().is_none());
    }
    let watches: Vec<Watch> = (HELD..2 * HELD).map(|id| region.watch(&key(id)).unwrap()).collect();
    (1000..200_000).for_each(|id| assert!(put(&region, id, Expiry::Table).is_ok()));
    assert!(store.ended().evicted > 100_000);
    assert!((0..HELD).all(|id| is_there(&region, id)), "a row that is locked has made room");
    let gone: Vec<bool> = (HELD..2 * HELD).map(|id| !is_there(&region, id)).collect();
    assert_eq!(watches.iter().map(|watch| watch.is_touched(&region)).collect::<Vec<_>>(), gone);
    assert!(gone.contains(&true), "none of those that nobody has used has made room");
    drop((holder, watches));
    (200_000..400_000).for_each(|id| assert!(put(&region, id, Expiry::Table).is_ok()));
    assert!((0..HELD).any(|id| !is_there(&region, id)));
    region.check();
}
