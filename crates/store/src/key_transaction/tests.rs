//! Transactions of key operations: each sees its own, others see all or nothing, and what was read holds until the commit.

use std::sync::Barrier;
use std::sync::atomic::{AtomicI64, Ordering};

use ashlar_base::ErrorCode;
use ashlar_base::clock::Wall;

use super::*;
use crate::StoreConfig;
use crate::testing::{numbers, store};

fn put(region: &Region, id: i64, v: i64) {
    let row = [Datum::Int8(id), Datum::Int8(v)];
    region.entry(&row[..1], |entry| entry.apply(Mutation::Upsert { row: &row })).unwrap();
}

fn value(row: Option<RowRef<'_>>) -> Option<i64> {
    row.map(|row| match row.get(1) {
        Datum::Int8(v) => v,
        other => panic!("{other:?}"),
    })
}

fn get(region: &Region, id: i64) -> Option<i64> {
    region.get(&[Datum::Int8(id)], value)
}

fn read(transaction: &mut KeyTransaction, region: &Arc<Region>, id: i64) -> Option<i64> {
    transaction.get(region, &[Datum::Int8(id)], value).unwrap()
}

fn apply(transaction: &mut KeyTransaction, region: &Arc<Region>, id: i64, mutation: Mutation<'_>) -> Result<Applied> {
    let key = [Datum::Int8(id)];
    transaction.entry(region, &key, |entry| {
        let applied = entry.apply(mutation)?;
        // The entry itself shows what it has done.
        assert_eq!(entry.row().is_some(), !matches!(applied, Applied::Deleted | Applied::Nothing));
        Ok(applied)
    })?
}

fn write(transaction: &mut KeyTransaction, region: &Arc<Region>, id: i64, v: i64) -> Applied {
    let row = [Datum::Int8(id), Datum::Int8(v)];
    apply(transaction, region, id, Mutation::Upsert { row: &row }).unwrap()
}

#[test]
fn a_transaction_sees_what_it_did_and_others_see_it_when_it_commits() {
    let store = store(4, 16);
    let region = store.create_region(numbers(1)).unwrap();
    (1..=3).for_each(|id| put(&region, id, id * 10));
    let mut one = KeyTransaction::new(&store);
    assert_eq!(write(&mut one, &region, 1, 11), Applied::Updated);
    assert_eq!(write(&mut one, &region, 4, 40), Applied::Inserted);
    let (second, gone) = ([Datum::Int8(2)], [Datum::Int8(3)]);
    let changes = [(1, Datum::Int8(21))];
    assert_eq!(apply(&mut one, &region, 2, Mutation::Update { key: &second, changes: &changes }), Ok(Applied::Updated));
    assert_eq!(apply(&mut one, &region, 3, Mutation::Delete { key: &gone }), Ok(Applied::Deleted));
    assert_eq!(apply(&mut one, &region, 3, Mutation::Delete { key: &gone }), Ok(Applied::Nothing));
    let again = [Datum::Int8(4), Datum::Int8(0)];
    let duplicate = apply(&mut one, &region, 4, Mutation::Insert { row: &again }).unwrap_err();
    assert_eq!(duplicate.code(), ErrorCode::UniqueViolation);
    let seen: Vec<_> = (1..=4).map(|id| read(&mut one, &region, id)).collect();
    assert_eq!(seen, [Some(11), Some(21), None, Some(40)]);
    assert_eq!((1..=4).map(|id| get(&region, id)).collect::<Vec<_>>(), [Some(10), Some(20), Some(30), None]);
    one.commit(&store).unwrap();
    assert_eq!((1..=4).map(|id| get(&region, id)).collect::<Vec<_>>(), seen);
}

