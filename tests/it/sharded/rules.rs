//! Rows are on the shard that PostgreSQL itself computes for them: every rule, asked of real servers.

use ashlar_tests::pg;

use super::slt::{is_listed, kinds_of_refusals};
use super::{Fleet, done, rows};

const SHARDS: usize = 3;

/// A table: its columns, its rule, the values of its rows, and where they have to be.
struct Case {
    columns: &'static str,
    rule: &'static str,
    /// The rows' values, from numbers `i`.
    values: &'static str,
    /// What must hold for the rows of shard `{n}`.
    holds: &'static str,
    /// By shard: its server, and its table there.
    places: &'static [(usize, &'static str)],
    /// Conditions on the key, with the shards that are asked for them.
    asked: &'static [(&'static str, &'static [usize])],
}

/// A shard on each server, and nothing to be asked but what every rule is.
const PLAIN: Case = Case {
    columns: "k int PRIMARY KEY, v text",
    rule: "",
    values: "i - 20, 'x'",
    holds: "",
    places: &[(0, "t"), (1, "t"), (2, "t")],
    asked: &[],
};

/// `hash mod 3` of a hash that is unsigned.
macro_rules! hashed {
    ($hash:literal) => {
        concat!("mod(", $hash, "::numeric + CASE WHEN ", $hash, " < 0 THEN 18446744073709551616 ELSE 0 END, 3) = {n}")
    };
}

