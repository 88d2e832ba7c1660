//! REINDEX: there is nothing to rebuild, since the entries of an index come and go with the rows; whether what it names is there is looked at.

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_functions::error::undefined_table;
use pg_query::NodeEnum;
use pg_query::protobuf::{ReindexObjectType, ReindexStmt};

use super::table_of_key;
use crate::catalog::{CatalogState, Table};
use crate::ddl::{Done, relation_name};
use crate::engine::Engine;
use crate::sharded::maintain;
use crate::transaction::Transaction;

/// REINDEX
///
/// # Errors
/// 42P01, 42809 and 3F000 where there is no such index, table or schema; 25001 for what PostgreSQL does not run in a block; 0A000 for indexes
/// of sharded tables, which are their servers', and for another database.
pub(in crate::ddl) fn reindex(
    engine: &Engine,
    transaction: &mut Transaction,
    statement: &ReindexStmt,
    database: &str,
    in_block: bool,
) -> Result<Done> {
    let state = transaction.catalog(engine.catalog());
    let kind = ReindexObjectType::try_from(statement.kind).unwrap_or(ReindexObjectType::Undefined);
    let is_concurrent = |option: &pg_query::Node| matches!(&option.node, Some(NodeEnum::DefElem(option)) if option.defname == "concurrently");
    let alone = match kind {
        _ if statement.params.iter().any(is_concurrent) => Some("CONCURRENTLY"),
        ReindexObjectType::ReindexObjectSchema => Some("SCHEMA"),
        ReindexObjectType::ReindexObjectDatabase => Some("DATABASE"),
        ReindexObjectType::ReindexObjectSystem => Some("SYSTEM"),
        _ => None,
    };
    if let Some(what) = alone.filter(|_| in_block) {
        let message = format!("REINDEX {what} cannot run inside a transaction block");
        return Err(Error::new(ErrorCode::ActiveTransaction, message));
    }
    match kind {
        ReindexObjectType::ReindexObjectIndex => {
            let name = relation_name(statement.relation.as_ref())?;
            let is_there = state.index(&name, |index| transaction.has_dropped_index(index)).is_some();
            if !is_there && table_of_key(&state, &name).is_none() {
                return Err(no_index(engine, &state, &name)?);
            }
        }
        ReindexObjectType::ReindexObjectTable => {
            let name = relation_name(statement.relation.as_ref())?;
            match state.table(&name) {
                Some(Table::Grid(_)) => {}
                Some(Table::Sharded(_)) => return Err(of_servers()),
                None if !state.is_relation(&name) => return Err(undefined_table(&name)),
                Some(Table::File(_)) | None => {
                    let message = format!("\"{name}\" is not a table or materialized view");
                    return Err(Error::new(ErrorCode::WrongObjectType, message));
                }
            }
        }
        ReindexObjectType::ReindexObjectSchema if statement.name != "public" => {
            let message = format!("schema \"{}\" does not exist", statement.name);
            return Err(Error::new(ErrorCode::InvalidSchemaName, message));
        }
        _ => {
            let is_schema = kind == ReindexObjectType::ReindexObjectSchema;
            if !is_schema && !statement.name.is_empty() && statement.name != database {
                return Err(Error::unsupported("can only reindex the currently open database"));
            }
            if state.has_sharded() {
                return Err(of_servers());
            }
        }
    }
    Ok(Done::tag("REINDEX"))
}

/// What is wrong with the name of an index.
fn no_index(engine: &Engine, state: &CatalogState, name: &str) -> Result<Error> {
    if maintain::has_index(engine, name)? {
        return Ok(of_servers());
    }
    if state.is_relation(name) {
        return Ok(Error::new(ErrorCode::WrongObjectType, format!("\"{name}\" is not an index")));
    }
    Ok(undefined_table(name))
}

fn of_servers() -> Error {
    Error::unsupported("REINDEX of sharded tables is not supported").with_hint("Do it on their servers.")
}
