//! The clients of the benchmarks: redis-benchmark, pgbench and psql as they come, pinned to the client's core.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::servers::{CLIENT_CORE, pinned, postgres_program};
use crate::run;

/// One run of redis-benchmark.
pub(super) struct KeyLoad {
    /// `get` or `set`.
    pub(super) command: &'static str,
    pub(super) connections: u32,
    pub(super) pipeline: u32,
    pub(super) requests: u64,
    pub(super) keys: u64,
    pub(super) value_bytes: u32,
}

/// Requests per second, as redis-benchmark reports them.
pub(super) fn redis_benchmark(address: SocketAddr, load: &KeyLoad) -> Result<f64> {
    let program = run::find("redis-benchmark").context("redis-benchmark is not installed")?;
    let mut command = pinned(CLIENT_CORE, &program);
    command.args(["-p", &address.port().to_string(), "-t", load.command, "--csv"]);
    command.args(["-c", &load.connections.to_string(), "-P", &load.pipeline.to_string()]);
    command.args(["-n", &load.requests.to_string(), "-r", &load.keys.to_string(), "-d", &load.value_bytes.to_string()]);
    rate_of(&run::read(&mut command)?)
}

/// The rate in redis-benchmark's CSV: the second column of the last line.
fn rate_of(csv: &str) -> Result<f64> {
    let line = csv.lines().rev().find(|line| line.starts_with('"')).context("redis-benchmark printed no result")?;
    let rate = line.split(',').nth(1).context("redis-benchmark's result has no rate")?;
    Ok(rate.trim_matches('"').parse()?)
}

/// What pgbench reports of one run.
pub(super) struct Pgbench {
    /// Statements per second, connections not counted.
    pub(super) rate: f64,
    /// Mean of one statement.
    pub(super) latency: Duration,
}

/// How long pgbench runs.
pub(super) enum Length {
    Seconds(u64),
    Statements(u64),
}

/// How pgbench sends its statements.
#[derive(Clone, Copy)]
pub(super) enum Protocol {
    /// Parsed once, then bound and executed.
    Prepared,
    /// As text, the values in it.
    Simple,
}

/// Runs one statement again and again over `connections`, prepared; `\set` lines may precede it.
pub(super) fn pgbench(address: SocketAddr, script: &str, connections: u32, length: Length) -> Result<Pgbench> {
    pgbench_by(Protocol::Prepared, address, script, connections, length)
}

/// As [`pgbench`], in the given protocol.
pub(super) fn pgbench_by(
    protocol: Protocol,
    address: SocketAddr,
    script: &str,
    connections: u32,
    length: Length,
) -> Result<Pgbench> {
    let protocol = match protocol {
        Protocol::Prepared => "prepared",
        Protocol::Simple => "simple",
    };
    let file = std::env::temp_dir().join(format!("ashlar-bench-{}.sql", std::process::id()));
    std::fs::write(&file, script)?;
    let program = run::find("pgbench").map_or_else(|| postgres_program("pgbench"), Ok)?;
    let mut command = pinned(CLIENT_CORE, &program);
    command.args(["-n", "-M", protocol, "-h", "127.0.0.1", "-p", &address.port().to_string(), "-U", "postgres"]);
    command.args(["-c", &connections.to_string(), "-j", "1", "-f"]).arg(&file);
    match length {
        Length::Seconds(count) => command.args(["-T", &count.to_string()]),
        Length::Statements(count) => command.args(["-t", &count.to_string()]),
    };
    command.arg("postgres");
    let output = run::read(&mut command);
    std::fs::remove_file(&file)?;
    report_of(&output?)
}

fn report_of(report: &str) -> Result<Pgbench> {
    let number = |prefix: &str| -> Result<f64> {
        let rest = report.lines().find_map(|line| line.strip_prefix(prefix));
        let word = rest
            .and_then(|rest| rest.split_whitespace().next())
            .with_context(|| format!("no \"{prefix}\" in:\n{report}"))?;
        Ok(word.parse()?)
    };
    if let Some(failed) = report.lines().find_map(|line| line.strip_prefix("number of failed transactions: "))
        && !failed.starts_with("0 ")
    {
        bail!("pgbench saw failures: {failed}");
    }
    Ok(Pgbench { rate: number("tps = ")?, latency: Duration::from_secs_f64(number("latency average = ")? / 1000.0) })
}

/// psql for scripts: no startup file, stops at the first error.
pub(super) fn psql(address: SocketAddr) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", CLIENT_CORE, "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1"]);
    command.args(["-p", &address.port().to_string(), "-U", "postgres", "postgres"]);
    command
}

/// Runs one statement and returns what psql prints.
pub(super) fn sql(address: SocketAddr, statement: &str) -> Result<String> {
    Ok(run::read(psql(address).args(["-c", statement]))?.trim().to_owned())
}

/// Loads a CSV file through COPY; how long it took, the client's start included.
pub(super) fn copy_in(address: SocketAddr, table: &str, file: &Path) -> Result<Duration> {
    let began = Instant::now();
    run::read(psql(address).args(["-c", &format!("\\copy {table} FROM '{}' WITH (FORMAT csv)", file.display())]))?;
    Ok(began.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_read_from_redis_benchmarks_csv() {
        let csv = "\"test\",\"rps\",\"avg_latency_ms\"\n\"GET\",\"78125.00\",\"0.327\",\"0.080\"\n";
        assert_eq!(rate_of(csv).unwrap(), 78125.0);
        assert!(rate_of("WARNING: nothing\n").is_err());
    }

    #[test]
    fn pgbenchs_report_is_read_and_failures_are_not_passed_over() {
        let report = "number of failed transactions: 0 (0.000%)\nlatency average = 0.250 ms\n\
                      initial connection time = 3.1 ms\ntps = 64000.5 (without initial connection time)\n";
        let seen = report_of(report).unwrap();
        assert_eq!((seen.rate, seen.latency), (64000.5, Duration::from_micros(250)));
        assert!(report_of(&report.replace(": 0 (", ": 7 (")).is_err());
        assert!(report_of("nothing").is_err());
    }
}
