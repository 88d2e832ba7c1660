//! Indexes, keys and upkeep: the same on every shard, and known here.

use ashlar_tests::process::{PATIENCE, wait_for};

use super::*;

#[test]
fn an_index_is_on_all_shards_or_on_none() {
    let mut fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text, n int) {}", fleet.by("k")));
    let defined = "SELECT indexdef FROM pg_indexes WHERE tablename = 't' ORDER BY indexname";
    done(&mut client, "CREATE INDEX ON t (v)");
    done(&mut client, "CREATE INDEX ON t (v)");
    done(&mut client, "CREATE INDEX IF NOT EXISTS t_v_idx ON t (n)");
    done(&mut client, "CREATE UNIQUE INDEX pair ON t (n, k) WHERE n > 0");
    done(&mut client, "CREATE INDEX lowered ON t (lower(v) DESC)");
    assert!(refused(&mut client, "CREATE INDEX pair ON t (n)").starts_with("42P07"));
    assert!(refused(&mut client, "CREATE INDEX ON t (nothing)").starts_with("42703"));
    assert!(refused(&mut client, "CREATE UNIQUE INDEX ON t (n)").starts_with("0A000"));
    let first = rows(&mut fleet.shard(0), defined);
    assert_eq!(first.len(), 5, "{first:?}");
    assert_eq!(rows(&mut fleet.shard(1), defined), first);
    // One shard has something of this name: then none gets it.
    done(&mut fleet.shard(1), "CREATE TABLE mine (k int)");
    let error = refused(&mut client, "CREATE INDEX mine ON t (n)");
    assert!(error.starts_with("42P07") && error.contains("shard s1"), "{error}");
    assert_eq!(rows(&mut fleet.shard(0), defined), first);
    fleet = fleet.restart();
    let mut client = fleet.client();
    assert!(refused(&mut client, "CREATE INDEX lowered ON t (n)").starts_with("42P07"));
    done(&mut client, "DROP INDEX lowered, t_v_idx1");
    assert!(refused(&mut client, "DROP INDEX lowered").starts_with("42704"));
    done(&mut client, "DROP INDEX IF EXISTS lowered");
    assert!(refused(&mut client, "BEGIN; DROP INDEX pair").starts_with("0A000"));
    done(&mut client, "ROLLBACK");
    for shard in 0..2 {
        let left = rows(&mut fleet.shard(shard), defined);
        assert_eq!(left.len(), 3, "{left:?}");
    }
    // A column that comes later, and rows, as ever.
    done(&mut client, "ALTER TABLE t ADD COLUMN w int");
    done(&mut client, "CREATE INDEX ON t (w)");
    done(&mut client, "INSERT INTO t VALUES (1, 'a', 1, 1), (2, 'b', 2, 2), (3, 'c', 3, 3)");
    assert_eq!(client.value("SELECT v FROM t WHERE k = 2").unwrap(), "b");
    // What a shard has dropped already, as after a crash, is made known by the same statement.
    done(&mut fleet.shard(0), "DROP INDEX pair");
    done(&mut client, "DROP INDEX pair");
    assert!(refused(&mut client, "DROP INDEX pair").starts_with("42704"));
    let left = rows(&mut fleet.shard(1), defined);
    assert_eq!(left.len(), 3, "{left:?}");
    done(&mut client, "DROP TABLE t");
    fleet.ashlar.check_log();
}

/// The indexes of a shard that have names like this.
fn indexes_there(fleet: &Fleet, shard: usize, like: &str) -> String {
    let sql = "SELECT coalesce(string_agg(c.relname || CASE WHEN i.indisvalid THEN '' ELSE ' invalid' END, ' ' \
               ORDER BY c.relname), '') FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relname LIKE";
    fleet.shard(shard).value(&format!("{sql} '{like}'")).unwrap()
}

