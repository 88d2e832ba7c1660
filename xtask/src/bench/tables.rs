//! The rows about tables: SQL by key, scans, loading, documents, beside PostgreSQL.
//!
//! Called by `first_figures`; each function starts its own servers and adds its rows.

use std::cell::RefCell;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::clients::{self, Length, Protocol};
use super::data;
use super::first_figures::{Bench, Contender, NO_FIGURE, in_turn, interleaved};
use super::grids::{self, Grid};
use super::servers::{SERVER_CORE, Server};
use super::table::{self, Row};
use crate::run;

/// Rows by primary key, prepared.
pub(super) fn sql(bench: &mut Bench<'_>) -> Result<()> {
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
    for (what, wanted, protocol, statement) in [
        (
            "SELECT by primary key, prepared, 16 connections",
            "2 x PostgreSQL",
            Protocol::Prepared,
            "SELECT abalance FROM accounts WHERE aid = :aid;",
        ),
        (
            "UPDATE of one row by key, prepared, 16 connections, unlogged",
            "3 x PostgreSQL",
            Protocol::Prepared,
            "UPDATE accounts SET abalance = abalance + 1 WHERE aid = :aid;",
        ),
        (
            "SELECT by primary key as plain text, 16 connections",
            "2 x PostgreSQL",
            Protocol::Simple,
            "SELECT abalance FROM accounts WHERE aid = :aid;",
        ),
    ] {
        let script = format!("{pick}{statement}\n");
        let measured = interleaved(bench.options.runs, &servers, |server| {
            Ok(clients::pgbench_by(protocol, server.sql()?, &script, 16, Length::Seconds(seconds))?.rate)
        });
        bench.rates(what.to_owned(), wanted, &measured);
    }
    Ok(())
}

