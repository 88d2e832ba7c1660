//! What PostgreSQL refuses of a query and DataFusion takes, or refuses with another code.

use std::collections::HashSet;
use std::ops::ControlFlow;

use ashlar_base::{Error, ErrorCode};
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{
    CastKind, Distinct, Expr, Ident, ObjectName, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor, Value,
    VisitorMut,
};

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

/// What SELECT DISTINCT is sorted by stands in its select list. A column with a collation is another expression than the column,
/// though both are sorted alike here: when the query is planned, collations are gone, and with them the difference.
pub(super) fn check_collated_order(query: &Query) -> ControlFlow<Error> {
    let SetExpr::Select(select) = query.body.as_ref() else { return ControlFlow::Continue(()) };
    let Some(OrderByKind::Expressions(items)) = query.order_by.as_ref().map(|order| &order.kind) else {
        return ControlFlow::Continue(());
    };
    if !matches!(select.distinct, Some(Distinct::Distinct)) {
        return ControlFlow::Continue(());
    }
    let is_selected = |wanted: &Expr| {
        let wanted = plain(wanted);
        select.projection.iter().any(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => plain(expr) == wanted,
            _ => false,
        })
    };
    if items.iter().any(|item| is_collated(&item.expr) && !is_selected(&item.expr)) {
        return ControlFlow::Break(Error::new(
            ErrorCode::InvalidColumnReference,
            "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
        ));
    }
    ControlFlow::Continue(())
}

fn is_collated(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_collated(inner),
        Expr::Collate { .. } => true,
        _ => false,
    }
}

/// An expression as text, the same for what is the same in other words: in parentheses, a name with that of its table, in quotes or
/// in capitals, the other form of a cast. It does not tell everything apart that PostgreSQL does.
fn plain(expr: &Expr) -> String {
    struct Plain;
    impl VisitorMut for Plain {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            while let Expr::Nested(inner) = expr {
                *expr = Expr::clone(inner);
            }
            match expr {
                Expr::Identifier(name) => *name = Ident::new(folded(name)),
                Expr::CompoundIdentifier(names) => {
                    if let Some(name) = names.last().map(folded) {
                        *expr = Expr::Identifier(Ident::new(name));
                    }
                }
                Expr::Collate { collation, .. } => {
                    if let Some(name) = collation.0.last().and_then(|part| part.as_ident()).map(folded) {
                        *collation = ObjectName::from(vec![Ident::new(name)]);
                    }
                }
                Expr::Cast { kind, .. } => *kind = CastKind::Cast,
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let mut expr = expr.clone();
    let _ = walk::visit_mut(&mut expr, &mut Plain);
    expr.to_string().to_lowercase()
}
