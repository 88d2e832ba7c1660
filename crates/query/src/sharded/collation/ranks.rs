//! Adds the ranks of texts to rows, as a server says them: a logical node, and the physical one that it becomes.
//!
//! ```text
//! rows are read to the end ──▶ each different text once, with a number ──▶ a server says their ranks ──▶ the rows, with ranks
//! ```
//!
//! All rows are kept meanwhile, and a number for each text of each; both are charged, as the texts are. Made by `ranked`.

use std::cmp::Ordering;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use ashlar_base::scope::{Name, scope};
use ashlar_base::{Error, ErrorCode};
use ashlar_functions::error::external;
use ashlar_functions::names::NAME_END;
use ashlar_shard::collation::ranks_of;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::common::{DFSchema, DFSchemaRef, Result, internal_err};
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};
use datafusion::physical_expr::{Distribution, EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, Partitioning, PlanProperties,
};
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use futures::StreamExt;
use hashbrown::HashMap;

use super::asked::Ranker;
use crate::sharded::scan::Asking;

static RANKS: Name = Name::new("ranks of texts");

/// What a different text takes until the ranks are there: copies of its bytes, in the table and on their way to the server, at the end of which
/// is a buffer that grows by doubling; beside them its places in a table that grows and in a list, its length, and its rank.
const TEXT_COPIES: usize = 5;
const TEXT_BYTES: usize = 112;

const RANK: &str = "rank";

/// The number of NULL.
const NONE: u32 = u32::MAX;

/// The name of the column of a rank, which nobody can write; EXPLAIN shows it without its number.
pub(super) fn rank_name(at: usize) -> String {
    format!("{RANK}{NAME_END}{at}")
}

/// Whether it is such a name.
pub(super) fn is_rank_name(name: &str) -> bool {
    name.strip_prefix(RANK).is_some_and(|rest| rest.starts_with(NAME_END))
}

/// Such a column.
pub(super) fn rank_field(at: usize) -> Field {
    Field::new(rank_name(at), DataType::Int64, true)
}

/// Rows with the ranks of texts: a bigint for each, in the order of the texts, NULL for NULL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ranks {
    input: Arc<LogicalPlan>,
    texts: Vec<Expr>,
    ranker: Ranker,
    schema: DFSchemaRef,
}

impl Ranks {
    /// A plan whose columns are those of `input` and, by [`rank_name`], the ranks of `texts`.
    ///
    /// # Errors
    /// As DataFusion's schemas.
    pub(super) fn over(input: Arc<LogicalPlan>, texts: Vec<Expr>, ranker: Ranker) -> Result<LogicalPlan> {
        let ranks = (0..texts.len()).map(|at| (None, Arc::new(rank_field(at))));
        let own = input.schema().iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field)));
        let schema = DFSchema::new_with_metadata(own.chain(ranks).collect(), input.schema().metadata().clone())?;
        let schema = schema.with_functional_dependencies(input.schema().functional_dependencies().clone())?;
        let node = Arc::new(Self { input, texts, ranker, schema: Arc::new(schema) });
        Ok(LogicalPlan::Extension(Extension { node }))
    }
}

impl PartialOrd for Ranks {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        if self == other {
            return Some(Ordering::Equal);
        }
        let parts = |ranks: &Self| (ranks.texts.clone(), Arc::clone(&ranks.input));
        parts(self).partial_cmp(&parts(other)).filter(|order| order.is_ne())
    }
}

impl UserDefinedLogicalNodeCore for Ranks {
    fn name(&self) -> &'static str {
        "Ranks"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.texts.clone()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.texts.iter().map(ToString::to_string).collect();
        write!(f, "Ranks: {}", texts.join(", "))
    }

    fn with_exprs_and_inputs(&self, texts: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let (Some(input), true) = (inputs.pop(), inputs.is_empty()) else {
            return internal_err!("ranks have one input");
        };
        match Self::over(Arc::new(input), texts, self.ranker.clone())? {
            LogicalPlan::Extension(Extension { node }) => match node.as_any().downcast_ref::<Self>() {
                Some(made) => Ok(made.clone()),
                None => internal_err!("ranks are another node"),
            },
            _ => internal_err!("ranks are another node"),
        }
    }

    /// Each column of the input is asked for where it is one of the output; what texts are made of is added by the optimiser.
    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let columns = self.input.schema().fields().len();
        Some(vec![output_columns.iter().copied().filter(|column| *column < columns).collect()])
    }
}

/// The engine's planner, which knows of ranks.
#[derive(Debug)]
pub(crate) struct WithRanks;

