//! `pg_stat_activity`: the sessions of the PostgreSQL door, and what they are doing.
//!
//! Of the last statement the beginning is shown, and of one that may hold a password what it is about. Nothing is told of what a session waits
//! for: `pg_locks` does that.

use ashlar_base::{Result, Value};

use super::layout::{Rows, maybe, string};
use super::pg_catalog::{DATABASE_OID, OWNER_OID};
use super::{Definition, Picture};

/// The table.
pub(super) const TABLES: &[Definition] = &[Definition {
    name: "pg_stat_activity",
    columns: "datid bigint, datname text, pid integer, leader_pid integer, usesysid bigint, usename text, \
        application_name text, client_addr text, client_hostname text, client_port integer, \
        backend_start timestamp with time zone, xact_start timestamp with time zone, \
        query_start timestamp with time zone, state_change timestamp with time zone, wait_event_type text, \
        wait_event text, state text, backend_xid bigint, backend_xmin bigint, query_id bigint, query text, \
        backend_type text = client backend",
    fill: Some(fill),
}];

fn fill(picture: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    let at = |moment: Option<i64>| moment.map_or(Value::Null, Value::Timestamp);
    for session in picture.catalog.identity().sessions.list() {
        let client = session.client;
        rows.push([
            ("datid", Value::Int8(DATABASE_OID)),
            ("datname", string(session.database)),
            ("pid", Value::Int4(session.pid)),
            ("usesysid", Value::Int8(OWNER_OID)),
            ("usename", string(session.user)),
            ("application_name", string(session.application)),
            ("client_addr", maybe(client.map(|client| client.ip().to_canonical().to_string()))),
            ("client_port", client.map_or(Value::Null, |client| Value::Int4(i32::from(client.port())))),
            ("backend_start", Value::Timestamp(session.begun)),
            ("xact_start", at(session.transaction_begun)),
            ("query_start", at(session.statement_begun)),
            ("state_change", Value::Timestamp(session.changed)),
            ("state", string(session.state)),
            ("query", string(session.statement)),
        ])?;
    }
    Ok(())
}
