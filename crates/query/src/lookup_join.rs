//! Joins of few rows with a table that has a key or an index for them: the table is asked for their values only.
//!
//! A rule of the physical optimizer puts a [`LookupJoinExec`] in the place of a hash join one side of which is small,
//! as far as is known, and whose other side is a scan of a grid table with a key or an index on the columns that are
//! joined. When it runs, it reads the small side to its end, lets the scan find the rows that have its values, and
//! hash-joins the two: a row without a partner changes nothing in the joins that are taken. Where the small side turns
//! out to be large, the join is the one that it was.
//!
//! Either side may be of any size when it is joined: the small one because nobody has counted it, the table because an
//! index may have many rows for a value. So the join of the two is a node of ours wherever those are wanted, which goes
//! to files where it has no room. It is made when the rules have run; EXPLAIN names it, and shows its figures as those of
//! the lookup join.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use ashlar_base::{ColumnId, IndexDef, IndexKind, SqlType, Value};
use ashlar_operators::HashJoins;
use ashlar_store::{Probe, Region};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, NullEquality, Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_expr::{Distribution, EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, Metric, MetricBuilder, MetricValue, MetricsSet,
};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements, Partitioning,
    PlanProperties,
};
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;

use crate::access::settle::{scan_beneath, with_access};
use crate::access::{Access, Keys, equalities, usable_indexes, value_at};
use crate::engine::Whose;
use crate::grid_table::GridScanExec;

/// Rows of a small side. A lookup by key takes a fraction of a microsecond; for more rows a hash join is no worse.
const SMALL_ROWS_MAX: usize = 8192;
/// A table is read by keys if it has at least this many times the rows of the small side: looking up one row takes as long as reading
/// several in order.
const TABLE_SHARE: usize = 8;
/// Rows that conditions on an index are assumed to leave, if nothing else is known.
const ASKED_ROWS: usize = 500;
/// Rows that an index is assumed to have for one value, if nothing else is known.
const ROWS_PER_VALUE: usize = 10;
/// Bytes of a key beside its values: its places in lists that grow, and what asks an index for it.
const KEY_BYTES: usize = 4 * size_of::<Box<[Value]>>() + size_of::<Probe>();

/// The rule: see the module.
#[derive(Debug)]
pub(crate) struct LookupJoins {
    /// Whose node joins the small side with the rows that were found for it.
    pub(crate) joins: Whose,
}

