//! Encodes what a PostgreSQL server sends.
//!
//! Called by the PostgreSQL door. Every function appends one whole message to the write buffer. Never flushes, and
//! leaves nothing half written: an unfinished data row takes its bytes back.

use ashlar_base::{Error, ErrorCode, Result};

use super::{TransactionStatus, ValueFormat};

/// The schema that errors name beside a table: all tables live in it.
const SCHEMA: &str = "public";

/// The longest CopyData message we send.
const COPY_DATA_BYTES_MAX: usize = 1 << 30;

/// A column as RowDescription tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnDescription<'a> {
    /// The column's name.
    pub name: &'a str,
    /// The table it comes from, or 0.
    pub table_oid: u32,
    /// Its number in that table, from 1, or 0.
    pub column_number: i16,
    /// Its type.
    pub type_oid: u32,
    /// The type's length in bytes, or -1.
    pub typlen: i16,
    /// The type's modifier, or -1.
    pub typmod: i32,
    /// How its values will travel.
    pub format: ValueFormat,
}

/// No password is needed, or it was right.
pub fn authentication_ok(out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'R', 0, 0, 0, 8, 0, 0, 0, 0]);
}

/// The value of a setting that clients follow.
pub fn parameter_status(out: &mut Vec<u8>, name: &str, value: &str) {
    message(out, b'S', |out| {
        string(out, name);
        string(out, value);
    });
}

/// What a later cancel request must show. The secret has 4 bytes in protocol 3.0, up to 256 since 3.2.
pub fn backend_key_data(out: &mut Vec<u8>, pid: i32, secret: &[u8]) {
    message(out, b'K', |out| {
        out.extend_from_slice(&pid.to_be_bytes());
        out.extend_from_slice(secret);
    });
}

/// The newest protocol the server speaks, and the `_pq_.` options it does not know.
pub fn negotiate_protocol_version(out: &mut Vec<u8>, major: u16, minor: u16, unknown_options: &[&str]) {
    message(out, b'v', |out| {
        // The documentation says "minor version"; server and libpq both mean the whole version.
        out.extend_from_slice(&major.to_be_bytes());
        out.extend_from_slice(&minor.to_be_bytes());
        out.extend_from_slice(&length_i32(unknown_options.len()).to_be_bytes());
        for option in unknown_options {
            string(out, option);
        }
    });
}

/// The next group of messages may come.
pub fn ready_for_query(out: &mut Vec<u8>, status: TransactionStatus) {
    let status = match status {
        TransactionStatus::Idle => b'I',
        TransactionStatus::InBlock => b'T',
        TransactionStatus::Failed => b'E',
    };
    out.extend_from_slice(&[b'Z', 0, 0, 0, 5, status]);
}

/// The columns of the rows that follow.
pub fn row_description<'a>(out: &mut Vec<u8>, columns: impl ExactSizeIterator<Item = ColumnDescription<'a>>) {
    message(out, b'T', |out| {
        out.extend_from_slice(&count_u16(columns.len()).to_be_bytes());
        for column in columns {
            string(out, column.name);
            // Appended at once: the buffer is asked for room once for all of it.
            let mut rest = [0; 18];
            rest[..4].copy_from_slice(&column.table_oid.to_be_bytes());
            rest[4..6].copy_from_slice(&column.column_number.to_be_bytes());
            rest[6..10].copy_from_slice(&column.type_oid.to_be_bytes());
            rest[10..12].copy_from_slice(&column.typlen.to_be_bytes());
            rest[12..16].copy_from_slice(&column.typmod.to_be_bytes());
            rest[16..].copy_from_slice(&column.format.code().to_be_bytes());
            out.extend_from_slice(&rest);
        }
    });
}

/// The types of a statement's parameters.
pub fn parameter_description(out: &mut Vec<u8>, types: impl ExactSizeIterator<Item = u32>) {
    message(out, b't', |out| {
        out.extend_from_slice(&count_u16(types.len()).to_be_bytes());
        for oid in types {
            out.extend_from_slice(&oid.to_be_bytes());
        }
    });
}

/// One row on its way into the write buffer.
///
/// ```text
/// | 'D' | length i32 | columns u16 | length i32 | value ... | -1 (NULL) | ...
///         ^ written by `end`         ^ written after the value
/// ```
///
/// Dropped before [`DataRow::end`], it takes back what it wrote.
#[derive(Debug)]
pub struct DataRow<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    columns: u16,
    written: u16,
    too_long: bool,
    done: bool,
}

impl<'a> DataRow<'a> {
    /// Begins a row of so many columns.
    pub fn begin(out: &'a mut Vec<u8>, columns: usize) -> Self {
        let start = out.len();
        let columns = count_u16(columns);
        out.extend_from_slice(&[b'D', 0, 0, 0, 0]);
        out.extend_from_slice(&columns.to_be_bytes());
        Self { out, start, columns, written: 0, too_long: false, done: false }
    }

    /// The next column is NULL.
    pub fn null(&mut self) {
        self.written += 1;
        self.out.extend_from_slice(&(-1i32).to_be_bytes());
    }

    /// The next column is what `write` appends. It must append only.
    pub fn value(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.written += 1;
        let start = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        write(self.out);
        match i32::try_from(self.out.len() - start - 4) {
            Ok(length) => self.out[start..start + 4].copy_from_slice(&length.to_be_bytes()),
            Err(_) => self.too_long = true,
        }
    }

