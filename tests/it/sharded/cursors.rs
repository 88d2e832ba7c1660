//! Cursors over rows of shards: one shard's, as drivers declare them, and several shards' beside what changes tables meanwhile.

use ashlar_tests::process::{PATIENCE, wait_for};

use super::*;
use crate::comparison::bound;
use crate::http::{get, series};

/// A fleet of two and one PostgreSQL, with the same table in both: key 1 has many rows, which are on one shard.
fn both(columns: &str) -> (Fleet, Postgres, [pg::Connection; 2]) {
    let fleet = Fleet::start(2);
    let oracle = Postgres::start().unwrap();
    let mut alone = pg::Connection::connect(oracle.address()).unwrap();
    let mut client = fleet.client();
    done(&mut alone, &format!("CREATE TABLE t ({columns})"));
    done(&mut client, &format!("CREATE TABLE t ({columns}) {}", fleet.by("k")));
    (fleet, oracle, [alone, client])
}

#[test]
fn a_cursor_of_a_driver_hands_out_the_rows_of_one_shard_in_portions() {
    let (fleet, _oracle, mut clients) = both("k bigint, i int, v text, n numeric(10,2), PRIMARY KEY (k, i)");
    let values: Vec<String> = (0..3000).map(|i| format!("({}, {i}, 'v{i}', {i}.25)", i % 2)).collect();
    let [alone, client] = &mut clients;
    for client in [&mut *alone, &mut *client] {
        done(client, &format!("INSERT INTO t VALUES {}", values.join(", ")));
        done(client, "BEGIN");
        // As psycopg writes it.
        done(client, "DECLARE \"named\" CURSOR WITHOUT HOLD FOR SELECT * FROM t WHERE k = 1 ORDER BY i");
    }
    let mut count = 0;
    loop {
        let [expected, found] =
            [&mut *alone, &mut *client].map(|client| rows(client, "FETCH FORWARD 400 FROM \"named\""));
        assert_eq!(found, expected);
        if found.is_empty() {
            break;
        }
        count += found.len();
        // What is written behind it does not show.
        [&mut *alone, &mut *client].into_iter().for_each(|client| done(client, "UPDATE t SET v = 'late' WHERE k = 1"));
    }
    assert_eq!(count, 1500);
    [alone, client].into_iter().for_each(|client| done(client, "COMMIT"));
    fleet.ashlar.check_log();
}

#[test]
fn a_cursor_over_shards_has_no_parameters_of_its_own() {
    let (fleet, _oracle, clients) = both("k bigint PRIMARY KEY, v text");
    for mut client in clients {
        done(&mut client, "BEGIN");
        let error = refused(&mut client, "DECLARE c CURSOR FOR SELECT * FROM t WHERE k = $1");
        assert!(error.contains("42P02"), "{error}");
    }
    fleet.ashlar.check_log();
}

#[test]
fn a_cursor_reads_times_in_the_zone_of_its_session() {
    let (fleet, _oracle, mut clients) = both("k bigint PRIMARY KEY, moment timestamptz");
    let mut found: Vec<Vec<String>> = Vec::new();
    for client in &mut clients {
        done(client, "INSERT INTO t VALUES (1, '2024-07-01 23:30+00'), (2, '2024-07-01 11:30+00')");
        let mut days = Vec::new();
        for zone in ["UTC", "Europe/Berlin", "America/New_York", "UTC"] {
            done(client, &format!("SET TimeZone = '{zone}'"));
            done(client, "BEGIN");
            // The same text each time: what is kept of it is of one zone.
            for sql in
                ["SELECT moment::date, moment FROM t WHERE k = 1", "SELECT moment::date, moment FROM t ORDER BY k"]
            {
                done(client, &format!("DECLARE c CURSOR FOR {sql}"));
                days.extend(rows(client, "FETCH ALL FROM c").into_iter().flatten().flatten());
                done(client, "CLOSE c");
            }
            done(client, "COMMIT");
        }
        found.push(days);
    }
    assert_eq!(found[1], found[0]);
    fleet.ashlar.check_log();
}

