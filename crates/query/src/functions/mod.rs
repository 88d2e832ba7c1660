//! SQL functions of ours: PostgreSQL's meaning where DataFusion's differs, and what PostgreSQL clients ask a server.

pub mod arithmetic;
pub mod arrays;
pub mod bytea;
pub mod casts;
pub mod session;
pub mod single_row;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;

/// Registers everything that SQL can name.
///
/// # Errors
/// As the registry's.
pub fn register(registry: &mut dyn FunctionRegistry) -> Result<()> {
    for function in session::all().into_iter().chain(arrays::all()).chain(crate::system_tables::functions::all()) {
        registry.register_udf(function)?;
    }
    for (known, alias) in [("signum", "sign"), ("var", "variance"), ("bool_and", "every")] {
        if let Ok(function) = registry.udf(known) {
            registry.register_udf(Arc::new(function.as_ref().clone().with_aliases([alias])))?;
        } else if let Ok(function) = registry.udaf(known) {
            registry.register_udaf(Arc::new(function.as_ref().clone().with_aliases([alias])))?;
        }
    }
    // As functions of one row they give an array, where PostgreSQL gives rows: only the table functions stay.
    for name in ["generate_series", "range"] {
        registry.deregister_udf(name)?;
    }
    // Before the planner that comes with the JSON functions: the first that knows an operator has it.
    registry.register_expr_planner(Arc::new(crate::expressions::JsonOperators))?;
    datafusion_functions_json::register_all(registry)?;
    Ok(())
}

/// An expression outside of a plan, with what the analyzer does to expressions inside one.
///
/// # Errors
/// As the analyzer's.
pub fn analysed(
    state: &datafusion::execution::session_state::SessionState,
    expr: datafusion::logical_expr::Expr,
    schema: &datafusion::common::DFSchema,
) -> ashlar_base::Result<datafusion::logical_expr::Expr> {
    use crate::error::from_datafusion;
    use datafusion::logical_expr::{EmptyRelation, LogicalPlan, LogicalPlanBuilder};
    let input = LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, schema: Arc::new(schema.clone()) });
    let plan = LogicalPlanBuilder::from(input)
        .project(vec![expr])
        .and_then(LogicalPlanBuilder::build)
        .map_err(from_datafusion)?;
    let plan = state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {}).map_err(from_datafusion)?;
    match plan {
        LogicalPlan::Projection(mut projection) if projection.expr.len() == 1 => {
            Ok(projection.expr.remove(0).unalias())
        }
        _ => Err(ashlar_base::Error::internal("an expression is analysed as a projection")),
    }
}
