//! `json` and `jsonb`: operators, functions, and the order of jsonb values.

use std::borrow::Cow;

use ashlar_base::value::json::normalize;
use ashlar_base::value::text::Zone;
use ashlar_base::{Datum, Error, ErrorCode, Items, Result, ScalarType, SqlType, Value};
use ashlar_store::arrow_types::sql_type_of;
use datafusion_common::DFSchema;
use datafusion_expr::expr::Placeholder;
use datafusion_expr::{Cast, Expr, ExprSchemable};

use super::catalog::{Body, Call, Function, Overload, R, T, function, of, variadic};
use super::fields::field_of;
use super::strings::{append, text, text_of};
use tree::{Json, Node, place_in, read};

pub mod changes;
pub mod made;
pub mod order;
mod path;
pub mod rows;
pub mod tree;

const TEXT: R = R::Is(T::Text);
const JSONB: R = R::Is(T::Jsonb);
const JSON: R = R::Is(T::Json);
const BOOL: R = R::Is(T::Bool);

/// See the module. Operators stand under their signs.
pub const FUNCTIONS: &[Function] = &[
    function(
        "jsonb key",
        &[
            of(&[T::Jsonb], R::Is(T::Bytea), Body::Strict(key)),
            of(&[T::Arr], R::Is(T::Bytea), Body::Strict(key_of_array)),
        ],
    ),
    function("jsonb keys", &[of(&[T::Arr], R::With(type_of_keys), Body::Strict(keys_of_items))]),
    function("->", GET),
    function("->>", GET_TEXT),
    function(
        "#>",
        &[of(&[T::Json, T::Texts], JSON, Body::Text(at_path)), of(&[T::Jsonb, T::Texts], JSONB, Body::Text(at_path))],
    ),
    function(
        "#>>",
        &[
            of(&[T::Json, T::Texts], TEXT, Body::Text(text_at_path)),
            of(&[T::Jsonb, T::Texts], TEXT, Body::Text(text_at_path)),
        ],
    ),
    function("@>", &[of(&[T::Jsonb, T::Jsonb], BOOL, Body::Strict(|_, args| contains(&args[0], &args[1])))]),
    function("<@", &[of(&[T::Jsonb, T::Jsonb], BOOL, Body::Strict(|_, args| contains(&args[1], &args[0])))]),
    function("?", &[of(&[T::Jsonb, T::Text], BOOL, Body::Strict(exists))]),
    function("?|", &[of(&[T::Jsonb, T::Texts], BOOL, Body::Strict(exists_any))]),
    function("?&", &[of(&[T::Jsonb, T::Texts], BOOL, Body::Strict(exists_all))]),
    function("||", &[of(&[T::Jsonb, T::Jsonb], JSONB, Body::Strict(concatenate))]),
    function(
        "-",
        &[
            of(&[T::Jsonb, T::Text], JSONB, Body::Strict(without_key)),
            of(&[T::Jsonb, T::Int4], JSONB, Body::Strict(without_item)),
            of(&[T::Jsonb, T::Texts], JSONB, Body::Strict(without_keys)),
        ],
    ),
    function("json_typeof", &[of(&[T::Json], TEXT, Body::Strict(type_of))]),
    function("jsonb_typeof", &[of(&[T::Jsonb], TEXT, Body::Strict(type_of))]),
    function("json_array_length", &[of(&[T::Json], R::Is(T::Int4), Body::Strict(array_length))]),
    function("jsonb_array_length", &[of(&[T::Jsonb], R::Is(T::Int4), Body::Strict(array_length))]),
    function("json_extract_path", &[variadic(&[T::Json, T::Text], JSON, Body::Text(extract))]),
    function("jsonb_extract_path", &[variadic(&[T::Jsonb, T::Text], JSONB, Body::Text(extract))]),
    function("json_extract_path_text", &[variadic(&[T::Json, T::Text], TEXT, Body::Text(extract_text))]),
    function("jsonb_extract_path_text", &[variadic(&[T::Jsonb, T::Text], TEXT, Body::Text(extract_text))]),
    function(
        "to_json",
        &[of(&[T::Any], JSON, Body::Strict(|call, args| text(shown(call.args[0], &args[0], call.zone)?)))],
    ),
    function(
        "to_jsonb",
        &[of(&[T::Any], JSONB, Body::Strict(|call, args| jsonb(&shown(call.args[0], &args[0], call.zone)?)))],
    ),
    function(
        "json_build_object",
        &[
            of(&[], JSON, Body::Called(|_, _| text("{}"))),
            variadic(&[T::Any], JSON, Body::Called(|call, args| text(object(call, args, " : ")?))),
        ],
    ),
    function(
        "jsonb_build_object",
        &[
            of(&[], JSONB, Body::Called(|_, _| text("{}"))),
            variadic(&[T::Any], JSONB, Body::Called(|call, args| jsonb(&object(call, args, ": ")?))),
        ],
    ),
    function("row_to_json\u{1}", ROW_AS_JSON),
    function("to_json\u{1}", ROW_AS_JSON),
    function(
        "to_jsonb\u{1}",
        &[variadic(
            &[T::Any],
            JSONB,
            Body::Called(|call, args| match row(call, args)? {
                Some(row) => jsonb(&row),
                None => Ok(Value::Null),
            }),
        )],
    ),
    function(
        "json_build_array",
        &[
            of(&[], JSON, Body::Called(|_, _| text("[]"))),
            variadic(&[T::Any], JSON, Body::Called(|call, args| text(array(call, args)?))),
        ],
    ),
    function(
        "jsonb_build_array",
        &[
            of(&[], JSONB, Body::Called(|_, _| text("[]"))),
            variadic(&[T::Any], JSONB, Body::Called(|call, args| jsonb(&array(call, args)?))),
        ],
    ),
    function("jsonb_strip_nulls", &[of(&[T::Jsonb], JSONB, Body::Strict(strip_nulls))]),
];

