//! The threads of the server: one that accepts, one for HTTP, and the door threads, each a runtime of its own.
//!
//! ```text
//! accept ──round robin, bounded channel──▶ door 0: current-thread runtime, its connections for life
//!                                       └▶ door n: ...
//! http   ──▶ /metrics, /healthz, /readyz
//! ```
//!
//! Started by the commands `serve` and `demo`. Knows no protocol and no SQL.

use std::convert::Infallible;
use std::fs::File;
use std::io::Read as _;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context as _;
use ashlar_base::config::Config;
use ashlar_base::net;
use ashlar_base::scope::{self, Name};
use ashlar_query::sharded::declared;
use ashlar_query::{AdmissionConfig, Engine, EngineConfig, SpillConfig};
use ashlar_shard::backend::Limits;
use ashlar_shard::catalog::ShardCatalog;
use ashlar_shard::fleet::Fleet;
use ashlar_shard::health::HealthConfig;
use ashlar_shard::pool::PoolConfig;
use ashlar_shard::two_phase::Recovery;
use ashlar_shard::workers::Workers;
use ashlar_store::{CompactorHandle, OtherWaits, Store, StoreConfig};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::runtime::{LocalOptions, LocalRuntime, Runtime};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tracing::{Instrument, info_span};

use crate::door::http::{self, Pages};
use crate::door::meters::Meters;
use crate::door::seats::{Entry, Seats};
use crate::door::{self, ACCEPT_RETRY, Context, Door, FAREWELL};
use crate::session::advisory::AdvisoryLocks;
use crate::session::channels::Channels;
use crate::session::keys::KeyService;
use crate::session::{SessionRegistry, Shared};
use crate::shard_memory;
use crate::shutdown::{self, Phase, Stop, Stopper};

/// Accepted connections that may wait for one door thread; more wait in the kernel's queue.
const HANDOVER_MAX: usize = 64;

/// Large commits that may run beside one door thread at once; others wait, each in its connection.
const COMMITS_MAX: usize = 4;

/// What a file's mode allows others than its owner.
const OF_OTHERS: u32 = 0o077;

/// The value in the configuration that means: lease a worker number.
const LEASED: u16 = 1024;

static ACCEPT: Name = Name::new("acceptor");
static HAND_OVER: Name = Name::new("door threads' queues");
static PG_CONNECTION: Name = Name::new("connection pg");
static RESP_CONNECTION: Name = Name::new("connection resp");

/// The addresses of the doors, with the ports that were actually taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The PostgreSQL door.
    pub pg: SocketAddr,
    /// The RESP door.
    pub resp: SocketAddr,
    /// The HTTP door.
    pub http: SocketAddr,
}

/// A running server.
pub struct Server {
    addresses: Addresses,
    shared: Arc<Shared>,
    compactor: CompactorHandle,
    stopper: Arc<Stopper>,
    loaded: Arc<AtomicBool>,
    grace: Duration,
    acceptor: JoinHandle<()>,
    http: JoinHandle<()>,
    doors: Vec<JoinHandle<()>>,
}

/// An accepted connection on its way to its door thread.
struct Arrival {
    door: Door,
    stream: std::net::TcpStream,
    context: Context,
    entry: Entry,
}

