//! The loop of one load thread.

use super::recorder::Recorder;
use super::{Answer, Caller, Pace, Seconds, Windows};
use crate::clock::{Clock, Nanos, SECOND};

/// A thread that waits for its next request looks this often whether it should stop.
const WAIT_AT_MOST: Nanos = SECOND / 10;

/// When one thread sends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Schedule {
    /// As soon as it can.
    Closed,
    /// At `first`, and then every `interval`.
    Every { first: f64, interval: f64 },
}

impl Schedule {
    /// The part of `thread` of `threads`: they take turns instead of sending at the same moment.
    pub(super) fn of(pace: Pace, thread: usize, threads: usize, answers_per_call: u64) -> Self {
        match pace {
            Pace::Closed => Self::Closed,
            Pace::Open { per_second } => {
                let interval = SECOND as f64 * threads as f64 * answers_per_call as f64 / per_second;
                Self::Every { first: interval * thread as f64 / threads as f64, interval }
            }
        }
    }
}

/// What one thread saw, apart from latencies.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) completed: Vec<u64>,
    pub(super) errors: u64,
    pub(super) first_error: Option<String>,
    pub(super) unsent: u64,
    pub(super) broken: Option<String>,
}

/// Calls until the end of the window, or until told to end early.
pub(super) fn work(
    clock: &dyn Clock,
    schedule: Schedule,
    windows: Windows,
    ends_early: &dyn Fn() -> bool,
    seconds: &Seconds,
    caller: &mut dyn Caller,
) -> Tally {
    let mut tally = Tally::default();
    let mut recorder = Recorder::new(seconds);
    let mut calls = 0u64;
    'calls: while !ends_early() {
        let start = match schedule {
            Schedule::Closed => clock.now(),
            // Multiplied, not added up: a rate of a million has no whole interval.
            Schedule::Every { first, interval } => (first + interval * calls as f64) as Nanos,
        };
        if start >= windows.end() {
            break;
        }
        if let Schedule::Every { interval, .. } = schedule {
            loop {
                let now = clock.now();
                if now >= windows.patience() {
                    let left = ((windows.end() - start) as f64 / interval).ceil() as u64;
                    tally.unsent = left * caller.answers_per_call();
                    break 'calls;
                }
                if now >= start {
                    break;
                }
                if ends_early() {
                    break 'calls;
                }
                clock.wait_until(start.min(now + WAIT_AT_MOST));
            }
        }
        calls += 1;
        let outcome = caller.call(&mut |answer| {
            let measured = recorder.record(start, clock.now());
            if let Answer::Wrong(what) = answer
                && measured
            {
                tally.errors += 1;
                tally.first_error.get_or_insert(what);
            }
        });
        if let Err(error) = outcome {
            tally.broken = Some(format!("{error:#}"));
            break;
        }
    }
    tally.completed = recorder.finish();
    tally
}
