//! Conversations of the Redis protocol, reply by reply: `tests/wire/resp/*.resp`, held by Redis and by Ashlar.
//!
//! ```text
//! # What the file shows. The next line says which servers hold it.
//! # targets: ashlar redis
//! > SET greeting "hello\r\n"      a command, in words as redis-cli reads them
//! < +OK                           the reply as it comes over the wire, line by line
//! ~> EXISTS gone                 a command that is sent until its reply is what follows: for what takes time
//! ?> KEYS *                       a reply whose elements may come in any order: both sides are sorted
//! >> "*1\r\n$4\r\nPI"             bytes as they are; no reply is read until the file expects one
//! <~ $* *                         a line with `*` for anything
//! < (closed)                      the server closes the connection
//! sql> SELECT 1                   a statement through the PostgreSQL door of Ashlar, rows as `value|value`
//! ```
//! Redis has no SQL: there, a `sql>` line that expects nothing is passed over, and one that expects something fails.
//! So a conversation with both may begin with the table whose rows are its hashes.
//!
//! `2>` and `2<` belong to another connection; a connection is made when it is first named. Bytes that are not
//! printable are written `\xHH`. Every file begins with no keys. `ASHLAR_WIRE_RECORD=1` writes the answers of Redis
//! (of Ashlar, where Redis is no target) into the files, for a new conversation; read them before you keep them.

mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ashlar_tests::process::wait_for;
use ashlar_tests::tools::repository;
use ashlar_tests::{Ashlar, Options, Redis, pg, resp};

use self::text::{Line, Send};

/// How long a reply may take.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn redis_holds_the_conversations() {
    let redis = Redis::start().unwrap();
    check_all("redis", redis.address(), None);
}

#[test]
fn ashlar_holds_the_conversations() {
    let ashlar = Ashlar::start(Options::default()).unwrap();
    check_all("ashlar", ashlar.resp(), Some(ashlar.pg()));
    ashlar.stop();
}

#[test]
fn enough_is_held_by_both() {
    let both = files().into_iter().filter(|file| file.targets("ashlar") && file.targets("redis"));
    let pairs: usize =
        both.map(|file| file.lines.iter().filter(|line| matches!(line, Line::Send { .. })).count()).sum();
    assert!(pairs >= 250, "only {pairs} commands are compared with Redis");
}

/// Commands that no conversation with both servers can show, and why.
const NOT_COMPARED: &[(&str, &str)] = &[
    ("client|help", "a server lists the subcommands that it offers itself"),
    ("client|no-touch", "Redis has it since 7.2, and 7.0 is what is followed"),
    ("client|setinfo", "Redis has it since 7.2, and 7.0 is what is followed"),
    ("command", "a server lists the commands that it offers itself"),
    ("command|help", "a server lists the subcommands that it offers itself"),
    ("config|help", "a server lists the subcommands that it offers itself"),
    ("memory|help", "a server lists the subcommands that it offers itself"),
    ("pubsub|help", "a server lists the subcommands that it offers itself"),
    ("object|help", "a server lists the subcommands that it offers itself"),
    ("config|rewrite", "Ashlar's file of the configuration is its operator's, and Redis has none here"),
];

#[test]
fn every_command_is_in_a_conversation() {
    let ashlar = Ashlar::start(Options::default()).unwrap();
    let offered = offered(&mut resp::Client::connect(ashlar.resp()).unwrap()).unwrap();
    ashlar.stop();
    let both = files().into_iter().filter(|file| file.targets("ashlar") && file.targets("redis"));
    let compared: BTreeSet<String> = both.flat_map(|file| answered(&file, &offered)).collect();
    let excused: BTreeSet<String> = NOT_COMPARED.iter().map(|(name, _)| (*name).to_owned()).collect();
    let missing: Vec<_> = offered.iter().filter(|name| !compared.contains(*name) && !excused.contains(*name)).collect();
    assert!(missing.is_empty(), "no conversation with Redis shows an answer of {missing:?}");
    let idle: Vec<_> = excused.iter().filter(|name| !offered.contains(*name) || compared.contains(*name)).collect();
    assert!(idle.is_empty(), "{idle:?} need no excuse");
}

