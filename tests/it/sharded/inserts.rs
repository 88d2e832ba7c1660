//! INSERT of rows that no shard can compute: the same statements on a fleet and on one PostgreSQL, whose answers must be the same one by
//! one; and what becomes of all rows where one of them fails.

use ashlar_tests::process::{PATIENCE, wait_for};

use super::twins::Twins;
use super::*;
use crate::comparison::{Protocol, ask, bound};

const TABLES: &[(&str, &str, Option<&str>)] = &[
    ("t", "k bigint PRIMARY KEY, g int, v varchar(12), n numeric(12,3) DEFAULT 7.5", Some("k")),
    ("u", "k bigint PRIMARY KEY, w text NOT NULL, many bigint", Some("k")),
    ("m", "k bigint PRIMARY KEY, g int, v varchar(12), n numeric(12,3)", None),
];

/// What `t` has at the end of a block.
const STATE: &str = "SELECT count(*), sum(k), sum(g), sum(n), sum(length(v)) FROM t";

/// Blocks, each of which begins with the rows that the ones before have left.
const BLOCKS: &[&[&str]] = &[
    // Where rows come from.
    &[
        "INSERT INTO t SELECT i, i % 5, 'v' || i, i * 1.5 FROM generate_series(1, 200) AS s(i)",
        STATE,
        "INSERT INTO t SELECT k + 1000, g, v, n FROM t",
        "INSERT INTO t SELECT m.k + 3000, m.g, t.v, t.n FROM m JOIN t ON t.k = m.g + 1",
        "INSERT INTO t (k, v) SELECT k + 5000, v FROM m",
        "INSERT INTO t (v, k) SELECT 'turned', k + 6000 FROM m ORDER BY n LIMIT 7",
        STATE,
        "INSERT INTO u SELECT g, 'group', count(*) FROM t WHERE g >= 0 GROUP BY g",
        "INSERT INTO u (k, w) SELECT t.k + 10000, u.w FROM t JOIN u ON u.k = t.g WHERE t.k < 50",
        "SELECT count(*), sum(k), sum(many), count(many) FROM u",
        "WITH c AS (SELECT k, g FROM t WHERE k < 10) INSERT INTO t SELECT k + 80000, g, 'cte', 0 FROM c",
        "INSERT INTO t SELECT k + 90000, g, v, n FROM m UNION ALL SELECT k + 91000, g, 'union', n FROM m",
        STATE,
    ],
    // Rows of VALUES that are not known before, and defaults among them.
    &[
        "INSERT INTO t VALUES (60000 + 1, 1, 'a', 1), ((SELECT max(k) FROM t) + 100000, 2, 'b', DEFAULT)",
        "INSERT INTO t (k, v) VALUES ((SELECT min(k) FROM m) - 70000, DEFAULT), (-70001 - 1, upper('neg'))",
        "INSERT INTO t (k) VALUES (70000 + length('abc')) RETURNING k, n, v",
        "SELECT k, g, v, n FROM t WHERE k > 100000 OR k < 0 ORDER BY k",
        "INSERT INTO t DEFAULT VALUES",
        STATE,
    ],
    // What comes back, in the order of the query.
    &[
        "INSERT INTO t SELECT k + 200000, g, v, n FROM m ORDER BY k DESC RETURNING k, v, n",
        "INSERT INTO t AS x (k, v) SELECT k + 210000, v FROM m ORDER BY k RETURNING x.k + 1 AS next, upper(x.v), x.n",
        "INSERT INTO t SELECT k + 220000, g, v, n FROM m RETURNING *",
        "INSERT INTO t SELECT * FROM m WHERE k < 0 RETURNING k, n",
        "INSERT INTO t SELECT * FROM m WHERE k < 0",
        "INSERT INTO t SELECT * FROM m WHERE k < 0 RETURNING nothing",
        STATE,
    ],
    // Conflicts.
    &[
        "INSERT INTO t SELECT k + 300000, 1, 'first', 1 FROM m WHERE k < 20",
        "INSERT INTO t SELECT k + 300000, 9, 'again', 1 FROM m WHERE k < 30 ON CONFLICT DO NOTHING",
        "INSERT INTO t SELECT k + 300000, 9, 'again', 1 FROM m WHERE k < 35 ON CONFLICT (k) DO NOTHING RETURNING k",
        "INSERT INTO t AS x SELECT k + 300000, 8, 'more', 2 FROM m \
         ON CONFLICT (k) DO UPDATE SET v = excluded.v || x.g, n = x.n + excluded.n RETURNING x.k, x.v, x.n",
        "INSERT INTO t SELECT k + 300000, 8, 'more', 2 FROM m ON CONFLICT (k) DO UPDATE SET g = 5 WHERE t.n > 2",
        "INSERT INTO t SELECT 300001, g, v, n FROM m WHERE k < 3 ON CONFLICT (k) DO UPDATE SET g = excluded.g",
        "INSERT INTO t SELECT 300001, g, v, n FROM m WHERE k < 3 ON CONFLICT DO NOTHING",
        "INSERT INTO t SELECT * FROM m ON CONFLICT (g) DO NOTHING",
        STATE,
    ],
    // Values that do not fit, and rows that are refused: nothing of the statement stays.
    &[
        "INSERT INTO t SELECT k + 400000, g, v, n FROM m UNION ALL SELECT 5, 1, 'taken', 1",
        "INSERT INTO u (k, w) SELECT k + 400000, CASE WHEN k < 39 THEN 'a' END FROM m",
        "INSERT INTO u (k, many) SELECT k + 400000, k FROM m",
        "INSERT INTO t (k) SELECT CASE WHEN k < 39 THEN k + 400000 END FROM m",
        "INSERT INTO t (k, v) SELECT k + 400000, repeat('x', 13) FROM m",
        "INSERT INTO t (k, v) SELECT k + 400000, 'x' || repeat(' ', 20) FROM m",
        "INSERT INTO t (k, g) SELECT k + 500000, n FROM m",
        "SELECT k, g FROM t WHERE k > 500000 ORDER BY k",
        "INSERT INTO t (k) SELECT k + 600000.5 FROM m",
        "INSERT INTO t (k, g) SELECT k + 700000, 3000000000 FROM m",
        "INSERT INTO t (k, g) SELECT k + 700000, v FROM m",
        "INSERT INTO t (k, g) SELECT k + 700000, 1 / (k - 5) FROM m",
        "INSERT INTO t (k, k) SELECT k, k FROM m",
        "INSERT INTO t (k, nothing) SELECT k, k FROM m",
        "INSERT INTO t (k, g) SELECT k FROM m",
        "INSERT INTO t SELECT k, g, v, n, k FROM m",
        STATE,
        "SELECT count(*), sum(k) FROM u",
    ],
    // Prepared, with parameters in the query and behind it.
    &[
        "PREPARE p (bigint, text) AS INSERT INTO t SELECT k + $1, g, $2, n FROM m",
        "EXECUTE p (800000, 'it''s \\ a')",
        "EXECUTE p (810000, NULL)",
        "EXECUTE p (820000, 'far too long for it')",
        "PREPARE q (bigint, int) AS INSERT INTO t (k, v) SELECT k + $1, v FROM t WHERE k < 6 \
         ON CONFLICT (k) DO UPDATE SET g = $2 RETURNING k, g, v",
        "EXECUTE q (830000, 3)",
        "EXECUTE q (830000, 4)",
        "DEALLOCATE p",
        "DEALLOCATE q",
        STATE,
    ],
    // In blocks.
    &[
        "BEGIN",
        "INSERT INTO t SELECT k + 10000000, g, v, n FROM t",
        STATE,
        "SAVEPOINT a",
        "INSERT INTO t SELECT k + 100000000, g, v, n FROM t",
        STATE,
        "INSERT INTO t SELECT k, g, v, n FROM t WHERE g = 2",
        "SELECT count(*) FROM t",
        "ROLLBACK TO a",
        STATE,
        "INSERT INTO u SELECT k + 20000000, 'of block', 1 FROM t WHERE k > 10000000 AND g = 1",
        "SELECT count(*), sum(k) FROM u",
        "ROLLBACK",
        STATE,
        "BEGIN",
        "DELETE FROM t WHERE k > 1000",
        "INSERT INTO t SELECT k + 2000, g, v, n FROM t",
        "SAVEPOINT a",
        "INSERT INTO t SELECT k + 4000, g, 'not any more', n FROM t",
        "ROLLBACK TO a",
        "COMMIT",
        STATE,
    ],
    &["BEGIN READ ONLY", "INSERT INTO t SELECT k + 1, g, v, n FROM m", "ROLLBACK", STATE],
];

