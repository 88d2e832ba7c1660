//! The order of texts is that of the servers' collation, or there is no answer.

use super::*;
use crate::comparison::{Protocol, Verdict, ask, judge};

/// Shards with databases whose collation is not that of bytes, and one such server alone.
pub(super) fn with_icu(shards: usize) -> (Fleet, Postgres, pg::Connection) {
    let fleet = Fleet::start(shards);
    let oracle = Postgres::start().unwrap();
    let make = "CREATE DATABASE icu LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C.UTF-8' TEMPLATE template0";
    let mut client = fleet.client();
    for shard in 0..shards {
        done(&mut fleet.shard(shard), make);
        done(&mut client, &format!("ALTER SERVER s{shard} OPTIONS (SET dbname 'icu')"));
    }
    done(&mut pg::Connection::connect(oracle.address()).unwrap(), make);
    let alone = pg::Connection::open(oracle.address(), &[("user", "postgres"), ("database", "icu")]).unwrap();
    (fleet, oracle, alone)
}

const WORDS: &[&str] =
    &["a", "B", "b", "Zebra", "äpfel", "apfel", "éclair", "_x", "10", "9", "ñ", "Straße", "strasse", "A", "z", ""];

fn fill(clients: &mut [&mut pg::Connection]) {
    for (k, word) in WORDS.iter().enumerate() {
        let word = if word.is_empty() { "NULL".to_owned() } else { format!("'{word}'") };
        clients.iter_mut().for_each(|client| done(client, &format!("INSERT INTO t VALUES ({k}, {word}, {})", k % 3)));
    }
}

#[test]
fn texts_of_several_shards_are_never_in_another_order_than_those_of_one_server() {
    let (fleet, _oracle, mut alone) = with_icu(2);
    let mut client = fleet.client();
    let columns = "k int PRIMARY KEY, v text, g int";
    done(&mut alone, &format!("CREATE TABLE t ({columns})"));
    done(&mut client, &format!("CREATE TABLE t ({columns}) {}", fleet.by("k")));
    fill(&mut [&mut alone, &mut client]);
    // The order is another one than that of bytes.
    let by_bytes = rows(&mut alone, "SELECT k FROM t ORDER BY v COLLATE \"C\", k");
    assert_ne!(rows(&mut alone, "SELECT k FROM t ORDER BY v, k"), by_bytes);
    for sql in [
        "SELECT k FROM t ORDER BY v COLLATE \"C\", k",
        "SELECT k, v FROM t ORDER BY k",
        "SELECT v FROM t WHERE k = 4 ORDER BY v",
        "SELECT count(*) FROM t WHERE v < 'm'",
        "SELECT k FROM t WHERE v >= 'b' ORDER BY k",
        "SELECT k FROM t ORDER BY v, k",
        "SELECT k, v FROM t ORDER BY v DESC NULLS LAST, k LIMIT 5 OFFSET 2",
        "SELECT k FROM t ORDER BY upper(v), k LIMIT 3",
        "SELECT k, v::varchar(2) AS w FROM t ORDER BY w, g, k",
        "SELECT v::char(9) AS w FROM t ORDER BY 1 FETCH FIRST 4 ROWS WITH TIES",
        "SELECT v, count(*), sum(g) FROM t GROUP BY v ORDER BY v",
        "SELECT g, upper(v), count(*) FROM t GROUP BY 1, 2 ORDER BY upper(v) DESC, g LIMIT 7 OFFSET 1",
        "SELECT DISTINCT v, g FROM t ORDER BY v NULLS FIRST, g",
        "SELECT g, count(*) FROM t GROUP BY g, v ORDER BY g",
        "SELECT a.k FROM t a JOIN t b ON a.k = b.k WHERE a.g > 0 ORDER BY a.v || b.v, lower(b.v) DESC, a.k",
        "SELECT k FROM t WHERE k > 100 ORDER BY v",
        "SELECT k FROM t ORDER BY v LIMIT 0",
        "SELECT v, count(*) FROM t GROUP BY v, g ORDER BY count(*), g LIMIT 0",
        "SELECT a.k, b.k FROM t a JOIN t b ON a.v = b.v AND a.g = b.g ORDER BY 1, 2",
        "SELECT g, count(DISTINCT v) FROM t GROUP BY g ORDER BY g",
        "SELECT min(v), max(v), count(*), min(v::char(9)) FROM t",
        "SELECT min(v), max(v) FROM t WHERE k > 100",
        "SELECT g, max(v), min(upper(v)) FROM t GROUP BY g ORDER BY g",
        "SELECT left(v, 1) AS w, count(*) FROM t GROUP BY 1 ORDER BY count(*) DESC, w",
        "SELECT upper(v) AS w, count(*) FROM t GROUP BY 1 ORDER BY 2 DESC, 1 DESC NULLS LAST LIMIT 6 OFFSET 1",
        "SELECT g, min(v) AS least FROM t GROUP BY g ORDER BY least DESC, max(v)",
        "SELECT v, min(v || g), max(g) FROM t GROUP BY v ORDER BY v",
        "SELECT g, max(v) FROM t GROUP BY g HAVING count(*) > 5 ORDER BY max(v) LIMIT 1",
        "SELECT max(v) FROM t WHERE g = 1 AND k > 100 HAVING count(*) > 0",
        "SELECT count(DISTINCT v), max(v) FROM t",
    ] {
        assert_eq!(rows(&mut client, sql), rows(&mut alone, sql), "{sql}");
    }
    fleet.ashlar.check_log();
}

