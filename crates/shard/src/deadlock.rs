//! Deadlocks of transactions on several shards, which no shard can see: found here, and broken by stopping one of them.
//!
//! ```text
//! transaction 1 ── waits on s0 for ──▶ transaction 2 ── waits on s1 for ──▶ transaction 1
//! ```
//!
//! Who is on several shards and has waited for one of them as long as PostgreSQL waits before it looks enters here; a task asks
//! the shards who waits for whom for as long as somebody is here. What all of them hold they hold until their statements end, so that
//! a cycle of those who have not left meanwhile is one. A cycle on one shard is left to that shard. Of this process only.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ashlar_base::scope::{self, Name};
use ashlar_base::{Error, ErrorCode, Result};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::backend::{Backend, Settings};
use crate::fleet::Fleet;
use crate::pool::Lease;
use crate::rows::{INT4, rows};
use crate::server::{Mapping, Server};

/// How long somebody waits before anybody looks: PostgreSQL's `deadlock_timeout`.
const PATIENCE: Duration = Duration::from_secs(1);

/// Between two looks.
const PERIOD: Duration = Duration::from_millis(250);

/// How long a shard may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// Steps of one search; a cycle that is not found in so many is looked for again, among those who are left.
const STEPS_MAX: usize = 100_000;

/// Who waits for whom, of all that waits on a server.
const EDGES: &str = "SELECT w.pid, b.pid \
    FROM (SELECT DISTINCT pid FROM pg_catalog.pg_locks WHERE NOT granted) w \
    CROSS JOIN LATERAL pg_catalog.unnest(pg_catalog.pg_blocking_pids(w.pid)) AS b(pid)";

static DETECT: Name = Name::new("deadlocks across shards");

/// Where a PostgreSQL listens: numbers of processes are its own.
type Cluster = (String, u16);

/// A process of one.
type Process = (Cluster, i32);

fn cluster(server: &Server) -> Cluster {
    (server.host.clone(), server.port)
}

/// A transaction on several shards that waits for one of them.
pub struct Stand {
    /// When it began.
    since: Instant,
    /// Its connections.
    places: Vec<Process>,
    /// The one that it waits on.
    at: Process,
    /// Who may ask there.
    asks: (Arc<Server>, Arc<Mapping>),
}

impl Stand {
    /// What a transaction has that waits for the connection at this place; `None` where it has no other.
    pub fn new<'a>(since: Instant, leases: impl ExactSizeIterator<Item = &'a Lease>, waits: usize) -> Option<Self> {
        if leases.len() < 2 {
            return None;
        }
        let (mut places, mut asks) = (Vec::with_capacity(leases.len()), None);
        for (place, lease) in leases.enumerate() {
            places.push((cluster(lease.server()), lease.pid()));
            if place == waits {
                asks = Some((Arc::clone(lease.server()), Arc::clone(lease.mapping())));
            }
        }
        let at = places.get(waits)?.clone();
        Some(Self { since, places, at, asks: asks? })
    }
}

struct Party {
    stand: Stand,
    verdict: Arc<Notify>,
}

/// Those who have waited long, of one fleet.
#[derive(Default)]
pub(crate) struct Waits {
    parties: Mutex<BTreeMap<u64, Party>>,
    next: AtomicU64,
    is_watched: AtomicBool,
}

/// Somebody waits, until this is dropped.
struct Entered {
    fleet: Arc<Fleet>,
    id: u64,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.fleet.waits().parties.lock().remove(&self.id);
    }
}

