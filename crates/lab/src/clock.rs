//! The lab's time: nanoseconds since a measurement began, and waiting until something is due.
//!
//! The only place of the lab that sleeps. Load is paced by a [`Clock`], so that tests pace it by one of their own.

use std::time::{Duration, Instant};

use ashlar_base::clock::monotonic;

/// Nanoseconds since a measurement began.
pub(crate) type Nanos = u64;

/// Nanoseconds of a second.
pub(crate) const SECOND: Nanos = 1_000_000_000;

/// Tells the time since a measurement began, and waits.
pub(crate) trait Clock: Sync {
    /// The time.
    fn now(&self) -> Nanos;

    /// Returns at this moment, or a little later.
    fn wait_until(&self, moment: Nanos);
}

/// The machine's monotonic clock.
pub(crate) struct RealClock {
    start: Instant,
}

impl RealClock {
    /// A clock that reads zero now.
    pub(crate) fn start() -> Self {
        Self { start: monotonic() }
    }
}

impl Clock for RealClock {
    fn now(&self) -> Nanos {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn wait_until(&self, moment: Nanos) {
        let now = self.now();
        if moment > now {
            pause(Duration::from_nanos(moment - now));
        }
    }
}

/// Waits for this long.
#[expect(clippy::disallowed_methods, reason = "load is offered at given moments, and a foreign process is polled")]
pub(crate) fn pause(length: Duration) {
    std::thread::sleep(length);
}

/// Lets sleeping threads of this process wake when they asked to, not up to 50 us later, which is Linux's habit: the
/// threads inherit what their creator has. Where the file is missing, requests of an open loop leave a little late,
/// which their latencies show.
pub(crate) fn wake_punctually() {
    if let Err(error) = std::fs::write("/proc/self/timerslack_ns", "1") {
        crate::say::note(&format!("timers stay coarse: {error}"));
    }
}