#[test]
fn a_cursor_shows_what_was_there_when_it_was_declared_though_it_begins_to_read_later() {
    // Each cursor has some of the connections.
    let fleet = Fleet::with(2, "connections_per_server_max = 1000");
    let (mut client, mut other) = (fleet.client(), fleet.client());
    for table in ["t", "l"] {
        done(&mut client, &format!("CREATE TABLE {table} (k bigint PRIMARY KEY, v bigint) {}", fleet.by("k")));
        done(&mut client, &format!("INSERT INTO {table} SELECT i, i FROM generate_series(1, 20) AS s(i)"));
    }
    for reads in ["each", "snapshot"] {
        done(&mut client, &format!("SET sharded_reads = '{reads}'"));
        done(&mut other, "TRUNCATE t");
        done(&mut other, "INSERT INTO t SELECT i, i FROM generate_series(1, 20) AS s(i)");
        // Who reads that table first waits for it, and for whatever it reads then it has not begun.
        let mut lockers = [fleet.shard(0), fleet.shard(1)];
        for locker in &mut lockers {
            done(locker, "BEGIN");
            done(locker, "LOCK TABLE l");
        }
        done(&mut client, "BEGIN");
        let cursors = [
            ("c", "SELECT sum(v) FROM t WHERE v > (SELECT count(*) FROM l WHERE v > 15)", "195"),
            ("d", "SELECT count(*), sum(t.v) FROM l JOIN t ON t.v = l.v", "20,210"),
            ("e", "SELECT count(*) FROM t a JOIN l ON l.k = a.k JOIN t b ON b.v = a.v", "20"),
            (
                "f",
                "SELECT a.v, (SELECT b.v FROM t b WHERE b.v > a.v ORDER BY b.v LIMIT 1) FROM l a WHERE a.k = 7",
                "7,8",
            ),
        ];
        for (name, query, _) in cursors {
            done(&mut client, &format!("DECLARE {name} CURSOR FOR {query}"));
        }
        done(&mut other, "UPDATE t SET v = v + 1000");
        done(&mut other, "DELETE FROM t WHERE k % 3 = 0");
        lockers.iter_mut().for_each(|locker| done(locker, "ROLLBACK"));
        for (name, query, expected) in cursors {
            let found = rows(&mut client, &format!("FETCH ALL FROM {name}"));
            let found: Vec<String> = found.into_iter().flatten().flatten().collect();
            assert_eq!(found.join(","), expected, "{reads}: {query}");
        }
        // Nor does it show what its own transaction writes behind it.
        done(&mut client, "DECLARE g CURSOR FOR SELECT count(*) FROM t");
        if reads == "each" {
            done(&mut client, "DELETE FROM t");
        }
        assert_eq!(rows(&mut client, "FETCH ALL FROM g"), [[Some("14".to_owned())]]);
        done(&mut client, "ROLLBACK");
    }
    // Nobody keeps a snapshot any more.
    let kept = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'";
    for shard in 0..2 {
        assert!(wait_for(PATIENCE, || fleet.shard(shard).value(kept).unwrap() == "0"));
    }
    fleet.ashlar.check_log();
}

