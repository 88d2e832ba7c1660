//! Texts in an order that only a server knows, which here is one that does not look at case first.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

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
}

/// Ranks complete groups wait for, as often as they do, and all rows.
fn run_groups(merger: &mut Merger, sources: &[Vec<Vec<u8>>]) -> Vec<Vec<Option<String>>> {
    for (at, rows) in sources.iter().enumerate() {
        assert!(merger.wanted_texts(1).unwrap().is_none(), "there are rows to come");
        rows.iter().for_each(|row| merger.push(at, row).unwrap());
        merger.finish(at);
    }
    while let Some(mut texts) = merger.wanted_texts(1).unwrap() {
        let mut texts: Vec<String> = texts.remove(0).into_iter().map(|text| String::from_utf8(text).unwrap()).collect();
        texts.sort_by(|a, b| order(a, b));
        let ranks = texts.into_iter().zip(1..).map(|(text, rank)| (text.into_bytes().into(), rank)).collect();
        merger.rank(vec![ranks]).unwrap();
    }
    let rows = std::iter::from_fn(|| merger.pop().unwrap()).map(|row| texts(&row)).collect();
    assert!(merger.is_done());
    rows
}

proptest! {
    /// Groups that come in no order: sorted by a number, by the least of their texts, and by what tells them apart.
    #[test]
    fn groups_wait_for_the_ranks_of_their_texts(
        rows in prop::collection::vec(("[abAB]{1,2}", prop::option::of("[abcABC]{0,2} ?"), 0_usize..3), 0..40),
        is_descending: bool, take in prop::option::of(0_u64..9),
    ) {
        let mut sources = vec![Vec::new(); 3];
        for (group, text, source) in &rows {
            sources[*source].push(body(&[Some(group), text.as_deref(), text.as_deref(), Some("1")]));
        }
        let keys = vec![
            key(Place::FromStart(3), true, false),
            key(Place::FromStart(1), is_descending, true),
            key(Place::FromStart(0), false, false),
        ];
        let aggregates = vec![Aggregate::Group, Aggregate::Min, Aggregate::Max, Aggregate::Count];
        let merge = RowMerge { keys: keys.clone(), streamed: keys, aggregates, ..RowMerge::default() };
        let gathering = Gathering { merge: &merge, skip: 0, take };
        let orders = [(0, TextOrder::Ranks(0)), (1, TextOrder::Ranks(0)), (2, TextOrder::Ranks(0))];
        let mut merger = Merger::ordered(&gathering, &[TEXT, TEXT, CHARACTER, INT8], 3, false, &orders).unwrap();
        assert!(!merger.is_ranked() && !merger.is_streaming());
        let merged = run_groups(&mut merger, &sources);

        let mut groups: BTreeMap<&str, Vec<Option<&str>>> = BTreeMap::new();
        rows.iter().for_each(|(group, text, _)| groups.entry(group).or_default().push(text.as_deref()));
        let mut expected: Vec<(&str, Option<&str>, Option<&str>, usize)> = groups.into_iter().map(|(group, texts)| {
            let of = || texts.iter().copied().flatten();
            let blank = |a: &&str, b: &&str| order(a.trim_end(), b.trim_end());
            (group, of().min_by(|a, b| order(a, b)), of().max_by(blank), texts.len())
        }).collect();
        expected.sort_by(|a, b| {
            let least = match (a.1, b.1) {
                (Some(a), Some(b)) if is_descending => order(b, a),
                (Some(a), Some(b)) => order(a, b),
                _ => a.1.is_some().cmp(&b.1.is_some()),
            };
            b.3.cmp(&a.3).then(least).then(order(a.0, b.0))
        });
        let shown = |text: Option<&str>| text.map(|text| text.trim_end().to_owned());
        let expected = expected.into_iter().map(|(group, least, most, count)| {
            vec![Some(group.to_owned()), least.map(str::to_owned), shown(most), Some(count.to_string())]
        });
        // Of texts that differ in blanks behind them any is the greatest.
        let merged = merged.into_iter().map(|mut row| {
            row[2] = shown(row[2].as_deref());
            row
        });
        let take = take.map_or(usize::MAX, |take| usize::try_from(take).unwrap());
        prop_assert_eq!(merged.collect::<Vec<_>>(), expected.take(take).collect::<Vec<_>>());
    }
}

#[test]
fn the_least_of_texts_is_not_told_before_their_ranks() {
    let merge = RowMerge { aggregates: vec![Aggregate::Max], ..RowMerge::default() };
    let gathering = Gathering { merge: &merge, skip: 0, take: None };
    let made = |order| Merger::ordered(&gathering, &[TEXT], 2, false, &[(0, order)]);
    let mut merger = made(TextOrder::Ranks(0)).unwrap();
    merger.push(0, &body(&[Some("a")])).unwrap();
    (0..2).for_each(|source| merger.finish(source));
    assert!(merger.pop().is_err());
    let mut merger = made(TextOrder::Ranks(0)).unwrap();
    let sources = [vec![body(&[Some("B")])], vec![body(&[Some("a")]), body(&[None])]];
    assert_eq!(run_groups(&mut merger, &sources), [[Some("B".to_owned())]]);
    assert!(made(TextOrder::Unknown).is_err());
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
fn groups_and_the_least_of_texts_with_a_collation_that_nobody_knows_are_refused() {
    let aggregates = vec![Aggregate::Group, Aggregate::Min, Aggregate::Count];
    let merge = RowMerge { aggregates, ..RowMerge::default() };
    let gathering = Gathering { merge: &merge, skip: 0, take: None };
    let fields = [TEXT, TEXT, INT8];
    assert_eq!(merge.text_columns(&fields, true), [0, 1]);
    assert_eq!(merge.text_columns(&fields, false), [1]);
    let made = |group, least| Merger::ordered(&gathering, &fields, 2, true, &[(0, group), (1, least)]);
    assert!(made(TextOrder::Ranks(0), TextOrder::Bytes).is_ok());
    assert!(made(TextOrder::Bytes, TextOrder::Ranks(0)).is_ok());
    for (group, least) in [(TextOrder::Unknown, TextOrder::Bytes), (TextOrder::Bytes, TextOrder::Unknown)] {
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
