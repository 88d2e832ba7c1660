//! A consistent snapshot of several shards: a transaction that has committed on several of them is visible on all of
//! them, or on none.
//!
//! ```text
//! lock each shard ──▶ BEGIN and export a snapshot on each ──▶ unlock each ──▶ readers import the snapshot of their shard
//! ```
//!
//! Preparing a transaction takes the same lock, shared, and holds it until the transaction is committed on that shard
//! (`two_phase`). So while all shards are locked, no transaction is committed on some of them and only prepared on
//! others, whichever process has sent it. A process that waits too long for a lock releases all of them and starts
//! again.
//!
//! Where each shard may be read as of a moment of its own, but other statements may run while rows are read, nothing is
//! locked: a snapshot of each shard is exported beforehand or, if there is only one reader, taken by the reader's own
//! connection.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use ashlar_base::scope::{self, Name};
use ashlar_base::{Error, ErrorCode, Result, clock};
use parking_lot::Mutex;
use postgres_protocol::escape::escape_literal;
use tokio::runtime::Handle;
use tokio::sync::OnceCell;

use crate::backend::{Nothing, Settings};
use crate::fleet::Fleet;
use crate::pool::{Keeping, Lease, Pool};
use crate::rows::{TEXT, garbled, read};
use crate::two_phase;

/// The number of the lock.
pub(crate) const LOCK: i64 = 0x6173_686c_6172_7473;

/// How long one lock is waited for: those who come later wait behind whoever waits.
const LOCK_TIMEOUT_MS: u64 = 100;

/// How long it is tried again.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a shard waits for a process that is gone without a word, before it takes the lock away.
const SILENCE_MS: &str = "'5000'";

/// What a shard says when a lock was not to be had in time.
const LOCKED: &str = "55P03";

static TAKE: Name = Name::new("snapshots of shards");

/// How a statement reads a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Streams, each of which may have a connection at the same time as the others.
    pub streams: usize,
    /// Whether one stream reads it, once.
    pub is_sole: bool,
}

/// The right to read snapshots while other statements run, until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Readers {
    _rights: Vec<Keeping>,
}

/// Snapshots that are there to be read, until this is dropped.
pub struct Snapshots {
    /// By server, as it was asked for.
    kept: BTreeMap<String, Kept>,
    /// Where their connections are at home.
    runtime: Option<Handle>,
}

impl fmt::Debug for Snapshots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.kept.keys()).finish()
    }
}

/// How a server knows one of its snapshots.
struct Export {
    /// Its name there: numbers that begin anew where the server does, so another snapshot may have it afterwards.
    name: String,
    /// The advisory lock that the transaction which exported it holds for as long as it is there: a number picked at random.
    lock: i64,
}

/// The snapshot of a server.
struct Kept {
    export: Export,
    /// The member of the server's group that has it.
    member: String,
    /// Whether it has one reader, who has the connection that keeps it.
    is_sole: bool,
    held: Mutex<Held>,
}

impl Kept {
    fn new(export: Export, is_sole: bool, mut held: Held) -> Self {
        let member = held.lease().server().name.clone();
        Self { export, member, is_sole, held: Mutex::new(held) }
    }

    /// Queues what makes the transaction of a connection one that sees it.
    fn begin(&self, lease: &mut Lease) {
        lease.queue_query(BEGIN);
        lease.queue_query(&self.import());
    }

    /// The first statements of such a transaction. The second one fails where whoever exported the snapshot is gone, for then what was
    /// imported may be another one of the same name; it fails by a cast, as no function says an error of one's own.
    fn import(&self) -> String {
        let Export { name, lock } = &self.export;
        let name = escape_literal(name);
        format!(
            "SET TRANSACTION SNAPSHOT {name}; \
             SELECT (CASE WHEN pg_catalog.pg_try_advisory_xact_lock_shared({lock}) THEN '{GONE}' ELSE '0' END)::pg_catalog.int4"
        )
    }
}

/// A connection that may have the lock: it is not lent again unless that is certain.
struct Held {
    lease: Option<Lease>,
    is_clean: bool,
    /// Whether it takes the lock: one connection does for a database that is known under several names.
    locks: bool,
    _right: Keeping,
}

impl Held {
    #[expect(clippy::expect_used, reason = "only `drop` takes it out")]
    fn lease(&mut self) -> &mut Lease {
        self.lease.as_mut().expect("it is there until it is dropped")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(mut lease) = self.lease.take() else { return };
        if !self.is_clean {
            lease.discard();
        }
    }
}