fn inserts_agree(shards: usize, protocol: Protocol) {
    let mut twins = Twins::start(shards, TABLES);
    let values: Vec<String> = (1..40).map(|k| format!("({k}, {}, 'm{k}', {})", k % 7, f64::from(k) * 0.75)).collect();
    twins.done(&format!("INSERT INTO m VALUES {}", values.join(", ")));
    twins.agree(BLOCKS, protocol);
}

#[test]
fn inserts_into_two_shards_are_those_of_one_server() {
    inserts_agree(2, Protocol::Simple);
}

#[test]
fn inserts_into_three_shards_are_those_of_one_server_prepared() {
    inserts_agree(3, Protocol::Extended);
}

/// A fleet of two with `t`, which is sharded by `k`, and `g` in memory with some rows.
fn two() -> (Fleet, pg::Connection) {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    done(&mut client, "CREATE TABLE g (k bigint PRIMARY KEY, v text)");
    done(&mut client, "INSERT INTO g VALUES (1, 'one'), (2, 'two'), (3, NULL), (4, 'it''s \\ four')");
    (fleet, client)
}

fn counts(fleet: &Fleet, table: &str) -> Vec<u64> {
    let count = |shard| fleet.shard(shard).value(&format!("SELECT count(*) FROM {table}")).unwrap();
    (0..fleet.shards.len()).map(|shard| count(shard).parse().unwrap()).collect()
}

