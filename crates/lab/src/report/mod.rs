//! `ashlar-lab report RUN...`: one HTML page and one Markdown page of some runs.
//!
//! Reads records, writes two files. Draws what was measured and decides nothing: that is `compare`.

mod flames;
mod html;
mod markdown;
mod page;
mod queries;
pub(crate) mod remarks;
mod svg;
pub(crate) mod table;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::record::{Run, folder};
use crate::say;
use flames::Flame;

/// A run that is reported.
struct Reported {
    /// The name of its folder.
    name: String,
    run: Run,
    flames: Vec<Flame>,
}

/// Writes `report.html` and `report.md` into `out`, or into the folder of the first run.
pub(crate) fn run(folders: &[PathBuf], out: Option<&Path>) -> Result<()> {
    let mut runs = Vec::new();
    for path in folders {
        let name = path.file_name().map_or(path.as_os_str(), |name| name).to_string_lossy().into_owned();
        let run = folder::load(path)?;
        let flames = flames::of(path, &run)?;
        runs.push(Reported { name, run, flames });
    }
    let out = out.unwrap_or(&folders[0]);
    fs::create_dir_all(out).with_context(|| out.display().to_string())?;
    for (name, text) in [("report.html", page::html(&runs)?), ("report.md", markdown::page(&runs))] {
        let path = out.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())?;
        say::result(&path.display().to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
