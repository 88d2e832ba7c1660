//! GROUP BY values of subqueries: a query beneath computes them, because the engine would look among the groups for
//! the columns that such a subquery reads of the outer row.
//!
//! ```text
//!   SELECT (S), count(*) FROM t WHERE c GROUP BY 1
//!   ->  SELECT t.key, count(*) FROM (SELECT t.a, t.b, (S) AS key FROM t WHERE c) AS t GROUP BY 1
//! ```
//!
//! Called by the planner for each query, after the outputs that GROUP BY names have been found. Only for a FROM of
//! one item, whose name the new query takes over; other queries stay as they are, and are refused.

use std::ops::ControlFlow;

use ashlar_base::{Error, Result};
use ashlar_functions::names::NAME_END;
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, Query, Select, SelectItem, SetExpr, Statement, TableAlias, TableFactor, TableWithJoins,
    Value,
};

use super::Planner;
use super::names::label_of;
use super::sources::{self, Source, Sources};

/// Puts such values beneath a query and the queries inside it.
///
/// # Errors
/// None that a user sees.
pub(super) fn settle(planner: &Planner<'_>, query: &mut Query) -> Result<()> {
    sources::in_each_query(planner, query, settle_one)
}

fn settle_one(sources: &Sources<'_, '_>, query: &mut Query) -> Result<()> {
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
    let keys = keys_of(select);
    let Some(name) = name_of(select).filter(|_| !keys.is_empty()) else { return Ok(()) };
    let Some(columns) = sources.of_from(&select.from) else { return Ok(()) };
    let is_shown_twice =
        |(place, column): (usize, &Source)| columns[..place].iter().any(|before| before.name == column.name);
    if columns.iter().enumerate().any(is_shown_twice) {
        return Ok(());
    }
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item {
            let alias = Ident::with_quote('"', label_of(expr));
            *item = SelectItem::ExprWithAlias { expr: std::mem::replace(expr, Expr::value(Value::Null)), alias };
        }
    }
    let mut put = |expr: &mut Expr| {
        if let Some(place) = keys.iter().position(|key| *key == *expr) {
            *expr = Expr::CompoundIdentifier(vec![name.clone(), key_name(place)]);
        }
        ControlFlow::<()>::Continue(())
    };
    // These go through to the end.
    for item in &mut select.projection {
        let _ = walk::own_expressions_mut(item, &mut put);
    }
    let _ = walk::own_expressions_mut(&mut select.group_by, &mut put);
    let _ = walk::own_expressions_mut(&mut select.having, &mut put);
    let _ = walk::own_expressions_mut(&mut query.order_by, &mut put);
    put_beneath(select, &name, &columns, keys)
}

/// The name of a value.
fn key_name(place: usize) -> Ident {
    Ident::with_quote('"', format!("group key{NAME_END}{place}"))
}

/// What a SELECT is grouped by that holds a subquery for a value.
fn keys_of(select: &Select) -> Vec<Expr> {
    let mut keys = Vec::new();
    let GroupByExpr::Expressions(exprs, modifiers) = &select.group_by else { return keys };
    if !modifiers.is_empty() {
        return keys;
    }
    for expr in exprs {
        if matches!(expr, Expr::GroupingSets(_) | Expr::Cube(_) | Expr::Rollup(_)) {
            return Vec::new();
        }
        let key = placed(expr, &select.projection).unwrap_or(expr);
        let found = walk::own_expressions(key, |part| match part {
            Expr::Subquery(_) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        if found.is_break() && !keys.contains(key) {
            keys.push(key.clone());
        }
    }
    keys
}

/// The output whose place a number is.
pub(super) fn placed<'e>(expr: &Expr, projection: &'e [SelectItem]) -> Option<&'e Expr> {
    let Expr::Value(value) = expr else { return None };
    let Value::Number(digits, _) = &value.value else { return None };
    match projection.get(digits.parse::<usize>().ok()?.checked_sub(1)?)? {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// The name of the one item of FROM.
fn name_of(select: &Select) -> Option<Ident> {
    let [TableWithJoins { relation, joins }] = &select.from[..] else { return None };
    if !joins.is_empty() {
        return None;
    }
    match relation {
        TableFactor::Table { alias: Some(alias), args: None, .. }
        | TableFactor::Derived { alias: Some(alias), lateral: false, .. } => Some(alias.name.clone()),
        TableFactor::Table { name, alias: None, args: None, .. } => match &name.0[..] {
            [part] => part.as_ident().cloned(),
            _ => None,
        },
        _ => None,
    }
}

fn put_beneath(select: &mut Select, name: &Ident, columns: &[Source], keys: Vec<Expr>) -> Result<()> {
    let unexpected = || Error::internal("a template is a query");
    let Ok(Statement::Query(mut beneath)) = super::parse("SELECT 1") else { return Err(unexpected()) };
    let SetExpr::Select(inner) = beneath.body.as_mut() else { return Err(unexpected()) };
    let columns = columns.iter().map(|column| {
        let alias = Ident::with_quote('"', column.name.clone());
        SelectItem::ExprWithAlias { expr: Expr::CompoundIdentifier(vec![name.clone(), alias.clone()]), alias }
    });
    let keys =
        keys.into_iter().enumerate().map(|(place, expr)| SelectItem::ExprWithAlias { expr, alias: key_name(place) });
    inner.projection = columns.chain(keys).collect();
    inner.from = std::mem::take(&mut select.from);
    inner.selection = select.selection.take();
    let alias = TableAlias { explicit: true, name: name.clone(), columns: Vec::new(), at: None };
    let relation = TableFactor::Derived { lateral: false, subquery: beneath, alias: Some(alias), sample: None };
    select.from = vec![TableWithJoins { relation, joins: Vec::new() }];
    Ok(())
}
