//! The node beside a nested loop, row by row, and beside the engine's where that compares keys alike. Rows, keys, ways to join, limits and hashes are drawn by lot.
//!
//! What fails names its seed last; with `ASHLAR_TWIN_SEED` there is that one alone.

use super::*;
use crate::aggregate::tests::lot::{Drawn, Lot, compare_in_files, for_each_seed};

/// Seeds that every run has.
const SEEDS: u64 = 120;

/// Pairs of rows that a nested loop looks at, at most.
const PAIRS_MAX: u64 = 40_000;

/// Two sides, how they are joined, and with what.
#[derive(Debug)]
struct Shape {
    sides: [Drawn; 2],
    wanted: Wanted,
    /// Whether the left side says how many rows it has.
    is_counted: bool,
    output_rows: usize,
    /// By how much the memory is divided that it takes when it may take all; 1 for all of it.
    share: usize,
    is_colliding: bool,
}

/// What the rows of a side are like.
fn side(lot: &mut Lot, rows_max: u64) -> Drawn {
    let seed = lot.below(1 << 32);
    let rows = lot.one_of(&[0, 1, 40, 300, 1200, 1200]).min(rows_max);
    let keys = lot.one_of(&[1, 7, 200, 2000]);
    Drawn::of(lot, seed, rows, keys)
}

fn rows_of(side: &Drawn) -> RecordBatch {
    let value = |row: u64| (!side.any(row, 32).is_multiple_of(9)).then(|| (side.any(row, 33) % 100) as i32);
    let name = |row: u64| (!side.any(row, 34).is_multiple_of(7)).then(|| format!("name {row}"));
    let first: [(&str, ArrayRef, bool); 3] = [
        ("id", Arc::new((1..=side.rows as i64).collect::<Int64Array>()), false),
        ("value", Arc::new((0..side.rows).map(value).collect::<Int32Array>()), true),
        ("name", Arc::new((0..side.rows).map(name).collect::<StringArray>()), true),
    ];
    RecordBatch::try_from_iter_with_nullable(first.into_iter().chain(side.key_columns())).unwrap()
}

impl Shape {
    fn drawn(seed: u64) -> Self {
        let mut lot = Lot::of(seed);
        let left = side(&mut lot, u64::MAX);
        let right = side(&mut lot, PAIRS_MAX / left.rows.max(1));
        // The same numbers on both sides now and then: of as many keys nearly all rows have a match.
        let right = if lot.below(4) == 0 { Drawn { seed: left.seed, ..right } } else { right };
        let join_type = TYPES[(seed % TYPES.len() as u64) as usize];
        let nulls = lot.one_of(&[NullEquality::NullEqualsNothing, NullEquality::NullEqualsNull]);
        let (keys, is_filtered) = (lot.columns(), lot.below(3) == 0);
        let wanted = Wanted { join_type, keys, nulls, is_filtered, null_aware: false };
        let wanted = if join_type == JoinType::LeftAnti && lot.below(2) == 0 {
            // Of one key, and of nothing beside it: NOT IN.
            let (keys, nulls) = (vec![wanted.keys[0]], NullEquality::NullEqualsNothing);
            Wanted { keys, nulls, is_filtered: false, null_aware: true, ..wanted }
        } else {
            wanted
        };
        Self {
            sides: [left, right],
            wanted,
            is_counted: lot.below(2) == 0,
            output_rows: lot.one_of(&[10, 500, 8192]),
            share: lot.one_of(&[1, 2, 6, 20]),
            is_colliding: lot.below(4) == 0,
        }
    }
}

/// Holds what the node gives against a nested loop and against the engine's; whether it wrote files, where it had a limit.
fn check(runtime: &tokio::runtime::Runtime, seed: u64) -> Option<bool> {
    // Said by the test when it fails, wherever it does.
    eprintln!("seed {seed}");
    let shape = Shape::drawn(seed);
    let Shape { sides: [of_left, of_right], wanted, .. } = &shape;
    let (left, right) = (rows_of(of_left), rows_of(of_right));
    let expected = match wanted.null_aware {
        true => nested_loop_of_null_aware(&left, &right, wanted),
        false => nested_loop(&left, &right, wanted),
    };
    let mut left_table = of_left.table(&left);
    if shape.is_counted {
        // A limit says how many rows there are at most.
        left_table = Arc::new(LocalLimitExec::new(left_table, left.num_rows() + 10));
    }
    let right_table = of_right.table(&right);
    // Zeros and what is no number are several keys for the engine. NOT IN is held against its loop alone.
    if !wanted.keys.iter().any(|key| matches!(*key, "real" | "double")) && !wanted.null_aware {
        let found = stock_result(runtime, &left_table, &right_table, wanted);
        let found = origins(&found, &left, &right, wanted.join_type);
        assert!(found == expected, "the engine's, {} rows for {}: {shape:?}", found.len(), expected.len());
    }
    let stock = stock(&left_table, &right_table, wanted);
    let plan = || own(&stock, shape.is_colliding.then(Secret::colliding));
    let compare = |plan: &Arc<dyn ExecutionPlan>, memory: usize| {
        let found = run(runtime, plan, &context_of(memory, shape.output_rows));
        let found = origins(&found, &left, &right, wanted.join_type);
        assert_eq!(found.len(), expected.len(), "{memory} bytes: {shape:?}");
        assert!(found == expected, "{memory} bytes: {shape:?}");
    };
    compare_in_files(&shape, shape.share, &plan, &compare)
}

#[test]
fn joins_are_those_of_a_naive_twin() {
    let runtime = runtime();
    for_each_seed(SEEDS, |seed| check(&runtime, seed));
}
