//! The engine: store, catalog, planner state, the pool that queries run on, and the cache of statements.

use std::collections::HashMap;
use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ashlar_base::{Error, Result};
use ashlar_store::{ReadView, Store};
use datafusion::execution::TaskContext;
use datafusion::execution::context::SessionContext;
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::optimizer::analyzer::Analyzer;
use datafusion::prelude::SessionConfig;
use parking_lot::Mutex;

use crate::catalog::Catalog;
use crate::error::from_datafusion;
use crate::expressions::PgTypePlanner;
use crate::functions;
use crate::rules::{
    CheckedArithmetic, Conditions, JsonbOrder, NarrowIntegerLiterals, NumericAggregates, PgOperators, Placement,
    SettleFunctions, TextCasts,
};
use crate::statement::Statement;

/// What the engine is given.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Bytes that all running queries may hold together.
    pub memory_bytes_max: usize,
    /// Threads of the query pool, and streams of a plan.
    pub threads: usize,
    /// Rows of a batch.
    pub batch_rows: usize,
    /// Statement texts whose plans are kept.
    pub plan_cache_entries_max: usize,
}

/// Stack of a thread that plans or runs queries: deep expressions are walked recursively. Taken only as it is used.
const STACK_BYTES: usize = 256 << 20;

/// Consumers named when memory runs out.
const CONSUMERS_NAMED: usize = 3;

/// One server's SQL engine.
pub struct Engine {
    store: Arc<Store>,
    catalog: Catalog,
    state: SessionState,
    pool: Option<tokio::runtime::Runtime>,
    cache: StatementCache,
}

impl Engine {
    /// An engine over a store.
    ///
    /// # Errors
    /// Where the pool's threads cannot be started.
    pub fn new(store: Arc<Store>, config: &EngineConfig) -> Result<Arc<Self>> {
        let catalog = Catalog::new(&store)?;
        let pool = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(config.threads.max(1))
            .thread_name("query")
            .thread_stack_size(STACK_BYTES)
            .enable_all()
            .build()
            .map_err(|error| Error::internal(format!("the query pool cannot start: {error}")))?;
        let state = session_state(config)?;
        Ok(Arc::new(Self {
            store,
            catalog,
            state,
            pool: Some(pool),
            cache: StatementCache::new(config.plan_cache_entries_max),
        }))
    }

    /// The rows.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The names.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// What plans are made with.
    pub fn state(&self) -> &SessionState {
        &self.state
    }

    /// Plans by text.
    pub fn cache(&self) -> &StatementCache {
        &self.cache
    }

    /// Runs a future on the query pool.
    ///
    /// # Errors
    /// XX000 where the future panicked.
    pub async fn on_pool<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Result<T> {
        let handle = self.spawn(future)?;
        handle.await.map_err(|error| Error::internal(format!("a query task failed: {error}")))
    }

    /// Runs planning: on a thread beside the pool, so that it never waits behind running queries.
    ///
    /// # Errors
    /// XX000 where the work panicked.
    pub async fn beside_pool<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let pool = self.pool.as_ref().ok_or_else(|| Error::internal("the query pool is gone"))?;
        let task = pool.handle().spawn_blocking(work);
        task.await.map_err(|error| Error::internal(format!("planning failed: {error}")))
    }

    /// Starts a future on the query pool.
    ///
    /// # Errors
    /// XX000 while the engine shuts down.
    pub fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<tokio::task::JoinHandle<T>> {
        let pool = self.pool.as_ref().ok_or_else(|| Error::internal("the query pool is gone"))?;
        Ok(pool.handle().spawn(future))
    }

    /// What a plan runs with: the view of the store travels as an extension.
    pub fn task_context(&self, view: Arc<ReadView>) -> Arc<TaskContext> {
        let config = self.state.config().clone().with_extension(view);
        let context = TaskContext::from(&self.state).with_session_config(config);
        Arc::new(context)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.shutdown_background();
        }
    }
}

