//! The condition of HAVING, on groups that are complete: comparisons of values of one type or of numbers, and what AND, OR and NOT make of
//! them.
//!
//! What can fail in it is arithmetic. As PostgreSQL does, nothing behind a part that decides is computed.

use std::cmp::Ordering;

use ashlar_base::{Error, Result};

use super::computed::{Expression, Number};
use super::decimal::Decimal;
use super::value::{self, Comparable};
use super::{Field, broken, cells};

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
    Computed(Box<Expression>),
}

/// How two values have to be to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    /// The same where the other one is one of several constants, all of which have one type with it.
    Among,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Having {
    /// # Errors
    /// 0A000 for a column of a type whose values are not compared here. `is_c_collated`: the servers compare text byte by byte.
    pub(super) fn check(&self, fields: &[Field], is_c_collated: bool) -> Result<()> {
        self.0.check(fields, is_c_collated)
    }

    /// Whether it computes with values.
    pub(super) fn computes(&self) -> bool {
        self.0.computes()
    }

    /// Whether it holds for a row of these columns.
    ///
    /// # Errors
    /// What reading its values finds.
    pub(super) fn holds(&self, fields: &[Field], body: &[u8]) -> Result<bool> {
        let cells: Vec<Option<&[u8]>> = cells(body).collect::<Result<_>>()?;
        self.0.holds(fields, &cells)
    }
}

