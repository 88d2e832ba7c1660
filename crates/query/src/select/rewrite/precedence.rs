//! Operators whose precedence differs between the planner's parser and PostgreSQL: `IS DISTINCT FROM`, whose right side the parser
//! reads to the end of the condition, and the prefix operators `~`, `@`, `|/` and `||/`, whose operand it ends too early.
//!
//! Called once per statement, before anything else looks at the tree. A chain of operators without parentheses stands
//! in its tree in the order of its text, whatever was bound to what: it is taken apart and put together again.

use std::ops::ControlFlow;

use ashlar_base::{Error, Result};
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Statement, UnaryOperator, Value, Visitor, VisitorMut};

/// Binds operators as PostgreSQL does.
///
/// # Errors
/// XX000 where a chain cannot be put together again: none is known.
pub(super) fn settle(statement: &mut Statement) -> Result<()> {
    let is_concerned = walk::visit(statement, &mut Concerned).is_break();
    if is_concerned && walk::visit_mut(statement, &mut Settle { around: Vec::new() }).is_break() {
        return Err(Error::internal("operators could not be put together again"));
    }
    Ok(())
}

/// Whether any of these operators stands in the statement.
struct Concerned;

impl Visitor for Concerned {
    type Break = ();
    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if is_distinct(expr) || is_prefix(expr) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn is_distinct(expr: &Expr) -> bool {
    matches!(expr, Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..))
}

fn is_prefix(expr: &Expr) -> bool {
    matches!(expr, Expr::UnaryOp { op, .. } if prefix_of(*op) == Some(SYMBOL))
}

/// How tightly operators bind: conditions first, then what is computed.
const OR: u8 = 0;
const AND: u8 = 1;
const NOT: u8 = 2;
const DISTINCT: u8 = 3;
/// All operators that have no place of their own.
const SYMBOL: u8 = 10;
const SUM: u8 = 11;
const PRODUCT: u8 = 12;
const POWER: u8 = 13;
const SIGN: u8 = 14;

fn prefix_of(op: UnaryOperator) -> Option<u8> {
    Some(match op {
        UnaryOperator::Not => NOT,
        UnaryOperator::BitwiseNot | UnaryOperator::PGAbs | UnaryOperator::PGSquareRoot | UnaryOperator::PGCubeRoot => {
            SYMBOL
        }
        UnaryOperator::Plus | UnaryOperator::Minus => SIGN,
        _ => return None,
    })
}

/// `None`: comparisons and the like, which are bound rightly.
fn binary_of(op: &BinaryOperator) -> Option<u8> {
    use BinaryOperator as Op;
    Some(match op {
        Op::Or => OR,
        Op::And => AND,
        Op::Plus | Op::Minus => SUM,
        Op::Multiply | Op::Divide | Op::Modulo => PRODUCT,
        Op::PGExp => POWER,
        Op::StringConcat
        | Op::BitwiseAnd
        | Op::BitwiseOr
        | Op::PGBitwiseXor
        | Op::PGBitwiseShiftLeft
        | Op::PGBitwiseShiftRight
        | Op::PGRegexMatch
        | Op::PGRegexIMatch
        | Op::PGRegexNotMatch
        | Op::PGRegexNotIMatch
        | Op::PGLikeMatch
        | Op::PGILikeMatch
        | Op::PGNotLikeMatch
        | Op::PGNotILikeMatch
        | Op::PGStartsWith
        | Op::PGOverlap
        | Op::Arrow
        | Op::LongArrow
        | Op::HashArrow
        | Op::HashLongArrow
        | Op::AtArrow
        | Op::ArrowAt
        | Op::HashMinus
        | Op::Question
        | Op::QuestionAnd
        | Op::QuestionPipe
        | Op::PGCustomBinaryOperator(_) => SYMBOL,
        _ => return None,
    })
}

struct Settle {
    /// What the expressions around are: the outermost of a chain puts all of it right.
    around: Vec<Option<bool>>,
}

impl VisitorMut for Settle {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let kind = kind_of(expr);
        let is_inner = self.around.last() == Some(&kind);
        self.around.push(kind);
        let Some(is_condition) = kind.filter(|_| !is_inner) else { return ControlFlow::Continue(()) };
        let mut parts = Vec::new();
        let taken = std::mem::replace(expr, Expr::value(Value::Null));
        take_apart(taken, is_condition, &mut parts);
        let mut parts = parts.into_iter().peekable();
        match put_together(&mut parts, 0) {
            Some(whole) if parts.peek().is_none() => {
                *expr = whole;
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Break(()),
        }
    }

    fn post_visit_expr(&mut self, _: &mut Expr) -> ControlFlow<()> {
        self.around.pop();
        ControlFlow::Continue(())
    }
}

/// Whether an expression is an operator of conditions, or of what is computed; `None`: neither.
fn kind_of(expr: &Expr) -> Option<bool> {
    let bound = match expr {
        Expr::UnaryOp { op, .. } => prefix_of(*op)?,
        Expr::BinaryOp { op, .. } => binary_of(op)?,
        _ if is_distinct(expr) => DISTINCT,
        _ => return None,
    };
    Some(bound < SYMBOL)
}

#[expect(
    clippy::large_enum_variant,
    reason = "the parts of one chain live for as long as it takes to put them together"
)]
enum Part {
    Operand(Expr),
    Prefix(UnaryOperator),
    Binary(BinaryOperator),
    Distinct { negated: bool },
}

/// The parts of a chain, as the text has them.
fn take_apart(expr: Expr, is_condition: bool, parts: &mut Vec<Part>) {
    if kind_of(&expr) != Some(is_condition) {
        parts.push(Part::Operand(expr));
        return;
    }
    let (left, part, right) = match expr {
        Expr::BinaryOp { left, op, right } => (Some(left), Part::Binary(op), right),
        Expr::UnaryOp { op, expr } => (None, Part::Prefix(op), expr),
        Expr::IsDistinctFrom(left, right) => (Some(left), Part::Distinct { negated: false }, right),
        Expr::IsNotDistinctFrom(left, right) => (Some(left), Part::Distinct { negated: true }, right),
        other => {
            parts.push(Part::Operand(other));
            return;
        }
    };
    if let Some(left) = left {
        take_apart(*left, is_condition, parts);
    }
    parts.push(part);
    take_apart(*right, is_condition, parts);
}

/// The longest expression of operators that bind at least so tightly.
fn put_together(parts: &mut std::iter::Peekable<std::vec::IntoIter<Part>>, least: u8) -> Option<Expr> {
    let mut left = match parts.next()? {
        Part::Operand(expr) => expr,
        Part::Prefix(op) => {
            // Of operators that bind alike, the first comes first.
            let bound = prefix_of(op)?;
            let least = if bound == SYMBOL { bound + 1 } else { bound };
            Expr::UnaryOp { op, expr: Box::new(put_together(parts, least)?) }
        }
        Part::Binary(_) | Part::Distinct { .. } => return None,
    };
    loop {
        let bound = match parts.peek() {
            Some(Part::Binary(op)) => binary_of(op)?,
            Some(Part::Distinct { .. }) => DISTINCT,
            _ => return Some(left),
        };
        if bound < least {
            return Some(left);
        }
        let part = parts.next()?;
        let (first, second) = (Box::new(left), Box::new(put_together(parts, bound + 1)?));
        left = match part {
            Part::Binary(op) => Expr::BinaryOp { left: first, op, right: second },
            Part::Distinct { negated: true } => Expr::IsNotDistinctFrom(first, second),
            _ => Expr::IsDistinctFrom(first, second),
        };
    }
}
