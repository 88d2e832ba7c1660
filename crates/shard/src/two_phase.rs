//! A transaction on several shards commits on all of them or on none: two-phase commit, and what is left to do after a failure.
//!
//! ```text
//! PREPARE TRANSACTION on each ──▶ decision on disk ──▶ COMMIT PREPARED on each ──▶ decision forgotten
//! ```
//!
//! Until the decision is on disk nothing commits anywhere; from then on all of it does, whoever is down meanwhile. Whoever finds
//! a prepared transaction of this installation that nobody is working on asks the decisions: it is there, and the
//! transaction is committed, or it is not, and it is rolled back. That is done at start and from time to time.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ashlar_base::scope::{self, Name};
use ashlar_base::{Error, ErrorCode, Result, clock};
use parking_lot::Mutex;
use postgres_protocol::escape::escape_literal;

use crate::backend::{RowReader, Settings};
use crate::fleet::Fleet;
use crate::pool::Lease;

/// Between two looks at what shards have prepared.
const PERIOD: Duration = Duration::from_secs(10);

/// Looks after a start: what an earlier process has sent last may be prepared after it is gone.
const LOOKS_AT_START: u32 = 3;

/// `text`
const TEXT: u32 = 25;

static TWO_PHASE: Name = Name::new("two-phase commit");
static RECOVER: Name = Name::new("prepared transactions");

/// Transactions on several servers that this process is working on.
pub(crate) struct Transactions {
    /// When the process began: part of their names, so that those of an earlier one are told apart.
    began: i64,
    next: AtomicU64,
    active: Mutex<BTreeSet<String>>,
    /// Something has failed since shards were last looked at.
    is_suspect: AtomicBool,
}

impl Default for Transactions {
    fn default() -> Self {
        Self {
            began: clock::wall_micros(),
            next: AtomicU64::new(1),
            active: Mutex::default(),
            is_suspect: AtomicBool::new(false),
        }
    }
}

/// A transaction that somebody is working on, until this is dropped.
struct Active {
    fleet: Arc<Fleet>,
    name: String,
}

impl Drop for Active {
    fn drop(&mut self) {
        self.fleet.transactions.active.lock().remove(&self.name);
    }
}

/// Commits what has been done on several servers, each by its connection. Returns where it is still to be done: there it will be,
/// as soon as the server can be reached.
///
/// # Errors
/// What the first server that cannot promise to commit says; then nothing is committed anywhere.
pub async fn commit(fleet: &Arc<Fleet>, participants: Vec<Lease>) -> Result<Vec<String>> {
    let fleet = Arc::clone(fleet);
    // In a task of its own: whoever waits for it may go, and what has begun must come to its end.
    let task = tokio::spawn(scope::task(&TWO_PHASE, commit_now(fleet, participants)));
    scope::scope(&TWO_PHASE, task).await.map_err(|error| Error::internal(format!("a commit failed: {error}")))?
}

