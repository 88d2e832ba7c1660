//! Aggregates whose states are the engine's: what they make of rows, and what is charged for it.

use std::collections::BTreeMap;

use arrow::datatypes::Int64Type;
use datafusion_expr::GroupsAccumulator;
use datafusion_functions_aggregate::array_agg::array_agg_udaf;
use datafusion_functions_aggregate::stddev::stddev_udaf;

use super::*;
use crate::aggregate::states::{Habit, Stock};
use crate::memory::is_full;

fn accumulator(function: Arc<AggregateUDF>, column: &'static str) -> (Box<dyn GroupsAccumulator>, Habit) {
    let expr = aggregate(&rows(0, 1).schema(), &Wanted(function, column, false, None));
    (expr.create_groups_accumulator().unwrap(), Habit::of(&expr).unwrap())
}

fn memory_of(bytes: usize) -> Arc<Memory> {
    let reservation = MemoryConsumer::new("test").register(&context(bytes).runtime_env().memory_pool);
    Arc::new(Memory::new(reservation, Gauge::new()))
}

#[test]
fn rows_that_the_pool_has_no_memory_for_are_refused_before_they_come() {
    let (inner, habit) = accumulator(stddev_udaf(), "number");
    assert_eq!(habit, Habit::Numbers(24));
    let mut state = Stock::new(inner, habit, memory_of(100_000).charge());
    let values: [ArrayRef; 1] = [Arc::new((0..1000).map(f64::from).collect::<Float64Array>())];
    let ids: Vec<usize> = (0..1000).collect();
    let error = state.ready_for(&values, 1000, false, Wish::IfFree).unwrap_err();
    assert!(is_full(&error), "{error}");
    assert_eq!(state.bytes(), 0);
    let ready = |state: &mut Stock, count: usize| {
        state.ready_for(&[values[0].slice(0, count)], count, false, Wish::IfFree).unwrap();
        state.bytes()
    };
    // Asked for twice, as where somebody else was refused in between, it is charged once.
    let charged = ready(&mut state, 500);
    assert_eq!(ready(&mut state, 500), charged);
    state.update(&[values[0].slice(0, 500)], &ids[..500], None, 500).unwrap();
    assert_eq!(state.bytes(), 500 * 24);
    // There is room for all of its groups.
    state.ready_for(&[values[0].slice(0, 0)], 0, false, Wish::IfFree).unwrap();
    assert_eq!(state.bytes(), 500 * 24);
    state.ready_for(&values, 1000, false, Wish::Anyway).unwrap();
    assert!(state.bytes() > 100_000);
    state.update(&values, &ids, None, 1000).unwrap();
    assert_eq!(state.bytes(), 1000 * 24);
}

#[test]
fn of_a_batch_of_which_some_rows_are_kept_the_others_go() {
    let (inner, habit) = accumulator(array_agg_udaf(), "value");
    assert_eq!(habit, Habit::Rows);
    let mut state = Stock::new(inner, habit, memory_of(1 << 20).charge());
    let batch: ArrayRef = Arc::new((0..100_000_i64).collect::<Int64Array>());
    let filter = BooleanArray::from(vec![Some(true), None, Some(false), Some(true), Some(true), Some(true)]);
    let part = [batch.slice(70, 6)];
    state.ready_for(&part, 6, false, Wish::IfFree).unwrap();
    state.update(&part, &[0, 0, 0, 2, 0, 2], Some(&filter), 3).unwrap();
    assert!(state.bytes() < 1000, "{} bytes are charged for four rows", state.bytes());
    drop(part);
    let buffer = batch.as_primitive::<Int64Type>().values().inner();
    assert_eq!(buffer.strong_count(), 1);

    // There and back, each list to another group, with one that has none.
    let states = state.state().unwrap();
    let lists = [states[0].slice(1, 2)];
    state.ready_for(&lists, 2, true, Wish::IfFree).unwrap();
    state.merge(&lists, &[0, 1], 2).unwrap();
    assert!(state.bytes() < 2000, "{} bytes are charged for two rows", state.bytes());
    let found = state.evaluate().unwrap();
    let found = found.as_list::<i32>();
    assert!(found.is_null(0));
    assert_eq!(found.value(1).as_primitive::<Int64Type>().values(), &[73, 75]);
}

/// The lists of groups by their keys, each in its own order.
fn lists(batch: &RecordBatch) -> BTreeMap<i64, Vec<Vec<Option<i64>>>> {
    let keys = batch.column(0).as_primitive::<Int64Type>();
    let list = |column: &ArrayRef, row: usize| {
        let lists = column.as_list::<i32>();
        let mut values: Vec<Option<i64>> =
            if lists.is_null(row) { Vec::new() } else { lists.value(row).as_primitive::<Int64Type>().iter().collect() };
        values.sort_unstable();
        values
    };
    let lists = |row| batch.columns()[1..].iter().map(|column| list(column, row)).collect();
    keys.values().iter().enumerate().map(|(row, key)| (*key, lists(row))).collect()
}

#[test]
fn kept_rows_are_those_of_the_engine_through_files_too() {
    let input = table(&rows(40_000, 10_000), 3, 2048);
    let wanted =
        || vec![Wanted(array_agg_udaf(), "value", false, None), Wanted(array_agg_udaf(), "value", false, Some("flag"))];
    let expected = lists(&run(stock(&input, &["id"], &wanted(), true), context(1 << 30)).unwrap());
    let free = own(&input, &["id"], &wanted());
    assert_eq!(lists(&run(Arc::clone(&free), context(1 << 30)).unwrap()), expected);
    assert_eq!(files(&free), 0);
    for share in [3, 12] {
        let plan = own(&input, &["id"], &wanted());
        let found = run(Arc::clone(&plan), context(peak(&free) / share)).unwrap();
        assert!(files(&plan) > 0, "{share}");
        assert_eq!(lists(&found), expected, "{share}");
    }
}

#[test]
fn few_groups_with_very_many_rows_leave_their_front() {
    // A stream has more rows than a front may keep.
    let input = table(&rows(200_000, 5), 3, 8192);
    let wanted = || vec![Wanted(array_agg_udaf(), "value", false, None)];
    let expected = lists(&run(stock(&input, &["id"], &wanted(), true), context(1 << 30)).unwrap());
    let free = own(&input, &["id"], &wanted());
    assert_eq!(lists(&run(Arc::clone(&free), context(1 << 30)).unwrap()), expected);
    let plan = own(&input, &["id"], &wanted());
    let found = run(Arc::clone(&plan), context(peak(&free) / 4)).unwrap();
    assert!(files(&plan) > 0);
    assert_eq!(lists(&found), expected);
}