#[test]
fn an_index_is_made_and_dropped_while_others_write() {
    let mut fleet = Fleet::start(2);
    let mut client = fleet.client();
    let by = fleet.by("k");
    let by = format!("{}, shards = '4')", by.strip_suffix(')').unwrap());
    done(&mut client, &format!("CREATE TABLE t (k int, v text, n int) {by}"));
    done(&mut client, "INSERT INTO t SELECT i, 'v' || i, i FROM generate_series(1, 40) AS s(i)");
    let make = "CREATE INDEX CONCURRENTLY by_v ON t (v)";
    assert!(refused(&mut client, &format!("BEGIN; {make}")).starts_with("25001"));
    done(&mut client, "ROLLBACK");
    // A writer is waited for, and others are not held up.
    let mut writer = fleet.client();
    done(&mut writer, "BEGIN");
    done(&mut writer, "UPDATE t SET n = n + 1");
    let mut other = fleet.client();
    let making = std::thread::spawn(move || other.query(make).map(drop).map_err(|error| format!("{error:#}")));
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    assert!(wait_for(PATIENCE, || (0..2).any(|shard| fleet.shard(shard).value(waiting).unwrap() != "0")));
    done(&mut client, "SET statement_timeout = '100s'");
    done(&mut client, "INSERT INTO t SELECT i, 'v' || i, i FROM generate_series(41, 60) AS s(i)");
    done(&mut client, "RESET statement_timeout");
    done(&mut writer, "COMMIT");
    making.join().unwrap().unwrap();
    for (shard, names) in [(0, "by_v_0 by_v_2"), (1, "by_v_1 by_v_3")] {
        assert_eq!(indexes_there(&fleet, shard, "by_v%"), names);
    }
    fleet = fleet.restart();
    let mut client = fleet.client();
    assert!(refused(&mut client, make).starts_with("42P07"));
    done(&mut client, "CREATE INDEX CONCURRENTLY IF NOT EXISTS by_v ON t (n)");
    // Something on one shard has its name, or rows that it cannot have: then none gets it.
    done(&mut fleet.shard(1), "CREATE TABLE pair_3 (i int)");
    let make = "CREATE UNIQUE INDEX CONCURRENTLY pair ON t (k, n)";
    let error = refused(&mut client, make);
    assert!(error.starts_with("42P07") && error.contains("shard s1"), "{error}");
    done(&mut fleet.shard(1), "DROP TABLE pair_3");
    done(&mut fleet.shard(1), "INSERT INTO t_3 SELECT * FROM t_3");
    let error = refused(&mut client, make);
    assert!(error.starts_with("23505") && error.contains("shard s1"), "{error}");
    assert_eq!([0, 1].map(|shard| indexes_there(&fleet, shard, "pair%")), ["", ""]);
    done(&mut client, "CREATE INDEX CONCURRENTLY pair ON t (k, n)");
    assert!(refused(&mut client, "DROP INDEX CONCURRENTLY pair, by_v").starts_with("0A000"));
    // One that a shard has dropped already.
    done(&mut fleet.shard(0), "DROP INDEX by_v_2");
    done(&mut client, "DROP INDEX CONCURRENTLY by_v");
    assert!(refused(&mut client, "DROP INDEX CONCURRENTLY by_v").starts_with("42704"));
    assert_eq!([0, 1].map(|shard| indexes_there(&fleet, shard, "by_v%")), ["", ""]);
    assert_eq!(indexes_there(&fleet, 1, "pair%"), "pair_1 pair_3");
    fleet.ashlar.check_log();
}

