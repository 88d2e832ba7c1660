//! UNIQUE constraints that are dropped: what each shard calls them.
//!
//! A shard may have made one with its table, or later, with the end of its table's name; or it was there when the table was attached. So it is
//! asked for the constraint by its columns. Called by `alter`, while nobody else changes tables.

use ashlar_base::{Error, Result};
use ashlar_shard::rules::Shard;
use pg_query::protobuf::{AlterTableType, ConstrType, Constraint, CreateStmt};
use pg_query::{Node, NodeEnum};

use super::ShardedTable;
use super::checks::constraint_of;
use super::ddl::physical;
use super::maintain::on_shard;
use super::rename::asked;
use super::rule::quoted;
use crate::means::Means;
use crate::sql_types::string_of;

/// What a shard calls a constraint.
struct There {
    name: String,
    shard: Shard,
    /// `None`: it has none such any more.
    own: Option<String>,
}

/// The constraints among what a change drops.
pub(super) struct DroppedKeys(Vec<There>);

impl DroppedKeys {
    /// Asks the shards of a table. `made`: the statement that would make it as it is.
    ///
    /// # Errors
    /// 0A000 where a shard has several and none of this name; what a shard says.
    pub(super) async fn of(table: &ShardedTable, made: &CreateStmt, cmds: &[Node], means: &Means) -> Result<Self> {
        let mut all = Vec::new();
        for name in cmds.iter().filter_map(dropped) {
            let Some(columns) = columns_of(made, name) else { continue };
            for shard in table.routed.rule.shards() {
                let found = asked(table, shard, &asking(shard, &columns), means).await?;
                let own = chosen(found.into_iter().flatten().collect(), name, table, shard)?;
                all.push(There { name: name.to_owned(), shard: shard.clone(), own });
            }
        }
        Ok(Self(all))
    }

    /// The commands as this shard is to carry them out: those for which it has nothing to do are left out.
    pub(super) fn at(&self, shard: &Shard, cmds: &[Node]) -> Vec<Node> {
        let mut sent = cmds.to_vec();
        sent.retain_mut(|command| {
            let there =
                dropped(command).and_then(|name| self.0.iter().find(|one| one.name == name && one.shard == *shard));
            match (there, &mut command.node) {
                (Some(There { own: Some(own), .. }), Some(NodeEnum::AlterTableCmd(command))) => {
                    command.name.clone_from(own);
                    true
                }
                (there, _) => there.is_none(),
            }
        });
        sent
    }
}

/// The constraint that a command drops.
fn dropped(command: &Node) -> Option<&str> {
    match &command.node {
        Some(NodeEnum::AlterTableCmd(command)) if command.subtype == AlterTableType::AtDropConstraint as i32 => {
            Some(command.name.as_str())
        }
        _ => None,
    }
}

/// The columns of the UNIQUE constraint of this name, if a table has one.
fn columns_of(made: &CreateStmt, name: &str) -> Option<Vec<String>> {
    let is_it =
        |constraint: &Constraint| constraint.contype == ConstrType::ConstrUnique as i32 && constraint.conname == *name;
    made.table_elts.iter().find_map(|element| match &element.node {
        Some(NodeEnum::ColumnDef(column)) => {
            let has_it = column.constraints.iter().filter_map(constraint_of).any(is_it);
            has_it.then(|| vec![column.colname.clone()])
        }
        _ => {
            let constraint = constraint_of(element).filter(|constraint| is_it(constraint))?;
            Some(constraint.keys.iter().filter_map(string_of).map(str::to_owned).collect())
        }
    })
}

/// Asks a shard for the names of the UNIQUE constraints of its table that have these columns.
fn asking(shard: &Shard, columns: &[String]) -> String {
    let columns: Vec<String> = columns.iter().map(|column| quoted(column)).collect();
    format!(
        "SELECT c.conname::text FROM pg_catalog.pg_constraint c \
         WHERE c.conrelid = pg_catalog.to_regclass({}) AND c.contype = 'u' AND ARRAY[{}]::text[] = \
         (SELECT pg_catalog.array_agg(a.attname::text ORDER BY k.place) \
         FROM pg_catalog.unnest(c.conkey) WITH ORDINALITY AS k (number, place) \
         JOIN pg_catalog.pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.number)",
        quoted(&physical(shard)),
        columns.join(", ")
    )
}

/// The one of several that is meant.
fn chosen(mut found: Vec<String>, name: &str, table: &ShardedTable, shard: &Shard) -> Result<Option<String>> {
    if found.len() < 2 {
        return Ok(found.pop());
    }
    let with_end = on_shard(name, table, shard)?;
    let place = found.iter().position(|own| *own == with_end).or_else(|| found.iter().position(|own| own == name));
    match place {
        Some(place) => Ok(Some(found.swap_remove(place))),
        None => {
            let why = format!("shard \"{}\" has several of its columns, and none of that name", shard.server);
            let message = format!("dropping constraint \"{name}\" is not supported: {why}");
            Err(Error::unsupported(message).with_hint("Drop it on the shards, and here after that."))
        }
    }
}
