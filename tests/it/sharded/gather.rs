//! Rows of several shards put together without the engine: sorted, counted off, added, or one after the other.

use ashlar_tests::process::{PATIENCE, wait_for};
use tokio_postgres::NoTls;

use super::*;

const COLUMNS: &str = "k bigint PRIMARY KEY, n int, s smallint, d numeric(12,3), f float8, day date, at timestamptz, \
                       b boolean, u uuid, v text, c text COLLATE \"C\", j json";

/// What shards answer and nobody plans again, whether it is sorted by itself.
const STATEMENTS: &[&str] = &[
    "SELECT * FROM t ORDER BY k",
    "SELECT k, v, j FROM t ORDER BY n DESC, k",
    "SELECT k FROM t ORDER BY n NULLS FIRST, k DESC",
    "SELECT v FROM t ORDER BY d DESC NULLS LAST, k LIMIT 7",
    "SELECT k, n + 1 AS next FROM t ORDER BY abs(n), k LIMIT 9 OFFSET 4",
    "SELECT k FROM t ORDER BY day, at DESC, k OFFSET 30",
    "SELECT k, f FROM t ORDER BY f, k LIMIT 1000",
    "SELECT k, b, u FROM t ORDER BY b, u, k",
    "SELECT k FROM t ORDER BY v COLLATE \"C\", k LIMIT 20",
    "SELECT k FROM t WHERE n > 3 AND v <> 'x' ORDER BY k LIMIT 3",
    "SELECT k FROM t WHERE n > 1000 ORDER BY k",
    "SELECT k FROM t ORDER BY k LIMIT 0",
    "SELECT k FROM t ORDER BY k LIMIT 5 OFFSET 500",
    "SELECT count(*) FROM t",
    "SELECT count(*), count(n), sum(n), sum(k), sum(s), sum(d), min(day), max(at), min(f), max(d) FROM t",
    "SELECT count(*), sum(n), min(k) FROM t WHERE n > 1000",
    "SELECT k, j, v FROM t WHERE n < 9",
    "SELECT * FROM t",
    "SELECT a.k, b.n FROM t a JOIN t b ON a.k = b.k ORDER BY a.k LIMIT 12",
    "SELECT n, count(*), sum(k), min(day), max(d), sum(d), min(v), bool_and(b), bool_or(b) FROM t GROUP BY n",
    "SELECT s, v, count(k) AS many FROM t GROUP BY s, v ORDER BY many DESC, s, v NULLS FIRST LIMIT 5 OFFSET 2",
    "SELECT count(*) FROM t GROUP BY t.u",
    "SELECT day, at, b, sum(n) FROM t GROUP BY 1, 2, 3 ORDER BY 4 DESC NULLS LAST, 1, 2, 3",
    "SELECT a.n, count(*) FROM t a JOIN t b ON a.k = b.k GROUP BY a.n ORDER BY 1",
    "SELECT k % 7 AS r, sum(n) FILTER (WHERE b) FROM t WHERE k > 5 GROUP BY 1 ORDER BY r DESC LIMIT 3",
    "SELECT n, max(f) FROM t WHERE n > 1000 GROUP BY n",
    "SELECT n, avg(k), avg(n), avg(s), avg ( d * 3 ), avg(k * 100000) FROM t GROUP BY n",
    "SELECT avg(n), avg(d), avg(k), avg(s), count(*), avg(n * d) AS r FROM t WHERE k > 3",
    "SELECT avg(n), count(*) FROM t WHERE n > 1000",
    "SELECT n, bit_and(s), bit_or(k), bit_xor(n) FROM t GROUP BY n",
    "SELECT bit_and(n), bit_or(s) FILTER (WHERE b), bit_xor(k), bit_or(k) FILTER (WHERE n > 1000) FROM t",
    "SELECT s, avg(d) AS a FROM t GROUP BY s, b ORDER BY a DESC NULLS LAST, s LIMIT 4",
    "SELECT n FROM t GROUP BY n ORDER BY n LIMIT 0",
    "SELECT min(v::char(6)), max(v::char(6)) FROM t",
    "SELECT v::char(6) AS ch, k FROM t ORDER BY ch NULLS FIRST, k LIMIT 9",
    "SELECT k FROM t ORDER BY n USING > NULLS LAST, k OFFSET 2 ROWS FETCH NEXT 7 ROWS ONLY",
    "SELECT n, count(*) FROM t GROUP BY n ORDER BY n FETCH FIRST ROW ONLY",
    "SELECT n FROM t ORDER BY n DESC NULLS LAST FETCH FIRST 4 ROWS WITH TIES",
    "SELECT s FROM t WHERE n > 3 ORDER BY s OFFSET 3 FETCH FIRST ROW WITH TIES",
    "SELECT *, d AS other FROM t ORDER BY day, at DESC, k OFFSET 30",
    "SELECT d, count(*) FROM t GROUP BY d ORDER BY d",
    "SELECT n, avg(DISTINCT k), count(DISTINCT k) FROM t GROUP BY n ORDER BY n",
    "SELECT n, count(DISTINCT s), count(*), sum(DISTINCT s), avg(DISTINCT d) FROM t GROUP BY n ORDER BY n",
    "SELECT count(DISTINCT n), count(DISTINCT v) FILTER (WHERE b), sum(DISTINCT d), count(*) FROM t",
    "SELECT count(DISTINCT n), sum(DISTINCT n), max(k) FROM t WHERE n > 1000",
    "SELECT n, count(*) FROM t GROUP BY n HAVING count(*) > 4 ORDER BY n",
    "SELECT n FROM t GROUP BY n HAVING avg(k) > 40.5 AND NOT (max(d) < 3 OR count(b) = 0) ORDER BY count(*) DESC, n LIMIT 3",
    "SELECT count(*), sum(n) FROM t HAVING count(*) > 1000",
    "SELECT n, max(day) FROM t GROUP BY n HAVING max(day) > '2024-01-05' AND min(at) <> timestamptz '2024-01-03 10:00+02' ORDER BY n",
    "SELECT v, count(*) FROM t GROUP BY v HAVING v IN ('v 1', 'v 7') OR min(f) < -2 OR min(f) IS NULL ORDER BY v",
    "SELECT n FROM t GROUP BY n HAVING max(v) >= 'v 5' AND bool_or(b) = true AND max(f) BETWEEN -3.5 AND sum(k) ORDER BY n",
    "SELECT n % 2 AS half, count(*) FROM t GROUP BY half ORDER BY half",
    "SELECT upper(v), 'x' AS what, count(*) FROM t GROUP BY upper(v) ORDER BY upper(v)",
    "SELECT n, n * 2 AS twice, avg(k) FILTER (WHERE b) FROM t GROUP BY n ORDER BY n DESC LIMIT 4 OFFSET 1",
    "SELECT n, s, sum(k) FROM t GROUP BY n, s ORDER BY s, n NULLS FIRST LIMIT 9 OFFSET 3",
    "SELECT n, count(*) FROM t GROUP BY n HAVING count(*) * 2 > 8 ORDER BY n",
    "SELECT n, count(*) + 1 FROM t GROUP BY n ORDER BY n",
    "SELECT n, sum(k) / count(*), sum(n) / count(*), round(avg(d), 2), sum(n)::float8 / count(*), sum(s) % 4 FROM t GROUP BY n",
    "SELECT sum(n) * 100.0 / sum(k), avg(n)::numeric(7, 3) AS a, coalesce(sum(d), 0) - 1, nullif(count(b), 0), -max(f) FROM t",
    "SELECT coalesce(sum(n), 0), round(avg(n), 2), sum(n) / count(n) FROM t WHERE n > 1000 HAVING count(n) > 0",
    "SELECT s, sum(k) / nullif(count(b) - 11, 0) FROM t GROUP BY s ORDER BY sum(k) / nullif(count(b) - 11, 0) DESC NULLS LAST, s",
    "SELECT n, count(DISTINCT s) * 2 FROM t GROUP BY n ORDER BY sum(k) - count(*), -n LIMIT 4 OFFSET 1",
    "SELECT n, CASE WHEN count(b) = 0 THEN 0 ELSE sum(k) / count(b) END, greatest(sum(n), 3), trunc(sum(d), 1), abs(sum(n)) FROM t GROUP BY n",
    "SELECT n FROM t GROUP BY n HAVING sum(k) / count(*) > 40 AND round(avg(d)) BETWEEN -3 AND 4 OR n * 2 IN (count(*), 6) ORDER BY n",
    "SELECT n, stddev(k), variance(d), stddev_pop(s), var_pop(n), stddev_samp(k * d) FILTER (WHERE b) FROM t GROUP BY n",
    "SELECT variance(n), stddev(d), var_samp(k), round(stddev_pop(k), 3), stddev(n) FILTER (WHERE n > 1000) FROM t HAVING stddev(k) > 1",
    "SELECT s, n, count(*), sum(k), avg(n), grouping(s, n) FROM t GROUP BY ROLLUP (s, n)",
    "SELECT s, b, max(v), grouping(b) + 1 AS level FROM t GROUP BY CUBE (s, b) ORDER BY grouping(s), 4, s, b LIMIT 9 OFFSET 2",
    "SELECT n, s, sum(k) / count(*) FROM t WHERE n > 1000 GROUP BY GROUPING SETS ((n, s), (s), ())",
    "SELECT d, day, count(DISTINCT k) FROM t GROUP BY day, GROUPING SETS ((d, b), ()) HAVING count(*) > 1 AND grouping(b) = 0 ORDER BY day, d, b",
    "SELECT DISTINCT n FROM t",
    "SELECT DISTINCT d, s FROM t ORDER BY d DESC NULLS LAST, s LIMIT 7 OFFSET 2",
    "SELECT DISTINCT v FROM t ORDER BY v DESC NULLS LAST LIMIT 3",
    "SELECT a.n, count(DISTINCT b.s) FROM t a JOIN t b ON a.k = b.k GROUP BY a.n HAVING sum(b.k) > 100 ORDER BY 1",
];

