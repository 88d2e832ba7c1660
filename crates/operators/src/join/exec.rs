//! The join's plan node, in place of the engine's `HashJoinExec`.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::{DataFusionError, NullEquality, Result, Statistics, internal_err};
use datafusion_common_runtime::JoinSet;
use datafusion_execution::memory_pool::MemoryConsumer;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion_physical_plan::coop::cooperative;
use datafusion_physical_plan::execution_plan::replace_children_if_necessary;
use datafusion_physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion_physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion_physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, SpillMetrics,
};
use datafusion_physical_plan::projection::ProjectionExec;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, Partitioning, PlanProperties, SpillManager, StatisticsArgs, StatisticsContext,
};
use futures::{StreamExt, TryStreamExt};

use super::files::Side;
use super::filter;
use super::handing_down;
use super::parts;
use super::run::{Ready, Run, batches};
use super::spec::Spec;
use crate::hash_table::hash::Secret;
use crate::memory::Memory;
use crate::null_extended::extended_inputs;
use crate::outputs::{Begun, Started, and_then, ready};

/// An equi-join; see `join`.
///
/// Its statistics and schema, and how projections and filters pass through it, are those of the engine's node that it replaces.
pub struct UnchainedHashJoinExec {
    stock: Arc<HashJoinExec>,
    place: Place,
    shared: Arc<Shared>,
    properties: Arc<PlanProperties>,
}

/// Where a node stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Where nobody has divided streams yet: all streams of the build side come together, and rows come out of any output.
    Anywhere,
    /// In a part of a plan in which streams are divided: what is promised of them stays as it is.
    Stage,
}

/// What the node shares with its outputs.
struct Shared {
    left: Arc<dyn ExecutionPlan>,
    right: Arc<dyn ExecutionPlan>,
    spec: Arc<Spec>,
    metrics: ExecutionPlanMetricsSet,
    /// Tests have all keys collide.
    secret: Option<Secret>,
    /// What scans of the probe side are told of the build side: of one execution.
    told: Option<Arc<DynamicFilterPhysicalExpr>>,
    /// Whether a stream of the probe side is joined with the one of the build side that has its number, and with no other.
    is_by_stream: bool,
    /// What is made of the build side: of each stream for its output, or of all that come together.
    begun: Begun<Ready>,
}

impl UnchainedHashJoinExec {
    /// In the place of the engine's; `None` where that has to do it.
    ///
    /// # Errors
    /// What expressions say of their types.
    pub(crate) fn of(join: &HashJoinExec) -> Result<Option<Self>> {
        Self::with_secret(join, None)
    }

    /// The same with hashes of a kind.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn with_secret(join: &HashJoinExec, secret: Option<Secret>) -> Result<Option<Self>> {
        Self::at(Place::Anywhere, join, secret)
    }

    /// In the place of the engine's in a part of a plan: what is promised of streams and rows stays as it is. Who calls has made sure that
    /// this can be kept.
    ///
    /// # Errors
    /// What expressions say of their types.
    pub(crate) fn one_for_one(join: &HashJoinExec) -> Result<Option<Self>> {
        Self::at(Place::Stage, join, None)
    }

    fn at(place: Place, join: &HashJoinExec, secret: Option<Secret>) -> Result<Option<Self>> {
        let builder = join.builder();
        let builder = match place {
            // All streams of the build side come together, as in the engine's node of this mode the only one does.
            Place::Anywhere => builder.with_partition_mode(PartitionMode::CollectLeft),
            // Nobody takes what it would tell.
            Place::Stage => builder.reset_state(),
        };
        let stock = builder.recompute_properties().build()?;
        let Some(spec) = Spec::of(&stock)? else { return Ok(None) };
        let properties = match place {
            Place::Anywhere => Arc::new(properties_anywhere(&stock)?),
            Place::Stage => Arc::clone(join.properties()),
        };
        let is_by_stream = *stock.partition_mode() == PartitionMode::Partitioned;
        let shared = Shared {
            left: Arc::clone(stock.left()),
            right: Arc::clone(stock.right()),
            spec: Arc::new(spec),
            metrics: ExecutionPlanMetricsSet::new(),
            secret,
            told: None,
            is_by_stream,
            begun: Begun::new(is_by_stream),
        };
        Ok(Some(Self { stock: Arc::new(stock), place, shared: Arc::new(shared), properties }))
    }

    /// This node in the place of the engine's that was made of the one it stands for.
    fn again(&self, stock: &HashJoinExec) -> Result<Self> {
        match Self::at(self.place, stock, self.shared.secret)? {
            Some(own) => Ok(own.telling(self.shared.told.clone())),
            None => internal_err!("a join that was ours is not any more"),
        }
    }

    /// The same, not executed yet, with this to tell the scans of its probe side.
    fn telling(&self, told: Option<Arc<DynamicFilterPhysicalExpr>>) -> Self {
        let Shared { left, right, spec, secret, is_by_stream, .. } = self.shared.as_ref();
        let shared = Shared {
            left: Arc::clone(left),
            right: Arc::clone(right),
            spec: Arc::clone(spec),
            metrics: ExecutionPlanMetricsSet::new(),
            secret: *secret,
            told,
            is_by_stream: *is_by_stream,
            begun: Begun::new(*is_by_stream),
        };
        let (stock, properties) = (Arc::clone(&self.stock), Arc::clone(&self.properties));
        Self { stock, place: self.place, shared: Arc::new(shared), properties }
    }

    /// The filter by which the scans of the probe side are told of the build side.
    #[cfg(test)]
    pub(crate) fn told(&self) -> Option<&Arc<DynamicFilterPhysicalExpr>> {
        self.shared.told.as_ref()
    }
}

