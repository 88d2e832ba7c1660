//! Row locks: conversations of several sessions that a real PostgreSQL has at the same time, and promises under load.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ashlar_tests::pg::{self, Connection};
use ashlar_tests::process::wait_for;
use ashlar_tests::resp::{Client, Reply};
use ashlar_tests::{Ashlar, Options, Postgres};

use crate::conflicts::End;
use crate::random::Random;

mod conversations;

/// How long something that is bound to happen may take.
const SOON: Duration = Duration::from_secs(120);

/// Commands wait for locked rows for longer than anything here takes.
const PATIENT: &str = "resp_lock_timeout_ms = 600000\n";

/// A session, and somebody who sees whether it waits.
struct Party {
    connection: Connection,
    pid: i32,
    /// What it is on, and what it has asked last: for whoever reads of a failure.
    asked: (SocketAddr, String),
}

impl Party {
    fn new(address: SocketAddr) -> Party {
        let connection = Connection::connect(address).unwrap();
        let pid = i32::from_be_bytes(connection.key[..4].try_into().unwrap());
        Party { connection, pid, asked: (address, String::new()) }
    }

    fn start(&mut self, sql: &str) {
        sql.clone_into(&mut self.asked.1);
        self.connection.send(&pg::message(b'Q', &[sql.as_bytes(), b"\0"])).unwrap();
    }

    /// Everything that a statement answers, as one line.
    fn answer(&mut self) -> String {
        let mut line = Vec::new();
        loop {
            let message = self.connection.read().unwrap_or_else(|error| panic!("{:?}: {error}", self.asked));
            match message.kind {
                b'D' => {
                    let row = message.row().into_iter().map(|value| value.unwrap_or_else(|| "NULL".to_owned()));
                    line.push(row.collect::<Vec<_>>().join("|"));
                }
                b'C' => line.push(String::from_utf8_lossy(&message.body).trim_end_matches('\0').to_owned()),
                b'E' => {
                    let field = |name| message.field(name).unwrap_or_default();
                    line.push(format!("{}: {}", field(b'C'), field(b'M')));
                }
                b'Z' => return line.join(" / "),
                _ => {}
            }
        }
    }

    fn run(&mut self, sql: &str) -> String {
        self.start(sql);
        self.answer()
    }

    /// Takes back a time so short that on a busy machine this statement may have reached it too.
    fn set_no_statement_timeout(&mut self) {
        assert!(wait_for(SOON, || self.run("SET statement_timeout = 0") == "SET"), "there is no time for SET");
    }
}

/// Whether a session waits for a lock, as somebody else sees it.
fn waits(watcher: &mut Connection, pid: i32) -> bool {
    let sql = format!("SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = {pid}");
    watcher.value(&sql).unwrap() != "0"
}

/// Has a conversation: `1: statement` is run, `1& statement` begins and has to wait, `1.` brings its answer.
fn converse(address: SocketAddr, script: &str) -> Vec<String> {
    let mut watcher = Connection::connect(address).unwrap();
    let mut parties: Vec<Party> = (0..4).map(|_| Party::new(address)).collect();
    let mut said = Vec::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (who, rest) = line.split_at(1);
        let party = &mut parties[who.parse::<usize>().unwrap()];
        let sql = rest[1..].trim();
        match &rest[..1] {
            ":" => said.push(format!("{line}\n    {}", party.run(sql))),
            "&" => {
                party.start(sql);
                let pid = party.pid;
                assert!(wait_for(SOON, || waits(&mut watcher, pid)), "{line}: does not wait");
                said.push(line.to_owned());
            }
            "." => said.push(format!("{line}\n    {}", party.answer())),
            other => panic!("{other} in {line}"),
        }
    }
    said
}

#[test]
fn conversations_are_those_of_postgresql() {
    let server = Ashlar::start(Options::default()).unwrap();
    for (title, script) in conversations::ALL {
        let script = format!("{}{script}", conversations::SETUP);
        let postgres = converse(Postgres::shared().address(), &script);
        let ashlar = converse(server.pg(), &script);
        assert_eq!(ashlar.join("\n"), postgres.join("\n"), "{title}");
    }
    server.stop();
}

