//! Where a statement's rows go: encoded into the connection's write buffer, which never grows past its bound.
//!
//! Handed to the session for one statement. `ready` is where a slow client slows the statement down: beyond the bound
//! nothing more is computed until the client has read, or has cancelled, or has gone.

use std::io;
use std::sync::Arc;

use ashlar_base::value::{binary, text, text::TextStyle};
use ashlar_base::{Datum, Error, ErrorCode, Result};
use ashlar_protocol::pg::ValueFormat;
use ashlar_protocol::pg::backend::{self, DataRow};
use tokio::net::TcpStream;

use super::super::Context;
use super::super::wire::Outbox;
use super::FLUSH_BYTES;
use super::extended::row_description;
use crate::session::{CancelToken, Column, Notice, RowSink, SqlSession};

/// The way of rows to one client, for one statement.
pub(super) struct Sink<'c> {
    outbox: &'c mut Outbox,
    stream: &'c TcpStream,
    /// Bytes that may wait for the client.
    bound: usize,
    /// The simple protocol describes its rows unasked.
    describe: bool,
    /// One per column; empty for text throughout.
    formats: Option<Arc<[ValueFormat]>>,
    style: TextStyle,
    /// What stops the statement while its client does not read; `None` once nothing may.
    cancel: Option<&'c CancelToken>,
    rows: u64,
    /// Why the socket failed; the session only learns that it did.
    broken: Option<io::Error>,
    /// The first row that could not be encoded.
    refused: Option<Error>,
}

impl<'c> Sink<'c> {
    /// For a statement of the simple protocol: text, with RowDescription.
    pub(super) fn simple(
        outbox: &'c mut Outbox,
        stream: &'c TcpStream,
        context: &Context,
        session: &SqlSession,
        cancel: &'c CancelToken,
    ) -> Self {
        Self { describe: true, ..Self::extended(outbox, stream, context, session, cancel, None) }
    }

    /// For a portal: the formats that Bind asked for.
    pub(super) fn extended(
        outbox: &'c mut Outbox,
        stream: &'c TcpStream,
        context: &Context,
        session: &SqlSession,
        cancel: &'c CancelToken,
        formats: Option<Arc<[ValueFormat]>>,
    ) -> Self {
        let bound = context.shared.config.server.write_buffer_kib_max as usize * 1024;
        Self { formats, ..Self::new(outbox, stream, bound, *session.style(), cancel) }
    }

    fn new(
        outbox: &'c mut Outbox,
        stream: &'c TcpStream,
        bound: usize,
        style: TextStyle,
        cancel: &'c CancelToken,
    ) -> Self {
        let (describe, formats, rows, broken, refused) = (false, None, 0, None, None);
        let cancel = Some(cancel);
        Self { outbox, stream, bound, describe, formats, style, cancel, rows, broken, refused }
    }

    /// The rows written, or why the socket failed. Where a row has no end the connection has: not even an error can follow.
    pub(super) fn finish(self) -> io::Result<u64> {
        match self.broken {
            Some(error) => Err(error),
            None if self.outbox.is_cut() => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a row has no end")),
            None => Ok(self.rows),
        }
    }
}

impl RowSink for Sink<'_> {
    fn columns(&mut self, columns: &Arc<[Column]>) {
        if self.describe {
            row_description(self.outbox.buffer(), columns, &[]);
        }
    }

    fn row(&mut self, columns: &[Column], values: &mut dyn Iterator<Item = Datum<'_>>) {
        if self.refused.is_some() {
            return;
        }
        // If encoding panics, what is sealed can still be sent.
        self.outbox.seal();
        let formats = self.formats.as_deref().unwrap_or_default();
        let mut row = DataRow::begin(self.outbox.buffer(), columns.len());
        for (place, (column, value)) in columns.iter().zip(values).enumerate() {
            if value.is_null() {
                row.null();
                continue;
            }
            match formats.get(place).copied().unwrap_or_default() {
                ValueFormat::Text => row.value(|out| text::write(column.sql_type, &value, &self.style, out)),
                ValueFormat::Binary => {
                    row.value(|out| binary::encode_announced(column.oid, column.sql_type, &value, out))
                }
            }
        }
        match row.end() {
            Ok(()) => self.rows += 1,
            Err(error) => self.refused = Some(error),
        }
    }

    fn forward(&mut self, messages: &[u8], rows: u64) {
        self.outbox.buffer().extend_from_slice(messages);
        self.outbox.seal();
        self.rows += rows;
    }

    fn forward_part(&mut self, part: &[u8], left: usize) {
        self.outbox.append_part(part, left);
        self.rows += u64::from(left == 0);
    }

    fn notice(&mut self, notice: &Notice) {
        backend::notice_response(self.outbox.buffer(), notice.severity, &notice.error);
        self.outbox.seal();
    }

    fn copy_out_start(&mut self, binary: bool, columns: usize) {
        let format = if binary { ValueFormat::Binary } else { ValueFormat::Text };
        backend::copy_out_response(self.outbox.buffer(), format, columns);
    }

    fn copy_out_data(&mut self, bytes: &[u8]) {
        self.outbox.seal();
        backend::copy_data(self.outbox.buffer(), bytes);
    }

    fn copy_out_done(&mut self) {
        backend::copy_done(self.outbox.buffer());
    }

    fn settled(&mut self) {
        self.cancel = None;
    }

    fn has_room(&self) -> bool {
        self.refused.is_none() && self.outbox.pending() < FLUSH_BYTES.min(self.bound)
    }

    async fn ready(&mut self) -> Result<()> {
        if let Some(error) = self.refused.take() {
            return Err(error);
        }
        if self.outbox.pending() < FLUSH_BYTES.min(self.bound) {
            return Ok(());
        }
        self.outbox.seal();
        // Below the bound the statement goes on computing while the client reads what it has.
        let sent = match self.outbox.try_flush(self.stream) {
            Ok(_) if self.outbox.pending() <= self.bound => return Ok(()),
            Ok(_) => {
                // A row that was begun comes to its end: its shard is told to stop, and gives up what takes too long for that.
                let cancel = self.cancel.filter(|_| !self.outbox.is_cut());
                // Half of the bound, so that a slow client does not wake the statement for every packet.
                let sending = self.outbox.flush_to(self.stream, self.bound / 2);
                match cancel {
                    None => sending.await,
                    Some(cancel) => tokio::select! {
                        biased;
                        sent = sending => sent,
                        () = cancel.cancelled() => return Err(cancel.error()),
                    },
                }
            }
            Err(error) => Err(error),
        };
        sent.map_err(|error| {
            let told = Error::new(ErrorCode::ConnectionFailure, format!("could not send data to client: {error}"));
            self.broken = Some(error);
            told
        })
    }
}

#[cfg(test)]
mod tests;
