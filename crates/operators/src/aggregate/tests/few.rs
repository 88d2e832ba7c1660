//! Aggregations of which only few groups are wanted: those stay the engine's, and what is beneath them does not.

use arrow::compute::SortOptions;
use datafusion_physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion_physical_plan::sorts::sort::SortExec;

use super::*;

/// The first five groups by some columns, the greatest of each first; `wanted` of groups by `id` over groups by `id` and `small`.
fn first_five(wanted: &[Wanted], columns: &[&str]) -> Arc<dyn ExecutionPlan> {
    let pairs = stock(&table(&rows(1000, 50), 1, 100), &["id", "small"], &[], false);
    let groups = stock(&pairs, &["id"], wanted, false);
    let options = SortOptions { descending: true, nulls_first: false };
    let by = columns.iter().map(|name| PhysicalSortExpr::new(col(name, &groups.schema()).unwrap(), options));
    let by = LexOrdering::new(by).unwrap();
    Arc::new(SortExec::new(by, groups).with_fetch(Some(5)))
}

/// The names of the nodes beneath one another.
fn names(plan: &Arc<dyn ExecutionPlan>) -> Vec<String> {
    let (mut node, mut names) = (plan, Vec::new());
    while let [input] = node.children()[..] {
        names.push(node.name().to_owned());
        node = input;
    }
    names
}

#[test]
fn those_of_which_few_are_wanted_stay_and_what_is_beneath_them_does_not() {
    let greatest = "max(small) false None";
    let max = || Wanted(max_udaf(), "small", false, None);
    let (stays, own) =
        (vec!["SortExec(TopK)", "AggregateExec", "AggregateExec"], vec!["SortExec(TopK)", "HashAggregateExec"]);
    for (wanted, columns, expected) in [
        (vec![max()], &[greatest][..], &stays),
        (vec![], &["id"][..], &stays),
        // Groups are compared by more than the engine keeps of few.
        (vec![max()], &[greatest, "id"][..], &own),
        (vec![max(), Wanted(count_udaf(), "*", false, None)], &[greatest][..], &own),
    ] {
        let replaced = HashAggregates.optimize(first_five(&wanted, columns), &ConfigOptions::default()).unwrap();
        let all: Vec<&str> = expected.iter().copied().chain(["HashAggregateExec"]).collect();
        assert_eq!(names(&replaced), all, "{columns:?}");
    }
}
