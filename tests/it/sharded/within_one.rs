//! What one shard does for itself: writes in WITH, columns that a server makes for its rows, and errors in the names that tables have here;
//! beside one PostgreSQL, whose answers must be the same.

use super::*;
use crate::comparison::{Protocol, ask};

const TABLES: &[&str] = &["t", "archive"];

const COLUMNS: &str = "k bigint PRIMARY KEY, v text NOT NULL, n int DEFAULT 5, CHECK (n < 1000)";

/// Each with what it leaves, looked at behind it.
const CHANGES: &[&str] = &[
    "WITH d AS (DELETE FROM t WHERE k = 5 RETURNING *) SELECT count(*), max(v) FROM d",
    "WITH d AS (DELETE FROM t WHERE k = 6 RETURNING *) SELECT count(*) FROM d WHERE false",
    "WITH moved AS (DELETE FROM t WHERE k = 7 RETURNING *) INSERT INTO archive SELECT * FROM moved",
    "WITH moved AS (DELETE FROM t WHERE k IN (8) RETURNING *) INSERT INTO archive SELECT * FROM moved RETURNING k, v, n",
    "WITH moved (a, b) AS (DELETE FROM t WHERE k = 9 RETURNING v, k) INSERT INTO archive (v, k) SELECT a, b FROM moved",
    "WITH c AS (UPDATE t SET n = n + 1 WHERE k = 10 RETURNING k, n) SELECT t.n, c.n FROM t JOIN c ON c.k = t.k",
    "WITH c AS (UPDATE t SET n = 77 WHERE k = 11 RETURNING k) DELETE FROM archive USING c WHERE archive.k = c.k",
    "WITH made AS (INSERT INTO t VALUES (101, 'made') RETURNING *) SELECT * FROM made",
    "WITH made AS (INSERT INTO t (v, k) VALUES ('both', 102) RETURNING k) INSERT INTO archive (k, v) SELECT k, 'too' FROM made",
    "WITH made AS (INSERT INTO t VALUES (12, 'x') ON CONFLICT (k) DO UPDATE SET v = excluded.v || t.v RETURNING v) SELECT v FROM made",
    "WITH next AS (SELECT k FROM t WHERE k = 13 FOR UPDATE SKIP LOCKED) DELETE FROM t USING next WHERE t.k = next.k RETURNING t.k",
    "WITH gone AS (DELETE FROM t WHERE k = 14) INSERT INTO archive VALUES (14, 'known')",
    "WITH gone AS (DELETE FROM t WHERE k = 100000 RETURNING k) SELECT count(*) FROM gone",
];

/// Rows of several shards would change.
const REFUSED: &[&str] = &[
    "WITH d AS (DELETE FROM t RETURNING *) SELECT count(*) FROM d",
    "WITH d AS (DELETE FROM t RETURNING *) SELECT count(*) FROM d WHERE k = 20",
    "WITH d AS (DELETE FROM t RETURNING *) INSERT INTO archive SELECT * FROM d",
    "WITH d AS (DELETE FROM t RETURNING k) UPDATE archive SET n = 1 FROM d WHERE d.k = archive.k AND archive.k = 7",
    "WITH m AS (INSERT INTO t SELECT k + 1000, v, n FROM t RETURNING k) SELECT count(*) FROM m",
    "WITH m AS (INSERT INTO t VALUES (NULL, 'x') RETURNING k) SELECT count(*) FROM m",
];

#[test]
fn what_with_changes_on_one_shard_is_what_one_server_changes() {
    for shards in [1, 2, 4] {
        let (fleet, oracle) = (Fleet::start(shards), Postgres::start().unwrap());
        let mut alone = pg::Connection::connect(oracle.address()).unwrap();
        let mut client = fleet.client();
        // Twice as many tables as servers, so that none is called there as it is here.
        let options = format!("servers = '{}', shards = '{}', algorithm = 'hash_mod'", fleet.servers(), 2 * shards);
        for table in TABLES {
            let create = format!("CREATE TABLE {table} ({COLUMNS})");
            done(&mut alone, &create);
            done(&mut client, &format!("{create} PARTITION BY HASH (k) USING sharded WITH ({options})"));
        }
        for client in [&mut alone, &mut client] {
            done(client, "INSERT INTO t SELECT i, 'v' || i, i % 7 FROM generate_series(1, 40) AS s(i)");
            done(client, "INSERT INTO archive SELECT i, 'old', 1 FROM generate_series(11, 12) AS s(i)");
        }
        let state = |client: &mut pg::Connection| {
            TABLES.iter().map(|table| rows(client, &format!("SELECT * FROM {table} ORDER BY k"))).collect::<Vec<_>>()
        };
        for sql in CHANGES {
            assert_eq!(rows(&mut client, sql), rows(&mut alone, sql), "on {shards} shards: {sql}");
            assert_eq!(state(&mut client), state(&mut alone), "on {shards} shards: {sql}");
        }
        for sql in REFUSED {
            let error = refused(&mut client, sql);
            assert!(error.starts_with("0A000"), "on {shards} shards: {sql}: {error}");
        }
        assert_eq!(state(&mut client), state(&mut alone), "on {shards} shards");
        // It writes.
        done(&mut client, "BEGIN READ ONLY");
        let error = refused(&mut client, "WITH d AS (DELETE FROM t WHERE k = 30 RETURNING *) SELECT count(*) FROM d");
        assert!(error.starts_with("25006"), "{error}");
        done(&mut client, "ROLLBACK");
        done(&mut client, "BEGIN");
        done(&mut client, "WITH d AS (DELETE FROM t WHERE k = 30 RETURNING *) SELECT count(*) FROM d");
        done(&mut client, "ROLLBACK");
        assert_eq!(state(&mut client), state(&mut alone), "on {shards} shards");
        fleet.ashlar.check_log();
    }
}

