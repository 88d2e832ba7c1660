//! The PostgreSQL door of the server that stores nothing: it knows the statements of the workloads, and counts the rows of
//! COPY to know how large their tables are.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use ashlar_base::{Error, ErrorCode};
use ashlar_protocol::pg::backend::{self, DataRow};
use ashlar_protocol::pg::frontend::{Bind, Frontend, Startup, decode, decode_startup};
use ashlar_protocol::pg::{TransactionStatus, ValueFormat};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::Inbox;
use crate::workload::{Columns, Counted, Shape, rows};

/// A longer message is none of the lab's.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Rows are sent in pieces of about this size.
const WRITE_BYTES: usize = 64 * 1024;

/// What is known of the tables.
#[derive(Default)]
pub(super) struct Tables {
    /// Whether sums are added up when they are asked for.
    adds_up: bool,
    /// Of the table of a join.
    picks: AtomicU64,
    /// Of the others, of which a workload has one.
    rows: AtomicU64,
    /// What a statement over all rows needs, made when it is first prepared.
    whole: Mutex<Whole>,
}

/// What a statement over all rows needs.
#[derive(Clone, Default)]
struct Whole {
    /// The statement, and the rows of both tables.
    made_for: Option<(Shape, u64, u64)>,
    /// All rows that answer it.
    bytes: Arc<Vec<u8>>,
    /// Where parameters choose among all rows: their values with their ids, in order.
    by_value: Arc<Vec<(u64, u64)>>,
    /// What is added up.
    values: Arc<Vec<i64>>,
}

/// What one connection has prepared and bound.
#[derive(Default)]
struct Session {
    shape: Option<Shape>,
    params: Vec<u64>,
    whole: Whole,
    /// Rows of the COPY under way, and whether they go into the table of a join.
    copied: u64,
    picks: bool,
}

/// Answers one connection until its client closes it.
pub(super) async fn converse(mut stream: TcpStream, tables: Arc<Tables>) -> Result<()> {
    let (mut inbox, mut used) = (Inbox::new(), 0);
    let (mut session, mut out) = (Session::default(), Vec::new());
    let mut started = false;
    while inbox.next(used, &mut stream).await? {
        used = 0;
        if !started {
            match decode_startup(inbox.held(), 10_000)? {
                None => continue,
                Some((Startup::Startup { .. }, length)) => used = length,
                Some((other, _)) => bail!("the noop target has no answer to {other:?}"),
            }
            started = true;
            backend::authentication_ok(&mut out);
            backend::parameter_status(&mut out, "server_version", env!("CARGO_PKG_VERSION"));
            backend::ready_for_query(&mut out, TransactionStatus::Idle);
        }
        while let Some((message, length)) = decode(&inbox.held()[used..], MESSAGE_BYTES_MAX)? {
            if message == Frontend::Terminate {
                return Ok(());
            }
            session.answer(message, &tables, &mut out, &mut stream).await?;
            used += length;
        }
        stream.write_all(&out).await?;
        out.clear();
    }
    Ok(())
}

impl Session {
    async fn answer(
        &mut self,
        message: Frontend<'_>,
        tables: &Tables,
        out: &mut Vec<u8>,
        stream: &mut TcpStream,
    ) -> Result<()> {
        match message {
            Frontend::Query(sql) if sql.starts_with("COPY") => {
                self.copied = 0;
                self.picks = sql.contains(rows::PICKS);
                backend::copy_in_response(out, ValueFormat::Text, 4);
            }
            Frontend::Query(sql) if Shape::of_text(sql).is_some() => {
                if let Some((Shape::Key, id)) = Shape::of_text(sql) {
                    row(out, &[&rows::value_of(id), &rows::label_of(id, 0)])?;
                }
                backend::command_complete(out, "SELECT 1");
                backend::ready_for_query(out, TransactionStatus::Idle);
            }
            Frontend::Query(sql) => {
                backend::command_complete(out, sql.split(' ').next().unwrap_or_default());
                backend::ready_for_query(out, TransactionStatus::Idle);
            }
            Frontend::CopyData(bytes) => self.copied += bytes.iter().filter(|byte| **byte == b'\n').count() as u64,
            Frontend::CopyDone => {
                let table = if self.picks { &tables.picks } else { &tables.rows };
                table.store(self.copied, Ordering::Relaxed);
                backend::command_complete(out, &format!("COPY {}", self.copied));
                backend::ready_for_query(out, TransactionStatus::Idle);
            }
            Frontend::Parse { sql, .. } => match Shape::of(sql) {
                Some(shape) => {
                    self.shape = Some(shape);
                    self.whole = tables.whole(shape)?;
                    backend::parse_complete(out);
                }
                None => {
                    let error = Error::new(ErrorCode::FeatureNotSupported, "no statement of a workload");
                    backend::error_response(out, "ERROR", &error);
                }
            },
            Frontend::Bind(bind) => {
                self.bind(&bind);
                backend::bind_complete(out);
            }
            Frontend::Execute { .. } => self.execute(out, stream).await?,
            Frontend::Sync => backend::ready_for_query(out, TransactionStatus::Idle),
            other => bail!("the noop target has no answer to {other:?}"),
        }
        Ok(())
    }

