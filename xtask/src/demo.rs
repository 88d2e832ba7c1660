//! `./x demo`: from a bare machine to a running server with real data in it.
//!
//! The tour itself is `ashlar demo`, part of the server's program; this only gets there.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{build, run, setup};

/// Builds and runs `ashlar demo`; `once` ends it after the tour.
pub(crate) fn demo(once: bool) -> Result<()> {
    setup::require(&[setup::BUILD])?;
    setup::prefer(setup::CLIENTS);
    setup::prefer(setup::POSTGRES);
    build::server(run::PROFILE)?;
    let ashlar = run::built(run::PROFILE, "ashlar")?;
    let mut command = Command::new(&ashlar);
    command.arg("demo");
    if once {
        command.arg("--once");
    }
    let status = command.status().with_context(|| format!("running {}", ashlar.display()))?;
    if !status.success() {
        bail!("ashlar demo failed ({status})");
    }
    Ok(())
}
