//! `ARRAY[...]`: its items are planned as everything else of the query is.
//!
//! The engine's planner plans the items as if nothing were around the query: it knows neither columns of outer queries,
//! nor WITH queries, nor the declared types of parameters. So the planner of queries does two things, before and after
//! all other passes:
//!
//! - [`declare`] comes before all other passes, because some of them plan a part of the query by itself, without the
//!   declared types. A parameter among the items gets a cast to its type. Otherwise a parameter declared as smallint
//!   would be a text there, and its bytes would be read as one.
//! - [`as_calls`] comes after all of them, because they have to recognise an array as one: for its label, for instance.
//!   Each array becomes a call of the function that makes arrays, whose arguments the engine plans with all that is
//!   known.

use std::ops::ControlFlow;

use ashlar_base::{ScalarType, SqlType};
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{Array, DataType, Expr, Query, Value, VisitorMut};

use super::nodes::{call, cast};
use crate::parameters::number_of;
use crate::sql_types::ast_of;

/// The name of the function, in letters that nobody writes: the planner gives a call another name where it is not the function's, but for
/// their case. SQL that says the name without quotes finds no such function, as in PostgreSQL.
pub(super) const MAKE_ARRAY: &str = "mAKE_aRRAY";

/// Puts casts around the parameters among the items of arrays, where the client has declared their types. To do it again changes nothing.
pub(super) fn declare(query: &mut Query, declared: &[u32]) {
    if declared.is_empty() {
        return;
    }
    let _ = walk::visit_mut(query, &mut Declare { declared, depth: 0 });
}

/// Puts calls in the place of a query's arrays. One without items stays: its type is told from what is around it.
pub(super) fn as_calls(query: &mut Query) {
    let _: ControlFlow<()> = walk::expressions_mut(query, |expr| {
        if let Expr::Array(Array { elem, .. }) = expr
            && !elem.is_empty()
        {
            *expr = call(MAKE_ARRAY, std::mem::take(elem));
        }
        ControlFlow::Continue(())
    });
}

struct Declare<'a> {
    /// Types of the statement's parameters.
    declared: &'a [u32],
    /// Arrays around the expression that is looked at.
    depth: usize,
}

impl Declare<'_> {
    /// The type of a parameter, where the client has declared it.
    fn type_of(&self, expr: &Expr) -> Option<SqlType> {
        let Expr::Value(value) = expr else { return None };
        let Value::Placeholder(id) = &value.value else { return None };
        let declared = SqlType::from_oid(*self.declared.get(number_of(id)?)?)?;
        // A cast to `character` would leave one character of it.
        Some(match declared {
            SqlType::Scalar(ScalarType::Char { .. }) => ScalarType::Text.into(),
            SqlType::Array(ScalarType::Char { .. }) => SqlType::Array(ScalarType::Text),
            other => other,
        })
    }

    /// Whether it is a cast that was put in.
    fn is_declared(&self, expr: &Expr, data_type: &DataType) -> bool {
        match expr {
            Expr::Cast { expr: inner, data_type: own, .. } => {
                own == data_type && self.type_of(inner).is_some_and(|found| ast_of(found) == *own)
            }
            _ => false,
        }
    }
}

impl VisitorMut for Declare<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if matches!(expr, Expr::Array(_)) {
            self.depth += 1;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if matches!(expr, Expr::Array(_)) {
            self.depth = self.depth.saturating_sub(1);
        }
        if self.depth == 0 {
            return ControlFlow::Continue(());
        }
        if let Some(sql_type) = self.type_of(expr) {
            *expr = cast(expr.clone(), sql_type);
        } else if let Expr::Cast { expr: inner, data_type, .. } = expr
            && self.is_declared(inner, data_type)
        {
            *expr = Expr::clone(inner);
        }
        ControlFlow::Continue(())
    }
}