/// Opens the doors, then starts the threads behind them. With `loaded` false `/readyz` answers 503 until [`Server::set_loaded`].
pub fn start(config: Config, recorder: PrometheusHandle, loaded: bool) -> anyhow::Result<Server> {
    let pg = listen("PostgreSQL", config.server.pg_address)?;
    let resp = listen("RESP", config.server.resp_address)?;
    let web = listen("HTTP", config.server.http_address)?;
    let addresses = Addresses { pg: pg.local_addr()?, resp: resp.local_addr()?, http: web.local_addr()? };
    let grace = Duration::from_millis(config.server.shutdown_grace_ms);
    let (cores, connections_max) = (config.server.cores, config.server.connections_max);
    let http_seats = Seats::new(config.server.http_connections_max);

    let (shared, compactor) = engine(config).context("cannot start the engine")?;
    let keys = KeyService::new(Arc::clone(&shared)).context("cannot open the table of keys")?;
    let (stopper, stop) = shutdown::channel();
    let loaded = Arc::new(AtomicBool::new(loaded));
    let seats = [Seats::new(connections_max), Seats::new(connections_max)];

    let mut doors = Vec::new();
    let mut queues = Vec::new();
    for number in 0..thread_count(cores) {
        let (sender, receiver) = mpsc::channel(HANDOVER_MAX);
        queues.push(sender);
        let (shared, stop) = (Arc::clone(&shared), stop.clone());
        let serve = move |runtime: LocalRuntime| serve_thread(&runtime, &shared, receiver, stop);
        doors.push(spawn_door(format!("ashlar-door-{number}"), serve)?);
    }
    let acceptor = {
        let (shared, stop, seats) = (Arc::clone(&shared), stop.clone(), seats.clone());
        spawn("ashlar-accept".to_owned(), move |runtime| {
            let [pg_seats, resp_seats] = seats;
            let context = |door, seats| Context {
                shared: Arc::clone(&shared),
                keys: Arc::clone(&keys),
                id: 0,
                stop: stop.clone(),
                meters: Meters::new(door),
                seats,
            };
            let arrivals = Arrivals { queues, next: 0, next_id: 1 };
            let accepted = accept_all(
                [(Door::Pg, pg, context(Door::Pg, pg_seats)), (Door::Resp, resp, context(Door::Resp, resp_seats))],
                arrivals,
                stop.clone(),
            );
            runtime.block_on(scope::task(&ACCEPT, accepted));
        })?
    };
    let http = {
        let [pg_seats, resp_seats] = seats;
        let pages = Pages {
            shared: Arc::clone(&shared),
            recorder,
            seats: vec![(Door::Pg.name(), pg_seats), (Door::Resp.name(), resp_seats)],
            own_seats: http_seats,
            loaded: Arc::clone(&loaded),
            stop,
        };
        spawn("ashlar-http".to_owned(), move |runtime| {
            let served = runtime.block_on(async { http::serve(net::adopt(web)?, pages).await });
            if let Err(error) = served {
                tracing::error!(%error, "the HTTP door failed");
            }
        })?
    };
    tracing::info!(pg = %addresses.pg, resp = %addresses.resp, http = %addresses.http, "listening");
    Ok(Server { addresses, shared, compactor, stopper: Arc::new(stopper), loaded, grace, acceptor, http, doors })
}

impl Server {
    /// The addresses of the doors.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Makes `/readyz` answer that the data is loaded.
    pub fn set_loaded(&self) {
        self.loaded.store(true, Ordering::Release);
    }

    /// A handle that can hurry a stop that is under way.
    pub fn stopper(&self) -> Arc<Stopper> {
        Arc::clone(&self.stopper)
    }

    /// Stops: no new connections, idle sessions are closed, running statements get the grace time, then all threads end.
    ///
    /// Must not be called in an async runtime: it blocks, and it drops the engine's runtimes.
    pub fn stop(self) -> anyhow::Result<()> {
        tracing::info!(grace_ms = self.grace.as_millis() as u64, "stopping");
        self.stopper.advance(Phase::Draining);
        let deadline = {
            let stopper = Arc::clone(&self.stopper);
            let grace = self.grace;
            let (finished, wait) = std::sync::mpsc::sync_channel::<()>(0);
            let timer = thread::Builder::new().name("ashlar-grace".to_owned()).spawn(move || {
                // Ends early when the sender is dropped: every door thread has finished.
                if wait.recv_timeout(grace) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                    tracing::info!("the grace time is over");
                    stopper.advance(Phase::Ending);
                }
            })?;
            (finished, timer)
        };
        let mut panicked = self.acceptor.join().is_err();
        for door in self.doors {
            panicked |= door.join().is_err();
        }
        drop(deadline.0);
        panicked |= deadline.1.join().is_err();
        self.stopper.advance(Phase::Ending);
        panicked |= self.http.join().is_err();
        drop(self.compactor);
        drop(self.shared);
        anyhow::ensure!(!panicked, "a thread of the server panicked");
        tracing::info!("stopped");
        Ok(())
    }
}

