//! Load against targets that are functions, on a clock that only they move: nothing here sleeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::bail;

use super::worker::{Schedule, work};
use super::*;

/// Nanoseconds of a millisecond.
const MILLI: Nanos = 1_000_000;

/// A clock that stands still unless somebody waits or a target takes its time.
#[derive(Default)]
struct VirtualClock(AtomicU64);

impl Clock for VirtualClock {
    fn now(&self) -> Nanos {
        self.0.load(Ordering::Relaxed)
    }

    fn wait_until(&self, moment: Nanos) {
        self.0.fetch_max(moment, Ordering::Relaxed);
    }
}

/// Takes `service` for an answer, and stops for `stall_for` at the first request at or after `stall_at`. Its client takes `make` to
/// make a request and `judge` to judge the answer.
struct Synthetic {
    clock: Arc<VirtualClock>,
    service: Nanos,
    make: Nanos,
    judge: Nanos,
    sent_at: Option<Nanos>,
    loses_writes: bool,
    stall_at: Option<Nanos>,
    stall_for: Nanos,
    dies_at: Nanos,
    wrong_at: Nanos,
    retries: u64,
}

impl Synthetic {
    fn steady(clock: &Arc<VirtualClock>, service: Nanos) -> Self {
        Self {
            clock: clock.clone(),
            service,
            make: 0,
            judge: 0,
            sent_at: None,
            loses_writes: false,
            stall_at: None,
            stall_for: 0,
            dies_at: Nanos::MAX,
            wrong_at: Nanos::MAX,
            retries: 0,
        }
    }
}

impl Caller for Synthetic {
    fn make(&mut self) {
        self.clock.wait_until(self.clock.now() + self.make);
    }

    fn call(&mut self, came: &mut dyn FnMut()) -> Result<()> {
        let now = self.clock.now();
        if now >= self.dies_at {
            bail!("connection reset");
        }
        if self.stall_at.is_some_and(|at| now >= at) {
            self.stall_at = None;
            self.clock.wait_until(now + self.stall_for);
        }
        self.clock.wait_until(self.clock.now() + self.service);
        came();
        self.sent_at = Some(now);
        Ok(())
    }

    fn judge(&mut self, judged: &mut dyn FnMut(Answer)) {
        self.clock.wait_until(self.clock.now() + self.judge);
        if let Some(sent_at) = self.sent_at.take() {
            judged(if sent_at >= self.wrong_at { Answer::Wrong("no value".into()) } else { Answer::Right });
        }
    }

    fn retries(&self) -> u64 {
        self.retries
    }

    fn read_back(&mut self) -> Result<Option<String>> {
        Ok(self.loses_writes.then(|| "a write is gone".to_owned()))
    }
}

/// One thread against one synthetic target, in virtual time.
fn run(clock: &Arc<VirtualClock>, pace: Pace, windows: Windows, target: Synthetic) -> Sample {
    run_until(clock, pace, windows, target, Nanos::MAX)
}

/// Likewise, and somebody stops it at this moment.
fn run_until(clock: &Arc<VirtualClock>, pace: Pace, windows: Windows, mut target: Synthetic, stop: Nanos) -> Sample {
    let seconds = Seconds::new(windows);
    let schedule = Schedule::of(pace, 0, 1, 1);
    let recorder = Recorder::new(&seconds, 0, 1);
    let tally = work(clock.as_ref(), schedule, windows, &|| clock.now() >= stop, recorder, &mut target);
    assemble(windows, seconds, vec![tally], windows.end(), false)
}

const WINDOWS: Windows = Windows { warm_up: 1, measured: 10 };

/// Within the three digits that a histogram keeps.
#[track_caller]
fn about(value: u64, expected: u64) {
    assert!(value.abs_diff(expected) * 500 <= expected, "{value} is not about {expected}");
}

