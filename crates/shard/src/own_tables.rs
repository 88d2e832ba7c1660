//! Ashlar's own tables in the databases of shards: in the schema `ashlar`, created on first use.
//!
//! Called for commit decisions (`two_phase`) and for worker numbers (`workers`). Several processes may create them at
//! once.

use ashlar_base::Result;

use crate::backend::Backend;
use crate::rows::{BOOL, rows};

/// Held while a table is made, so that two who make it do not fail for each other.
const MAKING: i64 = 0x6173_686c_6172;

/// Makes a table of the schema, by a definition that does nothing where it is there. The connection is in no transaction.
///
/// # Errors
/// 42501 where it is not there and may not be made; what the server says.
pub(crate) async fn make(backend: &mut Backend, definition: &str) -> Result<()> {
    let sql = "SELECT pg_catalog.to_regnamespace('ashlar') IS NOT NULL";
    let has_schema = rows(backend, sql, &[BOOL]).await?.first().and_then(|row| row.flag(0));
    // Whoever may not make schemas may not say IF NOT EXISTS either.
    let schema = if has_schema == Some(true) { "" } else { "CREATE SCHEMA IF NOT EXISTS ashlar;" };
    // One string is one transaction.
    let sql = format!("SELECT pg_catalog.pg_advisory_xact_lock({MAKING}); {schema} {definition}");
    backend.run(&sql).await.map(drop)
}
