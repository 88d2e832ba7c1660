//! PgBouncer before a PostgreSQL. It pools transactions where it knows prepared statements (from version 1.21 on), and sessions where
//! it does not: the workloads use prepared statements, as drivers do.

use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::process::{Process, folder, free_address, on_path, pinned};
use super::{Start, Started, postgres};
use crate::door::PROBE_TIMEOUT;
use crate::door::pg::PgClient;

/// The first version that follows prepared statements from one server connection to another.
const PREPARED_SINCE: (u32, u32) = (1, 21);

/// Statements that it remembers of each connection: more than a workload has.
const PREPARED_MAX: u32 = 200;

/// Debian has it where users do not look.
pub(super) fn program() -> Result<PathBuf, String> {
    let sbin = PathBuf::from("/usr/sbin/pgbouncer");
    let found = on_path("pgbouncer").or_else(|reason| if sbin.is_file() { Ok(sbin) } else { Err(reason) });
    found.map_err(|reason| format!("{reason}; ./x setup lab installs it"))
}

/// Starts a PostgreSQL and it before that, and waits until it answers.
pub(super) fn start(program: &Path, start: &Start<'_>) -> Result<Started> {
    let (behind, of_postgres) = postgres::start_behind("postgres", start)?;
    let said = Command::new(program).arg("--version").output().context("pgbouncer --version")?;
    let said = String::from_utf8_lossy(&said.stdout).lines().next().unwrap_or_default().to_owned();
    let address = free_address()?;
    let mut settings: Vec<String> = pooling(version_of(&said).unwrap_or_default());
    settings.extend(
        [
            "auth_type = any",
            "max_client_conn = 1100",
            "listen_addr = 127.0.0.1",
            "unix_socket_dir =",
            "log_connections = 0",
        ]
        .map(str::to_owned),
    );
    settings.push("log_disconnections = 0".to_owned());
    let folder = folder("pgbouncer")?;
    let config = folder.path().join("pgbouncer.ini");
    let text = format!(
        "[databases]\npostgres = host=127.0.0.1 port={} dbname=postgres user=postgres\n[pgbouncer]\nlisten_port = {}\n{}\n",
        behind.address.port(),
        address.port(),
        settings.join("\n")
    );
    std::fs::write(&config, text)?;
    let owner = postgres::unprivileged()?;
    if let Some((uid, gid)) = owner {
        chown(folder.path(), Some(uid), Some(gid))?;
        chown(&config, Some(uid), Some(gid))?;
    }
    let mut command = pinned(start.cores, program);
    command.arg(&config).current_dir(folder.path());
    postgres::own(&mut command, owner);
    let mut process = Process::spawn("pgbouncer", command, folder)?.before(vec![behind]);
    process.wait_for(|| PgClient::connect_within(address, PROBE_TIMEOUT).ok().map(drop))?;
    let mut configuration = vec![said];
    configuration.extend(settings.into_iter().map(|setting| format!("pgbouncer: {setting}")));
    configuration.extend(of_postgres);
    Ok(Started { process, resp: None, sql: Some(address), http: None, configuration })
}

/// `PgBouncer 1.18.0` as numbers.
fn version_of(said: &str) -> Option<(u32, u32)> {
    let mut parts = said.strip_prefix("PgBouncer ")?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// How a version pools.
fn pooling(version: (u32, u32)) -> Vec<String> {
    if version >= PREPARED_SINCE {
        vec!["pool_mode = transaction".to_owned(), format!("max_prepared_statements = {PREPARED_MAX}")]
    } else {
        // A connection of its own for each client: with fewer than there are clients, some would wait for ever.
        vec!["pool_mode = session".to_owned(), "default_pool_size = 1050".to_owned()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_are_pooled_where_prepared_statements_are_known() {
        for (said, mode) in [
            ("PgBouncer 1.18.0", "pool_mode = session"),
            ("PgBouncer 1.21.0", "pool_mode = transaction"),
            ("PgBouncer 2.0.1", "pool_mode = transaction"),
        ] {
            assert_eq!(pooling(version_of(said).unwrap())[0], mode, "{said}");
        }
        assert_eq!(version_of("something else"), None);
    }
}
