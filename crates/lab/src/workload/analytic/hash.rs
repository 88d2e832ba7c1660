//! `hash-build` and `hash-probe`: what a hash table costs under GROUP BY and under a join, by the tables and queries with which Impala
//! measured its own (the change IMPALA-7635, and what its authors wrote of it): a billion rows of sales of thirty million items
//! there, as many as the flags say here.
//!
//! ```text
//! ashlar_lab_sales(s_item_id integer, s_quantity integer, s_date date)      ashlar_lab_items(i_item_id integer, i_price double)
//! ```
//!
//! Every value follows from the number of its row, so that the answers are known. Prices are quarters, and their sums exact in
//! binary fractions, in whatever order somebody adds them up.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::OnceLock;

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use super::super::sizes::{Ids, Sizes};
use super::{Lines, Query, Questions, Table};
use crate::door::text::Rows;
use crate::numbers::mix;

const SALES: &str = "ashlar_lab_sales";
const ITEMS: &str = "ashlar_lab_items";

const SALES_COLUMNS: &[(&str, &str)] = &[("s_item_id", "integer"), ("s_quantity", "integer"), ("s_date", "date")];
const ITEMS_COLUMNS: &[(&str, &str)] = &[("i_item_id", "integer"), ("i_price", "double precision")];

/// More than any group has: Impala's own number.
const NO_GROUP: u64 = 9_999_999_999;

/// Quantities and prices are at most so many, the latter in quarters.
const QUANTITY_MAX: u64 = 100;
const PRICE_QUARTERS_MAX: u64 = 400;

/// Days from the first of 2020 on that sales have: four years, the leap day among them.
const DAYS: u64 = 1461;

/// The queries of a join: with a value of the smaller table, and without, where its keys are all that is needed of it.
const JOIN: &str = "join";
const COUNT: &str = "count";

/// What the rows of sales and of items draw their numbers from, each column another.
const SEED_ID: u64 = 1;
const SEED_QUANTITY: u64 = 2;
const SEED_DATE: u64 = 3;
const SEED_PRICE: u64 = 4;
const SEED_ORDER: u64 = 5;
/// After the rounds of the one before.
const SEED_EVEN_ORDER: u64 = SEED_ORDER + ROUNDS;

/// Rounds of a shuffle.
const ROUNDS: u64 = 4;

/// A number of a row, below `limit`.
pub(super) fn drawn(seed: u64, row: u64, limit: u64) -> u64 {
    ((u128::from(mix(mix(seed) ^ row)) * u128::from(limit)) >> 64) as u64
}

/// An id of the data as it is written.
fn written(ids: Ids, id: u64) -> i32 {
    match ids {
        Ids::Dense => id as i32,
        Ids::Hashed => scattered(id as u32).cast_signed(),
        Ids::Reversed => (id as u32).reverse_bits().cast_signed(),
    }
}

/// A permutation of the 32-bit numbers: the last step of MurmurHash3 (Austin Appleby, public domain).
fn scattered(mut number: u32) -> u32 {
    number = (number ^ (number >> 16)).wrapping_mul(0x85eb_ca6b);
    number = (number ^ (number >> 13)).wrapping_mul(0xc2b2_ae35);
    number ^ (number >> 16)
}

/// The order of rows: a permutation of the numbers below a limit that needs no memory. Four rounds of Feistel's network over the next
/// power of four, and again where the outcome is too large.
#[derive(Clone, Copy)]
struct Shuffle {
    limit: u64,
    half_bits: u32,
    seed: u64,
}

impl Shuffle {
    fn of(limit: u64, seed: u64) -> Self {
        let bits = u64::BITS - limit.saturating_sub(1).leading_zeros();
        Self { limit, half_bits: bits.div_ceil(2).max(1), seed }
    }

