//! `character(n)`, whose values end in blanks that do not count: kept without them, they are compared, sorted and grouped as text.
//!
//! Runs before types are settled. What `character(n)` is compared with loses its blanks where PostgreSQL compares the two as
//! `character`; beside `text` it is text. What would have to give blanks back, or has no length of its own in PostgreSQL, is refused.

use arrow::datatypes::{Field, FieldRef};
use ashlar_base::{Error, ScalarType, SqlType};
use ashlar_store::arrow_types::sql_type_of;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion_common::{DFSchema, DataFusionError, Result, ScalarValue};
use datafusion_expr::expr::{InList, InSubquery};
use datafusion_expr::{Between, BinaryExpr, Case, Cast, Expr, ExprSchemable, LogicalPlan, Operator, Union};
use datafusion_optimizer::AnalyzerRule;

use super::operators::is_comparison;
use crate::error::external;
use crate::fields::field_of;
use crate::quantified::Quantified;
use crate::tree::{any_expression, each_node_with_subqueries, rewrite_expressions};

/// Functions of one row whose result would be `character` without a length, or that count the blanks.
const REFUSED: [&str; 6] = ["coalesce", "greatest", "least", "nullif", "make_array", "octet_length"];

/// Aggregates that take `character(n)` as text, or do not look at it.
const AGGREGATES: [&str; 2] = ["count", "string_agg"];

/// See the module.
#[derive(Debug)]
pub struct Characters;

impl AnalyzerRule for Characters {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut is_there = false;
        each_node_with_subqueries(&plan, |node| {
            if let LogicalPlan::Union(union) = node {
                check_union(union)?;
            }
            is_there |= node.schema().fields().iter().any(|field| is_character(field));
            Ok(TreeNodeRecursion::Continue)
        })?;
        // Most plans have none.
        let is_there = is_there
            || any_expression(&plan, |expr| Ok(matches!(expr, Expr::Cast(cast) if is_character(&cast.field))))?;
        if is_there { rewrite_expressions(plan, of_expression) } else { Ok(plan) }
    }

    fn name(&self) -> &str {
        "characters"
    }
}

fn is_character(field: &Field) -> bool {
    matches!(sql_type_of(field), Some(SqlType::Scalar(ScalarType::Char { .. })))
}

fn type_of(expr: &Expr, schema: &DFSchema) -> Option<ScalarType> {
    match sql_type_of(&expr.to_field(schema).ok()?.1)? {
        SqlType::Scalar(scalar) => Some(scalar),
        SqlType::Array(_) => None,
    }
}

fn is_character_expr(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(type_of(expr, schema), Some(ScalarType::Char { .. }))
}

/// 0A000
fn refused(what: &str) -> DataFusionError {
    let message = format!("{what} of character(n) is not supported");
    external(Error::unsupported(message).with_hint("Cast it to text, which has no blanks at its end then."))
}

/// Rows of different lengths would each keep their own.
fn check_union(union: &Union) -> Result<()> {
    let Some((first, others)) = union.inputs.split_first() else { return Ok(()) };
    for (at, field) in first.schema().fields().iter().enumerate() {
        let others: Vec<&FieldRef> = others.iter().filter_map(|input| input.schema().fields().get(at)).collect();
        let is_any = is_character(field) || others.iter().any(|other| is_character(other));
        if is_any && others.iter().any(|other| sql_type_of(other) != sql_type_of(field)) {
            return Err(refused("UNION with another type"));
        }
    }
    Ok(())
}

