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

/// A change beside this thread, which waits for the reader on the first shard.
fn waits(fleet: &Fleet, sql: &'static str) -> JoinHandle<Result<(), String>> {
    let mut other = fleet.client();
    let changing = std::thread::spawn(move || other.query(sql).map(drop).map_err(|error| format!("{error:#}")));
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