/// Groups that the engine makes: it is not known what equal values have alike, what is added depends on its order, or what is computed with them
/// is more than arithmetic of numbers.
const BY_ENGINE: &[&str] = &[
    "SELECT n, string_agg(v, ',' ORDER BY k DESC), array_agg(k ORDER BY k) FROM t GROUP BY n ORDER BY n",
    "SELECT string_agg(DISTINCT v, '-' ORDER BY v), array_agg(d ORDER BY k) FILTER (WHERE b) FROM t",
    "SELECT f, count(*) FROM t GROUP BY f ORDER BY f",
    "SELECT n, avg(f) FROM t GROUP BY n ORDER BY n",
    "SELECT n, stddev(f) IS NULL FROM t GROUP BY n ORDER BY n",
    "SELECT n, floor(stddev(f) * 1000 + 0.3::float8), floor(var_pop(f) * 1000 + 0.3::float8) FROM t GROUP BY n ORDER BY n",
    "SELECT floor(stddev_pop(f) * 1000 + 0.3::float8), floor(variance(f) * 1000 + 0.3::float8) FROM t WHERE b",
    "SELECT n, avg(DISTINCT k + 1) FROM t GROUP BY n ORDER BY n",
    "SELECT n, sum(n)::text FROM t GROUP BY n ORDER BY n",
    "SELECT n, sum(f) / count(*) FROM t GROUP BY n ORDER BY n",
];

