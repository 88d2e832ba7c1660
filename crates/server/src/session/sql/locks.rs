//! Waiting for row locks, on the connection's own thread, which serves its other connections meanwhile.
//!
//! Called when a lock has stopped a statement or a COMMIT. Each wait is bounded by `lock_timeout`, by
//! `statement_timeout`, and by a cancel request.

use std::time::Duration;

use ashlar_base::scope::{Name, scope};
use ashlar_base::{Error, ErrorCode, Result};
use ashlar_query::transaction::Transaction;
use ashlar_store::Way;

use super::SqlSession;
use crate::session::CancelToken;

static ROW_LOCK: Name = Name::new("row lock");

impl SqlSession {
    /// Waits for the lock that has stopped the session's transaction.
    ///
    /// # Errors
    /// 55P03, 57014, 40P01
    pub(super) async fn wait_for_locks(&mut self) -> Result<()> {
        let (cancel, limit_ms) = (self.cancel.clone(), self.settings.lock_timeout_ms);
        let Some(transaction) = &mut self.transaction else {
            return Err(Error::internal("a transaction that waits is there"));
        };
        waited(&cancel, limit_ms, transaction.wait()).await
    }

    /// Waits for the lock that has stopped a COMMIT.
    ///
    /// # Errors
    /// As [`Self::wait_for_locks`].
    pub(super) async fn wait_to_commit(&self, transaction: &mut Transaction) -> Result<()> {
        waited(&self.cancel, self.settings.lock_timeout_ms, transaction.wait()).await
    }

    /// Waits for the lock that has stopped a write that goes straight to its partition.
    ///
    /// # Errors
    /// As [`Self::wait_for_locks`].
    pub(super) async fn wait_on(&self, way: &mut Way) -> Result<()> {
        waited(&self.cancel, self.settings.lock_timeout_ms, way.wait()).await
    }

    /// Releases the row locks that a failed block has taken since its last savepoint, so that nobody waits for its ROLLBACK.
    pub(super) fn release_failed(&mut self) {
        let Some(transaction) = &mut self.transaction else { return };
        match self.savepoints.last() {
            Some(savepoint) => transaction.release_to(savepoint.mark()),
            None => transaction.release_all(),
        }
    }
}

/// The result of a wait, unless it is cancelled or takes longer than `limit_ms` milliseconds; 0 for no limit.
///
/// # Errors
/// 55P03, 57014, and errors of the wait.
pub(super) async fn waited(cancel: &CancelToken, limit_ms: u64, wait: impl Future<Output = Result<()>>) -> Result<()> {
    let limited = async {
        match limit_ms {
            0 => wait.await,
            limit_ms => tokio::time::timeout(Duration::from_millis(limit_ms), wait).await.unwrap_or_else(|_| {
                Err(Error::new(ErrorCode::LockNotAvailable, "canceling statement due to lock timeout"))
            }),
        }
    };
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(cancel.error()),
        done = scope(&ROW_LOCK, limited) => done,
    }
}
