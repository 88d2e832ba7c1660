//! LIMIT and OFFSET count in bigint: a quoted number is read as one, other numbers are cast, a parameter is one.
//!
//! Runs before the types of parameters are settled, and again where a count is asked of a subquery, right before the query that it is a count
//! of. That a count is not negative is found when its value is known: where a subquery says it, here, because no rule of the engine
//! looks at the plan afterwards.

use std::sync::Arc;

use ashlar_base::value::text::{self, TextStyle};
use ashlar_base::{Error, ErrorCode, ScalarType, Value};
use ashlar_functions::catalog::name_of;
use ashlar_functions::error::external;
use ashlar_functions::fields::field_of;
use ashlar_functions::tree::{
    any_node, any_part, each_node, each_node_with_subqueries, rewrite_nodes, rewrite_nodes_with_subqueries,
};
use ashlar_store::arrow_types::sql_type_of;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{Cast, EmptyRelation, Expr, ExprSchemable, Limit, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::execute_stream;
use futures::StreamExt;

use super::per_row::{self, Runner};
use super::runnable::runnable;

/// Makes the counts of a plan's LIMIT and OFFSET bigint.
///
/// # Errors
/// 42804 for what is no number, 22P02 for a quoted literal that is none; 0A000 for a count that a subquery asks of another one.
pub(super) fn typed(plan: LogicalPlan) -> Result<LogicalPlan> {
    let (mut all, mut own) = (0_usize, 0_usize);
    each_node_with_subqueries(&plan, |node| {
        all += usize::from(asks(node)?);
        Ok(TreeNodeRecursion::Continue)
    })?;
    each_node(&plan, |node| {
        own += usize::from(asks(node)?);
        Ok(TreeNodeRecursion::Continue)
    })?;
    // A subquery is joined to the rows around it before anybody knows the count.
    if all > own {
        let message = "LIMIT and OFFSET of a subquery's value are not supported within a subquery";
        return Err(external(Error::unsupported(message)));
    }
    rewrite_nodes_with_subqueries(plan, |node| {
        let LogicalPlan::Limit(mut limit) = node else { return Ok(Transformed::no(node)) };
        limit.skip = limit.skip.map(|skip| count(*skip, "OFFSET").map(Box::new)).transpose()?;
        limit.fetch = limit.fetch.map(|fetch| count(*fetch, "LIMIT").map(Box::new)).transpose()?;
        Ok(Transformed::yes(LogicalPlan::Limit(limit)))
    })
}

fn count(expr: Expr, clause: &str) -> Result<Expr> {
    let (_, field) = expr.to_field(&DFSchema::empty())?;
    let bigint = ScalarType::Int8.into();
    if let Expr::Literal(ScalarValue::Utf8(Some(quoted)), _) = &expr
        && !field.metadata().contains_key("ashlar.type")
    {
        let read = text::parse(bigint, quoted, &TextStyle::default()).map_err(external)?;
        let value = if let Value::Int8(value) = read { Some(value) } else { None };
        return Ok(Expr::Literal(ScalarValue::Int64(value), None));
    }
    let found = field.data_type();
    if found.is_integer() || found.is_floating() || found.is_decimal() || found.is_null() {
        return Ok(Expr::Cast(Cast { expr: Box::new(expr), field: field_of("count", bigint) }));
    }
    let found = sql_type_of(&field).map_or_else(|| found.to_string(), name_of);
    let message = format!("argument of {clause} must be type bigint, not type {found}");
    Err(external(Error::new(ErrorCode::DatatypeMismatch, message)))
}

/// Whether it limits rows by what a subquery says.
fn asks(node: &LogicalPlan) -> Result<bool> {
    let LogicalPlan::Limit(limit) = node else { return Ok(false) };
    for count in counts(limit) {
        if any_part(count, |part| Ok(matches!(part, Expr::ScalarSubquery(_))))? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn counts(limit: &Limit) -> impl Iterator<Item = &Expr> {
    limit.skip.iter().chain(&limit.fetch).map(|count| &**count)
}

/// Whether counts of a plan are asked of subqueries.
pub(super) fn are_asked(plan: &LogicalPlan) -> Result<bool> {
    any_node(plan, asks)
}

/// The plan with the counts that its subqueries have found.
///
/// # Errors
/// 2201W and 2201X for counts below zero, and errors of the subqueries.
pub(super) async fn asked(plan: LogicalPlan, runner: &Runner) -> Result<LogicalPlan> {
    let mut wanted: Vec<Expr> = Vec::new();
    each_node(&plan, |node| {
        if asks(node)?
            && let LogicalPlan::Limit(limit) = node
        {
            wanted.extend(counts(limit).filter(|count| !matches!(count, Expr::Literal(..))).cloned());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let mut known: Vec<(Expr, ScalarValue)> = Vec::with_capacity(wanted.len());
    for count in wanted {
        if !known.iter().any(|(other, _)| *other == count) {
            let value = found(count.clone(), runner).await?;
            known.push((count, value));
        }
    }
    let counted = |count: Box<Expr>| match known.iter().find(|(other, _)| *other == *count) {
        Some((_, value)) => Box::new(Expr::Literal(value.clone(), None)),
        None => count,
    };
    rewrite_nodes(plan, |node| match node {
        LogicalPlan::Limit(mut limit) => {
            limit.skip = limit.skip.map(&counted);
            limit.fetch = limit.fetch.map(&counted);
            bounded(limit).map(Transformed::yes)
        }
        other => Ok(Transformed::no(other)),
    })
}

/// A limit whose counts are known. The engine sorts for no fewer rows than one: where none is wanted, nothing is run, as in PostgreSQL.
fn bounded(limit: Limit) -> Result<LogicalPlan> {
    let value = |count: &Option<Box<Expr>>| match count.as_deref() {
        Some(Expr::Literal(ScalarValue::Int64(value), _)) => *value,
        _ => None,
    };
    let (skip, fetch) = (value(&limit.skip), value(&limit.fetch));
    // In PostgreSQL's order.
    for (count, code, clause) in [(skip, ErrorCode::InvalidOffset, "OFFSET"), (fetch, ErrorCode::InvalidLimit, "LIMIT")]
    {
        if count.is_some_and(|count| count < 0) {
            return Err(external(Error::new(code, format!("{clause} must not be negative"))));
        }
    }
    Ok(match fetch {
        Some(0) => {
            let schema = Arc::clone(limit.input.schema());
            LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, schema })
        }
        _ => LogicalPlan::Limit(limit),
    })
}

/// The value of a count.
async fn found(count: Expr, runner: &Runner) -> Result<ScalarValue> {
    let plan = LogicalPlanBuilder::empty(true).project(vec![count.alias("count")])?.build()?;
    let state = &runner.state;
    let plan = state.optimizer().optimize(plan, state.as_ref(), |_, _| {})?;
    let plan = runnable(Box::pin(per_row::physical(plan, runner)).await?)?;
    let mut rows = execute_stream(plan, Arc::clone(&runner.context))?;
    let mut value = ScalarValue::Int64(None);
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        if batch.num_rows() > 0 {
            value = ScalarValue::try_from_array(batch.column(0), 0)?;
        }
    }
    Ok(value)
}
