//! The rows about keys: requests a second, bytes an entry, latency beside a query.
//!
//! Called by `first_figures`; each function starts its own servers and adds its rows.

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use super::clients::{self, KeyLoad, Length};
use super::first_figures::{Bench, Contender, NO_FIGURE, Samples, against, in_turn};
use super::grids::{self, Grid, Load, Product};
use super::noop::Noop;
use super::servers::{CLIENT_CORE, SERVER_CORE, Server};
use super::table::{self, Row};
use super::tables::create_four;
use super::{data, latency, noop};
use crate::run;

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
            let load = load(command, 50, pipeline, requests * u64::from(pipeline).min(8));
            let mut contenders = resp_contenders(&servers, &load);
            contenders.push(ceiling(&load));
            let measured = in_turn(bench.options.runs, contenders);
            let how = if pipeline == 1 { "no pipeline".to_owned() } else { format!("pipeline {pipeline}") };
            let standing =
                format!("{}; {}", against(&measured[0], &measured[1..3]), of_ceiling(&measured[0], &measured[3]));
            bench.standing(
                format!("{} 100 B, 50 connections, {how}", command.to_uppercase()),
                wanted,
                &measured,
                standing,
            );
        }
    }
    let (few, many) = (load("get", 32, 1, requests), load("get", 512, 1, requests));
    let mut contenders = Vec::new();
    for load in [&few, &many] {
        contenders.extend(resp_contenders(&servers, load));
        contenders.push(ceiling(load));
    }
    let measured = in_turn(bench.options.runs, contenders);
    let (few, many) = measured.split_at(measured.len() / 2);
    let mut standings = Vec::new();
    let mut figures = Vec::new();
    for ((name, few), (_, many)) in few.iter().zip(many) {
        let (figure, standing) = match (few, many) {
            (Ok(few), Ok(many)) => {
                let (few, many) = (table::median(few), table::median(many));
                (
                    format!("{} -> {}", table::rate(few), table::rate(many)),
                    format!("{name} {:+.0} %", 100.0 * (many / few - 1.0)),
                )
            }
            (Err(reason), _) | (_, Err(reason)) => (NO_FIGURE.to_owned(), format!("{name}: {reason}")),
        };
        figures.push((name.clone(), figure));
        standings.push(standing);
    }
    bench.rows.push(Row {
        what: "GET, 512 connections against 32".into(),
        wanted: "no loss over 5 %",
        figures,
        standing: standings.join(", "),
    });
    Ok(())
}

/// Small values written by sixteen clients, each waiting for its answer: redis-benchmark at the servers of RESP, Hazelcast and
/// Geode through their own Java clients, and Ashlar through a Java client too, for the client takes most of a put's time. It is
/// Lettuce, which shares one connection among all threads as Hazelcast's client does.
pub(super) fn puts(bench: &mut Bench<'_>) -> Result<()> {
    const CLIENTS: u32 = 16;
    const VALUE_BYTES: u32 = 8;
    let servers = [
        Server::ashlar(&bench.options.profile, SERVER_CORE)?,
        Server::redis(SERVER_CORE)?,
        Server::valkey(SERVER_CORE)?,
    ];
    let (keys, requests, seconds) = (bench.scale.keys, bench.scale.requests, bench.scale.seconds);
    for server in &servers {
        data::set_keys(server.resp()?, keys, VALUE_BYTES as usize, |number| number)?;
    }
    let load = KeyLoad { command: "set", connections: CLIENTS, pipeline: 1, requests, keys, value_bytes: VALUE_BYTES };
    let mut contenders = resp_contenders(&servers, &load);
    contenders.push(ceiling(&load));

    let warm_up = bench.scale.warm_up;
    let warm = |name: &str, load: &mut Load| -> Result<()> {
        eprintln!("x:   {name}: writing {keys} keys, then warming up for {warm_up} s");
        load.fill(keys, VALUE_BYTES as usize)?;
        load.puts(CLIENTS, warm_up, keys, VALUE_BYTES as usize).map(drop)
    };
    for product in [&grids::HAZELCAST, &grids::GEODE] {
        let grid = Grid::start(product, &[]).and_then(|mut grid| {
            warm(product.name, &mut grid.load)?;
            Ok(grid)
        });
        contenders.push(contender(product.name, grid, move |grid| {
            grid.load.puts(CLIENTS, seconds, keys, VALUE_BYTES as usize)
        }));
    }
    let lettuce = Load::start(&grids::LETTUCE, servers[0].resp()?.port()).and_then(|mut load| {
        warm("Ashlar by Lettuce", &mut load)?;
        Ok(load)
    });
    contenders.push(contender("Ashlar by Lettuce", lettuce, move |load| {
        load.puts(CLIENTS, seconds, keys, VALUE_BYTES as usize)
    }));

    let measured = in_turn(bench.options.runs, contenders);
    // Ashlar, Redis, Valkey, the ceiling, Hazelcast, Geode, Ashlar by Lettuce.
    let (ours, ceiling, by_lettuce) = (&measured[0], &measured[3], &measured[6]);
    let others: Vec<Samples> = [1, 2, 4, 5].map(|place| measured[place].clone()).into();
    // Why one has no figure is said once.
    let through_java: Vec<Samples> = others[2..].iter().filter(|(_, samples)| samples.is_ok()).cloned().collect();
    let mut standing = against(ours, &others);
    if !through_java.is_empty() || by_lettuce.1.is_err() {
        standing = format!("{standing}; by Lettuce: {}", against(by_lettuce, &through_java));
    }
    standing = format!("{standing}; {}", of_ceiling(ours, ceiling));
    bench.standing("put with 8-byte value, 16 clients".to_owned(), "5 x Geode and Hazelcast", &measured, standing);
    Ok(())
}

