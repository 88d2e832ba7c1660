//! A key that is added while others write: nothing that they were told is committed is lost.

use ashlar_base::ErrorCode;

use crate::comments::{Part, Subject};
use crate::testing::{alone, engine_with, run, transaction};
use crate::transaction::{Isolation, Transaction};

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

#[test]
fn what_others_say_of_the_table_meanwhile_is_said_of_the_new_one() {
    let engine = engine_with(&["CREATE TABLE t (a integer NOT NULL, b text)", "CREATE INDEX t_b ON t (b)"]);
    let before = engine.catalog().grid_table("t").unwrap();
    let mut late = transaction();
    run(&engine, &mut late, "COMMENT ON TABLE t IS 'too late'", true).unwrap();
    let mut adding = transaction();
    run(&engine, &mut adding, "ALTER TABLE t ADD PRIMARY KEY (a)", false).unwrap();
    for sql in
        ["COMMENT ON COLUMN t.b IS 'meanwhile'", "CREATE SEQUENCE s OWNED BY t.a", "CREATE TABLE other (id integer)"]
    {
        alone(&engine, sql).unwrap();
    }
    adding.commit(engine.catalog(), engine.store()).unwrap();
    let after = engine.catalog().grid_table("t").unwrap();
    assert_ne!(after.id(), before.id());
    let state = engine.catalog().current();
    let is_said = |(subject, text): (Subject, &std::sync::Arc<str>)| {
        matches!(subject, Subject::Of(table, Part::Column(_)) if table == after.id()) && **text == *"meanwhile"
    };
    assert!(state.comments().iter().any(is_said));
    let column = after.schema().columns[0].id;
    assert_eq!(state.sequence("s").unwrap().column, Some((after.id(), column)));
    assert!(state.table("other").is_some());
    // What would be said of a table that is not there any more is not lost without a word.
    let error = late.commit(engine.catalog(), engine.store()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::SerializationFailure);
}

#[test]
fn an_index_that_goes_meanwhile_goes_for_good_or_stays() {
    let engine = engine_with(&["CREATE TABLE t (a integer NOT NULL, b text)", "CREATE INDEX t_b ON t (b)"]);
    let add = "ALTER TABLE t ADD PRIMARY KEY (a)";
    let mut late = transaction();
    run(&engine, &mut late, "DROP INDEX t_b", true).unwrap();
    alone(&engine, add).unwrap();
    let error = late.commit(engine.catalog(), engine.store()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::SerializationFailure);
    assert_eq!(engine.catalog().grid_table("t").unwrap().every_index().len(), 1);

    let engine = engine_with(&["CREATE TABLE t (a integer NOT NULL, b text)", "CREATE INDEX t_b ON t (b)"]);
    let mut adding = transaction();
    run(&engine, &mut adding, add, false).unwrap();
    alone(&engine, "DROP INDEX t_b").unwrap();
    let error = adding.commit(engine.catalog(), engine.store()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::SerializationFailure);
    let region = engine.catalog().grid_table("t").unwrap();
    assert!(region.schema().hidden_key && region.every_index().is_empty());
}

#[test]
fn an_index_of_a_block_that_is_rolled_back_is_not_left_behind() {
    let engine = engine_with(&["CREATE TABLE t (a integer NOT NULL, b text)", "CREATE INDEX t_b ON t (b)"]);
    let mut making = transaction();
    run(&engine, &mut making, "CREATE UNIQUE INDEX t_both ON t (a, b)", true).unwrap();
    alone(&engine, "ALTER TABLE t ADD PRIMARY KEY (a)").unwrap();
    let names = || {
        let indexes = engine.catalog().grid_table("t").unwrap().every_index();
        indexes.iter().map(|index| index.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(), ["t_b", "t_both"]);
    making.rollback(engine.catalog(), engine.store());
    assert_eq!(names(), ["t_b"]);
}

#[test]
fn a_snapshot_from_before_does_not_find_the_table_empty() {
    let engine = engine_with(&["CREATE TABLE t (a integer, b text)", "INSERT INTO t VALUES (1, 'x')"]);
    let mut old = Transaction::new(Isolation::RepeatableRead, false, false);
    let before = old.snapshot(engine.store());
    alone(&engine, "ALTER TABLE t ADD PRIMARY KEY (a)").unwrap();
    let region = engine.catalog().grid_table("t").unwrap();
    assert_eq!(region.check_birth(&before).unwrap_err().code(), ErrorCode::SerializationFailure);
    for sql in [
        "UPDATE t SET b = 'y' WHERE a < 2",
        "UPDATE t SET b = 'y'",
        "DELETE FROM t WHERE b = 'x'",
        "INSERT INTO t VALUES (2, 'z')",
        "INSERT INTO t VALUES (1, 'z') ON CONFLICT DO NOTHING",
    ] {
        let error = run(&engine, &mut old, sql, true).map(|outcome| outcome.count).unwrap_err();
        assert_eq!(error.code(), ErrorCode::SerializationFailure, "{sql}");
    }
    drop(old);
    assert_eq!(alone(&engine, "UPDATE t SET b = 'y' WHERE a < 2").unwrap().count, 1);
}