const CASES: &[Case] = &[
    Case {
        columns: "k bigint PRIMARY KEY, v text",
        rule: "PARTITION BY HASH (k) USING sharded WITH (algorithm = 'hash_mod', servers = 's0,s1,s2')",
        values: "(i - 20) * 123456789012345, 'x'",
        holds: hashed!("hashint8extended(k, 0)"),
        ..PLAIN
    },
    Case {
        columns: "k smallint PRIMARY KEY, v text",
        rule: "PARTITION BY HASH (k) USING sharded WITH (servers = 's0,s1,s2')",
        values: "i - 20, 'x'",
        holds: hashed!("hashint2extended(k, 0)"),
        ..PLAIN
    },
    Case {
        columns: "k text PRIMARY KEY, v text",
        rule: "PARTITION BY HASH (k) USING sharded WITH (servers = 's0,s1,s2')",
        values: "repeat('ä' || i, i % 9), 'x'",
        holds: hashed!("hashtextextended(k, 0)"),
        ..PLAIN
    },
    Case {
        columns: "k uuid PRIMARY KEY, v text",
        rule: "PARTITION BY HASH (k) USING sharded WITH (servers = 's0,s1,s2')",
        values: "md5('m' || i)::uuid, 'x'",
        holds: hashed!("uuid_hash_extended(k, 0)"),
        ..PLAIN
    },
    Case {
        columns: "k date PRIMARY KEY, v text",
        rule: "PARTITION BY HASH (k) USING sharded WITH (servers = 's0,s1,s2')",
        values: "date '1999-12-15' + i, 'x'",
        holds: hashed!("hashint4extended(k - date '2000-01-01', 0)"),
        ..PLAIN
    },
    Case {
        columns: "k timestamp PRIMARY KEY, v text",
        rule: "PARTITION BY HASH (k) USING sharded WITH (servers = 's0,s1,s2')",
        values: "timestamp '1999-12-31 12:00' + i * interval '1 hour 1.5 seconds', 'x'",
        holds: hashed!("timestamp_hash_extended(k, 0)"),
        ..PLAIN
    },
    Case {
        columns: "k bigint, v text, PRIMARY KEY (k, v)",
        rule: "PARTITION BY HASH (k, v) USING sharded WITH (algorithm = 'pg_hash', servers = 's0,s1,s2')",
        values: "i * 7, 'v' || i",
        holds: "satisfies_hash_partition('parent'::regclass, 3, {n}, k, v)",
        ..PLAIN
    },
    Case {
        columns: "k int PRIMARY KEY, v text",
        rule: "PARTITION BY HASH (k) USING sharded WITH (algorithm = 'mod', servers = 's0,s1,s2')",
        values: "i - 20, 'x'",
        holds: "mod(mod(k, 3) + 3, 3) = {n}",
        ..PLAIN
    },
    Case {
        columns: "k text PRIMARY KEY, v text",
        rule: "PARTITION BY LIST (k) USING sharded WITH (lists = '0, 1, 2; 3, 4; *', servers = 's0,s1,s2')",
        values: "i::text, 'x'",
        holds: "CASE WHEN k IN ('0', '1', '2') THEN 0 WHEN k IN ('3', '4') THEN 1 ELSE 2 END = {n}",
        ..PLAIN
    },
    Case {
        columns: "k date PRIMARY KEY, v text",
        rule: "PARTITION BY RANGE (k) USING sharded \
               WITH (algorithm = 'interval', lower = '2026-01-31', upper = '2026-02-28', interval = '1 month', servers = 's0,s1,s2')",
        values: "date '2026-01-20' + i, 'x'",
        holds: "CASE WHEN k < '2026-01-31' THEN 0 WHEN k < '2026-02-28' THEN 1 ELSE 2 END = {n}",
        ..PLAIN
    },
    Case {
        rule: "PARTITION BY RANGE (k) USING sharded WITH (ranges = '-20..0; 10..30; 0..10', servers = 's0,s1,s2')",
        holds: "CASE WHEN k < 0 THEN 0 WHEN k >= 10 THEN 1 ELSE 2 END = {n}",
        asked: &[
            ("k < 0", &[0]),
            ("k <= 0", &[0, 2]),
            ("k BETWEEN 5 AND 12", &[1, 2]),
            ("k >= 10", &[1]),
            ("k > -5 AND k < 3", &[0, 2]),
            ("k < 3 AND k < 0", &[0]),
            ("k < 100", &[0, 1, 2]),
            ("v = 'x'", &[0, 1, 2]),
        ],
        ..PLAIN
    },
    Case {
        columns: "k bigint PRIMARY KEY, v text",
        rule: "PARTITION BY RANGE (k) USING sharded WITH (boundaries = '-5,8', servers = 's0,s1,s2')",
        holds: "CASE WHEN k < -5 THEN 0 WHEN k < 8 THEN 1 ELSE 2 END = {n}",
        asked: &[("k < -5", &[0]), ("k <= -5", &[0, 1]), ("k BETWEEN -5 AND 7", &[1]), ("k >= 8", &[2])],
        ..PLAIN
    },
    // Four shards on three servers.
    Case {
        rule: "PARTITION BY RANGE (k) USING sharded \
               WITH (algorithm = 'volume', lower = -10, upper = 10, volume = 10, servers = 's0,s1,s2')",
        holds: "CASE WHEN k < -10 THEN 0 WHEN k < 0 THEN 1 WHEN k < 10 THEN 2 ELSE 3 END = {n}",
        places: &[(0, "t_0"), (1, "t_1"), (2, "t_2"), (0, "t_3")],
        asked: &[
            ("k BETWEEN -10 AND -1", &[1]),
            ("k >= 10", &[3]),
            ("k < -10 OR k >= 10", &[0, 3]),
            ("k > -11 AND k < 1", &[0, 1, 2]),
        ],
        ..PLAIN
    },
    // Two shards on each of two servers.
    Case {
        columns: "k bigint PRIMARY KEY, v text",
        rule: "PARTITION BY HASH (k) USING sharded WITH (algorithm = 'mod', shards = 4, servers = 's0,s1')",
        holds: "mod(mod(k, 4) + 4, 4) = {n}",
        places: &[(0, "t_0"), (1, "t_1"), (0, "t_2"), (1, "t_3")],
        asked: &[("k BETWEEN 1 AND 2", &[1, 2]), ("k IN (0, 4, 8)", &[0]), ("k > 5", &[0, 1, 2, 3])],
        ..PLAIN
    },
    Case {
        rule: "PARTITION BY HASH (k) USING sharded \
               WITH (algorithm = 'mod', shards = 4, servers = 's0,s1', schema = 'part', schema_suffix = '_{}')",
        holds: "mod(mod(k, 4) + 4, 4) = {n}",
        places: &[(0, "part_0.t"), (1, "part_1.t"), (0, "part_2.t"), (1, "part_3.t")],
        ..PLAIN
    },
    Case {
        columns: "k varchar(30) PRIMARY KEY, v text",
        rule: "PARTITION BY HASH (k) USING sharded \
               WITH (servers = 's0,s1,s2', schema = 'part', schema_suffix = '_{}', table_suffix = '_of_{}')",
        values: "repeat('ö' || i, 1 + i % 9), 'x'",
        holds: hashed!("hashtextextended(k, 0)"),
        places: &[(0, "part_0.t_of_0"), (1, "part_1.t_of_1"), (2, "part_2.t_of_2")],
        ..PLAIN
    },
    // Where a text lies is known here, and what lies between texts is not.
    Case {
        columns: "k varchar(30) PRIMARY KEY, v text",
        rule: "PARTITION BY RANGE (k) USING sharded WITH (boundaries = 'h,p', servers = 's0,s1,s2')",
        values: "chr(97 + i % 26) || i, 'x'",
        holds: "CASE WHEN k COLLATE \"C\" < 'h' THEN 0 WHEN k COLLATE \"C\" < 'p' THEN 1 ELSE 2 END = {n}",
        asked: &[("k < 'c'", &[0, 1, 2])],
        ..PLAIN
    },
    Case {
        columns: "k timestamptz PRIMARY KEY, v text",
        rule: "PARTITION BY HASH (k) USING sharded WITH (servers = 's0,s1,s2')",
        values: "timestamptz '1999-12-31 12:00+00' + i * interval '1 hour 1.5 seconds', 'x'",
        holds: hashed!("timestamp_hash_extended(k AT TIME ZONE 'UTC', 0)"),
        ..PLAIN
    },
    Case {
        columns: "k timestamptz PRIMARY KEY, v text",
        rule: "PARTITION BY RANGE (k) USING sharded WITH (algorithm = 'interval', servers = 's0,s1,s2', \
               lower = '2000-01-01 00:00+00', upper = '2000-01-01 12:00+00', interval = '12 hours')",
        values: "timestamptz '1999-12-31 12:00+00' + i * interval '50 minutes', 'x'",
        holds: "CASE WHEN k < '2000-01-01 00:00+00' THEN 0 WHEN k < '2000-01-01 12:00+00' THEN 1 ELSE 2 END = {n}",
        asked: &[
            ("k < '2000-01-01 00:00+00'", &[0]),
            ("k < '2000-01-01 09:00+09'", &[0]),
            ("k >= '2000-01-01 12:00+00'", &[2]),
            ("k BETWEEN '1999-12-31 23:00+00' AND '2000-01-01 11:00+00'", &[0, 1]),
        ],
        ..PLAIN
    },
];

