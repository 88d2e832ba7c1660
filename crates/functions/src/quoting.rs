//! `format`, and quoting of identifiers and literals.

use ashlar_base::{Datum, Error, ErrorCode, Result, Value};
use pg_query::protobuf::KeywordKind;

use super::catalog::{Body, Call, Function, R, T, function, of, variadic};
use super::lengths::check;
use super::strings::{append, text, text_of};

const TEXT: R = R::Is(T::Text);

/// See the module.
pub const FUNCTIONS: &[Function] = &[
    function("quote_ident", &[of(&[T::Text], TEXT, Body::Strict(identifier))]),
    function(
        "quote_literal",
        &[of(&[T::Text], TEXT, Body::Strict(literal)), of(&[T::Any], TEXT, Body::Strict(literal))],
    ),
    function(
        "quote_nullable",
        &[of(&[T::Text], TEXT, Body::Called(nullable)), of(&[T::Any], TEXT, Body::Called(nullable))],
    ),
    function(
        "format",
        &[of(&[T::Text], TEXT, Body::Called(format)), variadic(&[T::Text, T::Any], TEXT, Body::Called(format))],
    ),
];

/// An argument as text.
fn shown(call: &Call<'_>, at: usize, datum: &Datum<'_>) -> String {
    let mut out = String::new();
    append(call.args[at], datum, call.zone, &mut out);
    out
}

fn identifier(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    text(quote_ident(&shown(call, 0, &args[0])))
}

