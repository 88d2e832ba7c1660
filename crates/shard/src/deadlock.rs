//! Deadlocks of transactions that span several shards, which no shard can see: detected here, and resolved by
//! cancelling one of them.
//!
//! ```text
//! transaction 1 ── waits on s0 for ──▶ transaction 2 ── waits on s1 for ──▶ transaction 1
//! ```
//!
//! A transaction registers here when it is on several shards and has waited for one of them as long as PostgreSQL waits
//! before it checks for deadlocks. While any is registered, a task asks the shards which backends wait for which, and
//! announces to other Ashlar processes which backends belong together (`claims`). Locks are held until their statements
//! end, so a cycle whose transactions have all stayed registered is a real one. For a transaction of another process
//! this is known once that process has announced it later than the cycle was seen. A cycle within one shard is left to
//! that shard.

mod claims;
mod cycles;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ashlar_base::scope::{self, Name as ScopeName};
use ashlar_base::{Error, ErrorCode, Result, clock};
use parking_lot::Mutex;
use tokio::sync::Notify;

use self::claims::{CLAIMS_MAX, Claim, Watcher};
use self::cycles::{Cluster, Look, Name, own_cycles, waits_for_others};
use crate::fleet::Fleet;
use crate::pool::Lease;
use crate::server::{Mapping, Server};

/// How long somebody waits before anybody looks: PostgreSQL's `deadlock_timeout`.
const PATIENCE: Duration = Duration::from_secs(1);

/// Between two looks.
const PERIOD: Duration = Duration::from_millis(250);

/// How long a shard may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// After so many further rounds an Ashlar has looked at who still waits, and told it, since the first of them was seen.
const ROUNDS: u64 = 2;

static DETECT: ScopeName = ScopeName::new("deadlocks across shards");

fn cluster(server: &Server) -> Cluster {
    (server.host.clone(), server.port)
}

/// A connection of a transaction.
struct Place {
    server: Arc<Server>,
    mapping: Arc<Mapping>,
    pid: i32,
}

/// A transaction on several shards that waits for one of them.
pub struct Stand {
    /// When it began.
    since: Instant,
    /// Its connections.
    places: Vec<Place>,
}

impl Stand {
    /// What a transaction has that began then and waits for one of its connections; `None` where it has no other.
    pub fn new<'a>(since: Instant, leases: impl ExactSizeIterator<Item = &'a Lease>) -> Option<Self> {
        if leases.len() < 2 {
            return None;
        }
        let place = |lease: &Lease| {
            let (server, mapping) = (Arc::clone(lease.server()), Arc::clone(lease.mapping()));
            Place { server, mapping, pid: lease.pid() }
        };
        Some(Self { since, places: leases.map(place).collect() })
    }
}

struct Party {
    stand: Arc<Stand>,
    verdict: Arc<Notify>,
}

/// By the numbers of those who wait.
type Stands = BTreeMap<i32, Arc<Stand>>;

/// Those who have waited long, of one fleet.
#[derive(Default)]
pub(crate) struct Waits {
    /// By their numbers.
    parties: Mutex<BTreeMap<i32, Party>>,
    next: AtomicU64,
    is_watched: AtomicBool,
}

impl Waits {
    /// A number that nobody has had: the time in hundredths of a second, so that those of several Ashlars are in order, or more where that is
    /// taken.
    fn number(&self) -> i32 {
        let now = u64::try_from(clock::wall_micros() / 10_000).unwrap_or(0);
        self.next.fetch_max(now, Ordering::Relaxed);
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        // A key of a lock, which has room for eight months.
        i32::try_from(next % (1 << 31)).unwrap_or(0)
    }

    fn stands(&self) -> Stands {
        self.parties.lock().iter().map(|(number, party)| (*number, Arc::clone(&party.stand))).collect()
    }
}

/// Somebody waits, until this is dropped.
struct Entered {
    fleet: Arc<Fleet>,
    number: i32,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.fleet.waits().parties.lock().remove(&self.number);
    }
}

