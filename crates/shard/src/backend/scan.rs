//! Queries whose rows come in binary form and are read here: row by row, or as bytes by a taker that passes them on.
//!
//! Called by scans of the engine, by whoever asks a shard something of his own, and by sessions for what the engine reads over a
//! transaction's own connection. The shard says first what the columns are: rows of other types than expected are never read as if
//! they had these.

use std::ops::Range;
use std::sync::Arc;

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_protocol::pg::client::{self, HEADER_BYTES};
use ashlar_protocol::pg::{Target, TransactionStatus, ValueFormat};

use super::described::{is_stale, other_types};
use super::{Backend, ReadType};

/// Whether a RowDescription, whole, is of columns of these types.
///
/// # Errors
/// 42804 where it is of others; 08P01 where it is none.
pub fn check_columns<T: Copy + Into<ReadType>>(server: &str, description: &[u8], types: &[T]) -> Result<()> {
    let columns = description.get(HEADER_BYTES..).and_then(|body| client::row_description(body).ok());
    let Some(columns) = columns else { return Err(no_message(server)) };
    other_types(types, &columns).map_or(Ok(()), |told| Err(other_columns(server, told)))
}

/// 08P01
pub(super) fn no_message(server: &str) -> Error {
    let message = format!("shard \"{server}\" sent what is no message of the PostgreSQL protocol");
    Error::new(ErrorCode::ProtocolViolation, message)
}

/// 42804
fn other_columns(server: &str, difference: String) -> Error {
    let message = format!("a table of shard \"{server}\" does not have the columns that it was made with");
    let error = Error::new(ErrorCode::DatatypeMismatch, message).with_detail(difference);
    error.with_context(format!("shard {server}"))
}

impl Backend {
    /// Queues a query whose rows come in binary form, and say first what they are: for [`Self::next_row`].
    pub fn queue_scan(&mut self, text: &str) {
        self.queue_scan_with(text, &[]);
    }

    /// The same with values for `$1`, `$2`, ... in binary form, of types that the text says.
    pub fn queue_scan_with(&mut self, text: &str, values: &[Arc<[u8]>]) {
        client::parse(&mut self.outbox, "", text, &[]);
        self.queue_scan_of_parsed("", values);
    }

    /// Sends a query whose text comes again and again, so that it is parsed once, and waits for its first row: the next one of
    /// [`Self::next_row`]. `false`: there is none, and all has been answered.
    ///
    /// # Errors
    /// As [`Self::next_row`].
    pub async fn begin_kept_scan<T: Copy + Into<ReadType>>(
        &mut self,
        text: &str,
        values: &[Arc<[u8]>],
        types: &[T],
    ) -> Result<bool> {
        match self.first_of_kept(text, values, types).await {
            // It was parsed when its table was another one, and is forgotten by now. In a transaction that has ended all of it.
            Err(error) if self.status == TransactionStatus::Idle && is_stale(&error) && !self.is_broken() => {
                self.first_of_kept(text, values, types).await
            }
            found => found,
        }
    }

    async fn first_of_kept<T: Copy + Into<ReadType>>(
        &mut self,
        text: &str,
        values: &[Arc<[u8]>],
        types: &[T],
    ) -> Result<bool> {
        let name = self.statements.queue(&mut self.outbox, text, &[], &self.settings.time_zone);
        self.queue_scan_of_parsed(name.as_str(), values);
        self.flush().await?;
        let mut failure = None;
        Ok(self.next_row(types, &mut failure).await?.is_some())
    }

    /// The same for [`Self::answer`], whose taker is told what the columns are.
    pub fn queue_taken_scan(&mut self, text: &str) {
        self.statements.queue_unnamed(&mut self.outbox, text, &[]);
        self.queue_scan_of_parsed("", &[]);
    }

