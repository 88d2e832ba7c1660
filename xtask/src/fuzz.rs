//! `./x fuzz`: runs a fuzz target for a while, with coverage feedback, on the pinned stable toolchain.
//!
//! Does by itself the little of cargo-fuzz that is needed. No address sanitizer, which would need a nightly toolchain:
//! the decoders are safe Rust, so a fault is a panic, a failed assertion or memory without bound.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{run, setup};

const FOLDER: &str = "fuzz";

/// What makes the compiler count edges and comparisons for libFuzzer, and what turns silent faults into panics.
const FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cdebug-assertions",
    "-Coverflow-checks",
    "-Ccodegen-units=1",
    "--cfg=fuzzing",
];

/// One input may use this much memory before it counts as a fault.
const MEMORY_MIB_MAX: u32 = 512;

/// Runs `target` for `seconds`; `list` names the targets, `all` runs one after the other.
pub(crate) fn fuzz(target: &str, seconds: u64) -> Result<()> {
    let targets = targets()?;
    match target {
        "list" => targets.iter().for_each(|name| println!("{name}")),
        "all" => {
            for name in &targets {
                one(name, seconds)?;
            }
        }
        name if targets.iter().any(|target| target == name) => one(name, seconds)?,
        name => bail!("there is no fuzz target {name}; there are: {}", targets.join(", ")),
    }
    Ok(())
}

fn one(target: &str, seconds: u64) -> Result<()> {
    setup::require(&[setup::BUILD])?;
    let host = run::host()?;
    let build = std::path::absolute(run::target_dir().join("fuzz"))?;
    let status = Command::new("cargo")
        .args(["build", "--release", "--manifest-path", "fuzz/Cargo.toml", "--bin", target, "--target", &host])
        .arg("--target-dir")
        .arg(&build)
        .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\u{1f}"))
        .status()?;
    if !status.success() {
        bail!("the fuzz target {target} does not build ({status})");
    }
    // What the run finds goes under the target directory; the corpus in the repository is only read.
    let (found, faults) = (build.join("found").join(target), build.join("faults").join(target));
    std::fs::create_dir_all(&found)?;
    std::fs::create_dir_all(&faults)?;
    let program = build.join(&host).join("release").join(target);
    let status = Command::new(&program)
        .args([found, PathBuf::from(FOLDER).join("corpus").join(target)])
        .args([format!("-max_total_time={seconds}"), format!("-rss_limit_mb={MEMORY_MIB_MAX}")])
        .args([format!("-artifact_prefix={}/", faults.display()), "-print_final_stats=1".to_owned()])
        .status()?;
    if !status.success() {
        bail!("{target}: a fault; the input is in {} and {} repeats it", faults.display(), program.display());
    }
    Ok(())
}

/// The names of the programs in the fuzz folder's manifest.
fn targets() -> Result<Vec<String>> {
    let path = Path::new(FOLDER).join("Cargo.toml");
    let manifest: toml::Table = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?.parse()?;
    let programs = manifest.get("bin").and_then(toml::Value::as_array).into_iter().flatten();
    Ok(programs.filter_map(|program| program.get("name")?.as_str().map(str::to_owned)).collect())
}
