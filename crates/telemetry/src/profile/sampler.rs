//! The sampler of stacks: `SIGPROF` makes a thread note where it is.
//!
//! The handler is pprof's. It unwinds by tables of its own and looks at memory before it reads it; it takes no lock that the thread
//! might hold already. (How frames are told apart asks libgcc, which has needed no lock since glibc 2.35.)

#![allow(unsafe_code, reason = "a signal to a thread is sent by a call of the system that no crate wraps")]

use std::sync::OnceLock;

use anyhow::{Context, Result};
use pprof::{ProfilerGuard, ProfilerGuardBuilder, UnresolvedReport};

use super::symbols::Symbols;
use crate::Stacks;

/// Threads note their stacks while it lives.
pub(super) struct Sampler(ProfilerGuard<'static>);

/// What was noted.
pub(super) struct Samples {
    report: UnresolvedReport,
    /// What a sample counts, in nanoseconds.
    value: u64,
}

impl Sampler {
    /// From now on threads note their stacks: those that the kernel finds running, so many times for each second of processor
    /// time, and those that are told to. Takes a while, the first time.
    pub(super) fn start(hertz: i32) -> Result<Self> {
        static PREPARED: OnceLock<Result<(), String>> = OnceLock::new();
        let prepared = PREPARED.get_or_init(|| prepare().map_err(|error| format!("{error:#}")));
        prepared.clone().map_err(anyhow::Error::msg)?;
        build(hertz)
    }

    /// A thread of this process notes its stack. One that has ended meanwhile is none of it any more, and gets nothing.
    pub(super) fn sample(&self, thread: i32) {
        let process = std::process::id() as i32;
        // SAFETY: takes numbers only. The signal has a handler while `self` lives, and is ignored once it does not.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGPROF) };
    }

    /// Ends it; a sample shall count so many nanoseconds.
    pub(super) fn finish(self, value: u64) -> Result<Samples> {
        Ok(Samples { report: self.0.report().build_unresolved().context("the samples cannot be read")?, value })
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

impl Samples {
    /// Looks up the names: a while, the first time, for the table of symbols is read then.
    pub(super) fn stacks(self) -> Stacks {
        let mut symbols = Symbols::default();
        let mut stacks = Stacks::default();
        for (sample, count) in &self.report.data {
            let mut frames = vec![thread_name(&sample.thread_name[..sample.thread_name_length])];
            frames.extend(sample.frames.iter().rev().flat_map(|frame| symbols.at(frame.ip).to_vec()));
            stacks.add_sampled(&frames, u64::try_from(*count).unwrap_or_default() * self.value);
        }
        stacks
    }
}

/// Threads that do the same have one name.
fn thread_name(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name).replace(' ', "_");
    name.trim_end_matches(|letter: char| letter.is_ascii_digit()).trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_one_kind_have_one_name() {
        let names = ["ashlar-door-0", "ashlar-door-12", "compactor", "a b 1"].map(|name| thread_name(name.as_bytes()));
        assert_eq!(names, ["ashlar-door", "ashlar-door", "compactor", "a_b_"]);
    }
}
