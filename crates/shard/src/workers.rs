//! Numbers of workers that make keys (`key_generator = 'snowflake'`): leased, by rows of a table that one of the shards keeps,
//! `ashlar.workers` there.
//!
//! ```text
//! number 3   ── process a, until 12:00:00 ──▶|── process b, until 12:03:20 ──▶      a key has a number, and a time of its lease
//! ```
//!
//! A lease is of a number for a span of time by the clock of the server that keeps it; the spans of one number do not overlap, since
//! whoever takes it over begins where its row says that the other has ended. A key has the number, and a time of the span, never one
//! behind its end. So no two keys are the same, whichever processes make them, before and after a restart, and whatever clocks of
//! other machines say: these only decide how soon a lease that is not renewed is of no use any more.
//!
//! The server is that of a table's first shard: whoever inserts into the table knows its rule, where this stands, and calls the server
//! what he likes. So all who make keys for a table ask one database, which has to be up for a process's first key and once a
//! lease. A number that is configured is not leased.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use ashlar_base::scope::{self, Name};
use ashlar_base::{Error, ErrorCode, Result, Value, clock};
use parking_lot::{Mutex, RwLock};
use postgres_protocol::escape::escape_literal;
use tokio::sync::watch;

use crate::backend::{Backend, Settings};
use crate::fleet::Fleet;
use crate::health::is_away;
use crate::own_tables;
use crate::rows::{INT8, garbled, rows};
use crate::rules::generators::{Generators, Ticket, Tickets, WORKERS};
use crate::rules::{Generator, Rule};
use crate::server::Server;

/// How long a server may take to say which number is leased.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long it waits for somebody else who takes a number.
const LOCK_TIMEOUT_MS: u64 = 2000;

/// So many times within its length a lease is renewed.
const RENEWALS: u32 = 3;

/// Between two attempts at that, where the first has failed.
const AGAIN: Duration = Duration::from_millis(250);

/// Attempts at a free number: whoever is faster leaves fewer of them.
const ATTEMPTS_MAX: usize = 50;

/// The table.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS ashlar.workers (\
                     worker integer PRIMARY KEY, owner text NOT NULL, until timestamptz NOT NULL)";

/// What a lease has said is not forgotten by its server.
const DURABLE: &str = "SELECT pg_catalog.set_config('synchronous_commit', 'on', false) \
                       WHERE pg_catalog.current_setting('synchronous_commit') IN ('off', 'local')";

/// The server's time, the same in all of a statement. In whole milliseconds, as keys have them.
const NOW: &str = "pg_catalog.date_trunc('milliseconds', pg_catalog.statement_timestamp())";

/// What a server says where the table is not there, and where somebody else was faster.
const UNDEFINED_TABLE: &str = "42P01";
const SERIALIZATION_FAILURE: &str = "40001";
const FORBIDDEN: &str = "42501";

static LEASE: Name = Name::new("worker numbers");

/// See the module.
pub struct Workers {
    generators: Generators,
    number: Number,
}

/// Where this process has its number from.
enum Number {
    Configured(u16),
    Leased {
        length: Duration,
        /// Tells this process from others in rows.
        owner: u64,
        /// By server.
        homes: Mutex<HashMap<String, Arc<Home>>>,
    },
}

impl Workers {
    /// Keys of a number that is configured: it is for whoever does to see to it that nobody else has it.
    ///
    /// # Errors
    /// 22023 for a number that is too large.
    pub fn configured(number: u16) -> Result<Self> {
        if number >= WORKERS {
            return Err(Error::new(
                ErrorCode::InvalidParameterValue,
                format!("worker number {number} must be between 0 and {}", WORKERS - 1),
            ));
        }
        Ok(Self { generators: Generators::new(), number: Number::Configured(number) })
    }

    /// Keys of numbers that are leased for so long, and renewed in time.
    pub fn leased(length: Duration) -> Self {
        let owner = RandomState::new().build_hasher().finish();
        Self { generators: Generators::new(), number: Number::Leased { length, owner, homes: Mutex::default() } }
    }