/// SQLSTATE, message, table, column, constraint and detail of an error.
fn told(client: &mut pg::Connection, sql: &str) -> Vec<Option<String>> {
    client.send(&pg::message(b'Q', &[sql.as_bytes(), b"\0"])).unwrap();
    let mut told = Vec::new();
    loop {
        let message = client.read().unwrap_or_else(|error| panic!("{sql}\n{error:#}"));
        match message.kind {
            b'E' => told = [b'C', b'M', b't', b'c', b'n', b'D'].iter().map(|field| message.field(*field)).collect(),
            b'Z' => return told,
            _ => {}
        }
    }
}

#[test]
fn errors_name_tables_and_constraints_as_they_are_here() {
    let (fleet, oracle) = (Fleet::start(2), Postgres::start().unwrap());
    let mut alone = pg::Connection::connect(oracle.address()).unwrap();
    let mut client = fleet.client();
    let options = format!("servers = '{}', shards = '4', algorithm = 'hash_mod'", fleet.servers());
    for table in [format!("t ({COLUMNS})"), "named (k bigint, v text, CONSTRAINT mine PRIMARY KEY (k))".to_owned()] {
        let create = format!("CREATE TABLE {table}");
        done(&mut alone, &create);
        done(&mut client, &format!("{create} PARTITION BY HASH (k) USING sharded WITH ({options})"));
    }
    for client in [&mut alone, &mut client] {
        done(client, "INSERT INTO t SELECT i, 'v' || i, i % 7 FROM generate_series(1, 40) AS s(i)");
        done(client, "INSERT INTO named SELECT k, v FROM t");
    }
    for sql in [
        "INSERT INTO t VALUES (1, 'x')",
        "INSERT INTO t SELECT k + 0, v, n FROM t WHERE k = 3",
        "INSERT INTO named VALUES (7, 'x')",
        "INSERT INTO named SELECT k + 0, v FROM t WHERE k = 9",
        "INSERT INTO t VALUES (50, NULL)",
        "INSERT INTO t VALUES (50, 'x', 1000)",
        "UPDATE t SET n = 5000 WHERE k = 4",
        "UPDATE t SET v = NULL WHERE k = 4",
        "INSERT INTO t VALUES (50, 'x', 'many')",
        "SELECT 'relation \"t_1\"'::int FROM t WHERE k = 4",
    ] {
        assert_eq!(told(&mut client, sql), told(&mut alone, sql), "{sql}");
    }
    fleet.ashlar.check_log();
}

#[test]
fn columns_that_a_server_makes_are_those_of_the_row() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    done(&mut client, "INSERT INTO t SELECT i, 'v' FROM generate_series(1, 20) AS s(i)");
    for k in 1..=20 {
        let at = client.value(&format!("SELECT ctid FROM t WHERE k = {k}")).unwrap();
        done(&mut client, &format!("UPDATE t SET v = 'w' WHERE k = {k} AND ctid = '{at}'"));
        done(&mut client, &format!("UPDATE t SET v = 'x' WHERE k = {k} AND ctid = '{at}'"));
    }
    assert_eq!(client.value("SELECT count(*) FROM t WHERE v = 'w'").unwrap(), "20");
    for sql in [
        "SELECT ctid FROM t",
        "SELECT t.xmin FROM t",
        "SELECT k FROM t WHERE ctid = '(0,1)'",
        "SELECT count(*) FROM t AS s WHERE s.cmax::text = '0'",
    ] {
        let error = refused(&mut client, sql);
        assert!(error.contains("0A000") && error.contains("system column"), "{sql}: {error}");
    }
    // What is called so by the query is another column, and a table's number is that of the table here.
    assert_eq!(client.value("SELECT sum(ctid) FROM (SELECT k AS ctid FROM t) AS s").unwrap(), "210");
    assert_eq!(client.value("SELECT DISTINCT tableoid::regclass FROM t").unwrap(), "t");
    assert!(client.query("DELETE FROM t WHERE ctid = '(0,1)'").is_err());
    assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "20");
    fleet.ashlar.check_log();
}

