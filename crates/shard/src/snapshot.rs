//! One moment on several shards: a transaction that has committed on several of them is seen on all of them, or on none.
//!
//! ```text
//! lock each shard ──▶ BEGIN and export a snapshot on each ──▶ unlock each ──▶ readers import the snapshot of their shard
//! ```
//!
//! What a shard prepares holds the same lock, shared, from before it is prepared until it is committed there (`two_phase`). So while all
//! shards are locked no transaction is committed on some of them and only prepared on others, whichever process has
//! sent it. Whoever waits too long for a lock lets go of all of them and begins again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ashlar_base::scope::{self, Name};
use ashlar_base::{Error, ErrorCode, Result, clock};
use postgres_protocol::escape::escape_literal;
use tokio::sync::OnceCell;

use crate::backend::{Nothing, Settings};
use crate::fleet::Fleet;
use crate::pool::{Lease, Pool};
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

/// Snapshots that are there to be imported, until this is dropped.
pub struct Snapshots {
    /// By server: the name of the snapshot, and the connection that keeps it.
    kept: BTreeMap<String, (String, Held)>,
}

impl fmt::Debug for Snapshots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.kept.keys()).finish()
    }
}

/// A connection that may have the lock: it is not lent again unless that is certain.
struct Held {
    lease: Option<Lease>,
    is_clean: bool,
    /// Whether it takes the lock: one connection does for a database that is known under several names.
    locks: bool,
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
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        for (_, mut held) in std::mem::take(&mut self.kept).into_values() {
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
    /// Takes snapshots of these servers.
    ///
    /// # Errors
    /// 55P03 where a transaction stays prepared on one of them; what a server says, or that it cannot be reached.
    pub async fn take(fleet: &Fleet, pool: &Arc<Pool>, role: &str, servers: &[&str]) -> Result<Self> {
        scope::scope(&TAKE, async {
            // In one order for all processes that know the servers by the same names.
            let mut servers = servers.to_vec();
            servers.sort_unstable();
            servers.dedup();
            let settings = Settings { lock_timeout_ms: LOCK_TIMEOUT_MS, ..Settings::default() };
            let mut all: Vec<(String, Held)> = Vec::with_capacity(servers.len());
            let mut databases: BTreeSet<Arc<str>> = BTreeSet::new();
            for server in servers {
                let mut lease = fleet.lend((pool, None), server, role, &settings).await?;
                let locks = databases.insert(in_time(two_phase::identity(&mut lease)).await?);
                all.push((server.to_owned(), Held { lease: Some(lease), is_clean: true, locks }));
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
            let names = in_time(export(&mut all)).await?;
            in_time(unlock(&mut all)).await?;
            let kept = names.into_iter().zip(all).map(|(name, (server, held))| (server, (name, held)));
            Ok(Self { kept: kept.collect() })
        })
        .await
    }

    /// Begins a transaction on a connection that sees what its server had at that moment. Sent with what is queued next.
    ///
    /// # Errors
    /// XX000 for a server of which none was taken.
    pub fn begin(&self, lease: &mut Lease) -> Result<()> {
        let server = &lease.server().name;
        let Some((name, _)) = self.kept.get(server) else {
            return Err(Error::internal(format!("no snapshot was taken of shard \"{server}\"")));
        };
        let import = format!("SET TRANSACTION SNAPSHOT {}", escape_literal(name));
        lease.queue_query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
        lease.queue_query(&import);
        Ok(())
    }
}

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
async fn export(all: &mut [(String, Held)]) -> Result<Vec<String>> {
    for (_, held) in all.iter_mut() {
        held.is_clean = false;
        let lease = held.lease();
        lease.queue_query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
        lease.queue_scan("SELECT pg_catalog.pg_export_snapshot()");
        lease.flush().await?;
    }
    let mut names = Vec::with_capacity(all.len());
    for (_, held) in all.iter_mut() {
        let lease = held.lease();
        let found = read(lease, &[TEXT]).await?;
        names.push(found.first().and_then(|row| row.text(0)).ok_or_else(|| garbled(lease))?);
    }
    Ok(names)
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

/// The moment that a statement sees: taken when the first of its streams asks, and the same for all of them.
pub struct Moment {
    fleet: Arc<Fleet>,
    role: Arc<str>,
    servers: Vec<Arc<str>>,
    taken: OnceCell<Snapshots>,
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Moment").field("servers", &self.servers).field("taken", &self.taken).finish()
    }
}

impl Moment {
    /// One moment on these servers, for statements of the query pool.
    pub fn new(fleet: Arc<Fleet>, role: Arc<str>, servers: Vec<Arc<str>>) -> Self {
        Self { fleet, role, servers, taken: OnceCell::new() }
    }

    /// Its snapshots.
    ///
    /// # Errors
    /// As [`Snapshots::take`].
    pub async fn snapshots(&self) -> Result<&Snapshots> {
        let take = || async {
            let servers: Vec<&str> = self.servers.iter().map(|server| &**server).collect();
            Snapshots::take(&self.fleet, self.fleet.pool_of_queries(), &self.role, &servers).await
        };
        self.taken.get_or_try_init(take).await
    }
}
