//! A table that a transaction alters: its own picture of it, and all or nothing at the commit.

use ashlar_base::{
    ColumnDef, ColumnDefault, ColumnId, ErrorCode, IndexDef, IndexKind, PartitionId, TableId, TableSchema, Value,
};

use crate::testing::{INT8, numbers, scan_map, store};
use crate::writeset::*;
use crate::{Mutation, Store, StoreConfig};

/// The table with one more column, numbered so, whose default is 7.
fn with_column(schema: &TableSchema, id: u32) -> Arc<TableSchema> {
    let mut schema = schema.clone();
    schema.version += 1;
    schema.columns.push(ColumnDef {
        id: ColumnId(id),
        name: format!("c{id}"),
        sql_type: INT8,
        nullable: true,
        default: Some(ColumnDefault::Constant(Value::Int8(7))),
    });
    Arc::new(schema)
}

fn without_column(schema: &TableSchema, ordinal: usize) -> Arc<TableSchema> {
    let mut schema = schema.clone();
    schema.version += 1;
    schema.columns.remove(ordinal);
    Arc::new(schema)
}

fn put(region: &Region, id: i64, v: i64) {
    let row = [Datum::Int8(id), Datum::Int8(v)];
    region.entry(&row[..1], |entry| entry.apply(Mutation::Upsert { row: &row })).unwrap();
}

/// The rows that a write set sees, without their keys.
fn rows(region: &Arc<Region>, store: &Arc<Store>, writes: &WriteSet) -> Vec<Vec<i64>> {
    let view = ReadView { snapshot: store.snapshot(), overlays: writes.overlays() };
    let number = |value: &Value| match value {
        Value::Int8(value) => *value,
        other => panic!("{other:?}"),
    };
    scan_map(region, &view).unwrap().values().map(|row| row.iter().map(number).collect()).collect()
}

#[test]
fn rows_from_before_and_after_are_read_in_the_shape_of_now() {
    let store = store(4, 4);
    let region = store.create_region(numbers(1)).unwrap();
    (0..6).for_each(|id| put(&region, id, id * 10));
    let snapshot = store.snapshot();
    let mut writes = WriteSet::new();
    let int = Datum::Int8;
    writes.upsert(&region, 1, &snapshot, &[int(6), int(60)]).unwrap();
    writes.delete(&region, 1, &snapshot, &[int(0)]).unwrap();
    let mark = writes.mark();

    let altered = writes.alter(&region, 1, with_column(&region.schema(), 2), &snapshot).unwrap();
    assert!(Arc::ptr_eq(&altered.committed(), &region) && altered.schema().version == 2);
    writes.upsert(&altered, 2, &snapshot, &[int(1), int(11), int(1)]).unwrap();
    assert_eq!(
        writes.upsert(&region, 1, &snapshot, &[int(2), int(0)]).unwrap_err().code(),
        ErrorCode::SerializationFailure
    );
    let seen = rows(&altered, &store, &writes);
    assert_eq!(seen, [vec![1, 11, 1], vec![2, 20, 7], vec![3, 30, 7], vec![4, 40, 7], vec![5, 50, 7], vec![6, 60, 7]]);
    let last = altered.get_at(&snapshot, &[int(5)], |row| row.unwrap().get(2).to_value());
    assert_eq!(last, Value::Int8(7));

    let again = writes.alter(&altered, 2, without_column(&altered.schema(), 1), &snapshot).unwrap();
    writes.upsert(&again, 3, &snapshot, &[int(2), int(2)]).unwrap();
    let seen = rows(&again, &store, &writes);
    assert_eq!(seen, [vec![1, 1], vec![2, 2], vec![3, 7], vec![4, 7], vec![5, 7], vec![6, 7]]);
    assert_eq!(rows(&region, &store, &WriteSet::new()).len(), 6, "others see the table as it was");

    writes.rollback_to(mark);
    let seen = rows(&region, &store, &writes);
    assert_eq!(seen, [vec![1, 10], vec![2, 20], vec![3, 30], vec![4, 40], vec![5, 50], vec![6, 60]]);

    let altered = writes.alter(&region, 1, with_column(&region.schema(), 2), &snapshot).unwrap();
    writes.upsert(&altered, 2, &snapshot, &[int(3), int(33), int(3)]).unwrap();
    store.commit(&mut writes).unwrap();
    assert_eq!(region.schema().version, 2);
    put_three(&region, [8, 80, 8]);
    let seen = rows(&region, &store, &WriteSet::new());
    let expected = [
        vec![1, 10, 7],
        vec![2, 20, 7],
        vec![3, 33, 3],
        vec![4, 40, 7],
        vec![5, 50, 7],
        vec![6, 60, 7],
        vec![8, 80, 8],
    ];
    assert_eq!(seen, expected);
    region.check();
}

