//! REPEATABLE READ over several shards: a transaction sees what one PostgreSQL would show it, whatever others commit meanwhile.

use ashlar_tests::process::{PATIENCE, wait_for};

use super::*;
use crate::comparison::{Protocol, Verdict, ask, judge};

/// What a transaction says, and what another client does meanwhile.
const TALK: &[(usize, &str)] = &[
    (0, "BEGIN ISOLATION LEVEL REPEATABLE READ"),
    (0, "SELECT count(*), sum(v) FROM t"),
    (1, "UPDATE t SET v = v + 100"),
    (1, "DELETE FROM t WHERE k % 3 = 0"),
    (1, "INSERT INTO t VALUES (101, 1), (102, 2), (103, 3)"),
    (0, "SELECT count(*), sum(v) FROM t"),
    (0, "SELECT k, v FROM t ORDER BY k"),
    (0, "SELECT v % 3, count(*) FROM t GROUP BY 1 ORDER BY 1"),
    (0, "SELECT v FROM t WHERE k = 3"),
    (0, "SELECT v FROM t WHERE k = 4"),
    (0, "SELECT count(*) FROM t a JOIN t b ON b.v = a.v + 1"),
    (0, "DECLARE c CURSOR FOR SELECT k, v FROM t ORDER BY k"),
    (0, "FETCH 2 FROM c"),
    // Its own writes it sees, on all shards, and others' not: nor may it change what they have changed.
    (0, "INSERT INTO t VALUES (201, 7), (202, 8), (203, 9)"),
    (0, "SELECT count(*), sum(v) FROM t"),
    (0, "SELECT v FROM t WHERE k = 202"),
    (0, "SELECT k FROM t WHERE v > (SELECT avg(v) FROM t) ORDER BY k"),
    (0, "FETCH 100 FROM c"),
    (0, "SAVEPOINT s"),
    (0, "UPDATE t SET v = 0 WHERE k = 4"),
    (0, "ROLLBACK TO s"),
    (0, "SELECT count(*), sum(v) FROM t"),
    (1, "UPDATE t SET v = v + 1 WHERE k < 5"),
    (0, "SELECT count(*), sum(v) FROM t"),
    (0, "COMMIT"),
    (0, "SELECT count(*), sum(v) FROM t"),
    // One that begins by writing to several.
    (0, "BEGIN ISOLATION LEVEL REPEATABLE READ"),
    (0, "UPDATE t SET v = v + 1 WHERE k < 100"),
    (1, "INSERT INTO t VALUES (301, 1), (302, 2), (303, 3)"),
    (0, "SELECT count(*), sum(v) FROM t"),
    (0, "DELETE FROM t WHERE k > 200"),
    (0, "SELECT count(*), sum(v) FROM t"),
    (0, "COMMIT"),
    (0, "SELECT count(*), sum(v) FROM t"),
    (0, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
    (0, "SELECT count(*) FROM t"),
    (1, "DELETE FROM t"),
    (0, "SELECT v FROM t WHERE k = 7"),
    (0, "SELECT count(*) FROM t"),
    (0, "DELETE FROM t"),
    (0, "ROLLBACK"),
    (0, "SELECT count(*) FROM t"),
];

#[test]
fn a_transaction_sees_one_moment_of_all_shards() {
    for (shards, protocol) in [(2, Protocol::Simple), (3, Protocol::Extended)] {
        let fleet = Fleet::start(shards);
        let oracle = Postgres::start().unwrap();
        let mut alone = [(); 2].map(|()| pg::Connection::connect(oracle.address()).unwrap());
        let mut clients = [(); 2].map(|()| fleet.client());
        done(&mut alone[0], "CREATE TABLE t (k bigint PRIMARY KEY, v bigint)");
        done(&mut clients[0], &format!("CREATE TABLE t (k bigint PRIMARY KEY, v bigint) {}", fleet.by("k")));
        for client in [&mut alone[0], &mut clients[0]] {
            done(client, "INSERT INTO t SELECT i, i FROM generate_series(1, 30) AS s(i)");
        }
        let mut wrong: Vec<String> = Vec::new();
        for (at, (who, sql)) in TALK.iter().enumerate() {
            let (expected, found) = (ask(&mut alone[*who], sql, protocol), ask(&mut clients[*who], sql, protocol));
            match judge(sql, &expected, &found) {
                Verdict::Same => {}
                Verdict::Refused => wrong.push(format!("{at}: refused: {:?}\n{sql}", found.error)),
                Verdict::Different(how) => wrong.push(format!("{at}: {how}\n{sql}")),
            }
        }
        crate::slt::report(&wrong);
        fleet.ashlar.check_log();
    }
}

#[test]
fn who_has_begun_on_one_shard_has_no_more_than_that_unless_it_wants_snapshots() {
    let fleet = Fleet::start(2);
    let (mut client, mut other) = (fleet.client(), fleet.client());
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v bigint) {}", fleet.by("k")));
    done(&mut client, "CREATE TABLE g (k bigint PRIMARY KEY)");
    let keys = fleet.keys("t");
    keys.iter().for_each(|key| done(&mut client, &format!("INSERT INTO t VALUES ({key}, 1)")));
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ";
    let of = |place: usize| format!("SELECT v FROM t WHERE k = {}", keys[place]);
    let on_the_other = of(1);
    for sql in
        ["SELECT sum(v) FROM t", "UPDATE t SET v = 2", on_the_other.as_str(), "DECLARE c CURSOR FOR SELECT * FROM t"]
    {
        done(&mut client, begin);
        assert_eq!(client.value(&of(0)).unwrap(), "1");
        assert!(refused(&mut client, sql).contains("0A000"), "{sql}");
        done(&mut client, "ROLLBACK");
    }
    done(&mut client, "SET sharded_reads = 'snapshot'");
    done(&mut client, begin);
    assert_eq!(client.value(&of(0)).unwrap(), "1");
    done(&mut other, "UPDATE t SET v = v + 5");
    assert_eq!(client.value("SELECT sum(v) FROM t").unwrap(), "2");
    assert_eq!(client.value(&of(1)).unwrap(), "1");
    assert!(refused(&mut client, "UPDATE t SET v = 0").contains("40001"));
    done(&mut client, "ROLLBACK");
    done(&mut client, "RESET sharded_reads");
    // Tables of this server are of another moment.
    done(&mut client, begin);
    assert!(refused(&mut client, "SELECT count(*) FROM t, g").contains("0A000"));
    done(&mut client, "ROLLBACK");
    done(&mut client, begin);
    assert_eq!(client.value("SELECT count(*) FROM g").unwrap(), "0");
    assert!(refused(&mut client, "SELECT count(*) FROM t").contains("0A000"));
    done(&mut client, "ROLLBACK");
    // Whichever come first, and whether they are read or changed: what another one has changed meanwhile would be half of it seen.
    let (one, row) =
        (format!("UPDATE t SET v = 9 WHERE k = {}", keys[0]), format!("INSERT INTO g VALUES ({})", keys[0]));
    let here = ["SELECT count(*) FROM g", "SELECT k FROM g WHERE k = 1", "EXPLAIN ANALYZE SELECT count(*) FROM g"];
    let there = ["SELECT count(*) FROM t", "UPDATE t SET v = v + 1", one.as_str(), on_the_other.as_str()];
    for (first, then) in there.into_iter().flat_map(|there| here.map(|here| (there, here))) {
        for (first, then) in [(first, then), (then, first)] {
            done(&mut client, begin);
            done(&mut client, first);
            done(&mut other, &row);
            done(&mut other, "DELETE FROM g");
            let error = refused(&mut client, then);
            assert!(error.contains("0A000"), "{first}; {then}: {error}");
            done(&mut client, "ROLLBACK");
        }
    }
    // What it sees is settled.
    done(&mut client, begin);
    assert_eq!(client.value("SELECT sum(v) FROM t").unwrap(), "12");
    let error = refused(&mut client, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED");
    assert!(error.contains("25001"), "{error}");
    done(&mut client, "ROLLBACK");
    // A statement that is a transaction of its own.
    done(&mut client, "SET default_transaction_isolation = 'repeatable read'");
    assert_eq!(client.value("SELECT sum(v) FROM t").unwrap(), "12");
    done(&mut client, "UPDATE t SET v = v + 1");
    assert_eq!(client.value("SELECT count(DISTINCT v) FROM t").unwrap(), "1");
    // Nobody keeps a snapshot any more.
    let kept = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'";
    for shard in 0..2 {
        assert!(wait_for(PATIENCE, || fleet.shard(shard).value(kept).unwrap() == "0"));
    }
    fleet.ashlar.check_log();
}

#[test]
fn transactions_that_keep_snapshots_leave_connections_to_others() {
    // Queries may have eight of these, and half of them keep snapshots.
    let fleet = Fleet::with(2, "connections_per_server_max = 16\n[server]\ncores = 1");
    let mut client = fleet.client();
    for table in ["t", "l"] {
        done(&mut client, &format!("CREATE TABLE {table} (k bigint PRIMARY KEY, v bigint) {}", fleet.by("k")));
        done(&mut client, &format!("INSERT INTO {table} SELECT i, i FROM generate_series(1, 20) AS s(i)"));
    }
    let (begin, count) = ("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM t");
    let mut idle: Vec<pg::Connection> = Vec::new();
    let error = loop {
        let mut holder = fleet.client();
        done(&mut holder, begin);
        match holder.value(count) {
            Ok(counted) => assert_eq!(counted, "20"),
            Err(error) => break format!("{error:#}"),
        }
        idle.push(holder);
    };
    assert!(error.contains("53300"), "{error}");
    assert_eq!(idle.len(), 4);
    // Whoever has begun goes on, and whatever keeps none is done.
    for holder in &mut idle {
        assert_eq!(holder.value("SELECT sum(t.v) FROM t JOIN l ON l.v = t.v").unwrap(), "210");
    }
    assert_eq!(client.value("SELECT sum(t.v) FROM t JOIN l ON l.v = t.v").unwrap(), "210");
    done(&mut client, &format!("CREATE TABLE made (k bigint PRIMARY KEY) {}", fleet.by("k")));
    // A cursor keeps one, too.
    done(&mut client, "BEGIN");
    let declared = client.query("DECLARE c CURSOR FOR SELECT t.v FROM t JOIN l ON l.v = t.v");
    let error = format!("{:#}", declared.and_then(|_| client.query("FETCH ALL FROM c")).unwrap_err());
    assert!(error.contains("53300"), "{error}");
    done(&mut client, "ROLLBACK");
    // Where one of them ends another one may begin.
    done(&mut idle[0], "COMMIT");
    assert!(wait_for(PATIENCE, || {
        done(&mut client, begin);
        let counted = client.value(count);
        done(&mut client, "COMMIT");
        counted.is_ok_and(|counted| counted == "20")
    }));
    fleet.ashlar.check_log();
}

#[test]
fn what_changes_tables_of_this_server_reads_shards_as_its_transaction_may() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v bigint) {}", fleet.by("k")));
    done(&mut client, "CREATE TABLE g (k bigint PRIMARY KEY, v bigint)");
    for table in ["t", "g"] {
        done(&mut client, &format!("INSERT INTO {table} SELECT i, i FROM generate_series(1, 10) AS s(i)"));
    }
    let changes = [
        "INSERT INTO g SELECT k + 100, v FROM t",
        "UPDATE g SET v = t.v + 1 FROM t WHERE t.k = g.k",
        "DELETE FROM g USING t WHERE t.k = g.k",
        "CREATE TABLE made AS SELECT k, v FROM t",
    ];
    let (fixed, open) = ("BEGIN ISOLATION LEVEL REPEATABLE READ", "BEGIN ISOLATION LEVEL READ COMMITTED");
    for default in ["read committed", "repeatable read"] {
        done(&mut client, &format!("SET default_transaction_isolation = '{default}'"));
        for sql in changes {
            for before in ["SELECT sum(v) FROM t", "SELECT 1"] {
                done(&mut client, fixed);
                done(&mut client, before);
                let error = refused(&mut client, sql);
                assert!(error.contains("0A000"), "{default}, {before}; {sql}: {error}");
                done(&mut client, "ROLLBACK");
            }
            done(&mut client, open);
            done(&mut client, sql);
            done(&mut client, "ROLLBACK");
        }
    }
    assert_eq!(client.value("SELECT sum(v) FROM g").unwrap(), "55");
    fleet.ashlar.check_log();
}

