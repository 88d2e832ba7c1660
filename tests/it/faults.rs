//! Bad clients and bad luck: whatever one connection does, the others are answered and the memory comes back.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ashlar_tests::pg::{self, Connection, Message};
use ashlar_tests::process::wait_for;
use ashlar_tests::resp::{self, Reply};
use ashlar_tests::{Ashlar, Options};

use crate::http::{get, series};
use crate::random::Random;

/// How long something that is bound to happen may take; less than a client waits for an answer.
const SOON: Duration = Duration::from_secs(120);

const MIB: u64 = 1 << 20;

/// What a server may hold above its baseline once a fault is over: caches, pools and what the allocator keeps.
const SLACK: u64 = 48 * MIB;

/// A server that has done a little of everything, and its memory then.
struct Subject {
    server: Ashlar,
    baseline: u64,
}

impl Subject {
    fn start(options: Options) -> Subject {
        let server = Ashlar::start(options).unwrap();
        let mut connection = server.connect();
        connection.query("CREATE TABLE small (id integer PRIMARY KEY, t text)").unwrap();
        let rows: Vec<String> = (0..1000).map(|id| format!("({id}, '{}')", "x".repeat(100))).collect();
        connection.query(&format!("INSERT INTO small VALUES {}", rows.join(", "))).unwrap();
        connection.query("SELECT count(*), max(a.t) FROM small a JOIN small b ON a.id = b.id").unwrap();
        let baseline = server.resident_bytes();
        Subject { server, baseline }
    }

    /// Others are answered, at both doors, while whoever is at fault goes on: no fault of this file ends by itself.
    fn answers(&self) {
        let begin = Instant::now();
        let mut connection = self.server.connect();
        assert_eq!(connection.value("SELECT t FROM small WHERE id = 7").unwrap(), "x".repeat(100));
        assert_eq!(connection.value("SELECT count(*) FROM small").unwrap(), "1000");
        let mut keys = resp::Client::connect(self.server.resp()).unwrap();
        assert_eq!(keys.command(&["HGET", "small:{7}", "id"]).unwrap(), Reply::bulk("7"));
        let took = begin.elapsed();
        assert!(took < SOON, "others waited for {took:?}");
    }

    /// Memory above the baseline, in bytes.
    fn growth(&self) -> u64 {
        self.server.resident_bytes().saturating_sub(self.baseline)
    }

    fn stays_small(&self, bytes: u64) {
        let growth = self.growth();
        assert!(growth < bytes, "grew by {} MiB", growth / MIB);
    }

