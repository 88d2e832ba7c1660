//! Tells a scan when the operators above it need only few of its rows: the first in an order, the least and the
//! greatest, or just their number; and when they would rather have larger batches.
//!
//! Runs over a new physical plan, with the statement's parameters filled in. The operators above a scan stay and do
//! their whole work, on fewer rows; only a count replaces the aggregation that it answers.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use ashlar_functions::times::operators::is_interval_order;
use ashlar_store::{Region, Walk};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};

use super::count::GridCountExec;
use super::{Access, walk_of};
use crate::grid_table::GridScanExec;

/// Rows of a LIMIT that are looked for in each partition: with more, the table had better be sorted.
const WALKED_MAX: usize = 1024;

/// Looking a row up takes as long as reading so many in their order.
const WALK_SHARE: u64 = 8;

/// Rows of a batch that only numbers are computed of, and the most bytes that they should have: they are read once for each aggregate.
const LARGE_BATCH_ROWS: usize = 65_536;
const LARGE_BATCH_BYTES: usize = 512 << 10;

/// The plan with scans that know how few rows are wanted of them.
pub(crate) fn settle(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_down(|node| {
        if let Some(sort) = node.downcast_ref::<SortExec>()
            && let Some(found) = first_rows(sort)?
        {
            return Ok(Transformed::new(found, true, TreeNodeRecursion::Jump));
        }
        if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
            if let Some(found) = counted(aggregate) {
                return Ok(Transformed::new(found, true, TreeNodeRecursion::Jump));
            }
            if let Some(found) = ends(aggregate)? {
                return Ok(Transformed::new(found, true, TreeNodeRecursion::Jump));
            }
            if let Some(found) = in_large_batches(aggregate, &node)? {
                return Ok(Transformed::new(found, true, TreeNodeRecursion::Jump));
            }
        }
        Ok(Transformed::no(node))
    })
    .map(|transformed| transformed.data)
}

/// The scan beneath nodes that hand on every row, and the columns of the table that its outputs are, as the uppermost
/// node has them; `None` for one that is computed.
pub(crate) fn scan_beneath(plan: &Arc<dyn ExecutionPlan>) -> Option<(&GridScanExec, Vec<Option<usize>>)> {
    if let Some(scan) = plan.downcast_ref::<GridScanExec>() {
        return Some((scan, scan.output_ordinals().collect()));
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let (scan, columns) = scan_beneath(projection.input())?;
        let column = |expr: &Arc<dyn PhysicalExpr>| columns[expr.downcast_ref::<Column>()?.index()];
        let columns = projection.expr().iter().map(|output| column(&output.expr)).collect();
        return Some((scan, columns));
    }
    let is_round_robin = |plan: &RepartitionExec| matches!(plan.partitioning(), Partitioning::RoundRobinBatch(_));
    let hands_on = plan.is::<CooperativeExec>()
        || plan.downcast_ref::<CoalescePartitionsExec>().is_some_and(|node| node.fetch().is_none())
        || plan.downcast_ref::<RepartitionExec>().is_some_and(is_round_robin);
    if !hands_on {
        return None;
    }
    scan_beneath(plan.children().first()?)
}

/// The plan with another way for its scan, which [`scan_beneath`] has found, to its rows.
pub(crate) fn with_access(
    plan: &Arc<dyn ExecutionPlan>,
    access: &Access,
    streams: Option<usize>,
) -> Result<Arc<dyn ExecutionPlan>> {
    with_scan(plan, &|scan| scan.with_access(access.clone(), streams))
}

/// The plan with another scan in place of the one that [`scan_beneath`] has found.
fn with_scan(
    plan: &Arc<dyn ExecutionPlan>,
    other: &dyn Fn(&GridScanExec) -> GridScanExec,
) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(scan) = plan.downcast_ref::<GridScanExec>() {
        return Ok(Arc::new(other(scan)));
    }
    let children = plan.children().into_iter().map(|child| with_scan(child, other));
    let children = children.collect::<Result<Vec<_>>>()?;
    replace_children_if_necessary(Arc::clone(plan), children)
}

