//! Statements in transactions of one engine: who wins a race, and what a statement may hold.

use ashlar_base::{Datum, ErrorCode, Value};
use ashlar_store::{LockHolder, Strength};

use super::*;
use crate::engine::Engine;
use crate::testing::{alone, engine, engine_with, run, transaction};

/// The tables, where each has the name in the catalog that it has itself.
fn names(engine: &Engine) -> Vec<String> {
    let state = engine.catalog().current();
    let named = state.tables().filter_map(|(name, table)| match table {
        Table::Grid(region) => {
            assert_eq!(region.schema().name, name, "a table has one name");
            Some(name.to_owned())
        }
        Table::File(_) | Table::Sharded(_) => None,
    });
    named.collect()
}

#[test]
fn a_rename_changes_the_name_everywhere_or_nowhere() {
    let engine = engine(u64::MAX);
    alone(&engine, "CREATE TABLE t (id integer PRIMARY KEY)").unwrap();
    // Somebody takes the name before the statement's transaction ends.
    let mut renaming = transaction();
    run(&engine, &mut renaming, "ALTER TABLE t RENAME TO u", false).unwrap();
    let taken = alone(&engine, "CREATE TABLE u (other integer)").map(|_| ());
    let renamed = renaming.commit(engine.catalog(), engine.store());
    assert!(taken.is_ok() != renamed.is_ok(), "{taken:?} {renamed:?}");
    assert_eq!(names(&engine), ["kv", "u"]);
    // The same in a block, which loses.
    let mut renaming = transaction();
    run(&engine, &mut renaming, "ALTER TABLE u RENAME TO v", true).unwrap();
    alone(&engine, "CREATE TABLE v (other integer)").unwrap();
    let error = renaming.commit(engine.catalog(), engine.store()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::SerializationFailure);
    assert_eq!(names(&engine), ["kv", "u", "v"]);
}

fn sum(engine: &Engine) -> Vec<Value> {
    alone(engine, "INSERT INTO sums SELECT sum(v), sum(id) FROM t RETURNING a, b").unwrap().rows.remove(0)
}

#[test]
fn what_a_statement_keeps_is_charged_and_given_back() {
    let engine = engine(24 << 20);
    alone(&engine, "CREATE TABLE t (id integer PRIMARY KEY, v integer, s text)").unwrap();
    alone(&engine, "INSERT INTO t SELECT i, 0, repeat('x', 100) FROM generate_series(1, 20000) AS g (i)").unwrap();
    alone(&engine, "CREATE TABLE sums (a bigint, b bigint)").unwrap();
    let before = sum(&engine);
    assert_eq!(before, [Value::Int8(0), Value::Int8(200_010_000)]);
    let used = engine.store().memory_used();
    for sql in [
        "UPDATE t SET v = v + 1 RETURNING repeat(s, 20)",
        "UPDATE t SET v = v + o.k FROM (VALUES (1)) AS o (k) RETURNING o.k, repeat(s, 20)",
        "DELETE FROM t RETURNING repeat(s, 20)",
        "INSERT INTO t SELECT id + 100000, v, s FROM t RETURNING repeat(s, 20)",
        // Rows whose keys move wait until all have left.
        "UPDATE t SET id = id + 100000, s = repeat(s, 5)",
    ] {
        let error = alone(&engine, sql).map(|outcome| outcome.count).unwrap_err();
        assert_eq!(error.code(), ErrorCode::OutOfMemory, "{sql}: {error:?}");
        assert_eq!(engine.store().memory_used(), used, "{sql}");
    }
    assert_eq!(sum(&engine), before);
    let outcome = alone(&engine, "UPDATE t SET v = v + 1 RETURNING id, v").unwrap();
    assert_eq!((outcome.count, outcome.rows.len()), (20_000, 20_000));
    assert!(outcome.held.is_some());
    drop(outcome);
    assert_eq!(alone(&engine, "DELETE FROM t WHERE v = 1").unwrap().count, 20_000);
}

#[test]
fn a_row_that_has_changed_stays_locked_until_its_statement_has_begun_again() {
    let engine = engine_with(&[
        "CREATE TABLE t (id integer PRIMARY KEY, v integer)",
        "INSERT INTO t SELECT i, i FROM generate_series(1, 3) AS g (i)",
    ]);
    let catalog = engine.catalog().current();
    let table = catalog.tables().find_map(|(name, table)| (name == "t").then_some(table));
    let Some(Table::Grid(region)) = table else { panic!("a table in memory") };
    let mut one = transaction();
    let before = one.snapshot(engine.store());
    alone(&engine, "UPDATE t SET v = v + 10").unwrap();
    alone(&engine, "DELETE FROM t WHERE v = 13").unwrap();
    let mut lock =
        |id, policy| one.lock_row(region, &[Datum::Int4(id)], Strength::NoKeyUpdate, policy, &before).unwrap();
    assert_eq!(lock(1, Policy::Wait), Locked::Changed);
    assert_eq!(lock(2, Policy::Skip), Locked::Changed);
    assert_eq!(lock(3, Policy::Wait), Locked::Gone);
    let mut other = LockHolder::new(region, 7);
    let is_free = [1, 2, 3].map(|id| other.lock(region, &[Datum::Int4(id)], Strength::Share).unwrap().is_none());
    assert_eq!(is_free, [false, true, true]);
    drop(other);
    // Nobody is faster once more.
    let error = alone(&engine, "UPDATE t SET v = 0 WHERE v = 11").map(|_| ()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::LockNotAvailable);
    let now = one.snapshot(engine.store());
    let locked = one.lock_row(region, &[Datum::Int4(1)], Strength::NoKeyUpdate, Policy::Wait, &now);
    assert_eq!(locked, Ok(Locked::Current));
}
