//! Values as far as a merge has to understand them: in which order they are, and what their sum is.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashSet};

use ashlar_base::value::text::TextStyle;
use ashlar_base::value::{binary, text};
use ashlar_base::{Error, ErrorCode, Result, ScalarType, SqlType, Value};

use super::decimal::Decimal;
use super::{Aggregate, Field, Ranks, TextOrder, broken};

const BOOL: u32 = 16;
const REAL: u32 = 700;
const CHARACTER: u32 = 1042;
const NUMERIC: u32 = 1700;

/// A value that has an order.
#[derive(Clone, Debug)]
pub(super) enum Comparable {
    Value(Value),
    Decimal(Decimal),
    /// The place of a text among all that are held, as a server says it.
    Rank(u32),
}

/// The type of a field whose order is known here.
fn scalar(oid: u32) -> Option<ScalarType> {
    match SqlType::from_oid(oid)? {
        SqlType::Scalar(scalar) => match scalar {
            ScalarType::Bool
            | ScalarType::Int2
            | ScalarType::Int4
            | ScalarType::Int8
            | ScalarType::Float4
            | ScalarType::Float8
            | ScalarType::Text
            | ScalarType::Varchar { .. }
            | ScalarType::Bytea
            | ScalarType::Date
            | ScalarType::Time
            | ScalarType::Timestamp
            | ScalarType::Timestamptz
            | ScalarType::Uuid => Some(scalar),
            ScalarType::Numeric { .. }
            | ScalarType::Char { .. }
            | ScalarType::Interval
            | ScalarType::Json
            | ScalarType::Jsonb => None,
        },
        SqlType::Array(_) => None,
    }
}

/// # Errors
/// 0A000 where the order of the field's values is not known here.
pub(super) fn check_order(field: Field, is_c_collated: bool) -> Result<()> {
    if field.oid == NUMERIC {
        return Ok(());
    }
    let is_known = match scalar(field.oid) {
        Some(ScalarType::Text | ScalarType::Varchar { .. }) => is_c_collated,
        Some(_) => true,
        None if field.oid == CHARACTER => is_c_collated,
        None => return Err(Error::unsupported("rows of several shards cannot be put in the order of this type")),
    };
    if is_known {
        return Ok(());
    }
    Err(Error::unsupported("the order of text is that of the servers' collation, which only they know")
        .with_hint("Write ORDER BY ... COLLATE \"C\"."))
}

/// Whether a field's values are texts, whose order is that of a collation.
pub(super) fn is_text(field: Field) -> bool {
    field.oid == CHARACTER || matches!(scalar(field.oid), Some(ScalarType::Text | ScalarType::Varchar { .. }))
}

/// What is compared of a text: blanks at the end of a `character` are not.
pub(super) fn compared(field: Field, bytes: &[u8]) -> &[u8] {
    if field.oid == CHARACTER { without_last(bytes, b' ') } else { bytes }
}

/// # Errors
/// 0A000 where it is not known what equal values of the field have alike.
fn check_equality(field: Field) -> Result<()> {
    if matches!(field.oid, NUMERIC | CHARACTER) {
        return Ok(());
    }
    match scalar(field.oid) {
        Some(ScalarType::Float4 | ScalarType::Float8) | None => {
            Err(Error::unsupported("groups of several shards cannot be told apart by values of this type"))
        }
        Some(_) => Ok(()),
    }
}

/// Appends what equal values of a field have alike, and others have not.
pub(super) fn write_alike(field: Field, cell: Option<&[u8]>, key: &mut Vec<u8>) {
    let Some(bytes) = cell else {
        // NULL is a value of its own.
        return key.extend_from_slice(&(-1_i64).to_le_bytes());
    };
    let (first, rest): (&[u8], &[u8]) = match (field.oid, field.is_binary) {
        // Behind the number of its digits, their weight and the sign: how many are shown.
        (NUMERIC, true) => (bytes.get(..6).unwrap_or(bytes), bytes.get(8..).unwrap_or_default()),
        (NUMERIC, false) if bytes.contains(&b'.') => {
            let digits = without_last(bytes, b'0');
            (digits.strip_suffix(b".").unwrap_or(digits), &[])
        }
        (CHARACTER, _) => (without_last(bytes, b' '), &[]),
        _ => (bytes, &[]),
    };
    key.extend_from_slice(&((first.len() + rest.len()) as i64).to_le_bytes());
    key.extend_from_slice(first);
    key.extend_from_slice(rest);
}

