//! A server process under test: started with its output in a file, watched, stopped, never left behind.
//!
//! Used by the fixtures of this crate. Waiting is always for an event with a deadline, never for a length of time.

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio::net::TcpSocket;

/// How long a server may take to start or to stop, and whatever else is waited for. Generous: the machine of a test run may be busy with a
/// build, and only a test that fails waits for so long.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The last lines of a log that are told with a test that fails.
const TOLD_LINES: usize = 30;

/// One server process with a private directory; stopped and cleaned when dropped, and also when the test process dies.
pub struct Process {
    name: &'static str,
    stop: &'static str,
    child: Child,
    watcher: Child,
    dir: TempDir,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts `command` with its standard output and error in the file `log` of `dir`.
    /// `stop` is the signal that ends it: `TERM`, or `QUIT` for PostgreSQL, which otherwise waits for its clients or writes what goes with
    /// its directory.
    pub fn spawn(name: &'static str, stop: &'static str, mut command: Command, dir: TempDir) -> Result<Process> {
        let log = File::options().create(true).append(true).open(dir.path().join("log"))?;
        // A group of its own: an interrupt typed at the terminal reaches the tests, and they stop the server.
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .with_context(|| format!("{name}: {command:?}"))?;
        let watcher = watch(child.id(), stop, dir.path())?;
        Ok(Process { name, stop, child, watcher, dir, status: None })
    }

    /// Starts it again, in the same directory, once it has ended.
    pub fn spawn_again(&mut self, mut command: Command) -> Result<()> {
        anyhow::ensure!(self.status.is_some(), "{} has not ended", self.name);
        let _ = self.watcher.kill();
        let _ = self.watcher.wait();
        let log = File::options().create(true).append(true).open(self.dir.path().join("log"))?;
        self.child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0).spawn()?;
        self.watcher = watch(self.child.id(), self.stop, self.dir.path())?;
        self.status = None;
        Ok(())
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The private directory of this process.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Everything that the process has printed so far.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.dir.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Calls `probe` until it gives a value; fails when the process ends or the deadline passes.
    pub fn wait_until<T>(&mut self, mut probe: impl FnMut(&Path) -> Option<T>) -> Result<T> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(value) = probe(self.dir.path()) {
                return Ok(value);
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended with {status} before it was ready:\n{}", self.name, self.log());
            }
            if Instant::now() > deadline {
                bail!("{} was not ready in {PATIENCE:?}:\n{}", self.name, self.log());
            }
            pause();
        }
    }

    /// Sends a signal by name (`TERM`, `INT`, `KILL`).
    pub fn signal(&self, signal: &str) -> Result<()> {
        // The shell's own `kill`: a small system has no program of this name.
        let pid = self.pid().to_string();
        let status = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", signal, &pid]).status()?;
        if !status.success() {
            bail!("kill -{signal} {} ({}) failed", self.pid(), self.name);
        }
        Ok(())
    }

    /// Waits for the process to end by itself; kills it and fails when it does not.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait()? {
                self.status = Some(status);
                return Ok(status);
            }
            if Instant::now() > deadline {
                self.child.kill()?;
                self.status = Some(self.child.wait()?);
                bail!("{} had not ended after {PATIENCE:?}; killed:\n{}", self.name, self.log());
            }
            pause();
        }
    }

    /// Kills it together with all of its children, as a machine that fails does: none of them says anything more, and none is left
    /// when this returns.
    pub fn kill_all(&mut self) -> Result<()> {
        // It stands still first: no child comes while they are looked for, and the number of one that ends is nobody else's.
        self.signal("STOP")?;
        let pid = self.pid();
        if !wait_for(PATIENCE, || status_of(pid).is_none_or(|(state, _)| matches!(state, 'T' | 'Z'))) {
            bail!("{} does not stop", self.name);
        }
        let children = children(pid)?;
        let pids = children.iter().chain([&pid]).map(u32::to_string);
        // Of a child that has ended meanwhile it says so; what counts is that none is left.
        Command::new("sh").args(["-c", "kill -s KILL \"$@\"", "sh"]).args(pids).stderr(Stdio::null()).status()?;
        self.wait()?;
        let is_over = |child: &u32| status_of(*child).is_none_or(|(state, _)| matches!(state, 'Z' | 'X'));
        if !wait_for(PATIENCE, || children.iter().all(is_over)) {
            bail!("children of {} are left: {children:?}", self.name);
        }
        Ok(())
    }

    /// Tells it to stop, then [`Process::wait`].
    pub fn terminate(&mut self) -> Result<ExitStatus> {
        if self.status.is_none() && self.child.try_wait()?.is_none() {
            self.signal(self.stop)?;
        }
        self.wait()
    }

    /// Memory of the process in bytes that is resident now (`VmRSS`).
    pub fn resident_bytes(&self) -> Result<u64> {
        resident_bytes(self.pid())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A test that fails shows this: what its servers had to say is gone with them.
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let last = &lines[lines.len().saturating_sub(TOLD_LINES)..];
            eprintln!("{} ({}) has logged at last:\n{}", self.name, self.pid(), last.join("\n"));
        }
        // The watcher first: with its input closed it would signal a process id that may be somebody else's by then.
        let _ = self.watcher.kill();
        let _ = self.watcher.wait();
        let _ = self.terminate();
    }
}

