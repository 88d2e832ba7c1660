//! TRUNCATE and ALTER TABLE: on every shard, or on none.

use ashlar_tests::process::{PATIENCE, wait_for};

use super::extended::{Form, prepare, run};
use super::*;

#[test]
fn a_column_is_on_all_shards_or_on_none() {
    let mut fleet = Fleet::start(3);
    let oracle = Postgres::start().unwrap();
    let mut alone = pg::Connection::connect(oracle.address()).unwrap();
    let mut client = fleet.client();
    done(&mut alone, "CREATE TABLE t (k bigint PRIMARY KEY, v text)");
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    let all = "SELECT * FROM t ORDER BY k";
    // A plan from before is not one for after.
    for statement in [&mut client, &mut alone] {
        for k in 0..12 {
            done(statement, &format!("INSERT INTO t VALUES ({k}, 'v{k}')"));
        }
    }
    assert_eq!(rows(&mut client, all), rows(&mut alone, all));
    for sql in [
        "ALTER TABLE t ADD COLUMN n int NOT NULL DEFAULT 7",
        "ALTER TABLE t ADD COLUMN \"Odd name\" text, ADD COLUMN d numeric(8,2)",
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS n int",
        "UPDATE t SET n = n + 1, \"Odd name\" = v WHERE k < 5",
        "INSERT INTO t (k, d) VALUES (100, 1.5), (101, 2.5), (102, 3.5)",
    ] {
        done(&mut client, sql);
        done(&mut alone, sql);
        assert_eq!(rows(&mut client, all), rows(&mut alone, all), "{sql}");
    }
    // The engine and the catalog know them too.
    let sums = "SELECT n, count(*), sum(d) FROM t GROUP BY n ORDER BY n";
    assert_eq!(rows(&mut client, sums), rows(&mut alone, sums));
    let columns = "SELECT column_name, data_type, is_nullable FROM information_schema.columns \
                   WHERE table_name = 't' ORDER BY ordinal_position";
    assert_eq!(rows(&mut client, columns), rows(&mut alone, columns));
    assert!(refused(&mut client, "ALTER TABLE t ADD COLUMN n int").contains("42701"));
    assert!(refused(&mut client, "ALTER TABLE t ADD COLUMN late int NOT NULL").contains("23502"));
    // One shard has something of this name: then none gets it.
    done(&mut fleet.shard(2), "ALTER TABLE t ADD COLUMN w int");
    let error = refused(&mut client, "ALTER TABLE t ADD COLUMN w int");
    assert!(error.contains("42701") && error.contains("shard s2"), "{error}");
    let missing = "SELECT count(*) FROM information_schema.columns WHERE table_name = 't' AND column_name = 'w'";
    assert_eq!(fleet.shard(0).value(missing).unwrap(), "0");
    done(&mut fleet.shard(2), "ALTER TABLE t DROP COLUMN w");
    assert_eq!(rows(&mut client, all), rows(&mut alone, all));
    fleet = fleet.restart();
    let mut client = fleet.client();
    assert_eq!(rows(&mut client, columns), rows(&mut alone, columns));
    assert_eq!(rows(&mut client, sums), rows(&mut alone, sums));
    fleet.ashlar.check_log();
}

/// What a table is said to have, in its order.
const COLUMNS: &str = "SELECT column_name, data_type, is_nullable FROM information_schema.columns \
                       WHERE table_name = 't' ORDER BY ordinal_position";

