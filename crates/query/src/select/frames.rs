//! Offsets of window frames that are constant expressions: `ROWS 1 + 1 PRECEDING`, `RANGE interval '1 day' * 2 PRECEDING`. The engine
//! takes literal numbers and intervals only, so each expression is computed here and replaced by its value.
//!
//! Called before the other passes over a query. Parameters and subqueries are refused, because frames are part of a plan.

use std::ops::ControlFlow;

use arrow::datatypes::{Decimal128Type, DecimalType, IntervalMonthDayNano};
use ashlar_base::{Error, ErrorCode, Result};
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
/// 22013 and 22004 for a negative offset and for NULL, 42P10 for one that reads columns, 42804 for what is no number of rows, 0A000 for what
/// has no value before the query runs.
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
            let value = self.value(offset, clause)?;
            if value.is_null() {
                let message = format!("frame {which} offset must not be null");
                return Err(Error::new(ErrorCode::NullValueNotAllowed, message));
            }
            **offset = if is_distance { distance(&value)? } else { self.rows(offset, &value, (clause, which))? };
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
            ScalarValue::Int16(Some(count)) => Some(i64::from(*count)),
            ScalarValue::Int32(Some(count)) => Some(i64::from(*count)),
            ScalarValue::Int64(Some(count)) => Some(*count),
            ScalarValue::Decimal128(..) | ScalarValue::Float32(_) | ScalarValue::Float64(_) => {
                match self.planner.value_of(cast_as(offset.clone(), DataType::BigInt(None))) {
                    Some(ScalarValue::Int64(count)) => count,
                    _ => None,
                }
            }
            _ => None,
        };
        match count {
            Some(count) if count < 0 => {
                let message = format!("frame {which} offset must not be negative");
                Err(Error::new(ErrorCode::InvalidFrameOffset, message))
            }
            Some(count) => Ok(number(count.to_string())),
            None => {
                let message = format!("argument of {clause} must be type bigint");
                Err(Error::new(ErrorCode::DatatypeMismatch, message))
            }
        }
    }
}

/// Whether the engine reads an offset itself.
fn is_written_out(offset: &Expr, is_distance: bool) -> bool {
    match offset {
        Expr::Interval(_) => true,
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => is_distance || digits.bytes().all(|digit| digit.is_ascii_digit()),
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
    let text = format!("{months} months {days} days {seconds}.{rest:09} seconds");
    Expr::Interval(Interval {
        value: Box::new(Expr::value(Value::SingleQuotedString(text))),
        leading_field: None,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    })
}
