//! Keys and values that a processor's cache holds, and such that it does not: for the latter memory is asked for before it is read, and rows
//! are the same. What is far in tests is little.

use super::*;
use crate::hash_table::machine::NEAREST;
use crate::hash_table::runs::Runs;

/// Rows of these keys, with an id.
fn keyed(keys: impl Iterator<Item = Option<i64>>) -> RecordBatch {
    let keys: Int64Array = keys.collect();
    let fields = vec![Field::new("id", DataType::Int64, false), Field::new("key", DataType::Int64, true)];
    let ids = (1..=keys.len() as i64).collect::<Int64Array>();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![Arc::new(ids), Arc::new(keys)]).unwrap()
}

#[test]
fn keys_that_are_there_once_are_found_near_and_far() {
    let runtime = runtime();
    let bytes = |rows: i64| Runs::<u64, 5, 5>::bytes_for(rows as usize);
    // A table alone of which nothing is asked for, one of which it is, one in the place of two where memory has room for it, and several of them.
    let sizes = [100_i64, 400, 900, 3000];
    assert!(2 * bytes(sizes[0]) <= NEAREST && NEAREST < bytes(sizes[1]));
    // Too far apart to be counted; some are looked up several times, some are not there, some are NULL.
    let right = keyed((0..2500).map(|row| (row % 13 > 0).then_some(row * 7 % 1200 * 397)));
    let right_table = table(&right, 2, 500);
    for rows in sizes {
        let left = keyed((0..rows).map(|row| Some(row * 1009 % rows * 397)));
        let left_table = table(&left, 2, 130);
        for join_type in TYPES {
            let nulls = NullEquality::NullEqualsNothing;
            let wanted = Wanted { join_type, keys: vec!["key"], nulls, is_filtered: false, null_aware: false };
            let expected = stock_result(&runtime, &left_table, &right_table, &wanted);
            let plan = own(&stock(&left_table, &right_table, &wanted), None);
            let found = run(&runtime, &plan, &context_of(1 << 30, 1000));
            let expected = origins(&expected, &left, &right, join_type);
            assert!(origins(&found, &left, &right, join_type) == expected, "{rows} {join_type}");
            let less = own(&stock(&left_table, &right_table, &wanted), None);
            let found = run(&runtime, &less, &context_of((peak(&plan) * 9 / 10).max(1 << 14), 1000));
            assert!(origins(&found, &left, &right, join_type) == expected, "{rows} {join_type}, with less memory");
        }
    }
}
