//! `sharded_server`: statements go to the server that their session names, as they are written, and are a part of its transactions all the same.

use ashlar_tests::process::{PATIENCE, wait_for};

use super::extended::{Form, prepare, run};
use super::*;
use crate::comparison::bound;

/// What one of the servers alone has: a table that nobody has made known, and functions that write to it.
const OWN: &str = "CREATE TABLE own (n int PRIMARY KEY, v text UNIQUE DEFERRABLE INITIALLY DEFERRED); \
    CREATE FUNCTION note(int, text) RETURNS int LANGUAGE sql AS 'INSERT INTO own VALUES ($1, $2) RETURNING n'";

/// Two shards with a table that has a row on each, what [`OWN`] says on both, and `g` in memory; the keys of the rows.
fn filled() -> (Fleet, pg::Connection, Vec<i64>) {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    done(&mut client, "CREATE TABLE g (k bigint PRIMARY KEY, v text)");
    let keys = fleet.keys("t");
    for (shard, key) in keys.iter().enumerate() {
        done(&mut client, &format!("INSERT INTO t VALUES ({key}, 'of {shard}')"));
        done(&mut fleet.shard(shard), OWN);
    }
    (fleet, client, keys)
}

/// How many rows of `own` a shard has.
fn own(fleet: &Fleet, shard: usize) -> String {
    fleet.shard(shard).value("SELECT count(*) FROM own").unwrap()
}

#[test]
fn statements_go_to_the_server_that_is_named() {
    let (fleet, mut client, keys) = filled();
    done(&mut client, "SET sharded_server = 's1'");
    assert_eq!(client.value("SHOW sharded_server").unwrap(), "s1");
    // What nobody has made known, by texts of one shape too.
    for (n, v) in [(1, "a"), (2, "it''s"), (3, "'';")] {
        done(&mut client, &format!("INSERT INTO own VALUES ({n}, '{v}')"));
    }
    for _ in 0..2 {
        for (n, v) in [(1, "a"), (2, "it's"), (3, "';")] {
            assert_eq!(client.value(&format!("SELECT v FROM own WHERE n = {n};")).unwrap(), v);
        }
        assert_eq!(client.value("  SELECT note(4, 'd') FROM own WHERE n = 0 UNION ALL SELECT 0").unwrap(), "0");
    }
    assert_eq!((own(&fleet, 0), own(&fleet, 1)), ("0".to_owned(), "3".to_owned()));
    // An error is the server's, and names it.
    let error = refused(&mut client, "SELECT nothing FROM own");
    assert!(error.starts_with("42703") && error.contains("shard s1"), "{error}");
    assert!(refused(&mut client, "INSERT INTO own VALUES (1, 'again')").starts_with("23505"));
    // The server's catalog is its own.
    assert_eq!(client.value("SELECT count(*) FROM pg_class WHERE relname = 'g'").unwrap(), "0");
    assert!(refused(&mut client, "SELECT * FROM ashlar.shards").starts_with("42P01"));

    // The same texts, routed and not.
    let count = "SELECT count(*) FROM t";
    let one = format!("SELECT count(*) FROM t WHERE k = {}", keys[0]);
    let counted = |client: &mut pg::Connection, sql: &str| {
        let simple = client.value(sql).unwrap();
        assert_eq!(bound(client, sql, &[]).unwrap(), (vec![simple.clone()], "SELECT 1".to_owned()), "{sql}");
        simple
    };
    for _ in 0..2 {
        for (server, all, first) in [("", "2", "1"), ("s0", "1", "1"), ("s1", "1", "0")] {
            done(&mut client, &format!("SET sharded_server = '{server}'"));
            assert_eq!((counted(&mut client, count), counted(&mut client, &one)), (all.to_owned(), first.to_owned()));
        }
    }
    done(&mut client, "RESET sharded_server");
    assert!(refused(&mut client, "SELECT v FROM own WHERE n = 1").starts_with("42P01"));
    // Nobody asks for a key, and rows of other servers stay as they are.
    done(&mut client, "SET sharded_keyless_writes = 'refuse'");
    done(&mut client, "SET sharded_server = 's0'");
    done(&mut client, &format!("UPDATE t SET v = 'changed' WHERE k IN ({}, {})", keys[0], keys[1]));
    done(&mut client, "UPDATE t SET v = v || '!'");
    done(&mut client, "RESET sharded_server");
    for (key, v) in keys.iter().zip(["changed!", "of 1"]) {
        assert_eq!(client.value(&format!("SELECT v FROM t WHERE k = {key}")).unwrap(), v);
    }
    fleet.ashlar.check_log();
}