#[test]
fn truncate_does_not_wait_for_a_cursor_of_its_own_block() {
    // More than is on its way from a shard to a cursor that nobody fetches from.
    const ROWS: i64 = 200_000;
    let (fleet, oracle, mut clients) = both("k bigint PRIMARY KEY, v text");
    done(&mut clients[0], "CREATE TABLE u (k bigint PRIMARY KEY)");
    done(&mut clients[1], &format!("CREATE TABLE u (k bigint PRIMARY KEY) {}", fleet.by("k")));
    // Where a row lies does not matter to who reads all of them.
    let filling = |first: i64| {
        format!("INSERT INTO t SELECT i, repeat('x', 200) FROM generate_series({first}, {}, 2) AS g(i)", ROWS - 1)
    };
    let mut direct = pg::Connection::connect(oracle.address()).unwrap();
    for first in 0..2 {
        done(&mut direct, &filling(first));
        done(&mut fleet.shard(first as usize), &filling(first));
    }
    let mut told: Vec<Vec<String>> = Vec::new();
    for client in &mut clients {
        done(client, "SET statement_timeout = '100s'");
        done(client, "BEGIN");
        done(client, "UPDATE t SET v = 'y' WHERE k = 1");
        done(client, "DECLARE c CURSOR FOR SELECT * FROM t");
        done(client, "FETCH 1 FROM c");
        done(client, "SAVEPOINT s");
        let mut errors = vec![refused(client, "TRUNCATE t")];
        done(client, "ROLLBACK TO s");
        errors.push(refused(client, "TRUNCATE u, t"));
        done(client, "ROLLBACK TO s");
        done(client, "TRUNCATE u");
        done(client, "CLOSE c");
        // One that has come to its end is still there.
        done(client, "DECLARE c CURSOR FOR SELECT count(*) FROM t WHERE k = 1");
        done(client, "FETCH ALL FROM c");
        done(client, "SAVEPOINT s");
        errors.push(refused(client, "TRUNCATE t"));
        done(client, "ROLLBACK TO s");
        done(client, "CLOSE c");
        done(client, "TRUNCATE t");
        assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "0");
        done(client, "ROLLBACK");
        assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), ROWS.to_string());
        told.push(errors);
    }
    assert!(told[0].iter().all(|error| error.starts_with("55006")), "{told:?}");
    assert_eq!(told[1], told[0]);
    fleet.ashlar.check_log();
}

#[test]
fn a_cursor_over_a_join_that_goes_to_files_reads_its_shards_again() {
    let fleet = Fleet::with(2, "[query]\nthreads = 2\nbatch_rows = 64");
    let (mut client, mut other) = (fleet.client(), fleet.client());
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    done(&mut client, "CREATE TABLE g (k bigint PRIMARY KEY, v text)");
    for (table, rows, times) in [("t", 500, 1), ("g", 1000, 16)] {
        let text = format!("repeat(md5(i::text), {times})");
        done(&mut client, &format!("INSERT INTO {table} SELECT i, {text} FROM generate_series(1, {rows}) AS s(i)"));
    }
    let written = || {
        let page = get(fleet.ashlar.http(), "/metrics").1;
        series(&page, r#"ashlar_query_spill_written_bytes_total{to="files"}"#).unwrap()
    };
    // What the join keeps is far more than what the shards send.
    let kept = "SELECT k, repeat(v, 256) AS w FROM t";
    let query = format!("SELECT count(a.w), count(b.v) FROM ({kept}) AS a JOIN g AS b ON a.k <= b.k AND a.k >= b.k");
    done(&mut client, "SET query_memory_max = '2MB'");
    let before = written();
    done(&mut client, "BEGIN");
    done(&mut client, &format!("DECLARE c CURSOR FOR {query}"));
    done(&mut other, "DELETE FROM t WHERE k > 100");
    let expected = vec![Some("500".to_owned()); 2];
    assert_eq!(rows(&mut client, "FETCH ALL FROM c"), [expected]);
    assert!(written() > before, "it has not gone to files");
    done(&mut client, "COMMIT");
    fleet.ashlar.check_log();
}

#[test]
fn cursors_that_read_a_shard_more_than_once_leave_connections_to_others() {
    // Queries may have eight of these, and half of them keep snapshots, or read these behind cursors.
    let fleet = Fleet::with(2, "connections_per_server_max = 16\n[server]\ncores = 1");
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v bigint) {}", fleet.by("k")));
    // More than waits for a FETCH: what is read to its end needs no connection any more.
    done(&mut client, "INSERT INTO t SELECT i, i FROM generate_series(1, 200000) AS s(i)");
    // One connection to each shard keeps what it sees, and two read it.
    let join = "SELECT a.v FROM t a JOIN t b ON b.v = a.v";
    let begin = |holder: &mut pg::Connection, query: &str| {
        done(holder, "BEGIN");
        holder.query(&format!("DECLARE c CURSOR FOR {query}"))?;
        holder.query("FETCH 1 FROM c")
    };
    let mut open: Vec<pg::Connection> = Vec::new();
    let error = loop {
        let mut holder = fleet.client();
        match begin(&mut holder, join) {
            Ok(found) => assert_eq!(found.len(), 1),
            Err(error) => break format!("{error:#}"),
        }
        open.push(holder);
    };
    assert!(error.contains("53300"), "{error}");
    assert_eq!(open.len(), 1);
    // Whoever has begun goes on, and whatever is read at once is read.
    assert_eq!(open[0].query("FETCH ALL FROM c").unwrap().len(), 199_999);
    assert_eq!(client.value(&format!("SELECT count(*) FROM ({join}) AS j")).unwrap(), "200000");
    done(&mut open[0], "COMMIT");
    // More than may be counted: nobody else has a cursor meanwhile.
    let often = ["SELECT v FROM t"; 5].join(" UNION ALL ");
    let mut often_read = Vec::new();
    assert!(wait_for(PATIENCE, || {
        let has_begun = begin(&mut client, &often).is_ok();
        if has_begun {
            assert!(begin(&mut open[0], join).is_err());
            done(&mut open[0], "ROLLBACK");
            often_read = rows(&mut client, "FETCH ALL FROM c");
        }
        done(&mut client, "ROLLBACK");
        has_begun
    }));
    assert_eq!(often_read.len(), 999_999);
    fleet.ashlar.check_log();
}

