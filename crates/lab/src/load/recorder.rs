//! Counts latencies by the second, without a lock that threads meet at for each of them.
//!
//! A thread fills a histogram of its own, and adds it to the shared one some time after its second is over. All threads see the end
//! of a second at the same moment, so each lets another time pass: else they would meet at the lock, and each of them, with the
//! requests that were due, wait for the others.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Windows;
use crate::clock::{Nanos, SECOND};
use crate::record::histogram::{self, Latencies};

/// The latencies of all threads, by the second of the measured window.
pub(crate) struct Seconds {
    begin: Nanos,
    end: Nanos,
    histograms: Mutex<Vec<Latencies>>,
    completed: AtomicU64,
}

impl Seconds {
    /// All empty.
    pub(crate) fn new(windows: Windows) -> Self {
        Self {
            begin: windows.begin(),
            end: windows.end(),
            histograms: Mutex::new(Vec::new()),
            completed: AtomicU64::new(0),
        }
    }

    /// Answers that threads have handed over.
    pub(crate) fn completed(&self) -> u64 {
        self.completed.load(Ordering::Relaxed)
    }

    /// A histogram for every second of the window.
    pub(crate) fn into_latencies(self) -> Vec<Latencies> {
        let mut histograms = self.histograms.into_inner().unwrap_or_else(PoisonError::into_inner);
        histograms.resize_with(((self.end - self.begin) / SECOND) as usize, histogram::empty);
        histograms
    }

    /// The second of the window that a moment is in.
    fn second_of(&self, moment: Nanos) -> Option<usize> {
        (self.begin..self.end).contains(&moment).then(|| ((moment - self.begin) / SECOND) as usize)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Latencies>> {
        self.histograms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one thread counts.
pub(super) struct Recorder<'a> {
    shared: &'a Seconds,
    second: usize,
    latencies: Latencies,
    /// The latencies of an earlier second, until they are handed over, and when that is to be.
    earlier: (usize, Latencies),
    hand_over_at: Nanos,
    /// From the end of a second until its latencies are handed over.
    delay: Nanos,
    completed: Vec<u64>,
}

impl<'a> Recorder<'a> {
    /// Of one thread of so many.
    pub(super) fn new(shared: &'a Seconds, thread: usize, threads: usize) -> Self {
        let seconds = ((shared.end - shared.begin) / SECOND) as usize;
        Self {
            shared,
            second: 0,
            latencies: histogram::empty(),
            earlier: (0, histogram::empty()),
            hand_over_at: Nanos::MAX,
            delay: SECOND * thread as u64 / threads as u64,
            completed: vec![0; seconds],
        }
    }

    /// An answer to a request that was sent, or due, at `start`. Whether it is part of the measured window.
    #[inline]
    pub(super) fn record(&mut self, start: Nanos, done: Nanos) -> bool {
        if let Some(second) = self.shared.second_of(done) {
            self.completed[second] += 1;
        }
        let Some(second) = self.shared.second_of(start) else {
            return false;
        };
        if second != self.second {
            self.put_aside();
            self.second = second;
            self.hand_over_at = done + self.delay;
        }
        if done >= self.hand_over_at {
            self.hand_over();
        }
        self.latencies.saturating_record(done.saturating_sub(start).max(1));
        true
    }

    /// Gives the rest to the shared histograms; answers by the second in which they came.
    pub(super) fn finish(mut self) -> Vec<u64> {
        self.put_aside();
        self.hand_over();
        self.completed
    }

    /// Makes room for another second.
    fn put_aside(&mut self) {
        // Mostly there is nothing left of the second before.
        self.hand_over();
        self.earlier.0 = self.second;
        std::mem::swap(&mut self.earlier.1, &mut self.latencies);
    }

    fn hand_over(&mut self) {
        self.hand_over_at = Nanos::MAX;
        let (second, latencies) = &mut self.earlier;
        if latencies.is_empty() {
            return;
        }
        self.shared.completed.fetch_add(latencies.len(), Ordering::Relaxed);
        let mut histograms = self.shared.lock();
        if histograms.len() <= *second {
            histograms.resize_with(*second + 1, histogram::empty);
        }
        histogram::merge(&mut histograms[*second], latencies);
        drop(histograms);
        // Not `clear`, which keeps the largest and the smallest of the second that is over.
        latencies.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_hand_a_second_over_one_after_the_other_and_nothing_is_lost() {
        let seconds = Seconds::new(Windows { warm_up: 0, measured: 3 });
        let mut recorders = [0, 1].map(|thread| Recorder::new(&seconds, thread, 2));
        let mut all_at = |tenth: u64| {
            let done = tenth * SECOND / 10;
            recorders.iter_mut().for_each(|recorder| assert!(recorder.record(done - 1000, done)));
            seconds.completed()
        };
        assert_eq!([3, 8, 11, 14, 17, 21].map(&mut all_at), [0, 0, 2, 2, 4, 7]);
        recorders.into_iter().for_each(|recorder| drop(recorder.finish()));
        let lengths: Vec<u64> = seconds.into_latencies().iter().map(Latencies::len).collect();
        assert_eq!(lengths, [4, 6, 2]);
    }
}
