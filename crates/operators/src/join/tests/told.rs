//! What scans of the probe side are told: it leaves out most rows without a match, and none that has one.

use std::collections::BTreeSet;
use std::fmt;

use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use datafusion_common::cast::as_boolean_array;
use datafusion_common::{DataFusionError, Result};
use datafusion_execution::SendableRecordBatchStream;
use datafusion_physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion_physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::*;
use crate::join::filter::{KeysOfJoin, is_in_vain, keys_of_join};
use crate::join::texts::BYTES_MAX;

/// A join that tells scans what it finds, where it may.
fn telling(join: &HashJoinExec, secret: Option<Secret>) -> Arc<dyn ExecutionPlan> {
    FilterPushdown::new_post_optimization().optimize(own(join, secret), &ConfigOptions::default()).unwrap()
}

fn told(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn PhysicalExpr>> {
    let told = plan.downcast_ref::<UnchainedHashJoinExec>().unwrap().told();
    told.map(|told| told.current().unwrap())
}

/// Begins to join: scans are told then what there is, as long as somebody has what comes back.
fn begun(
    runtime: &tokio::runtime::Runtime,
    plan: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
) -> Vec<SendableRecordBatchStream> {
    let outputs = 0..plan.output_partitioning().partition_count();
    let mut outputs: Vec<_> = outputs.map(|output| plan.execute(output, Arc::clone(context)).unwrap()).collect();
    // The others have not ended, and what is shared goes with the last.
    assert!(outputs.len() > 1);
    if let Some(batch) = runtime.block_on(outputs[0].next()) {
        batch.unwrap();
    }
    outputs
}

/// The rows that pass.
fn passed(filter: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> RecordBatch {
    let mask = filter.evaluate(rows).unwrap().into_array(rows.num_rows()).unwrap();
    filter_record_batch(rows, as_boolean_array(&mask).unwrap()).unwrap()
}

#[test]
fn no_row_with_a_match_is_left_out() {
    let runtime = runtime();
    let shapes = [
        (
            Rows { count: 40, keys: 60, null: 0, seed: 1, ..NONE },
            Rows { count: 70, keys: 60, null: 9, seed: 2, ..NONE },
        ),
        (Rows { count: 60, keys: 9, null: 4, seed: 3, ..NONE }, Rows { count: 50, keys: 14, null: 5, seed: 4, ..NONE }),
        (NONE, Rows { count: 20, keys: 5, null: 3, seed: 5, ..NONE }),
        (Rows { count: 10, keys: 5, null: 1, seed: 7, ..NONE }, Rows { count: 30, keys: 5, null: 3, seed: 8, ..NONE }),
    ];
    for (of_left, of_right) in shapes {
        let (left, right) = (made(of_left), made(of_right));
        let (left_table, right_table) = (table(&left, 2, 16), table(&right, 3, 16));
        for keys in KEYS {
            for wanted in ways(keys) {
                for secret in [None, Some(Secret::colliding())] {
                    let plan = telling(&stock(&left_table, &right_table, &wanted), secret);
                    // Rows of the probe side that come without a match are not to be left out.
                    let wants_all = matches!(
                        wanted.join_type,
                        JoinType::Right | JoinType::Full | JoinType::RightAnti | JoinType::RightMark
                    );
                    let Some(before) = told(&plan) else {
                        assert!(wants_all, "{wanted:?}");
                        continue;
                    };
                    assert!(!wants_all, "{wanted:?}");
                    assert_eq!(passed(&before, &right), right);
                    let expected = nested_loop(&left, &right, &wanted);
                    let found = run(&runtime, &plan, &context_of(1 << 30, 8192));
                    assert_eq!(origins(&found, &left, &right, wanted.join_type), expected, "{wanted:?}");
                    let outputs = begun(&runtime, &plan, &context_of(1 << 30, 8192));
                    let rest = passed(&told(&plan).unwrap(), &right);
                    drop(outputs);
                    let again = own(&stock(&left_table, &table(&rest, 2, 16), &wanted), secret);
                    let found = run(&runtime, &again, &context_of(1 << 30, 8192));
                    let found = origins(&found, &left, &right, wanted.join_type);
                    assert_eq!(found, expected, "{of_left:?} {of_right:?} {wanted:?}");
                }
            }
        }
    }
}

/// A join by one key in which nulls are nothing.
fn inner(keys: Vec<&'static str>, left: &RecordBatch, right: &RecordBatch) -> HashJoinExec {
    let nulls = NullEquality::NullEqualsNothing;
    let wanted = Wanted { join_type: JoinType::Inner, keys, nulls, is_filtered: false, null_aware: false };
    stock(&table(left, 2, 100), &table(right, 2, 100), &wanted)
}

#[test]
fn most_rows_without_a_match_are_left_out() {
    let runtime = runtime();
    let right = made(Rows { count: 5000, keys: 100_000, null: 50, seed: 2, ..NONE });
    for (rows, keys) in [(300, 100_000), (300, 3000), (15, 100_000)] {
        let left = made(Rows { count: rows, keys, null: 0, seed: 1, ..NONE });
        for keys in KEYS.iter().filter(|keys| !keys.contains(&"flag")) {
            let plan = telling(&inner(keys.to_vec(), &left, &right), None);
            let _outputs = begun(&runtime, &plan, &context_of(1 << 30, 8192));
            let left_over = passed(&told(&plan).unwrap(), &right).num_rows();
            assert!(left_over < 500, "{rows} {keys:?}: {left_over} of 5000");
        }
    }
}

#[test]
fn few_texts_that_are_longer_than_a_batch_are_all_told_or_none() {
    let runtime = runtime();
    let rows = made(Rows { count: 20, keys: 1 << 30, null: 0, seed: 1, ..NONE });
    let texts = rows.schema().index_of("text").unwrap();
    let long = |letters: usize| {
        let mut columns = rows.columns().to_vec();
        columns[texts] =
            Arc::new((0..20).map(|row| Some(format!("{}{row:02}", "x".repeat(letters)))).collect::<StringArray>());
        RecordBatch::try_new(rows.schema(), columns).unwrap()
    };
    // Of all of them together a batch that comes out has less, about as much, and more.
    for letters in [10, BYTES_MAX / 20, BYTES_MAX / 20 + 1, BYTES_MAX / 10] {
        let both = long(letters);
        let plan = telling(&inner(vec!["text"], &both, &both), None);
        let _outputs = begun(&runtime, &plan, &context_of(1 << 30, 8192));
        assert_eq!(passed(&told(&plan).unwrap(), &both).num_rows(), 20, "{letters}");
    }
}

#[test]
fn a_filter_that_leaves_nothing_out_is_in_vain_for_all_that_ask_it() {
    let runtime = runtime();
    let left = made(Rows { count: 1000, keys: 100, null: 0, seed: 1, ..NONE });
    for (keys, is_useful) in [(100, false), (1 << 30, true)] {
        let right = made(Rows { count: 5000, keys, null: 0, seed: 2, ..NONE });
        let plan = telling(&inner(vec!["int"], &left, &right), None);
        let said = plan.downcast_ref::<UnchainedHashJoinExec>().unwrap().told().unwrap();
        let filter: Arc<dyn PhysicalExpr> = Arc::<DynamicFilterPhysicalExpr>::clone(said);
        assert!(!is_in_vain(&filter).unwrap(), "nothing is known yet");
        let _outputs = begun(&runtime, &plan, &context_of(1 << 30, 8192));
        for _ in 0..100 {
            assert_eq!(passed(&filter, &right).num_rows() == right.num_rows(), !is_useful);
        }
        assert_eq!(is_in_vain(&filter).unwrap(), !is_useful);
    }
}

#[test]
fn readers_of_files_understand_some_of_it() {
    let runtime = runtime();
    let right = made(Rows { count: 10, keys: 100, null: 0, seed: 2, ..NONE });
    for (rows, key, expected) in [
        (300, "int", "int@3 >= -2 AND int@3 <= "),
        (300, "long", "long@4 >= "),
        (300, "date", "date@9 >= "),
        (300, "text", "may_match(text@5)"),
        (5, "int", "int@3 IN ("),
        (5, "text", "text@5 IN ("),
        (5, "double", "may_match(double@7)"),
    ] {
        let left = made(Rows { count: rows, keys: 100, null: 0, seed: 1, ..NONE });
        let plan = telling(&inner(vec![key], &left, &right), None);
        run(&runtime, &plan, &context_of(1 << 30, 8192));
        let said = told(&plan).unwrap().to_string();
        assert!(said.starts_with(expected), "{said} instead of {expected}");
        assert!(said.ends_with(&format!("may_match({key}@{})", right.schema().index_of(key).unwrap())), "{said}");
    }
}

#[test]
fn nothing_is_told_of_what_is_in_files_and_nothing_of_rows_that_were() {
    let runtime = runtime();
    let left = made(Rows { count: 2000, keys: 2500, null: 50, seed: 1, ..NONE });
    let right = made(Rows { count: 100, keys: 1 << 40, null: 0, seed: 2, ..NONE });
    let join = inner(vec!["text"], &left, &right);
    let free = telling(&join, None);
    let outputs = begun(&runtime, &free, &context_of(1 << 30, 500));
    assert!(passed(&told(&free).unwrap(), &right).num_rows() < 30);
    let less = telling(&join, None);
    let of_less = begun(&runtime, &less, &context_of(peak(&free) / 4, 500));
    assert!(files(&less) > 0);
    assert_eq!(passed(&told(&less).unwrap(), &right), right);
    drop(of_less);

    let before = told(&free).unwrap();
    let scan = Arc::clone(free.downcast_ref::<UnchainedHashJoinExec>().unwrap().told().unwrap());
    let fresh = Arc::clone(&free).reset_state().unwrap();
    assert!(told(&fresh).is_none());
    assert_eq!(passed(&scan.current().unwrap(), &right), right);
    // The table goes with the execution, whoever has the filter or the plan still.
    assert!(passed(&before, &right).num_rows() < 30);
    drop(outputs);
    drop(runtime);
    assert_eq!(passed(&before, &right), right);
}

#[test]
fn a_filter_that_leaves_out_little_is_not_asked_again() {
    let runtime = runtime();
    let rows = made(Rows { count: 3000, keys: 5000, null: 0, seed: 1, ..NONE });
    let plan = telling(&inner(vec!["wide"], &rows, &rows), None);
    let _outputs = begun(&runtime, &plan, &context_of(1 << 30, 8192));
    let filter = told(&plan).unwrap();
    assert_eq!(passed(&filter, &rows), rows);
    let other = made(Rows { count: 100, keys: 1 << 40, null: 0, seed: 2, ..NONE });
    assert_eq!(passed(&filter, &other), other);
}

#[test]
fn keys_are_listed_where_they_are_few() {
    let runtime = runtime();
    let left = made(Rows { count: 300, keys: 40, null: 9, seed: 1, ..NONE });
    let right = made(Rows { count: 100, keys: 50, null: 5, seed: 2, ..NONE });
    let texts = |column: &ArrayRef| -> BTreeSet<String> {
        let valid = (0..column.len()).filter(|row| column.is_valid(*row));
        valid.map(|row| ScalarValue::try_from_array(column, row).unwrap().to_string()).collect()
    };
    for key in ["int", "long", "date", "text"] {
        let plan = telling(&inner(vec![key], &left, &right), None);
        let told = plan.downcast_ref::<UnchainedHashJoinExec>().unwrap().told().unwrap();
        let filter: Arc<dyn PhysicalExpr> = Arc::<DynamicFilterPhysicalExpr>::clone(told);
        let listed = |keys_max, bytes_max, charge: &mut dyn FnMut(usize) -> bool| {
            keys_of_join(&filter, keys_max, bytes_max, charge).unwrap()
        };
        assert!(matches!(listed(100, 1 << 20, &mut |_| true), KeysOfJoin::Any), "{key}");
        let _outputs = begun(&runtime, &plan, &context_of(1 << 30, 8192));
        let mut charged = 0;
        let mut charge = |bytes: usize| {
            charged += bytes;
            true
        };
        let KeysOfJoin::Among(found) = listed(100, 1 << 20, &mut charge) else { panic!("{key}") };
        assert!(charged >= found[0].1.get_array_memory_size(), "{key}");
        assert_eq!(found.len(), 1);
        let expected = texts(left.column_by_name(key).unwrap());
        assert_eq!(texts(&found[0].1), expected, "{key}");
        assert_eq!(found[0].1.len(), expected.len(), "{key}");
        for (keys_max, bytes_max) in [(expected.len() - 1, 1 << 20), (100, 8)] {
            assert!(matches!(listed(keys_max, bytes_max, &mut |_| true), KeysOfJoin::Any), "{key}");
        }
        // Where there is no memory for them nothing is listed.
        assert!(matches!(listed(100, 1 << 20, &mut |_| false), KeysOfJoin::Any), "{key}");
    }
    let plan = telling(&inner(vec!["int"], &made(NONE), &right), None);
    let told = Arc::clone(plan.downcast_ref::<UnchainedHashJoinExec>().unwrap().told().unwrap());
    run(&runtime, &plan, &context_of(1 << 30, 8192));
    let filter: Arc<dyn PhysicalExpr> = told;
    assert!(matches!(keys_of_join(&filter, 100, 1 << 20, &mut |_| false).unwrap(), KeysOfJoin::Nothing));
}

/// Who is told that a stream has given half of its rows, and where the rest comes from.
type Ends = (oneshot::Sender<()>, oneshot::Receiver<Result<RecordBatch>>);

/// A stream that gives a batch, says so, and waits for what comes then.
struct Halved {
    first: RecordBatch,
    schema: SchemaRef,
    ends: Mutex<Option<Ends>>,
}

impl fmt::Debug for Halved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a stream that waits")
    }
}

