//! Rewrites a parsed statement into the dialect that DataFusion understands, and refuses constructs to which it would
//! give another meaning than PostgreSQL.

use std::ops::ControlFlow;

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_functions::walk::{self, flow};
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, BinaryOperator, DataType, ExactNumberInfo, Expr, Fetch, Function, FunctionArg,
    FunctionArgExpr, FunctionArguments, LimitClause, ObjectName, OnConflictAction, OnInsert, Query, Select, SelectItem,
    SetExpr, Statement, TableFactor, UnaryOperator, Value, VisitorMut,
};

use super::lowering;
use super::nodes::{call, cast_as};
use super::numerics;

/// Rewrites a parsed statement in place.
///
/// # Errors
/// 0A000
pub(super) fn rewrite(statement: &mut Statement) -> Result<()> {
    precedence::settle(statement)?;
    walk::outcome(walk::visit_mut(statement, &mut Rewrite::default()))
}

pub(super) mod copies;
mod likes;
mod operators;
mod patterns;
mod precedence;
mod queries;
pub(super) mod row_subqueries;
mod rows;
mod sets;
mod tables;
mod windows;

use self::copies::{Copies, nodes_of};
use super::times;

#[derive(Default)]
struct Rewrite {
    windows: windows::Windows,
    copies: Copies,
    /// The next array is what a cast is of, which says its type where it has no items.
    is_cast_array: bool,
}

pub(super) fn refuse(what: &str) -> ControlFlow<Error> {
    ControlFlow::Break(Error::unsupported(format!("{what} is not supported")))
}

