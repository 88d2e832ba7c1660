//! Pools of connections: what is told of them, and sessions that keep the connections that they have had.

use std::thread;

use ashlar_tests::process::{PATIENCE, wait_for};

use super::members::Member;
use super::relay::{Act, When};
use super::*;
use crate::http::{get, series};

/// One thread of doors: half of the connections are for queries alone.
fn fleet(connections: usize, lines: &str) -> (Fleet, pg::Connection) {
    let fleet = Fleet::with(1, &format!("connections_per_server_max = {connections}\n{lines}\n[server]\ncores = 1"));
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    (fleet, client)
}

/// What `ashlar.pools` says of the thread of doors.
fn told(client: &mut pg::Connection, columns: &str) -> String {
    let sql = format!("SELECT concat_ws(' ', {columns}) FROM ashlar.pools WHERE pool = 'ashlar-door-0'");
    client.value(&sql).unwrap()
}

/// Waits until it says this: a connection is given back, and closed, behind the answer to the statement that had it.
fn tells(client: &mut pg::Connection, columns: &str, expected: &str) {
    assert!(wait_for(PATIENCE, || told(client, columns) == expected), "{columns}: {}", told(client, columns));
}

#[test]
fn who_waits_for_a_connection_is_told() {
    let (fleet, mut client) = fleet(2, "connection_wait_max_ms = 600000\nconnections_waiting_max = 1");
    let mut watcher = fleet.client();
    done(&mut client, "BEGIN");
    done(&mut client, "INSERT INTO t VALUES (1, 'a')");
    let now = "connections_max, idle, in_use, waiting, oldest_wait_ms IS NULL";
    assert_eq!(told(&mut watcher, now), "1 0 1 0 t");
    let first = waits(fleet.client());
    tells(&mut watcher, now, "1 0 1 1 f");
    // There is room for one in the line.
    let error = refused(&mut fleet.client(), "SELECT * FROM t WHERE k = 2");
    assert!(error.contains("53300") && error.contains("too many"), "{error}");
    done(&mut client, "COMMIT");
    assert_eq!(first.join().unwrap().unwrap(), "0");
    tells(&mut watcher, now, "1 1 0 0 t");
    assert_eq!(told(&mut watcher, "waits, timeouts, refused"), "1 0 1");
    // Each connection by itself is a process of its server.
    let each = "SELECT pid, login, state FROM ashlar.backends WHERE server = 's0' AND pool = 'ashlar-door-0'";
    let found = rows(&mut watcher, each).concat();
    assert_eq!(found[1..], [Some("postgres".to_owned()), Some("idle".to_owned())]);
    let there = format!("SELECT usename FROM pg_stat_activity WHERE pid = {}", found[0].as_ref().unwrap());
    assert_eq!(fleet.shard(0).value(&there).unwrap(), "postgres");
    done(&mut client, "BEGIN");
    done(&mut client, "INSERT INTO t VALUES (3, 'a')");
    assert_eq!(rows(&mut watcher, each).concat()[2], Some("in use".to_owned()));
    done(&mut client, "ROLLBACK");
}

/// A statement beside this thread that needs a connection.
fn waits(mut other: pg::Connection) -> thread::JoinHandle<Result<String, String>> {
    thread::spawn(move || {
        let found = other.value("SELECT count(*) FROM t WHERE k = 2");
        found.map_err(|error| format!("{error:#}"))
    })
}

#[test]
fn who_waits_too_long_for_a_connection_is_refused() {
    let (fleet, mut client) = fleet(2, "connection_wait_max_ms = 500");
    let mut watcher = fleet.client();
    done(&mut client, "BEGIN");
    done(&mut client, "INSERT INTO t VALUES (2, 'a')");
    let late = waits(fleet.client()).join().unwrap().unwrap_err();
    assert!(late.contains("53300"), "{late}");
    assert_eq!(told(&mut watcher, "waits, timeouts, refused, waited_ms >= 500, oldest_wait_ms IS NULL"), "1 1 0 t t");
    done(&mut client, "COMMIT");
    // It was lent while the other one waited.
    tells(&mut watcher, "used_ms >= 500", "t");
}

