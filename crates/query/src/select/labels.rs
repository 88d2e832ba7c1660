//! Names in ORDER BY, DISTINCT ON and HAVING that are a label of the select list and may be a column too: inside an expression
//! PostgreSQL means the column, DataFusion the label.
//!
//! Called by the planner for each query before it is planned.

use std::collections::HashSet;
use std::ops::ControlFlow;

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_functions::error::undefined_column;
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Ident, OrderByExpr, OrderByKind, Query, SelectItem, SetExpr, TableFactor, TableWithJoins,
};

use super::Planner;
use super::names::{folded, label_of};
use super::sources::{self, Source, Sources, selects};

/// Says which column is meant, in a query and in every query inside it.
///
/// # Errors
/// 42702 where columns of several tables have the name, 42703 where none has, 0A000 where nothing can tell.
pub(super) fn tell_apart(planner: &Planner<'_>, query: &mut Query) -> Result<()> {
    sources::in_each_query(planner, query, settle)
}

fn settle(sources: &Sources<'_, '_>, query: &mut Query) -> Result<()> {
    // What a union is sorted by are outputs.
    let is_select = matches!(query.body.as_ref(), SetExpr::Select(_));
    let order_by: &mut [OrderByExpr] = match query.order_by.as_mut().map(|order_by| &mut order_by.kind) {
        Some(OrderByKind::Expressions(items)) if is_select => items.as_mut_slice(),
        _ => &mut [],
    };
    for select in selects(&mut query.body) {
        let mut labels = Labels::of(&select.projection, &select.from, sources);
        if labels.names.is_empty() {
            continue;
        }
        if let Some(having) = &mut select.having {
            labels.tell_apart(having, "HAVING")?;
        }
        if let Some(Distinct::On(on)) = &mut select.distinct {
            for expr in on {
                labels.of_item(expr, "DISTINCT ON")?;
            }
        }
        for item in order_by.iter_mut() {
            labels.of_item(&mut item.expr, "ORDER BY")?;
        }
    }
    Ok(())
}

/// The labels of a select list, and where the columns are that have the same names.
pub(super) struct Labels<'s, 'a, 'b> {
    names: HashSet<String>,
    /// The name of the one table that the columns are of.
    only: Option<Ident>,
    from: &'s [TableWithJoins],
    sources: &'s Sources<'a, 'b>,
    /// The columns of several tables, when they were asked for; `None` within where they are not known.
    columns: Option<Option<Vec<Source>>>,
}

impl<'s, 'a, 'b> Labels<'s, 'a, 'b> {
    pub(super) fn of(list: &[SelectItem], from: &'s [TableWithJoins], sources: &'s Sources<'a, 'b>) -> Self {
        Self { names: labels_of(list), only: only_table(from), from, sources, columns: None }
    }

    /// An item of a clause, of which a name by itself is the label, in PostgreSQL too.
    fn of_item(&mut self, expr: &mut Expr, clause: &str) -> Result<()> {
        let mut inner = &*expr;
        while let Expr::Nested(nested) = inner {
            inner = nested;
        }
        if matches!(inner, Expr::Identifier(_)) { Ok(()) } else { self.tell_apart(expr, clause) }
    }

    /// Says in an expression of a clause which columns are meant.
    ///
    /// # Errors
    /// As [`tell_apart`].
    pub(super) fn tell_apart(&mut self, expr: &mut Expr, clause: &str) -> Result<()> {
        // Queries inside have names of their own.
        let told = walk::own_expressions_mut(expr, |expr| {
            if let Expr::Identifier(name) = &*expr
                && self.names.contains(&folded(name))
            {
                match self.column(name, clause) {
                    Ok(column) => *expr = column,
                    Err(error) => return ControlFlow::Break(error),
                }
            }
            ControlFlow::Continue(())
        });
        walk::outcome(told)
    }

    /// The column of a name that is a label too.
    fn column(&mut self, name: &Ident, clause: &str) -> Result<Expr> {
        if let Some(table) = &self.only {
            return Ok(Expr::CompoundIdentifier(vec![table.clone(), name.clone()]));
        }
        let (sources, from) = (self.sources, self.from);
        let folded = folded(name);
        let Some(columns) = self.columns.get_or_insert_with(|| sources.of_from(from)) else {
            return Err(Error::unsupported(format!(
                "in {clause}, \"{folded}\" may be a column and a label of the select list: say the column with its table"
            )));
        };
        let mut found = columns.iter().filter(|column| column.name == folded);
        match (found.next(), found.next()) {
            (Some(Source { table: Some(table), .. }), None) => {
                Ok(Expr::CompoundIdentifier(vec![Ident::with_quote('"', table.as_str()), name.clone()]))
            }
            (Some(Source { table: None, .. }), None) => Ok(Expr::Identifier(name.clone())),
            (Some(_), Some(_)) => {
                let message = format!("column reference \"{folded}\" is ambiguous");
                Err(Error::new(ErrorCode::AmbiguousColumn, message))
            }
            (None, _) => Err(undefined_column(&folded, true)),
        }
    }
}

/// Labels that are not the names of the very columns they stand for.
fn labels_of(list: &[SelectItem]) -> HashSet<String> {
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
        SelectItem::UnnamedExpr(Expr::Identifier(_) | Expr::CompoundIdentifier(_)) => None,
        // `p::int` is called `p` too.
        SelectItem::UnnamedExpr(expr) => Some(label_of(expr)),
        _ => None,
    };
    list.iter().filter_map(label).collect()
}

/// The name of the one table that the columns are of.
pub(super) fn only_table(from: &[TableWithJoins]) -> Option<Ident> {
    let [from] = from else { return None };
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
