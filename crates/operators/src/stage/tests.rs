//! Plans that are cut at their exchanges, each part with our nodes, beside the engine's.

use std::collections::HashSet;
use std::fmt;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::Int64Type;
use datafusion_common::{JoinType, NullEquality};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_physical_expr::expressions::{DynamicFilterPhysicalExpr, col, lit};
use datafusion_physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion_physical_plan::aggregates::PhysicalGroupBy;
use datafusion_physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion_physical_plan::execution_plan::{
    Boundedness, EmissionType, collect_partitioned, replace_children_if_necessary, reset_plan_states,
};
use datafusion_physical_plan::filter::FilterExec;
use datafusion_physical_plan::repartition::RepartitionExec;
use datafusion_physical_plan::sorts::sort::SortExec;
use datafusion_physical_plan::{DisplayAs, DisplayFormatType, PlanProperties, collect};
use futures::StreamExt;
use tokio::runtime::Runtime;

use super::*;
use crate::aggregate::tests::{
    KEYS, Wanted, aggregate, all_aggregates, context, distinct_aggregates, files, grouping, in_streams, peak, rows,
    sorted, table,
};
use crate::join::tests::TYPES;

/// Streams behind an exchange.
const STREAMS: usize = 4;
/// Memory that is more than anything needs.
const PLENTY: usize = 1 << 30;