    /// The fault is over: everything is given back, and the server ends well.
    fn recovers(self) {
        self.answers();
        let shrunk = wait_for(SOON, || self.growth() < SLACK);
        assert!(shrunk, "still holds {} MiB above the baseline", self.growth() / MIB);
        self.server.stop();
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.set_write_timeout(Some(SOON)).unwrap();
    stream
}

/// Sends bytes that the server may stop reading at any point, and reads what it has to say until it closes.
fn shout(mut stream: TcpStream, bytes: &[u8]) {
    if stream.write_all(bytes).is_ok() {
        let _ = stream.shutdown(std::net::Shutdown::Write);
    }
    let mut rest = Vec::new();
    let _ = stream.take(MIB).read_to_end(&mut rest);
}

#[test]
fn garbage_on_either_door_harms_nobody_else() {
    let subject = Subject::start(Options::default());
    let mut bystander = subject.server.connect();
    let mut random = Random::from_environment();
    let startup = pg::startup(&[("user", "postgres")]);
    for round in 0..300 {
        let mut bytes = Vec::new();
        match round % 6 {
            0 => bytes.extend_from_slice(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
            1 => bytes.extend_from_slice(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
            2 => bytes.extend_from_slice(&startup),
            3 => bytes.extend_from_slice(b"*3\r\n$3\r\nSET\r\n$1\r\n"),
            // Messages whose types and lengths are right and whose bodies are not.
            4 => {
                bytes.extend_from_slice(&startup);
                for _ in 0..random.below(20) {
                    let kind = b"QPBDECSHFdcfpX"[random.below(14) as usize];
                    let body: Vec<u8> = (0..random.below(40)).map(|_| random.next() as u8).collect();
                    bytes.extend(pg::message(kind, &[&body]));
                }
            }
            _ => {}
        }
        bytes.extend((0..random.below(3000)).map(|_| random.next() as u8));
        shout(connect(subject.server.pg()), &bytes);
        shout(connect(subject.server.resp()), &bytes);
        assert_eq!(bystander.value("SELECT count(*) FROM small").unwrap(), "1000", "round {round}");
    }
    drop(bystander);
    subject.recovers();
}

#[test]
fn half_a_message_and_then_silence_holds_nobody_up() {
    let subject = Subject::start(Options::default());
    let query = pg::message(b'Q', &[b"SELECT count(*) FROM small\0"]);
    let command = b"*2\r\n$4\r\nECHO\r\n$5\r\nhello\r\n";
    let startup = pg::startup(&[("user", "postgres")]);
    let mut silent = Vec::new();
    for round in 0..40 {
        let mut starting = connect(subject.server.pg());
        starting.write_all(&startup[..round % startup.len()]).unwrap();
        let mut session = subject.server.connect();
        session.send(&query[..1 + round % (query.len() - 1)]).unwrap();
        let mut keys = connect(subject.server.resp());
        keys.write_all(&command[..round % command.len()]).unwrap();
        silent.push((starting, session, keys));
    }
    subject.answers();
    // Who comes back to life is served as if nothing had been.
    for (round, (_, session, keys)) in silent.iter_mut().enumerate().step_by(7) {
        session.send(&query[1 + round % (query.len() - 1)..]).unwrap();
        let kinds: Vec<u8> = (0..4).map(|_| session.read().unwrap().kind).collect();
        assert_eq!(kinds, b"TDCZ");
        keys.write_all(&command[round % command.len()..]).unwrap();
        let mut reply = [0; 11];
        keys.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"$5\r\nhello\r\n");
    }
    drop(silent);
    subject.recovers();
}

#[test]
fn a_length_of_a_gigabyte_reserves_nothing() {
    let subject = Subject::start(Options::default());
    let gigabyte = (1_i32 << 30).to_be_bytes();

    let mut start = Connection::raw(subject.server.pg()).unwrap();
    start.send(&gigabyte).unwrap();
    assert!(start.closes(), "a startup message of a gigabyte was waited for");

    for kind in *b"QPBdp" {
        let mut session = subject.server.connect();
        session.send(&[&[kind][..], &gigabyte].concat()).unwrap();
        let answer = session.read().unwrap();
        assert_eq!((answer.kind, answer.field(b'C').as_deref()), (b'E', Some("08P01")), "{}", pg::describe(&answer));
        assert!(session.closes());
    }
    for text in ["*1\r\n$1073741824\r\n", "*1073741824\r\n", "*1\r\n$99999999999999999999\r\n"] {
        let mut keys = resp::Client::connect(subject.server.resp()).unwrap();
        keys.send_raw(text.as_bytes()).unwrap();
        let reply = keys.read_reply().unwrap();
        assert!(matches!(&reply, Reply::Error(text) if text.starts_with("ERR Protocol error")), "{text:?}: {reply:?}");
        assert!(keys.closes());
    }
    // Lengths that are allowed, and never sent: memory is taken for what has arrived only.
    let mut waiting = Vec::new();
    for _ in 0..20 {
        let mut session = subject.server.connect();
        session.send(&[&b"Q"[..], &(200_i32 << 20).to_be_bytes(), b"SELECT"].concat()).unwrap();
        let mut keys = resp::Client::connect(subject.server.resp()).unwrap();
        keys.send_raw(b"*2\r\n$3\r\nGET\r\n$200000000\r\nabc").unwrap();
        waiting.push((session, keys));
    }
    subject.answers();
    subject.stays_small(SLACK);
    drop(waiting);
    subject.recovers();
}

#[test]
fn ten_thousand_connections_come_and_go() {
    let subject = Subject::start(Options::default());
    let done = AtomicBool::new(false);
    let served = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let bystander = scope.spawn(|| {
            let mut connection = subject.server.connect();
            while !done.load(Ordering::Acquire) {
                assert_eq!(connection.value("SELECT id FROM small WHERE id = 7").unwrap(), "7");
                served.fetch_add(1, Ordering::Relaxed);
            }
        });
        let visitors: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    for visit in 0..2500 {
                        match visit % 4 {
                            0 => drop(connect(subject.server.pg())),
                            1 => drop(connect(subject.server.resp())),
                            2 => drop(subject.server.connect()),
                            _ => {
                                let mut keys = resp::Client::connect(subject.server.resp()).unwrap();
                                assert_eq!(keys.command(&["PING"]).unwrap(), Reply::Simple("PONG".to_owned()));
                            }
                        }
                    }
                })
            })
            .collect();
        for visitor in visitors {
            visitor.join().unwrap();
        }
        done.store(true, Ordering::Release);
        bystander.join().unwrap();
    });
    assert!(served.into_inner() > 100, "the bystander was hardly served");
    subject.recovers();
}