fn fill(clients: &mut [&mut pg::Connection]) {
    for k in 0..90i64 {
        let value = |every: i64, text: String| if k % every == 0 { "NULL".to_owned() } else { text };
        let sql = format!(
            "INSERT INTO t VALUES ({k}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {})",
            value(7, (k * 31 % 17 - 5).to_string()),
            k % 5,
            value(6, format!("{}.{:03}", k * 13 % 23 - 9, k)),
            value(11, format!("{}.5", k * 7 % 19 - 9)),
            value(8, format!("'2024-01-{:02}'", k % 9 + 1)),
            value(9, format!("'2024-01-{:02} 10:00+02'", k % 28 + 1)),
            value(3, (k % 2 == 0).to_string()),
            value(5, format!("'00000000-0000-0000-0000-0000000000{:02}'", k * 3 % 90)),
            value(4, format!("'v {}'", k * 11 % 13)),
            value(4, format!("'{}'", k % 3)),
            value(2, format!("'{{\"k\": {k}}}'")),
        );
        clients.iter_mut().for_each(|client| done(client, &sql));
    }
}

#[test]
fn rows_of_tables_are_one_column_where_they_are_of_one_type() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    let many = fleet.by("k").replace("algorithm", "shards = '4', algorithm");
    for (table, by) in [("one", fleet.by("k")), ("many", many)] {
        done(&mut client, &format!("CREATE TABLE {table} (k bigint PRIMARY KEY, v text) {by}"));
        done(&mut client, &format!("INSERT INTO {table} SELECT i, 'v' FROM generate_series(1, 20) AS s(i)"));
        assert_eq!(client.value(&format!("SELECT {table} FROM {table} WHERE k = 3")).unwrap(), "(3,v)");
        // Values that are made of a row are of the same type everywhere.
        let sql = format!("SELECT row_to_json({table}) FROM {table} ORDER BY k LIMIT 1");
        assert_eq!(client.value(&sql).unwrap(), "{\"k\":1,\"v\":\"v\"}");
        assert_eq!(rows(&mut client, &format!("SELECT {table} FROM {table}")).len(), 20);
    }
    assert_eq!(client.value("SELECT one FROM one ORDER BY k LIMIT 1").unwrap(), "(1,v)");
    // A server that has several of them would be asked in one statement, which has no type for them.
    for sql in ["SELECT many FROM many ORDER BY k", "SELECT DISTINCT many FROM many", "SELECT many FROM many LIMIT 3"] {
        let error = refused(&mut client, sql);
        assert!(error.contains("0A000") && error.contains("a row as a value"), "{sql}: {error}");
    }
    // The connections are of use afterwards.
    assert_eq!(client.value("SELECT k FROM many ORDER BY k LIMIT 1").unwrap(), "1");
    fleet.ashlar.check_log();
}