impl Drop for Snapshots {
    fn drop(&mut self) {
        let Some(runtime) = &self.runtime else { return };
        for kept in std::mem::take(&mut self.kept).into_values() {
            let mut held = kept.held.into_inner();
            // The one reader has it.
            if held.lease.is_none() {
                continue;
            }
            // Committed, so that settings stay as they were made; where that fails the connection is closed.
            drop(runtime.spawn(scope::task(&TAKE, async move {
                held.is_clean = in_time(held.lease().run("COMMIT")).await.is_ok_and(|tag| tag == "COMMIT");
                // Given back, or closed.
                drop(held);
            })));
        }
    }
}

async fn in_time<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let late = || Error::new(ErrorCode::ConnectionFailure, "a shard did not answer in time");
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| Err(late()))
}

/// How long the shard waits for its client, in and outside of a transaction. Not every version knows both.
fn silence(value: &str) -> String {
    format!(
        "SELECT pg_catalog.set_config(name, {value}, false) FROM pg_catalog.pg_settings \
         WHERE name IN ('idle_session_timeout', 'idle_in_transaction_session_timeout')"
    )
}

impl Snapshots {
    /// Takes snapshots of these servers, for one statement.
    ///
    /// # Errors
    /// 55P03 where a transaction stays prepared on one of them; 53300 where there is no connection for it in time; what a server says, or that
    /// it cannot be reached.
    pub async fn take(fleet: &Fleet, pool: &Arc<Pool>, role: &str, servers: &[&str]) -> Result<Self> {
        Self::take_for(fleet, pool, role, servers, false).await
    }

    /// The same. `stays`: they are kept while other statements run, and refused at once where there are too many of them.
    async fn take_for(fleet: &Fleet, pool: &Arc<Pool>, role: &str, servers: &[&str], stays: bool) -> Result<Self> {
        scope::scope(&TAKE, async {
            // In one order for all processes that know the servers by the same names.
            let mut servers = servers.to_vec();
            servers.sort_unstable();
            servers.dedup();
            let settings = Settings { lock_timeout_ms: LOCK_TIMEOUT_MS, ..Settings::default() };
            let mut all: Vec<(String, Held)> = Vec::with_capacity(servers.len());
            let mut databases: BTreeSet<Arc<str>> = BTreeSet::new();
            // All of them before the first connection: who waits here keeps none from anybody.
            let mut rights: Vec<Keeping> = Vec::with_capacity(servers.len());
            for server in &servers {
                rights.push(pool.keeping(server, stays).await?);
            }
            for (server, right) in servers.into_iter().zip(rights) {
                let mut lease = fleet.lend((pool, None), server, role, &settings).await?;
                let locks = databases.insert(in_time(two_phase::identity(&mut lease)).await?);
                all.push((server.to_owned(), Held { lease: Some(lease), is_clean: true, locks, _right: right }));
            }
            let deadline = clock::monotonic() + PATIENCE;
            // One after the other within this process: they would only wait for each other on the shards.
            let turn = tokio::time::timeout(PATIENCE, fleet.snapshots().lock()).await;
            let _turn = turn.map_err(|_| in_doubt())?;
            loop {
                match in_time(lock(&mut all)).await {
                    Ok(()) => break,
                    Err(error) if error.sqlstate() == LOCKED => {
                        in_time(unlock(&mut all)).await?;
                        for (_, held) in &mut all {
                            held.is_clean = true;
                        }
                        if clock::monotonic() >= deadline {
                            return Err(in_doubt());
                        }
                    }
                    Err(error) => return Err(error),
                }
            }
            let exports = in_time(export(&mut all)).await?;
            in_time(unlock(&mut all)).await?;
            Ok(Self::of(exports, all.into_iter().map(|(server, held)| (server, false, held))))
        })
        .await
    }

    /// Takes a snapshot of each of these servers, as of a moment of its own. `from_replicas`: of a replica of each that has one.
    ///
    /// # Errors
    /// 53300 where too many are kept; what a server says, or that it cannot be reached.
    async fn each(
        fleet: &Fleet,
        pool: &Arc<Pool>,
        role: &str,
        servers: &BTreeMap<Arc<str>, Reading>,
        from_replicas: bool,
    ) -> Result<Self> {
        scope::scope(&TAKE, async {
            let settings = Settings::default();
            let mut all: Vec<(String, Held)> = Vec::with_capacity(servers.len());
            for server in servers.keys() {
                let right = pool.keeping(server, true).await?;
                let lease = match from_replicas {
                    true => fleet.lend_for_reading((pool, None), server, role, &settings).await?,
                    false => fleet.lend((pool, None), server, role, &settings).await?,
                };
                let held = Held { lease: Some(lease), is_clean: true, locks: false, _right: right };
                all.push((server.to_string(), held));
            }
            let exports = export(&mut all).await?;
            let all = all.into_iter().zip(servers.values());
            Ok(Self::of(exports, all.map(|((server, held), reading)| (server, reading.is_sole, held))))
        })
        .await
    }

