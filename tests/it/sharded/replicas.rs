//! Replicas of shards: real standbys that are read, held back, lost and promoted.

use std::sync::atomic::{AtomicU64, Ordering};

use ashlar_tests::process::{PATIENCE, wait_for};

use super::bank::{Bank, WORTH};
use super::members::direct;
use super::relay::{Act, When};
use super::*;

const LINES: &str = "health_check_ms = 50\nreplica_lag_max_ms = 300\nfailures_max = 2\nconnect_timeout_ms = 20000";

/// A fleet whose first shard has a standby, known as `r0`.
struct Group {
    fleet: Fleet,
    standby: Postgres,
}

impl Group {
    fn start() -> Group {
        let fleet = Fleet::with(2, LINES);
        let mut client = fleet.client();
        done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
        let standby = standby_of(&fleet.shards[0], &mut client);
        let group = Group { fleet, standby };
        group.until("r0", "up", "standby");
        group
    }

    fn standby(&self) -> pg::Connection {
        pg::Connection::connect(self.standby.address()).unwrap()
    }

    /// Waits until a look has found a server so.
    fn until(&self, server: &str, state: &str, role: &str) {
        let mut client = self.fleet.client();
        let sql = format!("SELECT state || ' ' || coalesce(role, '') FROM ashlar.shards WHERE name = '{server}'");
        let wanted = format!("{state} {role}");
        assert!(wait_for(PATIENCE, || client.value(&sql).unwrap() == wanted), "{server}: {:?}", client.value(&sql));
    }

    /// Whether a statement of a client about a row is answered by the standby: one of its processes has run it last.
    fn is_read_there(&self, client: &mut pg::Connection, key: i64) -> bool {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let marker = format!("marker {} of {key}", NEXT.fetch_add(1, Ordering::Relaxed));
        // A standby that has just come to life may not have the row yet.
        let found = rows(client, &format!("SELECT '{marker}' FROM t WHERE k = {key}")).concat();
        assert!(found.iter().flatten().all(|found| *found == marker), "{found:?}");
        has_run(&mut self.standby(), &marker)
    }

    /// Has the standby log what it runs from now on.
    fn log_statements(&self) {
        let mut standby = self.standby();
        done(&mut standby, "ALTER SYSTEM SET log_statement = 'all'");
        done(&mut standby, "SELECT pg_reload_conf()");
        // Connections that are there take it soon after those that are new.
        assert!(wait_for(PATIENCE, || self.standby().value("SHOW log_statement").unwrap() == "all"));
    }

    /// How many snapshots the standby has taken for others to see, as far as it has logged that: before it answered.
    fn snapshots_taken(&self) -> usize {
        self.standby.log().matches("SELECT pg_catalog.pg_export_snapshot()").count()
    }
}

/// A standby of a server, which is made known as `r0`, a replica of `s0`.
fn standby_of(primary: &Postgres, client: &mut pg::Connection) -> Postgres {
    let standby = primary.start_standby().unwrap();
    let (host, port) = (standby.address().ip(), standby.address().port());
    done(
        client,
        &format!(
            "CREATE SERVER r0 FOREIGN DATA WRAPPER postgres \
             OPTIONS (host '{host}', port '{port}', dbname 'postgres', primary 's0')"
        ),
    );
    standby
}

/// Whether a process of a server has last run a statement with this text in it.
fn has_run(server: &mut pg::Connection, text: &str) -> bool {
    let sql =
        format!("SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND strpos(query, '{text}') > 0");
    server.value(&sql).unwrap() != "0"
}

