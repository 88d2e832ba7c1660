//! Operators that DataFusion's planner does not know, as calls of functions that mean the same.

use ashlar_base::Error;
use ashlar_functions::quantified;
use datafusion::sql::sqlparser::ast::{BinaryOperator, CastKind, DataType, Expr, UnaryOperator, Value};

use crate::select::nodes::call;

/// `x = ANY (array)` and the like.
pub(super) fn quantified(left: &Expr, operator: &BinaryOperator, right: &Expr, is_all: bool) -> Result<Expr, Error> {
    let array = match right {
        Expr::Nested(inner) => inner.as_ref(),
        other => other,
    };
    match quantified::of_sign(&operator.to_string()) {
        Some(comparison) => {
            let name = quantified::name(comparison, is_all);
            Ok(call(&name, vec![left.clone(), array.clone()]))
        }
        None => {
            let which = if is_all { "ALL" } else { "ANY" };
            Err(Error::unsupported(format!("{operator} {which} of an array is not supported")))
        }
    }
}

/// `|/ x`, `||/ x`, `@ x`, `~ x`
pub(super) fn unary(operator: UnaryOperator, operand: &Expr) -> Option<Expr> {
    let double = || Expr::Cast {
        kind: CastKind::DoubleColon,
        expr: Box::new(operand.clone()),
        data_type: DataType::DoublePrecision,
        array: false,
        format: None,
    };
    let unlabelled = |expr: Expr| Expr::Nested(Box::new(expr));
    Some(match operator {
        UnaryOperator::PGSquareRoot => unlabelled(call("|/", vec![double()])),
        UnaryOperator::PGCubeRoot => unlabelled(call("||/", vec![double()])),
        UnaryOperator::PGAbs => unlabelled(call("@", vec![operand.clone()])),
        // All bits of minus one are set.
        UnaryOperator::BitwiseNot => Expr::Nested(Box::new(Expr::BinaryOp {
            left: Box::new(Expr::Nested(Box::new(operand.clone()))),
            op: BinaryOperator::PGBitwiseXor,
            right: Box::new(Expr::value(Value::Number("-1".to_owned(), false))),
        })),
        _ => return None,
    })
}
