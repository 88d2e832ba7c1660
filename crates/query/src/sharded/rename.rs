//! ALTER TABLE ... RENAME of sharded tables: a column or the table gets its new name on every shard, or on none.
//!
//! The name of a table is also the beginning of its name on the shards, before their suffixes. So the tables on the
//! shards are renamed with it, and another Ashlar server can attach them by the new name. If a crash comes between
//! the renaming on the shards and its record here, the same statement completes it.

use std::sync::Arc;

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_functions::quoting::quote_ident;
use ashlar_shard::backend::Settings;
use ashlar_shard::rules::{Extension, Shard};
use pg_query::NodeEnum;
use pg_query::protobuf::{ObjectType, RenameStmt};

use super::ShardedTable;
use super::alter::{check_free, check_rule, duplicate, find, make_known, other_form, redefined, redefined_as};
use super::attach::{self, texts};
use super::ddl::{at_shard, done_but, everywhere, of_server, physical};
use super::maintain::{Work, in_block_refused, indexes};
use super::rule::{check_alone, quoted};
use super::stored_definition::{BETWEEN, StoredTable, changed, kept_of};
use crate::catalog::Table;
use crate::ddl::Done;
use crate::engine::Engine;
use crate::resources::StatementResources;
use crate::statement::statement_text;

/// ALTER TABLE ... RENAME COLUMN and RENAME TO of a sharded table.
///
/// # Errors
/// 0A000 for another change, of columns of the rule, and of a table whose rule another one has taken over; 42701, 42703, 42P07; what a shard
/// says. Then nothing has another name anywhere.
pub(crate) async fn rename(
    engine: &Engine,
    table: &Arc<ShardedTable>,
    statement: &RenameStmt,
    in_block: bool,
    resources: &StatementResources,
) -> Result<Done> {
    if in_block {
        return Err(in_block_refused("ALTER TABLE"));
    }
    let is_of_table = statement.relation_type == ObjectType::ObjectTable as i32;
    match ObjectType::try_from(statement.rename_type) {
        Ok(ObjectType::ObjectColumn) if is_of_table => rename_column(engine, table, statement, resources).await,
        Ok(ObjectType::ObjectTable) => rename_table(engine, table, statement, resources).await,
        _ => Err(other_form()),
    }
}

async fn rename_column(
    engine: &Engine,
    table: &Arc<ShardedTable>,
    statement: &RenameStmt,
    resources: &StatementResources,
) -> Result<Done> {
    let (from, to) = (&statement.subname, &statement.newname);
    if table.schema.column(from).is_none() {
        return Err(Error::new(ErrorCode::UndefinedColumn, format!("column \"{from}\" does not exist")));
    }
    check_free(table, from, "renamed")?;
    if table.schema.column(to).is_some() {
        return Err(duplicate(table, to));
    }
    let fleet = &table.fleet;
    let _altering = fleet.altering().lock().await;
    let before = kept_of(fleet, &table.schema.name)?;
    let plain = RenameStmt { missing_ok: false, ..statement.clone() };
    let text = format!("{before}{BETWEEN}{}", statement_text(&NodeEnum::RenameStmt(Box::new(plain.clone())))?);
    let altered = redefined(engine, table, &text)?;
    check_rule(table, &altered)?;
    let mut work = Work::new();
    for shard in table.routed.rule.shards() {
        let names = format!(
            "SELECT attname::text FROM pg_catalog.pg_attribute WHERE attrelid = pg_catalog.to_regclass({}) \
             AND attname IN ({}, {}) AND attnum > 0 AND NOT attisdropped",
            quoted(&physical(shard)),
            quoted(from),
            quoted(to)
        );
        if is_only(&asked(table, shard, &names, resources).await?, to) {
            continue;
        }
        let mut sent = plain.clone();
        at_shard(&mut sent.relation, shard);
        let text = statement_text(&NodeEnum::RenameStmt(Box::new(sent)))?;
        of_server(&mut work, &shard.server).push_str(&format!("{text};"));
    }
    let left = everywhere(fleet, resources, &work).await.map_err(again)?;
    // What they have prepared has other columns now, and would be refused there.
    table.routed.rule.shards().iter().for_each(|shard| fleet.forget(&shard.server));
    make_known(engine, altered, &before, &text)?;
    Ok(done_but(Done::tag("ALTER TABLE"), &left))
}