/// The shards that a query asks, as its route says.
fn asked(client: &mut pg::Connection, case: &Case, condition: &str) -> Vec<usize> {
    let lines = rows(client, &format!("EXPLAIN (ROUTE) SELECT * FROM t WHERE {condition}"));
    let first = lines[0][0].as_ref().unwrap();
    if first == "Route: all shards" {
        return (0..case.places.len()).collect();
    }
    let shards = first.strip_prefix("Route: shards ").or_else(|| first.strip_prefix("Route: shard "));
    let shards = shards.unwrap_or_else(|| panic!("{}: {condition}: {lines:?}", case.rule));
    shards.split(", ").map(|shard| shard.parse().unwrap()).collect()
}

/// Asks for what each rule is asked by its key, and by the case's own conditions: of no shards but those, and the rows are those that all
/// shards have.
fn ask_by_keys(client: &mut pg::Connection, shards: &mut [pg::Connection], case: &Case) {
    let is_of_two = case.rule.contains("(k, v)");
    let mut keys: Vec<(String, String)> = Vec::new();
    for (server, table) in case.places {
        let row = rows(&mut shards[*server], &format!("SELECT k, v FROM {table} ORDER BY k, v LIMIT 1")).swap_remove(0);
        let cell = |at: usize| format!("'{}'", row[at].as_ref().unwrap());
        keys.push((cell(0), cell(1)));
    }
    let is_equal = |(k, v): &(String, String)| match is_of_two {
        true => format!("(k = {k} AND v = {v})"),
        false => format!("k = {k}"),
    };
    for (shard, key) in keys.iter().enumerate() {
        assert_eq!(asked(client, case, &is_equal(key)), [shard], "{}: {key:?}", case.rule);
    }
    let mut questions: Vec<(String, Vec<usize>)> = Vec::new();
    for (first, pair) in keys.windows(2).enumerate() {
        let both = vec![first, first + 1];
        questions.push((format!("{} OR {}", is_equal(&pair[0]), is_equal(&pair[1])), both.clone()));
        if !is_of_two {
            questions.push((format!("k IN ({}, {}, {})", pair[1].0, pair[0].0, pair[1].0), both));
        }
    }
    questions.extend(case.asked.iter().map(|(condition, shards)| ((*condition).to_owned(), shards.to_vec())));
    for (condition, expected) in questions {
        assert_eq!(asked(client, case, &condition), expected, "{}: {condition}", case.rule);
        let count = |table: &str| format!("SELECT count(*) FROM {table} WHERE {condition}");
        let held = case.places.iter().map(|(server, table)| shards[*server].value(&count(table)).unwrap());
        let held: u64 = held.map(|count| count.parse::<u64>().unwrap()).sum();
        assert_eq!(client.value(&count("t")).unwrap(), held.to_string(), "{}: {condition}", case.rule);
    }
}

