//! The counters of a door, and the names of all metrics of this server.
//!
//! Connections count once per turn of their loop, not once per message, and each thread on a cache line of its own, as far as there are
//! enough. The recorder, whose counters all threads would share, is told when it is asked for its page.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

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

/// Threads that count apart from each other; where there are more some of them count together. A cache line each.
const PARTS: usize = 8;

/// Threads that have counted.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Where this thread counts.
    static PART: usize = THREADS.fetch_add(1, Ordering::Relaxed) % PARTS;
}

/// What the connections of each door have counted, and the recorder has not been told.
static COUNTED: [[Part; PARTS]; 2] = [const { [const { Part::new() }; PARTS] }; 2];

/// What one thread has counted, on a cache line that no other thread writes to.
#[derive(Debug)]
#[repr(align(64))]
struct Part {
    received: AtomicU64,
    sent: AtomicU64,
    writes: AtomicU64,
    statements: AtomicU64,
    rows: AtomicU64,
}

impl Part {
    const fn new() -> Self {
        Self {
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            statements: AtomicU64::new(0),
            rows: AtomicU64::new(0),
        }
    }

    fn add(&self, counted: Counted) {
        let Counted { received, sent, writes, statements, rows } = counted;
        let all = [
            (&self.received, received),
            (&self.sent, sent),
            (&self.writes, writes),
            (&self.statements, statements),
            (&self.rows, rows),
        ];
        for (sum, more) in all {
            if more > 0 {
                sum.fetch_add(more, Ordering::Relaxed);
            }
        }
    }
}

/// What a connection has counted in a turn of its loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Bytes from its client.
    pub(crate) received: u64,
    /// Bytes to its client.
    pub(crate) sent: u64,
    /// Writes of those: what arrives together is answered by one.
    pub(crate) writes: u64,
    /// Statements of the PostgreSQL door, commands of the RESP door.
    pub(crate) statements: u64,
    /// Rows to a PostgreSQL client.
    pub(crate) rows: u64,
}

/// What threads have counted together since this was asked last.
fn take(parts: &[Part]) -> Counted {
    let mut sum = Counted::default();
    for part in parts {
        sum.received += part.received.swap(0, Ordering::Relaxed);
        sum.sent += part.sent.swap(0, Ordering::Relaxed);
        sum.writes += part.writes.swap(0, Ordering::Relaxed);
        sum.statements += part.statements.swap(0, Ordering::Relaxed);
        sum.rows += part.rows.swap(0, Ordering::Relaxed);
    }
    sum
}

/// Tells the recorder what has been counted since it was told last. Called before it is asked for its page.
pub(crate) fn tell() {
    for door in [Door::Pg, Door::Resp] {
        let Counted { received, sent, writes, statements, rows } = take(&COUNTED[door as usize]);
        let door = door.name();
        counter!(RECEIVED, "door" => door).increment(received);
        counter!(SENT, "door" => door).increment(sent);
        counter!(WRITES, "door" => door).increment(writes);
        counter!(STATEMENTS, "door" => door).increment(statements);
        // Redis clients get values, not rows: one counter, without a door.
        counter!(ROWS).increment(rows);
    }
}

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
    door: Door,
}

impl Meters {
    /// The counters of this door.
    pub(crate) fn new(door: Door) -> Self {
        Self {
            connections: counter!(CONNECTIONS, "door" => door.name()),
            refused: counter!(REFUSED, "door" => door.name()),
            door,
        }
    }

    /// Counts what one of its connections has counted.
    pub(crate) fn count(&self, counted: Counted) {
        COUNTED[self.door as usize][PART.with(|part| *part)].add(counted);
    }

    /// Counts an error that a client was told.
    pub(crate) fn error(&self, code: ErrorCode) {
        counter!(ERRORS, "door" => self.door.name(), "sqlstate" => code.sqlstate()).increment(1);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_count_is_told_together_and_once() {
        let parts = [const { Part::new() }; PARTS];
        let one = Counted { received: 1, sent: 20, writes: 300, statements: 4000, rows: 0 };
        std::thread::scope(|scope| {
            for part in &parts {
                scope.spawn(move || (0..100).for_each(|_| part.add(one)));
            }
        });
        parts[0].add(Counted { rows: 7, ..Counted::default() });
        let times = 100 * PARTS as u64;
        let all = Counted { received: times, sent: 20 * times, writes: 300 * times, statements: 4000 * times, rows: 7 };
        assert_eq!((take(&parts), take(&parts)), (all, Counted::default()));
    }
}
