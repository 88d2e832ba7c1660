//! The grid home as DataFusion sees it: a table provider and the scan that reads segments where they lie.
//!
//! The plan holds no data and no snapshot: the [`ReadView`] comes with the task, so that a cached plan reads what
//! its statement may see. Projection, filters and limit are applied in the scan, against borrowed memory.

use std::fmt;
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::{BatchCoalescer, filter_record_batch};
use arrow::datatypes::{Schema, SchemaRef};
use ashlar_base::PartitionId;
use ashlar_base::scope::{self, Name};
use ashlar_functions::concatenation;
use ashlar_functions::error::external;
use ashlar_functions::guards;
use ashlar_functions::tree::rewrite_parts;
use ashlar_store::arrow_types::to_arrow_field;
use ashlar_store::{EXPIRES_AT, ReadView, Region, expires_at_column};
use datafusion::catalog::Session;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, Result, ScalarValue, Statistics, internal_err};
use datafusion::datasource::{TableProvider, TableType};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{ColumnarValue, Expr, TableProviderFilterPushDown};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::filter_pushdown::{ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation};
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::Stream;
use futures::future::BoxFuture;

use crate::access::{Access, Candidates};
use crate::probes::Asked;
use crate::{estimate, scan_filters};

/// Batches below this many rows are merged into larger ones before they leave the scan.
const COALESCE_BELOW_ROWS: usize = 1024;

/// Rows of a stream that are filtered by what a join has found, before it is decided whether that is worth it.
const TRIED_ROWS: usize = 1 << 16;
/// It is not if more than this percentage of them pass.
const TOO_MANY: usize = 90;

static SCAN: Name = Name::new("scan");

/// A grid table in a plan.
#[derive(Clone, Debug)]
pub struct GridTable {
    region: RegionHandle,
    /// The version of the table's shape that the plan's ordinals refer to.
    version: u32,
    schema: SchemaRef,
}

/// A region that implements Debug, as DataFusion's traits require.
#[derive(Clone)]
struct RegionHandle(Arc<Region>);

impl fmt::Debug for RegionHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "region {}", self.0.id())
    }
}

impl GridTable {
    /// The table as users see it; with `hidden` also the hidden key, for DML.
    pub fn new(region: &Arc<Region>, hidden: bool) -> Self {
        let schema = region.schema();
        let full = region.arrow_schema();
        let visible = if hidden { schema.columns.len() } else { schema.visible_columns().len() };
        let version = schema.version;
        let schema = Arc::new(Schema::new(full.fields()[..visible].to_vec()));
        Self { region: RegionHandle(Arc::clone(region)), version, schema }
    }

    /// The same with the system column `_expires_at` as its last, unless the table has a column of that name.
    pub fn with_expiry(self) -> Self {
        let column = expires_at_column();
        if !self.has_expiry() || self.schema.index_of(&column.name).is_ok() {
            return self;
        }
        let mut fields = self.schema.fields().to_vec();
        fields.push(Arc::new(to_arrow_field(&column)));
        Self { schema: Arc::new(Schema::new(fields)), ..self }
    }

    /// Whether it can have the system column: no column of the table has its name.
    pub(crate) fn has_expiry(&self) -> bool {
        self.region.0.schema().column(&expires_at_column().name).is_none()
    }

    /// The region's ordinal for a column of this table.
    fn ordinal(&self, index: usize) -> usize {
        if self.is_expiry(index) { EXPIRES_AT } else { index }
    }

    /// Whether a column of this table is the system column.
    pub(crate) fn is_expiry(&self, index: usize) -> bool {
        *self.schema.field(index).name() == expires_at_column().name && self.has_expiry()
    }

    /// The region.
    pub(crate) fn region(&self) -> &Arc<Region> {
        &self.region.0
    }

    /// The version of the table's shape that ordinals refer to.
    pub(crate) fn version(&self) -> u32 {
        self.version
    }
}

impl TableProvider for GridTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(scan_filters::taken(filters, &TableProviderFilterPushDown::Exact))
    }

    fn statistics(&self) -> Option<Statistics> {
        let ordinals: Vec<usize> = (0..self.schema.fields().len()).collect();
        Some(estimate::of_table(&self.region.0, &self.schema, &ordinals, None))
    }

    // As `async_trait` would make it, but with the answer at once. A future that holds expressions and borrows anything
    // is shown to be `Send` type by type, thousands of them: that took the compiler longer than all else in this crate.
    fn scan<'s, 'c, 'p, 'f, 'r>(
        &'s self,
        state: &'c dyn Session,
        projection: Option<&'p Vec<usize>>,
        filters: &'f [Expr],
        limit: Option<usize>,
    ) -> BoxFuture<'r, Result<Arc<dyn ExecutionPlan>>>
    where
        's: 'r,
        'c: 'r,
        'p: 'r,
        'f: 'r,
    {
        Box::pin(std::future::ready(self.scan_plan(state, projection, filters, limit)))
    }
}

