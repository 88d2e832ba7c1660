//! CREATE INDEX and DROP INDEX.
//!
//! No query result depends on an index. So a new index can be used at once, by everybody, even inside a transaction
//! block, and ROLLBACK removes it again; an index that is dropped in a block disappears when the block commits. A
//! unique index is enforced for other transactions from the moment its creation begins.

mod included;
mod order;
pub(super) mod reindex;
pub(super) mod rename;
mod storage;

use std::sync::Arc;

use ashlar_base::{
    Error, ErrorCode, IndexDef, IndexKind, IndexOrder, PartitionId, Result, ScalarType, SqlType, TableSchema, Unique,
};
use ashlar_store::Region;
use pg_query::NodeEnum;
use pg_query::protobuf::{DropStmt, IndexStmt};

use super::{Done, alter, exists, object_name, relation_name};
use crate::catalog::{CatalogState, Table};
use crate::engine::Engine;
use crate::index_rows::{self, IndexExpressions, Planned};
use crate::index_text::{self, Text};
use crate::statement::expression_text;
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
        return Err(Error::unsupported("an index on kv, the plain keys of the RESP door, is not supported")
            .with_hint("Keep values that are looked for in a table of your own: its rows are keys too."));
    }
    let kind = kind(&statement.access_method)?;
    check_form(statement, kind)?;
    let (definition, names) = define(engine, &state, &region, statement, kind)?;
    if definition.columns.len() + definition.included.len() > COLUMNS_MAX {
        let message = format!("cannot use more than {COLUMNS_MAX} columns in an index");
        return Err(Error::new(ErrorCode::TooManyColumns, message));
    }
    if kind == IndexKind::Hash && definition.columns.len() > 1 {
        return Err(Error::unsupported("access method \"hash\" does not support multicolumn indexes"));
    }
    let is_taken = |name: &str| is_taken(&state, transaction, name);
    let name = match statement.idxname.as_str() {
        "" => free_name(&region.schema().name, &names, "idx", is_taken),
        given => given.to_owned(),
    };
    if is_taken(&name) {
        if !statement.if_not_exists {
            return Err(exists(&name));
        }
        let message = format!("relation \"{name}\" already exists, skipping");
        return Ok(Done::notice("CREATE INDEX", ErrorCode::DuplicateTable, message));
    }
    make(engine, transaction, &region, IndexDef { name, ..definition }).await?;
    Ok(Done::tag("CREATE INDEX"))
}

