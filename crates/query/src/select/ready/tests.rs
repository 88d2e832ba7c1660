//! Plans that are kept give what plans made anew give, whatever happened in between and however many run at once.

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use ashlar_base::value::text::Zone;

use crate::engine::{Engine, Operators, Whose};
use crate::select::SelectPlan;
use crate::statement::Kind;
use crate::testing;

fn planned(engine: &Engine, sql: &str) -> SelectPlan {
    match testing::plan(engine, sql).kind {
        Kind::Select(select) => *select,
        _ => panic!("{sql}"),
    }
}

async fn rows(engine: &Engine, select: &SelectPlan) -> String {
    use futures::TryStreamExt;
    let transaction = testing::transaction();
    let resources = engine.resources(transaction.time, None);
    let mut transaction = transaction;
    let snapshot = transaction.snapshot(engine.store());
    let view = transaction.view(snapshot, &engine.catalog().current());
    let batches: Vec<RecordBatch> =
        select.stream_by_engine(engine, &[], view, &resources).await.unwrap().try_collect().await.unwrap();
    let mut lines: Vec<String> = pretty_format_batches(&batches).unwrap().to_string().lines().map(Into::into).collect();
    lines.sort();
    lines.join("\n")
}

fn is_kept(select: &SelectPlan) -> bool {
    select.ready.0.lock().is_some()
}

const KEPT: [&str; 8] = [
    "SELECT sum(v) FROM t",
    "SELECT count(*) FROM t",
    "SELECT avg(v), stddev(v), count(DISTINCT s) FROM t",
    "SELECT s, sum(v) FROM t GROUP BY s",
    "SELECT s, count(*) FROM t GROUP BY s HAVING count(*) > 1",
    "SELECT id, v + 1 FROM t",
    "SELECT DISTINCT s FROM t ORDER BY s",
    "SELECT sum(v) FROM (SELECT v FROM t UNION ALL SELECT id FROM t) AS both_of_them",
];

