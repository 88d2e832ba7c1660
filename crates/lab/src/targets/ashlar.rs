//! Ashlar: one door thread and one query thread a core, 8 GiB at most.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::process::{Process, folder, pinned};
use super::{Start, Started};

/// Builds that are looked for, the fastest first.
const PROFILES: &[&str] = &["release", "figures", "demo"];

/// The program that was named, or the fastest one that was built.
pub(super) fn program(named: Option<&PathBuf>) -> Result<PathBuf, String> {
    if let Some(program) = named {
        return if program.is_file() {
            std::path::absolute(program).map_err(|error| error.to_string())
        } else {
            Err(format!("{} is no program", program.display()))
        };
    }
    let target = PathBuf::from(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
    let built = PROFILES.iter().map(|profile| target.join(profile).join("ashlar")).find(|program| program.is_file());
    let program = built.ok_or_else(|| {
        format!("there is no {}/{{{}}}/ashlar; --ashlar names another", target.display(), PROFILES.join(","))
    })?;
    std::path::absolute(program).map_err(|error| error.to_string())
}

/// Starts it and waits for its doors.
pub(super) fn start(program: &Path, start: &Start<'_>) -> Result<Started> {
    let folder = folder("ashlar")?;
    let threads = start.core_count()?;
    let config = format!(
        "[server]\ncores = {threads}\n[query]\nthreads = {threads}\n[store]\nmemory_mib_max = 8192\n[log]\nlevel = \"warn\"\n"
    );
    let path = folder.path().join("ashlar.toml");
    std::fs::write(&path, &config)?;
    let ready = folder.path().join("ready");
    let mut command = pinned(start.cores, program);
    command.args(["serve", "--pg", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--config"]);
    command.arg(&path).arg("--ready-file").arg(&ready);
    let mut process = Process::spawn("ashlar", command, folder)?;
    let doors: serde_json::Value =
        process.wait_for(|| serde_json::from_str(&std::fs::read_to_string(&ready).ok()?).ok())?;
    let door = |name: &str| -> Result<Option<SocketAddr>> {
        Ok(Some(doors[name].as_str().with_context(|| format!("the ready file names no {name}"))?.parse()?))
    };
    Ok(Started {
        process,
        resp: door("resp")?,
        sql: door("pg")?,
        http: door("http")?,
        configuration: config.lines().map(str::to_owned).collect(),
    })
}