/// Bytes without those at the end that are this one.
fn without_last(bytes: &[u8], byte: u8) -> &[u8] {
    let end = bytes.iter().rposition(|other| *other != byte).map_or(0, |last| last + 1);
    &bytes[..end]
}

/// Whether a field's values are compared as numbers without rounding.
pub(super) fn is_number(field: Field) -> bool {
    is_integer(field) || field.oid == NUMERIC
}

/// Whether a field's values may have more digits than are known here.
pub(super) fn is_numeric(field: Field) -> bool {
    field.oid == NUMERIC
}

fn is_integer(field: Field) -> bool {
    matches!(scalar(field.oid), Some(ScalarType::Int2 | ScalarType::Int4 | ScalarType::Int8))
}

/// A value of such a field.
///
/// # Errors
/// 0A000 for a number of more digits than are known here.
pub(super) fn number(field: Field, bytes: &[u8]) -> Result<Decimal> {
    if field.oid == NUMERIC { decimal(field, bytes) } else { integer(field, bytes).map(Decimal::from) }
}

/// A value of a field of integers.
pub(super) fn integer(field: Field, bytes: &[u8]) -> Result<i64> {
    match Comparable::read(field, bytes)? {
        Comparable::Value(Value::Int2(number)) => Ok(i64::from(number)),
        Comparable::Value(Value::Int4(number)) => Ok(i64::from(number)),
        Comparable::Value(Value::Int8(number)) => Ok(number),
        _ => Err(broken()),
    }
}

/// Whether a count is that of nothing.
pub(super) fn is_zero(field: Field, bytes: &[u8]) -> Result<bool> {
    number(field, bytes).map(|number| number.compare(Decimal::from(0_i64)).is_eq())
}

/// Whether a field has truth values.
pub(super) fn is_bool(field: Field) -> bool {
    field.oid == BOOL
}

/// A value of such a field.
pub(super) fn is_true(field: Field, bytes: &[u8]) -> Result<bool> {
    match Comparable::read(field, bytes)? {
        Comparable::Value(Value::Bool(value)) => Ok(value),
        _ => Err(broken()),
    }
}

/// A value of such a field, or of one of floating-point numbers, as a `double precision`.
///
/// # Errors
/// 0A000 for a number of more digits than are known here.
pub(super) fn float(field: Field, bytes: &[u8]) -> Result<f64> {
    if is_number(field) {
        return number(field, bytes)?.float();
    }
    match Comparable::read(field, bytes)? {
        Comparable::Value(Value::Float4(number)) => Ok(f64::from(number)),
        Comparable::Value(Value::Float8(number)) => Ok(number),
        _ => Err(broken()),
    }
}

/// Whether a field's values are those of `real`.
pub(super) fn is_real(field: Field) -> bool {
    field.oid == REAL
}

/// Whether two fields have values of one type, which is none of numbers.
pub(super) fn is_of_one_type(a: Field, b: Field) -> bool {
    let is_text = |of: ScalarType| matches!(of, ScalarType::Text | ScalarType::Varchar { .. });
    match (scalar(a.oid), scalar(b.oid)) {
        (Some(of), Some(other)) if is_text(of) => is_text(other),
        (Some(_), Some(_)) => a.oid == b.oid && !is_number(a) && !is_float(a),
        _ => false,
    }
}

/// Whether what is added depends on the order in which it is.
pub(super) fn is_float(field: Field) -> bool {
    matches!(scalar(field.oid), Some(ScalarType::Float4 | ScalarType::Float8))
}

impl Comparable {
    pub(super) fn read(field: Field, bytes: &[u8]) -> Result<Self> {
        if field.oid == NUMERIC {
            return decimal(field, bytes).map(Self::Decimal);
        }
        if field.oid == CHARACTER {
            // Blanks at its end are not compared, and both forms are the text itself.
            let text = text::utf8(without_last(bytes, b' '))?;
            return Ok(Self::Value(Value::Text(text.into())));
        }
        let scalar = scalar(field.oid).ok_or_else(broken)?;
        let value = if field.is_binary {
            binary::decode(SqlType::Scalar(scalar), bytes)?
        } else {
            text::parse(SqlType::Scalar(scalar), text::utf8(bytes)?, &TextStyle::default())?
        };
        Ok(Self::Value(value))
    }

