//! An operator that replaces values by NULL must not pass on what was known of these values.
//!
//! The engine does pass it on: it takes a column that is constant on one side of an outer join for constant above the join, although
//! rows without a partner have NULL there. The same goes for constants, equalities and orders among the keys of grouping sets. Sorts and
//! groups above then ignore the column. The rule of this module puts a node in between that passes rows on and claims nothing about
//! them.
//!
//! Our joins use this module to claim only what holds; our aggregations claim nothing.

use std::fmt;
use std::sync::Arc;

use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{JoinType, Result, Statistics, internal_err};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::expressions::Column;
use datafusion_physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion_physical_optimizer::PhysicalOptimizerRule;
use datafusion_physical_plan::aggregates::AggregateExec;
use datafusion_physical_plan::execution_plan::replace_children_if_necessary;
use datafusion_physical_plan::filter_pushdown::{FilterDescription, FilterPushdownPhase};
use datafusion_physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion_physical_plan::projection::ProjectionExec;
use datafusion_physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, StatisticsArgs,
};

use crate::join::handing_down::is_clear;

/// The rule; see the module. It runs after the rules that put our nodes into plans, and before those that sort and divide streams.
#[derive(Debug)]
pub struct NullExtensions;

impl PhysicalOptimizerRule for NullExtensions {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let hidden = plan.transform_up(|node| {
            if let Some(inputs) = inputs_of_join(node.as_ref()) {
                return Ok(Transformed::yes(replace_children_if_necessary(node, inputs)?));
            }
            // Of sorts that come between the rows and their groups nothing is known yet, so the node stands above.
            let has_sets = |aggregate: &AggregateExec| aggregate.group_expr().has_grouping_set();
            Ok(if node.downcast_ref::<AggregateExec>().is_some_and(has_sets) {
                Transformed::yes(NullExtendedExec::over(node))
            } else {
                Transformed::no(node)
            })
        });
        hidden.map(|plan| plan.data)
    }

    fn name(&self) -> &str {
        "null_extensions"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The inputs of a join of the engine's that are to take the place of those it has, if any.
fn inputs_of_join(node: &dyn ExecutionPlan) -> Option<Vec<Arc<dyn ExecutionPlan>>> {
    let join_type = if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        *join.join_type()
    } else if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        *join.join_type()
    } else {
        node.downcast_ref::<SortMergeJoinExec>()?.join_type()
    };
    let [left, right] = node.children()[..] else { return None };
    extended_inputs(join_type, left, right)
}

/// The inputs of a join as it may know them; `None` where it may know all of them.
pub(crate) fn extended_inputs(
    join_type: JoinType,
    left: &Arc<dyn ExecutionPlan>,
    right: &Arc<dyn ExecutionPlan>,
) -> Option<Vec<Arc<dyn ExecutionPlan>>> {
    let (of_left, of_right) = match join_type {
        JoinType::Left => (false, true),
        JoinType::Right => (true, false),
        JoinType::Full => (true, true),
        _ => return None,
    };
    let (of_left, of_right) = (of_left && is_known(left), of_right && is_known(right));
    if !of_left && !of_right {
        return None;
    }
    let side = |input: &Arc<dyn ExecutionPlan>, is_hidden: bool| {
        if is_hidden { NullExtendedExec::over(Arc::clone(input)) } else { Arc::clone(input) }
    };
    Some(vec![side(left, of_left), side(right, of_right)])
}

/// Whether something is known of values that does not hold of NULL. Two columns that are equal are NULL together; a column and a
/// function of another one need not be.
fn is_known(input: &Arc<dyn ExecutionPlan>) -> bool {
    let known = input.properties().equivalence_properties();
    let is_computed = |expr: &Arc<dyn PhysicalExpr>| expr.downcast_ref::<Column>().is_none();
    !known.constants().is_empty() || known.eq_group().iter().any(|equal| equal.iter().any(is_computed))
}

/// Hands on the rows of its input, and nothing that is known of them.
#[derive(Debug)]
struct NullExtendedExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl NullExtendedExec {
    fn over(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let nothing = EquivalenceProperties::new(input.schema());
        let properties = PlanProperties::clone(input.properties()).with_eq_properties(nothing);
        Arc::new(Self { input, properties: Arc::new(properties) })
    }
}

impl DisplayAs for NullExtendedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NullExtendedExec")
    }
}

impl ExecutionPlan for NullExtendedExec {
    fn name(&self) -> &str {
        "NullExtendedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
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
        let (Some(input), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("what hands on the rows of an input has one");
        };
        Ok(Self::over(input))
    }

