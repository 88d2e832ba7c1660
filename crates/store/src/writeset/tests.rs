//! What the model test of the store does not show: pictures stay frozen, and threads may hold them.

use ashlar_base::{ErrorCode, PartitionId, Value};

use super::*;
use crate::testing::{load, numbers, scan_all, store};
use crate::{ScanBatch, Store};

mod alter;
mod batches;

#[test]
fn an_overlay_does_not_see_what_is_written_or_taken_back_later() {
    let store = store(1, 4);
    let region = store.create_region(numbers(1)).unwrap();
    let snapshot = store.snapshot();
    let mut writes = WriteSet::new();
    let row = |id, v| [Datum::Int8(id), Datum::Int8(v)];
    for id in 0..10 {
        writes.upsert(&region, 1, &snapshot, &row(id, 1)).unwrap();
    }
    let mark = writes.mark();
    let first = writes.overlay(&region).unwrap();
    assert!(Arc::ptr_eq(&first, &writes.overlay(&region).unwrap()), "made once");
    for id in 5..15 {
        writes.upsert(&region, 1, &snapshot, &row(id, 2)).unwrap();
    }
    let second = writes.overlay(&region).unwrap();
    writes.rollback_to(mark);
    writes.upsert(&region, 1, &snapshot, &row(0, 3)).unwrap();
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
    writes.upsert(&region, 1, &store.snapshot(), &[Datum::Int8(1), Datum::Null]).unwrap();
    writes.truncate(&region, &store.snapshot()).unwrap();
    assert!(!writes.is_empty() && writes.overlay(&region).is_some());
    writes.rollback_to(mark);
    assert!(writes.is_empty() && writes.overlay(&region).is_none());
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
    writes.upsert(&region, 1, &snapshot, &row(1, 1)).unwrap();
    writes.delete(&region, 1, &snapshot, &[Datum::Int8(2)]).unwrap();
    let mark = writes.mark();
    writes.truncate(&region, &snapshot).unwrap();
    writes.upsert(&region, 1, &snapshot, &row(1, 9)).unwrap();
    writes.truncate(&region, &snapshot).unwrap();
    writes.upsert(&region, 1, &snapshot, &row(3, 3)).unwrap();
    writes.rollback_to(mark);
    let Pending::Row(found) = writes.get(&region, &[Datum::Int8(1)]) else { panic!("the row is back") };
    assert_eq!(found.to_values(), [Value::Int8(1), Value::Int8(1)]);
    assert!(matches!(writes.get(&region, &[Datum::Int8(2)]), Pending::Deleted));
    assert!(matches!(writes.get(&region, &[Datum::Int8(3)]), Pending::Untouched));
    store.commit(&mut writes).unwrap();
    assert_eq!(region.row_count(), 1);
}

/// The rows were put together for columns that are others now.
#[test]
fn rows_for_another_shape_are_refused() {
    let store = store(1, 4);
    let region = store.create_region(numbers(1)).unwrap();
    let snapshot = store.snapshot();
    let row = [Datum::Int8(1), Datum::Int8(1)];
    let mut altered = TableSchema::clone(&region.schema());
    (altered.version, altered.columns[1].id) = (2, ashlar_base::ColumnId(9));
    region.alter(Arc::new(altered)).unwrap();
    let mut writes = WriteSet::new();
    let code = |result: Result<()>| result.map_err(|error| error.code());
    let refused = Err(ErrorCode::SerializationFailure);
    assert_eq!(code(writes.insert(&region, 1, &snapshot, &row)), refused);
    assert_eq!(code(writes.upsert(&region, 1, &snapshot, &row)), refused);
    assert_eq!(code(writes.delete(&region, 1, &snapshot, &row[..1])), refused);
    assert!(writes.is_empty());
    writes.insert(&region, 2, &snapshot, &row).unwrap();
    store.commit(&mut writes).unwrap();
    assert_eq!(region.row_count(), 1);
}

