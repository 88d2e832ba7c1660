//! How much memory groups are expected to take, of what is known of their input.

use datafusion_common::Statistics;
use datafusion_common::stats::Precision;

use super::*;
use crate::aggregate::spec::Spec;
use crate::hash_table::directory::Directory;
use crate::hash_table::words::{Words32, Words64};

const ROWS: usize = 10_000;

/// What is known of the rows of [`rows`]: some of it.
fn known(schema: &Schema) -> Statistics {
    let mut known = Statistics::new_unknown(schema).with_num_rows(Precision::Inexact(ROWS));
    for (column, field) in known.column_statistics.iter_mut().zip(schema.fields()) {
        match field.name().as_str() {
            "small" => {
                column.distinct_count = Precision::Inexact(99);
                column.null_count = Precision::Inexact(3);
            }
            "id" => column.distinct_count = Precision::Exact(5_000),
            "text" => {
                column.distinct_count = Precision::Inexact(300);
                column.byte_size = Precision::Inexact(20 * ROWS);
            }
            "word" => column.byte_size = Precision::Inexact(3 * ROWS - 1),
            _ => {}
        }
    }
    known
}

/// What is expected of groups by these keys.
fn expected(group_by: &PhysicalGroupBy, input: &Arc<dyn ExecutionPlan>, wanted: &[Wanted]) -> Option<usize> {
    let last = stock_by(input, group_by, wanted, false);
    let first = last.downcast_ref::<AggregateExec>().unwrap().input();
    let spec = Spec::of(first.downcast_ref::<AggregateExec>().unwrap(), last.schema()).unwrap().unwrap();
    spec.expected_bytes(&known(&input.schema()))
}

#[test]
fn groups_are_expected_to_take_what_is_kept_of_each() {
    let input = table(&rows(10, 10), 1, 10);
    let key = |name: &&str| (col(name, &input.schema()).unwrap(), (*name).to_owned());
    let by = |keys: &[&str]| PhysicalGroupBy::new_single(keys.iter().map(key).collect());
    let count = || vec![Wanted(count_udaf(), "*", false, None)];
    let bytes = |groups: usize, each: usize| Some(Directory::bytes_for(groups) + groups * each);
    let of_words = |groups: usize, each: usize| Some(Words64::bytes_for(groups) + groups * each);
    assert_eq!(expected(&by(&["id"]), &input, &[]), of_words(5_000, 0));
    assert_eq!(expected(&by(&["id"]), &input, &count()), of_words(5_000, 1));
    // NULL is one more.
    assert_eq!(expected(&by(&["small"]), &input, &count()), Some(Words32::bytes_for(100) + 100));
    // No more than there are rows.
    assert_eq!(expected(&by(&["small", "id"]), &input, &count()), bytes(ROWS, 16 + 1));
    let texts = || vec![Wanted(min_udaf(), "word", false, None), Wanted(max_udaf(), "value", false, None)];
    assert_eq!(expected(&by(&["text"]), &input, &texts()), bytes(300, 4 + 8 + 20 + (8 + 3) + 8));
    let means = || vec![Wanted(avg_udaf(), "number", false, None), Wanted(sum_udaf(), "number", false, None)];
    assert_eq!(expected(&by(&["id"]), &input, &means()), of_words(5_000, 16 + 8));
    // Sets one by one: those of both, of the second, and of none.
    let sets = grouping(&input, &["small", "id"], &[vec![false, false], vec![true, false], vec![true, true]]);
    assert_eq!(expected(&sets, &input, &count()), bytes(ROWS + 5_000 + 1, 16 + 1));
    // Nobody knows how many there are, or how long.
    assert_eq!(expected(&by(&["double"]), &input, &count()), None);
    assert_eq!(expected(&by(&["id", "flag"]), &input, &count()), None);
    assert_eq!(expected(&by(&["id"]), &input, &[Wanted(max_udaf(), "text", true, None)]), of_words(5_000, 8 + 20));
    assert_eq!(expected(&by(&["id"]), &input, &[Wanted(count_udaf(), "text", true, None)]), None);
}