/// An empty store and the engine over it, and the compactor's thread.
fn engine(config: Config) -> anyhow::Result<(Arc<Shared>, CompactorHandle)> {
    let store = Store::new(StoreConfig {
        partition_count: config.store.partition_count,
        memory_max: config.store.memory_mib_max << 20,
        ..StoreConfig::default()
    });
    // In the configuration 0 says that there is no limit.
    let some = |limit: u64| Some(limit).filter(|limit| *limit > 0);
    let spill_dir = Some(&config.query.spill_dir).filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let engine = Engine::new(
        Arc::clone(&store),
        &EngineConfig {
            memory_bytes_max: usize::try_from(config.query.memory_mib_max << 20).unwrap_or(usize::MAX),
            threads: thread_count(config.query.threads),
            batch_rows: config.query.batch_rows as usize,
            plan_cache_bytes_max: (config.query.plan_cache_mib_max as usize) << 20,
            admission: AdmissionConfig {
                running_max: some(config.query.queries_max.into()).map_or(usize::MAX, |queries| queries as usize),
                waiting_max: config.query.queries_waiting_max as usize,
                wait_max: some(config.query.query_wait_max_ms).map(Duration::from_millis),
            },
            spill: SpillConfig { dir: spill_dir, bytes_max: config.query.spill_mib_max << 20 },
            plain_keys_eviction: config.store.plain_keys_eviction,
        },
    )?;
    let catalog = match &config.shard.data_dir {
        dir if dir.is_empty() => ShardCatalog::absent(),
        dir => ShardCatalog::open(Path::new(dir))?,
    };
    let workers = match config.shard.worker {
        LEASED => Workers::leased(Duration::from_millis(config.shard.worker_lease_ms)),
        number => Workers::configured(number)?,
    };
    let recovery = Recovery {
        period: Duration::from_millis(config.shard.recover_period_ms),
        after: Duration::from_millis(config.shard.recover_after_ms),
    };
    let health = HealthConfig {
        period: Duration::from_millis(config.shard.health_check_ms),
        failures_max: config.shard.failures_max,
        lag_max: some(config.shard.replica_lag_max_ms).map(Duration::from_millis),
    };
    let payer = Some(shard_memory::payer(&store));
    let fleet = Fleet::new(catalog, pool_config(&config), workers, payer, health);
    ashlar_query::sharded::open(&engine, &fleet, recovery)?;
    declare(&engine, &fleet, &config.shard.declarations)?;
    let advisory = Arc::new(AdvisoryLocks::default());
    store.set_other_waits(Arc::clone(&advisory) as Arc<dyn OtherWaits>);
    let compactor = store.start_compactor();
    let shared = Shared {
        engine,
        config: Arc::new(config),
        sessions: SessionRegistry::default(),
        channels: Channels::default(),
        advisory,
    };
    Ok((Arc::new(shared), compactor))
}

/// Creates the servers and sharded tables that a file declares.
fn declare(engine: &Engine, fleet: &Arc<Fleet>, path: &str) -> anyhow::Result<()> {
    if path.is_empty() {
        return Ok(());
    }
    let unreadable = || format!("shard.declarations: {path} cannot be read");
    let mut file = File::open(path).with_context(unreadable)?;
    // Of the file that is read, whatever the name stands for by then.
    let mode = file.metadata().with_context(unreadable)?.permissions().mode();
    let mut text = String::new();
    file.read_to_string(&mut text).with_context(unreadable)?;
    let told = |error: ashlar_base::Error| {
        let fields = error.fields();
        let more: Vec<&str> = [&fields.detail, &fields.hint].into_iter().flatten().map(|text| &**text).collect();
        anyhow::anyhow!("shard.declarations: {path}: {}: {error} {}", error.sqlstate(), more.join(" "))
    };
    // As PostgreSQL takes no password from a file that others can read.
    if mode & OF_OTHERS != 0 && declared::has_password(&text).map_err(told)? {
        anyhow::bail!(
            "shard.declarations: {path} has passwords in it, and others than its owner may use it (mode {:04o}): chmod 600 {path}",
            mode & 0o7777
        );
    }
    declared::declare(engine, fleet, &text).map_err(told)
}

