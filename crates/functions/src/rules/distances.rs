//! Distances of RANGE frames, once the type of what is sorted is known: which types have any, as PostgreSQL's `in_range` functions say, and
//! with how many digits the rows are sorted so that nothing of a distance, or of a value and it, is lost.
//!
//! Called for each window before type coercion, which reads a distance as the type of what is sorted, and finds none in what does not fit.
//! Ends of a frame that no row lies between are put where the engine finds them at the same row, for it counts on their order.

use std::cmp::Ordering;

use arrow::datatypes::{DataType, TimeUnit};
use ashlar_base::value::text::{self, TextStyle};
use ashlar_base::{Error, ErrorCode, Interval, ScalarType, SqlType, Value};
use ashlar_store::arrow_types::{sql_type_of, to_arrow_type};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::{Cast, Expr, ExprSchemable, WindowFrame, WindowFrameBound};

use crate::catalog::{digits_in, name_of};
use crate::error::external;

/// Stands before a distance that was written in quotes: a type takes it as its own, whatever it looks like.
pub const QUOTED: char = '\'';

const MICROS_PER_SECOND: i64 = 1_000_000;
/// An integer and a distance up to this add up to a bigint.
const FAR: i64 = i64::MAX / 2;
/// A distance that is greater than that of any two bigints.
const BEYOND: &str = "100000000000000000000";

/// The window with distances that the engine takes as they are meant; `None` where it has none, or they are so already.
///
/// # Errors
/// 0A000 where the type that is sorted by has no distances, or not of this type; 22013 for negative ones, and what is wrong with quoted ones.
pub(super) fn settled(expr: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let Expr::WindowFunction(mut function) = expr.clone().unalias() else { return Ok(None) };
    let frame = &function.params.window_frame;
    let said = [said_by(&frame.start_bound), said_by(&frame.end_bound)];
    if said.iter().all(Option::is_none) {
        return Ok(None);
    }
    let Some(first) = function.params.order_by.first() else { return Ok(None) };
    let (_, field) = first.expr.to_field(schema)?;
    let Some(column) = sql_type_of(&field) else { return Err(external(no_distances(&field.data_type().to_string()))) };
    let mut meant: Vec<Option<Distance>> = Vec::with_capacity(said.len());
    for text in &said {
        meant.push(text.as_deref().map(|text| meant_by(text, column)).transpose().map_err(external)?);
    }
    let mut bounds = (placed(&frame.start_bound, meant[0].as_ref()), placed(&frame.end_bound, meant[1].as_ref()));
    if !is_in_order(frame, &meant) {
        if !matches!(column.scalar(), ScalarType::Int2 | ScalarType::Int4 | ScalarType::Int8) {
            let message = "RANGE with two distances of which the frame's start has the later one is not supported for";
            return Err(external(Error::unsupported(format!("{message} column type {}", name_of(column)))));
        }
        // No integer is as far behind another one, and as a decimal each has room for it: the frame of NULL is its peers, as with any
        // distance.
        let bound = || WindowFrameBound::Following(ScalarValue::Utf8(Some(BEYOND.to_owned())));
        bounds = (bound(), bound());
        meant = vec![Some(Distance::integer(i64::MAX)), None];
    }
    let wide = wide_for(field.data_type(), meant.iter().flatten());
    if wide.is_none() && bounds.0 == frame.start_bound && bounds.1 == frame.end_bound {
        return Ok(None);
    }
    function.params.window_frame = WindowFrame::new_bounds(frame.units, bounds.0, bounds.1);
    if let Some(wide) = wide
        && let Some(first) = function.params.order_by.first_mut()
    {
        first.expr = Expr::Cast(Cast::new(Box::new(first.expr.clone()), wide));
    }
    Ok(Some(Expr::WindowFunction(function)))
}

/// A distance, as its type orders it, and as the engine reads it.
struct Distance {
    size: Size,
    text: String,
}

enum Size {
    Integer(i64),
    Number(f64),
    Interval(Interval),
}

impl Distance {
    fn integer(size: i64) -> Self {
        Self { size: Size::Integer(size), text: size.to_string() }
    }

    fn number(text: &str) -> Option<Self> {
        let size: f64 = text.parse().ok()?;
        Some(Self { size: Size::Number(size), text: text.to_owned() })
    }

    fn interval(size: Interval) -> Self {
        let Interval { months, days, micros } = size;
        let (seconds, rest) = (micros / MICROS_PER_SECOND, micros % MICROS_PER_SECOND);
        Self { size: Size::Interval(size), text: format!("{months} months {days} days {seconds}.{rest:06} seconds") }
    }
}

