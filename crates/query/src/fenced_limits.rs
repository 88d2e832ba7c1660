//! Limits and offsets that sorts do not pass.
//!
//! What the engine does while it places sorts would change which rows a limit leaves (apache/datafusion, issue 23534 and pull request 24958): beneath
//! an OFFSET without LIMIT it drops a sort that nobody above asks for; a sort above `LIMIT n OFFSET m` it moves beneath it, of whose rows it then
//! keeps n and leaves out m of these; and a sort that is not needed, for the rows have its order already, loses its own LIMIT on its way down.
//! So before sorts are placed, limits become nodes that let no sort through and ask for the order that they count in, and sorts with a limit
//! become such a node above one without; afterwards they are again what they were.
//!
//! ```text
//!   GlobalLimitExec: skip=5            ProjectionExec: k                  ProjectionExec: k
//!     ProjectionExec: k         ──▶      FencedLimitExec: skip=5   ──▶      GlobalLimitExec: skip=5
//!       SortExec: n, k                     SortExec: n, k                     SortExec: n, k
//!
//!   SortExec: n, fetch=4        ──▶    FencedLimitExec: fetch=4    ──▶    SortExec: n, fetch=4
//!     ProjectionExec: n, m               SortExec: n                        ProjectionExec: n, m
//!       HashJoinExec                       ProjectionExec: n, m               HashJoinExec
//!                                            FenceExec
//!                                              HashJoinExec
//! ```
//!
//! Projections change places with the limit above them where a sort is beneath: what they leave out is what the order is of. A sort with a limit
//! stays above what may give more or fewer rows than it gets, a join or a filter, of which it keeps few rows; without its limit it would move
//! beneath, so there is a fence too.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, LexOrdering, OrderingRequirements, PhysicalExpr};
use datafusion::physical_optimizer::output_requirements::OutputRequirementExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
    StatisticsArgs,
};

use crate::node_rule::NodeRule;

/// The engine's rule that places sorts, which the two of this module stand around.
pub(crate) const PLACES_SORTS: &str = "EnsureRequirements";

/// Puts fences in the place of limits; see the module.
pub(crate) const FENCE_LIMITS: NodeRule = NodeRule { name: "fence_limits", of_node: fenced };

/// Makes limits of the fences again; see the module.
pub(crate) const UNFENCE_LIMITS: NodeRule = NodeRule { name: "unfence_limits", of_node: unfenced };

fn fenced(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let Some(limit) = node.downcast_ref::<GlobalLimitExec>() {
        let mut projections = Vec::new();
        let mut input = limit.input();
        while let Some(projection) = input.downcast_ref::<ProjectionExec>() {
            projections.push(Arc::clone(input));
            input = projection.input();
        }
        let of_sort = input.downcast_ref::<SortExec>().map(|sort| sort.expr().clone());
        let order = of_sort.or_else(|| input.downcast_ref::<FencedLimitExec>()?.order.clone());
        if order.is_none() {
            projections.clear();
            input = limit.input();
        }
        let fence = FencedLimitExec::new(Arc::clone(input), limit.skip(), limit.fetch(), order);
        let above = |beneath, projection| replace_children_if_necessary(projection, vec![beneath]);
        return projections.into_iter().rev().try_fold(Arc::new(fence) as _, above).map(Transformed::yes);
    }
    if let Some(sort) = node.downcast_ref::<SortExec>()
        && !sort.preserve_partitioning()
        && let Some(fetch) = sort.fetch()
    {
        let all = Arc::new(SortExec::new(sort.expr().clone(), walled(sort.input())?));
        let order = Some(sort.expr().clone());
        return Ok(Transformed::yes(Arc::new(FencedLimitExec::new(all, 0, Some(fetch), order))));
    }
    // Whose limit is that of the sort beneath.
    if let Some(required) = node.downcast_ref::<OutputRequirementExec>()
        && required.fetch().is_some()
        && let ([distribution], [order]) =
            (&node.input_distribution_requirements().into_per_child()[..], &node.required_input_ordering()[..])
    {
        let all = OutputRequirementExec::new(required.input(), order.clone(), distribution.clone(), None);
        return Ok(Transformed::yes(Arc::new(all)));
    }
    Ok(Transformed::no(node))
}

fn unfenced(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    match node.downcast_ref::<FencedLimitExec>() {
        Some(limit) => limit.unfenced().map(Transformed::yes),
        None => FenceExec::taken_away(node),
    }
}

/// A plan with a fence beneath its projections, which a sort may pass.
fn walled(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    match plan.downcast_ref::<ProjectionExec>() {
        Some(projection) => replace_children_if_necessary(Arc::clone(plan), vec![walled(projection.input())?]),
        None => Ok(Arc::new(FenceExec(Arc::clone(plan)))),
    }
}

