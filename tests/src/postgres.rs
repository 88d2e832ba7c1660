//! A private PostgreSQL server of the machine's own version: the oracle of the SQL and protocol tests.
//!
//! UTF-8, C.UTF-8, UTC, no fsync, loopback or an island only, trusting. As root it runs as an unprivileged user, which PostgreSQL demands.

mod template;

use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

use crate::island::Island;
use crate::pg;
use crate::process::{PATIENCE, Port, Process, wait_for};
use template::Template;

/// What makes the folder of a cluster: where the programs are, the folder, who owns it.
type Fill<'a> = &'a dyn Fn(&Path, &Path, Option<(u32, u32)>) -> Result<()>;

/// A running PostgreSQL with a database, a user and a password-less login, all named `postgres`.
pub struct Postgres {
    process: Process,
    address: SocketAddr,
    /// Of that address; of an island, where nobody else is, only its number.
    _port: Port,
    /// The network that it is in, where that is an island.
    network: Option<PathBuf>,
}

impl Postgres {
    /// Starts a cluster of its own.
    pub fn start() -> Result<Postgres> {
        Postgres::start_with(&init, None)
    }

    /// Starts a cluster of its own on an island, which lets everybody in.
    pub fn start_on(island: &Island) -> Result<Postgres> {
        let open = |bin: &Path, data: &Path, owner: Option<(u32, u32)>| {
            init(bin, data, owner)?;
            std::fs::write(data.join("pg_hba.conf"), "host all all 0.0.0.0/0 trust\n")?;
            Ok(())
        };
        Postgres::start_with(&open, Some(island))
    }

    /// Starts a cluster of its own all of whose data are in this folder: but for its log, it writes nowhere else.
    pub fn start_in(folder: &Path) -> Result<Postgres> {
        let apart = |bin: &Path, data: &Path, owner: Option<(u32, u32)>| {
            // Named after the directory of the process, so that each cluster has a folder of its own.
            let name = data.parent().and_then(Path::file_name).context("a directory without a name")?;
            let own = folder.join(name);
            std::fs::create_dir(&own)?;
            if let Some((uid, gid)) = owner {
                chown(&own, Some(uid), Some(gid))?;
            }
            symlink(&own, data)?;
            init(bin, data, owner)
        };
        Postgres::start_with(&apart, None)
    }

    /// Starts a standby that follows this server.
    pub fn start_standby(&self) -> Result<Postgres> {
        let address = self.address;
        let copy = |bin: &Path, data: &Path, owner: Option<(u32, u32)>| {
            let mut command = program(bin, "pg_basebackup", owner);
            let (host, port) = (address.ip().to_string(), address.port().to_string());
            command.args(["-h", &host, "-p", &port, "-U", "postgres", "-X", "stream", "-c", "fast", "-R", "-N", "-D"]);
            run(command.arg(data))
        };
        Postgres::start_with(&copy, None)
    }

    /// Makes a standby a server of its own, as an administrator does.
    pub fn promote(&self) -> Result<()> {
        let mut command = program(&bin_dir()?, "pg_ctl", unprivileged_user()?);
        command.arg("promote").arg("-D").arg(self.process.dir().join("data")).current_dir(self.process.dir());
        run(&mut command)
    }

    fn start_with(fill: Fill<'_>, island: Option<&Island>) -> Result<Postgres> {
        let bin = bin_dir()?;
        let owner = unprivileged_user()?;
        let network = island.map(Island::file);
        let dir = tempfile::Builder::new().prefix("ashlar-postgres-").tempdir()?;
        if let Some((uid, gid)) = owner {
            chown(dir.path(), Some(uid), Some(gid))?;
        }
        let data = dir.path().join("data");
        fill(&bin, &data, owner)?;
        let port = Port::hold()?;
        let mut address = port.address();
        if let Some(island) = island {
            address.set_ip(island.address());
        }
        let command = serve(&bin, owner, dir.path(), address, network.as_deref());
        // In good order it would bring its files up to date first, which go with it: nobody starts it again.
        let mut process = Process::spawn("postgres", "QUIT", command, dir)?;
        process.wait_until(|_| pg::Connection::open(address, &[("user", "postgres")]).ok())?;
        Ok(Postgres { process, address, _port: port, network })
    }

