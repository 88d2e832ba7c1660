//! A query that is asked again and again on one connection. It may take longer than the window, so the window is made of whole
//! ones: it begins when the warm-up's last answer has come, and ends with the first answer that comes after its length.
//!
//! ```text
//! |-- warm-up ---------|-- window ------------------|
//! [query] [query] [query][query] [query] [query] [query]    at least one each, if they have a length at all
//! ```
//!
//! So whatever a server uses between begin and end, it uses for the queries that are counted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use anyhow::Result;

use super::{Answer, Caller, Observer, STACK_BYTES, Sample, Windows};
use crate::clock::{Clock, Nanos, SECOND};
use crate::record::histogram;

/// How often somebody looks at the server while a query runs: memory that it has in between for a shorter time may be missed,
/// where the kernel does not keep the peak.
const TICK: Duration = Duration::from_millis(20);

/// What the thread that asks says to the one that looks.
enum Event {
    /// The warm-up is over; it waits until it may go on.
    Begins,
    /// So many answers have come.
    Came(u64),
    /// The window is over.
    Ends,
}

/// Measures one query. Ends early when the connection is lost or `stop` is set.
pub(crate) fn measure_query(
    clock: &dyn Clock,
    windows: Windows,
    mut caller: Box<dyn Caller>,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<Sample> {
    std::thread::scope(|scope| {
        let (say, said) = sync_channel::<Event>(16);
        let (go, gone) = sync_channel::<()>(1);
        let asking = std::thread::Builder::new().name("query".to_owned()).stack_size(STACK_BYTES).spawn_scoped(
            scope,
            // The channels end with the thread, which ends the loop below, even if it panics.
            move || ask(clock, windows, caller.as_mut(), stop, &say, &gone),
        )?;
        let (mut completed, mut running) = (0, false);
        loop {
            match said.recv_timeout(TICK) {
                Ok(Event::Begins) => {
                    running = true;
                    observer.begins();
                    // It is waiting for this.
                    let _ = go.send(());
                }
                Ok(Event::Came(count)) => completed = count,
                Ok(Event::Ends) => {
                    running = false;
                    observer.ends();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            observer.tick(clock.now(), completed);
        }
        if running {
            observer.ends();
        }
        match asking.join() {
            Ok(sample) => Ok(sample),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// The loop of the thread that asks. A message that nobody hears is no failure: who should hear it has ended.
fn ask(
    clock: &dyn Clock,
    windows: Windows,
    caller: &mut dyn Caller,
    stop: &AtomicBool,
    say: &SyncSender<Event>,
    gone: &Receiver<()>,
) -> Sample {
    let mut sample = Sample {
        seconds: 0.0,
        completed: Vec::new(),
        latencies: Vec::new(),
        merged: histogram::empty(),
        errors: 0,
        first_error: None,
        retries: 0,
        kinds: Vec::new(),
        told: None,
        unsent: 0,
        broken: None,
        interrupted: false,
    };
    let stopped = || stop.load(Ordering::Relaxed);
    let warmed_up_at = clock.now() + windows.begin();
    while clock.now() < warmed_up_at && !stopped() && sample.broken.is_none() {
        let _ = once(clock, caller, &mut sample);
    }
    // What was wrong then is asked again in the window.
    (sample.errors, sample.first_error) = (0, None);
    let _ = say.send(Event::Begins);
    let _ = gone.recv();
    let begin = clock.now();
    let length = Nanos::from(windows.measured) * SECOND;
    let mut done = begin;
    while done - begin < length && !stopped() && sample.broken.is_none() {
        let Some((start, end)) = once(clock, caller, &mut sample) else {
            break;
        };
        done = end;
        count(&mut sample, begin, start, end);
        let _ = say.send(Event::Came(sample.merged.len()));
    }
    sample.seconds = (done - begin) as f64 / SECOND as f64;
    sample.interrupted = done - begin < length && sample.broken.is_none();
    let _ = say.send(Event::Ends);
    if sample.broken.is_none() && !stopped() {
        match caller.read_back() {
            Ok(None) => {}
            Ok(Some(fault)) => wrong(&mut sample, fault),
            Err(error) => sample.broken = Some(format!("{error:#}")),
        }
    }
    sample
}

/// Asks once; when it was sent and when its answer had come. None if the connection is lost.
fn once(clock: &dyn Clock, caller: &mut dyn Caller, sample: &mut Sample) -> Option<(Nanos, Nanos)> {
    caller.make();
    let start = clock.now();
    let mut end = None;
    let outcome = caller.call(&mut || end = Some(clock.now()));
    caller.judge(&mut |answer| {
        if let Answer::Wrong(what) = answer {
            wrong(sample, what);
        }
    });
    if let Err(error) = outcome {
        sample.broken = Some(format!("{error:#}"));
    }
    Some((start, end?))
}

fn wrong(sample: &mut Sample, what: String) {
    sample.errors += 1;
    sample.first_error.get_or_insert(what);
}

fn count(sample: &mut Sample, begin: Nanos, start: Nanos, end: Nanos) {
    let nanos = (end - start).max(1);
    let second = |moment: Nanos| ((moment - begin) / SECOND) as usize;
    sample.merged.saturating_record(nanos);
    if sample.latencies.len() <= second(start) {
        sample.latencies.resize_with(second(start) + 1, histogram::empty);
    }
    sample.latencies[second(start)].saturating_record(nanos);
    if sample.completed.len() <= second(end) {
        sample.completed.resize(second(end) + 1, 0);
    }
    sample.completed[second(end)] += 1;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use anyhow::bail;

    use super::*;

    /// Time that passes when a query takes some.
    struct Elapsing(AtomicU64);

    impl Clock for Elapsing {
        fn now(&self) -> Nanos {
            self.0.load(Ordering::SeqCst)
        }

        fn wait_until(&self, _: Nanos) {}
    }

    /// Queries that take so long each; the one of this number, from 1, is answered wrongly, or not at all.
    struct Slow<'a> {
        clock: &'a Elapsing,
        nanos: Nanos,
        calls: u64,
        wrong: Option<u64>,
        lost: Option<u64>,
    }

    impl Caller for Slow<'_> {
        fn make(&mut self) {}

        fn call(&mut self, came: &mut dyn FnMut()) -> Result<()> {
            self.calls += 1;
            self.clock.0.fetch_add(self.nanos, Ordering::SeqCst);
            if self.lost == Some(self.calls) {
                bail!("gone");
            }
            came();
            Ok(())
        }

        fn judge(&mut self, judged: &mut dyn FnMut(Answer)) {
            let is_wrong = self.wrong == Some(self.calls);
            judged(if is_wrong { Answer::Wrong("not that".into()) } else { Answer::Right });
        }

        fn read_back(&mut self) -> Result<Option<String>> {
            Ok((self.wrong == Some(0)).then(|| "all was wrong".into()))
        }
    }

    #[derive(Default)]
    struct Seen {
        begins: u32,
        ends: u32,
        completed: u64,
    }

    impl Observer for Seen {
        fn begins(&mut self) {
            self.begins += 1;
        }

        fn ends(&mut self) {
            self.ends += 1;
        }

        fn tick(&mut self, _: Nanos, completed: u64) {
            self.completed = completed;
        }
    }

    /// Queries of so many tenths of a second, in a second of warm-up and three that are measured.
    fn measured(tenths: u64, wrong: Option<u64>, lost: Option<u64>) -> (Sample, Seen) {
        // Leaked: the caller of a measurement outlives this function's frame as far as its type can say.
        let clock: &'static Elapsing = Box::leak(Box::new(Elapsing(AtomicU64::new(0))));
        let caller = Slow { clock, nanos: tenths * SECOND / 10, calls: 0, wrong, lost };
        let mut seen = Seen::default();
        let windows = Windows { warm_up: 1, measured: 3 };
        let sample = measure_query(clock, windows, Box::new(caller), &AtomicBool::new(false), &mut seen).unwrap();
        (sample, seen)
    }

    #[test]
    fn a_window_is_made_of_whole_queries() {
        let (sample, seen) = measured(4, None, None);
        // Three in the warm-up, and eight until 3.2 s.
        assert_eq!((sample.merged.len(), sample.seconds), (8, 3.2));
        assert_eq!(sample.completed, [2, 2, 3, 1]);
        assert_eq!(sample.latencies.iter().map(histogram::Latencies::len).collect::<Vec<_>>(), [3, 2, 3]);
        assert_eq!((seen.begins, seen.ends, seen.completed), (1, 1, 8));
        assert!(!sample.interrupted && sample.broken.is_none() && sample.errors == 0);
    }

    #[test]
    fn a_query_that_takes_longer_than_the_window_is_measured_once() {
        let (sample, seen) = measured(90, None, None);
        assert_eq!((sample.merged.len(), sample.seconds, seen.ends), (1, 9.0, 1));
        assert!(!sample.interrupted);
    }

    #[test]
    fn what_is_wrong_in_the_window_or_after_it_counts() {
        assert_eq!(measured(4, Some(3), None).0.errors, 0, "in the warm-up");
        let sample = measured(4, Some(4), None).0;
        assert_eq!((sample.errors, sample.first_error.as_deref()), (1, Some("not that")));
        assert_eq!(measured(4, Some(0), None).0.first_error.as_deref(), Some("all was wrong"));
    }

    #[test]
    fn a_connection_that_is_lost_ends_it() {
        let (sample, seen) = measured(4, None, Some(6));
        assert_eq!((sample.merged.len(), sample.broken.as_deref(), seen.ends), (2, Some("gone"), 1));
        let (sample, seen) = measured(4, None, Some(2));
        assert_eq!((sample.merged.len(), sample.broken.as_deref(), seen.begins), (0, Some("gone"), 1));
    }
}
