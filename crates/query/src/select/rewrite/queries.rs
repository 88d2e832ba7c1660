//! What PostgreSQL refuses of a query and DataFusion takes, or refuses with another code.

use std::collections::HashSet;
use std::ops::ControlFlow;

use ashlar_base::{Error, ErrorCode};
use datafusion::sql::sqlparser::ast::{Expr, OrderByKind, Query, Select, TableFactor, Value};

use crate::select::names::folded;

/// Tables of one FROM have different names.
pub(super) fn check_tables(select: &Select) -> ControlFlow<Error> {
    let mut seen = HashSet::new();
    let factors = select
        .from
        .iter()
        .flat_map(|item| std::iter::once(&item.relation).chain(item.joins.iter().map(|join| &join.relation)));
    for factor in factors {
        let name = match factor {
            TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
                folded(&alias.name)
            }
            // A name with a schema may stand beside one of another schema.
            TableFactor::Table { name, .. } => match &name.0[..] {
                [part] => match part.as_ident() {
                    Some(ident) => folded(ident),
                    None => continue,
                },
                _ => continue,
            },
            _ => continue,
        };
        if !seen.insert(name.clone()) {
            return ControlFlow::Break(Error::new(
                ErrorCode::DuplicateAlias,
                format!("table name \"{name}\" specified more than once"),
            ));
        }
    }
    ControlFlow::Continue(())
}

/// A constant in ORDER BY is a position.
pub(super) fn check_order(query: &Query) -> ControlFlow<Error> {
    let Some(order) = &query.order_by else { return ControlFlow::Continue(()) };
    let OrderByKind::Expressions(items) = &order.kind else { return ControlFlow::Continue(()) };
    let is_constant = |expr: &Expr| match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(_) | Value::Boolean(_) => true,
            Value::Number(digits, _) => digits.contains(['.', 'e', 'E']),
            _ => false,
        },
        _ => false,
    };
    if items.iter().any(|item| is_constant(&item.expr)) {
        return ControlFlow::Break(Error::new(ErrorCode::SyntaxError, "non-integer constant in ORDER BY"));
    }
    ControlFlow::Continue(())
}
