//! Buffered writes to a temporary file: many small writes become one.
//!
//! DataFusion writes batches through Arrow's writer, which issues separate writes for a batch's header, for each of its
//! buffers and for the padding after each. Each time the file's slot would have to be locked, and the file reopened if
//! another one has taken its place. So writes are collected here until there are enough of them, or until somebody
//! flushes; a writer whose output is being read flushes after each batch. Buffered bytes are charged to the limit of
//! all files at once, and become visible to readers when they are in the file. An error is reported to whoever wrote,
//! flushed or finished, and from then on to writer and readers alike.
//!
//! Made by the files of `spill`, called by DataFusion's writers.

use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ashlar_functions::error::{external, from_io};
use datafusion::execution::SpillWriter;

use super::Content;

/// Bytes that wait in a writer at most, and are in no query's account: a sort has one writer for each of its streams; operators of ours
/// have many and flush after each batch, as exchanges do, which leaves nothing behind. Columns of a batch of the server are about as
/// long (8,192 rows of 8 bytes): they are not copied, and what has waited before them goes with them.
pub(super) const WRITE_BYTES: usize = 64 << 10;

/// Writes to a file.
pub(super) struct Writer {
    content: Arc<Content>,
    /// Bytes that wait.
    waiting: Vec<u8>,
}

impl Writer {
    pub(super) fn new(content: &Arc<Content>) -> Self {
        Self { content: Arc::clone(content), waiting: Vec::new() }
    }

    /// Appends what waits to the file, and these bytes, which are charged, behind it.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Self { content, waiting } = self;
        let folder = &content.folder;
        let count = (waiting.len() + bytes.len()) as u64;
        let done = content.with_open(|file| {
            file.write_all(waiting.as_slice())?;
            file.write_all(bytes)
        });
        waiting.clear();
        if let Err(error) = done {
            content.is_broken.store(true, Ordering::Relaxed);
            folder.bytes.fetch_sub(count, Ordering::Relaxed);
            return Err(io::Error::new(error.kind(), from_io(&error)));
        }
        content.bytes.fetch_add(count, Ordering::Relaxed);
        folder.written.fetch_add(count, Ordering::Relaxed);
        Ok(())
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Through Arrow's writer an error of ours comes back whole.
        self.content.must_be_whole().map_err(io::Error::other)?;
        let charged = self.content.folder.charge(bytes.len() as u64);
        charged.map_err(|error| io::Error::new(ErrorKind::StorageFull, error))?;
        if self.waiting.len() + bytes.len() > WRITE_BYTES {
            self.append(bytes)?;
        } else {
            if self.waiting.capacity() == 0 {
                self.waiting.reserve_exact(WRITE_BYTES);
            }
            self.waiting.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.content.must_be_whole().map_err(io::Error::other)?;
        if !self.waiting.is_empty() {
            self.append(&[])?;
        }
        // It may be long until more comes.
        self.waiting = Vec::new();
        Ok(())
    }
}

impl SpillWriter for Writer {
    fn finish(&mut self) -> datafusion::common::Result<()> {
        // The system has all of it then, and nobody reads these files after a crash.
        self.flush().map_err(|error| external(from_io(&error)))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Who has finished has nothing left. If this fails, the file says so to who reads it.
        if !self.waiting.is_empty()
            && let Err(error) = self.append(&[])
        {
            tracing::debug!(path = %self.content.path.display(), %error, "a temporary file lacks its end");
        }
    }
}
