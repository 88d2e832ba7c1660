//! Two-phase commit: a transaction on several shards commits on all of them or on none. The decision is a row on one of
//! them, the decider.
//!
//! ```text
//! PREPARE TRANSACTION on all but one ──▶ on that one: decision and COMMIT ──▶ COMMIT PREPARED on the others ──▶ decision cleared away
//! ```
//!
//! Until the decider has committed, no shard has; from then on all of them will, even those that are down meanwhile. No
//! state is kept here: a process that finds an orphaned prepared transaction asks the decider (`recovery`). A decision
//! that was made is final, and one that was not made by then can no longer be made (`decisions`).

mod decisions;
mod names;
mod recovery;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ashlar_base::scope::{self, Name};
use ashlar_base::{Error, ErrorCode, Result, clock};
use parking_lot::Mutex;
use postgres_protocol::escape::escape_literal;
use tokio::sync::Notify;

pub use self::recovery::{InDoubt, Recovery, recover};

use self::decisions::Decided;
pub(crate) use self::decisions::identity;
use self::names::{Gid, Transaction};
use crate::backend::{Backend, Ended, Nothing, Notice};
use crate::fleet::Fleet;
use crate::pool::Lease;
use crate::server::{Mapping, Server};
use crate::snapshot;

/// How long a lost decision is asked for, before the client is told that it is not known.
const ASKING: Duration = Duration::from_secs(10);

/// Between two attempts at that.
const ASKING_AGAIN: Duration = Duration::from_millis(200);

/// Decisions of one server that are cleared away together.
const FORGOTTEN_TOGETHER: usize = 100;

/// Decisions of one server that are noted for that. Those beyond it are found there when they are old.
const FORGOTTEN_MAX: usize = 10_000;

static TWO_PHASE: Name = Name::new("two-phase commit");

/// What a connection has been found to be good for.
#[derive(Debug, Default)]
pub(crate) struct Duties {
    /// What its database is called in names of transactions.
    pub(crate) identity: Option<Arc<str>>,
    /// Whether there is a table for decisions.
    pub(crate) decides: bool,
}

/// Decisions that nobody needs any more, of one server.
struct Forgotten {
    server: Arc<Server>,
    mapping: Arc<Mapping>,
    gids: Vec<String>,
}

/// Transactions on several servers that this process is working on, and what it knows of others.
pub(crate) struct Transactions {
    /// When the process began: part of their names, so that those of an earlier one are told apart.
    began: i64,
    next: AtomicU64,
    active: Mutex<BTreeSet<Transaction>>,
    /// By server.
    forgotten: Mutex<BTreeMap<String, Forgotten>>,
    /// As of the last look.
    in_doubt: Mutex<Arc<[InDoubt]>>,
    /// Something has failed since shards were last looked at.
    is_suspect: AtomicBool,
    /// Something is there to be done before it is time for the next look.
    wake: Arc<Notify>,
}

impl Default for Transactions {
    fn default() -> Self {
        Self {
            began: clock::wall_micros(),
            next: AtomicU64::new(1),
            active: Mutex::default(),
            forgotten: Mutex::default(),
            in_doubt: Mutex::new(Arc::default()),
            is_suspect: AtomicBool::new(false),
            wake: Arc::default(),
        }
    }
}

impl Transactions {
    /// What was prepared and not finished when the shards were last looked at.
    pub(crate) fn in_doubt(&self) -> Arc<[InDoubt]> {
        Arc::clone(&self.in_doubt.lock())
    }

    /// When the process began, in microseconds since 1970.
    pub(crate) fn began(&self) -> i64 {
        self.began
    }

    /// Something may be prepared that nobody finishes.
    fn suspect(&self) {
        self.is_suspect.store(true, Ordering::Relaxed);
        self.wake.notify_one();
    }

