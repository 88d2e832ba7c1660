//! TRUNCATE and ALTER TABLE ... ADD COLUMN of sharded tables: in a transaction on every shard, which commits on all or on none.
//!
//! A column is noted on disk after its last shard has it: what a crash leaves behind is a column that `ADD COLUMN IF NOT EXISTS`
//! makes known.

use std::sync::Arc;

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_shard::fleet::Fleet;
use ashlar_shard::rules::Placement;
use pg_query::NodeEnum;
use pg_query::protobuf::{
    AlterTableCmd, AlterTableStmt, AlterTableType, ColumnDef, ConstrType, CreateStmt, DropBehavior, Node, ObjectType,
    RangeVar, TruncateStmt,
};

use super::ShardedTable;
use super::ddl::{at_shard, define_in, done_but, everywhere, for_each_server, physical};
use super::rule::{options_of, set_options};
use crate::catalog::{CatalogState, Table};
use crate::ddl::{Done, relation_name};
use crate::engine::Engine;
use crate::means::Means;
use crate::statement::statement_text;

/// The sharded table of a name.
pub(crate) fn find(state: &CatalogState, name: &str) -> Option<Arc<ShardedTable>> {
    match state.table(name)? {
        Table::Sharded(table) => Some(Arc::clone(table)),
        Table::Grid(_) | Table::File(_) => None,
    }
}

/// The sharded table that a TRUNCATE is about; `None` where it names none.
///
/// # Errors
/// 0A000 where it is not all that it is about.
pub(crate) fn truncated(
    state: &CatalogState,
    statement: &TruncateStmt,
    in_block: bool,
) -> Result<Option<Arc<ShardedTable>>> {
    let mut found = None;
    for relation in &statement.relations {
        if let Some(NodeEnum::RangeVar(relation)) = &relation.node {
            found = found.or(find(state, &relation_name(Some(relation))?));
        }
    }
    let is_alone = statement.relations.len() == 1 && !in_block && !statement.restart_seqs;
    if found.is_some() && (!is_alone || statement.behavior == DropBehavior::DropCascade as i32) {
        return Err(Error::unsupported(
            "TRUNCATE of a sharded table together with others, in a transaction block, with RESTART IDENTITY or \
             CASCADE is not supported",
        )
        .with_hint("Truncate it by a statement of its own, or DELETE its rows."));
    }
    Ok(found)
}

/// TRUNCATE of a sharded table.
///
/// # Errors
/// What a shard says; then no row is gone.
pub(crate) async fn truncate(table: &ShardedTable, means: &Means) -> Result<Done> {
    let work = for_each_server(table, |shard| Ok(format!("TRUNCATE {};", physical(shard))))?;
    let left = everywhere(&table.fleet, means, &work).await?;
    Ok(done_but(Done::tag("TRUNCATE TABLE"), &left))
}

/// ALTER TABLE ... ADD COLUMN of a sharded table.
///
/// # Errors
/// 0A000 for another change; 42701; what is wrong with the column, and what a shard says, and then none has it.
pub(crate) async fn alter(
    engine: &Engine,
    table: &Arc<ShardedTable>,
    statement: &AlterTableStmt,
    in_block: bool,
    means: &Means,
) -> Result<Done> {
    if in_block {
        return Err(Error::unsupported("ALTER TABLE of a sharded table in a transaction block is not supported"));
    }
    let name = table.schema.name.clone();
    let mut done = Done::tag("ALTER TABLE");
    let mut added: Vec<ColumnDef> = Vec::new();
    for command in &statement.cmds {
        let Some(NodeEnum::AlterTableCmd(command)) = &command.node else { continue };
        let column = command.def.as_ref().and_then(|def| def.node.as_ref());
        let (Ok(AlterTableType::AtAddColumn), Some(NodeEnum::ColumnDef(column)), true) =
            (AlterTableType::try_from(command.subtype), column, statement.objtype == ObjectType::ObjectTable as i32)
        else {
            return Err(Error::unsupported("this form of ALTER TABLE of a sharded table is not supported"));
        };
        let is_known =
            table.schema.column(&column.colname).is_some() || added.iter().any(|other| other.colname == column.colname);
        if is_known {
            let message = format!("column \"{}\" of relation \"{name}\" already exists", column.colname);
            if !command.missing_ok {
                return Err(Error::new(ErrorCode::DuplicateColumn, message));
            }
            done.notices.push(Error::new(ErrorCode::DuplicateColumn, format!("{message}, skipping")));
            continue;
        }
        check_default(table, column)?;
        added.push(ColumnDef::clone(column));
    }
    if added.is_empty() {
        return Ok(done);
    }
    let fleet = &table.fleet;
    // One after the other: the second is to find the first's columns.
    let _altering = fleet.altering().lock().await;
    let changed = || {
        let message = format!("table \"{name}\" was changed by somebody else meanwhile");
        Error::new(ErrorCode::ObjectNotInPrerequisiteState, message).with_hint("Try again.")
    };
    let kept = fleet.catalog().known().tables.get(&name).cloned().ok_or_else(changed)?;
    let (text, altered) = altered(engine, fleet, &name, &kept, &added)?;
    if find(&engine.catalog().current(), &name).is_none_or(|now| !Arc::ptr_eq(&now, table)) {
        return Err(changed());
    }
    let work = for_each_server(&altered, |shard| {
        let mut plain = statement.clone();
        at_shard(&mut plain.relation, shard);
        statement_text(&NodeEnum::AlterTableStmt(plain)).map(|text| format!("{text};"))
    })?;
    let left = everywhere(fleet, means, &work).await.map_err(|error| {
        let is_unknown = error.code() == ErrorCode::TransactionResolutionUnknown;
        if is_unknown { error.with_hint("Add the column again with IF NOT EXISTS.") } else { error }
    })?;
    // What they have prepared has other columns now, and would be refused there.
    work.iter().for_each(|(server, _)| fleet.forget(server));
    fleet.catalog().change(|known| match known.tables.get_mut(&name) {
        Some(now) if *now == kept => {
            *now = text;
            Ok(())
        }
        _ => Err(changed()),
    })?;
    let mut draft = engine.catalog().draft();
    engine.catalog().put(&mut draft, &name, Some(Table::Sharded(Arc::new(altered))));
    engine.catalog().publish(&draft, || Ok(()))?;
    Ok(done_but(done, &left))
}

