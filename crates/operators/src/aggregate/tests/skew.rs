//! Keys and rows that are as bad as they come: one group for all rows, one for each, keys in an order, keys that collide, wide rows, long
//! texts.

use std::sync::LazyLock;

use datafusion_execution::config::SessionConfig;

use super::*;
use crate::aggregate::exec::HashAggregateExec;
use crate::hash_table::hash::Secret;
use crate::memory::is_full;

/// Rows of keys, with a value.
fn keyed(keys: &[i64]) -> RecordBatch {
    let fields = vec![Field::new("key", DataType::Int64, false), Field::new("value", DataType::Int64, false)];
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from(keys.to_vec())), Arc::new((1..=keys.len() as i64).collect::<Int64Array>())];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// Makes groups in memory and with a fifth of it, by good hashes and by one for all; what comes is what the engine gives.
fn check(name: &str, rows: &RecordBatch, keys: &[&str], wanted: &dyn Fn() -> Vec<Wanted>) {
    check_groups(name, rows, keys, wanted, false);
}

/// `is_vast`: a group alone may have more than a fifth of the memory that all groups take, and is refused then.
fn check_groups(name: &str, rows: &RecordBatch, keys: &[&str], wanted: &dyn Fn() -> Vec<Wanted>, is_vast: bool) {
    let input = table(rows, 3, 1000);
    let expected = run(stock(&input, keys, &wanted(), true), context(1 << 30)).unwrap();
    let expected = sorted(&expected, keys.len());
    for is_colliding in [false, true] {
        // Each group is compared with all that were there before it.
        if is_colliding && expected.num_rows() > 2000 {
            continue;
        }
        let made = || {
            let plan = own(&input, keys, &wanted());
            let own = plan.downcast_ref::<HashAggregateExec>().unwrap();
            if is_colliding { Arc::new(own.with_secret(Secret::colliding())) } else { plan }
        };
        let free = made();
        let found = run(Arc::clone(&free), context(1 << 30)).unwrap();
        assert!(sorted(&found, keys.len()) == expected, "{name}");
        assert_eq!(files(&free), 0, "{name}");
        match run(made(), context((peak(&free) / 5).max(1 << 14))) {
            Ok(found) => assert!(sorted(&found, keys.len()) == expected, "{name}, in files"),
            Err(error) => assert!(is_vast && is_full(&error), "{name}, in files: {error}"),
        }
    }
}

#[test]
fn keys_in_any_order_and_number_are_grouped() {
    let rows = 20_000_i64;
    let all = |key: &dyn Fn(i64) -> i64| keyed(&(0..rows).map(key).collect::<Vec<_>>());
    let wanted = || {
        vec![
            Wanted(count_udaf(), "*", false, None),
            Wanted(sum_udaf(), "value", false, None),
            Wanted(count_udaf(), "value", true, None),
        ]
    };
    for (name, keys) in [
        ("all equal", all(&|_| 397)),
        ("in order", all(&|row| row)),
        ("backwards", all(&|row| -row)),
        ("bits reversed", all(&|row| (row as u64).reverse_bits() as i64)),
        // The same in all low bits, and in all high ones.
        ("far apart", all(&|row| row << 40)),
        ("half of them equal", all(&|row| if row % 2 == 0 { 397 } else { row })),
        ("each four times", all(&|row| row / 4)),
        ("few at first, then many", all(&|row| if row < rows / 2 { row % 10 } else { row })),
    ] {
        check(name, &keys, &["key"], &wanted);
    }
    check("colliding", &keyed(&(0..1500).collect::<Vec<_>>()), &["key"], &wanted);
}

/// What groups give by hashes that divide nothing, with one part in eight of the memory: whatever the engine gives, after all levels and block
/// by block.
fn check_undivided(name: &str, rows: &RecordBatch, keys: &[&str], wanted: &dyn Fn() -> Vec<Wanted>) {
    let input = table(rows, 3, 100);
    let expected = run(stock(&input, keys, &wanted(), true), context(1 << 30)).unwrap();
    let made = || -> Arc<dyn ExecutionPlan> {
        let plan = own(&input, keys, &wanted());
        let own = plan.downcast_ref::<HashAggregateExec>().unwrap();
        Arc::new(own.with_secret(Secret::stuck()))
    };
    let free = made();
    let found = run(Arc::clone(&free), context(1 << 30)).unwrap();
    assert!(sorted(&found, keys.len()) == sorted(&expected, keys.len()), "{name}");
    let less = made();
    // What is read of a file at once is little beside the memory.
    let config = SessionConfig::new().with_batch_size(50);
    let runtime = context((peak(&free) / 8).max(1 << 12)).runtime_env();
    let context = TaskContext::default().with_runtime(runtime).with_session_config(config);
    let found = run(Arc::clone(&less), Arc::new(context)).unwrap();
    assert_eq!(found.num_rows(), expected.num_rows(), "{name}");
    assert!(sorted(&found, keys.len()) == sorted(&expected, keys.len()), "{name}, in files");
    let value = |name: &str| less.metrics().unwrap().sum_by_name(name).unwrap().as_usize();
    let (levels, blocks) = (value("spill_levels"), value("spill_blocks"));
    assert!(levels == 11 && blocks >= 2, "{name}: {levels} levels, {blocks} blocks");
}