#[test]
fn columns_go_and_are_renamed_on_all_shards_or_on_none() {
    let mut fleet = Fleet::start(3);
    let oracle = Postgres::start().unwrap();
    let mut alone = pg::Connection::connect(oracle.address()).unwrap();
    let (mut client, mut early) = (fleet.client(), fleet.client());
    let columns = "k bigint, n int, v text, w text DEFAULT 'w', x int, PRIMARY KEY (k, n), UNIQUE (k, w)";
    let create = format!("CREATE TABLE t ({columns})");
    done(&mut alone, &create);
    done(&mut client, &format!("{create} {}", fleet.by("k")));
    let all = "SELECT * FROM t ORDER BY k";
    for k in 0..12 {
        for one in [&mut client, &mut alone] {
            done(one, &format!("INSERT INTO t VALUES ({k}, {k}, 'v{k}', 'w{k}', {k} % 3)"));
        }
    }
    // Plans of before, kept by somebody else and by connections: they are renewed, or refused as PostgreSQL does.
    for (name, sql) in [
        ("all", "SELECT * FROM t WHERE k = $1"),
        ("gone", "SELECT v FROM t WHERE k = $1"),
        ("kept", "SELECT w FROM t WHERE k = $1"),
        ("insert", "INSERT INTO t (k, n, w) VALUES ($1, 0, 'late')"),
    ] {
        prepare(&mut early, name, sql).unwrap();
    }
    for name in ["all", "gone", "kept"] {
        assert_eq!(run(&mut early, name, &[b"5"], Form::Text).unwrap().rows.len(), 1, "{name}");
    }
    for sql in [
        "CREATE INDEX by_v ON t (v)",
        "CREATE INDEX by_w ON t (x, lower(w)) WHERE w > 'a'",
        "ALTER TABLE t DROP COLUMN v",
        "ALTER TABLE t DROP COLUMN IF EXISTS v",
        "ALTER TABLE t RENAME COLUMN x TO \"Odd name\"",
        "ALTER TABLE t ADD COLUMN v numeric(8,2), DROP \"Odd name\" RESTRICT, ADD \"Odd name\" int DEFAULT 3",
        "INSERT INTO t VALUES (20, 20, 'w20', 1.5, 7), (21, 21, 'w21', 2.5, 8), (22, 22, 'w22', 3.5, 9)",
        "ALTER TABLE t RENAME w TO v2",
        "INSERT INTO t (k, n) VALUES (30, 30), (31, 31), (32, 32)",
        "UPDATE t SET v2 = v2 || '!', v = n WHERE \"Odd name\" = 3",
        // The primary key goes with it, and the other one of its columns stays without NULL.
        "ALTER TABLE t DROP COLUMN n CASCADE",
    ] {
        done(&mut client, sql);
        done(&mut alone, sql);
        assert_eq!(rows(&mut client, all), rows(&mut alone, all), "{sql}");
        assert_eq!(rows(&mut client, COLUMNS), rows(&mut alone, COLUMNS), "{sql}");
    }
    let groups = "SELECT \"Odd name\", count(v2), sum(v) FROM t GROUP BY \"Odd name\" ORDER BY \"Odd name\"";
    assert_eq!(rows(&mut client, groups), rows(&mut alone, groups));
    // There is a column of the name that is gone, of another type.
    for (name, code) in [("all", "0A000"), ("gone", "0A000"), ("kept", "42703"), ("insert", "42703")] {
        let error = run(&mut early, name, &[b"5"], Form::Text).unwrap_err();
        assert!(error.contains(code), "{name}: {error}");
    }
    assert_eq!(early.value("SELECT v2 FROM t WHERE k = 5").unwrap(), "w5!");
    for (sql, code) in [
        ("ALTER TABLE t DROP COLUMN k", "0A000"),
        ("ALTER TABLE t RENAME k TO key", "0A000"),
        ("ALTER TABLE t DROP COLUMN nothing", "42703"),
        ("ALTER TABLE t DROP COLUMN v, DROP COLUMN v", "42703"),
        ("ALTER TABLE t RENAME nothing TO anything", "42703"),
        ("ALTER TABLE t RENAME v TO v2", "42701"),
        ("ALTER TABLE t RENAME v TO ctid", "42701"),
    ] {
        let error = refused(&mut client, sql);
        assert!(error.contains(code), "{sql}: {error}");
    }
    let indexes = "SELECT indexdef FROM pg_indexes WHERE tablename = 't' ORDER BY 1";
    let defined = rows(&mut alone, indexes);
    for shard in 0..3 {
        assert_eq!(rows(&mut fleet.shard(shard), indexes), defined);
    }
    fleet = fleet.restart();
    let mut client = fleet.client();
    for sql in [all, COLUMNS, groups] {
        assert_eq!(rows(&mut client, sql), rows(&mut alone, sql), "{sql}");
    }
    // The names of indexes that went with their columns are free, and those of the others are not.
    done(&mut client, "CREATE INDEX by_v ON t (v)");
    done(&mut client, "DROP INDEX by_v");
    fleet.ashlar.check_log();
}

