//! LIMIT and OFFSET count in bigint: a quoted number is read as one, other numbers are cast, a parameter is one.
//!
//! Runs before the types of parameters are settled, and again where a count is asked of a subquery, right before the query that it is a count
//! of. That a count is not negative is found when its value is known: in the query as it is written, of the values of parameters, and of
//! what a subquery says. The engine would not say so where it knows without the count that there are no rows.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::DataType;
use ashlar_base::value::text::{self, TextStyle};
use ashlar_base::{Error, ErrorCode, ScalarType, Value};
use ashlar_functions::catalog::name_of;
use ashlar_functions::error::external;
use ashlar_functions::fields::field_of;
use ashlar_functions::tree::{
    any_node, any_part, each_node, each_node_with_subqueries, rewrite_nodes, rewrite_nodes_with_subqueries,
};
use ashlar_functions::walk;
use ashlar_store::arrow_types::sql_type_of;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{Cast, EmptyRelation, Expr, ExprSchemable, Limit, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::execute_stream;
use datafusion::sql::sqlparser::ast::{Expr as AstExpr, LimitClause, Query, SetExpr};
use futures::StreamExt;

use super::Planner;
use super::names::folded;
use super::per_row::{self, Runner};
use super::runnable::runnable;
use super::sources::{self, Sources};

/// Refuses counts that read columns of the query that they limit. The engine looks for their names in the queries around alone.
///
/// # Errors
/// 42P10
pub(super) fn check(planner: &Planner<'_>, query: &mut Query) -> ashlar_base::Result<()> {
    sources::in_each_query(planner, query, check_one)
}

fn check_one(sources: &Sources<'_, '_>, query: &mut Query) -> ashlar_base::Result<()> {
    let (limit, offset) = match &query.limit_clause {
        Some(LimitClause::LimitOffset { limit, offset, .. }) => {
            (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
        }
        Some(LimitClause::OffsetCommaLimit { offset, limit }) => (Some(limit), Some(offset)),
        None => return Ok(()),
    };
    let SetExpr::Select(select) = query.body.as_ref() else { return Ok(()) };
    // In PostgreSQL's order.
    for (count, clause) in [(offset, "OFFSET"), (limit, "LIMIT")] {
        let Some(count) = count else { continue };
        let named = names_of(count);
        if named.is_empty() {
            continue;
        }
        let Some(columns) = sources.of_from(&select.from) else { return Ok(()) };
        let is_own = |(table, name): &(Option<String>, String)| {
            columns.iter().any(|column| column.name == *name && (table.is_none() || column.table == *table))
        };
        if named.iter().any(is_own) {
            let message = format!("argument of {clause} must not contain variables");
            return Err(Error::new(ErrorCode::InvalidColumnReference, message));
        }
    }
    Ok(())
}

/// The columns that a count reads, with their tables where it says them.
fn names_of(count: &AstExpr) -> Vec<(Option<String>, String)> {
    let mut named = Vec::new();
    // It goes through to the end.
    let _ = walk::own_expressions(count, |expr| {
        match expr {
            AstExpr::Identifier(name) => named.push((None, folded(name))),
            AstExpr::CompoundIdentifier(names) => {
                if let [.., table, name] = &names[..] {
                    named.push((Some(folded(table)), folded(name)));
                }
            }
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    named
}

/// Makes the counts of a plan's LIMIT and OFFSET bigint.
///
/// # Errors
/// 42804 for what is no number, 22P02 for a quoted literal that is none, 2201W and 2201X for numbers below zero, 42803 and 42P20 for
/// aggregates and window functions; 0A000 for a count that a subquery asks of another one.
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
        not_negative(&limit)?;
        Ok(Transformed::yes(LogicalPlan::Limit(limit)))
    })
}

fn count(expr: Expr, clause: &str) -> Result<Expr> {
    if any_part(&expr, |part| Ok(matches!(part, Expr::AggregateFunction(_))))? {
        let message = format!("aggregate functions are not allowed in {clause}");
        return Err(external(Error::new(ErrorCode::GroupingError, message)));
    }
    if any_part(&expr, |part| Ok(matches!(part, Expr::WindowFunction(_))))? {
        let message = format!("window functions are not allowed in {clause}");
        return Err(external(Error::new(ErrorCode::WindowingError, message)));
    }
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

/// Refuses counts below zero among those that are known, as those of parameters are once these have values.
///
/// # Errors
/// 2201W, 2201X
pub(super) fn none_negative(plan: &LogicalPlan) -> Result<()> {
    each_node_with_subqueries(plan, |node| {
        if let LogicalPlan::Limit(limit) = node {
            not_negative(limit)?;
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map(drop)
}

fn not_negative(limit: &Limit) -> Result<()> {
    // In PostgreSQL's order.
    let counts = [(&limit.skip, ErrorCode::InvalidOffset, "OFFSET"), (&limit.fetch, ErrorCode::InvalidLimit, "LIMIT")];
    for (count, code, clause) in counts {
        if count.as_deref().and_then(known).is_some_and(|count| count < 0) {
            return Err(external(Error::new(code, format!("{clause} must not be negative"))));
        }
    }
    Ok(())
}

/// The number that a count is, where that is written down.
fn known(count: &Expr) -> Option<i64> {
    match count {
        Expr::Literal(ScalarValue::Int64(number), _) => *number,
        Expr::Literal(number, _) if number.data_type().is_integer() => match number.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(number)) => number,
            _ => None,
        },
        Expr::Cast(cast) => known(&cast.expr),
        _ => None,
    }
}

/// A limit whose counts are known. The engine sorts for no fewer rows than one: where none is wanted, nothing is run, as in PostgreSQL.
fn bounded(limit: Limit) -> Result<LogicalPlan> {
    not_negative(&limit)?;
    Ok(match limit.fetch.as_deref().and_then(known) {
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