/// The distance that a bound of RANGE names; those of rows and groups are numbers already.
fn said_by(bound: &WindowFrameBound) -> Option<String> {
    match bound {
        WindowFrameBound::Preceding(ScalarValue::Utf8(text)) | WindowFrameBound::Following(ScalarValue::Utf8(text)) => {
            text.clone()
        }
        _ => None,
    }
}

fn placed(bound: &WindowFrameBound, distance: Option<&Distance>) -> WindowFrameBound {
    let Some(distance) = distance else { return bound.clone() };
    let text = ScalarValue::Utf8(Some(distance.text.clone()));
    match bound {
        WindowFrameBound::Preceding(_) => WindowFrameBound::Preceding(text),
        WindowFrameBound::Following(_) => WindowFrameBound::Following(text),
        WindowFrameBound::CurrentRow => WindowFrameBound::CurrentRow,
    }
}

/// How a distance is written.
#[derive(Clone, Copy)]
enum Written<'t> {
    Number(&'t str),
    Interval(&'t str),
    Quoted(&'t str),
}

fn written(text: &str) -> Written<'_> {
    match text.strip_prefix(QUOTED) {
        Some(text) => Written::Quoted(text),
        None if text.parse::<f64>().is_ok() => Written::Number(text),
        None => Written::Interval(text),
    }
}

/// What a distance is for a type of values.
fn meant_by(text: &str, column: SqlType) -> Result<Distance, Error> {
    let written = written(text);
    if column.is_array() {
        return Err(no_distances(&name_of(column)));
    }
    match (column.scalar(), written) {
        (ScalarType::Int2 | ScalarType::Int4 | ScalarType::Int8, written) => whole(written, column),
        (ScalarType::Numeric { .. } | ScalarType::Float4 | ScalarType::Float8, written) => number(written, column),
        (
            ScalarType::Date
            | ScalarType::Time
            | ScalarType::Timestamp
            | ScalarType::Timestamptz
            | ScalarType::Interval,
            Written::Number(digits),
        ) => Err(other_offset(column, type_of_number(digits))),
        (
            ScalarType::Date | ScalarType::Timestamp | ScalarType::Timestamptz,
            Written::Interval(text) | Written::Quoted(text),
        ) => interval(text),
        (ScalarType::Time | ScalarType::Interval, _) => {
            let message = format!("RANGE with a distance between values of type {} is not supported", name_of(column));
            Err(Error::unsupported(message))
        }
        _ => Err(no_distances(&name_of(column))),
    }
}

fn whole(written: Written<'_>, column: SqlType) -> Result<Distance, Error> {
    let size = match written {
        Written::Number(digits) => digits.parse::<i64>().map_err(|_| other_offset(column, type_of_number(digits)))?,
        Written::Interval(_) => return Err(other_offset(column, "interval")),
        // An interval and a quoted literal are written alike, and neither is a distance between numbers.
        Written::Quoted(text) if is_worded(text) && parsed(ScalarType::Interval.into(), text).is_ok() => {
            return Err(other_offset(column, "interval"));
        }
        Written::Quoted(text) => match parsed(column, text)? {
            Value::Int2(size) => i64::from(size),
            Value::Int4(size) => i64::from(size),
            Value::Int8(size) => size,
            _ => return Err(no_distances(&name_of(column))),
        },
    };
    if size < 0 { Err(negative()) } else { Ok(Distance::integer(size)) }
}

fn number(written: Written<'_>, column: SqlType) -> Result<Distance, Error> {
    let distance = match written {
        Written::Number(digits) => Distance::number(digits),
        Written::Interval(_) => return Err(other_offset(column, "interval")),
        Written::Quoted(text) if is_worded(text) && parsed(ScalarType::Interval.into(), text).is_ok() => {
            return Err(other_offset(column, "interval"));
        }
        Written::Quoted(text) => {
            let digits = text.trim();
            let is_exact = matches!(column.scalar(), ScalarType::Numeric { .. });
            parsed(if is_exact { digits_in(digits) } else { ScalarType::Float8.into() }, digits)?;
            Distance::number(digits.trim_start_matches('+'))
        }
    };
    match distance {
        Some(Distance { size: Size::Number(size), .. }) if size < 0.0 || size.is_nan() => Err(negative()),
        Some(Distance { size: Size::Number(size), .. }) if size.is_infinite() => {
            Err(Error::unsupported("an infinite distance of RANGE is not supported"))
        }
        Some(distance) => Ok(distance),
        None => Err(Error::unsupported("a distance of RANGE that is written like this is not supported")),
    }
}

fn interval(text: &str) -> Result<Distance, Error> {
    let Value::Interval(size) = parsed(ScalarType::Interval.into(), text)? else {
        return Err(Error::unsupported("a distance of RANGE that is written like this is not supported"));
    };
    let Interval { months, days, micros } = size;
    match (months < 0 || days < 0 || micros < 0, months > 0 || days > 0 || micros > 0) {
        (false, _) => Ok(Distance::interval(size)),
        (true, false) => Err(negative()),
        (true, true) => {
            Err(Error::unsupported("an interval of parts with two signs as an offset of a frame is not supported"))
        }
    }
}

fn parsed(sql_type: SqlType, text: &str) -> Result<Value, Error> {
    text::parse(sql_type, text, &TextStyle::default())
}

/// Whether it has units, or hours and minutes, as numbers have not: `1e3`, `NaN` and `Infinity` are numbers.
fn is_worded(text: &str) -> bool {
    text.trim().parse::<f64>().is_err() && text.contains(|letter: char| letter.is_ascii_alphabetic() || letter == ':')
}

fn type_of_number(digits: &str) -> &'static str {
    match (digits.parse::<i32>(), digits.parse::<i64>()) {
        (Ok(_), _) => "integer",
        (Err(_), Ok(_)) => "bigint",
        (Err(_), Err(_)) => "numeric",
    }
}

