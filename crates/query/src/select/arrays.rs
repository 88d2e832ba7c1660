//! `ARRAY[...]` as a call of the function that makes arrays.
//!
//! Runs right before the engine's planner, which plans what stands between the brackets as if nothing were around the query: neither columns
//! of the queries around it nor its WITH queries are known there. The arguments of a function are planned as everything else is.

use std::ops::ControlFlow;

use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{Array, Expr, Query, VisitorMut};

use super::names::call;

/// The name of the function, in letters that nobody writes: the planner gives a call another name where it is not the function's, but for
/// their case. SQL that says the name without quotes finds no such function, as in PostgreSQL.
pub(super) const MAKE_ARRAY: &str = "mAKE_aRRAY";

/// Puts calls in the place of a query's arrays. One without items stays: its type is told from what is around it.
pub(super) fn as_calls(query: &mut Query) {
    // It goes through to the end.
    let _ = walk::visit_mut(query, &mut AsCalls);
}

struct AsCalls;

impl VisitorMut for AsCalls {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Array(Array { elem, .. }) = expr
            && !elem.is_empty()
        {
            *expr = call(MAKE_ARRAY, std::mem::take(elem));
        }
        ControlFlow::Continue(())
    }
}
