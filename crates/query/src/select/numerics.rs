//! Casts to `numeric` without a precision. In PostgreSQL each value has its own number of digits; here the type of the expression
//! decides it.
//!
//! [`settle_cast`] is called for each expression of a parsed statement, [`settle`] for a plan as the SQL planner made it. A constant
//! gets the digits that it is written with; all parameters have the same number of digits, and a value with more is refused when it is
//! bound; for a computed value the function of `ashlar_functions::bare_numeric` decides.

use ashlar_base::SqlType;
use ashlar_functions::bare_numeric;
use ashlar_functions::digits;
use ashlar_functions::tree::{any_expression, rewrite_expressions, rewrite_parts};
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType, ExactNumberInfo, Expr, UnaryOperator, Value};

/// Digits in all and behind the point of what is bound to a parameter, or is NULL.
const OF_PARAMETER: (u64, i64) = (38, SqlType::NUMERIC_PARAMETER_SCALE as i64);

/// Gives the type in a cast the digits that its operand has, where that is a constant or a parameter.
pub(super) fn settle_cast(expr: &mut Expr) {
    match expr {
        Expr::Cast { expr: inner, data_type, .. } => {
            if let Some(bare) = bare(data_type)
                && let Some((precision, scale)) = digits_of(inner)
            {
                *bare = ExactNumberInfo::PrecisionAndScale(precision, scale);
            }
        }
        Expr::TypedString(typed) => {
            if let Some(bare) = bare(&mut typed.data_type)
                && let Value::SingleQuotedString(text) = &typed.value.value
                && let Some((precision, scale)) = digits_of_text(text)
            {
                *bare = ExactNumberInfo::PrecisionAndScale(precision, scale);
            }
        }
        _ => {}
    }
}

/// Where a type says how many digits it has, if it is a numeric or an array of them and does not.
fn bare(data_type: &mut DataType) -> Option<&mut ExactNumberInfo> {
    match data_type {
        DataType::Numeric(info @ ExactNumberInfo::None)
        | DataType::Decimal(info @ ExactNumberInfo::None)
        | DataType::Dec(info @ ExactNumberInfo::None) => Some(info),
        DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => bare(element),
        _ => None,
    }
}

/// The digits of a constant or a parameter.
fn digits_of(expr: &Expr) -> Option<(u64, i64)> {
    match expr {
        Expr::Nested(inner) => digits_of(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr: inner } => match inner.as_ref() {
            Expr::Value(value) if matches!(value.value, Value::Number(..)) => digits_of(inner),
            _ => None,
        },
        Expr::Value(value) => match &value.value {
            Value::Placeholder(_) | Value::Null => Some(OF_PARAMETER),
            Value::Number(text, _) => digits_of_text(text),
            Value::SingleQuotedString(text) if text.trim_start().starts_with('{') => digits_of_items(text),
            Value::SingleQuotedString(text) => digits_of_text(text),
            _ => None,
        },
        Expr::Array(array) => widest(array.elem.iter().map(digits_of)),
        _ => None,
    }
}

/// The digits of a number; of no number, those of a parameter: whoever reads it finds the words.
fn digits_of_text(text: &str) -> Option<(u64, i64)> {
    let text = text.trim();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
    let is_number = mantissa.bytes().any(|byte| byte.is_ascii_digit())
        && mantissa.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && mantissa.bytes().filter(|byte| *byte == b'.').count() <= 1
        && exponent.parse::<i64>().is_ok();
    if !is_number {
        return Some(OF_PARAMETER);
    }
    let (_, precision, scale) = digits::plain(&format!("{mantissa}e{exponent}"))?;
    Some((precision, scale))
}

/// The digits that all items of an array's text have. What is between commas and braces may be no item: then it is no number.
fn digits_of_items(text: &str) -> Option<(u64, i64)> {
    let items = text.split(['{', '}', ',', '"']).map(str::trim).filter(|item| !item.is_empty());
    widest(items.filter(|item| !item.eq_ignore_ascii_case("null")).map(digits_of_text))
}

/// Digits for all of these; `None` where they are too many.
fn widest(mut digits: impl Iterator<Item = Option<(u64, i64)>>) -> Option<(u64, i64)> {
    let first = match digits.next() {
        Some(first) => first?,
        None => return Some(OF_PARAMETER),
    };
    let (mut whole, mut scale) = (first.0 as i64 - first.1, first.1);
    for next in digits {
        let (precision, own) = next?;
        whole = whole.max(precision as i64 - own);
        scale = scale.max(own);
    }
    let precision = u64::try_from(whole + scale).ok()?;
    (precision <= digits::DIGITS_MAX as u64).then_some((precision, scale))
}

/// Puts functions in the place of the casts that are left.
pub(super) fn settle(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !any_expression(&plan, |expr| Ok(bare_numeric::of_cast(expr).is_some()))? {
        return Ok(plan);
    }
    rewrite_expressions(plan, |expr, _| Ok(settled(expr)))
}

/// The same in an expression.
pub(super) fn settle_expression(expr: PlanExpr) -> Result<PlanExpr> {
    rewrite_parts(expr, |expr| Ok(settled(expr))).map(|settled| settled.data)
}

fn settled(expr: PlanExpr) -> Transformed<PlanExpr> {
    match bare_numeric::of_cast(&expr) {
        Some(call) => Transformed::yes(call),
        None => Transformed::no(expr),
    }
}

#[cfg(test)]
mod tests {
    use super::{OF_PARAMETER, digits_of_items, digits_of_text};

    #[test]
    fn constants_say_their_digits() {
        for (text, expected) in [
            ("1.50", Some((3, 2))),
            (" -12 ", Some((2, 0))),
            (".5", Some((1, 1))),
            ("1e-3", Some((3, 3))),
            ("2.5E+2", Some((3, 0))),
            ("abc", Some(OF_PARAMETER)),
            ("NaN", Some(OF_PARAMETER)),
            ("1e60", None),
        ] {
            assert_eq!(digits_of_text(text), expected, "{text}");
        }
    }

    #[test]
    fn items_of_an_array_have_the_digits_of_all() {
        assert_eq!(digits_of_items("{1.5,NULL,22.25}"), Some((4, 2)));
        assert_eq!(digits_of_items("{ \"1\", 3 }"), Some((1, 0)));
        assert_eq!(digits_of_items("{}"), Some(OF_PARAMETER));
    }
}
