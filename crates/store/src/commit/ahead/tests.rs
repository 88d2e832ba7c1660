//! Keys that others have changed are found, whether it was before the look at them or between that and the commit's locks; and
//! rows that nobody has changed are not looked at again.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ashlar_base::clock::Wall;
use ashlar_base::{Datum, Error, ErrorCode, Eviction, LifeOptions, TableSchema, Value};
use proptest::prelude::*;

use super::*;
use crate::commit::Locked;
use crate::testing::{numbers, store};
use crate::{Expiry, Mutation, Region, Store, StoreConfig, WriteSet};

const KEYS: i64 = 24;
const START_MILLIS: i64 = 1_000_000;

fn row(id: i64, v: i64) -> [Datum<'static>; 2] {
    [Datum::Int8(id), Datum::Int8(v)]
}

fn put(region: &Region, id: i64, v: i64) {
    let row = row(id, v);
    region.entry(&row[..1], |entry| entry.apply(Mutation::Upsert { row: &row })).unwrap();
}

fn remove(region: &Region, id: i64) {
    let key = [Datum::Int8(id)];
    region.entry(&key, |entry| entry.apply(Mutation::Delete { key: &key })).unwrap();
}

/// A row with a time of its own, in milliseconds since 1970.
fn put_until(region: &Region, id: i64, millis: i64) {
    let row = row(id, 7);
    let write = Mutation::Upsert { row: &row };
    let brief = Mutation::Living { write: &write, expiry: Expiry::At(millis) };
    region.entry(&row[..1], |entry| entry.apply(brief)).unwrap();
}

/// A store whose time passes when it is told to, and a table there.
struct World {
    wall: Arc<AtomicI64>,
    store: Arc<Store>,
    region: Arc<Region>,
}

impl World {
    fn new(partition_count: u16, segment_rows_max: u32, life: LifeOptions) -> Self {
        let wall = Arc::new(AtomicI64::new(START_MILLIS * 1000));
        let clock = Wall::Moved(Arc::clone(&wall));
        let config = StoreConfig { partition_count, segment_rows_max, wall: clock, ..StoreConfig::default() };
        let store = Store::new(StoreConfig { compaction_rows_min: 1, ..config });
        let region = store.create_region(Arc::new(TableSchema { life, ..(*numbers(1)).clone() })).unwrap();
        Self { wall, store, region }
    }

    fn pass(&self, millis: i64) {
        self.wall.fetch_add(millis * 1000, Ordering::SeqCst);
    }
}

/// Whether a commit of updates of `0..KEYS` in one partition would look at each of its rows, if others did this before the look ahead
/// and that after it.
fn looks_at_all(before: impl Fn(&Store, &Region), after: impl Fn(&Store, &Region)) -> bool {
    let store = store(1, 64);
    let region = store.create_region(numbers(1)).unwrap();
    (0..KEYS).for_each(|id| put(&region, id, 0));
    let mut writes = WriteSet::new();
    let snapshot = store.snapshot();
    (0..KEYS).for_each(|id| writes.upsert(&region, 1, &snapshot, &row(id, 1)).unwrap());
    drop(snapshot);
    before(&store, &region);
    let (staged, _) = writes.parts();
    let staged = &staged[0];
    let ahead = Ahead::new(staged, &[], false).unwrap();
    after(&store, &region);
    let mut loads: Vec<Load> = Vec::new();
    let locked = Locked::new(staged, &mut loads, (ahead, None));
    let held = &locked.guards[0];
    !held.brief.unwrap().is_same(held.guard.as_deref().unwrap(), staged, KEYS as usize)
}

fn nothing(_: &Store, _: &Region) {}

#[test]
fn rows_that_nobody_has_changed_are_not_looked_at() {
    assert!(!looks_at_all(nothing, nothing));
}

