//! `./x miri`, `./x asan` and `./x shuttle`: what the ordinary tests of the store and of the operators cannot show, each in a build of its
//! own under the target directory.
//!
//! Miri and shuttle build the crate `store` and what it stands on; Miri the crate `operators` too, of which it interprets tests that call no
//! C library: it could not interpret one.

use std::process::Command;

use anyhow::{Result, bail};

use crate::run;

/// The toolchain that Miri comes with, and sanitizers; the pinned one has none.
const NIGHTLY: &str = "nightly";

/// What has `unsafe` in it, and the tables on it, by crate: of the instructions of a processor Miri interprets the twins. The crates' other places
/// (allocators of tests, a signal to a thread, which is a call of the system) have nothing that Miri could look at.
const UNSAFE: &[(&str, &[&str])] = &[(STORE, &["segment::"]), ("ashlar-operators", &["hash_table::"])];

const STORE: &str = "ashlar-store";

/// What threads meet at without a lock, and how many schedules of each Miri tries.
const RACES: &[&str] =
    &["snapshot::tests::threads", "segment::arena::tests::readers", "segment::arena::tests::what_is_given"];
const SCHEDULES: u32 = 16;

/// What AddressSanitizer watches: the crates with unsafe modules under many sizes and threads, and which of their tests it does not. Both build
/// without the server. Left out are those in which nearly all of the time is the engine's, which has a set of values for each group and aggregate
/// where they count once: they take half an hour, and what they ask of ours others ask too.
const WATCHED: &[(&str, &[&str])] = &[
    (STORE, &[]),
    (
        "ashlar-operators",
        &[
            "aggregate::tests::values_that_count_once_are_those_of_the_engine",
            "aggregate::tests::grouping_sets_are_those_of_the_engine",
        ],
    ),
];

/// The tests that run under shuttle.
const INTERLEAVINGS: &str = "interleavings::";

/// Interprets the tests of the unsafe modules: reads of what is not there or not written, broken borrows, data races.
pub(crate) fn miri() -> Result<()> {
    install_miri()?;
    // The tests look at the clock, and at files that proptest keeps.
    let flags = "-Zmiri-disable-isolation";
    for (package, filters) in UNSAFE {
        interpret(package, filters, flags)?;
    }
    interpret(STORE, RACES, &format!("{flags} -Zmiri-many-seeds=0..{SCHEDULES}"))
}

fn interpret(package: &str, filters: &[&str], flags: &str) -> Result<()> {
    let status = Command::new("cargo")
        .args([&format!("+{NIGHTLY}"), "miri", "test", "--package", package, "--lib", "--target-dir"])
        .arg(std::path::absolute(run::target_dir().join("miri"))?)
        .arg("--")
        .args(filters)
        .env("MIRIFLAGS", flags)
        .status()?;
    if !status.success() {
        bail!("Miri found something in {package}, or could not run ({status})");
    }
    Ok(())
}

fn install_miri() -> Result<()> {
    let toolchain = format!("+{NIGHTLY}");
    if run::read(Command::new("cargo").args([&toolchain, "miri", "--version"])).is_ok() {
        return Ok(());
    }
    install_nightly()?;
    eprintln!("x: installing Miri with rustup");
    run::run("rustup", &["component", "add", "--toolchain", NIGHTLY, "miri", "rust-src"])
}

/// A nightly toolchain, if there is none. One that is there stays as it is: an update would be another toolchain for whoever uses it.
fn install_nightly() -> Result<()> {
    if !run::on_path("rustup") {
        bail!("this takes a nightly toolchain, and rustup, which installs one, is not on the PATH");
    }
    if run::read(Command::new("rustup").args(["run", NIGHTLY, "rustc", "--version"])).is_ok() {
        return Ok(());
    }
    eprintln!("x: installing a nightly toolchain with rustup");
    run::run("rustup", &["toolchain", "install", NIGHTLY, "--profile", "minimal"])
}

/// Runs unit and property tests under AddressSanitizer, at full size and with threads, which Miri is too slow for: it notices what is read
/// or written outside of what was allocated or after that was given back, and what is never given back. The standard library and C are as
/// they are: of what they do, calls of the allocator and of `memcpy` are watched.
pub(crate) fn asan() -> Result<()> {
    install_nightly()?;
    let (host, target_dir) = (run::host()?, std::path::absolute(run::target_dir().join("asan"))?);
    for (package, left_out) in WATCHED {
        // With a target that is named, what runs while building is not instrumented.
        let status = Command::new("cargo")
            .args([&format!("+{NIGHTLY}"), "test", "--package", package, "--lib", "--profile", run::PROFILE])
            .args(["--target", &host, "--target-dir"])
            .arg(&target_dir)
            .arg("--")
            .args(left_out.iter().flat_map(|test| ["--skip", *test]))
            .env("CARGO_ENCODED_RUSTFLAGS", ["-Zsanitizer=address", "-Cdebug-assertions"].join("\u{1f}"))
            .status()?;
        if !status.success() {
            bail!("AddressSanitizer found something in {package}, a test failed, or nothing could be run ({status})");
        }
    }
    Ok(())
}

/// Runs the store's threads under schedules that are drawn by lot: with shuttle's locks and atomics in the place of the machine's.
pub(crate) fn shuttle() -> Result<()> {
    let status = Command::new("cargo")
        .args(["test", "--package", STORE, "--lib", "--profile", run::PROFILE, "--target-dir"])
        .arg(std::path::absolute(run::target_dir().join("shuttle"))?)
        .args(["--", INTERLEAVINGS])
        .env("CARGO_ENCODED_RUSTFLAGS", ["--cfg", "shuttle", "-Cdebug-assertions"].join("\u{1f}"))
        .status()?;
    if !status.success() {
        bail!("there is a schedule under which a test fails, or nothing could be run ({status})");
    }
    Ok(())
}
