//! Keys and rows that are as bad as they come: one key for all, keys that collide, keys in an order, wide rows, long texts.

use super::*;
use crate::join::texts::{BYTES_MAX, of_batch};

/// Rows of keys, with an id.
fn keyed(keys: &[i64]) -> RecordBatch {
    let fields = vec![Field::new("id", DataType::Int64, false), Field::new("key", DataType::Int64, false)];
    let columns: Vec<ArrayRef> =
        vec![Arc::new((1..=keys.len() as i64).collect::<Int64Array>()), Arc::new(Int64Array::from(keys.to_vec()))];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// Joins them in memory and, where they need enough of it, with a fifth of that; what comes is what the engine's gives.
fn check(runtime: &tokio::runtime::Runtime, name: &str, left: &RecordBatch, right: &RecordBatch) {
    let (left_table, right_table) = (table(left, 2, 1000), table(right, 2, 1000));
    for join_type in [JoinType::Inner, JoinType::Full, JoinType::LeftSemi, JoinType::RightAnti] {
        let nulls = NullEquality::NullEqualsNothing;
        let wanted = Wanted { join_type, keys: vec!["key"], nulls, is_filtered: false, null_aware: false };
        let expected = stock_result(runtime, &left_table, &right_table, &wanted);
        let expected = origins(&expected, left, right, join_type);
        for secret in [None, Some(Secret::colliding())] {
            // All by one hash: as slow as a nested loop.
            if secret.is_some() && left.num_rows() > 2000 {
                continue;
            }
            let free = own(&stock(&left_table, &right_table, &wanted), secret);
            let found = run(runtime, &free, &context_of(1 << 30, 8192));
            assert!(origins(&found, left, right, join_type) == expected, "{name} {join_type}");
            let less = own(&stock(&left_table, &right_table, &wanted), secret);
            let found = run(runtime, &less, &context_of((peak(&free) / 5).max(1 << 14), 8192));
            assert!(origins(&found, left, right, join_type) == expected, "{name} {join_type}, in files");
        }
    }
}

#[test]
fn keys_in_any_order_and_number_are_joined() {
    let runtime = runtime();
    let rows = 20_000_i64;
    let all = |key: &dyn Fn(i64) -> i64| keyed(&(0..rows).map(key).collect::<Vec<_>>());
    let few = keyed(&(0..50).map(|row| row * 397).collect::<Vec<_>>());
    for (name, keys) in [
        ("all equal", all(&|_| 397)),
        ("in order", all(&|row| row)),
        ("backwards", all(&|row| -row)),
        ("bits reversed", all(&|row| (row as u64).reverse_bits() as i64)),
        // The same in all low bits, and in all high ones.
        ("far apart", all(&|row| row << 40)),
        ("half of them equal", all(&|row| if row % 2 == 0 { 397 } else { row })),
        ("each four times", all(&|row| row / 4)),
    ] {
        check(&runtime, name, &keys, &few);
        check(&runtime, name, &few, &keys);
    }
    let less = keyed(&(0..1500).collect::<Vec<_>>());
    check(&runtime, "colliding", &less, &few);
    check(&runtime, "colliding", &few, &less);
}

/// How often rows were divided among files, and how many blocks there were of parts that could not be divided.
pub(super) fn levels_and_blocks(plan: &Arc<dyn ExecutionPlan>) -> (usize, usize) {
    let metrics = plan.metrics().unwrap();
    let value = |name: &str| metrics.sum_by_name(name).unwrap().as_usize();
    (value("spill_levels"), value("spill_blocks"))
}

/// Joins in all types, in memory and with this much of what that takes; levels and blocks of each.
fn through_files(left: &RecordBatch, right: &RecordBatch, share: usize) -> Vec<(JoinType, usize, usize)> {
    let runtime = runtime();
    let (left_table, right_table) = (table(left, 2, 1000), table(right, 2, 1000));
    let mut seen = Vec::new();
    for join_type in TYPES {
        let nulls = NullEquality::NullEqualsNothing;
        let wanted = Wanted { join_type, keys: vec!["key"], nulls, is_filtered: false, null_aware: false };
        let expected = origins(&stock_result(&runtime, &left_table, &right_table, &wanted), left, right, join_type);
        let free = own(&stock(&left_table, &right_table, &wanted), None);
        let found = run(&runtime, &free, &context_of(1 << 30, 500));
        assert!(origins(&found, left, right, join_type) == expected, "{join_type}");
        assert_eq!(levels_and_blocks(&free), (0, 0), "{join_type}");
        let less = own(&stock(&left_table, &right_table, &wanted), None);
        let found = run(&runtime, &less, &context_of(peak(&free) / share, 500));
        assert!(origins(&found, left, right, join_type) == expected, "{join_type}, in files");
        assert!(files(&less) > 0, "{join_type}");
        let (levels, blocks) = levels_and_blocks(&less);
        seen.push((join_type, levels, blocks));
    }
    seen
}

#[test]
fn parts_that_do_not_fit_are_divided_again() {
    let left = keyed(&(0..6000).map(|row| row * 1_000_003).collect::<Vec<_>>());
    let right = keyed(&(0..50).map(|row| row * 70 * 1_000_003).collect::<Vec<_>>());
    // A part has a quarter of the rows, and a sixteenth of their memory.
    for (join_type, levels, _) in through_files(&left, &right, 16) {
        assert!(levels >= 2, "{join_type}: {levels}");
    }
}

#[test]
fn one_key_with_all_rows_is_looked_up_block_by_block() {
    let left = keyed(&[397; 5000]);
    let right = keyed(&(0..50).map(|row| row % 25 * 397).collect::<Vec<_>>());
    // A hash would divide nothing: it is not asked twice.
    for (join_type, levels, blocks) in through_files(&left, &right, 8) {
        assert!(levels == 1 && blocks >= 2, "{join_type}: {levels} {blocks}");
    }
}

#[test]
fn wide_rows_are_joined() {
    let runtime = runtime();
    let rows = 300_i64;
    let mut fields = vec![Field::new("id", DataType::Int64, false), Field::new("key", DataType::Int64, false)];
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new((1..=rows).collect::<Int64Array>()),
        Arc::new((0..rows).map(|row| row % 100 * 1_000_003).collect::<Int64Array>()),
    ];
    for column in 0..200 {
        fields.push(Field::new(format!("column {column}"), DataType::Utf8, true));
        let value = |row: i64| (row % 7 != column % 7).then(|| format!("{row} in {column}"));
        columns.push(Arc::new((0..rows).map(value).collect::<StringArray>()));
    }
    let wide = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    check(&runtime, "two hundred columns", &wide, &wide);
}

