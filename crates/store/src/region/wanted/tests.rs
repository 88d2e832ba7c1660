//! What comes of rows that are named holds all that are wanted: against a look at all rows.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use ashlar_base::{Datum, IndexKind, PartitionId, Result, SqlType, Value};
use proptest::prelude::*;

use super::*;
use crate::order::compare;
use crate::testing::{INT8, TEXT, is_same, schema, store};
use crate::{ColumnReader, Mutation, WriteSet};

/// Keys that are asked for at once.
const KEYS_MAX: usize = 8;

fn values(region: &Region, batches: &[ScanBatch]) -> Result<Vec<Vec<Value>>> {
    let schema = region.schema();
    let mut rows = Vec::new();
    for scanned in batches {
        let readers = (0..schema.columns.len())
            .map(|ordinal| ColumnReader::new(scanned.batch.column(ordinal), schema.columns[ordinal].sql_type))
            .collect::<Result<Vec<_>>>()?;
        for row in 0..scanned.batch.num_rows() {
            if scanned.visible.as_ref().is_none_or(|visible| visible.value(row)) {
                rows.push(readers.iter().map(|reader| reader.datum(row).to_value()).collect());
            }
        }
    }
    Ok(rows)
}

fn datums(values: &[Value]) -> Vec<Datum<'_>> {
    values.iter().map(Value::as_datum).collect()
}

