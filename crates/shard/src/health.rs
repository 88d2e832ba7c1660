//! Which servers can be reached, which one of a group takes writes, and how far its replicas are behind.
//!
//! ```text
//!   closed ──connecting fails several times──▶ open: refused at once ──a look finds it again──▶ closed
//! ```
//!
//! A *group* is a server and its replicas. What a look has found is kept here; connections are made by the pools. Which member
//! takes writes is not declared but seen: it is not in recovery, and among several of which that is said, the one on the
//! latest timeline, since a promotion begins a new one. A statement pays one atomic load where nothing is wrong.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use ashlar_base::scope::{self, Name};
use ashlar_base::{Error, ErrorCode, Result, clock};
use parking_lot::{Mutex, RwLock};

use crate::backend::{RowReader, Settings};
use crate::catalog::Known;
use crate::fleet::Fleet;
use crate::pool::Lease;
use crate::server::Server;

/// The longest time between two looks at a server that is down, unless looks are rarer anyway.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// Periods for which a server is refused beyond the next look at it: that one finds it again, and no statement has to try.
const GRACE: u32 = 4;

/// Positions of a primary that are remembered.
const SAMPLES_MAX: usize = 4096;

/// `text`
const TEXT: u32 = 25;

/// What a look asks: whether it is in recovery, how far its log is written or replayed, on which timeline it writes.
const LOOK: &str = "SELECT pg_catalog.pg_is_in_recovery()::text, \
                    (CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn() \
                    ELSE pg_catalog.pg_current_wal_flush_lsn() END)::text, \
                    CASE WHEN pg_catalog.pg_is_in_recovery() THEN NULL \
                    ELSE substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8) END";

static LOOKING: Name = Name::new("shard health");

/// How servers are looked at.
#[derive(Clone, Copy, Debug)]
pub struct HealthConfig {
    /// Between two looks.
    pub period: Duration,
    /// Failures to connect in a row after which a server is refused at once.
    pub failures_max: u32,
    /// How far a replica may be behind that is read; `None`: any.
    pub lag_max: Option<Duration>,
}

/// What a look has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    is_standby: bool,
    /// In its log, in bytes.
    position: u64,
    timeline: u32,
}

#[derive(Debug, Default)]
struct Member {
    failures: u32,
    error: String,
    /// Until then it is refused at once.
    open_until: Option<Instant>,
    seen: Option<Seen>,
    /// Where its log was, the oldest first: of what takes writes.
    samples: VecDeque<(Instant, u64)>,
}

/// What is known of a server's health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// `up`, `down`, or `unknown` before the first look.
    pub state: &'static str,
    /// `primary` or `standby`, as it says itself; `None` before the first look.
    pub role: Option<&'static str>,
    /// Whether statements of its group that write go there.
    pub is_acting: bool,
    /// Why it is down.
    pub error: Option<String>,
}

/// See the module.
pub struct Health {
    config: HealthConfig,
    members: Mutex<HashMap<String, Member>>,
    /// Members with failures.
    failing: AtomicUsize,
    /// By declared primary: who takes writes instead.
    acting: RwLock<HashMap<String, String>>,
    /// How many those are.
    moved: AtomicUsize,
    turn: AtomicUsize,
}

impl Health {
    pub(crate) fn new(config: HealthConfig) -> Self {
        Self {
            config,
            members: Mutex::default(),
            failing: AtomicUsize::new(0),
            acting: RwLock::default(),
            moved: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
        }
    }

    /// Who takes writes for a server, where that is another one.
    pub(crate) fn acting(&self, server: &str) -> Option<String> {
        if self.moved.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.acting.read().get(server).cloned()
    }

    /// Whether nothing is wrong anywhere, and nobody stands in for another.
    pub(crate) fn is_quiet(&self) -> bool {
        self.moved.load(Ordering::Relaxed) == 0 && self.failing.load(Ordering::Relaxed) == 0
    }

    /// 57P03 for a server that is down, without asking it.
    pub(crate) fn check(&self, server: &str) -> Result<()> {
        if self.failing.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        self.check_at(server, clock::monotonic())
    }

    fn check_at(&self, server: &str, now: Instant) -> Result<()> {
        let members = self.members.lock();
        let Some(member) = members.get(server) else { return Ok(()) };
        if member.open_until.is_none_or(|until| until <= now) {
            return Ok(());
        }
        let message = format!("shard \"{server}\" is down, and is not asked now");
        Err(Error::new(ErrorCode::CannotConnectNow, message)
            .with_detail(format!("The last attempt failed: {}", member.error))
            .with_context(format!("shard {server}")))
    }

    /// An attempt to connect has failed.
    pub(crate) fn failed(&self, server: &str, error: &Error) {
        self.failed_at(server, error, clock::monotonic());
    }

