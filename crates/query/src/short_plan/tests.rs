//! Short plans give what the engine gives, or leave it to it.

use std::sync::Arc;

use ashlar_store::ColumnReader;
use datafusion::physical_plan::execute_stream;
use futures::TryStreamExt;

use super::*;
use crate::engine::Engine;
use crate::select::SelectPlan;
use crate::statement::Kind;
use crate::testing;
use crate::transaction::Transaction;

fn engine() -> Arc<Engine> {
    testing::engine_with(&[
        "CREATE TABLE t (id integer, part smallint, v integer, s text, n numeric(10,2), PRIMARY KEY (part, id))",
        "CREATE TABLE few (id integer PRIMARY KEY)",
        "INSERT INTO t SELECT i, i % 5, CASE WHEN i % 7 <> 0 THEN i % 50 END, 'name ' || i % 13, i / 4.0 \
         FROM generate_series(1, 6000) AS g(i)",
        "CREATE INDEX by_v ON t (v)",
        "CREATE INDEX by_both ON t (s, v, id)",
    ])
}

fn select(engine: &Engine, sql: &str) -> Arc<SelectPlan> {
    match testing::plan(engine, sql).kind {
        Kind::Select(plan) => Arc::new(*plan),
        _ => panic!("{sql} is a query"),
    }
}

fn rows(batches: &[RecordBatch], plan: &SelectPlan) -> Vec<String> {
    let mut rows = Vec::new();
    for batch in batches {
        let readers: Vec<ColumnReader<'_>> = batch
            .columns()
            .iter()
            .zip(plan.columns.iter())
            .map(|(array, column)| ColumnReader::new(array, column.sql_type).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            rows.push(format!("{:?}", readers.iter().map(|reader| reader.datum(row).to_value()).collect::<Vec<_>>()));
        }
    }
    rows
}

/// The rows of both ways; `None` where there is no short one.
fn both(
    engine: &Engine,
    transaction: &mut Transaction,
    sql: &str,
    values: &[Value],
) -> (Option<Vec<String>>, Vec<String>) {
    let plan = select(engine, sql);
    let catalog = engine.catalog().current();
    let view = transaction.view(engine.store().snapshot(), &catalog);
    let short = plan.short.as_ref().and_then(|short| short.run(engine.store(), &view, values).unwrap());
    let short = short.map(|batch| rows(&[batch], &plan));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let long = runtime.block_on(async {
        let resources = engine.resources(transaction.time, None);
        let physical = plan.physical(engine, values, &resources, &view).await.unwrap();
        let stream = execute_stream(physical, engine.task_context(view, &resources)).unwrap();
        stream.try_collect::<Vec<RecordBatch>>().await.unwrap()
    });
    (short, rows(&long, &plan))
}

#[test]
fn short_plans_answer_as_the_engine_does() {
    let engine = engine();
    let text = |text: &str| Value::Text(text.into());
    let cases: Vec<(&str, Vec<Value>)> = vec![
        ("SELECT id, s FROM t WHERE v = $1 ORDER BY id DESC LIMIT 3", vec![Value::Int4(7)]),
        (
            "SELECT id + 1, n * $2 FROM t WHERE v = $1 AND n > 100 ORDER BY id",
            vec![Value::Int4(8), Value::Numeric(15_000_000_000)],
        ),
        ("SELECT v, id FROM t WHERE s = $1 ORDER BY v DESC, id DESC LIMIT 5", vec![text("name 4")]),
        ("SELECT v, id FROM t WHERE s = $1 ORDER BY v, id LIMIT 5", vec![text("name 4")]),
        ("SELECT v, id FROM t WHERE s = $1 ORDER BY v NULLS FIRST, id LIMIT 5", vec![text("name 4")]),
        ("SELECT id FROM t WHERE s = $1 AND v = $2 ORDER BY id DESC LIMIT 1", vec![text("name 3"), Value::Int4(30)]),
        ("SELECT id FROM t WHERE s = $1 AND v > $2 ORDER BY v, id LIMIT 4", vec![text("name 3"), Value::Int4(30)]),
        ("SELECT sum(n), count(*), min(v), avg(n) FROM t WHERE v = $1 AND s = 'name 1'", vec![Value::Int4(7)]),
        ("SELECT count(*), sum(n) FROM t WHERE v = $1", vec![Value::Int4(-1)]),
        ("SELECT count(*) FILTER (WHERE id > 100), count(DISTINCT s) FROM t WHERE v = 9", vec![]),
        ("SELECT s, n FROM t WHERE part = $1 AND id IN (6, 11, 12, 16, 11) ORDER BY id", vec![Value::Int2(1)]),
        (
            "SELECT s, n FROM t WHERE part = $1 AND id = ANY ($2) ORDER BY id",
            vec![Value::Int2(1), Value::Array([Value::Int4(6), Value::Null, Value::Int4(16)].into())],
        ),
        ("SELECT id FROM t WHERE v IN (1, 2, 48) AND id < 200 ORDER BY id", vec![]),
        ("SELECT v FROM t ORDER BY v LIMIT 3", vec![]),
        ("SELECT v FROM t ORDER BY v DESC LIMIT 3", vec![]),
        (
            "SELECT x.id FROM (SELECT id, v FROM t WHERE v = 6) AS x WHERE x.id % 2 = 0 ORDER BY x.id OFFSET 2 LIMIT 2",
            vec![],
        ),
        ("SELECT id FROM t WHERE v = $1 AND $2 ORDER BY id LIMIT 2", vec![Value::Int4(3), Value::Bool(false)]),
    ];
    let mut transaction = testing::transaction();
    let check = |transaction: &mut Transaction, is_short: bool| {
        for (sql, values) in &cases {
            let (short, long) = both(&engine, transaction, sql, values);
            match short {
                Some(short) => assert_eq!(short, long, "{sql}"),
                None => assert!(
                    !is_short || sql.contains("DISTINCT") || sql.contains("NULLS FIRST") || sql.contains("AND $2"),
                    "{sql} is not short"
                ),
            }
        }
    };
    check(&mut transaction, true);
    // The transaction's own writes are seen, and what it has taken away is not.
    for sql in [
        "DELETE FROM t WHERE v = 7 AND id > 3000",
        "UPDATE t SET v = 30, s = 'name 3' WHERE id BETWEEN 10 AND 14",
        "UPDATE t SET v = -5 WHERE id = 77",
        "INSERT INTO t VALUES (9001, 1, 7, 'name 4', 1.5), (9002, 2, NULL, 'name 4', 2.5), (6, 9, 3, 'name 1', 0)",
        "DELETE FROM t WHERE part = 1 AND id BETWEEN 11 AND 15",
    ] {
        testing::run(&engine, &mut transaction, sql, true).unwrap();
    }
    check(&mut transaction, true);
    transaction.commit(engine.catalog(), engine.store()).unwrap();
    check(&mut testing::transaction(), true);
}