#[test]
fn what_was_taken_back_is_not_committed() {
    let store = store(4, 16);
    let region = store.create_region(numbers(1)).unwrap();
    put(&region, 1, 10);
    let mut one = KeyTransaction::new(&store);
    write(&mut one, &region, 1, 11);
    let mark = one.mark();
    write(&mut one, &region, 1, 12);
    write(&mut one, &region, 2, 20);
    one.rollback_to(mark);
    assert_eq!((read(&mut one, &region, 1), read(&mut one, &region, 2)), (Some(11), None));
    one.commit(&store).unwrap();
    assert_eq!((get(&region, 1), get(&region, 2)), (Some(11), None));
}

/// In a transaction the same is a use of a row as by itself.
#[test]
fn what_is_read_is_used_and_what_is_peeked_at_is_not() {
    let wall = Arc::new(AtomicI64::new(1_800_000_000_000_000));
    let store = Store::new(StoreConfig { wall: Wall::Moved(Arc::clone(&wall)), ..StoreConfig::default() });
    let mut schema = TableSchema::clone(&numbers(1));
    schema.life.max_idle_ms = 100;
    let region = store.create_region(Arc::new(schema)).unwrap();
    (1..=3).for_each(|id| put(&region, id, id * 10));
    wall.fetch_add(60_000, Ordering::SeqCst);
    let mut one = KeyTransaction::new(&store);
    assert_eq!(read(&mut one, &region, 1), Some(10));
    assert_eq!(one.peek(&region, &[Datum::Int8(2)], value).unwrap(), Some(20));
    one.entry(&region, &[Datum::Int8(3)], |entry| assert_eq!(value(entry.row()), Some(30))).unwrap();
    one.commit(&store).unwrap();
    wall.fetch_add(60_000, Ordering::SeqCst);
    assert_eq!((1..=3).map(|id| get(&region, id)).collect::<Vec<_>>(), [Some(10), None, Some(30)]);
}

/// Of a transaction that reads key 1 and writes key 2, each way in which another can change key 1.
#[test]
fn nobody_changes_what_was_read() {
    let others: [fn(&Arc<Region>); 3] = [
        |region| put(region, 1, 11),
        |region| {
            let key = [Datum::Int8(1)];
            region.entry(&key, |entry| entry.apply(Mutation::Delete { key: &key })).unwrap();
        },
        // The same value is a change all the same.
        |region| put(region, 1, 10),
    ];
    for (number, other) in others.into_iter().enumerate() {
        let store = store(4, 16);
        let region = store.create_region(numbers(1)).unwrap();
        put(&region, 1, 10);
        let mut one = KeyTransaction::new(&store);
        assert_eq!(read(&mut one, &region, 1), Some(10));
        write(&mut one, &region, 2, 20);
        other(&region);
        assert_eq!(read(&mut one, &region, 1), Some(10), "a snapshot stays");
        assert_eq!(one.commit(&store).unwrap_err().error.code(), ErrorCode::SerializationFailure, "{number}");
        assert_eq!(get(&region, 2), None);
        // What only reads was so when it began.
        let mut two = KeyTransaction::new(&store);
        read(&mut two, &region, 1);
        other(&region);
        two.commit(&store).unwrap();
    }
}

#[test]
fn a_row_that_appears_is_a_change() {
    let store = store(4, 16);
    let region = store.create_region(numbers(1)).unwrap();
    let mut one = KeyTransaction::new(&store);
    assert_eq!(read(&mut one, &region, 1), None);
    write(&mut one, &region, 2, 20);
    put(&region, 1, 10);
    assert_eq!(one.commit(&store).unwrap_err().error.code(), ErrorCode::SerializationFailure);
}

