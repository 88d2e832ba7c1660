//! What clients should not send, and do: lists of very many keys, keys that no shard takes, strings of statements the last of which fails.
//! The answers are those of one server, or an error that says what is wrong, and then nothing is written anywhere.

use super::copy::copy_in;
use super::members::{prepared, total};
use super::*;
use crate::comparison::bound;
use crate::comparison::{Protocol, Verdict, ask, judge};

/// Keys that are asked for at once.
const KEYS: i64 = 10_000;

/// Keys in no order, about half of which have rows; some are there twice, and some are negative.
fn many_keys() -> Vec<i64> {
    (0..KEYS).map(|at| (at % 9_900) * 7919 % 20_011 - if at % 50 == 0 { 30_000 } else { 0 }).collect()
}

/// A fleet of three and one server, with the same rows.
fn twins_with_rows() -> (Fleet, Postgres, pg::Connection, pg::Connection) {
    let fleet = Fleet::start(3);
    let oracle = Postgres::start().unwrap();
    let mut alone = pg::Connection::connect(oracle.address()).unwrap();
    let mut client = fleet.client();
    for (name, columns) in [("t", "k bigint PRIMARY KEY, g int, v text"), ("s", "k text PRIMARY KEY, g int, v text")] {
        done(&mut alone, &format!("CREATE TABLE {name} ({columns})"));
        done(&mut client, &format!("CREATE TABLE {name} ({columns}) {}", fleet.by("k")));
        let key = if name == "t" { "i" } else { "'k' || i" };
        let rows = format!("SELECT {key}, i % 7, 'v' || i FROM generate_series(1, 20000, 2) AS n(i)");
        let fill = format!("INSERT INTO {name} {rows}");
        done(&mut alone, &fill);
        done(&mut client, &fill);
    }
    (fleet, oracle, alone, client)
}

#[test]
fn a_list_of_ten_thousand_keys_is_one_of_keys() {
    let (fleet, _oracle, mut alone, mut client) = twins_with_rows();
    let keys = many_keys();
    let numbers: Vec<String> = keys.iter().map(i64::to_string).collect();
    let texts: Vec<String> = keys.iter().map(|key| format!("'k{key}'")).collect();
    let mut wrong: Vec<String> = Vec::new();
    for (protocol, end) in [(Protocol::Simple, "one"), (Protocol::Extended, "two")] {
        for (table, list) in [("t", numbers.join(", ")), ("s", texts.join(", "))] {
            for sql in [
                format!("SELECT k, g, v FROM {table} WHERE k IN ({list})"),
                format!("SELECT k FROM {table} WHERE k IN ({list}) ORDER BY v COLLATE \"C\" DESC, g LIMIT 500"),
                format!("SELECT count(*), sum(g), count(DISTINCT g) FROM {table} WHERE k IN ({list}, NULL) AND g > 1"),
                format!("SELECT g, count(*) FROM {table} WHERE k IN ({list}) GROUP BY g"),
                format!("SELECT count(*) FROM t JOIN {table} AS o ON o.g = t.k WHERE o.k IN ({list})"),
                format!("UPDATE {table} SET v = v || '{end}' WHERE k IN ({list}) AND g = 3"),
                format!("UPDATE {table} SET g = g + 1 WHERE k IN ({list}) RETURNING k, g"),
                format!("DELETE FROM {table} WHERE k IN ({list}) AND g = 5"),
                format!("DELETE FROM {table} WHERE k NOT IN ({list}) AND g = 2 RETURNING k"),
                format!("SELECT count(*), sum(g), sum(length(v)) FROM {table}"),
            ] {
                let (expected, found) = (ask(&mut alone, &sql, protocol), ask(&mut client, &sql, protocol));
                let begin = format!("{protocol:?}: {}", sql.chars().take(60).collect::<String>());
                match judge(&sql, &expected, &found) {
                    Verdict::Same => {}
                    Verdict::Refused => wrong.push(format!("refused: {:?}\n{begin}", found.error)),
                    Verdict::Different(how) => wrong.push(format!("{how}\n{begin}")),
                }
            }
        }
    }
    crate::slt::report(&wrong);
    fleet.ashlar.check_log();
}