#[test]
fn more_rows_than_a_thread_should_look_at_are_the_engines() {
    let engine = engine();
    let view = ReadView::committed(engine.store().snapshot());
    let run = |sql: &str| {
        let plan = select(&engine, sql);
        plan.short
            .as_ref()
            .and_then(|short| short.run(engine.store(), &view, &[]).unwrap())
            .map(|batch| batch.num_rows())
    };
    assert_eq!(run("SELECT id FROM t WHERE s = 'name 5'"), Some(462));
    assert_eq!(run("SELECT id FROM t WHERE v > 2"), None);
    assert_eq!(run("SELECT id FROM t WHERE n > 2"), None);
    assert_eq!(run("SELECT id FROM t ORDER BY v LIMIT 5000"), None);
    assert_eq!(run("SELECT id FROM few WHERE id + 1 = 2"), None);
}

#[test]
fn statements_without_a_table_need_no_engine() {
    let engine = engine();
    let mut transaction = testing::transaction();
    let cases: &[(&str, &[Value])] = &[
        ("SELECT 1", &[]),
        ("SELECT 'a' || 'b' AS x, NULL, 2.50::numeric(5,2), ARRAY[1, 2]", &[]),
        ("SELECT $1::integer + 1 AS n, $2::text", &[Value::Int4(41), Value::Text("x".into())]),
        ("SELECT count(*), sum(3), max($1::text)", &[Value::Text("y".into())]),
        ("SELECT 5 AS a ORDER BY a LIMIT 1", &[]),
        ("SELECT 5 AS a LIMIT 0", &[]),
        ("SELECT a + 1 FROM (SELECT 2 AS a) AS s", &[]),
    ];
    for (sql, values) in cases {
        let (short, long) = both(&engine, &mut transaction, sql, values);
        if *sql != "SELECT 5 AS a LIMIT 0" {
            assert_eq!(short.as_ref(), Some(&long), "{sql}");
        }
    }
    for sql in
        ["SELECT random()", "SELECT 1 WHERE false", "SELECT (SELECT max(id) FROM few)", "SELECT 1 UNION SELECT 2"]
    {
        assert!(both(&engine, &mut transaction, sql, &[]).0.is_none(), "{sql}");
    }
    let view = ReadView::committed(engine.store().snapshot());
    let divides = select(&engine, "SELECT 1 / $1::integer").short.clone().unwrap();
    let error = divides.run(engine.store(), &view, &[Value::Int4(0)]).unwrap_err();
    assert_eq!(error.code(), ashlar_base::ErrorCode::DivisionByZero);
}

#[test]
fn an_error_is_the_engines_error() {
    let engine = engine();
    let view = ReadView::committed(engine.store().snapshot());
    let plan = select(&engine, "SELECT 10 / (v - 7) FROM t WHERE v = $1");
    let short = plan.short.as_ref().unwrap();
    let error = short.run(engine.store(), &view, &[Value::Int4(7)]).unwrap_err();
    assert_eq!(error.code(), ashlar_base::ErrorCode::DivisionByZero);
    let fine = short.run(engine.store(), &view, &[Value::Int4(8)]).unwrap().unwrap();
    assert!(fine.num_rows() > 50);
}
