//! The plan node of the aggregation. It replaces DataFusion's `AggregateExec`.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::{DataFusionError, Result, internal_err};
use datafusion_common_runtime::JoinSet;
use datafusion_execution::memory_pool::MemoryConsumer;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion_physical_plan::aggregates::AggregateExec;
use datafusion_physical_plan::coop::cooperative;
use datafusion_physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion_physical_plan::filter_pushdown::{
    ChildFilterDescription, ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion_physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, SpillMetrics,
};
use datafusion_physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements,
    Partitioning, PlanProperties, SpillManager,
};
use futures::{StreamExt, TryStreamExt};

use super::partition::Files;
use super::run::{Left, Run};
use super::spec::Spec;
use crate::hash_table::hash::Secret;
use crate::memory::Memory;
use crate::outputs::{Begun, Started, and_then, ready};

/// Grouped aggregation in one stage; see `aggregate`.
pub struct HashAggregateExec {
    shared: Arc<Shared>,
    properties: Arc<PlanProperties>,
}

/// What the node shares with its outputs.
struct Shared {
    input: Arc<dyn ExecutionPlan>,
    spec: Arc<Spec>,
    metrics: ExecutionPlanMetricsSet,
    /// Tests choose by what is hashed.
    secret: Option<Secret>,
    /// What it asks of its input where each stream of that is aggregated by itself, and comes out of the output with its number; `None` where
    /// all streams come together, and groups come out of any output.
    by_stream: Option<InputDistributionRequirements>,
    /// What is made of the input: of each stream for its output, or of all that come together.
    begun: Begun<Left>,
}

impl HashAggregateExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, spec: Spec, streams: usize) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&spec.schema)),
            Partitioning::UnknownPartitioning(streams),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self { shared: Arc::new(Shared::new(input, Arc::new(spec), None, None)), properties: Arc::new(properties) }
    }

    /// In the place of one of the engine's, stream by stream: what is promised of streams and rows stays as it is.
    pub(crate) fn one_for_one(stock: &AggregateExec, spec: Spec) -> Self {
        let by_stream = Some(stock.input_distribution_requirements());
        let shared = Shared::new(Arc::clone(stock.input()), Arc::new(spec), None, by_stream);
        Self { shared: Arc::new(shared), properties: Arc::clone(stock.properties()) }
    }

    /// The expected memory of its groups in bytes; `None` if statistics do not tell the number of groups or the size of their states.
    pub fn expected_bytes(&self) -> Option<usize> {
        let Shared { input, spec, .. } = self.shared.as_ref();
        let known = StatisticsContext::new().compute(input.as_ref(), &StatisticsArgs::new()).ok()?;
        spec.expected_bytes(&known)
    }

    /// The same, with hashes of this secret.
    #[cfg(test)]
    pub(crate) fn with_secret(&self, secret: Secret) -> Self {
        let Shared { input, spec, by_stream, .. } = self.shared.as_ref();
        let shared = Shared::new(Arc::clone(input), Arc::clone(spec), Some(secret), by_stream.clone());
        Self { shared: Arc::new(shared), properties: Arc::clone(&self.properties) }
    }
}

impl Shared {
    fn new(
        input: Arc<dyn ExecutionPlan>,
        spec: Arc<Spec>,
        secret: Option<Secret>,
        by_stream: Option<InputDistributionRequirements>,
    ) -> Self {
        let (metrics, begun) = (ExecutionPlanMetricsSet::new(), Begun::new(by_stream.is_some()));
        Self { input, spec, metrics, secret, by_stream, begun }
    }

