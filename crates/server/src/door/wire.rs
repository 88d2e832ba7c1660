//! The two buffers between a socket and a protocol: bytes read and not yet understood, replies not yet sent.
//!
//! Used by the doors. Knows no protocol. Both buffers give memory back after a burst, and leave it to the thread's other connections while there
//! is nothing in them; the reader never asks for more memory than has arrived: a length prefix alone costs nothing.

mod spare;

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll};

use ashlar_base::scope::{Name, scope};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::session::Reservation;

/// Room that is made before a read.
const READ_BYTES: usize = spare::NEW_BYTES;

/// A buffer that grew beyond this is given back once it is empty.
const KEEP_BYTES: usize = spare::KEEP_BYTES;

/// Likewise while messages follow each other without a pause: that of messages of 64 KiB, as COPY often has them, is below it.
const KEEP_IN_STREAM_BYTES: usize = 256 * 1024;

static READ: Name = Name::new("socket read");
static WRITE: Name = Name::new("socket write");

/// Bytes from the client.
#[derive(Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    /// Everything before it has been consumed.
    start: usize,
    /// Whether messages follow each other without a pause.
    is_stream: bool,
    /// Bytes read since the last [`Inbox::take_read`].
    read: u64,
    /// Pays for a buffer that is larger than an idle connection's.
    held: Option<Reservation>,
    /// Bytes that it has paid for.
    charged: usize,
}

impl Inbox {
    /// Empty; `held` is charged for what long messages take while they come.
    pub(crate) fn charged_to(held: Reservation) -> Self {
        Self { held: Some(held), ..Self::default() }
    }

    /// What has arrived and is not consumed.
    pub(crate) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Steps over bytes that have been understood.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
        assert!(self.start <= self.bytes.len(), "a decoder consumed bytes that never came");
        if self.start == self.bytes.len() {
            self.start = 0;
            let kept = if self.is_stream { KEEP_IN_STREAM_BYTES } else { KEEP_BYTES };
            if self.bytes.capacity() > kept {
                self.bytes = Vec::new();
                self.charged = 0;
                if let Some(held) = &mut self.held {
                    held.clear();
                }
            } else {
                self.bytes.clear();
            }
        }
    }

    /// Says that messages follow each other without a pause from now on, or that they do not any more: meanwhile the buffer of
    /// one of them is kept for the next.
    pub(crate) fn set_stream(&mut self, is_stream: bool) {
        self.is_stream = is_stream;
        // What is too large by now goes at once, if it is empty.
        self.consume(0);
    }

    /// Room for a read, paid for before it is taken.
    fn make_room(&mut self) -> io::Result<()> {
        let (length, capacity) = (self.bytes.len(), self.bytes.capacity());
        if capacity - length >= READ_BYTES {
            return Ok(());
        }
        // Doubled: a message of n bytes is moved a logarithmic number of times.
        let wanted = (length + READ_BYTES).max(2 * capacity);
        if wanted > KEEP_BYTES
            && wanted > self.charged
            && let Some(held) = &mut self.held
        {
            held.grow(wanted - self.charged).map_err(|error| io::Error::new(io::ErrorKind::OutOfMemory, error))?;
            self.charged = wanted;
        }
        self.bytes.reserve_exact(wanted - length);
        Ok(())
    }

    /// Waits for bytes and reads what the kernel has, once; false when the client has closed its side. May be dropped
    /// at any point: nothing is lost. Fails as out of memory where a message has grown beyond what the store may hold.
    pub(crate) async fn fill(&mut self, stream: &mut TcpStream) -> io::Result<bool> {
        let count = scope(&READ, poll_fn(|context| self.poll_fill(stream, context))).await?;
        self.read += count as u64;
        Ok(count > 0)
    }

    /// How many bytes have been read. While none come there is no buffer for them.
    fn poll_fill(&mut self, stream: &mut TcpStream, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.bytes.capacity() == 0 {
            self.bytes = spare::take(&spare::INCOMING);
        }
        if self.bytes.capacity() - self.bytes.len() < READ_BYTES {
            if self.start > 0 {
                self.bytes.drain(..self.start);
                self.start = 0;
            }
            self.make_room()?;
        }
        // Not `try_read`: this one knows from a short read that the socket is empty, and saves the read that fails. It remembers nothing
        // between two looks, so that each may have another buffer.
        let polled = pin!(stream.read_buf(&mut self.bytes)).poll(context);
        if polled.is_pending() && self.bytes.is_empty() && self.bytes.capacity() <= KEEP_BYTES {
            spare::give(&spare::INCOMING, std::mem::take(&mut self.bytes));
        }
        polled
    }

    /// Bytes read since the last call, for the counters.
    pub(crate) fn take_read(&mut self) -> u64 {
        std::mem::take(&mut self.read)
    }
}

