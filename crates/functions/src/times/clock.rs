//! What reads the clock: `now()` and its kin become literals when a plan starts to run, with the time of its transaction.
//!
//! Expressions that run outside of a plan (RETURNING, ON CONFLICT) find the time in their thread while they are
//! evaluated: see [`with_time`].

use std::cell::Cell;

use ashlar_base::value::datetime::arithmetic as dates;
use ashlar_base::{Datum, Error, ErrorCode, Result, ScalarType, Value};
use ashlar_store::{ColumnReader, build_array};
use datafusion_common::metadata::FieldMetadata;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Result as PlanResult, ScalarValue};
use datafusion_expr::{ColumnarValue, Expr, LogicalPlan};

use super::TimeFunction;
use crate::error::{external, from_datafusion};
use crate::fields::{field_of, scalar};

/// When a statement runs: microseconds since 1970 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatementTime {
    /// When its transaction began: `now()`.
    pub transaction: i64,
    /// When it began itself: `statement_timestamp()`.
    pub statement: i64,
}

impl StatementTime {
    /// Of a transaction that begins now.
    pub fn now() -> Self {
        let now = ashlar_base::clock::wall_micros();
        Self { transaction: now, statement: now }
    }
}

thread_local! {
    static CURRENT: Cell<Option<StatementTime>> = const { Cell::new(None) };
}

/// Evaluates expressions at a statement's time.
pub fn with_time<T>(time: StatementTime, evaluate: impl FnOnce() -> T) -> T {
    struct Restore(Option<StatementTime>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0);
        }
    }
    let _restore = Restore(CURRENT.replace(Some(time)));
    evaluate()
}

pub(super) fn current() -> Option<StatementTime> {
    CURRENT.get()
}

/// Whether a plan has to be told the time.
///
/// # Errors
/// As DataFusion's traversal.
pub fn is_read_by(plan: &LogicalPlan) -> PlanResult<bool> {
    crate::tree::any_expression(plan, |expr| Ok(clock_of(expr).is_some()))
}

fn clock_of(expr: &Expr) -> Option<(&TimeFunction, &[Expr])> {
    let Expr::ScalarFunction(function) = expr else { return None };
    let clock = function.func.inner().downcast_ref::<TimeFunction>()?;
    clock.reads_clock(function.args.len()).then_some((clock, &function.args[..]))
}

/// The plan with the time written into it.
///
/// # Errors
/// 0A000 where a precision is no constant.
pub fn written_into(plan: LogicalPlan, time: StatementTime) -> PlanResult<LogicalPlan> {
    crate::tree::rewrite_expressions(plan, |expr, _| {
        let Some((clock, args)) = clock_of(&expr) else { return Ok(Transformed::no(expr)) };
        if clock.name == "age" {
            // From the midnight that began this day.
            let midnight = midnight(clock, time).map_err(external)?;
            let Expr::ScalarFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
            call.args.insert(0, literal(ScalarType::Timestamp, midnight)?);
            return Ok(Transformed::yes(Expr::ScalarFunction(call)));
        }
        let digits = match args {
            [] => None,
            [Expr::Literal(digits, _)] => Some(digits.clone()),
            _ => return Err(external(Error::unsupported("the precision of a time must be a constant"))),
        };
        let (scalar_type, value) = instant(clock, digits.as_ref(), time).map_err(external)?;
        Ok(Transformed::yes(literal(scalar_type, value)?))
    })
}

/// What the plan says of the call it says of the value too: a union keeps what it was told of its parts.
fn literal(scalar_type: ScalarType, value: Value) -> PlanResult<Expr> {
    let field = field_of("clock", scalar_type.into());
    let value = scalar(scalar_type.into(), &value).map_err(external)?;
    Ok(Expr::Literal(value, Some(FieldMetadata::new_from_field(&field))))
}

fn midnight(clock: &TimeFunction, time: StatementTime) -> Result<Value> {
    const DAY: i64 = 86_400_000_000;
    let local = dates::to_local(time.transaction, clock.zone);
    Ok(Value::Timestamp(local - local.rem_euclid(DAY)))
}

/// What a clock without arguments but a precision shows.
fn instant(clock: &TimeFunction, digits: Option<&ScalarValue>, time: StatementTime) -> Result<(ScalarType, Value)> {
    const DAY: i64 = 86_400_000_000;
    let instant = if clock.name == "statement_timestamp" { time.statement } else { time.transaction };
    let rounded = |micros: i64| match digits {
        None => Ok(micros),
        Some(digits) => {
            let digits = match digits {
                ScalarValue::Int32(Some(digits)) => i64::from(*digits),
                ScalarValue::Int64(Some(digits)) => *digits,
                _ => -1,
            };
            if digits < 0 {
                return Err(Error::new(
                    ErrorCode::InvalidParameterValue,
                    format!("{}({digits}) precision must not be negative", clock.name.to_uppercase()),
                ));
            }
            let step = 10i64.pow(u32::try_from(6 - digits.min(6)).unwrap_or(0));
            Ok((micros + step / 2).div_euclid(step) * step)
        }
    };
    let local = || dates::to_local(instant, clock.zone);
    Ok(match clock.name {
        "current_date" => {
            let days = i32::try_from(local().div_euclid(DAY)).map_err(|_| Error::internal("today has no date"))?;
            (ScalarType::Date, Value::Date(days))
        }
        "localtimestamp" => (ScalarType::Timestamp, Value::Timestamp(rounded(local())?)),
        "localtime" => (ScalarType::Time, Value::Time(rounded(local())?.rem_euclid(DAY))),
        _ => (ScalarType::Timestamptz, Value::Timestamp(rounded(instant)?)),
    })
}

/// The same outside of a plan.
pub(super) fn value(
    clock: &TimeFunction,
    args: &[ColumnarValue],
    time: StatementTime,
    rows: usize,
) -> PlanResult<ColumnarValue> {
    if clock.name == "age" {
        return age_of_rows(clock, args, time, rows).map_err(external);
    }
    let digits = match args {
        [ColumnarValue::Scalar(digits)] => Some(digits),
        _ => None,
    };
    let (scalar_type, value) = instant(clock, digits, time).map_err(external)?;
    Ok(ColumnarValue::Scalar(scalar(scalar_type.into(), &value).map_err(external)?))
}

fn age_of_rows(
    clock: &TimeFunction,
    args: &[ColumnarValue],
    time: StatementTime,
    rows: usize,
) -> Result<ColumnarValue> {
    let [arg] = args else { return Err(Error::internal("age has one argument here")) };
    let array = arg.to_array(rows).map_err(from_datafusion)?;
    let from =
        ashlar_store::arrow_types::sql_type_of(&arrow::datatypes::Field::new("age", array.data_type().clone(), true))
            .ok_or_else(|| Error::internal("an argument without a type"))?;
    let reader = ColumnReader::new(&array, from)?;
    let Value::Timestamp(midnight) = midnight(clock, time)? else {
        return Err(Error::internal("midnight is a timestamp"));
    };
    let ages = (0..array.len()).map(|row| match reader.datum(row) {
        Datum::Timestamp(micros) if from.scalar() == ScalarType::Timestamptz => {
            Value::Interval(dates::age(midnight, dates::to_local(micros, clock.zone)))
        }
        Datum::Timestamp(micros) => Value::Interval(dates::age(midnight, micros)),
        Datum::Date(days) => Value::Interval(dates::age(midnight, dates::midnight(days))),
        _ => Value::Null,
    });
    let ages: Vec<Value> = ages.collect();
    build_array(ScalarType::Interval.into(), &ages).map(ColumnarValue::Array)
}
