//! How much a table of numbers takes that is made while they come, of an input that does not know how many rows it has.

use super::*;
use crate::hash_table::direct::SEGMENT;
use crate::join::chunk::{Pending, Rows as Part};
use crate::join::early::Early;
use crate::join::spec::Spec;
use crate::memory::{Memory, Wish};

/// Rows that are taken of so many with these keys, where `expected` are, and bytes of the table then.
fn taken(rows: i64, key: impl Fn(i64) -> i64, expected: usize) -> (usize, usize) {
    let fields = vec![Field::new("id", DataType::Int64, false), Field::new("key", DataType::Int64, false)];
    let columns: Vec<ArrayRef> =
        vec![Arc::new((1..=rows).collect::<Int64Array>()), Arc::new((0..rows).map(key).collect::<Int64Array>())];
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    let (input, nulls) = (table(&batch, 1, 500), NullEquality::NullEqualsNothing);
    let wanted = Wanted { join_type: JoinType::Inner, keys: vec!["key"], nulls, is_filtered: false, null_aware: false };
    let spec = Spec::of(&stock(&input, &input, &wanted)).unwrap().unwrap();
    let (memory, secret) = (Memory::unlimited(), Secret::random());
    let mut pending = Pending::new(&memory);
    pending.push(Part::of_batch(&spec, &batch).unwrap());
    let mut chunk = pending.take(&spec, secret, &memory, Wish::IfFree).unwrap();
    let mut early = Early::begin(&spec, &chunk, Some(expected), &memory).unwrap();
    let (mut taken, mut number) = (0, 0);
    while early.add(number, &mut chunk).unwrap() {
        (taken, number) = (taken + chunk.rows, number + 1);
        if pending.is_empty() {
            break;
        }
        chunk = pending.take(&spec, secret, &memory, Wish::IfFree).unwrap();
    }
    (taken, early.into_table().1.bytes())
}

#[test]
fn a_table_takes_little_more_than_its_rows_whatever_is_expected() {
    // As many as are expected, in order; and few of them, in any order.
    let bytes = |rows: usize| rows * 4 + rows / SEGMENT * size_of::<Vec<u32>>();
    assert_eq!(taken(8000, |row| row, 8000), (8000, bytes(8000)));
    assert_eq!(taken(3000, |row| row * 1009 % 3000, 3000), (3000, bytes(3000)));
    // Far fewer than are expected, with nothing between them: a segment for each.
    let (rows, bytes) = taken(8000, |row| row * 4, 200_000);
    assert!((256..=1024).contains(&rows) && bytes <= 40 << 10, "{bytes} bytes of {rows} rows");
}

#[test]
fn keys_that_a_table_knows_are_not_held_beside_it() {
    let runtime = runtime();
    let rows = 30_000;
    let made = |key: &dyn Fn(i64) -> Option<i64>| {
        let fields = vec![Field::new("id", DataType::Int64, false), Field::new("key", DataType::Int32, true)];
        let columns: Vec<ArrayRef> = vec![
            Arc::new((1..=rows).collect::<Int64Array>()),
            Arc::new((0..rows).map(|row| key(row).map(|key| key as i32)).collect::<Int32Array>()),
        ];
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
    };
    let right = table(&made(&|row| Some(row * 7)), 2, 500);
    for left in [made(&|row| Some(row)), made(&|row| (row % 10 != 3).then_some(row))] {
        let plain = table(&left, 1, 300);
        // A limit says how many rows there are at most.
        let counted: Arc<dyn ExecutionPlan> = Arc::new(LocalLimitExec::new(Arc::clone(&plain) as _, rows as usize));
        let nulls = NullEquality::NullEqualsNothing;
        let wanted =
            Wanted { join_type: JoinType::RightSemi, keys: vec!["key"], nulls, is_filtered: false, null_aware: false };
        let [at_the_end, early] = [&plain, &counted].map(|input| {
            let plan = own(&stock(input, &right, &wanted), None);
            run(&runtime, &plan, &context_of(1 << 30, 500));
            peak(&plan)
        });
        assert!(early < at_the_end, "{early} of {at_the_end}");
    }
}
