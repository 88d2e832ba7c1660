//! What one connection does, others of its thread have their turn meanwhile, and its statement the time it was given.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ashlar_tests::pg::{self, Connection, Message};
use ashlar_tests::process::wait_for;
use ashlar_tests::resp::{Client, Reply};
use ashlar_tests::{Ashlar, Options};

use crate::conflicts::End;
use crate::http::{get, series};

/// How long something that is bound to happen may take.
const SOON: Duration = Duration::from_secs(120);

/// A server whose connections all share one thread.
fn one_thread() -> Ashlar {
    let server = Ashlar::start(Options { config: "[server]\ncores = 1\n".to_owned(), ..Options::default() }).unwrap();
    let mut connection = server.connect();
    connection.query("CREATE TABLE small (id integer PRIMARY KEY)").unwrap();
    connection.query("INSERT INTO small VALUES (7)").unwrap();
    server
}

/// Answers that another connection gets while `work` runs.
fn answers_during(server: &Ashlar, work: impl FnOnce()) -> u64 {
    let mut other = server.connect();
    answers_of(|| assert_eq!(other.value("SELECT id FROM small WHERE id = 7").unwrap(), "7"), work)
}

/// How often somebody is answered who asks all the time, while `work` runs.
fn answers_of(mut ask: impl FnMut() + Send, work: impl FnOnce()) -> u64 {
    let (answers, done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _end = End(&done);
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                ask();
                answers.fetch_add(1, Ordering::SeqCst);
            }
        });
        let runs = wait_for(SOON, || answers.load(Ordering::SeqCst) > 100);
        assert!(runs, "the other connection is not answered");
        let before = answers.load(Ordering::SeqCst);
        work();
        answers.load(Ordering::SeqCst) - before
    })
}

/// More answers than can come before a long piece of work has begun: without turns there are one or two.
const MANY: u64 = 25;

/// How often work may be done until there are many answers meanwhile: on a machine that has other things to do, who asks may have
/// slept through all of it. Where no turns are left there are few each time.
const ATTEMPTS: usize = 8;

/// There are many answers in one of the attempts.
fn leaves_turns(what: &str, mut attempt: impl FnMut() -> u64) {
    let mut counts = Vec::new();
    while counts.len() < ATTEMPTS {
        let during = attempt();
        if during > MANY {
            return;
        }
        counts.push(during);
    }
    panic!("{counts:?} answers during {what}");
}

/// Up to and with the next message of this kind.
fn read_until(connection: &mut Connection, kind: u8) -> Message {
    loop {
        let message = connection.read().unwrap();
        if message.kind == kind {
            return message;
        }
        assert_ne!(message.kind, b'E', "{}", pg::describe(&message));
    }
}

#[test]
fn a_large_commit_leaves_other_connections_their_turn() {
    let server = one_thread();
    let mut writer = server.connect();
    writer.query("CREATE TABLE large (id bigint PRIMARY KEY, n bigint)").unwrap();
    let rows = "INSERT INTO large SELECT i, i FROM generate_series(1, 400000) AS g (i)";

    leaves_turns("a COMMIT", || {
        writer.query("TRUNCATE large").unwrap();
        writer.query("BEGIN").unwrap();
        writer.query(rows).unwrap();
        answers_during(&server, || drop(writer.query("COMMIT").unwrap()))
    });
    assert_eq!(writer.value("SELECT count(*) FROM large").unwrap(), "400000");

    // The end of a pipeline commits too, and so does an UPDATE by itself.
    leaves_turns("a Sync that commits", || {
        writer.query("TRUNCATE large").unwrap();
        writer.send(&pg::message(b'P', &[b"\0", rows.as_bytes(), b"\0\0\0"])).unwrap();
        writer.send(&pg::message(b'B', &[b"\0\0\0\0\0\0\0\0"])).unwrap();
        writer.send(&pg::message(b'E', &[b"\0\0\0\0\0"])).unwrap();
        writer.send(&pg::message(b'H', &[])).unwrap();
        read_until(&mut writer, b'C');
        answers_during(&server, || {
            writer.send(&pg::message(b'S', &[])).unwrap();
            read_until(&mut writer, b'Z');
        })
    });
    assert_eq!(writer.value("SELECT count(*) FROM large").unwrap(), "400000");
    drop(writer);
    server.stop();
}