/// Resolves when a transaction is to end so that others can go on: 40P01. Dropped when what it waits for has come.
pub async fn broken(fleet: Arc<Fleet>, stand: Stand) -> Error {
    tokio::time::sleep(PATIENCE).await;
    let verdict = Arc::new(Notify::new());
    let waits = fleet.waits();
    let number = waits.number();
    waits.parties.lock().insert(number, Party { stand: Arc::new(stand), verdict: Arc::clone(&verdict) });
    let _entered = Entered { fleet: Arc::clone(&fleet), number };
    if !waits.is_watched.swap(true, Ordering::SeqCst) {
        // Beside the session, whose statement may end before the search does.
        drop(tokio::spawn(scope::task(&DETECT, detect(Arc::clone(&fleet)))));
    }
    verdict.notified().await;
    Error::new(ErrorCode::DeadlockDetected, "deadlock detected")
        .with_detail("Transactions on several shards wait for each other.")
        .with_hint("The transaction might succeed if retried.")
}

/// Looks for cycles as long as somebody waits.
async fn detect(fleet: Arc<Fleet>) {
    let waits = fleet.waits();
    let mut detector = Detector::new(Arc::clone(&fleet));
    loop {
        let stands = waits.stands();
        if stands.is_empty() {
            waits.is_watched.store(false, Ordering::SeqCst);
            // Somebody may have entered meanwhile, who has seen that somebody watches.
            let is_alone = waits.parties.lock().is_empty();
            if is_alone || waits.is_watched.swap(true, Ordering::SeqCst) {
                return;
            }
            continue;
        }
        let look = detector.look(&stands).await;
        if let Some(verdict) = detector.judge(&look) {
            tracing::info!("a deadlock of transactions on several shards is broken");
            verdict.notify_one();
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// A cycle that has been seen.
struct Suspicion {
    cycle: Vec<Name>,
    /// How far the Ashlars of its transactions were when it was seen for the second time.
    rounds: Option<BTreeMap<Name, u64>>,
}

impl Suspicion {
    /// A cycle that is seen again, when other Ashlars are so far: whether all of their transactions in it were waiting when it had been seen
    /// for the first time.
    fn is_certain(&mut self, member: &str, rounds: &BTreeMap<Name, u64>) -> bool {
        let before = self.rounds.get_or_insert_with(|| rounds.clone());
        self.cycle.iter().filter(|name| *name.member != *member).all(|name| {
            let both = rounds.get(name).zip(before.get(name));
            both.is_some_and(|(now, before)| *now >= before + ROUNDS)
        })
    }
}

/// What looks at the shards for one Ashlar.
struct Detector {
    fleet: Arc<Fleet>,
    /// What this Ashlar is called among those in front of the same shards.
    member: Arc<str>,
    /// Looks so far.
    round: u64,
    watchers: BTreeMap<Cluster, Watcher>,
    /// Whether somebody waits for a transaction of another Ashlar, which may wait on any shard.
    is_wide: bool,
    suspicions: Vec<Suspicion>,
}

impl Detector {
    fn new(fleet: Arc<Fleet>) -> Self {
        let (instance, began) = (fleet.catalog().instance(), fleet.transactions.began());
        let member = format!("{instance:016x}-{began:x}").into();
        Self { fleet, member, round: 0, watchers: BTreeMap::new(), is_wide: false, suspicions: Vec::new() }
    }

    /// Whom to ask.
    fn asks(&self, stands: &Stands) -> BTreeMap<Cluster, (Arc<Server>, Arc<Mapping>)> {
        let mut asks = BTreeMap::new();
        if self.is_wide {
            let known = self.fleet.catalog().known();
            for server in known.servers.values() {
                if self.fleet.health().check(&server.name).is_ok()
                    && let Some(mapping) = known.any_mapping(server)
                {
                    asks.insert(cluster(server), (Arc::clone(server), Arc::clone(mapping)));
                }
            }
        }
        for place in stands.values().flat_map(|stand| &stand.places) {
            asks.insert(cluster(&place.server), (Arc::clone(&place.server), Arc::clone(&place.mapping)));
        }
        asks
    }

    /// Tells the shards who waits here, and asks them who waits for whom.
    async fn look(&mut self, stands: &Stands) -> Look {
        self.round += 1;
        let mut look = Look::default();
        let mut claims: BTreeMap<Cluster, BTreeSet<Claim>> = BTreeMap::new();
        for (number, stand) in stands {
            let name = Name { number: *number, member: Arc::clone(&self.member) };
            for place in &stand.places {
                let claims = claims.entry(cluster(&place.server)).or_default();
                if claims.len() < CLAIMS_MAX {
                    claims.insert((*number, place.pid));
                }
                look.owners.insert((cluster(&place.server), place.pid), name.clone());
            }
        }
        let asks = self.asks(stands);
        // What was told elsewhere is no more.
        self.watchers.retain(|cluster, _| asks.contains_key(cluster));
        for (cluster, (server, mapping)) in asks {
            let told = claims.remove(&cluster).unwrap_or_default();
            let (known, limits, member, round) =
                (self.watchers.remove(&cluster), self.fleet.limits(), Arc::clone(&self.member), self.round);
            let asked = async {
                let mut watcher = match known {
                    Some(watcher) => watcher,
                    None => Watcher::connect(&server, &mapping, limits).await?,
                };
                watcher.tell(&told, &member, round).await?;
                watcher.read(&cluster, &member, &mut look).await?;
                Ok::<_, Error>(watcher)
            };
            match in_time(asked).await {
                Ok(watcher) => {
                    self.watchers.insert(cluster, watcher);
                }
                Err(error) => tracing::debug!(%error, server = server.name, "locks cannot be looked at"),
            }
        }
        look
    }

    /// Whom to tell that he is to end, where that is certain.
    fn judge(&mut self, look: &Look) -> Option<Arc<Notify>> {
        let graph = look.graph();
        self.is_wide = waits_for_others(&graph, &self.member);
        let mut known = std::mem::take(&mut self.suspicions);
        let mut verdict = None;
        for cycle in own_cycles(graph, &self.member) {
            let suspicion = match known.iter().position(|suspicion| suspicion.cycle == cycle) {
                None => Suspicion { cycle, rounds: None },
                Some(place) => {
                    let mut suspicion = known.swap_remove(place);
                    if verdict.is_none() && suspicion.is_certain(&self.member, &look.rounds) {
                        verdict = self.youngest(&suspicion);
                    }
                    suspicion
                }
            };
            self.suspicions.push(suspicion);
        }
        verdict
    }

    /// Of those of a cycle that are here the one that has done least; `None`: one of them has left.
    fn youngest(&self, suspicion: &Suspicion) -> Option<Arc<Notify>> {
        let parties = self.fleet.waits().parties.lock();
        let own = suspicion.cycle.iter().filter(|name| *name.member == *self.member);
        let own: Option<Vec<&Party>> = own.map(|name| parties.get(&name.number)).collect();
        let youngest = own?.into_iter().max_by_key(|party| party.stand.since)?;
        Some(Arc::clone(&youngest.verdict))
    }
}

async fn in_time<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let late = || Error::new(ErrorCode::ConnectionFailure, "no answer in time");
    tokio::time::timeout(ANSWER, work).await.unwrap_or_else(|_| Err(late()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_once_and_in_order() {
        let waits = Waits::default();
        let numbers: Vec<i32> = (0..1000).map(|_| waits.number()).collect();
        assert!(numbers.is_sorted_by(|one, next| 0 <= *one && one < next));
    }

    #[test]
    fn a_cycle_is_certain_when_the_others_have_told_it_since() {
        let name = |number, member: &str| Name { number, member: member.into() };
        let at = |b: u64, c: u64| BTreeMap::from([(name(2, "b"), b), (name(3, "c"), c)]);
        let of = |cycle: Vec<Name>| Suspicion { cycle, rounds: None };
        // Nobody else's.
        assert!(of(vec![name(1, "a"), name(4, "a")]).is_certain("a", &BTreeMap::new()));
        let mut suspicion = of(vec![name(1, "a"), name(2, "b"), name(3, "c")]);
        // One that is stopped tells nothing new, and what another tells is not enough.
        for (b, c, expected) in [(7, 100, false), (8, 100, false), (9, 101, false), (12, 101, false), (12, 102, true)] {
            assert_eq!(suspicion.is_certain("a", &at(b, c)), expected, "{b} {c}");
        }
        // One that is not there any more.
        assert!(!suspicion.is_certain("a", &BTreeMap::from([(name(2, "b"), 20)])));
    }
}