#[test]
fn a_key_that_is_added_holds_on_every_shard() {
    let mut fleet = Fleet::start(2);
    let mut client = fleet.client();
    let end = format!(
        "PARTITION BY HASH (k) USING sharded WITH (servers = '{}', algorithm = 'hash_mod', shards = '4')",
        fleet.servers()
    );
    done(&mut client, &format!("CREATE TABLE t (k int, v text, n int) {end}"));
    done(&mut client, "INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 4), (4, 'e', 5)");
    let error = refused(&mut client, "ALTER TABLE t ADD PRIMARY KEY (k)");
    assert!(error.starts_with("23505") && error.contains("shard s"), "{error}");
    done(&mut client, "DELETE FROM t WHERE v = 'e'");
    assert!(refused(&mut client, "ALTER TABLE t ADD UNIQUE (n)").starts_with("0A000"));
    assert!(refused(&mut client, "ALTER TABLE t ADD PRIMARY KEY (n)").starts_with("0A000"));
    done(&mut client, "ALTER TABLE t ADD PRIMARY KEY (k)");
    done(&mut client, "ALTER TABLE t ADD CONSTRAINT twice UNIQUE (n, k)");
    done(&mut client, "CREATE INDEX by_v ON t (v)");
    let nullable = "SELECT is_nullable FROM information_schema.columns WHERE table_name = 't' AND column_name = 'k'";
    for _ in 0..2 {
        assert!(refused(&mut client, "INSERT INTO t VALUES (3, 'again', 9)").starts_with("23505"));
        assert!(refused(&mut client, "ALTER TABLE t ADD PRIMARY KEY (k)").starts_with("42P16"));
        assert_eq!(client.value(nullable).unwrap(), "NO");
        assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "4");
        fleet = fleet.restart();
        client = fleet.client();
    }
    let indexes = "SELECT count(*) FROM pg_indexes WHERE schemaname = 'public'";
    for shard in 0..2 {
        assert_eq!(fleet.shard(shard).value(indexes).unwrap(), "6");
    }
    done(&mut client, "DROP INDEX by_v");
    for shard in 0..2 {
        assert_eq!(fleet.shard(shard).value(indexes).unwrap(), "4");
    }
    fleet.ashlar.check_log();
}

#[test]
fn a_unique_constraint_goes_from_every_shard_whatever_it_is_called_there() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    let servers = fleet.servers();
    let rule = format!("USING sharded WITH (servers = '{servers}', algorithm = 'hash_mod', shards = '4')");
    done(&mut client, &format!("CREATE TABLE t (k int PRIMARY KEY, n int) PARTITION BY HASH (k) {rule}"));
    done(&mut client, "ALTER TABLE t ADD CONSTRAINT twice UNIQUE (n, k)");
    let columns = "(k int PRIMARY KEY, n int, CONSTRAINT made UNIQUE (n, k), UNIQUE (k, n))";
    done(&mut client, &format!("CREATE TABLE u {columns} {}", fleet.by("k")));
    // As whoever keeps a shard has named one, and as a crash would have left another.
    done(&mut fleet.shard(0), "ALTER TABLE u RENAME CONSTRAINT made TO otherwise");
    done(&mut fleet.shard(1), "ALTER TABLE t_1 DROP CONSTRAINT twice_1");
    let insert =
        |table: &str, columns: &str| format!("INSERT INTO {table} VALUES (8, 8) ON CONFLICT ({columns}) DO NOTHING");
    for _ in 0..2 {
        done(&mut client, &insert("u", "n, k"));
    }
    let unique = "SELECT conrelid::regclass::text FROM pg_constraint WHERE contype = 'u' AND connamespace = 'public'::regnamespace ORDER BY 1";
    for (sql, left) in [
        ("ALTER TABLE t DROP CONSTRAINT twice, ADD CHECK (n > 0)", "uu"),
        ("ALTER TABLE t DROP CONSTRAINT IF EXISTS twice", "uu"),
        ("ALTER TABLE u DROP CONSTRAINT made", "u"),
    ] {
        done(&mut client, sql);
        for shard in 0..2 {
            let found = rows(&mut fleet.shard(shard), unique).into_iter().flatten().flatten().collect::<String>();
            assert_eq!(found, left, "{sql}: {shard}");
        }
    }
    // Nobody takes rows for unique by it any more.
    assert!(refused(&mut client, &insert("t", "n, k")).starts_with("42P10"));
    // Of the other one the same columns are left, in whatever order they are named.
    for columns in ["n, k", "k, n"] {
        done(&mut client, &insert("u", columns));
    }
    let fleet = fleet.restart();
    let mut client = fleet.client();
    assert!(refused(&mut client, "ALTER TABLE t DROP CONSTRAINT twice").starts_with("42704"));
    done(&mut client, "ALTER TABLE t ADD CONSTRAINT twice UNIQUE (n, k)");
    done(&mut client, &insert("t", "n, k"));
    fleet.ashlar.check_log();
}