/// What is kept of a table with more columns, and that table.
fn altered(
    engine: &Engine,
    fleet: &Arc<Fleet>,
    name: &str,
    kept: &str,
    added: &[ColumnDef],
) -> Result<(String, ShardedTable)> {
    let columns: Vec<Node> = added.iter().map(adding).collect();
    let relation =
        RangeVar { relname: name.to_owned(), inh: true, relpersistence: "p".to_owned(), ..RangeVar::default() };
    let objtype = ObjectType::ObjectTable as i32;
    let more = AlterTableStmt { relation: Some(relation), cmds: columns, objtype, ..AlterTableStmt::default() };
    let text = format!("{kept}\n;\n{}", statement_text(&NodeEnum::AlterTableStmt(more))?);
    // As it is read again at start.
    let statement = kept_statement(name, &text)?;
    // Beside the tables that stay: what it is called is not taken by itself.
    let mut draft = engine.catalog().draft();
    engine.catalog().put(&mut draft, name, None);
    let table = define_in(engine, fleet, draft.state(), name, &statement)?;
    Ok((text, table))
}

fn adding(column: &ColumnDef) -> Node {
    let def = Node { node: Some(NodeEnum::ColumnDef(Box::new(column.clone()))) };
    let command = AlterTableCmd {
        subtype: AlterTableType::AtAddColumn as i32,
        def: Some(Box::new(def)),
        behavior: DropBehavior::DropRestrict as i32,
        ..AlterTableCmd::default()
    };
    Node { node: Some(NodeEnum::AlterTableCmd(Box::new(command))) }
}

/// The statement that makes a table as it is, from what was kept of it: the one that made it, and one for each time that
/// columns or keys were added, or its rule was changed.
///
/// # Errors
/// XX000 where it is none of ours.
pub(super) fn kept_statement(name: &str, text: &str) -> Result<CreateStmt> {
    let mut made: Option<CreateStmt> = None;
    for parsed in crate::grammar::parse(text)? {
        match (parsed.node, &mut made) {
            (NodeEnum::CreateStmt(statement), None) => made = Some(statement),
            (NodeEnum::AlterTableStmt(statement), Some(made)) => {
                for command in &statement.cmds {
                    let Some(NodeEnum::AlterTableCmd(command)) = &command.node else { continue };
                    match options_of(command) {
                        Some((sets, options)) => set_options(made, sets, options),
                        None => made.table_elts.extend(command.def.as_deref().cloned()),
                    }
                }
            }
            // It is the shards' to use.
            (NodeEnum::IndexStmt(_), Some(_)) => {}
            _ => return Err(none_of_ours(name)),
        }
    }
    made.ok_or_else(|| none_of_ours(name))
}

fn none_of_ours(name: &str) -> Error {
    Error::internal(format!("sharded table \"{name}\" was not kept as the statement that made it"))
}

/// 0A000 for a default that each copy of a table would compute by itself.
fn check_default(table: &ShardedTable, column: &ColumnDef) -> Result<()> {
    let is_default = |node: &Node| {
        let Some(NodeEnum::Constraint(constraint)) = &node.node else { return false };
        constraint.contype == ConstrType::ConstrDefault as i32
    };
    if table.routed.rule.placement() == Placement::Broadcast && column.constraints.iter().any(is_default) {
        return Err(Error::unsupported("a column with a default cannot be added to a table that is on all servers")
            .with_hint("Add it without a default, and UPDATE the table."));
    }
    Ok(())
}
