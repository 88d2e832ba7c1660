//! `pg_type`: the types that columns can have, and their arrays.
//!
//! Also tells `information_schema` and the functions how the catalog names a type.

use ashlar_base::{Result, ScalarType, SqlType, Value};

use super::Picture;
use super::layout::{Rows, string};
use super::pg_catalog::COLLATION;

/// The columns of `pg_type`. Functions of a type are named, not numbered: there is no `pg_proc` to find them in.
pub(super) const COLUMNS: &str = "oid bigint, typname text, typnamespace bigint = 11, typowner bigint = 10, \
    typlen smallint, typbyval boolean, typtype text = b, typcategory text, typispreferred boolean, \
    typisdefined boolean = true, typdelim text, typrelid bigint = 0, typsubscript text = -, typelem bigint = 0, \
    typarray bigint = 0, typinput text, typoutput text, typreceive text, typsend text, typmodin text = -, \
    typmodout text = -, typanalyze text = -, typalign text, typstorage text, typnotnull boolean = false, \
    typbasetype bigint = 0, typtypmod integer = -1, typndims integer = 0, typcollation bigint, typdefaultbin text, \
    typdefault text, typacl text[]";

/// All scalar types.
const SCALARS: [ScalarType; 19] = [
    ScalarType::Bool,
    ScalarType::Bytea,
    ScalarType::Int8,
    ScalarType::Int2,
    ScalarType::Int4,
    ScalarType::Text,
    ScalarType::Json,
    ScalarType::Float4,
    ScalarType::Float8,
    ScalarType::Char { length: None },
    ScalarType::Varchar { length: None },
    ScalarType::Date,
    ScalarType::Time,
    ScalarType::Timestamp,
    ScalarType::Timestamptz,
    ScalarType::Interval,
    ScalarType::Numeric { precision: 38, scale: 0 },
    ScalarType::Uuid,
    ScalarType::Jsonb,
];

/// The name by which `pg_type` knows a type.
pub(super) fn type_name(sql_type: SqlType) -> String {
    let name = scalar_name(sql_type.scalar());
    if sql_type.is_array() { format!("_{name}") } else { name.to_owned() }
}

fn scalar_name(scalar: ScalarType) -> &'static str {
    match scalar {
        ScalarType::Bool => "bool",
        ScalarType::Int2 => "int2",
        ScalarType::Int4 => "int4",
        ScalarType::Int8 => "int8",
        ScalarType::Float4 => "float4",
        ScalarType::Float8 => "float8",
        ScalarType::Numeric { .. } => "numeric",
        ScalarType::Text => "text",
        ScalarType::Varchar { .. } => "varchar",
        ScalarType::Char { .. } => "bpchar",
        ScalarType::Bytea => "bytea",
        ScalarType::Date => "date",
        ScalarType::Time => "time",
        ScalarType::Timestamp => "timestamp",
        ScalarType::Timestamptz => "timestamptz",
        ScalarType::Interval => "interval",
        ScalarType::Uuid => "uuid",
        ScalarType::Json => "json",
        ScalarType::Jsonb => "jsonb",
    }
}

/// How values of a type lie in PostgreSQL's memory, as `pg_type` and `pg_attribute` tell it.
pub(super) struct Physical {
    /// `typbyval`
    pub(super) by_value: bool,
    /// `typalign`
    pub(super) align: &'static str,
    /// `typstorage`
    pub(super) storage: &'static str,
    /// `typcollation`
    pub(super) collation: i64,
}

/// As PostgreSQL on a machine of 64 bits has it.
pub(super) fn physical(sql_type: SqlType) -> Physical {
    let align = match sql_type.scalar() {
        ScalarType::Int8
        | ScalarType::Float8
        | ScalarType::Time
        | ScalarType::Timestamp
        | ScalarType::Timestamptz
        | ScalarType::Interval => "d",
        ScalarType::Bool | ScalarType::Uuid if !sql_type.is_array() => "c",
        ScalarType::Int2 if !sql_type.is_array() => "s",
        _ => "i",
    };
    let storage = match sql_type {
        SqlType::Scalar(ScalarType::Numeric { .. }) => "m",
        _ if sql_type.typlen() < 0 => "x",
        _ => "p",
    };
    let is_text = matches!(sql_type.scalar(), ScalarType::Text | ScalarType::Varchar { .. } | ScalarType::Char { .. });
    Physical {
        by_value: matches!(sql_type.typlen(), 1 | 2 | 4 | 8),
        align,
        storage,
        collation: if is_text { COLLATION } else { 0 },
    }
}

