//! Names in ORDER BY and HAVING that are a label of the select list and may be a column too: inside an expression
//! PostgreSQL means the column, DataFusion the label.
//!
//! Called by the planner for each query before it is planned.

use std::collections::HashSet;
use std::ops::ControlFlow;

use ashlar_base::{Error, Result};
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor, VisitorMut,
};

use super::names::folded;

/// Says which column is meant, in a query and in every query inside it.
///
/// # Errors
/// 0A000 where nothing but types could tell.
pub(super) fn tell_apart(query: &mut Query) -> Result<()> {
    struct Inner;
    impl VisitorMut for Inner {
        type Break = Error;
        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
            match settle(query) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            }
        }
    }
    match walk::visit_mut(query, &mut Inner) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

fn settle(query: &mut Query) -> Result<()> {
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
    let labels = labels_of(select);
    if labels.is_empty() {
        return Ok(());
    }
    let table = only_table(select);
    if let Some(having) = &mut select.having {
        qualify(having, &labels, table.as_ref(), "HAVING")?;
    }
    let Some(order_by) = &mut query.order_by else { return Ok(()) };
    let OrderByKind::Expressions(items) = &mut order_by.kind else { return Ok(()) };
    for item in items {
        // A name by itself is the label, in PostgreSQL too.
        let mut inner = &item.expr;
        while let Expr::Nested(expr) = inner {
            inner = expr;
        }
        if !matches!(inner, Expr::Identifier(_)) {
            qualify(&mut item.expr, &labels, table.as_ref(), "ORDER BY")?;
        }
    }
    Ok(())
}

/// Labels that are not the names of the very columns they stand for.
fn labels_of(select: &Select) -> HashSet<String> {
    let label = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { expr, alias } => {
            let label = folded(alias);
            let column = match expr {
                Expr::Identifier(name) => Some(folded(name)),
                Expr::CompoundIdentifier(names) => names.last().map(folded),
                _ => None,
            };
            (column.as_ref() != Some(&label)).then_some(label)
        }
        _ => None,
    };
    select.projection.iter().filter_map(label).collect()
}

/// The name of the one table that the columns are of.
fn only_table(select: &Select) -> Option<Ident> {
    let [from] = &select.from[..] else { return None };
    if !from.joins.is_empty() {
        return None;
    }
    match &from.relation {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. } => Some(alias.name.clone()),
        TableFactor::Table { name, alias: None, args: None, .. } => name.0.last()?.as_ident().cloned(),
        _ => None,
    }
}

fn qualify(expr: &mut Expr, labels: &HashSet<String>, table: Option<&Ident>, clause: &str) -> Result<()> {
    struct Names<'a> {
        labels: &'a HashSet<String>,
        table: Option<&'a Ident>,
        clause: &'a str,
        /// Queries inside the expression have names of their own.
        queries: usize,
    }
    impl VisitorMut for Names<'_> {
        type Break = Error;
        fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
            self.queries += 1;
            ControlFlow::Continue(())
        }
        fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
            self.queries -= 1;
            ControlFlow::Continue(())
        }
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
            let Expr::Identifier(name) = expr else { return ControlFlow::Continue(()) };
            if self.queries > 0 || !self.labels.contains(&folded(name)) {
                return ControlFlow::Continue(());
            }
            let Some(table) = self.table else {
                return ControlFlow::Break(Error::unsupported(format!(
                    "in {}, \"{}\" may be a column and a label of the select list: say the column with its table",
                    self.clause,
                    folded(name)
                )));
            };
            *expr = Expr::CompoundIdentifier(vec![table.clone(), name.clone()]);
            ControlFlow::Continue(())
        }
    }
    match walk::visit_mut(expr, &mut Names { labels, table, clause, queries: 0 }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}