    /// All of a statement that is parsed.
    fn queue_scan_of_parsed(&mut self, name: &str, values: &[Arc<[u8]>]) {
        let values = values.iter().map(|value| (ValueFormat::Binary, Some(&value[..])));
        client::bind(&mut self.outbox, "", name, values, &[ValueFormat::Binary]);
        client::describe(&mut self.outbox, Target::Portal, "");
        client::execute(&mut self.outbox, "", 0);
        client::sync(&mut self.outbox);
        self.awaited += 1;
    }

    /// Waits for the next row of what [`Self::queue_scan`] has queued, which has columns of these types: the body of its
    /// DataRow, which [`Self::consume_row`] steps over. `None`: all has been answered. Rows of what was queued before are not passed on.
    ///
    /// # Errors
    /// What the shard says, once everything is answered; 42804 where it has other columns; 08006 where it is gone.
    pub async fn next_row<T: Copy + Into<ReadType>>(
        &mut self,
        types: &[T],
        failure: &mut Option<Error>,
    ) -> Result<Option<Range<usize>>> {
        loop {
            match self.peek()? {
                Some((b'D', length)) if failure.is_none() && self.awaited == 1 => {
                    return Ok(Some(self.start + HEADER_BYTES..self.start + length));
                }
                Some((b'D', length)) => self.consume(length),
                Some(_) => {
                    let (tag, range) = self.message().await?;
                    let body = &self.inbox[range];
                    match tag {
                        b'E' => {
                            let error = self.failure_of(body);
                            failure.get_or_insert(error);
                        }
                        b'T' if self.awaited == 1 => {
                            let difference = client::row_description(body).map(|found| other_types(types, &found));
                            if let Some(told) = difference.map_err(|_| self.garbled())? {
                                failure.get_or_insert_with(|| other_columns(&self.server.name, told));
                            }
                        }
                        // It was parsed without a name, of which nothing is noted.
                        b'1' if !self.statements.is_parsing() => continue,
                        _ => {}
                    }
                    if self.note(tag, failure.as_ref())? {
                        return failure.take().map_or(Ok(None), Err);
                    }
                }
                None => self.fill().await?,
            }
        }
    }

    /// The bytes that [`Self::next_row`] spoke of.
    pub fn row(&self, range: &Range<usize>) -> &[u8] {
        &self.inbox[range.clone()]
    }

    /// Steps over the row that [`Self::next_row`] found.
    pub fn consume_row(&mut self, range: &Range<usize>) {
        self.consume(range.end - self.start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A RowDescription of columns of these types.
    fn description(types: &[u32]) -> Vec<u8> {
        let mut body = (types.len() as u16).to_be_bytes().to_vec();
        for oid in types {
            body.extend_from_slice(b"name\0");
            body.extend_from_slice(&[0; 6]);
            body.extend_from_slice(&oid.to_be_bytes());
            body.extend_from_slice(&[0; 8]);
        }
        let length = (body.len() + 4) as u32;
        [&[b'T'][..], &length.to_be_bytes(), &body].concat()
    }

    #[test]
    fn columns_are_those_that_are_expected_or_refused() {
        let all: [&[u32]; 3] = [&[], &[20], &[20, 25]];
        for types in all {
            check_columns("s0", &description(types), types).unwrap();
        }
        let others: [(&[u32], &[u32]); 4] = [(&[20], &[]), (&[20], &[25]), (&[20, 25], &[20]), (&[], &[20])];
        for (found, expected) in others {
            let error = check_columns("s0", &description(found), expected).unwrap_err();
            assert_eq!(error.code(), ErrorCode::DatatypeMismatch);
            assert!(error.message().contains("s0") && error.fields().detail.is_some());
        }
        let whole = description(&[20]);
        let error = check_columns("s0", &whole[..whole.len() - 1], &[20_u32]).unwrap_err();
        assert_eq!(error.code(), ErrorCode::ProtocolViolation);
        assert_eq!(check_columns::<u32>("s0", b"T", &[]).unwrap_err().code(), ErrorCode::ProtocolViolation);
    }
}
