//! `statement_timeout`: a statement has so long from the message that brings it to its last row, planning and the data
//! of a COPY included. A session that is idle has no statement.
//!
//! Called by the session where a message of the protocol arrives or ends. A statement that has had its time is asked to
//! stop, as by a cancel request, and never dropped: it has the transaction with it.

use std::time::Duration;

use ashlar_base::{Error, Result, clock};
use tokio::time::Instant;

use super::SqlSession;
use crate::session::CancelToken;

impl SqlSession {
    /// A message that belongs to a statement has come; returns when that statement has to be done.
    pub(super) fn arrive(&mut self) -> Option<Instant> {
        let limit = self.settings.statement_timeout_ms;
        if self.deadline.is_none() && limit > 0 {
            self.deadline = Some(Instant::from_std(clock::monotonic()) + Duration::from_millis(limit));
        }
        self.deadline
    }

    /// Resolves with the reason when a COPY FROM STDIN has to end although its client says nothing.
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

    /// 57014 where somebody asked, before this statement of a string or a pipeline began, that what runs be ended.
    pub(super) fn check_cancel(&self) -> Result<()> {
        if self.cancel.is_cancelled() { Err(self.cancel.error()) } else { Ok(()) }
    }

    /// The client has sent something new: a cancel request that came while nothing ran is about nothing.
    pub fn forget_cancel(&self) {
        self.cancel.reset();
    }

    /// Whether a COPY FROM STDIN may go on.
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

/// Does a part of a statement, and asks it to stop at the deadline.
pub(super) async fn in_time<T>(
    deadline: Option<Instant>,
    cancel: CancelToken,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let Some(deadline) = deadline else { return work.await };
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