fn session_state(config: &EngineConfig) -> Result<SessionState> {
    let mut session = SessionConfig::new()
        .with_target_partitions(config.threads.max(1))
        .with_batch_size(config.batch_rows.max(1))
        .with_information_schema(false)
        .with_create_default_catalog_and_schema(false);
    let options = session.options_mut();
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.map_string_types_to_utf8view = false;
    options.execution.parquet.schema_force_view_types = false;
    options.execution.time_zone = Some("+00:00".to_owned());
    options.optimizer.expand_views_at_output = false;
    let memory = TrackConsumersPool::new(
        FairSpillPool::new(config.memory_bytes_max),
        NonZeroUsize::new(CONSUMERS_NAMED).unwrap_or(NonZeroUsize::MIN),
    );
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(memory)).build_arc().map_err(from_datafusion)?;
    let mut analyzer = Analyzer::new();
    analyzer.rules.insert(0, Arc::new(NarrowIntegerLiterals));
    // Unions and aggregates first: what stands above them is settled by the types that they give.
    analyzer.rules.insert(1, Arc::new(Placement));
    analyzer.rules.insert(2, Arc::new(NumericAggregates));
    analyzer.rules.insert(3, Arc::new(SettleFunctions));
    analyzer.rules.insert(4, Arc::new(Conditions));
    analyzer.rules.insert(5, Arc::new(PgOperators));
    analyzer.rules.insert(6, Arc::new(JsonbOrder));
    analyzer.rules.push(Arc::new(CheckedArithmetic));
    analyzer.rules.push(Arc::new(TextCasts));
    let state = SessionStateBuilder::new()
        .with_config(session)
        .with_runtime_env(runtime)
        // The first planner that knows an operator has it, so ours stands before the engine's.
        .with_expr_planners(vec![Arc::new(functions::planner::PgPlanner)])
        .with_default_features()
        .with_type_planner(Arc::new(PgTypePlanner))
        .with_analyzer_rules(analyzer.rules)
        .build();
    // Functions are registered through a context: it is the registry that crates of functions know.
    let context = SessionContext::new_with_state(state);
    let mut state = context.state();
    functions::register(&mut state).map_err(from_datafusion)?;
    Ok(state)
}

/// Prepared statements by text: bounded, least recently used out first.
pub struct StatementCache {
    entries: Mutex<HashMap<String, Cached>>,
    entries_max: usize,
    clock: AtomicU64,
}

struct Cached {
    statements: Arc<[Arc<Statement>]>,
    used: u64,
}

impl StatementCache {
    fn new(entries_max: usize) -> Self {
        Self { entries: Mutex::new(HashMap::new()), entries_max: entries_max.max(1), clock: AtomicU64::new(0) }
    }

    /// The statements of a text, where they were planned against this picture of the catalog.
    pub fn get(&self, key: &str, epoch: u64) -> Option<Arc<[Arc<Statement>]>> {
        let mut entries = self.entries.lock();
        let cached = entries.get_mut(key)?;
        if cached.statements.iter().any(|statement| statement.epoch != epoch) {
            entries.remove(key);
            return None;
        }
        cached.used = self.clock.fetch_add(1, Ordering::Relaxed);
        Some(Arc::clone(&cached.statements))
    }

    /// Keeps the statements of a text.
    pub fn put(&self, key: String, statements: Arc<[Arc<Statement>]>) {
        let mut entries = self.entries.lock();
        if entries.len() >= self.entries_max && !entries.contains_key(&key) {
            let oldest = entries.iter().min_by_key(|(_, cached)| cached.used).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest {
                entries.remove(&oldest);
            }
        }
        let used = self.clock.fetch_add(1, Ordering::Relaxed);
        entries.insert(key, Cached { statements, used });
    }

    /// How many texts are kept.
    pub fn len(&self) -> usize {
        self.entries.lock().len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
