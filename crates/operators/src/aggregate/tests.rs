//! The node beside the engine's two stages, of which every answer is compared.

use std::fmt;
use std::sync::Arc;

use arrow::array::*;
use arrow::compute::{SortColumn, cast, concat_batches, lexsort_to_indices, take};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::config::ConfigOptions;
use datafusion_common::{DataFusionError, Result, ScalarValue};
use datafusion_execution::memory_pool::{FairSpillPool, MemoryConsumer, MemoryPool};
use datafusion_execution::runtime_env::RuntimeEnvBuilder;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_expr::AggregateUDF;
use datafusion_functions_aggregate::array_agg::array_agg_udaf;
use datafusion_functions_aggregate::average::avg_udaf;
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion_physical_expr::expressions::{col, lit};
use datafusion_physical_expr::{PhysicalExpr, PhysicalSortExpr};
use datafusion_physical_optimizer::PhysicalOptimizerRule;
use datafusion_physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion_physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion_physical_plan::metrics::Gauge;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion_physical_plan::{ExecutionPlan, collect};
use futures::StreamExt;

use super::partitions::PARTITIONS;
use super::rule::HashAggregates;
use super::states::{State, Sums, of_extremes, of_float_sums};
pub(crate) use crate::hash_table::scrambled;
use crate::memory::{Memory, Wish};

mod engines;
mod expected;
mod few;
pub(crate) mod lot;
mod room;
mod skew;
mod spilled;
mod twin;

/// A stream of batches that are there.
struct There(SchemaRef, Vec<RecordBatch>);

impl fmt::Debug for There {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("batches")
    }
}

impl PartitionStream for There {
    fn schema(&self) -> &SchemaRef {
        &self.0
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let batches = self.1.clone().into_iter().map(Ok);
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.0), futures::stream::iter(batches)))
    }
}

/// Rows in some streams, cut into batches.
pub(crate) fn table(rows: &RecordBatch, streams: usize, batch_rows: usize) -> Arc<dyn ExecutionPlan> {
    let schema = rows.schema();
    let mut parts = vec![Vec::new(); streams];
    for (number, start) in (0..rows.num_rows()).step_by(batch_rows).enumerate() {
        parts[number % streams].push(rows.slice(start, batch_rows.min(rows.num_rows() - start)));
    }
    in_streams(&schema, parts)
}

/// Batches in the streams in which they are.
pub(crate) fn in_streams(schema: &SchemaRef, streams: Vec<Vec<RecordBatch>>) -> Arc<dyn ExecutionPlan> {
    let there = |part| Arc::new(There(Arc::clone(schema), part)) as Arc<dyn PartitionStream>;
    let streams = streams.into_iter().map(there).collect();
    Arc::new(StreamingTableExec::try_new(Arc::clone(schema), streams, None, [], false, None).unwrap())
}

/// An aggregate of a column, of rows where another one is true.
pub(crate) struct Wanted(
    pub(crate) Arc<AggregateUDF>,
    pub(crate) &'static str,
    pub(crate) bool,
    pub(crate) Option<&'static str>,
);

pub(crate) fn aggregate(schema: &SchemaRef, wanted: &Wanted) -> Arc<AggregateFunctionExpr> {
    let arg = if wanted.1 == "*" { lit(1_i64) } else { col(wanted.1, schema).unwrap() };
    let name = format!("{}({}) {} {:?}", wanted.0.name(), wanted.1, wanted.2, wanted.3);
    // What stands between texts.
    let args = if wanted.0.name() == "string_agg" { vec![arg, lit(",")] } else { vec![arg] };
    let builder = AggregateExprBuilder::new(Arc::clone(&wanted.0), args).schema(Arc::clone(schema)).alias(name);
    let builder = if wanted.2 { builder.distinct() } else { builder };
    Arc::new(builder.build().unwrap())
}

