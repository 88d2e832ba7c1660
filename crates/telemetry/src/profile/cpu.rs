//! Processor time: the kernel sends the sampler's signal to a thread that runs, so many times for each second that the process
//! has used.

use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::Result;
use tokio::sync::MutexGuard;

use super::HERTZ;
use super::sampler::{NOTED_MAX, Sampler, Taking};
use super::samples::Samples;

/// `turn` is given back when nothing is under way any more, even if nobody waits for the outcome.
pub(super) async fn take(time: Duration, turn: MutexGuard<'static, ()>) -> Result<Samples> {
    let processors = available_parallelism().map_or(1, usize::from);
    let seconds = (NOTED_MAX / HERTZ.unsigned_abs()) as usize / processors;
    let part = Duration::from_secs(seconds.max(1) as u64);
    let mut taking = Taking::new(turn);
    let mut left = time;
    while !left.is_zero() {
        // What this takes, the first time, is not part of the time.
        let sampler = Sampler::start(HERTZ).await?;
        let now = left.min(part);
        tokio::time::sleep(now).await;
        left -= now;
        taking = taking.add(sampler).await?;
    }
    taking.samples.value = 1_000_000_000 / HERTZ as u64;
    Ok(taking.samples)
}
