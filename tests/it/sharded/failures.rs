//! What goes wrong: shards that are down or die in the middle of an answer, passwords that are wrong, statements that somebody stops, DDL
//! that one shard refuses.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use ashlar_tests::process::{PATIENCE, wait_for};

use super::extended::{Form, ask};
use super::relay::{Relay, Wire};
use super::slt::{is_listed, kinds_of_refusals};
use super::*;
use crate::http::get;

#[test]
fn a_restart_keeps_the_catalog() {
    let mut fleet = Fleet::start(2);
    done(&mut fleet.client(), &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    let keys = fleet.keys("t");
    for key in &keys {
        done(&mut fleet.client(), &format!("INSERT INTO t VALUES ({key}, 'kept')"));
    }
    fleet = fleet.restart();
    let mut client = fleet.client();
    for key in &keys {
        assert_eq!(client.value(&format!("SELECT v FROM t WHERE k = {key}")).unwrap(), "kept");
    }
    assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "2");
    let mode = std::fs::metadata(fleet.data.path().join("d/shards.redb")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    done(&mut client, "DROP TABLE t");
    fleet = fleet.restart();
    assert!(refused(&mut fleet.client(), "SELECT * FROM t").contains("42P01"));
    done(&mut fleet.client(), "DROP SERVER s0 CASCADE");
    fleet = fleet.restart();
    assert_eq!(fleet.client().value("SELECT string_agg(name, ',') FROM ashlar.shards").unwrap(), "s1");
    fleet.ashlar.check_log();
}

#[test]
fn a_shard_that_is_down_is_named() {
    // However often it has been tried meanwhile, each statement tries itself.
    let mut fleet = Fleet::with(2, "failures_max = 1000");
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    let keys = fleet.keys("t");
    for key in &keys {
        done(&mut client, &format!("INSERT INTO t VALUES ({key}, 'a')"));
    }
    let mut within = fleet.client();
    done(&mut within, "BEGIN");
    done(&mut within, &format!("UPDATE t SET v = 'b' WHERE k = {}", keys[1]));
    fleet.shards[1].signal("QUIT").unwrap();
    fleet.shards[1].wait().unwrap();
    // Whoever had a connection there is told that it is gone; the commit did not happen.
    let error = refused(&mut within, "COMMIT");
    assert!(error.contains("08007") || error.contains("57P0"), "{error}");
    for sql in [format!("SELECT * FROM t WHERE k = {}", keys[1]), "SELECT * FROM t".to_owned()] {
        let error = refused(&mut client, &sql);
        assert!(error.contains("08001") && error.contains("\"s1\""), "{sql}: {error}");
    }
    // The other one is not concerned.
    assert_eq!(client.value(&format!("SELECT v FROM t WHERE k = {}", keys[0])).unwrap(), "a");
    // A table cannot be made where a shard is down, and is made nowhere.
    let error = refused(&mut client, &format!("CREATE TABLE u (k bigint PRIMARY KEY) {}", fleet.by("k")));
    assert!(error.contains("08001"), "{error}");
    assert_eq!(fleet.shard(0).value("SELECT to_regclass('u')").unwrap(), "NULL");
}

/// Tables of the system that tell of servers, of users, of settings and of what is asked.
const TELLING: &[&str] = &[
    "pg_user_mappings",
    "pg_foreign_server",
    "pg_foreign_data_wrapper",
    "pg_foreign_table",
    "pg_roles",
    "pg_user",
    "pg_settings",
    "pg_class",
    "pg_description",
    "pg_cursors",
    "pg_stat_activity",
    "information_schema.tables",
    "ashlar.tables",
    "ashlar.shards",
    "ashlar.backends",
    "ashlar.pools",
    "ashlar.routes",
    "ashlar.in_doubt",
];

/// All that is told of servers and of what is asked of them for a table.
fn shown(fleet: &Fleet, client: &mut pg::Connection, table: &str) -> String {
    let mut questions: Vec<String> = TELLING.iter().map(|name| format!("SELECT * FROM {name}")).collect();
    questions.extend(["SHOW ALL".to_owned(), "SHOW POOLS".to_owned()]);
    questions.extend([
        format!("EXPLAIN (ROUTE) SELECT * FROM {table} WHERE k = 1"),
        format!("EXPLAIN SELECT * FROM {table} AS a JOIN pg_class AS c ON c.relname = a.k::text"),
        format!("EXPLAIN ANALYZE SELECT count(*) FROM {table}"),
    ]);
    let mut shown = get(fleet.ashlar.http(), "/metrics").1;
    for sql in questions {
        let found = rows(client, &sql);
        shown.push_str(&format!("{sql}\n{found:?}\n"));
    }
    shown
}

#[test]
fn passwords_are_asked_for_and_never_shown() {
    // Nobody connects but these statements: what looks after transactions would do so while the door is open, and leave its connection to
    // them. And they do however often it has failed.
    let fleet = Fleet::with(1, "recover_period_ms = 3600000\nhealth_check_ms = 600000\nfailures_max = 1000");
    let (mut client, mut watcher) = (fleet.client(), fleet.client());
    // Parts of them that are written alike wherever they are quoted.
    let secrets = ["wrong guess", "sesame", "baked", "in clear"];
    let mut told = String::new();
    for (method, other) in [("scram-sha-256", "open sesame"), ("md5", "half'\"baked"), ("password", "in clear")] {
        fleet.shards[0].demand_password(method, &other.replace('\'', "''")).unwrap_or_else(|error| panic!("{error:#}"));
        let escaped = other.replace('\'', "''");
        let create = format!("CREATE TABLE t_{} (k bigint PRIMARY KEY) {}", method.len(), fleet.by("k"));
        let error = refused(&mut client, &create);
        assert!(error.contains("08001") && error.contains("s0"), "{method}: {error}");
        done(&mut client, "ALTER USER MAPPING FOR PUBLIC SERVER s0 OPTIONS (SET password 'wrong guess')");
        let error = refused(&mut client, &create);
        assert!(error.contains("28P01") && !error.contains("wrong guess"), "{method}: {error}");
        let alter = format!("ALTER USER MAPPING FOR PUBLIC SERVER s0 OPTIONS (SET password '{escaped}')");
        // What a session has said last others see, whichever way it has said it and whether it was done.
        for form in [Form::Simple, Form::Text] {
            ask(&mut client, &alter, form).unwrap_or_else(|error| panic!("{method}: {error}"));
            let error = ask(&mut client, &alter.replace("s0", "s9"), form).unwrap_err();
            assert!(error.starts_with("42704"), "{method}: {error}");
            told.push_str(&format!("{error}\n{:?}\n", rows(&mut watcher, "SELECT * FROM pg_stat_activity")));
        }
        done(&mut client, &create);
        done(&mut client, &format!("INSERT INTO t_{} VALUES (1)", method.len()));
        assert_eq!(client.value(&format!("SELECT count(*) FROM t_{}", method.len())).unwrap(), "1");
        told.push_str(&shown(&fleet, &mut client, &format!("t_{}", method.len())));
        done(&mut client, "ALTER USER MAPPING FOR PUBLIC SERVER s0 OPTIONS (DROP password)");
        // Let nobody in who did not ask for the password himself: the next round begins by an open door.
        let rules = "host all all 127.0.0.1/32 trust\n";
        fleet.shards[0].set_rules(rules).unwrap();
    }
    assert!(told.contains("ashlar_shard_connections{") && told.contains("Route: shard 0"), "{told}");
    let log = fleet.ashlar.log();
    for secret in secrets {
        assert!(!told.contains(secret), "{secret}: {told}");
        assert!(!log.contains(secret), "{secret}: {log}");
    }
}

#[test]
fn ddl_that_one_shard_refuses_is_nowhere() {
    let fleet = Fleet::start(4);
    let mut client = fleet.client();
    done(&mut fleet.shard(3), "CREATE TABLE t (other text)");
    let create = format!("CREATE TABLE t (k bigint PRIMARY KEY) {}", fleet.by("k"));
    let error = refused(&mut client, &create);
    assert!(error.contains("42P07") && error.contains("shard s3"), "{error}");
    for shard in 0..3 {
        assert_eq!(fleet.shard(shard).value("SELECT to_regclass('t')").unwrap(), "NULL");
    }
    assert!(refused(&mut client, "SELECT * FROM t").contains("42P01"));
    done(&mut fleet.shard(3), "DROP TABLE t");
    done(&mut client, &create);
    // A table that something on one shard depends on is dropped on none.
    done(&mut fleet.shard(2), "CREATE VIEW v AS SELECT * FROM t");
    let error = refused(&mut client, "DROP TABLE t");
    assert!(error.contains("2BP01") && error.contains("shard s2"), "{error}");
    assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "0");
    done(&mut fleet.shard(2), "DROP VIEW v");
    done(&mut client, "DROP TABLE t");
}

