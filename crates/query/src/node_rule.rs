//! Rules over physical plans that look at one node at a time.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

type Plan = Arc<dyn ExecutionPlan>;

/// A rule that makes of each node, from the leaves up, what its function makes of it. Schemas stay as they are.
#[derive(Debug)]
pub(crate) struct NodeRule {
    /// In EXPLAIN VERBOSE.
    pub(crate) name: &'static str,
    pub(crate) of_node: fn(Plan) -> Result<Transformed<Plan>>,
}

impl PhysicalOptimizerRule for NodeRule {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        plan.transform_up(self.of_node).map(|plan| plan.data)
    }

    fn name(&self) -> &str {
        self.name
    }

    fn schema_check(&self) -> bool {
        true
    }
}
