//! The counters of a door, and the names of all metrics of this server.
//!
//! Connections hold the handles and add to them once per turn of their loop, not once per message: the counters are
//! shared by all threads.

use anyhow::Context;
use ashlar_base::ErrorCode;
use metrics::{Counter, counter, describe_counter};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use super::Door;

const CONNECTIONS: &str = "ashlar_server_connections_total";
const REFUSED: &str = "ashlar_server_connections_refused_total";
const RECEIVED: &str = "ashlar_server_received_bytes_total";
const SENT: &str = "ashlar_server_sent_bytes_total";
const WRITES: &str = "ashlar_server_writes_total";
const STATEMENTS: &str = "ashlar_server_statements_total";
const ROWS: &str = "ashlar_server_rows_total";
const ERRORS: &str = "ashlar_server_errors_total";

/// Makes the recorder of this process; there can be one.
pub(crate) fn start() -> anyhow::Result<PrometheusHandle> {
    let handle = PrometheusBuilder::new().install_recorder().context("cannot start the metrics")?;
    describe();
    Ok(handle)
}

/// Handles of the counters of one door.
#[derive(Clone, Debug)]
pub(crate) struct Meters {
    /// Connections accepted.
    pub(crate) connections: Counter,
    /// Connections closed because the door was full.
    pub(crate) refused: Counter,
    /// Bytes from clients.
    pub(crate) received: Counter,
    /// Bytes to clients.
    pub(crate) sent: Counter,
    /// Writes of those: what arrives together is answered by one.
    pub(crate) writes: Counter,
    /// Statements of the PostgreSQL door, commands of the RESP door.
    pub(crate) statements: Counter,
    /// Rows to PostgreSQL clients.
    pub(crate) rows: Counter,
    door: &'static str,
}

impl Meters {
    /// The counters of this door.
    pub(crate) fn new(door: Door) -> Self {
        let door = door.name();
        Self {
            connections: counter!(CONNECTIONS, "door" => door),
            refused: counter!(REFUSED, "door" => door),
            received: counter!(RECEIVED, "door" => door),
            sent: counter!(SENT, "door" => door),
            writes: counter!(WRITES, "door" => door),
            statements: counter!(STATEMENTS, "door" => door),
            // Redis clients get values, not rows: one counter, without a door.
            rows: counter!(ROWS),
            door,
        }
    }

    /// Counts an error that a client was told.
    pub(crate) fn error(&self, code: ErrorCode) {
        counter!(ERRORS, "door" => self.door, "sqlstate" => code.sqlstate()).increment(1);
    }
}

/// Gives each counter its line of help.
fn describe() {
    describe_counter!(CONNECTIONS, "connections accepted");
    describe_counter!(REFUSED, "connections closed because the door was full");
    describe_counter!(RECEIVED, "bytes read from clients");
    describe_counter!(SENT, "bytes written to clients");
    describe_counter!(WRITES, "writes to sockets of clients: statements that arrive together are answered by one");
    describe_counter!(STATEMENTS, "statements (door pg) and commands (door resp) executed");
    describe_counter!(ROWS, "rows sent to PostgreSQL clients");
    describe_counter!(ERRORS, "errors reported to clients, by SQLSTATE");
}
