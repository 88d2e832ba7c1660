//! Groups that leave: those that have no room in memory to files, again and again, and those that are ready to whoever asked.

use datafusion_functions_aggregate::array_agg::array_agg_udaf;

use super::*;
use crate::memory::is_full;

/// How often groups were divided among files.
fn levels(plan: &Arc<dyn ExecutionPlan>) -> usize {
    plan.metrics().unwrap().sum_by_name("spill_levels").unwrap().as_usize()
}

fn wanted() -> Vec<Wanted> {
    vec![Wanted(count_udaf(), "*", false, None), Wanted(sum_udaf(), "number", false, None)]
}

#[test]
fn a_file_that_does_not_fit_is_divided_again() {
    let input = table(&rows(20_000, 12_000), 3, 2048);
    for keys in [&["id"][..], &["text"]] {
        let free = own(&input, keys, &wanted());
        let expected = run(Arc::clone(&free), context(1 << 30)).unwrap();
        assert_eq!((files(&free), levels(&free)), (0, 0), "{keys:?}");
        // One of 64 files fits in a half; in 2 KiB it does not.
        for (memory, least, most) in [(peak(&free) / 2, 1, 1), (1 << 11, 2, 10)] {
            let plan = own(&input, keys, &wanted());
            let found = run(Arc::clone(&plan), context(memory)).unwrap();
            assert!(files(&plan) > 0, "{keys:?} {memory}");
            let levels = levels(&plan);
            assert!((least..=most).contains(&levels), "{keys:?} {memory}: {levels}");
            assert_eq!(sorted(&found, keys.len()), sorted(&expected, keys.len()), "{keys:?} {memory}");
        }
    }
}

#[test]
fn memory_falls_while_results_leave() {
    let input = table(&rows(60_000, 40_000), 3, 2048);
    let plan = own(&input, &["id"], &wanted());
    let context = context(1 << 30);
    let pool = Arc::clone(&context.runtime_env().memory_pool);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap();
    // One output alone gives out all groups: a partition is less than a batch.
    let held: Vec<usize> = runtime.block_on(async {
        let mut batches = plan.execute(0, Arc::clone(&context)).unwrap();
        let mut held = Vec::new();
        while let Some(batch) = batches.next().await {
            batch.unwrap();
            held.push(pool.reserved());
        }
        held
    });
    assert_eq!(held.len(), PARTITIONS);
    assert!(held.windows(2).all(|two| two[1] < two[0]), "{held:?}");
    // Partitions are of about one size: half of them have half of the memory, and the last has its own and no more.
    assert!(held[PARTITIONS / 2] < held[0] * 2 / 3, "{held:?}");
    assert!(held[PARTITIONS - 1] < held[0] / 16, "{held:?}");
    assert!(held[0] <= peak(&plan), "{held:?}");
    assert_eq!(pool.reserved(), 0);
}

#[test]
fn what_is_left_goes_with_the_last_output() {
    let input = table(&rows(20_000, 12_000), 3, 2048);
    for memory in [1 << 30, 1 << 16] {
        let plan = own(&input, &["id"], &wanted());
        let context = context(memory);
        let pool = Arc::clone(&context.runtime_env().memory_pool);
        // One thread: a task that has said what it found has ended before anybody hears it.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let outputs = 0..plan.properties().output_partitioning().partition_count();
            let outputs: Vec<_> = outputs.map(|output| plan.execute(output, Arc::clone(&context)).unwrap()).collect();
            // The first batch is wanted, and no more of any of them.
            for (number, mut output) in outputs.into_iter().enumerate() {
                if number == 0 {
                    output.next().await.unwrap().unwrap();
                }
                assert!(number > 0 || pool.reserved() > 0, "{memory}");
            }
        });
        // With tasks that were given up.
        drop(runtime);
        assert_eq!(pool.reserved(), 0, "{memory}");
        assert!(peak(&plan) > 0);
    }
}

#[test]
fn a_group_that_is_larger_than_memory_is_refused() {
    let (rows, bytes, memory) = (128_usize, 256 << 10, 2 << 20);
    let text = |row: usize| format!("{}{row}", "x".repeat(bytes));
    let fields = vec![Field::new("text", DataType::Utf8, true), Field::new("key", DataType::Int64, false)];
    for others in [0, 5_i64] {
        // One group has most rows, of which each is another one.
        let key = |row: i64| if row % 16 == 0 { row / 16 % (others + 1) } else { 0 };
        let columns: Vec<ArrayRef> = vec![
            Arc::new((0..rows).map(|row| Some(text(row))).collect::<StringArray>()),
            Arc::new((0..rows as i64).map(key).collect::<Int64Array>()),
        ];
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields.clone())), columns).unwrap();
        let input = table(&batch, 3, 1);
        for wanted in [Wanted(count_udaf(), "text", true, None), Wanted(array_agg_udaf(), "text", false, None)] {
            let (name, wanted) = (wanted.0.name().to_owned(), [wanted]);
            let found = run(own(&input, &["key"], &wanted), context(1 << 30)).unwrap();
            assert_eq!(found.num_rows() as i64, others + 1, "{name}");
            let plan = own(&input, &["key"], &wanted);
            let error = run(Arc::clone(&plan), context(memory)).unwrap_err();
            assert!(is_full(&error), "{name}: {error}");
            assert!(files(&plan) > 0, "{name}");
            let most = peak(&plan);
            assert!(most < rows * bytes / 2, "{name}: {most} bytes were charged of {memory}");
        }
    }
}

#[test]
fn groups_that_memory_has_room_for_one_by_one_are_made_one_by_one() {
    // Two groups of 6 MiB each.
    let (rows, bytes, memory) = (48_usize, 256 << 10, 11 << 20);
    let text = |row: usize| format!("{}{row}", "x".repeat(bytes));
    let fields = vec![Field::new("text", DataType::Utf8, true), Field::new("key", DataType::Int64, false)];
    let columns: Vec<ArrayRef> = vec![
        Arc::new((0..rows).map(|row| Some(text(row))).collect::<StringArray>()),
        Arc::new((0..rows as i64).map(|row| row % 2).collect::<Int64Array>()),
    ];
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    let plan = own(&table(&batch, 3, 1), &["key"], &[Wanted(array_agg_udaf(), "text", false, None)]);
    let context = context(memory);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let found: Vec<RecordBatch> = runtime.block_on(async {
        let mut first = plan.execute(0, Arc::clone(&context)).unwrap();
        let mut second = plan.execute(1, Arc::clone(&context)).unwrap();
        // What it gave out is held until more is wanted of it.
        let mut found = vec![first.next().await.unwrap().unwrap()];
        while let Some(batch) = second.next().await {
            found.push(batch.unwrap());
        }
        while let Some(batch) = first.next().await {
            found.push(batch.unwrap());
        }
        found
    });
    assert!(files(&plan) > 0);
    let found = sorted(&concat_batches(&plan.schema(), &found).unwrap(), 1);
    let lists = found.column(1).as_list::<i32>();
    let lengths: Vec<usize> = lists.iter().map(|list| list.map_or(0, |list| list.len())).collect();
    assert_eq!(lengths, [rows / 2, rows / 2]);
}
