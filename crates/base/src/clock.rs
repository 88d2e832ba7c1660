//! The seam for time: a hybrid logical clock for commits, and the wall and monotonic clocks behind it.
//!
//! Nothing else in the workspace asks the operating system for the time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::Timestamp;

/// Bits of a [`Timestamp`] below the microseconds.
const COUNTER_BITS: u32 = 12;

/// The monotonic clock.
#[expect(clippy::disallowed_methods, reason = "this is the seam that the rest of the workspace calls instead")]
pub fn monotonic() -> Instant {
    Instant::now()
}

/// The wall clock: microseconds since 1970-01-01 00:00 UTC.
#[expect(clippy::disallowed_methods, reason = "this is the seam that the rest of the workspace calls instead")]
pub fn wall_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// A hybrid logical clock: every tick is greater than every tick before it, and close to the wall clock.
///
/// Kulkarni et al., "Logical Physical Clocks", OPODIS 2014.
#[derive(Debug, Default)]
pub struct HybridClock {
    last: AtomicU64,
}

impl HybridClock {
    /// A clock that has not ticked.
    pub fn new() -> Self {
        Self::default()
    }

    /// A timestamp greater than every one given out before.
    pub fn tick(&self) -> Timestamp {
        let wall = (wall_micros().max(0) as u64) << COUNTER_BITS;
        let mut last = self.last.load(Ordering::Acquire);
        loop {
            let next = wall.max(last + 1);
            match self.last.compare_exchange_weak(last, next, Ordering::SeqCst, Ordering::Acquire) {
                Ok(_) => return Timestamp(next),
                Err(seen) => last = seen,
            }
        }
    }

    /// The last timestamp given out.
    pub fn last(&self) -> Timestamp {
        Timestamp(self.last.load(Ordering::SeqCst))
    }
}
