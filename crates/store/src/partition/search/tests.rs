//! Several indexes at once against a look at every row.

use std::ops::Bound;
use std::sync::Arc;

use ashlar_base::{ColumnId, Datum, IndexDef, IndexKind, PartitionId, TableId, Value};

use crate::testing::{INT8, schema, store};
use crate::{ColumnReader, Mutation, Probe, ReadView, Region};

fn index(region: &Region, id: u32, column: u32) -> Arc<IndexDef> {
    let index = IndexDef::plain(TableId(id), format!("i{id}"), IndexKind::Btree, vec![ColumnId(column)]);
    let index = Arc::new(index);
    region.add_index(&index);
    region.build_index(&index).unwrap();
    index
}

#[test]
fn unions_and_two_of_them_leave_what_a_look_at_every_row_leaves() {
    let store = store(1, 256);
    let region = store.create_region(schema(1, "t", &[("id", INT8), ("a", INT8), ("b", INT8)], &[0])).unwrap();
    for id in 0..2_000i64 {
        let a = if id % 50 == 0 { Datum::Null } else { Datum::Int8(id % 12) };
        let row = [Datum::Int8(id), a, Datum::Int8(id % 17)];
        region.entry(&row[..1], |entry| entry.apply(Mutation::Insert { row: &row })).unwrap();
    }
    let (on_a, on_b) = (index(&region, 10, 1), index(&region, 11, 2));
    let equal = |index: &Arc<IndexDef>, value: Value| Probe {
        index: Arc::clone(index),
        equal: vec![value],
        range: (Bound::Unbounded, Bound::Unbounded),
    };
    let not_null =
        Probe { index: Arc::clone(&on_a), equal: Vec::new(), range: (Bound::Unbounded, Bound::Excluded(Value::Null)) };
    let (a3, a4, a_null) = (equal(&on_a, Value::Int8(3)), equal(&on_a, Value::Int8(4)), equal(&on_a, Value::Null));
    let (b5, b6) = (equal(&on_b, Value::Int8(5)), equal(&on_b, Value::Int8(6)));
    type Wanted = fn(Option<i64>, i64) -> bool;
    let cases: [(Vec<Vec<Probe>>, Wanted, usize); 7] = [
        (vec![vec![a3.clone()], vec![b5.clone()]], |a, b| a == Some(3) && b == 5, 20),
        (
            vec![vec![a3.clone(), a4.clone()], vec![b5.clone(), b6.clone()]],
            |a, b| matches!((a, b), (Some(3 | 4), 5 | 6)),
            60,
        ),
        (vec![vec![a_null.clone()]], |a, _| a.is_none(), 40),
        (vec![vec![a_null.clone()], vec![b5.clone()]], |a, b| a.is_none() && b == 5, 5),
        (vec![vec![not_null], vec![b5.clone()]], |a, b| a.is_some() && b == 5, 2_000),
        (vec![vec![b5.clone(), a_null.clone()]], |a, b| a.is_none() || b == 5, 2_000),
        (vec![vec![a3, b5]], |a, b| a == Some(3) || b == 5, 2_000),
    ];
    let view = ReadView::committed(store.snapshot());
    for (number, (asked, wanted, at_most)) in cases.into_iter().enumerate() {
        let (mut found, mut looked_at) = (0, 0);
        for scanned in region.scan_searched(&view, PartitionId(0), &[1, 2], None, &asked).unwrap() {
            let a = ColumnReader::new(scanned.batch.column(0), INT8).unwrap();
            let b = ColumnReader::new(scanned.batch.column(1), INT8).unwrap();
            for row in 0..scanned.batch.num_rows() {
                let number = |datum: Datum<'_>| if let Datum::Int8(number) = datum { Some(number) } else { None };
                looked_at += 1;
                found += usize::from(wanted(number(a.datum(row)), number(b.datum(row)).unwrap()));
            }
        }
        let expected = (0..2_000i64).filter(|id| wanted((id % 50 != 0).then_some(id % 12), id % 17)).count();
        assert_eq!(found, expected, "case {number}");
        assert!(looked_at <= at_most, "case {number}: {looked_at} rows");
    }
}
