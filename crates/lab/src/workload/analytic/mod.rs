//! The analytic workloads: tables that are filled once, and queries over all of them, each measured by itself.
//!
//! SQL is text here and so are rows, so that engines without PostgreSQL's protocol answer them too: see `door::text`. Where
//! the data comes from and what the answers must be is the affair of `hash`, `wide`, `tpch` and `tpcds`, which are asked as [`Questions`].

mod answers;
mod hash;
mod tpcds;
mod tpch;
mod wide;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::sizes::{Operators, Sizes};
use super::{Place, Progress, Workload};
use crate::door::text::{Rows, TextClient};
use crate::load::{Answer, Caller};
use crate::numbers::Numbers;

/// Rows between two reports of progress.
const PROGRESS_ROWS: u64 = 10_000;

/// Rows of an answer that are kept to be judged: more than any of these queries gives at the scales that fit into a memory.
const ROWS_MAX: usize = 100_000;

/// Appends the next line of COPY's text form; false when there are no more.
type Lines = Box<dyn FnMut(&mut Vec<u8>) -> bool>;

/// A table.
struct Table {
    name: String,
    /// Names of the columns, and their types as PostgreSQL has them.
    columns: Vec<(String, String)>,
    /// What stands behind its name in the CREATE TABLE of servers that speak PostgreSQL's protocol, keys included. Engines get the
    /// columns alone: a key of theirs is an index that none of these queries asks for.
    definition: String,
    /// About how many rows it will have.
    rows: u64,
}

impl Table {
    /// One without keys.
    fn of(name: &str, columns: Vec<(String, String)>, rows: u64) -> Self {
        let declared: Vec<String> = columns.iter().map(|(name, kind)| format!("{name} {kind}")).collect();
        Self { name: name.to_owned(), columns, definition: format!("({})", declared.join(", ")), rows }
    }
}

/// A query that is measured.
struct Query {
    name: String,
    sql: String,
    /// What is asked once after the window, because the answer to the query itself says too little.
    afterwards: Option<String>,
}

/// What a workload asks, and of what.
trait Questions: Send + Sync {
    fn tables(&self) -> &[Table];

    /// The rows of one of the tables.
    fn lines(&self, table: usize) -> Lines;

    fn queries(&self) -> &[Query];

    /// What is wrong with the answer to one of the queries.
    fn fault(&self, query: usize, rows: &Rows) -> Option<String>;

    /// Likewise, to what was asked after the window.
    fn fault_afterwards(&self, _query: usize, _rows: &Rows) -> Option<String> {
        None
    }

    /// Whether any value is NULL.
    fn has_nulls(&self) -> bool {
        false
    }

    /// What PostgreSQL is told once the tables are full.
    fn on_postgres(&self) -> &[&'static str] {
        &[]
    }

    fn parameters(&self) -> BTreeMap<String, Value>;
}

struct Analytic {
    questions: Arc<dyn Questions>,
    operators: Operators,
    files: Mutex<Files>,
}

/// The tables as files, which engines load: written when the first engine needs them, and gone with the workload.
#[derive(Default)]
struct Files {
    folder: Option<TempDir>,
    /// By table: where it is, and how many rows it has.
    written: BTreeMap<usize, (PathBuf, u64)>,
}

pub(super) fn hash_build(sizes: &Sizes) -> Result<Box<dyn Workload>> {
    workload(hash::build(sizes)?, sizes)
}

/// The ids of the rows of `hash-build`, as they are written, in their order.
pub(crate) fn hash_build_keys(sizes: &Sizes) -> Result<Vec<u32>> {
    // As the workload does, it refuses sizes that it does not have.
    super::Kind::find("hash-build")?.with(sizes)?;
    Ok(hash::build(sizes)?.keys().collect())
}

/// Likewise of the rows of the smaller table of `hash-probe`.
pub(crate) fn hash_probe_keys(sizes: &Sizes) -> Result<Vec<u32>> {
    super::Kind::find("hash-probe")?.with(sizes)?;
    Ok(hash::probe(sizes)?.keys().collect())
}

pub(super) fn hash_probe(sizes: &Sizes) -> Result<Box<dyn Workload>> {
    workload(hash::probe(sizes)?, sizes)
}

pub(super) fn hash_wide(sizes: &Sizes) -> Result<Box<dyn Workload>> {
    workload(wide::wide(sizes)?, sizes)
}

pub(super) fn tpcds(sizes: &Sizes) -> Result<Box<dyn Workload>> {
    workload(tpcds::tpcds(sizes)?, sizes)
}

pub(super) fn tpch(sizes: &Sizes) -> Result<Box<dyn Workload>> {
    workload(tpch::tpch(sizes)?, sizes)
}

fn workload(questions: impl Questions + 'static, sizes: &Sizes) -> Result<Box<dyn Workload>> {
    let operators = sizes.operators.unwrap_or_default();
    Ok(Box::new(Analytic { questions: Arc::new(questions), operators, files: Mutex::default() }))
}

