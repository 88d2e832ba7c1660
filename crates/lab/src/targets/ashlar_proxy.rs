//! Ashlar before one PostgreSQL or several, as a proxy whose tables are sharded. Servers are made known to it by SQL, through its own door;
//! it keeps of them what it needs in a file.
//!
//! A transaction that writes to several of them is committed in two phases, for which they have room. The decision is a row in one of them, and they
//! are told to wait for no disk (`fsync=off`).

use std::path::Path;

use anyhow::{Context, Result};

use super::{Start, Started, ashlar, postgres};
use crate::door::pg::PgClient;
use crate::workload::Shards;

/// As many transactions may be prepared there as there may be connections.
const BESIDES: &[&str] = &["max_prepared_transactions=1100"];

/// Starts so many PostgreSQLs and Ashlar before them, and tells it of them.
pub(super) fn start(shards: usize, program: &Path, start: &Start<'_>) -> Result<Started> {
    let (mut behind, mut settings) = (Vec::new(), Vec::new());
    for &name in postgres::names(shards)? {
        let (server, configuration) = postgres::start_behind_with(name, start, BESIDES)?;
        settings.push(format!("{name}: {}", PgClient::connect(server.address)?.version()));
        settings.extend(configuration);
        behind.push(server);
    }
    let mut statements = Vec::new();
    for (number, server) in behind.iter().enumerate() {
        let (name, address) = (Shards::name(number), server.address);
        statements.push(format!(
            "CREATE SERVER {name} FOREIGN DATA WRAPPER postgres OPTIONS (host '{}', port '{}', dbname 'postgres')",
            address.ip(),
            address.port()
        ));
        statements.push(format!("CREATE USER MAPPING FOR PUBLIC SERVER {name} OPTIONS (user 'postgres')"));
    }
    let mut started = ashlar::start_as("ashlar-proxy", program, start, true)?;
    started.process = started.process.before(behind);
    let mut client = PgClient::connect(started.sql.context("it has no PostgreSQL door")?)?;
    for statement in &statements {
        client.query(statement).with_context(|| statement.clone())?;
    }
    started.configuration.extend(statements);
    started.configuration.extend(settings);
    Ok(started)
}
