//! Indexes and upkeep of sharded tables: the same on every shard.
//!
//! An index is kept with its table, as the statement that made it: its name is taken, and it can be dropped again. Where a shard's
//! table has another name than the table, its index has the same end to its name.

use std::slice;
use std::sync::Arc;

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_functions::quoting::quote_ident;
use ashlar_functions::tree::each_node_with_subqueries;
use ashlar_shard::catalog::Known;
use ashlar_shard::fleet::Fleet;
use ashlar_shard::rules::{Placement, Shard};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;
use pg_query::NodeEnum;
use pg_query::protobuf::{DropBehavior, DropStmt, IndexStmt, RangeVar, TruncateStmt, VacuumRelation, VacuumStmt};

use super::alter::{altering, find, truncate_text};
use super::ddl::{at_shard, check_followed, everywhere, for_each_server, of_server, physical};
use super::rule_constraints::leaving;
use super::stored_definition::{BETWEEN, StoredTable, changed, keep, kept_of};
use super::{ShardedTable, concurrently};
use crate::catalog::{CatalogState, Table};
use crate::ddl::{Done, free_name, object_name, relation_name};
use crate::engine::Engine;
use crate::grammar;
use crate::resources::StatementResources;
use crate::select::SelectPlan;
use crate::statement::statement_text;

/// Bytes of a name on a shard.
const NAME_BYTES_MAX: usize = 63;

/// Indexes, and the tables that they are on.
pub(crate) type Indexes = Vec<(String, Arc<ShardedTable>)>;

/// What servers are sent: names and statements.
pub type Work = Vec<(String, String)>;

fn add(work: &mut Work, more: Work) {
    for (server, text) in more {
        of_server(work, &server).push_str(&text);
    }
}

pub(super) fn in_block_refused(what: &str) -> Error {
    Error::unsupported(format!("{what} of a sharded table in a transaction block is not supported"))
}

/// What an index or a constraint of a table is called on a shard.
pub(super) fn on_shard(name: &str, table: &ShardedTable, shard: &Shard) -> Result<String> {
    named_on_shard(name, &table.schema.name, shard)
}

/// The same of the table of a name.
pub(super) fn named_on_shard(name: &str, own: &str, shard: &Shard) -> Result<String> {
    let name = match shard.table.strip_prefix(own) {
        Some(end) => format!("{name}{end}"),
        None => format!("{name}_{}", shard.table),
    };
    if name.len() <= NAME_BYTES_MAX {
        return Ok(name);
    }
    let message = format!("\"{name}\" would be too long a name on shard \"{}\"", shard.server);
    Err(Error::new(ErrorCode::InvalidName, message).with_hint("Give a shorter one."))
}

/// The table as it is named here.
fn relation_of(name: &str) -> RangeVar {
    RangeVar { relname: name.to_owned(), inh: true, relpersistence: "p".to_owned(), ..RangeVar::default() }
}

/// Indexes that are kept: their names and their tables'.
pub(super) fn indexes(known: &Known) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for (table, text) in &known.tables {
        let indexes = StoredTable::read(table, text)?.indexes;
        found.extend(indexes.into_iter().map(|index| (index.idxname, table.clone())));
    }
    Ok(found)
}

/// Whether a sharded table has an index of this name, its key's among them.
///
/// # Errors
/// Where what is kept of a table cannot be read.
pub(crate) fn has_index(engine: &Engine, name: &str) -> Result<bool> {
    let state = engine.catalog().current();
    let Some(fleet) = state.fleet().filter(|_| state.has_sharded()) else { return Ok(false) };
    let is_of_key = |table: &Table| matches!(table, Table::Sharded(table) if table.schema.key_name == name);
    Ok(state.tables().any(|(_, table)| is_of_key(table))
        || indexes(&fleet.catalog().known())?.iter().any(|(index, _)| index == name))
}

