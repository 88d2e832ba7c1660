//! `tpcds`: the 99 queries of TPC-DS, with the parameters of its validation run, over the rows that the crate `tpcdsgen` makes. Four of
//! them are two statements (14, 23, 24 and 39), and each of those is measured by itself.
//!
//! What differs from the specification's texts: dates are written out, rows are ordered by as many columns as it takes for one
//! order to be right, aliases that an expression of ORDER BY needs stand in a subquery, and
//! nothing is divided by zero, which small scales would. At the scale factor that answers are stored
//! for these are what DuckDB answered; at any other the first answer of a run is what all others are compared with.

mod rows;

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::super::sizes::Sizes;
use super::answers::{FirstAnswers, Kind, difference};
use super::{Lines, Query, Questions, Table};
use crate::door::text::Rows;

/// The scale factors that it has; one is about a gigabyte. Below one, dimensions are smaller than the specification has them.
const SCALE_MIN: f64 = 0.001;
const SCALE_MAX: f64 = 100.0;

/// The scale factor that answers are stored for.
const STORED: f64 = 0.01;

const SCHEMA: &str = include_str!("tpcds/schema.sql");

/// What DuckDB answered: `== name`, then a line for each row, values between tabs, NULL as `\\N`.
const ANSWERS: &str = include_str!("tpcds/answers.txt");

macro_rules! queries {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("tpcds/", $name, ".sql")))),*]
    };
}

#[rustfmt::skip]
const QUERIES: [(&str, &str); 103] = queries![
    "q01", "q02", "q03", "q04", "q05", "q06", "q07", "q08", "q09", "q10", "q11", "q12", "q13", "q14a",
    "q14b", "q15", "q16", "q17", "q18", "q19", "q20", "q21", "q22", "q23a", "q23b", "q24a", "q24b",
    "q25", "q26", "q27", "q28", "q29", "q30", "q31", "q32", "q33", "q34", "q35", "q36", "q37", "q38",
    "q39a", "q39b", "q40", "q41", "q42", "q43", "q44", "q45", "q46", "q47", "q48", "q49", "q50", "q51",
    "q52", "q53", "q54", "q55", "q56", "q57", "q58", "q59", "q60", "q61", "q62", "q63", "q64", "q65",
    "q66", "q67", "q68", "q69", "q70", "q71", "q72", "q73", "q74", "q75", "q76", "q77", "q78", "q79",
    "q80", "q81", "q82", "q83", "q84", "q85", "q86", "q87", "q88", "q89", "q90", "q91", "q92", "q93",
    "q94", "q95", "q96", "q97", "q98", "q99"
];

/// Without these PostgreSQL looks through a table of sales for each row of another.
const ON_POSTGRES: &[&str] = &[
    "CREATE INDEX ON store_sales (ss_customer_sk)",
    "CREATE INDEX ON web_sales (ws_bill_customer_sk)",
    "CREATE INDEX ON web_sales (ws_order_number)",
    "CREATE INDEX ON catalog_sales (cs_ship_customer_sk)",
    "CREATE INDEX ON catalog_sales (cs_order_number)",
];

pub(super) struct Tpcds {
    scale: f64,
    tables: Vec<Table>,
    queries: Vec<Query>,
    /// By query.
    stored: Vec<Vec<Vec<Option<String>>>>,
    first: FirstAnswers,
}

/// The workload.
pub(super) fn tpcds(sizes: &Sizes) -> Result<Tpcds> {
    let scale = sizes.scale.unwrap_or(STORED);
    ensure!((SCALE_MIN..=SCALE_MAX).contains(&scale), "--scale {scale}: tpcds has one from {SCALE_MIN} to {SCALE_MAX}");
    let query =
        |(name, sql): (&str, &str)| Query { name: name.to_owned(), sql: sql.trim_end().to_owned(), afterwards: None };
    let answers = read_answers();
    let stored = QUERIES.iter().map(|(name, _)| {
        let rows = answers.get(name).with_context(|| format!("the answer of {name}"))?;
        Ok(rows
            .lines()
            .map(|row| row.split('\t').map(|value| (value != "\\N").then(|| value.to_owned())).collect())
            .collect())
    });
    Ok(Tpcds {
        scale,
        tables: read_schema(scale)?,
        queries: QUERIES.map(query).into(),
        stored: stored.collect::<Result<_>>()?,
        first: FirstAnswers::default(),
    })
}