#[test]
fn rows_are_where_postgresql_computes_them_to_be() {
    let fleet = Fleet::start(SHARDS);
    let mut client = fleet.client();
    let mut shards: Vec<_> = (0..SHARDS).map(|number| fleet.shard(number)).collect();
    for shard in &mut shards {
        done(shard, "CREATE TABLE parent (k bigint, v text) PARTITION BY HASH (k, v)");
        for number in 0..4 {
            done(shard, &format!("CREATE SCHEMA part_{number}"));
        }
    }
    for case in CASES {
        done(&mut client, &format!("CREATE TABLE t ({}) {}", case.columns, case.rule));
        // A server says what the values are; each row is then a statement of its own.
        let values = format!("SELECT {} FROM generate_series(1, 40) AS i", case.values);
        let mut keys = 0;
        for row in rows(&mut shards[0], &format!("SELECT DISTINCT * FROM ({values}) AS d")) {
            let cells: Vec<String> = row.into_iter().map(|cell| format!("'{}'", cell.unwrap())).collect();
            done(&mut client, &format!("INSERT INTO t VALUES ({})", cells.join(", ")));
            keys += 1;
            let found =
                client.value(&format!("SELECT count(*) FROM t WHERE k = {} AND v = {}", cells[0], cells[1])).unwrap();
            assert_eq!(found, "1", "{}: {cells:?}", case.rule);
        }
        let mut held = 0;
        for (number, (server, table)) in case.places.iter().enumerate() {
            let shard = &mut shards[*server];
            let holds = case.holds.replace("{n}", &number.to_string());
            let all: i32 = shard.value(&format!("SELECT count(*) FROM {table}")).unwrap().parse().unwrap();
            assert_eq!(
                shard.value(&format!("SELECT count(*) FROM {table} WHERE {holds}")).unwrap(),
                all.to_string(),
                "{}",
                case.rule
            );
            assert!(all > 0, "{}: shard {number} has no rows", case.rule);
            held += all;
        }
        assert_eq!(held, keys, "{}", case.rule);
        ask_by_keys(&mut client, &mut shards, case);
        done(&mut client, "DROP TABLE t");
    }
    fleet.ashlar.check_log();
}

/// `hash_combine64` of hashes that a server computes: what it makes of several columns without a seed no function of it says.
#[test]
fn rows_of_two_columns_are_where_their_hashes_together_say() {
    let fleet = Fleet::start(SHARDS);
    let mut client = fleet.client();
    done(
        &mut client,
        "CREATE TABLE t (k int, v varchar(20), PRIMARY KEY (k, v)) PARTITION BY HASH (k, v) \
         USING sharded WITH (algorithm = 'hash_mod', servers = 's0,s1,s2')",
    );
    for i in 1..=60 {
        done(&mut client, &format!("INSERT INTO t VALUES ({}, 'v{i}ß')", (i - 30) * 7));
    }
    let combine = |a: u64, b: u64| a ^ b.wrapping_add(0x49a0_f4dd_15e5_a8e3).wrapping_add(a << 54).wrapping_add(a >> 7);
    let mut held = 0;
    for number in 0..SHARDS {
        let hashes = "SELECT k, v, hashint4extended(k, 0), hashtextextended(v, 0) FROM t";
        let found = rows(&mut fleet.shard(number), hashes);
        assert!(!found.is_empty(), "shard {number} has no rows");
        held += found.len();
        for row in found {
            let cell = |at: usize| row[at].as_ref().unwrap();
            let hash = |at: usize| cell(at).parse::<i64>().unwrap().cast_unsigned();
            let shard = combine(combine(0, hash(2)), hash(3)) % SHARDS as u64;
            assert_eq!(shard, number as u64, "{row:?}");
            let condition = format!("k = {} AND v = '{}'", cell(0), cell(1));
            let lines = rows(&mut client, &format!("EXPLAIN (ROUTE) SELECT * FROM t WHERE {condition}"));
            assert_eq!(lines[0][0].as_deref(), Some(format!("Route: shard {number}").as_str()), "{condition}");
        }
    }
    assert_eq!(held, 60);
    // A part of the key says nothing.
    let lines = rows(&mut client, "EXPLAIN (ROUTE) SELECT * FROM t WHERE k = 7");
    assert_eq!(lines[0][0].as_deref(), Some("Route: all shards"));
    fleet.ashlar.check_log();
}