/// Resolves when a transaction is to end so that others can go on: 40P01. Dropped when what it waits for has come.
pub async fn broken(fleet: Arc<Fleet>, stand: Stand) -> Error {
    tokio::time::sleep(PATIENCE).await;
    let verdict = Arc::new(Notify::new());
    let waits = fleet.waits();
    let id = waits.next.fetch_add(1, Ordering::Relaxed);
    waits.parties.lock().insert(id, Party { stand, verdict: Arc::clone(&verdict) });
    let _entered = Entered { fleet: Arc::clone(&fleet), id };
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
    let mut connections: BTreeMap<Cluster, Backend> = BTreeMap::new();
    loop {
        let asks: BTreeMap<Cluster, (Arc<Server>, Arc<Mapping>)> = {
            let parties = waits.parties.lock();
            parties.values().map(|party| (party.stand.at.0.clone(), party.stand.asks.clone())).collect()
        };
        if asks.is_empty() {
            waits.is_watched.store(false, Ordering::SeqCst);
            // Somebody may have entered meanwhile, who has seen that somebody watches.
            let is_alone = waits.parties.lock().is_empty();
            if is_alone || waits.is_watched.swap(true, Ordering::SeqCst) {
                return;
            }
            continue;
        }
        let mut edges: Vec<(Process, i32)> = Vec::new();
        for (cluster, (server, mapping)) in asks {
            let asked = async {
                let mut backend = match connections.remove(&cluster) {
                    Some(backend) => backend,
                    None => Backend::connect(&server, &mapping, &Settings::default(), fleet.limits()).await?,
                };
                let found = rows(&mut backend, EDGES, &[INT4, INT4]).await?;
                Ok::<_, Error>((backend, found))
            };
            match in_time(asked).await {
                Ok((backend, found)) => {
                    let pairs = found.iter().filter_map(|row| Some(((cluster.clone(), row.int4(0)?), row.int4(1)?)));
                    edges.extend(pairs);
                    connections.insert(cluster, backend);
                }
                Err(error) => tracing::debug!(%error, server = server.name, "locks cannot be looked at"),
            }
        }
        let verdict = {
            let parties = waits.parties.lock();
            let stands: BTreeMap<u64, &Stand> = parties.iter().map(|(id, party)| (*id, &party.stand)).collect();
            cycle(&stands, &edges).and_then(|cycle| {
                // The one that has done least.
                let youngest = cycle.into_iter().max_by_key(|id| stands.get(id).map(|stand| stand.since))?;
                Some(Arc::clone(&parties.get(&youngest)?.verdict))
            })
        };
        if let Some(verdict) = verdict {
            tracing::info!("a deadlock of transactions on several shards is broken");
            verdict.notify_one();
        }
        tokio::time::sleep(PERIOD).await;
    }
}

async fn in_time<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let late = || Error::new(ErrorCode::ConnectionFailure, "no answer in time");
    tokio::time::timeout(ANSWER, work).await.unwrap_or_else(|_| Err(late()))
}

/// Some who wait for each other, on more than one cluster or for themselves: what no cluster sees.
fn cycle(stands: &BTreeMap<u64, &Stand>, edges: &[(Process, i32)]) -> Option<Vec<u64>> {
    let mut owners: BTreeMap<&Process, u64> = BTreeMap::new();
    for (id, stand) in stands {
        owners.extend(stand.places.iter().map(|place| (place, *id)));
    }
    let mut blocking: BTreeMap<&Process, Vec<i32>> = BTreeMap::new();
    for (blocked, by) in edges {
        blocking.entry(blocked).or_default().push(*by);
    }
    let mut waits: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for (id, stand) in stands {
        let mut seen: BTreeSet<i32> = BTreeSet::from([stand.at.1]);
        let mut next = vec![stand.at.clone()];
        while let Some(process) = next.pop() {
            for by in blocking.get(&process).into_iter().flatten() {
                if !seen.insert(*by) {
                    continue;
                }
                let by = (stand.at.0.clone(), *by);
                match owners.get(&by) {
                    Some(owner) if owner == id => return Some(vec![*id]),
                    Some(owner) => {
                        waits.entry(*id).or_default().insert(*owner);
                    }
                    // Somebody else's: what he waits for on that cluster counts.
                    None => next.push(by),
                }
            }
        }
    }
    let mut search = Search { stands, waits: &waits, path: Vec::new(), steps: 0 };
    stands.keys().find_map(|root| search.from(*root, *root))
}

/// Looks for a cycle through one of those who wait and others that come after it in order.
struct Search<'a> {
    stands: &'a BTreeMap<u64, &'a Stand>,
    waits: &'a BTreeMap<u64, BTreeSet<u64>>,
    path: Vec<u64>,
    steps: usize,
}

