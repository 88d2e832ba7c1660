//! Queries that take numbers of sequences for their rows. Which row gets which number follows from PostgreSQL's order
//! of execution. The engine does not keep that order if rows are sorted, made distinct or limited afterwards, or if a
//! row takes several numbers.
//!
//! Called by `passes`. Changes nothing.

use std::ops::ControlFlow;

use ashlar_base::{Error, Result};
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Query, Select, SetExpr, Visitor};

use super::names::folded;

/// Functions that change a sequence, and what reads what they did.
const CHANGING: [&str; 2] = ["nextval", "setval"];
const READING: [&str; 2] = ["currval", "lastval"];

/// Refuses what would give rows other numbers than PostgreSQL does.
///
/// # Errors
/// 0A000
pub(super) fn check(query: &Query) -> Result<()> {
    struct Queries;
    impl Visitor for Queries {
        type Break = Error;

        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
            let is_ordered = query.order_by.is_some() || query.limit_clause.is_some() || query.fetch.is_some();
            match query.body.as_ref() {
                SetExpr::Select(select) if !select.from.is_empty() => of_rows(select, is_ordered),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    walk::outcome(walk::visit(query, &mut Queries))
}

fn of_rows(select: &Select, is_ordered: bool) -> ControlFlow<Error> {
    let (mut changing, mut reading) = (0, 0);
    for item in &select.projection {
        let _: ControlFlow<()> = walk::own_expressions(item, |expr| {
            if let Expr::Function(function) = expr
                && let [.., part] = &function.name.0[..]
                && let Some(name) = part.as_ident().map(folded)
            {
                changing += usize::from(CHANGING.contains(&name.as_str()));
                reading += usize::from(READING.contains(&name.as_str()));
            }
            ControlFlow::Continue(())
        });
    }
    let is_grouped = match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
    };
    let refused = |what: &str| {
        let message = format!("{what} is not supported: rows would be given other numbers than in PostgreSQL");
        ControlFlow::Break(Error::unsupported(message))
    };
    match changing {
        0 => ControlFlow::Continue(()),
        _ if is_ordered => refused("nextval or setval in a query with ORDER BY or LIMIT"),
        _ if is_grouped || select.distinct.is_some() => {
            refused("nextval or setval in a query with GROUP BY or DISTINCT")
        }
        _ if changing + reading > 1 => {
            refused("more than one of nextval, setval, currval and lastval in a query of rows")
        }
        _ => ControlFlow::Continue(()),
    }
}
