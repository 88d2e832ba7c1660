//! The cache over real plans of a real engine.

use super::*;
use crate::engine::Engine;
use crate::{counting, grammar, lift, testing};

fn engine() -> Arc<Engine> {
    testing::engine_with(&[
        "CREATE TABLE t (id integer PRIMARY KEY, a text, b bigint, c timestamp, d numeric(10,2), v varchar(3))",
    ])
}

fn plan(engine: &Engine, sql: &str) -> Arc<Statement> {
    Arc::new(testing::plan(engine, sql))
}

/// Plans a text for its shape and keeps it, as a session does; `None`: that was not faithful.
fn kept(engine: &Engine, cache: &PlanCache, sql: &str) -> Option<Arc<Statement>> {
    let shape = lift::shape(sql).unwrap();
    let parsed = grammar::only_one(grammar::parse(sql).unwrap()).unwrap().unwrap();
    let lifted = lift::lift(sql, &shape, &parsed)?;
    let planned = Statement::plan(engine, &engine.catalog().current(), &lifted.parsed, &lifted.declared).unwrap();
    if !lifted.is_faithful(&planned) {
        return None;
    }
    let planned = Arc::new(planned);
    cache.put(&shape.key, lifted.lifting, Arc::clone(&planned));
    Some(planned)
}

fn keep_shape(engine: &Engine, cache: &PlanCache, sql: &str) -> bool {
    kept(engine, cache, sql).is_some()
}

fn found(engine: &Engine, cache: &PlanCache, sql: &str) -> Option<Vec<Value>> {
    let shape = lift::shape(sql).unwrap();
    Some(cache.lifted(&shape, engine.catalog().epoch(), &TextStyle::default())?.values)
}

#[test]
fn texts_that_differ_in_constants_share_a_plan() {
    let engine = engine();
    let cache = PlanCache::new(1 << 20);
    assert!(keep_shape(&engine, &cache, "SELECT a FROM t WHERE id = 1"));
    assert_eq!(found(&engine, &cache, "SELECT a FROM t WHERE id = 2"), Some(vec![Value::Int4(2)]));
    assert_eq!(found(&engine, &cache, "SELECT a FROM t WHERE id = 'two'"), None);
    assert_eq!(found(&engine, &cache, "SELECT a FROM t WHERE id = 3000000000"), None);
    assert!(keep_shape(&engine, &cache, "SELECT count(*) FROM t WHERE b > 5 AND c < '2024-01-01'"));
    let values = found(&engine, &cache, "SELECT count(*) FROM t WHERE b > 6 AND c < '2025-01-01'").unwrap();
    assert_eq!(values[0], Value::Int4(6));
    assert!(matches!(values[1], Value::Timestamp(_)));
    // What cannot be read as a timestamp is left to the planner, which says why.
    assert_eq!(found(&engine, &cache, "SELECT count(*) FROM t WHERE b > 6 AND c < 'soon'"), None);
    assert_eq!(cache.len(), 2);
}

#[test]
fn a_constant_that_would_be_rounded_or_cut_is_not_lifted() {
    let engine = engine();
    let cache = PlanCache::new(1 << 20);
    assert!(!keep_shape(&engine, &cache, "SELECT a FROM t WHERE d = '1.555'"));
    assert!(!keep_shape(&engine, &cache, "SELECT a FROM t WHERE v = 'long text'"));
    // Assigning rounds and checks the length anyway.
    assert!(keep_shape(&engine, &cache, "INSERT INTO t (id, d, v) VALUES (1, '1.555', 'abc')"));
}