#[test]
fn rows_put_together_are_those_of_one_server() {
    // As many shards as servers, and more.
    for (servers, shards) in [(2, 2), (3, 3), (2, 5)] {
        let fleet = Fleet::start(servers);
        let oracle = Postgres::start().unwrap();
        let mut alone = pg::Connection::connect(oracle.address()).unwrap();
        let mut client = fleet.client();
        done(&mut alone, &format!("CREATE TABLE t ({COLUMNS})"));
        let by = fleet.by("k").replace("algorithm", &format!("shards = '{shards}', algorithm"));
        done(&mut client, &format!("CREATE TABLE t ({}) {by}", COLUMNS.replace(" COLLATE \"C\"", "")));
        fill(&mut [&mut alone, &mut client]);
        for sql in STATEMENTS {
            let route = format!("{:?}", rows(&mut client, &format!("EXPLAIN (ROUTE) {sql}")));
            assert!(route.contains("Merge: rows"), "{sql}: {route}");
            let (mut expected, mut found) = (rows(&mut alone, sql), rows(&mut client, sql));
            if !sql.contains("ORDER BY") {
                expected.sort();
                found.sort();
            }
            assert_eq!(found, expected, "on {shards} shards: {sql}");
        }
        let by_shards = "SELECT coalesce(sum(statements), 0)::int FROM ashlar.routes WHERE route = 'shards'";
        let by_shards: usize = client.value(by_shards).unwrap().parse().unwrap();
        assert!(by_shards > STATEMENTS.len() / 2, "on {shards} shards: only {by_shards}");
        for sql in BY_ENGINE {
            assert_eq!(rows(&mut client, sql), rows(&mut alone, sql), "on {shards} shards: {sql}");
        }
        // The first is said by a shard that reads the constant, the others by who computes with complete groups.
        for (sql, code) in [
            ("SELECT s FROM t GROUP BY s HAVING sum(n) > 'many'", "22P02"),
            ("SELECT s, sum(k) / (count(*) - 18) FROM t GROUP BY s", "22012"),
            ("SELECT s FROM t GROUP BY s HAVING sum(k)::smallint * 100::smallint > 0", "22003"),
        ] {
            for client in [&mut client, &mut alone] {
                let error = refused(client, sql);
                assert!(error.starts_with(code), "on {shards} shards: {sql}: {error}");
            }
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&fleet.ashlar.connection_string(), NoTls).await.unwrap();
            let _connection = tokio::spawn(connection);
            // Columns that only the order needs are not the client's, in either protocol.
            let sql = "SELECT k, v FROM t ORDER BY n NULLS FIRST, d, k LIMIT 4";
            let messages = client.simple_query(sql).await.unwrap();
            for message in &messages {
                if let tokio_postgres::SimpleQueryMessage::Row(row) = message {
                    let names: Vec<&str> = row.columns().iter().map(|column| column.name()).collect();
                    assert_eq!(names, ["k", "v"]);
                }
            }
            let first: Vec<i64> = client.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
            let wanted = rows(&mut alone, sql);
            let wanted: Vec<i64> = wanted.iter().map(|row| row[0].as_ref().unwrap().parse().unwrap()).collect();
            assert_eq!(first, wanted);
            // Binary values, compared and added.
            let sql = "SELECT k, n FROM t WHERE n >= $1 ORDER BY d DESC, k LIMIT $2 OFFSET $3";
            let statement = client.prepare(sql).await.unwrap();
            for (least, take, skip) in [(-5i32, 10i64, 0i64), (0, 5, 5), (3, 100, 2), (100, 5, 0)] {
                let found = client.query(&statement, &[&least, &take, &skip]).await.unwrap();
                let found: Vec<(i64, i32)> = found.iter().map(|row| (row.get(0), row.get(1))).collect();
                let sql =
                    format!("SELECT k, n FROM t WHERE n >= {least} ORDER BY d DESC, k LIMIT {take} OFFSET {skip}");
                let wanted = rows(&mut alone, &sql);
                let number = |cell: &Option<String>| cell.as_ref().unwrap().parse::<i64>().unwrap();
                let wanted: Vec<(i64, i32)> =
                    wanted.iter().map(|row| (number(&row[0]), i32::try_from(number(&row[1])).unwrap())).collect();
                assert_eq!(found, wanted, "{sql}");
            }
            let sql =
                "SELECT s, count(*) AS many, sum(k) FROM t WHERE n >= $1 GROUP BY s ORDER BY many DESC, s LIMIT 3";
            let statement = client.prepare(sql).await.unwrap();
            for least in [-5i32, 0, 100] {
                let found = client.query(&statement, &[&least]).await.unwrap();
                let found: Vec<[String; 2]> = found
                    .iter()
                    .map(|row| [row.get::<_, i16>(0).to_string(), row.get::<_, i64>(1).to_string()])
                    .collect();
                let wanted = rows(&mut alone, &sql.replace("$1", &least.to_string()));
                let wanted: Vec<[String; 2]> =
                    wanted.iter().map(|row| [row[0].clone().unwrap(), row[1].clone().unwrap()]).collect();
                assert_eq!(found, wanted, "{least}");
            }
            let sql = "SELECT s, count(*) FROM t GROUP BY s HAVING sum(n) > $1 AND min(v) <> $2 ORDER BY s";
            let statement = client.prepare(sql).await.unwrap();
            for (least, other) in [(-40i64, "v 0"), (20, "v 1"), (1000, "")] {
                let found = client.query(&statement, &[&least, &other]).await.unwrap();
                let found: Vec<(i16, i64)> = found.iter().map(|row| (row.get(0), row.get(1))).collect();
                let sql = sql.replace("$1", &least.to_string()).replace("$2", &format!("'{other}'"));
                let number = |cell: &Option<String>| cell.as_ref().unwrap().parse::<i64>().unwrap();
                let wanted = rows(&mut alone, &sql);
                let wanted: Vec<(i16, i64)> =
                    wanted.iter().map(|row| (i16::try_from(number(&row[0])).unwrap(), number(&row[1]))).collect();
                assert_eq!(found, wanted, "{sql}");
            }
            let sql = "SELECT s, $1 - sum(n) FROM t GROUP BY s ORDER BY sum(n) % $2, s";
            let statement = client.prepare(sql).await.unwrap();
            for (from, parts) in [(0i64, 7i64), (1000, -3)] {
                let found = client.query(&statement, &[&from, &parts]).await.unwrap();
                let found: Vec<(i16, i64)> = found.iter().map(|row| (row.get(0), row.get(1))).collect();
                let sql = sql.replace("$1", &from.to_string()).replace("$2", &parts.to_string());
                let number = |cell: &Option<String>| cell.as_ref().unwrap().parse::<i64>().unwrap();
                let wanted = rows(&mut alone, &sql);
                let wanted: Vec<(i16, i64)> =
                    wanted.iter().map(|row| (i16::try_from(number(&row[0])).unwrap(), number(&row[1]))).collect();
                assert_eq!(found, wanted, "{sql}");
            }
            let zero = client.query(&statement, &[&1i64, &0i64]).await.unwrap_err();
            assert_eq!(zero.code().map(|code| code.code()), Some("22012"));
            let sums = client.query_one("SELECT count(*), sum(n), min(day), max(f) FROM t", &[]).await.unwrap();
            let wanted = rows(&mut alone, "SELECT count(*), sum(n), max(f) FROM t").remove(0);
            assert_eq!(sums.get::<_, i64>(0).to_string(), wanted[0].clone().unwrap());
            assert_eq!(sums.get::<_, i64>(1).to_string(), wanted[1].clone().unwrap());
            assert_eq!(sums.get::<_, f64>(3).to_string(), wanted[2].clone().unwrap());
        });
        // A cursor and EXPLAIN ANALYZE are the engine's.
        done(&mut client, "BEGIN");
        done(&mut client, "DECLARE c CURSOR FOR SELECT k FROM t ORDER BY k LIMIT 5");
        assert_eq!(rows(&mut client, "FETCH ALL FROM c").len(), 5);
        done(&mut client, "COMMIT");
        assert!(!rows(&mut client, "EXPLAIN ANALYZE SELECT k FROM t ORDER BY k LIMIT 5").is_empty());
        // Connections have come back clean: all of them are idle now.
        assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "90");
        fleet.ashlar.check_log();
    }
}

