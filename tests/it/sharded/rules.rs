//! Rows are on the shard that PostgreSQL itself computes for them: every rule, asked of real servers.

use super::{Fleet, done, rows};

const SHARDS: usize = 3;

/// A table: its columns, its rule, the values of its rows, and what must hold for the rows of shard `{n}`.
struct Case {
    columns: &'static str,
    rule: &'static str,
    /// The rows' values, from numbers `i`.
    values: &'static str,
    holds: &'static str,
}

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
    },
    Case {
        columns: "k smallint PRIMARY KEY, v text",
        rule: "PARTITION BY HASH (k) USING sharded WITH (servers = 's0,s1,s2')",
        values: "i - 20, 'x'",
        holds: hashed!("hashint2extended(k, 0)"),
    },
    Case {
        columns: "k text PRIMARY KEY, v text",
        rule: "PARTITION BY HASH (k) USING sharded WITH (servers = 's0,s1,s2')",
        values: "repeat('ä' || i, i % 9), 'x'",
        holds: hashed!("hashtextextended(k, 0)"),
    },
    Case {
        columns: "k uuid PRIMARY KEY, v text",
        rule: "PARTITION BY HASH (k) USING sharded WITH (servers = 's0,s1,s2')",
        values: "md5('m' || i)::uuid, 'x'",
        holds: hashed!("uuid_hash_extended(k, 0)"),
    },
    Case {
        columns: "k date PRIMARY KEY, v text",
        rule: "PARTITION BY HASH (k) USING sharded WITH (servers = 's0,s1,s2')",
        values: "date '1999-12-15' + i, 'x'",
        holds: hashed!("hashint4extended(k - date '2000-01-01', 0)"),
    },
    Case {
        columns: "k timestamp PRIMARY KEY, v text",
        rule: "PARTITION BY HASH (k) USING sharded WITH (servers = 's0,s1,s2')",
        values: "timestamp '1999-12-31 12:00' + i * interval '1 hour 1.5 seconds', 'x'",
        holds: hashed!("timestamp_hash_extended(k, 0)"),
    },
    Case {
        columns: "k bigint, v text, PRIMARY KEY (k, v)",
        rule: "PARTITION BY HASH (k, v) USING sharded WITH (algorithm = 'pg_hash', servers = 's0,s1,s2')",
        values: "i * 7, 'v' || i",
        holds: "satisfies_hash_partition('parent'::regclass, 3, {n}, k, v)",
    },
    Case {
        columns: "k int PRIMARY KEY, v text",
        rule: "PARTITION BY HASH (k) USING sharded WITH (algorithm = 'mod', servers = 's0,s1,s2')",
        values: "i - 20, 'x'",
        holds: "mod(mod(k, 3) + 3, 3) = {n}",
    },
    Case {
        columns: "k text PRIMARY KEY, v text",
        rule: "PARTITION BY LIST (k) USING sharded WITH (lists = '0, 1, 2; 3, 4; *', servers = 's0,s1,s2')",
        values: "i::text, 'x'",
        holds: "CASE WHEN k IN ('0', '1', '2') THEN 0 WHEN k IN ('3', '4') THEN 1 ELSE 2 END = {n}",
    },
    Case {
        columns: "k date PRIMARY KEY, v text",
        rule: "PARTITION BY RANGE (k) USING sharded \
               WITH (algorithm = 'interval', lower = '2026-01-31', upper = '2026-02-28', interval = '1 month', servers = 's0,s1,s2')",
        values: "date '2026-01-20' + i, 'x'",
        holds: "CASE WHEN k < '2026-01-31' THEN 0 WHEN k < '2026-02-28' THEN 1 ELSE 2 END = {n}",
    },
];

#[test]
fn rows_are_where_postgresql_computes_them_to_be() {
    let fleet = Fleet::start(SHARDS);
    let mut client = fleet.client();
    let mut shards: Vec<_> = (0..SHARDS).map(|number| fleet.shard(number)).collect();
    for shard in &mut shards {
        done(shard, "CREATE TABLE parent (k bigint, v text) PARTITION BY HASH (k, v)");
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
        for (number, shard) in shards.iter_mut().enumerate() {
            let holds = case.holds.replace("{n}", &number.to_string());
            let all: i32 = shard.value("SELECT count(*) FROM t").unwrap().parse().unwrap();
            assert_eq!(
                shard.value(&format!("SELECT count(*) FROM t WHERE {holds}")).unwrap(),
                all.to_string(),
                "{}",
                case.rule
            );
            assert!(all > 0, "{}: shard {number} has no rows", case.rule);
            held += all;
        }
        assert_eq!(held, keys, "{}", case.rule);
        done(&mut client, "DROP TABLE t");
    }
    fleet.ashlar.check_log();
}

#[test]
fn bad_rules_are_refused_before_a_table_is_made() {
    let fleet = Fleet::start(1);
    let mut client = fleet.client();
    for (definition, words) in [
        ("PARTITION BY HASH (k) USING sharded", "needs the parameter \"servers\""),
        ("USING sharded WITH (servers = 's0')", "needs a sharding key"),
        ("PARTITION BY HASH (k) USING sharded WITH (servers = 's0,s9')", "server \"s9\" does not exist"),
        ("PARTITION BY LIST (k) USING sharded WITH (servers = 's0', lists = '1,1')", "twice"),
        ("PARTITION BY HASH (v) USING sharded WITH (servers = 's0')", "must include all columns of its sharding key"),
    ] {
        let error = super::refused(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {definition}"));
        assert!(error.contains(words), "{definition}\n{error}");
        assert_eq!(fleet.shard(0).value("SELECT count(*) FROM pg_class WHERE relname = 't'").unwrap(), "0");
    }
    fleet.ashlar.check_log();
}
