//! Scans of a sharded table: one stream for each shard, whose rows arrive in binary form and are turned into Arrow
//! batches here.
//!
//! A stream borrows a connection when its first batch is requested. If the stream is dropped before its end, the
//! connection is closed and the query on the shard is cancelled. While it waits for a connection or for its shard, the
//! query gives up its turn (`turn`). Memory for a batch is charged before it is built. What only the connections of the
//! statement's transaction can see has already been read by `transaction_reads`. If a join above already knows which keys can match,
//! the shard is asked for those only (`keys`).

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use ashlar_base::scope::{Name, scope};
use ashlar_base::{ColumnDef, Error, SqlType};
use ashlar_functions::error::external;
use ashlar_shard::backend::{Carried, ReadType, Settings};
use ashlar_shard::pool::Lease;
use ashlar_shard::rules::ShardId;
use ashlar_shard::snapshot::{Moment, Readers};
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::filter_pushdown::{ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation};
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::Stream;

use super::ShardedTable;
use super::batches::Building;
use super::keys::{self, Division, Sought};
use super::transaction_reads::{Own, OwnRows};
use crate::resources::Barrier;
use crate::scan_filters;
use crate::turn::{AtWork, Turn};

static SCAN: Name = Name::new("shard scan");

/// The session's user, who is mapped to a user on other servers. Travels with the task.
#[derive(Clone, Debug)]
pub struct Asking {
    /// The user of the session.
    pub role: Arc<str>,
    /// What he cannot read now.
    pub barrier: Barrier,
    /// The moment that he sees.
    pub moment: Option<Arc<Moment>>,
    /// Whether he reads replicas.
    pub reads_replicas: bool,
    /// What he gives shards of settings: policies of theirs may ask for it.
    pub carried: Carried,
    /// What was read over the connections of his transaction, before the plan runs.
    pub(crate) own: OnceLock<Arc<Own>>,
    /// The right to read while other statements run, as long as anybody may.
    pub(crate) readers: OnceLock<Arc<Readers>>,
    /// The statement's turn among the queries.
    pub(crate) turn: Arc<Turn>,
}

impl Asking {
    /// 0A000 where a server cannot be read now.
    fn check(&self, server: &str) -> ashlar_base::Result<()> {
        match &self.barrier {
            Barrier::None => Ok(()),
            Barrier::Written(written) if written.iter().all(|written| **written != *server) => Ok(()),
            Barrier::Written(_) => Err(Error::unsupported(format!(
                "this query over several shards in a transaction that has written to shard \"{server}\" is not supported"
            ))
            .with_hint(match self.moment.as_ref().filter(|moment| !moment.has_own()) {
                Some(_) => "COMMIT first, or SET sharded_reads = 'each'.",
                None => "COMMIT first, or ask for the rows of one shard only.",
            })),
            Barrier::Snapshot => Err(Error::unsupported(
                "a query over several shards at isolation level REPEATABLE READ is not supported",
            )
            .with_hint("Use READ COMMITTED, or read in a query of its own.")),
        }
    }
}

/// What one shard is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShardPart {
    pub(super) shard: ShardId,
    pub(super) server: Arc<str>,
    pub(super) text: String,
}

/// What is read of a table.
pub(super) struct Scanned {
    pub(super) table: Arc<ShardedTable>,
    pub(super) schema: SchemaRef,
    /// Positions of the columns in the table.
    pub(super) ordinals: Vec<usize>,
    pub(super) types: Arc<[SqlType]>,
    pub(super) parts: Vec<ShardPart>,
    /// Whether what shards are asked ends with a condition.
    pub(super) is_conditional: bool,
    /// Whether it ends with a limit.
    pub(super) is_limited: bool,
    /// Rows of the table on those shards, as far as is known.
    pub(super) rows: Option<usize>,
    /// Whether the order of texts decides in the plan.
    pub(super) orders_text: bool,
    /// What shards are asked for, between `SELECT` and `FROM`, where that is the same for all.
    pub(super) selected: Option<String>,
    /// How many conditions the query has, where shards are asked with all of them.
    pub(super) conditions: Option<usize>,
    /// What stands behind the conditions, where rows are those of groups that each shard has made.
    pub(super) grouping: Option<String>,
    /// The order of which each shard gives its first rows, and how many of them.
    pub(super) first: Option<(String, i64)>,
}

/// See the module.
pub(super) struct ShardScanExec {
    scanned: Arc<Scanned>,
    /// What joins above say of the rows that they can use, while they run.
    told: Vec<Arc<dyn PhysicalExpr>>,
    /// Their keys, for all streams.
    division: Arc<Division>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl fmt::Debug for ShardScanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scan of {} on {} shards", self.scanned.table.schema.name, self.scanned.parts.len())
    }
}

