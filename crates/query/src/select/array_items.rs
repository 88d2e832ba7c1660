//! Parameters among the items of `ARRAY[...]`: a cast around each says the type that the client has declared.
//!
//! Called before the other passes over a query. The engine plans these items without what is known of the parameters:
//! what was declared to be a smallint would be a text there, and its bytes would be read as one.

use std::ops::ControlFlow;

use ashlar_base::{ScalarType, SqlType};
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{DataType, Expr, Query, Value, VisitorMut};

use super::scopes::cast;
use crate::parameters::number_of;
use crate::sql_types::ast_of;

/// Puts the casts in. To do it again changes nothing.
pub(super) fn declare(query: &mut Query, declared: &[u32]) {
    if declared.is_empty() {
        return;
    }
    let _ = walk::visit_mut(query, &mut Declare { declared, depth: 0 });
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
