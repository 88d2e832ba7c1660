//! What a request allocates, from its bytes on a socket to those of its answer: counted in the server's own threads.
//!
//! The server runs in this process behind its real doors, with one door thread. The allocator counts what that thread allocates, and
//! apart from it what the threads beside it do; what the test itself allocates is not counted. Figures are those that were measured: who
//! makes one smaller makes it smaller here.

#![allow(unsafe_code, reason = "an allocator cannot be written without")]
#![allow(clippy::unwrap_used, reason = "all of this is tests, and clippy takes only functions marked #[test] for such")]

#[path = "allocations/shard.rs"]
mod shard;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use ashlar_base::config::Config;
use ashlar_base::{clock, net};
use ashlar_server::runtime::{self, Server};
use metrics_exporter_prometheus::PrometheusBuilder;

/// How long an answer may take, and what happens in the background.
const PATIENCE: Duration = Duration::from_secs(60);

/// Set once the server's threads run.
static COUNTS: AtomicBool = AtomicBool::new(false);
static DOOR: Counter = Counter::new();
static BESIDE: Counter = Counter::new();

/// Allocations, and their bytes.
struct Counter {
    allocations: AtomicU64,
    bytes: AtomicU64,
}

impl Counter {
    const fn new() -> Self {
        Self { allocations: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }

    fn read(&self) -> Cost {
        Cost { allocations: self.allocations.load(Ordering::SeqCst), bytes: self.bytes.load(Ordering::SeqCst) }
    }
}

/// What something took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cost {
    allocations: u64,
    bytes: u64,
}

impl Cost {
    fn since(self, before: Self) -> Self {
        Self { allocations: self.allocations - before.allocations, bytes: self.bytes - before.bytes }
    }

    fn plus(self, other: Self) -> Self {
        Self { allocations: self.allocations + other.allocations, bytes: self.bytes + other.bytes }
    }

    /// Of each of so many requests.
    fn each(self, requests: u64) -> (f64, f64) {
        (self.allocations as f64 / requests as f64, self.bytes as f64 / requests as f64)
    }
}

/// Whose allocations a thread's are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    NotKnown,
    Doors,
    Others,
    Tests,
}

thread_local! {
    static WHOSE: Cell<Whose> = const { Cell::new(Whose::NotKnown) };
}

struct Counting;

fn count(bytes: usize) {
    if !COUNTS.load(Ordering::Relaxed) {
        return;
    }
    let counter = WHOSE.with(|whose| {
        if whose.get() == Whose::NotKnown {
            // Allocates nothing: who runs has a handle of its own by now.
            let current = std::thread::current();
            let is_door = current.name().is_some_and(|name| name.starts_with("ashlar-door"));
            whose.set(if is_door { Whose::Doors } else { Whose::Others });
        }
        match whose.get() {
            Whose::Doors => Some(&DOOR),
            Whose::Others | Whose::NotKnown => Some(&BESIDE),
            Whose::Tests => None,
        }
    });
    if let Some(counter) = counter {
        counter.allocations.fetch_add(1, Ordering::SeqCst);
        counter.bytes.fetch_add(bytes as u64, Ordering::SeqCst);
    }
}

// SAFETY: every call goes to the system's allocator unchanged; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `System`, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size);
        // SAFETY: the pointer came from `System`, with this layout.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Tests take turns: what one asks for must not be counted by another.
static SERVER: LazyLock<Mutex<Server>> = LazyLock::new(|| {
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut config = Config::default();
    (config.server.pg_address, config.server.resp_address, config.server.http_address) = (any_port, any_port, any_port);
    (config.server.cores, config.query.threads) = (1, 1);
    // What is known of shards is kept there.
    let data = std::env::temp_dir().join(format!("ashlar-allocations-data-{}", std::process::id()));
    config.shard.data_dir = data.to_string_lossy().into_owned();
    let recorder = PrometheusBuilder::new().install_recorder().unwrap();
    let server = runtime::start(config, recorder, true).unwrap();
    COUNTS.store(true, Ordering::SeqCst);
    Mutex::new(server)
});

