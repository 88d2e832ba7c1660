//! The SQL workloads, in Hazelcast's shapes: one prepared statement each, its parameters chosen anew for every execution.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::choose::Choice;
use super::rows::{COLUMNS, Sums, TABLE, label_of, line, value_of};
use super::sizes::{Distribution, Sizes};
use super::{Place, Progress, Workload};
use crate::door::pg::PgClient;
use crate::load::{Answer, Caller};
use crate::numbers::Numbers;

/// Rows between two reports of progress.
const PROGRESS_ROWS: u64 = 10_000;

/// What the statement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Key,
    Update,
    Sum,
    Range,
    Fetch,
}

impl Shape {
    const ALL: [Self; 5] = [Self::Key, Self::Update, Self::Sum, Self::Range, Self::Fetch];

    /// Whose statement this is.
    pub(crate) fn of(statement: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|shape| shape.statement() == statement)
    }

    fn statement(self) -> String {
        match self {
            Self::Key => format!("SELECT value, label FROM {TABLE} WHERE id = $1"),
            Self::Update => format!("UPDATE {TABLE} SET value = $2, label = $3 WHERE id = $1"),
            Self::Sum => format!("SELECT sum(value) FROM {TABLE}"),
            Self::Range => format!("SELECT id, value FROM {TABLE} WHERE id BETWEEN $1 AND $2"),
            Self::Fetch => format!("SELECT id, value, label, numbers FROM {TABLE}"),
        }
    }
}

/// What all connections share.
struct Plan {
    shape: Shape,
    rows: u64,
    range_rows: u64,
    choice: Choice,
    sums: Sums,
}

struct Sql {
    plan: Arc<Plan>,
    distribution: Distribution,
}

pub(super) fn workload(sizes: &Sizes, shape: Shape) -> Result<Box<dyn Workload>> {
    let rows = sizes.rows.unwrap_or(if shape == Shape::Fetch { 100_000 } else { 1_000_000 });
    let range_rows = sizes.range_rows.unwrap_or(10_000.min(rows));
    if range_rows > rows {
        bail!("a range of {range_rows} rows does not fit into {rows}");
    }
    let distribution = sizes.distribution.unwrap_or_default();
    let choice = Choice::of(distribution, rows);
    let summed = match shape {
        Shape::Key | Shape::Update => 0,
        Shape::Sum | Shape::Range | Shape::Fetch => rows,
    };
    Ok(Box::new(Sql { plan: Arc::new(Plan { shape, rows, range_rows, choice, sums: Sums::of(summed) }), distribution }))
}

impl Workload for Sql {
    fn prepare(&self, place: Place, progress: Progress<'_>) -> Result<()> {
        let mut client = PgClient::connect(place.address)?;
        client.query(&format!("DROP TABLE IF EXISTS {TABLE}"))?;
        let unlogged = if place.postgres { "UNLOGGED " } else { "" };
        client.query(&format!("CREATE {unlogged}TABLE {TABLE} ({COLUMNS})"))?;
        let (mut next, mut stopped) = (0, None);
        let tag = client.copy_in(&format!("COPY {TABLE} FROM STDIN"), &mut |out| {
            if next < self.plan.rows && stopped.is_none() {
                line(next, out);
                next += 1;
                if next.is_multiple_of(PROGRESS_ROWS) {
                    stopped = progress(next, self.plan.rows).err();
                }
            }
            next < self.plan.rows && stopped.is_none()
        })?;
        if let Some(reason) = stopped {
            return Err(reason);
        }
        if tag != format!("COPY {}", self.plan.rows) {
            bail!("COPY of {} rows was answered by {tag}", self.plan.rows);
        }
        if place.postgres {
            client.query(&format!("VACUUM ANALYZE {TABLE}"))?;
        }
        Ok(())
    }