#[test]
fn the_engine_compares_texts_as_the_servers_do() {
    let (mut fleet, _oracle, mut alone) = with_icu(3);
    fleet.ashlar.expect_log(&["a plan was refused"]);
    let mut client = fleet.client();
    let columns = "k int PRIMARY KEY, v text, g int, c char(5), j jsonb";
    done(&mut alone, &format!("CREATE TABLE t ({columns})"));
    done(&mut client, &format!("CREATE TABLE t ({columns}) {}", fleet.by("k")));
    fill(&mut [&mut alone, &mut client]);
    for sql in
        ["UPDATE t SET c = left(v, 4), j = to_jsonb(v)", "INSERT INTO t VALUES (30, 'b', 7, 'B'), (31, 'B', 7, 'b')"]
    {
        done(&mut alone, sql);
        done(&mut client, sql);
    }
    for sql in [
        // Rows, joined.
        "SELECT a.k FROM t a JOIN t b ON a.k = b.k + 1 ORDER BY a.v, b.v DESC, a.k",
        "SELECT a.v, b.v FROM t a LEFT JOIN t b ON a.g = b.g AND a.k < b.k ORDER BY b.v NULLS FIRST, a.v DESC, b.k, a.k LIMIT 17 OFFSET 3",
        "SELECT left(a.v, 3) || b.v AS w FROM t a JOIN t b ON a.g = b.g ORDER BY w, a.k, b.k",
        "SELECT DISTINCT a.v FROM t a JOIN t b ON a.g = b.g ORDER BY a.v DESC NULLS LAST",
        "SELECT a.c FROM t a JOIN t b ON a.k = b.k + 1 ORDER BY a.c, a.k",
        "SELECT a.c, count(*) FROM t a JOIN t b ON a.g = b.g GROUP BY a.c ORDER BY a.c DESC",
        "SELECT v FROM t UNION SELECT lower(v) FROM t ORDER BY 1",
        "SELECT v FROM t a WHERE g IN (SELECT g FROM t b WHERE k < 9) ORDER BY a.v",
        "WITH w AS (SELECT a.v, b.k FROM t a JOIN t b ON a.k = b.k + 2) SELECT v FROM w ORDER BY v, k",
        // Windows.
        "SELECT k, rank() OVER (ORDER BY v) FROM t ORDER BY k",
        "SELECT k, row_number() OVER (PARTITION BY g ORDER BY v DESC NULLS LAST, k), sum(k) OVER (ORDER BY v, k) FROM t ORDER BY k",
        "SELECT v, lag(v) OVER (ORDER BY v, k), first_value(v) OVER (PARTITION BY g ORDER BY v NULLS FIRST, k) FROM t ORDER BY v, k",
        "SELECT v, dense_rank() OVER (ORDER BY lower(v)) AS r FROM t ORDER BY r DESC, v, k",
        "SELECT * FROM (SELECT k, v, rank() OVER (PARTITION BY g ORDER BY v) AS r FROM t) s WHERE r < 3 ORDER BY v, k",
        // Groups and aggregates.
        "SELECT g, max(v) FROM t GROUP BY g HAVING max(v) > 'm' ORDER BY g",
        "SELECT a.g, min(a.v), max(b.v), max(a.v) FILTER (WHERE b.k > 3) FROM t a JOIN t b ON a.g = b.g GROUP BY a.g ORDER BY 1",
        "SELECT min(a.v), max(a.v || b.v), count(DISTINCT a.v) FROM t a JOIN t b ON a.g = b.g",
        "SELECT max(a.v) FROM t a JOIN t b ON a.k = b.k + 1000",
        "SELECT a.g, min(DISTINCT a.v) FROM t a JOIN t b ON a.k = b.k + 1 GROUP BY GROUPING SETS ((a.g), ()) ORDER BY a.g",
        "SELECT string_agg(v, ',' ORDER BY v) FROM t",
        "SELECT g, string_agg(v, ',' ORDER BY v DESC, k), array_agg(k ORDER BY v NULLS FIRST, k) FROM t GROUP BY g ORDER BY g",
        "SELECT count(*) FILTER (WHERE a.v < b.v), sum(CASE WHEN a.v >= 'b' THEN 1 ELSE 0 END) FROM t a JOIN t b ON a.g = b.g",
        "SELECT a.v < 'b' AS is_low, count(*) FROM t a JOIN t b ON a.g = b.g GROUP BY 1 ORDER BY 1",
        "SELECT k, (SELECT max(v) FROM t u) FROM t WHERE k = 3",
        // The first row of each.
        "SELECT DISTINCT ON (g) g, v FROM t ORDER BY g, v",
        "SELECT DISTINCT ON (v) v, k FROM t ORDER BY v DESC NULLS LAST, k DESC",
        "SELECT DISTINCT ON (lower(v)) v, lower(v), g FROM t ORDER BY lower(v), v DESC, k",
        // Comparisons.
        "SELECT a.k, b.k FROM t a JOIN t b ON a.g = b.g AND a.v < b.v ORDER BY 1, 2",
        "SELECT a.k, b.k FROM t a, t b WHERE a.g = b.g AND a.v >= b.v AND a.k <> b.k ORDER BY 1, 2",
        "SELECT a.k FROM t a JOIN t b ON a.k = b.k + 1 WHERE a.v < 'b' OR b.g = 1 ORDER BY 1",
        "SELECT a.k FROM t a JOIN t b ON a.k = b.k + 1 WHERE a.v NOT BETWEEN 'a' AND 'B' ORDER BY 1",
        "SELECT a.k FROM t a JOIN t b ON a.k = b.k + 1 WHERE a.v < 'z' AND a.v < 'B' ORDER BY 1",
        "SELECT a.k FROM t a JOIN t b ON a.k = b.k + 1 WHERE a.v BETWEEN 'a' AND 'B' AND lower(b.v) >= 'A' ORDER BY 1",
        "SELECT k FROM t WHERE g IN (SELECT g FROM t b WHERE v BETWEEN 'a' AND 'm') ORDER BY k",
        "SELECT a.k, CASE WHEN a.v < b.v THEN 'less' WHEN a.v > 'B' THEN 'more' END FROM t a JOIN t b ON a.k = b.k + 1 ORDER BY 1",
        "SELECT a.k, a.v < 'B', a.v >= b.v AS is_more FROM t a JOIN t b ON a.k = b.k + 1 ORDER BY is_more, 1",
        "SELECT a.k FROM t a JOIN t b ON a.k = b.k + 1 WHERE coalesce(a.v, 'x') >= nullif(b.v, 'B') OR a.k = 3 ORDER BY 1",
        "SELECT CASE WHEN 'a' < 'B' THEN a.k END FROM t a JOIN t b ON a.k = b.k + 1 ORDER BY 1",
        "SELECT a.k FROM t a JOIN t b ON a.k = b.k + 1 WHERE (a.v, a.k) < (b.v, b.k + 1) ORDER BY 1",
        "SELECT percentile_disc(0.4) WITHIN GROUP (ORDER BY a.v), mode() WITHIN GROUP (ORDER BY a.v DESC) FROM t a JOIN t b ON a.g = b.g",
        // A comparison within what is ordered, and conditions of which some keep others from failing.
        "SELECT a.k FROM t a JOIN t b ON a.k = b.k + 1 ORDER BY a.v < 'm', a.k",
        "SELECT a.k, count(*) OVER (ORDER BY a.v < 'm') FROM t a JOIN t b ON a.k = b.k + 1 ORDER BY 1",
        "SELECT array_agg(a.k ORDER BY a.v < 'm', a.k) FROM t a JOIN t b ON a.k = b.k + 1",
        "SELECT DISTINCT ON (a.v < 'm') a.k FROM t a JOIN t b ON a.k = b.k + 1 ORDER BY a.v < 'm', a.k",
        "SELECT a.k FROM t a JOIN t b ON a.k = b.k + 1 WHERE (a.v < 'b') <= (b.v < 'b') ORDER BY coalesce(a.v < 'm', false), 1",
        "SELECT k, rank() OVER (ORDER BY k) FROM t WHERE v BETWEEN '0' AND '99' AND v::int > 9",
        "SELECT a.k FROM t a JOIN t b ON a.k = b.k + 1 WHERE a.v > '' AND 10 / length(a.v) > 1 ORDER BY 1",
        "SELECT count(*) > 0 FROM t a JOIN t b ON a.g = b.g WHERE random()::text < random()::text OR a.v < random()::text",
        "WITH RECURSIVE w AS (SELECT k, v FROM t WHERE k = 0 UNION ALL SELECT t.k, t.v FROM w JOIN t ON t.k = w.k + 1) SELECT * FROM w ORDER BY v, k",
    ] {
        for protocol in [Protocol::Simple, Protocol::Extended] {
            let (found, expected) = (ask(&mut client, sql, protocol), ask(&mut alone, sql, protocol));
            assert!(expected.error.is_none(), "{sql}: {:?}", expected.error);
            if let Verdict::Different(how) = judge(sql, &expected, &found) {
                panic!("{how}\n{sql}");
            }
            assert!(found.error.is_none(), "{sql}: {:?}", found.error);
        }
    }
    // What is compared where ranks are not taken, or by another collation, or with texts of another home, has no answer.
    done(&mut client, "CREATE TABLE here (k int PRIMARY KEY, v text)");
    done(&mut client, "INSERT INTO here VALUES (1, 'a'), (2, 'B')");
    for sql in [
        "SELECT greatest(v, 'm') FROM t a WHERE g IN (SELECT g FROM t b)",
        "SELECT k, max(v) OVER (ORDER BY k) FROM t",
        "SELECT a.k FROM t a LEFT JOIN t b ON a.g = b.g AND a.v < b.v",
        "SELECT a.k FROM t a JOIN t b ON a.k = b.k + 1 WHERE a.v < ANY (ARRAY['m', 'Z'])",
        "SELECT a.k FROM t a JOIN t b ON a.k = b.k + 1 WHERE ARRAY[a.v] < ARRAY['m']",
        "SELECT a.k FROM t a WHERE EXISTS (SELECT FROM t b WHERE b.g = a.g AND b.v < a.v)",
        "SELECT k FROM t a WHERE v > ALL (SELECT v FROM t b WHERE g = 1)",
        "SELECT a.k FROM t a JOIN t b ON a.k = b.k + 1 ORDER BY a.v COLLATE \"C\"",
        "SELECT t.k FROM t JOIN here ON t.k = here.k ORDER BY here.v",
        "SELECT t.k FROM t JOIN here ON t.k = here.k ORDER BY t.v",
        "SELECT a.k FROM t a JOIN t b ON a.k = b.k + 1 ORDER BY a.j",
        "SELECT a.k FROM t a JOIN t b ON a.k = b.k + 1 WHERE a.j < b.j",
        "SELECT a.k FROM t a JOIN t b ON a.k = b.k + 1 ORDER BY a.v::name",
        "SELECT min(CASE WHEN a.v < 'm' THEN a.v END) FROM t a JOIN t b ON a.k = b.k + 1",
        "SELECT a.k FROM t a JOIN t b ON a.k = b.k + 1 WHERE a.v > '' AND left(a.v, 10 / length(a.v)) < 'c'",
        "SELECT string_agg(DISTINCT a.v, ',' ORDER BY a.v) FROM t a JOIN t b ON a.k = b.k + 1",
    ] {
        let error = refused(&mut client, sql);
        assert!(error.contains("0A000"), "{sql}: {error}");
    }
    fleet.ashlar.check_log();
}

