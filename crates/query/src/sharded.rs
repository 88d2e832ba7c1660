//! The sharded home: tables whose rows live in a fleet of PostgreSQL servers.
//!
//! Covers what the catalog keeps of such a table, how statements about it are planned, and what the engine reads of it
//! if one shard alone cannot answer. Which shard has which rows, and what it is sent, is decided in `ashlar_shard`.

mod aggregates;
pub(crate) mod alter;
mod attach;
mod batches;
mod checks;
pub(crate) mod collation;
pub(crate) mod comments;
mod concurrently;
mod copies;
mod copy;
pub mod ddl;
pub mod declared;
mod default_placement;
mod dropped_keys;
mod filters;
mod first_rows;
mod homes;
mod keys;
pub(crate) mod maintain;
mod plan;
pub(crate) mod rename;
mod retyped;
pub(crate) mod rule;
mod rule_constraints;
mod scan;
pub(crate) mod sizes;
mod snapshot_servers;
mod stored_definition;
mod table;
pub(crate) mod transaction_reads;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ashlar_base::{Result, TableSchema};
use ashlar_shard::fleet::Fleet;
use ashlar_shard::snapshot::Moment;
use ashlar_shard::{health, route, two_phase};
use datafusion::datasource::TableProvider;
use pg_query::protobuf::RangeVar;

pub(crate) use aggregates::ShardAggregates;
pub(crate) use checks::free_of_table;
pub use copy::{CopyInto, KeySource};
pub use default_placement::{by_default, is_open};
pub(crate) use first_rows::ShardFirstRows;
pub use homes::Homes;
pub use maintain::{Work, read_by, truncating};
pub(crate) use plan::why_by_engine;
pub use plan::{ShardedPlan, is_gathered, is_one_shard};
pub use scan::Asking;
pub(crate) use table::{VERSION_TYPE, bytes_of_texts, version};
pub use transaction_reads::{OwnRead, Piece};

use crate::catalog::{CatalogState, Table};

/// A sharded table, as the catalog keeps it.
pub struct ShardedTable {
    /// Its columns and its key; it has no hidden one.
    pub schema: Arc<TableSchema>,
    /// The same as the router reads it, with the rule of its rows.
    pub routed: Arc<route::ShardedTable>,
    /// Whether its tables were there before it was made.
    pub(crate) attached: bool,
    /// Where its shards are.
    pub(crate) fleet: Arc<Fleet>,
    /// How many rows they have of it.
    pub(crate) sizes: sizes::Sizes,
    /// All of its servers have said that their texts are in the order of their bytes. Whoever reads it looks again.
    pub(crate) is_in_bytes: AtomicBool,
    /// What COMMENT says of it.
    pub(crate) comments: comments::TableComments,
}

impl ShardedTable {
    /// What the engine scans.
    pub(crate) fn provider(self: &Arc<Self>) -> Arc<dyn TableProvider> {
        Arc::new(table::ShardedProvider::new(self))
    }

    /// Its columns and its rows where rows are to be changed: with a last column, hidden from users, that tells versions of rows apart.
    pub(crate) fn versioned(self: &Arc<Self>) -> (Arc<TableSchema>, Arc<dyn TableProvider>) {
        let schema = table::with_version(&self.schema);
        let rows = Arc::new(table::ShardedProvider::of_columns(self, &schema.columns));
        (Arc::new(schema), rows)
    }

    /// What it said in WITH, as `name=value`.
    pub(crate) fn options(&self) -> Vec<String> {
        let attached = self.attached.then(|| "attach=true".to_owned());
        self.routed.rule.options().iter().map(|(name, value)| format!("{name}={value}")).chain(attached).collect()
    }
}

/// One moment on all servers that have tables; `None` where there are none.
pub fn moment(catalog: &CatalogState, role: &Arc<str>) -> Option<Arc<Moment>> {
    let (fleet, servers) = servers_with_tables(catalog)?;
    Some(Arc::new(Moment::new(fleet, Arc::clone(role), servers)))
}