#[test]
fn plans_of_one_shape_are_told_apart_while_others_are_kept_and_found() {
    const THREADS: usize = 4;
    let engine = engine();
    let cache = PlanCache::new(1 << 20);
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let (engine, cache) = (&engine, &cache);
            scope.spawn(move || {
                for id in 0..20 {
                    let planned = kept(engine, cache, &format!("SELECT id + {number} FROM t WHERE id = 1")).unwrap();
                    let sql = format!("SELECT id + {number} FROM t WHERE id = {id}");
                    let shape = lift::shape(&sql).unwrap();
                    // Those of the other threads are of the same shape, and leave their places when they come anew.
                    while let Some(found) = cache.lifted(&shape, engine.catalog().epoch(), &TextStyle::default()) {
                        assert_eq!(found.values, [Value::Int4(id)]);
                        assert!(Arc::ptr_eq(&found.statement, &planned), "{sql}");
                        if id % 2 == 0 {
                            break;
                        }
                        cache.entries.lock().drop_oldest();
                    }
                }
            });
        }
    });
    assert!(cache.len() <= THREADS);
}

#[test]
fn plans_leave_in_order_of_their_use_when_bytes_run_out() {
    let engine = engine();
    let one = plan(&engine, "SELECT a FROM t WHERE id = 1").bytes() + ENTRY_BYTES + 1024;
    let cache = PlanCache::new(3 * one);
    let epoch = engine.catalog().epoch();
    for number in 0..100 {
        cache.put(&format!("key {number}"), Lifting::default(), plan(&engine, "SELECT a FROM t WHERE id = 1"));
        assert!(cache.prepared("key 0", epoch, Zone::Utc).is_some(), "used all the time");
        assert!(cache.bytes() <= 3 * one);
    }
    assert!(
        cache.prepared("key 98", epoch, Zone::Utc).is_some() || cache.prepared("key 99", epoch, Zone::Utc).is_some()
    );
    assert!(cache.prepared("key 50", epoch, Zone::Utc).is_none());
    let none = PlanCache::new(0);
    none.put("key", Lifting::default(), plan(&engine, "SELECT a FROM t"));
    assert!(none.is_empty());
}

#[test]
fn plans_of_a_former_catalog_are_gone() {
    let engine = engine();
    let cache = PlanCache::new(1 << 20);
    let before = engine.catalog().epoch();
    cache.put("key", Lifting::default(), plan(&engine, "SELECT a FROM t"));
    let mut draft = engine.catalog().draft();
    engine.catalog().put(&mut draft, "gone", None);
    engine.catalog().publish(&draft, || Ok(())).unwrap();
    assert!(cache.prepared("key", engine.catalog().epoch(), Zone::Utc).is_none());
    assert!(cache.prepared("key", before, Zone::Utc).is_some(), "a transaction may still see it");
    cache.put("other", Lifting::default(), plan(&engine, "SELECT b FROM t"));
    assert_eq!(cache.len(), 1);
}

/// The estimate that bounds the cache, against the allocator: never less than half, never more than four times.
#[test]
fn what_plans_hold_is_what_they_are_charged() {
    let engine = engine();
    for sql in [
        "SELECT * FROM t WHERE id = 1",
        "SELECT * FROM t WHERE id = $5000",
        "SELECT b FROM t WHERE b > $5000",
        "UPDATE t SET a = 'x' WHERE id = 1",
        "INSERT INTO t (id, a) VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')",
        "SELECT count(*), a FROM t WHERE b > 5 AND c < '2024-01-01' GROUP BY a ORDER BY 1 DESC LIMIT 10",
        "SELECT x.a, y.b, (SELECT max(d) FROM t) FROM t AS x JOIN t AS y ON x.id = y.b WHERE x.d BETWEEN 1 AND 2 \
         AND y.a IN ('a', 'b', 'c')",
        "WITH w AS (SELECT a, sum(d) AS s FROM t GROUP BY a) SELECT w.a, rank() OVER (ORDER BY s) FROM w \
         WHERE s > (SELECT avg(s) FROM w)",
    ] {
        drop(plan(&engine, sql));
        let before = counting::live();
        let planned = plan(&engine, sql);
        let real = usize::try_from(counting::live() - before).unwrap();
        let charged = planned.bytes();
        assert!(charged >= real / 2 && charged <= real * 4, "{sql}: holds {real}, charged {charged}");
    }
}
