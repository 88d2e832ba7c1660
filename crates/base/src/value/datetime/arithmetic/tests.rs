//! Sums and differences as PostgreSQL 15 has them.

use super::*;
use crate::value::datetime::parse_timestamp;

fn at(text: &str) -> i64 {
    parse_timestamp(text).unwrap()
}

fn span(text: &str) -> Interval {
    interval::parse(text).unwrap()
}

#[test]
fn a_month_ends_with_its_last_day() {
    assert_eq!(timestamp_plus(at("2024-01-31"), span("1 month")).unwrap(), at("2024-02-29"));
    assert_eq!(timestamp_plus(at("2024-02-29"), span("-1 year")).unwrap(), at("2023-02-28"));
    assert_eq!(timestamp_plus(at("2024-01-31"), span("1 month 1 day -1 hour")).unwrap(), at("2024-02-29 23:00"));
}

#[test]
fn a_day_is_not_always_twenty_four_hours() {
    let zone = Zone::named("Europe/Berlin").unwrap();
    let noon = at("2024-03-30 11:00");
    assert_eq!(timestamptz_plus(noon, span("1 day"), zone).unwrap(), at("2024-03-31 10:00"));
    assert_eq!(timestamptz_plus(noon, span("24 hours"), zone).unwrap(), at("2024-03-31 11:00"));
}

#[test]
fn ages_are_counted_as_people_count() {
    assert_eq!(age(at("2001-04-10"), at("1957-06-13")), span("43 years 9 mons 27 days"));
    assert_eq!(age(at("2024-03-01"), at("2024-01-31")), span("1 mon 1 day"));
    assert_eq!(age(at("2024-01-31"), at("2024-03-01")), span("-1 mons -1 days"));
}

#[test]
fn what_is_out_of_range_is_an_error() {
    assert_eq!(timestamp_plus(at("2024-01-01"), span("300000 years")).unwrap_err().code(), ErrorCode::DatetimeOverflow);
    assert_eq!(date_plus_days(0, i64::from(i32::MAX)).unwrap_err().code(), ErrorCode::DatetimeOverflow);
    assert_eq!(make_date(2023, 2, 29).unwrap_err().code(), ErrorCode::DatetimeOverflow);
    assert_eq!(bin(span("1 month"), 0, 0).unwrap_err().code(), ErrorCode::FeatureNotSupported);
}

#[test]
fn seconds_since_1970_round_as_if_counted_from_2000() {
    assert_eq!(from_epoch(0.0).unwrap(), 0);
    assert_eq!(from_epoch(-1.5).unwrap(), -1_500_000);
    assert_eq!(from_epoch(-1_412_446_314.279_876).unwrap() % 10, -6);
}
