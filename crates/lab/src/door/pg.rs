//! A client of the PostgreSQL door: the simple protocol to prepare tables, COPY to fill them, and prepared statements to
//! measure. No password, no encryption: what the lab starts asks for neither.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::incoming::Incoming;

/// A message longer than this is a broken stream, not a row.
const MESSAGE_BYTES_MAX: usize = 1 << 30;

/// COPY sends pieces of about this size.
const COPY_BYTES: usize = 64 * 1024;

/// A connection past its start-up.
pub(crate) struct PgClient {
    stream: TcpStream,
    out: Vec<u8>,
    incoming: Incoming,
    version: String,
}

/// The columns of a row, from the first on, in text form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a>(&'a [u8]);

impl<'a> Row<'a> {
    /// The next column; None for NULL, and where no column is left.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<&'a [u8]> {
        // What is no row has no columns left: who asks for them until the row is over gets to the end.
        let (length, rest) = std::mem::take(&mut self.0).split_first_chunk()?;
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            self.0 = rest;
            return None;
        };
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(value)
    }

    /// Whether no column is left.
    pub(crate) fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// The next column as an integer, if it is one.
    #[inline]
    pub(crate) fn next_integer(&mut self) -> Option<i64> {
        str::from_utf8(self.next()?).ok()?.parse().ok()
    }
}

/// What a statement answered: its command tag, or the server's error.
pub(crate) type Tag = Result<String, String>;

impl PgClient {
    /// Connects as the user `postgres` to the database `postgres`.
    pub(crate) fn connect(address: SocketAddr) -> Result<Self> {
        Self::connect_within(address, super::ANSWER_TIMEOUT)
    }

    /// Likewise; no answer may take longer than this.
    pub(crate) fn connect_within(address: SocketAddr, patience: Duration) -> Result<Self> {
        let stream = super::connect(address)?;
        let mut client = Self { stream, out: Vec::new(), incoming: Incoming::new(patience), version: String::new() };
        let mut body = 196_608_i32.to_be_bytes().to_vec();
        for text in ["user", "postgres", "database", "postgres", "application_name", "ashlar-lab", ""] {
            body.extend_from_slice(text.as_bytes());
            body.push(0);
        }
        client.out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        client.out.extend_from_slice(&body);
        client.flush()?;
        loop {
            match client.message()? {
                (b'R', [0, 0, 0, 0]) | (b'K' | b'N' | b'v', _) => {}
                (b'R', _) => bail!("{address} asks for a password"),
                (b'S', body) => {
                    let mut parts = body.split(|byte| *byte == 0).map(String::from_utf8_lossy);
                    if parts.next().as_deref() == Some("server_version") {
                        client.version = parts.next().unwrap_or_default().into_owned();
                    }
                }
                (b'E', body) => bail!("{address} refuses: {}", report(body)),
                (b'Z', _) => return Ok(client),
                (kind, _) => bail!("{address} sends a message {:?} at the start", kind.escape_ascii().to_string()),
            }
        }
    }

    /// The version that the server reported.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// Runs statements of the simple protocol; the rows as text, each up to its first NULL.
    pub(crate) fn query(&mut self, sql: &str) -> Result<Vec<Vec<String>>> {
        self.send(b'Q', &[sql.as_bytes(), b"\0"]);
        self.flush()?;
        let mut rows = Vec::new();
        self.answers(&mut |mut row| {
            let mut values = Vec::new();
            while let Some(value) = row.next() {
                values.push(String::from_utf8_lossy(value).into_owned());
            }
            rows.push(values);
        })?
        .map_err(anyhow::Error::msg)
        .with_context(|| sql.chars().take(120).collect::<String>())?;
        Ok(rows)
    }

