//! `tpch`: the 22 queries of TPC-H with the parameters of its validation run, over the rows that the crate `tpchgen` makes.
//!
//! Tables and queries are those of `tests/slt/tpch`, which has the answers of a real PostgreSQL at scale factor 0.1. At any
//! other the first answer of a run is what all others are compared with, row by row: targets must agree.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Write;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};

use super::super::sizes::Sizes;
use super::answers::{FirstAnswers, Kind, difference};
use super::{Lines, Query, Questions, Table};
use crate::door::text::Rows;

/// The scale factors that it has; one is about a gigabyte.
const SCALE_MIN: f64 = 0.001;
const SCALE_MAX: f64 = 100.0;

/// The scale factor that answers are stored for.
const STORED: f64 = 0.1;

macro_rules! file {
    ($name:literal) => {
        include_str!(concat!("../../../../../tests/slt/tpch/", $name, ".slt"))
    };
}

const SCHEMA: &str = file!("schema");

const QUERIES: [(&str, &str); 22] = [
    ("q01", file!("q01")),
    ("q02", file!("q02")),
    ("q03", file!("q03")),
    ("q04", file!("q04")),
    ("q05", file!("q05")),
    ("q06", file!("q06")),
    ("q07", file!("q07")),
    ("q08", file!("q08")),
    ("q09", file!("q09")),
    ("q10", file!("q10")),
    ("q11", file!("q11")),
    ("q12", file!("q12")),
    ("q13", file!("q13")),
    ("q14", file!("q14")),
    ("q15", file!("q15")),
    ("q16", file!("q16")),
    ("q17", file!("q17")),
    ("q18", file!("q18")),
    ("q19", file!("q19")),
    ("q20", file!("q20")),
    ("q21", file!("q21")),
    ("q22", file!("q22")),
];

/// What query 11 takes part in, at the scale factor that answers are stored for: its fraction is 0.0001 by the scale factor.
const FRACTION_Q11: &str = "* 0.001";

/// Without it two of the correlated subqueries take PostgreSQL minutes.
const ON_POSTGRES: &[&str] = &["CREATE INDEX ON lineitem (l_partkey, l_suppkey)"];

/// Of a query, what its file says of its answer.
struct Stored {
    kinds: Vec<Kind>,
    rows: Vec<Vec<Option<String>>>,
}

pub(super) struct Tpch {
    scale: f64,
    tables: Vec<Table>,
    queries: Vec<Query>,
    stored: Vec<Stored>,
    first: FirstAnswers,
}

/// The workload.
pub(super) fn tpch(sizes: &Sizes) -> Result<Tpch> {
    let scale = sizes.scale.unwrap_or(STORED);
    ensure!((SCALE_MIN..=SCALE_MAX).contains(&scale), "--scale {scale}: tpch has one from {SCALE_MIN} to {SCALE_MAX}");
    let (mut queries, mut stored) = (Vec::new(), Vec::new());
    for (name, file) in QUERIES {
        let (sql, answer) = read_query(file).with_context(|| format!("the file of {name}"))?;
        let sql = if name == "q11" { sql.replace(FRACTION_Q11, &format!("* {}", 0.0001 / scale)) } else { sql };
        queries.push(Query { name: name.to_owned(), sql, afterwards: None });
        stored.push(answer);
    }
    Ok(Tpch { scale, tables: read_schema(scale)?, queries, stored, first: FirstAnswers::default() })
}

/// The statement and the answer of a file with one query.
fn read_query(file: &str) -> Result<(String, Stored)> {
    let (_, rest) = file.split_once("\nquery ").context("there is no query")?;
    let (kinds, rest) = rest.split_once('\n').context("the query ends")?;
    let (sql, answer) = rest.split_once("\n----\n").context("there is no answer")?;
    let rows = answer.lines().filter(|line| !line.is_empty());
    let rows = rows.map(|line| line.split('\t').map(|value| (value != "NULL").then(|| value.to_owned())).collect());
    let kinds = Kind::read(kinds).context("the kinds of the columns")?;
    Ok((sql.to_owned(), Stored { kinds, rows: rows.collect() }))
}

/// The tables of the file with all of them.
fn read_schema(scale: f64) -> Result<Vec<Table>> {
    let mut tables = Vec::new();
    for statement in SCHEMA.split("create table ").skip(1) {
        let (statement, _) = statement.split_once("\n)").context("a table that ends")?;
        let (name, columns) = statement.split_once(" (\n").context("a table with columns")?;
        let mut read = Vec::new();
        for line in columns.lines().map(|line| line.trim().trim_end_matches(',')) {
            let Some((column, kind)) = line.split_once(' ').filter(|(first, _)| *first != "primary") else {
                continue;
            };
            let kind = kind.trim_end_matches(" primary key").trim_end_matches(" not null");
            read.push((column.to_owned(), kind.to_owned()));
        }
        let rows = rows_at_one(name).with_context(|| format!("a table {name}"))?;
        let rows = if matches!(name, "region" | "nation") { rows } else { (rows as f64 * scale) as u64 };
        let definition = format!("({columns})");
        tables.push(Table { name: name.to_owned(), columns: read, definition, rows });
    }
    Ok(tables)
}

