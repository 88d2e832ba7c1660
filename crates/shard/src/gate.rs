//! Lets transactions on several shards through while they become visible on one after the other, and nobody while snapshots are
//! taken of all of them.
//!
//! Called by `two_phase` from a decision until the last shard shows it, and by whoever takes snapshots. Of this process only.

use std::time::Duration;

use ashlar_base::scope::{self, Name};
use ashlar_base::{Error, ErrorCode, Result};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

static WAIT: Name = Name::new("gate of commits");

/// See the module.
#[derive(Debug, Default)]
pub struct Gate(RwLock<()>);

impl Gate {
    /// Goes through, as soon as nobody takes snapshots; until what is returned is dropped.
    pub(crate) async fn pass(&self) -> RwLockReadGuard<'_, ()> {
        scope::scope(&WAIT, self.0.read()).await
    }

    /// Closes it until what is returned is dropped; waits for those who are in it.
    ///
    /// # Errors
    /// 55P03 where they do not get through in this time.
    pub async fn close(&self, patience: Duration) -> Result<RwLockWriteGuard<'_, ()>> {
        let closed = tokio::time::timeout(patience, scope::scope(&WAIT, self.0.write())).await;
        closed.map_err(|_| {
            let message = "could not take a snapshot of several shards: a transaction that is committed is not visible on all of them";
            Error::new(ErrorCode::LockNotAvailable, message)
                .with_hint("See ashlar.in_doubt, or read with SET sharded_reads = 'each'.")
        })
    }
}