#[test]
fn one_long_message_of_a_copy_leaves_other_connections_their_turn() {
    let server = one_thread();
    let mut writer = server.connect();
    writer.query("CREATE TABLE copied (id bigint PRIMARY KEY, n bigint)").unwrap();
    let rows: String = (0..200_000).map(|row| format!("{row}\t{row}\n")).collect();
    let message = pg::message(b'd', &[rows.as_bytes()]);
    // All of it but the last byte: what is left to send starts the work, and not the way of the bytes.
    let (most, last) = message.split_at(message.len() - 1);
    leaves_turns("a COPY", || {
        writer.query("TRUNCATE copied").unwrap();
        writer.send(&pg::message(b'Q', &[b"COPY copied FROM STDIN\0"])).unwrap();
        assert_eq!(writer.read().unwrap().kind, b'G');
        writer.send(most).unwrap();
        answers_during(&server, || {
            writer.send(last).unwrap();
            writer.send(&pg::message(b'c', &[])).unwrap();
            read_until(&mut writer, b'Z');
        })
    });
    assert_eq!(writer.value("SELECT count(*) FROM copied").unwrap(), "200000");
    drop(writer);
    server.stop();
}

#[test]
fn a_long_text_is_parsed_where_nobody_waits() {
    let server = one_thread();
    let mut writer = server.connect();
    writer.query("CREATE TABLE listed (id integer PRIMARY KEY, n integer)").unwrap();
    let rows: Vec<String> = (0..60_000).map(|row| format!("({row}, {row})")).collect();
    let sql = format!("INSERT INTO listed VALUES {}\0", rows.join(", "));
    let message = pg::message(b'Q', &[sql.as_bytes()]);
    let (most, last) = message.split_at(message.len() - 1);
    leaves_turns("the parsing of a long text", || {
        writer.query("TRUNCATE listed").unwrap();
        writer.send(most).unwrap();
        answers_during(&server, || {
            writer.send(last).unwrap();
            read_until(&mut writer, b'Z');
        })
    });
    assert_eq!(writer.value("SELECT count(*) FROM listed").unwrap(), "60000");
    drop(writer);
    server.stop();
}

#[test]
fn a_statement_is_what_it_is_however_its_messages_are_cut() {
    let server = one_thread();
    let (mut connection, mut other) = (server.connect(), server.connect());
    connection.query("CREATE TABLE cut (id integer PRIMARY KEY)").unwrap();
    let sync = pg::message(b'S', &[]);
    for (number, split) in (0..sync.len()).enumerate() {
        // Refused in a block: one that is followed by its Sync is none.
        let sql = format!("ALTER TABLE cut ADD COLUMN c{number} integer");
        let mut bytes = pg::message(b'P', &[b"\0", sql.as_bytes(), b"\0\0\0"]);
        bytes.extend(pg::message(b'B', &[b"\0\0\0\0\0\0\0\0"]));
        bytes.extend(pg::message(b'E', &[b"\0\0\0\0\0"]));
        bytes.extend(&sync[..split]);
        connection.send(&bytes).unwrap();
        // The thread has read the first part when it has answered somebody else since.
        assert_eq!(other.value("SELECT id FROM small WHERE id = 7").unwrap(), "7");
        connection.send(&sync[split..]).unwrap();
        read_until(&mut connection, b'Z');
    }
    drop((connection, other));
    server.stop();
}