fn put_three(region: &Region, row: [i64; 3]) {
    let row = row.map(Datum::Int8);
    region.entry(&row[..1], |entry| entry.apply(Mutation::Upsert { row: &row })).unwrap();
}

#[test]
fn a_write_or_an_alter_of_somebody_else_fails_the_commit_and_leaves_the_shape() {
    let int = Datum::Int8;
    let others: [fn(&Store, &Arc<Region>); 4] = [
        |_, region| put(region, 9, 90),
        |_, region| put(region, 1, 11),
        |_, region| {
            let key = [Datum::Int8(1)];
            region.entry(&key, |entry| entry.apply(Mutation::Delete { key: &key })).unwrap();
        },
        |store, region| {
            let mut writes = WriteSet::new();
            let snapshot = store.snapshot();
            writes.alter(region, 1, without_column(&region.schema(), 1), &snapshot).unwrap();
            store.commit(&mut writes).unwrap();
        },
    ];
    for (number, other) in others.into_iter().enumerate() {
        let store = store(4, 4);
        let region = store.create_region(numbers(1)).unwrap();
        put(&region, 1, 10);
        let mut writes = WriteSet::new();
        let snapshot = store.snapshot();
        let altered = writes.alter(&region, 1, with_column(&region.schema(), 2), &snapshot).unwrap();
        writes.upsert(&altered, 2, &snapshot, &[int(2), int(20), int(2)]).unwrap();
        drop(snapshot);
        other(&store, &region);
        let error = store.commit(&mut writes).unwrap_err();
        assert_eq!(error.code(), ErrorCode::SerializationFailure, "{number}");
        assert_eq!(region.schema().columns.len(), if number == 3 { 1 } else { 2 });
        assert!(!region.get(&[int(2)], |row| row.is_some()));
        if number != 3 {
            put(&region, 7, 0);
        }
        region.check();
    }
}

#[test]
fn an_alter_that_finds_no_memory_at_the_commit_leaves_the_shape() {
    const MIB: u64 = 1 << 20;
    let store = Store::new(StoreConfig { partition_count: 4, memory_max: 4 * MIB, ..StoreConfig::default() });
    let region = store.create_region(numbers(1)).unwrap();
    put(&region, 1, 10);
    let mut writes = WriteSet::new();
    let snapshot = store.snapshot();
    let altered = writes.alter(&region, 1, with_column(&region.schema(), 2), &snapshot).unwrap();
    let mut id = 2;
    while writes.upsert(&altered, 2, &snapshot, &[Datum::Int8(id), Datum::Int8(0), Datum::Null]).is_ok() {
        id += 1;
    }
    assert_eq!(store.commit(&mut writes).unwrap_err().code(), ErrorCode::OutOfMemory);
    drop(writes);
    assert_eq!(region.schema().version, 1);
    assert_eq!(rows(&region, &store, &WriteSet::new()), [vec![1, 10]]);
    put(&region, 1, 11);
    put(&region, 2, 20);
    region.check();
}

#[test]
fn a_column_without_nulls_needs_a_table_without_rows() {
    let store = store(4, 4);
    let region = store.create_region(numbers(1)).unwrap();
    let mut strict = TableSchema::clone(&with_column(&region.schema(), 2));
    strict.columns[2].nullable = false;
    strict.columns[2].default = None;
    let strict = Arc::new(strict);
    let mut writes = WriteSet::new();
    writes.upsert(&region, 1, &store.snapshot(), &[Datum::Int8(1), Datum::Null]).unwrap();
    let error = writes.alter(&region, 1, Arc::clone(&strict), &store.snapshot()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::NotNullViolation);
    writes.clear();
    put(&region, 1, 10);
    writes.truncate(&region, &store.snapshot()).unwrap();
    let error = writes.alter(&region, 1, Arc::clone(&strict), &store.snapshot()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::FeatureNotSupported);
    store.commit(&mut writes).unwrap();
    store.compact();
    writes.alter(&region, 1, strict, &store.snapshot()).unwrap();
    store.commit(&mut writes).unwrap();
    assert_eq!(region.schema().version, 2);
}