#[test]
fn a_slow_reader_of_a_huge_result_costs_little() {
    let subject = Subject::start(Options::default());
    // Two hundred million bytes each, as rows and as a copy.
    for sql in [
        "SELECT a.t, b.t FROM small a, small b",
        "COPY (SELECT a.t, b.t FROM small a, small b) TO STDOUT",
        "SELECT a.t, b.t FROM small a, small b ORDER BY a.id, b.id LIMIT 1000000",
    ] {
        let mut slow = subject.server.connect();
        slow.send(&pg::message(b'Q', &[sql.as_bytes(), b"\0"])).unwrap();
        let mut read = 0;
        for step in 1..=20 {
            while read < step * MIB as usize {
                let message = slow.read().unwrap();
                assert!(b"TDHd".contains(&message.kind), "{sql}: {}", pg::describe(&message));
                read += message.body.len();
            }
            subject.answers();
            // A sort holds what it sorts; the rows of the other two exist only on their way.
            if !sql.contains("ORDER BY") {
                subject.stays_small(96 * MIB);
            }
        }
    }
    subject.recovers();
}

#[test]
fn a_resp_client_that_does_not_read_costs_little() {
    let subject = Subject::start(Options::default());
    let mut slow = resp::Client::connect(subject.server.resp()).unwrap();
    let value = vec![b'v'; 100_000];
    assert_eq!(slow.command(&[&b"SET"[..], b"faults:big", &value]).unwrap(), Reply::Simple("OK".to_owned()));
    let mut bytes = Vec::new();
    for _ in 0..5000 {
        resp::encode(&["GET", "faults:big"], &mut bytes);
    }
    slow.send_raw(&bytes).unwrap();
    for _ in 0..20 {
        subject.answers();
        subject.stays_small(SLACK);
    }
    for number in 0..5000 {
        assert_eq!(slow.read_reply().unwrap(), Reply::Bulk(value.clone()), "reply {number}");
    }
    subject.recovers();
}

/// More rows than will ever be computed.
const ENDLESS: &str = "SELECT a.id FROM small a, small b, small c, small d, small e, small f";
/// The same without a row to show for it.
const ENDLESS_COUNT: &str = "SELECT count(*) FROM small a, small b, small c, small d, small e, small f";

#[test]
fn the_first_row_leaves_before_the_last_is_computed() {
    let subject = Subject::start(Options::default());
    // The last would come in years, and nobody waits for a message for longer than some minutes.
    for sql in [ENDLESS, "SELECT a.id FROM small a, small b, small c, small d WHERE a.id + b.id >= c.id - d.id"] {
        let mut connection = subject.server.connect();
        connection.send(&pg::message(b'Q', &[sql.as_bytes(), b"\0"])).unwrap();
        assert_eq!(connection.read().unwrap().kind, b'T');
        assert_eq!(connection.read().unwrap().kind, b'D');
    }
    subject.recovers();
}

#[test]
fn a_client_that_vanishes_takes_its_query_along() {
    let subject = Subject::start(Options::default());
    // Rows that nobody takes tell the server so; a query without any runs on, as in PostgreSQL.
    let mut gone = subject.server.connect();
    gone.send(&pg::message(b'Q', &[ENDLESS.as_bytes(), b"\0"])).unwrap();
    assert_eq!(gone.read().unwrap().kind, b'T');
    drop(gone);
    let idle = wait_for(SOON, || !busy(subject.server.pid()));
    assert!(idle, "the server still works on {ENDLESS:?} for nobody");
    // In the middle of a transaction: nothing of it stays.
    let mut gone = subject.server.connect();
    gone.query("BEGIN").unwrap();
    gone.query("DELETE FROM small").unwrap();
    drop(gone);
    // In the middle of a COPY.
    let mut gone = subject.server.connect();
    gone.send(&pg::message(b'Q', &[b"COPY small FROM STDIN\0"])).unwrap();
    assert_eq!(gone.read().unwrap().kind, b'G');
    gone.send(&pg::message(b'd', &[b"5000\tlost\n"])).unwrap();
    drop(gone);
    subject.recovers();
}

