//! A server process of the lab: started on its cores in a folder of its own, stopped at the end, whatever the end is.

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ashlar_base::clock::monotonic;
use tempfile::TempDir;

use crate::clock::pause;
use crate::interrupt;

/// How long a server may take to start, or to stop when asked; a Java machine on a busy core takes long.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// How long a process may take to end after its connections.
const DYING: Duration = Duration::from_millis(500);

/// Lines of its log that are shown when a server ended.
const LAST_LINES: usize = 10;

/// A running process; dropping it stops it, and then those behind it.
pub(super) struct Process {
    name: &'static str,
    child: Child,
    folder: TempDir,
    behind: Vec<Behind>,
}

/// A server that another one, which is the target, stands before.
pub(super) struct Behind {
    pub(super) process: Process,
    /// Where it is met.
    pub(super) address: SocketAddr,
}

/// A folder of its own under the system's temporary one: a PostgreSQL without privileges cannot enter a private home.
pub(super) fn folder(name: &str) -> Result<TempDir> {
    Ok(tempfile::Builder::new().prefix(&format!("ashlar-lab-{name}-")).tempdir()?)
}

/// A command on these cores. `taskset` becomes the program, so the process id is the server's.
pub(super) fn pinned(cores: Option<&str>, program: &Path) -> Command {
    match cores {
        None => Command::new(program),
        Some(cores) => {
            let mut command = Command::new("taskset");
            command.args(["-c", cores]).arg(program);
            command
        }
    }
}

/// An address of the loopback interface that nobody listens on at the moment.
pub(super) fn free_address() -> Result<SocketAddr> {
    Ok(ashlar_base::net::listen(SocketAddr::from(([127, 0, 0, 1], 0)))?.local_addr()?)
}

/// The program of this name in a folder of the PATH, or why there is none.
pub(super) fn on_path(name: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&path).map(|folder| folder.join(name));
    found.find(|program| program.is_file()).ok_or_else(|| format!("{name} is not on the PATH"))
}

impl Process {
    /// Starts a command; what it prints goes to a log in `folder`, which goes with the process.
    pub(super) fn spawn(name: &'static str, mut command: Command, folder: TempDir) -> Result<Self> {
        let log = File::create(folder.path().join("log"))?;
        let child = command
            // A group of its own: Ctrl-C at the terminal is for the lab, which then stops its servers.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {name}: {command:?}"))?;
        Ok(Self { name, child, folder, behind: Vec::new() })
    }

    /// It, with what it stands before.
    pub(super) fn before(mut self, behind: Vec<Behind>) -> Self {
        self.behind = behind;
        self
    }

    /// The addresses of what it stands before.
    pub(super) fn addresses_behind(&self) -> Vec<SocketAddr> {
        self.behind.iter().map(|behind| behind.address).collect()
    }

    /// The names and process ids: its own first.
    pub(super) fn ids(&self) -> Vec<(&'static str, u32)> {
        let behind = self.behind.iter().flat_map(|behind| behind.process.ids());
        std::iter::once((self.name, self.id())).chain(behind).collect()
    }

    /// The process id.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `probe` finds what it looks for.
    pub(super) fn wait_for<T>(&mut self, mut probe: impl FnMut() -> Option<T>) -> Result<T> {
        let deadline = monotonic() + PATIENCE;
        loop {
            if let Some(found) = probe() {
                return Ok(found);
            }
            if let Some(end) = self.obituary() {
                bail!("it did not start: {end}");
            }
            if interrupt::is_set() {
                bail!("interrupted while it started");
            }
            if monotonic() > deadline {
                bail!("it did not start within {} s:\n{}", PATIENCE.as_secs(), self.last_lines());
            }
            pause(POLL);
        }
    }

    /// How it ended, if it does within a moment: its connections are gone a little before it is.
    pub(super) fn obituary_soon(&mut self) -> Option<String> {
        let deadline = monotonic() + DYING;
        loop {
            match self.obituary() {
                None if monotonic() < deadline => pause(POLL),
                found => return found,
            }
        }
    }

    /// How it ended, or what is behind it, if one has.
    pub(super) fn obituary(&mut self) -> Option<String> {
        let ended = self.behind.iter_mut().find_map(|behind| behind.process.obituary());
        self.own_obituary().or(ended)
    }

    fn own_obituary(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        let lines = self.last_lines();
        let log = if lines.is_empty() { String::new() } else { format!("; the end of its log:\n{lines}") };
        Some(format!("{} ended with {status}{log}", self.name))
    }

    fn last_lines(&self) -> String {
        let log = std::fs::read(self.folder.path().join("log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The number of a process that has ended may be another's by now.
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        let signal =
            |name: &str| Command::new("kill").args([name, &self.child.id().to_string()]).stderr(Stdio::null()).status();
        // PostgreSQL leaves its children behind when it is killed, so all are asked first; one that was paused could not hear it.
        let asked = signal("-INT").and_then(|_| signal("-CONT"));
        let deadline = monotonic() + PATIENCE;
        while asked.is_ok() && monotonic() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            pause(POLL);
        }
        // Both fail when it has ended, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
