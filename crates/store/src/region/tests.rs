//! Regions: where keys live, what rows may hold, and what a change of shape does.

use ashlar_base::slot::{partition_of_slot, slot_of_key, slot_of_row};
use ashlar_base::{ColumnDef, ColumnDefault, ColumnId, IndexKind, ScalarType, Sequence, Value};

use super::*;
use crate::testing::{BYTEA, INT4, INT8, TEXT, kv, numbers, scan_all, schema, store};
use crate::{Applied, Mutation, Store, StoreConfig, WriteSet};

fn insert(region: &Region, row: &[Datum<'_>]) -> Result<Applied> {
    let schema = region.schema();
    let key: Vec<_> = schema.key.iter().map(|&ordinal| row[ordinal].clone()).collect();
    region.entry(&key, |entry| entry.apply(Mutation::Insert { row }))
}

#[test]
fn keys_live_where_their_resp_names_say() {
    let store = store(256, 64);
    let of = |slot| Some(partition_of_slot(slot, 256));
    let plain = store.create_region(kv()).unwrap();
    for key in ["", "foo", "{user}.name", "a{b}c"] {
        assert_eq!(plain.partition_of(&[Datum::Bytea(key.as_bytes())]), of(slot_of_key(key.as_bytes())));
    }
    let blobs = store.create_region(schema(5, "blobs", &[("key", BYTEA)], &[0])).unwrap();
    for key in ["", "foo", "{user}.name", "a{b}c", "a}b"] {
        let name = format!("blobs:{{{key}}}");
        assert_eq!(blobs.partition_of(&[Datum::Bytea(key.as_bytes())]), of(slot_of_key(name.as_bytes())), "{key}");
    }
    let flights = store.create_region(schema(2, "flights", &[("id", INT4), ("x", TEXT)], &[0])).unwrap();
    for id in [0, 42, -7, i32::MAX] {
        let text = format!("flights:{{{id}}}");
        assert_eq!(flights.partition_of(&[Datum::Int4(id)]), of(slot_of_key(text.as_bytes())));
        assert_eq!(
            flights.partition_of(&[Datum::Int8(i64::from(id))]),
            of(slot_of_row("flights", id.to_string().as_bytes()))
        );
    }
    assert_eq!(flights.partition_of(&[Datum::Text("42")]), None);
    assert_eq!(flights.partition_of(&[Datum::Null]), None);
    let pair = store.create_region(schema(3, "pair", &[("a", TEXT), ("b", INT8)], &[0, 1])).unwrap();
    assert_eq!(pair.partition_of(&[Datum::Text("x"), Datum::Int8(5)]), of(slot_of_row("pair", b"x,5")));
    let mut by_a = TableSchema::clone(&schema(4, "by_a", &[("a", TEXT), ("b", INT8)], &[1, 0]));
    by_a.partition_by = vec![0];
    let by_a = store.create_region(Arc::new(by_a)).unwrap();
    for b in 0..50 {
        assert_eq!(by_a.partition_of(&[Datum::Int8(b), Datum::Text("x")]), of(slot_of_row("by_a", b"x")));
    }
}

#[test]
fn a_new_name_moves_no_row() {
    let store = store(256, 64);
    let region = store.create_region(schema(2, "before", &[("id", TEXT)], &[0])).unwrap();
    let before = region.partition_of(&[Datum::Text("")]);
    let mut renamed = TableSchema::clone(&region.schema());
    (renamed.name, renamed.version) = ("after".into(), 2);
    region.alter(Arc::new(renamed)).unwrap();
    assert_eq!(region.partition_of(&[Datum::Text("")]), before);
}

#[test]
fn float_keys_are_one_when_their_texts_are() {
    let store = store(16, 64);
    let float = SqlType::Scalar(ScalarType::Float8);
    let region = store.create_region(schema(1, "f", &[("f", float), ("v", INT4)], &[0])).unwrap();
    let other_nan = f64::from_bits(f64::NAN.to_bits() | 1);
    for (put, same) in [(0.0, -0.0), (f64::NAN, other_nan), (1.5, 1.5)] {
        insert(&region, &[Datum::Float8(put), Datum::Int4(1)]).unwrap();
        let error = insert(&region, &[Datum::Float8(same), Datum::Int4(2)]).unwrap_err();
        assert_eq!(error.code(), ErrorCode::UniqueViolation, "{put} {same}");
        assert!(region.get(&[Datum::Float8(same)], |row| row.is_some()));
    }
    assert_eq!(region.row_count(), 3);
}

#[test]
fn every_key_type_finds_its_rows_again() {
    let store = store(8, 4);
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for (table, scalar) in (10u32..).zip(crate::testing::SCALARS) {
        let sql_type = SqlType::Scalar(scalar);
        let created = store.create_region(schema(table, "k", &[("k", sql_type), ("n", INT4)], &[0]));
        if !scalar.can_be_key() {
            assert_eq!(created.unwrap_err().code(), ErrorCode::FeatureNotSupported, "{sql_type}");
            continue;
        }
        let region = created.unwrap();
        let mut rows = std::collections::BTreeMap::new();
        for n in 0..60 {
            use proptest::strategy::{Strategy, ValueTree};
            let key = crate::testing::value_of(scalar).new_tree(&mut runner).unwrap().current();
            let row = [key.as_datum(), Datum::Int4(n)];
            region.entry(&row[..1], |entry| entry.apply(Mutation::Upsert { row: &row })).unwrap();
            rows.insert(format!("{key:?}"), (key, n));
        }
        assert_eq!(region.row_count(), rows.len() as u64, "{sql_type}");
        for (key, n) in rows.values() {
            let found = region.get(&[key.as_datum()], |row| row.map(|row| row.get(1).to_value()));
            assert_eq!(found, Some(Value::Int4(*n)), "{sql_type}");
        }
    }
    let array = schema(99, "k", &[("k", SqlType::Array(ScalarType::Int4))], &[0]);
    assert_eq!(store.create_region(array).unwrap_err().code(), ErrorCode::FeatureNotSupported);
}

#[test]
fn buckets_hold_every_key_once() {
    let store = store(4, 16);
    let region = store.create_region(numbers(1)).unwrap();
    (0..500).for_each(|id| {
        insert(&region, &[Datum::Int8(id), Datum::Null]).unwrap();
    });
    let key = [Datum::Int8(3)];
    region.entry(&key, |entry| entry.apply(Mutation::Delete { key: &key })).unwrap();
    let visit = |bits: u32| {
        let mut seen: Vec<Vec<i64>> = Vec::new();
        for partition in 0..4 {
            for bucket in 0..1u64 << bits {
                let mut ids = Vec::new();
                let is_all = region.keys_in_bucket(PartitionId(partition), bucket, bits, |row| {
                    let Datum::Int8(id) = row.get(0) else { panic!("{:?}", row.get(0)) };
                    ids.push(id);
                    true
                });
                assert!(is_all);
                seen.push(ids);
            }
        }
        seen
    };
    // Which buckets have keys is chance: of a thousand hashes, about one has the same first bit for 500 successive integers.
    let first_bits = |id: i64, bits: u32| region.hash(&[Datum::Int8(id)]).checked_shr(64 - bits).unwrap_or(0);
    for bits in [0, 1, 5, 11] {
        let before = visit(bits);
        let mut all: Vec<i64> = before.iter().flatten().copied().collect();
        all.sort_unstable();
        assert_eq!(all, (0..500).filter(|&id| id != 3).collect::<Vec<_>>());
        for (place, ids) in before.iter().enumerate() {
            let bucket = place as u64 % (1u64 << bits);
            assert!(ids.iter().all(|&id| first_bits(id, bits) == bucket), "{bits} bits, {bucket}: {ids:?}");
        }
    }
    // A key's bucket stays when other rows come and go.
    let bucket_of = |id: i64| visit(5).iter().position(|ids| ids.contains(&id)).unwrap();
    let before = bucket_of(77);
    (1000..3000).for_each(|id| {
        insert(&region, &[Datum::Int8(id), Datum::Null]).unwrap();
    });
    assert_eq!(bucket_of(77), before);
    // Whoever has enough says so.
    let mut met = 0;
    let is_all = region.keys_in_bucket(PartitionId(0), 0, 0, |_| {
        met += 1;
        met < 7
    });
    assert_eq!((is_all, met), (false, 7));
}

#[test]
fn rows_are_checked_as_postgresql_words_it() {
    let store = store(4, 16);
    let columns = [
        ("id", INT4),
        ("name", SqlType::Scalar(ScalarType::Varchar { length: Some(3) })),
        ("price", SqlType::Scalar(ScalarType::Numeric { precision: 4, scale: 2 })),
        ("must", INT8),
    ];
    let mut schema = TableSchema::clone(&schema(1, "goods", &columns, &[0]));
    schema.columns[3].nullable = false;
    let region = store.create_region(Arc::new(schema)).unwrap();
    let check = |row: &[Datum<'_>]| region.check_row(row).unwrap_err();
    region.check_row(&[Datum::Int4(1), Datum::Text("äöü"), Datum::Numeric(9999), Datum::Int8(1)]).unwrap();

    let error = check(&[Datum::Int4(1), Datum::Text("a"), Datum::Null, Datum::Null]);
    assert_eq!(error.code(), ErrorCode::NotNullViolation);
    assert_eq!(error.message(), "null value in column \"must\" of relation \"goods\" violates not-null constraint");
    assert_eq!(error.fields().detail.as_deref(), Some("Failing row contains (1, a, null, null)."));
    assert_eq!(error.fields().column.as_deref(), Some("must"));

    let error = check(&[Datum::Int4(1), Datum::Text("abcd"), Datum::Null, Datum::Int8(1)]);
    assert_eq!(
        (error.code(), error.message()),
        (ErrorCode::StringTooLong, "value too long for type character varying(3)")
    );
    let error = check(&[Datum::Int4(1), Datum::Null, Datum::Numeric(10_000), Datum::Int8(1)]);
    assert_eq!((error.code(), error.message()), (ErrorCode::NumericOutOfRange, "numeric field overflow"));
    let error = check(&[Datum::Int8(1), Datum::Null, Datum::Null, Datum::Int8(1)]);
    assert_eq!(error.code(), ErrorCode::DatatypeMismatch);
    assert_eq!(check(&[Datum::Int4(1)]).code(), ErrorCode::InternalError);
    // Every way in checks.
    let bad = [Datum::Int4(1), Datum::Text("abcd"), Datum::Null, Datum::Int8(1)];
    assert_eq!(insert(&region, &bad).unwrap_err().code(), ErrorCode::StringTooLong);
    let error = WriteSet::new().upsert(&region, 1, &store.snapshot(), &bad).unwrap_err();
    assert_eq!(error.code(), ErrorCode::StringTooLong);
    insert(&region, &[Datum::Int4(1), Datum::Null, Datum::Null, Datum::Int8(1)]).unwrap();
    let key = [Datum::Int4(1)];
    let update = |change| region.entry(&key, |entry| entry.apply(Mutation::Update { key: &key, changes: &[change] }));
    assert_eq!(update((1, Datum::Text("abcd"))).unwrap_err().code(), ErrorCode::StringTooLong);
    assert_eq!(update((3, Datum::Null)).unwrap_err().code(), ErrorCode::NotNullViolation);
    assert_eq!(update((0, Datum::Int4(2))).unwrap_err().code(), ErrorCode::InternalError, "keys do not change");
    assert_eq!(update((9, Datum::Int4(2))).unwrap_err().code(), ErrorCode::InternalError);
}

fn with_column(region: &Region, nullable: bool, default: Option<Value>) -> Arc<TableSchema> {
    let mut schema = TableSchema::clone(&region.schema());
    let id = ColumnId(schema.columns.len() as u32);
    schema.version += 1;
    schema.columns.push(ColumnDef {
        id,
        name: format!("c{id}"),
        sql_type: INT4,
        nullable,
        default: default.map(ColumnDefault::Constant),
    });
    Arc::new(schema)
}

#[test]
fn a_column_that_must_not_be_null_needs_a_default_or_no_rows() {
    let store = store(4, 16);
    let region = store.create_region(numbers(1)).unwrap();
    region.alter(with_column(&region, false, None)).unwrap();
    insert(&region, &[Datum::Int8(1), Datum::Null, Datum::Int4(5)]).unwrap();
    let error = region.alter(with_column(&region, false, None)).unwrap_err();
    assert_eq!(
        (error.code(), error.message()),
        (ErrorCode::NotNullViolation, "column \"c3\" of relation \"t\" contains null values")
    );
    region.alter(with_column(&region, false, Some(Value::Int4(9)))).unwrap();
    let rows = scan_all(&region, &ReadView::committed(store.snapshot())).unwrap();
    assert_eq!(rows, [[Value::Int8(1), Value::Null, Value::Int4(5), Value::Int4(9)]]);
    // SET NOT NULL looks at the rows.
    let mut strict = TableSchema::clone(&region.schema());
    strict.version += 1;
    strict.columns[1].nullable = false;
    let strict = Arc::new(strict);
    assert_eq!(region.alter(Arc::clone(&strict)).unwrap_err().code(), ErrorCode::NotNullViolation);
    let key = [Datum::Int8(1)];
    region.entry(&key, |entry| entry.apply(Mutation::Update { key: &key, changes: &[(1, Datum::Int8(2))] })).unwrap();
    region.alter(strict).unwrap();
    assert_eq!(scan_all(&region, &ReadView::committed(store.snapshot())).unwrap().len(), 1);
}

#[test]
fn rows_that_nobody_sees_are_no_rows() {
    let store = store(1, 16);
    let region = store.create_region(numbers(1)).unwrap();
    let snapshot = store.snapshot();
    let row = [Datum::Int8(1), Datum::Null];
    insert(&region, &row).unwrap();
    // Younger than the snapshot, and gone: its commit is remembered, and no row is left.
    region.entry(&row[..1], |entry| entry.apply(Mutation::Delete { key: &row[..1] })).unwrap();
    region.alter(with_column(&region, false, None)).unwrap();
    assert_eq!(scan_all(&region, &ReadView::committed(snapshot)).unwrap().len(), 0);
}

#[test]
fn a_default_that_changes_later_does_not_change_old_rows() {
    let store = store(1, 16);
    let region = store.create_region(numbers(1)).unwrap();
    insert(&region, &[Datum::Int8(1), Datum::Int8(1)]).unwrap();
    region.alter(with_column(&region, true, Some(Value::Int4(7)))).unwrap();
    let mut later = TableSchema::clone(&region.schema());
    later.version += 1;
    later.columns[2].default = Some(ColumnDefault::Constant(Value::Int4(8)));
    region.alter(Arc::new(later)).unwrap();
    assert_eq!(region.get(&[Datum::Int8(1)], |row| row.unwrap().get(2).to_value()), Value::Int4(7));
}

#[test]
fn keys_and_types_do_not_change_and_versions_go_up() {
    let store = store(1, 16);
    let columns = [("a", INT8), ("b", SqlType::Scalar(ScalarType::Varchar { length: Some(3) }))];
    let region = store.create_region(schema(1, "t", &columns, &[0])).unwrap();
    let altered = |change: &dyn Fn(&mut TableSchema)| {
        let mut schema = TableSchema::clone(&region.schema());
        schema.version += 1;
        change(&mut schema);
        region.alter(Arc::new(schema)).map_err(|error| error.code())
    };
    let varchar = |length| SqlType::Scalar(ScalarType::Varchar { length });
    assert_eq!(altered(&|schema| schema.columns[0].sql_type = INT4), Err(ErrorCode::FeatureNotSupported));
    assert_eq!(altered(&|schema| schema.columns[1].sql_type = INT4), Err(ErrorCode::FeatureNotSupported));
    assert_eq!(altered(&|schema| schema.columns[1].sql_type = varchar(Some(2))), Err(ErrorCode::FeatureNotSupported));
    assert_eq!(altered(&|schema| schema.key = vec![0, 1]), Err(ErrorCode::FeatureNotSupported));
    assert_eq!(altered(&|schema| schema.version = 1), Err(ErrorCode::InternalError));
    assert_eq!(altered(&|schema| schema.columns[1].sql_type = varchar(Some(5))), Ok(()));
    assert_eq!(altered(&|schema| schema.columns[1].sql_type = TEXT), Ok(()));
    assert_eq!(altered(&|schema| schema.columns[1].sql_type = varchar(Some(9))), Err(ErrorCode::FeatureNotSupported));
}

#[test]
fn a_column_without_nulls_is_not_added_to_rows_that_only_a_snapshot_sees() {
    let store = store(1, 16);
    let region = store.create_region(numbers(1)).unwrap();
    insert(&region, &[Datum::Int8(1), Datum::Int8(1)]).unwrap();
    let mut added = TableSchema::clone(&region.schema());
    added.version += 1;
    added.columns.push(ColumnDef { id: ColumnId(9), name: "c".into(), sql_type: INT4, nullable: false, default: None });
    let added = Arc::new(added);
    let view = ReadView::committed(store.snapshot());
    let key = [Datum::Int8(1)];
    region.entry(&key, |entry| entry.apply(Mutation::Delete { key: &key })).unwrap();
    assert_eq!(region.alter(Arc::clone(&added)).unwrap_err().code(), ErrorCode::NotNullViolation);
    assert_eq!(scan_all(&region, &view).unwrap().len(), 1);
    drop(view);
    region.alter(added).unwrap();
}

#[test]
fn a_scan_for_another_version_is_refused() {
    let store = store(1, 16);
    let region = store.create_region(numbers(1)).unwrap();
    insert(&region, &[Datum::Int8(1), Datum::Int8(1)]).unwrap();
    let view = ReadView::committed(store.snapshot());
    let scan = |version| region.scan_version(&view, PartitionId(0), &[1], version).map_err(|error| error.code());
    assert_eq!(scan(Some(1)).unwrap().len(), 1);
    assert_eq!(scan(Some(2)).unwrap_err(), ErrorCode::SerializationFailure);
    let wrong = region.scan(&view, PartitionId(0), &[5]).unwrap_err();
    assert_eq!(wrong.code(), ErrorCode::InternalError);
}

#[test]
fn truncate_keeps_what_a_snapshot_sees() {
    let store = store(4, 16);
    let region = store.create_region(numbers(1)).unwrap();
    let fill = || {
        for id in 0..100 {
            insert(&region, &[Datum::Int8(id), Datum::Int8(id)]).unwrap();
        }
    };
    fill();
    let view = ReadView::committed(store.snapshot());
    assert_eq!(region.truncate().unwrap(), 100);
    assert_eq!((region.row_count(), scan_all(&region, &view).unwrap().len()), (0, 100));
    fill();
    assert_eq!(scan_all(&region, &view).unwrap().len(), 100);
    region.check();
    drop(view);
    assert_eq!(region.truncate().unwrap(), 100);
    store.compact();
    assert_eq!(region.bytes(), 0);
}

#[test]
fn every_column_counts_for_itself() {
    let store = store(1, 16);
    let mut shape = TableSchema::clone(&schema(1, "k", &[("k", INT4), ("n", INT4)], &[0]));
    let downwards = Sequence { start: -1, increment: -2, min: -4, max: -1, ..Sequence::BY_ONES };
    shape.columns[0].default = Some(ColumnDefault::Sequence(Sequence::BY_ONES));
    shape.columns[1].default = Some(ColumnDefault::Sequence(downwards));
    let region = store.create_region(Arc::new(shape)).unwrap();
    let schema = region.schema();
    let next = |ordinal: usize| region.next_number(&schema.columns[ordinal]);
    assert_eq!((next(0).unwrap(), next(0).unwrap()), (Value::Int4(1), Value::Int4(2)));
    assert_eq!((next(1).unwrap(), next(1).unwrap()), (Value::Int4(-1), Value::Int4(-3)));
    let error = next(1).unwrap_err();
    assert_eq!(
        (error.code(), error.message()),
        (ErrorCode::SequenceLimitExceeded, "nextval: reached minimum value of sequence \"k_n_seq\" (-4)")
    );
    region.restart_numbers(schema.columns[1].id, -2);
    assert_eq!((next(1).unwrap(), next(0).unwrap()), (Value::Int4(-2), Value::Int4(3)));
    region.restart_numbers(schema.columns[0].id, i64::from(i32::MAX) + 1);
    assert_eq!(next(0).unwrap_err().code(), ErrorCode::SequenceLimitExceeded);
}

#[test]
fn an_empty_table_of_many_partitions_costs_little() {
    let store = Store::new(StoreConfig::default());
    let region = store.create_region(numbers(1)).unwrap();
    assert_eq!(region.bytes(), 0);
    assert!(size_of::<Place>() * 256 <= 16 << 10);
    (0..16).for_each(|id| {
        insert(&region, &[Datum::Int8(id), Datum::Int8(id)]).unwrap();
    });
    assert!(region.bytes() < 16 * 1280, "{}", region.bytes());
}

#[test]
fn an_index_is_made_while_others_write() {
    const IDS: i64 = 200;
    let store = store(4, 64);
    let region = store.create_region(numbers(1)).unwrap();
    let index = |id| {
        let kind = if id % 2 == 0 { IndexKind::Btree } else { IndexKind::Hash };
        Arc::new(IndexDef::plain(TableId(id), format!("i{id}"), kind, vec![ColumnId(1)]))
    };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (region, done) = (&region, &done);
            scope.spawn(move || {
                let mut step: i64 = thread;
                while !done.load(Ordering::Relaxed) {
                    step += 1;
                    let row = [Datum::Int8(step * 7 % IDS), Datum::Int8(step % 5)];
                    let mutation = match step % 4 {
                        0 => Mutation::Delete { key: &row[..1] },
                        _ => Mutation::Upsert { row: &row },
                    };
                    region.entry(&row[..1], |entry| entry.apply(mutation)).unwrap();
                }
            });
        }
        for id in 100..160 {
            let made = index(id);
            region.add_index(&made);
            region.build_index(&made).unwrap();
            store.compact();
            region.check();
            region.drop_index(&made);
        }
        for id in [200, 201] {
            region.add_index(&index(id));
            region.build_index(&index(id)).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    region.check();
    // Looks every value up in every index.
    let rows = scan_all(&region, &ReadView::committed(store.snapshot())).unwrap();
    assert_eq!(rows.len() as u64, region.row_count());
    region.truncate().unwrap();
    store.compact();
    assert_eq!(store.memory_used(), 0);
}

#[test]
fn an_index_that_finds_no_memory_is_not_there() {
    let config = StoreConfig { partition_count: 4, memory_max: 600 << 10, ..StoreConfig::default() };
    let store = Store::new(config);
    let region = store.create_region(numbers(1)).unwrap();
    let mut id = 0;
    let put = |id: i64| {
        let row = [Datum::Int8(id), Datum::Int8(id)];
        region.entry(&row[..1], |entry| entry.apply(Mutation::Upsert { row: &row }))
    };
    while put(id).is_ok() {
        id += 1;
    }
    let made = IndexDef::plain(TableId(9), "i", IndexKind::Btree, vec![ColumnId(1)]);
    let made = Arc::new(made);
    let used = store.memory_used();
    region.add_index(&made);
    assert_eq!(region.build_index(&made).unwrap_err().code(), ErrorCode::OutOfMemory);
    region.drop_index(&made);
    assert!(region.indexes().is_empty());
    assert_eq!(store.memory_used(), used);
    region.check();
}