/// CREATE INDEX on a sharded table.
///
/// # Errors
/// 42P07, 42703; 55000 where the table is not what it was; 0A000 for a unique one that shards could not keep; what a shard says, and then none
/// has it.
pub(crate) async fn create_index(
    engine: &Engine,
    table: &Arc<ShardedTable>,
    statement: &IndexStmt,
    in_block: bool,
    resources: &StatementResources,
) -> Result<Done> {
    check_no_block("CREATE INDEX", statement.concurrent, in_block)?;
    let fleet = &table.fleet;
    let _altering = altering(engine, fleet, slice::from_ref(table)).await?;
    let own = table.schema.name.clone();
    let mut names = Vec::new();
    for parameter in &statement.index_params {
        let Some(NodeEnum::IndexElem(element)) = &parameter.node else { continue };
        if element.expr.is_none() && table.schema.column(&element.name).is_none() {
            let message = format!("column \"{}\" does not exist", element.name);
            return Err(Error::new(ErrorCode::UndefinedColumn, message));
        }
        names.push(if element.expr.is_none() { element.name.clone() } else { "expr".to_owned() });
    }
    check_unique(table, statement, &names)?;
    let state = engine.catalog().current();
    let taken = indexes(&fleet.catalog().known())?;
    let is_taken = |name: &str| state.is_relation(name) || taken.iter().any(|(index, _)| *index == *name);
    let name = match statement.idxname.as_str() {
        "" => free_name(&own, &names, "idx", is_taken),
        given => given.to_owned(),
    };
    if is_taken(&name) {
        let message = format!("relation \"{name}\" already exists");
        if !statement.if_not_exists {
            return Err(Error::new(ErrorCode::DuplicateTable, message));
        }
        return Ok(Done::notice("CREATE INDEX", ErrorCode::DuplicateTable, format!("{message}, skipping")));
    }
    let plain = IndexStmt {
        idxname: name.clone(),
        relation: Some(relation_of(&own)),
        if_not_exists: false,
        concurrent: false,
        ..statement.clone()
    };
    let kept = kept_of(fleet, &own)?;
    let text = format!("{kept}{BETWEEN}{}", statement_text(&NodeEnum::IndexStmt(Box::new(plain.clone())))?);
    if statement.concurrent {
        concurrently::create(table, &plain, resources).await?;
    } else {
        let work = for_each_server(table, |shard| {
            let mut sent = plain.clone();
            sent.idxname = on_shard(&name, table, shard)?;
            at_shard(&mut sent.relation, shard);
            statement_text(&NodeEnum::IndexStmt(Box::new(sent))).map(|text| format!("{text};"))
        })?;
        everywhere(fleet, resources, &work).await?;
    }
    keep(fleet, &own, &kept, &text)?;
    Ok(Done::tag("CREATE INDEX"))
}

/// 0A000 for a change of indexes in a transaction block; 25001 for one that PostgreSQL does not have there either.
fn check_no_block(what: &str, is_concurrent: bool, in_block: bool) -> Result<()> {
    match (in_block, is_concurrent) {
        (false, _) => Ok(()),
        (true, false) => Err(in_block_refused(what)),
        (true, true) => {
            let message = format!("{what} CONCURRENTLY cannot run inside a transaction block");
            Err(Error::new(ErrorCode::ActiveTransaction, message))
        }
    }
}

/// 0A000 where equal values could be on two shards.
fn check_unique(table: &ShardedTable, statement: &IndexStmt, names: &[String]) -> Result<()> {
    let rule = &table.routed.rule;
    let is_divided = rule.placement() == Placement::Sharded && rule.shards().len() > 1;
    let is_plain = |ordinal: &usize| names.contains(&table.schema.columns[*ordinal].name);
    if !statement.unique || !is_divided || rule.key().iter().all(is_plain) {
        return Ok(());
    }
    Err(Error::unsupported("a unique index of a sharded table that has not its whole sharding key is not supported")
        .with_hint("Equal values may be on different shards: add the columns of the sharding key."))
}

/// The sharded tables whose indexes a DROP INDEX names, with these; `None` where it names none of them.
///
/// # Errors
/// 0A000 where they are not all that it names.
pub(crate) fn dropped(engine: &Engine, statement: &DropStmt) -> Result<Option<Indexes>> {
    let state = engine.catalog().current();
    let Some(fleet) = state.fleet().filter(|_| state.has_sharded()) else { return Ok(None) };
    let known = indexes(&fleet.catalog().known())?;
    let (mut found, mut others) = (Vec::new(), 0);
    for object in &statement.objects {
        let Some(name) = object_name(object, true, &mut Done::tag(""))? else { continue };
        let of = known.iter().find(|(index, _)| *index == name);
        match of.and_then(|(_, table)| find(&state, table)) {
            Some(table) => found.push((name, table)),
            None => others += 1,
        }
    }
    match (found.is_empty(), others) {
        (true, _) => Ok(None),
        (false, 0) => Ok(Some(found)),
        (false, _) => {
            Err(Error::unsupported("DROP of an index of a sharded table together with others is not supported"))
        }
    }
}