fn with_server(test: impl FnOnce(&Server)) {
    WHOSE.set(Whose::Tests);
    test(&SERVER.lock().unwrap_or_else(PoisonError::into_inner));
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = net::connect_blocking(address, PATIENCE).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// What the door's thread, and all threads of the server, allocate meanwhile.
fn cost(run: impl FnOnce()) -> (Cost, Cost) {
    let before = (DOOR.read(), BESIDE.read());
    run();
    let door = DOOR.read().since(before.0);
    (door, door.plus(BESIDE.read().since(before.1)))
}

/// How often something is run until it is known what it takes.
const SAMPLES: usize = 8;

/// What each of so many requests takes of the door's thread: allocations and bytes. The same thread looks after connections to shards and
/// the like now and then; what a request takes is in each sample, and so in the least of them.
fn least(requests: u64, mut run: impl FnMut()) -> (f64, f64) {
    let mut least = (f64::MAX, f64::MAX);
    for _ in 0..SAMPLES {
        let (allocations, bytes) = cost(&mut run).0.each(requests);
        least = (least.0.min(allocations), least.1.min(bytes));
        if least == (0.0, 0.0) {
            break;
        }
    }
    least
}

/// Commands that one write sends.
const PIPELINE: usize = 100;

/// Commands as a client sends them, and the bytes of what it hears.
struct Dialogue {
    commands: Vec<u8>,
    answers: Vec<u8>,
    heard: Vec<u8>,
}

impl Dialogue {
    /// `PIPELINE` commands; what each is and hears.
    fn new(mut command: impl FnMut(usize) -> (Vec<String>, String)) -> Self {
        let (mut commands, mut answers) = (String::new(), String::new());
        for number in 0..PIPELINE {
            let (words, answer) = command(number);
            write!(commands, "*{}\r\n", words.len()).unwrap();
            words.iter().for_each(|word| write!(commands, "${}\r\n{word}\r\n", word.len()).unwrap());
            answers.push_str(&answer);
        }
        let heard = vec![0; answers.len()];
        Self { commands: commands.into(), answers: answers.into(), heard }
    }

    /// Sends them so many times, each time once all answers of the time before have come.
    fn hold(&mut self, stream: &mut TcpStream, times: usize) {
        for _ in 0..times {
            stream.write_all(&self.commands).unwrap();
            stream.read_exact(&mut self.heard).unwrap();
            assert!(self.heard == self.answers, "{}", String::from_utf8_lossy(&self.heard));
        }
    }

    /// What a command allocates in the door's thread, where the commands have been run before: allocations and bytes.
    fn cost_each(&mut self, stream: &mut TcpStream) -> (f64, f64) {
        const TIMES: usize = 100;
        self.hold(stream, 10);
        least((TIMES * PIPELINE) as u64, || self.hold(stream, TIMES))
    }
}

fn key(number: usize) -> String {
    format!("key:{number:04}")
}

fn value(number: usize) -> String {
    format!("{number:0100}")
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn commands_on_plain_keys_allocate_nothing() {
    with_server(|server| {
        let mut stream = connect(server.addresses().resp);
        let mut set = Dialogue::new(|number| (words(&["SET", &key(number), &value(number)]), "+OK\r\n".to_owned()));
        set.hold(&mut stream, 1);
        let mut get = Dialogue::new(|number| (words(&["GET", &key(number)]), bulk(&value(number))));
        let mut get_nothing = Dialogue::new(|number| (words(&["get", &format!("no{number}")]), "$-1\r\n".to_owned()));
        let mut exists = Dialogue::new(|number| (words(&["EXISTS", &key(number)]), ":1\r\n".to_owned()));
        let nothing = (0.0, 0.0);
        assert_eq!(get.cost_each(&mut stream), nothing, "GET");
        assert_eq!(get_nothing.cost_each(&mut stream), nothing, "GET of what is not there");
        assert_eq!(exists.cost_each(&mut stream), nothing, "EXISTS");
        assert_eq!(set.cost_each(&mut stream), nothing, "SET of a value of the same size");
        assert_eq!(get.cost_each(&mut stream), nothing, "GET of what has been written over");
        // One at a time, as most clients ask.
        let (command, answer) = (b"*2\r\n$3\r\nGET\r\n$8\r\nkey:0007\r\n", bulk(&value(7)));
        let mut heard = vec![0; answer.len()];
        let mut ask = |times: usize| {
            for _ in 0..times {
                stream.write_all(command).unwrap();
                stream.read_exact(&mut heard).unwrap();
                assert_eq!(heard, answer.as_bytes());
            }
        };
        ask(100);
        assert_eq!(least(2000, || ask(2000)), nothing);
    });
}

/// Of all threads of the server, those beside the door's among them: no thread makes room for what a GET would hand over to it.
#[test]
fn a_get_allocates_in_no_thread_of_the_server() {
    const WINDOWS: usize = 200;
    with_server(|server| {
        let mut stream = connect(server.addresses().resp);
        let mut set = Dialogue::new(|number| (words(&["SET", &key(number), &value(number)]), "+OK\r\n".to_owned()));
        set.hold(&mut stream, 1);
        let mut get = Dialogue::new(|number| (words(&["GET", &key(number)]), bulk(&value(number))));
        get.hold(&mut stream, 10);
        // Threads that look after the store and the metrics work now and then, whatever is asked. What a GET takes is in each window.
        let mut windows = (0..WINDOWS).map(|_| cost(|| get.hold(&mut stream, 10)).1);
        let nothing = Cost { allocations: 0, bytes: 0 };
        assert!(windows.any(|window| window == nothing), "in each of {WINDOWS} windows some thread allocates");
        // One at a time, over several connections in turn.
        let mut streams: Vec<TcpStream> = (0..8).map(|_| connect(server.addresses().resp)).collect();
        let (command, answer) = (b"*2\r\n$3\r\nGET\r\n$8\r\nkey:0007\r\n", bulk(&value(7)));
        let mut heard = vec![0; answer.len()];
        let mut ask = |times: usize| {
            for turn in 0..times {
                let stream = &mut streams[turn % 8];
                stream.write_all(command).unwrap();
                stream.read_exact(&mut heard).unwrap();
                assert_eq!(heard, answer.as_bytes());
            }
        };
        ask(100);
        let mut windows = (0..WINDOWS).map(|_| cost(|| ask(200)).1);
        assert!(windows.any(|window| window == nothing), "in each of {WINDOWS} windows some thread allocates");
    });
}

#[test]
fn counting_up_allocates_where_columns_grow_only() {
    with_server(|server| {
        let mut stream = connect(server.addresses().resp);
        // Of one length, and so written where they lie.
        let start = 1_000_000_000i64;
        let mut set =
            Dialogue::new(|number| (words(&["SET", &format!("n{number}"), &start.to_string()]), "+OK\r\n".into()));
        set.hold(&mut stream, 1);
        let mut at = start;
        let mut ask = |times: usize| {
            for _ in 0..times {
                at += 1;
                let answer = format!(":{at}\r\n");
                let mut incr = Dialogue::new(|number| (words(&["INCR", &format!("n{number}")]), answer.clone()));
                incr.hold(&mut stream, 1);
            }
        };
        ask(10);
        assert_eq!(least(100, || ask(100)), (0.0, 0.0));
    });
}

#[test]
fn a_field_of_a_row_allocates_the_value_of_its_key() {
    with_server(|server| {
        let mut sql = Sql::start(server.addresses().pg);
        sql.query("CREATE TABLE fields (id integer PRIMARY KEY, name text)");
        sql.query("INSERT INTO fields SELECT i, 'name of ' || i FROM generate_series(0, 99) AS t(i)");
        let mut stream = connect(server.addresses().resp);
        let name = |number: usize| format!("name of {number}");
        let mut hget =
            Dialogue::new(|number| (words(&["HGET", &format!("fields:{{{number}}}"), "name"]), bulk(&name(number))));
        let (allocations, bytes) = hget.cost_each(&mut stream);
        assert!(allocations <= 1.0 && bytes <= 64.0, "HGET: {allocations} allocations of {bytes} bytes");
        sql.query("DROP TABLE fields");
    });
}

/// A client of the PostgreSQL door that allocates little and knows what comes.
struct Sql {
    stream: TcpStream,
    body: Vec<u8>,
}

impl Sql {
    fn start(address: SocketAddr) -> Self {
        let mut sql = Self { stream: connect(address), body: Vec::new() };
        let body = b"\0\x03\0\0user\0ashlar\0\0";
        sql.stream.write_all(&(body.len() as u32 + 4).to_be_bytes()).unwrap();
        sql.stream.write_all(body).unwrap();
        sql.until_ready(|_, _| {});
        sql
    }

    /// Reads messages up to ReadyForQuery. An error is one of the test.
    fn until_ready(&mut self, mut see: impl FnMut(u8, &[u8])) {
        loop {
            let mut head = [0; 5];
            self.stream.read_exact(&mut head).unwrap();
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize - 4;
            self.body.resize(length, 0);
            self.stream.read_exact(&mut self.body).unwrap();
            assert!(head[0] != b'E', "{}", String::from_utf8_lossy(&self.body));
            see(head[0], &self.body);
            if head[0] == b'Z' {
                return;
            }
        }
    }

    fn query(&mut self, text: &str) {
        let message = message(b'Q', &[text.as_bytes(), b"\0"]);
        self.stream.write_all(&message).unwrap();
        self.until_ready(|_, _| {});
    }

    /// Parse under a name, and Sync.
    fn prepare(&mut self, name: &str, text: &str) {
        let mut messages = message(b'P', &[name.as_bytes(), b"\0", text.as_bytes(), b"\0\0\0"]);
        messages.extend(message(b'S', &[]));
        self.stream.write_all(&messages).unwrap();
        self.until_ready(|_, _| {});
    }

    /// Bind with one parameter in text, Execute and Sync, in one write: the rows that come.
    fn run(&mut self, name: &str, parameter: &str, expected: &[u8]) -> usize {
        let length = (parameter.len() as u32).to_be_bytes();
        let bind: [&[u8]; 6] = [b"\0", name.as_bytes(), b"\0\0\0\0\x01", &length, parameter.as_bytes(), b"\0\0"];
        let mut messages = message(b'B', &bind);
        messages.extend(message(b'E', &[b"\0\0\0\0\0"]));
        messages.extend(message(b'S', &[]));
        self.stream.write_all(&messages).unwrap();
        let mut rows = 0;
        self.until_ready(|kind, body| {
            if kind == b'D' {
                // The count of columns, and the length of the first.
                assert_eq!(&body[6..], expected);
                rows += 1;
            }
        });
        rows
    }
}

fn message(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut message = vec![kind];
    message.extend((length as u32 + 4).to_be_bytes());
    parts.iter().for_each(|part| message.extend_from_slice(part));
    message
}

/// Waits until it holds.
fn poll(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = clock::monotonic() + PATIENCE;
    while !holds() {
        assert!(clock::monotonic() < deadline, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn prepared_lookups_allocate_little() {
    const TIMES: u64 = 1000;
    with_server(|server| {
        let mut sql = Sql::start(server.addresses().pg);
        sql.query("CREATE TABLE looked (id integer PRIMARY KEY, v integer, name text)");
        sql.query("CREATE INDEX looked_v ON looked (v)");
        sql.query("INSERT INTO looked SELECT i, i * 7, 'name of ' || i FROM generate_series(0, 19999) AS t(i)");
        let name = |id: u64| format!("name of {id}");

        sql.prepare("by_key", "SELECT name FROM looked WHERE id = $1");
        let mut by_key = |times: u64| {
            for id in (0..times).map(|time| time * 19 % 20_000) {
                assert_eq!(sql.run("by_key", &id.to_string(), name(id).as_bytes()), 1);
            }
        };
        by_key(100);
        let (allocations, bytes) = least(TIMES, || by_key(TIMES));
        eprintln!("by key: {allocations} allocations, {bytes} bytes");
        assert!(allocations <= KEY_ALLOCATIONS, "{allocations} allocations of {bytes} bytes for a SELECT by key");
        assert!(bytes <= KEY_BYTES, "{allocations} allocations of {bytes} bytes for a SELECT by key");

        sql.prepare("by_value", "SELECT name FROM looked WHERE v = $1");
        let mut by_value = |times: u64| {
            for id in (0..times).map(|time| time * 19 % 20_000) {
                assert_eq!(sql.run("by_value", &(id * 7).to_string(), name(id).as_bytes()), 1);
            }
        };
        // Until the compactor has said where values are, every partition is asked.
        poll("the index has no directory", || cost(|| by_value(10)).0.each(10).1 < 4096.0);
        let (allocations, bytes) = least(TIMES, || by_value(TIMES));
        let (_, all) = cost(|| by_value(TIMES));
        eprintln!("by value: {allocations} allocations, {bytes} bytes; of all threads {:?}", all.each(TIMES));
        assert!(allocations <= VALUE_ALLOCATIONS, "{allocations} allocations of {bytes} bytes for a SELECT by value");
        assert!(all.each(TIMES).1 < 4096.0, "{:?} for a SELECT by an indexed value", all.each(TIMES));
        sql.query("DROP TABLE looked");
    });
}

/// One trip that changes a row where it lies, and gives back what was asked for.
#[test]
fn prepared_changes_of_a_row_that_comes_back_allocate_little() {
    const TIMES: u64 = 1000;
    with_server(|server| {
        let mut sql = Sql::start(server.addresses().pg);
        sql.query("CREATE TABLE changed (id integer PRIMARY KEY, n integer, name text)");
        sql.query("INSERT INTO changed SELECT i, 0, 'name of ' || i FROM generate_series(0, 999) AS t(i)");
        for set in ["n = 7", "n = n + 1"] {
            sql.prepare(set, &format!("UPDATE changed SET {set} WHERE id = $1 RETURNING name"));
            let mut change = |times: u64| {
                for id in 0..times {
                    assert_eq!(sql.run(set, &id.to_string(), format!("name of {id}").as_bytes()), 1);
                }
            };
            change(TIMES);
            let (allocations, bytes) = least(TIMES, || change(TIMES));
            eprintln!("SET {set}: {allocations} allocations, {bytes} bytes");
            assert!(allocations <= CHANGE_ALLOCATIONS, "{allocations} allocations of {bytes} bytes for SET {set}");
            assert!(bytes <= CHANGE_BYTES, "{allocations} allocations of {bytes} bytes for SET {set}");
        }
        sql.query("DROP TABLE changed");
    });
}

/// As measured: the parameter, and the key twice (as values, and as what the store is asked with).
const KEY_ALLOCATIONS: f64 = 3.0;
const KEY_BYTES: f64 = 96.0;
/// Those, the changes twice (as values, and as what the store is told), and one for what a session may keep of a write.
const CHANGE_ALLOCATIONS: f64 = KEY_ALLOCATIONS + 3.0;
const CHANGE_BYTES: f64 = KEY_BYTES + 256.0;
/// As measured: 9 to 11 allocations of 360 to 490 bytes.
const VALUE_ALLOCATIONS: f64 = 12.0;

/// Allocations of a text whose shape is known: the text, its shape, and what is sent in its place. A tree alone takes more than these.
const TEXT_ALLOCATIONS: f64 = 32.0;

/// The same as plain texts, each with constants of its own: only the first of a shape is parsed.
fn texts_of_one_shard(sql: &mut Sql) {
    const TIMES: u64 = 1000;
    type Text = fn(u64) -> String;
    let texts: [(&str, Text); 5] = [
        ("SELECT", |id| format!("SELECT name FROM plain WHERE id = {id}")),
        ("SELECT of a table with another name there", |id| format!("SELECT name FROM renamed WHERE id = {id}")),
        ("UPDATE", |id| format!("UPDATE renamed SET name = 'name {id}' WHERE id = {id}")),
        ("DELETE", |id| format!("DELETE FROM plain WHERE id = {id}")),
        ("INSERT", |id| format!("INSERT INTO plain VALUES ({id}, 'it''s {id}') ON CONFLICT DO NOTHING")),
    ];
    for (what, text) in texts {
        for block in [false, true] {
            if block {
                sql.query("BEGIN");
            }
            // The first one is parsed, and finds the connection.
            sql.query(&text(0));
            let (allocations, bytes) = least(TIMES, || (1..=TIMES).for_each(|id| sql.query(&text(id))));
            eprintln!("text of {what}, in a block: {block}: {allocations} allocations, {bytes} bytes");
            assert!(allocations <= TEXT_ALLOCATIONS, "{what}: {allocations} allocations of {bytes} bytes");
            if block {
                sql.query("COMMIT");
            }
        }
    }
}

/// Statements that one shard answers: Bind, Execute and Sync of what is prepared, on a connection that is there.
#[test]
fn prepared_statements_of_one_shard_allocate_nothing() {
    const TIMES: u64 = 1000;
    with_server(|server| {
        let shard = shard::Shard::start();
        let mut sql = Sql::start(server.addresses().pg);
        let (host, port) = (shard.address.ip(), shard.address.port());
        sql.query(&format!(
            "CREATE SERVER one FOREIGN DATA WRAPPER postgres OPTIONS (host '{host}', port '{port}', dbname 'postgres')"
        ));
        sql.query("CREATE USER MAPPING FOR PUBLIC SERVER one OPTIONS (user 'postgres')");
        for (table, options) in [("plain", ""), ("renamed", ", table_suffix = '_{}'")] {
            sql.query(&format!(
                "CREATE TABLE {table} (id integer PRIMARY KEY, name text) PARTITION BY HASH (id) \
                 USING sharded WITH (servers = 'one', algorithm = 'hash_mod'{options})"
            ));
            sql.query(&format!("INSERT INTO {table} SELECT i, 'name' FROM generate_series(0, 999) AS t(i)"));
        }
        let mut found = Vec::new();
        for (what, text, rows) in [
            ("SELECT", "SELECT name FROM plain WHERE id = $1", 1),
            ("UPDATE", "UPDATE plain SET name = name WHERE id = $1", 0),
            ("SELECT of a table with another name there", "SELECT name FROM renamed WHERE id = $1", 1),
            ("UPDATE of a table with another name there", "UPDATE renamed SET name = name WHERE id = $1", 0),
            ("DELETE", "DELETE FROM plain WHERE id = $1", 0),
            ("INSERT", "INSERT INTO plain VALUES ($1) ON CONFLICT DO NOTHING", 0),
        ] {
            for block in [false, true] {
                sql.prepare(&format!("{what}{block}"), text);
                if block {
                    sql.query("BEGIN");
                }
                let mut run = |times: u64| {
                    for id in 0..times {
                        assert_eq!(sql.run(&format!("{what}{block}"), &id.to_string(), b"name"), rows, "{what}");
                    }
                };
                run(100);
                let each = least(TIMES, || run(TIMES));
                found.push(format!("{what}, in a block: {block}: {each:?}"));
                if block {
                    sql.query("COMMIT");
                }
            }
        }
        eprintln!("{}", found.join("\n"));
        let more: Vec<&String> = found.iter().filter(|line| !line.ends_with("(0.0, 0.0)")).collect();
        texts_of_one_shard(&mut sql);
        sql.query("DROP TABLE plain");
        sql.query("DROP TABLE renamed");
        // Nobody looks after it any more while other tests count.
        sql.query("DROP SERVER one CASCADE");
        assert!(more.is_empty(), "{more:#?}");
    });
}
