//! Rows that end by themselves, on a real server: memory comes back without a restart, and stays below its bound.

use std::time::{Duration, Instant};

use ashlar_tests::process::wait_for;
use ashlar_tests::resp::{Client, Reply};
use ashlar_tests::{Ashlar, Options};

use crate::http::{get, series};

const MIB: u64 = 1 << 20;

/// How long something that is bound to happen may take.
const SOON: Duration = Duration::from_secs(120);

/// What the allocator, connections and caches may hold above the rows.
const SLACK: u64 = 64 * MIB;

fn figure(server: &Ashlar, name: &str) -> f64 {
    let page = get(server.http(), "/metrics").1;
    series(&page, name).unwrap_or_else(|| panic!("{name} is not in {page}"))
}

fn words(parts: &[&str]) -> Vec<Vec<u8>> {
    parts.iter().map(|part| part.as_bytes().to_vec()).collect()
}

/// What INFO says that rows take.
fn dataset(keys: &mut Client) -> u64 {
    let text = keys.command(&["INFO", "memory"]).unwrap().text().expect("INFO answers with a text");
    let figure = text.lines().find_map(|line| line.strip_prefix("used_memory_dataset:"));
    figure.unwrap_or_else(|| panic!("{text}")).trim().parse().unwrap()
}

/// Sets keys, a thousand at a time; nothing may be refused.
fn set(keys: &mut Client, numbers: std::ops::Range<u32>, value: &str, options: &[&str]) {
    let command = |number: u32| {
        let mut command = words(&["SET", &format!("key:{number:08}"), value]);
        command.extend(words(options));
        command
    };
    for first in numbers.clone().step_by(1000) {
        let commands: Vec<_> = (first..(first + 1000).min(numbers.end)).map(command).collect();
        for reply in keys.pipeline(&commands).unwrap() {
            assert_eq!(reply, Reply::Simple("OK".to_owned()));
        }
    }
}

