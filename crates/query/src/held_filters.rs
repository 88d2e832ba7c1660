//! Conditions that read no column stay above joins.
//!
//! The engine hands a filter to the sides of a join that have its columns; one without columns it hands to every side, of an outer join too,
//! and takes it for done where one of them has it: a `FULL JOIN` of no rows with some gives these, although the condition above it is false.
//! So while filters are pushed down, such a condition stands on a fence, which lets none through; the others go on from beneath it. The fence
//! goes with those of limits.
//!
//! ```text
//!   FilterExec: (subquery) AND k = 1   ──▶   FilterExec: (subquery)
//!     HashJoinExec                             FenceExec
//!                                                FilterExec: k = 1
//!                                                  HashJoinExec
//! ```

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};

use crate::fenced_limits::FenceExec;

/// The engine's rule that pushes filters down, which this one stands before.
pub(crate) const PUSHES_FILTERS: &str = "FilterPushdown";

/// See the module.
#[derive(Debug)]
pub(crate) struct HoldFilters;

impl PhysicalOptimizerRule for HoldFilters {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(held).map(|plan| plan.data)
    }

    fn name(&self) -> &str {
        "hold_filters"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn held(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(filter) = node.downcast_ref::<FilterExec>() else { return Ok(Transformed::no(node)) };
    let conditions = split_conjunction(filter.predicate()).into_iter().cloned();
    let (held, others): (Vec<_>, Vec<_>) = conditions.partition(is_without_columns);
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

#[cfg(test)]
mod tests {
    use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;

    use super::*;

    #[test]
    fn the_rule_that_pushes_filters_is_there() {
        assert!(PhysicalOptimizer::new().rules.iter().any(|rule| rule.name() == PUSHES_FILTERS));
    }
}