    /// PostgreSQL's order of two values of one type; of text, that of its bytes.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let (a, b) = match (self, other) {
            (Self::Decimal(a), Self::Decimal(b)) => return a.compare(*b),
            (Self::Rank(a), Self::Rank(b)) => return a.cmp(b),
            (Self::Value(a), Self::Value(b)) => (a, b),
            _ => return Ordering::Equal,
        };
        match (a, b) {
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Int2(a), Value::Int2(b)) => a.cmp(b),
            (Value::Int4(a), Value::Int4(b)) | (Value::Date(a), Value::Date(b)) => a.cmp(b),
            (Value::Int8(a), Value::Int8(b))
            | (Value::Time(a), Value::Time(b))
            | (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(b),
            (Value::Float4(a), Value::Float4(b)) => floats(f64::from(*a), f64::from(*b)),
            (Value::Float8(a), Value::Float8(b)) => floats(*a, *b),
            (Value::Text(a), Value::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Value::Bytea(a), Value::Bytea(b)) => a.cmp(b),
            (Value::Uuid(a), Value::Uuid(b)) => a.cmp(b),
            _ => Ordering::Equal,
        }
    }
}

/// NaN is above all others, and equal to itself.
pub(super) fn floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

fn decimal(field: Field, bytes: &[u8]) -> Result<Decimal> {
    if field.is_binary { Decimal::decode(bytes) } else { Decimal::parse(text::utf8(bytes)?) }
}

/// What becomes of a column of partial results.
#[derive(Debug)]
pub(super) struct Total {
    aggregate: Aggregate,
    field: Field,
    /// The collation whose ranks its texts are compared by, once they have some.
    collation: Option<usize>,
    so_far: Option<Sum>,
}

#[derive(Debug)]
enum Sum {
    Integer(i64),
    Float(f64),
    Decimal(Decimal),
    /// The least or the greatest, with its bytes.
    Extreme(Comparable, Vec<u8>),
    /// One of these texts, which have no ranks yet, is the least or the greatest.
    Undecided(HashSet<Box<[u8]>>),
    /// What all rows of the group have, as it came.
    Group(Vec<u8>),
}

impl Total {
    /// # Errors
    /// 0A000 for a type whose values cannot be added or compared here.
    pub(super) fn new(aggregate: Aggregate, field: Field, order: TextOrder) -> Result<Self> {
        let mut collation = None;
        match aggregate {
            Aggregate::Min | Aggregate::Max => {
                check_order(field, order != TextOrder::Unknown)?;
                collation = order.ranked().filter(|_| is_text(field));
            }
            Aggregate::Group | Aggregate::Value => check_equality(field)?,
            Aggregate::Alike | Aggregate::Computed => {}
            Aggregate::BitAnd | Aggregate::BitOr | Aggregate::BitXor if is_integer(field) => {}
            Aggregate::BitAnd | Aggregate::BitOr | Aggregate::BitXor => {
                return Err(Error::unsupported("bits of this type cannot be put together from several shards"));
            }
            // Of floating-point numbers it depends on the order in which they are added.
            Aggregate::Average { .. } | Aggregate::Deviation(_) if field.oid == NUMERIC => {}
            Aggregate::Average { .. } | Aggregate::Deviation(_) => {
                return Err(Error::unsupported("averages of this type cannot be put together from several shards"));
            }
            Aggregate::Count | Aggregate::Sum | Aggregate::CountOf(_) | Aggregate::SumOf(_) => {
                let is_known = field.oid == NUMERIC
                    || matches!(scalar(field.oid), Some(ScalarType::Int8 | ScalarType::Float4 | ScalarType::Float8));
                if !is_known {
                    return Err(Error::unsupported("sums of this type cannot be put together from several shards"));
                }
            }
        }
        Ok(Self { aggregate, field, collation, so_far: None })
    }

    /// Whether it is of texts that need ranks.
    pub(super) fn is_ranked(&self) -> bool {
        self.collation.is_some()
    }

    /// Adds the texts whose ranks it needs, by collation.
    pub(super) fn undecided_texts(&self, found: &mut [BTreeSet<Vec<u8>>]) {
        let (Some(Sum::Undecided(texts)), Some(collation)) = (&self.so_far, self.collation) else { return };
        if let Some(found) = found.get_mut(collation) {
            found.extend(texts.iter().map(|text| compared(self.field, text).to_vec()));
        }
    }

