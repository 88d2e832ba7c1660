//! TRUNCATE and ALTER TABLE: on every shard, or on none.

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
    for (name, code) in [("all", "0A000"), ("gone", "42703"), ("kept", "42703"), ("insert", "42703")] {
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
        assert_eq!(fleet.shard(shard).value(left).unwrap(), "plain plain_pkey");
    }
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
    let error = refused(&mut client, "TRUNCATE t");
    assert!(error.contains("0A000") && error.contains("shard s1"), "{error}");
    assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "8");
    done(&mut fleet.shard(1), "DROP TABLE other");
    done(&mut client, "TRUNCATE TABLE t");
    for shard in 0..2 {
        assert_eq!(fleet.shard(shard).value("SELECT count(*) FROM t").unwrap(), "0");
    }
    done(&mut client, fill);
    assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "8");
    fleet.ashlar.check_log();
}