/// What an index is on, still without its name, and what its columns contribute to that.
fn define(
    engine: &Engine,
    state: &Arc<CatalogState>,
    region: &Arc<Region>,
    statement: &IndexStmt,
    kind: IndexKind,
) -> Result<(IndexDef, Vec<String>)> {
    let (seen, committed) = (region.schema(), region.committed().schema());
    let (mut columns, mut orders, mut names) = (Vec::new(), Vec::new(), Vec::new());
    let (mut expressions, mut documents) = (Vec::new(), Vec::new());
    for parameter in &statement.index_params {
        let Some(NodeEnum::IndexElem(element)) = &parameter.node else { continue };
        let order = order::direction(element);
        if kind == IndexKind::Hash && order != IndexOrder::default() {
            let what = if order.descending { "ASC/DESC" } else { "NULLS FIRST/LAST" };
            return Err(Error::unsupported(format!("access method \"hash\" does not support {what} options")));
        }
        orders.push(order);
        let planned = match &element.expr {
            None => Planned::Column(column(&seen, &element.name)?),
            Some(expr) => index_rows::expression(engine, state, &seen, &expression_text(expr)?)?,
        };
        let (sql_type, name) = match planned {
            Planned::Column(ordinal) => {
                let column = &seen.columns[ordinal];
                check_committed(&committed, column.id, &column.name)?;
                columns.push(column.id);
                if is_document(column.sql_type) && !documents.contains(&column.id) {
                    documents.push(column.id);
                }
                (column.sql_type, column.name.clone())
            }
            Planned::Expression(expr, sql_type) => {
                let node = element.expr.as_ref().ok_or_else(|| Error::internal("an expression has its tree"))?;
                let id = IndexDef::expression_id(expressions.len());
                columns.push(id);
                if is_document(sql_type) {
                    documents.push(id);
                }
                let name = index_text::name_of(node);
                expressions.push((name.clone(), expr, sql_type, Text::of_key(node, &seen)?));
                (sql_type, name)
            }
        };
        order::check(element, kind, sql_type)?;
        if sql_type == SqlType::Scalar(ScalarType::Json) {
            return Err(order::no_class(kind, sql_type).with_table(&seen.name).with_column(&name));
        }
        if !sql_type.can_be_indexed() {
            let error = Error::unsupported(format!("an index on a column of type {sql_type} is not supported"));
            return Err(error.with_table(&seen.name).with_column(&name));
        }
        names.push(name);
    }
    let mut beside = Vec::new();
    for ordinal in included::columns(&statement.index_including_params, &seen)? {
        let column = &seen.columns[ordinal];
        check_committed(&committed, column.id, &column.name)?;
        beside.push(column.id);
        names.push(column.name.clone());
    }
    let predicate = match &statement.where_clause {
        None => None,
        Some(node) => {
            let conjuncts = index_rows::conjuncts(engine, state, &seen, &expression_text(node)?)?;
            Some((conjuncts, Text::of(node, &seen)?))
        }
    };
    let rows = IndexExpressions::plan(engine, &seen, expressions, documents, predicate)?;
    for id in rows.iter().flat_map(|rows| rows.inputs()) {
        let name = seen.columns.iter().find(|column| column.id == *id).map_or("?", |column| column.name.as_str());
        check_committed(&committed, *id, name)?;
    }
    let unique =
        statement.unique.then_some(Unique { nulls_distinct: !statement.nulls_not_distinct, is_constraint: false });
    let storage = storage::options(&statement.options, kind)?;
    let id = engine.catalog().next_id();
    let plain = IndexDef::plain(id, String::new(), kind, columns);
    Ok((IndexDef { included: beside, unique, orders, storage, rows, ..plain }, names))
}

/// Whether values of a type, or their items, are documents.
fn is_document(sql_type: SqlType) -> bool {
    sql_type.scalar() == ScalarType::Jsonb
}

/// 0A000 for a column that others do not see yet.
pub(super) fn check_committed(committed: &TableSchema, id: ashlar_base::ColumnId, name: &str) -> Result<()> {
    if committed.columns.iter().any(|known| known.id == id) {
        return Ok(());
    }
    let message = format!("an index on column \"{name}\" in the block that adds it is not supported");
    Err(Error::unsupported(message).with_hint("COMMIT first."))
}

/// Makes an index of a table that there is.
///
/// # Errors
/// 23505 where values that are to be unique are not, 42P07 where somebody has taken the name; what was made goes with the
/// transaction.
pub(super) async fn make(
    engine: &Engine,
    transaction: &mut Transaction,
    region: &Arc<Region>,
    definition: IndexDef,
) -> Result<()> {
    let definition = Arc::new(definition);
    engine.catalog().add_index(region, &definition, |index| transaction.has_dropped_index(index))?;
    transaction.made_index(Arc::clone(region), Arc::clone(&definition));
    for partition in (0..region.partition_count()).map(PartitionId) {
        // Whoever wants to cancel, or has something else to do, gets a turn.
        while !region.build_index_step(partition, &definition)? {
            tokio::task::yield_now().await;
        }
        tokio::task::yield_now().await;
    }
    // The same of the rows that this transaction has written.
    let mut goes_on = false;
    while !transaction
        .writes
        .check_values_step(region, goes_on)
        .map_err(|error| cannot_create(&definition.name, error))?
    {
        goes_on = true;
        tokio::task::yield_now().await;
    }
    region.complete_index(&definition);
    if definition.unique.is_some() {
        // From now on it is what ON CONFLICT can name.
        engine.catalog().replan();
    }
    Ok(())
}

