//! Answers to Ashlar's own small queries to shards, about their transactions and locks, read row by row.

use ashlar_base::{Error, ErrorCode, Result};

use crate::backend::{Backend, RowReader};

/// Types of columns.
pub(crate) const BOOL: u32 = 16;
pub(crate) const INT8: u32 = 20;
pub(crate) const INT4: u32 = 23;
pub(crate) const TEXT: u32 = 25;

/// Rows that are kept; further ones are passed over.
pub(crate) const ROWS_MAX: usize = 1000;

/// A row, as it came.
pub(crate) struct Row(Vec<Option<Vec<u8>>>);

impl Row {
    pub(crate) fn text(&self, at: usize) -> Option<String> {
        self.0.get(at)?.as_deref().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    pub(crate) fn flag(&self, at: usize) -> Option<bool> {
        self.0.get(at)?.as_deref().map(|bytes| bytes == [1])
    }

    pub(crate) fn int8(&self, at: usize) -> Option<i64> {
        self.0.get(at)?.as_deref().and_then(|bytes| bytes.try_into().ok()).map(i64::from_be_bytes)
    }

    pub(crate) fn int4(&self, at: usize) -> Option<i32> {
        self.0.get(at)?.as_deref().and_then(|bytes| bytes.try_into().ok()).map(i32::from_be_bytes)
    }
}

/// The rows of a query.
///
/// # Errors
/// What the shard says; 08006 where it is gone.
pub(crate) async fn rows(backend: &mut Backend, sql: &str, types: &[u32]) -> Result<Vec<Row>> {
    backend.queue_scan(sql);
    backend.flush().await?;
    read(backend, types).await
}

/// The rows of a query that has been sent.
///
/// # Errors
/// As [`rows`].
pub(crate) async fn read(backend: &mut Backend, types: &[u32]) -> Result<Vec<Row>> {
    let (mut found, mut failure) = (Vec::new(), None);
    while let Some(range) = backend.next_row(types, &mut failure).await? {
        let mut reader = RowReader::new(backend.row(&range)).map_err(|_| garbled(backend))?;
        let mut values = Vec::with_capacity(types.len());
        for _ in 0..types.len() {
            let value = reader.value().map_err(|_| garbled(backend))?;
            values.push(value.map(<[u8]>::to_vec));
        }
        if found.len() < ROWS_MAX {
            found.push(Row(values));
        }
        backend.consume_row(&range);
    }
    Ok(found)
}

/// 08P01
pub(crate) fn garbled(backend: &Backend) -> Error {
    let message = format!("shard \"{}\" sent a row that cannot be read", backend.server().name);
    Error::new(ErrorCode::ProtocolViolation, message)
}
