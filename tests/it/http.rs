//! The HTTP door and `ashlar config`.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use ashlar_tests::process::wait_for;
use ashlar_tests::{Ashlar, Options, ashlar, pg, resp};

/// How long something that is bound to happen may take.
const SOON: Duration = Duration::from_secs(120);

/// Status and body of a page.
pub(crate) fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no end of the head: {text}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("no status: {head}")), body.to_owned())
}

/// The value of one series; none when the page does not have it.
pub(crate) fn series(page: &str, name: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn health_and_readiness_are_told() {
    let server = Ashlar::shared();
    assert_eq!(get(server.http(), "/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(get(server.http(), "/readyz"), (200, "ready\n".to_owned()));
    assert_eq!(get(server.http(), "/nothing").0, 404);
}

#[test]
fn metrics_count_what_happened() {
    let server = Ashlar::start(Options::default()).unwrap();
    let mut connection = server.connect();
    connection.query("CREATE TABLE counted (id integer PRIMARY KEY)").unwrap();
    connection.query("INSERT INTO counted VALUES (1), (2), (3)").unwrap();
    assert_eq!(connection.query("SELECT id FROM counted").unwrap().len(), 3);
    assert!(connection.query("SELECT nothing FROM counted").is_err());
    let mut keys = resp::Client::connect(server.resp()).unwrap();
    assert_eq!(keys.command(&["SET", "a", "b"]).unwrap(), resp::Reply::Simple("OK".to_owned()));
    // Answered before they are counted, perhaps: the counters move at the end of a turn.
    let mut page = String::new();
    let counted = wait_for(SOON, || {
        page = get(server.http(), "/metrics").1;
        series(&page, r#"ashlar_server_statements_total{door="pg"}"#) >= Some(4.0)
            && series(&page, r#"ashlar_server_statements_total{door="resp"}"#) >= Some(1.0)
            && series(&page, "ashlar_server_rows_total") >= Some(3.0)
            && series(&page, r#"ashlar_server_errors_total{door="pg",sqlstate="42703"}"#) == Some(1.0)
    });
    assert!(counted, "{page}");
    assert_eq!(series(&page, r#"ashlar_store_table_rows{table="counted"}"#), Some(3.0), "{page}");
    assert_eq!(series(&page, r#"ashlar_store_table_rows{table="kv"}"#), Some(1.0), "{page}");
    assert_eq!(series(&page, r#"ashlar_server_connections_open{door="pg"}"#), Some(1.0), "{page}");
    for name in [r#"ashlar_store_memory_bytes{kind="used"}"#, r#"ashlar_process_memory_bytes{kind="resident"}"#] {
        assert!(series(&page, name) > Some(0.0), "{name}: {page}");
    }
    // Every line is one that Prometheus can read.
    for line in page.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (_, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
    drop((connection, keys));
    server.stop();
}

/// How many writes to its clients a door has counted when it has counted so many statements, which come last.
fn writes_after(server: &Ashlar, door: &str, statements: f64) -> Option<f64> {
    let mut page = String::new();
    let counted = wait_for(SOON, || {
        page = get(server.http(), "/metrics").1;
        series(&page, &format!(r#"ashlar_server_statements_total{{door="{door}"}}"#)) == Some(statements)
    });
    assert!(counted, "{page}");
    series(&page, &format!(r#"ashlar_server_writes_total{{door="{door}"}}"#))
}

/// A hundred commands in one packet are read at once, and their answers leave at once.
#[test]
fn what_arrives_together_is_answered_by_one_write() {
    let server = Ashlar::start(Options::default()).unwrap();
    let mut keys = resp::Client::connect(server.resp()).unwrap();
    assert_eq!(keys.command(&["SET", "a", "b"]).unwrap(), resp::Reply::Simple("OK".to_owned()));
    assert_eq!(writes_after(&server, "resp", 1.0), Some(1.0));
    let commands = vec![vec![b"GET".to_vec(), b"a".to_vec()]; 100];
    assert_eq!(keys.pipeline(&commands).unwrap(), vec![resp::Reply::bulk("b"); 100]);
    assert_eq!(writes_after(&server, "resp", 101.0), Some(2.0));
    for _ in 0..10 {
        assert_eq!(keys.command(&["GET", "a"]).unwrap(), resp::Reply::bulk("b"));
    }
    assert_eq!(writes_after(&server, "resp", 111.0), Some(12.0));
    drop(keys);
    server.stop();
}

/// Likewise statements that are sent before one is answered, as drivers in their pipeline mode do.
#[test]
fn statements_that_arrive_together_are_answered_by_one_write() {
    let server = Ashlar::start(Options::default()).unwrap();
    let mut connection = server.connect();
    connection.query("CREATE TABLE asked (id integer PRIMARY KEY, v text)").unwrap();
    connection.query("INSERT INTO asked SELECT i, 'v' || i FROM generate_series(1, 100) AS g(i)").unwrap();
    let before = writes_after(&server, "pg", 2.0).unwrap();
    // Bind of a text, and Execute.
    let ask = |bytes: &mut Vec<u8>, id: i32| {
        let id = id.to_string();
        let length = (id.len() as i32).to_be_bytes();
        bytes.extend(pg::message(b'B', &[b"\0one\0", &[0, 0, 0, 1], &length, id.as_bytes(), &[0, 0]]));
        bytes.extend(pg::message(b'E', &[b"\0", &[0; 4]]));
    };
    // Up to Sync: the values of all rows.
    let answered = |connection: &mut pg::Connection, mut bytes: Vec<u8>| {
        bytes.extend(pg::message(b'S', &[]));
        connection.send(&bytes).unwrap();
        let mut values = Vec::new();
        loop {
            let message = connection.read().unwrap();
            match message.kind {
                b'D' => values.push(message.row()[0].clone().unwrap()),
                b'E' => panic!("{}", pg::describe(&message)),
                b'Z' => return values,
                _ => {}
            }
        }
    };
    let mut bytes = pg::message(b'P', &[b"one\0", b"SELECT v FROM asked WHERE id = $1\0", &[0, 0]]);
    (1..=100).for_each(|id| ask(&mut bytes, id));
    let expected: Vec<String> = (1..=100).map(|id| format!("v{id}")).collect();
    assert_eq!(answered(&mut connection, bytes), expected);
    assert_eq!(writes_after(&server, "pg", 102.0), Some(before + 1.0));
    for id in 1..=10 {
        let mut bytes = Vec::new();
        ask(&mut bytes, id);
        assert_eq!(answered(&mut connection, bytes), [format!("v{id}")]);
    }
    assert_eq!(writes_after(&server, "pg", 112.0), Some(before + 11.0));
    drop(connection);
    server.stop();
}

#[test]
fn a_server_gives_profiles_of_itself_while_it_works() {
    let server =
        Ashlar::start(Options { config: "[server]\nstartup_timeout_ms = 5000\n".into(), ..Options::default() })
            .unwrap();
    let list = get(server.http(), "/debug/profile").1;
    let mut connection = server.connect();
    connection.query("CREATE TABLE kept (id integer PRIMARY KEY, v text)").unwrap();
    let mut kept = 0;
    for (kind, seconds, expected) in [
        // Longer than a client may be silent otherwise.
        ("cpu", 7, &["ashlar_query"][..]),
        // A thread that has nothing to do is seen as well, and so are tasks: who waits, and for whom.
        ("wall", 3, &["ashlar_store::compactor::run", "tasks;connection pg;statement;query", "tasks;acceptor "]),
        ("allocations", 3, &["ashlar_query"]),
        // The rows that are inserted meanwhile stay.
        ("heap", 3, &["ashlar_store"]),
    ] {
        assert!(list.contains(&format!("/debug/profile/{kind} ")), "{list}");
        let address = server.http();
        let mut text = String::new();
        // Of what was hardly done meanwhile, on a machine that did other things, there may be no sample: then another one is taken.
        let has_all = wait_for(SOON, || {
            let path = format!("/debug/profile/{kind}?seconds={seconds}&format=folded");
            let profile = std::thread::spawn(move || get(address, &path));
            while !profile.is_finished() {
                let sql = "SELECT count(*), sum(a * b) FROM generate_series(1, 300) a, generate_series(1, 300) b";
                assert_eq!(connection.query(sql).unwrap().len(), 1);
                let ids = format!("generate_series({kept}, {}) a", kept + 999);
                connection.query(&format!("INSERT INTO kept SELECT a, repeat('x', 1000) FROM {ids}")).unwrap();
                kept += 1000;
            }
            let (status, taken) = profile.join().unwrap();
            assert_eq!(status, 200, "{kind}: {taken}");
            text = taken;
            expected.iter().all(|expected| text.contains(expected))
        });
        assert!(has_all, "{kind}, {expected:?}: {text}");
        for line in text.lines() {
            let (_, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{kind}: {line}"));
            assert!(value.parse::<u64>().is_ok_and(|value| value > 0), "{kind}: {line}");
        }
    }
    // And it is drawn for people.
    let mut drawing = String::new();
    let is_drawn = wait_for(SOON, || {
        let (status, drawn) = get(server.http(), "/debug/profile/wall?seconds=1&format=flamegraph");
        assert_eq!(status, 200, "{drawn}");
        drawing = drawn;
        drawing.contains("<svg") && drawing.contains("ashlar_store::compactor::run")
    });
    assert!(is_drawn, "{drawing}");
    // One at a time; other pages are answered meanwhile. Where one of two comes late, there is room for both.
    let address = server.http();
    let ask = || std::thread::spawn(move || get(address, "/debug/profile/cpu?seconds=4&format=folded").0);
    let is_refused = (0..8).any(|_| {
        let both = [ask(), ask()];
        assert_eq!(get(address, "/healthz").0, 200);
        let mut statuses = both.map(|asked| asked.join().unwrap());
        statuses.sort_unstable();
        assert!(statuses == [200, 409] || statuses == [200, 200], "{statuses:?}");
        statuses == [200, 409]
    });
    assert!(is_refused, "two profiles are taken at the same time");
    for (path, status) in
        [("/debug/profile/x", 404), ("/debug/profile/cpu?seconds=0", 400), ("/debug/profile/cpu?x=1", 400)]
    {
        assert_eq!(get(address, path).0, status, "{path}");
    }
    drop(connection);
    server.stop();
}

#[test]
fn a_wall_profile_says_for_whom_a_task_waits() {
    let server = Ashlar::start(Options::default()).unwrap();
    let mut connection = server.connect();
    connection.query("CREATE TABLE many (id integer PRIMARY KEY)").unwrap();
    connection.query("INSERT INTO many SELECT * FROM generate_series(1, 2000)").unwrap();
    // Nobody reads the rows: the connection waits for its client, and the query for the connection.
    connection.send(&pg::message(b'Q', &[b"SELECT a.id FROM many a, many b\0"])).unwrap();
    let keys = resp::Client::connect(server.resp()).unwrap();
    // One has locked a row, and the other waits for it.
    let (mut holder, mut waiter) = (server.connect(), server.connect());
    holder.query("BEGIN; SELECT * FROM many WHERE id = 1 FOR UPDATE").unwrap();
    waiter.send(&pg::message(b'Q', &[b"SELECT * FROM many WHERE id = 1 FOR UPDATE\0"])).unwrap();
    let waits = [
        "tasks;connection pg;statement;row lock ",
        "tasks;connection pg;statement;socket write ",
        "query;rows to the connection ",
        "tasks;connection resp;socket read ",
    ];
    let mut text = String::new();
    let seen = wait_for(SOON, || {
        let (status, taken) = get(server.http(), "/debug/profile/wall?seconds=1&format=folded");
        assert_eq!(status, 200, "{taken}");
        text = taken;
        // And what each thread is in, of the system's calls.
        let accepts = |line: &str| line.starts_with("ashlar-accept;") && line.contains(";[in epoll_wait] ");
        waits.iter().all(|wait| text.contains(wait)) && text.lines().any(accepts)
    });
    assert!(seen, "{text}");
    drop((connection, keys, holder, waiter));
    server.stop();
}

#[test]
fn readiness_ends_before_the_server_does() {
    // A million rows take some time on a machine that has other things to do.
    let config = "[server]\nshutdown_grace_ms = 600000\n".to_owned();
    let mut server = Ashlar::start(Options { config, ..Options::default() }).unwrap();
    let mut connection = server.connect();
    connection.query("CREATE TABLE held (id integer PRIMARY KEY)").unwrap();
    let rows: Vec<String> = (0..1000).map(|id| format!("({id})")).collect();
    connection.query(&format!("INSERT INTO held VALUES {}", rows.join(", "))).unwrap();
    // A statement that is still sending its rows keeps the server in its last phase but one.
    connection.send(&pg::message(b'Q', &[b"SELECT a.id FROM held a, held b\0"])).unwrap();
    assert_eq!(connection.read().unwrap().kind, b'T');
    server.signal("TERM").unwrap();
    let told = wait_for(SOON, || get(server.http(), "/readyz").0 == 503);
    assert!(told, "still ready after SIGTERM");
    assert_eq!(get(server.http(), "/healthz").0, 200);
    let mut rows = 0;
    loop {
        let message = connection.read().unwrap();
        match message.kind {
            b'D' => rows += 1,
            b'C' => break,
            _ => panic!("{}", pg::describe(&message)),
        }
    }
    assert_eq!(rows, 1_000_000, "the statement that was running is answered in full");
    assert!(server.wait().unwrap().success());
    server.check_log();
}

/// What a silent or a slow client of the HTTP door is told.
fn last_words(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    // A connection that is cut before we have read what it had to say is cut all the same.
    let _ = stream.read_to_string(&mut text);
    text
}

#[test]
fn a_full_http_door_says_so_and_takes_nothing_from_the_others() {
    let config = "[server]\nhttp_connections_max = 4\n".to_owned();
    let server = Ashlar::start(Options { config, ..Options::default() }).unwrap();
    let connect = || {
        let stream = TcpStream::connect(server.http()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    };
    let mut silent: Vec<TcpStream> = (0..4).map(|_| connect()).collect();
    assert!(last_words(&mut connect()).starts_with("HTTP/1.1 503 "), "the fifth of four connections is served");
    assert_eq!(server.connect().value("SELECT 1").unwrap(), "1");
    // Those that have a seat are served, and a seat that becomes free is given away.
    write!(silent[0], "GET /healthz HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
    assert!(last_words(&mut silent[0]).starts_with("HTTP/1.1 200 "));
    let admitted = wait_for(SOON, || {
        let mut stream = connect();
        let sent = write!(stream, "GET /healthz HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        sent.is_ok() && last_words(&mut stream).starts_with("HTTP/1.1 200 ")
    });
    assert!(admitted, "a seat that became free is not given away");
    drop(silent);
    server.stop();
}

#[test]
fn a_request_has_to_arrive_in_time_however_it_is_cut() {
    let config = "[server]\nstartup_timeout_ms = 300\n".to_owned();
    let server = Ashlar::start(Options { config, ..Options::default() }).unwrap();
    let connect = || {
        let stream = TcpStream::connect(server.http()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    };
    // One says nothing, one has been answered and says nothing more, one sends a byte at a time and never ends.
    let mut silent = connect();
    assert_eq!(last_words(&mut silent), "");
    // Who asks may be late himself, on a busy machine: then he asks again.
    let is_answered = || {
        let mut answered = connect();
        let sent = write!(answered, "GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n");
        sent.is_ok() && last_words(&mut answered).ends_with("ok\n")
    };
    assert!(wait_for(SOON, is_answered), "nobody who asks in time is answered");
    let mut slow = connect();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nHost: ").unwrap();
    slow.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let closed = wait_for(SOON, || {
        let sent = slow.write_all(b"x");
        let read = slow.read(&mut [0; 16]);
        sent.is_err() || matches!(read, Ok(0)) || read.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
    });
    assert!(closed, "a request that never ends is waited for");
    assert!(wait_for(SOON, is_answered), "nobody is answered any more");
    server.stop();
}

#[test]
fn config_show_tells_each_value_and_where_it_comes_from() {
    let shown = ashlar::run(&["config", "show"]).unwrap();
    for name in ["pg_address", "resp_address", "http_address", "memory_mib_max"] {
        assert!(shown.contains(name), "{name} is not shown:\n{shown}");
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ashlar.toml");
    std::fs::write(&file, "[store]\nmemory_mib_max = 123\n").unwrap();
    let path = file.to_str().unwrap();
    let shown = ashlar::run(&["config", "show", "--config", path, "--resp", "127.0.0.1:7777"]).unwrap();
    let line =
        |part: &str| shown.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}:\n{shown}"));
    assert!(line("123").contains("memory_mib_max"), "{shown}");
    assert!(line("memory_mib_max = 123").contains("ashlar.toml"), "the origin of a value is not told:\n{shown}");
    assert!(line("7777").contains("--resp"), "the origin of a value is not told:\n{shown}");
}

#[test]
fn config_check_names_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let check = |text: &str| {
        let file = dir.path().join("ashlar.toml");
        std::fs::write(&file, text).unwrap();
        ashlar::run(&["config", "check", "--config", file.to_str().unwrap()]).map_err(|error| error.to_string())
    };
    assert!(check("[store]\nmemory_mib_max = 64\n").is_ok());
    for (text, named) in [
        ("[store]\nmemory_mib_maxx = 64\n", "memory_mib_maxx"),
        ("[stores]\nmemory_mib_max = 64\n", "stores"),
        ("[store]\npartition_count = 3\n", "partition_count"),
        ("[shard]\nconnections_per_server_max = 1\n", "connections_per_server_max: 1 is outside 2 to"),
        ("[store]\nmemory_mib_max = \"much\"\n", "memory_mib_max"),
        ("[server]\npg_address = \"nowhere\"\n", "pg_address"),
        ("[store\n", "2"),
    ] {
        let complaint = check(text).expect_err(text);
        assert!(complaint.contains(named), "{text:?} gives {complaint:?}");
    }
}

#[test]
fn a_door_that_reaches_other_machines_must_be_asked_for() {
    let complaint = ashlar::run(&["serve", "--pg", "0.0.0.0:0", "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0"])
        .expect_err("the server started without a password on all interfaces")
        .to_string();
    assert!(complaint.contains("allow_remote_without_authentication"), "{complaint}");
}

#[test]
fn a_log_in_json_is_one_object_a_line() {
    let options = Options { config: "[log]\nformat = \"json\"\nlevel = \"debug\"\n".to_owned(), ..Options::default() };
    let server = Ashlar::start(options).unwrap();
    let mut connection = server.connect();
    assert!(connection.query("SELECT 1 / 0").is_err());
    drop(connection);
    assert!(wait_for(SOON, || server.log().contains("the client left")));
    let log = server.log();
    let mut failures = Vec::new();
    for line in log.lines() {
        let object: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        for name in ["timestamp", "level", "target", "message"] {
            assert!(object[name].is_string(), "no {name}: {line}");
        }
        failures.extend(object["sqlstate"].as_str().map(str::to_owned));
    }
    assert_eq!(failures, ["22012"]);
    assert!(log.contains("\"listening\""), "{log}");
}
