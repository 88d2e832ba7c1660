//! Segments: rows go in whole, die one by one, and stop coming at the seal.

use super::*;
use crate::testing::{INT8, TEXT};

fn layout() -> Arc<Layout> {
    Arc::new(Layout { columns: Box::new([(ColumnId(0), INT8), (ColumnId(1), TEXT)]), key: Box::new([0]) })
}

fn push(segment: &mut Segment, id: i64, text: &str) -> u32 {
    let row = [Datum::Int8(id), Datum::Text(text)];
    segment.reserve(row.iter().map(Need::of), 8).unwrap();
    segment.push(row.into_iter())
}

#[test]
fn rows_are_read_back_changed_killed_and_revived() {
    let account = Account::unbounded();
    let mut segment = Segment::new(&layout(), 1, &account).unwrap();
    assert_eq!((push(&mut segment, 1, "one"), push(&mut segment, 2, "two")), (0, 1));
    segment.reserve([Need { rows: 1, ..Need::default() }, segment.need(0, 1)].into_iter(), 8).unwrap();
    assert_eq!(segment.push_changed(0, &[(0, Datum::Int8(9))]), 2);
    assert_eq!((segment.datum(2, 0), segment.datum(2, 1)), (Datum::Int8(9), Datum::Text("one")));
    assert!(segment.dead_words(3).is_none());
    segment.kill(1);
    segment.kill(1);
    assert_eq!((segment.dead_count(), segment.is_dead(1), segment.is_dead(0)), (1, true, false));
    assert_eq!(segment.dead_words(3), Some(vec![2]));
    segment.revive(1);
    assert_eq!((segment.dead_count(), segment.is_dead(1)), (0, false));
}

#[test]
fn a_sealed_or_full_segment_takes_no_rows() {
    let account = Account::unbounded();
    let mut segment = Segment::new(&layout(), 1, &account).unwrap();
    let needs = || [Need { rows: 1, ..Need::default() }; 2].into_iter();
    push(&mut segment, 1, "one");
    assert!(segment.fits(needs(), 2) && !segment.fits(needs(), 1));
    segment.seal();
    assert!(!segment.fits(needs(), 2));
    assert_eq!(segment.sealed_columns()[1].datum(0), Datum::Text("one"));
}
