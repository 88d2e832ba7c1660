//! Where the repository is, and running other programs: with their output shown, or with it read.
//!
//! Used by every verb. Never goes through a shell: arguments are passed as they are.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// The profile of the demo and of the tests; one for both, so that a fresh clone compiles its dependencies once.
pub(crate) const PROFILE: &str = "demo";

/// The root of the repository: this directory or the nearest one above it that holds `x` and `xtask`.
pub(crate) fn root() -> Result<PathBuf> {
    let start = std::env::current_dir()?;
    start
        .ancestors()
        .find(|dir| dir.join("x").is_file() && dir.join("xtask").is_dir())
        .map(Path::to_owned)
        .with_context(|| format!("{} is not inside the repository", start.display()))
}

/// Cargo's target directory of the server.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from)
}

/// A program that this build made, in the given profile.
pub(crate) fn built(profile: &str, program: &str) -> Result<PathBuf> {
    Ok(std::path::absolute(target_dir().join(profile).join(program))?)
}

/// Runs a program to its end with its output shown; fails unless it succeeds.
pub(crate) fn run(program: impl AsRef<OsStr>, arguments: &[&str]) -> Result<()> {
    let program = program.as_ref();
    let status =
        Command::new(program).args(arguments).status().with_context(|| format!("running {}", program.display()))?;
    if !status.success() {
        bail!("{} {} failed ({status})", program.display(), arguments.join(" "));
    }
    Ok(())
}

/// Runs a command to its end and returns its standard output; its error output is shown when it fails.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("running {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed ({}):\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The platform that cargo builds for by itself, such as `x86_64-unknown-linux-gnu`.
pub(crate) fn host() -> Result<String> {
    let version = read(Command::new("rustc").arg("-vV"))?;
    let line = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(line.context("rustc -vV names no host")?.to_owned())
}

/// Whether a program of this name is on the PATH.
pub(crate) fn on_path(program: &str) -> bool {
    find(program).is_some()
}

/// The program of this name on the PATH.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// A length of time as people say it: `9.4 s`, `3 min 20 s`.
pub(crate) fn spoken(time: Duration) -> String {
    if time < Duration::from_secs(60) {
        return format!("{:.1} s", time.as_secs_f64());
    }
    let seconds = time.as_secs_f64().round() as u64;
    format!("{} min {:02} s", seconds / 60, seconds % 60)
}