/// What is known of rows that come out anywhere.
fn properties_anywhere(stock: &HashJoinExec) -> Result<PlanProperties> {
    let of_stock = match extended_inputs(*stock.join_type(), stock.left(), stock.right()) {
        // What is known of a side that NULL is put beside, the engine would know of the rows of the join.
        Some(inputs) => {
            let shown = stock.builder().with_new_children(inputs)?.recompute_properties().build()?;
            Arc::clone(shown.properties())
        }
        None => Arc::clone(stock.properties()),
    };
    let mut equivalences = of_stock.equivalence_properties().clone();
    // Rows that went through files come out anywhere.
    equivalences.clear_orderings();
    equivalences.clear_per_partition_constants();
    let streams = stock.right().output_partitioning().partition_count();
    let partitioning = Partitioning::UnknownPartitioning(streams);
    Ok(PlanProperties::new(equivalences, partitioning, of_stock.emission_type, of_stock.boundedness))
}

impl Shared {
    /// Begins to read what an output has of the build side: its stream, or all of them.
    fn begin(&self, context: &Arc<TaskContext>, output: usize) -> Result<Started<Ready>> {
        let streams = self.left.output_partitioning().partition_count();
        let (part, read, parts) =
            if self.is_by_stream { (output, output..output + 1, streams.max(1)) } else { (0, 0..streams, 1) };
        let consumer = MemoryConsumer::new("HashJoin").with_can_spill(true);
        let peak = MetricBuilder::new(&self.metrics).gauge("peak_mem_used", part);
        let memory = Arc::new(Memory::new(consumer.register(context.memory_pool()), peak));
        let metrics = SpillMetrics::new(&self.metrics, part);
        let side = |schema: &SchemaRef| {
            let manager = SpillManager::new(context.runtime_env(), metrics.clone(), Arc::clone(schema));
            Side::new(manager, &memory)
        };
        let expected = StatisticsContext::new().compute(self.left.as_ref(), &StatisticsArgs::new())?;
        let expected = expected.num_rows.get_value().map(|rows| rows.div_ceil(parts));
        let shared = parts::Shared {
            spec: Arc::clone(&self.spec),
            left: side(&self.spec.left_schema),
            right: side(&self.spec.right_schema),
            memory: Arc::clone(&memory),
            secret: self.secret.unwrap_or_else(Secret::random),
            threads: context.session_config().target_partitions(),
            batch_rows: context.session_config().batch_size(),
            seen: Arc::default(),
            levels: MetricBuilder::new(&self.metrics).gauge("spill_levels", part),
            blocks: MetricBuilder::new(&self.metrics).counter("spill_blocks", part),
        };
        let run = Arc::new(Run::new(shared, expected));
        let inputs = read.map(|stream| self.left.execute(stream, Arc::clone(context)));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let probes = if self.is_by_stream { 1 } else { self.right.output_partitioning().partition_count() };
        let (spec, told) = (Arc::clone(&self.spec), self.told.clone());
        Ok(Started::new(async move {
            let ready = consume(run, inputs, probes).await;
            let said = told.map_or(Ok(()), |told| {
                // Where nothing is known nobody is to wait for it either.
                let table = ready.as_ref().ok().and_then(Ready::table);
                filter::publish(&told, &spec, table)
            });
            ready.and_then(|ready| said.map(|()| Arc::new(ready)))
        }))
    }

    /// The batches of an output.
    async fn batches(
        self: Arc<Self>,
        context: Arc<TaskContext>,
        right: SendableRecordBatchStream,
        output: usize,
    ) -> Result<impl futures::Stream<Item = Result<RecordBatch>>> {
        let outcome = self.begun.outcome(output, || self.begin(&context, output))?;
        let ready = ready(outcome).await?;
        // The table goes with its stream where no other output wants it.
        self.begun.let_go(output);
        Ok(batches(ready, right))
    }
}

/// Reads all streams of the build side to their ends.
async fn consume(run: Arc<Run>, inputs: Vec<SendableRecordBatchStream>, probes: usize) -> Result<Ready> {
    let mut tasks = JoinSet::new();
    for input in inputs {
        let run = Arc::clone(&run);
        tasks.spawn(async move { run.consume(input).await });
    }
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(ended) => ended?,
            Err(error) => return Err(DataFusionError::ExecutionJoin(Box::new(error))),
        }
    }
    let Some(run) = Arc::into_inner(run) else { return internal_err!("a stream of a join has not ended") };
    run.ready(probes).await
}

