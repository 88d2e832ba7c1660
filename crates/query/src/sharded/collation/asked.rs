//! Asks the servers of a plan for the order of their texts.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ashlar_base::Result;
use ashlar_functions::error::from_datafusion;
use ashlar_functions::tree::each_node_with_subqueries;
use ashlar_shard::backend::Settings;
use ashlar_shard::collation;
use ashlar_shard::fleet::Fleet;
use ashlar_shard::pool::Lease;
use ashlar_shard::rules::Placement;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;

use super::provider_of;
use crate::resources::{Barrier, StatementResources};
use crate::sharded::ShardedTable;

/// In which order texts of shards are.
pub(crate) enum TextOrder {
    /// That of their bytes.
    Bytes,
    /// One that all servers have, of which any of them knows the ranks.
    Ranks(Ranker),
}

/// Whom ranks of texts are asked of.
#[derive(Clone)]
pub(crate) struct Ranker {
    fleet: Arc<Fleet>,
    /// Which of its servers.
    pub(super) server: Arc<str>,
}

impl fmt::Debug for Ranker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ranker").field(&self.server).finish()
    }
}

impl PartialEq for Ranker {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.fleet, &other.fleet) && self.server == other.server
    }
}

impl Eq for Ranker {}

impl Hash for Ranker {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.server.hash(state);
    }
}

impl Ranker {
    /// Borrows a connection to it.
    ///
    /// # Errors
    /// As [`Fleet::lend`].
    pub(super) async fn lend(&self, role: &str, reads_replicas: bool) -> Result<Lease> {
        let (settings, from) = (Settings::default(), (self.fleet.pool_of_queries(), None));
        match reads_replicas {
            true => self.fleet.lend_for_reading(from, &self.server, role, &settings).await,
            false => self.fleet.lend(from, &self.server, role, &settings).await,
        }
    }
}

/// Asks the servers of the plan's sharded tables; each answers at once where its texts are in the order of their bytes, as was said at login.
/// Where they are not the same order, or that cannot be told, as when one cannot be asked, it is that of bytes: scans refuse a server that
/// they read and that has another one.
///
/// # Errors
/// As DataFusion's traversal.
pub(crate) async fn order(plan: &LogicalPlan, resources: &StatementResources) -> Result<TextOrder> {
    // Nothing is read then, and the scan says why.
    if resources.barrier == Barrier::Snapshot || is_known_in_bytes(plan)? {
        return Ok(TextOrder::Bytes);
    }
    let tables = tables_of(plan)?;
    let mut servers: BTreeMap<Arc<str>, Ranker> = BTreeMap::new();
    for table in &tables {
        let rule = &table.routed.rule;
        let read = match rule.placement() {
            Placement::Sharded => rule.shards().len(),
            // Every one has all of it.
            Placement::Broadcast | Placement::Single => 1,
        };
        for shard in &rule.shards()[..read] {
            let ranker = Ranker { fleet: Arc::clone(&table.fleet), server: Arc::clone(&shard.server) };
            servers.entry(Arc::clone(&shard.server)).or_insert(ranker);
        }
    }
    let questions = servers.values().map(|ranker| look(ranker, resources));
    let Ok(found) = futures::future::try_join_all(questions.collect::<Vec<_>>()).await else {
        return Ok(TextOrder::Bytes);
    };
    let is_one = found.windows(2).all(|pair| pair[0] == pair[1]);
    match (found.first(), servers.into_values().next()) {
        (Some(Found::Bytes), _) if is_one => {
            tables.iter().for_each(|table| table.is_in_bytes.store(true, Ordering::Relaxed));
            Ok(TextOrder::Bytes)
        }
        (Some(Found::Other(Some(_))), Some(ranker)) if is_one => Ok(TextOrder::Ranks(ranker)),
        _ => Ok(TextOrder::Bytes),
    }
}

/// Whether all servers of the plan's sharded tables have said that their texts are in the order of their bytes.
///
/// # Errors
/// As DataFusion's traversal.
pub(crate) fn is_known_in_bytes(plan: &LogicalPlan) -> Result<bool> {
    Ok(tables_of(plan)?.iter().all(|table| table.is_in_bytes.load(Ordering::Relaxed)))
}

fn tables_of(plan: &LogicalPlan) -> Result<Vec<Arc<ShardedTable>>> {
    let mut tables = Vec::new();
    let walked = each_node_with_subqueries(plan, |node| {
        tables.extend(provider_of(node).map(|provider| Arc::clone(provider.table())));
        Ok(TreeNodeRecursion::Continue)
    });
    walked.map_err(from_datafusion)?;
    Ok(tables)
}

/// What a server says of the order of its texts.
#[derive(PartialEq)]
enum Found {
    Bytes,
    /// What tells it from others.
    Other(Option<String>),
}

async fn look(ranker: &Ranker, resources: &StatementResources) -> Result<Found> {
    let mut lease = ranker.lend(&resources.role, resources.reads_replicas).await?;
    if lease.is_c_collated() {
        lease.abandon();
        return Ok(Found::Bytes);
    }
    let identity = collation::identity_of(&mut lease).await?;
    Ok(Found::Other(identity))
}
