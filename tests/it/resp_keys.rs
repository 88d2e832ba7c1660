//! What no conversation can show about keys: promises that hold while others write, and clients that do not read.
//!
//! Each test uses names of its own on the shared server.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ashlar_tests::process::wait_for;
use ashlar_tests::resp::{Client, Reply, encode};
use ashlar_tests::{Ashlar, Options, Redis};

use crate::conflicts::End;

/// How long something that is bound to happen may take.
const SOON: Duration = Duration::from_secs(120);

fn client(ashlar: &Ashlar) -> Client {
    Client::connect(ashlar.resp()).unwrap()
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// All names that a whole SCAN returns, and how many calls it took.
fn scan(client: &mut Client, options: &[&str]) -> (Vec<Vec<u8>>, usize) {
    let (mut names, mut calls, mut cursor) = (Vec::new(), 0, "0".to_owned());
    loop {
        let mut command = vec!["SCAN", &cursor];
        command.extend_from_slice(options);
        let reply = client.command(&command).unwrap();
        calls += 1;
        let Reply::Array(parts) = reply else { panic!("{reply:?}") };
        let [next, Reply::Array(found)] = &parts[..] else { panic!("{parts:?}") };
        for name in found {
            let Reply::Bulk(name) = name else { panic!("{name:?}") };
            names.push(name.clone());
        }
        cursor = next.text().unwrap();
        if cursor == "0" {
            return (names, calls);
        }
    }
}

#[test]
fn scan_meets_every_key_that_is_there_all_the_time() {
    let ashlar = Ashlar::start(Options::default()).unwrap();
    let mut own = client(&ashlar);
    let stable: HashSet<Vec<u8>> = (0..20_000).map(|number| format!("stable:{number}").into_bytes()).collect();
    let commands: Vec<_> = stable.iter().map(|key| vec![b"SET".to_vec(), key.clone(), b"x".to_vec()]).collect();
    for chunk in commands.chunks(1000) {
        assert!(own.pipeline(chunk).unwrap().iter().all(|reply| *reply == Reply::Simple("OK".to_owned())));
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        // Others come by the thousand, so that every index grows under the scan, and go again.
        scope.spawn(|| {
            let mut churn = client(&ashlar);
            let mut round = 0;
            while !stop.load(Ordering::Relaxed) {
                for verb in ["SET", "DEL"] {
                    let command = |number: i32| {
                        let mut words = vec![verb.as_bytes().to_vec(), format!("churn:{round}:{number}").into_bytes()];
                        words.extend((verb == "SET").then(|| b"y".to_vec()));
                        words
                    };
                    churn.pipeline(&(0..5000).map(command).collect::<Vec<_>>()).unwrap();
                }
                round += 1;
            }
        });
        for count in ["10", "100", "5000"] {
            let (names, calls) = scan(&mut own, &["COUNT", count]);
            let found: HashSet<_> = names.into_iter().collect();
            let missed: Vec<_> = stable.difference(&found).collect();
            assert!(missed.is_empty(), "COUNT {count}: {} of 20000 keys missed", missed.len());
            assert!(calls > 2, "COUNT {count}: the whole store came in {calls} replies");
            assert!(found.iter().all(|name| name.starts_with(b"stable:") || name.starts_with(b"churn:")));
        }
        let (names, _) = scan(&mut own, &["COUNT", "100", "MATCH", "stable:1999?"]);
        assert_eq!(names.len(), 10, "{names:?}");
        stop.store(true, Ordering::Relaxed);
    });
    // With nobody writing no name comes twice.
    let (names, _) = scan(&mut own, &[]);
    assert_eq!(names.len(), 20_000);
    assert_eq!(own.command(&["DBSIZE"]).unwrap(), Reply::Integer(20_000));
    ashlar.stop();
}

