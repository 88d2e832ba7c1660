//! Load: threads that call a server as fast as it answers, or at a given rate, and what they saw.
//!
//! Called by `run` once per measurement. Knows nothing of protocols: a thread calls a [`Caller`], which the workload made. Clients in Java
//! load by the same rules, in `crates/lab/grids/Measurement.java`.
//!
//! ```text
//! 0 ......... warm_up ........................ end ............ patience
//!   not counted        measured                 open loop only: requests that were due before the end
//! ```
//!
//! **Closed loop**: a thread sends its next request when the answer to the last has come. **Open loop**: requests are due at
//! fixed moments, whatever the server does, and a latency is counted from the moment its request was due. A stall then
//! costs every request that had to wait, not only the one under way (Tene: "How NOT to measure latency", 2013). A **query**, which
//! may take longer than a window, has its own loop in `queries`.

mod beside;
mod queries;
mod recorder;
mod worker;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use anyhow::Result;

use crate::clock::{Clock, Nanos, SECOND};
use crate::foreign::Told;
use crate::record::histogram::{self, Latencies};
pub(crate) use beside::{Beside, ask_beside};
pub(crate) use queries::measure_query;
use recorder::{Recorder, Seconds};
use worker::{Schedule, Tally};

/// How often somebody looks at the time while load runs.
const TICK: Duration = Duration::from_millis(100);

/// Stack of a load thread: it calls a few functions deep.
const STACK_BYTES: usize = 256 * 1024;

/// One connection that makes requests and judges their answers. Only [`Caller::call`] is timed.
pub(crate) trait Caller: Send {
    /// Makes the next request, or the next few, ready to be sent.
    fn make(&mut self);

    /// Sends what was made, all at once, and reads the answers; `came` is called as soon as each is there in full.
    ///
    /// An error means that the connection is lost.
    fn call(&mut self, came: &mut dyn FnMut()) -> Result<()>;

    /// Says of each answer that came, in their order, whether it is right.
    fn judge(&mut self, judged: &mut dyn FnMut(Answer));

    /// After the last call: reads what was last written, and says what is wrong with it.
    ///
    /// An error means that the connection is lost.
    fn read_back(&mut self) -> Result<Option<String>> {
        Ok(None)
    }

    /// How often the server made the last call begin anew: a transaction that lost to another. A call's time has all its attempts in it.
    fn retries(&self) -> u64 {
        0
    }

    /// The names of the kinds of calls that it makes, where they differ so much that each is a figure of its own; the first is what
    /// the workload is about.
    fn kinds(&self) -> &'static [&'static str] {
        &[]
    }

    /// The kind of the last call, as a place in [`Caller::kinds`].
    fn kind(&self) -> usize {
        0
    }

    /// How many answers a call gives.
    fn answers_per_call(&self) -> u64 {
        1
    }
}

/// What an answer was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// What had to be answered.
    Right,
    /// Something else, which is described.
    Wrong(String),
}

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pace {
    /// As soon as the last answer is there.
    Closed,
    /// So many a second over all threads.
    Open {
        /// Requests a second.
        per_second: f64,
    },
}

/// The lengths of the windows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    /// Seconds that are not counted.
    pub(crate) warm_up: u32,
    /// Seconds that are.
    pub(crate) measured: u32,
}

impl Windows {
    /// When the measured window begins.
    pub(crate) fn begin(self) -> Nanos {
        Nanos::from(self.warm_up) * SECOND
    }

    /// When it ends.
    pub(crate) fn end(self) -> Nanos {
        self.begin() + Nanos::from(self.measured) * SECOND
    }

    /// Until when an open loop sends what was due before the end: as long again as was measured. Later it gives up, and what
    /// it has not sent is counted.
    pub(crate) fn patience(self) -> Nanos {
        self.end() + Nanos::from(self.measured) * SECOND
    }
}

/// Told what happens while load runs.
pub(crate) trait Observer {
    /// The measured window begins.
    fn begins(&mut self);
    /// The measured window ends.
    fn ends(&mut self);
    /// Time passes; `completed` answers of whole seconds have been counted.
    fn tick(&mut self, now: Nanos, completed: u64);
}

/// What one measurement saw.
#[derive(Debug)]
pub(crate) struct Sample {
    /// Seconds of the window that were measured: fewer than asked for when it ended early.
    pub(crate) seconds: f64,
    /// Answers by the second in which they came.
    pub(crate) completed: Vec<u64>,
    /// Latencies by the second in which a request was sent, or due.
    pub(crate) latencies: Vec<Latencies>,
    /// All latencies.
    pub(crate) merged: Latencies,
    /// Wrong answers, and writes that were not there afterwards.
    pub(crate) errors: u64,
    /// The first of them.
    pub(crate) first_error: Option<String>,
    /// Attempts beyond the first, of the calls whose latencies these are.
    pub(crate) retries: u64,
    /// What was seen of each kind of calls, where there are kinds.
    pub(crate) kinds: Vec<KindSample>,
    /// What a foreign program said, of whose requests nothing else is known.
    pub(crate) told: Option<Told>,
    /// Requests of an open loop that were due and never sent.
    pub(crate) unsent: u64,
    /// Why a connection was lost, if one was.
    pub(crate) broken: Option<String>,
    /// Whether somebody stopped it.
    pub(crate) interrupted: bool,
}

/// What was seen of one kind of calls.
#[derive(Clone, Debug)]
pub(crate) struct KindSample {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its latencies.
    pub(crate) latencies: Latencies,
    /// Attempts beyond the first.
    pub(crate) retries: u64,
}

