//! Joins of few rows with a large sharded table: the shards are asked for the keys of the few, and answers are those of one server. And what
//! else a scan leaves on the shards: columns, rows by conditions, and rows beyond a limit.

use super::*;

/// Tables: name, columns, sharding key.
const TABLES: &[(&str, &str, &str)] = &[
    (
        "large",
        "id bigint PRIMARY KEY, n int, r smallint, t text, v varchar(20), u uuid, d date, at timestamptz, f float8, b boolean",
        "id",
    ),
    (
        "small",
        "k bigint PRIMARY KEY, id bigint, n int, t text, u uuid, d date, at timestamptz, f float8, b boolean",
        "k",
    ),
    ("none", "k bigint PRIMARY KEY, id bigint, t text", "k"),
    ("many", "k bigint PRIMARY KEY, id bigint", "k"),
    ("named", "t text PRIMARY KEY, w int", "t"),
];

/// What fills a table, the same on every server that has it: on a shard only what belongs there is taken.
const ROWS: &[(&str, &str)] = &[
    (
        "large",
        "SELECT i, nullif(i % 500, 7), (i % 100)::smallint, CASE WHEN i % 9 > 0 THEN 'text \"' || i % 700 || '\\' END, \
         'v' || i, ('00000000-0000-0000-0000-' || lpad(i::text, 12, '0'))::uuid, date '2024-01-01' + i % 900, \
         timestamptz '2024-01-01 00:00:00.5+00' + make_interval(hours => i), i / 2.0, i % 2 = 0 \
         FROM generate_series(1, 4000) AS g (i)",
    ),
    (
        "small",
        "SELECT i, CASE WHEN i % 5 > 0 THEN i * 100 END, i, CASE WHEN i % 4 > 0 THEN 'text \"' || i || '\\' END, \
         ('00000000-0000-0000-0000-' || lpad((i * 7)::text, 12, '0'))::uuid, date '2024-01-01' + i, \
         timestamptz '2024-01-01 00:00:00.5+00' + make_interval(hours => i * 3), i / 2.0, i > 20 \
         FROM generate_series(1, 39) AS g (i) UNION ALL \
         SELECT 100 + i, 300, 3, 'NULL', NULL, NULL, NULL, NULL, NULL FROM generate_series(1, 3) AS g (i)",
    ),
    ("many", "SELECT i, i * 2 FROM generate_series(1, 12000) AS g (i)"),
    ("named", "SELECT 'text \"' || i || '\\', i FROM generate_series(1, 400) AS g (i)"),
];

/// Queries, whether the large table is looked up by keys, and the most rows of it that may come from the shards then.
const QUERIES: &[(&str, Option<usize>)] = &[
    ("SELECT count(*), sum(l.n + s.n) FROM small s JOIN large l ON l.id = s.id", Some(32)),
    ("SELECT count(*), sum(l.n + s.n) FROM large l JOIN small s ON l.id = s.id", Some(32)),
    ("SELECT s.k, l.v FROM small s LEFT JOIN large l ON l.id = s.id", Some(32)),
    ("SELECT s.k, l.v FROM large l RIGHT JOIN small s ON l.id = s.id", Some(32)),
    ("SELECT s.k, l.v FROM small s LEFT JOIN large l ON l.id = s.id AND l.n > 200", Some(32)),
    ("SELECT s.k FROM small s WHERE EXISTS (SELECT 1 FROM large l WHERE l.id = s.id)", Some(32)),
    ("SELECT s.k FROM small s WHERE NOT EXISTS (SELECT 1 FROM large l WHERE l.id = s.id)", Some(32)),
    ("SELECT l.v FROM large l WHERE l.id IN (SELECT id FROM small)", Some(32)),
    ("SELECT l.id FROM large l JOIN small s ON l.id = s.id WHERE l.n > 200 AND s.k < 20", Some(32)),
    // The column is not the one by which rows are divided.
    ("SELECT l.id, s.k FROM small s JOIN large l ON l.n = s.n", Some(320)),
    ("SELECT l.id, s.k FROM small s JOIN large l ON l.t = s.t", Some(240)),
    ("SELECT l.id, s.k FROM small s JOIN large l ON l.u = s.u", Some(39)),
    ("SELECT l.id, s.k FROM small s JOIN large l ON l.d = s.d", Some(240)),
    ("SELECT l.id, s.k FROM small s JOIN large l ON l.at = s.at", Some(39)),
    ("SELECT l.id, s.k FROM small s JOIN large l ON l.id = s.id AND l.b = s.b", Some(32)),
    ("SELECT l.id, w.w FROM small s JOIN large l ON l.id = s.id JOIN named w ON w.t = l.t", None),
    ("SELECT s.k, w.w FROM small s JOIN named w ON w.t = s.t", None),
    ("SELECT s.k, g.many FROM small s JOIN (SELECT n, count(*) AS many FROM large GROUP BY n) g ON g.n = s.n", None),
    // There is nothing to look up.
    ("SELECT count(*) FROM none o JOIN large l ON l.id = o.id", None),
    ("SELECT count(*) FROM none o JOIN large l ON l.t = o.t", None),
    ("SELECT count(*) FROM small s JOIN large l ON l.id = s.id AND s.k < 0", None),
    // More keys than are sent.
    ("SELECT count(*), sum(b.id) FROM many a JOIN many b ON a.id = b.k", None),
    ("SELECT count(*), sum(l.n) FROM many m JOIN large l ON l.id = m.id", None),
    ("SELECT count(*), sum(l.n) FROM large l JOIN many m ON l.id = m.id", None),
    // Rows without a match matter.
    ("SELECT count(*), count(s.k) FROM large l LEFT JOIN small s ON l.id = s.id", None),
    ("SELECT count(*), count(s.k) FROM large l FULL JOIN small s ON l.id = s.id", None),
    ("SELECT count(*) FROM large l WHERE NOT EXISTS (SELECT 1 FROM small s WHERE s.id = l.id)", None),
    ("SELECT count(*) FROM large l WHERE l.n NOT IN (SELECT n FROM small)", None),
    // Equal in more ways than one.
    ("SELECT l.id, s.k FROM small s JOIN large l ON l.f = s.f", None),
    // What a limit takes are not to be other rows.
    ("SELECT count(*) <= 42 FROM small s JOIN (SELECT id FROM large LIMIT 3000) l ON l.id = s.id", None),
    ("SELECT a.v FROM large a JOIN large b ON a.id = b.n WHERE b.id < 30", None),
];

