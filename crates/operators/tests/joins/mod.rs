//! What a join charges is what it holds: the same of joins, for the one test of `memory`.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{ArrayRef, Int32Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use ashlar_operators::HashJoins;
use datafusion_common::config::ConfigOptions;
use datafusion_common::{JoinSide, JoinType, NullEquality};
use datafusion_execution::memory_pool::{FairSpillPool, MemoryPool};
use datafusion_execution::runtime_env::RuntimeEnvBuilder;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, Column, col, lit};
use datafusion_physical_optimizer::PhysicalOptimizerRule;
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion_physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion_physical_plan::limit::LocalLimitExec;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::StreamExt;

use super::{
    BATCH_ROWS, LIVE, MOST, ON_THEIR_WAY, UNLIMITED, VALUE, WORTH_A_LOOK, agree, agree_but_for, column, values,
};

/// How rows are joined.
#[derive(Clone, Debug)]
struct Case {
    keys: Vec<DataType>,
    /// Of either side.
    rows: u64,
    /// Rows of either side that have the same key.
    copies: u64,
    /// Whether keys are numbers that lie close together.
    is_dense: bool,
    join_type: JoinType,
    /// Of the column beside the keys of the build side.
    payload: DataType,
    /// Whether that must not be below zero besides, which it never is.
    is_filtered: bool,
}

impl Case {
    /// An inner join with a number beside the keys.
    fn plain(keys: &[DataType], rows: u64) -> Self {
        let (join_type, payload) = (JoinType::Inner, DataType::Float64);
        Self { keys: keys.to_vec(), rows, copies: 1, is_dense: false, join_type, payload, is_filtered: false }
    }

    fn filter(&self) -> Option<JoinFilter> {
        let value = Arc::new(Column::new(VALUE, 0));
        let positive = Arc::new(BinaryExpr::new(value, Operator::GtEq, lit(0.0)));
        let columns = vec![ColumnIndex { index: self.keys.len(), side: JoinSide::Left }];
        let schema = Schema::new(vec![Field::new(VALUE, DataType::Float64, false)]);
        self.is_filtered.then(|| JoinFilter::new(positive, columns, Arc::new(schema)))
    }
}

/// Rows that are made as they are asked for: keys, and a value or nothing.
struct Source {
    schema: SchemaRef,
    rows: u64,
    /// Keys that there are.
    keys: u64,
    /// Whether keys are numbers that lie close together.
    is_dense: bool,
    baseline: i64,
    pool: Arc<dyn MemoryPool>,
    /// Whether what is held must be what is charged.
    is_checked: bool,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("made rows")
    }
}

fn keys_of(data_type: &DataType, rows: Range<u64>, all: u64, is_dense: bool) -> ArrayRef {
    match data_type {
        // Each of them once, in no order.
        DataType::Int32 if is_dense => Arc::new(rows.map(|row| (row * 7_919 % all) as i32).collect::<Int32Array>()),
        other => column(other, rows, all),
    }
}

impl PartitionStream for Source {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (schema, pool) = (Arc::clone(&self.schema), Arc::clone(&self.pool));
        let Self { rows: all, keys, is_dense, baseline, is_checked, .. } = *self;
        let batches = (0..=all.div_ceil(BATCH_ROWS)).filter_map(move |number| {
            // Asked for the next, or for the end: those before have been taken in.
            let (charged, real) = (pool.reserved() as i64, LIVE.load(Ordering::Relaxed) - baseline);
            if is_checked && real > WORTH_A_LOOK {
                agree(charged, real, &format!("before batch {number} of a join"));
            }
            let rows = number * BATCH_ROWS..((number + 1) * BATCH_ROWS).min(all);
            if rows.is_empty() {
                return None;
            }
            let of_field = |field: &Arc<Field>| match field.name().as_str() {
                VALUE => values(field.data_type(), rows.clone()),
                _ => keys_of(field.data_type(), rows.clone(), keys, is_dense),
            };
            let columns = schema.fields().iter().map(of_field).collect();
            Some(Ok(RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()))
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), futures::stream::iter(batches)))
    }
}

/// What one run held at its highest and what it charged, bytes; its rows, and its files.
struct Run {
    real: i64,
    charged: i64,
    rows: u64,
    files: usize,
}

