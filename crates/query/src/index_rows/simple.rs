//! Conditions that compare columns with constants or with each other, as [`Condition`]s: the store evaluates them by itself for each
//! row that is written, whereas the engine takes some 20 us for a row.
//!
//! Called when a condition is planned. A condition of any other form gives `None`, and stays an expression of the engine.

use ashlar_base::{ColumnId, Comparison, Condition, Operand, ScalarType, SqlType, Value};
use ashlar_store::arrow_types::{sql_type_of, to_arrow_type};
use ashlar_store::compare_datums;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::utils::split_binary;
use datafusion::logical_expr::{Between, BinaryExpr, Cast, Expr, Operator};

use super::by_id;
use crate::probes::constant;

/// The columns that a condition reads, in the order of its places.
pub(super) struct Columns<'c> {
    pub(super) ids: &'c [ColumnId],
    pub(super) types: &'c [SqlType],
}

/// An operand, and the type that it is compared as.
type Typed = (Operand, SqlType);

/// The condition that an expression is, with its columns named by their ids.
pub(super) fn of(expr: &Expr, columns: &Columns<'_>) -> Option<Condition> {
    match expr {
        Expr::Alias(alias) => of(&alias.expr, columns),
        Expr::Literal(ScalarValue::Boolean(held), _) => Some(Condition::Always(*held)),
        Expr::Literal(ScalarValue::Null, _) => Some(Condition::Always(None)),
        Expr::Column(_) => {
            let place = columns.place(expr)?;
            (columns.types[place] == SqlType::Scalar(ScalarType::Bool)).then_some(Condition::Is(place))
        }
        Expr::Not(part) => of(part, columns).map(not),
        Expr::IsNull(part) => columns.place(part).map(Condition::IsNull),
        Expr::IsNotNull(part) => columns.place(part).map(Condition::IsNull).map(not),
        Expr::IsTrue(part) => columns.is(part, Comparison::NotDistinct, true),
        Expr::IsNotTrue(part) => columns.is(part, Comparison::Distinct, true),
        Expr::IsFalse(part) => columns.is(part, Comparison::NotDistinct, false),
        Expr::IsNotFalse(part) => columns.is(part, Comparison::Distinct, false),
        Expr::IsUnknown(part) => columns.place(part).map(Condition::IsNull),
        Expr::IsNotUnknown(part) => columns.place(part).map(Condition::IsNull).map(not),
        Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::And | Operator::Or), .. }) => {
            let parts = split_binary(expr, *op).into_iter().map(|part| of(part, columns));
            let parts = parts.collect::<Option<Box<[Condition]>>>()?;
            Some(if *op == Operator::And { Condition::All(parts) } else { Condition::Any(parts) })
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => compared(left, comparison(*op)?, right, columns),
        Expr::Between(Between { expr, negated, low, high }) => {
            let low = compared(expr, Comparison::GreaterOrEqual, low, columns)?;
            let high = compared(expr, Comparison::LessOrEqual, high, columns)?;
            let within = Condition::All([low, high].into());
            Some(if *negated { not(within) } else { within })
        }
        Expr::InList(InList { expr, list, negated }) => {
            let (operand, sql_type) = columns.operand(expr)?;
            let value = |item: &Expr| match item {
                Expr::Literal(literal, _) => constant(sql_type, literal),
                _ => None,
            };
            let mut values = list.iter().map(value).collect::<Option<Vec<Value>>>()?;
            values.sort_by(|one, other| compare_datums(&one.as_datum(), &other.as_datum()));
            let found = Condition::OneOf(operand, values.into());
            Some(if *negated { not(found) } else { found })
        }
        _ => None,
    }
}

fn not(part: Condition) -> Condition {
    Condition::Not(Box::new(part))
}