/// A fleet with the tables, and one server that has all of their rows.
fn filled(shards: usize) -> (Fleet, Postgres) {
    let (fleet, oracle) = (Fleet::start(shards), Postgres::start().unwrap());
    let mut alone = pg::Connection::connect(oracle.address()).unwrap();
    let mut client = fleet.client();
    for (name, columns, key) in TABLES {
        done(&mut alone, &format!("CREATE TABLE {name} ({columns})"));
        done(&mut client, &format!("CREATE TABLE {name} ({columns}) {}", fleet.by(key)));
    }
    for (name, select) in ROWS {
        done(&mut alone, &format!("INSERT INTO {name} {select}"));
        // The rows as the one server has them: each goes to its shard.
        let all = rows(&mut alone, &format!("SELECT {name}::text FROM {name}"));
        let all: Vec<String> = all.iter().map(|row| row[0].clone().unwrap()).collect();
        for some in all.chunks(500) {
            let values: Vec<String> = some.iter().map(|row| values_of(row)).collect();
            done(&mut client, &format!("INSERT INTO {name} VALUES {}", values.join(", ")));
        }
    }
    for (name, ..) in TABLES {
        done(&mut client, &format!("ANALYZE {name}"));
    }
    (fleet, oracle)
}

/// The text of a row of PostgreSQL's as one of VALUES.
fn values_of(row: &str) -> String {
    let (mut values, mut value, mut is_quoted, mut was_quoted) = (Vec::new(), String::new(), false, false);
    let mut rest = row.trim_start_matches('(').trim_end_matches(')').chars().chain([',']).peekable();
    while let Some(char) = rest.next() {
        match char {
            // Twice within quotes it is one of the value's.
            '"' if is_quoted && rest.peek() == Some(&'"') => value.extend(rest.next()),
            '"' => (is_quoted, was_quoted) = (!is_quoted, true),
            '\\' => value.extend(rest.next()),
            ',' if !is_quoted => {
                values.push(match value.parse::<i64>() {
                    Ok(number) => number.to_string(),
                    Err(_) if value.is_empty() && !was_quoted => "NULL".to_owned(),
                    Err(_) => format!("'{}'", value.replace('\'', "''")),
                });
                (value, was_quoted) = (String::new(), false);
            }
            other => value.push(other),
        }
    }
    format!("({})", values.join(", "))
}

