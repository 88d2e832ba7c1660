//! Turns: a connection with much to do yields to the other connections of its thread from time to time.

use std::time::{Duration, Instant};

use ashlar_base::clock;
use ashlar_base::scope::{Name, scope};

/// How long a connection works before others have their turn: less than a client notices, more than a switch costs.
const TURN: Duration = Duration::from_millis(1);

/// Steps between two looks at the clock.
const STEPS_PER_LOOK: u32 = 64;

/// Bytes that are gone through or copied in the time of a short step, about.
const BYTES_PER_STEP: u64 = 256;

/// So many steps are a turn, whatever the clock says: 4 MiB gone through take about as long as one.
const STEPS_PER_TURN: u32 = 1 << 14;

static OTHERS: Name = Name::new("turn of other connections");

/// Counts what a connection does without waiting. A few steps cost it no look at the clock.
#[derive(Default)]
pub(super) struct Turn {
    steps: u32,
    since: Option<Instant>,
}

impl Turn {
    /// One command or statement is done.
    pub(super) async fn step(&mut self) {
        self.work(0).await;
    }

    /// The same of one that has gone through so many bytes: the turn ends with it if they are many.
    pub(super) async fn work(&mut self, bytes: u64) {
        if self.counts(bytes) {
            self.look().await;
        }
    }

    /// Counts what [`Self::work`] does; whether [`Self::look`] has to come next.
    pub(super) fn counts(&mut self, bytes: u64) -> bool {
        let steps = u32::try_from(bytes / BYTES_PER_STEP).unwrap_or(u32::MAX);
        self.steps = self.steps.saturating_add(steps).saturating_add(1);
        self.steps >= STEPS_PER_LOOK
    }

    /// Looks at the clock, and lets others have their turn where this one is over.
    pub(super) async fn look(&mut self) {
        let steps = std::mem::take(&mut self.steps);
        let now = clock::monotonic();
        let is_over = now.duration_since(*self.since.get_or_insert(now)) >= TURN;
        if is_over || steps >= STEPS_PER_TURN {
            scope(&OTHERS, tokio::task::yield_now()).await;
            self.since = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_command_of_much_work_ends_the_turn_and_many_short_ones_do_not() {
        let mut turn = Turn::default();
        for _ in 1..STEPS_PER_LOOK {
            assert!(turn.step().now_or_never().is_some());
        }
        let much = BYTES_PER_STEP * u64::from(STEPS_PER_TURN);
        assert!(turn.work(much).now_or_never().is_none());
        assert!(turn.work(u64::MAX).now_or_never().is_none());
        let mut turn = Turn::default();
        assert!(turn.work(much / 2).now_or_never().is_some());
    }
}
