//! Statistics against what was put in.

use ashlar_base::Value;

use super::*;
use crate::testing::{load, numbers, store};
use crate::{Mutation, Store};

fn analysed(store: &Arc<Store>, region: &Arc<Region>) -> TableStatistics {
    let view = ReadView::committed(store.snapshot());
    let mut analysis = Analysis::new(region);
    (0..region.partition_count()).for_each(|partition| analysis.add(&view, PartitionId(partition)).unwrap());
    analysis.finish()
}

fn filled(rows: i64, v: impl Fn(i64) -> Datum<'static>) -> TableStatistics {
    let store = store(8, 4096);
    let region = store.create_region(numbers(1)).unwrap();
    for id in 0..rows {
        let row = [Datum::Int8(id), v(id)];
        region.entry(&row[..1], |entry| entry.apply(Mutation::Insert { row: &row })).unwrap();
    }
    let found = analysed(&store, &region);
    drop(region);
    found
}

fn number(value: &Value) -> i64 {
    match value {
        Value::Int8(number) => *number,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_small_table_is_known_exactly() {
    let found = filled(1_000, |id| if id % 10 == 0 { Datum::Null } else { Datum::Int8(id % 3) });
    assert_eq!(found.rows, 1_000);
    let [id, v] = &found.columns[..] else { panic!("two columns") };
    assert_eq!((id.null_fraction, id.distinct, id.is_exact), (0.0, 1_000.0, true));
    assert!(id.common.is_empty());
    assert_eq!(id.bounds.len(), 101);
    assert_eq!((number(&id.bounds[0]), number(&id.bounds[100])), (0, 999));
    assert_eq!(id.distinct_as_postgres(1_000), -1.0);
    assert_eq!((v.null_fraction, v.distinct, v.width), (0.1, 3.0, 8.0));
    assert_eq!(v.common.len(), 3);
    assert!(v.common.iter().all(|(_, part)| (part - 0.3).abs() < 1e-9), "{:?}", v.common);
    assert!(v.bounds.is_empty());
    assert_eq!(v.distinct_as_postgres(1_000), 3.0);
}

#[test]
fn a_large_table_is_estimated_well() {
    // One value has half of the rows; of the others there are 50,000.
    let found = filled(100_000, |id| Datum::Int8(if id % 2 == 0 { -1 } else { id }));
    let v = found.column(ColumnId(1)).unwrap();
    assert!(!v.is_exact);
    assert!((v.distinct - 50_001.0).abs() < 50_001.0 * 0.06, "{}", v.distinct);
    let (value, part) = &v.common[0];
    assert_eq!(number(value), -1);
    assert!((part - 0.5).abs() < 0.02, "{part}");
    assert_eq!(v.bounds.len(), 101);
    let middle = number(&v.bounds[50]);
    assert!((45_000..55_000).contains(&middle), "{middle}");
    assert!(v.bounds.is_sorted_by_key(number));
}

#[test]
fn an_empty_table_has_nothing() {
    let found = filled(0, |_| Datum::Null);
    let v = found.column(ColumnId(1)).unwrap();
    assert_eq!((found.rows, v.distinct, v.null_fraction), (0, 0.0, 0.0));
    assert!(v.common.is_empty() && v.bounds.is_empty());
}

#[test]
fn rows_that_come_and_go_are_counted_and_those_overwritten_in_place_are_not() {
    let store = store(4, 64);
    let region = store.create_region(numbers(1)).unwrap();
    let put = |id: i64, v: i64| {
        let row = [Datum::Int8(id), Datum::Int8(v)];
        region.entry(&row[..1], |entry| entry.apply(Mutation::Upsert { row: &row })).unwrap();
    };
    (0..100).for_each(|id| put(id, id));
    assert_eq!(region.turnover(), 100);
    (0..100).for_each(|id| put(id, -id));
    assert_eq!(region.turnover(), 100, "nobody reads the old values");
    let view = ReadView::committed(store.snapshot());
    (0..10).for_each(|id| put(id, 7));
    assert_eq!(region.turnover(), 110, "a snapshot sees the rows that were replaced");
    drop(view);
    let rows = (100..150).map(|id| [Datum::Int8(id), Datum::Int8(id)]);
    let mut writes = load(&region, &store.snapshot(), rows).unwrap();
    store.commit(&mut writes).unwrap();
    drop(writes);
    assert_eq!(region.turnover(), 160, "rows of a load");
    for id in 0..100 {
        let key = [Datum::Int8(id)];
        region.entry(&key, |entry| entry.apply(Mutation::Delete { key: &key })).unwrap();
    }
    assert_eq!(region.turnover(), 260);
    assert_eq!(region.truncate().unwrap(), 50);
    assert_eq!(region.turnover(), 310);
    let known = analysed(&store, &region);
    assert_eq!((known.rows, known.turnover), (0, 310));
    store.compact();
    assert_eq!(region.bytes(), 0, "partitions without rows are freed");
    assert_eq!(region.turnover(), 310, "and what they have counted is kept");
    put(1, 1);
    assert_eq!(region.turnover(), 311);
    region.check();
}