#[test]
fn a_cursor_takes_the_parameters_of_its_declaration() {
    let (fleet, _oracle, mut clients) = both("k bigint PRIMARY KEY, v text, n numeric(10,2)");
    let values: Vec<String> = (1..=20).map(|k| format!("({k}, 'v{k}', {k}.25)")).collect();
    let home = "CREATE TABLE g (k bigint PRIMARY KEY, v text, n numeric(10,2))";
    for client in &mut clients {
        done(client, home);
        for table in ["t", "g"] {
            done(client, &format!("INSERT INTO {table} VALUES {}", values.join(", ")));
        }
    }
    // As psycopg sends it: several shards, one shard, an index, and no row.
    let queries: &[(&str, &[&str])] = &[
        ("k > $1 AND v <> $2 ORDER BY k", &["15", "v17"]),
        ("k = $1", &["3"]),
        ("n BETWEEN $1 AND $2 + 2 ORDER BY n DESC", &["3.5", "7"]),
        ("k = $1", &["1000"]),
    ];
    for table in ["t", "g"] {
        for (condition, parameters) in queries {
            let sql = format!("DECLARE c CURSOR FOR SELECT k, v FROM {table} WHERE {condition}");
            let [expected, found] = clients.each_mut().map(|client| {
                done(client, "BEGIN");
                let told = bound(client, &sql, parameters);
                let fetched = told.is_ok().then(|| [rows(client, "FETCH 2 FROM c"), rows(client, "FETCH ALL FROM c")]);
                done(client, "ROLLBACK");
                (told, fetched)
            });
            assert_eq!(found, expected, "{sql}");
        }
        // A string of statements has none.
        let told = clients.each_mut().map(|client| {
            done(client, "BEGIN");
            let error = refused(client, &format!("DECLARE c CURSOR FOR SELECT k FROM {table} WHERE k = $1"));
            done(client, "ROLLBACK");
            error
        });
        assert!(told.iter().all(|error| error.starts_with("42P02")), "{told:?}");
    }
    fleet.ashlar.check_log();
}
