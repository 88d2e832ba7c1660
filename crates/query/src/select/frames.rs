//! Offsets of window frames that are constant expressions: `ROWS 1 + 1 PRECEDING`, `RANGE interval '1 day' * 2 PRECEDING`. The engine
//! takes literal numbers and intervals only, so each expression is computed here and replaced by its value.
//!
//! Called before the other passes over a query. Parameters and subqueries are refused, because frames are part of a plan. What the type of
//! a RANGE's distance must be is known where the type of what is sorted is, once the query is planned.

use std::ops::ControlFlow;

use arrow::datatypes::{Decimal128Type, DecimalType, IntervalMonthDayNano};
use ashlar_base::value::text::{self, TextStyle};
use ashlar_base::{Error, ErrorCode, Result, ScalarType};
use ashlar_functions::catalog::name_of;
use ashlar_functions::rules::QUOTED_DISTANCE;
use ashlar_functions::walk;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Function, Interval, Query, Value, VisitorMut, WindowFrame, WindowFrameBound, WindowFrameUnits,
    WindowType,
};

use super::Planner;
use super::nodes::cast_as;

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// Writes the offsets out. To do it again changes nothing.
///
/// # Errors
/// 22013 and 22004 for a negative offset and for NULL, 42P10 for one that reads columns, 42804 for what is no number of rows, 22P02 for a
/// quoted literal that is none, 22003 for one that is no bigint, 0A000 for what has no value before the query runs.
pub(super) fn settle(planner: &Planner<'_>, query: &mut Query) -> Result<()> {
    walk::outcome(walk::visit_mut(query, &mut Frames { planner }))
}

struct Frames<'p, 'a> {
    planner: &'p Planner<'a>,
}