/// The engine's plan; `is_joined` puts the exchange between its stages that it needs to run.
fn stock(input: &Arc<dyn ExecutionPlan>, keys: &[&str], wanted: &[Wanted], is_joined: bool) -> Arc<dyn ExecutionPlan> {
    let schema = input.schema();
    let group_by = keys.iter().map(|key| (col(key, &schema).unwrap(), (*key).to_owned())).collect();
    stock_by(input, &PhysicalGroupBy::new_single(group_by), wanted, is_joined)
}

/// Sets of keys, of which those are left out where it says so.
pub(crate) fn grouping(input: &Arc<dyn ExecutionPlan>, keys: &[&str], sets: &[Vec<bool>]) -> PhysicalGroupBy {
    let schema = input.schema();
    let exprs = keys.iter().map(|key| (col(key, &schema).unwrap(), (*key).to_owned())).collect();
    let null = |key: &&str| {
        let null = ScalarValue::try_from(schema.field_with_name(key).unwrap().data_type()).unwrap();
        (lit(null), (*key).to_owned())
    };
    PhysicalGroupBy::new(exprs, keys.iter().map(null).collect(), sets.to_vec(), true)
}

fn stock_by(
    input: &Arc<dyn ExecutionPlan>,
    group_by: &PhysicalGroupBy,
    wanted: &[Wanted],
    is_joined: bool,
) -> Arc<dyn ExecutionPlan> {
    let schema = input.schema();
    let aggregates: Vec<_> = wanted.iter().map(|wanted| aggregate(&schema, wanted)).collect();
    let filters: Vec<Option<Arc<dyn PhysicalExpr>>> =
        wanted.iter().map(|wanted| wanted.3.map(|filter| col(filter, &schema).unwrap())).collect();
    two_stages(input, group_by, aggregates, filters, is_joined)
}

fn two_stages(
    input: &Arc<dyn ExecutionPlan>,
    group_by: &PhysicalGroupBy,
    aggregates: Vec<Arc<AggregateFunctionExpr>>,
    filters: Vec<Option<Arc<dyn PhysicalExpr>>>,
    is_joined: bool,
) -> Arc<dyn ExecutionPlan> {
    let schema = input.schema();
    let partial = AggregateExec::try_new(
        AggregateMode::Partial,
        group_by.clone(),
        aggregates.clone(),
        filters,
        Arc::clone(input),
        Arc::clone(&schema),
    );
    let mut partial: Arc<dyn ExecutionPlan> = Arc::new(partial.unwrap());
    if is_joined {
        partial = Arc::new(CoalescePartitionsExec::new(partial));
    }
    let none = vec![None; aggregates.len()];
    let last =
        AggregateExec::try_new(AggregateMode::Final, group_by.as_final(), aggregates, none, partial, schema).unwrap();
    Arc::new(last)
}

fn own(input: &Arc<dyn ExecutionPlan>, keys: &[&str], wanted: &[Wanted]) -> Arc<dyn ExecutionPlan> {
    let mut config = ConfigOptions::default();
    config.execution.target_partitions = 3;
    HashAggregates.optimize(stock(input, keys, wanted, false), &config).unwrap()
}

/// A context with so much memory for queries.
pub(crate) fn context(memory: usize) -> Arc<TaskContext> {
    let pool: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(memory));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().unwrap();
    Arc::new(TaskContext::default().with_runtime(runtime))
}

