//! What is computed with the columns of a group, once it is complete: arithmetic of numbers, as PostgreSQL does it.
//!
//! Results have the types that PostgreSQL's operators and functions give them. What the shards say of an output's type is held against that
//! before a row is asked for, so that nothing is computed as another type than it is shown as.

use std::cmp::Ordering;

use ashlar_base::value::text::TextStyle;
use ashlar_base::value::{binary, numeric, text};
use ashlar_base::{Error, ErrorCode, Result, ScalarType, SqlType, Value};

use super::decimal::{Decimal, division_by_zero};
use super::having::{Condition, cell, field};
use super::{Field, cells, value};

/// A column of a group that is computed with others.
#[derive(Clone, Debug, PartialEq)]
pub struct Computed {
    /// Which, counted from 0.
    pub(crate) column: usize,
    pub(crate) expression: Expression,
}

/// A number made of a group's columns, none of which is itself computed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expression {
    /// Counted from 0.
    Column(usize),
    Constant(Number),
    Binary(Operator, Box<[Expression; 2]>),
    Negated(Box<Expression>),
    Cast(Kind, Box<Expression>),
    /// A cast to a `numeric` of this precision and scale.
    Fitted((u8, u8), Box<Expression>),
    Call(Function, Box<Expression>),
    /// Rounded, or cut off, to so many digits behind the point.
    Digits(Function, i32, Box<Expression>),
    /// The first that is not NULL.
    Coalesce(Vec<Expression>),
    /// The greatest or the least of those that are not NULL.
    Extreme(Ordering, Vec<Expression>),
    NullIf(Box<[Expression; 2]>),
    /// The value beside the first condition that holds, or the last one, where there is one.
    Case(Vec<(Condition, Expression)>, Option<Box<Expression>>),
}

/// `+ - * / %`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Plus,
    Minus,
    Times,
    Divide,
    Modulo,
}

/// A function of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Abs,
    Ceil,
    Floor,
    Round,
    Trunc,
}

/// The types that are computed with; of two of them, both become the greater one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Int2,
    Int4,
    Int8,
    Numeric,
    Float8,
}

/// A value of such a type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    /// Of the width that the kind says.
    Integer(i64, Kind),
    Decimal(Decimal),
    Float(f64),
}

impl Computed {
    /// # Errors
    /// 0A000 where it is of another type than its column, or that is not known.
    pub(super) fn check(&self, fields: &[Field], is_c_collated: bool) -> Result<()> {
        let kind = self.expression.kind(fields, is_c_collated)?;
        if Kind::of(field(fields, self.column)?) == Some(kind) { Ok(()) } else { Err(unknown()) }
    }
}

/// A row with what is computed of it.
///
/// # Errors
/// Those of the arithmetic, such as 22012; 0A000 for numbers of more digits than are known here.
pub(super) fn computed(all: &[Computed], fields: &[Field], body: Vec<u8>) -> Result<Vec<u8>> {
    if all.is_empty() {
        return Ok(body);
    }
    let cells: Vec<Option<&[u8]>> = cells(&body).collect::<Result<_>>()?;
    let mut values = Vec::with_capacity(all.len());
    for Computed { column, expression } in all {
        let number = expression.value(fields, &cells)?;
        values.push((*column, number.map(|number| number.written(field(fields, *column)?)).transpose()?));
    }
    let mut row = body.get(..2).unwrap_or_default().to_vec();
    for (at, cell) in cells.iter().enumerate() {
        let made = values.iter().find(|(column, _)| *column == at);
        match made.map_or(*cell, |(_, value)| value.as_deref()) {
            Some(bytes) => value::cell(bytes, &mut row),
            None => row.extend_from_slice(&(-1_i32).to_be_bytes()),
        }
    }
    Ok(row)
}

impl Expression {
    /// A number as it is written; `None` where its digits are not known here.
    pub(crate) fn number(written: &str) -> Option<Self> {
        let integer = || {
            let number: i64 = written.parse().ok()?;
            let kind = if i32::try_from(number).is_ok() { Kind::Int4 } else { Kind::Int8 };
            Some(Number::Integer(number, kind))
        };
        integer().or_else(|| Decimal::parse(written).ok().map(Number::Decimal)).map(Self::Constant)
    }

