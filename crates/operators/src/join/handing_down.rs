//! Which filters are pushed down through a join, and to which side.
//!
//! The engine's nodes push filters down by column name: of two columns with the same name they take the first, and a
//! union takes the column of that name in each of its inputs, wherever it is. So a filter is pushed down here only if
//! every column name beneath is unique. Of a semijoin it goes to the side whose rows come out. For a filter on a join
//! key the engine would also push one to the other side, as a filter on the column that has the key's name there; so
//! nothing is pushed down to a join beneath that is one of the engine's own. Called by `exec`, by the node that
//! pads rows with NULLs, and by the rules that hold filters of the engine's nodes.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{JoinType, Result};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::utils::collect_columns;
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::filter_pushdown::{ChildFilterDescription, FilterDescription, PushedDown};
use datafusion_physical_plan::joins::HashJoinExec;
use datafusion_physical_plan::union::{InterleaveExec, UnionExec};

/// Whether every name beneath a node, its own columns' among them, is that of one column, and stays it on the way down.
///
/// # Errors
/// As DataFusion's traversal.
pub fn is_clear(input: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let mut is_clear = true;
    input.apply(|node| {
        let schema = node.schema();
        let mut names = HashSet::new();
        is_clear &= schema.fields().iter().all(|field| names.insert(field.name().as_str()));
        if let Some(join) = node.downcast_ref::<HashJoinExec>() {
            is_clear &= !matches!(join.join_type(), JoinType::LeftSemi | JoinType::RightSemi);
        }
        if node.is::<UnionExec>() || node.is::<InterleaveExec>() {
            let has_same_names = |input: &&Arc<dyn ExecutionPlan>| {
                let of_input = input.schema();
                of_input.fields().iter().zip(schema.fields()).all(|(field, other)| field.name() == other.name())
            };
            is_clear &= node.children().iter().all(has_same_names);
        }
        Ok(if is_clear { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(is_clear)
}

/// What of a description of the engine's may stay: filters of nodes above, and those of the join itself.
pub(super) fn described(
    join: &HashJoinExec,
    engine: &FilterDescription,
    above: &[Arc<dyn PhysicalExpr>],
) -> Result<FilterDescription> {
    let comes_out = [*join.join_type() != JoinType::RightSemi, *join.join_type() != JoinType::LeftSemi];
    let sides = [join.left(), join.right()].into_iter().zip(comes_out);
    let mut described = FilterDescription::new();
    for ((side, comes_out), (filters, own)) in sides.zip(engine.parent_filters().into_iter().zip(engine.self_filters()))
    {
        // The engine takes a filter for a side where each of its columns is of that side: those columns are the same again.
        let taken = filters.iter().zip(above).filter(|(found, _)| matches!(found.discriminant, PushedDown::Yes));
        let columns: HashSet<usize> =
            taken.flat_map(|(_, filter)| collect_columns(filter)).map(|column| column.index()).collect();
        let child = if comes_out && is_clear(side)? {
            ChildFilterDescription::from_child_with_allowed_indices(above, columns, side)?
        } else {
            ChildFilterDescription::all_unsupported(above)
        };
        described = described.with_child(child.with_self_filters(own));
    }
    Ok(described)
}