/// Puts what an expression stands for in its place, where it stands for something else.
fn replace(expr: &mut Expr, result: Result<Option<Expr>>) -> ControlFlow<Error> {
    match result {
        Ok(Some(replaced)) => {
            *expr = replaced;
            ControlFlow::Continue(())
        }
        Ok(None) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

/// NULL, of a condition.
fn no_answer() -> Expr {
    cast_as(Expr::value(Value::Null), DataType::Boolean)
}

/// Takes the mark of SYMMETRIC from the operand's first part.
fn take_mark(expr: &mut Expr) -> bool {
    match expr {
        Expr::UnaryOp { op: UnaryOperator::PGPrefixFactorial, expr: inner } => {
            *expr = Expr::clone(inner);
            true
        }
        Expr::BinaryOp { left, .. } => take_mark(left),
        Expr::Cast { expr: inner, .. } | Expr::Collate { expr: inner, .. } => take_mark(inner),
        Expr::CompoundFieldAccess { root, .. } => take_mark(root),
        _ => false,
    }
}

/// `x BETWEEN SYMMETRIC a AND b`: in either order.
fn symmetric(value: &Expr, low: &Expr, high: &Expr, negated: bool) -> Expr {
    let between = |low: &Expr, high: &Expr| {
        Expr::Nested(Box::new(Expr::Between {
            expr: Box::new(value.clone()),
            negated,
            low: Box::new(low.clone()),
            high: Box::new(high.clone()),
        }))
    };
    let op = if negated { BinaryOperator::And } else { BinaryOperator::Or };
    Expr::Nested(Box::new(Expr::BinaryOp {
        left: Box::new(between(low, high)),
        op,
        right: Box::new(between(high, low)),
    }))
}

impl Rewrite {
    /// Refuses an empty array without a type (42P18), and notes whether the next array is cast.
    fn check_array(&mut self, expr: &Expr) -> ControlFlow<Error> {
        let is_typed = std::mem::take(&mut self.is_cast_array);
        self.is_cast_array = match expr {
            Expr::Cast { expr: inner, .. } => matches!(inner.as_ref(), Expr::Array(_) | Expr::Nested(_)),
            Expr::Nested(inner) => is_typed && matches!(inner.as_ref(), Expr::Array(_) | Expr::Nested(_)),
            _ => false,
        };
        if let Expr::Array(array) = expr
            && array.elem.is_empty()
            && !is_typed
        {
            let message = "cannot determine type of empty array";
            return ControlFlow::Break(
                Error::new(ErrorCode::IndeterminateDatatype, message)
                    .with_hint("Explicitly cast to the desired type, for example ARRAY[]::integer[]."),
            );
        }
        ControlFlow::Continue(())
    }

    /// LIKE, ILIKE and SIMILAR TO.
    fn pattern(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match expr {
            Expr::SimilarTo { expr: text, pattern, escape_char, negated } => {
                let similar = patterns::escape(escape_char.as_ref()).and_then(|escape| {
                    Ok(Some(match escape {
                        patterns::Escape::Backslash => patterns::similar(text, pattern, Some('\\'), *negated)?,
                        patterns::Escape::Of(escape) => patterns::similar(text, pattern, escape, *negated)?,
                        patterns::Escape::Null => no_answer(),
                    }))
                });
                replace(expr, similar)
            }
            Expr::Like { escape_char: None, .. } | Expr::ILike { escape_char: None, .. } => {
                let said = likes::quantified(expr, &mut self.copies);
                replace(expr, said)
            }
            Expr::Like { escape_char: Some(_), .. } | Expr::ILike { escape_char: Some(_), .. } => {
                flow(plain_like(expr))
            }
            _ => ControlFlow::Continue(()),
        }
    }

    /// Tests for NULL, for being distinct, and IN: operands may be rows.
    fn test(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match expr {
            Expr::IsNull(inner) => {
                let test = rows::is_null(inner, false);
                replace(expr, test)
            }
            Expr::IsNotNull(inner) => {
                let test = rows::is_null(inner, true);
                replace(expr, test)
            }
            Expr::IsDistinctFrom(left, right) => {
                let test = rows::is_distinct(left, right, false);
                replace(expr, test)
            }
            Expr::IsNotDistinctFrom(left, right) => {
                let test = rows::is_distinct(left, right, true);
                replace(expr, test)
            }
            Expr::InList { expr: row, list, negated } => {
                let test = rows::is_in(row, list, *negated, &mut self.copies);
                replace(expr, test)
            }
            Expr::InSubquery { .. } => {
                let test = row_subqueries::value(expr, &mut self.copies);
                replace(expr, test)
            }
            _ => ControlFlow::Continue(()),
        }
    }

    /// ANY and ALL, over subqueries and arrays.
    fn quantified(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match expr {
            Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } if holds_subquery(right) => {
                let test = row_subqueries::value(expr, &mut self.copies);
                replace(expr, test)
            }
            Expr::AnyOp { left, compare_op, right, .. } => {
                let test = operators::quantified(left, compare_op, right, false).map(Some);
                replace(expr, test)
            }
            Expr::AllOp { left, compare_op, right } => {
                let test = operators::quantified(left, compare_op, right, true).map(Some);
                replace(expr, test)
            }
            _ => ControlFlow::Continue(()),
        }
    }

    /// BETWEEN SYMMETRIC.
    fn between(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if let Expr::Between { expr: value, low, high, negated } = expr
            && take_mark(low)
        {
            let copied = nodes_of(&**value) + nodes_of(&**low) + nodes_of(&**high);
            flow(self.copies.take(copied))?;
            *expr = symmetric(value, low, high, *negated);
        }
        ControlFlow::Continue(())
    }

    /// Operators with one operand or two.
    fn operator(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match expr {
            Expr::UnaryOp { op, expr: inner } if operators::unary(*op, inner).is_some() => {
                if let Some(replaced) = operators::unary(*op, inner) {
                    *expr = replaced;
                }
                ControlFlow::Continue(())
            }
            Expr::BinaryOp { left, op: op @ (BinaryOperator::PGStartsWith | BinaryOperator::PGOverlap), right } => {
                let name = if *op == BinaryOperator::PGOverlap { "&&" } else { "starts_with" };
                *expr = call(name, vec![left.as_ref().clone(), right.as_ref().clone()]);
                ControlFlow::Continue(())
            }
            Expr::BinaryOp { left, op, right } => {
                let test = rows::compare(left, op, right, &mut self.copies);
                replace(expr, test)
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
            _ => ControlFlow::Continue(()),
        }
    }
}

impl VisitorMut for Rewrite {
    type Break = Error;

    // A change behind WITH is a statement inside a query.
    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<Error> {
        match statement {
            Statement::Update(update) => {
                flow(row_subqueries::conditions(&mut update.selection))?;
                update.assignments.iter_mut().try_for_each(|assignment| flow(unfold_row(assignment)))
            }
            Statement::Delete(delete) => flow(row_subqueries::conditions(&mut delete.selection)),
            Statement::Insert(insert) => match &mut insert.on {
                Some(OnInsert::OnConflict(on)) => match &mut on.action {
                    OnConflictAction::DoUpdate(update) => {
                        update.assignments.iter_mut().try_for_each(|assignment| flow(unfold_row(assignment)))
                    }
                    OnConflictAction::DoNothing => ControlFlow::Continue(()),
                },
                _ => ControlFlow::Continue(()),
            },
            _ => ControlFlow::Continue(()),
        }
    }

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
        queries::unwrap_parentheses(query);
        queries::check_order(query)?;
        queries::check_collated_order(query)?;
        if let SetExpr::Select(select) = query.body.as_mut() {
            settle_condition(&mut select.selection);
            settle_condition(&mut select.having);
        }
        check_body(&query.body)?;
        flow(sets::body(&mut query.body))?;
        let select = if let SetExpr::Select(select) = query.body.as_ref() { Some(select.as_ref()) } else { None };
        flow(self.windows.enter(select, &mut self.copies))
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
        self.windows.leave();
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        times::restore(expr);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        flow(row_subqueries::conditions(&mut select.selection))?;
        flow(self.windows.enter(Some(select), &mut self.copies))
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<Error> {
        self.windows.leave();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        flow(tables::factor(factor))?;
        lowering::table_factor(factor, &mut self.copies)
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if let Err(error) = times::rewrite(expr) {
            return ControlFlow::Break(error);
        }
        lowering::expression(expr, &mut self.copies)?;
        numerics::settle_cast(expr);
        settle_char(expr);
        self.check_array(expr)?;
        if let Expr::Function(function) = expr {
            if let FunctionArguments::List(list) = &mut function.args {
                without_nulls(&function.name, &mut list.args);
            }
            flow(self.windows.resolve(&mut function.over, &mut self.copies))?;
        }
        match expr {
            Expr::SimilarTo { .. } | Expr::Like { .. } | Expr::ILike { .. } => self.pattern(expr),
            Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsDistinctFrom(..)
            | Expr::IsNotDistinctFrom(..)
            | Expr::InList { .. }
            | Expr::InSubquery { .. } => self.test(expr),
            Expr::AnyOp { .. } | Expr::AllOp { .. } => self.quantified(expr),
            Expr::Between { .. } => self.between(expr),
            Expr::UnaryOp { .. } | Expr::BinaryOp { .. } => self.operator(expr),
            Expr::Function(function) if is_row(function) => refuse("a row as a value"),
            Expr::Cast { expr: inner, data_type, .. } if keeps_digits(data_type) => {
                if let Expr::Value(value) = inner.as_mut()
                    && let Value::Number(digits, _) = &value.value
                {
                    value.value = Value::SingleQuotedString(digits.clone());
                }
                ControlFlow::Continue(())
            }
            Expr::Value(_) => {
                type_exponent(expr);
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// `SET (a, b) = ROW(x, y)` is `SET (a, b) = (x, y)`.
fn unfold_row(assignment: &mut Assignment) -> Result<()> {
    if !matches!(assignment.target, AssignmentTarget::Tuple(_)) {
        return Ok(());
    }
    if let Some(members) = rows::members(&assignment.value) {
        assignment.value = Expr::Tuple(members);
    } else if matches!(&assignment.value, Expr::Function(function) if is_row(function)) {
        return Err(Error::unsupported("a star in ROW is not supported").with_hint("Say its columns."));
    }
    Ok(())
}

/// LIKE and ILIKE with ESCAPE, by the only escape that the engine knows: the backslash.
fn plain_like(expr: &mut Expr) -> Result<()> {
    let (Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. }) = expr else {
        return Ok(());
    };
    match patterns::escape(escape_char.as_ref())? {
        patterns::Escape::Backslash => *escape_char = None,
        patterns::Escape::Of(escape) => {
            **pattern = patterns::like(pattern, escape)?;
            *escape_char = None;
        }
        patterns::Escape::Null => *expr = no_answer(),
    }
    Ok(())
}

/// A number with an exponent gets its type: the engine takes any for a double, PostgreSQL for a numeric.
fn type_exponent(expr: &mut Expr) {
    let Expr::Value(value) = expr else { return };
    let Value::Number(digits, _) = &value.value else { return };
    if !digits.contains(['e', 'E']) {
        return;
    }
    let (digits, data_type) = match ashlar_functions::digits::plain(digits) {
        Some((plain, precision, scale)) => {
            (plain, DataType::Numeric(ExactNumberInfo::PrecisionAndScale(precision, scale)))
        }
        // More digits than a numeric here can hold.
        None => (digits.clone(), DataType::DoublePrecision),
    };
    *expr = cast_as(Expr::value(Value::SingleQuotedString(digits)), data_type);
}

/// NULL among the values of COALESCE is never its answer, and the engine finds no type for it beside some others.
fn without_nulls(name: &ObjectName, args: &mut Vec<FunctionArg>) {
    let is_coalesce = name.0.last().and_then(|part| part.as_ident()).is_some_and(|name| {
        let is_plain = name.quote_style.is_none();
        is_plain && name.value.eq_ignore_ascii_case("coalesce")
    });
    let is_null = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) => matches!(value.value, Value::Null),
        _ => false,
    };
    if is_coalesce && !args.iter().all(is_null) {
        args.retain(|arg| !is_null(arg));
    }
}

/// A constant as `"char"`, a type of one byte: the first one of a text, and the one that an integer is the code of.
fn settle_char(expr: &mut Expr) {
    let Expr::Cast { expr: inner, data_type: DataType::Custom(name, _), .. } = expr else { return };
    let is_char = name.0.last().and_then(|part| part.as_ident()).is_some_and(|ident| {
        let is_quoted = ident.quote_style.is_some();
        is_quoted && ident.value == "char"
    });
    let Expr::Value(value) = inner.as_mut() else { return };
    let code = match &value.value {
        _ if !is_char => return,
        Value::SingleQuotedString(text) => text.bytes().next(),
        Value::Number(digits, _) => digits.parse::<u8>().ok(),
        _ => return,
    };
    match code {
        Some(code @ 1..=127) => value.value = Value::SingleQuotedString(char::from(code).to_string()),
        Some(0) => value.value = Value::SingleQuotedString(String::new()),
        _ => {}
    }
}

/// A quoted literal as a condition.
fn settle_condition(condition: &mut Option<Expr>) {
    if let Some(expr @ Expr::Value(_)) = condition
        && matches!(expr, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)))
    {
        *expr = cast_as(expr.clone(), DataType::Boolean);
    }
}

/// Whether ANY or ALL is about a subquery's rows, not about an array's items.
fn holds_subquery(right: &Expr) -> bool {
    matches!(right, Expr::Subquery(_))
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
        SetExpr::SetOperation { left, right, .. } => {
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