impl ShardScanExec {
    pub(super) fn new(scanned: Scanned) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&scanned.schema)),
            // A stream that has nothing to ask is one all the same: some operators want one.
            Partitioning::UnknownPartitioning(scanned.parts.len().max(1)),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let (scanned, metrics) = (Arc::new(scanned), ExecutionPlanMetricsSet::new());
        Self { scanned, told: Vec::new(), division: Arc::default(), properties: Arc::new(properties), metrics }
    }

    /// The same, not executed yet, that joins tell this.
    fn with_told(&self, told: Vec<Arc<dyn PhysicalExpr>>) -> Self {
        Self {
            scanned: Arc::clone(&self.scanned),
            told,
            division: Arc::default(),
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The same, not executed yet, of groups that each shard makes of its rows: it is asked for `selected`, which has these types, and first
    /// the columns of the table that tell groups apart. `None`: it has other rows than those that groups are made of, which `conditions` are
    /// all that chooses.
    pub(super) fn grouped(
        &self,
        (selected, grouping): (&str, String),
        columns: Vec<usize>,
        types: Arc<[SqlType]>,
        schema: SchemaRef,
        conditions: usize,
    ) -> Option<Self> {
        let scanned = self.scanned.as_ref();
        if scanned.is_limited || scanned.grouping.is_some() || !self.told.is_empty() {
            return None;
        }
        let before = format!("SELECT {} FROM", scanned.selected.as_ref()?);
        if scanned.conditions != Some(conditions) {
            return None;
        }
        let part = |part: &ShardPart| {
            let text = format!("SELECT {selected} FROM{}{grouping}", part.text.strip_prefix(&before)?);
            Some(ShardPart { shard: part.shard, server: Arc::clone(&part.server), text })
        };
        Some(Self::new(Scanned {
            table: Arc::clone(&scanned.table),
            schema,
            ordinals: columns,
            types,
            parts: scanned.parts.iter().map(part).collect::<Option<_>>()?,
            is_conditional: scanned.is_conditional,
            is_limited: false,
            rows: scanned.rows,
            orders_text: scanned.orders_text,
            selected: None,
            conditions: None,
            grouping: Some(grouping),
            first: None,
        }))
    }

    /// The same, not executed yet, of no more than the first `fetch` rows of each shard in an order of columns. `None`: it has other rows than
    /// those that are sorted, which `conditions` are all that chooses.
    pub(super) fn first_rows(&self, order: String, fetch: i64, conditions: usize) -> Option<Self> {
        let scanned = self.scanned.as_ref();
        // Where it reads more than columns, a name in ORDER BY may be that of something else.
        let is_plain = scanned.selected.is_some() && !scanned.is_limited && self.told.is_empty();
        if !is_plain || scanned.conditions != Some(conditions) {
            return None;
        }
        let part = |part: &ShardPart| ShardPart {
            shard: part.shard,
            server: Arc::clone(&part.server),
            text: format!("{} ORDER BY {order} LIMIT {fetch}", part.text),
        };
        Some(Self::new(Scanned {
            table: Arc::clone(&scanned.table),
            schema: Arc::clone(&scanned.schema),
            ordinals: scanned.ordinals.clone(),
            types: Arc::clone(&scanned.types),
            parts: scanned.parts.iter().map(part).collect(),
            is_conditional: scanned.is_conditional,
            is_limited: true,
            rows: scanned.rows,
            orders_text: scanned.orders_text,
            selected: None,
            conditions: None,
            grouping: None,
            first: Some((order, fetch)),
        }))
    }

    /// What shards are asked.
    pub(super) fn parts(&self) -> &[ShardPart] {
        &self.scanned.parts
    }

    /// The table that it reads.
    pub(super) fn table(&self) -> &Arc<ShardedTable> {
        &self.scanned.table
    }

    /// The column of the table that one of its columns is; `None` for what tells versions of rows apart.
    pub(super) fn column(&self, index: usize) -> Option<&ColumnDef> {
        self.scanned.table.schema.columns.get(*self.scanned.ordinals.get(index)?)
    }

    /// Rows of the table on those shards, as far as was known when it was planned.
    pub(super) fn rows(&self) -> Option<usize> {
        self.scanned.rows
    }

    /// Types of its columns.
    pub(super) fn types(&self) -> &Arc<[SqlType]> {
        &self.scanned.types
    }

    /// Whether the order of texts decides in the plan.
    pub(super) fn orders_text(&self) -> bool {
        self.scanned.orders_text
    }

    /// A stream of what has been read already.
    fn of_own(&self, rows: OwnRows, stream_partition: usize) -> SendableRecordBatchStream {
        let metrics = BaselineMetrics::new(&self.metrics, stream_partition);
        let batches = rows.map(move |batch| -> Result<RecordBatch> {
            metrics.record_output(batch.num_rows());
            Ok(batch)
        });
        Box::pin(RecordBatchStreamAdapter::new(self.schema(), futures::stream::iter(batches)))
    }
}

impl DisplayAs for ShardScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scanned { table, schema, parts, first, .. } = self.scanned.as_ref();
        let servers: Vec<&str> = parts.iter().map(|part| &*part.server).collect();
        write!(f, "ShardScanExec: table={}, shards=[{}]", table.schema.name, servers.join(", "))?;
        let keys = self.told.iter().flat_map(|filter| filter.children());
        let columns = keys.filter_map(|key| self.scanned.column_of_key(key));
        let columns: Vec<&str> = columns.map(|column| schema.field(column).name().as_str()).collect();
        if !columns.is_empty() {
            write!(f, ", keys of joins=[{}]", columns.join(", "))?;
        }
        if let Some((order, fetch)) = first {
            write!(f, ", sort=[{order}], fetch={fetch}")?;
        }
        match &parts[..] {
            [] => Ok(()),
            [first, others @ ..] if others.iter().all(|part| part.text == first.text) => {
                write!(f, ", remote={}", first.text)
            }
            all => {
                let each: Vec<String> = all.iter().map(|part| format!("{}: {}", part.server, part.text)).collect();
                write!(f, ", remote=[{}]", each.join("; "))
            }
        }
    }
}