/// The servers of RESP under one load.
fn resp_contenders<'a>(servers: &'a [Server], load: &'a KeyLoad) -> Vec<Contender<'a>> {
    let contender = |server: &'a Server| Contender::new(server.name, || clients::redis_benchmark(server.resp()?, load));
    servers.iter().map(contender).collect()
}

/// The server that does nothing, under the same load.
fn ceiling(load: &KeyLoad) -> Contender<'_> {
    let server = Noop::start(if load.command == "get" { load.value_bytes } else { 0 });
    contender(noop::NAME, server, |server| clients::redis_benchmark(server.address, load))
}

/// How near we come to what the client reaches at most.
fn of_ceiling(ours: &Samples, ceiling: &Samples) -> String {
    match (&ours.1, &ceiling.1) {
        (Ok(ours), Ok(ceiling)) => {
            format!("{:.0} % of the {}", 100.0 * table::median(ours) / table::median(ceiling), noop::NAME)
        }
        (_, Err(reason)) => format!("{}: {reason}", noop::NAME),
        (Err(_), Ok(_)) => format!("nothing to compare with the {}", noop::NAME),
    }
}

/// Somebody who may not have started, which is said in place of its samples.
fn contender<'a, T: 'a>(name: &str, started: Result<T>, sample: impl Fn(&mut T) -> Result<f64> + 'a) -> Contender<'a> {
    let mut started = started.map_err(|reason| format!("{reason:#}"));
    Contender::new(name, move || match &mut started {
        Ok(started) => sample(started),
        Err(reason) => bail!("{reason}"),
    })
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

/// Bytes an entry takes, fresh and after the overwrites.
struct Footprint {
    name: &'static str,
    fresh: f64,
    churned: f64,
    /// The same of the resident size where that is not the figure: a JVM keeps what it once took.
    resident: Option<(f64, f64)>,
}

/// Random overwrites for each key.
const CHURN: u64 = 20;

/// Bytes an entry: fresh, and after twenty times as many random overwrites.
pub(super) fn memory(bench: &mut Bench<'_>) -> Result<()> {
    let keys = bench.scale.keys;
    for (value_bytes, wanted) in
        [(100, "0.75 x Redis; Hazelcast and Geode shown beside"), (8, "0.5 x Redis; Hazelcast and Geode shown beside")]
    {
        let mut seen: Vec<(&str, Result<Footprint>)> = Vec::new();
        for name in ["Ashlar", "Redis", "Valkey"] {
            let server = match name {
                "Ashlar" => Server::ashlar(&bench.options.profile, SERVER_CORE)?,
                "Redis" => Server::redis(SERVER_CORE)?,
                _ => Server::valkey(SERVER_CORE)?,
            };
            seen.push((name, Ok(resident_footprint(&server, keys, value_bytes)?)));
        }
        let grids = if bench.options.no_grids { &[][..] } else { &[&grids::HAZELCAST, &grids::GEODE] };
        for product in grids {
            seen.push((product.name, heap_footprint(product, keys, value_bytes)));
        }
        let values = format!("values of {value_bytes} B");
        bench.footprints(
            format!("bytes an entry, {} keys of 16 B, {values}", table::short(keys as f64)),
            wanted,
            &seen,
            |footprint| (footprint.fresh, footprint.resident.map(|(fresh, _)| fresh)),
            |ours, other| {
                Some(format!("{:.2} x {}", ours.fresh / other.fresh, other.name)).filter(|_| other.name != "Ashlar")
            },
        );
        bench.footprints(
            format!("the same after random overwrites of {CHURN} times the data, {values}"),
            "within 25 % of fresh",
            &seen,
            |footprint| (footprint.churned, footprint.resident.map(|(_, churned)| churned)),
            |_, other| Some(format!("{} {:+.0} %", other.name, 100.0 * (other.churned / other.fresh - 1.0))),
        );
    }
    Ok(())
}

/// Resident size above the empty state, by key.
fn resident_footprint(server: &Server, keys: u64, value_bytes: usize) -> Result<Footprint> {
    let empty = server.settled_bytes()?;
    let per_key = |bytes: u64| bytes.saturating_sub(empty) as f64 / keys as f64;
    data::set_keys(server.resp()?, keys, value_bytes, |number| number)?;
    let fresh = per_key(server.settled_bytes()?);
    let mut numbers = data::Numbers::new(42);
    data::set_keys(server.resp()?, keys * CHURN, value_bytes, |_| numbers.below(keys))?;
    let churned = per_key(server.settled_bytes()?);
    Ok(Footprint { name: server.name, fresh, churned, resident: None })
}

/// Live heap above the empty state, by key; the resident size beside it.
fn heap_footprint(product: &Product, keys: u64, value_bytes: usize) -> Result<Footprint> {
    let mut grid = Grid::start(product, &[])?;
    let measure = |grid: &mut Grid| -> Result<[u64; 2]> { Ok([grid.live_heap()?, grid.resident_bytes()?]) };
    let empty = measure(&mut grid)?;
    let per_key = |bytes: [u64; 2]| {
        let [live, resident] = [0, 1].map(|place| bytes[place].saturating_sub(empty[place]) as f64 / keys as f64);
        (live, resident)
    };
    grid.load.fill(keys, value_bytes)?;
    let fresh = per_key(measure(&mut grid)?);
    eprintln!("x:   {}: {keys} keys are in, overwriting {CHURN} times as many", product.name);
    grid.load.overwrite(keys * CHURN, keys, value_bytes)?;
    let churned = per_key(measure(&mut grid)?);
    Ok(Footprint { name: product.name, fresh: fresh.0, churned: churned.0, resident: Some((fresh.1, churned.1)) })
}

impl Bench<'_> {
    /// A row of bytes an entry. `figure` gives the bytes, and the resident ones where the figure is the live heap; `standing` says
    /// how one of them stands to us.
    fn footprints(
        &mut self,
        what: String,
        wanted: &'static str,
        seen: &[(&str, Result<Footprint>)],
        figure: impl Fn(&Footprint) -> (f64, Option<f64>),
        standing: impl Fn(&Footprint, &Footprint) -> Option<String>,
    ) {
        let show = |footprint: &Result<Footprint>| match footprint.as_ref().map(&figure) {
            Ok((bytes, None)) => format!("{bytes:.0} B"),
            Ok((bytes, Some(resident))) => format!("{bytes:.0} B live heap, {resident:.0} B resident"),
            Err(_) => NO_FIGURE.to_owned(),
        };
        let ours = seen.first().and_then(|(_, footprint)| footprint.as_ref().ok());
        let words = seen.iter().filter_map(|(name, footprint)| match (ours, footprint) {
            (Some(ours), Ok(other)) => standing(ours, other),
            (_, Err(reason)) => Some(format!("{name}: {reason:#}")),
            (None, Ok(_)) => None,
        });
        let standing = words.collect::<Vec<_>>().join(", ");
        eprintln!("x:   {what}: {standing}");
        let figures = seen.iter().map(|(name, footprint)| ((*name).to_owned(), show(footprint))).collect();
        self.rows.push(Row { what, wanted, figures, standing });
    }
}

/// This thread, and those that it will start, run on these cores.
fn pin_this(cores: &str) -> Result<()> {
    run::read(Command::new("taskset").args(["-pc", cores, &std::process::id().to_string()])).map(drop)
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
    let every_core = format!("0-{}", std::thread::available_parallelism()?.get() - 1);
    let seconds = bench.scale.seconds + 1;
    let query =
        "SELECT a % 1000, count(*), sum(b), max(c), count(DISTINCT c) FROM four GROUP BY 1 ORDER BY 2 DESC LIMIT 10;";
    // The threads of the load inherit the core of this one.
    pin_this(CLIENT_CORE)?;
    let quiet = latency::paced_gets(resp, most / 2.0, Duration::from_secs(seconds), keys, 100)?;
    let analyst = std::thread::spawn(move || clients::pgbench(sql, query, 1, Length::Seconds(seconds)));
    let busy = latency::paced_gets(resp, most / 2.0, Duration::from_secs(seconds), keys, 100);
    pin_this(&every_core)?;
    let busy = busy?;
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
