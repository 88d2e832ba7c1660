//! Walks over the engine's plans and expressions.
//!
//! DataFusion's walks are generic over what they call: every place that calls one with a closure of its own makes
//! hundreds of functions. Here each walk is made once, for a closure behind a pointer. Each does as the one of `TreeNode`
//! or `LogicalPlan` that its description names.

use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, Result};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::utils::{conjunction, merge_schema, split_conjunction_owned};
use datafusion_expr::{Expr, LogicalPlan, lit};

type Look<'f, N> = &'f mut dyn FnMut(&N) -> Result<TreeNodeRecursion>;
type Ask<'f, N> = &'f mut dyn FnMut(&N) -> Result<bool>;
type Rewrite<'f, N> = &'f mut dyn FnMut(N) -> Result<Transformed<N>>;

/// Calls `f` with an expression and its parts, those around others first: `apply`.
///
/// # Errors
/// As `f`'s.
pub fn each_part(expr: &Expr, mut f: impl FnMut(&Expr) -> Result<TreeNodeRecursion>) -> Result<TreeNodeRecursion> {
    fn walk(expr: &Expr, f: Look<'_, Expr>) -> Result<TreeNodeRecursion> {
        expr.apply(f)
    }
    walk(expr, &mut f)
}

/// Whether `wanted` says so of an expression or a part of it; the first ends the search: `exists`.
///
/// # Errors
/// As `wanted`'s.
pub fn any_part(expr: &Expr, mut wanted: impl FnMut(&Expr) -> Result<bool>) -> Result<bool> {
    fn walk(expr: &Expr, wanted: Ask<'_, Expr>) -> Result<bool> {
        let mut found = false;
        each_part(expr, |part| until(&mut found, wanted(part)?))?;
        Ok(found)
    }
    walk(expr, &mut wanted)
}

/// Calls `f` with what an expression is made of directly: `apply_children`.
///
/// # Errors
/// As `f`'s.
pub fn each_operand(expr: &Expr, mut f: impl FnMut(&Expr) -> Result<TreeNodeRecursion>) -> Result<TreeNodeRecursion> {
    fn walk(expr: &Expr, f: Look<'_, Expr>) -> Result<TreeNodeRecursion> {
        expr.apply_children(f)
    }
    walk(expr, &mut f)
}