    /// Chooses among them.
    ///
    /// # Errors
    /// XX000 where one has no rank.
    pub(super) fn decide(&mut self, ranks: &[Ranks]) -> Result<()> {
        let (Some(Sum::Undecided(texts)), Some(collation)) = (&mut self.so_far, self.collation) else { return Ok(()) };
        let texts = std::mem::take(texts);
        self.so_far = None;
        for text in texts {
            let rank = ranks.get(collation).and_then(|ranks| ranks.get(compared(self.field, &text)));
            let rank = rank.ok_or_else(|| Error::internal("a text has no rank"))?;
            self.keep_extreme(Comparable::Rank(*rank), &text);
        }
        Ok(())
    }

    /// One more value, which may be the least or the greatest.
    fn keep_extreme(&mut self, next: Comparable, bytes: &[u8]) {
        if let Some(Sum::Extreme(so_far, _)) = &self.so_far {
            let wanted = if self.aggregate == Aggregate::Min { Ordering::Less } else { Ordering::Greater };
            if next.compare(so_far) != wanted {
                return;
            }
        }
        self.so_far = Some(Sum::Extreme(next, bytes.to_vec()));
    }

    /// One more partial result. Returns how many bytes are kept of it beside what there was.
    pub(super) fn add(&mut self, cell: Option<&[u8]>) -> Result<usize> {
        // A shard without rows has no sum.
        let Some(bytes) = cell else { return Ok(0) };
        if self.is_ranked() {
            return Ok(self.keep_undecided(bytes));
        }
        self.add_known(bytes).map(|()| 0)
    }

    /// One more text, without a rank.
    fn keep_undecided(&mut self, text: &[u8]) -> usize {
        let so_far = self.so_far.get_or_insert_with(|| Sum::Undecided(HashSet::new()));
        match so_far {
            Sum::Undecided(texts) if !texts.contains(text) => {
                texts.insert(text.into());
                text.len()
            }
            _ => 0,
        }
    }

    fn add_known(&mut self, bytes: &[u8]) -> Result<()> {
        let next = match self.aggregate {
            Aggregate::Average { .. } | Aggregate::Deviation(_) | Aggregate::Value | Aggregate::Computed => {
                return Ok(());
            }
            Aggregate::Group | Aggregate::Alike if self.so_far.is_some() => return Ok(()),
            Aggregate::Group | Aggregate::Alike => Sum::Group(bytes.to_vec()),
            Aggregate::Min | Aggregate::Max => {
                self.keep_extreme(Comparable::read(self.field, bytes)?, bytes);
                return Ok(());
            }
            Aggregate::BitAnd | Aggregate::BitOr | Aggregate::BitXor => {
                let next = integer(self.field, bytes)?;
                Sum::Integer(match (&self.so_far, self.aggregate) {
                    (Some(Sum::Integer(so_far)), Aggregate::BitAnd) => so_far & next,
                    (Some(Sum::Integer(so_far)), Aggregate::BitOr) => so_far | next,
                    (Some(Sum::Integer(so_far)), _) => so_far ^ next,
                    _ => next,
                })
            }
            _ if self.field.oid == NUMERIC => {
                let next = decimal(self.field, bytes)?;
                match &self.so_far {
                    Some(Sum::Decimal(so_far)) => Sum::Decimal(so_far.plus(next)?),
                    _ => Sum::Decimal(next),
                }
            }
            _ => match (Comparable::read(self.field, bytes)?, &self.so_far) {
                (Comparable::Value(Value::Int8(next)), Some(Sum::Integer(so_far))) => Sum::Integer(
                    so_far
                        .checked_add(next)
                        .ok_or_else(|| Error::new(ErrorCode::NumericOutOfRange, "bigint out of range"))?,
                ),
                (Comparable::Value(Value::Int8(next)), _) => Sum::Integer(next),
                (Comparable::Value(Value::Float8(next)), Some(Sum::Float(so_far))) => {
                    Sum::Float(bounded(so_far + next, so_far.is_finite() && next.is_finite())?)
                }
                (Comparable::Value(Value::Float8(next)), _) => Sum::Float(next),
                (Comparable::Value(Value::Float4(next)), Some(Sum::Float(so_far))) => {
                    let sum = f64::from((*so_far as f32) + next);
                    Sum::Float(bounded(sum, so_far.is_finite() && next.is_finite())?)
                }
                (Comparable::Value(Value::Float4(next)), _) => Sum::Float(f64::from(next)),
                _ => return Err(broken()),
            },
        };
        self.so_far = Some(next);
        Ok(())
    }

