//! Texts in an order that only a server knows, which here is one that does not look at case first.

use std::cmp::Ordering;
use std::collections::{BTreeSet, VecDeque};

use proptest::prelude::*;

use super::{CHARACTER, INT8, TEXT, body, key, texts};
use crate::merge::{
    Aggregate, Comparison, Computed, Condition, Expression, Gathering, Having, Merger, Operand, Place, Ranks, RowMerge,
    TextOrder,
};

/// The order of the server.
fn order(a: &str, b: &str) -> Ordering {
    a.to_lowercase().cmp(&b.to_lowercase()).then(a.cmp(b))
}

/// What the server says of the texts of blocks, and of those that the merger holds.
fn ranks(merger: &Merger, blocks: &[VecDeque<Vec<u8>>]) -> Ranks {
    let mut found = vec![BTreeSet::new()];
    merger.held_texts(&mut found).unwrap();
    blocks.iter().flatten().for_each(|row| merger.texts(row, &mut found).unwrap());
    let mut found: Vec<String> = found.remove(0).into_iter().map(|text| String::from_utf8(text).unwrap()).collect();
    found.sort_by(|a, b| order(a, b));
    found.into_iter().zip(1..).map(|(text, rank)| (text.into_bytes().into(), rank)).collect()
}

/// Runs a merge over rows that are taken so many at a time.
fn run(merger: &mut Merger, sources: &[Vec<Vec<u8>>], rows_max: usize) -> Vec<Vec<Option<String>>> {
    let mut left: Vec<VecDeque<Vec<u8>>> = sources.iter().map(|rows| rows.iter().cloned().collect()).collect();
    let mut blocks: Vec<VecDeque<Vec<u8>>> = vec![VecDeque::new(); sources.len()];
    let mut merged = Vec::new();
    loop {
        while let Some(at) = merger.needs() {
            if blocks[at].is_empty() && !left[at].is_empty() {
                for (block, left) in blocks.iter_mut().zip(&mut left).filter(|(block, _)| block.is_empty()) {
                    block.extend(left.drain(..rows_max.min(left.len())));
                }
                let known = ranks(merger, &blocks);
                merger.rank(vec![known]).unwrap();
            }
            match blocks[at].pop_front() {
                Some(row) => merger.push(at, &row).unwrap(),
                None => merger.finish(at),
            }
        }
        match merger.pop().unwrap() {
            Some(row) => merged.push(texts(&row)),
            None if merger.is_done() => return merged,
            None => {}
        }
    }
}

proptest! {
    #[test]
    fn texts_are_in_the_order_of_their_ranks_whatever_comes_in_a_block(
        mut rows in prop::collection::vec((prop::option::of("[abAB]{0,3}"), 0_i64..4, 0_usize..3), 0..40),
        is_descending: bool, rows_max in 1_usize..5, take in prop::option::of(0_u64..9),
    ) {
        rows.sort_by(|(a, a_number, _), (b, b_number, _)| {
            let texts = match (a, b) {
                (Some(a), Some(b)) if is_descending => order(b, a),
                (Some(a), Some(b)) => order(a, b),
                _ => a.is_none().cmp(&b.is_none()),
            };
            texts.then(a_number.cmp(b_number))
        });
        let mut sources = vec![Vec::new(); 3];
        for (text, number, source) in &rows {
            sources[*source].push(body(&[text.as_deref(), Some(number.to_string().as_str())]));
        }
        let keys = vec![key(Place::FromStart(0), is_descending, false), key(Place::FromStart(1), false, false)];
        let merge = RowMerge { keys, ..RowMerge::default() };
        let gathering = Gathering { merge: &merge, skip: 0, take };
        let orders = [(0, TextOrder::Ranks(0))];
        let mut merger = Merger::ordered(&gathering, &[TEXT, INT8], 3, false, &orders).unwrap();
        let merged = run(&mut merger, &sources, rows_max);
        let take = take.map_or(usize::MAX, |take| usize::try_from(take).unwrap());
        let expected = rows.iter().take(take).map(|(text, number, _)| vec![text.clone(), Some(number.to_string())]);
        prop_assert_eq!(merged, expected.collect::<Vec<_>>());
    }
}

#[test]
fn blanks_behind_a_character_and_ties_are_those_of_the_collation() {
    let merge = RowMerge { keys: vec![key(Place::FromStart(0), false, false)], has_ties: true, ..RowMerge::default() };
    let gathering = Gathering { merge: &merge, skip: 0, take: Some(1) };
    let orders = [(0, TextOrder::Ranks(0))];
    let mut merger = Merger::ordered(&gathering, &[CHARACTER], 2, false, &orders).unwrap();
    let rows = |texts: &[&str]| texts.iter().map(|text| body(&[Some(text)])).collect::<Vec<_>>();
    let merged = run(&mut merger, &[rows(&["a  ", "B  "]), rows(&["a", "a ", "b"])], 1);
    let merged: Vec<&str> = merged.iter().map(|row| row[0].as_deref().unwrap()).collect();
    assert_eq!(merged, ["a  ", "a", "a "]);
}

