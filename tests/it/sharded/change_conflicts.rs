//! UPDATE and DELETE of rows that the engine finds, while others change the same rows, and while somebody dies: what is changed is what
//! PostgreSQL would change, on all shards or on none.

use std::thread::JoinHandle;

use ashlar_tests::process::{PATIENCE, wait_for};

use super::members::{Member, direct, wait_until_finished};
use super::relay::{Act, When};
use super::*;

/// A fleet of two with `t`, whose rows have a place beside their sharding key, and `m` in memory.
fn two() -> (Fleet, pg::Connection, Vec<i64>) {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    let columns = "k bigint, i int DEFAULT 0, g int, v text, n int DEFAULT 0, PRIMARY KEY (k, i)";
    done(&mut client, &format!("CREATE TABLE t ({columns}) {}", fleet.by("k")));
    done(&mut client, "CREATE TABLE m (k bigint PRIMARY KEY, v text)");
    done(&mut client, "INSERT INTO m VALUES (1, 'one'), (2, 'two')");
    let keys = fleet.keys("t");
    (fleet, client, keys)
}

/// A statement beside this thread, with the connection that it runs on.
fn beside(mut client: pg::Connection, sql: &str) -> JoinHandle<(pg::Connection, Vec<Vec<Option<String>>>)> {
    let sql = sql.to_owned();
    std::thread::spawn(move || {
        let found = rows(&mut client, &sql);
        (client, found)
    })
}

/// Waits until somebody waits for a lock on a shard.
fn wait_for_waiting(fleet: &Fleet, shard: usize) {
    let mut watcher = fleet.shard(shard);
    let waiting = "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted";
    assert!(wait_for(PATIENCE, || watcher.value(waiting).unwrap() == "1"));
}

