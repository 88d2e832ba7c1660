//! ALTER TABLE ... ADD PRIMARY KEY for a table in memory that has none.
//!
//! Where rows are stored depends on their key. So a second table is created with the key, and in one commit it takes
//! over rows, name, counters, indexes and comments. Others read and write meanwhile; if they have written, the commit
//! fails.

use std::sync::Arc;

use ashlar_base::{Error, ErrorCode, Result, TableSchema};
use ashlar_functions::quoting::quote_ident;
use ashlar_store::Region;
use pg_query::protobuf::Constraint;

use super::{check_life, copy_rows, definition, index, key_name, put_region};
use crate::catalog::CatalogState;
use crate::engine::Engine;
use crate::resources::StatementResources;
use crate::select::{self, Planner, SelectPlan};
use crate::sql_types;
use crate::transaction::Transaction;

/// What is done to a table, and what it has then, as [`check_life`] says it.
const IN_WORDS: (&str, &str) = ("adding a primary key to", "the key");

/// Gives a table the primary key that a constraint states.
///
/// # Errors
/// 42P16 where it has one; 42703 and 42701 for columns, 42P07 for a name that is taken; 23502 and 23505 where rows do not fit; 0A000 in a
/// block, for other forms, and for rows that end by themselves; 55000 while an index is being made.
pub(super) async fn add(
    engine: &Engine,
    transaction: &mut Transaction,
    region: &Arc<Region>,
    constraint: &Constraint,
    in_block: bool,
    resources: &StatementResources,
) -> Result<()> {
    let before = region.schema();
    check(region, &before, constraint, in_block)?;
    let state = transaction.catalog(engine.catalog());
    let schema = keyed(engine, &state, &before, constraint)?;
    let (name, key) = (schema.name.clone(), schema.key_name.clone());
    let indexes = region.every_index();
    if let Some(unready) = indexes.iter().find(|index| !region.is_complete(index)) {
        let message = format!("index \"{}\" is being made", unready.name);
        return Err(Error::new(ErrorCode::ObjectNotInPrerequisiteState, message).with_hint("Try again."));
    }
    let text = format!("SELECT * FROM {}", quote_ident(&name));
    let select = SelectPlan::new(&Planner::new(engine, &state), select::parse(&text)?, &[])?;
    let snapshot = transaction.snapshot(engine.store());
    // Once more: rows that got an end before it are among those that are copied, and ends are not.
    check_life(region, &before, IN_WORDS)?;
    let view = transaction.view(snapshot.clone(), &state);
    let keyed = put_region(engine, transaction, &name, schema)?;
    for index in indexes.iter() {
        keyed.add_index(index);
        keyed.complete_index(index);
    }
    let copied = copy_rows(engine, transaction, &keyed, &select, (&snapshot, view), false, resources).await;
    copied.map_err(|error| does_not_fit(error, &name, &key))?;
    // As it is when this is committed: others may say something of the table, or give it a sequence, until then.
    engine.catalog().inherit(transaction.draft(engine.catalog()), region.id(), keyed.id());
    transaction.writes.retire(region, before.version, (&keyed, indexes), &snapshot)
}

/// What can be said before anything is looked at.
fn check(region: &Region, schema: &TableSchema, constraint: &Constraint, in_block: bool) -> Result<()> {
    if !schema.hidden_key {
        let message = format!("multiple primary keys for table \"{}\" are not allowed", schema.name);
        return Err(Error::new(ErrorCode::InvalidTableDefinition, message));
    }
    let refused = |what: &str| Err(Error::unsupported(format!("{what} is not supported")));
    if in_block {
        return Err(Error::unsupported("adding a primary key in a transaction block is not supported")
            .with_hint("Add it by a statement of its own, or make the table with it."));
    }
    if constraint.deferrable || constraint.initdeferred {
        return Err(Error::unsupported("deferrable constraints are not supported"));
    }
    if !constraint.indexname.is_empty() {
        return refused("a primary key of an index that there is");
    }
    if !constraint.including.is_empty() || !constraint.options.is_empty() || !constraint.indexspace.is_empty() {
        return refused("PRIMARY KEY ... INCLUDE, WITH and TABLESPACE");
    }
    check_life(region, schema, IN_WORDS)
}

/// The table with the key.
fn keyed(engine: &Engine, state: &CatalogState, before: &TableSchema, constraint: &Constraint) -> Result<TableSchema> {
    let mut ordinals = Vec::new();
    for column in constraint.keys.iter().filter_map(sql_types::string_of) {
        let ordinal = before.column(column).ok_or_else(|| {
            let message = format!("column \"{column}\" of relation \"{}\" does not exist", before.name);
            Error::new(ErrorCode::UndefinedColumn, message)
        })?;
        if ordinals.contains(&ordinal) {
            let message = format!("column \"{column}\" appears twice in primary key constraint");
            return Err(Error::new(ErrorCode::DuplicateColumn, message));
        }
        ordinals.push(ordinal);
    }
    let columns = before.visible_columns().to_vec();
    let finished = definition::finish(engine.catalog().next_id(), &before.name, columns, ordinals, None)?;
    // Ids of columns to come follow from the version.
    let (given, checks) = (constraint.conname.clone(), before.checks.clone());
    let named = TableSchema { key_name: given, checks, version: before.version, ..finished };
    let key_name = key_name(state, &named)?;
    Ok(TableSchema { key_name, ..named })
}

/// What is wrong with a row, as PostgreSQL says it of the whole table.
fn does_not_fit(error: Error, table: &str, key: &str) -> Error {
    let is_null = error.code() == ErrorCode::NotNullViolation;
    match error.fields().column.clone().filter(|_| is_null) {
        Some(column) => {
            let message = format!("column \"{column}\" of relation \"{table}\" contains null values");
            Error::new(ErrorCode::NotNullViolation, message).with_table(table).with_column(column)
        }
        None => index::cannot_create(key, error),
    }
}

#[cfg(test)]
mod tests;
