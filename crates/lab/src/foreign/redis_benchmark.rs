//! redis-benchmark: its arguments and its report. Keys have the names that the lab gives them; a value that it writes is a row of `x`.

use std::net::SocketAddr;
use std::process::Command;

use anyhow::{Context, Result};

use super::Told;
use crate::record::LatencySummary;

/// It puts a random number of twelve digits here, as the names of the lab's keys have.
const KEY: &str = "lab:__rand_int__";

/// What it is about.
pub(super) struct Keys {
    pub(super) writes: bool,
    pub(super) keys: u64,
    pub(super) value_bytes: usize,
    /// Keys of one command, if it is of many.
    pub(super) batch: Option<usize>,
}

/// One thread, so many connections and requests in all.
pub(super) fn arguments(
    command: &mut Command,
    address: SocketAddr,
    load: &Keys,
    pipeline: usize,
    connections: u32,
    requests: u64,
) {
    command.args(["-h", &address.ip().to_string(), "-p", &address.port().to_string(), "--csv"]);
    command.args(["-c", &connections.to_string(), "-P", &pipeline.to_string(), "-n", &requests.to_string()]);
    command.args(["-r", &load.keys.to_string()]);
    command.arg(match (load.batch, load.writes) {
        (None, false) => "GET",
        (None, true) => "SET",
        (Some(_), false) => "MGET",
        (Some(_), true) => "MSET",
    });
    let value = "x".repeat(load.value_bytes);
    // Each key of a command gets a number of its own.
    for _ in 0..load.batch.unwrap_or(1) {
        command.arg(KEY);
        if load.writes {
            command.arg(&value);
        }
    }
}

/// The last line of its report: what it sent, requests a second, and milliseconds: mean, least, p50, p95, p99, largest.
pub(super) fn told(csv: &str, requests: u64) -> Result<Told> {
    let line = csv.lines().rev().find(|line| line.starts_with('"')).context("it has no line of figures")?;
    let figures: Vec<f64> = line
        .rsplit(',')
        .take(7)
        .map(|figure| figure.trim_matches('"').parse())
        .collect::<Result<_, _>>()
        .with_context(|| format!("figures that are none, or too few, of a version before 6.2: {line}"))?;
    let [max, p99, _p95, p50, _min, mean, rate] = figures[..] else {
        anyhow::bail!("too few figures: {line}");
    };
    let latency = LatencySummary {
        mean_us: mean * 1000.0,
        p50_us: p50 * 1000.0,
        p99_us: p99 * 1000.0,
        max_us: max * 1000.0,
        ..LatencySummary::default()
    };
    Ok(Told { operations: requests, operations_per_second: rate, latency, ..Told::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_of_many_keys_has_a_number_for_each() {
        let words = |writes, batch| {
            let mut command = Command::new("redis-benchmark");
            let load = Keys { writes, keys: 7, value_bytes: 2, batch };
            arguments(&mut command, SocketAddr::from(([127, 0, 0, 1], 6379)), &load, 1, 50, 1000);
            let words: Vec<String> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
            let begin = words.iter().position(|word| word == "7").unwrap();
            words[begin + 1..].join(" ")
        };
        assert_eq!(words(false, None), format!("GET {KEY}"));
        assert_eq!(words(true, None), format!("SET {KEY} xx"));
        assert_eq!(words(false, Some(3)), format!("MGET {KEY} {KEY} {KEY}"));
        assert_eq!(words(true, Some(2)), format!("MSET {KEY} xx {KEY} xx"));
    }

    #[test]
    fn its_report_is_read() {
        let csv = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
                   \"SET lab:__rand_int__ xxx\",\"78125.00\",\"0.327\",\"0.080\",\"0.319\",\"0.463\",\"0.631\",\"1.999\"\n";
        let told = told(csv, 5000).unwrap();
        assert_eq!((told.operations, told.operations_per_second), (5000, 78125.0));
        let latency = told.latency;
        assert_eq!((latency.mean_us, latency.p50_us, latency.p99_us, latency.max_us), (327.0, 319.0, 631.0, 1999.0));
        assert_eq!(latency.p90_us, 0.0);
    }

    #[test]
    fn a_report_without_figures_is_none() {
        assert!(told("WARNING: nothing\n", 1).is_err());
        assert!(told("\"GET\",\"78125.00\"\n", 1).is_err());
    }
}
