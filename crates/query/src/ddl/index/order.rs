//! How an element of an index is ordered: direction, NULLS, and the operator classes and collations that may be named.
//!
//! Every type has one order here, and texts are ordered by their bytes. So classes and collations that ask for just that
//! order are taken, as schema tools write them (`varchar_pattern_ops` beside every index on a text), and no other.

use ashlar_base::{Error, ErrorCode, IndexKind, IndexOrder, Result, ScalarType, SqlType};
use pg_query::protobuf::{IndexElem, Node, SortByDir, SortByNulls};

use crate::sql_types::string_of;

/// How an element is to be ordered. NULLs come first in descending order, unless it says otherwise.
pub(super) fn direction(element: &IndexElem) -> IndexOrder {
    let descending = SortByDir::try_from(element.ordering) == Ok(SortByDir::SortbyDesc);
    let nulls_first = match SortByNulls::try_from(element.nulls_ordering) {
        Ok(SortByNulls::SortbyNullsFirst) => true,
        Ok(SortByNulls::SortbyNullsLast) => false,
        _ => descending,
    };
    IndexOrder { descending, nulls_first }
}

/// Checks that the operator class and the collation of an element ask for the order that its type has.
///
/// # Errors
/// 42704 for a class that there is not, 42804 for one of another type, 0A000 for another order.
pub(super) fn check(element: &IndexElem, kind: IndexKind, sql_type: SqlType) -> Result<()> {
    if let Some(collation) = last(&element.collation) {
        if !is_text(sql_type) {
            let message = format!("collations are not supported by type {}", without_length(sql_type));
            return Err(Error::new(ErrorCode::DatatypeMismatch, message));
        }
        if !matches!(collation, "default" | "C" | "POSIX" | "ucs_basic") {
            return Err(Error::unsupported(format!("an index with collation \"{collation}\" is not supported"))
                .with_hint("Texts are ordered by their bytes, as by collation \"C\"."));
        }
    }
    let Some(class) = last(&element.opclass) else { return Ok(()) };
    if !element.opclassopts.is_empty() {
        return Err(Error::new(ErrorCode::InvalidParameterValue, format!("operator class {class} has no options")));
    }
    match takes(class, sql_type) {
        Some(true) => Ok(()),
        Some(false) => {
            let message = format!("operator class \"{class}\" does not accept data type {}", without_length(sql_type));
            Err(Error::new(ErrorCode::DatatypeMismatch, message))
        }
        None => {
            let method = method(kind);
            let message = format!("operator class \"{class}\" does not exist for access method \"{method}\"");
            Err(Error::new(ErrorCode::UndefinedObject, message))
        }
    }
}

/// 42704 for a type of which nobody knows an order.
pub(super) fn no_class(kind: IndexKind, sql_type: SqlType) -> Error {
    let method = method(kind);
    let message = format!("data type {sql_type} has no default operator class for access method \"{method}\"");
    Error::new(ErrorCode::UndefinedObject, message).with_hint(
        "You must specify an operator class for the index or define a default operator class for the data type.",
    )
}

fn method(kind: IndexKind) -> &'static str {
    match kind {
        IndexKind::Btree => "btree",
        IndexKind::Hash => "hash",
    }
}

/// Whether an operator class is for a type; `None`: there is no such class, of both access methods.
fn takes(class: &str, sql_type: SqlType) -> Option<bool> {
    use ScalarType::{
        Bool, Bytea, Char, Date, Float4, Float8, Int2, Int4, Int8, Interval, Jsonb, Numeric, Text, Time, Timestamp,
        Timestamptz, Uuid, Varchar,
    };
    let SqlType::Scalar(scalar) = sql_type else {
        return (class == "array_ops" || is_class(class)).then_some(class == "array_ops");
    };
    Some(match class {
        "text_ops" | "varchar_ops" | "text_pattern_ops" | "varchar_pattern_ops" => {
            matches!(scalar, Text | Varchar { .. })
        }
        "bpchar_ops" | "bpchar_pattern_ops" => matches!(scalar, Char { .. }),
        "bool_ops" => scalar == Bool,
        "int2_ops" => scalar == Int2,
        "int4_ops" => scalar == Int4,
        "int8_ops" => scalar == Int8,
        "float4_ops" => scalar == Float4,
        "float8_ops" => scalar == Float8,
        "numeric_ops" => matches!(scalar, Numeric { .. }),
        "bytea_ops" => scalar == Bytea,
        "date_ops" => scalar == Date,
        "time_ops" => scalar == Time,
        "timestamp_ops" => scalar == Timestamp,
        "timestamptz_ops" => scalar == Timestamptz,
        "interval_ops" => scalar == Interval,
        "uuid_ops" => scalar == Uuid,
        "jsonb_ops" => scalar == Jsonb,
        "array_ops" => false,
        _ => return None,
    })
}

/// Whether there is a class of this name for a type that is no array.
fn is_class(class: &str) -> bool {
    takes(class, SqlType::Scalar(ScalarType::Text)).is_some()
}

fn is_text(sql_type: SqlType) -> bool {
    let (SqlType::Scalar(scalar) | SqlType::Array(scalar)) = sql_type;
    matches!(scalar, ScalarType::Text | ScalarType::Varchar { .. } | ScalarType::Char { .. })
}

/// The name of a type as PostgreSQL says it where only the type is meant.
fn without_length(sql_type: SqlType) -> String {
    let shown = sql_type.to_string();
    match shown.split_once('(') {
        Some((name, rest)) => {
            let after = rest.split_once(')').map_or("", |(_, after)| after);
            format!("{name}{after}")
        }
        None => shown,
    }
}

/// The name itself, without its schema.
fn last(names: &[Node]) -> Option<&str> {
    names.last().and_then(string_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_for_types() {
        let text = SqlType::Scalar(ScalarType::Text);
        let short = SqlType::Scalar(ScalarType::Varchar { length: Some(5) });
        let number = SqlType::Scalar(ScalarType::Int4);
        let many = SqlType::Array(ScalarType::Int4);
        for (class, sql_type, expected) in [
            ("text_pattern_ops", text, Some(true)),
            ("varchar_pattern_ops", short, Some(true)),
            ("int4_ops", number, Some(true)),
            ("int8_ops", number, Some(false)),
            ("text_ops", number, Some(false)),
            ("gin_trgm_ops", text, None),
            ("array_ops", many, Some(true)),
            ("array_ops", number, Some(false)),
            ("int4_ops", many, Some(false)),
            ("what_ops", many, None),
        ] {
            assert_eq!(takes(class, sql_type), expected, "{class} of {sql_type}");
        }
        assert_eq!(without_length(short), "character varying");
        assert_eq!(without_length(SqlType::Array(ScalarType::Numeric { precision: 8, scale: 2 })), "numeric[]");
    }
}
