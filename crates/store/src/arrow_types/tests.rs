//! SQL types through Arrow fields and back, and what foreign Arrow types become.

use super::*;
use crate::testing::types;

#[test]
fn every_type_comes_back_from_its_field() {
    for sql_type in types().chain([
        SqlType::Scalar(ScalarType::Varchar { length: None }),
        SqlType::Scalar(ScalarType::Numeric { precision: 38, scale: 0 }),
        SqlType::Array(ScalarType::Numeric { precision: 20, scale: 20 }),
    ]) {
        let field = arrow_field("x", sql_type, true);
        assert_eq!(field.metadata()[TYPE_METADATA], sql_type.to_string());
        assert_eq!(sql_type_of(&field), Some(sql_type));
        assert_eq!(parse_type(&sql_type.to_string()), Some(sql_type));
    }
    assert_eq!(parse_type("numeric(1"), None);
    assert_eq!(parse_type("int"), None);
}

#[test]
fn a_name_that_does_not_fit_the_values_is_not_believed() {
    let uuid = arrow_field("x", SqlType::Scalar(ScalarType::Uuid), true);
    let shown = |data_type| sql_type_of(&uuid.clone().with_data_type(data_type)).unwrap();
    assert_eq!(shown(DataType::Utf8), SqlType::Scalar(ScalarType::Text));
    let money = arrow_field("x", SqlType::Scalar(ScalarType::Numeric { precision: 12, scale: 2 }), true);
    let sum = money.with_data_type(DataType::Decimal128(22, 2));
    assert_eq!(sql_type_of(&sum), Some(SqlType::Scalar(ScalarType::Numeric { precision: 22, scale: 2 })));
    let json = arrow_field("x", SqlType::Scalar(ScalarType::Jsonb), true);
    let view = json.with_data_type(DataType::Utf8View);
    assert_eq!(sql_type_of(&view), Some(SqlType::Scalar(ScalarType::Jsonb)));
}

#[test]
fn foreign_types_find_the_next_that_holds_them() {
    let check = |data_type: DataType, expected: Option<SqlType>| {
        assert_eq!(sql_type_of(&Field::new("x", data_type.clone(), true)), expected, "{data_type}");
    };
    let scalar = |scalar| Some(SqlType::Scalar(scalar));
    let numeric = |precision, scale| Some(SqlType::Scalar(ScalarType::Numeric { precision, scale }));
    check(DataType::Null, scalar(ScalarType::Text));
    check(DataType::Int8, scalar(ScalarType::Int2));
    check(DataType::UInt8, scalar(ScalarType::Int4));
    check(DataType::UInt16, scalar(ScalarType::Int4));
    check(DataType::UInt32, scalar(ScalarType::Int8));
    check(DataType::UInt64, numeric(20, 0));
    check(DataType::Decimal256(76, 10), numeric(38, 10));
    check(DataType::Decimal128(5, -2), numeric(7, 0));
    check(DataType::LargeUtf8, scalar(ScalarType::Text));
    check(DataType::BinaryView, scalar(ScalarType::Bytea));
    check(DataType::FixedSizeBinary(16), scalar(ScalarType::Uuid));
    check(DataType::FixedSizeBinary(4), scalar(ScalarType::Bytea));
    check(DataType::Timestamp(TimeUnit::Second, None), scalar(ScalarType::Timestamp));
    check(DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())), scalar(ScalarType::Timestamptz));
    check(DataType::Duration(TimeUnit::Second), scalar(ScalarType::Interval));
    check(DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)), scalar(ScalarType::Text));
    let list = |item| DataType::LargeList(Arc::new(Field::new("x", item, true)));
    check(list(DataType::Int64), Some(SqlType::Array(ScalarType::Int8)));
    check(list(list(DataType::Int64)), None);
    check(DataType::Struct(vec![Field::new("a", DataType::Int8, true)].into()), None);
}