/// PostgreSQL lets the ALTER wait for the COPY; here the COPY fails, and no value lands in a column that it was not
/// meant for.
#[test]
fn a_table_that_is_altered_during_a_copy_gets_none_of_its_rows() {
    let server = Ashlar::shared();
    let (mut copies, mut alters) = (server.connect(), server.connect());
    alters.query("CREATE TABLE altered_meanwhile (id integer PRIMARY KEY, a integer)").unwrap();
    for before in ["", "1\t10\n"] {
        copies.send(&pg::message(b'Q', &[b"COPY altered_meanwhile FROM STDIN\0"])).unwrap();
        assert_eq!(copies.read().unwrap().kind, b'G');
        copies.send(&pg::message(b'd', &[before.as_bytes()])).unwrap();
        alters.query("ALTER TABLE altered_meanwhile ADD COLUMN b integer").unwrap();
        alters.query("ALTER TABLE altered_meanwhile DROP COLUMN a").unwrap();
        copies.send(&pg::message(b'd', &[b"2\t20\n"])).unwrap();
        copies.send(&pg::message(b'c', &[])).unwrap();
        let mut error = None;
        loop {
            let message = copies.read().unwrap();
            match message.kind {
                b'E' => error = message.field(b'C'),
                b'Z' => break,
                _ => {}
            }
        }
        assert_eq!(error.as_deref(), Some("40001"));
        assert_eq!(alters.value("SELECT count(*) FROM altered_meanwhile").unwrap(), "0");
        alters.query("ALTER TABLE altered_meanwhile ADD COLUMN a integer").unwrap();
        alters.query("ALTER TABLE altered_meanwhile DROP COLUMN b").unwrap();
    }
    alters.query("DROP TABLE altered_meanwhile").unwrap();
}

/// Whether a process uses a noticeable part of a CPU, measured over a fifth of a second.
fn busy(pid: u32) -> bool {
    let ticks = || -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        // The name in parentheses may contain spaces; user and system time are the 14th and 15th field.
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let before = ticks();
    std::thread::sleep(Duration::from_millis(200));
    ticks() - before > 4
}

/// Asks again and again to cancel what a connection does, until it says something; a request that comes before the
/// statement has begun is lost, as the protocol has it.
fn cancel_until_answered(address: SocketAddr, connection: &mut Connection) -> Message {
    let answered = AtomicBool::new(false);
    let key = connection.key.clone();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !answered.load(Ordering::Acquire) {
                pg::cancel(address, &key).unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let message = loop {
            let message = connection.read().unwrap();
            if !b"TD".contains(&message.kind) {
                break message;
            }
        };
        answered.store(true, Ordering::Release);
        message
    })
}

#[test]
fn a_long_query_is_cancelled_and_its_session_lives_on() {
    let subject = Subject::start(Options::default());
    for sql in [
        ENDLESS_COUNT,
        ENDLESS,
        "SELECT a.id FROM small a, small b, small c, small d ORDER BY a.id + b.id + c.id + d.id",
        "UPDATE small SET t = 'never' WHERE id IN (SELECT a.id FROM small a, small b, small c, small d, small e)",
        "SELECT a.id, count(*) FROM small a, small b, small c, small d WHERE a.id < b.id * c.id GROUP BY a.id",
    ] {
        let mut connection = subject.server.connect();
        connection.send(&pg::message(b'Q', &[sql.as_bytes(), b"\0"])).unwrap();
        // Somebody who does not know the secret cancels nothing.
        let mut wrong = connection.key.clone();
        *wrong.last_mut().unwrap() ^= 1;
        pg::cancel(subject.server.pg(), &wrong).unwrap();
        subject.answers();
        let begin = Instant::now();
        let answer = cancel_until_answered(subject.server.pg(), &mut connection);
        assert_eq!((answer.kind, answer.field(b'C').as_deref()), (b'E', Some("57014")), "{}", pg::describe(&answer));
        assert!(begin.elapsed() < SOON, "cancelling {sql:?} took {:?}", begin.elapsed());
        assert_eq!(connection.read().unwrap().kind, b'Z');
        assert_eq!(connection.value("SELECT count(*) FROM small WHERE t = 'never'").unwrap(), "0");
    }
    subject.recovers();
}

