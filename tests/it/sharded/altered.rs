//! Rules that are changed where no row has to move: what is new is where the new rule says, what is there stays where it is, and a change
//! that one shard refuses is none.

use ashlar_tests::process::{PATIENCE, wait_for};

use super::*;

fn count(fleet: &Fleet, shard: usize, table: &str) -> String {
    fleet.shard(shard).value(&format!("SELECT count(*) FROM {table}")).unwrap()
}

/// The texts of a query's only column, one after the other.
fn texts(client: &mut pg::Connection, sql: &str) -> String {
    rows(client, sql).into_iter().flatten().flatten().collect()
}

/// Whether a shard has a table.
fn has(fleet: &Fleet, shard: usize, table: &str) -> bool {
    fleet.shard(shard).value(&format!("SELECT to_regclass('{table}')")).unwrap() != "NULL"
}

#[test]
fn a_key_generator_comes_and_goes() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, g bigint, v text) {}", fleet.by("k")));
    let insert = "INSERT INTO t (v) VALUES ('made')";
    assert!(refused(&mut client, insert).starts_with("23502"));
    assert!(refused(&mut client, "ALTER TABLE t SET (key_generator = 'uuidv7')").starts_with("22023"));
    assert!(refused(&mut client, "ALTER TABLE t SET (key_generator = 'dice')").starts_with("22023"));
    assert!(refused(&mut client, "ALTER TABLE t SET (fillfactor = 70)").starts_with("22023"));
    assert!(refused(&mut client, insert).starts_with("23502"));
    done(&mut client, "ALTER TABLE t SET (key_generator = 'snowflake')");
    done(&mut client, insert);
    done(&mut client, "INSERT INTO t (v) SELECT 'made' FROM generate_series(1, 10)");
    // Of another column.
    done(&mut client, "ALTER TABLE t SET (generated_column = 'g')");
    assert!(refused(&mut client, insert).starts_with("23502"));
    done(&mut client, "INSERT INTO t (k, v) VALUES (1, 'given')");
    assert_eq!(client.value("SELECT count(*) FROM t WHERE g > 1").unwrap(), "1");
    let fleet = fleet.restart();
    let mut client = fleet.client();
    done(&mut client, "INSERT INTO t (k, v) VALUES (2, 'given')");
    assert_eq!(client.value("SELECT count(*) FROM t WHERE g > 1").unwrap(), "2");
    assert!(refused(&mut client, "ALTER TABLE t RESET (key_generator)").contains("needs key_generator"));
    assert!(refused(&mut client, "ALTER TABLE t RESET (servers)").starts_with("22023"));
    done(&mut client, "ALTER TABLE t RESET (key_generator, generated_column)");
    done(&mut client, "INSERT INTO t (k, v) VALUES (3, 'given')");
    assert_eq!(client.value("SELECT count(*) FROM t WHERE g IS NULL").unwrap(), "12");
    assert_eq!(client.value("SELECT count(DISTINCT k) FROM t").unwrap(), "14");
    fleet.ashlar.check_log();
}

#[test]
fn keys_that_no_shard_took_get_one() {
    let fleet = Fleet::start(3);
    let mut client = fleet.client();
    for (table, by, rule, more) in [
        ("r", "RANGE", "ranges = '0..10; 10..20'", "ranges = '0..10; 10..20; 20..30'"),
        ("l", "LIST", "lists = '1,2; 11,12'", "lists = '1,2,3; 11,12; 25'"),
    ] {
        let columns = "k int PRIMARY KEY, v text";
        let with = |rule: &str| format!("USING sharded WITH (servers = 's0,s1', {rule})");
        done(&mut client, &format!("CREATE TABLE {table} ({columns}) PARTITION BY {by} (k) {}", with(rule)));
        done(&mut client, &format!("CREATE INDEX {table}_by_v ON {table} (v)"));
        done(&mut client, &format!("ALTER TABLE {table} ADD COLUMN w int"));
        done(&mut client, &format!("INSERT INTO {table} VALUES (1, 'a'), (11, 'b')"));
        let insert = format!("INSERT INTO {table} VALUES (25, 'c', 5)");
        assert!(refused(&mut client, &insert).starts_with("22023"), "{table}");
        done(&mut client, &format!("ALTER TABLE {table} SET (servers = 's0,s1,s2', {more})"));
        done(&mut client, &insert);
        for shard in 0..3 {
            assert_eq!(count(&fleet, shard, table), "1", "{table} on s{shard}");
        }
        let indexes = format!("SELECT count(*) FROM pg_indexes WHERE tablename = '{table}'");
        assert_eq!(fleet.shard(2).value(&indexes).unwrap(), "2");
        assert_eq!(client.value(&format!("SELECT sum(k) FROM {table}")).unwrap(), "37");
        let lines = format!("{:?}", rows(&mut client, &format!("EXPLAIN (ROUTE) SELECT * FROM {table} WHERE k = 25")));
        assert!(lines.contains("Route: shard 2"), "{lines}");
        // What was to be refused is refused as before.
        assert!(refused(&mut client, &format!("INSERT INTO {table} VALUES (99, 'd')")).starts_with("22023"));
    }
    let fleet = fleet.restart();
    let mut client = fleet.client();
    for table in ["r", "l"] {
        assert_eq!(client.value(&format!("SELECT v FROM {table} WHERE k = 25")).unwrap(), "c");
        done(&mut client, &format!("DROP TABLE {table}"));
        assert!((0..3).all(|shard| !has(&fleet, shard, table)), "{table}");
    }
    fleet.ashlar.check_log();
}