/// A sum beside a plain loop, and whole tables to one client.
pub(super) fn scan(bench: &mut Bench<'_>) -> Result<()> {
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
    same_answer(&servers, "SELECT sum(a), count(*) FROM four")?;
    let plain = plain_loop(rows)?;
    let sums = interleaved(bench.options.runs, &servers, |server| {
        Ok(clients::pgbench(server.sql()?, "SELECT sum(a) FROM four;\n", 1, Length::Statements(3))?
            .latency
            .as_secs_f64())
    });
    let mut figures = vec![("plain loop".to_owned(), format!("{plain:.1?}"))];
    figures.extend(sums.iter().map(|(name, samples)| (name.clone(), seconds_or_reason(samples))));
    let standing = match &sums[0].1 {
        Ok(samples) => format!("{:.1} % of the plain loop", 100.0 * plain.as_secs_f64() / table::median(samples)),
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

/// Rows by a value that is no key, found by an index.
pub(super) fn value(bench: &mut Bench<'_>) -> Result<()> {
    let servers = [Server::ashlar(&bench.options.profile, SERVER_CORE)?, Server::postgres(SERVER_CORE)?];
    let rows = bench.scale.rows;
    for server in &servers {
        create_four(server, if server.name == "PostgreSQL" { "UNLOGGED" } else { "" })?;
        clients::copy_in(server.sql()?, "four", &data::four_columns(rows)?)?;
        clients::sql(server.sql()?, "CREATE INDEX ON four (a)")?;
        clients::sql(server.sql()?, "VACUUM ANALYZE four")?;
    }
    let seconds = bench.scale.seconds;
    let script = "\\set a random(0, 999999)\nSELECT id FROM four WHERE a = :a LIMIT 1;\n";
    let measured = interleaved(bench.options.runs, &servers, |server| {
        Ok(clients::pgbench(server.sql()?, script, 1, Length::Seconds(seconds))?.rate)
    });
    bench.rates(format!("SQL by indexed value, one row of {}", table::short(rows as f64)), "2 x PostgreSQL", &measured);
    Ok(())
}

/// COPY of a large file into an empty table with a primary key.
pub(super) fn copy(bench: &mut Bench<'_>) -> Result<()> {
    let servers = [Server::ashlar(&bench.options.profile, SERVER_CORE)?, Server::postgres(SERVER_CORE)?];
    let rows = bench.scale.rows;
    let file = data::four_columns(rows)?;
    for server in &servers {
        create_four(server, if server.name == "PostgreSQL" { "UNLOGGED" } else { "" })?;
    }
    let measured = interleaved(bench.options.runs.min(3), &servers, |server| {
        clients::sql(server.sql()?, "TRUNCATE four")?;
        let time = clients::copy_in(server.sql()?, "four", &file)?;
        let count = clients::sql(server.sql()?, "SELECT count(*) FROM four")?;
        if count != rows.to_string() {
            bail!("{count} rows of {rows} are there");
        }
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
pub(super) fn json(bench: &mut Bench<'_>) -> Result<()> {
    let servers = [Server::ashlar(&bench.options.profile, SERVER_CORE)?, Server::postgres(SERVER_CORE)?];
    let documents = bench.scale.documents;
    let file = data::documents(documents)?;
    let query = "SELECT sum((doc->>'amount')::bigint) FROM documents";
    for server in &servers {
        let unlogged = if server.name == "PostgreSQL" { "UNLOGGED" } else { "" };
        clients::sql(server.sql()?, &format!("CREATE {unlogged} TABLE documents (id bigint PRIMARY KEY, doc jsonb)"))?;
        clients::copy_in(server.sql()?, "documents", &file)?;
    }
    let expected = clients::sql(servers[1].sql()?, query)?;
    same_answer(&servers, query)?;
    let hazelcast =
        RefCell::new(hazelcast_with(&file, documents, bench.scale.warm_up).map_err(|reason| format!("{reason:#}")));
    let script = format!("{query};\n");
    let mut contenders: Vec<Contender<'_>> = servers
        .iter()
        .map(|server| {
            Contender::new(server.name, || {
                Ok(clients::pgbench(server.sql()?, &script, 1, Length::Statements(1))?.latency.as_secs_f64())
            })
        })
        .collect();
    for (name, command) in HAZELCAST_SUMS {
        contenders.push(Contender::new(name, || match &mut *hazelcast.borrow_mut() {
            Ok(grid) => sum_of(grid, command, &expected),
            Err(reason) => bail!("{reason}"),
        }));
    }
    let measured = in_turn(bench.options.runs, contenders);
    // Times: the larger is the slower, so the quotients are the other way round.
    let standing = match &measured[0].1 {
        Ok(ours) => {
            let words = measured[1..].iter().map(|(name, theirs)| match theirs {
                Ok(theirs) => format!("{:.1} x {name}", table::median(theirs) / table::median(ours)),
                Err(reason) => format!("{name}: {reason}"),
            });
            words.collect::<Vec<_>>().join(", ")
        }
        Err(reason) => reason.clone(),
    };
    eprintln!("x:   sum of a JSON field: {standing}");
    bench.rows.push(Row {
        what: format!("sum of a JSON field over {} documents of half a kilobyte", table::short(documents as f64)),
        wanted: "10 x Hazelcast",
        figures: measured.iter().map(|(name, samples)| (name.clone(), seconds_or_reason(samples))).collect(),
        standing,
    });
    Ok(())
}

/// How Hazelcast adds a field up: by a path, as the wish has it, and quicker, with the field declared as a column.
const HAZELCAST_SUMS: [(&str, &str); 2] = [("Hazelcast by JSON_VALUE", "sum"), ("Hazelcast by json-flat", "sum-flat")];

/// Hazelcast with the documents in it, after so many seconds of queries.
fn hazelcast_with(file: &Path, documents: u64, warm_up: u64) -> Result<Grid> {
    let mut grid = Grid::start(&grids::HAZELCAST, &["sql"])?;
    grid.documents(file, documents)?;
    eprintln!("x:   Hazelcast: {documents} documents are in, warming up for {warm_up} s");
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(warm_up) {
        for (_, command) in HAZELCAST_SUMS {
            grid.sum(command)?;
        }
    }
    Ok(grid)
}

/// Seconds of one sum, which must be the one that PostgreSQL found.
fn sum_of(grid: &mut Grid, command: &str, expected: &str) -> Result<f64> {
    let (sum, time) = grid.sum(command)?;
    if sum != expected {
        bail!("the sum is {sum} here and {expected} in PostgreSQL");
    }
    Ok(time.as_secs_f64())
}

/// Fails where the servers do not give the same answer: a figure for a wrong one is none.
fn same_answer(servers: &[Server], query: &str) -> Result<()> {
    let answers = servers.iter().map(|server| clients::sql(server.sql()?, query)).collect::<Result<Vec<_>>>()?;
    match answers.iter().position(|answer| *answer != answers[0]) {
        None => Ok(()),
        Some(other) => {
            let (ours, theirs) = (servers[0].name, servers[other].name);
            bail!("{query} is {} on {ours} and {} on {theirs}", answers[0], answers[other])
        }
    }
}

pub(super) fn create_four(server: &Server, unlogged: &str) -> Result<()> {
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

fn seconds_or_reason(samples: &Result<Vec<f64>, String>) -> String {
    match samples {
        Ok(samples) => format!("{:.1?}", Duration::from_secs_f64(table::median(samples))),
        Err(_) => NO_FIGURE.to_owned(),
    }
}
