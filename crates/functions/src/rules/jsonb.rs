//! Sorting, grouping and joining by jsonb, and by arrays of it, goes by the order of its values, not of their texts.
//!
//! Runs before type coercion. A group is shown by one of its values, as PostgreSQL shows it.

use std::sync::Arc;

use ashlar_base::Error;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion_common::{Column, DFSchema, Result};
use datafusion_expr::expr::{AggregateFunction, WindowFunction};
use datafusion_expr::{Aggregate, Distinct, Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion_functions_aggregate::expr_fn::first_value;
use datafusion_optimizer::AnalyzerRule;

use crate::error::external;
use crate::json::{key_of_type, keyed_type};
use crate::tree::{any_part, each_expression_of, rewrite_nodes_with_subqueries, rewrite_parts};

/// See the module.
#[derive(Debug)]
pub struct JsonbOrder;

impl AnalyzerRule for JsonbOrder {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_nodes_with_subqueries(plan, |node| {
            if is_concerned(&node)? { Ok(Transformed::yes(of_node(node)?)) } else { Ok(Transformed::no(node)) }
        })
    }

    fn name(&self) -> &str {
        "jsonb_order"
    }
}

/// Whether a node may go by the order of jsonb: most have none to look at.
fn is_concerned(node: &LogicalPlan) -> Result<bool> {
    let inputs = node.inputs();
    if inputs.iter().any(|input| has_jsonb(input.schema())) {
        return Ok(true);
    }
    // What is no jsonb yet may be made one where the node goes by it: `ORDER BY text::jsonb`.
    let makes = matches!(
        node,
        LogicalPlan::Sort(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Distinct(Distinct::On(_))
    );
    let Some(input) = inputs.first().filter(|_| makes) else { return Ok(false) };
    let schema = input.schema();
    let mut is_made = false;
    each_expression_of(node, |expr| {
        is_made |= any_part(expr, |part| {
            Ok(!matches!(part, Expr::Column(_) | Expr::Literal(..)) && keyed_type(part, schema).is_some())
        })?;
        Ok(if is_made { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(is_made)
}

/// Whether a plan shows any jsonb.
fn has_jsonb(schema: &DFSchema) -> bool {
    use ashlar_base::ScalarType;
    let is_jsonb = |field: &Arc<arrow::datatypes::Field>| {
        let sql_type = ashlar_store::arrow_types::sql_type_of(field);
        sql_type.is_some_and(|sql_type| sql_type.scalar() == ScalarType::Jsonb)
    };
    schema.fields().iter().any(is_jsonb)
}

/// What stands for an expression of jsonb, or of arrays of it; `None`: it is of another type.
fn key_in(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    keyed_type(expr, schema).map(|sql_type| key_of_type(expr.clone(), sql_type))
}

fn of_node(node: LogicalPlan) -> Result<LogicalPlan> {
    match node {
        LogicalPlan::Sort(mut sort) => {
            let schema = Arc::clone(sort.input.schema());
            for item in &mut sort.expr {
                if let Some(key) = key_in(&item.expr, &schema) {
                    item.expr = key;
                }
            }
            Ok(LogicalPlan::Sort(sort))
        }
        LogicalPlan::Distinct(Distinct::All(input)) if has_jsonb(input.schema()) => {
            let groups: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
            grouped(Aggregate::try_new(input, groups, Vec::new())?)
        }
        LogicalPlan::Distinct(Distinct::On(mut on)) => {
            let schema = Arc::clone(on.input.schema());
            if let Some(sql_type) = on.on_expr.iter().find_map(|expr| keyed_type(expr, &schema)) {
                let message = format!("DISTINCT ON a {sql_type} expression is not supported");
                return Err(external(Error::unsupported(message)));
            }
            // Which row of a group comes first.
            for item in on.sort_expr.iter_mut().flatten() {
                if let Some(key) = key_in(&item.expr, &schema) {
                    item.expr = key;
                }
            }
            Ok(LogicalPlan::Distinct(Distinct::On(on)))
        }
        LogicalPlan::Aggregate(aggregate) => {
            let schema = Arc::clone(aggregate.input.schema());
            let aggregates = aggregate
                .aggr_expr
                .into_iter()
                .map(|expr| {
                    let name = expr.schema_name().to_string();
                    let changed = rewrite_parts(expr, |expr| aggregate_of(expr, &schema))?;
                    Ok(if changed.transformed { changed.data.unalias().alias(name) } else { changed.data })
                })
                .collect::<Result<Vec<Expr>>>()?;
            grouped(Aggregate::try_new(aggregate.input, aggregate.group_expr, aggregates)?)
        }
        LogicalPlan::Window(mut window) => {
            let schema = Arc::clone(window.input.schema());
            window.window_expr = window
                .window_expr
                .into_iter()
                .map(|expr| {
                    let name = expr.schema_name().to_string();
                    let changed = rewrite_parts(expr, |expr| window_of(expr, &schema))?;
                    Ok(if changed.transformed { changed.data.unalias().alias(name) } else { changed.data })
                })
                .collect::<Result<Vec<Expr>>>()?;
            Ok(LogicalPlan::Window(window))
        }
        LogicalPlan::Join(mut join) => {
            let (left, right) = (Arc::clone(join.left.schema()), Arc::clone(join.right.schema()));
            for (on_left, on_right) in &mut join.on {
                if keyed_type(on_left, &left) == keyed_type(on_right, &right)
                    && let (Some(left), Some(right)) = (key_in(on_left, &left), key_in(on_right, &right))
                {
                    (*on_left, *on_right) = (left, right);
                }
            }
            Ok(LogicalPlan::Join(join))
        }
        other => Ok(other),
    }
}

/// Groups by the keys of jsonb expressions, and gives each group's first value where the expression stood.
fn grouped(aggregate: Aggregate) -> Result<LogicalPlan> {
    let schema = Arc::clone(aggregate.input.schema());
    if !aggregate.group_expr.iter().any(|expr| keyed_type(expr, &schema).is_some()) {
        let sets = aggregate.group_expr.iter().any(|expr| match expr {
            Expr::GroupingSet(set) => set.distinct_expr().iter().any(|expr| keyed_type(expr, &schema).is_some()),
            _ => false,
        });
        if sets {
            return Err(external(Error::unsupported("grouping sets of jsonb expressions are not supported")));
        }
        return Ok(LogicalPlan::Aggregate(aggregate));
    }
    let outputs: Vec<Column> = aggregate.schema.columns();
    let groups = aggregate.group_expr.len();
    let mut keys = Vec::with_capacity(groups);
    let mut aggregates = aggregate.aggr_expr.clone();
    let mut shown = Vec::with_capacity(outputs.len());
    for (at, (expr, output)) in aggregate.group_expr.iter().zip(&outputs).enumerate() {
        if let Some(key) = key_in(expr, &schema) {
            let name = format!("jsonb value {at}");
            keys.push(key);
            aggregates.push(first_value(expr.clone(), Vec::new()).alias(&name));
            shown.push(
                Expr::Column(Column::new_unqualified(name)).alias_qualified(output.relation.clone(), &output.name),
            );
        } else {
            keys.push(expr.clone());
            shown.push(Expr::Column(output.clone()));
        }
    }
    shown.extend(outputs.into_iter().skip(groups).map(Expr::Column));
    let plan = LogicalPlan::Aggregate(Aggregate::try_new(aggregate.input, keys, aggregates)?);
    LogicalPlanBuilder::from(plan).project(shown)?.build()
}

fn aggregate_of(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::AggregateFunction(AggregateFunction { func, mut params }) = expr else {
        return Ok(Transformed::no(expr));
    };
    let mut changed = false;
    for item in &mut params.order_by {
        if let Some(key) = key_in(&item.expr, schema) {
            item.expr = key;
            changed = true;
        }
    }
    if params.distinct
        && let Some(sql_type) = params.args.iter().find_map(|arg| keyed_type(arg, schema))
    {
        if func.name() != "count" {
            let message = format!("{}(DISTINCT ...) of {sql_type} is not supported", func.name());
            return Err(external(Error::unsupported(message)));
        }
        params.args = params.args.into_iter().map(|arg| key_in(&arg, schema).unwrap_or(arg)).collect();
        changed = true;
    }
    let expr = Expr::AggregateFunction(AggregateFunction { func, params });
    Ok(Transformed::new_transformed(expr, changed))
}

fn window_of(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(mut window) = expr else { return Ok(Transformed::no(expr)) };
    let WindowFunction { params, .. } = window.as_mut();
    let mut changed = false;
    let keyed = |expr: &mut Expr, changed: &mut bool| {
        if let Some(key) = key_in(expr, schema) {
            *expr = key;
            *changed = true;
        }
    };
    for expr in &mut params.partition_by {
        keyed(expr, &mut changed);
    }
    for item in &mut params.order_by {
        keyed(&mut item.expr, &mut changed);
    }
    Ok(Transformed::new_transformed(Expr::WindowFunction(window), changed))
}