#[test]
fn statements_that_are_too_deep_or_too_long_are_refused_or_answered() {
    let subject = Subject::start(Options::default());
    let deep = |depth: usize| format!("SELECT {}1{}", "(".repeat(depth), ")".repeat(depth));
    let statements = [
        deep(10_000),
        deep(500_000),
        format!("SELECT {}1", "1 + ".repeat(20_000)),
        format!("SELECT {}true", "NOT ".repeat(20_000)),
        format!("SELECT {}", "abs(".repeat(5_000) + "1" + &")".repeat(5_000)),
        format!("SELECT 1 WHERE 1 IN ({})", vec!["1"; 50_000].join(", ")),
        format!("SELECT {}", vec!["1"; 10_000].join(", ")),
        format!("SELECT * FROM small WHERE {}", vec!["id = 1"; 5_000].join(" OR ")),
        format!("{}SELECT 1{}", "SELECT * FROM (".repeat(500), ") s".repeat(500)),
        format!("SELECT '{}'::jsonb", "[".repeat(100_000)),
        format!("SELECT '{}'", "x".repeat(20_000_000)),
        vec!["SELECT 1"; 5_000].join("; "),
    ];
    for sql in &statements {
        let mut connection = subject.server.connect();
        // Whatever the answer is, it comes, and the connection and the server outlive it.
        if let Err(error) = connection.query(sql) {
            let text = error.to_string();
            let refused = ["54", "42", "22", "0A", "53"].iter().any(|class| text.starts_with(class));
            assert!(refused, "{}...: {text}", &sql[..40]);
        }
        assert_eq!(connection.value("SELECT 1").unwrap(), "1", "{}...", &sql[..40]);
        subject.answers();
    }
    subject.recovers();
}

#[test]
fn a_full_store_refuses_writes_and_serves_on() {
    let config = "[store]\nmemory_mib_max = 64\n".to_owned();
    let subject = Subject::start(Options { config, ..Options::default() });
    let mut connection = subject.server.connect();
    connection.query("CREATE TABLE big (id integer PRIMARY KEY, t text)").unwrap();
    let mut written = 0;
    let error = loop {
        let rows: Vec<String> = (0..1000).map(|row| format!("({}, repeat('x', 1000))", written + row)).collect();
        match connection.query(&format!("INSERT INTO big VALUES {}", rows.join(", "))) {
            Ok(_) => written += 1000,
            Err(error) => break error.to_string(),
        }
        assert!(written < 200_000, "200 MB fit into a store of 64 MiB");
    };
    assert!(error.starts_with("53200"), "{error}");
    assert!(written > 20_000, "the store was full after {written} kB");
    // The statement that was refused left nothing.
    assert_eq!(connection.value("SELECT count(*) FROM big").unwrap(), written.to_string());
    let mut keys = resp::Client::connect(subject.server.resp()).unwrap();
    let refused = (0..10_000).find_map(|number| {
        match keys.command(&["SET", &format!("full:{number}"), &"y".repeat(10_000)]).unwrap() {
            Reply::Error(text) => Some(text),
            _ => None,
        }
    });
    assert!(refused.as_ref().is_some_and(|text| text.starts_with("OOM")), "{refused:?}");
    subject.answers();
    // What is given up can be used again.
    connection.query("TRUNCATE big").unwrap();
    connection.query("TRUNCATE kv").unwrap();
    let fits = wait_for(SOON, || connection.query("INSERT INTO big VALUES (1, 'again')").is_ok());
    assert!(fits, "the memory of a truncated table is not given back");
    subject.recovers();
}

#[test]
fn prepared_statements_that_are_small_are_within_the_bound_of_memory() {
    let config = "[store]\nmemory_mib_max = 32\n".to_owned();
    let subject = Subject::start(Options { config, ..Options::default() });
    let mut connection = subject.server.connect();
    let text = "x".repeat(5000);
    let prepare = |number: u32| format!("PREPARE s{number} AS SELECT '{text}' AS t, {number} AS n");
    let error = (0..9000).find_map(|number| connection.query(&prepare(number)).err());
    let error = error.map(|error| error.to_string());
    assert!(error.as_ref().is_some_and(|error| error.starts_with("53200")), "{error:?}");
    // What is given up can be used again.
    connection.query("DEALLOCATE ALL").unwrap();
    connection.query(&prepare(0)).unwrap();
    assert_eq!(connection.query("EXECUTE s0").unwrap().len(), 1);
    subject.recovers();
}

