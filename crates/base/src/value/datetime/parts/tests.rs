//! Parts as PostgreSQL 15 tells them.

use super::*;
use crate::value::datetime::parse_timestamp;

fn at(text: &str) -> i64 {
    parse_timestamp(text).unwrap()
}

#[test]
fn parts_of_a_timestamp_are_exact() {
    let moment = Source::Timestamp(at("2024-12-30 10:20:30.123456"));
    let expected = [
        ("second", 30_123_456),
        ("milliseconds", 30_123_456),
        ("microseconds", 30_123_456),
        ("minute", 20),
        ("hour", 10),
        ("day", 30),
        ("week", 1),
        ("isoyear", 2025),
        ("quarter", 4),
        ("century", 21),
        ("millennium", 3),
        ("decade", 202),
        ("dow", 1),
        ("isodow", 1),
        ("doy", 365),
        ("epoch", 1_735_554_030_123_456),
    ];
    for (unit, value) in expected {
        assert_eq!(extract(unit, moment).unwrap(), value, "{unit}");
    }
}

#[test]
fn a_unit_that_a_type_has_not_is_refused() {
    let code = |unit: &str, source: Source| extract(unit, source).unwrap_err().code();
    assert_eq!(code("hour", Source::Date(0)), ErrorCode::FeatureNotSupported);
    assert_eq!(code("day", Source::Time(0)), ErrorCode::FeatureNotSupported);
    assert_eq!(code("timezone", Source::Timestamp(0)), ErrorCode::FeatureNotSupported);
    assert_eq!(code("fortnight", Source::Timestamp(0)), ErrorCode::InvalidParameterValue);
}

#[test]
fn a_day_begins_on_the_clock_of_the_zone() {
    let zone = Zone::named("Europe/Berlin").unwrap();
    assert_eq!(truncate_in("day", at("2024-03-31 12:00"), zone).unwrap(), at("2024-03-30 23:00"));
    // The hour from two to three occurs twice: each is cut to its own beginning.
    assert_eq!(truncate_in("hour", at("2024-10-27 00:30"), zone).unwrap(), at("2024-10-27 00:00"));
    assert_eq!(truncate_in("hour", at("2024-10-27 01:30"), zone).unwrap(), at("2024-10-27 01:00"));
}