/// The keys of a table of PostgreSQL, without their names.
fn keys_there(client: &mut pg::Connection, table: &str) -> Vec<Vec<Option<String>>> {
    let sql = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE contype IN ('p', 'u') AND conrelid =";
    rows(client, &format!("{sql} '{table}'::regclass ORDER BY 1"))
}

#[test]
fn keys_without_a_name_go_by_that_which_postgresql_gives_them() {
    let fleet = Fleet::start(2);
    let oracle = Postgres::start().unwrap();
    let mut alone = pg::Connection::connect(oracle.address()).unwrap();
    let mut client = fleet.client();
    let create = "CREATE TABLE t (k bigint PRIMARY KEY, n int, v text, UNIQUE (k, n), UNIQUE (k, n, v))";
    let by = fleet.by("k");
    done(&mut alone, create);
    done(&mut client, &format!("{create} {}, shards = '4')", by.strip_suffix(')').unwrap()));
    let nullable = "SELECT column_name, is_nullable FROM information_schema.columns WHERE table_name = 't' ORDER BY 1";
    for (sql, code) in [
        ("INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c'), (4, 4, 'd')", ""),
        ("ALTER TABLE t RENAME v TO w", ""),
        ("ALTER TABLE t DROP CONSTRAINT t_k_n_key", ""),
        ("ALTER TABLE t DROP CONSTRAINT t_k_n_key", "42704"),
        ("ALTER TABLE t DROP CONSTRAINT IF EXISTS t_k_n_key", ""),
        ("INSERT INTO t VALUES (1, 1, 'b')", "23505"),
        ("INSERT INTO t VALUES (1, 2, 'b') ON CONFLICT (k, n) DO NOTHING", "42P10"),
        ("ALTER TABLE t DROP CONSTRAINT t_pkey", ""),
        ("INSERT INTO t VALUES (1, 1, 'b')", ""),
        ("INSERT INTO t VALUES (1, 1, 'a')", "23505"),
        ("INSERT INTO t VALUES (NULL, 1, 'b')", "23502"),
        ("INSERT INTO t VALUES (1, 2, 'b') ON CONFLICT (k) DO NOTHING", "42P10"),
        ("ALTER TABLE t ADD PRIMARY KEY (k)", "23505"),
        ("DELETE FROM t WHERE k = 1 AND w = 'b'", ""),
        ("ALTER TABLE t ADD PRIMARY KEY (k, n)", ""),
        ("INSERT INTO t VALUES (1, 1, 'b')", "23505"),
        (
            "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD COLUMN m int, ADD PRIMARY KEY (k, n), \
             ADD CONSTRAINT own UNIQUE (m, k), ADD CHECK (m > n)",
            "",
        ),
        ("INSERT INTO t VALUES (1, 1, 'b')", "23505"),
        ("UPDATE t SET m = n + 1", ""),
        ("INSERT INTO t VALUES (1, 2, 'b', 2)", "23514"),
        ("INSERT INTO t VALUES (1, 0, 'b', 2)", "23505"),
        ("ALTER TABLE t DROP CONSTRAINT t_pkey, DROP CONSTRAINT t_k_n_v_key", ""),
        ("INSERT INTO t VALUES (1, 1, 'a')", ""),
        ("ALTER TABLE t ALTER k DROP NOT NULL", ""),
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
        let (mut all, mut expected) = (rows(&mut client, "SELECT * FROM t"), rows(&mut alone, "SELECT * FROM t"));
        all.sort();
        expected.sort();
        assert_eq!(all, expected, "{sql}");
        assert_eq!(rows(&mut client, nullable), rows(&mut alone, nullable), "{sql}");
        let expected = keys_there(&mut alone, "t");
        for number in 0..4 {
            assert_eq!(keys_there(&mut fleet.shard(number % 2), &format!("t_{number}")), expected, "{sql}: {number}");
        }
    }
    let fleet = fleet.restart();
    let mut client = fleet.client();
    assert!(refused(&mut client, "ALTER TABLE t DROP CONSTRAINT t_pkey").starts_with("42704"));
    done(&mut client, "INSERT INTO t VALUES (1, 1, 'a')");
    assert_eq!(client.value("SELECT count(*) FROM t WHERE k = 1").unwrap(), "3");
    fleet.ashlar.check_log();
}

