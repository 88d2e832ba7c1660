//! The servers that a plan reads, so that a snapshot of them can be fixed before the first row is requested: for plans
//! whose rows are read while other statements run, as behind a cursor.
//!
//! A scan asks its shard only when its first row is requested: the second side of a join when the first is complete,
//! and a scan that waits for a turn or a locked table only once it has that. By then other transactions may have
//! committed. Called by `transaction_reads`, while the session waits.

use std::collections::BTreeMap;
use std::sync::Arc;

use ashlar_base::Result;
use ashlar_functions::error::from_datafusion;
use ashlar_functions::tree::each_node_with_subqueries;
use ashlar_shard::snapshot::Reading;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::NestedLoopJoinExec;

use super::collation::provider_of;
use super::scan::ShardScanExec;

/// Nodes that run what is beneath them more than once, or run what is not seen beneath them: sub-queries for each row.
const REPEATING: [&str; 2] = ["RecursiveQueryExec", "async_func"];

/// The servers that a plan reads over connections of the pool, and how, those of `own` left out. `logical`: the same query, with all of its
/// sub-queries.
pub(super) fn of_plan(
    plan: &Arc<dyn ExecutionPlan>,
    logical: &LogicalPlan,
    own: &[Arc<str>],
) -> Result<BTreeMap<Arc<str>, Reading>> {
    let mut servers: BTreeMap<Arc<str>, Reading> = BTreeMap::new();
    let (mut is_repeated, mut is_run_again) = (false, false);
    let walked = plan.apply(|node| {
        // Its left side once more, where that has no room in memory.
        is_run_again |= node.is::<NestedLoopJoinExec>();
        is_repeated |= REPEATING.contains(&node.name());
        if let Some(scan) = node.downcast_ref::<ShardScanExec>() {
            for part in scan.parts() {
                servers.entry(Arc::clone(&part.server)).or_default().streams += 1;
            }
        }
        Ok(TreeNodeRecursion::Continue)
    });
    walked.map_err(from_datafusion)?;
    servers.values_mut().for_each(|reading| reading.is_sole = reading.streams == 1);
    if is_repeated {
        let mut repeated: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        let walked = each_node_with_subqueries(logical, |node| {
            if let Some(provider) = provider_of(node) {
                for shard in provider.table().routed.rule.shards() {
                    *repeated.entry(Arc::clone(&shard.server)).or_default() += 1;
                }
            }
            Ok(TreeNodeRecursion::Continue)
        });
        walked.map_err(from_datafusion)?;
        for (server, streams) in repeated {
            let reading = servers.entry(server).or_default();
            *reading = Reading { streams: reading.streams.max(streams), is_sole: false };
        }
    }
    if is_run_again {
        servers.values_mut().for_each(|reading| reading.is_sole = false);
    }
    servers.retain(|server, _| !own.contains(server));
    Ok(servers)
}
