//! The SQL workloads, in Hazelcast's shapes: one prepared statement each, its parameters chosen anew for every execution.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::choose::Choice;
use super::rows::{self, ByValue, KEY, Sums, VALUES, label_of, value_of};
use super::shape::{SUMMED, Shape};
use super::sizes::{Columns, Counted, Distribution, Document, Field, Index, Protocol, Sizes};
use super::tables::{Table, drop_all, everywhere, fill, settle};
use super::{Place, Progress, Workload, documents};
use crate::door::pg::{PgClient, Row, Tag};
use crate::foreign::Work;
use crate::load::{Answer, Caller};
use crate::numbers::Numbers;

/// The label that a foreign program writes: it has no functions to make those of the rows.
const FOREIGN_LABEL: &str = "foreign";

/// What the statement is called on each connection.
const STATEMENT: &str = "lab";

/// What all connections share.
struct Plan {
    shape: Shape,
    protocol: Protocol,
    rows: u64,
    range_rows: u64,
    choice: Choice,
    /// Of no rows, and so for the next two, where no answer depends on it.
    sums: Sums,
    by_value: ByValue,
    /// The rows of the join, and their sum.
    joined: (u64, i64),
    /// How many groups there are.
    groups: u64,
}

struct Sql {
    plan: Arc<Plan>,
    distribution: Distribution,
    index: Index,
    document: Document,
    /// Of a document.
    fields: u32,
    columns: Columns,
    join_rows: u64,
}

pub(super) fn workload(sizes: &Sizes, shape: Shape) -> Result<Box<dyn Workload>> {
    let shape = match shape {
        Shape::Count(default) => Shape::Count(sizes.counted.unwrap_or(default)),
        Shape::JsonSum(default) => Shape::JsonSum(sizes.field.unwrap_or(default)),
        Shape::Fetch(default) => Shape::Fetch(sizes.columns.unwrap_or(default)),
        other => other,
    };
    let rows = sizes.rows.unwrap_or(match shape {
        Shape::Fetch(_) => 100_000,
        Shape::ValueRange => 500_000,
        _ => 1_000_000,
    });
    let usual_range = if shape == Shape::ValueRange { 100 } else { 10_000 };
    let range_rows = sizes.range_rows.unwrap_or(usual_range.min(rows));
    if range_rows > rows {
        bail!("a range of {range_rows} rows does not fit into {rows}");
    }
    let index = sizes.index.unwrap_or_default();
    if shape == Shape::ValueRange && index == Index::Hash {
        bail!("an index by hash finds no ranges; --index takes btree or none here");
    }
    let distribution = sizes.distribution.unwrap_or_default();
    let choice = Choice::of(distribution, rows);
    let join_rows = sizes.join_rows.unwrap_or(1000);
    let (summed, by_value, joined) = match shape {
        Shape::Key | Shape::Update | Shape::Value => (0, 0, 0),
        Shape::Sum | Shape::Range | Shape::Fetch(_) | Shape::JsonSum(_) | Shape::Groups => (rows, 0, 0),
        Shape::Count(_) | Shape::ValueRange => (0, rows, 0),
        Shape::Join => (0, 0, join_rows),
    };
    let (sums, by_value, joined) = (Sums::of(summed), ByValue::of(by_value), rows::joined(joined, rows));
    let groups = if shape == Shape::Groups { rows::groups(rows).count() as u64 } else { 0 };
    let document = sizes.document.unwrap_or_default();
    let fields = sizes.fields.unwrap_or(documents::FIELDS);
    let columns = sizes.columns.unwrap_or_default();
    if columns == Columns::Pair && matches!(shape, Shape::Key | Shape::Update | Shape::Value) {
        bail!("a pair has no label, which is asked for; --columns takes all or narrow here");
    }
    let protocol = sizes.protocol.unwrap_or_default();
    let plan = Arc::new(Plan { shape, protocol, rows, range_rows, choice, sums, by_value, joined, groups });
    Ok(Box::new(Sql { plan, distribution, index, document, fields, columns, join_rows }))
}

