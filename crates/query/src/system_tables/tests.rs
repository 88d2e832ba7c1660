//! The rows of system tables over a real catalog.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;
use expect_test::{Expect, expect};

use super::{SCHEMAS, provider};
use crate::engine::Engine;
use crate::testing;

fn engine() -> Arc<Engine> {
    testing::engine_with(&[
        "CREATE TABLE item (id serial PRIMARY KEY, label varchar(10) DEFAULT 'it''s', tags text[], \
         price numeric(10,2) DEFAULT 1.50)",
        "CREATE TABLE log (at timestamptz)",
    ])
}

/// Runs SQL over one system table, here always called `t`.
fn query(engine: &Engine, schema: &str, table: &str, sql: &str) -> Vec<RecordBatch> {
    let table = provider(engine.state(), &engine.catalog().current(), schema, table).unwrap().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let context = SessionContext::new();
        for function in super::functions::all().into_iter().chain(super::bound::all(&engine.catalog().current())) {
            context.register_udf(function.as_ref().clone());
        }
        context.register_table("t", table).unwrap();
        context.sql(sql).await.unwrap().collect().await.unwrap()
    })
}

fn check(schema: &str, table: &str, sql: &str, expected: Expect) {
    let batches = query(&engine(), schema, table, sql);
    expected.assert_eq(&format!("{}\n", pretty_format_batches(&batches).unwrap()));
}

#[test]
fn every_table_has_a_layout_and_rows_that_fit_it() {
    let engine = engine();
    for (schema, tables) in SCHEMAS.iter().flat_map(|(schema, groups)| groups.iter().map(move |group| (schema, group)))
    {
        for definition in tables.iter() {
            query(&engine, schema, definition.name, "SELECT * FROM t");
        }
    }
}

#[test]
fn unknown_names_are_nobody() {
    let engine = engine();
    for (schema, table) in [("pg_catalog", "item"), ("information_schema", "pg_class"), ("nowhere", "tables")] {
        assert!(provider(engine.state(), &engine.catalog().current(), schema, table).unwrap().is_none());
    }
}

