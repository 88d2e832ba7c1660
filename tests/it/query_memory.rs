//! What queries may take of a server: memory of their own, files for the rest, and a turn each.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use ashlar_tests::disk::SmallDisk;
use ashlar_tests::pg::{self, Connection, Message};
use ashlar_tests::process::wait_for;
use ashlar_tests::tools::skipped;
use ashlar_tests::{Ashlar, Options};

use crate::http::{get, series};

/// How long something that is bound to happen may take.
const SOON: Duration = Duration::from_secs(120);

/// A query that runs until somebody ends it.
const ENDLESS: &str = "SELECT count(*) FROM many a, many b, many c, many d";

/// A query that keeps much, and goes to files where it may not.
const GROUPS: &str = "SELECT t, count(*) FROM many GROUP BY t";

/// Another one, which keeps the same.
const JOIN: &str = "SELECT a.id, b.t FROM many a JOIN many b ON a.t = b.t";

/// A server with this in its section `[query]`, and a table of many rows.
fn start(query: &str) -> Ashlar {
    start_with(query, 20_000)
}

fn start_with(query: &str, rows: usize) -> Ashlar {
    let config = format!("[query]\n{query}\n");
    let server = Ashlar::start(Options { config, ..Options::default() }).unwrap();
    fill(&server, "many", rows);
    server
}

fn fill(server: &Ashlar, table: &str, rows: usize) {
    let mut connection = server.connect();
    connection.query(&format!("CREATE TABLE {table} (id integer PRIMARY KEY, n integer, t text)")).unwrap();
    let text = "repeat(md5(i::text), 4)";
    let sql = format!("INSERT INTO {table} SELECT i, i % 7, {text} FROM generate_series(1, {rows}) AS g(i)");
    connection.query(&sql).unwrap();
}

fn send(connection: &mut Connection, sql: &str) {
    connection.send(&pg::message(b'Q', &[sql.as_bytes(), b"\0"])).unwrap();
}

/// What a statement ends with.
fn end(connection: &mut Connection) -> Message {
    loop {
        let message = connection.read().unwrap();
        if b"CE".contains(&message.kind) {
            assert_eq!(connection.read().unwrap().kind, b'Z');
            return message;
        }
    }
}

/// The code and the hint of an error.
fn error(connection: &mut Connection) -> (String, String) {
    let message = end(connection);
    let field = |name| message.field(name).unwrap_or_default();
    assert_eq!(message.kind, b'E', "{}", pg::describe(&message));
    (field(b'C'), field(b'H'))
}

/// Queries that run and that wait.
fn queries(server: &Ashlar) -> (u64, u64) {
    let page = get(server.http(), "/metrics").1;
    let count = |state| series(&page, &format!("ashlar_query_queries{{state=\"{state}\"}}")).unwrap() as u64;
    (count("running"), count("waiting"))
}

fn becomes(server: &Ashlar, expected: (u64, u64)) {
    assert!(wait_for(SOON, || queries(server) == expected), "{:?} and not {expected:?}", queries(server));
}

/// The value of a series of `/metrics`.
fn metric(server: &Ashlar, name: &str) -> f64 {
    let page = get(server.http(), "/metrics").1;
    series(&page, name).unwrap_or_else(|| panic!("{name}: {page}"))
}

/// Cancels what a connection runs.
fn cancel(address: SocketAddr, connection: &mut Connection) {
    pg::cancel(address, &connection.key).unwrap();
    assert_eq!(error(connection).0, "57014");
}

/// Files beneath a directory, with their sizes; none of locks.
fn files(dir: &Path) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if let Ok(metadata) = path.metadata()
            && path.file_name().is_some_and(|name| name != "lock")
        {
            found.push((path.display().to_string(), metadata.len()));
        }
    }
    found
}

/// Folders of processes.
fn folders(dir: &Path) -> usize {
    std::fs::read_dir(dir).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir()).count()
}

/// The first rows of a query whose cursor stays open, in a transaction of its own.
fn begun(connection: &mut Connection, query: &str) -> Vec<Vec<Option<String>>> {
    connection.query("BEGIN").unwrap();
    connection.query(&format!("DECLARE c CURSOR FOR {query}")).unwrap();
    connection.query("FETCH 10 FROM c").unwrap()
}

