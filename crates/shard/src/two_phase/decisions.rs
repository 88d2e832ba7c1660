//! Commit decisions of transactions on several servers: rows of the table `ashlar.decisions` on one of the servers
//! involved.
//!
//! A row is written by the transaction it decides, in the same commit as that transaction's changes on that server. Any
//! other process that wants to know the outcome inserts a row with the same key and the opposite decision. The insert
//! waits for a transaction that is about to decide, and then either finds the decision or has made it. So each
//! transaction has exactly one decision, and nobody needs to know whether another process is alive.

use std::sync::Arc;
use std::time::Duration;

use ashlar_base::{Error, ErrorCode, Result};
use postgres_protocol::escape::escape_literal;

use super::names::Transaction;
use crate::backend::{Backend, Ended, Limits, Nothing, Settings};
use crate::own_tables;
use crate::rows::{BOOL, INT8, ROWS_MAX, TEXT, garbled, rows};
use crate::server::{Mapping, Server};

/// How long a decision is there at least: longer than anybody who has seen that a transaction is in doubt asks for its decision.
const KEPT: &str = "interval '5 minutes'";

/// How long it is waited for a transaction that is about to decide.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// What they are rows of.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS ashlar.decisions (\
     gid text PRIMARY KEY, is_committed boolean NOT NULL, participants text NOT NULL, \
     xid bigint NOT NULL DEFAULT pg_catalog.txid_current(), \
     decided_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp())";

/// What is not there, in SQLSTATEs: a prepared transaction; a table; a function.
pub(super) const UNDEFINED: &str = "42704";
const UNDEFINED_TABLE: &str = "42P01";
const FORBIDDEN: &str = "42501";

/// Settings of connections that only look after transactions.
pub(super) fn settings() -> Settings {
    let lock_timeout_ms = u64::try_from(LOCK_TIMEOUT.as_millis()).unwrap_or(u64::MAX);
    Settings { lock_timeout_ms, ..Settings::default() }
}

/// What a server is called in names of transactions: its cluster and its database, however one connects to it. Asked once a connection.
///
/// # Errors
/// What the server says.
pub(crate) async fn identity(backend: &mut Backend) -> Result<Arc<str>> {
    if let Some(identity) = &backend.duties.identity {
        return Ok(Arc::clone(identity));
    }
    let sql = "SELECT pg_catalog.to_hex(c.system_identifier) || '.' || pg_catalog.to_hex(d.oid::pg_catalog.int8) \
               FROM pg_catalog.pg_control_system() c, pg_catalog.pg_database d \
               WHERE d.datname = pg_catalog.current_database()";
    let found = rows(backend, sql, &[TEXT]).await.map_err(advised)?;
    let identity: Arc<str> = found.first().and_then(|row| row.text(0)).ok_or_else(|| garbled(backend))?.into();
    backend.duties.identity = Some(Arc::clone(&identity));
    Ok(identity)
}

/// 42501 with what helps.
fn advised(error: Error) -> Error {
    if error.sqlstate() != FORBIDDEN || error.fields().hint.is_some() {
        return error;
    }
    error.with_hint(
        "A transaction on several shards is decided by a row of the table ashlar.decisions of one of them. GRANT CREATE ON DATABASE \
         to the user of the mapping, or USAGE on that schema and SELECT, INSERT, DELETE on that table.",
    )
}

/// Whether the table of decisions is there, for this user to write to.
async fn has_table(backend: &mut Backend) -> Result<bool> {
    let sql = "SELECT pg_catalog.has_table_privilege(pg_catalog.to_regclass('ashlar.decisions'), 'INSERT')";
    match rows(backend, sql, &[BOOL]).await.map_err(advised)?.first().and_then(|row| row.flag(0)) {
        Some(true) => Ok(true),
        None => Ok(false),
        Some(false) => {
            let message = "permission denied for table decisions";
            let error = Error::new(ErrorCode::InsufficientPrivilege, message);
            Err(advised(error.with_context(format!("shard {}", backend.server().name))))
        }
    }
}

