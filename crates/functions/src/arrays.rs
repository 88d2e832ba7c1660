//! Functions of arrays. An array here has one dimension and counts from 1.

use std::borrow::Cow;

use ashlar_base::{Datum, Error, ErrorCode, Result, ScalarType, SqlType, Value};

use super::catalog::{Body, Call, Function, Overload, R, T, function, of};
use super::lengths;
use super::strings::{append, text, text_of};

const INT4: R = R::Is(T::Int4);
const ARR: R = R::Is(T::Arr);

/// The name of the array that has a value in a place, as an assignment to that place leaves it.
pub const WITH_ITEM: &str = "array with item";

/// See the module.
pub const FUNCTIONS: &[Function] = &[
    function("array_length", &[of(&[T::Arr, T::Int4], INT4, Body::Strict(extent))]),
    function("array_upper", &[of(&[T::Arr, T::Int4], INT4, Body::Strict(extent))]),
    function("array_lower", &[of(&[T::Arr, T::Int4], INT4, Body::Strict(lower))]),
    function("cardinality", &[of(&[T::Arr], INT4, Body::Strict(|_, args| Ok(Value::Int4(count(&items(&args[0]))))))]),
    function("array_ndims", &[of(&[T::Arr], INT4, Body::Strict(dimensions))]),
    function("array_dims", &[of(&[T::Arr], R::Is(T::Text), Body::Strict(bounds))]),
    function("array_append", &[of(&[T::Arr, T::Elem], ARR, Body::Called(append_item))]),
    function("array_prepend", &[of(&[T::Elem, T::Arr], ARR, Body::Called(prepend_item))]),
    function(WITH_ITEM, &[of(&[T::Arr, T::Int4, T::Elem], ARR, Body::Called(with_item))]),
    function("array_cat", &[of(&[T::Arr, T::Arr], ARR, Body::Called(concatenate))]),
    function("array_position", POSITION),
    function("array_positions", &[of(&[T::Arr, T::Elem], R::Is(T::Ints), Body::Called(positions))]),
    function("array_remove", &[of(&[T::Arr, T::Elem], ARR, Body::Called(remove))]),
    function("array_replace", &[of(&[T::Arr, T::Elem, T::Elem], ARR, Body::Called(replace))]),
    // A bigint is taken where it fits, as an assignment would take it.
    function(
        "array subscript",
        &[
            of(&[T::Arr, T::Int4], R::Is(T::Elem), Body::Strict(subscript)),
            of(&[T::Arr, T::Int8], R::Is(T::Elem), Body::Strict(subscript)),
        ],
    ),
    function(
        "array slice",
        &[
            of(&[T::Arr, T::Int4, T::Int4], ARR, Body::Strict(slice)),
            of(&[T::Arr, T::Int8, T::Int8], ARR, Body::Strict(slice)),
        ],
    ),
    function("array contains", &[of(&[T::Arr, T::Arr], R::Is(T::Bool), Body::Strict(contains))]),
    function("&&", &[of(&[T::Arr, T::Arr], R::Is(T::Bool), Body::Strict(overlap))]),
    function("trim_array", &[of(&[T::Arr, T::Int4], ARR, Body::Strict(trim))]),
    function("array_to_string", TO_STRING),
    function("string_to_array", FROM_STRING),
    // Of which FROM and the select list make rows.
    function("generate_subscripts\u{1}", &[of(&[T::Arr, T::Int4], R::Is(T::Ints), Body::Strict(subscripts))]),
    // The same of an array that counts from 0, as some of the system tables do.
    function("vector subscripts", &[of(&[T::Arr, T::Int4], R::Is(T::Ints), Body::Strict(vector_subscripts))]),
    function("string_to_table\u{1}", FROM_STRING),
];

const POSITION: &[Overload] = &[
    of(&[T::Arr, T::Elem], INT4, Body::Called(position)),
    of(&[T::Arr, T::Elem, T::Int4], INT4, Body::Called(position)),
];

const TO_STRING: &[Overload] = &[
    of(&[T::Arr, T::Text], R::Is(T::Text), Body::Called(to_string)),
    of(&[T::Arr, T::Text, T::Text], R::Is(T::Text), Body::Called(to_string)),
];

const FROM_STRING: &[Overload] = &[
    of(&[T::Text, T::Text], R::Is(T::Texts), Body::Called(from_string)),
    of(&[T::Text, T::Text, T::Text], R::Is(T::Texts), Body::Called(from_string)),
];

