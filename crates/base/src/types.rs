//! The SQL types that a column can have, with PostgreSQL's names and OIDs.

use std::fmt;

/// A type that is not an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScalarType {
    /// `boolean`
    Bool,
    /// `smallint`
    Int2,
    /// `integer`
    Int4,
    /// `bigint`
    Int8,
    /// `real`
    Float4,
    /// `double precision`
    Float8,
    /// `numeric(precision, scale)`; precision 1..=38, scale 0..=precision.
    Numeric {
        /// Decimal digits in all.
        precision: u8,
        /// Decimal digits after the point.
        scale: u8,
    },
    /// `text`
    Text,
    /// `varchar` or `varchar(n)`: the limit counts characters.
    Varchar {
        /// Characters at the most; `None` for no limit.
        length: Option<u32>,
    },
    /// `character(n)`: blanks at the end do not count. Values are kept without them, and shown with as many as are missing.
    Char {
        /// Characters that are shown; `None` for a parameter, which has no length of its own.
        length: Option<u32>,
    },
    /// `bytea`
    Bytea,
    /// `date`
    Date,
    /// `time without time zone`
    Time,
    /// `timestamp without time zone`
    Timestamp,
    /// `timestamp with time zone`
    Timestamptz,
    /// `interval`
    Interval,
    /// `uuid`
    Uuid,
    /// `json`: the text as it was written.
    Json,
    /// `jsonb`: normalised as PostgreSQL does.
    Jsonb,
}

/// The type of a column or of a result column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SqlType {
    /// One value.
    Scalar(ScalarType),
    /// A one-dimensional array of values.
    Array(ScalarType),
}

impl From<ScalarType> for SqlType {
    fn from(scalar: ScalarType) -> Self {
        Self::Scalar(scalar)
    }
}

impl ScalarType {
    /// Whether values of the type are numbers: integers, floats and numeric.
    pub fn is_number(self) -> bool {
        matches!(self, Self::Int2 | Self::Int4 | Self::Int8 | Self::Float4 | Self::Float8 | Self::Numeric { .. })
    }

    /// PostgreSQL's OID of the type.
    pub fn oid(self) -> u32 {
        match self {
            Self::Bool => 16,
            Self::Bytea => 17,
            Self::Int8 => 20,
            Self::Int2 => 21,
            Self::Int4 => 23,
            Self::Text => 25,
            Self::Json => 114,
            Self::Float4 => 700,
            Self::Float8 => 701,
            Self::Char { .. } => 1042,
            Self::Varchar { .. } => 1043,
            Self::Date => 1082,
            Self::Time => 1083,
            Self::Timestamp => 1114,
            Self::Timestamptz => 1184,
            Self::Interval => 1186,
            Self::Numeric { .. } => 1700,
            Self::Uuid => 2950,
            Self::Jsonb => 3802,
        }
    }

    /// PostgreSQL's OID of the array type with this element.
    pub fn array_oid(self) -> u32 {
        match self {
            Self::Bool => 1000,
            Self::Bytea => 1001,
            Self::Int8 => 1016,
            Self::Int2 => 1005,
            Self::Int4 => 1007,
            Self::Text => 1009,
            Self::Json => 199,
            Self::Float4 => 1021,
            Self::Float8 => 1022,
            Self::Char { .. } => 1014,
            Self::Varchar { .. } => 1015,
            Self::Date => 1182,
            Self::Time => 1183,
            Self::Timestamp => 1115,
            Self::Timestamptz => 1185,
            Self::Interval => 1187,
            Self::Numeric { .. } => 1231,
            Self::Uuid => 2951,
            Self::Jsonb => 3807,
        }
    }

