//! Programs in Java: members of Hazelcast and Geode, which the targets start, and clients that load what no thread of the lab can speak to.
//!
//! Their sources are in `crates/lab/grids` and in this program; [`build`] fetches their libraries and compiles them under the target
//! folder when they are first needed. A program is told what to do by lines on its standard input and answers by lines.
//!
//! A client in Java makes the same requests as the lab's own threads, chosen by the same numbers, and judges the answers by the same
//! rules, but what it costs is another thing: its latencies have in them what its library and its JVM do. Records say which client it was.

mod build;
mod client;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::targets::process::{Process, folder, on_path, pinned};
use crate::workload::Door;
pub(crate) use client::{Client, Request};

/// Heap of a member and of a client: the smallest and the largest size are the same, as the makers advise. Not touched beforehand.
const MEMBER_HEAP: &str = "4g";
const CLIENT_HEAP: &str = "2g";

/// A product whose programs are in a folder of `crates/lab/grids`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Product {
    Hazelcast,
    Geode,
    /// A client of RESP.
    Lettuce,
}

/// Workloads that the clients in Java have, by the protocol that threads of the lab speak for them.
pub(crate) fn workloads(door: Door) -> &'static [&'static str] {
    match door {
        Door::Resp => &["kv-get", "kv-put", "kv-mixed", "kv-batch", "kv-memory"],
        Door::Sql => &["sql-key", "sql-update", "sql-sum", "sql-range", "sql-fetch"],
        Door::Text => &[],
    }
}

/// The program that runs them, or what is missing to make or run them.
pub(crate) fn program() -> Result<PathBuf, String> {
    for program in ["javac", "mvn"] {
        on_path(program)?;
    }
    on_path("java")
}

impl Product {
    /// What it is called, and its folder.
    fn name(self) -> &'static str {
        match self {
            Self::Hazelcast => "hazelcast",
            Self::Geode => "geode",
            Self::Lettuce => "lettuce",
        }
    }

    /// What the names of its programs begin with.
    fn class(self) -> &'static str {
        match self {
            Self::Hazelcast => "Hazelcast",
            Self::Geode => "Geode",
            Self::Lettuce => "Lettuce",
        }
    }

    /// Options of a JVM on so many cores.
    fn options(self, cores: usize, heap: &str) -> Vec<String> {
        // On one core the serial collector is the quickest and the JVM's own choice; said aloud so that it stays so. Each of its full
        // collections compacts: else what is dead may lie there, and count as live.
        let mut options: Vec<String> = match cores {
            1 => vec!["-XX:+UseSerialGC".to_owned(), "-XX:MarkSweepAlwaysCompactCount=1".to_owned()],
            _ => vec!["-XX:+UseG1GC".to_owned()],
        };
        options.push("-XX:+ExitOnOutOfMemoryError".to_owned());
        options.extend([format!("-Xms{heap}"), format!("-Xmx{heap}")]);
        let own = build::text(&format!("{}/jvm.options", self.name()));
        options.extend(own.lines().filter(|line| !line.starts_with('#')).map(str::to_owned));
        options
    }

    /// Starts one of its programs; it says that it is ready.
    fn start(
        self,
        program: &str,
        name: &'static str,
        cores: Option<&str>,
        options: &[String],
        arguments: &[String],
    ) -> Result<Process> {
        let built = build::built(self)?;
        let java = on_path("java").map_err(anyhow::Error::msg)?;
        let folder = folder(name)?;
        let mut command = pinned(cores, &java);
        command.args(options).arg("-cp").arg(class_path(&built));
        command.arg(format!("{}{program}", self.class())).args(arguments);
        // Some write files where they are started.
        command.current_dir(folder.path());
        let mut process = Process::spawn_talking(name, command, folder)?;
        process.answer(client::START_PATIENCE, &mut |_| Ok(())).context("it did not start")?;
        Ok(process)
    }

    /// Starts a member of it on these cores, of which there are so many: the process, and how it was configured.
    pub(crate) fn start_member(
        self,
        cores: Option<&str>,
        core_count: usize,
        arguments: &[&str],
    ) -> Result<(Process, Vec<String>)> {
        let options = self.options(core_count, MEMBER_HEAP);
        // Any port, and it says which: one that was free before a JVM has started need not be so afterwards.
        let mut all = vec!["0".to_owned()];
        all.extend(arguments.iter().map(|&argument| argument.to_owned()));
        let process = self.start("Member", self.name(), cores, &options, &all)?;
        let mut configuration = options;
        configuration.extend(arguments.iter().map(|&argument| argument.to_owned()));
        Ok((process, configuration))
    }
}

fn class_path(built: &Path) -> String {
    format!("{0}/classes:{0}/lib/*", built.display())
}

#[cfg(test)]
mod tests;