/// About how many rows a table has at scale factor 1.
fn rows_at_one(table: &str) -> Option<u64> {
    Some(match table {
        "region" => 5,
        "nation" => 25,
        "supplier" => 10_000,
        "customer" => 150_000,
        "part" => 200_000,
        "partsupp" => 800_000,
        "orders" => 1_500_000,
        "lineitem" => 6_001_215,
        _ => return None,
    })
}

/// Rows in the generator's own form, which ends every field with `|`; no value has a `|`, a tab or a backslash in it.
fn lines<T: Display>(mut rows: impl Iterator<Item = T> + 'static) -> Lines {
    Box::new(move |out| {
        let Some(row) = rows.next() else {
            return false;
        };
        let start = out.len();
        // Writing to a vector cannot fail.
        let _ = write!(out, "{row}");
        if out.last() == Some(&b'|') {
            out.pop();
        }
        out[start..].iter_mut().filter(|byte| **byte == b'|').for_each(|byte| *byte = b'\t');
        out.push(b'\n');
        true
    })
}

impl Tpch {
    fn is_stored(&self) -> bool {
        self.scale == STORED
    }
}

impl Questions for Tpch {
    fn tables(&self) -> &[Table] {
        &self.tables
    }

    fn lines(&self, table: usize) -> Lines {
        let scale = self.scale;
        match &self.tables[table].name[..] {
            "region" => lines(RegionGenerator::default().iter()),
            "nation" => lines(NationGenerator::default().iter()),
            "part" => lines(PartGenerator::new(scale, 1, 1).iter()),
            "supplier" => lines(SupplierGenerator::new(scale, 1, 1).iter()),
            "partsupp" => lines(PartSuppGenerator::new(scale, 1, 1).iter()),
            "customer" => lines(CustomerGenerator::new(scale, 1, 1).iter()),
            "orders" => lines(OrderGenerator::new(scale, 1, 1).iter()),
            // No other table is in the schema: see `rows_at_one`.
            _ => lines(LineItemGenerator::new(scale, 1, 1).iter()),
        }
    }

    fn queries(&self) -> &[Query] {
        &self.queries
    }

    fn fault(&self, query: usize, rows: &Rows) -> Option<String> {
        let Stored { kinds, rows: stored } = &self.stored[query];
        if self.is_stored() {
            return difference(kinds, stored, rows, "as PostgreSQL answered");
        }
        self.first.fault(query, kinds, rows)
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

    fn at(scale: f64) -> Tpch {
        tpch(&Sizes { scale: Some(scale), ..Sizes::default() }).unwrap()
    }

    fn answer(values: &[Vec<Option<String>>]) -> Rows {
        Rows { count: values.len() as u64, values: values.to_vec() }
    }

    #[test]
    fn the_tables_are_those_of_the_schema_and_have_their_rows() {
        let tpch = at(0.01);
        let names: Vec<&str> = tpch.tables().iter().map(|table| &table.name[..]).collect();
        assert_eq!(names, ["region", "nation", "part", "supplier", "partsupp", "customer", "orders", "lineitem"]);
        for (number, table) in tpch.tables().iter().enumerate() {
            let (mut lines, mut line, mut rows) = (tpch.lines(number), Vec::new(), 0u64);
            while lines(&mut line) {
                let fields = line.split(|byte| *byte == b'\t').count();
                assert_eq!(fields, table.columns.len(), "{}: {}", table.name, String::from_utf8_lossy(&line));
                line.clear();
                rows += 1;
            }
            assert!(rows.abs_diff(table.rows) <= rows / 100, "{} has {rows} rows, not {}", table.name, table.rows);
        }
        let columns = &tpch.tables()[7].columns;
        assert_eq!(columns[4], ("l_quantity".to_owned(), "numeric(15,2)".to_owned()));
        assert_eq!(columns[10], ("l_shipdate".to_owned(), "date".to_owned()));
        assert_eq!(columns.len(), 16);
    }

    #[test]
    fn a_stored_answer_is_right_and_another_is_not() {
        let tpch = at(STORED);
        assert_eq!(tpch.queries().len(), 22);
        for query in 0..22 {
            let stored = tpch.stored[query].rows.clone();
            assert!(!stored.is_empty() && stored.iter().all(|row| row.len() == tpch.stored[query].kinds.len()));
            assert_eq!(tpch.fault(query, &answer(&stored)), None);
            assert!(tpch.fault(query, &answer(&stored[1..])).unwrap().contains("as PostgreSQL answered"));
        }
        assert!(tpch.queries()[10].sql.contains("* 0.001\n"), "{}", tpch.queries()[10].sql);
    }

    #[test]
    fn targets_must_agree_where_no_answer_is_stored() {
        let tpch = at(0.01);
        assert!(tpch.queries()[10].sql.contains("* 0.01\n"), "{}", tpch.queries()[10].sql);
        let first = tpch.stored[3].rows.clone();
        assert_eq!(tpch.fault(3, &answer(&first)), None);
        assert_eq!(tpch.fault(3, &answer(&first)), None);
        assert!(tpch.fault(3, &answer(&first[1..])).unwrap().ends_with("as was answered first"));
    }
}