/// A time without a zone is one of the session's: it is on another shard for a client somewhere else.
#[test]
fn times_are_read_in_the_zone_of_the_session() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(
        &mut client,
        "CREATE TABLE t (k timestamptz PRIMARY KEY) PARTITION BY RANGE (k) \
         USING sharded WITH (servers = 's0,s1', boundaries = '2000-01-01 00:00+00')",
    );
    let times = [("UTC", 5, 1), ("Asia/Tokyo", 5, 0), ("Asia/Tokyo", 10, 1), ("America/New_York", 1, 1)];
    for (zone, hour, shard) in times {
        done(&mut client, &format!("SET TimeZone = '{zone}'"));
        let time = format!("2000-01-01 {hour:02}:00");
        done(&mut client, &format!("INSERT INTO t VALUES ('{time}')"));
        let held = fleet.shard(shard).value(&format!("SELECT count(*) FROM t WHERE k = '{time} {zone}'")).unwrap();
        assert_eq!(held, "1", "{time} {zone}");
        let lines = rows(&mut client, &format!("EXPLAIN (ROUTE) SELECT * FROM t WHERE k = '{time}'"));
        assert_eq!(lines[0][0].as_deref(), Some(format!("Route: shard {shard}").as_str()), "{time} {zone}");
        assert_eq!(client.value(&format!("SELECT count(*) FROM t WHERE k = '{time}'")).unwrap(), "1");
    }
    fleet.ashlar.check_log();
}

#[test]
fn bad_rules_are_refused_before_a_table_is_made() {
    let fleet = Fleet::start(1);
    let mut client = fleet.client();
    let kinds = kinds_of_refusals();
    for (definition, words) in [
        ("PARTITION BY HASH (k) USING sharded", "needs the parameter \"servers\""),
        ("USING sharded WITH (servers = 's0')", "needs a sharding key"),
        ("PARTITION BY HASH (k) USING sharded WITH (servers = 's0,s9')", "server \"s9\" does not exist"),
        ("PARTITION BY LIST (k) USING sharded WITH (servers = 's0', lists = '1,1')", "twice"),
        ("PARTITION BY HASH (v) USING sharded WITH (servers = 's0')", "must include all columns of its sharding key"),
        ("PARTITION BY WEEK (k) USING sharded WITH (servers = 's0')", "unrecognized partitioning strategy \"week\""),
        ("PARTITION BY HASH ((k + 1)) USING sharded WITH (servers = 's0')", "a sharding key is made of columns only"),
        ("PARTITION BY HASH (v COLLATE \"C\") USING sharded WITH (servers = 's0')", "is made of columns only"),
        ("PARTITION BY HASH (k int8_ops) USING sharded WITH (servers = 's0')", "is made of columns only"),
        (
            "PARTITION BY HASH (f) USING sharded WITH (servers = 's0')",
            "column \"f\" of type double precision cannot be a sharding key",
        ),
        (
            "PARTITION BY HASH (k, v) USING sharded WITH (servers = 's0', algorithm = 'mod')",
            "algorithm mod takes one column",
        ),
    ] {
        let columns = "k bigint PRIMARY KEY, v text, f double precision";
        let error = super::refused(&mut client, &format!("CREATE TABLE t ({columns}) {definition}"));
        assert!(error.contains(words), "{definition}\n{error}");
        assert!(!error.starts_with("0A000") || is_listed(&error, &kinds), "the page does not say: {error}");
        assert_eq!(fleet.shard(0).value("SELECT count(*) FROM pg_class WHERE relname = 't'").unwrap(), "0");
    }
    fleet.ashlar.check_log();
}
