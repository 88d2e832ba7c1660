//! Finishes orphaned prepared transactions on shards, whichever process has left them.
//!
//! Runs in the background from time to time. The decider of an old prepared transaction settles its fate: commit if
//! that was the decision, rollback if none was made, which then can no longer be. Never waits long for one server, and
//! never holds two connections at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use ashlar_base::scope::{self, Name};
use ashlar_base::{Error, Result, clock};
use postgres_protocol::escape::escape_literal;

use super::decisions::{self, Prepared};
use super::names::{Gid, Transaction};
use crate::catalog::Known;
use crate::fleet::Fleet;
use crate::pool::Lease;
use crate::rows::ROWS_MAX;
use crate::server::{Mapping, Server};

/// Between two times that old decisions are looked for.
const CLEARING: Duration = Duration::from_secs(30);

/// How long one question to a server may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a server says of a prepared transaction that another connection is finishing just now.
const BUSY: &str = "55000";

static RECOVER: Name = Name::new("prepared transactions");

/// When prepared transactions are looked at.
#[derive(Clone, Copy, Debug)]
pub struct Recovery {
    /// Between two looks.
    pub period: Duration,
    /// How old another process's transaction has to be before it is finished for it.
    pub after: Duration,
}

/// A transaction that a server has prepared, and that is neither committed nor rolled back there.
#[derive(Clone, Debug)]
pub struct InDoubt {
    /// Its name there.
    pub gid: String,
    /// The server.
    pub server: String,
    /// The server whose decision counts; `None` where it is none that is known here.
    pub decider: Option<String>,
    /// How long ago it was prepared.
    pub age: Duration,
    /// Why it is still there.
    pub state: &'static str,
}

/// Finishes, now and from time to time, what was prepared and is nobody's. Ends with the fleet; runs on the query pool.
pub async fn recover(fleet: Weak<Fleet>, recovery: Recovery) {
    // When the last look ended, and the last one that cleared old decisions away.
    let (mut looked, mut cleared): (Option<Instant>, Option<Instant>) = (None, None);
    loop {
        let wake = {
            let Some(fleet) = fleet.upgrade() else { return };
            let look = Look::new(&fleet, recovery);
            scope::scope(&RECOVER, look.forget()).await;
            let is_due = rest(recovery.period, looked, clock::monotonic()).is_zero();
            if fleet.transactions.is_suspect.swap(false, Ordering::Relaxed) || is_due {
                let clears = rest(CLEARING, cleared, clock::monotonic()).is_zero();
                scope::scope(&RECOVER, look.all(clears)).await;
                looked = Some(clock::monotonic());
                if clears {
                    cleared = looked;
                }
            }
            Arc::clone(&fleet.transactions.wake)
        };
        // The fleet is not held meanwhile: it may go.
        let _ = tokio::time::timeout(rest(recovery.period, looked, clock::monotonic()), wake.notified()).await;
    }
}

/// What is left until something is due that is done every `period`. It counts from the last time only: what else wakes whoever waits
/// does not put it off, so that there is a bound on how long a transaction is in doubt.
fn rest(period: Duration, last: Option<Instant>, now: Instant) -> Duration {
    last.map_or(Duration::ZERO, |last| period.saturating_sub(now.saturating_duration_since(last)))
}

/// One look at all servers.
struct Look<'a> {
    fleet: &'a Arc<Fleet>,
    known: Arc<Known>,
    recovery: Recovery,
    /// Those that this process was working on when the look began.
    active: BTreeSet<Transaction>,
    /// Databases that could be reached, by what they are called in names of transactions.
    places: BTreeMap<String, Arc<Server>>,
    in_doubt: Vec<InDoubt>,
}

/// What a server has of prepared transactions.
struct Found {
    server: Arc<Server>,
    timeline: u32,
    prepared: Vec<Prepared>,
}

impl<'a> Look<'a> {
    fn new(fleet: &'a Arc<Fleet>, recovery: Recovery) -> Self {
        let active = fleet.transactions.active.lock().clone();
        let (places, in_doubt) = (BTreeMap::new(), Vec::new());
        Self { fleet, known: fleet.catalog().known(), recovery, active, places, in_doubt }
    }

