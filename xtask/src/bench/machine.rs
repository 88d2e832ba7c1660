//! What was measured on what: the lines above the table, without which a figure means nothing.

use std::process::Command;

use anyhow::Result;

use super::grids;
use crate::run;

/// Commit, machine and versions, as a Markdown list.
pub(super) fn description(profile: &str) -> Result<String> {
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
    let postgres = version("psql", "--version");
    let postgres = postgres.split_whitespace().nth(2).unwrap_or("?").to_owned();
    Ok(format!(
        "- {}; commit {}, cargo profile `{profile}`\n- {cores} cores ({model}), {:.0} GiB, Linux {}\n- Redis {redis}, Valkey 9.1, PostgreSQL {postgres}; Hazelcast {} and Geode {} on Java {}\n",
        date.trim(),
        commit.trim(),
        kib as f64 / (1024.0 * 1024.0),
        kernel.trim(),
        grids::HAZELCAST.version(),
        grids::GEODE.version(),
        grids::java_version(),
    ))
}