#[test]
fn a_primary_key_goes_from_all_shards_or_from_none() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    let columns = "k bigint PRIMARY KEY, n int";
    done(&mut client, &format!("CREATE TABLE t ({columns}) {}", fleet.by("k")));
    done(&mut client, "CREATE TABLE g (k bigint PRIMARY KEY)");
    done(&mut client, "INSERT INTO g VALUES (1), (2)");
    done(&mut client, "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (4, 4)");
    // Somebody else has the table too, and does not hear of what becomes of its key.
    let data = tempfile::Builder::new().prefix("ashlar-data-").tempdir().unwrap();
    let second = start(&format!("[shard]\ndata_dir = \"{}\"\n", data.path().join("d").display()));
    let mut other = second.connect();
    declare(&mut other, fleet.shards.iter().map(Postgres::address));
    let attached = fleet.by("k").replace("servers", "attach = true, servers");
    done(&mut other, &format!("CREATE TABLE t ({columns}) {attached}"));
    done(&mut other, "CREATE TABLE g (k bigint PRIMARY KEY)");
    done(&mut other, "INSERT INTO g VALUES (1), (2)");
    let change = "UPDATE t SET n = t.n + 10 FROM g WHERE g.k = t.k";
    done(&mut client, change);
    done(&mut other, change);

    // Something on one shard needs the key, or has another one.
    let drop = "ALTER TABLE t DROP CONSTRAINT t_pkey";
    let key = vec![vec![Some("PRIMARY KEY (k)".to_owned())]];
    done(&mut fleet.shard(1), "CREATE TABLE mine (k bigint REFERENCES t)");
    let error = refused(&mut client, drop);
    assert!(error.starts_with("2BP01") && error.contains("shard s1"), "{error}");
    let other_key = "ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD CONSTRAINT pair PRIMARY KEY (k, n)";
    done(&mut fleet.shard(1), &format!("DROP TABLE mine; {other_key}"));
    let error = refused(&mut client, drop);
    assert!(error.starts_with("42P16") && error.contains("s1"), "{error}");
    assert_eq!(keys_there(&mut fleet.shard(0), "t"), key);
    done(&mut fleet.shard(1), "ALTER TABLE t DROP CONSTRAINT pair; ALTER TABLE t ADD PRIMARY KEY (k)");
    done(&mut client, change);
    done(&mut client, drop);
    for shard in 0..2 {
        assert!(keys_there(&mut fleet.shard(shard), "t").is_empty(), "{shard}");
    }
    // No row is told from others by it any more.
    assert!(refused(&mut client, change).starts_with("0A000"));
    done(&mut client, "INSERT INTO t VALUES (1, 5)");
    let sum = client.value("SELECT sum(n) FROM t").unwrap();
    let error = refused(&mut other, change);
    assert!(error.starts_with("55000"), "{error}");
    assert_eq!(client.value("SELECT sum(n) FROM t").unwrap(), sum);
    // What a column of a key that is generated is meant for nobody would know without it.
    let by = fleet.by("k");
    let by = format!("{}, key_generator = 'snowflake')", by.strip_suffix(')').unwrap());
    done(&mut client, &format!("CREATE TABLE made ({columns}) {by}"));
    assert!(refused(&mut client, "ALTER TABLE made DROP CONSTRAINT made_pkey").starts_with("22023"));
    done(&mut client, "ALTER TABLE made SET (generated_column = 'k')");
    done(&mut client, "ALTER TABLE made DROP CONSTRAINT made_pkey");
    done(&mut client, "INSERT INTO made (n) VALUES (1), (2)");
    second.check_log();
    fleet.ashlar.check_log();
}

