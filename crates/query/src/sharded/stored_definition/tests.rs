//! What a table is after the statements that are kept of it.

use pg_query::NodeEnum;

use super::{BETWEEN, StoredTable};
use crate::statement::statement_text;

/// What a table is after statements, as the statements that would make it.
fn folded(statements: &[&str]) -> Vec<String> {
    let table = StoredTable::read("t", &statements.join(BETWEEN)).unwrap();
    let indexes = table.indexes.into_iter().map(|index| NodeEnum::IndexStmt(Box::new(index)));
    let all = std::iter::once(NodeEnum::CreateStmt(table.made)).chain(indexes);
    all.map(|node| statement_text(&node).unwrap()).collect()
}

/// A statement as trees are written.
fn written(sql: &str) -> String {
    statement_text(&crate::grammar::parse(sql).unwrap()[0].node).unwrap()
}

fn check(statements: &[&str], expected: &[&str]) {
    let expected: Vec<String> = expected.iter().map(|sql| written(sql)).collect();
    assert_eq!(folded(statements), expected, "{statements:?}");
}

#[test]
fn a_column_goes_with_what_is_about_it() {
    check(
        &[
            "CREATE TABLE t (k int, n int, v text, w text, PRIMARY KEY (k, n), UNIQUE (k, v), UNIQUE (k, w))",
            "CREATE INDEX a ON t (w)",
            "CREATE INDEX b ON t (w, lower(v))",
            "CREATE INDEX c ON t (w) INCLUDE (n)",
            "CREATE INDEX d ON t (w) WHERE (v IS NOT NULL) AND k IN (1, 2)",
            "ALTER TABLE t DROP COLUMN IF EXISTS v CASCADE, ADD COLUMN v int",
        ],
        &[
            "CREATE TABLE t (k int, n int, w text, PRIMARY KEY (k, n), UNIQUE (k, w), v int)",
            "CREATE INDEX a ON t (w)",
            "CREATE INDEX c ON t (w) INCLUDE (n)",
        ],
    );
    // What was in the key stays without NULL.
    check(
        &["CREATE TABLE t (k int, n int, PRIMARY KEY (k, n))", "ALTER TABLE t DROP COLUMN n"],
        &["CREATE TABLE t (k int NOT NULL)"],
    );
}

#[test]
fn a_column_is_renamed_wherever_it_is_named() {
    check(
        &[
            "CREATE TABLE t (k int, v text, w text, PRIMARY KEY (k, v), UNIQUE (k, w)) PARTITION BY HASH (k)",
            "CREATE INDEX a ON t (v DESC, w)",
            "CREATE INDEX b ON t (lower(v || w || v || 'v'), v) INCLUDE (v) WHERE v > 'v' COLLATE \"C\"",
            "ALTER TABLE t RENAME COLUMN v TO \"Odd \"\"name\"",
        ],
        &[
            "CREATE TABLE t (k int, \"Odd \"\"name\" text, w text, PRIMARY KEY (k, \"Odd \"\"name\"), UNIQUE (k, w)) \
             PARTITION BY HASH (k)",
            "CREATE INDEX a ON t (\"Odd \"\"name\" DESC, w)",
            "CREATE INDEX b ON t (lower(\"Odd \"\"name\" || w || \"Odd \"\"name\" || 'v'), \"Odd \"\"name\") \
             INCLUDE (\"Odd \"\"name\") WHERE \"Odd \"\"name\" > 'v' COLLATE \"C\"",
        ],
    );
    // And back, and another one in its place.
    check(
        &[
            "CREATE TABLE t (k int, \"Odd \"\"name\" text)",
            "CREATE INDEX a ON t (upper(\"Odd \"\"name\"))",
            "ALTER TABLE t RENAME \"Odd \"\"name\" TO v",
            "ALTER TABLE t ADD COLUMN \"Odd \"\"name\" int",
        ],
        &["CREATE TABLE t (k int, v text, \"Odd \"\"name\" int)", "CREATE INDEX a ON t (upper(v))"],
    );
}

#[test]
fn checks_have_names_and_go_with_their_columns() {
    check(
        &[
            "CREATE TABLE t (k int CHECK (k > 0), n int CHECK (n > 0) CHECK (n < 9), CONSTRAINT own CHECK (k <> n), \
             CHECK (k < n), CHECK (1 = 1))",
            "ALTER TABLE t DROP CONSTRAINT own, ADD CONSTRAINT own CHECK (k = 1 OR n IS NULL)",
            "ALTER TABLE t ADD COLUMN v text CONSTRAINT t_v_check CHECK (length(v) < n)",
            "ALTER TABLE t DROP CONSTRAINT t_k_check",
            "ALTER TABLE t RENAME n TO \"N\"",
        ],
        &["CREATE TABLE t (k int, \
           \"N\" int CONSTRAINT t_n_check CHECK (\"N\" > 0) CONSTRAINT t_n_check1 CHECK (\"N\" < 9), \
           CONSTRAINT t_check CHECK (k < \"N\"), CONSTRAINT t_check1 CHECK (1 = 1), \
           CONSTRAINT own CHECK (k = 1 OR \"N\" IS NULL), v text CONSTRAINT t_v_check CHECK (length(v) < \"N\"))"],
    );
    check(
        &[
            "CREATE TABLE t (k int, n int, v text CHECK (length(v) < n), CHECK (k < n), CHECK (k < 9))",
            "ALTER TABLE t DROP n",
        ],
        &["CREATE TABLE t (k int, v text, CONSTRAINT t_k_check CHECK (k < 9))"],
    );
}

