//! Parts of conditions that may fail, asked only of rows that what stands beside them has not decided, as in PostgreSQL.
//!
//! Called when an expression is about to be made one that runs: conditions have their places then, and nothing takes them apart
//! any more. The engine asks both sides of AND and OR of every row of a batch, unless most of them are decided; the branches of CASE
//! it computes for their own rows. So what may fail becomes a branch, behind what guards it. Where nothing may fail, nothing is changed.

use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, NullEquality, Result, ScalarValue};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::utils::{split_binary, split_binary_owned};
use datafusion_expr::{BinaryExpr, Case, Expr, Join, LogicalPlan, Operator, binary_expr, lit};

use crate::tree::{
    any_node_with_subqueries, any_part, each_expression_of, each_part, rewrite_expressions_of,
    rewrite_nodes_with_subqueries,
};

/// Functions that give something of every row, beside comparisons with the elements of an array.
const TOTAL: [&str; 33] = [
    "ascii",
    "bit_length",
    "btrim",
    "char_length",
    "character_length",
    "coalesce",
    "column_of_row",
    "date_part",
    "extract",
    "float_average",
    "float_mark",
    "float_result",
    "greatest",
    "initcap",
    "interval_order",
    "jsonb key",
    "least",
    "length",
    "lower",
    "ltrim",
    "md5",
    "nullif",
    "num_nonnulls",
    "num_nulls",
    "octet_length",
    "reverse",
    "rtrim",
    "starts_with",
    "strpos",
    "text_concatenation",
    "to_text",
    "translate",
    "upper",
];

/// Parts of the guards of a value at most: they stand twice, so that guards within guards would grow without a bound.
const GUARD_PARTS_MAX: usize = 256;

/// A plan whose conditions and outputs ask what may fail behind its guards. What tables have taken they evaluate themselves.
///
/// # Errors
/// As DataFusion's traversal.
pub fn of_plan(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !any_node_with_subqueries(&plan, is_concerned)? {
        return Ok(plan);
    }
    rewrite_nodes_with_subqueries(plan, |node| {
        if !is_concerned(&node)? {
            return Ok(Transformed::no(node));
        }
        match node {
            LogicalPlan::Filter(mut filter) => {
                let is_of_table = matches!(filter.input.as_ref(), LogicalPlan::TableScan(_));
                let predicate = std::mem::replace(&mut filter.predicate, lit(true));
                filter.predicate = if is_of_table { above_table(predicate)? } else { condition(predicate)? };
                Ok(Transformed::yes(LogicalPlan::Filter(filter)))
            }
            LogicalPlan::Join(mut join) => {
                guard_keys(&mut join);
                join.filter = join.filter.map(condition).transpose()?;
                Ok(Transformed::yes(LogicalPlan::Join(join)))
            }
            node => {
                let names = NamePreserver::new(&node);
                let named = |expr: Expr| {
                    let saved = names.save(&expr);
                    let result = value(expr)?;
                    Ok(if result.transformed { result.update_data(|expr| saved.restore(expr)) } else { result })
                };
                // What is grouped by sets has names of its own; the sets have none, or the engine knows them no more.
                let rewritten = rewrite_expressions_of(node, |expr| match expr {
                    Expr::GroupingSet(_) => expr.map_children(named),
                    expr => named(expr),
                })?;
                rewritten.map_data(LogicalPlan::recompute_schema)
            }
        }
    })
}