#[test]
fn what_one_shard_refuses_of_columns_no_shard_does() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text, w text) {}", fleet.by("k")));
    done(&mut client, "INSERT INTO t VALUES (1, 'a', 'b'), (2, 'a', 'b'), (3, 'a', 'b'), (4, 'a', 'b')");
    done(&mut fleet.shard(1), "CREATE VIEW seen AS SELECT v FROM t");
    done(&mut fleet.shard(1), "ALTER TABLE t ADD COLUMN taken int");
    for (sql, code) in
        [("ALTER TABLE t DROP COLUMN w, DROP COLUMN v", "2BP01"), ("ALTER TABLE t RENAME w TO taken", "42701")]
    {
        let error = refused(&mut client, sql);
        assert!(error.contains(code) && error.contains("shard s1"), "{sql}: {error}");
        assert_eq!(client.value("SELECT count(v || w) FROM t").unwrap(), "4", "{sql}");
        for shard in 0..2 {
            fleet.shard(shard).value("SELECT count(v || w) FROM t").unwrap();
        }
    }
    done(&mut fleet.shard(1), "ALTER TABLE t DROP COLUMN taken");
    done(&mut client, "ALTER TABLE t DROP COLUMN v CASCADE");
    assert_eq!(fleet.shard(1).value("SELECT to_regclass('seen')").unwrap(), "NULL");
    // What has its new name already, as after a crash, is made known.
    done(&mut fleet.shard(0), "ALTER TABLE t RENAME w TO renamed");
    done(&mut client, "ALTER TABLE t RENAME w TO renamed");
    assert_eq!(client.value("SELECT count(renamed) FROM t").unwrap(), "4");
    // So is a constraint, where all have the same.
    let add = "ALTER TABLE t ADD CONSTRAINT few CHECK (k < 100)";
    done(&mut fleet.shard(0), add);
    assert!(refused(&mut client, add).starts_with("42710"));
    done(&mut fleet.shard(1), "ALTER TABLE t ADD CONSTRAINT few CHECK (k < 101)");
    assert!(refused(&mut client, add).starts_with("42710"));
    done(&mut fleet.shard(1), "ALTER TABLE t DROP CONSTRAINT few");
    done(&mut fleet.shard(1), add);
    done(&mut client, add);
    assert!(refused(&mut client, add).starts_with("42710"));
    done(&mut client, "ALTER TABLE t DROP CONSTRAINT few");
    done(&mut client, "INSERT INTO t VALUES (100, 'b'), (101, 'b'), (102, 'b'), (103, 'b')");
    // A key that is made here has its column, whatever else goes.
    let by = fleet.by("k");
    let by = by.strip_suffix(')').unwrap();
    let columns = "k bigint, g uuid, w text, PRIMARY KEY (k, g)";
    done(&mut client, &format!("CREATE TABLE u ({columns}) {by}, key_generator = 'uuidv7')"));
    for sql in ["ALTER TABLE u DROP COLUMN g", "ALTER TABLE u RENAME g TO h"] {
        assert!(refused(&mut client, sql).starts_with("0A000"), "{sql}");
    }
    done(&mut client, "ALTER TABLE u DROP COLUMN w");
    done(&mut client, "INSERT INTO u (k) VALUES (1), (2), (3)");
    assert_eq!(client.value("SELECT count(g) FROM u").unwrap(), "3");
    fleet.ashlar.check_log();
}

