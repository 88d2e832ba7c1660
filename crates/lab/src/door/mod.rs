//! Clients of the doors that targets have: RESP, PostgreSQL, engines in a process of the lab, and a page over HTTP.
//!
//! Each blocks the thread that uses it. Used by workloads to load and to measure, and by targets to see what is there.

pub(crate) mod engine;
mod explained;
pub(crate) mod http;
mod incoming;
pub(crate) mod login;
pub(crate) mod pg;
pub(crate) mod resp;
pub(crate) mod text;

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A client that waits for an answer looks this often whether it should stop.
const LOOK: Duration = Duration::from_millis(500);

/// How long one answer may take: long enough for a query over all rows behind as many others as there are threads.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// How long an answer may take of a server that is asked whether it is there: whoever starts it asks again.
pub(crate) const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = ashlar_base::net::connect_blocking(address, CONNECT_TIMEOUT)
        .with_context(|| format!("nobody answers at {address}"))?;
    stream.set_read_timeout(Some(LOOK))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    Ok(stream)
}