#[test]
fn an_array_of_ten_thousand_keys_is_one_of_keys() {
    let (fleet, _oracle, mut alone, mut client) = twins_with_rows();
    let keys = many_keys();
    let numbers: Vec<String> = keys.iter().map(i64::to_string).collect();
    let texts: Vec<String> = keys.iter().map(|key| format!("k{key}")).collect();
    for (table, array) in [("t", format!("{{{}}}", numbers.join(","))), ("s", format!("{{{}}}", texts.join(",")))] {
        for sql in [
            "SELECT k, g, v FROM {} WHERE k = ANY($1)",
            "SELECT count(*), sum(g) FROM {} WHERE k = ANY($1) AND g > 1",
            "SELECT k FROM {} WHERE k = ANY($1) ORDER BY v COLLATE \"C\", g LIMIT 100",
            "UPDATE {} SET v = v || 'x' WHERE k = ANY($1) AND g = 3",
            "UPDATE {} SET g = g + 1 WHERE k = ANY($1) RETURNING k, g",
            "DELETE FROM {} WHERE k = ANY($1) AND g = 5",
            "DELETE FROM {} WHERE k = ANY($1) AND g = 2 RETURNING v",
            "SELECT count(*), sum(g), sum(length(v)) FROM {} WHERE k = ANY($1) OR g >= 0",
        ] {
            let sql = sql.replace("{}", table);
            let [expected, found] = [&mut alone, &mut client].map(|client| {
                let (mut rows, tag) = bound(client, &sql, &[&array]).unwrap_or_else(|error| panic!("{sql}\n{error}"));
                rows.sort();
                (rows, tag)
            });
            assert_eq!(found.1, expected.1, "{sql}");
            assert_eq!(found.0, expected.0, "{sql}");
        }
    }
    fleet.ashlar.check_log();
}

/// Tables with keys that no shard takes: their rule, a key of each shard, one that there is no place for, and the like from `src`.
struct Gap {
    columns: &'static str,
    by: &'static str,
    taken: [&'static str; 2],
    missing: &'static str,
}

const GAPS: &[Gap] = &[
    Gap {
        columns: "k int PRIMARY KEY, v text",
        by: "PARTITION BY RANGE (k) USING sharded WITH (servers = 's0,s1', ranges = '0..10; 20..30')",
        taken: ["5", "25"],
        missing: "15",
    },
    Gap {
        columns: "k text PRIMARY KEY, v text",
        by: "PARTITION BY LIST (k) USING sharded WITH (servers = 's0,s1', lists = 'de, at; us')",
        taken: ["at", "us"],
        missing: "fr",
    },
    Gap {
        columns: "k date PRIMARY KEY, v text",
        by: "PARTITION BY RANGE (k) USING sharded \
             WITH (servers = 's0,s1', ranges = '2026-01-01..2026-02-01; 2026-02-01..2026-03-01')",
        taken: ["2026-01-31", "2026-02-01"],
        missing: "2026-03-01",
    },
];

#[test]
fn keys_that_no_shard_takes_are_refused_and_nothing_is_written() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    for Gap { columns, by, taken: [low, high], missing } in GAPS {
        done(&mut client, &format!("CREATE TABLE t ({columns}) {by}"));
        // In memory, and on one shard: what is read is the engine's to divide.
        done(&mut client, &format!("CREATE TABLE g ({columns})"));
        done(&mut client, &format!("CREATE TABLE src ({columns}) USING sharded WITH (servers = 's1', single)"));
        for source in ["g", "src"] {
            let rows = format!("('{low}', 'a'), ('{high}', 'b'), ('{missing}', 'c')");
            done(&mut client, &format!("INSERT INTO {source} VALUES {rows}"));
        }
        let is_refused = |error: &str| {
            assert!(error.starts_with("22023") && error.contains("no shard takes rows"), "{by}\n{error}");
            assert_eq!(total(&fleet.shards, "SELECT count(*) FROM t"), 0, "{by}");
            assert_eq!(prepared(&fleet.shards), 0, "{by}");
        };
        for sql in [
            format!("INSERT INTO t VALUES ('{missing}', 'x')"),
            format!("INSERT INTO t VALUES ('{low}', 'x'), ('{high}', 'x'), ('{missing}', 'x')"),
            format!("INSERT INTO t VALUES ('{low}', upper('x')), ('{missing}', 'x') RETURNING k"),
            "INSERT INTO t SELECT * FROM g".to_owned(),
            "INSERT INTO t SELECT k, v FROM src ORDER BY v".to_owned(),
            "INSERT INTO t SELECT g.k, src.v FROM g JOIN src ON src.k = g.k ON CONFLICT DO NOTHING".to_owned(),
        ] {
            is_refused(&refused(&mut client, &sql));
        }
        let sql = "INSERT INTO t VALUES ($1, 'x'), ($2, 'y')";
        is_refused(&bound(&mut client, sql, &[*low, *missing]).unwrap_err());
        let data = format!("{low}\ta\n{high}\tb\n{missing}\tc\n{low}\td\n");
        for (format, data) in [("", data.clone()), ("WITH (FORMAT csv)", data.replace('\t', ","))] {
            let error = copy_in(&mut client, &format!("COPY t FROM STDIN {format}"), &[data.as_bytes()]).unwrap_err();
            assert!(error.contains("line 3"), "{by}\n{error}");
            is_refused(&error);
        }
        // What came before it in its transaction is undone with it.
        done(&mut client, "BEGIN");
        done(&mut client, &format!("INSERT INTO t VALUES ('{low}', 'x'), ('{high}', 'x')"));
        let error = refused(&mut client, &format!("INSERT INTO t VALUES ('{missing}', 'x')"));
        assert!(error.starts_with("22023"), "{error}");
        done(&mut client, "COMMIT");
        assert_eq!(total(&fleet.shards, "SELECT count(*) FROM t"), 0, "{by}");
        assert!(refused(&mut client, "INSERT INTO t (v) VALUES ('x')").starts_with("23502"), "{by}");
        // Where no row can be, none is found and none changed.
        for (sql, tag) in [
            (format!("SELECT * FROM t WHERE k = '{missing}'"), "SELECT 0"),
            (format!("UPDATE t SET v = 'y' WHERE k = '{missing}'"), "UPDATE 0"),
            (format!("DELETE FROM t WHERE k IN ('{missing}')"), "DELETE 0"),
        ] {
            let answer = ask(&mut client, &sql, Protocol::Simple);
            assert_eq!(answer.tag.as_deref(), Some(tag), "{sql}\n{answer:?}");
        }
        done(&mut client, &format!("INSERT INTO t VALUES ('{low}', 'x'), ('{high}', 'x')"));
        for shard in 0..2 {
            assert_eq!(fleet.shard(shard).value("SELECT count(*) FROM t").unwrap(), "1", "{by}");
        }
        for table in ["t", "g", "src"] {
            done(&mut client, &format!("DROP TABLE {table}"));
        }
    }
    fleet.ashlar.check_log();
}