#[test]
fn replicas_are_read_outside_of_transactions_that_write() {
    let group = Group::start();
    let fleet = &group.fleet;
    let keys = fleet.keys("t");
    let mut client = fleet.client();
    for key in &keys {
        done(&mut client, &format!("INSERT INTO t VALUES ({key}, 'written')"));
    }
    let key = keys[0];
    assert!(!group.is_read_there(&mut client, key), "nobody asked for it");
    done(&mut client, "SET read_from = 'replica'");
    assert!(wait_for(PATIENCE, || group.is_read_there(&mut client, key)));
    // Writes, and transactions that may write, are the primary's; those that only read are not.
    done(&mut client, &format!("UPDATE t SET v = 'again' WHERE k = {key}"));
    done(&mut client, "BEGIN");
    assert!(!group.is_read_there(&mut client, key));
    assert_eq!(client.value(&format!("SELECT v FROM t WHERE k = {key}")).unwrap(), "again");
    done(&mut client, "COMMIT");
    // A replica that is behind for a moment, on a busy machine, is passed over for that long.
    assert!(wait_for(PATIENCE, || {
        done(&mut client, "BEGIN READ ONLY");
        let is_there = group.is_read_there(&mut client, key);
        done(&mut client, "COMMIT");
        is_there
    }));
    // Rows of several shards, put together and by the engine; the shard without a replica answers itself.
    assert!(wait_for(PATIENCE, || {
        done(&mut client, "SELECT k, 'put together' FROM t ORDER BY k");
        // A look may have been the next that the same processes have run.
        has_run(&mut group.standby(), "put together") && has_run(&mut fleet.shard(1), "put together")
    }));
    assert!(wait_for(PATIENCE, || {
        assert_eq!(client.value("SELECT count(DISTINCT v || k) FROM t").unwrap(), "2");
        has_run(&mut group.standby(), "FROM public.t")
    }));
    // Cursors too, whose snapshot is one of the replica's, also where it is read twice. What has taken it goes on with a COMMIT when the rows
    // have been read, here or not, so that only the log knows.
    group.log_statements();
    for query in ["SELECT count(*) FROM t", "SELECT count(*) FROM t a JOIN t b ON b.v = a.v || ''"] {
        assert!(wait_for(PATIENCE, || {
            let before = group.snapshots_taken();
            done(&mut client, "BEGIN READ ONLY");
            done(&mut client, &format!("DECLARE c CURSOR FOR {query}"));
            assert_eq!(client.value("FETCH ALL FROM c").unwrap(), "2", "{query}");
            done(&mut client, "COMMIT");
            group.snapshots_taken() > before
        }));
    }
    // One that is held back is not read any more: not for longer than it may be behind.
    done(&mut group.standby(), "SELECT pg_wal_replay_pause()");
    done(&mut client, &format!("UPDATE t SET v = 'new' WHERE k = {key}"));
    // Nor is one by what writes, which goes by what is there.
    done(&mut client, "CREATE TABLE g (k bigint PRIMARY KEY, v text)");
    done(&mut client, "INSERT INTO g SELECT k, v FROM t");
    assert_eq!(client.value(&format!("SELECT v FROM g WHERE k = {key}")).unwrap(), "new");
    assert!(wait_for(PATIENCE, || !group.is_read_there(&mut client, key)));
    assert_eq!(client.value(&format!("SELECT v FROM t WHERE k = {key}")).unwrap(), "new");
    done(&mut group.standby(), "SELECT pg_wal_replay_resume()");
    assert!(wait_for(PATIENCE, || group.is_read_there(&mut client, key)));
    assert_eq!(client.value(&format!("SELECT v FROM t WHERE k = {key}")).unwrap(), "new");
    // What is no place for a table, and what replicas cannot be.
    for (sql, state) in [
        ("CREATE TABLE u (k int PRIMARY KEY) PARTITION BY HASH (k) USING sharded WITH (servers = 'r0')", "42704"),
        ("CREATE SERVER r1 FOREIGN DATA WRAPPER postgres OPTIONS (host 'h', dbname 'd', primary 'r0')", "22023"),
        ("CREATE SERVER r1 FOREIGN DATA WRAPPER postgres OPTIONS (host 'h', dbname 'd', primary 'none')", "42704"),
        ("CREATE SERVER r1 FOREIGN DATA WRAPPER postgres OPTIONS (host 'h', dbname 'd', primary 'r1')", "22023"),
        ("ALTER SERVER r0 OPTIONS (SET primary 's1')", "22023"),
    ] {
        let error = refused(&mut client, sql);
        assert!(error.contains(state), "{sql}: {error}");
    }
    fleet.ashlar.check_log();
}

