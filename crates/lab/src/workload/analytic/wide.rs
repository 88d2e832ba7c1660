//! `hash-wide`: what rows of many columns, and long texts, cost in joins and under GROUP BY.
//!
//! ```text
//! ashlar_lab_orders(o_item_id integer, o_name text)      ashlar_lab_goods(g_item_id integer, g_name text, g_1 integer, g_2 integer, ...)
//! ```
//!
//! Each order is of a good by chance, and has its name. Names differ in their last bytes only, so that whoever compares two has to read all of
//! both. Every value follows from the number of its row, so that the answers are known.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::OnceLock;

use anyhow::Result;
use serde_json::{Value, json};

use super::super::sizes::Sizes;
use super::hash::{drawn, only_row, parameters};
use super::{Lines, Query, Questions, Table};
use crate::door::text::Rows;

const ORDERS: &str = "ashlar_lab_orders";
const GOODS: &str = "ashlar_lab_goods";

/// The sums of all columns, of a join by numbers; the lengths of names, of the same one; the pairs of one by names; and groups by names.
const COLUMNS: &str = "columns";
const CARRIED: &str = "carried";
const NAMES: &str = "names";
const GROUPS: &str = "groups";

const SEED_ID: u64 = 11;

/// Values of columns are below this.
const VALUES: u64 = 1000;

/// Digits at the end of a name: as many as the largest number of a good has.
const DIGITS: usize = 8;

/// The workload.
pub(super) struct Wide {
    tables: Vec<Table>,
    queries: Vec<Query>,
    rows: u64,
    goods: u64,
    columns: u64,
    name_bytes: usize,
    expected: OnceLock<Expected>,
}

/// What follows from the rows.
struct Expected {
    /// Goods that orders are of, and the orders of that with the most.
    ordered: u64,
    most: u64,
    /// Of each column, over the goods of all orders.
    sums: Vec<u64>,
}

/// The value of a good in a column, from 1 on.
fn value(good: u64, column: u64) -> u64 {
    (good * 7 + column * 31) % VALUES
}

pub(super) fn wide(sizes: &Sizes) -> Result<Wide> {
    let rows = sizes.rows.unwrap_or(100_000);
    let goods = sizes.items.unwrap_or((rows / 2).max(1));
    anyhow::ensure!(
        goods < 10_u64.pow(DIGITS as u32),
        "--items {goods}: fewer than {} here",
        10_u64.pow(DIGITS as u32)
    );
    let columns = u64::from(sizes.payload_columns.unwrap_or(200));
    let name_bytes = sizes.value_bytes.unwrap_or(8) as usize;
    let named = |name: &str, kind: &str| (name.to_owned(), kind.to_owned());
    let payload = (1..=columns).map(|column| (format!("g_{column}"), "integer".to_owned()));
    let tables = [
        (ORDERS, vec![named("o_item_id", "integer"), named("o_name", "text")], rows),
        (GOODS, [named("g_item_id", "integer"), named("g_name", "text")].into_iter().chain(payload).collect(), goods),
    ];
    let sums: String = (1..=columns).map(|column| format!(", sum(g_{column})")).collect();
    let by_number = |what: &str| format!("SELECT count(*){what} FROM {ORDERS} JOIN {GOODS} ON o_item_id = g_item_id");
    let queries = [
        (COLUMNS, by_number(&sums)),
        (CARRIED, by_number(", sum(length(g_name))")),
        (NAMES, format!("SELECT count(*) FROM {ORDERS} JOIN {GOODS} ON o_name = g_name")),
        (
            GROUPS,
            format!("SELECT count(*), max(n) FROM (SELECT o_name, count(*) AS n FROM {ORDERS} GROUP BY o_name) AS g"),
        ),
    ];
    Ok(Wide {
        tables: tables.map(|(name, columns, rows)| Table::of(name, columns, rows)).into(),
        queries: queries.map(|(name, sql)| Query { name: name.to_owned(), sql, afterwards: None }).into(),
        rows,
        goods,
        columns,
        name_bytes,
        expected: OnceLock::new(),
    })
}

/// The good of an order.
fn good_of(order: u64, goods: u64) -> u64 {
    drawn(SEED_ID, order, goods)
}

