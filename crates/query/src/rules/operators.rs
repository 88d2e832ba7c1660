//! Operators between types as PostgreSQL resolves them, before DataFusion's own coercion sees them.
//!
//! A quoted string compared with something is read as that thing's type; a float and a numeric meet as floats; a date
//! plus an interval is a timestamp; text is not compared with numbers; a date or a timestamp meets an instant as an
//! instant; intervals are compared by the order that `intervals` gives them.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, FieldRef};
use ashlar_base::{Error, ErrorCode};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Between, BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF};
use datafusion::optimizer::AnalyzerRule;

use crate::error::external;
use crate::functions::bytea::ByteaLength;
use crate::functions::times::operators::ordered;

use super::intervals::{self, is_interval};

/// `length(bytea)`: DataFusion's is of text only.
static BYTEA_LENGTH: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ByteaLength::udf()));

/// Runs before type coercion.
#[derive(Debug)]
pub struct PgOperators;

impl AnalyzerRule for PgOperators {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = intervals::order_nodes(plan)?;
        super::rewrite_expressions(plan, |expr, schema| match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => binary(*left, op, *right, schema),
            Expr::InList(InList { expr, list, negated }) => {
                let mut changed = false;
                let mut items = Vec::with_capacity(list.len());
                for item in list {
                    let met = meet(item, &expr, "=", schema)?;
                    changed |= met.transformed;
                    items.push(met.data);
                }
                if is_interval(&expr, schema) {
                    let list = items.into_iter().map(ordered).collect();
                    let expr = Box::new(ordered(*expr));
                    return Ok(Transformed::yes(Expr::InList(InList { expr, list, negated })));
                }
                let expr = Expr::InList(InList { expr, list: items, negated });
                Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) })
            }
            Expr::Between(Between { expr, negated, low, high }) => {
                let low = meet(*low, &expr, ">=", schema)?;
                let high = meet(*high, &expr, "<=", schema)?;
                if is_interval(&expr, schema) {
                    return Ok(Transformed::yes(Expr::Between(Between {
                        expr: Box::new(ordered(*expr)),
                        negated,
                        low: Box::new(ordered(low.data)),
                        high: Box::new(ordered(high.data)),
                    })));
                }
                let changed = low.transformed || high.transformed;
                let expr = Expr::Between(Between { expr, negated, low: Box::new(low.data), high: Box::new(high.data) });
                Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) })
            }
            Expr::ScalarFunction(mut function)
                if matches!(function.func.name(), "length" | "character_length" | "octet_length")
                    && function.args.len() == 1
                    && matches!(function.args[0].get_type(schema), Ok(DataType::Binary)) =>
            {
                function.func = Arc::clone(&BYTEA_LENGTH);
                Ok(Transformed::yes(Expr::ScalarFunction(function)))
            }
            other => intervals::order_expression(other, schema),
        })
    }

    fn name(&self) -> &str {
        "pg_operators"
    }
}

fn binary(left: Expr, op: Operator, right: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_comparison = matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    );
    let is_arithmetic =
        matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide | Operator::Modulo);
    if !is_comparison && !is_arithmetic {
        return Ok(Transformed::no(rebuilt(left, op, right)));
    }
    if is_comparison {
        let new_right = meet(right, &left, &op.to_string(), schema)?;
        let new_left = meet(left, &new_right.data, &op.to_string(), schema)?;
        if is_interval(&new_left.data, schema) && is_interval(&new_right.data, schema) {
            return Ok(Transformed::yes(rebuilt(ordered(new_left.data), op, ordered(new_right.data))));
        }
        let changed = new_left.transformed || new_right.transformed;
        let expr = rebuilt(new_left.data, op, new_right.data);
        return Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) });
    }
    let (Ok(left_type), Ok(right_type)) = (left.get_type(schema), right.get_type(schema)) else {
        return Ok(Transformed::no(rebuilt(left, op, right)));
    };
    Ok(match (&left_type, &right_type) {
        (DataType::Float32 | DataType::Float64, DataType::Decimal128(..)) => {
            Transformed::yes(rebuilt(left, op, as_float(right)))
        }
        (DataType::Decimal128(..), DataType::Float32 | DataType::Float64) => {
            Transformed::yes(rebuilt(as_float(left), op, right))
        }
        _ => Transformed::no(rebuilt(left, op, right)),
    })
}

