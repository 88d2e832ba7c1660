//! What a write does where there is far too little room: a piece, and the compactor the rest.

use ashlar_base::{Datum, ErrorCode, Result, TableSchema};

use super::*;
use crate::testing::numbers;
use crate::{Applied, Mutation, Store, StoreConfig};

fn put(region: &Region, id: i64) -> Result<Applied> {
    let row = [Datum::Int8(id), Datum::Int8(id)];
    region.entry(&row[..1], |entry| entry.apply(Mutation::Upsert { row: &row }))
}

#[test]
fn a_bound_far_below_what_there_is_makes_no_write_wait_for_all_of_it() {
    const ROWS: i64 = 400_000;
    let store = Store::new(StoreConfig { partition_count: 64, ..StoreConfig::default() });
    let mut schema = TableSchema::clone(&numbers(1));
    schema.life = LifeOptions { eviction: Eviction::Random, ..LifeOptions::default() };
    let region = store.create_region(Arc::new(schema)).unwrap();
    (0..ROWS).for_each(|id| assert!(put(&region, id).is_ok()));
    let bytes = region.bytes();
    assert!(bytes > BYTES_PER_WRITE * 3 / 2, "{bytes} bytes are no test");
    store.set_memory_max(bytes / 2);
    let evicted = |before: u64| store.ended().evicted - before;
    for id in ROWS..ROWS + 3 {
        let before = store.ended().evicted;
        // Whether it has room after that is another question.
        if let Err(error) = put(&region, id) {
            assert_eq!(error.code(), ErrorCode::OutOfMemory);
        }
        let share = region.row_count() * BYTES_PER_WRITE / bytes;
        assert!((1..=share / 4).contains(&evicted(before)), "{} rows at once", evicted(before));
    }
    // The rest goes in the background.
    for _ in 0..100 {
        if store.memory_used() > store.memory_max() {
            store.compact();
        }
    }
    assert!(store.memory_used() <= store.memory_max(), "{} bytes", store.memory_used());
    (0..100).for_each(|id| assert!(put(&region, id).is_ok()));
    region.check();
}
