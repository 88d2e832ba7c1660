//! How much a table of numbers takes that is made while they come, of an input that does not know how many rows it has.

use super::*;
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
    assert_eq!(taken(8000, |row| row, 8000), (8000, 8000 * 4));
    assert_eq!(taken(3000, |row| row * 1009 % 3000, 3000), (3000, 3000 * 4));
    // Far fewer than are expected, with nothing between them: a segment for each.
    let (rows, bytes) = taken(8000, |row| row * 40, 200_000);
    assert!((256..=1024).contains(&rows) && bytes <= 16 << 10, "{bytes} bytes of {rows} rows");
}
