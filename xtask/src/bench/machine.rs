//! What was measured on what: the lines above the table, without which a figure means nothing.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::{grids, servers};
use crate::run;

/// Processor time of the programs that this one has started and that have ended: of clients, as servers go on.
pub(super) fn cpu_of_clients() -> Duration {
    // Children's user and system time, fields 16 and 17, in hundredths of a second on every Linux. The name before them
    // may hold spaces.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(13).take(2);
    Duration::from_millis(10 * fields.filter_map(|field| field.parse::<u64>().ok()).sum::<u64>())
}

/// Commit, machine, versions and how often each sample was taken, as a Markdown list.
pub(super) fn description(profile: &str, runs: u32) -> Result<String> {
    let cpu = std::fs::read_to_string("/proc/cpuinfo")?;
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown", |rest| rest.trim_start_matches([':', '\t', ' ']));
    let memory = std::fs::read_to_string("/proc/meminfo")?;
    let kib: u64 = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0);
    let cores = std::thread::available_parallelism()?;
    let kernel = run::read(Command::new("uname").arg("-r"))?;
    let commit = run::read(Command::new("git").args(["describe", "--always", "--dirty"]))
        .unwrap_or_else(|_| "no commit".to_owned());
    let date = run::read(Command::new("date").args(["-u", "+%Y-%m-%d"]))?;
    let version = |program: &str, argument: &str| run::read(Command::new(program).arg(argument)).unwrap_or_default();
    let redis = version("redis-server", "--version");
    let redis = redis.split_whitespace().find_map(|word| word.strip_prefix("v=")).unwrap_or("?").to_owned();
    let postgres =
        servers::postgres_program("postgres").map(|program| version(&program.to_string_lossy(), "--version"));
    let postgres = postgres.unwrap_or_default().split_whitespace().nth(2).unwrap_or("?").to_owned();
    let valkey = servers::valkey_program().map(|program| version(&program.to_string_lossy(), "--version"));
    let valkey = valkey.unwrap_or_default();
    let valkey = valkey.split_whitespace().find_map(|word| word.strip_prefix("v=")).unwrap_or("?").to_owned();
    Ok(format!(
        "- {}; commit {}, cargo profile `{profile}`\n- {cores} cores ({model}), {:.0} GiB, Linux {}\n- Redis {redis}, Valkey {valkey}, PostgreSQL {postgres}; Hazelcast {} and Geode {} on Java {}\n- medians of {runs} interleaved runs\n",
        date.trim(),
        commit.trim(),
        kib as f64 / (1024.0 * 1024.0),
        kernel.trim(),
        grids::HAZELCAST.version(),
        grids::GEODE.version(),
        grids::java_version(),
    ))
}