    fn of(exports: Vec<Export>, all: impl Iterator<Item = (String, bool, Held)>) -> Self {
        let kept = exports.into_iter().zip(all);
        let kept = kept.map(|(export, (server, is_sole, held))| (server, Kept::new(export, is_sole, held)));
        Self { kept: kept.collect(), runtime: Handle::try_current().ok() }
    }

    fn kept(&self, server: &str) -> Result<&Kept> {
        self.kept.get(server).ok_or_else(|| {
            Error::unsupported(format!("reading shard \"{server}\", of which no snapshot was taken, is not supported"))
                .with_hint("It had no table then: begin another transaction.")
        })
    }

    /// Begins a transaction on a connection to a server that sees what that had at the moment. Sent with what is queued next.
    ///
    /// # Errors
    /// 0A000 for a server of which none was taken.
    pub fn begin(&self, server: &str, lease: &mut Lease) -> Result<()> {
        self.kept(server)?.begin(lease);
        Ok(())
    }
}

/// What is wrong where a snapshot is not there any more.
const GONE: &str = "the server has restarted since the snapshot was taken: begin the transaction again";

/// A transaction that sees one snapshot.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// 55P03
fn in_doubt() -> Error {
    let message = "could not take a snapshot of several shards: a transaction stays prepared on one of them";
    Error::new(ErrorCode::LockNotAvailable, message)
        .with_hint("See ashlar.in_doubt, or read with SET sharded_reads = 'each'.")
}

/// Locks one server after the other.
async fn lock(all: &mut [(String, Held)]) -> Result<()> {
    for (_, held) in all.iter_mut().filter(|(_, held)| held.locks) {
        held.is_clean = false;
        let lease = held.lease();
        lease.queue_query(&silence(SILENCE_MS));
        lease.queue_query(&format!("SELECT pg_catalog.pg_advisory_lock({LOCK})"));
        lease.answer(&mut Nothing).await?;
    }
    Ok(())
}

/// Takes a snapshot of every server, all at once.
async fn export(all: &mut [(String, Held)]) -> Result<Vec<Export>> {
    // Seeds of hashes are what the system calls random, and others each time.
    let lock = RandomState::new().hash_one(clock::monotonic()).cast_signed();
    for (_, held) in all.iter_mut() {
        held.is_clean = false;
        let lease = held.lease();
        lease.queue_query(BEGIN);
        let locked = format!("pg_catalog.pg_advisory_xact_lock({lock})");
        lease.queue_scan(&format!("SELECT pg_catalog.pg_export_snapshot() FROM {locked}"));
        lease.flush().await?;
    }
    let mut exports = Vec::with_capacity(all.len());
    for (_, held) in all.iter_mut() {
        let lease = held.lease();
        let found = read(lease, &[TEXT]).await?;
        let name = found.first().and_then(|row| row.text(0)).ok_or_else(|| garbled(lease))?;
        exports.push(Export { name, lock });
    }
    Ok(exports)
}

/// Lets go of every server, all at once.
async fn unlock(all: &mut [(String, Held)]) -> Result<()> {
    for (_, held) in all.iter_mut() {
        let lease = held.lease();
        lease.queue_query("SELECT pg_catalog.pg_advisory_unlock_all()");
        lease.queue_query(&silence("reset_val"));
        lease.flush().await?;
    }
    for (_, held) in all.iter_mut() {
        held.lease().answer(&mut Nothing).await?;
    }
    Ok(())
}

/// The moment that a statement sees, the same for all of its streams; or all statements of a transaction.
pub struct Moment {
    fleet: Arc<Fleet>,
    role: Arc<str>,
    of: Of,
    taken: OnceCell<Snapshots>,
}

/// Of what a moment is one.
#[derive(Debug)]
enum Of {
    /// Of these servers together: taken when somebody asks first.
    All {
        servers: Vec<Arc<str>>,
        /// Whether the connections of the reader's transaction see it too.
        has_own: bool,
    },
    /// Of each server by itself: taken of those that a statement reads, when that is known.
    Each { from_replicas: bool },
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Moment").field("of", &self.of).field("taken", &self.taken).finish()
    }
}