    /// Notes that nobody will ask for a decision any more.
    fn forget(&self, server: &Arc<Server>, mapping: &Arc<Mapping>, transaction: Transaction) {
        let mut forgotten = self.forgotten.lock();
        let made = || Forgotten { server: Arc::clone(server), mapping: Arc::clone(mapping), gids: Vec::new() };
        let entry = forgotten.entry(server.name.clone()).or_insert_with(made);
        if entry.gids.len() < FORGOTTEN_MAX {
            entry.gids.push(transaction.to_string());
        }
        if entry.gids.len() == FORGOTTEN_TOGETHER {
            self.wake.notify_one();
        }
    }
}

/// A transaction that somebody is working on, until this is dropped.
struct Active {
    fleet: Arc<Fleet>,
    transaction: Transaction,
}

impl Active {
    fn begin(fleet: &Arc<Fleet>) -> Self {
        let transactions = &fleet.transactions;
        let number = transactions.next.fetch_add(1, Ordering::Relaxed);
        let transaction = Transaction { instance: fleet.catalog().instance(), began: transactions.began, number };
        transactions.active.lock().insert(transaction);
        Self { fleet: Arc::clone(fleet), transaction }
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.fleet.transactions.active.lock().remove(&self.transaction);
    }
}

/// A transaction that is committed.
#[derive(Debug, Default)]
pub struct Committed {
    /// Servers where that is still to be done: it will be, as soon as they can be reached.
    pub left: Vec<String>,
    /// What servers have said to it: constraints and triggers that are deferred speak now.
    pub notices: Vec<Notice>,
}

/// Commits what has been done on several servers, each by its connection.
///
/// # Errors
/// What the first server that cannot promise to commit says; 40001 where somebody else has decided against it: then nothing is
/// committed anywhere. 08007 where the server that decides was lost and stays away: then it is committed everywhere or nowhere,
/// as will be seen when that server is back. What `stop` says, where that comes before it is decided.
pub async fn commit(
    fleet: &Arc<Fleet>,
    participants: Vec<Lease>,
    stop: impl Future<Output = Error> + Send + 'static,
) -> Result<Committed> {
    let fleet = Arc::clone(fleet);
    // In a task of its own: whoever waits for it may go, and what has begun must come to its end.
    let task = tokio::spawn(scope::task(&TWO_PHASE, commit_now(fleet, participants, stop)));
    scope::scope(&TWO_PHASE, task).await.map_err(|error| Error::internal(format!("a commit failed: {error}")))?
}

async fn commit_now(
    fleet: Arc<Fleet>,
    participants: Vec<Lease>,
    stop: impl Future<Output = Error> + Send,
) -> Result<Committed> {
    let mut stop = std::pin::pin!(stop);
    let active = Active::begin(&fleet);
    let transaction = active.transaction;
    let mut others = participants.into_iter();
    let Some(mut decider) = others.next() else { return Ok(Committed::default()) };
    let mut others: Vec<Promise> = others.map(|lease| Promise { lease, gid: String::new(), is_made: false }).collect();

    let prepared = tokio::select! {
        biased;
        prepared = prepare(&fleet, transaction, &mut decider, &mut others) => prepared,
        why = &mut stop => Err(why),
    };
    let participants = match prepared {
        Ok(participants) => participants,
        Err(error) => {
            decider.abandon();
            undo(&fleet, others).await;
            return Err(error);
        }
    };
    let (server, mapping) = (Arc::clone(decider.server()), Arc::clone(decider.mapping()));
    let decided = tokio::select! {
        biased;
        decided = decisions::decide(&mut decider, transaction, &participants) => decided,
        why = &mut stop => Decided::Unknown(why),
    };
    let mut notices = Vec::new();
    let decided = match decided {
        Decided::Unknown(error) => {
            // Closed, and what it may still be doing is cancelled: nothing is to be decided there from here on.
            decider.give_up();
            drop(decider);
            ask(&fleet, &server, &mapping, transaction, error).await
        }
        Decided::Refused(error) => {
            decider.abandon();
            Decided::Refused(error)
        }
        // The decider's rows are free from here on, and so is its connection.
        Decided::Committed => {
            notices = decider.take_notices();
            Decided::Committed
        }
    };
    match decided {
        Decided::Committed => {}
        Decided::Refused(error) => {
            undo(&fleet, others).await;
            return Err(error);
        }
        Decided::Unknown(error) => {
            // What the others have prepared is finished when the decider says how.
            fleet.transactions.suspect();
            let message = format!("the connection to shard \"{}\" was lost while it committed", server.name);
            return Err(Error::new(ErrorCode::TransactionResolutionUnknown, message)
                .with_detail(error.message())
                .with_hint("The transaction is committed on all shards or on none: look when that shard is back."));
        }
    }
    let left = keep(&mut others).await;
    if left.is_empty() {
        fleet.transactions.forget(&server, &mapping, transaction);
    } else {
        fleet.transactions.suspect();
    }
    notices.extend(others.iter_mut().flat_map(|other| other.lease.take_notices()));
    Ok(Committed { left, notices })
}