impl PhysicalOptimizerRule for LookupJoins {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let looked_up = plan.transform_up(|node| {
            let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(Transformed::no(node)) };
            Ok(match LookupJoinExec::of(join, self.joins)? {
                Some(found) => Transformed::yes(Arc::new(found) as Arc<dyn ExecutionPlan>),
                None => Transformed::no(node),
            })
        });
        looked_up.map(|plan| plan.data)
    }

    fn name(&self) -> &str {
        "lookup_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The most rows that a plan can return, as far as that is known without running it.
fn rows_of(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    if let Some(scan) = plan.downcast_ref::<GridScanExec>() {
        let stored = || usize::try_from(scan.region().row_estimate()).unwrap_or(usize::MAX);
        let rows = match scan.access() {
            Access::Asked(asked) if asked.key.is_some() => 1,
            access if access.is_narrow() => stored().min(ASKED_ROWS),
            _ => stored(),
        };
        return Some(scan.rows_max().map_or(rows, |limit| limit.min(rows)));
    }
    if let Some(join) = plan.downcast_ref::<LookupJoinExec>() {
        return Some(rows_of(&join.small)?.saturating_mul(join.rows_per_key()));
    }
    if plan.is::<PlaceholderRowExec>() {
        return Some(1);
    }
    if plan.is::<EmptyExec>() {
        return Some(0);
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>()
        && aggregate.group_expr().is_true_no_grouping()
    {
        return Some(1);
    }
    // How many items the array of a row has is seen when it is read.
    if plan.name() == "UnnestExec" {
        return match &plan.children()[..] {
            [input] if rows_of(input) == Some(1) => Some(ASKED_ROWS),
            _ => None,
        };
    }
    // What has one input and gives no more rows than that has.
    const NARROWING: [&str; 10] = [
        "ProjectionExec",
        "FilterExec",
        "CoalesceBatchesExec",
        "CoalescePartitionsExec",
        "CooperativeExec",
        "RepartitionExec",
        "SortExec",
        "AggregateExec",
        "GlobalLimitExec",
        "LocalLimitExec",
    ];
    let below = match &plan.children()[..] {
        [input] if NARROWING.contains(&plan.name()) => rows_of(input),
        _ => None,
    };
    below.into_iter().chain(plan.fetch()).min()
}

/// The source of a value of a key.
#[derive(Clone, Debug)]
enum Source {
    /// An expression over the small side, with the type of the table's column; `true` if its integers are wider than that.
    Joined(Arc<dyn PhysicalExpr>, SqlType, bool),
    /// A constant, from a condition of the table's scan.
    Constant(Value),
}

/// The access path to the table's rows.
#[derive(Clone, Debug)]
enum By {
    Key,
    Index(Arc<IndexDef>),
}

/// See the module.
pub(crate) struct LookupJoinExec {
    join: Arc<HashJoinExec>,
    /// The side of the join whose rows are looked up in the table.
    small: Arc<dyn ExecutionPlan>,
    /// Whether that is the left side.
    is_left: bool,
    /// The other side, with the scan beneath its other nodes.
    table: Arc<dyn ExecutionPlan>,
    by: By,
    sources: Vec<Source>,
    joins: Whose,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// The join that was made when it ran.
    made: Made,
}

/// A join that is made when the small side has been read; none before.
type Made = Arc<Mutex<Option<Arc<dyn ExecutionPlan>>>>;

impl LookupJoinExec {
    /// The lookup join for a hash join; `None` if the hash join is as good.
    fn of(join: &HashJoinExec, joins: Whose) -> Result<Option<Self>> {
        if join.null_equality() != NullEquality::NullEqualsNothing || join.null_aware {
            return Ok(None);
        }
        for is_left in [true, false] {
            let (small, table) = if is_left { (join.left(), join.right()) } else { (join.right(), join.left()) };
            // In these a row of the table without a partner leaves no trace.
            let is_taken = match join.join_type() {
                JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi => true,
                JoinType::Left | JoinType::LeftAnti | JoinType::LeftMark => is_left,
                JoinType::Right | JoinType::RightAnti | JoinType::RightMark => !is_left,
                JoinType::Full => false,
            };
            let Some((scan, columns)) = scan_beneath(table).filter(|_| is_taken) else { continue };
            let Some(asked) = scan.asked().filter(|asked| asked.key.is_none()) else { continue };
            let Some(rows) = rows_of(small) else { continue };
            let stored = usize::try_from(scan.region().row_estimate()).unwrap_or(usize::MAX);
            // A condition of the table's own may leave fewer rows than there are to be looked up.
            let others = if asked.is_narrow() { 2 * ASKED_ROWS } else { stored };
            if rows > SMALL_ROWS_MAX || rows.saturating_mul(TABLE_SHARE) > stored || rows > others {
                continue;
            }
            let joined = Joined { join, is_left, scan, columns: &columns, table };
            if let Some((by, sources)) = joined.sources(small)? {
                let properties = PlanProperties::new(
                    EquivalenceProperties::new(join.schema()),
                    Partitioning::UnknownPartitioning(1),
                    EmissionType::Incremental,
                    Boundedness::Bounded,
                );
                return Ok(Some(Self {
                    join: Arc::new(join.builder().build()?),
                    small: Arc::clone(small),
                    is_left,
                    table: Arc::clone(table),
                    by,
                    sources,
                    joins,
                    properties: Arc::new(properties),
                    metrics: ExecutionPlanMetricsSet::new(),
                    made: Made::default(),
                }));
            }
        }
        Ok(None)
    }

    fn rows_per_key(&self) -> usize {
        match self.by {
            By::Key => 1,
            By::Index(_) => ROWS_PER_VALUE,
        }
    }

    fn scan(&self) -> Result<&GridScanExec> {
        match scan_beneath(&self.table) {
            Some((scan, _)) => Ok(scan),
            None => internal_err!("a lookup join without its table"),
        }
    }

    /// The join of the small side with the table, whose rows are found by this access path.
    fn join_of(
        &self,
        small: Arc<dyn ExecutionPlan>,
        access: Option<&Access>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let table = match access {
            Some(access) => with_access(&self.table, access, Some(1))?,
            None => Arc::clone(&self.table),
        };
        let (left, right) = if self.is_left { (small, table) } else { (table, small) };
        let left: Arc<dyn ExecutionPlan> = match left.output_partitioning().partition_count() {
            1 => left,
            _ => Arc::new(CoalescePartitionsExec::new(left)),
        };
        let join = self.join.builder().with_new_children(vec![left, right])?;
        let join = join.with_partition_mode(PartitionMode::CollectLeft).reset_state().build_exec()?;
        match self.joins {
            Whose::Own => HashJoins.optimize(join, config),
            Whose::Stock => Ok(join),
        }
    }

    /// The name of the node that joins the rows, as it will be made.
    fn name_of_join(&self) -> Result<String> {
        let small = Arc::new(EmptyExec::new(self.small.schema()));
        Ok(self.join_of(small, None, &ConfigOptions::default())?.name().to_owned())
    }
}

/// Whether a figure of the join that was made says what nobody else says: its rows and its time are the lookup join's.
fn is_of_join_alone(metric: &Metric) -> bool {
    matches!(
        metric.value(),
        MetricValue::SpillCount(_)
            | MetricValue::SpilledBytes(_)
            | MetricValue::SpilledRows(_)
            | MetricValue::Count { .. }
            | MetricValue::Gauge { .. }
    )
}

/// A hash join that is examined.
struct Joined<'a> {
    join: &'a HashJoinExec,
    is_left: bool,
    scan: &'a GridScanExec,
    /// For each output of the table's side, the column of the table that it is.
    columns: &'a [Option<usize>],
    table: &'a Arc<dyn ExecutionPlan>,
}

impl Joined<'_> {
    /// How the rows of the table can be found by those of the small side, if they can.
    fn sources(&self, small: &Arc<dyn ExecutionPlan>) -> Result<Option<(By, Vec<Source>)>> {
        let region: &Arc<Region> = self.scan.region();
        let (schema, arrow) = (region.schema(), region.arrow_schema());
        if schema.version != self.scan.version() {
            return Ok(None);
        }
        let constants = equalities(region, self.scan.conditions());
        let mut joined: Vec<(usize, Source)> = Vec::new();
        for (left, right) in self.join.on() {
            let (of_small, of_table) = if self.is_left { (left, right) } else { (right, left) };
            let Some((ordinal, width)) = self.column(of_table) else { continue };
            let Some(column) = arrow.fields().get(ordinal) else { continue };
            let found = of_small.data_type(&small.schema())?;
            let sql_type = schema.columns[ordinal].sql_type;
            // Of floats that are equal, one may be written otherwise.
            let is_float = matches!(column.data_type(), DataType::Float32 | DataType::Float64);
            let widens = match &width {
                None if found == *column.data_type() && !is_float && !sql_type.is_array() => false,
                Some(width) if found == *width => true,
                _ => continue,
            };
            if joined.iter().all(|(known, _)| *known != ordinal) {
                joined.push((ordinal, Source::Joined(Arc::clone(of_small), sql_type, widens)));
            }
        }
        if joined.is_empty() {
            return Ok(None);
        }
        let source = |ordinal: usize| {
            let of_join = joined.iter().find(|(known, _)| *known == ordinal).map(|(_, source)| source.clone());
            let constant = constants.iter().find(|(id, _)| *id == schema.columns[ordinal].id);
            of_join.or_else(|| constant.map(|(_, value)| Source::Constant(value.clone())))
        };
        if !schema.hidden_key
            && let Some(sources) = schema.key.iter().map(|ordinal| source(*ordinal)).collect::<Option<Vec<_>>>()
        {
            return Ok(Some((By::Key, sources)));
        }
        for index in usable_indexes(region) {
            let of_column = |id: &ColumnId| source(schema.columns.iter().position(|column| column.id == *id)?);
            let sources: Vec<Source> = index.columns.iter().map_while(of_column).collect();
            let is_whole = index.kind == IndexKind::Btree || sources.len() == index.columns.len();
            if is_whole && sources.iter().any(|source| matches!(source, Source::Joined(..))) {
                return Ok(Some((By::Index(index), sources)));
            }
        }
        Ok(None)
    }

    /// The column of the table that an expression over its side is, and the wider integer type that it is cast to.
    fn column(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<(usize, Option<DataType>)> {
        if let Some(column) = expr.downcast_ref::<Column>() {
            if let Some(ordinal) = self.columns.get(column.index()).copied().flatten() {
                return Some((ordinal, None));
            }
            // A projection beneath the join computes it.
            let projection = self.table.downcast_ref::<datafusion::physical_plan::projection::ProjectionExec>()?;
            let computed = &projection.expr().get(column.index())?.expr;
            let (_, below) = scan_beneath(projection.input())?;
            return widened(computed, &below, &self.scan.region().arrow_schema());
        }
        widened(expr, self.columns, &self.scan.region().arrow_schema())
    }
}

/// A cast of a column to a wider integer type.
fn widened(
    expr: &Arc<dyn PhysicalExpr>,
    columns: &[Option<usize>],
    schema: &SchemaRef,
) -> Option<(usize, Option<DataType>)> {
    let cast = expr.downcast_ref::<CastExpr>()?;
    let ordinal = columns.get(cast.expr().downcast_ref::<Column>()?.index()).copied().flatten()?;
    let width = |data_type: &DataType| match data_type {
        DataType::Int16 => Some(2),
        DataType::Int32 => Some(4),
        DataType::Int64 => Some(8),
        _ => None,
    };
    let (from, to) = (width(schema.field(ordinal).data_type())?, width(cast.cast_type())?);
    (from < to).then(|| (ordinal, Some(cast.cast_type().clone())))
}

impl fmt::Debug for LookupJoinExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LookupJoinExec by {:?} of {:?}", self.by, self.join)
    }
}