#[test]
fn what_a_client_asked_before_its_last_word_is_done_and_answered() {
    let update =
        pg::message(b'Q', &[b"UPDATE parting SET v = v + (SELECT count(*) FROM parting_rows a, parting_rows b)\0"]);
    for address in [Ashlar::shared().pg(), ashlar_tests::Postgres::shared().address()] {
        let mut watcher = Connection::connect(address).unwrap();
        watcher.query("DROP TABLE IF EXISTS parting; DROP TABLE IF EXISTS parting_rows").unwrap();
        watcher.query("CREATE TABLE parting (id integer PRIMARY KEY, v bigint)").unwrap();
        watcher.query("CREATE TABLE parting_rows AS SELECT * FROM generate_series(1, 2000) AS s (i)").unwrap();
        watcher.query("INSERT INTO parting VALUES (1, 0)").unwrap();

        let mut half = Connection::connect(address).unwrap();
        half.send(&update).unwrap();
        half.stop_sending().unwrap();
        assert_eq!(read_until(&mut half, b'C').body, b"UPDATE 1\0");
        read_until(&mut half, b'Z');
        assert!(half.closes());

        let mut gone = Connection::connect(address).unwrap();
        gone.send(&[update.clone(), pg::message(b'X', &[])].concat()).unwrap();
        drop(gone);
        let done = wait_for(SOON, || watcher.value("SELECT v FROM parting").unwrap() == "8000000");
        assert!(done, "the statement of a client that left is not done");
        watcher.query("DROP TABLE parting; DROP TABLE parting_rows").unwrap();
    }
}

#[test]
fn a_session_has_the_patience_with_its_client_that_it_was_told() {
    for address in [Ashlar::shared().pg(), ashlar_tests::Postgres::shared().address()] {
        let mut idle = Connection::connect(address).unwrap();
        idle.query("SET idle_session_timeout = '0.2s'").unwrap();
        assert_eq!(idle.read().unwrap().field(b'C').as_deref(), Some("57P05"));
        assert!(idle.closes());

        let mut block = Connection::connect(address).unwrap();
        block.query("SET idle_session_timeout = '1min'; SET idle_in_transaction_session_timeout = 200").unwrap();
        block.query("BEGIN").unwrap();
        assert_eq!(block.read().unwrap().field(b'C').as_deref(), Some("25P03"));
        assert!(block.closes());
    }
}

/// The nice value of each thread of a process, by its name.
#[cfg(target_os = "linux")]
fn niceness(pid: u32) -> Vec<(String, i32)> {
    let mut threads = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        // A thread that has ended meanwhile.
        let Ok(stat) = std::fs::read_to_string(entry.unwrap().path().join("stat")) else { continue };
        let name = stat[stat.find('(').unwrap() + 1..stat.rfind(')').unwrap()].to_owned();
        // The 19th field, of which the first two end with the name.
        let nice = stat[stat.rfind(')').unwrap() + 2..].split(' ').nth(16).unwrap().parse().unwrap();
        threads.push((name, nice));
    }
    threads
}

#[cfg(target_os = "linux")]
#[test]
fn threads_of_queries_yield_to_those_of_connections() {
    let server = one_thread();
    // Planned beside the pool, run on it.
    assert_eq!(server.connect().value("SELECT count(*) FROM small a, small b").unwrap(), "1");
    let mut threads = Vec::new();
    // One that has just begun has its name, and becomes nice next.
    let yields = wait_for(SOON, || {
        threads = niceness(server.pid());
        let of = |name: &str| -> Vec<i32> {
            threads.iter().filter(|(known, _)| known.starts_with(name)).map(|(_, nice)| *nice).collect()
        };
        let (doors, queries) = (of("ashlar-door"), of("query"));
        let are_nicer = queries.iter().all(|query| doors.iter().all(|door| query > door));
        !doors.is_empty() && !queries.is_empty() && are_nicer
    });
    assert!(yields, "{threads:?}");
    server.stop();
}

