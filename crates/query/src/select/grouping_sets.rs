//! Turns GROUPING SETS, ROLLUP and CUBE of expressions into those of columns, which a projection beneath computes.
//!
//! Runs over a plan as the SQL planner made it. Nodes above an aggregation refer to a grouping expression by the name that the engine
//! made from it; rules that give an expression PostgreSQL's meaning keep that name for an output, but not within a grouping set.

use std::sync::Arc;

use ashlar_functions::tree::{any_part, rewrite_nodes_with_subqueries, rewrite_parts};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Aggregate, Expr, GroupingSet, LogicalPlan, LogicalPlanBuilder};

/// Computes the expressions of grouping sets beneath them.
pub(super) fn beneath(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite_nodes_with_subqueries(plan, |node| {
        let LogicalPlan::Aggregate(aggregate) = node else { return Ok(Transformed::no(node)) };
        let [Expr::GroupingSet(sets)] = &aggregate.group_expr[..] else {
            return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
        };
        let mut computed: Vec<Expr> = Vec::new();
        for expr in sets.distinct_expr() {
            if !matches!(expr, Expr::Column(_)) && !computed.contains(expr) {
                computed.push(expr.clone());
            }
        }
        if computed.is_empty() {
            return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
        }
        let sets = sets.clone();
        over_columns(aggregate, sets, &computed).map(Transformed::yes)
    })
}

/// The expressions of all sets.
fn sets_of(sets: &GroupingSet) -> Vec<Expr> {
    sets.distinct_expr().into_iter().cloned().collect()
}

/// Whether a part of one of these expressions is such.
fn any_of(exprs: &[Expr], is_such: impl Fn(&Expr) -> bool) -> Result<bool> {
    for expr in exprs {
        if any_part(expr, |part| Ok(is_such(part)))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The column that holds an expression's value: of the name that the group of the expression has.
fn column_of(expr: &Expr) -> Expr {
    Expr::Column(Column::new_unqualified(expr.schema_name().to_string()))
}

fn over_columns(aggregate: Aggregate, sets: GroupingSet, computed: &[Expr]) -> Result<LogicalPlan> {
    let as_column = |expr: Expr| if computed.contains(&expr) { column_of(&expr) } else { expr };
    let all = |exprs: Vec<Expr>| exprs.into_iter().map(as_column).collect::<Vec<Expr>>();
    let sets = match sets {
        GroupingSet::Rollup(exprs) => GroupingSet::Rollup(all(exprs)),
        GroupingSet::Cube(exprs) => GroupingSet::Cube(all(exprs)),
        GroupingSet::GroupingSets(sets) => GroupingSet::GroupingSets(sets.into_iter().map(all).collect()),
    };
    // `grouping(x)` is asked of a group.
    let asked = aggregate.aggr_expr.into_iter().map(|expr| {
        let asked = rewrite_parts(expr, |part| match part {
            Expr::AggregateFunction(mut function) if function.func.name() == "grouping" => {
                function.params.args = all(function.params.args);
                Ok(Transformed::yes(Expr::AggregateFunction(function)))
            }
            part => Ok(Transformed::no(part)),
        })?;
        Ok(asked.data)
    });
    let asked = asked.collect::<Result<Vec<Expr>>>()?;
    // The name of a cast is that of the column which it is of: where nobody else reads that, it stays beneath.
    let names: Vec<String> = computed.iter().map(|expr| expr.schema_name().to_string()).collect();
    let groups = sets_of(&sets);
    let has_subquery = any_of(&asked, |part| {
        matches!(part, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_))
    })?;
    let is_read = |column: &Column| asked.iter().chain(&groups).any(|expr| expr.column_refs().contains(column));
    let columns = aggregate.input.schema().columns().into_iter().filter(|column| {
        let is_shadowed = names.contains(&column.flat_name()) && !has_subquery && !is_read(column);
        !is_shadowed
    });
    let columns: Vec<Expr> = columns.map(Expr::Column).collect();
    let named = computed.iter().zip(&names).map(|(expr, name)| expr.clone().unalias().alias(name));
    let input = LogicalPlanBuilder::from(Arc::unwrap_or_clone(aggregate.input))
        .project(columns.into_iter().chain(named).collect::<Vec<Expr>>())?
        .build()?;
    Ok(LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(input), vec![Expr::GroupingSet(sets)], asked)?))
}
