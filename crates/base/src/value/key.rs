//! The canonical text of partition keys, which slots are computed from and which RESP names hold.
//!
//! Called by the store for every key and by the RESP door. Never depends on a session's settings.

use std::borrow::Cow;

use crate::{Datum, Error, ErrorCode, Result, ScalarType, SqlType, Value};

use super::text::{TextStyle, parse, utf8, write};

/// Zone UTC.
const STYLE: TextStyle = TextStyle { zone: super::zone::Zone::Utc };

/// Appends the canonical text of a key. Of one column: its text, and of one `bytea` column the bytes themselves.
/// Of several: their texts joined by commas; a text that contains a comma, a double quote, a brace or a backslash is
/// double-quoted, and quotes and backslashes within are doubled, as in PostgreSQL's text of a row.
pub fn canonical_key(types: &[SqlType], datums: &[Datum<'_>], out: &mut Vec<u8>) {
    assert_eq!(types.len(), datums.len(), "a key has a datum for each of its columns");
    if let ([_], [Datum::Bytea(bytes)]) = (types, datums) {
        return out.extend_from_slice(bytes);
    }
    if let ([sql_type], [datum]) = (types, datums) {
        return write_field(*sql_type, datum, out);
    }
    for (index, (sql_type, datum)) in types.iter().zip(datums).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let start = out.len();
        write_field(*sql_type, datum, out);
        if out[start..].iter().any(|byte| matches!(byte, b',' | b'"' | b'{' | b'}' | b'\\')) {
            let field = out.split_off(start);
            out.push(b'"');
            for byte in field {
                if matches!(byte, b'"' | b'\\') {
                    out.push(byte);
                }
                out.push(byte);
            }
            out.push(b'"');
        }
    }
}

/// Equal keys have one text, so negative zero is written as zero.
fn write_field(sql_type: SqlType, datum: &Datum<'_>, out: &mut Vec<u8>) {
    match datum {
        Datum::Float4(0.0) | Datum::Float8(0.0) => out.push(b'0'),
        // Blanks at the end do not count.
        Datum::Text(text) => out.extend_from_slice(text.as_bytes()),
        _ => write(sql_type, datum, &STYLE, out),
    }
}

/// Reads what [`canonical_key`] wrote.
pub fn parse_canonical_key(types: &[SqlType], text: &[u8]) -> Result<Vec<Value>> {
    match types {
        [SqlType::Scalar(ScalarType::Bytea)] => Ok(vec![Value::Bytea(text.into())]),
        [sql_type] => Ok(vec![parse(*sql_type, utf8(text)?, &STYLE)?]),
        _ => {
            let fields = split(utf8(text)?)?;
            if fields.len() != types.len() {
                return Err(malformed(&format!("The key has {} columns.", types.len())));
            }
            types.iter().zip(fields).map(|(sql_type, field)| parse(*sql_type, &field, &STYLE)).collect()
        }
    }
}

fn malformed(detail: &str) -> Error {
    Error::new(ErrorCode::InvalidTextRepresentation, "malformed key").with_detail(detail)
}

/// Cuts at the commas outside quotes.
fn split(text: &str) -> Result<Vec<Cow<'_, str>>> {
    let mut fields = Vec::new();
    let mut rest = text;
    loop {
        let (field, after) = match rest.strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (Cow::Borrowed(&rest[..end]), &rest[end..])
            }
        };
        fields.push(field);
        match after.strip_prefix(',') {
            Some(after) => rest = after,
            None if after.is_empty() => return Ok(fields),
            None => return Err(malformed("A comma must follow a closing quote.")),
        }
    }
}

/// The field after its opening quote, and what follows the closing one.
fn unquote(quoted: &str) -> Result<(Cow<'_, str>, &str)> {
    let mut field = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' if quoted[at + 1..].starts_with('"') => {
                chars.next();
                field.push('"');
            }
            '"' => return Ok((field.into(), &quoted[at + 1..])),
            '\\' => {
                field.push(chars.next().map(|(_, char)| char).ok_or_else(|| malformed("The key ends within quotes."))?)
            }
            other => field.push(other),
        }
    }
    Err(malformed("The key ends within quotes."))
}

#[cfg(test)]
mod tests;