#[test]
fn a_table_is_renamed_on_all_shards_or_on_none() {
    let mut fleet = Fleet::start(2);
    let (mut client, mut early) = (fleet.client(), fleet.client());
    let servers = fleet.servers();
    let with = |more: &str| format!("USING sharded WITH (servers = '{servers}'{more})");
    let by = |more: &str| format!("PARTITION BY HASH (k) {}", with(more));
    done(&mut client, "CREATE TABLE taken (k int)");
    for (table, end) in [
        ("plain", by("")),
        ("many", by(", shards = '4', table_suffix = '_part{}'")),
        ("copied", with(", broadcast")),
        ("alone", "USING sharded WITH (servers = 's1', single)".to_owned()),
    ] {
        done(&mut client, &format!("CREATE TABLE {table} (k bigint PRIMARY KEY, v text, n int) {end}"));
        done(&mut client, &format!("CREATE INDEX {table}_v ON {table} (v)"));
        for k in 0..12 {
            done(&mut client, &format!("INSERT INTO {table} VALUES ({k}, 'v{k}', {k})"));
        }
        let named = format!("s_{table}");
        prepare(&mut early, &named, &format!("SELECT v FROM {table} WHERE k = $1")).unwrap();
        assert_eq!(run(&mut early, &named, &[b"5"], Form::Text).unwrap().rows.len(), 1, "{table}");
        let new = format!("New {table}");
        let alter = format!("ALTER TABLE {table} RENAME TO \"{new}\"");
        for to in ["taken".to_owned(), table.to_owned(), format!("{table}_v")] {
            let error = refused(&mut client, &format!("ALTER TABLE {table} RENAME TO {to}"));
            assert!(error.starts_with("42P07"), "{table}, {to}: {error}");
        }
        // One shard has something of this name: then none renames its own.
        let there = if table == "many" { format!("{new}_part3") } else { new.clone() };
        done(&mut fleet.shard(1), &format!("CREATE VIEW \"{there}\" AS SELECT 1 AS one"));
        let error = refused(&mut client, &alter);
        assert!(error.contains("shard s1"), "{table}: {error}");
        done(&mut fleet.shard(1), &format!("DROP VIEW \"{there}\""));
        assert_eq!(client.value(&format!("SELECT sum(n) FROM {table}")).unwrap(), "66");
        assert!(refused(&mut client, &format!("SELECT * FROM \"{new}\"")).starts_with("42P01"), "{table}");
        done(&mut client, &alter);
        assert_eq!(client.value(&format!("SELECT sum(n) FROM \"{new}\"")).unwrap(), "66");
        assert_eq!(early.value(&format!("SELECT v FROM \"{new}\" WHERE k = 7")).unwrap(), "v7");
        assert!(refused(&mut client, &format!("SELECT * FROM {table}")).starts_with("42P01"), "{table}");
        let error = run(&mut early, &named, &[b"5"], Form::Text).unwrap_err();
        assert!(error.contains("42P01"), "{table}: {error}");
        done(&mut client, &format!("ALTER TABLE \"{new}\" ADD COLUMN w int"));
    }
    // Another one of the old name is another table.
    done(&mut client, &format!("CREATE TABLE plain (k bigint PRIMARY KEY) {}", by("")));
    done(&mut client, "INSERT INTO plain VALUES (1), (2), (3)");
    fleet = fleet.restart();
    let mut client = fleet.client();
    assert_eq!(client.value("SELECT count(*) FROM plain").unwrap(), "3");
    for table in ["plain", "many", "copied", "alone"] {
        let new = format!("New {table}");
        assert_eq!(client.value(&format!("SELECT sum(n) FROM \"{new}\"")).unwrap(), "66", "{table}");
        // By its own name, and with the index that it had.
        done(&mut client, &format!("DROP INDEX {table}_v"));
        done(&mut client, &format!("DROP TABLE \"{new}\""));
    }
    let left = "SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class \
                WHERE relnamespace = 'public'::regnamespace";
    for shard in 0..2 {
        // Indexes keep their names, as in PostgreSQL: that of the key was taken.
        assert_eq!(fleet.shard(shard).value(left).unwrap(), "plain plain_pkey1");
    }
    fleet.ashlar.check_log();
}

/// The CHECK constraints of a table of PostgreSQL.
fn checks(client: &mut pg::Connection, table: &str) -> Vec<Vec<Option<String>>> {
    let sql = "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'c' AND conrelid =";
    rows(client, &format!("{sql} '{table}'::regclass ORDER BY conname"))
}