impl KindSample {
    fn all_of(names: &[&'static str]) -> Vec<Self> {
        names.iter().map(|name| Self { name, latencies: histogram::empty(), retries: 0 }).collect()
    }
}

/// Runs one measurement: a thread for each caller. Ends early when a connection is lost or `stop` is set.
pub(crate) fn measure(
    clock: &dyn Clock,
    pace: Pace,
    windows: Windows,
    callers: Vec<Box<dyn Caller>>,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<Sample> {
    let seconds = Seconds::new(windows);
    let lost = AtomicBool::new(false);
    let count = callers.len();
    let mut tallies = Vec::with_capacity(count);
    let mut interrupted = false;
    let mut ended_at = windows.end();
    let ends_early = || stop.load(Ordering::Relaxed) || lost.load(Ordering::Relaxed);
    std::thread::scope(|scope| -> Result<()> {
        let (done, all_done) = sync_channel::<Tally>(count);
        for (thread, mut caller) in callers.into_iter().enumerate() {
            let schedule = Schedule::of(pace, thread, count, caller.answers_per_call());
            let recorder = Recorder::new(&seconds, thread, count);
            let (done, ends_early, lost) = (done.clone(), &ends_early, &lost);
            let spawned = std::thread::Builder::new()
                .name(format!("load-{thread}"))
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, move || {
                    let tally = worker::work(clock, schedule, windows, &ends_early, recorder, caller.as_mut());
                    if tally.broken.is_some() {
                        lost.store(true, Ordering::Relaxed);
                    }
                    // The channel has room for every thread's tally, so this neither waits nor fails.
                    let _ = done.send(tally);
                });
            if let Err(error) = spawned {
                // Those that run already need not go on.
                lost.store(true, Ordering::Relaxed);
                return Err(error.into());
            }
        }
        drop(done);
        let (mut begun, mut ended) = (false, false);
        while tallies.len() < count {
            let now = clock.now();
            let boundary = if begun { windows.end() } else { windows.begin() };
            let wait = Duration::from_nanos(boundary.saturating_sub(now)).min(TICK);
            match all_done.recv_timeout(if ended { TICK } else { wait }) {
                Ok(tally) => tallies.push(tally),
                Err(RecvTimeoutError::Timeout) => {}
                // A thread that panicked; the scope reports it.
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let now = clock.now();
            if ends_early() && !interrupted {
                interrupted = true;
                ended_at = now.min(ended_at);
            }
            if !begun && now >= windows.begin() {
                begun = true;
                observer.begins();
            }
            if !ended && (now >= windows.end() || interrupted) {
                ended = true;
                observer.ends();
            }
            observer.tick(now, seconds.completed());
        }
        if !ended {
            observer.ends();
        }
        Ok(())
    })?;
    let lost = lost.load(Ordering::Relaxed);
    // The flag may be set when everything has been measured already; that is no interruption, unless requests that were due
    // were still waited for.
    let interrupted = interrupted && (ended_at < windows.end() || tallies.iter().any(|tally| tally.unsent > 0));
    Ok(assemble(windows, seconds, tallies, ended_at, interrupted && !lost))
}

fn assemble(windows: Windows, seconds: Seconds, tallies: Vec<Tally>, ended_at: Nanos, interrupted: bool) -> Sample {
    let mut seen = Seen { completed: vec![0; windows.measured as usize], ..Seen::nothing() };
    seen.latencies = seconds.into_latencies();
    for tally in tallies {
        for (sum, count) in seen.completed.iter_mut().zip(&tally.completed) {
            *sum += count;
        }
        seen.errors += tally.errors;
        seen.retries += tally.retries;
        if seen.kinds.is_empty() {
            seen.kinds = tally.kinds;
        } else {
            for (sum, kind) in seen.kinds.iter_mut().zip(&tally.kinds) {
                histogram::merge(&mut sum.latencies, &kind.latencies);
                sum.retries += kind.retries;
            }
        }
        seen.unsent += tally.unsent;
        seen.first_error = seen.first_error.or(tally.first_error);
        seen.broken = seen.broken.or(tally.broken);
    }
    seen.sample(ended_at.saturating_sub(windows.begin()) as f64 / SECOND as f64, interrupted)
}

/// What all threads together saw in the seconds of the window, those that were not reached among them.
pub(crate) struct Seen {
    pub(crate) completed: Vec<u64>,
    pub(crate) latencies: Vec<Latencies>,
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
    pub(crate) retries: u64,
    pub(crate) kinds: Vec<KindSample>,
    pub(crate) told: Option<Told>,
    pub(crate) unsent: u64,
    pub(crate) broken: Option<String>,
}

impl Seen {
    /// No second at all.
    pub(crate) fn nothing() -> Self {
        Self {
            completed: Vec::new(),
            latencies: Vec::new(),
            errors: 0,
            first_error: None,
            retries: 0,
            kinds: Vec::new(),
            told: None,
            unsent: 0,
            broken: None,
        }
    }

    /// Of a window that ended after so many seconds.
    pub(crate) fn sample(mut self, seconds: f64, interrupted: bool) -> Sample {
        let mut merged = histogram::empty();
        for second in &self.latencies {
            histogram::merge(&mut merged, second);
        }
        // Seconds that were not reached are no seconds without answers.
        let reached = seconds.ceil() as usize;
        self.completed.truncate(reached);
        self.latencies.truncate(reached);
        Sample {
            seconds,
            completed: self.completed,
            latencies: self.latencies,
            merged,
            errors: self.errors,
            first_error: self.first_error,
            retries: self.retries,
            kinds: self.kinds,
            told: self.told,
            unsent: self.unsent,
            broken: self.broken,
            interrupted,
        }
    }
}

#[cfg(test)]
mod tests;
