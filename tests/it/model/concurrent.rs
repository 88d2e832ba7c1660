//! Several clients at once: what must hold in whatever order their operations came.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ashlar_tests::pg::Connection;
use ashlar_tests::process::wait_for;
use ashlar_tests::resp::{self, Reply};
use ashlar_tests::{Ashlar, Options};

use crate::http::{get, series};
use crate::random::Random;

const ACCOUNTS: u64 = 200;

/// How long something that is bound to happen may take.
const SOON: Duration = Duration::from_secs(120);

/// Runs the statements as one transaction; false when another one was first (40001) or waits for this one (40P01).
fn try_transaction(connection: &mut Connection, statements: &[String]) -> bool {
    let mut run = || -> anyhow::Result<()> {
        connection.query("BEGIN")?;
        for statement in statements {
            connection.query(statement)?;
        }
        connection.query("COMMIT")?;
        Ok(())
    };
    match run() {
        Ok(()) => true,
        Err(error) if ["40001", "40P01"].iter().any(|code| error.to_string().starts_with(code)) => {
            // The conflict may come before COMMIT; outside a block this is a warning.
            connection.query("ROLLBACK").unwrap();
            false
        }
        Err(error) => panic!("{error:#}"),
    }
}

#[test]
fn transfers_keep_their_sum_in_every_snapshot() {
    let server = Ashlar::start(Options::default()).unwrap();
    let mut setup = server.connect();
    setup.query("CREATE TABLE account (id integer PRIMARY KEY, balance bigint NOT NULL)").unwrap();
    let rows: Vec<String> = (0..ACCOUNTS).map(|id| format!("({id}, 1000)")).collect();
    setup.query(&format!("INSERT INTO account VALUES {}", rows.join(", "))).unwrap();
    let total = (ACCOUNTS * 1000).to_string();
    let fingerprint = "SELECT sum(balance * (id + 1)) FROM account";

    // A snapshot from before all transfers: it must not change however often the rows are rewritten beneath it.
    let mut old = server.connect();
    old.query("BEGIN ISOLATION LEVEL REPEATABLE READ").unwrap();
    let before = old.value(fingerprint).unwrap();

    let mut random = Random::from_environment();
    let seeds: Vec<u64> = (0..3).map(|_| random.next()).collect();
    let done = AtomicBool::new(false);
    let looks = AtomicU64::new(0);
    let transfers = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut connection = server.connect();
                    while !done.load(Ordering::Acquire) {
                        assert_eq!(connection.value("SELECT sum(balance) FROM account").unwrap(), total);
                        assert_eq!(connection.value("SELECT count(*) FROM account").unwrap(), ACCOUNTS.to_string());
                        looks.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let writers: Vec<_> = seeds
            .iter()
            .map(|seed| {
                scope.spawn(|| {
                    let mut random = Random::from_seed(*seed);
                    let mut connection = server.connect();
                    let mut made = 0;
                    // And until somebody has looked: on a busy machine those who write get ahead of those who read all rows.
                    let begin = Instant::now();
                    while made < 400 || looks.load(Ordering::Relaxed) == 0 && begin.elapsed() < SOON {
                        let (from, to) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
                        let amount = random.below(100);
                        let statements = [
                            format!("UPDATE account SET balance = balance - {amount} WHERE id = {from}"),
                            format!("UPDATE account SET balance = balance + {amount} WHERE id = {to}"),
                        ];
                        if try_transaction(&mut connection, &statements) {
                            made += 1;
                        }
                    }
                    transfers.fetch_add(made, Ordering::Relaxed);
                })
            })
            .collect();
        // First let everybody finish, then look how it went: a panic must not leave the readers running.
        let written: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Release);
        let read: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        assert!(written.iter().all(Result::is_ok) && read.iter().all(Result::is_ok));
    });
    assert!(looks.into_inner() > 0 && transfers.into_inner() >= 1200);
    assert_eq!(old.value(fingerprint).unwrap(), before, "an old snapshot has changed");
    old.query("COMMIT").unwrap();
    assert_eq!(setup.value("SELECT sum(balance) FROM account").unwrap(), total);
    assert_ne!(setup.value(fingerprint).unwrap(), before);
    drop((setup, old));
    server.stop();
}

