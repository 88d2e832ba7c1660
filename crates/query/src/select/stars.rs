//! Writes out stars that contain two columns of one name, or one that has the name of another output, so that each of
//! these can get a name of its own. The engine refuses such columns beside each other, or takes the first where
//! PostgreSQL reports an ambiguous name.
//!
//! Called by the planner for each query, after joins have been spelled out and before its outputs are named.

use std::collections::HashSet;
use std::ops::ControlFlow;

use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, TableFactor, VisitorMut,
};

use super::Planner;
use super::names::{folded, label_of};
use super::sources::{Source, Sources};
use crate::key_plan::single;

/// Writes out such stars of a query and of the queries inside it.
pub(super) fn write_out(planner: &Planner<'_>, query: &mut Query) {
    let _ = walk::visit_mut(query, &mut Stars { sources: Sources::new(planner), queries: 0 });
}

struct Stars<'a, 'b> {
    sources: Sources<'a, 'b>,
    /// Queries around what is looked at.
    queries: usize,
}

impl VisitorMut for Stars<'_, '_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.sources.enter(query);
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.sources.leave();
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if is_concerned(select, self.queries == 1)
            && let Some(columns) = self.sources.of_from(&select.from)
            && let Some(list) = written_out(&select.projection, &columns)
            && is_shared(&list, self.queries == 1)
        {
            select.projection = list;
        }
        ControlFlow::Continue(())
    }
}

/// Whether a star may stand for a name that is there twice. Of the outermost query, columns of several tables are told apart by these.
fn is_concerned(select: &Select, is_outermost: bool) -> bool {
    let is_star = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    if !select.projection.iter().any(is_star) {
        return false;
    }
    if is_outermost {
        let is_computed = |item: &&SelectItem| matches!(item, SelectItem::UnnamedExpr(expr) if !is_column(expr));
        return select.projection.len() - select.projection.iter().filter(is_computed).count() > 1;
    }
    let is_of_one = matches!(&select.from[..], [table]
        if table.joins.is_empty() && !matches!(table.relation, TableFactor::NestedJoin { .. }));
    select.projection.len() > 1 || !is_of_one
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

/// The list with columns in the place of its stars; `None` where one stands for none, or tables of one name give columns of one name.
fn written_out(list: &[SelectItem], columns: &[Source]) -> Option<Vec<SelectItem>> {
    let mut known = HashSet::new();
    if !columns.iter().all(|column| known.insert((&column.table, &column.name))) {
        return None;
    }
    let mut written = Vec::with_capacity(list.len() + columns.len());
    for item in list {
        let table = match item {
            SelectItem::Wildcard(_) => None,
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => Some(single(name)?),
            other => {
                written.push(other.clone());
                continue;
            }
        };
        let before = written.len();
        let is_meant = |column: &&Source| table.is_none() || column.table == table;
        written.extend(columns.iter().filter(is_meant).map(|column| SelectItem::UnnamedExpr(said(column))));
        if written.len() == before {
            return None;
        }
    }
    Some(written)
}

fn said(column: &Source) -> Expr {
    let name = Ident::with_quote('"', column.name.as_str());
    match &column.table {
        Some(table) => Expr::CompoundIdentifier(vec![Ident::with_quote('"', table.as_str()), name]),
        None => Expr::Identifier(name),
    }
}

/// Whether two outputs are called alike. What the outermost query computes has a name of its own in any case.
fn is_shared(list: &[SelectItem], is_outermost: bool) -> bool {
    let mut seen = HashSet::new();
    list.iter().any(|item| match item {
        SelectItem::UnnamedExpr(expr) if is_outermost && !is_column(expr) => false,
        SelectItem::UnnamedExpr(expr) => !seen.insert(label_of(expr)),
        SelectItem::ExprWithAlias { alias, .. } => !seen.insert(folded(alias)),
        _ => false,
    })
}