/// What a server promises.
struct Promise {
    lease: Lease,
    gid: String,
    /// It may have been made: nobody has said that it has not.
    is_made: bool,
}

/// Has all but the decider promise to commit. Returns what they are called, the decider first.
async fn prepare(
    fleet: &Fleet,
    transaction: Transaction,
    decider: &mut Lease,
    others: &mut [Promise],
) -> Result<Vec<Arc<str>>> {
    decisions::ready(decider, fleet.limits()).await?;
    let name = identity(decider).await?;
    let mut participants = vec![Arc::clone(&name)];
    for (place, other) in others.iter_mut().enumerate() {
        participants.push(identity(&mut other.lease).await?);
        other.gid = Gid { transaction, decider: name.to_string(), place }.to_string();
    }
    for other in others.iter_mut() {
        // What is promised is still there after a failover, whatever this session wants of its commits.
        other.lease.queue_safe_commits();
        // The lock stays with what is prepared: until it is committed nobody takes a snapshot of this shard and others.
        other.lease.queue_query(&format!(
            "SELECT pg_catalog.pg_advisory_xact_lock_shared({}); PREPARE TRANSACTION {}",
            snapshot::LOCK,
            escape_literal(&other.gid)
        ));
        other.is_made = true;
        // Where it cannot be sent, its answer is that.
        let _ = other.lease.flush().await;
    }
    let mut failure: Option<Error> = None;
    for other in others.iter_mut() {
        match other.lease.answer(&mut Nothing).await {
            Ok(Ended::Complete(tag)) if tag == "PREPARE TRANSACTION" => {}
            Ok(_) => {
                other.is_made = false;
                let message = format!("shard \"{}\" has rolled the transaction back", other.lease.server().name);
                failure.get_or_insert(Error::new(ErrorCode::FailedTransaction, message));
            }
            Err(error) => {
                // Where it has said nothing, or not all of it could be read.
                other.is_made = other.lease.is_broken() || other.lease.is_busy();
                failure.get_or_insert(error);
            }
        }
    }
    failure.map_or(Ok(participants), Err)
}

