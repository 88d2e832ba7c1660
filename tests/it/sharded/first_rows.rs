//! The first rows of an order that the engine joins with tables of its own: shards send their own first ones, and not all.

use super::*;

const COLUMNS: &str = "k bigint PRIMARY KEY, n int, s smallint, d numeric(10,2), f float8, day date, at timestamptz, b boolean, v text, c char(3)";

/// Queries of a sharded table and one of this server, and how many rows of the former each shard sends at most.
const BY_SHARDS: &[(&str, usize)] = &[
    (
        "WITH top AS (SELECT * FROM t ORDER BY n, k LIMIT 10) SELECT h.name, top.k, top.day, top.v FROM home h JOIN top ON top.n = h.n",
        10,
    ),
    (
        "WITH top AS (SELECT k, n FROM t ORDER BY n DESC, k LIMIT 20) SELECT h.name, top.* FROM home h RIGHT JOIN top ON top.n = h.n",
        20,
    ),
    ("SELECT h.name, x.* FROM home h, (SELECT k, v FROM t ORDER BY n NULLS FIRST, k DESC LIMIT 8 OFFSET 5) x", 13),
    ("SELECT h.name, x.* FROM home h, (SELECT k FROM t ORDER BY d DESC NULLS LAST, k LIMIT 9) x", 9),
    ("SELECT h.name, x.* FROM home h, (SELECT day, s, k FROM t ORDER BY day, s DESC, k LIMIT 7) x", 7),
    ("SELECT h.name, x.* FROM home h, (SELECT k FROM t ORDER BY b, at DESC, k LIMIT 7) x", 7),
    ("SELECT h.name, x.* FROM home h, (SELECT f, k FROM t ORDER BY f DESC, k LIMIT 6) x", 6),
    ("SELECT h.name, x.* FROM home h, (SELECT v, k FROM t ORDER BY v DESC, k DESC FETCH FIRST 11 ROWS ONLY) x", 11),
    (
        "WITH top AS (SELECT k * 2 AS twice, n AS m, v FROM t WHERE n > 2 AND day >= '2024-01-05' ORDER BY m DESC NULLS LAST, k LIMIT 5) \
         SELECT h.name, top.* FROM home h JOIN top ON top.m = h.n",
        5,
    ),
    (
        "SELECT h.name, (SELECT sum(x.k) FROM (SELECT k FROM t WHERE n IN (1, 4, 7) ORDER BY k DESC LIMIT 3) x) FROM home h",
        3,
    ),
    // Nothing to leave out.
    ("SELECT h.name, x.* FROM home h, (SELECT k FROM t ORDER BY n, k LIMIT 1000) x", 1000),
];

/// The same where all rows are fetched that fulfil what a shard knows of the conditions.
const BY_ROWS: &[&str] = &[
    "SELECT h.name, x.* FROM home h, (SELECT k FROM t ORDER BY n + k, k LIMIT 10) x",
    "SELECT h.name, x.* FROM home h, (SELECT k FROM t ORDER BY c, k LIMIT 10) x",
    "SELECT h.name, x.* FROM home h, (SELECT k FROM t ORDER BY n, k OFFSET 290) x",
    "SELECT h.name, x.* FROM home h, (SELECT k FROM t WHERE abs(s) > 2 ORDER BY n, k LIMIT 10) x",
    "SELECT h.name, x.* FROM home h, (SELECT k FROM t WHERE n > 2 AND v > 'v 3' ORDER BY n, k LIMIT 10) x",
    "SELECT h.name, x.* FROM home h, (SELECT n, max(k) AS last FROM t GROUP BY n ORDER BY n LIMIT 4) x",
];

fn fill(client: &mut pg::Connection) {
    let null = |every: i64, i: i64, text: String| if i % every == 0 { "NULL".to_owned() } else { text };
    let row = |i: i64| {
        let (n, v) = (null(17, i, (i % 11).to_string()), null(6, i, format!("'v {}'", i * 7 % 13)));
        let (d, f) = (null(9, i, format!("{}.25", i * 13 % 97 - 40)), null(40, i, format!("{}.5", i * 31 % 89 - 50)));
        let (day, at) = (i % 28 + 1, format!("'2024-02-{:02} {:02}:30+01'", i * 5 % 28 + 1, i % 24));
        let b = null(50, i, (i % 3 == 0).to_string());
        format!("({i}, {n}, {}, {d}, {f}, '2024-01-{day:02}', {at}, {b}, {v}, 'c{}')", i % 7, i % 3)
    };
    let all: Vec<String> = (0..300).map(row).collect();
    done(client, &format!("INSERT INTO t VALUES {}", all.join(", ")));
    done(client, "CREATE TABLE home (n int PRIMARY KEY, name text)");
    done(client, "INSERT INTO home VALUES (0, 'none'), (3, 'three'), (7, 'seven'), (10, 'ten'), (400, 'many')");
}

/// The only scan of the table in what EXPLAIN says.
fn scan(client: &mut pg::Connection, explain: &str, sql: &str) -> String {
    let plan = rows(client, &format!("{explain} {sql}"));
    let lines = plan.iter().flatten().flatten();
    let scans: Vec<&String> = lines.filter(|line| line.contains("ShardScanExec: table=t,")).collect();
    let [scan] = scans[..] else { panic!("{sql}: {plan:#?}") };
    scan.clone()
}

