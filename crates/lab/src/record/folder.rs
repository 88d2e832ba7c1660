//! The folder of a run.
//!
//! ```text
//! run.json                          everything but what follows
//! seconds/redis-8-1.hlog            a histogram for each second of one measurement, as HdrHistogram logs them, and for each kind of
//!                                   operations, with its name as a tag
//! metrics/ashlar-8-1-before.txt     the metrics page of the server before and after one measurement
//! profiles/ashlar-8-1-cpu.folded    stacks of the server within one measured window, a line each
//! ```

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use ashlar_telemetry::Stacks;
use serde_json::Value;

use super::histogram::{self, Latencies};
use super::{Run, SCHEMA_VERSION};

const RECORD: &str = "run.json";

/// The latencies of a measurement in parts: those of its seconds, and those of each kind of operations over the whole window, where a
/// workload has several, or something else was asked beside it.
#[derive(Default)]
pub(crate) struct InParts {
    pub(crate) seconds: Vec<Latencies>,
    pub(crate) kinds: Vec<(&'static str, Latencies)>,
}

/// A folder that a run is written to.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes the folder; one that has a run in it is left alone.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        if path.join(RECORD).exists() {
            bail!("{} has a run in it already", path.display());
        }
        for part in ["seconds", "metrics", "profiles"] {
            let part = path.join(part);
            fs::create_dir_all(&part).with_context(|| part.display().to_string())?;
        }
        Ok(Self(path.to_owned()))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes the record: whole, or not at all.
    pub(crate) fn save(&self, run: &Run) -> Result<()> {
        let part = self.0.join("run.json.part");
        fs::write(&part, serde_json::to_string_pretty(run)? + "\n").with_context(|| part.display().to_string())?;
        Ok(fs::rename(part, self.0.join(RECORD))?)
    }

    /// Writes the histograms of a measurement's seconds, and those of its kinds, each with a tag; the name of the file, as the record
    /// has it.
    pub(crate) fn save_seconds(&self, name: &str, parts: &InParts) -> Result<String> {
        let mut text = String::from(
            "#[Histogram log format version 1.3]\n#[Times in seconds from the start of the measured window; values in nanoseconds]\n\
             \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n",
        );
        // The format wants the largest value in milliseconds.
        let largest = |latencies: &Latencies| latencies.max() as f64 / 1e6;
        for (second, latencies) in parts.seconds.iter().enumerate() {
            writeln!(text, "{second}.000,1.000,{:.3},{}", largest(latencies), histogram::encode(latencies))?;
        }
        for (kind, latencies) in &parts.kinds {
            // A tag ends at the comma.
            let (kind, length) = (kind.replace([' ', ','], "-"), parts.seconds.len());
            writeln!(text, "Tag={kind},0.000,{length}.000,{:.3},{}", largest(latencies), histogram::encode(latencies))?;
        }
        self.save_text(&format!("seconds/{name}.hlog"), &text)
    }

    /// Writes a page of metrics; the name of the file, as the record has it.
    pub(crate) fn save_metrics(&self, name: &str, text: &str) -> Result<String> {
        self.save_text(&format!("metrics/{name}.txt"), text)
    }

    /// Writes the stacks of a profile; the name of the file, as the record has it.
    pub(crate) fn save_profile(&self, name: &str, stacks: &Stacks) -> Result<String> {
        self.save_text(&format!("profiles/{name}.folded"), &stacks.folded())
    }

    fn save_text(&self, name: &str, text: &str) -> Result<String> {
        // The address of a running server is part of the name.
        let name = name.replace(':', "_");
        fs::write(self.0.join(&name), text).with_context(|| name.clone())?;
        Ok(name)
    }
}

/// Reads the stacks of a profile, which the record names.
pub(crate) fn load_profile(folder: &Path, file: &str) -> Result<Stacks> {
    let path = folder.join(file);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Stacks::parse(&text).map_err(|reason| anyhow::anyhow!("{} is damaged: {reason}", path.display()))
}

/// Reads the record of a run.
pub(crate) fn load(path: &Path) -> Result<Run> {
    let file = path.join(RECORD);
    let text = fs::read_to_string(&file).with_context(|| format!("{} is no folder of a run", path.display()))?;
    let value: Value = serde_json::from_str(&text).with_context(|| format!("{} is damaged", file.display()))?;
    match value.get("schema_version").and_then(Value::as_u64) {
        Some(version) if version == u64::from(SCHEMA_VERSION) => {}
        Some(version) => bail!(
            "{} has schema version {version}, and this ashlar-lab reads version {SCHEMA_VERSION}: use the ashlar-lab that made it",
            file.display()
        ),
        None => bail!("{} has no schema_version: it is no record of a run", file.display()),
    }
    serde_json::from_value(value).with_context(|| format!("{} is damaged", file.display()))
}