#[test]
fn more_groups_than_are_put_together_are_the_engines() {
    const ROWS: i64 = 150_000;
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, n bigint) {}", fleet.by("k")));
    // Where a row lies does not matter to who reads all of them.
    for shard in 0..2 {
        let sql = format!("INSERT INTO t SELECT i, i / 2 FROM generate_series({shard}, {}, 2) AS g(i)", 2 * ROWS - 1);
        done(&mut fleet.shard(shard), &sql);
    }
    let few = "SELECT n % 10 AS d, count(*) FROM t GROUP BY 1 ORDER BY 1";
    let expected: Vec<String> = (0..10).map(|_| (2 * ROWS / 10).to_string()).collect();
    let counts = |rows: Vec<Vec<Option<String>>>| -> Vec<String> {
        rows.into_iter().map(|mut row| row.remove(1).unwrap()).collect()
    };
    for _ in 0..2 {
        let found = rows(&mut client, "SELECT n, count(*) FROM t GROUP BY n");
        assert_eq!(found.len(), ROWS as usize);
        assert!(found.iter().all(|row| row[1].as_deref() == Some("2")));
        assert_eq!(counts(rows(&mut client, few)), expected);
    }
    let routes = rows(&mut client, "SELECT route, statements FROM ashlar.routes WHERE tables = 't' ORDER BY route");
    let routes: Vec<String> =
        routes.into_iter().map(|row| row.into_iter().flatten().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(routes, ["engine 2", "shards 2"]);
    fleet.ashlar.check_log();
}

