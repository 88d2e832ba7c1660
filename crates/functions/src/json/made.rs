//! JSON out of arrays, without nulls, or written over several lines: `json_object`, `array_to_json`, `jsonb_pretty`, ...

use ashlar_base::{Datum, Error, ErrorCode, Items, Result, Value};

use super::tree::{Json, Node, read};
use super::{jsonb, quoted, shown};
use crate::catalog::{Body, Call, Function, R, T, function, of};
use crate::lengths;
use crate::strings::{text, text_of};

const JSON: R = R::Is(T::Json);
const JSONB: R = R::Is(T::Jsonb);

/// See the module.
pub const FUNCTIONS: &[Function] = &[
    function("jsonb_pretty", &[of(&[T::Jsonb], R::Is(T::Text), Body::Strict(pretty))]),
    function("json_strip_nulls", &[of(&[T::Json], JSON, Body::Strict(strip_nulls))]),
    function(
        "json_object",
        &[
            of(&[T::Texts], JSON, Body::Strict(|_, args| text(pairs(&args[0])?))),
            of(&[T::Texts, T::Texts], JSON, Body::Strict(|_, args| text(beside(&args[0], &args[1])?))),
        ],
    ),
    function(
        "jsonb_object",
        &[
            of(&[T::Texts], JSONB, Body::Strict(|_, args| jsonb(&pairs(&args[0])?))),
            of(&[T::Texts, T::Texts], JSONB, Body::Strict(|_, args| jsonb(&beside(&args[0], &args[1])?))),
        ],
    ),
    function(
        "array_to_json",
        &[of(&[T::Arr], JSON, Body::Strict(array_to_json)), of(&[T::Arr, T::Bool], JSON, Body::Strict(array_to_json))],
    ),
];

/// Spaces of a level.
const INDENT: usize = 4;

fn pretty(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let mut out = String::new();
    write_pretty(&read(text_of(&args[0])), 0, &mut out)?;
    text(out)
}

/// One member or item a line; brackets stand apart even where nothing is between them.
fn write_pretty(node: &Node<'_>, level: usize, out: &mut String) -> Result<()> {
    let (is_object, length) = match &node.value {
        Json::Object(entries) => (true, entries.len()),
        Json::Array(items) => (false, items.len()),
        _ => {
            out.push_str(node.text);
            return lengths::check(Some(out.len()));
        }
    };
    let line = |level: usize, out: &mut String| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', level * INDENT));
    };
    out.push(if is_object { '{' } else { '[' });
    for place in 0..length {
        if place > 0 {
            out.push(',');
        }
        line(level + 1, out);
        match &node.value {
            Json::Object(entries) => {
                let (key, value) = &entries[place];
                out.push_str(&quoted(key));
                out.push_str(": ");
                write_pretty(value, level + 1, out)?;
            }
            Json::Array(items) => write_pretty(&items[place], level + 1, out)?,
            _ => {}
        }
    }
    line(level, out);
    out.push(if is_object { '}' } else { ']' });
    Ok(())
}

/// Without the members whose value is null, and without spaces; texts are written anew.
fn strip_nulls(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    fn write(node: &Node<'_>, out: &mut String) {
        match &node.value {
            Json::Object(entries) => {
                out.push('{');
                let kept = entries.iter().filter(|(_, node)| !matches!(node.value, Json::Null));
                for (place, (key, node)) in kept.enumerate() {
                    if place > 0 {
                        out.push(',');
                    }
                    out.push_str(&quoted(key));
                    out.push(':');
                    write(node, out);
                }
                out.push('}');
            }
            Json::Array(items) => {
                out.push('[');
                for (place, item) in items.iter().enumerate() {
                    if place > 0 {
                        out.push(',');
                    }
                    write(item, out);
                }
                out.push(']');
            }
            Json::String(text) => out.push_str(&quoted(text)),
            _ => out.push_str(node.text),
        }
    }
    let mut out = String::new();
    write(&read(text_of(&args[0])), &mut out);
    text(out)
}

fn items<'d>(array: &'d Datum<'_>) -> impl Iterator<Item = Option<&'d str>> {
    let items = if let Datum::Array(items) = array { Some(items) } else { None };
    items.into_iter().flat_map(Items::iter).map(|item| match item {
        Datum::Text(text) => Some(text),
        _ => None,
    })
}

fn object<'d>(members: impl Iterator<Item = (Option<&'d str>, Option<&'d str>)>) -> Result<String> {
    let mut out = String::from("{");
    for (key, value) in members {
        let Some(key) = key else {
            return Err(Error::new(ErrorCode::NullValueNotAllowed, "null value not allowed for object key"));
        };
        if out.len() > 1 {
            out.push_str(", ");
        }
        out.push_str(&quoted(key));
        out.push_str(" : ");
        out.push_str(&value.map_or_else(|| "null".to_owned(), quoted));
    }
    out.push('}');
    Ok(out)
}

/// Keys and values in turn.
fn pairs(array: &Datum<'_>) -> Result<String> {
    let texts: Vec<Option<&str>> = items(array).collect();
    if texts.len() % 2 == 1 {
        return Err(Error::new(ErrorCode::ArraySubscriptError, "array must have even number of elements"));
    }
    object(texts.chunks_exact(2).map(|pair| (pair[0], pair[1])))
}

/// Keys beside values.
fn beside(keys: &Datum<'_>, values: &Datum<'_>) -> Result<String> {
    if items(keys).count() != items(values).count() {
        return Err(Error::new(ErrorCode::ArraySubscriptError, "mismatched array dimensions"));
    }
    object(items(keys).zip(items(values)))
}

/// In one line, or an item a line.
fn array_to_json(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let Datum::Array(values) = &args[0] else { return Ok(Value::Null) };
    let separator = if matches!(args.get(1), Some(Datum::Bool(true))) { ",\n " } else { "," };
    let element = call.args[0].scalar().into();
    let parts = values.iter().map(|item| shown(element, &item, call.zone)).collect::<Result<Vec<String>>>()?;
    text(format!("[{}]", parts.join(separator)))
}
