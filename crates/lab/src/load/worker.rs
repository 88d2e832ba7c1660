//! The loop of one load thread.

use super::recorder::Recorder;
use super::{Answer, Caller, KindSample, Pace, Windows};
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

    /// The moment at which the call of this number, from 0, is due; None for as soon as it can.
    fn due(self, call: u64) -> Option<Nanos> {
        match self {
            Self::Closed => None,
            // Multiplied, not added up: a rate of a million has no whole interval.
            Self::Every { first, interval } => Some((first + interval * call as f64) as Nanos),
        }
    }

    /// How many calls are due before this moment.
    fn due_before(self, moment: Nanos) -> u64 {
        match self {
            Self::Closed => 0,
            Self::Every { first, interval } => ((moment as f64 - first) / interval).ceil().max(0.0) as u64,
        }
    }
}

/// What one thread saw, apart from latencies.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) completed: Vec<u64>,
    pub(super) errors: u64,
    pub(super) first_error: Option<String>,
    pub(super) retries: u64,
    pub(super) kinds: Vec<KindSample>,
    pub(super) unsent: u64,
    pub(super) broken: Option<String>,
}

impl Tally {
    fn wrong(&mut self, what: String) {
        self.errors += 1;
        self.first_error.get_or_insert(what);
    }
}

/// Calls until the end of the window, or until told to end early.
pub(super) fn work(
    clock: &dyn Clock,
    schedule: Schedule,
    windows: Windows,
    ends_early: &dyn Fn() -> bool,
    mut recorder: Recorder<'_>,
    caller: &mut dyn Caller,
) -> Tally {
    let mut tally = Tally { kinds: KindSample::all_of(caller.kinds()), ..Tally::default() };
    let mut calls = 0u64;
    loop {
        let due = schedule.due(calls);
        if due.unwrap_or_else(|| clock.now()) >= windows.end() {
            // Somebody who stops the load does not wait for one more answer.
            if !ends_early() {
                read_back(caller, &mut tally);
            }
            break;
        }
        caller.make();
        if !waited(clock, due.unwrap_or(0), windows, ends_early) {
            // What was due in the window until now.
            let before = schedule.due_before(clock.now().min(windows.end()));
            let left = before.saturating_sub(calls.max(schedule.due_before(windows.begin())));
            tally.unsent = left * caller.answers_per_call();
            break;
        }
        calls += 1;
        let start = due.unwrap_or_else(|| clock.now());
        let (mut measured, mut done) = (false, start);
        let outcome = caller.call(&mut || {
            done = clock.now();
            measured = recorder.record(start, done);
        });
        if measured {
            tally.retries += caller.retries();
            if let Some(kind) = tally.kinds.get_mut(caller.kind()) {
                kind.latencies.saturating_record(done.saturating_sub(start).max(1));
                kind.retries += caller.retries();
            }
        }
        caller.judge(&mut |answer| {
            if let Answer::Wrong(what) | Answer::Refused(what) = answer
                && measured
            {
                tally.wrong(what);
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

/// Waits until a call is due; false if it is not to be made, because somebody stops the load or patience is at its end.
fn waited(clock: &dyn Clock, due: Nanos, windows: Windows, ends_early: &dyn Fn() -> bool) -> bool {
    loop {
        let now = clock.now();
        if ends_early() || now >= windows.patience() {
            return false;
        }
        if now >= due {
            return true;
        }
        clock.wait_until(due.min(now + WAIT_AT_MOST));
    }
}

/// A write that was confirmed and is not there is a wrong answer, though nobody saw it when it was given.
fn read_back(caller: &mut dyn Caller, tally: &mut Tally) {
    match caller.read_back() {
        Ok(None) => {}
        Ok(Some(fault)) => tally.wrong(fault),
        Err(error) => tally.broken = Some(format!("{error:#}")),
    }
}