impl DisplayAs for LookupJoinExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on: Vec<String> = self.join.on().iter().map(|(left, right)| format!("({left}, {right})")).collect();
        write!(f, "LookupJoinExec: join_type={:?}, on=[{}]", self.join.join_type(), on.join(", "))?;
        if let Some(filter) = self.join.filter() {
            write!(f, ", filter={}", filter.expression())?;
        }
        if let Ok(name) = self.name_of_join() {
            write!(f, ", in {name}")?;
        }
        match &self.by {
            By::Key => write!(f, ", by the key of ")?,
            By::Index(index) => write!(f, ", by index {} of ", index.name)?,
        }
        match self.scan() {
            Ok(scan) => scan.fmt_as(format, f),
            Err(_) => Ok(()),
        }
    }
}

impl ExecutionPlan for LookupJoinExec {
    fn name(&self) -> &str {
        "LookupJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.small]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for (left, right) in self.join.on() {
            f(left)?;
            f(right)?;
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(small), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("a lookup join has one input");
        };
        Ok(Arc::new(Self {
            join: Arc::clone(&self.join),
            small,
            is_left: self.is_left,
            table: Arc::clone(&self.table),
            by: self.by.clone(),
            sources: self.sources.clone(),
            joins: self.joins,
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
            made: Made::default(),
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut metrics = self.metrics.clone_inner();
        let of_join = self.made.lock().as_ref().and_then(|join| join.metrics());
        for metric in of_join.iter().flat_map(MetricsSet::iter).filter(|metric| is_of_join_alone(metric)) {
            metrics.push(Arc::clone(metric));
        }
        Some(metrics)
    }

    fn execute(&self, stream_partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if stream_partition != 0 || self.small.output_partitioning().partition_count() != 1 {
            return internal_err!("a lookup join reads one stream and gives one");
        }
        let scan = self.scan()?;
        let stored = usize::try_from(scan.region().row_estimate()).unwrap_or(usize::MAX);
        let run = Run {
            region: Arc::clone(scan.region()),
            rows_max: (stored / TABLE_SHARE).clamp(1, SMALL_ROWS_MAX),
            held: MemoryConsumer::new("LookupJoin").register(context.memory_pool()),
            looked_up: MetricBuilder::new(&self.metrics).counter("rows_looked_up", 0),
            metrics: BaselineMetrics::new(&self.metrics, 0),
            context: Arc::clone(&context),
            join: Self {
                join: Arc::clone(&self.join),
                small: Arc::clone(&self.small),
                is_left: self.is_left,
                table: Arc::clone(&self.table),
                by: self.by.clone(),
                sources: self.sources.clone(),
                joins: self.joins,
                properties: Arc::clone(&self.properties),
                metrics: self.metrics.clone(),
                made: Arc::clone(&self.made),
            },
        };
        let small = self.small.execute(0, context)?;
        let stream = futures::stream::once(run.start(small)).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
    }
}

/// One execution.
struct Run {
    join: LookupJoinExec,
    region: Arc<Region>,
    rows_max: usize,
    held: MemoryReservation,
    looked_up: Count,
    metrics: BaselineMetrics,
    context: Arc<TaskContext>,
}

impl Run {
    async fn start(self, mut small: SendableRecordBatchStream) -> Result<SendableRecordBatchStream> {
        let (mut batches, mut rows) = (Vec::new(), 0);
        let mut has_more = false;
        while let Some(batch) = small.next().await.transpose()? {
            rows += batch.num_rows();
            let bytes = batch.get_array_memory_size();
            let is_held = self.held.try_grow(bytes).is_ok();
            if !is_held {
                // It is here already. To hold more of them there is no memory, and the join can put them into files.
                self.held.grow(bytes);
            }
            batches.push((batch, bytes));
            if rows > self.rows_max || !is_held {
                has_more = true;
                break;
            }
        }
        // What the table is asked for is held until it has been read.
        let asked = self.held.new_empty();
        let access = if has_more { None } else { self.access(&batches, &asked)? };
        if access.is_some() {
            self.looked_up.add(rows);
        }
        let rest = has_more.then_some(small);
        let schema = self.join.small.schema();
        let read = Read { schema: Arc::clone(&schema), batches: Mutex::new(Some((batches, rest, self.held))) };
        let read = StreamingTableExec::try_new(
            schema,
            vec![Arc::new(read) as Arc<dyn PartitionStream>],
            None,
            [],
            false,
            None,
        )?;
        let config = self.context.session_config().options();
        let join = self.join.join_of(Arc::new(read), access.as_ref(), config)?;
        *self.join.made.lock() = Some(Arc::clone(&join));
        let plan: Arc<dyn ExecutionPlan> = match join.output_partitioning().partition_count() {
            1 => join,
            _ => Arc::new(CoalescePartitionsExec::new(join)),
        };
        let stream = plan.execute(0, self.context)?;
        let metrics = self.metrics;
        let counted = stream.inspect_ok(move |batch| {
            let _charged = &asked;
            metrics.record_output(batch.num_rows());
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.join.schema(), counted)))
    }

    /// The access path to the rows of the table that may match rows of the small side; `None` where there is no memory for what the table
    /// would be asked for.
    fn access(&self, batches: &[(RecordBatch, usize)], asked: &MemoryReservation) -> Result<Option<Access>> {
        let mut keys: Vec<Box<[Value]>> = Vec::new();
        for (batch, _) in batches {
            let mut columns: Vec<Result<(ArrayRef, SqlType, bool), &Value>> = Vec::new();
            for source in &self.join.sources {
                columns.push(match source {
                    Source::Constant(value) => Err(value),
                    Source::Joined(expr, sql_type, widens) => {
                        Ok((expr.evaluate(batch)?.into_array(batch.num_rows())?, *sql_type, *widens))
                    }
                });
            }
            // The keys are charged before they are made.
            let (mut of_row, mut of_texts) = (KEY_BYTES + columns.len() * size_of::<Value>(), 0);
            for source in &columns {
                match source {
                    Err(value) => of_row += text_bytes(value),
                    Ok((array, ..)) => of_texts += array.get_array_memory_size(),
                }
            }
            if asked.try_grow(batch.num_rows() * of_row + of_texts).is_err() {
                asked.free();
                return Ok(None);
            }
            let value = |source: &Result<(ArrayRef, SqlType, bool), &Value>, row: usize| match source {
                Err(value) => Some((*value).clone()),
                Ok((array, sql_type, false)) => value_at(array, row, *sql_type).filter(|value| !value.is_null()),
                Ok((array, sql_type, true)) => narrowed(array, row, *sql_type),
            };
            keys.extend((0..batch.num_rows()).filter_map(|row| {
                // A row with NULL in its key, or what no column can hold, has no partner.
                columns.iter().map(|source| value(source, row)).collect::<Option<Box<[Value]>>>()
            }));
        }
        Ok(Some(match &self.join.by {
            By::Key => Access::Keys(Arc::new(Keys::of(&self.region, keys))),
            By::Index(index) => {
                let probe = |equal: Box<[Value]>| Probe {
                    index: Arc::clone(index),
                    equal: equal.into_vec(),
                    range: (Bound::Unbounded, Bound::Unbounded),
                };
                Access::Any(keys.into_iter().map(probe).collect())
            }
        }))
    }
}

/// Bytes of a value beside its own place.
fn text_bytes(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Bytea(bytes) => bytes.len(),
        _ => 0,
    }
}

