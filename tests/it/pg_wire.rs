//! Conversations of the PostgreSQL protocol, message by message: `tests/wire/pg/*.pt`, held by PostgreSQL and by Ashlar.
//!
//! ```text
//! # A comment. The first line says what the file shows.
//! > Parse "" "SELECT $1" [int4]        what the client sends; neighbouring lines go out in one write
//! > Sync
//! < ParseComplete                      what the server must answer, in this order
//! < ReadyForQuery I
//! ```
//! Lines that begin with `2>` and `2<` belong to another connection. A connection is started up when it is first
//! named, unless `> Raw`, `> SSLRequest` or `> Startup` begins it. Of an error only the fields that the file names are compared,
//! and not whether it came at Bind or at Execute; ParameterStatus is skipped where the file does not name it. `ASHLAR_WIRE_RECORD=1` writes PostgreSQL's answers
//! into the files, for a new conversation; read them before you keep them.

mod message;
mod text;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ashlar_tests::pg::Connection;
use ashlar_tests::tools::repository;
use ashlar_tests::{Ashlar, Postgres};

use self::text::Line;

#[test]
fn postgres_holds_the_conversations() {
    let record = std::env::var_os("ASHLAR_WIRE_RECORD").is_some();
    check_all(Postgres::shared().address(), "postgres", |path, address| {
        if record { record_file(path, address) } else { replay(path, address) }
    });
}

#[test]
fn ashlar_holds_the_conversations() {
    let ashlar = Ashlar::shared();
    check_all(ashlar.pg(), "ashlar", replay);
}

fn check_all(address: SocketAddr, server: &str, check: impl Fn(&Path, SocketAddr) -> Result<()>) {
    let mut failures = String::new();
    let mut count = 0;
    for path in files() {
        let text = std::fs::read_to_string(&path).unwrap();
        if text.lines().any(|line| line.starts_with("# skip:") && line.contains(server)) {
            continue;
        }
        count += 1;
        if let Err(error) = check(&path, address) {
            let _ = writeln!(failures, "{}: {error:#}\n", path.file_name().unwrap().to_string_lossy());
        }
    }
    assert!(count > 0, "no conversations found");
    assert!(failures.is_empty(), "on {server}:\n{failures}");
}

fn files() -> Vec<PathBuf> {
    let only = std::env::var("ASHLAR_WIRE").unwrap_or_default();
    let mut files: Vec<PathBuf> = std::fs::read_dir(repository().join("tests/wire/pg"))
        .expect("tests/wire/pg")
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "pt"))
        .filter(|path| path.to_string_lossy().contains(&only))
        .collect();
    files.sort();
    files
}

/// The connections of one conversation by name.
#[derive(Default)]
struct Connections(BTreeMap<String, Connection>);

impl Connections {
    fn get(&mut self, name: &str, raw: bool, address: SocketAddr) -> Result<&mut Connection> {
        if !self.0.contains_key(name) {
            let connection = if raw { Connection::raw(address)? } else { Connection::connect(address)? };
            self.0.insert(name.to_owned(), connection);
        }
        self.0.get_mut(name).context("just inserted")
    }
}

/// Sends what the file sends and compares what comes back.
fn replay(path: &Path, address: SocketAddr) -> Result<()> {
    let text = std::fs::read_to_string(path)?;
    let mut connections = Connections::default();
    let mut pending: Vec<u8> = Vec::new();
    let lines = text::parse(&text)?;
    for (index, line) in lines.iter().enumerate() {
        match line {
            Line::Comment(_) => {}
            Line::Send { connection, words, number } => {
                let encoded = message::encode(words).with_context(|| format!("line {number}"))?;
                pending.extend(encoded);
                if !next_sends_too(&lines, index, connection) {
                    let raw = first_of_block_is_raw(&lines, index, connection);
                    connections.get(connection, raw, address)?.send(&pending)?;
                    pending.clear();
                }
            }
            Line::Expect { connection, words, number } => {
                let connection = connections.get(connection, false, address)?;
                // How a stream is cut into messages is each server's own affair: its lines are taken together.
                let result = if is_step(words) && lines.get(index + 1).is_some_and(Line::expects_error) {
                    Ok(())
                } else if line.copy_data().is_none() {
                    compare(connection, words)
                } else if index > 0 && lines[index - 1].copy_data().is_some() {
                    Ok(())
                } else {
                    let stream: Vec<&[u8]> = lines[index..].iter().map_while(Line::copy_data).collect();
                    compare_stream(connection, &stream.concat())
                };
                result.with_context(|| format!("line {number}"))?;
            }
        }
    }
    Ok(())
}

