//! `generate_series` of timestamps as a table. Called by the planner, which knows the arguments as constants.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use ashlar_base::value::datetime::arithmetic::{midnight, timestamp_plus, timestamptz_plus, to_utc};
use ashlar_base::value::interval::arithmetic::order;
use ashlar_base::value::text::{self, TextStyle, Zone};
use ashlar_base::{Error, ErrorCode, Interval, Result, ScalarType, SqlType, Value};
use ashlar_store::{ColumnReader, arrow_types, build_array};
use datafusion::catalog::TableProvider;
use datafusion::common::ScalarValue;
use datafusion::datasource::MemTable;
use datafusion::logical_expr::Expr;

use crate::error::from_datafusion;
use crate::expressions::field_of;

/// Rows of a series: they are made when the statement is planned, and kept with its plan.
const ROWS_MAX: usize = 1_000_000;

/// Whether the arguments of `generate_series` are times.
pub(super) fn is_of_times(args: &[Expr]) -> bool {
    args.iter().any(|arg| is_instant(&type_of(arg)))
}

fn is_instant(found: &Option<SqlType>) -> bool {
    matches!(found, Some(SqlType::Scalar(ScalarType::Date | ScalarType::Timestamp | ScalarType::Timestamptz)))
}

/// The series.
///
/// # Errors
/// 0A000 for arguments that are no constants and for very long series, 22023 for a step of nothing.
pub(super) fn of_times(args: &[Expr], zone: Zone) -> Result<Arc<dyn TableProvider>> {
    let types: Vec<Option<SqlType>> = args.iter().map(type_of).collect();
    let [start, stop, step] = args else {
        return Err(Error::new(ErrorCode::UndefinedFunction, "function generate_series of two times does not exist")
            .with_hint("Say the step: generate_series(start, stop, interval)."));
    };
    // Only where both ends are timestamps, it is on no clock in particular.
    let is_plain = |found: &Option<SqlType>| found.is_none_or(|found| found == SqlType::Scalar(ScalarType::Timestamp));
    let kind = if types[..2].iter().all(is_plain) { ScalarType::Timestamp } else { ScalarType::Timestamptz };
    let (Some(start), Some(stop), Some(step)) =
        (instant(start, kind, zone)?, instant(stop, kind, zone)?, interval(step)?)
    else {
        return table(kind, &[]);
    };
    let direction = order(step).signum();
    if direction == 0 {
        return Err(Error::new(ErrorCode::InvalidParameterValue, "step size cannot equal zero"));
    }
    let mut values = Vec::new();
    let mut current = start;
    while if direction > 0 { current <= stop } else { current >= stop } {
        if values.len() == ROWS_MAX {
            return Err(Error::unsupported(format!("a series of more than {ROWS_MAX} times is not supported")));
        }
        values.push(Value::Timestamp(current));
        current = match kind {
            ScalarType::Timestamp => timestamp_plus(current, step)?,
            _ => timestamptz_plus(current, step, zone)?,
        };
    }
    table(kind, &values)
}

fn table(kind: ScalarType, values: &[Value]) -> Result<Arc<dyn TableProvider>> {
    let schema = Arc::new(Schema::new(vec![field_of("generate_series", kind.into())]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![build_array(kind.into(), values)?])
        .map_err(|error| from_datafusion(error.into()))?;
    Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]]).map_err(from_datafusion)?))
}

fn literal(arg: &Expr) -> Option<&ScalarValue> {
    match arg {
        Expr::Literal(value, _) => Some(value),
        _ => None,
    }
}

fn type_of(arg: &Expr) -> Option<SqlType> {
    use datafusion::logical_expr::ExprSchemable;
    let (_, field) = arg.to_field(&datafusion::common::DFSchema::empty()).ok()?;
    // A quoted string is whatever it has to be.
    arrow_types::sql_type_of(&field).filter(|found| *found != SqlType::Scalar(ScalarType::Text))
}

/// The value of a constant; `None` of NULL.
fn value_of(arg: &Expr) -> Result<(Option<SqlType>, Option<Value>)> {
    let scalar = literal(arg).ok_or_else(|| {
        Error::unsupported("generate_series of times whose arguments are no constants is not supported")
    })?;
    let array = scalar.to_array().map_err(from_datafusion)?;
    let sql_type = type_of(arg).unwrap_or(SqlType::Scalar(ScalarType::Text));
    let value = ColumnReader::new(&array, sql_type)?.datum(0).to_value();
    Ok((type_of(arg), (!value.is_null()).then_some(value)))
}

fn instant(arg: &Expr, kind: ScalarType, zone: Zone) -> Result<Option<i64>> {
    let (found, value) = value_of(arg)?;
    let Some(value) = value else { return Ok(None) };
    let local = |micros: i64| if kind == ScalarType::Timestamp { Ok(micros) } else { to_utc(micros, zone) };
    Ok(Some(match (value, found.map(SqlType::scalar)) {
        (Value::Timestamp(micros), Some(ScalarType::Timestamptz)) => micros,
        (Value::Timestamp(micros), _) => local(micros)?,
        (Value::Date(days), _) => local(midnight(days))?,
        (Value::Text(text), _) => match text::parse(kind.into(), &text, &TextStyle { zone })? {
            Value::Timestamp(micros) => micros,
            _ => return Err(Error::internal("a timestamp is read as one")),
        },
        _ => return Err(no_function()),
    }))
}

fn interval(arg: &Expr) -> Result<Option<Interval>> {
    Ok(match value_of(arg)?.1 {
        None => None,
        Some(Value::Interval(interval)) => Some(interval),
        Some(Value::Text(text)) => Some(ashlar_base::value::interval::parse(&text)?),
        Some(_) => return Err(no_function()),
    })
}

fn no_function() -> Error {
    Error::new(ErrorCode::UndefinedFunction, "function generate_series with these arguments does not exist")
}
