//! Reads what shards have of a table: each in a stream of its own, its rows in binary form, put into Arrow batches here.
//!
//! A stream borrows a connection when its first batch is asked for. Where it is dropped before its end the connection is
//! closed, and what the shard still does for it is cancelled. What a batch takes is charged before it is built.

use std::fmt;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use ashlar_base::scope::{Name, scope};
use ashlar_base::value::binary;
use ashlar_base::{Error, ErrorCode, SqlType, Value};
use ashlar_functions::error::external;
use ashlar_shard::backend::{RowReader, Settings};
use ashlar_shard::pool::Lease;
use ashlar_shard::snapshot::Moment;
use ashlar_store::build_array;
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
use crate::means::Barrier;

/// Rows between two charges.
const ROWS_PER_CHARGE: usize = 256;

/// Bytes of rows that make a batch, however few they are.
const BATCH_BYTES: usize = 4 << 20;

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
}

impl Asking {
    /// 0A000 where a server cannot be read now.
    fn check(&self, server: &str) -> ashlar_base::Result<()> {
        match &self.barrier {
            Barrier::None => Ok(()),
            Barrier::Written(written) if written.iter().all(|written| **written != *server) => Ok(()),
            Barrier::Written(_) => Err(Error::unsupported(format!(
                "a query over several shards in a transaction that has written to shard \"{server}\" is not supported"
            ))
            .with_hint("COMMIT first, or ask for the rows of one shard only.")),
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
                return Err(external(other_collation(&self.part)));
            }
            if let Some(moment) = &self.asking.moment {
                moment.snapshots().await.and_then(|taken| taken.begin(&mut lease)).map_err(external)?;
            }
            lease.queue_scan(&self.part.text);
            lease.flush().await.map_err(external)?;
            self.lease = Some(lease);
        }
        let Some(lease) = &mut self.lease else { return internal_err!("a scan has lost its connection") };
        let mut columns: Vec<Vec<Value>> = vec![Vec::new(); self.types.len()];
        let (mut rows, mut bytes, mut uncharged) = (0, 0, 0);
        let mut failure = None;
        while rows < self.batch_rows && bytes < BATCH_BYTES {
            let Some(range) = lease.next_row(&self.oids, &mut failure).await.map_err(external)? else {
                self.is_done = true;
                break;
            };
            let taken = (range.end - range.start) + self.types.len() * size_of::<Value>();
            uncharged += taken;
            if rows % ROWS_PER_CHARGE == 0 || uncharged > BATCH_BYTES / 16 {
                // As values, and as the arrays that they become.
                self.memory.try_grow(2 * std::mem::take(&mut uncharged))?;
            }
            let mut reader = RowReader::new(lease.row(&range)).map_err(|_| external(garbled(&self.part)))?;
            if reader.left() != self.types.len() {
                return Err(external(garbled(&self.part)));
            }
            for (column, sql_type) in columns.iter_mut().zip(self.types.iter()) {
                let value = reader.value().map_err(|_| external(garbled(&self.part)))?;
                column.push(match value {
                    Some(bytes) => binary::decode(*sql_type, bytes).map_err(external)?,
                    None => Value::Null,
                });
            }
            lease.consume_row(&range);
            rows += 1;
            bytes += taken;
        }
        if self.is_done
            && let Some(lease) = self.lease.take()
        {
            // With its transaction, where it has one.
            lease.abandon();
        }
        if rows == 0 {
            return Ok(None);
        }
        self.memory.try_grow(2 * uncharged)?;
        let arrays = columns.iter().zip(self.types.iter()).map(|(values, sql_type)| build_array(*sql_type, values));
        let arrays: ashlar_base::Result<Vec<_>> = arrays.collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays.map_err(external)?, &options)?;
        self.metrics.record_output(rows);
        Ok(Some(batch))
    }
}

fn garbled(part: &ShardPart) -> Error {
    let message = format!("shard \"{}\" sent a row that does not fit its table", part.server);
    Error::new(ErrorCode::ProtocolViolation, message)
}

/// 0A000
fn other_collation(part: &ShardPart) -> Error {
    let message = format!(
        "the order of texts over several shards is not supported where the collation of shard \"{}\" is not that of their bytes",
        part.server
    );
    Error::unsupported(message).with_hint(
        "Sort by ... COLLATE \"C\" in a query without joins and groups, or name the sharding key, so that one shard answers.",
    )
}
