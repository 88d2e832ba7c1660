//! SQL type names as PostgreSQL's grammar gives them -> [`SqlType`], and the way to and from DataFusion's AST.

use ashlar_base::{Error, ErrorCode, Result, ScalarType, SqlType};
use pg_query::NodeEnum;
use pg_query::protobuf::{TypeName, a_const};

/// Digits that a numeric can have.
pub const NUMERIC_PRECISION_MAX: u8 = 38;

/// The string of a `String` node.
pub fn string_of(node: &pg_query::Node) -> Option<&str> {
    match node.node.as_ref()? {
        NodeEnum::String(string) => Some(&string.sval),
        _ => None,
    }
}

/// The integer of an `A_Const` node.
pub fn integer_of(node: &pg_query::Node) -> Option<i32> {
    match node.node.as_ref()? {
        NodeEnum::AConst(constant) => match constant.val.as_ref()? {
            a_const::Val::Ival(value) => Some(value.ival),
            _ => None,
        },
        NodeEnum::Integer(value) => Some(value.ival),
        _ => None,
    }
}

/// The type that a column definition or a cast names.
///
/// # Errors
/// 42704 for a type that nobody knows, 0A000 for one of PostgreSQL's that is not offered.
pub fn resolve(type_name: &TypeName) -> Result<SqlType> {
    let names: Vec<&str> = type_name.names.iter().filter_map(string_of).collect();
    let name = *names.last().unwrap_or(&"");
    let at = |error: Error| match u32::try_from(type_name.location) {
        Ok(location) => error.at(location + 1),
        Err(_) => error,
    };
    let modifiers: Vec<i32> = type_name.typmods.iter().filter_map(integer_of).collect();
    let scalar = scalar_named(name, &modifiers).map_err(at)?;
    match type_name.array_bounds.len() {
        0 => Ok(SqlType::Scalar(scalar)),
        1 if matches!(scalar, ScalarType::Char { .. }) => Err(at(Error::unsupported(
            "arrays of character(n) are not supported",
        )
        .with_hint("Use varchar(n)[] or text[]."))),
        1 => Ok(SqlType::Array(scalar)),
        _ => Err(at(Error::unsupported("multi-dimensional arrays are not supported"))),
    }
}

/// Whether the type is `numeric` without precision, which no column has.
pub(crate) fn is_open_numeric(type_name: &TypeName) -> bool {
    let name = type_name.names.iter().filter_map(string_of).next_back();
    matches!(name, Some("numeric" | "decimal")) && type_name.typmods.is_empty() && type_name.array_bounds.is_empty()
}

/// Whether the type is one of the `serial` family, and then its integer type.
///
/// # Errors
/// 0A000 for an array of them.
pub fn serial_type(type_name: &TypeName) -> Result<Option<ScalarType>> {
    let scalar = match type_name.names.iter().filter_map(string_of).next_back() {
        Some("serial" | "serial4") => ScalarType::Int4,
        Some("bigserial" | "serial8") => ScalarType::Int8,
        Some("smallserial" | "serial2") => ScalarType::Int2,
        _ => return Ok(None),
    };
    if !type_name.array_bounds.is_empty() {
        return Err(Error::unsupported("array of serial is not implemented"));
    }
    Ok(Some(scalar))
}

fn scalar_named(name: &str, modifiers: &[i32]) -> Result<ScalarType> {
    Ok(match name {
        "bool" | "boolean" => ScalarType::Bool,
        "int2" | "smallint" => ScalarType::Int2,
        "int4" | "int" | "integer" => ScalarType::Int4,
        "int8" | "bigint" => ScalarType::Int8,
        "float4" | "real" => ScalarType::Float4,
        "float8" => ScalarType::Float8,
        "numeric" | "decimal" => numeric(modifiers)?,
        "text" => ScalarType::Text,
        "varchar" => ScalarType::Varchar { length: length(modifiers)? },
        "bytea" => ScalarType::Bytea,
        "date" => ScalarType::Date,
        "time" => no_precision(ScalarType::Time, modifiers)?,
        "timestamp" => no_precision(ScalarType::Timestamp, modifiers)?,
        "timestamptz" => no_precision(ScalarType::Timestamptz, modifiers)?,
        "interval" => interval(modifiers)?,
        "uuid" => ScalarType::Uuid,
        "json" => ScalarType::Json,
        "jsonb" => ScalarType::Jsonb,
        // `character` without a length comes with that of 1.
        "bpchar" if !modifiers.is_empty() => ScalarType::Char { length: Some(character_length(modifiers[0])?) },
        "bpchar" | "char" => {
            let message = format!("type {name} is not supported");
            return Err(Error::unsupported(message).with_hint("Use character(n), varchar(n) or text."));
        }
        "timetz" | "money" | "inet" | "cidr" | "macaddr" | "point" | "line" | "box" | "path" | "polygon" | "circle"
        | "bit" | "varbit" | "xml" | "tsvector" | "tsquery" | "oid" | "name" | "regclass" | "int4range"
        | "int8range" | "numrange" | "daterange" | "tsrange" | "tstzrange" | "hstore" | "citext" => {
            return Err(Error::unsupported(format!("type {name} is not supported")));
        }
        _ => return Err(Error::new(ErrorCode::UndefinedObject, format!("type \"{name}\" does not exist"))),
    })
}

