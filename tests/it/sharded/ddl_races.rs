//! Changes of tables beside each other: the second waits until the shards have made the first, and finds the tables as they are then.

use std::thread::JoinHandle;

use ashlar_tests::process::{PATIENCE, wait_for};

use super::*;

/// A table on two shards, with rows, and somebody on the first shard who holds up whatever changes it.
fn held_up() -> (Fleet, pg::Connection, pg::Connection) {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY) {}", fleet.by("k")));
    done(&mut client, "INSERT INTO t VALUES (1), (2), (3), (4)");
    let mut reader = fleet.shard(0);
    done(&mut reader, "BEGIN");
    done(&mut reader, "SELECT * FROM t");
    (fleet, client, reader)
}

/// A change beside this thread, which waits for whoever holds it up on the first shard.
fn waits(fleet: &Fleet, sql: &str) -> JoinHandle<Result<(), String>> {
    let (mut other, text) = (fleet.client(), sql.to_owned());
    let changing = std::thread::spawn(move || other.query(&text).map(drop).map_err(|error| format!("{error:#}")));
    let mut watcher = fleet.shard(0);
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    assert!(wait_for(PATIENCE, || watcher.value(waiting).unwrap() != "0"), "{sql}");
    changing
}

/// Statements that have to wait for a change that is under way.
fn wait_too(client: &mut pg::Connection, statements: &[&str]) {
    done(client, "SET statement_timeout = '300ms'");
    for sql in statements {
        let error = refused(client, sql);
        assert!(error.starts_with("57014"), "{sql}: {error}");
    }
    done(client, "RESET statement_timeout");
}

#[test]
fn no_table_takes_over_the_rule_of_one_that_is_being_dropped() {
    let beside = "CREATE TABLE b (k bigint PRIMARY KEY) PARTITION BY HASH (k) USING sharded WITH (colocate_with = 't')";
    for drop in ["DROP TABLE t", "DROP TABLE t, other"] {
        let (fleet, mut client, mut reader) = held_up();
        done(&mut client, &format!("CREATE TABLE other (k bigint PRIMARY KEY) {}", fleet.by("k")));
        let dropping = waits(&fleet, drop);
        wait_too(&mut client, &[beside]);
        done(&mut reader, "COMMIT");
        dropping.join().unwrap().unwrap();
        assert!(refused(&mut client, "SELECT * FROM t").starts_with("42P01"), "{drop}");
        refused(&mut client, beside);
        // Nothing is kept that names a table which is gone.
        let fleet = fleet.restart();
        let mut client = fleet.client();
        done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY) {}", fleet.by("k")));
        done(&mut client, beside);
        done(&mut client, "INSERT INTO b VALUES (1)");
        assert_eq!(client.value("SELECT count(*) FROM b").unwrap(), "1", "{drop}");
        fleet.ashlar.check_log();
    }
}

#[test]
fn a_table_that_is_being_renamed_is_dropped_or_made_afterwards() {
    let (fleet, mut client, mut reader) = held_up();
    let renaming = waits(&fleet, "ALTER TABLE t RENAME TO u");
    // By its new name it is there, and is no table of the shards yet.
    wait_too(&mut client, &["DROP TABLE u", "DROP TABLE t"]);
    let make = format!("CREATE TABLE u (k bigint PRIMARY KEY) {}", fleet.by("k"));
    assert!(refused(&mut client, &make).starts_with("42P07"));
    done(&mut reader, "COMMIT");
    renaming.join().unwrap().unwrap();
    assert!(refused(&mut client, "DROP TABLE t").starts_with("42P01"));
    let fleet = fleet.restart();
    let mut client = fleet.client();
    assert_eq!(client.value("SELECT count(*) FROM u").unwrap(), "4");
    done(&mut client, "DROP TABLE u");
    let left = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
    for shard in 0..2 {
        assert_eq!(fleet.shard(shard).value(left).unwrap(), "0");
    }
    done(&mut client, &make);
    fleet.ashlar.check_log();
}

#[test]
fn a_name_is_that_of_the_table_which_shards_are_making() {
    let fleet = Fleet::start(2);
    let (mut client, mut begun, mut holder) = (fleet.client(), fleet.client(), fleet.shard(0));
    let make = format!("CREATE TABLE t (k bigint PRIMARY KEY) {}", fleet.by("k"));
    done(&mut client, "CREATE TABLE u (i int)");
    // Begun before, and to be ended meanwhile.
    done(&mut begun, "BEGIN");
    done(&mut begun, "CREATE TABLE t (i int)");
    // A name that nobody else sees yet is waited for.
    done(&mut holder, "BEGIN");
    done(&mut holder, "CREATE TABLE t (other int)");
    let making = waits(&fleet, &make);
    for sql in [
        "CREATE TABLE t (i int)",
        "CREATE TABLE t AS SELECT 1 AS i",
        "CREATE TABLE v (i int CONSTRAINT t PRIMARY KEY)",
        "CREATE TABLE t_pkey (i int)",
        "CREATE INDEX t ON u (i)",
        "ALTER TABLE u RENAME TO t",
        make.as_str(),
    ] {
        let error = refused(&mut client, sql);
        assert!(error.starts_with("42P07"), "{sql}: {error}");
    }
    assert!(refused(&mut begun, "COMMIT").starts_with("42P07"));
    done(&mut holder, "ROLLBACK");
    making.join().unwrap().unwrap();
    done(&mut client, "INSERT INTO t VALUES (1), (2), (3), (4)");
    assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "4");
    done(&mut client, "DROP TABLE t");

    // Where shards do not make it the name is free again.
    done(&mut holder, "BEGIN");
    done(&mut holder, "CREATE TABLE t (other int)");
    let making = waits(&fleet, &make);
    assert!(refused(&mut client, "CREATE TABLE t (i int)").starts_with("42P07"));
    done(&mut holder, "COMMIT");
    making.join().unwrap().unwrap_err();
    done(&mut client, "CREATE TABLE t (i int)");
    done(&mut client, "INSERT INTO t VALUES (5)");
    assert_eq!(client.value("SELECT i FROM t").unwrap(), "5");
    let left = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
    assert_eq!([0, 1].map(|shard| fleet.shard(shard).value(left).unwrap()), ["1", "0"]);
    fleet.ashlar.check_log();
}

#[test]
fn a_name_that_a_table_in_memory_has_by_then_is_taken() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    // What is there is looked at before a name is taken, which waits for whoever has locked it.
    for shard in 0..2 {
        done(&mut fleet.shard(shard), "CREATE TABLE t (k bigint PRIMARY KEY)");
    }
    let mut holder = fleet.shard(0);
    done(&mut holder, "BEGIN");
    done(&mut holder, "LOCK TABLE t");
    let by = fleet.by("k").replace("servers", "attach = true, servers");
    let attaching = waits(&fleet, &format!("CREATE TABLE t (k bigint PRIMARY KEY) {by}"));
    done(&mut client, "CREATE TABLE t (i int)");
    done(&mut client, "INSERT INTO t VALUES (5)");
    done(&mut holder, "COMMIT");
    let error = attaching.join().unwrap().unwrap_err();
    assert!(error.starts_with("42P07"), "{error}");
    assert_eq!(client.value("SELECT i FROM t").unwrap(), "5");
    fleet.ashlar.check_log();
}