impl Sql {
    /// The tables that the statement is about.
    fn tables(&self) -> Vec<Table> {
        let rows = self.plan.rows;
        let table = |name, columns: &str, rows, line| Table {
            name,
            columns: columns.to_owned(),
            key: KEY,
            is_small: false,
            rows,
            line,
        };
        let columns = self.columns;
        let line = move |id, out: &mut Vec<u8>| rows::line(id, columns, out);
        let all = || table(rows::TABLE, rows::columns(columns), rows, Box::new(line));
        match self.plan.shape {
            Shape::JsonSum(_) => {
                let columns = match self.document {
                    Document::Json => "id bigint PRIMARY KEY, document json",
                    Document::Jsonb => "id bigint PRIMARY KEY, document jsonb",
                };
                let fields = self.fields;
                let line = move |id, out: &mut Vec<u8>| documents::line(id, fields, out);
                vec![table(documents::TABLE, columns, rows, Box::new(line))]
            }
            Shape::Join => {
                let line = move |id, out: &mut Vec<u8>| rows::pick_line(id, rows, out);
                let picks = table(rows::PICKS, rows::PICKS_COLUMNS, self.join_rows, Box::new(line));
                vec![all(), Table { is_small: true, ..picks }]
            }
            _ => vec![all()],
        }
    }

    /// The statement that makes the index, if there is to be one.
    fn create_index(&self) -> Option<String> {
        let column = self.plan.shape.indexed()?;
        let method = match self.index {
            Index::None => return None,
            Index::Hash => "hash",
            Index::Btree => "btree",
        };
        Some(format!("CREATE INDEX ON {} USING {method} ({column})", rows::TABLE))
    }
}

impl Workload for Sql {
    fn prepare(&self, place: Place, progress: Progress<'_>) -> Result<()> {
        let mut client = PgClient::connect(place.address)?;
        let tables = self.tables();
        fill(&mut client, place, &tables, progress)?;
        if let Some(statement) = self.create_index() {
            everywhere(&mut client, place, &statement)?;
        }
        settle(&mut client, place, &tables)
    }

    fn caller(&self, place: Place, numbers: Numbers) -> Result<Box<dyn Caller>> {
        let mut client = PgClient::connect(place.address)?;
        if self.plan.protocol == Protocol::Prepared {
            client.prepare(STATEMENT, &self.plan.shape.statement()).context("preparing the statement")?;
        }
        Ok(Box::new(SqlCaller {
            client,
            plan: self.plan.clone(),
            stores: place.stores,
            numbers,
            asked: (0, 0),
            text: String::new(),
            answer: Found::default(),
            written: None,
        }))
    }

    fn work(&self) -> Option<Work> {
        let Plan { shape, protocol, rows, .. } = *self.plan;
        let id = format!("\\set id random(0, {})\n", rows - 1);
        let text = match shape {
            Shape::Key => format!("{id}{};\n", shape.statement().replace("$1", ":id")),
            Shape::Update => {
                let values = format!("\\set value random(0, {})\n", VALUES - 1);
                let statement = shape.statement().replace("$1", ":id").replace("$2", ":value");
                format!("{id}{values}{};\n", statement.replace("$3", &format!("'{FOREIGN_LABEL}'")))
            }
            Shape::Sum | Shape::Fetch(_) => format!("{};\n", shape.statement()),
            _ => return None,
        };
        Some(Work::Script { text, protocol })
    }

    fn work_fault(&self, place: Place, operations: u64) -> Result<Option<String>> {
        let (table, plan) = (rows::TABLE, &self.plan);
        let mut client = PgClient::connect(place.address)?;
        let mut number = |sql: &str| -> Result<u64> {
            let found = client.query(sql)?;
            found.first().and_then(|row| row.first()?.parse().ok()).with_context(|| format!("{sql}: {found:?}"))
        };
        let all = number(&format!("SELECT count(*) FROM {table}"))?;
        if all != plan.rows {
            return Ok(Some(format!("{all} rows are there instead of {}", plan.rows)));
        }
        if plan.shape != Shape::Update {
            return Ok(None);
        }
        let changed = number(&format!("SELECT count(*) FROM {table} WHERE label = '{FOREIGN_LABEL}'"))?;
        Ok((changed == 0).then(|| format!("no row is changed after {operations} updates")))
    }

