//! pgbench: its arguments and its report. Its scripts follow from the statements of the workloads.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::Told;
use crate::door::login;
use crate::record::LatencySummary;
use crate::targets::{on_path, postgres_programs};
use crate::workload::Protocol;

/// On the PATH, or where Debian keeps it.
pub(super) fn program() -> Result<PathBuf, String> {
    on_path("pgbench").or_else(|reason| {
        let beside = postgres_programs().map(|folder| folder.join("pgbench"));
        beside.ok().filter(|program| program.is_file()).ok_or(reason)
    })
}

/// One thread, so many connections, whose sessions set `options`. The script and the database come last.
pub(super) fn arguments(
    command: &mut Command,
    address: SocketAddr,
    protocol: Protocol,
    connections: u32,
    seconds: u32,
    options: Option<&str>,
) {
    let protocol = match protocol {
        Protocol::Prepared => "prepared",
        Protocol::Text => "simple",
    };
    command.args(["-n", "-M", protocol, "-h", &address.ip().to_string(), "-p", &address.port().to_string()]);
    let login = login::of(address);
    command.args(["-U", &login.user, "-c", &connections.to_string(), "-j", "1", "-T", &seconds.to_string()]);
    // A user's own settings for libpq must not reach it.
    for variable in ["PGDATA", "PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGOPTIONS"] {
        command.env_remove(variable);
    }
    command.env("PGPASSWORD", login.password);
    if let Some(options) = options {
        command.env("PGOPTIONS", options);
    }
}

/// What its report says: transactions, how many a second, connecting left out, and how long one took on average.
pub(super) fn told(report: &str) -> Result<Told> {
    let number = |prefix: &str| -> Result<f64> {
        let rest =
            report.lines().find_map(|line| line.strip_prefix(prefix)).with_context(|| format!("no {prefix:?}"))?;
        let word = rest
            .split([' ', '/'])
            .find(|word| !word.is_empty())
            .with_context(|| format!("no number after {prefix:?}"))?;
        word.parse().with_context(|| format!("{prefix:?} is {word:?}"))
    };
    let failed = number("number of failed transactions: ")?;
    if failed > 0.0 {
        bail!("{failed} transactions failed");
    }
    let mean_us = number("latency average = ")? * 1000.0;
    Ok(Told {
        operations: number("number of transactions actually processed: ")? as u64,
        operations_per_second: number("tps = ")?,
        latency: LatencySummary { mean_us, ..LatencySummary::default() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "pgbench (15.18)\ntransaction type: script.sql\nscaling factor: 1\nquery mode: prepared\n\
        number of clients: 16\nnumber of threads: 1\nduration: 1 s\nnumber of transactions actually processed: 63720\n\
        number of failed transactions: 0 (0.000%)\nlatency average = 0.250 ms\ninitial connection time = 3.1 ms\n\
        tps = 64000.5 (without initial connection time)\n";

    #[test]
    fn its_report_is_read() {
        let told = told(REPORT).unwrap();
        assert_eq!((told.operations, told.operations_per_second, told.latency.mean_us), (63720, 64000.5, 250.0));
    }

    #[test]
    fn sessions_set_what_is_said_and_nothing_of_the_user_s() {
        let address = SocketAddr::from(([127, 0, 0, 1], 5433));
        for wanted in [None, Some("-c sharded_server=s0")] {
            let mut command = Command::new("pgbench");
            arguments(&mut command, address, Protocol::Text, 16, 2, wanted);
            let mut set = command.get_envs().filter(|(name, _)| *name == "PGOPTIONS");
            assert_eq!(set.next().map(|(_, value)| value), Some(wanted.map(std::ffi::OsStr::new)));
            assert!(set.next().is_none());
        }
    }

    #[test]
    fn failures_are_not_passed_over() {
        assert!(told(&REPORT.replace(": 0 (", ": 7 (")).unwrap_err().to_string().contains("7 transactions failed"));
        assert!(told("nothing").is_err());
    }
}