/// Advisory locks that are waited for: whoever waits goes on when the lock is let go, by hand, by the end of a transaction or of the session.
#[test]
fn advisory_locks_are_waited_for() {
    let server = Ashlar::start(Options::default()).unwrap();
    let [mut first, mut second, mut third] = [0; 3].map(|_| Party::new(server.pg()));
    let done = " / SELECT 1";
    for (lock, release) in [
        ("SELECT pg_advisory_lock(1)", "SELECT pg_advisory_unlock(1)"),
        ("SELECT pg_advisory_lock(1)", "SELECT pg_advisory_unlock_all()"),
        ("BEGIN; SELECT pg_advisory_xact_lock(1)", "COMMIT"),
        ("BEGIN; SELECT pg_advisory_xact_lock(1)", "ROLLBACK"),
        ("BEGIN; SELECT pg_advisory_xact_lock(1)", "SELECT 1 / 0"),
    ] {
        first.run("ROLLBACK");
        first.run(lock);
        second.start("SELECT pg_advisory_lock(1)");
        // It waits, or has not begun: in both cases it has the lock in the end.
        assert_eq!(third.run("SELECT pg_try_advisory_lock(1)"), "f / SELECT 1", "{lock}");
        first.run(release);
        assert_eq!(second.answer(), done, "{lock}, {release}");
        assert_eq!(second.run("SELECT pg_advisory_unlock(1)"), "t / SELECT 1", "{lock}, {release}");
    }
    first.run("ROLLBACK");
    first.run("SELECT pg_advisory_lock(1)");
    second.run("SET lock_timeout = 20");
    let too_long = "55P03: canceling statement due to lock timeout";
    assert_eq!(second.run("SELECT pg_advisory_lock(1)"), too_long);
    second.run("SET lock_timeout = 0");
    second.run("SET statement_timeout = 20");
    for waits in ["SELECT pg_advisory_lock(1)", "SELECT pg_sleep(1000)"] {
        assert_eq!(second.run(waits), "57014: canceling statement due to statement timeout", "{waits}");
    }
    second.set_no_statement_timeout();
    third.start("SELECT pg_advisory_lock(1)");
    // Its locks go with a session.
    drop(first);
    assert_eq!(third.answer(), done);
    server.stop();
}

/// Waits of a server for row locks, and its deadlocks.
fn lock_counters(server: &Ashlar) -> (f64, f64) {
    let page = crate::http::get(server.http(), "/metrics").1;
    let count = |kind: &str| {
        crate::http::series(&page, &format!("ashlar_store_lock_waits_total{{kind=\"{kind}\"}}")).unwrap_or_default()
    };
    (count("begun"), count("deadlock"))
}

/// Money moves between accounts by SELECT ... FOR UPDATE and by UPDATE, in any order: nothing is lost, no COMMIT fails, and
/// whoever ends in a deadlock begins anew.
#[test]
fn a_bank_keeps_its_total() {
    const ACCOUNTS: u64 = 6;
    // Two rows that five clients want all the time, on a machine that may be busy with other tests.
    let config = format!("[server]\n{PATIENT}");
    let server = Ashlar::start(Options { config, ..Options::default() }).unwrap();
    let mut own = server.connect();
    own.query("CREATE TABLE bank (id integer PRIMARY KEY, n bigint NOT NULL)").unwrap();
    own.query(&format!("INSERT INTO bank SELECT i, 1000 FROM generate_series(1, {ACCOUNTS}) AS g (i)")).unwrap();
    let (done, deadlocks) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for worker in 0..4u64 {
            let (server, done, deadlocks) = (&server, &done, &deadlocks);
            scope.spawn(move || {
                let mut random = Random::from_seed(7 + worker);
                let mut connection = server.connect();
                for _ in 0..120 {
                    let from = random.below(ACCOUNTS) + 1;
                    let to = (from + random.below(ACCOUNTS - 1)) % ACCOUNTS + 1;
                    let locks = random.below(2) == 0;
                    loop {
                        match transfer(&mut connection, from, to, locks) {
                            Ok(()) => break,
                            Err(error) => {
                                assert!(error.starts_with("40P01"), "{error}");
                                deadlocks.fetch_add(1, Ordering::AcqRel);
                                connection.query("ROLLBACK").unwrap();
                            }
                        }
                    }
                    done.fetch_add(1, Ordering::AcqRel);
                }
            });
        }
        // A client of the other door changes the same rows meanwhile.
        let (server, done) = (&server, &done);
        scope.spawn(move || {
            let mut keys = Client::connect(server.resp()).unwrap();
            while done.load(Ordering::Acquire) < 480 {
                for (id, change) in [(1, "5"), (2, "-5")] {
                    let reply = keys.command(&["HINCRBY", &format!("bank:{{{id}}}"), "n", change]).unwrap();
                    assert!(matches!(reply, Reply::Integer(_)), "{reply:?}");
                }
            }
        });
    });
    assert_eq!(own.value("SELECT sum(n) FROM bank").unwrap(), (ACCOUNTS * 1000).to_string());
    let (waits, found) = lock_counters(&server);
    assert!(waits > 0.0, "nobody has waited");
    assert!(found as u64 >= deadlocks.load(Ordering::Acquire));
    assert_eq!(own.value("SELECT count(*) FROM pg_locks").unwrap(), "0");
    server.stop();
}

