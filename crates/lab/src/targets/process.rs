//! A process of the lab: a server, or a client in Java. Started on its cores in a folder of its own, stopped at the end, whatever the
//! end is.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ashlar_base::clock::monotonic;
use tempfile::TempDir;

use crate::clock::pause;
use crate::interrupt;

/// How long a server may take to start; a Java machine on a busy core takes long.
const START_PATIENCE: Duration = Duration::from_secs(180);

/// How long it may take to stop when asked.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// Whoever waits for a line looks this often whether the run was interrupted.
const LOOK: Duration = Duration::from_millis(200);

/// How long a process may take to end after its connections.
const DYING: Duration = Duration::from_millis(500);

/// Lines of its log that are shown when a server ended.
const LAST_LINES: usize = 10;

/// Lines of a process that nobody has listened to yet; with more it waits.
const LINES_MAX: usize = 256;

/// A running process; dropping it stops it, and then those behind it.
pub(crate) struct Process {
    name: &'static str,
    talk: Option<Talk>,
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

/// The standard input of a process, and the lines of its standard output.
struct Talk {
    input: ChildStdin,
    said: Receiver<String>,
}

/// A folder of its own under the system's temporary one: a PostgreSQL without privileges cannot enter a private home.
pub(crate) fn folder(name: &str) -> Result<TempDir> {
    Ok(tempfile::Builder::new().prefix(&format!("ashlar-lab-{name}-")).tempdir()?)
}

/// The same on a file system in memory, where there is one: what is written there is not waited for, as no other target waits for a disk.
pub(super) fn folder_in_memory(name: &str) -> Result<TempDir> {
    let memory = Path::new("/dev/shm");
    if !memory.is_dir() {
        return folder(name);
    }
    Ok(tempfile::Builder::new().prefix(&format!("ashlar-lab-{name}-")).tempdir_in(memory)?)
}

/// A command on these cores. `taskset` becomes the program, so the process id is the server's.
pub(crate) fn pinned(cores: Option<&str>, program: &Path) -> Command {
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

/// The file of this program, by the name that it had when somebody first asked: once another has taken its place, the system has none.
pub(super) fn own_program() -> Result<PathBuf, String> {
    static OWN: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    OWN.get_or_init(|| std::env::current_exe().map_err(|error| error.to_string())).clone()
}

/// This program as it runs, for another process to start: the file may have been replaced or removed since, which a build does.
pub(super) fn running_program() -> PathBuf {
    PathBuf::from(format!("/proc/{}/exe", std::process::id()))
}

/// The program of this name in a folder of the PATH, or why there is none.
pub(crate) fn on_path(name: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&path).map(|folder| folder.join(name));
    found.find(|program| program.is_file()).ok_or_else(|| format!("{name} is not on the PATH"))
}

impl Process {
    /// Starts a command; what it prints goes to a log in `folder`, which goes with the process.
    pub(super) fn spawn(name: &'static str, mut command: Command, folder: TempDir) -> Result<Self> {
        let log = File::create(folder.path().join("log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = begin(name, &mut command)?;
        Ok(Self { name, talk: None, child, folder, behind: Vec::new() })
    }

    /// Likewise, a command that is told what to do by lines on its standard input, and answers by lines on its standard output. The end
    /// of its input is to end it.
    pub(crate) fn spawn_talking(name: &'static str, mut command: Command, folder: TempDir) -> Result<Self> {
        let log = File::create(folder.path().join("log"))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut child = begin(name, &mut command)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (input, output) = input.zip(output).context("a process without its input and output")?;
        let (sender, said) = sync_channel(LINES_MAX);
        // Ends with the output of the process, or with its listener.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { name, talk: Some(Talk { input, said }), child, folder, behind: Vec::new() })
    }

    /// Tells it a line.
    pub(crate) fn tell(&mut self, line: &str) -> Result<()> {
        let talk = self.talk.as_mut().context("it listens to nothing")?;
        match writeln!(talk.input, "{line}") {
            Ok(()) => Ok(()),
            Err(error) => Err(match self.obituary_soon() {
                Some(end) => anyhow::anyhow!(end),
                None => error.into(),
            }),
        }
    }

    /// The next line that it says; None if it says nothing for so long.
    pub(crate) fn hear(&mut self, wait: Duration) -> Result<Option<String>> {
        let talk = self.talk.as_ref().context("it says nothing")?;
        match talk.said.recv_timeout(wait) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                bail!(self.obituary_soon().unwrap_or_else(|| format!("{} says nothing any more", self.name)))
            }
        }
    }

