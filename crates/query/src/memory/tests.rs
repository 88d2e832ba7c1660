//! Who gets how much of a query's memory, and what is told and counted of it.

use ashlar_base::ErrorCode;
use datafusion::execution::memory_pool::{FairSpillPool, UnboundedMemoryPool};

use super::*;

/// A query's pool over one without a limit.
fn pool(max: Option<usize>) -> (Arc<QueryPool>, Arc<dyn MemoryPool>) {
    let pool = Arc::new(QueryPool::new(Arc::new(UnboundedMemoryPool::default()), max));
    (Arc::clone(&pool), pool)
}

fn consumer(name: &str, can_spill: bool, pool: &Arc<dyn MemoryPool>) -> MemoryReservation {
    MemoryConsumer::new(name).with_can_spill(can_spill).register(pool)
}

#[test]
fn a_query_has_its_limit_and_no_more() {
    let (counted, pool) = pool(Some(1000));
    let join = consumer("join", false, &pool);
    join.try_grow(600).unwrap();
    assert!(join.try_grow(401).is_err());
    join.try_grow(400).unwrap();
    assert_eq!((counted.reserved(), counted.most()), (1000, 1000));
    join.shrink(700);
    // What was refused leaves nothing behind.
    assert!(join.try_grow(701).is_err());
    assert_eq!((counted.reserved(), counted.most()), (300, 1000));
    drop(join);
    assert_eq!(counted.reserved(), 0);
}

#[test]
fn those_that_can_go_to_files_have_equal_parts() {
    let (_, pool) = pool(Some(1000));
    let (sort, groups) = (consumer("sort", true, &pool), consumer("groups", true, &pool));
    sort.try_grow(500).unwrap();
    assert!(sort.try_grow(1).is_err());
    groups.try_grow(400).unwrap();
    // What cannot go to files comes first: the others have less then, and get no more until they have less.
    let join = consumer("join", false, &pool);
    join.try_grow(100).unwrap();
    assert!(join.try_grow(1).is_err());
    assert!(groups.try_grow(51).is_err());
    sort.free();
    groups.try_grow(50).unwrap();
    assert!(groups.try_grow(1).is_err());
    // Whoever is gone leaves his part.
    drop(sort);
    groups.try_grow(450).unwrap();
    assert!(groups.try_grow(1).is_err());
}

#[test]
fn the_error_names_the_limit_that_was_reached() {
    let (_, pool) = pool(Some(64 << 10));
    let error = consumer("the join", false, &pool).try_grow(65 << 10).unwrap_err();
    let error = ashlar_functions::error::from_datafusion(error);
    assert_eq!(error.code(), ErrorCode::OutOfMemory);
    assert!(error.message().contains("query_memory_max of 64 kB: the join has 0 kB"), "{error}");
    assert!(error.fields().hint.as_deref().unwrap().contains("query_memory_max"));

    let all: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(1000));
    let counted = Arc::new(QueryPool::new(Arc::clone(&all), Some(64 << 10)));
    let pool: Arc<dyn MemoryPool> = Arc::clone(&counted) as Arc<dyn MemoryPool>;
    let join = consumer("join", false, &pool);
    let error = ashlar_functions::error::from_datafusion(join.try_grow(1001).unwrap_err());
    assert!(error.fields().hint.as_deref().unwrap().contains("query.memory_mib_max"));
    assert_eq!((counted.reserved(), counted.most(), all.reserved()), (0, 0, 0));
}

#[test]
fn a_query_without_a_limit_is_counted() {
    let (counted, pool) = pool(None);
    let sorts: Vec<_> = (0..3).map(|_| consumer("sort", true, &pool)).collect();
    sorts.iter().for_each(|sort| sort.try_grow(1 << 30).unwrap());
    sorts[0].grow(5);
    drop(sorts);
    assert_eq!((counted.reserved(), counted.most()), (0, (3 << 30) + 5));
}
