//! Transactions on several shards that wait for each other: no shard sees it, and one of them ends so that the others go on, whichever
//! Ashlars they are of.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::JoinHandle;

use ashlar_tests::process::{PATIENCE, wait_for};

use super::members::direct;
use super::relay::{Relay, Wire};
use super::*;

/// A statement beside this thread, with the connection that it runs on.
fn beside(mut client: pg::Connection, sql: String) -> JoinHandle<(pg::Connection, Result<(), String>)> {
    std::thread::spawn(move || {
        let answer = client.query(&sql).map(drop).map_err(|error| format!("{error:#}"));
        (client, answer)
    })
}

fn update(key: i64, value: &str) -> String {
    format!("UPDATE t SET v = '{value}' WHERE k = {key}")
}

/// Waits until so many wait for a lock on a shard.
fn wait_for_waiting(fleet: &Fleet, shard: usize, count: usize) {
    let mut watcher = fleet.shard(shard);
    let waiting = "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted";
    assert!(wait_for(PATIENCE, || watcher.value(waiting).unwrap() == count.to_string()));
}

#[test]
fn of_those_who_wait_for_each_other_the_youngest_ends() {
    for count in [2, 3] {
        let fleet = Fleet::start(count);
        done(&mut fleet.client(), &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
        let keys = fleet.keys("t");
        for key in &keys {
            done(&mut fleet.client(), &format!("INSERT INTO t VALUES ({key}, 'before')"));
        }
        // Each has a row, and wants that of the next.
        let mut clients: Vec<pg::Connection> = (0..count).map(|_| fleet.client()).collect();
        for (at, client) in clients.iter_mut().enumerate() {
            done(client, "BEGIN");
            done(client, &update(keys[at], &format!("first {at}")));
        }
        let mut waiting = Vec::new();
        for (at, client) in clients.into_iter().enumerate() {
            let next = (at + 1) % count;
            waiting.push(beside(client, update(keys[next], &format!("second {at}"))));
        }
        let mut answers = waiting.into_iter().rev().map(|thread| thread.join().unwrap());
        let (mut victim, answer) = answers.next().unwrap();
        let error = answer.unwrap_err();
        assert!(error.contains("40P01"), "{error}");
        // What it held is free at once, so that the others end one after the other.
        for (mut client, answer) in answers {
            answer.unwrap();
            done(&mut client, "COMMIT");
        }
        assert!(refused(&mut victim, "SELECT 1").contains("25P02"));
        done(&mut victim, "ROLLBACK");
        let expected: Vec<Option<String>> = (0..count)
            .map(|at| if at == 0 { "first 0".to_owned() } else { format!("second {}", at - 1) })
            .map(Some)
            .collect();
        let found: Vec<_> = keys
            .iter()
            .flat_map(|key| rows(&mut victim, &format!("SELECT v FROM t WHERE k = {key}")).concat())
            .collect();
        assert_eq!(found, expected);
        fleet.ashlar.check_log();
    }
}

#[test]
fn a_change_of_a_table_and_a_transaction_do_not_wait_for_each_other_for_ever() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    let keys = fleet.keys("t");
    for key in &keys {
        done(&mut client, &format!("INSERT INTO t VALUES ({key}, 'before')"));
    }
    done(&mut client, "BEGIN");
    done(&mut client, &update(keys[1], "mine"));
    // It has the first shard's table, and waits for the second one's.
    let add = "ALTER TABLE t ADD COLUMN n int";
    let changing = beside(fleet.client(), add.to_owned());
    wait_for_waiting(&fleet, 1, 1);
    done(&mut client, &update(keys[0], "mine"));
    let (mut other, answer) = changing.join().unwrap();
    let error = answer.unwrap_err();
    assert!(error.contains("40P01"), "{error}");
    done(&mut client, "COMMIT");
    assert_eq!(client.value("SELECT count(*) FROM t WHERE v = 'mine'").unwrap(), "2");
    done(&mut other, add);
    assert_eq!(other.value("SELECT count(n) FROM t").unwrap(), "0");
    fleet.ashlar.check_log();
}