#[test]
fn parameters_of_the_protocol_are_read_before_rows_and_behind_them() {
    let (fleet, mut client) = two();
    let sql = "INSERT INTO t SELECT k + $1, v FROM g WHERE k < $2 ORDER BY k RETURNING k, v";
    let (rows, tag) = bound(&mut client, sql, &["10", "3"]).unwrap();
    assert_eq!((rows, tag.as_str()), (vec!["11 one".to_owned(), "12 two".to_owned()], "INSERT 0 2"));
    // Behind them, and in a statement that a shard describes.
    let sql = "INSERT INTO t SELECT k + $1, v FROM t ON CONFLICT (k) DO UPDATE SET v = $2 RETURNING k";
    let (mut rows, tag) = bound(&mut client, sql, &["1", "changed"]).unwrap();
    rows.sort();
    assert_eq!((rows, tag.as_str()), (vec!["12".to_owned(), "13".to_owned()], "INSERT 0 2"));
    assert_eq!(client.value("SELECT v FROM t WHERE k = 12").unwrap(), "changed");
    assert_eq!(client.value("SELECT v FROM t WHERE k = 13").unwrap(), "two");
    let error = bound(&mut client, "INSERT INTO t VALUES ($1::bigint * 2, 'x')", &["no number"]).unwrap_err();
    assert!(error.starts_with("22P02"), "{error}");
    assert_eq!(bound(&mut client, "INSERT INTO t VALUES ($1::bigint * 2, 'x')", &["50"]).unwrap().1, "INSERT 0 1");
    assert_eq!(client.value("SELECT v FROM t WHERE k = 100").unwrap(), "x");
    assert_eq!(counts(&fleet, "t").iter().sum::<u64>(), 4);
    fleet.ashlar.check_log();
}

#[test]
fn many_rows_are_divided_and_come_back_in_their_order() {
    let (fleet, mut client) = two();
    let rows = rows(
        &mut client,
        "INSERT INTO t SELECT i, repeat('x', i % 90) FROM generate_series(1, 10000) AS s(i) ORDER BY i RETURNING k",
    );
    let found: Vec<i64> = rows.into_iter().map(|row| row[0].as_ref().unwrap().parse().unwrap()).collect();
    assert_eq!(found, (1..=10000).collect::<Vec<i64>>());
    let counts = counts(&fleet, "t");
    assert!(counts.iter().all(|count| *count > 1000) && counts.iter().sum::<u64>() == 10000, "{counts:?}");
    assert_eq!(client.value("SELECT sum(k) FROM t").unwrap(), "50005000");
    // Its own rows are not among those that it reads.
    let copied = ask(&mut client, "INSERT INTO t SELECT k + 10000, v FROM t", Protocol::Simple);
    assert!(copied.error.is_none(), "{copied:?}");
    assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "20000");
    fleet.ashlar.check_log();
}

#[test]
fn a_constraint_that_is_checked_at_the_end_sees_all_rows_of_its_shard() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    let columns = "g bigint, k bigint, parent bigint, PRIMARY KEY (g, k)";
    done(&mut client, &format!("CREATE TABLE tree ({columns}) {}", fleet.by("g")));
    for shard in 0..2 {
        done(&mut fleet.shard(shard), "ALTER TABLE tree ADD FOREIGN KEY (g, parent) REFERENCES tree (g, k)");
    }
    // Each row comes before its parent.
    done(
        &mut client,
        "INSERT INTO tree SELECT i % 4, i, CASE WHEN i <= 2000 THEN i + 4 END FROM generate_series(1, 2004) AS s(i) \
         ORDER BY i",
    );
    assert_eq!(client.value("SELECT count(*) FROM tree").unwrap(), "2004");
    let error = refused(&mut client, "INSERT INTO tree SELECT i % 4, i + 3000, 0 FROM generate_series(1, 9) AS s(i)");
    assert!(error.contains("23503"), "{error}");
    assert_eq!(counts(&fleet, "tree").iter().sum::<u64>(), 2004);
    fleet.ashlar.check_log();
}

