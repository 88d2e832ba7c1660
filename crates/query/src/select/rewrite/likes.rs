//! `x LIKE ANY (ARRAY[a, b])` and `LIKE ALL` as one condition for each pattern: `x LIKE a OR x LIKE b`.
//!
//! Called while a statement is rewritten. The parser takes ALL for a function.

use ashlar_base::{Error, Result};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Value,
};

use super::copies::{Copies, nodes_of};
use crate::select::lowering::is_named;

/// What such a condition stands for; `None` for another one.
///
/// # Errors
/// 0A000 for patterns that are no list, 54001 where saying it is too much.
pub(super) fn quantified(condition: &Expr, copies: &mut Copies) -> Result<Option<Expr>> {
    let (Expr::Like { expr: text, pattern, any, .. } | Expr::ILike { expr: text, pattern, any, .. }) = condition else {
        return Ok(None);
    };
    let (array, is_all) = match pattern.as_ref() {
        array if *any => (array, false),
        Expr::Function(function) => match argument_of_all(function) {
            Some(array) => (array, true),
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    let Some(patterns) = items_of(array) else {
        return Err(Error::unsupported("LIKE ANY and LIKE ALL of what is no ARRAY[...] are not supported"));
    };
    copies.take(nodes_of(text.as_ref()).saturating_mul(patterns.len()))?;
    let one = |item: &Expr| {
        let mut one = condition.clone();
        if let Expr::Like { pattern, any, .. } | Expr::ILike { pattern, any, .. } = &mut one {
            **pattern = item.clone();
            *any = false;
        }
        Expr::Nested(Box::new(one))
    };
    let op = if is_all { BinaryOperator::And } else { BinaryOperator::Or };
    let all = patterns.iter().map(one).reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: op.clone(),
        right: Box::new(right),
    });
    Ok(Some(Expr::Nested(Box::new(all.unwrap_or_else(|| Expr::value(Value::Boolean(is_all)))))))
}

/// The argument of what looks like a call of a function ALL.
fn argument_of_all(function: &Function) -> Option<&Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    match &list.args[..] {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(array))] if is_named(&function.name, "all") => Some(array),
        _ => None,
    }
}

/// The items of an array that is written out.
fn items_of(array: &Expr) -> Option<&[Expr]> {
    match array {
        Expr::Nested(inner) => items_of(inner),
        Expr::Cast { expr: inner, .. } => items_of(inner),
        Expr::Array(array) => Some(&array.elem),
        _ => None,
    }
}
