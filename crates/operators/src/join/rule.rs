//! The optimizer rule that replaces the engine's hash join with ours if ours can do the same.

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_physical_optimizer::PhysicalOptimizerRule;
use datafusion_physical_plan::joins::HashJoinExec;
use datafusion_physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::exec::UnchainedHashJoinExec;

/// The rule; see the module. It runs after the rule that decides which side of a join is the build side, and before those that divide
/// streams.
#[derive(Debug)]
pub struct HashJoins;

impl PhysicalOptimizerRule for HashJoins {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let replaced = plan.transform_up(|node| {
            let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(Transformed::no(node)) };
            Ok(match in_place_of(join)? {
                Some(own) => Transformed::yes(Arc::new(own) as Arc<dyn ExecutionPlan>),
                None => Transformed::no(node),
            })
        });
        replaced.map(|plan| plan.data)
    }

    fn name(&self) -> &str {
        "hash_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn in_place_of(join: &HashJoinExec) -> Result<Option<UnchainedHashJoinExec>> {
    let is_endless = join.left().boundedness().is_unbounded() || join.right().boundedness().is_unbounded();
    // The engine's gives rows out in the order in which those of the probe side come.
    let is_ordered = join.properties().output_ordering().is_some();
    let is_followed = !join.dynamic_expressions_produced().is_empty();
    if is_endless || is_ordered || is_followed || join.fetch().is_some() {
        return Ok(None);
    }
    UnchainedHashJoinExec::of(join)
}
