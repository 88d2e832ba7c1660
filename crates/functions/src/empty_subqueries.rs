//! A subquery without rows is answered at once: nothing is `IN` it, and none `EXISTS`.
//!
//! What makes a subquery an empty one may come before what makes it a join, as `WHERE NULL <= outer.k` within a subquery of another one. To the
//! engine's rules that make joins, an empty relation has no column to compare with: they would refuse the query.

use datafusion_common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::expr::{Exists, InSubquery};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::{Expr, LogicalPlan, Subquery, lit};
use datafusion_optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::tree::{any_part, each_expression_of, rewrite_parts};

/// See the module.
#[derive(Debug)]
pub(crate) struct EmptySubqueries;

impl OptimizerRule for EmptySubqueries {
    fn name(&self) -> &str {
        "empty_subqueries"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !has_empty(&plan)? {
            return Ok(Transformed::no(plan));
        }
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            Ok(rewrite_parts(expr, answered)?.update_data(|expr| name.restore(expr)))
        })
    }
}

fn has_empty(plan: &LogicalPlan) -> Result<bool> {
    let mut has_empty = false;
    each_expression_of(plan, |expr| {
        has_empty |= any_part(expr, |part| Ok(of(part).is_some_and(is_empty)))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(has_empty)
}

/// The subquery that an expression is about.
fn of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::InSubquery(InSubquery { subquery, .. }) | Expr::Exists(Exists { subquery, .. }) => Some(subquery),
        Expr::ScalarSubquery(subquery) => Some(subquery),
        _ => None,
    }
}

fn is_empty(subquery: &Subquery) -> bool {
    matches!(&*subquery.subquery, LogicalPlan::EmptyRelation(empty) if !empty.produce_one_row)
}

fn answered(expr: Expr) -> Result<Transformed<Expr>> {
    if !of(&expr).is_some_and(is_empty) {
        return Ok(Transformed::no(expr));
    }
    Ok(Transformed::yes(match expr {
        Expr::InSubquery(InSubquery { negated, .. }) | Expr::Exists(Exists { negated, .. }) => lit(negated),
        Expr::ScalarSubquery(subquery) => {
            let data_type = subquery.subquery.schema().field(0).data_type().clone();
            Expr::Literal(ScalarValue::try_from(&data_type)?, None)
        }
        other => other,
    }))
}
