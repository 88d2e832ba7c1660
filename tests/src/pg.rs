//! A tiny blocking PostgreSQL connection for the tests: raw messages out, raw messages in, nothing interpreted.
//!
//! Used where a driver would hide what is tested (conversations, faults) and to see whether a server is up.

use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Result, bail};

use crate::process::PATIENCE;

/// How long one message may take. Generous: threads of queries, which are nice, hardly advance while other tests have both
/// cores.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(180);

/// One message of the server: its type byte and its body without the length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The type byte.
    pub kind: u8,
    /// What follows the length.
    pub body: Vec<u8>,
}

impl Message {
    /// A field of an ErrorResponse or NoticeResponse: `C` the SQLSTATE, `M` the message, `P` the position, ...
    pub fn field(&self, name: u8) -> Option<String> {
        self.body
            .split(|byte| *byte == 0)
            .find(|field| field.first() == Some(&name))
            .map(|field| String::from_utf8_lossy(&field[1..]).into_owned())
    }

    /// The values of a DataRow, taken as text.
    pub fn row(&self) -> Vec<Option<String>> {
        let mut body = Cursor(&self.body);
        let count = body.i16();
        (0..count)
            .map(|_| {
                let length = body.i32();
                (length >= 0).then(|| String::from_utf8_lossy(body.bytes(length as usize)).into_owned())
            })
            .collect()
    }
}

/// Reads the fields of a message body from the front; a short body is a failure of the test.
pub struct Cursor<'a>(pub &'a [u8]);

impl<'a> Cursor<'a> {
    /// The next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        assert!(count <= self.0.len(), "a message is {} bytes too short", count - self.0.len());
        let (head, tail) = self.0.split_at(count);
        self.0 = tail;
        head
    }

    /// The next byte.
    pub fn u8(&mut self) -> u8 {
        self.bytes(1)[0]
    }

    /// The next 16-bit integer.
    pub fn i16(&mut self) -> i16 {
        i16::from_be_bytes(self.bytes(2).try_into().unwrap())
    }

    /// The next 32-bit integer.
    pub fn i32(&mut self) -> i32 {
        i32::from_be_bytes(self.bytes(4).try_into().unwrap())
    }

    /// The next zero-terminated string.
    pub fn string(&mut self) -> String {
        let end = self.0.iter().position(|byte| *byte == 0).expect("a string without its end");
        let text = String::from_utf8_lossy(self.bytes(end)).into_owned();
        self.bytes(1);
        text
    }
}

/// One connection, past the start-up unless made by [`Connection::raw`].
pub struct Connection {
    reader: BufReader<TcpStream>,
    /// What a cancel request must carry, from BackendKeyData.
    pub key: Vec<u8>,
    /// What the server told about itself during start-up.
    pub parameters: Vec<(String, String)>,
}