    /// From now on whoever connects has to know the password of `postgres`, by this method of `pg_hba.conf`.
    pub fn demand_password(&self, method: &str, password: &str) -> Result<()> {
        let encryption = if method == "md5" { "md5" } else { "scram-sha-256" };
        let mut connection = pg::Connection::open(self.address, &[("user", "postgres")])?;
        connection.query(&format!("SET password_encryption = '{encryption}'"))?;
        connection.query(&format!("ALTER USER postgres PASSWORD '{password}'"))?;
        let rules = self.process.dir().join("data/pg_hba.conf");
        std::fs::write(rules, format!("host all all 127.0.0.1/32 {method}\n"))?;
        connection.query("SELECT pg_reload_conf()")?;
        // The server says no when it has read them.
        let asks = wait_for(PATIENCE, || pg::Connection::open(self.address, &[("user", "postgres")]).is_err());
        if asks { Ok(()) } else { bail!("PostgreSQL still asks for no password:\n{}", self.log()) }
    }

    /// Puts other rules into `pg_hba.conf`, which let `postgres` in without a password.
    pub fn set_rules(&self, rules: &str) -> Result<()> {
        std::fs::write(self.process.dir().join("data/pg_hba.conf"), rules)?;
        self.process.signal("HUP")?;
        let open = wait_for(PATIENCE, || pg::Connection::open(self.address, &[("user", "postgres")]).is_ok());
        if open { Ok(()) } else { bail!("PostgreSQL does not take its new rules:\n{}", self.log()) }
    }

    /// Sends a signal by name: `QUIT` ends it at once, `INT` after its clients were told.
    pub fn signal(&self, signal: &str) -> Result<()> {
        self.process.signal(signal)
    }

    /// Kills it and every process of it at once: nothing is written any more, and no client is told.
    pub fn kill(&mut self) -> Result<()> {
        self.process.kill_all()
    }

    /// Starts it again once it has ended, with the rows and on the port that it had.
    pub fn start_again(&mut self) -> Result<()> {
        let network = self.network.as_deref();
        let command = serve(&bin_dir()?, unprivileged_user()?, self.process.dir(), self.address, network);
        self.process.spawn_again(command)?;
        let address = self.address;
        self.process.wait_until(|_| pg::Connection::open(address, &[("user", "postgres")]).ok()).map(drop)
    }

    /// Waits for the end of a server that was told to stop.
    pub fn wait(&mut self) -> Result<std::process::ExitStatus> {
        self.process.wait()
    }

    /// The server that the tests of this process share; separate tests use separate table names.
    pub fn shared() -> &'static Postgres {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(|| Postgres::start().unwrap_or_else(|error| panic!("{error:#}")))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What the server has logged.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// A connection string for tokio-postgres and psql.
    pub fn connection_string(&self) -> String {
        connection_string(self.address)
    }
}

/// The connection string of a server at `address` that asks for no password.
pub fn connection_string(address: SocketAddr) -> String {
    format!("host={} port={} user=postgres dbname=postgres", address.ip(), address.port())
}

/// The command that runs a cluster.
fn serve(bin: &Path, owner: Option<(u32, u32)>, dir: &Path, address: SocketAddr, network: Option<&Path>) -> Command {
    let mut command = match network {
        Some(network) => program_on_island(network, bin, "postgres", owner),
        None => program(bin, "postgres", owner),
    };
    command.arg("-D").arg(dir.join("data")).args(["-p", &address.port().to_string()]);
    command.args(["-c", &format!("listen_addresses={}", address.ip())]);
    for setting in [
        "unix_socket_directories=",
        "fsync=off",
        "full_page_writes=off",
        "timezone=UTC",
        "log_timezone=UTC",
        "max_connections=60",
        "max_prepared_transactions=20",
        // A standby hears of what is written, and asks its primary again, soon.
        "wal_receiver_status_interval=1",
        "wal_retrieve_retry_interval=200ms",
        "hot_standby=on",
    ] {
        command.args(["-c", setting]);
    }
    command.current_dir(dir);
    command
}