/// Reads CopyData messages and compares what they carry with the file's lines taken together.
fn compare_stream(connection: &mut Connection, expected: &[u8]) -> Result<()> {
    let mut got = Vec::new();
    while got.len() < expected.len() {
        let message = connection.read()?;
        if message.kind != b'd' {
            bail!("expected CopyData\n     got {}", text::write(&message::decode(&message)));
        }
        got.extend(message.body);
    }
    if got != expected {
        let line = |bytes: &[u8]| text::write(&[text::Word::Bytes(bytes.to_vec())]);
        bail!("expected CopyData {}\n     got CopyData {}", line(expected), line(&got));
    }
    Ok(())
}

/// Reads one message and compares it with the line's words.
fn compare(connection: &mut Connection, expected: &[text::Word]) -> Result<()> {
    let name = expected.first().and_then(text::Word::bare).unwrap_or_default();
    if name == "Byte" {
        let got = vec![text::Word::Bare("Byte".into()), text::Word::Bare((connection.read_byte()? as char).into())];
        if got != expected {
            bail!("expected {}\n     got {}", text::write(expected), text::write(&got));
        }
        return Ok(());
    }
    if name == "Closed" {
        return match connection.read() {
            Ok(message) => {
                bail!("expected the end of the connection\n     got {}", text::write(&message::decode(&message)))
            }
            Err(error) if error.downcast_ref::<std::io::Error>().is_some_and(is_timeout) => {
                bail!("the connection stays open")
            }
            Err(_) => Ok(()),
        };
    }
    loop {
        let message = connection.read().with_context(|| format!("expected {}", text::write(expected)))?;
        if message.kind == b'S' && name != "ParameterStatus" {
            continue;
        }
        let got = message::decode(&message);
        if name == "ErrorResponse" && is_step(&got) {
            continue;
        }
        if !text::matches(expected, &got) {
            bail!("expected {}\n     got {}", text::write(expected), text::write(&got));
        }
        return Ok(());
    }
}

/// What may or may not come before an error: a statement fails when it is bound or when it runs, and which of the two
/// depends on what a server computes beforehand. The lines before an ErrorResponse are therefore not compared.
fn is_step(words: &[text::Word]) -> bool {
    let name = words.first().and_then(text::Word::bare).unwrap_or_default();
    ["BindComplete", "RowDescription", "CopyOutResponse"].contains(&name)
}

fn next_sends_too(lines: &[Line], index: usize, name: &str) -> bool {
    matches!(lines.get(index + 1), Some(Line::Send { connection, .. }) if connection == name)
}

fn begins_raw(words: &[text::Word]) -> bool {
    let name = words.first().and_then(text::Word::bare).unwrap_or_default();
    ["Raw", "Startup", "SSLRequest", "GSSENCRequest"].contains(&name)
}

/// Whether the block of sends that ends at `index` begins with something that precedes the start-up.
fn first_of_block_is_raw(lines: &[Line], index: usize, name: &str) -> bool {
    let first = lines[..=index]
        .iter()
        .rev()
        .take_while(|line| matches!(line, Line::Send { connection, .. } if connection == name))
        .last();
    matches!(first, Some(Line::Send { words, .. }) if begins_raw(words))
}

/// How long a server must be silent before recording takes its answer for complete.
const SILENCE: Duration = Duration::from_millis(300);

/// Sends what the file sends and writes what the server answers into it.
fn record_file(path: &Path, address: SocketAddr) -> Result<()> {
    let text = std::fs::read_to_string(path)?;
    let mut connections = Connections::default();
    let mut pending: Vec<u8> = Vec::new();
    let mut out = String::new();
    let lines = text::parse(&text)?;
    for (index, line) in lines.iter().enumerate() {
        match line {
            Line::Comment(comment) => {
                let _ = writeln!(out, "{comment}");
            }
            Line::Expect { .. } => {}
            Line::Send { connection: name, words, number } => {
                let _ = writeln!(out, "{name}> {}", text::write(words));
                pending.extend(message::encode(words).with_context(|| format!("line {number}"))?);
                if next_sends_too(&lines, index, name) {
                    continue;
                }
                let raw = first_of_block_is_raw(&lines, index, name);
                let connection = connections.get(name, raw, address)?;
                connection.send(&pending)?;
                pending.clear();
                connection.set_timeout(SILENCE)?;
                if matches!(words[0].bare(), Some("SSLRequest" | "GSSENCRequest")) {
                    let _ = writeln!(out, "{name}< Byte {}", connection.read_byte()? as char);
                    continue;
                }
                loop {
                    match connection.read() {
                        Ok(message) if message.kind == b'S' => {}
                        Ok(message) => {
                            let _ = writeln!(out, "{name}< {}", text::write(&message::decode(&message)));
                        }
                        Err(error) if error.downcast_ref::<std::io::Error>().is_some_and(is_timeout) => break,
                        Err(_) => {
                            let _ = writeln!(out, "{name}< Closed");
                            break;
                        }
                    }
                }
            }
        }
    }
    std::fs::write(path, out)?;
    Ok(())
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}