/// One transfer: the error that ends it.
fn transfer(connection: &mut Connection, from: u64, to: u64, locks: bool) -> Result<(), String> {
    let mut run = |sql: &str| connection.query(sql).map_err(|error| error.to_string());
    run("BEGIN")?;
    if locks {
        let read = |rows: Vec<Vec<Option<String>>>| rows[0][0].clone().unwrap().parse::<i64>().unwrap();
        let left = read(run(&format!("SELECT n FROM bank WHERE id = {from} FOR UPDATE"))?);
        let right = read(run(&format!("SELECT n FROM bank WHERE id % 100 = {to} FOR NO KEY UPDATE"))?);
        run(&format!("UPDATE bank SET n = {} WHERE id = {from}", left - 1))?;
        run(&format!("UPDATE bank SET n = {} WHERE id = {to}", right + 1))?;
    } else {
        run(&format!("UPDATE bank SET n = n - 1 WHERE id = {from}"))?;
        run(&format!("UPDATE bank SET n = n + 1 WHERE id + 0 = {to}"))?;
    }
    run("COMMIT").map(drop)
}

/// Workers take jobs from a table, each in its own way: each job is taken once.
#[test]
fn a_queue_gives_each_job_to_one_worker() {
    const JOBS: usize = 400;
    let server = Ashlar::start(Options::default()).unwrap();
    let mut own = server.connect();
    own.query("CREATE TABLE jobs (id integer PRIMARY KEY, state text NOT NULL)").unwrap();
    own.query(&format!("INSERT INTO jobs SELECT i, 'new' FROM generate_series(1, {JOBS}) AS g (i)")).unwrap();
    let next = "SELECT id FROM jobs WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED";
    let taken: Vec<Vec<String>> = std::thread::scope(|scope| {
        let workers = (0..4).map(|worker| {
            let server = &server;
            scope.spawn(move || {
                let mut connection = server.connect();
                let mut taken = Vec::new();
                loop {
                    let job = match worker {
                        // Two statements in a block, which deletes the job or marks it.
                        0 | 1 => {
                            connection.query("BEGIN").unwrap();
                            let found = connection.query(next).unwrap();
                            if let Some(row) = found.first() {
                                let id = row[0].clone().unwrap();
                                let sql = match worker {
                                    0 => format!("DELETE FROM jobs WHERE id = {id}"),
                                    _ => format!("UPDATE jobs SET state = 'done' WHERE id = {id}"),
                                };
                                connection.query(&sql).unwrap();
                            }
                            connection.query("COMMIT").unwrap();
                            found
                        }
                        // One statement.
                        2 => connection.query(&format!("DELETE FROM jobs WHERE id = ({next}) RETURNING id")).unwrap(),
                        _ => {
                            let sql = "UPDATE jobs SET state = 'mine' WHERE id IN (SELECT id FROM jobs \
                                       WHERE state = 'new' ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED) RETURNING id";
                            connection.query(sql).unwrap()
                        }
                    };
                    if job.is_empty() {
                        return taken;
                    }
                    taken.extend(job.into_iter().map(|row| row[0].clone().unwrap()));
                }
            })
        });
        let workers: Vec<_> = workers.collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let all: Vec<String> = taken.into_iter().flatten().collect();
    let distinct: HashSet<&String> = all.iter().collect();
    assert_eq!((all.len(), distinct.len()), (JOBS, JOBS));
    assert_eq!(own.value("SELECT count(*) FROM jobs WHERE state = 'new'").unwrap(), "0");
    assert_eq!(own.value("SELECT count(*) FROM pg_locks").unwrap(), "0");
    server.stop();
}

#[test]
fn a_client_that_goes_takes_its_locks_along() {
    for address in [Ashlar::shared().pg(), Postgres::shared().address()] {
        let mut watcher = Connection::connect(address).unwrap();
        watcher.query("DROP TABLE IF EXISTS left_behind").unwrap();
        watcher.query("CREATE TABLE left_behind (id integer PRIMARY KEY, v integer)").unwrap();
        watcher.query("INSERT INTO left_behind VALUES (1, 1)").unwrap();
        let (mut gone, mut waiting) = (Party::new(address), Party::new(address));
        gone.run("BEGIN");
        gone.run("SELECT v FROM left_behind WHERE id = 1 FOR UPDATE");
        waiting.start("UPDATE left_behind SET v = v + 1 WHERE id = 1");
        assert!(wait_for(SOON, || waits(&mut watcher, waiting.pid)));
        drop(gone);
        assert_eq!(waiting.answer(), "UPDATE 1");
        watcher.query("DROP TABLE left_behind").unwrap();
    }
}

#[test]
fn what_a_commit_has_made_that_waits_goes_with_its_client() {
    let server = Ashlar::start(Options::default()).unwrap();
    let mut holder = Connection::connect(server.pg()).unwrap();
    let statements = [
        "CREATE TABLE emptied (k integer PRIMARY KEY)",
        "INSERT INTO emptied VALUES (1)",
        "CREATE TABLE kept (k integer PRIMARY KEY, v integer)",
        "INSERT INTO kept VALUES (1, 1)",
        "BEGIN",
        "SELECT k FROM emptied FOR UPDATE",
    ];
    statements.into_iter().for_each(|sql| drop(holder.query(sql).unwrap()));
    let mut gone = Party::new(server.pg());
    ["BEGIN", "CREATE UNIQUE INDEX kept_v ON kept (v)", "TRUNCATE emptied"].into_iter().for_each(|sql| {
        gone.run(sql);
    });
    // As it does not read all of this, its end is one that the server notices at once.
    gone.start("SELECT repeat('x', 40000)");
    gone.connection.read_byte().unwrap();
    gone.start("COMMIT");
    let pid = gone.pid;
    assert!(wait_for(SOON, || waits(&mut holder, pid)), "the commit does not wait for who has locked a row");
    drop(gone);
    assert!(wait_for(SOON, || !waits(&mut holder, pid)), "the commit waits still");
    holder.query("COMMIT").unwrap();
    let is_free = wait_for(SOON, || holder.query("INSERT INTO kept VALUES (2, 1)").is_ok());
    assert!(is_free, "an index that was never committed refuses a row");
    assert_eq!(holder.value("SELECT count(*) FROM pg_indexes WHERE indexname = 'kept_v'").unwrap(), "0");
    assert_eq!(holder.value("SELECT count(*) FROM emptied").unwrap(), "1");
    server.stop();
}

#[test]
fn a_statement_that_waits_can_be_cancelled_and_has_its_time() {
    for address in [Ashlar::shared().pg(), Postgres::shared().address()] {
        let mut watcher = Connection::connect(address).unwrap();
        watcher.query("DROP TABLE IF EXISTS patient").unwrap();
        watcher.query("CREATE TABLE patient (id integer PRIMARY KEY, v integer)").unwrap();
        watcher.query("INSERT INTO patient VALUES (1, 1), (2, 2)").unwrap();
        let (mut holder, mut waiting) = (Party::new(address), Party::new(address));
        holder.run("BEGIN");
        holder.run("UPDATE patient SET v = 0 WHERE id = 1");
        // By key and by condition, alone and in a block.
        for sql in [
            "UPDATE patient SET v = v + 1 WHERE id = 1",
            "DELETE FROM patient WHERE v < 10 AND id + 0 = 1",
            "SELECT * FROM patient WHERE id = 1 FOR SHARE",
            "SELECT * FROM patient ORDER BY v FOR UPDATE",
            "INSERT INTO patient VALUES (1, 1), (3, 3) ON CONFLICT (id) DO UPDATE SET v = 9",
        ] {
            for block in [false, true] {
                if block {
                    waiting.run("BEGIN");
                }
                let (key, pid) = (waiting.connection.key.clone(), waiting.pid);
                waiting.start(sql);
                assert!(wait_for(SOON, || waits(&mut watcher, pid)), "{sql} does not wait");
                pg::cancel(address, &key).unwrap();
                assert_eq!(waiting.answer(), "57014: canceling statement due to user request", "{sql}");
                assert!(!waits(&mut watcher, pid));
                if block {
                    waiting.run("ROLLBACK");
                }
            }
            waiting.run("SET statement_timeout = 100");
            assert_eq!(waiting.run(sql), "57014: canceling statement due to statement timeout", "{sql}");
            waiting.set_no_statement_timeout();
        }
        assert_eq!(holder.run("COMMIT"), "COMMIT");
        assert_eq!(waiting.run("SELECT v FROM patient ORDER BY id"), "0 / 2 / SELECT 2");
        watcher.query("DROP TABLE patient").unwrap();
    }
}

#[test]
fn clients_of_the_other_door_wait_for_rows_and_go_on() {
    let config = format!("[server]\ncores = 1\n{PATIENT}");
    let server = Ashlar::start(Options { config, ..Options::default() }).unwrap();
    let mut own = server.connect();
    own.query("CREATE TABLE shared_row (id integer PRIMARY KEY, v integer NOT NULL)").unwrap();
    own.query("INSERT INTO shared_row VALUES (1, 1), (2, 2), (3, 3)").unwrap();
    own.query("INSERT INTO kv VALUES ('counter', '5')").unwrap();
    let mut holder = Party::new(server.pg());
    let mut keys = Client::connect(server.resp()).unwrap();
    let held = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IS NULL";
    let commands: [(&[&str], Reply); 8] = [
        (&["HINCRBY", "shared_row:{1}", "v", "10"], Reply::Integer(11)),
        (&["INCR", "counter"], Reply::Integer(6)),
        (&["SET", "counter", "7"], Reply::Simple("OK".to_owned())),
        (&["MSET", "counter", "8", "beside", "1"], Reply::Simple("OK".to_owned())),
        (&["DEL", "beside", "counter"], Reply::Integer(2)),
        (&["DEL", "shared_row:{1}"], Reply::Integer(1)),
        (&["SET", "counter", "9"], Reply::Simple("OK".to_owned())),
        (&["GETDEL", "counter"], Reply::bulk("9")),
    ];
    for (command, expected) in commands {
        holder.run("BEGIN");
        holder.run("SELECT * FROM shared_row FOR UPDATE");
        let is_there = holder.run("SELECT 1 FROM kv WHERE key = 'counter' FOR UPDATE").ends_with("SELECT 1");
        let mut bytes = Vec::new();
        ashlar_tests::resp::encode(command, &mut bytes);
        keys.send_raw(&bytes).unwrap();
        // Who reads does not wait, nor do others of the only thread.
        let mut reader = Client::connect(server.resp()).unwrap();
        assert_eq!(reader.command(&["GET", "nothing"]).unwrap(), Reply::Null);
        let touches_row = command[1].starts_with("shared_row");
        if is_there || touches_row {
            assert!(wait_for(SOON, || own.value(held).unwrap() == "1"), "{command:?} does not wait");
        }
        holder.run("COMMIT");
        assert_eq!(keys.read_reply().unwrap(), expected, "{command:?}");
    }
    // A transaction of keys waits too, and is done whole.
    own.query("INSERT INTO shared_row VALUES (1, 1)").unwrap();
    holder.run("BEGIN");
    holder.run("SELECT * FROM shared_row WHERE id = 2 FOR UPDATE");
    for command in [&["MULTI"][..], &["HINCRBY", "shared_row:{1}", "v", "1"], &["HINCRBY", "shared_row:{2}", "v", "1"]]
    {
        keys.command(command).unwrap();
    }
    let mut bytes = Vec::new();
    ashlar_tests::resp::encode(&["EXEC"], &mut bytes);
    keys.send_raw(&bytes).unwrap();
    assert!(wait_for(SOON, || own.value(held).unwrap() == "1"));
    assert_eq!(own.value("SELECT v FROM shared_row WHERE id = 1").unwrap(), "1");
    holder.run("UPDATE shared_row SET v = 100 WHERE id = 2");
    holder.run("COMMIT");
    assert_eq!(keys.read_reply().unwrap(), Reply::Array(vec![Reply::Integer(2), Reply::Integer(101)]));
    drop((keys, holder, own));
    server.stop();
}

/// MSET that has one key and waits for another lets go where the holder of that one waits for it, and is done after that.
#[test]
fn a_command_in_a_deadlock_lets_go_and_goes_on() {
    // Waits in which it wants to find a key free, before it takes it.
    const PASSES: usize = 3;
    let config = format!("[server]\n{PATIENT}");
    let server = Ashlar::start(Options { config, ..Options::default() }).unwrap();
    let mut own = server.connect();
    own.query("INSERT INTO kv VALUES ('a', '0'), ('b', '0')").unwrap();
    let lock = |key: &str| format!("SELECT 1 FROM kv WHERE key = '{key}' FOR UPDATE");
    let held = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IS NULL";
    let (mut holder, mut next) = (Party::new(server.pg()), Party::new(server.pg()));
    holder.run("BEGIN");
    assert_eq!(holder.run(&lock("a")), "1 / SELECT 1");
    let mut keys = Client::connect(server.resp()).unwrap();
    let mut bytes = Vec::new();
    ashlar_tests::resp::encode(&["MSET", "a", "1", "b", "1"], &mut bytes);
    keys.send_raw(&bytes).unwrap();
    // Each time another transaction has the key when MSET comes for it again.
    for _ in 0..PASSES {
        assert!(wait_for(SOON, || own.value(held).unwrap() == "1"), "MSET does not wait");
        next.run("BEGIN");
        next.start(&lock("a"));
        assert!(wait_for(SOON, || waits(&mut own, next.pid)));
        assert_eq!(holder.run("COMMIT"), "COMMIT");
        assert_eq!(next.answer(), "1 / SELECT 1");
        std::mem::swap(&mut holder, &mut next);
    }
    assert!(wait_for(SOON, || own.value(held).unwrap() == "1"), "MSET does not wait for its lock");
    next.run("BEGIN");
    assert_eq!(next.run(&lock("b")), "1 / SELECT 1");
    next.start(&lock("a"));
    assert!(wait_for(SOON, || waits(&mut own, next.pid)));
    assert_eq!(holder.run("COMMIT"), "COMMIT");
    assert_eq!(next.answer(), "1 / SELECT 1");
    assert!(lock_counters(&server).1 >= 1.0, "MSET was in no deadlock");
    assert_eq!(next.run("COMMIT"), "COMMIT");
    assert_eq!(keys.read_reply().unwrap(), Reply::Simple("OK".to_owned()));
    assert_eq!(keys.command(&["MGET", "a", "b"]).unwrap(), Reply::Array(vec![Reply::bulk("1"), Reply::bulk("1")]));
    assert_eq!(own.value("SELECT count(*) FROM pg_locks").unwrap(), "0");
    drop((keys, holder, next, own));
    server.stop();
}

#[test]
fn a_command_that_waits_for_too_long_says_so() {
    let config = "[server]\nresp_lock_timeout_ms = 150\n".to_owned();
    let server = Ashlar::start(Options { config, ..Options::default() }).unwrap();
    let mut holder = Party::new(server.pg());
    holder.run("CREATE TABLE kept (id integer PRIMARY KEY, v integer)");
    holder.run("INSERT INTO kept VALUES (1, 1)");
    holder.run("BEGIN");
    holder.run("SELECT * FROM kept FOR UPDATE");
    let mut keys = Client::connect(server.resp()).unwrap();
    let refused = Reply::Error("TRYAGAIN canceling command due to lock timeout".to_owned());
    assert_eq!(keys.command(&["HINCRBY", "kept:{1}", "v", "1"]).unwrap(), refused);
    keys.command(&["MULTI"]).unwrap();
    keys.command(&["HINCRBY", "kept:{1}", "v", "1"]).unwrap();
    assert_eq!(keys.command(&["EXEC"]).unwrap(), refused);
    assert_eq!(keys.command(&["EXEC"]).unwrap(), Reply::Error("ERR EXEC without MULTI".to_owned()));
    holder.run("COMMIT");
    assert_eq!(keys.command(&["HINCRBY", "kept:{1}", "v", "1"]).unwrap(), Reply::Integer(2));
    assert_eq!(holder.run("SELECT count(*) FROM pg_locks"), "0 / SELECT 1");
    drop((keys, holder));
    server.stop();
}

/// Others change one of its keys without a pause: a long EXEC is done all the same, each time.
#[test]
fn a_transaction_of_keys_is_not_starved_by_others() {
    let config = format!("[server]\n{PATIENT}");
    let server = Ashlar::start(Options { config, ..Options::default() }).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = End(&stop);
        for _ in 0..2 {
            let (server, stop) = (&server, &stop);
            scope.spawn(move || {
                let mut keys = Client::connect(server.resp()).unwrap();
                let burst: Vec<Vec<Vec<u8>>> = (0..16).map(|_| vec![b"INCR".to_vec(), b"hot".to_vec()]).collect();
                while !stop.load(Ordering::Acquire) {
                    for reply in keys.pipeline(&burst).unwrap() {
                        assert!(matches!(reply, Reply::Integer(_)), "{reply:?}");
                    }
                }
            });
        }
        let mut keys = Client::connect(server.resp()).unwrap();
        for round in 0..40 {
            keys.command(&["MULTI"]).unwrap();
            keys.command(&["INCR", "hot"]).unwrap();
            for number in 0..300 {
                keys.command(&["SET", &format!("cold:{number}"), "x"]).unwrap();
            }
            keys.command(&["INCR", "hot"]).unwrap();
            let reply = keys.command(&["EXEC"]).unwrap();
            let Reply::Array(replies) = reply else { panic!("{round}: {reply:?}") };
            let (Reply::Integer(first), Reply::Integer(last)) = (&replies[0], &replies[301]) else {
                panic!("{round}: {replies:?}")
            };
            assert_eq!(first + 1, *last, "somebody came between");
        }
    });
    assert_eq!(server.connect().value("SELECT count(*) FROM pg_locks").unwrap(), "0");
    server.stop();
}

