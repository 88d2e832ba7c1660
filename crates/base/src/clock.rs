//! The seam for time: a hybrid logical clock for commits, and the wall and monotonic clocks behind it.
//!
//! Nothing else in the workspace asks the operating system for the time.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::Timestamp;
use crate::sync::atomic::{AtomicU64, Ordering};

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

/// Whose time a [`HybridClock`] follows.
#[derive(Clone, Debug, Default)]
pub enum Wall {
    /// The machine's.
    #[default]
    Machine,
    /// One that a test moves: microseconds since 1970-01-01 00:00 UTC.
    Moved(Arc<AtomicI64>),
}

impl Wall {
    /// Microseconds since 1970-01-01 00:00 UTC.
    #[inline]
    fn micros(&self) -> u64 {
        let micros = match self {
            Self::Machine => wall_micros(),
            Self::Moved(micros) => micros.load(Ordering::SeqCst),
        };
        micros.max(0) as u64
    }
}

/// The time of a timestamp: milliseconds since 1970-01-01 00:00 UTC.
#[inline]
pub fn millis_of(timestamp: Timestamp) -> u64 {
    (timestamp.0 >> COUNTER_BITS) / 1000
}

/// A hybrid logical clock: every tick is greater than every tick before it, and not far behind the wall clock.
///
/// Kulkarni et al., "Logical Physical Clocks", OPODIS 2014. Reading the wall costs more than the rest of a small write,
/// and its order needs a counter only, so the wall clock is read now and then, by [`HybridClock::advance`].
#[derive(Debug)]
pub struct HybridClock {
    last: AtomicU64,
    wall: Wall,
}

impl HybridClock {
    /// A clock that has not ticked: what it says is the wall's time, and every tick is later.
    pub fn new() -> Self {
        Self::following(Wall::Machine)
    }

    /// Like [`HybridClock::new`], after a wall of the caller's.
    pub fn following(wall: Wall) -> Self {
        let clock = Self { last: AtomicU64::new(1), wall };
        clock.advance();
        clock
    }

    /// A timestamp greater than every one given out before.
    pub fn tick(&self) -> Timestamp {
        Timestamp(self.last.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// Catches up with the wall clock.
    pub fn advance(&self) {
        self.last.fetch_max(self.wall.micros() << COUNTER_BITS, Ordering::SeqCst);
    }

    /// What the clock says once it has caught up, without letting it: no tick is earlier, and no later reading of this
    /// thread is.
    pub fn peek(&self) -> Timestamp {
        let wall = self.wall.micros() << COUNTER_BITS;
        Timestamp(self.last.load(Ordering::SeqCst).max(wall))
    }

    /// The last timestamp given out.
    pub fn last(&self) -> Timestamp {
        Timestamp(self.last.load(Ordering::SeqCst))
    }
}

impl Default for HybridClock {
    fn default() -> Self {
        Self::new()
    }
}
