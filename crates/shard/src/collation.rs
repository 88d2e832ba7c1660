//! The order of texts as a server has it: of which collation a database is, and the ranks of texts by it.
//!
//! A server whose database does not compare texts byte by byte is asked for ranks: nobody else knows its order, which is that of a version of
//! ICU or of its C library. Ranks of one server are those of others only where all of them say the same identity. Called by the session, for
//! what it merges, and by the engine.

use std::sync::Arc;

use ashlar_base::{Error, ErrorCode, Result};

use crate::backend::RowReader;
use crate::pool::Lease;

/// PostgreSQL's first version that says of which version the collation of a database is.
const TELLS_VERSIONS: u32 = 15;

/// Bytes of texts that a server is asked about at once: of a message it takes a gigabyte less one.
const BYTES_MAX: usize = 0x3fff_f000;

const INT4: u32 = 23;
const TEXT: u32 = 25;

/// What tells the collation of a database `d` from others, as SQL: NULL where that cannot be told. The columns of the catalog differ from
/// version to version of PostgreSQL, so that they are looked at as JSON; a collation without a version, as that of a C library without
/// versions, is like no other.
pub const DATABASE_IDENTITY: &str = "(SELECT pg_catalog.jsonb_object_agg(e.key, e.value) \
     FROM pg_catalog.jsonb_each(pg_catalog.to_jsonb(d)) e \
     WHERE e.key IN ('datlocprovider', 'datcollate', 'datctype', 'daticulocale', 'datlocale', 'daticurules'))::text \
     || ' ' || pg_catalog.pg_database_collation_actual_version(d.oid)";

/// Whether a server says of which version a collation is.
#[must_use]
pub fn tells_versions(lease: &Lease) -> bool {
    let version = lease.parameter("server_version").unwrap_or_default();
    let major = version.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    major.parse::<u32>().is_ok_and(|major| major >= TELLS_VERSIONS)
}

/// What tells the collation of a server's database from others: texts are in the same order, and equal where their bytes are, in all
/// databases that say the same. `None`: that cannot be told.
///
/// # Errors
/// What the server says.
pub async fn identity_of(lease: &mut Lease) -> Result<Option<String>> {
    if !tells_versions(lease) {
        return Ok(None);
    }
    lease.queue_scan(&format!(
        "SELECT {DATABASE_IDENTITY} FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()"
    ));
    lease.flush().await?;
    let (mut identity, mut failure) = (None, None);
    while let Some(range) = lease.next_row(&[TEXT], &mut failure).await? {
        let value =
            RowReader::new(lease.row(&range)).and_then(|mut row| row.value().map(|value| value.map(<[u8]>::to_vec)));
        identity = value.map_err(|_| broken())?.and_then(|bytes| String::from_utf8(bytes).ok());
        lease.consume_row(&range);
    }
    Ok(identity)
}

/// The ranks of texts, which are all different, in their order: 1 for the first of all. `collation` is as SQL writes it; `None`: that of
/// the database. The caller has charged for twice the texts.
///
/// # Errors
/// 54000 where the texts together are too long for a server; what it says.
pub async fn ranks_of(lease: &mut Lease, collation: Option<&str>, texts: &[&[u8]]) -> Result<Vec<u32>> {
    let mut ranks = Vec::with_capacity(texts.len());
    if texts.is_empty() {
        return Ok(ranks);
    }
    let collate = collation.map_or(String::new(), |collation| format!(" COLLATE {collation}"));
    let question = format!(
        "SELECT (pg_catalog.dense_rank() OVER (ORDER BY u.t{collate}))::int4 \
         FROM pg_catalog.unnest($1::text[]) WITH ORDINALITY AS u(t, n) ORDER BY u.n"
    );
    let array: Arc<[u8]> = array_of(texts)?.into();
    lease.queue_scan_with(&question, &[array]);
    lease.flush().await?;
    let mut failure = None;
    while let Some(range) = lease.next_row(&[INT4], &mut failure).await? {
        let value = RowReader::new(lease.row(&range)).and_then(|mut row| row.value());
        let rank = value.map_err(|_| broken())?.and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
        ranks.push(u32::from_be_bytes(rank.ok_or_else(broken)?));
        lease.consume_row(&range);
    }
    if ranks.len() == texts.len() { Ok(ranks) } else { Err(broken()) }
}

/// Texts as an array in binary form: dimensions, whether there are NULLs, type, length, lower bound, and each with its length.
fn array_of(texts: &[&[u8]]) -> Result<Vec<u8>> {
    let word = |number: usize| i32::try_from(number).map(i32::to_be_bytes).map_err(|_| too_long());
    let bytes = 20 + texts.iter().map(|text| 4 + text.len()).sum::<usize>();
    if bytes > BYTES_MAX {
        return Err(too_long());
    }
    let mut array = Vec::with_capacity(bytes);
    for head in [1, 0, TEXT] {
        array.extend_from_slice(&head.to_be_bytes());
    }
    array.extend_from_slice(&word(texts.len())?);
    array.extend_from_slice(&1_u32.to_be_bytes());
    for text in texts {
        array.extend_from_slice(&word(text.len())?);
        array.extend_from_slice(text);
    }
    Ok(array)
}

/// 54000
fn too_long() -> Error {
    Error::new(
        ErrorCode::ProgramLimitExceeded,
        "the texts to be sorted are too long for a shard to be asked for their order",
    )
}

/// 08P01
fn broken() -> Error {
    Error::new(ErrorCode::ProtocolViolation, "a shard sent what cannot be read")
}