#[test]
fn inserted_rows_come_back_in_the_order_of_values() {
    let fleet = Fleet::start(3);
    let oracle = Postgres::start().unwrap();
    let mut alone = pg::Connection::connect(oracle.address()).unwrap();
    let mut client = fleet.client();
    done(&mut alone, "CREATE TABLE t (k bigint PRIMARY KEY, v text)");
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    let values = |range: std::ops::Range<i64>| {
        range.map(|k| format!("({}, 'v{k}')", k * 37 % 101)).collect::<Vec<_>>().join(", ")
    };
    for sql in [
        format!("INSERT INTO t VALUES {} RETURNING k, v || '!' AS w", values(0..40)),
        format!("INSERT INTO t VALUES {} ON CONFLICT (k) DO UPDATE SET v = 'again' RETURNING *", values(30..60)),
    ] {
        assert_eq!(rows(&mut client, &sql), rows(&mut alone, &sql), "{sql}");
    }
    // Which rows are left out only the shards know.
    let sql = format!("INSERT INTO t VALUES {} ON CONFLICT DO NOTHING RETURNING k", values(50..80));
    let (mut found, mut expected) = (rows(&mut client, &sql), rows(&mut alone, &sql));
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    let all = "SELECT * FROM t ORDER BY k";
    assert_eq!(rows(&mut client, all), rows(&mut alone, all));
    // One that is there already: none of them is new.
    let error = refused(&mut client, &format!("INSERT INTO t VALUES {} RETURNING k", values(75..100)));
    assert!(error.contains("23505"), "{error}");
    assert_eq!(rows(&mut client, all), rows(&mut alone, all));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(&fleet.ashlar.connection_string(), NoTls).await.unwrap();
        let _connection = tokio::spawn(connection);
        let sql = "INSERT INTO t VALUES ($1, $2), ($3, $4), ($5, $2), ($6, $4) RETURNING k, v";
        let statement = client.prepare(sql).await.unwrap();
        let found = client.query(&statement, &[&1001i64, &"a", &1000i64, &"b", &1003i64, &1002i64]).await.unwrap();
        let found: Vec<(i64, String)> = found.iter().map(|row| (row.get(0), row.get(1))).collect();
        let wanted = [(1001, "a"), (1000, "b"), (1003, "a"), (1002, "b")];
        assert_eq!(found, wanted.map(|(k, v)| (k, v.to_owned())));
    });
    fleet.ashlar.check_log();
}

