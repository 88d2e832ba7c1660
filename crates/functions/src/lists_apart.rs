//! Two lists of one value stay two: the engine's rule that simplifies expressions makes one of `x IN (1, y) AND x NOT IN (2, z)`, as if
//! items that are written differently had different values, and a truth value of `x NOT IN (1) OR x NOT IN (2)` where `x` may be NULL. To it
//! `x = 1 OR x = 2` is a list, too.
//!
//! Stands in the place of that rule, which sees another value in each further list: the same under a name. Lists that are equal are one.

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_expr::expr::InList;
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::utils::{disjunction, split_binary_owned};
use datafusion_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
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
            Lists::default().hidden(expr).map(Transformed::yes)
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

/// Whether one of the node's expressions may have two lists: none of what is counted is in fewer than one.
fn has_several_lists(plan: &LogicalPlan) -> Result<bool> {
    let mut has_several = false;
    each_expression_of(plan, |expr| {
        let mut lists = 0;
        each_part(expr, |part| {
            lists += usize::from(matches!(part, Expr::InList(_)) || is_choice(part));
            has_several |= lists > 1;
            Ok(if has_several { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(has_several)
}

/// `x = 1 OR ...`
fn is_choice(expr: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) = expr else { return false };
    column_compared(left).is_some() || column_compared(right).is_some()
}

/// The column and the literal of an equality of such.
fn column_compared(expr: &Expr) -> Option<(&Expr, &Expr)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = expr else { return None };
    match (left.as_ref(), right.as_ref()) {
        (column @ Expr::Column(_), literal @ Expr::Literal(..))
        | (literal @ Expr::Literal(..), column @ Expr::Column(_)) => Some((column, literal)),
        _ => None,
    }
}

/// The lists of an expression so far: the value of each, what it is compared with, and whether that is what it is not.
#[derive(Default)]
struct Lists(Vec<(Expr, Vec<Expr>, bool)>);

impl Lists {
    /// The expression with names for the values of lists that have another list before them.
    fn hidden(&mut self, expr: Expr) -> Result<Expr> {
        match expr {
            Expr::InList(InList { expr, list, negated }) => {
                let value = self.named(*expr, &list, negated);
                Ok(Expr::InList(InList { expr: Box::new(value), list, negated }))
            }
            Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) => {
                let parts = split_binary_owned(expr, Operator::Or);
                let literals_of = |wanted: &Expr| -> Vec<Expr> {
                    let compared = parts.iter().filter_map(column_compared);
                    compared.filter(|(column, _)| *column == wanted).map(|(_, literal)| literal.clone()).collect()
                };
                let literals: Vec<_> =
                    parts.iter().map(|part| column_compared(part).map(|(column, _)| literals_of(column))).collect();
                let mut hidden = Vec::with_capacity(parts.len());
                for (part, literals) in parts.into_iter().zip(literals) {
                    hidden.push(match (literals, part) {
                        (Some(literals), Expr::BinaryExpr(BinaryExpr { left, op, right })) => {
                            let mut side = |side: Expr| match side {
                                column @ Expr::Column(_) => self.named(column, &literals, false),
                                literal => literal,
                            };
                            let (left, right) = (Box::new(side(*left)), Box::new(side(*right)));
                            Expr::BinaryExpr(BinaryExpr { left, op, right })
                        }
                        (_, part) => self.hidden(part)?,
                    });
                }
                Ok(disjunction(hidden).unwrap_or_default())
            }
            other => other.map_children(|part| self.hidden(part).map(Transformed::yes)).map(|expr| expr.data),
        }
    }

    /// The value of a list, with a name if it is another one's too.
    fn named(&mut self, value: Expr, items: &[Expr], negated: bool) -> Expr {
        let is_same = |(one, known, is_negated): &&(Expr, Vec<Expr>, bool)| {
            *one == value && known == items && *is_negated == negated
        };
        if self.0.iter().find(is_same).is_none() {
            self.0.push((value.clone(), items.to_vec(), negated));
        }
        let of_value = self.0.iter().filter(|(one, ..)| *one == value);
        let number = of_value.take_while(|list| !is_same(list)).count();
        if number == 0 { value } else { value.alias(format!("{HIDDEN}{number}")) }
    }
}

fn shown(part: Expr) -> Transformed<Expr> {
    match part {
        Expr::Alias(alias) if alias.name.starts_with(HIDDEN) => Transformed::yes(*alias.expr),
        part => Transformed::no(part),
    }
}