/// Rewrites an expression and its parts, those inside others first: `transform_up`.
///
/// # Errors
/// As `rewrite`'s.
pub fn rewrite_parts(
    expr: Expr,
    mut rewrite: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<Expr>> {
    fn walk(expr: Expr, rewrite: Rewrite<'_, Expr>) -> Result<Transformed<Expr>> {
        expr.transform_up(rewrite)
    }
    walk(expr, &mut rewrite)
}

/// Rewrites an expression and its parts, those around others first: `transform_down`.
///
/// # Errors
/// As `rewrite`'s.
pub fn rewrite_parts_down(
    expr: Expr,
    mut rewrite: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<Expr>> {
    fn walk(expr: Expr, rewrite: Rewrite<'_, Expr>) -> Result<Transformed<Expr>> {
        expr.transform_down(rewrite)
    }
    walk(expr, &mut rewrite)
}

/// Calls `f` with the expressions of one node of a plan: `apply_expressions`.
///
/// # Errors
/// As `f`'s.
pub fn each_expression_of(
    node: &LogicalPlan,
    mut f: impl FnMut(&Expr) -> Result<TreeNodeRecursion>,
) -> Result<TreeNodeRecursion> {
    fn walk(node: &LogicalPlan, f: Look<'_, Expr>) -> Result<TreeNodeRecursion> {
        node.apply_expressions(f)
    }
    walk(node, &mut f)
}

/// Rewrites the expressions of one node of a plan: `map_expressions`.
///
/// # Errors
/// As `rewrite`'s.
pub fn rewrite_expressions_of(
    node: LogicalPlan,
    mut rewrite: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    fn walk(node: LogicalPlan, rewrite: Rewrite<'_, Expr>) -> Result<Transformed<LogicalPlan>> {
        node.map_expressions(rewrite)
    }
    walk(node, &mut rewrite)
}

/// Calls `f` with a plan's nodes, those above others first, without those of sub-queries: `apply`.
///
/// # Errors
/// As `f`'s.
pub fn each_node(
    plan: &LogicalPlan,
    mut f: impl FnMut(&LogicalPlan) -> Result<TreeNodeRecursion>,
) -> Result<TreeNodeRecursion> {
    fn walk(plan: &LogicalPlan, f: Look<'_, LogicalPlan>) -> Result<TreeNodeRecursion> {
        plan.apply(f)
    }
    walk(plan, &mut f)
}

/// Whether `wanted` says so of a plan's node, without those of sub-queries; the first ends the search: `exists`.
///
/// # Errors
/// As `wanted`'s.
pub fn any_node(plan: &LogicalPlan, mut wanted: impl FnMut(&LogicalPlan) -> Result<bool>) -> Result<bool> {
    fn walk(plan: &LogicalPlan, wanted: Ask<'_, LogicalPlan>) -> Result<bool> {
        let mut found = false;
        each_node(plan, |node| until(&mut found, wanted(node)?))?;
        Ok(found)
    }
    walk(plan, &mut wanted)
}

/// Calls `f` with the nodes of a plan and of its sub-queries, those above others first: `apply_with_subqueries`.
///
/// # Errors
/// As `f`'s.
pub fn each_node_with_subqueries(
    plan: &LogicalPlan,
    mut f: impl FnMut(&LogicalPlan) -> Result<TreeNodeRecursion>,
) -> Result<TreeNodeRecursion> {
    fn walk(plan: &LogicalPlan, f: Look<'_, LogicalPlan>) -> Result<TreeNodeRecursion> {
        plan.apply_with_subqueries(f)
    }
    walk(plan, &mut f)
}

/// Whether `wanted` says so of a node of a plan or of its sub-queries; the first ends the search.
///
/// # Errors
/// As `wanted`'s.
pub fn any_node_with_subqueries(
    plan: &LogicalPlan,
    mut wanted: impl FnMut(&LogicalPlan) -> Result<bool>,
) -> Result<bool> {
    fn walk(plan: &LogicalPlan, wanted: Ask<'_, LogicalPlan>) -> Result<bool> {
        let mut found = false;
        each_node_with_subqueries(plan, |node| until(&mut found, wanted(node)?))?;
        Ok(found)
    }
    walk(plan, &mut wanted)
}

/// Rewrites what a node of a plan reads directly: `map_children`.
///
/// # Errors
/// As `rewrite`'s.
pub fn rewrite_inputs(
    node: LogicalPlan,
    mut rewrite: impl FnMut(LogicalPlan) -> Result<Transformed<LogicalPlan>>,
) -> Result<Transformed<LogicalPlan>> {
    fn walk(node: LogicalPlan, rewrite: Rewrite<'_, LogicalPlan>) -> Result<Transformed<LogicalPlan>> {
        node.map_children(rewrite)
    }
    walk(node, &mut rewrite)
}

/// Rewrites a plan's nodes, those below others first, without those of sub-queries: `transform_up`.
///
/// # Errors
/// As `rewrite`'s.
pub fn rewrite_nodes(
    plan: LogicalPlan,
    mut rewrite: impl FnMut(LogicalPlan) -> Result<Transformed<LogicalPlan>>,
) -> Result<LogicalPlan> {
    fn walk(plan: LogicalPlan, rewrite: Rewrite<'_, LogicalPlan>) -> Result<LogicalPlan> {
        plan.transform_up(rewrite).map(|transformed| transformed.data)
    }
    walk(plan, &mut rewrite)
}

/// Rewrites the nodes of a plan and of its sub-queries, those below others first: `transform_up_with_subqueries`.
///
/// # Errors
/// As `rewrite`'s.
pub fn rewrite_nodes_with_subqueries(
    plan: LogicalPlan,
    mut rewrite: impl FnMut(LogicalPlan) -> Result<Transformed<LogicalPlan>>,
) -> Result<LogicalPlan> {
    fn walk(plan: LogicalPlan, rewrite: Rewrite<'_, LogicalPlan>) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(rewrite).map(|transformed| transformed.data)
    }
    walk(plan, &mut rewrite)
}

/// Rewrites the conditions that each filter of a plan and of its sub-queries joins by AND, of filters below others first; `rewrite` is told
/// the columns of the rows too. A filter of which none is another one stays as it is.
///
/// # Errors
/// As `rewrite`'s.
pub fn rewrite_conjuncts(
    plan: LogicalPlan,
    mut rewrite: impl FnMut(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<LogicalPlan> {
    rewrite_nodes_with_subqueries(plan, |node| {
        let LogicalPlan::Filter(mut filter) = node else { return Ok(Transformed::no(node)) };
        let mut is_other = false;
        let mut conjuncts = Vec::new();
        for conjunct in split_conjunction_owned(filter.predicate.clone()) {
            let rewritten = rewrite(conjunct, filter.input.schema())?;
            is_other |= rewritten.transformed;
            conjuncts.push(rewritten.data);
        }
        if !is_other {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        }
        filter.predicate = conjunction(conjuncts).unwrap_or_else(|| lit(true));
        Ok(Transformed::yes(LogicalPlan::Filter(filter)))
    })
}

/// Rewrites the nodes of a plan and of its sub-queries, those above others first: `transform_down_with_subqueries`.
///
/// # Errors
/// As `rewrite`'s.
pub fn rewrite_nodes_down_with_subqueries(
    plan: LogicalPlan,
    mut rewrite: impl FnMut(LogicalPlan) -> Result<Transformed<LogicalPlan>>,
) -> Result<LogicalPlan> {
    fn walk(plan: LogicalPlan, rewrite: Rewrite<'_, LogicalPlan>) -> Result<LogicalPlan> {
        plan.transform_down_with_subqueries(rewrite).map(|transformed| transformed.data)
    }
    walk(plan, &mut rewrite)
}

/// Whether a plan has an expression, in its sub-queries too, of which `wanted` says so. Stops at the first.
///
/// # Errors
/// As the walk's, and `wanted`'s.
pub fn any_expression(plan: &LogicalPlan, mut wanted: impl FnMut(&Expr) -> Result<bool>) -> Result<bool> {
    fn walk(plan: &LogicalPlan, wanted: Ask<'_, Expr>) -> Result<bool> {
        let mut found = false;
        each_node_with_subqueries(plan, |node| {
            each_expression_of(node, |expr| each_part(expr, |part| until(&mut found, wanted(part)?)))
        })?;
        Ok(found)
    }
    walk(plan, &mut wanted)
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

fn rewrite_each(
    plan: LogicalPlan,
    rewrite: &mut dyn FnMut(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<LogicalPlan> {
    rewrite_nodes_with_subqueries(plan, |node| {
        let mut schema = merge_schema(&node.inputs());
        if let LogicalPlan::TableScan(scan) = &node {
            let source = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
            schema.merge(&source);
        }
        let names = NamePreserver::new(&node);
        let rewritten = rewrite_expressions_of(node, |expr| {
            let saved = names.save(&expr);
            let result = rewrite_parts(expr, |expr| rewrite(expr, &schema))?;
            Ok(if result.transformed { result.update_data(|expr| saved.restore(expr)) } else { result })
        })?;
        rewritten.map_data(LogicalPlan::recompute_schema)
    })
}

/// Goes on until something is found.
fn until(found: &mut bool, is_wanted: bool) -> Result<TreeNodeRecursion> {
    *found = is_wanted;
    Ok(if is_wanted { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
}
