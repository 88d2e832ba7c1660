//! The collation of shards. If the order of texts decides a result, a shard has to compare texts byte by byte as the
//! engine does; a server with another collation is not read for such a plan. If all servers have the same other one
//! (`asked`), the plan is made anew so that it compares the ranks that one of them gives texts (`ranked`, `ranks`).

mod asked;
mod ranked;
mod ranks;

use std::any::Any;
use std::sync::Arc;

use arrow::datatypes::DataType;
use ashlar_functions::quantified::Quantified;
use ashlar_functions::tree::{each_expression_of, each_node_with_subqueries, each_part, rewrite_nodes_with_subqueries};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::expr::{AggregateFunctionParams, WindowFunctionParams};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Distinct, Expr, ExprSchemable, LogicalPlan, Operator, SortExpr};

pub(crate) use asked::{TextOrder, is_known_in_bytes, order};
pub(crate) use ranked::ranked;
pub(crate) use ranks::WithRanks;

use super::table::ShardedProvider;

/// Functions that compare their arguments, or what these are arrays of.
const COMPARING: [&str; 6] = ["greatest", "least", "array_lt", "array_le", "array_gt", "array_ge"];

/// Aggregates that compare what they are of. Others that do, such as `mode`, are made of an ordered array.
const CHOOSING: [&str; 2] = ["min", "max"];

/// The plan, and whether the order of texts of shards decides in it, which its scans of them are told.
///
/// # Errors
/// As DataFusion's traversal.
pub(crate) fn told(plan: LogicalPlan) -> Result<(LogicalPlan, bool)> {
    let mut is_sharded = false;
    each_node_with_subqueries(&plan, |node| {
        is_sharded |= provider_of(node).is_some();
        Ok(if is_sharded { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !is_sharded || !orders_text(&plan)? {
        return Ok((plan, false));
    }
    let told = rewrite_nodes_with_subqueries(plan, |node| {
        let Some(provider) = provider_of(&node) else { return Ok(Transformed::no(node)) };
        let LogicalPlan::TableScan(mut scan) = node else { return Ok(Transformed::no(node)) };
        scan.source = provider_as_source(Arc::new(provider.ordering_text()));
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    })?;
    Ok((told, true))
}

/// The sharded table that a node reads.
pub(super) fn provider_of(node: &LogicalPlan) -> Option<ShardedProvider> {
    let LogicalPlan::TableScan(scan) = node else { return None };
    let provider = source_as_provider(&scan.source).ok()?;
    let provider: &dyn Any = provider.as_ref();
    provider.downcast_ref::<ShardedProvider>().cloned()
}

fn orders_text(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    each_node_with_subqueries(plan, |node| {
        found |= compares(node)?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Whether a node itself compares texts.
fn compares(node: &LogicalPlan) -> Result<bool> {
    let mut schema = merge_schema(&node.inputs());
    if let LogicalPlan::TableScan(scan) = node {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    let is_by_text = |keys: &[SortExpr]| keys.iter().any(|key| is_text(&key.expr, &schema));
    let mut found = match node {
        LogicalPlan::Sort(sort) => is_by_text(&sort.expr),
        LogicalPlan::Distinct(Distinct::On(on)) => on.sort_expr.as_deref().is_some_and(is_by_text),
        _ => false,
    };
    each_expression_of(node, |expr| {
        each_part(expr, |expr| {
            found |= compares_text(expr, &schema);
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}

fn compares_text(expr: &Expr, schema: &DFSchema) -> bool {
    let any_text = |exprs: &[Expr]| exprs.iter().any(|expr| is_text(expr, schema));
    let is_by_text = |keys: &[SortExpr]| keys.iter().any(|key| is_text(&key.expr, schema));
    match expr {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq,
            right,
        }) => is_text(left, schema) || is_text(right, schema),
        Expr::Between(between) => is_text(&between.expr, schema),
        Expr::ScalarFunction(function) => {
            let quantified = function.func.inner().downcast_ref::<Quantified>();
            let is_by_order = quantified.is_some_and(|quantified| !matches!(quantified.comparison.sign(), "=" | "<>"));
            (is_by_order || COMPARING.contains(&function.func.name())) && any_text(&function.args)
        }
        Expr::AggregateFunction(function) => {
            let AggregateFunctionParams { args, order_by, .. } = &function.params;
            is_by_text(order_by) || CHOOSING.contains(&function.func.name()) && any_text(args)
        }
        Expr::WindowFunction(function) => {
            let WindowFunctionParams { args, order_by, .. } = &function.params;
            is_by_text(order_by) || CHOOSING.contains(&function.fun.name()) && any_text(args)
        }
        Expr::SetComparison(comparison) => is_text(&comparison.expr, schema),
        _ => false,
    }
}

/// What jsonb, and arrays of it, are sorted and compared by: the texts in them are in the order of the database too.
const JSON_KEYS: [&str; 2] = ["jsonb key", "jsonb keys"];

/// Whether an expression is text, or has texts in it that are compared with it.
fn is_text(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::Alias(alias) => return is_text(&alias.expr, schema),
        Expr::ScalarFunction(function) if JSON_KEYS.contains(&function.func.name()) => return true,
        _ => {}
    }
    let is = |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    match expr.get_type(schema) {
        Ok(DataType::List(field)) => is(field.data_type()),
        Ok(data_type) => is(&data_type),
        // What cannot be told may be.
        Err(_) => true,
    }
}
