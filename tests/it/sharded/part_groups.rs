//! Groups that the engine puts together with tables of its own: shards send what they have of each, and not the rows.

use super::*;

const COLUMNS: &str = "k bigint PRIMARY KEY, n int, s smallint, d numeric(10,2), f float8, day date, v text, c char(3)";

/// Queries of sharded tables and one of this server, whose groups are the shards'.
const BY_SHARDS: &[&str] = &[
    "SELECT h.name, g.many, g.total FROM home h JOIN (SELECT n, count(*) AS many, sum(s) AS total FROM t GROUP BY n) g ON g.n = h.n",
    "WITH big AS (SELECT n, sum(k) AS a, round(avg(s), 4) AS b, min(day) AS c, max(v) AS d, count(v) AS e FROM t GROUP BY n) \
     SELECT h.name, big.* FROM home h LEFT JOIN big ON big.n = h.n",
    "SELECT h.name, g.* FROM home h JOIN (SELECT v, sum(d) AS a, min(d) AS c, max(d) AS d, max(s) AS e, \
     min(k) AS f FROM t WHERE n > 2 AND v IS NOT NULL AND day >= '2024-01-05' GROUP BY v) g ON g.a > h.n",
    "SELECT h.name, g.* FROM home h JOIN (SELECT v, round(avg(d), 4) AS b FROM t GROUP BY v) g ON g.b > h.n",
    "SELECT h.name, a.a, b.b FROM home h, (SELECT sum(n) AS a FROM t WHERE n IN (1, 4)) a, (SELECT count(*) AS b FROM t) b",
    "SELECT h.name, g.a FROM home h, (SELECT sum(k) AS a FROM t WHERE n > 1000) g",
    "SELECT h.name, g.many FROM home h JOIN (SELECT day, d, n, count(*) AS many FROM t GROUP BY day, d, n) g ON g.n = h.n",
];

/// The same where rows are fetched: a shard might not say of them what is said here.
const BY_ROWS: &[&str] = &[
    "SELECT h.name, g.many FROM home h JOIN (SELECT n, count(DISTINCT v) AS many FROM t GROUP BY n) g ON g.n = h.n",
    "SELECT h.name, g.a FROM home h JOIN (SELECT n, round(sum(f)::numeric, 3) AS a FROM t GROUP BY n) g ON g.n = h.n",
    "SELECT h.name, g.a FROM home h JOIN (SELECT n, count(*) FILTER (WHERE s > 2) AS a FROM t GROUP BY n) g ON g.n = h.n",
    "SELECT h.name, g.a FROM home h JOIN (SELECT n, count(*) AS a FROM t WHERE abs(s) > 2 GROUP BY n) g ON g.n = h.n",
    "SELECT h.name, g.a FROM home h JOIN (SELECT n + 1 AS m, sum(s) AS a FROM t GROUP BY n + 1) g ON g.m = h.n",
    "SELECT h.name, g.a FROM home h JOIN (SELECT c, min(n) AS a FROM t GROUP BY c) g ON g.a = h.n",
    "SELECT h.name, g.a FROM home h JOIN (SELECT n, sum(s * 2) AS a FROM t GROUP BY n) g ON g.n = h.n",
    "SELECT h.name, g.a FROM home h, (SELECT count(*) AS a FROM (SELECT k FROM t LIMIT 7) l) g",
];

fn fill(client: &mut pg::Connection) {
    let null = |every: i64, i: i64, text: String| if i % every == 0 { "NULL".to_owned() } else { text };
    let row = |i: i64| {
        let (n, v, d) =
            (null(17, i, (i % 11).to_string()), format!("'v {}'", i * 7 % 13), format!("{}.25", i * 13 % 97 - 40));
        let (v, d) = (null(6, i, v), null(9, i, d));
        format!("({i}, {n}, {}, {d}, {}.5, '2024-01-{:02}', {v}, 'c{}')", i % 7, i % 5, i % 28 + 1, i % 3)
    };
    let all: Vec<String> = (0..300).map(row).collect();
    done(client, &format!("INSERT INTO t VALUES {}", all.join(", ")));
    done(client, "CREATE TABLE home (n int PRIMARY KEY, name text)");
    done(client, "INSERT INTO home VALUES (0, 'none'), (3, 'three'), (7, 'seven'), (10, 'ten'), (400, 'many')");
}

/// What the table's shards are asked.
fn asked(client: &mut pg::Connection, sql: &str) -> Vec<String> {
    let plan = rows(client, &format!("EXPLAIN {sql}"));
    let lines = plan.into_iter().flatten().flatten();
    lines.filter_map(|line| Some(line.split_once("ShardScanExec: table=t,")?.1.to_owned())).collect()
}

