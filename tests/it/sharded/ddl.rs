//! TRUNCATE and ADD COLUMN: on every shard, or on none.

use ashlar_tests::process::{PATIENCE, wait_for};

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
    done(&mut client, "SET statement_timeout = '20s'");
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
