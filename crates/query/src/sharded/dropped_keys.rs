//! Dropping primary keys and UNIQUE constraints: finds the name that each shard has for the constraint.
//!
//! The name differs between shards: a shard made the constraint with its table, or later with the suffix of its
//! table's name, or it was there when the table was attached. So each shard is asked for the constraint by its
//! columns. Called by `alter`, while nobody else changes tables.

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_shard::rules::Shard;
use pg_query::protobuf::AlterTableType;
use pg_query::{Node, NodeEnum};

use super::ShardedTable;
use super::ddl::physical;
use super::maintain::on_shard;
use super::rename::asked;
use super::rule::quoted;
use super::stored_definition::{StoredKey, StoredTable};
use crate::resources::StatementResources;

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
    /// Asks the shards of a table, which is `now` as it is.
    ///
    /// # Errors
    /// 0A000 where a shard has several and none of this name; 42P16 where it has another primary key; what a shard says.
    pub(super) async fn of(
        table: &ShardedTable,
        now: &StoredTable,
        cmds: &[Node],
        resources: &StatementResources,
    ) -> Result<Self> {
        let keys: Vec<&StoredKey> = cmds.iter().filter_map(dropped).filter_map(|name| now.key(name)).collect();
        let mut all = Vec::new();
        for key in keys {
            for shard in table.routed.rule.shards() {
                let found = asked(table, shard, &asking(shard, key), resources).await?;
                // One that has other columns comes without its name.
                if found.contains(&None) {
                    return Err(differs(table, shard));
                }
                let own = chosen(found.into_iter().flatten().collect(), &key.name, table, shard)?;
                all.push(There { name: key.name.clone(), shard: shard.clone(), own });
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

/// Asks a shard for the names of the constraints of its table that have a key's columns. There is one primary key at most: of other columns it
/// comes as NULL.
fn asking(shard: &Shard, key: &StoredKey) -> String {
    let columns: Vec<String> = key.columns.iter().map(|column| quoted(column)).collect();
    let is_it = format!(
        "ARRAY[{}]::text[] = (SELECT pg_catalog.array_agg(a.attname::text ORDER BY k.place) \
         FROM pg_catalog.unnest(c.conkey) WITH ORDINALITY AS k (number, place) \
         JOIN pg_catalog.pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.number)",
        columns.join(", ")
    );
    let (name, kind) = if key.is_primary {
        (format!("CASE WHEN {is_it} THEN c.conname::text END"), "c.contype = 'p'".to_owned())
    } else {
        ("c.conname::text".to_owned(), format!("c.contype = 'u' AND {is_it}"))
    };
    format!(
        "SELECT {name} FROM pg_catalog.pg_constraint c WHERE c.conrelid = pg_catalog.to_regclass({}) AND {kind}",
        quoted(&physical(shard))
    )
}

/// 42P16
fn differs(table: &ShardedTable, shard: &Shard) -> Error {
    let own = &table.schema.name;
    let message = format!("the primary key of table \"{own}\" has other columns on shard \"{}\"", shard.server);
    Error::new(ErrorCode::InvalidTableDefinition, message).with_hint("Drop it on that shard, and here after that.")
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
