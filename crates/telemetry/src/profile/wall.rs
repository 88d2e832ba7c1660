//! Time of threads: each is sent the sampler's signal in turn, whether it runs or waits.
//!
//! A thread that waits in the kernel is woken for it and goes on waiting. Threads take turns, so that no two of them want to note a
//! stack at once, which one of them would then not. A task that waits is on no thread, and is not seen.

use std::time::Duration;

use anyhow::{Context, Result};
use ashlar_base::clock::monotonic;
use tokio::sync::MutexGuard;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

use super::HERTZ;
use super::sampler::{Sampler, Samples};

/// Samples of processor time that come with the sampler, as few as it can.
const FEWEST: i32 = 1;

/// `taking` is as of processor time.
pub(super) async fn take(time: Duration, taking: MutexGuard<'static, ()>) -> Result<Samples> {
    let sampler = spawn_blocking(|| Sampler::start(FEWEST)).await??;
    let period = Duration::from_secs(1) / HERTZ as u32;
    let start = monotonic();
    let mut rounds = 0;
    while start.elapsed() < time {
        // After a stall a round begins late, and none is made up for.
        let round = monotonic();
        let threads = threads()?;
        let turn = period / u32::try_from(threads.len().max(1))?;
        for (place, thread) in (1..).zip(threads) {
            sampler.sample(thread);
            sleep_until(Instant::from_std(round + turn * place)).await;
        }
        rounds += 1;
    }
    // A round stands for as long as it took: signals, and the timers between them, come a little late.
    let value = u64::try_from(start.elapsed().as_nanos())? / rounds.max(1);
    spawn_blocking(move || {
        let _taking = taking;
        sampler.finish(value)
    })
    .await?
}

/// The threads of this process, as the kernel numbers them.
fn threads() -> Result<Vec<i32>> {
    let tasks = std::fs::read_dir("/proc/self/task").context("the threads of this process cannot be listed")?;
    let number = |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    Ok(tasks.filter_map(number).collect())
}
