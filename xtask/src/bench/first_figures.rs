//! The first figures: one row for each promise on the store and its keys, whatever the answer is.
//!
//! Each group of rows starts its own servers. A server that refuses a statement costs its figure, not the run.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::clients::{self, KeyLoad, Length};
use super::servers::{SERVER_CORE, Server};
use super::table::{self, Row};
use super::{Options, data, latency, machine};
use crate::{build, run, setup};

const PAGE: &str = "docs/benchmarks.md";
const BEGIN: &str = "<!-- first-figures begin -->";
const END: &str = "<!-- first-figures end -->";

/// How much work a full run does.
struct Scale {
    keys: u64,
    requests: u64,
    rows: u64,
    accounts: u64,
    documents: u64,
    seconds: u64,
}

const FULL: Scale = Scale {
    keys: 1_000_000,
    requests: 300_000,
    rows: 10_000_000,
    accounts: 1_000_000,
    documents: 1_000_000,
    seconds: 5,
};
const QUICK: Scale =
    Scale { keys: 10_000, requests: 10_000, rows: 100_000, accounts: 10_000, documents: 10_000, seconds: 1 };

struct Bench<'a> {
    options: &'a Options,
    scale: Scale,
    rows: Vec<Row>,
}

/// Measures some rows; an error costs the rest of the group's rows and is shown in their place.
type Group = fn(&mut Bench<'_>) -> Result<()>;

/// Runs every group that was asked for.
pub(super) fn run(options: &Options) -> Result<()> {
    setup::require(&[setup::BUILD, setup::CLIENTS, setup::TEST])?;
    build::server(&options.profile)?;
    let mut bench = Bench { options, scale: if options.quick { QUICK } else { FULL }, rows: Vec::new() };
    let groups: [(&str, Group); 8] = [
        ("resp", resp),
        ("cores", cores),
        ("memory", memory),
        ("latency", latency_under_load),
        ("sql", sql),
        ("scan", scan),
        ("copy", copy),
        ("json", json),
    ];
    for (name, group) in groups {
        if options.only.is_empty() || options.only.iter().any(|wanted| wanted == name) {
            let began = Instant::now();
            eprintln!("x: {name} ...");
            if let Err(error) = group(&mut bench) {
                bench.note(name, "", format!("not measured: {error:#}"));
            }
            eprintln!("x: {name}: {}", run::spoken(began.elapsed()));
        }
    }
    if options.only.is_empty() {
        bench.note(
            "put with 8-byte value, 16 threads, beside Geode and Hazelcast",
            "5 x",
            "not measured yet: the two Java rivals come with the lab".into(),
        );
        bench.note(
            "SQL by indexed value, one row of 10 M",
            "2 x PostgreSQL",
            "not measured yet: there are no secondary indexes".into(),
        );
    }
    let report = format!("{}\n{}", machine::description(&options.profile)?, table::markdown(&bench.rows));
    println!("{report}");
    if options.write {
        write(&report)?;
    }
    Ok(())
}

/// Replaces what stands between the two marks of the page.
fn write(report: &str) -> Result<()> {
    let page = std::fs::read_to_string(PAGE)?;
    let (before, rest) = page.split_once(BEGIN).with_context(|| format!("{PAGE} has no mark {BEGIN}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("{PAGE} has no mark {END}"))?;
    std::fs::write(PAGE, format!("{before}{BEGIN}\n{report}{END}{after}"))?;
    Ok(())
}

/// GET and SET without and with a pipeline, then few connections against many.
fn resp(bench: &mut Bench<'_>) -> Result<()> {
    let servers = [
        Server::ashlar(&bench.options.profile, SERVER_CORE)?,
        Server::redis(SERVER_CORE)?,
        Server::valkey(SERVER_CORE)?,
    ];
    let keys = bench.scale.keys;
    for server in &servers {
        data::set_keys(server.resp()?, keys, 100, |number| number)?;
    }
    let load = |command, connections, pipeline, requests| KeyLoad {
        command,
        connections,
        pipeline,
        requests,
        keys,
        value_bytes: 100,
    };
    let requests = bench.scale.requests;
    for (pipeline, wanted) in [(1, "1.2 x Redis and Valkey"), (16, "2 x Redis, 1.5 x Valkey")] {
        for command in ["get", "set"] {
            let measured = interleaved(bench.options.runs, &servers, |server| {
                clients::redis_benchmark(
                    server.resp()?,
                    &load(command, 50, pipeline, requests * u64::from(pipeline).min(8)),
                )
            });
            let how = if pipeline == 1 { "no pipeline".to_owned() } else { format!("pipeline {pipeline}") };
            bench.rates(format!("{} 100 B, 50 connections, {how}", command.to_uppercase()), wanted, &measured);
        }
    }
    let mut standings = Vec::new();
    let mut figures = Vec::new();
    for server in &servers {
        let mut samples = [Vec::new(), Vec::new()];
        for _ in 0..bench.options.runs {
            for (place, connections) in [32, 512].into_iter().enumerate() {
                samples[place].push(clients::redis_benchmark(server.resp()?, &load("get", connections, 1, requests))?);
            }
        }
        let [few, many] = samples.map(|samples| table::median(&samples));
        figures.push((server.name.to_owned(), format!("{} -> {}", table::rate(few), table::rate(many))));
        standings.push(format!("{} {:+.0} %", server.name, 100.0 * (many / few - 1.0)));
    }
    bench.rows.push(Row {
        what: "GET, 512 connections against 32".into(),
        wanted: "no loss over 5 %",
        figures,
        standing: standings.join(", "),
    });
    Ok(())
}

/// One core against two. The client needs a core as well and there are two in all, so this shows a lower bound.
fn cores(bench: &mut Bench<'_>) -> Result<()> {
    let one = Server::ashlar(&bench.options.profile, SERVER_CORE)?;
    let two = Server::ashlar(&bench.options.profile, "0,1")?;
    let keys = bench.scale.keys;
    let mut samples = [Vec::new(), Vec::new()];
    for server in [&one, &two] {
        data::set_keys(server.resp()?, keys, 100, |number| number)?;
    }
    for _ in 0..bench.options.runs {
        for (place, server) in [&one, &two].into_iter().enumerate() {
            let requests = bench.scale.requests * 8;
            let load = KeyLoad { command: "get", connections: 50, pipeline: 16, requests, keys, value_bytes: 100 };
            samples[place].push(clients::redis_benchmark(server.resp()?, &load)?);
        }
    }
    let [one, two] = samples.map(|samples| table::median(&samples));
    bench.rows.push(Row {
        what: "GET, pipeline 16, two server cores against one (the client on one of them too)".into(),
        wanted: "1.6 x",
        figures: vec![("one".into(), table::rate(one)), ("two".into(), table::rate(two))],
        standing: format!("{:.2} x", two / one),
    });
    Ok(())
}

/// Resident bytes an entry: fresh, and after twenty times as many random overwrites.
fn memory(bench: &mut Bench<'_>) -> Result<()> {
    let keys = bench.scale.keys;
    for (value_bytes, wanted) in [(100, "0.75 x Redis"), (8, "0.5 x Redis")] {
        let mut fresh = Vec::new();
        let mut churned = Vec::new();
        for name in ["Ashlar", "Redis", "Valkey"] {
            let server = match name {
                "Ashlar" => Server::ashlar(&bench.options.profile, SERVER_CORE)?,
                "Redis" => Server::redis(SERVER_CORE)?,
                _ => Server::valkey(SERVER_CORE)?,
            };
            let empty = server.settled_bytes()?;
            data::set_keys(server.resp()?, keys, value_bytes, |number| number)?;
            let per_key = |bytes: u64| bytes.saturating_sub(empty) as f64 / keys as f64;
            fresh.push((name, per_key(server.settled_bytes()?)));
            let mut numbers = data::Numbers::new(42);
            data::set_keys(server.resp()?, keys * 20, value_bytes, |_| numbers.below(keys))?;
            churned.push((name, per_key(server.settled_bytes()?)));
        }
        let bytes = |figures: &[(&str, f64)]| {
            figures.iter().map(|(name, bytes)| ((*name).to_owned(), format!("{bytes:.0} B"))).collect()
        };
        bench.rows.push(Row {
            what: format!("bytes an entry, {} keys of 16 B, values of {value_bytes} B", table::short(keys as f64)),
            wanted,
            figures: bytes(&fresh),
            standing: format!("{:.2} x Redis, {:.2} x Valkey", fresh[0].1 / fresh[1].1, fresh[0].1 / fresh[2].1),
        });
        bench.rows.push(Row {
            what: format!("the same after random overwrites of 20 times the data, values of {value_bytes} B"),
            wanted: "within 25 % of fresh",
            figures: bytes(&churned),
            standing: churned
                .iter()
                .zip(&fresh)
                .map(|((name, after), (_, before))| format!("{name} {:+.0} %", 100.0 * (after / before - 1.0)))
                .collect::<Vec<_>>()
                .join(", "),
        });
    }
    Ok(())
}

/// GETs at half the largest rate while a query over everything runs on the same core.
fn latency_under_load(bench: &mut Bench<'_>) -> Result<()> {
    let server = Server::ashlar(&bench.options.profile, SERVER_CORE)?;
    let (resp, sql) = (server.resp()?, server.sql()?);
    let keys = bench.scale.keys;
    data::set_keys(resp, keys, 100, |number| number)?;
    create_four(&server, "")?;
    clients::copy_in(sql, "four", &data::four_columns(bench.scale.rows)?)?;
    let load = KeyLoad {
        command: "get",
        connections: 50,
        pipeline: 1,
        requests: bench.scale.requests,
        keys,
        value_bytes: 100,
    };
    let most = clients::redis_benchmark(resp, &load)?;
    let seconds = bench.scale.seconds + 1;
    let query =
        "SELECT a % 1000, count(*), sum(b), max(c), count(DISTINCT c) FROM four GROUP BY 1 ORDER BY 2 DESC LIMIT 10;";
    let quiet = latency::paced_gets(resp, most / 2.0, Duration::from_secs(seconds), keys, 100)?;
    let analyst = std::thread::spawn(move || clients::pgbench(sql, query, 1, Length::Seconds(seconds)));
    let busy = latency::paced_gets(resp, most / 2.0, Duration::from_secs(seconds), keys, 100)?;
    let query_time = match analyst.join() {
        Ok(report) => report?.latency,
        Err(_) => anyhow::bail!("the analyst's thread panicked"),
    };
    let show = |latencies: &latency::Latencies| {
        format!(
            "p50 {:.0?}, p99 {:.0?}, p99.9 {:.0?}",
            latencies.quantile(0.5),
            latencies.quantile(0.99),
            latencies.quantile(0.999)
        )
    };
    bench.rows.push(Row {
        what: format!(
            "GET at half the largest rate ({}) while queries of {query_time:.1?} run on the same core",
            table::rate(most / 2.0)
        ),
        wanted: "p99.9 under 2 ms",
        figures: vec![("quiet:".into(), show(&quiet)), ("busy:".into(), show(&busy))],
        standing: format!("p99.9 {:.2?}", busy.quantile(0.999)),
    });
    Ok(())
}

/// Rows by primary key, prepared.
fn sql(bench: &mut Bench<'_>) -> Result<()> {
    let servers = [Server::ashlar(&bench.options.profile, SERVER_CORE)?, Server::postgres(SERVER_CORE)?];
    let accounts = bench.scale.accounts;
    let file = data::accounts(accounts)?;
    for server in &servers {
        let unlogged = if server.name == "PostgreSQL" { "UNLOGGED" } else { "" };
        clients::sql(
            server.sql()?,
            &format!(
                "CREATE {unlogged} TABLE accounts (aid bigint PRIMARY KEY, bid bigint, abalance bigint, filler text)"
            ),
        )?;
        clients::copy_in(server.sql()?, "accounts", &file)?;
        if server.name == "PostgreSQL" {
            clients::sql(server.sql()?, "VACUUM ANALYZE accounts")?;
        }
    }
    let seconds = bench.scale.seconds;
    let pick = format!("\\set aid random(1, {accounts})\n");
    for (what, wanted, statement) in [
        (
            "SELECT by primary key, prepared, 16 connections",
            "2 x PostgreSQL",
            "SELECT abalance FROM accounts WHERE aid = :aid;",
        ),
        (
            "UPDATE of one row by key, prepared, 16 connections, unlogged",
            "3 x PostgreSQL",
            "UPDATE accounts SET abalance = abalance + 1 WHERE aid = :aid;",
        ),
    ] {
        let script = format!("{pick}{statement}\n");
        let measured = interleaved(bench.options.runs, &servers, |server| {
            Ok(clients::pgbench(server.sql()?, &script, 16, Length::Seconds(seconds))?.rate)
        });
        bench.rates(what.to_owned(), wanted, &measured);
    }
    Ok(())
}

/// A sum beside a plain loop, and whole tables to one client.
fn scan(bench: &mut Bench<'_>) -> Result<()> {
    let servers = [Server::ashlar(&bench.options.profile, SERVER_CORE)?, Server::postgres(SERVER_CORE)?];
    let rows = bench.scale.rows;
    let (few, many) = (rows / 100, rows / 10);
    for server in &servers {
        let unlogged = if server.name == "PostgreSQL" { "UNLOGGED" } else { "" };
        let address = server.sql()?;
        create_four(server, unlogged)?;
        clients::copy_in(address, "four", &data::four_columns(rows)?)?;
        clients::sql(address, &format!("CREATE {unlogged} TABLE texts (t text, a int[])"))?;
        clients::copy_in(address, "texts", &data::texts(few)?)?;
        clients::sql(address, &format!("CREATE {unlogged} TABLE pairs (a bigint, b bigint)"))?;
        clients::copy_in(address, "pairs", &data::pairs(many)?)?;
        if server.name == "PostgreSQL" {
            clients::sql(address, "VACUUM ANALYZE")?;
        }
    }
    let plain = plain_loop(rows)?;
    let sums = interleaved(bench.options.runs, &servers, |server| {
        Ok(clients::pgbench(server.sql()?, "SELECT sum(a) FROM four;\n", 1, Length::Statements(3))?
            .latency
            .as_secs_f64())
    });
    let mut figures = vec![("plain loop".to_owned(), format!("{plain:.1?}"))];
    figures.extend(sums.iter().map(|(name, samples)| (name.clone(), seconds_or_reason(samples))));
    let standing = match &sums[0].1 {
        Ok(samples) => format!("{:.0} % of the plain loop", 100.0 * plain.as_secs_f64() / table::median(samples)),
        Err(reason) => reason.clone(),
    };
    bench.rows.push(Row {
        what: format!("sum of {} bigints, one core", table::short(rows as f64)),
        wanted: "50 % of a plain loop",
        figures,
        standing,
    });

    for (table_name, what, count, wanted) in [
        ("texts", "(text, int[20])", few, "1.5 x PostgreSQL"),
        ("pairs", "(bigint, bigint)", many, "1.5 x PostgreSQL, over 2.4 M rows/s"),
    ] {
        let script = format!("SELECT * FROM {table_name};\n");
        let measured = interleaved(bench.options.runs, &servers, |server| {
            Ok(clients::pgbench(server.sql()?, &script, 1, Length::Statements(3))?.rate * count as f64)
        });
        bench.rates(
            format!("SELECT * of {} rows {what} to one client, rows", table::short(count as f64)),
            wanted,
            &measured,
        );
    }
    Ok(())
}

/// COPY of a large file into an empty table with a primary key.
fn copy(bench: &mut Bench<'_>) -> Result<()> {
    let servers = [Server::ashlar(&bench.options.profile, SERVER_CORE)?, Server::postgres(SERVER_CORE)?];
    let rows = bench.scale.rows;
    let file = data::four_columns(rows)?;
    for server in &servers {
        create_four(server, if server.name == "PostgreSQL" { "UNLOGGED" } else { "" })?;
    }
    let measured = interleaved(bench.options.runs.min(3), &servers, |server| {
        clients::sql(server.sql()?, "TRUNCATE four")?;
        let time = clients::copy_in(server.sql()?, "four", &file)?;
        Ok(rows as f64 / time.as_secs_f64())
    });
    bench.rates(
        format!("COPY in, {} rows of 4 columns with a primary key, rows", table::short(rows as f64)),
        "2 x PostgreSQL",
        &measured,
    );
    Ok(())
}

/// A field out of many documents.
fn json(bench: &mut Bench<'_>) -> Result<()> {
    let servers = [Server::ashlar(&bench.options.profile, SERVER_CORE)?, Server::postgres(SERVER_CORE)?];
    let documents = bench.scale.documents;
    let file = data::documents(documents)?;
    for server in &servers {
        let unlogged = if server.name == "PostgreSQL" { "UNLOGGED" } else { "" };
        clients::sql(server.sql()?, &format!("CREATE {unlogged} TABLE documents (id bigint PRIMARY KEY, doc jsonb)"))?;
        clients::copy_in(server.sql()?, "documents", &file)?;
    }
    let script = "SELECT sum((doc->>'amount')::bigint) FROM documents;\n";
    let measured = interleaved(bench.options.runs, &servers, |server| {
        Ok(clients::pgbench(server.sql()?, script, 1, Length::Statements(1))?.latency.as_secs_f64())
    });
    let standing = match (&measured[0].1, &measured[1].1) {
        (Ok(ours), Ok(theirs)) => {
            format!("{:.1} x PostgreSQL; Hazelcast not measured yet", table::median(theirs) / table::median(ours))
        }
        (Err(reason), _) | (_, Err(reason)) => reason.clone(),
    };
    bench.rows.push(Row {
        what: format!("sum of a JSON field over {} documents of half a kilobyte", table::short(documents as f64)),
        wanted: "10 x Hazelcast",
        figures: measured.iter().map(|(name, samples)| (name.clone(), seconds_or_reason(samples))).collect(),
        standing,
    });
    Ok(())
}

fn create_four(server: &Server, unlogged: &str) -> Result<()> {
    let statement =
        format!("CREATE {unlogged} TABLE four (id bigint PRIMARY KEY, a bigint, b double precision, c text)");
    clients::sql(server.sql()?, &statement).map(drop)
}

/// The yardstick of a scan: this machine's plain loop over as many integers, compiled with optimisation.
fn plain_loop(rows: u64) -> Result<Duration> {
    let folder = run::target_dir().join("bench");
    std::fs::create_dir_all(&folder)?;
    let program = std::path::absolute(folder.join("plain_loop"))?;
    run::run("rustc", &["--edition", "2024", "-O", "-o", &program.to_string_lossy(), "xtask/bench/plain_loop.rs"])?;
    let micros = run::read(
        Command::new("taskset").args(["-c", SERVER_CORE]).arg(&program).args([rows.to_string(), "15".into()]),
    )?;
    Ok(Duration::from_micros(micros.trim().parse()?))
}

/// Samples of each server in turn, so that a slow minute of the machine hits all of them. The first failure of a server
/// ends its own samples.
type Measured = Vec<(String, Result<Vec<f64>, String>)>;

fn interleaved(runs: usize, servers: &[Server], measure: impl Fn(&Server) -> Result<f64>) -> Measured {
    let mut measured: Measured = servers.iter().map(|server| (server.name.to_owned(), Ok(Vec::new()))).collect();
    for _ in 0..runs {
        for (server, (_, samples)) in servers.iter().zip(&mut measured) {
            if let Ok(list) = samples {
                match measure(server) {
                    Ok(sample) => list.push(sample),
                    Err(error) => *samples = Err(format!("{error:#}")),
                }
            }
        }
    }
    measured
}

fn seconds_or_reason(samples: &Result<Vec<f64>, String>) -> String {
    match samples {
        Ok(samples) => format!("{:.1?}", Duration::from_secs_f64(table::median(samples))),
        Err(_) => "refused".to_owned(),
    }
}

impl Bench<'_> {
    /// A row of rates, ours first: the higher the better.
    fn rates(&mut self, what: String, wanted: &'static str, measured: &Measured) {
        let figure = |samples: &Result<Vec<f64>, String>| match samples {
            Ok(samples) => format!("{} (spread {:.0} %)", table::rate(table::median(samples)), table::spread(samples)),
            Err(_) => "refused".to_owned(),
        };
        let standing = match &measured[0].1 {
            Err(reason) => reason.clone(),
            Ok(ours) => measured[1..]
                .iter()
                .map(|(name, theirs)| match theirs {
                    Ok(theirs) => format!("{:.2} x {name}", table::median(ours) / table::median(theirs)),
                    Err(reason) => format!("{name}: {reason}"),
                })
                .collect::<Vec<_>>()
                .join(", "),
        };
        let figures = measured.iter().map(|(name, samples)| (name.clone(), figure(samples))).collect();
        eprintln!("x:   {what}: {standing}");
        self.rows.push(Row { what, wanted, figures, standing });
    }

    fn note(&mut self, what: &str, wanted: &'static str, reason: String) {
        self.rows.push(Row { what: what.to_owned(), wanted, figures: Vec::new(), standing: reason });
    }
}
