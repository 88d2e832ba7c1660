//! `pg_catalog`: PostgreSQL's own tables, as far as clients read them.
//!
//! OIDs are bigint and "char" columns are text. Describes the tables of `public`; the system tables do not describe
//! themselves.

use ashlar_base::{IndexKind, Result, SqlType, Value};

use super::layout::{Rows, int2, int2_array, maybe, string};
use super::relations::{ConstraintKind, IndexKey, PUBLIC, Relation, default_text, identity, indexes};
use super::{Definition, Picture, types};
use crate::catalog::Table;

/// OIDs of what PostgreSQL makes at its birth; the last two schemas have theirs from us.
const PG_CATALOG_OID: i64 = 11;
pub(super) const PUBLIC_OID: i64 = 2200;
const INFORMATION_SCHEMA_OID: i64 = 13_000;
const ASHLAR_OID: i64 = 13_001;
pub(super) const DATABASE_OID: i64 = 5;
pub(super) const OWNER_OID: i64 = 10;
const GRID_OID: i64 = 2;
const BTREE_OID: i64 = 403;
const HASH_OID: i64 = 405;
const FILES_OID: i64 = 13_010;
const FILES_WRAPPER_OID: i64 = 13_011;

/// The schemas.
pub(super) const NAMESPACES: [(i64, &str); 4] = [
    (PG_CATALOG_OID, "pg_catalog"),
    (PUBLIC_OID, PUBLIC),
    (INFORMATION_SCHEMA_OID, "information_schema"),
    (ASHLAR_OID, "ashlar"),
];
/// The OID of the collation `default`, the only one.
pub(super) const COLLATION: i64 = 100;
/// PostgreSQL's number of UTF-8.
const UTF8: i32 = 6;

