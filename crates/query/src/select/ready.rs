//! A physical plan that is cached with its statement, because making it takes longer than running it over a small
//! table.
//!
//! Called by `SelectPlan::physical` for statements without parameters. A plan is cached only if it would be made
//! again in the same way: it reads whole grid tables without conditions, so that no access path was chosen, or
//! sharded tables, whose shards are asked by the conditions themselves; and all its nodes can be reset
//! (`reset_plan_states`). The only filters in it that change while it runs are those of our joins: scans drop them
//! when they are reset, and the rule that hands them out is applied again. If a table's size has changed, or it has
//! been analysed since, the plan is made anew, because the number of rows chooses some nodes, and statistics choose
//! the sides of joins. A join of sharded tables is also planned anew when it is time to ask their shards how many
//! rows they have.

use std::sync::Arc;

use ashlar_operators::UnchainedHashJoinExec;
use ashlar_store::{Region, TableStatistics};
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::session_state::SessionState;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, execution_plan::reset_plan_states};
use parking_lot::Mutex;

use crate::access::count::GridCountExec;
use crate::grid_table::GridScanExec;
use crate::sharded::sizes::{self, Presumed};

/// Nodes that start afresh, beside those that are looked at below.
const PLAIN_NODES: [&str; 11] = [
    "CoalescePartitionsExec",
    "CooperativeExec",
    "FilterExec",
    "GlobalLimitExec",
    "HashAggregateExec",
    "LocalLimitExec",
    "NullExtendedExec",
    "ProjectionExec",
    "RepartitionExec",
    "SortPreservingMergeExec",
    "UnchainedHashJoinExec",
];

/// A table that grew to twice its rows, or lost half of them, is another one; few rows are always few.
const FEW_ROWS: u64 = 4096;

/// See the module.
#[derive(Default)]
pub(crate) struct Ready(Mutex<Option<Kept>>);

struct Kept {
    /// Of the engine whose rules have made it.
    session: String,
    /// As it was before it ran: of what somebody runs it holds nothing.
    plan: Arc<dyn ExecutionPlan>,
    /// Whether it has joins, which tell scans what they have found.
    tells: bool,
    tables: Vec<Read>,
}

/// A table that a plan reads, as it was when the plan was made.
enum Read {
    Grid {
        region: Arc<Region>,
        rows: u64,
        /// What ANALYZE had found.
        statistics: Option<Arc<TableStatistics>>,
    },
    Sharded(Presumed),
}

impl Read {
    fn of(region: &Arc<Region>) -> Self {
        Self::Grid { region: Arc::clone(region), rows: region.row_estimate(), statistics: region.statistics() }
    }

    /// Whether a plan would be made just so again. `is_joined`: whether it has a join, whose sides the sizes of tables choose.
    fn is_as_before(&self, is_joined: bool) -> bool {
        match self {
            Self::Grid { region, rows, statistics } => {
                let known = region.statistics();
                is_of_size(*rows, region.row_estimate())
                    && known.as_ref().map(Arc::as_ptr) == statistics.as_ref().map(Arc::as_ptr)
            }
            // Who plans a join asks for what is not known any more.
            Self::Sharded(presumed) if is_joined && presumed.is_due() => false,
            Self::Sharded(presumed) => match (presumed.rows(), presumed.rows_now()) {
                (Some(before), Some(now)) => is_of_size(before as u64, now as u64),
                (before, now) => before == now,
            },
        }
    }
}

/// Whether a table still has about the rows that it had.
fn is_of_size(before: u64, now: u64) -> bool {
    now.max(before) <= FEW_ROWS || (now / 2 <= before && before / 2 <= now)
}

impl Ready {
    /// The plan that was kept for an engine of this state, as if it was just made.
    pub(crate) fn take(&self, state: &SessionState) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (plan, tells) = match &*self.0.lock() {
            Some(kept)
                if kept.session == state.session_id()
                    && kept.tables.iter().all(|read| read.is_as_before(kept.tells)) =>
            {
                (Arc::clone(&kept.plan), kept.tells)
            }
            _ => return Ok(None),
        };
        let plan = reset_plan_states(plan)?;
        if !tells {
            return Ok(Some(plan));
        }
        FilterPushdown::new_post_optimization().optimize(plan, state.config_options()).map(Some)
    }

    /// Keeps a plan that was just made, if it can be run again.
    pub(crate) fn keep(&self, session: &str, plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
        if let Some(tables) = tables_of(plan)? {
            let tells = plan.exists(|node| Ok(node.is::<UnchainedHashJoinExec>()))?;
            let plan = reset_plan_states(Arc::clone(plan))?;
            *self.0.lock() = Some(Kept { session: session.to_owned(), plan, tells, tables });
        }
        Ok(())
    }
}

/// The tables that a plan reads, with their rows; `None` for one that is not to be kept.
fn tables_of(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Vec<Read>>> {
    let (mut tables, mut is_kept) = (Vec::new(), true);
    plan.apply(|node| {
        if let Some(scan) = node.downcast_ref::<GridScanExec>() {
            tables.push(Read::of(scan.region()));
            is_kept &= scan.is_whole();
        } else if let Some(presumed) = sizes::presumed(node) {
            tables.push(Read::Sharded(presumed));
        } else if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
            // The least and the greatest tell the scan beneath what they have found.
            is_kept &= !aggregate.aggr_expr().iter().any(|of| matches!(of.fun().name(), "min" | "max"));
            is_kept &= aggregate.limit_options().is_none();
        } else if let Some(sort) = node.downcast_ref::<SortExec>() {
            is_kept &= sort.fetch().is_none();
        } else if node.downcast_ref::<GridCountExec>().is_none() {
            is_kept &= PLAIN_NODES.contains(&node.name());
        }
        Ok(if is_kept { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(is_kept.then_some(tables))
}

#[cfg(test)]
mod tests;