#[test]
fn a_shard_that_does_not_answer_is_given_up_with_the_others() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    for k in 0..20 {
        done(&mut client, &format!("INSERT INTO t VALUES ({k}, 'a')"));
    }
    let mut holder = fleet.shard(1);
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'SELECT%'";
    let mut watcher = fleet.shard(1);
    for sql in ["SELECT k FROM t ORDER BY k", "SELECT k FROM t", "SELECT sum(k) FROM t"] {
        // Described before the lock: only reading waits.
        done(&mut client, sql);
        done(&mut holder, "BEGIN");
        done(&mut holder, "LOCK TABLE t IN ACCESS EXCLUSIVE MODE");
        let (address, key) = (fleet.ashlar.pg(), client.key.clone());
        let asking = std::thread::spawn(move || {
            let error = refused(&mut client, sql);
            (client, error)
        });
        assert!(wait_for(PATIENCE, || watcher.value(waiting).unwrap() == "1"), "{sql}");
        pg::cancel(address, &key).unwrap();
        let error;
        (client, error) = asking.join().unwrap();
        assert!(error.contains("57014"), "{sql}: {error}");
        assert!(wait_for(PATIENCE, || watcher.value(waiting).unwrap() == "0"), "{sql}");
        done(&mut holder, "ROLLBACK");
        assert_eq!(rows(&mut client, "SELECT k FROM t ORDER BY k").len(), 20);
    }
    // What one shard finds wrong is the statement's error, and says where.
    done(&mut fleet.shard(1), "UPDATE t SET v = '0'");
    done(&mut fleet.shard(0), "UPDATE t SET v = '1'");
    let error = refused(&mut client, "SELECT k FROM t ORDER BY 1 / CAST(v AS int), k");
    assert!(error.contains("22012") && error.contains("shard s1"), "{error}");
    assert_eq!(rows(&mut client, "SELECT k FROM t ORDER BY k").len(), 20);
    fleet.ashlar.check_log();
}

