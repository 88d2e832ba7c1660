//! Ashlar: one door thread and one query thread a core, 8 GiB at most.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::process::{Process, folder, folder_in_memory, pinned};
use super::{Start, Started};

/// Builds that are looked for.
const PROFILES: &[&str] = &["release", "figures", "demo"];

/// The program that was named, or the one that was built last: an older one is of another source than the one at hand.
pub(super) fn program(named: Option<&PathBuf>) -> Result<PathBuf, String> {
    if let Some(program) = named {
        return if program.is_file() {
            std::path::absolute(program).map_err(|error| error.to_string())
        } else {
            Err(format!("{} is no program", program.display()))
        };
    }
    let target = PathBuf::from(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
    let program = newest(&target).ok_or_else(|| {
        format!("there is no {}/{{{}}}/ashlar; --ashlar names another", target.display(), PROFILES.join(","))
    })?;
    std::path::absolute(program).map_err(|error| error.to_string())
}

/// The program that was built last under this folder of Cargo's.
fn newest(target: &Path) -> Option<PathBuf> {
    let programs = PROFILES.iter().map(|profile| target.join(profile).join("ashlar"));
    let dated = programs.filter(|program| program.is_file());
    let dated = dated.filter_map(|program| Some((program.metadata().ok()?.modified().ok()?, program)));
    dated.max().map(|(_, program)| program)
}

/// Starts it and waits for its doors.
pub(super) fn start(program: &Path, start: &Start<'_>) -> Result<Started> {
    start_as("ashlar", program, start, false)
}

/// Likewise, as a process of this name; it may have tables in other servers.
pub(super) fn start_as(name: &'static str, program: &Path, start: &Start<'_>, shards: bool) -> Result<Started> {
    let folder = if shards { folder_in_memory(name)? } else { folder(name)? };
    let threads = start.core_count()?;
    let mut config = format!(
        "[server]\ncores = {threads}\n[query]\nthreads = {threads}\n[store]\nmemory_mib_max = 8192\n[log]\nlevel = \"warn\"\n"
    );
    if shards {
        config.push_str(&format!("[shard]\ndata_dir = \"{}\"\n", folder.path().join("data").display()));
    }
    let path = folder.path().join("ashlar.toml");
    std::fs::write(&path, &config)?;
    let ready = folder.path().join("ready");
    let mut command = pinned(start.cores, program);
    command.args(["serve", "--pg", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--config"]);
    command.arg(&path).arg("--ready-file").arg(&ready);
    let mut process = Process::spawn(name, command, folder)?;
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

#[cfg(test)]
mod tests {
    use std::fs::{File, create_dir};
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn the_program_that_was_built_last_is_taken() {
        let target = tempfile::tempdir().unwrap();
        assert_eq!(newest(target.path()), None);
        for (profile, day) in [("release", 1), ("figures", 3), ("demo", 2)] {
            create_dir(target.path().join(profile)).unwrap();
            let program = File::create(target.path().join(profile).join("ashlar")).unwrap();
            program.set_modified(UNIX_EPOCH + Duration::from_secs(day * 86_400)).unwrap();
        }
        assert_eq!(newest(target.path()), Some(target.path().join("figures/ashlar")));
    }
}