/// Of a row, which is said by whether it is there, and names and values of its columns.
const ROW_AS_JSON: &[Overload] = &[variadic(
    &[T::Any],
    JSON,
    Body::Called(|call, args| match row(call, args)? {
        Some(row) => text(row),
        None => Ok(Value::Null),
    }),
)];

const GET: &[Overload] = &[
    of(&[T::Json, T::Text], JSON, Body::Text(get)),
    of(&[T::Json, T::Int4], JSON, Body::Text(get)),
    of(&[T::Jsonb, T::Text], JSONB, Body::Text(get)),
    of(&[T::Jsonb, T::Int4], JSONB, Body::Text(get)),
];

const GET_TEXT: &[Overload] = &[
    of(&[T::Json, T::Text], TEXT, Body::Text(get_text)),
    of(&[T::Json, T::Int4], TEXT, Body::Text(get_text)),
    of(&[T::Jsonb, T::Text], TEXT, Body::Text(get_text)),
    of(&[T::Jsonb, T::Int4], TEXT, Body::Text(get_text)),
];

/// Whether an expression gives jsonb.
pub fn is_jsonb(expr: &Expr, schema: &DFSchema) -> bool {
    let Ok((_, field)) = expr.to_field(schema) else { return false };
    sql_type_of(&field) == Some(ScalarType::Jsonb.into())
}

/// The type of an expression whose values are compared by keys: jsonb, or an array of it.
pub fn keyed_type(expr: &Expr, schema: &DFSchema) -> Option<SqlType> {
    let (_, field) = expr.to_field(schema).ok()?;
    sql_type_of(&field).filter(|sql_type| sql_type.scalar() == ScalarType::Jsonb)
}

/// What stands for a jsonb expression where values are compared, sorted or grouped.
pub fn key_of(expr: Expr) -> Expr {
    key_of_type(expr, ScalarType::Jsonb.into())
}

/// The same of an expression that [`keyed_type`] says has this type, or of what stands beside one.
pub fn key_of_type(expr: Expr, sql_type: SqlType) -> Expr {
    let typed = match expr {
        Expr::Placeholder(Placeholder { id, field: None }) if sql_type.is_array() => {
            Expr::Placeholder(Placeholder { id, field: Some(field_of("parameter", sql_type)) })
        }
        Expr::Placeholder(placeholder) if sql_type.is_array() => Expr::Placeholder(placeholder),
        Expr::Literal(..) | Expr::Placeholder(_) => {
            Expr::Cast(Cast { expr: Box::new(expr), field: field_of("jsonb", sql_type) })
        }
        _ => expr,
    };
    super::planner::settled("jsonb key", vec![typed.clone()], &[sql_type]).unwrap_or(typed)
}