    /// Begins to read what an output gives out: its stream of the input, or all of them.
    fn begin(&self, context: &Arc<TaskContext>, output: usize) -> Result<Started<Left>> {
        let streams = self.input.output_partitioning().partition_count();
        let (part, read, parts) = match self.by_stream {
            Some(_) => (output, output..output + 1, streams.max(1)),
            None => (0, 0..streams, 1),
        };
        let consumer = MemoryConsumer::new("HashAggregate").with_can_spill(true);
        let peak = MetricBuilder::new(&self.metrics).gauge("peak_mem_used", part);
        let memory = Arc::new(Memory::new(consumer.register(context.memory_pool()), peak));
        let metrics = SpillMetrics::new(&self.metrics, part);
        let manager = SpillManager::new(context.runtime_env(), metrics, Arc::clone(&self.spec.partial_schema));
        let levels = MetricBuilder::new(&self.metrics).gauge("spill_levels", part);
        let blocks = MetricBuilder::new(&self.metrics).counter("spill_blocks", part);
        let batch_rows = context.session_config().batch_size();
        let files = Files { manager, memory, batch_rows, levels, blocks };
        let expected = StatisticsContext::new().compute(self.input.as_ref(), &StatisticsArgs::new())?;
        let expected = expected.num_rows.get_value().map(|rows| rows.div_ceil(parts));
        let run =
            Arc::new(Run::new(Arc::clone(&self.spec), files, self.secret.unwrap_or_else(Secret::random), expected));
        let inputs = read.map(|stream| self.input.execute(stream, Arc::clone(context)));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        Ok(Started::new(consume(run, inputs)))
    }

    /// The batches of an output.
    async fn batches(
        self: Arc<Self>,
        context: Arc<TaskContext>,
        output: usize,
    ) -> Result<impl futures::Stream<Item = Result<RecordBatch>>> {
        let outcome = self.begun.outcome(output, || self.begin(&context, output))?;
        Ok(ready(outcome).await?.batches())
    }
}

/// Reads all streams to their ends.
async fn consume(run: Arc<Run>, inputs: Vec<SendableRecordBatchStream>) -> Result<Arc<Left>> {
    let mut tasks = JoinSet::new();
    for (number, input) in inputs.into_iter().enumerate() {
        let run = Arc::clone(&run);
        tasks.spawn(async move { run.consume(input, number).await });
    }
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(ended) => ended?,
            Err(error) => return Err(DataFusionError::ExecutionJoin(Box::new(error))),
        }
    }
    let Some(run) = Arc::into_inner(run) else { return internal_err!("a stream of an aggregation has not ended") };
    Ok(Arc::new(run.work()?))
}

impl fmt::Debug for HashAggregateExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HashAggregateExec: {}", self.shared.spec.describe())
    }
}

impl DisplayAs for HashAggregateExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HashAggregateExec: {}", self.shared.spec.describe())
    }
}

impl ExecutionPlan for HashAggregateExec {
    fn name(&self) -> &str {
        "HashAggregateExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.shared.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let by_stream = self.shared.by_stream.clone();
        by_stream.unwrap_or_else(|| InputDistributionRequirements::new(vec![Distribution::UnspecifiedDistribution]))
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.shared.spec.schema)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for expr in self.shared.spec.expressions() {
            f(expr)?;
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(input), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("an aggregation has one input");
        };
        let Shared { input: before, spec, secret, by_stream, .. } = self.shared.as_ref();
        let count = |input: &Arc<dyn ExecutionPlan>| input.output_partitioning().partition_count();
        if by_stream.is_some() && count(&input) != count(before) {
            return internal_err!("an aggregation by streams has as many of them as it was made for");
        }
        let shared = Shared::new(input, Arc::clone(spec), *secret, by_stream.clone());
        Ok(Arc::new(Self { shared: Arc::new(shared), properties: Arc::clone(&self.properties) }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.shared.metrics.clone_inner())
    }

    fn execute(&self, stream_partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let metrics = BaselineMetrics::new(&self.shared.metrics, stream_partition);
        let batches = futures::stream::once(Arc::clone(&self.shared).batches(context, stream_partition)).try_flatten();
        let counted = batches.inspect_ok(move |batch| {
            metrics.record_output(batch.num_rows());
        });
        let (shared, outputs) = (Arc::clone(&self.shared), self.properties.output_partitioning().partition_count());
        let counted = and_then(counted, move || shared.begun.end(stream_partition, outputs));
        // What is ready is given out as fast as it is taken: others on the thread get their turn in between.
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(self.schema(), counted.boxed()))))
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        // What asks for keys alone says which groups there are, and not what is known of them.
        let Shared { input, spec, .. } = self.shared.as_ref();
        let child = match spec.plain_keys(&input.schema()) {
            Some(keys) => ChildFilterDescription::from_child_with_allowed_indices(&parent_filters, keys, input)?,
            None => ChildFilterDescription::all_unsupported(&parent_filters),
        };
        Ok(FilterDescription::new().with_child(child))
    }

    fn handle_child_pushdown_result(
        &self,
        _: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        Ok(FilterPushdownPropagation::if_all(result))
    }
}