#[test]
fn it_is_a_setting_as_others() {
    let (fleet, mut client, _) = filled();
    assert_eq!(client.value("SHOW sharded_server").unwrap(), "");
    assert!(refused(&mut client, "SET sharded_server = 'nowhere'").starts_with("42704"));
    assert!(refused(&mut client, "SELECT set_config('sharded_server', 'nowhere', false)").starts_with("42704"));
    assert_eq!(client.value("SHOW sharded_server").unwrap(), "");
    let local = |client: &mut pg::Connection| client.value("SELECT count(*) FROM t").unwrap();
    // For a transaction.
    done(&mut client, "BEGIN");
    done(&mut client, "SET LOCAL sharded_server = 's1'");
    assert_eq!(local(&mut client), "1");
    done(&mut client, "COMMIT");
    assert_eq!(local(&mut client), "2");
    // What is rolled back was not set.
    done(&mut client, "BEGIN");
    done(&mut client, "SET sharded_server = 's1'");
    done(&mut client, "SAVEPOINT a");
    done(&mut client, "SET sharded_server = ''");
    assert_eq!(local(&mut client), "2");
    done(&mut client, "ROLLBACK TO a");
    assert_eq!(local(&mut client), "1");
    done(&mut client, "ROLLBACK");
    assert_eq!(local(&mut client), "2");
    // By a function, in a string of statements, and back.
    assert_eq!(client.value("SELECT set_config('sharded_server', 's0', false)").unwrap(), "s0");
    assert_eq!(local(&mut client), "1");
    done(&mut client, "RESET ALL");
    assert_eq!(rows(&mut client, "SET sharded_server = s1; SELECT count(*) FROM t").concat(), [Some("1".to_owned())]);
    done(&mut client, "DISCARD ALL");
    assert_eq!(local(&mut client), "2");

    let open = |server: &str| {
        let options = format!("-c sharded_server={server}");
        pg::Connection::open(fleet.ashlar.pg(), &[("user", "ashlar"), ("database", "ashlar"), ("options", &options)])
    };
    let mut named = open("s1").unwrap();
    assert_eq!(local(&mut named), "1");
    done(&mut named, "SET sharded_server = ''");
    assert_eq!(local(&mut named), "2");
    done(&mut named, "RESET sharded_server");
    assert_eq!(local(&mut named), "1");
    let Err(error) = open("nowhere") else { panic!("there is no such server") };
    assert!(error.to_string().contains("42704"), "{error}");

    // Who is a replica is not written to.
    let create = "FOREIGN DATA WRAPPER postgres OPTIONS (host '127.0.0.1', port '1', dbname 'postgres'";
    done(&mut client, &format!("CREATE SERVER r0 {create}, primary 's0')"));
    let error = refused(&mut client, "SET sharded_server = 'r0'");
    assert!(error.starts_with("22023") && error.contains("replica"), "{error}");
    // One that is gone is told of when it is needed.
    done(&mut client, &format!("CREATE SERVER x {create})"));
    done(&mut named, "SET sharded_server = 'x'");
    done(&mut client, "DROP SERVER x");
    assert!(refused(&mut named, "SELECT 1").starts_with("42704"));
}