#[test]
fn a_replica_that_is_lost_is_passed_over_and_one_that_is_promoted_takes_writes() {
    let mut group = Group::start();
    group.fleet.ashlar.expect_log(&["prepared transaction"]);
    let keys = group.fleet.keys("t");
    let key = keys[0];
    let mut client = group.fleet.client();
    done(&mut client, &format!("INSERT INTO t VALUES ({key}, 'before')"));
    done(&mut client, "SET read_from = 'replica'");
    let read = format!("SELECT v FROM t WHERE k = {key}");
    assert!(wait_for(PATIENCE, || group.is_read_there(&mut client, key)));
    group.standby.signal("QUIT").unwrap();
    group.standby.wait().unwrap();
    group.until("r0", "down", "standby");
    assert_eq!(client.value(&read).unwrap(), "before");
    group.standby.start_again().unwrap();
    group.until("r0", "up", "standby");
    assert!(wait_for(PATIENCE, || group.is_read_there(&mut client, key)));

    // The primary is lost: what writes is refused at once, what reads is answered by the replica.
    // It ends when its replica has all that it has written, which nobody can say afterwards.
    let streams = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'";
    assert!(wait_for(PATIENCE, || group.fleet.shard(0).value(streams).unwrap() == "1"));
    group.fleet.shards[0].signal("INT").unwrap();
    group.fleet.shards[0].wait().unwrap();
    let write = format!("UPDATE t SET v = 'after' WHERE k = {key}");
    let mut writer = group.fleet.client();
    // It is asked again now and then.
    let mut error = String::new();
    let is_refused = wait_for(PATIENCE, || {
        error = refused(&mut writer, &write);
        error.contains("57P03")
    });
    assert!(is_refused && error.contains("shard s0"), "{error}");
    assert!(wait_for(PATIENCE, || client.value(&read).is_ok_and(|v| v == "before")), "{:?}", client.value(&read));
    // The other shard is as it was.
    done(&mut writer, &format!("INSERT INTO t VALUES ({}, 'there')", keys[1]));

    group.standby.promote().unwrap();
    group.until("r0", "up", "primary");
    let acting = "SELECT is_acting FROM ashlar.shards WHERE name = 'r0'";
    assert!(wait_for(PATIENCE, || writer.value(acting).unwrap() == "t"));
    done(&mut writer, &write);
    assert_eq!(group.standby().value(&format!("SELECT v FROM t WHERE k = {key}")).unwrap(), "after");
    assert_eq!(writer.value("SELECT count(*) FROM t").unwrap(), "2");
    done(&mut writer, "UPDATE t SET v = 'both'");
    assert_eq!(writer.value("SELECT count(*) FROM t WHERE v = 'both'").unwrap(), "2");
    // The old primary comes back and knows of nothing: nothing is written there.
    group.fleet.shards[0].start_again().unwrap();
    group.until("s0", "up", "primary");
    done(&mut writer, &format!("UPDATE t SET v = 'new' WHERE k = {key}"));
    assert_eq!(group.standby().value(&format!("SELECT v FROM t WHERE k = {key}")).unwrap(), "new");
    assert_eq!(group.fleet.shard(0).value(&format!("SELECT v FROM t WHERE k = {key}")).unwrap(), "before");
    // Nor by a server that has only just started.
    let Group { fleet, standby } = group;
    let fleet = fleet.restart();
    let mut writer = fleet.client();
    assert!(wait_for(PATIENCE, || writer.value(acting).unwrap() == "t"));
    done(&mut writer, &format!("UPDATE t SET v = 'newer' WHERE k = {key}"));
    let mut standby = pg::Connection::connect(standby.address()).unwrap();
    assert_eq!(standby.value(&format!("SELECT v FROM t WHERE k = {key}")).unwrap(), "newer");
    fleet.ashlar.check_log();
}

/// What is prepared on a server.
const PREPARED: &str = "SELECT count(*) FROM pg_prepared_xacts";

/// Two shards with a row each, the first of which has a standby, known as `r0`.
fn bank_with_standby() -> (Bank, Postgres) {
    let shards = (0..2).map(|_| Postgres::start().unwrap()).collect();
    let bank = Bank::with(shards, LINES);
    let mut client = bank.member.ashlar.connect();
    let standby = standby_of(&bank.shards[0], &mut client);
    let role = "SELECT role FROM ashlar.shards WHERE name = 'r0'";
    assert!(wait_for(PATIENCE, || client.value(role).unwrap() == "standby"));
    (bank, standby)
}

