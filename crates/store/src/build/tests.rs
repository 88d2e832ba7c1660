//! Arrays from datums: of every type there and back, and nothing that is not of the type.

use ashlar_base::{ErrorCode, ScalarType};
use proptest::prelude::*;

use super::*;
use crate::ColumnReader;
use crate::arrow_types::to_arrow_type;
use crate::testing::{INT4, INT8, any_value, types};

proptest! {
    #[test]
    fn values_come_back((sql_type, values) in proptest::sample::select(types().collect::<Vec<_>>())
        .prop_flat_map(|sql_type| (Just(sql_type), proptest::collection::vec(any_value(sql_type), 0..30))))
    {
        let array = build_array(sql_type, &values).unwrap();
        prop_assert_eq!(array.data_type(), &to_arrow_type(sql_type));
        array.to_data().validate_full().unwrap();
        let from_datums = build_array(sql_type, values.iter().map(Value::as_datum)).unwrap();
        prop_assert_eq!(&array, &from_datums);
        let reader = ColumnReader::new(&array, sql_type).unwrap();
        for (row, value) in values.iter().enumerate() {
            prop_assert_eq!(&reader.datum(row).to_value(), value);
        }
    }
}

#[test]
fn what_is_not_of_the_type_is_refused() {
    let code = |sql_type, value: Value| build_array(sql_type, [value]).unwrap_err().code();
    assert_eq!(code(INT8, Value::Int4(1)), ErrorCode::DatatypeMismatch);
    assert_eq!(code(INT4, Value::Text("1".into())), ErrorCode::DatatypeMismatch);
    let ints = SqlType::Array(ScalarType::Int4);
    assert_eq!(code(ints, Value::Array([Value::Int8(1)].into())), ErrorCode::DatatypeMismatch);
    let numeric = SqlType::Scalar(ScalarType::Numeric { precision: 3, scale: 1 });
    assert_eq!(code(numeric, Value::Numeric(1000)), ErrorCode::NumericOutOfRange);
    let long = ashlar_base::Interval { months: 0, days: 0, micros: i64::MAX };
    let interval = SqlType::Scalar(ScalarType::Interval);
    assert_eq!(code(interval, Value::Interval(long)), ErrorCode::DatetimeOverflow);
}

#[test]
fn absent_columns_are_null_or_unseen() {
    for sql_type in types() {
        assert_eq!(absent(sql_type, true, 3).unwrap().null_count(), 3);
        let unseen = absent(sql_type, false, 3).unwrap();
        assert_eq!((unseen.len(), unseen.null_count()), (3, 0));
    }
}