/// Statements that were stopped.
fn timeouts(server: &Ashlar) -> u64 {
    let page = get(server.http(), "/metrics").1;
    series(&page, r#"ashlar_server_errors_total{door="pg",sqlstate="57014"}"#).unwrap_or_default() as u64
}

/// The error that a statement ends with.
fn error_of(connection: &mut Connection, sql: &str) -> String {
    connection.query(sql).expect_err(sql).to_string()
}

const TIMED_OUT: &str = "57014: canceling statement due to statement timeout";

/// Begins a statement that has some time from now on, and reads its first answer, which is of one of these kinds. On a busy machine the
/// time may be over before that: then it is given more. Adds the statements that ended so.
fn begin_in_time(connection: &mut Connection, sql: &str, kinds: &[u8], timed_out: &mut u64) {
    for time_ms in [300, 2_000, 10_000, 60_000] {
        connection.query(&format!("SET statement_timeout = {time_ms}")).unwrap();
        connection.send(&pg::message(b'Q', &[sql.as_bytes(), b"\0"])).unwrap();
        let first = connection.read().unwrap();
        if kinds.contains(&first.kind) {
            return;
        }
        assert_eq!(pg::describe(&first), TIMED_OUT, "{sql}");
        read_until(connection, b'Z');
        *timed_out += 1;
    }
    panic!("{sql} does not begin");
}

#[test]
fn a_statement_has_the_time_it_was_given_and_no_more() {
    let server = one_thread();
    let mut connection = server.connect();
    let mut timed_out = 3;
    connection.query("CREATE TABLE many (id integer PRIMARY KEY, t text)").unwrap();
    connection.query("INSERT INTO many SELECT i, repeat('x', 100) FROM generate_series(1, 1000) AS g (i)").unwrap();

    // Running, on its own and in a block.
    connection.query("SET statement_timeout = 200").unwrap();
    let endless = "SELECT count(*) FROM many a, many b, many c, many d";
    assert!(error_of(&mut connection, endless).starts_with(TIMED_OUT));
    connection.query("BEGIN").unwrap();
    assert!(error_of(&mut connection, endless).starts_with(TIMED_OUT));
    connection.query("ROLLBACK").unwrap();

    // Planning: a list that takes longer to plan than its time.
    let options = [("user", "postgres"), ("options", "-c statement_timeout=1")];
    let mut hurried = Connection::open(server.pg(), &options).unwrap();
    let sql = format!("SELECT {} FROM many", vec!["id + length(t)"; 3000].join(", "));
    assert!(error_of(&mut hurried, &sql).starts_with(TIMED_OUT));

    // Rows that nobody takes, of a SELECT, a COPY and a portal's second Execute.
    for sql in ["SELECT a.t, b.t FROM many a, many b", "COPY (SELECT a.t, b.t FROM many a, many b) TO STDOUT"] {
        begin_in_time(&mut connection, sql, b"TH", &mut timed_out);
        // Counted when the server gives up; only then the rest is read.
        timed_out += 1;
        let gave_up = wait_for(SOON, || timeouts(&server) == timed_out);
        assert!(gave_up, "{sql} goes on without a reader");
        let error = loop {
            let message = connection.read().unwrap();
            match message.kind {
                b'E' => break message,
                b'D' | b'd' => {}
                _ => panic!("{sql}: {}", pg::describe(&message)),
            }
        };
        assert_eq!(error.field(b'M').as_deref(), Some("canceling statement due to statement timeout"));
        read_until(&mut connection, b'Z');
    }
    // The data of a COPY, which stop coming or never end.
    begin_in_time(&mut connection, "COPY many FROM STDIN", b"G", &mut timed_out);
    let error = connection.read().unwrap();
    assert_eq!(error.field(b'M').as_deref(), Some("canceling statement due to statement timeout"));
    read_until(&mut connection, b'Z');
    timed_out += 1;
    begin_in_time(&mut connection, "COPY many FROM STDIN", b"G", &mut timed_out);
    let mut id = 10_000;
    while timeouts(&server) <= timed_out {
        let rows: String = (id..id + 100).map(|id| format!("{id}\tx\n")).collect();
        connection.send(&pg::message(b'd', &[rows.as_bytes()])).unwrap();
        id += 100;
    }
    let error = connection.read().unwrap();
    assert_eq!(error.field(b'M').as_deref(), Some("canceling statement due to statement timeout"));
    read_until(&mut connection, b'Z');
    // Nothing of them stays, and what the session did not do in the meantime was no statement.
    connection.query("SET statement_timeout = 0").unwrap();
    assert_eq!(connection.value("SELECT count(*) FROM many").unwrap(), "1000");
    drop(connection);
    server.stop();
}

#[test]
fn what_a_repeatable_read_transaction_changes_is_overwritten_where_it_lies() {
    let server = one_thread();
    let mut connection = server.connect();
    connection.query("CREATE TABLE placed (id integer PRIMARY KEY, n integer)").unwrap();
    connection.query("INSERT INTO placed SELECT i, 0 FROM generate_series(1, 4000) AS g (i)").unwrap();
    // A row that is appended instead stands behind those of its partition. A thread that still lets go of what an earlier
    // query read may cause that now and then, the transaction's own snapshot would each time.
    for isolation in ["READ COMMITTED", "REPEATABLE READ"] {
        let stays = wait_for(SOON, || {
            let order = connection.query("SELECT id FROM placed").unwrap();
            connection.query(&format!("BEGIN ISOLATION LEVEL {isolation}")).unwrap();
            assert_eq!(connection.value("SELECT count(*) FROM placed").unwrap(), "4000");
            connection.query("UPDATE placed SET n = n + 1 WHERE id % 3 = 0").unwrap();
            connection.query("UPDATE placed SET n = n + 1 WHERE id = 4").unwrap();
            connection.query("COMMIT").unwrap();
            connection.query("SELECT id FROM placed").unwrap() == order
        });
        assert!(stays, "{isolation}: rows have moved");
    }
    drop(connection);
    server.stop();
}

#[test]
fn a_long_string_of_short_statements_leaves_turns_and_ends_when_it_is_asked_to() {
    let server = one_thread();
    let mut writer = server.connect();
    writer.query("CREATE TABLE busy (id integer PRIMARY KEY, n bigint)").unwrap();
    writer.query("INSERT INTO busy VALUES (1, 0)").unwrap();
    let statement = "UPDATE busy SET n = n + 1 WHERE id = 1;";
    let string = statement.repeat(5_000);
    leaves_turns("5,000 statements in a string", || {
        writer.query("UPDATE busy SET n = 0").unwrap();
        answers_during(&server, || drop(writer.query(&string).unwrap()))
    });
    assert_eq!(writer.value("SELECT n FROM busy WHERE id = 1").unwrap(), "5000");

    // The first answers come when there are some 5,000 of them. All may be done before the request comes: then it is lost, as the
    // protocol has it.
    let key = writer.key.clone();
    let string = statement.repeat(25_000);
    let is_cancelled = (0..ATTEMPTS).any(|_| {
        writer.query("UPDATE busy SET n = 5000").unwrap();
        writer.send(&pg::message(b'Q', &[string.as_bytes(), b"\0"])).unwrap();
        assert_eq!(writer.read().unwrap().kind, b'C');
        pg::cancel(server.pg(), &key).unwrap();
        let mut error = None;
        loop {
            let message = writer.read().unwrap();
            match message.kind {
                b'C' => {}
                b'E' => error = message.field(b'C'),
                b'Z' => break,
                _ => panic!("{}", pg::describe(&message)),
            }
        }
        assert!(error.is_none() || error.as_deref() == Some("57014"), "{error:?}");
        error.is_some()
    });
    assert!(is_cancelled, "a string of statements goes on when it is cancelled");
    assert_eq!(writer.value("SELECT n FROM busy WHERE id = 1").unwrap(), "5000");
    drop(writer);
    server.stop();
}

/// Fewer than there are between two looks at the clock: what they take counts.
#[test]
fn heavy_commands_of_a_pipeline_leave_turns() {
    const BYTES: usize = 2000;
    let server = one_thread();
    let mut client = Client::connect(server.resp()).unwrap();
    for (key, text) in [("one", "a".repeat(BYTES)), ("other", "ab".repeat(BYTES / 2))] {
        client.command(&["SET", key, &text]).unwrap();
    }
    let lcs: Vec<Vec<u8>> = ["LCS", "one", "other", "LEN"].map(|word| word.as_bytes().to_vec()).to_vec();
    leaves_turns("60 commands of milliseconds each", || {
        answers_during(&server, || {
            let replies = client.pipeline(&vec![lcs.clone(); 60]).unwrap();
            assert!(replies.iter().all(|reply| *reply == Reply::Integer(BYTES as i64 / 2)));
        })
    });
    drop(client);
    server.stop();
}

/// Keys that a snapshot still sees end one by one.
#[test]
fn a_flush_of_many_keys_leaves_turns_and_is_answered_when_they_are_gone() {
    const KEYS: usize = 200_000;
    let server = Ashlar::start(Options { config: "[server]\ncores = 1\n".to_owned(), ..Options::default() }).unwrap();
    let ok = Reply::Simple("OK".to_owned());
    let mut client = Client::connect(server.resp()).unwrap();
    leaves_turns("a FLUSHALL", || {
        for first in (0..KEYS).step_by(1000) {
            let mut words = vec!["MSET".to_owned()];
            words.extend((first..first + 1000).flat_map(|key| [format!("key:{key}"), key.to_string()]));
            assert_eq!(client.command(&words).unwrap(), ok);
        }
        let mut reader = server.connect();
        reader.query("BEGIN ISOLATION LEVEL REPEATABLE READ").unwrap();
        assert_eq!(reader.value("SELECT count(*) FROM kv").unwrap(), KEYS.to_string());
        let mut other = Client::connect(server.resp()).unwrap();
        let during = answers_of(
            || assert_eq!(other.command(&["ECHO", "x"]).unwrap(), Reply::bulk("x")),
            || assert_eq!(client.command(&["FLUSHALL"]).unwrap(), ok),
        );
        assert_eq!(client.command(&["DBSIZE"]).unwrap(), Reply::Integer(0));
        assert_eq!(reader.value("SELECT count(*) FROM kv").unwrap(), KEYS.to_string());
        during
    });
    // The connection goes on as any other, and the next one has nothing to remove.
    let both = client.pipeline(&[vec![b"FLUSHALL".to_vec()], vec![b"ECHO".to_vec(), b"y".to_vec()]]).unwrap();
    assert_eq!(both, [ok, Reply::bulk("y")]);
    drop(client);
    server.stop();
}

#[test]
fn what_has_been_done_is_not_called_cancelled() {
    let server = one_thread();
    let mut writer = server.connect();
    writer.query("CREATE TABLE gone (id integer PRIMARY KEY, t text)").unwrap();
    writer.query("INSERT INTO gone SELECT i, repeat('x', 10000) FROM generate_series(1, 3000) AS g (i)").unwrap();
    let key = writer.key.clone();
    writer.send(&pg::message(b'Q', &[b"DELETE FROM gone RETURNING t\0"])).unwrap();
    // More rows than sockets hold: the statement is done, and its answer waits for its reader.
    let mut other = server.connect();
    let done = wait_for(SOON, || other.value("SELECT count(*) FROM gone").unwrap() == "0");
    assert!(done, "the DELETE does not end");
    pg::cancel(server.pg(), &key).unwrap();
    let end = read_until(&mut writer, b'C');
    assert_eq!(end.body, b"DELETE 3000\0");
    drop((writer, other));
    server.stop();
}

#[test]
fn a_block_has_ten_thousand_savepoints_and_no_more() {
    let server = Ashlar::shared();
    let mut connection = server.connect();
    connection.query("BEGIN").unwrap();
    connection.query(&"SAVEPOINT s; ".repeat(10_000)).unwrap();
    let refused = connection.query("SAVEPOINT s").unwrap_err().to_string();
    assert!(refused.contains("54000"), "{refused}");
    connection.query("ROLLBACK TO s").unwrap();
    connection.query("RELEASE s").unwrap();
    connection.query("SAVEPOINT s").unwrap();
    connection.query("COMMIT").unwrap();
}
