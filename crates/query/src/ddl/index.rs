//! CREATE INDEX and DROP INDEX.
//!
//! No answer depends on an index. So one that is made can be used at once, by everybody, in a block too, and a ROLLBACK
//! takes it away again; one that is dropped in a block goes when that commits.

use std::sync::Arc;

use ashlar_base::{Error, ErrorCode, IndexDef, IndexKind, PartitionId, Result, TableSchema};
use pg_query::NodeEnum;
use pg_query::protobuf::{DropStmt, IndexElem, IndexStmt, SortByDir, SortByNulls};

use super::{Done, alter, exists, object_name, relation_name};
use crate::catalog::CatalogState;
use crate::engine::Engine;
use crate::transaction::Transaction;

/// Bytes of a name: what is longer is cut where a statement is read.
const NAME_BYTES_MAX: usize = 63;

/// Columns of an index at most, as in PostgreSQL.
const COLUMNS_MAX: usize = 32;

/// CREATE INDEX
pub(super) async fn create(
    engine: &Engine,
    transaction: &mut Transaction,
    statement: &IndexStmt,
    in_block: bool,
) -> Result<Done> {
    if statement.concurrent && in_block {
        let message = "CREATE INDEX CONCURRENTLY cannot run inside a transaction block";
        return Err(Error::new(ErrorCode::ActiveTransaction, message));
    }
    let state = transaction.catalog(engine.catalog());
    let table = relation_name(statement.relation.as_ref())?;
    let region = Arc::clone(state.grid(&table)?);
    if table == alter::PLAIN_KEYS {
        return Err(alter::no_alter());
    }
    let schema = region.committed().schema();
    let kind = kind(&statement.access_method)?;
    check_form(statement)?;
    let mut columns = Vec::new();
    let mut names = Vec::new();
    for parameter in &statement.index_params {
        let Some(NodeEnum::IndexElem(element)) = &parameter.node else { continue };
        let ordinal = column(&region.schema(), element)?;
        let column = &region.schema().columns[ordinal];
        if !schema.columns.iter().any(|known| known.id == column.id) {
            let message = format!("an index on column \"{}\" in the block that adds it is not supported", column.name);
            return Err(Error::unsupported(message).with_hint("COMMIT first."));
        }
        if column.sql_type.is_array() || !column.sql_type.scalar().can_be_key() {
            return Err(Error::unsupported(format!(
                "an index on a column of type {} is not supported",
                column.sql_type
            ))
            .with_table(&schema.name)
            .with_column(&column.name));
        }
        columns.push(column.id);
        names.push(column.name.clone());
    }
    if columns.len() > COLUMNS_MAX {
        let message = format!("cannot use more than {COLUMNS_MAX} columns in an index");
        return Err(Error::new(ErrorCode::TooManyColumns, message));
    }
    if kind == IndexKind::Hash && columns.len() > 1 {
        return Err(Error::unsupported("access method \"hash\" does not support multicolumn indexes"));
    }
    let is_taken = |name: &str| is_taken(&state, transaction, name);
    let name = match statement.idxname.as_str() {
        "" => free_name(&schema.name, &names, is_taken),
        given => given.to_owned(),
    };
    if is_taken(&name) {
        if !statement.if_not_exists {
            return Err(exists(&name));
        }
        let message = format!("relation \"{name}\" already exists, skipping");
        return Ok(Done::notice("CREATE INDEX", ErrorCode::DuplicateTable, message));
    }
    let definition = Arc::new(IndexDef { id: engine.catalog().next_id(), name, kind, columns });
    engine.catalog().add_index(&region, &definition, |index| transaction.has_dropped_index(index))?;
    transaction.made_index(Arc::clone(&region), Arc::clone(&definition));
    for partition in (0..region.partition_count()).map(PartitionId) {
        region.build_index_in(partition, &definition)?;
        // Whoever wants to cancel gets a turn.
        tokio::task::yield_now().await;
    }
    Ok(Done::tag("CREATE INDEX"))
}

/// Whether a table or an index has this name, those that the transaction has dropped aside.
fn is_taken(state: &CatalogState, transaction: &Transaction, name: &str) -> bool {
    match state.index(name, |_| false) {
        Some(_) => state.index(name, |index| transaction.has_dropped_index(index)).is_some(),
        None => state.is_relation(name),
    }
}

