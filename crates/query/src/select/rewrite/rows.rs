//! Rows as values: comparisons of rows are comparisons of their members, which is how PostgreSQL defines them.

use ashlar_base::{Error, ErrorCode, Result};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Value,
};

use super::copies::{Copies, nodes_of};
use super::row_subqueries;

/// The members of `(a, b)` or `ROW(a, b)`.
pub(crate) fn members(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Tuple(members) => Some(members.clone()),
        Expr::Nested(inner) => members(inner),
        Expr::Function(function) if is_row(function) => {
            let FunctionArguments::List(list) = &function.args else { return None };
            let member = |arg: &FunctionArg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                _ => None,
            };
            list.args.iter().map(member).collect()
        }
        _ => None,
    }
}

fn is_row(function: &Function) -> bool {
    matches!(&function.name.0[..], [part] if part.as_ident().is_some_and(|name| {
        name.quote_style.is_none() && name.value.eq_ignore_ascii_case("row")
    }))
}

fn pair(left: &Expr, op: BinaryOperator, right: &Expr) -> Expr {
    Expr::Nested(Box::new(Expr::BinaryOp { left: Box::new(left.clone()), op, right: Box::new(right.clone()) }))
}

fn joined(exprs: impl IntoIterator<Item = Expr>, op: BinaryOperator) -> Expr {
    let joined = exprs.into_iter().reduce(|left, right| pair(&left, op.clone(), &right));
    joined.map_or_else(|| Expr::value(Value::Boolean(true)), |joined| Expr::Nested(Box::new(joined)))
}

fn same_length(left: &[Expr], right: &[Expr]) -> Result<()> {
    if left.len() != right.len() {
        return Err(Error::new(ErrorCode::SyntaxError, "unequal number of entries in row expressions"));
    }
    if left.is_empty() {
        return Err(Error::unsupported("cannot compare rows of zero length"));
    }
    if left.iter().chain(right).any(|member| members(member).is_some()) {
        return Err(Error::unsupported("comparing rows of rows is not supported"));
    }
    Ok(())
}

/// Whether the members of two rows are equal, one by one.
pub(super) fn equal(left: &[Expr], right: &[Expr]) -> Expr {
    joined(left.iter().zip(right).map(|(left, right)| pair(left, BinaryOperator::Eq, right)), BinaryOperator::And)
}

/// `(a, b) op (c, d)`, where both sides are rows, the right one that of a subquery too.
pub(super) fn compare(left: &Expr, op: &BinaryOperator, right: &Expr, copies: &mut Copies) -> Result<Option<Expr>> {
    let Some(left) = members(left) else { return Ok(None) };
    let strict = match op {
        BinaryOperator::Eq | BinaryOperator::NotEq => op.clone(),
        BinaryOperator::Lt | BinaryOperator::LtEq => BinaryOperator::Lt,
        BinaryOperator::Gt | BinaryOperator::GtEq => BinaryOperator::Gt,
        _ => return Ok(None),
    };
    let right = match members(right) {
        Some(right) => right,
        None => match row_subqueries::members_of(right, left.len())? {
            Some(members) => {
                copies.take(nodes_of(right).saturating_mul(left.len()))?;
                members
            }
            None => return Ok(None),
        },
    };
    same_length(&left, &right)?;
    Ok(Some(match op {
        BinaryOperator::Eq => equal(&left, &right),
        BinaryOperator::NotEq => joined(
            left.iter().zip(&right).map(|(left, right)| pair(left, BinaryOperator::NotEq, right)),
            BinaryOperator::Or,
        ),
        _ => {
            // All members but the last are said twice.
            let members = left.iter().zip(&right).take(left.len() - 1);
            copies.take(members.map(|(left, right)| nodes_of(left) + nodes_of(right)).sum())?;
            ordered(&left, &right, &strict, op)
        }
    }))
}

/// The first members that differ decide: `a < c OR (a = c AND b < d)`.
fn ordered(left: &[Expr], right: &[Expr], strict: &BinaryOperator, last: &BinaryOperator) -> Expr {
    if let ([left], [right]) = (left, right) {
        return pair(left, last.clone(), right);
    }
    let rest = ordered(&left[1..], &right[1..], strict, last);
    let tied = pair(&pair(&left[0], BinaryOperator::Eq, &right[0]), BinaryOperator::And, &rest);
    pair(&pair(&left[0], strict.clone(), &right[0]), BinaryOperator::Or, &tied)
}

/// `(a, b) IN ((1, 2), (3, 4))`
pub(super) fn is_in(expr: &Expr, list: &[Expr], negated: bool, copies: &mut Copies) -> Result<Option<Expr>> {
    let Some(left) = members(expr) else { return Ok(None) };
    copies.take(nodes_of(expr).saturating_mul(list.len().saturating_sub(1)))?;
    let mut found = Vec::with_capacity(list.len());
    for item in list {
        let right = members(item)
            .ok_or_else(|| Error::new(ErrorCode::DatatypeMismatch, "a row is compared with what is not a row"))?;
        same_length(&left, &right)?;
        found.push(equal(&left, &right));
    }
    let found = joined(found, BinaryOperator::Or);
    Ok(Some(if negated {
        Expr::UnaryOp { op: datafusion::sql::sqlparser::ast::UnaryOperator::Not, expr: Box::new(found) }
    } else {
        found
    }))
}

/// `(a, b) IS NULL`: whether every member is; `(a, b) IS NOT NULL`: whether none is.
pub(super) fn is_null(expr: &Expr, negated: bool) -> Result<Option<Expr>> {
    let Some(found) = members(expr) else { return Ok(None) };
    if found.iter().any(|member| members(member).is_some()) {
        return Err(Error::unsupported("IS NULL of a row of rows is not supported"));
    }
    let test = |member: Expr| {
        let member = Box::new(Expr::Nested(Box::new(member)));
        Expr::Nested(Box::new(if negated { Expr::IsNotNull(member) } else { Expr::IsNull(member) }))
    };
    Ok(Some(joined(found.into_iter().map(test), BinaryOperator::And)))
}

/// `(a, b) IS DISTINCT FROM (c, d)`
pub(super) fn is_distinct(left: &Expr, right: &Expr, negated: bool) -> Result<Option<Expr>> {
    let (Some(left), Some(right)) = (members(left), members(right)) else { return Ok(None) };
    same_length(&left, &right)?;
    let pairs = left.into_iter().zip(right).map(|(left, right)| {
        let (left, right) = (Box::new(left), Box::new(right));
        let test = if negated { Expr::IsNotDistinctFrom(left, right) } else { Expr::IsDistinctFrom(left, right) };
        Expr::Nested(Box::new(test))
    });
    Ok(Some(joined(pairs, if negated { BinaryOperator::And } else { BinaryOperator::Or })))
}