    /// Keeps the parameters that choose rows: a number, or a label that has one in it. Others choose nothing.
    fn bind(&mut self, bind: &Bind<'_>) {
        self.params.clear();
        let number = |value: Option<&[u8]>| {
            let text = str::from_utf8(value?).ok()?;
            text.parse().ok().or_else(|| rows::id_of(text))
        };
        self.params.extend(bind.params().map_while(|(_, value)| number(value)));
    }

    async fn execute(&mut self, out: &mut Vec<u8>, stream: &mut TcpStream) -> Result<()> {
        let param = |place: usize| self.params.get(place).copied().context("a parameter is missing");
        match self.shape.context("nothing is prepared")? {
            Shape::Update => {
                backend::command_complete(out, "UPDATE 1");
                return Ok(());
            }
            Shape::Key => {
                let id = param(0)?;
                row(out, &[&rows::value_of(id), &rows::label_of(id, 0)])?;
            }
            Shape::Range => {
                for id in param(0)?..=param(1)? {
                    row(out, &[&id, &rows::value_of(id)])?;
                    if out.len() >= WRITE_BYTES {
                        stream.write_all(out).await?;
                        out.clear();
                    }
                }
            }
            Shape::Value => {
                let id = param(0)?;
                row(out, &[&id, &rows::value_of(id)])?;
            }
            Shape::ValueRange => {
                let (low, high) = (param(0)?, param(1)?);
                let first = self.whole.rows_below(low);
                for (value, id) in self.whole.by_value[first..].iter().take_while(|(value, _)| *value <= high) {
                    row(out, &[value, id, &rows::label_of(*id, 0), &numbers_of(*id)])?;
                    if out.len() >= WRITE_BYTES {
                        stream.write_all(out).await?;
                        out.clear();
                    }
                }
            }
            Shape::Count(Counted::Matching) => row(out, &[&self.whole.rows_below(param(0)?)])?,
            Shape::Sum if !self.whole.values.is_empty() => row(out, &[&plain_sum(&self.whole.values)])?,
            Shape::Sum | Shape::Fetch(_) | Shape::Count(_) | Shape::JsonSum(_) | Shape::Join | Shape::Groups => {
                stream.write_all(out).await?;
                out.clear();
                stream.write_all(&self.whole.bytes).await?;
            }
        }
        backend::command_complete(out, "SELECT");
        Ok(())
    }
}

impl Whole {
    /// How many rows have a value below this.
    fn rows_below(&self, value: u64) -> usize {
        self.by_value.partition_point(|(found, _)| *found < value)
    }
}

impl Tables {
    /// Of no rows yet.
    pub(super) fn new(adds_up: bool) -> Self {
        Self { adds_up, ..Self::default() }
    }

    /// What a statement over the whole table needs; nothing for another statement.
    fn whole(&self, shape: Shape) -> Result<Whole> {
        let (count, picks) = (self.rows.load(Ordering::Relaxed), self.picks.load(Ordering::Relaxed));
        let mut kept = self.whole.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.made_for == Some((shape, count, picks)) {
            return Ok(kept.clone());
        }
        let (mut out, mut by_value, mut values) = (Vec::new(), Vec::new(), Vec::new());
        match shape {
            Shape::Sum if self.adds_up => values.extend((0..count).map(rows::value_of)),
            Shape::Sum | Shape::JsonSum(_) => row(&mut out, &[&(0..count).map(rows::value_of).sum::<i64>()])?,
            Shape::Count(Counted::Rows | Counted::Keys) => row(&mut out, &[&count])?,
            Shape::Join => {
                let (joined, sum) = rows::joined(picks, count);
                row(&mut out, &[&joined, &sum])?;
            }
            Shape::Groups => {
                for (group, sum, rows) in rows::groups(count) {
                    row(&mut out, &[&group, &sum, &rows])?;
                }
            }
            Shape::Fetch(columns) => {
                for id in 0..count {
                    let (value, label, numbers) = (rows::value_of(id), rows::label_of(id, 0), numbers_of(id));
                    let all: [&dyn std::fmt::Display; 4] = [&id, &value, &label, &numbers];
                    let columns = match columns {
                        Columns::All => 4,
                        Columns::Narrow => 3,
                        Columns::Pair => 2,
                    };
                    row(&mut out, &all[..columns])?;
                }
            }
            Shape::Count(Counted::Matching) | Shape::ValueRange => {
                by_value.extend((0..count).map(|id| (rows::value_of(id).cast_unsigned(), id)));
                by_value.sort_unstable();
            }
            Shape::Key | Shape::Update | Shape::Range | Shape::Value => {}
        }
        let made_for = Some((shape, count, picks));
        *kept = Whole { made_for, bytes: Arc::new(out), by_value: Arc::new(by_value), values: Arc::new(values) };
        Ok(kept.clone())
    }
}

/// The yardstick: a plain loop, whose answer the compiler cannot know beforehand.
#[inline(never)]
fn plain_sum(values: &[i64]) -> i64 {
    std::hint::black_box(values).iter().sum()
}

/// The array of a row, in PostgreSQL's text form.
fn numbers_of(id: u64) -> String {
    let numbers: Vec<String> = rows::numbers_of(id).map(|number| number.to_string()).collect();
    format!("{{{}}}", numbers.join(","))
}

fn row(out: &mut Vec<u8>, columns: &[&dyn std::fmt::Display]) -> Result<()> {
    let mut row = DataRow::begin(out, columns.len());
    for column in columns {
        // Writing to a vector cannot fail.
        row.value(|out| drop(write!(out, "{column}")));
    }
    Ok(row.end()?)
}
