//! Entries: one key, one lock, one timestamp.

use ashlar_base::{ErrorCode, Value};

use super::*;
use crate::testing::{INT4, numbers, schema, store};
use crate::{ReadView, Region};

fn v(region: &Region, id: i64) -> Option<Value> {
    region.get(&[Datum::Int8(id)], |row| row.map(|row| row.get(1).to_value()))
}

#[test]
fn an_entry_reads_its_own_writes() {
    let store = store(4, 16);
    let region = store.create_region(numbers(1)).unwrap();
    let row = [Datum::Int8(1), Datum::Int8(10)];
    let key = &row[..1];
    region.entry(key, |entry| {
        assert!(entry.row().is_none());
        assert_eq!(entry.apply(Mutation::Delete { key }), Ok(Applied::Nothing));
        assert_eq!(entry.apply(Mutation::Update { key, changes: &[] }), Ok(Applied::Nothing));
        assert_eq!(entry.apply(Mutation::Insert { row: &row }), Ok(Applied::Inserted));
        assert_eq!(entry.row().unwrap().to_values(), [Value::Int8(1), Value::Int8(10)]);
        let error = entry.apply(Mutation::Insert { row: &row }).unwrap_err();
        assert_eq!(error.code(), ErrorCode::UniqueViolation);
        assert_eq!(entry.apply(Mutation::Update { key, changes: &[(1, Datum::Null)] }), Ok(Applied::Updated));
        assert_eq!(entry.row().unwrap().get(1), Datum::Null);
        assert_eq!(entry.apply(Mutation::Upsert { row: &row }), Ok(Applied::Updated));
        assert_eq!(entry.apply(Mutation::Delete { key }), Ok(Applied::Deleted));
        assert!(entry.row().is_none());
        assert_eq!(entry.apply(Mutation::Upsert { row: &row }), Ok(Applied::Inserted));
        assert_eq!(entry.schema().name, "t");
    });
    assert_eq!(v(&region, 1), Some(Value::Int8(10)));
    region.check();
}

#[test]
fn the_writes_of_an_entry_are_seen_together() {
    let store = store(1, 16);
    let region = store.create_region(numbers(1)).unwrap();
    let row = [Datum::Int8(1), Datum::Int8(10)];
    region.entry(&row[..1], |entry| entry.apply(Mutation::Insert { row: &row })).unwrap();
    let before = store.snapshot();
    let between = region.entry(&row[..1], |entry| {
        entry.apply(Mutation::Delete { key: &row[..1] }).unwrap();
        // Opened between two writes of one entry.
        let between = store.snapshot();
        entry.apply(Mutation::Insert { row: &[Datum::Int8(1), Datum::Int8(11)] }).unwrap();
        between
    });
    let at = |snapshot| region.get_at(snapshot, &row[..1], |row| row.map(|row| row.get(1).to_value()));
    assert_eq!(at(&before), Some(Value::Int8(10)));
    assert_eq!(at(&between), Some(Value::Int8(11)), "never the state in between");
    assert_eq!(crate::testing::scan_all(&region, &ReadView::committed(between)).unwrap().len(), 1);
}

#[test]
fn a_write_to_another_key_is_refused() {
    let store = store(4, 16);
    let region = store.create_region(numbers(1)).unwrap();
    let (one, two) = ([Datum::Int8(1), Datum::Null], [Datum::Int8(2), Datum::Null]);
    region.entry(&one[..1], |entry| {
        entry.apply(Mutation::Insert { row: &one }).unwrap();
        assert_eq!(entry.apply(Mutation::Upsert { row: &two }).unwrap_err().code(), ErrorCode::InternalError);
        assert_eq!(entry.apply(Mutation::Delete { key: &two[..1] }).unwrap_err().code(), ErrorCode::InternalError);
    });
    assert_eq!((v(&region, 1), v(&region, 2)), (Some(Value::Null), None));
}

#[test]
fn a_key_that_no_row_can_have_is_never_found_nor_written() {
    let store = store(4, 16);
    let region = store.create_region(schema(1, "t", &[("id", INT4)], &[0])).unwrap();
    let row = [Datum::Int4(5)];
    region.entry(&row, |entry| entry.apply(Mutation::Insert { row: &row })).unwrap();
    // Any integer may ask for an integer.
    assert!(region.get(&[Datum::Int8(5)], |row| row.is_some()));
    assert!(!region.get(&[Datum::Int8(5 + (1 << 32))], |row| row.is_some()));
    for key in [[Datum::Text("5")], [Datum::Null]] {
        assert!(!region.get(&key, |row| row.is_some()));
        region.entry(&key, |entry| {
            assert!(entry.row().is_none());
            assert_eq!(entry.apply(Mutation::Delete { key: &key }), Ok(Applied::Nothing));
            assert!(entry.apply(Mutation::Upsert { row: &key }).is_err());
        });
    }
    assert_eq!(region.row_count(), 1);
}