    /// Tells it a command; the rest of its answer `ok ...`. Other lines before that go to `each`.
    pub(crate) fn ask(
        &mut self,
        command: &str,
        patience: Duration,
        each: &mut dyn FnMut(&str) -> Result<()>,
    ) -> Result<String> {
        self.tell(command)?;
        self.answer(patience, each)
    }

    /// Waits for an answer, no longer than `patience` for each line.
    pub(crate) fn answer(&mut self, patience: Duration, each: &mut dyn FnMut(&str) -> Result<()>) -> Result<String> {
        let mut deadline = monotonic() + patience;
        loop {
            if interrupt::is_set() {
                bail!("interrupted while it waited for {}", self.name);
            }
            let Some(line) = self.hear(LOOK)? else {
                if monotonic() > deadline {
                    bail!("{} did not answer within {} s:\n{}", self.name, patience.as_secs(), self.last_lines());
                }
                continue;
            };
            deadline = monotonic() + patience;
            match line.split_once(' ') {
                Some(("ok", answer)) => return Ok(answer.to_owned()),
                Some(("error", reason)) => bail!("{}: {reason}", self.name),
                _ => each(&line)?,
            }
        }
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

    /// The same, each with the name of its process.
    pub(super) fn named_behind(&self) -> Vec<(&'static str, SocketAddr)> {
        self.behind.iter().map(|behind| (behind.process.name, behind.address)).collect()
    }

    /// The names and process ids: its own first.
    pub(super) fn ids(&self) -> Vec<(&'static str, u32)> {
        let behind = self.behind.iter().flat_map(|behind| behind.process.ids());
        std::iter::once((self.name, self.id())).chain(behind).collect()
    }

    /// Whether it can be told something.
    pub(crate) fn talks(&self) -> bool {
        self.talk.is_some()
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `probe` finds what it looks for.
    pub(super) fn wait_for<T>(&mut self, mut probe: impl FnMut() -> Option<T>) -> Result<T> {
        let deadline = monotonic() + START_PATIENCE;
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
                bail!("it did not start within {} s:\n{}", START_PATIENCE.as_secs(), self.last_lines());
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
        // A stack of Java says where, not why.
        let lines: Vec<&str> = log.lines().filter(|line| !line.starts_with("\tat ")).collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
    }
}

/// Starts a command in a group of its own: Ctrl-C at the terminal is for the lab, which then stops its servers.
fn begin(name: &str, command: &mut Command) -> Result<Child> {
    command.process_group(0).spawn().with_context(|| format!("starting {name}: {command:?}"))
}

impl Drop for Process {
    fn drop(&mut self) {
        // Whoever talks ends with its input.
        drop(self.talk.take());
        // The number of a process that has ended may be another's by now.
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        // By the shell's own `kill`: a small system has no program of this name.
        let signal = |name: &str| {
            let arguments = ["-c", "kill \"$0\" \"$1\"", name, &self.child.id().to_string()];
            Command::new("sh").args(arguments).stderr(Stdio::null()).status()
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(120);

    fn shell(script: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::spawn_talking("shell", command, folder("test").unwrap()).unwrap()
    }

    #[test]
    fn a_process_that_talks_says_lines_and_then_answers() {
        let mut process =
            shell("while read word; do echo at 5; [ $word = bad ] && echo error no such word || echo ok $word; done");
        let mut said = Vec::new();
        let mut keep = |line: &str| {
            said.push(line.to_owned());
            Ok(())
        };
        assert_eq!(process.ask("one", SOON, &mut keep).unwrap(), "one");
        assert!(process.ask("bad", SOON, &mut keep).unwrap_err().to_string().contains("shell: no such word"));
        assert_eq!(process.ask("two", SOON, &mut keep).unwrap(), "two");
        assert_eq!(said, ["at 5", "at 5", "at 5"]);
    }

    #[test]
    fn a_process_that_ends_says_why_and_one_that_is_silent_is_not_waited_for() {
        let mut process = shell("read word; printf 'out of memory\\n\\tat Heap.java:1\\n' >&2; exit 3");
        let failure = process.ask("load", SOON, &mut |_| Ok(())).unwrap_err().to_string();
        assert!(failure.contains("exit status: 3") && failure.contains("out of memory"), "{failure}");
        assert!(!failure.contains("Heap.java"), "{failure}");
        let mut process = shell("while read word; do :; done");
        let failure = process.ask("load", Duration::ZERO, &mut |_| Ok(())).unwrap_err().to_string();
        assert!(failure.contains("did not answer within 0 s"), "{failure}");
    }
}