#[test]
fn rows_whose_key_is_null_are_together() {
    let (fleet, oracle) = (Fleet::start(4), Postgres::start().unwrap());
    let mut alone = pg::Connection::connect(oracle.address()).unwrap();
    let mut client = fleet.client();
    let options = format!("servers = '{}', algorithm = 'pg_hash'", fleet.servers());
    for table in ["w (k bigint DEFAULT 3, v text)", "u (k bigint, v text)"] {
        done(&mut alone, &format!("CREATE TABLE {table}"));
        done(&mut client, &format!("CREATE TABLE {table} PARTITION BY HASH (k) USING sharded WITH ({options})"));
    }
    for client in [&mut alone, &mut client] {
        for k in 1..=12 {
            done(client, &format!("INSERT INTO u VALUES ({k}, 'v{k}')"));
            done(client, &format!("INSERT INTO w (k, v) SELECT NULL, v FROM u WHERE k = {k}"));
            done(client, &format!("INSERT INTO w (v) SELECT v FROM u WHERE k = {k}"));
            done(
                client,
                &format!("INSERT INTO w SELECT o.k, u.v FROM u LEFT JOIN w AS o ON o.k = u.k WHERE u.k = {k}"),
            );
        }
    }
    let sql = "SELECT k, count(*), min(v) FROM w GROUP BY k ORDER BY k";
    assert_eq!(rows(&mut client, sql), rows(&mut alone, sql));
    fleet.ashlar.check_log();
}

/// Statements that lock rows of several shards.
const LOCKING: &[&str] = &[
    "SELECT k, v FROM t WHERE k IN (9, 3, 14, 5) ORDER BY k FOR UPDATE",
    "SELECT v FROM t WHERE n > 2 ORDER BY n DESC, k FOR SHARE",
    "SELECT * FROM t ORDER BY k FOR NO KEY UPDATE NOWAIT",
    "SELECT v || '!' AS w FROM t WHERE n = 100 ORDER BY k FOR UPDATE",
    "SELECT k FROM t WHERE n < 4 ORDER BY 1 FOR UPDATE SKIP LOCKED",
    "SELECT g, title FROM copied WHERE g IN (2, 1) ORDER BY g FOR UPDATE",
];

#[test]
fn rows_of_several_shards_are_locked_in_an_order() {
    for (servers, shards) in [(1, 2), (2, 2), (2, 5)] {
        let (fleet, oracle) = (Fleet::start(servers), Postgres::start().unwrap());
        let mut alone = pg::Connection::connect(oracle.address()).unwrap();
        let mut client = fleet.client();
        let names = fleet.servers();
        let by_key = format!("servers = '{names}', shards = '{shards}', algorithm = 'hash_mod'");
        let tables = [
            (format!("t ({COLUMNS})"), format!("PARTITION BY HASH (k) USING sharded WITH ({by_key})")),
            (
                "copied (g int PRIMARY KEY, title text)".to_owned(),
                format!("USING sharded WITH (servers = '{names}', broadcast)"),
            ),
        ];
        for (table, rule) in tables {
            done(&mut alone, &format!("CREATE TABLE {table}"));
            done(&mut client, &format!("CREATE TABLE {table} {rule}"));
        }
        for client in [&mut alone, &mut client] {
            done(client, "INSERT INTO t SELECT i, 'v' || i, i % 7 FROM generate_series(1, 40) AS s(i)");
            done(client, "INSERT INTO copied VALUES (1, 'a'), (2, 'b'), (3, 'c')");
        }
        for sql in LOCKING {
            for protocol in [Protocol::Simple, Protocol::Extended] {
                let (found, expected) = (ask(&mut client, sql, protocol), ask(&mut alone, sql, protocol));
                assert!(found.error.is_none(), "{sql}: {:?}", found.error);
                assert_eq!(found.departs_from(&expected, sql), None, "on {shards} shards: {sql}");
                assert_eq!(found.tag, expected.tag, "on {shards} shards: {sql}");
            }
        }
        // The rows are locked, and no others.
        let mut other = fleet.client();
        done(&mut client, "BEGIN");
        done(&mut client, LOCKING[0]);
        for k in [3, 5, 9, 14] {
            let error = refused(&mut other, &format!("SELECT v FROM t WHERE k = {k} FOR UPDATE NOWAIT"));
            assert!(error.starts_with("55P03"), "{error}");
            assert!(error.contains("relation \"t\""), "{error}");
        }
        done(&mut other, "SELECT v FROM t WHERE k = 4 FOR UPDATE NOWAIT");
        done(&mut client, LOCKING[5]);
        for shard in 0..servers {
            let mut shard = fleet.shard(shard);
            let error = refused(&mut shard, "SELECT * FROM copied WHERE g = 2 FOR UPDATE NOWAIT");
            assert!(error.starts_with("55P03"), "{error}");
            done(&mut shard, "SELECT * FROM copied WHERE g = 3 FOR UPDATE NOWAIT");
        }
        done(&mut client, "COMMIT");
        done(&mut other, "SELECT v FROM t ORDER BY k FOR UPDATE NOWAIT");
        let error = refused(&mut client, "SELECT k FROM t ORDER BY k LIMIT 2 FOR UPDATE SKIP LOCKED");
        assert!(error.starts_with("0A000"), "{error}");
        fleet.ashlar.check_log();
    }
}
