//! Functions of text. Characters are counted, not bytes.

use ashlar_base::value::text::{self, TextStyle, Zone};
use ashlar_base::{Datum, Error, ErrorCode, Result, Value};
use datafusion_functions::{crypto, string, unicode};

use super::catalog::{Body, Call, Function, Overload, R, T, function, of, variadic};

const TEXT: R = R::Is(T::Text);
const INT4: R = R::Is(T::Int4);

/// See the module.
pub const FUNCTIONS: &[Function] = &[
    function("length", LENGTH),
    function("char_length", &[of(&[T::Text], INT4, Body::Engine(unicode::character_length))]),
    function("character_length", &[of(&[T::Text], INT4, Body::Engine(unicode::character_length))]),
    function(
        "octet_length",
        &[
            of(&[T::Text], INT4, Body::Engine(string::octet_length)),
            of(&[T::Bytea], INT4, Body::Strict(super::bytes::length)),
        ],
    ),
    function(
        "bit_length",
        &[
            of(&[T::Text], INT4, Body::Engine(string::bit_length)),
            of(&[T::Bytea], INT4, Body::Strict(super::bytes::bit_length)),
        ],
    ),
    function("lower", &[of(&[T::Text], TEXT, Body::Strict(lower))]),
    function("upper", &[of(&[T::Text], TEXT, Body::Strict(upper))]),
    function("initcap", &[of(&[T::Text], TEXT, Body::Strict(initcap))]),
    function("ltrim", &[one(string::ltrim), two(string::ltrim)]),
    function("rtrim", &[one(string::rtrim), two(string::rtrim)]),
    function("btrim", &[one(string::btrim), two(string::btrim)]),
    function("left", &[of(&[T::Text, T::Int4], TEXT, Body::Engine(unicode::left))]),
    function("right", &[of(&[T::Text, T::Int4], TEXT, Body::Engine(unicode::right))]),
    function("reverse", &[one(unicode::reverse)]),
    function("translate", &[of(&[T::Text, T::Text, T::Text], TEXT, Body::Engine(unicode::translate))]),
    function("strpos", &[of(&[T::Text, T::Text], INT4, Body::Engine(unicode::strpos))]),
    function(
        "position",
        &[
            of(&[T::Text, T::Text], INT4, Body::Engine(unicode::strpos)),
            of(&[T::Bytea, T::Bytea], INT4, Body::Strict(super::bytes::position)),
        ],
    ),
    function("starts_with", &[of(&[T::Text, T::Text], R::Is(T::Bool), Body::Engine(string::starts_with))]),
    function("like_escape", &[of(&[T::Text, T::Text], TEXT, Body::Strict(like_escape))]),
    function("substr", SUBSTR),
    function("substring", SUBSTRING),
    function(
        "overlay",
        &[
            of(&[T::Text, T::Text, T::Int4], TEXT, Body::Strict(overlay)),
            of(&[T::Text, T::Text, T::Int4, T::Int4], TEXT, Body::Strict(overlay)),
        ],
    ),
    function(
        "regexp replacement",
        &[of(&[T::Text], TEXT, Body::Strict(replacement)), of(&[T::Text, T::Text], TEXT, Body::Strict(replacement))],
    ),
    function("ascii", &[of(&[T::Text], INT4, Body::Engine(string::ascii))]),
    function("chr", &[of(&[T::Int4], TEXT, Body::Strict(chr))]),
    function("to_hex", &[of(&[T::Int4], TEXT, Body::Strict(to_hex)), of(&[T::Int8], TEXT, Body::Strict(to_hex))]),
    function("split_part", &[of(&[T::Text, T::Text, T::Int4], TEXT, Body::Strict(split_part))]),
    Function {
        name: "gen_random_uuid",
        overloads: &[of(&[], R::Is(T::Uuid), Body::Engine(string::uuid))],
        volatility: datafusion_expr::Volatility::Volatile,
    },
    function("concat", &[variadic(&[T::Any], TEXT, Body::Called(concat))]),
    function("concat_ws", &[variadic(&[T::Text, T::Any], TEXT, Body::Called(concat_ws))]),
    function(
        "md5",
        &[of(&[T::Text], TEXT, Body::Engine(crypto::md5)), of(&[T::Bytea], TEXT, Body::Engine(crypto::md5))],
    ),
];

const fn one(engine: fn() -> std::sync::Arc<datafusion_expr::ScalarUDF>) -> Overload {
    of(&[T::Text], TEXT, Body::Engine(engine))
}

const fn two(engine: fn() -> std::sync::Arc<datafusion_expr::ScalarUDF>) -> Overload {
    of(&[T::Text, T::Text], TEXT, Body::Engine(engine))
}

