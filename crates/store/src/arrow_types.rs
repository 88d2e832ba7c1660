//! SQL types as Arrow types, and back.
//!
//! Called by the store for its own columns and by the query crate for whatever a query results in. The SQL type of
//! a column travels in its field's metadata, because Arrow has no uuid, no jsonb and no varchar(10).

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use ashlar_base::{ColumnDef, ScalarType, SqlType};

/// The metadata key of a field that holds the SQL type's name.
pub const TYPE_METADATA: &str = "ashlar.type";
/// The time zone of `timestamptz` columns.
pub const UTC: &str = "+00:00";
/// The name of the items in a list.
const ITEM: &str = "item";

/// The Arrow type of the values of a SQL type.
pub fn to_arrow_type(sql_type: SqlType) -> DataType {
    match sql_type {
        SqlType::Array(element) => DataType::List(item_field(element)),
        SqlType::Scalar(scalar) => match scalar {
            ScalarType::Bool => DataType::Boolean,
            ScalarType::Int2 => DataType::Int16,
            ScalarType::Int4 => DataType::Int32,
            ScalarType::Int8 => DataType::Int64,
            ScalarType::Float4 => DataType::Float32,
            ScalarType::Float8 => DataType::Float64,
            ScalarType::Numeric { precision, scale } => DataType::Decimal128(precision, scale.cast_signed()),
            ScalarType::Text
            | ScalarType::Varchar { .. }
            | ScalarType::Char { .. }
            | ScalarType::Json
            | ScalarType::Jsonb => DataType::Utf8,
            ScalarType::Bytea => DataType::Binary,
            ScalarType::Date => DataType::Date32,
            ScalarType::Time => DataType::Time64(TimeUnit::Microsecond),
            ScalarType::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            ScalarType::Timestamptz => {
                static ZONE: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from(UTC));
                DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::clone(&ZONE)))
            }
            ScalarType::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            ScalarType::Uuid => DataType::FixedSizeBinary(16),
        },
    }
}

/// The field of the items of an array column.
pub(crate) fn item_field(element: ScalarType) -> FieldRef {
    Arc::new(Field::new(ITEM, to_arrow_type(SqlType::Scalar(element)), true))
}

/// A field with the SQL type in its metadata.
pub fn arrow_field(name: &str, sql_type: SqlType, nullable: bool) -> Field {
    let metadata = HashMap::from([(TYPE_METADATA.to_owned(), sql_type.to_string())]);
    Field::new(name, to_arrow_type(sql_type), nullable).with_metadata(metadata)
}

/// The field of a table's column.
pub fn to_arrow_field(column: &ColumnDef) -> Field {
    arrow_field(&column.name, column.sql_type, column.nullable)
}

/// The SQL type of a field: the one in its metadata where that fits the Arrow type, else the one whose values the
/// Arrow type's are. `None`: no SQL type of ours has these values.
pub fn sql_type_of(field: &Field) -> Option<SqlType> {
    let of_arrow = sql_type_of_arrow(field.data_type())?;
    let named = field.metadata().get(TYPE_METADATA).and_then(|name| parse_type(name));
    Some(named.filter(|named| same_values(*named, of_arrow)).unwrap_or(of_arrow))
}

/// Whether a name in the metadata may stand for the type that Arrow shows. A query may change a column's type and
/// leave its metadata.
fn same_values(named: SqlType, shown: SqlType) -> bool {
    let kind = |scalar: ScalarType| match scalar {
        ScalarType::Varchar { .. } | ScalarType::Char { .. } | ScalarType::Json | ScalarType::Jsonb => ScalarType::Text,
        scalar => scalar,
    };
    named.is_array() == shown.is_array() && kind(named.scalar()) == kind(shown.scalar())
}

