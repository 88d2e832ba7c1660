//! Aggregates and window functions where PostgreSQL has none, and comparisons of what PostgreSQL does not compare.
//!
//! Runs before type coercion, which has other words for these, or none, and when the columns of unions have their types. Looks only.

use arrow::datatypes::DataType;
use ashlar_base::{Error, ErrorCode, ScalarType};
use ashlar_store::arrow_types::sql_type_of;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{DFSchema, Result};
use datafusion_expr::{Aggregate, Distinct, Expr, ExprSchemable, Join, JoinConstraint, LogicalPlan};
use datafusion_optimizer::AnalyzerRule;

use crate::catalog::name_of;
use crate::error::external;
use crate::tree::{any_part, rewrite_nodes_with_subqueries};

/// See the module.
#[derive(Debug)]
pub struct Placement;

impl AnalyzerRule for Placement {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        // From the leaves up: PostgreSQL says what is wrong with a query inside before it looks at the one around it.
        rewrite_nodes_with_subqueries(plan, |node| {
            check(&node)?;
            Ok(Transformed::no(node))
        })
    }

    fn name(&self) -> &str {
        "placement"
    }
}

fn check(node: &LogicalPlan) -> Result<()> {
    match node {
        LogicalPlan::Filter(filter) if holds(&filter.predicate, |expr| matches!(expr, Expr::WindowFunction(_)))? => {
            return Err(windowing("WHERE"));
        }
        LogicalPlan::Join(join) => {
            check_keys(join)?;
            let on = join.on.iter().flat_map(|(left, right)| [left, right]).chain(&join.filter);
            for expr in on {
                if holds(expr, |expr| matches!(expr, Expr::AggregateFunction(_)))? {
                    return Err(grouping("JOIN conditions"));
                }
                if holds(expr, |expr| matches!(expr, Expr::WindowFunction(_)))? {
                    return Err(windowing("JOIN conditions"));
                }
            }
        }
        LogicalPlan::Aggregate(aggregate) => {
            check_counts(aggregate)?;
            for expr in &aggregate.group_expr {
                check_json(expr, aggregate.input.schema(), "equality")?;
                if holds(expr, |expr| matches!(expr, Expr::AggregateFunction(_)))? {
                    return Err(grouping("GROUP BY"));
                }
            }
        }
        LogicalPlan::Sort(sort) => {
            for item in &sort.expr {
                check_json(&item.expr, sort.input.schema(), "ordering")?;
            }
        }
        LogicalPlan::Distinct(distinct) => {
            let input = distinct.input();
            match distinct {
                Distinct::All(_) => {
                    for (qualifier, field) in input.schema().iter() {
                        check_json(&Expr::from((qualifier, field)), input.schema(), "equality")?;
                    }
                }
                Distinct::On(on) => {
                    for expr in &on.on_expr {
                        check_json(expr, input.schema(), "equality")?;
                    }
                }
            }
        }
        LogicalPlan::Window(window) => {
            for expr in &window.window_expr {
                if holds(expr, |expr| matches!(expr, Expr::WindowFunction(call) if call.params.distinct))? {
                    let message = "DISTINCT is not implemented for window functions";
                    return Err(external(Error::unsupported(message)));
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// PostgreSQL has no operator that compares json, and none of arrays of it by which rows are sorted or grouped.
fn check_json(expr: &Expr, schema: &DFSchema, operator: &str) -> Result<()> {
    let found = expr.to_field(schema).ok().and_then(|(_, field)| sql_type_of(&field));
    if let Some(found) = found.filter(|found| found.scalar() == ScalarType::Json) {
        let message = format!("could not identify an {operator} operator for type {}", name_of(found));
        return Err(external(Error::new(ErrorCode::UndefinedFunction, message)));
    }
    Ok(())
}

/// `count` takes one argument, or the star.
fn check_counts(aggregate: &Aggregate) -> Result<()> {
    for expr in &aggregate.aggr_expr {
        let is_wide = |expr: &Expr| matches!(expr, Expr::AggregateFunction(call) if call.func.name() == "count" && call.params.args.len() > 1);
        if holds(expr, is_wide)? {
            let message = "function count with more than one argument does not exist";
            return Err(external(Error::new(ErrorCode::UndefinedFunction, message)));
        }
    }
    Ok(())
}

/// The columns of USING and of an equality in ON are of types that PostgreSQL compares.
fn check_keys(join: &Join) -> Result<()> {
    for (left, right) in &join.on {
        let (Ok((_, left)), Ok((_, right))) = (left.to_field(join.left.schema()), right.to_field(join.right.schema()))
        else {
            continue;
        };
        let is_open = [&left, &right].iter().any(|field| *field.data_type() == DataType::Null);
        if !is_open && !super::operators::is_comparable(&left, &right) {
            let (Some(left), Some(right)) = (sql_type_of(&left), sql_type_of(&right)) else { continue };
            let (left, right) = (name_of(left), name_of(right));
            return Err(external(match join.join_constraint {
                JoinConstraint::Using => Error::new(
                    ErrorCode::DatatypeMismatch,
                    format!("JOIN/USING types {left} and {right} cannot be matched"),
                ),
                JoinConstraint::On => {
                    Error::new(ErrorCode::UndefinedFunction, format!("operator does not exist: {left} = {right}"))
                }
            }));
        }
        super::operators::check_item_fields(&left, "=", &right)?;
    }
    Ok(())
}

fn holds(expr: &Expr, is: impl Fn(&Expr) -> bool) -> Result<bool> {
    any_part(expr, |expr| Ok(is(expr)))
}

fn grouping(place: &str) -> datafusion_common::DataFusionError {
    external(Error::new(ErrorCode::GroupingError, format!("aggregate functions are not allowed in {place}")))
}

fn windowing(place: &str) -> datafusion_common::DataFusionError {
    external(Error::new(ErrorCode::WindowingError, format!("window functions are not allowed in {place}")))
}