#[test]
fn a_table_whose_rows_another_one_has_takes_no_more_writes() {
    let int = Datum::Int8;
    let store = store(4, 4);
    let (region, other) = (store.create_region(numbers(1)).unwrap(), store.create_region(numbers(2)).unwrap());
    put(&region, 1, 10);
    let snapshot = store.snapshot();
    let mut writes = WriteSet::new();
    writes.insert(&other, 1, &snapshot, &[int(1), int(10)]).unwrap();
    writes.retire(&region, 1, (&other, region.every_index()), &snapshot).unwrap();
    let mut late = WriteSet::new();
    late.upsert(&region, 1, &snapshot, &[int(2), int(20)]).unwrap();
    store.commit(&mut writes).unwrap();
    assert!(region.is_dropped() && other.get(&[int(1)], |row| row.is_some()));
    assert_eq!(store.commit(&mut late).unwrap_err().code(), ErrorCode::SerializationFailure);
    let row = [int(3), int(30)];
    let written = region.entry(&row[..1], |entry| entry.apply(Mutation::Upsert { row: &row })).map(drop);
    assert_eq!(written.unwrap_err().code(), ErrorCode::SerializationFailure);
}

#[test]
fn a_table_that_has_the_rows_of_another_one_is_not_read_as_it_was_before() {
    let int = Datum::Int8;
    let store = store(4, 4);
    let (region, other) = (store.create_region(numbers(1)).unwrap(), store.create_region(numbers(2)).unwrap());
    put(&region, 1, 10);
    let before = store.snapshot();
    let mut writes = WriteSet::new();
    writes.insert(&other, 1, &before, &[int(1), int(10)]).unwrap();
    writes.retire(&region, 1, (&other, region.every_index()), &before).unwrap();
    assert!(other.check_birth(&before).is_ok());
    store.commit(&mut writes).unwrap();
    let after = store.snapshot();
    assert_eq!(other.check_birth(&before).unwrap_err().code(), ErrorCode::SerializationFailure);
    assert!(other.check_birth(&after).is_ok());
    for partition in (0..store.partition_count()).map(PartitionId) {
        let view = ReadView::committed(before.clone());
        let scanned = other.scan(&view, partition, &[0]).map(drop);
        assert_eq!(scanned.unwrap_err().code(), ErrorCode::SerializationFailure, "{partition:?}");
        let counted = other.count(&view, partition, 1);
        assert_eq!(counted.unwrap_err().code(), ErrorCode::SerializationFailure, "{partition:?}");
    }
    let mut late = WriteSet::new();
    let refused = late.upsert(&other, 1, &before, &[int(1), int(11)]);
    assert_eq!(refused.unwrap_err().code(), ErrorCode::SerializationFailure);
    late.upsert(&other, 1, &after, &[int(1), int(11)]).unwrap();
    store.commit(&mut late).unwrap();
    assert_eq!(rows(&other, &store, &WriteSet::new()), [vec![1, 11]]);
    // What is read of the former table by now is no table that does not exist.
    let scanned = region.scan(&ReadView::committed(after), PartitionId(0), &[0]).map(drop);
    assert_eq!(scanned.unwrap_err().code(), ErrorCode::SerializationFailure);
}

#[test]
fn a_table_stays_where_somebody_has_written_to_it_or_given_it_an_index_meanwhile() {
    let others: [fn(&Region); 2] = [
        |region| put(region, 5, 50),
        |region| {
            let columns = vec![region.schema().columns[1].id];
            region.add_index(&Arc::new(IndexDef::plain(TableId(9), "late", IndexKind::Hash, columns)));
        },
    ];
    for (number, other) in others.into_iter().enumerate() {
        let store = store(4, 4);
        let region = store.create_region(numbers(1)).unwrap();
        put(&region, 1, 10);
        let snapshot = store.snapshot();
        let mut writes = WriteSet::new();
        let heir = store.create_region(numbers(2)).unwrap();
        writes.retire(&region, 1, (&heir, region.every_index()), &snapshot).unwrap();
        other(&region);
        assert_eq!(store.commit(&mut writes).unwrap_err().code(), ErrorCode::SerializationFailure, "{number}");
        assert!(!region.is_dropped() && region.schema().version == 1);
        put(&region, 6, 60);
    }
}
