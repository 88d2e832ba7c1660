//! What PostgreSQL 15 makes of the same inputs, and the wording of encoding errors.

use crate::ScalarType;
use crate::value::table::check;

use super::*;

#[test]
fn booleans_are_read_by_their_beginnings() {
    check(
        ScalarType::Bool,
        &[
            ("t", "t"),
            ("f", "f"),
            ("TRUE", "t"),
            ("tr", "t"),
            (" yes ", "t"),
            ("n", "f"),
            ("on", "t"),
            ("of", "f"),
            ("off", "f"),
            ("1", "t"),
            ("0", "f"),
            ("o", "22P02: invalid input syntax for type boolean: \"o\""),
            ("", "22P02: invalid input syntax for type boolean: \"\""),
            ("2", "22P02: invalid input syntax for type boolean: \"2\""),
            ("truee", "22P02: invalid input syntax for type boolean: \"truee\""),
        ],
    );
}

#[test]
fn integers_keep_to_their_range() {
    check(
        ScalarType::Int2,
        &[
            ("0", "0"),
            ("-0", "0"),
            (" 42 ", "42"),
            ("+7", "7"),
            ("32767", "32767"),
            ("-32768", "-32768"),
            ("32768", "22003: value \"32768\" is out of range for type smallint"),
            ("-32769", "22003: value \"-32769\" is out of range for type smallint"),
            ("x", "22P02: invalid input syntax for type smallint: \"x\""),
            ("", "22P02: invalid input syntax for type smallint: \"\""),
            ("1.0", "22P02: invalid input syntax for type smallint: \"1.0\""),
            ("32768x", "22P02: invalid input syntax for type smallint: \"32768x\""),
            ("99999x", "22003: value \"99999x\" is out of range for type smallint"),
            ("1 2", "22P02: invalid input syntax for type smallint: \"1 2\""),
            ("--1", "22P02: invalid input syntax for type smallint: \"--1\""),
        ],
    );
    check(
        ScalarType::Int4,
        &[
            ("2147483647", "2147483647"),
            ("-2147483648", "-2147483648"),
            ("2147483648", "22003: value \"2147483648\" is out of range for type integer"),
            ("99999999999", "22003: value \"99999999999\" is out of range for type integer"),
            ("99999999999x", "22003: value \"99999999999x\" is out of range for type integer"),
            ("1e3", "22P02: invalid input syntax for type integer: \"1e3\""),
            ("0x10", "22P02: invalid input syntax for type integer: \"0x10\""),
            ("00012", "12"),
        ],
    );
    check(
        ScalarType::Int8,
        &[
            ("9223372036854775807", "9223372036854775807"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("9223372036854775808", "22003: value \"9223372036854775808\" is out of range for type bigint"),
            ("-9223372036854775809", "22003: value \"-9223372036854775809\" is out of range for type bigint"),
            ("9999999999999999999999", "22003: value \"9999999999999999999999\" is out of range for type bigint"),
            ("-", "22P02: invalid input syntax for type bigint: \"-\""),
        ],
    );
}

#[test]
fn bytea_is_hex_or_escaped() {
    check(
        ScalarType::Bytea,
        &[
            ("", "\\x"),
            ("\\x", "\\x"),
            ("\\x00ff", "\\x00ff"),
            ("\\xDEADbeef", "\\xdeadbeef"),
            ("\\x 00 ff", "\\x00ff"),
            ("\\x0", "22023: invalid hexadecimal data: odd number of digits"),
            ("\\x0g", "22023: invalid hexadecimal digit: \"g\""),
            ("\\x0 0", "22023: invalid hexadecimal digit: \" \""),
            ("\\X00", "22P02: invalid input syntax for type bytea"),
            ("abc", "\\x616263"),
            ("a\\\\b", "\\x615c62"),
            ("\\001\\377", "\\x01ff"),
            ("\\400", "22P02: invalid input syntax for type bytea"),
            ("\\", "22P02: invalid input syntax for type bytea"),
            ("ü", "\\xc3bc"),
        ],
    );
}

#[test]
fn uuids_are_read_in_all_their_forms() {
    check(
        ScalarType::Uuid,
        &[
            ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
            ("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
            ("{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
            ("a0eebc999c0b4ef8bb6d6bb9bd380a11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
            ("a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
            (
                "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1",
                "22P02: invalid input syntax for type uuid: \"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1\"",
            ),
            (
                "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
                "22P02: invalid input syntax for type uuid: \"{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11\"",
            ),
            (
                "a0-eebc999c0b4ef8bb6d6bb9bd380a11",
                "22P02: invalid input syntax for type uuid: \"a0-eebc999c0b4ef8bb6d6bb9bd380a11\"",
            ),
            (
                " a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
                "22P02: invalid input syntax for type uuid: \" a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11\"",
            ),
            ("", "22P02: invalid input syntax for type uuid: \"\""),
        ],
    );
}

#[test]
fn varchar_counts_characters_and_drops_only_spaces() {
    check(
        ScalarType::Varchar { length: Some(3) },
        &[
            ("abc", "abc"),
            ("äöü", "äöü"),
            ("ab   ", "ab "),
            ("abcd", "22001: value too long for type character varying(3)"),
            ("abc d", "22001: value too long for type character varying(3)"),
        ],
    );
    check(ScalarType::Varchar { length: None }, &[("any length", "any length"), ("", "")]);
    check(ScalarType::Text, &[("a\0b", "22021: invalid byte sequence for encoding \"UTF8\": 0x00")]);
}

#[test]
fn bytes_that_are_no_text_are_named() {
    for (bytes, message) in [
        (&b"a\xffb"[..], "invalid byte sequence for encoding \"UTF8\": 0xff"),
        (b"\xc3(", "invalid byte sequence for encoding \"UTF8\": 0xc3 0x28"),
        (b"\xe2\x82", "invalid byte sequence for encoding \"UTF8\": 0xe2 0x82"),
        (b"a\0", "invalid byte sequence for encoding \"UTF8\": 0x00"),
        (b"a\0\xff", "invalid byte sequence for encoding \"UTF8\": 0x00"),
    ] {
        let error = utf8(bytes).unwrap_err();
        assert_eq!((error.code(), error.message()), (ErrorCode::CharacterNotInRepertoire, message));
    }
    assert_eq!(utf8("zürich".as_bytes()), Ok("zürich"));
}