#[test]
fn groups_that_no_hash_divides_are_made_block_by_block() {
    let all = rows(4000, 700);
    let wanted = || {
        vec![
            Wanted(count_udaf(), "*", false, None),
            Wanted(sum_udaf(), "number", false, Some("flag")),
            Wanted(max_udaf(), "word", false, None),
            Wanted(count_udaf(), "value", true, None),
        ]
    };
    for keys in [&["id"][..], &["text"], &["wide"], &["text", "small"]] {
        check_undivided(&format!("{keys:?}"), &all, keys, &wanted);
    }
    check_undivided("no aggregates", &all, &["id"], &|| vec![]);
}

static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| (0..200).map(|column| format!("column {column}")).collect());

#[test]
fn wide_rows_are_grouped() {
    let rows = 300_i64;
    let mut fields = vec![Field::new("key", DataType::Int64, false)];
    let mut columns: Vec<ArrayRef> = vec![Arc::new((0..rows).map(|row| row % 100 * 1_000_003).collect::<Int64Array>())];
    let names: Vec<&'static str> = NAMES.iter().map(String::as_str).collect();
    for (column, name) in names.iter().enumerate() {
        fields.push(Field::new(*name, DataType::Utf8, true));
        let value = |row: i64| (row % 7 != column as i64 % 7).then(|| format!("{} in {column}", row % 150));
        columns.push(Arc::new((0..rows).map(value).collect::<StringArray>()));
    }
    let wide = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    let extremes = || {
        let of_column = |(at, name): (usize, &&'static str)| {
            Wanted(if at % 2 == 0 { min_udaf() } else { max_udaf() }, name, false, None)
        };
        names.iter().enumerate().map(of_column).collect()
    };
    check("extremes of two hundred columns", &wide, &["key"], &extremes);
    // Rows 150 apart are equal, but for the columns in which one of them is NULL.
    check("keys of two hundred columns", &wide, &names, &|| vec![Wanted(count_udaf(), "*", false, None)]);
}

#[test]
fn long_texts_are_grouped() {
    // They differ in the last byte.
    let text = |row: usize| format!("{}{row}", "x".repeat(1 << 20));
    let fields = vec![Field::new("text", DataType::Utf8, true), Field::new("key", DataType::Int64, false)];
    let columns: Vec<ArrayRef> = vec![
        Arc::new((0..12).map(|row| (row != 7).then(|| text(row % 5))).collect::<StringArray>()),
        Arc::new((0..12).map(|row| row / 4).collect::<Int64Array>()),
    ];
    let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    let of_text = || vec![Wanted(count_udaf(), "*", false, None), Wanted(max_udaf(), "key", false, None)];
    check("keys of a megabyte", &rows, &["text"], &of_text);
    let of_key = || {
        vec![
            Wanted(min_udaf(), "text", false, None),
            Wanted(max_udaf(), "text", false, None),
            Wanted(count_udaf(), "text", true, None),
        ]
    };
    check_groups("values of a megabyte", &rows, &["key"], &of_key, true);
}

#[test]
fn texts_that_are_too_many_for_an_array_leave_memory() {
    let rows = 120_usize;
    let text = |row: usize| format!("{}{row}", "x".repeat(256 << 10));
    let fields = vec![Field::new("text", DataType::Utf8, true), Field::new("key", DataType::Int64, false)];
    let columns: Vec<ArrayRef> = vec![
        Arc::new((0..rows).map(|row| Some(text(row))).collect::<StringArray>()),
        Arc::new((0..rows as i64).collect::<Int64Array>()),
    ];
    let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    let input = table(&rows, 3, 10);
    let of_text = vec![Wanted(count_udaf(), "*", false, None)];
    let of_key = vec![Wanted(min_udaf(), "text", false, None), Wanted(max_udaf(), "text", false, None)];
    for (key, wanted) in [("text", of_text), ("key", of_key)] {
        let expected = run(stock(&input, &[key], &wanted, true), context(1 << 30)).unwrap();
        // All of them are in one partition, though there is memory for all.
        let plan = own(&input, &[key], &wanted);
        let own = plan.downcast_ref::<HashAggregateExec>().unwrap();
        let plan: Arc<dyn ExecutionPlan> = Arc::new(own.with_secret(Secret::colliding()));
        let found = run(Arc::clone(&plan), context(1 << 30)).unwrap();
        assert!(files(&plan) > 0, "{key}");
        assert!(sorted(&found, 1) == sorted(&expected, 1), "{key}");
    }
}

#[test]
fn few_rows_wait_for_groups_that_do_not_come() {
    // Each another one at first, so that all are expected to be, and then the same again and again.
    let keys = |rows: i64| keyed(&(0..rows).map(|row| row % 5000).collect::<Vec<_>>());
    let groups = |rows: i64| {
        let plan = own(&table(&keys(rows), 1, 500), &["key"], &[Wanted(count_udaf(), "*", false, None)]);
        let found = run(Arc::clone(&plan), context(1 << 30)).unwrap();
        assert_eq!(found.num_rows(), 5000, "{rows}");
        peak(&plan)
    };
    let (once, often) = (groups(5000), groups(400_000));
    assert!(often < 4 * once, "{often} bytes where there are {once} if each key is there once");
}
