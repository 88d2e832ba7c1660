//! Writers of the same keys at the same time: what a statement promises holds whoever was first.

use std::thread;

use ashlar_tests::Ashlar;

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
