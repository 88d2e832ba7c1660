//! `./x miri` and `./x shuttle`: what the ordinary tests of the store cannot show, each in a build of its own under the target directory.
//!
//! Only the crate `store` and what it stands on is built: neither has a C library under it, which Miri could not interpret.

use std::process::Command;

use anyhow::{Result, bail};

use crate::run;

/// The toolchain that Miri comes with; the pinned one has none.
const NIGHTLY: &str = "nightly";

/// What has `unsafe` in it. The crates' other places (allocators of tests, a signal to a thread, which is a call of the system) have
/// nothing that Miri could look at.
const UNSAFE: &[&str] = &["segment::"];

/// What threads meet at without a lock, and how many schedules of each Miri tries.
const RACES: &[&str] =
    &["snapshot::tests::threads", "segment::arena::tests::readers", "segment::arena::tests::what_is_given"];
const SCHEDULES: u32 = 16;

/// The tests that run under shuttle.
const INTERLEAVINGS: &str = "interleavings::";

/// Interprets the tests of the unsafe modules: reads of what is not there or not written, broken borrows, data races.
pub(crate) fn miri() -> Result<()> {
    install_miri()?;
    // The tests look at the clock, and at files that proptest keeps.
    let flags = "-Zmiri-disable-isolation";
    interpret(UNSAFE, flags)?;
    interpret(RACES, &format!("{flags} -Zmiri-many-seeds=0..{SCHEDULES}"))
}

fn interpret(filters: &[&str], flags: &str) -> Result<()> {
    let status = Command::new("cargo")
        .args([&format!("+{NIGHTLY}"), "miri", "test", "--package", "ashlar-store", "--lib", "--target-dir"])
        .arg(std::path::absolute(run::target_dir().join("miri"))?)
        .arg("--")
        .args(filters)
        .env("MIRIFLAGS", flags)
        .status()?;
    if !status.success() {
        bail!("Miri found something, or could not run ({status})");
    }
    Ok(())
}

fn install_miri() -> Result<()> {
    let toolchain = format!("+{NIGHTLY}");
    if run::read(Command::new("cargo").args([&toolchain, "miri", "--version"])).is_ok() {
        return Ok(());
    }
    if !run::on_path("rustup") {
        bail!("Miri comes with a nightly toolchain, and rustup, which installs one, is not on the PATH");
    }
    let has_nightly = run::read(Command::new("rustup").args(["run", NIGHTLY, "rustc", "--version"])).is_ok();
    eprintln!("x: installing Miri with rustup");
    if has_nightly {
        // As it is: an update would be another toolchain for whoever uses it.
        return run::run("rustup", &["component", "add", "--toolchain", NIGHTLY, "miri", "rust-src"]);
    }
    run::run(
        "rustup",
        &["toolchain", "install", NIGHTLY, "--profile", "minimal", "--component", "miri", "--component", "rust-src"],
    )
}

/// Runs the store's threads under schedules that are drawn by lot: with shuttle's locks and atomics in the place of the machine's.
pub(crate) fn shuttle() -> Result<()> {
    let status = Command::new("cargo")
        .args(["test", "--package", "ashlar-store", "--lib", "--profile", run::PROFILE, "--target-dir"])
        .arg(std::path::absolute(run::target_dir().join("shuttle"))?)
        .args(["--", INTERLEAVINGS])
        .env("CARGO_ENCODED_RUSTFLAGS", ["--cfg", "shuttle", "-Cdebug-assertions"].join("\u{1f}"))
        .status()?;
    if !status.success() {
        bail!("there is a schedule under which a test fails, or nothing could be run ({status})");
    }
    Ok(())
}
