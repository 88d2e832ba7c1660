//! Indexes on values of every type, held against a look at all rows.

use ashlar_base::{ColumnId, IndexRows, Interval, ScalarType, SqlType, TableSchema};
use proptest::prelude::*;

use super::*;
use crate::region::Region;
use crate::testing::{INT4, INT8, any_value, scan_all, schema, store, types};
use crate::{Mutation, ReadView};

fn add(region: &Region, definition: IndexDef) {
    let definition = Arc::new(definition);
    region.add_index(&definition);
    region.build_index(&definition).unwrap();
}

fn put(region: &Region, id: i64, value: &Value) {
    let row = [Datum::Int8(id), value.as_datum()];
    region.entry(&row[..1], |entry| entry.apply(Mutation::Upsert { row: &row })).unwrap();
}

/// The whole months of an interval.
#[derive(Debug)]
struct Months {
    inputs: [ColumnId; 1],
    types: [SqlType; 1],
}

impl IndexRows for Months {
    fn inputs(&self) -> &[ColumnId] {
        &self.inputs
    }

    fn compute(&self, rows: &[Vec<Value>]) -> Result<Vec<Option<Box<[Value]>>>> {
        let months = |row: &Vec<Value>| match row[0] {
            Value::Interval(interval) => Value::Int4(interval.months),
            _ => Value::Null,
        };
        Ok(rows.iter().map(|row| Some(vec![months(row)].into())).collect())
    }

    fn has_all_rows(&self) -> bool {
        true
    }

    fn types(&self) -> &[SqlType] {
        &self.types
    }

    fn text(&self, _: usize, _: &TableSchema) -> String {
        "months(v)".to_owned()
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

#[test]
fn of_an_equal_value_that_is_written_otherwise_an_expression_is_computed_anew() {
    let store = store(1, 8);
    let columns = [("id", INT8), ("v", SqlType::Scalar(ScalarType::Interval))];
    let region = store.create_region(schema(1, "t", &columns, &[0])).unwrap();
    let computes = Months { inputs: [ColumnId(1)], types: [INT4] };
    let plain = IndexDef::plain(TableId(2), "by_months", IndexKind::Btree, vec![IndexDef::expression_id(0)]);
    add(&region, IndexDef { rows: Some(Arc::new(computes)), ..plain });
    add(&region, IndexDef::plain(TableId(3), "by_v", IndexKind::Btree, vec![ColumnId(1)]));
    let span = |months, days| Value::Interval(Interval { months, days, micros: 0 });
    for value in [span(0, 30), span(1, 0), span(2, -30), span(0, 31)] {
        put(&region, 1, &value);
        region.check();
        scan_all(&region, &ReadView::committed(store.snapshot())).unwrap();
    }
}

/// A type that an index can be on, and values of it, some of them more than once.
fn indexed_values() -> impl Strategy<Value = (SqlType, Vec<Value>)> {
    let indexed: Vec<SqlType> = types().filter(|sql_type| sql_type.can_be_indexed()).collect();
    proptest::sample::select(indexed).prop_flat_map(|sql_type| {
        let few = proptest::collection::vec(any_value(sql_type), 1..6);
        let rows = few.prop_flat_map(|few| proptest::collection::vec(proptest::sample::select(few), 1..24));
        (Just(sql_type), rows)
    })
}

proptest! {
    #[test]
    fn indexes_of_every_type_find_what_a_look_at_all_rows_finds((sql_type, values) in indexed_values()) {
        let store = store(2, 8);
        let region = store.create_region(schema(1, "t", &[("id", INT8), ("v", sql_type)], &[0])).unwrap();
        for (id, kind) in [(2, IndexKind::Btree), (3, IndexKind::Hash)] {
            add(&region, IndexDef::plain(TableId(id), format!("i{id}"), kind, vec![ColumnId(1)]));
        }
        for (id, value) in (0..).zip(&values) {
            // Ids come again: rows get other values.
            put(&region, id % 16, value);
        }
        region.check();
        scan_all(&region, &ReadView::committed(store.snapshot())).unwrap();
    }
}
