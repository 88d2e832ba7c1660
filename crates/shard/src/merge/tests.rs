//! Merges against sorting and adding everything at once.

use proptest::prelude::*;

use super::decimal::Decimal;
use super::{Aggregate, Field, Gathering, Merger, Place, RowMerge, SortKey};

const INT8: Field = Field { oid: 20, is_binary: false };
const TEXT: Field = Field { oid: 25, is_binary: false };
const NUMERIC: Field = Field { oid: 1700, is_binary: false };

fn body(cells: &[Option<&str>]) -> Vec<u8> {
    let mut body = u16::try_from(cells.len()).unwrap().to_be_bytes().to_vec();
    for cell in cells {
        match cell {
            Some(cell) => {
                body.extend(i32::try_from(cell.len()).unwrap().to_be_bytes());
                body.extend(cell.as_bytes());
            }
            None => body.extend((-1_i32).to_be_bytes()),
        }
    }
    body
}

fn texts(body: &[u8]) -> Vec<Option<String>> {
    super::cells(body).map(|cell| cell.unwrap().map(|cell| String::from_utf8(cell.to_vec()).unwrap())).collect()
}

/// Runs a merge over rows that each source gives one by one.
fn run(merger: &mut Merger, sources: &[Vec<Vec<u8>>]) -> Vec<Vec<Option<String>>> {
    let mut next = vec![0; sources.len()];
    let mut merged = Vec::new();
    loop {
        while let Some(source) = merger.needs() {
            match sources[source].get(next[source]) {
                Some(row) => {
                    next[source] += 1;
                    merger.push(source, row).unwrap();
                }
                None => merger.finish(source),
            }
        }
        match merger.pop().unwrap() {
            Some(row) => merged.push(texts(&row)),
            None if merger.is_done() => return merged,
            None => {}
        }
    }
}

fn key(column: Place, is_descending: bool, nulls_first: bool) -> SortKey {
    SortKey { column, is_descending, nulls_first, is_c_collated: false }
}

proptest! {
    #[test]
    fn sorted_sources_become_one_sorted_sequence(
        mut rows in prop::collection::vec((prop::option::of(-3_i64..3), 0_usize..3, "[a-c]{0,2}"), 0..40),
        is_descending: bool, nulls_first: bool, skip in 0_u64..6, take in prop::option::of(0_u64..12),
    ) {
        let order = |a: &(Option<i64>, usize, String), b: &(Option<i64>, usize, String)| {
            let nulls = b.0.is_none().cmp(&a.0.is_none());
            let nulls = if nulls_first { nulls } else { nulls.reverse() };
            let values = if is_descending { b.0.cmp(&a.0) } else { a.0.cmp(&b.0) };
            let values = if a.0.is_none() || b.0.is_none() { nulls } else { values };
            values.then(a.2.cmp(&b.2))
        };
        rows.sort_by(order);
        let mut sources = vec![Vec::new(); 3];
        for (number, source, text) in &rows {
            let number = number.map(|number| number.to_string());
            sources[*source].push(body(&[Some("x"), Some(text), number.as_deref()]));
        }
        let merge = RowMerge {
            keys: vec![key(Place::FromEnd(1), is_descending, nulls_first), key(Place::FromStart(1), false, false)],
            hidden: 1,
            aggregates: Vec::new(),
        };
        let gathering = Gathering { merge: &merge, skip, take };
        let mut merger = Merger::new(&gathering, &[TEXT, TEXT, INT8], 3, true).unwrap();
        let merged = run(&mut merger, &sources);
        let take = take.map_or(usize::MAX, |take| usize::try_from(take).unwrap());
        let expected = rows.iter().skip(usize::try_from(skip).unwrap()).take(take);
        let expected: Vec<Vec<Option<String>>> =
            expected.map(|(_, _, text)| vec![Some("x".to_owned()), Some(text.clone())]).collect();
        prop_assert_eq!(merged, expected);
    }

    #[test]
    fn numbers_are_added_and_compared_as_integers_are(a in -1_000_000_000_i64..1_000_000_000, b in -1_000_000_000_i64..1_000_000_000, scale in 0_usize..8) {
        let unit = 10_i64.pow(u32::try_from(scale).unwrap());
        let written = |value: i64| {
            let sign = if value < 0 { "-" } else { "" };
            let (whole, rest) = (value.unsigned_abs() / unit.unsigned_abs(), value.unsigned_abs() % unit.unsigned_abs());
            if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{rest:0>scale$}") }
        };
        let (x, y) = (Decimal::parse(&written(a)).unwrap(), Decimal::parse(&written(b)).unwrap());
        prop_assert_eq!(x.plus(y).unwrap().text(), written(a + b));
        prop_assert_eq!(x.compare(y), a.cmp(&b));
        prop_assert_eq!(Decimal::decode(&x.encode()).unwrap().text(), written(a));
    }
}

#[test]
fn rows_that_are_not_needed_are_not_asked_for() {
    let merge = RowMerge { keys: vec![key(Place::FromStart(0), false, false)], ..RowMerge::default() };
    let mut merger = Merger::new(&Gathering { merge: &merge, skip: 0, take: Some(1) }, &[INT8], 2, false).unwrap();
    merger.push(0, &body(&[Some("2")])).unwrap();
    assert_eq!(merger.needs(), Some(1));
    merger.push(1, &body(&[Some("1")])).unwrap();
    assert_eq!(texts(&merger.pop().unwrap().unwrap()), [Some("1".into())]);
    assert!(merger.is_done() && merger.needs().is_none(), "one row was asked for");
}

#[test]
fn partial_results_become_one() {
    use Aggregate::{Count, Max, Min, Sum};
    let merge = RowMerge { aggregates: vec![Count, Sum, Sum, Min, Max, Sum], ..RowMerge::default() };
    let fields = [INT8, INT8, NUMERIC, INT8, TEXT, INT8];
    let gathering = Gathering { merge: &merge, skip: 0, take: None };
    let mut merger = Merger::new(&gathering, &fields, 3, true).unwrap();
    let sources = [
        vec![body(&[Some("2"), Some("-5"), Some("1.50"), Some("7"), Some("b"), None])],
        vec![body(&[Some("0"), None, None, None, None, None])],
        vec![body(&[Some("3"), Some("9"), Some("0.125"), Some("-7"), Some("ab"), None])],
    ];
    let some = |text: &str| Some(text.to_owned());
    let merged = run(&mut merger, &sources);
    assert_eq!(merged, [vec![some("5"), some("4"), some("1.625"), some("-7"), some("b"), None]]);
}

#[test]
fn what_has_no_known_order_is_refused_before_rows_come() {
    let merge = RowMerge { keys: vec![key(Place::FromStart(0), false, false)], ..RowMerge::default() };
    let gathering = Gathering { merge: &merge, skip: 0, take: None };
    assert!(Merger::new(&gathering, &[TEXT], 2, false).is_err(), "text without a known collation");
    assert!(Merger::new(&gathering, &[TEXT], 2, true).is_ok());
    assert!(Merger::new(&gathering, &[Field { oid: 114, is_binary: false }], 2, true).is_err(), "json");
    let broken = Merger::new(&gathering, &[INT8], 2, false).unwrap().push(0, &[0, 1, 0, 0, 0, 9, b'1']);
    assert_eq!(broken.unwrap_err().code(), ashlar_base::ErrorCode::ProtocolViolation);
}