/// Asks what has been decided where the decider's connection was lost, and decides against it where nothing has.
async fn ask(
    fleet: &Fleet,
    server: &Arc<Server>,
    mapping: &Arc<Mapping>,
    transaction: Transaction,
    lost: Error,
) -> Decided {
    let deadline = clock::monotonic() + ASKING;
    loop {
        let (server, mapping) = whom_to_ask(fleet, server, mapping);
        let asked = async {
            let mut backend = Backend::connect(&server, &mapping, &decisions::settings(), fleet.limits()).await?;
            decisions::settle(&mut backend, transaction).await
        };
        let left = deadline.saturating_duration_since(clock::monotonic());
        match tokio::time::timeout(left, asked).await {
            Ok(Ok(true)) => return Decided::Committed,
            // It was stopped in time.
            Ok(Ok(false)) if matches!(lost.code(), ErrorCode::QueryCanceled | ErrorCode::DeadlockDetected) => {
                return Decided::Refused(lost);
            }
            Ok(Ok(false)) => {
                let message = format!("the connection to shard \"{}\" was lost before it had committed", server.name);
                let error = Error::new(ErrorCode::SerializationFailure, message).with_detail(lost.message());
                return Decided::Refused(
                    error.with_hint("The transaction is rolled back on all shards: try it again."),
                );
            }
            Ok(Err(error)) => tracing::debug!(%error, server = server.name, "a decision cannot be asked for yet"),
            Err(_) => return Decided::Unknown(lost),
        }
        if clock::monotonic() + ASKING_AGAIN >= deadline {
            return Decided::Unknown(lost);
        }
        tokio::time::sleep(ASKING_AGAIN).await;
    }
}

/// Who says what a server has decided: where a replica of it was promoted meanwhile, that one.
fn whom_to_ask(fleet: &Fleet, server: &Arc<Server>, mapping: &Arc<Mapping>) -> (Arc<Server>, Arc<Mapping>) {
    let known = fleet.catalog().known();
    let acting = fleet.health().acting(server.shard()).and_then(|acting| known.server(&acting).ok().cloned());
    let Some(acting) = acting else { return (Arc::clone(server), Arc::clone(mapping)) };
    let own = known.mappings.values().find(|own| own.server == acting.name && own.role == mapping.role).cloned();
    (acting, own.unwrap_or_else(|| Arc::clone(mapping)))
}

/// Has the others do what they have promised, all at once. Returns those of which it is not known.
async fn keep(others: &mut [Promise]) -> Vec<String> {
    for other in others.iter_mut() {
        // When all have said that it is done the decision is forgotten: what a failover makes prepared again would be rolled back.
        other.lease.queue_safe_commits();
        other.lease.queue_query(&format!("COMMIT PREPARED {}", escape_literal(&other.gid)));
        // Where it cannot be sent, its answer is that.
        let _ = other.lease.flush().await;
    }
    let mut left = Vec::new();
    let deadline = tokio::time::Instant::from_std(clock::monotonic() + ASKING);
    for other in others.iter_mut() {
        let kept = tokio::time::timeout_at(deadline, other.lease.answer(&mut Nothing)).await;
        match kept.unwrap_or_else(|_| Err(decisions::silent(other.lease.server()))) {
            Ok(_) => {}
            // Somebody who found it prepared has asked the decider, and was faster.
            Err(error) if error.sqlstate() == decisions::UNDEFINED => {}
            Err(error) => {
                let gid = &other.gid;
                tracing::warn!(%error, gid, "a transaction that is committed could not be committed yet on its shard");
                left.push(other.lease.server().name.clone());
            }
        }
    }
    left
}

/// Rolls back what has been promised, and what has not.
async fn undo(fleet: &Fleet, others: Vec<Promise>) {
    for Promise { mut lease, gid, is_made } in others {
        if !is_made {
            lease.abandon();
            continue;
        }
        if lease.is_busy() {
            // Whether it has promised it has not said, and nobody waits for that any more: what it prepares is found later.
            fleet.transactions.suspect();
            continue;
        }
        let sql = format!("ROLLBACK PREPARED {}", escape_literal(&gid));
        let undone = tokio::time::timeout(ASKING, lease.run(&sql)).await;
        match undone.unwrap_or_else(|_| Err(decisions::silent(lease.server()))) {
            Ok(_) => {}
            Err(error) if error.sqlstate() == decisions::UNDEFINED => {}
            Err(error) => {
                // What is prepared is found later, and no decision with it.
                tracing::debug!(%error, gid, "a prepared transaction could not be rolled back yet");
                fleet.transactions.suspect();
            }
        }
    }
}
