//! The first rows of a union are those of its whole order.
//!
//! The engine leaves out of a sort what is constant in each stream, and merges the streams by all of it. But the streams of a sort with a
//! limit share the bound that they have found so far, of what the sort compares:
//!
//! ```text
//!   SortPreservingMergeExec: [c, a], fetch=3
//!     SortExec: TopK(fetch=3), expr=[a]          a of the rows whose c is 9 leaves out larger ones whose c is 5
//!       UnionExec
//!         ProjectionExec: expr=[a, 9 as c]
//!         ProjectionExec: expr=[a, 5 as c]
//! ```
//!
//! So such a sort compares what the merge above it does.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};

use crate::node_rule::NodeRule;

/// See the module.
pub(crate) const WHOLE_ORDERS: NodeRule = NodeRule { name: "whole_orders", of_node: whole };

fn whole(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(merge) = node.downcast_ref::<SortPreservingMergeExec>() else { return Ok(Transformed::no(node)) };
    let Some(sort) = merge.input().downcast_ref::<SortExec>() else { return Ok(Transformed::no(node)) };
    let is_union = |node: &Arc<dyn ExecutionPlan>| Ok(node.is::<UnionExec>() || node.is::<InterleaveExec>());
    if sort.fetch().is_none() || sort.expr() == merge.expr() || !sort.input().exists(is_union)? {
        return Ok(Transformed::no(node));
    }
    let sort = SortExec::new(merge.expr().clone(), Arc::clone(sort.input()))
        .with_fetch(sort.fetch())
        .with_preserve_partitioning(sort.preserve_partitioning());
    replace_children_if_necessary(node, vec![Arc::new(sort)]).map(Transformed::yes)
}