    /// Where numbers for a table are leased.
    fn home(&self, server: &Arc<Server>) -> Option<Arc<Home>> {
        let Number::Leased { homes, .. } = &self.number else { return None };
        let mut homes = homes.lock();
        if let Some(home) = homes.get(&server.name).filter(|home| home.server == *server) {
            return Some(Arc::clone(home));
        }
        // One of that name that was somewhere else has said nothing of this one.
        let home = Arc::new(Home::new(server));
        homes.insert(server.name.clone(), Arc::clone(&home));
        Some(home)
    }
}

/// Makes the keys of one table.
pub struct Keys {
    fleet: Arc<Fleet>,
    /// `None`: the number is configured.
    home: Option<Arc<Home>>,
}

impl Keys {
    /// # Errors
    /// 42704 where the server of the table's first shard is not known any more.
    pub(crate) fn new(fleet: &Arc<Fleet>, rule: &Rule) -> Result<Self> {
        let known = fleet.catalog().known();
        let home = fleet.workers().home(known.server(rule.home())?);
        Ok(Self { fleet: Arc::clone(fleet), home })
    }

    /// Waits until keys of this generator can be made, for a user who may lease a number.
    ///
    /// # Errors
    /// 55000 where none can be leased.
    pub async fn ready(&self, generator: Generator, role: &Arc<str>) -> Result<()> {
        let Some(home) = self.home.as_ref().filter(|_| generator == Generator::Snowflake) else { return Ok(()) };
        if home.is_held() {
            return Ok(());
        }
        let (mut told, mut is_own) = home.ask(&self.fleet, role);
        loop {
            if home.is_held() {
                return Ok(());
            }
            if told.changed().await.is_err() {
                return Err(Error::internal("nobody leases worker numbers any more"));
            }
            let failure = told.borrow_and_update().clone();
            if let Some(failure) = failure {
                if is_own {
                    return Err(home.refusal(&failure));
                }
                // What another user may not do this one may.
                (told, is_own) = home.ask(&self.fleet, role);
            }
        }
    }

    /// The next key.
    ///
    /// # Errors
    /// 55000 where the lease has ended since [`Self::ready`]; 2200H when the time of snowflakes is over, or has not begun.
    pub fn make(&self, generator: Generator) -> Result<Value> {
        let workers = self.fleet.workers();
        match (generator, &self.home, &workers.number) {
            (Generator::UuidV7, ..) => Ok(workers.generators.uuid()),
            (Generator::Snowflake, Some(home), _) => home.snowflake(),
            (Generator::Snowflake, None, Number::Configured(number)) => workers.generators.snowflake(*number),
            (Generator::Snowflake, None, Number::Leased { .. }) => Err(Error::internal("nobody leases worker numbers")),
        }
    }
}

/// A server that keeps leases, and what is leased there.
struct Home {
    server: Arc<Server>,
    lease: RwLock<Option<Arc<Lease>>>,
    /// Whether a task takes and renews it.
    is_kept: Mutex<bool>,
    /// How the last attempt ended: why it failed. Told while `is_kept` is locked where it is the task's end.
    told: watch::Sender<Option<Error>>,
}

impl Home {
    fn new(server: &Arc<Server>) -> Self {
        let (lease, is_kept, told) = (RwLock::new(None), Mutex::new(false), watch::Sender::new(None));
        Self { server: Arc::clone(server), lease, is_kept, told }
    }

    fn lease(&self) -> Option<Arc<Lease>> {
        self.lease.read().clone()
    }

    fn is_held(&self) -> bool {
        self.lease().is_some_and(|lease| lease.is_held())
    }

    fn snowflake(&self) -> Result<Value> {
        let lease = self.lease();
        let made = lease.as_ref().and_then(|lease| Some((lease.ticket()?, lease.worker)));
        match made {
            Some((ticket, worker)) => ticket.snowflake(worker),
            None => Err(self.refusal(&Error::internal("the lease has ended, and could not be renewed in time"))),
        }
    }

