//! The fleet: what is known of the shards, and the pools of connections to them.
//!
//! One for a server. The session asks it for a connection, DDL asks it to do the same on several shards or on none, and
//! the catalog of SQL asks it which tables there are.

mod warm;
mod ways;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{self, ThreadId};
use std::time::Instant;

use ashlar_base::{Error, ErrorCode, Result, clock};
use parking_lot::Mutex;

pub use self::ways::Ways;
use crate::backend::{Ended, Limits, Nothing, Payer, Settings};
use crate::catalog::{Known, ShardCatalog};
use crate::deadlock::{self, Stand, Waits};
use crate::health::{Health, HealthConfig, is_away};
use crate::pool::{
    Bounds, ConnectionStatistics, Held, Keep, Lease, LineStatistics, Pool, PoolConfig, Purpose, ServerStatistics,
};
use crate::routes::Routes;
use crate::rules::Rule;
use crate::server::{Mapping, Server};
use crate::two_phase::{self, InDoubt, Transactions};
use crate::workers::{Keys, Workers};

/// What the pool of the query pool is called.
const OF_QUERIES: &str = "queries";

/// What the one is called that looks at servers have.
const OF_LOOKS: &str = "looks";

/// Where a connection comes from: the pool of whoever asks, and what his session keeps.
pub type Origin<'a> = (&'a Arc<Pool>, Option<&'a Arc<Keep>>);

/// See the module.
pub struct Fleet {
    itself: Weak<Self>,
    catalog: ShardCatalog,
    config: PoolConfig,
    payer: Option<Arc<dyn Payer>>,
    /// What the pools may have together.
    bounds: Arc<Bounds>,
    /// By the thread of doors that uses it.
    pools: Mutex<HashMap<ThreadId, Arc<Pool>>>,
    /// That of the query pool.
    of_queries: OnceLock<Arc<Pool>>,
    /// That of looks at servers which find none of the query pool's.
    of_looks: OnceLock<Arc<Pool>>,
    workers: Workers,
    routes: Routes,
    health: Health,
    altering: tokio::sync::Mutex<()>,
    /// Transactions on several servers.
    pub(crate) transactions: Transactions,
    snapshots: tokio::sync::Mutex<()>,
    waits: Waits,
}

impl Fleet {
    /// A fleet without connections.
    ///
    /// `payer`: who pays for what connections hold beyond what each may keep.
    pub fn new(
        catalog: ShardCatalog,
        config: PoolConfig,
        workers: Workers,
        payer: Option<Arc<dyn Payer>>,
        health: HealthConfig,
    ) -> Arc<Self> {
        let transactions = Transactions::default();
        Arc::new_cyclic(|itself| Self {
            itself: Weak::clone(itself),
            catalog,
            config,
            payer,
            bounds: Arc::default(),
            workers,
            routes: Routes::default(),
            health: Health::new(health),
            altering: tokio::sync::Mutex::new(()),
            pools: Mutex::default(),
            of_queries: OnceLock::new(),
            of_looks: OnceLock::new(),
            transactions,
            snapshots: tokio::sync::Mutex::new(()),
            waits: Waits::default(),
        })
    }

    /// Where the number is from that keys are made with.
    pub(crate) fn workers(&self) -> &Workers {
        &self.workers
    }

    /// Makes keys for rows of a table with this rule.
    ///
    /// # Errors
    /// 42704 where its first server is not known any more.
    pub fn keys(self: &Arc<Self>, rule: &Rule) -> Result<Keys> {
        Keys::new(self, rule)
    }

    /// What routes have cost.
    pub fn routes(&self) -> &Routes {
        &self.routes
    }

    /// Held by whoever changes what a table is: on the shards, on disk and in memory.
    pub fn altering(&self) -> &tokio::sync::Mutex<()> {
        &self.altering
    }

    /// What is known.
    pub fn catalog(&self) -> &ShardCatalog {
        &self.catalog
    }

    /// The pool of this thread, which runs one runtime and will until it ends. As soon as it has been asked for it has connections, where
    /// some shall be there before anybody needs them.
    pub fn pool_of_thread(&self) -> Arc<Pool> {
        let mut pools = self.pools.lock();
        let thread = thread::current();
        let make = || self.make_pool(thread.name().unwrap_or_default(), Purpose::Sessions);
        Arc::clone(pools.entry(thread.id()).or_insert_with(make))
    }

    /// The pool of the query pool: only for what runs there. See [`Self::pool_of_thread`].
    pub fn pool_of_queries(&self) -> &Arc<Pool> {
        self.of_queries.get_or_init(|| self.make_pool(OF_QUERIES, Purpose::Queries))
    }

    /// The pool of looks, which has the connection that all others leave: only for what runs on the query pool.
    fn pool_of_looks(&self) -> &Arc<Pool> {
        self.of_looks.get_or_init(|| {
            let config =
                PoolConfig { connections_max: 1, connections_of_queries: 1, connections_min: 0, ..self.config };
            Pool::new(OF_LOOKS, Purpose::Queries, config, self.payer.clone(), Arc::default())
        })
    }

