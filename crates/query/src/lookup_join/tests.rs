//! Lookup joins give what hash joins give.

use std::sync::Arc;

use arrow::array::RecordBatch;
use ashlar_base::Value;
use ashlar_base::value::text::Zone;
use ashlar_store::ColumnReader;
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::TryStreamExt;

use super::LookupJoinExec;
use crate::engine::{Engine, Operators, Whose};
use crate::statement::Kind;
use crate::testing;

fn engine() -> Arc<Engine> {
    testing::engine_with(&[
        "CREATE TABLE big (id integer PRIMARY KEY, g bigint, s text)",
        "CREATE TABLE pair (a smallint, b integer, x text, PRIMARY KEY (a, b))",
        "CREATE TABLE few (id bigint, a integer, s text)",
        "CREATE TABLE plain (id bigint, g bigint, a integer, b integer, x text, s text)",
        "INSERT INTO big SELECT i, i % 1000, 'text ' || i % 40 FROM generate_series(1, 20000) AS n(i)",
        "INSERT INTO pair SELECT i % 10, i / 10, 'x' || i FROM generate_series(1, 20000) AS n(i)",
        "INSERT INTO few VALUES (5, 3, 'text 5'), (5, NULL, NULL), (NULL, 2, 'text 1'), (99999999999, 1, 'none'), \
         (19999, 9, 'text 7'), (-1, 4, 'text 8'), (700, 100000, 'text 20')",
        "CREATE INDEX big_g ON big (g)",
    ])
}

async fn run(engine: &Engine, sql: &str) -> (Vec<String>, String) {
    let (plan, found) = run_with(engine, sql, None).await;
    (found.unwrap(), DisplayableExecutionPlan::new(plan.as_ref()).indent(false).to_string())
}

/// The plan of a query that may hold so many bytes, when it has run, and its rows in an order.
async fn run_with(engine: &Engine, sql: &str, memory: Option<usize>) -> (Arc<dyn ExecutionPlan>, Result<Vec<String>>) {
    let Kind::Select(plan) = testing::plan(engine, sql).kind else { panic!("{sql} is a query") };
    let transaction = testing::transaction();
    let view = transaction.view(engine.store().snapshot(), &engine.catalog().current());
    let resources = engine.resources(transaction.time, memory);
    let physical = plan.physical(engine, &[], &resources, &view).await.unwrap();
    let stream = execute_stream(Arc::clone(&physical), engine.task_context(view, &resources)).unwrap();
    let batches: Vec<RecordBatch> = match stream.try_collect().await {
        Ok(batches) => batches,
        Err(error) => return (physical, Err(error)),
    };
    let mut rows = Vec::new();
    for batch in &batches {
        let readers: Vec<ColumnReader<'_>> = batch
            .columns()
            .iter()
            .zip(plan.columns.iter())
            .map(|(array, column)| ColumnReader::new(array, column.sql_type).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            let values: Vec<Value> = readers.iter().map(|reader| reader.datum(row).to_value()).collect();
            rows.push(format!("{values:?}"));
        }
    }
    rows.sort();
    (physical, Ok(rows))
}