fn items<'a>(datum: &'a Datum<'_>) -> Cow<'a, [Value]> {
    match datum {
        Datum::Array(values) => values.to_values(),
        _ => Cow::Borrowed(&[]),
    }
}

fn count(items: &[Value]) -> i32 {
    i32::try_from(items.len()).unwrap_or(i32::MAX)
}

fn int_of(datum: &Datum<'_>) -> i32 {
    match datum {
        Datum::Int4(value) => *value,
        _ => 0,
    }
}

/// `array_length`, `array_upper`: NULL of an empty array and of other dimensions than the first.
fn extent(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let items = items(&args[0]);
    Ok(if int_of(&args[1]) == 1 && !items.is_empty() { Value::Int4(count(&items)) } else { Value::Null })
}

fn lower(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    Ok(if int_of(&args[1]) == 1 && !items(&args[0]).is_empty() { Value::Int4(1) } else { Value::Null })
}

/// How many items an array has, without looking at them.
fn length(datum: &Datum<'_>) -> usize {
    if let Datum::Array(items) = datum { items.len() } else { 0 }
}

/// The places of an array's items; none in other dimensions than the first.
fn subscripts(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    lengths::check_items(length(&args[0]), 0)?;
    let last = if int_of(&args[1]) == 1 { count(&items(&args[0])) } else { 0 };
    array((1..=last).map(Value::Int4).collect())
}

fn vector_subscripts(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    lengths::check_items(length(&args[0]), 0)?;
    let end = if int_of(&args[1]) == 1 { count(&items(&args[0])) } else { 0 };
    array((0..end).map(Value::Int4).collect())
}

fn dimensions(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    Ok(if items(&args[0]).is_empty() { Value::Null } else { Value::Int4(1) })
}

fn bounds(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let items = items(&args[0]);
    if items.is_empty() { Ok(Value::Null) } else { text(format!("[1:{}]", items.len())) }
}

fn array(items: Vec<Value>) -> Result<Value> {
    Ok(Value::Array(items.into_boxed_slice()))
}

fn append_item(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    lengths::check_items(length(&args[0]) + 1, 0)?;
    let mut result = items(&args[0]).into_owned();
    result.push(args[1].to_value());
    array(result)
}

fn prepend_item(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    lengths::check_items(length(&args[1]) + 1, 0)?;
    let mut result = vec![args[0].to_value()];
    result.extend_from_slice(&items(&args[1]));
    array(result)
}

fn with_item(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let Datum::Int4(place) = &args[1] else {
        let message = "array subscript in assignment must not be null";
        return Err(Error::new(ErrorCode::NullValueNotAllowed, message));
    };
    let mut result = items(&args[0]).into_owned();
    let place = usize::try_from(*place).ok().and_then(|place| place.checked_sub(1));
    let place = place
        .filter(|place| *place == 0 || !result.is_empty())
        .ok_or_else(|| Error::unsupported("arrays that do not begin with the subscript 1 are not supported"))?;
    match result.get_mut(place) {
        Some(item) => *item = args[2].to_value(),
        None => {
            lengths::check_items(place, 0)?;
            result.resize(place, Value::Null);
            result.push(args[2].to_value());
        }
    }
    array(result)
}

fn concatenate(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    match (&args[0], &args[1]) {
        (Datum::Null, Datum::Null) => Ok(Value::Null),
        (Datum::Null, other) | (other, Datum::Null) => Ok(other.to_value()),
        (left, right) => {
            lengths::check_items(length(left) + length(right), 0)?;
            array([items(left), items(right)].concat())
        }
    }
}

/// Equal, or both NULL.
pub(super) fn is_same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Float4(left), Value::Float4(right)) => left == right || left.is_nan() && right.is_nan(),
        (Value::Float8(left), Value::Float8(right)) => left == right || left.is_nan() && right.is_nan(),
        _ => left == right,
    }
}

fn check_comparable(call: &Call<'_>) -> Result<()> {
    match call.args[0].scalar() {
        kind @ (ScalarType::Json | ScalarType::Jsonb | ScalarType::Interval) => {
            Err(Error::unsupported(format!("looking for values of type {kind} in an array is not supported")))
        }
        _ => Ok(()),
    }
}