/// The primary is lost when the standby has all that it has written, and the standby takes its place once `meanwhile` is done.
fn fail_over(bank: &mut Bank, standby: &Postgres, meanwhile: impl FnOnce(&Bank)) {
    let written = direct(&bank.shards[0]).value("SELECT pg_current_wal_flush_lsn()").unwrap();
    let has_all = format!("SELECT pg_last_wal_replay_lsn() >= '{written}'");
    assert!(wait_for(PATIENCE, || direct(standby).value(&has_all).unwrap() == "t"));
    bank.shards[0].kill().unwrap();
    meanwhile(bank);
    standby.promote().unwrap();
}

/// Waits until the promoted standby and the other shard have nothing prepared any more; then they are worth this, and Ashlar sees both.
fn is_finished(bank: &Bank, standby: &Postgres, worth: [i64; 2]) {
    for (server, worth) in [standby, &bank.shards[1]].into_iter().zip(worth) {
        assert!(wait_for(PATIENCE, || direct(server).value(PREPARED).unwrap() == "0"));
        assert_eq!(direct(server).value("SELECT v FROM bank").unwrap(), worth.to_string());
    }
    let mut client = bank.member.ashlar.connect();
    let sum = (2 * WORTH).to_string();
    assert!(wait_for(PATIENCE, || client.value("SELECT sum(v) FROM bank").is_ok_and(|found| found == sum)));
    assert!(wait_for(PATIENCE, || client.query("SELECT gid FROM ashlar.in_doubt").unwrap().is_empty()));
}

#[test]
fn what_was_prepared_before_a_promotion_is_finished_on_the_promoted_replica() {
    let (mut bank, standby) = bank_with_standby();
    let before = bank.worth();
    // Who is written to first decides, and the others promise: the shard with the standby is written to last.
    let keys = [bank.keys[1], bank.keys[0]];
    bank.member.wire.set("COMMIT PREPARED", 0, When::Before, Act::Hold);
    let mut client = bank.member.ashlar.connect();
    let transfer = std::thread::spawn(move || Bank::transfer(&mut client, &keys));
    bank.member.wire.wait();
    assert_eq!(direct(&bank.shards[0]).value(PREPARED).unwrap(), "1");
    fail_over(&mut bank, &standby, |bank| {
        bank.member.wire.release();
        // It is decided: its client is told that it is committed, and it is still to be done.
        transfer.join().unwrap().unwrap();
    });
    is_finished(&bank, &standby, [before[0] + 1, before[1] - 1]);
}

#[test]
fn what_was_decided_before_a_promotion_is_asked_of_the_promoted_replica() {
    let (mut bank, standby) = bank_with_standby();
    let before = bank.worth();
    // Nobody knows of the decision but the server where it was made.
    bank.member.wire.set("COMMIT PREPARED", 0, When::Before, Act::Kill);
    bank.transfer_beside().join().unwrap().unwrap_err();
    bank.member.wire.wait();
    bank.member.ashlar.wait().unwrap();
    assert_eq!(direct(&bank.shards[1]).value(PREPARED).unwrap(), "1");
    fail_over(&mut bank, &standby, |_| ());
    bank.member.restart();
    is_finished(&bank, &standby, [before[0] - 1, before[1] + 1]);
}

#[test]
fn a_server_that_does_not_answer_costs_its_statements_a_timeout_only_a_few_times() {
    let mut fleet = Fleet::with(2, LINES);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    let keys = fleet.keys("t");
    fleet.shards[0].signal("QUIT").unwrap();
    fleet.shards[0].wait().unwrap();
    let sql = format!("SELECT v FROM t WHERE k = {}", keys[0]);
    assert!(wait_for(PATIENCE, || refused(&mut client, &sql).contains("57P03")));
    let state = "SELECT state FROM ashlar.shards WHERE name = 's0'";
    assert_eq!(client.value(state).unwrap(), "down");
    // It is found again by itself, without a statement that tries.
    fleet.shards[0].start_again().unwrap();
    assert!(wait_for(PATIENCE, || client.value(state).unwrap() == "up"));
    assert!(rows(&mut client, &sql).is_empty());
    fleet.ashlar.check_log();
}