impl Condition {
    /// # Errors
    /// 0A000 for values that are not compared, or computed with, here.
    pub(super) fn check(&self, fields: &[Field], is_c_collated: bool) -> Result<()> {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().try_for_each(|part| part.check(fields, is_c_collated)),
            Self::Not(part) => part.check(fields, is_c_collated),
            Self::IsNull(column) => field(fields, *column).map(|_| ()),
            Self::Column(column) if value::is_bool(field(fields, *column)?) => Ok(()),
            Self::Column(_) => Err(unknown()),
            Self::Compare(a, comparison, b) => match Manner::of(a, b, fields, is_c_collated)? {
                Manner::OneType(of) => value::check_order(of, is_c_collated || comparison.is_of_equality()),
                // Beside a `real` they are of that type, and beside one that is a floating-point number, so are all others.
                Manner::Float if *comparison == Comparison::Among && !a.is_double(fields, is_c_collated)? => {
                    Err(unknown())
                }
                Manner::Exact | Manner::Float => Ok(()),
            },
        }
    }

    fn computes(&self) -> bool {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().any(Self::computes),
            Self::Not(part) => part.computes(),
            Self::IsNull(_) | Self::Column(_) => false,
            Self::Compare(a, _, b) => [a, b].iter().any(|operand| matches!(operand, Operand::Computed(_))),
        }
    }

    /// Whether it is true. What stands behind a part that is not is not looked at: it may fail.
    fn holds(&self, fields: &[Field], cells: &[Option<&[u8]>]) -> Result<bool> {
        match self {
            Self::All(parts) => {
                for part in parts {
                    if !part.holds(fields, cells)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => Ok(self.value(fields, cells)? == Some(true)),
        }
    }

    /// `None`: a NULL leaves it open.
    pub(super) fn value(&self, fields: &[Field], cells: &[Option<&[u8]>]) -> Result<Option<bool>> {
        Ok(match self {
            Self::All(parts) => Self::joined(parts, false, fields, cells)?,
            Self::Any(parts) => Self::joined(parts, true, fields, cells)?,
            Self::Not(part) => part.value(fields, cells)?.map(|value| !value),
            Self::IsNull(column) => Some(cell(cells, *column)?.is_none()),
            Self::Column(column) => {
                let field = field(fields, *column)?;
                cell(cells, *column)?.map(|bytes| value::is_true(field, bytes)).transpose()?
            }
            Self::Compare(a, comparison, b) => {
                // What depends on the collation has been checked.
                Manner::of(a, b, fields, true)?.order(a, b, fields, cells)?.map(|order| comparison.is(order))
            }
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

    /// `None`: a number as it is written, of whatever type is wanted.
    fn field(&self, fields: &[Field], is_c_collated: bool) -> Result<Option<Field>> {
        match self {
            Self::Column(column) => field(fields, *column).map(Some),
            Self::Number(_) => Ok(None),
            Self::Computed(expression) => expression.kind(fields, is_c_collated).map(|kind| Some(kind.field())),
        }
    }

    /// Whether it is a `double precision`.
    fn is_double(&self, fields: &[Field], is_c_collated: bool) -> Result<bool> {
        let of = self.field(fields, is_c_collated)?;
        Ok(of.is_some_and(|field| value::is_float(field) && !value::is_real(field)))
    }

    fn exact(&self, fields: &[Field], cells: &[Option<&[u8]>]) -> Result<Option<Decimal>> {
        match self {
            Self::Column(column) => {
                let field = field(fields, *column)?;
                cell(cells, *column)?.map(|bytes| value::number(field, bytes)).transpose()
            }
            Self::Number(number) => Ok(Some(*number)),
            Self::Computed(expression) => expression.value(fields, cells)?.map(Number::decimal).transpose(),
        }
    }

    fn float(&self, fields: &[Field], cells: &[Option<&[u8]>]) -> Result<Option<f64>> {
        match self {
            Self::Column(column) => {
                let field = field(fields, *column)?;
                cell(cells, *column)?.map(|bytes| value::float(field, bytes)).transpose()
            }
            Self::Number(number) => number.float().map(Some),
            Self::Computed(expression) => expression.value(fields, cells)?.map(Number::float).transpose(),
        }
    }

    fn comparable(&self, fields: &[Field], cells: &[Option<&[u8]>]) -> Result<Option<Comparable>> {
        match self {
            Self::Column(column) => {
                let field = field(fields, *column)?;
                cell(cells, *column)?.map(|bytes| Comparable::read(field, bytes)).transpose()
            }
            Self::Number(_) | Self::Computed(_) => Err(unknown()),
        }
    }
}

/// How two operands are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Manner {
    /// As numbers, without rounding.
    Exact,
    /// As numbers of `double precision`.
    Float,
    /// As values of the type that both have.
    OneType(Field),
}

impl Manner {
    /// # Errors
    /// 0A000 for types whose values are not compared here.
    fn of(a: &Operand, b: &Operand, fields: &[Field], is_c_collated: bool) -> Result<Self> {
        let of = [a.field(fields, is_c_collated)?, b.field(fields, is_c_collated)?];
        let is_each = |is_it: fn(Field) -> bool| of.iter().flatten().all(|field| is_it(*field));
        if is_each(value::is_number) {
            return Ok(Self::Exact);
        }
        // A constant that is `real` may have been read with less digits than PostgreSQL compares with.
        let is_real = of.iter().all(|field| field.is_some_and(value::is_real));
        if is_each(|field| value::is_number(field) || value::is_float(field)) && !is_real {
            return Ok(Self::Float);
        }
        match of {
            [Some(a), Some(b)] if value::is_of_one_type(a, b) => Ok(Self::OneType(a)),
            _ => Err(unknown()),
        }
    }

    /// `None`: one of them is NULL.
    fn order(self, a: &Operand, b: &Operand, fields: &[Field], cells: &[Option<&[u8]>]) -> Result<Option<Ordering>> {
        Ok(match self {
            Self::Exact => a.exact(fields, cells)?.zip(b.exact(fields, cells)?).map(|(a, b)| a.compare(b)),
            Self::Float => a.float(fields, cells)?.zip(b.float(fields, cells)?).map(|(a, b)| value::floats(a, b)),
            Self::OneType(_) => {
                let (a, b) = (a.comparable(fields, cells)?, b.comparable(fields, cells)?);
                a.zip(b).map(|(a, b)| a.compare(&b))
            }
        })
    }
}

impl Comparison {
    /// Whether it asks for nothing but whether both are equal.
    fn is_of_equality(self) -> bool {
        matches!(self, Self::Equal | Self::Among | Self::NotEqual)
    }

    fn is(self, ordering: Ordering) -> bool {
        match self {
            Self::Equal | Self::Among => ordering.is_eq(),
            Self::NotEqual => ordering.is_ne(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

pub(super) fn field(fields: &[Field], column: usize) -> Result<Field> {
    fields.get(column).copied().ok_or_else(|| Error::internal("a condition on a column that no row has"))
}

pub(super) fn cell<'c>(cells: &[Option<&'c [u8]>], column: usize) -> Result<Option<&'c [u8]>> {
    cells.get(column).copied().ok_or_else(broken)
}

fn unknown() -> Error {
    Error::unsupported("groups of several shards cannot be left out by values of this type")
}
