//! Equal keys have equal hashes and one partition, whatever they look like.

use ashlar_base::{Interval, Items, Value};
use proptest::prelude::*;

use super::*;
use crate::testing::{SCALARS, value_of};

fn check(sql_type: SqlType, left: &Datum<'_>, right: &Datum<'_>) {
    assert!(equal(left, right) && equal(right, left), "{left:?} {right:?}");
    let state = RandomState::default();
    let hash_of = |datum: &Datum<'_>| hash(&state, [datum.clone()].into_iter());
    assert_eq!(hash_of(left), hash_of(right), "{left:?} {right:?}");
    let placement = Placement::new("t", Box::new([0]), &[sql_type], 1024);
    assert_eq!(placement.partition(std::slice::from_ref(left)), placement.partition(std::slice::from_ref(right)));
}

#[test]
fn values_of_one_canonical_text_are_one_key() {
    let (float4, float8) = (SqlType::Scalar(ScalarType::Float4), SqlType::Scalar(ScalarType::Float8));
    check(float8, &Datum::Float8(0.0), &Datum::Float8(-0.0));
    check(float8, &Datum::Float8(f64::NAN), &Datum::Float8(-f64::NAN));
    check(float4, &Datum::Float4(0.0), &Datum::Float4(-0.0));
    check(float4, &Datum::Float4(f32::NAN), &Datum::Float4(-f32::NAN));
    check(crate::testing::INT4, &Datum::Int4(-7), &Datum::Int8(-7));
    check(crate::testing::INT4, &Datum::Int4(-7), &Datum::Int2(-7));
    assert!(!equal(&Datum::Null, &Datum::Null));
    assert!(!equal(&Datum::Text("a"), &Datum::Bytea(b"a")));
    assert!(!equal(&Datum::Float8(0.5), &Datum::Float8(-0.5)));
}

#[test]
fn values_that_an_index_has_for_equal_have_one_hash() {
    let state = RandomState::default();
    let array = |items: Vec<Value>| Value::Array(items.into());
    let interval = |months, days| Value::Interval(Interval { months, days, micros: 0 });
    let equal = [
        (interval(1, 0), interval(0, 30)),
        (array(vec![interval(-1, 31)]), array(vec![interval(0, 1)])),
        (array(vec![Value::Float8(0.0), Value::Null]), array(vec![Value::Float8(-0.0), Value::Null])),
    ];
    for (left, right) in equal {
        assert_eq!(hash_one(&state, &left.as_datum()), hash_one(&state, &right.as_datum()), "{left:?} {right:?}");
    }
    let (numbers, values) = ([7, -1], array(vec![Value::Int4(7), Value::Int4(-1)]));
    assert_eq!(hash_one(&state, &Datum::Array(Items::Int4(&numbers))), hash_one(&state, &values.as_datum()));
}

proptest! {
    #[test]
    fn equality_is_that_of_the_canonical_text(
        (sql_type, left, right) in proptest::sample::select(SCALARS.to_vec())
            .prop_filter("a key type", |scalar| scalar.can_be_key())
            .prop_flat_map(|scalar| (Just(SqlType::Scalar(scalar)), value_of(scalar), value_of(scalar)))
    ) {
        let text = |datum: &Datum<'_>| {
            let mut out = Vec::new();
            canonical_key(&[sql_type], std::slice::from_ref(datum), &mut out);
            out
        };
        let (left, right) = (left.as_datum(), right.as_datum());
        prop_assert_eq!(equal(&left, &right), text(&left) == text(&right));
        check(sql_type, &left, &left);
    }

    #[test]
    fn an_integer_is_hashed_and_placed_as_a_key_of_one_value(value in any::<i32>()) {
        let state = RandomState::default();
        let placement = Placement::new("t", Box::new([0]), &[crate::testing::INT8], 1024);
        for datum in [Datum::Int2(value as i16), Datum::Int4(value), Datum::Int8(i64::from(value) << 20)] {
            let number = integer(&datum).unwrap();
            let partition = placement.partition(std::slice::from_ref(&datum));
            prop_assert_eq!(placement.partition_of_integer(number), Some(partition));
            prop_assert_eq!(hash_integer(&state, number), hash(&state, [datum].into_iter()));
        }
        // By one of two columns, or by one twice.
        let types = [crate::testing::INT8; 2];
        for placement in [
            Placement::new("t", Box::new([1]), &types, 1024),
            Placement::new("t", Box::new([0, 0]), &types[..1], 1024),
        ] {
            prop_assert_eq!(placement.partition_of_integer(i64::from(value)), None);
        }
    }
}
