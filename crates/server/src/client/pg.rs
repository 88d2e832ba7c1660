//! A client of PostgreSQL's simple protocol: text in, text out, no password, no encryption.
//!
//! Used by `ashlar sql` and the demo. Not for speed: it keeps whole results.

use std::fmt;
use std::net::SocketAddr;

use ashlar_base::net;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::ClientError;

/// A message longer than this is a broken stream, not a row.
const MESSAGE_BYTES_MAX: usize = 1 << 30;

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultColumn {
    /// Its name.
    pub name: String,
    /// The OID of its type.
    pub type_oid: u32,
}

/// What one statement answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The columns; none where the statement returns no rows.
    pub columns: Option<Vec<ResultColumn>>,
    /// The rows in text form; `None` is NULL.
    pub rows: Vec<Vec<Option<String>>>,
    /// What COPY TO STDOUT sent.
    pub copied: String,
    /// The command tag, such as `SELECT 3`; empty for an empty statement.
    pub tag: String,
}

/// An error or a notice of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// `ERROR`, `FATAL`, `NOTICE`, ...
    pub severity: String,
    /// The SQLSTATE.
    pub code: String,
    /// The sentence.
    pub message: String,
    /// More of what is known.
    pub detail: Option<String>,
    /// What to do next.
    pub hint: Option<String>,
    /// Where in the statement, in characters counted from 1.
    pub position: Option<usize>,
}

/// The answer to one string of statements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// One per statement that was carried out.
    pub answers: Vec<Answer>,
    /// Notices, in order.
    pub notices: Vec<Report>,
    /// The error that ended it.
    pub error: Option<Report>,
}

/// A connection.
#[derive(Debug)]
pub struct PgClient {
    stream: BufReader<TcpStream>,
    /// `server_version` and the like, as the server reported them.
    parameters: Vec<(String, String)>,
}

impl PgClient {
    /// Connects and starts a session.
    pub async fn connect(address: SocketAddr, user: &str, database: &str) -> Result<Self, ClientError> {
        let stream = net::connect(address).await.map_err(|error| ClientError::Connect(address, error))?;
        let mut client = Self { stream: BufReader::with_capacity(64 * 1024, stream), parameters: Vec::new() };
        let mut body = 196_608_i32.to_be_bytes().to_vec();
        for text in ["user", user, "database", database, "application_name", "ashlar", "client_encoding", "UTF8", ""] {
            body.extend_from_slice(text.as_bytes());
            body.push(0);
        }
        let mut packet = length_of(body.len()).to_vec();
        packet.append(&mut body);
        client.stream.write_all(&packet).await?;
        loop {
            let (tag, body) = client.message().await?;
            let mut fields = Fields(&body);
            match tag {
                b'R' if fields.i32()? == 0 => {}
                b'R' => return Err(ClientError::Refused("the server asks for a password".to_owned())),
                b'S' => {
                    let parameter = (fields.text()?, fields.text()?);
                    client.parameters.push(parameter);
                }
                b'K' | b'N' | b'v' => {}
                b'E' => return Err(ClientError::Refused(fields.report()?.to_string())),
                b'Z' => return Ok(client),
                other => return Err(unexpected(other)),
            }
        }
    }

    /// A setting as the server last reported it.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Runs a string of statements. An error of the server is part of the reply; the connection stays usable.
    pub async fn query(&mut self, sql: &str) -> Result<Reply, ClientError> {
        if sql.contains('\0') {
            return Err(ClientError::Refused("a statement cannot contain a zero byte".to_owned()));
        }
        let mut packet = vec![b'Q'];
        packet.extend_from_slice(&length_of(sql.len() + 1));
        packet.extend_from_slice(sql.as_bytes());
        packet.push(0);
        self.stream.write_all(&packet).await?;

        let mut reply = Reply::default();
        let mut answer = Answer::default();
        loop {
            let (tag, body) = self.message().await?;
            let mut fields = Fields(&body);
            match tag {
                b'T' => answer.columns = Some(fields.columns()?),
                b'D' => answer.rows.push(fields.row()?),
                b'C' => {
                    answer.tag = fields.text()?;
                    reply.answers.push(std::mem::take(&mut answer));
                }
                b'I' => reply.answers.push(std::mem::take(&mut answer)),
                b'S' => {
                    let (name, value) = (fields.text()?, fields.text()?);
                    self.parameters.retain(|(known, _)| *known != name);
                    self.parameters.push((name, value));
                }
                b'N' => reply.notices.push(fields.report()?),
                b'E' => {
                    let report = fields.report()?;
                    if report.severity == "FATAL" {
                        return Err(ClientError::Refused(report.to_string()));
                    }
                    answer = Answer::default();
                    reply.error = Some(report);
                }
                b'H' | b'c' => {}
                b'd' => answer.copied.push_str(&String::from_utf8_lossy(&body)),
                // We have nothing to copy from.
                b'G' => {
                    let reason = b"this client cannot send COPY data\0";
                    let mut packet = vec![b'f'];
                    packet.extend_from_slice(&length_of(reason.len()));
                    packet.extend_from_slice(reason);
                    self.stream.write_all(&packet).await?;
                }
                b'Z' => return Ok(reply),
                other => return Err(unexpected(other)),
            }
        }
    }

