//! Intervals as PostgreSQL 15 computes with them.

use proptest::prelude::*;

use super::*;
use crate::value::interval::parse;

fn span(text: &str) -> Interval {
    parse(text).unwrap()
}

#[test]
fn a_month_counts_as_thirty_days() {
    assert_eq!(order(span("1 mon")), order(span("30 days")));
    assert_eq!(order(span("1 day")), order(span("24 hours")));
    assert!(order(span("1 year")) < order(span("361 days")));
}

#[test]
fn what_is_left_of_a_part_becomes_smaller_ones() {
    assert_eq!(multiply(span("1 mon 3 days 4 hours"), 0.7).unwrap(), span("23 days 05:12:00"));
    assert_eq!(divide(span("1 mon"), 2.0).unwrap(), span("15 days"));
    assert_eq!(divide(span("1 day"), 0.0).unwrap_err().code(), ErrorCode::DivisionByZero);
    assert_eq!(multiply(span("178000000 years"), 2.0).unwrap_err().code(), ErrorCode::DatetimeOverflow);
}

#[test]
fn parts_are_justified_with_one_sign() {
    assert_eq!(justify_interval(span("1 mon -1 hour")).unwrap(), span("29 days 23:00"));
    assert_eq!(justify_hours(span("-50 hours 1 day")).unwrap(), span("-1 days -2 hours"));
    assert_eq!(justify_days(span("65 days")).unwrap(), span("2 mons 5 days"));
}

#[test]
fn an_order_beyond_all_months_is_nobodys() {
    assert_eq!(of_order(order(span("1 year 35 days 25 hours"))), Some(span("13 mons 6 days 01:00")));
    assert_eq!(of_order(i128::MAX), None);
}

proptest! {
    #[test]
    fn an_interval_of_an_order_has_that_order(
        months in -2_000_000_000..2_000_000_000i32,
        days in any::<i32>(),
        micros in -1i64 << 52..1 << 52,
    ) {
        let wanted = order(Interval { months, days, micros });
        prop_assert_eq!(of_order(wanted).map(order), Some(wanted));
    }
}
