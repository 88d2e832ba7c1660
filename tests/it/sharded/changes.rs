//! UPDATE and DELETE of rows that no shard finds by itself, and of rows that go to another shard: the same statements on a fleet and on
//! one PostgreSQL, whose answers must be the same one by one.

use super::slt::{is_listed, kinds_of_refusals};
use super::twins::Twins;
use super::*;
use crate::comparison::{Protocol, bound};
use crate::random::Random;

const TABLES: &[(&str, &str, Option<&str>)] = &[
    ("t", "k bigint PRIMARY KEY, g int, v varchar(12), n numeric(12,3) DEFAULT 7.5", Some("k")),
    ("u", "k bigint PRIMARY KEY, w text NOT NULL, many bigint", Some("k")),
    ("p", "a bigint, b text, c int, PRIMARY KEY (a, b)", Some("a")),
    ("m", "k bigint PRIMARY KEY, g int, v varchar(12), n numeric(12,3)", None),
];

/// What `t` has.
const STATE: &str = "SELECT count(*), sum(k), sum(g), sum(n), sum(length(v)) FROM t";

/// All of it.
const ALL: &str = "SELECT * FROM t ORDER BY k";

/// Blocks, each of which begins with the rows that the ones before have left.
const BLOCKS: &[&[&str]] = &[
    // Several columns that are assigned together, and other grammar that shards know and the engine does not.
    &[
        "UPDATE t SET (v, n) = (CASE WHEN k IN (1, 2, 3) THEN 'in' ELSE v END, g + 0.5)",
        STATE,
        "UPDATE t SET (v, n) = (CASE WHEN k IN (1, 2, 3) THEN 'some' ELSE v END, 2.5) WHERE k IN (2, 3, 4, 5) RETURNING k, v",
        "UPDATE t SET (v, n) = (SELECT w, many FROM u WHERE u.k = t.k AND u.k IN (2, 3, 4)) WHERE k < 6",
        "UPDATE t SET (v, n) = ROW('row', DEFAULT) WHERE k = 7 RETURNING k, v, n",
        "UPDATE p SET (c) = ROW(5) WHERE a = 3",
        "INSERT INTO t VALUES (7, 1, 'x', 1), (8, 2, 'y', 2) \
         ON CONFLICT (k) DO UPDATE SET (g, v) = (SELECT 5, excluded.v) RETURNING k, g, v",
        "SELECT ROW(k, g) FROM t WHERE k = 8",
        "SELECT x.k, v, w FROM t JOIN u USING (k) AS x WHERE x.k = 3",
        ALL,
    ],
    // What rows are changed by: tables in memory, other shards, the table itself, what is computed of them.
    &[
        "UPDATE t SET v = m.v FROM m WHERE m.k = t.k AND m.g = 2",
        STATE,
        "UPDATE t SET n = t.n + m.n, v = upper(m.v) FROM m WHERE m.k = t.g + 1",
        STATE,
        "UPDATE t SET v = u.w FROM u WHERE u.k = t.g",
        "UPDATE t AS x SET n = s.total FROM (SELECT g, sum(n) AS total FROM m GROUP BY g) s WHERE s.g = x.g",
        STATE,
        "UPDATE t SET n = n * 2 WHERE k IN (SELECT k FROM m WHERE g = 3)",
        "UPDATE t SET n = (SELECT max(n) FROM m WHERE m.g = t.g) WHERE k > 20",
        "UPDATE t SET n = (SELECT max(many) FROM u) WHERE g = 1",
        STATE,
        "UPDATE t SET (v, n) = ('both', 1.25) FROM m WHERE m.k = t.k AND m.k < 4",
        "UPDATE t SET n = DEFAULT, v = NULL FROM m WHERE m.k = t.k AND m.k = 9",
        "UPDATE t a SET n = b.n FROM t b WHERE b.k = a.k + 1",
        "UPDATE t SET v = 'self' WHERE n > (SELECT max(n) FROM m)",
        "WITH c AS (SELECT g, count(*) AS many FROM m GROUP BY g) UPDATE u SET many = c.many FROM c WHERE c.g = u.k",
        "SELECT count(*), sum(k), sum(many) FROM u",
        "UPDATE p SET c = t.g FROM t WHERE t.k = p.c",
        "SELECT * FROM p ORDER BY a, b",
        "UPDATE t SET n = 0 FROM m WHERE m.k = t.k AND m.k > 1000",
        ALL,
    ],
    // A row that is found several times is changed once.
    &[
        "UPDATE t SET n = 4 FROM m WHERE m.g = t.g",
        "UPDATE t SET n = 5 FROM m a, m b WHERE a.g = t.g AND b.g = a.g RETURNING t.k, t.n",
        "DELETE FROM t USING m WHERE m.g = t.g AND t.k = 50 RETURNING t.k",
        STATE,
    ],
    // What comes back.
    &[
        "UPDATE t SET n = t.n + 1 FROM m WHERE m.k = t.k AND m.k < 8 RETURNING t.k, t.n, m.v",
        "UPDATE t SET n = 3 FROM m WHERE m.k = t.k AND m.k BETWEEN 8 AND 12 RETURNING *",
        "UPDATE t SET v = 'r' WHERE k IN (SELECT k FROM m WHERE g = 1) RETURNING k, v",
        "UPDATE t SET v = 'r' || m.g FROM m WHERE m.k = t.k AND m.k < 5 RETURNING t.k + 1 AS next, upper(t.v), t.n",
        "UPDATE t SET v = 'none' FROM m WHERE m.k = t.k AND m.k > 1000 RETURNING t.k",
        "UPDATE t SET v = 'x' FROM m WHERE m.k = t.k RETURNING nothing",
        "DELETE FROM t USING m WHERE m.k = t.k AND m.k = 31 RETURNING t.*, m.g",
        "DELETE FROM t USING m WHERE m.k = t.k AND m.k > 1000 RETURNING t.k",
        "DELETE FROM t WHERE k IN (SELECT k FROM m WHERE k = 32) RETURNING *",
        STATE,
    ],
    // Rows that go to other shards, and keys that are taken.
    &[
        "UPDATE t SET k = k + 1000 WHERE k < 10",
        ALL,
        "UPDATE t SET k = k + 500 WHERE g = 3 RETURNING k, g, v, n",
        "UPDATE t SET k = 2000 + t.g, v = 'moved' FROM m WHERE m.k = t.k AND t.k = 21 RETURNING t.k, m.k",
        "UPDATE t SET k = k",
        "UPDATE t SET k = 15 WHERE k = 16",
        "UPDATE t SET k = 15 WHERE k IN (16, 18)",
        "UPDATE t SET k = NULL WHERE k = 20",
        "UPDATE t SET k = 1 / (k - k) WHERE k = 20",
        "UPDATE p SET a = a + 10, c = 0 WHERE b = 'b1' RETURNING *",
        "UPDATE p SET a = t.k, b = t.v FROM t WHERE t.k = 25 AND p.a = 3",
        "UPDATE p SET (a, b) = (77, 'both') WHERE a = 4 AND b = 'b0'",
        "SELECT * FROM p ORDER BY a, b",
        ALL,
        "SELECT v FROM t WHERE k = 1001",
        "SELECT v FROM t WHERE k = 1",
    ],
    // In blocks: rows that are written in them, savepoints, errors.
    &[
        "BEGIN",
        "INSERT INTO t VALUES (5001, 1, 'own', 1), (5002, 2, 'own', 2), (5003, 3, 'own', 3)",
        "UPDATE t SET n = m.n FROM m WHERE m.k = t.g AND t.v = 'own' RETURNING t.k, t.n",
        STATE,
        "SAVEPOINT a",
        "DELETE FROM t USING m WHERE m.k = t.g AND t.v = 'own'",
        STATE,
        "ROLLBACK TO a",
        STATE,
        "UPDATE t SET k = k + 7000 WHERE v = 'own' RETURNING k",
        "UPDATE t SET v = 'again' FROM m WHERE m.k = t.g AND t.k > 12000",
        ALL,
        "UPDATE t SET n = 1 / (t.k - t.k) FROM m WHERE m.k = t.g",
        STATE,
        "ROLLBACK TO a",
        STATE,
        "UPDATE t SET k = 15 WHERE k = 16",
        "ROLLBACK TO a",
        "DELETE FROM t WHERE g IN (SELECT g FROM m WHERE k = 1)",
        "COMMIT",
        ALL,
        "BEGIN",
        "UPDATE t SET v = 'gone', k = k + 20000",
        "DELETE FROM t USING u WHERE u.k = t.g",
        STATE,
        "ROLLBACK",
        ALL,
    ],
    // Prepared, with parameters that shards are not asked about, and that they are.
    &[
        "PREPARE q (bigint, text) AS UPDATE t SET v = $2, n = m.n FROM m WHERE m.k = t.k AND t.k < $1 \
         RETURNING t.k, t.v",
        "EXECUTE q (30, 'it''s \\ a')",
        "EXECUTE q (30, NULL)",
        "EXECUTE q (30, 'far too long for it')",
        "PREPARE r (bigint, bigint) AS UPDATE t SET k = $1 WHERE k = $2 RETURNING k",
        "EXECUTE r (9033, 33)",
        "EXECUTE r (9033, 34)",
        "PREPARE s (int) AS DELETE FROM t WHERE n < (SELECT max(n) FROM t) AND g = $1 RETURNING k",
        "EXECUTE s (5)",
        "DEALLOCATE ALL",
        ALL,
    ],
    // Values that do not fit: nothing of the statement stays.
    &[
        "UPDATE t SET v = repeat('x', 13) FROM m WHERE m.k = t.k",
        "UPDATE t SET g = 3000000000 FROM m WHERE m.k = t.k",
        "UPDATE t SET g = m.v FROM m WHERE m.k = t.k",
        "UPDATE t SET nothing = 1 FROM m WHERE m.k = t.k",
        "UPDATE t SET g = 1, g = 2 FROM m WHERE m.k = t.k",
        "UPDATE u SET w = NULL FROM m WHERE m.k = u.k",
        "UPDATE u SET w = CASE WHEN u.k < 5 THEN 'a' END FROM m WHERE m.k = u.k",
        "DELETE FROM t USING nowhere WHERE nowhere.k = t.k",
        "BEGIN READ ONLY",
        "UPDATE t SET v = m.v FROM m WHERE m.k = t.k",
        "ROLLBACK",
        ALL,
        "SELECT * FROM u ORDER BY k",
    ],
];