/// The bounds of the pools of connections to shards.
fn pool_config(config: &Config) -> PoolConfig {
    let shard = &config.shard;
    let connections_max = shard.connections_per_server_max as usize;
    // As many as each of the threads would have if all had the same; the least bound is two.
    let of_queries = (connections_max / (thread_count(config.server.cores) + 1)).max(1);
    let milliseconds = |limit: u64| Some(Duration::from_millis(limit)).filter(|limit| !limit.is_zero());
    PoolConfig {
        connections_max,
        connections_of_queries: of_queries,
        connections_min: shard.connections_per_server_min as usize,
        waiting_max: shard.connections_waiting_max as usize,
        wait_max: Duration::from_millis(shard.connection_wait_max_ms),
        idle_max: milliseconds(shard.connection_idle_max_ms),
        life_max: milliseconds(shard.connection_life_max_ms),
        limits: Limits {
            connect: Duration::from_millis(shard.connect_timeout_ms),
            silence: Duration::from_millis(shard.silence_max_ms),
            message_bytes_max: (shard.row_mib_max as usize) << 20,
            statements_max: shard.statements_per_connection_max as usize,
        },
    }
}

fn listen(door: &str, address: SocketAddr) -> anyhow::Result<StdListener> {
    net::listen(address).with_context(|| format!("the {door} door cannot listen on {address}"))
}

fn thread_count(configured: u16) -> usize {
    match configured {
        0 => thread::available_parallelism().map_or(1, usize::from),
        cores => usize::from(cores),
    }
}

fn spawn(name: String, work: impl FnOnce(Runtime) + Send + 'static) -> anyhow::Result<JoinHandle<()>> {
    let runtime = builder().build()?;
    thread::Builder::new().name(name).spawn(move || work(runtime)).context("cannot start a thread")
}

/// The same for a door thread. Its runtime belongs to the thread, which makes it: connections are tasks of the runtime itself then, and not of a
/// set within one of its tasks that is woken and polled for each of them.
fn spawn_door(name: String, work: impl FnOnce(LocalRuntime) + Send + 'static) -> anyhow::Result<JoinHandle<()>> {
    let (sender, made) = std::sync::mpsc::sync_channel::<std::io::Result<()>>(1);
    let begin = move || match builder().build_local(LocalOptions::default()) {
        Ok(runtime) => {
            // Whoever starts the thread waits for this.
            let _ = sender.send(Ok(()));
            work(runtime);
        }
        Err(error) => {
            let _ = sender.send(Err(error));
        }
    };
    let thread = thread::Builder::new().name(name).spawn(begin).context("cannot start a thread")?;
    made.recv().context("a thread has ended before its runtime was there")??;
    Ok(thread)
}

fn builder() -> tokio::runtime::Builder {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().thread_name("commit").max_blocking_threads(COMMITS_MAX);
    builder
}

/// Distributes connections to the door threads.
struct Arrivals {
    queues: Vec<mpsc::Sender<Arrival>>,
    next: usize,
    next_id: u64,
}

impl Arrivals {
    fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// Hands a connection to the next door thread with room in its queue; if there is none, waits for the thread whose turn it is. So a
    /// busy thread delays no connection that another thread could serve.
    async fn deal(&mut self, mut arrival: Arrival) {
        let count = self.queues.len();
        self.next = (self.next + 1) % count;
        for place in 0..count {
            let number = (self.next + place) % count;
            match self.queues[number].try_send(arrival) {
                Ok(()) => {
                    self.next = number;
                    return;
                }
                Err(TrySendError::Full(refused) | TrySendError::Closed(refused)) => arrival = refused,
            }
        }
        if self.queues[self.next].send(arrival).await.is_err() {
            tracing::error!("a door thread is gone");
        }
    }
}

/// Accepts on both doors until the server drains. Dropping the queues then tells the door threads that no more connections come.
async fn accept_all(doors: [(Door, StdListener, Context); 2], mut arrivals: Arrivals, mut stop: Stop) {
    let [(first, first_listener, first_context), (second, second_listener, second_context)] = doors;
    let (first_listener, second_listener) = match (net::adopt(first_listener), net::adopt(second_listener)) {
        (Ok(first), Ok(second)) => (first, second),
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(%error, "cannot accept connections");
            return;
        }
    };
    loop {
        let (door, context, stream) = tokio::select! {
            biased;
            () = stop.reached(Phase::Draining) => return,
            stream = accept(&first_listener) => (first, &first_context, stream),
            stream = accept(&second_listener) => (second, &second_context, stream),
        };
        context.meters.connections.increment(1);
        let Some(entry) = context.seats.enter() else {
            context.meters.refused.increment(1);
            continue;
        };
        let context = Context { id: arrivals.next_id(), ..context.clone() };
        tokio::select! {
            biased;
            () = stop.reached(Phase::Draining) => return,
            () = scope::scope(&HAND_OVER, arrivals.deal(Arrival { door, stream, context, entry })) => {}
        }
    }
}

