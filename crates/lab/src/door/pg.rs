//! A client of the PostgreSQL door: the simple protocol to prepare tables, COPY to fill them, and prepared statements to
//! measure. No encryption; a password in clear text, as MD5 or by SCRAM-SHA-256, for a proxy that cannot do without and for servers
//! that others run.

use std::fmt::Display;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use md5::{Digest, Md5};
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};

use super::incoming::Incoming;
use super::login::{self, Login};

/// A message longer than this is a broken stream, not a row.
const MESSAGE_BYTES_MAX: usize = 1 << 30;

/// What to do when one refuses who we are.
const LOGIN: &str = "of a server that runs already PGUSER, PGPASSWORD and PGDATABASE say who the lab is";

/// As servers name it.
const SCRAM: &[u8] = SCRAM_SHA_256.as_bytes();

/// The password of the user `postgres` at a server of the lab that asks for one.
pub(crate) const PASSWORD: &str = "postgres";

/// COPY sends pieces of about this size.
const COPY_BYTES: usize = 64 * 1024;

/// Takes a line of COPY.
pub(crate) type Line<'a> = &'a mut dyn FnMut(&[u8]) -> Result<()>;

/// A connection past its start-up.
pub(crate) struct PgClient {
    stream: TcpStream,
    out: Vec<u8>,
    incoming: Incoming,
    version: String,
    in_transaction: bool,
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
    /// Connects, as the user `postgres` to the database `postgres` of a server of the lab's, and as the environment says of any other.
    pub(crate) fn connect(address: SocketAddr) -> Result<Self> {
        Self::connect_within(address, super::ANSWER_TIMEOUT)
    }

