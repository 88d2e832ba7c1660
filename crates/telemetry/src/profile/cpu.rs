//! Processor time: the kernel sends a signal to a thread that runs, so many times for each second that the process has used,
//! and the handler notes its stack.

use std::time::Duration;

use anyhow::{Context, Result};
use pprof::{Frames, ProfilerGuard, ProfilerGuardBuilder, UnresolvedReport};

use super::HERTZ;
use crate::Stacks;

/// Stacks of addresses.
pub(super) struct Samples(UnresolvedReport);

pub(super) async fn take(time: Duration) -> Result<Samples> {
    let guard = start(HERTZ)?;
    tokio::time::sleep(time).await;
    finish(guard)
}

/// From now on a thread that gets `SIGPROF` notes its stack; the kernel sends it for processor time.
pub(super) fn start(hertz: i32) -> Result<ProfilerGuard<'static>> {
    ProfilerGuardBuilder::default().frequency(hertz).build().context("the sampler of stacks cannot be started")
}

/// What was noted.
pub(super) fn finish(guard: ProfilerGuard<'static>) -> Result<Samples> {
    Ok(Samples(guard.report().build_unresolved().context("the samples cannot be read")?))
}

impl Samples {
    /// Looks up the names: a while, the first time, for the table of symbols is read then.
    pub(super) fn stacks(self) -> Stacks {
        let value = 1_000_000_000 / HERTZ as u64;
        let mut stacks = Stacks::default();
        for (sample, count) in self.0.data {
            let sample = Frames::from(sample);
            let inlined = sample.frames.iter().rev().flat_map(|inlined| inlined.iter().rev());
            let names: Vec<String> =
                inlined.map(|symbol| format!("{:#}", rustc_demangle::demangle(&symbol.sys_name()))).collect();
            let frames = std::iter::once(sample.thread_name.as_str()).chain(names.iter().map(String::as_str));
            stacks.add(frames, u64::try_from(count).unwrap_or_default() * value);
        }
        stacks
    }
}
