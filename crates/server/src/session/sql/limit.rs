//! `statement_timeout`: the time that a statement may take from the message that brings it to its last row, including
//! planning and the data of a COPY. An idle session has no statement.
//!
//! Called by the session when a message of the protocol arrives or ends. A statement that has used up its time is
//! asked to stop, as by a cancel request, and never dropped, because it holds the transaction.

use std::time::Duration;

use ashlar_base::{Error, Result, clock};
use tokio::time::Instant;

use super::SqlSession;
use crate::session::CancelToken;

/// When a statement must have ended, and what stops it then.
pub(super) struct Limit {
    deadline: Instant,
    cancel: CancelToken,
}

impl SqlSession {
    /// Notes that a message of a statement has arrived. Returns the limit of the statement's time, if it has one.
    pub(super) fn arrive(&mut self) -> Option<Limit> {
        let limit = self.settings.statement_timeout_ms;
        if self.deadline.is_none() && limit > 0 {
            self.deadline = Some(Instant::from_std(clock::monotonic()) + Duration::from_millis(limit));
        }
        self.limit()
    }

    /// The limit of the time of the statement that has arrived.
    pub(super) fn limit(&self) -> Option<Limit> {
        self.deadline.map(|deadline| Limit { deadline, cancel: self.cancel.clone() })
    }

    /// Resolves with the reason when a COPY FROM STDIN must end although its client sends nothing.
    pub fn interrupted(&self) -> impl Future<Output = Error> + use<> {
        let (cancel, deadline) = (self.cancel.clone(), self.deadline);
        async move {
            match deadline {
                None => cancel.cancelled().await,
                Some(deadline) => tokio::select! {
                    biased;
                    () = cancel.cancelled() => {}
                    () = tokio::time::sleep_until(deadline) => cancel.time_out(),
                },
            }
            cancel.error()
        }
    }

    /// 57014 if cancellation was requested before this statement of a query string or a pipeline began.
    pub(super) fn check_cancel(&self) -> Result<()> {
        if self.cancel.is_cancelled() { Err(self.cancel.error()) } else { Ok(()) }
    }

    /// Discards a cancel request that arrived while nothing ran: called when the client has sent something new.
    pub fn forget_cancel(&self) {
        self.cancel.reset();
    }

    /// Checks that a COPY FROM STDIN may continue.
    ///
    /// # Errors
    /// 57014
    pub(super) fn check_interrupts(&self) -> Result<()> {
        if self.deadline.is_some_and(|deadline| clock::monotonic() >= deadline.into_std()) {
            self.cancel.time_out();
        }
        self.check_cancel()
    }
}

/// Runs a part of a statement, and asks it to stop at the deadline.
pub(super) async fn in_time<T>(limit: Option<Limit>, work: impl Future<Output = Result<T>>) -> Result<T> {
    let Some(Limit { deadline, cancel }) = limit else { return work.await };
    tokio::pin!(work);
    match tokio::time::timeout_at(deadline, &mut work).await {
        Ok(done) => done,
        Err(_) => {
            cancel.time_out();
            let done = work.await;
            if done.is_ok() {
                // It was done before it heard of its end, which must not be the next one's.
                cancel.reset();
            }
            done
        }
    }
}
