//! The homes of the tables that a query reads. Tables of different homes have no common snapshot.
//!
//! The session asks for them before it starts a query.

use std::any::Any;

use ashlar_functions::tree::each_node_with_subqueries;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::LogicalPlan;

use super::collation::provider_of;
use crate::grid_table::GridTable;
use crate::select::SelectPlan;

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Homes {
    /// It reads tables that are on shards.
    pub shards: bool,
    /// It reads tables in the memory of this server.
    pub memory: bool,
}

impl Homes {
    /// Those of a query, sub-queries included.
    pub fn of(query: &SelectPlan) -> Self {
        let mut homes = Self::default();
        let walked = each_node_with_subqueries(query.logical(), |node| {
            homes.shards |= provider_of(node).is_some();
            homes.memory |= is_in_memory(node);
            Ok(TreeNodeRecursion::Continue)
        });
        // What cannot be walked may read anything.
        if walked.is_ok() { homes } else { Self { shards: true, memory: true } }
    }
}

fn is_in_memory(node: &LogicalPlan) -> bool {
    let LogicalPlan::TableScan(scan) = node else { return false };
    let Ok(provider) = source_as_provider(&scan.source) else { return false };
    let provider: &dyn Any = provider.as_ref();
    provider.is::<GridTable>()
}