impl Workload for Analytic {
    fn prepare(&self, place: Place, progress: Progress<'_>) -> Result<()> {
        let all: u64 = self.questions.tables().iter().map(|table| table.rows).sum();
        let mut done = 0;
        let mut client = TextClient::connect(place)?;
        for (number, table) in self.questions.tables().iter().enumerate() {
            let mut report = |rows: u64| progress((done + rows).min(all), all);
            let loaded = match &mut client {
                TextClient::Engine(client) => {
                    let (file, rows) = self.file(number, &mut report)?;
                    let loaded = client.load(&table.name, &table.columns, &file, self.questions.has_nulls())?;
                    ensure!(loaded == rows, "of {rows} rows of {} {loaded} were loaded", table.name);
                    rows
                }
                TextClient::Pg(client) => {
                    let unlogged = if place.postgres { "UNLOGGED " } else { "" };
                    client.query(&format!("CREATE {unlogged}TABLE {} {}", table.name, table.definition))?;
                    let (mut lines, mut rows, mut stopped) = (self.questions.lines(number), 0, None);
                    let tag = client.copy_in(&format!("COPY {} FROM STDIN", table.name), &mut |out| {
                        let more = stopped.is_none() && lines(out);
                        rows += u64::from(more);
                        if more && rows.is_multiple_of(PROGRESS_ROWS) {
                            stopped = report(rows).err();
                        }
                        more
                    })?;
                    if let Some(reason) = stopped {
                        return Err(reason);
                    }
                    ensure!(tag == format!("COPY {rows}"), "COPY of {rows} rows was answered by {tag}");
                    rows
                }
            };
            done += loaded;
        }
        if let TextClient::Pg(client) = &mut client
            && place.postgres
        {
            for statement in self.questions.on_postgres() {
                client.query(statement)?;
            }
            client.query("VACUUM ANALYZE")?;
        }
        Ok(())
    }

    fn caller(&self, _place: Place, _numbers: Numbers) -> Result<Box<dyn Caller>> {
        bail!("a workload that has queries is asked one of them")
    }

    fn queries(&self) -> Vec<String> {
        self.questions.queries().iter().map(|query| query.name.clone()).collect()
    }

    fn query_caller(&self, place: Place, query: &str) -> Result<Box<dyn Caller>> {
        let queries = self.questions.queries();
        let query = queries.iter().position(|there| there.name == query);
        let query = query.context("there is no such query")?;
        let mut client = TextClient::connect(place)?;
        if let TextClient::Pg(client) = &mut client
            && !place.postgres
        {
            for statement in self.operators.on_ashlar() {
                client.query(statement)?;
            }
        }
        Ok(Box::new(QueryCaller { client, questions: self.questions.clone(), query, answer: None }))
    }

    fn clear(&self, place: Place) -> Result<()> {
        let mut client = TextClient::connect(place)?;
        for table in self.questions.tables() {
            client.ask(&format!("DROP TABLE IF EXISTS {}", table.name), 0)?.map_err(anyhow::Error::msg)?;
        }
        Ok(())
    }

    fn parameters(&self) -> BTreeMap<String, Value> {
        let mut parameters = self.questions.parameters();
        parameters.insert("operators".to_owned(), json!(self.operators));
        parameters
    }
}

impl Analytic {
    /// A table as a file in the text form of COPY, and how many rows it has.
    fn file(&self, table: usize, report: &mut dyn FnMut(u64) -> Result<()>) -> Result<(PathBuf, u64)> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(written) = files.written.get(&table) {
            return Ok(written.clone());
        }
        if files.folder.is_none() {
            files.folder = Some(tempfile::Builder::new().prefix("ashlar-lab-data-").tempdir()?);
        }
        let folder = files.folder.as_ref().context("a folder for the data")?;
        let path = folder.path().join(format!("{}.tsv", self.questions.tables()[table].name));
        let mut file = BufWriter::new(File::create(&path).with_context(|| path.display().to_string())?);
        let (mut lines, mut rows, mut line) = (self.questions.lines(table), 0, Vec::new());
        while lines(&mut line) {
            file.write_all(&line).with_context(|| path.display().to_string())?;
            line.clear();
            rows += 1;
            if rows % PROGRESS_ROWS == 0 {
                report(rows)?;
            }
        }
        file.flush()?;
        files.written.insert(table, (path.clone(), rows));
        Ok((path, rows))
    }
}

/// Asks one query.
struct QueryCaller {
    client: TextClient,
    questions: Arc<dyn Questions>,
    query: usize,
    answer: Option<Result<Rows, String>>,
}

impl Caller for QueryCaller {
    fn make(&mut self) {}

    fn call(&mut self, came: &mut dyn FnMut()) -> Result<()> {
        let query = &self.questions.queries()[self.query];
        self.answer = Some(self.client.ask(&query.sql, ROWS_MAX)?);
        came();
        Ok(())
    }

    fn judge(&mut self, judged: &mut dyn FnMut(Answer)) {
        judged(match self.answer.take() {
            None => return,
            Some(Err(error)) => Answer::Refused(error),
            Some(Ok(rows)) => self.questions.fault(self.query, &rows).map_or(Answer::Right, Answer::Wrong),
        });
    }

    fn engine_memory(&mut self) -> Result<Option<u64>> {
        self.client.engine_memory(&self.questions.queries()[self.query].sql)
    }

    fn read_back(&mut self) -> Result<Option<String>> {
        let Some(sql) = &self.questions.queries()[self.query].afterwards else {
            return Ok(None);
        };
        Ok(match self.client.ask(sql, ROWS_MAX)? {
            Err(error) => Some(error),
            Ok(rows) => self.questions.fault_afterwards(self.query, &rows),
        })
    }
}