/// The groups of [`GROUPS`] are those that a cursor has given, and gives yet.
fn has_all_groups(connection: &mut Connection, mut rows: Vec<Vec<Option<String>>>) {
    rows.extend(connection.query("FETCH ALL FROM c").unwrap());
    let mut expected = connection.query("SELECT t, 1 FROM many").unwrap();
    rows.sort();
    expected.sort();
    assert_eq!(rows.len(), 20_000);
    assert!(rows == expected, "the cursor has other rows");
    connection.query("COMMIT").unwrap();
}

#[test]
fn a_query_has_no_more_memory_than_it_may() {
    let server = start("query_memory_mib_max = 1");
    let mut sql = server.connect();
    assert_eq!(sql.value("SHOW query_memory_max").unwrap(), "1MB");
    // Groups go through files; the answer is the same.
    let groups = format!("SELECT count(*) FROM ({GROUPS}) AS g");
    let written = metric(&server, r#"ashlar_query_spill_written_bytes_total{to="files"}"#);
    assert_eq!(sql.value(&groups).unwrap(), "20000");
    assert!(metric(&server, r#"ashlar_query_spill_written_bytes_total{to="files"}"#) > written);
    // Files go with the operators, which may be a moment after the answer.
    let used = || metric(&server, r#"ashlar_query_spill_bytes{kind="used"}"#);
    assert!(wait_for(SOON, || used() == 0.0), "{} bytes of files are left", used());
    // Which is told of the operator.
    let analysed = sql.query(&format!("EXPLAIN (ANALYZE) {groups}")).unwrap();
    let mut analysed = analysed.into_iter().map(|row| row[0].clone().unwrap_or_default());
    let line = analysed.find(|line| line.contains("HashAggregateExec") && line.contains("spill_levels=")).unwrap();
    assert!(!line.contains("spill_levels=0"), "{line}");
    // What cannot is refused, with the setting that would help.
    send(&mut sql, "SELECT array_agg(t) FROM many");
    let (code, hint) = error(&mut sql);
    assert_eq!((code.as_str(), hint.contains("query_memory_max")), ("53200", true), "{hint}");
    // And it helps: the limit is the session's, the transaction's, or none.
    sql.query("ANALYZE many").unwrap();
    sql.query("BEGIN").unwrap();
    sql.query("SET LOCAL query_memory_max = '256MB'").unwrap();
    let analysed = sql.query(&format!("EXPLAIN (ANALYZE, MEMORY) {groups}")).unwrap();
    sql.query("ROLLBACK").unwrap();
    let plan: Vec<String> = analysed.into_iter().map(|row| row[0].clone().unwrap_or_default()).collect();
    let kilobytes = |line: &str, before: &str| -> u64 {
        let rest = line.split_once(before).unwrap_or_else(|| panic!("{plan:#?}")).1;
        rest.split(' ').next().unwrap().parse().unwrap()
    };
    // Twenty thousand texts of 128 bytes, and the aggregate alone has them: the one above has nothing to keep.
    let line = |what: &str| plan.iter().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{plan:#?}"));
    let (of_groups, of_all) =
        (kilobytes(line("HashAggregateExec"), "memory=[peak="), kilobytes(line("Peak Memory"), ": "));
    assert!((2500..50_000).contains(&of_groups), "{plan:#?}");
    let expected = kilobytes(line("HashAggregateExec"), "estimate=");
    assert!((2500..4000).contains(&expected), "{plan:#?}");
    assert!(of_all >= of_groups && of_all < 2 * of_groups, "{plan:#?}");
    assert_eq!(kilobytes(line("GridScanExec"), "memory=[peak="), 0, "{plan:#?}");
    drop(sql);
    server.stop();
}

#[test]
fn joins_by_other_conditions_give_from_files_what_they_give_from_memory() {
    // The left side has more than a query may keep, and the right side, which is larger yet, comes in two streams.
    let server = start("query_memory_mib_max = 1\nthreads = 2\nbatch_rows = 64");
    let mut sql = server.connect();
    for (table, rows) in [("few", 50), ("more", 100)] {
        sql.query(&format!("CREATE TABLE {table} (id integer PRIMARY KEY, t text)")).unwrap();
        let text = "repeat(md5(i::text), 1024)";
        sql.query(&format!("INSERT INTO {table} SELECT i, {text} FROM generate_series(1, {rows}) AS g(i)")).unwrap();
    }
    let written = || metric(&server, r#"ashlar_query_spill_written_bytes_total{to="files"}"#);
    let exists = |condition: &str| format!("EXISTS (SELECT 1 FROM more AS b WHERE {condition})");
    let (same, most) = ("starts_with(a.t, b.t)", "a.t < b.t || 'z'");
    // Rows with one match, with several in both streams, and with none that is missed.
    for (join_type, query, expected) in [
        ("Left", format!("SELECT count(*) FROM few AS a LEFT JOIN more AS b ON {same}"), "50"),
        ("LeftSemi", format!("SELECT count(*) FROM few AS a WHERE {}", exists(most)), "50"),
        ("LeftAnti", format!("SELECT count(*) FROM few AS a WHERE NOT {}", exists(same)), "0"),
    ] {
        let plan = sql.query(&format!("EXPLAIN {query}")).unwrap();
        let plan: Vec<String> = plan.into_iter().map(|row| row[0].clone().unwrap_or_default()).collect();
        let join = format!("NestedLoopJoinExec: join_type={join_type},");
        let line = |what: &str| plan.iter().position(|line| line.contains(what)).unwrap_or_else(|| panic!("{plan:#?}"));
        assert!(line(&join) < line("table=few") && line("table=few") < line("table=more"), "{plan:#?}");
        let before = written();
        assert_eq!(sql.value(&query).unwrap(), expected, "{query}: {plan:#?}");
        assert!(written() > before, "{query} has not gone to files");
    }
    send(&mut sql, &format!("DELETE FROM few AS a WHERE NOT {}", exists(same)));
    assert_eq!(end(&mut sql).kind, b'C');
    assert_eq!(sql.value("SELECT count(*) FROM few").unwrap(), "50");
    // Groups are not made twice.
    send(&mut sql, &format!("SELECT count(*) FROM ({GROUPS}) AS a JOIN ({GROUPS}) AS b ON {same}"));
    let (code, hint) = error(&mut sql);
    assert_eq!((code.as_str(), hint.contains("query_memory_max")), ("53200", true), "{hint}");
    drop(sql);
    server.stop();
}

#[test]
fn files_have_a_limit_and_only_who_reaches_it_fails() {
    let server = start("query_memory_mib_max = 1\nspill_mib_max = 1");
    let mut sql = server.connect();
    let groups = format!("SELECT count(*) FROM ({GROUPS}) AS g");
    send(&mut sql, &groups);
    let (code, hint) = error(&mut sql);
    assert_eq!((code.as_str(), hint.contains("query.spill_mib_max")), ("53100", true), "{hint}");
    // What it wrote is gone with it.
    let given_back = wait_for(SOON, || metric(&server, r#"ashlar_query_spill_bytes{kind="used"}"#) == 0.0);
    assert!(given_back, "files are left");
    assert_eq!(metric(&server, r#"ashlar_query_spill_bytes{kind="max"}"#), f64::from(1 << 20));
    sql.query("SET query_memory_max = 0").unwrap();
    assert_eq!(sql.value(&groups).unwrap(), "20000");
    drop(sql);
    server.stop();
}

#[test]
fn a_reached_limit_fails_one_query_and_no_other() {
    let server = start("query_memory_mib_max = 1\nspill_mib_max = 16");
    // Their texts alone are more than all files may take.
    fill(&server, "more", 150_000);
    let used = || metric(&server, r#"ashlar_query_spill_bytes{kind="used"}"#);
    let (mut reader, mut other) = (server.connect(), server.connect());
    let rows = begun(&mut reader, GROUPS);
    assert!(wait_for(SOON, || used() > 0.0), "the cursor has no files");
    send(&mut other, "SELECT count(*) FROM (SELECT t, count(*) FROM more GROUP BY t) AS g");
    let (code, hint) = error(&mut other);
    assert_eq!((code.as_str(), hint.contains("query.spill_mib_max")), ("53100", true), "{hint}");
    // What it had is free, perhaps a moment after it was told so: one more that goes to files has room for them, beside those of the
    // cursor, which has some three mebibytes.
    assert!(wait_for(SOON, || used() < f64::from(8 << 20)), "{} bytes are kept", used());
    assert!(used() > 0.0, "the cursor has no files any more");
    assert_eq!(other.value(&format!("SELECT count(*) FROM ({GROUPS}) AS g")).unwrap(), "20000");
    has_all_groups(&mut reader, rows);
    assert!(wait_for(SOON, || used() == 0.0), "files are left");
    drop((reader, other));
    server.stop();
}

#[test]
fn a_full_disk_fails_one_query_and_no_other() {
    let disk = match SmallDisk::mount(16) {
        Ok(disk) => disk,
        Err(error) => return skipped(&format!("{error:#}")),
    };
    let server = start(&format!("query_memory_mib_max = 1\nspill_dir = \"{}\"", disk.path().display()));
    // Their texts alone are more than the disk has room for.
    fill(&server, "more", 150_000);
    let used = || metric(&server, r#"ashlar_query_spill_bytes{kind="used"}"#);
    let (mut reader, mut other) = (server.connect(), server.connect());
    let rows = begun(&mut reader, GROUPS);
    assert!(wait_for(SOON, || used() > 0.0), "the cursor has no files");
    let groups = format!("SELECT count(*) FROM ({GROUPS}) AS g");
    let fails = |connection: &mut Connection, sql: &str| {
        send(connection, sql);
        // It is the disk, and not what the configuration allows.
        let (code, hint) = error(connection);
        assert_eq!((code.as_str(), hint.contains("query.spill_mib_max")), ("53100", false), "{sql}: {hint}");
    };
    // Whoever fills it himself, in either way: what he had is free again. The cursor has some three mebibytes.
    for sql in [
        "SELECT count(*) FROM (SELECT t, count(*) FROM more GROUP BY t) AS g",
        "SELECT count(*) FROM (SELECT a.id, b.t FROM more AS a JOIN more AS b ON a.t = b.t) AS g",
    ] {
        fails(&mut other, sql);
        assert!(wait_for(SOON, || used() < f64::from(8 << 20)), "{} bytes are kept after {sql}", used());
        assert_eq!(other.value(&groups).unwrap(), "20000", "after {sql}");
    }
    // Whoever finds it full; and who needs no files goes on meanwhile.
    disk.fill().unwrap();
    fails(&mut other, &groups);
    assert_eq!(other.value("SELECT count(*) FROM (SELECT n FROM many GROUP BY n) AS g").unwrap(), "7");
    disk.free().unwrap();
    assert_eq!(other.value(&groups).unwrap(), "20000");
    // The cursor has had its files all the time.
    has_all_groups(&mut reader, rows);
    let is_empty = || used() == 0.0 && files(disk.path()).is_empty();
    assert!(wait_for(SOON, is_empty), "{:?} are left", files(disk.path()));
    drop((reader, other));
    server.stop();
    assert_eq!(folders(disk.path()), 0);
}

#[test]
fn what_a_killed_server_has_spilled_is_removed_by_the_next() {
    let dir = tempfile::Builder::new().prefix("ashlar-spilled-").tempdir().unwrap();
    // Few rows a batch: what waits for a client is little.
    let query = format!("query_memory_mib_max = 1\nbatch_rows = 500\nspill_dir = \"{}\"", dir.path().display());
    let other = start(&query);
    for spilled in [GROUPS, JOIN] {
        let mut killed = start(&query);
        assert_eq!(folders(dir.path()), 2);
        // It goes to files, and then its client does not read: the files stay until it does.
        let mut sql = killed.connect();
        assert_eq!(begun(&mut sql, spilled).len(), 10);
        let is_written = wait_for(SOON, || files(dir.path()).iter().any(|(_, bytes)| *bytes > 10_000));
        assert!(is_written, "nothing was written by {spilled}: {:?}", files(dir.path()));
        killed.signal("KILL").unwrap();
        assert!(!killed.wait().unwrap().success());
        assert!(!files(dir.path()).is_empty(), "files went with the process");

        let next = start(&query);
        assert_eq!(files(dir.path()), Vec::new());
        // That of the one who lives, and its own.
        assert_eq!(folders(dir.path()), 2);
        let count = format!("SELECT count(*) FROM ({spilled}) AS g");
        assert_eq!(next.connect().value(&count).unwrap(), "20000");
        assert_eq!(other.connect().value(&count).unwrap(), "20000");
        next.stop();
        assert_eq!(folders(dir.path()), 1);
    }
    other.stop();
    assert_eq!(folders(dir.path()), 0);
}

#[test]
fn operators_go_to_files_where_the_server_has_no_more_memory() {
    // No query has a limit of its own. The groups are 24 MiB of texts, and the join keeps as many.
    let (most, rows) = (16, 200_000);
    let server = start_with(&format!("memory_mib_max = {most}\nbatch_rows = 500"), rows);
    let mut sql = server.connect();
    let written = || metric(&server, r#"ashlar_query_spill_written_bytes_total{to="files"}"#);
    for query in [GROUPS, JOIN] {
        let before = written();
        let count = format!("SELECT count(*), sum(length(t)) FROM ({query}) AS g");
        let sums = sql.query(&count).unwrap();
        assert_eq!(sums, [[Some(rows.to_string()), Some((128 * rows).to_string())]], "{query}");
        assert!(written() > before, "{query} was in memory");
    }
    // One that has begun keeps what it has, and another has what is left.
    let mut reader = server.connect();
    assert_eq!(begun(&mut reader, GROUPS).len(), 10);
    assert_eq!(sql.value(&format!("SELECT count(*) FROM ({GROUPS}) AS g")).unwrap(), rows.to_string());
    assert_eq!(reader.query("FETCH ALL FROM c").unwrap().len(), rows - 10);
    reader.query("COMMIT").unwrap();
    let used = || metric(&server, r#"ashlar_query_spill_bytes{kind="used"}"#);
    assert!(wait_for(SOON, || used() == 0.0), "{} bytes of files are left", used());
    drop((sql, reader));
    server.stop();
}

#[test]
fn a_server_that_is_killed_while_it_writes_files_leaves_none_to_the_next() {
    let dir = tempfile::Builder::new().prefix("ashlar-spilling-").tempdir().unwrap();
    let query = format!("query_memory_mib_max = 1\nbatch_rows = 500\nspill_dir = \"{}\"", dir.path().display());
    for spilled in [GROUPS, JOIN] {
        let count = format!("SELECT count(*) FROM ({spilled}) AS g");
        let is_caught = || {
            let mut killed = start_with(&query, 200_000);
            let mut sql = killed.connect();
            // One after the other, so that it is seldom that none writes.
            send(&mut sql, &format!("{count}; ").repeat(50));
            // It is in the middle of them: what such a query writes in all is many times as much.
            let is_written = wait_for(SOON, || files(dir.path()).iter().map(|(_, bytes)| bytes).sum::<u64>() > 1 << 20);
            assert!(is_written, "nothing was written by {spilled}");
            killed.signal("KILL").unwrap();
            assert!(!killed.wait().unwrap().success());
            let is_caught = !files(dir.path()).is_empty();
            let next = start(&query);
            assert_eq!(files(dir.path()), Vec::new());
            assert_eq!(next.connect().value(&count).unwrap(), "20000");
            next.stop();
            is_caught
        };
        assert!((0..5).any(|_| is_caught()), "files always go with the process");
    }
    assert_eq!(folders(dir.path()), 0);
}

#[test]
fn who_finds_no_room_beside_another_query_is_told_what_would_help() {
    // One stream, and few rows a batch: a cursor that has begun has all that it keeps, until it is read to its end. The engine's join cannot go
    // to files.
    let (query, rows, stock) = ("threads = 1\nbatch_rows = 500", 100_000, "SET join_operators = 'stock'");
    let alone = start_with(query, rows);
    let mut sql = alone.connect();
    sql.query(stock).unwrap();
    let plan = sql.query(&format!("EXPLAIN (ANALYZE) {JOIN}")).unwrap();
    let peak = plan.iter().find_map(|row| row[0].as_ref()?.trim().strip_prefix("Peak Memory: ")?.strip_suffix(" kB"));
    let peak: u64 = peak.unwrap_or_else(|| panic!("{plan:#?}")).parse().unwrap();
    drop(sql);
    alone.stop();

    // Room for one of them and a half.
    let most = (3 * peak / 2).div_ceil(1024);
    assert!(most >= 16 && 1024 * most < 2 * peak - peak / 10, "a limit of {most} MiB, and {peak} kB are needed");
    let server = start_with(&format!("{query}\nmemory_mib_max = {most}"), rows);
    let (mut reader, mut other) = (server.connect(), server.connect());
    reader.query(stock).unwrap();
    other.query(stock).unwrap();
    reader.query("BEGIN").unwrap();
    reader.query(&format!("DECLARE c CURSOR FOR {JOIN}")).unwrap();
    assert_eq!(reader.query("FETCH 10 FROM c").unwrap().len(), 10);
    send(&mut other, JOIN);
    let (code, hint) = error(&mut other);
    assert_eq!((code.as_str(), hint.contains("query.memory_mib_max")), ("53200", true), "{hint}");
    // The one who was there goes on, and when it has ended there is room: as soon as its operators are gone.
    assert_eq!(reader.query("FETCH ALL FROM c").unwrap().len(), rows - 10);
    reader.query("COMMIT").unwrap();
    let mut told = String::new();
    let has_room = wait_for(SOON, || match other.query(JOIN) {
        Ok(found) => {
            assert_eq!(found.len(), rows);
            true
        }
        Err(error) => {
            told = error.to_string();
            assert!(told.starts_with("53200"), "{told}");
            false
        }
    });
    assert!(has_room, "{told}");
    drop((reader, other));
    server.stop();
}

#[test]
fn queries_wait_for_their_turn_and_those_by_key_do_not() {
    let server = start("queries_max = 2\nqueries_waiting_max = 2\nquery_wait_max_ms = 600000");
    let mut running: Vec<Connection> = (0..2).map(|_| server.connect()).collect();
    running.iter_mut().for_each(|connection| send(connection, ENDLESS));
    becomes(&server, (2, 0));
    let mut waiting: Vec<Connection> = (0..2).map(|_| server.connect()).collect();
    // One of each way there is: a query, and a statement that writes.
    send(&mut waiting[0], "SELECT sum(n) FROM many");
    becomes(&server, (2, 1));
    // An answer before it that is never read to its end: who leaves with such is seen to be gone, and not only silent. It reads
    // no table, and waits for nobody.
    send(&mut waiting[1], "SELECT repeat('x', 200000)");
    assert_eq!(waiting[1].read().unwrap().kind, b'T');
    send(&mut waiting[1], "UPDATE many SET n = n + 1 WHERE n + 1 = 3");
    becomes(&server, (2, 2));
    // One more is refused; what needs no turn has none to wait for.
    let mut other = server.connect();
    send(&mut other, "SELECT sum(n) FROM many");
    let (code, hint) = error(&mut other);
    assert_eq!((code.as_str(), hint.contains("query.queries_waiting_max")), ("53300", true), "{hint}");
    assert_eq!(other.value("SELECT n FROM many WHERE id = 8").unwrap(), "1");
    other.query("UPDATE many SET n = n WHERE id = 8").unwrap();
    other.query("EXPLAIN SELECT sum(n) FROM many").unwrap();
    // Who is cancelled or gone leaves the queue, whichever way it went there.
    cancel(server.pg(), &mut waiting[0]);
    becomes(&server, (2, 1));
    drop(waiting.pop());
    becomes(&server, (2, 0));
    let mut update = server.connect();
    send(&mut update, "UPDATE many SET n = n + 1 WHERE n + 1 = 3");
    becomes(&server, (2, 1));
    cancel(server.pg(), &mut update);
    becomes(&server, (2, 0));
    // When one ends, who waits comes in.
    send(&mut waiting[0], "SELECT count(*) FROM many WHERE n + 1 > 0");
    becomes(&server, (2, 1));
    cancel(server.pg(), &mut running[0]);
    assert_eq!(end(&mut waiting[0]).kind, b'C');
    cancel(server.pg(), &mut running[1]);
    becomes(&server, (0, 0));
    assert_eq!(metric(&server, r#"ashlar_query_admissions_total{outcome="full"}"#), 1.0);
    assert_eq!(metric(&server, r#"ashlar_query_admissions_total{outcome="left"}"#), 3.0);
    drop((running, waiting, other, update));
    server.stop();
}

#[test]
fn who_waits_for_too_long_is_told() {
    let server = start("queries_max = 1\nquery_wait_max_ms = 50");
    let (mut running, mut waiting) = (server.connect(), server.connect());
    send(&mut running, ENDLESS);
    becomes(&server, (1, 0));
    let begin = Instant::now();
    send(&mut waiting, "SELECT sum(n) FROM many");
    let (code, hint) = error(&mut waiting);
    assert_eq!((code.as_str(), hint.contains("query.query_wait_max_ms")), ("53300", true), "{hint}");
    assert!(begin.elapsed() >= Duration::from_millis(50));
    cancel(server.pg(), &mut running);
    becomes(&server, (0, 0));
    drop((running, waiting));
    server.stop();
}

#[test]
fn the_time_of_a_statement_counts_its_wait() {
    // Nobody waits so long: of two times that are over at once, either might be told.
    let server = start("queries_max = 1\nquery_wait_max_ms = 600000");
    let (mut running, mut waiting) = (server.connect(), server.connect());
    send(&mut running, ENDLESS);
    becomes(&server, (1, 0));
    waiting.query("SET statement_timeout = 20").unwrap();
    send(&mut waiting, "SELECT sum(n) FROM many");
    assert_eq!(error(&mut waiting).0, "57014");
    cancel(server.pg(), &mut running);
    becomes(&server, (0, 0));
    drop((running, waiting));
    server.stop();
}

#[test]
fn neither_row_locks_nor_cursors_hold_a_turn() {
    let server = start("queries_max = 1\nquery_wait_max_ms = 600000");
    let (mut holder, mut waiter, mut reader) = (server.connect(), server.connect(), server.connect());
    holder.query("BEGIN").unwrap();
    holder.query("UPDATE many SET n = 5 WHERE id IN (1, 2)").unwrap();
    // A query that locks rows finds one locked: it waits for it, and its turn is the others'.
    send(&mut waiter, "UPDATE many SET n = n + 1 WHERE n + 1 > 0 AND id % 20000 = 1");
    let waits = wait_for(SOON, || metric(&server, r#"ashlar_store_locks{kind="waiting"}"#) == 1.0);
    assert!(waits, "nobody waits for the row");
    assert_eq!(holder.value("SELECT count(*) FROM many WHERE n + 1 > 1000").unwrap(), "0");
    // The same with a cursor of the one who waits: nobody fetches from it, and it has no turn.
    reader.query("BEGIN").unwrap();
    reader.query("DECLARE c CURSOR FOR SELECT a.id FROM many a, many b").unwrap();
    assert_eq!(reader.query("FETCH 3 FROM c").unwrap().len(), 3);
    send(&mut reader, "UPDATE many SET n = n + 1 WHERE n + 1 > 0 AND id % 20000 = 2");
    let waits = wait_for(SOON, || metric(&server, r#"ashlar_store_locks{kind="waiting"}"#) == 2.0);
    assert!(waits, "the reader does not wait for the row");
    assert_eq!(holder.value("SELECT count(*) FROM many WHERE n + 1 > 1000").unwrap(), "0");
    holder.query("COMMIT").unwrap();
    assert_eq!(end(&mut waiter).kind, b'C');
    assert_eq!(end(&mut reader).kind, b'C');
    // It goes on where it was; a statement beside it has its turn too.
    assert_eq!(reader.query("FETCH 50000 FROM c").unwrap().len(), 50_000);
    assert_eq!(reader.value("SELECT count(*) FROM many WHERE n + 1 > 1000").unwrap(), "0");
    reader.query("COMMIT").unwrap();
    // A statement that runs others while its rows come has one turn for all of them.
    holder.query("CREATE TABLE other (id integer, r double precision DEFAULT random())").unwrap();
    holder.query("INSERT INTO other (id) SELECT id FROM many WHERE n + 1 > 0 AND id % 4000 = 1").unwrap();
    assert_eq!(holder.value("SELECT count(DISTINCT r) FROM other").unwrap(), "5");
    becomes(&server, (0, 0));
    drop((holder, waiter, reader));
    server.stop();
}