/// Names of snapshots are numbers of a server's life: its next one gives them out again.
#[test]
fn another_snapshot_of_the_same_name_is_not_taken_for_ones_own() {
    let mut fleet = Fleet::start(2);
    let (mut client, mut other) = (fleet.client(), fleet.client());
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v bigint) {}", fleet.by("k")));
    let keys = fleet.keys("t");
    keys.iter().for_each(|key| done(&mut client, &format!("INSERT INTO t VALUES ({key}, 1)")));
    let of = |place: usize| format!("SELECT v FROM t WHERE k = {}", keys[place]);
    // Places that the server gives its connections: those before the reader's are free in its next life.
    let before: Vec<pg::Connection> = (0..15).map(|_| fleet.shard(1)).collect();
    done(&mut client, "SET sharded_reads = 'snapshot'");
    done(&mut client, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    assert_eq!(client.value(&of(0)).unwrap(), "1");
    let wanted = fleet.shard(1).value("SELECT pg_ls_dir('pg_snapshots')").unwrap();
    drop(before);
    fleet.shards[1].kill().unwrap();
    fleet.shards[1].start_again().unwrap();
    done(&mut fleet.shard(1), "UPDATE t SET v = 100");
    let place = |name: &str| name.split('-').next().map(str::to_owned);
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ";
    let mut others: Vec<pg::Connection> = Vec::new();
    let same = loop {
        assert!(others.len() < 60, "no connection has the place of {wanted}");
        let mut another = fleet.shard(1);
        done(&mut another, begin);
        let mut name = another.value("SELECT pg_export_snapshot()").unwrap();
        while place(&name) == place(&wanted) && name < wanted {
            done(&mut another, "COMMIT");
            done(&mut another, begin);
            name = another.value("SELECT pg_export_snapshot()").unwrap();
        }
        others.push(another);
        if place(&name) == place(&wanted) {
            break name;
        }
    };
    assert_eq!(same, wanted, "its transactions are past it");
    assert!(wait_for(PATIENCE, || other.value(&of(1)).is_ok_and(|value| value == "100")));
    let error = refused(&mut client, &of(1));
    assert!(error.contains("restarted since the snapshot was taken"), "{error}");
    done(&mut client, "ROLLBACK");
    assert_eq!(client.value("SELECT sum(v) FROM t").unwrap(), "101");
}

