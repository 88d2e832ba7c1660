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

/// Rows of one value by four writers: by statements of one row and of several, in blocks, and over RESP. One of them has it.
#[test]
fn of_the_writers_of_a_unique_value_one_wins() {
    const VALUES: usize = 200;
    let ashlar = Ashlar::shared();
    let mut own = ashlar.connect();
    own.query("CREATE TABLE prize (id integer PRIMARY KEY, v integer UNIQUE, other integer UNIQUE)").unwrap();
    let won: usize = thread::scope(|scope| {
        let writers = (0..4usize).map(|writer| {
            let ashlar = &ashlar;
            scope.spawn(move || {
                let mut connection = ashlar.connect();
                let mut keys = Client::connect(ashlar.resp()).unwrap();
                let mut won = 0;
                for v in 0..VALUES {
                    let id = v * 4 + writer;
                    let done = match (v + writer) % 4 {
                        0 => connection.query(&format!("INSERT INTO prize VALUES ({id}, {v}, {id})")).is_ok(),
                        1 => {
                            let spare = 1_000_000 + id;
                            let rows = format!("({id}, {v}, {id}), ({spare}, {spare}, {spare})");
                            connection.query(&format!("INSERT INTO prize VALUES {rows}")).is_ok()
                        }
                        2 => {
                            connection.query("BEGIN").unwrap();
                            let inserted =
                                connection.query(&format!("INSERT INTO prize VALUES ({id}, {v}, {id})")).is_ok();
                            connection.query(if inserted { "COMMIT" } else { "ROLLBACK" }).is_ok() && inserted
                        }
                        _ => {
                            let (name, value) = (format!("prize:{{{id}}}"), v.to_string());
                            let reply = keys.command(&["HSET", &name, "v", &value, "other", &id.to_string()]).unwrap();
                            matches!(reply, Reply::Integer(_))
                        }
                    };
                    won += usize::from(done);
                }
                won
            })
        });
        let writers: Vec<_> = writers.collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    assert_eq!(won, VALUES);
    let counted = own.value(&format!("SELECT count(*) || ' ' || count(DISTINCT v) FROM prize WHERE v < {VALUES}"));
    assert_eq!(counted.unwrap(), format!("{VALUES} {VALUES}"));
    // What lost has left nothing behind: every value that is not there is free.
    let repeated = "SELECT count(*) FROM prize GROUP BY v HAVING count(*) > 1";
    assert_eq!(own.value(&format!("SELECT count(*) FROM ({repeated}) AS q")).unwrap(), "0");
    own.query("DELETE FROM prize").unwrap();
    own.query(&format!("INSERT INTO prize SELECT i, i, i FROM generate_series(0, {}) AS g(i)", VALUES * 4)).unwrap();
}

#[test]
fn on_conflict_with_a_unique_index_never_ends_in_a_duplicate_value() {
    let ashlar = Ashlar::shared();
    let mut own = ashlar.connect();
    own.query("CREATE TABLE tally (id serial PRIMARY KEY, word text UNIQUE, n integer NOT NULL)").unwrap();
    at_once(&ashlar, |connection| {
        for word in (0..300).step_by(2) {
            let rows = format!("INSERT INTO tally (word, n) VALUES ('w{word}', 1), ('w{}', 1)", word + 1);
            connection.query(&format!("{rows} ON CONFLICT (word) DO UPDATE SET n = tally.n + 1")).unwrap();
        }
    });
    assert_eq!(own.value("SELECT count(*) || ' ' || min(n) || ' ' || max(n) FROM tally").unwrap(), "300 4 4");
    own.query("TRUNCATE tally").unwrap();
    at_once(&ashlar, |connection| {
        for word in 0..300 {
            let row = format!("INSERT INTO tally (word, n) VALUES ('w{word}', 1)");
            connection.query(&format!("{row} ON CONFLICT DO NOTHING")).unwrap();
        }
    });
    assert_eq!(own.value("SELECT count(*) || ' ' || sum(n) FROM tally").unwrap(), "300 300");
}

/// What a key's command may not write is refused with the error of SQL, alone and in EXEC, and nothing has changed.
#[test]
fn commands_of_keys_keep_values_unique() {
    let ashlar = Ashlar::shared();
    let mut own = ashlar.connect();
    own.query("CREATE TABLE seat (id integer PRIMARY KEY, n integer UNIQUE)").unwrap();
    own.query("INSERT INTO seat VALUES (1, 10), (2, 20)").unwrap();
    let mut keys = Client::connect(ashlar.resp()).unwrap();
    let mut refused = |words: &[&str]| match keys.command(words).unwrap() {
        Reply::Error(text) => assert!(text.contains("duplicate key value violates unique constraint"), "{text}"),
        other => panic!("{words:?}: {other:?}"),
    };
    refused(&["HSET", "seat:{2}", "n", "10"]);
    refused(&["HSET", "seat:{3}", "n", "20"]);
    refused(&["HINCRBY", "seat:{1}", "n", "10"]);
    keys.command(&["MULTI"]).unwrap();
    keys.command(&["HSET", "seat:{3}", "n", "30"]).unwrap();
    keys.command(&["HSET", "seat:{4}", "n", "30"]).unwrap();
    let Reply::Array(replies) = keys.command(&["EXEC"]).unwrap() else { panic!("EXEC failed") };
    assert!(matches!(&replies[..], [Reply::Integer(1), Reply::Error(_)]), "{replies:?}");
    let rows = own.value("SELECT string_agg(id || '=' || n, ' ' ORDER BY id) FROM seat").unwrap();
    assert_eq!(rows, "1=10 2=20 3=30");
}