/// What is kept of a table: its name, what it was, and what it is from now on.
type Rekept = (String, String, String);

/// What is kept of tables with and without these indexes.
///
/// # Errors
/// 55000 where one of the indexes is not there any more.
fn without(fleet: &Fleet, indexes: &Indexes) -> Result<Vec<Rekept>> {
    let mut all: Vec<Rekept> = Vec::new();
    for (name, table) in indexes {
        let own = &table.schema.name;
        let before = kept_of(fleet, own)?;
        if !StoredTable::read(own, &before)?.indexes.iter().any(|index| index.idxname == *name) {
            return Err(changed(own));
        }
        if all.iter().any(|(known, _, _)| known == own) {
            continue;
        }
        // Of one table all of them go at once.
        let is_dropped = |wanted: &str| indexes.iter().any(|(name, _)| name == wanted);
        let left = grammar::parse(&before)?
            .into_iter()
            .filter(|parsed| !matches!(&parsed.node, NodeEnum::IndexStmt(index) if is_dropped(&index.idxname)));
        let left: Vec<String> = left.map(|parsed| parsed.text).collect();
        all.push((own.clone(), before, left.join(BETWEEN)));
    }
    Ok(all)
}

/// DROP INDEX of sharded tables.
///
/// # Errors
/// 55000 where a table or an index is not what it was; what a shard says; then none has dropped any.
pub(crate) async fn drop_indexes(
    engine: &Engine,
    indexes: &Indexes,
    statement: &DropStmt,
    in_block: bool,
    resources: &StatementResources,
) -> Result<Done> {
    check_no_block("DROP INDEX", statement.concurrent, in_block)?;
    let cascades = statement.behavior == DropBehavior::DropCascade as i32;
    if statement.concurrent && indexes.len() > 1 {
        return Err(Error::unsupported("DROP INDEX CONCURRENTLY does not support dropping multiple objects"));
    }
    if statement.concurrent && cascades {
        return Err(Error::unsupported("DROP INDEX CONCURRENTLY does not support CASCADE"));
    }
    let Some((_, first)) = indexes.first() else { return Ok(Done::tag("DROP INDEX")) };
    let fleet = &first.fleet;
    let tables: Vec<Arc<ShardedTable>> = indexes.iter().map(|(_, table)| Arc::clone(table)).collect();
    let _altering = altering(engine, fleet, &tables).await?;
    let kept = without(fleet, indexes)?;
    let cascade = if cascades { " CASCADE" } else { "" };
    let mut work = Work::new();
    for (name, table) in indexes {
        if statement.concurrent {
            concurrently::drop_index(table, name, resources).await?;
            continue;
        }
        add(
            &mut work,
            for_each_server(table, |shard| {
                let index = quote_ident(&on_shard(name, table, shard)?);
                // What a crash has left dropped is made known.
                Ok(format!("DROP INDEX IF EXISTS {}.{index}{cascade};", quote_ident(&shard.schema)))
            })?,
        );
    }
    everywhere(fleet, resources, &work).await?;
    for (own, before, after) in kept {
        keep(fleet, &own, &before, &after)?;
    }
    Ok(Done::tag("DROP INDEX"))
}

/// DROP TABLE of several sharded tables at once.
///
/// # Errors
/// 55000 where one of them is not what it was; 2BP01 where another one has taken over the rule of one of them; what a shard says; then all of
/// them are there, unless the detail says where not.
pub(crate) async fn drop_tables(
    engine: &Engine,
    tables: &[Arc<ShardedTable>],
    resources: &StatementResources,
) -> Result<()> {
    let Some(first) = tables.first() else { return Ok(()) };
    // Nobody takes over a rule of theirs, or gives one another name, until they are gone.
    let _altering = altering(engine, &first.fleet, tables).await?;
    check_followed(&engine.catalog().current(), tables)?;
    let mut work = Work::new();
    for table in tables {
        add(&mut work, leaving(table)?);
    }
    let dropped = everywhere(&first.fleet, resources, &work).await;
    // What they have prepared is about tables that are gone: those of the same names would be others.
    work.iter().for_each(|(server, _)| first.fleet.forget(server));
    dropped?;
    first.fleet.catalog().change(|known| {
        tables.iter().for_each(|table| drop(known.tables.remove(&table.schema.name)));
        Ok(())
    })?;
    let mut draft = engine.catalog().draft();
    for table in tables {
        engine.catalog().put(&mut draft, &table.schema.name, None);
    }
    engine.catalog().publish(&draft, || Ok(())).map(drop)
}