    /// Ends the row. A row beyond what a length can say (2 GiB) is taken back and refused.
    pub fn end(mut self) -> Result<()> {
        assert_eq!(self.written, self.columns, "a data row has as many values as columns");
        match i32::try_from(self.out.len() - self.start - 1) {
            Ok(length) if !self.too_long => {
                self.out[self.start + 1..self.start + 5].copy_from_slice(&length.to_be_bytes());
                self.done = true;
                Ok(())
            }
            _ => Err(Error::new(ErrorCode::ProgramLimitExceeded, "row is too long for one message")
                .with_detail("a row sent to a client may have 2147483647 bytes")),
        }
    }
}

impl Drop for DataRow<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.out.truncate(self.start);
        }
    }
}

/// A statement is done; the tag says what it did: `INSERT 0 1`, `SELECT 5`.
pub fn command_complete(out: &mut Vec<u8>, tag: &str) {
    message(out, b'C', |out| string(out, tag));
}

/// The query string had no statement.
pub fn empty_query(out: &mut Vec<u8>) {
    bare(out, b'I');
}

/// Execute reached its row limit; the portal has more.
pub fn portal_suspended(out: &mut Vec<u8>) {
    bare(out, b's');
}

/// What was described returns no rows.
pub fn no_data(out: &mut Vec<u8>) {
    bare(out, b'n');
}

/// Parse is done.
pub fn parse_complete(out: &mut Vec<u8>) {
    bare(out, b'1');
}

/// Bind is done.
pub fn bind_complete(out: &mut Vec<u8>) {
    bare(out, b'2');
}

/// Close is done.
pub fn close_complete(out: &mut Vec<u8>) {
    bare(out, b'3');
}

/// An error; severity `ERROR`, `FATAL` or `PANIC`.
pub fn error_response(out: &mut Vec<u8>, severity: &str, error: &Error) {
    message(out, b'E', |out| fields(out, severity, error));
}

/// A notice; severity `WARNING`, `NOTICE`, `DEBUG`, `INFO` or `LOG`.
pub fn notice_response(out: &mut Vec<u8>, severity: &str, error: &Error) {
    message(out, b'N', |out| fields(out, severity, error));
}

/// What another session has said on a channel.
pub fn notification_response(out: &mut Vec<u8>, pid: i32, channel: &str, payload: &str) {
    message(out, b'A', |out| {
        out.extend_from_slice(&pid.to_be_bytes());
        string(out, channel);
        string(out, payload);
    });
}

/// The client may send CopyData now.
pub fn copy_in_response(out: &mut Vec<u8>, format: ValueFormat, columns: usize) {
    copy_response(out, b'G', format, columns);
}

/// CopyData follows.
pub fn copy_out_response(out: &mut Vec<u8>, format: ValueFormat, columns: usize) {
    copy_response(out, b'H', format, columns);
}

/// A piece of COPY TO STDOUT. Where the pieces are cut means nothing, so a huge one goes as several messages.
pub fn copy_data(out: &mut Vec<u8>, bytes: &[u8]) {
    for bytes in bytes.chunks(COPY_DATA_BYTES_MAX) {
        message(out, b'd', |out| out.extend_from_slice(bytes));
    }
}

/// The end of COPY TO STDOUT.
pub fn copy_done(out: &mut Vec<u8>) {
    bare(out, b'c');
}

fn copy_response(out: &mut Vec<u8>, tag: u8, format: ValueFormat, columns: usize) {
    message(out, tag, |out| {
        out.push(match format {
            ValueFormat::Text => 0,
            ValueFormat::Binary => 1,
        });
        out.extend_from_slice(&count_u16(columns).to_be_bytes());
        for _ in 0..columns {
            out.extend_from_slice(&format.code().to_be_bytes());
        }
    });
}

/// The fields in PostgreSQL's order. `V` is `S` untranslated; we never translate.
fn fields(out: &mut Vec<u8>, severity: &str, error: &Error) {
    let fields = error.fields();
    let mut field = |tag: u8, text: &str| {
        out.push(tag);
        string(out, text);
    };
    field(b'S', severity);
    field(b'V', severity);
    field(b'C', error.sqlstate());
    field(b'M', &fields.message);
    if let Some(detail) = &fields.detail {
        field(b'D', detail);
    }
    if let Some(hint) = &fields.hint {
        field(b'H', hint);
    }
    if let Some(position) = fields.position {
        field(b'P', itoa::Buffer::new().format(position));
    }
    if let Some(context) = &fields.context {
        field(b'W', context);
    }
    if let Some(table) = &fields.table {
        field(b's', SCHEMA);
        field(b't', table);
    }
    if let Some(column) = &fields.column {
        field(b'c', column);
    }
    if let Some(constraint) = &fields.constraint {
        field(b'n', constraint);
    }
    out.push(0);
}

fn bare(out: &mut Vec<u8>, tag: u8) {
    out.extend_from_slice(&[tag, 0, 0, 0, 4]);
}

/// A tag, a length written afterwards, and the body.
fn message(out: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[tag, 0, 0, 0, 0]);
    body(out);
    let length = length_i32(out.len() - start - 1);
    out[start + 1..start + 5].copy_from_slice(&length.to_be_bytes());
}

/// A string with its terminator. A NUL inside would end it early and shift every field after it, so it is left out.
fn string(out: &mut Vec<u8>, text: &str) {
    if text.as_bytes().contains(&0) {
        out.extend(text.bytes().filter(|byte| *byte != 0));
    } else {
        out.extend_from_slice(text.as_bytes());
    }
    out.push(0);
}

fn count_u16(count: usize) -> u16 {
    assert!(count <= usize::from(u16::MAX), "a message has at most 65535 columns, not {count}");
    count as u16
}

fn length_i32(length: usize) -> i32 {
    assert!(length <= i32::MAX as usize, "a message has at most 2147483647 bytes, not {length}");
    length as i32
}