/// The import of a snapshot has a row, which is none of what comes behind it on its connection.
#[test]
fn what_comes_first_in_a_transaction_that_wants_snapshots_is_answered_by_itself() {
    for shards in [1, 2] {
        let fleet = Fleet::start(shards);
        let mut client = fleet.client();
        done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v bigint) {}", fleet.by("k")));
        done(&mut client, "SET sharded_reads = 'snapshot'");
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ";
        done(&mut client, begin);
        // A COPY to several shards is refused at this level.
        if shards == 1 {
            client.send(&pg::message(b'Q', &[b"COPY t FROM STDIN\0"])).unwrap();
            assert_eq!(client.read().unwrap().kind, b'G');
            client.send(&pg::message(b'd', &[b"1\t1\n2\t2\n3\t3\n"])).unwrap();
            client.send(&pg::message(b'c', &[])).unwrap();
            while client.read().unwrap().kind != b'Z' {}
        } else {
            done(&mut client, "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)");
        }
        done(&mut client, "COMMIT");
        assert_eq!(client.value("SELECT sum(v) FROM t").unwrap(), "6");
        for sql in [
            "INSERT INTO t SELECT k, v FROM t ON CONFLICT DO NOTHING",
            "UPDATE t SET v = v + 1 WHERE k = 2",
            "INSERT INTO t VALUES (9, 9), (10, 10), (11, 11)",
            "DELETE FROM t WHERE k > 8",
        ] {
            done(&mut client, begin);
            done(&mut client, sql);
            done(&mut client, "COMMIT");
        }
        assert_eq!(client.value("SELECT sum(v) FROM t").unwrap(), "7");
        for sql in ["SELECT v FROM t WHERE k = 3", "SELECT count(*) FROM t", "SELECT max(k) FROM t WHERE v > 0"] {
            done(&mut client, begin);
            assert_eq!(client.value(sql).unwrap(), "3", "{sql}");
            done(&mut client, "COMMIT");
        }
        fleet.ashlar.check_log();
    }
}
