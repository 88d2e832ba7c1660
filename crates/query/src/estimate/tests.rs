//! Estimates against what is there.

use std::sync::Arc;

use datafusion::logical_expr::lit;

use super::*;
use crate::testing;

/// A table of 2,000 rows, a fifth of which have 1 in `v`, a tenth NULL; the others have each a value of their own.
fn analysed() -> Arc<Region> {
    let engine = testing::engine_with(&[
        "CREATE TABLE t (id integer PRIMARY KEY, v integer, s text)",
        "INSERT INTO t SELECT i, CASE WHEN i % 5 = 0 THEN 1 WHEN i % 10 = 1 THEN NULL ELSE i END, 'x' || i % 4 \
         FROM generate_series(1, 2000) AS g(i)",
    ]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let catalog = engine.catalog().current();
    runtime.block_on(crate::analyze::run(&engine, &catalog, &[])).unwrap();
    Arc::clone(catalog.grid("t").unwrap())
}

#[test]
fn conditions_leave_about_as_many_rows_as_estimated() {
    let region = analysed();
    let (schema, known) = (region.schema(), region.statistics().unwrap());
    let estimator = Estimator { schema: &schema, known: &known };
    let column = |ordinal: usize| column_by_id(schema.columns[ordinal].id);
    let (v, s) = (column(1), column(2));
    let cases = [
        (v.clone().eq(lit(1)), 0.2, 0.01),
        (v.clone().eq(lit(7)), 1.0 / 2000.0, 0.0005),
        (v.clone().is_null(), 0.1, 0.001),
        (v.clone().is_not_null(), 0.9, 0.001),
        (v.clone().gt(lit(1000)), 0.35, 0.03),
        (v.clone().lt_eq(lit(1)), 0.2, 0.02),
        (v.clone().between(lit(500), lit(1000)), 0.175, 0.03),
        (v.clone().in_list(vec![lit(1), lit(7)], false), 0.2, 0.01),
        (v.clone().eq(lit(1)).or(v.clone().is_null()), 0.28, 0.01),
        (s.clone().eq(lit("x3")), 0.25, 0.001),
        (s.clone().eq(lit("nobody")), 0.0, 0.001),
        (s.clone().eq(lit("x3")).and(v.clone().eq(lit(1))), 0.05, 0.01),
        (v.clone().eq(lit(ScalarValue::Int32(None))), 0.0, 0.0),
    ];
    for (condition, expected, within) in cases {
        let part = estimator.one(&condition);
        assert!((part - expected).abs() <= within, "{condition}: {part}, expected {expected}");
    }
}

#[test]
fn the_engine_is_told_of_estimates_as_estimates() {
    let region = analysed();
    let told = of_table(&region, &region.arrow_schema(), &[0, 1, 2], Some(0.5));
    assert_eq!(told.num_rows, Precision::Inexact(1000));
    assert_eq!(told.column_statistics[1].null_count, Precision::Inexact(100));
    assert_eq!(told.column_statistics[2].distinct_count, Precision::Inexact(4));
    assert_eq!(told.column_statistics[2].byte_size, Precision::Inexact(2000));
    assert_eq!(told.column_statistics[0].min_value, Precision::Inexact(ScalarValue::Int32(Some(1))));
    assert_eq!(told.column_statistics[0].max_value, Precision::Inexact(ScalarValue::Int32(Some(2000))));
}