/// Orders are numbered by a row that each order changes first, as TPC-C does: who comes second waits there, and what it then
/// inserts is new.
#[test]
fn orders_are_numbered_without_a_gap() {
    const WORKERS: usize = 4;
    const ORDERS: usize = 100;
    for address in [Ashlar::shared().pg(), Postgres::shared().address()] {
        let mut own = Connection::connect(address).unwrap();
        own.query("DROP TABLE IF EXISTS lk_district, lk_orders").unwrap();
        own.query(
            "CREATE TABLE lk_district (w integer, id integer, next integer, tax numeric(4,4), PRIMARY KEY (w, id))",
        )
        .unwrap();
        own.query("CREATE TABLE lk_orders (w integer, d integer, id integer, by integer, PRIMARY KEY (w, d, id))")
            .unwrap();
        own.query("INSERT INTO lk_district VALUES (1, 1, 1, 0.1), (1, 2, 1, 0.2)").unwrap();
        std::thread::scope(|scope| {
            for worker in 0..WORKERS {
                scope.spawn(move || {
                    let mut connection = Connection::connect(address).unwrap();
                    for order in 0..ORDERS {
                        let d = order % 2 + 1;
                        connection.query("BEGIN").unwrap();
                        // What was read here is of another snapshot than what is inserted below.
                        let (row, district) = (format!("w = 1 AND id = {d}"), "lk_district");
                        connection.query(&format!("SELECT tax + next FROM {district} WHERE {row}")).unwrap();
                        let sql = match worker % 4 {
                            0 => format!("SELECT next FROM {district} WHERE {row} FOR UPDATE"),
                            1 => format!("SELECT next * 1, tax * 2 FROM {district} WHERE {row} FOR NO KEY UPDATE"),
                            2 => format!("UPDATE {district} SET next = next + 1 WHERE {row} RETURNING next - 1"),
                            _ => {
                                let set = "next = CASE WHEN next > 0 THEN next + 1 ELSE -1 END";
                                format!("UPDATE {district} SET {set} WHERE {row} AND tax < 1 RETURNING next - 1, tax")
                            }
                        };
                        let number = connection.query(&sql).unwrap()[0][0].clone().unwrap();
                        let insert = format!("INSERT INTO lk_orders VALUES (1, {d}, {number}, {worker})");
                        connection.query(&insert).unwrap_or_else(|error| panic!("worker {worker}: {error}"));
                        if worker % 4 < 2 {
                            let sql = format!("UPDATE {district} SET next = next + 1 WHERE {row}");
                            connection.query(&sql).unwrap();
                        }
                        connection.query("COMMIT").unwrap_or_else(|error| panic!("worker {worker}: {error}"));
                    }
                });
            }
        });
        let of_each = (WORKERS * ORDERS / 2).to_string();
        let numbered = own.query("SELECT d, count(*), min(id), max(id) FROM lk_orders GROUP BY d ORDER BY d").unwrap();
        let row = |d: &str| [d, &of_each, "1", &of_each].map(|value| Some(value.to_owned())).to_vec();
        assert_eq!(numbered, [row("1"), row("2")]);
        own.query("DROP TABLE lk_district, lk_orders").unwrap();
    }
}