fn run(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<RecordBatch> {
    let schema = plan.schema();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap();
    let batches = runtime.block_on(collect(plan, context))?;
    Ok(concat_batches(&schema, &batches)?)
}

/// In the order of the first columns.
pub(crate) fn sorted(batch: &RecordBatch, keys: usize) -> RecordBatch {
    let columns: Vec<SortColumn> =
        batch.columns()[..keys].iter().map(|column| SortColumn { values: Arc::clone(column), options: None }).collect();
    let order = lexsort_to_indices(&columns, None).unwrap();
    let columns = batch.columns().iter().map(|column| take(column, &order, None).unwrap()).collect();
    RecordBatch::try_new(batch.schema(), columns).unwrap()
}

/// The most that was held at once, bytes.
pub(crate) fn peak(plan: &Arc<dyn ExecutionPlan>) -> usize {
    plan.metrics().unwrap().sum_by_name("peak_mem_used").unwrap().as_usize()
}

/// How often something was written to files.
pub(crate) fn files(plan: &Arc<dyn ExecutionPlan>) -> usize {
    plan.metrics().unwrap().spill_count().unwrap_or(0)
}

/// Rows with keys of all kinds, of which there are so many of each.
pub(crate) fn rows(count: u64, groups: u64) -> RecordBatch {
    let key = |row: u64| scrambled(row) % groups;
    let all = || 0..count;
    let some = |row: u64| !scrambled(row + 7).is_multiple_of(5);
    let fields = vec![
        Field::new("small", DataType::Int32, true),
        Field::new("id", DataType::Int64, false),
        Field::new("text", DataType::Utf8, true),
        Field::new("wide", DataType::Decimal128(20, 2), true),
        Field::new("double", DataType::Float64, true),
        Field::new("flag", DataType::Boolean, true),
        Field::new("value", DataType::Int64, true),
        Field::new("number", DataType::Float64, true),
        Field::new("word", DataType::Utf8, true),
    ];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(all().map(|row| (key(row) % 97 != 3).then_some(key(row) as i32)).collect::<Int32Array>()),
        Arc::new(all().map(|row| key(row) as i64 * 1_000_003).collect::<Int64Array>()),
        Arc::new(
            all()
                .map(|row| (key(row) % 89 != 5).then(|| format!("{}{}", "x".repeat(key(row) as usize % 23), key(row))))
                .collect::<StringArray>(),
        ),
        Arc::new(
            all()
                .map(|row| (key(row) % 83 != 1).then_some(i128::from(key(row)) - 50))
                .collect::<Decimal128Array>()
                .with_precision_and_scale(20, 2)
                .unwrap(),
        ),
        Arc::new(all().map(|row| (key(row) % 79 != 2).then_some(key(row) as f64 / 4.0)).collect::<Float64Array>()),
        Arc::new(all().map(|row| (key(row) % 3 != 0).then_some(key(row) % 3 == 1)).collect::<BooleanArray>()),
        Arc::new(all().map(|row| some(row).then_some(scrambled(row + 1) as i64)).collect::<Int64Array>()),
        Arc::new(all().map(|row| some(row).then_some((scrambled(row + 2) % 1000) as f64)).collect::<Float64Array>()),
        Arc::new(all().map(|row| some(row).then(|| (scrambled(row) % 100).to_string())).collect::<StringArray>()),
    ];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// Aggregates of values that count once, of all kinds, beside others.
pub(crate) fn distinct_aggregates() -> Vec<Wanted> {
    let mut all = vec![
        Wanted(count_udaf(), "*", false, None),
        Wanted(sum_udaf(), "number", true, Some("flag")),
        Wanted(avg_udaf(), "number", true, None),
        Wanted(min_udaf(), "value", true, None),
        Wanted(max_udaf(), "word", true, Some("flag")),
        Wanted(sum_udaf(), "wide", true, None),
        Wanted(sum_udaf(), "id", false, Some("flag")),
    ];
    for column in ["small", "id", "text", "wide", "double", "flag", "value", "word"] {
        all.push(Wanted(count_udaf(), column, true, None));
        all.push(Wanted(count_udaf(), column, true, Some("flag")));
    }
    all
}

pub(crate) fn all_aggregates() -> Vec<Wanted> {
    vec![
        Wanted(count_udaf(), "*", false, None),
        Wanted(count_udaf(), "value", false, None),
        Wanted(count_udaf(), "value", false, Some("flag")),
        Wanted(count_udaf(), "word", true, None),
        Wanted(sum_udaf(), "number", false, Some("flag")),
        Wanted(avg_udaf(), "number", false, None),
        Wanted(min_udaf(), "value", false, None),
        Wanted(max_udaf(), "word", false, None),
        Wanted(sum_udaf(), "id", false, None),
        Wanted(sum_udaf(), "wide", false, Some("flag")),
        Wanted(min_udaf(), "wide", false, None),
        Wanted(max_udaf(), "small", false, Some("flag")),
        Wanted(min_udaf(), "double", false, None),
        Wanted(max_udaf(), "number", false, None),
    ]
}

pub(crate) const KEYS: [&[&str]; 10] = [
    &["small"],
    &["id"],
    &["text"],
    &["wide"],
    &["double"],
    &["flag"],
    &["small", "flag"],
    &["id", "small"],
    &["text", "small", "double"],
    &["wide", "id", "flag", "text"],
];

#[test]
fn groups_are_those_of_the_engine() {
    for (count, groups) in [(0, 1), (1, 1), (1000, 1), (3000, 10), (12_000, 7_000)] {
        let rows = rows(count, groups);
        for keys in KEYS {
            let input = table(&rows, 3, 1000);
            let expected = run(stock(&input, keys, &all_aggregates(), true), context(1 << 30)).unwrap();
            let plan = own(&input, keys, &all_aggregates());
            assert_eq!(plan.name(), "HashAggregateExec", "{keys:?}");
            assert_eq!(plan.schema(), expected.schema());
            let found = run(Arc::clone(&plan), context(1 << 30)).unwrap();
            assert_eq!(sorted(&found, keys.len()), sorted(&expected, keys.len()), "{count} {groups} {keys:?}");
            assert_eq!(plan.metrics().unwrap().output_rows().unwrap_or(0), expected.num_rows());
        }
    }
}

#[test]
fn values_that_count_once_are_those_of_the_engine() {
    for (count, groups) in [(0, 1), (1, 1), (1000, 1), (3000, 10), (12_000, 7_000)] {
        let rows = rows(count, groups);
        for keys in KEYS {
            let input = table(&rows, 3, 1000);
            let expected = run(stock(&input, keys, &distinct_aggregates(), true), context(1 << 30)).unwrap();
            let plan = own(&input, keys, &distinct_aggregates());
            assert_eq!(plan.name(), "HashAggregateExec", "{keys:?}");
            let found = run(Arc::clone(&plan), context(1 << 30)).unwrap();
            assert_eq!(sorted(&found, keys.len()), sorted(&expected, keys.len()), "{count} {groups} {keys:?}");
        }
    }
}

#[test]
fn values_that_count_once_go_through_files() {
    let input = table(&rows(40_000, 20_000), 3, 2048);
    for keys in [&["id"][..], &["text"], &["flag"]] {
        let wanted = || {
            vec![
                Wanted(count_udaf(), "value", true, None),
                Wanted(count_udaf(), "text", true, Some("flag")),
                Wanted(sum_udaf(), "number", true, None),
                Wanted(avg_udaf(), "number", true, None),
            ]
        };
        let free = own(&input, keys, &wanted());
        let expected = run(Arc::clone(&free), context(1 << 30)).unwrap();
        assert_eq!(files(&free), 0);
        for share in [2, 8] {
            let plan = own(&input, keys, &wanted());
            let found = run(Arc::clone(&plan), context(peak(&free) / share)).unwrap();
            assert!(files(&plan) > 0, "{keys:?} {share}");
            assert_eq!(sorted(&found, keys.len()), sorted(&expected, keys.len()), "{keys:?} {share}");
        }
    }
}

#[test]
fn grouping_sets_are_those_of_the_engine() {
    let sets: [&[&[bool]]; 5] = [
        // All, one of them, none: ROLLUP.
        &[&[false, false], &[false, true], &[true, true]],
        &[&[false, false], &[false, true], &[true, false], &[true, true]],
        // The same set twice.
        &[&[true, false], &[true, false], &[false, true]],
        &[&[true, true], &[true, true]],
        &[&[false, false]],
    ];
    for (count, groups) in [(0, 1), (1, 1), (3000, 10), (12_000, 7_000)] {
        let rows = rows(count, groups);
        let input = table(&rows, 3, 1000);
        for keys in [["small", "flag"], ["text", "id"], ["double", "wide"]] {
            for sets in sets {
                let sets: Vec<Vec<bool>> = sets.iter().map(|set| set.to_vec()).collect();
                for wanted in [all_aggregates, distinct_aggregates] {
                    let group_by = grouping(&input, &keys, &sets);
                    let expected = run(stock_by(&input, &group_by, &wanted(), true), context(1 << 30)).unwrap();
                    let mut config = ConfigOptions::default();
                    config.execution.target_partitions = 3;
                    let plan = HashAggregates.optimize(stock_by(&input, &group_by, &wanted(), false), &config).unwrap();
                    assert_eq!(plan.name(), "HashAggregateExec", "{keys:?}");
                    assert_eq!(plan.schema(), expected.schema());
                    let found = run(Arc::clone(&plan), context(1 << 30)).unwrap();
                    assert_eq!(sorted(&found, 3), sorted(&expected, 3), "{count} {groups} {keys:?} {sets:?}");
                }
            }
        }
    }
}

#[test]
fn groups_of_sets_go_through_files() {
    let input = table(&rows(40_000, 20_000), 3, 2048);
    let sets = vec![vec![false, false], vec![false, true], vec![true, false], vec![true, true]];
    let group_by = grouping(&input, &["id", "text"], &sets);
    let wanted = || vec![Wanted(count_udaf(), "*", false, None), Wanted(sum_udaf(), "number", false, Some("flag"))];
    let plan = || HashAggregates.optimize(stock_by(&input, &group_by, &wanted(), false), &ConfigOptions::default());
    let free = plan().unwrap();
    let expected = run(Arc::clone(&free), context(1 << 30)).unwrap();
    let less = plan().unwrap();
    let found = run(Arc::clone(&less), context(peak(&free) / 5)).unwrap();
    assert!(files(&less) > 0);
    assert_eq!(sorted(&found, 3), sorted(&expected, 3));
}

#[test]
fn groups_without_aggregates_are_distinct_rows() {
    let input = table(&rows(20_000, 9_000), 2, 2048);
    for keys in KEYS {
        let expected = run(stock(&input, keys, &[], true), context(1 << 30)).unwrap();
        let found = run(own(&input, keys, &[]), context(1 << 30)).unwrap();
        assert_eq!(sorted(&found, keys.len()), sorted(&expected, keys.len()), "{keys:?}");
    }
}

#[test]
fn what_does_not_fit_goes_through_files() {
    let input = table(&rows(60_000, 40_000), 3, 2048);
    for keys in [&["id"][..], &["text"], &["text", "small"], &["small"]] {
        let wanted = || {
            vec![
                Wanted(count_udaf(), "*", false, None),
                Wanted(sum_udaf(), "number", false, None),
                Wanted(max_udaf(), "value", false, Some("flag")),
                Wanted(min_udaf(), "word", false, None),
            ]
        };
        let free = own(&input, keys, &wanted());
        let expected = run(Arc::clone(&free), context(1 << 30)).unwrap();
        let peak = peak(&free);
        assert_eq!(files(&free), 0);
        assert!(peak > 1_000_000, "{peak}");
        for share in [2, 10] {
            let plan = own(&input, keys, &wanted());
            let found = run(Arc::clone(&plan), context(peak / share)).unwrap();
            assert!(files(&plan) > 0, "{keys:?} {share}");
            assert_eq!(sorted(&found, keys.len()), sorted(&expected, keys.len()), "{keys:?} {share}");
        }
    }
}

#[test]
fn a_partition_has_one_file_however_often_it_leaves_memory() {
    let input = table(&rows(150_000, 100_000), 3, 2048);
    let wanted = || vec![Wanted(count_udaf(), "*", false, None), Wanted(sum_udaf(), "number", false, None)];
    let free = own(&input, &["id"], &wanted());
    let expected = run(Arc::clone(&free), context(1 << 30)).unwrap();
    let plan = own(&input, &["id"], &wanted());
    let tight = context(peak(&free) / 20);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap();
    let (found, most) = runtime.block_on(async {
        // One output alone gives out all groups, one partition after the other.
        let mut batches = plan.execute(0, Arc::clone(&tight)).unwrap();
        let (mut found, mut most) = (0, 0_usize);
        while let Some(batch) = batches.next().await {
            found += batch.unwrap().num_rows();
            most = most.max(tight.runtime_env().disk_manager.spilling_progress().active_files_count);
        }
        (found, most)
    });
    assert_eq!(found, expected.num_rows());
    // Those of the partitions, and those of one of them that was divided again, twice at most.
    assert!((1..=3 * PARTITIONS).contains(&most), "{most} files");
    assert_eq!(tight.runtime_env().disk_manager.spilling_progress().active_files_count, 0);
}

fn memory() -> Arc<Memory> {
    let reservation = MemoryConsumer::new("test").register(&context(1 << 30).runtime_env().memory_pool);
    Arc::new(Memory::new(reservation, Gauge::new()))
}

#[test]
fn nan_is_the_greatest_float_and_groups_without_values_are_null() {
    for (is_max, expected) in [(true, [Some(f64::NAN), Some(-1.0), None]), (false, [Some(2.0), Some(-4.0), None])] {
        let mut state = of_extremes(&DataType::Float64, is_max, memory().charge()).unwrap();
        let values: ArrayRef = Arc::new(Float64Array::from(vec![
            Some(2.0),
            Some(f64::NAN),
            Some(f64::INFINITY),
            Some(-1.0),
            Some(-4.0),
            None,
        ]));
        state.reserve(3, Wish::IfFree).unwrap();
        state.update(&[values], &[0, 0, 0, 1, 1, 2], None, 3).unwrap();
        let expected: ArrayRef = Arc::new(Float64Array::from(expected.to_vec()));
        assert_eq!(&state.evaluate().unwrap(), &expected);
    }
}

#[test]
fn least_and_greatest_texts_are_those_of_a_twin() {
    for (is_text, is_max) in [(true, true), (true, false), (false, true), (false, false)] {
        let data_type = if is_text { DataType::Utf8 } else { DataType::Binary };
        let memory = memory();
        let mut state = of_extremes(&data_type, is_max, memory.charge()).unwrap();
        let mut twin: Vec<Option<String>> = Vec::new();
        for round in 0..300_u64 {
            let is_null = |row: u64| round % 5 == 4 && row.is_multiple_of(3);
            // Short and long ones in turn, so that some fit where others were; the longest last.
            let text = |row: u64| {
                let number = scrambled(row * 31 + round);
                format!("{:x}{}", number >> 48, "é".repeat((number % (1 + round / 4)) as usize))
            };
            let texts: StringArray = (0..64).map(|row| (!is_null(row)).then(|| text(row))).collect();
            let filter: Option<BooleanArray> =
                (round % 7 == 6).then(|| (0..64).map(|row| Some(row % 2 == 0)).collect());
            let ids: Vec<usize> = (0..64).map(|row| (scrambled(row + round) % (round + 1)) as usize).collect();
            let groups = twin.len().max(ids.iter().max().unwrap() + 1);
            twin.resize(groups, None);
            for (row, id) in ids.iter().enumerate() {
                if texts.is_valid(row) && filter.as_ref().is_none_or(|filter| filter.value(row)) {
                    let (new, old) = (texts.value(row), &mut twin[*id]);
                    if old.as_ref().is_none_or(|old| if is_max { new > old.as_str() } else { new < old.as_str() }) {
                        *old = Some(new.to_owned());
                    }
                }
            }
            let values: ArrayRef = cast(&texts, &data_type).unwrap();
            state.reserve(groups, Wish::IfFree).unwrap();
            state.update(&[values], &ids, filter.as_ref(), groups).unwrap();
            if round % 50 == 49 {
                // There and back, each group in the place of another.
                let states = state.state().unwrap();
                let turned: Vec<usize> = (0..groups).rev().collect();
                state.reserve(groups, Wish::IfFree).unwrap();
                state.merge(&states, &turned, groups).unwrap();
                twin.reverse();
            }
        }
        let used: usize = twin.iter().flatten().map(String::len).sum();
        // A quarter that is not used, and a quarter for those to come.
        assert!(state.bytes() < used * 2 + twin.len() * 16, "{} bytes are charged for {used}", state.bytes());
        let found = cast(&state.evaluate().unwrap(), &DataType::Utf8).unwrap();
        let found: Vec<Option<&str>> = found.as_string::<i32>().iter().collect();
        let expected: Vec<Option<&str>> = twin.iter().map(Option::as_deref).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn the_sum_of_negative_zeros_is_one() {
    let mut state = of_float_sums(memory().charge());
    let values: ArrayRef = Arc::new(Float64Array::from(vec![Some(-0.0), Some(-0.0), Some(0.0), None, Some(1.5)]));
    state.reserve(3, Wish::IfFree).unwrap();
    state.update(&[values], &[0, 1, 1, 2, 0], None, 3).unwrap();
    let zero: ArrayRef = Arc::new(Float64Array::from(vec![Some(-0.0)]));
    state.reserve(4, Wish::IfFree).unwrap();
    state.update(&[zero], &[3], None, 4).unwrap();
    // Arrays compare floats by their bits.
    let expected: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.5), Some(0.0), None, Some(-0.0)]));
    assert_eq!(&state.evaluate().unwrap(), &expected);
}

