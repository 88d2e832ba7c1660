//! The other side of the conversation: what a PostgreSQL client sends, and what it is answered.
//!
//! Called by `shard`, which is a client of other servers. Every encoder appends one whole message to the write buffer;
//! every reader borrows from the read buffer. Never reads or writes a socket, and never interprets SQL or values.

use super::{Target, TransactionStatus, ValueFormat};

/// Protocol version 3.0, as the startup message says it.
const VERSION_3_0: i32 = 196_608;

/// What stands for a version in a cancel request.
const CANCEL_REQUEST: i32 = 80_877_102;

/// The tag and the length of a message.
pub const HEADER_BYTES: usize = 5;

/// The first message of a connection.
pub fn startup<'a>(out: &mut Vec<u8>, parameters: impl Iterator<Item = (&'a str, &'a str)>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&VERSION_3_0.to_be_bytes());
    for (name, value) in parameters {
        string(out, name);
        string(out, value);
    }
    out.push(0);
    finish(out, start);
}

/// Asks, on a connection of its own, that what another connection does be stopped.
pub fn cancel_request(out: &mut Vec<u8>, pid: i32, secret: &[u8]) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&CANCEL_REQUEST.to_be_bytes());
    out.extend_from_slice(&pid.to_be_bytes());
    out.extend_from_slice(secret);
    finish(out, start);
}

/// A password, in clear or hashed.
pub fn password(out: &mut Vec<u8>, password: &[u8]) {
    message(out, b'p', |out| {
        out.extend_from_slice(password);
        out.push(0);
    });
}

/// The first message of a SASL exchange.
pub fn sasl_initial(out: &mut Vec<u8>, mechanism: &str, response: &[u8]) {
    message(out, b'p', |out| {
        string(out, mechanism);
        out.extend_from_slice(&length(response.len()).to_be_bytes());
        out.extend_from_slice(response);
    });
}

/// A further message of a SASL exchange.
pub fn sasl_response(out: &mut Vec<u8>, response: &[u8]) {
    message(out, b'p', |out| out.extend_from_slice(response));
}

/// A string of statements.
pub fn query(out: &mut Vec<u8>, sql: &str) {
    message(out, b'Q', |out| string(out, sql));
}

/// Parse.
pub fn parse(out: &mut Vec<u8>, name: &str, sql: &str, types: &[u32]) {
    message(out, b'P', |out| {
        string(out, name);
        string(out, sql);
        out.extend_from_slice(&count(types.len()).to_be_bytes());
        for oid in types {
            out.extend_from_slice(&oid.to_be_bytes());
        }
    });
}

/// Bind.
pub fn bind<'a>(
    out: &mut Vec<u8>,
    portal: &str,
    statement: &str,
    parameters: impl ExactSizeIterator<Item = (ValueFormat, Option<&'a [u8]>)> + Clone,
    result_formats: &[ValueFormat],
) {
    message(out, b'B', |out| {
        string(out, portal);
        string(out, statement);
        out.extend_from_slice(&count(parameters.len()).to_be_bytes());
        for (format, _) in parameters.clone() {
            out.extend_from_slice(&format.code().to_be_bytes());
        }
        out.extend_from_slice(&count(parameters.len()).to_be_bytes());
        for (_, value) in parameters {
            match value {
                Some(value) => {
                    out.extend_from_slice(&length(value.len()).to_be_bytes());
                    out.extend_from_slice(value);
                }
                None => out.extend_from_slice(&(-1i32).to_be_bytes()),
            }
        }
        out.extend_from_slice(&count(result_formats.len()).to_be_bytes());
        for format in result_formats {
            out.extend_from_slice(&format.code().to_be_bytes());
        }
    });
}

/// Describe.
pub fn describe(out: &mut Vec<u8>, kind: Target, name: &str) {
    about(out, b'D', kind, name);
}

/// Close.
pub fn close(out: &mut Vec<u8>, kind: Target, name: &str) {
    about(out, b'C', kind, name);
}

/// Execute, up to so many rows; 0 for all.
pub fn execute(out: &mut Vec<u8>, portal: &str, rows_max: i32) {
    message(out, b'E', |out| {
        string(out, portal);
        out.extend_from_slice(&rows_max.to_be_bytes());
    });
}

/// Sync.
pub fn sync(out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'S', 0, 0, 0, 4]);
}

/// A piece of the data of a COPY.
pub fn copy_data(out: &mut Vec<u8>, bytes: &[u8]) {
    message(out, b'd', |out| out.extend_from_slice(bytes));
}

/// The end of the data of a COPY.
pub fn copy_done(out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'c', 0, 0, 0, 4]);
}

/// Gives a COPY up.
pub fn copy_fail(out: &mut Vec<u8>, reason: &str) {
    message(out, b'f', |out| string(out, reason));
}

/// Terminate.
pub fn terminate(out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'X', 0, 0, 0, 4]);
}

