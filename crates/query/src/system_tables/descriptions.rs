//! `pg_description` and `pg_shdescription`: the comments that COMMENT has set, of tables of all homes.
//!
//! Also read by `obj_description()` and functions like it.

use std::collections::BTreeMap;
use std::sync::Arc;

use ashlar_base::{ColumnId, Result, TableId, Value};

use super::layout::{Rows, string};
use super::pg_catalog::{DATABASE_OID, PUBLIC_OID};
use super::relations::{self, Constraint, ConstraintKind, Relation};
use super::{Definition, FIXED_OIDS, Picture};
use crate::catalog::{CatalogState, Table};
use crate::comments::{Part, Subject};
use crate::sharded::comments::TablePart;

/// The tables.
pub(super) const TABLES: &[Definition] = &[
    Definition {
        name: "pg_description",
        columns: "objoid bigint, classoid bigint, objsubid integer, description text",
        fill: Some(pg_description),
    },
    Definition {
        name: "pg_shdescription",
        columns: "objoid bigint, classoid bigint, description text",
        fill: Some(pg_shdescription),
    },
];

/// The OID of one of PostgreSQL's own tables, by its name.
pub(super) fn class_of(name: &str) -> Option<i64> {
    let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
    FIXED_OIDS.iter().find(|(known, _)| *known == name).map(|(_, oid)| *oid)
}

const CLASS: i64 = 1259;
const CONSTRAINT: i64 = 2606;
const NAMESPACE: i64 = 2615;
const DATABASE: i64 = 1262;

/// A comment, and what it is about as PostgreSQL numbers it.
pub(super) struct Described {
    /// The table that has a row of the object.
    pub(super) class: i64,
    /// The object.
    pub(super) object: i64,
    /// The number of the column; 0: it is not about one.
    pub(super) column: i32,
    /// What is said.
    pub(super) text: Arc<str>,
}

/// What is said of objects of the database.
pub(super) fn all(catalog: &CatalogState, relations: &[Relation]) -> Vec<Described> {
    let by_oid: BTreeMap<i64, &Relation> = relations.iter().map(|relation| (relation.oid, relation)).collect();
    let of_part = |table: i64, part: Part, text: &Arc<str>| {
        let (class, object, column) = place(by_oid.get(&table)?, part)?;
        Some(Described { class, object, column, text: Arc::clone(text) })
    };
    let mut found = Vec::new();
    for (subject, text) in catalog.comments().iter() {
        found.extend(match subject {
            Subject::Database => None,
            Subject::Schema => {
                Some(Described { class: NAMESPACE, object: PUBLIC_OID, column: 0, text: Arc::clone(text) })
            }
            Subject::Of(table, part) => of_part(i64::from(table.0), part, text),
        });
    }
    for (_, table) in catalog.tables() {
        let Table::Sharded(table) = table else { continue };
        let schema = &table.schema;
        for (part, text) in table.comments.iter() {
            let part = match part {
                TablePart::Table => Some(Part::Table),
                TablePart::Column(name) => schema.column(name).map(|ordinal| Part::Column(schema.columns[ordinal].id)),
                TablePart::KeyIndex => Some(Part::KeyIndex),
                TablePart::Key => Some(Part::Key),
            };
            found.extend(part.and_then(|part| of_part(i64::from(schema.id.0), part, text)));
        }
    }
    found
}

/// What is said of the database, by its number and its table's.
pub(super) fn shared(catalog: &CatalogState) -> Option<Described> {
    let text = Arc::clone(catalog.comments().of(Subject::Database)?);
    Some(Described { class: DATABASE, object: DATABASE_OID, column: 0, text })
}

/// Class, object and column of a part; `None`: the table does not have it any more.
fn place(relation: &Relation, part: Part) -> Option<(i64, i64, i32)> {
    let ordinal = |id: ColumnId| relation.columns.iter().position(|column| column.id == id);
    match part {
        Part::Table => Some((CLASS, relation.oid, 0)),
        Part::Column(id) => Some((CLASS, relation.oid, i32::try_from(ordinal(id)? + 1).ok()?)),
        Part::KeyIndex => relation.has_key().then(|| (CLASS, relation.key_oid(), 0)),
        Part::Index(id) => {
            let oid = i64::from(id.0);
            relation.indexes.iter().any(|index| index.oid == oid).then_some((CLASS, oid, 0))
        }
        Part::Key => place_where(relation, |constraint| constraint.kind == ConstraintKind::Primary),
        Part::Unique(id) => {
            let oid = i64::from(id.0);
            place_where(relation, |constraint| {
                matches!(constraint.kind, ConstraintKind::Unique { .. }) && constraint.index == oid
            })
        }
        Part::Check(id) => {
            let oid = i64::from(id.0);
            place_where(relation, |constraint| constraint.kind == ConstraintKind::Check && constraint.oid == oid)
        }
        Part::NotNull(id) => {
            let ordinal = ordinal(id)?;
            place_where(relation, |constraint| {
                constraint.kind == ConstraintKind::NotNull && constraint.columns == [ordinal]
            })
        }
    }
}

/// The same of the constraint that is meant.
fn place_where(relation: &Relation, is_it: impl Fn(&Constraint) -> bool) -> Option<(i64, i64, i32)> {
    let constraint = relation.constraints().into_iter().find(is_it)?;
    Some((CONSTRAINT, constraint.oid, 0))
}

/// The part of a table that is its constraint of a name; `None`: it has none of that name.
pub(crate) fn constraint_named(catalog: &CatalogState, table: &str, name: &str) -> Option<Part> {
    let relations = relations::all(catalog);
    let relation = relations.iter().find(|relation| relation.name == table)?;
    let constraint = relation.constraints().into_iter().find(|constraint| constraint.name == name)?;
    match constraint.kind {
        ConstraintKind::Primary => Some(Part::Key),
        ConstraintKind::Unique { .. } => u32::try_from(constraint.index).ok().map(|index| Part::Unique(TableId(index))),
        ConstraintKind::Check => u32::try_from(constraint.oid).ok().map(|id| Part::Check(TableId(id))),
        ConstraintKind::NotNull => {
            let column = relation.columns.get(*constraint.columns.first()?)?;
            Some(Part::NotNull(column.id))
        }
    }
}

fn pg_description(picture: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    for described in all(&picture.catalog, &picture.relations) {
        rows.push([
            ("objoid", Value::Int8(described.object)),
            ("classoid", Value::Int8(described.class)),
            ("objsubid", Value::Int4(described.column)),
            ("description", string(&*described.text)),
        ])?;
    }
    Ok(())
}

fn pg_shdescription(picture: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    if let Some(described) = shared(&picture.catalog) {
        rows.push([
            ("objoid", Value::Int8(described.object)),
            ("classoid", Value::Int8(described.class)),
            ("description", string(&*described.text)),
        ])?;
    }
    Ok(())
}