/// Sends messages with a Sync behind them: the error among the answers.
fn refused(connection: &mut Connection, messages: &[Vec<u8>]) -> Option<String> {
    connection.send(&messages.concat()).unwrap();
    connection.send(&pg::message(b'S', &[])).unwrap();
    let mut error = None;
    loop {
        let message = connection.read().unwrap();
        match message.kind {
            b'E' => error = Some(pg::describe(&message)),
            b'Z' => return error,
            _ => {}
        }
    }
}

#[test]
fn types_that_clients_declare_are_within_the_bound_of_memory() {
    let config = "[store]\nmemory_mib_max = 16\n".to_owned();
    let subject = Subject::start(Options { config, ..Options::default() });
    let mut connection = subject.server.connect();
    let types = 23_i32.to_be_bytes().repeat(60_000);
    let parse = |name: &str| {
        let count = 60_000_u16.to_be_bytes();
        pg::message(b'P', &[name.as_bytes(), b"\0SELECT 1\0", &count, &types])
    };
    // 240 kB each.
    let error = (0..1000).find_map(|number| refused(&mut connection, &[parse(&format!("s{number}"))]));
    assert!(error.as_ref().is_some_and(|error| error.starts_with("53200")), "{error:?}");
    connection.query("DEALLOCATE ALL").unwrap();
    // The statement goes with the next one, and its portals stay.
    connection.query("BEGIN").unwrap();
    let bind = |portal: &str| pg::message(b'B', &[portal.as_bytes(), b"\0\0", &[0; 6]]);
    let error = (0..1000).find_map(|number| refused(&mut connection, &[parse(""), bind(&format!("p{number}"))]));
    assert!(error.as_ref().is_some_and(|error| error.starts_with("53200")), "{error:?}");
    connection.query("ROLLBACK").unwrap();
    // What is given up can be used again.
    assert_eq!(refused(&mut connection, &[parse(""), bind("p")]), None);
    subject.recovers();
}

#[test]
fn portals_with_names_are_within_the_bound_of_memory() {
    let config = "[store]\nmemory_mib_max = 16\n".to_owned();
    let subject = Subject::start(Options { config, ..Options::default() });
    let mut connection = subject.server.connect();
    let text = "x".repeat(2500);
    // The statement goes with the next one, and its plan stays with its portal.
    let parse =
        |number: u32| pg::message(b'P', &[b"\0", format!("SELECT '{text}' AS t, {number} AS n").as_bytes(), &[0; 3]]);
    let bind = |portal: &str| pg::message(b'B', &[portal.as_bytes(), b"\0\0", &[0; 6]]);
    connection.query("BEGIN").unwrap();
    let error = (0..9000).find_map(|number| refused(&mut connection, &[parse(number), bind(&format!("p{number}"))]));
    assert!(error.as_ref().is_some_and(|error| error.starts_with("53200")), "{error:?}");
    connection.query("ROLLBACK").unwrap();
    // Values that are short by themselves.
    let value = "y".repeat(4000);
    let length = 4000_i32.to_be_bytes();
    let bind_value = |portal: &str| {
        pg::message(b'B', &[portal.as_bytes(), b"\0s\0", &[0, 0, 0, 1], &length, value.as_bytes(), &[0; 2]])
    };
    let named = pg::message(b'P', &[b"s\0SELECT $1::text\0", &[0; 2]]);
    assert_eq!(refused(&mut connection, &[named]), None);
    connection.query("BEGIN").unwrap();
    let error = (0..9000).find_map(|number| refused(&mut connection, &[bind_value(&format!("v{number}"))]));
    assert!(error.as_ref().is_some_and(|error| error.starts_with("53200")), "{error:?}");
    connection.query("ROLLBACK").unwrap();
    // What is given up can be used again.
    connection.query("BEGIN").unwrap();
    assert_eq!(refused(&mut connection, &[parse(0), bind("p"), bind_value("v")]), None);
    connection.query("ROLLBACK").unwrap();
    subject.recovers();
}

