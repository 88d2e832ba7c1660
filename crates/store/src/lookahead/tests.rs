//! Whatever keys are looked ahead for, and whoever holds which partition: it returns, and nothing is other than before.

use std::sync::mpsc;
use std::time::Duration;

use ashlar_base::{Datum, PartitionId};

use crate::testing::{numbers, scan_all, store};
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
    let look = || [-20, 0, 30, 1000].into_iter().for_each(|first| region.look_ahead(keys(first)));
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
