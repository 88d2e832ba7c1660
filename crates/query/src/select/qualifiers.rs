//! Qualified names of tables of the queries around: `EXISTS (SELECT 1 FROM l WHERE l.id = s.id)`.
//!
//! To PostgreSQL `s.id` is a column of the nearest table that is called `s`, whatever columns are called so: only `(s).id` is a field of
//! one. The engine takes a column `s` of the query's own tables before it looks at the queries around. A name with a schema is a field of
//! no column, and a table with an alias is found by any schema: a name whose table lies further out gets a schema that nothing else has.
//! And where a query in FROM gives such a column, that has no name of its own to the engine: it gets its label for an alias.
//!
//! Called by the planner for each query, behind all that looks at names.

use std::ops::ControlFlow;

use ashlar_functions::names::AROUND;
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Ident, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins, VisitorMut,
};

use super::names::folded;
use super::sources::selects;

/// Says of each table of a query around that it is one.
pub(super) fn settle(query: &mut Query) {
    let _ = walk::visit_mut(query, &mut Around { levels: Vec::new() });
}

/// A table of FROM: what it is called, and the schema that it is said with.
struct Table {
    name: String,
    schema: Option<Ident>,
}

/// Tables of the queries that are being looked at, from the outermost. A query has a level for what it is sorted by, and each SELECT of
/// it one of its own.
struct Around {
    levels: Vec<Level>,
}

struct Level {
    tables: Vec<Table>,
    /// One of its own tables is being looked at, a query that sees none of the others.
    is_hidden: bool,
}

impl Around {
    /// What stands before the name of a table of a query around; `None` where it is the query's own, or nobody's.
    fn prefix(&self, table: &Ident) -> Option<Vec<Ident>> {
        let name = folded(table);
        let (own, around) = self.levels.split_last()?;
        if own.tables.iter().any(|known| known.name == name) {
            return None;
        }
        let seen = around.iter().rev().filter(|level| !level.is_hidden);
        let found = seen.flat_map(|level| &level.tables).find(|known| known.name == name)?;
        let mark = Ident::with_quote('"', AROUND);
        Some(std::iter::once(mark).chain(found.schema.clone()).collect())
    }

    fn enter(&mut self, tables: Vec<Table>) {
        self.levels.push(Level { tables, is_hidden: false });
    }

    /// Hides the tables of the SELECT around a query in its FROM, which its query has a level of too, or shows them again.
    fn hide(&mut self, factor: &TableFactor, is_hidden: bool) {
        if matches!(factor, TableFactor::Derived { lateral: false, .. }) {
            self.levels.iter_mut().rev().take(2).for_each(|level| level.is_hidden = is_hidden);
        }
    }
}

impl VisitorMut for Around {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.enter(match query.body.as_ref() {
            SetExpr::Select(select) => tables_of(select),
            _ => Vec::new(),
        });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.levels.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.enter(tables_of(select));
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<()> {
        self.levels.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived { subquery, .. } = factor {
            label_outer(subquery);
        }
        self.hide(factor, true);
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        self.hide(factor, false);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::CompoundIdentifier(names) => {
                if let [table, _] = &names[..]
                    && let Some(mut qualified) = self.prefix(table)
                {
                    qualified.append(names);
                    *names = qualified;
                }
            }
            // `s.tags[1]`
            Expr::CompoundFieldAccess { root, access_chain } => {
                let is_name =
                    |place: usize| matches!(access_chain.get(place), Some(AccessExpr::Dot(Expr::Identifier(_))));
                if let Expr::Identifier(table) = root.as_ref()
                    && is_name(0)
                    && !is_name(1)
                    && let Some(prefix) = self.prefix(table)
                {
                    let mut names = prefix.into_iter().chain([table.clone()]).map(Expr::Identifier);
                    if let Some(first) = names.next() {
                        let mut chain: Vec<AccessExpr> = names.map(AccessExpr::Dot).collect();
                        chain.append(access_chain);
                        *access_chain = chain;
                        **root = first;
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Labels the outputs of a query that are columns of none of its own tables.
fn label_outer(query: &mut Query) {
    let Some(select) = selects(&mut query.body).into_iter().next() else { return };
    let own = tables_of(select);
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && let Expr::CompoundIdentifier(names) = &*expr
            && let [table, name] = &names[..]
            && !own.iter().any(|known| known.name == folded(table))
        {
            let alias = Ident::with_quote('"', folded(name));
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
}

fn tables_of(select: &Select) -> Vec<Table> {
    let mut tables = Vec::new();
    for table in &select.from {
        collect(table, &mut tables);
    }
    tables
}

fn collect(table: &TableWithJoins, tables: &mut Vec<Table>) {
    for factor in std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation)) {
        match factor {
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. }
            | TableFactor::Function { alias: Some(alias), .. }
            | TableFactor::UNNEST { alias: Some(alias), .. }
            | TableFactor::NestedJoin { alias: Some(alias), .. } => {
                tables.push(Table { name: folded(&alias.name), schema: None });
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => collect(table_with_joins, tables),
            TableFactor::Table { name, alias: None, .. } | TableFactor::Function { name, alias: None, .. } => {
                let mut parts = name.0.iter().rev().filter_map(|part| part.as_ident());
                if let Some(name) = parts.next() {
                    tables.push(Table { name: folded(name), schema: parts.next().cloned() });
                }
            }
            _ => {}
        }
    }
}