#[test]
fn plans_that_are_kept_read_what_is_there_when_they_run() {
    let engine = testing::engine_with(&[
        "CREATE TABLE t (id integer PRIMARY KEY, v integer, s text)",
        "INSERT INTO t SELECT i, i * 3, 'group ' || i % 7 FROM generate_series(1, 1000) AS g(i)",
    ]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let selects: Vec<SelectPlan> = KEPT.iter().map(|sql| planned(&engine, sql)).collect();
    for change in ["DELETE FROM t WHERE id < 10", "UPDATE t SET v = 5, s = 'one' WHERE id < 500", "DELETE FROM t"] {
        for (sql, select) in KEPT.iter().zip(&selects) {
            let expected = runtime.block_on(rows(&engine, &planned(&engine, sql)));
            assert_eq!(runtime.block_on(rows(&engine, select)), expected, "{sql}");
            assert_eq!(runtime.block_on(rows(&engine, select)), expected, "{sql}, again");
            let both = runtime.block_on(async { tokio::join!(rows(&engine, select), rows(&engine, select)) });
            assert_eq!(both, (expected.clone(), expected), "{sql}, two at once");
        }
        testing::alone(&engine, change).unwrap();
    }
    let not_kept: Vec<&str> = KEPT.iter().zip(&selects).filter(|(_, of)| !is_kept(of)).map(|(sql, _)| *sql).collect();
    // A union's node has a state of its own that is not known here.
    assert_eq!(not_kept, [KEPT[7]]);
}

#[test]
fn a_plan_that_was_kept_before_its_table_was_analysed_is_made_anew() {
    let engine = testing::engine_with(&[
        "CREATE TABLE t (id integer PRIMARY KEY, v integer, s text)",
        "INSERT INTO t SELECT i, i * 3, 'group ' || i % 7 FROM generate_series(1, 1000) AS g(i)",
    ]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let select = planned(&engine, "SELECT s, sum(v) FROM t GROUP BY s");
    let is_ready = || select.ready.take(engine.state()).unwrap().is_some();
    let found = runtime.block_on(rows(&engine, &select));
    assert!(is_ready());
    runtime.block_on(crate::analyze::run(&engine, &engine.catalog().current(), &[])).unwrap();
    assert!(!is_ready());
    assert_eq!(runtime.block_on(rows(&engine, &select)), found);
    assert!(is_ready());
}

#[test]
fn plans_with_joins_of_ours_are_kept_and_hold_nothing_of_a_run() {
    let engine = testing::engine_with(&[
        "CREATE TABLE large (id integer PRIMARY KEY, k integer)",
        "CREATE TABLE small (w integer, t text)",
        "INSERT INTO large SELECT i, i FROM generate_series(1, 5000) AS g(i)",
        "INSERT INTO small SELECT i * 17, 'text ' || i FROM generate_series(1, 100) AS g(i)",
    ]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let joins = [
        "SELECT s.t, l.id FROM large l JOIN small s ON l.k = s.w",
        "SELECT s.t, l.id FROM small s LEFT JOIN large l ON l.k = s.w",
        "SELECT l.id FROM large l WHERE NOT EXISTS (SELECT 1 FROM small s WHERE s.w = l.k)",
    ];
    let selects: Vec<SelectPlan> = joins.iter().map(|sql| planned(&engine, sql)).collect();
    for change in ["UPDATE small SET w = w + 5", "DELETE FROM small WHERE w < 100", "DELETE FROM small"] {
        for (sql, select) in joins.iter().zip(&selects) {
            let expected = runtime.block_on(rows(&engine, &planned(&engine, sql)));
            for _ in 0..2 {
                assert_eq!(runtime.block_on(rows(&engine, select)), expected, "{sql}");
            }
            let both = runtime.block_on(async { tokio::join!(rows(&engine, select), rows(&engine, select)) });
            assert_eq!(both, (expected.clone(), expected), "{sql}, two at once");
        }
        testing::alone(&engine, change).unwrap();
    }
    assert!(selects.iter().all(is_kept));
    drop(runtime);
    assert_eq!(engine.state().runtime_env().memory_pool.reserved(), 0, "what a plan that is kept holds");
}

#[test]
fn what_depends_on_conditions_or_tells_a_scan_what_it_found_is_not_kept() {
    let engine = testing::engine_with(&[
        "CREATE TABLE t (id integer PRIMARY KEY, v integer, s text)",
        "INSERT INTO t SELECT i, i * 3, 'group ' || i % 7 FROM generate_series(1, 1000) AS g(i)",
    ]);
    // The filter of a join of the engine's is a part of its plan; ours has one for each run.
    let engine = engine.of_session(Zone::Utc, Operators { joins: Whose::Stock, ..Operators::default() }).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    for sql in [
        "SELECT v FROM t WHERE v + 1 > 5",
        "SELECT min(s), max(s) FROM t",
        "SELECT v FROM t ORDER BY v LIMIT 3",
        "SELECT a.v FROM t AS a JOIN t AS b ON a.v = b.id",
    ] {
        let select = planned(&engine, sql);
        runtime.block_on(rows(&engine, &select));
        assert!(!is_kept(&select), "{sql}");
    }
}

#[test]
fn a_table_of_another_size_is_planned_anew() {
    let engine = testing::engine_with(&["CREATE TABLE t (id integer PRIMARY KEY, v integer)"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let select = planned(&engine, "SELECT sum(v) FROM t");
    runtime.block_on(rows(&engine, &select));
    let has_plan = |select: &SelectPlan| select.ready.take(engine.state()).unwrap().is_some();
    assert!(has_plan(&select));
    testing::alone(&engine, "INSERT INTO t SELECT i, i FROM generate_series(1, 4096) AS g(i)").unwrap();
    assert!(has_plan(&select), "few rows are few");
    testing::alone(&engine, "INSERT INTO t SELECT i, i FROM generate_series(5000, 15000) AS g(i)").unwrap();
    assert!(!has_plan(&select));
    runtime.block_on(rows(&engine, &select));
    assert!(has_plan(&select));
    let other = engine.of_session(Zone::Utc, Operators { joins: Whose::Stock, ..Operators::default() }).unwrap();
    assert!(select.ready.take(other.state()).unwrap().is_none(), "an engine with other rules");
}
