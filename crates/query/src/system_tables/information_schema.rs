//! `information_schema`: the SQL standard's views, with PostgreSQL's columns and words.
//!
//! Describes the tables of `public`; the system tables do not describe themselves.

use ashlar_base::{Result, ScalarType, Sequence, SequenceKind, SqlType, Value};

use super::layout::{Rows, int4, maybe, string, yes_or_no};
use super::pg_catalog::NAMESPACES;
use super::relations::{ConstraintKind, default_text, identity, plain_type};
use super::types::type_name;
use super::{Definition, Picture};

/// Bytes of text that PostgreSQL says a column without a limit can hold.
const OCTETS_MAX: i32 = 1 << 30;
/// Bytes that a character takes at the most.
const OCTETS_PER_CHARACTER: i64 = 4;

/// The tables.
pub(super) const TABLES: &[Definition] = &[
    Definition {
        name: "schemata",
        columns: "catalog_name text = @database, schema_name text, schema_owner text = @user, \
            default_character_set_catalog text, default_character_set_schema text, default_character_set_name text, \
            sql_path text",
        fill: Some(schemata),
    },
    Definition {
        name: "tables",
        columns: "table_catalog text = @database, table_schema text = public, table_name text, table_type text, \
            self_referencing_column_name text, reference_generation text, user_defined_type_catalog text, \
            user_defined_type_schema text, user_defined_type_name text, is_insertable_into text, \
            is_typed text = NO, commit_action text",
        fill: Some(tables),
    },
    Definition {
        name: "columns",
        columns: "table_catalog text = @database, table_schema text = public, table_name text, column_name text, \
            ordinal_position integer, column_default text, is_nullable text, data_type text, \
            character_maximum_length integer, character_octet_length integer, numeric_precision integer, \
            numeric_precision_radix integer, numeric_scale integer, datetime_precision integer, \
            interval_type text, interval_precision integer, character_set_catalog text, character_set_schema text, \
            character_set_name text, collation_catalog text, collation_schema text, collation_name text, \
            domain_catalog text, domain_schema text, domain_name text, udt_catalog text = @database, \
            udt_schema text = pg_catalog, udt_name text, scope_catalog text, scope_schema text, scope_name text, \
            maximum_cardinality integer, dtd_identifier text, is_self_referencing text = NO, is_identity text, \
            identity_generation text, identity_start text, identity_increment text, identity_maximum text, \
            identity_minimum text, identity_cycle text = NO, is_generated text = NEVER, \
            generation_expression text, is_updatable text",
        fill: Some(columns),
    },
    Definition {
        name: "table_constraints",
        columns: "constraint_catalog text = @database, constraint_schema text = public, constraint_name text, \
            table_catalog text = @database, table_schema text = public, table_name text, constraint_type text, \
            is_deferrable text = NO, initially_deferred text = NO, enforced text = YES, nulls_distinct text",
        fill: Some(table_constraints),
    },
    Definition {
        name: "check_constraints",
        columns: "constraint_catalog text = @database, constraint_schema text = public, constraint_name text, \
            check_clause text",
        fill: Some(check_constraints),
    },
    Definition {
        name: "key_column_usage",
        columns: "constraint_catalog text = @database, constraint_schema text = public, constraint_name text, \
            table_catalog text = @database, table_schema text = public, table_name text, column_name text, \
            ordinal_position integer, position_in_unique_constraint integer",
        fill: Some(key_column_usage),
    },
    Definition {
        name: "constraint_column_usage",
        columns: "table_catalog text = @database, table_schema text = public, table_name text, column_name text, \
            constraint_catalog text = @database, constraint_schema text = public, constraint_name text",
        fill: Some(constraint_column_usage),
    },
    Definition {
        name: "constraint_table_usage",
        columns: "table_catalog text = @database, table_schema text = public, table_name text, \
            constraint_catalog text = @database, constraint_schema text = public, constraint_name text",
        fill: Some(constraint_table_usage),
    },
    Definition { name: "information_schema_catalog_name", columns: "catalog_name text", fill: Some(catalog_name) },
    // There are no foreign keys, views and triggers.
    Definition {
        name: "referential_constraints",
        columns: "constraint_catalog text, constraint_schema text, constraint_name text, \
            unique_constraint_catalog text, unique_constraint_schema text, unique_constraint_name text, \
            match_option text, update_rule text, delete_rule text",
        fill: None,
    },
    Definition {
        name: "views",
        columns: "table_catalog text, table_schema text, table_name text, view_definition text, check_option text, \
            is_updatable text, is_insertable_into text, is_trigger_updatable text, is_trigger_deletable text, \
            is_trigger_insertable_into text",
        fill: None,
    },
    Definition {
        name: "triggers",
        columns: "trigger_catalog text, trigger_schema text, trigger_name text, event_manipulation text, \
            event_object_catalog text, event_object_schema text, event_object_table text, action_order integer, \
            action_condition text, action_statement text, action_orientation text, action_timing text, \
            action_reference_old_table text, action_reference_new_table text, action_reference_old_row text, \
            action_reference_new_row text, created timestamp with time zone",
        fill: None,
    },
];