impl ExecutionPlan for ShardScanExec {
    fn name(&self) -> &'static str {
        "ShardScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for told in &self.told {
            if f(told)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        // A limit takes its rows before any of this.
        let takes = |filter: &Arc<dyn PhysicalExpr>| !self.scanned.is_limited && self.scanned.takes(filter);
        let told = scan_filters::told_by_joins(&self.told, phase, &result, takes);
        let propagation = FilterPushdownPropagation::all_unsupported(result);
        let Some(told) = told else { return Ok(propagation) };
        Ok(propagation.with_updated_node(Arc::new(self.with_told(told))))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a scan of shards has no children") }
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        // Joins tell scans anew.
        Ok(Arc::new(self.with_told(Vec::new())))
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        // Conditions are applied again by a node above, which has its own guess of what they leave.
        if let Some(rows) = self.scanned.rows
            && partition.is_none()
            && !self.scanned.is_limited
            && self.scanned.grouping.is_none()
        {
            statistics = statistics.with_num_rows(Precision::Inexact(rows));
        }
        Ok(Arc::new(statistics))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, stream_partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = self.schema();
        let Some(part) = self.scanned.parts.get(stream_partition) else {
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::empty())));
        };
        let Some(asking) = context.session_config().get_extension::<Asking>() else {
            return internal_err!("a scan of shards runs for nobody");
        };
        if let Some(rows) = asking.own.get().and_then(|own| own.find(part, &schema)) {
            return Ok(self.of_own(rows, stream_partition));
        }
        asking.check(&part.server).map_err(external)?;
        let is_told = !self.told.is_empty();
        let reader = ShardReader {
            part: part.clone(),
            told: self.told.clone(),
            division: Arc::clone(&self.division),
            keys_sent: is_told.then(|| MetricBuilder::new(&self.metrics).counter("keys_sent", stream_partition)),
            asking,
            oids: self.scanned.types.iter().map(|sql_type| (*sql_type).into()).collect(),
            scanned: Arc::clone(&self.scanned),
            batch_rows: context.session_config().batch_size(),
            memory: MemoryConsumer::new("ShardScan").register(context.memory_pool()),
            metrics: BaselineMetrics::new(&self.metrics, stream_partition),
            lease: None,
            is_done: false,
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, reader.into_stream())))
    }
}

/// One stream of a scan: one shard.
struct ShardReader {
    scanned: Arc<Scanned>,
    part: ShardPart,
    told: Vec<Arc<dyn PhysicalExpr>>,
    division: Arc<Division>,
    keys_sent: Option<Count>,
    asking: Arc<Asking>,
    /// Types of the columns, as the shard has to say them.
    oids: Vec<ReadType>,
    batch_rows: usize,
    memory: MemoryReservation,
    metrics: BaselineMetrics,
    lease: Option<Lease>,
    is_done: bool,
}

