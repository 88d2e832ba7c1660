//! `regclass`, `regtype` and their like: numbers of objects that are written as names.
//!
//! Runs over a plan as the SQL planner made it. Such values are bigints inside a plan, their type is in the metadata of
//! their field; a cast of text looks the name up, and where a value leaves the plan, or becomes text, its name is put
//! in. Where neither is known to be right, the use is refused.

use std::sync::Arc;

use arrow::datatypes::DataType;
use ashlar_base::Error;
use ashlar_functions::error::external;
use ashlar_functions::rules::operators::is_comparison;
use ashlar_functions::tree::{any_expression, each_node_with_subqueries, each_operand, rewrite_expressions};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator};

use crate::catalog::CatalogState;
use crate::system_tables::bound::{Answer, OBJECT_METADATA, object_cast};
use crate::system_tables::objects::ObjectKind;

/// Puts functions in the place of the casts.
pub(super) fn resolve(plan: LogicalPlan, catalog: &Arc<CatalogState>) -> Result<LogicalPlan> {
    if !has_objects(&plan)? {
        return Ok(plan);
    }
    let plan = rewrite_expressions(plan, |expr, schema| expression(expr, schema, catalog))?;
    check_unions(&plan)?;
    let is_shown = plan.schema().fields().iter().any(|field| field.metadata().contains_key(OBJECT_METADATA));
    if is_shown { with_names(plan, catalog) } else { Ok(plan) }
}

/// Whether there is any such value: made by a cast or by a function.
fn has_objects(plan: &LogicalPlan) -> Result<bool> {
    any_expression(plan, |expr| {
        Ok(match expr {
            Expr::Cast(Cast { field, .. }) => field.metadata().contains_key(OBJECT_METADATA),
            Expr::ScalarFunction(function) => function.func.name().starts_with("to_reg"),
            _ => false,
        })
    })
}

fn kind_of(expr: &Expr, schema: &DFSchema) -> Option<ObjectKind> {
    let (_, field) = expr.to_field(schema).ok()?;
    if *field.data_type() != DataType::Int64 {
        return None;
    }
    field.metadata().get(OBJECT_METADATA).and_then(|name| ObjectKind::of_type(name))
}

fn call(catalog: &Arc<CatalogState>, answer: Answer, arg: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction { func: object_cast(catalog, answer), args: vec![arg] })
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn expression(expr: Expr, schema: &DFSchema, catalog: &Arc<CatalogState>) -> Result<Transformed<Expr>> {
    let Expr::Cast(Cast { expr: inner, field }) = expr else {
        return other(expr, schema, catalog);
    };
    let target = field.metadata().get(OBJECT_METADATA).and_then(|name| ObjectKind::of_type(name));
    if let Some(kind) = target {
        if kind == ObjectKind::Procedure {
            // The system tables name functions, they do not number them.
            let is_number = inner.get_type(schema).is_ok_and(|data_type| data_type.is_integer());
            let answer = if is_number { Answer::Name(kind) } else { Answer::FunctionName };
            return Ok(Transformed::yes(call(catalog, answer, *inner)));
        }
        if matches!(inner.as_ref(), Expr::Placeholder(_)) {
            // A parameter of such a type is sent as a name, or as the digits of the number.
            let text = Expr::Cast(Cast::new(inner, DataType::Utf8));
            return Ok(Transformed::yes(call(catalog, Answer::Number(kind), text)));
        }
        let is_name = inner.get_type(schema).is_ok_and(|data_type| is_text(&data_type));
        let answer = if is_name { Answer::Number(kind) } else { Answer::Object(kind) };
        return Ok(Transformed::yes(call(catalog, answer, *inner)));
    }
    match kind_of(&inner, schema) {
        Some(kind) if is_text(field.data_type()) => Ok(Transformed::yes(call(catalog, Answer::Name(kind), *inner))),
        _ => Ok(Transformed::no(Expr::Cast(Cast { expr: inner, field }))),
    }
}

/// Expressions around such a value: those that mean its number, those that mean its name, and the rest.
fn other(expr: Expr, schema: &DFSchema, catalog: &Arc<CatalogState>) -> Result<Transformed<Expr>> {
    let mut has_object = false;
    each_operand(&expr, |child| {
        has_object |= kind_of(child, schema).is_some();
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !has_object {
        return Ok(Transformed::no(expr));
    }
    let name = |child: Expr| match kind_of(&child, schema) {
        Some(kind) => call(catalog, Answer::Name(kind), child),
        None => child,
    };
    match expr {
        Expr::BinaryExpr(mut binary) if binary.op == Operator::StringConcat => {
            *binary.left = name(*binary.left);
            *binary.right = name(*binary.right);
            Ok(Transformed::yes(Expr::BinaryExpr(binary)))
        }
        Expr::ScalarFunction(mut function) if matches!(function.func.name(), "concat" | "concat_ws" | "format") => {
            function.args = function.args.into_iter().map(name).collect();
            Ok(Transformed::yes(Expr::ScalarFunction(function)))
        }
        Expr::BinaryExpr(ref binary) if is_comparison(binary.op) => Ok(Transformed::no(expr)),
        Expr::ScalarFunction(ref function) if takes_numbers(function.func.name()) => Ok(Transformed::no(expr)),
        Expr::AggregateFunction(ref function) if function.func.name() == "count" => Ok(Transformed::no(expr)),
        Expr::Alias(_)
        | Expr::InList(_)
        | Expr::InSubquery(_)
        | Expr::Between(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_) => Ok(Transformed::no(expr)),
        other => Err(external(
            Error::unsupported(format!("regclass and its like are not supported in {}", other.variant_name()))
                .with_hint("Cast it to text for the name, or to bigint for the number."),
        )),
    }
}

/// Functions of the system tables: they take the numbers of objects, and so do the casts above.
fn takes_numbers(name: &str) -> bool {
    ["pg_", "has_", "reg", "obj_", "col_", "shobj_", "format_type", "text"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// The parts of a UNION must agree on what the numbers are: what one of them means as a name would come out as a
/// number.
fn check_unions(plan: &LogicalPlan) -> Result<()> {
    each_node_with_subqueries(plan, |node| {
        if let LogicalPlan::Union(union) = node {
            let kinds = |input: &Arc<LogicalPlan>| {
                let fields = input.schema().fields().iter();
                fields.map(|field| field.metadata().get(OBJECT_METADATA).cloned()).collect::<Vec<_>>()
            };
            let mut inputs = union.inputs.iter().map(kinds);
            let first = inputs.next();
            if inputs.any(|next| Some(next) != first) {
                return Err(external(
                    Error::unsupported("UNION of regclass or its like with another type is not supported")
                        .with_hint("Cast it to text for the name, or to bigint for the number."),
                ));
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map(drop)
}

/// The plan with names in the place of the numbers that it puts out.
fn with_names(plan: LogicalPlan, catalog: &Arc<CatalogState>) -> Result<LogicalPlan> {
    let outputs: Vec<Expr> = plan
        .schema()
        .iter()
        .map(|(qualifier, field)| {
            let column = Expr::from((qualifier, field));
            match field.metadata().get(OBJECT_METADATA).and_then(|name| ObjectKind::of_type(name)) {
                Some(kind) => call(catalog, Answer::Name(kind), column).alias(field.name()),
                None => column,
            }
        })
        .collect();
    LogicalPlanBuilder::from(plan).project(outputs)?.build()
}
