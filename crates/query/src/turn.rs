//! A statement's turn among the queries: held while something of the statement computes, given up while all of it waits
//! for others.
//!
//! ```text
//! begin ──▶ has a slot ──▶ a stream waits for a shard, for long, and no other one is at work ──▶ has none
//!               ▲                                                                                  │
//!               └──────────── a stream that goes on asks for one for all of them ◀─────────────────┘
//! ```
//!
//! Used by `StatementResources` for the statement as a whole, which waits for its client or its session, and by scans of shards,
//! whose streams each wait for themselves. If all scans wait, other operators may still compute with rows they already
//! have; they do so without a turn, and soon run out of rows.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use ashlar_base::scope::{self, Name};
use ashlar_base::{Error, Result, clock};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::admission::{Admission, Entry, Slot};

static AGAIN: Name = Name::new("turn of a query");

/// How long a stream waits for a shard with its turn, for each of its batches: what comes at once is not worth a place in the queue, where
/// its connection would wait for others to compute.
const KEPT: Duration = Duration::from_millis(10);

/// See the module.
#[derive(Debug)]
pub(crate) struct Turn {
    admission: Arc<Admission>,
    state: Mutex<State>,
    /// Told where somebody who waits for a slot may look again.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    slot: Option<Slot>,
    /// It has been let in: what has not needs no turn, and takes none.
    has_begun: bool,
    /// The statement waits for its client or its session, or has ended: nothing of it needs a turn meanwhile.
    is_paused: bool,
    /// Streams at work, those among them that wait for the turn.
    at_work: usize,
    /// Streams that have waited long for a shard, and still do.
    away: usize,
    /// Who waits in the queue for all of them.
    asking: Option<AbortHandle>,
    /// What the queue has said in the place of a slot.
    failure: Option<Error>,
}

impl State {
    /// Whether all that is known of the statement waits for shards.
    fn is_away(&self) -> bool {
        self.away > 0 && self.at_work == 0
    }

    fn needs_slot(&self) -> bool {
        self.has_begun && !self.is_paused && !self.is_away() && self.slot.is_none()
    }

    /// The slot, where nobody needs it any more.
    fn given_back(&mut self) -> Option<Slot> {
        if self.is_away() { self.slot.take() } else { None }
    }
}

impl Turn {
    pub(crate) fn new(admission: &Arc<Admission>) -> Arc<Self> {
        let (state, changed) = (Mutex::default(), Notify::new());
        Arc::new(Self { admission: Arc::clone(admission), state, changed })
    }

    /// The statement begins as soon as it is its turn; one that has begun goes on.
    ///
    /// # Errors
    /// 53300 where it may not.
    pub(crate) async fn begin(self: &Arc<Self>) -> Result<()> {
        if self.state.lock().has_begun {
            return self.hold().await;
        }
        let slot = self.admission.enter(Entry::First).await?;
        let mut state = self.state.lock();
        state.slot = Some(slot);
        state.has_begun = true;
        Ok(())
    }

    /// The statement waits for its client or its session.
    pub(crate) fn pause(&self) {
        let (slot, asking) = {
            let mut state = self.state.lock();
            state.is_paused = true;
            (state.slot.take(), state.asking.take())
        };
        if let Some(asking) = asking {
            asking.abort();
        }
        drop(slot);
        self.changed.notify_waiters();
    }

    /// It goes on, as soon as there is room for it; where its streams wait for shards, it has a turn when they go on.
    ///
    /// # Errors
    /// XX000
    pub(crate) async fn resume(self: &Arc<Self>) -> Result<()> {
        self.state.lock().is_paused = false;
        self.hold().await
    }

    /// A stream begins to work, as soon as the statement has its turn, until what is returned is dropped.
    ///
    /// # Errors
    /// XX000
    pub(crate) async fn work(self: &Arc<Self>) -> Result<AtWork<'_>> {
        self.state.lock().at_work += 1;
        let at_work = AtWork { turn: self, patience: KEPT };
        self.hold().await?;
        Ok(at_work)
    }

    /// Returns when there is a slot, or none is needed.
    async fn hold(self: &Arc<Self>) -> Result<()> {
        loop {
            // Hears of every change from here on.
            let changed = self.changed.notified();
            {
                let mut state = self.state.lock();
                if !state.needs_slot() {
                    return Ok(());
                }
                if let Some(failure) = &state.failure {
                    return Err(failure.clone());
                }
                if state.asking.is_none() {
                    state.asking = Some(self.ask());
                }
            }
            changed.await;
        }
    }

    /// Asks for a slot, in a task of its own: a stream that nobody asks for rows any more could neither take it nor let it go.
    fn ask(self: &Arc<Self>) -> AbortHandle {
        let turn = Arc::clone(self);
        let asking = tokio::spawn(scope::task(&AGAIN, async move {
            let entered = turn.admission.enter(Entry::Again).await;
            {
                let mut state = turn.state.lock();
                state.asking = None;
                match entered {
                    Ok(slot) if state.needs_slot() => state.slot = Some(slot),
                    Ok(_) => {}
                    Err(error) => state.failure = Some(error),
                }
            }
            turn.changed.notify_waiters();
        }));
        asking.abort_handle()
    }
}

/// A stream at work, until it is dropped.
#[derive(Debug)]
pub(crate) struct AtWork<'t> {
    turn: &'t Arc<Turn>,
    /// How long it may still wait with its turn.
    patience: Duration,
}

impl AtWork<'_> {
    /// Waits for a shard. Where that takes long, others have the turn meanwhile, and it goes on when it is the statement's again.
    ///
    /// # Errors
    /// XX000
    pub(crate) async fn wait<T>(&mut self, awaited: impl Future<Output = T>) -> Result<T> {
        let mut awaited = pin!(awaited);
        // What is there already needs no clock.
        if let Poll::Ready(done) = futures::poll!(awaited.as_mut()) {
            return Ok(done);
        }
        let since = clock::monotonic();
        let kept = tokio::time::timeout(self.patience, awaited.as_mut()).await;
        self.patience = self.patience.saturating_sub(since.elapsed());
        if let Ok(done) = kept {
            return Ok(done);
        }
        let away = Away::leave(self.turn);
        let done = awaited.await;
        drop(away);
        self.turn.hold().await?;
        Ok(done)
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        let slot = {
            let mut state = self.turn.state.lock();
            state.at_work -= 1;
            state.given_back()
        };
        drop(slot);
    }
}

/// A stream that waits for a shard, until it is dropped.
struct Away<'t>(&'t Turn);

impl<'t> Away<'t> {
    fn leave(turn: &'t Turn) -> Self {
        let slot = {
            let mut state = turn.state.lock();
            state.at_work -= 1;
            state.away += 1;
            state.given_back()
        };
        drop(slot);
        Self(turn)
    }
}

impl Drop for Away<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.away -= 1;
        state.at_work += 1;
    }
}

#[cfg(test)]
mod tests;