#[test]
fn any_key_is_drawn_sooner_or_later_and_none_much_more_often_than_others() {
    const DRAWS: usize = 4000;
    let ashlar = Ashlar::start(Options::default()).unwrap();
    let mut own = client(&ashlar);
    let mut drawn_of = |count: usize| {
        let set = |number: usize| vec![b"SET".to_vec(), format!("drawn:{number}").into_bytes(), b"x".to_vec()];
        let commands: Vec<_> = (0..count).map(set).collect();
        // The replies to all of them at once may be more than a connection holds that nobody reads.
        for chunk in commands.chunks(1000) {
            own.pipeline(chunk).unwrap();
        }
        let mut times: HashMap<Vec<u8>, usize> = HashMap::new();
        for _ in 0..DRAWS / 1000 {
            for reply in own.pipeline(&vec![vec![b"RANDOMKEY".to_vec()]; 1000]).unwrap() {
                let Reply::Bulk(name) = reply else { panic!("{reply:?}") };
                assert!(name.starts_with(b"drawn:"));
                *times.entry(name).or_default() += 1;
            }
        }
        times
    };
    let times = drawn_of(20);
    assert_eq!(times.len(), 20);
    // Two hundred times each, on average.
    assert!(times.values().all(|times| (20..1000).contains(times)), "{times:?}");
    let times = drawn_of(100_000);
    assert!(times.len() > DRAWS / 2, "only {} of 100,000 keys come in {DRAWS} draws", times.len());
    assert!(times.values().all(|times| *times < 50), "{times:?}");
    ashlar.stop();
}

#[test]
fn names_of_one_partition_come_in_small_steps() {
    let ashlar = Ashlar::start(Options::default()).unwrap();
    let mut own = client(&ashlar);
    // What stands in braces says where a key lies.
    let short = (0..20_000).map(|number| format!("{{tag}}:{number}"));
    let long = (0..40).map(|number| format!("{{tag}}:{}:{number}", "x".repeat(100_000)));
    let expected: HashSet<Vec<u8>> = short.chain(long).map(String::into_bytes).collect();
    let commands: Vec<_> = expected.iter().map(|key| vec![b"SET".to_vec(), key.clone(), b"x".to_vec()]).collect();
    for chunk in commands.chunks(1000) {
        assert!(own.pipeline(chunk).unwrap().iter().all(|reply| *reply == Reply::Simple("OK".to_owned())));
    }
    let Reply::Array(names) = own.command(&["KEYS", "{tag}:*"]).unwrap() else { panic!("KEYS gives no array") };
    assert_eq!(names.len(), expected.len());
    let names: HashSet<Vec<u8>> = names
        .into_iter()
        .map(|name| match name {
            Reply::Bulk(name) => name,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(names == expected);
    let (names, calls) = scan(&mut own, &["COUNT", "10"]);
    assert_eq!(names.len(), expected.len());
    assert!(names.into_iter().collect::<HashSet<_>>() == expected);
    // A reply has no more than the names of one hold of the partition's lock.
    assert!(calls >= 20, "{} names came in {calls} replies", expected.len());
    ashlar.stop();
}

#[test]
fn mset_is_seen_whole_or_not_at_all() {
    let ashlar = Ashlar::shared();
    let stop = AtomicBool::new(false);
    let keys: Vec<String> = (0..8).map(|number| format!("whole:{number}")).collect();
    let mset = |value: &str| {
        let mut command = vec!["MSET"];
        for key in &keys {
            command.extend([key.as_str(), value]);
        }
        client(&ashlar).command(&command).unwrap()
    };
    assert_eq!(mset("0"), Reply::Simple("OK".to_owned()));
    thread::scope(|scope| {
        for writer in 0..2 {
            let (stop, keys, ashlar) = (&stop, &keys, &ashlar);
            scope.spawn(move || {
                let mut client = client(ashlar);
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    let value = format!("{writer}-{number}");
                    let mut command = vec!["MSET"];
                    keys.iter().for_each(|key| command.extend([key.as_str(), value.as_str()]));
                    assert_eq!(client.command(&command).unwrap(), Reply::Simple("OK".to_owned()));
                    number += 1;
                }
            });
        }
        let _end = End(&stop);
        let mut reader = client(&ashlar);
        let mut command = vec!["MGET"];
        command.extend(keys.iter().map(String::as_str));
        let mut seen = HashSet::new();
        let begin = Instant::now();
        // And until the writers have got through, which begin when they have a processor.
        for round in 0.. {
            if round >= 2000 && (seen.len() > 1 || begin.elapsed() > SOON) {
                break;
            }
            let Reply::Array(values) = reader.command(&command).unwrap() else { panic!("MGET answers an array") };
            assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
            seen.insert(values[0].text());
        }
        assert!(seen.len() > 1, "the writers never got through");
    });
}

#[test]
fn keys_that_come_and_go_together_are_all_there_or_none() {
    let ashlar = Ashlar::shared();
    let stop = AtomicBool::new(false);
    let keys: Vec<String> = (0..8).map(|number| format!("together:{number}")).collect();
    let command = |verb: &str, value: Option<&str>| -> Vec<Vec<u8>> {
        let pairs = keys.iter().flat_map(|key| std::iter::once(key.as_str()).chain(value));
        std::iter::once(verb).chain(pairs).map(|word| word.as_bytes().to_vec()).collect()
    };
    let (mut seen, mut parts) = (HashSet::new(), Vec::new());
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = client(&ashlar);
            while !stop.load(Ordering::Relaxed) {
                writer.command(&command("MSET", Some("v"))).unwrap();
                writer.command(&command("DEL", None)).unwrap();
            }
        });
        let _end = End(&stop);
        let mut reader = client(&ashlar);
        let begin = Instant::now();
        // And until the writer has got through, which begins when it has a processor.
        for round in 0.. {
            if round >= 4000 && (seen.len() > 1 || begin.elapsed() > SOON) {
                break;
            }
            let verb = if round % 2 == 0 { "EXISTS" } else { "TOUCH" };
            match reader.command(&command(verb, None)).unwrap() {
                Reply::Integer(count @ (0 | 8)) => {
                    seen.insert(count);
                }
                other => parts.push((verb, other)),
            }
        }
    });
    assert!(parts.is_empty(), "parts of what comes and goes as a whole: {parts:?}");
    assert_eq!(seen.len(), 2, "the writer never got through");
}