/// An integer in a column's type; `None` for NULL and for a number out of its range.
fn narrowed(array: &ArrayRef, row: usize, sql_type: SqlType) -> Option<Value> {
    let wide = match array.data_type() {
        DataType::Int64 => ashlar_base::ScalarType::Int8,
        DataType::Int32 => ashlar_base::ScalarType::Int4,
        _ => return None,
    };
    let value = match value_at(array, row, wide.into())? {
        Value::Int4(value) => i64::from(value),
        Value::Int8(value) => value,
        _ => return None,
    };
    match sql_type {
        SqlType::Scalar(ashlar_base::ScalarType::Int2) => i16::try_from(value).ok().map(Value::Int2),
        SqlType::Scalar(ashlar_base::ScalarType::Int4) => i32::try_from(value).ok().map(Value::Int4),
        _ => None,
    }
}

/// Batches that have been read with what each is charged, the rest of their stream, and the charge for all of them.
type Remembered = (Vec<(RecordBatch, usize)>, Option<SendableRecordBatchStream>, MemoryReservation);

/// The small side, after it has been read.
struct Read {
    schema: SchemaRef,
    batches: Mutex<Option<Remembered>>,
}

impl fmt::Debug for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("rows that were read")
    }
}

impl PartitionStream for Read {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.schema);
        let Some((batches, rest, held)) = self.batches.lock().take() else {
            let twice = futures::stream::once(async { internal_err!("the rows of a lookup join are read once") });
            return Box::pin(RecordBatchStreamAdapter::new(schema, twice));
        };
        let rest = rest.map_or_else(|| futures::stream::empty().boxed(), StreamExt::boxed);
        let read = futures::stream::iter(batches).map(move |(batch, bytes)| -> Result<RecordBatch> {
            // Who takes it charges it: what the join has room for is what is not held here any more.
            held.shrink(bytes);
            Ok(batch)
        });
        let all = read.chain(rest);
        Box::pin(RecordBatchStreamAdapter::new(schema, all))
    }
}

#[cfg(test)]
mod tests;
