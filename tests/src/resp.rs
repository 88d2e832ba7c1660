//! A tiny blocking RESP client for the tests: commands out, replies of both protocol versions in.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process::PATIENCE;

/// How long one reply may take: as long as a message of the other protocol, for the same reason.
const REPLY_TIMEOUT: Duration = Duration::from_secs(180);

/// One reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// `+text`
    Simple(String),
    /// `-text`
    Error(String),
    /// `:number`
    Integer(i64),
    /// `$length`
    Bulk(Vec<u8>),
    /// `$-1`, `*-1` or `_`
    Null,
    /// `*count`
    Array(Vec<Reply>),
    /// `%count`
    Map(Vec<(Reply, Reply)>),
    /// `~count`
    Set(Vec<Reply>),
    /// `,number`, as it was written
    Double(String),
    /// `#t` or `#f`
    Boolean(bool),
    /// `=length`: format, then text
    Verbatim(String, Vec<u8>),
    /// `(number`, as it was written
    BigNumber(String),
    /// `>count`
    Push(Vec<Reply>),
}

impl Reply {
    /// A bulk string of this text.
    pub fn bulk(text: impl AsRef<[u8]>) -> Reply {
        Reply::Bulk(text.as_ref().to_vec())
    }

    /// The text of a bulk or simple string.
    pub fn text(&self) -> Option<String> {
        match self {
            Reply::Bulk(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            Reply::Simple(text) => Some(text.clone()),
            _ => None,
        }
    }
}

/// One connection.
pub struct Client {
    reader: BufReader<TcpStream>,
}

impl Client {
    /// Connects; says nothing yet.
    pub fn connect(address: SocketAddr) -> Result<Client> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Client { reader: BufReader::new(stream) })
    }

    /// Sends one command and reads its reply.
    pub fn command<A: AsRef<[u8]>>(&mut self, words: &[A]) -> Result<Reply> {
        let mut bytes = Vec::new();
        encode(words, &mut bytes);
        self.send_raw(&bytes)?;
        self.read_reply()
    }

    /// Sends several commands in one write and reads all replies.
    pub fn pipeline(&mut self, commands: &[Vec<Vec<u8>>]) -> Result<Vec<Reply>> {
        let mut bytes = Vec::new();
        for command in commands {
            encode(command, &mut bytes);
        }
        self.send_raw(&bytes)?;
        commands.iter().map(|_| self.read_reply()).collect()
    }

    /// Sends bytes as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) -> Result<()> {
        self.reader.get_mut().write_all(bytes)?;
        Ok(())
    }

    /// Reads one reply.
    pub fn read_reply(&mut self) -> Result<Reply> {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line)?;
        if !line.ends_with(b"\r\n") {
            bail!("the connection ended in a reply: {:?}", String::from_utf8_lossy(&line));
        }
        line.truncate(line.len() - 2);
        let (kind, text) = line.split_first().context("an empty reply line")?;
        let text = String::from_utf8(text.to_vec())?;
        Ok(match kind {
            b'+' => Reply::Simple(text),
            b'-' => Reply::Error(text),
            b':' => Reply::Integer(text.parse()?),
            b',' => Reply::Double(text),
            b'(' => Reply::BigNumber(text),
            b'#' => Reply::Boolean(text == "t"),
            b'_' => Reply::Null,
            b'$' | b'=' if text == "-1" => Reply::Null,
            b'$' => Reply::Bulk(self.read_bulk(text.parse()?)?),
            b'=' => {
                let bytes = self.read_bulk(text.parse()?)?;
                let (format, rest) = bytes.split_at_checked(4).context("a verbatim string without its format")?;
                Reply::Verbatim(String::from_utf8_lossy(&format[..3]).into_owned(), rest.to_vec())
            }
            b'*' if text == "-1" => Reply::Null,
            b'*' => Reply::Array(self.read_many(text.parse()?)?),
            b'~' => Reply::Set(self.read_many(text.parse()?)?),
            b'>' => Reply::Push(self.read_many(text.parse()?)?),
            b'%' => {
                let count: usize = text.parse()?;
                let mut pairs = Vec::new();
                for _ in 0..count {
                    pairs.push((self.read_reply()?, self.read_reply()?));
                }
                Reply::Map(pairs)
            }
            _ => bail!("not a reply: {:?}", String::from_utf8_lossy(&line)),
        })
    }

    /// Whether the server closes the connection; what it still says before is thrown away.
    pub fn closes(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.reader.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    fn read_many(&mut self, count: usize) -> Result<Vec<Reply>> {
        (0..count).map(|_| self.read_reply()).collect()
    }

    fn read_bulk(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length + 2];
        self.reader.read_exact(&mut bytes)?;
        if !bytes.ends_with(b"\r\n") {
            bail!("a bulk string does not end where its length says");
        }
        bytes.truncate(length);
        Ok(bytes)
    }
}

/// Appends a command as an array of bulk strings.
pub fn encode<A: AsRef<[u8]>>(words: &[A], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        let word = word.as_ref();
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}
