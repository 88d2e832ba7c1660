//! Columns of the system tables that are `int2vector` and `oidvector` in PostgreSQL: arrays that count from 0 and are
//! written with blanks between their items, such as `pg_index.indkey`.
//!
//! Runs over a plan as the SQL planner made it. Inside a plan they are arrays like others, and the metadata of their
//! field tells that they are these: a subscript is moved by one, and where a vector leaves the plan, or becomes text, it
//! is written as PostgreSQL writes it.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use ashlar_functions::tree::{each_node_with_subqueries, rewrite_expressions};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator};

use crate::system_tables::VECTOR_METADATA;

/// Moves subscripts of vectors, and writes those that the plan puts out.
pub(super) fn resolve(plan: LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
    if !has_vectors(&plan)? {
        return Ok(plan);
    }
    let plan = rewrite_expressions(plan, |expr, schema| expression(expr, schema, state))?;
    let is_shown = plan.schema().fields().iter().any(|field| is_vector(field));
    if is_shown { with_texts(plan, state) } else { Ok(plan) }
}

/// Whether a table that is read has any.
fn has_vectors(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    each_node_with_subqueries(plan, |node| {
        if let LogicalPlan::TableScan(scan) = node {
            found |= scan.projected_schema.fields().iter().any(|field| is_vector(field));
        }
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn is_vector(field: &Field) -> bool {
    field.metadata().contains_key(VECTOR_METADATA) && matches!(field.data_type(), DataType::List(_))
}

fn is_of_vector(expr: &Expr, schema: &DFSchema) -> bool {
    expr.to_field(schema).is_ok_and(|(_, field)| is_vector(&field))
}

fn expression(expr: Expr, schema: &DFSchema, state: &SessionState) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Cast(Cast { expr: inner, field })
            if *field.data_type() == DataType::Utf8 && is_of_vector(&inner, schema) =>
        {
            let text = written(*inner, state)?;
            Ok(Transformed::yes(Expr::Cast(Cast { expr: Box::new(text), field })))
        }
        Expr::ScalarFunction(function) if function.args.first().is_some_and(|arg| is_of_vector(arg, schema)) => {
            of_vector(function, state)
        }
        other => Ok(Transformed::no(other)),
    }
}

/// A function whose first argument is a vector.
fn of_vector(function: ScalarFunction, state: &SessionState) -> Result<Transformed<Expr>> {
    let ScalarFunction { func, args } = function;
    let name = func.name().to_owned();
    Ok(match name.as_str() {
        "array subscript" | "array slice" => {
            let moved = args.into_iter().enumerate();
            let args = moved.map(|(place, arg)| if place == 0 { arg } else { plus(arg, Operator::Plus) }).collect();
            Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args }))
        }
        "array_lower" | "array_upper" => {
            let bound = Expr::ScalarFunction(ScalarFunction { func, args });
            Transformed::yes(plus(bound, Operator::Minus))
        }
        "generate_subscripts\u{1}" => Transformed::yes(call("vector subscripts", args, state)?),
        _ => Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })),
    })
}

/// A number and one more, or one less.
fn plus(expr: Expr, operator: Operator) -> Expr {
    match (expr, operator) {
        (Expr::Literal(ScalarValue::Int32(Some(number)), metadata), Operator::Plus) => {
            Expr::Literal(ScalarValue::Int32(Some(number.saturating_add(1))), metadata)
        }
        (expr, operator) => {
            let one = Expr::Literal(ScalarValue::Int32(Some(1)), None);
            Expr::BinaryExpr(BinaryExpr::new(Box::new(expr), operator, Box::new(one)))
        }
    }
}

fn call(name: &str, args: Vec<Expr>, state: &SessionState) -> Result<Expr> {
    let Some(func) = state.scalar_functions().get(name) else { return internal_err!("there is no function {name}") };
    Ok(Expr::ScalarFunction(ScalarFunction { func: Arc::clone(func), args }))
}

/// A vector as it is written.
fn written(vector: Expr, state: &SessionState) -> Result<Expr> {
    let blank = Expr::Literal(ScalarValue::Utf8(Some(" ".to_owned())), None);
    call("array_to_string", vec![vector, blank], state)
}

/// The plan with texts in the place of the vectors that it puts out.
fn with_texts(plan: LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
    let mut outputs: Vec<Expr> = Vec::new();
    for (qualifier, field) in plan.schema().iter() {
        let column = Expr::from((qualifier, field));
        outputs.push(if is_vector(field) { written(column, state)?.alias(field.name()) } else { column });
    }
    LogicalPlanBuilder::from(plan).project(outputs)?.build()
}