#[test]
fn where_texts_are_compared_byte_by_byte_they_are_merged() {
    let fleet = Fleet::start(3);
    let oracle = Postgres::start().unwrap();
    let mut alone = pg::Connection::connect(oracle.address()).unwrap();
    let mut client = fleet.client();
    let columns = "k int PRIMARY KEY, v text, g int";
    done(&mut alone, &format!("CREATE TABLE t ({columns})"));
    done(&mut client, &format!("CREATE TABLE t ({columns}) {}", fleet.by("k")));
    fill(&mut [&mut alone, &mut client]);
    for sql in [
        "SELECT k, v FROM t ORDER BY v, k",
        "SELECT k FROM t ORDER BY v DESC NULLS LAST, k LIMIT 5 OFFSET 2",
        "SELECT min(v), max(v) FROM t",
        "SELECT g, string_agg(v, ',' ORDER BY v) FROM t GROUP BY g ORDER BY g",
        "SELECT a.k, b.k FROM t a JOIN t b ON a.g = b.g AND a.v < b.v ORDER BY 1, 2",
    ] {
        assert_eq!(rows(&mut client, sql), rows(&mut alone, sql), "{sql}");
    }
    fleet.ashlar.check_log();
}

/// Rows of texts that differ in case, accents and length, in no order.
fn fill_many(clients: &mut [&mut pg::Connection], rows: i64) {
    let keys: Vec<i64> = (0..rows).collect();
    for keys in keys.chunks(500) {
        let row = |k: &i64| {
            let word = WORDS[usize::try_from(k * 7919 % 15).unwrap()];
            let other = WORDS[usize::try_from(k * 104_729 % 13).unwrap()];
            let text = if k % 97 == 0 { "NULL".to_owned() } else { format!("'{word}{}{other}'", k * 31 % 1009) };
            format!("({k}, {text}, {})", k % 5)
        };
        let sql = format!("INSERT INTO t VALUES {}", keys.iter().map(row).collect::<Vec<_>>().join(", "));
        clients.iter_mut().for_each(|client| done(client, &sql));
    }
}