#[test]
fn rows_beyond_what_one_statement_takes_follow_in_others() {
    let (fleet, mut client) = two();
    let found = rows(
        &mut client,
        "INSERT INTO t SELECT i, repeat('x', 50000) FROM generate_series(1, 240) AS s(i) ORDER BY i RETURNING k",
    );
    let found: Vec<i64> = found.into_iter().map(|row| row[0].as_ref().unwrap().parse().unwrap()).collect();
    assert_eq!(found, (1..=240).collect::<Vec<i64>>());
    assert_eq!(client.value("SELECT count(*) FROM t WHERE length(v) = 50000").unwrap(), "240");
    // 4 MiB are about 84 of these rows.
    let counts = counts(&fleet, "t");
    assert!(counts.iter().any(|count| *count > 84), "{counts:?}");
    fleet.ashlar.check_log();
}

#[test]
fn rows_with_parameters_come_from_servers_that_have_another_table_only() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    for (name, server) in [("here", "s0"), ("there", "s1")] {
        let with = format!("USING sharded WITH (servers = '{server}', single)");
        done(&mut client, &format!("CREATE TABLE {name} (k bigint PRIMARY KEY, v text) {with}"));
    }
    done(&mut client, "INSERT INTO there VALUES (1, 'one'), (2, 'two')");
    let sql = "INSERT INTO here SELECT k + $1, v FROM there WHERE k < $2";
    assert_eq!(bound(&mut client, sql, &["10", "2"]).unwrap().1, "INSERT 0 1");
    assert_eq!(bound(&mut client, sql, &["20", "3"]).unwrap().1, "INSERT 0 2");
    assert_eq!(client.value("SELECT sum(k) FROM here").unwrap(), "54");
    fleet.ashlar.check_log();
}

#[test]
fn long_parameters_behind_the_rows_reach_their_shards() {
    let (fleet, mut client) = two();
    let long = "'\\".repeat(100_000);
    let sql = "INSERT INTO t SELECT k, v FROM g ON CONFLICT (k) DO UPDATE SET v = $1 RETURNING k";
    for _ in 0..2 {
        let (rows, tag) = bound(&mut client, sql, &[&long]).unwrap();
        assert_eq!((rows.len(), tag.as_str()), (4, "INSERT 0 4"));
    }
    assert_eq!(client.value("SELECT count(*) FROM t WHERE length(v) = 200000").unwrap(), "4");
    fleet.ashlar.check_log();
}

#[test]
fn rows_that_do_not_fit_into_memory_are_inserted_nowhere() {
    let (fleet, mut client) = two();
    done(&mut client, "SET query_memory_max = '1MB'");
    let sql = "INSERT INTO t SELECT i, repeat('x', 20000) FROM generate_series(1, 300) AS s(i)";
    let error = refused(&mut client, sql);
    assert!(error.contains("53200"), "{error}");
    assert_eq!(counts(&fleet, "t"), [0, 0]);
    done(&mut client, "RESET query_memory_max");
    done(&mut client, sql);
    assert_eq!(client.value("SELECT count(*) FROM t WHERE length(v) = 20000").unwrap(), "300");
    fleet.ashlar.check_log();
}

#[test]
fn one_row_that_is_there_already_keeps_all_others_out() {
    let (fleet, mut client) = two();
    let keys = fleet.keys("t");
    for key in keys {
        done(&mut client, &format!("INSERT INTO t VALUES ({key}, 'there')"));
        let sql = format!(
            "INSERT INTO t SELECT i + 1000, 'new' FROM generate_series(1, 100) AS s(i) UNION ALL SELECT {key}, 'new'"
        );
        let error = refused(&mut client, &sql);
        assert!(error.contains("23505") && error.contains(&format!("Key (k)=({key})")), "{error}");
        assert!(error.contains("shard s"), "{error}");
        assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "1");
        done(&mut client, "TRUNCATE t");
    }
    fleet.ashlar.check_log();
}