#[test]
fn an_interval_is_appended_where_it_has_no_rows() {
    let fleet = Fleet::start(3);
    let mut client = fleet.client();
    // Shards 0 to 3: before January, January, February, from March on; of which 0 and 3 are on s0.
    done(
        &mut client,
        "CREATE TABLE d (day date PRIMARY KEY, v text) PARTITION BY RANGE (day) USING sharded WITH (servers = 's0,s1,s2', \
         algorithm = 'interval', lower = '2026-01-01', upper = '2026-03-01', interval = '1 month')",
    );
    done(&mut client, "INSERT INTO d VALUES ('2025-12-01', 'a'), ('2026-01-05', 'b'), ('2026-03-05', 'c')");
    done(&mut client, "INSERT INTO d VALUES ('2026-04-09', 'in the way')");
    let alter = "ALTER TABLE d SET (upper = '2026-04-01')";
    let error = refused(&mut client, alter);
    assert!(error.starts_with("55000") && error.contains("shard s0"), "{error}");
    // It is as if nothing had been said.
    assert!(!has(&fleet, 1, "d_4"));
    assert_eq!(client.value("SELECT v FROM d WHERE day = '2026-04-09'").unwrap(), "in the way");
    done(&mut client, "DELETE FROM d WHERE day = '2026-04-09'");
    done(&mut client, alter);
    done(&mut client, "INSERT INTO d VALUES ('2026-04-01', 'e'), ('2026-03-31', 'f')");
    let of_shard =
        |shard: usize, table: &str| texts(&mut fleet.shard(shard), &format!("SELECT v FROM {table} ORDER BY day"));
    assert_eq!((of_shard(0, "d_3"), of_shard(1, "d_4")), ("cf".to_owned(), "e".to_owned()));
    assert_eq!(texts(&mut client, "SELECT v FROM d ORDER BY day"), "abcfe");
    // Who knows the old rule only is refused by the shard.
    let error = refused(&mut fleet.shard(0), "INSERT INTO d_3 VALUES ('2026-04-02', 'of another one')");
    assert!(error.starts_with("23514"), "{error}");
    // And once more.
    done(&mut client, "ALTER TABLE d SET (upper = '2026-05-01')");
    assert!(refused(&mut client, "ALTER TABLE d SET (upper = '2026-04-01')").starts_with("0A000"));
    done(&mut client, "INSERT INTO d VALUES ('2026-05-02', 'g')");
    assert_eq!((of_shard(1, "d_4"), of_shard(2, "d_5")), ("e".to_owned(), "g".to_owned()));
    fleet.ashlar.check_log();
}

#[test]
fn a_value_leaves_the_others_where_it_has_no_rows() {
    let fleet = Fleet::start(3);
    let mut client = fleet.client();
    done(
        &mut client,
        "CREATE TABLE l (k varchar(9) PRIMARY KEY) PARTITION BY LIST (k) USING sharded WITH (servers = 's0,s1', lists = 'de, at; *')",
    );
    done(&mut client, "INSERT INTO l VALUES ('de'), ('fr'), ('it''s')");
    let alter = |lists: &str| format!("ALTER TABLE l SET (servers = 's0,s1,s2', lists = '{lists}')");
    for lists in ["de, at; *; fr", "de, at; *; ''it''''s''"] {
        let error = refused(&mut client, &alter(lists));
        assert!(error.starts_with("55000") && error.contains("shard s1"), "{lists}\n{error}");
        assert!(!has(&fleet, 2, "l"));
    }
    done(&mut client, &alter("de, at; *; us, ''o''''k \\''"));
    done(&mut client, "INSERT INTO l VALUES ('us'), ('o''k \\'), ('es')");
    assert_eq!((0..3).map(|shard| count(&fleet, shard, "l")).collect::<Vec<_>>(), ["1", "3", "2"]);
    assert!(refused(&mut fleet.shard(1), "INSERT INTO l VALUES ('us')").starts_with("23514"));
    assert_eq!(client.value("SELECT count(*) FROM l").unwrap(), "6");
    fleet.ashlar.check_log();
}

