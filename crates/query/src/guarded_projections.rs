//! Pushes projections towards the tables, except for expressions that may fail: as in PostgreSQL, those are evaluated
//! only for rows that pass the conditions beneath.
//!
//! Replaces the engine's rule, which handles every plan in which nothing may fail. That rule moves a projection beneath
//! a filter when this makes rows narrower, and precomputes parts of a nested-loop join condition for each row of one
//! side. Either may raise an error for a row that would never have been evaluated.

use std::sync::Arc;

use ashlar_functions::guards::{divides, is_total};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::projection_pushdown::ProjectionPushdown;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::projection::{ProjectionExec, remove_unnecessary_projections, try_embed_projection};

/// The engine's rule.
pub(crate) const STOCK: &str = "ProjectionPushdown";

/// Nodes that let a projection through to what is beneath them at once.
const OPEN: [&str; 5] = ["BufferExec", "CoalesceBatchesExec", "CooperativeExec", "NullExtendedExec", "ProjectionExec"];

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct GuardedProjections(ProjectionPushdown);

impl PhysicalOptimizerRule for GuardedProjections {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if !plan.exists(|node| Ok(computes(node) || joins(node) == Some(true)))? {
            return self.0.optimize(plan, config);
        }
        let joined = plan.transform_up(|node| match joins(&node) {
            Some(false) => self.of_join(node, config).map(Transformed::yes),
            _ => Ok(Transformed::no(node)),
        })?;
        joined.data.transform_down(pushed).map(|plan| plan.data)
    }

    fn name(&self) -> &str {
        "guarded_projections"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl GuardedProjections {
    /// What the engine's rule makes of a join by itself, over the inputs that it has.
    fn of_join(&self, join: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let inputs: Vec<Arc<dyn ExecutionPlan>> = join.children().into_iter().cloned().collect();
        let bare = |input: &Arc<dyn ExecutionPlan>| Arc::new(EmptyExec::new(input.schema())) as Arc<dyn ExecutionPlan>;
        let alone = replace_children_if_necessary(join, inputs.iter().map(bare).collect())?;
        // In their order, as those that stand for them.
        let mut inputs = inputs.into_iter();
        let whole = self.0.optimize(alone, config)?.transform_up(|node| {
            let input = if node.is::<EmptyExec>() { inputs.next() } else { None };
            Ok(input.map_or_else(|| Transformed::no(node), Transformed::yes))
        });
        whole.map(|plan| plan.data)
    }
}

/// A node as it is where a projection among what may fail has gone as far as it may.
fn pushed(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(projection) = plan.downcast_ref::<ProjectionExec>().filter(|_| reaches_filter(&plan)) else {
        return remove_unnecessary_projections(plan);
    };
    let Some(filter) = projection.input().downcast_ref::<FilterExec>() else { return Ok(Transformed::no(plan)) };
    // The filter leaves out what is needed by itself alone.
    let embedded = try_embed_projection(projection, filter)?.filter(|embedded| embedded.schema() == plan.schema());
    Ok(embedded.map_or_else(|| Transformed::no(Arc::clone(&plan)), Transformed::yes))
}

/// Whether something that may fail is computed by a projection, or by those right beneath it, that could go beneath a filter.
fn reaches_filter(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let (mut node, mut computed) = (plan, false);
    loop {
        computed |= computes(node);
        if node.is::<FilterExec>() {
            return computed;
        }
        let [input] = node.children()[..] else { return false };
        if !OPEN.contains(&node.name()) {
            return false;
        }
        node = input;
    }
}

/// Whether a node is a projection that computes what may fail.
fn computes(node: &Arc<dyn ExecutionPlan>) -> bool {
    let projection = node.downcast_ref::<ProjectionExec>();
    projection.is_some_and(|projection| projection.expr().iter().any(|projected| may_fail(&projected.expr)))
}

/// Of a join by nested loops with a condition: whether that may fail.
fn joins(node: &Arc<dyn ExecutionPlan>) -> Option<bool> {
    Some(may_fail(node.downcast_ref::<NestedLoopJoinExec>()?.filter()?.expression()))
}

/// Whether there may be rows of which an expression has no value: as [`ashlar_functions::guards::may_fail`] of one that runs.
fn may_fail(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let fails = |part: &Arc<dyn PhysicalExpr>| {
        if let Some(binary) = part.downcast_ref::<BinaryExpr>() {
            let constant = binary.right().downcast_ref::<Literal>().map(Literal::value);
            matches!(binary.op(), Operator::Divide | Operator::Modulo)
                && !divides(constant.unwrap_or(&ScalarValue::Null))
        } else {
            part.downcast_ref::<ScalarFunctionExpr>().is_some_and(|function| !is_total(function.fun().name()))
        }
    };
    let reads = |part: &Arc<dyn PhysicalExpr>| part.exists(|part| Ok(part.is::<Column>()));
    expr.exists(|part| Ok(fails(part) && reads(part)?)).unwrap_or(true)
}