/// A shell that waits for the end of its input, which is the end of this process however it comes, and then stops
/// the server and removes its directory. Statics of the test binary are never dropped; this is what cleans up after them.
fn watch(pid: u32, stop: &str, dir: &Path) -> Result<Child> {
    let script = r#"read -r _
        kill -"$2" "$0"
        tries=100
        while kill -0 "$0" && [ $tries -gt 0 ]; do sleep 0.1; tries=$((tries - 1)); done
        kill -KILL "$0"
        rm -rf "$1""#;
    Command::new("sh")
        .args(["-c", script])
        .arg(pid.to_string())
        .arg(dir)
        .arg(stop)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .context("sh")
}

/// Memory of a process in bytes that is resident now, without what it has mapped of files, from `/proc`.
pub fn resident_bytes(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line =
        status.lines().find_map(|line| line.strip_prefix("RssAnon:")).context("no RssAnon: the process has ended")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").trim().parse()?;
    Ok(kib * 1024)
}

/// The state of a process, as a letter, and its parent, from `/proc`; `None` where there is no such process.
fn status_of(pid: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // What is before is its name in parentheses, which may have any character in it.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// The processes whose parent this one is.
fn children(parent: u32) -> Result<Vec<u32>> {
    let entries = std::fs::read_dir("/proc")?.flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    Ok(pids.filter(|pid| status_of(*pid).is_some_and(|(_, of)| of == parent)).collect())
}

/// Waits until `condition` holds, and says whether it came to hold within the time.
pub fn wait_for(patience: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    while !condition() {
        if Instant::now() > deadline {
            return false;
        }
        pause();
    }
    true
}

/// A port of the loopback interface that is one server's alone, also while that is down: until this is dropped nobody is given it who
/// asks for any port, to listen on or to connect from.
pub struct Port {
    address: SocketAddr,
    /// Bound and never listening, which does not keep a server from it that names it and reuses addresses, as PostgreSQL and Redis do.
    _holder: TcpSocket,
}

impl Port {
    /// One that nobody has.
    pub fn hold() -> Result<Port> {
        let holder = TcpSocket::new_v4()?;
        holder.set_reuseaddr(true)?;
        holder.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        Ok(Port { address: holder.local_addr()?, _holder: holder })
    }

    /// Where its server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The first of the names that is a program on the PATH.
pub fn find_program(names: &[&str]) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .flat_map(|dir| names.iter().map(move |name| dir.join(name)))
        .find(|candidate| candidate.is_file())
        .with_context(|| format!("none of {names:?} is installed; ./x test installs what the tests need"))
}

/// Between two looks at a condition that another process will make true.
fn pause() {
    std::thread::sleep(Duration::from_millis(10));
}
