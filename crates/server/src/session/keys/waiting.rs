//! Commands that wait: for a row that a transaction has locked, for the keys of an EXEC when others keep changing them
//! first, or for work that another thread does for them.
//!
//! The door drives it. A command that was stopped has changed nothing; its connection waits here, while others of its
//! thread go on, and runs the command again. Commands hold locks only while they run, so one that is part of a deadlock
//! releases its locks and tries again until its time is over.

use std::time::Duration;

use ashlar_base::scope::{Name, scope};
use ashlar_base::{Error, ErrorCode, clock};
use ashlar_protocol::resp::Command;
use ashlar_store::LockRequest;
use tokio::time::Instant;

use super::arguments::{Args, is};
use super::error::KeyError;
use super::{Answered, KeySession};

static ROW_LOCK: Name = Name::new("row lock");

/// One command's waits.
pub struct Patience {
    until: Instant,
    /// All that it has asked for.
    asked: Vec<LockRequest>,
}

impl KeySession {
    /// How long a command that was stopped may wait in all.
    pub fn patience(&self) -> Patience {
        let limit = Duration::from_millis(self.service.shared.config.server.resp_lock_timeout_ms);
        Patience { until: Instant::from_std(clock::monotonic()) + limit, asked: Vec::new() }
    }

    /// Waits until the command that was stopped may run once more.
    ///
    /// # Errors
    /// 55P03 when its time is over; 53200 over the memory bound.
    pub async fn wait(&mut self, patience: &mut Patience) -> Result<(), Error> {
        // However long that takes: it cannot be taken back.
        if self.running.wait_beside().await {
            return Ok(());
        }
        let mut wanted = std::mem::take(&mut self.running.wanted);
        patience.asked.extend(wanted.iter().cloned());
        let waits = async {
            if wanted.is_empty() {
                return match self.running.way.wait().await {
                    Err(error) if error.code() == ErrorCode::DeadlockDetected => {
                        self.running.way.clear();
                        Ok(())
                    }
                    done => done,
                };
            }
            loop {
                match self.take(&wanted).await {
                    Err(error) if error.code() == ErrorCode::DeadlockDetected => {}
                    done => return done,
                }
                // In the one order in which nobody who does so waits for another who does.
                self.running.way.clear();
                patience.asked.sort_by_key(LockRequest::order);
                wanted.clone_from(&patience.asked);
                tokio::task::yield_now().await;
            }
        };
        match tokio::time::timeout_at(patience.until, scope(&ROW_LOCK, waits)).await {
            Ok(done) => done,
            Err(_) => Err(Error::new(ErrorCode::LockNotAvailable, "canceling command due to lock timeout")),
        }
    }

    async fn take(&mut self, wanted: &[LockRequest]) -> Result<(), Error> {
        for request in wanted {
            self.running.way.holder_for(request).wait(request).await?;
        }
        Ok(())
    }

    /// The command has run: what it has waited for is free again.
    pub fn end_waiting(&mut self) {
        self.running.way.clear();
        self.running.wanted = Vec::new();
    }

    /// Answers a command whose time to wait is over.
    pub fn refuse_waiting(&mut self, command: Command<'_>, error: Error, out: &mut Vec<u8>) -> Answered {
        self.end_waiting();
        if is(Args::new(command).at(0), "exec") {
            self.leave_transaction();
        }
        self.commands += 1;
        self.answer(out.len(), Err(KeyError::from(error)), out)
    }
}