    async fn all(mut self, clears: bool) {
        // Before what is prepared: a decision that is read now is needed by nobody who has nothing prepared later.
        let old = if clears { self.old().await } else { Vec::new() };
        let found = self.prepared().await;
        // What was not shown may be needed.
        let is_whole = found.iter().all(|found| found.prepared.len() < ROWS_MAX);
        let mut needed: BTreeSet<String> = BTreeSet::new();
        for Found { server, prepared, .. } in found {
            for prepared in prepared {
                if let Some(gid) = Gid::parse(&prepared.gid) {
                    needed.insert(gid.transaction.to_string());
                }
                self.finish(&server, prepared).await;
            }
        }
        for (server, mapping, old) in old {
            let is_over = |old: &&decisions::Old| {
                is_whole
                    && !needed.contains(&old.gid)
                    && old.participants.iter().all(|name| self.places.contains_key(name))
            };
            let gids: Vec<String> = old.iter().filter(is_over).map(|old| old.gid.clone()).collect();
            self.clear(&server, &mapping, &gids).await;
        }
        *self.fleet.transactions.in_doubt.lock() = self.in_doubt.into();
    }

    async fn lend(&self, server: &Arc<Server>, mapping: &Arc<Mapping>) -> Result<Lease> {
        self.fleet.lend_to_look(server, mapping, &decisions::settings()).await
    }

    /// Who logs in to a server: to a replica as to its primary, where nothing else is said.
    fn mappings(&self, server: &Server) -> Vec<Arc<Mapping>> {
        let of = |name: &str| -> Vec<Arc<Mapping>> {
            self.known.mappings.values().filter(|mapping| mapping.server == name).cloned().collect()
        };
        let mut own = of(&server.name);
        for other in server.primary.as_deref().map(of).unwrap_or_default() {
            if own.iter().all(|mapping| mapping.role != other.role) {
                own.push(other);
            }
        }
        own
    }

    /// Whether another member of its group is known to take the writes: what is on this one then is of an earlier time.
    fn is_replaced(&self, server: &Server) -> bool {
        self.fleet.health().acting(server.shard()).is_some_and(|acting| acting != server.name)
    }

    /// Clears away what this process has decided and nobody needs any more.
    async fn forget(&self) {
        let forgotten = std::mem::take(&mut *self.fleet.transactions.forgotten.lock());
        for one in forgotten.into_values() {
            self.clear(&one.server, &one.mapping, &one.gids).await;
        }
    }

    async fn clear(&self, server: &Arc<Server>, mapping: &Arc<Mapping>, gids: &[String]) {
        if gids.is_empty() {
            return;
        }
        let cleared = in_time(server, async {
            let mut lease = self.lend(server, mapping).await?;
            decisions::forget(&mut lease, gids).await
        });
        // They are found again when they are old.
        if let Err(error) = cleared.await {
            tracing::debug!(%error, server = server.name, "decisions could not be cleared away");
        }
    }

    /// Decisions that may be of no use any more.
    async fn old(&self) -> Vec<(Arc<Server>, Arc<Mapping>, Vec<decisions::Old>)> {
        let mut all = Vec::new();
        for server in self.known.servers.values().filter(|server| !self.is_replaced(server)) {
            for mapping in self.mappings(server) {
                let old = in_time(server, async {
                    let mut lease = self.lend(server, &mapping).await?;
                    decisions::old(&mut lease).await
                });
                match old.await {
                    Ok(old) if old.is_empty() => {}
                    Ok(old) => {
                        all.push((Arc::clone(server), mapping, old));
                        break;
                    }
                    Err(error) if error.sqlstate().starts_with("08") => break,
                    Err(error) => tracing::debug!(%error, server = server.name, "decisions cannot be looked at"),
                }
            }
        }
        all
    }

    /// What every database that can be reached has prepared. Where a replica was promoted and its old primary is back, both say that
    /// they are the same one: what counts is the one on the later timeline, as for writes.
    async fn prepared(&mut self) -> Vec<Found> {
        let mut all: BTreeMap<String, Found> = BTreeMap::new();
        let known = Arc::clone(&self.known);
        for server in known.servers.values().filter(|server| !self.is_replaced(server)) {
            for mapping in self.mappings(server) {
                let found = in_time(server, async {
                    let mut lease = self.lend(server, &mapping).await?;
                    let name = decisions::identity(&mut lease).await?;
                    Ok((name, decisions::prepared(&mut lease).await?))
                });
                match found.await {
                    Ok((_, None)) => break,
                    Ok((name, Some((timeline, prepared)))) => {
                        // One database that is known under two names is looked at once.
                        if all.get(&*name).is_none_or(|other| other.timeline < timeline) {
                            all.insert(name.to_string(), Found { server: Arc::clone(server), timeline, prepared });
                        }
                        break;
                    }
                    Err(error) => {
                        tracing::debug!(%error, server = server.name, "prepared transactions cannot be looked at");
                        if error.sqlstate().starts_with("08") {
                            break;
                        }
                    }
                }
            }
        }
        self.places = all.iter().map(|(name, found)| (name.clone(), Arc::clone(&found.server))).collect();
        all.into_values().collect()
    }