/// What came of an exchange, in the streams of that: a leaf, as a worker has it.
#[derive(Debug)]
struct Shuffled {
    streams: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl Shuffled {
    fn behind(exchange: &Arc<dyn ExecutionPlan>, streams: Vec<Vec<RecordBatch>>) -> Arc<dyn ExecutionPlan> {
        let properties = PlanProperties::new(
            exchange.equivalence_properties().clone(),
            exchange.output_partitioning().clone(),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Arc::new(Self { streams: in_streams(&exchange.schema(), streams), properties: Arc::new(properties) })
    }
}

impl DisplayAs for Shuffled {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shuffled")
    }
}

impl ExecutionPlan for Shuffled {
    fn name(&self) -> &str {
        "Shuffled"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, stream: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.streams.execute(stream, context)
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap()
}

fn run(plan: &Arc<dyn ExecutionPlan>, memory: usize) -> RecordBatch {
    let batches = runtime().block_on(collect(Arc::clone(plan), context(memory))).unwrap();
    concat_batches(&plan.schema(), &batches).unwrap()
}

/// What the engine makes of a plan, of which a part may have been computed before.
fn by_the_engine(plan: &Arc<dyn ExecutionPlan>) -> RecordBatch {
    run(&reset_plan_states(Arc::clone(plan)).unwrap(), PLENTY)
}

fn run_streams(plan: &Arc<dyn ExecutionPlan>, memory: usize) -> Vec<Vec<RecordBatch>> {
    runtime().block_on(collect_partitioned(Arc::clone(plan), context(memory))).unwrap()
}

/// A part with our nodes, each of which promises what the engine's did.
fn swapped(part: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let own = in_stage(Arc::clone(part)).unwrap();
    check_promises(part, &own);
    own
}

fn check_promises(stock: &Arc<dyn ExecutionPlan>, own: &Arc<dyn ExecutionPlan>) {
    let what = format!("{} in the place of {}", own.name(), stock.name());
    let order = |node: &Arc<dyn ExecutionPlan>| node.output_ordering().map(ToString::to_string);
    assert_eq!(own.schema(), stock.schema(), "{what}");
    assert_eq!(own.output_partitioning().to_string(), stock.output_partitioning().to_string(), "{what}");
    assert_eq!(order(own), order(stock), "{what}");
    let (before, after) = (stock.children(), own.children());
    assert_eq!(before.len(), after.len(), "{what}");
    before.into_iter().zip(after).for_each(|(stock, own)| check_promises(stock, own));
}

/// Computes a plan part by part, beginning with what is beneath: each over what came of the exchanges below it. The last part is not computed
/// yet.
fn last_part(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let cut = reset_plan_states(plan).unwrap().transform_up(|node| {
        if !node.is::<RepartitionExec>() && !node.is::<CoalescePartitionsExec>() {
            return Ok(Transformed::no(node));
        }
        let parts = node.children().into_iter().map(swapped).collect();
        let exchange = replace_children_if_necessary(node, parts)?;
        let streams = run_streams(&exchange, PLENTY);
        Ok(Transformed::yes(Shuffled::behind(&exchange, streams)))
    });
    swapped(&cut.unwrap().data)
}

/// That the last part of a plan is the node of this name, and gives the rows that the engine gives, which the first columns put in order.
fn check_last(plan: Arc<dyn ExecutionPlan>, name: &str, columns: usize, what: &str) {
    let expected = by_the_engine(&plan);
    let last = last_part(plan);
    assert_eq!(last.name(), name, "{what}");
    assert_eq!(sorted(&run(&last, PLENTY), columns), sorted(&expected, columns), "{what}");
}

fn by(keys: &[&str], input: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let schema = input.schema();
    divided(keys.iter().map(|key| col(key, &schema).unwrap()).collect(), input)
}

fn divided(keys: Vec<Arc<dyn PhysicalExpr>>, input: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    Arc::new(RepartitionExec::try_new(Arc::clone(input), Partitioning::Hash(keys, STREAMS)).unwrap())
}

fn groups_by(keys: &[&str], input: &Arc<dyn ExecutionPlan>) -> PhysicalGroupBy {
    let schema = input.schema();
    PhysicalGroupBy::new_single(keys.iter().map(|key| (col(key, &schema).unwrap(), (*key).to_owned())).collect())
}

fn aggregation(
    mode: AggregateMode,
    group_by: &PhysicalGroupBy,
    wanted: &[Wanted],
    input: &Arc<dyn ExecutionPlan>,
    raw: &Arc<dyn ExecutionPlan>,
) -> Arc<dyn ExecutionPlan> {
    let schema = raw.schema();
    let aggregates = wanted.iter().map(|wanted| aggregate(&schema, wanted)).collect();
    let filters = wanted.iter().map(|wanted| wanted.3.map(|filter| col(filter, &schema).unwrap())).collect();
    let input = Arc::clone(input);
    Arc::new(AggregateExec::try_new(mode, group_by.clone(), aggregates, filters, input, schema).unwrap())
}

/// Two stages of the engine's with an exchange in between.
fn two_stages(
    last: AggregateMode,
    group_by: &PhysicalGroupBy,
    wanted: &[Wanted],
    input: &Arc<dyn ExecutionPlan>,
) -> Arc<dyn ExecutionPlan> {
    let first = aggregation(AggregateMode::Partial, group_by, wanted, input, input);
    let of_last = group_by.as_final();
    let exchange = match last {
        AggregateMode::Final => Arc::new(CoalescePartitionsExec::new(first)) as Arc<dyn ExecutionPlan>,
        _ => divided(of_last.input_exprs(), &first),
    };
    aggregation(last, &of_last, wanted, &exchange, input)
}

#[test]
fn last_stages_take_what_first_stages_of_the_engine_give() {
    for (count, groups) in [(0, 1), (1, 1), (3000, 10), (12_000, 7_000)] {
        let input = table(&rows(count, groups), 3, 1000);
        for keys in KEYS {
            let group_by = groups_by(keys, &input);
            for wanted in [all_aggregates, distinct_aggregates] {
                for mode in [AggregateMode::Final, AggregateMode::FinalPartitioned] {
                    let plan = two_stages(mode, &group_by, &wanted(), &input);
                    check_last(plan, "HashAggregateExec", keys.len(), &format!("{count} {groups} {keys:?} {mode:?}"));
                }
            }
        }
    }
}

#[test]
fn last_stages_of_sets_of_keys_take_them_too() {
    let sets = [vec![false, false], vec![false, true], vec![true, true]];
    for (count, groups) in [(0, 1), (3000, 10), (12_000, 7_000)] {
        let input = table(&rows(count, groups), 3, 1000);
        let group_by = grouping(&input, &["text", "small"], &sets);
        let plan = two_stages(AggregateMode::FinalPartitioned, &group_by, &all_aggregates(), &input);
        check_last(plan, "HashAggregateExec", 3, &format!("{count} {groups}"));
    }
}

#[test]
fn single_stages_have_the_groups_of_each_stream() {
    for (count, groups) in [(0, 1), (3000, 10), (12_000, 7_000)] {
        let input = table(&rows(count, groups), 3, 1000);
        for keys in KEYS {
            let group_by = groups_by(keys, &input);
            for (mode, exchange) in [
                (AggregateMode::SinglePartitioned, by(keys, &input)),
                (AggregateMode::Single, Arc::new(CoalescePartitionsExec::new(Arc::clone(&input))) as _),
            ] {
                let plan = aggregation(mode, &group_by, &all_aggregates(), &exchange, &input);
                check_last(plan, "HashAggregateExec", keys.len(), &format!("{count} {groups} {keys:?} {mode:?}"));
            }
        }
    }
}

/// The ids in each stream of batches.
fn ids(streams: &[Vec<RecordBatch>]) -> Vec<HashSet<i64>> {
    let of_batch = |batch: &RecordBatch| {
        let ids = batch.column_by_name("id").unwrap().as_primitive::<Int64Type>();
        ids.iter().flatten().collect::<Vec<_>>()
    };
    streams.iter().map(|batches| batches.iter().flat_map(of_batch).collect()).collect()
}

/// That what comes out of each stream of the last part is of that stream of its input, and that there are so many rows.
fn check_streams(last: &Arc<dyn ExecutionPlan>, memory: usize, count: usize) {
    let input = ids(&run_streams(last.children()[0], PLENTY));
    let streams = run_streams(last, memory);
    assert_eq!(streams.iter().flatten().map(RecordBatch::num_rows).sum::<usize>(), count);
    let found = ids(&streams);
    assert_eq!(found.len(), STREAMS);
    assert!(found.iter().all(|ids| !ids.is_empty()));
    assert!(found.iter().zip(&input).all(|(found, input)| found.is_subset(input)));
}

#[test]
fn groups_that_went_through_files_stay_in_their_streams() {
    let input = table(&rows(60_000, 40_000), 3, 2048);
    let wanted = || {
        vec![
            Wanted(count_udaf(), "*", false, None),
            Wanted(sum_udaf(), "id", false, None),
            Wanted(sum_udaf(), "number", false, Some("flag")),
        ]
    };
    let group_by = groups_by(&["id"], &input);
    let plan = || two_stages(AggregateMode::FinalPartitioned, &group_by, &wanted(), &input);
    let expected = by_the_engine(&plan());
    let free = last_part(plan());
    assert_eq!(sorted(&run(&free, PLENTY), 1), sorted(&expected, 1));
    assert_eq!(files(&free), 0);
    let memory = peak(&free) / 4;
    let less = last_part(plan());
    assert_eq!(sorted(&run(&less, memory), 1), sorted(&expected, 1));
    assert!(files(&less) > 0);
    check_streams(&last_part(plan()), memory, expected.num_rows());
}

#[test]
fn what_a_stream_has_goes_with_it_while_others_go_on() {
    let input = table(&rows(60_000, 40_000), 3, 2048);
    let group_by = groups_by(&["id"], &input);
    let count = [Wanted(count_udaf(), "*", false, None)];
    let last = last_part(two_stages(AggregateMode::FinalPartitioned, &group_by, &count, &input));
    let context = context(PLENTY);
    let pool = Arc::clone(&context.runtime_env().memory_pool);
    // One thread: a task that has said what it found has ended before anybody hears it.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let held = runtime.block_on(async {
        let outputs = (0..STREAMS).map(|output| last.execute(output, Arc::clone(&context)).unwrap());
        let mut outputs: Vec<SendableRecordBatchStream> = outputs.collect();
        for output in &mut outputs {
            output.next().await.unwrap().unwrap();
        }
        let mut held = vec![pool.reserved()];
        while let Some(output) = outputs.pop() {
            drop(output);
            held.push(pool.reserved());
        }
        held
    });
    assert!(held.windows(2).all(|two| two[1] < two[0]), "{held:?}");
    assert_eq!(held.last(), Some(&0));
}

