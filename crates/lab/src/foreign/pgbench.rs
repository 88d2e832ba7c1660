//! pgbench: its arguments and its report. Its scripts follow from the statements of the workloads.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Length, Told};
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

/// One thread, so many connections, whose sessions set `options`. `until` is the flag that says when it ends, with its number. The script and
/// the database come last.
pub(super) fn arguments(
    command: &mut Command,
    address: SocketAddr,
    protocol: Protocol,
    connections: u32,
    until: (&str, u32),
    options: Option<&str>,
) {
    let protocol = match protocol {
        Protocol::Prepared => "prepared",
        Protocol::Text => "simple",
    };
    command.args(["-n", "-M", protocol, "-h", &address.ip().to_string(), "-p", &address.port().to_string()]);
    let login = login::of(address);
    let (flag, number) = until;
    command.args(["-U", &login.user, "-c", &connections.to_string(), "-j", "1", flag, &number.to_string()]);
    // A user's own settings for libpq must not reach it.
    for variable in ["PGDATA", "PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGOPTIONS"] {
        command.env_remove(variable);
    }
    command.env("PGPASSWORD", login.password);
    if let Some(options) = options {
        command.env("PGOPTIONS", options);
    }
}

/// The script of a call. Connections that are held wait at the end of their only transaction, which is when pgbench closes them.
pub(super) fn script(text: &str, length: Length) -> String {
    match length {
        Length::Held(seconds) => format!("{text}\\sleep {seconds} s\n"),
        Length::Seconds(_) | Length::Requests(_) => text.to_owned(),
    }
}

/// What its report says: transactions, how many a second and how long one took on average, in the time from when all connections were there;
/// and how long connecting took before that.
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
    let operations = number("number of transactions actually processed: ")? as u64;
    if operations == 0 {
        // The report then ends here.
        bail!("no transaction was made: its time was over before all connections were there");
    }
    let mean_us = number("latency average = ")? * 1000.0;
    Ok(Told {
        operations,
        operations_per_second: number("tps = ")?,
        latency: LatencySummary { mean_us, ..LatencySummary::default() },
        connecting_seconds: number("initial connection time = ")? / 1000.0,
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
        assert_eq!((told.connecting_seconds, told.connecting_next()), (3.1 / 1000.0, 1));
    }

    #[test]
    fn a_time_that_is_over_before_all_are_connected_is_no_figure() {
        // As pgbench 15 ends its report when it has made no transaction.
        let (begin, _) = REPORT.split_once("latency average").unwrap();
        let nothing = begin.replace("63720", "0").replace("0.000%", "-nan%");
        let said = told(&nothing).unwrap_err().to_string();
        assert_eq!(said, "no transaction was made: its time was over before all connections were there");
    }

    #[test]
    fn connections_that_are_held_ask_once_and_say_how_long_connecting_takes() {
        assert_eq!(script("SELECT 1;\n", Length::Held(8)), "SELECT 1;\n\\sleep 8 s\n");
        assert_eq!(script("SELECT 1;\n", Length::Seconds(8)), "SELECT 1;\n");
        let once = REPORT
            .replace("duration: 1 s", "number of transactions per client: 1")
            .replace("processed: 63720", "processed: 512/512")
            .replace("= 3.1 ms", "= 4100.250 ms");
        let told = told(&once).unwrap();
        // 6.15 s.
        assert_eq!((told.operations, told.connecting_next()), (512, 7));
        // Of a program that connects and does not say how long that takes nothing is known.
        assert_eq!(Told::default().connecting_next(), 0);
    }

    #[test]
    fn sessions_set_what_is_said_and_nothing_of_the_user_s() {
        let address = SocketAddr::from(([127, 0, 0, 1], 5433));
        for wanted in [None, Some("-c sharded_server=s0")] {
            let mut command = Command::new("pgbench");
            arguments(&mut command, address, Protocol::Text, 16, ("-T", 2), wanted);
            let words: Vec<&std::ffi::OsStr> = command.get_args().collect();
            assert!(words.ends_with(&["-c", "16", "-j", "1", "-T", "2"].map(std::ffi::OsStr::new)), "{words:?}");
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
