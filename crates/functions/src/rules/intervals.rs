//! Intervals are equal and ordered as PostgreSQL has it, a month being thirty days and a day twenty-four hours, where
//! DataFusion would compare field by field: whatever sorts, groups or joins by them does so by that order.

use arrow::datatypes::DataType;
use ashlar_base::Error;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, DFSchema, Result, ScalarValue};
use datafusion_expr::expr::AggregateFunction;
use datafusion_expr::{Aggregate, Case, Distinct, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, SortExpr};
use datafusion_functions_aggregate::first_last::first_value_udaf;

use crate::error::external;
use crate::times::operators::{negated, ordered};
use crate::tree::rewrite_nodes_with_subqueries;

/// Whether an expression is an interval.
pub(super) fn is_interval(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr.get_type(schema), Ok(DataType::Interval(_) | DataType::Duration(_)))
}

fn unsupported(what: &str) -> datafusion_common::DataFusionError {
    external(Error::unsupported(format!("{what} of intervals is not supported")))
}

/// Makes the nodes of a plan sort, group and join by the order of intervals.
pub(super) fn order_nodes(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite_nodes_with_subqueries(plan, |node| match node {
        LogicalPlan::Sort(mut sort) => {
            let schema = sort.input.schema();
            let mut changed = false;
            for item in &mut sort.expr {
                if is_interval(&item.expr, schema) {
                    item.expr = ordered(item.expr.clone());
                    changed = true;
                }
            }
            let node = LogicalPlan::Sort(sort);
            Ok(if changed { Transformed::yes(node) } else { Transformed::no(node) })
        }
        LogicalPlan::Distinct(Distinct::All(input))
            if input.schema().fields().iter().any(|field| matches!(field.data_type(), DataType::Interval(_))) =>
        {
            let columns = input.schema().iter().map(Expr::from).collect();
            grouped(Aggregate::try_new(input, columns, Vec::new())?).map(Transformed::yes)
        }
        LogicalPlan::Distinct(Distinct::On(distinct))
            if distinct.on_expr.iter().any(|expr| is_interval(expr, distinct.input.schema())) =>
        {
            Err(unsupported("DISTINCT ON"))
        }
        LogicalPlan::Aggregate(aggregate)
            if aggregate.group_expr.iter().any(|expr| groups_by_interval(expr, aggregate.input.schema())) =>
        {
            grouped(aggregate).map(Transformed::yes)
        }
        LogicalPlan::Join(mut join) => {
            let mut changed = false;
            for (left, right) in &mut join.on {
                if is_interval(left, join.left.schema()) && is_interval(right, join.right.schema()) {
                    (*left, *right) = (ordered(left.clone()), ordered(right.clone()));
                    changed = true;
                }
            }
            let node = LogicalPlan::Join(join);
            Ok(if changed { Transformed::yes(node) } else { Transformed::no(node) })
        }
        other => Ok(Transformed::no(other)),
    })
}

fn groups_by_interval(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::GroupingSet(set) => set.distinct_expr().iter().any(|expr| is_interval(expr, schema)),
        other => is_interval(other, schema),
    }
}

/// Groups by the order, and tells of each group the interval that it began with.
fn grouped(aggregate: Aggregate) -> Result<LogicalPlan> {
    if aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_))) {
        return Err(unsupported("GROUPING SETS"));
    }
    let input_schema = aggregate.input.schema();
    let mut groups = Vec::new();
    let mut firsts = Vec::new();
    let mut outputs = Vec::new();
    let fields: Vec<Expr> = aggregate.schema.columns().into_iter().map(Expr::Column).collect();
    for (number, (expr, field)) in aggregate.group_expr.iter().zip(&fields).enumerate() {
        if !is_interval(expr, input_schema) {
            groups.push(expr.clone());
            outputs.push(field.clone());
            continue;
        }
        let plain = expr.clone().unalias();
        groups.push(ordered(plain.clone()).alias(format!("interval_order_{number}")));
        let name = format!("interval_first_{number}");
        let first = AggregateFunction::new_udf(first_value_udaf(), vec![plain], false, None, Vec::new(), None);
        firsts.push(Expr::AggregateFunction(first).alias(&name));
        let Expr::Column(Column { relation, name: shown, .. }) = field else { continue };
        outputs.push(Expr::Column(Column::from_name(name)).alias_qualified(relation.clone(), shown));
    }
    outputs.extend(fields.into_iter().skip(aggregate.group_expr.len()));
    let aggregates = aggregate.aggr_expr.into_iter().chain(firsts);
    LogicalPlanBuilder::from(aggregate.input.as_ref().clone()).aggregate(groups, aggregates)?.project(outputs)?.build()
}