/// The names of what can be called, `get` and `client|id`, as COMMAND tells them.
fn offered(client: &mut resp::Client) -> Result<BTreeSet<String>> {
    let resp::Reply::Array(commands) = client.command(&["COMMAND"])? else {
        bail!("COMMAND answers with something else than an array");
    };
    let mut names = BTreeSet::new();
    for command in &commands {
        let (name, arity, subcommands) = described(command)?;
        // What asks for two words at least is called by its subcommands only.
        if subcommands.is_empty() || arity == -1 {
            names.insert(name);
        }
        for subcommand in subcommands {
            names.insert(described(subcommand)?.0);
        }
    }
    Ok(names)
}

/// Name, arity and subcommands in an element of COMMAND's reply.
fn described(command: &resp::Reply) -> Result<(String, i64, &[resp::Reply])> {
    let resp::Reply::Array(fields) = command else { bail!("a command is described by an array") };
    match &fields[..] {
        [name, resp::Reply::Integer(arity), .., resp::Reply::Array(subcommands)] => {
            Ok((name.text().context("a command's name")?, *arity, subcommands.as_slice()))
        }
        _ => bail!("a command has other fields than expected: {command:?}"),
    }
}

/// The commands whose answer the file shows: neither an error, nor that they wait for EXEC.
fn answered(file: &File, offered: &BTreeSet<String>) -> Vec<String> {
    let name = |pair: &[Line]| match pair {
        [
            Line::Send { connection, send: Send::Command { words, .. } | Send::Until { words, .. }, .. },
            Line::Expect { connection: by, text, glob, .. },
        ] if connection == by && is_answer(text, *glob) => Some(full_name(words, offered)),
        _ => None,
    };
    file.lines.windows(2).filter_map(name).collect()
}

/// Whether the first line of a reply is an answer; a pattern that an error would fit shows none.
fn is_answer(text: &str, glob: bool) -> bool {
    let is_any = glob && text.starts_with('*');
    !(text.starts_with('-') || ["+QUEUED", "(closed)"].contains(&text) || is_any)
}

/// A command line's name as COMMAND has it.
fn full_name(words: &[Vec<u8>], offered: &BTreeSet<String>) -> String {
    let word = |at: usize| String::from_utf8_lossy(words.get(at).map(Vec::as_slice).unwrap_or_default()).to_lowercase();
    let with_subcommand = format!("{}|{}", word(0), word(1));
    if offered.contains(&with_subcommand) { with_subcommand } else { word(0) }
}

/// One conversation.
struct File {
    path: PathBuf,
    text: String,
    lines: Vec<Line>,
}

impl File {
    fn targets(&self, server: &str) -> bool {
        let targets = self.text.lines().find_map(|line| line.strip_prefix("# targets:"));
        let targets = targets.unwrap_or_else(|| panic!("{}: no line `# targets:`", self.path.display()));
        targets.split_whitespace().any(|target| target == server)
    }
}

fn files() -> Vec<File> {
    let only = std::env::var("ASHLAR_WIRE").unwrap_or_default();
    let mut paths: Vec<PathBuf> = std::fs::read_dir(repository().join("tests/wire/resp"))
        .expect("tests/wire/resp")
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "resp"))
        .filter(|path| path.to_string_lossy().contains(&only))
        .collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text::parse(&text).unwrap_or_else(|error| panic!("{}: {error:#}", path.display()));
        File { path, text, lines }
    };
    paths.into_iter().map(read).collect()
}

fn check_all(server: &str, address: SocketAddr, sql: Option<SocketAddr>) {
    let record = std::env::var_os("ASHLAR_WIRE_RECORD").is_some();
    let mut failures = String::new();
    let mut count = 0;
    for file in files().iter().filter(|file| file.targets(server)) {
        count += 1;
        delete_everything(address).unwrap();
        let mut replay = Replay { address, sql, connections: BTreeMap::new(), sql_connection: None };
        let done = if record && (server == "redis" || !file.targets("redis")) {
            replay.record(file)
        } else {
            replay.check(file)
        };
        if let Err(error) = done {
            let _ = writeln!(failures, "{}: {error:#}\n", file.path.file_name().unwrap().to_string_lossy());
        }
    }
    assert!(count > 0, "no conversations found");
    assert!(failures.is_empty(), "on {server}:\n{failures}");
}

/// Deletes every key and row that has a name.
fn delete_everything(address: SocketAddr) -> Result<()> {
    let mut client = resp::Client::connect(address)?;
    let resp::Reply::Array(names) = client.command(&["KEYS", "*"])? else {
        bail!("KEYS answers with something else than an array");
    };
    for name in names {
        let resp::Reply::Bulk(name) = name else { bail!("a name is not a bulk string") };
        client.command(&[&b"DEL"[..], &name])?;
    }
    Ok(())
}