    fn clear(&self, place: Place) -> Result<()> {
        drop_all(&mut PgClient::connect(place.address)?, place, &self.tables())
    }

    fn parameters(&self) -> BTreeMap<String, Value> {
        let mut named = BTreeMap::from([("rows".to_owned(), self.plan.rows.into())]);
        let mut name = |name: &str, value: Value| drop(named.insert(name.to_owned(), value));
        match self.plan.shape {
            Shape::Key => {
                name("distribution", json!(self.distribution));
                name("columns", json!(self.columns));
                name("protocol", json!(self.plan.protocol));
            }
            Shape::Update => {
                name("distribution", json!(self.distribution));
                name("columns", json!(self.columns));
            }
            Shape::Range => name("range_rows", self.plan.range_rows.into()),
            Shape::Sum | Shape::Fetch(_) | Shape::Groups => name("columns", json!(self.columns)),
            Shape::Count(counted) => name("counted", json!(counted)),
            Shape::JsonSum(field) => {
                name("field", json!(field));
                name("document", json!(self.document));
                name("fields", self.fields.into());
            }
            Shape::Value => {
                name("distribution", json!(self.distribution));
                name("index", json!(self.index));
                name("columns", json!(self.columns));
            }
            Shape::ValueRange => {
                name("range_rows", self.plan.range_rows.into());
                name("index", json!(self.index));
            }
            Shape::Join => name("join_rows", self.join_rows.into()),
        }
        named
    }
}

struct SqlCaller {
    client: PgClient,
    plan: Arc<Plan>,
    stores: bool,
    numbers: Numbers,
    /// The ids, or the values of another column, that the statement under way is about: from the first to before the second.
    asked: (u64, u64),
    /// The statement under way, where it is sent as text.
    text: String,
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
    /// Of several rows the sum of a column, of one its first integer.
    sum: Option<i64>,
    /// The second column of a single row, as text.
    label: Vec<u8>,
}

