//! What happens to a partition between the two locks of a rewrite.

use ashlar_base::{PartitionId, Value};

use super::*;
use crate::mutation::Mutation;
use crate::region::Region;
use crate::testing::{numbers, scan_all, store};
use crate::{ReadView, Store};

const PARTITION: PartitionId = PartitionId(0);

fn put(region: &Region, id: i64, v: i64) {
    let row = [Datum::Int8(id), Datum::Int8(v)];
    region.entry(&row[..1], |entry| entry.apply(Mutation::Upsert { row: &row })).unwrap();
}

fn delete(region: &Region, id: i64) {
    let key = [Datum::Int8(id)];
    region.entry(&key, |entry| entry.apply(Mutation::Delete { key: &key })).unwrap();
}

fn ids(region: &Arc<Region>, view: &ReadView) -> Vec<i64> {
    let rows = scan_all(region, view).unwrap();
    rows.iter().map(|row| if let Value::Int8(id) = row[0] { id } else { panic!("{row:?}") }).collect()
}

/// Twelve rows in segments of eight, of which rows 6 to 11 are dead: both segments are one run.
fn half_dead() -> (Arc<Store>, Arc<Region>) {
    let store = store(1, 8);
    let region = store.create_region(numbers(1)).unwrap();
    (0..12).for_each(|id| put(&region, id, id));
    (6..12).for_each(|id| delete(&region, id));
    (store, region)
}

/// Picks and builds, lets `meanwhile` happen, and swaps.
fn rewrite(region: &Region, meanwhile: impl FnOnce()) -> bool {
    let rewrite = region.lock(PARTITION).as_mut().unwrap().pick(1).expect("there is something to rewrite");
    let rewritten = rewrite.build(&region.common().hasher);
    meanwhile();
    let swapped = region.lock(PARTITION).as_mut().unwrap().swap(rewritten);
    region.check();
    swapped
}

#[test]
fn a_snapshot_of_that_time_sees_every_row_of_the_run() {
    let (store, region) = half_dead();
    // The rows die in the first segment, so that the run's last segment is shorter than the new one.
    let mut view = None;
    let swapped = rewrite(&region, || {
        view = Some(ReadView::committed(store.snapshot()));
        put(&region, 100, 0);
    });
    assert!(swapped);
    assert_eq!(ids(&region, &view.unwrap()), (0..6).collect::<Vec<_>>());
    assert_eq!(ids(&region, &ReadView::committed(store.snapshot())), [0, 1, 2, 3, 4, 5, 100]);
}

#[test]
fn a_longer_segment_in_the_place_of_a_short_last_one_is_seen_whole() {
    let store = store(1, 8);
    let region = store.create_region(numbers(1)).unwrap();
    (0..10).for_each(|id| put(&region, id, id));
    // Four of eight are left, and one of two: the new segment has more rows than the last one had.
    (0..4).for_each(|id| delete(&region, id));
    delete(&region, 8);
    let mut view = None;
    let swapped = rewrite(&region, || {
        view = Some(ReadView::committed(store.snapshot()));
        put(&region, 100, 0);
    });
    assert!(swapped);
    assert_eq!(ids(&region, &view.unwrap()), [4, 5, 6, 7, 9]);
}

#[test]
fn rows_that_die_meanwhile_stay_dead_for_all_but_older_snapshots() {
    for seen in [false, true] {
        let (store, region) = half_dead();
        let mut view = None;
        let swapped = rewrite(&region, || {
            view = seen.then(|| ReadView::committed(store.snapshot()));
            delete(&region, 0);
            put(&region, 1, -1);
        });
        assert!(swapped);
        if let Some(view) = view {
            assert_eq!(ids(&region, &view), (0..6).collect::<Vec<_>>());
            let old = region.get_at(&view.snapshot, &[Datum::Int8(1)], |row| row.map(|row| row.get(1).to_value()));
            assert_eq!(old, Some(Value::Int8(1)));
        }
        assert_eq!(ids(&region, &ReadView::committed(store.snapshot())), [2, 3, 4, 5, 1]);
        assert!(region.get(&[Datum::Int8(0)], |row| row.is_none()));
        let v = region.get(&[Datum::Int8(1)], |row| row.map(|row| row.get(1).to_value()));
        assert_eq!(v, Some(Value::Int8(-1)));
        // Once the snapshot is closed, the next rounds remove them.
        store.compact();
        region.check();
        assert_eq!(region.lock(PARTITION).as_ref().unwrap().total(), 5);
    }
}

#[test]
fn a_rewrite_of_what_is_gone_is_thrown_away() {
    let (store, region) = half_dead();
    let swapped = rewrite(&region, || {
        region.truncate().unwrap();
        put(&region, 3, 33);
    });
    assert!(!swapped);
    assert_eq!(ids(&region, &ReadView::committed(store.snapshot())), [3]);
}

#[test]
fn a_rewrite_keeps_rows_of_an_older_shape_readable() {
    let (store, region) = half_dead();
    let swapped = rewrite(&region, || {
        let mut schema = ashlar_base::TableSchema::clone(&region.schema());
        schema.version += 1;
        schema.columns[1].id = ashlar_base::ColumnId(9);
        schema.columns[1].default = Some(ashlar_base::ColumnDefault::Constant(Value::Int8(7)));
        region.alter(Arc::new(schema)).unwrap();
        put(&region, 50, 1);
    });
    assert!(swapped);
    let rows = scan_all(&region, &ReadView::committed(store.snapshot())).unwrap();
    let expected: Vec<_> = (0..6).map(|id| [Value::Int8(id), Value::Int8(7)]).collect();
    assert_eq!(rows[..6], expected);
    assert_eq!(rows[6], [Value::Int8(50), Value::Int8(1)]);
}
