//! CHECK constraints, as a PostgreSQL 15 names, keeps and words them.

use ashlar_base::ErrorCode;
use ashlar_store::Way;

use crate::engine::Engine;
use crate::index_rows::IndexExpressions;
use crate::statement::Kind;
use crate::testing::{alone, engine_with, plan, run, transaction};

fn code(engine: &Engine, sql: &str) -> ErrorCode {
    alone(engine, sql).err().unwrap_or_else(|| panic!("{sql} did not fail")).code()
}

/// The constraints of `t` with their texts.
fn checks(engine: &Engine) -> Vec<String> {
    let schema = engine.catalog().grid_table("t").unwrap().schema();
    let text = |check: &ashlar_base::CheckDef| {
        let text = IndexExpressions::of_check(check).unwrap().expression_text(0, &schema, false);
        format!("{}: {text}", check.name)
    };
    schema.checks.iter().map(text).collect()
}

#[test]
fn constraints_without_a_name_get_one_of_their_columns() {
    let engine = engine_with(&[
        "CREATE TABLE t (a integer, b integer CHECK (a < b), c text, d boolean CHECK (d), CHECK (a > 0), CHECK (a < b), \
         CHECK (true), CONSTRAINT x CHECK (c IN ('a', 'b')), CHECK (t.a < 100))",
    ]);
    let expected = [
        "t_check: (a < b)",
        "t_d_check: d",
        "t_a_check: (a > 0)",
        "t_check1: (a < b)",
        "t_check2: true",
        "x: (c = ANY (ARRAY['a'::text, 'b'::text]))",
        "t_a_check1: (a < 100)",
    ];
    assert_eq!(checks(&engine), expected);
    alone(&engine, "ALTER TABLE t RENAME COLUMN a TO \"A\"").unwrap();
    assert_eq!(checks(&engine)[2], "t_a_check: (\"A\" > 0)");
    // All that name it go with it.
    alone(&engine, "ALTER TABLE t DROP COLUMN \"A\"").unwrap();
    assert_eq!(checks(&engine), ["t_d_check: d", "t_check2: true", "x: (c = ANY (ARRAY['a'::text, 'b'::text]))"]);
}

#[test]
fn texts_are_those_of_postgresql() {
    let engine = engine_with(&[
        "CREATE TABLE t (a integer, b text, c varchar(5), d date, n numeric(5,2), f float8, arr integer[])",
    ]);
    for (stated, printed) in [
        ("a BETWEEN 1 AND 5", "((a >= 1) AND (a <= 5))"),
        ("b LIKE 'a%'", "(b ~~ 'a%'::text)"),
        ("d > '2000-01-01'", "(d > '2000-01-01'::date)"),
        ("n > 0", "(n > (0)::numeric)"),
        ("n >= 1.5", "(n >= 1.5)"),
        ("f < 1", "(f < (1)::double precision)"),
        ("length(c) > 0", "(length((c)::text) > 0)"),
        ("a = ANY (ARRAY[1, 2, 3])", "(a = ANY (ARRAY[1, 2, 3]))"),
        ("b IS NOT NULL OR a > 1", "((b IS NOT NULL) OR (a > 1))"),
        ("NOT (a = 3)", "(NOT (a = 3))"),
        (
            "c::text = ANY (ARRAY['x'::character varying, 'y'::character varying]::text[])",
            "((c)::text = ANY (ARRAY[('x'::character varying)::text, ('y'::character varying)::text]))",
        ),
        ("a % 2 = 0", "((a % 2) = 0)"),
        ("a > -1", "(a > '-1'::integer)"),
        ("array_length(arr, 1) < 3", "(array_length(arr, 1) < 3)"),
        ("a IS DISTINCT FROM 3", "(a IS DISTINCT FROM 3)"),
        ("a NOT BETWEEN 1 AND 2", "((a < 1) OR (a > 2))"),
        ("a NOT IN (1, 2)", "(a <> ALL (ARRAY[1, 2]))"),
        ("a > 1 AND a < 5 OR a IS NULL", "(((a > 1) AND (a < 5)) OR (a IS NULL))"),
        // What the engine would compute once.
        ("length(b) > 1 AND length(b) < 10", "((length(b) > 1) AND (length(b) < 10))"),
    ] {
        alone(&engine, &format!("ALTER TABLE t ADD CONSTRAINT x CHECK ({stated})")).unwrap();
        assert_eq!(checks(&engine), [format!("x: {printed}")], "{stated}");
        // What is printed means the same.
        alone(&engine, &format!("ALTER TABLE t DROP CONSTRAINT x, ADD CONSTRAINT x CHECK ({printed})")).unwrap();
        assert_eq!(checks(&engine), [format!("x: {printed}")], "{stated}");
        alone(&engine, "ALTER TABLE t DROP CONSTRAINT x").unwrap();
    }
    alone(&engine, "ALTER TABLE t ADD CONSTRAINT x CHECK (CASE WHEN a > 1 THEN \"a\" < 9 ELSE t.a < 5 END)").unwrap();
    alone(&engine, "ALTER TABLE t RENAME COLUMN a TO \"New\"").unwrap();
    let texts = checks(&engine);
    assert_eq!(texts[0].matches("\"New\"").count(), 3, "{texts:?}");
}