    fn at(self, mut place: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        loop {
            let (mut left, mut right) = (place >> self.half_bits, place & mask);
            for round in 0..ROUNDS {
                (left, right) = (right, left ^ (mix(mix(self.seed + round) ^ right) & mask));
            }
            place = left << self.half_bits | right;
            if place < self.limit {
                return place;
            }
        }
    }
}

/// Ids of which some are unique and the others there several times: of `rows` rows the first `unique` have the ids from 1 on, once each, and
/// then come as many rows of each further id as there are copies; all that in another order.
#[derive(Clone, Copy)]
struct Doubled {
    rows: u64,
    unique: u64,
    copies: u64,
    order: Shuffle,
}

impl Doubled {
    fn of(rows: u64, unique_percent: u32) -> Self {
        let unique = rows * u64::from(unique_percent) / 100;
        Self { rows, unique, copies: 2, order: Shuffle::of(rows, SEED_ORDER) }
    }

    /// Each so many times.
    fn each(rows: u64, copies: u32) -> Self {
        Self { rows, unique: 0, copies: u64::from(copies), order: Shuffle::of(rows, SEED_ORDER) }
    }

    /// How many ids there are; they begin with 1.
    fn ids(self) -> u64 {
        self.unique + (self.rows - self.unique).div_ceil(self.copies)
    }

    /// The id of a row.
    fn id(self, row: u64) -> u64 {
        match self.order.at(row) {
            place if place < self.unique => place + 1,
            place => self.unique + (place - self.unique) / self.copies + 1,
        }
    }
}

/// The ids that sales have.
#[derive(Clone, Copy)]
enum SalesIds {
    /// Each of so many as likely as any other.
    ByChance(u64),
    Doubled(Doubled),
    /// Each of so many in as many rows as any other, or in one more.
    Evenly(u64, Shuffle),
}

impl SalesIds {
    /// So many different ones in a hundred rows, evenly; the order is another than that of the smaller table.
    fn evenly(rows: u64, distinct_percent: u32) -> Self {
        Self::Evenly((rows * u64::from(distinct_percent) / 100).max(1), Shuffle::of(rows, SEED_EVEN_ORDER))
    }

    fn id(self, row: u64) -> u64 {
        match self {
            Self::ByChance(ids) => 1 + drawn(SEED_ID, row, ids),
            Self::Doubled(doubled) => doubled.id(row),
            Self::Evenly(ids, order) => 1 + order.at(row) % ids,
        }
    }

    fn ids(self) -> u64 {
        match self {
            Self::ByChance(ids) | Self::Evenly(ids, _) => ids,
            Self::Doubled(doubled) => doubled.ids(),
        }
    }
}

/// What the answer to the query of groups must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Groups {
    groups: u64,
    rows: u64,
    largest: u64,
    /// Of all rows, the ids as they are written.
    sum_of_ids: i64,
}

/// GROUP BY over sales.
pub(super) struct Build {
    tables: Vec<Table>,
    queries: Vec<Query>,
    rows: u64,
    items: u64,
    unique_percent: Option<u32>,
    distinct_percent: Option<u32>,
    ids: Ids,
    sales: SalesIds,
    expected: OnceLock<Groups>,
}

/// A join of sales with items.
pub(super) struct Probe {
    tables: Vec<Table>,
    queries: Vec<Query>,
    rows: u64,
    unique_percent: u32,
    distinct_percent: Option<u32>,
    duplicates: Option<u32>,
    ids: Ids,
    sales: SalesIds,
    items: Doubled,
    /// The pairs, and of all of them the quantity times the price, in quarters.
    expected: OnceLock<(u64, u64)>,
}

/// Rows of both tables: Impala's ratio, a hundredth of its numbers.
fn counts(sizes: &Sizes) -> Result<(u64, u64)> {
    let rows = sizes.rows.unwrap_or(10_000_000);
    let items = sizes.items.unwrap_or((rows * 3 / 100).max(1));
    ensure!(items <= rows, "--items {items}: no more than the {rows} of --rows");
    Ok((rows, items))
}

