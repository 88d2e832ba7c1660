//! Arithmetic between numbers as PostgreSQL types it: real with anything else is double precision, numerics keep
//! their digits, quotients of numerics have some to spare.

use std::sync::Arc;

use arrow::datatypes::DataType;
use ashlar_base::{ScalarType, SqlType};
use ashlar_store::arrow_types::{TYPE_METADATA, to_arrow_type};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{BinaryExpr, Cast, Expr, ExprSchemable, Operator};

use crate::decimals::{NumericOperation, is_native, operate, quotient_scale, result_type};
use crate::error::external;

/// Precision and scale of a type of exact numbers.
fn digits_of(data_type: &DataType) -> Option<(i32, i32)> {
    Some(match data_type {
        DataType::Int16 => (5, 0),
        DataType::Int32 => (10, 0),
        DataType::Int64 => (19, 0),
        DataType::UInt64 => (20, 0),
        DataType::Decimal128(precision, scale) => (i32::from(*precision), i32::from(*scale)),
        _ => return None,
    })
}

/// Whether this is a type of numbers.
pub(super) fn is_number(data_type: &DataType) -> bool {
    data_type.is_integer() || data_type.is_floating() || matches!(data_type, DataType::Decimal128(..))
}

fn is_real_mix(left: &DataType, right: &DataType) -> bool {
    let is_float = |of: &DataType| matches!(of, DataType::Float32 | DataType::Float64);
    (is_float(left) || is_float(right)) && left != right && is_number(left) && is_number(right)
}

/// Whether two numbers of these types meet as double precision.
pub(super) fn meet_as_double(left: &DataType, right: &DataType) -> bool {
    is_real_mix(left, right)
}

/// `left op right` of two numeric types; `None` where the engine's own operator is right.
pub(super) fn arithmetic(
    left: &Expr,
    operator: Operator,
    right: &Expr,
    types: (&DataType, &DataType),
) -> Result<Option<Expr>> {
    let (left_type, right_type) = types;
    if is_real_mix(left_type, right_type) {
        let double = |expr: &Expr, of: &DataType| {
            if *of == DataType::Float64 { expr.clone() } else { super::operators::as_float(expr.clone()) }
        };
        return Ok(Some(Expr::BinaryExpr(BinaryExpr {
            left: Box::new(double(left, left_type)),
            op: operator,
            right: Box::new(double(right, right_type)),
        })));
    }
    let is_decimal = |of: &DataType| matches!(of, DataType::Decimal128(..));
    if !is_decimal(left_type) && !is_decimal(right_type) {
        return Ok(None);
    }
    let (Some(left_digits), Some(right_digits)) = (digits_of(left_type), digits_of(right_type)) else {
        return Ok(None);
    };
    if let (Some(left), Some(right)) = (constant_of(left), constant_of(right)) {
        return constant(operator, left, right).map(Some).map_err(external);
    }
    if is_native(operator, left_digits, right_digits) {
        return Ok(None);
    }
    let to = result_type(operator, left_digits, right_digits);
    let decimal = |expr: &Expr, of: &DataType, (precision, scale): (i32, i32)| {
        if is_decimal(of) {
            return expr.clone();
        }
        let to = to_arrow_type(crate::catalog::numeric(precision, scale));
        Expr::Cast(Cast::new(Box::new(expr.clone()), to))
    };
    let args = vec![decimal(left, left_type, left_digits), decimal(right, right_type, right_digits)];
    let func = Arc::new(NumericOperation::udf(operator, to));
    Ok(Some(Expr::ScalarFunction(ScalarFunction { func, args })))
}

/// An operation on numerics, made anew where an operand is no longer what it was made for: an integer that has become a numeric or a
/// float since, or a numeric that has more digits after the point. `None` where it still holds.
pub(super) fn remade(function: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    let Some(operation) = function.func.inner().downcast_ref::<NumericOperation>() else { return Ok(None) };
    let [left, right] = &function.args[..] else { return Ok(None) };
    let (own_left, own_right) = (uncast(left, schema), uncast(right, schema));
    let (Ok(left_type), Ok(right_type)) = (own_left.get_type(schema), own_right.get_type(schema)) else {
        return Ok(None);
    };
    let operator = operation.operator();
    let is_other = !std::ptr::eq(left, own_left) || !std::ptr::eq(right, own_right);
    // Quotients are rounded anyway, those of averages to a scale of their own.
    let loses_digits = operator != Operator::Divide
        && match (digits_of(&left_type), digits_of(&right_type)) {
            (Some(left), Some(right)) => scale_of(result_type(operator, left, right)) > scale_of(operation.result()),
            _ => false,
        };
    if !is_other && !loses_digits {
        return Ok(None);
    }
    let again = arithmetic(own_left, operator, own_right, (&left_type, &right_type))?;
    Ok(Some(again.unwrap_or_else(|| {
        let (left, right) = (Box::new(own_left.clone()), Box::new(own_right.clone()));
        Expr::BinaryExpr(BinaryExpr { left, op: operator, right })
    })))
}

/// What an operand was before [`arithmetic`] took it for an integer, if it is none. A cast that somebody wrote says its SQL type.
fn uncast<'e>(operand: &'e Expr, schema: &DFSchema) -> &'e Expr {
    let Expr::Cast(cast) = operand else { return operand };
    let is_of_integer = matches!(cast.field.data_type(), DataType::Decimal128(5 | 10 | 19 | 20, 0))
        && !cast.field.metadata().contains_key(TYPE_METADATA);
    let is_other = || cast.expr.get_type(schema).is_ok_and(|found| !found.is_integer() && !found.is_null());
    if is_of_integer && is_other() { &cast.expr } else { operand }
}

fn scale_of(sql_type: SqlType) -> u8 {
    match sql_type.scalar() {
        ScalarType::Numeric { scale, .. } => scale,
        _ => 0,
    }
}

/// A constant number's digits and scale.
fn constant_of(expr: &Expr) -> Option<(i128, i32)> {
    match expr {
        Expr::Literal(ScalarValue::Decimal128(Some(value), _, scale), _) => Some((*value, i32::from(*scale))),
        Expr::Literal(ScalarValue::Int64(Some(value)), _) => Some((i128::from(*value), 0)),
        Expr::Literal(ScalarValue::Int32(Some(value)), _) => Some((i128::from(*value), 0)),
        _ => None,
    }
}

/// Constants have a scale each, as all values of PostgreSQL's do: the result is PostgreSQL's to the last digit.
fn constant(operator: Operator, left: (i128, i32), right: (i128, i32)) -> ashlar_base::Result<Expr> {
    let scale = match operator {
        Operator::Multiply => left.1 + right.1,
        Operator::Divide if right.0 != 0 => quotient_scale(left, right),
        _ => left.1.max(right.1),
    };
    let to: SqlType = crate::catalog::numeric(38, scale);
    let value = operate(operator, left, right, to)?;
    let scale = scale.clamp(0, 38);
    let precision = (value.unsigned_abs().checked_ilog10().unwrap_or(0) as i32 + 1).max(scale).clamp(1, 38);
    Ok(Expr::Literal(ScalarValue::Decimal128(Some(value), precision as u8, scale as i8), None))
}
