//! Arrow arrays of every make, read as the SQL types that they can represent.

use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::{DataType, Field, Int32Type, IntervalDayTime, IntervalMonthDayNano, UInt8Type};
use ashlar_base::Value;

use super::*;

fn scalar(scalar: ScalarType) -> SqlType {
    SqlType::Scalar(scalar)
}

fn read(array: impl Array + 'static, sql_type: SqlType) -> Vec<Value> {
    let array: ArrayRef = Arc::new(array);
    let reader = ColumnReader::new(&array, sql_type).unwrap();
    assert_eq!((reader.len(), reader.is_empty()), (array.len(), array.is_empty()));
    (0..reader.len()).map(|row| reader.datum(row).to_value()).collect()
}

fn refused(array: impl Array + 'static, sql_type: SqlType) -> ErrorCode {
    let array: ArrayRef = Arc::new(array);
    let result = ColumnReader::new(&array, sql_type);
    result.err().expect("these values are not of the type").code()
}

fn texts(values: &[Option<&str>]) -> Vec<Value> {
    values.iter().map(|value| value.map_or(Value::Null, |text| Value::Text(text.into()))).collect()
}

#[test]
fn integers_of_every_width_are_read_where_they_fit() {
    let (small, int, big) = (scalar(ScalarType::Int2), scalar(ScalarType::Int4), scalar(ScalarType::Int8));
    assert_eq!(read(Int8Array::from(vec![Some(-1), None]), small), [Value::Int2(-1), Value::Null]);
    assert_eq!(read(UInt8Array::from(vec![255]), int), [Value::Int4(255)]);
    assert_eq!(read(UInt16Array::from(vec![65_535]), int), [Value::Int4(65_535)]);
    assert_eq!(read(UInt32Array::from(vec![u32::MAX]), big), [Value::Int8(i64::from(u32::MAX))]);
    assert_eq!(read(Int64Array::from(vec![7]), small), [Value::Int2(7)]);
    assert_eq!(read(UInt64Array::from(vec![7]), big), [Value::Int8(7)]);
    assert_eq!(refused(Int64Array::from(vec![40_000]), small), ErrorCode::NumericOutOfRange);
    assert_eq!(refused(UInt64Array::from(vec![u64::MAX]), big), ErrorCode::NumericOutOfRange);
    let wide = scalar(ScalarType::Numeric { precision: 20, scale: 0 });
    assert_eq!(read(UInt64Array::from(vec![u64::MAX]), wide), [Value::Numeric(i128::from(u64::MAX))]);
    let money = scalar(ScalarType::Numeric { precision: 12, scale: 2 });
    assert_eq!(read(Int32Array::from(vec![3]), money), [Value::Numeric(300)]);
}

#[test]
fn whole_numbers_of_arrays_are_lent_where_they_lie() {
    let rows = || vec![Some(vec![Some(1), Some(2)]), Some(vec![]), None, Some(vec![Some(-3)])];
    let without_nulls = ListArray::from_iter_primitive::<Int32Type, _, _>(rows());
    let with_nulls = rows().into_iter().chain([Some(vec![None, Some(5)])]);
    let with_nulls = ListArray::from_iter_primitive::<Int32Type, _, _>(with_nulls);
    let wide = ListArray::from_iter_primitive::<arrow::datatypes::Int64Type, _, _>(
        rows()
            .into_iter()
            .map(|row| row.map(|row| row.into_iter().map(|item| item.map(i64::from)).collect::<Vec<_>>())),
    );
    let lent =
        |array: &ArrayRef, element: ScalarType, row: usize| match ColumnReader::new(array, SqlType::Array(element))
            .unwrap()
            .datum(row)
        {
            ashlar_base::Datum::Array(items) => (!matches!(items, Items::Values(_)), items.to_values().into_owned()),
            other => panic!("{other:?}"),
        };
    let ints = |numbers: &[i32]| numbers.iter().map(|number| Value::Int4(*number)).collect::<Vec<Value>>();
    let array: ArrayRef = Arc::new(without_nulls.slice(1, 3));
    assert_eq!(lent(&array, ScalarType::Int4, 0), (true, vec![]));
    assert_eq!(lent(&array, ScalarType::Int4, 2), (true, ints(&[-3])));
    let array: ArrayRef = Arc::new(wide);
    assert_eq!(lent(&array, ScalarType::Int8, 0), (true, vec![Value::Int8(1), Value::Int8(2)]));
    // One NULL, and none of the column's are.
    let array: ArrayRef = Arc::new(with_nulls);
    assert_eq!(lent(&array, ScalarType::Int4, 0), (false, ints(&[1, 2])));
    assert_eq!(lent(&array, ScalarType::Int4, 4), (false, vec![Value::Null, Value::Int4(5)]));
}