#[test]
fn what_it_writes_commits_with_its_transaction() {
    let (fleet, mut client, keys) = filled();
    let name = |client: &mut pg::Connection, server: &str| {
        done(client, &format!("SET LOCAL sharded_server = '{server}'"));
    };
    // By a statement on the one, by a function on the other: nothing of either is seen before.
    for (end, expected) in [("ROLLBACK", "0"), ("COMMIT", "1")] {
        done(&mut client, "BEGIN");
        name(&mut client, "s0");
        done(&mut client, "INSERT INTO own VALUES (1, 'a')");
        name(&mut client, "s1");
        assert_eq!(client.value("SELECT note(1, 'a')").unwrap(), "1");
        assert_eq!((own(&fleet, 0), own(&fleet, 1)), ("0".to_owned(), "0".to_owned()));
        done(&mut client, end);
        let seen = || (own(&fleet, 0), own(&fleet, 1));
        assert_eq!(seen(), (expected.to_owned(), expected.to_owned()), "{end}");
    }
    // What the second refuses when it is to promise happens on none: a query counts as a write.
    done(&mut client, "BEGIN");
    name(&mut client, "s0");
    done(&mut client, "INSERT INTO own VALUES (2, 'b')");
    name(&mut client, "s1");
    assert_eq!(client.value("SELECT note(2, 'a')").unwrap(), "2");
    assert!(refused(&mut client, "COMMIT").starts_with("23505"));
    assert_eq!((own(&fleet, 0), own(&fleet, 1)), ("1".to_owned(), "1".to_owned()));
    // Beside what is routed, on the same connection.
    done(&mut client, "BEGIN");
    done(&mut client, &format!("UPDATE t SET v = 'routed' WHERE k = {}", keys[1]));
    name(&mut client, "s1");
    assert_eq!(client.value("SELECT v FROM t").unwrap(), "routed");
    done(&mut client, "UPDATE t SET v = v || ' and named'");
    name(&mut client, "");
    let sql = format!("SELECT v FROM t WHERE k = {}", keys[1]);
    assert_eq!(client.value(&sql).unwrap(), "routed and named");
    // What the engine reads of several shards sees it too.
    assert_eq!(client.value("SELECT count(*) FROM t a JOIN t b ON a.v = b.v || ''").unwrap(), "2");
    done(&mut client, "COMMIT");
    assert_eq!(client.value(&sql).unwrap(), "routed and named");
    fleet.ashlar.check_log();
}

#[test]
fn transactions_have_their_rules() {
    let (fleet, mut client, _) = filled();
    // A block that has failed, and a savepoint.
    done(&mut client, "BEGIN");
    done(&mut client, "SET LOCAL sharded_server = 's1'");
    done(&mut client, "INSERT INTO own VALUES (1, 'a')");
    done(&mut client, "SAVEPOINT a");
    assert!(refused(&mut client, "INSERT INTO own VALUES (1, 'b')").starts_with("23505"));
    assert!(refused(&mut client, "SELECT 1").starts_with("25P02"));
    done(&mut client, "ROLLBACK TO a");
    assert_eq!(client.value("SELECT count(*) FROM own").unwrap(), "1");
    done(&mut client, "COMMIT");
    assert_eq!(own(&fleet, 1), "1");
    // A string of statements is a transaction.
    let error = refused(&mut client, "SET sharded_server = s1; INSERT INTO own VALUES (2, 'b'); SELECT 1/0");
    assert!(error.starts_with("22012"), "{error}");
    assert_eq!(client.value("SHOW sharded_server").unwrap(), "");
    assert_eq!(own(&fleet, 1), "1");
    // Who only reads may ask, and the shard refuses what writes.
    for (setting, begin) in [("off", "BEGIN READ ONLY"), ("on", "BEGIN")] {
        done(&mut client, &format!("SET default_transaction_read_only = {setting}"));
        for sql in ["INSERT INTO own VALUES (3, 'c')", "SELECT note(3, 'c')", "SELECT v FROM own FOR UPDATE"] {
            done(&mut client, begin);
            done(&mut client, "SET LOCAL sharded_server = 's1'");
            assert_eq!(client.value("SELECT v FROM own").unwrap(), "a");
            let error = refused(&mut client, sql);
            assert!(error.starts_with("25006"), "{begin}: {sql}: {error}");
            done(&mut client, "ROLLBACK");
        }
    }
    done(&mut client, "SET sharded_server = 's1'");
    assert!(refused(&mut client, "SELECT note(3, 'c')").starts_with("25006"));
    assert_eq!(client.value("SELECT v FROM own").unwrap(), "a");
    done(&mut client, "RESET ALL");
    // Tables of this server do not commit together with a shard's.
    for (first, second) in [("'s1'", "''"), ("''", "'s1'")] {
        let of = |server: &str| if server == "''" { "INSERT INTO g VALUES (1, 'a')" } else { "SELECT note(4, 'd')" };
        done(&mut client, "BEGIN");
        done(&mut client, &format!("SET LOCAL sharded_server = {first}"));
        done(&mut client, of(first));
        done(&mut client, &format!("SET LOCAL sharded_server = {second}"));
        let error = refused(&mut client, of(second));
        assert!(error.starts_with("0A000"), "{first}: {error}");
        done(&mut client, "ROLLBACK");
    }
    // A second server would be seen as of another moment.
    done(&mut client, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    done(&mut client, "SET LOCAL sharded_server = 's0'");
    assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "1");
    done(&mut client, "SET LOCAL sharded_server = 's1'");
    assert!(refused(&mut client, "SELECT count(*) FROM t").starts_with("0A000"));
    done(&mut client, "ROLLBACK");
    assert_eq!(own(&fleet, 1), "1");
    assert_eq!(client.value("SELECT count(*) FROM g").unwrap(), "0");
    fleet.ashlar.check_log();
}