    fn failed_at(&self, server: &str, error: &Error, now: Instant) {
        let mut members = self.members.lock();
        let member = members.entry(server.to_owned()).or_default();
        if member.failures == 0 {
            self.failing.fetch_add(1, Ordering::Relaxed);
        }
        member.failures = member.failures.saturating_add(1);
        member.error = error.message().to_owned();
        if let Some(beyond) = member.failures.checked_sub(self.config.failures_max) {
            if member.open_until.is_none() {
                tracing::info!(server, error = member.error, "a shard is down: it is refused until it is found again");
            }
            let most = BACKOFF_MAX.max(self.config.period);
            let wait = self.config.period.saturating_mul(2u32.saturating_pow(beyond.min(16)));
            member.open_until = Some(now + wait.min(most) + GRACE * self.config.period);
        }
    }

    /// It could be connected to.
    pub(crate) fn succeeded(&self, server: &str) {
        if self.failing.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut members = self.members.lock();
        if let Some(member) = members.get_mut(server)
            && member.failures > 0
        {
            self.failing.fetch_sub(1, Ordering::Relaxed);
            if member.open_until.take().is_some() {
                tracing::info!(server, "a shard is up again");
            }
            member.failures = 0;
        }
    }

    fn saw(&self, server: &str, seen: Seen, now: Instant) {
        let mut members = self.members.lock();
        let member = members.entry(server.to_owned()).or_default();
        member.seen = Some(seen);
        if seen.is_standby {
            member.samples.clear();
            return;
        }
        if member.samples.len() >= SAMPLES_MAX {
            member.samples.pop_front();
        }
        member.samples.push_back((now, seen.position));
        // One that is older than what may be behind is enough.
        if let Some(lag_max) = self.config.lag_max {
            while member.samples.get(1).is_some_and(|(at, _)| now.saturating_duration_since(*at) >= lag_max) {
                member.samples.pop_front();
            }
        }
    }

    /// Decides who takes writes in each group.
    fn settle(&self, known: &Known) {
        let mut next: HashMap<String, String> = HashMap::new();
        {
            let members = self.members.lock();
            let timeline = |name: &str| {
                let seen = members.get(name)?.seen.filter(|seen| !seen.is_standby)?;
                Some(seen.timeline)
            };
            for primary in known.servers.values().filter(|server| known.has_replicas(&server.name)) {
                let own = timeline(&primary.name);
                let others = known.replicas_of(&primary.name);
                let found = others.filter_map(|replica| Some((timeline(&replica.name)?, &replica.name))).max();
                if let Some((later, replica)) = found
                    && own.is_none_or(|own| later > own)
                {
                    next.insert(primary.name.clone(), replica.clone());
                }
            }
        }
        let mut acting = self.acting.write();
        if *acting != next {
            for (server, member) in next.iter().filter(|(server, member)| acting.get(*server) != Some(*member)) {
                tracing::info!(server, member, "a replica was promoted: writes of its shard go there");
            }
            self.moved.store(next.len(), Ordering::Relaxed);
            *acting = next;
        }
    }

    /// A replica of a server that may be read: one that is up, and not too far behind. Each in turn.
    pub(crate) fn replica_for(&self, known: &Known, server: &str) -> Option<String> {
        self.replica_for_at(known, server, clock::monotonic())
    }

    fn replica_for_at(&self, known: &Known, server: &str, now: Instant) -> Option<String> {
        let acting = self.acting(server);
        let writer = acting.as_deref().unwrap_or(server);
        let members = self.members.lock();
        let needed = self.position_needed(members.get(writer), now);
        let is_fit = |name: &str| {
            members.get(name).is_some_and(|member| {
                member.failures == 0
                    && member
                        .seen
                        .is_some_and(|seen| seen.is_standby && needed.is_none_or(|needed| seen.position >= needed))
            })
        };
        let own = std::iter::once(server).filter(|name| *name != writer);
        let others = known.replicas_of(server).map(|replica| replica.name.as_str());
        let fit: Vec<&str> = own.chain(others).filter(|name| is_fit(name)).collect();
        if fit.is_empty() {
            return None;
        }
        Some(fit[self.turn.fetch_add(1, Ordering::Relaxed) % fit.len()].to_owned())
    }

    /// What a replica must have replayed to be read now; `None`: nothing is known, or asked for.
    fn position_needed(&self, writer: Option<&Member>, now: Instant) -> Option<u64> {
        let lag_max = self.config.lag_max?;
        let samples = &writer?.samples;
        let old = samples.iter().rev().find(|(at, _)| now.saturating_duration_since(*at) >= lag_max);
        old.or_else(|| samples.front()).map(|(_, position)| *position)
    }

