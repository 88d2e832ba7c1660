//! Constraints with conditions of the test's own: `column < limit`.

use std::any::Any;
use std::sync::Arc;

use ashlar_base::{CheckDef, ColumnId, Datum, Error, ErrorCode, IndexRows, Result, ScalarType, SqlType, TableId};
use ashlar_base::{TableSchema, Value};

use crate::testing::{INT4, schema, store};
use crate::{Expiry, Mutation, Region, RowBatch, Snapshot, Store, WriteSet};

#[derive(Debug)]
struct Below {
    column: ColumnId,
    limit: i32,
    growth: Option<usize>,
}

impl IndexRows for Below {
    fn inputs(&self) -> &[ColumnId] {
        std::slice::from_ref(&self.column)
    }

    fn compute(&self, rows: &[Vec<Value>]) -> Result<Vec<Option<Box<[Value]>>>> {
        let held = |row: &Vec<Value>| match row.first() {
            Some(Value::Int4(number)) => Value::Bool(*number < self.limit),
            _ => Value::Null,
        };
        Ok(rows.iter().map(|row| Some(vec![held(row)].into_boxed_slice())).collect())
    }

    fn growth(&self) -> Option<usize> {
        self.growth
    }

    fn has_all_rows(&self) -> bool {
        true
    }

    fn types(&self) -> &[SqlType] {
        &[SqlType::Scalar(ScalarType::Bool)]
    }