/// A plan whose sort gives so many first rows instead of all; `None` if it has none at its top.
fn first_of(plan: &Arc<dyn ExecutionPlan>, rows: usize) -> Option<Result<Arc<dyn ExecutionPlan>>> {
    let beneath = || plan.children().first().and_then(|input| first_of(input, rows));
    if plan.is::<SortExec>() {
        return plan.with_fetch(Some(rows.min(plan.fetch().unwrap_or(rows)))).map(Ok);
    }
    if plan.is::<SortPreservingMergeExec>() {
        let merge = match beneath() {
            Some(Ok(input)) => replace_children_if_necessary(Arc::clone(plan), vec![input]),
            Some(error) => return Some(error),
            None => Ok(Arc::clone(plan)),
        };
        let rows = rows.min(plan.fetch().unwrap_or(rows));
        return Some(merge.map(|merge| merge.with_fetch(Some(rows)).unwrap_or(merge)));
    }
    // Of these each row is one row of its input.
    if plan.is::<ProjectionExec>() || plan.is::<OutputRequirementExec>() {
        return Some(beneath()?.and_then(|input| replace_children_if_necessary(Arc::clone(plan), vec![input])));
    }
    None
}

/// A limit while sorts are placed. No plan has one when it runs.
#[derive(Debug)]
struct FencedLimitExec {
    /// A `GlobalLimitExec`.
    limit: Arc<dyn ExecutionPlan>,
    skip: usize,
    fetch: Option<usize>,
    /// In which rows are counted, where a sort is right beneath.
    order: Option<LexOrdering>,
}

impl FencedLimitExec {
    fn new(input: Arc<dyn ExecutionPlan>, skip: usize, fetch: Option<usize>, order: Option<LexOrdering>) -> Self {
        let mut limit = GlobalLimitExec::new(input, skip, fetch);
        limit.set_required_ordering(order.clone());
        Self { limit: Arc::new(limit), skip, fetch, order }
    }

    /// The limit, or its sort where that does without.
    fn unfenced(&self) -> Result<Arc<dyn ExecutionPlan>> {
        let children = self.limit.children();
        let first = self
            .fetch
            .zip(children.first())
            .and_then(|(fetch, input)| first_of(input, self.skip.saturating_add(fetch)));
        match first {
            Some(first) if self.skip == 0 => first,
            Some(first) => replace_children_if_necessary(Arc::clone(&self.limit), vec![first?]),
            None => Ok(Arc::clone(&self.limit)),
        }
    }
}

impl DisplayAs for FencedLimitExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FencedLimitExec: skip={}, fetch={:?}", self.skip, self.fetch)
    }
}

impl ExecutionPlan for FencedLimitExec {
    fn name(&self) -> &'static str {
        "FencedLimitExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.limit.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.limit.children()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![self.order.clone().map(OrderingRequirements::from)]
    }

    /// It does, and must not say so: a sort that may pass would.
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.limit.apply_expressions(f)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let [input] = &children[..] else { return internal_err!("a limit has one input") };
        Ok(Arc::new(Self::new(Arc::clone(input), self.skip, self.fetch, self.order.clone())))
    }

    fn child_stats_requests(&self, stream_partition: Option<usize>) -> Vec<ChildStats> {
        self.limit.child_stats_requests(stream_partition)
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        self.limit.statistics_from_inputs(inputs, args)
    }

    fn execute(&self, stream_partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.limit.execute(stream_partition, context)
    }
}

/// What no sort passes, no filter either, and what is nothing else. No plan has one when it runs.
#[derive(Debug)]
pub(crate) struct FenceExec(Arc<dyn ExecutionPlan>);

impl FenceExec {
    pub(crate) fn over(input: Arc<dyn ExecutionPlan>) -> Self {
        Self(input)
    }

    /// What is beneath, of a fence.
    pub(crate) fn taken_away(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
        Ok(match node.downcast_ref() {
            Some(Self(input)) => Transformed::yes(Arc::clone(input)),
            None => Transformed::no(node),
        })
    }
}

impl DisplayAs for FenceExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FenceExec")
    }
}

impl ExecutionPlan for FenceExec {
    fn name(&self) -> &'static str {
        "FenceExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.0]
    }

    /// As of a limit.
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.pop() else { return internal_err!("a fence has one input") };
        Ok(Arc::new(Self(input)))
    }

    fn child_stats_requests(&self, stream_partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(stream_partition)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&inputs[0]))
    }

    fn execute(&self, stream_partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.0.execute(stream_partition, context)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;

    use super::*;

    #[test]
    fn the_rule_that_places_sorts_is_there() {
        assert!(PhysicalOptimizer::new().rules.iter().any(|rule| rule.name() == PLACES_SORTS));
    }
}