/// Makes sure that the transaction that is open on a connection can decide: there is a table for it, and it has a number, so that
/// whoever decides against it later has a higher one.
///
/// # Errors
/// 42501 where there is no table and none may be made; what the server says.
pub(super) async fn ready(backend: &mut Backend, limits: Limits) -> Result<()> {
    if !backend.duties.decides {
        if !has_table(backend).await? {
            make(backend.server(), backend.mapping(), limits).await?;
        }
        backend.duties.decides = true;
    }
    rows(backend, "SELECT pg_catalog.txid_current()", &[INT8]).await.map(drop)
}

/// Makes the table, on a connection of its own: what the transaction does must not be a part of it.
async fn make(server: &Arc<Server>, mapping: &Arc<Mapping>, limits: Limits) -> Result<()> {
    let mut backend = Backend::connect(server, mapping, &settings(), limits).await?;
    let made = tokio::time::timeout(limits.connect + LOCK_TIMEOUT, own_tables::make(&mut backend, TABLE)).await;
    made.unwrap_or_else(|_| Err(silent(server))).map_err(advised)
}

/// 08006
pub(super) fn silent(server: &Server) -> Error {
    let message = format!("shard \"{}\" did not answer in time", server.name);
    Error::new(ErrorCode::ConnectionFailure, message)
}

/// How an attempt to decide ended.
pub(super) enum Decided {
    /// It is committed.
    Committed,
    /// It is not, and will never be.
    Refused(Error),
    /// The connection was lost meanwhile, or the rest of the answer could not be read.
    Unknown(Error),
}

/// Decides that a transaction commits on these databases, and commits what is open on the connection, at once.
pub(super) async fn decide(backend: &mut Backend, transaction: Transaction, participants: &[Arc<str>]) -> Decided {
    // What the others do with it is on their disks at once, so this has to be too, and where the server's own commits are.
    backend.queue_safe_commits();
    backend.queue_query(&format!(
        "SELECT pg_catalog.set_config('synchronous_commit', 'on', true) \
         WHERE pg_catalog.current_setting('synchronous_commit') = 'off'; \
         INSERT INTO ashlar.decisions (gid, is_committed, participants) VALUES ({}, true, {}); COMMIT",
        escape_literal(&transaction.to_string()),
        escape_literal(&participants.join(" "))
    ));
    match backend.answer(&mut Nothing).await {
        Ok(Ended::Complete(tag)) if tag == "COMMIT" => Decided::Committed,
        Ok(_) => {
            let message = format!("shard \"{}\" has rolled the transaction back", backend.server().name);
            Decided::Refused(Error::new(ErrorCode::FailedTransaction, message))
        }
        // It has not said all that it has to say: there was no memory for it.
        Err(error) if backend.is_broken() || backend.is_busy() => Decided::Unknown(error),
        Err(error) => {
            if [UNDEFINED_TABLE, FORBIDDEN].contains(&error.sqlstate()) {
                // Somebody has taken the table away.
                backend.duties.decides = false;
            }
            Decided::Refused(if is_decided(&error) { overtaken() } else { advised(error) })
        }
    }
}

/// Whether a transaction could not decide because somebody else has.
fn is_decided(error: &Error) -> bool {
    error.sqlstate() == "23505" && error.fields().constraint.as_deref() == Some("decisions_pkey")
}

/// 40001
pub(super) fn overtaken() -> Error {
    let message = "could not commit on several shards: the transaction took too long to prepare, and was rolled back on all of them";
    Error::new(ErrorCode::SerializationFailure, message)
        .with_hint("The transaction might succeed if retried; shard.recover_after_ms says how long it may take.")
}

/// Whether a transaction is committed: decided against now, where it has not been decided.
///
/// # Errors
/// 55P03 where it is about to decide; what the server says.
pub(super) async fn settle(backend: &mut Backend, transaction: Transaction) -> Result<bool> {
    let gid = escape_literal(&transaction.to_string());
    // Twice: the row can have been cleared away between the two.
    for _ in 0..2 {
        let sql = format!(
            "INSERT INTO ashlar.decisions (gid, is_committed, participants) VALUES ({gid}, false, '') ON CONFLICT DO NOTHING"
        );
        backend.run(&sql).await?;
        let sql = format!("SELECT is_committed FROM ashlar.decisions WHERE gid = {gid}");
        if let Some(is_committed) = rows(backend, &sql, &[BOOL]).await?.first().and_then(|row| row.flag(0)) {
            return Ok(is_committed);
        }
    }
    Err(Error::internal("a decision that was written cannot be read"))
}