/// Rows of a table that its scan has had from shards, by EXPLAIN ANALYZE; as they are written, which is in figures below a thousand.
fn rows_read(plan: &[Vec<Option<String>>], table: &str) -> String {
    let lines = plan.iter().map(|row| row[0].as_deref().unwrap_or_default());
    let line = lines.into_iter().find(|line| line.contains(&format!("ShardScanExec: table={table},")));
    let line = line.unwrap_or_else(|| panic!("no scan of {table} in {plan:?}"));
    let rows = line.split_once("output_rows=").unwrap_or_else(|| panic!("no rows in {line}")).1;
    rows.split([',', ']']).next().unwrap().to_owned()
}

fn lookups_agree(shards: usize) {
    let (fleet, oracle) = filled(shards);
    let mut alone = pg::Connection::connect(oracle.address()).unwrap();
    let mut client = fleet.client();
    for (sql, most) in QUERIES {
        let (mut found, mut expected) = (rows(&mut client, sql), rows(&mut alone, sql));
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "on {shards} shards: {sql}");
        let Some(most) = most else { continue };
        let plan = rows(&mut client, &format!("EXPLAIN ANALYZE {sql}"));
        let read = rows_read(&plan, "large");
        let is_few = read.parse::<usize>().is_ok_and(|read| read <= *most);
        assert!(is_few, "{read} rows instead of {most}, on {shards} shards: {sql}\n{plan:?}");
    }
    fleet.ashlar.check_log();
}

#[test]
fn joins_of_few_rows_on_two_shards_ask_for_their_keys() {
    lookups_agree(2);
}

#[test]
fn joins_of_few_rows_on_three_shards_ask_for_their_keys() {
    lookups_agree(3);
}

#[test]
fn plans_say_which_scans_take_keys_of_joins() {
    let (fleet, _oracle) = filled(2);
    let mut client = fleet.client();
    for (sql, takes) in [
        ("SELECT count(*) FROM small s JOIN large l ON l.id = s.id", true),
        ("SELECT count(*) FROM small s JOIN large l ON l.f = s.f", false),
        ("SELECT count(*) FROM large l LEFT JOIN small s ON l.id = s.id", false),
        ("SELECT count(*) FROM small s JOIN (SELECT id FROM large LIMIT 3000) l ON l.id = s.id", false),
    ] {
        let plan = rows(&mut client, &format!("EXPLAIN {sql}"));
        let lines = plan.iter().map(|row| row[0].as_deref().unwrap_or_default());
        let scan: Vec<&str> = lines.filter(|line| line.contains("ShardScanExec: table=large")).collect();
        assert_eq!(scan.len(), 1, "{sql}: {plan:?}");
        assert_eq!(scan[0].contains("keys of joins=[id]"), takes, "{sql}: {plan:?}");
    }
    fleet.ashlar.check_log();
}

#[test]
fn queries_that_come_again_ask_for_the_keys_that_are_there_by_then() {
    let (fleet, oracle) = filled(3);
    let mut alone = pg::Connection::connect(oracle.address()).unwrap();
    let mut client = fleet.client();
    for change in [
        "UPDATE small SET id = id + 100 WHERE k > 10",
        "DELETE FROM large WHERE id < 1500",
        "UPDATE small SET t = 'text \"5\\' WHERE k < 9",
        "DELETE FROM small WHERE k > 3",
        "DELETE FROM small",
        "INSERT INTO small (k, id, n, t) VALUES (1, 3000, 7, 'text \"8\\'), (2, 3001, 7, NULL), (3, NULL, 8, 'NULL')",
        "DELETE FROM none",
    ] {
        for sql in [
            "SELECT count(*), sum(l.n + s.n) FROM small s JOIN large l ON l.id = s.id",
            "SELECT s.k, l.v FROM small s LEFT JOIN large l ON l.id = s.id",
            "SELECT l.v FROM large l WHERE l.id IN (SELECT id FROM small)",
            "SELECT l.id, s.k FROM small s JOIN large l ON l.t = s.t",
            "SELECT sum(n)::text FROM large",
        ] {
            let mut expected = rows(&mut alone, sql);
            expected.sort();
            for _ in 0..3 {
                let mut found = rows(&mut client, sql);
                found.sort();
                assert_eq!(found, expected, "before {change}: {sql}");
            }
        }
        for client in [&mut client, &mut alone] {
            done(client, change);
        }
    }
    fleet.ashlar.check_log();
}