#[test]
fn how_long_a_session_uses_what_it_keeps_is_told_after_each_statement() {
    let (fleet, mut watcher) = fleet(2, "pool_mode = \"session\"");
    let mut client = fleet.client();
    done(&mut client, "INSERT INTO t VALUES (1, 'a')");
    let [before, lent]: [u64; 2] = ["used_ms", "lent"].map(|column| told(&mut watcher, column).parse().unwrap());
    assert_eq!(rows(&mut client, "SELECT k, pg_sleep(0.2) FROM t WHERE k = 1").len(), 1);
    tells(&mut watcher, &format!("used_ms >= {}, lent = {}", before + 200, lent + 1), "t t");
}

/// Clients by the thread that has their connections, so many of each of two threads.
fn by_thread(fleet: &Fleet, watcher: &mut pg::Connection, count: usize) -> [Vec<pg::Connection>; 2] {
    let mut found = [Vec::new(), Vec::new()];
    while found.iter().any(|clients| clients.len() < count) {
        // A connection is given back behind the answer to COMMIT.
        let in_use = "SELECT count(*) FROM ashlar.pools WHERE pool LIKE 'ashlar-door-%' AND in_use > 0";
        assert!(wait_for(PATIENCE, || watcher.value(in_use).unwrap() == "0"));
        let mut client = fleet.client();
        done(&mut client, "BEGIN");
        done(&mut client, "SELECT * FROM t WHERE k = 1");
        let pool = "SELECT pool FROM ashlar.pools WHERE pool LIKE 'ashlar-door-%' AND in_use > 0";
        let pool = watcher.value(pool).unwrap();
        done(&mut client, "COMMIT");
        found[usize::from(pool == "ashlar-door-1")].push(client);
    }
    found
}

