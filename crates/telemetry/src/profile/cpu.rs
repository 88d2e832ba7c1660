//! Processor time: the kernel sends the sampler's signal to a thread that runs, so many times for each second that the process
//! has used.

use std::time::Duration;

use anyhow::Result;
use tokio::sync::MutexGuard;
use tokio::task::spawn_blocking;

use super::HERTZ;
use super::sampler::{Sampler, Samples};

/// `taking` is given back when nothing is under way any more, even if nobody waits for the outcome.
pub(super) async fn take(time: Duration, taking: MutexGuard<'static, ()>) -> Result<Samples> {
    let sampler = spawn_blocking(|| Sampler::start(HERTZ)).await??;
    tokio::time::sleep(time).await;
    spawn_blocking(move || {
        let _taking = taking;
        sampler.finish(1_000_000_000 / HERTZ as u64)
    })
    .await?
}