#[test]
fn a_cancel_request_reaches_the_shard() {
    let fleet = Fleet::start(1);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    done(&mut client, "INSERT INTO t VALUES (1, 'a'), (2, 'a')");
    // Rows that somebody else has locked are what all wait for.
    let mut holder = fleet.shard(0);
    done(&mut holder, "BEGIN");
    done(&mut holder, "SELECT * FROM t FOR UPDATE");
    let running = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'UPDATE t%' AND state = 'active' AND wait_event_type = 'Lock'";
    let mut watcher = fleet.shard(0);
    let (address, key) = (fleet.ashlar.pg(), client.key.clone());
    let waiting = std::thread::spawn(move || {
        let error = refused(&mut client, "UPDATE t SET v = 'b' WHERE k = 1");
        (client, error)
    });
    let mut other = fleet.client();
    let going_on = std::thread::spawn(move || {
        let found = other.query("UPDATE t SET v = 'other' WHERE k = 2 RETURNING v");
        found.map_err(|error| format!("{error:#}"))
    });
    assert!(wait_for(PATIENCE, || watcher.value(running).unwrap() == "2"));
    pg::cancel(address, &key).unwrap();
    let (mut client, error) = waiting.join().unwrap();
    assert!(error.contains("57014"), "{error}");
    // What another session asks of the same shard is nobody's to stop.
    assert!(wait_for(PATIENCE, || watcher.value(running).unwrap() == "1"));
    // The connection is of use again.
    done(&mut holder, "ROLLBACK");
    assert_eq!(going_on.join().unwrap().unwrap(), [[Some("other".to_owned())]]);
    assert!(wait_for(PATIENCE, || watcher.value(running).unwrap() == "0"));
    done(&mut client, "UPDATE t SET v = 'c' WHERE k = 1");
    done(&mut client, "SET statement_timeout = 200");
    done(&mut holder, "BEGIN");
    done(&mut holder, "SELECT * FROM t FOR UPDATE");
    let error = refused(&mut client, "UPDATE t SET v = 'd' WHERE k = 1");
    assert!(error.contains("57014") && error.contains("statement timeout"), "{error}");
    done(&mut client, "RESET statement_timeout");
    done(&mut holder, "ROLLBACK");
    assert_eq!(client.value("SELECT v FROM t WHERE k = 1").unwrap(), "c");
}

