//! Writers of the same keys at the same time: what a statement or a transaction promises holds whoever was first.

use std::thread;

use ashlar_tests::Ashlar;
use ashlar_tests::resp::{Client, Reply};

/// Runs `work` on so many connections at once.
fn at_once(ashlar: &Ashlar, work: impl Fn(&mut ashlar_tests::pg::Connection) + Sync) {
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| work(&mut ashlar.connect()));
        }
    });
}

#[test]
fn on_conflict_never_ends_in_a_duplicate_key() {
    let ashlar = Ashlar::shared();
    let mut own = ashlar.connect();
    own.query("CREATE TABLE meeting (id integer PRIMARY KEY, n integer NOT NULL)").unwrap();
    at_once(&ashlar, |connection| {
        for id in (0..400).step_by(2) {
            let rows = format!("INSERT INTO meeting VALUES ({id}, 1), ({}, 1)", id + 1);
            connection.query(&format!("{rows} ON CONFLICT (id) DO UPDATE SET n = meeting.n + 1")).unwrap();
        }
    });
    assert_eq!(own.value("SELECT count(*) || ' ' || min(n) || ' ' || max(n) FROM meeting").unwrap(), "400 4 4");
    own.query("TRUNCATE meeting").unwrap();
    at_once(&ashlar, |connection| {
        for id in (0..400).step_by(2) {
            let rows = format!("INSERT INTO meeting VALUES ({id}, 1), ({}, 1)", id + 1);
            connection.query(&format!("{rows} ON CONFLICT DO NOTHING")).unwrap();
        }
    });
    assert_eq!(own.value("SELECT count(*) || ' ' || sum(n) FROM meeting").unwrap(), "400 400");
}

/// Each transaction moves one from a key to another and reads both, while SQL adds the two up.
#[test]
fn transactions_of_keys_are_seen_whole() {
    const MOVES: usize = 300;
    let ashlar = Ashlar::shared();
    let mut own = ashlar.connect();
    own.query("CREATE TABLE purse (id integer PRIMARY KEY, n integer NOT NULL)").unwrap();
    own.query("INSERT INTO purse VALUES (1, 1000), (2, 1000)").unwrap();
    thread::scope(|scope| {
        for worker in 0..3 {
            let ashlar = &ashlar;
            scope.spawn(move || {
                let mut keys = Client::connect(ashlar.resp()).unwrap();
                let (from, to) = if worker % 2 == 0 { (1, 2) } else { (2, 1) };
                for _ in 0..MOVES {
                    keys.command(&["MULTI"]).unwrap();
                    for (id, change) in [(from, "-1"), (to, "1")] {
                        keys.command(&["HINCRBY", &format!("purse:{{{id}}}"), "n", change]).unwrap();
                    }
                    let Reply::Array(after) = keys.command(&["EXEC"]).unwrap() else { panic!("EXEC failed") };
                    let [Reply::Integer(from), Reply::Integer(to)] = after[..] else { panic!("{after:?}") };
                    assert_eq!(from + to, 2000);
                }
            });
        }
        let mut reader = ashlar.connect();
        for _ in 0..MOVES {
            assert_eq!(reader.value("SELECT sum(n) FROM purse").unwrap(), "2000");
        }
    });
    let moved = 1000 - MOVES as i64;
    assert_eq!(own.value("SELECT n FROM purse WHERE id = 1").unwrap(), moved.to_string());
}