fn table(name: &str, columns: &[(&str, &str)], rows: u64) -> Table {
    Table::of(name, columns.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned())).collect(), rows)
}

/// The workload `hash-build`.
pub(super) fn build(sizes: &Sizes) -> Result<Build> {
    let (rows, items) = counts(sizes)?;
    let ids = sizes.ids.unwrap_or_default();
    let sales = match (sizes.unique_percent, sizes.distinct_percent) {
        (None, None) => SalesIds::ByChance(items),
        (Some(percent), None) => SalesIds::Doubled(Doubled::of(rows, percent)),
        (None, Some(percent)) => SalesIds::evenly(rows, percent),
        (Some(_), Some(_)) => bail!(
            "--unique-percent and --distinct-percent both say how often the ids of a table are there: give one of them"
        ),
    };
    let sums = format!(
        "SELECT count(*), sum(n), max(n), sum(n * s_item_id) \
         FROM (SELECT s_item_id, count(*) AS n FROM {SALES} GROUP BY s_item_id) AS g"
    );
    let having = format!("SELECT s_item_id, count(*) FROM {SALES} GROUP BY s_item_id HAVING count(*) > {NO_GROUP}");
    let queries = vec![
        Query { name: "having".to_owned(), sql: having, afterwards: Some(sums.clone()) },
        Query { name: "sums".to_owned(), sql: sums, afterwards: None },
    ];
    let tables = vec![table(SALES, SALES_COLUMNS, rows)];
    let Sizes { unique_percent, distinct_percent, .. } = *sizes;
    let expected = OnceLock::new();
    Ok(Build { tables, queries, rows, items, unique_percent, distinct_percent, ids, sales, expected })
}

/// The workload `hash-probe`.
pub(super) fn probe(sizes: &Sizes) -> Result<Probe> {
    let (rows, items) = counts(sizes)?;
    ensure!(
        sizes.unique_percent.is_none() || sizes.duplicates.is_none(),
        "--duplicates says of all ids what --unique-percent says of some: give one of them"
    );
    let unique_percent = sizes.unique_percent.unwrap_or(if sizes.duplicates.is_some() { 0 } else { 100 });
    let joined = |what: &str| format!("SELECT {what} FROM {SALES} JOIN {ITEMS} ON s_item_id = i_item_id");
    let queries = [(JOIN, joined("count(*), sum(s_quantity * i_price)")), (COUNT, joined("count(*)"))];
    let items_ids = match sizes.duplicates {
        Some(copies) => Doubled::each(items, copies),
        None => Doubled::of(items, unique_percent),
    };
    Ok(Probe {
        tables: vec![table(SALES, SALES_COLUMNS, rows), table(ITEMS, ITEMS_COLUMNS, items)],
        queries: queries.map(|(name, sql)| Query { name: name.to_owned(), sql, afterwards: None }).into(),
        rows,
        unique_percent,
        distinct_percent: sizes.distinct_percent,
        duplicates: sizes.duplicates,
        ids: sizes.ids.unwrap_or_default(),
        sales: match sizes.distinct_percent {
            Some(percent) => SalesIds::evenly(rows, percent),
            None => SalesIds::ByChance(items_ids.ids()),
        },
        items: items_ids,
        expected: OnceLock::new(),
    })
}

/// What the percentage of a flag is in a record.
fn percentage(given: Option<u32>, otherwise: &str) -> Value {
    given.map_or(json!(otherwise), |percent| json!(percent))
}

/// The rows of sales.
fn sales_lines(rows: u64, ids: Ids, sales: SalesIds) -> Lines {
    let days: Vec<String> = days().collect();
    let mut next = 0;
    Box::new(move |out| {
        let row = next;
        next += 1;
        if row < rows {
            let (id, day) = (written(ids, sales.id(row)), &days[drawn(SEED_DATE, row, DAYS) as usize]);
            // Writing to a vector cannot fail.
            let _ = writeln!(out, "{id}\t{}\t{day}", quantity(row));
        }
        row < rows
    })
}