    /// Has a number leased, where nobody does yet: what is returned hears how it ends, and says whether it is leased as this user.
    fn ask(self: &Arc<Self>, fleet: &Arc<Fleet>, role: &Arc<str>) -> (watch::Receiver<Option<Error>>, bool) {
        let mut is_kept = self.is_kept.lock();
        let told = self.told.subscribe();
        let begins = !*is_kept;
        if begins {
            *is_kept = true;
            let (home, fleet, role) = (Arc::clone(self), Arc::downgrade(fleet), Arc::clone(role));
            // In a task of its own: whoever waits for it may go.
            drop(tokio::spawn(scope::task(&LEASE, keep(home, fleet, role))));
        }
        (told, begins)
    }

    /// 55000
    fn refusal(&self, why: &Error) -> Error {
        let message = format!("no worker number can be leased from shard \"{}\" to make keys", self.server.name);
        let hint = why.fields().hint.clone().unwrap_or_else(|| {
            "Try again when that shard can be reached, or set shard.worker, to a number of each server's own."
                .to_owned()
        });
        let error = Error::new(ErrorCode::ObjectNotInPrerequisiteState, message);
        error.with_detail(why.message()).with_hint(hint).with_context(format!("shard {}", self.server.name))
    }
}

/// A number that is this process's for a time.
#[derive(Debug)]
struct Lease {
    worker: u16,
    /// What keys have as their time is below this, in milliseconds since 1970 by the server's clock.
    until: u64,
    /// The server's time when it had just been asked, and the moment here before it was. So its clock is not further than it is
    /// taken to be here.
    began: (u64, Instant),
    /// The same for all leases that renew one.
    tickets: Arc<Tickets>,
}

impl Lease {
    /// The server's time, or a little later.
    fn now(&self) -> u64 {
        let (time, moment) = self.began;
        let since = clock::monotonic().saturating_duration_since(moment).as_millis();
        time.saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
    }

    fn is_held(&self) -> bool {
        self.now() < self.until
    }

    /// A time of the lease that no other key has; `None` where it has ended.
    fn ticket(&self) -> Option<Ticket> {
        let now = self.now();
        if now >= self.until {
            return None;
        }
        let ticket = self.tickets.next(now);
        // Keys run ahead of the clock where they are many.
        (ticket.millis() < self.until).then_some(ticket)
    }
}

/// Takes a number and renews it, until that cannot be done any more.
async fn keep(home: Arc<Home>, fleet: Weak<Fleet>, role: Arc<str>) {
    let mut end = End { home: Arc::clone(&home), why: None };
    loop {
        let attempted = {
            let Some(fleet) = fleet.upgrade() else { return };
            scope::scope(&LEASE, attempt(&home, &fleet, &role)).await
        };
        let wait = match attempted {
            Ok((lease, length)) => {
                *home.lease.write() = Some(Arc::new(lease));
                home.told.send_replace(None);
                length / RENEWALS
            }
            Err(error) if home.is_held() => {
                tracing::debug!(%error, server = home.server.name, "a worker number could not be renewed yet");
                AGAIN
            }
            Err(error) => {
                tracing::debug!(%error, server = home.server.name, "no worker number can be leased");
                end.why = Some(error);
                return;
            }
        };
        // The fleet is not held meanwhile: it may go.
        tokio::time::sleep(wait).await;
    }
}

/// Tells those who wait that a task has ended, and lets the next one who asks begin another one.
struct End {
    home: Arc<Home>,
    why: Option<Error>,
}

impl Drop for End {
    fn drop(&mut self) {
        let mut is_kept = self.home.is_kept.lock();
        *is_kept = false;
        let why = self.why.take().unwrap_or_else(|| Error::internal("the server is about to end"));
        self.home.told.send_replace(Some(why));
    }
}