/// An identifier as it can be written in SQL.
pub fn quote_ident(name: &str) -> String {
    let is_plain = |(offset, byte): (usize, u8)| {
        byte.is_ascii_lowercase() || byte == b'_' || (offset > 0 && byte.is_ascii_digit())
    };
    if !name.is_empty() && name.bytes().enumerate().all(is_plain) && !is_reserved(name) {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Whether PostgreSQL's scanner knows a word as more than an unreserved keyword.
fn is_reserved(word: &str) -> bool {
    let Ok(scanned) = pg_query::scan(word) else {
        return true;
    };
    scanned
        .tokens
        .iter()
        .any(|token| !matches!(token.keyword_kind(), KeywordKind::NoKeyword | KeywordKind::UnreservedKeyword))
}

fn quoted_literal(value: &str) -> String {
    let doubled = value.replace('\'', "''").replace('\\', "\\\\");
    if value.contains('\\') { format!("E'{doubled}'") } else { format!("'{doubled}'") }
}

fn literal(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    text(quoted_literal(&shown(call, 0, &args[0])))
}

fn nullable(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    if args[0].is_null() { text("NULL") } else { literal(call, args) }
}

fn parameter_error(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::InvalidParameterValue, message)
}

/// One `%` of a format string.
#[derive(Default)]
struct Conversion {
    argument: Option<usize>,
    is_left: bool,
    width: Width,
}

#[derive(Default)]
enum Width {
    #[default]
    None,
    Digits(i64),
    /// `*` or `*n$`: the width is an argument.
    Argument(Option<usize>),
}

fn format(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    if args[0].is_null() {
        return Ok(Value::Null);
    }
    let mut chars = text_of(&args[0]).chars().peekable();
    let mut result = String::new();
    // The arguments after the format string count from 1, as they do in the text.
    let mut next = 1;
    while let Some(character) = chars.next() {
        if character != '%' {
            result.push(character);
            continue;
        }
        if chars.next_if_eq(&'%').is_some() {
            result.push('%');
            continue;
        }
        let conversion = read_conversion(&mut chars)?;
        let kind = chars.next().ok_or_else(unterminated)?;
        let width = match conversion.width {
            Width::None => 0,
            Width::Digits(digits) => digits,
            Width::Argument(argument) => {
                let at = taken(argument, &mut next, args.len())?;
                match &args[at] {
                    Datum::Null => 0,
                    Datum::Int2(value) => i64::from(*value),
                    Datum::Int4(value) => i64::from(*value),
                    Datum::Int8(value) => *value,
                    other => shown(call, at, other)
                        .trim()
                        .parse()
                        .map_err(|_| parameter_error("a width of format() must be an integer"))?,
                }
            }
        };
        if !matches!(kind, 's' | 'I' | 'L') {
            return Err(parameter_error(format!("unrecognized format() type specifier \"{kind}\""))
                .with_hint("For a single \"%\" use \"%%\"."));
        }
        let at = taken(conversion.argument, &mut next, args.len())?;
        let is_null = args[at].is_null();
        let value = if is_null { String::new() } else { shown(call, at, &args[at]) };
        let value = match kind {
            'I' if is_null => {
                return Err(Error::new(
                    ErrorCode::NullValueNotAllowed,
                    "null values cannot be formatted as an SQL identifier",
                ));
            }
            'I' => quote_ident(&value),
            'L' if is_null => "NULL".to_owned(),
            'L' => quoted_literal(&value),
            _ => value,
        };
        let wanted = usize::try_from(width.unsigned_abs()).unwrap_or(usize::MAX);
        check(result.len().checked_add(wanted.max(value.len())))?;
        pad(&mut result, &value, wanted, conversion.is_left || width < 0);
    }
    text(result)
}

fn unterminated() -> Error {
    parameter_error("unterminated format() type specifier").with_hint("For a single \"%\" use \"%%\".")
}

fn digits(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Option<i64>> {
    let mut value: Option<i64> = None;
    while let Some(digit) = chars.next_if(char::is_ascii_digit) {
        let digit = i64::from(u32::from(digit) - u32::from('0'));
        let grown = value.unwrap_or(0) * 10 + digit;
        if grown > i64::from(i32::MAX) {
            return Err(Error::new(ErrorCode::NumericOutOfRange, "number is out of range"));
        }
        value = Some(grown);
    }
    Ok(value)
}

fn position(number: i64) -> Result<usize> {
    match usize::try_from(number) {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(parameter_error("format specifies argument 0, but arguments are numbered from 1")),
    }
}

fn read_conversion(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Conversion> {
    let mut conversion = Conversion::default();
    if let Some(number) = digits(chars)? {
        if chars.next_if_eq(&'$').is_none() {
            conversion.width = Width::Digits(number);
            return Ok(conversion);
        }
        conversion.argument = Some(position(number)?);
    }
    while chars.next_if_eq(&'-').is_some() {
        conversion.is_left = true;
    }
    if chars.next_if_eq(&'*').is_some() {
        conversion.width = match digits(chars)? {
            Some(number) if chars.next_if_eq(&'$').is_some() => Width::Argument(Some(position(number)?)),
            Some(_) => return Err(parameter_error("width argument position must be ended by \"$\"")),
            None => Width::Argument(None),
        };
    } else if let Some(number) = digits(chars)? {
        conversion.width = Width::Digits(number);
    }
    Ok(conversion)
}

/// The index of an argument: the one that is named, or the next.
fn taken(argument: Option<usize>, next: &mut usize, count: usize) -> Result<usize> {
    let at = argument.unwrap_or(*next);
    *next = at + 1;
    if at < count { Ok(at) } else { Err(parameter_error("too few arguments for format()")) }
}

fn pad(result: &mut String, value: &str, wanted: usize, is_left: bool) {
    let missing = wanted.saturating_sub(value.chars().count());
    let spaces = std::iter::repeat_n(' ', missing);
    if is_left {
        result.push_str(value);
        result.extend(spaces);
    } else {
        result.extend(spaces);
        result.push_str(value);
    }
}

#[cfg(test)]
mod tests {
    use super::{quote_ident, quoted_literal};

    #[test]
    fn literals_are_written_as_postgres_writes_them() {
        assert_eq!(quoted_literal("it's"), "'it''s'");
        assert_eq!(quoted_literal("a\\b"), "E'a\\\\b'");
    }

    #[test]
    fn identifiers_are_quoted_only_where_they_must_be() {
        for plain in ["a", "_x1", "name", "abort"] {
            assert_eq!(quote_ident(plain), plain);
        }
        for quoted in ["", "A", "1a", "a b", "select", "int", "left"] {
            assert_eq!(quote_ident(quoted), format!("\"{quoted}\""));
        }
        assert_eq!(quote_ident("a\"b"), "\"a\"\"b\"");
    }
}