#[test]
fn a_change_that_one_shard_refuses_is_none() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(
        &mut client,
        "CREATE TABLE b (k int PRIMARY KEY) PARTITION BY RANGE (k) USING sharded WITH (servers = 's0', ranges = '0..100')",
    );
    done(&mut client, "INSERT INTO b VALUES (5)");
    // Its place is taken by something else.
    done(&mut fleet.shard(1), "CREATE TABLE b (other text)");
    let alter = "ALTER TABLE b SET (servers = 's0,s1', ranges = '0..50; 50..')";
    let error = refused(&mut client, alter);
    assert!(error.starts_with("42P07") && error.contains("shard s1"), "{error}");
    let held = "SELECT count(*) FROM pg_constraint WHERE conname = 'ashlar_rule'";
    assert_eq!(fleet.shard(0).value(held).unwrap(), "0");
    done(&mut client, "INSERT INTO b VALUES (60)");
    assert_eq!(count(&fleet, 0, "b"), "2");
    done(&mut client, "DELETE FROM b WHERE k = 60");
    done(&mut fleet.shard(1), "DROP TABLE b");
    done(&mut client, alter);
    assert_eq!(fleet.shard(0).value(held).unwrap(), "1");
    done(&mut client, "INSERT INTO b VALUES (60)");
    assert_eq!((count(&fleet, 0, "b"), count(&fleet, 1, "b")), ("1".to_owned(), "1".to_owned()));
    fleet.ashlar.check_log();
}

#[test]
fn another_ashlar_takes_what_is_there() {
    let fleet = Fleet::start(3);
    let mut client = fleet.client();
    let data = tempfile::Builder::new().prefix("ashlar-data-").tempdir().unwrap();
    let second = start(&format!("[shard]\ndata_dir = \"{}\"\n", data.path().join("d").display()));
    let mut other = second.connect();
    declare(&mut other, fleet.shards.iter().map(Postgres::address));
    let create = |more: &str| {
        format!(
            "CREATE TABLE r (k int PRIMARY KEY, v text) PARTITION BY RANGE (k) \
             USING sharded WITH (servers = 's0,s1', ranges = '0..10; 10..20'{more})"
        )
    };
    done(&mut client, &create(""));
    done(&mut other, &create(", attach = true"));
    let alter =
        |more: &str| format!("ALTER TABLE r SET (servers = 's0,s1,s2', ranges = '0..10; 10..20; 20..30'{more})");
    let error = refused(&mut other, &alter(", attach = true"));
    assert!(error.starts_with("42P01") && error.contains("shard s2"), "{error}");
    done(&mut client, &alter(""));
    assert!(refused(&mut other, &alter("")).starts_with("42P07"));
    done(&mut other, &alter(", attach = true"));
    done(&mut client, "INSERT INTO r VALUES (5, 'a'), (25, 'b')");
    assert_eq!(texts(&mut other, "SELECT v FROM r ORDER BY k"), "ab");
    done(&mut other, "INSERT INTO r VALUES (26, 'c')");
    assert_eq!(count(&fleet, 2, "r"), "2");
    assert!(refused(&mut other, "ALTER TABLE r SET (attach = true)").starts_with("22023"));
    assert!(refused(&mut other, "ALTER TABLE r RESET (attach)").starts_with("22023"));
    // The tables are the first one's.
    done(&mut other, "DROP TABLE r");
    assert_eq!(client.value("SELECT count(*) FROM r").unwrap(), "3");
    done(&mut client, "DROP TABLE r");
    assert!((0..3).all(|shard| !has(&fleet, shard, "r")));
    second.check_log();
    fleet.ashlar.check_log();
}

#[test]
fn a_server_that_a_table_is_about_to_be_on_is_not_dropped() {
    let fleet = Fleet::start(3);
    let mut client = fleet.client();
    done(
        &mut client,
        "CREATE TABLE r (k int PRIMARY KEY, v text) PARTITION BY RANGE (k) \
         USING sharded WITH (servers = 's0,s1', boundaries = '10')",
    );
    done(&mut client, "INSERT INTO r VALUES (5, 'a'), (15, 'b')");
    // Who reads the shard whose keys become fewer keeps the change waiting.
    let mut reader = fleet.shard(1);
    done(&mut reader, "BEGIN");
    done(&mut reader, "SELECT * FROM r");
    let mut other = fleet.client();
    let alter = "ALTER TABLE r SET (servers = 's0,s1,s2', boundaries = '10,20')";
    let altering = std::thread::spawn(move || other.query(alter).map_err(|error| format!("{error:#}")));
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    assert!(wait_for(PATIENCE, || fleet.shard(1).value(waiting).unwrap() != "0"));
    let error = refused(&mut client, "DROP SERVER s2 CASCADE");
    assert!(error.starts_with("55000"), "{error}");
    done(&mut reader, "COMMIT");
    altering.join().unwrap().unwrap();
    assert!(refused(&mut client, "DROP SERVER s2 CASCADE").starts_with("2BP01"));
    done(&mut client, "INSERT INTO r VALUES (25, 'c')");
    // What is kept of the table names servers that are known.
    let fleet = fleet.restart();
    let mut client = fleet.client();
    assert_eq!(texts(&mut client, "SELECT v FROM r ORDER BY k"), "abc");
    assert_eq!(count(&fleet, 2, "r"), "1");
    done(&mut client, "DROP TABLE r");
    done(&mut client, "DROP SERVER s2 CASCADE");
    fleet.ashlar.check_log();
}