    fn text(&self, _: usize, _: &TableSchema) -> String {
        String::new()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn below(id: u32, name: &str, column: u32, limit: i32, growth: Option<usize>) -> CheckDef {
    let column = ColumnId(column);
    let condition = Arc::new(Below { column, limit, growth });
    CheckDef { id: TableId(id), name: name.to_owned(), columns: vec![column], condition }
}

/// `t (id, a, b)` with constraints.
fn table(store: &Store, checks: Vec<CheckDef>) -> Arc<Region> {
    let mut table = TableSchema::clone(&schema(1, "t", &[("id", INT4), ("a", INT4), ("b", INT4)], &[0]));
    table.checks = checks;
    store.create_region(Arc::new(table)).unwrap()
}

fn insert(region: &Region, id: i32, a: Datum<'_>, b: i32) -> Result<()> {
    let row = [Datum::Int4(id), a, Datum::Int4(b)];
    region.entry(&row[..1], |entry| entry.apply(Mutation::Insert { row: &row })).map(drop)
}

fn update(region: &Region, id: i32, changes: &[(usize, Datum<'_>)]) -> Result<()> {
    let key = [Datum::Int4(id)];
    region.entry(&key, |entry| entry.apply(Mutation::Update { key: &key, changes })).map(drop)
}

/// Which constraint an error names.
fn named(error: &Error) -> &str {
    assert_eq!(error.code(), ErrorCode::CheckViolation, "{error}");
    error.fields().constraint.as_deref().unwrap()
}

#[test]
fn rows_are_asked_in_the_order_of_names() {
    let store = store(4, 16);
    let region = table(&store, vec![below(10, "z", 1, 5, None), below(11, "y", 2, 5, None)]);
    insert(&region, 1, Datum::Int4(1), 1).unwrap();
    insert(&region, 2, Datum::Null, 1).unwrap();
    let error = insert(&region, 3, Datum::Int4(9), 9).unwrap_err();
    assert_eq!(named(&error), "y");
    assert_eq!(error.fields().detail.as_deref(), Some("Failing row contains (3, 9, 9)."));
    assert_eq!(named(&insert(&region, 1, Datum::Int4(9), 1).unwrap_err()), "z");
    assert_eq!(named(&update(&region, 1, &[(1, Datum::Int4(5))]).unwrap_err()), "z");
    update(&region, 1, &[(1, Datum::Int4(4)), (2, Datum::Int4(4))]).unwrap();
    update(&region, 7, &[(1, Datum::Int4(9))]).unwrap();
    let mut writes = WriteSet::new();
    let row = [Datum::Int4(1), Datum::Int4(4), Datum::Int4(5)];
    assert_eq!(named(&writes.upsert(&region, 1, &store.snapshot(), &row).unwrap_err()), "y");
}

#[test]
fn of_rows_that_wait_the_first_is_told_of() {
    for growth in [None, Some(1)] {
        let store = store(4, 16);
        let region = table(&store, vec![below(10, "z", 1, 300, growth), below(11, "y", 2, 250, growth)]);
        for (in_bulk, forbidden) in [(false, 270), (true, 270), (true, 1000)] {
            let mut batch = RowBatch::new(&region, 1);
            batch.expect_many();
            let rows = 400;
            for id in 0..rows {
                let number = if id >= forbidden { id } else { 0 };
                for (column, value) in [id, number, number].into_iter().enumerate() {
                    batch.put(column, &Datum::Int4(value)).unwrap();
                }
                batch.end_row().unwrap();
            }
            let (mut writes, snapshot) = (WriteSet::new(), store.snapshot());
            if in_bulk {
                assert!(writes.start_load(&region, 1, &snapshot).unwrap());
            }
            let done = loop {
                let done = match in_bulk {
                    true => writes.load_batch(&region, 1, &snapshot, &mut batch, 100),
                    false => writes.insert_batch(&region, 1, &snapshot, &mut batch, 100),
                };
                if !matches!(done, Ok(false)) {
                    break done;
                }
            };
            if forbidden < rows {
                let (row, error) = done.unwrap_err();
                assert_eq!((row, named(&error)), (270, "y"));
            } else {
                assert!(done.unwrap());
            }
        }
    }
}

#[test]
fn rows_that_are_there_are_asked_by_constraints_that_come() {
    let store = store(4, 16);
    let region = table(&store, vec![below(10, "z", 1, 100, None)]);
    insert(&region, 1, Datum::Int4(9), 1).unwrap();
    insert(&region, 2, Datum::Null, 20).unwrap();
    let with = |limit: i32| {
        let mut next = TableSchema::clone(&region.schema());
        next.version += 1;
        next.checks.push(below(12, "new", 2, limit, None));
        region.alter(Arc::new(next))
    };
    let error = with(20).unwrap_err();
    assert_eq!(error.message(), "check constraint \"new\" of relation \"t\" is violated by some row");
    assert_eq!(named(&error), "new");
    insert(&region, 3, Datum::Null, 0).unwrap();
    with(21).unwrap();
    assert_eq!(named(&insert(&region, 4, Datum::Null, 21).unwrap_err()), "new");
    // Nothing is left of one that goes.
    let mut last = TableSchema::clone(&region.schema());
    last.version += 1;
    last.checks.clear();
    region.alter(Arc::new(last)).unwrap();
    insert(&region, 4, Datum::Int4(1000), 1000).unwrap();
}

#[test]
fn rows_pass_together_if_all_of_them_are_fine() {
    let store = store(4, 16);
    let region = table(&store, vec![below(10, "z", 1, 5, Some(1)), below(11, "y", 2, 5, Some(1))]);
    assert!(region.computes_checks());
    let row = |id: i32, a: i32, b: i32| [id, a, b].map(Value::Int4).to_vec();
    let fine = [row(1, 1, 1), row(2, 4, 4)];
    let passed = region.check_together(1, &fine, &[]);
    assert!(passed.is_some());
    for rows in [[row(1, 1, 1), row(2, 5, 4)], [row(1, 1, 9), row(2, 1, 1)]] {
        assert!(region.check_together(1, &rows, &[]).is_none());
    }
    // Of another shape, and of a row that is not known as a whole.
    assert!(region.check_together(2, &fine, &[]).is_none());
    assert!(region.check_together(1, &fine, &[0]).is_some());
    assert!(region.check_together(1, &fine, &[2]).is_none());
    // What has passed is not asked again, while the table has these constraints.
    let row = [Datum::Int4(1), Datum::Int4(1), Datum::Int4(9)];
    let passed = passed.as_ref();
    assert_eq!(named(&region.check_row_of(&row, None).unwrap_err()), "y");
    region.check_row_of(&row, passed).unwrap();
    let mut next = TableSchema::clone(&region.schema());
    next.version += 1;
    region.alter(Arc::new(next)).unwrap();
    assert_eq!(named(&region.check_row_of(&row, passed).unwrap_err()), "y");
    let mut writes = WriteSet::new();
    let refused = writes.insert_passed(&region, 2, &store.snapshot(), &row, Expiry::Table, passed).unwrap_err();
    assert_eq!(named(&refused), "y");
    // Types are asked of each.
    let passed = region.check_together(2, &fine, &[]);
    let wrong = [Datum::Int4(1), Datum::Int8(1), Datum::Int4(1)];
    let passed = passed.as_ref();
    let refused = writes.insert_passed(&region, 2, &store.snapshot(), &wrong, Expiry::Table, passed).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::DatatypeMismatch);
}

#[test]
fn rows_of_which_nobody_knows_what_computing_takes_do_not_pass_together() {
    for (growth, passes) in [(None, false), (Some(1), true), (Some(1 << 30), false)] {
        let store = store(4, 16);
        let region = table(&store, vec![below(10, "z", 1, 5, growth)]);
        let rows = [1, 2].map(|id| [id, 1, 1].map(Value::Int4).to_vec());
        assert_eq!(region.check_together(1, &rows, &[]).is_some(), passes, "{growth:?}");
    }
}

#[test]
fn rows_that_a_snapshot_sees_are_not_asked_once_more() {
    let store = store(4, 16);
    let region = table(&store, Vec::new());
    (0..40).for_each(|id| insert(&region, id, Datum::Null, 9).unwrap());
    let snapshot = store.snapshot();
    let with = |checked: Option<&Snapshot>| {
        let mut next = TableSchema::clone(&region.schema());
        next.version += 1;
        next.checks.push(below(12, "new", 2, 5, None));
        region.alter_after(Arc::new(next), checked)
    };
    assert_eq!(named(&with(None).unwrap_err()), "new");
    // One that comes later, and one that has changed since.
    insert(&region, 40, Datum::Null, 9).unwrap();
    assert_eq!(named(&with(Some(&snapshot)).unwrap_err()), "new");
    update(&region, 40, &[(2, Datum::Int4(4))]).unwrap();
    update(&region, 7, &[(2, Datum::Int4(8))]).unwrap();
    assert_eq!(named(&with(Some(&snapshot)).unwrap_err()), "new");
    update(&region, 7, &[(2, Datum::Int4(4))]).unwrap();
    with(Some(&snapshot)).unwrap();
    assert_eq!(named(&insert(&region, 41, Datum::Null, 9).unwrap_err()), "new");
}