impl PartitionStream for Halved {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (first, (half, rest)) = (self.first.clone(), self.ends.lock().take().unwrap());
        let first = futures::stream::once(async move { Ok::<_, DataFusionError>(first) });
        let rest = futures::stream::once(async move {
            half.send(()).unwrap();
            rest.await.unwrap()
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), first.chain(rest)))
    }
}

#[test]
fn nothing_is_told_before_the_build_side_is_whole() {
    let left = made(Rows { count: 300, keys: 100_000, null: 0, seed: 1, ..NONE });
    let right = made(Rows { count: 1000, keys: 100_000, null: 0, seed: 2, ..NONE });
    let (first, second) = (left.slice(0, 150), left.slice(150, 150));
    // It ends, it breaks, and nobody waits for its end.
    let broken = || Err(DataFusionError::Execution("it broke".to_owned()));
    for key in ["int", "text"] {
        for rest in [Some(Ok(second.clone())), Some(broken()), None] {
            let (half, is_half) = oneshot::channel();
            let (more, may) = oneshot::channel();
            let schema = left.schema();
            let halved =
                Halved { first: first.clone(), schema: Arc::clone(&schema), ends: Mutex::new(Some((half, may))) };
            let streams: Vec<Arc<dyn PartitionStream>> = vec![Arc::new(halved)];
            let streams = StreamingTableExec::try_new(schema, streams, None, [], false, None).unwrap();
            let build: Arc<dyn ExecutionPlan> = Arc::new(streams);
            let probe = table(&right, 2, 100);
            let (keys, nulls) = (vec![key], NullEquality::NullEqualsNothing);
            let wanted = Wanted { join_type: JoinType::Inner, keys, nulls, is_filtered: false, null_aware: false };
            let plan = telling(&stock(&build, &probe, &wanted), None);
            let of_plan = Arc::clone(plan.downcast_ref::<UnchainedHashJoinExec>().unwrap().told().unwrap());
            let filter: Arc<dyn PhysicalExpr> = Arc::<DynamicFilterPhysicalExpr>::clone(&of_plan);
            let says_nothing = || {
                let keys = keys_of_join(&filter, 10_000, 1 << 20, &mut |_| true).unwrap();
                matches!(keys, KeysOfJoin::Any) && passed(&told(&plan).unwrap(), &right) == right
            };
            let runtime = runtime();
            let context = context_of(1 << 30, 8192);
            let outputs = 0..plan.output_partitioning().partition_count();
            let executed = outputs.map(|output| plan.execute(output, Arc::clone(&context)).unwrap());
            let mut outputs: Vec<_> = executed.collect();
            let reading = runtime.spawn(async move {
                let batch = outputs[0].next().await;
                (batch, outputs)
            });
            // The join has taken what came, and asks for more.
            runtime.block_on(is_half).unwrap();
            assert!(says_nothing(), "{key}");
            assert!(of_plan.wait_complete().now_or_never().is_none(), "{key}");
            match rest {
                Some(rest) => {
                    let is_whole = rest.is_ok();
                    more.send(rest).unwrap();
                    let (batch, outputs) = runtime.block_on(reading).unwrap();
                    assert_eq!(batch.is_none_or(|batch| batch.is_ok()), is_whole, "{key}");
                    assert!(of_plan.wait_complete().now_or_never().is_some(), "{key}");
                    assert_eq!(says_nothing(), !is_whole, "{key}");
                    if is_whole {
                        let left_over = passed(&told(&plan).unwrap(), &right).num_rows();
                        assert!(left_over < 500, "{key}: {left_over} of 1000");
                    }
                    drop(outputs);
                }
                None => {
                    reading.abort();
                    drop(runtime.block_on(reading));
                    assert!(says_nothing(), "{key}");
                }
            }
        }
    }
}
