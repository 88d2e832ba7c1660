//! Turns: a connection with much to do yields to the others of its thread in between.

use std::time::{Duration, Instant};

use ashlar_base::clock;
use ashlar_base::scope::{Name, scope};

/// How long a connection works before others have their turn: less than a client notices, more than a switch costs.
const TURN: Duration = Duration::from_millis(1);

/// Steps between two looks at the clock.
const STEPS_PER_LOOK: u32 = 64;

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
        self.steps += 1;
        if !self.steps.is_multiple_of(STEPS_PER_LOOK) {
            return;
        }
        let now = clock::monotonic();
        if now.duration_since(*self.since.get_or_insert(now)) >= TURN {
            scope(&OTHERS, tokio::task::yield_now()).await;
            self.since = None;
        }
    }
}
