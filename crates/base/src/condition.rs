//! Conditions that are known of values as they are stored: comparisons with constants and with each other, and what AND, OR and NOT make
//! of them.
//!
//! Made by whoever has planned a condition that is no more than this; asked by the store for rows that are written. What is more has to be
//! computed, see [`crate::IndexRows`]. Nothing here can fail.

use std::cmp::Ordering;

use crate::Value;

/// A condition of a row, whose values are given by their places among [`crate::IndexRows::inputs`].
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// The same of every row; `None` is NULL.
    Always(Option<bool>),
    /// A boolean by itself.
    Is(usize),
    /// The value at a place is NULL.
    IsNull(usize),
    /// Two operands, compared.
    Compared(Operand, Comparison, Operand),
    /// An operand is one of these values, none of which is NULL; they are in order.
    OneOf(Operand, Box<[Value]>),
    /// It is the other way round; NULL stays NULL.
    Not(Box<Condition>),
    /// All hold.
    All(Box<[Condition]>),
    /// One holds.
    Any(Box<[Condition]>),
}

/// What is compared.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// The value at a place.
    Input(usize),
    /// The characters of the text at a place.
    Length(usize),
    /// A constant that is not NULL.
    Constant(Value),
}

/// How two operands are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `IS DISTINCT FROM`
    Distinct,
    /// `IS NOT DISTINCT FROM`
    NotDistinct,
}

impl Comparison {
    /// As SQL writes it.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Distinct => "IS DISTINCT FROM",
            Self::NotDistinct => "IS NOT DISTINCT FROM",
        }
    }

    /// Whether it holds of two operands that have this order. Of NULL, which is equal to itself then, the DISTINCT ones know alone.
    pub fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Equal | Self::NotDistinct => order.is_eq(),
            Self::NotEqual | Self::Distinct => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

#[cfg(test)]
mod tests;