#[test]
fn rows_of_other_keys_are_looked_at_instead() {
    let others = |store: &Store, region: &Region| {
        put(region, KEYS, 7);
        put(region, KEYS + 1, 7);
        remove(region, KEYS);
        store.compact();
    };
    assert!(!looks_at_all(others, nothing));
    assert!(!looks_at_all(nothing, others));
    assert!(!looks_at_all(others, |_, region| put(region, KEYS + 1, 8)));
}

#[test]
fn a_key_that_somebody_has_changed_is_found() {
    let changes: [fn(&Store, &Region); 3] = [
        |_, region| put(region, 3, 7),
        |_, region| remove(region, 3),
        |store, region| {
            remove(region, 3);
            put(region, 3, 0);
            store.compact();
        },
    ];
    for change in changes {
        assert!(looks_at_all(change, nothing));
        assert!(looks_at_all(nothing, change));
        assert!(looks_at_all(|_, region| put(region, KEYS, 7), change));
    }
}

#[test]
fn many_rows_of_others_are_not_looked_at_one_by_one() {
    assert!(looks_at_all(nothing, |_, region| (0..2 * KEYS).for_each(|id| put(region, KEYS + id, 7))));
}

/// Nothing is written when the time of a row comes.
#[test]
fn rows_whose_time_has_come_are_looked_at() {
    let none = LifeOptions::default();
    for life in [none, LifeOptions { ttl_ms: 500, ..none }, LifeOptions { max_idle_ms: 500, ..none }] {
        let looks_at_all = |passing: i64| {
            let world = World::new(1, 64, life);
            (0..KEYS).for_each(|id| put(&world.region, id, 0));
            if life == none {
                put_until(&world.region, 3, START_MILLIS + 500);
            }
            let mut writes = WriteSet::new();
            let snapshot = world.store.snapshot();
            (0..KEYS).for_each(|id| writes.upsert(&world.region, 1, &snapshot, &row(id, 1)).unwrap());
            let (staged, _) = writes.parts();
            let ahead = Ahead::new(&staged[0], &[], false).unwrap();
            world.pass(passing);
            let mut loads: Vec<Load> = Vec::new();
            let locked = Locked::new(&staged[0], &mut loads, (ahead, None));
            let held = &locked.guards[0];
            let looks = !held.brief.unwrap().is_same(held.guard.as_deref().unwrap(), &staged[0], KEYS as usize);
            assert_eq!(locked.validate().is_err(), passing > 500, "{life:?}, {passing}");
            looks
        };
        assert!(!looks_at_all(0), "{life:?}");
        assert!(!looks_at_all(490), "{life:?}");
        assert!(looks_at_all(501), "{life:?}");
    }
}

#[test]
fn a_large_commit_that_was_overtaken_changes_nothing() {
    for (is_insert, code) in [(false, ErrorCode::SerializationFailure), (true, ErrorCode::UniqueViolation)] {
        let store = store(4, 64);
        let region = store.create_region(numbers(1)).unwrap();
        if !is_insert {
            (0..KEYS).for_each(|id| put(&region, id, 0));
        }
        let mut writes = WriteSet::new();
        let snapshot = store.snapshot();
        for id in 0..KEYS {
            if is_insert {
                writes.insert(&region, 1, &snapshot, &row(id, 1)).unwrap();
            } else {
                writes.upsert(&region, 1, &snapshot, &row(id, 1)).unwrap();
            }
        }
        drop(snapshot);
        put(&region, 17, 9);
        assert_eq!(store.commit(&mut writes).unwrap_err().code(), code);
        for id in 0..KEYS {
            let v = region.get(&[Datum::Int8(id)], |row| row.map(|row| row.get(1).to_value()));
            let expected = if id == 17 { Some(9) } else { (!is_insert).then_some(0) };
            assert_eq!(v, expected.map(Value::Int8), "{id}");
        }
        region.check();
    }
}

/// What others do.
#[derive(Clone, Debug)]
enum Other {
    Put(i64),
    Remove(i64),
    /// In one transaction, of which much is left.
    Commit(i64, i64),
    /// So many milliseconds more than it is now.
    PutUntil(i64, i64),
    Use(i64),
    /// Milliseconds.
    Pass(i64),
    Compact,
}

