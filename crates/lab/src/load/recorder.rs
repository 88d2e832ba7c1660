//! Counts latencies by the second, without a lock that threads meet at for each of them.
//!
//! A thread fills a histogram of its own and adds it to the shared one when its second is over.

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
    completed: Vec<u64>,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(shared: &'a Seconds) -> Self {
        let seconds = ((shared.end - shared.begin) / SECOND) as usize;
        Self { shared, second: 0, latencies: histogram::empty(), completed: vec![0; seconds] }
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
            self.hand_over();
            self.second = second;
        }
        self.latencies.saturating_record(done.saturating_sub(start).max(1));
        true
    }

    /// Gives the rest to the shared histograms; answers by the second in which they came.
    pub(super) fn finish(mut self) -> Vec<u64> {
        self.hand_over();
        self.completed
    }

    fn hand_over(&mut self) {
        if self.latencies.is_empty() {
            return;
        }
        self.shared.completed.fetch_add(self.latencies.len(), Ordering::Relaxed);
        let mut histograms = self.shared.lock();
        if histograms.len() <= self.second {
            histograms.resize_with(self.second + 1, histogram::empty);
        }
        histogram::merge(&mut histograms[self.second], &self.latencies);
        drop(histograms);
        // Not `clear`, which keeps the largest and the smallest of the second that is over.
        self.latencies.reset();
    }
}
