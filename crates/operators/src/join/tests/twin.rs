//! The node beside a nested loop, row by row. Rows, keys, ways to join, limits and hashes are drawn by lot.
//!
//! What fails names its seed last; with `ASHLAR_TWIN_SEED` there is that one alone.

use std::hash::{BuildHasher, RandomState};

use super::*;
use crate::aggregate::tests::lot::{KEYS, Lot, key_columns};

/// Seeds that every run has, and such that it has alone.
const SEEDS: u64 = 120;
const SEEDS_ONCE: u64 = 20;

/// Pairs of rows that a nested loop looks at, at most.
const PAIRS_MAX: u64 = 40_000;

/// What the rows of a side are like.
#[derive(Clone, Copy, Debug)]
struct Side {
    seed: u64,
    rows: u64,
    /// Different keys that a column has, at most and beside one.
    keys: u64,
    /// One key in so many is NULL; 0 for none.
    null: u64,
    /// Of so many rows all but one have the same key; 0 for none.
    skew: u64,
    streams: usize,
    batch_rows: usize,
}

/// Two sides, how they are joined, and with what.
#[derive(Debug)]
struct Shape {
    sides: [Side; 2],
    wanted: Wanted,
    /// Whether the left side says how many rows it has.
    is_counted: bool,
    output_rows: usize,
    /// By how much the memory is divided that it takes when it may take all; 1 for all of it.
    share: usize,
    is_colliding: bool,
}

impl Side {
    fn drawn(lot: &mut Lot, rows_max: u64) -> Self {
        Self {
            seed: lot.below(1 << 32),
            rows: lot.one_of(&[0, 1, 40, 300, 1200, 1200]).min(rows_max),
            keys: lot.one_of(&[1, 7, 200, 2000]),
            null: lot.one_of(&[0, 30, 3, 1]),
            skew: lot.one_of(&[0, 0, 3, 20]),
            streams: lot.one_of(&[1, 2, 3]),
            batch_rows: lot.one_of(&[7, 100, 1000]),
        }
    }

    /// A number of a row, of as many as there are.
    fn any(&self, row: u64, number: u64) -> u64 {
        scrambled(scrambled(self.seed).wrapping_add(row * 64 + number))
    }

    fn key(&self, row: u64, column: u64) -> Option<u64> {
        let any = self.any(row, column) >> 8;
        let key = if self.skew > 0 && !any.is_multiple_of(self.skew) { 3 } else { any / 64 % self.keys };
        let is_null = self.null > 0 && self.any(row, column + 16).is_multiple_of(self.null);
        (!is_null).then_some(key)
    }

    fn made(&self) -> RecordBatch {
        let value = |row: u64| (!self.any(row, 32).is_multiple_of(9)).then(|| (self.any(row, 33) % 100) as i32);
        let name = |row: u64| (!self.any(row, 34).is_multiple_of(7)).then(|| format!("name {row}"));
        let first: [(&str, ArrayRef, bool); 3] = [
            ("id", Arc::new((1..=self.rows as i64).collect::<Int64Array>()), false),
            ("value", Arc::new((0..self.rows).map(value).collect::<Int32Array>()), true),
            ("name", Arc::new((0..self.rows).map(name).collect::<StringArray>()), true),
        ];
        let columns = key_columns(self.rows, &|row, column| self.key(row, column));
        let keys = KEYS.into_iter().zip(columns).map(|(name, array)| (name, array, self.null > 0));
        RecordBatch::try_from_iter_with_nullable(first.into_iter().chain(keys)).unwrap()
    }

    fn table(&self, rows: &RecordBatch) -> Arc<dyn ExecutionPlan> {
        table(rows, self.streams, self.batch_rows)
    }
}

impl Shape {
    fn drawn(seed: u64) -> Self {
        let mut lot = Lot::of(seed);
        let left = Side::drawn(&mut lot, u64::MAX);
        let right = Side::drawn(&mut lot, PAIRS_MAX / left.rows.max(1));
        // The same numbers on both sides now and then: of as many keys nearly all rows have a match.
        let right = if lot.below(4) == 0 { Side { seed: left.seed, ..right } } else { right };
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

/// Holds what the node gives against a nested loop; whether it wrote files.
fn check(runtime: &tokio::runtime::Runtime, seed: u64) -> bool {
    // Said by the test when it fails, wherever it does.
    eprintln!("seed {seed}");
    let shape = Shape::drawn(seed);
    let Shape { sides: [of_left, of_right], wanted, .. } = &shape;
    let (left, right) = (of_left.made(), of_right.made());
    let expected = match wanted.null_aware {
        true => nested_loop_of_null_aware(&left, &right, wanted),
        false => nested_loop(&left, &right, wanted),
    };
    let mut left_table = of_left.table(&left);
    if shape.is_counted {
        // A limit says how many rows there are at most.
        left_table = Arc::new(LocalLimitExec::new(left_table, left.num_rows() + 10));
    }
    let stock = stock(&left_table, &of_right.table(&right), wanted);
    let plan = || own(&stock, shape.is_colliding.then(Secret::colliding));
    let compare = |plan: &Arc<dyn ExecutionPlan>, memory: usize| {
        let found = run(runtime, plan, &context_of(memory, shape.output_rows));
        let found = origins(&found, &left, &right, wanted.join_type);
        assert_eq!(found.len(), expected.len(), "{memory} bytes: {shape:?}");
        assert!(found == expected, "{memory} bytes: {shape:?}");
    };
    let free = plan();
    compare(&free, 1 << 30);
    assert_eq!(files(&free), 0, "{shape:?}");
    if shape.share == 1 {
        return false;
    }
    let less = plan();
    compare(&less, (peak(&free) / shape.share).max(1 << 14));
    files(&less) > 0
}

#[test]
fn joins_are_those_of_a_naive_twin() {
    let runtime = runtime();
    if let Ok(seed) = std::env::var("ASHLAR_TWIN_SEED") {
        check(&runtime, seed.parse().unwrap());
        return;
    }
    let in_files = (0..SEEDS).filter(|seed| check(&runtime, *seed)).count();
    assert!(in_files > 0, "of {SEEDS} shapes none goes to files");
    let first = RandomState::new().hash_one(0);
    for seed in 0..SEEDS_ONCE {
        check(&runtime, first.wrapping_add(seed));
    }
}
