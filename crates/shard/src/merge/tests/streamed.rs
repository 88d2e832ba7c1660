//! Groups that come sorted by what tells them apart, against those that are put together all at once.

use proptest::prelude::*;

use super::{Counted, INT8, NUMERIC, TEXT, body, key, run};
use crate::merge::{Aggregate, Gathering, Merger, Place, RowMerge};

/// The groups of a source: two numbers, of which the second may be NULL, how many rows it has of them, and a truth that is not looked at.
fn rows_of(part: &Counted) -> Vec<Vec<u8>> {
    let row = |((a, b), (count, _)): (&(i64, Option<i64>), &(i64, bool))| {
        let all = [Some(a.to_string()), Some(count.to_string()), b.map(|b| b.to_string())];
        body(&all.each_ref().map(Option::as_deref))
    };
    part.iter().map(row).collect()
}

/// Groups of the first column and the third, which is not shown, sorted by the first, and, where they are streamed, by the third.
fn merge_of(is_streamed: bool) -> RowMerge {
    let keys = vec![key(Place::FromStart(0), false, false)];
    // The order of the map that sources are made of.
    let streamed = vec![key(Place::FromStart(0), false, false), key(Place::FromStart(2), false, true)];
    RowMerge {
        keys,
        streamed: if is_streamed { streamed } else { Vec::new() },
        hidden: 1,
        aggregates: vec![Aggregate::Group, Aggregate::Count, Aggregate::Group],
        ..RowMerge::default()
    }
}

proptest! {
    #[test]
    fn groups_one_after_the_other_are_those_of_all_rows(
        rows in prop::collection::vec((-2_i64..3, prop::option::of(0_i64..4), 0_usize..3), 0..60),
        skip in 0_u64..4, take in prop::option::of(0_u64..8), is_sure: bool,
    ) {
        let mut parts = vec![Counted::new(); 3];
        for (a, b, source) in &rows {
            parts[*source].entry((*a, *b)).or_default().0 += 1;
        }
        let sources: Vec<Vec<Vec<u8>>> = parts.iter().map(rows_of).collect();
        // Numbers that may be longer than what is known here are kept back.
        let fields = [INT8, INT8, if is_sure { INT8 } else { NUMERIC }];
        let merged = |is_streamed, skip, take| {
            let merge = merge_of(is_streamed);
            let gathering = Gathering { merge: &merge, skip, take };
            let mut merger = Merger::new(&gathering, &fields, 3, true).unwrap();
            assert_eq!(merger.is_streaming(), is_streamed);
            run(&mut merger, &sources)
        };
        let (mut one_by_one, mut at_once) = (merged(true, 0, None), merged(false, 0, None));
        let first = |rows: &[Vec<Option<String>>]| rows.iter().map(|row| row[0].clone()).collect::<Vec<_>>();
        prop_assert_eq!(first(&one_by_one), first(&at_once));
        let cut: Vec<_> = one_by_one.iter().skip(usize::try_from(skip).unwrap()).cloned().collect();
        let take_rows = take.map_or(usize::MAX, |take| usize::try_from(take).unwrap());
        prop_assert_eq!(merged(true, skip, take), cut.into_iter().take(take_rows).collect::<Vec<_>>());
        one_by_one.sort();
        at_once.sort();
        prop_assert_eq!(one_by_one, at_once);
    }
}

/// What a merger holds of two sources with so many groups each, half of which both have, at the most; and how many groups there are.
fn held(merger: &mut Merger, groups: i64) -> (usize, usize) {
    let mut next = [0_i64, groups / 2];
    let ends = [groups, groups + groups / 2];
    let (mut most, mut count) = (0, 0);
    loop {
        while let Some(at) = merger.needs() {
            if next[at] < ends[at] {
                merger.push(at, &body(&[Some(next[at].to_string().as_str()), Some("3"), Some("1")])).unwrap();
                next[at] += 1;
            } else {
                merger.finish(at);
            }
            most = most.max(merger.bytes());
        }
        match merger.pop().unwrap() {
            Some(_) => count += 1,
            None if merger.is_done() => return (most, count),
            None => {}
        }
    }
}

#[test]
fn what_is_held_of_groups_one_after_the_other_does_not_grow_with_their_number() {
    let at_once = |fields: [super::Field; 3], is_streamed| {
        let merge = RowMerge { streamed: Vec::new(), ..merge_of(true) };
        let merge = if is_streamed { merge_of(true) } else { merge };
        let gathering = Gathering { merge: &merge, skip: 0, take: None };
        held(&mut Merger::new(&gathering, &fields, 2, true).unwrap(), 20_000)
    };
    let (most, count) = at_once([INT8; 3], true);
    assert!(most < 4096, "{most}");
    assert_eq!(count, 30_000);
    let (all, count) = at_once([INT8; 3], false);
    assert!(all > 100 * most, "{all}");
    assert_eq!(count, 30_000);
    // Those that are kept back are so in the form in which they are given out.
    let (kept, count) = at_once([INT8, INT8, NUMERIC], true);
    assert!(kept > most && kept < all / 2, "{kept}");
    assert_eq!(count, 30_000);
}

#[test]
fn what_cannot_be_put_together_is_known_before_a_group_is_given_out() {
    let merge = RowMerge {
        keys: vec![key(Place::FromStart(0), false, false)],
        streamed: vec![key(Place::FromStart(0), false, false)],
        aggregates: vec![Aggregate::Group, Aggregate::Sum],
        ..RowMerge::default()
    };
    let gathering = Gathering { merge: &merge, skip: 0, take: None };
    let mut merger = Merger::new(&gathering, &[INT8, NUMERIC], 1, true).unwrap();
    assert!(merger.is_streaming());
    let long = "9".repeat(60);
    let mut left = [("1", "5"), ("2", "7"), ("3", long.as_str())].into_iter();
    let failure = loop {
        while merger.needs().is_some() {
            match left.next() {
                Some((group, sum)) => merger.push(0, &body(&[Some(group), Some(sum)])).unwrap(),
                None => merger.finish(0),
            }
        }
        match merger.pop() {
            Ok(Some(row)) => panic!("{:?}", super::texts(&row)),
            Ok(None) => assert!(!merger.is_done()),
            Err(error) => break error,
        }
    };
    assert_eq!(failure.code(), ashlar_base::ErrorCode::FeatureNotSupported);
}

#[test]
fn groups_whose_order_is_not_known_are_put_together_all_at_once() {
    let made = |streamed, is_c_collated| {
        let merge = RowMerge {
            keys: vec![key(Place::FromStart(1), false, false)],
            streamed,
            aggregates: vec![Aggregate::Group, Aggregate::Group],
            ..RowMerge::default()
        };
        let gathering = Gathering { merge: &merge, skip: 0, take: None };
        Merger::new(&gathering, &[TEXT, INT8], 2, is_c_collated).unwrap().is_streaming()
    };
    let streamed = vec![key(Place::FromStart(1), false, false), key(Place::FromStart(0), false, false)];
    assert!(made(streamed.clone(), true));
    assert!(!made(streamed, false));
    assert!(!made(Vec::new(), true));
}