fn fill(twins: &mut Twins) {
    let t = |k: i32| format!("({k}, {}, 't{k}', {})", k % 7, f64::from(k) * 0.5);
    let u = |k: i32| format!("({k}, 'u{k}', {})", k * 10);
    let p = |k: i32| format!("({}, 'b{}', {k})", k / 2, k % 2);
    let m = |k: i32| format!("({k}, {}, 'm{k}', {})", k % 6, f64::from(k) * 0.75);
    let rows = |row: &dyn Fn(i32) -> String, end: i32| (1..end).map(row).collect::<Vec<String>>().join(", ");
    twins.done(&format!("INSERT INTO t VALUES {}", rows(&t, 61)));
    twins.done(&format!("INSERT INTO u VALUES {}", rows(&u, 15)));
    twins.done(&format!("INSERT INTO p VALUES {}", rows(&p, 20)));
    twins.done(&format!("INSERT INTO m VALUES {}", rows(&m, 41)));
}

fn changes_agree(shards: usize, protocol: Protocol) {
    let mut twins = Twins::start(shards, TABLES);
    fill(&mut twins);
    twins.agree(BLOCKS, protocol);
}

#[test]
fn changes_of_two_shards_are_those_of_one_server() {
    changes_agree(2, Protocol::Simple);
}

