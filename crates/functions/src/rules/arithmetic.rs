//! Integers and floats out of range, and divisions by zero, are errors, as in PostgreSQL; DataFusion's are not.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::DataType;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF};
use datafusion_optimizer::AnalyzerRule;

use crate::arithmetic::{CheckedOperation, CheckedOperator, NonZero};
use crate::floats::FloatOperation;

static ADD: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(CheckedOperation::udf(CheckedOperator::Add)));
static SUBTRACT: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(CheckedOperation::udf(CheckedOperator::Subtract)));
static MULTIPLY: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(CheckedOperation::udf(CheckedOperator::Multiply)));

static NONZERO: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(NonZero::udf()));

/// Runs after type coercion, when both sides have one type.
#[derive(Debug)]
pub struct CheckedArithmetic;

impl AnalyzerRule for CheckedArithmetic {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        crate::tree::rewrite_expressions(plan, |expr, schema| {
            if let Expr::Negative(inner) = &expr {
                return negated(inner, schema).map(|found| found.map_or(Transformed::no(expr), Transformed::yes));
            }
            let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &expr else {
                return Ok(Transformed::no(expr));
            };
            let is_float = |side: &Expr| matches!(side.get_type(schema), Ok(DataType::Float32 | DataType::Float64));
            if matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide)
                && is_float(left)
                && is_float(right)
                && left.get_type(schema)? == right.get_type(schema)?
            {
                let args = vec![left.as_ref().clone(), right.as_ref().clone()];
                let func = Arc::new(FloatOperation::udf(*op));
                return Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args })));
            }
            if matches!(op, Operator::Modulo)
                && matches!(right.get_type(schema), Ok(DataType::Float32 | DataType::Float64))
                && !matches!(right.as_ref(), Expr::ScalarFunction(function) if function.func.name() == "nonzero")
            {
                let divisor = ScalarFunction { func: Arc::clone(&NONZERO), args: vec![right.as_ref().clone()] };
                return Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr {
                    left: left.clone(),
                    op: *op,
                    right: Box::new(Expr::ScalarFunction(divisor)),
                })));
            }
            let function = match op {
                Operator::Plus => &ADD,
                Operator::Minus => &SUBTRACT,
                Operator::Multiply => &MULTIPLY,
                _ => return Ok(Transformed::no(expr)),
            };
            let is_integer =
                |side: &Expr| matches!(side.get_type(schema), Ok(DataType::Int16 | DataType::Int32 | DataType::Int64));
            if !is_integer(left) || !is_integer(right) || left.get_type(schema)? != right.get_type(schema)? {
                return Ok(Transformed::no(expr));
            }
            let args = vec![left.as_ref().clone(), right.as_ref().clone()];
            Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction { func: Arc::clone(function), args })))
        })
    }

    fn name(&self) -> &str {
        "checked_arithmetic"
    }
}

/// `- x` of an integer, which the smallest has not, and of a float, of which there is one NaN.
fn negated(inner: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let (func, args) = match inner.get_type(schema)? {
        found @ (DataType::Int16 | DataType::Int32 | DataType::Int64) => {
            let zero = ScalarValue::new_zero(&found)?;
            (Arc::clone(&SUBTRACT), vec![Expr::Literal(zero, None), inner.clone()])
        }
        found @ (DataType::Float32 | DataType::Float64) => {
            let minus_one = ScalarValue::new_negative_one(&found)?;
            let func = Arc::new(FloatOperation::udf(Operator::Multiply));
            (func, vec![inner.clone(), Expr::Literal(minus_one, None)])
        }
        _ => return Ok(None),
    };
    Ok(Some(Expr::ScalarFunction(ScalarFunction { func, args })))
}
