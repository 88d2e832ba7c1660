//! Connections to shards that are lent and given back: one pool for each thread of doors, and one for the query pool.
//!
//! ```text
//! lend ──▶ idle connection ──or── a new one, below the bound of all pools ──or── wait in line, up to a time
//! ```
//!
//! A session and the connections that it borrows are on one thread, so the lock of a pool is taken by that thread. Others take it
//! for a few instructions: to copy the counts of one server (`statistics`), to take away one connection that is idle, or bring the right
//! to make one, where there are too few (`line`), and where a server is not what it was (`forget`). They allocate and free nothing
//! meanwhile. The pool of the query pool is shared by its threads.
//! Never lends a connection that is in the middle of something: it is closed instead, and what it runs is cancelled.

mod bound;
mod idle;
mod line;
mod session_keep;
mod snapshot_share;
mod statistics;

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use ashlar_base::scope::{self, Name};
use ashlar_base::{Error, ErrorCode, Result, clock};
use ashlar_protocol::pg::TransactionStatus;
use parking_lot::Mutex;

pub(crate) use self::bound::{Bounds, Purpose};
use self::line::{Counts, Lines};
pub(crate) use self::session_keep::Held;
pub use self::session_keep::Keep;
use self::session_keep::Ticket;
pub(crate) use self::snapshot_share::Keeping;
pub(crate) use self::statistics::Card;
pub use self::statistics::{ConnectionStatistics, LineStatistics, ServerStatistics};
use crate::backend::{Backend, Limits, Payer, Settings};
use crate::health::is_away;
use crate::server::{Mapping, Server};

/// Bounds of the pools of a fleet.
#[derive(Clone, Copy, Debug)]
pub struct PoolConfig {
    /// Connections to one server, of all pools together.
    pub connections_max: usize,
    /// Those of them that are for queries alone.
    pub connections_of_queries: usize,
    /// Connections to one server that are there though nobody needs them.
    pub connections_min: usize,
    /// Who waits for one, of one server and pool.
    pub waiting_max: usize,
    /// How long it is waited.
    pub wait_max: Duration,
    /// How long a connection stays that nobody needs; `None` for ever.
    pub idle_max: Option<Duration>,
    /// How old a connection may become; `None` for any age.
    pub life_max: Option<Duration>,
    /// Of each connection.
    pub limits: Limits,
}

/// From so many connections to a server on one of them is left for looks at the server itself. Where there are fewer it would be missed.
const LEAVING_MIN: usize = 32;

impl PoolConfig {
    /// Connections to one server that neither sessions nor queries have.
    pub(crate) fn left(&self) -> usize {
        usize::from(self.connections_max >= LEAVING_MIN)
    }

    /// Connections to one server that pools of this purpose may have together.
    pub(crate) fn connections_for(&self, purpose: Purpose) -> usize {
        match purpose {
            Purpose::Sessions => self.connections_max.saturating_sub(self.connections_of_queries + self.left()),
            Purpose::Queries => self.connections_of_queries.max(self.connections_max / 2),
        }
    }
}

/// The longest time between two looks at idle connections, where a number of them shall be there.
pub(crate) const WARM_PERIOD: Duration = Duration::from_secs(1);

static SWEEP: Name = Name::new("shard idle connections");
static FAREWELL: Name = Name::new("shard rollback");

/// The pool of one thread.
pub struct Pool {
    /// The thread whose pool it is.
    name: String,
    purpose: Purpose,
    config: PoolConfig,
    payer: Option<Arc<dyn Payer>>,
    /// What the pools of the fleet have together.
    bounds: Arc<Bounds>,
    /// By server. While the lock is held nothing is closed, and nobody waited for.
    lines: Mutex<Lines>,
    /// Of its connections that are there, for whoever asks: under a lock of their own, which nobody takes to lend one.
    cards: Mutex<Vec<Weak<Card>>>,
}