#[test]
fn many_texts_are_merged_in_the_order_of_the_servers() {
    // A server with several of the shards sends them as one sequence.
    for (servers, shards) in [(2, 2), (2, 5), (1, 3)] {
        let (fleet, _oracle, mut alone) = with_icu(servers);
        let mut client = fleet.client();
        let columns = "k int PRIMARY KEY, v text, g int";
        done(&mut alone, &format!("CREATE TABLE t ({columns})"));
        let by = fleet.by("k").replace("algorithm", &format!("shards = '{shards}', algorithm"));
        done(&mut client, &format!("CREATE TABLE t ({columns}) {by}"));
        fill_many(&mut [&mut alone, &mut client], 12_000);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for sql in [
            "SELECT k, v FROM t ORDER BY v, k",
            "SELECT k FROM t ORDER BY g, v DESC NULLS FIRST, k DESC LIMIT 9000",
            "SELECT k, v || repeat('x', 300) AS long FROM t ORDER BY long NULLS FIRST, k OFFSET 700",
            "SELECT v, g, count(*), sum(k) FROM t GROUP BY v, g ORDER BY v DESC NULLS FIRST, g",
            "SELECT DISTINCT v FROM t ORDER BY v LIMIT 500 OFFSET 20",
            "SELECT left(v, 2) AS w FROM t ORDER BY w FETCH FIRST 700 ROWS WITH TIES",
            "SELECT v, g, count(*) FROM t GROUP BY v, g ORDER BY count(*) DESC, v, g LIMIT 3000",
            "SELECT left(v, 2) AS w, min(v), max(v) FROM t GROUP BY 1 ORDER BY min(v) DESC, w NULLS FIRST",
        ] {
            let (found, expected) = (rows(&mut client, sql), rows(&mut alone, sql));
            assert!(found == expected, "on {shards} shards of {servers} servers: {sql}");
        }
        // In the extended protocol, with values; connections are of use afterwards.
        runtime.block_on(async {
            let (client, connection) =
                tokio_postgres::connect(&fleet.ashlar.connection_string(), tokio_postgres::NoTls).await.unwrap();
            let _connection = tokio::spawn(connection);
            let sql = "SELECT k FROM t WHERE g <> $1 ORDER BY v DESC NULLS LAST, k LIMIT $2";
            let statement = client.prepare(sql).await.unwrap();
            for (g, take) in [(0_i32, 10_i64), (1, 5000), (9, 100_000)] {
                let found = client.query(&statement, &[&g, &take]).await.unwrap();
                let found: Vec<String> = found.iter().map(|row| row.get::<_, i32>(0).to_string()).collect();
                let sql = sql.replace("$1", &g.to_string()).replace("$2", &take.to_string());
                let expected: Vec<String> =
                    rows(&mut alone, &sql).into_iter().map(|mut row| row.remove(0).unwrap()).collect();
                assert!(found == expected, "on {shards} shards of {servers} servers: {sql}");
            }
        });
        assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "12000");
        fleet.ashlar.check_log();
    }
}

