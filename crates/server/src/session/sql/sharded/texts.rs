//! Single-column answers that the session reads itself: kept as text, and charged.
//!
//! Called by `explain` and `change`. Nothing of them is forwarded to the client.

use ashlar_base::{Error, ErrorCode, Result};
use ashlar_protocol::pg::client::{HEADER_BYTES, header};
use ashlar_shard::backend::{RowReader, Taker};
use ashlar_store::Reservation;

use super::SqlSession;

/// The first column of an answer in text form, and what it is charged with.
pub(super) struct Texts {
    /// Row by row; empty for NULL.
    pub(super) values: Vec<String>,
    memory: Reservation,
    failure: Option<Error>,
}

impl Texts {
    pub(super) fn new(memory: Reservation) -> Self {
        Self { values: Vec::new(), memory, failure: None }
    }

    fn take(&mut self, messages: &[u8]) -> Result<()> {
        // Twice: they become texts, in a list that grows by doubling.
        self.memory.grow(messages.len().saturating_mul(2))?;
        let mut rest = messages;
        while let Some((_, length)) = header(rest).map_err(|_| broken())? {
            let (row, behind) = rest.split_at_checked(length).ok_or_else(broken)?;
            let value = RowReader::new(&row[HEADER_BYTES..]).and_then(|mut reader| reader.value());
            let value = value.map_err(|_| broken())?.unwrap_or_default();
            self.values.push(String::from_utf8_lossy(value).into_owned());
            rest = behind;
        }
        Ok(())
    }
}

impl Taker for Texts {
    fn describe(&mut self, _: &[u8]) {}

    fn rows(&mut self, messages: &[u8], _: u64) {
        if self.failure.is_none() {
            self.failure = self.take(messages).err();
        }
    }

    async fn ready(&mut self) -> Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }
}

impl SqlSession {
    /// Asks a shard on one of the transaction's connections for a column of texts.
    pub(super) async fn texts_of(&mut self, place: usize, is_write: bool, text: &str) -> Result<Texts> {
        let mut texts = Texts::new(self.shared.engine.store().reservation());
        let ended = self.on_remote(place, is_write, &mut texts, |lease| lease.queue_query(text)).await;
        // The text is none of the client's.
        ended.map_err(Error::nowhere)?;
        Ok(texts)
    }
}

/// 08P01
fn broken() -> Error {
    Error::new(ErrorCode::ProtocolViolation, "a shard sent what cannot be read")
}
