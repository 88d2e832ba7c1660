//! Rows of the build side of which all that matters is found by keys: what is kept of them is put in the order of these, or of their hashes, and the
//! rows that come out are the same.

use super::*;

/// Rows of these keys, with an id, a value for conditions, and numbers of other widths.
fn keyed(keys: impl Iterator<Item = Option<i64>>) -> RecordBatch {
    let keys: Int64Array = keys.collect();
    let rows = keys.len() as i64;
    let fields = vec![
        Field::new("id", DataType::Int64, false),
        Field::new("value", DataType::Int32, true),
        Field::new("key", DataType::Int64, true),
        Field::new("wide", DataType::Decimal128(20, 2), true),
        Field::new("double", DataType::Float64, false),
    ];
    let wide = (0..rows).map(|row| (row % 5 > 0).then_some(i128::from(row))).collect::<Decimal128Array>();
    let columns: Vec<ArrayRef> = vec![
        Arc::new((1..=rows).collect::<Int64Array>()),
        Arc::new((0..rows).map(|row| (row % 11 > 0).then_some((row * 37 % 100) as i32)).collect::<Int32Array>()),
        Arc::new(keys),
        Arc::new(wide.with_precision_and_scale(20, 2).unwrap()),
        Arc::new((0..rows).map(|row| row as f64 / 4.0).collect::<Float64Array>()),
    ];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

#[test]
fn rows_are_the_same_whatever_order_they_are_kept_in() {
    let runtime = runtime();
    let rows = 700_i64;
    let mixed = |row: i64| row * 1009 % rows;
    let lefts = [
        // Numbers of which none is missing, every third one, and such that are far apart; one row.
        keyed((0..rows).map(|row| Some(mixed(row) - 100))),
        keyed((0..rows).map(|row| Some(mixed(row) * 3 - 100))),
        keyed((0..rows).map(|row| Some(mixed(row) * 1_000_003))),
        keyed(std::iter::once(Some(57))),
        // Some without a key, and keys that are there twice.
        keyed((0..rows).map(|row| (row % 10 > 0).then_some(mixed(row)))),
        keyed((0..rows).map(|row| Some(mixed(row) / 2 * 1_000_003))),
    ];
    let key = |row: i64| if row % 2 == 0 { row - 300 } else { row % 900 * 1_000_003 };
    let right = keyed((0..2000).map(|row| (row % 13 > 0).then(|| key(row))));
    let right_table = table(&right, 2, 300);
    for (number, left) in lefts.iter().enumerate() {
        // Of one that a limit says of how many rows it has, a table of numbers is made while they come.
        let plain = table(left, 2, 130);
        let counted: Arc<dyn ExecutionPlan> = Arc::new(LocalLimitExec::new(table(left, 1, 130), left.num_rows()));
        for wanted in ways(&["key"]) {
            let expected = stock_result(&runtime, &plain, &right_table, &wanted);
            let expected = origins(&expected, left, &right, wanted.join_type);
            for input in [&plain, &counted] {
                let plan = own(&stock(input, &right_table, &wanted), None);
                let found = run(&runtime, &plan, &context_of(1 << 30, 500));
                assert!(origins(&found, left, &right, wanted.join_type) == expected, "{number} {wanted:?}");
                // Where memory has no room for a second copy, rows stay as they are, or go to files.
                let less = own(&stock(input, &right_table, &wanted), None);
                let found = run(&runtime, &less, &context_of((peak(&plan) * 9 / 10).max(1 << 14), 500));
                assert!(origins(&found, left, &right, wanted.join_type) == expected, "{number} {wanted:?}, with less");
            }
        }
    }
}