/// A decision that nobody may need any more.
pub(super) struct Old {
    pub(super) gid: String,
    /// Where it has to be prepared no more; empty for one against a transaction that has come to its end.
    pub(super) participants: Vec<String>,
}

/// Decisions that may be cleared away: for transactions that are prepared nowhere any more, and against those that are over. None that
/// is running now has begun before the latter were written, so none of them can still want to decide.
///
/// # Errors
/// What the server says.
pub(super) async fn old(backend: &mut Backend) -> Result<Vec<Old>> {
    let sql = "SELECT pg_catalog.has_table_privilege(pg_catalog.to_regclass('ashlar.decisions'), 'DELETE')";
    match rows(backend, sql, &[BOOL]).await {
        Ok(found) if found.first().and_then(|row| row.flag(0)) == Some(true) => {}
        Ok(_) => return Ok(Vec::new()),
        Err(error) if error.sqlstate() == FORBIDDEN => return Ok(Vec::new()),
        Err(error) => return Err(error),
    }
    let sql = format!(
        "SELECT gid, participants FROM ashlar.decisions \
         WHERE NOT pg_catalog.pg_is_in_recovery() \
         AND (is_committed AND decided_at < pg_catalog.clock_timestamp() - {KEPT} \
         OR NOT is_committed AND xid < pg_catalog.txid_snapshot_xmin(pg_catalog.txid_current_snapshot())) \
         ORDER BY decided_at LIMIT {ROWS_MAX}"
    );
    let found = rows(backend, &sql, &[TEXT, TEXT]).await?;
    let old = found.iter().filter_map(|row| {
        let participants = row.text(1)?.split(' ').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        Some(Old { gid: row.text(0)?, participants })
    });
    Ok(old.collect())
}

/// Clears decisions away.
///
/// # Errors
/// What the server says.
pub(super) async fn forget(backend: &mut Backend, gids: &[String]) -> Result<()> {
    for some in gids.chunks(ROWS_MAX) {
        let list: Vec<String> = some.iter().map(|gid| escape_literal(gid)).collect();
        backend.run(&format!("DELETE FROM ashlar.decisions WHERE gid IN ({})", list.join(", "))).await?;
    }
    Ok(())
}

/// What a server has prepared of transactions of ours.
pub(super) struct Prepared {
    pub(super) gid: String,
    pub(super) owner: String,
    pub(super) age: Duration,
}

/// What has been prepared in this database and is not finished, and the timeline that its server writes, which a promotion begins;
/// `None` where it follows another one, which has to be asked.
///
/// # Errors
/// What the server says.
pub(super) async fn prepared(backend: &mut Backend) -> Result<Option<(u32, Vec<Prepared>)>> {
    let sql = "SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN NULL \
               ELSE pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8) END";
    let found = rows(backend, sql, &[TEXT]).await?;
    let Some(timeline) = found.first().and_then(|row| row.text(0)) else { return Ok(None) };
    let timeline = u32::from_str_radix(&timeline, 16).map_err(|_| garbled(backend))?;
    let sql = format!(
        "SELECT gid::pg_catalog.text, owner::pg_catalog.text, \
         (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - prepared) * 1000)::pg_catalog.int8 \
         FROM pg_catalog.pg_prepared_xacts \
         WHERE database = pg_catalog.current_database() AND gid LIKE '{}%' ORDER BY prepared LIMIT {ROWS_MAX}",
        super::names::PREFIX
    );
    let found = rows(backend, &sql, &[TEXT, TEXT, INT8]).await?;
    let prepared = found.iter().filter_map(|row| {
        let age = Duration::from_millis(row.int8(2)?.try_into().unwrap_or(0));
        Some(Prepared { gid: row.text(0)?, owner: row.text(1)?, age })
    });
    Ok(Some((timeline, prepared.collect())))
}