/// Renews what is leased, or takes another number; and for how long it is leased at a time. On a connection of its own, which waits for
/// no query.
async fn attempt(home: &Home, fleet: &Fleet, role: &str) -> Result<(Lease, Duration)> {
    let Number::Leased { length, owner, .. } = fleet.workers().number else {
        return Err(Error::internal("a configured number is not leased"));
    };
    let known = fleet.catalog().known();
    let name = &home.server.name;
    if *known.server(name)? != home.server {
        let message = format!("server \"{name}\" was changed");
        return Err(Error::new(ErrorCode::ObjectNotInPrerequisiteState, message));
    }
    let acting = fleet.health().acting(name);
    let server = known.server(acting.as_deref().unwrap_or(name))?;
    let mapping = known.mapping_of_member(server, role)?;
    fleet.health().check(&server.name)?;
    let settings = Settings { lock_timeout_ms: LOCK_TIMEOUT_MS, ..Settings::default() };
    let connected = Backend::connect(server, mapping, &settings, fleet.limits()).await;
    match &connected {
        Ok(_) => fleet.health().succeeded(&server.name),
        Err(error) if is_away(error) => fleet.health().failed(&server.name, error),
        Err(_) => {}
    }
    let mut backend = connected?;
    let wish = Wish { owner: format!("{:x}.{owner:x}", fleet.catalog().instance()), length };
    // One that has ended is nothing to renew: another is taken, and the table made where it is gone.
    let held = home.lease().filter(|lease| lease.is_held());
    let leased = tokio::time::timeout(PATIENCE, leased(&mut backend, &wish, held.as_deref())).await;
    let late = || Error::new(ErrorCode::ConnectionFailure, format!("shard \"{name}\" did not answer in time"));
    leased.unwrap_or_else(|_| Err(late())).map(|lease| (lease, length)).map_err(advised)
}

/// Who wants a number, and for how long.
struct Wish {
    owner: String,
    length: Duration,
}

impl Wish {
    /// The end of a lease that begins now, in SQL.
    fn until(&self) -> String {
        format!("{NOW} + interval '{} milliseconds'", self.length.as_millis())
    }
}

async fn leased(backend: &mut Backend, wish: &Wish, held: Option<&Lease>) -> Result<Lease> {
    backend.run(DURABLE).await?;
    if let Some(held) = held
        && let Some(lease) = renewed(backend, wish, held).await?
    {
        return Ok(lease);
    }
    for _ in 0..ATTEMPTS_MAX {
        match taken(backend, wish).await {
            Ok(Some(lease)) => return Ok(lease),
            // Somebody has taken it meanwhile, or all are taken.
            Ok(None) => {}
            Err(error) if error.sqlstate() == SERIALIZATION_FAILURE => {}
            Err(error) if error.sqlstate() == UNDEFINED_TABLE => own_tables::make(backend, TABLE).await?,
            Err(error) => return Err(error),
        }
    }
    Err(Error::new(ErrorCode::ProgramLimitExceeded, format!("all {WORKERS} worker numbers are leased")).with_hint(
        "Leases end by themselves: try again, or have servers lease for a shorter time (shard.worker_lease_ms).",
    ))
}

/// The number that is held, for longer; `None` where it is not held any more. What is behind the end of its lease may be somebody else's.
async fn renewed(backend: &mut Backend, wish: &Wish, held: &Lease) -> Result<Option<Lease>> {
    let sql = format!(
        "UPDATE ashlar.workers SET until = greatest(until, {}) \
         WHERE worker = {} AND owner = {} AND until > {NOW} RETURNING {}",
        wish.until(),
        held.worker,
        escape_literal(&wish.owner),
        returned()
    );
    asked(backend, &sql, &held.tickets).await
}

/// The lowest number that is nobody's, from now on.
async fn taken(backend: &mut Backend, wish: &Wish) -> Result<Option<Lease>> {
    let sql = format!(
        "INSERT INTO ashlar.workers (worker, owner, until) SELECT n, {owner}, {until} \
         FROM pg_catalog.generate_series(0, {last}) AS n \
         WHERE NOT EXISTS (SELECT FROM ashlar.workers AS other WHERE other.worker = n AND other.until > {NOW}) \
         ORDER BY n LIMIT 1 \
         ON CONFLICT (worker) DO UPDATE SET owner = excluded.owner, until = excluded.until WHERE workers.until <= {NOW} \
         RETURNING {returned}",
        owner = escape_literal(&wish.owner),
        until = wish.until(),
        last = WORKERS - 1,
        returned = returned()
    );
    asked(backend, &sql, &Arc::default()).await
}

