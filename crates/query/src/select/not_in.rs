//! `x NOT IN (SELECT ...)` as a condition of its own. DataFusion's join for it handles NULL only if the left side is
//! a column and the subquery reads nothing of the outer row.
//!
//! Runs before analysis. A row stays if no row of the subquery may be equal:
//!
//! ```text
//!   NOT EXISTS (SELECT ... FROM (S) WHERE (x = column) IS NOT FALSE)
//! ```

use std::sync::Arc;

use ashlar_base::Error;
use ashlar_functions::error::external;
use ashlar_functions::names::NAME_END;
use ashlar_functions::tree::{any_node, any_part, rewrite_conjuncts, rewrite_parts};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ExprSchema, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::{Expr, ExprSchemable, JoinType, LogicalPlan, LogicalPlanBuilder, Subquery};

/// Says these conditions as NOT EXISTS.
pub(super) fn as_not_exists(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut number = 0;
    rewrite_conjuncts(plan, |conjunct, schema| {
        let (operand, subquery) = match conjunct {
            Expr::InSubquery(InSubquery { expr, subquery, negated: true }) => (expr, subquery),
            Expr::Not(inner) => match *inner {
                Expr::InSubquery(InSubquery { expr, subquery, negated: false }) => (expr, subquery),
                other => return Ok(Transformed::no(Expr::Not(Box::new(other)))),
            },
            other => return Ok(Transformed::no(other)),
        };
        if is_known_to_join(&operand, &subquery) {
            return Ok(Transformed::no(Expr::InSubquery(InSubquery { expr: operand, subquery, negated: true })));
        }
        number += 1;
        none_equal(*operand, subquery, schema, &format!("not in{NAME_END}{number}")).map(Transformed::yes)
    })
}

/// Whether DataFusion's join of it knows NULL.
fn is_known_to_join(operand: &Expr, subquery: &Subquery) -> bool {
    subquery.outer_ref_columns.is_empty()
        && !operand.column_refs().is_empty()
        && !operand.contains_outer()
        && !holds_query(operand)
}

fn holds_query(operand: &Expr) -> bool {
    let is_query = |expr: &Expr| matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_));
    any_part(operand, |expr| Ok(is_query(expr))).unwrap_or(true)
}

/// `name`: what the subquery's column is called, which no other is.
fn none_equal(operand: Expr, subquery: Subquery, schema: &DFSchema, name: &str) -> Result<Expr> {
    let reads_around = |expr: &Expr| match expr {
        Expr::OuterReferenceColumn(..) => true,
        Expr::ScalarSubquery(inner) => !inner.outer_ref_columns.is_empty(),
        Expr::Exists(inner) => !inner.subquery.outer_ref_columns.is_empty(),
        Expr::InSubquery(inner) => !inner.subquery.outer_ref_columns.is_empty(),
        _ => false,
    };
    if operand.is_volatile() || any_part(&operand, |expr| Ok(reads_around(expr)))? {
        return Err(external(Error::unsupported(
            "NOT IN with a subquery is not supported for what is random or read from a query further out",
        )));
    }
    let Subquery { subquery: plan, mut outer_ref_columns, spans } = subquery;
    let is_movable = outer_ref_columns.is_empty() || !any_node(&plan, |node| Ok(!is_plain(node)))?;
    let first = Expr::from(plan.schema().qualified_field(0)).alias(name);
    let plan = LogicalPlanBuilder::from(Arc::unwrap_or_clone(plan)).project(vec![first])?.build()?;
    let (qualifier, field) = plan.schema().qualified_field(0);
    let column = Expr::from((qualifier, field));
    let may_be_null = operand.nullable(schema).unwrap_or(true) || field.is_nullable();
    // Inside the subquery the row's own columns are of the query around.
    let operand = rewrite_parts(operand, |expr| match expr {
        Expr::Column(column) => {
            let field = Arc::clone(schema.field_from_column(&column)?);
            let outer = Expr::OuterReferenceColumn(field, column);
            if !outer_ref_columns.contains(&outer) {
                outer_ref_columns.push(outer.clone());
            }
            Ok(Transformed::yes(outer))
        }
        other => Ok(Transformed::no(other)),
    })?
    .data;
    let equal = operand.eq(column.clone());
    let condition = if may_be_null { Expr::IsNotFalse(Box::new(equal)) } else { equal };
    let mut plan = LogicalPlanBuilder::from(plan).filter(condition)?;
    if !is_movable {
        // Nothing beneath an order is joined to the rows around: the subquery is run for each row.
        plan = plan.sort(vec![column.sort(true, false)])?;
    }
    let plan = plan.build()?;
    let subquery = Subquery { subquery: Arc::new(plan), outer_ref_columns, spans };
    Ok(Expr::Exists(Exists { subquery, negated: true }))
}

/// Whether conditions beneath a node are the same above it.
fn is_plain(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::TableScan(_)
        | LogicalPlan::EmptyRelation(_)
        | LogicalPlan::Values(_) => true,
        LogicalPlan::Join(join) => join.join_type == JoinType::Inner,
        _ => false,
    }
}
