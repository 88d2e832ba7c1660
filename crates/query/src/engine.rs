//! The engine: store, catalog, planner state, the pool that queries run on, and the cache of statements.

use std::collections::HashMap;
use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};

use ashlar_base::scope::{self, Name};
use ashlar_base::value::text::Zone;
use ashlar_base::{Error, Eviction, Result};
use ashlar_functions::error::from_datafusion;
use ashlar_functions::rules::{
    Characters, CheckedArithmetic, Conditions, JsonbOrder, NarrowIntegerLiterals, NumericAggregates, PgOperators,
    Placement, SettleFunctions, TextCasts, UnionFields,
};
use ashlar_functions::times::StatementTime;
use ashlar_operators::{HashAggregates, HashJoins, NullExtensions, Widenings};
use ashlar_store::{ReadView, Store};
use datafusion::execution::context::SessionContext;
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::execution::{FunctionRegistry, TaskContext};
use datafusion::optimizer::analyzer::Analyzer;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::SessionConfig;
use parking_lot::Mutex;

use crate::admission::{Admission, AdmissionConfig, AdmissionStatistics};
use crate::catalog::Catalog;
use crate::expressions::PgTypePlanner;
use crate::fenced_limits;
use crate::guarded_projections::{self, GuardedProjections};
use crate::held_filters;
use crate::lookup_join::LookupJoins;
use crate::plan_cache::PlanCache;
use crate::resources::StatementResources;
use crate::sharded::collation::WithRanks;
use crate::sharded::{Asking, ShardAggregates, ShardFirstRows};
use crate::spill::{SpillConfig, SpillDir, SpillStatistics};
use crate::whole_orders::WHOLE_ORDERS;
use crate::{operator_tasks, priority, system_tables};

/// The configuration of the engine.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Bytes that all running queries may hold together.
    pub memory_bytes_max: usize,
    /// Threads of the query pool, and streams of each plan.
    pub threads: usize,
    /// Rows of a batch.
    pub batch_rows: usize,
    /// Bytes that cached plans may take.
    pub plan_cache_bytes_max: usize,
    /// Temporary files of queries that do not fit in memory.
    pub spill: SpillConfig,
    /// How many queries may run at once, and how many may wait.
    pub admission: AdmissionConfig,
    /// Which plain keys of the RESP door make room for others, until somebody changes that.
    pub plain_keys_eviction: Eviction,
}

/// Stack of a thread that plans or runs queries, in bytes: deep expressions are walked recursively. Pages are taken only as they are
/// used.
const STACK_BYTES: usize = 256 << 20;

/// How many memory consumers an error names when memory runs out.
const CONSUMERS_NAMED: usize = 3;

/// All streams of a sort together reserve a fourth of a query's memory for merging.
const SORT_SHARE: usize = 4;

/// And no stream more than this.
const SORT_RESERVED_MAX: usize = 10 << 20;

/// What each stream of a sort reserves for merging where a query may hold as much as all together: the engine would reserve 10 MiB, for fifty
/// rows as well. A merge that needs more asks for it then.
const SORT_RESERVED: usize = 2 << 20;

/// Engines kept beside the first one. Sessions in the same time zone share an engine and its plans.
const OTHERS_MAX: usize = 32;

static QUERY: Name = Name::new("query");
static POOL: Name = Name::new("query pool");
static BESIDE: Name = Name::new("beside the query pool");

/// One server's SQL engine, for sessions in one time zone: functions, casts and constants of a plan depend on it.
pub struct Engine {
    store: Arc<Store>,
    catalog: Arc<Catalog>,
    state: SessionState,
    pool: Arc<Pool>,
    /// Temporary files, shared by all sessions.
    spill: Arc<SpillDir>,
    /// The queue of waiting queries, shared by all sessions.
    admission: Arc<Admission>,
    /// Shared by the engines of all sessions, because each plan records its time zone.
    cache: Arc<PlanCache>,
    zone: Zone,
    operators: Operators,
    config: EngineConfig,
    /// The engines for other time zones and operators. Only the first engine has them.
    others: Mutex<Vec<Arc<Engine>>>,
}

/// Which implementations of operators plans are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operators {
    /// The operator that aggregates groups.
    pub groups: Whose,
    /// The operator that joins by equal keys.
    pub joins: Whose,
}