/// The keys of the items of an array of jsonb, in an array.
pub fn keys_of(array: Expr) -> Option<Expr> {
    super::planner::settled("jsonb keys", vec![array], &[SqlType::Array(ScalarType::Jsonb)])
}

fn type_of_keys(_: &[SqlType], _: &[Option<i64>]) -> SqlType {
    SqlType::Array(ScalarType::Bytea)
}

fn jsonb(loose: &str) -> Result<Value> {
    text(normalize(loose)?)
}

fn key(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    Ok(Value::Bytea(order::key(text_of(&args[0])).into_boxed_slice()))
}

/// Item by item, NULL above all others, and then the shorter one first.
fn key_of_array(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    Ok(Value::Bytea(order::key_of_items(texts_of(&args[0]).iter().map(Option::as_deref)).into_boxed_slice()))
}

fn keys_of_items(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let key = |text: Option<String>| match text {
        Some(text) => Value::Bytea(order::key(&text).into_boxed_slice()),
        None => Value::Null,
    };
    Ok(Value::Array(texts_of(&args[0]).into_iter().map(key).collect()))
}

fn texts_of(datum: &Datum<'_>) -> Vec<Option<String>> {
    match datum {
        Datum::Array(values) => values
            .iter()
            .map(|value| match value {
                Datum::Text(text) => Some(text.to_owned()),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// What a function that follows a path gives: a part of the document, or that without quotes and escapes.
type Found<'a> = Result<Option<Cow<'a, str>>>;

fn document<'a>(datum: &Datum<'a>) -> &'a str {
    match datum {
        Datum::Text(text) => text,
        _ => "",
    }
}

/// Whether the text is as `jsonb` writes it: no key is there twice, and there is one space where one may be.
fn is_normal(call: &Call<'_>) -> bool {
    call.args.first().is_some_and(|argument| argument.scalar() == ScalarType::Jsonb)
}

fn found<'a>(call: &Call<'_>, args: &[Datum<'a>]) -> Option<&'a str> {
    let text = document(&args[0]);
    match &args[1] {
        Datum::Text(key) => path::member(text, key, is_normal(call)),
        // PostgreSQL keeps a jsonb that is neither object nor array as an array of one.
        Datum::Int4(0 | -1) if is_normal(call) && !text.starts_with(['{', '[']) => Some(text),
        Datum::Int4(place) => path::item(text, i64::from(*place)),
        _ => None,
    }
}

fn get<'a>(call: &Call<'_>, args: &[Datum<'a>]) -> Found<'a> {
    Ok(found(call, args).map(Cow::Borrowed))
}

fn get_text<'a>(call: &Call<'_>, args: &[Datum<'a>]) -> Found<'a> {
    Ok(found(call, args).and_then(path::shown))
}

/// Follows a path to its end. An empty one leads to the document itself.
fn followed<'a, 's>(
    call: &Call<'_>,
    text: &'a str,
    mut steps: impl Iterator<Item = Option<&'s str>>,
) -> Option<&'a str> {
    let is_normal = is_normal(call);
    steps.try_fold(text.trim_matches([' ', '\t', '\n', '\r']), |text, step| path::step(text, step?, is_normal))
}

/// The items of a path that is an array.
fn array_steps<'d>(path: &'d Datum<'_>) -> impl Iterator<Item = Option<&'d str>> {
    let items = if let Datum::Array(items) = path { Some(items) } else { None };
    items.into_iter().flat_map(Items::iter).map(|item| match item {
        Datum::Text(text) => Some(text),
        _ => None,
    })
}

fn at_path<'a>(call: &Call<'_>, args: &[Datum<'a>]) -> Found<'a> {
    Ok(followed(call, document(&args[0]), array_steps(&args[1])).map(Cow::Borrowed))
}

fn text_at_path<'a>(call: &Call<'_>, args: &[Datum<'a>]) -> Found<'a> {
    Ok(followed(call, document(&args[0]), array_steps(&args[1])).and_then(path::shown))
}

fn extract<'a>(call: &Call<'_>, args: &[Datum<'a>]) -> Found<'a> {
    Ok(followed(call, document(&args[0]), args[1..].iter().map(|step| Some(text_of(step)))).map(Cow::Borrowed))
}

fn extract_text<'a>(call: &Call<'_>, args: &[Datum<'a>]) -> Found<'a> {
    Ok(followed(call, document(&args[0]), args[1..].iter().map(|step| Some(text_of(step)))).and_then(path::shown))
}

fn contains(whole: &Datum<'_>, part: &Datum<'_>) -> Result<Value> {
    Ok(Value::Bool(read(text_of(whole)).contains(&read(text_of(part)))))
}

/// Whether a string is a key of an object, an item of an array, or the string itself.
fn has(node: &Node<'_>, wanted: &str) -> bool {
    let is_wanted = |node: &Node<'_>| matches!(&node.value, Json::String(text) if text == wanted);
    match &node.value {
        Json::Object(_) => node.field(wanted).is_some(),
        Json::Array(items) => items.iter().any(is_wanted),
        _ => is_wanted(node),
    }
}

fn exists(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    Ok(Value::Bool(has(&read(text_of(&args[0])), text_of(&args[1]))))
}

fn exists_any(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let node = read(text_of(&args[0]));
    Ok(Value::Bool(texts_of(&args[1]).iter().flatten().any(|wanted| has(&node, wanted))))
}

fn exists_all(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let node = read(text_of(&args[0]));
    Ok(Value::Bool(texts_of(&args[1]).iter().flatten().all(|wanted| has(&node, wanted))))
}

fn parameter_error(message: &str) -> Error {
    Error::new(ErrorCode::InvalidParameterValue, message)
}

fn inside(text: &str) -> &str {
    text.get(1..text.len().saturating_sub(1)).unwrap_or_default()
}

fn concatenate(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let (left, right) = (read(text_of(&args[0])), read(text_of(&args[1])));
    let joined = |left: &str, right: &str| match (left.is_empty(), right.is_empty()) {
        (true, _) => right.to_owned(),
        (_, true) => left.to_owned(),
        _ => format!("{left}, {right}"),
    };
    match (&left.value, &right.value) {
        (Json::Object(_), Json::Object(_)) => jsonb(&format!("{{{}}}", joined(inside(left.text), inside(right.text)))),
        (left_kind, right_kind) => {
            let (is_left, is_right) = (matches!(left_kind, Json::Array(_)), matches!(right_kind, Json::Array(_)));
            // Whatever is no array is an array of itself.
            let items = |node: &Node<'_>, is_array: bool| {
                if is_array { inside(node.text).to_owned() } else { node.text.to_owned() }
            };
            jsonb(&format!("[{}]", joined(&items(&left, is_left), &items(&right, is_right))))
        }
    }
}

fn without(node: &Node<'_>, is_unwanted: impl Fn(&str) -> bool) -> Result<Value> {
    match &node.value {
        Json::Object(entries) => jsonb(&object_text(
            entries.iter().filter(|(key, _)| !is_unwanted(key)).map(|(key, node)| (key.as_ref(), node.text.to_owned())),
        )),
        Json::Array(items) => {
            let kept = items.iter().filter(|item| !matches!(&item.value, Json::String(text) if is_unwanted(text)));
            jsonb(&array_text(kept.map(|item| item.text.to_owned())))
        }
        _ => Err(parameter_error("cannot delete from scalar")),
    }
}

fn without_key(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    without(&read(text_of(&args[0])), |key| key == text_of(&args[1]))
}

fn without_keys(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let keys = texts_of(&args[1]);
    without(&read(text_of(&args[0])), |key| keys.iter().flatten().any(|unwanted| unwanted == key))
}

fn without_item(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let node = read(text_of(&args[0]));
    let Datum::Int4(place) = args[1] else { return Ok(Value::Null) };
    match &node.value {
        Json::Array(items) => {
            let unwanted = place_in(items.len(), i64::from(place));
            let kept = items.iter().enumerate().filter(|(at, _)| Some(*at) != unwanted);
            jsonb(&array_text(kept.map(|(_, item)| item.text.to_owned())))
        }
        Json::Object(_) => Err(parameter_error("cannot delete from object using integer index")),
        _ => Err(parameter_error("cannot delete from scalar")),
    }
}

fn type_of(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    text(match read(text_of(&args[0])).value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    })
}

fn array_length(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    match read(text_of(&args[0])).value {
        Json::Array(items) => Ok(Value::Int4(i32::try_from(items.len()).unwrap_or(i32::MAX))),
        Json::Object(_) => Err(parameter_error("cannot get array length of a non-array")),
        _ => Err(parameter_error("cannot get array length of a scalar")),
    }
}

pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            control if control < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// A value as JSON.
pub(super) fn shown(sql_type: SqlType, datum: &Datum<'_>, zone: Zone) -> Result<String> {
    let mut out = String::new();
    if let (SqlType::Array(element), Datum::Array(items)) = (sql_type, datum) {
        let items = items.iter().map(|item| shown(element.into(), &item, zone)).collect::<Result<Vec<String>>>()?;
        return Ok(format!("[{}]", items.join(",")));
    }
    append(sql_type, datum, zone, &mut out);
    Ok(match datum {
        Datum::Null => "null".to_owned(),
        Datum::Bool(value) => value.to_string(),
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) | Datum::Numeric(_) => out,
        Datum::Float4(value) if value.is_finite() => out,
        Datum::Float8(value) if value.is_finite() => out,
        Datum::Text(_) if matches!(sql_type.scalar(), ScalarType::Json | ScalarType::Jsonb) => out,
        Datum::Timestamp(_) if sql_type.scalar() == ScalarType::Timestamp => quoted(&out.replacen(' ', "T", 1)),
        Datum::Timestamp(_) => {
            // An offset is written with its minutes.
            let has_minutes = out.rfind(['+', '-']).is_some_and(|sign| out[sign..].contains(':'));
            quoted(&(out.replacen(' ', "T", 1) + if has_minutes { "" } else { ":00" }))
        }
        _ => quoted(&out),
    })
}

fn object_text<'a>(entries: impl Iterator<Item = (&'a str, String)>) -> String {
    let entries: Vec<String> = entries.map(|(key, value)| format!("{}: {value}", quoted(key))).collect();
    format!("{{{}}}", entries.join(", "))
}

fn array_text(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

fn object(call: &Call<'_>, args: &[Datum<'_>], colon: &str) -> Result<String> {
    if args.len() % 2 == 1 {
        return Err(parameter_error("argument list must have even number of elements").with_hint(
            "The arguments of a function that builds an object must consist of alternating keys and values.",
        ));
    }
    let mut entries = Vec::with_capacity(args.len() / 2);
    for at in (0..args.len()).step_by(2) {
        if args[at].is_null() {
            return Err(parameter_error(&format!("argument {} cannot be null", at + 1))
                .with_hint("Object keys should be text."));
        }
        let mut key = String::new();
        append(call.args[at], &args[at], call.zone, &mut key);
        entries.push(format!("{}{colon}{}", quoted(&key), shown(call.args[at + 1], &args[at + 1], call.zone)?));
    }
    Ok(format!("{{{}}}", entries.join(", ")))
}

/// A row as an object; `None` for one that is not there.
fn row(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Option<String>> {
    if !matches!(args.first(), Some(Datum::Bool(true))) {
        return Ok(None);
    }
    let mut entries = Vec::with_capacity(args.len() / 2);
    for at in (2..args.len()).step_by(2) {
        let name = quoted(text_of(&args[at - 1]));
        entries.push(format!("{name}:{}", shown(call.args[at], &args[at], call.zone)?));
    }
    Ok(Some(format!("{{{}}}", entries.join(","))))
}

fn array(call: &Call<'_>, args: &[Datum<'_>]) -> Result<String> {
    let items = args.iter().zip(call.args).map(|(datum, sql_type)| shown(*sql_type, datum, call.zone));
    Ok(format!("[{}]", items.collect::<Result<Vec<String>>>()?.join(", ")))
}

fn strip_nulls(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    fn stripped(node: &Node<'_>) -> String {
        match &node.value {
            Json::Object(entries) => object_text(
                entries
                    .iter()
                    .filter(|(_, node)| !matches!(node.value, Json::Null))
                    .map(|(key, node)| (key.as_ref(), stripped(node))),
            ),
            Json::Array(items) => array_text(items.iter().map(stripped)),
            _ => node.text.to_owned(),
        }
    }
    jsonb(&stripped(&read(text_of(&args[0]))))
}
