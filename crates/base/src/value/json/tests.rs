//! What PostgreSQL 15 makes of the same inputs.

use crate::value::table::check;
use crate::{ErrorCode, ScalarType};

use super::{DEPTH_MAX, check as check_json, normalize};

#[test]
fn jsonb_is_normalised() {
    check(
        ScalarType::Jsonb,
        &[
            ("{}", "{}"),
            ("[]", "[]"),
            ("null", "null"),
            ("\"a\"", "\"a\""),
            ("{\"b\":1,\"a\":[1,2]}", "{\"a\": [1, 2], \"b\": 1}"),
            ("{\"aa\":1,\"b\":2}", "{\"b\": 2, \"aa\": 1}"),
            ("{\"a\":1,\"b\":2,\"a\":3}", "{\"a\": 3, \"b\": 2}"),
            (" { \"a\" : [ 1 , { } ] } ", "{\"a\": [1, {}]}"),
            ("1e3", "1000"),
            ("1.10", "1.10"),
            ("-0", "0"),
            ("-0.0", "0.0"),
            ("0.00", "0.00"),
            ("1e-3", "0.001"),
            ("1.50e1", "15.0"),
            ("-1.5e-2", "-0.015"),
            ("0e-5", "0.00000"),
            ("100000000000000000000000000000000000000000", "100000000000000000000000000000000000000000"),
            ("\"\\u0041\\u00e9\\ud83d\\ude00\"", "\"Aé😀\""),
            ("\"\\ud83d\"", "22P02: invalid input syntax for type json"),
            ("\"\\ude00\"", "22P02: invalid input syntax for type json"),
            ("\"\\ud83d\\n\"", "22P02: invalid input syntax for type json"),
            ("\"\\ud83d\\ud83d\"", "22P02: invalid input syntax for type json"),
            ("\"\\u001f\"", "\"\\u001f\""),
            ("\"a\\\"b\\\\c\\/d\\b\\f\\n\\r\\t\"", "\"a\\\"b\\\\c/d\\b\\f\\n\\r\\t\""),
            ("\"\\x\"", "22P02: invalid input syntax for type json"),
            ("\"\\u12g4\"", "22P02: invalid input syntax for type json"),
            ("\"abc", "22P02: invalid input syntax for type json"),
            ("{\"é\":\"ü\",\"zz\":2}", "{\"zz\": 2, \"é\": \"ü\"}"),
            ("{\"a\\u0062\":1,\"ab\":2}", "{\"ab\": 2}"),
            ("{\"a\":{\"b\":1,\"b\":2},\"\":1}", "{\"\": 1, \"a\": {\"b\": 2}}"),
            ("01", "22P02: invalid input syntax for type json"),
            ("1.", "22P02: invalid input syntax for type json"),
            ("+1", "22P02: invalid input syntax for type json"),
            ("1e", "22P02: invalid input syntax for type json"),
            ("{\"a\"}", "22P02: invalid input syntax for type json"),
            ("[1,]", "22P02: invalid input syntax for type json"),
            ("[1 2]", "22P02: invalid input syntax for type json"),
            ("[}", "22P02: invalid input syntax for type json"),
            ("tru", "22P02: invalid input syntax for type json"),
            ("truex", "22P02: invalid input syntax for type json"),
            ("1 2", "22P02: invalid input syntax for type json"),
            ("", "22P02: invalid input syntax for type json"),
            ("{} x", "22P02: invalid input syntax for type json"),
        ],
    );
}

#[test]
fn json_is_checked_and_kept() {
    check(
        ScalarType::Json,
        &[
            ("{ \"b\":1, \"a\" :2,\"b\":3 }", "{ \"b\":1, \"a\" :2,\"b\":3 }"),
            ("1e3", "1e3"),
            ("\"\\u0000\"", "\"\\u0000\""),
            ("\"\\ud83d\"", "\"\\ud83d\""),
            ("\"\\u12\"", "22P02: invalid input syntax for type json"),
            ("{\"a\":1,}", "22P02: invalid input syntax for type json"),
            ("\t[1]\n", "\t[1]\n"),
        ],
    );
}

#[test]
fn details_say_what_was_expected() {
    for (text, detail) in [
        ("", "The input string ended unexpectedly."),
        ("[1", "The input string ended unexpectedly."),
        ("[,1]", "Expected JSON value, but found \",\"."),
        ("{1:2}", "Expected string or \"}\", but found \"1\"."),
        ("{\"a\":1,}", "Expected string, but found \"}\"."),
        ("{\"a\" 1}", "Expected \":\", but found \"1\"."),
        ("{\"a\":1 2}", "Expected \",\" or \"}\", but found \"2\"."),
        ("[1 2]", "Expected \",\" or \"]\", but found \"2\"."),
        ("1 2", "Expected end of input, but found \"2\"."),
        ("tru", "Token \"tru\" is invalid."),
        ("0.E-2", "Token \"0.E-2\" is invalid."),
        ("\"abc", "Token \"\"abc\" is invalid."),
        ("\"\\x\"", "Escape sequence \"\\x\" is invalid."),
        ("\"a\tb\"", "Character with value 0x09 must be escaped."),
    ] {
        let error = check_json(text).unwrap_err();
        assert_eq!(error.fields().detail.as_deref(), Some(detail), "{text}");
    }
}

#[test]
fn what_the_text_form_cannot_hold_is_refused() {
    let refused = |text: &str| normalize(text).unwrap_err().code();
    assert_eq!(refused("\"\\u0000\""), ErrorCode::UntranslatableCharacter);
    assert_eq!(refused("1e1001"), ErrorCode::FeatureNotSupported);
    assert_eq!(refused("1e-99999999999999999999"), ErrorCode::FeatureNotSupported);
    assert_eq!(normalize("1e1000").map(|text| text.len()), Ok(1001));
}

#[test]
fn nesting_has_a_limit_and_no_stack() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert_eq!(normalize(&nested(DEPTH_MAX)).map(|text| text.len()), Ok(2 * DEPTH_MAX));
    assert_eq!(normalize(&nested(DEPTH_MAX + 1)).unwrap_err().code(), ErrorCode::ProgramLimitExceeded);
    assert_eq!(check_json(&"[".repeat(1_000_000)).unwrap_err().code(), ErrorCode::ProgramLimitExceeded);
}