#[test]
fn changes_of_three_shards_are_those_of_one_server_prepared() {
    changes_agree(3, Protocol::Extended);
}

const STATEMENTS: u64 = 160;

/// A change of `t`. Each row is found by one row of the others at most; keys grow by what no other change adds.
fn change(random: &mut Random, number: u64) -> String {
    let c = random.below(7);
    let (from, condition) = match random.below(7) {
        0 => ("m", format!("m.k = t.g AND m.g < {c}")),
        1 => ("u", "u.k = t.g".to_owned()),
        2 => ("(SELECT g, max(n) AS n FROM m GROUP BY g) s", format!("s.g = t.g + {c} AND t.k % 3 = 0")),
        3 => ("", format!("t.k IN (SELECT k FROM m WHERE g = {c})")),
        4 => ("", format!("t.n > (SELECT max(n) FROM m WHERE g = {c})")),
        5 => ("t o", format!("o.k = t.k + 1 AND o.g <> {c}")),
        _ => ("m JOIN u ON u.k = m.g", format!("m.k = t.g AND t.k % 5 = {}", c % 5)),
    };
    let returning = if random.one_in(2) { " RETURNING t.k, t.g, t.v, t.n" } else { "" };
    if random.one_in(8) {
        let using = if from.is_empty() { String::new() } else { format!(" USING {from}") };
        return format!("DELETE FROM t{using} WHERE {condition} AND t.k % 11 = {c}{returning}");
    }
    let all = [
        format!("v = 'r{number}'"),
        format!("n = t.n + {c}.25"),
        format!("g = (t.g + {c}) % 7"),
        format!("k = t.k + {}", 100_000 * number),
        "v = t.v || ''".to_owned(),
    ];
    let first = random.below(5) as usize;
    let mut set = all[first].clone();
    if random.one_in(2) {
        // Another column.
        set = format!("{set}, {}", all[1 + (first + 1) % 3]);
    }
    let from = if from.is_empty() { String::new() } else { format!(" FROM {from}") };
    format!("UPDATE t SET {set}{from} WHERE {condition}{returning}")
}