async fn accept(listener: &TcpListener) -> std::net::TcpStream {
    let mut told = false;
    loop {
        let error = match listener.accept().await.and_then(|(stream, _)| stream.into_std()) {
            Ok(stream) => return stream,
            Err(error) => error,
        };
        // The client's own early departure costs nothing; anything else would spin.
        if error.kind() != std::io::ErrorKind::ConnectionAborted {
            if !told {
                tracing::warn!(%error, "cannot accept connections; trying on");
                told = true;
            }
            tokio::time::sleep(ACCEPT_RETRY).await;
        }
    }
}

/// One door thread: serves connections, and ends when no more come and all have been closed.
fn serve_thread(runtime: &LocalRuntime, shared: &Shared, mut arrivals: mpsc::Receiver<Arrival>, mut stop: Stop) {
    // Nothing is sent on it. Each connection holds a sender until it is closed: when no sender is left, all are.
    let (open, mut closed) = mpsc::channel::<Infallible>(1);
    runtime.block_on(async {
        // Its connections to shards may have to be there before its first client is.
        if let Ok(fleet) = shared.engine.catalog().fleet() {
            fleet.pool_of_thread();
        }
        while let Some(Arrival { door, stream, context, entry }) = arrivals.recv().await {
            let span = info_span!("session", id = context.id, door = door.name());
            let open = open.clone();
            let connection = async move {
                // Held until the connection is closed.
                let _held = (entry, open);
                match tokio::net::TcpStream::from_std(stream) {
                    Ok(stream) => door::serve(door, stream, context).await,
                    Err(error) => tracing::warn!(%error, "cannot take up a connection"),
                }
            };
            let name = match door {
                Door::Pg => &PG_CONNECTION,
                Door::Resp => &RESP_CONNECTION,
            };
            tokio::task::spawn_local(scope::task(name, connection.instrument(span)));
        }
    });
    drop(open);
    // Connections say goodbye by themselves, each at its own pace; after the grace time they get one more moment.
    runtime.block_on(async {
        tokio::select! {
            _ = closed.recv() => {}
            () = async {
                stop.reached(Phase::Ending).await;
                tokio::time::sleep(FAREWELL).await;
            } => {}
        }
    });
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    /// Starts a task when it is dropped, as a connection to a shard does that somebody was in the middle of; says whether that could be.
    struct Unfinished(std::sync::mpsc::SyncSender<bool>);

    impl Drop for Unfinished {
        fn drop(&mut self) {
            let started = tokio::runtime::Handle::try_current().map(|runtime| drop(runtime.spawn(async {})));
            // Where the test has failed nobody listens.
            let _ = self.0.send(started.is_ok());
        }
    }

    #[test]
    fn a_connection_that_panics_ends_no_other_and_one_without_an_end_goes_with_its_thread() {
        let (sender, gone) = std::sync::mpsc::sync_channel(2);
        let serve = move |runtime: LocalRuntime| {
            runtime.block_on(async {
                // What does not leave its thread, as most of a connection.
                let fails = Rc::new(true);
                let failing = Rc::clone(&fails);
                let failed = tokio::task::spawn_local(async move { assert!(!*failing, "a connection that fails") });
                assert!(failed.await.is_err());
                let unfinished = Unfinished(sender);
                tokio::task::spawn_local(async move {
                    let _held = (unfinished, fails);
                    std::future::pending::<()>().await;
                });
                tokio::task::yield_now().await;
            });
        };
        let thread = spawn_door("ashlar-door-test".to_owned(), serve).expect("a thread");
        assert_eq!(gone.recv(), Ok(true));
        assert!(thread.join().is_ok());
        assert!(gone.try_recv().is_err());
    }
}
