//! Refuses unknown columns that the engine does not notice or takes for something else: in a named window that no
//! function uses, and in an expression of ORDER BY that contains a label of the select list, which may only stand
//! there alone.
//!
//! Called by the planner for the outermost query, after the named windows of functions have been resolved.

use std::ops::ControlFlow;

use ashlar_base::Result;
use ashlar_functions::error::undefined_column;
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{Expr, NamedWindowExpr, OrderByKind, Query, Select, SelectItem, SetExpr};

use super::names::folded;
use super::sources::Sources;
use super::{Planner, expiry};

/// Looks for the columns that are named alone.
///
/// # Errors
/// 42703
pub(super) fn check(planner: &Planner<'_>, query: &Query) -> Result<()> {
    let SetExpr::Select(select) = query.body.as_ref() else { return Ok(()) };
    let labels = labels_in_order(query, select);
    if select.named_window.is_empty() && labels.is_empty() {
        return Ok(());
    }
    let mut sources = Sources::new(planner);
    sources.enter(query);
    let Some(columns) = sources.of_from(&select.from) else { return Ok(()) };
    // A table's name stands for its row.
    let is_known =
        |name: &String| columns.iter().any(|column| column.name == *name || column.table.as_ref() == Some(name));
    if let Some(label) = labels.iter().find(|label| !is_known(label)) {
        return Err(undefined_column(label, true));
    }
    for definition in &select.named_window {
        let NamedWindowExpr::WindowSpec(window) = &definition.1 else { continue };
        let unknown = walk::own_expressions(window, |expr| match expr {
            Expr::Identifier(name) if !expiry::is_it(name) => {
                let name = folded(name);
                if is_known(&name) { ControlFlow::Continue(()) } else { ControlFlow::Break(name) }
            }
            _ => ControlFlow::Continue(()),
        });
        if let ControlFlow::Break(name) = unknown {
            return Err(undefined_column(&name, true));
        }
    }
    Ok(())
}

/// The labels of the select list that expressions of ORDER BY say.
fn labels_in_order(query: &Query, select: &Select) -> Vec<String> {
    let Some(OrderByKind::Expressions(items)) = query.order_by.as_ref().map(|order_by| &order_by.kind) else {
        return Vec::new();
    };
    let labels = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        _ => None,
    });
    let labels: Vec<String> = labels.collect();
    let mut said = Vec::new();
    for item in items.iter().filter(|item| !is_name(&item.expr)) {
        // It goes through to the end.
        let _ = walk::own_expressions(&item.expr, |expr| {
            if let Expr::Identifier(name) = expr {
                said.extend(Some(folded(name)).filter(|name| labels.contains(name)));
            }
            ControlFlow::<()>::Continue(())
        });
    }
    said
}

fn is_name(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_name(inner),
        Expr::Identifier(_) => true,
        _ => false,
    }
}
