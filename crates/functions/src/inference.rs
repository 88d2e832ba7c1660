//! What a condition says of one side's key of a join holds of the other side's too, and the engine makes further conditions of that: but none
//! of what may fail.
//!
//! `a.code = b.code AND a.code::int > 5` asks nothing of codes that only `b` has: one of them that is no number would fail a query which
//! PostgreSQL answers. Stands in the place of the engine's rule that pushes conditions down, and makes these where keys are columns: it does
//! not see the keys where one of the conditions about them may fail. And it does not see conditions with subqueries that are run for each row:
//! they stay above all that it pushes. Nor does a condition without columns go beneath groups one of which is there without any row:
//! `SELECT count(*) FROM t HAVING $1` has no row where `$1` is false, and would have a count of nothing.

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_common::tree_node::Transformed;
use datafusion_expr::expr::{Exists, InSubquery};
use datafusion_expr::utils::{conjunction, split_conjunction, split_conjunction_owned};
use datafusion_expr::{Expr, Filter, GroupingSet, Join, LogicalPlan};
use datafusion_optimizer::push_down_filter::PushDownFilter;
use datafusion_optimizer::{ApplyOrder, Optimizer, OptimizerConfig, OptimizerRule};

use crate::empty_subqueries::EmptySubqueries;
use crate::guards::may_fail;
use crate::lists_apart;
use crate::tree::any_part;

/// The name of a key that is not to be seen: one that no user's column has.
const HIDDEN: &str = "\u{1}key";

/// The engine's rules for logical plans, with the one of this module and those of [`lists_apart`] and [`empty_subqueries`](crate::empty_subqueries).
pub fn optimizer_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let guarded: [Arc<dyn OptimizerRule + Send + Sync>; 2] =
        [Arc::new(GuardedInference::default()), lists_apart::simplification()];
    let mut rules = Optimizer::new().rules;
    for rule in &mut rules {
        if let Some(guarded) = guarded.iter().find(|guarded| guarded.name() == rule.name()) {
            *rule = Arc::clone(guarded);
        }
    }
    rules.insert(0, Arc::new(EmptySubqueries));
    rules
}

/// See the module.
#[derive(Debug, Default)]
struct GuardedInference(PushDownFilter);

impl OptimizerRule for GuardedInference {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !has_condition_that_stays(&plan)? {
            return self.pushed(plan, config);
        }
        let (staying, others, input) = conditions_of(plan)?;
        let beneath = match conjunction(others) {
            Some(others) => self.pushed(filter(others, input)?, config)?.data,
            None => Arc::unwrap_or_clone(input),
        };
        Ok(Transformed::yes(match conjunction(staying) {
            Some(staying) => filter(staying, Arc::new(beneath))?,
            None => beneath,
        }))
    }
}

impl GuardedInference {
    fn pushed(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !may_infer_failure(&plan) {
            return self.0.rewrite(plan, config);
        }
        let rewritten = self.0.rewrite(with_keys(plan, hidden), config)?;
        rewritten.map_data(|plan| Ok(with_keys(plan, shown)))
    }
}

fn filter(condition: Expr, input: Arc<LogicalPlan>) -> Result<LogicalPlan> {
    Filter::try_new(condition, input).map(LogicalPlan::Filter)
}

/// Whether filters, one above the other, have a condition beside or above others that is not to be pushed down.
fn has_condition_that_stays(plan: &LogicalPlan) -> Result<bool> {
    let (mut node, mut has_no_columns) = (plan, false);
    while let LogicalPlan::Filter(filter) = node {
        if reads_rows_around(&filter.predicate)? {
            return Ok(true);
        }
        has_no_columns |= split_conjunction(&filter.predicate).into_iter().any(is_without_columns);
        node = filter.input.as_ref();
    }
    Ok(has_no_columns && has_group_of_no_rows(node))
}

fn is_without_columns(condition: &Expr) -> bool {
    condition.column_refs().is_empty()
}