#[test]
fn a_watched_key_holds_from_its_watch_on() {
    let store = store(4, 16);
    let region = store.create_region(numbers(1)).unwrap();
    put(&region, 1, 10);
    let watch_of = |id: i64| region.watch(&[Datum::Int8(id)]).unwrap();
    let watch = watch_of(1);
    let commit = |watch: &Watch| {
        let mut one = KeyTransaction::new(&store);
        one.watch(&region, watch).map_err(|error| error.code())?;
        one.commit(&store).map_err(|failed| failed.error.code())
    };
    assert_eq!(commit(&watch), Ok(()));
    put(&region, 2, 20);
    assert_eq!(commit(&watch), Ok(()));
    put(&region, 1, 10);
    assert!(watch.is_touched(&region));
    assert_eq!(commit(&watch), Err(ErrorCode::SerializationFailure));
    // A key that came and went again, and one that a transaction writes.
    let (third, fourth) = (watch_of(3), watch_of(4));
    put(&region, 3, 30);
    let key = [Datum::Int8(3)];
    region.entry(&key, |entry| entry.apply(Mutation::Delete { key: &key })).unwrap();
    assert_eq!(commit(&third), Err(ErrorCode::SerializationFailure));
    let mut writer = KeyTransaction::new(&store);
    write(&mut writer, &region, 4, 40);
    assert!(!fourth.is_touched(&region));
    writer.commit(&store).unwrap();
    assert!(fourth.is_touched(&region));
    // Nobody pays for a watch that has ended.
    drop((watch, third, fourth));
    assert_eq!((region.locked_rows(), store.lock_statistics().rows), (0, 0));
    // One that was written in vain is a write, and one that was not there is not truncated.
    let (fifth, sixth) = (watch_of(5), watch_of(6));
    let mut writer = KeyTransaction::new(&store);
    write(&mut writer, &region, 6, 60);
    let key = [Datum::Int8(6)];
    writer.entry(&region, &key, |entry| entry.apply(Mutation::Delete { key: &key })).unwrap().unwrap();
    writer.commit(&store).unwrap();
    assert_eq!((fifth.is_touched(&region), sixth.is_touched(&region)), (false, true));
    put(&region, 5, 50);
    let (fifth, sixth) = (watch_of(5), watch_of(6));
    region.truncate().unwrap();
    assert_eq!((fifth.is_touched(&region), sixth.is_touched(&region)), (true, false));
    store.drop_region(region.id());
    assert_eq!(commit(&watch_of(6)), Err(ErrorCode::SerializationFailure));
}

#[test]
fn nothing_is_kept_for_a_watch() {
    let store = store(4, 16);
    let region = store.create_region(numbers(1)).unwrap();
    put(&region, 1, 10);
    let _watch = region.watch(&[Datum::Int8(1)]).unwrap();
    put(&region, 1, 11);
    let before = region.bytes();
    (0..10_000).for_each(|v| put(&region, 1, v));
    assert_eq!(region.bytes(), before);
}

/// Each of two transactions writes its key if the other's is empty: at snapshots alone both could.
#[test]
fn transactions_are_as_if_one_came_after_the_other() {
    let store = store(4, 16);
    let region = store.create_region(numbers(1)).unwrap();
    for round in 0..200 {
        let (left, right) = (round * 2, round * 2 + 1);
        let together = Barrier::new(2);
        let work = |own: i64, other: i64| {
            together.wait();
            loop {
                let mut one = KeyTransaction::new(&store);
                if read(&mut one, &region, other).is_some() {
                    return;
                }
                write(&mut one, &region, own, 1);
                if one.commit(&store).is_ok() {
                    return;
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| work(left, right));
            scope.spawn(|| work(right, left));
        });
        assert!(get(&region, left).is_some() != get(&region, right).is_some(), "round {round}");
    }
}

#[test]
fn memory_is_charged_while_it_lasts() {
    let store = store(4, 16);
    let region = store.create_region(numbers(1)).unwrap();
    put(&region, 1, 10);
    let before = store.memory_used();
    let mut one = KeyTransaction::new(&store);
    for id in 0..1000 {
        read(&mut one, &region, id);
    }
    assert!(store.memory_used() >= before + 1000 * size_of::<Value>() as u64);
    one.commit(&store).unwrap();
    assert_eq!(store.memory_used(), before);
}