#[test]
fn a_thread_without_connections_has_those_that_another_one_does_not_need() {
    // Two for two threads, and one for queries.
    let lines = "connections_per_server_max = 3\nconnection_wait_max_ms = 600000\n[server]\ncores = 2";
    let fleet = Fleet::with(1, lines);
    let mut watcher = fleet.client();
    done(&mut watcher, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    let [mut here, mut there] = by_thread(&fleet, &mut watcher, 2);
    let sum = |watcher: &mut pg::Connection, columns: &str| {
        let sql = format!("SELECT concat_ws(' ', {columns}) FROM ashlar.pools WHERE pool LIKE 'ashlar-door-%'");
        watcher.value(&sql).unwrap()
    };
    // One after the other, and at once: the second thread's connection is the first one's now.
    for (key, client) in here.iter_mut().take(2).enumerate() {
        done(client, "BEGIN");
        done(client, &format!("INSERT INTO t VALUES ({key}, 'a')"));
    }
    assert_eq!(sum(&mut watcher, "sum(in_use), max(in_use), sum(timeouts)"), "2 2 0");
    assert!(sum(&mut watcher, "sum(taken)").parse::<i64>().unwrap() > 0);
    assert_eq!(watcher.value("SELECT count(*) <= 3 FROM ashlar.backends").unwrap(), "t");
    // The thread that has none waits for the next that is free.
    let mut late = there.pop().unwrap();
    let waits = thread::spawn(move || {
        let found = late.value("SELECT count(*) FROM t WHERE k = 0");
        found.map_err(|error| format!("{error:#}"))
    });
    assert!(wait_for(PATIENCE, || sum(&mut watcher, "sum(waiting)") == "1"));
    done(&mut here[0], "COMMIT");
    assert_eq!(waits.join().unwrap().unwrap(), "1");
    let all = "sum(in_use), max(in_use), sum(waiting), sum(timeouts)";
    assert!(wait_for(PATIENCE, || sum(&mut watcher, all) == "1 1 0 0"), "{}", sum(&mut watcher, all));
    done(&mut here[1], "COMMIT");
    // What transactions of threads hold is not what their queries need.
    done(&mut watcher, "CREATE TABLE g (k bigint PRIMARY KEY)");
    done(&mut watcher, "INSERT INTO g VALUES (0), (1)");
    done(&mut here[0], "BEGIN");
    done(&mut here[0], "INSERT INTO t VALUES (10, 'a')");
    done(&mut there[0], "BEGIN");
    done(&mut there[0], "INSERT INTO t VALUES (11, 'a')");
    assert_eq!(sum(&mut watcher, "sum(in_use)"), "2");
    assert_eq!(watcher.value("SELECT count(*) FROM t JOIN g USING (k)").unwrap(), "2");
    fleet.ashlar.check_log();
}

/// Every row that is written leaves something behind on the connection that has written it, in each of the ways that
/// PostgreSQL has for that, and says what it has found there.
const TRIGGER: &str = "
    CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        CREATE TEMP TABLE IF NOT EXISTS seen (k bigint);
        INSERT INTO seen VALUES (NEW.k);
        NEW.v := (SELECT count(*) FROM seen) || ' ' || coalesce(nullif(current_setting('app.last', true), ''), '-');
        PERFORM set_config('app.last', NEW.k::text, false), pg_advisory_lock(NEW.k);
        RETURN NEW;
    END $$;
    CREATE TRIGGER note BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION note()";

const LOCKED: &str = "SELECT count(*) || ' ' || count(DISTINCT pid) FROM pg_locks WHERE locktype = 'advisory'";

fn insert(client: &mut pg::Connection, key: i64) -> String {
    client
        .value(&format!("INSERT INTO t VALUES ({key}) RETURNING v"))
        .unwrap_or_else(|error| panic!("{key}: {error:#}"))
}

#[test]
fn a_session_keeps_what_a_shard_has_for_it() {
    let (fleet, mut plain) = fleet(8, "pool_mode = 'session'".replace('\'', "\"").as_str());
    let mut shard = fleet.shard(0);
    done(&mut shard, "SET client_min_messages = warning");
    done(&mut shard, TRIGGER);
    assert_eq!(plain.value("SHOW sharded_pool_mode").unwrap(), "session");
    let (mut a, mut b) = (fleet.client(), fleet.client());
    assert_eq!(insert(&mut a, 1), "1 -");
    assert_eq!(insert(&mut b, 2), "1 -");
    assert_eq!(insert(&mut a, 3), "2 1");
    // What is rolled back, and what the client does not wait for, is on the same connection.
    done(&mut b, "BEGIN");
    assert_eq!(insert(&mut b, 4), "2 2");
    done(&mut b, "ROLLBACK");
    assert_eq!(insert(&mut b, 5), "2 2");
    done(&mut a, "BEGIN");
    assert_eq!(insert(&mut a, 6), "3 3");
    done(&mut a, "COMMIT");
    assert_eq!(a.value("SELECT v FROM t WHERE k = 6").unwrap(), "3 3");
    assert_eq!(shard.value(LOCKED).unwrap(), "6 2");
    let state = "SELECT string_agg(state, ' ') FROM ashlar.backends WHERE pool LIKE 'ashlar-door%'";
    assert!(wait_for(PATIENCE, || plain.value(state).unwrap() == "kept kept"), "{}", plain.value(state).unwrap());
    // DISCARD ALL gives it back as new; whoever is next finds nothing of it, and it is the same connection.
    let made = told(&mut plain, "made");
    done(&mut a, "DISCARD ALL");
    assert!(wait_for(PATIENCE, || shard.value(LOCKED).unwrap() == "3 1"));
    assert!(wait_for(PATIENCE, || told(&mut plain, "idle") == "1"));
    assert_eq!(insert(&mut a, 7), "1 -");
    // So does the end of the session, and SET.
    drop(b);
    assert!(wait_for(PATIENCE, || shard.value(LOCKED).unwrap() == "1 1"));
    done(&mut a, "SET sharded_pool_mode = 'transaction'");
    assert!(wait_for(PATIENCE, || shard.value(LOCKED).unwrap() == "0 0"));
    assert!(wait_for(PATIENCE, || told(&mut plain, "idle") == "2"));
    done(&mut a, "SET sharded_pool_mode = 'session'");
    assert_eq!(insert(&mut a, 8), "1 -");
    assert_eq!(told(&mut plain, "made"), made);
    // A client of another make.
    let mut psql = psql(&fleet.ashlar);
    for key in 20..23 {
        psql.args(["-c", &format!("INSERT INTO t VALUES ({key}) RETURNING v")]);
    }
    let output = psql.output().unwrap();
    let (said, complaints) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(said, "1 -\n2 20\n3 21\n", "{complaints}");
    // A connection that is lost is not replaced without a word.
    let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory'";
    assert!(wait_for(PATIENCE, || shard.value(LOCKED).unwrap() == "1 1"));
    assert_eq!(shard.value(kill).unwrap(), "1");
    assert!(wait_for(PATIENCE, || shard.value(LOCKED).unwrap() == "0 0"));
    let error = refused(&mut a, "INSERT INTO t VALUES (9)");
    assert!(error.contains("08006") && error.contains("s0"), "{error}");
    assert_eq!(insert(&mut a, 9), "1 -");
    fleet.ashlar.check_log();
}

#[test]
fn sessions_that_keep_connections_are_bounded_by_them() {
    let (fleet, mut plain) = fleet(4, "connection_wait_max_ms = 300");
    let sql = "SELECT count(*) FROM t WHERE k = 1";
    // In the mode that is the default connections are for all.
    let mut clients: Vec<pg::Connection> = (0..6).map(|_| fleet.client()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.value(sql).unwrap(), "0"));
    assert_eq!(plain.value("SHOW sharded_pool_mode").unwrap(), "transaction");
    for client in &mut clients[..2] {
        done(client, "SET sharded_pool_mode = session");
        assert_eq!(client.value(sql).unwrap(), "0");
    }
    let error = refused(&mut clients[2], sql);
    assert!(error.contains("53300") && error.contains("s0"), "{error}");
    assert_eq!(clients[1].value(sql).unwrap(), "0");
    clients.swap_remove(0);
    assert!(wait_for(PATIENCE, || clients[2].value(sql).is_ok_and(|count| count == "0")));
    assert!(refused(&mut plain, "SET sharded_pool_mode = 'statement'").contains("22023"));
}