#[test]
fn tables_are_base_tables_of_public() {
    check(
        "information_schema",
        "tables",
        "SELECT table_catalog, table_schema, table_name, table_type, is_insertable_into FROM t",
        expect![[r#"
            +---------------+--------------+------------+------------+--------------------+
            | table_catalog | table_schema | table_name | table_type | is_insertable_into |
            +---------------+--------------+------------+------------+--------------------+
            | ashlar        | public       | item       | BASE TABLE | YES                |
            | ashlar        | public       | kv         | BASE TABLE | YES                |
            | ashlar        | public       | log        | BASE TABLE | YES                |
            +---------------+--------------+------------+------------+--------------------+
        "#]],
    );
}

#[test]
fn columns_have_the_words_of_postgres_and_hide_the_hidden_key() {
    check(
        "information_schema",
        "columns",
        "SELECT table_name, column_name, ordinal_position AS pos, column_default, is_nullable AS nulls, data_type, \
         character_maximum_length AS len, numeric_precision AS p, numeric_scale AS s, udt_name, is_identity AS ident \
         FROM t WHERE table_name <> 'kv'",
        expect![[r#"
            +------------+-------------+-----+----------------------------+-------+--------------------------+-----+----+---+-------------+-------+
            | table_name | column_name | pos | column_default             | nulls | data_type                | len | p  | s | udt_name    | ident |
            +------------+-------------+-----+----------------------------+-------+--------------------------+-----+----+---+-------------+-------+
            | item       | id          | 1   |                            | NO    | integer                  |     | 32 | 0 | int4        | YES   |
            | item       | label       | 2   | 'it''s'::character varying | YES   | character varying        | 10  |    |   | varchar     | NO    |
            | item       | tags        | 3   |                            | YES   | ARRAY                    |     |    |   | _text       | NO    |
            | item       | price       | 4   | 1.50                       | YES   | numeric                  |     | 10 | 2 | numeric     | NO    |
            | log        | at          | 1   |                            | YES   | timestamp with time zone |     |    |   | timestamptz | NO    |
            +------------+-------------+-----+----------------------------+-------+--------------------------+-----+----+---+-------------+-------+
        "#]],
    );
}

#[test]
fn only_declared_keys_are_constraints() {
    check(
        "information_schema",
        "table_constraints",
        "SELECT table_name, constraint_name, constraint_type FROM t",
        expect![[r#"
            +------------+-------------------+-----------------+
            | table_name | constraint_name   | constraint_type |
            +------------+-------------------+-----------------+
            | item       | item_pkey         | PRIMARY KEY     |
            | item       | item_id_not_null  | CHECK           |
            | kv         | kv_pkey           | PRIMARY KEY     |
            | kv         | kv_key_not_null   | CHECK           |
            | kv         | kv_value_not_null | CHECK           |
            +------------+-------------------+-----------------+
        "#]],
    );
}

#[test]
fn relations_are_found_by_number_and_by_the_text_of_a_number() {
    check(
        "pg_catalog",
        "pg_class",
        "SELECT oid, relname, relkind, relhasindex, pg_get_userbyid(relowner) AS owner FROM t \
         WHERE (oid = 16385 OR oid = '16386' OR relkind = 'i') AND pg_table_is_visible(oid)",
        expect![[r#"
            +------------+-----------+---------+-------------+--------+
            | oid        | relname   | relkind | relhasindex | owner  |
            +------------+-----------+---------+-------------+--------+
            | 16385      | item      | r       | true        | ashlar |
            | 16386      | log       | r       | false       | ashlar |
            | 2147500033 | item_pkey | i       | false       | ashlar |
            | 2147500032 | kv_pkey   | i       | false       | ashlar |
            +------------+-----------+---------+-------------+--------+
        "#]],
    );
}

#[test]
fn attributes_know_their_types() {
    check(
        "pg_catalog",
        "pg_attribute",
        "SELECT attname, format_type(atttypid, atttypmod) AS type, attnotnull, atthasdef, attidentity \
         FROM t WHERE attrelid = 16385 AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        expect![[r#"
            +---------+-----------------------+------------+-----------+-------------+
            | attname | type                  | attnotnull | atthasdef | attidentity |
            +---------+-----------------------+------------+-----------+-------------+
            | id      | integer               | true       | false     | d           |
            | label   | character varying(10) | false      | true      |             |
            | tags    | text[]                | false      | false     |             |
            | price   | numeric(10,2)         | false      | true      |             |
            +---------+-----------------------+------------+-----------+-------------+
        "#]],
    );
}

#[test]
fn types_and_their_arrays_point_at_each_other() {
    let engine = engine();
    let sql =
        "SELECT count(*) FROM t AS scalar JOIN t AS list ON scalar.typarray = list.oid AND list.typelem = scalar.oid";
    let batches = query(&engine, "pg_catalog", "pg_type", sql);
    let count = arrow::util::display::array_value_to_string(batches[0].column(0), 0).unwrap();
    assert_eq!(count, "19");
}

#[test]
fn rows_are_counted_when_a_table_is_read() {
    let engine = engine();
    let table = provider(engine.state(), &engine.catalog().current(), "ashlar", "tables").unwrap().unwrap();
    let region = engine.catalog().grid_table("kv").unwrap();
    let key = [ashlar_base::Datum::Bytea(b"k")];
    let row = [ashlar_base::Datum::Bytea(b"k"), ashlar_base::Datum::Bytea(b"v")];
    region.entry(&key, |entry| entry.apply(ashlar_store::Mutation::Insert { row: &row })).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let batches = runtime.block_on(async {
        let context = SessionContext::new();
        context.register_table("t", table).unwrap();
        let sql = "SELECT name, kind, rows, bytes > 0 AS takes, partitions, path FROM t WHERE name = 'kv'";
        context.sql(sql).await.unwrap().collect().await.unwrap()
    });
    expect![[r#"
        +------+------+------+-------+------------+------+
        | name | kind | rows | takes | partitions | path |
        +------+------+------+-------+------------+------+
        | kv   | grid | 1    | true  | 256        |      |
        +------+------+------+-------+------------+------+"#]]
    .assert_eq(&pretty_format_batches(&batches).unwrap().to_string());
}

#[test]
fn functions_know_null() {
    check(
        "pg_catalog",
        "pg_database",
        "SELECT pg_encoding_to_char(encoding) AS encoding, array_to_string(datacl, ',') AS acl, \
         pg_table_is_visible(NULL) AS visible, pg_get_expr(NULL, 1) AS expr, format_type(1043, NULL) AS type, \
         has_table_privilege(16385, 'SELECT') AS may, current_schemas(true) AS path FROM t",
        expect![[r#"
            +----------+-----+---------+------+-------------------+------+----------------------+
            | encoding | acl | visible | expr | type              | may  | path                 |
            +----------+-----+---------+------+-------------------+------+----------------------+
            | UTF8     |     |         |      | character varying | true | [pg_catalog, public] |
            +----------+-----+---------+------+-------------------+------+----------------------+
        "#]],
    );
}

#[test]
fn comments_are_numbered_as_what_they_are_about() {
    let engine = engine();
    for sql in [
        "COMMENT ON TABLE item IS 'table'",
        "COMMENT ON COLUMN item.label IS 'column'",
        "COMMENT ON INDEX item_pkey IS 'index'",
        "COMMENT ON CONSTRAINT item_id_not_null ON item IS 'constraint'",
        "COMMENT ON DATABASE ashlar IS 'database'",
    ] {
        testing::alone(&engine, sql).unwrap();
    }
    let rows =
        |table| pretty_format_batches(&query(&engine, "pg_catalog", table, "SELECT * FROM t")).unwrap().to_string();
    expect![[r#"
        +------------+----------+----------+------------------------+
        | objoid     | classoid | objsubid | description            |
        +------------+----------+----------+------------------------+
        | 2200       | 2615     | 0        | standard public schema |
        | 16385      | 1259     | 0        | table                  |
        | 16385      | 1259     | 2        | column                 |
        | 2147500033 | 1259     | 0        | index                  |
        | 33556481   | 2606     | 0        | constraint             |
        +------------+----------+----------+------------------------+"#]]
    .assert_eq(&rows("pg_description"));
    expect![[r#"
        +--------+----------+-------------+
        | objoid | classoid | description |
        +--------+----------+-------------+
        | 5      | 1262     | database    |
        +--------+----------+-------------+"#]]
    .assert_eq(&rows("pg_shdescription"));
}
