//! Shapes: where columns are found, and what cannot be a table.

use ashlar_base::{PartitionId, TableId};

use super::*;
use crate::testing::{INT4, INT8, TEXT, schema};

#[test]
fn columns_are_found_by_id_in_older_layouts() {
    let old = Shape::new(schema(1, "t", &[("id", INT8), ("a", TEXT), ("b", INT4)], &[0])).unwrap();
    let mut next = TableSchema::clone(&old.schema);
    next.version = 2;
    next.columns.remove(1);
    next.columns.push(ColumnDef {
        id: ColumnId(9),
        name: "c".into(),
        sql_type: INT4,
        nullable: true,
        default: Some(ColumnDefault::Constant(Value::Int4(4))),
    });
    let next = old.altered(Arc::new(next), true).unwrap();
    assert!(matches!(next.place(&old.layout, 1), Place::At(2)));
    assert!(matches!(next.place(&old.layout, 2), Place::Missing(Datum::Int4(4))));
    assert!(matches!(next.place(&next.layout, 2), Place::At(2)));
    // A rename needs no new segments.
    let mut renamed = TableSchema::clone(&next.schema);
    renamed.version = 3;
    renamed.columns[1].name = "z".into();
    let renamed = next.altered(Arc::new(renamed), true).unwrap();
    assert!(Arc::ptr_eq(&renamed.layout, &next.layout));
    assert_eq!(renamed.arrow.field(1).name(), "z");
}

#[test]
fn what_cannot_be_a_table_is_refused() {
    let code = |schema: TableSchema| Shape::new(Arc::new(schema)).err().map(|error| error.code());
    let good = TableSchema::clone(&schema(1, "t", &[("id", INT8), ("a", TEXT)], &[0]));
    assert_eq!(code(good.clone()), None);
    assert_eq!(code(TableSchema { key: vec![], ..good.clone() }), Some(ErrorCode::InternalError));
    assert_eq!(code(TableSchema { key: vec![5], ..good.clone() }), Some(ErrorCode::InternalError));
    assert_eq!(code(TableSchema { partition_by: vec![1], ..good.clone() }), Some(ErrorCode::InvalidTableDefinition));
    let mut wide = good;
    wide.columns[1].sql_type = SqlType::Scalar(ScalarType::Numeric { precision: 50, scale: 2 });
    assert_eq!(code(wide), Some(ErrorCode::FeatureNotSupported));
}

#[test]
fn duplicates_of_composite_keys_name_every_column() {
    let shape = Shape::new(schema(3, "pair", &[("a", TEXT), ("b", INT4)], &[0, 1])).unwrap();
    let error = shape.duplicate(&[Datum::Text("x"), Datum::Int4(2)]);
    assert_eq!(error.fields().detail.as_deref(), Some("Key (a, b)=(x, 2) already exists."));
    assert_eq!(error.fields().constraint.as_deref(), Some("pair_pkey"));
    assert_eq!((shape.schema.id, PartitionId(0)), (TableId(3), PartitionId(0)));
}

#[test]
fn a_numeric_that_is_too_large_is_refused_in_the_words_of_its_text() {
    let fraction = SqlType::Scalar(ScalarType::Numeric { precision: 2, scale: 2 });
    assert_eq!(check_type(fraction, &Datum::Numeric(-99)), Ok(()));
    let error = check_type(fraction, &Datum::Numeric(-100)).unwrap_err();
    assert_eq!(Some(error), text::parse(fraction, "-1", &TextStyle::default()).err());
}

#[test]
fn limits_are_checked_inside_arrays() {
    let code = |sql_type, value: Value| check_type(sql_type, &value.as_datum()).err().map(|error| error.code());
    let varchars = SqlType::Array(ScalarType::Varchar { length: Some(2) });
    let array = |text: &str| Value::Array([Value::Null, Value::Text(text.into())].into());
    assert_eq!(code(varchars, array("ab")), None);
    assert_eq!(code(varchars, array("abc")), Some(ErrorCode::StringTooLong));
    assert_eq!(code(TEXT, array("ab")), Some(ErrorCode::DatatypeMismatch));
    assert_eq!(code(varchars, Value::Text("a".into())), Some(ErrorCode::DatatypeMismatch));
}
