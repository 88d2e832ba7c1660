//! Whatever keys are looked ahead for, and whoever holds which partition: it returns, and nothing is other than before.

use std::sync::mpsc;
use std::time::Duration;

use ashlar_base::{Datum, PartitionId};

use crate::segment::prefetch;
use crate::testing::{kv, numbers, scan_all, store};
use crate::{LOOKAHEAD_MAX, Mutation, ReadView};

const PARTITIONS: u16 = 4;

/// Each of so many keys twice, and between them what no row can have for a key.
fn keys(first: i64) -> impl Iterator<Item = Datum<'static>> {
    let ids = first..first + LOOKAHEAD_MAX as i64;
    ids.flat_map(|id| [Datum::Int8(id), Datum::Null, Datum::Int8(id), Datum::Text("no key")])
}

#[test]
fn a_look_ahead_waits_for_nobody_and_changes_nothing() {
    let store = store(PARTITIONS, 16);
    let region = store.create_region(numbers(1)).unwrap();
    // Partitions that were never written to are none, and have a place all the same.
    let look = || {
        [-20, 0, 30, 1000].into_iter().for_each(|first| {
            region.look_ahead(keys(first));
        })
    };
    look();
    assert_eq!((store.memory_used(), region.row_count()), (0, 0));
    for id in 0..40 {
        let row = [Datum::Int8(id), Datum::Int8(id * 2)];
        region.entry(&row[..1], |entry| entry.apply(Mutation::Insert { row: &row })).unwrap();
    }
    let view = ReadView::committed(store.snapshot());
    let picture = || {
        let mut rows = scan_all(&region, &view).unwrap();
        rows.sort_by_key(|row| format!("{row:?}"));
        (rows, store.memory_used(), region.row_count())
    };
    let before = picture();
    look();
    region.look_ahead(std::iter::empty());
    let all = (0..PARTITIONS).map(|partition| vec![partition]).chain([(0..PARTITIONS).collect()]);
    for held in all {
        let guards: Vec<_> = held.iter().map(|partition| region.lock(PartitionId(*partition))).collect();
        let (told, heard) = mpsc::sync_channel(1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                look();
                told.send(()).unwrap();
            });
            let has_returned = heard.recv_timeout(Duration::from_secs(60)).is_ok();
            // First, so that whoever waits comes to an end.
            drop(guards);
            assert!(has_returned, "somebody waits for the partitions {held:?}");
        });
    }
    for partition in (0..PARTITIONS).map(PartitionId) {
        assert!(region.try_lock(partition).is_some(), "{partition:?} is locked still");
    }
    assert_eq!(picture(), before);
    region.check();
}

fn named(name: &str) -> Datum<'_> {
    Datum::Bytea(name.as_bytes())
}

/// Rows that one look ahead brings near, and the lines of memory that it asks for meanwhile.
fn asked(look: impl FnOnce() -> usize) -> (usize, usize) {
    let before = prefetch::lines();
    let rows = look();
    (rows, prefetch::lines() - before)
}

#[test]
fn a_look_ahead_asks_for_the_index_and_for_the_bytes_of_each_row() {
    let store = store(PARTITIONS, 16);
    let region = store.create_region(kv()).unwrap();
    let value = [b'v'; 200];
    let names: Vec<String> = (0..100).map(|number| format!("key:{number:04}")).collect();
    for name in &names {
        let row = [named(name), Datum::Bytea(&value)];
        region.entry(&row[..1], |entry| entry.apply(Mutation::Insert { row: &row })).unwrap();
    }
    // One for each partition: what lies behind a lock that a key before holds is left alone.
    let of_partition = |partition: u16| {
        let lies_there = |name: &&String| region.place_of(&[named(name)]).unwrap().partition == PartitionId(partition);
        names.iter().find(lies_there).unwrap()
    };
    let apart: Vec<&String> = (0..PARTITIONS).map(of_partition).collect();
    let (rows, lines) = asked(|| region.look_ahead(apart.iter().map(|name| named(name))));
    assert_eq!(rows, apart.len());
    // Of each row a line of the index, one of each column's places, one of the key and four of the value, its last byte's again.
    assert!(lines >= rows * (1 + 2 + 1 + 4), "{lines} lines for {rows} rows");

    let (rows, lines) = asked(|| region.look_ahead([apart[0], apart[0]].into_iter().map(|name| named(name))));
    assert!(rows == 1 && lines > 0, "{lines} lines for {rows} rows");
    assert_eq!(asked(|| region.look_ahead(std::iter::empty())), (0, 0));
    let guard = region.lock(PartitionId(0));
    assert_eq!(asked(|| region.look_ahead(std::iter::once(named(apart[0])))), (0, 0));
    drop(guard);
}