fn is_concerned(node: &LogicalPlan) -> Result<bool> {
    if let LogicalPlan::Join(join) = node
        && join.filter.is_some()
        && join.on.iter().any(|(left, right)| may_fail(left) || may_fail(right))
    {
        return Ok(true);
    }
    let mut found = false;
    if !matches!(node, LogicalPlan::TableScan(_)) {
        each_expression_of(node, |expr| {
            found = any_part(expr, |part| Ok(junction(part).is_some()))? && may_fail(expr);
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
    }
    Ok(found)
}

/// Keys of a join that may fail are NULL, which has no match, of rows that the other conditions of the join leave without one anyway: an
/// outer join cannot leave out these rows beforehand.
fn guard_keys(join: &mut Join) {
    let Join { left, right, on, filter, null_equality, null_aware, .. } = join;
    let Some(filter) = filter.as_ref().filter(|_| *null_equality == NullEquality::NullEqualsNothing && !*null_aware)
    else {
        return;
    };
    let parts = split_binary(filter, Operator::And);
    let guard = |key: &mut Expr, schema: &DFSchema| {
        let is_guard = |part: &&Expr| {
            let columns = part.column_refs();
            !may_fail(part)
                && !is_single(part)
                && !columns.is_empty()
                && columns.iter().all(|column| schema.has_column(column))
        };
        if may_fail(key)
            && let Some(guard) = joined(parts.iter().copied().filter(is_guard).cloned().collect(), Operator::And)
        {
            let whens = vec![(Box::new(guard), Box::new(key.clone()))];
            *key = Expr::Case(Case::new(None, whens, None));
        }
    };
    for (of_left, of_right) in on {
        guard(of_left, left.schema());
        guard(of_right, right.schema());
    }
}

/// A condition right above a table, which may be told the parts that cannot fail, to leave rows out: they stay by themselves too.
fn above_table(predicate: Expr) -> Result<Expr> {
    let plain = split_binary(&predicate, Operator::And);
    let plain = plain.into_iter().filter(|part| !may_fail(part) && !is_single(part)).cloned().collect();
    let plain = joined(plain, Operator::And);
    let guarded = condition(predicate)?;
    Ok(match plain {
        Some(plain) => binary_expr(plain, Operator::And, guarded),
        None => guarded,
    })
}

/// A condition of rows, of which NULL is as good as false. Of several that must hold those that cannot fail are asked first.
///
/// # Errors
/// As DataFusion's traversal.
pub fn condition(expr: Expr) -> Result<Expr> {
    if !may_fail(&expr) {
        return Ok(expr);
    }
    let Some(op) = junction(&expr) else { return Ok(value(expr)?.data) };
    let parts = split_binary_owned(expr, op).into_iter().map(condition);
    let mut parts = parts.collect::<Result<Vec<Expr>>>()?;
    if op == Operator::And {
        parts.sort_by_cached_key(may_fail);
    }
    // There are parts.
    Ok(branches(groups(parts, op), op).unwrap_or_else(|| lit(op == Operator::And)))
}

/// One after the other, where the ones before have not decided. Halved, so that many do not nest deeply.
fn branches(mut groups: Vec<Expr>, op: Operator) -> Option<Expr> {
    if groups.len() < 2 {
        return groups.pop();
    }
    let right = groups.split_off(groups.len() / 2);
    let (left, right) = (branches(groups, op)?, branches(right, op)?);
    let (then, otherwise) = if op == Operator::Or { (lit(true), right) } else { (right, lit(false)) };
    let whens = vec![(Box::new(left), Box::new(then))];
    Some(Expr::Case(Case::new(None, whens, Some(Box::new(otherwise)))))
}

/// A value, of which NULL is its own: the parts behind one that is NULL are asked too, since one of them may decide.
///
/// # Errors
/// As DataFusion's traversal.
pub fn value(expr: Expr) -> Result<Transformed<Expr>> {
    if !may_fail(&expr) {
        return Ok(Transformed::no(expr));
    }
    let op = match junction(&expr) {
        Some(op) if is_guarded(&expr, op) => op,
        _ => return expr.map_children(value),
    };
    let parts = split_binary_owned(expr, op).into_iter().map(|part| value(part).map(|part| part.data));
    let groups = groups(parts.collect::<Result<Vec<Expr>>>()?, op);
    let guards = groups.get(..groups.len().saturating_sub(1)).unwrap_or_default();
    if guards.iter().map(size).sum::<usize>() > GUARD_PARTS_MAX {
        return Ok(Transformed::yes(joined(groups, op).unwrap_or_else(|| lit(op == Operator::And))));
    }
    let decides = |guard: &Expr| {
        let guard = Box::new(guard.clone());
        Box::new(if op == Operator::Or { Expr::IsTrue(guard) } else { Expr::IsFalse(guard) })
    };
    let whens = guards.iter().map(|guard| (decides(guard), Box::new(lit(op == Operator::Or)))).collect();
    let otherwise = joined(groups, op).map(Box::new);
    Ok(Transformed::yes(Expr::Case(Case::new(None, whens, otherwise))))
}

/// Whether something that may fail stands behind something else, which can be asked twice.
fn is_guarded(expr: &Expr, op: Operator) -> bool {
    let parts = split_binary(expr, op);
    let last = parts.iter().rposition(|part| may_fail(part)).unwrap_or(0);
    last > 0 && !parts.iter().take(last).any(|part| is_single(part))
}

/// Parts in their order, put together so that each one that may fail begins a group.
fn groups(parts: Vec<Expr>, op: Operator) -> Vec<Expr> {
    let mut groups: Vec<Vec<Expr>> = Vec::new();
    for part in parts {
        match groups.last_mut() {
            Some(group) if !may_fail(&part) => group.push(part),
            _ => groups.push(vec![part]),
        }
    }
    groups.into_iter().filter_map(|group| joined(group, op)).collect()
}

/// All of them, halved as in `branches`.
fn joined(mut parts: Vec<Expr>, op: Operator) -> Option<Expr> {
    if parts.len() < 2 {
        return parts.pop();
    }
    let right = parts.split_off(parts.len() / 2);
    Some(binary_expr(joined(parts, op)?, op, joined(right, op)?))
}

fn junction(expr: &Expr) -> Option<Operator> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::And | Operator::Or), .. }) => Some(*op),
        _ => None,
    }
}

