//! The memory of each operator of a plan: EXPLAIN (MEMORY) and, with ANALYZE, what each operator held.
//!
//! Every node of the plan is wrapped in one that is displayed as the node itself, with its memory appended. What the
//! node charges goes through an account of its own to the query's memory pool, whatever its memory consumers are called
//! and however many there are.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ashlar_operators::{HashAggregateExec, UnchainedHashJoinExec};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{
    ChildStats, ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions, Statistics, StatisticsArgs, StatisticsContext,
};

/// The plan with what it holds behind each node; `is_run` says that what was held is of interest, and not only what is expected.
pub(crate) fn measured(plan: Arc<dyn ExecutionPlan>, is_run: bool) -> Result<Arc<dyn ExecutionPlan>> {
    // From above: what is expected is asked of nodes whose inputs are still bare.
    let measured = plan.transform_down(|node| {
        let estimate = estimate(node.as_ref());
        let account = Arc::new(Account::default());
        Ok(Transformed::yes(Arc::new(MeasuredExec { node, account, estimate, is_run }) as Arc<dyn ExecutionPlan>))
    });
    Ok(measured?.data)
}

/// Bytes that an operator is expected to hold: those of what it keeps of its input, where statistics tell them, and of our groups where they
/// tell how many there will be. Of hash tables beside the rows nobody knows beforehand.
fn estimate(node: &dyn ExecutionPlan) -> Option<usize> {
    if let Some(groups) = node.downcast_ref::<HashAggregateExec>() {
        return groups.expected_bytes();
    }
    let kept = if let Some(sort) = node.downcast_ref::<SortExec>() {
        // The first few rows of an order are kept, and no others.
        sort.fetch().is_none().then(|| sort.input())
    } else if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        Some(join.left())
    } else if node.is::<UnchainedHashJoinExec>() {
        node.children().first().copied()
    } else if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        Some(join.left())
    } else {
        node.downcast_ref::<CrossJoinExec>().map(CrossJoinExec::left)
    };
    let statistics = StatisticsContext::new().compute(kept?.as_ref(), &StatisticsArgs::new()).ok()?;
    statistics.total_byte_size.get_value().copied()
}

/// What one operator holds.
#[derive(Debug, Default)]
struct Account {
    held: AtomicUsize,
    most: AtomicUsize,
}

impl Account {
    fn grown(&self, bytes: usize) {
        let held = self.held.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.most.fetch_max(held, Ordering::Relaxed);
    }
}

/// An account before the pool of a query.
#[derive(Debug)]
struct AccountPool {
    account: Arc<Account>,
    query: Arc<dyn MemoryPool>,
}

impl fmt::Display for AccountPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.query, f)
    }
}

impl MemoryPool for AccountPool {
    fn name(&self) -> &str {
        "operator"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.query.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.query.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.query.grow(reservation, additional);
        self.account.grown(additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.query.shrink(reservation, shrink);
        self.account.held.fetch_sub(shrink, Ordering::Relaxed);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.query.try_grow(reservation, additional)?;
        self.account.grown(additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.query.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.query.memory_limit()
    }
}

/// See the module.
#[derive(Debug)]
struct MeasuredExec {
    node: Arc<dyn ExecutionPlan>,
    account: Arc<Account>,
    /// Bytes.
    estimate: Option<usize>,
    is_run: bool,
}

impl MeasuredExec {
    /// The same of another state of the node.
    fn of(&self, node: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let account = Arc::clone(&self.account);
        Arc::new(Self { node, account, estimate: self.estimate, is_run: self.is_run })
    }

    /// The context in which the node charges its account.
    fn charging(&self, context: &TaskContext) -> Arc<TaskContext> {
        let pool = context.memory_pool();
        // The node above has its own.
        let query = pool.downcast_ref::<AccountPool>().map_or(pool, |above| &above.query);
        let pool = AccountPool { account: Arc::clone(&self.account), query: Arc::clone(query) };
        let mut runtime = context.runtime_env().as_ref().clone();
        runtime.memory_pool = Arc::new(pool);
        // As in the engine: a plan holds its functions.
        let none = (HashMap::new(), HashMap::new(), HashMap::new(), HashMap::new());
        let config = context.session_config().clone();
        let runtime = Arc::new(runtime);
        Arc::new(TaskContext::new(None, context.session_id(), config, none.0, none.1, none.2, none.3, runtime))
    }
}

impl DisplayAs for MeasuredExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.node.fmt_as(format, f)?;
        let kilobytes = |bytes: usize| bytes.div_ceil(1024);
        let peak = kilobytes(self.account.most.load(Ordering::Relaxed));
        match (self.is_run, self.estimate.map(kilobytes)) {
            (true, Some(estimate)) => write!(f, ", memory=[peak={peak} kB, estimate={estimate} kB]"),
            (true, None) => write!(f, ", memory=[peak={peak} kB]"),
            (false, Some(estimate)) => write!(f, ", memory=[estimate={estimate} kB]"),
            (false, None) => Ok(()),
        }
    }
}

impl ExecutionPlan for MeasuredExec {
    fn name(&self) -> &str {
        self.node.name()
    }

    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(self.node.as_ref())
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.node.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.node.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.node.apply_expressions(f)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.of(Arc::clone(&self.node).replace_children(children, options)?))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.of(Arc::clone(&self.node).reset_state()?))
    }

    fn with_new_state(&self, state: Arc<dyn Any + Send + Sync>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(self.of(self.node.with_new_state(state)?))
    }

    // Operators ask for what their inputs expect when they begin.
    fn child_stats_requests(&self, stream_partition: Option<usize>) -> Vec<ChildStats> {
        self.node.child_stats_requests(stream_partition)
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        self.node.statistics_from_inputs(inputs, args)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.node.metrics()
    }

    fn execute(&self, stream_partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.node.execute(stream_partition, self.charging(&context))
    }
}