    /// The average of values whose sum and number these are.
    ///
    /// # Errors
    /// 0A000 where it has more digits than are known here.
    pub(super) fn average(&mut self, sum: &Self, count: &Self) -> Result<()> {
        let sum = match (&sum.so_far, &count.so_far) {
            (Some(Sum::Integer(sum)), _) => Decimal::from(*sum),
            (Some(Sum::Decimal(sum)), _) => *sum,
            // Of no value there is none.
            (None, _) => return Ok(()),
            _ => return Err(broken()),
        };
        let Some(Sum::Integer(count)) = &count.so_far else { return Err(broken()) };
        self.so_far = Some(Sum::Decimal(sum.divided_by(Decimal::from(*count))?));
        Ok(())
    }

    /// The variance of values whose number, sum and sum of squares these are, or its root. Source: `numeric_stddev_internal` in PostgreSQL's
    /// numeric.c.
    ///
    /// # Errors
    /// 0A000 where it has more digits than are known here.
    pub(super) fn deviation(&mut self, of: [&Self; 3], is_sample: bool, is_root: bool) -> Result<()> {
        let [count, sum, squares] = of;
        let (sum, squares) = match (&sum.so_far, &squares.so_far) {
            (Some(Sum::Decimal(sum)), Some(Sum::Decimal(squares))) => (*sum, *squares),
            // Of no value there is none.
            (None, None) => return Ok(()),
            _ => return Err(broken()),
        };
        let Some(Sum::Integer(number)) = &count.so_far else { return Err(broken()) };
        let others = number - i64::from(is_sample);
        if others <= 0 {
            return Ok(());
        }
        let number = Decimal::from(*number);
        let above = number.times(squares)?.minus(sum.times(sum)?)?;
        let mut deviation = Decimal::from(0_i64);
        if above.compare(deviation).is_gt() {
            deviation = above.divided_by(number.times(Decimal::from(others))?)?;
            if is_root {
                deviation = deviation.root()?;
            }
        }
        self.so_far = Some(Sum::Decimal(deviation));
        Ok(())
    }

    /// Appends the cell with its length.
    pub(super) fn write(&self, row: &mut Vec<u8>) {
        let value = match &self.so_far {
            None if matches!(self.aggregate, Aggregate::Count | Aggregate::CountOf(_)) => Value::Int8(0),
            // Of texts without ranks none is chosen: nobody asks before.
            None | Some(Sum::Undecided(_)) => {
                row.extend_from_slice(&(-1_i32).to_be_bytes());
                return;
            }
            // Bits of a narrow type have its width.
            Some(Sum::Integer(sum)) => match scalar(self.field.oid) {
                Some(ScalarType::Int2) => Value::Int2(*sum as i16),
                Some(ScalarType::Int4) => Value::Int4(*sum as i32),
                _ => Value::Int8(*sum),
            },
            Some(Sum::Float(sum)) if scalar(self.field.oid) == Some(ScalarType::Float4) => Value::Float4(*sum as f32),
            Some(Sum::Float(sum)) => Value::Float8(*sum),
            Some(Sum::Decimal(sum)) => {
                let bytes = if self.field.is_binary { sum.encode() } else { sum.text().into_bytes() };
                return cell(&bytes, row);
            }
            Some(Sum::Extreme(_, bytes) | Sum::Group(bytes)) => return cell(bytes, row),
        };
        let sql_type = SqlType::Scalar(scalar(self.field.oid).unwrap_or(ScalarType::Int8));
        let mut bytes = Vec::new();
        if self.field.is_binary {
            binary::encode(sql_type, &value.as_datum(), &mut bytes);
        } else {
            text::write(sql_type, &value.as_datum(), &TextStyle::default(), &mut bytes);
        }
        cell(&bytes, row);
    }
}

/// A sum of finite numbers is finite, or an error.
fn bounded(sum: f64, is_of_finite: bool) -> Result<f64> {
    if sum.is_infinite() && is_of_finite {
        return Err(Error::new(ErrorCode::NumericOutOfRange, "value out of range: overflow"));
    }
    Ok(sum)
}

/// Appends a cell that is not NULL, with its length.
pub(super) fn cell(bytes: &[u8], row: &mut Vec<u8>) {
    row.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
    row.extend_from_slice(bytes);
}
