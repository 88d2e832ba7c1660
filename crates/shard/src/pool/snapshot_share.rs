//! The share of the query pool's connections that may hold snapshots, or read them while other statements run, as
//! behind a cursor: half of the pool's limit, so that other queries always find connections.
//!
//! Called by `snapshot` before it borrows any. They are counted per requested server, whichever member of its group is
//! used. A request that will outlive its statement never waits: a holder of one snapshot that waits for another could
//! wait for somebody who does the same.

use std::time::Duration;

use ashlar_base::{Error, ErrorCode, Result};
use tokio::sync::OwnedSemaphorePermit;

use super::{Pool, Purpose};

/// How long those are waited for whose transaction or cursor has just ended: they are on their way back, which takes a round trip.
const GIVEN_BACK: Duration = Duration::from_millis(200);

/// The right to keep a snapshot of a server, or to read one for long, until it is dropped.
#[derive(Debug)]
pub(crate) struct Keeping {
    _counted: Option<OwnedSemaphorePermit>,
}

impl Pool {
    /// The right to keep a snapshot of a server. `stays`: while other statements run.
    ///
    /// # Errors
    /// 53300 where as many are kept as may be.
    pub(crate) async fn keeping(&self, server: &str, stays: bool) -> Result<Keeping> {
        if self.purpose == Purpose::Sessions {
            // One statement's, which has the connections that it reads by already.
            return Ok(Keeping { _counted: None });
        }
        self.counted(server, 1, stays).await
    }

    /// The right to read a snapshot of a server, which is kept, by so many connections while other statements run. Who wants more of them than
    /// there may ever be has all others' instead: then nobody else keeps or reads any.
    ///
    /// # Errors
    /// 53300 where as many are kept and read as may be.
    pub(crate) async fn reading(&self, server: &str, connections: usize) -> Result<Keeping> {
        let others = self.bounds.of(server, &self.config).keeping_max() - 1;
        self.counted(server, connections.min(others), true).await
    }

    async fn counted(&self, server: &str, connections: usize, stays: bool) -> Result<Keeping> {
        let rights = self.bounds.of(server, &self.config).keeping();
        let wait_max = if stays { GIVEN_BACK.min(self.config.wait_max) } else { self.config.wait_max };
        let count = u32::try_from(connections).unwrap_or(u32::MAX);
        match tokio::time::timeout(wait_max, rights.acquire_many_owned(count)).await {
            Ok(Ok(right)) => Ok(Keeping { _counted: Some(right) }),
            Ok(Err(_)) => Err(Error::internal("snapshots of shards are not counted any more")),
            Err(_) => Err(too_many(server)),
        }
    }
}

/// 53300
fn too_many(server: &str) -> Error {
    let message = format!("no snapshot of shard \"{server}\" can be kept: as many are kept and read as may be");
    Error::new(ErrorCode::TooManyConnections, message)
        .with_hint("End transactions of REPEATABLE READ, close cursors, or raise shard.connections_per_server_max.")
}