impl Pool {
    /// An empty pool. Idle connections are looked at by a task of the current runtime. `payer`: who pays for what its connections
    /// hold beyond what each may keep. `name`: what it is called in `ashlar.pools`. `bounds`: those of its fleet.
    pub(crate) fn new(
        name: &str,
        purpose: Purpose,
        config: PoolConfig,
        payer: Option<Arc<dyn Payer>>,
        bounds: Arc<Bounds>,
    ) -> Arc<Self> {
        let (lines, cards) = (Mutex::default(), Mutex::default());
        let pool = Arc::new(Self { name: name.to_owned(), purpose, config, payer, bounds, lines, cards });
        if let Some(period) = sweep_period(&config)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let weak = Arc::downgrade(&pool);
            drop(runtime.spawn(scope::task(&SWEEP, sweep(weak, period))));
        }
        pool
    }

    /// Lends a connection to a server, with these settings.
    ///
    /// # Errors
    /// 53300 where there is none in time; 08001 where the server cannot be reached.
    pub async fn lend(
        self: &Arc<Self>,
        server: &Arc<Server>,
        mapping: &Arc<Mapping>,
        settings: &Settings,
    ) -> Result<Lease> {
        let slot = self.enter(server).await?;
        self.lend_by(slot, server, mapping, settings).await
    }

    /// The same where one is idle or may be made; `None`: it would have to be waited for.
    ///
    /// # Errors
    /// As [`Self::lend`].
    pub(crate) async fn lend_now(
        self: &Arc<Self>,
        server: &Arc<Server>,
        mapping: &Arc<Mapping>,
        settings: &Settings,
    ) -> Result<Option<Lease>> {
        match self.find(server) {
            Ok(slot) => self.lend_by(slot, server, mapping, settings).await.map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Lends the connection of a place, or makes one for it.
    async fn lend_by(
        &self,
        mut slot: Slot,
        server: &Arc<Server>,
        mapping: &Arc<Mapping>,
        settings: &Settings,
    ) -> Result<Lease> {
        let since = clock::monotonic();
        let mut fitting = slot.backend.take().filter(|backend| self.fits(backend, server, mapping, since));
        if let Some(idle) = &mut fitting {
            let is_marked = idle.is_marked();
            match self.adopt(idle, settings).await {
                Ok(()) => {}
                // It was lost while it was idle, which says nothing of its server: a new one will. Or what is refused is to take back what
                // another session has set, which is none of this one's: where it is its own, a new one says so too.
                Err(error) if is_marked || is_away(&error) => fitting = None,
                Err(error) => return Err(error),
            }
        }
        let (backend, since) = match fitting {
            Some(backend) => (backend, since),
            None => {
                let made = self.connect(server, mapping, settings).await?;
                if let Some(card) = &made.card {
                    card.lend();
                }
                (made, clock::monotonic())
            }
        };
        slot.count(|counts| counts.lent += 1);
        Ok(Lease { backend: Some(backend), slot, home: None, since })
    }

    /// Makes a connection, with these settings.
    async fn connect(&self, server: &Arc<Server>, mapping: &Arc<Mapping>, settings: &Settings) -> Result<Box<Backend>> {
        let mut made = Box::new(Backend::connect(server, mapping, settings, self.config.limits).await?);
        made.paid_by(self.payer.clone());
        let card = Card::new(&made);
        if let Some(line) = self.lines.lock().get_mut(&server.name) {
            line.counts.made += 1;
        }
        self.show(&card);
        made.card = Some(card);
        Ok(made)
    }

    /// Makes a connection that nobody needs yet, where a server has fewer than there shall be, and this pool fewer than `share` of
    /// them; whether it was so.
    ///
    /// # Errors
    /// As [`Self::lend`].
    pub(crate) async fn warm(
        self: &Arc<Self>,
        server: &Arc<Server>,
        mapping: &Arc<Mapping>,
        share: usize,
    ) -> Result<bool> {
        let Some(slot) = self.make_early(server, share) else { return Ok(false) };
        let made = self.connect(server, mapping, &Settings::default()).await?;
        // Given back: it is idle, or for who waits.
        drop(Lease { backend: Some(made), slot, home: None, since: clock::monotonic() });
        Ok(true)
    }

    /// Makes the settings of whoever borrows it those of a connection.
    async fn adopt(&self, backend: &mut Backend, settings: &Settings) -> Result<()> {
        if let Some(card) = &backend.card {
            card.lend();
        }
        if backend.has_settings(settings) {
            return Ok(());
        }
        let adopted = tokio::time::timeout(self.config.limits.connect, backend.adopt(settings)).await;
        adopted.unwrap_or_else(|_| {
            let message = format!("shard \"{}\" did not answer in time", backend.server().name);
            Err(Error::new(ErrorCode::ConnectionFailure, message))
        })
    }

    fn slot(self: &Arc<Self>, line: usize, backend: Option<Box<Backend>>, generation: u64) -> Slot {
        Slot { pool: Arc::clone(self), line: Some(line), backend, generation, used: Duration::ZERO }
    }

    /// Whether a connection can be lent to this user of this server.
    fn fits(&self, backend: &Backend, server: &Arc<Server>, mapping: &Arc<Mapping>, now: Instant) -> bool {
        is_as_declared(backend, server, mapping) && self.is_young(backend, now) && backend.is_clean()
    }

    fn is_young(&self, backend: &Backend, now: Instant) -> bool {
        self.config.life_max.is_none_or(|max| now.duration_since(backend.made) < max)
    }

    /// Closes idle connections that cannot be lent again, and those that nobody has needed for long, as far as there shall not be as
    /// many.
    fn close_idle(&self) {
        let is_needless =
            |backend: &Backend| self.config.idle_max.is_some_and(|max| backend.idle_since.elapsed() >= max);
        let (mut closed, now) = (Vec::new(), clock::monotonic());
        {
            let mut lines = self.lines.lock();
            for line in lines.values_mut() {
                for backend in std::mem::take(&mut line.idle) {
                    if !(self.is_young(&backend, now) && backend.is_clean()) {
                        line.close(1);
                        closed.push(backend);
                    } else if is_needless(&backend) && line.close_needless() {
                        closed.push(backend);
                    } else {
                        line.idle.push(backend);
                    }
                }
            }
        }
        // Closed without the lock.
        drop(closed);
    }

    /// Closes what is idle and goes to a server, and what is lent when it comes back: it is no more what it was.
    pub fn forget(&self, server: &str) {
        let closed = {
            let mut lines = self.lines.lock();
            let Some(line) = lines.get_mut(server) else { return };
            line.close(line.idle.len());
            line.generation += 1;
            std::mem::take(&mut line.idle)
        };
        drop(closed);
    }
}

/// How often idle connections are looked at, where they have to be.
fn sweep_period(config: &PoolConfig) -> Option<Duration> {
    let limits = [config.idle_max, config.life_max].into_iter().flatten().map(|max| max / 4);
    let warm = (config.connections_min > 0).then_some(WARM_PERIOD);
    limits.chain(warm).min().map(|period| period.max(Duration::from_millis(100)))
}

async fn sweep(pool: Weak<Pool>, period: Duration) {
    loop {
        tokio::time::sleep(period).await;
        let Some(pool) = pool.upgrade() else { return };
        pool.close_idle();
    }
}

/// Whether a connection goes where its server and its login are now said to be.
fn is_as_declared(backend: &Backend, server: &Arc<Server>, mapping: &Arc<Mapping>) -> bool {
    backend.server() == server && backend.mapping() == mapping
}

/// 53300
fn busy(server: &Server, why: &str) -> Error {
    let message = format!("no connection to shard \"{}\": all are in use, and {why}", server.name);
    Error::new(ErrorCode::TooManyConnections, message)
        .with_hint("Raise shard.connections_per_server_max, or end transactions that hold connections.")
}

/// A place among the connections to a server, given back when dropped.
struct Slot {
    pool: Arc<Pool>,
    /// The line of its server; `None` where the place has been given back already.
    line: Option<usize>,
    backend: Option<Box<Backend>>,
    /// Of the line, when the connection was lent.
    generation: u64,
    /// How long the connection was lent.
    used: Duration,
}

impl Slot {
    /// Counts something in its line.
    fn count(&self, count: impl FnOnce(&mut Counts)) {
        let Some(line) = self.line else { return };
        if let Some(line) = self.pool.lines.lock().at(line) {
            count(&mut line.counts);
        }
    }

    /// The place, without its connection: what is left here gives nothing back.
    fn take(&mut self) -> Self {
        let (line, used) = (self.line.take(), std::mem::take(&mut self.used));
        Self { pool: Arc::clone(&self.pool), line, backend: None, generation: self.generation, used }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(line) = self.line.take() {
            self.pool.leave(line, self.backend.take(), (self.generation, self.used));
        }
    }
}

/// A borrowed connection: returned to the pool when dropped, or closed if it is in the middle of something.
pub struct Lease {
    backend: Option<Box<Backend>>,
    slot: Slot,
    /// Where it goes instead of the pool.
    home: Option<Ticket>,
    /// When it was lent.
    since: Instant,
}

impl Lease {
    /// The same, for a session that keeps it.
    pub(crate) fn kept_by(mut self, session: Option<Ticket>) -> Self {
        self.home = session;
        self
    }

    /// Gives it back, as when it is dropped. `now`: what the clock says.
    pub fn give_back(mut self, now: Instant) {
        self.end(now);
    }

    fn end(&mut self, now: Instant) {
        let Some(mut backend) = self.backend.take() else { return };
        self.slot.used = now.saturating_duration_since(self.since);
        let is_clean = backend.is_clean();
        if is_clean && (self.home.is_some() || self.slot.pool.is_young(&backend, now)) {
            backend.idle_since = now;
            backend.settle();
            drop(backend.take_notices());
            match self.home.take() {
                Some(ticket) => {
                    // Now, for the session may keep it for long.
                    let used = std::mem::take(&mut self.slot.used);
                    self.slot.count(|counts| counts.used += used);
                    ticket.give(backend, self.slot.take());
                }
                None => {
                    if let Some(card) = &backend.card {
                        card.rest();
                    }
                    self.slot.backend = Some(backend);
                }
            }
            return;
        }
        if let Some(ticket) = self.home.take() {
            // Where it broke its statement has said so.
            ticket.lose(!backend.is_cut());
        }
        if backend.is_at_work()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            // What it runs nobody waits for any more.
            let canceller = backend.canceller();
            drop(backend);
            drop(runtime.spawn(scope::task(&FAREWELL, async move {
                // Its connection is gone: nothing else runs there.
                let _ = canceller.cancel().await;
            })));
        }
    }

    /// Rolls back the transaction that is open on the connection, in the background, and gives the connection back.
    pub fn abandon(mut self) {
        let open = self.backend.as_ref().is_some_and(|backend| backend.status() != TransactionStatus::Idle);
        let busy = self.backend.as_ref().is_some_and(|backend| backend.is_busy());
        // What is queued cannot be taken back, but ended.
        let late = self.backend.as_ref().is_some_and(|backend| backend.is_about_to_begin());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if late || (open && !busy) {
            let patience = self.slot.pool.config.limits.connect;
            drop(runtime.spawn(scope::task(&FAREWELL, async move {
                // Where that fails the connection is closed, which ends the transaction too.
                let _ = tokio::time::timeout(patience, self.run("ROLLBACK")).await;
            })));
        }
    }
}

impl Deref for Lease {
    type Target = Backend;

    #[expect(clippy::expect_used, reason = "only `drop` takes it out")]
    fn deref(&self) -> &Backend {
        self.backend.as_deref().expect("a lease has its connection until it is dropped")
    }
}

impl DerefMut for Lease {
    #[expect(clippy::expect_used, reason = "only `drop` takes it out")]
    fn deref_mut(&mut self) -> &mut Backend {
        self.backend.as_deref_mut().expect("a lease has its connection until it is dropped")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // One that has been given back has none.
        if self.backend.is_some() {
            self.end(clock::monotonic());
        }
    }
}

#[cfg(test)]
mod tests;
