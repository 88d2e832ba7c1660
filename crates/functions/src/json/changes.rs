//! `jsonb` with a value at a path set, inserted or taken away: `jsonb_set`, `jsonb_set_lax`, `jsonb_insert`, `#-`.
//!
//! Source: `setPath` of PostgreSQL's jsonfuncs.c, which looks at a step of the path when it comes to it.

use ashlar_base::{Datum, Error, ErrorCode, Result, Value};

use super::tree::{Json, Node, read};
use super::{array_text, jsonb, object_text, parameter_error, texts_of};
use crate::catalog::{Body, Call, Function, R, T, function, of};
use crate::strings::{text, text_of};

const JSONB: R = R::Is(T::Jsonb);

/// See the module.
pub const FUNCTIONS: &[Function] = &[
    function("#-", &[of(&[T::Jsonb, T::Texts], JSONB, Body::Strict(delete))]),
    function(
        "jsonb_set",
        &[
            of(&[T::Jsonb, T::Texts, T::Jsonb], JSONB, Body::Strict(set)),
            of(&[T::Jsonb, T::Texts, T::Jsonb, T::Bool], JSONB, Body::Strict(set)),
        ],
    ),
    function(
        "jsonb_set_lax",
        &[
            of(&[T::Jsonb, T::Texts, T::Jsonb], JSONB, Body::Called(set_lax)),
            of(&[T::Jsonb, T::Texts, T::Jsonb, T::Bool], JSONB, Body::Called(set_lax)),
            of(&[T::Jsonb, T::Texts, T::Jsonb, T::Bool, T::Text], JSONB, Body::Called(set_lax)),
        ],
    ),
    function(
        "jsonb_insert",
        &[
            of(&[T::Jsonb, T::Texts, T::Jsonb], JSONB, Body::Strict(insert)),
            of(&[T::Jsonb, T::Texts, T::Jsonb, T::Bool], JSONB, Body::Strict(insert)),
        ],
    ),
];

/// What is done where a path ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change<'a> {
    /// The value is replaced, and put where there is none if `creates`.
    Set { value: &'a str, creates: bool },
    /// The value comes before the item of an array, or behind it; or is that of a new key.
    Insert { value: &'a str, is_after: bool },
    /// What is there goes.
    Delete,
}

impl<'a> Change<'a> {
    /// The value that is put where nothing is.
    fn added(self) -> Option<&'a str> {
        match self {
            Self::Set { value, creates: true } | Self::Insert { value, .. } => Some(value),
            Self::Set { .. } | Self::Delete => None,
        }
    }
}

/// A document with a change at a path.
fn changed(document: &str, path: &Datum<'_>, change: Change<'_>) -> Result<Value> {
    let node = read(document);
    if !matches!(node.value, Json::Array(_) | Json::Object(_)) {
        let what = if change == Change::Delete { "cannot delete path in scalar" } else { "cannot set path in scalar" };
        return Err(parameter_error(what));
    }
    let path = texts_of(path);
    let is_empty = match &node.value {
        Json::Array(items) => items.is_empty(),
        Json::Object(entries) => entries.is_empty(),
        _ => false,
    };
    if path.is_empty() || is_empty && change.added().is_none() {
        return text(document);
    }
    jsonb(&along(&node, &path, 0, change)?)
}

