//! Keys that others have changed are found, whether it was before the look at them or between that and the commit's locks; and
//! rows that nobody has changed are not looked at again.

use std::sync::Arc;

use ashlar_base::{Datum, Error, ErrorCode, Value};
use proptest::prelude::*;

use super::*;
use crate::commit::Locked;
use crate::testing::{numbers, store};
use crate::{Expiry, Mutation, Region, Store, WriteSet};

const KEYS: i64 = 24;
/// In milliseconds since 1970.
const IN_2096: i64 = 4_000_000_000_000;

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

/// Nothing is written when its time comes.
#[test]
fn rows_that_end_by_themselves_are_looked_at() {
    let expire = |_: &Store, region: &Region| {
        let row = row(KEYS, 7);
        let write = Mutation::Upsert { row: &row };
        let brief = Mutation::Living { write: &write, expiry: Expiry::At(IN_2096) };
        region.entry(&row[..1], |entry| entry.apply(brief)).unwrap();
    };
    assert!(looks_at_all(expire, nothing));
    assert!(looks_at_all(nothing, expire));
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
    Compact,
}

fn others() -> impl Strategy<Value = Vec<Other>> {
    let key = || 0..2 * KEYS;
    let other = prop_oneof![
        4 => key().prop_map(Other::Put),
        3 => key().prop_map(Other::Remove),
        1 => (key(), 1..9i64).prop_map(|(first, count)| Other::Commit(first, count)),
        1 => Just(Other::Compact),
    ];
    proptest::collection::vec(other, 0..4)
}

fn do_others(store: &Store, region: &Arc<Region>, others: &[Other]) {
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
        between in others(), before in others(), after in others(), compacts in any::<bool>()
    ) {
        let store = store(2, 8);
        let region = store.create_region(numbers(1)).unwrap();
        there.into_iter().for_each(|id| put(&region, id, 0));
        let mut writes = WriteSet::new();
        let half = kinds.len() / 2;
        for (id, kind) in kinds.into_iter().enumerate() {
            if id == half {
                do_others(&store, &region, &between);
            }
            let (row, snapshot) = (row(id as i64, 1), store.snapshot());
            // A row that is there is not inserted.
            _ = match kind {
                0 => writes.insert(&region, 1, &snapshot, &row),
                1 => writes.upsert(&region, 1, &snapshot, &row),
                _ => writes.delete(&region, 1, &snapshot, &row[..1]),
            };
        }
        do_others(&store, &region, &before);
        let (staged, _) = writes.parts();
        let staged = &staged[0];
        let ahead = Ahead::new(staged, &[], false).unwrap();
        do_others(&store, &region, &after);
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
