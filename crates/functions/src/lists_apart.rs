//! Two lists of one value stay two: the engine's rule that simplifies expressions makes one of `x IN (1, y) AND x NOT IN (2, z)`, as if
//! items that are written differently had different values, and a truth value of `x NOT IN (1) OR x NOT IN (2)` where `x` may be NULL.
//!
//! Stands in the place of that rule, which sees another value in each further list: the same under a name.

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion_expr::expr::InList;
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::{Expr, LogicalPlan};
use datafusion_optimizer::simplify_expressions::SimplifyExpressions;
use datafusion_optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::tree::{each_expression_of, each_part, rewrite_parts};

/// What names begin with that no user's column has.
const HIDDEN: &str = "\u{1}list";

/// The rule in the place of the engine's.
pub fn simplification() -> Arc<dyn OptimizerRule + Send + Sync> {
    Arc::new(ListsApart::default())
}

/// See the module.
#[derive(Debug, Default)]
struct ListsApart(SimplifyExpressions);

impl OptimizerRule for ListsApart {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !has_several_lists(&plan)? {
            return self.0.rewrite(plan, config);
        }
        let names = NamePreserver::new(&plan);
        let mut saved = Vec::new();
        let hidden = plan.map_expressions(|expr| {
            saved.push(names.save(&expr));
            let mut number = 0;
            rewrite_parts(expr, |part| Ok(hidden(part, &mut number)))
        })?;
        let simplified = self.0.rewrite(hidden.data, config)?;
        let mut saved = saved.into_iter();
        simplified.transform_data(|plan| {
            plan.map_expressions(|expr| {
                let shown = rewrite_parts(expr, |part| Ok(shown(part)))?;
                Ok(match saved.next() {
                    Some(name) => shown.update_data(|expr| name.restore(expr)),
                    None => shown,
                })
            })
        })
    }
}

/// Whether one of the node's expressions has two lists.
fn has_several_lists(plan: &LogicalPlan) -> Result<bool> {
    let mut has_several = false;
    each_expression_of(plan, |expr| {
        let mut lists = 0;
        each_part(expr, |part| {
            lists += usize::from(matches!(part, Expr::InList(_)));
            has_several |= lists > 1;
            Ok(if has_several { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(has_several)
}

/// A list of a value with a name of its own, unless it is the first.
fn hidden(part: Expr, number: &mut usize) -> Transformed<Expr> {
    let Expr::InList(InList { expr, list, negated }) = part else { return Transformed::no(part) };
    *number += 1;
    let expr = if *number > 1 { Box::new(expr.alias(format!("{HIDDEN}{number}"))) } else { expr };
    Transformed::yes(Expr::InList(InList { expr, list, negated }))
}

fn shown(part: Expr) -> Transformed<Expr> {
    match part {
        Expr::Alias(alias) if alias.name.starts_with(HIDDEN) => Transformed::yes(*alias.expr),
        part => Transformed::no(part),
    }
}
