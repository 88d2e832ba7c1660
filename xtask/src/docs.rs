//! `./x docs`: writes the generated reference pages and the API documentation.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::{build, run, setup};

/// Pages that the server's program writes about itself: the file, and the arguments that print it.
const GENERATED: &[(&str, &[&str])] = &[("docs/reference/config.md", &["config", "reference"])];

/// Writes every generated page, then the API documentation of our crates.
pub(crate) fn docs() -> Result<()> {
    setup::require(&[setup::BUILD])?;
    build::workspace(run::PROFILE)?;
    let ashlar = run::built(run::PROFILE, "ashlar")?;
    for (page, arguments) in GENERATED {
        let text = run::read(Command::new(&ashlar).args(*arguments))?;
        if std::fs::read_to_string(page).is_ok_and(|old| old == text) {
            println!("{page}: up to date");
        } else {
            if let Some(folder) = Path::new(page).parent() {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::write(page, text)?;
            println!("{page}: written");
        }
    }
    run::run("cargo", &["doc", "--workspace", "--no-deps", "--profile", run::PROFILE])
}