/// How often the lookup joins of a plan have written to files, and the most that one of them has held.
fn files_and_peak(plan: &Arc<dyn ExecutionPlan>) -> (usize, usize) {
    let (mut files, mut peak) = (0, 0);
    plan.apply(|node| {
        if node.is::<LookupJoinExec>() {
            let metrics = node.metrics().unwrap();
            files += metrics.spill_count().unwrap_or(0);
            peak = peak.max(metrics.sum_by_name("peak_mem_used").map_or(0, |peak| peak.as_usize()));
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
    (files, peak)
}

/// Rows whose keys the lookup joins of a plan have asked their tables for.
fn rows_looked_up(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let mut rows = 0;
    plan.apply(|node| {
        if node.is::<LookupJoinExec>() {
            rows += node.metrics().unwrap().sum_by_name("rows_looked_up").map_or(0, |rows| rows.as_usize());
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
    rows
}

/// The tables in a query, with a name for each that no key and no index is known of.
fn unkeyed(sql: &str) -> String {
    sql.replace("big", "big_copy").replace("pair", "pair_copy")
}

#[test]
fn lookup_joins_give_what_hash_joins_give() {
    let engine = engine();
    for sql in ["CREATE TABLE big_copy AS SELECT * FROM big", "CREATE TABLE pair_copy AS SELECT * FROM pair"] {
        testing::alone(&engine, sql).unwrap();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    for sql in [
        "SELECT few.*, big.* FROM few JOIN big ON big.id = few.id",
        "SELECT few.*, big.* FROM big JOIN few ON few.id = big.id AND big.s <> few.s",
        "SELECT few.*, big.* FROM few LEFT JOIN big ON big.id = few.id",
        "SELECT few.*, big.* FROM big RIGHT JOIN few ON big.id = few.id AND big.g > 10",
        "SELECT * FROM few WHERE EXISTS (SELECT 1 FROM big WHERE big.id = few.id)",
        "SELECT * FROM few WHERE NOT EXISTS (SELECT 1 FROM big WHERE big.id = few.id AND big.g < 500)",
        "SELECT big.* FROM big WHERE big.id IN (SELECT id FROM few)",
        "SELECT few.id, big.id, big.s FROM few JOIN big ON big.g = few.id",
        "SELECT few.id, big.id FROM few LEFT JOIN big ON big.g = few.id AND big.s = few.s",
        "SELECT few.a, pair.* FROM few JOIN pair ON pair.a = few.a AND pair.b = few.id",
        "SELECT few.a, pair.* FROM few LEFT JOIN pair ON pair.a = 3 AND pair.b = few.id",
        "SELECT few.id, b.id, p.x FROM few JOIN big AS b ON b.id = few.id JOIN pair AS p ON p.a = few.a AND p.b = b.id",
        "SELECT b.id, c.id FROM big AS b JOIN big AS c ON c.id = b.g WHERE b.id = 77",
        "SELECT count(*), sum(b.g) FROM (SELECT id FROM few ORDER BY id LIMIT 3) AS f JOIN big AS b ON b.id = f.id",
    ] {
        let (found, shown) = runtime.block_on(run(&engine, sql));
        let (expected, other) = runtime.block_on(run(&engine, &unkeyed(sql)));
        assert!(shown.contains("LookupJoinExec"), "{sql}\n{shown}");
        assert!(!other.contains("LookupJoinExec"), "{sql}\n{other}");
        assert_eq!(found, expected, "{sql}");
    }
    // Rows of the table without a partner are asked for, or NULL is equal to NULL: no keys help.
    for sql in [
        "SELECT few.*, big.* FROM big LEFT JOIN few ON big.id = few.id WHERE big.g = 7 OR big.g = 5 OR big.s LIKE 'a%'",
        "SELECT few.id, big.id FROM few FULL JOIN big ON big.id = few.id WHERE few.id IS NULL OR big.g < 5",
    ] {
        let (found, shown) = runtime.block_on(run(&engine, sql));
        let (expected, _) = runtime.block_on(run(&engine, &unkeyed(sql)));
        assert!(!shown.contains("LookupJoinExec"), "{sql}\n{shown}");
        assert_eq!(found, expected, "{sql}");
    }
    let sql = "SELECT id, a, s FROM few WHERE id NOT IN (SELECT id FROM big)";
    assert_eq!(runtime.block_on(run(&engine, sql)).0, runtime.block_on(run(&engine, &unkeyed(sql))).0, "{sql}");
}

#[test]
fn the_items_of_an_array_are_looked_up() {
    let engine = engine();
    testing::alone(&engine, "CREATE TABLE big_copy AS SELECT * FROM big").unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    for sql in [
        "SELECT big.* FROM unnest('{5,700,NULL,-1,5}'::integer[]) AS n (id) JOIN big ON big.id = n.id",
        "WITH n AS (SELECT id FROM unnest('{5,700}'::integer[], '{a,b}'::text[]) AS u (id, s)) \
         SELECT big.* FROM big, n WHERE big.id = n.id",
    ] {
        let (found, shown) = runtime.block_on(run(&engine, sql));
        let (expected, _) = runtime.block_on(run(&engine, &unkeyed(sql)));
        assert!(shown.contains("LookupJoinExec"), "{sql}\n{shown}");
        assert_eq!(found, expected, "{sql}");
        assert!(!found.is_empty(), "{sql}");
    }
}

#[test]
fn an_index_by_hash_is_asked_for_equal_values() {
    let engine = engine();
    for sql in ["CREATE TABLE big_copy AS SELECT * FROM big", "CREATE INDEX big_s ON big USING hash (s)"] {
        testing::alone(&engine, sql).unwrap();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    for sql in [
        "SELECT few.id, big.id FROM few JOIN big ON big.s = few.s",
        "SELECT few.*, big.* FROM few LEFT JOIN big ON big.s = few.s AND big.id < 5000",
        "SELECT * FROM few WHERE NOT EXISTS (SELECT 1 FROM big WHERE big.s = few.s)",
    ] {
        let (found, shown) = runtime.block_on(run(&engine, sql));
        let (expected, _) = runtime.block_on(run(&engine, &unkeyed(sql)));
        assert!(shown.contains("by index big_s of"), "{sql}\n{shown}");
        assert_eq!(found, expected, "{sql}");
        assert!(!found.is_empty(), "{sql}");
    }
}

#[test]
fn a_small_side_that_turns_out_large_is_hashed() {
    let engine = engine();
    let sql = "INSERT INTO plain SELECT i, 7, 0, 0, NULL, NULL FROM generate_series(1, 20000) AS n(i)";
    testing::alone(&engine, sql).unwrap();
    testing::alone(&engine, "CREATE INDEX plain_g ON plain (g)").unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    // An index says that few rows are meant, and they are all there are.
    let sql = "SELECT count(*), sum(big.g) FROM plain JOIN big ON big.id = plain.id WHERE plain.g = 7";
    let (found, shown) = runtime.block_on(run(&engine, sql));
    assert!(shown.contains("LookupJoinExec"), "{shown}");
    let (expected, _) = runtime.block_on(run(&engine, "SELECT count(*), sum(g) FROM big"));
    assert_eq!(found, expected);
}

#[test]
fn a_side_that_is_hashed_goes_to_files_where_it_has_no_room() {
    let engine = engine();
    for sql in [
        "CREATE TABLE big_copy AS SELECT * FROM big",
        "INSERT INTO plain SELECT i, 7, 0, 0, repeat('x', 100) || i, NULL FROM generate_series(1, 20000) AS n(i)",
        "CREATE INDEX plain_g ON plain (g)",
    ] {
        testing::alone(&engine, sql).unwrap();
    }
    let stock = engine.of_session(Zone::Utc, Operators { joins: Whose::Stock, ..Operators::default() }).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let little = Some(256 << 10);
    for sql in [
        "SELECT plain.id, plain.x, big.s FROM plain JOIN big ON big.id = plain.id WHERE plain.g = 7",
        "SELECT plain.id, plain.x, big.s FROM plain LEFT JOIN big ON big.id = plain.id AND big.s <> 'text 3' \
         WHERE plain.g = 7",
        "SELECT plain.id, plain.x FROM plain WHERE g = 7 \
         AND NOT EXISTS (SELECT 1 FROM big WHERE big.id = plain.id AND big.s <> 'text 3')",
    ] {
        let (expected, _) = runtime.block_on(run(&engine, &unkeyed(sql)));
        for (engine, name) in [(&engine, "UnchainedHashJoinExec"), (&stock, "HashJoinExec")] {
            let (found, shown) = runtime.block_on(run(engine, sql));
            assert!(shown.contains("LookupJoinExec"), "{sql}\n{shown}");
            assert!(shown.contains(&format!(", in {name}, by the key of")), "{sql}\n{shown}");
            assert!(found == expected, "{sql} in {name}");
        }
        let (plan, found) = runtime.block_on(run_with(&engine, sql, little));
        assert!(found.unwrap() == expected, "{sql} in files");
        let (files, peak) = files_and_peak(&plan);
        assert!(files > 0 && peak > 0, "{sql}: {files} files, {peak} bytes");
        // The engine's has no files to go to.
        let (_, found) = runtime.block_on(run_with(&stock, sql, little));
        let error = found.unwrap_err().to_string();
        assert!(error.contains("more memory than"), "{sql}: {error}");
    }
}

#[test]
fn rows_without_memory_for_their_keys_are_hashed() {
    let engine = engine();
    for sql in [
        "CREATE TABLE big_copy AS SELECT * FROM big",
        "INSERT INTO plain SELECT i, 7, 0, 0, repeat('x', 100) || i, NULL FROM generate_series(1, 2000) AS n(i)",
        "CREATE INDEX plain_g ON plain (g)",
    ] {
        testing::alone(&engine, sql).unwrap();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let sql = "SELECT plain.id, plain.x, big.s FROM plain JOIN big ON big.id = plain.id WHERE plain.g = 7";
    let (expected, shown) = runtime.block_on(run(&engine, &unkeyed(sql)));
    assert!(expected.len() == 2000 && !shown.contains("LookupJoinExec"), "{shown}");
    let (mut asked, mut hashed) = (0, 0);
    for kilobytes in (256_usize..=2048).step_by(128) {
        let (plan, found) = runtime.block_on(run_with(&engine, sql, Some(kilobytes << 10)));
        assert!(found.unwrap() == expected, "{kilobytes} kB");
        match rows_looked_up(&plan) {
            2000 => asked += 1,
            0 => hashed += 1,
            some => panic!("{some} rows were looked up with {kilobytes} kB"),
        }
    }
    assert!(asked > 0 && hashed > 0, "{asked} times by keys, {hashed} times by hash");
}