#[test]
fn texts_of_shards_with_different_collations_have_no_order() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    for (shard, locale) in ["en-US", "sv-SE"].into_iter().enumerate() {
        let make = format!(
            "CREATE DATABASE icu LOCALE_PROVIDER icu ICU_LOCALE '{locale}' LOCALE 'C.UTF-8' TEMPLATE template0"
        );
        done(&mut fleet.shard(shard), &make);
        done(&mut client, &format!("ALTER SERVER s{shard} OPTIONS (SET dbname 'icu')"));
    }
    done(&mut client, &format!("CREATE TABLE t (k int PRIMARY KEY, v text, g int) {}", fleet.by("k")));
    fill(&mut [&mut client]);
    for sql in [
        "SELECT k FROM t ORDER BY v, k",
        "SELECT k FROM t ORDER BY v DESC LIMIT 2",
        "SELECT a.k FROM t a JOIN t b ON a.g = b.g ORDER BY a.v",
    ] {
        let error = refused(&mut client, sql);
        assert!(error.contains("0A000") && error.contains("collation"), "{sql}: {error}");
    }
    // What has one order everywhere has it.
    let by_bytes = rows(&mut client, "SELECT k FROM t ORDER BY v COLLATE \"C\", k");
    assert_eq!(by_bytes.len(), WORDS.len());
    assert_eq!(rows(&mut client, "SELECT k FROM (SELECT k, v COLLATE \"C\" AS w FROM t) s ORDER BY w, k"), by_bytes);
    fleet.ashlar.check_log();
}