#[test]
fn what_is_prepared_goes_where_it_is_to_go_when_it_is_executed() {
    let (fleet, mut client, keys) = filled();
    let counted = |client: &mut pg::Connection, name: &str, parameters: &[&[u8]]| {
        run(client, name, parameters, Form::Text).unwrap().texts().concat().remove(0).unwrap()
    };
    let second = keys[1].to_string();
    for name in ["all", "one"] {
        let condition = if name == "all" { "" } else { " WHERE k = $1" };
        prepare(&mut client, name, &format!("SELECT count(*) FROM t{condition}")).unwrap();
    }
    for _ in 0..2 {
        for (server, all, one) in [("", "2", "1"), ("s0", "1", "0"), ("s1", "1", "1")] {
            done(&mut client, &format!("SET sharded_server = '{server}'"));
            assert_eq!(counted(&mut client, "all", &[]), all, "{server}");
            assert_eq!(counted(&mut client, "one", &[second.as_bytes()]), one, "{server}");
        }
    }
    // In a block, one behind the other, as drivers have them.
    done(&mut client, "BEGIN");
    for (server, one) in [("s0", "0"), ("s1", "1"), ("s0", "0")] {
        done(&mut client, &format!("SET LOCAL sharded_server = '{server}'"));
        for _ in 0..3 {
            assert_eq!(counted(&mut client, "one", &[second.as_bytes()]), one, "{server}");
        }
    }
    done(&mut client, "COMMIT");
    // With values that come back, and by SQL.
    let insert = "INSERT INTO own VALUES ($1, $2) RETURNING v";
    assert_eq!(bound(&mut client, insert, &["7", "g"]).unwrap(), (vec!["g".to_owned()], "INSERT 0 1".to_owned()));
    assert!(bound(&mut client, insert, &["7", "h"]).unwrap_err().starts_with("23505"));
    done(&mut client, "PREPARE v (int) AS SELECT v FROM own WHERE n = $1");
    assert_eq!(client.value("EXECUTE v (7)").unwrap(), "g");
    done(&mut client, "SET sharded_server = 's0'");
    assert_eq!(rows(&mut client, "EXECUTE v (7)").len(), 0);
    // What was for this server has another home there, and what was for that one has none here.
    done(&mut client, "RESET sharded_server");
    assert!(refused(&mut client, "EXECUTE v (7)").starts_with("42P01"));
    prepare(&mut client, "memory", "SELECT v FROM g").unwrap();
    done(&mut client, "SET sharded_server = 's0'");
    let error = run(&mut client, "memory", &[], Form::Text).unwrap_err();
    assert!(error.starts_with("42P01") || error.starts_with("0A000"), "{error}");
    fleet.ashlar.check_log();
}

