//! Replaces the engine's nodes by ours, one for one, in a part of a plan that is already divided.
//!
//! ```text
//!   plan   -> rules: `HashJoins`, `HashAggregates` -> streams are divided for what is there
//!   part   -> `in_stage`                            -> streams are what they were
//! ```
//!
//! The rules run before streams are divided, and replace two stages of an aggregation together with the exchange between them. A stage, a
//! part of a plan that another server has planned and divided, comes with the engine's nodes, and its consumers rely on the number of its
//! streams and on which rows are in which. So here each node of ours has the inputs, streams, schema and properties of the node that it
//! replaces.
//!
//! Not called in this repository: a worker calls it on a decoded plan before running it.

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_physical_expr::AcrossPartitions;
use datafusion_physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion_physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion_physical_plan::{ExecutionPlan, ExecutionPlanProperties, InputOrderMode, Partitioning};

use crate::aggregate::exec::HashAggregateExec;
use crate::aggregate::spec::Spec;
use crate::join::exec::UnchainedHashJoinExec;

/// Replaces the engine's equi-joins and aggregations in a part of a plan by our nodes. Partitioning, order and schema of every node stay
/// as they are, and the part may be cut out of its plan at any exchange.
///
/// The engine's own stay where ours could not keep that or could not do the same: first stages of aggregations, whose groups go to another
/// server in a form that this knows; what keeps the order of its rows, or has a limit; joins whose smaller side goes to all streams of the
/// other, if that is divided by keys, and those that tell scans of the same part what they have; keys of types that are not packed; inputs
/// without an end.
///
/// # Errors
/// Errors of expressions about their types, and of nodes above about their new inputs.
pub fn in_stage(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let replaced = plan.transform_up(|node| {
        let own = if let Some(join) = node.downcast_ref::<HashJoinExec>() {
            of_join(join)?
        } else if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
            of_aggregate(aggregate)?
        } else {
            None
        };
        Ok(match own {
            Some(own) => Transformed::yes(own),
            None => Transformed::no(node),
        })
    });
    replaced.map(|plan| plan.data)
}

fn of_join(join: &HashJoinExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let is_endless = join.left().boundedness().is_unbounded() || join.right().boundedness().is_unbounded();
    let is_ordered = join.properties().output_ordering().is_some();
    if is_endless || is_ordered || join.fetch().is_some() || is_told(join)? {
        return Ok(None);
    }
    let keeps_streams = match join.partition_mode() {
        // Stream by stream. Whether there is a NULL on the other side, no stream would know of the others.
        PartitionMode::Partitioned => !join.null_aware && streams_of(join.left()) == streams_of(join.right()),
        // All streams use one table: rows that went through files come out of any of them.
        PartitionMode::CollectLeft => !promises_streams(join),
        PartitionMode::Auto => false,
    };
    if !keeps_streams {
        return Ok(None);
    }
    let own = UnchainedHashJoinExec::one_for_one(join)?;
    Ok(own.map(|own| Arc::new(own) as Arc<dyn ExecutionPlan>))
}

fn streams_of(input: &Arc<dyn ExecutionPlan>) -> usize {
    input.output_partitioning().partition_count()
}

/// Whether something is promised of which rows are in which stream.
fn promises_streams(node: &dyn ExecutionPlan) -> bool {
    let properties = node.properties();
    let streams = properties.output_partitioning();
    let is_divided = !matches!(streams, Partitioning::UnknownPartitioning(_) | Partitioning::RoundRobinBatch(_));
    let constants = properties.equivalence_properties().constants();
    let differ = constants.iter().any(|one| matches!(one.across_partitions, AcrossPartitions::Heterogeneous));
    streams.partition_count() > 1 && (is_divided || differ)
}

/// Whether a scan beneath its probe side waits for what the join has to tell it.
fn is_told(join: &HashJoinExec) -> Result<bool> {
    let produced = join.dynamic_expressions_produced();
    let ids: Vec<u64> = produced.iter().filter_map(|filter| filter.expression_id()).collect();
    let mut is_told = false;
    if ids.is_empty() {
        return Ok(is_told);
    }
    join.right().apply(|node| {
        node.apply_expressions(&mut |root| {
            root.apply(|expr| {
                is_told |= expr.expression_id().is_some_and(|id| ids.contains(&id));
                Ok(if is_told { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })?;
        Ok(if is_told { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(is_told)
}

fn of_aggregate(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let is_ordered =
        *aggregate.input_order_mode() != InputOrderMode::Linear || aggregate.properties().output_ordering().is_some();
    let is_endless = aggregate.input().boundedness().is_unbounded();
    if is_endless || is_ordered || aggregate.limit_options().is_some() {
        return Ok(None);
    }
    let spec = match aggregate.mode() {
        AggregateMode::Single | AggregateMode::SinglePartitioned => Spec::of(aggregate, aggregate.schema())?,
        AggregateMode::Final | AggregateMode::FinalPartitioned => Spec::of_states(aggregate)?,
        // What it gives out another node of the engine's takes.
        AggregateMode::Partial | AggregateMode::PartialReduce => None,
    };
    Ok(spec.map(|spec| Arc::new(HashAggregateExec::one_for_one(aggregate, spec)) as Arc<dyn ExecutionPlan>))
}

#[cfg(test)]
mod tests;