#[test]
fn checks_defaults_and_not_null_hold_as_in_one_postgresql() {
    let mut fleet = Fleet::start(2);
    let oracle = Postgres::start().unwrap();
    let mut alone = pg::Connection::connect(oracle.address()).unwrap();
    let mut client = fleet.client();
    let create = "CREATE TABLE t (k bigint PRIMARY KEY, v text CHECK (v <> ''), \
                  n int DEFAULT 1 CONSTRAINT small CHECK (n < 100), CHECK (n > k - 1000))";
    let by = fleet.by("k");
    done(&mut alone, create);
    done(&mut client, &format!("{create} {}, shards = '4')", by.strip_suffix(')').unwrap()));
    let all = "SELECT * FROM t ORDER BY k";
    for (sql, code) in [
        ("INSERT INTO t VALUES (1, 'a', 5), (2, 'b', 6), (3, 'c', 7), (4, 'd', 8)", ""),
        ("INSERT INTO t VALUES (5, '', 5)", "23514"),
        ("INSERT INTO t VALUES (5, 'a', 100)", "23514"),
        ("INSERT INTO t VALUES (5000, 'a', 1)", "23514"),
        ("UPDATE t SET n = n + 93", "23514"),
        ("ALTER TABLE t DROP CONSTRAINT t_v_check", ""),
        ("INSERT INTO t VALUES (5, '', 5)", ""),
        ("ALTER TABLE t ADD CHECK (v <> '')", "23514"),
        ("ALTER TABLE t ADD CONSTRAINT small CHECK (n < 5)", "42710"),
        ("ALTER TABLE t DROP CONSTRAINT small, ADD CONSTRAINT small CHECK (n < 50), ADD CHECK (k <> 77)", ""),
        ("INSERT INTO t (k) VALUES (77)", "23514"),
        ("INSERT INTO t (k, n) VALUES (8, 60)", "23514"),
        ("ALTER TABLE t DROP CONSTRAINT nothing", "42704"),
        ("ALTER TABLE t DROP CONSTRAINT IF EXISTS nothing", ""),
        ("ALTER TABLE t ALTER n SET DEFAULT 9, ALTER v SET DEFAULT 'x' || 'y'", ""),
        ("INSERT INTO t (k) VALUES (9)", ""),
        ("ALTER TABLE t ALTER v SET NOT NULL", ""),
        ("INSERT INTO t (k, v) VALUES (10, NULL)", "23502"),
        ("ALTER TABLE t ALTER v DROP NOT NULL, ALTER v DROP DEFAULT", ""),
        ("INSERT INTO t (k) VALUES (10)", ""),
        ("ALTER TABLE t ALTER v SET NOT NULL", "23502"),
        ("ALTER TABLE t ALTER k DROP NOT NULL", "42P16"),
        ("ALTER TABLE t ALTER nothing SET DEFAULT 1", "42703"),
        ("ALTER TABLE t ALTER n SET DEFAULT 'no'", "22P02"),
        ("ALTER TABLE t RENAME n TO \"N\"", ""),
        ("INSERT INTO t VALUES (11, 'a', 60)", "23514"),
        ("ALTER TABLE t ADD COLUMN w int DEFAULT 3 CHECK (w > \"N\" - 100)", ""),
        ("INSERT INTO t VALUES (11, 'a', 40, -100)", "23514"),
        ("ALTER TABLE t DROP COLUMN \"N\"", ""),
        ("INSERT INTO t VALUES (11, 'a', -1000)", ""),
        ("INSERT INTO t VALUES (77, 'a', 1)", "23514"),
    ] {
        for one in [&mut client, &mut alone] {
            match code {
                "" => done(one, sql),
                code => {
                    let error = refused(one, sql);
                    assert!(error.starts_with(code), "{sql}: {error}");
                }
            }
        }
        assert_eq!(rows(&mut client, all), rows(&mut alone, all), "{sql}");
        assert_eq!(rows(&mut client, COLUMNS), rows(&mut alone, COLUMNS), "{sql}");
        let expected = checks(&mut alone, "t");
        for number in 0..4 {
            assert_eq!(checks(&mut fleet.shard(number % 2), &format!("t_{number}")), expected, "{sql}: {number}");
        }
    }
    assert!(refused(&mut client, "ALTER TABLE t ADD CONSTRAINT ashlar_rule CHECK (k > 0)").starts_with("42602"));
    fleet = fleet.restart();
    let mut client = fleet.client();
    assert!(refused(&mut client, "INSERT INTO t VALUES (77, 'a', 1)").starts_with("23514"));
    done(&mut client, "ALTER TABLE t DROP CONSTRAINT t_k_check");
    done(&mut client, "INSERT INTO t VALUES (77, 'a', 1)");
    fleet.ashlar.check_log();
}

