//! The limit on connections to each server: one count for all pools of a fleet, and a record of which pools need more.
//!
//! ```text
//! 0                                              connections_max
//! ├──────────── pools of sessions ─────────┤
//!                         ├─ pool of queries ────┤ one, for looks
//! ```
//!
//! A transaction holds connections of its session's pool while its multi-shard queries wait for connections of the
//! query pool. If transactions could take all connections they would block each other, so a part is never theirs.
//! Conversely, long queries may use at most half, so that single-shard statements need not wait for them. Half of that
//! again may hold snapshots (`snapshot_share`) until the end of their transactions; connections through which cursors
//! read those snapshots are counted with them.
//!
//! If the limit is large enough, one connection belongs to neither: a look at prepared transactions, or at the server's
//! health, waits for no query (`fleet`).
//!
//! Consulted when a connection is opened or closed, and while somebody waits. Taking an idle connection from one's own
//! pool, or giving one back while nobody has waited for long, costs one read of a counter that seldom changes. The lock
//! is taken inside that of a pool, never the other way round, and held only while counting or while looking at each
//! pool once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::{Pool, PoolConfig};

/// How much earlier than the first in line here somebody must have begun to wait in another pool to be served before him, and
/// how long nobody must have needed a connection that another pool takes at once. A connection that changes its pool is closed and
/// made anew, which takes some milliseconds of both machines: done more often than this it would cost more than waiting does.
pub(super) const MOVE_AFTER: Duration = Duration::from_millis(50);

/// What the connections of a pool are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Statements of the clients of one thread.
    Sessions,
    /// What runs on the query pool.
    Queries,
}

/// The counts of a fleet, by server.
#[derive(Default)]
pub(crate) struct Bounds(Mutex<HashMap<String, Arc<Bound>>>);

/// The count of one server.
pub(super) struct Bound {
    min: usize,
    max: usize,
    /// Of the pools of sessions, together.
    sessions_max: usize,
    /// Of the pool of queries.
    queries_max: usize,
    /// As many as may keep snapshots.
    keeping: Arc<Semaphore>,
    /// Pools with somebody who has waited for long.
    overdue: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Connections of the pools of sessions, those that are being made among them.
    sessions: usize,
    /// Those of the pool of queries.
    queries: usize,
    members: Vec<Member>,
}

/// A pool with connections to the server, or without.
struct Member {
    pool: Weak<Pool>,
    purpose: Purpose,
    /// Since when the first in its line waits, where that is long.
    overdue: Option<Instant>,
}

impl Bounds {
    /// The count of a server.
    pub(super) fn of(&self, server: &str, config: &PoolConfig) -> Arc<Bound> {
        let mut all = self.0.lock();
        Arc::clone(all.entry(server.to_owned()).or_insert_with(|| Arc::new(Bound::new(config))))
    }
}

impl State {
    fn count(&mut self, purpose: Purpose) -> &mut usize {
        match purpose {
            Purpose::Sessions => &mut self.sessions,
            Purpose::Queries => &mut self.queries,
        }
    }
}

impl Bound {
    fn new(config: &PoolConfig) -> Self {
        let queries_max = config.connections_for(Purpose::Queries);
        Self {
            min: config.connections_min,
            max: config.connections_max - config.left(),
            sessions_max: config.connections_for(Purpose::Sessions),
            queries_max,
            keeping: Arc::new(Semaphore::new(keeping_max(queries_max))),
            overdue: AtomicUsize::new(0),
            state: Mutex::default(),
        }
    }

    /// The rights to keep snapshots.
    pub(super) fn keeping(&self) -> Arc<Semaphore> {
        Arc::clone(&self.keeping)
    }

    /// How many there are of these, one at least.
    pub(super) fn keeping_max(&self) -> usize {
        keeping_max(self.queries_max)
    }

    /// The number of a pool among those of the server.
    pub(super) fn join(&self, pool: &Arc<Pool>) -> usize {
        let mut state = self.state.lock();
        state.members.push(Member { pool: Arc::downgrade(pool), purpose: pool.purpose, overdue: None });
        state.members.len() - 1
    }

