//! What is said differently to DataFusion, and what must not reach it: constructs to which it would give another
//! meaning than PostgreSQL are refused here.

use std::ops::ControlFlow;

use ashlar_base::{Error, Result};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, Fetch, Function, FunctionArg, FunctionArgExpr, FunctionArguments, LimitClause,
    Query, Select, SelectItem, SetExpr, SetOperator, SetQuantifier, Statement, TableFactor, UnaryOperator, Value,
    VisitMut, VisitorMut,
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
        check_body(&query.body)
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
        lowering::expression(expr)?;
        match expr {
            Expr::AtTimeZone { .. } => refuse("AT TIME ZONE"),
            Expr::Extract { field, .. } if is_below_minutes(&field.to_string()) => {
                refuse(&format!("extract({}): its fraction would be lost", field.to_string().to_lowercase()))
            }
            Expr::Function(function) if loses_fraction(function) => {
                refuse("date_part of seconds: its fraction would be lost")
            }
            Expr::SimilarTo { .. } => refuse("SIMILAR TO"),
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
            // A number with an exponent is beyond what a numeric here can hold.
            Expr::Value(value) => {
                if let Value::Number(digits, _) = &value.value
                    && digits.contains(['e', 'E'])
                {
                    let quoted = Expr::value(Value::SingleQuotedString(digits.clone()));
                    *expr = Expr::Cast {
                        kind: datafusion::sql::sqlparser::ast::CastKind::Cast,
                        expr: Box::new(quoted),
                        data_type: DataType::DoublePrecision,
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

/// Fields whose values have a fraction in PostgreSQL, and none in DataFusion.
fn is_below_minutes(field: &str) -> bool {
    matches!(
        field.to_ascii_lowercase().as_str(),
        "second" | "seconds" | "sec" | "secs" | "s" | "millisecond" | "milliseconds" | "msec" | "ms"
    )
}

fn loses_fraction(function: &Function) -> bool {
    let is_date_part = matches!(&function.name.0[..], [part] if part.as_ident().is_some_and(|name| {
        matches!(name.value.to_ascii_lowercase().as_str(), "date_part" | "datepart")
    }));
    let FunctionArguments::List(list) = &function.args else { return false };
    let first = list.args.first();
    is_date_part
        && matches!(first, Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))))
            if matches!(&value.value, Value::SingleQuotedString(field) if is_below_minutes(field)))
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
            let string_label = select
                .projection
                .iter()
                .any(|item| matches!(item, SelectItem::ExprWithAlias { alias, .. } if alias.quote_style == Some('\'')));
            if string_label { refuse("a string constant over several lines") } else { ControlFlow::Continue(()) }
        }
        _ => ControlFlow::Continue(()),
    }
}