fn position(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    check_comparable(call)?;
    if args[0].is_null() {
        return Ok(Value::Null);
    }
    let start = match args.get(2) {
        Some(Datum::Null) => {
            return Err(Error::new(ErrorCode::NullValueNotAllowed, "initial position must not be null"));
        }
        Some(start) => usize::try_from(int_of(start)).unwrap_or(0).saturating_sub(1),
        None => 0,
    };
    let wanted = args[1].to_value();
    let found = items(&args[0]).iter().skip(start).position(|item| is_same(item, &wanted));
    Ok(found.map_or(Value::Null, |at| Value::Int4(i32::try_from(at + start + 1).unwrap_or(i32::MAX))))
}

fn positions(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    check_comparable(call)?;
    if args[0].is_null() {
        return Ok(Value::Null);
    }
    let wanted = args[1].to_value();
    let places = items(&args[0])
        .iter()
        .zip(1..)
        .filter(|(item, _)| is_same(item, &wanted))
        .map(|(_, place)| Value::Int4(place))
        .collect();
    array(places)
}

fn remove(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    check_comparable(call)?;
    if args[0].is_null() {
        return Ok(Value::Null);
    }
    let unwanted = args[1].to_value();
    array(items(&args[0]).iter().filter(|item| !is_same(item, &unwanted)).cloned().collect())
}

fn replace(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    check_comparable(call)?;
    if args[0].is_null() {
        return Ok(Value::Null);
    }
    let (old, new) = (args[1].to_value(), args[2].to_value());
    let items = items(&args[0]);
    let own = match &new {
        Value::Text(text) => text.len(),
        Value::Bytea(bytes) => bytes.len(),
        _ => 0,
    };
    if own > 0 {
        let found = items.iter().filter(|item| is_same(item, &old)).count();
        lengths::check(found.checked_mul(own))?;
    }
    array(items.iter().map(|item| if is_same(item, &old) { new.clone() } else { item.clone() }).collect())
}

/// `a @> b`: whether every item of the second is in the first; a NULL is in none.
fn contains(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    check_comparable(call)?;
    let whole = items(&args[0]);
    let is_found = |part: &Value| !part.is_null() && whole.iter().any(|item| is_same(item, part));
    Ok(Value::Bool(items(&args[1]).iter().all(is_found)))
}

/// Whether the arrays have an item in common; NULLs are none.
fn overlap(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    check_comparable(call)?;
    let others = items(&args[1]);
    let found = items(&args[0]).iter().any(|item| !item.is_null() && others.iter().any(|other| is_same(item, other)));
    Ok(Value::Bool(found))
}

/// A place in an array.
fn place_of(datum: &Datum<'_>) -> Result<i32> {
    match datum {
        Datum::Int8(value) => {
            i32::try_from(*value).map_err(|_| Error::new(ErrorCode::NumericOutOfRange, "integer out of range"))
        }
        other => Ok(int_of(other)),
    }
}

/// `a[i]`: NULL outside of the array.
fn subscript(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let place = usize::try_from(place_of(&args[1])?).ok().and_then(|place| place.checked_sub(1));
    Ok(place.and_then(|place| items(&args[0]).get(place).cloned()).unwrap_or(Value::Null))
}

/// `a[i:j]`: what of it is in the array.
fn slice(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let items = items(&args[0]);
    let start = usize::try_from(place_of(&args[1])?.max(1) - 1).unwrap_or(0);
    let end = usize::try_from(place_of(&args[2])?.max(0)).unwrap_or(0).min(items.len());
    array(items.get(start..end).unwrap_or_default().to_vec())
}

fn trim(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    let items = items(&args[0]);
    match usize::try_from(int_of(&args[1])) {
        Ok(dropped) if dropped <= items.len() => array(items[..items.len() - dropped].to_vec()),
        _ => Err(Error::new(
            ErrorCode::ArraySubscriptError,
            format!("number of elements to trim must be between 0 and {}", items.len()),
        )),
    }
}

fn to_string(call: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    if args[0].is_null() || args[1].is_null() {
        return Ok(Value::Null);
    }
    let element = SqlType::Scalar(call.args[0].scalar());
    let null = args.get(2).filter(|null| !null.is_null()).map(text_of);
    let mut result = String::new();
    let mut is_first = true;
    for item in items(&args[0]).iter() {
        if item.is_null() && null.is_none() {
            continue;
        }
        if !std::mem::take(&mut is_first) {
            result.push_str(text_of(&args[1]));
        }
        match null {
            Some(null) if item.is_null() => result.push_str(null),
            _ => append(element, &item.as_datum(), call.zone, &mut result),
        }
        lengths::check(Some(result.len()))?;
    }
    text(result)
}