/// The tables with rows; those without are in `empty`.
pub(super) const TABLES: &[Definition] = &[
    Definition {
        name: "pg_namespace",
        columns: "oid bigint, nspname text, nspowner bigint = 10, nspacl text[]",
        fill: Some(pg_namespace),
    },
    Definition {
        name: "pg_class",
        columns: "oid bigint, relname text, relnamespace bigint = 2200, reltype bigint = 0, reloftype bigint = 0, \
            relowner bigint = 10, relam bigint, relfilenode bigint = 0, reltablespace bigint = 0, \
            relpages integer = 0, reltuples real, relallvisible integer = 0, reltoastrelid bigint = 0, \
            relhasindex boolean, relisshared boolean = false, relpersistence text = p, relkind text, \
            relnatts smallint, relchecks smallint, relhasrules boolean = false, \
            relhastriggers boolean = false, relhassubclass boolean = false, relrowsecurity boolean = false, \
            relforcerowsecurity boolean = false, relispopulated boolean = true, relreplident text, \
            relispartition boolean = false, relrewrite bigint = 0, relfrozenxid bigint = 0, relminmxid bigint = 0, \
            relacl text[], reloptions text[], relpartbound text",
        fill: Some(pg_class),
    },
    Definition {
        name: "pg_attribute",
        columns: "attrelid bigint, attname text, atttypid bigint, attstattarget integer = -1, attlen smallint, \
            attnum smallint, attndims integer, attcacheoff integer = -1, atttypmod integer, attbyval boolean, \
            attalign text, attstorage text, attcompression text, attnotnull boolean, atthasdef boolean, \
            atthasmissing boolean = false, attidentity text, attgenerated text, attisdropped boolean = false, \
            attislocal boolean = true, attinhcount integer = 0, attcollation bigint, attacl text[], \
            attoptions text[], attfdwoptions text[], attmissingval text",
        fill: Some(pg_attribute),
    },
    Definition {
        name: "pg_attrdef",
        columns: "oid bigint, adrelid bigint, adnum smallint, adbin text",
        fill: Some(pg_attrdef),
    },
    super::column_sequences::TABLE,
    Definition { name: "pg_type", columns: types::COLUMNS, fill: Some(types::fill) },
    Definition {
        name: "pg_index",
        columns: "indexrelid bigint, indrelid bigint, indnatts smallint, indnkeyatts smallint, \
            indisunique boolean, indnullsnotdistinct boolean = false, indisprimary boolean, \
            indisexclusion boolean = false, indimmediate boolean = true, indisclustered boolean = false, \
            indisvalid boolean = true, indcheckxmin boolean = false, indisready boolean = true, \
            indislive boolean = true, indisreplident boolean = false, indkey int2vector, indcollation oidvector, \
            indclass oidvector, indoption int2vector, indexprs text, indpred text",
        fill: Some(pg_index),
    },
    Definition {
        name: "pg_constraint",
        columns: "oid bigint, conname text, connamespace bigint = 2200, contype text, \
            condeferrable boolean = false, condeferred boolean = false, convalidated boolean = true, \
            conrelid bigint, contypid bigint = 0, conindid bigint, conparentid bigint = 0, confrelid bigint = 0, \
            confupdtype text, confdeltype text, confmatchtype text, conislocal boolean = true, \
            coninhcount integer = 0, connoinherit boolean, conkey smallint[], confkey smallint[], \
            conpfeqop bigint[], conppeqop bigint[], conffeqop bigint[], confdelsetcols smallint[], \
            conexclop bigint[], conbin text",
        fill: Some(pg_constraint),
    },
    Definition {
        name: "pg_tablespace",
        columns: "oid bigint, spcname text, spcowner bigint = 10, spcacl text[], spcoptions text[]",
        fill: Some(pg_tablespace),
    },
    Definition {
        name: "pg_foreign_data_wrapper",
        columns: "oid bigint, fdwname text, fdwowner bigint = 10, fdwhandler bigint = 0, fdwvalidator bigint = 0, \
            fdwacl text[], fdwoptions text[]",
        fill: Some(pg_foreign_data_wrapper),
    },
    Definition {
        name: "pg_foreign_server",
        columns: "oid bigint, srvname text, srvowner bigint = 10, srvfdw bigint, srvtype text, srvversion text, \
            srvacl text[], srvoptions text[]",
        fill: Some(pg_foreign_server),
    },
    Definition {
        name: "pg_foreign_table",
        columns: "ftrelid bigint, ftserver bigint, ftoptions text[]",
        fill: Some(pg_foreign_table),
    },
    Definition {
        name: "pg_cursors",
        columns: "name text, statement text, is_holdable boolean, is_binary boolean = false, \
            is_scrollable boolean = false, creation_time timestamp with time zone",
        fill: Some(pg_cursors),
    },
    Definition {
        name: "pg_settings",
        columns: "name text, setting text, unit text, category text, short_desc text, \
            extra_desc text, context text, vartype text, source text, min_val text, max_val text, \
            enumvals text[], boot_val text, reset_val text, sourcefile text, sourceline integer, \
            pending_restart boolean = false",
        fill: Some(pg_settings),
    },
    Definition { name: "pg_am", columns: "oid bigint, amname text, amhandler text, amtype text", fill: Some(pg_am) },
    Definition {
        name: "pg_collation",
        columns: "oid bigint, collname text, collnamespace bigint = 11, collowner bigint = 10, collprovider text, \
            collisdeterministic boolean = true, collencoding integer = -1, collcollate text, collctype text, \
            colliculocale text, collversion text",
        fill: Some(pg_collation),
    },
    Definition {
        name: "pg_database",
        columns: "oid bigint, datname text = @database, datdba bigint = 10, encoding integer, datlocprovider text = c, \
            datistemplate boolean = false, datallowconn boolean = true, datconnlimit integer = -1, \
            datfrozenxid bigint = 0, datminmxid bigint = 0, dattablespace bigint = 1663, datcollate text = C, \
            datctype text = C.UTF-8, daticulocale text, datlocale text, datcollversion text, datacl text[]",
        fill: Some(pg_database),
    },
    Definition {
        name: "pg_roles",
        columns: "rolname text = @user, rolsuper boolean = true, rolinherit boolean = true, rolcreaterole boolean = true, \
            rolcreatedb boolean = true, rolcanlogin boolean = true, rolreplication boolean = true, \
            rolconnlimit integer = -1, rolpassword text, rolvaliduntil timestamp with time zone, \
            rolbypassrls boolean = true, rolconfig text[], oid bigint",
        fill: Some(pg_roles),
    },
    Definition {
        name: "pg_user",
        columns: "usename text = @user, usesysid bigint, usecreatedb boolean = true, usesuper boolean = true, \
            userepl boolean = true, usebypassrls boolean = true, passwd text, valuntil timestamp with time zone, \
            useconfig text[]",
        fill: Some(pg_user),
    },
    Definition {
        name: "pg_tables",
        columns: "schemaname text = public, tablename text, tableowner text = @user, tablespace text, \
            hasindexes boolean, hasrules boolean = false, hastriggers boolean = false, rowsecurity boolean = false",
        fill: Some(pg_tables),
    },
    Definition {
        name: "pg_stats",
        columns: "schemaname text = public, tablename text, attname text, inherited boolean = false, null_frac real, \
            avg_width integer, n_distinct real, most_common_vals text, most_common_freqs real[], \
            histogram_bounds text, correlation real, most_common_elems text, most_common_elem_freqs real[], \
            elem_count_histogram real[], range_length_histogram text, range_empty_frac real, \
            range_bounds_histogram text",
        fill: Some(super::statistics::fill),
    },
    Definition {
        name: "pg_indexes",
        columns: "schemaname text = public, tablename text, indexname text, tablespace text, indexdef text",
        fill: Some(pg_indexes),
    },
];

