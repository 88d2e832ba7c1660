//! How much room a table of groups has beside what its groups need, when all rows have come.

use arrow::datatypes::Int64Type;
use datafusion_execution::memory_pool::GreedyMemoryPool;

use super::*;
use crate::aggregate::partition::{Partition, Portion};
use crate::aggregate::partitions::all_rows;
use crate::aggregate::spec::{Rows, Spec};
use crate::hash_table::hash::Secret;

const ROWS: u64 = 60_000;
/// Rows that come at a time, as many as a table gets of those that waited.
const LOT: u64 = 1000;

/// Rows of this lot, with keys below a limit.
fn lot(start: u64, keys: u64) -> RecordBatch {
    let ids: Int64Array = (start..start + LOT).map(|row| (scrambled(row) % keys) as i64).collect();
    RecordBatch::try_from_iter([("id", Arc::new(ids) as ArrayRef)]).unwrap()
}

/// Groups by `id` and their number of rows.
fn counting() -> Spec {
    let input = table(&lot(0, 1), 1, 1000);
    let last = stock(&input, &["id"], &[Wanted(count_udaf(), "*", false, None)], false);
    let first = last.downcast_ref::<AggregateExec>().unwrap().input();
    Spec::of(first.downcast_ref::<AggregateExec>().unwrap(), last.schema()).unwrap().unwrap()
}

#[test]
fn a_table_has_little_more_room_than_its_groups_need() {
    let (spec, secret) = (counting(), Secret::random());
    // By chance each twelve times, more or less; once or twice; all different.
    for keys in [4_700, 47_000, u64::MAX >> 1] {
        let mut table = Partition::new(&spec, secret, &memory()).unwrap();
        let (mut hashes, mut numbers, mut ids, mut calls) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for start in (0..ROWS).step_by(LOT as usize) {
            let rows = spec.rows(&lot(start, keys)).unwrap().next().unwrap().unwrap();
            rows.packed.hashes(secret, &mut hashes);
            all_rows(&mut numbers, rows.packed.len());
            let to_come = Some((ROWS - start) as f64 / start.max(1) as f64);
            let mut at = 0;
            while at < numbers.len() {
                let Rows { values, filters, .. } = &rows;
                let portion =
                    Portion { batch: &rows, hashes: &hashes, rows: &numbers[at..], values, filters, to_come, came: 0 };
                at += table.add_some(&portion, Wish::IfFree, &mut ids).unwrap();
                calls += 1;
            }
        }
        // The count, and the place with its key in a table that is full.
        let least = table.len() as f64 * (1.0 + 64.0 / (5.0 * 3.0 / 4.0));
        let room = table.bytes() as f64 / least;
        assert!((1.0..1.15).contains(&room), "{room} x what {} groups need, of {keys} keys", table.len());
        assert!(calls < ROWS / LOT * 5 / 4, "{calls} calls for {} lots", ROWS / LOT);
    }
}

#[test]
fn rows_of_groups_that_are_there_are_taken_where_there_is_no_room_for_more_groups() {
    let (spec, secret) = (counting(), Secret::random());
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(256 << 10));
    let memory = Arc::new(Memory::new(MemoryConsumer::new("test").register(&pool), Gauge::new()));
    let mut table = Partition::new(&spec, secret, &memory).unwrap();
    let (mut hashes, mut numbers, mut ids) = (Vec::new(), Vec::new(), Vec::new());
    // What was refused in part may have grown in part: in the end nothing grows.
    let (mut start, mut refused) = (0, 0);
    while refused < 4 {
        let rows = spec.rows(&lot(start, u64::MAX >> 1)).unwrap().next().unwrap().unwrap();
        rows.packed.hashes(secret, &mut hashes);
        all_rows(&mut numbers, rows.packed.len());
        let Rows { values, filters, .. } = &rows;
        let portion =
            Portion { batch: &rows, hashes: &hashes, rows: &numbers, values, filters, to_come: None, came: 0 };
        if table.add(&portion, Wish::IfFree, &mut ids).is_ok() {
            (start, refused) = (start + LOT, 0);
        } else {
            refused += 1;
        }
    }
    let groups = table.len();
    assert!(groups >= 2 * LOT as usize && groups as u64 == start, "{groups} groups of {start} rows");
    let rows = spec.rows(&lot(0, u64::MAX >> 1)).unwrap().next().unwrap().unwrap();
    rows.packed.hashes(secret, &mut hashes);
    let Rows { values, filters, .. } = &rows;
    let portion = Portion { batch: &rows, hashes: &hashes, rows: &numbers, values, filters, to_come: None, came: 0 };
    assert!(table.add(&portion, Wish::IfFree, &mut ids).is_err());
    table.add_known(&portion, Wish::IfFree, &mut ids).unwrap();
    assert_eq!(table.len(), groups);
    let found = table.take_batch(&spec, &spec.schema, false).unwrap();
    let counts = found.column(1).as_primitive::<Int64Type>();
    assert_eq!(counts.values().iter().filter(|count| **count == 2).count() as u64, LOT);
    assert_eq!(counts.values().iter().sum::<i64>() as u64, start + LOT);
}
