//! A client of `engines/serve.py`, the process that an engine runs in: a line of JSON each way.
//!
//! ```text
//! {"do":"version"}                                             {"version":"2.0.0"}
//! {"do":"load","table":"t","columns":[["id","integer"]],"file":"/...","has_nulls":false}    {"rows":1000}
//! {"do":"ask","sql":"SELECT ...","rows_max":1000}              {"rows":1,"values":[["42",null]]}
//! {"do":"memory","sql":"SELECT ..."}                           {"bytes":1048576}, or null
//! {"do":"trim"}                                                {}
//!                                                              {"error":"Parser Error: ..."}
//! ```

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};

use super::incoming::Incoming;
use super::text::Rows;

/// An answer longer than this is none that was asked for.
const LINE_BYTES_MAX: usize = 1 << 28;

/// A connection.
pub(crate) struct EngineClient {
    stream: TcpStream,
    incoming: Incoming,
}

/// The answer to a statement.
#[derive(Deserialize)]
struct Answer {
    rows: u64,
    values: Vec<Vec<Option<String>>>,
}

impl EngineClient {
    /// Connects; says nothing yet.
    pub(crate) fn connect(address: SocketAddr) -> Result<Self> {
        Self::connect_within(address, super::ANSWER_TIMEOUT)
    }

    /// Likewise; no answer may take longer than this.
    pub(crate) fn connect_within(address: SocketAddr, patience: Duration) -> Result<Self> {
        let stream = super::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, incoming: Incoming::new(patience) })
    }

    /// The version of the engine.
    pub(crate) fn version(&mut self) -> Result<String> {
        let answer = self.demand(&json!({"do": "version"}))?;
        answer["version"].as_str().map(str::to_owned).context("the engine's process names no version")
    }

    /// Makes a table, its columns with the types that PostgreSQL has for them, of a file in the text form of COPY, which may
    /// have NULLs or not; its rows.
    pub(crate) fn load(
        &mut self,
        table: &str,
        columns: &[(String, String)],
        file: &Path,
        has_nulls: bool,
    ) -> Result<u64> {
        let request = json!({"do": "load", "table": table, "columns": columns, "file": file, "has_nulls": has_nulls});
        let answer = self.demand(&request)?;
        answer["rows"].as_u64().context("the engine's process does not say how many rows it loaded")
    }

    /// Runs a statement: its rows, of which so many are kept, or the engine's error.
    pub(crate) fn ask(&mut self, sql: &str, rows_max: usize) -> Result<Result<Rows, String>> {
        let answer = self.exchange(&json!({"do": "ask", "sql": sql, "rows_max": rows_max}))?;
        if let Some(error) = answer["error"].as_str() {
            return Ok(Err(error.to_owned()));
        }
        let Answer { rows, values } = serde_json::from_value(answer).context("an answer of the engine's process")?;
        Ok(Ok(Rows { count: rows, values }))
    }

    /// Runs a statement once more: the memory that the engine counts for it, if it does.
    pub(crate) fn memory(&mut self, sql: &str) -> Result<Option<u64>> {
        let answer = self.exchange(&json!({"do": "memory", "sql": sql}))?;
        Ok(answer["bytes"].as_u64())
    }

    /// Has it give back what memory it has freed and not given back: what loading has left over.
    pub(crate) fn trim(&mut self) -> Result<()> {
        self.demand(&json!({"do": "trim"})).map(|_| ())
    }

    /// Sends a request whose error is nobody's answer.
    fn demand(&mut self, request: &Value) -> Result<Value> {
        let answer = self.exchange(request)?;
        if let Some(error) = answer["error"].as_str() {
            bail!("{error}");
        }
        Ok(answer)
    }

    fn exchange(&mut self, request: &Value) -> Result<Value> {
        self.stream.write_all(format!("{request}\n").as_bytes()).context("sending a request")?;
        let mut looked_at = 0;
        loop {
            let ready = self.incoming.ready();
            if let Some(place) = ready[looked_at..].iter().position(|byte| *byte == b'\n') {
                let line = self.incoming.take(looked_at + place + 1);
                return serde_json::from_slice(line).context("an answer of the engine's process");
            }
            looked_at = ready.len();
            if looked_at > LINE_BYTES_MAX {
                bail!("a line of more than {LINE_BYTES_MAX} bytes");
            }
            self.incoming.more(&mut self.stream)?;
        }
    }
}
