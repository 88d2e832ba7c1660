//! Analyzer rules that give DataFusion PostgreSQL's meaning where the two differ.

mod aggregates;
mod arithmetic;
mod casts;
pub mod conditions;
mod functions;
mod intervals;
mod jsonb;
mod literals;
mod numbers;
pub mod operators;
mod placement;

pub use aggregates::NumericAggregates;
pub use arithmetic::CheckedArithmetic;
pub use casts::TextCasts;
pub use conditions::Conditions;
pub use functions::SettleFunctions;
pub use jsonb::JsonbOrder;
pub use literals::NarrowIntegerLiterals;
pub use operators::PgOperators;
pub use placement::Placement;

use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, Result};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{Expr, LogicalPlan};

/// Whether a plan has an expression, in its sub-queries too, of which `wanted` says so. Stops at the first.
///
/// # Errors
/// As the walk's, and `wanted`'s.
pub fn any_expression(plan: &LogicalPlan, mut wanted: impl FnMut(&Expr) -> Result<bool>) -> Result<bool> {
    any_of(plan, &mut wanted)
}

/// The walk, compiled once and not for every caller.
fn any_of(plan: &LogicalPlan, wanted: &mut dyn FnMut(&Expr) -> Result<bool>) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                found = wanted(expr)?;
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })
    })?;
    Ok(found)
}

/// Rewrites every expression of a plan bottom up, sub-queries included, keeping the names of output columns.
///
/// # Errors
/// As the walk's, and `rewrite`'s.
pub fn rewrite_expressions(
    plan: LogicalPlan,
    mut rewrite: impl FnMut(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<LogicalPlan> {
    rewrite_each(plan, &mut rewrite)
}

/// The walk, compiled once and not for every caller.
fn rewrite_each(
    plan: LogicalPlan,
    rewrite: &mut dyn FnMut(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        let mut schema = merge_schema(&node.inputs());
        if let LogicalPlan::TableScan(scan) = &node {
            let source = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
            schema.merge(&source);
        }
        let names = NamePreserver::new(&node);
        let rewritten = node.map_expressions(|expr| {
            let saved = names.save(&expr);
            let result = expr.transform_up(|expr| rewrite(expr, &schema))?;
            Ok(if result.transformed { result.update_data(|expr| saved.restore(expr)) } else { result })
        })?;
        rewritten.map_data(LogicalPlan::recompute_schema)
    })
    .map(|transformed| transformed.data)
}
