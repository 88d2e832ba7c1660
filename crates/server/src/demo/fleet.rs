//! Two private PostgreSQL servers, over which the tour shards a table.
//!
//! Started by the demo where PostgreSQL's programs are installed, on Unix sockets in a folder of their own, and gone with it
//! when the demo ends.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};

/// What they are called, by PostgreSQL's clients and by Ashlar.
const SERVERS: [&str; 2] = ["east", "west"];

/// The two of them while they run.
#[derive(Debug)]
pub(super) struct Fleet {
    /// With a folder for each: its data, its socket and its log.
    folder: PathBuf,
    /// PostgreSQL's programs.
    programs: PathBuf,
    /// User and group that they run as, where that is not this process's own.
    owner: Option<(u32, u32)>,
}

impl Fleet {
    /// Makes and starts both; `None` where PostgreSQL's programs are not installed.
    pub(super) fn start() -> anyhow::Result<Option<Self>> {
        let Some(programs) = programs() else { return Ok(None) };
        let owner = owner()?;
        let folder = std::env::temp_dir().join(format!("ashlar-demo-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&folder).with_context(|| folder.display().to_string())?;
        let fleet = Self { folder, programs, owner };
        if let Some((user, group)) = owner {
            chown(&fleet.folder, Some(user), Some(group))?;
        }
        // Both at once: making a cluster takes a second or two.
        let made: Vec<io::Result<Child>> = SERVERS.iter().map(|name| fleet.make(name).spawn()).collect();
        for made in made {
            succeeded("initdb", made?)?;
        }
        let started: Vec<io::Result<Child>> = SERVERS.iter().map(|name| fleet.run(name).spawn()).collect();
        for started in started {
            succeeded("pg_ctl start", started?)?;
        }
        Ok(Some(fleet))
    }

    /// Where Ashlar keeps what it knows of them.
    pub(super) fn catalog(&self) -> PathBuf {
        self.folder.join("ashlar")
    }

    /// The statements that tell Ashlar of them.
    pub(super) fn declared(&self) -> Vec<String> {
        let both = |name: &&str| {
            let host = quoted(&self.of(name));
            [
                format!("CREATE SERVER {name} FOREIGN DATA WRAPPER postgres OPTIONS (host {host}, dbname 'postgres')"),
                format!("CREATE USER MAPPING FOR PUBLIC SERVER {name} OPTIONS (user 'postgres')"),
            ]
        };
        SERVERS.iter().flat_map(both).collect()
    }

    fn of(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn make(&self, name: &str) -> Command {
        let mut command = self.program("initdb");
        command.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "-D"]);
        command.arg(self.of(name));
        command
    }

    /// Ends once the server answers.
    fn run(&self, name: &str) -> Command {
        let (folder, mut command) = (self.of(name), self.program("pg_ctl"));
        // Nothing of it is kept, so nothing has to reach the disk.
        let settings = format!(
            "-c listen_addresses='' -c unix_socket_directories={} -c fsync=off -c timezone=UTC -c max_prepared_transactions=20",
            quoted(&folder)
        );
        command.args(["start", "--silent", "--wait", "-o", &settings, "-l"]).arg(folder.join("log"));
        command.arg("-D").arg(folder);
        command
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        // A user's own settings are for other servers.
        for variable in ["PGDATA", "PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGOPTIONS"] {
            command.env_remove(variable);
        }
        command.env("LC_ALL", "C.UTF-8").current_dir(&self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        if let Some((user, group)) = self.owner {
            command.uid(user).gid(group);
        }
        command
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for name in SERVERS {
            let mut command = self.program("pg_ctl");
            command.args(["stop", "--silent", "--mode=immediate", "-D"]).arg(self.of(name)).stderr(Stdio::null());
            // One that never ran has nothing to stop.
            let _ = command.status();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn succeeded(what: &str, child: Child) -> anyhow::Result<()> {
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("{what} of a server for the demo: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// A path between apostrophes.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "''"))
}

/// The folder with `initdb` and `pg_ctl`: Debian keeps it off the PATH, one folder a version; the newest is taken.
fn programs() -> Option<PathBuf> {
    let version = |folder: &PathBuf| -> u32 {
        let name = folder.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        name.and_then(|name| name.parse().ok()).unwrap_or(0)
    };
    let mut folders: Vec<PathBuf> = Vec::new();
    if let Ok(entries) = fs::read_dir("/usr/lib/postgresql") {
        folders.extend(entries.flatten().map(|entry| entry.path().join("bin")));
    }
    folders.sort_by_key(|folder| std::cmp::Reverse(version(folder)));
    let path = std::env::var_os("PATH").unwrap_or_default();
    folders.extend(std::env::split_paths(&path));
    folders.into_iter().find(|folder| ["initdb", "pg_ctl", "postgres"].iter().all(|name| folder.join(name).is_file()))
}

/// PostgreSQL refuses to run as root: then the user `postgres` runs it, or else `nobody`.
fn owner() -> anyhow::Result<Option<(u32, u32)>> {
    if fs::metadata("/proc/self")?.uid() != 0 {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd")?;
    for name in ["postgres", "nobody"] {
        let of_it = users.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|fields| fields[0] == name);
        if let Some([_, _, user, group, ..]) = of_it.as_deref() {
            return Ok(Some((user.parse()?, group.parse()?)));
        }
    }
    bail!("the machine has neither a user postgres nor nobody, who could run PostgreSQL")
}