    /// Bytes of a value in a result, as `pg_type.typlen` has it; -1 where it varies.
    pub fn typlen(self) -> i16 {
        match self {
            Self::Bool => 1,
            Self::Int2 => 2,
            Self::Int4 | Self::Float4 | Self::Date => 4,
            Self::Int8 | Self::Float8 | Self::Time | Self::Timestamp | Self::Timestamptz => 8,
            Self::Interval | Self::Uuid => 16,
            Self::Numeric { .. }
            | Self::Text
            | Self::Varchar { .. }
            | Self::Char { .. }
            | Self::Bytea
            | Self::Json
            | Self::Jsonb => -1,
        }
    }

    /// PostgreSQL's type modifier: of `numeric(p,s)`, `varchar(n)` and `character(n)`; -1 elsewhere.
    pub fn typmod(self) -> i32 {
        match self {
            Self::Numeric { precision, scale } => ((i32::from(precision) << 16) | i32::from(scale)) + 4,
            Self::Varchar { length: Some(length) } | Self::Char { length: Some(length) } => {
                i32::try_from(length).map_or(-1, |length| length + 4)
            }
            _ => -1,
        }
    }

    /// Whether values of this type can be a primary key: they have one canonical form and an equality that is
    /// the equality of that form.
    pub fn can_be_key(self) -> bool {
        !matches!(self, Self::Interval | Self::Json | Self::Jsonb)
    }
}

impl SqlType {
    /// Decimals of a numeric whose column is not known: 28 digits are left before the point.
    pub const NUMERIC_PARAMETER_SCALE: u8 = 10;

    /// PostgreSQL's OID of the type.
    pub fn oid(self) -> u32 {
        match self {
            Self::Scalar(scalar) => scalar.oid(),
            Self::Array(element) => element.array_oid(),
        }
    }

    /// As `pg_type.typlen`.
    pub fn typlen(self) -> i16 {
        match self {
            Self::Scalar(scalar) => scalar.typlen(),
            Self::Array(_) => -1,
        }
    }

    /// As `pg_attribute.atttypmod`.
    pub fn typmod(self) -> i32 {
        match self {
            Self::Scalar(scalar) | Self::Array(scalar) => scalar.typmod(),
        }
    }

    /// The element or the scalar itself.
    pub fn scalar(self) -> ScalarType {
        match self {
            Self::Scalar(scalar) | Self::Array(scalar) => scalar,
        }
    }

    /// Whether values of this type have an order and an equality that an index and a UNIQUE constraint can go by.
    pub fn can_be_indexed(self) -> bool {
        self.scalar() != ScalarType::Json
    }

    /// Whether this is an array type.
    pub fn is_array(self) -> bool {
        matches!(self, Self::Array(_))
    }

    /// The type with this OID, where we offer it. `numeric` comes back as `numeric(38, 10)`: an OID has no
    /// precision, and callers that know the column's type use that instead.
    pub fn from_oid(oid: u32) -> Option<Self> {
        // Asked for every parameter of a sharding key: a match, and no list that is gone through.
        let (scalar, is_array) = match oid {
            16 => (ScalarType::Bool, false),
            17 => (ScalarType::Bytea, false),
            20 => (ScalarType::Int8, false),
            21 => (ScalarType::Int2, false),
            23 => (ScalarType::Int4, false),
            25 => (ScalarType::Text, false),
            114 => (ScalarType::Json, false),
            700 => (ScalarType::Float4, false),
            701 => (ScalarType::Float8, false),
            1042 => (ScalarType::Char { length: None }, false),
            1043 => (ScalarType::Varchar { length: None }, false),
            1082 => (ScalarType::Date, false),
            1083 => (ScalarType::Time, false),
            1114 => (ScalarType::Timestamp, false),
            1184 => (ScalarType::Timestamptz, false),
            1186 => (ScalarType::Interval, false),
            1700 => (ScalarType::Numeric { precision: 38, scale: Self::NUMERIC_PARAMETER_SCALE }, false),
            2950 => (ScalarType::Uuid, false),
            3802 => (ScalarType::Jsonb, false),
            1000 => (ScalarType::Bool, true),
            1001 => (ScalarType::Bytea, true),
            1016 => (ScalarType::Int8, true),
            1005 => (ScalarType::Int2, true),
            1007 => (ScalarType::Int4, true),
            1009 => (ScalarType::Text, true),
            199 => (ScalarType::Json, true),
            1021 => (ScalarType::Float4, true),
            1022 => (ScalarType::Float8, true),
            1014 => (ScalarType::Char { length: None }, true),
            1015 => (ScalarType::Varchar { length: None }, true),
            1182 => (ScalarType::Date, true),
            1183 => (ScalarType::Time, true),
            1115 => (ScalarType::Timestamp, true),
            1185 => (ScalarType::Timestamptz, true),
            1187 => (ScalarType::Interval, true),
            1231 => (ScalarType::Numeric { precision: 38, scale: Self::NUMERIC_PARAMETER_SCALE }, true),
            2951 => (ScalarType::Uuid, true),
            3807 => (ScalarType::Jsonb, true),
            _ => return None,
        };
        Some(if is_array { Self::Array(scalar) } else { Self::Scalar(scalar) })
    }
}

