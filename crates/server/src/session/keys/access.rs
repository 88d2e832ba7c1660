//! One row, read or changed: in the store, or in the transaction that EXEC is running.
//!
//! Called by every handler that touches a key, so that no command knows whether it runs alone.

use std::sync::Arc;

use ashlar_base::{Datum, Error, ErrorCode};
use ashlar_store::{Entry, KeyTransaction, Region, RowRef};

use super::KeyService;
use super::error::Outcome;

/// The transaction that commands are part of while EXEC runs them; none for a command by itself.
pub(super) type Running = Option<Box<KeyTransaction>>;

/// Attempts of a command on several keys whose snapshot others overtake, before it says so.
pub(super) const ATTEMPTS_MAX: usize = 100;

/// Reads the row of a key under the lock of its partition.
#[inline]
pub(super) fn read<R>(
    running: &mut Running,
    region: &Arc<Region>,
    key: &[Datum<'_>],
    f: impl FnOnce(Option<RowRef<'_>>) -> R,
) -> Outcome<R> {
    Ok(match running {
        None => region.get(key, f),
        Some(transaction) => transaction.get(region, key, f)?,
    })
}

/// Like [`read`], and the row does not count as used.
pub(super) fn peek<R>(
    running: &mut Running,
    region: &Arc<Region>,
    key: &[Datum<'_>],
    f: impl FnOnce(Option<RowRef<'_>>) -> R,
) -> Outcome<R> {
    Ok(match running {
        None => region.peek(key, f),
        Some(transaction) => transaction.get(region, key, f)?,
    })
}

/// Reads and changes the row of a key under the lock of its partition.
#[inline]
pub(super) fn change<R, E: From<Error>>(
    running: &mut Running,
    region: &Arc<Region>,
    key: &[Datum<'_>],
    f: impl FnOnce(&mut Entry<'_>) -> Result<R, E>,
) -> Result<R, E> {
    match running {
        None => region.entry(key, f),
        Some(transaction) => transaction.entry(region, key, f)?,
    }
}

/// Runs a command on several keys as one commit, or as a part of the one that is running. `work` runs again when one of
/// the keys was changed by somebody else meanwhile.
pub(super) fn atomically<R>(
    service: &KeyService,
    running: &mut Running,
    mut work: impl FnMut(&mut KeyTransaction) -> Result<R, Error>,
) -> Outcome<R> {
    if let Some(transaction) = running {
        return Ok(work(transaction)?);
    }
    let store = service.shared.engine.store();
    let mut attempt = 0;
    loop {
        attempt += 1;
        let mut transaction = KeyTransaction::new(store);
        let done = work(&mut transaction).and_then(|result| transaction.commit(store).map(|()| result));
        match done {
            Ok(result) => return Ok(result),
            Err(error) if error.code() == ErrorCode::SerializationFailure && attempt < ATTEMPTS_MAX => {}
            Err(error) => return Err(error.into()),
        }
    }
}
