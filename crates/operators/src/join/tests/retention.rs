//! How long a join holds what its outputs share: the plan may live on.

use futures::StreamExt;

use super::*;

/// Reads this many batches of each output of a plan, or all; bytes that are held when no output is left.
fn held_behind(plan: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>, batches: usize) -> usize {
    // One thread: a task that has said what it found has ended before anybody hears it.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let pool = Arc::clone(&context.runtime_env().memory_pool);
    runtime.block_on(async {
        let outputs = 0..plan.output_partitioning().partition_count();
        let mut outputs: Vec<_> = outputs.map(|output| plan.execute(output, Arc::clone(context)).unwrap()).collect();
        for output in &mut outputs {
            for _ in 0..batches {
                let Some(batch) = output.next().await else { break };
                batch.unwrap();
            }
        }
    });
    // With tasks that were given up.
    drop(runtime);
    pool.reserved()
}

#[test]
fn a_table_goes_with_the_last_output() {
    let left = made(Rows { count: 2000, keys: 2500, null: 50, seed: 1, ..NONE });
    let right = made(Rows { count: 3000, keys: 2500, null: 30, seed: 2, ..NONE });
    let (left_table, right_table) = (table(&left, 3, 128), table(&right, 2, 128));
    for join_type in [JoinType::Inner, JoinType::Full, JoinType::LeftSemi] {
        let nulls = NullEquality::NullEqualsNothing;
        let wanted = Wanted { join_type, keys: vec!["int"], nulls, is_filtered: false, null_aware: false };
        // All rows, the first of them, and none; in memory and through files.
        for batches in [usize::MAX, 1, 0] {
            for memory in [1 << 30, 1 << 14] {
                let plan = own(&stock(&left_table, &right_table, &wanted), None);
                let held = held_behind(&plan, &context_of(memory, 100), batches);
                assert_eq!(held, 0, "{join_type}: {batches} batches of each output");
                assert!(batches == 0 || peak(&plan) > 0, "{join_type}");
            }
        }
    }
}
