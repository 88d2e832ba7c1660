//! Aggregates whose states are the engine's: what they make of rows, and what is charged for it.

use std::collections::BTreeMap;

use arrow::datatypes::{Float64Type, Int64Type};
use datafusion_expr::GroupsAccumulator;
use datafusion_functions_aggregate::array_agg::array_agg_udaf;
use datafusion_functions_aggregate::bit_and_or_xor::{bit_and_udaf, bit_or_udaf, bit_xor_udaf};
use datafusion_functions_aggregate::bool_and_or::{bool_and_udaf, bool_or_udaf};
use datafusion_functions_aggregate::median::median_udaf;
use datafusion_functions_aggregate::stddev::stddev_udaf;
use datafusion_functions_aggregate::string_agg::string_agg_udaf;

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

/// Holds results of groups, by keys in the first columns, against others: texts that were put together in any order, and floats but for what
/// rounding makes of the order in which they came.
fn assert_same(found: &RecordBatch, expected: &RecordBatch, keys: usize, what: &str) {
    let (found, expected) = (sorted(found, keys), sorted(expected, keys));
    assert_eq!(found.num_rows(), expected.num_rows(), "{what}");
    let parts = |column: &ArrayRef| -> Vec<Option<Vec<String>>> {
        let texts = cast(column, &DataType::Utf8).unwrap();
        let of_text = |text: &str| {
            let mut parts: Vec<String> = text.split(',').map(str::to_owned).collect();
            parts.sort_unstable();
            parts
        };
        texts.as_string::<i32>().iter().map(|text| text.map(of_text)).collect()
    };
    for (number, field) in expected.schema().fields().iter().enumerate() {
        let (found, expected) = (found.column(number), expected.column(number));
        if number >= keys && field.name().starts_with("string_agg") {
            assert!(parts(found) == parts(expected), "{what}: {}", field.name());
        } else if number >= keys && *field.data_type() == DataType::Float64 {
            let both = found.as_primitive::<Float64Type>().iter().zip(expected.as_primitive::<Float64Type>());
            for (found, expected) in both {
                let is_same = match (found, expected) {
                    (Some(found), Some(expected)) => (found - expected).abs() < 1e-6,
                    (found, expected) => found == expected,
                };
                assert!(is_same, "{what}: {} is {found:?} and not {expected:?}", field.name());
            }
        } else {
            assert_eq!(found, expected, "{what}: {}", field.name());
        }
    }
}

#[test]
fn states_of_all_habits_are_those_of_the_engine_through_files_too() {
    let input = table(&rows(20_000, 6_000), 3, 2048);
    // Numbers, bits beside them, texts, and such of which nobody knows anything; together, since they leave memory together.
    let numbers = || {
        vec![
            Wanted(bit_and_udaf(), "value", false, None),
            Wanted(bit_or_udaf(), "value", false, Some("flag")),
            Wanted(bit_xor_udaf(), "value", false, None),
            Wanted(bool_and_udaf(), "flag", false, None),
            Wanted(bool_or_udaf(), "flag", false, None),
            Wanted(avg_udaf(), "wide", false, Some("flag")),
            Wanted(stddev_udaf(), "number", false, None),
        ]
    };
    let others = || {
        vec![
            Wanted(string_agg_udaf(), "word", false, None),
            Wanted(string_agg_udaf(), "word", false, Some("flag")),
            Wanted(median_udaf(), "value", false, Some("flag")),
            Wanted(stddev_udaf(), "number", false, Some("flag")),
        ]
    };
    let all: [(&str, &dyn Fn() -> Vec<Wanted>); 2] = [("numbers", &numbers), ("others", &others)];
    for (name, wanted) in all {
        for keys in [&["id"][..], &["text", "small"]] {
            let expected = run(stock(&input, keys, &wanted(), true), context(1 << 30)).unwrap();
            let free = own(&input, keys, &wanted());
            assert_eq!(free.name(), "HashAggregateExec", "{name} {keys:?}");
            let found = run(Arc::clone(&free), context(1 << 30)).unwrap();
            assert_same(&found, &expected, keys.len(), &format!("{name} {keys:?}"));
            assert_eq!(files(&free), 0, "{name} {keys:?}");
            for share in [4, 16] {
                let plan = own(&input, keys, &wanted());
                let found = run(Arc::clone(&plan), context(peak(&free) / share)).unwrap();
                assert!(files(&plan) > 0, "{name} {keys:?} {share}");
                assert_same(&found, &expected, keys.len(), &format!("{name} {keys:?} {share}"));
            }
        }
    }
}