#[test]
fn every_way_to_write_is_asked() {
    let engine = engine_with(&[
        "CREATE TABLE t (id integer PRIMARY KEY, v integer CHECK (v > 0), w integer, CHECK (w = 0 OR 10 / w > 1))",
        "INSERT INTO t VALUES (1, 1, 0), (2, NULL, 2)",
        "CREATE TABLE s (id integer, v integer)",
        "INSERT INTO s VALUES (7, 7), (8, -8)",
    ]);
    for sql in [
        "INSERT INTO t VALUES (3, 0, 0)",
        "INSERT INTO t VALUES (1, 0, 0)",
        "INSERT INTO t VALUES (1, 0, 0) ON CONFLICT DO NOTHING",
        "INSERT INTO t VALUES (3, 3, 3), (4, -4, 4)",
        "INSERT INTO t SELECT id, v, 0 FROM s",
        "INSERT INTO t VALUES (1, 1, 1) ON CONFLICT (id) DO UPDATE SET v = -1",
        "UPDATE t SET v = 0 WHERE id = 1",
        "UPDATE t SET v = v - 1 WHERE id = 1",
        "UPDATE t SET v = -id",
        "UPDATE t SET v = s.v FROM s WHERE s.id = t.id + 7",
        "UPDATE t SET id = 9, v = -9 WHERE id = 1",
        "UPDATE t SET w = 10 WHERE id = 2",
    ] {
        assert_eq!(code(&engine, sql), ErrorCode::CheckViolation, "{sql}");
    }
    for sql in
        ["UPDATE t SET v = 0 WHERE id = 1", "UPDATE t SET v = v - 1 WHERE id = 1", "UPDATE t SET w = 10 WHERE id = 2"]
    {
        // Straight to the partition.
        let Kind::Key(plan) = plan(&engine, sql).kind else { panic!("{sql}") };
        let refused = plan.run(&mut Way::default(), &[], &mut |_| {}).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::CheckViolation, "{sql}");
    }
    for sql in ["UPDATE t SET w = 0", "UPDATE t SET v = NULL WHERE id = 1", "UPDATE t SET v = 5 WHERE id = 2"] {
        alone(&engine, sql).unwrap();
    }
    let error = alone(&engine, "INSERT INTO t VALUES (3, -1, 10)").err().unwrap();
    assert_eq!(error.message(), "new row for relation \"t\" violates check constraint \"t_v_check\"");
    assert_eq!(error.fields().detail.as_deref(), Some("Failing row contains (3, -1, 10)."));
    assert_eq!(error.fields().constraint.as_deref(), Some("t_v_check"));
}

#[test]
fn what_may_not_be_a_condition_is_refused() {
    let engine = engine_with(&["CREATE TABLE t (a integer, b text)"]);
    for (condition, expected) in [
        ("zz > 0", ErrorCode::UndefinedColumn),
        ("a", ErrorCode::DatatypeMismatch),
        ("a > (SELECT 1)", ErrorCode::FeatureNotSupported),
        ("EXISTS (SELECT 1)", ErrorCode::FeatureNotSupported),
        ("sum(a) > 0", ErrorCode::GroupingError),
        ("sum(a) OVER () > 0", ErrorCode::WindowingError),
        ("now() > '2000-01-01'", ErrorCode::FeatureNotSupported),
        ("random() > a", ErrorCode::FeatureNotSupported),
        ("a > $1", ErrorCode::UndefinedParameter),
    ] {
        assert_eq!(code(&engine, &format!("ALTER TABLE t ADD CHECK ({condition})")), expected, "{condition}");
        assert_eq!(code(&engine, &format!("CREATE TABLE u (a integer, CHECK ({condition}))")), expected, "{condition}");
    }
    assert_eq!(code(&engine, "ALTER TABLE t ADD CHECK (a > 0) NOT VALID"), ErrorCode::FeatureNotSupported);
    assert_eq!(code(&engine, "ALTER TABLE t ADD CHECK (a > 0) NO INHERIT"), ErrorCode::FeatureNotSupported);
    assert!(checks(&engine).is_empty());
}

