//! A client of the RESP door: commands out in one write, replies in, one header or string at a time, nothing copied.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ashlar_protocol::resp::{ReplyWriter, Version};

use super::incoming::Incoming;

/// A string longer than this is a broken stream: the lab asks for none.
const BULK_BYTES_MAX: i64 = 64 << 20;

/// A connection.
pub(crate) struct RespClient {
    stream: TcpStream,
    out: Vec<u8>,
    incoming: Incoming,
}

/// A reply of RESP2, or the header of an array, whose elements are the next replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply<'a> {
    /// `+text`
    Simple(&'a [u8]),
    /// `-text`
    Error(&'a [u8]),
    /// `:number`
    Integer(i64),
    /// `$length`; None for no value.
    Bulk(Option<&'a [u8]>),
    /// `*count`; None for no array.
    Array(Option<usize>),
}

impl RespClient {
    /// Connects; says nothing yet but a password, to a server that others run.
    pub(crate) fn connect(address: SocketAddr) -> Result<Self> {
        Self::connect_within(address, super::ANSWER_TIMEOUT)
    }

    /// Likewise; no answer may take longer than this.
    pub(crate) fn connect_within(address: SocketAddr, patience: Duration) -> Result<Self> {
        let mut client = Self { stream: super::connect(address)?, out: Vec::new(), incoming: Incoming::new(patience) };
        if let Some(password) = super::login::of(address).resp_password {
            match client.command(&["AUTH", &password])? {
                Reply::Simple(b"OK") => {}
                other => bail!("{address} does not take the password of REDISCLI_AUTH: {other}"),
            }
        }
        Ok(client)
    }

    /// Begins a command of so many words, which follow by [`RespClient::word`].
    pub(crate) fn begin(&mut self, words: usize) {
        self.writer().array(words);
    }

    /// The next word.
    pub(crate) fn word(&mut self, word: &[u8]) {
        self.writer().bulk(word);
    }

    /// Sends what was written since the last time.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.stream.write_all(&self.out).context("sending a command")?;
        self.out.clear();
        Ok(())
    }

    /// Reads a reply.
    pub(crate) fn reply(&mut self) -> Result<Reply<'_>> {
        let (head, tail) = loop {
            match parse(self.incoming.ready())? {
                Some(lengths) => break lengths,
                None => self.incoming.more(&mut self.stream)?,
            }
        };
        let bytes = self.incoming.take(head + tail);
        let text = &bytes[1..head - 2];
        Ok(match bytes[0] {
            b'+' => Reply::Simple(text),
            b'-' => Reply::Error(text),
            b':' => Reply::Integer(number(text)?),
            b'$' if tail == 0 => Reply::Bulk(None),
            b'$' => Reply::Bulk(Some(&bytes[head..head + tail - 2])),
            _ => Reply::Array(usize::try_from(number(text)?).ok()),
        })
    }

    /// Sends one command and reads its reply.
    pub(crate) fn command(&mut self, words: &[&str]) -> Result<Reply<'_>> {
        self.begin(words.len());
        words.iter().for_each(|word| self.word(word.as_bytes()));
        self.flush()?;
        self.reply()
    }

    fn writer(&mut self) -> ReplyWriter<'_> {
        // A command is an array of bulk strings, which is a reply too.
        ReplyWriter::new(&mut self.out, Version::Resp2)
    }
}

/// Lengths of the line and of what follows it, line ends included; None if bytes are missing.
#[inline]
fn parse(bytes: &[u8]) -> Result<Option<(usize, usize)>> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
        return Ok(None);
    };
    let line = &bytes[..end + 1];
    let ([kind, text @ .., b'\r', b'\n'], true) = (line, b"+-:$*".contains(&bytes[0])) else {
        bail!("not RESP: {:?}", String::from_utf8_lossy(&line[..line.len().min(80)]));
    };
    if *kind != b'$' {
        return Ok(Some((line.len(), 0)));
    }
    let length = number(text)?;
    if length > BULK_BYTES_MAX {
        bail!("a string of {length} bytes");
    }
    let Ok(length) = usize::try_from(length) else {
        return Ok(Some((line.len(), 0)));
    };
    match bytes.get(line.len() + length..line.len() + length + 2) {
        None => Ok(None),
        Some(b"\r\n") => Ok(Some((line.len(), length + 2))),
        Some(_) => bail!("a string that does not end where its length says"),
    }
}

fn number(text: &[u8]) -> Result<i64> {
    let text = str::from_utf8(text)?;
    text.parse().with_context(|| format!("not a number: {text:?}"))
}

impl std::fmt::Display for Reply<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Simple(text) => write!(f, "{}", String::from_utf8_lossy(text)),
            Self::Error(text) => write!(f, "error {}", String::from_utf8_lossy(text)),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Bulk(Some(bytes)) => write!(f, "{} bytes", bytes.len()),
            Self::Bulk(None) | Self::Array(None) => f.write_str("no value"),
            Self::Array(Some(count)) => write!(f, "an array of {count}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_cut_off_when_it_is_complete() {
        for (bytes, expected) in [
            (&b"+OK\r\n"[..], Some((5, 0))),
            (b"$3\r\nabc\r\n+", Some((4, 5))),
            (b"$0\r\n\r\n", Some((4, 2))),
            (b"$-1\r\n", Some((5, 0))),
            (b"*2\r\n$1\r\n", Some((4, 0))),
            (b":-5\r\n", Some((5, 0))),
            (b"$3\r\nabc\r", None),
            (b"$3\r", None),
            (b"", None),
        ] {
            assert_eq!(parse(bytes).unwrap(), expected, "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        for bytes in [&b"HTTP/1.1 400\r\n"[..], b"\n", b"+OK\n", b"$x\r\n", b"$3\r\nabcd\r\n", b"$99999999999\r\n"] {
            assert!(parse(bytes).is_err(), "{:?}", String::from_utf8_lossy(bytes));
        }
    }
}