#[test]
fn keys_of_joins_find_what_a_transaction_or_a_snapshot_sees() {
    let (fleet, oracle) = filled(2);
    let mut alone = pg::Connection::connect(oracle.address()).unwrap();
    let mut client = fleet.client();
    let sql = "SELECT s.k, l.v FROM small s JOIN large l ON l.id = s.id ORDER BY s.k";
    done(&mut client, "SET sharded_reads = 'snapshot'");
    assert_eq!(rows(&mut client, sql), rows(&mut alone, sql));
    done(&mut client, "SET sharded_reads = 'each'");
    for client in [&mut client, &mut alone] {
        done(client, "BEGIN");
        done(client, "UPDATE large SET v = 'new' WHERE id = 300");
        done(client, "INSERT INTO small (k, id) VALUES (1000, 2999)");
    }
    assert_eq!(rows(&mut client, sql), rows(&mut alone, sql));
    for client in [&mut client, &mut alone] {
        done(client, "ROLLBACK");
    }
    assert_eq!(rows(&mut client, sql), rows(&mut alone, sql));
    // Keys that come from a table in memory.
    done(&mut client, "CREATE TABLE home (id bigint PRIMARY KEY, t text)");
    done(&mut client, "INSERT INTO home SELECT id, t FROM large WHERE id % 400 = 1");
    let sql = "SELECT l.v FROM home h JOIN large l ON l.id = h.id ORDER BY 1";
    let expected = rows(&mut alone, "SELECT v FROM large WHERE id % 400 = 1 ORDER BY 1");
    assert_eq!(rows(&mut client, sql), expected);
    let plan = rows(&mut client, &format!("EXPLAIN ANALYZE {sql}"));
    assert_eq!(rows_read(&plan, "large"), expected.len().to_string(), "{plan:?}");
    fleet.ashlar.check_log();
}

#[test]
fn what_is_asked_again_is_asked_of_the_tables_as_they_are() {
    let (fleet, oracle) = filled(2);
    let mut alone = pg::Connection::connect(oracle.address()).unwrap();
    let mut client = fleet.client();
    let sql = "SELECT s.k, l.n FROM small s JOIN large l ON l.id = s.id ORDER BY s.k";
    let expected = rows(&mut alone, sql);
    // Connections parse it once. The first of them plan it for these keys, further ones for any.
    for _ in 0..12 {
        assert_eq!(rows(&mut client, sql), expected);
    }
    for _ in 0..2 {
        done(&mut fleet.shard(1), "ALTER TABLE large ALTER n TYPE bigint");
        let error = refused(&mut client, sql);
        assert!(error.contains("42804") && error.contains("s1"), "{error}");
        done(&mut fleet.shard(1), "ALTER TABLE large ALTER n TYPE int");
        assert_eq!(rows(&mut client, sql), expected);
    }
    // A table that has gone, and another one by its name.
    done(&mut fleet.shard(0), "ALTER TABLE small RENAME TO others");
    let error = refused(&mut client, sql);
    assert!(error.contains("42P01"), "{error}");
    done(&mut fleet.shard(0), "CREATE TABLE small AS SELECT * FROM others");
    assert_eq!(rows(&mut client, sql), expected);
    fleet.ashlar.check_log();
}