/// `ORDER BY ... LIMIT`: each partition gives its first rows.
fn first_rows(sort: &SortExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(fetch) = sort.fetch().filter(|fetch| (1..=WALKED_MAX).contains(fetch)) else { return Ok(None) };
    let Some((scan, columns)) = scan_beneath(sort.input()) else { return Ok(None) };
    let order = sort.expr().iter().map(|key| {
        let column = columns.get(sorted_by(&key.expr).downcast_ref::<Column>()?.index()).copied().flatten()?;
        Some((column, key.options.descending, key.options.nulls_first))
    });
    let Some(order) = order.collect::<Option<Vec<_>>>() else { return Ok(None) };
    let Some(asked) = scan.asked() else { return Ok(None) };
    let Some(walk) = walk_of(scan.region(), scan.conditions(), &asked.plain, &order, fetch) else { return Ok(None) };
    // Of the whole table each partition gives so many: reading all of it in order may be less work.
    let rows = u64::from(scan.region().partition_count()) * fetch as u64;
    if walk.probe.equal.is_empty() && rows.saturating_mul(WALK_SHARE) > scan.region().row_estimate() {
        return Ok(None);
    }
    let input = with_access(sort.input(), &Access::Walks(Arc::new([walk])), None)?;
    let sorted = SortExec::new(sort.expr().clone(), input).with_preserve_partitioning(sort.preserve_partitioning());
    Ok(Some(Arc::new(sorted.with_fetch(sort.fetch()))))
}

/// What an ORDER BY was about: intervals are sorted by the number that stands for their order.
fn sorted_by(key: &Arc<dyn PhysicalExpr>) -> &Arc<dyn PhysicalExpr> {
    let order = key.downcast_ref::<ScalarFunctionExpr>().filter(|function| is_interval_order(function.fun()));
    order.and_then(|function| function.args().first()).unwrap_or(key)
}

/// Whether an aggregation reads rows, and has one group.
fn is_of_one_group(aggregate: &AggregateExec) -> bool {
    aggregate.group_expr().is_true_no_grouping()
        && !aggregate.aggr_expr().is_empty()
        && matches!(aggregate.mode(), AggregateMode::Partial | AggregateMode::Single | AggregateMode::SinglePartitioned)
}

fn is_over_all(aggregate: &AggregateExec) -> bool {
    is_of_one_group(aggregate) && aggregate.filter_expr().iter().all(Option::is_none)
}

/// An aggregation of one group over all rows of a table: what a batch costs beside its values is most of the work where these are only
/// added up, and nothing of a batch is kept. Columns of numbers are handed on where they lie, so that larger batches take no more memory;
/// what is computed of them has to be of numbers, too.
fn in_large_batches(
    aggregate: &AggregateExec,
    node: &Arc<dyn ExecutionPlan>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if !is_of_one_group(aggregate) {
        return Ok(None);
    }
    let Some((scan, _)) = scan_beneath(aggregate.input()) else { return Ok(None) };
    let schema = scan.schema();
    let widths = schema.fields().iter().map(|field| field.data_type().primitive_width());
    let Some(row_bytes) = widths.sum::<Option<usize>>().filter(|_| scan.is_whole()) else { return Ok(None) };
    let rows = LARGE_BATCH_BYTES.checked_div(row_bytes).unwrap_or(usize::MAX).min(LARGE_BATCH_ROWS);
    if rows < LARGE_BATCH_ROWS / 4 || !computes_numbers(aggregate) || !projects_numbers(aggregate.input()) {
        return Ok(None);
    }
    let input = with_scan(aggregate.input(), &|scan| scan.with_batch_rows(rows))?;
    replace_children_if_necessary(Arc::clone(node), vec![input]).map(Some)
}

/// Whether all that an aggregation computes of its input's rows has values of a fixed width.
fn computes_numbers(aggregate: &AggregateExec) -> bool {
    let schema = aggregate.input().schema();
    let is_fixed = |expr: &Arc<dyn PhysicalExpr>| is_of_numbers(expr, &schema);
    let of_function = |function: &Arc<AggregateFunctionExpr>| {
        function.expressions().iter().all(is_fixed) && function.order_bys().iter().all(|key| is_fixed(&key.expr))
    };
    aggregate.aggr_expr().iter().all(of_function) && aggregate.filter_expr().iter().flatten().all(is_fixed)
}

/// Whether the same is so of what stands between it and the scan.
fn projects_numbers(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_fine = plan.downcast_ref::<ProjectionExec>().is_none_or(|projection| {
        let schema = projection.input().schema();
        projection.expr().iter().all(|output| is_of_numbers(&output.expr, &schema))
    });
    is_fine && plan.children().into_iter().all(projects_numbers)
}

/// Whether an expression has values of a fixed width in each of its steps. What a function makes of a number may be as long as it likes:
/// the bytes of all rows of a batch are there at once, nobody charges for them, and functions refuse too many.
fn is_of_numbers(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    // A constant is there once for all rows.
    if expr.is::<Literal>() {
        return true;
    }
    let is_fixed = |of: DataType| of.primitive_width().is_some() || of == DataType::Boolean;
    expr.data_type(schema).is_ok_and(is_fixed)
        && expr.children().into_iter().all(|operand| is_of_numbers(operand, schema))
}