/// An implementation of an operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whose {
    /// Ours, where it applies.
    #[default]
    Own,
    /// DataFusion's, for comparison.
    Stock,
}

/// The runtime of the query pool.
struct Pool(Option<tokio::runtime::Runtime>);

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Engine {
    /// An engine over a store.
    ///
    /// # Errors
    /// Where the pool's threads cannot be started; 58030 where there is no directory for temporary files.
    pub fn new(store: Arc<Store>, config: &EngineConfig) -> Result<Arc<Self>> {
        let catalog = Arc::new(Catalog::new(&store, config.plain_keys_eviction)?);
        operator_tasks::name();
        let pool = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(config.threads.max(1))
            .thread_name("query")
            .thread_stack_size(STACK_BYTES)
            // Of those that plan too.
            .on_thread_start(priority::yield_to_doors)
            .enable_all()
            .build()
            .map_err(|error| Error::internal(format!("the query pool cannot start: {error}")))?;
        let memory = TrackConsumersPool::new(
            FairSpillPool::new(config.memory_bytes_max),
            NonZeroUsize::new(CONSUMERS_NAMED).unwrap_or(NonZeroUsize::MIN),
        );
        let spill = Arc::new(SpillDir::open(&config.spill)?);
        let disk = DiskManagerBuilder::default().with_temp_file_factory(spill.factory());
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(memory)).with_disk_manager_builder(disk);
        let runtime = runtime.build_arc().map_err(from_datafusion)?;
        let state = session_state(config, runtime, Zone::Utc, Operators::default())?;
        let engine = Arc::new(Self {
            store,
            catalog,
            state,
            pool: Arc::new(Pool(Some(pool))),
            spill,
            admission: Admission::new(config.admission),
            cache: Arc::new(PlanCache::new(config.plan_cache_bytes_max)),
            zone: Zone::Utc,
            operators: Operators::default(),
            config: config.clone(),
            others: Mutex::new(Vec::new()),
        });
        drop(engine.spawn(crate::analyze::refresh(Arc::downgrade(&engine)))?);
        Ok(engine)
    }

    /// The engine for sessions in a time zone, with these operators. It shares store, catalog, threads and memory with this one, which is
    /// the first, and plans by itself.
    ///
    /// # Errors
    /// Errors of DataFusion's registries.
    pub fn of_session(self: &Arc<Self>, zone: Zone, operators: Operators) -> Result<Arc<Self>> {
        if (zone, operators) == (self.zone, self.operators) {
            return Ok(Arc::clone(self));
        }
        let mut others = self.others.lock();
        if let Some(known) = others.iter().position(|engine| (engine.zone, engine.operators) == (zone, operators)) {
            // The last used is the last.
            let engine = others.remove(known);
            others.push(Arc::clone(&engine));
            return Ok(engine);
        }
        let engine = Arc::new(Self {
            store: Arc::clone(&self.store),
            catalog: Arc::clone(&self.catalog),
            state: session_state(&self.config, Arc::clone(self.state.runtime_env()), zone, operators)?,
            pool: Arc::clone(&self.pool),
            spill: Arc::clone(&self.spill),
            admission: Arc::clone(&self.admission),
            cache: Arc::clone(&self.cache),
            zone,
            operators,
            config: self.config.clone(),
            others: Mutex::new(Vec::new()),
        });
        if others.len() >= OTHERS_MAX {
            others.remove(0);
        }
        others.push(Arc::clone(&engine));
        Ok(engine)
    }

    /// The time zone of its sessions.
    pub fn zone(&self) -> Zone {
        self.zone
    }

    /// The rows.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The catalog.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// DataFusion's state, with which plans are made.
    pub fn state(&self) -> &SessionState {
        &self.state
    }

    /// The cache of plans.
    pub fn cache(&self) -> &PlanCache {
        &self.cache
    }

    /// How much the temporary files of running queries take.
    pub fn spill_statistics(&self) -> SpillStatistics {
        self.spill.statistics()
    }

    /// How many queries run, wait and were refused.
    pub fn admission_statistics(&self) -> AdmissionStatistics {
        self.admission.statistics()
    }

    /// Runs a future on the query pool.
    ///
    /// # Errors
    /// XX000 where the future panicked.
    pub async fn on_pool<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Result<T> {
        let handle = self.spawn(future)?;
        scope::scope(&POOL, handle).await.map_err(|error| Error::internal(format!("a query task failed: {error}")))
    }

    /// Runs planning: on a thread beside the pool, so that it never waits behind running queries.
    ///
    /// # Errors
    /// XX000 where the work panicked.
    pub async fn beside_pool<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let pool = self.pool.0.as_ref().ok_or_else(|| Error::internal("the query pool is gone"))?;
        let task = pool.handle().spawn_blocking(scope::work(&BESIDE, work));
        scope::scope(&BESIDE, task).await.map_err(|error| Error::internal(format!("planning failed: {error}")))
    }

    /// Starts a future on the query pool.
    ///
    /// # Errors
    /// XX000 while the engine shuts down.
    pub fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<tokio::task::JoinHandle<T>> {
        let pool = self.pool.0.as_ref().ok_or_else(|| Error::internal("the query pool is gone"))?;
        Ok(pool.handle().spawn(scope::task(&QUERY, future)))
    }

    /// Runs a future to its end on the query pool's runtime. Blocks, so it is for threads that serve no clients.
    ///
    /// # Errors
    /// XX000 while the engine shuts down.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> Result<T> {
        let pool = self.pool.0.as_ref().ok_or_else(|| Error::internal("the query pool is gone"))?;
        Ok(pool.handle().block_on(scope::scope(&QUERY, future)))
    }

    /// The resources of a statement that began at this time. It may hold `memory_max` bytes; `None`: as many as all queries together.
    pub fn resources(&self, time: StatementTime, memory_max: Option<usize>) -> StatementResources {
        StatementResources::new(time, self.state.runtime_env(), memory_max, &self.admission)
    }

    /// The context in which a plan runs: the view of the store travels with it as an extension.
    pub fn task_context(&self, view: Arc<ReadView>, resources: &StatementResources) -> Arc<TaskContext> {
        let (role, barrier, moment) =
            (Arc::clone(&resources.role), resources.barrier.clone(), resources.moment.clone());
        let (reads_replicas, turn) = (resources.reads_replicas, Arc::clone(resources.turn()));
        let (own, readers, carried) = (OnceLock::new(), OnceLock::new(), resources.carried.clone());
        let asking = Arc::new(Asking { role, barrier, moment, reads_replicas, carried, own, readers, turn });
        let mut config = self.state.config().clone().with_extension(view).with_extension(asking);
        if let Some(max) = resources.memory_max() {
            let reserved = max / (SORT_SHARE * self.config.threads.max(1));
            config.options_mut().execution.sort_spill_reservation_bytes = reserved.min(SORT_RESERVED_MAX);
        }
        // Plans hold their functions: the maps of names would be copied for nothing, three hundred entries a statement.
        let session = self.state.session_id().to_owned();
        let none = (HashMap::new(), HashMap::new(), HashMap::new(), HashMap::new());
        Arc::new(TaskContext::new(
            None,
            session,
            config,
            none.0,
            none.1,
            none.2,
            none.3,
            Arc::clone(resources.runtime()),
        ))
    }
}

