//! Admission control: how many queries run at once, and in which order the others wait: first come, first served.
//!
//! Everything that DataFusion runs takes a slot and holds it while it computes. Three rules keep slots and row locks
//! from waiting for each other:
//!
//! - A statement that waits for a row lock has no slot. The attempt that found the row locked has ended, and the next
//!   attempt asks for a slot again.
//! - A statement that waits for its client has no slot either (see
//!   [`StatementResources::pause`](crate::StatementResources::pause)), so a cursor that is not fetched from, or a client
//!   that reads slowly, blocks nobody. Such a query continues before any that have not begun.
//! - Nor has a statement that waits for shards: for what its session reads over its transaction's own connections
//!   (`sharded::transaction_reads`) and, if that takes long, for what its own scans read (`turn`).
//!
//! So whoever holds a slot needs nothing but time to release it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ashlar_base::clock;
use ashlar_base::scope::{Name, scope};
use ashlar_base::{Error, ErrorCode, Result};
use parking_lot::Mutex;
use tokio::sync::oneshot;

static QUEUE: Name = Name::new("queue of queries");

/// The limits on running and waiting queries.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionConfig {
    /// The number of queries that may run at once.
    pub running_max: usize,
    /// The number of queries that may wait.
    pub waiting_max: usize,
    /// How long a query may wait.
    pub wait_max: Option<Duration>,
}

/// Counts of queries, for the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmissionStatistics {
    /// Queries that are running.
    pub running: u64,
    /// Queries that are waiting, including those that wait to continue.
    pub waiting: u64,
    /// Queries that were admitted, with or without a wait.
    pub admitted: u64,
    /// Admitted queries that had to wait.
    pub waited: u64,
    /// The microseconds that these waited in all.
    pub waited_micros: u64,
    /// Queries that were refused because too many were waiting.
    pub refused_full: u64,
    /// Queries that were refused because they had waited for too long.
    pub refused_late: u64,
    /// Queries that left the queue: they were cancelled, or their clients are gone.
    pub left: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Admission {
    config: AdmissionConfig,
    state: Mutex<State>,
}

/// While fewer run than may, nobody waits.
#[derive(Debug, Default)]
struct State {
    running: usize,
    /// Queries that have run before. As many as there are sessions, at most.
    returning: VecDeque<Waiter>,
    waiting: VecDeque<Waiter>,
    next: u64,
    told: AdmissionStatistics,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    gate: oneshot::Sender<Slot>,
}

/// Whether a query has run before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// No: it may be refused.
    First,
    /// Yes: it continues as soon as there is a slot.
    Again,
}

/// The right to run, until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot(Option<Arc<Admission>>);

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(admission) = self.0.take() {
            admission.hand_on();
        }
    }
}

impl State {
    fn queue(&mut self, entry: Entry) -> &mut VecDeque<Waiter> {
        match entry {
            Entry::First => &mut self.waiting,
            Entry::Again => &mut self.returning,
        }
    }
}

impl Admission {
    pub(crate) fn new(config: AdmissionConfig) -> Arc<Self> {
        Arc::new(Self { config, state: Mutex::new(State::default()) })
    }

    /// What there was and is.
    pub(crate) fn statistics(&self) -> AdmissionStatistics {
        let state = self.state.lock();
        let waiting = (state.waiting.len() + state.returning.len()) as u64;
        AdmissionStatistics { running: state.running as u64, waiting, ..state.told }
    }

    /// Resolves with a slot when it is the query's turn. Dropping the future leaves the queue.
    ///
    /// # Errors
    /// 53300 if too many queries wait, or if the wait takes too long.
    pub(crate) async fn enter(self: &Arc<Self>, entry: Entry) -> Result<Slot> {
        let (slot, place) = {
            let mut state = self.state.lock();
            if state.running < self.config.running_max {
                state.running += 1;
                state.told.admitted += u64::from(entry == Entry::First);
                return Ok(Slot(Some(Arc::clone(self))));
            }
            if entry == Entry::First && state.waiting.len() >= self.config.waiting_max {
                state.told.refused_full += 1;
                return Err(self.is_full());
            }
            let number = state.next;
            state.next += 1;
            let (gate, slot) = oneshot::channel();
            state.queue(entry).push_back(Waiter { number, gate });
            (slot, Place { admission: self, entry, number, is_over: false })
        };
        let began = clock::monotonic();
        let waited = match self.config.wait_max.filter(|_| entry == Entry::First) {
            None => Ok(scope(&QUEUE, slot).await),
            Some(max) => tokio::time::timeout(max, scope(&QUEUE, slot)).await,
        };
        let waited_micros = began.elapsed().as_micros() as u64;
        place.leave(|state| match (&waited, entry) {
            (Err(_), _) => state.told.refused_late += 1,
            (Ok(_), Entry::First) => {
                state.told.admitted += 1;
                state.told.waited += 1;
                state.told.waited_micros += waited_micros;
            }
            (Ok(_), Entry::Again) => {}
        });
        match waited {
            Ok(Ok(slot)) => Ok(slot),
            Ok(Err(_)) => Err(Error::internal("a place in the queue of queries was lost")),
            Err(_) => Err(self.is_late()),
        }
    }

    /// Passes a slot on to the next waiting query, or marks it as free.
    fn hand_on(self: &Arc<Self>) {
        let mut state = self.state.lock();
        loop {
            let Some(next) = state.returning.pop_front().or_else(|| state.waiting.pop_front()) else { break };
            match next.gate.send(Slot(Some(Arc::clone(self)))) {
                Ok(()) => return,
                // He has left in this moment, and nobody else has it: not dropped, which would come here again.
                Err(mut slot) => drop(slot.0.take()),
            }
        }
        state.running -= 1;
    }

    fn is_full(&self) -> Error {
        let AdmissionConfig { running_max, waiting_max, .. } = self.config;
        let message = format!("{running_max} queries are running and {waiting_max} are waiting: no more are taken");
        Error::new(ErrorCode::TooManyConnections, message)
            .with_hint("Try again later, or raise query.queries_max or query.queries_waiting_max.")
    }

    fn is_late(&self) -> Error {
        let waited = self.config.wait_max.unwrap_or_default().as_millis();
        let message = format!("the query has waited for {waited} ms to be run while others were running");
        Error::new(ErrorCode::TooManyConnections, message)
            .with_hint("Try again later, or raise query.queries_max or query.query_wait_max_ms.")
    }
}

/// A place in the queue, given up when it is dropped.
struct Place<'a> {
    admission: &'a Admission,
    entry: Entry,
    number: u64,
    is_over: bool,
}

impl Place<'_> {
    /// The wait is over.
    fn leave(mut self, tell: impl FnOnce(&mut State)) {
        self.is_over = true;
        let mut state = self.admission.state.lock();
        let number = self.number;
        state.queue(self.entry).retain(|waiter| waiter.number != number);
        tell(&mut state);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut state = self.admission.state.lock();
        let number = self.number;
        state.queue(self.entry).retain(|waiter| waiter.number != number);
        state.told.left += 1;
    }
}

#[cfg(test)]
mod tests;
