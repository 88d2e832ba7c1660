//! What the model test of the store does not show: pictures stay frozen, and threads may hold them.

use ashlar_base::{PartitionId, Value};

use super::*;
use crate::testing::{numbers, scan_all, store};
use crate::{ScanBatch, Store};

#[test]
fn an_overlay_does_not_see_what_is_written_or_taken_back_later() {
    let store = store(1, 4);
    let region = store.create_region(numbers(1)).unwrap();
    let snapshot = store.snapshot();
    let mut writes = WriteSet::new();
    let row = |id, v| [Datum::Int8(id), Datum::Int8(v)];
    for id in 0..10 {
        writes.upsert(&region, &snapshot, &row(id, 1)).unwrap();
    }
    let mark = writes.mark();
    let first = writes.overlay(&region).unwrap();
    assert!(Arc::ptr_eq(&first, &writes.overlay(&region).unwrap()), "made once");
    for id in 5..15 {
        writes.upsert(&region, &snapshot, &row(id, 2)).unwrap();
    }
    let second = writes.overlay(&region).unwrap();
    writes.rollback_to(mark);
    writes.upsert(&region, &snapshot, &row(0, 3)).unwrap();
    let third = writes.overlay(&region).unwrap();
    let sum = |overlay: &Arc<Overlay>| -> i64 {
        let overlays = HashMap::from([(region.id(), Arc::clone(overlay))]);
        let view = ReadView { snapshot: snapshot.clone(), overlays };
        let rows = std::thread::scope(|scope| scope.spawn(|| scan_all(&region, &view).unwrap()).join().unwrap());
        rows.iter().map(|row| if let Value::Int8(v) = row[1] { v } else { panic!("{row:?}") }).sum()
    };
    assert_eq!((sum(&first), sum(&second), sum(&third)), (10, 5 + 20, 9 + 3));
    drop(writes);
    assert_eq!(sum(&first), 10, "the picture outlives the write set");
}

#[test]
fn a_write_set_without_writes_is_empty_again() {
    let store = store(1, 4);
    let region = store.create_region(numbers(1)).unwrap();
    let mut writes = WriteSet::new();
    let mark = writes.mark();
    writes.upsert(&region, &store.snapshot(), &[Datum::Int8(1), Datum::Null]).unwrap();
    writes.truncate(&region, &store.snapshot()).unwrap();
    assert!(!writes.is_empty() && writes.overlay(&region).is_some());
    writes.rollback_to(mark);
    assert!(writes.is_empty() && writes.overlay(&region).is_none() && writes.overlays().is_empty());
    let held = store.memory_used();
    writes.clear();
    assert!(held > 0 && store.memory_used() == 0);
}

#[test]
fn a_truncation_that_is_taken_back_brings_the_pending_rows_back() {
    let store = store(2, 4);
    let region = store.create_region(numbers(1)).unwrap();
    let snapshot = store.snapshot();
    let mut writes = WriteSet::new();
    let row = |id, v| [Datum::Int8(id), Datum::Int8(v)];
    writes.upsert(&region, &snapshot, &row(1, 1)).unwrap();
    writes.delete(&region, &snapshot, &[Datum::Int8(2)]).unwrap();
    let mark = writes.mark();
    writes.truncate(&region, &snapshot).unwrap();
    writes.upsert(&region, &snapshot, &row(1, 9)).unwrap();
    writes.truncate(&region, &snapshot).unwrap();
    writes.upsert(&region, &snapshot, &row(3, 3)).unwrap();
    writes.rollback_to(mark);
    let Pending::Row(found) = writes.get(&region, &[Datum::Int8(1)]) else { panic!("the row is back") };
    assert_eq!(found.to_values(), [Value::Int8(1), Value::Int8(1)]);
    assert!(matches!(writes.get(&region, &[Datum::Int8(2)]), Pending::Deleted));
    assert!(matches!(writes.get(&region, &[Datum::Int8(3)]), Pending::Untouched));
    store.commit(&mut writes).unwrap();
    assert_eq!(region.row_count(), 1);
}

#[test]
fn what_crosses_threads_may_do_so() {
    fn check<T: Send + Sync>() {}
    check::<Store>();
    check::<Region>();
    check::<Snapshot>();
    check::<WriteSet>();
    check::<Overlay>();
    check::<ReadView>();
    check::<ScanBatch>();
    check::<crate::ColumnReader<'static>>();
    assert_eq!(size_of::<PartitionId>(), 2);
}
