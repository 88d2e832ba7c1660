//! Statistics of pools and their connections, shown by `ashlar.pools`, `ashlar.backends` and the metrics page.
//!
//! The pools count as they go. A reader has the lock of a pool, which the pool's thread lends by, only while it copies the counts of one
//! server, and makes texts of them afterwards; connections are found without that lock.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::Pool;
use super::line::Counts;
use crate::backend::Backend;
use crate::server::{Mapping, Server};

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
    /// How long connections were lent, together: those that a session keeps, while a statement or a transaction uses them.
    pub used: Duration,
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
    /// How long connections were lent, together.
    pub used: Duration,
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
        self.used += line.used;
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
    server: Arc<Server>,
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
        let (server, mapping) = (Arc::clone(backend.server()), Arc::clone(backend.mapping()));
        let (pid, made) = (backend.pid(), backend.made);
        Arc::new(Self { server, pid, mapping, made, state: AtomicU8::new(IN_USE), lent: AtomicU64::new(0) })
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

/// The numbers of a line at one moment, copied under the lock of its pool.
struct Copied {
    server: Arc<Server>,
    idle: usize,
    open: usize,
    waiting: usize,
    /// Since when the first of them waits.
    first: Option<Instant>,
    counts: Counts,
}

impl Pool {
    /// What it does, by server.
    pub fn statistics(&self) -> Vec<LineStatistics> {
        // A line is for good, and at one place: so the lock need not be held from one to the next.
        (0_usize..).map_while(|place| self.copied(place)).map(|copied| self.told(&copied)).collect()
    }

    /// The numbers of the line at a place, where there is one. What the lock is held for is these few copies: it allocates nothing.
    fn copied(&self, place: usize) -> Option<Copied> {
        let mut lines = self.lines.lock();
        let line = lines.at(place)?;
        Some(Copied {
            server: Arc::clone(&line.server),
            idle: line.idle.len(),
            open: line.open,
            waiting: line.waiting.len(),
            first: line.waiting.front().map(|(since, _)| *since),
            counts: line.counts,
        })
    }

    fn told(&self, copied: &Copied) -> LineStatistics {
        let Copied { server, idle, open, waiting, first, counts } = copied;
        LineStatistics {
            server: server.name.clone(),
            pool: self.name.clone(),
            connections_max: self.config.connections_for(self.purpose),
            idle: *idle,
            in_use: open - idle,
            waiting: *waiting,
            oldest_wait: first.map(|since| since.elapsed()),
            waits: counts.waits,
            waited: counts.waited,
            timeouts: counts.timeouts,
            refused: counts.refused,
            made: counts.made,
            lent: counts.lent,
            used: counts.used,
            taken: counts.taken,
        }
    }

    /// Keeps the card of a connection that has been made, for whoever asks.
    pub(super) fn show(&self, card: &Arc<Card>) {
        let mut cards = self.cards.lock();
        cards.retain(|card| card.strong_count() > 0);
        cards.push(Arc::downgrade(card));
    }

    /// Its connections.
    pub fn connections(&self) -> Vec<ConnectionStatistics> {
        let cards = self.cards.lock().clone();
        let connection = |card: &Weak<Card>| {
            let card = card.upgrade()?;
            Some(ConnectionStatistics {
                server: card.server.name.clone(),
                pool: self.name.clone(),
                pid: card.pid,
                login: card.mapping.user.clone(),
                state: STATES[usize::from(card.state.load(Ordering::Relaxed))],
                age: card.made.elapsed(),
                lent: card.lent.load(Ordering::Relaxed),
            })
        };
        cards.iter().filter_map(connection).collect()
    }
}