impl Caller for SqlCaller {
    fn make(&mut self) {
        let Self { client, plan, numbers, .. } = self;
        match plan.shape {
            Shape::Key => {
                let id = plan.choice.next(numbers);
                self.asked = (id, id + 1);
                match plan.protocol {
                    Protocol::Prepared => client.bind(STATEMENT, &[&id.to_string()]),
                    Protocol::Text => self.text = plan.shape.with(id),
                }
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
            Shape::Value => {
                let id = plan.choice.next(numbers);
                self.asked = (id, id + 1);
                client.bind(STATEMENT, &[&label_of(id, 0)]);
            }
            Shape::ValueRange => {
                let first = numbers.below(plan.rows - plan.range_rows + 1);
                let (low, high) = (plan.by_value.at(first), plan.by_value.at(first + plan.range_rows - 1));
                self.asked = (low, high + 1);
                client.bind(STATEMENT, &[&low.to_string(), &high.to_string()]);
            }
            Shape::Count(Counted::Matching) => {
                // About half of the rows, and seldom the same twice.
                let end = VALUES / 4 + numbers.below(VALUES / 2);
                self.asked = (0, end);
                client.bind(STATEMENT, &[&end.to_string()]);
            }
            Shape::JsonSum(Field::Parameter) => {
                self.asked = (0, plan.rows);
                client.bind(STATEMENT, &[SUMMED]);
            }
            Shape::Sum
            | Shape::Fetch(_)
            | Shape::Count(Counted::Rows | Counted::Keys)
            | Shape::JsonSum(Field::Literal)
            | Shape::Join => {
                self.asked = (0, plan.rows);
                client.bind(STATEMENT, &[]);
            }
            Shape::Groups => {
                self.asked = (0, rows::GROUPS);
                client.bind(STATEMENT, &[]);
            }
        }
    }

    fn call(&mut self, came: &mut dyn FnMut()) -> Result<()> {
        self.answer.tag = None;
        match self.plan.protocol {
            Protocol::Prepared => self.answer.read(&mut self.client, self.plan.shape, self.asked)?,
            Protocol::Text => self.answer.read_text(&mut self.client, &self.text)?,
        }
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
            Shape::Key | Shape::Sum | Shape::Count(_) | Shape::JsonSum(_) | Shape::Join => {
                client.run(&mut |row| Self::only(row, rows, sum, label))?
            }
            Shape::Range | Shape::Fetch(_) | Shape::Value | Shape::ValueRange | Shape::Groups => {
                client.run(&mut |mut row| {
                    *rows += 1;
                    // What was asked for first: only such rows count.
                    let asked = row.next_integer().is_some_and(|found| (first..end).contains(&found.cast_unsigned()));
                    *sum =
                        Some(sum.unwrap_or(0) + row.next_integer().filter(|_| asked).unwrap_or(i64::MIN / (1 << 32)));
                })?
            }
        });
        Ok(())
    }

    /// Sends a statement as text and reads its only row.
    fn read_text(&mut self, client: &mut PgClient, text: &str) -> Result<()> {
        (self.rows, self.sum) = (0, None);
        self.label.clear();
        let Self { rows, sum, label, .. } = self;
        self.tag = Some(client.ask(text, &mut |row| Self::only(row, rows, sum, label))?);
        Ok(())
    }

    /// A row of which there is to be one.
    fn only(mut row: Row<'_>, rows: &mut u64, sum: &mut Option<i64>, label: &mut Vec<u8>) {
        *rows += 1;
        *sum = row.next_integer();
        label.clear();
        label.extend_from_slice(row.next().unwrap_or_default());
    }

    /// What is wrong with it.
    fn fault(&self, plan: &Plan, (first, end): (u64, u64), tag: &Tag) -> Option<String> {
        let tag = match tag {
            Err(error) => return Some(error.clone()),
            Ok(tag) => tag,
        };
        let (found, sum) = (self.rows, self.sum);
        let rows_with_sum = |rows: u64, expected: i64| {
            let wrong = found != rows || sum != Some(expected);
            wrong.then(|| format!("{found} rows with the sum {sum:?} instead of {rows} with {expected}"))
        };
        match plan.shape {
            Shape::Key => {
                let right = sum == Some(value_of(first)) && self.label == label_of(first, 0).as_bytes();
                (found != 1 || !right).then(|| format!("id {first}: {found} rows, or one that is not its own"))
            }
            Shape::Update => (tag != "UPDATE 1").then(|| format!("id {first}: {tag}")),
            Shape::Value => rows_with_sum(1, value_of(first)).map(|fault| format!("the label of {first}: {fault}")),
            Shape::Sum | Shape::JsonSum(_) => {
                let expected = plan.sums.between(first, end);
                (found != 1 || sum != Some(expected)).then(|| format!("the sum is {sum:?} instead of {expected}"))
            }
            Shape::Range | Shape::Fetch(_) => rows_with_sum(end - first, plan.sums.between(first, end)),
            Shape::ValueRange => rows_with_sum(plan.by_value.rows(first, end), plan.by_value.ids(first, end)),
            Shape::Count(counted) => {
                let matching = counted == Counted::Matching;
                let expected = if matching { plan.by_value.rows(first, end) } else { plan.rows };
                let wrong = found != 1 || sum != Some(expected.cast_signed());
                wrong.then(|| format!("{sum:?} rows are counted instead of {expected}"))
            }
            Shape::Groups => rows_with_sum(plan.groups, plan.sums.between(0, plan.rows)),
            Shape::Join => {
                let (rows, expected) = plan.joined;
                let text = String::from_utf8_lossy(&self.label);
                let right = found == 1 && sum == Some(rows.cast_signed()) && text.parse() == Ok(expected);
                (!right).then(|| format!("{sum:?} joined rows with the sum {text:?} instead of {rows} with {expected}"))
            }
        }
    }
}
