//! `copy-in`: rows of four columns, put by COPY into an empty table with a primary key. A query is one COPY of all rows, or one by each of
//! several connections at once, of rows that follow each other; the table is emptied before each.
//!
//! ```text
//! id bigint primary key | a bigint, below a million | b double precision, below ten thousand | c text
//! 42                    | 707312                    | 4711.042                               | name-66113
//! ```

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::panic::resume_unwind;

use anyhow::{Context, Result};
use serde_json::Value;

use super::sizes::Sizes;
use super::tables::{Table, drop_all, fill};
use super::{Place, Progress, Workload};
use crate::door::pg::PgClient;
use crate::load::{Answer, Caller};
use crate::numbers::{Numbers, mix};

/// Their table.
pub(super) const TABLE: &str = "ashlar_lab_four";

/// Its columns.
const COLUMNS: &str = "id bigint PRIMARY KEY, a bigint, b double precision, c text";

/// The only query.
const QUERY: &str = "copy";

/// Bytes of a message of COPY.
const PIECE_BYTES: usize = 64 * 1024;

/// The column `a` of a row.
pub(super) fn a_of(id: u64) -> u64 {
    mix(id) % 1_000_000
}

/// Appends a line of COPY's text form.
fn line(id: u64, out: &mut Vec<u8>) {
    let (b, c) = (mix(id ^ 1 << 62) % 10_000_000, mix(id ^ 1 << 63) % 100_000);
    // Writing to a vector cannot fail.
    let _ = writeln!(out, "{id}\t{}\t{}.{:03}\tname-{c}", a_of(id), b / 1000, b % 1000);
}

/// The table with so many rows.
pub(super) fn table(rows: u64) -> Table {
    Table { name: TABLE, columns: COLUMNS.to_owned(), key: "id", is_small: false, rows, line: Box::new(line) }
}

struct Copy {
    rows: u64,
    connections: u32,
}

pub(super) fn workload(sizes: &Sizes) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Copy { rows: sizes.rows.unwrap_or(1_000_000), connections: sizes.connections.unwrap_or(1) }))
}

/// What one of the connections puts there.
struct Part {
    client: PgClient,
    /// Its lines, made beforehand: making a line takes as long as some servers need for it.
    lines: Vec<u8>,
    rows: u64,
}

impl Part {
    fn new(place: Place, ids: Range<u64>) -> Result<Self> {
        let mut lines = Vec::new();
        ids.clone().for_each(|id| line(id, &mut lines));
        Ok(Self { client: PgClient::connect(place.address)?, lines, rows: ids.end - ids.start })
    }

    /// Puts all of them there; the tag of its COPY.
    fn copy(&mut self) -> Result<String> {
        let mut pieces = self.lines.chunks(PIECE_BYTES);
        self.client.copy_in(&format!("COPY {TABLE} FROM STDIN"), &mut |out| {
            out.extend_from_slice(pieces.next().unwrap_or_default());
            pieces.len() > 0
        })
    }
}

/// The rows of each of some connections.
fn parts(rows: u64, connections: u32) -> impl Iterator<Item = Range<u64>> {
    let connections = u64::from(connections);
    (0..connections).map(move |part| part * rows / connections..(part + 1) * rows / connections)
}

impl Workload for Copy {
    fn prepare(&self, place: Place, progress: Progress<'_>) -> Result<()> {
        fill(&mut PgClient::connect(place.address)?, place, &[table(0)], progress)
    }

    fn caller(&self, _place: Place, _numbers: Numbers) -> Result<Box<dyn Caller>> {
        anyhow::bail!("copy-in is measured by its query")
    }

    fn queries(&self) -> Vec<String> {
        vec![QUERY.to_owned()]
    }

