//! `ashlar demo`: a server with real data in it, and a tour of what it does.
//!
//! Called by `cli`. Starts the server in this process and is from then on a client of its doors like any other: what
//! the tour shows is what every client gets. Each step says what must come out; the demo fails if anything else does.

mod fleet;
mod show;
mod tables;
mod tour;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use ashlar_base::clock;
use ashlar_base::config::{LogLevel, Resolved};

use crate::cli::{DemoOptions, Signals, resolve, say, write_ready_file};
use crate::client::pg::PgClient;
use crate::client::resp::RespClient;
use crate::door::meters;
use crate::runtime::{self, Addresses, Server};
use fleet::Fleet;

/// Runs the demo.
pub(crate) fn run(options: &DemoOptions) -> anyhow::Result<ExitCode> {
    ashlar_telemetry::allocator::tune();
    let Some(mut resolved) = resolve(&options.config)? else { return Ok(ExitCode::from(2)) };
    let files = data_directory(options.data.as_deref())?;
    prefer(&mut resolved, options.once);
    // Whoever names a directory has servers of his own, which the tour must not meddle with.
    let fleet = if resolved.is_default("shard.data_dir") { Fleet::start()? } else { None };
    if let Some(fleet) = &fleet {
        resolved.config.shard.data_dir = fleet.catalog().display().to_string();
    }
    ashlar_telemetry::log::start(&resolved.config.log)?;
    let recorder = meters::start()?;
    let mut signals = Signals::watch()?;

    let server = runtime::start(resolved.config, recorder, false).context(
        "the demo cannot start; `ashlar demo --once` takes free ports, --pg, --resp and --http choose others",
    )?;
    let shown = signals.unless_stopped(present(&server, &files, fleet.as_ref()));
    let outcome = match shown {
        None => Ok(()),
        Some(Err(error)) => Err(error),
        Some(Ok(())) if options.once => Ok(()),
        Some(Ok(())) => {
            if let Some(path) = &options.ready_file {
                write_ready_file(path, server.addresses())?;
            }
            invite(server.addresses())?;
            signals.wait(server.stopper())
        }
    };
    server.stop()?;
    outcome.map(|()| ExitCode::SUCCESS)
}

/// Where nobody has chosen: a quiet log, so that the tour can be read, and free ports for a demo that exits at once.
fn prefer(resolved: &mut Resolved, once: bool) {
    if resolved.is_default("log.level") {
        resolved.config.log.level = LogLevel::Warn;
    }
    if once {
        let server = &resolved.config.server;
        let addresses = [server.pg_address, server.resp_address, server.http_address];
        let free = |path: &str, mut address: std::net::SocketAddr| {
            if resolved.is_default(path) {
                address.set_port(0);
            }
            address
        };
        let chosen = [
            free("server.pg_address", addresses[0]),
            free("server.resp_address", addresses[1]),
            free("server.http_address", addresses[2]),
        ];
        let server = &mut resolved.config.server;
        [server.pg_address, server.resp_address, server.http_address] = chosen;
    }
}

/// Loads the data and gives the tour.
async fn present(server: &Server, files: &Path, fleet: Option<&Fleet>) -> anyhow::Result<()> {
    let Addresses { pg, resp, .. } = server.addresses();
    let mut sql = PgClient::connect(pg, "demo", "demo").await?;
    let mut keys = RespClient::connect(resp).await?;
    say(&format!(
        "Ashlar {}: SQL on {pg}, Redis commands on {resp}, one process\n\nloading {}\n",
        env!("CARGO_PKG_VERSION"),
        files.display()
    ))?;
    load(&mut sql, files).await?;
    if let Some(fleet) = fleet {
        declare(&mut sql, fleet).await?;
    }
    server.set_loaded();
    let sharded = if fleet.is_some() { tour::SHARDED } else { &[] };
    let mut failed = Vec::new();
    for step in tour::STEPS.iter().chain(sharded) {
        if let Err(error) = step.take(&mut sql, &mut keys).await? {
            say(&format!("  FAILED: {error}\n"))?;
            failed.push(error);
        }
    }
    sql.close().await?;
    if fleet.is_none() {
        say(
            "\nTables sharded over PostgreSQL servers are not shown: PostgreSQL is not installed here, or shard.data_dir is set.\n",
        )?;
    }
    let steps = tour::STEPS.len() + sharded.len();
    ensure!(failed.is_empty(), "{} of {steps} steps of the tour failed", failed.len());
    Ok(())
}

/// Makes the tables and fills them from the Parquet files, as any client could.
async fn load(sql: &mut PgClient, files: &Path) -> anyhow::Result<()> {
    for table in tables::TABLES {
        let path = files.join(format!("{}.parquet", table.name));
        ensure!(path.is_file(), "{} is missing", path.display());
        let quoted = path.display().to_string().replace('\'', "''");
        let started = clock::monotonic();
        let statements = [
            format!("CREATE FOREIGN TABLE {}_file () SERVER files OPTIONS (path '{quoted}')", table.name),
            format!("CREATE TABLE {} ({})", table.name, table.columns),
            format!("INSERT INTO {0} SELECT {1} FROM {0}_file", table.name, table.names()),
        ];
        for statement in &statements {
            let reply = sql.query(statement).await?;
            if let Some(error) = reply.error {
                bail!("{statement}\n{error}");
            }
            let loaded = reply.answers.last().map(|answer| answer.tag.as_str());
            if statement.starts_with("INSERT") {
                let expected = format!("INSERT 0 {}", table.rows);
                ensure!(loaded == Some(expected.as_str()), "{statement}: {loaded:?} instead of {expected}");
            }
        }
        let time = show::duration(clock::monotonic() - started);
        say(&format!("  {:<10}{:>9} rows {time:>12}\n", table.name, show::thousands(table.rows)))?;
    }
    Ok(())
}

/// Tells the server of the fleet, as any client could.
async fn declare(sql: &mut PgClient, fleet: &Fleet) -> anyhow::Result<()> {
    for statement in fleet.declared() {
        if let Some(error) = sql.query(&statement).await?.error {
            bail!("{statement}\n{error}");
        }
    }
    say("  east, west      two PostgreSQL servers, for tables sharded over them\n").map(|_| ())
}

/// The Parquet files: where the user says, or in the repository around the current directory or the executable.
fn data_directory(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(directory) = given {
        let directory = std::path::absolute(directory)?;
        ensure!(directory.is_dir(), "{} is not a directory", directory.display());
        return Ok(directory);
    }
    let starts: Vec<Arc<Path>> = [std::env::current_dir(), std::env::current_exe()]
        .into_iter()
        .filter_map(Result::ok)
        .map(|path| Arc::from(path.as_path()))
        .collect();
    let candidates = starts.iter().flat_map(|start| start.ancestors()).map(|dir| dir.join("data/nycflights13"));
    let found = candidates.into_iter().find(|directory| directory.join("flights.parquet").is_file());
    found.context("the directory data/nycflights13 of the repository is not around here; name it with --data DIR")
}

/// How to go on from here.
fn invite(addresses: Addresses) -> anyhow::Result<()> {
    let Addresses { pg, resp, http } = addresses;
    say(&format!(
        "\nThe server stays up. Connect from another terminal:\n\n  \
         psql -h {} -p {} -U demo demo\n  redis-cli -h {} -p {}\n  ashlar sql --pg {pg} -c \"SELECT * FROM airports LIMIT 3\"\n  \
         curl http://{http}/metrics\n\nCtrl-C stops it.\n",
        pg.ip(),
        pg.port(),
        resp.ip(),
        resp.port(),
    ))
    .map(|_| ())
}
