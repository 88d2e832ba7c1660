//! The short way and the long way say the same.

use proptest::prelude::*;

use super::*;
use crate::value::datetime::{parse_date, parse_timestamp};

/// The same instant in a form that only the long way reads.
fn long(text: &str) -> String {
    format!(" {text}")
}

proptest! {
    #[test]
    fn what_is_read_the_short_way_reads_the_same_the_long_way(
        year in 0..10_000i64, month in 0..14i64, day in 0..33i64,
        hour in 0..25i64, minute in 0..62i64, second in 0..62i64, fraction in "(\\.[0-9]{0,8})?",
    ) {
        let day = format!("{year:04}-{month:02}-{day:02}");
        prop_assert!(date(long(&day).as_bytes()).is_none());
        prop_assert_eq!(parse_date(&day).ok(), parse_date(&long(&day)).ok());
        let text = format!("{day} {hour:02}:{minute:02}:{second:02}{fraction}");
        prop_assert!(timestamp(long(&text).as_bytes()).is_none());
        prop_assert_eq!(parse_timestamp(&text).ok(), parse_timestamp(&long(&text)).ok());
    }

    #[test]
    fn texts_that_look_like_dates_are_refused_alike(text in "[0-9]{4}[-/ ][0-9 ]{2}[-/][0-9a]{2}( [0-9]{2}:[0-9]{2}(:[0-9]{2})?(\\.[0-9]{1,7})?)?") {
        prop_assert_eq!(parse_date(&text).ok(), parse_date(&long(&text)).ok());
        prop_assert_eq!(parse_timestamp(&text).ok(), parse_timestamp(&long(&text)).ok());
    }
}

#[test]
fn the_usual_forms_go_the_short_way() {
    assert_eq!(date(b"2020-02-29"), Some(18_321));
    assert_eq!(date(b"2021-02-29"), None);
    assert_eq!(timestamp(b"1970-01-02 00:00:01.5"), Some(DAY_MICROS + 1_500_000));
    assert_eq!(timestamp(b"1970-01-02 00:00:01"), Some(DAY_MICROS + 1_000_000));
    assert_eq!(timestamp(b"1970-01-02 24:00:00"), None);
    assert_eq!(timestamp(b"1970-01-02"), None);
}