#[test]
fn increments_of_many_connections_add_up() {
    let ashlar = Ashlar::shared();
    let mut own = client(&ashlar);
    let mut sql = ashlar.connect();
    sql.query("CREATE TABLE adding (id integer PRIMARY KEY, total bigint NOT NULL)").unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = client(&ashlar);
                for _ in 0..500 {
                    assert!(matches!(client.command(&["INCR", "adding"]).unwrap(), Reply::Integer(_)));
                    let row = client.command(&["HINCRBY", "adding:{1}", "total", "2"]).unwrap();
                    assert!(matches!(row, Reply::Integer(_)), "{row:?}");
                }
            });
        }
    });
    assert_eq!(own.command(&["GET", "adding"]).unwrap(), Reply::bulk("2000"));
    assert_eq!(sql.value("SELECT total FROM adding WHERE id = 1").unwrap(), "4000");
}

#[test]
fn numbers_that_are_always_generated_are_not_given_by_key() {
    let ashlar = Ashlar::start(Options::default()).unwrap();
    let mut sql = ashlar.connect();
    sql.query("CREATE TABLE ticket (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text)").unwrap();
    sql.query("CREATE TABLE line (k integer PRIMARY KEY, n bigint GENERATED ALWAYS AS IDENTITY (START 5), v text)")
        .unwrap();
    sql.query("INSERT INTO ticket (v) VALUES ('one')").unwrap();
    let mut redis = client(&ashlar);
    assert_eq!(redis.command(&["HSET", "ticket:{1}", "id", "1", "v", "uno"]).unwrap(), Reply::Integer(0));
    let refused = |reply: Reply| matches!(reply, Reply::Error(text) if text.contains("always generated"));
    assert!(refused(redis.command(&["HSET", "ticket:{2}", "v", "two"]).unwrap()));
    assert_eq!(redis.command(&["HSET", "line:{1}", "v", "a"]).unwrap(), Reply::Integer(1));
    assert_eq!(redis.command(&["HGET", "line:{1}", "n"]).unwrap(), Reply::bulk("5"));
    assert!(refused(redis.command(&["HSET", "line:{1}", "n", "9"]).unwrap()));
    assert!(refused(redis.command(&["HINCRBY", "line:{1}", "n", "1"]).unwrap()));
    assert!(refused(redis.command(&["HSETNX", "line:{2}", "n", "1"]).unwrap()));
    assert_eq!(sql.value("SELECT count(*) FROM ticket").unwrap(), "1");
    assert_eq!(sql.value("SELECT max(n) || v FROM line GROUP BY v").unwrap(), "5a");
}

