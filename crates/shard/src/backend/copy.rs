//! COPY FROM STDIN on a connection: what is sent, and what the shard says while it is.
//!
//! Driven by a session that divides the rows of a COPY among shards. A shard that refuses a row says so at once and passes over
//! what it is sent from then on, so both directions are looked at while there is something to send.

use std::io;

use ashlar_base::scope::scope;
use ashlar_base::{Error, Result};
use ashlar_protocol::pg::client;

use super::{Backend, Ended, Nothing, WRITE};

/// Read at once of what a shard says in the middle of a COPY.
const HEARD_BYTES: usize = 1024;

impl Backend {
    /// Starts a COPY FROM STDIN. What was queued before is answered first.
    ///
    /// # Errors
    /// What the shard says; 08006 where it is gone.
    pub async fn start_copy(&mut self, sql: &str) -> Result<()> {
        self.queue_query(sql);
        self.flush().await?;
        let mut failure: Option<Error> = None;
        loop {
            let (tag, range) = self.message().await?;
            match tag {
                b'G' if failure.is_none() => return Ok(()),
                // Rows of what was queued before are nobody's.
                b'D' if self.awaited > 1 => {}
                b'G' | b'H' | b'D' => return Err(self.garbled()),
                b'E' => {
                    let error = self.failure_of(&self.inbox[range]);
                    failure.get_or_insert(error);
                }
                _ => {}
            }
            if self.note(tag, failure.as_ref())? {
                return Err(failure.unwrap_or_else(|| self.garbled()));
            }
        }
    }

    /// Queues a piece of the data, cut anywhere.
    pub fn queue_copy(&mut self, bytes: &[u8]) {
        client::copy_data(&mut self.outbox, bytes);
    }

    /// Sends what is queued of the data.
    ///
    /// # Errors
    /// What the shard says against what it was sent before, and then it takes no more of it; 08006 where it is gone.
    pub async fn send_copy(&mut self) -> Result<()> {
        let mut failure = None;
        while !self.send_some()? {
            match scope(&WRITE, self.stream.ready()).await {
                Ok(ready) if ready.is_readable() => self.hear(&mut failure).await?,
                Ok(_) => {}
                Err(error) => return Err(self.lost(&error)),
            }
        }
        self.hear(&mut failure).await?;
        failure.map_or(Ok(()), Err)
    }

    /// Takes what the shard has said so far.
    async fn hear(&mut self, failure: &mut Option<Error>) -> Result<()> {
        loop {
            while self.peek()?.is_some() {
                // It has arrived: this does not wait.
                let (tag, range) = self.message().await?;
                if tag == b'E' {
                    let error = self.failure_of(&self.inbox[range]);
                    failure.get_or_insert(error);
                }
                self.note(tag, failure.as_ref())?;
            }
            self.inbox.drain(..std::mem::take(&mut self.start));
            let mut bytes = [0; HEARD_BYTES];
            match self.stream.try_read(&mut bytes) {
                Ok(0) => {
                    let closed = io::Error::new(io::ErrorKind::UnexpectedEof, "the shard closed the connection");
                    return Err(self.lost(&closed));
                }
                Ok(count) => self.inbox.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(self.lost(&error)),
            }
        }
    }

    /// The end of the data: the command tag.
    ///
    /// # Errors
    /// What the shard says; 08006 where it is gone.
    pub async fn end_copy(&mut self) -> Result<Ended> {
        client::copy_done(&mut self.outbox);
        self.answer(&mut Nothing).await
    }

    /// Gives a COPY up, so that the connection is of use again. What the shard says to that is of no interest.
    pub async fn fail_copy(&mut self, reason: &str) {
        if self.awaited > 0 && !self.is_broken {
            client::copy_fail(&mut self.outbox, reason);
            drop(self.answer(&mut Nothing).await);
        }
    }
}
