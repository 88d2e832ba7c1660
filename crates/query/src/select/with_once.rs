//! WITH queries of functions that give another value each time: PostgreSQL runs such a query once, however often it is read, and the engine as
//! often as it is read. One that is read twice is refused.
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
    match walk::visit(query, &mut Check { state, changing: HashSet::new() }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
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
            if reads_of(query, &name) > 1 + reads_of(&cte.query, &name) {
                let message =
                    format!("WITH query \"{name}\" of volatile functions, read more than once, is not supported");
                let hint = "Keep its rows in a table first.";
                return ControlFlow::Break(Error::unsupported(message).with_hint(hint));
            }
            self.changing.insert(name);
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
fn read(factor: &TableFactor) -> Option<String> {
    match factor {
        TableFactor::Table { name, args: None, .. } => match &name.0[..] {
            [part] => part.as_ident().map(folded),
            _ => None,
        },
        _ => None,
    }
}

/// How often a query reads another.
fn reads_of(query: &Query, name: &str) -> usize {
    struct Reads<'n>(&'n str, usize);
    impl Visitor for Reads<'_> {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            self.1 += usize::from(read(factor).is_some_and(|found| found == self.0));
            ControlFlow::Continue(())
        }
    }
    let mut reads = Reads(name, 0);
    let _ = walk::visit(query, &mut reads);
    reads.1
}
