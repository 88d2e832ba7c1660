//! Prepares a physical plan to be run: joins that yield, and nested-loop joins that return the same rows whether
//! their left side fits in memory or not.
//!
//! Called when a physical plan is made. If the left side of a nested-loop join does not fit, the join runs that side
//! again and writes it to a file, and each stream of the right side then joins all of it separately. The engine
//! leaves two things to the caller: a left row without a match in one stream may have one in another; and nodes that
//! keep what they have read return something else, or nothing, when they are run again.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ashlar_functions::error::QUERY_MEMORY_MAX;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, JoinType, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, Statistics, StatisticsArgs,
};

/// Nodes that give the same rows however often they are run: they keep nothing between one run and the next.
const REPEATABLE: [&str; 11] = [
    "CoalescePartitionsExec",
    "CooperativeExec",
    "EmptyExec",
    "FilterExec",
    "GridCountExec",
    "GridScanExec",
    "NullExtendedExec",
    "PlaceholderRowExec",
    "ProjectionExec",
    "ShardScanExec",
    "UnionExec",
];

/// The plan as it can be run.
///
/// # Errors
/// As DataFusion's traversal.
pub(super) fn runnable(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let runnable = plan.transform_up(|node| {
        let inputs = node.downcast_ref::<NestedLoopJoinExec>().map(inputs_of_loops).transpose()?;
        let node = match inputs {
            Some(inputs) => replace_children_if_necessary(node, inputs)?,
            None => node,
        };
        // A join of small inputs can compute for minutes without waiting for anything: each of its batches counts against the
        // task's budget, so that the task yields, and can be cancelled.
        Ok(if node.name().ends_with("JoinExec") {
            Transformed::yes(Arc::new(CooperativeExec::new(node)) as Arc<dyn ExecutionPlan>)
        } else {
            Transformed::no(node)
        })
    });
    runnable.map(|plan| plan.data)
}

/// What a join by nested loops is to read: one stream on the right, where it has to know of left rows whether any row of it has matched
/// them; and on the left what is not run again, unless it can be.
fn inputs_of_loops(join: &NestedLoopJoinExec) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
    let (mut left, mut right) = (Arc::clone(join.left()), Arc::clone(join.right()));
    // FULL does not go to files with several streams.
    let gives_left =
        matches!(join.join_type(), JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark);
    if gives_left && right.properties().output_partitioning().partition_count() > 1 {
        right = Arc::new(CoalescePartitionsExec::new(right));
    }
    if left.exists(|node| Ok(!REPEATABLE.contains(&node.name())))? {
        left = Arc::new(RunOnceExec::over(left));
    }
    Ok(vec![left, right])
}

/// Hands on the rows of its input, once.
#[derive(Debug)]
struct RunOnceExec {
    input: Arc<dyn ExecutionPlan>,
    has_run: AtomicBool,
}

impl RunOnceExec {
    fn over(input: Arc<dyn ExecutionPlan>) -> Self {
        Self { input, has_run: AtomicBool::new(false) }
    }
}

impl DisplayAs for RunOnceExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunOnceExec")
    }
}

impl ExecutionPlan for RunOnceExec {
    fn name(&self) -> &'static str {
        "RunOnceExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(input), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("what hands on the rows of an input has one");
        };
        Ok(Arc::new(Self::over(input)))
    }

    /// 53200 where a stream is asked for again: the join that asks had no room for what it was given.
    fn execute(&self, stream_partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if self.has_run.swap(true, Ordering::Relaxed) {
            return Err(DataFusionError::ResourcesExhausted(format!(
                "the query needs more memory than its {QUERY_MEMORY_MAX} or the server has: a join by other conditions than \
                 equality keeps rows that it cannot read again to write them to a file"
            )));
        }
        self.input.execute(stream_partition, context)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        match inputs {
            [of_input] => Ok(Arc::clone(of_input)),
            _ => internal_err!("what hands on the rows of an input has one"),
        }
    }
}
