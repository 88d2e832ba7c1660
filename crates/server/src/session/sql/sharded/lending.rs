//! Connections to shards that a session borrows, to a primary or to a replica.
//!
//! Called by whatever sends a statement to a shard. A lease goes back to the pool of its thread when it is dropped.

use std::sync::Arc;

use ashlar_base::Result;
use ashlar_shard::fleet::Fleet;
use ashlar_shard::pool::{Lease, Pool};

use super::super::{Block, SqlSession};

impl SqlSession {
    /// Connections, and those of this thread.
    pub(super) fn pool(&mut self) -> Result<(Arc<Fleet>, Arc<Pool>)> {
        let fleet = self.fleet()?;
        let pool = Arc::clone(self.pool.get_or_insert_with(|| fleet.pool_of_thread()));
        Ok((fleet, pool))
    }

    /// Borrows a connection that may write.
    pub(super) async fn lend(&mut self, server: &str) -> Result<Lease> {
        self.lend_one(server, false).await
    }

    /// Borrows a connection that only reads, to a replica where the session wants that.
    pub(super) async fn lend_to_read(&mut self, server: &str) -> Result<Lease> {
        let from_replica = self.may_read_replicas();
        self.lend_one(server, from_replica).await
    }

    /// Whether what is read now may come from replicas: a transaction that may write reads where it writes.
    pub(super) fn may_read_replicas(&self) -> bool {
        self.settings.reads_replicas && self.remotes.is_empty() && (self.block == Block::None || self.is_read_only())
    }

    pub(super) async fn lend_one(&mut self, server: &str, from_replica: bool) -> Result<Lease> {
        let (fleet, pool) = self.pool()?;
        let settings = self.settings.of_shards.clone();
        self.review_keep();
        let from = (&pool, self.keep.as_ref());
        let lease = tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(self.cancel.error()),
            lease = async {
                match from_replica {
                    true => fleet.lend_for_reading(from, server, &self.role, &settings).await,
                    false => fleet.lend(from, server, &self.role, &settings).await,
                }
            } => lease,
        }?;
        self.note_asked(&lease.server().name);
        Ok(lease)
    }

    /// Makes room for connections that stay, where the session wants that; gives those up that it has, where it does not any more and
    /// no transaction goes on that could want it again.
    pub(in crate::session::sql) fn review_keep(&mut self) {
        if self.settings.keeps_connections {
            self.keep.get_or_insert_default();
        } else if self.keep.is_some() && self.block == Block::None && self.remotes.is_empty() {
            self.keep = None;
        }
    }
}
