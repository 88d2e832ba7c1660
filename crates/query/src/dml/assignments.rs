//! Assignments to several columns at once, each of which becomes one to a column.
//!
//! Called for the SET of UPDATE and of ON CONFLICT DO UPDATE.

use std::ops::ControlFlow;

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, Function, GroupByExpr, Query, Select, SelectItem, SetExpr, With,
};

use crate::engine::Engine;
use crate::select::names::folded;
use crate::select::{Copies, members_of, nodes_of, one_row_of, reads_choice};

/// `SET (a, b) = (x, y)` is `SET a = x, b = y`, and of `SET (a, b) = (SELECT x, y ...)` each column gets its own subquery.
/// `with` stands before the statement.
///
/// # Errors
/// 42601 for more or fewer values than columns, 0A000 for a subquery that may give another row each time that it is asked and for what is
/// neither a row nor a subquery, 54001 for subqueries that are too much to be said for each column, and as [`check_calls`].
pub(super) fn split_assignments(
    engine: &Engine,
    with: Option<&With>,
    assignments: Vec<Assignment>,
) -> Result<Vec<Assignment>> {
    let mut result = Vec::with_capacity(assignments.len());
    let mut copies = Copies::default();
    for Assignment { target, value } in assignments {
        check_calls(engine, &value, "UPDATE")?;
        let names = match target {
            AssignmentTarget::Tuple(names) => names,
            target @ AssignmentTarget::ColumnName(_) => {
                result.push(Assignment { target, value });
                continue;
            }
        };
        let values = match value {
            Expr::Tuple(values) => values,
            value => of_subquery(engine, with, &value, names.len(), &mut copies)?.ok_or_else(|| {
                let message = "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression";
                Error::unsupported(message)
            })?,
        };
        if names.len() != values.len() {
            return Err(wrong_number());
        }
        let pairs = names.into_iter().zip(values);
        result.extend(pairs.map(|(name, value)| Assignment { target: AssignmentTarget::ColumnName(name), value }));
    }
    Ok(result)
}

/// 42601 for a column that is assigned to by two.
pub(super) fn assigned_twice(column: &str) -> Error {
    Error::new(ErrorCode::SyntaxError, format!("multiple assignments to same column \"{column}\""))
}

/// Refuses calls that are not of one row in an expression that is, outside of its subqueries. `place` is PostgreSQL's word for where it stands.
///
/// # Errors
/// 42P20 for a window function, 42803 for an aggregate, 0A000 for a function that gives rows.
pub(super) fn check_calls(engine: &Engine, expr: &Expr, place: &str) -> Result<()> {
    walk::outcome(walk::own_expressions(expr, |expr| {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let (code, what) = if function.over.is_some() {
            (ErrorCode::WindowingError, "window functions")
        } else if is_aggregate(engine, function) {
            (ErrorCode::GroupingError, "aggregate functions")
        } else if gives_rows(function) {
            (ErrorCode::FeatureNotSupported, "set-returning functions")
        } else {
            return ControlFlow::Continue(());
        };
        ControlFlow::Break(Error::new(code, format!("{what} are not allowed in {place}")))
    }))
}

fn wrong_number() -> Error {
    Error::new(ErrorCode::SyntaxError, "number of columns does not match number of values")
}

/// 0A000 for a subquery whose columns would be those of several rows.
fn may_differ() -> Error {
    let message = "assigning the row of a subquery which limits its rows, or calls functions that may answer \
        otherwise each time, is not supported";
    Error::unsupported(message).with_hint("Compute its row in a query in FROM.")
}

/// The columns of a subquery's one row, each by a subquery of its own; `None` for what is no subquery.
fn of_subquery(
    engine: &Engine,
    with: Option<&With>,
    value: &Expr,
    width: usize,
    copies: &mut Copies,
) -> Result<Option<Vec<Expr>>> {
    let query = one_row_of(value, width).map_err(|error| match error.code() {
        ErrorCode::SyntaxError => wrong_number(),
        ErrorCode::FeatureNotSupported => may_differ(),
        _ => error,
    })?;
    let Some(query) = query else { return Ok(None) };
    if with.is_some_and(|with| reads_choice(query, with)) {
        return Err(may_differ());
    }
    let mut copy = |nodes: usize| {
        let taken = copies.take(nodes.saturating_mul(width));
        taken.map_err(|error| error.with_hint("Assign fewer columns at once, or compute the row in a query in FROM."))
    };
    // The engine joins a subquery to the rows around it where no other one stands between.
    if let SetExpr::Select(select) = query.body.as_ref()
        && is_separable(engine, query, select)
    {
        let items: usize = select.projection.iter().map(nodes_of).sum();
        copy(nodes_of(query).saturating_sub(items))?;
        return Ok(Some(separated(query, &select.projection)));
    }
    copy(nodes_of(query))?;
    members_of(value, width)
}

/// Whether each column of a query is what the query gives with that column alone. Not where one of them decides how many rows there are: an
/// aggregate makes one of all of them, and a function that gives rows makes several of one, or none.
fn is_separable(engine: &Engine, query: &Query, select: &Select) -> bool {
    let has_groups = match &select.group_by {
        GroupByExpr::Expressions(exprs, modifiers) => !exprs.is_empty() || !modifiers.is_empty(),
        GroupByExpr::All(_) => true,
    };
    if has_groups || select.distinct.is_some() || query.order_by.is_some() {
        return false;
    }
    let mut aggregates = 0;
    for item in &select.projection {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { return false };
        if calls(expr, gives_rows) {
            return false;
        }
        aggregates += usize::from(calls(expr, |function| is_aggregate(engine, function)));
    }
    // With an aggregate in each of them, each is of the one row.
    aggregates == 0 || aggregates == select.projection.len()
}

/// The query once for each of its columns, with that one alone.
fn separated(query: &Query, items: &[SelectItem]) -> Vec<Expr> {
    let mut bare = query.clone();
    if let SetExpr::Select(select) = bare.body.as_mut() {
        select.projection = Vec::new();
    }
    let alone = |item: &SelectItem| {
        let mut query = bare.clone();
        if let SetExpr::Select(select) = query.body.as_mut() {
            select.projection = vec![item.clone()];
        }
        Expr::Subquery(Box::new(query))
    };
    items.iter().map(alone).collect()
}

/// Whether an expression calls such a function, outside of its subqueries.
fn calls(expr: &Expr, is_such: impl Fn(&Function) -> bool) -> bool {
    let found = walk::own_expressions(expr, |expr| match expr {
        Expr::Function(function) if is_such(function) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

fn name_of(function: &Function) -> String {
    function.name.0.last().and_then(|part| part.as_ident()).map(folded).unwrap_or_default()
}

/// Whether it gives rows: every such function has been rewritten with this one.
fn gives_rows(function: &Function) -> bool {
    name_of(function) == "unnest"
}

fn is_aggregate(engine: &Engine, function: &Function) -> bool {
    let name = name_of(function);
    let is_known = engine.state().aggregate_functions().contains_key(&name);
    function.over.is_none() && is_known && !ashlar_functions::is_foreign_aggregate(&name)
}