impl GridTable {
    fn scan_plan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let output: Vec<usize> = match projection {
            Some(projection) => projection.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        // Columns that only the filters need are read too, and dropped behind the filter.
        let predicate = conjunction(filters.iter().cloned());
        let mut columns = output.clone();
        if let Some(predicate) = &predicate {
            for column in predicate.column_refs() {
                let ordinal = self.schema.index_of(column.name())?;
                if !columns.contains(&ordinal) {
                    columns.push(ordinal);
                }
            }
        }
        let scan_schema = Arc::new(self.schema.project(&columns)?);
        let predicate = match predicate {
            Some(predicate) => {
                let unqualified = guards::condition(unqualify(predicate)?)?;
                let df_schema = DFSchema::try_from(scan_schema.as_ref().clone())?;
                let bounded = concatenation::of_expr(unqualified, &df_schema)?.data;
                Some(state.create_physical_expr(bounded, &df_schema)?)
            }
            None => None,
        };
        // A parameter may have decided a filter that was moved into the scan before it was known.
        let is_never = |filter: &Expr| matches!(filter, Expr::Literal(ScalarValue::Boolean(Some(false) | None), _));
        let limit = if filters.iter().any(is_never) { Some(0) } else { limit };
        let partitions = self.region.0.partition_count();
        let streams = state.config().target_partitions().clamp(1, usize::from(partitions));
        let columns = columns.into_iter().map(|index| self.ordinal(index)).collect();
        let scan =
            GridScanExec::new(self.region.clone(), columns, output.len(), scan_schema, predicate, limit, streams)?;
        let access = Access::of(&self.region.0, filters);
        Ok(Arc::new(GridScanExec { version: self.version, access, conditions: filters.into(), ..scan }))
    }
}

/// Drops the table's alias from column references: the scan's schema has bare names.
pub(crate) fn unqualify(expr: Expr) -> Result<Expr> {
    use datafusion::common::Column;
    use datafusion::common::tree_node::Transformed;
    rewrite_parts(expr, |node| {
        Ok(match node {
            Expr::Column(column) => Transformed::yes(Expr::Column(Column::new_unqualified(column.name))),
            other => Transformed::no(other),
        })
    })
    .map(|transformed| transformed.data)
}

