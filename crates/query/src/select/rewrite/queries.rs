//! Refusals of queries that PostgreSQL does not accept, and that DataFusion accepts or refuses with another code.

use std::collections::HashSet;
use std::ops::ControlFlow;

use ashlar_base::{Error, ErrorCode};
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, UnaryOperator, Value,
};

use crate::select::names::folded;
use crate::select::reading::without_tables;
use crate::select::targets::is_no_place;

/// Parentheses around what ORDER BY and DISTINCT ON are about mean nothing: `ORDER BY (1)` is about a position too.
pub(super) fn unwrap_parentheses(query: &mut Query) {
    let bare = |expr: &mut Expr| {
        while let Expr::Nested(inner) = expr {
            *expr = Expr::clone(inner);
        }
    };
    if let SetExpr::Select(select) = query.body.as_mut()
        && let Some(Distinct::On(on)) = &mut select.distinct
    {
        on.iter_mut().for_each(bare);
    }
    if let Some(OrderByKind::Expressions(items)) = query.order_by.as_mut().map(|order| &mut order.kind) {
        items.iter_mut().map(|item| &mut item.expr).for_each(bare);
    }
}

/// A constant in ORDER BY is a position, and what a union is sorted by is a name or a position.
pub(super) fn check_order(query: &Query) -> ControlFlow<Error> {
    let Some(order) = &query.order_by else { return ControlFlow::Continue(()) };
    let OrderByKind::Expressions(items) = &order.kind else { return ControlFlow::Continue(()) };
    for item in items {
        // With a collation it is a number, not a position.
        if is_collated(&item.expr)
            && let Expr::Value(constant) = without_collation(&item.expr)
            && let Value::Number(digits, _) = &constant.value
        {
            let of = if digits.bytes().all(|digit| digit.is_ascii_digit()) { "integer" } else { "numeric" };
            let message = format!("collations are not supported by type {of}");
            return ControlFlow::Break(Error::new(ErrorCode::DatatypeMismatch, message));
        }
        let (constant, is_negative) = match &item.expr {
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => (expr.as_ref(), true),
            expr => (expr, false),
        };
        let Expr::Value(constant) = constant else { continue };
        let digits = if let Value::Number(digits, _) = &constant.value { Some(digits) } else { None };
        if is_no_place(&constant.value) && (digits.is_some() || !is_negative) {
            return ControlFlow::Break(Error::new(ErrorCode::SyntaxError, "non-integer constant in ORDER BY"));
        }
        if let (Some(digits), true) = (digits, is_negative) {
            let message = format!("ORDER BY position -{digits} is not in select list");
            return ControlFlow::Break(Error::new(ErrorCode::InvalidColumnReference, message));
        }
    }
    let is_plain = |expr: &Expr| matches!(expr, Expr::Value(_) | Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    if matches!(query.body.as_ref(), SetExpr::SetOperation { .. }) && items.iter().any(|item| !is_plain(&item.expr)) {
        let error = Error::unsupported("invalid UNION/INTERSECT/EXCEPT ORDER BY clause")
            .with_detail("Only result column names can be used, not expressions or functions.");
        return ControlFlow::Break(error);
    }
    ControlFlow::Continue(())
}

/// What SELECT DISTINCT is sorted by stands in its select list, and DISTINCT ON is sorted by what it is on first. A column with a
/// collation is another expression than the column, though both are sorted alike here: when the query is planned, collations are gone,
/// and with them the difference.
pub(super) fn check_collated_order(query: &Query) -> ControlFlow<Error> {
    let SetExpr::Select(select) = query.body.as_ref() else { return ControlFlow::Continue(()) };
    let Some(OrderByKind::Expressions(items)) = query.order_by.as_ref().map(|order| &order.kind) else {
        return ControlFlow::Continue(());
    };
    let is_selected = |wanted: &Expr| {
        let wanted = without_tables(wanted);
        select.projection.iter().any(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => without_tables(expr) == wanted,
            _ => false,
        })
    };
    let message = match &select.distinct {
        Some(Distinct::Distinct) if items.iter().any(|item| is_collated(&item.expr) && !is_selected(&item.expr)) => {
            "for SELECT DISTINCT, ORDER BY expressions must appear in select list"
        }
        Some(Distinct::On(on)) if is_sorted_otherwise(select, on, items) => {
            "SELECT DISTINCT ON expressions must match initial ORDER BY expressions"
        }
        _ => return ControlFlow::Continue(()),
    };
    ControlFlow::Break(Error::new(ErrorCode::InvalidColumnReference, message))
}

/// Whether the first of what a query is sorted by is what DISTINCT ON is on without collations alone. Where it is not even that, the
/// planner says so.
fn is_sorted_otherwise(select: &Select, on: &[Expr], items: &[OrderByExpr]) -> bool {
    let on: Vec<&Expr> = on.iter().map(|expr| output(expr, select)).collect();
    let wanted: HashSet<String> = on.iter().map(|expr| without_tables(expr)).collect();
    let bare: HashSet<String> = on.iter().map(|expr| without_tables(without_collation(expr))).collect();
    let mut first = items.iter().take(wanted.len()).map(|item| output(&item.expr, select));
    first.any(|expr| !wanted.contains(&without_tables(expr)) && bare.contains(&without_tables(without_collation(expr))))
}

/// What a name or a number in ORDER BY or DISTINCT ON stands for: an output of the query before a column.
fn output<'a>(expr: &'a Expr, select: &'a Select) -> &'a Expr {
    let found = match expr {
        Expr::Identifier(name) => select.projection.iter().find_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } if folded(alias) == folded(name) => Some(expr),
            _ => None,
        }),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => {
                let position = digits.parse::<usize>().ok().and_then(|position| position.checked_sub(1));
                position.and_then(|position| expression_at(&select.projection, position))
            }
            _ => None,
        },
        _ => None,
    };
    found.unwrap_or(expr)
}

/// The expression at a place of a select list; `None` behind a star, which stands for several.
fn expression_at(list: &[SelectItem], place: usize) -> Option<&Expr> {
    let mut exprs = list.iter().map_while(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    });
    exprs.nth(place)
}

fn without_collation(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => without_collation(inner),
        Expr::Collate { expr, .. } => without_collation(expr),
        other => other,
    }
}

fn is_collated(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_collated(inner),
        Expr::Collate { .. } => true,
        _ => false,
    }
}