/// One conversation with one server.
struct Replay {
    address: SocketAddr,
    sql: Option<SocketAddr>,
    connections: BTreeMap<String, BufReader<TcpStream>>,
    sql_connection: Option<pg::Connection>,
}

impl Replay {
    fn check(&mut self, file: &File) -> Result<()> {
        let mut lines = file.lines.iter().peekable();
        while let Some(line) = lines.next() {
            let (number, got) = match line {
                Line::Comment(_) => continue,
                Line::Send { connection, send, number } => {
                    let expects = matches!(lines.peek(), Some(Line::Expect { .. }));
                    if self.passes_over(send, expects) {
                        continue;
                    }
                    let got = match send {
                        Send::Until { .. } => self.exchange_until(connection, send, lines.clone()),
                        _ => self.exchange(connection, send, expects),
                    };
                    (number, got.with_context(|| format!("line {number}"))?)
                }
                Line::Expect { connection, number, .. } => bail!("line {number}: {connection}< follows no command"),
            };
            for got in &got {
                let Some(Line::Expect { text, glob, .. }) = lines.next_if(|line| matches!(line, Line::Expect { .. }))
                else {
                    bail!("line {number}: the reply goes on: {got}");
                };
                if !(if *glob { text::glob(text, got) } else { text == got }) {
                    bail!("line {number}: expected {text}\n     got {got}");
                }
            }
            // Bytes may bring several replies, or the end.
            while let Some(Line::Expect { connection, text, glob, number }) =
                lines.next_if(|line| matches!(line, Line::Expect { .. }))
            {
                let mut expected = vec![(text, *glob)];
                let got = self.read(connection).with_context(|| format!("line {number}: expected {text}"))?;
                while expected.len() < got.len() {
                    match lines.next() {
                        Some(Line::Expect { text, glob, .. }) => expected.push((text, *glob)),
                        _ => bail!("line {number}: the reply goes on: {}", got.join(" ")),
                    }
                }
                for ((text, glob), got) in expected.into_iter().zip(&got) {
                    if !(if glob { text::glob(text, got) } else { text == got }) {
                        bail!("line {number}: expected {text}\n     got {got}");
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes the server's answers into the file.
    fn record(&mut self, file: &File) -> Result<()> {
        let mut out = String::new();
        let mut lines = file.lines.iter().peekable();
        while let Some(line) = lines.next() {
            match line {
                Line::Comment(text) => {
                    let _ = writeln!(out, "{text}");
                }
                Line::Expect { .. } => bail!("an expectation without its command"),
                Line::Send { connection, send, number } => {
                    let _ = writeln!(out, "{connection}{}", send.source());
                    let mut old = Vec::new();
                    while let Some(Line::Expect { text, glob, .. }) =
                        lines.next_if(|line| matches!(line, Line::Expect { .. }))
                    {
                        old.push((text, *glob));
                    }
                    if self.passes_over(send, !old.is_empty()) {
                        continue;
                    }
                    let got = match send {
                        // What follows was taken out: it stands before the line that comes next.
                        Send::Until { .. } => {
                            let before = file.lines.iter().skip_while(|other| !std::ptr::eq(*other, line)).skip(1);
                            self.exchange_until(connection, send, before)
                        }
                        _ => self.exchange(connection, send, true),
                    };
                    let mut got = got.with_context(|| format!("line {number}"))?;
                    if matches!(send, Send::Raw { .. }) {
                        got = self.read_all(connection)?;
                    }
                    for (index, got) in got.iter().enumerate() {
                        // A pattern that still fits is kept.
                        match old.get(index) {
                            Some((text, true)) if text::glob(text, got) => {
                                let _ = writeln!(out, "{connection}<~ {text}");
                            }
                            _ => {
                                let _ = writeln!(out, "{connection}< {got}");
                            }
                        }
                    }
                }
            }
        }
        std::fs::write(&file.path, out)?;
        Ok(())
    }

    /// Whether this is a statement that expects nothing, and the server has no SQL.
    fn passes_over(&self, send: &Send, expects: bool) -> bool {
        self.sql.is_none() && !expects && matches!(send, Send::Sql { .. })
    }

    /// Sends; the lines of the reply where there is exactly one.
    fn exchange(&mut self, connection: &str, send: &Send, expects: bool) -> Result<Vec<String>> {
        match send {
            Send::Sql { text } => self.query(text),
            Send::Raw { bytes, .. } => {
                self.connection(connection)?.get_mut().write_all(bytes)?;
                Ok(Vec::new())
            }
            Send::Until { words, .. } => {
                let command = Send::Command { words: words.clone(), sorted: false, source: String::new() };
                self.exchange(connection, &command, true)
            }
            Send::Command { words, sorted, .. } => {
                let mut bytes = Vec::new();
                resp::encode(words, &mut bytes);
                self.connection(connection)?.get_mut().write_all(&bytes)?;
                if !expects {
                    return Ok(Vec::new());
                }
                let reply = text::Frame::read(self.connection(connection)?)?;
                let mut lines = Vec::new();
                match (reply, sorted) {
                    (Some(reply), true) => reply.sorted().lines(&mut lines),
                    (Some(reply), false) => reply.lines(&mut lines),
                    (None, _) => lines.push("(closed)".to_owned()),
                }
                Ok(lines)
            }
        }
    }

    /// Sends until the reply is what the next lines expect; the last reply.
    fn exchange_until<'l>(
        &mut self,
        connection: &str,
        send: &Send,
        next: impl Iterator<Item = &'l Line>,
    ) -> Result<Vec<String>> {
        let expected: Vec<(&String, bool)> = next
            .map_while(|line| match line {
                Line::Expect { text, glob, .. } => Some((text, *glob)),
                _ => None,
            })
            .collect();
        let fits = |got: &[String]| {
            got.len() == expected.len()
                && got
                    .iter()
                    .zip(&expected)
                    .all(|(got, (text, glob))| if *glob { text::glob(text, got) } else { *text == got })
        };
        let mut last = Ok(Vec::new());
        wait_for(PATIENCE, || {
            last = self.exchange(connection, send, true);
            last.as_ref().map_or(true, |got| fits(got))
        });
        last
    }

    /// The next reply of a connection.
    fn read(&mut self, connection: &str) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        match text::Frame::read(self.connection(connection)?)? {
            Some(reply) => reply.lines(&mut lines),
            None => lines.push("(closed)".to_owned()),
        }
        Ok(lines)
    }

    /// All replies until the server has been silent for a while, for recording.
    fn read_all(&mut self, connection: &str) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        loop {
            let reader = self.connection(connection)?;
            reader.get_ref().set_read_timeout(Some(Duration::from_millis(300)))?;
            let silent = matches!(reader.fill_buf(), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock);
            reader.get_ref().set_read_timeout(Some(PATIENCE))?;
            if silent {
                return Ok(lines);
            }
            let reply = self.read(connection)?;
            let closed = reply == ["(closed)"];
            lines.extend(reply);
            if closed {
                return Ok(lines);
            }
        }
    }

    fn query(&mut self, sql: &str) -> Result<Vec<String>> {
        let address = self.sql.context("this server has no PostgreSQL door")?;
        if self.sql_connection.is_none() {
            self.sql_connection = Some(pg::Connection::connect(address)?);
        }
        let connection = self.sql_connection.as_mut().context("just made")?;
        Ok(match connection.query(sql) {
            Ok(rows) => {
                let value = |value: Option<String>| value.unwrap_or_else(|| "NULL".to_owned());
                let row = |row: Vec<Option<String>>| row.into_iter().map(value).collect::<Vec<_>>().join("|");
                rows.into_iter().map(row).collect()
            }
            Err(error) => vec![format!("ERROR {error}")],
        })
    }

    fn connection(&mut self, name: &str) -> Result<&mut BufReader<TcpStream>> {
        if !self.connections.contains_key(name) {
            let stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            stream.set_nodelay(true)?;
            self.connections.insert(name.to_owned(), BufReader::new(stream));
        }
        self.connections.get_mut(name).context("just made")
    }
}

/// Reads exactly one line of a reply without its end; none at the end of the stream.
fn read_line(reader: &mut BufReader<TcpStream>) -> Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    match reader.read_until(b'\n', &mut line) {
        Ok(0) => return Ok(None),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    if !line.ends_with(b"\r\n") {
        bail!("a line of a reply does not end: {}", text::escape(&line));
    }
    line.truncate(line.len() - 2);
    Ok(Some(line))
}

/// Reads a bulk string's bytes and the line end behind them.
fn read_bulk(reader: &mut BufReader<TcpStream>, length: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; length + 2];
    reader.read_exact(&mut bytes)?;
    if !bytes.ends_with(b"\r\n") {
        bail!("a bulk string does not end where its length says");
    }
    bytes.truncate(length);
    Ok(bytes)
}