/// Reads a region's partitions: each stream takes a contiguous range of them.
#[derive(Debug)]
pub struct GridScanExec {
    region: RegionHandle,
    version: u32,
    /// Ordinals in the region; the first `output_count` leave the scan.
    columns: Vec<usize>,
    output_count: usize,
    scan_schema: SchemaRef,
    predicate: Option<Arc<dyn PhysicalExpr>>,
    /// Filters that joins above produce while they run, over the columns that leave the scan.
    told: Vec<Arc<dyn PhysicalExpr>>,
    /// The predicate as the plan has it.
    conditions: Arc<[Expr]>,
    /// How the predicate, or an operator above, uses the key and indexes.
    access: Access,
    limit: Option<usize>,
    /// The most rows of a batch; the session's batch size where nothing else is said.
    batch_rows: Option<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl GridScanExec {
    fn new(
        region: RegionHandle,
        columns: Vec<usize>,
        output_count: usize,
        scan_schema: SchemaRef,
        predicate: Option<Arc<dyn PhysicalExpr>>,
        limit: Option<usize>,
        streams: usize,
    ) -> Result<Self> {
        let output: Vec<usize> = (0..output_count).collect();
        let schema = Arc::new(scan_schema.project(&output)?);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(streams),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Self {
            region,
            version: 0,
            columns,
            output_count,
            scan_schema,
            predicate,
            told: Vec::new(),
            conditions: Arc::default(),
            access: Access::default(),
            limit,
            batch_rows: None,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The same scan with another access path and, if stated, another number of streams.
    pub(crate) fn with_access(&self, access: Access, streams: Option<usize>) -> Self {
        let properties = match streams {
            Some(streams) => {
                Arc::new(self.properties.as_ref().clone().with_partitioning(Partitioning::UnknownPartitioning(streams)))
            }
            None => Arc::clone(&self.properties),
        };
        Self {
            region: self.region.clone(),
            version: self.version,
            columns: self.columns.clone(),
            output_count: self.output_count,
            scan_schema: Arc::clone(&self.scan_schema),
            predicate: self.predicate.clone(),
            told: self.told.clone(),
            conditions: Arc::clone(&self.conditions),
            access,
            limit: self.limit,
            batch_rows: self.batch_rows,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The same scan in batches of other sizes, for an operator above that wants them.
    pub(crate) fn with_batch_rows(&self, rows: usize) -> Self {
        Self { batch_rows: Some(rows), ..self.with_access(self.access.clone(), None) }
    }

    pub(crate) fn region(&self) -> &Arc<Region> {
        &self.region.0
    }

    pub(crate) fn version(&self) -> u32 {
        self.version
    }

    /// The columns of the table that leave the scan; `None` for the system column.
    pub(crate) fn output_ordinals(&self) -> impl Iterator<Item = Option<usize>> {
        let outputs = self.columns.iter().take(self.output_count);
        outputs.map(|ordinal| (*ordinal != EXPIRES_AT).then_some(*ordinal))
    }

    /// The conditions that rows have to satisfy.
    pub(crate) fn conditions(&self) -> &[Expr] {
        &self.conditions
    }

    /// The access path.
    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    /// The probes of its conditions, if nothing else restricts the access and every row that satisfies them leaves the scan.
    pub(crate) fn asked(&self) -> Option<&Asked> {
        match &self.access {
            Access::Asked(asked) if self.limit.is_none() => Some(asked),
            _ => None,
        }
    }

    /// Whether every row of the table leaves the scan.
    pub(crate) fn is_whole(&self) -> bool {
        // What joins tell it changes nothing: they tell it anew.
        self.limit.is_none() && self.predicate.is_none() && self.access.is_whole()
    }

    /// The most rows that can leave it, as far as is known.
    pub(crate) fn rows_max(&self) -> Option<usize> {
        self.limit
    }
}

impl DisplayAs for GridScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> =
            self.scan_schema.fields().iter().take(self.output_count).map(|field| field.name().as_str()).collect();
        write!(f, "GridScanExec: table={}, columns=[{}]", self.region.0.schema().name, names.join(", "))?;
        if let Some(predicate) = &self.predicate {
            write!(f, ", filter={predicate}")?;
        }
        for told in &self.told {
            write!(f, ", told={told}")?;
        }
        f.write_str(&self.access.describe())?;
        if let Some(limit) = self.limit {
            write!(f, ", limit={limit}")?;
        }
        if let Some(rows) = self.batch_rows {
            write!(f, ", batch_rows={rows}")?;
        }
        Ok(())
    }
}

impl ExecutionPlan for GridScanExec {
    fn name(&self) -> &str {
        "GridScanExec"
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
        for expr in self.predicate.iter().chain(&self.told) {
            if f(expr)? == TreeNodeRecursion::Stop {
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
        // A limit takes its rows before any of this, and an expression might fail on rows that a filter above leaves out.
        let takes = |filter: &Arc<dyn PhysicalExpr>| {
            self.limit.is_none() && filter.children().iter().all(|child| child.is::<Column>())
        };
        let told = scan_filters::told_by_joins(&self.told, phase, &result, takes);
        let propagation = FilterPushdownPropagation::all_unsupported(result);
        let Some(told) = told else { return Ok(propagation) };
        let scan = Self { told, ..self.with_access(self.access.clone(), None) };
        Ok(propagation.with_updated_node(Arc::new(scan)))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a grid scan has no children") }
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        // Joins tell scans anew.
        Ok(Arc::new(Self { told: Vec::new(), ..self.with_access(self.access.clone(), None) }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let schema = self.schema();
        let part = match &self.access {
            Access::Asked(asked) => asked.part,
            Access::Keys(_) | Access::Any(_) | Access::Walks(_) => None,
        };
        if partition.is_some() || self.limit.is_some() || (self.predicate.is_some() && part.is_none()) {
            return Ok(Arc::new(Statistics::new_unknown(&schema)));
        }
        let part = self.predicate.as_ref().and(part);
        let output = &self.columns[..self.output_count];
        Ok(Arc::new(estimate::of_table(&self.region.0, &schema, output, part)))
    }

    fn execute(&self, stream_partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(view) = context.session_config().get_extension::<ReadView>() else {
            return internal_err!("a grid scan runs without a read view");
        };
        let streams = self.properties.partitioning.partition_count();
        let partitions = usize::from(self.region.0.partition_count());
        let first = partitions * stream_partition / streams;
        let end = partitions * (stream_partition + 1) / streams;
        let candidates = self.access.candidates(&self.region.0, &view);
        let batch_rows = self.batch_rows.unwrap_or(context.session_config().batch_size());
        let reader = ScanReader {
            region: Arc::clone(&self.region.0),
            version: self.version,
            view,
            columns: self.columns.clone(),
            output: (0..self.output_count).collect(),
            scan_schema: Arc::clone(&self.scan_schema),
            predicate: self.predicate.clone(),
            told: self.told.iter().cloned().map(Told::new).collect(),
            access: self.access.clone(),
            candidates,
            remaining: self.limit,
            partitions: first..end,
            pending: Vec::new(),
            coalescer: BatchCoalescer::new(self.schema(), batch_rows)
                .with_biggest_coalesce_batch_size(Some(COALESCE_BELOW_ROWS)),
            batch_rows,
            finished: false,
            looked_at: MetricBuilder::new(&self.metrics).counter("rows_looked_at", stream_partition),
            metrics: BaselineMetrics::new(&self.metrics, stream_partition),
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), reader.into_stream())))
    }
}

/// One stream of a scan: partition after partition, segment after segment.
struct ScanReader {
    region: Arc<Region>,
    version: u32,
    view: Arc<ReadView>,
    columns: Vec<usize>,
    output: Vec<usize>,
    scan_schema: SchemaRef,
    predicate: Option<Arc<dyn PhysicalExpr>>,
    told: Vec<Told>,
    access: Access,
    /// The partitions that may have rows that are wanted.
    candidates: Candidates,
    remaining: Option<usize>,
    partitions: std::ops::Range<usize>,
    /// Batches of the current partition; the next one is the last.
    pending: Vec<ashlar_store::ScanBatch>,
    coalescer: BatchCoalescer,
    batch_rows: usize,
    finished: bool,
    /// Rows that the store has returned, before the filter.
    looked_at: Count,
    metrics: BaselineMetrics,
}

/// A filter that a join produces for a stream, and how well it works.
struct Told {
    filter: Arc<dyn PhysicalExpr>,
    looked_at: usize,
    passed: usize,
    /// Another stream has found out.
    is_in_vain: bool,
}

impl Told {
    fn new(filter: Arc<dyn PhysicalExpr>) -> Self {
        Self { filter, looked_at: 0, passed: 0, is_in_vain: false }
    }

    /// The rows that the join can use; all rows, if the filter removes too few.
    fn leave_out(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let leaves_few_out = self.looked_at >= TRIED_ROWS && self.passed * 100 > self.looked_at * TOO_MANY;
        if self.is_in_vain || leaves_few_out {
            return Ok(batch);
        }
        let value = match self.filter.evaluate(&batch)? {
            // As long as nothing is known, or when it is known not to pay: then all of it is left, the bounds of the keys too.
            ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))) => {
                self.is_in_vain = ashlar_operators::is_in_vain(&self.filter)?;
                return Ok(batch);
            }
            value => value.into_array(batch.num_rows())?,
        };
        let passed = datafusion::common::cast::as_boolean_array(&value)?;
        let count = passed.true_count();
        self.looked_at += batch.num_rows();
        self.passed += count;
        if count == batch.num_rows() { Ok(batch) } else { Ok(filter_record_batch(&batch, passed)?) }
    }
}

/// The columns of a batch that are kept, with the rows that satisfy a predicate.
fn filtered(
    batch: &RecordBatch,
    predicate: &Arc<dyn PhysicalExpr>,
    kept: impl FnOnce(&RecordBatch) -> Result<RecordBatch>,
) -> Result<RecordBatch> {
    let value = predicate.evaluate(batch)?.into_array(batch.num_rows())?;
    let passed = datafusion::common::cast::as_boolean_array(&value)?;
    let batch = kept(batch)?;
    if passed.true_count() == batch.num_rows() {
        return Ok(batch);
    }
    Ok(filter_record_batch(&batch, passed)?)
}

/// The result of one step of a scan.
enum Step {
    Batch(RecordBatch),
    /// No batch yet: all rows were filtered out, or too few are left for a batch.
    Nothing,
    End,
}

impl ScanReader {
    fn into_stream(self) -> impl Stream<Item = Result<RecordBatch>> {
        futures::stream::try_unfold(self, |mut reader| async move {
            loop {
                // A filter may drop everything for a long time: whoever wants to cancel or to run beside gets a turn.
                tokio::task::consume_budget().await;
                match reader.timed_step()? {
                    Step::Batch(batch) => return Ok(Some((batch, reader))),
                    Step::Nothing => {}
                    Step::End => return Ok(None),
                }
            }
        })
    }