fn join(
    sides: [&Arc<dyn ExecutionPlan>; 2],
    keys: &[&str],
    join_type: JoinType,
    mode: PartitionMode,
    nulls: NullEquality,
) -> HashJoinExec {
    let [left, right] = sides;
    let on = keys.iter().map(|key| (col(key, &left.schema()).unwrap(), col(key, &right.schema()).unwrap()));
    let (on, left, right) = (on.collect(), Arc::clone(left), Arc::clone(right));
    HashJoinExec::try_new(left, right, on, None, &join_type, None, mode, nulls, false).unwrap()
}

/// In one order, whatever the columns are.
fn in_order(rows: &RecordBatch) -> RecordBatch {
    sorted(rows, rows.num_columns())
}

const NULLS: [NullEquality; 2] = [NullEquality::NullEqualsNothing, NullEquality::NullEqualsNull];

#[test]
fn joins_above_two_exchanges_are_those_of_the_engine() {
    let (left, right) = (table(&rows(600, 90), 2, 100), table(&rows(800, 130), 3, 100));
    for keys in [&["id"][..], &["small"], &["text", "small"]] {
        let sides = [by(keys, &left), by(keys, &right)];
        for (join_type, nulls) in TYPES.into_iter().flat_map(|join_type| NULLS.map(|nulls| (join_type, nulls))) {
            let plan = join(sides.each_ref(), keys, join_type, PartitionMode::Partitioned, nulls);
            let columns = plan.schema().fields().len();
            check_last(Arc::new(plan), "UnchainedHashJoinExec", columns, &format!("{keys:?} {join_type} {nulls:?}"));
        }
    }
}

