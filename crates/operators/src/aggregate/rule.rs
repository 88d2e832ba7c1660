//! The optimizer rule that replaces the engine's aggregation with ours where ours can do the same.

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_physical_optimizer::PhysicalOptimizerRule;
use datafusion_physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion_physical_plan::sorts::sort::SortExec;
use datafusion_physical_plan::{ExecutionPlan, InputOrderMode};

use super::exec::HashAggregateExec;
use super::spec::Spec;

/// The rule; see the module. It runs after the rules that give aggregations a limit, and before those that divide streams.
#[derive(Debug)]
pub struct HashAggregates;

impl PhysicalOptimizerRule for HashAggregates {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let streams = config.execution.target_partitions.max(1);
        // Those that stay; what is beneath them does not.
        let mut of_few: Vec<Arc<dyn ExecutionPlan>> = Vec::new();
        let replaced = plan.transform_down(|node| {
            if let Some(sort) = node.downcast_ref::<SortExec>() {
                of_few.extend(wanted_of_few(sort).cloned());
            }
            if of_few.iter().any(|stays| Arc::ptr_eq(stays, &node)) {
                return Ok(Transformed::no(node));
            }
            let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return Ok(Transformed::no(node)) };
            Ok(match in_place_of(aggregate, streams)? {
                Some(own) => Transformed::yes(Arc::new(own) as Arc<dyn ExecutionPlan>),
                None => Transformed::no(node),
            })
        });
        replaced.map(|plan| plan.data)
    }

    fn name(&self) -> &str {
        "hash_aggregates"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The aggregation beneath a sort of which the engine keeps no more groups than that wants: in the order of its only column.
fn wanted_of_few(sort: &SortExec) -> Option<&Arc<dyn ExecutionPlan>> {
    let mut node = sort.input();
    while node.name() == "ProjectionExec"
        && let [input] = node.children()[..]
    {
        node = input;
    }
    let aggregate = node.downcast_ref::<AggregateExec>()?;
    let is_one = aggregate.group_expr().expr().len() == 1 && sort.expr().len() == 1;
    let is_few = sort.fetch().is_some()
        && is_one
        && (aggregate.get_minmax_desc().is_some() || aggregate.is_unordered_unfiltered_group_by_distinct());
    is_few.then_some(node)
}

fn in_place_of(last: &AggregateExec, streams: usize) -> Result<Option<HashAggregateExec>> {
    let first = match last.mode() {
        AggregateMode::Final | AggregateMode::FinalPartitioned => match last.input().downcast_ref::<AggregateExec>() {
            Some(first) if *first.mode() == AggregateMode::Partial => first,
            _ => return Ok(None),
        },
        AggregateMode::Single | AggregateMode::SinglePartitioned => last,
        _ => return Ok(None),
    };
    let is_limited = last.limit_options().is_some() || first.limit_options().is_some();
    // Of rows that come in the order of their groups the engine holds one group at a time.
    if is_limited || *first.input_order_mode() != InputOrderMode::Linear {
        return Ok(None);
    }
    let spec = Spec::of(first, last.schema())?;
    Ok(spec.map(|spec| HashAggregateExec::new(Arc::clone(first.input()), spec, streams)))
}