#[test]
fn a_bounded_table_takes_every_write_and_its_process_stays_small() {
    const MAX: u64 = 48 * MIB;
    let server = Ashlar::start(Options::default()).unwrap();
    let mut sql = server.connect();
    let baseline = server.resident_bytes();
    sql.query("ALTER TABLE kv SET (memory_max = '48MB', eviction = 'lru')").unwrap();
    let mut keys = Client::connect(server.resp()).unwrap();
    // Values of many sizes, so that rows are not overwritten where they lie; keys that come again, and keys that do not.
    for round in 0..12u32 {
        let value = "x".repeat(60 + 17 * round as usize);
        set(&mut keys, 0..20_000, &value, &[]);
        set(&mut keys, 20_000 + round * 60_000..80_000 + round * 60_000, &value, &[]);
        let used = figure(&server, r#"ashlar_store_table_bytes{table="kv"}"#);
        assert!(used <= MAX as f64, "{used} bytes in round {round}");
        let resident = server.resident_bytes();
        let most = baseline + MAX + MAX * 15 / 100 + SLACK;
        assert!(resident <= most, "{} MiB resident in round {round}", resident / MIB);
    }
    assert!(figure(&server, r#"ashlar_store_rows_ended_total{why="evicted"}"#) > 100_000.0);
    // Until there is room to spare the compactor goes on: then nobody removes a row any more.
    let (mut rows, mut told) = (0.0, 0.0);
    let agree = wait_for(SOON, || {
        let mut number = |query: &str| sql.value(query).unwrap().parse::<f64>().unwrap();
        rows = number("SELECT count(*) FROM kv");
        told = number("SELECT rows FROM ashlar.tables WHERE name = 'kv'");
        rows == told
    });
    assert!(agree, "{told} rows are told, and {rows} are there");
    assert!(rows > 30_000.0, "only {rows} keys are left");
    // Those that came last are there.
    let reply = keys.command(&["EXISTS", "key:00739999"]).unwrap();
    assert_eq!(reply, Reply::Integer(1));
    // The bound can be lowered, and refuses where nothing may go.
    sql.query("ALTER TABLE kv SET (memory_max = '24MB')").unwrap();
    let shrunk = wait_for(SOON, || figure(&server, r#"ashlar_store_table_bytes{table="kv"}"#) <= (24 * MIB) as f64);
    assert!(shrunk, "rows did not go");
    sql.query("ALTER TABLE kv SET (memory_max = '1MB', eviction = 'none')").unwrap();
    let reply = keys.command(&["SET", "one more", &"x".repeat(100_000)]).unwrap();
    assert!(matches!(&reply, Reply::Error(text) if text.starts_with("OOM ")), "{reply:?}");
    drop((sql, keys));
    server.stop();
}

#[test]
fn memory_of_what_has_expired_comes_back_to_an_idle_server() {
    let server = Ashlar::start(Options::default()).unwrap();
    let mut sql = server.connect();
    let mut keys = Client::connect(server.resp()).unwrap();
    let bytes = || figure(&server, r#"ashlar_store_table_bytes{table="kv"}"#);
    let empty = bytes();
    set(&mut keys, 0..300_000, &"x".repeat(200), &["PX", "600000"]);
    let filled = bytes();
    assert!(filled > 300_000.0 * 200.0);
    let resident = server.resident_bytes();
    // Half of them have a second left; nobody touches them after that.
    sql.query("UPDATE kv SET _expires_at = now() + interval '1 second' WHERE key < 'key:00150000'").unwrap();
    let shrunk = wait_for(SOON, || bytes() < filled * 0.7);
    assert!(shrunk, "{} bytes of {filled}", bytes());
    assert_eq!(sql.value("SELECT count(*) FROM kv").unwrap(), "150000");
    assert_eq!(keys.command(&["DBSIZE"]).unwrap(), Reply::Integer(150_000));
    sql.query("UPDATE kv SET _expires_at = now() - interval '1 second'").unwrap();
    assert_eq!(sql.value("SELECT count(*) FROM kv").unwrap(), "0");
    let shrunk = wait_for(SOON, || bytes() <= empty + 1000.0);
    assert!(shrunk, "{} bytes for no rows", bytes());
    let returned = wait_for(SOON, || server.resident_bytes() < resident - 40 * MIB);
    assert!(returned, "{} MiB of {} are still resident", server.resident_bytes() / MIB, resident / MIB);
    let mut text = String::new();
    let counted = wait_for(SOON, || {
        text = keys.command(&["INFO", "stats"]).unwrap().text().unwrap_or_default();
        text.contains("expired_keys:300000\r\n")
    });
    assert!(counted, "{text}");
    drop((sql, keys));
    server.stop();
}

#[test]
fn a_transaction_that_asks_for_a_row_does_not_use_it() {
    let server = Ashlar::start(Options::default()).unwrap();
    let mut sql = server.connect();
    let mut keys = Client::connect(server.resp()).unwrap();
    sql.query("ALTER TABLE kv SET (max_idle_ms = 500)").unwrap();
    assert_eq!(keys.command(&["SET", "k", "v"]).unwrap(), Reply::Simple("OK".to_owned()));
    let lines = ["MULTI", "EXISTS k", "TTL k", "TYPE k", "EXEC"];
    let commands: Vec<_> = lines.iter().map(|line| words(&line.split(' ').collect::<Vec<_>>())).collect();
    let nothing = [Reply::Integer(0), Reply::Integer(-2), Reply::Simple("none".to_owned())];
    let gone = wait_for(SOON, || {
        let replies = keys.pipeline(&commands).unwrap();
        matches!(replies.last(), Some(Reply::Array(found)) if found[..] == nothing)
    });
    assert!(gone, "a row that is asked for again and again stays");
    drop((sql, keys));
    server.stop();
}

#[test]
fn rows_that_are_read_by_key_at_either_door_stay_and_others_end() {
    /// Long enough that a thread is seldom kept waiting for so long.
    const IDLE: Duration = Duration::from_secs(3);
    const NAMES: [&str; 4] = ["by_get", "by_select", "by_scan", "left"];
    let server = Ashlar::start(Options::default()).unwrap();
    let mut sql = server.connect();
    let mut keys = Client::connect(server.resp()).unwrap();
    sql.query(&format!("ALTER TABLE kv SET (max_idle_ms = {})", IDLE.as_millis())).unwrap();
    let began = Instant::now();
    loop {
        let (mut asked, mut longest) = (Instant::now(), Duration::ZERO);
        for name in NAMES {
            assert_eq!(keys.command(&["SET", name, "v"]).unwrap(), Reply::Simple("OK".to_owned()));
        }
        // Until those are gone that nobody reads by key: what asks whether they are is no use of them.
        let gone = wait_for(SOON, || {
            let before = Instant::now();
            keys.command(&["GET", NAMES[0]]).unwrap();
            sql.query("SELECT value FROM kv WHERE key = 'by_select'").unwrap();
            // Whatever was late, both were read again within this time.
            longest = longest.max(asked.elapsed());
            asked = before;
            sql.query("SELECT count(*) FROM kv WHERE value = 'v'").unwrap();
            keys.command(&["EXISTS", NAMES[2], NAMES[3]]).unwrap() == Reply::Integer(0)
        });
        assert!(gone, "rows that nobody reads by key stay");
        let left = keys.command(&["EXISTS", NAMES[0], NAMES[1]]).unwrap();
        longest = longest.max(asked.elapsed());
        if longest < IDLE * 2 / 3 {
            assert_eq!(left, Reply::Integer(2), "rows that were read every {longest:?} have ended");
            break;
        }
        assert!(began.elapsed() < SOON, "nobody comes to ask in time");
    }
    drop((sql, keys));
    server.stop();
}

#[test]
fn bytes_of_tables_are_the_same_wherever_they_are_told() {
    let server = Ashlar::start(Options::default()).unwrap();
    let mut sql = server.connect();
    let mut keys = Client::connect(server.resp()).unwrap();
    sql.query("CREATE TABLE wide (id integer PRIMARY KEY, s text, tags integer[])").unwrap();
    sql.query("CREATE INDEX wide_s ON wide (s)").unwrap();
    let rows = "SELECT i, 'text ' || i, ARRAY[i, i + 1] FROM generate_series(1, 20000) AS g(i)";
    sql.query(&format!("INSERT INTO wide {rows}")).unwrap();
    sql.query("DELETE FROM wide WHERE id % 3 = 0").unwrap();
    set(&mut keys, 0..20_000, &"x".repeat(50), &[]);
    for expected in [&["kv", "wide"][..], &["kv"]] {
        let mut last = String::new();
        // Nobody is at work but the compactor, which comes to an end.
        let agree = wait_for(SOON, || {
            let tables = "SELECT name, bytes FROM ashlar.tables WHERE partitions IS NOT NULL ORDER BY name";
            let tables = sql.query(tables).unwrap().into_iter().map(|row| {
                let [Some(name), Some(bytes)] = &row[..] else { panic!("{row:?}") };
                (name.clone(), bytes.parse::<u64>().unwrap())
            });
            let tables: Vec<(String, u64)> = tables.collect();
            assert_eq!(tables.iter().map(|(name, _)| name).collect::<Vec<_>>(), expected);
            assert!(tables.iter().all(|(_, bytes)| *bytes > 20_000 * 20), "{tables:?}");
            let of_table = |name: &str| figure(&server, &format!("ashlar_store_table_bytes{{table=\"{name}\"}}"));
            let measured: Vec<f64> = tables.iter().map(|(name, _)| of_table(name)).collect();
            let (used, held) = (figure(&server, r#"ashlar_store_memory_bytes{kind="used"}"#), dataset(&mut keys));
            last = format!("{tables:?} in ashlar.tables, {measured:?} and {used} in the metrics, {held} in INFO");
            let all: u64 = tables.iter().map(|(_, bytes)| bytes).sum();
            let is_same = tables.iter().zip(measured).all(|((_, bytes), measured)| *bytes as f64 == measured);
            is_same && all as f64 == used && all == held
        });
        assert!(agree, "{last}");
        if expected.len() > 1 {
            sql.query("DROP TABLE wide").unwrap();
        }
    }
    drop((sql, keys));
    server.stop();
}

/// TRUNCATE by itself does not leave rows for somebody to take away later: no snapshot asks for them.
#[test]
fn a_table_that_is_truncated_has_no_rows_left_to_forget() {
    let server = Ashlar::start(Options::default()).unwrap();
    let mut sql = server.connect();
    sql.query("CREATE TABLE emptied (id integer PRIMARY KEY, s text)").unwrap();
    let mut bytes = || {
        let bytes = sql.value("SELECT bytes FROM ashlar.tables WHERE name = 'emptied'").unwrap();
        bytes.parse::<u64>().unwrap()
    };
    let empty = bytes();
    let mut filling = server.connect();
    filling.query("INSERT INTO emptied SELECT i, repeat('x', 100) FROM generate_series(1, 300000) AS g(i)").unwrap();
    let filled = bytes();
    assert!(filled > empty + 300_000 * 100);
    filling.query("TRUNCATE emptied").unwrap();
    let left = bytes();
    assert!(left < empty + (filled - empty) / 100, "{left} bytes of {filled}, and {empty} before there was a row");
    drop((sql, filling));
    server.stop();
}