/// `table_column_idx`, or the first of `table_column_idx1`, ... that is free. As in PostgreSQL the longer part is cut
/// where a name would be longer than a statement can say.
fn free_name(table: &str, columns: &[String], is_taken: impl Fn(&str) -> bool) -> String {
    let mut number = 0u32;
    loop {
        let end = if number == 0 { "idx".to_owned() } else { format!("idx{number}") };
        let (mut table, mut columns) = (table.to_owned(), columns.join("_"));
        while table.len() + columns.len() + end.len() + 2 > NAME_BYTES_MAX {
            let longer = if table.len() > columns.len() { &mut table } else { &mut columns };
            longer.pop();
        }
        let name = format!("{table}_{columns}_{end}");
        if !is_taken(&name) {
            return name;
        }
        number += 1;
    }
}

fn kind(access_method: &str) -> Result<IndexKind> {
    match access_method {
        "btree" | "" => Ok(IndexKind::Btree),
        "hash" => Ok(IndexKind::Hash),
        "gin" | "gist" | "spgist" | "brin" => {
            Err(Error::unsupported(format!("indexes of access method \"{access_method}\" are not supported"))
                .with_hint("Indexes are of access method btree or hash."))
        }
        other => Err(Error::new(ErrorCode::UndefinedObject, format!("access method \"{other}\" does not exist"))),
    }
}

/// 0A000 for what an index cannot be yet.
fn check_form(statement: &IndexStmt) -> Result<()> {
    let refused = if statement.unique {
        "CREATE UNIQUE INDEX"
    } else if statement.where_clause.is_some() {
        "CREATE INDEX ... WHERE"
    } else if !statement.index_including_params.is_empty() {
        "CREATE INDEX ... INCLUDE"
    } else if !statement.options.is_empty() {
        "CREATE INDEX ... WITH"
    } else if !statement.table_space.is_empty() {
        "CREATE INDEX ... TABLESPACE"
    } else {
        return Ok(());
    };
    Err(Error::unsupported(format!("{refused} is not supported")))
}

/// The ordinal of the column that an element of an index is.
fn column(schema: &TableSchema, element: &IndexElem) -> Result<usize> {
    if element.expr.is_some() {
        return Err(Error::unsupported("an index on an expression is not supported"));
    }
    if !element.collation.is_empty() || !element.opclass.is_empty() {
        return Err(Error::unsupported("an index with a collation or an operator class is not supported"));
    }
    let is_descending = SortByDir::try_from(element.ordering) == Ok(SortByDir::SortbyDesc);
    let is_first = SortByNulls::try_from(element.nulls_ordering) == Ok(SortByNulls::SortbyNullsFirst);
    if is_descending || is_first {
        return Err(Error::unsupported("an index in descending order, or with NULLs first, is not supported")
            .with_hint("Leave the order out: equal values and ranges are found by any."));
    }
    schema.column(&element.name).ok_or_else(|| {
        let message = format!("column \"{}\" does not exist", element.name);
        Error::new(ErrorCode::UndefinedColumn, message)
    })
}

/// DROP INDEX
pub(super) fn drop(
    engine: &Engine,
    transaction: &mut Transaction,
    statement: &DropStmt,
    in_block: bool,
) -> Result<Done> {
    if statement.concurrent && in_block {
        let message = "DROP INDEX CONCURRENTLY cannot run inside a transaction block";
        return Err(Error::new(ErrorCode::ActiveTransaction, message));
    }
    let mut done = Done::tag("DROP INDEX");
    let state = transaction.catalog(engine.catalog());
    let mut dropped = Vec::new();
    for object in &statement.objects {
        let Some(name) = object_name(object, statement.missing_ok, &mut done)? else { continue };
        let name = name.as_str();
        match state.index(name, |index| transaction.has_dropped_index(index)) {
            Some(found) => dropped.push(found),
            None if state.table(name).is_some() => {
                return Err(Error::new(ErrorCode::WrongObjectType, format!("\"{name}\" is not an index"))
                    .with_hint("Use DROP TABLE to remove a table."));
            }
            None if state.index(name, |_| false).is_none() && state.is_relation(name) => {
                let message = format!("cannot drop index {name} because the primary key of its table requires it");
                return Err(Error::new(ErrorCode::DependentObjects, message));
            }
            None if statement.missing_ok => {
                let message = format!("index \"{name}\" does not exist, skipping");
                done.notices.push(Error::new(ErrorCode::SuccessfulCompletion, message));
            }
            None => return Err(Error::new(ErrorCode::UndefinedObject, format!("index \"{name}\" does not exist"))),
        }
    }
    for (region, index) in dropped {
        transaction.drop_index(region, index);
    }
    Ok(done)
}