#[test]
fn a_client_that_does_not_read_holds_little_memory_and_stops_nobody() {
    let ashlar = Ashlar::start(Options::default()).unwrap();
    let value = "v".repeat(1 << 20);
    let mut other = client(&ashlar);
    assert_eq!(other.command(&["SET", "big", &value]).unwrap(), Reply::Simple("OK".to_owned()));
    let before = ashlar.resident_bytes();
    let mut lazy = client(&ashlar);
    let mut bytes = Vec::new();
    let replies = 512;
    for _ in 0..replies {
        encode(&["GET", "big"], &mut bytes);
    }
    lazy.send_raw(&bytes).unwrap();
    // Half a gigabyte is asked for. Whoever else comes is served all the while.
    for number in 0..2000 {
        assert_eq!(other.command(&["ECHO", &number.to_string()]).unwrap(), Reply::bulk(number.to_string()));
    }
    let held = ashlar.resident_bytes().saturating_sub(before);
    assert!(held < 64 << 20, "{held} bytes are held for a client that does not read");
    for _ in 0..replies {
        assert_eq!(lazy.read_reply().unwrap(), Reply::bulk(&value));
    }
    assert_eq!(lazy.command(&["PING"]).unwrap(), Reply::Simple("PONG".to_owned()));
    ashlar.stop();
}

#[test]
fn large_replies_that_nobody_reads_have_a_bound_together() {
    const PATIENCE: Duration = Duration::from_secs(60);
    let config = "[store]\nmemory_mib_max = 64\n".to_owned();
    let ashlar = Ashlar::start(Options { config, ..Options::default() }).unwrap();
    let mut own = client(&ashlar);
    let value = "v".repeat(5 << 20);
    let ok = Reply::Simple("OK".to_owned());
    assert_eq!(own.command(&["SET", "big", &value]).unwrap(), ok);
    let mget = ["MGET", "big", "big", "big", "big", "big", "big"].to_vec();
    let whole = Reply::Array(vec![Reply::bulk(&value); 6]);
    // Whoever is alone has what he asks for; what follows comes when his reply is sent.
    assert!(own.command(&mget).unwrap() == whole);
    assert_eq!(own.command(&["ECHO", "sent"]).unwrap(), Reply::bulk("sent"));
    let mut bytes = Vec::new();
    encode(&mget, &mut bytes);
    let mut lazy = TcpStream::connect_timeout(&ashlar.resp(), PATIENCE).unwrap();
    lazy.set_read_timeout(Some(PATIENCE)).unwrap();
    lazy.write_all(&bytes).unwrap();
    let mut begin = [0; 4];
    lazy.read_exact(&mut begin).unwrap();
    assert_eq!(&begin, b"*6\r\n");
    let is_refused = |reply: &Reply| matches!(reply, Reply::Error(text) if text.starts_with("OOM "));
    assert!(is_refused(&own.command(&mget).unwrap()), "there is room still");
    // A transaction is refused before it has done anything; what is small has room, and so has what changes one key.
    let queued = [vec!["MULTI"], vec!["SET", "done", "1"], mget.clone(), vec!["EXEC"]];
    let replies: Vec<Reply> = queued.iter().map(|command| own.command(command).unwrap()).collect();
    assert!(is_refused(&replies[3]), "{:?}", replies[3]);
    assert_eq!(own.command(&["EXISTS", "done"]).unwrap(), Reply::Integer(0));
    assert_eq!(own.command(&["SET", "big", "small", "GET"]).unwrap(), Reply::bulk(&value));
    assert_eq!(own.command(&["SET", "big", &value]).unwrap(), ok);
    let rest = format!("${}\r\n{value}\r\n", value.len()).repeat(6);
    let mut read = vec![0; rest.len()];
    lazy.read_exact(&mut read).unwrap();
    assert!(read == rest.as_bytes());
    // Whoever has read his reply has left its room to others.
    assert!(wait_for(PATIENCE, || own.command(&mget).unwrap() == whole));
    ashlar.stop();
}