#[test]
fn a_cancel_request_that_comes_late_meets_no_other_statement() {
    let fleet = Fleet::with(1, "connect_timeout_ms = 5000");
    let wire = Arc::new(Wire::default());
    let relay = Relay::start(&wire, fleet.shards[0].address());
    let mut client = fleet.client();
    let (host, port) = (relay.address().ip(), relay.address().port());
    done(&mut client, &format!("ALTER SERVER s0 OPTIONS (SET host '{host}', SET port '{port}')"));
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    done(&mut client, "INSERT INTO t VALUES (1, 'a')");
    let (mut holder, mut watcher) = (fleet.shard(0), fleet.shard(0));
    let waiting = "SELECT string_agg(pid::text, ',') FROM pg_stat_activity \
                   WHERE query LIKE 'UPDATE t%' AND state = 'active' AND wait_event_type = 'Lock'";
    for in_block in [false, true] {
        done(&mut holder, "BEGIN");
        done(&mut holder, "SELECT * FROM t FOR UPDATE");
        wire.hold_cancels();
        if in_block {
            done(&mut client, "BEGIN");
        }
        let (address, key) = (fleet.ashlar.pg(), client.key.clone());
        let updating = std::thread::spawn(move || {
            // It may be done before it hears that it should not.
            let _ = client.query("UPDATE t SET v = 'b' WHERE k = 1");
            client
        });
        assert!(wait_for(PATIENCE, || watcher.value(waiting).unwrap() != "NULL"));
        let pid = watcher.value(waiting).unwrap();
        pg::cancel(address, &key).unwrap();
        wire.wait_for_cancel();
        // The statement comes to its end, the request does not.
        done(&mut holder, "ROLLBACK");
        client = updating.join().unwrap();
        if in_block {
            done(&mut client, "ROLLBACK");
        }
        let is_there = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}");
        assert!(wait_for(PATIENCE, || watcher.value(&is_there).unwrap() == "0"), "in a block: {in_block}");
        wire.release_cancels();
        done(&mut client, "UPDATE t SET v = 'c' WHERE k = 1");
        assert_eq!(client.value("SELECT v FROM t WHERE k = 1").unwrap(), "c");
    }
    fleet.ashlar.check_log();
}

