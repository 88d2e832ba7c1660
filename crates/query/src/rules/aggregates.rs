//! `sum(bigint)` and `avg` of integers are numeric, as in PostgreSQL: exact, and without overflow.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::{AggregateUDF, Cast, Expr, ExprSchemable, LogicalPlan, WindowFunctionDefinition};
use datafusion::optimizer::AnalyzerRule;

use crate::functions::integer_aggregates;

/// Of what a `sum(DISTINCT bigint)` adds up: room for 10^19 rows of the greatest bigint.
const SUM_TYPE: DataType = DataType::Decimal128(38, 0);
/// Of what an average is taken: the engine adds four digits to the scale, which makes PostgreSQL's sixteen.
const AVERAGE_TYPE: DataType = DataType::Decimal128(34, 12);

/// Runs before type coercion.
#[derive(Debug)]
pub struct NumericAggregates;

impl AnalyzerRule for NumericAggregates {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        super::rewrite_expressions(plan, |expr, schema| {
            Ok(match expr {
                Expr::AggregateFunction(AggregateFunction { mut func, mut params }) => {
                    let changed = widen(&mut func, &mut params.args, params.distinct, schema);
                    let expr = Expr::AggregateFunction(AggregateFunction { func, params });
                    if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
                }
                Expr::WindowFunction(mut window) => {
                    let WindowFunction { fun, params } = window.as_mut();
                    let changed = match fun {
                        WindowFunctionDefinition::AggregateUDF(function) => {
                            widen(function, &mut params.args, params.distinct, schema)
                        }
                        WindowFunctionDefinition::WindowUDF(_) => false,
                    };
                    let expr = Expr::WindowFunction(window);
                    if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
                }
                other => Transformed::no(other),
            })
        })
    }

    fn name(&self) -> &str {
        "numeric_aggregates"
    }
}

/// Puts our aggregate in place of the engine's, or a numeric in place of its argument; tells whether it did.
fn widen(function: &mut Arc<AggregateUDF>, args: &mut [Expr], is_distinct: bool, schema: &DFSchema) -> bool {
    let [arg] = args else { return false };
    let Ok(arg_type) = arg.get_type(schema) else { return false };
    let wide = match (function.name(), &arg_type) {
        ("sum", DataType::Int64) if !is_distinct => {
            *function = integer_aggregates::sum();
            return true;
        }
        ("avg", DataType::Int16 | DataType::Int32 | DataType::Int64) if !is_distinct => {
            *function = integer_aggregates::average();
            DataType::Int64
        }
        ("sum", DataType::Int64) => SUM_TYPE,
        ("avg", DataType::Int16 | DataType::Int32 | DataType::Int64) => AVERAGE_TYPE,
        ("avg", DataType::Decimal128(precision, scale))
            if *scale < 12 && i16::from(*precision) - i16::from(*scale) <= 22 =>
        {
            AVERAGE_TYPE
        }
        _ => return false,
    };
    if arg_type != wide {
        *arg = Expr::Cast(Cast::new(Box::new(arg.clone()), wide));
    }
    true
}
