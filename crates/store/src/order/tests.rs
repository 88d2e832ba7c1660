//! The order of values of every type, and that prefixes never contradict it.

use std::cmp::Ordering;

use ashlar_base::Datum;
use proptest::prelude::*;

use super::{compare, prefix};

fn ascending() -> Vec<Vec<Datum<'static>>> {
    vec![
        vec![Datum::Bool(false), Datum::Bool(true), Datum::Null],
        vec![Datum::Int2(i16::MIN), Datum::Int2(-1), Datum::Int2(0), Datum::Int2(7), Datum::Null],
        vec![Datum::Int8(i64::MIN), Datum::Int8(-1), Datum::Int8(0), Datum::Int8(i64::MAX), Datum::Null],
        vec![
            Datum::Float8(f64::NEG_INFINITY),
            Datum::Float8(-1.5),
            Datum::Float8(-f64::MIN_POSITIVE),
            Datum::Float8(0.0),
            Datum::Float8(2.0),
            Datum::Float8(f64::INFINITY),
            Datum::Float8(f64::NAN),
            Datum::Null,
        ],
        vec![Datum::Numeric(i128::MIN), Datum::Numeric(-1), Datum::Numeric(1), Datum::Numeric(i128::MAX), Datum::Null],
        vec![Datum::Text(""), Datum::Text("Z"), Datum::Text("a"), Datum::Text("abcdefgh"), Datum::Text("abcdefghi")],
        vec![Datum::Bytea(b""), Datum::Bytea(b"\0"), Datum::Bytea(b"\xff"), Datum::Null],
        vec![Datum::Uuid([0; 16]), Datum::Uuid([1; 16]), Datum::Uuid([255; 16]), Datum::Null],
        vec![Datum::Date(-1), Datum::Date(0), Datum::Date(20_000), Datum::Null],
        vec![Datum::Timestamp(-1), Datum::Timestamp(0), Datum::Timestamp(i64::MAX), Datum::Null],
    ]
}

#[test]
fn values_order_as_in_postgresql_with_nulls_last() {
    for values in ascending() {
        for (left, first) in values.iter().enumerate() {
            for (right, second) in values.iter().enumerate() {
                assert_eq!(compare(first, second), left.cmp(&right), "{first:?} and {second:?}");
            }
        }
    }
}

#[test]
fn negative_zero_is_zero() {
    assert_eq!(compare(&Datum::Float8(-0.0), &Datum::Float8(0.0)), Ordering::Equal);
    assert_eq!(prefix(&Datum::Float4(-0.0)), prefix(&Datum::Float4(0.0)));
}

#[test]
fn a_smaller_value_never_has_a_larger_prefix() {
    for values in ascending() {
        for pair in values.windows(2) {
            assert!(prefix(&pair[0]) <= prefix(&pair[1]), "{pair:?}");
        }
    }
}

proptest! {
    #[test]
    fn floats_order_by_their_prefixes(left: f64, right: f64) {
        let (left, right) = (Datum::Float8(left), Datum::Float8(right));
        prop_assert_eq!(prefix(&left).cmp(&prefix(&right)), compare(&left, &right));
    }

    #[test]
    fn numbers_order_by_their_prefixes(left: i64, right: i64) {
        let (left, right) = (Datum::Int8(left), Datum::Int8(right));
        prop_assert_eq!(prefix(&left).cmp(&prefix(&right)), left_of(&left).cmp(&left_of(&right)));
        prop_assert_eq!(compare(&left, &right), left_of(&left).cmp(&left_of(&right)));
    }

    #[test]
    fn texts_order_as_their_bytes(left: String, right: String) {
        prop_assert_eq!(compare(&Datum::Text(&left), &Datum::Text(&right)), left.as_bytes().cmp(right.as_bytes()));
        if left.as_bytes() < right.as_bytes() {
            prop_assert!(prefix(&Datum::Text(&left)) <= prefix(&Datum::Text(&right)));
        }
    }
}

fn left_of(datum: &Datum<'_>) -> i64 {
    match datum {
        Datum::Int8(value) => *value,
        _ => 0,
    }
}
