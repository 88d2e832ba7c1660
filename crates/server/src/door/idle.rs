//! Closes connections that have been idle for too long, if the configuration sets a limit.
//!
//! Used by the doors while they wait for a client.

use std::pin::Pin;
use std::time::Duration;

use ashlar_base::clock;
use tokio::time::{Instant, Sleep};

/// One timer for the life of the connection: a message moves a number, not the timer.
pub(crate) struct IdleTimer {
    limit: Duration,
    since: std::time::Instant,
    sleep: Pin<Box<Sleep>>,
}

impl IdleTimer {
    /// None where there is no limit.
    pub(crate) fn new(limit_ms: u64) -> Option<Self> {
        let limit = Duration::from_millis(limit_ms);
        (limit_ms > 0).then(|| Self { limit, since: clock::monotonic(), sleep: Box::pin(tokio::time::sleep(limit)) })
    }

    /// The connection is idle from now on.
    pub(crate) fn touch(&mut self) {
        self.since = clock::monotonic();
    }

    /// Resolves after this long; never, where there is no limit.
    pub(crate) async fn over(limit: Option<Duration>) {
        match limit {
            Some(limit) => tokio::time::sleep(limit).await,
            None => std::future::pending().await,
        }
    }

    /// Resolves when the time since the last touch is over; never, where there is no limit.
    pub(crate) async fn expired(timer: &mut Option<Self>) {
        let Some(timer) = timer else { return std::future::pending().await };
        loop {
            timer.sleep.as_mut().await;
            let end = timer.since + timer.limit;
            if clock::monotonic() >= end {
                return;
            }
            timer.sleep.as_mut().reset(Instant::from_std(end));
        }
    }
}