impl VisitorMut for Frames<'_, '_> {
    type Break = Error;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match expr {
            Expr::Function(Function { over: Some(WindowType::WindowSpec(window)), .. }) => {
                match &mut window.window_frame {
                    Some(frame) => walk::flow(self.frame(frame)),
                    None => ControlFlow::Continue(()),
                }
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

impl Frames<'_, '_> {
    fn frame(&self, frame: &mut WindowFrame) -> Result<()> {
        let is_distance = matches!(frame.units, WindowFrameUnits::Range);
        let clause = match frame.units {
            WindowFrameUnits::Rows => "ROWS",
            WindowFrameUnits::Range => "RANGE",
            WindowFrameUnits::Groups => "GROUPS",
        };
        let bounds = [(Some(&mut frame.start_bound), "starting"), (frame.end_bound.as_mut(), "ending")];
        for (bound, which) in bounds {
            let Some(WindowFrameBound::Preceding(Some(offset)) | WindowFrameBound::Following(Some(offset))) = bound
            else {
                continue;
            };
            if is_written_out(offset, is_distance) {
                continue;
            }
            if let Some(text) = quoted(offset) {
                **offset = if is_distance { as_quoted(text) } else { counted(text, (clause, which))? };
                continue;
            }
            let value = self.value(offset, clause)?;
            if value.is_null() {
                let message = format!("frame {which} offset must not be null");
                return Err(Error::new(ErrorCode::NullValueNotAllowed, message));
            }
            **offset = if is_distance { distance(&value)? } else { self.rows(offset, &value, (clause, which))? };
        }
        if !is_distance {
            put_in_order(frame);
        }
        Ok(())
    }

    /// What an offset is worth.
    fn value(&self, offset: &Expr, clause: &str) -> Result<ScalarValue> {
        let is_column = |expr: &Expr| match expr {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        };
        if walk::own_expressions(offset, is_column).is_break() {
            let message = format!("argument of {clause} must not contain variables");
            return Err(Error::new(ErrorCode::InvalidColumnReference, message));
        }
        self.planner.value_of(offset.clone()).ok_or_else(|| {
            Error::unsupported("an offset of a window's frame that has no value before the query runs is not supported")
                .with_hint("Write the number out.")
        })
    }

    /// A number of rows or groups.
    fn rows(&self, offset: &Expr, value: &ScalarValue, (clause, which): (&str, &str)) -> Result<Expr> {
        let count = match value {
            ScalarValue::Int16(Some(count)) => i64::from(*count),
            ScalarValue::Int32(Some(count)) => i64::from(*count),
            ScalarValue::Int64(Some(count)) => *count,
            ScalarValue::Decimal128(..)
            | ScalarValue::Decimal256(..)
            | ScalarValue::UInt64(_)
            | ScalarValue::Float32(_)
            | ScalarValue::Float64(_) => match self.planner.value_of(cast_as(offset.clone(), DataType::BigInt(None))) {
                Some(ScalarValue::Int64(Some(count))) => count,
                _ => return Err(Error::new(ErrorCode::NumericOutOfRange, "bigint out of range")),
            },
            _ => {
                let found = self.planner.type_of(offset.clone(), &[]).map_or_else(|| "unknown".to_owned(), name_of);
                return Err(no_count(clause, &found));
            }
        };
        count_of_rows(count, which)
    }
}

/// A number of rows or groups as it is written.
fn count_of_rows(count: i64, which: &str) -> Result<Expr> {
    if count < 0 {
        let message = format!("frame {which} offset must not be negative");
        return Err(Error::new(ErrorCode::InvalidFrameOffset, message));
    }
    Ok(number(count.to_string()))
}

fn no_count(clause: &str, found: &str) -> Error {
    let message = format!("argument of {clause} must be type bigint, not type {found}");
    Error::new(ErrorCode::DatatypeMismatch, message)
}

/// A quoted literal, which the parser takes for an interval where it stands first.
fn quoted(offset: &Expr) -> Option<&str> {
    let Expr::Interval(Interval { value, leading_field: None, last_field: None, .. }) = offset else { return None };
    match value.as_ref() {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.as_str()),
            _ => None,
        },
        _ => None,
    }
}

/// A quoted number of rows or groups. What can be read as an interval alone was one, as far as anybody can tell.
fn counted(text: &str, (clause, which): (&str, &str)) -> Result<Expr> {
    let read = |scalar: ScalarType| text::parse(scalar.into(), text, &TextStyle::default());
    match read(ScalarType::Int8) {
        Ok(ashlar_base::Value::Int8(count)) => count_of_rows(count, which),
        Err(error) if read(ScalarType::Interval).is_err() || text.trim().parse::<f64>().is_ok() => Err(error),
        _ => Err(no_count(clause, "interval")),
    }
}

/// A distance of which the type that is sorted by says what it is.
fn as_quoted(text: &str) -> Expr {
    let marked = if text.starts_with(QUOTED_DISTANCE) { text.to_owned() } else { format!("{QUOTED_DISTANCE}{text}") };
    interval_said(marked)
}

/// A frame whose end stands before its start has no rows. The engine counts on their order: this one has none either, and is in order.
fn put_in_order(frame: &mut WindowFrame) {
    let is_backward = match (&frame.start_bound, &frame.end_bound) {
        (WindowFrameBound::Preceding(Some(start)), Some(WindowFrameBound::Preceding(Some(end)))) => {
            written_count(start) < written_count(end)
        }
        (WindowFrameBound::Following(Some(start)), Some(WindowFrameBound::Following(Some(end)))) => {
            written_count(start) > written_count(end)
        }
        _ => false,
    };
    if is_backward {
        // As far behind the row as can be said: nothing is there.
        let bound = || WindowFrameBound::Following(Some(Box::new(number(i64::MAX.to_string()))));
        frame.start_bound = bound();
        frame.end_bound = Some(bound());
    }
}

fn written_count(offset: &Expr) -> Option<i64> {
    match offset {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// Whether the engine reads an offset itself.
fn is_written_out(offset: &Expr, is_distance: bool) -> bool {
    match offset {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => is_distance || digits.parse::<i64>().is_ok(),
            _ => false,
        },
        _ => false,
    }
}

fn number(digits: String) -> Expr {
    Expr::value(Value::Number(digits, false))
}

/// A distance between values, which is a number or an interval.
fn distance(value: &ScalarValue) -> Result<Expr> {
    let negative =
        || Error::new(ErrorCode::InvalidFrameOffset, "invalid preceding or following size in window function");
    let digits = match value {
        ScalarValue::Int16(Some(value)) => value.to_string(),
        ScalarValue::Int32(Some(value)) => value.to_string(),
        ScalarValue::Int64(Some(value)) => value.to_string(),
        ScalarValue::Decimal128(Some(value), precision, scale) => {
            Decimal128Type::format_decimal(*value, *precision, *scale)
        }
        ScalarValue::IntervalMonthDayNano(Some(interval)) => {
            let IntervalMonthDayNano { months, days, nanoseconds } = *interval;
            return match (months < 0 || days < 0 || nanoseconds < 0, months > 0 || days > 0 || nanoseconds > 0) {
                (false, _) => Ok(written(*interval)),
                (true, false) => Err(negative()),
                (true, true) => Err(Error::unsupported(
                    "an interval of parts with two signs as an offset of a frame is not supported",
                )),
            };
        }
        _ => return Err(Error::unsupported("an offset of RANGE of this type is not supported")),
    };
    if digits.starts_with('-') { Err(negative()) } else { Ok(number(digits)) }
}

/// An interval without negative parts as a constant.
fn written(interval: IntervalMonthDayNano) -> Expr {
    let IntervalMonthDayNano { months, days, nanoseconds } = interval;
    let (seconds, rest) = (nanoseconds / NANOS_PER_SECOND, nanoseconds % NANOS_PER_SECOND);
    interval_said(format!("{months} months {days} days {seconds}.{rest:09} seconds"))
}

fn interval_said(text: String) -> Expr {
    Expr::Interval(Interval {
        value: Box::new(Expr::value(Value::SingleQuotedString(text))),
        leading_field: None,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    })
}