#[test]
fn a_statement_that_is_stopped_inserts_nothing() {
    let (fleet, mut client) = two();
    for shard in 0..2 {
        let mut locker = fleet.shard(shard);
        done(&mut locker, "BEGIN");
        done(&mut locker, "LOCK TABLE t");
        done(&mut client, "SET statement_timeout = '300ms'");
        let error = refused(&mut client, "INSERT INTO t SELECT i, 'x' FROM generate_series(1, 1000) AS s(i)");
        assert!(error.contains("57014"), "{error}");
        // And while rows are read.
        let error = refused(&mut client, "INSERT INTO t SELECT k + 1, v FROM t");
        assert!(error.contains("57014"), "{error}");
        let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        assert!(wait_for(PATIENCE, || fleet.shard(shard).value(waiting).unwrap() == "0"));
        done(&mut locker, "ROLLBACK");
        done(&mut client, "RESET statement_timeout");
        assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "0");
    }
    fleet.ashlar.check_log();
}

#[test]
fn copies_are_the_same_and_keys_are_made() {
    let (fleet, mut client) = two();
    let servers = fleet.servers();
    let with = |options: &str| format!("USING sharded WITH (servers = '{servers}', {options})");
    done(&mut client, &format!("CREATE TABLE b (k bigint PRIMARY KEY, v text, x float8) {}", with("broadcast")));
    done(&mut client, "CREATE TABLE s (k bigint PRIMARY KEY, v text) USING sharded WITH (servers = 's1', single)");
    // Computed once, whatever each server would make of it.
    let copied = rows(&mut client, "INSERT INTO b SELECT k, v, random() FROM g ORDER BY k RETURNING k");
    assert_eq!(copied.len(), 4);
    let all = "SELECT string_agg(k || coalesce(v, '-') || x, ',' ORDER BY k) FROM b";
    assert_eq!(fleet.shard(0).value(all).unwrap(), fleet.shard(1).value(all).unwrap());
    done(&mut client, "INSERT INTO b SELECT k, 'again' FROM g ON CONFLICT (k) DO UPDATE SET v = excluded.v");
    assert_eq!(fleet.shard(0).value(all).unwrap(), fleet.shard(1).value(all).unwrap());
    let error = refused(&mut client, "INSERT INTO b SELECT k, v FROM g");
    assert!(error.contains("23505"), "{error}");
    assert_eq!(counts(&fleet, "b"), [4, 4]);
    // A default that each server would compute is set in no copy.
    done(
        &mut client,
        &format!("CREATE TABLE d (k bigint PRIMARY KEY, u uuid DEFAULT gen_random_uuid()) {}", with("broadcast")),
    );
    done(&mut client, "INSERT INTO d SELECT k, gen_random_uuid() FROM g");
    for sql in [
        "INSERT INTO d SELECT k, gen_random_uuid() FROM g ON CONFLICT (k) DO UPDATE SET u = DEFAULT",
        "INSERT INTO d SELECT k, gen_random_uuid() FROM g ON CONFLICT (k) DO UPDATE SET (u, k) = (DEFAULT, d.k)",
    ] {
        let error = refused(&mut client, sql);
        assert!(error.contains("0A000"), "{sql}\n{error}");
    }
    done(&mut client, "INSERT INTO d SELECT k, gen_random_uuid() FROM g ON CONFLICT (k) DO UPDATE SET u = excluded.u");
    let all = "SELECT string_agg(k || '=' || u, ',' ORDER BY k) FROM d";
    assert_eq!(fleet.shard(0).value(all).unwrap(), fleet.shard(1).value(all).unwrap());
    done(&mut client, "INSERT INTO s SELECT k, v FROM g");
    assert_eq!(client.value("SELECT v FROM s WHERE k = 4").unwrap(), "it's \\ four");
    assert_eq!(fleet.shard(1).value("SELECT count(*) FROM s").unwrap(), "4");
    for (name, columns, key) in
        [("flakes", "id bigint PRIMARY KEY, v text", "snowflake"), ("ids", "id uuid PRIMARY KEY, v text", "uuidv7")]
    {
        let made = with(&format!("algorithm = 'hash_mod', key_generator = '{key}'"));
        done(&mut client, &format!("CREATE TABLE {name} ({columns}) PARTITION BY HASH (id) {made}"));
        let many = rows(
            &mut client,
            &format!("INSERT INTO {name} (v) SELECT 'v' || i FROM generate_series(1, 100) AS s(i) RETURNING id"),
        );
        assert_eq!(many.len(), 100, "{name}");
        done(&mut client, &format!("INSERT INTO {name} VALUES (DEFAULT, upper('a')), (DEFAULT, lower('B'))"));
        assert_eq!(client.value(&format!("SELECT count(DISTINCT id) FROM {name}")).unwrap(), "102");
        // Each is where it is looked for.
        let id = many[50][0].as_ref().unwrap();
        assert_eq!(client.value(&format!("SELECT count(*) FROM {name} WHERE id = '{id}'")).unwrap(), "1");
    }
    fleet.ashlar.check_log();
}

