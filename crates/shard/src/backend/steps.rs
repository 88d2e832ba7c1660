//! An answer step by step, for whoever puts the rows of several connections together: nothing is read ahead but what the
//! kernel had, so a shard whose rows are not needed yet waits.

use std::ops::Range;

use ashlar_base::{Error, Result};
use ashlar_protocol::pg::client::{self, HEADER_BYTES};

use super::{Backend, Ended, tag_of};

/// What comes next in an answer. The bytes are there until the connection is asked again.
#[derive(Debug)]
pub enum Step {
    /// RowDescription, whole; where something else was expected of the statement, that is the error before this.
    Description(Range<usize>),
    /// The body of a DataRow, which [`Backend::consume_row`] steps over.
    Row(Range<usize>),
    /// All has been answered; there may be more of a portal that is asked for some rows at a time.
    End(Ended),
}

/// How far an answer has come.
#[derive(Debug, Default)]
pub struct Progress {
    failure: Option<Error>,
    ended: Option<Ended>,
}

impl Backend {
    /// Waits for the next step of what is queued and flushed. Rows of all but the last queued statement are passed over.
    ///
    /// # Errors
    /// What the shard says, once everything is answered; 42804 at once where the statement does not look as expected: the connection is in
    /// the middle of something then; 08006 where it is gone.
    pub async fn next_step(&mut self, progress: &mut Progress) -> Result<Step> {
        self.step(progress, true).await
    }

    /// The same, and a row is there as soon as it is known that one comes, however long it is: its range is empty.
    ///
    /// # Errors
    /// As [`Self::next_step`].
    pub async fn next_head(&mut self, progress: &mut Progress) -> Result<Step> {
        self.step(progress, false).await
    }

    async fn step(&mut self, progress: &mut Progress, is_whole: bool) -> Result<Step> {
        loop {
            let passes_on = self.awaited == 1;
            if !is_whole
                && passes_on
                && progress.failure.is_none()
                && matches!(client::header(&self.inbox[self.start..]), Ok(Some((b'D', _))))
            {
                return Ok(Step::Row(self.start..self.start));
            }
            match self.peek()? {
                None => {
                    self.fill().await?;
                    continue;
                }
                Some((b'D', length)) if passes_on && progress.failure.is_none() => {
                    return Ok(Step::Row(self.start + HEADER_BYTES..self.start + length));
                }
                Some((b'D', length)) => {
                    self.consume(length);
                    continue;
                }
                Some(_) => {}
            }
            let (tag, range) = self.message().await?;
            let is_described = passes_on && progress.failure.is_none();
            match tag {
                b't' | b'T' | b'n' if is_described && self.check.is_some() => {
                    if let Some(error) = self.compare(tag, range.clone())? {
                        return Err(error);
                    }
                    if tag != b't' {
                        return Ok(Step::Description(range.start - HEADER_BYTES..range.end));
                    }
                }
                b'T' if is_described => return Ok(Step::Description(range.start - HEADER_BYTES..range.end)),
                b'C' => {
                    let tag = tag_of(&self.inbox[range]);
                    progress.ended = Some(Ended::Complete(tag.ok_or_else(|| self.garbled())?));
                }
                b's' => progress.ended = Some(Ended::Suspended),
                b'E' => {
                    let error = self.failure_of(&self.inbox[range]);
                    progress.failure.get_or_insert(error);
                }
                // Nothing that is put together copies.
                b'G' | b'H' => return Err(self.garbled()),
                _ => {}
            }
            if self.note(tag, progress.failure.as_ref())? {
                let ended = progress.ended.take().unwrap_or(Ended::Empty);
                return progress.failure.take().map_or(Ok(Step::End(ended)), Err);
            }
        }
    }
}
