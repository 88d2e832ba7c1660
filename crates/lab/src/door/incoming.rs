//! The read buffer of a client: bytes that have come, of which a decoder takes its part from the front.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ashlar_base::clock::monotonic;

use crate::interrupt;

/// Room that is there before each read.
const READ_BYTES: usize = 64 * 1024;

/// Bytes that have come and were not taken yet.
pub(super) struct Incoming {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    patience: Duration,
}

impl Incoming {
    /// Empty; waits as long as `patience` for an answer.
    pub(super) fn new(patience: Duration) -> Self {
        Self { bytes: vec![0; READ_BYTES], start: 0, end: 0, patience }
    }

    /// What has come.
    #[inline]
    pub(super) fn ready(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The next `count` bytes, which have come; they are taken.
    #[inline]
    pub(super) fn take(&mut self, count: usize) -> &[u8] {
        let start = self.start;
        self.start += count;
        &self.bytes[start..start + count]
    }

    /// Waits for more bytes.
    pub(super) fn more(&mut self, stream: &mut TcpStream) -> Result<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.bytes.len() - self.end < READ_BYTES {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.bytes.len() - self.end < READ_BYTES {
            self.bytes.resize(self.end + READ_BYTES, 0);
        }
        let mut waited_since = None;
        loop {
            match stream.read(&mut self.bytes[self.end..]) {
                Ok(0) => bail!("the server closed the connection"),
                Ok(count) => {
                    self.end += count;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    let since = *waited_since.get_or_insert_with(|| monotonic() - super::LOOK);
                    if interrupt::is_set() {
                        bail!("interrupted while it waited for an answer");
                    }
                    if since.elapsed() >= self.patience {
                        bail!("no answer within {} s", self.patience.as_secs());
                    }
                }
                Err(error) => return Err(error).context("reading an answer"),
            }
        }
    }
}