#[test]
fn explain_says_who_reads_and_how_rows_are_divided() {
    let (fleet, mut client) = two();
    for sql in [
        "INSERT INTO t SELECT k + 1, v FROM t",
        "INSERT INTO t SELECT k, v FROM g",
        "INSERT INTO t VALUES (length('abc'), 'x')",
        "INSERT INTO t VALUES (1, 'x'), (2, (SELECT max(v) FROM t))",
    ] {
        let lines = rows(&mut client, &format!("EXPLAIN (ROUTE) {sql}"));
        let first = lines[0][0].as_ref().unwrap();
        assert!(first.contains("engine") && first.contains("divided by (k)"), "{sql}: {lines:?}");
    }
    assert_eq!(counts(&fleet, "t"), [0, 0]);
    // What shards can do by themselves they do.
    let lines = format!("{:?}", rows(&mut client, "EXPLAIN (ROUTE) INSERT INTO t SELECT * FROM t"));
    assert!(lines.contains("Route: all shards"), "{lines}");
    fleet.ashlar.check_log();
}

#[test]
fn explaining_a_prepared_insert_changes_nothing_about_how_it_is_run() {
    let (fleet, mut client) = two();
    done(&mut client, "INSERT INTO t VALUES (1, 'one'), (2, 'two')");
    done(&mut client, "PREPARE q (bigint, text) AS INSERT INTO t SELECT k + $1, $2 FROM t WHERE k < 3");
    let error = refused(&mut client, "EXPLAIN EXECUTE q (10, 'x')");
    assert!(error.contains("0A000") && error.contains("parameters"), "{error}");
    done(&mut client, "EXECUTE q (10, 'x')");
    done(&mut client, "EXECUTE q (20, NULL)");
    assert_eq!(client.value("SELECT sum(k) FROM t").unwrap(), "69");
    assert_eq!(client.value("SELECT count(v) FROM t").unwrap(), "4");
    fleet.ashlar.check_log();
}

#[test]
fn tables_with_other_names_on_the_shards_get_their_rows() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    let servers = fleet.servers();
    let with = format!("USING sharded WITH (servers = '{servers}', shards = '4', algorithm = 'hash_mod')");
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) PARTITION BY HASH (k) {with}"));
    done(&mut client, "INSERT INTO t SELECT i, 'v' FROM generate_series(1, 100) AS s(i)");
    let changed = rows(
        &mut client,
        "INSERT INTO t SELECT k + 50, 'w' FROM t ORDER BY k \
         ON CONFLICT (k) DO UPDATE SET v = t.v || excluded.v RETURNING t.k, t.v",
    );
    let expected: Vec<Vec<Option<String>>> =
        (51..=150).map(|k| vec![Some(k.to_string()), Some(if k <= 100 { "vw" } else { "w" }.to_owned())]).collect();
    assert_eq!(changed, expected);
    for table in ["t_0", "t_1", "t_2", "t_3"] {
        let shard = usize::from(!matches!(table, "t_0" | "t_2"));
        assert_ne!(fleet.shard(shard).value(&format!("SELECT count(*) FROM {table}")).unwrap(), "0", "{table}");
    }
    assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "150");
    fleet.ashlar.check_log();
}

