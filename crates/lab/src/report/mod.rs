//! `ashlar-lab report RUN...`: one HTML page and one Markdown page of some runs.
//!
//! Reads records, writes two files. Draws what was measured and decides nothing: that is `compare`.

mod facts;
mod figure;
mod flames;
mod html;
mod kinds;
mod links;
mod markdown;
mod page;
mod plots;
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
use links::Links;
use table::Table;

/// A run that is reported.
struct Reported {
    /// The name of its folder.
    name: String,
    run: Run,
    flames: Vec<Flame>,
    /// From the page to the folder.
    links: Links,
    /// What `compare` has drawn there.
    drawings: Vec<String>,
}

/// Whether a target costs what the harness costs, and nothing besides.
pub(crate) fn is_harness(target: &str) -> bool {
    [plots::HARNESS, plots::HARNESS_JAVA, plots::HARNESS_FOREIGN].contains(&target)
}

/// Writes `report.html` and `report.md` into `out`, or into the folder of the first run.
pub(crate) fn run(folders: &[PathBuf], out: Option<&Path>) -> Result<()> {
    let records = folders.iter().map(|path| Ok((path, folder::load(path)?))).collect::<Result<Vec<_>>>()?;
    let out = out.unwrap_or(&folders[0]);
    fs::create_dir_all(out).with_context(|| out.display().to_string())?;
    let mut runs = Vec::new();
    for (path, run) in records {
        let name = path.file_name().map_or(path.as_os_str(), |name| name).to_string_lossy().into_owned();
        let flames = flames::of(path, &run)?;
        runs.push(Reported { name, run, flames, links: Links::between(out, path)?, drawings: drawings(path)? });
    }
    for (name, text) in [("report.html", page::html(&runs)?), ("report.md", markdown::page(&runs))] {
        let path = out.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())?;
        say::result(&path.display().to_string())?;
    }
    Ok(())
}

/// The tables that a run has below the table of measures, with their titles.
pub(crate) fn below(run: &Run) -> Vec<(String, Table)> {
    let mut tables = queries::of(run);
    tables.extend(kinds::of(run));
    tables
}

/// The differential flame graphs in a folder, by name.
fn drawings(folder: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with("difference-") && name.ends_with(".svg") {
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests;
