//! Conditions that read no column stay above joins, and all stay above columns of one name.
//!
//! The engine hands a filter to the sides of a join that have its columns; one without columns it hands to every side, of an outer join too,
//! and takes it for done where one of them has it: a `FULL JOIN` of no rows with some gives these, although the condition above it is false.
//! So while filters are pushed down, such a condition stands on a fence, which lets none through; the others go on from beneath it.
//!
//! ```text
//!   FilterExec: (subquery) AND k = 1   ──▶   FilterExec: (subquery)
//!     HashJoinExec                             FenceExec
//!                                                FilterExec: k = 1
//!                                                  HashJoinExec
//! ```
//!
//! A condition that reads a column loses it where a projection makes that column from none: `s < s` over `(subquery) AS s` is such a condition
//! beneath the projection. So a fence stands there too, if there is something beneath that the condition must not pass.
//!
//! The engine's nodes know columns by their names, and of two with one name take the first: `q.c <> r.k` above a join would become
//! a condition on another `c`. Where names beneath a filter are not those of one column each, none of its conditions goes on; and no bound
//! that a sort, a join or an aggregation of the engine's finds while it runs.

use std::sync::Arc;

use ashlar_operators::is_clear;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;

use crate::fenced_limits::FenceExec;
use crate::node_rule::NodeRule;

/// The engine's rules that push filters down: those of the query, and those that are found while it runs.
pub(crate) const PUSHES_FILTERS: &str = "FilterPushdown";
pub(crate) const PUSHES_BOUNDS: &str = "FilterPushdown(Post)";

/// Puts fences beneath filters; see the module.
pub(crate) const HOLD_FILTERS: NodeRule = NodeRule { name: "hold_filters", of_node: held };

/// Before the second time: what nodes find while they run.
pub(crate) const HOLD_BOUNDS: NodeRule = NodeRule { name: "hold_bounds", of_node: without_bounds };

/// Takes the fences away again.
pub(crate) const RELEASE_FILTERS: NodeRule = NodeRule { name: "release_filters", of_node: FenceExec::taken_away };

fn without_bounds(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let finds_bounds = node.downcast_ref::<SortExec>().is_some_and(|sort| sort.fetch().is_some())
        || node.is::<HashJoinExec>()
        || node.is::<AggregateExec>();
    if !finds_bounds {
        return Ok(Transformed::no(node));
    }
    let mut is_held = false;
    let mut inputs = Vec::with_capacity(2);
    for input in node.children() {
        let is_clear = is_clear(input)?;
        is_held |= !is_clear;
        inputs.push(if is_clear { Arc::clone(input) } else { Arc::new(FenceExec::over(Arc::clone(input))) });
    }
    if is_held { replace_children_if_necessary(node, inputs).map(Transformed::yes) } else { Ok(Transformed::no(node)) }
}

fn held(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        let loses_columns =
            projection.expr().iter().any(|made| is_without_columns(&made.expr) && !is_literal(&made.expr));
        if !loses_columns || !has_sides(projection.input())? {
            return Ok(Transformed::no(node));
        }
        let beneath: Arc<dyn ExecutionPlan> = Arc::new(FenceExec::over(Arc::clone(projection.input())));
        return replace_children_if_necessary(node, vec![beneath]).map(Transformed::yes);
    }
    let Some(filter) = node.downcast_ref::<FilterExec>() else { return Ok(Transformed::no(node)) };
    let conditions = split_conjunction(filter.predicate()).into_iter().cloned();
    let is_clear = is_clear(filter.input())?;
    let (held, others): (Vec<_>, Vec<_>) = conditions.partition(|condition| !is_clear || is_without_columns(condition));
    if held.is_empty() {
        return Ok(Transformed::no(node));
    }
    let mut beneath = Arc::clone(filter.input());
    if !others.is_empty() {
        beneath = Arc::new(FilterExec::try_new(conjunction(others), beneath)?);
    }
    let above = FilterExecBuilder::from(filter).with_predicate(conjunction(held));
    let above = above.with_input(Arc::new(FenceExec::over(beneath))).build()?;
    Ok(Transformed::yes(Arc::new(above)))
}

fn is_without_columns(condition: &Arc<dyn PhysicalExpr>) -> bool {
    collect_columns(condition).is_empty()
}

/// What compares constants is one itself before there is a physical plan.
fn is_literal(made: &Arc<dyn PhysicalExpr>) -> bool {
    made.is::<Literal>()
}

/// Whether there is a join or an aggregation: what gives rows although one of its sides has none.
fn has_sides(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|node| Ok(node.children().len() > 1 || node.name().contains("Aggregate")))
}

#[cfg(test)]
mod tests {
    use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;

    use super::*;

    #[test]
    fn the_rules_that_push_filters_are_there() {
        for name in [PUSHES_FILTERS, PUSHES_BOUNDS] {
            assert!(PhysicalOptimizer::new().rules.iter().any(|rule| rule.name() == name), "{name}");
        }
    }
}
