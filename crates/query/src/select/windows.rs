//! A window with a name whose columns are nowhere is an error, though no function may use it: the engine looks at those that are used.
//!
//! Called by the planner for the outermost query, when each function has what its window stands for.

use std::ops::ControlFlow;

use ashlar_base::Result;
use ashlar_functions::error::undefined_column;
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{Expr, NamedWindowExpr, Query, SetExpr};

use super::names::folded;
use super::sources::Sources;
use super::{Planner, expiry};

/// Looks for the columns that are named alone.
///
/// # Errors
/// 42703
pub(super) fn check(planner: &Planner<'_>, query: &Query) -> Result<()> {
    let SetExpr::Select(select) = query.body.as_ref() else { return Ok(()) };
    if select.named_window.is_empty() {
        return Ok(());
    }
    let mut sources = Sources::new(planner);
    sources.enter(query);
    let Some(columns) = sources.of_from(&select.from) else { return Ok(()) };
    for definition in &select.named_window {
        let NamedWindowExpr::WindowSpec(window) = &definition.1 else { continue };
        let unknown = walk::own_expressions(window, |expr| match expr {
            Expr::Identifier(name) if !expiry::is_it(name) => {
                let name = folded(name);
                // A table's name stands for its row.
                let is_known = columns.iter().any(|column| column.name == name || column.table.as_ref() == Some(&name));
                if is_known { ControlFlow::Continue(()) } else { ControlFlow::Break(name) }
            }
            _ => ControlFlow::Continue(()),
        });
        if let ControlFlow::Break(name) = unknown {
            return Err(undefined_column(&name, true));
        }
    }
    Ok(())
}