#[test]
fn who_waits_at_its_commit_is_one_of_those_who_wait_for_each_other() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    done(&mut client, "INSERT INTO t SELECT i, 'before ' || i FROM generate_series(1, 20) AS s(i)");
    // Whoever comes second with a value waits at its end for the end of the first.
    done(&mut fleet.shard(1), "ALTER TABLE t ADD CONSTRAINT late UNIQUE (v) DEFERRABLE INITIALLY DEFERRED");
    let on = |shard: usize, at: usize| -> i64 {
        rows(&mut fleet.shard(shard), "SELECT k FROM t ORDER BY k")[at][0].as_ref().unwrap().parse().unwrap()
    };
    let (held, own, others) = (on(0, 0), on(1, 0), on(1, 1));
    let begin = |client: &mut pg::Connection, key: i64, value: &str| {
        done(client, "BEGIN");
        done(client, &update(key, value));
    };
    for is_youngest in [false, true] {
        let value = format!("same {is_youngest}");
        let (mut committing, mut waiting) = (fleet.client(), fleet.client());
        if is_youngest {
            begin(&mut waiting, others, &value);
            begin(&mut committing, held, "held");
        } else {
            begin(&mut committing, held, "held");
            begin(&mut waiting, others, &value);
        }
        done(&mut committing, &update(own, &value));
        let waiting = beside(waiting, update(held, "wanted"));
        wait_for_waiting(&fleet, 0, 1);
        let committing = beside(committing, "COMMIT".to_owned());
        let (mut waiting, waited) = waiting.join().unwrap();
        let (mut committing, committed) = committing.join().unwrap();
        let (victim, other) = if is_youngest { (committed, waited) } else { (waited, committed) };
        let error = victim.unwrap_err();
        assert!(error.contains("40P01"), "{error}");
        other.unwrap();
        done(&mut waiting, if is_youngest { "COMMIT" } else { "ROLLBACK" });
        let expected = if is_youngest { ("wanted", others) } else { ("held", own) };
        let v = |key: i64| format!("SELECT v FROM t WHERE k = {key}");
        assert_eq!(committing.value(&v(held)).unwrap(), expected.0);
        assert_eq!(committing.value(&v(expected.1)).unwrap(), value);
        let same = format!("SELECT count(*) FROM t WHERE v = '{value}'");
        assert_eq!(committing.value(&same).unwrap(), "1", "the change of the other one is undone");
    }
    fleet.ashlar.check_log();
}