#[test]
fn decimals_are_rescaled() {
    let money = scalar(ScalarType::Numeric { precision: 12, scale: 2 });
    let decimal = |value, precision, scale| {
        Decimal128Array::from(vec![value]).with_precision_and_scale(precision, scale).unwrap()
    };
    assert_eq!(read(decimal(15, 5, 1), money), [Value::Numeric(150)]);
    assert_eq!(read(decimal(12_345, 9, 3), money), [Value::Numeric(1_235)]);
    assert_eq!(read(decimal(-12_345, 9, 3), money), [Value::Numeric(-1_235)]);
    assert_eq!(read(decimal(15, 38, 2), money), [Value::Numeric(15)]);
    let wide =
        Decimal256Array::from(vec![arrow::datatypes::i256::from_i128(77)]).with_precision_and_scale(50, 2).unwrap();
    assert_eq!(read(wide, money), [Value::Numeric(77)]);
    assert_eq!(refused(decimal(10i128.pow(20), 38, 0), money), ErrorCode::NumericOutOfRange);
}

#[test]
fn floats_text_and_bytes_come_in_several_makes() {
    let double = scalar(ScalarType::Float8);
    assert_eq!(read(Float32Array::from(vec![1.5]), double), [Value::Float8(1.5)]);
    assert_eq!(read(Int32Array::from(vec![2]), double), [Value::Float8(2.0)]);
    let expected = texts(&[Some("a"), None, Some("a long text that is not inline")]);
    let values = vec![Some("a"), None, Some("a long text that is not inline")];
    for text in [scalar(ScalarType::Text), scalar(ScalarType::Jsonb), scalar(ScalarType::Varchar { length: Some(1) })] {
        assert_eq!(read(StringArray::from(values.clone()), text), expected);
        assert_eq!(read(LargeStringArray::from(values.clone()), text), expected);
        assert_eq!(read(StringViewArray::from(values.clone()), text), expected);
        let dictionary: DictionaryArray<Int32Type> = values.iter().copied().collect();
        assert_eq!(read(dictionary, text), expected);
    }
    let expected = [Value::Bytea((*b"ab").into()), Value::Null];
    let values = vec![Some(&b"ab"[..]), None];
    let bytea = scalar(ScalarType::Bytea);
    assert_eq!(read(BinaryArray::from(values.clone()), bytea), expected);
    assert_eq!(read(LargeBinaryArray::from(values.clone()), bytea), expected);
    assert_eq!(read(BinaryViewArray::from(values.clone()), bytea), expected);
    let fixed = FixedSizeBinaryArray::try_from_sparse_iter_with_size(values.into_iter(), 2).unwrap();
    assert_eq!(read(fixed, bytea), expected);
}

#[test]
fn a_null_in_a_dictionarys_values_is_null() {
    let values = Arc::new(StringArray::from(vec![Some("x"), None]));
    let dictionary = DictionaryArray::<UInt8Type>::new(UInt8Array::from(vec![0, 1, 0]), values);
    assert_eq!(read(dictionary, scalar(ScalarType::Text)), texts(&[Some("x"), None, Some("x")]));
}

