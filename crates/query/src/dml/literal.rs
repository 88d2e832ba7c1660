//! Values as constants of SQL: what shards are sent of rows that are computed here.
//!
//! Called by `spread` and `shard_change`. A constant is written so that a server reads the same value, whatever its settings are.

use ashlar_base::value::text::{self, TextStyle};
use ashlar_base::{Datum, Error, ScalarType, SqlType, Value};

/// Bytes of a constant besides those of its value: its type, and the value where it is short.
const WRITTEN_BYTES: usize = 256;

/// A value as a constant that takes the type of the column that it is for.
pub(super) fn write_literal(sql_type: SqlType, value: &Datum<'_>, scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
    if value.is_null() {
        out.extend_from_slice(b"NULL");
        return;
    }
    scratch.clear();
    text::write(sql_type, value, &TextStyle::default(), scratch);
    // Means the same whatever `standard_conforming_strings` is there.
    if scratch.contains(&b'\\') {
        out.push(b'E');
    }
    out.push(b'\'');
    for byte in scratch.iter() {
        if matches!(byte, b'\'' | b'\\') {
            out.push(*byte);
        }
        out.push(*byte);
    }
    out.push(b'\'');
}

/// Bytes that a value's constant has at most.
pub(super) fn written_bytes_max(value: &Value) -> usize {
    let own = match value {
        // Each may be a quote or a backslash.
        Value::Text(text) => 2 * text.len(),
        Value::Bytea(bytes) => 2 * bytes.len(),
        // Those are quoted once more among others.
        Value::Array(values) => values.iter().map(|value| 2 * written_bytes_max(value)).sum::<usize>(),
        _ => 0,
    };
    WRITTEN_BYTES + own
}

/// The type's name in a cast that keeps the value as it is.
pub(super) fn type_name(sql_type: SqlType) -> String {
    let name = match sql_type.scalar() {
        ScalarType::Numeric { .. } => "numeric".to_owned(),
        ScalarType::Varchar { .. } => "character varying".to_owned(),
        // `character` alone is one of them.
        ScalarType::Char { .. } => "bpchar".to_owned(),
        other => other.to_string(),
    };
    if sql_type.is_array() { format!("{name}[]") } else { name }
}

/// XX000
pub(super) fn no_text() -> Error {
    Error::internal("a value's text is not UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_mean_their_values_whatever_is_in_them() {
        let (text, bytes) = (SqlType::Scalar(ScalarType::Text), SqlType::Scalar(ScalarType::Bytea));
        let all = [
            (text, Value::Null, "NULL"),
            (text, Value::Text("it's".into()), "'it''s'"),
            (text, Value::Text("\\' \\".into()), "E'\\\\'' \\\\'"),
            (bytes, Value::Bytea(vec![0, 255].into()), "E'\\\\x00ff'"),
            (SqlType::Scalar(ScalarType::Int8), Value::Int8(-5), "'-5'"),
        ];
        for (sql_type, value, expected) in all {
            let (mut scratch, mut out) = (Vec::new(), Vec::new());
            write_literal(sql_type, &value.as_datum(), &mut scratch, &mut out);
            assert!(out.len() <= written_bytes_max(&value));
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