fn pg_namespace(_: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    for (oid, name) in NAMESPACES {
        rows.push([("oid", Value::Int8(oid)), ("nspname", string(name))])?;
    }
    Ok(())
}

fn pg_class(picture: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    for relation in &picture.relations {
        rows.push([
            ("oid", Value::Int8(relation.oid)),
            ("relname", string(&relation.name)),
            ("relam", Value::Int8(if relation.is_foreign { 0 } else { GRID_OID })),
            ("reltuples", tuples(relation)),
            ("relhasindex", Value::Bool(!relation.indexes.is_empty())),
            ("relkind", string(if relation.is_foreign { "f" } else { "r" })),
            ("relnatts", int2(relation.columns.len())),
            ("relchecks", int2(relation.checks.len())),
            ("relreplident", string(if relation.is_foreign { "n" } else { "d" })),
            ("reloptions", text_array(&relation.options)),
        ])?;
    }
    for (relation, index) in indexes(&picture.relations) {
        rows.push([
            ("oid", Value::Int8(index.oid)),
            ("relname", string(&index.name)),
            (
                "relam",
                Value::Int8(match index.kind {
                    IndexKind::Btree => BTREE_OID,
                    IndexKind::Hash => HASH_OID,
                }),
            ),
            ("reltuples", tuples(relation)),
            ("relhasindex", Value::Bool(false)),
            ("relkind", string("i")),
            ("relnatts", int2(index.columns().count())),
            ("relchecks", int2(0)),
            ("relreplident", string("n")),
            ("reloptions", text_array(&index.options)),
        ])?;
    }
    Ok(())
}

/// A text[] cell, NULL where there is nothing.
fn text_array(texts: &[String]) -> Value {
    if texts.is_empty() { Value::Null } else { Value::Array(texts.iter().map(string).collect()) }
}

/// Rows, -1 where nobody counted them.
#[expect(clippy::cast_precision_loss, reason = "PostgreSQL's reltuples is a real, and an estimate")]
fn tuples(relation: &Relation) -> Value {
    Value::Float4(relation.rows.map_or(-1.0, |rows| rows as f32))
}

fn pg_attribute(picture: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    for relation in &picture.relations {
        for (ordinal, column) in relation.columns.iter().enumerate() {
            attribute(
                rows,
                relation.oid,
                ordinal + 1,
                &column.name,
                column.sql_type,
                [
                    ("attnotnull", Value::Bool(!column.nullable)),
                    ("atthasdef", Value::Bool(default_text(column).is_some())),
                    (
                        "attidentity",
                        string(match identity(column) {
                            None => "",
                            Some(_) if column.is_always_generated() => "a",
                            Some(_) => "d",
                        }),
                    ),
                ],
            )?;
        }
    }
    for (_, index) in indexes(&picture.relations) {
        for (position, key) in index.columns().enumerate() {
            // A hash index holds hashes.
            let sql_type = match index.kind {
                IndexKind::Btree => key.sql_type,
                IndexKind::Hash => ashlar_base::ScalarType::Int4.into(),
            };
            attribute(
                rows,
                index.oid,
                position + 1,
                &key.name,
                sql_type,
                [("attnotnull", Value::Bool(false)), ("atthasdef", Value::Bool(false)), ("attidentity", string(""))],
            )?;
        }
    }
    Ok(())
}