/// min() and max(): each partition gives the rows at the ends of an index.
fn ends(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if !is_over_all(aggregate) {
        return Ok(None);
    }
    let Some((scan, columns)) = scan_beneath(aggregate.input()) else { return Ok(None) };
    let Some(asked) = scan.asked() else { return Ok(None) };
    let walk = |function: &Arc<AggregateFunctionExpr>| {
        let backwards = match function.fun().name() {
            "min" => false,
            "max" => true,
            _ => return None,
        };
        let [argument] = &function.expressions()[..] else { return None };
        let column = columns.get(argument.downcast_ref::<Column>()?.index()).copied().flatten()?;
        let schema = scan.region().schema();
        // What NaN and the zeros are to the engine's own is its business.
        if is_float(scan.region(), column) || schema.columns[column].sql_type.is_array() {
            return None;
        }
        let order = [(column, backwards, backwards)];
        let walk = walk_of(scan.region(), scan.conditions(), &asked.plain, &order, 1)?;
        if walk.backwards.is_empty() {
            // A condition says what the value is: any row will do.
            return Some(walk);
        }
        Some(Walk { backwards: vec![backwards], passes_null: true, ..walk })
    };
    let Some(walks) = aggregate.aggr_expr().iter().map(walk).collect::<Option<Vec<Walk>>>() else { return Ok(None) };
    let input = with_access(aggregate.input(), &Access::Walks(walks.into()), None)?;
    rebuilt(aggregate, input).map(Some)
}

fn is_float(region: &Region, ordinal: usize) -> bool {
    matches!(region.arrow_schema().field(ordinal).data_type(), DataType::Float32 | DataType::Float64)
}

fn rebuilt(aggregate: &AggregateExec, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let made = AggregateExec::try_new(
        *aggregate.mode(),
        Arc::new(aggregate.group_expr().clone()),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        input,
        aggregate.input_schema(),
    )?;
    Ok(Arc::new(made))
}

/// count(*) of all rows.
fn counted(aggregate: &AggregateExec) -> Option<Arc<dyn ExecutionPlan>> {
    if !is_over_all(aggregate) {
        return None;
    }
    let (scan, _) = scan_beneath(aggregate.input())?;
    let is_count = |function: &Arc<AggregateFunctionExpr>| {
        let is_constant = |argument: &Arc<dyn PhysicalExpr>| {
            argument.downcast_ref::<Literal>().is_some_and(|literal| !literal.value().is_null())
        };
        function.fun().name() == "count" && !function.is_distinct() && function.expressions().iter().all(is_constant)
    };
    let schema = aggregate.schema();
    let are_counts = aggregate.aggr_expr().iter().all(is_count)
        && schema.fields().iter().all(|field| *field.data_type() == DataType::Int64);
    if !are_counts || !scan.is_whole() {
        return None;
    }
    let streams = aggregate.properties().output_partitioning().partition_count();
    Some(Arc::new(GridCountExec::new(scan.region(), scan.version(), schema, streams)))
}

#[cfg(test)]
mod tests {
    use datafusion::physical_plan::displayable;

    use crate::testing;

    #[test]
    fn large_batches_are_of_numbers_alone() {
        let engine = testing::engine_with(&[
            "CREATE TABLE t (id integer PRIMARY KEY, v integer, s text, a integer[], d jsonb, b bytea)",
            "INSERT INTO t (id, v) SELECT i, i % 100 FROM generate_series(1, 5000) AS g(i)",
        ]);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        for (sql, is_large) in [
            ("SELECT sum(v) FROM t", true),
            ("SELECT sum(v), avg(v), max(v) FROM t", true),
            ("SELECT sum(v + 1), count(*) FILTER (WHERE v > 3) FROM t", true),
            // Columns.
            ("SELECT sum(v), count(s) FROM t", false),
            ("SELECT sum(v), count(a) FROM t", false),
            ("SELECT sum(v), count(d) FROM t", false),
            ("SELECT sum(v), count(b) FROM t", false),
            // What is computed: of all rows of a large batch it would be more than a call may give.
            ("SELECT sum(length(repeat('x', v))) FROM t", false),
            ("SELECT max(length(u)) FROM (SELECT repeat('x', v) AS u FROM t) AS q", false),
            ("SELECT sum(v) FILTER (WHERE repeat('x', v) <> 'y') FROM t", false),
            ("SELECT length(string_agg(v::text, ',')) FROM t", false),
            ("SELECT sum(array_length(ARRAY[v, v], 1)) FROM t", false),
        ] {
            let (plan, _) = runtime.block_on(testing::answered(&engine, sql));
            let lines = displayable(plan.as_ref()).indent(false).to_string();
            assert_eq!(lines.contains("batch_rows="), is_large, "{sql}: {lines}");
        }
    }
}