impl Moment {
    /// One moment on these servers, for a statement.
    pub fn new(fleet: Arc<Fleet>, role: Arc<str>, servers: Vec<Arc<str>>) -> Self {
        Self { fleet, role, of: Of::All { servers, has_own: false }, taken: OnceCell::new() }
    }

    /// The same for a transaction, whose own connections see it: they are begun with [`Self::import`].
    pub fn of_transaction(fleet: Arc<Fleet>, role: Arc<str>, servers: Vec<Arc<str>>) -> Self {
        Self { fleet, role, of: Of::All { servers, has_own: true }, taken: OnceCell::new() }
    }

    /// A moment of each server that a statement reads, for one that goes on while others run: see [`Self::fix`]. `from_replicas`: whether
    /// replicas may be read.
    pub fn of_each(fleet: Arc<Fleet>, role: Arc<str>, from_replicas: bool) -> Self {
        Self { fleet, role, of: Of::Each { from_replicas }, taken: OnceCell::new() }
    }

    /// Whether what a transaction has on its own connections goes together with it: these see it too, or each server may be as of a moment
    /// of its own.
    pub fn has_own(&self) -> bool {
        match &self.of {
            Of::All { has_own, .. } => *has_own,
            Of::Each { .. } => true,
        }
    }

    /// Takes it, where that has not been done. On the query pool, whose connections keep it.
    ///
    /// # Errors
    /// As [`Snapshots::take`].
    pub async fn take(self: Arc<Self>) -> Result<()> {
        self.snapshots(self.has_own()).await.map(|_| ())
    }

    /// The member that a connection of the transaction's own to a server has to be to, and what comes right behind its BEGIN, of REPEATABLE
    /// READ, so that it sees the moment, which was taken before.
    ///
    /// # Errors
    /// 0A000 for a server that it is not of.
    pub fn import(&self, server: &str) -> Result<(&str, String)> {
        let taken = self.taken.get().ok_or_else(|| Error::internal("nobody has taken the snapshots of shards"))?;
        let kept = taken.kept(server)?;
        Ok((&kept.member, kept.import()))
    }

    /// Fixes what a statement sees of these servers, before its first row is asked for. What it returns the statement has for as long as it
    /// may read.
    ///
    /// # Errors
    /// As [`Snapshots::take`].
    pub async fn fix(&self, servers: &BTreeMap<Arc<str>, Reading>) -> Result<Readers> {
        let pool = self.fleet.pool_of_queries();
        let each = match self.of {
            Of::Each { from_replicas } => Some(from_replicas),
            Of::All { .. } => None,
        };
        match each {
            Some(from_replicas) => {
                let take = || Snapshots::each(&self.fleet, pool, &self.role, servers, from_replicas);
                self.taken.get_or_try_init(take).await?;
            }
            None => {
                self.snapshots(true).await?;
            }
        }
        let mut rights = Vec::with_capacity(servers.len());
        for (server, reading) in servers {
            // A sole reader has the connection that keeps the snapshot, which is counted.
            let connections = if each.is_some() && reading.is_sole { 0 } else { reading.streams };
            rights.push(pool.reading(server, connections).await?);
        }
        Ok(Readers { _rights: rights })
    }

    /// Lends a connection in a transaction that sees what a server had at the moment.
    ///
    /// # Errors
    /// As [`Snapshots::take`] and [`Fleet::lend`]; 0A000 for a server that it is not of.
    pub async fn lend(&self, server: &str) -> Result<Lease> {
        let kept = self.snapshots(self.has_own()).await?.kept(server)?;
        if kept.is_sole {
            let lease = kept.held.lock().lease.take();
            return lease
                .ok_or_else(|| Error::internal(format!("shard \"{server}\" is read once more than was known")));
        }
        let from = (self.fleet.pool_of_queries(), None);
        let mut lease = self.fleet.lend(from, &kept.member, &self.role, &Settings::default()).await?;
        kept.begin(&mut lease);
        Ok(lease)
    }

    /// `stays`: they are kept while other statements run, where they are taken now.
    async fn snapshots(&self, stays: bool) -> Result<&Snapshots> {
        let Of::All { servers, .. } = &self.of else {
            return self.taken.get().ok_or_else(|| Error::internal("nobody has fixed what is seen of shards"));
        };
        let take = || async {
            let servers: Vec<&str> = servers.iter().map(|server| &**server).collect();
            Snapshots::take_for(&self.fleet, self.fleet.pool_of_queries(), &self.role, &servers, stays).await
        };
        self.taken.get_or_try_init(take).await
    }
}