#[test]
fn random_changes_agree() {
    let mut random = Random::from_environment();
    let mut twins = Twins::start(3, TABLES);
    fill(&mut twins);
    twins.done("INSERT INTO t SELECT i, i % 7, 'more', i FROM generate_series(100, 300) AS s(i)");
    let (mut wrong, mut in_block) = (Vec::new(), false);
    for number in 1..=STATEMENTS {
        let sql = match random.below(12) {
            0 if !in_block => "BEGIN".to_owned(),
            0 => ["COMMIT", "ROLLBACK"][random.below(2) as usize].to_owned(),
            1 => ALL.to_owned(),
            _ => change(&mut random, number),
        };
        in_block = match sql.as_str() {
            "BEGIN" => true,
            "COMMIT" | "ROLLBACK" => false,
            _ => in_block,
        };
        let protocol = if random.one_in(2) { Protocol::Simple } else { Protocol::Extended };
        wrong.extend(twins.ask(&sql, protocol).map(|how| format!("statement {number}: {how}")));
    }
    wrong.extend(twins.ask(ALL, Protocol::Simple));
    crate::slt::report(&wrong);
    twins.fleet.ashlar.check_log();
}

/// A fleet of two with `t`, which is sharded by `k`, and `g` in memory with some rows.
fn two() -> (Fleet, pg::Connection) {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    done(&mut client, "CREATE TABLE g (k bigint PRIMARY KEY, v text)");
    done(&mut client, "INSERT INTO g SELECT i, 'g' || i FROM generate_series(1, 40) AS s(i)");
    done(&mut client, "INSERT INTO t SELECT i, 't' || i FROM generate_series(1, 40) AS s(i)");
    (fleet, client)
}

#[test]
fn parameters_of_the_protocol_are_read() {
    let (fleet, mut client) = two();
    let sql = "UPDATE t SET v = g.v || $1 FROM g WHERE g.k = t.k AND t.k < $2 RETURNING t.k, t.v";
    let (mut rows, tag) = bound(&mut client, sql, &["!", "3"]).unwrap();
    rows.sort();
    assert_eq!((rows, tag.as_str()), (vec!["1 g1!".to_owned(), "2 g2!".to_owned()], "UPDATE 2"));
    // A statement that shards describe, and that one of them carries out for some values.
    let sql = "DELETE FROM t WHERE v IN (SELECT v FROM t o WHERE o.k = $1) AND k = $2 RETURNING k";
    assert_eq!(bound(&mut client, sql, &["5", "5"]).unwrap(), (vec!["5".to_owned()], "DELETE 1".to_owned()));
    assert_eq!(bound(&mut client, sql, &["6", "7"]).unwrap(), (Vec::new(), "DELETE 0".to_owned()));
    let sql = "UPDATE t SET k = $1 WHERE k = $2 RETURNING k";
    let expected = (vec!["1008".to_owned()], "UPDATE 1".to_owned());
    assert_eq!(bound(&mut client, sql, &["1008", "8"]).unwrap(), expected);
    let error = bound(&mut client, sql, &["no number", "8"]).unwrap_err();
    assert!(error.starts_with("22P02"), "{error}");
    assert_eq!(client.value("SELECT v FROM t WHERE k = 1008").unwrap(), "t8");
    assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "39");
    fleet.ashlar.check_log();
}