fn rebuilt(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) })
}

fn cast(expr: Expr, to: DataType) -> Expr {
    Expr::Cast(Cast::new(Box::new(expr), to))
}

/// A numeric as a float; a constant by its digits, which is exact where dividing by a power of ten is not.
fn as_float(expr: Expr) -> Expr {
    if let Expr::Literal(ScalarValue::Decimal128(Some(unscaled), _, scale), _) = &expr
        && let Ok(value) = format!("{unscaled}e{}", -i32::from(*scale)).parse::<f64>()
    {
        return Expr::Literal(ScalarValue::Float64(Some(value)), None);
    }
    cast(expr, DataType::Float64)
}

/// An operand as what it is compared with wants it.
fn meet(expr: Expr, other: &Expr, op: &str, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (Ok((_, field)), Ok((_, other_field))) = (expr.to_field(schema), other.to_field(schema)) else {
        return Ok(Transformed::no(expr));
    };
    let (from, to) = (field.data_type(), other_field.data_type());
    if from.is_temporal() && is_number(to) || is_number(from) && to.is_temporal() {
        return Err(no_operator(&other_field, op, &field));
    }
    // A date is its midnight; DataFusion would count nanoseconds, which end in the year 2262.
    let is_earlier = match (from, to) {
        (DataType::Date32, DataType::Timestamp(..)) => true,
        (DataType::Timestamp(_, from), DataType::Timestamp(_, to)) => from.is_none() && to.is_some(),
        _ => false,
    };
    if is_earlier {
        return Ok(Transformed::yes(read_as(expr, &other_field)));
    }
    if is_text(from) && !is_text(to) && !matches!(to, DataType::Null) {
        if matches!(expr, Expr::Literal(..)) && !matches!(other, Expr::Placeholder(_)) {
            return Ok(Transformed::yes(read_as(expr, &other_field)));
        }
        if is_number(to) && !matches!(other, Expr::Placeholder(_)) && !matches!(expr, Expr::Placeholder(_)) {
            return Err(no_operator(&other_field, op, &field));
        }
    }
    if matches!(from, DataType::Decimal128(..)) && matches!(to, DataType::Float32 | DataType::Float64) {
        return Ok(Transformed::yes(as_float(expr)));
    }
    Ok(Transformed::no(expr))
}

/// 42883
fn no_operator(left: &FieldRef, op: &str, right: &FieldRef) -> datafusion::error::DataFusionError {
    let message = format!("operator does not exist: {} {op} {}", name_of(left), name_of(right));
    external(
        Error::new(ErrorCode::UndefinedFunction, message).with_hint(
            "No operator matches the given name and argument types. You might need to add explicit type casts.",
        ),
    )
}

/// An operand, to be read as the type of a field.
fn read_as(expr: Expr, like: &FieldRef) -> Expr {
    let field = match ashlar_store::arrow_types::sql_type_of(like) {
        // A constant keeps its own digits: numeric of any precision.
        Some(ashlar_base::SqlType::Scalar(ashlar_base::ScalarType::Numeric { .. })) => crate::expressions::field_of(
            "literal",
            ashlar_base::ScalarType::Numeric { precision: 38, scale: 10 }.into(),
        ),
        Some(sql_type) => crate::expressions::field_of("literal", sql_type),
        None => like.clone(),
    };
    Expr::Cast(Cast { expr: Box::new(expr), field })
}

fn name_of(field: &FieldRef) -> String {
    ashlar_store::arrow_types::sql_type_of(field)
        .map_or_else(|| field.data_type().to_string(), |found| found.to_string())
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_integer() || data_type.is_floating() || matches!(data_type, DataType::Decimal128(..))
}