#[test]
fn joins_with_a_side_for_all_streams_are_those_of_the_engine() {
    let (left, right) = (table(&rows(600, 90), 1, 100), table(&rows(800, 130), 3, 100));
    for (join_type, nulls) in TYPES.into_iter().flat_map(|join_type| NULLS.map(|nulls| (join_type, nulls))) {
        let plan = join([&left, &right], &["small"], join_type, PartitionMode::CollectLeft, nulls);
        let columns = plan.schema().fields().len();
        check_last(Arc::new(plan), "UnchainedHashJoinExec", columns, &format!("{join_type} {nulls:?}"));
    }
}

#[test]
fn rows_of_a_join_that_went_through_files_stay_in_their_streams() {
    let (left, right) = (table(&rows(20_000, 15_000), 3, 1000), table(&rows(15_000, 12_000), 3, 1000));
    let keys = ["id"];
    let sides = [by(&keys, &left), by(&keys, &right)];
    for join_type in [JoinType::Inner, JoinType::Left, JoinType::LeftAnti] {
        let mode = PartitionMode::Partitioned;
        let plan: Arc<dyn ExecutionPlan> =
            Arc::new(join(sides.each_ref(), &keys, join_type, mode, NullEquality::NullEqualsNothing));
        let expected = by_the_engine(&plan).num_rows();
        // How many streams hold their rows at once is another thing each time: a quarter of what all hold may be what one needs.
        let peaks = (0..5).map(|_| {
            let free = last_part(Arc::clone(&plan));
            check_streams(&free, PLENTY, expected);
            assert_eq!(files(&free), 0);
            peak(&free)
        });
        let least = peaks.fold(usize::MAX, usize::min);
        let less = last_part(plan);
        check_streams(&less, least / 6, expected);
        assert!(files(&less) > 0, "{join_type}");
    }
}

#[test]
fn groups_above_a_join_count_on_its_streams() {
    let (left, right) = (table(&rows(20_000, 15_000), 3, 1000), table(&rows(15_000, 12_000), 3, 1000));
    let keys = ["id"];
    let sides = [by(&keys, &left), by(&keys, &right)];
    let nulls = NullEquality::NullEqualsNothing;
    let joined = join(sides.each_ref(), &keys, JoinType::LeftSemi, PartitionMode::Partitioned, nulls);
    let joined: Arc<dyn ExecutionPlan> = Arc::new(joined);
    let group_by = groups_by(&keys, &joined);
    let wanted = [Wanted(count_udaf(), "*", false, None)];
    let plan = aggregation(AggregateMode::SinglePartitioned, &group_by, &wanted, &joined, &joined);
    let expected = by_the_engine(&plan);
    let last = last_part(plan);
    assert_eq!((last.name(), last.children()[0].name()), ("HashAggregateExec", "UnchainedHashJoinExec"));
    // Too little for both.
    let found = run(&last, 400_000);
    assert!(files(last.children()[0]) > 0);
    assert_eq!(in_order(&found), in_order(&expected));
}

/// The name of what stands in the place of a node.
fn in_place_of(node: impl ExecutionPlan) -> String {
    swapped(&(Arc::new(node) as Arc<dyn ExecutionPlan>)).name().to_owned()
}

#[test]
fn first_stages_stay_the_engines() {
    let input = table(&rows(100, 10), 3, 10);
    let group_by = groups_by(&["id"], &input);
    let wanted = all_aggregates();
    let first = aggregation(AggregateMode::Partial, &group_by, &wanted, &input, &input);
    let between = aggregation(AggregateMode::PartialReduce, &group_by.as_final(), &wanted, &first, &input);
    for part in [first, between] {
        assert_eq!(swapped(&part).name(), "AggregateExec");
    }
}