#[test]
fn vacuum_and_analyze_reach_every_shard() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    done(&mut client, "CREATE TABLE g (k bigint PRIMARY KEY)");
    for k in 0..40 {
        done(&mut client, &format!("INSERT INTO t VALUES ({k}, 'v{k}')"));
    }
    let pages = "SELECT reltuples >= 0 FROM pg_class WHERE relname = 't'";
    assert_eq!(fleet.shard(1).value(pages).unwrap(), "f");
    done(&mut client, "ANALYZE t");
    assert_eq!(fleet.shard(0).value(pages).unwrap(), "t");
    assert_eq!(fleet.shard(1).value(pages).unwrap(), "t");
    done(&mut client, "DELETE FROM t WHERE k < 30");
    done(&mut client, "VACUUM (ANALYZE, FREEZE) t");
    let sum = |fleet: &Fleet| -> i64 {
        let tuples = |shard| fleet.shard(shard).value("SELECT reltuples::bigint FROM pg_class WHERE relname = 't'");
        (0..2).map(|shard| tuples(shard).unwrap().parse::<i64>().unwrap()).sum()
    };
    assert_eq!(sum(&fleet), 10);
    assert!(refused(&mut client, "VACUUM t, g").starts_with("0A000"));
    done(&mut client, "BEGIN");
    assert!(refused(&mut client, "VACUUM t").starts_with("25001"));
    done(&mut client, "ROLLBACK");
    done(&mut client, "VACUUM g");
    fleet.ashlar.check_log();
}

#[test]
fn several_tables_are_truncated_and_dropped_together() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    for table in ["a", "b", "c"] {
        done(&mut client, &format!("CREATE TABLE {table} (k bigint PRIMARY KEY) {}", fleet.by("k")));
        done(&mut client, &format!("INSERT INTO {table} VALUES (1), (2), (3), (4), (5)"));
    }
    let count = "SELECT (SELECT count(*) FROM a) + (SELECT count(*) FROM b)";
    done(&mut client, "BEGIN");
    done(&mut client, "TRUNCATE a, b");
    done(&mut client, "INSERT INTO a VALUES (9)");
    done(&mut client, "ROLLBACK");
    assert_eq!(client.value(count).unwrap(), "10");
    done(&mut client, "TRUNCATE a, b");
    assert_eq!(client.value(count).unwrap(), "0");
    done(&mut fleet.shard(1), "CREATE TABLE other (k bigint REFERENCES b)");
    assert!(refused(&mut client, "DROP TABLE a, b").starts_with("2BP01"));
    assert_eq!(client.value(count).unwrap(), "0");
    done(&mut fleet.shard(1), "DROP TABLE other");
    done(&mut client, "DROP TABLE IF EXISTS a, b, nothing");
    assert!(refused(&mut client, "SELECT * FROM a").starts_with("42P01"));
    assert_eq!(fleet.shard(0).value("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").unwrap(), "1");
    assert_eq!(client.value("SELECT count(*) FROM c").unwrap(), "5");
    fleet.ashlar.check_log();
}