fn from_string(_: &Call<'_>, args: &[Datum<'_>]) -> Result<Value> {
    if args[0].is_null() {
        return Ok(Value::Null);
    }
    let whole = text_of(&args[0]);
    let null = args.get(2).filter(|null| !null.is_null()).map(text_of);
    let item = |part: &str| if null == Some(part) { Value::Null } else { Value::Text(part.into()) };
    if whole.is_empty() {
        return array(Vec::new());
    }
    let parts = match &args[1] {
        Datum::Null => whole.chars().count(),
        delimiter if text_of(delimiter).is_empty() => 1,
        delimiter => whole.matches(text_of(delimiter)).count() + 1,
    };
    lengths::check_items(parts, whole.len())?;
    let mut buffer = [0; 4];
    array(match &args[1] {
        Datum::Null => whole.chars().map(|character| item(character.encode_utf8(&mut buffer))).collect(),
        delimiter if text_of(delimiter).is_empty() => vec![item(whole)],
        delimiter => whole.split(text_of(delimiter)).map(item).collect(),
    })
}

#[cfg(test)]
mod tests {
    use ashlar_base::Items;
    use ashlar_base::value::text::Zone;

    use super::*;
    use crate::catalog::RowFunction;

    const TEXTS: SqlType = SqlType::Array(ScalarType::Text);

    fn run(function: RowFunction, args: &[Datum<'_>]) -> Result<Value> {
        let types = [TEXTS, TEXTS, SqlType::Scalar(ScalarType::Text)];
        function(&Call { args: &types, ret: TEXTS, zone: Zone::Utc }, args)
    }

    fn is_refused(function: RowFunction, args: &[Datum<'_>]) -> bool {
        match run(function, args) {
            Ok(_) => false,
            Err(error) => matches!(error.code(), ErrorCode::OutOfMemory | ErrorCode::ProgramLimitExceeded),
        }
    }

    #[test]
    fn arrays_of_too_many_items_are_refused() {
        let many = vec![7; lengths::BATCH_BYTES_MAX / size_of::<Value>()];
        let (half, rest) = many.split_at(many.len() / 2);
        let [many, half, rest] = [&many[..], half, rest].map(|items| Datum::Array(Items::Int4(items)));
        assert!(is_refused(append_item, &[many.clone(), Datum::Int4(1)]));
        assert!(is_refused(prepend_item, &[Datum::Int4(1), many.clone()]));
        assert!(is_refused(concatenate, &[many.clone(), half.clone()]));
        assert!(is_refused(with_item, &[half.clone(), Datum::Int4(i32::MAX), Datum::Int4(1)]));
        assert!(!is_refused(concatenate, &[half.clone(), rest]));
        assert!(!is_refused(append_item, &[half, Datum::Int4(1)]));
    }

    #[test]
    fn texts_of_too_many_parts_are_refused() {
        let whole = "x,".repeat(lengths::BATCH_BYTES_MAX / size_of::<Value>());
        for delimiter in [Datum::Null, Datum::Text(","), Datum::Text("x")] {
            assert!(is_refused(from_string, &[Datum::Text(&whole), delimiter]));
        }
        for delimiter in [Datum::Text(""), Datum::Text(",,")] {
            assert!(!is_refused(from_string, &[Datum::Text(&whole), delimiter]));
        }
    }

    #[test]
    fn long_texts_that_stand_for_many_items_are_refused() {
        let letters = Value::Array(vec![Value::Text("x".into()); 1000].into());
        let (letters, long) = (letters.as_datum(), "y".repeat(lengths::BATCH_BYTES_MAX / 500));
        assert!(is_refused(replace, &[letters.clone(), Datum::Text("x"), Datum::Text(&long)]));
        assert!(!is_refused(replace, &[letters.clone(), Datum::Text("z"), Datum::Text(&long)]));
        assert!(is_refused(to_string, &[letters.clone(), Datum::Text(&long)]));
        assert!(!is_refused(to_string, &[letters, Datum::Text(", ")]));
    }
}
