//! Assignment: values of an expression's type become values of a column's type, or are refused as PostgreSQL does.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field};
use ashlar_base::value::text::{TextStyle, Zone};
use ashlar_base::value::{coerce, coerce_with, text};
use ashlar_base::{ColumnDef, Datum, Error, ErrorCode, Result, ScalarType, SqlType, Value};
use ashlar_store::ColumnReader;
use ashlar_store::arrow_types::sql_type_of;

/// Reads one result column as values of a table's column.
pub struct Assigned<'a> {
    reader: ColumnReader<'a>,
    from: SqlType,
    to: SqlType,
    same: bool,
    style: TextStyle,
}

impl<'a> Assigned<'a> {
    /// Checks that the types can be assigned; `zone` is the session's.
    ///
    /// # Errors
    /// 42804 if PostgreSQL has no assignment cast either.
    pub fn new(array: &'a ArrayRef, field: &Field, column: &ColumnDef, zone: Zone) -> Result<Self> {
        let to = column.sql_type;
        let from = sql_type_of(field).ok_or_else(|| match field.data_type() {
            DataType::Struct(_) if family(to) != family(ScalarType::Text.into()) => mismatch_of(column, "record"),
            // PostgreSQL assigns the text of the row.
            DataType::Struct(_) => Error::unsupported("type record cannot be stored"),
            other => Error::unsupported(format!("type {other} cannot be stored")),
        })?;
        let is_null = *field.data_type() == DataType::Null;
        if !is_null && !assignable(from, to) {
            return Err(mismatch(column, from));
        }
        let same = from == to || family(from) == family(to) && !needs_check(to);
        Ok(Self { reader: ColumnReader::new(array, from)?, from, to, same, style: TextStyle { zone } })
    }

    /// The value of a row.
    ///
    /// # Errors
    /// 22003, 22001 and the like if the value does not fit the column.
    pub fn value(&self, row: usize) -> Result<Value> {
        let value = self.reader.datum(row).to_value();
        if self.same || value.is_null() { Ok(value) } else { coerce_with(value, self.from, self.to, &self.style) }
    }
}

/// 42804, as PostgreSQL words it.
pub fn mismatch(column: &ColumnDef, from: SqlType) -> Error {
    mismatch_of(column, &unmodified(from))
}

/// The same for a value of a type of this name.
pub(crate) fn mismatch_of(column: &ColumnDef, from: &str) -> Error {
    Error::new(
        ErrorCode::DatatypeMismatch,
        format!(
            "column \"{}\" is of type {} but expression is of type {from}",
            column.name,
            unmodified(column.sql_type)
        ),
    )
    .with_hint("You will need to rewrite or cast the expression.")
}

/// The type's name without its modifiers.
fn unmodified(sql_type: SqlType) -> String {
    let name = match sql_type.scalar() {
        ScalarType::Numeric { .. } => "numeric".to_owned(),
        ScalarType::Varchar { .. } => "character varying".to_owned(),
        ScalarType::Char { .. } => "character".to_owned(),
        other => other.to_string(),
    };
    if sql_type.is_array() { format!("{name}[]") } else { name }
}

fn needs_check(to: SqlType) -> bool {
    matches!(
        to.scalar(),
        ScalarType::Varchar { length: Some(_) }
            | ScalarType::Char { .. }
            | ScalarType::Numeric { .. }
            | ScalarType::Json
            | ScalarType::Jsonb
    )
}

/// Types whose values have one representation.
fn family(sql_type: SqlType) -> (u8, bool) {
    let family = match sql_type.scalar() {
        ScalarType::Bool => 0,
        ScalarType::Int2 => 1,
        ScalarType::Int4 => 2,
        ScalarType::Int8 => 3,
        ScalarType::Float4 => 4,
        ScalarType::Float8 => 5,
        ScalarType::Numeric { .. } => 6,
        ScalarType::Text | ScalarType::Varchar { .. } | ScalarType::Char { .. } => 7,
        ScalarType::Bytea => 8,
        ScalarType::Date => 9,
        ScalarType::Time => 10,
        ScalarType::Timestamp => 11,
        ScalarType::Timestamptz => 12,
        ScalarType::Interval => 13,
        ScalarType::Uuid => 14,
        ScalarType::Json => 15,
        ScalarType::Jsonb => 16,
    };
    (family, sql_type.is_array())
}

