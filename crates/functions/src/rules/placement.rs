//! Aggregates and window functions where PostgreSQL has none, and set operations between types that do not match.
//!
//! Runs before type coercion, which has other words for these, or none.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use ashlar_base::{Error, ErrorCode, ScalarType, SqlType};
use ashlar_store::arrow_types::sql_type_of;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::{
    Aggregate, Cast, Distinct, Expr, ExprSchemable, Join, JoinConstraint, LogicalPlan, Projection, Union,
};
use datafusion_optimizer::AnalyzerRule;

use super::conditions::common_type;
use crate::catalog::name_of;
use crate::error::external;
use crate::fields::field_of;
use crate::tree::{any_part, rewrite_nodes_with_subqueries};

/// See the module.
#[derive(Debug)]
pub struct Placement;

impl AnalyzerRule for Placement {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_nodes_with_subqueries(plan, |node| match node {
            LogicalPlan::Filter(filter) => {
                if holds(&filter.predicate, |expr| matches!(expr, Expr::WindowFunction(_)))? {
                    return Err(windowing("WHERE"));
                }
                Ok(Transformed::no(LogicalPlan::Filter(filter)))
            }
            LogicalPlan::Join(join) => {
                check_keys(&join)?;
                let on = join.on.iter().flat_map(|(left, right)| [left, right]).chain(&join.filter);
                for expr in on {
                    if holds(expr, |expr| matches!(expr, Expr::AggregateFunction(_)))? {
                        return Err(grouping("JOIN conditions"));
                    }
                    if holds(expr, |expr| matches!(expr, Expr::WindowFunction(_)))? {
                        return Err(windowing("JOIN conditions"));
                    }
                }
                Ok(Transformed::no(LogicalPlan::Join(join)))
            }
            LogicalPlan::Aggregate(aggregate) => {
                check_counts(&aggregate)?;
                for expr in &aggregate.group_expr {
                    check_json(expr, aggregate.input.schema(), "equality")?;
                    if holds(expr, |expr| matches!(expr, Expr::AggregateFunction(_)))? {
                        return Err(grouping("GROUP BY"));
                    }
                }
                Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)))
            }
            LogicalPlan::Union(union) => matched(union),
            LogicalPlan::Sort(sort) => {
                for item in &sort.expr {
                    check_json(&item.expr, sort.input.schema(), "ordering")?;
                }
                LogicalPlan::Sort(sort).recompute_schema().map(Transformed::yes)
            }
            LogicalPlan::Distinct(distinct) => {
                let input = distinct.input();
                match &distinct {
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
                LogicalPlan::Distinct(distinct).recompute_schema().map(Transformed::yes)
            }
            LogicalPlan::Window(window) => {
                for expr in &window.window_expr {
                    if holds(expr, |expr| matches!(expr, Expr::WindowFunction(call) if call.params.distinct))? {
                        let message = "DISTINCT is not implemented for window functions";
                        return Err(external(Error::unsupported(message)));
                    }
                }
                LogicalPlan::Window(window).recompute_schema().map(Transformed::yes)
            }
            // Literals were narrowed below a union: the nodes above it see its columns' new types.
            other => other.recompute_schema().map(Transformed::yes),
        })
    }

    fn name(&self) -> &str {
        "placement"
    }
}

/// PostgreSQL has no operator that compares json.
fn check_json(expr: &Expr, schema: &DFSchema, operator: &str) -> Result<()> {
    let found = expr.to_field(schema).ok().and_then(|(_, field)| sql_type_of(&field));
    if found == Some(SqlType::Scalar(ScalarType::Json)) {
        let message = format!("could not identify an {operator} operator for type json");
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

/// Quoted literals among a union's rows take the type of the others, which must match.
fn matched(union: Union) -> Result<Transformed<LogicalPlan>> {
    let width = union.schema.fields().len();
    if union.inputs.iter().any(|input| input.schema().fields().len() != width) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let mut inputs: Vec<LogicalPlan> = union.inputs.iter().map(|input| input.as_ref().clone()).collect();
    let mut changed = false;
    for column in 0..width {
        let mut types: Vec<SqlType> = Vec::new();
        let mut is_known = true;
        for input in &inputs {
            let field = input.schema().field(column);
            if *field.data_type() == DataType::Null || literal_at(input, column).is_some() {
                continue;
            }
            match sql_type_of(field) {
                Some(sql_type) => types.push(sql_type),
                None => is_known = false,
            }
        }
        if !is_known {
            continue;
        }
        let Some(common) = common_type("UNION", &types).map_err(external)? else { continue };
        let wanted = field_of("column", common);
        for input in &mut inputs {
            let found = input.schema().field(column).data_type();
            if literal_at(input, column).is_some() && *wanted.data_type() != DataType::Utf8 {
                *input = with_cast(input, column, &wanted)?;
                changed = true;
            } else if found != wanted.data_type() && *found != DataType::Null && literal_at(input, column).is_none() {
                *input = all_cast(input, column, &wanted)?;
                changed = true;
            }
        }
    }
    let is_stale = union.inputs.iter().any(|input| {
        let fields = input.schema().fields().iter().zip(union.schema.fields());
        fields.into_iter().any(|(input, output)| input.data_type() != output.data_type())
    });
    if !changed && !is_stale {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let inputs = inputs.into_iter().map(Arc::new).collect();
    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)))
}

/// The quoted literal that a projection gives for a column.
fn literal_at(input: &LogicalPlan, column: usize) -> Option<&Expr> {
    let LogicalPlan::Projection(projection) = input else { return None };
    let mut expr = projection.expr.get(column)?;
    while let Expr::Alias(alias) = expr {
        expr = &alias.expr;
    }
    matches!(expr, Expr::Literal(ScalarValue::Utf8(_), _)).then_some(expr)
}

/// The rows with one column as another type.
fn all_cast(input: &LogicalPlan, column: usize, to: &FieldRef) -> Result<LogicalPlan> {
    let columns = input.schema().iter().enumerate().map(|(at, (qualifier, field))| {
        let expr = Expr::from((qualifier, field));
        if at != column {
            return expr;
        }
        let cast = Expr::Cast(Cast { expr: Box::new(expr), field: FieldRef::clone(to) });
        cast.alias_qualified(qualifier.cloned(), field.name())
    });
    let columns: Vec<Expr> = columns.collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(input.clone()))?))
}

fn with_cast(input: &LogicalPlan, column: usize, to: &FieldRef) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(projection) = input else { return Ok(input.clone()) };
    let name = projection.schema.field(column).name().clone();
    let mut exprs = projection.expr.clone();
    let literal = exprs[column].clone().unalias();
    let cast = Expr::Cast(Cast { expr: Box::new(literal), field: FieldRef::clone(to) });
    exprs[column] = cast.alias(name);
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::clone(&projection.input))?))
}