#[test]
fn constraints_have_the_names_that_they_have_here() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    let servers = fleet.servers();
    let with = format!("USING sharded WITH (servers = '{servers}', shards = '4', algorithm = 'hash_mod')");
    let columns = "k bigint, v text, CONSTRAINT kept PRIMARY KEY (k), CONSTRAINT pair UNIQUE (k, v)";
    done(&mut client, &format!("CREATE TABLE t ({columns}) PARTITION BY HASH (k) {with}"));
    done(&mut client, &format!("CREATE TABLE u (k bigint PRIMARY KEY, v text) PARTITION BY HASH (k) {with}"));
    done(&mut client, "INSERT INTO t SELECT i, 'v' FROM generate_series(1, 20) AS s(i)");
    for is_first in [true, false] {
        // Of one shard, of several, and rows that the engine computes.
        for rows in
            ["VALUES (1, 'w')", "VALUES (1, 'w'), (2, 'w'), (3, 'w'), (4, 'w')", "SELECT k + 0, v || 'w' FROM t"]
        {
            done(
                &mut client,
                &format!("INSERT INTO t {rows} ON CONFLICT ON CONSTRAINT kept DO UPDATE SET v = excluded.v"),
            );
        }
        done(&mut client, "INSERT INTO t SELECT k, v FROM t WHERE k = 5 on conflict ON CONSTRAINT \"pair\" DO NOTHING");
        done(&mut client, "INSERT INTO u VALUES (7, 'x') ON CONFLICT ON CONSTRAINT u_pkey DO NOTHING");
        let expected = if is_first { "ww ww ww ww vw" } else { "ww ww ww ww vww" };
        let values = "SELECT string_agg(v, ' ' ORDER BY k) FROM t WHERE k < 6";
        assert_eq!(client.value(values).unwrap(), expected);
        assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "20");
    }
    let unknown = refused(&mut client, "INSERT INTO t VALUES (1, 'w') ON CONFLICT ON CONSTRAINT nothing DO NOTHING");
    assert!(unknown.starts_with("42704"), "{unknown}");
    let fleet = fleet.restart();
    let mut client = fleet.client();
    done(&mut client, "INSERT INTO t VALUES (1, 'y') ON CONFLICT ON CONSTRAINT kept DO UPDATE SET v = excluded.v");
    done(&mut client, "ALTER TABLE t DROP CONSTRAINT pair");
    done(&mut client, "ALTER TABLE t ADD CONSTRAINT other UNIQUE (v, k)");
    done(&mut client, "INSERT INTO t VALUES (1, 'y') ON CONFLICT ON CONSTRAINT other DO NOTHING");
    let gone = refused(&mut client, "INSERT INTO t VALUES (1, 'y') ON CONFLICT ON CONSTRAINT pair DO NOTHING");
    assert!(gone.starts_with("42704"), "{gone}");
    assert_eq!(client.value("SELECT v FROM t WHERE k = 1").unwrap(), "y");
    fleet.ashlar.check_log();
}

#[test]
fn rows_of_a_table_on_one_server_are_computed_from_all_shards() {
    let fleet = Fleet::start(3);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    done(&mut client, "CREATE TABLE s (k bigint PRIMARY KEY, v text) USING sharded WITH (servers = 's1', single)");
    done(&mut client, "INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 30) AS n(i)");
    done(&mut client, "INSERT INTO s VALUES (1, (SELECT count(*)::text FROM t))");
    assert_eq!(client.value("SELECT v FROM s").unwrap(), "30");
    // What cannot be computed before is not computed by the one server from what it has.
    for sql in [
        "INSERT INTO s VALUES (2, 'x') RETURNING (SELECT count(*) FROM t)",
        "INSERT INTO s VALUES (1, 'x') ON CONFLICT (k) DO UPDATE SET v = (SELECT count(*)::text FROM t)",
    ] {
        assert!(refused(&mut client, sql).starts_with("0A000"), "{sql}");
    }
    assert_eq!(client.value("SELECT string_agg(v, ',') FROM s").unwrap(), "30");
    for k in 1..=30 {
        done(&mut client, &format!("INSERT INTO s VALUES (100 + {k}, (SELECT v FROM t WHERE k = {k}))"));
    }
    assert_eq!(client.value("SELECT count(*) FROM s WHERE v = 'v' || (k - 100)").unwrap(), "30");
    // Where one shard has the row and what it is computed from, that shard does it.
    done(
        &mut client,
        "INSERT INTO t VALUES (7, 'x') ON CONFLICT (k) DO UPDATE SET v = (SELECT v || '!' FROM t WHERE k = 7)",
    );
    assert_eq!(client.value("SELECT v FROM t WHERE k = 7").unwrap(), "v7!");
    fleet.ashlar.check_log();
}