#[test]
fn a_session_s_connections_commit_as_one() {
    let fleet = Fleet::with(2, "pool_mode = \"session\"");
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    let keys = fleet.keys("t");
    let pids = "SELECT string_agg(pid::text, ' ' ORDER BY server) FROM ashlar.backends WHERE state = 'kept'";
    for (key, server) in keys.iter().zip(["s0", "s1"]) {
        done(&mut client, &format!("INSERT INTO t VALUES ({key}, '{server}')"));
    }
    let mut watcher = fleet.client();
    let mut before = String::new();
    let are_kept = wait_for(PATIENCE, || {
        before = watcher.value(pids).unwrap();
        before.split(' ').count() == 2
    });
    assert!(are_kept, "{before}");
    done(&mut client, "UPDATE t SET v = 'both'");
    done(&mut client, "BEGIN");
    done(&mut client, "UPDATE t SET v = 'neither'");
    done(&mut client, "ROLLBACK");
    assert_eq!(rows(&mut client, "SELECT v FROM t ORDER BY k").len(), 2);
    assert_eq!(client.value("SELECT count(*) FROM t WHERE v = 'both'").unwrap(), "2");
    assert!(
        wait_for(PATIENCE, || watcher.value(pids).unwrap() == before),
        "{before}: {}",
        watcher.value(pids).unwrap()
    );
    fleet.ashlar.check_log();
}

