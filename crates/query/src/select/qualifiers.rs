//! Qualified names of tables of outer queries: `EXISTS (SELECT 1 FROM l WHERE l.id = s.id)`.
//!
//! In PostgreSQL `s.id` is a column of the nearest table that is called `s`, even if there are columns of that name;
//! only `(s).id` is a field of a column. The engine first takes `s` for a column of the query's own tables and looks
//! at outer queries after that. Two things help: a name with a schema is never a field of a column, and the engine
//! finds a table with an alias under any schema. So a name whose table is further out gets a schema that nothing else
//! has. If a query in FROM returns such a column, which has no name of its own to the engine, it gets its label as an
//! alias.
//!
//! Called by the planner for each query, after all other passes that resolve names.

use std::ops::ControlFlow;

use ashlar_functions::names::AROUND;
use datafusion::sql::sqlparser::ast::{AccessExpr, Expr, Ident, Query, Select, SelectItem, TableFactor};

use super::levels::{self, Levels, Named, Pass, called, factors};
use super::names::folded;
use super::sources::selects;

/// Says of each table of a query around that it is one.
pub(super) fn settle(query: &mut Query) {
    let _ = levels::visit(query, &mut Around { levels: Levels::default() });
}

/// A table of FROM: what it is called, and the schema that it is said with.
struct Table {
    name: String,
    schema: Option<Ident>,
}

impl Named for Table {
    fn name(&self) -> &str {
        &self.name
    }
}

struct Around {
    levels: Levels<Table>,
}

impl Around {
    /// What stands before the name of a table of a query around; `None` where it is the query's own, or nobody's.
    fn prefix(&self, table: &Ident) -> Option<Vec<Ident>> {
        let name = folded(table);
        if self.levels.own_named(&name).is_some() {
            return None;
        }
        let found = self.levels.seen().find(|known| known.name == name)?;
        let mark = Ident::with_quote('"', AROUND);
        Some(std::iter::once(mark).chain(found.schema.clone()).collect())
    }
}

impl Pass for Around {
    type Break = ();
    type Table = Table;

    fn levels(&mut self) -> &mut Levels<Table> {
        &mut self.levels
    }

    fn tables_of(&self, select: &Select) -> Vec<Table> {
        tables_of(select)
    }

    fn factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived { subquery, .. } = factor {
            label_outer(subquery);
        }
        ControlFlow::Continue(())
    }

    fn expression(&mut self, expr: &mut Expr) -> ControlFlow<()> {
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
    let named = factors(&select.from).into_iter().filter_map(called);
    named.map(|(name, schema)| Table { name, schema: schema.cloned() }).collect()
}