impl Connection {
    /// Connects a socket and sends nothing.
    pub fn raw(address: SocketAddr) -> Result<Connection> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(MESSAGE_TIMEOUT))?;
        stream.set_write_timeout(Some(MESSAGE_TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Connection { reader: BufReader::new(stream), key: Vec::new(), parameters: Vec::new() })
    }

    /// Connects, starts up with these parameters and reads to the first ReadyForQuery.
    pub fn open(address: SocketAddr, parameters: &[(&str, &str)]) -> Result<Connection> {
        let mut connection = Connection::raw(address)?;
        connection.send(&startup(parameters))?;
        loop {
            let message = connection.read()?;
            match message.kind {
                b'R' if message.body == [0, 0, 0, 0] => {}
                b'S' => {
                    let mut body = Cursor(&message.body);
                    connection.parameters.push((body.string(), body.string()));
                }
                b'K' => connection.key = message.body,
                b'Z' => return Ok(connection),
                b'N' => {}
                _ => bail!("during start-up: {}", describe(&message)),
            }
        }
    }

    /// [`Connection::open`] as the user `postgres`.
    pub fn connect(address: SocketAddr) -> Result<Connection> {
        Connection::open(address, &[("user", "postgres"), ("database", "postgres")])
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.reader.get_mut().write_all(bytes)?;
        Ok(())
    }

    /// Reads one message.
    pub fn read(&mut self) -> Result<Message> {
        let mut head = [0; 5];
        self.reader.read_exact(&mut head)?;
        let length = i32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        if length < 4 {
            bail!("a message of type {:?} has the length {length}", head[0] as char);
        }
        let mut body = vec![0; length as usize - 4];
        self.reader.read_exact(&mut body)?;
        Ok(Message { kind: head[0], body })
    }

    /// How long to wait for a message from now on.
    pub fn set_timeout(&self, timeout: Duration) -> Result<()> {
        self.reader.get_ref().set_read_timeout(Some(timeout))?;
        Ok(())
    }

    /// The next byte alone: the answer to SSLRequest, which is no message.
    pub fn read_byte(&mut self) -> Result<u8> {
        let mut byte = [0];
        self.reader.read_exact(&mut byte)?;
        Ok(byte[0])
    }

    /// The next bytes, whatever they are: so many, or as many as come before the connection ends.
    pub fn read_up_to(&mut self, count: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match self.reader.by_ref().take(count as u64).read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Ok(bytes),
            Err(error) => Err(error.into()),
        }
    }

    /// Runs a string of the simple protocol; the rows as text, or the first error as `SQLSTATE: message`.
    pub fn query(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>> {
        self.send(&message(b'Q', &[sql.as_bytes(), b"\0"]))?;
        let mut rows = Vec::new();
        let mut error = None;
        loop {
            let message = self.read()?;
            match message.kind {
                b'D' => rows.push(message.row()),
                b'E' if error.is_none() => error = Some(describe(&message)),
                b'Z' => break,
                _ => {}
            }
        }
        match error {
            Some(error) => bail!("{error}"),
            None => Ok(rows),
        }
    }

    /// The only value of a query's only row.
    pub fn value(&mut self, sql: &str) -> Result<String> {
        match &self.query(sql)?[..] {
            [row] if row.len() == 1 => Ok(row[0].clone().unwrap_or_else(|| "NULL".to_owned())),
            rows => bail!("one value expected, got {rows:?}"),
        }
    }

    /// Whether the server closes the connection; what it still says before is thrown away.
    pub fn closes(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.reader.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    /// Closes the sending half only.
    pub fn stop_sending(&self) -> Result<()> {
        self.reader.get_ref().shutdown(Shutdown::Write)?;
        Ok(())
    }
}

/// Asks the server at `address` to cancel what the connection with this `key` is doing.
pub fn cancel(address: SocketAddr, key: &[u8]) -> Result<()> {
    let mut connection = Connection::raw(address)?;
    let mut bytes = ((8 + key.len()) as i32).to_be_bytes().to_vec();
    bytes.extend_from_slice(&80_877_102_i32.to_be_bytes());
    bytes.extend_from_slice(key);
    connection.send(&bytes)?;
    connection.closes();
    Ok(())
}

/// One frontend message: its type byte, the length, the parts of its body.
pub fn message(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length = 4 + parts.iter().map(|part| part.len()).sum::<usize>();
    let mut bytes = vec![kind];
    bytes.extend_from_slice(&(length as i32).to_be_bytes());
    for part in parts {
        bytes.extend_from_slice(part);
    }
    bytes
}

/// A StartupMessage of protocol 3.0.
pub fn startup(parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = 196_608_i32.to_be_bytes().to_vec();
    for (name, value) in parameters {
        for text in [name, value] {
            body.extend_from_slice(text.as_bytes());
            body.push(0);
        }
    }
    body.push(0);
    let mut bytes = ((body.len() + 4) as i32).to_be_bytes().to_vec();
    bytes.extend_from_slice(&body);
    bytes
}

/// A message for a failure text: errors as `SQLSTATE: message`, others by their type.
pub fn describe(message: &Message) -> String {
    match message.kind {
        b'E' | b'N' => {
            format!("{}: {}", message.field(b'C').unwrap_or_default(), message.field(b'M').unwrap_or_default())
        }
        kind => format!("message {:?} of {} bytes", kind as char, message.body.len()),
    }
}