fn catalog_name(picture: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    rows.push([("catalog_name", string(&picture.catalog.identity().database))])
}

fn schemata(_: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    for (_, name) in NAMESPACES {
        rows.push([("schema_name", string(name))])?;
    }
    Ok(())
}

fn tables(picture: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    for relation in &picture.relations {
        rows.push([
            ("table_name", string(&relation.name)),
            ("table_type", string(if relation.is_foreign { "FOREIGN" } else { "BASE TABLE" })),
            ("is_insertable_into", yes_or_no(!relation.is_foreign)),
        ])?;
    }
    Ok(())
}

fn columns(picture: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    for relation in &picture.relations {
        for (ordinal, column) in relation.columns.iter().enumerate() {
            let sql_type = column.sql_type;
            let numeric = Numeric::of(sql_type);
            let identity = identity(column);
            let when_identity = |text: fn(&Sequence) -> String| maybe(identity.map(text));
            let data_type = if sql_type.is_array() { "ARRAY".to_owned() } else { plain_type(sql_type) };
            let (length, octets) = character_lengths(sql_type);
            rows.push([
                ("table_name", string(&relation.name)),
                ("column_name", string(&column.name)),
                ("ordinal_position", int4(ordinal + 1)),
                ("column_default", maybe(default_text(column))),
                ("is_nullable", yes_or_no(column.nullable)),
                ("data_type", string(data_type)),
                ("character_maximum_length", length),
                ("character_octet_length", octets),
                ("numeric_precision", numeric.precision),
                ("numeric_precision_radix", numeric.radix),
                ("numeric_scale", numeric.scale),
                ("datetime_precision", datetime_precision(sql_type)),
                ("udt_name", string(type_name(sql_type))),
                ("dtd_identifier", string((ordinal + 1).to_string())),
                ("is_identity", yes_or_no(identity.is_some())),
                (
                    "identity_generation",
                    when_identity(|of| {
                        if of.kind == SequenceKind::Always { "ALWAYS" } else { "BY DEFAULT" }.to_owned()
                    }),
                ),
                ("identity_start", when_identity(|of| of.start.to_string())),
                ("identity_increment", when_identity(|of| of.increment.to_string())),
                ("identity_maximum", when_identity(|of| of.max.to_string())),
                ("identity_minimum", when_identity(|of| of.min.to_string())),
                ("is_updatable", yes_or_no(!relation.is_foreign)),
            ])?;
        }
    }
    Ok(())
}

fn table_constraints(picture: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    for relation in &picture.relations {
        for constraint in relation.constraints() {
            rows.push([
                ("constraint_name", string(constraint.name)),
                ("table_name", string(&relation.name)),
                (
                    "constraint_type",
                    string(match constraint.kind {
                        ConstraintKind::Primary => "PRIMARY KEY",
                        ConstraintKind::Unique { .. } => "UNIQUE",
                        ConstraintKind::Check | ConstraintKind::NotNull => "CHECK",
                    }),
                ),
                (
                    "nulls_distinct",
                    match constraint.kind {
                        ConstraintKind::Unique { nulls_distinct } => yes_or_no(nulls_distinct),
                        ConstraintKind::Primary | ConstraintKind::Check | ConstraintKind::NotNull => Value::Null,
                    },
                ),
            ])?;
        }
    }
    Ok(())
}

