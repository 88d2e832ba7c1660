//! The SQL workloads, in Hazelcast's shapes: one prepared statement each, its parameters chosen anew for every execution.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::choose::Choice;
use super::rows::{COLUMNS, Sums, TABLE, label_of, line, value_of};
use super::sizes::{Distribution, Sizes};
use super::{Place, Progress, Workload};
use crate::door::pg::{PgClient, Tag};
use crate::load::{Answer, Caller};
use crate::numbers::Numbers;

/// Rows between two reports of progress.
const PROGRESS_ROWS: u64 = 10_000;

/// What the statement is called on each connection.
const STATEMENT: &str = "lab";

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

    fn caller(&self, place: Place, numbers: Numbers) -> Result<Box<dyn Caller>> {
        let mut client = PgClient::connect(place.address)?;
        client.prepare(STATEMENT, &self.plan.shape.statement()).context("preparing the statement")?;
        Ok(Box::new(SqlCaller {
            client,
            plan: self.plan.clone(),
            stores: place.stores,
            numbers,
            asked: (0, 0),
            answer: Found::default(),
            written: None,
        }))
    }

    fn clear(&self, place: Place) -> Result<()> {
        PgClient::connect(place.address)?.query(&format!("DROP TABLE IF EXISTS {TABLE}"))?;
        Ok(())
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
    stores: bool,
    numbers: Numbers,
    /// The ids that the statement under way is about: from the first to before the second.
    asked: (u64, u64),
    answer: Found,
    /// The id that was changed last.
    written: Option<u64>,
}

/// What an answer had in it: kept until it can be judged without being timed.
#[derive(Debug, Default)]
struct Found {
    /// None until it came.
    tag: Option<Tag>,
    rows: u64,
    /// Of several rows the sum of a column, of one its integer.
    sum: Option<i64>,
    label: Vec<u8>,
}

impl Caller for SqlCaller {
    fn make(&mut self) {
        let Self { client, plan, numbers, .. } = self;
        match plan.shape {
            Shape::Key => {
                let id = plan.choice.next(numbers);
                self.asked = (id, id + 1);
                client.bind(STATEMENT, &[&id.to_string()]);
            }
            Shape::Update => {
                let id = plan.choice.next(numbers);
                self.asked = (id, id + 1);
                // An odd number is not the version that was loaded.
                let (value, label) = (numbers.below(1 << 20), label_of(id, numbers.next() as u32 | 1));
                client.bind(STATEMENT, &[&id.to_string(), &value.to_string(), &label]);
                self.written = Some(id);
            }
            Shape::Range => {
                let first = numbers.below(plan.rows - plan.range_rows + 1);
                self.asked = (first, first + plan.range_rows);
                client.bind(STATEMENT, &[&first.to_string(), &(first + plan.range_rows - 1).to_string()]);
            }
            Shape::Sum | Shape::Fetch => {
                self.asked = (0, plan.rows);
                client.bind(STATEMENT, &[]);
            }
        }
    }

    fn call(&mut self, came: &mut dyn FnMut()) -> Result<()> {
        self.answer.tag = None;
        self.answer.read(&mut self.client, self.plan.shape, self.asked)?;
        came();
        Ok(())
    }

    fn judge(&mut self, judged: &mut dyn FnMut(Answer)) {
        if let Some(tag) = self.answer.tag.take() {
            judged(self.answer.fault(&self.plan, self.asked, &tag).map_or(Answer::Right, Answer::Wrong));
        }
    }

    fn read_back(&mut self) -> Result<Option<String>> {
        let Some(id) = self.written.filter(|_| self.stores) else {
            return Ok(None);
        };
        self.client.prepare("lab-back", &Shape::Key.statement()).context("preparing to read what was written")?;
        self.client.bind("lab-back", &[&id.to_string()]);
        self.answer.read(&mut self.client, Shape::Key, (id, id + 1))?;
        let label = String::from_utf8_lossy(&self.answer.label);
        Ok(match self.answer.tag.take() {
            Some(Err(error)) => Some(error),
            // Another connection may have changed it since, but nobody has put the first label back.
            _ if label == label_of(id, 0) => {
                Some(format!("id {id} is as it was loaded, and what was written later is gone"))
            }
            _ => (self.answer.rows != 1 || !label.starts_with(&format!("row {id:010} ")))
                .then(|| format!("id {id}, which was written: {} rows, or one that is not its own", self.answer.rows)),
        })
    }
}

impl Found {
    /// Sends the statement that was bound and reads its answer. Rows are read as a client reads them: each of their integers that
    /// is looked at is made a number.
    fn read(&mut self, client: &mut PgClient, shape: Shape, (first, end): (u64, u64)) -> Result<()> {
        (self.rows, self.sum) = (0, None);
        self.label.clear();
        let Self { rows, sum, label, .. } = self;
        self.tag = Some(match shape {
            Shape::Update => client.run(&mut |_| *rows += 1)?,
            Shape::Key | Shape::Sum => client.run(&mut |mut row| {
                *rows += 1;
                *sum = row.next_integer();
                label.clear();
                label.extend_from_slice(row.next().unwrap_or_default());
            })?,
            Shape::Range | Shape::Fetch => client.run(&mut |mut row| {
                *rows += 1;
                // The id first: only rows that were asked for count.
                let asked = row.next_integer().is_some_and(|id| (first..end).contains(&id.cast_unsigned()));
                *sum = Some(sum.unwrap_or(0) + row.next_integer().filter(|_| asked).unwrap_or(i64::MIN / (1 << 32)));
            })?,
        });
        Ok(())
    }

    /// What is wrong with it.
    fn fault(&self, plan: &Plan, (first, end): (u64, u64), tag: &Tag) -> Option<String> {
        let tag = match tag {
            Err(error) => return Some(error.clone()),
            Ok(tag) => tag,
        };
        let (found, sum) = (self.rows, self.sum);
        match plan.shape {
            Shape::Key => {
                let right = sum == Some(value_of(first)) && self.label == label_of(first, 0).as_bytes();
                (found != 1 || !right).then(|| format!("id {first}: {found} rows, or one that is not its own"))
            }
            Shape::Update => (tag != "UPDATE 1").then(|| format!("id {first}: {tag}")),
            Shape::Sum => {
                let expected = plan.sums.between(first, end);
                (sum != Some(expected)).then(|| format!("the sum is {sum:?} instead of {expected}"))
            }
            Shape::Range | Shape::Fetch => {
                let (rows, expected) = (end - first, plan.sums.between(first, end));
                (found != rows || sum != Some(expected))
                    .then(|| format!("{found} rows with the sum {sum:?} instead of {rows} with {expected}"))
            }
        }
    }
}