#[test]
fn a_stall_is_charged_to_every_request_that_was_due_meanwhile() {
    let clock = Arc::new(VirtualClock::default());
    let target = Synthetic { stall_at: Some(5 * SECOND), stall_for: SECOND, ..Synthetic::steady(&clock, MILLI / 10) };
    let sample = run(&clock, Pace::Open { per_second: 1000.0 }, WINDOWS, target);
    // 10,000 requests, one a millisecond, 0.1 ms each. The request due when the stall begins takes 1000.1 ms; the k-th after it
    // was due k ms later and leaves when those before it have been answered: 1000.1 - 0.9 k ms, until that is 0.1 ms.
    assert_eq!(sample.merged.len(), 10_000);
    about(sample.merged.max(), 10_001 * MILLI / 10);
    // The hundred slowest of 10,000 lie beyond p99: k = 0..=99, so p99 is that of k = 100.
    about(sample.merged.value_at_quantile(0.99), 10_001 * MILLI / 10 - 90 * MILLI);
    // 1,111 requests waited at all, so p90 (k = 1000) did and p88 did not.
    about(sample.merged.value_at_quantile(0.9), 10_001 * MILLI / 10 - 900 * MILLI);
    about(sample.merged.value_at_quantile(0.88), MILLI / 10);
    // The stall lies in the fifth second of the window, and the backlog is worked off in the sixth.
    assert_eq!(sample.completed, [1000, 1000, 1000, 1000, 0, 2000, 1000, 1000, 1000, 1000]);
}

#[test]
fn a_closed_loop_sees_the_same_stall_once() {
    let clock = Arc::new(VirtualClock::default());
    let target = Synthetic { stall_at: Some(5 * SECOND), stall_for: SECOND, ..Synthetic::steady(&clock, MILLI) };
    let sample = run(&clock, Pace::Closed, WINDOWS, target);
    assert_eq!(sample.merged.len(), 9_000);
    about(sample.merged.value_at_quantile(0.999), MILLI);
    about(sample.merged.max(), 1001 * MILLI);
}

#[test]
fn a_stall_at_the_end_of_the_window_is_not_cut_off() {
    let clock = Arc::new(VirtualClock::default());
    let target =
        Synthetic { stall_at: Some(10 * SECOND), stall_for: 3 * SECOND, ..Synthetic::steady(&clock, MILLI / 10) };
    let sample = run(&clock, Pace::Open { per_second: 1000.0 }, WINDOWS, target);
    // The requests of the last second were due before the end, and are waited for.
    assert_eq!(sample.merged.len(), 10_000);
    assert_eq!(sample.completed[9], 0);
    about(sample.merged.max(), 30_001 * MILLI / 10);
    assert_eq!(sample.unsent, 0);
}

#[test]
fn a_rate_that_cannot_be_reached_ends_and_says_what_was_not_sent() {
    let clock = Arc::new(VirtualClock::default());
    let sample = run(&clock, Pace::Open { per_second: 10_000.0 }, WINDOWS, Synthetic::steady(&clock, MILLI));
    // 21 s of one answer a millisecond; 110,000 were due, those of the warm-up are not counted.
    assert_eq!(sample.unsent, 110_000 - 21_000);
    assert_eq!(sample.merged.len(), 21_000 - 10_000);
    assert_eq!(sample.completed.iter().sum::<u64>(), 10_000);
}

#[test]
fn what_was_due_in_the_warm_up_is_not_unsent() {
    let clock = Arc::new(VirtualClock::default());
    // 21 s of one answer in 100 ms: 210 of the 1,000 of the warm-up are sent, and none of the 10,000 of the window.
    let sample = run(&clock, Pace::Open { per_second: 1000.0 }, WINDOWS, Synthetic::steady(&clock, 100 * MILLI));
    assert_eq!((sample.unsent, sample.merged.len()), (10_000, 0));
}

#[test]
fn what_was_still_waited_for_when_it_was_stopped_is_unsent() {
    let clock = Arc::new(VirtualClock::default());
    let pace = Pace::Open { per_second: 2000.0 };
    let sample = run_until(&clock, pace, WINDOWS, Synthetic::steady(&clock, MILLI), 12 * SECOND);
    // One answer a millisecond: 12,000 of 22,000 were sent, all of the warm-up among them.
    assert_eq!((sample.unsent, sample.merged.len()), (10_000, 10_000));
}

#[test]
fn making_a_request_and_judging_its_answer_is_not_timed() {
    for pace in [Pace::Closed, Pace::Open { per_second: 100.0 }] {
        let clock = Arc::new(VirtualClock::default());
        let target = Synthetic { make: 2 * MILLI, judge: 3 * MILLI, ..Synthetic::steady(&clock, MILLI) };
        let sample = run(&clock, pace, WINDOWS, target);
        about(sample.merged.max(), MILLI);
    }
}