/// Some keys of each shard of a table that is sharded by `k`.
fn keys_of_shards(client: &mut pg::Connection, shards: usize, count: usize) -> Vec<Vec<i64>> {
    let mut keys: Vec<Vec<i64>> = vec![Vec::new(); shards];
    for key in 0.. {
        let lines = rows(client, &format!("EXPLAIN (ROUTE) SELECT * FROM t WHERE k = {key}"));
        let shard = lines[0][0].as_ref().unwrap().strip_prefix("Route: shard ").expect("a key is on one shard");
        keys[shard.parse::<usize>().unwrap()].push(key);
        if keys.iter().all(|keys| keys.len() >= count) {
            break;
        }
    }
    keys
}

/// Two shards whose `v` is unique on each, which is looked at when a transaction commits.
fn deferred() -> (Fleet, pg::Connection, Vec<Vec<i64>>) {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    for shard in 0..2 {
        done(&mut fleet.shard(shard), "ALTER TABLE t ADD CONSTRAINT late UNIQUE (v) DEFERRABLE INITIALLY DEFERRED");
    }
    let keys = keys_of_shards(&mut client, 2, 3);
    (fleet, client, keys)
}

#[test]
fn a_string_whose_last_statement_fails_does_nothing() {
    let (fleet, mut client, keys) = deferred();
    let (a, b) = (&keys[0], &keys[1]);
    let both = format!("INSERT INTO t VALUES ({}, 'a'); INSERT INTO t VALUES ({}, 'b')", a[0], b[0]);
    let spread = format!("INSERT INTO t VALUES ({}, 'a'), ({}, 'b'); UPDATE t SET v = v || 'x'", a[0], b[0]);
    for (last, code) in [
        (format!("INSERT INTO t VALUES ({}, 'again')", a[0]), "23505"),
        (format!("INSERT INTO t VALUES ({}, 'again')", b[0]), "23505"),
        (format!("SELECT 1 / (k - {}) FROM t WHERE k = {}", b[0], b[0]), "22012"),
        ("SELECT 1 / 0".to_owned(), "22012"),
        ("SELECT * FROM nothing".to_owned(), "42P01"),
        ("INSERT INTO t (k, nothing) VALUES (1, 2)".to_owned(), "42703"),
        ("INSERT INTO t VALUES (NULL, 'x')".to_owned(), "23502"),
        ("SELEKT 1".to_owned(), "42601"),
    ] {
        for first in [&both, &spread] {
            let error = refused(&mut client, &format!("{first}; {last}"));
            assert!(error.starts_with(code), "{last}\n{error}");
            assert_eq!(total(&fleet.shards, "SELECT count(*) FROM t"), 0, "{first}; {last}");
            assert_eq!(prepared(&fleet.shards), 0, "{first}; {last}");
        }
    }
    // The connection is of use, and so is the string without that.
    done(&mut client, &both);
    assert_eq!(total(&fleet.shards, "SELECT count(*) FROM t"), 2);
    fleet.ashlar.check_log();
}

