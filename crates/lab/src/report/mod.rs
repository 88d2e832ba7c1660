//! `ashlar-lab report RUN...`: one HTML page and one Markdown page of some runs.
//!
//! Reads records, writes two files. Draws what was measured and decides nothing: that is `compare`.

mod html;
mod markdown;
mod page;
pub(crate) mod remarks;
mod svg;
pub(crate) mod table;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::record::{Run, folder};
use crate::say;

/// Writes `report.html` and `report.md` into `out`, or into the folder of the first run.
pub(crate) fn run(folders: &[PathBuf], out: Option<&Path>) -> Result<()> {
    let mut runs = Vec::new();
    for path in folders {
        let name = path.file_name().map_or(path.as_os_str(), |name| name).to_string_lossy().into_owned();
        runs.push((name, folder::load(path)?));
    }
    let runs: Vec<(&str, &Run)> = runs.iter().map(|(name, run)| (name.as_str(), run)).collect();
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
