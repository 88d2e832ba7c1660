//! Counters whose bounds change, and counters that go from one table to the next.

use super::*;

const COLUMN: ColumnId = ColumnId(3);

#[test]
fn a_counter_goes_on_where_it_stood_when_it_may_count_further() {
    let counters = Counters::default();
    let short = Sequence { start: 2, max: 3, ..Sequence::BY_ONES };
    assert_eq!(counters.position(COLUMN, &short), 2);
    let taken: Vec<Option<i64>> = (0..4).map(|_| counters.take(COLUMN, &short)).collect();
    assert_eq!((taken, counters.position(COLUMN, &short)), (vec![Some(2), Some(3), None, None], 3));

    let heir = Counters::default();
    heir.take_those_of(TableId(7), &counters);
    assert_eq!(heir.take(COLUMN, &Sequence { max: 5, ..short }), Some(4));
    let last = Counters::default();
    last.take_those_of(TableId(8), &heir);
    assert_eq!(last.take(COLUMN, &Sequence::BY_ONES), Some(5));
    assert_eq!([&counters, &heir, &last].map(Counters::first_table), [None, Some(TableId(7)), Some(TableId(7))]);
}

#[test]
fn no_number_is_given_that_is_out_of_bounds() {
    let counters = Counters::default();
    let short = Sequence { max: 3, ..Sequence::BY_ONES };
    counters.restart(COLUMN, 4);
    assert_eq!((counters.take(COLUMN, &short), counters.position(COLUMN, &short)), (None, 4));
    assert_eq!(counters.take(COLUMN, &Sequence { max: 4, ..short }), Some(4));
}
