//! Comments come and go with transactions, and go with what they are about.

use crate::engine::Engine;
use crate::testing;

/// How many comments are kept: one is said of the schema `public` from the beginning.
fn count(engine: &Engine) -> usize {
    engine.catalog().current().comments().iter().count() - 1
}

const TABLE: &str = "CREATE TABLE t (id integer PRIMARY KEY, a integer UNIQUE, b text NOT NULL)";

const COMMENTS: &[&str] = &[
    "COMMENT ON TABLE t IS 'table'",
    "COMMENT ON COLUMN t.b IS 'column'",
    "COMMENT ON INDEX t_pkey IS 'index of the key'",
    "COMMENT ON INDEX t_a_key IS 'index'",
    "COMMENT ON CONSTRAINT t_pkey ON t IS 'key'",
    "COMMENT ON CONSTRAINT t_a_key ON t IS 'unique'",
];

#[test]
fn what_is_gone_has_no_comments() {
    let engine = testing::engine_with(&[TABLE]);
    for sql in COMMENTS {
        testing::alone(&engine, sql).unwrap();
    }
    assert_eq!(count(&engine), 6);
    testing::alone(&engine, "COMMENT ON COLUMN t.b IS NULL").unwrap();
    assert_eq!(count(&engine), 5);
    testing::alone(&engine, "COMMENT ON COLUMN t.b IS 'again'").unwrap();
    testing::alone(&engine, "ALTER TABLE t DROP COLUMN b").unwrap();
    assert_eq!(count(&engine), 5);
    testing::alone(&engine, "ALTER TABLE t DROP CONSTRAINT t_a_key").unwrap();
    // The next change of names sees that the index is gone.
    testing::alone(&engine, "COMMENT ON TABLE t IS 'other'").unwrap();
    assert_eq!(count(&engine), 3);
    testing::alone(&engine, "DROP TABLE t").unwrap();
    assert_eq!(count(&engine), 0);
}

#[test]
fn a_rollback_takes_them_back_and_a_column_of_the_same_block_keeps_its_own() {
    let engine = testing::engine_with(&[TABLE, "COMMENT ON TABLE t IS 'before'"]);
    let mut transaction = testing::transaction();
    testing::run(&engine, &mut transaction, "COMMENT ON TABLE t IS 'not yet'", true).unwrap();
    let mark = transaction.mark();
    testing::run(&engine, &mut transaction, "COMMENT ON COLUMN t.a IS 'never'", true).unwrap();
    transaction.rollback_to(&mark, engine.catalog(), engine.store());
    let inside = transaction.catalog(engine.catalog());
    assert_eq!(inside.comments().iter().count(), 2);
    assert!(inside.comments().iter().any(|(_, text)| **text == *"not yet"));
    assert!(engine.catalog().current().comments().iter().any(|(_, text)| **text == *"before"));
    transaction.rollback(engine.catalog(), engine.store());
    assert!(engine.catalog().current().comments().iter().any(|(_, text)| **text == *"before"));

    let mut transaction = testing::transaction();
    testing::run(&engine, &mut transaction, "ALTER TABLE t ADD COLUMN c integer", true).unwrap();
    testing::run(&engine, &mut transaction, "COMMENT ON COLUMN t.c IS 'new'", true).unwrap();
    transaction.commit(engine.catalog(), engine.store()).unwrap();
    assert!(engine.catalog().current().comments().iter().any(|(_, text)| **text == *"new"));
    assert_eq!(count(&engine), 2);
}