#[test]
fn rows_of_one_source_come_in_their_order_and_need_no_ranks() {
    let orders = [(0, TextOrder::Ranks(0))];
    let keys = vec![key(Place::FromStart(0), false, false)];
    let rows = |texts: &[&str]| texts.iter().map(|text| body(&[Some(text), Some("2")])).collect::<Vec<_>>();
    let merged = |merge: &RowMerge, take| {
        let gathering = Gathering { merge, skip: 0, take };
        let mut merger = Merger::ordered(&gathering, &[TEXT, INT8], 1, false, &orders).unwrap();
        assert!(!merger.is_ranked());
        let merged = super::run(&mut merger, &[rows(&["a", "B", "B", "c"])]);
        merged.iter().map(|row| row.iter().flatten().cloned().collect::<String>()).collect::<Vec<_>>()
    };
    let ties = RowMerge { keys: keys.clone(), has_ties: true, ..RowMerge::default() };
    assert_eq!(merged(&ties, Some(2)), ["a2", "B2", "B2"]);
    let aggregates = vec![Aggregate::Group, Aggregate::Count];
    let groups = RowMerge { keys: keys.clone(), streamed: keys, aggregates, ..RowMerge::default() };
    assert_eq!(merged(&groups, None), ["a2", "B4", "c2"]);
    // Groups that do not come in an order have none.
    let groups = RowMerge { streamed: Vec::new(), ..groups };
    let gathering = Gathering { merge: &groups, skip: 0, take: None };
    assert!(Merger::ordered(&gathering, &[TEXT, INT8], 1, false, &orders).is_err());
}

#[test]
fn texts_without_a_known_order_are_refused_and_so_are_those_without_a_rank() {
    let merge = RowMerge { keys: vec![key(Place::FromStart(0), false, false)], ..RowMerge::default() };
    let gathering = Gathering { merge: &merge, skip: 0, take: None };
    let made = |is_c_collated, order| Merger::ordered(&gathering, &[TEXT], 2, is_c_collated, &[(0, order)]);
    // What is known of the column counts, and not what the servers do where nothing is said.
    assert!(made(true, TextOrder::Unknown).is_err());
    assert!(made(false, TextOrder::Bytes).is_ok());
    let mut merger = made(true, TextOrder::Ranks(0)).unwrap();
    assert!(merger.push(0, &body(&[Some("a")])).is_err());
    assert_eq!(merge.text_columns(&[TEXT], false), [0]);
    assert_eq!(merge.text_columns(&[INT8], true), [0_usize; 0]);
}

#[test]
fn groups_and_the_least_of_texts_with_a_collation_of_their_own_are_compared_byte_by_byte_or_not_at_all() {
    let aggregates = vec![Aggregate::Group, Aggregate::Min, Aggregate::Count];
    let merge = RowMerge { aggregates, ..RowMerge::default() };
    let gathering = Gathering { merge: &merge, skip: 0, take: None };
    let fields = [TEXT, TEXT, INT8];
    assert_eq!(merge.text_columns(&fields, true), [0, 1]);
    assert_eq!(merge.text_columns(&fields, false), [0_usize; 0]);
    let made = |group, least| Merger::ordered(&gathering, &fields, 2, true, &[(0, group), (1, least)]);
    assert!(made(TextOrder::Ranks(0), TextOrder::Bytes).is_ok());
    for (group, least) in [(TextOrder::Unknown, TextOrder::Bytes), (TextOrder::Bytes, TextOrder::Ranks(0))] {
        assert!(made(group, least).is_err(), "{group:?} {least:?}");
    }
}

#[test]
fn what_complete_groups_are_asked_compares_texts_of_a_collation_of_their_own_for_equality_only() {
    let fields = [TEXT, INT8, INT8];
    let is_made = |is_computed, comparison, order| {
        let compared = Condition::Compare(Operand::Column(0), comparison, Operand::Column(0));
        let merge = match is_computed {
            true => RowMerge {
                aggregates: vec![Aggregate::Group, Aggregate::Count, Aggregate::Computed],
                computed: vec![Computed {
                    column: 2,
                    expression: Expression::Case(vec![(compared, Expression::Column(1))], None),
                }],
                ..RowMerge::default()
            },
            false => RowMerge {
                aggregates: vec![Aggregate::Group, Aggregate::Count, Aggregate::Count],
                having: Some(Having(compared)),
                ..RowMerge::default()
            },
        };
        let gathering = Gathering { merge: &merge, skip: 0, take: None };
        Merger::ordered(&gathering, &fields, 2, true, &[(0, order)]).is_ok()
    };
    for is_computed in [true, false] {
        assert!(is_made(is_computed, Comparison::Less, TextOrder::Bytes));
        assert!(is_made(is_computed, Comparison::Equal, TextOrder::Ranks(0)));
        assert!(!is_made(is_computed, Comparison::Less, TextOrder::Ranks(0)));
        assert!(!is_made(is_computed, Comparison::Equal, TextOrder::Unknown));
    }
}
