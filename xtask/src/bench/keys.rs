//! The rows about keys: requests a second, bytes an entry, latency beside a query.
//!
//! Called by `first_figures`; each function starts its own servers and adds its rows.

use std::time::Duration;

use anyhow::Result;

use super::clients::{self, KeyLoad, Length};
use super::first_figures::{Bench, interleaved};
use super::servers::{SERVER_CORE, Server};
use super::table::{self, Row};
use super::tables::create_four;
use super::{data, latency};

/// GET and SET without and with a pipeline, then few connections against many.
pub(super) fn resp(bench: &mut Bench<'_>) -> Result<()> {
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

/// Small values written by sixteen clients, each waiting for its answer.
pub(super) fn puts(bench: &mut Bench<'_>) -> Result<()> {
    let servers = [
        Server::ashlar(&bench.options.profile, SERVER_CORE)?,
        Server::redis(SERVER_CORE)?,
        Server::valkey(SERVER_CORE)?,
    ];
    let (keys, requests) = (bench.scale.keys, bench.scale.requests);
    let load = KeyLoad { command: "set", connections: 16, pipeline: 1, requests, keys, value_bytes: 8 };
    let measured = interleaved(bench.options.runs, &servers, |server| clients::redis_benchmark(server.resp()?, &load));
    bench.rates(
        "put with 8-byte value, 16 clients (Geode and Hazelcast come with the lab)".to_owned(),
        "5 x Geode and Hazelcast",
        &measured,
    );
    Ok(())
}

/// One core against two. The client needs a core as well and there are two in all, so this shows a lower bound.
pub(super) fn cores(bench: &mut Bench<'_>) -> Result<()> {
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
pub(super) fn memory(bench: &mut Bench<'_>) -> Result<()> {
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
pub(super) fn latency_under_load(bench: &mut Bench<'_>) -> Result<()> {
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