/// The tables that a VACUUM or an ANALYZE names.
fn vacuumed(statement: &VacuumStmt) -> impl Iterator<Item = &VacuumRelation> {
    statement.rels.iter().filter_map(|relation| match &relation.node {
        Some(NodeEnum::VacuumRelation(relation)) => Some(relation),
        _ => None,
    })
}

/// Whether a VACUUM or an ANALYZE is about sharded tables.
///
/// # Errors
/// 0A000 where it is about others, too.
pub(crate) fn is_upkeep(catalog: &CatalogState, statement: &VacuumStmt) -> Result<bool> {
    if !catalog.has_sharded() {
        return Ok(false);
    }
    let (mut here, mut there) = (0, 0);
    for relation in vacuumed(statement) {
        match find(catalog, &relation_name(relation.relation.as_ref())?) {
            Some(_) => there += 1,
            None => here += 1,
        }
    }
    if here > 0 && there > 0 {
        return Err(Error::unsupported("VACUUM and ANALYZE of sharded tables together with others are not supported"));
    }
    Ok(there > 0)
}

/// VACUUM and ANALYZE of sharded tables: on one shard after the other.
///
/// # Errors
/// 25001; what a shard says, and then it is done on those before it.
pub(crate) async fn upkeep(
    engine: &Engine,
    statement: &VacuumStmt,
    in_block: bool,
    resources: &StatementResources,
) -> Result<Done> {
    let tag = if statement.is_vacuumcmd { "VACUUM" } else { "ANALYZE" };
    if in_block && statement.is_vacuumcmd {
        return Err(Error::new(ErrorCode::ActiveTransaction, "VACUUM cannot run inside a transaction block"));
    }
    let state = engine.catalog().current();
    for relation in vacuumed(statement) {
        let name = relation_name(relation.relation.as_ref())?;
        let table = find(&state, &name).ok_or_else(|| changed(&name))?;
        for shard in table.routed.rule.shards() {
            let mut own = relation.clone();
            at_shard(&mut own.relation, shard);
            let rels = vec![pg_query::Node { node: Some(NodeEnum::VacuumRelation(own)) }];
            let text = statement_text(&NodeEnum::VacuumStmt(VacuumStmt { rels, ..statement.clone() }))?;
            let (fleet, settings) = (&table.fleet, resources.settings_of_shards());
            let from = (fleet.pool_of_queries(), None);
            let mut lease = fleet.lend(from, &shard.server, &resources.role, &settings).await?;
            lease.run(&text).await?;
        }
        // They have counted its rows.
        table.sizes.forget();
    }
    Ok(Done::tag(tag))
}

/// What servers are sent for a TRUNCATE of sharded tables, to be a part of a transaction; `None` where it is about others.
///
/// # Errors
/// 3F000
pub fn truncating(state: &CatalogState, statement: &TruncateStmt) -> Result<Option<Work>> {
    if !state.has_sharded() {
        return Ok(None);
    }
    let mut lists: Vec<(String, Vec<String>)> = Vec::new();
    for relation in &statement.relations {
        let Some(NodeEnum::RangeVar(relation)) = &relation.node else { return Ok(None) };
        let Some(table) = find(state, &relation_name(Some(relation))?) else { return Ok(None) };
        for shard in table.routed.rule.shards() {
            of_server(&mut lists, &shard.server).push(physical(shard));
        }
    }
    let text = |names: Vec<String>| truncate_text(statement, &names.join(", "));
    Ok(Some(lists.into_iter().map(|(server, names)| (server, text(names))).collect()))
}

/// The first sharded table of a TRUNCATE that one of these queries reads.
///
/// # Errors
/// 3F000
pub fn read_by(state: &CatalogState, statement: &TruncateStmt, queries: &[&SelectPlan]) -> Result<Option<String>> {
    if queries.is_empty() {
        return Ok(None);
    }
    for relation in &statement.relations {
        let Some(NodeEnum::RangeVar(relation)) = &relation.node else { continue };
        let name = relation_name(Some(relation))?;
        if find(state, &name).is_some() && queries.iter().any(|query| scans(query.logical(), &name)) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn scans(plan: &LogicalPlan, name: &str) -> bool {
    let mut found = false;
    let walked = each_node_with_subqueries(plan, |node| {
        found |= matches!(node, LogicalPlan::TableScan(scan) if scan.table_name.table() == name);
        Ok(TreeNodeRecursion::Continue)
    });
    found || walked.is_err()
}