#[test]
fn times_of_other_units_become_microseconds() {
    let (plain, zoned) = (scalar(ScalarType::Timestamp), scalar(ScalarType::Timestamptz));
    assert_eq!(read(TimestampSecondArray::from(vec![-2]), plain), [Value::Timestamp(-2_000_000)]);
    assert_eq!(read(TimestampMillisecondArray::from(vec![1]), plain), [Value::Timestamp(1_000)]);
    assert_eq!(read(TimestampNanosecondArray::from(vec![5_999]), plain), [Value::Timestamp(5)]);
    // The zone is how an instant is shown, not when it is.
    for zone in ["+00:00", "UTC", "America/New_York"] {
        let array = TimestampNanosecondArray::from(vec![1_000_000]).with_timezone(zone);
        assert_eq!(read(array.clone(), zoned), [Value::Timestamp(1_000)]);
        assert_eq!(read(array, plain), [Value::Timestamp(1_000)]);
        let array = TimestampMicrosecondArray::from(vec![1_000]).with_timezone(zone);
        assert_eq!(read(array, zoned), [Value::Timestamp(1_000)]);
    }
    assert_eq!(refused(TimestampSecondArray::from(vec![i64::MAX]), plain), ErrorCode::NumericOutOfRange);
    assert_eq!(read(Time32SecondArray::from(vec![1]), scalar(ScalarType::Time)), [Value::Time(1_000_000)]);
    assert_eq!(read(Time64NanosecondArray::from(vec![7_000]), scalar(ScalarType::Time)), [Value::Time(7)]);
    assert_eq!(read(Date64Array::from(vec![86_400_000]), scalar(ScalarType::Date)), [Value::Date(1)]);
    let interval = |months, days, micros| Value::Interval(Interval { months, days, micros });
    let sql = scalar(ScalarType::Interval);
    assert_eq!(read(DurationSecondArray::from(vec![2]), sql), [interval(0, 0, 2_000_000)]);
    assert_eq!(read(DurationNanosecondArray::from(vec![-2_000]), sql), [interval(0, 0, -2)]);
    assert_eq!(read(IntervalYearMonthArray::from(vec![14]), sql), [interval(14, 0, 0)]);
    assert_eq!(read(IntervalDayTimeArray::from(vec![IntervalDayTime::new(3, 5)]), sql), [interval(0, 3, 5_000)]);
    let month_day_nano = IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(1, -2, 3_000)]);
    assert_eq!(read(month_day_nano, sql), [interval(1, -2, 3)]);
}

#[test]
fn lists_of_every_make_are_read_item_by_item() {
    let of =
        |items: &[Option<i32>]| Value::Array(items.iter().map(|item| item.map_or(Value::Null, Value::Int4)).collect());
    let values = || vec![Some(vec![Some(1), None]), None, Some(vec![Some(3), Some(4)])];
    let expected = [of(&[Some(1), None]), Value::Null, of(&[Some(3), Some(4)])];
    let int4 = SqlType::Array(ScalarType::Int4);
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>(values());
    assert_eq!(read(list.clone(), int4), expected);
    assert_eq!(read(list.slice(1, 2), int4), expected[1..]);
    assert_eq!(read(LargeListArray::from_iter_primitive::<Int32Type, _, _>(values()), int4), expected);
    assert_eq!(read(FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(values(), 2), int4), expected);
    let wide = read(list, SqlType::Array(ScalarType::Int8));
    assert_eq!(wide[2], Value::Array([Value::Int8(3), Value::Int8(4)].into()));
    let nulls = ListArray::new(
        Arc::new(Field::new("item", DataType::Null, true)),
        arrow::buffer::OffsetBuffer::from_lengths([2]),
        Arc::new(NullArray::new(2)),
        None,
    );
    assert_eq!(read(nulls, int4), [of(&[None, None])]);
}

#[test]
fn null_is_null_of_every_type_and_strangers_are_refused() {
    for sql_type in crate::testing::types() {
        assert_eq!(read(NullArray::new(2), sql_type), [Value::Null, Value::Null]);
        if sql_type != scalar(ScalarType::Bool) {
            assert_eq!(refused(BooleanArray::from(vec![true]), sql_type), ErrorCode::DatatypeMismatch, "{sql_type}");
        }
    }
    assert_eq!(refused(StringArray::from(vec!["1"]), scalar(ScalarType::Int4)), ErrorCode::DatatypeMismatch);
    assert_eq!(refused(Int32Array::from(vec![1]), scalar(ScalarType::Text)), ErrorCode::DatatypeMismatch);
    assert_eq!(refused(Int32Array::from(vec![1]), scalar(ScalarType::Date)), ErrorCode::DatatypeMismatch);
    let short = FixedSizeBinaryArray::try_from_iter([b"abc"].into_iter()).unwrap();
    assert_eq!(refused(short, scalar(ScalarType::Uuid)), ErrorCode::DatatypeMismatch);
}