impl QueryPlanner for WithRanks {
    // Written out: the trait is one of another crate's macro.
    fn create_physical_plan<'s, 'p, 'e, 'r>(
        &'s self,
        plan: &'p LogicalPlan,
        session: &'e dyn Session,
    ) -> Pin<Box<dyn Future<Output = Result<Arc<dyn ExecutionPlan>>> + Send + 'r>>
    where
        's: 'r,
        'p: 'r,
        'e: 'r,
    {
        Box::pin(async move {
            let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(Self)]);
            planner.create_physical_plan(plan, session).await
        })
    }
}

impl ExtensionPlanner for WithRanks {
    fn plan_extension<'s, 'a, 'n, 'l, 'i, 'p, 'e, 'c, 'r>(
        &'s self,
        planner: &'a dyn PhysicalPlanner,
        node: &'n dyn UserDefinedLogicalNode,
        _: &'l [&'i LogicalPlan],
        inputs: &'p [Arc<dyn ExecutionPlan>],
        session: &'e dyn Session,
        context: &'c PhysicalPlanningContext,
    ) -> Pin<Box<dyn Future<Output = Result<Option<Arc<dyn ExecutionPlan>>>> + Send + 'r>>
    where
        's: 'r,
        'a: 'r,
        'n: 'r,
        'l: 'r,
        'i: 'r,
        'p: 'r,
        'e: 'r,
        'c: 'r,
    {
        let planned = || {
            let Some(ranks) = node.as_any().downcast_ref::<Ranks>() else { return Ok(None) };
            let [input] = inputs else { return internal_err!("ranks have one input") };
            let schema = ranks.input.schema();
            let text = |text| planner.create_physical_expr(text, schema, session, context);
            let texts = ranks.texts.iter().map(text).collect::<Result<_>>()?;
            let exec = RanksExec::new(Arc::clone(input), texts, ranks.ranker.clone());
            Ok(Some(Arc::new(exec) as Arc<dyn ExecutionPlan>))
        };
        Box::pin(std::future::ready(planned()))
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct RanksExec {
    input: Arc<dyn ExecutionPlan>,
    texts: Vec<Arc<dyn PhysicalExpr>>,
    ranker: Ranker,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl RanksExec {
    fn new(input: Arc<dyn ExecutionPlan>, texts: Vec<Arc<dyn PhysicalExpr>>, ranker: Ranker) -> Self {
        // As its rows are: a plan may say of columns that they are never NULL that are.
        let columns = input.schema();
        let ranks = (0..texts.len()).map(|at| Arc::new(rank_field(at)));
        let fields: Vec<_> = columns.fields().iter().map(Arc::clone).chain(ranks).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, columns.metadata().clone()));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self { input, texts, ranker, properties: Arc::new(properties), metrics: ExecutionPlanMetricsSet::new() }
    }
}

impl DisplayAs for RanksExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.texts.iter().map(ToString::to_string).collect();
        write!(f, "RanksExec: texts=[{}], server={}", texts.join(", "), self.ranker.server)
    }
}

impl ExecutionPlan for RanksExec {
    fn name(&self) -> &'static str {
        "RanksExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    /// Ranks of one stream say nothing of texts of another one.
    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for text in &self.texts {
            if f(text)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(input), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("ranks have one input");
        };
        Ok(Arc::new(Self::new(input, self.texts.clone(), self.ranker.clone())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, stream_partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(asking) = context.session_config().get_extension::<Asking>() else {
            return internal_err!("ranks are asked for by nobody");
        };
        let input = self.input.execute(stream_partition, Arc::clone(&context))?;
        let kept = Kept {
            texts: self.texts.clone(),
            batches: Vec::new(),
            numbers: HashMap::new(),
            counter: RecordBatchMemoryCounter::new(),
            memory: MemoryConsumer::new("RanksExec").register(context.memory_pool()),
            charged: 0,
        };
        let (ranker, schema) = (self.ranker.clone(), self.schema());
        let metrics = BaselineMetrics::new(&self.metrics, stream_partition);
        let ranked = async move {
            let ranked = scope(&RANKS, kept.ranked(input, &ranker, &asking)).await?;
            Ok::<_, datafusion::error::DataFusionError>(ranked.into_stream(schema, metrics))
        };
        let stream = futures::stream::once(ranked);
        let stream = futures::TryStreamExt::try_flatten(stream);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
    }
}

/// Rows that wait for ranks.
struct Kept {
    texts: Vec<Arc<dyn PhysicalExpr>>,
    /// Each with the numbers of its texts, expression by expression, and what is charged for it.
    batches: Vec<(RecordBatch, Vec<Vec<u32>>, usize)>,
    /// By text, in the order of their first rows.
    numbers: HashMap<Box<[u8]>, u32>,
    /// What of the rows is charged: a buffer once, however many batches are parts of it.
    counter: RecordBatchMemoryCounter,
    memory: MemoryReservation,
    /// What of that is charged for the texts.
    charged: usize,
}

impl Kept {
    /// Reads all rows, and has their texts ranked.
    async fn ranked(
        mut self,
        mut input: SendableRecordBatchStream,
        ranker: &Ranker,
        asking: &Asking,
    ) -> Result<Ranked> {
        while let Some(batch) = input.next().await {
            self.keep(batch?)?;
        }
        drop(input);
        let mut texts: Vec<&[u8]> = vec![&[]; self.numbers.len()];
        for (text, number) in &self.numbers {
            texts[*number as usize] = text;
        }
        let mut ranks = Vec::new();
        if !texts.is_empty() {
            let turn = Arc::clone(&asking.turn);
            let mut at_work = turn.work().await.map_err(external)?;
            let lent = ranker.lend(&asking.role, asking.reads_replicas);
            let mut lease = at_work.wait(lent).await.flatten().map_err(external)?;
            let asked = ranks_of(&mut lease, None, &texts);
            ranks = at_work.wait(Box::pin(asked)).await.flatten().map_err(external)?;
        }
        // Of the texts there are their ranks left.
        self.memory.shrink(self.charged.saturating_sub(size_of_val(ranks.as_slice())));
        // What several batches are parts of is there until the last of them is gone.
        self.batches.reverse();
        let mut counter = RecordBatchMemoryCounter::new();
        for (batch, numbers, charged) in &mut self.batches {
            *charged = counter.count_batch(batch) + numbers.len() * batch.num_rows() * size_of::<u32>();
        }
        Ok(Ranked { batches: self.batches, ranks, memory: self.memory })
    }

