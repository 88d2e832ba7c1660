//! Merges against sorting and adding everything at once.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::decimal::Decimal;
use super::{
    Aggregate, Comparison, Condition, Deviation, Field, Gathering, Having, Merger, Operand, Place, RowMerge, SortKey,
};

mod computed;
mod ranked;
mod streamed;

const INT8: Field = Field { oid: 20, is_binary: false };
const TEXT: Field = Field { oid: 25, is_binary: false };
const NUMERIC: Field = Field { oid: 1700, is_binary: false };
const CHARACTER: Field = Field { oid: 1042, is_binary: false };

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

/// Of each group and value: the number of rows, and whether one of them is let through.
type Counted = BTreeMap<(i64, Option<i64>), (i64, bool)>;

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
            ..RowMerge::default()
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

proptest! {
    #[test]
    fn groups_of_several_sources_are_those_of_all_rows(
        rows in prop::collection::vec((prop::option::of(-2_i64..3), prop::option::of("[a-b]{0,1}"), -50_i64..50, 0_usize..3), 0..60),
        is_descending: bool, skip in 0_u64..3, take in prop::option::of(0_u64..6),
    ) {
        use std::collections::BTreeMap;
        type Key = (Option<i64>, Option<String>);
        type Sums = (i64, i64, i64);
        type Groups = BTreeMap<Key, Sums>;
        let add = |groups: &mut Groups, (number, text, value, _): &(Option<i64>, Option<String>, i64, usize)| {
            let group = groups.entry((*number, text.clone())).or_insert((0, 0, *value));
            *group = (group.0 + 1, group.1 + value, group.2.min(*value));
        };
        let mut all = Groups::new();
        let mut parts = vec![Groups::new(); 3];
        for row in &rows {
            add(&mut all, row);
            add(&mut parts[row.3], row);
        }
        // Group, number of rows, sum, least; the second column of the group is hidden.
        let row = |((number, text), (count, sum, least)): (&Key, &Sums)| {
            [number.map(|number| number.to_string()), Some(count.to_string()), Some(sum.to_string()), Some(least.to_string()), text.clone()]
        };
        let of = |groups: &Groups| -> Vec<Vec<u8>> {
            groups.iter().map(|group| body(&row(group).each_ref().map(Option::as_deref))).collect()
        };
        let sources: Vec<Vec<Vec<u8>>> = parts.iter().map(of).collect();
        let merge = RowMerge {
            keys: vec![key(Place::FromStart(2), is_descending, false), key(Place::FromStart(0), false, false)],
            hidden: 1,
            aggregates: vec![Aggregate::Group, Aggregate::Count, Aggregate::Sum, Aggregate::Min, Aggregate::Group],
            ..RowMerge::default()
        };
        let gathering = Gathering { merge: &merge, skip, take };
        let mut merger = Merger::new(&gathering, &[INT8, INT8, INT8, INT8, TEXT], 3, true).unwrap();
        let merged = run(&mut merger, &sources);
        let mut expected: Vec<_> = all.iter().collect();
        expected.sort_by(|(a, (_, a_sum, _)), (b, (_, b_sum, _))| {
            let sums = if is_descending { b_sum.cmp(a_sum) } else { a_sum.cmp(b_sum) };
            sums.then(a.0.is_none().cmp(&b.0.is_none())).then(a.0.cmp(&b.0))
        });
        let count = take.map_or(usize::MAX, |take| usize::try_from(take).unwrap());
        let sums = |rows: Vec<Vec<Option<String>>>| -> Vec<Vec<Option<String>>> {
            // Groups that are alike in what they are sorted by come in any order.
            rows.into_iter().map(|row| vec![row[0].clone(), row[2].clone()]).collect()
        };
        let expected = expected.into_iter().skip(usize::try_from(skip).unwrap()).take(count);
        let expected: Vec<Vec<Option<String>>> = expected.map(|group| row(group)[..4].to_vec()).collect();
        prop_assert!(merged.iter().all(|row| row.len() == 4));
        if skip == 0 && take.is_none() {
            let (mut all, mut found) = (expected.clone(), merged.clone());
            all.sort();
            found.sort();
            prop_assert_eq!(all, found);
        }
        prop_assert_eq!(sums(merged), sums(expected));
    }
}