#[test]
fn a_column_has_another_type_on_all_shards_or_on_none() {
    let mut fleet = Fleet::start(2);
    let oracle = Postgres::start().unwrap();
    let mut alone = pg::Connection::connect(oracle.address()).unwrap();
    let mut client = fleet.client();
    let create = "CREATE TABLE t (k bigint PRIMARY KEY, v text, n int DEFAULT 7, d date DEFAULT '2026-1-1', \
                  s timestamp DEFAULT '2026-07-01 12:00', CHECK (n < 100))";
    let by = fleet.by("k");
    done(&mut alone, create);
    done(&mut client, &format!("{create} {}, shards = '4')", by.strip_suffix(')').unwrap()));
    for one in [&mut client, &mut alone] {
        done(one, "INSERT INTO t (k, v) VALUES (1, '1'), (2, '22'), (3, '333'), (4, '4444'), (5, NULL)");
        done(one, "CREATE INDEX t_n ON t (n)");
        done(one, "SET TimeZone = 'Europe/Vienna'");
    }
    let all = "SELECT * FROM t ORDER BY k";
    for (sql, code) in [
        ("ALTER TABLE t ALTER n TYPE bigint", ""),
        ("INSERT INTO t (k, n) VALUES (6, 3000000000)", "23514"),
        ("INSERT INTO t (k, n) VALUES (6, -3000000000)", ""),
        ("ALTER TABLE t ALTER n TYPE int", "22003"),
        ("ALTER TABLE t ALTER v TYPE varchar(3)", "22001"),
        ("ALTER TABLE t ALTER v TYPE int", "42804"),
        ("ALTER TABLE t ALTER nothing TYPE int", "42703"),
        ("ALTER TABLE t ALTER v TYPE int USING length(v), ADD COLUMN w text DEFAULT 'w'", ""),
        ("INSERT INTO t (k, v) VALUES (7, 70)", ""),
        ("ALTER TABLE t ALTER s TYPE timestamptz, ALTER d TYPE text", ""),
        ("INSERT INTO t (k) VALUES (8)", ""),
        ("ALTER TABLE t ALTER n DROP DEFAULT, ALTER n TYPE numeric(20,2), ALTER n SET DEFAULT 1.5", ""),
        ("INSERT INTO t (k) VALUES (9)", ""),
        ("UPDATE t SET n = n / 8 WHERE n > 0", ""),
    ] {
        for one in [&mut client, &mut alone] {
            match code {
                "" => done(one, sql),
                code => {
                    let error = refused(one, sql);
                    assert!(error.starts_with(code), "{sql}: {error}");
                }
            }
        }
        assert_eq!(rows(&mut client, all), rows(&mut alone, all), "{sql}");
        assert_eq!(rows(&mut client, COLUMNS), rows(&mut alone, COLUMNS), "{sql}");
    }
    let sums = "SELECT sum(n), count(v), max(v) FROM t";
    assert_eq!(rows(&mut client, sums), rows(&mut alone, sums));
    // One shard has rows that cannot be of the type: then no column is.
    assert!(refused(&mut client, "ALTER TABLE t ALTER k TYPE int").starts_with("0A000"));
    let types = "SELECT string_agg(DISTINCT format_type(atttypid, atttypmod), ' ') FROM pg_attribute \
                 WHERE attname = 'n' AND attrelid::regclass::text LIKE 't\\__'";
    let error = refused(&mut client, "ALTER TABLE t ALTER n TYPE numeric(3,2)");
    assert!(error.starts_with("22003") && error.contains("shard s"), "{error}");
    assert_eq!([0, 1].map(|shard| fleet.shard(shard).value(types).unwrap()), ["numeric(20,2)", "numeric(20,2)"]);
    // One has computed its values already: it does not do so twice.
    let compute = "ALTER TABLE t ALTER v TYPE bigint USING v * 10";
    done(&mut fleet.shard(1), "ALTER TABLE t_1 ALTER v TYPE bigint");
    let error = refused(&mut client, compute);
    assert!(error.starts_with("42P16") && error.contains("bigint") && error.contains("s1"), "{error}");
    done(&mut fleet.shard(1), "ALTER TABLE t_1 ALTER v TYPE int");
    for one in [&mut client, &mut alone] {
        done(one, compute);
    }
    assert!(refused(&mut client, compute).starts_with("0A000"));
    fleet = fleet.restart();
    let mut client = fleet.client();
    done(&mut client, "SET TimeZone = 'Europe/Vienna'");
    assert_eq!(rows(&mut client, all), rows(&mut alone, all));
    assert_eq!(rows(&mut client, COLUMNS), rows(&mut alone, COLUMNS));
    fleet.ashlar.check_log();
}