/// Whether the first bound of two on one side of the row stands before the second, or where it does.
fn is_in_order(frame: &WindowFrame, meant: &[Option<Distance>]) -> bool {
    let [Some(start), Some(end)] = meant else { return true };
    let (near, far) = match (&frame.start_bound, &frame.end_bound) {
        (WindowFrameBound::Preceding(_), WindowFrameBound::Preceding(_)) => (end, start),
        (WindowFrameBound::Following(_), WindowFrameBound::Following(_)) => (start, end),
        _ => return true,
    };
    match (&near.size, &far.size) {
        (Size::Integer(near), Size::Integer(far)) => near <= far,
        // Two that are the same double may differ in digits that this does not show.
        (Size::Number(near_size), Size::Number(far_size)) => match near_size.total_cmp(far_size) {
            Ordering::Less => true,
            Ordering::Equal => near.text == far.text,
            Ordering::Greater => false,
        },
        (Size::Interval(near), Size::Interval(far)) => {
            let is_in_each_unit = near.months <= far.months && near.days <= far.days && near.micros <= far.micros;
            // The engine compares months, days and the rest in this order.
            let units = |interval: &Interval| (interval.months, interval.days, interval.micros);
            is_in_each_unit || units(near) <= units(far) && micros_of(near, 31, 25) <= micros_of(far, 28, 23)
        }
        _ => false,
    }
}

/// The length of an interval whose months have so many days, and whose days so many hours: a month has as many as the date says, and a
/// day one more or less where clocks are changed.
fn micros_of(interval: &Interval, days: i128, hours: i128) -> i128 {
    let days = i128::from(interval.months) * days + i128::from(interval.days);
    days * hours * 3600 * i128::from(MICROS_PER_SECOND) + i128::from(interval.micros)
}

/// The type that has all digits of the distances, and of what they and the values of this type add up to; `None` where that is this one.
fn wide_for<'d>(data_type: &DataType, distances: impl Iterator<Item = &'d Distance> + Clone) -> Option<DataType> {
    let whole = |distance: &Distance| if let Size::Integer(size) = distance.size { size } else { 0 };
    let farthest = distances.clone().map(whole).max().unwrap_or(0);
    let has_time = |distance: &Distance| matches!(&distance.size, Size::Interval(size) if size.micros > 0);
    match data_type {
        // Where a value and a distance were no number of its type, the engine would take the rows whose value is NULL for others of the frame.
        DataType::Int16 | DataType::Int32 if farthest <= FAR => Some(DataType::Int64),
        DataType::Int16 | DataType::Int32 | DataType::Int64 => Some(DataType::Decimal128(38, 0)),
        // PostgreSQL adds up doubles.
        DataType::Float32 => Some(DataType::Float64),
        DataType::Decimal128(_, scale) => {
            let scales = distances.map(|distance| match to_arrow_type(digits_in(&distance.text)) {
                DataType::Decimal128(_, scale) => scale,
                _ => 0,
            });
            Some(DataType::Decimal128(38, scales.fold(*scale, i8::max)))
        }
        // A day and twelve hours before a day is no day.
        DataType::Date32 if distances.clone().any(has_time) => Some(DataType::Timestamp(TimeUnit::Microsecond, None)),
        _ => None,
    }
}

fn no_distances(column: &str) -> Error {
    Error::unsupported(format!("RANGE with offset PRECEDING/FOLLOWING is not supported for column type {column}"))
}

fn other_offset(column: SqlType, offset: &str) -> Error {
    let message = format!(
        "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {} and offset type {offset}",
        name_of(column)
    );
    Error::unsupported(message).with_hint("Cast the offset value to an appropriate type.")
}

fn negative() -> Error {
    Error::new(ErrorCode::InvalidFrameOffset, "invalid preceding or following size in window function")
}
