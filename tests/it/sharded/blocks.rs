//! What a transaction has written it sees in whatever it asks, on however many shards: blocks of statements on a fleet and on one
//! PostgreSQL, whose answers must be the same one by one; and what becomes of a block whose reading fails.

use ashlar_tests::process::{PATIENCE, wait_for};

use super::slt::{is_listed, kinds_of_refusals};
use super::twins::Twins;
use super::*;
use crate::comparison::Protocol;

const TABLES: &[(&str, &str, Option<&str>)] = &[
    ("t", "k bigint PRIMARY KEY, g int, v text, n numeric(12,3)", Some("k")),
    ("l", "k bigint, i int, w text, PRIMARY KEY (k, i)", Some("k")),
];

/// Blocks, each of which begins with the rows that the ones before have left.
const BLOCKS: &[&[&str]] = &[
    // Written to all shards.
    &[
        "BEGIN",
        "INSERT INTO t VALUES (1001, 1, 'new', 2.5), (1002, 2, 'new', NULL), (1003, 1, 'other', 7), (1004, 3, NULL, 1)",
        "SELECT count(*) FROM t",
        "SELECT count(*), sum(g), min(k), max(n) FROM t WHERE v = 'new'",
        "SELECT g, count(*), sum(n) FROM t GROUP BY g ORDER BY g",
        "SELECT * FROM t ORDER BY k",
        "SELECT * FROM t",
        "SELECT k FROM t ORDER BY n DESC NULLS LAST, k LIMIT 5 OFFSET 1",
        "UPDATE t SET v = 'changed' WHERE g = 1",
        "SELECT v, count(*) FROM t GROUP BY v ORDER BY 2, 1 NULLS FIRST",
        "DELETE FROM t WHERE g = 2",
        "SELECT count(*), sum(k), sum(g) FROM t",
        "SELECT DISTINCT v FROM t ORDER BY v NULLS FIRST",
        "SELECT k FROM t WHERE k IN (1, 2, 3, 4, 1001, 1004) ORDER BY k",
        "SELECT k, n FROM t WHERE k BETWEEN 1000 AND 1010 ORDER BY n, k",
        "COMMIT",
        "SELECT count(*), sum(k), sum(n) FROM t",
    ],
    // Written to one of them; scans of a table that are alike, and scans that are not.
    &[
        "BEGIN",
        "UPDATE t SET n = 100, g = 3 WHERE k = 5",
        "SELECT a.k, b.k FROM t a JOIN t b ON b.g = a.g AND b.k > a.k WHERE a.n > 3 ORDER BY a.k, b.k",
        "SELECT count(*) FROM t a, t b, t c WHERE a.g = b.g AND b.g = c.g",
        "SELECT count(*), sum(t.n) FROM t JOIN l ON l.i = t.g",
        "SELECT t.k, l.w FROM t LEFT JOIN l ON l.i = t.g AND l.k < 3 ORDER BY t.k, l.w NULLS LAST",
        "SELECT k FROM t WHERE n > (SELECT avg(n) FROM t) ORDER BY k",
        "SELECT k FROM t WHERE g IN (SELECT i FROM l WHERE w = 'b') ORDER BY k",
        "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM l WHERE l.i = t.g AND l.w = 'a') ORDER BY k",
        "SELECT k FROM t WHERE k NOT IN (SELECT k FROM l) ORDER BY k",
        "WITH c AS (SELECT g, count(*) AS many FROM t GROUP BY g) \
         SELECT a.g, a.many, b.many FROM c a JOIN c b ON b.g = a.g + 1 ORDER BY a.g",
        "SELECT k FROM t WHERE n > 50 UNION ALL SELECT k FROM l WHERE i = 2",
        "SELECT k FROM l EXCEPT SELECT k FROM t WHERE g = 3",
        "SELECT k, rank() OVER (ORDER BY n DESC NULLS LAST, k) FROM t ORDER BY k",
        "SELECT (SELECT count(*) FROM t), (SELECT max(k) FROM l), (SELECT sum(n) FROM t)",
        "SELECT n FROM t WHERE k = 5",
        "ROLLBACK",
        "SELECT count(*), sum(k), sum(n) FROM t",
    ],
    // Savepoints, and errors of the engine, of a shard, and of both.
    &[
        "BEGIN",
        "INSERT INTO t VALUES (2001, 1, 'a', 1), (2002, 2, 'b', 2), (2003, 3, 'c', 3)",
        "SAVEPOINT a",
        "DELETE FROM t",
        "SELECT count(*) FROM t",
        "SELECT count(*) FROM t JOIN l ON l.i = t.g",
        "ROLLBACK TO a",
        "SELECT count(*), sum(k) FROM t",
        "SELECT sum(10 / (g - 1)) FROM t",
        "SELECT count(*) FROM t",
        "ROLLBACK TO a",
        "SELECT count(*), sum(k) FROM t",
        "INSERT INTO t VALUES (2001, 1, 'again', 1)",
        "SELECT count(*) FROM t",
        "ROLLBACK TO a",
        "UPDATE t SET g = g + 1",
        "RELEASE a",
        "SELECT g, count(*) FROM t GROUP BY g ORDER BY g",
        "SAVEPOINT b",
        "INSERT INTO l VALUES (77, 1, 'x'), (78, 1, 'y')",
        "SELECT w, count(*) FROM l GROUP BY w ORDER BY w",
        "ROLLBACK TO b",
        "SELECT w, count(*) FROM l GROUP BY w ORDER BY w",
        "COMMIT",
        "SELECT g, count(*) FROM t GROUP BY g ORDER BY g",
    ],
    // A block that has failed for good.
    &[
        "BEGIN",
        "DELETE FROM l",
        "SELECT count(*) FROM l",
        "SELECT sum(1 / (g - g)) FROM t",
        "SELECT count(*) FROM l",
        "COMMIT",
        "SELECT count(*) FROM l",
    ],
    // A cursor shows what was there when it was opened, whatever is written behind it.
    &[
        "BEGIN",
        "UPDATE t SET n = k",
        "DECLARE c CURSOR FOR SELECT k, n FROM t ORDER BY k",
        "FETCH 3 FROM c",
        "DELETE FROM t WHERE k > 5",
        "SELECT count(*) FROM t",
        "FETCH 4 FROM c",
        "INSERT INTO t VALUES (3001, 9, 'late', 9)",
        "FETCH ALL FROM c",
        "CLOSE c",
        "SELECT count(*), sum(n) FROM t",
        "ROLLBACK",
        "SELECT count(*), sum(n) FROM t",
    ],
    // Cursors over rows of one shard, before it is written to and behind that.
    &[
        "BEGIN",
        "DECLARE a CURSOR FOR SELECT k, n, v FROM t WHERE k = 3",
        "DECLARE b NO SCROLL CURSOR FOR SELECT i, w FROM l WHERE k = 3 ORDER BY i",
        "FETCH 2 FROM b",
        "UPDATE t SET n = 77 WHERE k = 3",
        "FETCH 1 FROM a",
        "FETCH 1 FROM a",
        "DECLARE c CURSOR WITHOUT HOLD FOR SELECT * FROM t WHERE k = 3",
        "DELETE FROM t WHERE k = 3",
        "FETCH FORWARD 5 FROM c",
        "SELECT count(*) FROM t WHERE k = 3",
        "MOVE 5 FROM b",
        "FETCH 1 FROM b",
        "SAVEPOINT s",
        "CLOSE b",
        "FETCH 1 FROM b",
        "ROLLBACK TO s",
        "DECLARE c CURSOR FOR SELECT * FROM t WHERE k = 4",
        "ROLLBACK TO s",
        "DECLARE d CURSOR FOR SELECT l.i, t.n FROM l JOIN t ON t.k = l.k WHERE l.k = 5 ORDER BY l.i",
        "FETCH ALL FROM d",
        "DECLARE e CURSOR FOR SELECT count(*), sum(n) FROM t WHERE k = 4",
        "FETCH NEXT FROM e",
        "CLOSE ALL",
        "ROLLBACK",
    ],
    &[
        "BEGIN",
        "TRUNCATE t",
        "SELECT count(*) FROM t",
        "INSERT INTO t (k) VALUES (1), (2), (3)",
        "SELECT sum(k) FROM t",
        "COMMIT",
    ],
];