#[test]
fn a_check_is_on_shards_that_come_and_in_what_is_attached() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    let columns = "k bigint PRIMARY KEY, v text CHECK (v <> ''), n int";
    let by = "PARTITION BY RANGE (k) USING sharded";
    done(&mut client, &format!("CREATE TABLE r ({columns}) {by} WITH (servers = 's0', ranges = '0..100')"));
    done(&mut client, "ALTER TABLE r ADD CONSTRAINT positive CHECK (n > 0)");
    done(&mut client, "ALTER TABLE r ALTER n SET DEFAULT 1, ALTER v SET NOT NULL");
    done(&mut client, "ALTER TABLE r SET (servers = 's0,s1', ranges = '0..100; 100..200')");
    assert_eq!(checks(&mut fleet.shard(1), "r"), checks(&mut fleet.shard(0), "r"));
    for (values, code) in [("(150, '', 1)", "23514"), ("(150, 'a', 0)", "23514"), ("(150, NULL, 1)", "23502")] {
        assert!(refused(&mut client, &format!("INSERT INTO r VALUES {values}")).starts_with(code), "{values}");
    }
    done(&mut client, "INSERT INTO r (k, v) VALUES (50, 'a'), (150, 'b')");
    assert_eq!(client.value("SELECT sum(n) FROM r").unwrap(), "2");
    // One of the tables has no such constraint.
    done(&mut fleet.shard(0), &format!("CREATE TABLE there ({columns})"));
    done(&mut fleet.shard(1), "CREATE TABLE there (k bigint PRIMARY KEY, v text, n int)");
    let ends = "WITH (servers = 's0,s1', ranges = '0..100; 100..200', attach = true)";
    let attach = format!("CREATE TABLE there ({columns}) {by} {ends}");
    let error = refused(&mut client, &attach);
    assert!(error.starts_with("42P16") && error.contains("it has no CHECK") && error.contains("s1"), "{error}");
    done(&mut fleet.shard(1), "ALTER TABLE there ADD CHECK (v <> '')");
    done(&mut client, &attach);
    done(&mut client, "ALTER TABLE there DROP CONSTRAINT there_v_check");
    done(&mut client, "INSERT INTO there VALUES (50, '', 1), (150, '', 1)");
    fleet.ashlar.check_log();
}

#[test]
fn truncate_empties_all_shards_or_none() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    let fill = "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e'), (6, 'f'), (7, 'g'), (8, 'h')";
    done(&mut client, fill);
    // Something on one shard keeps its rows.
    done(&mut fleet.shard(1), "CREATE TABLE other (k bigint REFERENCES t)");
    for sql in ["TRUNCATE t", "TRUNCATE t CASCADE", "BEGIN; TRUNCATE t RESTART IDENTITY CASCADE"] {
        let error = refused(&mut client, sql);
        assert!(error.contains("0A000") && error.contains("shard s1"), "{sql}: {error}");
        done(&mut client, "ROLLBACK");
        assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "8", "{sql}");
    }
    done(&mut fleet.shard(1), "DROP TABLE other");
    // What counts on a shard begins anew there.
    for shard in 0..2 {
        done(&mut fleet.shard(shard), "CREATE SEQUENCE counted OWNED BY t.v; SELECT nextval('counted')");
    }
    let is_new = |shard: usize| fleet.shard(shard).value("SELECT NOT is_called FROM counted").unwrap();
    for (sql, begins) in [
        ("TRUNCATE TABLE t", "f"),
        ("TRUNCATE t CONTINUE IDENTITY CASCADE", "f"),
        ("BEGIN; TRUNCATE t RESTART IDENTITY; ROLLBACK", "f"),
        ("TRUNCATE t RESTART IDENTITY CASCADE", "t"),
    ] {
        done(&mut client, sql);
        assert_eq!([0, 1].map(is_new), [begins, begins], "{sql}");
    }
    for shard in 0..2 {
        assert_eq!(fleet.shard(shard).value("SELECT count(*) FROM t").unwrap(), "0");
    }
    done(&mut client, fill);
    assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "8");
    fleet.ashlar.check_log();
}

#[test]
fn a_table_is_made_while_another_one_waits_to_be_altered() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    let columns = "(k bigint PRIMARY KEY, v text)";
    done(&mut client, &format!("CREATE TABLE t {columns} {}", fleet.by("k")));
    let (mut reader, mut other) = (fleet.client(), fleet.client());
    done(&mut reader, "BEGIN");
    done(&mut reader, "SELECT * FROM t WHERE k = 1");
    let alter = "ALTER TABLE t ADD COLUMN w int";
    let altering = std::thread::spawn(move || other.query(alter).map_err(|error| format!("{error:#}")));
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    assert!(wait_for(PATIENCE, || (0..2).any(|shard| fleet.shard(shard).value(waiting).unwrap() != "0")));
    done(&mut client, "SET statement_timeout = '100s'");
    done(&mut client, &format!("CREATE TABLE u {columns} {}", fleet.by("k")));
    done(&mut client, "INSERT INTO u VALUES (1, 'a'), (2, 'b'), (3, 'c')");
    assert_eq!(client.value("SELECT count(*) FROM u").unwrap(), "3");
    // One that takes over a rule waits for whoever may be about to change that.
    done(&mut client, "SET statement_timeout = '300ms'");
    let beside = format!("CREATE TABLE b {columns} PARTITION BY HASH (k) USING sharded WITH (colocate_with = 't')");
    let error = refused(&mut client, &beside);
    assert!(error.starts_with("57014"), "{error}");
    done(&mut reader, "COMMIT");
    altering.join().unwrap().unwrap();
    done(&mut client, "RESET statement_timeout");
    done(&mut client, &beside);
    done(&mut client, "INSERT INTO b VALUES (1, 'a')");
    done(&mut client, "INSERT INTO t VALUES (1, 'a', 5)");
    assert_eq!(client.value("SELECT w FROM t JOIN b USING (k)").unwrap(), "5");
    fleet.ashlar.check_log();
}

