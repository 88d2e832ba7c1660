//! ALTER COLUMN ... TYPE of sharded tables: each shard converts its own rows. Called by `alter`, while nobody else
//! changes tables.
//!
//! The values of USING must be computed only once, even if a client that has lost the answer repeats the statement. So
//! each shard is first asked for the current type of the column.

use ashlar_base::{ColumnDef, Error, ErrorCode, Result};
use ashlar_shard::rules::Placement;
use pg_query::protobuf::{AlterTableCmd, AlterTableType};
use pg_query::{Node, NodeEnum};

use super::ShardedTable;
use super::ddl::physical;
use super::rename::asked;
use super::rule::quoted;
use crate::resources::StatementResources;

/// The commands that give columns other types.
fn retyping(cmds: &[Node]) -> Vec<&AlterTableCmd> {
    let mut found = Vec::new();
    for node in cmds {
        if let Some(NodeEnum::AlterTableCmd(command)) = &node.node
            && command.subtype == AlterTableType::AtAlterColumnType as i32
        {
            found.push(command.as_ref());
        }
    }
    found
}

/// Whether columns get other types.
pub(super) fn retypes(cmds: &[Node]) -> bool {
    !retyping(cmds).is_empty()
}

/// Whether a command says how the values are computed.
fn has_using(command: &AlterTableCmd) -> bool {
    let def = command.def.as_ref().and_then(|def| def.node.as_ref());
    matches!(def, Some(NodeEnum::ColumnDef(column)) if column.raw_default.is_some())
}

/// The column of a name.
fn column_of<'t>(table: &'t ShardedTable, name: &str) -> Option<&'t ColumnDef> {
    table.schema.columns.iter().find(|column| column.name == *name)
}

/// Looks at columns whose values are to be computed.
///
/// # Errors
/// 0A000 where each copy of a table would compute them by itself, or the type stays: nobody could tell afterwards that it is done. 42P16 where
/// a shard has the column with another type than it has here; what a shard says.
pub(super) async fn check(
    table: &ShardedTable,
    altered: &ShardedTable,
    cmds: &[Node],
    resources: &StatementResources,
) -> Result<()> {
    for command in retyping(cmds) {
        if !has_using(command) {
            continue;
        }
        let (own, name) = (&table.schema.name, &command.name);
        let (Some(before), Some(after)) = (column_of(table, name), column_of(altered, name)) else { continue };
        if table.routed.rule.placement() == Placement::Broadcast {
            let message = "USING for another type of a column of a table that is on all servers is not supported";
            return Err(Error::unsupported(message).with_hint("Add a column of that type, and UPDATE the table."));
        }
        if before.sql_type == after.sql_type {
            let message = "USING for a column of a sharded table that keeps its type is not supported";
            return Err(Error::unsupported(message).with_hint("UPDATE the table."));
        }
        let expected = before.sql_type.to_string();
        for shard in table.routed.rule.shards() {
            let asking = format!(
                "SELECT pg_catalog.format_type(a.atttypid, a.atttypmod) FROM pg_catalog.pg_attribute a \
                 WHERE a.attrelid = pg_catalog.to_regclass({}) AND a.attname = {} AND NOT a.attisdropped",
                quoted(&physical(shard)),
                quoted(name)
            );
            let found = asked(table, shard, &asking, resources).await?.into_iter().next().flatten();
            // One without digits is kept here with as many as there may be.
            let is_it = |found: &str| found == expected || (found == "numeric" && expected.starts_with("numeric("));
            if !found.as_deref().is_some_and(is_it) {
                let found = found.as_deref().unwrap_or("none");
                let message =
                    format!("column \"{name}\" of table \"{own}\" is of type {found} on shard \"{}\"", shard.server);
                return Err(Error::new(ErrorCode::InvalidTableDefinition, message)
                    .with_detail(format!("Here it is of type {expected}."))
                    .with_hint("Where its values are computed there already, say the type without USING."));
            }
        }
    }
    Ok(())
}
