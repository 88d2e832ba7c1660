//! `ashlar config`, and the configuration of the commands that start a server.
//!
//! Called by `cli`. Reads the file and the environment; the rules are in `base::config`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use ashlar_base::config::{self, ConfigFile, Problem, Resolved, Sources};

use super::{ConfigOptions, EXIT_USAGE, complain, say};

/// Prints what would be in force.
pub(super) fn show(options: &ConfigOptions) -> anyhow::Result<ExitCode> {
    let Some(resolved) = resolve(options)? else { return Ok(ExitCode::from(EXIT_USAGE)) };
    complain_of(&resolved.unknown);
    say(&resolved.show())
}

/// Says what is wrong, unknown names included.
pub(super) fn check(options: &ConfigOptions) -> anyhow::Result<ExitCode> {
    let Some(resolved) = resolve(options)? else { return Ok(ExitCode::from(EXIT_USAGE)) };
    complain_of(&resolved.unknown);
    if resolved.unknown.is_empty() { say("the configuration is valid\n") } else { Ok(ExitCode::from(EXIT_USAGE)) }
}

/// The configuration in force; none if it is wrong, which has then been said.
pub(crate) fn resolve(options: &ConfigOptions) -> anyhow::Result<Option<Resolved>> {
    let file = match &options.config {
        None => Ok(ConfigFile::default()),
        Some(path) => read(path)?,
    };
    let resolved = file.and_then(|file| {
        // A variable that is not UTF-8 is none of ours.
        let environment = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        let environment = environment.map(|(name, value)| (name, value.to_string_lossy().into_owned())).collect();
        config::resolve(Sources { file, environment, flags: flags(options) })
    });
    match resolved {
        Ok(resolved) => Ok(Some(resolved)),
        Err(problems) => {
            complain_of(&problems);
            Ok(None)
        }
    }
}

/// Names each problem on a line of its own.
pub(crate) fn complain_of(problems: &[Problem]) {
    for problem in problems {
        complain(&problem.to_string());
    }
}

fn read(path: &Path) -> anyhow::Result<Result<ConfigFile, Vec<Problem>>> {
    let text = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let Ok(text) = String::from_utf8(text) else { bail!("{} is not UTF-8", path.display()) };
    Ok(ConfigFile::parse(&path.display().to_string(), &text))
}

fn flags(options: &ConfigOptions) -> Vec<(String, String, String)> {
    let mut flags = Vec::new();
    for setting in &options.set {
        let (path, value) = setting.split_once('=').unwrap_or((setting, ""));
        flags.push((format!("--set {setting}"), path.trim().to_owned(), value.trim().to_owned()));
    }
    let addresses = [
        ("--pg", "server.pg_address", &options.pg),
        ("--resp", "server.resp_address", &options.resp),
        ("--http", "server.http_address", &options.http),
    ];
    for (flag, path, value) in addresses {
        if let Some(value) = value {
            flags.push((flag.to_owned(), path.to_owned(), value.clone()));
        }
    }
    flags
}