fn run(case: &Case, limit: usize) -> Run {
    let Case { keys: types, rows, copies, is_dense, join_type, .. } = case;
    let field = |(number, key): (usize, &DataType)| Field::new(format!("k{number}"), key.clone(), false);
    let fields: Vec<Field> = types.iter().enumerate().map(field).collect();
    let right_schema: SchemaRef = Arc::new(Schema::new(fields.clone()));
    let value = Field::new(VALUE, case.payload.clone(), false);
    let left_schema: SchemaRef = Arc::new(Schema::new(fields.into_iter().chain([value]).collect::<Vec<Field>>()));
    let pool: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(limit));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&pool)).build_arc().unwrap();
    let context = Arc::new(TaskContext::default().with_runtime(runtime));
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let baseline = LIVE.load(Ordering::Relaxed);
    let input = |schema: &SchemaRef, is_left: bool| -> Arc<dyn ExecutionPlan> {
        let source = Source {
            schema: Arc::clone(schema),
            // All of the build side are asked for, a few of them by each batch.
            rows: *rows,
            keys: *rows / *copies,
            is_dense: *is_dense,
            baseline,
            pool: Arc::clone(&pool),
            is_checked: limit == UNLIMITED && is_left,
        };
        let sources: Vec<Arc<dyn PartitionStream>> = vec![Arc::new(source)];
        let input = StreamingTableExec::try_new(Arc::clone(schema), sources, None, [], false, None).unwrap();
        // It says how many rows there are.
        Arc::new(LocalLimitExec::new(Arc::new(input), *rows as usize))
    };
    let (left, right) = (input(&left_schema, true), input(&right_schema, false));
    let key = |number: usize| -> (Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>) {
        let name = format!("k{number}");
        (col(&name, &left_schema).unwrap(), col(&name, &right_schema).unwrap())
    };
    let on = (0..types.len()).map(key).collect();
    let (mode, nulls) = (PartitionMode::CollectLeft, NullEquality::NullEqualsNothing);
    let join = HashJoinExec::try_new(left, right, on, case.filter(), join_type, None, mode, nulls, false).unwrap();
    let plan: Arc<dyn ExecutionPlan> = HashJoins.optimize(Arc::new(join), &ConfigOptions::default()).unwrap();
    assert_eq!(plan.name(), "UnchainedHashJoinExec");

    MOST.store(LIVE.load(Ordering::Relaxed), Ordering::Relaxed);
    let found = threads.block_on(async {
        let mut batches = plan.execute(0, context).unwrap();
        let mut found = 0;
        while let Some(batch) = batches.next().await {
            found += batch.unwrap().num_rows() as u64;
        }
        found
    });
    let real = MOST.load(Ordering::Relaxed) - baseline;
    let metrics = plan.metrics().unwrap();
    let charged = metrics.sum_by_name("peak_mem_used").unwrap().as_usize() as i64;
    Run { real, charged, rows: found, files: metrics.spill_count().unwrap_or(0) }
}

/// Called by the one test.
#[expect(clippy::print_stdout, reason = "the figures of a test, for whoever asks for them")]
pub(super) fn check() {
    use DataType::{Int32, Int64, Utf8};
    let plain = Case::plain;
    // With the bytes that a row of the build side takes at most.
    let cases = [
        (plain(&[Int32], 2_000_000), 21.0),
        // A row that has the key of three others takes no more.
        (Case { copies: 4, ..plain(&[Int32], 2_000_000) }, 21.0),
        (Case { is_dense: true, ..plain(&[Int32], 2_000_000) }, 13.0),
        // A bit for each row beside it is worth a second look once.
        (Case { is_dense: true, join_type: JoinType::Full, ..plain(&[Int32], 2_000_000) }, 13.0),
        // Where a key is there twice there are as many lines as if none were, until it is known.
        (Case { copies: 2, ..plain(&[Int64], 1_000_000) }, 29.0),
        (Case { copies: 2, ..plain(&[Int64, Int32], 700_000) }, 46.0),
        // Few rows have a table with room, and what is kept is copied into its order.
        (plain(&[Int32], 500_000), 36.0),
        (Case { copies: 2, ..plain(&[Int32], 500_000) }, 36.0),
        (plain(&[Int64], 1_000_000), 29.0),
        (Case { join_type: JoinType::LeftMark, ..plain(&[Int64], 1_000_000) }, 30.0),
        (Case { is_filtered: true, ..plain(&[Int64], 1_000_000) }, 29.0),
        (Case { payload: Utf8, ..plain(&[Int32], 1_000_000) }, 48.0),
        (plain(&[Int64, Int32], 700_000), 46.0),
        (plain(&[Utf8], 600_000), 64.0),
        (plain(&[Utf8, Int32], 500_000), 76.0),
    ];
    for (case, most) in cases {
        let free = run(&case, UNLIMITED);
        let bytes = free.real as f64 / case.rows as f64;
        println!("{case:?}: {} charged, {} held: {bytes:.1} a row", free.charged, free.real);
        assert_eq!((free.rows, free.files), (case.rows * case.copies, 0), "{case:?}");
        agree(free.charged, free.real, &format!("{case:?} at its highest"));
        assert!(bytes <= most, "{case:?}: {bytes:.1} bytes a row");

        // With less, files are written, and what is charged stays below.
        let limit = free.charged as usize / 3;
        let less = run(&case, limit);
        println!("    of {limit}: {} bytes charged, {} held, {} files", less.charged, less.real, less.files);
        assert_eq!(less.rows, case.rows * case.copies, "{case:?}");
        assert!(less.files > 0, "{case:?}");
        let over = less.real - limit as i64;
        assert!(over < 2 * ON_THEIR_WAY, "{case:?}: {over} bytes more are held than may be");
        // 16 K rows that are divided among files have their hashes, order and keys, half a mebibyte, beside the chunk of one that they came from, and
        // what is written or read of one file at once is less than that chunk: 2 MiB, and as much again.
        agree_but_for(2 * ON_THEIR_WAY, less.charged, less.real, &format!("{case:?} of {limit}"));
    }
}