async fn commit_now(fleet: Arc<Fleet>, mut participants: Vec<Lease>) -> Result<Vec<String>> {
    fleet.catalog().check_durable()?;
    let transactions = &fleet.transactions;
    let number = transactions.next.fetch_add(1, Ordering::Relaxed);
    let name = format!("ashlar-{:016x}-{}-{number}", fleet.catalog().instance(), transactions.began);
    transactions.active.lock().insert(name.clone());
    let active = Active { fleet: Arc::clone(&fleet), name };
    let name = &active.name;
    let servers: Vec<String> = participants.iter().map(|lease| lease.server().name.clone()).collect();

    let mut prepared = 0;
    let mut failure = None;
    for lease in &mut participants {
        let gid = gid(name, &lease.server().name);
        match lease.run(&format!("PREPARE TRANSACTION {}", escape_literal(&gid))).await {
            Ok(tag) if tag == "PREPARE TRANSACTION" => prepared += 1,
            Ok(_) => {
                let message = format!("shard \"{}\" has rolled the transaction back", lease.server().name);
                failure = Some(Error::new(ErrorCode::FailedTransaction, message));
                break;
            }
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
    }
    if failure.is_none() {
        let (decider, decided, all) = (Arc::clone(&fleet), name.clone(), servers.clone());
        let written = tokio::task::spawn_blocking(move || decider.catalog().decide(&decided, &all)).await;
        failure = match written {
            Ok(written) => written.err(),
            Err(error) => Some(Error::internal(format!("a decision was not written: {error}"))),
        };
    }
    if let Some(error) = failure {
        transactions.is_suspect.store(true, Ordering::Relaxed);
        for (place, mut lease) in participants.into_iter().enumerate() {
            if place < prepared {
                let gid = gid(name, &lease.server().name);
                // Where it fails, what is prepared is found later, and no decision with it.
                if let Err(error) = lease.run(&format!("ROLLBACK PREPARED {}", escape_literal(&gid))).await {
                    tracing::warn!(%error, gid, "a prepared transaction could not be rolled back yet");
                }
            } else {
                lease.abandon();
            }
        }
        return Err(error);
    }
    let mut left = Vec::new();
    for lease in &mut participants {
        let server = lease.server().name.clone();
        let gid = gid(name, &server);
        if let Err(error) = lease.run(&format!("COMMIT PREPARED {}", escape_literal(&gid))).await {
            tracing::warn!(%error, gid, "a transaction that is committed could not be committed yet on its shard");
            left.push(server);
        }
    }
    let (settler, settled, remaining) = (Arc::clone(&fleet), name.clone(), left.clone());
    // It is committed, whether or not that is forgotten.
    if let Ok(Err(error)) = tokio::task::spawn_blocking(move || settler.catalog().settle(&settled, &remaining)).await {
        tracing::warn!(%error, "a decision could not be forgotten");
    }
    Ok(left)
}

/// The name of a transaction on a server. Two servers of ours can be databases of the same one of PostgreSQL's.
fn gid(transaction: &str, server: &str) -> String {
    format!("{transaction}-{server}")
}

/// Finishes, now and from time to time, what was prepared and is nobody's. Ends with the fleet; runs on the query pool.
pub async fn recover(fleet: Weak<Fleet>) {
    let mut looks = 0;
    loop {
        {
            let Some(fleet) = fleet.upgrade() else { return };
            let is_suspect = fleet.transactions.is_suspect.swap(false, Ordering::Relaxed);
            let is_asked = looks < LOOKS_AT_START || is_suspect || !fleet.catalog().decisions().is_empty();
            // Without a data directory nothing was prepared.
            if is_asked && fleet.catalog().check_durable().is_ok() {
                looks += 1;
                if !scope::scope(&RECOVER, recover_all(&fleet)).await {
                    fleet.transactions.is_suspect.store(true, Ordering::Relaxed);
                }
            }
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// Whether every server has been looked at.
async fn recover_all(fleet: &Arc<Fleet>) -> bool {
    let known = fleet.catalog().known();
    // Those that are decided before the servers are asked: a later one may not be prepared everywhere yet.
    let decided: Vec<String> = fleet.catalog().decisions();
    let mut is_complete = true;
    for server in known.servers.values() {
        let mappings = known.mappings.values().filter(|mapping| mapping.server == server.name);
        let mut left: Option<BTreeSet<String>> = None;
        for mapping in mappings {
            let lent = fleet.pool_of_queries().lend(server, mapping, &Settings::default()).await;
            let looked = match lent {
                Ok(mut lease) => recover_one(fleet, &mut lease, &mapping.user).await,
                Err(error) => Err(error),
            };
            match looked {
                // Each is shown what the others before it have left.
                Ok(found) => left = Some(found),
                Err(error) => {
                    is_complete = false;
                    tracing::debug!(%error, server = server.name, "prepared transactions cannot be looked at");
                }
            }
        }
        let Some(left) = left else { continue };
        is_complete &= left.is_empty();
        // What was decided and is not prepared there any more is done there.
        for transaction in decided.iter().filter(|transaction| !left.contains(*transaction)) {
            if fleet.transactions.active.lock().contains(transaction) {
                continue;
            }
            if let Some(mut waiting) = fleet.catalog().decision(transaction)
                && waiting.contains(&server.name)
            {
                waiting.retain(|waiting| *waiting != server.name);
                let (settler, settled) = (Arc::clone(fleet), transaction.clone());
                let work = move || settler.catalog().settle(&settled, &waiting);
                if let Ok(Err(error)) = tokio::task::spawn_blocking(work).await {
                    tracing::warn!(%error, "a decision could not be forgotten");
                }
            }
        }
    }
    is_complete
}

/// Finishes what this user has prepared on a server. Returns the transactions that are prepared there still.
///
/// # Errors
/// What the server says.
async fn recover_one(fleet: &Arc<Fleet>, lease: &mut Lease, user: &str) -> Result<BTreeSet<String>> {
    let server = lease.server().name.clone();
    let ours = format!("ashlar-{:016x}-", fleet.catalog().instance());
    let sql = format!(
        "SELECT gid::text, owner::text FROM pg_catalog.pg_prepared_xacts \
         WHERE database = current_database() AND starts_with(gid, {})",
        escape_literal(&ours)
    );
    lease.queue_scan(&sql);
    lease.flush().await?;
    let (mut found, mut failure) = (Vec::new(), None);
    while let Some(range) = lease.next_row(&[TEXT, TEXT], &mut failure).await? {
        let row = RowReader::new(lease.row(&range)).and_then(|mut row| Ok((row.value()?, row.value()?)));
        if let Ok((Some(gid), Some(owner))) = row {
            found.push((String::from_utf8_lossy(gid).into_owned(), String::from_utf8_lossy(owner).into_owned()));
        }
        lease.consume_row(&range);
    }
    let mut left = BTreeSet::new();
    for (gid, owner) in found {
        // Another server of ours may be the same one of PostgreSQL's.
        let Some(transaction) = gid.strip_suffix(&format!("-{server}")) else { continue };
        if owner != user || fleet.transactions.active.lock().contains(transaction) {
            left.insert(transaction.to_owned());
            continue;
        }
        // Nobody works on it any more: what has been decided stays so.
        let is_committed = fleet.catalog().decision(transaction).is_some();
        let command = if is_committed { "COMMIT PREPARED" } else { "ROLLBACK PREPARED" };
        lease.run(&format!("{command} {}", escape_literal(&gid))).await?;
        tracing::info!(gid, server, command, "a prepared transaction was finished");
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use crate::catalog::ShardCatalog;

    #[test]
    fn decisions_are_there_after_a_restart_until_all_have_followed() {
        let dir = tempfile::tempdir().unwrap();
        let servers = ["s0".to_owned(), "s1".to_owned()];
        let instance = {
            let catalog = ShardCatalog::open(dir.path()).unwrap();
            catalog.decide("one", &servers).unwrap();
            catalog.decide("two", &servers).unwrap();
            catalog.settle("two", &[]).unwrap();
            catalog.decide("three", &servers[1..]).unwrap();
            catalog.instance()
        };
        let catalog = ShardCatalog::open(dir.path()).unwrap();
        assert_eq!(catalog.instance(), instance);
        assert_eq!(catalog.decision("one").unwrap(), servers);
        assert_eq!(catalog.decision("two"), None);
        catalog.settle("three", &[]).unwrap();
        assert_eq!(catalog.decisions(), ["one"]);
        let other = tempfile::tempdir().unwrap();
        assert_ne!(ShardCatalog::open(other.path()).unwrap().instance(), instance);
    }
}