/// Whether PostgreSQL has an assignment cast.
pub(crate) fn assignable(from: SqlType, to: SqlType) -> bool {
    if from.is_array() != to.is_array() {
        // A text expression may be assigned nowhere else; an array never to a scalar.
        return false;
    }
    let is_text =
        |scalar: ScalarType| matches!(scalar, ScalarType::Text | ScalarType::Varchar { .. } | ScalarType::Char { .. });
    let is_instant =
        |scalar: ScalarType| matches!(scalar, ScalarType::Date | ScalarType::Timestamp | ScalarType::Timestamptz);
    let (from, to) = (from.scalar(), to.scalar());
    family(from.into()) == family(to.into())
        || from.is_number() && to.is_number()
        || is_text(to)
        || is_instant(from) && is_instant(to)
        || matches!((from, to), (ScalarType::Json, ScalarType::Jsonb) | (ScalarType::Jsonb, ScalarType::Json))
        || matches!((from, to), (ScalarType::Timestamp | ScalarType::Timestamptz, ScalarType::Time))
        || matches!((from, to), (ScalarType::Interval, ScalarType::Time) | (ScalarType::Time, ScalarType::Interval))
        // JSON functions return text that is JSON.
        || is_text(from) && matches!(to, ScalarType::Json | ScalarType::Jsonb)
}

/// A constant of a statement's text, before its column is known.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// NULL
    Null,
    /// A quoted string: of any type that its text can be read as.
    String(String),
    /// A number as written.
    Number(String),
    /// TRUE or FALSE
    Bool(bool),
}

impl Literal {
    /// The constant as a value of a column, in a session with this zone.
    ///
    /// # Errors
    /// 22P02 and the like if the text is not of the type; 42804 if PostgreSQL has no assignment cast.
    pub fn assign(&self, column: &ColumnDef, zone: Zone) -> Result<Value> {
        let to = column.sql_type;
        match self {
            Self::Null => Ok(Value::Null),
            Self::String(text) => text::parse(to, text, &TextStyle { zone }),
            Self::Bool(value) => match to {
                SqlType::Scalar(ScalarType::Bool) => Ok(Value::Bool(*value)),
                SqlType::Scalar(ScalarType::Text | ScalarType::Varchar { .. } | ScalarType::Char { .. }) => {
                    text::parse(to, if *value { "true" } else { "false" }, &TextStyle::default())
                }
                _ => Err(mismatch(column, ScalarType::Bool.into())),
            },
            Self::Number(digits) => self.assign_number(digits, column),
        }
    }

    fn assign_number(&self, digits: &str, column: &ColumnDef) -> Result<Value> {
        let to = column.sql_type;
        let style = TextStyle::default();
        // A numeric has no negative zero.
        let is_zero = digits.bytes().all(|byte| matches!(byte, b'-' | b'0' | b'.'));
        let digits = if is_zero { digits.trim_start_matches('-') } else { digits };
        let from = number_type(digits);
        match to {
            SqlType::Scalar(ScalarType::Int2 | ScalarType::Int4 | ScalarType::Int8) => {
                let value = text::parse(from, digits, &style)?;
                coerce(value, from, to)
            }
            SqlType::Scalar(ScalarType::Float4 | ScalarType::Float8 | ScalarType::Numeric { .. }) => {
                text::parse(to, digits, &style)
            }
            SqlType::Scalar(ScalarType::Text | ScalarType::Varchar { .. } | ScalarType::Char { .. }) => {
                text::parse(to, &shown(digits), &style)
            }
            _ => Err(mismatch(column, from)),
        }
    }
}

/// A number as PostgreSQL shows it, however it is written: `007` is 7, and `.50` is 0.50.
fn shown(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// The type that PostgreSQL gives a number by its digits.
pub fn number_type(digits: &str) -> SqlType {
    SqlType::Scalar(if digits.parse::<i32>().is_ok() {
        ScalarType::Int4
    } else if digits.parse::<i64>().is_ok() {
        ScalarType::Int8
    } else {
        let fraction = digits.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        ScalarType::Numeric { precision: 38, scale: u8::try_from(fraction.min(38)).unwrap_or(38) }
    })
}

/// A parameter as a value of a column. If the client declared a type, it is read as that type first.
///
/// # Errors
/// As [`coerce`].
pub fn parameter(value: &Value, from: SqlType, to: SqlType) -> Result<Value> {
    if value.is_null() || family(from) == family(to) && !needs_check(to) {
        Ok(value.clone())
    } else {
        coerce(value.clone(), from, to)
    }
}

/// Whether a datum is NULL where a column does not allow it.
pub fn is_missing(column: &ColumnDef, datum: &Datum<'_>) -> bool {
    !column.nullable && datum.is_null()
}
