//! DuckDB, stock DataFusion, ClickHouse and Polars: engines without a door of their own, each inside a process of the lab that gives it one
//! (`engines/serve.py`). In memory, with the settings they come with, but for those that stand here.
//!
//! Their packages come from Python's registry when they are first measured, in these versions and into a folder of their own. Only
//! `run` installs; `list` looks whether they are there.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::process::{Process, folder, on_path, pinned};
use super::{Start, Started};
use crate::say;

/// The process that an engine runs in.
const SERVE: &str = include_str!("../../engines/serve.py");

/// In the folder of an engine: what was installed, a line each.
const PACKAGES: &str = "packages";

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    DuckDb,
    DataFusion,
    Chdb,
    Polars,
}

impl Engine {
    /// As `--target` names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::DuckDb => "duckdb",
            Self::DataFusion => "datafusion",
            Self::Chdb => "chdb",
            Self::Polars => "polars",
        }
    }

    /// What is installed, itself first, and all that it needs: what is not named would be another at another time.
    fn packages(self) -> &'static [&'static str] {
        match self {
            Self::DuckDb => &["duckdb==2.0.0"],
            Self::DataFusion => {
                &["datafusion==55.0.0", "cloudpickle==3.1.2", "pyarrow==26.0.1", "typing_extensions==4.16.0"]
            }
            Self::Chdb => &[
                "chdb==4.4.0",
                "chdb-core==26.9.0",
                "numpy==2.4.6",
                "pandas==3.1.1",
                "pyarrow==26.0.1",
                "python-dateutil==4.0.0",
                "tzdata==2026.6",
            ],
            Self::Polars => &["polars==2.1.0", "polars-runtime-32==2.1.0"],
        }
    }

    /// Settings that it is started with, as it names them.
    fn settings(self, cores: usize) -> Vec<String> {
        match self {
            // NULLs where PostgreSQL has them in an order.
            Self::DuckDb => vec![format!("threads={cores}"), "default_null_order=postgres".to_owned()],
            Self::DataFusion => vec![format!("datafusion.execution.target_partitions={cores}")],
            // As SQL has it; by default its outer joins fill with zeros.
            Self::Chdb => vec![format!("max_threads={cores}"), "join_use_nulls=1".to_owned()],
            Self::Polars => Vec::new(),
        }
    }

    /// Settings that it takes from its environment.
    fn environment(self, cores: usize) -> Option<(&'static str, String)> {
        match self {
            Self::DataFusion => Some(("TOKIO_WORKER_THREADS", cores.to_string())),
            Self::Polars => Some(("POLARS_MAX_THREADS", cores.to_string())),
            Self::DuckDb | Self::Chdb => None,
        }
    }

    /// Where it is installed: another version has another folder.
    fn home(self) -> PathBuf {
        let target = PathBuf::from(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
        target.join("lab/engines").join(self.packages()[0].replace("==", "-"))
    }

    /// Whether what is in its folder is what is named here.
    fn is_installed(self) -> bool {
        is_installed(self.packages(), &self.home())
    }
}

/// Whether what is in a folder are these packages.
fn is_installed(packages: &[&str], home: &Path) -> bool {
    std::fs::read_to_string(home.join(PACKAGES)).is_ok_and(|text| text.lines().eq(packages.iter().copied()))
}

/// The Python that has it, or why there is none.
pub(super) fn program(engine: Engine) -> Result<PathBuf, String> {
    if engine.is_installed() {
        return std::path::absolute(engine.home().join("bin/python")).map_err(|error| error.to_string());
    }
    on_path("python3").map_err(|reason| format!("{reason}, which would install it"))?;
    Err(format!("not installed yet; a run with it installs {}", engine.packages().join(" ")))
}

/// Installs it, unless it is there; the Python that has it, or why it cannot be had.
pub(super) fn install(engine: Engine) -> Result<PathBuf, String> {
    if let Ok(python) = program(engine) {
        return Ok(python);
    }
    let system = on_path("python3")?;
    let home = engine.home();
    say::note(&format!("installing {} into {}, once", engine.packages().join(" "), home.display()));
    install_into(engine.packages(), &system, &home).map_err(|error| format!("it cannot be installed: {error:#}"))?;
    program(engine)
}

/// Whole or not at all: made beside its place, and moved there.
pub(super) fn install_into(packages: &[&str], system: &Path, home: &Path) -> Result<()> {
    let above = home.parent().context("a folder above it")?;
    std::fs::create_dir_all(above).with_context(|| above.display().to_string())?;
    let part = tempfile::Builder::new().prefix("part-").tempdir_in(above)?;
    done(Command::new(system).args(["-m", "venv"]).arg(part.path()))?;
    let mut pip = Command::new(part.path().join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check", "--only-binary=:all:"]);
    done(pip.arg("--no-deps").args(packages))?;
    std::fs::write(part.path().join(PACKAGES), packages.join("\n"))?;
    if home.is_dir() && !is_installed(packages, home) {
        std::fs::remove_dir_all(home)?;
    }
    let part = part.keep();
    match std::fs::rename(&part, home) {
        // Somebody else was quicker.
        Err(_) if home.is_dir() => Ok(std::fs::remove_dir_all(part)?),
        other => Ok(other?),
    }
}

fn done(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{command:?}"))?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    anyhow::ensure!(output.status.success(), "{command:?}: {}: {last}", output.status);
    Ok(())
}

/// Starts its process and waits until it listens.
pub(super) fn start(engine: Engine, python: &Path, start: &Start<'_>) -> Result<Started> {
    let folder = folder(engine.name())?;
    let script = folder.path().join("serve.py");
    std::fs::write(&script, SERVE)?;
    let ready = folder.path().join("ready");
    let cores = start.core_count()?;
    let settings = engine.settings(cores);
    let mut command = pinned(start.cores, python);
    // What an engine spills, or keeps beside its memory, goes with the process.
    command.arg(&script).args([engine.name(), "--ready-file"]).arg(&ready).current_dir(folder.path());
    settings.iter().for_each(|setting| {
        command.args(["--setting", setting]);
    });
    let mut configuration: Vec<String> = engine.packages().iter().map(|package| (*package).to_owned()).collect();
    configuration.extend(settings);
    if let Some((name, value)) = engine.environment(cores) {
        configuration.push(format!("{name}={value}"));
        command.env(name, value);
    }
    let mut process = Process::spawn(engine.name(), command, folder)?;
    let address = process.wait_for(|| std::fs::read_to_string(&ready).ok()?.trim().parse().ok())?;
    Ok(Started { process, resp: None, sql: Some(address), http: None, configuration })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_has_a_version_and_every_version_a_folder() {
        for engine in [Engine::DuckDb, Engine::DataFusion, Engine::Chdb, Engine::Polars] {
            assert!(engine.packages().iter().all(|package| package.split_once("==").is_some()), "{engine:?}");
            assert!(engine.home().to_str().unwrap().contains(&format!("engines/{}-", engine.name())), "{engine:?}");
            let of_environment = engine.environment(3).is_some_and(|(_, value)| value == "3");
            assert!(of_environment || engine.settings(3).iter().any(|setting| setting.ends_with("=3")), "{engine:?}");
        }
    }

    #[test]
    fn what_cannot_be_installed_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("engines/duckdb");
        let refusal =
            format!("{:#}", install_into(Engine::DuckDb.packages(), Path::new("/bin/false"), &home).unwrap_err());
        assert!(refusal.contains("venv"), "{refusal}");
        assert_eq!(std::fs::read_dir(folder.path().join("engines")).unwrap().count(), 0);
    }
}