impl Search<'_> {
    fn from(&mut self, root: u64, id: u64) -> Option<Vec<u64>> {
        self.path.push(id);
        for next in self.waits.get(&id).into_iter().flatten().copied() {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                break;
            }
            if next == root && self.is_spread() {
                return Some(std::mem::take(&mut self.path));
            }
            if next > root
                && !self.path.contains(&next)
                && let Some(found) = self.from(root, next)
            {
                return Some(found);
            }
        }
        self.path.pop();
        None
    }

    /// Whether those on the path wait on more than one cluster.
    fn is_spread(&self) -> bool {
        let mut places = self.path.iter().filter_map(|id| self.stands.get(id)).map(|stand| &stand.at.0);
        let first = places.next();
        places.any(|place| Some(place) != first)
    }
}

#[cfg(test)]
mod tests {
    use ashlar_base::clock;

    use super::*;
    use crate::server::{GivenOption, Secret};

    fn on(port: u16) -> Cluster {
        ("h".to_owned(), port)
    }

    /// On the clusters of these ports, with the process of that number on each, waiting on the first.
    fn stand(pid: i32, ports: &[u16]) -> Stand {
        let option = |name: &str| GivenOption { name: name.to_owned(), value: Some(Secret::new("h")) };
        let server = Arc::new(Server::new("s", &[option("host"), option("dbname")]).unwrap());
        let mapping = Arc::new(Mapping::new("s", None, "u", &[]).unwrap());
        let places = ports.iter().map(|port| (on(*port), pid)).collect();
        Stand { since: clock::monotonic(), places, at: (on(ports[0]), pid), asks: (server, mapping) }
    }

    fn check(stands: &[(i32, &[u16])], edges: &[(u16, i32, i32)], expected: Option<&[u64]>) {
        let stands: Vec<Stand> = stands.iter().map(|(pid, ports)| stand(*pid, ports)).collect();
        let by_id = stands.iter().enumerate().map(|(id, stand)| (id as u64, stand)).collect();
        let edges: Vec<(Process, i32)> = edges.iter().map(|(port, blocked, by)| ((on(*port), *blocked), *by)).collect();
        assert_eq!(cycle(&by_id, &edges).as_deref(), expected, "{edges:?}");
    }

    #[test]
    fn cycles_over_clusters_are_found() {
        check(&[(10, &[0, 1]), (20, &[1, 0])], &[(0, 10, 20), (1, 20, 10)], Some(&[0, 1]));
        // One waits, the other works.
        check(&[(10, &[0, 1]), (20, &[1, 0])], &[(0, 10, 20)], None);
        // Numbers of another cluster are others.
        check(&[(10, &[0, 1]), (20, &[2, 3])], &[(0, 10, 20), (2, 20, 10)], None);
        // Three, and one that only waits for them.
        let four: &[(i32, &[u16])] = &[(5, &[0, 1]), (10, &[0, 2]), (20, &[1, 0]), (30, &[2, 1])];
        check(four, &[(0, 5, 10), (0, 10, 20), (1, 20, 30), (2, 30, 10)], Some(&[1, 2, 3]));
        // Through somebody who is on one shard only, or of another program.
        check(&[(10, &[0, 1]), (20, &[1, 0])], &[(0, 10, 7), (0, 7, 8), (0, 8, 20), (1, 20, 10)], Some(&[0, 1]));
        // What a cluster sees itself, it breaks itself.
        check(&[(10, &[0, 1]), (20, &[0, 1])], &[(0, 10, 20), (0, 20, 10)], None);
        // Two connections of one transaction, on one cluster under two names.
        let mut both = stand(10, &[0]);
        both.places.push((on(0), 11));
        let by_id = BTreeMap::from([(0, &both)]);
        assert_eq!(cycle(&by_id, &[((on(0), 10), 11)]), Some(vec![0]));
    }

    #[test]
    fn a_search_has_an_end() {
        // Everybody waits for everybody, on one cluster: no cycle counts, and there are very many.
        let ports: &[u16] = &[0, 1];
        let stands: Vec<(i32, &[u16])> = (0..40).map(|pid| (pid, ports)).collect();
        let edges: Vec<(u16, i32, i32)> = (0..40).flat_map(|a| (0..40).map(move |b| (0, a, b))).collect();
        check(&stands, &edges, None);
    }
}