#[test]
fn a_value_that_there_is_no_memory_for_is_refused_before_it_is_made() {
    let config = "[store]\nmemory_mib_max = 64\n".to_owned();
    let ashlar = Ashlar::start(Options { config, ..Options::default() }).unwrap();
    let mut own = client(&ashlar);
    let most = || -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", ashlar.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    };
    let before = most();
    let reply = own.command(&["SETRANGE", "sparse", "200000000", "x"]).unwrap();
    assert!(matches!(&reply, Reply::Error(text) if text.starts_with("OOM ")), "{reply:?}");
    // The system adds it up of what each processor has counted, and may tell a little less the second time.
    let grown = most().saturating_sub(before);
    assert!(grown < 100_000_000, "{grown} bytes were taken for what was refused");
    assert_eq!(own.command(&["EXISTS", "sparse"]).unwrap(), Reply::Integer(0));
    // What fits is made, and its copies are given back.
    assert_eq!(own.command(&["SETRANGE", "sparse", "999999", "x"]).unwrap(), Reply::Integer(1_000_000));
    assert_eq!(own.command(&["APPEND", "sparse", "more"]).unwrap(), Reply::Integer(1_000_004));
    assert_eq!(own.command(&["GETRANGE", "sparse", "999998", "-1"]).unwrap(), Reply::bulk("\0xmore"));
    ashlar.stop();
}

#[test]
fn clients_are_listed_in_the_order_asked_for() {
    let (redis, ashlar) = (Redis::start().unwrap(), Ashlar::start(Options::default()).unwrap());
    for address in [redis.address(), ashlar.resp()] {
        let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(address).unwrap()).collect();
        let ids: Vec<String> = clients
            .iter_mut()
            .map(|client| match client.command(&["CLIENT", "ID"]).unwrap() {
                Reply::Integer(id) => id.to_string(),
                other => panic!("{other:?}"),
            })
            .collect();
        let asked = [&*ids[2], &ids[0], "1000000", "-1", &ids[1], &ids[0]];
        let mut command = vec!["CLIENT", "LIST", "ID"];
        command.extend(asked);
        let text = clients[1].command(&command).unwrap().text().unwrap();
        let listed: Vec<&str> =
            text.lines().map(|line| line.split(' ').next().unwrap().strip_prefix("id=").unwrap()).collect();
        assert_eq!(listed, [&*ids[2], &ids[0], &ids[1], &ids[0]]);
    }
    ashlar.stop();
}

#[test]
fn the_figures_of_info_are_true() {
    let ashlar = Ashlar::start(Options::default()).unwrap();
    let mut own = client(&ashlar);
    let mut second = client(&ashlar);
    assert_eq!(second.command(&["PING"]).unwrap(), Reply::Simple("PONG".to_owned()));
    let mut figure = |name: &str| -> String {
        let text = own.command(&["INFO"]).unwrap().text().unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::to_owned));
        line.unwrap_or_else(|| panic!("INFO has no {name}:\n{text}"))
    };
    assert_eq!(figure("process_id"), ashlar.pid().to_string());
    assert_eq!(figure("tcp_port"), ashlar.resp().port().to_string());
    let commands: u64 = figure("total_commands_processed").parse().unwrap();
    assert_eq!(figure("total_commands_processed"), (commands + 1).to_string());
    assert_eq!(figure("total_error_replies"), "0");
    let dataset: u64 = figure("used_memory_dataset").parse().unwrap();
    for number in 0..1000 {
        let (key, value) = (format!("figure:{number}"), "x".repeat(1000));
        assert_eq!(client(&ashlar).command(&["SET", &key, &value]).unwrap(), Reply::Simple("OK".to_owned()));
    }
    let grown: u64 = figure("used_memory_dataset").parse().unwrap();
    assert!(grown >= dataset + 1_000_000, "a million bytes were stored, and {dataset} became {grown}");
    assert_eq!(figure("db0"), "keys=1000,expires=0,avg_ttl=0");
    for (key, seconds) in [("figure:1", "100000"), ("figure:2", "300000"), ("figure:2", "500000")] {
        assert_eq!(second.command(&["EXPIRE", key, seconds]).unwrap(), Reply::Integer(1));
    }
    let ends = figure("db0");
    let left: u64 = ends.strip_prefix("keys=1000,expires=2,avg_ttl=").unwrap().parse().unwrap();
    assert!((290_000_000..=300_000_000).contains(&left), "{ends}");
    assert_eq!(second.command(&["DEL", "figure:2"]).unwrap(), Reply::Integer(1));
    assert_eq!(second.command(&["PERSIST", "figure:1"]).unwrap(), Reply::Integer(1));
    assert_eq!(figure("db0"), "keys=999,expires=0,avg_ttl=0");
    assert_eq!(figure("total_connections_received"), "1002");
    let mut last = client(&ashlar);
    assert!(matches!(last.command(&words("GET a b")).unwrap(), Reply::Error(_)));
    assert_eq!(figure("total_error_replies"), "1");
    assert_eq!(last.command(&words("CONFIG RESETSTAT")).unwrap(), Reply::Simple("OK".to_owned()));
    assert_eq!(figure("total_commands_processed"), "1");
    assert_eq!(figure("total_error_replies"), "0");
    assert_eq!(figure("total_connections_received"), "0");
    ashlar.stop();
}