/// Makes a cluster in `data`, which is an empty folder or none yet.
fn init(bin: &Path, data: &Path, owner: Option<(u32, u32)>) -> Result<()> {
    match Template::shared(bin, owner)? {
        Some(template) => template.copy(data, owner),
        None => initdb(bin, data, owner),
    }
}

fn initdb(bin: &Path, data: &Path, owner: Option<(u32, u32)>) -> Result<()> {
    let mut command = program(bin, "initdb", owner);
    command
        .args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8"])
        .args(["--no-sync", "--no-instructions", "-D"])
        .arg(data);
    if let Some(parent) = data.parent() {
        command.current_dir(parent);
    }
    run(&mut command)
}

/// Runs a program to its end.
fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        bail!(
            "{command:?}: {}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

fn program(bin: &Path, name: &str, owner: Option<(u32, u32)>) -> Command {
    owned(Command::new(bin.join(name)), owner)
}

/// The command as run by the owner of clusters.
fn owned(command: Command, owner: Option<(u32, u32)>) -> Command {
    let mut command = clean(command);
    if let Some((uid, gid)) = owner {
        command.uid(uid).gid(gid);
    }
    command
}

/// The same in the network that this file stands for: who goes there is root, and the program is not.
fn program_on_island(network: &Path, bin: &Path, name: &str, owner: Option<(u32, u32)>) -> Command {
    let mut command = clean(Command::new("nsenter"));
    command.arg(format!("--net={}", network.display()));
    if let Some((uid, gid)) = owner {
        command.args([format!("--setuid={uid}"), format!("--setgid={gid}")]);
    }
    command.arg("--").arg(bin.join(name));
    command
}

/// A command with nothing of the user's own settings.
fn clean(mut command: Command) -> Command {
    // A user's own settings for libpq must not reach the oracle.
    for variable in ["PGDATA", "PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGOPTIONS"] {
        command.env_remove(variable);
    }
    command.env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
    command
}

/// The folder with `initdb` and `postgres`: Debian keeps it off the PATH, one folder a version; the newest is taken.
pub fn bin_dir() -> Result<PathBuf> {
    let version = |dir: &Path| -> u32 {
        let name = dir.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        name.and_then(|name| name.parse().ok()).unwrap_or(0)
    };
    let mut dirs: Vec<PathBuf> = Vec::new();
    if let Ok(entries) = std::fs::read_dir("/usr/lib/postgresql") {
        dirs.extend(entries.flatten().map(|entry| entry.path().join("bin")));
    }
    dirs.sort_by_key(|dir| std::cmp::Reverse(version(dir)));
    let path = std::env::var_os("PATH").unwrap_or_default();
    dirs.extend(std::env::split_paths(&path));
    dirs.into_iter()
        .find(|dir| dir.join("initdb").is_file() && dir.join("postgres").is_file())
        .context("PostgreSQL's server programs are not installed; ./x test installs what the tests need")
}

/// Who runs the server when we are root: (uid, gid) of `postgres`, or else of `nobody`.
pub(crate) fn unprivileged_user() -> Result<Option<(u32, u32)>> {
    if std::fs::metadata("/proc/self")?.uid() != 0 {
        return Ok(None);
    }
    let passwd = std::fs::read_to_string("/etc/passwd")?;
    for name in ["postgres", "nobody"] {
        for line in passwd.lines() {
            let fields: Vec<&str> = line.split(':').collect();
            if fields.len() > 3 && fields[0] == name {
                return Ok(Some((fields[2].parse()?, fields[3].parse()?)));
            }
        }
    }
    bail!("neither a user postgres nor nobody to run PostgreSQL as");
}