    /// Says goodbye.
    pub async fn close(mut self) -> Result<(), ClientError> {
        self.stream.write_all(&[b'X', 0, 0, 0, 4]).await?;
        Ok(self.stream.shutdown().await?)
    }

    async fn message(&mut self) -> Result<(u8, Vec<u8>), ClientError> {
        let tag = self.stream.read_u8().await?;
        let length = usize::try_from(self.stream.read_i32().await?).unwrap_or(0);
        if !(4..=MESSAGE_BYTES_MAX).contains(&length) {
            return Err(ClientError::Protocol(format!("a message of length {length}")));
        }
        let mut body = vec![0; length - 4];
        self.stream.read_exact(&mut body).await?;
        Ok((tag, body))
    }
}

/// The length field of a message whose body has so many bytes.
fn length_of(body: usize) -> [u8; 4] {
    u32::try_from(body + 4).unwrap_or(u32::MAX).to_be_bytes()
}

fn unexpected(tag: u8) -> ClientError {
    ClientError::Protocol(format!("message \"{}\"", tag.escape_ascii()))
}

/// What is left of a message.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn bytes(&mut self, count: usize) -> Result<&[u8], ClientError> {
        let (bytes, rest) = self
            .0
            .split_at_checked(count)
            .ok_or_else(|| ClientError::Protocol("a message that ends too early".to_owned()))?;
        self.0 = rest;
        Ok(bytes)
    }

    fn i16(&mut self) -> Result<i16, ClientError> {
        self.bytes(2).map(|bytes| i16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn i32(&mut self) -> Result<i32, ClientError> {
        self.bytes(4).map(|bytes| i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn text(&mut self) -> Result<String, ClientError> {
        let end = self.0.iter().position(|&byte| byte == 0);
        let end = end.ok_or_else(|| ClientError::Protocol("a string without an end".to_owned()))?;
        let text = String::from_utf8_lossy(&self.0[..end]).into_owned();
        self.0 = &self.0[end + 1..];
        Ok(text)
    }

    fn columns(&mut self) -> Result<Vec<ResultColumn>, ClientError> {
        (0..self.i16()?)
            .map(|_| {
                let name = self.text()?;
                // Table OID and column number before, length, modifier and format after.
                self.bytes(6)?;
                let type_oid = self.i32()?.cast_unsigned();
                self.bytes(8)?;
                Ok(ResultColumn { name, type_oid })
            })
            .collect()
    }

    fn row(&mut self) -> Result<Vec<Option<String>>, ClientError> {
        (0..self.i16()?)
            .map(|_| match usize::try_from(self.i32()?) {
                Ok(length) => Ok(Some(String::from_utf8_lossy(self.bytes(length)?).into_owned())),
                Err(_) => Ok(None),
            })
            .collect()
    }

    fn report(&mut self) -> Result<Report, ClientError> {
        let mut report = Report::default();
        loop {
            let tag = self.bytes(1)?[0];
            if tag == 0 {
                return Ok(report);
            }
            let text = self.text()?;
            match tag {
                b'V' => report.severity = text,
                b'C' => report.code = text,
                b'M' => report.message = text,
                b'D' => report.detail = Some(text),
                b'H' => report.hint = Some(text),
                b'P' => report.position = text.parse().ok(),
                _ => {}
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:  {}: {}", self.severity, self.code, self.message)?;
        if let Some(position) = self.position {
            write!(f, " (at character {position})")?;
        }
        if let Some(detail) = &self.detail {
            write!(f, "\nDETAIL:  {detail}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\nHINT:  {hint}")?;
        }
        Ok(())
    }
}