fn sql_type_of_arrow(data_type: &DataType) -> Option<SqlType> {
    let scalar = match data_type {
        DataType::Null => ScalarType::Text,
        DataType::Boolean => ScalarType::Bool,
        DataType::Int8 | DataType::Int16 => ScalarType::Int2,
        DataType::Int32 | DataType::UInt8 | DataType::UInt16 => ScalarType::Int4,
        DataType::Int64 | DataType::UInt32 => ScalarType::Int8,
        DataType::UInt64 => ScalarType::Numeric { precision: 20, scale: 0 },
        DataType::Float16 | DataType::Float32 => ScalarType::Float4,
        DataType::Float64 => ScalarType::Float8,
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => numeric(*precision, *scale),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => ScalarType::Text,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => ScalarType::Bytea,
        DataType::FixedSizeBinary(16) => ScalarType::Uuid,
        DataType::FixedSizeBinary(_) => ScalarType::Bytea,
        DataType::Date32 | DataType::Date64 => ScalarType::Date,
        DataType::Time32(_) | DataType::Time64(_) => ScalarType::Time,
        DataType::Timestamp(_, None) => ScalarType::Timestamp,
        DataType::Timestamp(_, Some(_)) => ScalarType::Timestamptz,
        DataType::Interval(_) | DataType::Duration(_) => ScalarType::Interval,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => {
            return match sql_type_of_arrow(item.data_type())? {
                SqlType::Scalar(scalar) => Some(SqlType::Array(scalar)),
                SqlType::Array(_) => None,
            };
        }
        DataType::Dictionary(_, values) => return sql_type_of_arrow(values),
        DataType::RunEndEncoded(_, values) => return sql_type_of_arrow(values.data_type()),
        DataType::Struct(_) | DataType::Union(_, _) | DataType::Map(_, _) => return None,
    };
    Some(SqlType::Scalar(scalar))
}

/// A negative scale is digits before the point; more than 38 digits do not fit an `i128`.
fn numeric(precision: u8, scale: i8) -> ScalarType {
    match u8::try_from(scale) {
        Ok(scale) => ScalarType::Numeric { precision: precision.clamp(1, 38).max(scale.min(38)), scale: scale.min(38) },
        Err(_) => {
            ScalarType::Numeric { precision: precision.saturating_add(scale.unsigned_abs()).clamp(1, 38), scale: 0 }
        }
    }
}

/// The type with this name, as `SqlType` displays it.
pub fn parse_type(name: &str) -> Option<SqlType> {
    match name.strip_suffix("[]") {
        Some(element) => parse_scalar(element).map(SqlType::Array),
        None => parse_scalar(name).map(SqlType::Scalar),
    }
}

fn parse_scalar(name: &str) -> Option<ScalarType> {
    Some(match name {
        "boolean" => ScalarType::Bool,
        "smallint" => ScalarType::Int2,
        "integer" => ScalarType::Int4,
        "bigint" => ScalarType::Int8,
        "real" => ScalarType::Float4,
        "double precision" => ScalarType::Float8,
        "text" => ScalarType::Text,
        "character varying" => ScalarType::Varchar { length: None },
        "character" => ScalarType::Char { length: None },
        "bytea" => ScalarType::Bytea,
        "date" => ScalarType::Date,
        "time without time zone" => ScalarType::Time,
        "timestamp without time zone" => ScalarType::Timestamp,
        "timestamp with time zone" => ScalarType::Timestamptz,
        "interval" => ScalarType::Interval,
        "uuid" => ScalarType::Uuid,
        "json" => ScalarType::Json,
        "jsonb" => ScalarType::Jsonb,
        _ => {
            let (kind, arguments) = name.strip_suffix(')')?.split_once('(')?;
            match kind {
                "numeric" => {
                    let (precision, scale) = arguments.split_once(',')?;
                    ScalarType::Numeric { precision: precision.parse().ok()?, scale: scale.parse().ok()? }
                }
                "character varying" => ScalarType::Varchar { length: Some(arguments.parse().ok()?) },
                "character" => ScalarType::Char { length: Some(arguments.parse().ok()?) },
                _ => return None,
            }
        }
    })
}

#[cfg(test)]
mod tests;