    fn timed_step(&mut self) -> Result<Step> {
        let _scan = scope::enter(&SCAN);
        let timer = self.metrics.elapsed_compute().clone();
        let _timing = timer.timer();
        let step = self.step()?;
        if let Step::Batch(batch) = &step {
            self.metrics.record_output(batch.num_rows());
        }
        Ok(step)
    }

    fn step(&mut self) -> Result<Step> {
        if let Some(batch) = self.coalescer.next_completed_batch() {
            return Ok(Step::Batch(batch));
        }
        if self.finished {
            return Ok(Step::End);
        }
        match self.next_filtered()? {
            Some(batch) => {
                let batch = self.take(batch);
                if batch.num_rows() > 0 {
                    self.coalescer.push_batch(batch)?;
                }
            }
            None => self.finished = true,
        }
        if self.remaining == Some(0) {
            self.finished = true;
        }
        if self.finished {
            self.coalescer.finish_buffered_batch()?;
        }
        Ok(Step::Nothing)
    }

    fn take(&mut self, batch: RecordBatch) -> RecordBatch {
        match &mut self.remaining {
            Some(remaining) => {
                let rows = batch.num_rows().min(*remaining);
                *remaining -= rows;
                if rows < batch.num_rows() { batch.slice(0, rows) } else { batch }
            }
            None => batch,
        }
    }