    /// Runs one statement of the simple protocol; `on_row` gets its rows.
    pub(crate) fn ask(&mut self, sql: &str, on_row: &mut dyn FnMut(Row<'_>)) -> Result<Tag> {
        self.send(b'Q', &[sql.as_bytes(), b"\0"]);
        self.flush()?;
        self.answers(on_row)
    }

    /// Makes a prepared statement.
    pub(crate) fn prepare(&mut self, name: &str, sql: &str) -> Result<()> {
        self.send(b'P', &[name.as_bytes(), b"\0", sql.as_bytes(), b"\0", &[0, 0]]);
        self.send(b'S', &[]);
        self.flush()?;
        self.answers(&mut |_| {})?.map_err(anyhow::Error::msg).with_context(|| sql.to_owned())?;
        Ok(())
    }

    /// Makes an execution of a prepared statement with these parameters, in text form, ready for [`PgClient::run`].
    pub(crate) fn bind(&mut self, name: &str, params: &[&str]) {
        let start = self.open(b'B');
        self.out.push(0);
        self.out.extend_from_slice(name.as_bytes());
        // No format codes: all text.
        self.out.extend_from_slice(&[0, 0, 0]);
        self.out.extend_from_slice(&(params.len() as u16).to_be_bytes());
        for param in params {
            self.out.extend_from_slice(&(param.len() as u32).to_be_bytes());
            self.out.extend_from_slice(param.as_bytes());
        }
        self.out.extend_from_slice(&[0, 0]);
        self.close(start);
        self.send(b'E', &[&[0, 0, 0, 0, 0]]);
        self.send(b'S', &[]);
    }

    /// Runs the execution that was made ready: one write, one round trip.
    pub(crate) fn run(&mut self, on_row: &mut dyn FnMut(Row<'_>)) -> Result<Tag> {
        self.flush()?;
        self.answers(on_row)
    }

    /// Fills a table: `line` appends the next line of COPY's text form, until it says that there are none.
    pub(crate) fn copy_in(&mut self, sql: &str, line: &mut dyn FnMut(&mut Vec<u8>) -> bool) -> Result<String> {
        self.send(b'Q', &[sql.as_bytes(), b"\0"]);
        self.flush()?;
        loop {
            match self.message()? {
                (b'G', _) => break,
                (b'E', body) => bail!("{sql}: {}", report(body)),
                _ => {}
            }
        }
        let mut more = true;
        while more {
            let start = self.open(b'd');
            while more && self.out.len() < COPY_BYTES {
                more = line(&mut self.out);
            }
            self.close(start);
            self.flush()?;
        }
        self.send(b'c', &[]);
        self.flush()?;
        self.answers(&mut |_| {})?.map_err(anyhow::Error::msg).with_context(|| sql.to_owned())
    }

    /// Reads to the next ReadyForQuery: rows, and the last tag or the first error.
    fn answers(&mut self, on_row: &mut dyn FnMut(Row<'_>)) -> Result<Tag> {
        let mut outcome: Tag = Ok(String::new());
        loop {
            match self.message()? {
                (b'D', body) => on_row(Row(body.get(2..).unwrap_or_default())),
                (b'C', body) if outcome.is_ok() => {
                    outcome = Ok(String::from_utf8_lossy(body.strip_suffix(b"\0").unwrap_or(body)).into_owned());
                }
                (b'E', body) if outcome.is_ok() => outcome = Err(report(body)),
                (b'Z', _) => return Ok(outcome),
                _ => {}
            }
        }
    }

    /// The next message: its type and its body.
    #[inline]
    fn message(&mut self) -> Result<(u8, &[u8])> {
        let length = loop {
            let ready = self.incoming.ready();
            if let [_, a, b, c, d, rest @ ..] = ready {
                let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
                if !(4..=MESSAGE_BYTES_MAX).contains(&length) {
                    bail!("not PostgreSQL's protocol: a message of length {length}");
                }
                if rest.len() >= length - 4 {
                    break length;
                }
            }
            self.incoming.more(&mut self.stream)?;
        };
        let bytes = self.incoming.take(length + 1);
        Ok((bytes[0], &bytes[5..]))
    }

    fn send(&mut self, kind: u8, parts: &[&[u8]]) {
        let start = self.open(kind);
        parts.iter().for_each(|part| self.out.extend_from_slice(part));
        self.close(start);
    }

    fn open(&mut self, kind: u8) -> usize {
        self.out.push(kind);
        self.out.extend_from_slice(&[0; 4]);
        self.out.len() - 4
    }

    fn close(&mut self, start: usize) {
        let length = (self.out.len() - start) as u32;
        self.out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    fn flush(&mut self) -> Result<()> {
        self.stream.write_all(&self.out).context("sending a statement")?;
        self.out.clear();
        Ok(())
    }
}

/// An error as `SQLSTATE: message`.
fn report(body: &[u8]) -> String {
    let field = |name: u8| {
        let mut fields = body.split(|byte| *byte == 0);
        let found = fields.find_map(|field| field.strip_prefix(&[name]));
        String::from_utf8_lossy(found.unwrap_or_default()).into_owned()
    };
    format!("{}: {}", field(b'C'), field(b'M'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_read_from_the_front() {
        let mut row = Row(b"\0\0\0\x0242\xff\xff\xff\xff\0\0\0\0\0\0\0\x01x");
        assert_eq!(row.next_integer(), Some(42));
        assert_eq!(row.next(), None);
        assert_eq!(row.next(), Some(&b""[..]));
        assert!(!row.is_over());
        assert_eq!(row.next_integer(), None);
        assert!(row.is_over());
        assert_eq!(row.next(), None);
    }

    #[test]
    fn an_error_is_its_code_and_its_message() {
        assert_eq!(
            report(b"SERROR\0C42P01\0Mrelation \"x\" does not exist\0\0"),
            "42P01: relation \"x\" does not exist"
        );
    }
}
