//! Members of objects and items of arrays as SQL arrays, of which FROM and the select list make rows.
//!
//! No user says these names: `jsonb_each(x)` in FROM unnests the keys beside the values.

use std::borrow::Cow;

use ashlar_base::{Datum, Result, ScalarType, SqlType, Value};

use super::parameter_error;
use super::tree::{Json, Node, read};
use crate::catalog::{Body, Call, Function, R, T, function, of};
use crate::strings::text_of;

const TEXTS: R = R::Is(T::Texts);
const JSONS: R = R::With(|_, _| SqlType::Array(ScalarType::Json));
const JSONBS: R = R::With(|_, _| SqlType::Array(ScalarType::Jsonb));

/// See the module.
pub const FUNCTIONS: &[Function] = &[
    function("json_each keys", &[of(&[T::Json], TEXTS, Body::Strict(member_keys))]),
    function("jsonb_each keys", &[of(&[T::Jsonb], TEXTS, Body::Strict(member_keys))]),
    function("json_each values", &[of(&[T::Json], JSONS, Body::Strict(member_values))]),
    function("jsonb_each values", &[of(&[T::Jsonb], JSONBS, Body::Strict(member_values))]),
    function("json_each texts", &[of(&[T::Json], TEXTS, Body::Strict(member_texts))]),
    function("jsonb_each texts", &[of(&[T::Jsonb], TEXTS, Body::Strict(member_texts))]),
    function("json_object_keys\u{1}", &[of(&[T::Json], TEXTS, Body::Strict(keys))]),
    function("jsonb_object_keys\u{1}", &[of(&[T::Jsonb], TEXTS, Body::Strict(keys))]),
    function("json_array_elements\u{1}", &[of(&[T::Json], JSONS, Body::Strict(elements))]),
    function("jsonb_array_elements\u{1}", &[of(&[T::Jsonb], JSONBS, Body::Strict(elements))]),
    function("json_array_elements_text\u{1}", &[of(&[T::Json], TEXTS, Body::Strict(element_texts))]),
    function("jsonb_array_elements_text\u{1}", &[of(&[T::Jsonb], TEXTS, Body::Strict(element_texts))]),
    // Of which columns are made that the statement declares.
    function("json_to_record\u{1}", &[of(&[T::Json], R::Is(T::Json), Body::Strict(record))]),
    function("jsonb_to_record\u{1}", &[of(&[T::Jsonb], R::Is(T::Jsonb), Body::Strict(record))]),
    function("json_to_recordset\u{1}", &[of(&[T::Json], JSONS, Body::Strict(records))]),
    function("jsonb_to_recordset\u{1}", &[of(&[T::Jsonb], JSONBS, Body::Strict(records))]),
    function("json field", &[of(&[T::Json, T::Text], R::Is(T::Json), Body::Strict(field))]),
    function("jsonb field", &[of(&[T::Jsonb, T::Text], R::Is(T::Jsonb), Body::Strict(field))]),
];

fn is_jsonb(call: &Call<'_>) -> bool {
    call.args[0].scalar() == ScalarType::Jsonb
}

type Members<'a> = Vec<(Cow<'a, str>, Node<'a>)>;

fn members<'a>(call: &Call<'_>, datum: &'a Datum<'_>) -> Result<Members<'a>> {
    match read(text_of(datum)).value {
        Json::Object(members) => Ok(members),
        _ if is_jsonb(call) => Err(parameter_error("cannot call jsonb_each on a non-object")),
        Json::Array(_) => Err(parameter_error("cannot deconstruct an array as an object")),
        _ => Err(parameter_error("cannot deconstruct a scalar")),
    }
}

fn array(values: impl Iterator<Item = Value>) -> Result<Value> {
    Ok(Value::Array(values.collect()))
}

fn shown(node: &Node<'_>) -> Value {
    node.shown().map_or(Value::Null, |shown| Value::Text(shown.into()))
}

fn member_keys(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    array(members(call, &args[0])?.into_iter().map(|(key, _)| Value::Text(key.into())))
}

fn member_values(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    array(members(call, &args[0])?.into_iter().map(|(_, node)| Value::Text(node.text.into())))
}

fn member_texts(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    array(members(call, &args[0])?.iter().map(|(_, node)| shown(node)))
}

fn keys(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let name = if is_jsonb(call) { "jsonb_object_keys" } else { "json_object_keys" };
    match read(text_of(&args[0])).value {
        Json::Object(members) => array(members.into_iter().map(|(key, _)| Value::Text(key.into()))),
        Json::Array(_) => Err(parameter_error(&format!("cannot call {name} on an array"))),
        _ => Err(parameter_error(&format!("cannot call {name} on a scalar"))),
    }
}

fn items<'a>(call: &Call<'_>, datum: &'a Datum<'_>, name: &str) -> Result<Vec<Node<'a>>> {
    let is_jsonb = is_jsonb(call);
    match read(text_of(datum)).value {
        Json::Array(items) => Ok(items),
        Json::Object(_) if is_jsonb => Err(parameter_error("cannot extract elements from an object")),
        _ if is_jsonb => Err(parameter_error("cannot extract elements from a scalar")),
        Json::Object(_) => Err(parameter_error(&format!("cannot call {name} on a non-array"))),
        _ => Err(parameter_error(&format!("cannot call {name} on a scalar"))),
    }
}

fn elements(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let items = items(call, &args[0], "json_array_elements")?;
    array(items.into_iter().map(|node| Value::Text(node.text.into())))
}

fn element_texts(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    array(items(call, &args[0], "json_array_elements_text")?.iter().map(shown))
}

/// The object that is a record.
fn record(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    match read(text_of(&args[0])).value {
        Json::Object(_) => Ok(args[0].to_value()),
        Json::Array(_) => Err(parameter_error("cannot call populate_composite on an array")),
        _ => Err(parameter_error("cannot call populate_composite on a scalar")),
    }
}

/// The objects of an array that are records.
fn records(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let name = if is_jsonb(call) { "jsonb_to_recordset" } else { "json_to_recordset" };
    let items = match read(text_of(&args[0])).value {
        Json::Array(items) => items,
        _ if is_jsonb(call) => return Err(parameter_error(&format!("cannot call {name} on a non-array"))),
        Json::Object(_) => return Err(parameter_error(&format!("cannot call {name} on an object"))),
        _ => return Err(parameter_error(&format!("cannot call {name} on a scalar"))),
    };
    if !items.iter().all(|item| matches!(item.value, Json::Object(_))) {
        return Err(parameter_error(&format!("argument of {name} must be an array of objects")));
    }
    array(items.into_iter().map(|node| Value::Text(node.text.into())))
}

/// The value of a key; NULL where it is null.
fn field(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let node = read(text_of(&args[0]));
    Ok(match node.field(text_of(&args[1])) {
        Some(found) if !matches!(found.value, Json::Null) => Value::Text(found.text.into()),
        _ => Value::Null,
    })
}
