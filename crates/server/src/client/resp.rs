//! A client of RESP2: one command, one reply.
//!
//! Used by the demo.

use std::net::SocketAddr;

use ashlar_base::net;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::ClientError;

/// Longest bulk string and most elements that a reply is believed to have.
const BULK_BYTES_MAX: i64 = 512 << 20;
const ELEMENTS_MAX: i64 = 1 << 24;

/// What a command answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// `+OK`
    Simple(String),
    /// `-ERR ...`
    Error(String),
    /// `:1`
    Integer(i64),
    /// A string; `None` is nil.
    Bulk(Option<String>),
    /// An array; `None` is nil.
    Array(Option<Vec<Reply>>),
}

/// A connection.
#[derive(Debug)]
pub struct RespClient {
    stream: BufReader<TcpStream>,
}

impl RespClient {
    /// Connects.
    pub async fn connect(address: SocketAddr) -> Result<Self, ClientError> {
        let stream = net::connect(address).await.map_err(|error| ClientError::Connect(address, error))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends a command and reads its reply; an error of the server is a reply.
    pub async fn command(&mut self, arguments: &[&str]) -> Result<Reply, ClientError> {
        let mut request = format!("*{}\r\n", arguments.len());
        for argument in arguments {
            request.push_str(&format!("${}\r\n{argument}\r\n", argument.len()));
        }
        self.stream.write_all(request.as_bytes()).await?;

        // Arrays that are still open: what they have, and how many more they want.
        let mut open: Vec<(Vec<Reply>, usize)> = Vec::new();
        loop {
            let mut reply = match self.element().await? {
                Element::Whole(reply) => reply,
                Element::Array(0) => Reply::Array(Some(Vec::new())),
                Element::Array(count) => {
                    open.push((Vec::new(), count));
                    continue;
                }
            };
            loop {
                let Some((mut elements, wanted)) = open.pop() else { return Ok(reply) };
                elements.push(reply);
                if elements.len() < wanted {
                    open.push((elements, wanted));
                    break;
                }
                reply = Reply::Array(Some(elements));
            }
        }
    }

    async fn element(&mut self) -> Result<Element, ClientError> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).await? == 0 {
            return Err(ClientError::Protocol("the end of the connection".to_owned()));
        }
        let line = line.trim_end_matches(['\r', '\n']);
        let odd = || ClientError::Protocol(format!("the line \"{line}\""));
        let (kind, rest) = line.split_at_checked(1).ok_or_else(odd)?;
        let number = || rest.parse::<i64>().map_err(|_| odd());
        Ok(match kind {
            "+" => Element::Whole(Reply::Simple(rest.to_owned())),
            "-" => Element::Whole(Reply::Error(rest.to_owned())),
            ":" => Element::Whole(Reply::Integer(number()?)),
            "$" => match number()? {
                -1 => Element::Whole(Reply::Bulk(None)),
                length @ 0..=BULK_BYTES_MAX => {
                    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0) + 2];
                    self.stream.read_exact(&mut bytes).await?;
                    bytes.truncate(bytes.len() - 2);
                    Element::Whole(Reply::Bulk(Some(String::from_utf8_lossy(&bytes).into_owned())))
                }
                _ => return Err(odd()),
            },
            "*" => match number()? {
                -1 => Element::Whole(Reply::Array(None)),
                count @ 0..=ELEMENTS_MAX => Element::Array(usize::try_from(count).unwrap_or(0)),
                _ => return Err(odd()),
            },
            _ => return Err(odd()),
        })
    }
}

/// A line of a reply and what belongs to it.
enum Element {
    Whole(Reply),
    Array(usize),
}
