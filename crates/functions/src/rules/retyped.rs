//! What the planner said of types before it could know them, said again from the leaves of a plan up.
//!
//! The planner takes CASE to be of its first branch's type, a union's column of what its first query gives, and an integer for a bigint
//! until literals are narrowed. What it made of that is made anew here: the branches of CASE get their common type, operations on numerics
//! that took an operand for an integer see what it is, json is json where values meet, and references to the rows around a subquery are of the types which these have.
//! Called by the rule that settles aggregates, for these change types themselves. Never changes the name of a column.

use std::sync::Arc;

use arrow::datatypes::FieldRef;
use ashlar_base::{Error, ErrorCode};
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, DFSchema, DFSchemaRef, ExprSchema, Result, ScalarValue};
use datafusion_expr::expr::{Exists, InSubquery, SetComparison, WindowFunction};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{Cast, Expr, ExprSchemable, LogicalPlan, Subquery};

use super::conditions::{branches, common_type};
use super::numbers::remade;
use crate::decimals::NumericOperation;
use crate::error::external;
use crate::fields::field_of;
use crate::kin::{KIN, value_of};
use crate::tree::{any_expression, rewrite_expressions_of, rewrite_inputs, rewrite_parts};
use ashlar_store::arrow_types::sql_type_of;

/// What is done to each node when its inputs are as they stay.
type Each<'e> = &'e mut dyn FnMut(LogicalPlan) -> Result<LogicalPlan>;

/// Whether a plan has anything that is said again.
pub(super) fn is_needed(plan: &LogicalPlan) -> Result<bool> {
    any_expression(plan, |expr| {
        Ok(match expr {
            Expr::Case(_) | Expr::OuterReferenceColumn(..) => true,
            Expr::ScalarFunction(function) => {
                function.func.name() == KIN || function.func.inner().downcast_ref::<NumericOperation>().is_some()
            }
            Expr::WindowFunction(function) => matches!(function.fun.name(), "lag" | "lead" | "nth_value"),
            _ => false,
        })
    })
}

/// Says it again in a plan and its subqueries, and does to each node what else is to be done.
///
/// # Errors
/// 42804, 42883, 22016, and those of `each`.
pub(super) fn from_below(plan: LogicalPlan, each: Each<'_>) -> Result<LogicalPlan> {
    walk(plan, &mut Vec::new(), each)
}

/// `around`: the rows that a reference out of this node may be to, those nearest last.
fn walk(node: LogicalPlan, around: &mut Vec<DFSchemaRef>, each: Each<'_>) -> Result<LogicalPlan> {
    let node = rewrite_inputs(node, |input| walk(input, around, each).map(Transformed::yes))?.data;
    let inputs = Arc::new(merge_schema(&node.inputs()));
    let names = NamePreserver::new(&node);
    let rewritten = rewrite_expressions_of(node, |expr| {
        let saved = names.save(&expr);
        let result = rewrite_parts(expr, |part| said_again(part, &inputs, around, each))?;
        Ok(if result.transformed { result.update_data(|expr| saved.restore(expr)) } else { result })
    })?;
    each(rewritten.data)
}

fn said_again(
    part: Expr,
    inputs: &DFSchemaRef,
    around: &mut Vec<DFSchemaRef>,
    each: Each<'_>,
) -> Result<Transformed<Expr>> {
    let mut within = |subquery: Subquery| {
        around.push(Arc::clone(inputs));
        let subquery = of_subquery(subquery, around, each);
        around.pop();
        subquery
    };
    Ok(match part {
        Expr::ScalarSubquery(subquery) => Transformed::yes(Expr::ScalarSubquery(within(subquery)?)),
        Expr::Exists(Exists { subquery, negated }) => {
            Transformed::yes(Expr::Exists(Exists { subquery: within(subquery)?, negated }))
        }
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            Transformed::yes(Expr::InSubquery(InSubquery { expr, subquery: within(subquery)?, negated }))
        }
        Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
            let subquery = within(subquery)?;
            Transformed::yes(Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }))
        }
        Expr::OuterReferenceColumn(field, column) => reference(field, column, around),
        Expr::Case(case) => branches(case, inputs)?,
        Expr::ScalarFunction(function) => {
            let other = match value_of(&function, inputs) {
                Some(value) => Some(value),
                None => remade(&function, inputs)?,
            };
            match other {
                Some(other) => Transformed::yes(other),
                None => Transformed::no(Expr::ScalarFunction(function)),
            }
        }
        Expr::WindowFunction(function) => of_window_function(function, inputs)?,
        other => Transformed::no(other),
    })
}

fn of_subquery(subquery: Subquery, around: &mut Vec<DFSchemaRef>, each: Each<'_>) -> Result<Subquery> {
    let Subquery { subquery: plan, outer_ref_columns, spans } = subquery;
    let plan = walk(Arc::unwrap_or_clone(plan), around, each)?;
    let outer_ref_columns = outer_ref_columns.into_iter().map(|expr| match expr {
        Expr::OuterReferenceColumn(field, column) => reference(field, column, around).data,
        other => other,
    });
    Ok(Subquery { subquery: Arc::new(plan), outer_ref_columns: outer_ref_columns.collect(), spans })
}

/// A reference with the type that its column has by now.
fn reference(field: FieldRef, column: Column, around: &[DFSchemaRef]) -> Transformed<Expr> {
    let found = around.iter().rev().find_map(|schema| schema.field_from_column(&column).ok());
    match found {
        Some(found) if found.data_type() != field.data_type() => {
            let is_nullable = field.is_nullable() || found.is_nullable();
            let field = Arc::new(found.as_ref().clone().with_nullable(is_nullable));
            Transformed::yes(Expr::OuterReferenceColumn(field, column))
        }
        _ => Transformed::no(Expr::OuterReferenceColumn(field, column)),
    }
}

/// `lag(value, offset, other)` is of the type in which both values meet; the engine takes the first one's. There is no row 0 of a frame,
/// and none before it: the engine would count those from the end.
fn of_window_function(mut function: Box<WindowFunction>, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let args = &mut function.params.args;
    match (function.fun.name(), args.as_mut_slice()) {
        ("lag" | "lead", [value, _, other]) => {
            let is_quoted = matches!(other, Expr::Literal(ScalarValue::Utf8(_) | ScalarValue::Null, _));
            let (own, others) = (value.to_field(schema)?.1, other.to_field(schema)?.1);
            let (Some(own), Some(others)) = (sql_type_of(&own), sql_type_of(&others)) else {
                return Ok(Transformed::no(Expr::WindowFunction(function)));
            };
            match common_type("lag", &[own, others]) {
                Ok(Some(common)) if !is_quoted && common != own => {
                    let field = field_of("value", common);
                    *value = Expr::Cast(Cast { expr: Box::new(value.clone()), field });
                    Ok(Transformed::yes(Expr::WindowFunction(function)))
                }
                _ => Ok(Transformed::no(Expr::WindowFunction(function))),
            }
        }
        ("nth_value", [_, Expr::Literal(ScalarValue::Int32(Some(..=0)) | ScalarValue::Int64(Some(..=0)), _)]) => {
            let message = "argument of nth_value must be greater than zero";
            Err(external(Error::new(ErrorCode::InvalidNthValueArgument, message)))
        }
        _ => Ok(Transformed::no(Expr::WindowFunction(function))),
    }
}