/// What is wrong with rows that the same transaction has written.
pub(super) fn cannot_create(index: &str, error: Error) -> Error {
    if error.code() != ErrorCode::UniqueViolation || error.fields().constraint.as_deref() != Some(index) {
        return error;
    }
    let message = format!("could not create unique index \"{index}\"");
    let detail = error.fields().detail.as_deref().unwrap_or_default();
    let detail = detail.replace(" already exists.", " is duplicated.");
    Error::new(ErrorCode::UniqueViolation, message).with_detail(detail).with_constraint(index)
}

/// Whether a table or an index has this name, those that the transaction has dropped aside.
pub(super) fn is_taken(state: &CatalogState, transaction: &Transaction, name: &str) -> bool {
    match state.index(name, |_| false) {
        Some(_) => state.index(name, |index| transaction.has_dropped_index(index)).is_some(),
        None => state.is_relation(name),
    }
}

/// `table_column_idx`, or the first of `table_column_idx1`, ... that is free; `label` is what it ends with. As in PostgreSQL
/// the longer part is cut where a name would be longer than a statement can say, and a column that stands twice is told
/// apart.
pub(crate) fn free_name(table: &str, columns: &[String], label: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut told_apart: Vec<String> = Vec::with_capacity(columns.len());
    for column in columns {
        let numbered = (0u32..).map(|number| if number == 0 { column.clone() } else { format!("{column}{number}") });
        let mut free = numbered.filter(|name| !told_apart.contains(name));
        told_apart.extend(free.next());
    }
    let mut number = 0u32;
    loop {
        let end = if number == 0 { label.to_owned() } else { format!("{label}{number}") };
        let (mut table, mut columns) = (table.to_owned(), told_apart.join("_"));
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

/// 0A000 for what an index cannot be.
fn check_form(statement: &IndexStmt, kind: IndexKind) -> Result<()> {
    if statement.unique && kind == IndexKind::Hash {
        return Err(Error::unsupported("access method \"hash\" does not support unique indexes"));
    }
    if !statement.index_including_params.is_empty() && kind == IndexKind::Hash {
        return Err(Error::unsupported("access method \"hash\" does not support included columns"));
    }
    if !statement.table_space.is_empty() {
        return Err(Error::unsupported("CREATE INDEX ... TABLESPACE is not supported"));
    }
    Ok(())
}

/// The ordinal of a column that an index is on or includes.
fn column(schema: &TableSchema, name: &str) -> Result<usize> {
    schema.column(name).ok_or_else(|| {
        let message = format!("column \"{name}\" does not exist");
        Error::new(ErrorCode::UndefinedColumn, message)
    })
}

/// The table in memory whose primary key has this name.
pub(super) fn table_of_key(state: &CatalogState, name: &str) -> Option<String> {
    state.tables().find_map(|(table, found)| match found {
        Table::Grid(region) if region.schema().key_name == name => Some(table.to_owned()),
        Table::Grid(_) | Table::File(_) | Table::Sharded(_) => None,
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
            Some((region, index)) if index.unique.is_some_and(|unique| unique.is_constraint) => {
                return Err(required(name, &region.schema().name));
            }
            Some(found) => dropped.push(found),
            None if state.table(name).is_some() => {
                return Err(Error::new(ErrorCode::WrongObjectType, format!("\"{name}\" is not an index"))
                    .with_hint("Use DROP TABLE to remove a table."));
            }
            None if state.sequence(name).is_some() => {
                return Err(Error::new(ErrorCode::WrongObjectType, format!("\"{name}\" is not an index"))
                    .with_hint("Use DROP SEQUENCE to remove a sequence."));
            }
            None if state.index(name, |_| false).is_none() && state.is_relation(name) => {
                return Err(required(name, &table_of_key(&state, name).unwrap_or_default()));
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

/// 2BP01 for the index of a constraint.
fn required(name: &str, table: &str) -> Error {
    let message = format!("cannot drop index {name} because constraint {name} on table {table} requires it");
    Error::new(ErrorCode::DependentObjects, message)
        .with_hint(format!("You can drop constraint {name} on table {table} instead."))
}