/// A row that ends by the clock while somebody has locked it: its key is still locked, whoever comes for it.
#[test]
fn the_key_of_a_row_that_ends_stays_with_who_has_locked_it() {
    let server = Ashlar::start(Options::default()).unwrap();
    let mut own = server.connect();
    own.query("CREATE TABLE brief (id integer PRIMARY KEY, v integer)").unwrap();
    own.query("INSERT INTO brief VALUES (1, 1), (2, 2)").unwrap();
    let (mut holder, mut waiting) = (Party::new(server.pg()), Party::new(server.pg()));
    // Locked while it is still there: with more time where the machine is busy.
    for seconds in 1.. {
        holder.run("INSERT INTO brief VALUES (1, 1) ON CONFLICT DO NOTHING");
        holder.run(&format!("UPDATE brief SET _expires_at = now() + interval '{seconds} seconds' WHERE id = 1"));
        holder.run("BEGIN");
        if holder.run("SELECT v FROM brief WHERE id = 1 FOR UPDATE") == "1 / SELECT 1" {
            break;
        }
        assert!(seconds < 30, "the row is never there");
        holder.run("ROLLBACK");
    }
    assert!(wait_for(SOON, || own.value("SELECT count(*) FROM brief").unwrap() == "1"));
    assert_eq!(waiting.run("SELECT v FROM brief WHERE id = 1 FOR UPDATE"), "SELECT 0");
    waiting.start("INSERT INTO brief VALUES (1, 100)");
    assert!(wait_for(SOON, || waits(&mut own, waiting.pid)), "the key is not locked any more");
    assert_eq!(holder.run("UPDATE brief SET v = v + 1 WHERE id = 1"), "UPDATE 0");
    assert_eq!(holder.run("INSERT INTO brief VALUES (1, 5)"), "INSERT 0 1");
    assert_eq!(holder.run("COMMIT"), "COMMIT");
    assert!(waiting.answer().starts_with("23505: "));
    assert_eq!(own.value("SELECT v FROM brief WHERE id = 1").unwrap(), "5");
    assert_eq!(own.value("SELECT count(*) FROM pg_locks").unwrap(), "0");
    drop((holder, waiting, own));
    server.stop();
}

