//! What PostgreSQL 15 makes of the same inputs.

use crate::ScalarType;
use crate::value::table::check;

#[test]
fn intervals_are_read_in_words() {
    check(
        ScalarType::Interval,
        &[
            ("1 year 2 mons 3 days 04:05:06.789", "1 year 2 mons 3 days 04:05:06.789"),
            ("1 day -02:00", "1 day -02:00:00"),
            ("-1 day +02:00", "-1 days +02:00:00"),
            ("1 day ago", "-1 days"),
            ("1 year 2 months ago", "-1 years -2 mons"),
            (
                "9 years -2147483648 months ago",
                "22015: interval field value out of range: \"9 years -2147483648 months ago\"",
            ),
            ("-178956970 years -8 months ago", "22008: interval out of range"),
            ("@ 1 year", "1 year"),
            ("1", "00:00:01"),
            ("1.5", "00:00:01.5"),
            ("1 2:03", "1 day 02:03:00"),
            ("1-2", "1 year 2 mons"),
            ("-1-2", "-1 years -2 mons"),
            ("1-12", "22015: interval field value out of range: \"1-12\""),
            ("2:03", "02:03:00"),
            ("2:03.5", "00:02:03.5"),
            ("-2:03:04", "-02:03:04"),
            ("1.5 days", "1 day 12:00:00"),
            ("1.5 months", "1 mon 15 days"),
            ("1.5 years", "1 year 6 mons"),
            ("1.5 weeks", "10 days 12:00:00"),
            ("0.99 years", "1 year"),
            ("1.25 millennia", "1250 years"),
            ("1.0000005 seconds", "00:00:01"),
            ("0.0000015 seconds", "00:00:00.000001"),
            ("-1.5 days", "-1 days -12:00:00"),
            ("-0.5 years", "-6 mons"),
            ("2 weeks 3 days", "17 days"),
            ("1 decade", "10 years"),
            ("1 century", "100 years"),
            ("1 mil", "1000 years"),
            ("1h30m", "01:30:00"),
            ("1 h 30 m", "01:30:00"),
            ("13 months", "1 year 1 mon"),
            ("-13 months", "-1 years -1 mons"),
            ("-1 year +2 mons", "-10 mons"),
            ("-1 mon +1 day", "-1 mons +1 day"),
            ("-1 year 1 day -00:00:01", "-1 years +1 day -00:00:01"),
            ("1 hour 1 hour", "22007: invalid input syntax for type interval: \"1 hour 1 hour\""),
            ("1 day 1 day", "22007: invalid input syntax for type interval: \"1 day 1 day\""),
            ("1.5 second 1 ms", "22007: invalid input syntax for type interval: \"1.5 second 1 ms\""),
            ("day", "22007: invalid input syntax for type interval: \"day\""),
            ("ago", "22007: invalid input syntax for type interval: \"ago\""),
            ("1 ago", "22007: invalid input syntax for type interval: \"1 ago\""),
            ("0", "00:00:00"),
            ("-00:00:00.5", "-00:00:00.5"),
            ("100:00:00", "100:00:00"),
            ("1:60", "22015: interval field value out of range: \"1:60\""),
            ("1 foo", "22007: invalid input syntax for type interval: \"1 foo\""),
            ("x", "22007: invalid input syntax for type interval: \"x\""),
            ("", "22007: invalid input syntax for type interval: \"\""),
            ("2147483647 days", "2147483647 days"),
            ("2147483648 days", "22015: interval field value out of range: \"2147483648 days\""),
            ("178956970 years", "178956970 years"),
            ("178956971 years", "22008: interval out of range"),
            ("9223372036854775807 us", "2562047788:00:54.775807"),
            ("9223372036854775808 us", "22015: interval field value out of range: \"9223372036854775808 us\""),
            ("2562047788015215:30:09", "22015: interval field value out of range: \"2562047788015215:30:09\""),
            ("2562047789 hours", "22015: interval field value out of range: \"2562047789 hours\""),
            ("1-2 3 4:05:06", "1 year 2 mons 3 days 04:05:06"),
            ("1-2 -3 +4:05:06", "1 year 2 mons -3 days +04:05:06"),
            ("1 day, 2 hours", "1 day 02:00:00"),
            ("1,5 days", "22007: invalid input syntax for type interval: \"1,5 days\""),
            ("1 DAY", "1 day"),
        ],
    );
}

#[test]
fn intervals_are_read_as_iso_durations() {
    check(
        ScalarType::Interval,
        &[
            ("P1Y2M3DT4H5M6.789S", "1 year 2 mons 3 days 04:05:06.789"),
            ("PT1H", "01:00:00"),
            ("PT", "00:00:00"),
            ("P", "22007: invalid input syntax for type interval: \"P\""),
            ("P1.5W", "10 days 12:00:00"),
            ("P14.2M", "1 year 2 mons 5 days 24:00:00"),
            ("P-1Y", "-1 years"),
            ("P1Y-2M", "10 mons"),
            ("PT-1.5H", "-01:30:00"),
            ("P0001-02-03T04:05:06", "1 year 2 mons 3 days 04:05:06"),
            ("P0001-02", "1 year 2 mons"),
            ("P00010203T040506", "1 year 2 mons 3 days 04:05:06"),
            ("PT04:05", "04:05:00"),
            ("P1", "1 year"),
            ("p1y", "22007: invalid input syntax for type interval: \"p1y\""),
            ("P1H", "22007: invalid input syntax for type interval: \"P1H\""),
            ("PT1Y", "22007: invalid input syntax for type interval: \"PT1Y\""),
            ("P1Y 2M", "22007: invalid input syntax for type interval: \"P1Y 2M\""),
            ("PT.5S", "00:00:00.5"),
            ("-P1Y", "22007: invalid input syntax for type interval: \"-P1Y\""),
            ("P1-2-3T4:5:6.5", "1 year 2 mons 3 days 04:05:06.5"),
            ("P2147483648D", "22015: interval field value out of range: \"P2147483648D\""),
        ],
    );
}

#[test]
fn ambiguous_words_are_refused() {
    for text in ["1 day day", "ago 1 day", "1 hour ago 1 min", "2:03 hours", "2:03 1.5 days"] {
        assert_eq!(super::parse(text).unwrap_err().code(), crate::ErrorCode::InvalidDatetimeFormat, "{text}");
    }
    assert_eq!(super::parse("infinity").unwrap_err().code(), crate::ErrorCode::FeatureNotSupported);
}

#[test]
fn the_extremes_are_written() {
    let mut out = Vec::new();
    super::write(crate::Interval { months: i32::MIN, days: i32::MIN, micros: i64::MIN }, &mut out);
    assert_eq!(String::from_utf8(out).unwrap(), "-178956970 years -8 mons -2147483648 days -2562047788:00:54.775808");
}
