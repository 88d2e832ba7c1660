//! Transactions on several shards that wait for each other: no shard sees it, and one of them ends so that the others go on.

use std::thread::JoinHandle;

use ashlar_tests::process::{PATIENCE, wait_for};

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