#[test]
fn rows_that_move_are_carried_as_they_are() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    let columns = "k bigint PRIMARY KEY, x float8 DEFAULT random(), at timestamptz DEFAULT now(), \
                   u uuid DEFAULT gen_random_uuid(), b bytea, a text[], j jsonb, d interval, c char(4), \
                   n numeric(20,5)";
    done(&mut client, &format!("CREATE TABLE t ({columns}) {}", fleet.by("k")));
    let keys = fleet.keys("t");
    done(
        &mut client,
        &format!(
            "INSERT INTO t (k, b, a, j, d, c, n) VALUES \
             ({}, '\\x00ff5c27', ARRAY['a''b', NULL, '\\\"'], '{{\"a\": [1, null]}}', '1 mon 2 days 03:04:05.6', 'ab', \
             1.5), ({}, NULL, NULL, NULL, NULL, NULL, NULL)",
            keys[0],
            keys[0] + 1_000_000
        ),
    );
    let of = |key: i64| format!("SELECT x, at AT TIME ZONE 'UTC', u, b, a, j, d, c, n FROM t WHERE k = {key}");
    let there = |client: &mut pg::Connection, key: i64| rows(client, &of(key));
    let before = there(&mut client, keys[0]);
    // There, and back again.
    for (from, to) in [(0, 1), (1, 0)] {
        let sql = format!("UPDATE t SET k = {} WHERE k = {} RETURNING k", keys[to], keys[from]);
        assert_eq!(client.value(&sql).unwrap(), keys[to].to_string());
        assert_eq!(rows(&mut fleet.shard(to), &of(keys[to])), before);
        assert!(rows(&mut fleet.shard(from), &of(keys[from])).is_empty());
        assert_eq!(there(&mut client, keys[to]), before);
    }
    assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "2");
    fleet.ashlar.check_log();
}

/// A function of a trigger that changes what is written.
const SHOUT: &str = "CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS \
                     'BEGIN NEW.v := upper(NEW.v); RETURN NEW; END'";
const LOUD: &str = "CREATE TRIGGER loud BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION shout()";

#[test]
fn rows_do_not_move_where_a_shard_would_take_it_for_something_else() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    let keys = fleet.keys("t");
    let moves = format!("UPDATE t SET k = {} WHERE k = {}", keys[1], keys[0]);
    done(&mut client, &format!("INSERT INTO t VALUES ({}, 'here')", keys[0]));
    (0..2).for_each(|shard| done(&mut fleet.shard(shard), SHOUT));
    let hindrances = [
        (LOUD, "DROP TRIGGER loud ON t"),
        ("CREATE TABLE child (k bigint REFERENCES t ON DELETE CASCADE)", "DROP TABLE child"),
        ("ALTER TABLE t ADD COLUMN more int", "ALTER TABLE t DROP COLUMN more"),
        ("ALTER TABLE t ADD COLUMN more int GENERATED ALWAYS AS (1) STORED", "ALTER TABLE t DROP COLUMN more"),
        ("CREATE RULE other AS ON DELETE TO t DO ALSO NOTIFY gone", "DROP RULE other ON t"),
    ];
    let kinds = kinds_of_refusals();
    for (make, undo) in hindrances {
        for shard in 0..2 {
            done(&mut fleet.shard(shard), make);
            let error = refused(&mut client, &moves);
            assert!(is_listed(&error, &kinds), "{make}: {error}");
            assert!(error.contains("0A000") && error.contains(&format!("\"s{shard}\"")), "{make}: {error}");
            assert_eq!(client.value(&format!("SELECT v FROM t WHERE k = {}", keys[0])).unwrap(), "here");
            done(&mut fleet.shard(shard), undo);
        }
    }
    // Whoever refers to other tables may go.
    for shard in 0..2 {
        done(&mut fleet.shard(shard), "CREATE TABLE known (v text PRIMARY KEY)");
        done(&mut fleet.shard(shard), "INSERT INTO known SELECT DISTINCT v FROM t");
        done(&mut fleet.shard(shard), "ALTER TABLE t ADD FOREIGN KEY (v) REFERENCES known");
    }
    let error = refused(&mut client, &moves);
    assert!(error.contains("23503") && error.contains("shard s1"), "{error}");
    done(&mut fleet.shard(1), "INSERT INTO known VALUES ('here')");
    done(&mut client, &moves);
    assert_eq!(fleet.shard(1).value(&format!("SELECT v FROM t WHERE k = {}", keys[1])).unwrap(), "here");
    fleet.ashlar.check_log();
}

