//! Constants of CHECK constraints as PostgreSQL prints them beside numerics: `(price > (0)::numeric)`.
//!
//! There is no `numeric` without precision here. A constant that is compared is the same number without the cast; where it is computed
//! with, its digits may matter, and it is left as it is.

use pg_query::protobuf::{AConst, AExprKind, Float, a_const};
use pg_query::{Node, NodeEnum};

use crate::sql_types::{is_open_numeric, string_of};

/// Takes such casts of constants out of the comparisons of a condition.
pub(super) fn settle(node: &mut Node) {
    match &mut node.node {
        Some(NodeEnum::BoolExpr(expr)) => expr.args.iter_mut().for_each(settle),
        Some(NodeEnum::CoalesceExpr(expr)) => expr.args.iter_mut().for_each(settle),
        Some(NodeEnum::CaseExpr(case)) => {
            case.args.iter_mut().for_each(settle);
            case.defresult.iter_mut().for_each(|result| settle(result));
        }
        Some(NodeEnum::CaseWhen(when)) => {
            when.expr.iter_mut().chain(&mut when.result).for_each(|part| settle(part));
        }
        Some(NodeEnum::AExpr(expr)) => {
            let name = expr.name.iter().filter_map(string_of).next_back().unwrap_or_default();
            let kind = AExprKind::try_from(expr.kind);
            let compares = matches!(name, "=" | "<>" | "!=" | "<" | "<=" | ">" | ">=")
                && matches!(
                    kind,
                    Ok(AExprKind::AexprOp | AExprKind::AexprOpAny | AExprKind::AexprOpAll | AExprKind::AexprIn)
                );
            for side in expr.lexpr.iter_mut().chain(&mut expr.rexpr) {
                if compares {
                    as_number(side);
                }
                settle(side);
            }
        }
        _ => {}
    }
}

/// What is compared, where it is such a constant, or has such elements.
fn as_number(node: &mut Node) {
    let number = match &mut node.node {
        Some(NodeEnum::AArrayExpr(array)) => return array.elements.iter_mut().for_each(as_number),
        Some(NodeEnum::List(list)) => return list.items.iter_mut().for_each(as_number),
        Some(NodeEnum::TypeCast(cast)) if cast.type_name.as_ref().is_some_and(is_open_numeric) => {
            cast.arg.as_ref().and_then(|arg| number_of(arg))
        }
        _ => None,
    };
    if let Some(fval) = number {
        let val = Some(a_const::Val::Fval(Float { fval }));
        node.node = Some(NodeEnum::AConst(AConst { isnull: false, location: -1, val }));
    }
}

/// The digits of a constant, with a point; `None` where it is none, or is written in another way.
fn number_of(node: &Node) -> Option<String> {
    let digits = match node.node.as_ref()? {
        NodeEnum::AConst(constant) => match constant.val.as_ref()? {
            a_const::Val::Ival(value) => value.ival.to_string(),
            a_const::Val::Fval(value) => value.fval.clone(),
            a_const::Val::Sval(value) => value.sval.clone(),
            a_const::Val::Boolval(_) | a_const::Val::Bsval(_) => return None,
        },
        // `('-1'::integer)::numeric`
        NodeEnum::TypeCast(cast) => {
            let name = cast.type_name.as_ref()?.names.iter().filter_map(string_of).next_back()?;
            let is_integer = matches!(name, "int2" | "int4" | "int8" | "smallint" | "integer" | "bigint");
            let digits = number_of(cast.arg.as_ref()?)?;
            return digits.strip_suffix(".0").filter(|_| is_integer).map(|_| digits.clone());
        }
        _ => return None,
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits.as_str(), "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_plain = is_number(whole.strip_prefix('-').unwrap_or(whole)) && is_number(fraction);
    is_plain.then(|| format!("{whole}.{fraction}"))
}

#[cfg(test)]
mod tests;
