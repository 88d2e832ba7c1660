//! Joins beside a nested loop, row by row, and beside the engine's.

use std::sync::Arc;

use arrow::array::*;
use arrow::compute::{concat_batches, take};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion_common::config::ConfigOptions;
use datafusion_common::{JoinSide, JoinType, NullEquality, ScalarValue};
use datafusion_execution::TaskContext;
use datafusion_execution::config::SessionConfig;
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, Column, col};
use datafusion_physical_optimizer::PhysicalOptimizerRule;
use datafusion_physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion_physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion_physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion_physical_plan::limit::LocalLimitExec;
use datafusion_physical_plan::{ExecutionPlan, ExecutionPlanProperties, collect};

use super::exec::UnchainedHashJoinExec;
use super::rule::HashJoins;
use crate::aggregate::tests::{broken, context, files, peak, scrambled, table};
use crate::hash_table::hash::Secret;

mod combined;
mod early;
mod far;
mod ordered;
mod panics;
mod retention;
mod skew;
mod spilled;
mod told;
mod twin;

pub(crate) const TYPES: [JoinType; 10] = [
    JoinType::Inner,
    JoinType::Left,
    JoinType::Right,
    JoinType::Full,
    JoinType::LeftSemi,
    JoinType::RightSemi,
    JoinType::LeftAnti,
    JoinType::RightAnti,
    JoinType::LeftMark,
    JoinType::RightMark,
];

const KEYS: [&[&str]; 11] = [
    &["int"],
    &["long"],
    &["text"],
    &["wide"],
    &["double"],
    &["flag"],
    &["date"],
    &["int", "flag"],
    &["long", "int"],
    &["text", "int"],
    &["double", "wide", "text"],
];

/// What the rows of a side are like.
#[derive(Clone, Copy, Debug)]
struct Rows {
    count: u64,
    /// Keys that there are.
    keys: u64,
    /// One key in so many is NULL; 0 for none.
    null: u64,
    /// Of so many rows all but one have the same key; 0 for none.
    skew: u64,
    seed: u64,
}