#[test]
fn the_bound_of_memory_changes_while_the_server_runs() {
    /// 32 MiB in all.
    const VALUES: i64 = 2048;
    let ashlar = Ashlar::start(Options::default()).unwrap();
    let mut own = client(&ashlar);
    let ok = Reply::Simple("OK".to_owned());
    let value = "x".repeat(16 << 10);
    let set = |number: i64| vec![b"SET".to_vec(), format!("bound:{number}").into_bytes(), value.clone().into_bytes()];
    let all: Vec<_> = (0..VALUES).map(set).collect();
    for chunk in all.chunks(64) {
        assert!(own.pipeline(chunk).unwrap().iter().all(|reply| *reply == ok));
    }
    assert_eq!(own.command(&words("CONFIG SET maxmemory 16mb")).unwrap(), ok);
    let more = ["SET", "bound:more", &value];
    let refused = own.command(&more).unwrap();
    assert!(matches!(&refused, Reply::Error(text) if text.starts_with("OOM ")), "{refused:?}");
    assert_eq!(own.command(&words("GET bound:more")).unwrap(), Reply::Null);
    // What is there makes room, where it may.
    assert_eq!(own.command(&words("CONFIG SET maxmemory-policy allkeys-lru")).unwrap(), ok);
    let takes_more = || own.command(&more).unwrap() == ok;
    assert!(wait_for(Duration::from_secs(60), takes_more), "nothing makes room");
    let Reply::Integer(left) = own.command(&["DBSIZE"]).unwrap() else { panic!("DBSIZE counts") };
    assert!((1..=VALUES / 2).contains(&left), "{left} values of 16 KiB are left");
    assert_eq!(own.command(&words("CONFIG SET maxmemory 1gb maxmemory-policy noeviction")).unwrap(), ok);
    for chunk in all.chunks(64) {
        assert!(own.pipeline(chunk).unwrap().iter().all(|reply| *reply == ok));
    }
    let Reply::Integer(there) = own.command(&["DBSIZE"]).unwrap() else { panic!("DBSIZE counts") };
    assert!(there >= VALUES, "{there} values are there");
    ashlar.stop();
}

#[test]
fn a_cache_of_plain_keys_is_configured_before_it_starts() {
    let policy = |own: &mut Client| {
        let Reply::Array(found) = own.command(&words("CONFIG GET maxmemory-policy")).unwrap() else { panic!("no map") };
        found[1].text().unwrap()
    };
    for (written, named) in
        [("none", "noeviction"), ("lru", "allkeys-lru"), ("lfu", "allkeys-lfu"), ("random", "allkeys-random")]
    {
        let config = format!("[store]\nplain_keys_eviction = \"{written}\"\n");
        let ashlar = Ashlar::start(Options { config, ..Options::default() }).unwrap();
        assert_eq!(policy(&mut client(&ashlar)), named);
        ashlar.stop();
    }
    let config = "[store]\nmemory_mib_max = 16\nplain_keys_eviction = \"random\"\n".to_owned();
    let ashlar = Ashlar::start(Options { config, ..Options::default() }).unwrap();
    let mut own = client(&ashlar);
    let (ok, value) = (Reply::Simple("OK".to_owned()), "x".repeat(16 << 10));
    // 32 MiB in all: what is there makes room.
    for number in 0..2048 {
        let name = format!("cache:{number}");
        let is_taken = || own.command(&["SET", &name, &value]).unwrap() == ok;
        assert!(wait_for(SOON, is_taken), "nothing makes room for {name}");
    }
    let Reply::Integer(left) = own.command(&["DBSIZE"]).unwrap() else { panic!("DBSIZE counts") };
    assert!((1..=1024).contains(&left), "{left} values of 16 KiB are left");
    assert_eq!(own.command(&words("CONFIG SET maxmemory-policy noeviction")).unwrap(), ok);
    assert_eq!(policy(&mut own), "noeviction");
    ashlar.stop();
}