#[test]
fn what_is_refused_is_refused_as_the_page_says() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    done(&mut client, "CREATE TABLE g (k bigint PRIMARY KEY, v text)");
    for key in 0..8 {
        done(&mut client, &format!("INSERT INTO t VALUES ({key}, 'a')"));
    }
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/sharding.md")).unwrap();
    let list = page.split("## Refused").nth(1).expect("the page has a list of refusals");
    let kinds = kinds_of_refusals();
    let (mut count, mut unlisted) = (0, Vec::new());
    for line in list.lines().filter(|line| line.starts_with("| `")) {
        let sql = line.split('`').nth(1).unwrap().replace("SERVERS", &fleet.servers());
        let code = line.split('|').nth(2).unwrap().trim();
        // In a transaction: what is refused for being in one has to be, and what changed would be seen.
        let statements: Vec<&str> = sql.split(';').map(str::trim).filter(|sql| !sql.is_empty()).collect();
        let (last, before) = statements.split_last().unwrap();
        before.iter().for_each(|sql| done(&mut client, sql));
        let error = refused(&mut client, last);
        assert!(error.contains(code), "{sql}: {error}");
        if error.starts_with("0A000") && !is_listed(&error, &kinds) {
            unlisted.push(format!("{sql}: {error}"));
        }
        done(&mut client, "ROLLBACK");
        count += 1;
    }
    assert!(count >= 90, "only {count} refusals are listed");
    assert!(unlisted.is_empty(), "the page does not say what these say:\n{}", unlisted.join("\n"));
    assert_eq!(client.value("SELECT count(*) FROM t WHERE v = 'a'").unwrap(), "8");
}

/// How a shard dies in the middle of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    /// The process that answers; the server starts all of them anew.
    OfProcess,
    /// The server, which starts again when somebody starts it.
    OfServer,
}

/// Rows of each of two shards, which no buffer on their way holds: the shard is at work while the client reads the first of them.
const LONG_ROWS: usize = 200_000;

/// Two shards with so many rows each, by ranges of their key, and `m` in memory.
fn long_answers() -> Fleet {
    // One that comes back is found soon.
    let fleet = Fleet::with(2, "health_check_ms = 50");
    let mut client = fleet.client();
    done(
        &mut client,
        &format!(
            "CREATE TABLE t (k bigint PRIMARY KEY, g int, v text) PARTITION BY RANGE (k) \
             USING sharded WITH (servers = 's0,s1', boundaries = '{LONG_ROWS}')"
        ),
    );
    done(&mut client, "CREATE TABLE m (k bigint PRIMARY KEY, w text)");
    done(&mut client, "INSERT INTO m SELECT i, 'w' || i FROM generate_series(0, 9) AS s(i)");
    for shard in 0..2 {
        let (first, last) = (shard * LONG_ROWS, (shard + 1) * LONG_ROWS - 1);
        let rows = format!("SELECT i, i % 1000, repeat('x', 300) FROM generate_series({first}, {last}) AS s(i)");
        done(&mut fleet.shard(shard), &format!("INSERT INTO t {rows}"));
        done(&mut fleet.shard(shard), "CHECKPOINT");
    }
    fleet
}