    fn query_caller(&self, place: Place, _query: &str) -> Result<Box<dyn Caller>> {
        let mut parts = parts(self.rows, self.connections);
        let first = Part::new(place, parts.next().context("no connection")?)?;
        let others = parts.map(|ids| Part::new(place, ids)).collect::<Result<Vec<_>>>()?;
        let sum = (0..self.rows).map(a_of).sum();
        Ok(Box::new(CopyCaller { first, others, rows: self.rows, sum, emptied: Ok(()), tags: Vec::new() }))
    }

    fn clear(&self, place: Place) -> Result<()> {
        drop_all(&mut PgClient::connect(place.address)?, place, &[table(0)])
    }

    fn parameters(&self) -> BTreeMap<String, Value> {
        BTreeMap::from([("rows".to_owned(), self.rows.into()), ("connections".to_owned(), self.connections.into())])
    }
}

struct CopyCaller {
    first: Part,
    /// Each on a thread of its own.
    others: Vec<Part>,
    rows: u64,
    /// Of the column `a`.
    sum: u64,
    /// Whether the table could be emptied.
    emptied: Result<()>,
    /// Of each connection's COPY.
    tags: Vec<String>,
}

impl Caller for CopyCaller {
    fn make(&mut self) {
        self.emptied = self.first.client.query(&format!("TRUNCATE {TABLE}")).map(drop);
    }

    fn call(&mut self, came: &mut dyn FnMut()) -> Result<()> {
        std::mem::replace(&mut self.emptied, Ok(())).context("emptying the table")?;
        let Self { first, others, .. } = self;
        self.tags = std::thread::scope(|scope| {
            let loading: Vec<_> = others.iter_mut().map(|part| scope.spawn(move || part.copy())).collect();
            let first = first.copy();
            let others = loading.into_iter().map(|one| match one.join() {
                Ok(tag) => tag,
                Err(panic) => resume_unwind(panic),
            });
            std::iter::once(first).chain(others).collect::<Result<Vec<String>>>()
        })?;
        came();
        Ok(())
    }

    fn judge(&mut self, judged: &mut dyn FnMut(Answer)) {
        let tags = std::mem::take(&mut self.tags);
        if tags.is_empty() {
            return;
        }
        let parts = std::iter::once(&self.first).chain(&self.others);
        let expected: Vec<String> = parts.map(|part| format!("COPY {}", part.rows)).collect();
        let fault =
            if tags == expected { self.stored_fault() } else { Some(format!("{tags:?} instead of {expected:?}")) };
        judged(fault.map_or(Answer::Right, Answer::Wrong));
    }
}

impl CopyCaller {
    /// What is wrong with what is there.
    fn stored_fault(&mut self) -> Option<String> {
        let expected = vec![vec![self.rows.to_string(), self.sum.to_string()]];
        match self.first.client.query(&format!("SELECT count(*), sum(a) FROM {TABLE}")) {
            Ok(found) if found == expected => None,
            Ok(found) => Some(format!("rows and their sum are {found:?} instead of {expected:?}")),
            Err(error) => Some(format!("what was copied cannot be read: {error:#}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_put_by_one_connection() {
        let bounds = |rows, connections| -> Vec<(u64, u64)> {
            parts(rows, connections).map(|ids| (ids.start, ids.end)).collect()
        };
        assert_eq!(bounds(10, 1), [(0, 10)]);
        assert_eq!(bounds(10, 4), [(0, 2), (2, 5), (5, 7), (7, 10)]);
        assert_eq!(bounds(1, 3), [(0, 0), (0, 0), (0, 1)]);
    }

    #[test]
    fn a_line_has_four_columns() {
        let mut bytes = Vec::new();
        line(42, &mut bytes);
        let text = String::from_utf8(bytes).unwrap();
        let columns: Vec<&str> = text.trim_end().split('\t').collect();
        assert_eq!(columns[..2], ["42", &a_of(42).to_string()]);
        assert!(columns[2].parse::<f64>().unwrap() < 10_000.0 && columns[3].starts_with("name-"), "{text}");
        assert_eq!(columns.len(), 4);
    }
}
