//! An integer literal that fits is an `integer`, as in PostgreSQL; DataFusion reads each as a `bigint`.

use arrow::datatypes::DataType;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion_common::{Column, Result, ScalarValue};
use datafusion_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion_optimizer::AnalyzerRule;

use crate::tree::{each_node_with_subqueries, rewrite_expressions, rewrite_nodes_with_subqueries};

/// Runs before type coercion.
#[derive(Debug)]
pub struct NarrowIntegerLiterals;

impl AnalyzerRule for NarrowIntegerLiterals {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let settled = recursive_columns(&plan)?;
        if settled.is_empty() {
            return narrow(plan);
        }
        // The columns of a recursive query were settled when it was planned: what it reads of itself has them.
        let narrowed = narrow(plan.clone())?;
        Ok(if recursive_columns(&narrowed)? == settled { narrowed } else { plan })
    }

    fn name(&self) -> &str {
        "narrow_integer_literals"
    }
}

/// The types of both parts of each recursive query.
fn recursive_columns(plan: &LogicalPlan) -> Result<Vec<DataType>> {
    let mut columns = Vec::new();
    each_node_with_subqueries(plan, |node| {
        if let LogicalPlan::RecursiveQuery(recursive) = node {
            for part in [&recursive.static_term, &recursive.recursive_term] {
                columns.extend(part.schema().fields().iter().map(|field| field.data_type().clone()));
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(columns)
}

fn narrow(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = rewrite_expressions(plan, |expr, _| {
        Ok(match expr {
            // The JSON functions take a bigint as an array's index.
            Expr::ScalarFunction(mut function) if function.func.name().starts_with("json_") => {
                function.args = function.args.into_iter().map(widened).collect();
                Transformed::yes(Expr::ScalarFunction(function))
            }
            other => match narrowed(&other) {
                Some(narrow) => Transformed::yes(narrow),
                None => Transformed::no(other),
            },
        })
    })?;
    // The schema of a VALUES list is not recomputed from its expressions.
    rewrite_nodes_with_subqueries(plan, |node| match node {
        LogicalPlan::Values(values) => {
            let names: Vec<String> = values.schema.fields().iter().map(|field| field.name().clone()).collect();
            let rebuilt = LogicalPlanBuilder::values(values.values)?;
            let columns = rebuilt.schema().columns();
            let named = |(column, name): (Column, String)| {
                if column.name == name { Expr::Column(column) } else { Expr::Column(column).alias(name) }
            };
            let renamed: Vec<Expr> = columns.into_iter().zip(names).map(named).collect();
            if renamed.iter().any(|expr| matches!(expr, Expr::Alias(_))) {
                Ok(Transformed::yes(rebuilt.project(renamed)?.build()?))
            } else {
                Ok(Transformed::yes(rebuilt.build()?))
            }
        }
        // Counts of rows are bigint.
        LogicalPlan::Limit(mut limit) => {
            limit.skip = limit.skip.map(|skip| Box::new(widened(*skip)));
            limit.fetch = limit.fetch.map(|fetch| Box::new(widened(*fetch)));
            Ok(Transformed::yes(LogicalPlan::Limit(limit)))
        }
        other => other.recompute_schema().map(Transformed::yes),
    })
}

fn narrowed(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(value)), metadata) => {
            let value = i32::try_from(*value).ok()?;
            Some(Expr::Literal(ScalarValue::Int32(Some(value)), metadata.clone()))
        }
        // Beyond a bigint PostgreSQL's literals are numeric; DataFusion's would wrap around.
        Expr::Literal(ScalarValue::UInt64(Some(value)), metadata) => {
            Some(Expr::Literal(ScalarValue::Decimal128(Some(i128::from(*value)), 20, 0), metadata.clone()))
        }
        _ => None,
    }
}

fn widened(expr: Expr) -> Expr {
    match expr {
        Expr::Literal(ScalarValue::Int32(value), metadata) => {
            Expr::Literal(ScalarValue::Int64(value.map(i64::from)), metadata)
        }
        other => other,
    }
}