#[test]
fn what_comes_back_is_what_the_shards_have() {
    let (fleet, mut client) = two();
    for shard in 0..2 {
        [SHOUT, LOUD].into_iter().for_each(|sql| done(&mut fleet.shard(shard), sql));
    }
    let sql = "UPDATE t SET v = g.v FROM g WHERE g.k = t.k";
    let error = refused(&mut client, &format!("{sql} RETURNING t.k, t.v"));
    assert!(error.contains("0A000") && error.contains("RETURNING"), "{error}");
    assert!(is_listed(&error, &kinds_of_refusals()), "{error}");
    assert_eq!(client.value("SELECT count(*) FROM t WHERE v LIKE 't%'").unwrap(), "40");
    done(&mut client, sql);
    assert_eq!(client.value("SELECT count(*) FROM t WHERE v LIKE 'G%'").unwrap(), "40");
    let gone = rows(&mut client, "DELETE FROM t USING g WHERE g.k = t.k AND g.k < 4 RETURNING t.v, g.v");
    assert_eq!(gone.len(), 3);
    fleet.ashlar.check_log();
}

#[test]
fn copies_change_alike() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    let servers = fleet.servers();
    let columns = "k bigint PRIMARY KEY, v text, u uuid DEFAULT gen_random_uuid(), x float8";
    done(&mut client, &format!("CREATE TABLE b ({columns}) USING sharded WITH (servers = '{servers}', broadcast)"));
    done(&mut client, &format!("CREATE TABLE s ({columns}) USING sharded WITH (servers = 's1', single)"));
    done(&mut client, "CREATE TABLE g (k bigint PRIMARY KEY, v text)");
    done(&mut client, "INSERT INTO g VALUES (1, 'one'), (2, 'two'), (3, NULL)");
    done(&mut client, "INSERT INTO b SELECT k, v, gen_random_uuid() FROM g");
    done(&mut client, "INSERT INTO s SELECT k, v FROM b");
    let all = "SELECT string_agg(k || coalesce(v, '-') || u || coalesce(x::text, '-'), ',' ORDER BY k) FROM b";
    let mut states = vec![fleet.shard(0).value(all).unwrap()];
    for sql in [
        "UPDATE b SET x = random()",
        "UPDATE b SET u = DEFAULT",
        "UPDATE b SET v = 'of ' || g.v FROM g WHERE g.k = b.k",
        "UPDATE b SET v = s.v || '?' FROM s WHERE s.k = b.k AND s.k < 3",
        "UPDATE b SET k = b.k + 10 FROM g WHERE g.k = b.k",
        "DELETE FROM b WHERE k IN (SELECT k + 10 FROM g WHERE k = 2)",
    ] {
        done(&mut client, sql);
        let copies: Vec<String> = (0..2).map(|shard| fleet.shard(shard).value(all).unwrap()).collect();
        assert_eq!(copies[0], copies[1], "{sql}");
        assert_ne!(states.last(), Some(&copies[0]), "{sql}");
        states.push(copies[0].clone());
    }
    let changed = rows(&mut client, "UPDATE s SET v = g.v || s.k FROM g WHERE g.k = s.k RETURNING s.k, s.v");
    assert_eq!(changed.len(), 3);
    assert_eq!(fleet.shard(1).value("SELECT v FROM s WHERE k = 2").unwrap(), "two2");
    fleet.ashlar.check_log();
}

