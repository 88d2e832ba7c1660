//! Time of threads: each is sent the sampler's signal in turn, whether it runs or waits, and notes its stack.
//!
//! A thread that waits in the kernel is woken for it and goes on waiting. Threads take turns, so that no two of them want to note a
//! stack at once, which one of them would then not.

#![allow(unsafe_code, reason = "a signal to a thread is sent by a call of the system that no crate wraps")]

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::MissedTickBehavior;

use super::{HERTZ, cpu};

/// Samples of processor time that come with the sampler, as few as it can.
const FEWEST: i32 = 1;

pub(super) async fn take(time: Duration) -> Result<cpu::Samples> {
    let guard = cpu::start(FEWEST)?;
    let period = Duration::from_secs(1) / HERTZ as u32;
    let end = ashlar_base::clock::monotonic() + time;
    let process = i32::try_from(std::process::id())?;
    while ashlar_base::clock::monotonic() < end {
        let threads = threads()?;
        let mut turns = tokio::time::interval(period / u32::try_from(threads.len().max(1))?);
        turns.set_missed_tick_behavior(MissedTickBehavior::Burst);
        for thread in threads {
            turns.tick().await;
            sample(process, thread);
        }
    }
    cpu::finish(guard)
}

/// The threads of this process, as the kernel numbers them.
fn threads() -> Result<Vec<i32>> {
    let tasks = std::fs::read_dir("/proc/self/task").context("the threads of this process cannot be listed")?;
    let number = |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    Ok(tasks.filter_map(number).collect())
}

/// A thread that has ended meanwhile is none of this process any more, and gets nothing.
fn sample(process: i32, thread: i32) {
    // SAFETY: takes numbers only. The sampler handles the signal: its guard is alive, and once it is not, the signal is ignored.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGPROF) };
}