#[test]
fn a_sum_that_is_no_bigint_is_refused() {
    for values in [vec![i64::MAX, 1], vec![i64::MIN, -1]] {
        let mut sums = Sums::new(DataType::Int64, memory().charge());
        sums.reserve(1, Wish::IfFree).unwrap();
        sums.update(&[Arc::new(Int64Array::from(values.clone()))], &[0, 0], None, 1).unwrap();
        assert!(sums.evaluate().unwrap_err().to_string().contains("bigint out of range"));
        // There and back within the range.
        sums.update(&[Arc::new(Int64Array::from(vec![values[0], -1, 1]))], &[0, 0, 0], None, 1).unwrap();
        let expected: ArrayRef = Arc::new(Int64Array::from(vec![values[0]]));
        assert_eq!(&sums.evaluate().unwrap(), &expected);
    }
}

#[test]
fn sums_of_bigints_are_exact() {
    let memory = memory();
    let mut sums = Sums::new(DataType::Decimal128(38, 0), memory.charge());
    let mut twin: Vec<Option<i128>> = Vec::new();
    for round in 0..200_u64 {
        // From small ones to such that need more than 64 bits, with NULLs and filters now and then.
        let shift = 63 - (round / 3).min(63);
        let value = |row: u64| scrambled(row * 31 + round) as i64 >> shift;
        let is_null = |row: u64| round % 5 == 4 && row.is_multiple_of(3);
        let values: Int64Array = (0..64).map(|row| (!is_null(row)).then_some(value(row))).collect();
        let filter: Option<BooleanArray> = (round % 7 == 6).then(|| (0..64).map(|row| Some(row % 2 == 0)).collect());
        let ids: Vec<usize> = (0..64).map(|row| (scrambled(row + round) % (round + 1)) as usize).collect();
        let groups = twin.len().max(ids.iter().max().unwrap() + 1);
        twin.resize(groups, None);
        for (row, id) in ids.iter().enumerate() {
            if values.is_valid(row) && filter.as_ref().is_none_or(|filter| filter.value(row)) {
                *twin[*id].get_or_insert(0) += i128::from(values.value(row));
            }
        }
        sums.reserve(groups, Wish::IfFree).unwrap();
        sums.update(&[Arc::new(values)], &ids, filter.as_ref(), groups).unwrap();
        if round % 50 == 49 {
            // There and back, each group in the place of another.
            let states = sums.state().unwrap();
            let turned: Vec<usize> = (0..groups).rev().collect();
            sums.reserve(groups, Wish::IfFree).unwrap();
            sums.merge(&states, &turned, groups).unwrap();
            twin.reverse();
        }
    }
    let found = sums.evaluate().unwrap();
    let found: Vec<Option<i128>> = found.as_any().downcast_ref::<Decimal128Array>().unwrap().iter().collect();
    assert_eq!(found, twin);
    assert!(twin.iter().flatten().any(|sum| i64::try_from(*sum).is_err()));
}