#[test]
fn names_are_those_of_one_constraint() {
    let engine = engine_with(&[
        "CREATE TABLE t (a integer CONSTRAINT k PRIMARY KEY, b integer UNIQUE, CONSTRAINT x CHECK (a > 0))",
    ]);
    for sql in [
        "ALTER TABLE t ADD CONSTRAINT x CHECK (a > 1)",
        "ALTER TABLE t ADD CONSTRAINT k CHECK (a > 1)",
        "ALTER TABLE t ADD CONSTRAINT t_b_key CHECK (a > 1)",
        "ALTER TABLE t ADD CONSTRAINT x UNIQUE (a, b)",
        "ALTER TABLE t RENAME CONSTRAINT k TO x",
        "ALTER TABLE t RENAME CONSTRAINT x TO t_b_key",
        "CREATE TABLE u (a integer, CONSTRAINT y CHECK (a > 0), CONSTRAINT y CHECK (a > 1))",
        "CREATE TABLE u (a integer CONSTRAINT y PRIMARY KEY, CONSTRAINT y CHECK (a > 0))",
        "CREATE TABLE u (a integer CONSTRAINT y UNIQUE, CONSTRAINT y CHECK (a > 0))",
    ] {
        assert_eq!(code(&engine, sql), ErrorCode::DuplicateObject, "{sql}");
    }
    alone(&engine, "ALTER TABLE t RENAME CONSTRAINT x TO z").unwrap();
    assert_eq!(checks(&engine), ["z: (a > 0)"]);
    alone(&engine, "ALTER TABLE t DROP CONSTRAINT z").unwrap();
    alone(&engine, "INSERT INTO t VALUES (-1, 1)").unwrap();
    assert_eq!(code(&engine, "ALTER TABLE t DROP CONSTRAINT z"), ErrorCode::UndefinedObject);
}

#[test]
fn rows_that_are_there_are_looked_at() {
    let engine =
        engine_with(&["CREATE TABLE t (a integer, b integer)", "INSERT INTO t VALUES (1, 2), (NULL, 3), (4, 1)"]);
    let error = alone(&engine, "ALTER TABLE t ADD CHECK (a < b)").err().unwrap();
    assert_eq!(error.message(), "check constraint \"t_check\" of relation \"t\" is violated by some row");
    assert_eq!(code(&engine, "ALTER TABLE t ADD COLUMN c integer DEFAULT 3 CHECK (c < 3)"), ErrorCode::CheckViolation);
    alone(&engine, "ALTER TABLE t ADD COLUMN c integer DEFAULT 3 CHECK (c < 4)").unwrap();
    assert_eq!(code(&engine, "INSERT INTO t VALUES (1, 1, 4)"), ErrorCode::CheckViolation);
    assert_eq!(checks(&engine), ["t_c_check: (c < 4)"]);
    // One constant for all rows, and what each has beside it.
    assert_eq!(code(&engine, "ALTER TABLE t ADD COLUMN d integer DEFAULT 4 CHECK (d > a)"), ErrorCode::CheckViolation);
    alone(&engine, "ALTER TABLE t ADD COLUMN d integer DEFAULT 5 CHECK (d > a)").unwrap();
    assert_eq!(checks(&engine), ["t_c_check: (c < 4)", "t_check: (d > a)"]);
    alone(&engine, "ALTER TABLE t DROP COLUMN d").unwrap();

    // In a block it is for the rows that the block sees.
    let mut block = transaction();
    run(&engine, &mut block, "UPDATE t SET a = 0 WHERE b = 1", true).unwrap();
    let other = run(&engine, &mut block, "ALTER TABLE t ADD CHECK (a > 0)", true).err().unwrap();
    assert_eq!(other.code(), ErrorCode::CheckViolation);
    run(&engine, &mut block, "ALTER TABLE t ADD CHECK (a < b)", true).unwrap();
    assert_eq!(
        run(&engine, &mut block, "INSERT INTO t VALUES (2, 1)", true).err().unwrap().code(),
        ErrorCode::CheckViolation
    );
    block.commit(engine.catalog(), engine.store()).unwrap();
    // Its locks of rows go with it.
    drop(block);
    assert_eq!(code(&engine, "UPDATE t SET a = 4 WHERE b = 1"), ErrorCode::CheckViolation);
}