/// Has a shard die when the first row of a query is there: how many rows came, and what its client is told in the end.
fn cut_short(fleet: &mut Fleet, sql: &str, victim: usize, death: Death) -> (usize, String) {
    let mut client = fleet.client();
    client.send(&pg::message(b'Q', &[sql.as_bytes(), b"\0"])).unwrap();
    let mut count = 0;
    while count == 0 {
        let message = client.read().unwrap();
        assert_ne!(message.kind, b'E', "{sql}\n{:?}", message.field(b'M'));
        count += usize::from(message.kind == b'D');
    }
    let pid = fleet.writing(victim, sql);
    match death {
        Death::OfServer => fleet.shards[victim].kill().unwrap(),
        Death::OfProcess => {
            let kill = format!("kill -9 {pid}");
            assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success(), "{kill}");
        }
    }
    let mut told: Option<String> = None;
    loop {
        let message = client.read().unwrap();
        match message.kind {
            b'D' => count += 1,
            b'E' => {
                let fields = [b'C', b'M', b'D', b'W'].into_iter().filter_map(|field| message.field(field));
                told.get_or_insert(fields.collect::<Vec<_>>().join("\n"));
            }
            b'C' => panic!("{sql}: shard {victim}, {death:?}: said to be complete after {count} rows"),
            b'Z' => break,
            _ => {}
        }
    }
    (count, told.expect("an answer ends with a command tag or an error"))
}

#[test]
fn an_answer_whose_shard_dies_is_never_said_to_be_whole() {
    let mut fleet = long_answers();
    let half = "t.k >= 100000 AND t.k < 300000";
    let questions: [(String, &str, &[usize]); 4] = [
        (format!("SELECT k, v FROM t WHERE k >= {LONG_ROWS}"), "Route: shard 1", &[1]),
        (format!("SELECT k, v FROM t WHERE {half}"), "Merge: rows of all", &[0, 1]),
        (format!("SELECT k, g, v FROM t WHERE {half} ORDER BY g, k"), "Merge: rows put together", &[0, 1]),
        // The engine's, since one of its tables is in memory.
        (format!("SELECT t.k, t.v, m.w FROM t JOIN m ON m.k = t.k % 10 WHERE {half}"), "", &[0, 1]),
    ];
    for (sql, route, victims) in questions {
        let lines = format!("{:?}", rows(&mut fleet.client(), &format!("EXPLAIN (ROUTE) {sql}")));
        let is_engine = !lines.contains("Route: shard") && !lines.contains("Route: all shards");
        assert!(if route.is_empty() { is_engine } else { lines.contains(route) }, "{sql}\n{lines}");
        for victim in victims {
            for death in [Death::OfProcess, Death::OfServer] {
                let (count, told) = cut_short(&mut fleet, &sql, *victim, death);
                assert!(count < LONG_ROWS, "{sql}: {victim}, {death:?}: {count} rows");
                let names = [format!("shard \"s{victim}\""), format!("shard s{victim}")];
                assert!(names.iter().any(|name| told.contains(name)), "{sql}: {victim}, {death:?}: {told}");
                assert!(told.starts_with("08006") || told.starts_with("57P0"), "{sql}: {victim}, {death:?}: {told}");
                let shard = &mut fleet.shards[*victim];
                if death == Death::OfServer {
                    // What the dead server has left behind ends by itself, and until then no other one starts.
                    assert!(wait_for(PATIENCE, || shard.wait().is_ok() && shard.start_again().is_ok()));
                }
                let count = "SELECT count(*) FROM t";
                let whole = (2 * LONG_ROWS).to_string();
                let is_whole = || fleet.client().value(count).is_ok_and(|count| count == whole);
                assert!(wait_for(PATIENCE, is_whole), "{sql}: {victim}, {death:?}: it stays away");
            }
        }
    }
}