#[test]
fn a_collation_that_a_sub_query_names_is_the_one_that_its_texts_are_compared_by() {
    let fleet = Fleet::start(2);
    let oracle = Postgres::start().unwrap();
    let mut alone = pg::Connection::connect(oracle.address()).unwrap();
    let mut client = fleet.client();
    let columns = "k int PRIMARY KEY, v text, g int";
    done(&mut alone, &format!("CREATE TABLE t ({columns})"));
    done(&mut client, &format!("CREATE TABLE t ({columns}) {}", fleet.by("k")));
    fill(&mut [&mut alone, &mut client]);
    let ignoring_case = "CREATE COLLATION either (provider = icu, locale = 'und-u-ks-level2', deterministic = false)";
    done(&mut alone, ignoring_case);
    (0..2).for_each(|shard| done(&mut fleet.shard(shard), ignoring_case));
    for sql in [
        "SELECT k FROM (SELECT k, v COLLATE \"en-x-icu\" AS w FROM t) s ORDER BY w, k",
        "SELECT g, min(w), max(w) FROM (SELECT v COLLATE \"en-x-icu\" AS w, g FROM t) s GROUP BY g ORDER BY g",
        "SELECT left(w, 1), count(*) FROM (SELECT v COLLATE \"en-x-icu\" AS w FROM t) s GROUP BY 1 ORDER BY 2 DESC, 1",
    ] {
        assert_eq!(rows(&mut client, sql), rows(&mut alone, sql), "{sql}");
    }
    // Where it is not known what is equal to it, or the least, there is no answer; neither where rows are locked.
    for sql in [
        "SELECT count(*) FROM (SELECT v COLLATE either AS w FROM t) s GROUP BY w",
        "SELECT DISTINCT w FROM (SELECT v COLLATE either AS w FROM t) s",
        "SELECT v COLLATE either AS w, count(*) FROM t GROUP BY 1",
        "SELECT max(w) FROM (SELECT v COLLATE either AS w FROM t) s",
        "SELECT w FROM (SELECT v COLLATE \"en-x-icu\" AS w FROM t) s GROUP BY w HAVING w > 'a'",
        "SELECT k FROM (SELECT k, v COLLATE \"en-x-icu\" AS w FROM t) s ORDER BY w, k FOR UPDATE",
        "SELECT w, CASE WHEN w > 'B' THEN sum(g) ELSE 0 END FROM (SELECT v COLLATE \"en-x-icu\" AS w, g FROM t) s GROUP BY w",
    ] {
        let error = refused(&mut client, sql);
        assert!(error.contains("0A000"), "{sql}: {error}");
    }
    fleet.ashlar.check_log();
}

