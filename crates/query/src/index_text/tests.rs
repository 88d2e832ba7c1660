//! Texts of indexes and of their errors, as a PostgreSQL 15 printed them.

use crate::testing;

/// The detail of a statement's error.
fn detail(engine: &crate::engine::Engine, sql: &str) -> String {
    let error = testing::alone(engine, sql).err().unwrap_or_else(|| panic!("{sql} did not fail"));
    error.fields().detail.clone().unwrap_or_default()
}

#[test]
fn errors_name_the_values_of_an_index() {
    let engine = testing::engine_with(&[
        "CREATE TABLE t (id integer PRIMARY KEY, a integer, b integer, name text, UNIQUE (a, b))",
        "CREATE UNIQUE INDEX ON t (lower(name))",
        "CREATE UNIQUE INDEX ON t ((a + b), name)",
        "INSERT INTO t VALUES (1, 1, 2, 'Ann')",
        "CREATE TABLE s (id integer PRIMARY KEY, span interval UNIQUE, tags text[] UNIQUE)",
        "INSERT INTO s VALUES (1, '1 month', '{a b,NULL}')",
        "CREATE TABLE d (id integer PRIMARY KEY, doc jsonb UNIQUE)",
        r#"INSERT INTO d VALUES (1, '{"a": 1.0}')"#,
    ]);
    let cases = [
        ("INSERT INTO t VALUES (2, 1, 2, 'x')", "Key (a, b)=(1, 2) already exists."),
        ("INSERT INTO t VALUES (2, 5, 6, 'ANN')", "Key (lower(name))=(ann) already exists."),
        ("INSERT INTO t VALUES (1, 5, 6, 'x')", "Key (id)=(1) already exists."),
        ("INSERT INTO t SELECT 7, 7, 7, 'q' UNION ALL SELECT 8, 8, 8, 'q'", "Key (lower(name))=(q) already exists."),
        ("INSERT INTO s VALUES (2, '30 days')", "Key (span)=(30 days) already exists."),
        (r#"INSERT INTO d VALUES (2, '{"a":1.00}')"#, r#"Key (doc)=({"a": 1.00}) already exists."#),
        ("INSERT INTO d VALUES (2, '[]'), (3, '[]')", "Key (doc)=([]) already exists."),
        ("INSERT INTO s (id, tags) VALUES (2, '{a b,NULL}')", "Key (tags)=({\"a b\",NULL}) already exists."),
    ];
    for (sql, expected) in cases {
        assert_eq!(detail(&engine, sql), expected, "{sql}");
    }
    testing::alone(&engine, "INSERT INTO t VALUES (2, 2, 1, 'Bob')").unwrap();
    let sql = "CREATE UNIQUE INDEX ON t ((a + b))";
    assert_eq!(detail(&engine, sql), "Key ((a + b))=(3) is duplicated.");
    assert!(engine.catalog().current().index("t_expr_idx", |_| false).is_none());
    testing::alone(&engine, "ALTER TABLE d DROP CONSTRAINT d_doc_key").unwrap();
    testing::alone(&engine, r#"INSERT INTO d VALUES (2, '{"a": 1.0}')"#).unwrap();
    let sql = "CREATE UNIQUE INDEX ON d (doc)";
    assert_eq!(detail(&engine, sql), r#"Key (doc)=({"a": 1.0}) is duplicated."#);
}
