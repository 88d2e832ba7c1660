//! Pools of connections: what is told of them, and sessions that keep the connections that they have had.

use std::thread;

use ashlar_tests::process::{PATIENCE, wait_for};

use super::*;

/// One thread of doors and the queries: half of the connections each.
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

#[test]
fn who_waits_for_a_connection_is_told() {
    let (fleet, mut client) = fleet(2, "connection_wait_max_ms = 4000\nconnections_waiting_max = 1");
    let mut watcher = fleet.client();
    done(&mut client, "BEGIN");
    done(&mut client, "INSERT INTO t VALUES (1, 'a')");
    let now = "connections_max, idle, in_use, waiting, oldest_wait_ms IS NULL";
    assert_eq!(told(&mut watcher, now), "1 0 1 0 t");
    let waits = |mut other: pg::Connection| {
        thread::spawn(move || {
            let found = other.value("SELECT count(*) FROM t WHERE k = 2");
            found.map_err(|error| format!("{error:#}"))
        })
    };
    let first = waits(fleet.client());
    assert!(wait_for(PATIENCE, || told(&mut watcher, now) == "1 0 1 1 f"));
    // There is room for one in the line.
    let error = refused(&mut fleet.client(), "SELECT * FROM t WHERE k = 2");
    assert!(error.contains("53300") && error.contains("too many"), "{error}");
    done(&mut client, "COMMIT");
    assert_eq!(first.join().unwrap().unwrap(), "0");
    assert_eq!(told(&mut watcher, now), "1 1 0 0 t");
    assert_eq!(told(&mut watcher, "waits, timeouts, refused"), "1 0 1");
    done(&mut client, "BEGIN");
    done(&mut client, "INSERT INTO t VALUES (2, 'a')");
    let late = waits(fleet.client()).join().unwrap().unwrap_err();
    assert!(late.contains("53300"), "{late}");
    assert_eq!(told(&mut watcher, "waits, timeouts, refused, waited_ms >= 4000, oldest_wait_ms IS NULL"), "2 1 1 t t");
    done(&mut client, "COMMIT");
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
    assert_eq!(plain.value(state).unwrap(), "kept kept");
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
    let before = watcher.value(pids).unwrap();
    assert_eq!(before.split(' ').count(), 2, "{before}");
    done(&mut client, "UPDATE t SET v = 'both'");
    done(&mut client, "BEGIN");
    done(&mut client, "UPDATE t SET v = 'neither'");
    done(&mut client, "ROLLBACK");
    assert_eq!(rows(&mut client, "SELECT v FROM t ORDER BY k").len(), 2);
    assert_eq!(client.value("SELECT count(*) FROM t WHERE v = 'both'").unwrap(), "2");
    assert_eq!(watcher.value(pids).unwrap(), before);
    fleet.ashlar.check_log();
}

#[test]
fn connections_that_sessions_have_lost_say_nothing_of_a_server_that_is_there() {
    // Looks are rare: what statements have noted stays.
    let (mut fleet, _client) = fleet(16, "pool_mode = \"session\"\nfailures_max = 2\nhealth_check_ms = 600000");
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