/// Bytes for the client.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    /// The kernel has everything before it.
    sent: usize,
    /// Everything before it is whole messages.
    sealed: usize,
    /// Bytes that a message which was begun still needs: nothing else may come before them.
    owed: usize,
    /// Bytes written since the last [`Outbox::take_written`].
    written: u64,
    /// Calls of the kernel since the last [`Outbox::take_writes`] in which it took some.
    writes: u64,
}

impl Outbox {
    /// Where messages are appended.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        if self.bytes.capacity() == 0 {
            self.bytes = spare::take(&spare::OUTGOING);
        }
        &mut self.bytes
    }

    /// Bytes that wait for the client.
    pub(crate) fn pending(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Declares that the buffer ends at the end of a message, unless one has been begun that comes in parts.
    pub(crate) fn seal(&mut self) {
        if self.owed == 0 {
            self.sealed = self.bytes.len();
        }
    }

    /// Appends a part of a message, of which so many bytes are still to come. What was appended before is whole, or parts of the same.
    pub(crate) fn append_part(&mut self, part: &[u8], left: usize) {
        self.seal();
        self.buffer().extend_from_slice(part);
        self.owed = left;
        self.seal();
    }

    /// Whether a message has been begun whose end has not come: nothing that is said now would be understood.
    pub(crate) fn is_cut(&self) -> bool {
        self.owed > 0
    }

    /// Drops a message that was begun and will not be finished.
    pub(crate) fn drop_unsealed(&mut self) {
        self.bytes.truncate(self.sealed.max(self.sent));
    }

    /// Sends what the kernel takes now; true when nothing is left.
    pub(crate) fn try_flush(&mut self, stream: &TcpStream) -> io::Result<bool> {
        while self.sent < self.bytes.len() {
            match stream.try_write(&self.bytes[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.sent += count;
                    self.written += count as u64;
                    self.writes += 1;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // Keep the part that is sent from growing the buffer while the client is slow.
                    if self.sent >= KEEP_BYTES {
                        self.bytes.drain(..self.sent);
                        self.sealed = self.sealed.saturating_sub(self.sent);
                        self.sent = 0;
                    }
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        self.sent = 0;
        self.sealed = 0;
        spare::give(&spare::OUTGOING, std::mem::take(&mut self.bytes));
        Ok(true)
    }

    /// Sends until at most `left` bytes wait. May be dropped at any point: nothing is sent twice or lost.
    pub(crate) async fn flush_to(&mut self, stream: &TcpStream, left: usize) -> io::Result<()> {
        while !self.try_flush(stream)? && self.pending() > left {
            scope(&WRITE, stream.writable()).await?;
        }
        Ok(())
    }

    /// Sends everything.
    pub(crate) async fn flush(&mut self, stream: &TcpStream) -> io::Result<()> {
        self.flush_to(stream, 0).await
    }

    /// Bytes written since the last call, for the counters.
    pub(crate) fn take_written(&mut self) -> u64 {
        std::mem::take(&mut self.written)
    }

    /// Writes since the last call, for the counters.
    pub(crate) fn take_writes(&mut self) -> u64 {
        std::mem::take(&mut self.writes)
    }
}

/// Resolves when the connection is no more: the client's machine has said that nobody is there to read. That the client
/// has closed its sending side is no such sign: it may wait for answers. Reads nothing.
pub(crate) async fn reset_by_client(stream: &TcpStream) {
    // Where nothing comes from the client nothing has happened. That is waited for as bytes are, which enters no list; only when there is
    // something it is looked at what that is.
    let something = poll_fn(|context| stream.poll_read_ready(context)).await;
    // Failing to watch is no reason to end what runs.
    if something.is_err() || stream.ready(tokio::io::Interest::ERROR).await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests;