#[test]
fn what_cannot_be_packed_or_has_an_order_is_left_to_the_engine() {
    let fields = vec![
        Field::new("list", DataType::List(Arc::new(Field::new("item", DataType::Int32, true))), true),
        Field::new("id", DataType::Int32, false),
    ];
    let list: ArrayRef = Arc::new(ListArray::new_null(Arc::new(Field::new("item", DataType::Int32, true)), 2));
    let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![list, Arc::new(Int32Array::from(vec![1, 2]))])
        .unwrap();
    let input = table(&rows, 1, 10);
    assert_eq!(own(&input, &["list", "id"], &[]).name(), "AggregateExec");
    assert_eq!(own(&input, &["id"], &[]).name(), "HashAggregateExec");
    let all = stock(&input, &[], &[Wanted(count_udaf(), "*", false, None)], false);
    assert_eq!(HashAggregates.optimize(all, &ConfigOptions::default()).unwrap().name(), "AggregateExec");

    // One aggregate with an order of its own is enough.
    let schema = input.schema();
    let id = || col("id", &schema).unwrap();
    let group_by = PhysicalGroupBy::new_single(vec![(id(), "id".to_owned())]);
    for (order, expected) in
        [(vec![], "HashAggregateExec"), (vec![PhysicalSortExpr::new_default(id())], "AggregateExec")]
    {
        let listed =
            AggregateExprBuilder::new(array_agg_udaf(), vec![id()]).schema(Arc::clone(&schema)).alias("listed");
        let listed = Arc::new(listed.order_by(order).build().unwrap());
        let aggregates = vec![aggregate(&schema, &Wanted(count_udaf(), "*", false, None)), listed];
        let stages = two_stages(&input, &group_by, aggregates, vec![None, None], false);
        assert_eq!(HashAggregates.optimize(stages, &ConfigOptions::default()).unwrap().name(), expected);
    }
}