#[test]
fn messages_arrive_in_the_order_in_which_they_were_published() {
    const MESSAGES: usize = 10_000;
    let ashlar = Ashlar::start(Options::default()).unwrap();
    let (mut listener, mut speaker) = (client(&ashlar), client(&ashlar));
    let confirmed = listener.command(&words("SUBSCRIBE numbers")).unwrap();
    assert_eq!(confirmed, Reply::Array(vec![Reply::bulk("subscribe"), Reply::bulk("numbers"), Reply::Integer(1)]));
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..MESSAGES {
                let message =
                    Reply::Array(vec![Reply::bulk("message"), Reply::bulk("numbers"), Reply::bulk(number.to_string())]);
                assert_eq!(listener.read_reply().unwrap(), message);
            }
        });
        let publish = |number: usize| vec![b"PUBLISH".to_vec(), b"numbers".to_vec(), number.to_string().into_bytes()];
        let commands: Vec<_> = (0..MESSAGES).map(publish).collect();
        for chunk in commands.chunks(100) {
            assert!(speaker.pipeline(chunk).unwrap().iter().all(|reply| *reply == Reply::Integer(1)));
        }
    });
    // A client that goes listens to nothing any more.
    drop(listener);
    assert!(wait_for(Duration::from_secs(60), || {
        speaker.command(&words("PUBLISH numbers over")).unwrap() == Reply::Integer(0)
    }));
    ashlar.stop();
}

/// Rows that are brought near before their commands run: how many, and for whom. Of one partition it is one row at a time, and what
/// somebody has locked is left alone.
#[test]
fn rows_of_a_pipeline_and_of_several_keys_are_looked_ahead_for() {
    const KEYS: usize = 20;
    let ashlar = Ashlar::start(Options::default()).unwrap();
    let mut own = client(&ashlar);
    let command = |words: &[&str]| -> Vec<Vec<u8>> { words.iter().map(|word| word.as_bytes().to_vec()).collect() };
    let keys: Vec<String> = (0..KEYS).map(|number| format!("ahead:{number}")).collect();
    let sets: Vec<_> = keys.iter().map(|key| command(&["SET", key.as_str(), "x"])).collect();
    own.pipeline(&sets).unwrap();
    let looked_ahead = |own: &mut Client| -> u64 {
        let stats = own.command(&["INFO", "stats"]).unwrap().text().unwrap();
        let count = stats.lines().find_map(|line| line.strip_prefix("ashlar_rows_looked_ahead:")).unwrap();
        count.parse().unwrap()
    };
    let gets: Vec<_> = keys.iter().map(|key| command(&["GET", key.as_str()])).collect();
    let of_all = |name: &str, value: Option<&str>| {
        let mut all = vec![name];
        all.extend(keys.iter().flat_map(|key| [Some(key.as_str()), value]).flatten());
        vec![command(&all)]
    };
    let mut asked = vec![("a pipeline", gets.clone()), ("MSET", of_all("MSET", Some("y")))];
    asked.extend(["MGET", "EXISTS", "TOUCH", "DEL", "UNLINK"].map(|name| (name, of_all(name, None))));
    for (what, commands) in asked {
        // What one write sends may come in two parts.
        let mut most = 0;
        for _ in 0..100 {
            own.pipeline(&sets).unwrap();
            let before = looked_ahead(&mut own);
            own.pipeline(&commands).unwrap();
            most = most.max(looked_ahead(&mut own) - before);
            if most > KEYS as u64 / 2 {
                break;
            }
        }
        assert!(most > KEYS as u64 / 2, "{what} of {KEYS} keys looks ahead for {most}");
    }
    let before = looked_ahead(&mut own);
    own.pipeline(&gets[..1]).unwrap();
    assert_eq!(looked_ahead(&mut own), before, "one command has nothing ahead of it");
    own.command(&["CONFIG", "RESETSTAT"]).unwrap();
    assert_eq!(looked_ahead(&mut own), 0);
}
