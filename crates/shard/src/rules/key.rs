//! Values of a sharding key, in the one form that rules compute with: equal numbers of any width are the same key.
//!
//! Called by the rules with values, and by routes with what a statement compares a key with.

use ashlar_base::{Datum, Error, ErrorCode, Result, ScalarType, SqlType};

use super::hash;

/// Days from 1970-01-01 to 2000-01-01, where PostgreSQL begins to count.
const EPOCH_DAYS: i64 = 10_957;
const DAY_MICROS: i64 = 86_400_000_000;

/// What kinds of value a key column holds. Columns of one class have the same hash of equal values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyClass {
    /// `smallint`, `integer`, `bigint`
    Integer,
    /// `text`, `varchar`
    Text,
    /// `uuid`
    Uuid,
    /// `date`
    Date,
    /// `timestamp`
    Timestamp,
    /// `timestamptz`
    Timestamptz,
}

impl KeyClass {
    /// The class of a column's type; `None` where a key cannot be of it.
    pub fn of(sql_type: SqlType) -> Option<Self> {
        let SqlType::Scalar(scalar) = sql_type else { return None };
        Some(match scalar {
            ScalarType::Int2 | ScalarType::Int4 | ScalarType::Int8 => Self::Integer,
            ScalarType::Text | ScalarType::Varchar { .. } => Self::Text,
            ScalarType::Uuid => Self::Uuid,
            ScalarType::Date => Self::Date,
            ScalarType::Timestamp => Self::Timestamp,
            ScalarType::Timestamptz => Self::Timestamptz,
            ScalarType::Bool
            | ScalarType::Float4
            | ScalarType::Float8
            | ScalarType::Numeric { .. }
            | ScalarType::Char { .. }
            | ScalarType::Bytea
            | ScalarType::Time
            | ScalarType::Interval
            | ScalarType::Json
            | ScalarType::Jsonb => return None,
        })
    }

    /// Whether PostgreSQL orders values of the class as [`Key`] does. Text is ordered by a collation, which is the server's
    /// affair.
    pub fn is_ordered(self) -> bool {
        self != Self::Text
    }

    /// The type that constants of the class are read as.
    pub fn sql_type(self) -> SqlType {
        SqlType::Scalar(match self {
            Self::Integer => ScalarType::Int8,
            Self::Text => ScalarType::Text,
            Self::Uuid => ScalarType::Uuid,
            Self::Date => ScalarType::Date,
            Self::Timestamp => ScalarType::Timestamp,
            Self::Timestamptz => ScalarType::Timestamptz,
        })
    }
}

/// A value of a key column, of the class that is known beside it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// An integer, a date in days, or a timestamp in microseconds, both since 1970.
    Number(i64),
    /// A text.
    Text(Box<str>),
    /// A uuid.
    Uuid([u8; 16]),
}

impl Key {
    /// The key that a value is; `None` for NULL.
    ///
    /// # Errors
    /// 42804 for a value that is not of the class.
    pub fn new(class: KeyClass, datum: &Datum<'_>) -> Result<Option<Self>> {
        Ok(Some(match (class, datum) {
            (_, Datum::Null) => return Ok(None),
            (KeyClass::Integer, Datum::Int2(number)) => Self::Number(i64::from(*number)),
            (KeyClass::Integer, Datum::Int4(number)) => Self::Number(i64::from(*number)),
            (KeyClass::Integer, Datum::Int8(number)) => Self::Number(*number),
            (KeyClass::Text, Datum::Text(text)) => Self::Text((*text).into()),
            (KeyClass::Uuid, Datum::Uuid(uuid)) => Self::Uuid(*uuid),
            (KeyClass::Date, Datum::Date(days)) => Self::Number(i64::from(*days)),
            (KeyClass::Timestamp | KeyClass::Timestamptz, Datum::Timestamp(micros)) => Self::Number(*micros),
            _ => {
                return Err(Error::new(ErrorCode::DatatypeMismatch, "value is not of the type of the sharding key"));
            }
        }))
    }

    /// What PostgreSQL's hash function for the class makes of it.
    pub(super) fn hash(&self, class: KeyClass, seed: u64) -> u64 {
        match (self, class) {
            (Self::Number(days), KeyClass::Date) => hash::word((days - EPOCH_DAYS) as u32, seed),
            (Self::Number(micros), KeyClass::Timestamp | KeyClass::Timestamptz) => {
                hash::integer(micros.wrapping_sub(EPOCH_DAYS * DAY_MICROS), seed)
            }
            (Self::Number(number), _) => hash::integer(*number, seed),
            (Self::Text(text), _) => hash::bytes(text.as_bytes(), seed),
            (Self::Uuid(uuid), _) => hash::bytes(uuid, seed),
        }
    }

    /// The value, for a column of this class.
    pub fn as_datum(&self, class: KeyClass) -> Datum<'_> {
        match (self, class) {
            (Self::Number(days), KeyClass::Date) => i32::try_from(*days).map_or(Datum::Null, Datum::Date),
            (Self::Number(micros), KeyClass::Timestamp | KeyClass::Timestamptz) => Datum::Timestamp(*micros),
            (Self::Number(number), _) => Datum::Int8(*number),
            (Self::Text(text), _) => Datum::Text(text),
            (Self::Uuid(uuid), _) => Datum::Uuid(*uuid),
        }
    }
}