async fn rename_table(
    engine: &Engine,
    table: &Arc<ShardedTable>,
    statement: &RenameStmt,
    resources: &StatementResources,
) -> Result<Done> {
    let (from, to) = (&table.schema.name, &statement.newname);
    let fleet = &table.fleet;
    let catalog = engine.catalog();
    let _altering = fleet.altering().lock().await;
    let state = catalog.current();
    let exists = || Error::new(ErrorCode::DuplicateTable, format!("relation \"{to}\" already exists"));
    if state.is_relation(to) || indexes(&fleet.catalog().known())?.iter().any(|(index, _)| index == to) {
        return Err(exists());
    }
    check_alone(&state, from)?;
    let before = kept_of(fleet, from)?;
    let plain = RenameStmt { missing_ok: false, ..statement.clone() };
    let text = format!("{before}{BETWEEN}{}", statement_text(&NodeEnum::RenameStmt(Box::new(plain)))?);
    let altered = Arc::new(redefined_as(engine, table, &text, to)?);
    let work = renaming(table, &altered, &text, resources).await?;
    // Who is first with a name has it, whoever is making a table of that name among them: from now on until it is known what has become of
    // this one.
    let mut taken = catalog.draft();
    if taken.state().is_relation(to) {
        return Err(exists());
    }
    catalog.put(&mut taken, to, Some(Table::Sharded(Arc::clone(&altered))));
    catalog.publish(&taken, || Ok(()))?;
    let give_back = || {
        let mut draft = catalog.draft();
        if find(draft.state(), to).is_none_or(|now| !Arc::ptr_eq(&now, &altered)) {
            return Ok(());
        }
        catalog.put(&mut draft, to, None);
        catalog.publish(&draft, || Ok(())).map(drop)
    };
    let renamed = everywhere(fleet, resources, &work).await.map_err(again);
    // What they have prepared is about names that are none any more.
    table.routed.rule.shards().iter().for_each(|shard| fleet.forget(&shard.server));
    let kept = renamed.and_then(|left| {
        fleet.catalog().change(|known| match known.tables.get(from) {
            Some(now) if *now == before && !known.tables.contains_key(to) => {
                known.tables.remove(from);
                known.tables.insert(to.clone(), text);
                Ok(left)
            }
            _ => Err(changed(from)),
        })
    });
    let left = match kept {
        Ok(left) => left,
        Err(error) => {
            give_back()?;
            return Err(error);
        }
    };
    let mut draft = catalog.draft();
    catalog.put(&mut draft, from, None);
    catalog.put(&mut draft, to, Some(Table::Sharded(altered)));
    catalog.publish(&draft, || Ok(()))?;
    Ok(done_but(Done::tag("ALTER TABLE"), &left))
}

/// What the shards are sent to rename their tables: nothing where all of them have done so, and it is not known here.
///
/// # Errors
/// 55000 where some have; 42P16 where what has the new name is another table.
async fn renaming(
    table: &ShardedTable,
    altered: &ShardedTable,
    text: &str,
    resources: &StatementResources,
) -> Result<Work> {
    let mut work = Work::new();
    let mut count = 0;
    let shards = table.routed.rule.shards();
    for (old, new) in shards.iter().zip(altered.routed.rule.shards()) {
        let (was, is) = (physical(old), physical(new));
        let names = format!(
            "SELECT name FROM (VALUES ({}), ({})) AS names (name) WHERE pg_catalog.to_regclass(name) IS NOT NULL",
            quoted(&was),
            quoted(&is)
        );
        count += usize::from(is_only(&asked(table, old, &names, resources).await?, &is));
        let text = format!("ALTER TABLE {was} RENAME TO {};", quote_ident(&new.table));
        of_server(&mut work, &old.server).push_str(&text);
    }
    if count == 0 {
        return Ok(work);
    }
    if count < shards.len() {
        return Err(changed(&table.schema.name));
    }
    let now = StoredTable::read(&altered.schema.name, text)?;
    attach::check(altered, &now.made, resources, false, &Extension::default()).await?;
    Ok(Work::new())
}

/// The only column of a shard's answer.
pub(super) async fn asked(
    table: &ShardedTable,
    shard: &Shard,
    sql: &str,
    resources: &StatementResources,
) -> Result<Vec<Option<String>>> {
    let origin = (table.fleet.pool_of_queries(), None);
    let mut lease = table.fleet.lend(origin, &shard.server, &resources.role, &Settings::default()).await?;
    texts(&mut lease, sql).await
}

/// Whether a shard has something of this name, which is written as in SQL.
pub(super) async fn is_there(
    table: &ShardedTable,
    shard: &Shard,
    name: &str,
    resources: &StatementResources,
) -> Result<bool> {
    let there = format!("SELECT pg_catalog.to_regclass({})::text", quoted(name));
    Ok(asked(table, shard, &there, resources).await?.iter().any(Option::is_some))
}

fn is_only(found: &[Option<String>], name: &str) -> bool {
    matches!(found, [Some(only)] if only == name)
}

fn again(error: Error) -> Error {
    let is_unknown = error.code() == ErrorCode::TransactionResolutionUnknown;
    if is_unknown { error.with_hint("Rename it again.") } else { error }
}
