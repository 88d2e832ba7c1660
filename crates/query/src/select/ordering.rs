//! Subqueries in ORDER BY: the engine joins a subquery to the rows of a select list, not to rows that are sorted. So
//! it becomes a column of the select list, which is dropped after the sort. Also the order of NULLs within arrays.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::DataType;
use ashlar_functions::names::NAME_END;
use ashlar_functions::tree::rewrite_nodes_with_subqueries;
use ashlar_functions::walk;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr as PlanExpr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, SortExpr};
use datafusion::sql::sqlparser::ast::{Expr, Ident, OrderByKind, Query, SelectItem, SetExpr, Visitor};

/// Moves them to the end of the select list, and says how many there were.
pub(super) fn select_subqueries(query: &mut Query) -> usize {
    let SetExpr::Select(select) = query.body.as_mut() else { return 0 };
    // What DISTINCT shows is what it sorts.
    if select.distinct.is_some() {
        return 0;
    }
    let Some(OrderByKind::Expressions(items)) = query.order_by.as_mut().map(|order_by| &mut order_by.kind) else {
        return 0;
    };
    let mut moved = 0;
    for item in items.iter_mut().filter(|item| holds_subquery(&item.expr)) {
        let name = Ident::with_quote('"', format!("order by{NAME_END}{moved}"));
        let expr = std::mem::replace(&mut item.expr, Expr::Identifier(name.clone()));
        select.projection.push(SelectItem::ExprWithAlias { expr, alias: name });
        moved += 1;
    }
    moved
}

fn holds_subquery(expr: &Expr) -> bool {
    struct Queries;
    impl Visitor for Queries {
        type Break = ();
        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    walk::visit(expr, &mut Queries).is_break()
}

/// A plan without its last columns.
pub(super) fn without_last(plan: LogicalPlan, count: usize) -> Result<LogicalPlan> {
    if count == 0 {
        return Ok(plan);
    }
    let width = plan.schema().fields().len().saturating_sub(count);
    let shown: Vec<PlanExpr> = plan.schema().iter().take(width).map(PlanExpr::from).collect();
    LogicalPlanBuilder::from(plan).project(shown)?.build()
}

/// NULL among the elements of arrays is above all others, wherever NULLs of the arrays themselves are sorted: the engine would
/// put them together.
pub(super) fn of_arrays(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite_nodes_with_subqueries(plan, |node| {
        let LogicalPlan::Sort(mut sort) = node else { return Ok(Transformed::no(node)) };
        let schema = Arc::clone(sort.input.schema());
        let mut is_changed = false;
        let mut by = Vec::with_capacity(sort.expr.len());
        for key in sort.expr {
            let is_array = matches!(key.expr.get_type(&schema), Ok(DataType::List(_)));
            if is_array && key.nulls_first == key.asc {
                is_changed = true;
                by.push(SortExpr::new(key.expr.clone().is_null(), !key.nulls_first, false));
                by.push(SortExpr::new(key.expr, key.asc, !key.asc));
            } else {
                by.push(key);
            }
        }
        sort.expr = by;
        Ok(Transformed::new_transformed(LogicalPlan::Sort(sort), is_changed))
    })
}
