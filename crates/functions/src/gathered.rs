//! What some aggregates make of the array of their inputs: `json_agg`, `json_object_agg`, `mode`, `percentile_disc`. And
//! functions that count NULLs among any arguments, or tell a type.
//!
//! No user says the names that end in a mark: a call of the aggregate is rewritten to one of these over `array_agg`.

use std::borrow::Cow;

use ashlar_base::value::json::normalize;
use ashlar_base::{Datum, Error, ErrorCode, Result, ScalarType, SqlType, Value};

use super::arrays::is_same;
use super::catalog::{Body, Call, Function, R, T, function, name_of, of, variadic};
use super::json::{quoted, shown};
use super::lengths;
use super::strings::{append, text};

const JSON: R = R::Is(T::Json);
const JSONB: R = R::Is(T::Jsonb);
const ELEM: R = R::Is(T::Elem);

/// See the module.
pub const FUNCTIONS: &[Function] = &[
    function("json_agg\u{1}", &[of(&[T::Any], JSON, Body::Strict(|call, args| text(items(call, args)?)))]),
    function(
        "jsonb_agg\u{1}",
        &[of(&[T::Any], JSONB, Body::Strict(|call, args| text(normalize(&items(call, args)?)?)))],
    ),
    function(
        "json_object_agg\u{1}",
        &[of(&[T::Any, T::Any], JSON, Body::Strict(|call, args| text(format!("{{ {} }}", pairs(call, args, " : ")?))))],
    ),
    function(
        "jsonb_object_agg\u{1}",
        &[of(
            &[T::Any, T::Any],
            JSONB,
            Body::Strict(|call, args| text(normalize(&format!("{{{}}}", pairs(call, args, ": ")?))?)),
        )],
    ),
    function("mode\u{1}", &[of(&[T::Arr], ELEM, Body::Strict(mode))]),
    function("percentile_disc\u{1}", &[of(&[T::Arr, T::F8], ELEM, Body::Strict(percentile))]),
    function("num_nulls", &[variadic(&[T::Any], R::Is(T::Int4), Body::Called(|_, args| count(args, true)))]),
    function("num_nonnulls", &[variadic(&[T::Any], R::Is(T::Int4), Body::Called(|_, args| count(args, false)))]),
    function("pg_typeof", &[of(&[T::Any], R::Is(T::Text), Body::Called(|call, _| text(name_of(call.args[0]))))]),
];

fn elements<'a>(datum: &'a Datum<'_>) -> Cow<'a, [Value]> {
    match datum {
        Datum::Array(values) => values.to_values(),
        _ => Cow::Borrowed(&[]),
    }
}

fn items(call: &Call<'_>, args: &[Datum<'_>]) -> Result<String> {
    let item = SqlType::Scalar(call.args[0].scalar());
    let values = elements(&args[0]);
    let mut out = String::from("[");
    for (place, value) in values.iter().enumerate() {
        if place > 0 {
            out.push_str(", ");
        }
        out.push_str(&shown(item, &value.as_datum(), call.zone)?);
        lengths::check(Some(out.len()))?;
    }
    out.push(']');
    Ok(out)
}

fn pairs(call: &Call<'_>, args: &[Datum<'_>], colon: &str) -> Result<String> {
    let (key_type, item) = (SqlType::Scalar(call.args[0].scalar()), SqlType::Scalar(call.args[1].scalar()));
    let (keys, values) = (elements(&args[0]), elements(&args[1]));
    let mut out = String::new();
    for (key, value) in keys.iter().zip(values.iter()) {
        if key.is_null() {
            return Err(Error::new(ErrorCode::InvalidParameterValue, "field name must not be null"));
        }
        let mut name = String::new();
        append(key_type, &key.as_datum(), call.zone, &mut name);
        if !out.is_empty() {
            out.push_str(", ");
        }
        out.push_str(&quoted(&name));
        out.push_str(colon);
        out.push_str(&shown(item, &value.as_datum(), call.zone)?);
        lengths::check(Some(out.len()))?;
    }
    Ok(out)
}

/// The elements that count, sorted by the aggregate that gathered them.
fn known(call: &Call<'_>, datum: &Datum<'_>) -> Result<Vec<Value>> {
    match call.args[0].scalar() {
        kind @ (ScalarType::Json | ScalarType::Jsonb | ScalarType::Interval) => {
            Err(Error::unsupported(format!("this aggregate of values of type {kind} is not supported")))
        }
        _ => Ok(elements(datum).iter().filter(|value| !value.is_null()).cloned().collect()),
    }
}

/// The first of the values that are there most often.
fn mode(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let known = known(call, &args[0])?;
    let mut best: Option<(usize, &Value)> = None;
    for run in known.chunk_by(is_same) {
        if best.is_none_or(|(count, _)| run.len() > count) {
            best = run.first().map(|first| (run.len(), first));
        }
    }
    Ok(best.map_or(Value::Null, |(_, value)| value.clone()))
}

/// The first value that this part of the values does not exceed.
fn percentile(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let Datum::Float8(part) = args[1] else { return Err(Error::internal("a percentile is a float")) };
    if !(0.0..=1.0).contains(&part) {
        let message = format!("percentile value {part} is not between 0 and 1");
        return Err(Error::new(ErrorCode::NumericOutOfRange, message));
    }
    let known = known(call, &args[0])?;
    let place = (part * known.len() as f64).ceil() as usize;
    Ok(known.get(place.saturating_sub(1)).cloned().unwrap_or(Value::Null))
}

fn count(args: &[Datum<'_>], of_nulls: bool) -> Result<Value> {
    let found = args.iter().filter(|arg| arg.is_null() == of_nulls).count();
    Ok(Value::Int4(i32::try_from(found).unwrap_or(i32::MAX)))
}