#[test]
fn a_key_goes_where_it_is_looked_for_once_its_column_has_cut_it() {
    let fleet = Fleet::start(3);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE n (k varchar(4) PRIMARY KEY, v int) {}", fleet.by("k")));
    done(&mut client, &format!("CREATE TABLE w (k text PRIMARY KEY, v int) {}", fleet.by("k")));
    let keys: Vec<String> = (b'a'..=b'l').map(|letter| format!("{}z", char::from(letter))).collect();
    // Blanks beyond the fourth character are left out by a varchar(4), and kept by a text.
    let long = |key: &String| format!("{key}       ");
    let rows: Vec<String> = keys.iter().map(|key| format!("('{}', 1)", long(key))).collect();
    done(&mut client, &format!("INSERT INTO w VALUES {}", rows.join(", ")));
    let all = [
        rows.iter().map(|row| format!("INSERT INTO n VALUES {row}")).collect(),
        vec![format!("INSERT INTO n VALUES {}", rows.join(", "))],
        keys.iter().map(|key| format!("INSERT INTO n SELECT '{}', 1", long(key))).collect(),
        vec!["INSERT INTO n SELECT k, v FROM w".to_owned()],
        keys.iter()
            .map(|key| format!("INSERT INTO n SELECT k, v FROM w WHERE k = '{}'", long(key)))
            .collect::<Vec<_>>(),
        Vec::new(),
    ];
    for statements in all {
        statements.iter().for_each(|sql| done(&mut client, sql));
        if statements.is_empty() {
            for key in &keys {
                bound(&mut client, "INSERT INTO n VALUES ($1, 1)", &[&long(key)]).unwrap();
            }
        }
        for key in &keys {
            let found = client.value(&format!("SELECT count(*) FROM n WHERE k = '{key}  '")).unwrap();
            assert_eq!(found, "1", "'{key}' after {statements:?}");
        }
        assert_eq!(client.value("SELECT count(*) FROM n").unwrap(), keys.len().to_string());
        done(&mut client, "DELETE FROM n");
    }
    let error = refused(&mut client, "INSERT INTO n VALUES ('ab   c', 1)");
    assert!(error.starts_with("22001"), "{error}");
    fleet.ashlar.check_log();
}

/// A statement with one parameter of a declared type: the command tag, or SQLSTATE and message.
fn declared(client: &mut pg::Connection, sql: &str, oid: u32, value: &str) -> String {
    let length = u32::try_from(value.len()).unwrap().to_be_bytes();
    let types = [&1_u16.to_be_bytes()[..], &oid.to_be_bytes()].concat();
    let mut bytes = pg::message(b'P', &[b"\0", sql.as_bytes(), b"\0", &types]);
    bytes.extend(pg::message(b'B', &[b"\0\0", &[0, 0, 0, 1], &length, value.as_bytes(), &[0, 0]]));
    bytes.extend(pg::message(b'E', &[b"\0", &[0; 4]]));
    bytes.extend(pg::message(b'S', &[]));
    client.send(&bytes).unwrap();
    let mut told = String::new();
    loop {
        let message = client.read().unwrap_or_else(|error| panic!("{sql}\n{error:#}"));
        match message.kind {
            b'C' => told = String::from_utf8_lossy(&message.body).trim_end_matches('\0').to_owned(),
            b'E' => told = message.field(b'C').unwrap_or_default(),
            b'Z' => return told,
            _ => {}
        }
    }
}

#[test]
fn a_key_may_be_given_as_a_value_of_another_type() {
    let fleet = Fleet::start(2);
    let oracle = Postgres::start().unwrap();
    let mut alone = pg::Connection::connect(oracle.address()).unwrap();
    let mut client = fleet.client();
    for (name, key) in [("z", "timestamptz"), ("d", "date"), ("n", "bigint")] {
        let sql = format!("CREATE TABLE {name} (k {key} PRIMARY KEY, v int)");
        done(&mut alone, &sql);
        done(&mut client, &format!("{sql} {}", fleet.by("k")));
    }
    for zone in ["UTC", "America/New_York"] {
        // A time without a zone, as drivers send it, a date, a number with decimals, and what is none.
        for (table, oid, value) in [
            ("z", 1114, "2024-02-05 04:05:06.25"),
            ("z", 1082, "2024-02-07"),
            ("d", 1114, "2024-02-05 23:00"),
            ("n", 1700, "5.4"),
            ("n", 23, "6"),
            ("n", 0, "seven"),
        ] {
            let insert = format!("INSERT INTO {table} VALUES ($1, 1) ON CONFLICT (k) DO NOTHING");
            let found = format!("SELECT * FROM {table} ORDER BY k");
            let [expected, told] = [&mut alone, &mut client].map(|client| {
                done(client, &format!("SET TimeZone = '{zone}'"));
                (declared(client, &insert, oid, value), rows(client, &found))
            });
            assert_eq!(told, expected, "{insert} with '{value}' of type {oid}");
        }
    }
    assert_eq!(client.value("SELECT v FROM n WHERE k = 5").unwrap(), "1");
    assert_eq!(client.value("SELECT v FROM z WHERE k = '2024-02-05 04:05:06.25+00'").unwrap(), "1");
    fleet.ashlar.check_log();
}
