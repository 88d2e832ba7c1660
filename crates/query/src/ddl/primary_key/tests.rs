//! A key that is added while others write: nothing that they were told is committed is lost.

use ashlar_base::ErrorCode;

use crate::testing::{alone, engine_with, run, transaction};

#[test]
fn whoever_writes_meanwhile_is_not_lost() {
    let engine = engine_with(&["CREATE TABLE t (a integer, b text)", "INSERT INTO t VALUES (1, 'x')"]);
    let add = "ALTER TABLE t ADD PRIMARY KEY (a)";
    let mut adding = transaction();
    run(&engine, &mut adding, add, false).unwrap();
    alone(&engine, "INSERT INTO t VALUES (2, 'y')").unwrap();
    let error = adding.commit(engine.catalog(), engine.store()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::SerializationFailure);
    let before = engine.catalog().grid_table("t").unwrap();
    assert!(before.schema().hidden_key && before.row_count() == 2);

    let mut late = transaction();
    run(&engine, &mut late, "INSERT INTO t VALUES (3, 'z')", true).unwrap();
    alone(&engine, add).unwrap();
    let after = engine.catalog().grid_table("t").unwrap();
    assert!(!after.schema().hidden_key && after.row_count() == 2 && before.is_dropped());
    assert_eq!(late.commit(engine.catalog(), engine.store()).unwrap_err().code(), ErrorCode::SerializationFailure);
    alone(&engine, "INSERT INTO t VALUES (3, 'z')").unwrap();
    assert_eq!(alone(&engine, "INSERT INTO t VALUES (3, 'again')").err().unwrap().code(), ErrorCode::UniqueViolation);
}

#[test]
fn what_does_not_fit_leaves_the_table_as_it_was() {
    let engine = engine_with(&["CREATE TABLE t (a integer, b text)", "INSERT INTO t VALUES (1, 'x'), (1, NULL)"]);
    for (columns, code) in [("a", ErrorCode::UniqueViolation), ("b", ErrorCode::NotNullViolation)] {
        let error = alone(&engine, &format!("ALTER TABLE t ADD PRIMARY KEY ({columns})")).err().unwrap();
        assert_eq!(error.code(), code);
        let region = engine.catalog().grid_table("t").unwrap();
        assert!(region.schema().hidden_key && region.row_count() == 2);
    }
    assert_eq!(engine.store().regions().len(), 2);
}
