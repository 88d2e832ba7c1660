//! The forms of keys, and that every key reads back.

use proptest::prelude::*;

use super::*;
use crate::value::tests::any_key;

const TEXT: SqlType = SqlType::Scalar(ScalarType::Text);
const INT: SqlType = SqlType::Scalar(ScalarType::Int4);
const BYTEA: SqlType = SqlType::Scalar(ScalarType::Bytea);

fn key(types: &[SqlType], values: &[Value]) -> String {
    let datums: Vec<Datum<'_>> = values.iter().map(Value::as_datum).collect();
    let mut out = Vec::new();
    canonical_key(types, &datums, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

#[test]
fn one_column_is_its_text() {
    assert_eq!(key(&[INT], &[Value::Int4(-42)]), "-42");
    assert_eq!(key(&[TEXT], &[Value::Text("a,\"b\"{c}".into())]), "a,\"b\"{c}");
    assert_eq!(key(&[BYTEA], &[Value::Bytea((*b"raw\xff").into())]), "raw\u{fffd}");
    assert_eq!(key(&[ScalarType::Bool.into()], &[Value::Bool(true)]), "t");
    assert_eq!(key(&[ScalarType::Timestamptz.into()], &[Value::Timestamp(0)]), "1970-01-01 00:00:00+00");
}

#[test]
fn several_columns_are_joined_and_quoted() {
    let types = [TEXT, INT, BYTEA];
    let values = |text: &str| [Value::Text(text.into()), Value::Int4(7), Value::Bytea((*b"\x01").into())];
    assert_eq!(key(&types, &values("a b")), "a b,7,\"\\\\x01\"");
    assert_eq!(key(&types, &values("a,b")), "\"a,b\",7,\"\\\\x01\"");
    assert_eq!(key(&types, &values("\"{\\")), "\"\"\"{\\\\\",7,\"\\\\x01\"");
    assert_eq!(key(&types, &values("")), ",7,\"\\\\x01\"");
}

#[test]
fn equal_floats_have_one_key() {
    let types = [ScalarType::Float8.into()];
    assert_eq!(key(&types, &[Value::Float8(-0.0)]), key(&types, &[Value::Float8(0.0)]));
}

#[test]
fn malformed_keys_are_refused() {
    for text in ["1", "1,2,3", "\"1\"2,3", "\"1,2", "\"1\\", "x,1", "1,"] {
        let error = parse_canonical_key(&[INT, INT], text.as_bytes()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidTextRepresentation, "{text}");
    }
    assert_eq!(parse_canonical_key(&[TEXT], b"\xff").unwrap_err().code(), ErrorCode::CharacterNotInRepertoire);
}

proptest! {
    #[test]
    fn every_key_reads_back(columns in proptest::collection::vec(any_key(), 1..4)) {
        let (types, values): (Vec<SqlType>, Vec<Value>) = columns.into_iter().unzip();
        let datums: Vec<Datum<'_>> = values.iter().map(Value::as_datum).collect();
        let mut text = Vec::new();
        canonical_key(&types, &datums, &mut text);
        let again = parse_canonical_key(&types, &text).unwrap();
        let datums: Vec<Datum<'_>> = again.iter().map(Value::as_datum).collect();
        let mut text_again = Vec::new();
        canonical_key(&types, &datums, &mut text_again);
        prop_assert_eq!(text_again, text);
        // Negative zero comes back as zero, which it equals; NaN equals nothing.
        if !format!("{values:?}").contains("NaN") {
            prop_assert_eq!(again, values);
        }
    }

    #[test]
    fn any_bytes_are_a_key_or_an_error(text in proptest::collection::vec(any::<u8>(), 0..40)) {
        for types in [&[INT][..], &[TEXT, INT], &[TEXT, TEXT], &[BYTEA, TEXT]] {
            let _ = parse_canonical_key(types, &text);
        }
    }
}