#[test]
fn connections_that_sessions_have_lost_say_nothing_of_a_server_that_is_there() {
    // Looks are rare, of either kind: what statements have noted stays, and nobody else fails to connect while the server is down.
    let lines = "pool_mode = \"session\"\nfailures_max = 2\nhealth_check_ms = 600000\nrecover_period_ms = 3600000";
    let (mut fleet, _client) = fleet(16, lines);
    let mut clients: Vec<pg::Connection> = (0..4).map(|_| fleet.client()).collect();
    for (key, client) in clients.iter_mut().enumerate() {
        done(client, &format!("INSERT INTO t VALUES ({key}, 'a')"));
    }
    fleet.shards[0].signal("QUIT").unwrap();
    fleet.shards[0].wait().unwrap();
    fleet.shards[0].start_again().unwrap();
    // Each is told of its own loss, and has a new one afterwards.
    for client in &mut clients {
        let error = refused(client, "SELECT count(*) FROM t WHERE k = 1");
        assert!(error.contains("08006"), "{error}");
    }
    for client in &mut clients {
        assert_eq!(client.value("SELECT count(*) FROM t WHERE k = 1").unwrap(), "1");
    }
}

#[test]
fn a_session_hears_of_what_is_lost_with_a_statement_that_is_stopped_before_it_begins() {
    let shards = vec![Postgres::start().unwrap()];
    let member = Member::with(&shards, "pool_mode = \"session\"");
    let mut client = member.ashlar.connect();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", member.by("k")));
    done(&mut client, "INSERT INTO t VALUES (1, 'a')");
    // Its connection is told a setting first, and has not said that it has it.
    done(&mut client, "SET application_name = 'another'");
    member.wire.set("'another'", 0, When::Before, Act::Hold);
    let key = client.key.clone();
    let stopped = thread::spawn(move || {
        let error = refused(&mut client, "SELECT v FROM t WHERE k = 1");
        (client, error)
    });
    member.wire.wait();
    pg::cancel(member.ashlar.pg(), &key).unwrap();
    let (mut client, error) = stopped.join().unwrap();
    member.wire.release();
    assert!(error.contains("57014"), "{error}");
    let error = refused(&mut client, "SELECT v FROM t WHERE k = 1");
    assert!(error.contains("08006") && error.contains("the session's connection to shard \"s0\" was lost"), "{error}");
    assert_eq!(client.value("SELECT v FROM t WHERE k = 1").unwrap(), "a");
    member.ashlar.check_log();
}

/// The processes of all connections that Ashlar has.
pub(super) fn pids(client: &mut pg::Connection) -> Vec<String> {
    rows(client, "SELECT pid FROM ashlar.backends").concat().into_iter().flatten().collect()
}

