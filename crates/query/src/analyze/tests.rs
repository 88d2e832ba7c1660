//! When statistics are gathered again.

use ashlar_base::Value;

use super::*;
use crate::testing;

/// An engine with a table of 2,000 rows that was analysed, and the table.
fn analysed() -> (tokio::runtime::Runtime, Arc<Engine>, Arc<Region>) {
    let engine = testing::engine_with(&[
        "CREATE TABLE jobs (id integer PRIMARY KEY, state integer)",
        "INSERT INTO jobs SELECT i, 1 FROM generate_series(1, 2000) AS g(i)",
    ]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let catalog = engine.catalog().current();
    runtime.block_on(run(&engine, &catalog, &[])).unwrap();
    let region = Arc::clone(catalog.grid("jobs").unwrap());
    (runtime, engine, region)
}

/// As many rows as before, and others.
const REPLACED: [&str; 2] =
    ["INSERT INTO jobs SELECT i, 2 FROM generate_series(2001, 4000) AS g(i)", "DELETE FROM jobs WHERE id <= 2000"];

#[test]
fn statistics_are_old_when_every_row_was_replaced() {
    let (_, engine, region) = analysed();
    // Held here: the background may look at the table meanwhile.
    let known = region.statistics().unwrap();
    assert!(!are_old(&known, &region));
    testing::alone(&engine, "INSERT INTO jobs SELECT i, 1 FROM generate_series(5001, 5500) AS g(i)").unwrap();
    assert!(!are_old(&known, &region), "few rows have come");
    testing::alone(&engine, "DELETE FROM jobs WHERE id > 5000").unwrap();
    assert!(are_old(&known, &region), "a thousand rows have come and gone");
    let (_, engine, region) = analysed();
    let known = region.statistics().unwrap();
    REPLACED.iter().for_each(|sql| drop(testing::alone(&engine, sql).unwrap()));
    assert_eq!(region.row_estimate(), known.rows);
    assert!(are_old(&known, &region));
}

#[test]
fn a_round_in_the_background_finds_the_rows_of_a_table_that_keeps_its_size() {
    let (runtime, engine, region) = analysed();
    let states = |region: &Region| {
        let known = region.statistics().unwrap();
        let common = &known.columns[1].common;
        common.iter().map(|(value, _)| value.clone()).collect::<Vec<_>>()
    };
    assert_eq!(states(&region), [Value::Int4(1)]);
    runtime.block_on(round(&engine));
    REPLACED.iter().for_each(|sql| drop(testing::alone(&engine, sql).unwrap()));
    runtime.block_on(round(&engine));
    assert_eq!(states(&region), [Value::Int4(2)]);
    let known = region.statistics().unwrap();
    assert!(!are_old(&known, &region));
    runtime.block_on(round(&engine));
    assert!(Arc::ptr_eq(&known, &region.statistics().unwrap()), "nothing has changed since");
}