fn by_columns(left: &[Value], right: &[Value], ordinals: &[usize]) -> Ordering {
    let pairs = ordinals.iter().map(|&ordinal| compare(&left[ordinal].as_datum(), &right[ordinal].as_datum()));
    pairs.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Holds every way of naming rows against all rows that a view sees.
pub(crate) fn check(region: &Arc<Region>, view: &ReadView, rows: &[Vec<Value>]) -> Result<()> {
    let schema = region.schema();
    let columns: Vec<usize> = (0..schema.columns.len()).collect();
    let key_of = |row: &[Value]| -> Box<[Value]> { schema.key.iter().map(|&ordinal| row[ordinal].clone()).collect() };
    let partitions = || (0..region.partition_count()).map(PartitionId);
    let counted = partitions().map(|partition| region.count(view, partition, schema.version)).sum::<Result<u64>>()?;
    assert_eq!(counted, rows.len() as u64, "what is counted is what is seen");
    for partition in partitions() {
        let here: Vec<&Vec<Value>> =
            rows.iter().filter(|row| region.partition_of(&datums(&key_of(row))) == Some(partition)).collect();
        let mut keys: Vec<Box<[Value]>> = here.iter().take(KEYS_MAX).map(|row| key_of(row)).collect();
        keys.extend(keys.first().cloned());
        let found = values(region, &region.scan_keys(view, partition, &columns, None, &keys)?)?;
        for key in keys.iter().take(KEYS_MAX.min(here.len())) {
            let times = found.iter().filter(|row| key_of(row) == *key).count();
            assert_eq!(times, 1, "the row of a key comes once");
        }
        assert!(found.iter().all(|row| here.contains(&row)), "nothing comes that is not seen");
        for index in region.indexes().iter().filter(|index| index.kind == IndexKind::Btree) {
            let ordinals: Vec<usize> = index
                .columns
                .iter()
                .filter_map(|id| schema.columns.iter().position(|column| column.id == *id))
                .collect();
            // What a block has altered is not what indexes are on.
            if ordinals.len() < index.columns.len() {
                continue;
            }
            let first = here.iter().map(|row| row[ordinals[0]].clone()).find(|value| !value.is_null());
            for equal in [Vec::new()].into_iter().chain(first.map(|value| vec![value])) {
                for (backwards, passes_null, count) in
                    [(false, false, 1), (true, false, 1), (false, true, 2), (true, true, 1), (true, true, 3)]
                {
                    let rest = &ordinals[equal.len()..];
                    let is_meant = |row: &&&Vec<Value>| {
                        let mut pairs = equal.iter().zip(&ordinals);
                        pairs.all(|(value, &ordinal)| compare(&row[ordinal].as_datum(), &value.as_datum()).is_eq())
                            && !(passes_null && rest.first().is_some_and(|&next| row[next].is_null()))
                    };
                    let sorted = |mut rows: Vec<Vec<Value>>| {
                        rows.sort_by(|left, right| by_columns(left, right, rest));
                        if backwards {
                            rows.reverse();
                        }
                        rows.truncate(count);
                        rows.into_iter().map(|row| rest.iter().map(|&ordinal| row[ordinal].clone()).collect()).collect()
                    };
                    let expected: Vec<Vec<Value>> =
                        sorted(here.iter().filter(is_meant).map(|row| Vec::clone(row)).collect());
                    let range = (Bound::Unbounded, Bound::Unbounded);
                    let probe = Probe { index: Arc::clone(index), equal: equal.clone(), range };
                    let walk = Walk { probe, backwards: vec![backwards], passes_null, count };
                    let found = values(region, &region.scan_walks(view, partition, &columns, None, &[walk])?)?;
                    let found: Vec<Vec<Value>> = sorted(
                        found.iter().collect::<Vec<_>>().iter().filter(is_meant).map(|row| Vec::clone(row)).collect(),
                    );
                    // Equal values may be written otherwise.
                    let is_all = found.len() == expected.len()
                        && found.iter().zip(&expected).all(|(found, expected)| is_same(found, expected));
                    assert!(is_all, "the first rows are the first of all: {found:?}, {expected:?}");
                }
            }
            let some: Vec<Probe> = here
                .iter()
                .take(3)
                .filter(|row| !row[ordinals[0]].is_null())
                .map(|row| Probe {
                    index: Arc::clone(index),
                    equal: vec![row[ordinals[0]].clone()],
                    range: (Bound::Unbounded, Bound::Unbounded),
                })
                .collect();
            let found = values(region, &region.scan_any(view, partition, &columns, None, &some)?)?;
            let is_any = |row: &[Value]| {
                let mut probes = some.iter();
                probes.any(|probe| compare(&row[ordinals[0]].as_datum(), &probe.equal[0].as_datum()).is_eq())
            };
            let (found, expected) =
                (found.iter().filter(|row| is_any(row)).count(), here.iter().filter(|row| is_any(row)).count());
            assert_eq!(found, expected, "a row that several values find comes once");
        }
    }
    Ok(())
}

#[test]
fn a_walk_passes_over_what_the_transaction_has_taken_away() {
    let store = store(1, 64);
    let columns: [(&str, SqlType); 2] = [("id", INT8), ("s", TEXT)];
    let region = store.create_region(schema(1, "t", &columns, &[0])).unwrap();
    let column = region.schema().columns[1].id;
    let index = ashlar_base::IndexDef::plain(ashlar_base::TableId(9), "by_s", IndexKind::Btree, vec![column]);
    let index = Arc::new(index);
    region.add_index(&index);
    region.build_index(&index).unwrap();
    for id in 0..100i64 {
        let text = format!("{id:03}");
        let row = [Datum::Int8(id), Datum::Text(&text)];
        region.entry(&row[..1], |entry| entry.apply(Mutation::Insert { row: &row })).unwrap();
    }
    let snapshot = store.snapshot();
    let mut writes = WriteSet::new();
    for id in 0..5i64 {
        writes.delete(&region, 1, &snapshot, &[Datum::Int8(id)]).unwrap();
    }
    writes.upsert(&region, 1, &snapshot, &[Datum::Int8(5), Datum::Text("zzz")]).unwrap();
    let overlays = [(region.id(), writes.overlay(&region).unwrap())].into();
    let view = ReadView { snapshot, overlays };
    let probe = Probe { index, equal: Vec::new(), range: (Bound::Unbounded, Bound::Unbounded) };
    let walk = Walk { probe, backwards: vec![false], passes_null: false, count: 2 };
    let batches = region.scan_walks(&view, PartitionId(0), &[0, 1], Some(1), &[walk]).unwrap();
    let mut ids: Vec<Value> = values(&region, &batches).unwrap().into_iter().map(|mut row| row.remove(0)).collect();
    ids.sort_by(|left, right| compare(&left.as_datum(), &right.as_datum()));
    // The first two that are left, and what the transaction has written.
    assert_eq!(ids, [Value::Int8(5), Value::Int8(6), Value::Int8(7)]);
    assert_eq!(region.count(&view, PartitionId(0), 1).unwrap(), 95);
    // One more is committed meanwhile: the view goes on counting what it sees.
    let row = [Datum::Int8(1000), Datum::Null];
    region.entry(&row[..1], |entry| entry.apply(Mutation::Insert { row: &row })).unwrap();
    let committed = ReadView::committed(view.snapshot.clone());
    assert_eq!(region.count(&committed, PartitionId(0), 1).unwrap(), 100);
    assert_eq!(region.count(&ReadView::committed(store.snapshot()), PartitionId(0), 1).unwrap(), 101);
}

/// A number, or NULL above all numbers.
type Number = Option<i64>;

/// The order of rows whose columns go either way.
fn by_both(left: (Number, Number), right: (Number, Number), backwards: [bool; 2]) -> Ordering {
    let place = |number: Number| (number.is_none(), number);
    let orders = [place(left.0).cmp(&place(right.0)), place(left.1).cmp(&place(right.1))];
    let towards = orders.iter().zip(backwards).map(|(order, back)| if back { order.reverse() } else { *order });
    towards.fold(Ordering::Equal, Ordering::then)
}

proptest! {
    #[test]
    fn a_walk_goes_each_column_its_own_way(
        rows in proptest::collection::vec((proptest::option::of(0..3i64), proptest::option::of(0..4i64)), 0..40),
        backwards in any::<[bool; 2]>(),
        bounds in (proptest::option::of(0..3i64), proptest::option::of(0..3i64)),
        count in 1..12usize,
    ) {
        let store = store(1, 8);
        let region = store.create_region(schema(1, "t", &[("id", INT8), ("a", INT8), ("b", INT8)], &[0])).unwrap();
        let columns: Vec<_> = region.schema().columns[1..].iter().map(|column| column.id).collect();
        let index = ashlar_base::IndexDef::plain(ashlar_base::TableId(9), "by_both", IndexKind::Btree, columns);
        let index = Arc::new(index);
        region.add_index(&index);
        region.build_index(&index).unwrap();
        let number = |number: Number| number.map_or(Datum::Null, Datum::Int8);
        for (id, (a, b)) in (0..).zip(&rows) {
            let row = [Datum::Int8(id), number(*a), number(*b)];
            region.entry(&row[..1], |entry| entry.apply(Mutation::Insert { row: &row })).unwrap();
        }
        // Of every fifth the entry stays, because somebody sees it still.
        let _earlier = store.snapshot();
        for (id, _) in (0..).zip(&rows).step_by(5) {
            let key = [Datum::Int8(id)];
            region.entry(&key, |entry| entry.apply(Mutation::Delete { key: &key })).unwrap();
        }
        let is_within = |a: Number| match bounds {
            (None, None) => true,
            (low, high) => a.is_some_and(|a| low.is_none_or(|low| a > low) && high.is_none_or(|high| a <= high)),
        };
        let left = rows.iter().enumerate().filter(|(id, (a, _))| id % 5 != 0 && is_within(*a));
        let mut expected: Vec<(Number, Number)> = left.map(|(_, row)| *row).collect();
        expected.sort_by(|left, right| by_both(*left, *right, backwards));
        expected.truncate(count);
        let low = bounds.0.map_or(Bound::Unbounded, |low| Bound::Excluded(Value::Int8(low)));
        let high = bounds.1.map_or(Bound::Unbounded, |high| Bound::Included(Value::Int8(high)));
        let probe = Probe { index, equal: Vec::new(), range: (low, high) };
        let walk = Walk { probe, backwards: backwards.to_vec(), passes_null: false, count };
        let view = ReadView::committed(store.snapshot());
        let batches = region.scan_walks(&view, PartitionId(0), &[0, 1, 2], Some(1), &[walk]).unwrap();
        let of_value = |value: &Value| if let Value::Int8(number) = value { Some(*number) } else { None };
        let found = values(&region, &batches).unwrap();
        let mut found: Vec<(Number, Number)> = found.iter().map(|row| (of_value(&row[1]), of_value(&row[2]))).collect();
        found.sort_by(|left, right| by_both(*left, *right, backwards));
        prop_assert_eq!(found, expected);
    }
}
