//! Constraints that a changed rule has left on the tables of shards: each holds its table to the keys that belong there
//! since.
//!
//! Called when tables are attached, which may still be held to another rule, and when they are dropped. Produces the
//! queries and statements for the shards, and sends nothing.

use ashlar_base::Result;
use ashlar_shard::rules::ShardId;
use pg_query::NodeEnum;

use super::ShardedTable;
use super::ddl::{dropping, of_server, physical};
use super::maintain::Work;
use super::rule::{CONSTRAINT, changes_rule, condition};
use crate::grammar::{self, ParsedStatement};

/// What the rows of a shard, counted from 0, have to satisfy by the table's rule, in SQL; `None`: shards never have other keys by such a rule.
fn held_to(table: &ShardedTable, number: usize) -> Option<String> {
    let shard = ShardId(u16::try_from(number).ok()?);
    table.routed.rule.kept(shard).map(|kept| condition(table, &kept))
}

/// Holds a table that a shard has made for a moment to the keys of that shard; `None` where there is nothing to hold it to.
pub(super) fn holding(table: &ShardedTable, number: usize, wanted: &str) -> Option<String> {
    let condition = held_to(table, number)?;
    Some(format!("ALTER TABLE {wanted} ADD CONSTRAINT {CONSTRAINT} CHECK ({condition})"))
}

/// Asks for what holds a table to other keys than another one, both as expressions of type `regclass`: a row, or none.
pub(super) fn held_otherwise(found: &str, wanted: &str) -> String {
    let held = |relation: &str| {
        format!(
            "(SELECT pg_catalog.pg_get_constraintdef(c.oid) AS text FROM pg_catalog.pg_constraint c \
             WHERE c.conrelid = {relation} AND c.conname = '{CONSTRAINT}')"
        )
    };
    format!(
        "SELECT 'constraint {CONSTRAINT} holds it to another rule: ' || f.text FROM {} f \
         WHERE f.text NOT IN (SELECT w.text FROM {} w)",
        held(found),
        held(wanted)
    )
}

/// What shards are sent where a table is dropped. What was there before is there afterwards, and held to nothing that was asked for here: to
/// whatever rule it is attached next.
///
/// # Errors
/// XX000 where what is kept of the table is none of ours.
pub(super) fn leaving(table: &ShardedTable) -> Result<Work> {
    if !table.attached {
        return dropping(table);
    }
    let mut work = Work::new();
    let known = table.fleet.catalog().known();
    let Some(text) = known.tables.get(&table.schema.name) else { return Ok(work) };
    let is_change = |kept: &ParsedStatement| match &kept.node {
        NodeEnum::AlterTableStmt(statement) => changes_rule(statement),
        _ => false,
    };
    if !grammar::parse(text)?.iter().any(is_change) {
        return Ok(work);
    }
    for (number, shard) in table.routed.rule.shards().iter().enumerate() {
        if held_to(table, number).is_some() {
            // Whose table it is may have dropped it.
            let table = physical(shard);
            let text = format!("ALTER TABLE IF EXISTS {table} DROP CONSTRAINT IF EXISTS {CONSTRAINT};");
            of_server(&mut work, &shard.server).push_str(&text);
        }
    }
    Ok(work)
}