fn comparison(op: Operator) -> Option<Comparison> {
    match op {
        Operator::Eq => Some(Comparison::Equal),
        Operator::NotEq => Some(Comparison::NotEqual),
        Operator::Lt => Some(Comparison::Less),
        Operator::LtEq => Some(Comparison::LessOrEqual),
        Operator::Gt => Some(Comparison::Greater),
        Operator::GtEq => Some(Comparison::GreaterOrEqual),
        Operator::IsDistinctFrom => Some(Comparison::Distinct),
        Operator::IsNotDistinctFrom => Some(Comparison::NotDistinct),
        _ => None,
    }
}

/// Two operands of one type, one of which may be a constant.
fn compared(left: &Expr, comparison: Comparison, right: &Expr, columns: &Columns<'_>) -> Option<Condition> {
    let beside = |(_, sql_type): &Typed, other: &Expr| match other {
        Expr::Literal(literal, _) => constant(*sql_type, literal).map(Operand::Constant),
        other => {
            let (operand, other) = columns.operand(other)?;
            (to_arrow_type(*sql_type) == to_arrow_type(other)).then_some(operand)
        }
    };
    match (columns.operand(left), columns.operand(right)) {
        (Some(left), _) => {
            let right = beside(&left, right)?;
            Some(Condition::Compared(left.0, comparison, right))
        }
        (None, Some(right)) => {
            let left = beside(&right, left)?;
            Some(Condition::Compared(left, comparison, right.0))
        }
        (None, None) => None,
    }
}

impl Columns<'_> {
    /// The place of a column.
    fn place(&self, expr: &Expr) -> Option<usize> {
        let Expr::Column(column) = expr else { return None };
        self.ids.iter().position(|id| by_id(*id) == column.name)
    }

    /// A column, compared with a boolean.
    fn is(&self, expr: &Expr, comparison: Comparison, held: bool) -> Option<Condition> {
        let place = self.place(expr)?;
        Some(Condition::Compared(Operand::Input(place), comparison, Operand::Constant(Value::Bool(held))))
    }

    /// A column, one that is cast to where all of its values are the same, or the length of a text.
    fn operand(&self, expr: &Expr) -> Option<Typed> {
        match expr {
            Expr::Column(_) => {
                let place = self.place(expr)?;
                is_ordered(self.types[place]).then_some((Operand::Input(place), self.types[place]))
            }
            Expr::Cast(Cast { expr, field }) => {
                let place = self.place(expr)?;
                let to = sql_type_of(field)?;
                widens(self.types[place], to).then_some((Operand::Input(place), to))
            }
            Expr::ScalarFunction(call) if call.func.name() == "character_length" => {
                let [text] = &call.args[..] else { return None };
                let place = self.place(text)?;
                let is_text = matches!(
                    self.types[place],
                    SqlType::Scalar(ScalarType::Text | ScalarType::Varchar { .. } | ScalarType::Char { .. })
                );
                is_text.then_some((Operand::Length(place), SqlType::Scalar(ScalarType::Int4)))
            }
            _ => None,
        }
    }
}

/// Whether values of a type are compared as they are: others are compared by what stands for their order.
fn is_ordered(sql_type: SqlType) -> bool {
    match sql_type {
        SqlType::Array(_) => false,
        SqlType::Scalar(scalar) => !matches!(scalar, ScalarType::Json | ScalarType::Jsonb | ScalarType::Interval),
    }
}

/// Whether a cast changes nothing of what values are stored as, but the width of integers and floats, which are compared whatever
/// their widths.
fn widens(from: SqlType, to: SqlType) -> bool {
    let (SqlType::Scalar(from), SqlType::Scalar(to)) = (from, to) else { return false };
    match (from, to) {
        (ScalarType::Int2, ScalarType::Int4 | ScalarType::Int8)
        | (ScalarType::Int4, ScalarType::Int8)
        | (ScalarType::Float4, ScalarType::Float8) => true,
        (ScalarType::Numeric { precision, scale }, ScalarType::Numeric { precision: wider, scale: same }) => {
            scale == same && precision <= wider
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
