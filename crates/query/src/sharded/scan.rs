//! Reads what shards have of a table: each in a stream of its own, its rows in binary form, put into Arrow batches here.
//!
//! A stream borrows a connection when its first batch is asked for. Where it is dropped before its end the connection is
//! closed, and what the shard still does for it is cancelled. What a batch takes is charged before it is built. What only the
//! connections of the statement's transaction see has been read by `own` before.

use std::fmt;
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use ashlar_base::scope::{Name, scope};
use ashlar_base::{Error, SqlType};
use ashlar_functions::error::external;
use ashlar_shard::backend::Settings;
use ashlar_shard::pool::Lease;
use ashlar_shard::snapshot::Moment;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::Stream;

use super::ShardedTable;
use super::batches::Building;
use super::own::{Own, OwnRows};
use crate::means::Barrier;

static SCAN: Name = Name::new("shard scan");

/// Who asks: other servers know him by his mapping. Travels with the task.
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
    /// What was read over the connections of his transaction, before the plan runs.
    pub(crate) own: OnceLock<Arc<Own>>,
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
            .with_hint(match self.moment {
                Some(_) => "COMMIT first, or SET sharded_reads = 'each'.",
                None => "COMMIT first, or ask for the rows of one shard only.",
            })),
            Barrier::Snapshot => Err(Error::unsupported(
                "a query over several shards at isolation level REPEATABLE READ is not supported",
            )
            .with_hint("Shards have no snapshot together: use READ COMMITTED.")),
        }
    }
}

/// What one shard is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShardPart {
    pub(super) server: Arc<str>,
    pub(super) text: String,
}

/// See the module.
pub(super) struct ShardScanExec {
    table: Arc<ShardedTable>,
    schema: SchemaRef,
    types: Arc<[SqlType]>,
    parts: Vec<ShardPart>,
    /// Whether the order of texts decides in the plan.
    orders_text: bool,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl fmt::Debug for ShardScanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scan of {} on {} shards", self.table.schema.name, self.parts.len())
    }
}

impl ShardScanExec {
    pub(super) fn new(
        table: Arc<ShardedTable>,
        schema: SchemaRef,
        types: Arc<[SqlType]>,
        parts: Vec<ShardPart>,
        orders_text: bool,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            // A stream that has nothing to ask is one all the same: some operators want one.
            Partitioning::UnknownPartitioning(parts.len().max(1)),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let metrics = ExecutionPlanMetricsSet::new();
        Self { table, schema, types, parts, orders_text, properties: Arc::new(properties), metrics }
    }

    /// What shards are asked.
    pub(super) fn parts(&self) -> &[ShardPart] {
        &self.parts
    }

    /// Types of its columns.
    pub(super) fn types(&self) -> &Arc<[SqlType]> {
        &self.types
    }

    /// Whether the order of texts decides in the plan.
    pub(super) fn orders_text(&self) -> bool {
        self.orders_text
    }

    /// A stream of what has been read already.
    fn of_own(&self, rows: OwnRows, stream_partition: usize) -> SendableRecordBatchStream {
        let metrics = BaselineMetrics::new(&self.metrics, stream_partition);
        let batches = rows.map(move |batch| -> Result<RecordBatch> {
            metrics.record_output(batch.num_rows());
            Ok(batch)
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), futures::stream::iter(batches)))
    }
}

impl DisplayAs for ShardScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers: Vec<&str> = self.parts.iter().map(|part| &*part.server).collect();
        write!(f, "ShardScanExec: table={}, shards=[{}]", self.table.schema.name, servers.join(", "))?;
        match self.parts.first() {
            Some(part) => write!(f, ", remote={}", part.text),
            None => Ok(()),
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
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a scan of shards has no children") }
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, stream_partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(part) = self.parts.get(stream_partition) else {
            let nothing = futures::stream::empty();
            return Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), nothing)));
        };
        let Some(asking) = context.session_config().get_extension::<Asking>() else {
            return internal_err!("a scan of shards runs for nobody");
        };
        if let Some(rows) = asking.own.get().and_then(|own| own.find(part, &self.schema)) {
            return Ok(self.of_own(rows, stream_partition));
        }
        asking.check(&part.server).map_err(external)?;
        let reader = ShardReader {
            table: Arc::clone(&self.table),
            part: part.clone(),
            orders_text: self.orders_text,
            asking,
            oids: self.types.iter().map(|sql_type| sql_type.oid()).collect(),
            types: Arc::clone(&self.types),
            schema: Arc::clone(&self.schema),
            batch_rows: context.session_config().batch_size(),
            memory: MemoryConsumer::new("ShardScan").register(context.memory_pool()),
            metrics: BaselineMetrics::new(&self.metrics, stream_partition),
            lease: None,
            is_done: false,
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), reader.into_stream())))
    }
}

/// One stream of a scan: one shard.
struct ShardReader {
    table: Arc<ShardedTable>,
    part: ShardPart,
    orders_text: bool,
    asking: Arc<Asking>,
    types: Arc<[SqlType]>,
    oids: Vec<u32>,
    schema: SchemaRef,
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
        // What was handed on is charged by whoever keeps it.
        self.memory.free();
        if self.lease.is_none() {
            let fleet = &self.table.fleet;
            let settings = Settings::default();
            let (from, server, role) = ((fleet.pool_of_queries(), None), &self.part.server, &self.asking.role);
            // A moment is one of servers that write.
            let lent = match self.asking.reads_replicas && self.asking.moment.is_none() {
                true => fleet.lend_for_reading(from, server, role, &settings).await,
                false => fleet.lend(from, server, role, &settings).await,
            };
            let mut lease = lent.map_err(external)?;
            if self.orders_text && !lease.is_c_collated() {
                return Err(external(other_collation(&self.part.server)));
            }
            if let Some(moment) = &self.asking.moment {
                moment.snapshots().await.and_then(|taken| taken.begin(&mut lease)).map_err(external)?;
            }
            lease.queue_scan(&self.part.text);
            lease.flush().await.map_err(external)?;
            self.lease = Some(lease);
        }
        let Some(lease) = &mut self.lease else { return internal_err!("a scan has lost its connection") };
        let mut building = Building::new(&self.part.server, &self.types, &self.schema);
        let mut failure = None;
        while !building.is_full(self.batch_rows) {
            let Some(range) = lease.next_row(&self.oids, &mut failure).await.map_err(external)? else {
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
