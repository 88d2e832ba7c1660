//! For tests: rows of an input and what PostgreSQL 15 makes of it, checked in text and binary.

use super::binary;
use super::text::{TextStyle, Zone, parse, write};
use crate::{Result, SqlType, Value};

/// Each row is an input and its output, or its SQLSTATE, a colon and the message; zone UTC.
pub(super) fn check(sql_type: impl Into<SqlType>, rows: &[(&str, &str)]) {
    check_in(Zone::Utc, sql_type, rows);
}

/// As [`check`], in a session with this zone.
pub(super) fn check_in(zone: Zone, sql_type: impl Into<SqlType>, rows: &[(&str, &str)]) {
    let (sql_type, style) = (sql_type.into(), TextStyle { zone });
    let wrong: Vec<String> = rows
        .iter()
        .filter_map(|(input, expected)| {
            let result = parse(sql_type, input, &style);
            let shown = show(sql_type, &result, &style);
            if let Ok(value) = &result {
                check_round_trips(sql_type, value, &style);
            }
            (shown != *expected).then(|| format!("{sql_type} {input:?}\n  expected {expected}\n  found    {shown}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The text of a value, or the SQLSTATE and message of an error.
pub(super) fn show(sql_type: SqlType, result: &Result<Value>, style: &TextStyle) -> String {
    match result {
        Ok(value) => {
            let mut out = Vec::new();
            write(sql_type, &value.as_datum(), style, &mut out);
            String::from_utf8(out).unwrap()
        }
        Err(error) => format!("{}: {}", error.code().sqlstate(), error.message()),
    }
}

/// Writes and reads a value in both forms.
pub(super) fn check_round_trips(sql_type: SqlType, value: &Value, style: &TextStyle) {
    let mut text = Vec::new();
    write(sql_type, &value.as_datum(), style, &mut text);
    let text = String::from_utf8(text).unwrap();
    let again = parse(sql_type, &text, style).unwrap_or_else(|error| panic!("{sql_type} {text:?}: {error:?}"));
    // Compared as they print, because NaN differs from itself and -0 does not differ from 0.
    assert_eq!(format!("{again:?}"), format!("{value:?}"), "{sql_type} {text:?}");
    let mut bytes = Vec::new();
    binary::encode(sql_type, &value.as_datum(), &mut bytes);
    let again = binary::decode(sql_type, &bytes).unwrap_or_else(|error| panic!("{sql_type} {text:?}: {error:?}"));
    assert_eq!(format!("{again:?}"), format!("{value:?}"), "{sql_type} {bytes:?}");
}
