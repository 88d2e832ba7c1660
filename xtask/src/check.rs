//! `./x check` and `./x fix`: what can be judged without running the server.

use anyhow::{Result, bail};

use crate::{run, setup, tidy};

/// Clippy's flags. The demo's profile, so that build scripts and macros are shared with the build of the tests.
const CLIPPY: &[&str] = &["clippy", "--workspace", "--all-targets", "--profile", run::PROFILE];

/// How to get what checks licences.
pub(crate) const DENY_INSTALL: &str = "cargo install --locked cargo-deny";

/// Formatting, tidy, clippy without warnings, licences. Everything is looked at before it fails.
pub(crate) fn check(fast: bool) -> Result<()> {
    let mut failed = Vec::new();
    let mut step = |name: &'static str, done: Result<()>| {
        if let Err(error) = done {
            eprintln!("x: {name}: {error:#}");
            failed.push(name);
        } else {
            eprintln!("x: {name}: good");
        }
    };
    step("format", run::run("cargo", &["fmt", "--all", "--check"]));
    step("tidy", tidy());
    if !fast {
        setup::require(&[setup::BUILD])?;
        let mut arguments = CLIPPY.to_vec();
        arguments.extend(["--", "-D", "warnings"]);
        step("clippy", run::run("cargo", &arguments));
        if run::on_path("cargo-deny") {
            // No advisories: they need a database from the network, and CI must not depend on its mood.
            step("deny", run::run("cargo", &["deny", "--all-features", "check", "licenses", "bans", "sources"]));
        } else {
            eprintln!("x: deny: skipped, licences are NOT checked: cargo-deny is not installed");
            eprintln!("x:       {DENY_INSTALL} installs it");
        }
    }
    if !failed.is_empty() {
        bail!("{} failed", failed.join(", "));
    }
    Ok(())
}

/// Formats the sources and applies what clippy can repair by itself.
pub(crate) fn fix() -> Result<()> {
    setup::require(&[setup::BUILD])?;
    let mut arguments = CLIPPY.to_vec();
    arguments.extend(["--fix", "--allow-dirty", "--allow-staged"]);
    run::run("cargo", &arguments)?;
    run::run("cargo", &["fmt", "--all"])
}

fn tidy() -> Result<()> {
    let report = tidy::run(&run::root()?)?;
    for problem in &report.problems {
        eprintln!("{problem}");
    }
    if !report.rules_broken.is_empty() {
        bail!("broken: {}", report.rules_broken.join(", "));
    }
    Ok(())
}