/// Rows that the scan has had from all shards. Below a thousand they are written in digits alone.
fn rows_read(client: &mut pg::Connection, sql: &str) -> usize {
    let line = scan(client, "EXPLAIN ANALYZE", sql);
    let read = line.split_once("output_rows=").and_then(|(_, read)| read.split([',', ']']).next()?.parse().ok());
    read.unwrap_or_else(|| panic!("{sql}: {line}"))
}

fn assert_same(client: &mut pg::Connection, alone: &mut pg::Connection, what: &str, sql: &str) {
    let (mut found, mut expected) = (rows(client, sql), rows(alone, sql));
    found.sort();
    expected.sort();
    assert_eq!(found, expected, "{what}: {sql}");
}

#[test]
fn shards_send_their_first_rows() {
    for shards in [1, 2, 4] {
        let (fleet, oracle) = (Fleet::start(shards), Postgres::start().unwrap());
        let mut alone = pg::Connection::connect(oracle.address()).unwrap();
        let mut client = fleet.client();
        done(&mut alone, &format!("CREATE TABLE t ({COLUMNS})"));
        done(&mut client, &format!("CREATE TABLE t ({COLUMNS}) {}", fleet.by("k")));
        [&mut alone, &mut client].into_iter().for_each(fill);
        let what = format!("on {shards} shards");
        for (sql, most) in BY_SHARDS {
            let line = scan(&mut client, "EXPLAIN", sql);
            assert!(
                line.contains(", sort=[") && line.contains(&format!(", fetch={most}, remote=SELECT ")),
                "{sql}: {line}"
            );
            assert!(line.contains(" ORDER BY ") && line.ends_with(&format!(" LIMIT {most}")), "{sql}: {line}");
            assert_same(&mut client, &mut alone, &what, sql);
            let read = rows_read(&mut client, sql);
            assert!(read <= (shards * most).min(300), "{read} rows {what}: {sql}");
        }
        for sql in BY_ROWS {
            let line = scan(&mut client, "EXPLAIN", sql);
            assert!(!line.contains("fetch=") && !line.contains(" ORDER BY "), "{sql}: {line}");
            assert_same(&mut client, &mut alone, &what, sql);
        }
        // The keys of a join choose among what the first rows are, and not which rows these are.
        let line = scan(&mut client, "EXPLAIN", BY_SHARDS[0].0);
        assert!(line.contains("sort=[n, k], fetch=10") && !line.contains("keys of joins"), "{line}");
        // What a transaction has written counts, whichever connection reads it.
        for client in [&mut alone, &mut client] {
            done(client, "BEGIN");
            done(
                client,
                "INSERT INTO t (k, n, s, d, f, day, v) VALUES (1000, 0, 5, 99.5, 500, '2023-01-09', 'zzz'), (1001, 0, 5, 99.25, 400, '2023-01-09', 'zz')",
            );
            done(client, "DELETE FROM t WHERE k IN (11, 22, 33)");
        }
        for (sql, _) in BY_SHARDS {
            assert_same(&mut client, &mut alone, &format!("in a transaction {what}"), sql);
        }
        done(&mut client, "ROLLBACK");
        fleet.ashlar.check_log();
    }
}

#[test]
fn any_of_equal_rows_are_the_first_ones() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t ({COLUMNS}) {}", fleet.by("k")));
    fill(&mut client);
    let sql = "SELECT x.n, x.b FROM home h, (SELECT n, b FROM t ORDER BY n DESC NULLS LAST LIMIT 30) x WHERE h.n = 3";
    let mut found: Vec<Option<String>> = rows(&mut client, sql).into_iter().map(|mut row| row.swap_remove(0)).collect();
    found.sort();
    let expected = "SELECT n FROM t WHERE n IS NOT NULL ORDER BY n DESC LIMIT 30";
    let mut expected: Vec<Option<String>> = rows(&mut client, expected).into_iter().flatten().collect();
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(rows_read(&mut client, sql), 60);
    fleet.ashlar.check_log();
}

#[test]
fn texts_are_sorted_by_shards_that_compare_their_bytes() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    for shard in 0..2 {
        let make = "CREATE DATABASE icu LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C.UTF-8' TEMPLATE template0";
        done(&mut fleet.shard(shard), make);
        done(&mut client, &format!("ALTER SERVER s{shard} OPTIONS (SET dbname 'icu')"));
    }
    done(&mut client, &format!("CREATE TABLE t ({COLUMNS}) {}", fleet.by("k")));
    fill(&mut client);
    let first =
        |by: &str| format!("SELECT x.k FROM home h, (SELECT k FROM t ORDER BY {by}, k LIMIT 4) x WHERE h.n = 3");
    let error = refused(&mut client, &first("v"));
    assert!(error.contains("0A000") && error.contains("collation"), "{error}");
    // What is no text has one order on all servers.
    assert_eq!(rows_read(&mut client, &first("day")), 8);
    fleet.ashlar.check_log();
}
