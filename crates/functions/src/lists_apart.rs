//! Two lists of one value stay two: the engine's rule that simplifies expressions makes one of `x IN (1, y) AND x NOT IN (2, z)`, as if
//! items that are written differently had different values, and a truth value of `x NOT IN (1) OR x NOT IN (2)` where `x` may be NULL. To it
//! `x = 1 OR x = 2` is a list, too, and so is `x = ANY ('{1,2}')`.
//!
//! Stands in the place of that rule, which does not see that what AND and OR connect are lists: such parts have a name around them.

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use datafusion_optimizer::simplify_expressions::SimplifyExpressions;
use datafusion_optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::quantified;
use crate::tree::{any_part, each_expression_of, each_part, rewrite_parts, rewrite_parts_down};

/// A name that no user's column has.
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
            rewrite_parts_down(expr, hidden)
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

/// Whether one of the node's expressions may have two lists.
fn has_several_lists(plan: &LogicalPlan) -> Result<bool> {
    let mut has_several = false;
    each_expression_of(plan, |expr| {
        let (mut lists, mut is_connected) = (0, false);
        each_part(expr, |part| {
            is_connected |= matches!(part, Expr::BinaryExpr(BinaryExpr { op: Operator::And | Operator::Or, .. }));
            lists += usize::from(begins_list(part));
            has_several |= lists > 1 && is_connected;
            Ok(if has_several { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(has_several)
}

/// Whether a part is a list, or may become one: of several equalities the OR between them.
fn begins_list(part: &Expr) -> bool {
    match part {
        Expr::InList(_) | Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) => true,
        Expr::ScalarFunction(function) => function.func.inner().downcast_ref::<quantified::Quantified>().is_some(),
        _ => false,
    }
}

/// A part with names around those lists that it connects. What AND connects may be the choices of an OR; those of an OR that are ANDs stay
/// as they are, for what all of them ask is asked once, before them: their lists have names already.
fn hidden(part: Expr) -> Result<Transformed<Expr>> {
    let Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) = part else {
        return Ok(Transformed::no(part));
    };
    let named = |side: Expr| -> Result<Expr> {
        let stays = match &side {
            Expr::BinaryExpr(BinaryExpr { op: inner, .. }) => *inner == Operator::And || *inner == op,
            _ => false,
        };
        let has_list = !stays && any_part(&side, |part| Ok(begins_list(part)))?;
        Ok(if has_list { side.alias(HIDDEN) } else { side })
    };
    let (left, right) = (Box::new(named(*left)?), Box::new(named(*right)?));
    Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right })))
}

fn shown(part: Expr) -> Transformed<Expr> {
    match part {
        Expr::Alias(alias) if alias.name == HIDDEN => Transformed::yes(*alias.expr),
        part => Transformed::no(part),
    }
}
