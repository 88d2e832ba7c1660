//! Long chains of AND and OR as balanced trees: `a OR b OR c OR d` as `(a OR b) OR (c OR d)`.
//!
//! The parser nests a chain of n operands n deep, and the engine asks each level for its type by walking down to the bottom:
//! time that grows with the square of n, and a stack as deep as the chain. Both operators are associative.

use std::ops::ControlFlow;

use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Statement, Value, VisitorMut};

/// Chains below this many operands stay as they are, and so do the trees made here: none is deeper.
const OPERANDS_MIN: usize = 32;

/// Balances all chains of a statement.
pub(super) fn balance(statement: &mut Statement) {
    let _ = walk::visit_mut(statement, &mut Balance);
}

struct Balance;

impl VisitorMut for Balance {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } = expr else {
            return ControlFlow::Continue(());
        };
        let op = op.clone();
        if chain(expr, &op).take(OPERANDS_MIN).count() == OPERANDS_MIN {
            let whole = std::mem::replace(expr, Expr::value(Value::Null));
            *expr = tree(operands(whole, &op), &op);
        }
        ControlFlow::Continue(())
    }
}

/// The operators of a chain, from the last one down.
fn chain<'e>(expr: &'e Expr, op: &'e BinaryOperator) -> impl Iterator<Item = &'e Expr> {
    std::iter::successors(Some(expr), move |expr| match expr {
        Expr::BinaryOp { left, op: found, .. } if found == op => Some(left),
        _ => None,
    })
}

fn operands(whole: Expr, op: &BinaryOperator) -> Vec<Expr> {
    let mut operands = Vec::new();
    let mut rest = whole;
    loop {
        match rest {
            Expr::BinaryOp { left, op: found, right } if found == *op => {
                operands.push(*right);
                rest = *left;
            }
            first => {
                operands.push(first);
                operands.reverse();
                return operands;
            }
        }
    }
}

/// Joins neighbours until one is left.
fn tree(mut operands: Vec<Expr>, op: &BinaryOperator) -> Expr {
    while operands.len() > 1 {
        let mut halved = Vec::with_capacity(operands.len().div_ceil(2));
        let mut rest = operands.into_iter();
        while let Some(left) = rest.next() {
            halved.push(match rest.next() {
                Some(right) => Expr::BinaryOp { left: Box::new(left), op: op.clone(), right: Box::new(right) },
                None => left,
            });
        }
        operands = halved;
    }
    operands.pop().unwrap_or_else(|| Expr::value(Value::Null))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn balanced(condition: &str) -> (Vec<String>, usize) {
        let mut statement = crate::select::parse(&format!("SELECT 1 WHERE {condition}")).unwrap();
        balance(&mut statement);
        let mut leaves = Vec::new();
        let mut depth = 0;
        let Statement::Query(query) = statement else { panic!("a query") };
        let selection = query.body.as_select().unwrap().selection.clone().unwrap();
        let mut open = vec![(selection, 1)];
        while let Some((expr, level)) = open.pop() {
            depth = depth.max(level);
            match expr {
                Expr::BinaryOp { left, op: BinaryOperator::Or, right } => {
                    open.push((*right, level + 1));
                    open.push((*left, level + 1));
                }
                leaf => leaves.push(leaf.to_string()),
            }
        }
        (leaves, depth)
    }

    #[test]
    fn a_long_chain_is_shallow_and_keeps_its_order() {
        let operands: Vec<String> = (0..5000).map(|number| format!("a = {number}")).collect();
        let (leaves, depth) = balanced(&operands.join(" OR "));
        assert_eq!(leaves, operands);
        assert_eq!(depth, 14, "5000 leaves under 13 levels of operators");
    }

    #[test]
    fn a_short_chain_stays() {
        let (leaves, depth) = balanced("a OR b OR c AND d");
        assert_eq!(leaves, ["a", "b", "c AND d"]);
        assert_eq!(depth, 3);
    }
}