#[test]
fn shards_send_what_they_have_of_each_group() {
    for shards in [2, 3] {
        let (fleet, oracle) = (Fleet::start(shards), Postgres::start().unwrap());
        let mut alone = pg::Connection::connect(oracle.address()).unwrap();
        let mut client = fleet.client();
        done(&mut alone, &format!("CREATE TABLE t ({COLUMNS})"));
        done(&mut client, &format!("CREATE TABLE t ({COLUMNS}) {}", fleet.by("k")));
        [&mut alone, &mut client].into_iter().for_each(fill);
        for (queries, is_by_shards) in [(BY_SHARDS, true), (BY_ROWS, false)] {
            for sql in queries {
                let scans = asked(&mut client, sql);
                let is_grouped = |scan: &String| scan.contains("remote=SELECT ") && scan.contains("pg_catalog.");
                assert!(!scans.is_empty(), "{sql}");
                let plan = rows(&mut client, &format!("EXPLAIN {sql}"));
                assert_eq!(scans.iter().all(is_grouped), is_by_shards, "{sql}: {plan:#?}");
                let (mut found, mut expected) = (rows(&mut client, sql), rows(&mut alone, sql));
                found.sort();
                expected.sort();
                assert_eq!(found, expected, "on {shards} shards: {sql}");
            }
        }
        // What a transaction has written counts, whichever connection reads it.
        for client in [&mut alone, &mut client] {
            done(client, "BEGIN");
            done(client, "INSERT INTO t VALUES (1000, 3, 5, 2.5, 1, '2024-01-09', 'new', 'x')");
            done(client, "DELETE FROM t WHERE k = 7");
        }
        for sql in BY_SHARDS {
            let (mut found, mut expected) = (rows(&mut client, sql), rows(&mut alone, sql));
            found.sort();
            expected.sort();
            assert_eq!(found, expected, "in a transaction on {shards} shards: {sql}");
        }
        done(&mut client, "ROLLBACK");
        fleet.ashlar.check_log();
    }
}

/// A figure of a line of EXPLAIN ANALYZE; below a thousand it is written in digits alone.
fn figure(line: &str, name: &str) -> Option<usize> {
    let written = line.split_once(&format!("{name}="))?.1;
    written.split([',', ']']).next()?.parse().ok()
}

#[test]
fn keys_of_a_join_choose_the_groups_that_shards_make() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t ({COLUMNS}) {}", fleet.by("k")));
    fill(&mut client);
    done(&mut client, "ANALYZE t");
    let sql = "SELECT h.name, g.many FROM home h JOIN (SELECT n, count(*) AS many FROM t WHERE k < 250 GROUP BY n) g ON g.n = h.n";
    let all = rows(&mut client, &format!("{sql} ORDER BY 1"));
    let expected = rows(&mut client, "SELECT n, count(*) FROM t WHERE k < 250 AND n IN (0, 3, 7, 10, 400) GROUP BY n");
    let name = |n: &Option<String>| match n.as_deref() {
        Some("0") => "none",
        Some("3") => "three",
        Some("7") => "seven",
        _ => "ten",
    };
    let mut expected: Vec<Vec<Option<String>>> =
        expected.iter().map(|row| vec![Some(name(&row[0]).to_owned()), row[1].clone()]).collect();
    expected.sort();
    assert_eq!(all, expected);
    // Each of the two shards was sent the five keys, and made no more than the four groups that it has of them.
    let plan = rows(&mut client, &format!("EXPLAIN ANALYZE {sql}"));
    let mut lines = plan.iter().filter_map(|row| row[0].as_deref());
    let scan = lines.find(|line| line.contains("ShardScanExec: table=t,")).unwrap_or_else(|| panic!("{plan:#?}"));
    assert!(scan.contains("keys of joins=[n]"), "{scan}");
    assert_eq!(figure(scan, "keys_sent"), Some(10), "{scan}");
    assert!(figure(scan, "output_rows").is_some_and(|groups| (4..=8).contains(&groups)), "{scan}");
    fleet.ashlar.check_log();
}

#[test]
fn what_a_shard_with_another_column_would_round_is_refused() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t ({COLUMNS}) {}", fleet.by("k")));
    fill(&mut client);
    for (column, before, after, sql) in [
        ("d", "numeric(10,2)", "numeric(12,4)", "SELECT h.name, g.a FROM home h, (SELECT sum(d) AS a FROM t) g"),
        ("d", "numeric(10,2)", "numeric(12,4)", "SELECT h.name, g.a FROM home h, (SELECT min(d) AS a FROM t) g"),
        ("s", "smallint", "numeric(6,1)", "SELECT h.name, g.a FROM home h, (SELECT avg(s) AS a FROM t) g"),
        ("n", "int", "bigint", "SELECT h.name, g.a FROM home h, (SELECT sum(n) AS a FROM t) g"),
        (
            "n",
            "int",
            "bigint",
            "SELECT h.name, g.a FROM home h JOIN (SELECT n, count(*) AS a FROM t GROUP BY n) g ON g.n = h.n",
        ),
    ] {
        let mut expected = rows(&mut client, sql);
        expected.sort();
        let alter = |to: &str| format!("ALTER TABLE t ALTER {column} TYPE {to}");
        done(&mut fleet.shard(1), &alter(after));
        let error = refused(&mut client, sql);
        assert!(error.contains("s1"), "{sql}: {error}");
        done(&mut fleet.shard(1), &alter(before));
        let mut found = rows(&mut client, sql);
        found.sort();
        assert_eq!(found, expected, "{sql}");
    }
    fleet.ashlar.check_log();
}