#[test]
fn rows_that_wait_for_ranks_are_charged() {
    let (fleet, _oracle, mut alone) = with_icu(2);
    let mut client = fleet.client();
    let columns = "k int PRIMARY KEY, v text, g int";
    done(&mut alone, &format!("CREATE TABLE t ({columns})"));
    done(&mut client, &format!("CREATE TABLE t ({columns}) {}", fleet.by("k")));
    fill_many(&mut [&mut alone, &mut client], 12_000);
    let sql = "SELECT a.k FROM t a JOIN t b ON a.k = b.k + 1 ORDER BY a.v, a.k";
    let expected = rows(&mut alone, sql);
    assert!(rows(&mut client, sql) == expected, "{sql}");
    done(&mut client, "SET query_memory_max = '2MB'");
    let error = refused(&mut client, sql);
    assert!(error.contains("53200"), "{error}");
    done(&mut client, "RESET query_memory_max");
    assert!(rows(&mut client, sql) == expected, "{sql}");
    // A constant is one text, however many rows it is compared with.
    done(&mut client, "SET query_memory_max = '8MB'");
    let long = "x".repeat(200_000);
    let sql = format!(
        "SELECT count(*) FROM t a JOIN t b ON a.k = b.k + 1 WHERE a.v < '{long}' AND a.v BETWEEN '0' AND '{long}'"
    );
    assert_eq!(rows(&mut client, &sql), rows(&mut alone, &sql));
    fleet.ashlar.check_log();
}

#[test]
fn a_plan_is_another_one_where_servers_have_another_order() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    let columns = "k int PRIMARY KEY, v text, g int";
    done(&mut client, &format!("CREATE TABLE t ({columns}) {}", fleet.by("k")));
    fill(&mut [&mut client]);
    let sql = "SELECT a.v FROM t a JOIN t b ON a.g = b.g WHERE b.k < 3 ORDER BY a.v, a.k";
    let by_bytes = rows(&mut client, sql);
    assert_eq!(rows(&mut client, sql), by_bytes);
    for (number, shard) in fleet.shards.iter().enumerate() {
        let mut first = fleet.shard(number);
        done(
            &mut first,
            "CREATE DATABASE icu LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C.UTF-8' TEMPLATE template0",
        );
        let mut other = pg::Connection::open(shard.address(), &[("user", "postgres"), ("database", "icu")]).unwrap();
        done(&mut other, &format!("CREATE TABLE t ({columns})"));
        for row in rows(&mut first, "SELECT quote_nullable(k), quote_nullable(v), quote_nullable(g) FROM t") {
            let cells: Vec<String> = row.into_iter().flatten().collect();
            done(&mut other, &format!("INSERT INTO t VALUES ({})", cells.join(", ")));
        }
    }
    (0..2).for_each(|shard| done(&mut client, &format!("ALTER SERVER s{shard} OPTIONS (SET dbname 'icu')")));
    let by_icu = rows(&mut client, sql);
    assert_eq!(by_icu.len(), by_bytes.len());
    assert_ne!(by_icu, by_bytes);
    let least = |rows: &[Vec<Option<String>>]| rows[0][0].clone();
    assert_eq!((least(&by_bytes).as_deref(), least(&by_icu).as_deref()), (Some("10"), Some("_x")));
    fleet.ashlar.check_log();
}
