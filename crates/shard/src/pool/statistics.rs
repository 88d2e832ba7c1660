//! Statistics of pools and their connections, shown by `ashlar.pools`, `ashlar.backends` and the metrics page.
//!
//! The pools count as they go; a reader takes the lock of each pool while it counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{Line, Pool};
use crate::backend::Backend;
use crate::server::Mapping;

/// A pool's connections to one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineStatistics {
    /// The server.
    pub server: String,
    /// The thread whose pool it is.
    pub pool: String,
    /// The most connections that the pool may have, if other pools have none.
    pub connections_max: usize,
    /// Idle connections.
    pub idle: usize,
    /// Connections that are lent or being opened.
    pub in_use: usize,
    /// Requests that wait for a connection.
    pub waiting: usize,
    /// How long the first of them has been waiting.
    pub oldest_wait: Option<Duration>,
    /// Requests that had to wait so far.
    pub waits: u64,
    /// The sum of their waiting times.
    pub waited: Duration,
    /// Requests that timed out.
    pub timeouts: u64,
    /// Requests refused because too many were waiting already.
    pub refused: u64,
    /// Connections opened so far.
    pub made: u64,
    /// Times that a connection was lent.
    pub lent: u64,
    /// Times that another pool gave one up for this pool.
    pub taken: u64,
}

/// The connections of all pools to one server, and the server's state. Fields as in [`LineStatistics`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerStatistics {
    /// The server.
    pub server: String,
    /// `up`, `down` or `unknown`.
    pub state: &'static str,
    /// Idle connections.
    pub idle: usize,
    /// Connections that are lent or being opened.
    pub in_use: usize,
    /// Requests that wait for a connection.
    pub waiting: usize,
    /// Requests that had to wait so far.
    pub waits: u64,
    /// The sum of their waiting times.
    pub waited: Duration,
    /// Requests that timed out.
    pub timeouts: u64,
    /// Requests refused because too many were waiting already.
    pub refused: u64,
    /// Connections opened so far.
    pub made: u64,
    /// Times that a connection was lent.
    pub lent: u64,
    /// Times that one pool gave one up for another.
    pub taken: u64,
    /// Prepared transactions that were not finished when the server was last looked at.
    pub in_doubt: usize,
}

impl ServerStatistics {
    /// With what one pool does.
    pub(crate) fn add(&mut self, line: &LineStatistics) {
        self.idle += line.idle;
        self.in_use += line.in_use;
        self.waiting += line.waiting;
        self.waits += line.waits;
        self.waited += line.waited;
        self.timeouts += line.timeouts;
        self.refused += line.refused;
        self.made += line.made;
        self.lent += line.lent;
        self.taken += line.taken;
    }
}

/// What can be said of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionStatistics {
    /// The server.
    pub server: String,
    /// The thread whose pool it is from.
    pub pool: String,
    /// The number of its process there.
    pub pid: i32,
    /// Who is logged in.
    pub login: String,
    /// `idle`, `in use`, or `kept` by a session for its next statement.
    pub state: &'static str,
    /// Since when it is there.
    pub age: Duration,
    /// Times that it was lent.
    pub lent: u64,
}

/// What a connection shows of itself to others than the thread that uses it.
pub(crate) struct Card {
    pid: i32,
    mapping: Arc<Mapping>,
    made: Instant,
    /// An index of [`STATES`].
    state: AtomicU8,
    lent: AtomicU64,
}

const STATES: [&str; 3] = ["idle", "in use", "kept"];
const IDLE: u8 = 0;
const IN_USE: u8 = 1;
const KEPT: u8 = 2;

impl Card {
    /// Of a connection that has just been made.
    pub(super) fn new(backend: &Backend) -> Arc<Self> {
        let (pid, mapping, made) = (backend.pid(), Arc::clone(backend.mapping()), backend.made);
        Arc::new(Self { pid, mapping, made, state: AtomicU8::new(IN_USE), lent: AtomicU64::new(0) })
    }

    pub(super) fn lend(&self) {
        self.state.store(IN_USE, Ordering::Relaxed);
        self.lent.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn rest(&self) {
        self.state.store(IDLE, Ordering::Relaxed);
    }

    pub(super) fn keep(&self) {
        self.state.store(KEPT, Ordering::Relaxed);
    }
}

impl Pool {
    /// What it does, by server.
    pub fn statistics(&self) -> Vec<LineStatistics> {
        let lines = self.lines.lock();
        let statistics = |(server, line): (&String, &Line)| LineStatistics {
            server: server.clone(),
            pool: self.name.clone(),
            connections_max: self.config.connections_for(self.purpose),
            idle: line.idle.len(),
            in_use: line.open - line.idle.len(),
            waiting: line.waiting.len(),
            oldest_wait: line.waiting.front().map(|(since, _)| since.elapsed()),
            waits: line.counts.waits,
            waited: line.counts.waited,
            timeouts: line.counts.timeouts,
            refused: line.counts.refused,
            made: line.counts.made,
            lent: line.counts.lent,
            taken: line.counts.taken,
        };
        lines.iter().map(statistics).collect()
    }

    /// Its connections.
    pub fn connections(&self) -> Vec<ConnectionStatistics> {
        let lines = self.lines.lock();
        let cards = lines.iter().flat_map(|(server, line)| line.cards.iter().map(move |card| (server, card)));
        let connection = |(server, card): (&String, &std::sync::Weak<Card>)| {
            let card = card.upgrade()?;
            Some(ConnectionStatistics {
                server: server.clone(),
                pool: self.name.clone(),
                pid: card.pid,
                login: card.mapping.user.clone(),
                state: STATES[usize::from(card.state.load(Ordering::Relaxed))],
                age: card.made.elapsed(),
                lent: card.lent.load(Ordering::Relaxed),
            })
        };
        cards.filter_map(connection).collect()
    }
}
