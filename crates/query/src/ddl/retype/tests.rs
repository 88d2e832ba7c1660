//! Types that are changed while others write: nothing that they were told is committed is lost.

use ashlar_base::{ErrorCode, ScalarType, SqlType};

use crate::testing::{alone, engine_with, run, transaction};

const INT8: SqlType = SqlType::Scalar(ScalarType::Int8);
const TEXT: SqlType = SqlType::Scalar(ScalarType::Text);

#[test]
fn whoever_writes_while_rows_are_rewritten_is_not_lost() {
    let engine = engine_with(&["CREATE TABLE t (a integer PRIMARY KEY, b text)", "INSERT INTO t VALUES (1, 'x')"]);
    let retype = "ALTER TABLE t ALTER COLUMN a TYPE bigint";
    let mut altering = transaction();
    run(&engine, &mut altering, retype, false).unwrap();
    alone(&engine, "INSERT INTO t VALUES (2, 'y')").unwrap();
    let error = altering.commit(engine.catalog(), engine.store()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::SerializationFailure);
    let before = engine.catalog().grid_table("t").unwrap();
    assert_eq!(before.row_count(), 2);

    let mut late = transaction();
    run(&engine, &mut late, "INSERT INTO t VALUES (3, 'z')", true).unwrap();
    alone(&engine, retype).unwrap();
    let after = engine.catalog().grid_table("t").unwrap();
    assert_eq!((after.schema().columns[0].sql_type, after.row_count(), before.is_dropped()), (INT8, 2, true));
    assert_eq!(late.commit(engine.catalog(), engine.store()).unwrap_err().code(), ErrorCode::SerializationFailure);
    alone(&engine, "INSERT INTO t VALUES (3000000000, 'z')").unwrap();
    assert_eq!(alone(&engine, "INSERT INTO t VALUES (2, 'again')").err().unwrap().code(), ErrorCode::UniqueViolation);
}

#[test]
fn texts_that_may_be_longer_stay_where_they_are() {
    let engine =
        engine_with(&["CREATE TABLE t (a integer PRIMARY KEY, b varchar(3))", "INSERT INTO t VALUES (1, 'abc')"]);
    let before = engine.catalog().grid_table("t").unwrap();
    let mut block = transaction();
    run(&engine, &mut block, "ALTER TABLE t ALTER COLUMN b TYPE varchar(5)", true).unwrap();
    run(&engine, &mut block, "INSERT INTO t VALUES (2, 'abcde')", true).unwrap();
    block.commit(engine.catalog(), engine.store()).unwrap();
    alone(&engine, "ALTER TABLE t ALTER COLUMN b TYPE text").unwrap();
    let after = engine.catalog().grid_table("t").unwrap();
    assert_eq!((after.id(), after.schema().columns[1].sql_type), (before.id(), TEXT));
}

#[test]
fn what_cannot_be_cast_leaves_the_table_as_it_was() {
    let engine = engine_with(&["CREATE TABLE t (a integer, b text)", "INSERT INTO t VALUES (1, 'x'), (70000, 'y')"]);
    let before = engine.catalog().grid_table("t").unwrap();
    for (change, code) in [
        ("a TYPE smallint", ErrorCode::NumericOutOfRange),
        ("b TYPE integer", ErrorCode::DatatypeMismatch),
        ("b TYPE varchar(0)", ErrorCode::InvalidParameterValue),
    ] {
        let error = alone(&engine, &format!("ALTER TABLE t ALTER COLUMN {change}")).err().unwrap();
        assert_eq!(error.code(), code, "{change}");
        let after = engine.catalog().grid_table("t").unwrap();
        assert_eq!((after.id(), after.row_count()), (before.id(), 2));
    }
    assert_eq!(engine.store().regions().len(), 2);
}

/// Values of unique indexes are looked at batch by batch, and each knows those of all before it.
#[test]
fn values_that_become_equal_are_found_whatever_is_copied_between_them() {
    let rows = "INSERT INTO t SELECT i, i + 0.4 FROM generate_series(1, 5000) AS g (i)";
    let engine = engine_with(&["CREATE TABLE t (a integer PRIMARY KEY, b numeric(9,2) UNIQUE)", rows]);
    let before = engine.catalog().grid_table("t").unwrap();
    alone(&engine, "UPDATE t SET b = 1.3 WHERE a = 5000").unwrap();
    let retype = "ALTER TABLE t ALTER b TYPE integer";
    let error = alone(&engine, retype).err().unwrap();
    assert_eq!(
        (error.code(), error.message()),
        (ErrorCode::UniqueViolation, "could not create unique index \"t_b_key\"")
    );
    assert_eq!(engine.catalog().grid_table("t").unwrap().id(), before.id());
    alone(&engine, "UPDATE t SET b = 5000.4 WHERE a = 5000").unwrap();
    alone(&engine, retype).unwrap();
    let after = engine.catalog().grid_table("t").unwrap();
    assert_eq!((after.row_count(), after.schema().columns[1].sql_type), (5000, SqlType::Scalar(ScalarType::Int4)));
}
