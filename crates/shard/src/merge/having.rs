//! The condition of HAVING, on groups that are complete: comparisons of numbers, and what AND, OR and NOT make of them.
//!
//! Nothing in it can fail, so that it does not matter of which groups it is asked, nor in which order.

use std::cmp::Ordering;

use ashlar_base::{Error, Result};

use super::decimal::Decimal;
use super::{Field, broken, cells, value};

/// A condition on the columns of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Having(pub(crate) Condition);

/// The same while it is put together. Columns are counted from 0.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Condition {
    /// Every one of them.
    All(Vec<Condition>),
    /// One of them.
    Any(Vec<Condition>),
    Not(Box<Condition>),
    IsNull(usize),
    /// A column of truth values.
    Column(usize),
    Compare(Operand, Comparison, Operand),
}

/// What is compared.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operand {
    Column(usize),
    Number(Decimal),
}

/// How two numbers have to be to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Having {
    /// # Errors
    /// 0A000 for a column of a type whose values are not compared here.
    pub(super) fn check(&self, fields: &[Field]) -> Result<()> {
        self.0.check(fields)
    }

    /// Whether it holds for a row of these columns.
    ///
    /// # Errors
    /// What reading its values finds.
    pub(super) fn holds(&self, fields: &[Field], body: &[u8]) -> Result<bool> {
        let cells: Vec<Option<&[u8]>> = cells(body).collect::<Result<_>>()?;
        Ok(self.0.value(fields, &cells)? == Some(true))
    }
}

impl Condition {
    fn check(&self, fields: &[Field]) -> Result<()> {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().try_for_each(|part| part.check(fields)),
            Self::Not(part) => part.check(fields),
            Self::IsNull(column) => field(fields, *column).map(|_| ()),
            Self::Column(column) if value::is_bool(field(fields, *column)?) => Ok(()),
            Self::Column(_) => Err(unknown()),
            Self::Compare(a, _, b) => a.check(fields).and_then(|()| b.check(fields)),
        }
    }

    /// `None`: a NULL leaves it open.
    fn value(&self, fields: &[Field], cells: &[Option<&[u8]>]) -> Result<Option<bool>> {
        Ok(match self {
            Self::All(parts) => Self::joined(parts, false, fields, cells)?,
            Self::Any(parts) => Self::joined(parts, true, fields, cells)?,
            Self::Not(part) => part.value(fields, cells)?.map(|value| !value),
            Self::IsNull(column) => Some(cell(cells, *column)?.is_none()),
            Self::Column(column) => {
                let field = field(fields, *column)?;
                cell(cells, *column)?.map(|bytes| value::is_true(field, bytes)).transpose()?
            }
            Self::Compare(a, comparison, b) => match (a.value(fields, cells)?, b.value(fields, cells)?) {
                (Some(a), Some(b)) => Some(comparison.is(a.compare(b))),
                _ => None,
            },
        })
    }

    /// What several come to, of which one with this value decides.
    fn joined(parts: &[Self], decides: bool, fields: &[Field], cells: &[Option<&[u8]>]) -> Result<Option<bool>> {
        let mut is_known = true;
        for part in parts {
            match part.value(fields, cells)? {
                Some(value) if value == decides => return Ok(Some(decides)),
                Some(_) => {}
                None => is_known = false,
            }
        }
        Ok(is_known.then_some(!decides))
    }
}

impl Operand {
    /// A number as it is written; `None` where its digits are not known here.
    pub(crate) fn number(written: &str) -> Option<Self> {
        Decimal::parse(written).ok().map(Self::Number)
    }

    fn check(&self, fields: &[Field]) -> Result<()> {
        match self {
            Self::Column(column) if !value::is_number(field(fields, *column)?) => Err(unknown()),
            Self::Column(_) | Self::Number(_) => Ok(()),
        }
    }

    fn value(&self, fields: &[Field], cells: &[Option<&[u8]>]) -> Result<Option<Decimal>> {
        match self {
            Self::Column(column) => {
                let field = field(fields, *column)?;
                cell(cells, *column)?.map(|bytes| value::number(field, bytes)).transpose()
            }
            Self::Number(number) => Ok(Some(*number)),
        }
    }
}

impl Comparison {
    fn is(self, ordering: Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::NotEqual => ordering.is_ne(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

fn field(fields: &[Field], column: usize) -> Result<Field> {
    fields.get(column).copied().ok_or_else(|| Error::internal("a condition on a column that no row has"))
}

fn cell<'c>(cells: &[Option<&'c [u8]>], column: usize) -> Result<Option<&'c [u8]>> {
    cells.get(column).copied().ok_or_else(broken)
}

fn unknown() -> Error {
    Error::unsupported("groups of several shards cannot be left out by values of this type")
}