/// `typcategory` of a scalar type, and whether it is the preferred type of the category.
fn category(scalar: ScalarType) -> (&'static str, bool) {
    match scalar {
        ScalarType::Bool => ("B", true),
        ScalarType::Float8 => ("N", true),
        ScalarType::Int2 | ScalarType::Int4 | ScalarType::Int8 | ScalarType::Float4 | ScalarType::Numeric { .. } => {
            ("N", false)
        }
        ScalarType::Text => ("S", true),
        ScalarType::Varchar { .. } | ScalarType::Char { .. } => ("S", false),
        ScalarType::Date | ScalarType::Time | ScalarType::Timestamp => ("D", false),
        ScalarType::Timestamptz => ("D", true),
        ScalarType::Interval => ("T", true),
        ScalarType::Bytea | ScalarType::Uuid | ScalarType::Json | ScalarType::Jsonb => ("U", false),
    }
}

/// What stands between a type's name and `in`, `out`, `recv` or `send` in the name of its function.
fn function_joint(scalar: ScalarType) -> &'static str {
    match scalar {
        ScalarType::Date
        | ScalarType::Time
        | ScalarType::Timestamp
        | ScalarType::Timestamptz
        | ScalarType::Interval
        | ScalarType::Numeric { .. }
        | ScalarType::Uuid
        | ScalarType::Json
        | ScalarType::Jsonb => "_",
        _ => "",
    }
}

/// The rows of `pg_type`.
pub(super) fn fill(_: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    for scalar in SCALARS {
        let (category, is_preferred) = category(scalar);
        let name = format!("{}{}", scalar_name(scalar), function_joint(scalar));
        row(
            rows,
            SqlType::Scalar(scalar),
            category,
            is_preferred,
            &name,
            [("typarray", Value::Int8(i64::from(scalar.array_oid()))), ("typsubscript", string("-"))],
        )?;
        row(
            rows,
            SqlType::Array(scalar),
            "A",
            false,
            "array_",
            [("typelem", Value::Int8(i64::from(scalar.oid()))), ("typsubscript", string("array_subscript_handler"))],
        )?;
    }
    // What PostgreSQL's own tables name things with. Columns of ours that are of this type are announced as text.
    rows.push([
        ("oid", Value::Int8(19)),
        ("typname", string("name")),
        ("typlen", Value::Int2(64)),
        ("typbyval", Value::Bool(false)),
        ("typcategory", string("S")),
        ("typispreferred", Value::Bool(false)),
        ("typdelim", string(",")),
        ("typinput", string("namein")),
        ("typoutput", string("nameout")),
        ("typreceive", string("namerecv")),
        ("typsend", string("namesend")),
        ("typalign", string("c")),
        ("typstorage", string("p")),
        ("typcollation", Value::Int8(COLLATION)),
    ])
}

fn row(
    rows: &mut Rows<'_>,
    sql_type: SqlType,
    category: &str,
    is_preferred: bool,
    functions: &str,
    links: [(&'static str, Value); 2],
) -> Result<()> {
    let physical = physical(sql_type);
    let cells = [
        ("oid", Value::Int8(i64::from(sql_type.oid()))),
        ("typname", string(type_name(sql_type))),
        ("typlen", Value::Int2(sql_type.typlen())),
        ("typbyval", Value::Bool(physical.by_value)),
        ("typcategory", string(category)),
        ("typispreferred", Value::Bool(is_preferred)),
        ("typdelim", string(",")),
        ("typinput", string(format!("{functions}in"))),
        ("typoutput", string(format!("{functions}out"))),
        ("typreceive", string(format!("{functions}recv"))),
        ("typsend", string(format!("{functions}send"))),
        ("typalign", string(physical.align)),
        ("typstorage", string(physical.storage)),
        ("typcollation", Value::Int8(physical.collation)),
    ];
    rows.push(cells.into_iter().chain(links))
}