#[test]
fn a_write_that_is_gone_afterwards_is_a_wrong_answer() {
    let clock = Arc::new(VirtualClock::default());
    let target = Synthetic { loses_writes: true, ..Synthetic::steady(&clock, MILLI) };
    let sample = run(&clock, Pace::Closed, WINDOWS, target);
    assert_eq!((sample.errors, sample.first_error.as_deref()), (1, Some("a write is gone")));
}

#[test]
fn attempts_are_counted_for_the_calls_that_are_measured() {
    let clock = Arc::new(VirtualClock::default());
    let target = Synthetic { retries: 2, ..Synthetic::steady(&clock, MILLI) };
    let sample = run(&clock, Pace::Closed, WINDOWS, target);
    // Not those of the warm-up.
    assert_eq!((sample.retries, sample.merged.len()), (20_000, 10_000));
}

#[test]
fn the_largest_latency_of_a_second_is_not_that_of_the_second_before() {
    let clock = Arc::new(VirtualClock::default());
    let target = Synthetic { stall_at: Some(5 * SECOND), stall_for: SECOND / 2, ..Synthetic::steady(&clock, MILLI) };
    let sample = run(&clock, Pace::Closed, WINDOWS, target);
    about(sample.latencies[4].max(), 501 * MILLI);
    about(sample.latencies[5].max(), MILLI);
}

#[test]
fn what_the_warm_up_saw_is_not_counted() {
    let clock = Arc::new(VirtualClock::default());
    let target = Synthetic { stall_at: Some(0), stall_for: SECOND / 2, ..Synthetic::steady(&clock, MILLI) };
    let sample = run(&clock, Pace::Closed, WINDOWS, target);
    assert_eq!(sample.merged.len(), 10_000);
    about(sample.merged.max(), MILLI);
    assert_eq!(sample.completed, vec![1000; 10]);
}

#[test]
fn wrong_answers_are_counted_and_the_first_is_kept() {
    let clock = Arc::new(VirtualClock::default());
    let target = Synthetic { wrong_at: 6 * SECOND, ..Synthetic::steady(&clock, MILLI) };
    let sample = run(&clock, Pace::Closed, WINDOWS, target);
    assert_eq!((sample.errors, sample.first_error.as_deref()), (5_000, Some("no value")));
}

#[test]
fn threads_of_an_open_loop_take_turns() {
    let pace = Pace::Open { per_second: 1000.0 };
    let first = |thread| match Schedule::of(pace, thread, 4, 1) {
        Schedule::Every { first, interval } => (first, interval),
        Schedule::Closed => unreachable!(),
    };
    assert_eq!(first(0), (0.0, 4e6));
    assert_eq!(first(3), (3e6, 4e6));
}

#[derive(Default)]
struct Heard(Vec<&'static str>);

impl Observer for Heard {
    fn begins(&mut self) {
        self.0.push("begins");
    }
    fn ends(&mut self) {
        self.0.push("ends");
    }
    fn tick(&mut self, _: Nanos, _: u64) {}
}

#[test]
fn a_lost_connection_ends_the_measurement_and_keeps_what_there_is() {
    let clock = Arc::new(VirtualClock::default());
    let target = Synthetic { dies_at: 3 * SECOND + SECOND / 2, ..Synthetic::steady(&clock, MILLI) };
    let mut heard = Heard::default();
    let stop = AtomicBool::new(false);
    let callers: Vec<Box<dyn Caller>> = vec![Box::new(target)];
    let sample = measure(clock.as_ref(), Pace::Closed, WINDOWS, callers, &stop, &mut heard).unwrap();
    assert_eq!(sample.broken.as_deref(), Some("connection reset"));
    assert_eq!(sample.merged.len(), 2_500);
    assert_eq!((sample.seconds, sample.completed.len()), (2.5, 3));
    assert_eq!(heard.0, ["begins", "ends"]);
    assert!(!sample.interrupted);
}

#[test]
fn being_told_to_stop_ends_the_measurement() {
    let clock = Arc::new(VirtualClock::default());
    let callers: Vec<Box<dyn Caller>> = vec![Box::new(Synthetic::steady(&clock, MILLI))];
    let stop = AtomicBool::new(true);
    let sample = measure(clock.as_ref(), Pace::Closed, WINDOWS, callers, &stop, &mut Heard::default()).unwrap();
    assert!(sample.interrupted);
    assert_eq!((sample.merged.len(), sample.seconds), (0, 0.0));
}