#[test]
fn a_row_that_comes_while_a_block_adds_a_constraint_makes_its_commit_fail() {
    let engine = engine_with(&["CREATE TABLE t (a integer)"]);
    let mut block = transaction();
    run(&engine, &mut block, "ALTER TABLE t ADD CHECK (a > 0)", true).unwrap();
    alone(&engine, "INSERT INTO t VALUES (-1)").unwrap();
    assert_eq!(block.commit(engine.catalog(), engine.store()).unwrap_err().code(), ErrorCode::SerializationFailure);
    assert!(checks(&engine).is_empty());
    alone(&engine, "INSERT INTO t VALUES (-2)").unwrap();
}

#[test]
fn a_condition_does_not_count_on_what_may_become_null() {
    let engine = engine_with(&[
        "CREATE TABLE t (id integer PRIMARY KEY, a integer NOT NULL CHECK (a IS NOT NULL))",
        "ALTER TABLE t ALTER COLUMN a DROP NOT NULL",
    ]);
    assert_eq!(code(&engine, "INSERT INTO t VALUES (1, NULL)"), ErrorCode::CheckViolation);
}

#[test]
fn a_primary_key_that_is_added_keeps_them() {
    let engine = engine_with(&[
        "CREATE TABLE t (a integer CHECK (a > 0))",
        "INSERT INTO t VALUES (1)",
        "ALTER TABLE t ADD PRIMARY KEY (a)",
    ]);
    assert_eq!(code(&engine, "INSERT INTO t VALUES (-1)"), ErrorCode::CheckViolation);
    assert_eq!(checks(&engine), ["t_a_check: (a > 0)"]);
}

#[test]
fn of_many_rows_the_first_that_is_forbidden_is_told_of() {
    // The second condition has to be computed.
    let engine = engine_with(&[
        "CREATE TABLE t (id integer PRIMARY KEY, v integer, n integer GENERATED BY DEFAULT AS IDENTITY, CONSTRAINT a CHECK (v >= 0), \
         CONSTRAINT b CHECK (v % 5000 <> 4000))",
    ]);
    let detail = |sql: &str| {
        let error = alone(&engine, sql).err().unwrap();
        error.fields().detail.as_deref().unwrap().to_owned()
    };
    let from =
        |last: i32| format!("INSERT INTO t (id, v) SELECT i, i FROM generate_series(1, {last}) AS g(i) ORDER BY i");
    // Numbers were drawn for no row behind.
    assert_eq!(detail(&from(4500)), "Failing row contains (4000, 4000, 4000).");
    assert_eq!(alone(&engine, &from(3900)).unwrap().count, 3900);
    assert_eq!(
        detail("INSERT INTO t (id, v) SELECT i, 3990 - i FROM generate_series(3980, 4000) AS g(i) ORDER BY i"),
        "Failing row contains (3991, -1, 7912)."
    );
    assert_eq!(
        detail("UPDATE t SET v = v + 2000 WHERE id > 1990 AND v < 2001"),
        "Failing row contains (2000, 4000, 6000)."
    );
    let values = "INSERT INTO t (id, v) VALUES (5000, 3999), (5001, 4000), (5002, -1)";
    assert_eq!(detail(values), "Failing row contains (5001, 4000, 7914).");
    // An error of computing is the error.
    alone(&engine, "ALTER TABLE t DROP CONSTRAINT b, ADD CONSTRAINT d CHECK (10 / (v - 5000) < 100)").unwrap();
    assert_eq!(code(&engine, "UPDATE t SET v = v + 2000"), ErrorCode::DivisionByZero);
    assert_eq!(alone(&engine, "UPDATE t SET v = v + 1000 WHERE v < 3900").unwrap().count, 3899);
    // What fails to be made is told of after the rows before it.
    alone(&engine, "CREATE TABLE s (v smallint CHECK (v % 10 <> 5))").unwrap();
    let sql = |last: i32| format!("INSERT INTO s SELECT i * 10 FROM generate_series(3270, {last}) AS g(i) ORDER BY i");
    assert_eq!(code(&engine, &sql(3280)), ErrorCode::NumericOutOfRange);
    assert_eq!(alone(&engine, &sql(3276)).unwrap().count, 7);
    let sql = "INSERT INTO s SELECT 32765 + i FROM generate_series(0, 9) AS g(i) ORDER BY i";
    assert_eq!(code(&engine, sql), ErrorCode::CheckViolation);
}