#[test]
fn tables_with_other_names_on_the_shards_have_their_rows_changed() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    let servers = fleet.servers();
    let with = format!("USING sharded WITH (servers = '{servers}', shards = '4', algorithm = 'hash_mod')");
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) PARTITION BY HASH (k) {with}"));
    done(&mut client, "INSERT INTO t SELECT i, 'v' FROM generate_series(1, 100) AS s(i)");
    done(&mut client, "UPDATE t SET v = 'w' FROM t AS o WHERE o.k = t.k + 50");
    assert_eq!(client.value("SELECT sum(k) FROM t WHERE v = 'w'").unwrap(), "1275");
    done(&mut client, "UPDATE t SET k = k + 1000 WHERE v = 'w'");
    assert_eq!(client.value("SELECT sum(k) FROM t WHERE v = 'w'").unwrap(), "51275");
    // Each is where it is looked for.
    for k in [1001, 1017, 1050] {
        assert_eq!(client.value(&format!("SELECT v FROM t WHERE k = {k}")).unwrap(), "w");
    }
    done(&mut client, "DELETE FROM t USING t AS o WHERE o.k = t.k + 1");
    assert_eq!(client.value("SELECT string_agg(k::text, ',' ORDER BY k) FROM t").unwrap(), "100,1050");
    fleet.ashlar.check_log();
}

#[test]
fn rows_beyond_what_one_statement_takes_follow_in_others() {
    let (fleet, mut client) = two();
    done(&mut client, "TRUNCATE t");
    done(&mut client, "INSERT INTO t SELECT i, 'short' FROM generate_series(1, 240) AS s(i)");
    done(&mut client, "UPDATE t SET v = repeat('x', 50000) || o.k FROM t AS o WHERE o.k = t.k % 240 + 1");
    assert_eq!(client.value("SELECT count(*) FROM t WHERE length(v) > 50000").unwrap(), "240");
    done(&mut client, "UPDATE t SET k = k + 1000");
    assert_eq!(client.value("SELECT min(k) || ' ' || sum(length(v)) FROM t").unwrap(), "1001 12000612");
    // What does not fit into memory changes nothing.
    done(&mut client, "SET query_memory_max = '1MB'");
    let error = refused(&mut client, "UPDATE t SET v = o.v || 'y' FROM t AS o WHERE o.k = t.k + 1");
    assert!(error.contains("53200"), "{error}");
    done(&mut client, "RESET query_memory_max");
    assert_eq!(client.value("SELECT count(*) FROM t WHERE v LIKE '%y'").unwrap(), "0");
    fleet.ashlar.check_log();
}

#[test]
fn explain_says_who_finds_the_rows() {
    let (fleet, mut client) = two();
    for (sql, word) in [
        ("UPDATE t SET v = g.v FROM g WHERE g.k = t.k", "updated"),
        ("UPDATE t SET k = 100 WHERE k = 1", "moved"),
        ("DELETE FROM t WHERE v IN (SELECT v FROM t AS o WHERE o.k > 5)", "deleted"),
    ] {
        let lines = rows(&mut client, &format!("EXPLAIN (ROUTE) {sql}"));
        let first = lines[0][0].as_ref().unwrap();
        assert!(first.contains("engine") && first.contains(word), "{sql}: {lines:?}");
        assert!(lines[1][0].as_ref().unwrap().starts_with("Because: "), "{sql}: {lines:?}");
    }
    // What shards can do by themselves they do.
    let lines = format!("{:?}", rows(&mut client, "EXPLAIN (ROUTE) UPDATE t SET v = o.v FROM t AS o WHERE o.k = t.k"));
    assert!(lines.contains("Route: all shards"), "{lines}");
    assert_eq!(client.value("SELECT count(*) FROM t WHERE v LIKE 't%'").unwrap(), "40");
    fleet.ashlar.check_log();
}
