//! What is taken and what is left to the engine, and what an answer costs.

use ashlar_store::Mutation;

use super::*;
use crate::engine::Engine;
use crate::statement::Kind;
use crate::{counting, testing};

/// An engine with a table of 10,000 rows: `v` is `id`, `s` one of a hundred texts. Indexes are on `v`, and on `s` and `v`.
fn engine() -> Arc<Engine> {
    let engine = testing::engine_with(&["CREATE TABLE t (id bigint PRIMARY KEY, v bigint, s text)"]);
    let region = Arc::clone(engine.catalog().current().grid("t").unwrap());
    for id in 0..10_000i64 {
        let text = format!("text {}", id % 100);
        let row = [Datum::Int8(id), Datum::Int8(id), Datum::Text(&text)];
        region.entry(&row[..1], |entry| entry.apply(Mutation::Insert { row: &row })).unwrap();
    }
    for sql in ["CREATE INDEX by_v ON t (v)", "CREATE INDEX by_both ON t (s, v)"] {
        testing::alone(&engine, sql).unwrap();
    }
    engine
}

fn plan(engine: &Engine, sql: &str) -> Option<Arc<IndexPlan>> {
    match testing::plan(engine, sql).kind {
        Kind::Select(plan) => plan.indexed,
        Kind::Key(_) => None,
        _ => panic!("{sql} is a query"),
    }
}

/// The first columns of the rows; `None`: the engine has to answer.
fn run(engine: &Engine, plan: &IndexPlan, parameters: &[Value]) -> Option<Vec<Value>> {
    let mut rows = Vec::new();
    let snapshot = engine.store().snapshot();
    let count = plan.run(&snapshot, parameters, &mut |values| rows.extend(values.next().map(|value| value.to_value())));
    let count = count?;
    assert_eq!(count, rows.len() as u64);
    rows.sort_by_key(|value| format!("{value:?}"));
    Some(rows)
}

#[test]
fn equalities_with_the_first_columns_of_an_index_are_taken() {
    let engine = engine();
    let asked = |sql: &str, parameters: &[Value]| run(&engine, &plan(&engine, sql).expect(sql), parameters);
    let text = |text: &str| Value::Text(text.into());
    assert_eq!(asked("SELECT id FROM t WHERE v = $1", &[Value::Int8(77)]), Some(vec![Value::Int8(77)]));
    assert_eq!(asked("SELECT s, id FROM t AS a WHERE 77 = a.v", &[]), Some(vec![text("text 77")]));
    assert_eq!(asked("SELECT id FROM t WHERE v = $1", &[Value::Int8(-1)]), Some(vec![]));
    assert_eq!(asked("SELECT id FROM t WHERE v = $1", &[Value::Null]), Some(vec![]));
    let both = "SELECT id FROM t WHERE v = $1 AND s = $2";
    assert_eq!(asked(both, &[Value::Int8(177), text("text 77")]), Some(vec![Value::Int8(177)]));
    assert_eq!(asked(both, &[Value::Int8(177), text("text 78")]), Some(vec![]));
    assert_eq!(asked("SELECT id FROM t WHERE v = 5 LIMIT 0", &[]), Some(vec![]));
    let limited = asked("SELECT id FROM t WHERE s = 'text 9' AND v = 909 LIMIT 3", &[]);
    assert_eq!(limited, Some(vec![Value::Int8(909)]));
}

#[test]
fn everything_else_is_left_to_the_engine() {
    let engine = engine();
    for sql in [
        "SELECT id FROM t WHERE v > 5",
        "SELECT id FROM t WHERE v = 5 OR v = 6",
        "SELECT id FROM t WHERE v = 5 AND id > 3",
        "SELECT id FROM t WHERE v = 5 ORDER BY id",
        "SELECT id FROM t WHERE v = 5 LIMIT 1 OFFSET 1",
        "SELECT DISTINCT id FROM t WHERE v = 5",
        "SELECT count(*) FROM t WHERE v = 5",
        "SELECT id + 1 FROM t WHERE v = 5",
        "SELECT id FROM t WHERE v = 5.5",
        "SELECT id FROM t WHERE v = 3000000000000000000000",
        "SELECT id FROM t",
        "WITH t AS (SELECT 1 AS id, 5 AS v) SELECT id FROM t WHERE v = 5",
    ] {
        assert!(plan(&engine, sql).is_none(), "{sql}");
    }
    // A column named twice leaves none for another condition.
    let (region, _) = engine.catalog().current().index("by_v", |_| false).unwrap();
    let id = engine.catalog().next_id();
    let columns = vec![ColumnId(0), ColumnId(0), ColumnId(2)];
    let twice = Arc::new(IndexDef::plain(id, "twice", IndexKind::Btree, columns));
    engine.catalog().add_index(&region, &twice, |_| false).unwrap();
    region.build_index(&twice).unwrap();
    region.drop_index(&engine.catalog().current().index("by_both", |_| false).unwrap().1);
    assert!(plan(&engine, "SELECT v FROM t WHERE id = 5 AND s = 'text 6'").is_none());
    // More rows than a connection's thread collects, and an index that is gone.
    let by_text = Arc::new(IndexDef::plain(id, "by_text", IndexKind::Hash, vec![ColumnId(2)]));
    region.drop_index(&twice);
    engine.catalog().add_index(&region, &by_text, |_| false).unwrap();
    region.build_index(&by_text).unwrap();
    let many = plan(&engine, "SELECT id FROM t WHERE s = 'text 5'").unwrap();
    assert_eq!(run(&engine, &many, &[]), None);
    let one = plan(&engine, "SELECT id FROM t WHERE v = 5").unwrap();
    let (region, index) = engine.catalog().current().index("by_v", |_| false).unwrap();
    region.drop_index(&index);
    assert_eq!(run(&engine, &one, &[]), None);
    engine.store().drop_region(region.id());
    assert_eq!(run(&engine, &one, &[]), None);
}

#[test]
fn an_answer_allocates_less_than_four_kilobytes() {
    let engine = engine();
    let plan = plan(&engine, "SELECT id FROM t WHERE v = $1 LIMIT 1").unwrap();
    let snapshot = engine.store().snapshot();
    let mut found = 0;
    let before = counting::allocated();
    for id in 0..1_000 {
        let count = plan.run(&snapshot, &[Value::Int8(id * 9)], &mut |_| found += 1);
        assert_eq!(count, Some(1));
    }
    let bytes = (counting::allocated() - before) / 1_000;
    assert_eq!(found, 1_000);
    assert!(bytes < 4096, "{bytes} bytes a query");
}