/// Conditions as `pg_get_constraintdef()` has them behind the word CHECK, and of NOT NULL those that it stands for.
fn check_constraints(picture: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    for relation in &picture.relations {
        for constraint in relation.constraints() {
            let clause = match (&constraint.kind, &constraint.condition, &constraint.columns[..]) {
                (ConstraintKind::Check, Some([text, _]), _) => format!("({text})"),
                (ConstraintKind::NotNull, _, [ordinal]) => format!("{} IS NOT NULL", relation.columns[*ordinal].name),
                _ => continue,
            };
            rows.push([("constraint_name", string(constraint.name)), ("check_clause", string(clause))])?;
        }
    }
    Ok(())
}

/// Whether a constraint says that values are unique.
fn has_key(kind: ConstraintKind) -> bool {
    matches!(kind, ConstraintKind::Primary | ConstraintKind::Unique { .. })
}

fn key_column_usage(picture: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    for relation in &picture.relations {
        let constraints = relation.constraints();
        for constraint in constraints.iter().filter(|one| has_key(one.kind)) {
            for (position, ordinal) in constraint.columns.iter().enumerate() {
                rows.push([
                    ("constraint_name", string(&constraint.name)),
                    ("table_name", string(&relation.name)),
                    ("column_name", string(&relation.columns[*ordinal].name)),
                    ("ordinal_position", int4(position + 1)),
                ])?;
            }
        }
    }
    Ok(())
}

/// As in PostgreSQL, what must not be NULL is none of the constraints here.
fn constraint_column_usage(picture: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    for relation in &picture.relations {
        let constraints = relation.constraints();
        for constraint in constraints.iter().filter(|one| one.kind != ConstraintKind::NotNull) {
            for ordinal in &constraint.columns {
                rows.push([
                    ("table_name", string(&relation.name)),
                    ("column_name", string(&relation.columns[*ordinal].name)),
                    ("constraint_name", string(&constraint.name)),
                ])?;
            }
        }
    }
    Ok(())
}

fn constraint_table_usage(picture: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    for relation in &picture.relations {
        let constraints = relation.constraints();
        for constraint in constraints.iter().filter(|one| has_key(one.kind)) {
            rows.push([("table_name", string(&relation.name)), ("constraint_name", string(&constraint.name))])?;
        }
    }
    Ok(())
}

/// What the views say about the digits of a type.
struct Numeric {
    precision: Value,
    radix: Value,
    scale: Value,
}

impl Numeric {
    fn of(sql_type: SqlType) -> Self {
        let known = |precision: i32, radix: i32, scale: Value| Self {
            precision: Value::Int4(precision),
            radix: Value::Int4(radix),
            scale,
        };
        match sql_type {
            SqlType::Scalar(ScalarType::Int2) => known(16, 2, Value::Int4(0)),
            SqlType::Scalar(ScalarType::Int4) => known(32, 2, Value::Int4(0)),
            SqlType::Scalar(ScalarType::Int8) => known(64, 2, Value::Int4(0)),
            SqlType::Scalar(ScalarType::Float4) => known(24, 2, Value::Null),
            SqlType::Scalar(ScalarType::Float8) => known(53, 2, Value::Null),
            SqlType::Scalar(ScalarType::Numeric { precision, scale }) => {
                known(i32::from(precision), 10, Value::Int4(i32::from(scale)))
            }
            _ => Self { precision: Value::Null, radix: Value::Null, scale: Value::Null },
        }
    }
}

/// Characters and bytes at the most.
fn character_lengths(sql_type: SqlType) -> (Value, Value) {
    match sql_type {
        SqlType::Scalar(ScalarType::Text | ScalarType::Varchar { length: None }) => {
            (Value::Null, Value::Int4(OCTETS_MAX))
        }
        SqlType::Scalar(ScalarType::Varchar { length: Some(length) } | ScalarType::Char { length: Some(length) }) => {
            let octets = i32::try_from(i64::from(length) * OCTETS_PER_CHARACTER).unwrap_or(OCTETS_MAX);
            (Value::Int4(i32::try_from(length).unwrap_or(i32::MAX)), Value::Int4(octets))
        }
        _ => (Value::Null, Value::Null),
    }
}

fn datetime_precision(sql_type: SqlType) -> Value {
    match sql_type {
        SqlType::Scalar(ScalarType::Date) => Value::Int4(0),
        SqlType::Scalar(ScalarType::Time | ScalarType::Timestamp | ScalarType::Timestamptz | ScalarType::Interval) => {
            Value::Int4(6)
        }
        _ => Value::Null,
    }
}