#[test]
fn what_it_cannot_be_given_is_refused_and_the_way_is_told() {
    let (fleet, mut client, keys) = filled();
    done(&mut client, "PREPARE load AS SELECT count(*) FROM t");
    prepare(&mut client, "truncate", "TRUNCATE t").unwrap();
    done(&mut client, "SET sharded_server = 's1'");
    for sql in [
        "COPY t TO STDOUT",
        "COPY (SELECT 1) TO STDOUT",
        "COPY t FROM STDIN",
        "CREATE TABLE x (n int)",
        "CREATE TABLE x AS SELECT 1 AS n",
        "CREATE SERVER x FOREIGN DATA WRAPPER postgres OPTIONS (host 'h', dbname 'd')",
        "CREATE INDEX ON t (v)",
        "ALTER TABLE t ADD COLUMN w text",
        "DROP TABLE t",
        "TRUNCATE t",
        "VACUUM t",
        "ANALYZE",
        "LOCK TABLE t",
        "CALL p()",
        "DO 'BEGIN END'",
        "MERGE INTO t USING g ON g.k = t.k WHEN MATCHED THEN DELETE",
        "SELECT 1 AS n INTO x",
        "SELECT 1 AS n INTO x UNION SELECT 2",
        "SELECT k, set_config('search_path', 'x', false) FROM t",
        "EXPLAIN ANALYZE SELECT count(*) FROM t",
        "EXPLAIN ANALYZE EXECUTE load",
        "EXPLAIN CREATE TABLE x AS SELECT 1 AS n",
        "BEGIN; DECLARE c CURSOR FOR SELECT * FROM t",
    ] {
        let error = refused(&mut client, sql);
        assert!(error.starts_with("0A000") && error.contains("while sharded_server is set"), "{sql}: {error}");
        done(&mut client, "ROLLBACK");
    }
    let error = run(&mut client, "truncate", &[], Form::Text).unwrap_err();
    assert!(error.starts_with("0A000") && error.contains("TRUNCATE"), "{error}");
    // What is the session's own goes on.
    let commands = ["SHOW TimeZone", "SET application_name = 'x'", "LISTEN heard", "NOTIFY heard", "DEALLOCATE load"];
    commands.iter().for_each(|sql| done(&mut client, sql));
    assert_eq!(client.value("SELECT set_config('application_name', 'y', false)").unwrap(), "y");
    assert_eq!(client.value("SHOW application_name").unwrap(), "y");
    // A cursor that is open stays.
    done(&mut client, "RESET sharded_server");
    done(&mut client, "BEGIN");
    done(&mut client, "DECLARE c CURSOR FOR SELECT k FROM t ORDER BY k");
    done(&mut client, "SET LOCAL sharded_server = 's1'");
    assert_eq!(rows(&mut client, "FETCH ALL FROM c").len(), keys.len());
    done(&mut client, "COMMIT");
    assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "2");
    fleet.ashlar.check_log();
}

#[test]
fn it_is_told_where_a_statement_goes_and_what_that_costs() {
    let (fleet, mut client, _) = filled();
    let mut other = fleet.client();
    done(&mut client, "SET sharded_server = 's1'");
    let lines = rows(&mut client, "EXPLAIN (ROUTE) SELECT v FROM t WHERE k = 1").concat();
    let lines: Vec<String> = lines.into_iter().flatten().collect();
    assert_eq!(lines, ["Route: the server that sharded_server names", "  s1: SELECT v FROM t WHERE k = 1"]);
    done(&mut client, "PREPARE v (int) AS SELECT v FROM own WHERE n = $1");
    let lines = rows(&mut client, "EXPLAIN EXECUTE v (1)").concat();
    assert_eq!(lines[0].as_deref(), Some("Route: the server that sharded_server names"));
    let counted = |client: &mut pg::Connection| {
        let sql = "SELECT statements, errors, \"rows\" FROM ashlar.routes \
                   WHERE route = 'named server' AND tables = 's1'";
        rows(client, sql).concat().into_iter().flatten().collect::<Vec<String>>()
    };
    assert!(counted(&mut other).is_empty());
    done(&mut client, "INSERT INTO own VALUES (1, 'a'), (2, 'b')");
    for n in 1..=2 {
        done(&mut client, &format!("SELECT v FROM own WHERE n = {n}"));
    }
    assert_eq!(bound(&mut client, "SELECT v FROM own WHERE n = $1", &["1"]).unwrap().0, ["a"]);
    assert!(refused(&mut client, "INSERT INTO own VALUES (1, 'a')").starts_with("23505"));
    // Another session may ask before what the last one has cost is counted.
    assert!(wait_for(PATIENCE, || counted(&mut other) == ["5", "1", "5"]), "{:?}", counted(&mut other));
    fleet.ashlar.check_log();
}