#[test]
fn keys_go_by_the_name_that_postgresql_gives_them() {
    check(
        &[
            "CREATE TABLE t (k int PRIMARY KEY, n int NULL UNIQUE, UNIQUE (k, n), CONSTRAINT own UNIQUE (n, k), \
             UNIQUE (k, n))",
            "ALTER TABLE t RENAME TO u",
            "ALTER TABLE u RENAME n TO m",
            "ALTER TABLE u ADD UNIQUE (m), ADD UNIQUE (k)",
            "ALTER TABLE u DROP CONSTRAINT t_k_n_key1, DROP CONSTRAINT u_m_key, DROP CONSTRAINT own",
        ],
        &["CREATE TABLE u (k int PRIMARY KEY, m int NULL UNIQUE, UNIQUE (k, m), UNIQUE (k))"],
    );
    // What was in the primary key stays without NULL, and another one has its name.
    check(
        &[
            "CREATE TABLE t (k int, n int NULL, PRIMARY KEY (k, n))",
            "ALTER TABLE t DROP CONSTRAINT t_pkey",
            "ALTER TABLE t ADD PRIMARY KEY (k), ALTER n DROP NOT NULL",
            "ALTER TABLE t DROP CONSTRAINT t_pkey",
        ],
        &["CREATE TABLE t (k int NOT NULL, n int)"],
    );
    // A name that was given is no other one's.
    check(
        &[
            "CREATE TABLE t (k int PRIMARY KEY, n int, CONSTRAINT t_pkey UNIQUE (k, n))",
            "ALTER TABLE t DROP CONSTRAINT t_pkey1",
        ],
        &["CREATE TABLE t (k int NOT NULL, n int, CONSTRAINT t_pkey UNIQUE (k, n))"],
    );
}

#[test]
fn keys_of_the_same_columns_are_twins() {
    for (keys, expected) in [
        ("PRIMARY KEY (k, n), UNIQUE (n, k), UNIQUE (k)", false),
        ("PRIMARY KEY (k), UNIQUE (k)", true),
        ("UNIQUE (n, k), UNIQUE (k), CONSTRAINT other UNIQUE (n, k)", true),
    ] {
        let table = StoredTable::read("t", &format!("CREATE TABLE t (k int, n int, {keys})")).unwrap();
        assert_eq!(table.has_twins(), expected, "{keys}");
    }
}

#[test]
fn defaults_and_not_null_come_and_go() {
    check(
        &[
            "CREATE TABLE t (k int DEFAULT 1, n int NOT NULL, v text DEFAULT 'v' NOT NULL, w text NULL)",
            "ALTER TABLE t ALTER k SET DEFAULT 2, ALTER k SET NOT NULL, ALTER n DROP NOT NULL, ALTER v DROP DEFAULT",
            "ALTER TABLE t ALTER w SET NOT NULL, ALTER w SET DEFAULT 'a' || 'b'",
        ],
        &["CREATE TABLE t (k int DEFAULT 2 NOT NULL, n int, v text NOT NULL, w text NOT NULL DEFAULT 'a' || 'b')"],
    );
}

#[test]
fn a_type_changes_and_a_default_stays_the_value_that_it_was() {
    check(
        &[
            "CREATE TABLE t (k int DEFAULT 1, n numeric(4,1) DEFAULT 1.25, v varchar(9) DEFAULT 'v' NOT NULL, \
             d date DEFAULT '2026-1-1', w int CHECK (w > 0))",
            "ALTER TABLE t ALTER k TYPE bigint, ALTER n TYPE numeric(9,3) USING n + 1, ALTER v SET DATA TYPE text",
            "ALTER TABLE t ALTER d TYPE text, ALTER w DROP DEFAULT, ALTER w TYPE numeric(9,2)",
        ],
        &["CREATE TABLE t (k bigint DEFAULT 1, n numeric(9,3) DEFAULT CAST(1.25 AS numeric(4,1)), \
           v text DEFAULT 'v' NOT NULL, d text DEFAULT CAST('2026-1-1' AS date), \
           w numeric(9,2) CONSTRAINT t_w_check CHECK (w > 0))"],
    );
}

#[test]
fn a_table_is_renamed_with_its_indexes() {
    check(
        &[
            "CREATE TABLE public.t (k int)",
            "CREATE INDEX a ON t (k)",
            "ALTER TABLE t RENAME TO u",
            "CREATE INDEX b ON u (k)",
            "ALTER TABLE u ADD COLUMN v int",
        ],
        &["CREATE TABLE public.u (k int, v int)", "CREATE INDEX a ON u (k)", "CREATE INDEX b ON u (k)"],
    );
}

#[test]
fn what_is_not_known_of_an_expression_is_refused() {
    let read = |change: &str| {
        let text = ["CREATE TABLE t (k int, v text, w text)", "CREATE INDEX a ON t (f(t.v))", change].join(BETWEEN);
        StoredTable::read("t", &text).map(|table| table.indexes.len())
    };
    for change in ["ALTER TABLE t DROP COLUMN w", "ALTER TABLE t RENAME w TO x"] {
        assert_eq!(read(change).unwrap_err().sqlstate(), "0A000", "{change}");
    }
    assert_eq!(read("ALTER TABLE t ADD COLUMN x int").unwrap(), 1);
}