fn inserts() -> Vec<String> {
    let mut all = Vec::new();
    for k in 1..=40 {
        let n = if k % 7 == 0 { "NULL".to_owned() } else { format!("{}.5", k % 9) };
        all.push(format!("INSERT INTO t VALUES ({k}, {}, 'v{}', {n})", k % 4, k % 3));
        all.push(format!("INSERT INTO l VALUES ({}, {}, '{}')", k / 3, k % 3, ["a", "b", "c"][k as usize % 3]));
    }
    all
}

fn blocks_agree(shards: usize, protocol: Protocol) {
    let mut twins = Twins::start(shards, TABLES);
    inserts().iter().for_each(|sql| twins.done(sql));
    twins.agree(BLOCKS, protocol);
}

#[test]
fn blocks_of_two_shards_are_those_of_one_server() {
    blocks_agree(2, Protocol::Simple);
}

#[test]
fn blocks_of_three_shards_are_those_of_one_server_prepared() {
    blocks_agree(3, Protocol::Extended);
}

/// A fleet of two, with a table and a key of each shard.
fn two() -> (Fleet, pg::Connection, Vec<i64>) {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    for table in ["t", "l"] {
        done(&mut client, &format!("CREATE TABLE {table} (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    }
    let keys = fleet.keys("t");
    (fleet, client, keys)
}

#[test]
fn what_does_not_fit_is_refused_and_the_savepoint_is_still_there() {
    let (fleet, mut client, keys) = two();
    let values: Vec<String> = (0..600).map(|k| format!("({}, repeat('x', 20000))", 100_000 + k)).collect();
    done(&mut client, &format!("INSERT INTO t VALUES {}", values.join(", ")));
    done(&mut client, "BEGIN");
    keys.iter().for_each(|k| done(&mut client, &format!("INSERT INTO t VALUES ({k}, 'mine')")));
    done(&mut client, "SAVEPOINT s");
    done(&mut client, "SET LOCAL query_memory_max = '1MB'");
    let error = refused(&mut client, "SELECT max(length(v || k)) FROM t");
    assert!(error.contains("53200"), "{error}");
    assert!(refused(&mut client, "SELECT count(*) FROM t").contains("25P02"));
    done(&mut client, "ROLLBACK TO s");
    assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "602");
    assert_eq!(client.value("SELECT count(*) FROM t WHERE v = 'mine'").unwrap(), "2");
    done(&mut client, "COMMIT");
    assert_eq!(fleet.client().value("SELECT count(*) FROM t WHERE v = 'mine'").unwrap(), "2");
    fleet.ashlar.check_log();
}

#[test]
fn a_read_that_is_cancelled_is_cancelled_on_its_shard() {
    let (fleet, mut client, keys) = two();
    let mut locker = fleet.shard(0);
    done(&mut locker, "BEGIN");
    done(&mut locker, "LOCK TABLE l");
    done(&mut client, "BEGIN");
    done(&mut client, &format!("INSERT INTO t VALUES ({}, 'mine')", keys[0]));
    done(&mut client, "SAVEPOINT s");
    done(&mut client, "SET LOCAL statement_timeout = '300ms'");
    let error = refused(&mut client, "SELECT count(*) FROM l");
    assert!(error.contains("57014"), "{error}");
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    assert!(wait_for(PATIENCE, || fleet.shard(0).value(waiting).unwrap() == "0"));
    done(&mut client, "ROLLBACK TO s");
    assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "1");
    done(&mut locker, "ROLLBACK");
    assert_eq!(client.value("SELECT count(*) FROM l").unwrap(), "0");
    done(&mut client, "COMMIT");
    assert_eq!(fleet.client().value("SELECT count(*) FROM t").unwrap(), "1");
    fleet.ashlar.check_log();
}

#[test]
fn a_block_that_waits_for_a_shard_holds_no_turn() {
    let fleet = Fleet::with(2, "[query]\nqueries_max = 1\nquery_wait_max_ms = 100000");
    let mut client = fleet.client();
    for table in ["t", "l"] {
        done(&mut client, &format!("CREATE TABLE {table} (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    }
    let key = fleet.keys("t")[0];
    let mut other = fleet.client();
    done(&mut other, "CREATE TABLE g (k bigint PRIMARY KEY)");
    done(&mut other, "INSERT INTO g VALUES (1), (2), (3)");
    let mut locker = fleet.shard(0);
    done(&mut locker, "BEGIN");
    done(&mut locker, "LOCK TABLE l");
    done(&mut client, "BEGIN");
    done(&mut client, &format!("INSERT INTO t VALUES ({key}, 'mine')"));
    let reading = std::thread::spawn(move || {
        let both = client.value("SELECT count(*) FROM t LEFT JOIN l ON l.v = t.v").unwrap();
        (client, both)
    });
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    assert!(wait_for(PATIENCE, || fleet.shard(0).value(waiting).unwrap() == "1"));
    // Where there is room for one, it is the other's turn.
    assert_eq!(other.value("SELECT count(*) FROM g a JOIN g b ON b.k > a.k").unwrap(), "3");
    done(&mut locker, "ROLLBACK");
    let (mut client, both) = reading.join().unwrap();
    assert_eq!(both, "1");
    assert_eq!(client.value("SELECT count(*) FROM t LEFT JOIN l ON l.v = t.v").unwrap(), "1");
    done(&mut client, "COMMIT");
    fleet.ashlar.check_log();
}

#[test]
fn scans_that_wait_for_a_shard_hold_no_turn() {
    let fleet = Fleet::with(2, "[query]\nqueries_max = 1\nquery_wait_max_ms = 100000");
    let (mut client, mut other) = (fleet.client(), fleet.client());
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    done(&mut client, "INSERT INTO t SELECT i, 'v' FROM generate_series(1, 50) AS s(i)");
    done(&mut other, "CREATE TABLE g (k bigint PRIMARY KEY)");
    done(&mut other, "INSERT INTO g VALUES (1), (2), (3)");
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    for sql in [
        // One scan after the other, several at once, and one beneath an operator that keeps all rows.
        "SELECT count(*) FROM t a JOIN t b ON b.k + 0 = a.k + 0",
        "SELECT count(*) FROM (SELECT v FROM t UNION ALL SELECT v FROM t LIMIT 50) AS u",
        "SELECT (sum(k) + count(DISTINCT v) - 1226)::text FROM t",
    ] {
        done(&mut other, "BEGIN");
        // Locked on both shards, by who needs a turn for what comes next.
        done(&mut other, "TRUNCATE t");
        let reading = std::thread::spawn(move || {
            let count = client.value(sql).unwrap();
            (client, count)
        });
        assert!(wait_for(PATIENCE, || (0..2).any(|shard| fleet.shard(shard).value(waiting).unwrap() != "0")), "{sql}");
        assert_eq!(other.value("SELECT count(*) FROM g a JOIN g b ON b.k > a.k").unwrap(), "3", "{sql}");
        done(&mut other, "ROLLBACK");
        let count;
        (client, count) = reading.join().unwrap();
        assert_eq!(count, "50", "{sql}");
    }
    fleet.ashlar.check_log();
}

#[test]
fn a_shard_that_is_lost_takes_the_block_along() {
    let (fleet, mut client, keys) = two();
    done(&mut client, "BEGIN");
    keys.iter().for_each(|k| done(&mut client, &format!("INSERT INTO t VALUES ({k}, 'mine')")));
    done(&mut client, "SAVEPOINT s");
    let ended =
        "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity WHERE state = 'idle in transaction'";
    assert_eq!(fleet.shard(0).value(ended).unwrap(), "1");
    let error = refused(&mut client, "SELECT count(*) FROM t");
    assert!(error.contains("57P01") || error.contains("08006"), "{error}");
    assert!(refused(&mut client, "SELECT count(*) FROM t").contains("25P02"));
    done(&mut client, "ROLLBACK");
    assert!(wait_for(PATIENCE, || client.value("SELECT count(*) FROM t").is_ok_and(|count| count == "0")));
}

#[test]
fn a_snapshot_of_several_shards_has_no_writes_of_ones_own() {
    let (fleet, mut client, keys) = two();
    done(&mut client, "SET sharded_reads = 'snapshot'");
    done(&mut client, "BEGIN");
    done(&mut client, &format!("INSERT INTO t VALUES ({}, 'mine')", keys[0]));
    let error = refused(&mut client, "SELECT count(*) FROM t");
    assert!(error.contains("0A000") && is_listed(&error, &kinds_of_refusals()), "{error}");
    done(&mut client, "ROLLBACK");
    done(&mut client, "BEGIN");
    done(&mut client, "SET LOCAL sharded_reads = 'each'");
    done(&mut client, &format!("INSERT INTO t VALUES ({}, 'mine')", keys[0]));
    assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "1");
    done(&mut client, "COMMIT");
    assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "1");
    fleet.ashlar.check_log();
}

#[test]
fn a_portal_goes_on_while_others_write() {
    let (fleet, mut client, keys) = two();
    let values: Vec<String> = (1000..1050).map(|k| format!("({k}, 'x')")).collect();
    done(&mut client, &format!("INSERT INTO t VALUES {}", values.join(", ")));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (mut client, connection) =
            tokio_postgres::connect(&fleet.ashlar.connection_string(), tokio_postgres::NoTls).await.unwrap();
        let _connection = tokio::spawn(connection);
        let transaction = client.transaction().await.unwrap();
        for key in &keys {
            transaction.execute("INSERT INTO t VALUES ($1, 'mine')", &[key]).await.unwrap();
        }
        let portal = transaction.bind("SELECT k FROM t ORDER BY k", &[]).await.unwrap();
        let mut found: Vec<i64> = Vec::new();
        loop {
            let some = transaction.query_portal(&portal, 20).await.unwrap();
            if some.is_empty() {
                break;
            }
            found.extend(some.iter().map(|row| row.get::<_, i64>(0)));
            // What is written meanwhile the portal does not see.
            transaction.execute("DELETE FROM t WHERE k >= 1000", &[]).await.unwrap();
        }
        let mut expected: Vec<i64> = keys.iter().copied().chain(1000..1050).collect();
        expected.sort_unstable();
        assert_eq!(found, expected);
        let left: i64 = transaction.query_one("SELECT count(*) FROM t", &[]).await.unwrap().get(0);
        assert_eq!(left, 2);
        transaction.commit().await.unwrap();
    });
    assert_eq!(fleet.client().value("SELECT count(*) FROM t").unwrap(), "2");
    fleet.ashlar.check_log();
}
