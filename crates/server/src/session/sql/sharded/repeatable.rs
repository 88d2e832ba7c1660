//! REPEATABLE READ over several shards: one moment for all statements of the transaction, on all servers with sharded
//! tables.
//!
//! ```text
//! first statement ──▶ snapshots of all shards, taken together ──▶ connections of the transaction, and of what the engine reads, see these
//! ```
//!
//! Taken if the first statement about shards needs several of them, or if the session asks for snapshots anyway. A
//! transaction whose first such statement needs one shard only has that shard's own snapshot. Tables of this server are
//! never part of that moment, so a transaction reads either those or sharded tables. Called by `start`, `query` and
//! `run_routed`.

use std::sync::Arc;

use ashlar_base::{Error, Result};
use ashlar_query::StatementResources;
use ashlar_query::ddl::Ddl;
use ashlar_query::sharded::{Homes, moment_of_each, moment_of_transaction};
use ashlar_query::statement::Kind;
use ashlar_query::transaction::{Isolation, Transaction};
use ashlar_shard::snapshot::Moment;

use super::super::run::select_of;
use super::SqlSession;
use super::remotes::stoppable;

impl SqlSession {
    /// The moment that the transaction sees on all shards, from now on if it has none; `None`: it cannot have one any more.
    pub(super) fn common(&mut self) -> Option<Arc<Moment>> {
        if self.common.is_none() && self.remotes.is_empty() && !self.has_begun_here() {
            self.common = moment_of_transaction(&self.catalog(), &self.role);
        }
        self.common.clone()
    }

    /// The moment that a connection of the transaction is to see from its first statement on: taken now, if it is not yet.
    ///
    /// # Errors
    /// As [`Moment::take`].
    pub(super) async fn common_to_begin(&mut self, isolation: Isolation) -> Result<Option<Arc<Moment>>> {
        let is_wanted = self.common.is_some() || self.settings.sharded_snapshots;
        if isolation != Isolation::RepeatableRead || !is_wanted {
            return Ok(None);
        }
        let Some(moment) = self.common() else { return Ok(None) };
        // On the query pool, where those who read it are.
        let engine = self.engine()?;
        let taken = async { engine.on_pool(Arc::clone(&moment).take()).await.flatten() };
        stoppable(taken, &self.cancel).await?;
        Ok(Some(moment))
    }

    /// The moment that a query of the engine's sees, where its transaction sees one: `None` where it reads no shard, or each statement of the
    /// transaction sees its own.
    ///
    /// # Errors
    /// 0A000 where the query cannot see one moment of all that it reads.
    pub(in crate::session::sql) fn common_of(&mut self, homes: Homes) -> Result<Option<Arc<Moment>>> {
        if !homes.shards || self.isolation() != Isolation::RepeatableRead {
            return Ok(None);
        }
        if homes.memory || self.has_begun_here() {
            return Err(apart());
        }
        self.common().map(Some).ok_or_else(|| {
            Error::unsupported("a query over several shards at isolation level REPEATABLE READ is not supported")
                .with_hint("Begin the transaction with this query, or after SET sharded_reads = 'snapshot'.")
        })
    }

    /// 0A000 where a statement reads tables of this server in a transaction that sees one moment, and has that of shards.
    pub(in crate::session::sql) fn check_moment(&self, statement: &ashlar_query::Statement) -> Result<()> {
        let has_shards = self.common.is_some() || self.has_remote();
        if !has_shards || self.isolation() != Isolation::RepeatableRead {
            return Ok(());
        }
        let query = match &statement.kind {
            Kind::Key(_) | Kind::WithChanges(_) => return Err(apart()),
            Kind::Ddl(Ddl::CreateAs(table)) => Some(table.select.as_ref()),
            _ => select_of(statement),
        };
        if query.is_some_and(|query| Homes::of(query).memory) { Err(apart()) } else { Ok(()) }
    }

    /// 0A000 where a statement of one shard comes, in a transaction that sees one moment, after one that has a snapshot of this server. What
    /// has its own snapshot of the shard by then may go on writing there.
    pub(super) fn check_moment_of(&self, server: &str, is_write: bool) -> Result<()> {
        let is_known = self.remotes.iter().any(|remote| *remote.server == *server);
        let goes_on = is_write && is_known;
        if !goes_on && self.isolation() == Isolation::RepeatableRead && self.has_begun_here() {
            return Err(apart());
        }
        Ok(())
    }

    /// What a query is to see of shards, where that is not what each of its scans finds: what its transaction sees of all, and what it sees of
    /// each when it begins, where it `stays` while other statements run.
    pub(in crate::session::sql) fn settle_moment(
        &self,
        resources: &mut StatementResources,
        common: Option<Arc<Moment>>,
        stays: bool,
        homes: Homes,
    ) {
        if common.is_some() {
            resources.barrier = self.written();
            resources.moment = common;
        }
        resources.is_fixed = stays && homes.shards;
        if resources.is_fixed && resources.moment.is_none() {
            resources.moment = moment_of_each(&self.catalog(), &self.role, resources.reads_replicas);
        }
    }

    /// Whether the transaction has a snapshot of this server.
    fn has_begun_here(&self) -> bool {
        self.transaction.as_ref().is_some_and(Transaction::has_begun)
    }
}

/// 0A000
fn apart() -> Error {
    Error::unsupported("reading shards and tables of this server at isolation level REPEATABLE READ is not supported")
        .with_hint("Shards have no snapshot together with this server: use READ COMMITTED.")
}