/// A query; the columns, the conditions and the limit that shards are to see of it.
type Asked = (&'static str, &'static [&'static str], &'static [&'static str], Option<&'static str>);

/// Queries of a sharded table and one in memory: the columns that shards are asked for, the conditions that they are told, and the limit.
/// Conditions are computed here again, so that their columns come too.
const ASKED: &[Asked] = &[
    ("SELECT m.name, t.v FROM t JOIN m ON m.g = t.g", &["g", "v"], &[], None),
    ("SELECT t.k FROM t JOIN m ON m.g = t.g WHERE t.n > 15", &["g", "k", "n"], &["n > '15'"], None),
    (
        "SELECT m.name FROM m, t WHERE m.g = t.g AND t.v = 'it''s' AND 15 < t.n AND m.name <> 'x'",
        &["g", "n", "v"],
        &["n > '15'", "v = 'it''s'"],
        None,
    ),
    ("SELECT m.name FROM t JOIN m ON m.g = t.g WHERE t.k = 7", &["g", "k"], &["k = '7'"], None),
    ("SELECT m.name, t.k FROM m LEFT JOIN t ON t.g = m.g AND t.n IS NULL", &["g", "k", "n"], &["n IS NULL"], None),
    // The order of texts, and what floats are written as, are not the shards' to say.
    (
        "SELECT m.name FROM t JOIN m ON m.g = t.g WHERE t.n <= 3 AND t.w > 'a' AND t.f > 0.5",
        &["f", "g", "n", "w"],
        &["n <= '3'"],
        None,
    ),
    ("SELECT m.name FROM m JOIN (SELECT g FROM t LIMIT 7) s ON s.g = m.g", &["g"], &[], Some("7")),
    ("SELECT m.g FROM m UNION ALL (SELECT g FROM t LIMIT 3)", &["g"], &[], Some("3")),
];

/// What the scan of `t` asks the first of its shards for, by EXPLAIN: columns and conditions, each sorted, and the limit.
fn asked(client: &mut pg::Connection, sql: &str) -> (Vec<String>, Vec<String>, Option<String>) {
    let plan = rows(client, &format!("EXPLAIN {sql}"));
    let lines = plan.iter().map(|row| row[0].as_deref().unwrap_or_default());
    let scans: Vec<&str> = lines.filter(|line| line.contains("ShardScanExec: table=t,")).collect();
    assert_eq!(scans.len(), 1, "{sql}: {plan:?}");
    let text = scans[0].split_once(", remote=SELECT ").and_then(|(_, text)| text.split_once(" FROM public.t"));
    let (columns, rest) = text.unwrap_or_else(|| panic!("{sql}: {}", scans[0]));
    let (rest, limit) = match rest.split_once(" LIMIT ") {
        Some((rest, limit)) => (rest, Some(limit.to_owned())),
        None => (rest, None),
    };
    let sorted = |list: &str, between: &str| {
        let mut all: Vec<String> = list.split(between).map(str::to_owned).collect();
        all.sort();
        all
    };
    let conditions = match rest.strip_prefix(" WHERE ") {
        Some(conditions) => sorted(conditions, " AND "),
        None => Vec::new(),
    };
    assert!(rest.is_empty() || !conditions.is_empty(), "{sql}: {}", scans[0]);
    (sorted(columns, ", "), conditions, limit)
}

#[test]
fn shards_are_asked_for_no_more_than_a_query_with_tables_of_other_homes_needs() {
    let (fleet, oracle) = (Fleet::start(2), Postgres::start().unwrap());
    let mut alone = pg::Connection::connect(oracle.address()).unwrap();
    let mut client = fleet.client();
    let columns = "k bigint PRIMARY KEY, g int, n int, v text, w text, f float8, x bytea";
    done(&mut client, &format!("CREATE TABLE t ({columns}) {}", fleet.by("k")));
    done(&mut alone, &format!("CREATE TABLE t ({columns})"));
    for client in [&mut client, &mut alone] {
        done(client, "CREATE TABLE m (g int PRIMARY KEY, name text)");
        done(client, "INSERT INTO m SELECT i, 'm' || i FROM generate_series(0, 12) AS s(i)");
        let made = "i, i % 10, nullif(i % 20, 4), CASE i % 3 WHEN 0 THEN 'it''s' ELSE 'v' END, 'b', i / 50.0";
        done(client, &format!("INSERT INTO t (k, g, n, v, w, f) SELECT {made} FROM generate_series(1, 100) AS s(i)"));
    }
    for (sql, columns, conditions, limit) in ASKED {
        let (found_columns, found_conditions, found_limit) = asked(&mut client, sql);
        assert_eq!(found_columns, *columns, "{sql}");
        assert_eq!(found_conditions, *conditions, "{sql}");
        assert_eq!(found_limit.as_deref(), *limit, "{sql}");
        let (mut found, mut expected) = (rows(&mut client, sql), rows(&mut alone, sql));
        if limit.is_some() {
            // Which rows they are nobody says.
            assert!(!found.is_empty(), "{sql}");
            continue;
        }
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{sql}");
    }
    // They send no others.
    for (condition, most) in [("t.n > 15", 20), ("t.v = 'it''s' AND t.n > 15", 7), ("t.k = 7", 1)] {
        let count = format!("SELECT count(*) FROM t WHERE {condition}");
        assert!(alone.value(&count).unwrap().parse::<usize>().unwrap() <= most, "{condition}");
        let plan = rows(
            &mut client,
            &format!("EXPLAIN ANALYZE SELECT m.name, t.w FROM t JOIN m ON m.g = t.g WHERE {condition}"),
        );
        let read = rows_read(&plan, "t");
        assert!(read.parse::<usize>().is_ok_and(|read| (1..=most).contains(&read)), "{condition}: {read}: {plan:?}");
    }
    fleet.ashlar.check_log();
}

#[test]
fn rows_are_written_as_values_of_theirs() {
    assert_eq!(values_of("(1,,\"\",\"a\"\"b\\\\\",c)"), "(1, NULL, '', 'a\"b\\', 'c')");
}