const LENGTH: &[Overload] = &[
    of(&[T::Text], INT4, Body::Engine(unicode::character_length)),
    of(&[T::Bytea], INT4, Body::Strict(super::bytes::length)),
];

const SUBSTR: &[Overload] = &[
    of(&[T::Text, T::Int4], TEXT, Body::Engine(unicode::substr)),
    of(&[T::Text, T::Int4, T::Int4], TEXT, Body::Engine(unicode::substr)),
    of(&[T::Bytea, T::Int4], R::Is(T::Bytea), Body::Strict(super::bytes::substring)),
    of(&[T::Bytea, T::Int4, T::Int4], R::Is(T::Bytea), Body::Strict(super::bytes::substring)),
];

const SUBSTRING: &[Overload] = &[
    of(&[T::Text, T::Int4], TEXT, Body::Engine(unicode::substr)),
    of(&[T::Text, T::Int4, T::Int4], TEXT, Body::Engine(unicode::substr)),
    of(&[T::Bytea, T::Int4], R::Is(T::Bytea), Body::Strict(super::bytes::substring)),
    of(&[T::Bytea, T::Int4, T::Int4], R::Is(T::Bytea), Body::Strict(super::bytes::substring)),
    of(&[T::Text, T::Text], TEXT, Body::Strict(super::matches::first_part)),
];

/// The text of a datum that is one.
pub fn text_of<'a>(datum: &'a Datum<'_>) -> &'a str {
    match datum {
        Datum::Text(text) => text,
        _ => "",
    }
}

fn int_of(datum: &Datum<'_>) -> i64 {
    match datum {
        Datum::Int4(value) => i64::from(*value),
        Datum::Int8(value) => *value,
        _ => 0,
    }
}

/// A text result.
pub fn text(result: impl Into<String>) -> Result<Value> {
    Ok(Value::Text(result.into().into_boxed_str()))
}

/// A pattern of LIKE with another character, or none, for its escape as one with the backslash for it. Source:
/// `do_like_escape` of PostgreSQL's like_match.c.
fn like_escape(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let (pattern, escape) = (text_of(&args[0]), text_of(&args[1]));
    let mut characters = escape.chars();
    let escape = characters.next();
    if characters.next().is_some() {
        return Err(Error::new(ErrorCode::InvalidEscapeSequence, "invalid escape string")
            .with_hint("Escape string must be empty or one character."));
    }
    let mut plain = String::with_capacity(pattern.len());
    let mut is_escaped = false;
    for character in pattern.chars() {
        if Some(character) == escape && !is_escaped {
            plain.push('\\');
            is_escaped = true;
            continue;
        }
        if character == '\\' && !is_escaped {
            plain.push('\\');
        }
        plain.push(character);
        is_escaped = false;
    }
    text(plain)
}

/// As PostgreSQL with a C library's simple mapping: a character whose other case is several characters stays.
fn cased<I: Iterator<Item = char>>(text: &str, mapped: fn(char) -> I) -> String {
    text.chars().map(|character| single(character, mapped(character))).collect()
}

fn single(character: char, mut mapped: impl Iterator<Item = char>) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(only), None) => only,
        _ => character,
    }
}

fn lower(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    text(cased(text_of(&args[0]), char::to_lowercase))
}

fn upper(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    text(cased(text_of(&args[0]), char::to_uppercase))
}

fn initcap(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let mut in_word = false;
    let mut result = String::new();
    for character in text_of(&args[0]).chars() {
        result.push(if in_word {
            single(character, character.to_lowercase())
        } else {
            single(character, character.to_uppercase())
        });
        in_word = character.is_alphanumeric();
    }
    text(result)
}

fn overlay(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let (whole, new, from) = (text_of(&args[0]), text_of(&args[1]), int_of(&args[2]));
    let length = args.get(3).map_or_else(|| new.chars().count() as i64, int_of);
    if from <= 0 {
        return Err(Error::new(ErrorCode::SubstringError, "negative substring length not allowed"));
    }
    let end = from.checked_add(length).filter(|end| i32::try_from(*end).is_ok());
    let end = end.ok_or_else(|| Error::new(ErrorCode::NumericOutOfRange, "integer out of range"))?;
    let before = whole.chars().take(usize::try_from(from - 1).unwrap_or(0));
    let after = whole.chars().skip(usize::try_from(end - 1).unwrap_or(0));
    text(before.chain(new.chars()).chain(after).collect::<String>())
}