#[test]
fn sorted_groups_go_through_however_many_there_are() {
    const GROUPS: i64 = 100_000;
    let lines = "\n[store]\nmemory_mib_max = 32";
    // As many shards as servers, and more.
    for shards in [2, 4] {
        let fleet = Fleet::with(2, lines);
        let mut client = fleet.client();
        let by = fleet.by("k").replace("algorithm", &format!("shards = '{shards}', algorithm"));
        done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, g int, n int, v text) {by}"));
        // Each group has a row in every table; which of them a key belongs to does not matter to who reads all.
        for server in 0..2 {
            let mut shard = fleet.shard(server);
            let tables = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace";
            for (number, row) in rows(&mut shard, tables).into_iter().enumerate() {
                let (table, first) = (row[0].clone().unwrap(), (server * 2 + number) as i64 * GROUPS);
                let fill = format!(
                    "INSERT INTO {table} SELECT {first} + i, i, i % 7, 'v ' || i FROM generate_series(1, {GROUPS}) AS s(i)"
                );
                done(&mut shard, &fill);
            }
        }
        let by_engine = "SELECT coalesce(sum(statements), 0)::int FROM ashlar.routes WHERE route = 'engine'";
        let before = client.value(by_engine).unwrap();
        let text = |number: i64| Some(number.to_string());
        for sql in [
            "SELECT g, count(*), sum(n) FROM t GROUP BY g ORDER BY g DESC",
            "SELECT g, count(*), sum(n) FROM t GROUP BY g, v ORDER BY g DESC",
            "SELECT g, count(*), sum(n), round(avg(k)) FROM t GROUP BY g ORDER BY g DESC",
            "SELECT g, count(*), sum(n) FROM t GROUP BY g HAVING count(*) > 1 ORDER BY g DESC, sum(n) LIMIT 200000",
        ] {
            let found = rows(&mut client, sql);
            assert_eq!(found.len() as i64, GROUPS, "on {shards} shards: {sql}");
            for (row, g) in found.iter().zip((1..=GROUPS).rev()) {
                let expected = [text(g), text(shards), text(g % 7 * shards)];
                assert_eq!(row[..3], expected, "on {shards} shards: {sql}");
            }
        }
        let found = rows(&mut client, "SELECT DISTINCT v, g FROM t WHERE g > 5 ORDER BY g OFFSET 10 LIMIT 3");
        let expected = [16, 17, 18].map(|g: i64| vec![Some(format!("v {g}")), text(g)]);
        assert_eq!(found, expected);
        assert_eq!(client.value(by_engine).unwrap(), before);
        fleet.ashlar.check_log();
    }
}