/// Rows in a stream, and another stream that fails.
pub(crate) fn broken(rows: &RecordBatch) -> Arc<dyn ExecutionPlan> {
    #[derive(Debug)]
    struct Broken(SchemaRef);
    impl PartitionStream for Broken {
        fn schema(&self) -> &SchemaRef {
            &self.0
        }

        fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
            let broken = futures::stream::once(async { Err(DataFusionError::Execution("it broke".into())) });
            Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.0), broken))
        }
    }
    let parts: Vec<Arc<dyn PartitionStream>> =
        vec![Arc::new(There(rows.schema(), vec![rows.clone()])), Arc::new(Broken(rows.schema()))];
    Arc::new(StreamingTableExec::try_new(rows.schema(), parts, None, [], false, None).unwrap())
}

#[test]
fn an_error_of_a_stream_is_told_by_every_output() {
    let rows = rows(100, 10);
    let input = broken(&rows);
    let plan = own(&input, &["id"], &[]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let context = context(1 << 30);
    for output in 0..3 {
        let batches = plan.execute(output, Arc::clone(&context)).unwrap();
        let error = runtime.block_on(datafusion_physical_plan::common::collect(batches)).unwrap_err();
        assert!(error.to_string().contains("it broke"), "{error}");
    }
}

#[test]
fn memory_is_given_back() {
    let input = table(&rows(60_000, 50_000), 2, 8192);
    for memory in [1 << 30, 1 << 20] {
        let context = context(memory);
        let plan = own(&input, &["text"], &all_aggregates()[..2]);
        run(Arc::clone(&plan), Arc::clone(&context)).unwrap();
        drop(plan);
        assert_eq!(context.runtime_env().memory_pool.reserved(), 0);
    }
}