fn along(node: &Node<'_>, path: &[Option<String>], level: usize, change: Change<'_>) -> Result<String> {
    let Some(step) = path.get(level) else { return Ok(node.text.to_owned()) };
    let Some(step) = step else {
        let message = format!("path element at position {} is null", level + 1);
        return Err(Error::new(ErrorCode::NullValueNotAllowed, message));
    };
    let is_last = level + 1 == path.len();
    match &node.value {
        Json::Object(entries) => {
            let mut parts = Vec::with_capacity(entries.len() + 1);
            let mut is_found = false;
            for (key, node) in entries {
                if key != step {
                    parts.push((&**key, node.text.to_owned()));
                    continue;
                }
                is_found = true;
                match change {
                    _ if !is_last => parts.push((&**key, along(node, path, level + 1, change)?)),
                    Change::Set { value, .. } => parts.push((&**key, value.to_owned())),
                    Change::Insert { .. } => {
                        return Err(parameter_error("cannot replace existing key")
                            .with_hint("Try using the function jsonb_set to replace key value."));
                    }
                    Change::Delete => {}
                }
            }
            if let Some(value) = change.added().filter(|_| is_last && !is_found) {
                parts.push((step.as_str(), value.to_owned()));
            }
            Ok(object_text(parts.into_iter()))
        }
        Json::Array(items) => {
            let place = place_of(step, level)?;
            // The first of those that are not there comes before the array's beginning.
            let place = if place < 0 { usize::try_from(place + items.len() as i64).ok() } else { Some(place as usize) };
            let mut parts: Vec<String> = Vec::with_capacity(items.len() + 1);
            let added = change.added().filter(|_| is_last);
            if place.is_none() {
                parts.extend(added.map(str::to_owned));
            }
            for (index, item) in items.iter().enumerate() {
                let own = item.text.to_owned();
                match change {
                    _ if place != Some(index) => parts.push(own),
                    _ if !is_last => parts.push(along(item, path, level + 1, change)?),
                    Change::Set { value, .. } => parts.push(value.to_owned()),
                    Change::Insert { value, is_after: true } => parts.extend([own, value.to_owned()]),
                    Change::Insert { value, is_after: false } => parts.extend([value.to_owned(), own]),
                    Change::Delete => {}
                }
            }
            if place.is_some_and(|place| place >= items.len()) {
                parts.extend(added.map(str::to_owned));
            }
            Ok(array_text(parts.into_iter()))
        }
        _ => Ok(node.text.to_owned()),
    }
}

/// A step of a path as the place of an item, which may be counted from the end.
fn place_of(step: &str, level: usize) -> Result<i64> {
    let digits = step.trim_start_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r']);
    digits.parse::<i32>().map(i64::from).map_err(|_| {
        let message = format!("path element at position {} is not an integer: \"{step}\"", level + 1);
        Error::new(ErrorCode::InvalidTextRepresentation, message)
    })
}

fn delete(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    changed(text_of(&args[0]), &args[1], Change::Delete)
}

fn set(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let creates = !matches!(args.get(3), Some(Datum::Bool(false)));
    changed(text_of(&args[0]), &args[1], Change::Set { value: text_of(&args[2]), creates })
}

fn insert(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let is_after = matches!(args.get(3), Some(Datum::Bool(true)));
    changed(text_of(&args[0]), &args[1], Change::Insert { value: text_of(&args[2]), is_after })
}

/// As `set`, with a word for what is done where the value is NULL.
fn set_lax(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    if args[0].is_null() || args[1].is_null() || args.get(3).is_some_and(Datum::is_null) {
        return Ok(Value::Null);
    }
    let treatment = match args.get(4) {
        Some(Datum::Null) => "",
        Some(word) => text_of(word),
        None => "use_json_null",
    };
    let unknown = || {
        parameter_error(
            "null_value_treatment must be \"delete_key\", \"return_target\", \"use_json_null\", or \"raise_exception\"",
        )
    };
    let creates = !matches!(args.get(3), Some(Datum::Bool(false)));
    let document = text_of(&args[0]);
    let set = |value| changed(document, &args[1], Change::Set { value, creates });
    if !args[2].is_null() {
        return if matches!(args.get(4), Some(Datum::Null)) { Err(unknown()) } else { set(text_of(&args[2])) };
    }
    match treatment {
        "raise_exception" => Err(Error::new(ErrorCode::NullValueNotAllowed, "JSON value must not be null")
            .with_detail("Exception was raised because null_value_treatment is \"raise_exception\".")
            .with_hint(
                "To avoid, either change the null_value_treatment argument or ensure that an SQL NULL is not passed.",
            )),
        "use_json_null" => set("null"),
        "delete_key" => changed(document, &args[1], Change::Delete),
        "return_target" => text(document),
        _ => Err(unknown()),
    }
}