#[test]
fn long_texts_are_joined() {
    let runtime = runtime();
    let text = |row: usize| format!("{}{row}", "x".repeat(1 << 20));
    let fields = vec![Field::new("id", DataType::Int64, false), Field::new("key", DataType::Utf8, false)];
    let made = |keys: &dyn Fn(usize) -> usize| {
        let columns: Vec<ArrayRef> = vec![
            Arc::new((1..=12).collect::<Int64Array>()),
            Arc::new((0..12).map(|row| Some(text(keys(row)))).collect::<StringArray>()),
        ];
        RecordBatch::try_new(Arc::new(Schema::new(fields.clone())), columns).unwrap()
    };
    // They differ in the last byte.
    check(&runtime, "a megabyte", &made(&|row| row), &made(&|row| row % 5 + 8));
}

#[test]
fn long_texts_come_out_in_small_batches() {
    let runtime = runtime();
    let fields = ["id", "key"].map(|name| Field::new(name, DataType::Int64, false)).into_iter();
    let schema = Arc::new(Schema::new(fields.chain([Field::new("text", DataType::Utf8, true)]).collect::<Vec<_>>()));
    let made = |rows: i64, key: &dyn Fn(i64) -> i64, length: usize| {
        let columns: Vec<ArrayRef> = vec![
            Arc::new((1..=rows).collect::<Int64Array>()),
            Arc::new((0..rows).map(|row| key(row) * 1_000_003).collect::<Int64Array>()),
            Arc::new((0..rows).map(|row| Some(format!("{}{row}", "x".repeat(length)))).collect::<StringArray>()),
        ];
        RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
    };
    let long = 100 << 10;
    // Each key once, each three times, and keys that nobody else has.
    let (once, thrice) = (made(12, &|row| row, long), made(12, &|row| row % 4, long));
    let (many, lone) = (made(100, &|row| row % 12, 3), made(40, &|row| -1 - row, long));
    for (left, right) in [(&once, &many), (&thrice, &many), (&many, &thrice), (&thrice, &thrice), (&lone, &once)] {
        let (left_table, right_table) = (table(left, 2, 5), table(right, 2, 5));
        let types = [JoinType::Inner, JoinType::Full, JoinType::LeftAnti, JoinType::RightSemi];
        for (join_type, key) in types.into_iter().flat_map(|join_type| ["key", "text"].map(|key| (join_type, key))) {
            let nulls = NullEquality::NullEqualsNothing;
            let wanted = Wanted { join_type, keys: vec![key], nulls, is_filtered: false, null_aware: false };
            let expected = stock_result(&runtime, &left_table, &right_table, &wanted);
            let plan = own(&stock(&left_table, &right_table, &wanted), None);
            let batches = runtime.block_on(collect(Arc::clone(&plan), context_of(1 << 30, 8192))).unwrap();
            // A batch has as much of the left side at most, and beside that what came in one of the right side.
            let most = 2 * BYTES_MAX;
            assert!(batches.iter().all(|batch| of_batch(batch) <= most), "{join_type} {key}");
            let found = concat_batches(&plan.schema(), &batches).unwrap();
            assert!(origins(&found, left, right, join_type) == origins(&expected, left, right, join_type));
            // Not one by one either.
            let bytes: usize = batches.iter().map(of_batch).sum();
            assert!(batches.len() <= 4 + 4 * bytes / BYTES_MAX, "{join_type}: {} batches of {bytes}", batches.len());
        }
    }
}