/// The tag of the first message of `bytes` and how many bytes it has in all; `None` where even that has not arrived.
///
/// # Errors
/// A length that cannot be: the connection is of no use any more.
pub fn header(bytes: &[u8]) -> Result<Option<(u8, usize)>, BadMessage> {
    let Some((head, _)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let [tag, length @ ..] = *head;
    match usize::try_from(i32::from_be_bytes(length)) {
        Ok(length) if length >= 4 => Ok(Some((tag, length + 1))),
        _ => Err(BadMessage),
    }
}

/// Bytes that are no message of a PostgreSQL server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server sent what is no message of the PostgreSQL protocol")]
pub struct BadMessage;

/// The transaction status in the body of ReadyForQuery.
///
/// # Errors
/// For another body.
pub fn ready_status(body: &[u8]) -> Result<TransactionStatus, BadMessage> {
    match body {
        b"I" => Ok(TransactionStatus::Idle),
        b"T" => Ok(TransactionStatus::InBlock),
        b"E" => Ok(TransactionStatus::Failed),
        _ => Err(BadMessage),
    }
}

/// The strings at the beginning of a body, as ParameterStatus and CommandComplete have them.
///
/// # Errors
/// Where there is none, or it is not UTF-8.
pub fn take_string<'a>(body: &mut &'a [u8]) -> Result<&'a str, BadMessage> {
    let end = body.iter().position(|byte| *byte == 0).ok_or(BadMessage)?;
    let (text, rest) = body.split_at(end);
    *body = &rest[1..];
    std::str::from_utf8(text).map_err(|_| BadMessage)
}

/// The fields of an ErrorResponse or a NoticeResponse: each a letter and a text.
pub fn fields(mut body: &[u8]) -> impl Iterator<Item = (u8, &str)> {
    std::iter::from_fn(move || {
        let (tag, rest) = body.split_first()?;
        if *tag == 0 {
            return None;
        }
        body = rest;
        take_string(&mut body).ok().map(|text| (*tag, text))
    })
}

/// A column of RowDescription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescribedColumn<'a> {
    /// Its name.
    pub name: &'a str,
    /// The number of its type.
    pub type_oid: u32,
    /// The type's length in bytes, or -1.
    pub typlen: i16,
    /// The type's modifier, or -1.
    pub typmod: i32,
}

/// The columns of RowDescription.
///
/// # Errors
/// For a body that is none.
pub fn row_description(mut body: &[u8]) -> Result<Vec<DescribedColumn<'_>>, BadMessage> {
    let count = u16::from_be_bytes(take(&mut body)?);
    (0..count)
        .map(|_| {
            let name = take_string(&mut body)?;
            let _table: [u8; 6] = take(&mut body)?;
            let type_oid = u32::from_be_bytes(take(&mut body)?);
            let typlen = i16::from_be_bytes(take(&mut body)?);
            let typmod = i32::from_be_bytes(take(&mut body)?);
            let _format: [u8; 2] = take(&mut body)?;
            Ok(DescribedColumn { name, type_oid, typlen, typmod })
        })
        .collect()
}

/// The types of ParameterDescription.
///
/// # Errors
/// For a body that is none.
pub fn parameter_description(mut body: &[u8]) -> Result<Vec<u32>, BadMessage> {
    let count = u16::from_be_bytes(take(&mut body)?);
    (0..count).map(|_| Ok(u32::from_be_bytes(take(&mut body)?))).collect()
}

/// Reads the values of a DataRow, `None` for NULL, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct RowReader<'a> {
    body: &'a [u8],
    left: u16,
}

impl<'a> RowReader<'a> {
    /// Over the body of a DataRow.
    ///
    /// # Errors
    /// For a body that is none.
    pub fn new(mut body: &'a [u8]) -> Result<Self, BadMessage> {
        let left = u16::from_be_bytes(take(&mut body)?);
        Ok(Self { body, left })
    }

    /// How many values are left.
    pub fn left(&self) -> usize {
        usize::from(self.left)
    }

    /// The next value.
    ///
    /// # Errors
    /// Where there is none, or it ends too early.
    pub fn value(&mut self) -> Result<Option<&'a [u8]>, BadMessage> {
        self.left = self.left.checked_sub(1).ok_or(BadMessage)?;
        let length = i32::from_be_bytes(take(&mut self.body)?);
        if length == -1 {
            return Ok(None);
        }
        let length = usize::try_from(length).map_err(|_| BadMessage)?;
        let (value, rest) = self.body.split_at_checked(length).ok_or(BadMessage)?;
        self.body = rest;
        Ok(Some(value))
    }
}

fn take<const N: usize>(body: &mut &[u8]) -> Result<[u8; N], BadMessage> {
    let (head, rest) = body.split_first_chunk::<N>().ok_or(BadMessage)?;
    *body = rest;
    Ok(*head)
}

fn about(out: &mut Vec<u8>, tag: u8, kind: Target, name: &str) {
    message(out, tag, |out| {
        out.push(match kind {
            Target::Statement => b'S',
            Target::Portal => b'P',
        });
        string(out, name);
    });
}

