//! Subqueries that stand where a value is wanted, and read columns of the query around them.
//!
//! Runs before analysis: such a subquery is said to give one row, or to fail, so that DataFusion can join it to the rows
//! around it. What it cannot join is left to `per_row`.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, LogicalPlanBuilder, Subquery};

use crate::functions::single_row::SINGLE_ROW;
use crate::rules::rewrite_expressions;

/// Makes subqueries for a value fail where they have more than one row.
pub(super) fn one_row_each(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |=
                expr.exists(|expr| Ok(matches!(expr, Expr::ScalarSubquery(subquery) if is_row_wanted(subquery))))?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    if !found {
        return Ok(plan);
    }
    rewrite_expressions(plan, |expr, _| match expr {
        Expr::ScalarSubquery(subquery) if is_row_wanted(&subquery) => {
            let Subquery { subquery, outer_ref_columns, spans } = subquery;
            let subquery = Arc::new(one_row(Arc::unwrap_or_clone(subquery))?);
            Ok(Transformed::yes(Expr::ScalarSubquery(Subquery { subquery, outer_ref_columns, spans })))
        }
        other => Ok(Transformed::no(other)),
    })
}

/// Whether it is a subquery that reads columns from around it and may have more rows than the one that is wanted.
fn is_row_wanted(subquery: &Subquery) -> bool {
    !subquery.outer_ref_columns.is_empty() && !has_one_row(&subquery.subquery)
}

/// Whether a plan gives at most one row as it is.
fn has_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(Aggregate { group_expr, .. }) => group_expr.is_empty(),
        LogicalPlan::Projection(projection) => has_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_one_row(&alias.input),
        LogicalPlan::Sort(sort) => has_one_row(&sort.input),
        LogicalPlan::Filter(filter) => has_one_row(&filter.input),
        other => other.max_rows().is_some_and(|rows| rows <= 1),
    }
}

fn one_row(plan: LogicalPlan) -> Result<LogicalPlan> {
    let (qualifier, field) = plan.schema().qualified_field(0);
    let name = field.name().clone();
    let column = Expr::from((qualifier, field));
    let single = AggregateFunction::new_udf(Arc::clone(&SINGLE_ROW), vec![column], false, None, Vec::new(), None);
    let single = Expr::AggregateFunction(single);
    let shown = single.schema_name().to_string();
    LogicalPlanBuilder::from(plan)
        .aggregate(Vec::<Expr>::new(), vec![single])?
        .project(vec![Expr::Column(datafusion::common::Column::new_unqualified(shown)).alias(name)])?
        .build()
}