/// Functions that compare their arguments, in an order that is not that of intervals.
const COMPARING: [&str; 5] = ["nullif", "greatest", "least", "mode", "percentile_disc"];

/// Makes an expression compare intervals by their order; comparisons of two sides are the caller's.
pub(super) fn order_expression(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Negative(inner) if is_interval(&inner, schema) => Ok(Transformed::yes(negated(*inner))),
        Expr::Case(Case { expr: Some(subject), when_then_expr, else_expr }) if is_interval(&subject, schema) => {
            let when_then_expr = when_then_expr.into_iter().map(|(when, then)| (Box::new(ordered(*when)), then));
            Ok(Transformed::yes(Expr::Case(Case {
                expr: Some(Box::new(ordered(*subject))),
                when_then_expr: when_then_expr.collect(),
                else_expr,
            })))
        }
        Expr::InSubquery(ref subquery) if is_interval(&subquery.expr, schema) => Err(unsupported("IN with a subquery")),
        Expr::ScalarFunction(mut function)
            if function.func.name() == "nullif"
                && function.args.len() == 2
                && function.args.iter().all(|arg| is_interval(arg, schema)) =>
        {
            let same = ordered(function.args[0].clone()).eq(ordered(function.args.remove(1)));
            let null = Expr::Literal(ScalarValue::IntervalMonthDayNano(None), None);
            Ok(Transformed::yes(Expr::Case(Case {
                expr: None,
                when_then_expr: vec![(Box::new(same), Box::new(null))],
                else_expr: Some(Box::new(function.args.remove(0))),
            })))
        }
        Expr::ScalarFunction(function) => {
            let name = function.func.name();
            let of_intervals = function.args.iter().any(|arg| is_interval(arg, schema));
            let over_arrays = name.starts_with("array_")
                && function.args.iter().any(|arg| {
                    matches!(arg.get_type(schema), Ok(DataType::List(item)) if matches!(item.data_type(), DataType::Interval(_)))
                });
            if of_intervals && COMPARING.contains(&name) || over_arrays && compares_elements(name) {
                return Err(unsupported(name));
            }
            Ok(Transformed::no(Expr::ScalarFunction(function)))
        }
        Expr::AggregateFunction(mut function) => {
            let name = function.func.name().to_owned();
            let of_intervals = function.params.args.iter().any(|arg| is_interval(arg, schema));
            let mut changed = order_items(&mut function.params.order_by, schema);
            if of_intervals && function.params.distinct {
                if name != "count" || function.params.args.len() != 1 {
                    return Err(unsupported(&format!("{name}(DISTINCT)")));
                }
                function.params.args = function.params.args.into_iter().map(ordered).collect();
                changed = true;
            }
            if of_intervals && COMPARING.contains(&name.as_str()) {
                return Err(unsupported(&name));
            }
            let expr = Expr::AggregateFunction(function);
            Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) })
        }
        Expr::WindowFunction(mut window) => {
            let mut changed = order_items(&mut window.params.order_by, schema);
            for expr in &mut window.params.partition_by {
                if is_interval(expr, schema) {
                    *expr = ordered(expr.clone());
                    changed = true;
                }
            }
            let expr = Expr::WindowFunction(window);
            Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) })
        }
        other => Ok(Transformed::no(other)),
    }
}

fn order_items(items: &mut [SortExpr], schema: &DFSchema) -> bool {
    let mut changed = false;
    for item in items {
        if is_interval(&item.expr, schema) {
            item.expr = ordered(item.expr.clone());
            changed = true;
        }
    }
    changed
}

fn compares_elements(name: &str) -> bool {
    ["has", "position", "remove", "replace", "sort", "distinct", "union", "intersect", "except", "max", "min"]
        .iter()
        .any(|verb| name.contains(verb))
}