    fn caller(&self, address: SocketAddr, numbers: Numbers) -> Result<Box<dyn Caller>> {
        let mut client = PgClient::connect(address)?;
        client.prepare("lab", &self.plan.shape.statement()).context("preparing the statement")?;
        Ok(Box::new(SqlCaller { client, plan: self.plan.clone(), numbers }))
    }

    fn parameters(&self) -> BTreeMap<String, Value> {
        let mut named = BTreeMap::from([("rows".to_owned(), self.plan.rows.into())]);
        match self.plan.shape {
            Shape::Key | Shape::Update => {
                named.insert("distribution".to_owned(), serde_json::json!(self.distribution));
            }
            Shape::Range => {
                named.insert("range_rows".to_owned(), self.plan.range_rows.into());
            }
            Shape::Sum | Shape::Fetch => {}
        }
        named
    }
}

struct SqlCaller {
    client: PgClient,
    plan: Arc<Plan>,
    numbers: Numbers,
}

impl Caller for SqlCaller {
    fn call(&mut self, answered: &mut dyn FnMut(Answer)) -> Result<()> {
        let fault = match self.plan.shape {
            Shape::Key => self.key()?,
            Shape::Update => self.update()?,
            Shape::Sum => self.sum()?,
            Shape::Range => {
                let first = self.numbers.below(self.plan.rows - self.plan.range_rows + 1);
                let last = first + self.plan.range_rows - 1;
                self.rows(&[&first.to_string(), &last.to_string()], first, last + 1)?
            }
            Shape::Fetch => self.rows(&[], 0, self.plan.rows)?,
        };
        answered(fault.map_or(Answer::Right, Answer::Wrong));
        Ok(())
    }
}

impl SqlCaller {
    fn key(&mut self) -> Result<Option<String>> {
        let id = self.plan.choice.next(&mut self.numbers);
        let (mut found, mut right) = (0, false);
        let tag = self.client.execute("lab", &[&id.to_string()], &mut |mut row| {
            found += 1;
            right = row.next_integer() == Some(value_of(id)) && row.next() == Some(label_of(id, 0).as_bytes());
        })?;
        Ok(match tag {
            Err(error) => Some(error),
            Ok(_) => (found != 1 || !right).then(|| format!("id {id}: {found} rows, or one that is not its own")),
        })
    }

    fn update(&mut self) -> Result<Option<String>> {
        let id = self.plan.choice.next(&mut self.numbers);
        let (value, label) = (self.numbers.below(1 << 20), label_of(id, self.numbers.next() as u32));
        let tag = self.client.execute("lab", &[&id.to_string(), &value.to_string(), &label], &mut |_| {})?;
        Ok(match tag {
            Ok(tag) => (tag != "UPDATE 1").then(|| format!("id {id}: {tag}")),
            Err(error) => Some(error),
        })
    }

    fn sum(&mut self) -> Result<Option<String>> {
        let mut found = None;
        let tag = self.client.execute("lab", &[], &mut |mut row| found = row.next_integer())?;
        let expected = self.plan.sums.between(0, self.plan.rows);
        Ok(match tag {
            Err(error) => Some(error),
            Ok(_) => (found != Some(expected)).then(|| format!("the sum is {found:?} instead of {expected}")),
        })
    }

    /// Rows by their count and by the sum of a column.
    fn rows(&mut self, params: &[&str], first: u64, end: u64) -> Result<Option<String>> {
        let (mut found, mut sum) = (0, 0);
        let tag = self.client.execute("lab", params, &mut |mut row| {
            found += 1;
            // The id first: only rows that were asked for count.
            let asked = row.next_integer().is_some_and(|id| (first..end).contains(&id.cast_unsigned()));
            sum += row.next_integer().filter(|_| asked).unwrap_or(i64::MIN / (1 << 32));
        })?;
        let (rows, expected) = (end - first, self.plan.sums.between(first, end));
        Ok(match tag {
            Err(error) => Some(error),
            Ok(_) => (found != rows || sum != expected)
                .then(|| format!("{found} rows with the sum {sum} instead of {rows} with {expected}")),
        })
    }
}
