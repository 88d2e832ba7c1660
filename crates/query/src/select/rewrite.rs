//! What is said differently to DataFusion, and what must not reach it: constructs to which it would give another
//! meaning than PostgreSQL are refused here.

use std::ops::ControlFlow;

use ashlar_base::{Error, Result};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, ExactNumberInfo, Expr, Fetch, Function, LimitClause, Query, Select, SelectItem, SetExpr,
    SetOperator, SetQuantifier, Statement, TableFactor, UnaryOperator, Value, VisitMut, VisitorMut,
};

use super::lowering;

/// Rewrites a parsed statement in place.
///
/// # Errors
/// 0A000
pub(super) fn rewrite(statement: &mut Statement) -> Result<()> {
    match statement.visit(&mut Rewrite) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

mod numbers;
mod operators;
mod queries;
mod values;

use super::times;

struct Rewrite;

pub(super) fn refuse(what: &str) -> ControlFlow<Error> {
    ControlFlow::Break(Error::unsupported(format!("{what} is not supported")))
}

impl VisitorMut for Rewrite {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        if let Some(Fetch { with_ties, percent, quantity }) = query.fetch.take() {
            if with_ties || percent || query.limit_clause.as_ref().is_some_and(has_limit) {
                return refuse("this form of FETCH FIRST");
            }
            let one = Expr::value(Value::Number("1".to_owned(), false));
            let limit = Some(quantity.unwrap_or(one));
            query.limit_clause = Some(match query.limit_clause.take() {
                Some(LimitClause::LimitOffset { offset, limit_by, .. }) => {
                    LimitClause::LimitOffset { limit, offset, limit_by }
                }
                _ => LimitClause::LimitOffset { limit, offset: None, limit_by: Vec::new() },
            });
        }
        queries::check_order(query)?;
        values::settle(&mut query.body);
        if let SetExpr::Select(select) = query.body.as_mut() {
            settle_condition(&mut select.selection);
            settle_condition(&mut select.having);
        }
        check_body(&query.body)
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        times::restore(expr);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        match select.from.first_mut() {
            Some(first) => lowering::first_factor(&mut first.relation),
            None => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        lowering::table_factor(factor)
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if let Err(error) = times::rewrite(expr) {
            return ControlFlow::Break(error);
        }
        lowering::expression(expr)?;
        match expr {
            Expr::SimilarTo { .. } => refuse("SIMILAR TO"),
            Expr::Function(function) if is_row(function) => refuse("a row as a value"),
            Expr::AnyOp { left, compare_op, right, .. } if !matches!(right.as_ref(), Expr::Subquery(_)) => {
                match operators::quantified(left, compare_op, right, false) {
                    Ok(call) => *expr = call,
                    Err(error) => return ControlFlow::Break(error),
                }
                ControlFlow::Continue(())
            }
            Expr::AllOp { left, compare_op, right } if !matches!(right.as_ref(), Expr::Subquery(_)) => {
                match operators::quantified(left, compare_op, right, true) {
                    Ok(call) => *expr = call,
                    Err(error) => return ControlFlow::Break(error),
                }
                ControlFlow::Continue(())
            }
            Expr::UnaryOp { op, expr: inner } if operators::unary(*op, inner).is_some() => {
                if let Some(call) = operators::unary(*op, inner) {
                    *expr = call;
                }
                ControlFlow::Continue(())
            }
            Expr::BinaryOp { left, op: op @ (BinaryOperator::PGStartsWith | BinaryOperator::PGOverlap), right } => {
                let name = if *op == BinaryOperator::PGOverlap { "&&" } else { "starts_with" };
                *expr = operators::call(name, vec![left.as_ref().clone(), right.as_ref().clone()]);
                ControlFlow::Continue(())
            }
            Expr::IsNull(inner) | Expr::IsNotNull(inner) if matches!(inner.as_ref(), Expr::Tuple(_)) => {
                refuse("IS NULL of a row")
            }
            Expr::Cast { expr: inner, data_type, .. } if keeps_digits(data_type) => {
                if let Expr::Value(value) = inner.as_mut()
                    && let Value::Number(digits, _) = &value.value
                {
                    value.value = Value::SingleQuotedString(digits.clone());
                }
                ControlFlow::Continue(())
            }
            Expr::BinaryOp { left, op: op @ (BinaryOperator::Eq | BinaryOperator::NotEq), right } => {
                if let (Expr::Tuple(lefts), Expr::Tuple(rights)) = (left.as_ref(), right.as_ref()) {
                    if lefts.len() != rights.len() || lefts.is_empty() {
                        return refuse("comparing rows of different lengths");
                    }
                    let joint = if *op == BinaryOperator::Eq { BinaryOperator::And } else { BinaryOperator::Or };
                    let pairs = lefts.iter().zip(rights).map(|(left, right)| Expr::BinaryOp {
                        left: Box::new(left.clone()),
                        op: op.clone(),
                        right: Box::new(right.clone()),
                    });
                    let joined = pairs.reduce(|left, right| Expr::BinaryOp {
                        left: Box::new(left),
                        op: joint.clone(),
                        right: Box::new(right),
                    });
                    if let Some(joined) = joined {
                        *expr = Expr::Nested(Box::new(joined));
                    }
                }
                ControlFlow::Continue(())
            }
            // The sign of a number binds tighter than its power.
            Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner }
                if matches!(inner.as_ref(), Expr::BinaryOp { op: BinaryOperator::PGExp, .. }) =>
            {
                if let Expr::BinaryOp { left, op, right } = inner.as_ref().clone() {
                    let left = Box::new(Expr::UnaryOp { op: UnaryOperator::Minus, expr: left });
                    *expr = Expr::BinaryOp { left, op, right };
                }
                ControlFlow::Continue(())
            }
            Expr::Value(value) => {
                if let Value::Number(digits, _) = &value.value
                    && digits.contains(['e', 'E'])
                {
                    let (digits, data_type) = match numbers::plain(digits) {
                        Some((plain, precision, scale)) => {
                            (plain, DataType::Numeric(ExactNumberInfo::PrecisionAndScale(precision, scale)))
                        }
                        // More digits than a numeric here can hold.
                        None => (digits.clone(), DataType::DoublePrecision),
                    };
                    *expr = Expr::Cast {
                        kind: datafusion::sql::sqlparser::ast::CastKind::Cast,
                        expr: Box::new(Expr::value(Value::SingleQuotedString(digits))),
                        data_type,
                        array: false,
                        format: None,
                    };
                }
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// A quoted literal as a condition.
fn settle_condition(condition: &mut Option<Expr>) {
    if let Some(expr @ Expr::Value(_)) = condition
        && matches!(expr, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)))
    {
        *expr = Expr::Cast {
            kind: datafusion::sql::sqlparser::ast::CastKind::Cast,
            expr: Box::new(expr.clone()),
            data_type: DataType::Boolean,
            array: false,
            format: None,
        };
    }
}

/// `ROW(1, 2)`
fn is_row(function: &Function) -> bool {
    matches!(&function.name.0[..], [part] if part.as_ident().is_some_and(|name| {
        name.quote_style.is_none() && name.value.eq_ignore_ascii_case("row")
    }))
}

fn has_limit(clause: &LimitClause) -> bool {
    !matches!(clause, LimitClause::LimitOffset { limit: None, .. })
}

/// Types whose input function reads a number's digits exactly.
fn keeps_digits(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::DoublePrecision
            | DataType::Double(_)
            | DataType::Float8
            | DataType::Float4
            | DataType::Real
            | DataType::Float(_)
            | DataType::Numeric(_)
            | DataType::Decimal(_)
    )
}

fn check_body(body: &SetExpr) -> ControlFlow<Error> {
    match body {
        SetExpr::SetOperation { op, set_quantifier, left, right } => {
            if matches!(set_quantifier, SetQuantifier::All) && !matches!(op, SetOperator::Union) {
                return refuse(&format!("{op} ALL"));
            }
            check_body(left)?;
            check_body(right)
        }
        SetExpr::Select(select) => {
            queries::check_tables(select)?;
            let string_label = select
                .projection
                .iter()
                .any(|item| matches!(item, SelectItem::ExprWithAlias { alias, .. } if alias.quote_style == Some('\'')));
            if string_label { refuse("a string constant over several lines") } else { ControlFlow::Continue(()) }
        }
        _ => ControlFlow::Continue(()),
    }
}
