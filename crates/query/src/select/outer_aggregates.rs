//! Aggregates in a subquery whose arguments are columns of outer queries only. In PostgreSQL such an aggregate
//! belongs to the query that the columns come from: `SELECT (SELECT max(t.x) FROM u) FROM t` is one row. The engine
//! would aggregate over the subquery's rows, so they are refused.
//!
//! Runs over a plan as the SQL planner made it.

use ashlar_base::Error;
use ashlar_functions::array_rows::ARRAY_OR_EMPTY;
use ashlar_functions::error::external;
use ashlar_functions::tree::{any_part, each_expression_of, each_part};
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::expr::{AggregateFunction, Exists, InSubquery, SetComparison};
use datafusion::logical_expr::{Expr, LogicalPlan};

/// Looks at a plan and those of its subqueries.
///
/// # Errors
/// 0A000
pub(super) fn check(plan: &LogicalPlan) -> Result<()> {
    look(plan, false)
}

/// `is_array`: what is above an aggregation makes the array of `ARRAY(SELECT ...)` of it, which is no aggregate to PostgreSQL.
fn look(plan: &LogicalPlan, is_array: bool) -> Result<()> {
    if let LogicalPlan::Aggregate(aggregate) = plan
        && !is_array
    {
        for expr in &aggregate.aggr_expr {
            if any_part(expr, is_of_outer)? {
                let message = "an aggregate of columns of the queries around a subquery alone is not supported";
                let hint = "Compute it in the query whose columns it is of.";
                return Err(external(Error::unsupported(message).with_hint(hint)));
            }
        }
    }
    let mut makes_array = false;
    each_expression_of(plan, |expr| {
        each_part(expr, |part| {
            match part {
                Expr::ScalarFunction(function) => makes_array |= function.func.name() == ARRAY_OR_EMPTY,
                Expr::ScalarSubquery(subquery)
                | Expr::Exists(Exists { subquery, .. })
                | Expr::InSubquery(InSubquery { subquery, .. })
                | Expr::SetComparison(SetComparison { subquery, .. }) => look(&subquery.subquery, false)?,
                _ => {}
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    for input in plan.inputs() {
        look(input, makes_array)?;
    }
    Ok(())
}

/// Whether it is an aggregate that reads columns, and none of its own query.
fn is_of_outer(expr: &Expr) -> Result<bool> {
    let Expr::AggregateFunction(AggregateFunction { params, .. }) = expr else { return Ok(false) };
    let order_by = params.order_by.iter().map(|sort| &sort.expr);
    let (mut reads_outer, mut reads_own) = (false, false);
    for read in params.args.iter().chain(order_by).chain(params.filter.as_deref()) {
        reads_outer |= any_part(read, |part| Ok(matches!(part, Expr::OuterReferenceColumn(..))))?;
        reads_own |= any_part(read, |part| Ok(matches!(part, Expr::Column(_))))?;
    }
    Ok(reads_outer && !reads_own)
}