fn chr(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let code = int_of(&args[0]);
    if code < 0 {
        return Err(Error::new(ErrorCode::InvalidParameterValue, "character number must be positive"));
    }
    if code == 0 {
        return Err(Error::new(ErrorCode::ProgramLimitExceeded, "null character not permitted"));
    }
    match u32::try_from(code).ok().and_then(char::from_u32) {
        Some(character) => text(character),
        None if code > 0x10_ffff => Err(Error::new(
            ErrorCode::ProgramLimitExceeded,
            format!("requested character too large for encoding: {code}"),
        )),
        None => Err(Error::new(
            ErrorCode::ProgramLimitExceeded,
            format!("requested character not valid for encoding: {code}"),
        )),
    }
}

fn to_hex(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    text(match &args[0] {
        Datum::Int4(value) => format!("{value:x}"),
        other => format!("{:x}", int_of(other)),
    })
}

fn split_part(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let (whole, delimiter, field) = (text_of(&args[0]), text_of(&args[1]), int_of(&args[2]));
    if field == 0 {
        return Err(Error::new(ErrorCode::InvalidParameterValue, "field position must not be zero"));
    }
    if whole.is_empty() {
        return text("");
    }
    if delimiter.is_empty() {
        return text(if field == 1 || field == -1 { whole } else { "" });
    }
    let at = usize::try_from(field.unsigned_abs() - 1).unwrap_or(usize::MAX);
    let part = if field > 0 { whole.split(delimiter).nth(at) } else { whole.rsplit(delimiter).nth(at) };
    text(part.unwrap_or(""))
}

/// Appends what PostgreSQL's output function of the type writes.
pub fn append(sql_type: ashlar_base::SqlType, datum: &Datum<'_>, zone: Zone, out: &mut String) {
    let mut buffer = Vec::new();
    text::write(sql_type, datum, &TextStyle { zone }, &mut buffer);
    out.push_str(std::str::from_utf8(&buffer).unwrap_or_default());
}

fn concat(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let mut result = String::new();
    for (datum, sql_type) in args.iter().zip(call.args).filter(|(datum, _)| !datum.is_null()) {
        append(*sql_type, datum, call.zone, &mut result);
        super::lengths::check(Some(result.len()))?;
    }
    text(result)
}

fn concat_ws(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    if args[0].is_null() {
        return Ok(Value::Null);
    }
    let separator = text_of(&args[0]);
    let mut result = String::new();
    let mut is_first = true;
    for (datum, sql_type) in args.iter().zip(call.args).skip(1).filter(|(datum, _)| !datum.is_null()) {
        if !std::mem::take(&mut is_first) {
            result.push_str(separator);
        }
        append(*sql_type, datum, call.zone, &mut result);
        super::lengths::check(Some(result.len()))?;
    }
    text(result)
}

/// The replacement of `regexp_replace` as the engine spells it: `\&` is its group 0, and its `$` stands for itself. Where
/// every match is replaced, of the text that is the second argument, what may come of it is bounded.
fn replacement(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let mut out = String::new();
    let mut chars = text_of(&args[0]).chars();
    while let Some(character) = chars.next() {
        match character {
            '$' => out.push_str("$$"),
            '\\' => match chars.next() {
                Some('&') => out.push_str("${0}"),
                Some(digit @ '1'..='9') => out.extend(['$', '{', digit, '}']),
                _ => {
                    return Err(Error::unsupported(
                        "a backslash in the replacement of regexp_replace is supported before & and digits only",
                    ));
                }
            },
            other => out.push(other),
        }
    }
    if let Some(Datum::Text(whole)) = args.get(1) {
        // A match at each character and behind the last; a group is at most the text.
        let groups = text_of(&args[0]).matches('\\').count();
        let each = out.len().checked_add(groups);
        super::lengths::check(each.and_then(|each| each.checked_mul(whole.len() + 1)))?;
    }
    text(out)
}

#[cfg(test)]
mod tests {
    use super::super::lengths::BATCH_BYTES_MAX;
    use super::*;
    use crate::catalog::RowFunction;

    #[test]
    fn arguments_put_together_are_bounded() {
        let part = "x".repeat(BATCH_BYTES_MAX / 4);
        let types = [ashlar_base::SqlType::Scalar(ashlar_base::ScalarType::Text); 6];
        let run = |function: RowFunction, count: usize| {
            let call = Call { args: &types[..count], ret: types[0], zone: Zone::Utc };
            function(&call, &vec![Datum::Text(&part); count]).map_err(|error| error.code())
        };
        for function in [concat as RowFunction, concat_ws] {
            assert!(run(function, 3).is_ok());
            assert_eq!(run(function, 6), Err(ErrorCode::OutOfMemory));
        }
    }
}