    /// The type of its values.
    ///
    /// # Errors
    /// 0A000 where PostgreSQL has no such operation on numbers, or it is not known here.
    pub(super) fn kind(&self, fields: &[Field], is_c_collated: bool) -> Result<Kind> {
        let of = |expression: &Self| expression.kind(fields, is_c_collated);
        let exact = |kind: Kind| if kind == Kind::Float8 { Err(unknown()) } else { Ok(kind) };
        let common = |all: &[Self]| -> Result<Kind> {
            let mut kind = Kind::Int2;
            for expression in all {
                kind = kind.max(of(expression)?);
            }
            Ok(kind)
        };
        match self {
            Self::Column(column) => Kind::of(field(fields, *column)?).ok_or_else(unknown),
            Self::Constant(number) => Ok(number.kind()),
            Self::Binary(Operator::Modulo, operands) => exact(common(&operands[..])?),
            Self::Binary(_, operands) => common(&operands[..]),
            Self::Negated(operand) | Self::Call(Function::Abs, operand) => of(operand),
            Self::Cast(Kind::Numeric, operand) => exact(of(operand)?).map(|_| Kind::Numeric),
            Self::Cast(kind, operand) => of(operand).map(|_| *kind),
            Self::Fitted(_, operand) | Self::Digits(_, _, operand) => exact(of(operand)?).map(|_| Kind::Numeric),
            // Integers are rounded as double precision, which is the preferred type.
            Self::Call(_, operand) => of(operand).map(|kind| if kind < Kind::Numeric { Kind::Float8 } else { kind }),
            Self::Coalesce(all) | Self::Extreme(_, all) => common(all),
            Self::NullIf(operands) => {
                let [first, both] = [of(&operands[0])?, common(&operands[..])?];
                // Integers of two widths are compared as they are.
                Ok(if both < Kind::Numeric { first } else { both })
            }
            Self::Case(branches, last) => {
                let mut kind = last.as_ref().map_or(Ok(Kind::Int2), |last| of(last))?;
                for (condition, result) in branches {
                    condition.check(fields, is_c_collated)?;
                    kind = kind.max(of(result)?);
                }
                Ok(kind)
            }
        }
    }

    /// `None`: NULL.
    pub(super) fn value(&self, fields: &[Field], cells: &[Option<&[u8]>]) -> Result<Option<Number>> {
        let of = |expression: &Self| expression.value(fields, cells);
        // Where types have been checked, the order of text plays no part in what they are.
        let to_own = |number: Option<Number>| match number {
            Some(number) => number.to(self.kind(fields, true)?).map(Some),
            None => Ok(None),
        };
        match self {
            Self::Column(column) => {
                let field = field(fields, *column)?;
                cell(cells, *column)?.map(|bytes| Number::read(field, bytes)).transpose()
            }
            Self::Constant(number) => Ok(Some(*number)),
            Self::Binary(operator, operands) => {
                let both = of(&operands[0])?.zip(of(&operands[1])?);
                both.map(|(a, b)| operator.apply(a, b)).transpose()
            }
            Self::Negated(operand) => of(operand)?.map(Number::negated).transpose(),
            Self::Cast(kind, operand) => of(operand)?.map(|number| number.to(*kind)).transpose(),
            Self::Fitted((precision, scale), operand) => {
                let Some(number) = of(operand)? else { return Ok(None) };
                number.decimal()?.fitted(*precision, *scale).map(|number| Some(Number::Decimal(number)))
            }
            Self::Call(function, operand) => of(operand)?.map(|number| function.apply(number)).transpose(),
            Self::Digits(function, digits, operand) => {
                let Some(number) = of(operand)? else { return Ok(None) };
                let number = number.decimal()?;
                let number = match function {
                    Function::Trunc => number.truncated(*digits)?,
                    _ => number.rounded(*digits)?,
                };
                Ok(Some(Number::Decimal(number)))
            }
            Self::Coalesce(all) => {
                for expression in all {
                    if let Some(number) = of(expression)? {
                        return to_own(Some(number));
                    }
                }
                Ok(None)
            }
            Self::Extreme(wanted, all) => {
                let mut found: Option<Number> = None;
                for expression in all {
                    let Some(number) = to_own(of(expression)?)? else { continue };
                    found = match found {
                        Some(so_far) if number.compare(so_far)? != *wanted => Some(so_far),
                        _ => Some(number),
                    };
                }
                Ok(found)
            }
            Self::NullIf(operands) => {
                let (a, b) = (of(&operands[0])?, of(&operands[1])?);
                match (a, b) {
                    (Some(a), Some(b)) if a.compare(b)?.is_eq() => Ok(None),
                    (a, _) => to_own(a),
                }
            }
            Self::Case(branches, last) => {
                for (condition, result) in branches {
                    if condition.value(fields, cells)? == Some(true) {
                        return to_own(of(result)?);
                    }
                }
                last.as_ref().map_or(Ok(None), |last| to_own(of(last)?))
            }
        }
    }
}