fn others() -> impl Strategy<Value = Vec<Other>> {
    let key = || 0..2 * KEYS;
    let other = prop_oneof![
        4 => key().prop_map(Other::Put),
        3 => key().prop_map(Other::Remove),
        1 => (key(), 1..9i64).prop_map(|(first, count)| Other::Commit(first, count)),
        2 => (key(), 1..40i64).prop_map(|(id, millis)| Other::PutUntil(id, millis)),
        1 => key().prop_map(Other::Use),
        2 => (1..30i64).prop_map(Other::Pass),
        1 => Just(Other::Compact),
    ];
    proptest::collection::vec(other, 0..4)
}

fn lives() -> impl Strategy<Value = LifeOptions> {
    let none = LifeOptions::default();
    prop_oneof![
        3 => Just(none),
        1 => (10..60u64).prop_map(move |ttl_ms| LifeOptions { ttl_ms, ..none }),
        1 => (10..60u64).prop_map(move |max_idle_ms| LifeOptions { max_idle_ms, ..none }),
        1 => Just(LifeOptions { eviction: Eviction::Lfu, ..none }),
    ]
}

fn do_others(world: &World, others: &[Other]) {
    let World { store, region, .. } = world;
    for other in others {
        match *other {
            Other::Put(id) => put(region, id, 7),
            Other::Remove(id) => remove(region, id),
            Other::Commit(first, count) => {
                let (mut writes, snapshot) = (WriteSet::new(), store.snapshot());
                (first..first + count).for_each(|id| writes.upsert(region, 1, &snapshot, &row(id, 8)).unwrap());
                drop(snapshot);
                store.commit(&mut writes).unwrap();
            }
            Other::PutUntil(id, millis) => {
                put_until(region, id, world.wall.load(Ordering::SeqCst) / 1000 + millis);
            }
            Other::Use(id) => region.get(&[Datum::Int8(id)], |_| {}),
            Other::Pass(millis) => world.pass(millis),
            Other::Compact => _ = store.compact(),
        }
    }
}

/// What is said of a commit.
fn said(checked: Result<()>) -> Option<(ErrorCode, String)> {
    checked.err().map(|error: Error| (error.code(), error.to_string()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// A commit says the same whether or not it knows which rows need no look.
    #[test]
    fn a_commit_finds_what_a_look_at_all_rows_finds(
        there in proptest::collection::vec(0..KEYS, 0..30), kinds in proptest::collection::vec(0..3u8, 6..24),
        between in others(), before in others(), after in others(), compacts in any::<bool>(), life in lives()
    ) {
        let world = World::new(2, 8, life);
        let World { store, region, .. } = &world;
        there.into_iter().for_each(|id| put(region, id, 0));
        let mut writes = WriteSet::new();
        let half = kinds.len() / 2;
        for (id, kind) in kinds.into_iter().enumerate() {
            if id == half {
                do_others(&world, &between);
            }
            let (row, snapshot) = (row(id as i64, 1), store.snapshot());
            // A row that is there is not inserted.
            _ = match kind {
                0 => writes.insert(region, 1, &snapshot, &row),
                1 => writes.upsert(region, 1, &snapshot, &row),
                _ => writes.delete(region, 1, &snapshot, &row[..1]),
            };
        }
        do_others(&world, &before);
        let (staged, _) = writes.parts();
        let staged = &staged[0];
        let ahead = Ahead::new(staged, &[], false).unwrap();
        do_others(&world, &after);
        if compacts {
            store.compact();
        }
        let mut loads: Vec<Load> = Vec::new();
        let mut locked = Locked::new(staged, &mut loads, (ahead, None));
        let known = said(locked.validate());
        locked.guards.iter_mut().for_each(|held| held.brief = None);
        prop_assert_eq!(known, said(locked.validate()));
    }
}