#[test]
fn a_string_that_fails_when_it_commits_does_nothing() {
    let (fleet, mut client, keys) = deferred();
    for (first, second) in [(0, 1), (1, 0)] {
        // The shard that is written to first decides; each of both has its turn at refusing.
        for bad in [first, second] {
            let (a, b, again) = (keys[first][0], keys[second][0], keys[bad][1]);
            let value = if bad == first { "first" } else { "second" };
            let string = [(a, "first"), (b, "second"), (again, value)]
                .map(|(key, value)| format!("INSERT INTO t VALUES ({key}, '{value}')"))
                .join("; ");
            for sql in [string.clone(), format!("BEGIN; {string}; COMMIT")] {
                let error = refused(&mut client, &sql);
                let is_told = error.contains("late") && error.contains(&format!("shard s{bad}"));
                assert!(error.starts_with("23505") && is_told, "{sql}\n{error}");
                assert_eq!(total(&fleet.shards, "SELECT count(*) FROM t"), 0, "{sql}");
                assert_eq!(prepared(&fleet.shards), 0, "{sql}");
                // It is in no transaction any more.
                assert!(!ask(&mut client, "SELECT 1", Protocol::Simple).in_block, "{sql}");
            }
            // The same as one statement that is a transaction of its own.
            let error = refused(
                &mut client,
                &format!("INSERT INTO t VALUES ({a}, 'first'), ({b}, 'second'), ({again}, '{value}')"),
            );
            assert!(error.starts_with("23505"), "{error}");
            assert_eq!(total(&fleet.shards, "SELECT count(*) FROM t"), 0);
        }
    }
    let (a, b) = (keys[0][2], keys[1][2]);
    done(&mut client, &format!("INSERT INTO t VALUES ({a}, 'x'); INSERT INTO t VALUES ({b}, 'x')"));
    assert_eq!(total(&fleet.shards, "SELECT count(*) FROM t"), 2);
    fleet.ashlar.check_log();
}

/// What an error says: SQLSTATE, message, table and column.
fn fields_of_error(client: &mut pg::Connection, sql: &str) -> Vec<Option<String>> {
    client.send(&pg::message(b'Q', &[sql.as_bytes(), b"\0"])).unwrap();
    let mut fields = Vec::new();
    loop {
        let message = client.read().unwrap_or_else(|error| panic!("{sql}\n{error:#}"));
        match message.kind {
            b'E' => fields = [b'C', b'M', b't', b'c'].map(|field| message.field(field)).to_vec(),
            b'Z' => return fields,
            _ => {}
        }
    }
}

#[test]
fn a_key_that_is_null_is_told_as_postgresql_tells_it() {
    let (fleet, _oracle, mut alone, mut client) = twins_with_rows();
    for sql in [
        "INSERT INTO t VALUES (NULL, 1, 'a')",
        "INSERT INTO t (v) VALUES ('a')",
        "INSERT INTO t (k, v) VALUES (DEFAULT, 'a'), (100001, 'b')",
        "INSERT INTO s VALUES (200001, 1, 'b'), (NULL, 1, 'a')",
        "INSERT INTO t SELECT nullif(g, g), g, v FROM t",
        "UPDATE t SET k = NULL WHERE k = 1",
    ] {
        let (expected, found) = (fields_of_error(&mut alone, sql), fields_of_error(&mut client, sql));
        assert_eq!(found, expected, "{sql}");
    }
    // So is what may not be done in a transaction that reads.
    let changes =
        ["INSERT INTO t VALUES (1, 1, 'a')", "UPDATE t SET v = 'a'", "DELETE FROM t WHERE g IN (SELECT g FROM s)"];
    for sql in changes {
        let told = [&mut alone, &mut client].map(|client| {
            done(client, "BEGIN READ ONLY");
            let fields = fields_of_error(client, sql);
            done(client, "ROLLBACK");
            fields
        });
        assert_eq!(told[1], told[0], "{sql}");
    }
    assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "10000");
    fleet.ashlar.check_log();
}
