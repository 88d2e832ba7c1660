//! Bare names that columns of several tables have. The engine takes the first of these where WHERE says all of them with their tables
//! too, and in a subquery it looks on in the queries around.
//!
//! Called by the planner for each query, when joins are spelled out.

use std::collections::HashSet;
use std::ops::ControlFlow;

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{Expr, Query, Select, TableFactor, Visitor};

use super::Planner;
use super::names::folded;
use super::sources::Sources;

/// Looks at a query and the queries inside it.
///
/// # Errors
/// 42702
pub(super) fn check(planner: &Planner<'_>, query: &Query) -> Result<()> {
    match walk::visit(query, &mut Check { sources: Sources::new(planner), queries: 0 }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Check<'a, 'b> {
    sources: Sources<'a, 'b>,
    /// Queries around what is looked at.
    queries: usize,
}

impl Visitor for Check<'_, '_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
        self.sources.enter(query);
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<Error> {
        self.sources.leave();
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Error> {
        let is_of_one = match &select.from[..] {
            [] => true,
            [table] => table.joins.is_empty() && !matches!(table.relation, TableFactor::NestedJoin { .. }),
            _ => false,
        };
        if is_of_one {
            return ControlFlow::Continue(());
        }
        let mut said = Said::default();
        let _ = walk::visit(&select.selection, &mut said);
        if self.queries > 1 {
            for item in &select.projection {
                let _ = walk::visit(item, &mut said);
            }
        } else {
            // Of others the engine says so itself.
            let qualified = &said.qualified;
            said.bare.retain(|name| qualified.contains(name));
        }
        if said.bare.is_empty() {
            return ControlFlow::Continue(());
        }
        let Some(columns) = self.sources.of_from(&select.from) else { return ControlFlow::Continue(()) };
        for name in &said.bare {
            if columns.iter().filter(|column| column.name == *name).count() > 1 {
                let message = format!("column reference \"{name}\" is ambiguous");
                return ControlFlow::Break(Error::new(ErrorCode::AmbiguousColumn, message));
            }
        }
        ControlFlow::Continue(())
    }
}

/// Names of columns that a query says itself.
#[derive(Default)]
struct Said {
    bare: Vec<String>,
    qualified: HashSet<String>,
    /// Queries inside.
    queries: usize,
}

impl Visitor for Said {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(name) if self.queries == 0 => self.bare.push(folded(name)),
            Expr::CompoundIdentifier(names) if self.queries == 0 => self.qualified.extend(names.last().map(folded)),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
