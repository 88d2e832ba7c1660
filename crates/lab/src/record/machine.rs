//! The machine, the lab and the source that a run was made with.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

/// What figures depend on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: u32,
    pub(crate) memory_bytes: u64,
    pub(crate) kernel: String,
}

/// The source in the current folder. What was measured is a program that may have been built of another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Commit {
    pub(crate) id: String,
    pub(crate) dirty: bool,
}

impl Machine {
    /// This one.
    pub(crate) fn here() -> Self {
        let cpu_info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let named = |name: &str| {
            let line = cpu_info.lines().find(|line| line.starts_with(name))?;
            line.split_once(':').map(|(_, value)| value.trim().to_owned())
        };
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kib = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let kib: u64 = kib.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0);
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            // ARM names no model; its part number has to do.
            cpu: named("model name").or_else(|| named("CPU part")).unwrap_or_else(|| "unknown".to_owned()),
            cores: cpu_info.lines().filter(|line| line.starts_with("processor")).count() as u32,
            memory_bytes: kib * 1024,
            kernel: kernel.trim().to_owned(),
        }
    }

    /// What differs from another machine, as `what: here, there`.
    pub(crate) fn differences(&self, other: &Self) -> Vec<String> {
        // The kernel keeps some for itself, and not the same at every start.
        let gib = |machine: &Self| format!("{:.0} GiB", machine.memory_bytes as f64 / f64::from(1 << 30));
        [
            ("processor", self.cpu.clone(), other.cpu.clone()),
            ("cores", self.cores.to_string(), other.cores.to_string()),
            ("memory", gib(self), gib(other)),
            ("kernel", self.kernel.clone(), other.kernel.clone()),
        ]
        .into_iter()
        .filter(|(_, ours, theirs)| ours != theirs)
        .map(|(what, ours, theirs)| format!("{what}: {ours}, {theirs}"))
        .collect()
    }
}

/// How this lab was built: the folder of its program, which Cargo names after the profile.
pub(crate) fn build_of_the_lab() -> String {
    let program = std::env::current_exe().unwrap_or_default();
    let folder = program.parent().and_then(|folder| folder.file_name());
    folder.map_or("unknown".to_owned(), |folder| folder.to_string_lossy().into_owned())
}

impl Commit {
    /// That of the repository which the current folder is in, if it is in one.
    pub(crate) fn here() -> Option<Self> {
        Self::of(Path::new("."))
    }

    /// Likewise of another folder. Files that nobody has told Git of are no change of the source: what is built of one is named by a
    /// file that Git knows.
    fn of(folder: &Path) -> Option<Self> {
        let id = git(folder, &["rev-parse", "HEAD"])?;
        Some(Self { id, dirty: !git(folder, &["status", "--porcelain", "--untracked-files=no"])?.is_empty() })
    }
}

impl std::fmt::Display for Commit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.id.get(..10).unwrap_or(&self.id), if self.dirty { " with changes" } else { "" })
    }
}

fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(folder).args(arguments).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_is_dirty_and_a_stray_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path();
        assert_eq!(Commit::of(here), None);
        let does = |arguments: &[&str]| {
            let who = ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"];
            git(here, &[&who[..], arguments].concat()).unwrap()
        };
        does(&["init", "--quiet"]);
        fs::write(here.join("source"), "one\n").unwrap();
        does(&["add", "source"]);
        does(&["commit", "--quiet", "--no-verify", "-m", "first"]);
        let id = does(&["rev-parse", "HEAD"]);
        fs::write(here.join("stray"), "notes\n").unwrap();
        assert_eq!(Commit::of(here), Some(Commit { id: id.clone(), dirty: false }));
        fs::write(here.join("source"), "two\n").unwrap();
        assert_eq!(Commit::of(here), Some(Commit { id: id.clone(), dirty: true }));
        does(&["add", "source"]);
        assert_eq!(Commit::of(here), Some(Commit { id, dirty: true }));
    }
}