#[test]
fn values_of_portals_that_execute_statements_are_within_the_bound_of_memory() {
    let config = "[store]\nmemory_mib_max = 16\n".to_owned();
    let subject = Subject::start(Options { config, ..Options::default() });
    let mut connection = subject.server.connect();
    connection.query("PREPARE s(text) AS SELECT length($1), n FROM generate_series(1, 3) AS g(n)").unwrap();
    let parse = pg::message(b'P', &[b"\0EXECUTE s(repeat('y', 1000000))\0", &[0; 2]]);
    let bind = |portal: &str| pg::message(b'B', &[portal.as_bytes(), b"\0\0", &[0; 6]]);
    // All its rows are sent, and it is there until it is closed.
    let execute = |portal: &str| pg::message(b'E', &[portal.as_bytes(), b"\0", &[0; 4]]);
    let mut run = |portal: &str| refused(&mut connection, &[parse.clone(), bind(portal), execute(portal)]);
    // The next one replaces it.
    (0..20).for_each(|_| assert_eq!(run(""), None));
    connection.query("BEGIN").unwrap();
    let mut run = |portal: &str| refused(&mut connection, &[parse.clone(), bind(portal), execute(portal)]);
    let error = (0..100).find_map(|number| run(&format!("p{number}")));
    assert!(error.as_ref().is_some_and(|error| error.starts_with("53200")), "{error:?}");
    connection.query("ROLLBACK").unwrap();
    // What is given up can be used again.
    connection.query("BEGIN").unwrap();
    assert_eq!(refused(&mut connection, &[parse, bind("p"), execute("p")]), None);
    connection.query("ROLLBACK").unwrap();
    subject.recovers();
}

/// Writes small values until not even those fit.
fn fill(keys: &mut resp::Client, from: &mut usize) {
    for bytes in [100, 1] {
        let value = "v".repeat(bytes);
        let mut refused = 0;
        while refused < 300 {
            match keys.command(&["SET", &format!("fill:{:07}", *from), &value]).unwrap() {
                Reply::Error(text) => {
                    assert!(text.starts_with("OOM"), "{text}");
                    refused += 1;
                }
                _ => refused = 0,
            }
            *from += 1;
        }
    }
}

#[test]
fn a_full_store_can_be_read_and_emptied_in_every_way() {
    let config = "[store]\nmemory_mib_max = 32\n".to_owned();
    let subject = Subject::start(Options { config, ..Options::default() });
    let mut connection = subject.server.connect();
    let mut keys = resp::Client::connect(subject.server.resp()).unwrap();
    let mut from = 0;
    let key = |number: usize| format!("fill:{number:07}");
    let named = |range: std::ops::Range<usize>| range.map(key).collect::<Vec<String>>();

    fill(&mut keys, &mut from);
    let many = named(0..200);
    let mut command = vec!["DEL"];
    command.extend(many.iter().map(String::as_str));
    assert_eq!(keys.command(&command).unwrap(), Reply::Integer(200));

    fill(&mut keys, &mut from);
    for number in 200..220 {
        assert_eq!(keys.command(&["PEXPIRE", &key(number), "1"]).unwrap(), Reply::Integer(1), "{number}");
    }
    keys.command(&["MULTI"]).unwrap();
    for number in 220..240 {
        keys.command(&["DEL", &key(number)]).unwrap();
    }
    assert_eq!(keys.command(&["EXEC"]).unwrap(), Reply::Array(vec![Reply::Integer(1); 20]));

    // What a command needs on its way is not the rows' concern: it is answered, and the connection lives. What went before may come back
    // only now, and be room for it.
    let long = "x".repeat(200_000);
    let refused = wait_for(SOON, || {
        fill(&mut keys, &mut from);
        let reply = keys.command(&["SET", "long", &long]).unwrap();
        if let Reply::Error(text) = &reply {
            assert!(text.starts_with("OOM"), "{text}");
            return true;
        }
        assert_eq!(keys.command(&["DEL", "long"]).unwrap(), Reply::Integer(1));
        false
    });
    assert!(refused, "there is always room for 200 kB");
    assert_eq!(keys.command(&["PING"]).unwrap(), Reply::Simple("PONG".to_owned()));

    fill(&mut keys, &mut from);
    let list = named(240..260).iter().map(|key| format!("'{key}'")).collect::<Vec<String>>().join(", ");
    let found = connection.value(&format!("SELECT count(*) FROM kv WHERE key IN ({list})")).unwrap();
    assert_eq!(found, "20");
    connection.query(&format!("DELETE FROM kv WHERE key IN ({list})")).unwrap();
    fill(&mut keys, &mut from);
    connection.query(&format!("DELETE FROM kv WHERE key < '{}'", key(1_260))).unwrap();
    fill(&mut keys, &mut from);
    connection.query("BEGIN").unwrap();
    connection.query(&format!("DELETE FROM kv WHERE key < '{}'", key(2_260))).unwrap();
    connection.query("COMMIT").unwrap();
    let left = connection.value(&format!("SELECT count(*) FROM kv WHERE key < '{}'", key(2_260))).unwrap();
    assert_eq!(left, "0");
    connection.query("TRUNCATE kv").unwrap();
    drop((connection, keys));
    subject.recovers();
}