/// The rows of each query.
fn read_answers() -> BTreeMap<&'static str, &'static str> {
    let answers = ANSWERS.split("== ").skip(1);
    answers.map(|answer| answer.split_once('\n').unwrap_or((answer, ""))).collect()
}

/// The tables of the file with all of them.
fn read_schema(scale: f64) -> Result<Vec<Table>> {
    let mut tables = Vec::new();
    for statement in SCHEMA.split("create table ").skip(1) {
        let (statement, _) = statement.split_once("\n)").context("a table that ends")?;
        let (name, columns) = statement.split_once(" (\n").context("a table with columns")?;
        let lines = columns.lines().map(|line| line.trim().trim_end_matches(','));
        let read = lines.filter_map(|line| line.split_once(' ').filter(|(first, _)| *first != "primary"));
        let read = read.map(|(column, kind)| (column.to_owned(), kind.trim_end_matches(" primary key").to_owned()));
        tables.push(Table {
            name: name.to_owned(),
            columns: read.collect(),
            definition: format!("({columns})"),
            rows: rows::about(name, scale)?,
        });
    }
    Ok(tables)
}

impl Questions for Tpcds {
    fn tables(&self) -> &[Table] {
        &self.tables
    }

    fn lines(&self, table: usize) -> Lines {
        rows::lines(&self.tables[table].name, self.scale)
    }

    fn queries(&self) -> &[Query] {
        &self.queries
    }

    fn fault(&self, query: usize, rows: &Rows) -> Option<String> {
        let columns = rows.values.first().map_or(0, Vec::len);
        let kinds = vec![Kind::Any; columns];
        if self.scale == STORED {
            return difference(&kinds, &self.stored[query], rows, "as DuckDB answered");
        }
        self.first.fault(query, &kinds, rows)
    }

    fn has_nulls(&self) -> bool {
        true
    }

    fn on_postgres(&self) -> &[&'static str] {
        ON_POSTGRES
    }

    fn parameters(&self) -> BTreeMap<String, Value> {
        BTreeMap::from([("scale".to_owned(), json!(self.scale))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(scale: f64) -> Tpcds {
        tpcds(&Sizes { scale: Some(scale), ..Sizes::default() }).unwrap()
    }

    #[test]
    fn all_queries_are_there_and_have_an_answer() {
        let tpcds = at(STORED);
        let numbers: std::collections::BTreeSet<u32> =
            tpcds.queries().iter().map(|query| query.name[1..3].parse().unwrap()).collect();
        assert_eq!(numbers, (1..=99).collect());
        assert_eq!((tpcds.queries().len(), read_answers().len()), (103, 103));
        let with_rows = tpcds.stored.iter().filter(|rows| !rows.is_empty()).count();
        assert!(with_rows > 60, "of {with_rows} queries there are rows");
        for (query, stored) in tpcds.stored.iter().enumerate() {
            let answer = |values: &[Vec<Option<String>>]| Rows { count: values.len() as u64, values: values.to_vec() };
            assert_eq!(tpcds.fault(query, &answer(stored)), None);
            if !stored.is_empty() {
                assert!(tpcds.fault(query, &answer(&stored[1..])).unwrap().contains("as DuckDB answered"));
            }
        }
    }

    #[test]
    fn the_tables_are_those_of_the_schema_and_have_their_rows() {
        let tpcds = at(0.01);
        assert_eq!(tpcds.tables().len(), 24);
        for (number, table) in tpcds.tables().iter().enumerate() {
            let (mut lines, mut line, mut rows) = (tpcds.lines(number), Vec::new(), 0u64);
            while lines(&mut line) {
                let fields = line.split(|byte| *byte == b'\t').count();
                assert_eq!(fields, table.columns.len(), "{}: {}", table.name, String::from_utf8_lossy(&line));
                line.clear();
                rows += 1;
            }
            assert!(
                rows > 0 && rows.abs_diff(table.rows) <= rows / 5 + 5,
                "{} has {rows} rows, not {}",
                table.name,
                table.rows
            );
        }
        let columns = &tpcds.tables().iter().find(|table| table.name == "item").unwrap().columns;
        assert_eq!(columns[0], ("i_item_sk".to_owned(), "integer".to_owned()));
        assert_eq!(columns[5], ("i_current_price".to_owned(), "numeric(7,2)".to_owned()));
    }
}