fn numeric(modifiers: &[i32]) -> Result<ScalarType> {
    let (precision, scale) = match *modifiers {
        [] => {
            return Err(Error::unsupported("numeric without a precision is not supported")
                .with_hint("Say how many digits: numeric(precision, scale), precision at most 38."));
        }
        [precision] => (precision, 0),
        [precision, scale, ..] => (precision, scale),
    };
    if !(1..=1000).contains(&precision) {
        return Err(Error::new(
            ErrorCode::InvalidParameterValue,
            format!("NUMERIC precision {precision} must be between 1 and 1000"),
        ));
    }
    match (u8::try_from(precision), u8::try_from(scale)) {
        (Ok(precision), Ok(scale)) if precision <= NUMERIC_PRECISION_MAX && scale <= precision => {
            Ok(ScalarType::Numeric { precision, scale })
        }
        _ => Err(Error::unsupported(format!("numeric({precision},{scale}) is not supported"))
            .with_hint("The precision can be at most 38, the scale from 0 to the precision.")),
    }
}

fn length(modifiers: &[i32]) -> Result<Option<u32>> {
    match modifiers {
        [] => Ok(None),
        [length, ..] => match u32::try_from(*length) {
            Ok(length @ 1..=10_485_760) => Ok(Some(length)),
            _ => Err(Error::new(ErrorCode::InvalidParameterValue, "length for type varchar must be at least 1")),
        },
    }
}

/// Of `character(n)`.
fn character_length(length: i32) -> Result<u32> {
    let wrong = |message: &str| Error::new(ErrorCode::InvalidParameterValue, message);
    match u32::try_from(length) {
        Ok(length @ 1..=10_485_760) => Ok(length),
        Ok(1..) => Err(wrong("length for type char cannot exceed 10485760")),
        _ => Err(wrong("length for type char must be at least 1")),
    }
}

/// `interval`, of all its fields and with all six digits: others would cut values.
fn interval(modifiers: &[i32]) -> Result<ScalarType> {
    const ALL_FIELDS: i32 = 0x7fff;
    match modifiers {
        [] | [ALL_FIELDS] | [ALL_FIELDS, 6] => Ok(ScalarType::Interval),
        _ => Err(Error::unsupported("intervals of some fields or with a precision other than 6 are not supported")),
    }
}

fn no_precision(scalar: ScalarType, modifiers: &[i32]) -> Result<ScalarType> {
    match modifiers {
        [] | [6] => Ok(scalar),
        _ => Err(Error::unsupported(format!("a precision of {scalar} other than 6 is not supported"))),
    }
}

/// How the type is written in a cast that DataFusion's parser reads; [`PgTypePlanner`](crate::expressions) maps it
/// back to exactly this type.
pub fn ast_of(sql_type: SqlType) -> datafusion::sql::sqlparser::ast::DataType {
    use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, CharacterLength, DataType, ExactNumberInfo, TimezoneInfo};
    let scalar = match sql_type.scalar() {
        ScalarType::Bool => DataType::Boolean,
        ScalarType::Int2 => DataType::SmallInt(None),
        ScalarType::Int4 => DataType::Integer(None),
        ScalarType::Int8 => DataType::BigInt(None),
        ScalarType::Float4 => DataType::Real,
        ScalarType::Float8 => DataType::DoublePrecision,
        ScalarType::Numeric { precision, scale } => {
            DataType::Numeric(ExactNumberInfo::PrecisionAndScale(u64::from(precision), i64::from(scale)))
        }
        ScalarType::Text => DataType::Text,
        ScalarType::Varchar { length } => DataType::Varchar(
            length.map(|length| CharacterLength::IntegerLength { length: u64::from(length), unit: None }),
        ),
        ScalarType::Char { length } => DataType::Character(
            length.map(|length| CharacterLength::IntegerLength { length: u64::from(length), unit: None }),
        ),
        ScalarType::Bytea => DataType::Bytea,
        ScalarType::Date => DataType::Date,
        ScalarType::Time => DataType::Time(None, TimezoneInfo::None),
        ScalarType::Timestamp => DataType::Timestamp(None, TimezoneInfo::None),
        ScalarType::Timestamptz => DataType::Timestamp(None, TimezoneInfo::WithTimeZone),
        ScalarType::Interval => DataType::Interval { fields: None, precision: None },
        ScalarType::Uuid => DataType::Uuid,
        ScalarType::Json => DataType::JSON,
        ScalarType::Jsonb => DataType::JSONB,
    };
    if sql_type.is_array() { DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(scalar), None)) } else { scalar }
}