    /// Lends a connection for a look at a server, on the query pool: one of queries where that is there at once, else the one that these
    /// leave.
    ///
    /// # Errors
    /// As [`Pool::lend`].
    pub(crate) async fn lend_to_look(
        &self,
        server: &Arc<Server>,
        mapping: &Arc<Mapping>,
        settings: &Settings,
    ) -> Result<Lease> {
        let queries = self.pool_of_queries();
        if self.config.left() == 0 {
            return queries.lend(server, mapping, settings).await;
        }
        match queries.lend_now(server, mapping, settings).await? {
            Some(lease) => Ok(lease),
            None => self.pool_of_looks().lend(server, mapping, settings).await,
        }
    }

    fn make_pool(&self, name: &str, purpose: Purpose) -> Arc<Pool> {
        let pool = Pool::new(name, purpose, self.config, self.payer.clone(), Arc::clone(&self.bounds));
        if self.config.connections_min > 0 {
            warm::start(&self.itself, &pool);
        }
        pool
    }

    /// How many of the connections to a server that shall always be there a thread has.
    fn warm_share(&self) -> usize {
        self.config.connections_min.div_ceil(self.pools.lock().len().max(1))
    }

    /// What is known of the servers' health.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Lends a connection to a server, or to the replica of it that takes writes now, as this user logs in there.
    ///
    /// # Errors
    /// 42704 where there is no such server or no mapping; 57P03 where it is down; as [`Pool::lend`]; 08006 where what the session kept
    /// is lost.
    pub async fn lend(&self, from: Origin<'_>, server: &str, role: &str, settings: &Settings) -> Result<Lease> {
        let known = self.catalog.known();
        let acting = self.health.acting(server);
        self.lend_member(&known, from, acting.as_deref().unwrap_or(server), role, settings).await
    }

    /// Lends a connection to a replica of a server, where one is up and not too far behind; else as [`Self::lend`].
    ///
    /// # Errors
    /// As [`Self::lend`].
    pub async fn lend_for_reading(
        &self,
        from: Origin<'_>,
        server: &str,
        role: &str,
        settings: &Settings,
    ) -> Result<Lease> {
        let known = self.catalog.known();
        if let Some(replica) = self.health.replica_for(&known, server) {
            match self.lend_member(&known, from, &replica, role, settings).await {
                Err(error) if is_away(&error) => {}
                lent => return lent,
            }
        }
        self.lend(from, server, role, settings).await
    }

    /// Lends a connection to a server at once, where one is idle, as it is wanted, and nothing is known against it; else `None`:
    /// [`Self::lend`] has to. `now`: what the clock says.
    pub fn lend_idle(
        &self,
        pool: &Arc<Pool>,
        (server, ways): (&Arc<str>, &mut Ways),
        role: &str,
        settings: &Settings,
        now: Instant,
    ) -> Option<Lease> {
        if !self.health.is_quiet() {
            return None;
        }
        let (server, mapping, line) = ways.to(&self.catalog, server, role)?;
        pool.lend_idle(server, mapping, settings, now, line)
    }

    async fn lend_member(
        &self,
        known: &Known,
        (pool, keep): Origin<'_>,
        member: &str,
        role: &str,
        settings: &Settings,
    ) -> Result<Lease> {
        let server = known.server(member)?;
        let mapping = known.mapping_of_member(server, role)?;
        self.health.check(member)?;
        let session = match keep {
            None => None,
            // Where it has lost what it kept, that says nothing of the server as it is now.
            Some(keep) => match keep.lend(pool, server, mapping, settings).await? {
                Held::Connection(lease) => return Ok(lease),
                Held::Nothing(ticket) => Some(ticket),
            },
        };
        let lent = pool.lend(server, mapping, settings).await;
        match &lent {
            Ok(_) => self.health.succeeded(member),
            Err(error) if is_away(error) => self.health.failed(member, error),
            Err(_) => {}
        }
        lent.map(|lease| lease.kept_by(session))
    }

    /// Connections to a server are not what they were: those that are idle are closed, the others when they come back.
    pub fn forget(&self, server: &str) {
        for pool in self.all_pools() {
            pool.forget(server);
        }
    }

    /// What each pool does, by server.
    pub fn statistics(&self) -> Vec<LineStatistics> {
        self.all_pools().iter().flat_map(|pool| pool.statistics()).collect()
    }

    /// What is done with each server that is known, in the order of their names.
    pub fn server_statistics(&self) -> Vec<ServerStatistics> {
        let known = self.catalog.known();
        let empty = |server: &Arc<Server>| {
            let state = self.health.report(server).state;
            ServerStatistics { server: server.name.clone(), state, ..ServerStatistics::default() }
        };
        let mut all: BTreeMap<&str, ServerStatistics> =
            known.servers.values().map(|server| (server.name.as_str(), empty(server))).collect();
        for line in self.statistics() {
            if let Some(server) = all.get_mut(line.server.as_str()) {
                server.add(&line);
            }
        }
        for one in self.in_doubt().iter() {
            if let Some(server) = all.get_mut(one.server.as_str()) {
                server.in_doubt += 1;
            }
        }
        all.into_values().collect()
    }

