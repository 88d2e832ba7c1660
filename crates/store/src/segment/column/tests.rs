//! Columns of every type against a `Vec<Value>`, through datums and through Arrow.

use arrow::array::{Array, ArrayRef};
use ashlar_base::Value;
use proptest::prelude::*;

use super::*;
use crate::ColumnReader;
use crate::arrow_types::to_arrow_type;
use crate::testing::{any_value, types};

fn same_values(array: &ArrayRef, sql_type: SqlType, expected: &[Value]) {
    assert_eq!(*array.data_type(), to_arrow_type(sql_type));
    // What was skipped when the array was made holds.
    array.to_data().validate_full().unwrap();
    assert_eq!(array.len(), expected.len());
    let reader = ColumnReader::new(array, sql_type).unwrap();
    for (row, value) in expected.iter().enumerate() {
        assert_eq!(reader.datum(row).to_value(), *value);
    }
}

fn typed_values() -> impl Strategy<Value = (SqlType, Vec<Value>)> {
    let types: Vec<SqlType> = types().collect();
    let count = if cfg!(miri) { 6 } else { 40 };
    proptest::sample::select(types)
        .prop_flat_map(move |sql_type| (Just(sql_type), proptest::collection::vec(any_value(sql_type), 0..count)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 6 } else { 512 }, ..ProptestConfig::default() })]

    #[test]
    fn values_come_back_as_they_went_in((sql_type, values) in typed_values(), cut in any::<usize>(), copies in proptest::collection::vec(any::<usize>(), 0..8)) {
        let account = Account::unbounded();
        let mut column = Column::new(sql_type, &account);
        let mut expected = Vec::new();
        let cut = cut % (values.len() + 1);
        let mut early = None;
        for (row, value) in values.iter().enumerate() {
            if row == cut {
                early = Some(column.share(row, true));
            }
            let need = Need::of(&value.as_datum());
            prop_assert!(column.fits(need));
            column.reserve(need, usize::MAX).unwrap();
            column.push(&value.as_datum());
            expected.push(value.clone());
        }
        for copy in copies {
            if !expected.is_empty() {
                let row = copy % expected.len();
                let need = column.need(row);
                prop_assert_eq!(need, Need::of(&expected[row].as_datum()));
                column.reserve(need, usize::MAX).unwrap();
                column.push_within(row);
                expected.push(expected[row].clone());
            }
        }
        prop_assert_eq!(column.len(), expected.len());
        for (row, value) in expected.iter().enumerate() {
            prop_assert_eq!(&column.datum(row).to_value(), value);
            prop_assert_eq!(column.is_valid(row), !value.is_null());
        }
        let active = column.share(expected.len(), true);
        column.seal();
        let sealed = column.share(expected.len(), true);
        drop(column);
        same_values(&active, sql_type, &expected);
        same_values(&sealed, sql_type, &expected);
        if let Some(early) = early {
            same_values(&early, sql_type, &expected[..cut]);
        }
    }

    #[test]
    fn overwritten_values_come_back_and_lent_ones_stay(
        (sql_type, values, others) in proptest::sample::select(types().collect::<Vec<_>>()).prop_flat_map(|sql_type| {
            let values = || proptest::collection::vec(any_value(sql_type), 1..if cfg!(miri) { 4 } else { 20 });
            (Just(sql_type), values(), values())
        }),
        seals in any::<bool>(),
        lends in any::<bool>(),
    ) {
        let account = Account::unbounded();
        let mut column = Column::new(sql_type, &account);
        let mut expected = values.clone();
        for value in &values {
            column.reserve(Need::of(&value.as_datum()), usize::MAX).unwrap();
            column.push(&value.as_datum());
        }
        if seals {
            column.seal();
        }
        let lent = lends.then(|| column.share(values.len(), true));
        for (row, value) in others.iter().enumerate().take(values.len()) {
            let datum = value.as_datum();
            if column.can_overwrite(row, &datum) {
                prop_assert_eq!(column.need(row), Need::of(&datum));
                column.overwrite(row, &datum);
                expected[row] = value.clone();
            } else if !lends && !sql_type.is_array() && !value.is_null() && !values[row].is_null() {
                prop_assert_ne!(column.need(row), Need::of(&datum), "a value of the same size fits");
            }
        }
        same_values(&column.share(expected.len(), true), sql_type, &expected);
        if let Some(lent) = lent {
            same_values(&lent, sql_type, &values);
        }
    }

    #[test]
    fn gathered_values_are_those_that_were_there(
        (sql_type, values) in typed_values(),
        before in 0..3usize,
        rows in proptest::collection::vec(any::<usize>(), 0..if cfg!(miri) { 6 } else { 40 }),
    ) {
        let account = Account::unbounded();
        let (mut source, mut target) = (Column::new(sql_type, &account), Column::new(sql_type, &account));
        let put = |column: &mut Column, value: &Value| {
            column.reserve(Need::of(&value.as_datum()), usize::MAX).unwrap();
            column.push(&value.as_datum());
        };
        values.iter().for_each(|value| put(&mut source, value));
        let mut expected: Vec<Value> = values.iter().take(before).cloned().collect();
        expected.iter().for_each(|value| put(&mut target, value));
        let rows: Vec<u32> = rows.iter().filter(|_| !values.is_empty()).map(|row| (row % values.len()) as u32).collect();
        let gathered: Vec<Value> = rows.iter().map(|row| values[*row as usize].clone()).collect();
        let mut need = Need::default();
        gathered.iter().for_each(|value| need.add(Need::of(&value.as_datum())));
        prop_assert_eq!(source.need_of(&rows), need);
        target.reserve(need, usize::MAX).unwrap();
        target.gather(&source, &rows);
        expected.extend(gathered);
        same_values(&target.share(expected.len(), true), sql_type, &expected);
        // What waited can wait again.
        source.clear();
        prop_assert_eq!((source.len(), source.bytes()), (0, 0));
        values.iter().rev().for_each(|value| put(&mut source, value));
        let again: Vec<Value> = values.iter().rev().cloned().collect();
        same_values(&source.share(again.len(), true), sql_type, &again);
        same_values(&target.share(expected.len(), true), sql_type, &expected);
    }

    #[test]
    fn values_that_are_appended_the_short_way_come_back(
        (sql_type, values) in typed_values(),
        other in proptest::option::of(proptest::sample::select(types().collect::<Vec<_>>())),
    ) {
        let account = Account::unbounded();
        // In a column of another type there is what is of that type as well.
        let (other, of_another_type) = (other.unwrap_or(sql_type), other.is_some());
        let mut column = Column::new(other, &account);
        let mut expected = Vec::new();
        for value in &values {
            let (datum, len) = (value.as_datum(), column.len());
            // Without room, and with room.
            let before = column.bytes();
            let mut short = column.push_plain(&datum);
            if !short {
                prop_assert_eq!((column.len(), column.bytes()), (len, before));
                column.reserve(Need::of(&datum), usize::MAX).unwrap();
                short = column.push_plain(&datum);
            }
            if !short && !of_another_type {
                column.push(&datum);
            }
            if short || !of_another_type {
                expected.push(value.clone());
            }
        }
        same_values(&column.share(expected.len(), true), other, &expected);
    }

    #[test]
    fn exact_room_is_enough((sql_type, values) in typed_values()) {
        let account = Account::unbounded();
        let mut column = Column::new(sql_type, &account);
        let mut need = Need::default();
        values.iter().for_each(|value| need.add(Need::of(&value.as_datum())));
        column.reserve_exact(need);
        values.iter().for_each(|value| column.push(&value.as_datum()));
        same_values(&column.share(values.len(), true), sql_type, &values);
    }
}