    /// Likewise; no answer may take longer than this.
    pub(crate) fn connect_within(address: SocketAddr, patience: Duration) -> Result<Self> {
        let stream = super::connect(address)?;
        let (incoming, version) = (Incoming::new(patience), String::new());
        let mut client = Self { stream, out: Vec::new(), incoming, version, in_transaction: false };
        let Login { user, database, password, .. } = login::of(address);
        let mut scram = ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported());
        let mut body = 196_608_i32.to_be_bytes().to_vec();
        for text in ["user", &user, "database", &database, "application_name", "ashlar-lab", ""] {
            body.extend_from_slice(text.as_bytes());
            body.push(0);
        }
        client.out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        client.out.extend_from_slice(&body);
        client.flush()?;
        loop {
            match client.message()? {
                (b'R', [0, 0, 0, 0]) | (b'K' | b'N' | b'v', _) => {}
                (b'R', [0, 0, 0, 3]) => {
                    client.send(b'p', &[password.as_bytes(), b"\0"]);
                    client.flush()?;
                }
                (b'R', [0, 0, 0, 5, salt @ ..]) => {
                    let answer = hashed(&password, &user, salt);
                    client.send(b'p', &[answer.as_bytes(), b"\0"]);
                    client.flush()?;
                }
                (b'R', [0, 0, 0, 10, ways @ ..]) if ways.split(|byte| *byte == 0).any(|way| way == SCRAM) => {
                    let first = scram.message();
                    client.send(b'p', &[SCRAM, b"\0", &(first.len() as u32).to_be_bytes(), first]);
                    client.flush()?;
                }
                (b'R', [0, 0, 0, 11, challenge @ ..]) => {
                    scram.update(challenge).with_context(|| format!("the password at {address}"))?;
                    client.send(b'p', &[scram.message()]);
                    client.flush()?;
                }
                (b'R', [0, 0, 0, 12, proof @ ..]) => {
                    scram.finish(proof).with_context(|| format!("{address} does not know the password itself"))?;
                }
                (b'R', _) => bail!("{address} asks for a password in a way that the lab does not know"),
                (b'S', body) => {
                    let mut parts = body.split(|byte| *byte == 0).map(String::from_utf8_lossy);
                    if parts.next().as_deref() == Some("server_version") {
                        client.version = parts.next().unwrap_or_default().into_owned();
                    }
                }
                (b'E', body) => bail!("{address} refuses: {}; {LOGIN}", report(body)),
                (b'Z', _) => return Ok(client),
                (kind, _) => bail!("{address} sends a message {:?} at the start", kind.escape_ascii().to_string()),
            }
        }
    }

    /// The version that the server reported.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// Whether the last answer left a transaction open, be it one that has failed.
    pub(crate) fn in_transaction(&self) -> bool {
        self.in_transaction
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
        self.prepare_typed(name, sql, &[])
    }

    /// Likewise; its first parameters have these types, by their object ids, as a driver declares them.
    pub(crate) fn prepare_typed(&mut self, name: &str, sql: &str, types: &[u32]) -> Result<()> {
        let declared: Vec<u8> = types.iter().flat_map(|id| id.to_be_bytes()).collect();
        let count = (types.len() as u16).to_be_bytes();
        self.send(b'P', &[name.as_bytes(), b"\0", sql.as_bytes(), b"\0", &count, &declared]);
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

    /// Adds an execution of a prepared statement with these parameters, written as text, to those that are ready for
    /// [`PgClient::run_all`].
    pub(crate) fn add(&mut self, name: &str, params: &[&dyn Display]) {
        let start = self.open(b'B');
        self.out.push(0);
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(&[0, 0, 0]);
        self.out.extend_from_slice(&(params.len() as u16).to_be_bytes());
        for param in params {
            let length_at = self.out.len();
            self.out.extend_from_slice(&[0; 4]);
            // Writing to a vector cannot fail.
            let _ = write!(self.out, "{param}");
            let length = (self.out.len() - length_at - 4) as u32;
            self.out[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
        }
        self.out.extend_from_slice(&[0, 0]);
        self.close(start);
        self.send(b'E', &[&[0, 0, 0, 0, 0]]);
    }

    /// Runs the executions that were added, as one write and one round trip: the tag of each, or the first error, after which the
    /// server has left out the rest.
    pub(crate) fn run_all(&mut self, on_row: &mut dyn FnMut(Row<'_>)) -> Result<Result<Vec<String>, String>> {
        self.send(b'S', &[]);
        self.flush()?;
        let mut tags = Vec::new();
        let outcome = self.answers_each(on_row, &mut |tag| tags.push(tag.to_owned()))?;
        Ok(outcome.map(|()| tags))
    }

    /// Runs the execution that was made ready: one write, one round trip.
    pub(crate) fn run(&mut self, on_row: &mut dyn FnMut(Row<'_>)) -> Result<Tag> {
        self.flush()?;
        self.answers(on_row)
    }

    /// Fills a table: `line` appends the next line of COPY's text form, until it says that there are none.
    pub(crate) fn copy_in(&mut self, sql: &str, line: &mut dyn FnMut(&mut Vec<u8>) -> bool) -> Result<String> {
        self.begin_copy(sql)?;
        let mut more = true;
        while more {
            let start = self.open(b'd');
            while more && self.out.len() < COPY_BYTES {
                more = line(&mut self.out);
            }
            self.close(start);
            self.flush()?;
        }
        self.end_copy(sql)
    }

    /// Likewise, where `lines` hands over the lines, of one call of it: its error ends the COPY, and the connection with it.
    pub(crate) fn copy_in_from(&mut self, sql: &str, lines: &mut dyn FnMut(Line<'_>) -> Result<()>) -> Result<String> {
        self.begin_copy(sql)?;
        let mut start = self.open(b'd');
        lines(&mut |line| {
            self.out.extend_from_slice(line);
            if self.out.len() >= COPY_BYTES {
                self.close(start);
                self.flush()?;
                start = self.open(b'd');
            }
            Ok(())
        })?;
        self.close(start);
        self.flush()?;
        self.end_copy(sql)
    }

    fn begin_copy(&mut self, sql: &str) -> Result<()> {
        self.send(b'Q', &[sql.as_bytes(), b"\0"]);
        self.flush()?;
        loop {
            match self.message()? {
                (b'G', _) => return Ok(()),
                (b'E', body) => bail!("{sql}: {}", report(body)),
                _ => {}
            }
        }
    }

    fn end_copy(&mut self, sql: &str) -> Result<String> {
        self.send(b'c', &[]);
        self.flush()?;
        self.answers(&mut |_| {})?.map_err(anyhow::Error::msg).with_context(|| sql.to_owned())
    }

    /// Reads to the next ReadyForQuery: rows, and the last tag or the first error.
    fn answers(&mut self, on_row: &mut dyn FnMut(Row<'_>)) -> Result<Tag> {
        let mut last = String::new();
        let outcome = self.answers_each(on_row, &mut |tag| tag.clone_into(&mut last))?;
        Ok(outcome.map(|()| last))
    }

    /// Likewise: rows, each tag, and the first error.
    fn answers_each(
        &mut self,
        on_row: &mut dyn FnMut(Row<'_>),
        on_tag: &mut dyn FnMut(&str),
    ) -> Result<Result<(), String>> {
        let mut outcome = Ok(());
        loop {
            match self.message()? {
                (b'D', body) => on_row(Row(body.get(2..).unwrap_or_default())),
                (b'C', body) if outcome.is_ok() => {
                    on_tag(&String::from_utf8_lossy(body.strip_suffix(b"\0").unwrap_or(body)));
                }
                (b'E', body) if outcome.is_ok() => outcome = Err(report(body)),
                (b'Z', status) => {
                    let open = status != b"I";
                    self.in_transaction = open;
                    return Ok(outcome);
                }
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

/// The answer to AuthenticationMD5Password: see the section "Message Flow" of PostgreSQL's manual.
fn hashed(password: &str, user: &str, salt: &[u8]) -> String {
    let hex = |parts: &[&[u8]]| -> String {
        let mut hash = Md5::new();
        parts.iter().for_each(|part| hash.update(part));
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    };
    format!("md5{}", hex(&[hex(&[password.as_bytes(), user.as_bytes()]).as_bytes(), salt]))
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
    fn a_password_is_hashed_as_postgres_does() {
        // md5(md5('postgres' || 'postgres') || salt), by PostgreSQL's own md5().
        assert_eq!(hashed("postgres", "postgres", &[1, 2, 3, 4]), "md568be9ed08db75f318087ab337aaea044");
    }

    #[test]
    fn an_error_is_its_code_and_its_message() {
        assert_eq!(
            report(b"SERROR\0C42P01\0Mrelation \"x\" does not exist\0\0"),
            "42P01: relation \"x\" does not exist"
        );
    }
}
