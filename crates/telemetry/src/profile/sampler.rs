//! The sampler of stacks: `SIGPROF` makes a thread note where it is.
//!
//! The handler is pprof's. It unwinds by tables of its own and looks at memory before it reads it; it takes no lock that the thread
//! might hold already. (How frames are told apart asks libgcc, which has needed no lock since glibc 2.35.)

#![allow(unsafe_code, reason = "a signal to a thread is sent by a call of the system that no crate wraps")]

use std::sync::OnceLock;

use anyhow::{Context, Result};
use pprof::{ProfilerGuard, ProfilerGuardBuilder};
use tokio::sync::MutexGuard;
use tokio::task::spawn_blocking;

use super::samples::Samples;

/// What pprof may note before it is emptied. Stacks that find no room in its table go to a file, a kilobyte each, which it later
/// reads into memory as a whole.
pub(super) const NOTED_MAX: u32 = 1 << 14;

/// Threads note their stacks while it lives.
pub(super) struct Sampler(ProfilerGuard<'static>);

/// A profile that is being taken: the right to do so, and what has come of it.
pub(super) struct Taking {
    pub(super) samples: Samples,
    /// Given back when nothing is under way any more, even if nobody waits for the outcome.
    _turn: MutexGuard<'static, ()>,
}

impl Taking {
    pub(super) fn new(turn: MutexGuard<'static, ()>) -> Self {
        Self { samples: Samples::default(), _turn: turn }
    }

    /// Ends a sampler, and adds what it has noted.
    pub(super) async fn add(mut self, sampler: Sampler) -> Result<Self> {
        spawn_blocking(move || {
            let report = sampler.0.report().build_unresolved().context("the samples cannot be read")?;
            drop(sampler);
            for (sample, count) in &report.data {
                let frames = sample.frames.iter().map(|frame| frame.ip).collect();
                let thread = &sample.thread_name[..sample.thread_name_length];
                self.samples.add(thread, frames, u64::try_from(*count).unwrap_or_default());
            }
            Ok(self)
        })
        .await?
    }
}

impl Sampler {
    /// From now on threads note their stacks: those that the kernel finds running, so many times for each second of processor
    /// time, and those that are told to. Takes a while, the first time.
    pub(super) async fn start(hertz: i32) -> Result<Self> {
        static PREPARED: OnceLock<Result<(), String>> = OnceLock::new();
        spawn_blocking(move || {
            let prepared = PREPARED.get_or_init(|| prepare().map_err(|error| format!("{error:#}")));
            prepared.clone().map_err(anyhow::Error::msg)?;
            build(hertz)
        })
        .await?
    }

    /// A thread of this process notes its stack. One that has ended meanwhile is none of it any more, and gets nothing.
    pub(super) fn sample(&self, thread: i32) {
        let process = std::process::id() as i32;
        // SAFETY: takes numbers only. The signal has a handler while `self` lives, and is ignored once it does not.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGPROF) };
    }
}

fn build(hertz: i32) -> Result<Sampler> {
    let guard = ProfilerGuardBuilder::default().frequency(hertz).build();
    Ok(Sampler(guard.context("the sampler of stacks cannot be started")?))
}

/// Notes a stack of this thread. The first that is noted reads the tables of the program and allocates, which in the midst of an
/// allocation, where a signal of the kernel may come, would be the end; here it comes where nothing is under way.
fn prepare() -> Result<()> {
    let sampler = build(1)?;
    // SAFETY: takes nothing.
    let this = unsafe { libc::gettid() };
    sampler.sample(this);
    Ok(())
}
