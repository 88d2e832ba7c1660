//! The text of a conversation: its lines, its words, and replies as lines.
//!
//! Called by the replay. Pure, but for [`Frame::read`], which reads one reply from a connection.

use std::io::BufReader;
use std::net::TcpStream;

use anyhow::{Context, Result, bail};

/// One line of a conversation. Connections are named by what stands before the `>`.
pub(super) enum Line {
    /// A comment or an empty line.
    Comment(String),
    /// What the client does.
    Send { connection: String, send: Send, number: usize },
    /// A line of the reply.
    Expect { connection: String, text: String, glob: bool, number: usize },
}

/// What the client sends.
pub(super) enum Send {
    /// A command, as an array of bulk strings.
    Command { words: Vec<Vec<u8>>, sorted: bool, source: String },
    /// A command that is sent again and again, until the reply is what the file expects.
    Until { words: Vec<Vec<u8>>, source: String },
    /// Bytes as they are.
    Raw { bytes: Vec<u8>, source: String },
    /// A statement through the other door.
    Sql { text: String },
}

impl Send {
    /// The line without the connection's name.
    pub(super) fn source(&self) -> String {
        match self {
            Self::Command { source, sorted: false, .. } => format!("> {source}"),
            Self::Command { source, sorted: true, .. } => format!("?> {source}"),
            Self::Until { source, .. } => format!("~> {source}"),
            Self::Raw { source, .. } => format!(">> {source}"),
            Self::Sql { text } => format!("sql> {text}"),
        }
    }
}

/// Reads the lines of a file.
pub(super) fn parse(text: &str) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        lines.push(parse_line(line, number).with_context(|| format!("line {number}: {line}"))?);
    }
    Ok(lines)
}

fn parse_line(line: &str, number: usize) -> Result<Line> {
    if line.trim().is_empty() || line.starts_with('#') {
        return Ok(Line::Comment(line.to_owned()));
    }
    if let Some(text) = line.strip_prefix("sql>") {
        let send = Send::Sql { text: text.trim().to_owned() };
        return Ok(Line::Send { connection: String::new(), send, number });
    }
    let name_end = line.find(|char: char| !char.is_ascii_digit()).unwrap_or(line.len());
    let (connection, rest) = (line[..name_end].to_owned(), &line[name_end..]);
    let after = |mark: &str| rest.strip_prefix(mark).map(|text| text.strip_prefix(' ').unwrap_or(text).to_owned());
    if let Some(source) = after(">>") {
        let bytes = words(&source)?.concat();
        return Ok(Line::Send { connection, send: Send::Raw { bytes, source }, number });
    }
    if let Some(source) = after("~>") {
        let words = words(&source)?;
        return Ok(Line::Send { connection, send: Send::Until { words, source }, number });
    }
    for (mark, sorted) in [(">", false), ("?>", true)] {
        if let Some(source) = after(mark) {
            let words = words(&source)?;
            return Ok(Line::Send { connection, send: Send::Command { words, sorted, source }, number });
        }
    }
    for (mark, glob) in [("<~", true), ("<", false)] {
        if let Some(text) = after(mark) {
            return Ok(Line::Expect { connection, text, glob, number });
        }
    }
    bail!("neither a comment, nor a command, nor a reply")
}

/// Splits a line into words as redis-cli does: double quotes with escapes, single quotes without.
fn words(line: &str) -> Result<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line.as_bytes();
    loop {
        rest = rest.trim_ascii_start();
        let mut word = Vec::new();
        match rest {
            [] => return Ok(words),
            [b'"', quoted @ ..] => rest = double_quoted(quoted, &mut word)?,
            [b'\'', quoted @ ..] => {
                let end = quoted.iter().position(|&byte| byte == b'\'').context("a quote without its partner")?;
                word.extend_from_slice(&quoted[..end]);
                rest = &quoted[end + 1..];
            }
            bare => {
                let end = bare.iter().position(u8::is_ascii_whitespace).unwrap_or(bare.len());
                word.extend_from_slice(&bare[..end]);
                rest = &bare[end..];
            }
        }
        words.push(word);
    }
}

fn double_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8]> {
    loop {
        rest = match rest {
            [b'"', rest @ ..] => return Ok(rest),
            [b'\\', b'x', high, low, rest @ ..] => {
                let digits = [*high, *low];
                word.push(u8::from_str_radix(std::str::from_utf8(&digits)?, 16)?);
                rest
            }
            [b'\\', escaped, rest @ ..] => {
                word.push(match escaped {
                    b'r' => b'\r',
                    b'n' => b'\n',
                    b't' => b'\t',
                    other => *other,
                });
                rest
            }
            [byte, rest @ ..] => {
                word.push(*byte);
                rest
            }
            [] => bail!("a quote without its partner"),
        };
    }
}

/// Bytes as a conversation writes them.
pub(super) fn escape(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '\\' => text.push_str("\\\\"),
                char if char.is_control() => char.to_string().bytes().for_each(|byte| push_hex(byte, &mut text)),
                char => text.push(char),
            }
        }
        chunk.invalid().iter().for_each(|&byte| push_hex(byte, &mut text));
    }
    text
}

fn push_hex(byte: u8, text: &mut String) {
    text.push_str(&format!("\\x{byte:02x}"));
}

/// Whether a line fits a pattern in which `*` stands for anything.
pub(super) fn glob(pattern: &str, line: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == line,
        Some((head, tail)) => line.strip_prefix(head).is_some_and(|rest| {
            rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| glob(tail, &rest[at..]))
        }),
    }
}

/// One reply as it came.
pub(super) struct Frame {
    /// The line with the type byte.
    head: Vec<u8>,
    /// The bytes of a bulk or verbatim string.
    body: Option<Vec<u8>>,
    /// The elements of an aggregate; keys and values alternate in a map.
    elements: Vec<Frame>,
}

impl Frame {
    /// Reads one reply; none where the server has closed the connection.
    pub(super) fn read(reader: &mut BufReader<TcpStream>) -> Result<Option<Self>> {
        let Some(head) = super::read_line(reader)? else {
            return Ok(None);
        };
        let (kind, text) = head.split_first().context("an empty line")?;
        let count = || std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok());
        let (mut body, mut elements) = (None, Vec::new());
        match kind {
            b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => {}
            b'$' | b'=' => {
                let length = count().context("the length of a bulk string")?;
                if let Ok(length) = usize::try_from(length) {
                    body = Some(super::read_bulk(reader, length)?);
                }
            }
            b'*' | b'~' | b'>' | b'%' => {
                let count = count().context("the count of an aggregate")?;
                let count = if *kind == b'%' { count * 2 } else { count };
                for _ in 0..count {
                    elements.push(Self::read(reader)?.context("the connection was closed within a reply")?);
                }
            }
            _ => bail!("not a reply: {}", escape(&head)),
        }
        Ok(Some(Self { head, body, elements }))
    }

    /// With the innermost elements in order.
    pub(super) fn sorted(mut self) -> Self {
        self.elements = self.elements.into_iter().map(Self::sorted).collect();
        if self.elements.iter().all(|element| element.elements.is_empty()) {
            self.elements.sort_by(|a, b| (&a.body, &a.head).cmp(&(&b.body, &b.head)));
        }
        self
    }

    /// The lines of the reply.
    pub(super) fn lines(&self, out: &mut Vec<String>) {
        out.push(escape(&self.head));
        if let Some(body) = &self.body {
            out.push(escape(body));
        }
        for element in &self.elements {
            element.lines(out);
        }
    }
}
