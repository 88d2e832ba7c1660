//! Writers of the same keys at the same time: what a statement or a transaction promises holds whoever was first.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

use ashlar_tests::Ashlar;
use ashlar_tests::pg::{self, Connection};
use ashlar_tests::process::wait_for;
use ashlar_tests::resp::{Client, Reply};

use crate::random::Random;

/// Runs `work` on so many connections at once.
fn at_once(ashlar: &Ashlar, work: impl Fn(&mut Connection) + Sync) {
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

/// One trip raises a number and gives back what it is then, to many clients at once, of both doors: each is given numbers of its own,
/// and none is left out.
#[test]
fn a_number_that_is_raised_and_returned_is_given_once() {
    const CLIENTS: usize = 16;
    const TIMES: usize = 200;
    let ashlar = Ashlar::shared();
    let mut own = ashlar.connect();
    own.query("CREATE TABLE ticket (id integer PRIMARY KEY, n bigint NOT NULL)").unwrap();
    own.query("INSERT INTO ticket VALUES (1, 0)").unwrap();
    let given = Mutex::new(Vec::new());
    let raise_all = |raise: &mut dyn FnMut() -> u64| {
        let numbers: Vec<u64> = (0..TIMES).map(|_| raise()).collect();
        assert!(numbers.is_sorted(), "{numbers:?}");
        given.lock().unwrap().extend(numbers);
    };
    thread::scope(|scope| {
        for worker in 0..CLIENTS {
            let (ashlar, raise_all) = (&ashlar, &raise_all);
            scope.spawn(move || {
                if worker % 4 == 0 {
                    let mut keys = Client::connect(ashlar.resp()).unwrap();
                    return raise_all(&mut || match keys.command(&["HINCRBY", "ticket:{1}", "n", "1"]).unwrap() {
                        Reply::Integer(number) => number.cast_unsigned(),
                        other => panic!("{other:?}"),
                    });
                }
                let mut sql = ashlar.connect();
                raise_all(&mut || {
                    let number = sql.value("UPDATE ticket SET n = n + 1 WHERE id = 1 RETURNING n").unwrap();
                    number.parse().unwrap()
                });
            });
        }
    });
    let mut given = given.into_inner().unwrap();
    given.sort_unstable();
    assert_eq!(given, (1..=(CLIENTS * TIMES) as u64).collect::<Vec<u64>>());
    assert_eq!(own.value("SELECT n FROM ticket").unwrap(), (CLIENTS * TIMES).to_string());
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

/// A COPY, with `meanwhile` before its last row: its SQLSTATE, if it fails.
fn copy(connection: &mut Connection, table: &str, rows: &str, meanwhile: impl FnOnce()) -> Option<String> {
    let sql = format!("COPY {table} FROM STDIN\0");
    connection.send(&pg::message(b'Q', &[sql.as_bytes()])).unwrap();
    assert_eq!(connection.read().unwrap().kind, b'G');
    let (most, last) = rows.trim_end().rsplit_once('\n').unwrap();
    connection.send(&pg::message(b'd', &[most.as_bytes(), b"\n"])).unwrap();
    meanwhile();
    connection.send(&pg::message(b'd', &[last.as_bytes(), b"\n"])).unwrap();
    connection.send(&pg::message(b'c', &[])).unwrap();
    let mut error = None;
    loop {
        let message = connection.read().unwrap();
        match message.kind {
            b'E' => error = message.field(b'C'),
            b'Z' => return error,
            _ => {}
        }
    }
}

/// So many rows are loaded in bulk, which a table with unique indexes does not take: one that is made meanwhile is obeyed.
#[test]
fn a_large_copy_obeys_an_index_that_is_made_meanwhile() {
    const ROWS: u32 = 70_000;
    let ashlar = Ashlar::shared();
    let (mut copies, mut own) = (ashlar.connect(), ashlar.connect());
    let rows = |v: &dyn Fn(u32) -> u32| (0..ROWS).map(|id| format!("{id}\t{}\n", v(id))).collect::<String>();
    let count = |own: &mut Connection| own.value("SELECT count(*) || ' ' || count(DISTINCT v) FROM loaded").unwrap();
    for (v, expected, left) in
        [(&(|id| id) as &dyn Fn(u32) -> u32, None, "70000 70000"), (&|id| id % 69_999, Some("23505"), "0 0")]
    {
        own.query("CREATE TABLE loaded (id integer PRIMARY KEY, v integer)").unwrap();
        let failed = copy(&mut copies, "loaded", &rows(v), || {
            own.query("CREATE UNIQUE INDEX ON loaded (v)").unwrap();
            own.query("CREATE INDEX ON loaded ((v + 1)) WHERE v > 60000").unwrap();
        });
        assert_eq!(failed.as_deref(), expected);
        assert_eq!(count(&mut own), left);
        let behind = own.value("SELECT count(*) FROM loaded WHERE v + 1 > 69000 AND v > 60000").unwrap();
        assert_eq!(behind, if expected.is_some() { "0" } else { "1000" });
        own.query("DROP TABLE loaded").unwrap();
    }
    // As a restore does it: rows first, in one transaction with the constraints.
    for (v, fails) in [(&(|id| id) as &dyn Fn(u32) -> u32, false), (&|id| id % 69_999, true)] {
        copies.query("BEGIN").unwrap();
        copies.query("CREATE TABLE loaded (id integer PRIMARY KEY, v integer)").unwrap();
        assert_eq!(copy(&mut copies, "loaded", &rows(v), || {}), None);
        let made = copies.query("ALTER TABLE loaded ADD CONSTRAINT loaded_v UNIQUE (v)");
        assert_eq!(made.is_err(), fails, "{made:?}");
        copies.query("COMMIT").unwrap();
        if !fails {
            assert_eq!(count(&mut own), "70000 70000");
            own.query("INSERT INTO loaded VALUES (-1, 69999)").unwrap_err();
            own.query("DROP TABLE loaded").unwrap();
        }
    }
}

/// COPYs that run at once, and the rows of each: more than are taken one by one.
const COPIES: u32 = 4;
const COPIED: u32 = 80_000;

/// Each of the COPYs has the keys from `step` times its number on, and ends once all have sent nearly everything: the SQLSTATE of
/// each that failed.
fn copies_at_once(ashlar: &Ashlar, step: u32) -> Vec<Option<String>> {
    let all_sent = Barrier::new(COPIES as usize);
    let one = |number: u32| {
        let ids = number * step..number * step + COPIED;
        let rows: String = ids.map(|id| format!("{id}\t{number}\n")).collect();
        copy(&mut ashlar.connect(), "copied", &rows, || {
            all_sent.wait();
        })
    };
    thread::scope(|scope| {
        let one = &one;
        let copies: Vec<_> = (0..COPIES).map(|number| scope.spawn(move || one(number))).collect();
        copies.into_iter().map(|copy| copy.join().unwrap()).collect()
    })
}

#[test]
fn large_copies_at_once_are_each_there_whole_or_not_at_all() {
    let ashlar = Ashlar::shared();
    let mut own = ashlar.connect();
    own.query("CREATE TABLE copied (id integer PRIMARY KEY, v integer)").unwrap();
    let mut there = || {
        let mut of = |condition: String| own.value(&format!("SELECT count(*) FROM copied WHERE {condition}")).unwrap();
        let each: Vec<String> = (0..COPIES).map(|number| of(format!("v = {number}"))).collect();
        (each, of("true".to_owned()))
    };
    assert_eq!(copies_at_once(&ashlar, COPIED), vec![None; COPIES as usize]);
    assert_eq!(there(), (vec![COPIED.to_string(); COPIES as usize], (COPIES * COPIED).to_string()));
    ashlar.connect().query("TRUNCATE copied").unwrap();
    // The last quarter of each are keys of the next one.
    let failed = copies_at_once(&ashlar, COPIED - COPIED / 4);
    let won: Vec<bool> = failed.iter().map(Option::is_none).collect();
    let others: Vec<&str> = failed.iter().flatten().map(String::as_str).filter(|state| *state != "23505").collect();
    assert!(others.is_empty(), "{failed:?}");
    for (number, has_won) in won.iter().enumerate() {
        let beside = [number.checked_sub(1), number.checked_add(1)].into_iter().flatten();
        let has_lost_to = beside.filter(|beside| won.get(*beside) == Some(&true)).count();
        // Of two with the same keys one is there, and who is not has met one that is.
        assert_eq!(*has_won, has_lost_to == 0, "{failed:?}");
    }
    let rows = |has_won: &bool| if *has_won { COPIED } else { 0 };
    let all: u32 = won.iter().map(rows).sum();
    assert_eq!(there(), (won.iter().map(|won| rows(won).to_string()).collect(), all.to_string()));
    ashlar.connect().query("DROP TABLE copied").unwrap();
}

/// What a key that has expired had is free at once, whichever door asks.
#[test]
fn values_of_rows_that_expire_are_free() {
    let ashlar = Ashlar::shared();
    let mut own = ashlar.connect();
    own.query("CREATE TABLE lease (id integer PRIMARY KEY, place text UNIQUE) WITH (ttl_ms = 3600000)").unwrap();
    let mut keys = Client::connect(ashlar.resp()).unwrap();
    for round in 0..60 {
        let (first, second) = (format!("lease:{{{}}}", round * 2), format!("lease:{{{}}}", round * 2 + 1));
        let place = format!("place {}", round % 3);
        assert!(matches!(keys.command(&["HSET", &first, "place", &place]).unwrap(), Reply::Integer(1)));
        let refused = keys.command(&["HSET", &second, "place", &place]).unwrap();
        assert!(matches!(refused, Reply::Error(_)), "{refused:?}");
        // Its time comes with no write but this one.
        assert!(matches!(keys.command(&["PEXPIREAT", &first, "1"]).unwrap(), Reply::Integer(1)));
        if round % 2 == 0 {
            assert!(matches!(keys.command(&["HSET", &second, "place", &place]).unwrap(), Reply::Integer(1)));
        } else {
            own.query(&format!("INSERT INTO lease VALUES ({}, '{place}')", round * 2 + 1)).unwrap();
        }
        own.query(&format!("UPDATE lease SET _expires_at = '2001-01-01' WHERE id = {}", round * 2 + 1)).unwrap();
    }
    assert_eq!(own.value("SELECT count(*) FROM lease").unwrap(), "0");
    own.query("DROP TABLE lease").unwrap();
}

/// Values that rows of `online` have: each group of so many rows has every one once.
const VALUES: u64 = 50;
/// Few enough that the rows of a value are found by an index on the connection's thread.
const GROUPS: u64 = 40;

/// Every row of a group gets the value of the next: how many have each stays as it is.
fn rotate(sql: &mut Connection, group: u64) {
    let (first, end) = (group * VALUES, (group + 1) * VALUES);
    let condition = format!("id >= {first} AND id < {end}");
    sql.query(&format!("UPDATE online SET v = (v + 1) % {VALUES}, n = -n WHERE {condition}")).unwrap();
}

/// Two rows get each other's value.
fn swap(keys: &mut Client, values: &mut [u64], (one, other): (usize, usize)) {
    keys.command(&["MULTI"]).unwrap();
    for (id, v) in [(one, values[other]), (other, values[one])] {
        let n = if v % 2 == 0 { "1" } else { "-1" };
        keys.command(&["HSET", &format!("online:{{{id}}}"), "v", &v.to_string(), "n", n]).unwrap();
    }
    let Reply::Array(replies) = keys.command(&["EXEC"]).unwrap() else { panic!("EXEC failed") };
    assert_eq!(replies, [Reply::Integer(0), Reply::Integer(0)]);
    values.swap(one, other);
}

/// As many rows have a value as always, whatever they are found by.
fn count_value(sql: &mut Connection, v: u64) {
    let among = |condition: &str| format!("(SELECT count(*) FROM online WHERE {condition})");
    let (plain, computed) = (among(&format!("v = {v}")), among(&format!("v + 1 = {}", v + 1)));
    let (part, rest) = (among(&format!("v = {v} AND n > 0")), among(&format!("v = {v} AND n <= 0")));
    for count in [plain, computed, format!("{part} + {rest}")] {
        assert_eq!(sql.value(&format!("SELECT {count}")).unwrap(), GROUPS.to_string(), "{count}");
    }
    let rows = sql.query(&format!("SELECT id FROM online WHERE v = {v}")).unwrap();
    assert_eq!(rows.len() as u64, GROUPS, "rows of {v}");
}

/// Says that it is the end, also where an assertion fails: the others must not go on for ever.
pub(crate) struct End<'a>(pub(crate) &'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn indexes_come_and_go_while_others_write() {
    const ROUNDS: usize = 20;
    let ashlar = Ashlar::shared();
    let mut own = ashlar.connect();
    own.query("CREATE TABLE online (id integer PRIMARY KEY, v integer NOT NULL, n integer NOT NULL)").unwrap();
    let ids = format!("generate_series(0, {}) AS g(i)", VALUES * GROUPS - 1);
    own.query(&format!("INSERT INTO online SELECT i, i % {VALUES}, i FROM {ids}")).unwrap();
    let indexes =
        [("plain", "(v)"), ("hash", "USING hash (v)"), ("computed", "((v + 1))"), ("part", "(v) WHERE n > 0")];
    let (is_end, done) = (AtomicBool::new(false), [const { AtomicUsize::new(0) }; 3]);
    let work = |number: usize, work: &mut dyn FnMut(u64)| {
        for round in 0.. {
            if is_end.load(Ordering::SeqCst) {
                return;
            }
            work(round);
            done[number].fetch_add(1, Ordering::SeqCst);
        }
    };
    thread::scope(|scope| {
        let _end = End(&is_end);
        let (ashlar, work, done) = (&ashlar, &work, &done);
        let workers = [
            scope.spawn(move || {
                let mut sql = ashlar.connect();
                work(0, &mut |round| rotate(&mut sql, round % (GROUPS / 2)));
            }),
            scope.spawn(move || {
                // The groups that the other writer leaves alone.
                let (mut keys, mut random) = (Client::connect(ashlar.resp()).unwrap(), Random::from_seed(5));
                let mut values: Vec<u64> = (0..VALUES * GROUPS).map(|id| id % VALUES).collect();
                let mut id = move || (VALUES * GROUPS / 2 + random.below(VALUES * GROUPS / 2)) as usize;
                work(1, &mut |_| swap(&mut keys, &mut values, (id(), id())));
            }),
            scope.spawn(move || {
                let mut sql = ashlar.connect();
                work(2, &mut |round| count_value(&mut sql, round % VALUES));
            }),
        ];
        // What was begun before has ended by the second time.
        let all_go_on = || {
            let before = done.each_ref().map(|done| done.load(Ordering::SeqCst));
            let has_failed = || workers.iter().any(|worker| worker.is_finished());
            let goes_on = || done.iter().zip(before).all(|(done, before)| done.load(Ordering::SeqCst) >= before + 2);
            wait_for(Duration::from_secs(180), || goes_on() || has_failed()) && !has_failed()
        };
        for round in 0..ROUNDS {
            for (name, on) in indexes {
                own.query(&format!("CREATE INDEX online_{name} ON online {on}")).unwrap();
            }
            let plan = own.query("EXPLAIN SELECT id FROM online WHERE v = 7").unwrap();
            assert!(plan[0][0].as_deref().is_some_and(|line| line.contains("using online_")), "{plan:?}");
            assert!(all_go_on(), "somebody has come to an end in round {round}, with indexes");
            for (name, _) in indexes {
                own.query(&format!("DROP INDEX online_{name}")).unwrap();
            }
            assert!(all_go_on(), "somebody has come to an end in round {round}, without indexes");
        }
    });
    for v in 0..VALUES {
        count_value(&mut own, v);
    }
    own.query("DROP TABLE online").unwrap();
}
