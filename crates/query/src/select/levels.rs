//! The position of a walk through a query: what the outer queries have in FROM, and the names of their WITH queries.
//!
//! The passes of the planner that have to know what the name of a table means walk through a query here. A [`Pass`]
//! says what it remembers of a table and what it does at each position; its [`Levels`] tell which tables are visible
//! there. Nothing here knows the catalog or changes the query.

use std::ops::ControlFlow;

use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{Expr, Ident, Query, Select, SetExpr, TableFactor, TableWithJoins, VisitorMut};

use super::names::folded;

/// What is done on the way through a query: to what is around before what is inside it.
pub(super) trait Pass {
    /// What ends the way early.
    type Break;
    /// What is kept of a table of FROM.
    type Table: Named;

    /// Where the walk is.
    fn levels(&mut self) -> &mut Levels<Self::Table>;

    /// The tables of a SELECT, in their order.
    fn tables_of(&self, select: &Select) -> Vec<Self::Table>;

    /// At a SELECT: its tables are the walk's own now.
    fn select(&mut self, _: &mut Select) -> ControlFlow<Self::Break> {
        ControlFlow::Continue(())
    }

    /// At an item of FROM, which is among the tables already.
    fn factor(&mut self, _: &mut TableFactor) -> ControlFlow<Self::Break> {
        ControlFlow::Continue(())
    }

    /// At an expression.
    fn expression(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break>;
}

/// A table of FROM as a pass keeps it.
pub(super) trait Named {
    /// What it is called in its query.
    fn name(&self) -> &str;
}

/// Goes through a query and the queries inside it.
pub(super) fn visit<P: Pass>(query: &mut Query, pass: &mut P) -> ControlFlow<P::Break> {
    walk::visit_mut(query, &mut Walk(pass))
}

/// The queries around a place, from the outermost. A query has a level for what it is sorted by, and each SELECT of it one of its own.
pub(super) struct Levels<T> {
    levels: Vec<Level<T>>,
    /// Names of WITH queries, a list for each query.
    with: Vec<Vec<String>>,
}

struct Level<T> {
    tables: Vec<T>,
    /// Whether it is that of a query which is one SELECT.
    is_of_select: bool,
    /// One of its own tables is being looked at, a query that sees none of the others.
    is_hidden: bool,
}

impl<T> Default for Levels<T> {
    fn default() -> Self {
        Self { levels: Vec::new(), with: Vec::new() }
    }
}

impl<T: Named> Levels<T> {
    /// The tables of the innermost query.
    pub(super) fn own(&self) -> &[T] {
        self.levels.last().map(|level| level.tables.as_slice()).unwrap_or_default()
    }

    /// The one of them that is called so.
    pub(super) fn own_named(&self, name: &str) -> Option<&T> {
        self.own().iter().find(|table| table.name() == name)
    }

    /// The tables of all queries around, from the innermost, whether they are seen or not.
    pub(super) fn all(&self) -> impl Iterator<Item = &T> {
        self.levels.iter().rev().flat_map(|level| &level.tables)
    }

    /// Those that are seen. What a query in FROM with LATERAL may read is not told from what stands behind it there.
    pub(super) fn seen(&self) -> impl Iterator<Item = &T> {
        self.levels.iter().rev().filter(|level| !level.is_hidden).flat_map(|level| &level.tables)
    }

    /// Whether a query around has a WITH query of the name, before this place or behind it.
    pub(super) fn is_with(&self, name: &str) -> bool {
        self.with.iter().flatten().any(|known| known == name)
    }

    fn enter_query(&mut self, query: &Query) {
        self.with.push(with_names(query));
        let is_of_select = matches!(query.body.as_ref(), SetExpr::Select(_));
        self.levels.push(Level { tables: Vec::new(), is_of_select, is_hidden: false });
    }

    fn leave_query(&mut self) {
        self.levels.pop();
        self.with.pop();
    }

    fn enter_select(&mut self, tables: Vec<T>) {
        self.levels.push(Level { tables, is_of_select: false, is_hidden: false });
    }

    /// What a query is sorted by stands behind its SELECT, and reads the same tables. What a union is sorted by reads none.
    fn leave_select(&mut self) {
        if let Some(select) = self.levels.pop()
            && let Some(query) = self.levels.last_mut()
            && query.is_of_select
        {
            query.tables = select.tables;
        }
    }

    /// Hides from a query in FROM the tables that stand beside it there, or shows them again.
    fn hide(&mut self, factor: &TableFactor, is_hidden: bool) {
        if matches!(factor, TableFactor::Derived { lateral: false, .. })
            && let Some(select) = self.levels.last_mut()
        {
            select.is_hidden = is_hidden;
        }
    }
}

struct Walk<'p, P>(&'p mut P);

impl<P: Pass> VisitorMut for Walk<'_, P> {
    type Break = P::Break;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<P::Break> {
        self.0.levels().enter_query(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<P::Break> {
        self.0.levels().leave_query();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<P::Break> {
        let tables = self.0.tables_of(select);
        self.0.levels().enter_select(tables);
        self.0.select(select)
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<P::Break> {
        self.0.levels().leave_select();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<P::Break> {
        self.0.factor(factor)?;
        self.0.levels().hide(factor, true);
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<P::Break> {
        self.0.levels().hide(factor, false);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<P::Break> {
        self.0.expression(expr)
    }
}

/// What the WITH queries of a query are called.
pub(super) fn with_names(query: &Query) -> Vec<String> {
    query.with.iter().flat_map(|with| &with.cte_tables).map(|cte| folded(&cte.alias.name)).collect()
}

/// The items of FROM, with those that are joined to them; a join in parentheses is what it joins, where it has no name of its own.
pub(super) fn factors(from: &[TableWithJoins]) -> Vec<&TableFactor> {
    let mut found = Vec::new();
    for table in from {
        for factor in std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation)) {
            match factor {
                TableFactor::NestedJoin { table_with_joins, alias: None } => {
                    found.extend(factors(std::slice::from_ref(&**table_with_joins)));
                }
                _ => found.push(factor),
            }
        }
    }
    found
}

/// What an item of FROM is called, and what stands before its name where that is not an alias; `None` where it has no name.
pub(super) fn called(factor: &TableFactor) -> Option<(String, Option<&Ident>)> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. }
        | TableFactor::NestedJoin { alias: Some(alias), .. } => Some((folded(&alias.name), None)),
        TableFactor::Table { name, alias: None, .. } | TableFactor::Function { name, alias: None, .. } => {
            let mut parts = name.0.iter().rev().filter_map(|part| part.as_ident());
            let name = parts.next()?;
            Some((folded(name), parts.next()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