    /// Counts a connection that is to be made, where there may be one more.
    pub(super) fn open(&self, purpose: Purpose) -> bool {
        let mut state = self.state.lock();
        let may = state.sessions + state.queries < self.max && self.has_room(&state, purpose);
        *state.count(purpose) += usize::from(may);
        may
    }

    /// Counts a connection that is to be made before anybody needs it, where there are fewer than the minimum. The pool of queries has
    /// those that sessions may not have.
    pub(super) fn open_early(&self, purpose: Purpose) -> bool {
        let mut state = self.state.lock();
        let is_for = match self.has_room(&state, Purpose::Sessions) {
            true => Purpose::Sessions,
            false => Purpose::Queries,
        };
        let may = state.sessions + state.queries < self.min.min(self.max)
            && purpose == is_for
            && self.has_room(&state, purpose);
        *state.count(purpose) += usize::from(may);
        may
    }

    /// One that nobody needs is closed, where there are more than the minimum.
    pub(super) fn close_needless(&self, purpose: Purpose) -> bool {
        let mut state = self.state.lock();
        let may = state.sessions + state.queries > self.min;
        *state.count(purpose) -= usize::from(may);
        may
    }

    /// So many are closed.
    pub(super) fn close(&self, purpose: Purpose, count: usize) {
        *self.state.lock().count(purpose) -= count;
    }

    /// A connection is closed so that a pool of another purpose, or of the same, may make one: counts that, where it may be.
    pub(super) fn shift(&self, from: Purpose, to: Purpose) -> bool {
        let mut state = self.state.lock();
        let may = self.may_shift(&state, from, to);
        if may {
            *state.count(from) -= 1;
            *state.count(to) += 1;
        }
        may
    }

    fn may_shift(&self, state: &State, from: Purpose, to: Purpose) -> bool {
        from == to || self.has_room(state, to)
    }

    /// Whether pools of a purpose have fewer than they may.
    fn has_room(&self, state: &State, purpose: Purpose) -> bool {
        match purpose {
            Purpose::Sessions => state.sessions < self.sessions_max,
            Purpose::Queries => state.queries < self.queries_max,
        }
    }

    /// The other pools, beginning behind this one, so that not all of them ask the same one first.
    pub(super) fn others(&self, member: usize) -> Vec<Arc<Pool>> {
        let state = self.state.lock();
        let (before, from) = state.members.split_at(member);
        from.iter().skip(1).chain(before).filter_map(|other| other.pool.upgrade()).collect()
    }

    /// Since when the first in a pool's line waits, where that is long.
    pub(super) fn tell(&self, member: usize, since: Option<Instant>) {
        let mut state = self.state.lock();
        state.members[member].overdue = since;
        let overdue = state.members.iter().filter(|member| member.overdue.is_some()).count();
        self.overdue.store(overdue, Ordering::Relaxed);
    }

    /// Whether somebody may have waited for long. Who has said so before the caller took his pool's lock is seen: he has had that
    /// lock since.
    pub(super) fn is_anybody_overdue(&self) -> bool {
        self.overdue.load(Ordering::Relaxed) > 0
    }

    /// The pool that a connection of this one is to be given up for, which is counted: of those whose first has waited much longer
    /// than the first in line here, the one that has waited longest.
    pub(super) fn hand_over(&self, member: usize, first_here: Option<Instant>) -> Option<Arc<Pool>> {
        let mut state = self.state.lock();
        let from = state.members[member].purpose;
        let is_before =
            |since: &Instant| first_here.is_none_or(|here| here.saturating_duration_since(*since) > MOVE_AFTER);
        let others = state.members.iter().enumerate().filter(|(number, _)| *number != member);
        let found = others
            .filter_map(|(_, other)| {
                let since = other.overdue.filter(is_before)?;
                self.may_shift(&state, from, other.purpose).then_some((since, other))
            })
            .min_by_key(|(since, _)| *since);
        let (pool, to) = found.and_then(|(_, other)| Some((other.pool.upgrade()?, other.purpose)))?;
        *state.count(from) -= 1;
        *state.count(to) += 1;
        Some(pool)
    }
}

fn keeping_max(queries_max: usize) -> usize {
    (queries_max / 2).max(1)
}