#[test]
fn rows_are_changed_as_they_are_when_nobody_else_has_them() {
    for in_block in [false, true] {
        let (fleet, mut client, keys) = two();
        // Of each shard: a row that will be found by another one, one that will not be found, one that goes, one that gets another key, and
        // one that nobody touches.
        for k in &keys {
            let row = |(i, v): (i32, &str)| format!("({k}, {i}, 1, '{v}')");
            let values = [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e")].map(row).join(", ");
            done(&mut client, &format!("INSERT INTO t VALUES {values}"));
        }
        let mut other = fleet.client();
        done(&mut other, "BEGIN");
        done(&mut other, "UPDATE t SET g = 2, n = 10 WHERE i = 1");
        done(&mut other, "UPDATE t SET g = 7 WHERE i = 2");
        done(&mut other, "DELETE FROM t WHERE i = 3");
        done(&mut other, "UPDATE t SET i = 40, n = 40 WHERE i = 4");
        if in_block {
            done(&mut client, "BEGIN");
            done(&mut client, &format!("UPDATE t SET v = 'mine' WHERE k = {} AND i = 5", keys[0]));
        }
        let sql = "UPDATE t SET v = t.v || m.v, n = t.n + 1 FROM m WHERE m.k = t.g RETURNING t.i, t.v, t.n";
        let changing = beside(client, sql);
        wait_for_waiting(&fleet, 0);
        done(&mut other, "COMMIT");
        let (mut client, mut found) = changing.join().unwrap();
        if in_block {
            done(&mut client, "COMMIT");
        }
        found.sort();
        let fifth = if in_block { "mineone" } else { "eone" };
        let mut expected = Vec::new();
        for last in [fifth, "eone"] {
            for (i, v, n) in [("1", "atwo", "11"), ("40", "done", "41"), ("5", last, "1")] {
                expected.push([i, v, n].map(|cell| Some(cell.to_owned())).to_vec());
            }
        }
        expected.sort();
        assert_eq!(found, expected, "in a block: {in_block}");
        for shard in 0..2 {
            let all = "SELECT string_agg(i || ' ' || v || ' ' || n, ',' ORDER BY i) FROM t";
            let last = if shard == 0 { fifth } else { "eone" };
            let expected = format!("1 atwo 11,2 b 0,5 {last} 1,40 done 41");
            assert_eq!(fleet.shard(shard).value(all).unwrap(), expected, "in a block: {in_block}");
        }
        fleet.ashlar.check_log();
    }
}

#[test]
fn a_row_that_goes_to_another_shard_is_changed_by_who_has_waited_for_it() {
    for (from, to) in [(1, 0), (0, 1)] {
        // Sent to each shard by itself, and found by the engine.
        for sql in ["UPDATE t SET n = n + 1", "UPDATE t SET n = t.n + 1 FROM m WHERE m.k = t.g"] {
            let (fleet, mut mover, keys) = two();
            done(&mut mover, &format!("INSERT INTO t VALUES ({}, 1, 1, 'a')", keys[from]));
            done(&mut mover, "BEGIN");
            done(&mut mover, &format!("UPDATE t SET k = {} WHERE k = {}", keys[to], keys[from]));
            // Who only reads does not wait.
            assert_eq!(fleet.client().value("SELECT k FROM t").unwrap(), keys[from].to_string());
            let changing = beside(fleet.client(), sql);
            let mut watchers = [0, 1].map(|shard| fleet.shard(shard));
            let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
            assert!(wait_for(PATIENCE, || watchers.iter_mut().any(|watcher| watcher.value(waiting).unwrap() != "0")));
            done(&mut mover, "COMMIT");
            changing.join().unwrap();
            let found = mover.value("SELECT k || ' ' || n FROM t").unwrap();
            assert_eq!(found, format!("{} 1", keys[to]), "from {from}: {sql}");
            fleet.ashlar.check_log();
        }
    }
}

#[test]
fn rows_that_go_by_several_clients_follow_one_another() {
    const TIMES: i64 = 6;
    let (fleet, mut client, keys) = two();
    let shift = (keys[0] - keys[1]).abs();
    let (low, high) = (keys[0].min(keys[1]), keys[0].max(keys[1]));
    // A row of each client goes there and back.
    (1..4).for_each(|i| done(&mut client, &format!("INSERT INTO t VALUES ({low}, {i}, 1, 'a')")));
    let clients: Vec<JoinHandle<()>> = (1..4)
        .map(|i| {
            let mut client = fleet.client();
            std::thread::spawn(move || {
                for _ in 0..TIMES {
                    let there = format!("UPDATE t SET k = k + {shift}, n = n + 1 WHERE k = {low} AND i = {i}");
                    let back = format!("UPDATE t SET k = k - {shift}, n = n + 1 WHERE k = {high} AND i = {i}");
                    [there, back].iter().for_each(|sql| done(&mut client, sql));
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    let found = client.value("SELECT count(*) || ' ' || min(n) || ' ' || max(n) || ' ' || max(k) FROM t").unwrap();
    assert_eq!(found, format!("3 {0} {0} {low}", 2 * TIMES));
    fleet.ashlar.check_log();
}

#[test]
fn who_has_read_as_of_one_moment_is_told_that_it_is_over() {
    let (fleet, mut client, keys) = two();
    done(&mut client, &format!("INSERT INTO t VALUES ({}, 1, 1, 'a')", keys[0]));
    let mut other = fleet.client();
    done(&mut other, "BEGIN");
    done(&mut other, "UPDATE t SET n = 5");
    done(&mut client, "SET sharded_reads = 'snapshot'");
    let changing = std::thread::spawn(move || {
        let error = refused(&mut client, "UPDATE t SET v = m.v FROM m WHERE m.k = t.g");
        (client, error)
    });
    wait_for_waiting(&fleet, 0);
    done(&mut other, "COMMIT");
    let (mut client, error) = changing.join().unwrap();
    assert!(error.contains("40001"), "{error}");
    done(&mut client, "UPDATE t SET v = m.v FROM m WHERE m.k = t.g");
    assert_eq!(client.value("SELECT v || n FROM t").unwrap(), "one5");
    fleet.ashlar.check_log();
}

#[test]
fn changes_of_the_same_rows_follow_one_another() {
    const CLIENTS: usize = 4;
    const TIMES: usize = 8;
    let (fleet, mut client, _) = two();
    done(&mut client, "INSERT INTO t (k, g) SELECT i, i % 2 + 1 FROM generate_series(1, 40) AS s(i)");
    let clients: Vec<JoinHandle<()>> = (0..CLIENTS)
        .map(|number| {
            let mut client = fleet.client();
            // Rows are found in another order by each.
            let join = if number % 2 == 0 { "m JOIN t AS o ON o.g = m.k" } else { "t AS o JOIN m ON m.k = o.g" };
            let sql = format!("UPDATE t SET n = t.n + 1 FROM {join} WHERE o.k = t.k AND m.v <> ''");
            std::thread::spawn(move || (0..TIMES).for_each(|_| done(&mut client, &sql)))
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    let expected = format!("{0} {0} 40", CLIENTS * TIMES);
    assert_eq!(client.value("SELECT min(n) || ' ' || max(n) || ' ' || count(*) FROM t").unwrap(), expected);
    fleet.ashlar.check_log();
}

#[test]
fn a_change_that_waits_too_long_changes_nothing() {
    let (fleet, mut client, keys) = two();
    for k in &keys {
        done(&mut client, &format!("INSERT INTO t VALUES ({k}, 1, 1, 'a')"));
    }
    let mut locker = fleet.shard(1);
    done(&mut locker, "BEGIN");
    done(&mut locker, "SELECT * FROM t FOR UPDATE");
    let sql = "UPDATE t SET v = m.v FROM m WHERE m.k = t.g";
    for (setting, state) in [("lock_timeout", "55P03"), ("statement_timeout", "57014")] {
        done(&mut client, &format!("SET {setting} = '300ms'"));
        let error = refused(&mut client, sql);
        assert!(error.contains(state), "{error}");
        done(&mut client, &format!("RESET {setting}"));
        let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        assert!(wait_for(PATIENCE, || fleet.shard(1).value(waiting).unwrap() == "0"));
        assert_eq!(client.value("SELECT count(*) FROM t WHERE v = 'a'").unwrap(), "2");
    }
    done(&mut locker, "ROLLBACK");
    done(&mut client, sql);
    assert_eq!(client.value("SELECT count(*) FROM t WHERE v = 'one'").unwrap(), "2");
    fleet.ashlar.check_log();
}

/// A row on each of two shards, behind relays, and a key that each shard would have.
struct Pair {
    shards: Vec<Postgres>,
    member: Member,
    keys: Vec<i64>,
}

impl Pair {
    fn open() -> Pair {
        let shards: Vec<Postgres> = (0..2).map(|_| Postgres::start().unwrap()).collect();
        let member = Member::join(&shards);
        let mut client = member.ashlar.connect();
        done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", member.by("k")));
        done(&mut client, "INSERT INTO t SELECT i, 'old' FROM generate_series(1, 40) AS s(i)");
        let first = |shard: &Postgres| direct(shard).value("SELECT min(k) FROM t").unwrap().parse::<i64>().unwrap();
        let keys = shards.iter().map(first).collect();
        drop(client);
        let pair = Pair { shards, member, keys };
        done(&mut pair.client(), &format!("DELETE FROM t WHERE k NOT IN ({}, {})", pair.keys[0], pair.keys[1]));
        pair
    }

    fn client(&self) -> pg::Connection {
        self.member.ashlar.connect()
    }

    /// What each shard has: keys and texts.
    fn state(&self) -> Vec<String> {
        let all = "SELECT coalesce(string_agg(k || ' ' || v, ',' ORDER BY k), '') FROM t";
        self.shards.iter().map(|shard| direct(shard).value(all).unwrap()).collect()
    }

    fn begin_anew(&self) -> Vec<String> {
        let mut client = self.client();
        done(&mut client, "DELETE FROM t");
        for key in &self.keys {
            done(&mut client, &format!("INSERT INTO t VALUES ({key}, 'old')"));
        }
        wait_until_finished(&self.shards);
        self.state()
    }
}

/// A change of both rows, which no shard finds by itself.
const BOTH: &str = "UPDATE t SET v = 'new' WHERE v IN (SELECT v FROM t AS o WHERE o.k > 0)";

/// The steps of a change: what is sent, how often it has been before, whether its shard has done it; and whether the statement has
/// happened then.
const STEPS: &[(&str, usize, When, bool)] = &[
    ("FOR NO KEY UPDATE OF target", 0, When::Before, false),
    ("FOR NO KEY UPDATE OF target", 1, When::After, false),
    ("AS target SET", 0, When::Before, false),
    ("AS target SET", 0, When::After, false),
    ("AS target SET", 1, When::Before, false),
    ("AS target SET", 1, When::After, false),
    ("INSERT INTO ashlar.decisions", 0, When::Before, false),
    ("INSERT INTO ashlar.decisions", 0, When::After, true),
    ("COMMIT PREPARED", 0, When::Before, true),
];

/// The same where a row goes from the first shard to the second.
const MOVING: &[(&str, usize, When, bool)] = &[
    ("FOR UPDATE OF target", 0, When::After, false),
    ("DELETE FROM public.t AS target", 0, When::Before, false),
    ("DELETE FROM public.t AS target", 0, When::After, false),
    ("OVERRIDING SYSTEM VALUE", 0, When::Before, false),
    ("OVERRIDING SYSTEM VALUE", 0, When::After, false),
    ("PREPARE TRANSACTION", 0, When::After, false),
    ("INSERT INTO ashlar.decisions", 0, When::Before, false),
    ("INSERT INTO ashlar.decisions", 0, When::After, true),
    ("COMMIT PREPARED", 0, When::Before, true),
];

#[test]
fn a_death_at_any_step_of_a_change_leaves_all_or_nothing() {
    let mut pair = Pair::open();
    let (first, second) = (pair.keys[0], pair.keys[1]);
    // The second row makes room for the first, which goes there.
    let moves = format!("UPDATE t SET k = {second}, v = 'new' WHERE k = {first}");
    for (steps, sql, is_move) in [(STEPS, BOTH, false), (MOVING, moves.as_str(), true)] {
        for (text, skip, when, is_decided) in steps.iter().copied() {
            let case = format!("{when:?} {text} {skip}");
            let mut before = pair.begin_anew();
            let mut after = vec![format!("{first} new"), format!("{second} new")];
            if is_move {
                done(&mut pair.client(), &format!("DELETE FROM t WHERE k = {second}"));
                before[1].clear();
                after = vec![String::new(), format!("{second} new")];
            }
            pair.member.wire.set(text, skip, when, Act::Kill);
            let (mut client, sent) = (pair.client(), sql.to_owned());
            let acknowledged = std::thread::spawn(move || client.query(&sent).is_ok()).join().unwrap();
            pair.member.wire.wait();
            pair.member.restart();
            wait_until_finished(&pair.shards);
            let expected = if is_decided { &after } else { &before };
            // What was not promised is undone when its shard notices that nobody is there any more.
            assert!(wait_for(PATIENCE, || pair.state() == *expected), "{case}: {:?}", pair.state());
            assert!(is_decided || !acknowledged, "{case}");
        }
    }
}

#[test]
fn a_row_that_has_gone_is_looked_for_when_it_is_committed_where_it_came() {
    let pair = Pair::open();
    let (first, second) = (pair.keys[0], pair.keys[1]);
    done(&mut pair.client(), &format!("DELETE FROM t WHERE k = {second}"));
    let (mut mover, client) = (pair.client(), pair.client());
    done(&mut mover, "BEGIN");
    done(&mut mover, &format!("UPDATE t SET k = {second} WHERE k = {first}"));
    let changing = beside(client, "UPDATE t SET v = v || 'er' WHERE v IN (SELECT v FROM t AS o WHERE o.k > 0)");
    let waits = |shard: &Postgres, kind: &str| {
        let waiting = format!("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = '{kind}'");
        let mut watcher = direct(shard);
        assert!(wait_for(PATIENCE, || watcher.value(&waiting).unwrap() != "0"), "nobody waits for a {kind}");
    };
    waits(&pair.shards[0], "relation");
    // The shard that the row has left is the first to commit, and the other one has only promised to.
    pair.member.wire.set("COMMIT PREPARED", 0, When::Before, Act::Hold);
    let committing = beside(mover, "COMMIT");
    pair.member.wire.wait();
    waits(&pair.shards[1], "advisory");
    pair.member.wire.release();
    committing.join().unwrap();
    changing.join().unwrap();
    assert_eq!(pair.state(), [String::new(), format!("{second} older")]);
}

#[test]
fn a_shard_that_dies_in_between_takes_the_change_along() {
    let mut pair = Pair::open();
    let moves = format!("UPDATE t SET k = {}, v = 'new' WHERE k = {}", pair.keys[1], pair.keys[0]);
    let cases = [("FOR NO KEY UPDATE", 1, BOTH), ("AS target SET", 1, BOTH), ("OVERRIDING", 0, moves.as_str())];
    for (text, skip, sql) in cases {
        pair.begin_anew();
        if sql == moves {
            done(&mut pair.client(), &format!("DELETE FROM t WHERE k = {}", pair.keys[1]));
        }
        let before = pair.state();
        pair.member.wire.set(text, skip, When::Before, Act::Hold);
        let (mut client, sent) = (pair.client(), sql.to_owned());
        let changing = std::thread::spawn(move || refused(&mut client, &sent));
        pair.member.wire.wait();
        pair.shards[1].signal("QUIT").unwrap();
        pair.shards[1].wait().unwrap();
        pair.member.wire.release();
        let error = changing.join().unwrap();
        assert!(error.contains("08006") || error.contains("57P0"), "{text}: {error}");
        pair.shards[1].start_again().unwrap();
        assert!(wait_for(PATIENCE, || pair.state() == before), "{text}: {:?}", pair.state());
        // And it can be done afterwards.
        assert!(wait_for(PATIENCE, || pair.client().query(sql).is_ok()), "{text}");
        let changed = pair.state();
        assert!(changed[1].ends_with("new") && changed != before, "{text}: {changed:?}");
    }
}