proptest! {
    #[test]
    fn values_that_several_sources_have_are_added_once(
        mut rows in prop::collection::vec((-1_i64..2, prop::option::of(-2_i64..3), prop::bool::ANY, 0_usize..3), 0..50),
        is_divided: bool, least in 0_i64..4,
    ) {
        use std::collections::BTreeSet;
        if !is_divided {
            rows.iter_mut().for_each(|row| row.0 = 0);
        }
        // Of each group and value: the number of rows, and whether one of them is let through by FILTER.
        let mut parts = vec![Counted::new(); 3];
        for (group, value, is_through, source) in &rows {
            let part = parts[*source].entry((*group, *value)).or_default();
            *part = (part.0 + 1, part.1 || *is_through);
        }
        // Each source shows the value with other digits.
        let row = |source: usize, ((group, value), (count, is_through)): (&(i64, Option<i64>), &(i64, bool))| {
            let value = value.map(|value| if source == 0 { value.to_string() } else { format!("{value}.{:0<source$}", 0) });
            let counted = i64::from(*is_through && value.is_some()).to_string();
            let all = [Some(group.to_string()), Some(counted), value.clone(), Some(count.to_string()), value];
            body(&all.each_ref().map(Option::as_deref))
        };
        let of = |(source, part): (usize, &Counted)| -> Vec<Vec<u8>> {
            part.iter().map(|group| row(source, group)).collect()
        };
        let sources: Vec<Vec<Vec<u8>>> = parts.iter().enumerate().map(of).collect();
        let many = Condition::Compare(Operand::number("0.5").unwrap(), Comparison::Less, Operand::Column(3));
        let most = Operand::number(&least.to_string()).unwrap();
        let having = Condition::Any(vec![
            Condition::All(vec![Condition::Compare(Operand::Column(3), Comparison::GreaterOrEqual, most), many]),
            Condition::IsNull(2),
        ]);
        let merge = RowMerge {
            hidden: 1,
            aggregates: vec![
                if is_divided { Aggregate::Group } else { Aggregate::Alike },
                Aggregate::CountOf(4),
                Aggregate::SumOf(4),
                Aggregate::Count,
                Aggregate::Value,
            ],
            having: Some(Having(having)),
            ..RowMerge::default()
        };
        let gathering = Gathering { merge: &merge, skip: 0, take: None };
        let mut merger = Merger::new(&gathering, &[INT8, INT8, NUMERIC, INT8, NUMERIC], 3, true).unwrap();
        let mut found: Vec<(i64, i64, Option<i64>, i64)> = Vec::new();
        for row in run(&mut merger, &sources) {
            let number = |at: usize| row[at].as_ref().map(|text| text.parse::<f64>().unwrap() as i64);
            found.push((number(0).unwrap_or(0), number(1).unwrap(), number(2), number(3).unwrap()));
        }
        found.sort_unstable();
        let mut groups: BTreeSet<i64> = rows.iter().map(|row| row.0).collect();
        if !is_divided {
            groups.insert(0);
        }
        let mut expected = Vec::new();
        for group in groups {
            let own = || rows.iter().filter(|row| row.0 == group);
            let values: BTreeSet<i64> = own().filter_map(|row| row.1).collect();
            let through: BTreeSet<i64> = own().filter(|row| row.2).filter_map(|row| row.1).collect();
            let sum = (!values.is_empty()).then(|| values.iter().sum::<i64>());
            let count = own().count() as i64;
            if (count >= least && count > 0) || sum.is_none() {
                expected.push((group, through.len() as i64, sum, count));
            }
        }
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn groups_are_told_apart_by_what_equal_values_have_alike() {
    let alike = |field: Field, bytes: &[u8]| {
        let mut key = Vec::new();
        super::value::write_alike(field, Some(bytes), &mut key);
        key
    };
    let binary = |text: &str| alike(Field { is_binary: true, ..NUMERIC }, &Decimal::parse(text).unwrap().encode());
    let written = |text: &str| alike(NUMERIC, text.as_bytes());
    for (a, b) in [("1", "1.00"), ("100", "100.0"), ("-0.50", "-0.5"), ("0", "0.000"), ("12345.6", "12345.600000")] {
        assert_eq!(written(a), written(b), "{a} {b}");
        assert_eq!(binary(a), binary(b), "{a} {b}");
    }
    for (a, b) in [("1", "10"), ("100", "1"), ("0.1", "0.01"), ("-1", "1"), ("10000", "1"), ("1.0001", "1.001")] {
        assert_ne!(written(a), written(b), "{a} {b}");
        assert_ne!(binary(a), binary(b), "{a} {b}");
    }
    assert_ne!(written("NaN"), written("0"));
    assert_eq!(alike(CHARACTER, b"a  "), alike(CHARACTER, b"a"));
    assert_ne!(alike(CHARACTER, b"a\t"), alike(CHARACTER, b"a"));
    assert_ne!(alike(TEXT, b"1.0"), alike(TEXT, b"1.00"));
    let mut null = Vec::new();
    super::value::write_alike(TEXT, None, &mut null);
    assert_ne!(alike(TEXT, b""), null);
}

#[test]
fn rows_that_are_sorted_like_the_last_come_with_it() {
    let key = SortKey { column: Place::FromStart(0), is_descending: false, nulls_first: false, is_c_collated: false };
    let merge = RowMerge { keys: vec![key], has_ties: true, ..RowMerge::default() };
    let merged = |skip: u64, take: Option<u64>| {
        let gathering = Gathering { merge: &merge, skip, take };
        let mut merger = Merger::new(&gathering, &[INT8], 2, false).unwrap();
        let mut sources = [vec!["1", "2", "2", "5"], vec!["1", "2", "3"]].map(Vec::into_iter);
        let mut found = Vec::new();
        loop {
            while let Some(at) = merger.needs() {
                match sources[at].next() {
                    Some(cell) => merger.push(at, &body(&[Some(cell)])).unwrap(),
                    None => merger.finish(at),
                }
            }
            match merger.pop().unwrap() {
                Some(row) => found.push(row[6..].to_vec()),
                None if merger.is_done() => break,
                None => {}
            }
        }
        String::from_utf8(found.concat()).unwrap()
    };
    assert_eq!(merged(0, Some(0)), "");
    assert_eq!(merged(0, Some(1)), "11");
    assert_eq!(merged(0, Some(2)), "11");
    assert_eq!(merged(0, Some(3)), "11222");
    assert_eq!(merged(3, Some(1)), "22");
    assert_eq!(merged(0, Some(6)), "112223");
    assert_eq!(merged(0, Some(7)), "1122235");
    assert_eq!(merged(0, Some(70)), "1122235");
    assert_eq!(merged(1, None), "122235");
}

#[test]
fn characters_are_compared_without_blanks_at_their_end() {
    let merge = RowMerge { aggregates: vec![Aggregate::Min, Aggregate::Max], ..RowMerge::default() };
    let gathering = Gathering { merge: &merge, skip: 0, take: None };
    assert!(Merger::new(&gathering, &[CHARACTER, CHARACTER], 2, false).is_err());
    let mut merger = Merger::new(&gathering, &[CHARACTER, CHARACTER], 2, true).unwrap();
    for (source, cells) in [["b   ", "b\t  "], ["a   ", "b   "]].into_iter().enumerate() {
        merger.push(source, &body(&cells.map(Some))).unwrap();
        merger.finish(source);
    }
    assert_eq!(merger.pop().unwrap().unwrap(), body(&[Some("a   "), Some("b\t  ")]));
}

#[test]
fn having_keeps_groups_of_which_it_is_true() {
    use Comparison::{Equal, Greater, NotEqual};
    let compare =
        |comparison, number| Condition::Compare(Operand::Column(0), comparison, Operand::number(number).unwrap());
    let not = |condition| Condition::Not(Box::new(condition));
    let is_set = Condition::Column(1);
    let cases: [(Condition, &[&str]); 8] = [
        (compare(Greater, "1.5"), &["2", "10"]),
        (compare(NotEqual, "1.0"), &["2", "10"]),
        (not(compare(Equal, "1")), &["2", "10"]),
        (Condition::IsNull(0), &["NULL"]),
        (not(Condition::IsNull(0)), &["1", "2", "10"]),
        (is_set.clone(), &["1", "NULL"]),
        // NULL and false is false; NULL or true is true.
        (not(Condition::All(vec![compare(Equal, "2"), is_set.clone()])), &["1", "10"]),
        (Condition::Any(vec![compare(Equal, "2"), is_set]), &["1", "2", "NULL"]),
    ];
    for (condition, expected) in cases {
        let merge = RowMerge {
            aggregates: vec![Aggregate::Group, Aggregate::Max],
            having: Some(Having(condition.clone())),
            ..RowMerge::default()
        };
        let gathering = Gathering { merge: &merge, skip: 0, take: None };
        let boolean = Field { oid: 16, is_binary: false };
        let mut merger = Merger::new(&gathering, &[INT8, boolean], 1, true).unwrap();
        let rows = [(Some("1"), Some("t")), (Some("2"), None), (Some("10"), Some("f")), (None, Some("t"))];
        let sources = [rows.map(|(number, is_set)| body(&[number, is_set])).to_vec()];
        let found = run(&mut merger, &sources);
        let found: Vec<&str> = found.iter().map(|row| row[0].as_deref().unwrap_or("NULL")).collect();
        assert_eq!(found, expected, "{condition:?}");
    }
}

#[test]
fn having_compares_values_of_one_type_and_floats() {
    use Comparison::{Among, Equal, Greater, LessOrEqual};
    const FLOAT: Field = Field { oid: 701, is_binary: false };
    const REAL: Field = Field { oid: 700, is_binary: false };
    const VARCHAR: Field = Field { oid: 1043, is_binary: false };
    const DATE: Field = Field { oid: 1082, is_binary: false };
    let of_columns = |comparison| Condition::Compare(Operand::Column(1), comparison, Operand::Column(2));
    let beside = |number| Condition::Compare(Operand::Column(1), Greater, Operand::number(number).unwrap());
    let made = |condition: &Condition, fields: [Field; 2], is_c_collated| {
        let merge = RowMerge {
            aggregates: vec![Aggregate::Group, Aggregate::Alike, Aggregate::Alike],
            having: Some(Having(condition.clone())),
            ..RowMerge::default()
        };
        let gathering = Gathering { merge: &merge, skip: 0, take: None };
        Merger::new(&gathering, &[INT8, fields[0], fields[1]], 2, is_c_collated)
    };
    let (most, more) = ("9007199254740992", "9007199254740993");
    let (many, both) = (format!("{most} 1e17 NaN"), format!("{most} {more}"));
    let cases: [(Condition, [Field; 2], &str, &str, &str); 6] = [
        (of_columns(Greater), [TEXT, VARCHAR], "b", "a c B", "c"),
        (of_columns(Equal), [VARCHAR, VARCHAR], "b", "a b B", "b"),
        (of_columns(LessOrEqual), [DATE, DATE], "2024-02-01", "2024-01-31 2024-02-02", "2024-01-31"),
        // 0.1 of `real` is more than 0.1, and beside a bigint both are double precision.
        (beside("0.1"), [REAL, INT8], "0", "0.1 0.09", "0.1"),
        (of_columns(Greater), [FLOAT, INT8], more, &many, "1e17 NaN"),
        (of_columns(Greater), [INT8, NUMERIC], "9007199254740992.5", &both, more),
    ];
    for (condition, fields, constant, values, expected) in cases {
        let row = |(at, value): (usize, &str)| body(&[Some(at.to_string().as_str()), Some(value), Some(constant)]);
        let rows: Vec<Vec<u8>> = values.split(' ').enumerate().map(row).collect();
        let mut merger = made(&condition, fields, true).unwrap();
        let found = run(&mut merger, &[rows, vec![body(&[Some("-1"), None, Some(constant)])]]);
        let found: Vec<&str> = found.iter().map(|row| row[1].as_deref().unwrap()).collect();
        assert_eq!(found.join(" "), expected, "{condition:?}");
    }
    // The order of text is that of the servers, and what is equal is so in every collation.
    assert!(made(&of_columns(Greater), [TEXT, TEXT], false).is_err());
    assert!(made(&of_columns(Equal), [TEXT, TEXT], false).is_ok());
    for fields in [[REAL, REAL], [TEXT, INT8], [DATE, Field { oid: 1114, is_binary: false }], [CHARACTER, CHARACTER]] {
        assert!(made(&of_columns(Equal), fields, true).is_err(), "{fields:?}");
    }
    // PostgreSQL: 0.1::real = 0.1 is false, and 0.1::real IN (0.1, 0.2) true.
    let of_list = Condition::Compare(Operand::Column(1), Among, Operand::number("0.1").unwrap());
    assert_eq!([REAL, FLOAT, NUMERIC].map(|of| made(&of_list, [of, INT8], true).is_ok()), [false, true, true]);
    for (fields, is_known) in [([INT8, FLOAT], false), ([FLOAT, INT8], true), ([TEXT, VARCHAR], true)] {
        assert_eq!(made(&of_columns(Among), fields, false).is_ok(), is_known, "{fields:?}");
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
fn bits_are_put_together_in_either_form() {
    use Aggregate::{BitAnd, BitOr, BitXor};
    let merge = RowMerge { aggregates: vec![BitAnd, BitOr, BitXor, BitOr, BitAnd], ..RowMerge::default() };
    let gathering = Gathering { merge: &merge, skip: 0, take: None };
    let [int2, int4] = [21, 23].map(|oid| Field { oid, is_binary: false });
    let mut merger = Merger::new(&gathering, &[int2, int4, INT8, int4, INT8], 3, true).unwrap();
    let sources = [
        vec![body(&[Some("-2"), Some("5"), Some("7"), None, None])],
        vec![body(&[Some("7"), Some("-8"), Some("2"), Some("4"), None])],
        vec![body(&[Some("15"), None, Some("-1"), Some("2"), None])],
    ];
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(run(&mut merger, &sources), [vec![some("6"), some("-3"), some("-6"), some("6"), None]]);
    let merge = RowMerge { aggregates: vec![BitOr], ..RowMerge::default() };
    let gathering = Gathering { merge: &merge, skip: 0, take: None };
    let mut merger = Merger::new(&gathering, &[Field { is_binary: true, ..int2 }], 2, true).unwrap();
    for (source, number) in [(0, 1_u8), (1, 4)] {
        merger.push(source, &[0, 1, 0, 0, 0, 2, 0x80, number]).unwrap();
        merger.finish(source);
    }
    assert_eq!(merger.pop().unwrap().unwrap(), [0, 1, 0, 0, 0, 2, 0x80, 5]);
    assert!(Merger::new(&gathering, &[Field { oid: 1560, is_binary: false }], 2, true).is_err(), "bit strings");
}

#[test]
fn averages_are_postgresqls() {
    // As PostgreSQL says of these sums and numbers of values.
    for (sum, count, average) in [
        ("5", 2, "2.5000000000000000"),
        ("1", 3, "0.33333333333333333333"),
        ("2", 3, "0.66666666666666666667"),
        ("-2", 3, "-0.66666666666666666667"),
        ("0", 7, "0.00000000000000000000"),
        ("100000", 3, "33333.333333333333"),
        ("20000", 10000, "2.0000000000000000"),
        ("10000", 20000, "0.50000000000000000000"),
        ("123456789012", 7, "17636684144.57142857"),
        ("1.50", 4, "0.37500000000000000000"),
        ("0.0001", 3, "0.000033333333333333333333"),
        ("99.123456789012345678", 2, "49.561728394506172839"),
    ] {
        let quotient = Decimal::parse(sum).unwrap().divided_by(Decimal::from(count)).unwrap();
        assert_eq!(quotient.text(), average, "{sum} / {count}");
    }
    let merge = RowMerge {
        hidden: 2,
        aggregates: vec![Aggregate::Average { sum: 1, count: 2 }, Aggregate::Sum, Aggregate::Count],
        ..RowMerge::default()
    };
    let gathering = Gathering { merge: &merge, skip: 0, take: None };
    for (parts, average) in [
        ([Some("3"), None], Some("3.0000000000000000")),
        ([Some("1"), Some("4")], Some("2.5000000000000000")),
        ([None, None], None),
    ] {
        let mut merger = Merger::new(&gathering, &[NUMERIC, INT8, INT8], 2, true).unwrap();
        let row = |part: &Option<&str>| vec![body(&[*part, *part, Some(if part.is_some() { "1" } else { "0" })])];
        assert_eq!(run(&mut merger, &parts.each_ref().map(row)), [vec![average.map(str::to_owned)]]);
    }
}

#[test]
fn deviations_are_postgresqls() {
    for (number, root) in [
        ("2.0000000000000000", "1.4142135623730950"),
        ("0.50000000000000000000", "0.70710678118654752440"),
        ("1.2500000000000000", "1.1180339887498948"),
        ("100", "10"),
        ("0.0001", "0.0100"),
        ("6", "2"),
        ("7", "3"),
        ("0", "0"),
        ("0.00", "0.00"),
    ] {
        assert_eq!(Decimal::parse(number).unwrap().root().unwrap().text(), root, "{number}");
    }
    // Of two shards: the numbers, sums and sums of squares of their values, and what PostgreSQL says of all of them.
    let cases = [
        (
            [("2", "3", "5"), ("2", "7", "25")],
            ["1.6666666666666667", "1.2909944487358056", "1.2500000000000000", "1.1180339887498948"],
        ),
        (
            [("1", "1", "1"), ("1", "2", "4")],
            ["0.50000000000000000000", "0.70710678118654752440", "0.25000000000000000000", "0.50000000000000000000"],
        ),
        ([("1", "7.50", "56.2500"), ("0", "", "")], ["NULL", "NULL", "0", "0"]),
        ([("2", "3.0", "4.50"), ("1", "1.5", "2.25")], ["0", "0", "0", "0"]),
        ([("0", "", ""), ("0", "", "")], ["NULL"; 4]),
    ];
    for (parts, expected) in cases {
        let of =
            |(is_sample, is_root)| Aggregate::Deviation(Deviation { count: 4, sum: 5, squares: 6, is_sample, is_root });
        let shown = [(true, false), (true, true), (false, false), (false, true)].map(of);
        let aggregates = shown.into_iter().chain([Aggregate::Count, Aggregate::Sum, Aggregate::Sum]).collect();
        let merge = RowMerge { hidden: 3, aggregates, ..RowMerge::default() };
        let gathering = Gathering { merge: &merge, skip: 0, take: None };
        let fields = [NUMERIC, NUMERIC, NUMERIC, NUMERIC, INT8, NUMERIC, NUMERIC];
        let mut merger = Merger::new(&gathering, &fields, 2, true).unwrap();
        let row = |(count, sum, squares): (&'static str, &'static str, &'static str)| {
            let some = |text: &'static str| Some(text).filter(|text| !text.is_empty());
            vec![body(&[Some("1"), Some("1"), Some("1"), Some("1"), Some(count), some(sum), some(squares)])]
        };
        let found = run(&mut merger, &parts.map(row)).remove(0);
        let found: Vec<&str> = found.iter().map(|cell| cell.as_deref().unwrap_or("NULL")).collect();
        assert_eq!(found, expected, "{parts:?}");
    }
}

#[test]
fn what_has_no_known_order_is_refused_before_rows_come() {
    let merge = RowMerge { keys: vec![key(Place::FromStart(0), false, false)], ..RowMerge::default() };
    let gathering = Gathering { merge: &merge, skip: 0, take: None };
    assert!(Merger::new(&gathering, &[TEXT], 2, false).is_err(), "text without a known collation");
    assert!(Merger::new(&gathering, &[TEXT], 2, true).is_ok());
    assert!(Merger::new(&gathering, &[Field { oid: 114, is_binary: false }], 2, true).is_err(), "json");
    // What is equal and differs in its bytes, and what depends on the order in which it is added.
    let merge = RowMerge { aggregates: vec![Aggregate::Group, Aggregate::Sum], ..RowMerge::default() };
    let groups = Gathering { merge: &merge, skip: 0, take: None };
    let float = Field { oid: 701, is_binary: false };
    for fields in [[float, INT8], [INT8, float], [Field { oid: 1186, is_binary: false }, INT8]] {
        assert!(Merger::new(&groups, &fields, 2, true).is_err(), "{fields:?}");
    }
    for group in [TEXT, NUMERIC, CHARACTER] {
        assert!(Merger::new(&groups, &[group, NUMERIC], 2, false).is_ok(), "{group:?}");
    }
    // A condition on what is no number.
    let having = Condition::Compare(Operand::Column(0), Comparison::Less, Operand::Column(1));
    let merge = RowMerge { having: Some(Having(having)), ..merge };
    let left_out = Gathering { merge: &merge, skip: 0, take: None };
    assert!(Merger::new(&left_out, &[TEXT, INT8], 2, true).is_err());
    assert!(Merger::new(&left_out, &[NUMERIC, INT8], 2, true).is_ok());
    let broken = Merger::new(&gathering, &[INT8], 2, false).unwrap().push(0, &[0, 1, 0, 0, 0, 9, b'1']);
    assert_eq!(broken.unwrap_err().code(), ashlar_base::ErrorCode::ProtocolViolation);
}