#[test]
fn a_delete_of_a_key_out_of_its_columns_range_is_no_write() {
    let store = store(1, 4);
    let region = store.create_region(crate::testing::schema(1, "t", &[("id", crate::testing::INT4)], &[0])).unwrap();
    let mut writes = WriteSet::new();
    writes.delete(&region, 1, &store.snapshot(), &[Datum::Int8(1 << 40)]).unwrap();
    assert!(writes.is_empty());
    writes.delete(&region, 1, &store.snapshot(), &[Datum::Int8(7)]).unwrap();
    assert!(matches!(writes.get(&region, &[Datum::Int4(7)]), Pending::Deleted));
}

/// A savepoint for every row, as drivers do: each rollback looks at what it takes back, not at what others did.
#[test]
fn rollbacks_of_single_rows_leave_the_others_as_they_were() {
    let store = store(1, 3);
    let region = store.create_region(numbers(1)).unwrap();
    let snapshot = store.snapshot();
    let mut writes = WriteSet::new();
    let row = |id, v| [Datum::Int8(id), Datum::Int8(v)];
    let outer = writes.mark();
    for id in 0..200 {
        if id % 10 == 0 {
            writes.upsert(&region, 1, &snapshot, &row(id, 1)).unwrap();
        }
        let mark = writes.mark();
        writes.upsert(&region, 1, &snapshot, &row(id / 10 * 10, 2)).unwrap();
        writes.upsert(&region, 1, &snapshot, &row(1000, 2)).unwrap();
        writes.rollback_to(mark);
    }
    for id in 0..200 {
        match writes.get(&region, &[Datum::Int8(id)]) {
            Pending::Row(found) => assert_eq!((id % 10, found.get(1)), (0, Datum::Int8(1))),
            _ => assert_ne!(id % 10, 0),
        }
    }
    writes.rollback_to(outer);
    assert!(writes.is_empty());
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

#[test]
fn blind_writes_replace_what_others_have_committed() {
    let store = store(2, 4);
    let region = store.create_region(numbers(1)).unwrap();
    let row = |id, v| [Datum::Int8(id), Datum::Int8(v)];
    let (mut seeing, mut blind, mut other) = (WriteSet::new(), WriteSet::blind(), WriteSet::new());
    let snapshot = store.snapshot();
    for id in 0..3 {
        seeing.upsert(&region, 1, &snapshot, &row(id, 1)).unwrap();
        blind.upsert(&region, 1, &snapshot, &row(id, 2)).unwrap();
        other.upsert(&region, 1, &snapshot, &row(id, 3)).unwrap();
    }
    store.commit(&mut other).unwrap();
    assert_eq!(store.commit(&mut seeing).unwrap_err().code(), ErrorCode::SerializationFailure);
    store.commit(&mut blind).unwrap();
    assert_eq!(region.row_count(), 3);
    for id in 0..3 {
        let value = region.get(&[Datum::Int8(id)], |found| found.map(|found| found.get(1).to_value()));
        assert_eq!(value, Some(Value::Int8(2)));
    }
    region.check();
}

/// Rows are put away partition by partition, and it is the first one of the data that is told of all the same.
#[test]
fn the_first_row_of_a_load_that_is_refused_is_told() {
    let store = store(16, 64);
    let region = store.create_region(numbers(1)).unwrap();
    let row = |id: i64| [Datum::Int8(id), Datum::Int8(id)];
    let mut committed = WriteSet::new();
    committed.insert(&region, 1, &store.snapshot(), &row(77_777)).unwrap();
    store.commit(&mut committed).unwrap();
    for (count, places) in [(1_000, [900, 120, 500]), (1_000, [3, 999, 998]), (20_000, [15_000, 14_990, 19_000])] {
        let mut ids: Vec<i64> = (0..count).collect();
        for (place, again) in places.iter().zip([77_777, 1, 2]) {
            ids[*place as usize] = again;
        }
        let refused = load(&region, &store.snapshot(), ids.iter().map(|id| row(*id)));
        let Err((number, error)) = refused else { panic!("{places:?}") };
        assert_eq!(error.code(), ErrorCode::UniqueViolation);
        let first = places.iter().min().unwrap();
        // Counted among those that waited together.
        assert_eq!(number, *first as usize % 8192, "{places:?}");
    }
    assert_eq!(region.row_count(), 1);
}
