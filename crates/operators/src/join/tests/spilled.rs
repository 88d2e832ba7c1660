//! Joins that have no room in memory: in all types and ways, of good hashes and of one for all keys, of sides without rows.

use super::*;

/// What a join gives with a part of the memory that it takes when it may take all, by hashes of this secret; whether files were written.
fn with_less(
    runtime: &tokio::runtime::Runtime,
    stock: &HashJoinExec,
    secret: Option<Secret>,
    memory: usize,
) -> (RecordBatch, bool) {
    let plan = own(stock, secret);
    let found = run(runtime, &plan, &context_of(memory, 500));
    (found, files(&plan) > 0)
}

#[test]
fn what_does_not_fit_goes_through_files() {
    let runtime = runtime();
    let shapes = [
        (
            Rows { count: 2000, keys: 2500, null: 50, seed: 1, ..NONE },
            Rows { count: 1500, keys: 2500, null: 30, seed: 2, ..NONE },
        ),
        // One key has nearly all rows: no hash divides it.
        (
            Rows { count: 2000, keys: 600, null: 30, skew: 20, seed: 3 },
            Rows { count: 30, keys: 40, null: 9, skew: 3, seed: 4 },
        ),
    ];
    for (of_left, of_right) in shapes {
        let (left, right) = (made(of_left), made(of_right));
        let (left_table, right_table) = (table(&left, 3, 128), table(&right, 2, 128));
        for keys in [&["int"][..], &["text"], &["text", "int"], &["double"]] {
            // One of four ways for each type.
            for (number, of_type) in ways(keys).chunks(4).enumerate() {
                let wanted = of_type[(number + keys.len()) % 4].clone();
                let free = own(&stock(&left_table, &right_table, &wanted), None);
                let expected = run(&runtime, &free, &context_of(1 << 30, 500));
                let expected = origins(&expected, &left, &right, wanted.join_type);
                assert_eq!(files(&free), 0);
                let peak = peak(&free);
                // What waits to come out is a part of the most, and has its memory anyway.
                for share in [4, 16] {
                    let stock = stock(&left_table, &right_table, &wanted);
                    let (found, is_written) = with_less(&runtime, &stock, None, peak / share);
                    assert!(is_written, "{of_left:?} {wanted:?} {share}");
                    let found = origins(&found, &left, &right, wanted.join_type);
                    assert_eq!(found.len(), expected.len(), "{of_left:?} {of_right:?} {wanted:?} {share}");
                    assert!(found == expected, "{of_left:?} {of_right:?} {wanted:?} {share}");
                }
            }
        }
    }
}

#[test]
fn all_ways_lead_through_files_whatever_the_hashes_are() {
    let runtime = runtime();
    let many = Rows { count: 700, keys: 800, null: 40, seed: 1, ..NONE };
    let shapes = [
        (many, Rows { count: 600, keys: 800, null: 30, seed: 2, ..NONE }),
        // Nearly all rows have one key.
        (Rows { skew: 15, ..many }, Rows { count: 20, keys: 30, null: 9, skew: 3, seed: 4 }),
        (many, NONE),
        (NONE, many),
    ];
    for (of_left, of_right) in shapes {
        let (left, right) = (made(of_left), made(of_right));
        let right_table = table(&right, 2, 128);
        for keys in [&["int"][..], &["text"], &["text", "int"], &["double"]] {
            // Files of many small batches take most of the time: they are there by one of the keys.
            let left_table = table(&left, 3, if keys == ["int"] { 64 } else { 175 });
            for wanted in ways(keys) {
                let stock = stock(&left_table, &right_table, &wanted);
                let free = own(&stock, None);
                let expected = run(&runtime, &free, &context_of(1 << 30, 500));
                let expected = origins(&expected, &left, &right, wanted.join_type);
                for secret in [None, Some(Secret::colliding())] {
                    let (found, is_written) = with_less(&runtime, &stock, secret, peak(&free) / 8);
                    assert!(is_written || of_left.count == 0, "{of_left:?} {wanted:?} {secret:?}");
                    let found = origins(&found, &left, &right, wanted.join_type);
                    assert!(found == expected, "{of_left:?} {of_right:?} {wanted:?} {secret:?}");
                }
            }
        }
    }
}

#[test]
fn a_null_is_perhaps_equal_to_anything_in_files_too() {
    let runtime = runtime();
    let join_type = JoinType::LeftAnti;
    let left = made(Rows { count: 3000, keys: 4000, null: 20, seed: 1, ..NONE });
    let left_table = table(&left, 2, 128);
    // Without NULL, with some, and nothing at all.
    for (count, null) in [(1000, 0), (1000, 40), (0, 0)] {
        let right = made(Rows { count, keys: 4000, null, seed: 2, ..NONE });
        let right_table = table(&right, 3, 128);
        for key in ["int", "text", "wide"] {
            let nulls = NullEquality::NullEqualsNothing;
            let wanted = Wanted { join_type, keys: vec![key], nulls, is_filtered: false, null_aware: true };
            let stock = stock(&left_table, &right_table, &wanted);
            let free = own(&stock, None);
            let expected = run(&runtime, &free, &context_of(1 << 30, 500));
            let expected = origins(&expected, &left, &right, join_type);
            assert_eq!(expected.is_empty(), right.column_by_name(key).unwrap().null_count() > 0);
            for secret in [None, Some(Secret::colliding())] {
                let (found, is_written) = with_less(&runtime, &stock, secret, peak(&free) / 4);
                assert!(is_written, "{count} {null} {key} {secret:?}");
                assert!(origins(&found, &left, &right, join_type) == expected, "{count} {null} {key} {secret:?}");
            }
        }
    }
}
