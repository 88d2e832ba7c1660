//! The order of values of every type, and that prefixes never contradict it.

use std::cmp::Ordering;

use ashlar_base::{Datum, Interval, Items, Value};
use proptest::prelude::*;

use super::{compare, is_identical, prefix, prefix_behind};

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
        vec![
            interval(i32::MIN, i32::MIN, i64::MIN),
            interval(0, -1, 0),
            interval(1, -31, 86_399_999_999),
            interval(0, 0, 0),
            interval(0, 1, -1),
            interval(0, 1, 0),
            interval(0, 29, 86_399_999_999),
            interval(1, 0, 0),
            interval(12, 0, 0),
            interval(0, 365, 0),
            interval(i32::MAX, 0, 0),
            interval(i32::MAX, i32::MAX, i64::MAX),
            Datum::Null,
        ],
        vec![
            array(&[]),
            array(&[Some(1)]),
            array(&[Some(1), Some(1)]),
            array(&[Some(1), Some(2)]),
            array(&[Some(1), Some(2), Some(0)]),
            array(&[Some(1), None]),
            array(&[Some(2)]),
            array(&[None]),
            array(&[None, Some(1)]),
            array(&[None, None]),
            Datum::Null,
        ],
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

fn array(items: &[Option<i32>]) -> Datum<'static> {
    let items = items.iter().map(|item| item.map_or(Value::Null, Value::Int4));
    Datum::Array(Items::Values(items.collect::<Vec<_>>().into()))
}

fn interval(months: i32, days: i32, micros: i64) -> Datum<'static> {
    Datum::Interval(Interval { months, days, micros })
}

#[test]
fn equal_values_that_are_written_otherwise_are_not_identical() {
    let pairs = [
        (interval(1, 0, 0), interval(0, 30, 0)),
        (interval(0, 1, 0), interval(0, 0, 86_400_000_000)),
        (interval(-1, 31, 0), interval(0, 0, 86_400_000_000)),
        (Datum::Float8(0.0), Datum::Float8(-0.0)),
        (Datum::Float4(0.0), Datum::Float4(-0.0)),
        (
            Datum::Array(Items::Values(vec![Value::Float8(0.0), Value::Null].into())),
            Datum::Array(Items::Values(vec![Value::Float8(-0.0), Value::Null].into())),
        ),
    ];
    for (left, right) in pairs {
        assert_eq!(compare(&left, &right), Ordering::Equal, "{left:?} and {right:?}");
        assert_eq!(prefix(&left), prefix(&right), "{left:?} and {right:?}");
        assert!(!is_identical(&left, &right) && is_identical(&left, &left), "{left:?} and {right:?}");
    }
    assert!(is_identical(&Datum::Float8(f64::NAN), &Datum::Float8(f64::NAN)));
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
    fn intervals_order_by_all_their_microseconds(
        left in any::<(i32, i32, i64)>(),
        right in any::<(i32, i32, i64)>(),
        days in -40..40i32,
        months in -3..3i32,
    ) {
        let micros = |(months, days, micros): (i32, i32, i64)| {
            (i128::from(months) * 30 + i128::from(days)) * 86_400_000_000 + i128::from(micros)
        };
        // Few of any two are near each other.
        let near = (left.0.wrapping_add(months), left.1.wrapping_add(days), left.2);
        for other in [right, near] {
            let (one, two) = (interval(left.0, left.1, left.2), interval(other.0, other.1, other.2));
            let expected = micros(left).cmp(&micros(other));
            prop_assert_eq!(compare(&one, &two), expected);
            prop_assert!(expected.is_eq() || prefix(&one).cmp(&prefix(&two)) != expected.reverse());
        }
    }

    #[test]
    fn arrays_order_item_by_item(
        left in proptest::collection::vec(proptest::option::of(-2..2i32), 0..4),
        right in proptest::collection::vec(proptest::option::of(-2..2i32), 0..4),
    ) {
        let (one, two) = (array(&left), array(&right));
        // What is false comes before what is true: NULL is above all others.
        let naive = |items: &[Option<i32>]| items.iter().map(|item| (item.is_none(), *item)).collect::<Vec<_>>();
        let expected = naive(&left).cmp(&naive(&right));
        prop_assert_eq!(compare(&one, &two), expected);
        prop_assert!(expected.is_eq() || prefix(&one).cmp(&prefix(&two)) != expected.reverse());
        if let Some(numbers) = left.iter().copied().collect::<Option<Vec<i32>>>() {
            let elsewhere = Datum::Array(Items::Int4(&numbers));
            prop_assert_eq!((compare(&elsewhere, &two), prefix(&elsewhere)), (expected, prefix(&one)));
        }
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

    #[test]
    fn what_comes_behind_common_bytes_orders_as_the_values_do(
        common in proptest::collection::vec(0..3u8, 0..4),
        left in proptest::collection::vec(0..4u8, 0..12),
        right in proptest::collection::vec(0..4u8, 0..12),
    ) {
        let of = |value: &[u8]| prefix_behind(&common, &Datum::Bytea(value));
        let expected = left.cmp(&right);
        prop_assert!(expected.is_eq() || of(&left).cmp(&of(&right)) != expected.reverse());
        prop_assert!(of(&left) <= prefix_behind(&common, &Datum::Null));
        if !common.is_empty() {
            // Those that begin so are told apart by what others have at their beginning.
            let behind = [&left, &right].map(|value| of(&[&common[..], &value[..]].concat()));
            let plain = [&left, &right].map(|value| prefix(&Datum::Bytea(value)) >> 2);
            prop_assert_eq!(behind[0].cmp(&behind[1]), plain[0].cmp(&plain[1]));
        }
    }
}

fn left_of(datum: &Datum<'_>) -> i64 {
    match datum {
        Datum::Int8(value) => *value,
        _ => 0,
    }
}