fn quantity(sale: u64) -> u64 {
    1 + drawn(SEED_QUANTITY, sale, QUANTITY_MAX)
}

fn price_quarters(item: u64) -> u64 {
    1 + drawn(SEED_PRICE, item, PRICE_QUARTERS_MAX)
}

/// The days of four years from 2020 on.
fn days() -> impl Iterator<Item = String> {
    let length = |year: u32, month: u32| match month {
        2 if year == 2020 => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let months = (2020..2024).flat_map(|year| (1..=12).map(move |month| (year, month)));
    months
        .flat_map(move |(year, month)| (1..=length(year, month)).map(move |day| format!("{year}-{month:02}-{day:02}")))
}

/// The values of an answer of one row.
pub(super) fn only_row(rows: &Rows) -> Option<Vec<&str>> {
    match (&rows.count, &rows.values[..]) {
        (1, [row]) => Some(row.iter().map(|value| value.as_deref().unwrap_or("NULL")).collect()),
        _ => None,
    }
}

impl Build {
    /// The ids of all rows.
    pub(super) fn keys(&self) -> impl Iterator<Item = u32> {
        (0..self.rows).map(|row| written(self.ids, self.sales.id(row)).cast_unsigned())
    }

    fn expected(&self) -> Groups {
        *self.expected.get_or_init(|| {
            let mut counts = vec![0u32; self.sales.ids() as usize + 1];
            (0..self.rows).for_each(|row| counts[self.sales.id(row) as usize] += 1);
            let there = counts.iter().enumerate().filter(|(_, count)| **count > 0);
            Groups {
                groups: there.clone().count() as u64,
                rows: self.rows,
                largest: u64::from(counts.iter().copied().max().unwrap_or(0)),
                sum_of_ids: there.map(|(id, count)| i64::from(written(self.ids, id as u64)) * i64::from(*count)).sum(),
            }
        })
    }

    fn fault_of_sums(&self, rows: &Rows) -> Option<String> {
        let Groups { groups, rows: sales, largest, sum_of_ids } = self.expected();
        let expected = [groups.to_string(), sales.to_string(), largest.to_string(), sum_of_ids.to_string()];
        let found = only_row(rows);
        (found.as_deref() != Some(&expected.each_ref().map(String::as_str)[..]))
            .then(|| format!("groups, rows, largest group, sum of ids: {found:?} instead of {expected:?}"))
    }
}

impl Questions for Build {
    fn tables(&self) -> &[Table] {
        &self.tables
    }

    fn lines(&self, _table: usize) -> Lines {
        sales_lines(self.rows, self.ids, self.sales)
    }

    fn queries(&self) -> &[Query] {
        &self.queries
    }

    fn fault(&self, query: usize, rows: &Rows) -> Option<String> {
        match self.queries[query].afterwards {
            Some(_) => (rows.count > 0).then(|| format!("{} groups have more than {NO_GROUP} rows", rows.count)),
            None => self.fault_of_sums(rows),
        }
    }

    /// No rows are an answer that says little: whether it groups at all is asked for.
    fn fault_afterwards(&self, _query: usize, rows: &Rows) -> Option<String> {
        self.fault_of_sums(rows)
    }

    fn parameters(&self) -> BTreeMap<String, Value> {
        parameters([
            ("rows", json!(self.rows)),
            ("items", json!(self.items)),
            ("unique_percent", percentage(self.unique_percent, "by chance")),
            ("distinct_percent", percentage(self.distinct_percent, "not said")),
            ("ids", json!(self.ids)),
        ])
    }
}

pub(super) fn parameters<const N: usize>(named: [(&str, Value); N]) -> BTreeMap<String, Value> {
    named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

impl Probe {
    /// The ids of all rows of the smaller table.
    pub(super) fn keys(&self) -> impl Iterator<Item = u32> {
        (0..self.items.rows).map(|item| written(self.ids, self.items.id(item)).cast_unsigned())
    }

    fn expected(&self) -> (u64, u64) {
        *self.expected.get_or_init(|| {
            // Of each id how many items have it, and what they cost together.
            let mut by_id = vec![(0u64, 0u64); self.items.ids().max(self.sales.ids()) as usize + 1];
            for item in 0..self.items.rows {
                let (count, price) = &mut by_id[self.items.id(item) as usize];
                *count += 1;
                *price += price_quarters(item);
            }
            let mut expected = (0, 0);
            for row in 0..self.rows {
                let (count, price) = by_id[self.sales.id(row) as usize];
                expected.0 += count;
                expected.1 += quantity(row) * price;
            }
            expected
        })
    }
}

impl Questions for Probe {
    fn tables(&self) -> &[Table] {
        &self.tables
    }

    fn lines(&self, table: usize) -> Lines {
        if table == 0 {
            return sales_lines(self.rows, self.ids, self.sales);
        }
        let (items, ids, mut next) = (self.items, self.ids, 0);
        Box::new(move |out| {
            let item = next;
            next += 1;
            if item < items.rows {
                let (id, price) = (written(ids, items.id(item)), price_quarters(item) as f64 / 4.0);
                // Writing to a vector cannot fail.
                let _ = writeln!(out, "{id}\t{price}");
            }
            item < items.rows
        })
    }

    fn queries(&self) -> &[Query] {
        &self.queries
    }

    fn fault(&self, query: usize, rows: &Rows) -> Option<String> {
        let (pairs, quarters) = self.expected();
        // Exact: it has fewer than 53 bits.
        let revenue = quarters as f64 / 4.0;
        let found = only_row(rows);
        let right = match (self.queries[query].name.as_str(), found.as_deref()) {
            (JOIN, Some([count, sum])) => *count == pairs.to_string() && sum.parse() == Ok(revenue),
            (COUNT, Some([count])) => *count == pairs.to_string(),
            _ => false,
        };
        (!right).then(|| format!("pairs, revenue: {found:?} instead of {pairs}, {revenue}"))
    }

    fn parameters(&self) -> BTreeMap<String, Value> {
        parameters([
            ("rows", json!(self.rows)),
            ("items", json!(self.items.rows)),
            ("unique_percent", json!(self.unique_percent)),
            ("distinct_percent", percentage(self.distinct_percent, "by chance")),
            ("ids", json!(self.ids)),
            ("duplicates", json!(self.duplicates.unwrap_or(1))),
        ])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn sizes(rows: u64, items: u64, unique_percent: Option<u32>, ids: Ids) -> Sizes {
        Sizes { rows: Some(rows), items: Some(items), unique_percent, ids: Some(ids), ..Sizes::default() }
    }

    /// The fields of all lines.
    fn lines(questions: &dyn Questions, table: usize) -> Vec<Vec<String>> {
        let (mut lines, mut bytes) = (questions.lines(table), Vec::new());
        while lines(&mut bytes) {}
        let text = String::from_utf8(bytes).unwrap();
        text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    }

    fn answer(values: &[String]) -> Rows {
        Rows { count: 1, values: vec![values.iter().cloned().map(Some).collect()] }
    }

    #[test]
    fn a_shuffle_has_each_number_once() {
        for limit in [1, 2, 5, 64, 1000] {
            let mut all: Vec<u64> = (0..limit).map(|place| Shuffle::of(limit, SEED_ORDER).at(place)).collect();
            assert!(
                limit < 64 || all.iter().zip(1..).filter(|(at, next)| **at + 1 == *next).count() < limit as usize / 8
            );
            all.sort_unstable();
            assert!(all.into_iter().eq(0..limit), "{limit}");
        }
    }

    #[test]
    fn some_ids_are_unique_and_the_others_there_twice() {
        for (rows, percent, once, twice) in [(100, 100, 100, 0), (100, 60, 60, 20), (100, 0, 0, 50), (101, 60, 61, 20)]
        {
            let doubled = Doubled::of(rows, percent);
            let mut counts: HashMap<u64, u64> = HashMap::new();
            (0..rows).for_each(|row| *counts.entry(doubled.id(row)).or_default() += 1);
            let with = |wanted: u64| counts.values().filter(|count| **count == wanted).count();
            assert_eq!((with(1), with(2)), (once, twice), "{rows} {percent}");
            assert_eq!(counts.len() as u64, doubled.ids());
            assert!(counts.keys().all(|id| (1..=doubled.ids()).contains(id)));
        }
    }

    #[test]
    fn ids_may_be_so_many_of_a_hundred_rows_each_as_often_as_any_other() {
        for (rows, percent, ids) in [(1000, 30, 300), (1000, 100, 1000), (1003, 60, 601), (7, 5, 1)] {
            let sales = SalesIds::evenly(rows, percent);
            let mut counts: HashMap<u64, u64> = HashMap::new();
            (0..rows).for_each(|row| *counts.entry(sales.id(row)).or_default() += 1);
            assert_eq!((sales.ids(), counts.len() as u64), (ids, ids), "{rows} {percent}");
            let often = rows / ids;
            assert!(counts.iter().all(|(id, count)| (1..=ids).contains(id) && (often..=often + 1).contains(count)));
        }
        let given = Sizes { distinct_percent: Some(30), ..sizes(1000, 30, None, Ids::Hashed) };
        let evenly = build(&given).unwrap();
        assert_eq!((evenly.expected().groups, evenly.expected().largest), (300, 4));
        assert_eq!(evenly.parameters()["distinct_percent"], json!(30));
        let both = Sizes { unique_percent: Some(30), ..given };
        assert!(build(&both).err().unwrap().to_string().contains("give one of them"));
    }

    #[test]
    fn days_are_four_years() {
        let days: Vec<String> = days().collect();
        assert_eq!(days.len() as u64, DAYS);
        assert_eq!((&days[0][..], &days[59][..], &days[1460][..]), ("2020-01-01", "2020-02-29", "2023-12-31"));
    }

    #[test]
    fn hashed_ids_are_as_many_and_far_apart() {
        let mut hashed: Vec<i32> = (1..=10_000).map(|id| written(Ids::Hashed, id)).collect();
        hashed.sort_unstable();
        hashed.dedup();
        assert_eq!(hashed.len(), 10_000);
        assert!(hashed[0] < -2_000_000_000 && hashed[9_999] > 2_000_000_000);
        assert_eq!(written(Ids::Dense, 7), 7);
        assert_eq!((written(Ids::Reversed, 1), written(Ids::Reversed, 2)), (i32::MIN, 1 << 30));
    }

    #[test]
    fn groups_are_those_of_the_rows() {
        for (unique, ids) in [(None, Ids::Dense), (Some(30), Ids::Dense), (Some(60), Ids::Hashed)] {
            let build = build(&sizes(1000, 30, unique, ids)).unwrap();
            let mut counts: HashMap<i64, i64> = HashMap::new();
            let rows = lines(&build, 0);
            rows.iter().for_each(|row| *counts.entry(row[0].parse().unwrap()).or_default() += 1);
            let sum: i64 = counts.iter().map(|(id, count)| id * count).sum();
            let largest = counts.values().max().unwrap();
            let right = [counts.len().to_string(), rows.len().to_string(), largest.to_string(), sum.to_string()];
            assert_eq!(build.fault(1, &answer(&right)), None);
            assert_eq!(build.fault_afterwards(0, &answer(&right)), None);
            for place in 0..4 {
                let mut wrong = right.clone();
                wrong[place].push('1');
                assert!(build.fault(1, &answer(&wrong)).unwrap().contains("instead of"));
            }
            assert!(build.fault(1, &Rows::default()).is_some());
            // Impala's query has no rows.
            assert_eq!(build.fault(0, &Rows::default()), None);
            assert!(build.fault(0, &answer(&right)).is_some());
            assert!(rows.iter().all(|row| (1..=100).contains(&row[1].parse::<u64>().unwrap()) && row[2].len() == 10));
        }
    }

    #[test]
    fn a_join_is_that_of_the_rows() {
        for (unique, ids) in [(None, Ids::Dense), (Some(20), Ids::Hashed)] {
            let probe = probe(&sizes(2000, 90, unique, ids)).unwrap();
            let (sales, items) = (lines(&probe, 0), lines(&probe, 1));
            assert_eq!((sales.len(), items.len()), (2000, 90));
            let (mut pairs, mut revenue) = (0, 0.0);
            for sale in &sales {
                for item in items.iter().filter(|item| item[0] == sale[0]) {
                    pairs += 1;
                    revenue += sale[1].parse::<f64>().unwrap() * item[1].parse::<f64>().unwrap();
                }
            }
            // Every sale has its item, and some have two.
            assert!(if unique.is_none() { pairs == 2000 } else { pairs > 3000 }, "{pairs}");
            assert_eq!(probe.fault(0, &answer(&[pairs.to_string(), format!("{revenue:e}")])), None);
            assert_eq!(probe.fault(1, &answer(&[pairs.to_string()])), None);
            assert!(probe.fault(1, &answer(&[(pairs + 1).to_string()])).is_some());
            assert!(probe.fault(0, &answer(&[pairs.to_string()])).is_some());
            assert!(probe.fault(0, &answer(&[pairs.to_string(), (revenue + 0.25).to_string()])).is_some());
            assert!(probe.fault(0, &answer(&[(pairs + 1).to_string(), revenue.to_string()])).is_some());
        }
    }

    #[test]
    fn items_may_have_each_id_several_times() {
        let wanted = Sizes { duplicates: Some(4), ..sizes(2000, 92, None, Ids::Hashed) };
        let probe = probe(&wanted).unwrap();
        let mut counts: HashMap<String, u64> = HashMap::new();
        lines(&probe, 1).into_iter().for_each(|item| *counts.entry(item[0].clone()).or_default() += 1);
        assert!(counts.len() == 23 && counts.values().all(|count| *count == 4), "{counts:?}");
        assert_eq!((probe.parameters()["duplicates"].clone(), probe.expected().0), (json!(4), 8000));
        assert!(super::probe(&Sizes { unique_percent: Some(5), ..wanted }).is_err());
    }

    #[test]
    fn both_sides_may_have_each_id_several_times() {
        let wanted = Sizes { duplicates: Some(4), distinct_percent: Some(25), ..sizes(400, 400, None, Ids::Hashed) };
        let probe = probe(&wanted).unwrap();
        for table in [0, 1] {
            let mut counts: HashMap<String, u64> = HashMap::new();
            lines(&probe, table).into_iter().for_each(|row| *counts.entry(row[0].clone()).or_default() += 1);
            assert!(counts.len() == 100 && counts.values().all(|count| *count == 4), "{counts:?}");
        }
        assert_eq!(probe.expected().0, 1600);
        let keys: Vec<String> = probe.keys().map(|key| key.cast_signed().to_string()).collect();
        assert_eq!(keys, lines(&probe, 1).into_iter().map(|mut row| row.swap_remove(0)).collect::<Vec<_>>());
        // Rows whose id nothing has on the other side come to nothing.
        let half = super::probe(&Sizes { distinct_percent: Some(50), ..wanted }).unwrap();
        assert_eq!(half.expected().0, 800);
    }

    #[test]
    fn more_items_than_sales_are_refused() {
        let refusal = build(&sizes(10, 11, None, Ids::Dense)).err().unwrap().to_string();
        assert!(refusal.contains("no more than the 10 of --rows"), "{refusal}");
    }
}