impl fmt::Debug for UnchainedHashJoinExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for UnchainedHashJoinExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = &self.stock;
        let on: Vec<String> = join.on().iter().map(|(left, right)| format!("({left}, {right})")).collect();
        write!(f, "UnchainedHashJoinExec: join_type={:?}, on=[{}]", join.join_type(), on.join(", "))?;
        if let Some(filter) = join.filter() {
            write!(f, ", filter={}", filter.expression())?;
        }
        if let Some(projection) = &join.projection {
            let name = |at: &usize| format!("{}@{at}", join.join_schema().field(*at).name());
            write!(f, ", projection=[{}]", projection.iter().map(name).collect::<Vec<_>>().join(", "))?;
        }
        if join.null_equality() == NullEquality::NullEqualsNull {
            f.write_str(", NullsEqual: true")?;
        }
        if join.null_aware { f.write_str(", null_aware") } else { Ok(()) }
    }
}

impl ExecutionPlan for UnchainedHashJoinExec {
    fn name(&self) -> &str {
        "UnchainedHashJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.stock.children()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        match self.place {
            Place::Anywhere => InputDistributionRequirements::new(vec![Distribution::UnspecifiedDistribution; 2]),
            Place::Stage => self.stock.input_distribution_requirements(),
        }
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.shared.spec.schema)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.stock.apply_expressions(f)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.again(&self.stock.builder().with_new_children(children)?.recompute_properties().build()?)?))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        // Scans that hold it still read whole tables.
        if let Some(told) = &self.shared.told {
            filter::take_back(told)?;
        }
        Ok(Arc::new(self.telling(None)))
    }

    fn dynamic_expressions_produced(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        let told = self.shared.told.iter();
        told.map(|told| -> Arc<dyn PhysicalExpr> { Arc::<DynamicFilterPhysicalExpr>::clone(told) }).collect()
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.shared.metrics.clone_inner())
    }

    fn execute(&self, stream_partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let metrics = BaselineMetrics::new(&self.shared.metrics, stream_partition);
        let right = self.shared.right.execute(stream_partition, Arc::clone(&context))?;
        let batches = Arc::clone(&self.shared).batches(context, right, stream_partition);
        let batches = futures::stream::once(batches).try_flatten();
        let counted = batches.inspect_ok(move |batch| {
            metrics.record_output(batch.num_rows());
        });
        let (shared, outputs) = (Arc::clone(&self.shared), self.properties.output_partitioning().partition_count());
        let counted = and_then(counted, move || shared.begun.end(stream_partition, outputs));
        // What is ready is given out as fast as it is taken: others on the thread get their turn in between.
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(self.schema(), counted.boxed()))))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.stock.child_stats_requests(partition)
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        self.stock.statistics_from_inputs(inputs, args)
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        // The columns of the probe side would not be those any more that its scans are told of.
        if self.shared.told.is_some() {
            return Ok(None);
        }
        let Some(swapped) = self.stock.try_swapping_with_projection(projection)? else { return Ok(None) };
        if let Some(stock) = swapped.downcast_ref::<HashJoinExec>() {
            return Ok(Some(Arc::new(self.again(stock)?)));
        }
        // What could not go into the join stands above it.
        let [child] = swapped.children()[..] else { return Ok(None) };
        let Some(stock) = child.downcast_ref::<HashJoinExec>() else { return Ok(None) };
        let own = Arc::new(self.again(stock)?);
        replace_children_if_necessary(swapped, vec![own]).map(Some)
    }

    fn gather_filters_for_pushdown(
        &self,
        phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        let mut config = config.clone();
        // Where NULL is perhaps equal to anything, it matters what the probe side has that matches nothing. Of many tables each would say
        // what it has, and leave out rows of the others.
        let Shared { told, spec, is_by_stream, .. } = self.shared.as_ref();
        let is_silent = told.is_some() || spec.null_aware || *is_by_stream;
        if is_silent || !handing_down::is_clear(self.stock.right())? {
            config.optimizer.enable_join_dynamic_filter_pushdown = false;
        }
        let described = self.stock.gather_filters_for_pushdown(phase, parent_filters.clone(), &config)?;
        let described = handing_down::described(&self.stock, &described, &parent_filters)?;
        for filter in described.self_filters().iter().flatten() {
            if let Some(told) = filter.downcast_ref::<DynamicFilterPhysicalExpr>() {
                filter::begin(told, &self.shared.spec.right_keys)?;
            }
        }
        Ok(described)
    }

    fn handle_child_pushdown_result(
        &self,
        _: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        // Of the probe side, which is the second child. Whether a scan has it cannot be told: one that does not filter by it may use it
        // to leave out parts of files.
        let told = result.self_filters.get(1).and_then(|filters| filters.first());
        let told = told.map(|told| Arc::clone(&told.predicate));
        let told = told.and_then(|told| Arc::downcast::<DynamicFilterPhysicalExpr>(told).ok());
        let propagation = FilterPushdownPropagation::if_any(result);
        Ok(match told {
            Some(told) => propagation.with_updated_node(Arc::new(self.telling(Some(told)))),
            None => propagation,
        })
    }
}
