//! UNIQUE constraints: of CREATE TABLE, and those that ALTER TABLE adds, drops and renames.
//!
//! A constraint is an index of its name, made like any other.

use std::sync::Arc;

use ashlar_base::{Error, ErrorCode, IndexDef, IndexKind, Result, ScalarType, TableSchema, Unique};
use ashlar_store::Region;
use pg_query::protobuf::Constraint;

use super::exists;
use super::index::{check_committed, free_name, is_taken, make};
use crate::catalog::CatalogState;
use crate::engine::Engine;
use crate::index_rows::IndexExpressions;
use crate::sql_types;
use crate::transaction::Transaction;

/// A UNIQUE constraint as it was stated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stated {
    /// Empty where it was not named.
    pub(super) name: String,
    pub(super) columns: Vec<String>,
    pub(super) nulls_distinct: bool,
}

/// Reads a constraint; `column` is the one that it stands beside.
///
/// # Errors
/// 0A000 for forms that are not offered.
pub(super) fn stated(constraint: &Constraint, column: Option<&str>) -> Result<Stated> {
    if constraint.deferrable || constraint.initdeferred {
        return Err(Error::unsupported("deferrable constraints are not supported"));
    }
    if !constraint.indexname.is_empty() {
        return Err(Error::unsupported("a constraint of an index that there is is not supported")
            .with_hint("Leave USING INDEX out: the constraint makes an index of its own."));
    }
    if !constraint.including.is_empty() || !constraint.options.is_empty() || !constraint.indexspace.is_empty() {
        return Err(Error::unsupported("UNIQUE ... INCLUDE, WITH and TABLESPACE are not supported"));
    }
    let named = constraint.keys.iter().filter_map(sql_types::string_of);
    let columns = column.into_iter().chain(named).map(str::to_owned).collect();
    Ok(Stated { name: constraint.conname.clone(), columns, nulls_distinct: !constraint.nulls_not_distinct })
}

/// The indexes of a new table's constraints. Those that say the same are one, also with the primary key.
///
/// # Errors
/// 42703 and 42701 for columns, 42P07 for a name that is taken.
pub(super) fn of_table(
    engine: &Engine,
    state: &CatalogState,
    schema: &TableSchema,
    stated: Vec<Stated>,
    transaction: &Transaction,
) -> Result<Vec<IndexDef>> {
    let mut wanted: Vec<Stated> = Vec::new();
    for one in stated {
        let columns = columns(schema, &one)?;
        // NULLs are no matter of a key's columns.
        if !schema.hidden_key && columns.iter().map(|(ordinal, _)| *ordinal).eq(schema.key.iter().copied()) {
            continue;
        }
        let is_same = |known: &&mut Stated| known.columns == one.columns && known.nulls_distinct == one.nulls_distinct;
        match wanted.iter_mut().find(is_same) {
            Some(known) if known.name.is_empty() => known.name = one.name,
            Some(_) => {}
            None => wanted.push(one),
        }
    }
    let mut made: Vec<IndexDef> = Vec::new();
    for one in wanted {
        let is_taken = |name: &str| {
            name == schema.name
                || name == schema.key_name
                || made.iter().any(|known| known.name == name)
                || is_taken(state, transaction, name)
        };
        let name = match one.name.as_str() {
            "" => free_name(&schema.name, &one.columns, "key", is_taken),
            given if is_taken(given) => return Err(exists(given)),
            given => given.to_owned(),
        };
        made.push(definition(engine, schema, &one, name)?);
    }
    Ok(made)
}

fn columns(schema: &TableSchema, stated: &Stated) -> Result<Vec<(usize, ashlar_base::ColumnId)>> {
    let mut found: Vec<(usize, ashlar_base::ColumnId)> = Vec::new();
    for name in &stated.columns {
        let ordinal = schema.column(name).ok_or_else(|| {
            Error::new(ErrorCode::UndefinedColumn, format!("column \"{name}\" named in key does not exist"))
        })?;
        if found.iter().any(|(known, _)| *known == ordinal) {
            let message = format!("column \"{name}\" appears twice in unique constraint");
            return Err(Error::new(ErrorCode::DuplicateColumn, message));
        }
        found.push((ordinal, schema.columns[ordinal].id));
    }
    Ok(found)
}

fn definition(engine: &Engine, schema: &TableSchema, stated: &Stated, name: String) -> Result<IndexDef> {
    let columns = columns(schema, stated)?;
    for (ordinal, _) in &columns {
        let column = &schema.columns[*ordinal];
        if !column.sql_type.can_be_indexed() {
            let message = format!("a UNIQUE constraint on a column of type {} is not supported", column.sql_type);
            return Err(Error::unsupported(message).with_table(&schema.name).with_column(&column.name));
        }
    }
    let unique = Some(Unique { nulls_distinct: stated.nulls_distinct, is_constraint: true });
    let is_document = |ordinal: usize| schema.columns[ordinal].sql_type.scalar() == ScalarType::Jsonb;
    let documents = columns.iter().filter(|(ordinal, _)| is_document(*ordinal)).map(|(_, id)| *id).collect();
    let rows = IndexExpressions::plan(engine, schema, Vec::new(), documents, None)?;
    let columns = columns.into_iter().map(|(_, id)| id).collect();
    let id = engine.catalog().next_id();
    Ok(IndexDef { unique, rows, ..IndexDef::plain(id, name, IndexKind::Btree, columns) })
}

/// ALTER TABLE ... ADD UNIQUE
///
/// # Errors
/// As CREATE UNIQUE INDEX.
pub(super) async fn add(
    engine: &Engine,
    transaction: &mut Transaction,
    region: &Arc<Region>,
    stated: Stated,
) -> Result<()> {
    let state = transaction.catalog(engine.catalog());
    let schema = region.schema();
    let is_known = |name: &str| is_taken(&state, transaction, name);
    let name = match stated.name.as_str() {
        "" => free_name(&schema.name, &stated.columns, "key", is_known),
        given if is_known(given) => return Err(exists(given)),
        given => given.to_owned(),
    };
    let definition = definition(engine, &schema, &stated, name)?;
    for id in &definition.columns {
        let name = schema.columns.iter().find(|column| column.id == *id).map_or("?", |column| column.name.as_str());
        check_committed(&region.committed().schema(), *id, name)?;
    }
    make(engine, transaction, region, definition).await
}

/// The index of a table's constraint of this name, unless the transaction has dropped it.
pub(super) fn find(region: &Arc<Region>, transaction: &Transaction, name: &str) -> Option<Arc<IndexDef>> {
    let standing = region.standing_indexes();
    let is_it = |index: &&Arc<IndexDef>| {
        let is_constraint = index.unique.is_some_and(|unique| unique.is_constraint);
        is_constraint && index.name == name && !transaction.has_dropped_index(index)
    };
    standing.iter().find(is_it).cloned()
}