fn attribute(
    rows: &mut Rows<'_>,
    relation: i64,
    number: usize,
    name: &str,
    sql_type: SqlType,
    cells: [(&'static str, Value); 3],
) -> Result<()> {
    let physical = types::physical(sql_type);
    let common = [
        ("attrelid", Value::Int8(relation)),
        ("attname", string(name)),
        ("atttypid", Value::Int8(i64::from(sql_type.oid()))),
        ("attlen", Value::Int2(sql_type.typlen())),
        ("attnum", int2(number)),
        ("attndims", Value::Int4(i32::from(sql_type.is_array()))),
        ("atttypmod", Value::Int4(sql_type.typmod())),
        ("attbyval", Value::Bool(physical.by_value)),
        ("attalign", string(physical.align)),
        ("attstorage", string(physical.storage)),
        ("attcompression", string("")),
        ("attgenerated", string("")),
        ("attcollation", Value::Int8(physical.collation)),
    ];
    rows.push(common.into_iter().chain(cells))
}

/// `adbin` is the expression's text: `pg_get_expr` gives it back as it is.
fn pg_attrdef(picture: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    for relation in &picture.relations {
        for (ordinal, column) in relation.columns.iter().enumerate() {
            if let Some(text) = default_text(column) {
                rows.push([
                    ("oid", Value::Int8(relation.default_oid(ordinal))),
                    ("adrelid", Value::Int8(relation.oid)),
                    ("adnum", int2(ordinal + 1)),
                    ("adbin", string(text)),
                ])?;
            }
        }
    }
    Ok(())
}

fn pg_index(picture: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    for (relation, index) in indexes(&picture.relations) {
        let collation = |key: &IndexKey| Value::Int8(types::physical(key.sql_type).collation);
        let option = |key: &IndexKey| usize::from(key.order.descending) + 2 * usize::from(key.order.nulls_first);
        let expressions: Vec<&str> =
            index.keys.iter().filter(|key| key.column.is_none()).map(|key| key.text[0].as_str()).collect();
        rows.push([
            ("indexrelid", Value::Int8(index.oid)),
            ("indrelid", Value::Int8(relation.oid)),
            ("indnatts", int2(index.columns().count())),
            ("indnkeyatts", int2(index.keys.len())),
            ("indisunique", Value::Bool(index.unique.is_some())),
            ("indnullsnotdistinct", Value::Bool(index.unique.is_some_and(|unique| !unique.nulls_distinct))),
            ("indisprimary", Value::Bool(index.is_primary)),
            ("indisvalid", Value::Bool(index.is_valid)),
            ("indkey", int2_array(index.columns().map(|key| key.column.map_or(0, |ordinal| ordinal + 1)))),
            ("indcollation", Value::Array(index.keys.iter().map(collation).collect())),
            ("indoption", int2_array(index.keys.iter().map(option))),
            ("indexprs", maybe((!expressions.is_empty()).then(|| expressions.join(", ")))),
            // As `pg_get_expr` is mostly asked to print it.
            ("indpred", maybe(index.predicate.as_ref().map(|predicate| predicate[1].clone()))),
        ])?;
    }
    Ok(())
}

fn pg_constraint(picture: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    for relation in &picture.relations {
        for constraint in relation.constraints() {
            let kind = match constraint.kind {
                ConstraintKind::Primary => "p",
                ConstraintKind::Unique { .. } => "u",
                ConstraintKind::Check => "c",
                ConstraintKind::NotNull => "n",
            };
            let columns = int2_array(constraint.columns.iter().map(|ordinal| ordinal + 1));
            rows.push([
                ("oid", Value::Int8(constraint.oid)),
                ("conname", string(constraint.name)),
                ("contype", string(kind)),
                ("conrelid", Value::Int8(relation.oid)),
                ("conindid", Value::Int8(constraint.index)),
                ("confupdtype", string(" ")),
                ("confdeltype", string(" ")),
                ("confmatchtype", string(" ")),
                (
                    "connoinherit",
                    Value::Bool(!matches!(constraint.kind, ConstraintKind::Check | ConstraintKind::NotNull)),
                ),
                ("conkey", if constraint.columns.is_empty() { Value::Null } else { columns }),
                ("conbin", maybe(constraint.condition.map(|[text, _]| text))),
            ])?;
        }
    }
    Ok(())
}

fn pg_am(_: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    for (oid, name, kind) in [(GRID_OID, "grid", "t"), (BTREE_OID, "btree", "i"), (HASH_OID, "hash", "i")] {
        rows.push([
            ("oid", Value::Int8(oid)),
            ("amname", string(name)),
            ("amhandler", string("-")),
            ("amtype", string(kind)),
        ])?;
    }
    Ok(())
}

/// The session's cursors. When they were made is not noted.
fn pg_cursors(picture: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    for cursor in &picture.catalog.identity().cursors {
        rows.push([
            ("name", string(&cursor.name)),
            ("statement", string(&*cursor.statement)),
            ("is_holdable", Value::Bool(cursor.is_holdable)),
        ])?;
    }
    Ok(())
}

/// What SHOW ALL tells the session.
fn pg_settings(picture: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    for setting in picture.catalog.identity().settings.iter() {
        let is_fixed = setting.is_fixed;
        let is_changed = setting.value != setting.reset;
        rows.push([
            ("name", string(setting.name)),
            ("setting", string(&setting.value)),
            ("unit", setting.unit.map_or(Value::Null, string)),
            ("category", string(if is_fixed { "Preset Options" } else { "Client Connection Defaults" })),
            ("short_desc", string(setting.about)),
            ("context", string(if is_fixed { "internal" } else { "user" })),
            ("vartype", string(setting.kind)),
            ("source", string(if is_changed { "session" } else { "default" })),
            ("boot_val", string(&setting.reset)),
            ("reset_val", string(&setting.reset)),
        ])?;
    }
    Ok(())
}

fn pg_tablespace(_: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    for (oid, name) in [(1663, "pg_default"), (1664, "pg_global")] {
        rows.push([("oid", Value::Int8(oid)), ("spcname", string(name))])?;
    }
    Ok(())
}

fn pg_foreign_data_wrapper(_: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    rows.push([("oid", Value::Int8(FILES_WRAPPER_OID)), ("fdwname", string("files"))])
}

fn pg_foreign_server(_: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    rows.push([
        ("oid", Value::Int8(FILES_OID)),
        ("srvname", string("files")),
        ("srvfdw", Value::Int8(FILES_WRAPPER_OID)),
    ])
}

fn pg_foreign_table(picture: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    for (_, table) in picture.catalog.tables() {
        if let Table::File(file) = table {
            let options = [format!("path={}", file.path), "format=parquet".to_owned()];
            rows.push([
                ("ftrelid", Value::Int8(i64::from(file.id.0))),
                ("ftserver", Value::Int8(FILES_OID)),
                ("ftoptions", Value::Array(options.into_iter().map(string).collect())),
            ])?;
        }
    }
    Ok(())
}

fn pg_collation(_: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    rows.push([("oid", Value::Int8(COLLATION)), ("collname", string("default")), ("collprovider", string("d"))])
}

fn pg_database(_: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    rows.push([("oid", Value::Int8(DATABASE_OID)), ("encoding", Value::Int4(UTF8))])
}

fn pg_roles(_: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    rows.push([("oid", Value::Int8(OWNER_OID)), ("rolpassword", string("********"))])
}

fn pg_user(_: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    rows.push([("usesysid", Value::Int8(OWNER_OID)), ("passwd", string("********"))])
}

fn pg_indexes(picture: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    for (relation, index) in indexes(&picture.relations) {
        rows.push([
            ("tablename", string(&relation.name)),
            ("indexname", string(&index.name)),
            ("indexdef", string(super::bound::index_text(relation, index, false))),
        ])?;
    }
    Ok(())
}

/// Foreign tables are none of `pg_tables`.
fn pg_tables(picture: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    for relation in picture.relations.iter().filter(|relation| !relation.is_foreign) {
        rows.push([("tablename", string(&relation.name)), ("hasindexes", Value::Bool(!relation.indexes.is_empty()))])?;
    }
    Ok(())
}