/// A large COPY is a write as others are: whoever watches a key that it adds hears of it, and it waits for no lock that it
/// does not meet.
#[test]
fn a_large_copy_touches_keys_that_are_watched() {
    const ROWS: u32 = 90_000;
    let server = Ashlar::start(Options::default()).unwrap();
    let mut own = server.connect();
    own.query("CREATE TABLE loaded (id integer PRIMARY KEY, v integer)").unwrap();
    own.query("INSERT INTO loaded VALUES (-1, 1), (-2, 2)").unwrap();
    let mut holder = Party::new(server.pg());
    holder.run("BEGIN");
    assert_eq!(holder.run("SELECT v FROM loaded WHERE id = -1 FOR UPDATE"), "1 / SELECT 1");
    let mut watchers = Vec::new();
    for (key, added) in [("loaded:{89990}", true), ("loaded:{5}", true), ("loaded:{-2}", false)] {
        let mut keys = Client::connect(server.resp()).unwrap();
        assert_eq!(keys.command(&["WATCH", key]).unwrap(), Reply::Simple("OK".to_owned()));
        watchers.push((keys, added));
    }
    let copied = |own: &mut Connection, lines: &str| {
        own.send(&pg::message(b'Q', &[b"COPY loaded FROM STDIN\0"])).unwrap();
        own.send(&pg::message(b'd', &[lines.as_bytes()])).unwrap();
        own.send(&pg::message(b'c', &[])).unwrap();
        let mut answer = None;
        loop {
            let message = own.read().unwrap();
            match message.kind {
                b'C' => answer = Some(String::from_utf8_lossy(&message.body).trim_end_matches('\0').to_owned()),
                b'E' => answer = message.field(b'C'),
                b'Z' => return answer.unwrap(),
                _ => {}
            }
        }
    };
    let lines: String = (1..=ROWS).map(|id| format!("{id}\t{id}\n")).collect();
    assert_eq!(copied(&mut own, &lines), format!("COPY {ROWS}"));
    for (mut keys, added) in watchers {
        keys.command(&["MULTI"]).unwrap();
        keys.command(&["SET", "noticed", "no"]).unwrap();
        let reply = keys.command(&["EXEC"]).unwrap();
        assert_eq!(reply == Reply::Null, added, "{reply:?}");
    }
    // A key that is locked and there is refused, as in PostgreSQL.
    assert_eq!(copied(&mut own, "-1\t0\n"), "23505");
    assert_eq!(own.value("SELECT count(*) FROM loaded").unwrap(), (ROWS + 2).to_string());
    holder.run("COMMIT");
    drop((holder, own));
    server.stop();
}