impl Kind {
    /// The kind of a field's values; `None` where they are no numbers that are computed with.
    fn of(field: Field) -> Option<Self> {
        Some(match SqlType::from_oid(field.oid)? {
            SqlType::Scalar(ScalarType::Int2) => Self::Int2,
            SqlType::Scalar(ScalarType::Int4) => Self::Int4,
            SqlType::Scalar(ScalarType::Int8) => Self::Int8,
            SqlType::Scalar(ScalarType::Numeric { .. }) => Self::Numeric,
            SqlType::Scalar(ScalarType::Float8) => Self::Float8,
            _ => return None,
        })
    }

    /// A field of its values.
    pub(super) fn field(self) -> Field {
        let oid = match self {
            Self::Int2 => 21,
            Self::Int4 => 23,
            Self::Int8 => 20,
            Self::Numeric => 1700,
            Self::Float8 => 701,
        };
        Field { oid, is_binary: false }
    }

    fn out_of_range(self) -> Error {
        let name = match self {
            Self::Int2 => "smallint",
            Self::Int4 => "integer",
            _ => "bigint",
        };
        Error::new(ErrorCode::NumericOutOfRange, format!("{name} out of range"))
    }

    /// An integer of this width.
    fn integer(self, number: Option<i64>) -> Result<Number> {
        let fits = |number: &i64| match self {
            Self::Int2 => i16::try_from(*number).is_ok(),
            Self::Int4 => i32::try_from(*number).is_ok(),
            _ => true,
        };
        number.filter(fits).map(|number| Number::Integer(number, self)).ok_or_else(|| self.out_of_range())
    }
}

impl Number {
    fn read(field: Field, bytes: &[u8]) -> Result<Self> {
        match Kind::of(field).ok_or_else(unknown)? {
            Kind::Numeric => value::number(field, bytes).map(Self::Decimal),
            Kind::Float8 => value::float(field, bytes).map(Self::Float),
            kind => value::integer(field, bytes).map(|number| Self::Integer(number, kind)),
        }
    }

    fn kind(self) -> Kind {
        match self {
            Self::Integer(_, kind) => kind,
            Self::Decimal(_) => Kind::Numeric,
            Self::Float(_) => Kind::Float8,
        }
    }

    /// What a cast makes of it; none is known here that makes an exact number of a floating-point one.
    fn to(self, kind: Kind) -> Result<Self> {
        match (kind, self) {
            (Kind::Numeric, number) => number.decimal().map(Self::Decimal),
            (Kind::Float8, number) => number.float().map(Self::Float),
            (_, Self::Integer(number, _)) => kind.integer(Some(number)),
            (_, Self::Decimal(number)) => kind.integer(number.rounded(0)?.integer()),
            (_, Self::Float(number)) => {
                let rounded = number.round_ties_even();
                // Both ends are powers of two, which have a form of their own; NaN is beyond them.
                let is_within = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded);
                kind.integer(is_within.then_some(rounded as i64))
            }
        }
    }

    /// Without rounding.
    pub(super) fn decimal(self) -> Result<Decimal> {
        match self {
            Self::Integer(number, _) => Ok(Decimal::from(number)),
            Self::Decimal(number) => Ok(number),
            Self::Float(_) => Err(unknown()),
        }
    }

    /// The nearest `double precision`.
    pub(super) fn float(self) -> Result<f64> {
        match self {
            Self::Integer(number, _) => Ok(number as f64),
            Self::Decimal(number) => number.float(),
            Self::Float(number) => Ok(number),
        }
    }

    fn negated(self) -> Result<Self> {
        match self {
            Self::Integer(number, kind) => kind.integer(number.checked_neg()),
            Self::Decimal(number) => number.negated().map(Self::Decimal),
            Self::Float(number) => Ok(Self::Float(-number)),
        }
    }

    fn compare(self, other: Self) -> Result<Ordering> {
        if self.kind().max(other.kind()) == Kind::Float8 {
            return Ok(value::floats(self.float()?, other.float()?));
        }
        Ok(self.decimal()?.compare(other.decimal()?))
    }

    /// As the values of a field are written.
    fn written(self, field: Field) -> Result<Vec<u8>> {
        let kind = Kind::of(field).ok_or_else(unknown)?;
        let (scalar, value) = match (kind, self.to(kind)?) {
            (_, Self::Decimal(number)) => {
                return Ok(if field.is_binary { number.encode() } else { number.text().into_bytes() });
            }
            (_, Self::Float(number)) => (ScalarType::Float8, Value::Float8(number)),
            // The cast has looked at the widths.
            (Kind::Int2, Self::Integer(number, _)) => (ScalarType::Int2, Value::Int2(number as i16)),
            (Kind::Int4, Self::Integer(number, _)) => (ScalarType::Int4, Value::Int4(number as i32)),
            (_, Self::Integer(number, _)) => (ScalarType::Int8, Value::Int8(number)),
        };
        let mut bytes = Vec::new();
        if field.is_binary {
            binary::encode(SqlType::Scalar(scalar), &value.as_datum(), &mut bytes);
        } else {
            text::write(SqlType::Scalar(scalar), &value.as_datum(), &TextStyle::default(), &mut bytes);
        }
        Ok(bytes)
    }
}