/// Whether these are groups one of which is there, once, where there are no rows.
fn has_group_of_no_rows(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Aggregate(aggregate) = plan else { return false };
    match &aggregate.group_expr[..] {
        [Expr::GroupingSet(GroupingSet::GroupingSets(sets))] => sets.iter().any(Vec::is_empty),
        [Expr::GroupingSet(GroupingSet::Rollup(_) | GroupingSet::Cube(_))] => true,
        keys => keys.is_empty(),
    }
}

/// The conditions of filters one above the other that stay, the others, and what the filters are over. What was asked first stands first.
fn conditions_of(plan: LogicalPlan) -> Result<(Vec<Expr>, Vec<Expr>, Arc<LogicalPlan>)> {
    let (mut levels, mut input) = (Vec::new(), Arc::new(plan));
    loop {
        match Arc::unwrap_or_clone(input) {
            LogicalPlan::Filter(filter) => {
                levels.push(split_conjunction_owned(filter.predicate));
                input = filter.input;
            }
            other => {
                input = Arc::new(other);
                break;
            }
        }
    }
    let (mut staying, mut others) = (Vec::new(), Vec::new());
    let is_above_groups = has_group_of_no_rows(&input);
    for condition in levels.into_iter().rev().flatten() {
        if reads_rows_around(&condition)? || is_above_groups && is_without_columns(&condition) {
            staying.push(condition);
        } else {
            others.push(condition);
        }
    }
    Ok((staying, others, input))
}

/// Whether a condition has a subquery that reads the rows of the filter and was not joined to them. The engine sees no columns in such a one
/// and would push it where those are not: to any side of a join, beneath names and groups.
fn reads_rows_around(condition: &Expr) -> Result<bool> {
    any_part(condition, |part| {
        Ok(match part {
            Expr::ScalarSubquery(subquery)
            | Expr::Exists(Exists { subquery, .. })
            | Expr::InSubquery(InSubquery { subquery, .. }) => !subquery.outer_ref_columns.is_empty(),
            _ => false,
        })
    })
}

/// Whether a further condition would be made of one that may fail.
fn may_infer_failure(plan: &LogicalPlan) -> bool {
    let (mut node, mut conditions) = (plan, Vec::new());
    loop {
        match node {
            LogicalPlan::Filter(filter) => {
                conditions.extend(split_conjunction(&filter.predicate));
                node = filter.input.as_ref();
            }
            LogicalPlan::Join(join) => {
                conditions.extend(join.filter.iter().flat_map(split_conjunction));
                return conditions.into_iter().any(|condition| is_of_keys(condition, join) && may_fail(condition));
            }
            _ => return false,
        }
    }
}

/// Whether a condition has a key of a join that is a column.
fn is_of_keys(condition: &Expr, join: &Join) -> bool {
    let columns = condition.column_refs();
    let is_key = |key: &Expr| key.try_as_col().is_some_and(|column| columns.contains(column));
    join.on.iter().any(|(left, right)| is_key(left) || is_key(right))
}

/// The same with other keys of the join, which may be beneath filters.
fn with_keys(plan: LogicalPlan, change: fn(Expr) -> Expr) -> LogicalPlan {
    match plan {
        LogicalPlan::Filter(mut filter) => {
            filter.input = Arc::new(with_keys(Arc::unwrap_or_clone(filter.input), change));
            LogicalPlan::Filter(filter)
        }
        LogicalPlan::Join(mut join) => {
            join.on = join.on.into_iter().map(|(left, right)| (change(left), change(right))).collect();
            LogicalPlan::Join(join)
        }
        other => other,
    }
}

fn hidden(key: Expr) -> Expr {
    if key.try_as_col().is_some() { key.alias(HIDDEN) } else { key }
}

fn shown(key: Expr) -> Expr {
    match key {
        Expr::Alias(alias) if alias.name == HIDDEN => *alias.expr,
        key => key,
    }
}

#[cfg(test)]
mod tests {
    use datafusion_expr::col;

    use super::*;

    #[test]
    fn keys_are_hidden_and_shown_again() {
        for key in [col("a.k"), col("k").alias("other"), col("k") + col("l")] {
            let there = hidden(key.clone());
            assert!(there.try_as_col().is_none());
            assert_eq!(shown(there), key);
        }
    }
}