impl fmt::Display for ScalarType {
    /// PostgreSQL's `format_type` name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("boolean"),
            Self::Int2 => f.write_str("smallint"),
            Self::Int4 => f.write_str("integer"),
            Self::Int8 => f.write_str("bigint"),
            Self::Float4 => f.write_str("real"),
            Self::Float8 => f.write_str("double precision"),
            Self::Numeric { precision, scale } => write!(f, "numeric({precision},{scale})"),
            Self::Text => f.write_str("text"),
            Self::Varchar { length: None } => f.write_str("character varying"),
            Self::Varchar { length: Some(length) } => write!(f, "character varying({length})"),
            Self::Char { length: None } => f.write_str("character"),
            Self::Char { length: Some(length) } => write!(f, "character({length})"),
            Self::Bytea => f.write_str("bytea"),
            Self::Date => f.write_str("date"),
            Self::Time => f.write_str("time without time zone"),
            Self::Timestamp => f.write_str("timestamp without time zone"),
            Self::Timestamptz => f.write_str("timestamp with time zone"),
            Self::Interval => f.write_str("interval"),
            Self::Uuid => f.write_str("uuid"),
            Self::Json => f.write_str("json"),
            Self::Jsonb => f.write_str("jsonb"),
        }
    }
}

impl fmt::Display for SqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar(scalar) => scalar.fmt(f),
            Self::Array(element) => write!(f, "{element}[]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_found_by_its_own_number_and_by_no_other() {
        let all = [
            ScalarType::Bool,
            ScalarType::Int2,
            ScalarType::Int4,
            ScalarType::Int8,
            ScalarType::Float4,
            ScalarType::Float8,
            ScalarType::Numeric { precision: 38, scale: SqlType::NUMERIC_PARAMETER_SCALE },
            ScalarType::Text,
            ScalarType::Varchar { length: None },
            ScalarType::Char { length: None },
            ScalarType::Bytea,
            ScalarType::Date,
            ScalarType::Time,
            ScalarType::Timestamp,
            ScalarType::Timestamptz,
            ScalarType::Interval,
            ScalarType::Uuid,
            ScalarType::Json,
            ScalarType::Jsonb,
        ];
        let mut found = 0;
        for oid in (0..10_000).chain([u32::MAX]) {
            let scalar = all.into_iter().find(|scalar| scalar.oid() == oid).map(SqlType::Scalar);
            let array = all.into_iter().find(|scalar| scalar.array_oid() == oid).map(SqlType::Array);
            assert_eq!(SqlType::from_oid(oid), scalar.or(array), "{oid}");
            found += usize::from(SqlType::from_oid(oid).is_some());
        }
        assert_eq!(found, 2 * all.len());
    }
}
