//! WITH queries that contain volatile functions. PostgreSQL runs such a query once, however often it is read; the
//! engine runs it each time. So one that is read twice is refused, and so is one that is read by a subquery in an
//! expression or in LATERAL, which may run for each outer row.
//!
//! Called by the planner for each query, when no two WITH queries around each other have one name.

use std::collections::HashSet;
use std::ops::ControlFlow;

use ashlar_base::{Error, Result};
use ashlar_functions::walk;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::Volatility;
use datafusion::sql::sqlparser::ast::{Cte, Expr, Function, Query, TableFactor, Visitor};

use super::names::folded;
use crate::key_plan::single;

/// Looks at a query and the queries inside it.
///
/// # Errors
/// 0A000
pub(super) fn check(state: &SessionState, query: &Query) -> Result<()> {
    walk::outcome(walk::visit(query, &mut Check { state, changing: HashSet::new() }))
}

struct Check<'s> {
    state: &'s SessionState,
    /// WITH queries whose rows are others each time.
    changing: HashSet<String>,
}

impl Visitor for Check<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            let name = folded(&cte.alias.name);
            if !self.is_changing(cte) {
                continue;
            }
            // What a recursive query reads of itself is another thing.
            let (all, own) = (Reads::of(query, &name), Reads::of(&cte.query, &name));
            let how = if all.count > 1 + own.count {
                "read more than once,"
            } else if all.in_rows > own.in_rows {
                "read by a subquery in an expression or in LATERAL,"
            } else {
                self.changing.insert(name);
                continue;
            };
            let message = format!("WITH query \"{name}\" of volatile functions, {how} is not supported");
            return ControlFlow::Break(Error::unsupported(message).with_hint("Keep its rows in a table first."));
        }
        ControlFlow::Continue(())
    }
}

impl Check<'_> {
    fn is_changing(&self, cte: &Cte) -> bool {
        struct Changing<'c, 's>(&'c Check<'s>);
        impl Visitor for Changing<'_, '_> {
            type Break = ();
            fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
                match expr {
                    Expr::Function(function) if self.0.is_volatile(function) => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            }
            fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
                match read(factor) {
                    Some(name) if self.0.changing.contains(&name) => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            }
        }
        walk::visit(cte.query.as_ref(), &mut Changing(self)).is_break()
    }

    fn is_volatile(&self, function: &Function) -> bool {
        let Some(name) = single(&function.name) else { return false };
        let function = self.state.scalar_functions().get(&name);
        function.is_some_and(|function| function.signature().volatility == Volatility::Volatile)
    }
}

/// The WITH query that an item of FROM may be.
pub(super) fn read(factor: &TableFactor) -> Option<String> {
    match factor {
        TableFactor::Table { name, args: None, .. } => match &name.0[..] {
            [part] => part.as_ident().map(folded),
            _ => None,
        },
        _ => None,
    }
}

/// How often a query reads another.
pub(super) struct Reads<'n> {
    name: &'n str,
    pub(super) count: usize,
    /// How many of them may be run for each row of something.
    in_rows: usize,
    /// How many of those are in subqueries of expressions.
    pub(super) in_expressions: usize,
    /// Expressions around what is looked at.
    expressions: usize,
    /// Items of LATERAL around it.
    laterals: usize,
}

impl<'n> Reads<'n> {
    pub(super) fn of(query: &Query, name: &'n str) -> Self {
        let mut reads = Self { name, count: 0, in_rows: 0, in_expressions: 0, expressions: 0, laterals: 0 };
        let _ = walk::visit(query, &mut reads);
        reads
    }
}

impl Visitor for Reads<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.expressions += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.expressions -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if read(factor).is_some_and(|found| found == self.name) {
            self.count += 1;
            self.in_rows += usize::from(self.expressions + self.laterals > 0);
            self.in_expressions += usize::from(self.expressions > 0);
        }
        self.laterals += usize::from(is_lateral(factor));
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        self.laterals -= usize::from(is_lateral(factor));
        ControlFlow::Continue(())
    }
}

fn is_lateral(factor: &TableFactor) -> bool {
    matches!(factor, TableFactor::Derived { lateral: true, .. })
}