/// What both say of a lease: its number, the server's time and its end, in milliseconds.
fn returned() -> String {
    let millis = |time: &str| format!("(pg_catalog.date_part('epoch', {time}) * 1000)::pg_catalog.int8");
    format!("worker::pg_catalog.int8, {}, {}", millis(NOW), millis("until"))
}

async fn asked(backend: &mut Backend, sql: &str, tickets: &Arc<Tickets>) -> Result<Option<Lease>> {
    let moment = clock::monotonic();
    let found = rows(backend, sql, &[INT8, INT8, INT8]).await?;
    let Some(row) = found.first() else { return Ok(None) };
    let worker = row.int8(0).and_then(|worker| u16::try_from(worker).ok()).filter(|worker| *worker < WORKERS);
    let time = |at: usize| row.int8(at).and_then(|time| u64::try_from(time).ok());
    match (worker, time(1), time(2)) {
        (Some(worker), Some(now), Some(until)) => {
            Ok(Some(Lease { worker, until, began: (now, moment), tickets: Arc::clone(tickets) }))
        }
        _ => Err(garbled(backend)),
    }
}

/// 42501 with what helps.
fn advised(error: Error) -> Error {
    if error.sqlstate() != FORBIDDEN || error.fields().hint.is_some() {
        return error;
    }
    error.with_hint(
        "Numbers are leased by rows of the table ashlar.workers. GRANT CREATE ON DATABASE to the user of the mapping, or USAGE on that \
         schema and SELECT, INSERT, UPDATE on that table; or set shard.worker, to another number on each server.",
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use std::time::Duration;

    use ashlar_base::clock;

    use super::{Lease, Tickets, Workers};

    /// Milliseconds since 1970 at the beginning of leases.
    const NOW: u64 = 1_764_000_000_000;

    fn lease(worker: u16, until: u64, tickets: &Arc<Tickets>) -> Lease {
        Lease { worker, until, began: (NOW, clock::monotonic()), tickets: Arc::clone(tickets) }
    }

    #[test]
    fn keys_are_of_the_time_of_their_lease() {
        let lease = lease(3, NOW + 60_000, &Arc::default());
        let times: Vec<u64> = (0..100).map(|_| lease.ticket().unwrap().millis()).collect();
        assert!(lease.is_held() && times.is_sorted() && times.iter().all(|time| (NOW..NOW + 60_000).contains(time)));
    }

    #[test]
    fn a_lease_that_has_ended_makes_no_keys() {
        let moment = clock::monotonic().checked_sub(Duration::from_secs(2)).unwrap();
        let tickets = Arc::default();
        let ended = Lease { worker: 3, until: NOW + 2000, began: (NOW, moment), tickets };
        assert!(!ended.is_held() && ended.ticket().is_none());
    }

    #[test]
    fn keys_that_run_ahead_of_the_clock_stop_at_the_end_of_the_lease() {
        let lease = lease(3, NOW + 60_000, &Arc::default());
        // As if very many had been made: the last one is one of the last millisecond.
        while lease.tickets.next(NOW + 59_999).millis() < NOW + 60_000 {}
        assert!(lease.is_held() && lease.ticket().is_none());
    }

    #[test]
    fn a_renewed_lease_goes_on_where_it_was() {
        let tickets = Arc::default();
        let (first, second) = (lease(3, NOW + 60_000, &tickets), lease(3, NOW + 90_000, &tickets));
        let made: BTreeSet<_> =
            (0..5_000).flat_map(|_| [&first, &second].map(|lease| lease.ticket().unwrap())).collect();
        assert_eq!(made.len(), 10_000);
    }

    #[test]
    fn numbers_that_there_are_not_are_not_configured() {
        assert!(Workers::configured(1023).is_ok() && Workers::configured(1024).is_err());
    }
}