fn session_state(
    config: &EngineConfig,
    runtime: Arc<RuntimeEnv>,
    zone: Zone,
    operators: Operators,
) -> Result<SessionState> {
    let mut session = SessionConfig::new()
        .with_target_partitions(config.threads.max(1))
        .with_batch_size(config.batch_rows.max(1))
        .with_information_schema(false)
        .with_create_default_catalog_and_schema(false);
    let options = session.options_mut();
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.map_string_types_to_utf8view = false;
    options.execution.parquet.schema_force_view_types = false;
    // `select::physical` compares what answers need, for all plans.
    options.execution.skip_physical_aggregate_schema_check = true;
    options.execution.time_zone = Some("+00:00".to_owned());
    options.optimizer.expand_views_at_output = false;
    if operators.joins == Whose::Own && operators.groups == Whose::Own {
        options.execution.sort_spill_reservation_bytes = SORT_RESERVED;
    }
    let mut analyzer = Analyzer::new();
    analyzer.rules.insert(0, Arc::new(NarrowIntegerLiterals));
    // Unions and aggregates first: what stands above them is settled by the types that they give.
    analyzer.rules.insert(1, Arc::new(Characters));
    analyzer.rules.insert(2, Arc::new(NumericAggregates));
    analyzer.rules.insert(3, Arc::new(Placement));
    analyzer.rules.insert(4, Arc::new(SettleFunctions { zone }));
    analyzer.rules.insert(5, Arc::new(Conditions));
    analyzer.rules.insert(6, Arc::new(PgOperators));
    analyzer.rules.insert(7, Arc::new(JsonbOrder));
    analyzer.rules.push(Arc::new(CheckedArithmetic));
    analyzer.rules.push(Arc::new(TextCasts { zone }));
    analyzer.rules.push(Arc::new(UnionFields));
    let mut physical = PhysicalOptimizer::new().rules;
    // When it is known which side of a join is the smaller one, and before streams are divided for it.
    let place = physical.iter().position(|rule| rule.name() == "join_selection").map_or(0, |place| place + 1);
    physical.insert(place, Arc::new(LookupJoins { joins: operators.joins }));
    // When it is known which aggregations have a limit, and before streams are divided for the engine's.
    let limited = physical.iter().position(|rule| rule.name() == "LimitedDistinctAggregation");
    let place = limited.map_or(place + 1, |limited| limited + 1);
    // What shards make of their rows is made by nobody else.
    let mut ours: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> =
        vec![Arc::new(ShardAggregates), Arc::new(ShardFirstRows)];
    // Joins first: aggregations of the engine's say by their inputs whether rows come in the order of their groups.
    if operators.joins == Whose::Own {
        ours.push(Arc::new(HashJoins));
    }
    if operators.groups == Whose::Own {
        ours.push(Arc::new(HashAggregates));
    }
    ours.push(Arc::new(NullExtensions));
    for rule in ours.into_iter().rev() {
        physical.insert(place, rule);
    }
    if let Some(place) = physical.iter().position(|rule| rule.name() == fenced_limits::PLACES_SORTS) {
        physical.insert(place + 1, Arc::new(fenced_limits::UNFENCE_LIMITS));
        physical.insert(place, Arc::new(fenced_limits::FENCE_LIMITS));
    }
    // Before bounds are found, and when no sort changes any more.
    if let Some(place) = physical.iter().position(|rule| rule.name() == held_filters::PUSHES_BOUNDS) {
        physical.insert(place, Arc::new(WHOLE_ORDERS));
    }
    let holds = [
        (held_filters::PUSHES_FILTERS, held_filters::HOLD_FILTERS),
        (held_filters::PUSHES_BOUNDS, held_filters::HOLD_BOUNDS),
    ];
    for (name, hold) in holds {
        if let Some(place) = physical.iter().position(|rule| rule.name() == name) {
            physical.insert(place + 1, Arc::new(held_filters::RELEASE_FILTERS));
            physical.insert(place, Arc::new(hold));
        }
    }
    for rule in physical.iter_mut().filter(|rule| rule.name() == guarded_projections::STOCK) {
        *rule = Arc::new(GuardedProjections::default());
    }
    // When stages are divided.
    physical.push(Arc::new(Widenings));
    let state = SessionStateBuilder::new()
        .with_config(session)
        .with_optimizer_rules(ashlar_functions::inference::optimizer_rules())
        .with_physical_optimizer_rules(physical)
        .with_query_planner(Arc::new(WithRanks))
        .with_runtime_env(runtime)
        // The first planner that knows an operator has it, so ours stands before the engine's.
        .with_expr_planners(ashlar_functions::expr_planners(zone))
        .with_default_features()
        .with_type_planner(Arc::new(PgTypePlanner))
        .with_analyzer_rules(analyzer.rules)
        .build();
    // Functions are registered through a context: it is the registry that crates of functions know.
    let context = SessionContext::new_with_state(state);
    let mut state = context.state();
    for function in system_tables::functions::all() {
        state.register_udf(function).map_err(from_datafusion)?;
    }
    ashlar_functions::register(&mut state, zone).map_err(from_datafusion)?;
    Ok(state)
}