    fn execute(&self, stream_partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
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

    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let beneath = ProjectionExec::try_new(projection.expr().to_vec(), Arc::clone(&self.input))?;
        let swapped = self.input.try_swapping_with_projection(&beneath)?;
        // A projection that has another one beneath, and cannot be one with it, says that it takes its own place: that is none.
        let stays = |plan: &Arc<dyn ExecutionPlan>| {
            plan.downcast_ref::<ProjectionExec>().is_some_and(|above| Arc::ptr_eq(above.input(), &self.input))
        };
        Ok(swapped.filter(|plan| !stays(plan)).map(Self::over))
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        // The engine's way to hand filters down goes by names.
        if !is_clear(&self.input)? {
            return Ok(FilterDescription::all_unsupported(&parent_filters, &self.children()));
        }
        FilterDescription::from_children(parent_filters, &self.children())
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int32Array, RecordBatch};
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion_common::NullEquality;
    use datafusion_expr::Operator;
    use datafusion_physical_expr::expressions::{binary, col, lit};
    use datafusion_physical_optimizer::projection_pushdown::ProjectionPushdown;
    use datafusion_physical_plan::joins::PartitionMode;

    use super::*;
    use crate::aggregate::tests::table;
    use crate::join::exec::UnchainedHashJoinExec;

    /// A key, and a column of ones.
    fn ones() -> Arc<dyn ExecutionPlan> {
        let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int32, false)]));
        let rows = RecordBatch::try_new(schema, vec![Arc::new(Int32Array::from(vec![1, 2, 3]))]).unwrap();
        let input = table(&rows, 1, 8);
        let columns = vec![(col("id", &input.schema()).unwrap(), "id".to_owned()), (lit(1_i32), "one".to_owned())];
        Arc::new(ProjectionExec::try_new(columns, input).unwrap())
    }

    fn hash_join(join_type: JoinType) -> HashJoinExec {
        let (left, right) = (ones(), ones());
        let on = vec![(col("id", &left.schema()).unwrap(), col("id", &right.schema()).unwrap())];
        let (mode, nulls) = (PartitionMode::CollectLeft, NullEquality::NullEqualsNothing);
        HashJoinExec::try_new(left, right, on, None, &join_type, None, mode, nulls, false).unwrap()
    }

    /// Whether the ones of the left side are known to be the same in all rows.
    fn is_constant(plan: &dyn ExecutionPlan) -> bool {
        let one: Arc<dyn PhysicalExpr> = Arc::new(Column::new("one", 1));
        plan.properties().equivalence_properties().is_expr_constant(&one).is_some()
    }

    #[test]
    fn a_constant_of_a_side_that_has_null_beside_it_is_none_above_the_join() {
        for (join_type, expected) in
            [(JoinType::Inner, true), (JoinType::Left, true), (JoinType::Right, false), (JoinType::Full, false)]
        {
            let nested = NestedLoopJoinExec::try_new(ones(), ones(), None, &join_type, None).unwrap();
            assert!(is_constant(&nested), "what the engine says of {join_type} has changed");
            let joins: [Arc<dyn ExecutionPlan>; 2] = [Arc::new(hash_join(join_type)), Arc::new(nested)];
            for join in joins {
                let hidden = NullExtensions.optimize(join, &ConfigOptions::default()).unwrap();
                assert_eq!(is_constant(hidden.as_ref()), expected, "{join_type} of {}", hidden.name());
            }
            let own = UnchainedHashJoinExec::of(&hash_join(join_type)).unwrap().unwrap();
            assert_eq!(is_constant(&own), expected, "{join_type} of ours");
        }
    }

    /// What stands above and is computed twice of one column stays above: it is no part of the projection beneath, and nothing is there
    /// twice afterwards.
    #[test]
    fn a_projection_that_cannot_go_beneath_stays_above() {
        let computed = |input: &Arc<dyn ExecutionPlan>, times: usize| {
            let id = || col("id", &input.schema()).unwrap();
            let sum = (1..times).fold(id(), |sum, _| binary(sum, Operator::Plus, id(), &input.schema()).unwrap());
            Arc::new(ProjectionExec::try_new(vec![(sum, "id".to_owned())], Arc::clone(input)).unwrap())
        };
        let beneath: Arc<dyn ExecutionPlan> = computed(&ones(), 2);
        for (times, expected) in [(2, None), (1, Some("NullExtendedExec"))] {
            let hidden = NullExtendedExec::over(Arc::clone(&beneath));
            let above = computed(&hidden, times);
            let swapped = hidden.try_swapping_with_projection(&above).unwrap();
            assert_eq!(swapped.as_ref().map(|plan| plan.name()), expected, "{times}");
            let plan = ProjectionPushdown::new().optimize(above, &ConfigOptions::default()).unwrap();
            let mut nodes = 0;
            plan.apply(|_| {
                nodes += 1;
                Ok(TreeNodeRecursion::Continue)
            })
            .unwrap();
            assert!(nodes < 6, "{nodes} nodes");
        }
    }

    #[test]
    fn sides_without_constants_stay() {
        let plain = |input: Arc<dyn ExecutionPlan>| {
            let columns = vec![(col("id", &input.schema()).unwrap(), "id".to_owned())];
            Arc::new(ProjectionExec::try_new(columns, input).unwrap()) as Arc<dyn ExecutionPlan>
        };
        assert!(extended_inputs(JoinType::Full, &plain(ones()), &plain(ones())).is_none());
        assert!(extended_inputs(JoinType::Left, &ones(), &plain(ones())).is_none());
        assert!(extended_inputs(JoinType::Left, &plain(ones()), &ones()).is_some());
    }
}