/// A tag, a length written afterwards, and the body.
fn message(out: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    finish(out, start);
}

fn finish(out: &mut [u8], start: usize) {
    let length = length(out.len() - start);
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// A string with its terminator; a NUL inside would end it early and is left out.
fn string(out: &mut Vec<u8>, text: &str) {
    out.reserve(text.len() + 1);
    // Nearly none has one: it is copied at once.
    match text.as_bytes().contains(&0) {
        false => out.extend_from_slice(text.as_bytes()),
        true => out.extend(text.bytes().filter(|byte| *byte != 0)),
    }
    out.push(0);
}

fn count(count: usize) -> u16 {
    assert!(count <= usize::from(u16::MAX), "a message has at most 65535 of these, not {count}");
    count as u16
}

fn length(length: usize) -> i32 {
    assert!(length <= i32::MAX as usize, "a message has at most 2147483647 bytes, not {length}");
    length as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pg::backend;
    use crate::pg::frontend::{self, Frontend};

    #[test]
    fn a_server_reads_what_a_client_writes() {
        let mut out = Vec::new();
        parse(&mut out, "s1", "SELECT $1", &[23]);
        let values = [(ValueFormat::Binary, Some(&[0, 0, 0, 7][..])), (ValueFormat::Text, None)];
        bind(&mut out, "p", "s1", values.into_iter(), &[ValueFormat::Binary]);
        execute(&mut out, "p", 5);
        sync(&mut out);
        let mut rest = &out[..];
        let mut next = || {
            let (message, used) = frontend::decode(rest, 1 << 20).unwrap().unwrap();
            rest = &rest[used..];
            message
        };
        let Frontend::Parse { name: "s1", sql: "SELECT $1", param_types } = next() else { panic!() };
        assert_eq!(param_types.collect::<Vec<_>>(), [23]);
        let Frontend::Bind(bound) = next() else { panic!() };
        assert_eq!((bound.portal, bound.statement), ("p", "s1"));
        assert_eq!(bound.params().collect::<Vec<_>>(), values);
        assert_eq!(bound.result_formats().collect::<Vec<_>>(), [ValueFormat::Binary]);
        assert!(matches!(next(), Frontend::Execute { portal: "p", max_rows: 5 }));
        assert!(matches!(next(), Frontend::Sync));
        assert!(rest.is_empty());
    }

    #[test]
    fn columns_are_described_field_by_field() {
        let column = backend::ColumnDescription {
            name: "ab",
            table_oid: 0x0102_0304,
            column_number: 0x0506,
            type_oid: 0x0708_090a,
            typlen: 0x0b0c,
            typmod: 0x0d0e_0f10,
            format: ValueFormat::Binary,
        };
        let mut out = Vec::new();
        backend::row_description(&mut out, [column, column].into_iter());
        let fields: Vec<u8> = b"ab\0".iter().copied().chain(1..=16).chain([0, 1]).collect();
        let expected = [&[b'T', 0, 0, 0, 48, 0, 2][..], &fields, &fields].concat();
        assert_eq!(out, expected);
        let described = DescribedColumn { name: "ab", type_oid: 0x0708_090a, typlen: 0x0b0c, typmod: 0x0d0e_0f10 };
        assert_eq!(row_description(&out[HEADER_BYTES..]), Ok(vec![described, described]));
    }

    #[test]
    fn a_string_has_one_end_whatever_is_in_it() {
        let long = "0123456789".repeat(10);
        let long_with = format!("{long}\u{0}{long}\u{0}");
        for text in [
            "",
            "a",
            "\u{0}",
            "\u{0}a\u{0}\u{0}b\u{0}",
            "abcdefgh\u{0}ijklmnop\u{e4}",
            long.as_str(),
            long_with.as_str(),
        ] {
            let mut out = b"before".to_vec();
            string(&mut out, text);
            let expected: Vec<u8> = text.bytes().filter(|byte| *byte != 0).chain([0]).collect();
            assert_eq!(out.strip_prefix(b"before"), Some(&expected[..]), "{text:?}");
        }
    }

    #[test]
    fn a_client_reads_what_a_server_writes() {
        let mut out = Vec::new();
        let mut row = backend::DataRow::begin(&mut out, 2);
        row.value(|out| out.extend_from_slice(b"abc"));
        row.null();
        row.end().unwrap();
        let (tag, used) = header(&out).unwrap().unwrap();
        assert_eq!((tag, used), (b'D', out.len()));
        let mut reader = RowReader::new(&out[HEADER_BYTES..]).unwrap();
        assert_eq!(reader.value(), Ok(Some(&b"abc"[..])));
        assert_eq!(reader.value(), Ok(None));
        assert_eq!(reader.value(), Err(BadMessage));
        assert_eq!(header(&out[..4]), Ok(None));
        assert_eq!(header(&[b'D', 0, 0, 0, 3]), Err(BadMessage));
        assert_eq!(header(&[b'D', 255, 0, 0, 3]), Err(BadMessage));
    }
}
