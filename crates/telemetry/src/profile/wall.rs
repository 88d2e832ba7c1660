//! Time of threads and of tasks. Each thread is sent the sampler's signal in turn, whether it runs or waits, and once in each round
//! every task is looked at: see [`scope`].
//!
//! A thread that waits in the kernel is woken for it and goes on waiting. Threads take turns, so that no two of them want to note a
//! stack at once, which one of them would then not. A task is not disturbed. One that runs is seen twice: as a task in its scopes, and
//! on the stack of its thread.

use std::time::Duration;

use anyhow::{Context, Result};
use ashlar_base::clock::monotonic;
use ashlar_base::scope;
use tokio::sync::MutexGuard;
use tokio::time::{Instant, sleep_until};

use super::HERTZ;
use super::sampler::{NOTED_MAX, Sampler, Taking};
use super::samples::Samples;

/// Samples of processor time that come with the sampler, as few as it can.
const FEWEST: i32 = 1;

/// `turn` is as of processor time.
pub(super) async fn take(time: Duration, turn: MutexGuard<'static, ()>) -> Result<Samples> {
    let mut taking = Taking::new(turn);
    // Tasks say where they are while the sampler starts.
    let watch = scope::watch();
    let mut sampler = Sampler::start(FEWEST).await?;
    let period = Duration::from_secs(1) / HERTZ as u32;
    let start = monotonic();
    let (mut rounds, mut noted) = (0, 0);
    while start.elapsed() < time {
        if noted >= NOTED_MAX {
            // Some hundredths of a second, in which nobody is looked at.
            taking = taking.add(sampler).await?;
            sampler = Sampler::start(FEWEST).await?;
            noted = 0;
        }
        // After a stall a round begins late, and none is made up for.
        let round = monotonic();
        watch.look(|place| taking.samples.see(place));
        let threads = threads()?;
        let turn = period / u32::try_from(threads.len().max(1))?;
        for (place, thread) in (1..).zip(threads) {
            sampler.sample(thread);
            noted += 1;
            sleep_until(Instant::from_std(round + turn * place)).await;
        }
        rounds += 1;
    }
    // A round stands for as long as it took: signals, and the timers between them, come a little late.
    taking.samples.value = u64::try_from(start.elapsed().as_nanos())? / rounds.max(1);
    Ok(taking.add(sampler).await?.samples)
}

/// The threads of this process, as the kernel numbers them.
fn threads() -> Result<Vec<i32>> {
    let tasks = std::fs::read_dir("/proc/self/task").context("the threads of this process cannot be listed")?;
    let number = |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    Ok(tasks.filter_map(number).collect())
}