    /// All connections.
    pub fn connections(&self) -> Vec<ConnectionStatistics> {
        self.all_pools().iter().flat_map(|pool| pool.connections()).collect()
    }

    fn all_pools(&self) -> Vec<Arc<Pool>> {
        self.pools.lock().values().chain(self.of_queries.get()).chain(self.of_looks.get()).cloned().collect()
    }

    /// Of each connection.
    pub(crate) fn limits(&self) -> Limits {
        self.config.limits
    }

    /// Transactions on several shards that have waited long.
    pub(crate) fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Held by whoever takes snapshots of several shards.
    pub(crate) fn snapshots(&self) -> &tokio::sync::Mutex<()> {
        &self.snapshots
    }

    /// What was prepared on shards and not finished when they were last looked at.
    pub fn in_doubt(&self) -> Arc<[InDoubt]> {
        self.transactions.in_doubt()
    }

    /// Runs statements on several shards, in a transaction that commits on all of them or on none: (server, statements). Returns the
    /// servers where it will be committed as soon as they can be reached. Runs on the query pool. Where it is dropped before its end,
    /// nobody hears whether it has committed: who wants it stopped says so by `stop`.
    ///
    /// # Errors
    /// What the first shard that fails says, or `stop`; then nothing has happened anywhere. 08007 where that is not known.
    pub async fn on_all(
        self: &Arc<Self>,
        role: &str,
        work: &[(String, String)],
        stop: impl Future<Output = Error> + Send + 'static,
    ) -> Result<Vec<String>> {
        // In a box: it goes on to the commit.
        let mut stop = Box::pin(stop);
        let begun = tokio::select! {
            biased;
            begun = self.begin_on_all(role, work) => begun,
            why = &mut stop => Err(why),
        };
        self.commit_on_all(begun?, stop).await
    }

    /// Commits what has been begun on several shards, as [`Self::on_all`] does.
    ///
    /// # Errors
    /// As there.
    pub async fn commit_on_all(
        self: &Arc<Self>,
        mut leases: Vec<Lease>,
        stop: impl Future<Output = Error> + Send + 'static,
    ) -> Result<Vec<String>> {
        if leases.len() > 1 {
            return two_phase::commit(self, leases, stop).await.map(|committed| committed.left);
        }
        let Some(lease) = leases.pop() else { return Ok(Vec::new()) };
        commit_alone(lease, stop).await.map(|()| Vec::new())
    }

    /// Runs statements on several shards, in a transaction on each that is still open: the connections, in their order.
    ///
    /// # Errors
    /// What the first shard that fails says; 40P01 where it waits for somebody who waits for it. Then all of them are rolled back.
    pub async fn begin_on_all(self: &Arc<Self>, role: &str, work: &[(String, String)]) -> Result<Vec<Lease>> {
        let (pool, since) = (self.pool_of_queries(), clock::monotonic());
        let mut leases: Vec<Lease> = Vec::new();
        for (server, sql) in work {
            let begun = async {
                let mut lease = self.lend((pool, None), server, role, &Settings::default()).await?;
                lease.queue_query("BEGIN");
                lease.queue_query(sql);
                // Those that have begun end with their leases, on every way out of here.
                leases.push(lease);
                let stand = Stand::new(since, leases.iter());
                let Some(lease) = leases.last_mut() else { return Err(Error::internal("a connection that is gone")) };
                match stand {
                    None => lease.answer(&mut Nothing).await,
                    // In a box: nearly no change needs room for it.
                    Some(stand) => {
                        let deadlock = Box::pin(deadlock::broken(Arc::clone(self), stand));
                        lease.answer_unless(&mut Nothing, deadlock).await
                    }
                }
            };
            let begun = begun.await;
            if let Err(error) = begun {
                leases.into_iter().for_each(Lease::abandon);
                return Err(error);
            }
        }
        Ok(leases)
    }
}

/// Commits what has been done on one server.
async fn commit_alone(mut lease: Lease, stop: impl Future<Output = Error>) -> Result<()> {
    lease.queue_query("COMMIT");
    match lease.answer_unless(&mut Nothing, stop).await {
        Ok(Ended::Complete(tag)) if tag == "COMMIT" => Ok(()),
        Ok(_) => {
            let message = format!("shard \"{}\" has rolled the transaction back", lease.server().name);
            Err(Error::new(ErrorCode::FailedTransaction, message))
        }
        Err(error) if lease.is_broken() => {
            let message = format!("the connection to shard \"{}\" was lost while it committed", lease.server().name);
            Err(Error::new(ErrorCode::TransactionResolutionUnknown, message).with_detail(error.message()))
        }
        Err(error) => Err(error),
    }
}
