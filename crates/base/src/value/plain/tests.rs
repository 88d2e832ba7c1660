//! The short way and the long way say the same.

use proptest::prelude::*;

use super::*;
use crate::Value;
use crate::value::text::{self, TextStyle};

const TYPES: [ScalarType; 4] = [ScalarType::Int2, ScalarType::Int4, ScalarType::Int8, ScalarType::Float8];

fn read(scalar: ScalarType, text: &str) -> Option<Datum<'static>> {
    number(SqlType::Scalar(scalar), text.as_bytes())
}

/// A value's bits: -0 is not 0.
fn bits(value: &Value) -> String {
    match value {
        Value::Float8(value) => format!("{:016x}", value.to_bits()),
        other => format!("{other:?}"),
    }
}

/// What the short way reads, the long way reads too, as the same.
fn check(text: &str) -> Result<(), TestCaseError> {
    for sql_type in TYPES.map(SqlType::Scalar) {
        if let Some(short) = number(sql_type, text.as_bytes()) {
            let long = text::parse(sql_type, text, &TextStyle::default());
            prop_assert!(long.is_ok(), "{} is no {}", text, sql_type);
            prop_assert_eq!(bits(&short.to_value()), bits(&long.unwrap()), "{} as {}", text, sql_type);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn what_is_read_the_short_way_reads_the_same_the_long_way(
        text in prop_oneof![
            "-?[0-9]{1,20}",
            "-?[0-9]{0,17}\\.[0-9]{0,17}",
            "[-+ ]?[0-9]{0,3}[-+. e]?[0-9]{0,3}[. x]?",
            any::<i64>().prop_map(|number| number.to_string()),
            any::<i32>().prop_map(|number| number.to_string()),
            any::<i16>().prop_map(|number| number.to_string()),
            (any::<i64>(), 0usize..12).prop_map(|(number, places)| format!("{:.places$}", number as f64 / 1e9)),
        ],
    ) {
        check(&text)?;
    }

    /// Digits in all numbers, and one other byte among them, which makes one too many of them where it is a digit for the minus.
    #[test]
    fn an_integer_has_digits_and_nothing_else(digits in "-?[0-9]{1,18}", at in any::<usize>(), other in any::<u8>()) {
        prop_assert_eq!(integer(digits.as_bytes()), digits.parse::<i64>().ok());
        let mut bytes = digits.into_bytes();
        let at = at % bytes.len();
        bytes[at] = other;
        let expected = std::str::from_utf8(&bytes).ok().filter(|text| {
            let digits = text.strip_prefix('-').unwrap_or(text);
            (1..=DIGITS_MAX).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
        });
        prop_assert_eq!(integer(&bytes), expected.and_then(|text| text.parse::<i64>().ok()));
    }

    #[test]
    fn text_that_needs_no_closer_look_is_ascii_without_nul(
        bytes in proptest::collection::vec(prop_oneof![30 => 1u8..0x80, 1 => any::<u8>(), 1 => Just(0)], 0..40),
    ) {
        prop_assert_eq!(is_ascii_text(&bytes), bytes.iter().all(|byte| *byte > 0 && byte.is_ascii()));
        prop_assert!(!is_ascii_text(&bytes) || text::utf8(&bytes).is_ok());
    }

    /// Nothing of what is written by us goes the long way but what has too many digits.
    #[test]
    fn numbers_as_they_are_written_go_the_short_way(number in any::<i32>(), places in 0u32..6) {
        prop_assert_eq!(read(ScalarType::Int4, &number.to_string()), Some(Datum::Int4(number)));
        let value = f64::from(number) / 10f64.powi(places as i32);
        prop_assert_eq!(read(ScalarType::Float8, &format!("{:.*}", places as usize, value)), Some(Datum::Float8(value)));
    }
}

#[test]
fn what_the_short_way_leaves_alone() {
    assert_eq!(read(ScalarType::Int8, "999999999999999999"), Some(Datum::Int8(999_999_999_999_999_999)));
    assert_eq!(read(ScalarType::Int8, "-7"), Some(Datum::Int8(-7)));
    assert_eq!(read(ScalarType::Float8, "4711.042"), Some(Datum::Float8(4711.042)));
    assert_eq!(read(ScalarType::Float8, ".5"), Some(Datum::Float8(0.5)));
    for text in ["", "-", "+1", " 1", "1 ", "1e3", "--1", "1x", "1.0", "1234567890123456789", "\u{661}"] {
        assert_eq!(read(ScalarType::Int8, text), None, "{text}");
    }
    assert_eq!((read(ScalarType::Int2, "32768"), read(ScalarType::Int4, "2147483648")), (None, None));
    for text in ["", ".", "-.", "1e3", "1.2.3", "1234567890123456", "0.1234567890123456", "NaN", "inf"] {
        assert_eq!(read(ScalarType::Float8, text), None, "{text}");
    }
    assert_eq!(read(ScalarType::Text, "1"), None);
    assert_eq!(number(SqlType::Array(ScalarType::Int8), b"1"), None);
}
