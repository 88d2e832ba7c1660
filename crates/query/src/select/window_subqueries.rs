//! Subqueries in the arguments of window functions: they are computed in a projection beneath the window.
//!
//! Runs over a plan as the SQL planner made it, before the other passes over subqueries: the engine joins subqueries
//! of projections and conditions to the outer rows, but treats those of a window as independent queries.

use std::sync::Arc;

use ashlar_functions::names::NAME_END;
use ashlar_functions::tree::{any_part, rewrite_nodes_with_subqueries, rewrite_parts_down};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Window};

/// Puts a projection beneath each window that has subqueries.
pub(super) fn beneath(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut number = 0;
    rewrite_nodes_with_subqueries(plan, |node| {
        let LogicalPlan::Window(window) = node else { return Ok(Transformed::no(node)) };
        let mut has_subquery = false;
        for expr in &window.window_expr {
            has_subquery |= any_part(expr, |part| Ok(is_subquery(part)))?;
        }
        if !has_subquery {
            return Ok(Transformed::no(LogicalPlan::Window(window)));
        }
        over_columns(window, &mut number).map(Transformed::yes)
    })
}

fn is_subquery(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_))
}

/// `number` keeps names of one plan apart.
fn over_columns(window: Window, number: &mut usize) -> Result<LogicalPlan> {
    let mut columns: Vec<Expr> = window.input.schema().iter().map(Expr::from).collect();
    let mut functions = Vec::with_capacity(window.window_expr.len());
    for expr in window.window_expr {
        let shown = expr.schema_name().to_string();
        let rewritten = rewrite_parts_down(expr, |part| {
            if !is_subquery(&part) {
                return Ok(Transformed::no(part));
            }
            *number += 1;
            let name = format!("subquery{NAME_END}{number}");
            columns.push(part.alias(&name));
            Ok(Transformed::new(Expr::Column(Column::new_unqualified(name)), true, TreeNodeRecursion::Jump))
        })?;
        functions.push(if rewritten.transformed { rewritten.data.alias(shown) } else { rewritten.data });
    }
    let input = LogicalPlanBuilder::from(Arc::unwrap_or_clone(window.input)).project(columns)?.build()?;
    Ok(LogicalPlan::Window(Window::try_new(functions, Arc::new(input))?))
}