impl Wide {
    fn expected(&self) -> &Expected {
        self.expected.get_or_init(|| {
            let mut orders = vec![0_u64; self.goods as usize];
            (0..self.rows).for_each(|order| orders[good_of(order, self.goods) as usize] += 1);
            let sum = |column| (0..).zip(&orders).map(|(good, orders)| value(good, column) * orders).sum();
            Expected {
                ordered: orders.iter().filter(|orders| **orders > 0).count() as u64,
                most: orders.iter().copied().max().unwrap_or(0),
                sums: (1..=self.columns).map(sum).collect(),
            }
        })
    }
}

impl Questions for Wide {
    fn tables(&self) -> &[Table] {
        &self.tables
    }

    fn lines(&self, table: usize) -> Lines {
        let filler = vec![b'n'; self.name_bytes.saturating_sub(DIGITS)];
        let (rows, goods, columns, mut next) = (self.rows, self.goods, self.columns, 0);
        Box::new(move |out| {
            let row = next;
            next += 1;
            let (end, good) = if table == 0 { (rows, good_of(row, goods)) } else { (goods, row) };
            if row < end {
                // Writing to a vector cannot fail.
                let _ = write!(out, "{good}\t");
                out.extend_from_slice(&filler);
                let _ = write!(out, "{good:0DIGITS$}");
                for column in 1..=if table == 0 { 0 } else { columns } {
                    let _ = write!(out, "\t{}", value(good, column));
                }
                out.push(b'\n');
            }
            row < end
        })
    }

    fn queries(&self) -> &[Query] {
        &self.queries
    }

    fn fault(&self, query: usize, rows: &Rows) -> Option<String> {
        let Expected { ordered, most, sums } = self.expected();
        let expected = match self.queries[query].name.as_str() {
            COLUMNS => std::iter::once(self.rows).chain(sums.iter().copied()).collect(),
            CARRIED => vec![self.rows, self.rows * self.name_bytes as u64],
            NAMES => vec![self.rows],
            _ => vec![*ordered, *most],
        };
        let found = only_row(rows);
        let is_right = found.as_ref().is_some_and(|found| {
            found.len() == expected.len()
                && found.iter().zip(&expected).all(|(found, wanted)| *found == wanted.to_string())
        });
        (!is_right).then(|| format!("{found:?} instead of {expected:?}"))
    }

    fn parameters(&self) -> BTreeMap<String, Value> {
        parameters([
            ("rows", json!(self.rows)),
            ("items", json!(self.goods)),
            ("payload_columns", json!(self.columns)),
            ("value_bytes", json!(self.name_bytes)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_those_of_the_rows() {
        let sizes = Sizes {
            rows: Some(500),
            items: Some(90),
            payload_columns: Some(3),
            value_bytes: Some(20),
            ..Sizes::default()
        };
        let wide = wide(&sizes).unwrap();
        let all = |table: usize| -> Vec<Vec<String>> {
            let (mut lines, mut bytes) = (wide.lines(table), Vec::new());
            while lines(&mut bytes) {}
            let text = String::from_utf8(bytes).unwrap();
            text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
        };
        let (orders, goods) = (all(0), all(1));
        assert_eq!((orders.len(), goods.len(), goods[0].len()), (500, 90, 5));
        let mut of: BTreeMap<&str, u64> = BTreeMap::new();
        let mut sums = [0_u64; 3];
        for order in &orders {
            let of_order: Vec<&Vec<String>> = goods.iter().filter(|good| good[..2] == order[..]).collect();
            assert!(of_order.len() == 1 && order[1].len() == 20, "{order:?}");
            *of.entry(&order[1]).or_default() += 1;
            (0..3).for_each(|column| sums[column] += of_order[0][2 + column].parse::<u64>().unwrap());
        }
        let answers: [Vec<u64>; 4] = [
            std::iter::once(500).chain(sums).collect(),
            vec![500, 500 * 20],
            vec![500],
            vec![of.len() as u64, *of.values().max().unwrap()],
        ];
        for (query, answer) in answers.iter().enumerate() {
            let rows = |answer: &[u64]| Rows {
                count: 1,
                values: vec![answer.iter().map(|value| Some(value.to_string())).collect()],
            };
            assert_eq!(wide.fault(query, &rows(answer)), None);
            for place in 0..answer.len() {
                let mut wrong = answer.clone();
                wrong[place] += 1;
                assert!(wide.fault(query, &rows(&wrong)).unwrap().contains("instead of"));
            }
            assert!(wide.fault(query, &rows(&answer[1..])).is_some());
        }
    }
}