#[test]
fn no_increment_is_lost_between_sql_and_resp() {
    // Two rows that six clients want all the time, on a machine that may be busy with other tests.
    let config = "[server]\nresp_lock_timeout_ms = 600000\n".to_owned();
    let server = Ashlar::start(Options { config, ..Options::default() }).unwrap();
    let mut setup = server.connect();
    setup.query("CREATE TABLE counter (id integer PRIMARY KEY, n bigint NOT NULL)").unwrap();
    setup.query("INSERT INTO counter VALUES (1, 0), (2, 0)").unwrap();
    std::thread::scope(|scope| {
        for client in 0..3 {
            let server = &server;
            scope.spawn(move || {
                let mut connection = server.connect();
                let mut made = 0;
                while made < 300 {
                    let sql = format!("UPDATE counter SET n = n + 1 WHERE id = {}", 1 + (made + client) % 2);
                    match connection.query(&sql) {
                        Ok(_) => made += 1,
                        Err(error) => assert!(error.to_string().starts_with("40001"), "{error}"),
                    }
                }
            });
            scope.spawn(move || {
                let mut keys = resp::Client::connect(server.resp()).unwrap();
                for made in 0..300 {
                    let name = format!("counter:{{{}}}", 1 + (made + client) % 2);
                    let reply = keys.command(&["HINCRBY", &name, "n", "1"]).unwrap();
                    assert!(matches!(reply, Reply::Integer(_)), "{reply:?}");
                    let reply = keys.command(&["INCR", "counter"]).unwrap();
                    assert!(matches!(reply, Reply::Integer(_)), "{reply:?}");
                }
            });
        }
    });
    assert_eq!(setup.value("SELECT sum(n) FROM counter").unwrap(), "1800");
    assert_eq!(setup.value("SELECT min(n) FROM counter").unwrap(), "900");
    let mut keys = resp::Client::connect(server.resp()).unwrap();
    assert_eq!(keys.command(&["GET", "counter"]).unwrap(), Reply::bulk("900"));
    drop((setup, keys));
    server.stop();
}

#[test]
fn rewritten_and_deleted_rows_give_their_memory_back() {
    let server = Ashlar::start(Options::default()).unwrap();
    let mut connection = server.connect();
    connection.query("CREATE TABLE churned (id integer PRIMARY KEY, t text, n integer)").unwrap();
    let bytes = || {
        let page = get(server.http(), "/metrics").1;
        series(&page, r#"ashlar_store_table_bytes{table="churned"}"#).unwrap_or_else(|| panic!("{page}"))
    };
    let rows: Vec<String> = (0..20_000).map(|id| format!("({id}, '{}', 0)", "x".repeat(100))).collect();
    connection.query(&format!("INSERT INTO churned VALUES {}", rows.join(", "))).unwrap();
    let filled = bytes();
    assert!(filled > 20_000.0 * 100.0, "{filled} bytes for two million characters");
    for _ in 0..30 {
        connection.query("UPDATE churned SET n = n + 1").unwrap();
    }
    // Six hundred thousand versions were made; one of each row is left.
    let shrunk = wait_for(SOON, || bytes() < filled * 2.0);
    assert!(shrunk, "{} bytes after updates, {filled} before", bytes());
    assert_eq!(connection.value("SELECT sum(n) FROM churned").unwrap(), "600000");
    connection.query("DELETE FROM churned WHERE id % 10 <> 0").unwrap();
    let shrunk = wait_for(SOON, || bytes() < filled / 2.0);
    assert!(shrunk, "{} bytes for a tenth of the rows, {filled} for all", bytes());
    assert_eq!(connection.value("SELECT count(*) FROM churned").unwrap(), "2000");
    connection.query("TRUNCATE churned").unwrap();
    let shrunk = wait_for(SOON, || bytes() < filled / 10.0);
    assert!(shrunk, "{} bytes for no rows, {filled} for all", bytes());
    drop(connection);
    server.stop();
}