#[test]
fn validity_is_left_out_where_there_can_be_no_null() {
    let account = Account::unbounded();
    let mut column = Column::new(SqlType::Scalar(ScalarType::Int4), &account);
    for datum in [Datum::Int4(1), Datum::Null] {
        column.reserve(Need::of(&datum), usize::MAX).unwrap();
        column.push(&datum);
    }
    assert_eq!(column.share(2, true).null_count(), 1);
    assert_eq!(column.share(2, false).null_count(), 0);
    assert!(column.share(1, true).nulls().is_none(), "no NULL among the rows that are lent");
}

#[test]
fn offsets_say_when_they_are_full() {
    let account = Account::unbounded();
    let mut column = Column::new(SqlType::Scalar(ScalarType::Text), &account);
    assert!(column.fits(Need { rows: 1, bytes: i32::MAX as usize, items: 0 }));
    assert!(!column.fits(Need { rows: 1, bytes: i32::MAX as usize + 1, items: 0 }));
    // One row may have so much, several may not.
    assert!(!column.fits(Need { rows: 2, bytes: BYTES_MAX + 1, items: 0 }));
    assert!(column.fits(Need { rows: 2, bytes: BYTES_MAX, items: 0 }));
    column.reserve(Need::of(&Datum::Text("x")), usize::MAX).unwrap();
    column.push(&Datum::Text("x"));
    assert!(column.fits(Need { rows: 1, bytes: BYTES_MAX - 1, items: 0 }));
    assert!(!column.fits(Need { rows: 1, bytes: BYTES_MAX, items: 0 }));
    let column = Column::new(SqlType::Array(ScalarType::Text), &account);
    assert!(!column.fits(Need { rows: 1, bytes: i32::MAX as usize + 1, items: 1 }));
    assert!(!column.fits(Need { rows: 1, bytes: 0, items: i32::MAX as usize + 1 }));
}
