//! How much room a table of groups has beside what its groups need, when all rows have come.

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
                let portion = Portion { batch: &rows, hashes: &hashes, rows: &numbers[at..], values, filters, to_come };
                at += table.add_some(&portion, Wish::IfFree, &mut ids).unwrap();
                calls += 1;
            }
        }
        // The key, the count, and the place in a directory that is full.
        let least = table.len() as f64 * (8.0 + 4.0 + 64.0 / 10.5);
        let room = table.bytes() as f64 / least;
        assert!((1.0..1.15).contains(&room), "{room} x what {} groups need, of {keys} keys", table.len());
        assert!(calls < ROWS / LOT * 5 / 4, "{calls} calls for {} lots", ROWS / LOT);
    }
}