fn size(expr: &Expr) -> usize {
    let mut parts = 0;
    let walked = each_part(expr, |_| {
        parts += 1;
        Ok(TreeNodeRecursion::Continue)
    });
    if walked.is_ok() { parts } else { usize::MAX / 2 }
}

/// Whether there may be rows of which an expression has no value. What reads no column does for all rows or for none, and casts that may
/// fail are functions.
pub fn may_fail(expr: &Expr) -> bool {
    let found = any_part(expr, |part| {
        let fails = match part {
            Expr::BinaryExpr(BinaryExpr { op: Operator::Divide | Operator::Modulo, right, .. }) => {
                !matches!(right.as_ref(), Expr::Literal(divisor, _) if divides(divisor))
            }
            Expr::ScalarFunction(function) => !is_total_call(function),
            _ => false,
        };
        Ok(fails && part.any_column_refs())
    });
    found.unwrap_or(true)
}

/// Whether every integer has a quotient by it: of minus one the smallest has none.
pub fn divides(divisor: &ScalarValue) -> bool {
    let number = match divisor {
        ScalarValue::Int16(Some(number)) => i64::from(*number),
        ScalarValue::Int32(Some(number)) => i64::from(*number),
        ScalarValue::Int64(Some(number)) => *number,
        _ => 0,
    };
    !matches!(number, 0 | -1)
}

/// Whether a function of this name gives something of every row.
pub fn is_total(name: &str) -> bool {
    TOTAL.contains(&name) || name.ends_with(" any") || name.ends_with(" all")
}

fn is_total_call(function: &ScalarFunction) -> bool {
    // Of a subquery, which runs beforehand.
    if function.func.as_async().is_some() {
        return true;
    }
    let name = function.func.name();
    match (name, &function.args[..]) {
        // How the two zeros of floats become one.
        ("float_add", [_, Expr::Literal(zero, _)]) => {
            ScalarValue::new_zero(&zero.data_type()).is_ok_and(|nothing| nothing == *zero)
        }
        _ => is_total(name),
    }
}

/// Whether an expression is to be evaluated once: it may give something else the next time, or asks a query.
pub fn is_single(expr: &Expr) -> bool {
    let found = any_part(expr, |part| {
        Ok(match part {
            Expr::ScalarFunction(function) => part.is_volatile_node() || function.func.as_async().is_some(),
            Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => true,
            _ => false,
        })
    });
    found.unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use datafusion_expr::col;

    use super::*;

    fn not_zero() -> Expr {
        col("v").not_eq(lit(0))
    }

    fn quotient() -> Expr {
        (lit(10) / col("v")).gt(lit(1))
    }

    fn case(when: Expr, then: Expr, otherwise: Expr) -> Expr {
        Expr::Case(Case::new(None, vec![(Box::new(when), Box::new(then))], Some(Box::new(otherwise))))
    }

    #[test]
    fn what_cannot_fail_stays_as_it_is() {
        let harmless = not_zero().and(col("w").gt(lit(1)).or(col("v").is_null()));
        assert_eq!(condition(harmless.clone()).unwrap(), harmless);
        assert!(!value(harmless).unwrap().transformed);
        let alone = quotient();
        assert_eq!(condition(alone.clone()).unwrap(), alone);
        // A constant has its value for all rows, or none.
        let constant = not_zero().and((lit(10) / lit(0)).gt(lit(1)));
        assert_eq!(condition(constant.clone()).unwrap(), constant);
    }

    #[test]
    fn conditions_ask_what_may_fail_behind_what_cannot() {
        let wanted = case(not_zero(), quotient(), lit(false));
        assert_eq!(condition(not_zero().and(quotient())).unwrap(), wanted);
        assert_eq!(condition(quotient().and(not_zero())).unwrap(), wanted);
        let other = col("v").eq(lit(0));
        let wanted = case(other.clone(), lit(true), quotient());
        assert_eq!(condition(other.clone().or(quotient())).unwrap(), wanted);
        assert_eq!(condition(quotient().or(other.clone())).unwrap(), quotient().or(other));
    }

    #[test]
    fn values_ask_behind_null_too() {
        let wanted = case(Expr::IsFalse(Box::new(not_zero())), lit(false), not_zero().and(quotient()));
        assert_eq!(value(not_zero().and(quotient())).unwrap().data, wanted);
        let inside = Expr::Not(Box::new(not_zero().and(quotient())));
        assert_eq!(value(inside).unwrap().data, Expr::Not(Box::new(wanted)));
        // What stands before its guard is asked first.
        assert!(!value(quotient().and(not_zero())).unwrap().transformed);
    }

    #[test]
    fn guards_within_guards_do_not_grow_without_a_bound() {
        let mut expr = not_zero();
        for _ in 0..60 {
            expr = expr.and(quotient()).or(quotient());
        }
        assert!(size(&value(expr).unwrap().data) < 60 * 4 * GUARD_PARTS_MAX);
    }
}