#[test]
fn what_keeps_an_order_stays_the_engines() {
    let input = table(&rows(100, 10), 3, 10);
    let order = LexOrdering::new([PhysicalSortExpr::new_default(col("id", &input.schema()).unwrap())]).unwrap();
    let exchange = by(&["id"], &input);
    let ordered = SortExec::new(order, Arc::clone(&exchange)).with_preserve_partitioning(true);
    let ordered: Arc<dyn ExecutionPlan> = Arc::new(ordered);
    let group_by = groups_by(&["id"], &input);
    let groups = aggregation(AggregateMode::SinglePartitioned, &group_by, &[], &ordered, &input);
    assert_eq!(swapped(&groups).name(), "AggregateExec");
    let (mode, nulls) = (PartitionMode::Partitioned, NullEquality::NullEqualsNothing);
    for (join_type, name) in [(JoinType::Inner, "HashJoinExec"), (JoinType::Full, "UnchainedHashJoinExec")] {
        let join = join([&exchange, &ordered], &["id"], join_type, mode, nulls);
        assert_eq!(in_place_of(join), name, "{join_type}");
    }
}

#[test]
fn a_side_for_all_streams_leaves_those_that_are_divided_to_the_engine() {
    let (left, right) = (table(&rows(100, 10), 1, 10), by(&["id"], &table(&rows(100, 10), 3, 10)));
    let nulls = NullEquality::NullEqualsNothing;
    // Which stream rows of the left side come out of nobody promises.
    for (join_type, name) in [(JoinType::Inner, "HashJoinExec"), (JoinType::Left, "UnchainedHashJoinExec")] {
        let join = join([&left, &right], &["id"], join_type, PartitionMode::CollectLeft, nulls);
        assert_eq!(in_place_of(join), name, "{join_type}");
    }
}

#[test]
fn what_a_scan_of_the_same_part_waits_for_the_engine_tells() {
    let (left, right) = (table(&rows(100, 10), 1, 10), table(&rows(100, 10), 3, 10));
    let (mode, nulls) = (PartitionMode::CollectLeft, NullEquality::NullEqualsNothing);
    let told = || Arc::new(DynamicFilterPhysicalExpr::new(vec![col("id", &right.schema()).unwrap()], lit(true)));
    let filter = told();
    let predicate: Arc<dyn PhysicalExpr> = Arc::<DynamicFilterPhysicalExpr>::clone(&filter);
    let scan: Arc<dyn ExecutionPlan> = Arc::new(FilterExec::try_new(predicate, Arc::clone(&right)).unwrap());
    let waiting = join([&left, &scan], &["id"], JoinType::Inner, mode, nulls).with_dynamic_filter_expr(filter).unwrap();
    assert_eq!(in_place_of(waiting), "HashJoinExec");
    // Its scan is in another part, which nothing is told.
    let far = join([&left, &right], &["id"], JoinType::Inner, mode, nulls).with_dynamic_filter_expr(told()).unwrap();
    assert_eq!(in_place_of(far), "UnchainedHashJoinExec");
}

#[test]
fn whether_there_is_any_null_all_streams_say_together() {
    let (left, right) = (table(&rows(600, 130), 1, 100), table(&rows(800, 120), 3, 100));
    let not_in = |sides: [&Arc<dyn ExecutionPlan>; 2], key: &str, mode| -> HashJoinExec {
        let join = join(sides, &[key], JoinType::LeftAnti, mode, NullEquality::NullEqualsNothing);
        join.builder().with_null_aware(true).build().unwrap()
    };
    // Of the first key some are NULL, so that nothing comes, and of the other none.
    for (key, is_empty) in [("small", true), ("id", false)] {
        let together: Arc<dyn ExecutionPlan> = Arc::new(not_in([&left, &right], key, PartitionMode::CollectLeft));
        let own = swapped(&together);
        assert_eq!(own.name(), "UnchainedHashJoinExec");
        let found = run(&own, PLENTY);
        assert_eq!(found.num_rows() == 0, is_empty, "{key}");
        assert_eq!(in_order(&found), in_order(&by_the_engine(&together)), "{key}");
        let sides = [by(&[key], &left), by(&[key], &right)];
        assert_eq!(in_place_of(not_in(sides.each_ref(), key, PartitionMode::Partitioned)), "HashJoinExec");
    }
}