fn of_expression(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is = |expr: &Expr| is_character_expr(expr, schema);
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => {
            let (is_left, is_right) = (is(&left), is(&right));
            let left = if is_right && !is_left { blank(*left, schema) } else { Transformed::no(*left) };
            let right = if is_left && !is_right { blank(*right, schema) } else { Transformed::no(*right) };
            let changed = left.transformed || right.transformed;
            let expr = BinaryExpr { left: Box::new(left.data), op, right: Box::new(right.data) };
            Ok(Transformed::new_transformed(Expr::BinaryExpr(expr), changed))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, .. }) if is_pattern(op) && is(&left) => Err(refused("a pattern match")),
        Expr::Like(like) if is(&like.expr) => Err(refused("LIKE")),
        Expr::SimilarTo(like) if is(&like.expr) => Err(refused("SIMILAR TO")),
        Expr::InList(InList { expr, list, negated }) => {
            let is_expr = is(&expr);
            let mut changed = false;
            let mut expr = expr;
            if !is_expr && list.iter().any(is) {
                let alone = blank_or_text(*expr, schema)?;
                changed |= alone.transformed;
                expr = Box::new(alone.data);
            }
            let mut items = Vec::with_capacity(list.len());
            for item in list {
                let item = if is_expr && !is(&item) { blank(item, schema) } else { Transformed::no(item) };
                changed |= item.transformed;
                items.push(item.data);
            }
            Ok(Transformed::new_transformed(Expr::InList(InList { expr, list: items, negated }), changed))
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let is_expr = is(&expr);
            let expr = if !is_expr && (is(&low) || is(&high)) {
                blank_or_text(*expr, schema)?
            } else {
                Transformed::no(*expr)
            };
            let bound = |bound: Expr| {
                if is_expr && !is(&bound) { blank(bound, schema) } else { Transformed::no(bound) }
            };
            let (low, high) = (bound(*low), bound(*high));
            let changed = expr.transformed || low.transformed || high.transformed;
            let (expr, low, high) = (Box::new(expr.data), Box::new(low.data), Box::new(high.data));
            Ok(Transformed::new_transformed(Expr::Between(Between { expr, negated, low, high }), changed))
        }
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            let column = subquery.subquery.schema().field(0);
            let (is_expr, is_column) = (is(&expr), is_character(column));
            let is_varchar = matches!(sql_type_of(column), Some(SqlType::Scalar(ScalarType::Varchar { .. })));
            if is_expr && is_varchar {
                return Err(refused("IN (SELECT ...) with varchar"));
            }
            let expr = if is_column && !is_expr { blank_or_text(*expr, schema)? } else { Transformed::no(*expr) };
            let found = InSubquery { expr: Box::new(expr.data), subquery, negated };
            Ok(Transformed::new_transformed(Expr::InSubquery(found), expr.transformed))
        }
        Expr::Case(case) => of_case(case, schema),
        Expr::ScalarFunction(function) => {
            let name = function.func.name();
            let is_any = function.func.inner().downcast_ref::<Quantified>().is_some();
            if (is_any || REFUSED.contains(&name)) && function.args.iter().any(is) {
                return Err(refused(if is_any { "ANY and ALL" } else { name }));
            }
            Ok(Transformed::no(Expr::ScalarFunction(function)))
        }
        Expr::AggregateFunction(function) => {
            let name = function.func.name();
            if !AGGREGATES.contains(&name) && function.params.args.iter().any(is) {
                return Err(refused(name));
            }
            Ok(Transformed::no(Expr::AggregateFunction(function)))
        }
        Expr::WindowFunction(function) => {
            let name = function.fun.name();
            if !AGGREGATES.contains(&name) && function.params.args.iter().any(is) {
                return Err(refused(name));
            }
            Ok(Transformed::no(Expr::WindowFunction(function)))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn of_case(mut case: Case, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let results = case.when_then_expr.iter().map(|(_, then)| then).chain(case.else_expr.iter());
    if results.into_iter().any(|result| is_character_expr(result, schema)) {
        return Err(refused("CASE"));
    }
    let Some(base) = case.expr.take() else { return Ok(Transformed::no(Expr::Case(case))) };
    let is_base = is_character_expr(&base, schema);
    let mut changed = false;
    for (when, _) in &mut case.when_then_expr {
        let is_when = is_character_expr(when, schema);
        if is_when && !is_base {
            return Err(refused("CASE with WHEN"));
        }
        if is_base && !is_when {
            let trimmed = blank(when.as_ref().clone(), schema);
            changed |= trimmed.transformed;
            **when = trimmed.data;
        }
    }
    case.expr = Some(base);
    Ok(Transformed::new_transformed(Expr::Case(case), changed))
}

/// What is compared with a `character`: a quoted literal is one, and `varchar` becomes one.
fn blank(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)), metadata) if text.ends_with(' ') => {
            let text = text.trim_end_matches(' ').to_owned();
            Transformed::yes(Expr::Literal(ScalarValue::Utf8(Some(text)), metadata))
        }
        expr if matches!(type_of(&expr, schema), Some(ScalarType::Varchar { .. })) => {
            let field = field_of("character", ScalarType::Char { length: None }.into());
            Transformed::yes(Expr::Cast(Cast { expr: Box::new(expr), field }))
        }
        expr => Transformed::no(expr),
    }
}

/// The same of what is compared with several, of which not all are `character`.
fn blank_or_text(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match type_of(&expr, schema) {
        Some(ScalarType::Varchar { .. }) => Err(refused("a comparison with varchar")),
        _ => Ok(blank(expr, schema)),
    }
}

/// `~`, `~~` and their like: of all characters of a value.
fn is_pattern(op: Operator) -> bool {
    matches!(
        op,
        Operator::RegexMatch
            | Operator::RegexIMatch
            | Operator::RegexNotMatch
            | Operator::RegexNotIMatch
            | Operator::LikeMatch
            | Operator::ILikeMatch
            | Operator::NotLikeMatch
            | Operator::NotILikeMatch
    )
}