impl Operator {
    fn apply(self, a: Number, b: Number) -> Result<Number> {
        let kind = a.kind().max(b.kind());
        match (a.to(kind)?, b.to(kind)?) {
            (Number::Integer(a, _), Number::Integer(b, _)) => self.integers(a, b, kind),
            (Number::Float(a), Number::Float(b)) => self.floats(a, b).map(Number::Float),
            (a, b) => {
                let (a, b) = (a.decimal()?, b.decimal()?);
                let number = match self {
                    Self::Plus => a.plus(b),
                    Self::Minus => a.minus(b),
                    Self::Times => a.times(b),
                    Self::Divide => a.divided_by(b),
                    Self::Modulo => a.modulo(b),
                };
                number.map(Number::Decimal)
            }
        }
    }

    fn integers(self, a: i64, b: i64, kind: Kind) -> Result<Number> {
        if b == 0 && matches!(self, Self::Divide | Self::Modulo) {
            return Err(division_by_zero());
        }
        kind.integer(match self {
            Self::Plus => a.checked_add(b),
            Self::Minus => a.checked_sub(b),
            Self::Times => a.checked_mul(b),
            Self::Divide => a.checked_div(b),
            Self::Modulo => Some(a.wrapping_rem(b)),
        })
    }

    /// Source: PostgreSQL's `float8_mul` and its like.
    fn floats(self, a: f64, b: f64) -> Result<f64> {
        if self == Self::Divide && b == 0.0 && !a.is_nan() {
            return Err(division_by_zero());
        }
        let (result, may_be_zero) = match self {
            Self::Plus => (a + b, true),
            Self::Minus => (a - b, true),
            Self::Times => (a * b, a == 0.0 || b == 0.0),
            Self::Divide => (a / b, a == 0.0 || b.is_infinite()),
            Self::Modulo => return Err(unknown()),
        };
        let out_of_range =
            |what: &str| Err(Error::new(ErrorCode::NumericOutOfRange, format!("value out of range: {what}")));
        if result.is_infinite() && a.is_finite() && b.is_finite() {
            return out_of_range("overflow");
        }
        if result == 0.0 && !may_be_zero {
            return out_of_range("underflow");
        }
        // Processors make NaN with either sign.
        Ok(if result.is_nan() { f64::NAN } else { result })
    }
}

impl Function {
    fn apply(self, number: Number) -> Result<Number> {
        match number {
            Number::Integer(number, kind) if self == Self::Abs => kind.integer(number.checked_abs()),
            Number::Decimal(number) => {
                let number = match self {
                    Self::Abs => number.abs(),
                    Self::Ceil => number.ceil(),
                    Self::Floor => number.floor(),
                    Self::Round => number.rounded(0),
                    Self::Trunc => number.truncated(0),
                };
                number.map(Number::Decimal)
            }
            Number::Integer(..) | Number::Float(_) => {
                let number = number.float()?;
                Ok(Number::Float(match self {
                    Self::Abs => number.abs(),
                    Self::Ceil => number.ceil(),
                    Self::Floor => number.floor(),
                    Self::Round => number.round_ties_even(),
                    Self::Trunc => number.trunc(),
                }))
            }
        }
    }
}

impl Decimal {
    /// As a `numeric(precision, scale)`.
    ///
    /// # Errors
    /// 22003 where it does not fit.
    fn fitted(self, precision: u8, scale: u8) -> Result<Self> {
        let rounded = self.rounded(i32::from(scale))?;
        numeric::fit(rounded.unscaled(), precision, scale).map(|_| rounded)
    }
}

fn unknown() -> Error {
    Error::unsupported("groups of several shards cannot be computed with as values of this type")
}