#[test]
fn too_many_connections_are_told_so() {
    let config = "[server]\nconnections_max = 10\n".to_owned();
    let server = Ashlar::start(Options { config, ..Options::default() }).unwrap();
    let mut sessions: Vec<Connection> = (0..10).map(|_| server.connect()).collect();
    let mut one_more = Connection::raw(server.pg()).unwrap();
    one_more.send(&pg::startup(&[("user", "postgres")])).unwrap();
    let answer = one_more.read().unwrap();
    assert_eq!((answer.kind, answer.field(b'C').as_deref()), (b'E', Some("53300")), "{}", pg::describe(&answer));
    assert!(one_more.closes());
    for session in &mut sessions {
        assert_eq!(session.value("SELECT 1").unwrap(), "1");
    }
    sessions.pop();
    let admitted = wait_for(SOON, || Connection::connect(server.pg()).is_ok());
    assert!(admitted, "a place that became free is not given away");

    let mut keys: Vec<resp::Client> = (0..10).map(|_| resp::Client::connect(server.resp()).unwrap()).collect();
    for client in &mut keys {
        assert_eq!(client.command(&["PING"]).unwrap(), Reply::Simple("PONG".to_owned()));
    }
    let mut one_more = resp::Client::connect(server.resp()).unwrap();
    let reply = one_more.read_reply().unwrap();
    assert_eq!(reply, Reply::Error("ERR max number of clients reached".to_owned()));
    assert!(one_more.closes());
    drop((sessions, keys));
    server.stop();
}

#[test]
fn a_stop_ends_idle_sessions_at_once_and_endless_statements_after_the_grace_time() {
    // Longer than without a word of it, and long enough for sessions that are idle to have ended before, on any machine.
    const GRACE: Duration = Duration::from_secs(12);
    let config = format!("[server]\nshutdown_grace_ms = {}\n", GRACE.as_millis());
    let mut subject = Subject::start(Options { config, ..Options::default() });
    let mut idle = subject.server.connect();
    let mut in_transaction = subject.server.connect();
    in_transaction.query("BEGIN").unwrap();
    in_transaction.query("DELETE FROM small").unwrap();
    let mut keys = resp::Client::connect(subject.server.resp()).unwrap();
    assert_eq!(keys.command(&["PING"]).unwrap(), Reply::Simple("PONG".to_owned()));
    let mut endless = subject.server.connect();
    endless.send(&pg::message(b'Q', &[ENDLESS_COUNT.as_bytes(), b"\0"])).unwrap();
    let runs = || {
        let page = get(subject.server.http(), "/metrics").1;
        series(&page, r#"ashlar_query_queries{state="running"}"#) == Some(1.0)
    };
    assert!(wait_for(SOON, runs), "the query does not run");

    let ends = |session: &mut Connection| {
        let answer = loop {
            let message = session.read().unwrap();
            if message.kind != b'T' {
                break message;
            }
        };
        assert_eq!((answer.kind, answer.field(b'C').as_deref()), (b'E', Some("57P01")), "{}", pg::describe(&answer));
        assert!(session.closes());
    };
    let begin = Instant::now();
    subject.server.signal("TERM").unwrap();
    [&mut idle, &mut in_transaction].into_iter().for_each(ends);
    assert!(keys.closes());
    assert!(begin.elapsed() < GRACE, "sessions that are idle were told after {:?}", begin.elapsed());
    ends(&mut endless);
    assert!(begin.elapsed() >= GRACE, "a statement was ended after {:?}", begin.elapsed());
    assert!(subject.server.wait().unwrap().success(), "{}", subject.server.log());
    subject.server.check_log();
}
