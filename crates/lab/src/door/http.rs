//! Reads one page over HTTP, as Prometheus would read the metrics.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// A longer page is none that a server of ours has.
const PAGE_BYTES_MAX: u64 = 256 << 20;

/// How long a server may take for a page that it has at hand.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The body of the page at `path`, from a server that may be silent for so long.
pub(crate) fn get(address: SocketAddr, path: &str, patience: Duration) -> Result<String> {
    let mut stream = super::connect(address)?;
    stream.set_read_timeout(Some(patience))?;
    // HTTP/1.0: the answer ends with the connection, and is in one piece.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(PAGE_BYTES_MAX).read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer that is not HTTP")?;
    let status = head.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        bail!("http://{address}{path}: {status}: {}", body.lines().next().unwrap_or_default());
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    if length.is_some_and(|length: usize| length != body.len()) {
        bail!("http://{address}{path}: the answer is cut after {} bytes", body.len());
    }
    Ok(body.to_owned())
}