/// The same for all statements of a transaction.
pub fn moment_of_transaction(catalog: &CatalogState, role: &Arc<str>) -> Option<Arc<Moment>> {
    let (fleet, servers) = servers_with_tables(catalog)?;
    Some(Arc::new(Moment::of_transaction(fleet, Arc::clone(role), servers)))
}

fn servers_with_tables(catalog: &CatalogState) -> Option<(Arc<Fleet>, Vec<Arc<str>>)> {
    let mut servers: BTreeSet<&Arc<str>> = BTreeSet::new();
    for (_, table) in catalog.tables() {
        if let Table::Sharded(table) = table {
            servers.extend(table.routed.rule.shards().iter().map(|shard| &shard.server));
        }
    }
    let fleet = catalog.fleet().filter(|_| !servers.is_empty())?;
    Some((Arc::clone(fleet), servers.into_iter().cloned().collect()))
}

/// A moment of each server that a statement reads; `None` where there are no servers.
pub fn moment_of_each(catalog: &CatalogState, role: &Arc<str>, from_replicas: bool) -> Option<Arc<Moment>> {
    let fleet = catalog.fleet()?;
    Some(Arc::new(Moment::of_each(Arc::clone(fleet), Arc::clone(role), from_replicas)))
}

/// A picture of the catalog, as the router asks it.
pub(crate) struct Names<'a>(pub(crate) &'a CatalogState);

impl route::Tables for Names<'_> {
    fn find(&self, schema: Option<&str>, name: &str) -> route::Found {
        match schema {
            None | Some("public") => {}
            Some(_) => return route::Found::Elsewhere,
        }
        match self.0.table(name) {
            Some(Table::Sharded(table)) => route::Found::Sharded(Arc::clone(&table.routed)),
            Some(Table::Grid(_) | Table::File(_)) => route::Found::Elsewhere,
            None if crate::system_tables::is_known("pg_catalog", name) => route::Found::Elsewhere,
            None => route::Found::Unknown,
        }
    }
}

/// The table of a fleet that a statement writes to; `None`: it is another one.
pub(crate) fn written_to<'c>(catalog: &'c CatalogState, relation: Option<&RangeVar>) -> Option<&'c Arc<ShardedTable>> {
    let relation = relation?;
    if !matches!(relation.schemaname.as_str(), "" | "public") {
        return None;
    }
    match catalog.table(&relation.relname)? {
        Table::Sharded(table) => Some(table),
        Table::Grid(_) | Table::File(_) => None,
    }
}

/// Opens what the fleet's catalog knows, at start: its tables are tables again.
///
/// # Errors
/// What is wrong with what was kept.
pub fn open(engine: &crate::Engine, fleet: &Arc<Fleet>, recovery: two_phase::Recovery) -> Result<()> {
    engine.catalog().set_fleet(Arc::clone(fleet));
    drop(engine.spawn(two_phase::recover(Arc::downgrade(fleet), recovery))?);
    drop(engine.spawn(health::watch(Arc::downgrade(fleet)))?);
    let own = Arc::clone(fleet);
    // Its connections are driven by the runtime on which it is first asked for.
    drop(engine.spawn(async move { drop(Arc::clone(own.pool_of_queries())) })?);
    let known = fleet.catalog().known();
    // A table may be placed as another one is: those that fail are tried again, as long as that gets further.
    let mut left: Vec<(&String, &String)> = known.tables.iter().collect();
    loop {
        let before = left.len();
        let mut failure = None;
        left.retain(|(name, statement)| match ddl::reopen(engine, fleet, name, statement) {
            Ok(()) => false,
            Err(error) => {
                failure = Some(error);
                true
            }
        });
        match failure {
            None => return Ok(()),
            Some(error) if left.len() == before => return Err(error),
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod test_fleet;
#[cfg(test)]
mod tests;
