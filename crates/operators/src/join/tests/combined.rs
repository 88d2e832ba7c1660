//! What a test of one thing at a time does not see: every way to join, by keys of several types, where what is in files has to be divided again,
//! and where it is looked up block by block.

use super::skew::levels_and_blocks;
use super::*;

const KEYS: [&[&str]; 3] = [&["long"], &["text"], &["text", "int"]];

/// Two sides, and with what they are joined.
#[derive(Clone, Copy, Debug)]
struct Sides {
    left: Rows,
    right: Rows,
    secret: Option<Secret>,
    /// By how much the memory is divided that the join takes when it may take all.
    share: usize,
}

/// NOT IN, by one key.
fn not_in(key: &'static str) -> Wanted {
    let nulls = NullEquality::NullEqualsNothing;
    Wanted { join_type: JoinType::LeftAnti, keys: vec![key], nulls, is_filtered: false, null_aware: true }
}

/// Rows of a batch of the build side: so many that there are five batches. Each file of those that a batch is divided among has a batch for it, which
/// takes more time than its rows; by one of the keys there are so many of them that files have batches of a row each.
fn batch_rows(sides: Sides, wanted: &Wanted) -> usize {
    if wanted.keys == ["long"] { 64 } else { (sides.left.count as usize / 5).max(64) }
}

/// Joins in memory and through files, and holds what comes against a nested loop; how often rows were divided, and how many blocks there were.
fn check(runtime: &tokio::runtime::Runtime, sides: Sides, wanted: &Wanted) -> (usize, usize) {
    let (left, right) = (made(sides.left), made(sides.right));
    let (left_table, right_table) = (table(&left, 2, batch_rows(sides, wanted)), table(&right, 2, 16));
    let expected = match wanted.null_aware {
        true => nested_loop_of_null_aware(&left, &right, wanted),
        false => nested_loop(&left, &right, wanted),
    };
    let stock = stock(&left_table, &right_table, wanted);
    let free = own(&stock, sides.secret);
    let found = run(runtime, &free, &context_of(1 << 30, 500));
    assert!(origins(&found, &left, &right, wanted.join_type) == expected, "{sides:?} {wanted:?}");
    assert_eq!(levels_and_blocks(&free), (0, 0), "{sides:?} {wanted:?}");
    let less = own(&stock, sides.secret);
    let found = run(runtime, &less, &context_of(peak(&free) / sides.share, 500));
    assert!(origins(&found, &left, &right, wanted.join_type) == expected, "{sides:?} {wanted:?}, in files");
    levels_and_blocks(&less)
}

/// [`check`] by all keys and in all ways; so often were rows divided at least, and there were at least so many blocks.
fn check_in_every_way(sides: Sides, at_least: (usize, usize)) {
    let runtime = runtime();
    for wanted in KEYS.iter().flat_map(|keys| ways(keys)) {
        let (levels, blocks) = check(&runtime, sides, &wanted);
        assert!(levels >= at_least.0 && blocks >= at_least.1, "{wanted:?}: {levels} levels, {blocks} blocks");
    }
}

/// Keys of which each has a few rows, with NULL among them.
const MANY: Rows = Rows { count: 1600, keys: 500, null: 9, seed: 1, ..NONE };
const FEW: Rows = Rows { count: 40, keys: 500, null: 7, seed: 2, ..NONE };

#[test]
fn what_is_divided_again_is_joined_in_every_way() {
    // A part has a quarter of the rows, and a sixteenth of their memory.
    check_in_every_way(Sides { left: MANY, right: FEW, secret: None, share: 16 }, (2, 0));
}

#[test]
fn what_no_hash_divides_is_looked_up_block_by_block_in_every_way() {
    let left = Rows { count: 400, keys: 150, ..MANY };
    let sides = Sides { left, right: Rows { keys: 150, ..FEW }, secret: Some(Secret::stuck()), share: 8 };
    check_in_every_way(sides, (0, 2));
}

#[test]
fn a_key_with_most_of_the_rows_is_looked_up_block_by_block_in_every_way() {
    let left = Rows { count: 400, skew: 200, ..MANY };
    let sides = Sides { left, right: Rows { keys: 10, ..FEW }, secret: None, share: 8 };
    check_in_every_way(sides, (0, 2));
}

#[test]
fn a_null_is_perhaps_equal_to_anything_at_all_levels_and_in_all_blocks() {
    let runtime = runtime();
    // With NULL, without, and nothing at all.
    for right in [FEW, Rows { null: 0, ..FEW }, NONE] {
        for key in ["long", "text", "wide"] {
            let many = Sides { left: MANY, right, secret: None, share: 16 };
            let (levels, _) = check(&runtime, many, &not_in(key));
            assert!(levels >= 2, "{right:?} {key}: {levels}");
            let one = Sides { left: Rows { count: 400, skew: 200, ..MANY }, share: 8, ..many };
            let stuck = Sides { left: Rows { count: 400, ..MANY }, secret: Some(Secret::stuck()), ..one };
            for sides in [one, stuck] {
                let (_, blocks) = check(&runtime, sides, &not_in(key));
                assert!(blocks >= 2, "{sides:?} {key}: {blocks}");
            }
        }
    }
}