fn made(rows: Rows) -> RecordBatch {
    let key = |row: u64| {
        let any = scrambled(row * 7 + rows.seed);
        if rows.skew > 0 && !any.is_multiple_of(rows.skew) { 3 } else { any % rows.keys }
    };
    let all = || 0..rows.count;
    let some =
        |row: u64, column: u64| rows.null == 0 || !scrambled(row * 31 + column + rows.seed).is_multiple_of(rows.null);
    let keys: Vec<u64> = all().map(key).collect();
    let key = |row: u64| keys[row as usize];
    let fields = vec![
        Field::new("id", DataType::Int64, false),
        Field::new("value", DataType::Int32, true),
        Field::new("name", DataType::Utf8, true),
        Field::new("int", DataType::Int32, rows.null > 0),
        Field::new("long", DataType::Int64, true),
        Field::new("text", DataType::Utf8, true),
        Field::new("wide", DataType::Decimal128(20, 2), true),
        Field::new("double", DataType::Float64, true),
        Field::new("flag", DataType::Boolean, true),
        Field::new("date", DataType::Date32, true),
    ];
    let double = |row: u64| match key(row) {
        0 => -0.0,
        1 => 0.0,
        2 => f64::NAN,
        4 => -f64::NAN,
        other => other as f64 / 4.0,
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(all().map(|row| (row + 1) as i64).collect::<Int64Array>()),
        Arc::new(all().map(|row| (row % 11 > 0).then_some((scrambled(row + 5) % 100) as i32)).collect::<Int32Array>()),
        Arc::new(all().map(|row| (row % 7 > 0).then(|| format!("name {row}"))).collect::<StringArray>()),
        Arc::new(all().map(|row| some(row, 0).then_some(key(row) as i32 - 2)).collect::<Int32Array>()),
        Arc::new(all().map(|row| some(row, 1).then_some(key(row) as i64 * 1_000_003)).collect::<Int64Array>()),
        Arc::new(
            all()
                .map(|row| some(row, 2).then(|| format!("{}{}", "x".repeat(key(row) as usize % 23), key(row))))
                .collect::<StringArray>(),
        ),
        Arc::new(
            all()
                .map(|row| some(row, 3).then_some(i128::from(key(row)) - 50))
                .collect::<Decimal128Array>()
                .with_precision_and_scale(20, 2)
                .unwrap(),
        ),
        Arc::new(all().map(|row| some(row, 4).then(|| double(row))).collect::<Float64Array>()),
        Arc::new(all().map(|row| some(row, 5).then_some(key(row) % 2 == 1)).collect::<BooleanArray>()),
        Arc::new(all().map(|row| some(row, 6).then_some(key(row) as i32)).collect::<Date32Array>()),
    ];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// How two sides are joined.
#[derive(Clone, Debug)]
struct Wanted {
    join_type: JoinType,
    keys: Vec<&'static str>,
    nulls: NullEquality,
    /// Whether the value on the left must be less than the one on the right.
    is_filtered: bool,
    null_aware: bool,
}

/// The engine's join.
fn stock(left: &Arc<dyn ExecutionPlan>, right: &Arc<dyn ExecutionPlan>, wanted: &Wanted) -> HashJoinExec {
    let key = |name: &&str| -> (Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>) {
        (col(name, &left.schema()).unwrap(), col(name, &right.schema()).unwrap())
    };
    let filter = wanted.is_filtered.then(|| {
        let value = |name: &str, at| Arc::new(Column::new(name, at)) as Arc<dyn PhysicalExpr>;
        let less = BinaryExpr::new(value("l", 0), Operator::Lt, value("r", 1));
        let column = |side| ColumnIndex { index: 1, side };
        let fields = vec![Field::new("l", DataType::Int32, true), Field::new("r", DataType::Int32, true)];
        let columns = vec![column(JoinSide::Left), column(JoinSide::Right)];
        JoinFilter::new(Arc::new(less), columns, Arc::new(Schema::new(fields)))
    });
    HashJoinExec::try_new(
        Arc::clone(left),
        Arc::clone(right),
        wanted.keys.iter().map(key).collect(),
        filter,
        &wanted.join_type,
        None,
        PartitionMode::CollectLeft,
        wanted.nulls,
        wanted.null_aware,
    )
    .unwrap()
}

fn own(join: &HashJoinExec, secret: Option<Secret>) -> Arc<dyn ExecutionPlan> {
    Arc::new(UnchainedHashJoinExec::with_secret(join, secret).unwrap().unwrap())
}

fn context_of(memory: usize, batch_rows: usize) -> Arc<TaskContext> {
    let config = SessionConfig::new().with_batch_size(batch_rows).with_target_partitions(3);
    let context = TaskContext::default().with_runtime(context(memory).runtime_env());
    Arc::new(context.with_session_config(config))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap()
}

fn run(runtime: &tokio::runtime::Runtime, plan: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> RecordBatch {
    let schema = plan.schema();
    let batches = runtime.block_on(collect(Arc::clone(plan), Arc::clone(context))).unwrap();
    let most = context.session_config().batch_size();
    let fits = |batch: &RecordBatch| (1..=most).contains(&batch.num_rows());
    assert!(plan.name() == "HashJoinExec" || batches.iter().all(fits));
    concat_batches(&schema, &batches).unwrap()
}

/// Rows of a result as the ids of both sides, and whether there was a match: what it was made of.
type Origin = (Option<i64>, Option<i64>, Option<bool>);

fn is_left_only(join_type: JoinType) -> bool {
    matches!(join_type, JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark)
}

fn is_right_only(join_type: JoinType) -> bool {
    matches!(join_type, JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark)
}

/// Where the rows of a result come from; all their columns are those of the rows there.
fn origins(result: &RecordBatch, left: &RecordBatch, right: &RecordBatch, join_type: JoinType) -> Vec<Origin> {
    let width = left.num_columns();
    let left_at = (!is_right_only(join_type)).then_some(0);
    let right_at = (!is_left_only(join_type)).then_some(if is_right_only(join_type) { 0 } else { width });
    for (side, at) in [(left, left_at), (right, right_at)] {
        let Some(at) = at else { continue };
        let ids = result.column(at).as_primitive::<arrow::datatypes::Int64Type>();
        let places: UInt32Array = ids.iter().map(|id| id.map(|id| id as u32 - 1)).collect();
        for column in 0..width {
            assert_eq!(
                result.column(at + column),
                &take(side.column(column), &places, None).unwrap(),
                "{join_type} {}",
                side.schema().field(column).name()
            );
        }
    }
    let id = |at: Option<usize>, row: usize| {
        let ids = result.column(at?).as_primitive::<arrow::datatypes::Int64Type>();
        ids.is_valid(row).then(|| ids.value(row))
    };
    let mark = |row: usize| {
        let is_marked = matches!(join_type, JoinType::LeftMark | JoinType::RightMark);
        is_marked.then(|| result.column(width).as_boolean().value(row))
    };
    let mut origins: Vec<Origin> =
        (0..result.num_rows()).map(|row| (id(left_at, row), id(right_at, row), mark(row))).collect();
    origins.sort_unstable();
    origins
}

/// A key as it is compared.
fn comparable(batch: &RecordBatch, name: &str, row: usize) -> ScalarValue {
    match ScalarValue::try_from_array(batch.column_by_name(name).unwrap(), row).unwrap() {
        ScalarValue::Float32(Some(0.0)) => ScalarValue::Float32(Some(0.0)),
        ScalarValue::Float32(Some(value)) if value.is_nan() => ScalarValue::Float32(Some(f32::NAN)),
        ScalarValue::Float64(Some(0.0)) => ScalarValue::Float64(Some(0.0)),
        ScalarValue::Float64(Some(value)) if value.is_nan() => ScalarValue::Float64(Some(f64::NAN)),
        other => other,
    }
}

/// The same by a nested loop.
fn nested_loop(left: &RecordBatch, right: &RecordBatch, wanted: &Wanted) -> Vec<Origin> {
    let keys = |batch: &RecordBatch| -> Vec<Vec<ScalarValue>> {
        let of_row = |row| wanted.keys.iter().map(|name| comparable(batch, name, row)).collect();
        (0..batch.num_rows()).map(of_row).collect()
    };
    let values = |batch: &RecordBatch, row: usize| {
        let values = batch.column(1).as_primitive::<arrow::datatypes::Int32Type>();
        values.is_valid(row).then(|| values.value(row))
    };
    let (left_keys, right_keys) = (keys(left), keys(right));
    let is_null_equal = wanted.nulls == NullEquality::NullEqualsNull;
    let is_pair = |l: usize, r: usize| {
        let are_equal = left_keys[l] == right_keys[r];
        let is_met = match (values(left, l), values(right, r)) {
            (Some(l), Some(r)) => l < r,
            _ => false,
        };
        are_equal
            && (is_null_equal || !left_keys[l].iter().any(ScalarValue::is_null))
            && (is_met || !wanted.is_filtered)
    };
    let mut pairs = Vec::new();
    for l in 0..left.num_rows() {
        pairs.extend((0..right.num_rows()).filter(|r| is_pair(l, *r)).map(|r| (l, r)));
    }
    let id = |row: usize| Some(row as i64 + 1);
    let with = |side: fn(&(usize, usize)) -> usize| pairs.iter().map(side).collect::<std::collections::HashSet<_>>();
    let (lefts, rights) = (with(|pair| pair.0), with(|pair| pair.1));
    let (lefts, rights) = (&lefts, &rights);
    let of_left = |is_matched: bool| (0..left.num_rows()).filter(move |row| lefts.contains(row) == is_matched);
    let of_right = |is_matched: bool| (0..right.num_rows()).filter(move |row| rights.contains(row) == is_matched);
    let both = pairs.iter().map(|(l, r)| (id(*l), id(*r), None));
    let (left_alone, right_alone) = (|row| (id(row), None, None), |row| (None, id(row), None));
    let mut origins: Vec<Origin> = match wanted.join_type {
        JoinType::Inner => both.collect(),
        JoinType::Left => both.chain(of_left(false).map(left_alone)).collect(),
        JoinType::Right => both.chain(of_right(false).map(right_alone)).collect(),
        JoinType::Full => both.chain(of_left(false).map(left_alone)).chain(of_right(false).map(right_alone)).collect(),
        JoinType::LeftSemi => of_left(true).map(left_alone).collect(),
        JoinType::LeftAnti => of_left(false).map(left_alone).collect(),
        JoinType::RightSemi => of_right(true).map(right_alone).collect(),
        JoinType::RightAnti => of_right(false).map(right_alone).collect(),
        JoinType::LeftMark => (0..left.num_rows()).map(|row| (id(row), None, Some(lefts.contains(&row)))).collect(),
        JoinType::RightMark => (0..right.num_rows()).map(|row| (None, id(row), Some(rights.contains(&row)))).collect(),
    };
    origins.sort_unstable();
    origins
}

/// The same of a join by one key in which a NULL may be equal to anything.
fn nested_loop_of_null_aware(left: &RecordBatch, right: &RecordBatch, wanted: &Wanted) -> Vec<Origin> {
    let key = |batch: &RecordBatch| Arc::clone(batch.column_by_name(wanted.keys[0]).unwrap());
    let (of_left, of_right) = (key(left), key(right));
    match (right.num_rows(), of_right.null_count()) {
        (0, _) => (1..=left.num_rows() as i64).map(|id| (Some(id), None, None)).collect(),
        (_, 0) => {
            let all = nested_loop(left, right, wanted);
            all.into_iter().filter(|(id, ..)| of_left.is_valid(id.unwrap() as usize - 1)).collect()
        }
        _ => Vec::new(),
    }
}

/// All ways to join by some keys.
fn ways(keys: &[&'static str]) -> Vec<Wanted> {
    let mut ways = Vec::new();
    for join_type in TYPES {
        for nulls in [NullEquality::NullEqualsNothing, NullEquality::NullEqualsNull] {
            for is_filtered in [false, true] {
                ways.push(Wanted { join_type, keys: keys.to_vec(), nulls, is_filtered, null_aware: false });
            }
        }
    }
    ways
}

const NONE: Rows = Rows { count: 0, keys: 1, null: 0, skew: 0, seed: 0 };

#[test]
fn rows_are_those_of_a_nested_loop() {
    let runtime = runtime();
    let shapes = [
        // Keys that are there once or not at all, and such that are there several times.
        (
            Rows { count: 40, keys: 60, null: 0, seed: 1, ..NONE },
            Rows { count: 70, keys: 60, null: 9, seed: 2, ..NONE },
        ),
        (Rows { count: 60, keys: 9, null: 4, seed: 3, ..NONE }, Rows { count: 50, keys: 14, null: 5, seed: 4, ..NONE }),
        (NONE, Rows { count: 20, keys: 5, null: 3, seed: 5, ..NONE }),
        (Rows { count: 20, keys: 5, null: 3, seed: 6, ..NONE }, NONE),
        (NONE, NONE),
        // Nothing but NULL.
        (Rows { count: 10, keys: 5, null: 1, seed: 7, ..NONE }, Rows { count: 10, keys: 5, null: 1, seed: 8, ..NONE }),
        (
            Rows { count: 60, keys: 50, null: 0, skew: 5, seed: 9 },
            Rows { count: 30, keys: 50, null: 8, skew: 2, seed: 10 },
        ),
    ];
    for (of_left, of_right) in shapes {
        let (left, right) = (made(of_left), made(of_right));
        let (left_table, right_table) = (table(&left, 2, 16), table(&right, 3, 16));
        for keys in KEYS {
            for wanted in ways(keys) {
                let expected = nested_loop(&left, &right, &wanted);
                for (secret, batch_rows) in [(None, 8192), (Some(Secret::colliding()), 7)] {
                    let plan = own(&stock(&left_table, &right_table, &wanted), secret);
                    let found = run(&runtime, &plan, &context_of(1 << 30, batch_rows));
                    let found = origins(&found, &left, &right, wanted.join_type);
                    assert_eq!(found, expected, "{of_left:?} {of_right:?} {wanted:?} {batch_rows}");
                }
            }
        }
    }
}

/// The engine's result.
fn stock_result(
    runtime: &tokio::runtime::Runtime,
    left: &Arc<dyn ExecutionPlan>,
    right: &Arc<dyn ExecutionPlan>,
    wanted: &Wanted,
) -> RecordBatch {
    let left: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(Arc::clone(left)));
    let plan: Arc<dyn ExecutionPlan> = Arc::new(stock(&left, right, wanted));
    run(runtime, &plan, &context_of(1 << 30, 8192))
}

#[test]
fn rows_are_those_of_the_engine() {
    let runtime = runtime();
    let shapes = [
        // Numbers close together, each of them a few times; far more rows than chunks have.
        (
            Rows { count: 1200, keys: 1100, null: 50, seed: 1, ..NONE },
            Rows { count: 3000, keys: 1300, null: 40, seed: 2, ..NONE },
        ),
        (
            Rows { count: 900, keys: 300, null: 0, skew: 0, seed: 3 },
            Rows { count: 1500, keys: 2500, null: 0, skew: 0, seed: 4 },
        ),
        // One key has most of the rows.
        (
            Rows { count: 500, keys: 600, null: 30, skew: 3, seed: 5 },
            Rows { count: 100, keys: 900, null: 30, skew: 2, seed: 6 },
        ),
    ];
    for (of_left, of_right) in shapes {
        let (left, right) = (made(of_left), made(of_right));
        let (left_table, right_table) = (table(&left, 3, 700), table(&right, 2, 500));
        // Zeros and what is no number are several keys for the engine.
        let some =
            [&["int"][..], &["text"], &["wide"], &["date"], &["long", "int"], &["text", "int"], &["wide", "text"]];
        // Half of the rows have the same flag: of few rows those are pairs enough.
        let flags = [&["flag"][..]].into_iter().filter(|_| of_left.count * of_right.count <= 50_000);
        for keys in some.into_iter().chain(flags) {
            for wanted in ways(keys) {
                let expected = stock_result(&runtime, &left_table, &right_table, &wanted);
                let expected = origins(&expected, &left, &right, wanted.join_type);
                let plan = own(&stock(&left_table, &right_table, &wanted), None);
                let found = run(&runtime, &plan, &context_of(1 << 30, 1000));
                let found = origins(&found, &left, &right, wanted.join_type);
                assert_eq!(found.len(), expected.len(), "{of_left:?} {of_right:?} {wanted:?}");
                assert!(found == expected, "{of_left:?} {of_right:?} {wanted:?}");
                assert_eq!(plan.metrics().unwrap().output_rows().unwrap_or(0), expected.len());
            }
        }
    }
}

#[test]
fn numbers_that_are_there_once_need_no_hash() {
    let runtime = runtime();
    let rows = 5000;
    let numbers = |step: i64| {
        let fields = vec![Field::new("id", DataType::Int64, false), Field::new("key", DataType::Int64, false)];
        let columns: Vec<ArrayRef> = vec![
            Arc::new((1..=rows).collect::<Int64Array>()),
            Arc::new((0..rows).map(|row| (row * 7919 % rows - 100) * step).collect::<Int64Array>()),
        ];
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
    };
    let mut peaks = Vec::new();
    // Of the last ones there is a slot for more rows than are worth it.
    for step in [1, 3, 4] {
        let (left, right) = (numbers(step), numbers(2));
        let (left_table, right_table) = (table(&left, 2, 600), table(&right, 2, 600));
        for join_type in TYPES {
            let nulls = NullEquality::NullEqualsNothing;
            let wanted = Wanted { join_type, keys: vec!["key"], nulls, is_filtered: false, null_aware: false };
            let expected = stock_result(&runtime, &left_table, &right_table, &wanted);
            let plan = own(&stock(&left_table, &right_table, &wanted), None);
            let found = run(&runtime, &plan, &context_of(1 << 30, 1000));
            let expected = origins(&expected, &left, &right, join_type);
            assert_eq!(origins(&found, &left, &right, join_type), expected, "{step} {join_type}");
            // What streams have on their way at once is another thing each time.
            let again = |_| {
                let plan = own(&stock(&left_table, &right_table, &wanted), None);
                run(&runtime, &plan, &context_of(1 << 30, 1000));
                peak(&plan)
            };
            if join_type == JoinType::Inner {
                peaks.push((0..8).map(again).fold(peak(&plan), usize::min));
            }
        }
    }
    assert!(peaks[0] < peaks[2], "{peaks:?}");
}

#[test]
fn numbers_close_together_are_not_kept_while_they_come() {
    let runtime = runtime();
    let rows = 3000;
    let made = |keys: &dyn Fn(i64) -> Option<i64>| {
        let fields = vec![Field::new("id", DataType::Int64, false), Field::new("key", DataType::Int32, true)];
        let columns: Vec<ArrayRef> = vec![
            Arc::new((1..=rows).collect::<Int64Array>()),
            Arc::new((0..rows).map(|row| keys(row).map(|key| key as i32)).collect::<Int32Array>()),
        ];
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
    };
    let dense = |row: i64| Some(row * 1009 % rows - 100);
    // As they should be; with NULL among them; one of them twice, late; one that is far away, late; in order, so that segments are
    // added behind each other, and before each other.
    let lefts = [
        made(&dense),
        made(&|row| if row % 10 == 3 { None } else { dense(row) }),
        made(&|row| dense(if row == 2900 { 5 } else { row })),
        made(&|row| if row == 2900 { Some(1 << 30) } else { dense(row) }),
        made(&|row| Some(row)),
        made(&|row| Some(-row)),
    ];
    let right = made(&|row| Some(row * 7 % 4000 - 500));
    let right_table = table(&right, 2, 500);
    let mut is_written = false;
    for (number, left) in lefts.iter().enumerate() {
        let plain = table(left, 1, 300);
        // A limit says how many rows there are at most. Of the last one all are too few for the rows there are.
        for expected in [rows as usize, 100_000] {
            let counted: Arc<dyn ExecutionPlan> = Arc::new(LocalLimitExec::new(table(left, 1, 300), expected));
            for join_type in TYPES {
                let nulls = NullEquality::NullEqualsNothing;
                let wanted = Wanted { join_type, keys: vec!["key"], nulls, is_filtered: false, null_aware: false };
                let at_the_end = own(&stock(&plain, &right_table, &wanted), None);
                let result = run(&runtime, &at_the_end, &context_of(1 << 30, 500));
                let all = origins(&result, left, &right, join_type);
                let free = own(&stock(&counted, &right_table, &wanted), None);
                let found = run(&runtime, &free, &context_of(1 << 30, 500));
                assert_eq!(origins(&found, left, &right, join_type), all, "{number} {expected} {join_type}");
                for share in [2, 5] {
                    let less = own(&stock(&counted, &right_table, &wanted), None);
                    let found = run(&runtime, &less, &context_of(peak(&free) / share, 500));
                    is_written |= files(&less) > 0;
                    assert_eq!(
                        origins(&found, left, &right, join_type),
                        all,
                        "{number} {expected} {join_type} {share}"
                    );
                }
            }
        }
    }
    assert!(is_written);
}

#[test]
fn a_null_is_perhaps_equal_to_anything_where_that_is_asked() {
    let runtime = runtime();
    let some = Rows { count: 50, keys: 40, null: 10, seed: 1, ..NONE };
    for (of_left, of_right) in [
        (some, Rows { count: 30, keys: 40, null: 0, seed: 2, ..NONE }),
        (some, Rows { count: 30, keys: 40, null: 12, seed: 3, ..NONE }),
        (some, NONE),
        (NONE, some),
    ] {
        let (left, right) = (made(of_left), made(of_right));
        let (left_table, right_table) = (table(&left, 2, 16), table(&right, 3, 16));
        for key in ["int", "text", "wide"] {
            let nulls = NullEquality::NullEqualsNothing;
            let join_type = JoinType::LeftAnti;
            let wanted = Wanted { join_type, keys: vec![key], nulls, is_filtered: false, null_aware: true };
            let plan = own(&stock(&left_table, &right_table, &wanted), None);
            let found = origins(&run(&runtime, &plan, &context_of(1 << 30, 8192)), &left, &right, join_type);
            let expected = nested_loop_of_null_aware(&left, &right, &wanted);
            assert_eq!(found, expected, "{of_left:?} {of_right:?} {key}");
        }
    }
}

#[test]
fn projections_and_children_go_through_the_node() {
    let runtime = runtime();
    let rows = made(Rows { count: 500, keys: 100, null: 9, seed: 1, ..NONE });
    let input = table(&rows, 2, 100);
    for keys in [&["int"][..], &["text"], &["double"], &["int", "flag"]] {
        for wanted in ways(keys) {
            let stock = stock(&input, &input, &wanted);
            let columns = stock.schema().fields().len();
            for projection in [vec![], vec![0], vec![3], vec![columns - 1, 3, 0]] {
                let projected = stock.with_projection(Some(projection.clone())).unwrap();
                let plan = own(&projected, None);
                let plan = plan.with_new_children_of_test(vec![Arc::clone(&input), Arc::clone(&input)]);
                assert_eq!(plan.schema(), projected.schema());
                assert_eq!(plan.output_partitioning().partition_count(), 2);
                let whole = run(&runtime, &own(&stock, None), &context_of(1 << 30, 64));
                let found = run(&runtime, &plan, &context_of(1 << 30, 64));
                assert_eq!(found.num_rows(), whole.num_rows(), "{wanted:?} {projection:?}");
            }
        }
    }
}

/// Nodes are given other inputs by the optimizer's rules.
trait WithChildren {
    fn with_new_children_of_test(&self, children: Vec<Arc<dyn ExecutionPlan>>) -> Arc<dyn ExecutionPlan>;
}

impl WithChildren for Arc<dyn ExecutionPlan> {
    fn with_new_children_of_test(&self, children: Vec<Arc<dyn ExecutionPlan>>) -> Arc<dyn ExecutionPlan> {
        let other: Vec<Arc<dyn ExecutionPlan>> = children
            .into_iter()
            .map(|child| Arc::new(datafusion_physical_plan::coop::CooperativeExec::new(child)) as _)
            .collect();
        datafusion_physical_plan::execution_plan::replace_children_if_necessary(Arc::clone(self), other).unwrap()
    }
}

#[test]
fn what_cannot_be_packed_is_left_to_the_engine() {
    let item = Arc::new(Field::new("item", DataType::Int32, true));
    let fields = vec![
        Field::new("list", DataType::List(Arc::clone(&item)), true),
        Field::new("value", DataType::Int32, true),
        Field::new("id", DataType::Int32, false),
    ];
    let list: ArrayRef = Arc::new(ListArray::new_null(item, 2));
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![list, Arc::clone(&numbers), numbers]).unwrap();
    let input = table(&rows, 1, 10);
    for (key, expected) in [("list", "HashJoinExec"), ("id", "UnchainedHashJoinExec")] {
        let nulls = NullEquality::NullEqualsNothing;
        let wanted =
            Wanted { join_type: JoinType::Inner, keys: vec![key], nulls, is_filtered: false, null_aware: false };
        let plan = HashJoins.optimize(Arc::new(stock(&input, &input, &wanted)), &ConfigOptions::default()).unwrap();
        assert_eq!(plan.name(), expected);
    }
}

#[test]
fn memory_is_given_back() {
    let rows = made(Rows { count: 5000, keys: 4000, null: 9, seed: 1, ..NONE });
    let input = table(&rows, 2, 500);
    for memory in [1 << 30, 1 << 18] {
        let context = context_of(memory, 500);
        let runtime = runtime();
        let mut is_written = false;
        for keys in [&["int"][..], &["text"], &["text", "long"]] {
            for wanted in ways(keys) {
                let plan = own(&stock(&input, &input, &wanted), None);
                run(&runtime, &plan, &context);
                is_written |= files(&plan) > 0;
            }
        }
        assert_eq!(is_written, memory < 1 << 20);
        // Tasks have ended when it has gone.
        drop(runtime);
        assert_eq!(context.runtime_env().memory_pool.reserved(), 0);
    }
}

#[test]
fn an_error_of_either_side_is_told() {
    let rows = made(Rows { count: 100, keys: 40, null: 9, seed: 1, ..NONE });
    let (input, broken) = (table(&rows, 2, 50), broken(&rows));
    let nulls = NullEquality::NullEqualsNothing;
    let wanted = Wanted { join_type: JoinType::Inner, keys: vec!["int"], nulls, is_filtered: false, null_aware: false };
    let runtime = runtime();
    for (left, right) in [(&input, &broken), (&broken, &input)] {
        let plan = own(&stock(left, right, &wanted), None);
        let context = context_of(1 << 30, 500);
        let mut errors = 0;
        for output in 0..plan.output_partitioning().partition_count() {
            let batches = plan.execute(output, Arc::clone(&context)).unwrap();
            let Err(error) = runtime.block_on(datafusion_physical_plan::common::collect(batches)) else { continue };
            assert!(error.to_string().contains("it broke"), "{error}");
            errors += 1;
        }
        // The build side's by every output.
        assert_eq!(errors, if Arc::ptr_eq(left, &broken) { 2 } else { 1 });
    }
}