    /// The next batch without invisible and filtered rows, projected to the output.
    fn next_filtered(&mut self) -> Result<Option<RecordBatch>> {
        let scanned = loop {
            if let Some(scanned) = self.pending.pop() {
                break scanned;
            }
            let Some(partition) = self.partitions.next() else {
                return Ok(None);
            };
            let partition = PartitionId(u16::try_from(partition).unwrap_or(u16::MAX));
            // The last one is looked at in any case: it knows whether the table is still what it was.
            let is_last = self.partitions.is_empty();
            if !is_last && !self.candidates.contains(partition) {
                continue;
            }
            let scanned = self.access.scan(&self.region, &self.view, partition, &self.columns, self.version);
            let mut batches = scanned.map_err(external)?;
            batches.reverse();
            for scanned in batches {
                self.split(scanned);
            }
        };
        let batch = scanned.batch;
        let batch = if batch.num_columns() == self.scan_schema.fields().len() && batch.num_columns() > 0 {
            RecordBatch::try_new(Arc::clone(&self.scan_schema), batch.columns().to_vec())?
        } else {
            batch
        };
        // Invisible rows leave before the filter looks: it may fail on a value that nobody can see any more.
        let batch = match scanned.visible {
            Some(visible) => filter_record_batch(&batch, &BooleanArray::new(visible, None))?,
            None => batch,
        };
        self.looked_at.add(batch.num_rows());
        let mut passed = match &self.predicate {
            Some(predicate) => filtered(&batch, predicate, |batch| Ok(batch.project(&self.output)?))?,
            None => batch.project(&self.output)?,
        };
        for told in &mut self.told {
            passed = told.leave_out(passed)?;
        }
        Ok(Some(passed))
    }

    /// Cuts a segment into batches of the engine's size, so that operators downstream work in the cache and the first rows leave early.
    fn split(&mut self, scanned: ashlar_store::ScanBatch) {
        let rows = scanned.batch.num_rows();
        if rows <= self.batch_rows {
            self.pending.push(scanned);
            return;
        }
        let mut starts: Vec<usize> = (0..rows).step_by(self.batch_rows).collect();
        while let Some(start) = starts.pop() {
            let length = self.batch_rows.min(rows - start);
            let visible = scanned.visible.as_ref().map(|visible| visible.slice(start, length));
            self.pending.push(ashlar_store::ScanBatch { batch: scanned.batch.slice(start, length), visible });
        }
    }
}

#[cfg(test)]
mod tests;