#[test]
fn a_table_whose_rule_another_one_has_is_dropped_with_it() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    let make = |client: &mut pg::Connection| {
        done(client, &format!("CREATE TABLE t (k bigint PRIMARY KEY) {}", fleet.by("k")));
        done(
            client,
            "CREATE TABLE b (k bigint PRIMARY KEY) PARTITION BY HASH (k) USING sharded WITH (colocate_with = 't')",
        );
    };
    make(&mut client);
    done(&mut client, "CREATE TABLE other (k bigint PRIMARY KEY) USING sharded WITH (servers = 's0,s1', broadcast)");
    for sql in ["DROP TABLE t", "DROP TABLE t, other"] {
        let error = refused(&mut client, sql);
        assert!(error.starts_with("2BP01") && error.contains("table b"), "{sql}: {error}");
    }
    done(&mut client, "INSERT INTO b VALUES (1)");
    done(&mut client, "DROP TABLE t, b");
    make(&mut client);
    done(&mut client, "DROP TABLE b");
    done(&mut client, "DROP TABLE t");
    make(&mut client);
    assert!(refused(&mut client, "DROP TABLE t").starts_with("2BP01"));
    // Both are found again at start.
    let fleet = fleet.restart();
    let mut client = fleet.client();
    done(&mut client, "INSERT INTO t VALUES (1)");
    done(&mut client, "INSERT INTO b VALUES (1)");
    assert_eq!(client.value("SELECT count(*) FROM t JOIN b USING (k)").unwrap(), "1");
    done(&mut client, "DROP TABLE b, t, other");
    fleet.ashlar.check_log();
}

#[test]
fn comments_are_kept_with_their_table() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k int PRIMARY KEY, a int, b int) {}", fleet.by("k")));
    for sql in [
        "COMMENT ON TABLE t IS 'it''s a \\table'",
        "COMMENT ON COLUMN t.a IS 'first'",
        "COMMENT ON COLUMN t.a IS 'a column'",
        "COMMENT ON COLUMN t.b IS 'gone soon'",
        "COMMENT ON INDEX t_pkey IS 'an index'",
        "COMMENT ON CONSTRAINT t_pkey ON t IS 'a key'",
        "ALTER TABLE t RENAME COLUMN a TO c",
        "ALTER TABLE t DROP COLUMN b",
        "ALTER TABLE t RENAME TO u",
        "CREATE INDEX u_c_idx ON u (c)",
    ] {
        done(&mut client, sql);
    }
    assert!(refused(&mut client, "COMMENT ON INDEX u_c_idx IS 'of shards'").contains("0A000"));
    let said = "SELECT objsubid, description FROM pg_description WHERE classoid <> 'pg_namespace'::regclass ORDER BY 2";
    let expected = rows(&mut client, said);
    let texts: Vec<Option<String>> = rows(&mut client, &format!("SELECT description FROM ({said}) AS said ORDER BY 1"))
        .into_iter()
        .map(|mut row| row.remove(0))
        .collect();
    let texts: Vec<&str> = texts.iter().flatten().map(String::as_str).collect();
    assert_eq!(texts, ["a column", "a key", "an index", "it's a \\table"]);
    done(&mut client, "BEGIN");
    assert!(refused(&mut client, "COMMENT ON TABLE u IS 'in a block'").contains("0A000"));
    done(&mut client, "ROLLBACK");
    let fleet = fleet.restart();
    let mut client = fleet.client();
    assert_eq!(rows(&mut client, said), expected);
    done(&mut client, "DROP TABLE u");
    assert!(rows(&mut client, said).is_empty());
    fleet.ashlar.check_log();
}