    /// What is known of a server.
    pub fn report(&self, server: &Server) -> Report {
        let group = server.primary.as_deref().unwrap_or(&server.name);
        let acting = self.acting(group);
        let is_acting = acting.as_deref().unwrap_or(group) == server.name;
        let members = self.members.lock();
        let Some(member) = members.get(&server.name) else {
            return Report { state: "unknown", role: None, is_acting, error: None };
        };
        let state = match (member.failures, member.seen) {
            (0, Some(_)) => "up",
            (0, None) => "unknown",
            _ => "down",
        };
        let role = member.seen.map(|seen| if seen.is_standby { "standby" } else { "primary" });
        Report { state, role, is_acting, error: (member.failures > 0).then(|| member.error.clone()) }
    }

    /// Whether a look is due: at members of groups always, at others while they fail.
    fn is_due(&self, known: &Known, server: &Server, now: Instant) -> bool {
        let members = self.members.lock();
        let member = members.get(&server.name);
        let fails = member.is_some_and(|member| member.failures > 0);
        let rests = member
            .and_then(|member| member.open_until)
            .is_some_and(|until| until.saturating_duration_since(now) > GRACE * self.config.period);
        (fails || server.primary.is_some() || known.has_replicas(&server.name)) && !rests
    }
}

/// Looks at servers, now and from time to time. Ends with the fleet; runs on the query pool.
pub async fn watch(fleet: Weak<Fleet>) {
    loop {
        let Some(now) = fleet.upgrade() else { return };
        let period = now.health().config.period;
        scope::scope(&LOOKING, look_at_all(&now)).await;
        drop(now);
        tokio::time::sleep(period).await;
    }
}

async fn look_at_all(fleet: &Arc<Fleet>) {
    let (known, now) = (fleet.catalog().known(), clock::monotonic());
    let mut looks = tokio::task::JoinSet::new();
    for server in known.servers.values().filter(|server| fleet.health().is_due(&known, server, now)) {
        let (fleet, known, server) = (Arc::clone(fleet), Arc::clone(&known), Arc::clone(server));
        looks.spawn(scope::task(&LOOKING, async move { look(&fleet, &known, &server).await }));
    }
    let mut is_any = false;
    while looks.join_next().await.is_some() {
        is_any = true;
    }
    if is_any {
        fleet.health().settle(&known);
    }
}

async fn look(fleet: &Arc<Fleet>, known: &Arc<Known>, server: &Arc<Server>) {
    let Some(mapping) = known.any_mapping(server) else { return };
    let lent = fleet.lend_to_look(server, mapping, &Settings::default()).await;
    let found = match lent {
        // One that says nothing must not keep the others from being looked at.
        Ok(mut lease) => {
            let seen = tokio::time::timeout(fleet.limits().connect, seen(&mut lease)).await;
            seen.unwrap_or_else(|_| {
                let message = format!("shard \"{}\" did not answer in time", server.name);
                Err(Error::new(ErrorCode::ConnectionFailure, message))
            })
        }
        Err(error) => Err(error),
    };
    match found {
        Ok(seen) => {
            fleet.health().succeeded(&server.name);
            fleet.health().saw(&server.name, seen, clock::monotonic());
        }
        Err(error) if is_away(&error) => fleet.health().failed(&server.name, &error),
        // It is there: that it lets nobody in, or that no connection of ours is free, says nothing else of it.
        Err(error) => tracing::debug!(server = server.name, %error, "a shard could not be looked at"),
    }
}

/// Whether an error says that a server is not there, or not yet, or not any more.
pub(crate) fn is_away(error: &Error) -> bool {
    matches!(error.sqlstate(), "08001" | "08006" | "57P01" | "57P02" | "57P03")
}

async fn seen(lease: &mut Lease) -> Result<Seen> {
    lease.queue_scan(LOOK);
    lease.flush().await?;
    let (mut found, mut failure) = (None, None);
    while let Some(range) = lease.next_row(&[TEXT, TEXT, TEXT], &mut failure).await? {
        let row = RowReader::new(lease.row(&range));
        let row = row.and_then(|mut row| Ok((row.value()?, row.value()?, row.value()?)));
        found = row.ok().map(|(standby, position, timeline)| Seen {
            is_standby: standby == Some(b"true".as_slice()),
            position: position.and_then(lsn).unwrap_or(0),
            timeline: timeline.and_then(hexadecimal).unwrap_or(0),
        });
        lease.consume_row(&range);
    }
    found.ok_or_else(|| Error::new(ErrorCode::ProtocolViolation, "a shard did not say how it is"))
}

/// `16/B374D848`
fn lsn(text: &[u8]) -> Option<u64> {
    let (high, low) = std::str::from_utf8(text).ok()?.split_once('/')?;
    Some((u64::from_str_radix(high, 16).ok()? << 32) | u64::from_str_radix(low, 16).ok()?)
}

fn hexadecimal(text: &[u8]) -> Option<u32> {
    u32::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
}

#[cfg(test)]
mod tests;