/// Ends processes of a shard from outside, and waits until they are gone.
pub(super) fn kill(fleet: &Fleet, pids: &[String]) {
    let (mut shard, pids) = (fleet.shard(0), pids.join(", "));
    done(&mut shard, &format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid IN ({pids})"));
    let left = format!("SELECT count(*) FROM pg_stat_activity WHERE pid IN ({pids})");
    assert!(wait_for(PATIENCE, || shard.value(&left).unwrap() == "0"));
}

/// So many connections at once, which are idle then.
fn use_at_once(fleet: &Fleet, count: usize) -> Vec<pg::Connection> {
    let mut clients: Vec<pg::Connection> = (0..count).map(|_| fleet.client()).collect();
    for (key, client) in clients.iter_mut().enumerate() {
        done(client, "BEGIN");
        done(client, &format!("INSERT INTO t VALUES ({key}, 'a')"));
    }
    clients.iter_mut().for_each(|client| done(client, "COMMIT"));
    clients
}

#[test]
fn connections_that_nobody_needs_are_closed_after_a_time() {
    let (fleet, mut client) = fleet(8, "connection_idle_max_ms = 200");
    let mut holder = fleet.client();
    done(&mut holder, "BEGIN");
    done(&mut holder, "INSERT INTO t VALUES (1, 'a')");
    done(&mut client, "INSERT INTO t VALUES (2, 'a')");
    assert_eq!(told(&mut client, "made"), "2");
    assert!(wait_for(PATIENCE, || told(&mut client, "idle, in_use") == "0 1"));
    done(&mut holder, "COMMIT");
    assert!(wait_for(PATIENCE, || told(&mut client, "idle, in_use") == "0 0"));
    let there = "SELECT count(*) FROM ashlar.backends WHERE pool = 'ashlar-door-0'";
    assert!(wait_for(PATIENCE, || client.value(there).unwrap() == "0"));
    assert_eq!(client.value("SELECT count(*) FROM t WHERE k = 1").unwrap(), "1");
    assert_eq!(told(&mut client, "made, timeouts"), "3 0");
}

#[test]
fn a_connection_that_has_become_old_is_not_lent_again() {
    let (fleet, mut client) = fleet(8, "connection_life_max_ms = 1000");
    let mut watcher = fleet.client();
    done(&mut client, "BEGIN");
    done(&mut client, "INSERT INTO t VALUES (1, 'a')");
    let old = "SELECT pid FROM ashlar.backends WHERE pool = 'ashlar-door-0' AND state = 'in use' AND age_ms > 1000";
    assert!(wait_for(PATIENCE, || !rows(&mut watcher, old).is_empty()));
    let pid = watcher.value(old).unwrap();
    // Who has it keeps it.
    done(&mut client, "INSERT INTO t VALUES (2, 'a')");
    done(&mut client, "COMMIT");
    assert_eq!(client.value("SELECT count(*) FROM t WHERE k = 2").unwrap(), "1");
    assert_eq!(told(&mut watcher, "made, timeouts"), "2 0");
    assert!(wait_for(PATIENCE, || !pids(&mut watcher).contains(&pid)));
    let there = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}");
    assert!(wait_for(PATIENCE, || fleet.shard(0).value(&there).unwrap() == "0"));
    // Nor is it kept for nobody.
    assert!(wait_for(PATIENCE, || told(&mut watcher, "idle, in_use") == "0 0"));
}

#[test]
fn who_has_a_connection_next_does_not_hear_that_the_last_one_was_lost() {
    let (fleet, mut watcher) = fleet(8, "");
    let mut clients = use_at_once(&fleet, 3);
    tells(&mut watcher, "idle, made", "3 3");
    kill(&fleet, &pids(&mut watcher));
    for (key, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.value(&format!("SELECT count(*) FROM t WHERE k = {key}")).unwrap(), "1");
    }
    // Nor does a transaction.
    kill(&fleet, &pids(&mut watcher));
    done(&mut clients[0], "BEGIN");
    assert_eq!(clients[0].value("SELECT count(*) FROM t WHERE k = 1").unwrap(), "1");
    done(&mut clients[0], "COMMIT");
    assert_ne!(watcher.value("SELECT state FROM ashlar.shards").unwrap(), "down");
    fleet.ashlar.check_log();
}

