//! One-dimensional arrays as text: `{1,NULL,"a b"}`. Called by `text`.
//!
//! Arrays of more dimensions and other lower bounds than 1 have no place in a value and are refused.

use crate::{Error, ErrorCode, Items, Result, ScalarType, SqlType, Value};

use super::text::{TextStyle, is_space, parse_scalar, write as write_text, write_integer};

/// Reads an array with elements of this type.
pub(super) fn parse(element: ScalarType, text: &str, style: &TextStyle) -> Result<Value> {
    let mut reader = Reader { text, rest: text };
    reader.skip_spaces();
    match reader.rest.bytes().next() {
        Some(b'{') => {}
        Some(b'[') => return Err(Error::unsupported("arrays with explicit bounds are not supported")),
        _ => return Err(reader.malformed("Array value must start with \"{\" or dimension information.")),
    }
    reader.text = reader.rest;
    // The braces and commas are checked before any element is read.
    let values: Result<Box<[Value]>> = reader
        .elements()?
        .into_iter()
        .map(|text| text.map_or(Ok(Value::Null), |text| parse_scalar(element, &text, style)))
        .collect();
    values.map(Value::Array)
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
}

impl Reader<'_> {
    fn malformed(&self, detail: &str) -> Error {
        Error::new(ErrorCode::InvalidTextRepresentation, format!("malformed array literal: \"{}\"", self.text))
            .with_detail(detail)
    }

    fn take(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let char = chars.next();
        self.rest = chars.as_str();
        char
    }

    fn skip_spaces(&mut self) {
        let spaces = self.rest.bytes().take_while(|&byte| is_space(byte)).count();
        self.rest = &self.rest[spaces..];
    }

    /// The texts of all elements; `None` for NULL.
    fn elements(&mut self) -> Result<Vec<Option<String>>> {
        self.take();
        let mut elements = Vec::new();
        self.skip_spaces();
        if self.rest.starts_with('}') {
            self.take();
            return self.end(elements);
        }
        loop {
            elements.push(self.element()?);
            self.skip_spaces();
            match self.take() {
                Some(',') => {}
                Some('}') => return self.end(elements),
                Some(other @ ('\\' | '{')) => return Err(self.malformed(&format!("Unexpected \"{other}\" character."))),
                Some(_) => return Err(self.malformed("Unexpected array element.")),
                None => return Err(self.malformed("Unexpected end of input.")),
            }
        }
    }

    fn end(&mut self, elements: Vec<Option<String>>) -> Result<Vec<Option<String>>> {
        self.skip_spaces();
        if self.rest.is_empty() { Ok(elements) } else { Err(self.malformed("Junk after closing right brace.")) }
    }

    /// The text of the next element; `None` for NULL.
    fn element(&mut self) -> Result<Option<String>> {
        self.skip_spaces();
        match self.rest.bytes().next() {
            Some(b'"') => self.quoted().map(Some),
            Some(b'{') => Err(Error::unsupported("multi-dimensional arrays are not supported")),
            _ => self.plain(),
        }
    }

    fn quoted(&mut self) -> Result<String> {
        self.take();
        let mut element = String::new();
        while let Some(char) = self.take() {
            match char {
                '"' => return Ok(element),
                '\\' => match self.take() {
                    Some(escaped) => element.push(escaped),
                    None => break,
                },
                other => element.push(other),
            }
        }
        Err(self.malformed("Unexpected end of input."))
    }

    fn plain(&mut self) -> Result<Option<String>> {
        let mut element = String::new();
        // Trailing white space is no part of the element, unless a backslash stands before it.
        let mut length = 0;
        let mut escaped = false;
        loop {
            match self.rest.chars().next() {
                None => return Err(self.malformed("Unexpected end of input.")),
                Some(end @ (',' | '}')) if length == 0 => {
                    return Err(self.malformed(&format!("Unexpected \"{end}\" character.")));
                }
                Some(',' | '}') => break,
                Some(char @ ('"' | '{')) => {
                    let detail = match char {
                        '"' => "Unexpected array element.".to_owned(),
                        _ => format!("Unexpected \"{char}\" character."),
                    };
                    return Err(self.malformed(&detail));
                }
                Some('\\') => {
                    self.take();
                    let char = self.take().ok_or_else(|| self.malformed("Unexpected end of input."))?;
                    element.push(char);
                    length = element.len();
                    escaped = true;
                }
                Some(char) => {
                    self.take();
                    element.push(char);
                    if !(char.is_ascii() && is_space(char as u8)) {
                        length = element.len();
                    }
                }
            }
        }
        element.truncate(length);
        Ok(if !escaped && element.eq_ignore_ascii_case("null") { None } else { Some(element) })
    }
}

/// Appends an array, with those elements quoted that would read as something else.
pub(super) fn write(element: ScalarType, items: &Items<'_>, style: &TextStyle, out: &mut Vec<u8>) {
    let values = match items {
        Items::Values(values) => values,
        Items::Int4(numbers) => return write_integers(numbers, out),
        Items::Int8(numbers) => return write_integers(numbers, out),
    };
    let is_plain = is_plain(element);
    out.push(b'{');
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        if value.is_null() {
            out.extend_from_slice(b"NULL");
            continue;
        }
        let start = out.len();
        write_text(SqlType::Scalar(element), &value.as_datum(), style, out);
        if !is_plain && needs_quotes(&out[start..]) {
            let text = out.split_off(start);
            out.push(b'"');
            for byte in text {
                if matches!(byte, b'"' | b'\\') {
                    out.push(b'\\');
                }
                out.push(byte);
            }
            out.push(b'"');
        }
    }
    out.push(b'}');
}

fn write_integers(numbers: &[impl itoa::Integer + Copy], out: &mut Vec<u8>) {
    out.push(b'{');
    for (index, number) in numbers.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_integer(*number, out);
    }
    out.push(b'}');
}

/// Whether no value of a type ever needs quotes.
fn is_plain(element: ScalarType) -> bool {
    matches!(
        element,
        ScalarType::Bool
            | ScalarType::Int2
            | ScalarType::Int4
            | ScalarType::Int8
            | ScalarType::Float4
            | ScalarType::Float8
            | ScalarType::Numeric { .. }
            | ScalarType::Time
            | ScalarType::Uuid
    )
}

fn needs_quotes(text: &[u8]) -> bool {
    text.is_empty()
        || text.eq_ignore_ascii_case(b"null")
        || text.iter().any(|&byte| matches!(byte, b'"' | b'\\' | b'{' | b'}' | b',') || is_space(byte))
}

#[cfg(test)]
mod tests;