#[test]
fn what_a_transaction_says_is_heard_when_its_shards_have_committed() {
    let fleet = Fleet::start(2);
    let (mut client, mut listener) = (fleet.client(), fleet.client());
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    done(&mut listener, "LISTEN changed");
    done(&mut client, "BEGIN");
    for k in 0..8 {
        done(&mut client, &format!("INSERT INTO t VALUES ({k}, 'a')"));
    }
    done(&mut client, "NOTIFY changed, 'all'");
    done(&mut listener, "SELECT 1");
    done(&mut client, "COMMIT");
    let heard = listener.read().unwrap();
    assert_eq!(heard.kind, b'A', "{}", pg::describe(&heard));
    // Whoever has heard of the rows sees them.
    assert_eq!(listener.value("SELECT count(*) FROM t").unwrap(), "8");
    // One that fails to commit has said nothing.
    done(&mut client, "BEGIN");
    done(&mut client, "NOTIFY changed, 'never'");
    assert!(refused(&mut client, "INSERT INTO t VALUES (3, 'again')").starts_with("23505"));
    done(&mut client, "COMMIT");
    done(&mut client, "NOTIFY changed, 'last'");
    let heard = listener.read().unwrap();
    assert!(String::from_utf8_lossy(&heard.body).contains("last"));
    fleet.ashlar.check_log();
}

#[test]
fn what_routes_cost_is_counted() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    for k in 0..10 {
        done(&mut client, &format!("INSERT INTO t VALUES ({k}, 'v{k}')"));
    }
    assert!(refused(&mut client, "INSERT INTO t VALUES (3, 'again')").starts_with("23505"));
    done(&mut client, "SELECT v FROM t WHERE k = 3");
    done(&mut client, "UPDATE t SET v = 'x' WHERE k < 4");
    done(&mut client, "SELECT * FROM t");
    let counted = |client: &mut pg::Connection, route: &str| {
        let sql = format!(
            "SELECT sum(statements), sum(errors), sum(rows) FROM ashlar.routes WHERE tables = 't' AND route = '{route}'"
        );
        rows(client, &sql).remove(0).into_iter().map(|value| value.unwrap().parse::<u64>().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(counted(&mut client, "one shard"), [12, 1, 11]);
    assert_eq!(counted(&mut client, "shards"), [2, 0, 14]);
    assert_eq!(client.value("SELECT bool_and(time_us > 0) FROM ashlar.routes WHERE tables = 't'").unwrap(), "t");
    // The log tells of those that take long, and of no password.
    assert!(!fleet.ashlar.log().contains("took long"));
    done(&mut client, "SET log_min_duration_statement = 0");
    done(&mut client, "CREATE USER MAPPING FOR nobody SERVER s0 OPTIONS (user 'x', password 'open sesame')");
    done(&mut client, "SELECT v FROM t WHERE k = 3");
    done(&mut client, "SELECT count(*), 'of both' FROM t");
    done(&mut client, "SET log_min_duration_statement = -1");
    let told = |what: &str| fleet.ashlar.log().lines().any(|line| line.contains("took long") && line.contains(what));
    assert!(wait_for(PATIENCE, || told("SELECT v FROM t WHERE k = ")), "{}", fleet.ashlar.log());
    assert!(told("one shard") && told("a statement about servers"), "{}", fleet.ashlar.log());
    // And of the servers that they were sent to.
    let line = |what: &str| fleet.ashlar.log().lines().find(|line| line.contains(what)).unwrap().to_owned();
    let (one, both) = (line("SELECT v FROM t WHERE k = "), line("of both"));
    assert!(one.contains("s0") != one.contains("s1"), "{one}");
    assert!(both.contains("s0") && both.contains("s1"), "{both}");
    assert!(!fleet.ashlar.log().contains("sesame"));
    fleet.ashlar.check_log();
}
