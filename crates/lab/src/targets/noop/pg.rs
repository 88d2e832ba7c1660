//! The PostgreSQL door of the server that stores nothing: it knows the statements of the workloads, and counts the rows of
//! COPY to know how large their table is.

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
use crate::workload::{Shape, rows};

/// A longer message is none of the lab's.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Rows are sent in pieces of about this size.
const WRITE_BYTES: usize = 64 * 1024;

/// What is known of the table.
#[derive(Default)]
pub(super) struct Table {
    rows: AtomicU64,
    /// The answer to a statement over all rows, made when it is first prepared.
    whole: Mutex<Option<Whole>>,
}

/// All rows that answer a statement.
#[derive(Clone)]
struct Whole {
    shape: Shape,
    rows: u64,
    bytes: Arc<Vec<u8>>,
}

/// What one connection has prepared and bound.
#[derive(Default)]
struct Session {
    shape: Option<Shape>,
    params: Vec<u64>,
    whole: Arc<Vec<u8>>,
    copied: u64,
}

/// Answers one connection until its client closes it.
pub(super) async fn converse(mut stream: TcpStream, table: Arc<Table>) -> Result<()> {
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
            session.answer(message, &table, &mut out, &mut stream).await?;
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
        table: &Table,
        out: &mut Vec<u8>,
        stream: &mut TcpStream,
    ) -> Result<()> {
        match message {
            Frontend::Query(sql) if sql.starts_with("COPY") => {
                self.copied = 0;
                backend::copy_in_response(out, ValueFormat::Text, 4);
            }
            Frontend::Query(sql) => {
                backend::command_complete(out, sql.split(' ').next().unwrap_or_default());
                backend::ready_for_query(out, TransactionStatus::Idle);
            }
            Frontend::CopyData(bytes) => self.copied += bytes.iter().filter(|byte| **byte == b'\n').count() as u64,
            Frontend::CopyDone => {
                table.rows.store(self.copied, Ordering::Relaxed);
                backend::command_complete(out, &format!("COPY {}", self.copied));
                backend::ready_for_query(out, TransactionStatus::Idle);
            }
            Frontend::Parse { sql, .. } => match Shape::of(sql) {
                Some(shape) => {
                    self.shape = Some(shape);
                    self.whole = table.whole(shape)?;
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

    /// Keeps the parameters that choose rows; others are text, and choose nothing.
    fn bind(&mut self, bind: &Bind<'_>) {
        self.params.clear();
        let number = |value: Option<&[u8]>| str::from_utf8(value?).ok()?.parse::<u64>().ok();
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
            Shape::Sum | Shape::Fetch => {
                stream.write_all(out).await?;
                out.clear();
                stream.write_all(&self.whole).await?;
            }
        }
        backend::command_complete(out, "SELECT");
        Ok(())
    }
}

impl Table {
    /// The rows that answer a statement over the whole table; none of another statement.
    fn whole(&self, shape: Shape) -> Result<Arc<Vec<u8>>> {
        let count = self.rows.load(Ordering::Relaxed);
        if !matches!(shape, Shape::Sum | Shape::Fetch) {
            return Ok(Arc::default());
        }
        let mut kept = self.whole.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(whole) = kept.as_ref().filter(|whole| whole.rows == count && whole.shape == shape) {
            return Ok(whole.bytes.clone());
        }
        let mut out = Vec::new();
        if shape == Shape::Sum {
            row(&mut out, &[&(0..count).map(rows::value_of).sum::<i64>()])?;
        } else {
            for id in 0..count {
                let numbers: Vec<String> = rows::numbers_of(id).map(|number| number.to_string()).collect();
                let numbers = format!("{{{}}}", numbers.join(","));
                row(&mut out, &[&id, &rows::value_of(id), &rows::label_of(id, 0), &numbers])?;
            }
        }
        let bytes = Arc::new(out);
        *kept = Some(Whole { shape, rows: count, bytes: bytes.clone() });
        Ok(bytes)
    }
}

fn row(out: &mut Vec<u8>, columns: &[&dyn std::fmt::Display]) -> Result<()> {
    let mut row = DataRow::begin(out, columns.len());
    for column in columns {
        // Writing to a vector cannot fail.
        row.value(|out| drop(write!(out, "{column}")));
    }
    Ok(row.end()?)
}