#[test]
fn who_waits_long_for_somebody_who_does_not_wait_goes_on() {
    let fleet = Fleet::start(2);
    let mut holder = fleet.client();
    done(&mut holder, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    let all: Vec<String> = (0..20).map(|key| format!("({key}, 'before')")).collect();
    done(&mut holder, &format!("INSERT INTO t VALUES {}", all.join(", ")));
    let on = |shard: usize, at: usize| -> i64 {
        rows(&mut fleet.shard(shard), "SELECT k FROM t ORDER BY k")[at][0].as_ref().unwrap().parse().unwrap()
    };
    let begin = |key: i64| {
        let mut client = fleet.client();
        done(&mut client, "BEGIN");
        done(&mut client, &update(key, "mine"));
        client
    };
    done(&mut holder, "BEGIN");
    done(&mut holder, &update(on(1, 0), "held"));
    let patient = beside(begin(on(0, 0)), update(on(1, 0), "mine"));
    wait_for_waiting(&fleet, 1, 1);
    // Those who have a deadlock come later, and when it is broken everybody has been looked at.
    let (one, other) = (begin(on(0, 1)), begin(on(1, 1)));
    let (one, other) = (beside(one, update(on(1, 1), "mine")), beside(other, update(on(0, 1), "mine")));
    assert!(other.join().unwrap().1.unwrap_err().contains("40P01"));
    let (mut one, answer) = one.join().unwrap();
    answer.unwrap();
    done(&mut one, "ROLLBACK");
    assert!(!patient.is_finished());
    done(&mut holder, "COMMIT");
    let (mut patient, answer) = patient.join().unwrap();
    answer.unwrap();
    done(&mut patient, "COMMIT");
    assert_eq!(patient.value("SELECT count(*) FROM t WHERE v = 'mine'").unwrap(), "2");
    fleet.ashlar.check_log();
}

const COLUMNS: &str = "k bigint PRIMARY KEY, v text";

/// Connections by which Ashlars tell a shard who waits.
const TELLING: &str = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'ashlar-waits-%'";

/// One of several Ashlars in front of the same shards, each of which finds them by addresses of its own.
struct Neighbour {
    ashlar: Ashlar,
    _relays: Vec<Relay>,
    _data: TempDir,
}

impl Neighbour {
    /// With the table `t`. The first one makes it, others attach it.
    fn join(shards: &[Postgres], is_first: bool) -> Neighbour {
        let data = tempfile::Builder::new().prefix("ashlar-data-").tempdir().unwrap();
        let dir = data.path().join("d");
        let ashlar = start(&format!("[server]\ncores = 1\n[shard]\ndata_dir = \"{}\"\n", dir.display()));
        let wire = Arc::new(Wire::default());
        let relays: Vec<Relay> = shards.iter().map(|shard| Relay::start(&wire, shard.address())).collect();
        let mut client = ashlar.connect();
        declare(&mut client, relays.iter().map(Relay::address));
        let (servers, attach) = (server_names(shards.len()), if is_first { "" } else { ", attach = true" });
        let options = format!("servers = '{servers}', algorithm = 'hash_mod'{attach}");
        done(&mut client, &format!("CREATE TABLE t ({COLUMNS}) PARTITION BY HASH (k) USING sharded WITH ({options})"));
        Neighbour { ashlar, _relays: relays, _data: data }
    }

    /// So many of them over as many shards, and a key of each shard, whose row is there.
    fn join_all(shards: &[Postgres]) -> (Vec<Neighbour>, Vec<i64>) {
        let neighbours: Vec<Neighbour> = (0..shards.len()).map(|at| Neighbour::join(shards, at == 0)).collect();
        let mut client = neighbours[0].ashlar.connect();
        let keys = key_of_each(&mut client, shards, "t");
        for key in &keys {
            done(&mut client, &format!("INSERT INTO t VALUES ({key}, 'before')"));
        }
        (neighbours, keys)
    }

    /// A client of it whose transaction has a row.
    fn begin(&self, key: i64, value: &str) -> pg::Connection {
        let mut client = self.ashlar.connect();
        done(&mut client, "SET application_name = 'mine'");
        done(&mut client, "BEGIN");
        done(&mut client, &update(key, value));
        client
    }
}

#[test]
fn of_those_of_several_ashlars_who_wait_for_each_other_one_ends() {
    for count in [2, 3] {
        let shards: Vec<Postgres> = (0..count).map(|_| Postgres::start().unwrap()).collect();
        let (neighbours, keys) = Neighbour::join_all(&shards);
        // Each has a row, and wants that of the next. Of three, none is on all shards.
        let begun: Vec<pg::Connection> =
            (0..count).map(|at| neighbours[at].begin(keys[at], &format!("first {at}"))).collect();
        let waiting: Vec<JoinHandle<bool>> = begun
            .into_iter()
            .enumerate()
            .map(|(at, mut client)| {
                let wants = update(keys[(at + 1) % count], &format!("second {at}"));
                std::thread::spawn(move || match client.query(&wants) {
                    Ok(_) => {
                        done(&mut client, "COMMIT");
                        true
                    }
                    Err(error) => {
                        let error = format!("{error:#}");
                        assert!(error.contains("40P01"), "{error}");
                        done(&mut client, "ROLLBACK");
                        false
                    }
                })
            })
            .collect();
        let committed: Vec<bool> = waiting.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert_eq!(committed.iter().filter(|is_committed| !**is_committed).count(), 1, "{committed:?}");
        // The row of each was wanted by the one before, who had it last.
        let expected: Vec<String> = (0..count)
            .map(|at| {
                let before = (at + count - 1) % count;
                if committed[before] { format!("second {before}") } else { format!("first {at}") }
            })
            .collect();
        for (key, expected) in keys.iter().zip(&expected) {
            let mut client = neighbours[0].ashlar.connect();
            assert_eq!(client.value(&format!("SELECT v FROM t WHERE k = {key}")).unwrap(), *expected, "{committed:?}");
        }
        // What was told is gone.
        let is_silent = |shard: &Postgres| direct(shard).value(TELLING).unwrap() == "0";
        assert!(wait_for(PATIENCE, || shards.iter().all(is_silent)));
        neighbours.iter().for_each(|neighbour| neighbour.ashlar.check_log());
    }
}

#[test]
fn who_waits_for_another_ashlar_goes_on_when_it_does() {
    let shards: Vec<Postgres> = (0..2).map(|_| Postgres::start().unwrap()).collect();
    let (neighbours, keys) = Neighbour::join_all(&shards);
    let mut holder = neighbours[0].begin(keys[1], "held");
    let patient = beside(neighbours[1].begin(keys[0], "mine"), update(keys[1], "mine"));
    // Both of its shards are told, in many rounds.
    for shard in &shards {
        let mut shard = direct(shard);
        let round = "SELECT max(application_name) FROM pg_stat_activity WHERE application_name LIKE 'ashlar-waits-%'";
        let mut told: BTreeSet<String> = BTreeSet::new();
        assert!(wait_for(PATIENCE, || {
            told.insert(shard.value(round).unwrap());
            told.len() > 8
        }));
        // A lock says whose its connection is, which is called what its client wants.
        let claims = "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.objid::int8 \
                      WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND a.application_name = 'mine'";
        assert!(wait_for(PATIENCE, || shard.value(claims).unwrap() == "1"), "{:?}", shard.value(claims));
    }
    assert!(!patient.is_finished());
    done(&mut holder, "COMMIT");
    let (mut patient, answer) = patient.join().unwrap();
    answer.unwrap();
    done(&mut patient, "COMMIT");
    assert_eq!(patient.value("SELECT count(*) FROM t WHERE v = 'mine'").unwrap(), "2");
    neighbours.iter().for_each(|neighbour| neighbour.ashlar.check_log());
}
