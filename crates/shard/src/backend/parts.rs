//! Rows that are too long to be buffered, for callers that only pass bytes on: each is forwarded in parts as it
//! arrives.
//!
//! Called by `answer`. Once the beginning of a row has been forwarded the rest must follow: if it does not arrive, or
//! is not accepted, the receiver is left with an unfinished row, and neither side can go on.

use ashlar_base::Result;

use super::{Backend, Taker};

/// Read at once of such a row: no more than a connection may keep.
const PART_BYTES: usize = 64 * 1024;

impl Backend {
    /// Hands on a DataRow of this length, which comes next, as fast as it is taken: one that is longer than what may be held for nothing.
    ///
    /// # Errors
    /// What the taker says; 08006 where the shard is gone. Then the connection is in the middle of the row, and given up.
    pub(super) async fn pass_parts<T: Taker>(&mut self, taker: &mut T, length: usize) -> Result<()> {
        // Nobody finds the next message in the middle of a row: also where this future is dropped there.
        let was_given_up = std::mem::replace(&mut self.is_given_up, true);
        let passed = self.pass_all(taker, length).await;
        match &passed {
            Ok(()) => self.is_given_up = was_given_up,
            // In the middle of a row its client hears no reason.
            Err(error) => tracing::debug!(server = self.server.name, %error, "a long row could not be passed on"),
        }
        passed
    }

    async fn pass_all<T: Taker>(&mut self, taker: &mut T, length: usize) -> Result<()> {
        let mut left = length;
        while left > 0 {
            if self.start == self.inbox.len() {
                self.tidy();
                self.inbox.reserve_exact(PART_BYTES);
                self.fill().await?;
            }
            let end = self.inbox.len().min(self.start + left);
            left -= end - self.start;
            taker.part(&self.inbox[self.start..end], left);
            self.consume(end - self.start);
            taker.ready().await?;
        }
        Ok(())
    }
}