#[test]
fn as_many_connections_as_are_wanted_are_there_before_anybody_needs_them() {
    let lines = "connections_per_server_max = 16\nconnections_per_server_min = 4\nconnection_idle_max_ms = 200\n\
                 [server]\ncores = 2";
    let mut fleet = Fleet::with(1, lines);
    done(&mut fleet.client(), &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    fleet = fleet.restart();
    let mut watcher = fleet.client();
    assert!(wait_for(PATIENCE, || pids(&mut watcher).len() >= 4));
    let lent = "SELECT sum(lent) FROM ashlar.pools WHERE pool LIKE 'ashlar-door-%'";
    assert_eq!(watcher.value(lent).unwrap(), "0");
    // What is beyond them goes, and they stay.
    drop(use_at_once(&fleet, 8));
    assert_eq!(watcher.value("SELECT sum(made) >= 8 FROM ashlar.pools").unwrap(), "t");
    assert!(wait_for(PATIENCE, || pids(&mut watcher).len() == 4));
    // What is lost is made again.
    let old = pids(&mut watcher);
    kill(&fleet, &old);
    let is_new = |now: &[String]| now.len() >= 4 && now.iter().all(|pid| !old.contains(pid));
    assert!(wait_for(PATIENCE, || is_new(&pids(&mut watcher))));
    assert_eq!(fleet.client().value("SELECT count(*) FROM t WHERE k = 1").unwrap(), "1");
    fleet.ashlar.check_log();
}

#[test]
fn connections_that_are_wanted_are_made_again_when_they_are_old() {
    let (_fleet, mut watcher) =
        fleet(8, "connections_per_server_min = 2\nconnection_life_max_ms = 1500\nconnection_idle_max_ms = 0");
    assert!(wait_for(PATIENCE, || pids(&mut watcher).len() >= 2));
    let old = pids(&mut watcher);
    let is_new = |now: &[String]| now.len() >= 2 && now.iter().all(|pid| !old.contains(pid));
    assert!(wait_for(PATIENCE, || is_new(&pids(&mut watcher))));
}

#[test]
fn what_is_prepared_is_seen_while_queries_wait_on_all_of_their_connections() {
    let lines = "connections_per_server_max = 32\nrecover_period_ms = 50\n[server]\ncores = 1";
    let fleet = Fleet::with(2, lines);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    let mut locker = fleet.shard(0);
    done(&mut locker, "BEGIN");
    done(&mut locker, "LOCK TABLE t");
    // Queries may have sixteen.
    let asking = [(); 24].map(|()| {
        let mut other = fleet.client();
        thread::spawn(move || {
            let found = other.value("SELECT count(*) FROM t a JOIN t b ON b.v = a.v");
            found.map_err(|error| format!("{error:#}"))
        })
    });
    let told = |name: &str| series(&get(fleet.ashlar.http(), "/metrics").1, name);
    let in_use = "ashlar_shard_connections{server=\"s0\",state=\"in_use\"}";
    assert!(wait_for(PATIENCE, || told(in_use).is_some_and(|count| count >= 16.0)));
    let mut other = fleet.shard(0);
    done(&mut other, "BEGIN");
    done(&mut other, "PREPARE TRANSACTION 'ashlar-left'");
    let in_doubt = "ashlar_shard_in_doubt_transactions{server=\"s0\"}";
    assert!(wait_for(PATIENCE, || told(in_doubt) == Some(1.0)));
    done(&mut other, "ROLLBACK PREPARED 'ashlar-left'");
    assert!(wait_for(PATIENCE, || told(in_doubt) == Some(0.0)));
    done(&mut locker, "ROLLBACK");
    for asking in asking {
        // Those that had none in time are told so.
        match asking.join().unwrap() {
            Ok(count) => assert_eq!(count, "0"),
            Err(error) => assert!(error.contains("53300"), "{error}"),
        }
    }
    fleet.ashlar.check_log();
}

#[test]
fn show_pools_gives_what_the_view_does() {
    let (_fleet, mut client) = fleet(8, "");
    done(&mut client, "INSERT INTO t VALUES (1, 'a')");
    let view = "SELECT * FROM ashlar.pools ORDER BY server, pool";
    // Between the two something may be counted.
    assert!(wait_for(PATIENCE, || rows(&mut client, "SHOW POOLS") == rows(&mut client, view)));
    assert_eq!(rows(&mut client, "SHOW pools").len(), 2);
    assert!(refused(&mut client, "SHOW pool").contains("42704"));
}