impl ShardReader {
    fn into_stream(self) -> impl Stream<Item = Result<RecordBatch>> {
        futures::stream::try_unfold(self, |mut reader| async move {
            let batch = scope(&SCAN, reader.next()).await?;
            Ok(batch.map(|batch| (batch, reader)))
        })
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        if self.is_done {
            return Ok(None);
        }
        let turn = Arc::clone(&self.asking.turn);
        let mut at_work = turn.work().await.map_err(external)?;
        // What was handed on is charged by whoever keeps it.
        self.memory.free();
        if self.lease.is_none() && !Box::pin(self.begin(&mut at_work)).await? {
            self.is_done = true;
            return Ok(None);
        }
        let Some(lease) = &mut self.lease else { return internal_err!("a scan has lost its connection") };
        let mut building = Building::new(&self.part.server, &self.scanned.types, &self.scanned.schema);
        let mut failure = None;
        while !building.is_full(self.batch_rows) {
            let row = at_work.wait(lease.next_row(&self.oids, &mut failure)).await;
            let Some(range) = row.flatten().map_err(external)? else {
                self.is_done = true;
                break;
            };
            building.push(lease.row(&range), &self.memory)?;
            lease.consume_row(&range);
        }
        if self.is_done
            && let Some(lease) = self.lease.take()
        {
            // With its transaction, where it has one.
            lease.abandon();
        }
        let batch = building.finish(&self.memory)?;
        if let Some(batch) = &batch {
            self.metrics.record_output(batch.num_rows());
        }
        Ok(batch)
    }

    /// Sends the shard what it is asked; `false`: nothing, since no row of it has a match.
    async fn begin(&mut self, at_work: &mut AtWork<'_>) -> Result<bool> {
        // A join asks for the first row when it knows its keys. Where somebody reads ahead of it, all rows come.
        let sought = keys::sought(&self.scanned, self.part.shard, &self.told, &self.division, &self.memory)?;
        let (narrowed, values) = match sought {
            Sought::All => (None, Vec::new()),
            Sought::Nothing => return Ok(false),
            Sought::Keys { conditions, values, count } => {
                if let Some(sent) = &self.keys_sent {
                    sent.add(count);
                }
                let word = if self.scanned.is_conditional { "AND" } else { "WHERE" };
                let grouping = self.scanned.grouping.as_deref().unwrap_or_default();
                let rows = self.part.text.strip_suffix(grouping).unwrap_or(&self.part.text);
                (Some(format!("{rows} {word} {}{grouping}", conditions.join(" AND "))), values)
            }
        };
        let lent = lend(&self.scanned, &self.part.server, &self.asking);
        let mut lease = at_work.wait(lent).await.flatten().map_err(external)?;
        let text = narrowed.as_deref().unwrap_or(&self.part.text);
        // With constants in it a text may be of this query alone; what is out of date can be parsed anew outside of a transaction only.
        if self.scanned.is_conditional || self.scanned.is_limited || self.asking.moment.is_some() {
            lease.queue_scan_with(text, &values);
            at_work.wait(lease.flush()).await.flatten().map_err(external)?;
        } else {
            let begun = at_work.wait(lease.begin_kept_scan(text, &values, &self.oids)).await;
            if !begun.flatten().map_err(external)? {
                lease.abandon();
                return Ok(false);
            }
        }
        self.lease = Some(lease);
        Ok(true)
    }
}

/// Borrows a connection, with the snapshot that is to be read.
async fn lend(scanned: &Scanned, server: &Arc<str>, asking: &Asking) -> ashlar_base::Result<Lease> {
    let (fleet, carried) = (&scanned.table.fleet, asking.carried.clone());
    let settings = Settings { carried, ..Settings::default() };
    let (from, role) = ((fleet.pool_of_queries(), None), &asking.role);
    let lease = match &asking.moment {
        Some(moment) => {
            let mut lease = moment.lend(server).await?;
            // Whoever took the snapshot has none of them.
            lease.queue_settings(&settings);
            lease
        }
        None if asking.reads_replicas => fleet.lend_for_reading(from, server, role, &settings).await?,
        None => fleet.lend(from, server, role, &settings).await?,
    };
    if scanned.orders_text && !lease.is_c_collated() {
        lease.abandon();
        scanned.table.is_in_bytes.store(false, Ordering::Relaxed);
        return Err(other_collation(server));
    }
    Ok(lease)
}

/// 0A000
pub(super) fn other_collation(server: &str) -> Error {
    let message = format!(
        "the order of texts over several shards is not supported where the collation of shard \"{server}\" is not that of their bytes"
    );
    Error::unsupported(message).with_hint(
        "Sort by ... COLLATE \"C\" in a query without joins and groups, or name the sharding key, so that one shard answers.",
    )
}