    /// Finishes what a server has prepared, or notes why it stays.
    async fn finish(&mut self, server: &Arc<Server>, prepared: Prepared) {
        let gid = Gid::parse(&prepared.gid);
        let decider = gid.as_ref().and_then(|gid| self.places.get(&gid.decider)).cloned();
        let state = match (&gid, &decider) {
            (None, _) => "not of this version",
            (Some(gid), _) if !self.is_left(gid.transaction, prepared.age) => "in progress",
            (Some(_), None) => "the deciding server cannot be reached or is not known",
            (Some(gid), Some(decider)) => match self.settle(server, decider, gid, &prepared).await {
                Ok(command) => {
                    tracing::info!(
                        gid = prepared.gid,
                        server = server.name,
                        command,
                        "a prepared transaction was finished"
                    );
                    return;
                }
                Err((state, error)) => {
                    tracing::debug!(%error, gid = prepared.gid, server = server.name, state, "a prepared transaction stays");
                    state
                }
            },
        };
        let (server, decider) = (server.name.clone(), decider.map(|decider| decider.name.clone()));
        self.in_doubt.push(InDoubt { gid: prepared.gid, server, decider, age: prepared.age, state });
    }

    /// Whether nobody seems to work on a transaction any more. Whoever does all the same is told that it was rolled back.
    fn is_left(&self, transaction: Transaction, age: Duration) -> bool {
        let transactions = &self.fleet.transactions;
        if transaction.instance != self.fleet.catalog().instance() {
            return age >= self.recovery.after;
        }
        // The file of the catalog is one process's: an earlier one is gone.
        transaction.began != transactions.began
            || !(self.active.contains(&transaction) || transactions.active.lock().contains(&transaction))
    }

    /// Asks the decider, and does as it says: what was done.
    async fn settle(
        &self,
        server: &Arc<Server>,
        decider: &Arc<Server>,
        gid: &Gid,
        prepared: &Prepared,
    ) -> Result<&'static str, (&'static str, Error)> {
        let Some(owner) = self.mappings(server).into_iter().find(|mapping| mapping.user == prepared.owner) else {
            let error = Error::internal("no user mapping logs in as its owner");
            return Err(("no user mapping logs in as its owner", error));
        };
        // Who may ask the decider: the same user of ours, or else anybody.
        let mut asking = self.mappings(decider);
        asking.sort_by_key(|mapping| mapping.role != owner.role);
        let mut answer = Err(Error::internal("nobody logs in to the decider"));
        for mapping in &asking {
            let asked = in_time(decider, async {
                let mut lease = self.lend(decider, mapping).await?;
                decisions::settle(&mut lease, gid.transaction).await
            });
            answer = asked.await;
            if answer.is_ok() {
                break;
            }
        }
        let command = match answer {
            Ok(true) => "COMMIT PREPARED",
            Ok(false) => "ROLLBACK PREPARED",
            Err(error) if error.sqlstate() == "55P03" => return Err(("about to be decided", error)),
            Err(error) => return Err(("the deciding server does not say", error)),
        };
        let finished = in_time(server, async {
            let mut lease = self.lend(server, &owner).await?;
            lease.run(&format!("{command} {}", escape_literal(&prepared.gid))).await
        });
        match finished.await {
            Ok(_) => Ok(command),
            Err(error) if error.sqlstate() == decisions::UNDEFINED => Ok(command),
            Err(error) if error.sqlstate() == BUSY => Err(("in progress", error)),
            Err(error) => Err(("its server does not finish it", error)),
        }
    }
}

/// What a server does within a bound: where it does not, its connection is closed.
async fn in_time<T>(server: &Server, work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| Err(decisions::silent(server)))
}

#[cfg(test)]
mod tests;