    fn keep(&mut self, batch: RecordBatch) -> Result<()> {
        let numbers = self.texts.len() * batch.num_rows() * size_of::<u32>();
        let charged = self.counter.count_batch(&batch) + numbers;
        self.memory.try_grow(charged)?;
        let mut all = Vec::with_capacity(self.texts.len());
        for text in self.texts.clone() {
            all.push(match text.evaluate(&batch)? {
                ColumnarValue::Array(texts) => self.number(&texts)?,
                // Of a constant there is one, however many the rows are.
                ColumnarValue::Scalar(text) => {
                    let number = self.number(&text.to_array()?)?;
                    vec![number.first().copied().unwrap_or(NONE); batch.num_rows()]
                }
            });
        }
        self.batches.push((batch, all, charged));
        Ok(())
    }

    /// The numbers of these texts.
    fn number(&mut self, texts: &ArrayRef) -> Result<Vec<u32>> {
        let mut number = |text: Option<&str>| self.number_of(text.map(str::as_bytes));
        match texts.data_type() {
            DataType::Utf8 => texts.as_string::<i32>().iter().map(&mut number).collect(),
            DataType::LargeUtf8 => texts.as_string::<i64>().iter().map(&mut number).collect(),
            DataType::Utf8View => texts.as_string_view().iter().map(&mut number).collect(),
            DataType::Null => Ok(vec![NONE; texts.len()]),
            other => internal_err!("ranks of {other}"),
        }
    }

    fn number_of(&mut self, text: Option<&[u8]>) -> Result<u32> {
        let Some(text) = text else { return Ok(NONE) };
        if let Some(number) = self.numbers.get(text) {
            return Ok(*number);
        }
        let charged = TEXT_COPIES * text.len() + TEXT_BYTES;
        self.memory.try_grow(charged)?;
        self.charged += charged;
        // A server counts them by the same number.
        let number = u32::try_from(self.numbers.len()).ok().filter(|number| i32::try_from(*number).is_ok());
        let number = number.ok_or_else(|| {
            external(Error::new(ErrorCode::ProgramLimitExceeded, "there are too many texts to be sorted"))
        })?;
        self.numbers.insert(text.into(), number);
        Ok(number)
    }
}

/// Rows whose texts have their ranks.
struct Ranked {
    /// The next one last.
    batches: Vec<(RecordBatch, Vec<Vec<u32>>, usize)>,
    /// By the number of a text.
    ranks: Vec<u32>,
    memory: MemoryReservation,
}

impl Ranked {
    fn into_stream(
        mut self,
        schema: SchemaRef,
        metrics: BaselineMetrics,
    ) -> impl futures::Stream<Item = Result<RecordBatch>> {
        futures::stream::iter(std::iter::from_fn(move || {
            let (batch, numbers, charged) = self.batches.pop()?;
            self.memory.shrink(charged);
            let ranked = self.with_ranks(&batch, &numbers, &schema);
            metrics.record_output(batch.num_rows());
            Some(ranked)
        }))
    }

    fn with_ranks(&self, batch: &RecordBatch, numbers: &[Vec<u32>], schema: &SchemaRef) -> Result<RecordBatch> {
        let mut columns = batch.columns().to_vec();
        for numbers in numbers {
            let rank = |number: &u32| self.ranks.get(*number as usize).copied().map(i64::from);
            columns.push(Arc::new(numbers.iter().map(rank).collect::<Int64Array>()));
        }
        Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
    }
}
